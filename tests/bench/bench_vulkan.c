/* bench_vulkan.c - hcq's Vulkan backend against Vulkan by hand (bench_vulkan_raw.h).

   Both sides use the same device, shader and barriers, each its own VkDevice.
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

enum { CHAIN = BENCH_CHAIN, BURST = 64, PATCHES = 100, SMALL_COPY = 64, LARGE_COPY = 16384 };

/* Arguments of the shader: *counter += step. */
typedef struct tiny_args { uint64_t counter; uint32_t step; uint32_t pad; } tiny_args;

/* Both sides of a bench. */
typedef struct vulkan {
    hcq_device *device;
    hcq_program *program;
    hcq_buffer counter, other;
    hcq_queue *queue;
    raw raw;
    raw_buffer raw_args, raw_counter, raw_other;
    VkCommandBuffer commands, again;      /* the second: recorded just like the first */
    uint32_t count;                       /* kernels that one replay runs */
    uint64_t runs, raw_runs;              /* of these kernels, so far */
} vulkan;

/* ---- opening ------------------------------------------------------------- */

/* Opens the other side on hcq's device; says in the note which one that is. */
static int peer_open(vulkan *v, bench_result *result) {
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    hcq_vulkan_info info;
    hcq_vulkan_lane_info lane;
    char text[600];
    CHECK(hcq_vulkan_info_get(v->device, &info));
    CHECK(hcq_vulkan_lane(v->device, HCQ_COMPUTE, 0, &lane));
    PFN_vkGetPhysicalDeviceProperties2 properties =
        (PFN_vkGetPhysicalDeviceProperties2)info.loader(info.instance,
                                                        "vkGetPhysicalDeviceProperties2");
    properties(info.physical_device, &p);
    if (p.properties.apiVersion < VK_API_VERSION_1_3) {
        bench_note(result, "SKIP: the device is not of Vulkan 1.3");
        return 0;
    }
    snprintf(text, sizeof text, "%s, %s; all threads on one processor", p.properties.deviceName,
             info.driver);
    bench_note(result, text);
    raw_open(&v->raw, &info, lane.family);
    raw_pipeline(&v->raw, spirv_tiny, sizeof spirv_tiny);
    v->raw_args = raw_buffer_make(&v->raw, CHAIN * sizeof(tiny_args));
    v->raw_counter = raw_buffer_make(&v->raw, LARGE_COPY);
    v->raw_other = raw_buffer_make(&v->raw, LARGE_COPY);
    v->commands = raw_commands(&v->raw);
    v->again = raw_commands(&v->raw);
    return 1;
}

/* 0: a side is missing, and the note says why. `slots`: versions of a bound queue,
   0 for the default. */
static int vulkan_open(vulkan *v, uint32_t slots, hcq_queue_kind kind, bench_result *result) {
    hcq_device_desc desc = {.versions = slots};
    hcq_program_desc tiny = {.label = "tiny", .args = {HCQ_ARG_INOUT, HCQ_ARG_U32},
                             .spirv = {spirv_tiny, sizeof spirv_tiny, NULL, 0}};
    memset(v, 0, sizeof *v);
    bench_place_threads(BENCH_FIRST);
    hcq_result opened = hcq_open("VULKAN", &desc, &v->device);
    if (opened != HCQ_OK) {
        char text[100];
        snprintf(text, sizeof text, "SKIP: VULKAN: %s", hcq_result_text(opened));
        bench_note(result, text);
        return 0;
    }
    if (!peer_open(v, result)) {
        CHECK(hcq_close(v->device));
        return 0;
    }
    CHECK(hcq_program_create(v->device, &tiny, &v->program));
    v->counter = bench_buffer(v->device, LARGE_COPY);
    v->other = bench_buffer(v->device, LARGE_COPY);
    v->queue = bench_queue(v->device, kind);
    return 1;
}

static void vulkan_close(vulkan *v) {
    RAW(&v->raw, DeviceWaitIdle(v->raw.device));
    raw_buffer_free(&v->raw, &v->raw_args);
    raw_buffer_free(&v->raw, &v->raw_counter);
    raw_buffer_free(&v->raw, &v->raw_other);
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
static VkDeviceAddress raw_args_at(const vulkan *v, uint32_t i, const raw_buffer *counter) {
    tiny_args *args = (tiny_args *)v->raw_args.host + i;
    args->counter = counter->address;
    args->step = 1;
    return v->raw_args.address + i * sizeof *args;
}

static void raw_record_chain(const vulkan *v, VkCommandBuffer commands) {
    const raw *r = &v->raw;
    raw_begin(r, commands);
    r->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->pipeline);
    for (uint32_t i = 0; i < v->count; i++) {
        if (i != 0) {
            raw_between(r, commands);
        }
        raw_dispatch(r, commands, raw_args_at(v, i, &v->raw_counter));
    }
    raw_end(r, commands);
}

static void make_chain(vulkan *v, uint32_t count) {
    v->count = count;
    record_chain(v);
    CHECK(hcq_queue_bind(v->queue, v->device));
    raw_record_chain(v, v->commands);
    raw_record_chain(v, v->again);
}

BENCH_RUN(replay, vulkan, v) {
    bench_submit_and_wait(v->queue, v->device);
    v->runs++;
}

static void raw_replay_of(vulkan *v, VkCommandBuffer commands) {
    raw_submit(&v->raw, commands);
    raw_wait(&v->raw);
    v->raw_runs++;
}

BENCH_RUN(raw_replay, vulkan, v) { raw_replay_of(v, v->commands); }
BENCH_RUN(raw_replay_again, vulkan, v) { raw_replay_of(v, v->again); }

/* Did every kernel of both sides run? Counters wrap around. */
static void check_counters(const vulkan *v, const char *name) {
    uint32_t ours = 0;
    CHECK(hcq_copyout(&ours, v->counter, sizeof ours));
    bench_counter(ours, (uint32_t)(v->runs * v->count), name);
    bench_counter(*(const uint32_t *)v->raw_counter.host, (uint32_t)(v->raw_runs * v->count), name);
}

static double recorded(const vulkan *v) {
    uint64_t value = 0;
    CHECK(hcq_device_query(v->device, HCQ_VULKAN_QUERY_RECORDED, &value));
    return (double)value;
}

/* A replay puts nothing into command buffers. */
static void check_recorded(const vulkan *v, double before, bench_result *result) {
    double more = recorded(v) - before;
    if (more > 0.0) {
        bench_die("replay recorded %.0f commands", more);
    }
    bench_extra_add(result, "recorded_during_replay", more);
}

/* ---- where others work, too ---------------------------------------------- */
/* All threads of a bench share a processor and none sleeps while there is work,
   so the time that the process was given is what a quiet machine would show. The
   sides take turns every few hundred microseconds. */

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double cpu_ratio(const bench_side sides[2], uint64_t n) {
    enum { TURNS = 1000 };
    static double a[TURNS], b[TURNS];
    uint32_t turns = bench_of(2, TURNS / 5, TURNS);
    for (uint32_t i = 0; i < turns; i++) {
        double start = cpu_now();
        sides[0].run(sides[0].ctx, n);
        double middle = cpu_now();
        sides[1].run(sides[1].ctx, n);
        a[i] = middle - start;
        b[i] = cpu_now() - middle;
    }
    return bench_median(a, turns) / bench_median(b, turns);
}

/* ---- replay -------------------------------------------------------------- */

/* The other side twice: what differs there is noise. */
static void replay_chain(bench_result *result) {
    const uint32_t count = result->number;
    vulkan v;
    bench_result noise = {0};
    if (!vulkan_open(&v, 0, HCQ_COMPUTE, result)) {
        return;
    }
    make_chain(&v, count);
    replay(&v, 2);
    bench_side sides[3] = {{replay, &v}, {raw_replay, &v}, {raw_replay_again, &v}};
    double before = recorded(&v);
    const bench_stats *stats = bench_compare(result, sides, 3, 1.0 / count);
    bench_extra_add(result, "cpu_time_ratio", cpu_ratio(sides, count == 1 ? 20 : 1));
    check_recorded(&v, before, result);
    double in_a_pass = bench_report(&noise, &stats[2], &stats[1], 1.0);
    bench_extra_add(result, "raw_against_raw", noise.ratio);
    bench_extra_add(result, "raw_against_raw_in_a_pass", in_a_pass);
    check_counters(&v, "replay");
    vulkan_close(&v);
}

/* ---- the call alone ------------------------------------------------------ */

/* Bursts of submits, then a wait: the median of one call. Most calls of a burst
   find the driver's thread awake, or waiting for this processor. */
static double burst_calls(vulkan *v, uint32_t bursts, int ours) {
    static double calls[BURST * 64];
    uint32_t at = 0;
    hcq_point done = {{0}, 0};
    for (uint32_t b = 0; b < bursts; b++) {
        for (uint32_t i = 0; i < BURST; i++) {
            uint64_t before = bench_now();
            if (ours) {
                CHECK(hcq_queue_submit(v->queue, v->device, &done));
            } else {
                raw_submit(&v->raw, v->commands);
            }
            calls[at++] = (double)(bench_now() - before);
        }
        if (ours) {
            CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
        } else {
            raw_wait(&v->raw);
        }
        *(ours ? &v->runs : &v->raw_runs) += BURST;
    }
    return bench_median(calls, at);
}

static double burst_pass(vulkan *v, int ours) {
    burst_calls(v, bench_of(1, 16, 16), ours);
    return burst_calls(v, bench_of(1, 64, 64), ours);
}

static double calls_pass(void *ctx) { return burst_pass((vulkan *)ctx, 1); }
static double raw_calls_pass(void *ctx) { return burst_pass((vulkan *)ctx, 0); }

static void submit_call(bench_result *result) {
    static double (*const passes[2])(void *) = {calls_pass, raw_calls_pass};
    double difference[BENCH_MAX_PASSES];
    uint32_t count = bench_of(2, BENCH_MAX_PASSES / 2, BENCH_MAX_PASSES);
    bench_stats stats[2];
    vulkan v;
    if (!vulkan_open(&v, 0, HCQ_COMPUTE, result)) {
        return;
    }
    make_chain(&v, 1);
    bench_passes(passes, 2, &v, count, 2, stats);
    for (uint32_t i = 0; i < count; i++) {
        difference[i] = stats[0].pass[i] - stats[1].pass[i];
    }
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_extra_add(result, "difference_ns", bench_median(difference, count));
    bench_extra_add(result, "difference_goal_ns", 100.0);
    check_counters(&v, "submit_call");
    vulkan_close(&v);
}

/* ---- copies and kernels in turn ------------------------------------------ */

/* Two counters: a kernel raises one, a copy carries it to the other, and so on.
   Each step needs the one before. */
static void record_alternating(const vulkan *v, uint64_t size) {
    for (uint32_t i = 0; i < CHAIN; i += 4) {
        exec_on(v, v->counter);
        hcq_queue_copy(v->queue, v->other, v->counter, size);
        exec_on(v, v->other);
        hcq_queue_copy(v->queue, v->counter, v->other, size);
    }
    CHECK(hcq_queue_bind(v->queue, v->device));
}

static void raw_record_alternating(const vulkan *v, uint64_t size) {
    const raw *r = &v->raw;
    raw_begin(r, v->commands);
    r->CmdBindPipeline(v->commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->pipeline);
    for (uint32_t i = 0; i < CHAIN; i += 2) {
        const raw_buffer *from = i % 4 == 0 ? &v->raw_counter : &v->raw_other;
        const raw_buffer *to = i % 4 == 0 ? &v->raw_other : &v->raw_counter;
        if (i != 0) {
            raw_between(r, v->commands);
        }
        raw_dispatch(r, v->commands, raw_args_at(v, i, from));
        raw_between(r, v->commands);
        raw_copy(r, v->commands, to, from, size);
    }
    raw_end(r, v->commands);
}

/* Returns the ratio of processor time, BENCH_NONE without a device; `row`: measures
   as the others do, too. */
static double alternating(bench_result *result, hcq_queue_kind kind, uint64_t size, int row) {
    vulkan v;
    if (!vulkan_open(&v, 0, kind, result)) {
        return BENCH_NONE;
    }
    v.count = CHAIN / 2;
    record_alternating(&v, size);
    raw_record_alternating(&v, size);
    replay(&v, 2);
    bench_side sides[2] = {{replay, &v}, {raw_replay, &v}};
    if (row) {
        bench_compare(result, sides, 2, 1.0 / CHAIN);
    }
    double ratio = cpu_ratio(sides, 1);
    check_counters(&v, "graph_1000_alternating");
    vulkan_close(&v);
    return ratio;
}

static void graph_1000_alternating(bench_result *result) {
    double ratio = alternating(result, HCQ_GRAPH, SMALL_COPY, 1);
    if (isnan(ratio)) {
        return;
    }
    bench_extra_add(result, "cpu_time_ratio", ratio);
    ratio = alternating(result, HCQ_COMPUTE, SMALL_COPY, 0);
    bench_extra_add(result, "queue_cpu_time_ratio", ratio);
    ratio = alternating(result, HCQ_GRAPH, LARGE_COPY, 0);
    bench_extra_add(result, "copies_16k_cpu_time_ratio", ratio);
}

/* ---- patching ------------------------------------------------------------ */

typedef struct patch_times { double call, total; } patch_times;

/* Changes so many execs of the queue, submits, waits. Times are the processor's. */
static patch_times patch_round(vulkan *v, uint32_t patches, int grid) {
    static uint32_t turn;
    patch_times t;
    uint32_t step = 1 + turn++ / 2 % 2;       /* never what it was before */
    hcq_dims dims = hcq_dim(step, 1, 1);
    double start = cpu_now();
    for (uint32_t i = 0; i < patches; i++) {
        if (grid) {
            hcq_queue_update_exec(v->queue, i, &dims, NULL);
        } else {
            hcq_queue_update_arg(v->queue, i, offsetof(tiny_args, step), &step, sizeof step);
        }
    }
    t.call = cpu_now() - start;
    bench_submit_and_wait(v->queue, v->device);
    t.total = cpu_now() - start;
    return t;
}

/* Rounds with and without patches in turn. A round without follows one with and
   runs the same grids and steps, so that only patching differs. */
static void patch_rounds(vulkan *v, int grid, bench_result *result) {
    enum { ROUNDS = 4000 };
    static double call[ROUNDS], with[ROUNDS], without[ROUNDS];
    uint32_t rounds = bench_of(4, ROUNDS / 8, ROUNDS);
    for (uint32_t i = 0; i < bench_of(4, 200, 200); i++) {
        patch_round(v, i % 2 == 0 ? PATCHES : 0, grid);
    }
    double before = recorded(v);
    for (uint32_t i = 0; i < rounds; i++) {
        patch_times patched = patch_round(v, PATCHES, grid);
        patch_times plain = patch_round(v, 0, grid);
        call[i] = (patched.call - plain.call) / PATCHES; /* without the clock */
        with[i] = patched.total;
        without[i] = plain.total;
    }
    check_recorded(v, before, result);
    double plain = bench_median(without, rounds);
    result->ours = (bench_median(with, rounds) - plain) / PATCHES;
    bench_extra_add(result, "call_ns", bench_median(call, rounds));
    bench_extra_add(result, "submit_and_wait_ns", plain);
}

/* What a user of plain Vulkan does instead: records the commands again. */
BENCH_RUN(rerecord_run, vulkan, v) {
    raw_record_chain(v, v->commands);
}

static void patch(bench_result *result) {
    bench_stats stats;
    vulkan v;
    if (!vulkan_open(&v, 0, HCQ_COMPUTE, result)) {
        return;
    }
    make_chain(&v, PATCHES);
    patch_rounds(&v, result->number != 0, result);
    bench_side side = {rerecord_run, &v};
    bench_throughput(&side, 1, &stats);
    bench_extra_add(result, "raw_rerecord_ns", stats.median / PATCHES);
    vulkan_close(&v);
}

/* ---- recording ----------------------------------------------------------- */

BENCH_RUN(record_run, vulkan, v) {
    CHECK(hcq_queue_reset(v->queue));
    record_chain(v);
}

BENCH_RUN(record_bind_run, vulkan, v) {
    record_run(v, 1);
    CHECK(hcq_queue_bind(v->queue, v->device));
}

static int record_slots(bench_result *result, uint32_t slots, bench_stats stats[3]) {
    vulkan v;
    if (!vulkan_open(&v, slots, HCQ_COMPUTE, result)) {
        return 0;
    }
    make_chain(&v, CHAIN);
    bench_side sides[3] = {{record_bind_run, &v}, {rerecord_run, &v}, {record_run, &v}};
    bench_throughput(sides, 3, stats);
    if (slots == 1) {
        bench_report(result, &stats[0], &stats[1], 1.0 / CHAIN);
        bench_extra_add(result, "cpu_time_ratio", cpu_ratio(sides, 1));
    }
    record_bind_run(&v, 1);
    replay(&v, 1);
    raw_replay(&v, 1);
    check_counters(&v, "record_dispatch");
    vulkan_close(&v);
    return 1;
}

/* With one version both sides put each command into a command buffer once. */
static void record_dispatch(bench_result *result) {
    bench_stats one[3], two[3];
    if (!record_slots(result, 1, one) || !record_slots(result, 2, two)) {
        return;
    }
    bench_extra_add(result, "record_alone_ns", one[2].median / CHAIN);
    bench_extra_add(result, "two_versions_ns", two[0].median / CHAIN);
    bench_extra_add(result, "two_versions_ratio", two[0].median / two[1].median);
}

/* ---- a large copy -------------------------------------------------------- */

static uint64_t g_bytes;

typedef struct copies {
    vulkan v;
    hcq_buffer dst, src;
    raw_buffer raw_dst, raw_src;
} copies;

BENCH_RUN(memcpy_run, copies, c) {
    memcpy(c->raw_dst.host, c->raw_src.host, g_bytes);
    __asm__ __volatile__("" ::: "memory");
}

/* All memory is touched long before it is measured. */
static void copies_make(copies *c) {
    const raw *r = &c->v.raw;
    c->dst = bench_buffer(c->v.device, g_bytes);
    c->src = bench_buffer(c->v.device, g_bytes);
    memset(c->dst.host, 1, g_bytes);
    memset(c->src.host, 2, g_bytes);
    hcq_queue_copy(c->v.queue, c->dst, c->src, g_bytes);
    CHECK(hcq_queue_bind(c->v.queue, c->v.device));
    c->raw_dst = raw_buffer_make(&c->v.raw, g_bytes);
    c->raw_src = raw_buffer_make(&c->v.raw, g_bytes);
    memset(c->raw_src.host, 3, g_bytes);
    raw_begin(r, c->v.commands);
    raw_copy(r, c->v.commands, &c->raw_dst, &c->raw_src, g_bytes);
    raw_end(r, c->v.commands);
}

static void copy_256m(bench_result *result) {
    copies c;
    g_bytes = (uint64_t)bench_of(16, 256, 256) << 20;
    if (!vulkan_open(&c.v, 0, HCQ_COPY, result)) {
        return;
    }
    copies_make(&c);
    replay(&c.v, 1);
    raw_replay(&c.v, 1);
    if (memcmp(c.dst.host, c.src.host, g_bytes) != 0 ||
        memcmp(c.raw_dst.host, c.raw_src.host, g_bytes) != 0) {
        bench_die("copy_256m: a copy differs");
    }
    bench_side sides[3] = {{replay, &c.v}, {raw_replay, &c.v}, {memcpy_run, &c}};
    const bench_stats *stats = bench_compare(result, sides, 3, 1e-6);
    bench_extra_add(result, "memcpy_ms", stats[2].median * 1e-6);
    bench_extra_add(result, "memcpy_ratio", stats[0].median / stats[2].median);
    raw_buffer_free(&c.v.raw, &c.raw_dst);
    raw_buffer_free(&c.v.raw, &c.raw_src);
    vulkan_close(&c.v);
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
