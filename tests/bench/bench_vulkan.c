/* bench_vulkan.c - hcq's Vulkan backend against Vulkan by hand (bench_vulkan_raw.h).

   Both sides use the same device, shader and barriers, each its own VkDevice.
   On a machine of few processors it decides more than either side does where
   the scheduler puts a driver's threads. So each bench ties itself to one
   processor before any of them starts: they inherit that. Figures of a driver
   that computes on the processor (lavapipe) are for that placement.
*/

#define _GNU_SOURCE
#define HCQ_VULKAN
#include "bench.h"

#include "bench_vulkan_raw.h"
#include "bench_vulkan_spirv.h"

#include <sched.h>
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

static void one_processor(void) {
    cpu_set_t all, one;
    size_t cpu = 0;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        bench_die("sched_getaffinity");
    }
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        bench_die("sched_setaffinity");
    }
}

static void note(bench_result *result, const char *text) {
    size_t out = 0;
    for (size_t i = 0; text[i] != 0 && out + 1 < sizeof result->note; i++) {
        if (text[i] >= ' ' && text[i] != '"' && text[i] != '\\') { /* it goes into JSON */
            result->note[out++] = text[i];
        }
    }
    result->note[out] = 0;
}

/* Opens the other side on hcq's device; says in the note which one that is. */
static int peer_open(vulkan *v, bench_result *result) {
    PFN_vkGetPhysicalDeviceProperties2 properties;
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    hcq_vulkan_info info;
    hcq_vulkan_lane_info lane;
    char text[600];
    bench_check(hcq_vulkan_info_get(v->device, &info), "hcq_vulkan_info_get");
    bench_check(hcq_vulkan_lane(v->device, HCQ_COMPUTE, 0, &lane), "hcq_vulkan_lane");
    properties = (PFN_vkGetPhysicalDeviceProperties2)info.loader(info.instance,
                                                                 "vkGetPhysicalDeviceProperties2");
    properties(info.physical_device, &p);
    const char *missing = raw_open(&v->raw, &p.properties, lane.family);
    if (missing != NULL) {
        note(result, missing);
        return 0;
    }
    snprintf(text, sizeof text, "%s, %s; all threads on one processor", p.properties.deviceName,
             info.driver);
    note(result, text);
    raw_pipeline(&v->raw, spirv_tiny, sizeof spirv_tiny);
    v->raw_args = raw_buffer_make(&v->raw, CHAIN * sizeof(tiny_args));
    v->raw_counter = raw_buffer_make(&v->raw, LARGE_COPY);
    v->raw_other = raw_buffer_make(&v->raw, LARGE_COPY);
    return 1;
}

static void make_program(vulkan *v) {
    hcq_program_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.label = "tiny";
    desc.args[0] = HCQ_ARG_INOUT;
    desc.args[1] = HCQ_ARG_U32;
    desc.spirv.data = spirv_tiny;
    desc.spirv.size = sizeof spirv_tiny;
    bench_check(hcq_program_create(v->device, &desc, &v->program), "hcq_program_create");
}

/* 0: a side is missing, and the note says why. `slots`: versions of a bound queue,
   0 for the default. */
static int vulkan_open_slots(vulkan *v, uint32_t slots, bench_result *result) {
    hcq_device_desc desc;
    memset(v, 0, sizeof *v);
    memset(&desc, 0, sizeof desc);
    desc.slots = slots;
    one_processor();
    hcq_result opened = hcq_open("VULKAN", &desc, &v->device);
    if (opened != HCQ_OK) {
        char text[100];
        snprintf(text, sizeof text, "SKIP: VULKAN: %s", hcq_result_text(opened));
        note(result, text);
        return 0;
    }
    make_program(v);
    uint32_t flags = HCQ_HOST_VISIBLE | HCQ_ZEROED;
    bench_check(hcq_alloc(v->device, LARGE_COPY, flags, &v->counter), "hcq_alloc");
    bench_check(hcq_alloc(v->device, LARGE_COPY, flags, &v->other), "hcq_alloc");
    if (!peer_open(v, result)) {
        bench_check(hcq_close(v->device), "hcq_close");
        return 0;
    }
    return 1;
}

static int vulkan_open(vulkan *v, bench_result *result) {
    return vulkan_open_slots(v, 0, result);
}

static void vulkan_close(vulkan *v) {
    hcq_queue_destroy(v->queue);
    bench_check(hcq_close(v->device), "hcq_close");
    raw_check(v->raw.DeviceWaitIdle(v->raw.device), "vkDeviceWaitIdle");
    raw_buffer_free(&v->raw, &v->raw_args);
    raw_buffer_free(&v->raw, &v->raw_counter);
    raw_buffer_free(&v->raw, &v->raw_other);
    raw_close(&v->raw);
}

/* ---- the chain on both sides --------------------------------------------- */

static uint32_t exec_on(const vulkan *v, hcq_buffer counter) {
    tiny_args args = {counter.address, 1, 0};
    int32_t at =
        hcq_queue_exec(v->queue, v->program, &args, sizeof args, hcq_dim(1, 1, 1),
                       hcq_dim(1, 1, 1));
    if (at < 0) {
        bench_die("hcq_queue_exec: %s", hcq_result_text((hcq_result)at));
    }
    return (uint32_t)at;
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

static void bind(vulkan *v) {
    bench_check(hcq_queue_bind(v->queue, v->device), "hcq_queue_bind");
}

static void make_queue(vulkan *v, hcq_queue_kind kind) {
    bench_check(hcq_queue_create(v->device, kind, &v->queue), "hcq_queue_create");
}

static void make_chain(vulkan *v, uint32_t count) {
    v->count = count;
    make_queue(v, HCQ_COMPUTE);
    record_chain(v);
    bind(v);
    v->commands = raw_commands(&v->raw);
    v->again = raw_commands(&v->raw);
    raw_record_chain(v, v->commands);
    raw_record_chain(v, v->again);
}

static void replay(void *ctx, uint64_t n) {
    vulkan *v = (vulkan *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        hcq_point done;
        bench_check(hcq_queue_submit(v->queue, v->device, &done), "hcq_queue_submit");
        bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
    v->runs += n;
}

static void raw_replay_of(vulkan *v, VkCommandBuffer commands, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        raw_submit(&v->raw, commands);
        raw_wait(&v->raw);
    }
    v->raw_runs += n;
}

static void raw_replay(void *ctx, uint64_t n) {
    vulkan *v = (vulkan *)ctx;
    raw_replay_of(v, v->commands, n);
}

static void raw_replay_again(void *ctx, uint64_t n) {
    vulkan *v = (vulkan *)ctx;
    raw_replay_of(v, v->again, n);
}

/* Did every kernel of both sides run? Counters wrap around. */
static void check_counters(const vulkan *v, const char *name) {
    uint32_t ours = 0, theirs = 0;
    bench_check(hcq_copyout(&ours, v->counter, sizeof ours), "hcq_copyout");
    memcpy(&theirs, v->raw_counter.host, sizeof theirs);
    if (ours != (uint32_t)(v->runs * v->count) || theirs != (uint32_t)(v->raw_runs * v->count)) {
        bench_die("%s: counters are %u and %u after %llu and %llu runs of %u", name,
                  (unsigned)ours, (unsigned)theirs, (unsigned long long)v->runs,
                  (unsigned long long)v->raw_runs, (unsigned)v->count);
    }
}

static double recorded(const vulkan *v) {
    uint64_t value = 0;
    bench_check(hcq_device_query(v->device, (hcq_query)HCQ_VULKAN_QUERY_RECORDED, &value),
                "hcq_device_query");
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

static double cpu_ratio(const bench_side *ours, const bench_side *peer, uint64_t n) {
    enum { TURNS = 1000 };
    static double a[TURNS], b[TURNS];
    uint32_t turns = bench_quick() ? TURNS / 5 : TURNS;
    for (uint32_t i = 0; i < turns; i++) {
        double start = cpu_now();
        ours->run(ours->ctx, n);
        double middle = cpu_now();
        peer->run(peer->ctx, n);
        a[i] = middle - start;
        b[i] = cpu_now() - middle;
    }
    return bench_median(a, turns) / bench_median(b, turns);
}

/* ---- replay -------------------------------------------------------------- */

/* The other side twice: what differs there is noise. */
static void replay_chain(bench_result *result, uint32_t count, const char *name) {
    vulkan v;
    bench_stats stats[3];
    bench_result noise;
    if (!vulkan_open(&v, result)) {
        return;
    }
    make_chain(&v, count);
    replay(&v, 2);
    bench_side sides[3] = {{replay, NULL, NULL, &v, 0},
                           {raw_replay, NULL, NULL, &v, 0},
                           {raw_replay_again, NULL, NULL, &v, 0}};
    double before = recorded(&v);
    bench_throughput(sides, 3, stats);
    bench_report(result, &stats[0], &stats[1], 1.0 / count);
    bench_extra_add(result, "cpu_time_ratio",
                    cpu_ratio(&sides[0], &sides[1], count == 1 ? 20 : 1));
    check_recorded(&v, before, result);
    bench_report(&noise, &stats[2], &stats[1], 1.0);
    bench_extra_add(result, "raw_against_raw", noise.ratio);
    bench_extra_add(result, "raw_against_raw_in_a_pass", noise.pass_ratio);
    check_counters(&v, name);
    vulkan_close(&v);
}

void bench_vulkan_replay_1000(bench_result *result) {
    replay_chain(result, CHAIN, "replay_1000");
}

void bench_vulkan_replay_1(bench_result *result) {
    replay_chain(result, 1, "replay_1");
}

/* ---- the call alone ------------------------------------------------------ */

/* Bursts of submits, then a wait: the median of one call. Most calls of a burst
   find the driver's thread awake, or waiting for this processor. */
static double burst_calls(vulkan *v, uint32_t bursts, int ours) {
    static double calls[BURST * 64];
    uint32_t at = 0;
    hcq_point done;
    for (uint32_t b = 0; b < bursts; b++) {
        uint64_t before = bench_now();
        for (uint32_t i = 0; i < BURST; i++) {
            if (ours) {
                bench_check(hcq_queue_submit(v->queue, v->device, &done), "hcq_queue_submit");
            } else {
                raw_submit(&v->raw, v->commands);
            }
            uint64_t after = bench_now();
            calls[at++] = (double)(after - before);
            before = bench_now();
        }
        if (ours) {
            bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
            v->runs += BURST;
        } else {
            raw_wait(&v->raw);
            v->raw_runs += BURST;
        }
    }
    return bench_median(calls, at);
}

void bench_vulkan_submit_call(bench_result *result) {
    double ours[BENCH_MAX_PASSES], peer[BENCH_MAX_PASSES], difference[BENCH_MAX_PASSES];
    uint32_t count = bench_quick() ? BENCH_MAX_PASSES / 2 : BENCH_MAX_PASSES;
    bench_stats stats[2];
    vulkan v;
    if (!vulkan_open(&v, result)) {
        return;
    }
    make_chain(&v, 1);
    for (uint32_t i = 0; i < count; i++) {
        bench_sleep_ms(2);
        burst_calls(&v, 16, 1);
        ours[i] = burst_calls(&v, 64, 1);
        bench_sleep_ms(2);
        burst_calls(&v, 16, 0);
        peer[i] = burst_calls(&v, 64, 0);
        difference[i] = ours[i] - peer[i];
    }
    bench_stats_make(&stats[0], ours, count);
    bench_stats_make(&stats[1], peer, count);
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
}

static void raw_record_alternating(const vulkan *v, VkCommandBuffer commands, uint64_t size) {
    const raw *r = &v->raw;
    raw_begin(r, commands);
    r->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, r->pipeline);
    for (uint32_t i = 0; i < CHAIN; i += 4) {
        if (i != 0) {
            raw_between(r, commands);
        }
        raw_dispatch(r, commands, raw_args_at(v, i, &v->raw_counter));
        raw_between(r, commands);
        raw_copy(r, commands, &v->raw_other, &v->raw_counter, size);
        raw_between(r, commands);
        raw_dispatch(r, commands, raw_args_at(v, i + 2, &v->raw_other));
        raw_between(r, commands);
        raw_copy(r, commands, &v->raw_counter, &v->raw_other, size);
    }
    raw_end(r, commands);
}

/* Returns the ratio of processor time, BENCH_NONE without a device; `row`: measures
   as the others do, too. */
static double alternating(bench_result *result, hcq_queue_kind kind, uint64_t size, int row) {
    vulkan v;
    bench_stats stats[2];
    if (!vulkan_open(&v, result)) {
        return BENCH_NONE;
    }
    v.count = CHAIN / 2;
    make_queue(&v, kind);
    record_alternating(&v, size);
    bind(&v);
    v.commands = raw_commands(&v.raw);
    raw_record_alternating(&v, v.commands, size);
    replay(&v, 2);
    bench_side sides[2] = {{replay, NULL, NULL, &v, 0}, {raw_replay, NULL, NULL, &v, 0}};
    if (row) {
        bench_throughput(sides, 2, stats);
        bench_report(result, &stats[0], &stats[1], 1.0 / CHAIN);
    }
    double ratio = cpu_ratio(&sides[0], &sides[1], 1);
    check_counters(&v, "graph_1000_alternating");
    vulkan_close(&v);
    return ratio;
}

void bench_vulkan_graph_1000_alternating(bench_result *result) {
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
    hcq_point done;
    uint32_t step = 1 + turn / 2 % 2;         /* never what it was before */
    hcq_dims dims = hcq_dim(step, 1, 1);
    turn++;
    double start = cpu_now();
    for (uint32_t i = 0; i < patches; i++) {
        if (grid) {
            hcq_queue_update_exec(v->queue, i, &dims, NULL);
        } else {
            hcq_queue_update_arg(v->queue, i, 1, &step, sizeof step);
        }
    }
    double middle = cpu_now();
    bench_check(hcq_queue_submit(v->queue, v->device, &done), "hcq_queue_submit");
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    t.call = middle - start;
    t.total = cpu_now() - start;
    return t;
}

/* Rounds with and without patches in turn. A round without follows one with and
   runs the same grids and steps, so that only patching differs. */
static void patch_rounds(vulkan *v, int grid, bench_result *result) {
    enum { ROUNDS = 4000 };
    static double call[ROUNDS], with[ROUNDS], without[ROUNDS];
    uint32_t rounds = bench_quick() ? ROUNDS / 8 : ROUNDS;
    for (uint32_t i = 0; i < 200; i++) {
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
static void rerecord_run(void *ctx, uint64_t n) {
    vulkan *v = (vulkan *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        raw_record_chain(v, v->commands);
    }
}

static void patch(bench_result *result, int grid) {
    bench_stats stats;
    vulkan v;
    if (!vulkan_open(&v, result)) {
        return;
    }
    make_chain(&v, PATCHES);
    patch_rounds(&v, grid, result);
    bench_side side = {rerecord_run, NULL, NULL, &v, 0};
    bench_throughput(&side, 1, &stats);
    bench_extra_add(result, "raw_rerecord_ns", stats.median / PATCHES);
    vulkan_close(&v);
}

void bench_vulkan_patch_grid(bench_result *result) { patch(result, 1); }
void bench_vulkan_patch_arg(bench_result *result) { patch(result, 0); }

/* ---- recording ----------------------------------------------------------- */

static void record_run(void *ctx, uint64_t n) {
    vulkan *v = (vulkan *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_queue_reset(v->queue), "hcq_queue_reset");
        record_chain(v);
    }
}

static void record_bind_run(void *ctx, uint64_t n) {
    vulkan *v = (vulkan *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        record_run(v, 1);
        bind(v);
    }
}

static int record_dispatch(bench_result *result, uint32_t slots, int row, bench_stats stats[3]) {
    vulkan v;
    if (!vulkan_open_slots(&v, slots, result)) {
        return 0;
    }
    make_chain(&v, CHAIN);
    bench_side sides[3] = {{record_bind_run, NULL, NULL, &v, 0},
                           {rerecord_run, NULL, NULL, &v, 0},
                           {record_run, NULL, NULL, &v, 0}};
    bench_throughput(sides, 3, stats);
    if (row) {
        bench_report(result, &stats[0], &stats[1], 1.0 / CHAIN);
        bench_extra_add(result, "cpu_time_ratio", cpu_ratio(&sides[0], &sides[1], 1));
    }
    record_bind_run(&v, 1);
    replay(&v, 1);
    raw_replay(&v, 1);
    check_counters(&v, "record_dispatch");
    vulkan_close(&v);
    return 1;
}

/* With one version both sides put each command into a command buffer once. */
void bench_vulkan_record_dispatch(bench_result *result) {
    bench_stats one[3], two[3];
    if (!record_dispatch(result, 1, 1, one) || !record_dispatch(result, 2, 0, two)) {
        return;
    }
    bench_extra_add(result, "record_alone_ns", one[2].median / CHAIN);
    bench_extra_add(result, "two_versions_ns", two[0].median / CHAIN);
    bench_extra_add(result, "two_versions_ratio", two[0].median / two[1].median);
}

/* ---- a large copy -------------------------------------------------------- */

static const uint64_t g_bytes = 256u << 20;

typedef struct copies {
    vulkan v;
    hcq_buffer dst, src;
    raw_buffer raw_dst, raw_src;
} copies;

static void copy_run(void *ctx, uint64_t n) { replay(&((copies *)ctx)->v, n); }
static void raw_copy_run(void *ctx, uint64_t n) { raw_replay(&((copies *)ctx)->v, n); }

static void memcpy_run(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(c->raw_dst.host, c->raw_src.host, g_bytes);
        __asm__ __volatile__("" ::: "memory");
    }
}

/* All memory is touched long before it is measured. */
static void copies_make(copies *c) {
    uint32_t flags = HCQ_HOST_VISIBLE;
    bench_check(hcq_alloc(c->v.device, g_bytes, flags, &c->dst), "hcq_alloc");
    bench_check(hcq_alloc(c->v.device, g_bytes, flags, &c->src), "hcq_alloc");
    memset(c->dst.host, 1, g_bytes);
    memset(c->src.host, 2, g_bytes);
    make_queue(&c->v, HCQ_COPY);
    hcq_queue_copy(c->v.queue, c->dst, c->src, g_bytes);
    bind(&c->v);
    c->raw_dst = raw_buffer_make(&c->v.raw, g_bytes);
    c->raw_src = raw_buffer_make(&c->v.raw, g_bytes);
    memset(c->raw_src.host, 3, g_bytes);
    c->v.commands = raw_commands(&c->v.raw);
    raw_begin(&c->v.raw, c->v.commands);
    raw_copy(&c->v.raw, c->v.commands, &c->raw_dst, &c->raw_src, g_bytes);
    raw_end(&c->v.raw, c->v.commands);
}

void bench_vulkan_copy_256m(bench_result *result) {
    copies c;
    bench_stats stats[3];
    if (!vulkan_open(&c.v, result)) {
        return;
    }
    copies_make(&c);
    copy_run(&c, 1);
    raw_copy_run(&c, 1);
    if (memcmp(c.dst.host, c.src.host, g_bytes) != 0 ||
        memcmp(c.raw_dst.host, c.raw_src.host, g_bytes) != 0) {
        bench_die("copy_256m: a copy differs");
    }
    bench_side sides[3] = {{copy_run, NULL, NULL, &c, 0},
                           {raw_copy_run, NULL, NULL, &c, 0},
                           {memcpy_run, NULL, NULL, &c, 0}};
    bench_throughput(sides, 3, stats);
    bench_report(result, &stats[0], &stats[1], 1e-6);
    bench_extra_add(result, "memcpy_ms", stats[2].median * 1e-6);
    bench_extra_add(result, "memcpy_ratio", stats[0].median / stats[2].median);
    raw_buffer_free(&c.v.raw, &c.raw_dst);
    raw_buffer_free(&c.v.raw, &c.raw_src);
    vulkan_close(&c.v);
}
