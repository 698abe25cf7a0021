/* bench_cuda.c - hcq's CUDA backend against the driver by hand (bench_cuda_raw.h).

   Both sides use the same device, context, memory and kernels, each its own streams. No
   context is current while hcq is measured, as in a program that knows nothing of
   CUDA; the raw side has its one current, which it may expect.

   Without a GPU the program runs on the tests' stand-in for libcuda as well,
   with LD_LIBRARY_PATH and --smoke: that shows that it works, not how fast.
*/

#define HCQ_CUDA
#include "bench.h"

#include "bench_cuda_ptx.h"
#include "bench_cuda_raw.h"

#include <stdio.h>

enum { CHAIN = BENCH_CHAIN, BURST = 256, HOPS = 100 };

enum { OURS, THEIRS };

/* Both sides of a bench. */
typedef struct cuda {
    hcq_device *device;
    hcq_program *tiny;
    uint32_t memops;                      /* a stream can write and wait for values */
    hcq_buffer counter;
    hcq_queue *queue, *other;
    raw raw;
    raw_pointer raw_counter;
    raw_graph graph;
    raw_exec exec;
    raw_stream streams[2];
    raw_event events[HOPS], spin;
    hcq_buffer memory, pinned;            /* of large copies */
    size_t size;
    uint32_t count;                       /* kernels that one replay runs */
    raw_function hold;                    /* where each of them runs so long: */
    uint32_t hold_ns;
    uint32_t of;                          /* the row's, see g_rows */
    uint32_t expected[2];                 /* what the counters have to be */
} cuda;

static uint32_t chain_length(void) { return bench_of(20, CHAIN, CHAIN); }
static uint32_t hops(void) { return bench_of(6, HOPS, HOPS); }

/* ---- opening ------------------------------------------------------------- */

static hcq_program *program_of(const cuda *c, const char *entry, raw_function *function) {
    hcq_program_desc desc = {.label = entry, .args = {HCQ_ARG_INOUT, HCQ_ARG_U32},
                             .ptx = {bench_cuda_ptx, sizeof bench_cuda_ptx, entry, 0}};
    hcq_program *program;
    hcq_cuda_program_info info;
    CHECK(hcq_program_create(c->device, &desc, &program));
    CHECK(hcq_cuda_program(program, &info));
    *function = info.function;
    return program;
}

/* `lanes`: compute lanes, 0 for the default description. 0: no CUDA. The note says why, or
   which device it is. */
static int cuda_open(cuda *c, uint32_t lanes, bench_result *result) {
    hcq_device_info about;
    hcq_cuda_info info;
    char text[160];
    memset(c, 0, sizeof *c);
    c->device = bench_open("CUDA", (hcq_device_desc){.compute_lanes = lanes}, result);
    if (c->device == NULL) {
        return 0;
    }
    CHECK(hcq_device_info_get(c->device, &about));
    CHECK(hcq_cuda_info_get(c->device, &info));
    snprintf(text, sizeof text, "%s, driver %u.%u", about.name, info.driver_version / 1000,
             info.driver_version % 1000 / 10);
    bench_note(result, text);
    raw_open(&c->raw, &info);
    c->memops = info.memops;
    c->tiny = program_of(c, "bench_tiny", &c->raw.tiny);
    CHECK(hcq_alloc(c->device, 64, HCQ_ZEROED, &c->counter));
    c->raw_counter = c->counter.address + 32; /* the same: how far it is tells in a chain */
    c->queue = bench_queue(c->device, HCQ_COMPUTE);
    c->other = bench_queue(c->device, HCQ_COMPUTE);
    return 1;
}

static void cuda_close(cuda *c) {
    raw_enter(&c->raw);
    if (c->exec != NULL) {
        RAW(&c->raw, GraphExecDestroy(c->exec));
        RAW(&c->raw, GraphDestroy(c->graph));
    }
    raw_close(&c->raw);
    hcq_queue_destroy(c->queue);
    hcq_queue_destroy(c->other);
    CHECK(hcq_close(c->device));
}

static void raw_begin(void *ctx) { raw_enter(&((cuda *)ctx)->raw); }
static void raw_end(void *ctx) { raw_leave(&((cuda *)ctx)->raw); }

/* Did every kernel of both sides run? Counters wrap around. */
static void check_counters(cuda *c) {
    uint32_t ours = 0, theirs = 0;
    CHECK(hcq_copyout(&ours, hcq_view(c->counter, 0, 4), 4));
    CHECK(hcq_copyout(&theirs, hcq_view(c->counter, 32, 4), 4));
    bench_counter(ours, c->expected[OURS], "hcq's kernels");
    bench_counter(theirs, c->expected[THEIRS], "the raw kernels");
}

/* ---- the chain on both sides --------------------------------------------- */

static void exec_tiny(const cuda *c, hcq_queue *queue) {
    raw_tiny_args args = {c->counter.address, 1, 0};
    bench_exec(queue, c->tiny, &args, sizeof args);
}

static void record_chain(const cuda *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        exec_tiny(c, c->queue);
    }
}

static void make_chain(cuda *c, uint32_t count) {
    raw_node last = NULL;
    c->count = count;
    record_chain(c);
    CHECK(hcq_queue_bind(c->queue, c->device));
    raw_enter(&c->raw);
    RAW(&c->raw, GraphCreate(&c->graph, 0));
    for (uint32_t i = 0; i < count; i++) {
        last = raw_add_tiny(&c->raw, c->graph, last, c->raw_counter);
    }
    c->exec = raw_instantiate(&c->raw, c->graph);
    raw_leave(&c->raw);
}

BENCH_RUN(replay, cuda, c) {
    bench_submit_and_wait(c->queue, c->device);
    c->expected[OURS] += c->count;
}

BENCH_RUN(raw_replay, cuda, c) {
    RAW(&c->raw, GraphLaunch(c->exec, c->raw.stream));
    raw_finish(&c->raw, c->raw.stream);
    c->expected[THEIRS] += c->count;
}

/* ---- replay -------------------------------------------------------------- */

static void replay_chain(cuda *c, bench_result *result) {
    const uint32_t count = c->of == 1 ? 1 : chain_length();
    make_chain(c, count);
    bench_side sides[2] = {{replay, c}, {raw_replay, c, raw_begin, raw_end}};
    bench_compare(result, sides, 2, 1.0 / count);
}

/* ---- waits ---------------------------------------------------------------- */
/* Of kernels that last so long: how late is the host? The driver's own wait spins. */

BENCH_RUN(raw_hold, cuda, c) {
    raw_launch(&c->raw, c->hold, c->raw.stream, c->raw_counter, c->hold_ns);
    raw_finish(&c->raw, c->raw.stream);
    c->expected[THEIRS]++;
}

static void wait_us(cuda *c, bench_result *result) {
    raw_tiny_args args = {c->counter.address, c->of * 1000, 0};
    hcq_program *program = program_of(c, "bench_hold", &c->hold);
    bench_exec(c->queue, program, &args, sizeof args);
    CHECK(hcq_queue_bind(c->queue, c->device));
    c->count = 1;
    c->hold_ns = args.step;
    bench_side sides[2] = {{replay, c}, {raw_hold, c, raw_begin, raw_end}};
    bench_compare(result, sides, 2, 1.0);
    hcq_program_destroy(program);
}

/* ---- recorded each time -------------------------------------------------- */

BENCH_RUN(eager_run, cuda, c) {
    CHECK(hcq_queue_reset(c->queue));
    record_chain(c);
    replay(c, 1);
}

BENCH_RUN(raw_eager_run, cuda, c) {
    for (uint32_t k = 0; k < c->count; k++) {
        raw_launch_tiny(&c->raw, c->raw.stream, c->raw_counter);
    }
    raw_finish(&c->raw, c->raw.stream);
    c->expected[THEIRS] += c->count;
}

static void eager_exec(cuda *c, bench_result *result) {
    c->count = chain_length();
    bench_side sides[2] = {{eager_run, c}, {raw_eager_run, c, raw_begin, raw_end}};
    bench_compare(result, sides, 2, 1.0 / c->count);
}

/* ---- one exec for each submission ---------------------------------------- */
/* What the calls cost their thread: a burst that the device's queue has room for,
   then, outside the sample, a wait until all is done. */

static uint32_t burst(void) { return bench_of(8, BURST, BURST); }

static double bound_burst(void *ctx) {
    cuda *c = (cuda *)ctx;
    hcq_point done;
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < burst(); i++) {
        CHECK(hcq_queue_submit(c->queue, c->device, &done));
    }
    uint64_t end = bench_now();
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
    c->expected[OURS] += burst();
    return (double)(end - start) / burst();
}

static double raw_burst(void *ctx) {
    cuda *c = (cuda *)ctx;
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < burst(); i++) {
        raw_launch_tiny(&c->raw, c->raw.stream, c->raw_counter);
        RAW(&c->raw, EventRecord(c->spin, c->raw.stream));
    }
    uint64_t end = bench_now();
    raw_finish(&c->raw, c->raw.stream);
    c->expected[THEIRS] += burst();
    return (double)(end - start) / burst();
}

static void submit_one(cuda *c, bench_result *result) {
    const bench_side sides[2] = {
        {.ctx = c, .sample = bound_burst},
        {.ctx = c, .begin = raw_begin, .end = raw_end, .sample = raw_burst}};
    exec_tiny(c, c->queue);
    CHECK(hcq_queue_bind(c->queue, c->device));
    raw_enter(&c->raw);
    c->spin = raw_event_make(&c->raw);
    raw_leave(&c->raw);
    bench_compare(result, sides, 2, 1.0);
}

/* ---- from lane to lane --------------------------------------------------- */

BENCH_RUN(hops_run, cuda, c) {
    hcq_point last = {{0}, 0};
    for (uint32_t i = 0; i < hops(); i++) {
        hcq_point before = last;
        hcq_submission s = {.queues = i % 2 == 0 ? &c->queue : &c->other, .queue_count = 1,
                            .affinity = i % 2, .waits = &before, .wait_count = i != 0};
        CHECK(hcq_submit(c->device, &s, 1, &last));
    }
    CHECK(hcq_wait(&last, 1, HCQ_ALL, HCQ_FOREVER));
    c->expected[OURS] += hops();
}

BENCH_RUN(raw_hops_run, cuda, c) {
    for (uint32_t i = 0; i < hops(); i++) {
        raw_stream stream = c->streams[i % 2];
        if (i != 0) {
            RAW(&c->raw, StreamWaitEvent(stream, c->events[i - 1], 0));
        }
        raw_launch_tiny(&c->raw, stream, c->raw_counter);
        RAW(&c->raw, EventRecord(c->events[i], stream));
    }
    RAW(&c->raw, EventSynchronize(c->events[hops() - 1]));
    c->expected[THEIRS] += hops();
}

/* The context is current. */
static void make_streams(cuda *c) {
    c->streams[0] = raw_stream_make(&c->raw);
    c->streams[1] = raw_stream_make(&c->raw);
    for (uint32_t i = 0; i < HOPS; i++) {
        c->events[i] = raw_event_make(&c->raw);
    }
}

/* Two lanes that take turns, each waits for the other. */
static void cross_stream_wait(cuda *c, bench_result *result) {
    exec_tiny(c, c->queue);
    exec_tiny(c, c->other);
    CHECK(hcq_queue_bind(c->queue, c->device));
    CHECK(hcq_queue_bind(c->other, c->device));
    raw_enter(&c->raw);
    make_streams(c);
    raw_leave(&c->raw);
    bench_side sides[2] = {{hops_run, c}, {raw_hops_run, c, raw_begin, raw_end}};
    bench_compare(result, sides, 2, 1.0 / hops());
}

/* ---- large copies, from and to pinned memory ----------------------------- */

BENCH_RUN(copyin_run, cuda, c) {
    CHECK(hcq_copyin(c->memory, c->pinned.host, c->size));
}

BENCH_RUN(copyout_run, cuda, c) {
    CHECK(hcq_copyout(c->pinned.host, c->memory, c->size));
}

static void raw_copy(cuda *c, raw_pointer dst, raw_pointer src) {
    RAW(&c->raw, MemcpyAsync(dst, src, c->size, c->raw.stream));
    raw_finish(&c->raw, c->raw.stream);
}

BENCH_RUN(raw_copyin_run, cuda, c) { raw_copy(c, c->memory.address, c->pinned.address); }
BENCH_RUN(raw_copyout_run, cuda, c) { raw_copy(c, c->pinned.address, c->memory.address); }

static hcq_result copies_alloc(cuda *c) {
    hcq_result result = hcq_alloc(c->device, c->size, 0, &c->memory);
    if (result == HCQ_OK) {
        result = hcq_alloc(c->device, c->size, HCQ_HOST_VISIBLE, &c->pinned);
        if (result != HCQ_OK) {
            CHECK(hcq_free(c->memory));
        }
    }
    return result;
}

/* As much as there is memory for: 1 GiB, half as much, and so on. In, out again, and is
   it what it was? All of it is touched by that. */
static void copies_make(cuda *c) {
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    hcq_result result;
    c->size = bench_of(1u << 20, 1u << 30, 1u << 30);
    while ((result = copies_alloc(c)) == HCQ_ERROR_OUT_OF_MEMORY && c->size > 1u << 20) {
        c->size /= 2;
    }
    CHECK(result);
    uint64_t *at = (uint64_t *)c->pinned.host;
    for (size_t i = 0; i < c->size / sizeof *at; i++) {
        at[i] = i * factor;
    }
    copyin_run(c, 1);
    memset(at, 0, c->size);
    copyout_run(c, 1);
    for (size_t i = 0; i < c->size / sizeof *at; i++) {
        if (at[i] != i * factor) {
            bench_die("a copy of %zu bytes differs at %zu", c->size, i * sizeof *at);
        }
    }
}

static void copies(cuda *c, bench_result *result) {
    bench_side sides[2] = {{c->of ? copyout_run : copyin_run, c},
                           {c->of ? raw_copyout_run : raw_copyin_run, c, raw_begin, raw_end}};
    copies_make(c);
    bench_compare(result, sides, 2, 1e-6);
    bench_extra_add(result, "mib", (double)c->size / 1048576.0);
}

#include "bench_cuda_facts.h"

/* ---- the rows ------------------------------------------------------------ */

/* What a row measures, on a device that is open, its compute lanes [default], and of what:
   kernels, microseconds, in or out. */
static const struct { void (*run)(cuda *c, bench_result *result); uint32_t lanes, of; } g_rows[] = {
    {replay_chain, 0, CHAIN}, {replay_chain, 0, 1}, {eager_exec, 0, 0}, {submit_one, 0, 0},
    {cross_stream_wait, 2, 0}, {copies, 0, 0}, {copies, 0, 1}, {wait_us, 0, 50}, {wait_us, 0, 100},
    {wait_us, 0, 200}, {fact_hops, 0, 0}};

static void row(bench_result *result) {
    static cuda c;
    if (cuda_open(&c, g_rows[result->number].lanes, result)) {
        c.of = g_rows[result->number].of;
        g_rows[result->number].run(&c, result);
        check_counters(&c);
        cuda_close(&c);
    }
}

const bench bench_cuda_rows[] = {
    {"cuda.replay_1000", "ns/kernel", 1.05, row, 0},
    {"cuda.replay_1", "ns", BENCH_NONE, row, 1},
    {"cuda.eager_exec", "ns/kernel", 1.10, row, 2},
    {"cuda.submit_one", "ns", 1.25, row, 3},
    {"cuda.cross_stream_wait", "ns/wait", 1.10, row, 4},
    {"cuda.copyin_1g", "ms", 1.0 / 0.95, row, 5},   /* 0.95 of the bandwidth */
    {"cuda.copyout_1g", "ms", 1.0 / 0.95, row, 6},
    {"cuda.wait_50us", "ns", 1.2, row, 7},
    {"cuda.wait_100us", "ns", 1.2, row, 8},
    {"cuda.wait_200us", "ns", 1.2, row, 9},
    {"cuda_fact.hops", "", BENCH_NONE, row, 10},
    {0}};
