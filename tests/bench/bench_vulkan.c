/* bench_vulkan.c - hcq's Vulkan backend against Vulkan by hand (bench_vulkan_raw.h).

   Both sides use the same device, queue, memory, shader and barriers.
   On a machine of few processors it decides more than either side does where
   the scheduler puts a driver's threads. So each bench ties itself to one
   processor before any of them starts: they inherit that. Figures of a driver
   that computes on the processor (lavapipe) are for that placement.
*/

#define HCQ_VULKAN
#include "bench.h"

#include "bench_vulkan_raw.h"
#include "bench_vulkan_spirv.h"

#include <stdio.h>
#include <time.h>

enum { CHAIN = BENCH_CHAIN, BURST = 64, PATCHES = 100, COPIED = 64 };

/* Arguments of the shader: *counter += step. */
typedef struct tiny_args { uint64_t counter; uint32_t step; uint32_t pad; } tiny_args;

/* Both sides of a bench. */
typedef struct vulkan {
    hcq_device *device;
    hcq_program *program;
    hcq_buffer counter, other;
    hcq_queue *queue;
    raw raw;
    hcq_buffer raw_args, raw_counter, raw_other;
    VkCommandBuffer commands;
    uint32_t count;                       /* kernels that one replay runs */
    uint64_t runs, raw_runs;              /* of these kernels, so far */
} vulkan;

/* ---- opening ------------------------------------------------------------- */

/* Opens the other side; says in the note on which device. */
static int peer_open(vulkan *v, bench_result *result) {
    hcq_device_info about;
    hcq_vulkan_info info;
    hcq_vulkan_lane_info lane;
    char text[600];
    CHECK(hcq_device_info_get(v->device, &about));
    CHECK(hcq_vulkan_info_get(v->device, &info));
    CHECK(hcq_vulkan_lane(v->device, HCQ_COMPUTE, 0, &lane));
    if (info.api_version < VK_API_VERSION_1_3) {
        bench_note(result, "SKIP: the device is not of Vulkan 1.3");
        return 0;
    }
    snprintf(text, sizeof text, "%s, %s; all threads on one processor", about.name, info.driver);
    bench_note(result, text);
    raw_open(&v->raw, &info, &lane);
    raw_pipeline(&v->raw, spirv_tiny, sizeof spirv_tiny);
    v->commands = raw_commands(&v->raw);
    return 1;
}

/* 0: a side is missing, and the note says why. `slots`: versions of a bound queue,
   0 for the default. */
static int vulkan_open(vulkan *v, uint32_t slots, hcq_queue_kind kind, bench_result *result) {
    hcq_program_desc tiny = {.label = "tiny", .args = {HCQ_ARG_INOUT, HCQ_ARG_U32},
                             .spirv = {spirv_tiny, sizeof spirv_tiny, NULL, 0}};
    memset(v, 0, sizeof *v);
    bench_place_threads(BENCH_FIRST);
    v->device = bench_open("VULKAN", (hcq_device_desc){.versions = slots}, result);
    if (v->device == NULL) {
        return 0;
    }
    if (!peer_open(v, result)) {
        CHECK(hcq_close(v->device));
        return 0;
    }
    CHECK(hcq_program_create(v->device, &tiny, &v->program));
    v->counter = bench_buffer(v->device, COPIED);
    v->other = bench_buffer(v->device, COPIED);
    v->raw_counter = bench_buffer(v->device, COPIED);
    v->raw_other = bench_buffer(v->device, COPIED);
    v->raw_args = bench_buffer(v->device, CHAIN * sizeof(tiny_args));
    v->queue = bench_queue(v->device, kind);
    return 1;
}

static void vulkan_close(vulkan *v) {
    raw_close(&v->raw);
    hcq_queue_destroy(v->queue);
    CHECK(hcq_close(v->device));
}

/* ---- the chain on both sides --------------------------------------------- */

static void exec_on(const vulkan *v, hcq_buffer counter) {
    tiny_args args = {counter.address, 1, 0};
    bench_exec(v->queue, v->program, &args, sizeof args);
}

static void record_chain(const vulkan *v) {
    for (uint32_t i = 0; i < v->count; i++) {
        exec_on(v, v->counter);
    }
}

/* Every dispatch has an argument block of its own, as hcq's have. */
static VkDeviceAddress raw_args_at(const vulkan *v, uint32_t i, hcq_buffer counter) {
    tiny_args *args = (tiny_args *)v->raw_args.host + i;
    args->counter = counter.address;
    args->step = 1;
    return v->raw_args.address + i * sizeof *args;
}

/* Also what a user of plain Vulkan does who wants something else: it is recorded again. */
BENCH_RUN(raw_record_chain, const vulkan, v) {
    const raw *r = &v->raw;
    raw_begin(r, v->commands);
    r->CmdBindPipeline(v->commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->pipeline);
    for (uint32_t i = 0; i < v->count; i++) {
        if (i != 0) {
            raw_between(r, v->commands);
        }
        raw_dispatch(r, v->commands, raw_args_at(v, i, v->raw_counter));
    }
    raw_end(r, v->commands);
}

static void make_chain(vulkan *v, uint32_t count) {
    v->count = count;
    record_chain(v);
    CHECK(hcq_queue_bind(v->queue, v->device));
    raw_record_chain(v, 1);
}

BENCH_RUN(replay, vulkan, v) {
    bench_submit_and_wait(v->queue, v->device);
    v->runs++;
}

BENCH_RUN(raw_replay, vulkan, v) {
    raw_submit(&v->raw, v->commands);
    raw_wait(&v->raw);
    v->raw_runs++;
}

/* Did every kernel of both sides run? Counters wrap around. */
static void check_counters(const vulkan *v, const char *name) {
    const uint32_t *ours = (const uint32_t *)v->counter.host;
    const uint32_t *theirs = (const uint32_t *)v->raw_counter.host;
    bench_counter(*ours, (uint32_t)(v->runs * v->count), name);
    bench_counter(*theirs, (uint32_t)(v->raw_runs * v->count), name);
}

/* ---- replay -------------------------------------------------------------- */

static void replay_chain(bench_result *result) {
    const uint32_t count = result->number;
    vulkan v;
    if (!vulkan_open(&v, 0, HCQ_COMPUTE, result)) {
        return;
    }
    make_chain(&v, count);
    bench_side sides[2] = {{replay, &v}, {raw_replay, &v}};
    bench_compare(result, sides, 2, 1.0 / count);
    check_counters(&v, "replay");
    vulkan_close(&v);
}

/* ---- the call alone ------------------------------------------------------ */

/* A burst of submits, then a wait: the median of one call. Most calls of a burst
   find the driver's thread awake, or waiting for this processor. */
static double burst(void *ctx) {
    vulkan *v = (vulkan *)ctx;
    double calls[BURST];
    hcq_point done = {{0}, 0};
    for (uint32_t i = 0; i < BURST; i++) {
        uint64_t before = bench_now();
        CHECK(hcq_queue_submit(v->queue, v->device, &done));
        calls[i] = (double)(bench_now() - before);
    }
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
    v->runs += BURST;
    return bench_median(calls, BURST);
}

static double raw_burst(void *ctx) {
    vulkan *v = (vulkan *)ctx;
    double calls[BURST];
    for (uint32_t i = 0; i < BURST; i++) {
        uint64_t before = bench_now();
        raw_submit(&v->raw, v->commands);
        calls[i] = (double)(bench_now() - before);
    }
    raw_wait(&v->raw);
    v->raw_runs += BURST;
    return bench_median(calls, BURST);
}

static void submit_call(bench_result *result) {
    double difference[BENCH_MAX_PASSES];
    vulkan v;
    if (!vulkan_open(&v, 0, HCQ_COMPUTE, result)) {
        return;
    }
    make_chain(&v, 1);
    bench_side sides[2] = {{.ctx = &v, .sample = burst}, {.ctx = &v, .sample = raw_burst}};
    const bench_stats *stats = bench_compare(result, sides, 2, 1.0);
    for (uint32_t i = 0; i < stats[0].passes; i++) {
        difference[i] = stats[0].pass[i] - stats[1].pass[i];
    }
    bench_extra_add(result, "difference_ns", bench_median(difference, stats[0].passes));
    check_counters(&v, "submit_call");
    vulkan_close(&v);
}

/* ---- copies and kernels in turn ------------------------------------------ */

/* Two counters: a kernel raises one, a copy carries it to the other, and so on.
   Each step needs the one before. */
static void record_alternating(const vulkan *v) {
    for (uint32_t i = 0; i < CHAIN; i += 4) {
        exec_on(v, v->counter);
        hcq_queue_copy(v->queue, v->other, v->counter, COPIED);
        exec_on(v, v->other);
        hcq_queue_copy(v->queue, v->counter, v->other, COPIED);
    }
    CHECK(hcq_queue_bind(v->queue, v->device));
}

static void raw_record_alternating(const vulkan *v) {
    const raw *r = &v->raw;
    raw_begin(r, v->commands);
    r->CmdBindPipeline(v->commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->pipeline);
    for (uint32_t i = 0; i < CHAIN; i += 2) {
        hcq_buffer from = i % 4 == 0 ? v->raw_counter : v->raw_other;
        hcq_buffer to = i % 4 == 0 ? v->raw_other : v->raw_counter;
        if (i != 0) {
            raw_between(r, v->commands);
        }
        raw_dispatch(r, v->commands, raw_args_at(v, i, from));
        raw_between(r, v->commands);
        raw_copy(r, v->commands, to, from, COPIED);
    }
    raw_end(r, v->commands);
}

static void graph_1000_alternating(bench_result *result) {
    vulkan v;
    if (!vulkan_open(&v, 0, HCQ_GRAPH, result)) {
        return;
    }
    v.count = CHAIN / 2;
    record_alternating(&v);
    raw_record_alternating(&v);
    bench_side sides[2] = {{replay, &v}, {raw_replay, &v}};
    bench_compare(result, sides, 2, 1.0 / CHAIN);
    check_counters(&v, "graph_1000_alternating");
    vulkan_close(&v);
}

/* ---- patching ------------------------------------------------------------ */
/* A sample is the processor's time for so many changes, a submission and the wait for it; the
   other side's is without changes, and runs the grids and steps that came last: as all threads
   share a processor and none sleeps while there is work, only patching differs. */

typedef struct patched {
    vulkan v;
    int grid;                             /* else an argument */
} patched;

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double plain_sample(void *ctx) {
    const vulkan *v = &((const patched *)ctx)->v;
    double start = cpu_now();
    bench_submit_and_wait(v->queue, v->device);
    return cpu_now() - start;
}

static double patch_sample(void *ctx) {
    static uint32_t turn;
    const patched *p = (const patched *)ctx;
    uint32_t step = 1 + turn++ % 2;       /* never what it was before */
    hcq_dims dims = hcq_dim(step, 3 - step, 1);
    double start = cpu_now();
    for (uint32_t i = 0; i < PATCHES; i++) {
        if (p->grid) {
            hcq_queue_update_exec(p->v.queue, i, &dims, NULL);
        } else {
            hcq_queue_update_arg(p->v.queue, i, offsetof(tiny_args, step), &step, sizeof step);
        }
    }
    double called = cpu_now() - start;
    return called + plain_sample(ctx);
}

/* The peer records all again, which has no ratio: it is paid once a submission. */
static void patch(bench_result *result) {
    bench_stats stats[3];
    patched p;
    if (!vulkan_open(&p.v, 0, HCQ_COMPUTE, result)) {
        return;
    }
    p.grid = result->number != 0;
    make_chain(&p.v, PATCHES);
    bench_side sides[3] = {{.ctx = &p, .sample = patch_sample}, {.ctx = &p, .sample = plain_sample},
                           {raw_record_chain, &p.v}};
    bench_throughput(sides, 3, stats);
    result->ours = (stats[0].median - stats[1].median) / PATCHES;
    result->peer = stats[2].median / PATCHES;
    vulkan_close(&p.v);
}

/* ---- recording ----------------------------------------------------------- */

BENCH_RUN(record_bind, vulkan, v) {
    CHECK(hcq_queue_reset(v->queue));
    record_chain(v);
    CHECK(hcq_queue_bind(v->queue, v->device));
}

/* With one version both sides put each command into a command buffer once. */
static void record_dispatch(bench_result *result) {
    vulkan v;
    if (!vulkan_open(&v, 1, HCQ_COMPUTE, result)) {
        return;
    }
    make_chain(&v, CHAIN);
    bench_side sides[2] = {{record_bind, &v}, {raw_record_chain, &v}};
    bench_compare(result, sides, 2, 1.0 / CHAIN);
    replay(&v, 1);
    raw_replay(&v, 1);
    check_counters(&v, "record_dispatch");
    vulkan_close(&v);
}

/* ---- a large copy -------------------------------------------------------- */

/* All memory is touched long before it is measured. */
static void copy_256m(bench_result *result) {
    const uint64_t bytes = (uint64_t)bench_of(16, 256, 256) << 20;
    hcq_buffer dst[2], src;
    vulkan v;
    if (!vulkan_open(&v, 0, HCQ_COPY, result)) {
        return;
    }
    src = bench_buffer(v.device, bytes);
    memset(src.host, 2, bytes);
    for (uint32_t side = 0; side < 2; side++) {
        dst[side] = bench_buffer(v.device, bytes);
        memset(dst[side].host, 1, bytes);
    }
    hcq_queue_copy(v.queue, dst[0], src, bytes);
    CHECK(hcq_queue_bind(v.queue, v.device));
    raw_begin(&v.raw, v.commands);
    raw_copy(&v.raw, v.commands, dst[1], src, bytes);
    raw_end(&v.raw, v.commands);
    replay(&v, 1);
    raw_replay(&v, 1);
    if (memcmp(dst[0].host, src.host, bytes) != 0 || memcmp(dst[1].host, src.host, bytes) != 0) {
        bench_die("copy_256m: a copy differs");
    }
    bench_side sides[2] = {{replay, &v}, {raw_replay, &v}};
    bench_compare(result, sides, 2, 1e-6);
    vulkan_close(&v);
}

const bench bench_vulkan_rows[] = {
    {"vulkan.replay_1000", "ns/kernel", 1.05, replay_chain, CHAIN},
    {"vulkan.replay_1", "ns", 1.05, replay_chain, 1},
    {"vulkan.submit_call", "ns", BENCH_NONE, submit_call},
    {"vulkan.graph_1000_alternating", "ns/command", 1.2, graph_1000_alternating},
    {"vulkan.patch_grid", "ns", BENCH_NONE, patch, 1},
    {"vulkan.patch_arg", "ns", BENCH_NONE, patch, 0},
    {"vulkan.record_dispatch", "ns/kernel", 1.3, record_dispatch},
    {"vulkan.copy_256m", "ms", 1.05, copy_256m},
    {0}};
