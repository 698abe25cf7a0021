/* bench_check.c - what hcq_check.h costs: the same work on a checked device and on one that
   is not. With a library of its own, as nobody else's is to have it compiled in. */

#define _GNU_SOURCE
#define HCQ_STATIC
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#define HCQ_CHECK
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BUFFERS = 1000, BUFFER_BYTES = 256, FEW = 250, MANY = 16000 };

/* A device that is open while its side is measured: one that is checked costs all. */
typedef struct checked {
    uint32_t flags;
    hcq_device *device;
    hcq_queue *queue;
    hcq_buffer counters;
} checked;

static uint64_t g_bytes;                  /* atomic: that hcq has from its hooks */

static void *counted_alloc(void *user, size_t size, size_t align) {
    void *memory = NULL;
    (void)user;
    __atomic_add_fetch(&g_bytes, size, __ATOMIC_RELAXED);
    return posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size) != 0
               ? NULL : memory;
}

static void counted_free(void *user, void *memory, size_t size) {
    (void)user;
    __atomic_sub_fetch(&g_bytes, size, __ATOMIC_RELAXED);
    free(memory);
}

static void tiny(const void *args, const hcq_block *block) {
    const bench_tiny_args *a = HCQ_ARGS(bench_tiny_args, args);
    (void)block;
    *HCQ_PTR(uint64_t, a->counter) += 1;
}

static void device_open(checked *c) {
    hcq_device_desc desc = {.flags = c->flags, .memory = {counted_alloc, counted_free, NULL}};
    CHECK(hcq_open("CPU", &desc, &c->device));
    if (c->flags & HCQ_DEVICE_CHECK) {
        hcqi_order.hooks = desc.memory;   /* which are malloc's, but count */
    }
    CHECK(hcq_alloc(c->device, 64 * 8, HCQ_ZEROED | HCQ_HOST_VISIBLE, &c->counters));
    CHECK(hcq_queue_create(c->device, HCQ_COMPUTE, &c->queue));
}

static void device_close(void *ctx) {
    checked *c = (checked *)ctx;
    CHECK(hcq_close(c->device));
}

static void go(const checked *c) {
    hcq_point done;
    CHECK(hcq_queue_submit(c->queue, c->device, &done));
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
}

/* ---- a bound chain ------------------------------------------------------- */

static void chain_open(void *ctx) {
    checked *c = (checked *)ctx;
    device_open(c);
    const hcq_program_desc desc = {.label = "tiny", .cpu = tiny, .args = {HCQ_ARG_INOUT}};
    hcq_program *program;
    hcq_buffer counter = hcq_view(c->counters, 0, 8);
    bench_tiny_args args = {counter.address};
    uint64_t value;
    CHECK(hcq_program_create(c->device, &desc, &program));
    for (int32_t i = 0; i < BENCH_CHAIN; i++) {
        CHECK(hcq_queue_exec(c->queue, program, &args, sizeof args, hcq_dim(1, 1, 1),
                             hcq_dim(1, 1, 1)));
        CHECK(hcq_queue_access(c->queue, i, counter, HCQ_ARG_INOUT));
    }
    CHECK(hcq_queue_bind(c->queue, c->device));
    go(c);
    CHECK(hcq_copyout(&value, counter, sizeof value));
    bench_counter(value, BENCH_CHAIN, "check.replay_1000");
}

BENCH_RUN(chain_replay, const checked, c) { go(c); }

/* ---- memory, and what is pending ----------------------------------------- */

/* What hcq has behind a command that wrote each of many buffers. */
static double bytes_behind(uint32_t flags) {
    checked c = {.flags = flags};
    device_open(&c);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        hcq_buffer b;
        CHECK(hcq_alloc(c.device, BUFFER_BYTES, HCQ_ZEROED, &b));
        CHECK(hcq_queue_fill(c.queue, b, BUFFER_BYTES, 7, 4));
    }
    go(&c);
    double bytes = (double)__atomic_load_n(&g_bytes, __ATOMIC_RELAXED);
    device_close(&c);
    return bytes / BUFFERS;
}

/* Of this thread: on a busy machine what others do does not count, nor do hcq's threads. */
static uint64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds each of so many submissions takes that are pending at once, from its submit until
   it is handed over: fills on a lane, or unordered copies that read the same. */
static double pending_ns(uint32_t count, uint32_t flags) {
    checked c = {.flags = HCQ_DEVICE_CHECK};
    hcq_signal gate;
    hcq_buffer to;
    device_open(&c);
    CHECK(hcq_signal_create(c.device, 0, &gate));
    CHECK(hcq_alloc(c.device, (uint64_t)count * 8, HCQ_ZEROED, &to));
    hcq_queue **queues = (hcq_queue **)bench_alloc(count * sizeof *queues, 0);
    for (uint32_t i = 0; i < count; i++) {
        hcq_buffer own = hcq_view(to, (uint64_t)i * 8, 8);
        CHECK(hcq_queue_create(c.device, HCQ_COMPUTE, &queues[i]));
        CHECK(flags == 0 ? hcq_queue_fill(queues[i], hcq_view(to, i % 64 * 8, 8), 8, i, 8)
                         : hcq_queue_copy(queues[i], own, hcq_view(c.counters, 0, 8), 8));
    }
    const hcq_point open = hcq_at(gate, 1);
    uint64_t began = thread_ns(), races;
    for (uint32_t i = 0; i < count; i++) {
        hcq_submission s = {.waits = &open, .wait_count = flags != 0 || i == 0,
                            .queues = &queues[i], .queue_count = 1, .flags = flags};
        CHECK(hcq_submit(c.device, &s, 1, NULL));
    }
    CHECK(hcq_signal_set(gate, 1));
    double ns = (double)(thread_ns() - began) / count;
    CHECK(hcq_device_synchronize(c.device, HCQ_FOREVER));
    CHECK(hcq_device_query(c.device, HCQ_QUERY_RACES, &races));
    bench_counter(races, 0, "races");
    device_close(&c);
    free(queues);
    return ns;
}

/* The ratio of the medians of runs in turns. */
static double pending_ratio(uint32_t flags) {
    double ns[2][7];
    const uint32_t turns = bench_of(1, 5, 7);
    for (uint32_t i = 0; i < turns; i++) {
        ns[0][i] = pending_ns(FEW, flags);
        ns[1][i] = pending_ns(bench_of(FEW, MANY, MANY), flags);
    }
    return bench_median(ns[1], turns) / bench_median(ns[0], turns);
}

static void replay_1000(bench_result *result) {
    checked ours = {HCQ_DEVICE_CHECK}, peer = {0};
    bench_side sides[2] = {{chain_replay, &ours, chain_open, device_close},
                           {chain_replay, &peer, chain_open, device_close}};
    bench_compare(result, sides, 2, 1.0 / BENCH_CHAIN);
    bench_note(result, "the same library and device, not checked");
    bench_extra_add(result, "bytes_per_buffer", bytes_behind(HCQ_DEVICE_CHECK) - bytes_behind(0));
    bench_extra_add(result, "pending_ratio", pending_ratio(0));
    bench_extra_add(result, "readers_ratio", pending_ratio(HCQ_UNORDERED));
}

const bench bench_check_rows[] = {{"check.replay_1000", "ns/kernel", BENCH_NONE, replay_1000}, {0}};
