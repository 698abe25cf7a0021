/* stage.h - a bit of everything on a device, in which any call may fail; each way to fail
   in a process of its own. For the mishaps on the mocks of Vulkan and CUDA. */
#pragma once

#include "support/util.h"

#include <sys/wait.h>

static int stage_is_bad;               /* a wait for what cannot happen, or something left */
static int stage_is_lost;              /* a call told of it */

static int stage_took(int result) {
    stage_is_bad |= result == HCQ_TIMEOUT;
    stage_is_lost |= result == HCQ_ERROR_LOST;
    return result >= 0 && result != HCQ_TIMEOUT;
}
#define TAKE(call) stage_took((int)(call))

typedef struct stage {
    hcq_result opened;
    hcq_device *device;
    hcq_program *add;
    hcq_buffer a, b, large;
    hcq_signal s;
    hcq_queue *q, *copy, *graph, *lone;
} stage;

static int stage_run(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    return TAKE(hcq_queue_submit(queue, device, &done)) &&
           TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
}

static int stage_open(stage *g, const char *backend, hcq_device_desc *desc) {
    static const uint32_t words[1024] = {1, 2, 3};
    hcq_program_desc add = HCQ_PROGRAM(add);
    desc->timeout_ns = 3 * SECOND;
    desc->explain_ns = HCQ_NEVER;
    desc->compute_lanes = 2;
    memset(g, 0, sizeof *g);
    g->opened = hcq_open(backend, desc, &g->device);
    return TAKE(g->opened) &&
           TAKE(hcq_program_create(g->device, &add, &g->add)) &&
           TAKE(hcq_alloc(g->device, 4096, HCQ_ZEROED, &g->a)) &&
           TAKE(hcq_alloc(g->device, 4096, HCQ_HOST_VISIBLE, &g->b)) &&
           TAKE(hcq_alloc(g->device, 20u << 20, 0, &g->large)) &&
           TAKE(hcq_copyin(g->a, words, sizeof words)) &&
           TAKE(hcq_signal_create(g->device, 0, &g->s)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &g->q)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COPY, &g->copy)) &&
           TAKE(hcq_graph_create(g->device, &g->graph)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &g->lone));
}

static void stage_record(const stage *g) {
    add_args args = {g->a.address, 1, 4};
    hcq_dims four = hcq_dim(4, 1, 1), many = hcq_dim(20, 1, 1);
    (void)hcq_queue_exec(g->q, g->add, &args, sizeof args, four, four);
    (void)hcq_queue_copy(g->q, g->b, g->a, 4096);
    (void)hcq_queue_timestamp(g->q, g->s);
    (void)hcq_queue_signal(g->q, hcq_at(g->s, 1));
    (void)hcq_queue_fill(g->q, hcq_view(g->a, 3, 61), 61, 7, 1);
    (void)hcq_queue_fill(g->q, hcq_view(g->a, 1024, 512), 512, 0x123456789a, 8);
    (void)hcq_queue_fill(g->q, hcq_view(g->a, 2048, 62), 62, 7, 2);
    (void)hcq_queue_host(g->q, host_nothing, NULL);
    (void)record_word(g->q, g->b, 5, 8);
    (void)record_word(g->q, g->a, 5, 4);
    (void)hcq_queue_exec(g->q, g->add, &args, sizeof args, many, four);
    (void)hcq_queue_wait(g->copy, hcq_at(g->s, 1));
    (void)hcq_queue_copy(g->copy, hcq_view(g->b, 0, 64), hcq_view(g->a, 64, 64), 64);
    (void)hcq_queue_timestamp(g->copy, g->s);
    (void)hcq_queue_exec(g->graph, g->add, &args, sizeof args, four, four);
    (void)hcq_queue_copy(g->graph, g->b, g->a, 4096);
    (void)hcq_queue_fill(g->graph, g->large, 4096, 1, 4);
    (void)hcq_queue_exec(g->lone, g->add, &args, sizeof args, four, four);
}

/* Bound, profiled, with other values each time. */
static void stage_replay(const stage *g) {
    const hcq_profile_desc profile = {.events = 256};
    TAKE(hcq_queue_update_signal(g->q, 3, NULL, 2));
    TAKE(hcq_queue_bind(g->q, g->device));
    TAKE(hcq_profile_start(g->device, &profile));
    for (uint32_t i = 2; i < 5; i++) {
        hcq_dims grid = {i, 1, 1}, block = {2 + i, 1, 1};
        TAKE(hcq_queue_update_exec(g->q, 0, &grid, i == 3 ? &block : NULL));
        TAKE(hcq_queue_update_copy(g->q, 1, NULL, NULL, 4096 - i));
        TAKE(hcq_queue_update_signal(g->q, 3, NULL, i));
        (void)stage_run(g->q, g->device);
    }
    TAKE(hcq_profile_stop(g->device));
}

/* Two lanes wait for each other. */
static void stage_turns(const stage *g) {
    hcq_point done = {{0}, 0}, before = {{0}, 0};
    hcq_submission s = {.queues = &g->lone, .queue_count = 1, .waits = &before};
    for (uint32_t i = 0; i < 6; i++) {
        s.affinity = i & 1;
        if (TAKE(hcq_submit(g->device, &s, 1, &done))) {
            before = done;
            s.wait_count = 1;
        }
    }
    if (s.wait_count) {
        TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
    }
}

static void stage_eager(const stage *g) {
    static unsigned char words[4096] __attribute__((aligned(4096))), pages[65536]
        __attribute__((aligned(65536))); /* outlives the device, which may be lost */
    const add_args args = {g->a.address, 1, 4};
    uint64_t ns;
    hcq_clock clock;
    hcq_buffer in, late;
    TAKE(hcq_copyout(words, g->b, sizeof words));
    TAKE(hcq_copyout(words, g->a, sizeof words));
    TAKE(hcq_program_call(g->add, &args, sizeof args, dims_one, dims_one, &ns));
    TAKE(hcq_device_clock(g->device, &clock));
    if (TAKE(hcq_alloc(g->device, 50000, HCQ_ZEROED | HCQ_NO_CACHE, &late))) {
        TAKE(hcq_free(late));
    }
    TAKE(hcq_free(g->large));
    TAKE(hcq_trim(g->device, 0));
    if (hcq_import(g->device, pages, sizeof pages, 0, &in) == HCQ_OK) {
        TAKE(hcq_transfer(hcq_transfer_device(in), hcq_transfer_device(g->a), 4096, 0, 3 * SECOND));
        TAKE(hcq_free(in));
    }
    TAKE(hcq_device_synchronize(g->device, 3 * SECOND));
}

/* All of it; `own` has what only this backend does. The device stays open. */
static void stage_play(stage *g, const char *backend, hcq_device_desc *desc,
                       void (*own)(const stage *g)) {
    if (!stage_open(g, backend, desc)) {
        return;
    }
    stage_record(g);
    if (stage_run(g->q, g->device)) {  /* else nobody raises what it waits for */
        (void)stage_run(g->copy, g->device);
    }
    stage_replay(g);
    stage_turns(g);
    (void)stage_run(g->graph, g->device);
    (void)stage_run(g->graph, g->device);
    own(g);
    stage_eager(g);
}

enum { MISHAP_SHUT = 2, MISHAP_NONE, MISHAP_BAD }; /* exit statuses of a child */

/* What a child's end means: 0: it came to nothing, there are fewer calls; MISHAP_SHUT: it did,
   and no device opened; -1: a failure. */
static int mishap_ended(pid_t child) {
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == MISHAP_NONE) {
        return 0;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == MISHAP_SHUT) {
        return MISHAP_SHUT;
    }
    return status == 0 ? 1 : -1;
}
