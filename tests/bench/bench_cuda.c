/* bench_cuda.c - hcq's CUDA backend against the driver by hand (bench_cuda_raw.h).

   Both sides use the same device, context and kernels, each its own streams. No
   context is current while hcq is measured, as in a program that knows nothing of
   CUDA; the raw side has its one current, which it may expect.

   The benches "cuda_fact." are in bench_cuda_facts.h.

   Without a GPU the program runs on the tests' stand-in for libcuda as well,
   with LD_LIBRARY_PATH and --smoke: that shows that it works, not how fast.
*/

#define _GNU_SOURCE
#define HCQ_CUDA
#include "bench.h"

#include "bench_cuda_raw.h"

#include <pthread.h>
#include <sched.h>

enum { CHAIN = BENCH_CHAIN, BURST = 256, HOPS = 100, SAMPLES = 100, STREAMS = 160 };

/* A kernel that holds its stream until it is let go, or this has passed. */
static uint64_t hold_limit_ns(void) {
    return bench_smoke() ? 50000000u : 2000000000u;
}

/* Words of pinned memory, each in a cache line of its own. */
enum { WORD_BEGAN = 0, WORD_GO = 16, WORD_SEEN = 32, WORD_OUT = 48, WORDS = 64 };

typedef struct words {
    uint64_t *host;
    uint64_t address;
} words;

/* Lets a kernel go, from a thread of its own, while the main thread waits. */
typedef struct releaser {
    pthread_t thread;
    uint64_t *go;
    uint64_t value, delay_ns;             /* value: asked for; written last */
    uint64_t released_ns;                 /* when it was let go */
    int stop;
} releaser;

/* Both sides of a bench. */
typedef struct cuda {
    hcq_device *device;
    hcq_program *tiny, *hold;
    hcq_buffer counter, pinned;
    hcq_queue *queue, *other;
    hcq_signal signal;
    uint64_t signal_value;
    raw raw;
    raw_pointer raw_counter;
    raw_graph graph;
    raw_exec exec;
    raw_node nodes[CHAIN];
    raw_stream streams[2];
    raw_event events[HOPS], spin, blocking;
    words words;
    releaser releaser;
    uint64_t hold_value;                  /* of the last kernel that was held */
    uint64_t delay_ns;
    uint32_t count;                       /* kernels that one replay runs */
    uint32_t steps[2][CHAIN];             /* of these: ours, theirs */
    uint32_t sums[2];
    uint32_t expected[2];                 /* what the counters have to be */
    uint32_t turn[2];
} cuda;

enum { OURS, THEIRS };

static uint32_t chain_length(void) {
    return bench_smoke() ? 20 : CHAIN;
}

static uint32_t at_most(uint32_t count, uint32_t smoke) {
    return bench_smoke() && count > smoke ? smoke : count;
}

/* ---- opening ------------------------------------------------------------- */

/* Says in the note which device it is. */
static void note_device(bench_result *result, raw *r) {
    char name[80] = "", text[160];
    r->DeviceGetName(name, sizeof name, r->device);
    snprintf(text, sizeof text, "%s, driver %d.%d%s", name, r->version / 1000,
             r->version % 1000 / 10, raw_is_mock(r->library) ? " (mock)" : "");
    bench_note(result, text);
}

/* 0: there is no CUDA, and the note says why. The context is current. */
static int open_raw(raw *r, bench_result *result) {
    const char *missing = raw_open(r);
    if (missing != NULL) {
        char text[160];
        snprintf(text, sizeof text, "SKIP: CUDA: %s", missing);
        bench_note(result, text);
        return 0;
    }
    note_device(result, r);
    return 1;
}

static hcq_program *make_program(cuda *c, const char *entry, const uint32_t *args,
                                 uint32_t count) {
    hcq_program *program;
    hcq_program_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.label = entry;
    memcpy(desc.args, args, count * sizeof *args);
    desc.ptx.data = bench_cuda_ptx;
    desc.ptx.size = sizeof bench_cuda_ptx;
    desc.ptx.entry = entry;
    bench_check(hcq_program_create(c->device, &desc, &program), "hcq_program_create");
    return program;
}

static void open_ours(cuda *c, uint32_t lanes) {
    static const uint32_t tiny[] = {HCQ_ARG_INOUT, HCQ_ARG_U32};
    static const uint32_t hold[] = {HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_OUT, HCQ_ARG_U64,
                                    HCQ_ARG_U64};
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.compute_lanes = lanes;
    bench_check(hcq_open("CUDA", lanes == 0 ? NULL : &desc, &c->device), "hcq_open");
    c->tiny = make_program(c, "bench_tiny", tiny, 2);
    c->hold = make_program(c, "bench_hold", hold, 5);
    bench_check(hcq_alloc(c->device, 64, HCQ_ZEROED, &c->counter), "hcq_alloc");
    bench_check(hcq_alloc(c->device, WORDS * 8, HCQ_HOST_VISIBLE | HCQ_ZEROED, &c->pinned),
                "hcq_alloc");
    c->words.host = (uint64_t *)c->pinned.host;
    c->words.address = c->pinned.address;
    bench_check(hcq_queue_create(c->device, HCQ_COMPUTE, &c->queue), "hcq_queue_create");
}

/* `lanes`: compute lanes, 0 for the default description. 0: no CUDA. */
static int cuda_open(cuda *c, uint32_t lanes, bench_result *result) {
    memset(c, 0, sizeof *c);
    if (!open_raw(&c->raw, result)) {
        return 0;
    }
    c->raw_counter = raw_memory(&c->raw, 64);
    raw_leave(&c->raw);
    open_ours(c, lanes);
    return 1;
}

static void cuda_close(cuda *c) {
    hcq_queue_destroy(c->queue);
    hcq_queue_destroy(c->other);
    bench_check(hcq_close(c->device), "hcq_close");
    raw_enter(&c->raw);
    if (c->exec != NULL) {
        raw_check(c->raw.GraphExecDestroy(c->exec), "cuGraphExecDestroy");
        raw_check(c->raw.GraphDestroy(c->graph), "cuGraphDestroy");
    }
    raw_check(c->raw.MemFree(c->raw_counter), "cuMemFree");
    raw_close(&c->raw);
}

static void raw_begin(void *ctx) { raw_enter(&((cuda *)ctx)->raw); }
static void raw_end(void *ctx) { raw_leave(&((cuda *)ctx)->raw); }

static uint64_t query(const cuda *c, int key) {
    uint64_t value = 0;
    bench_check(hcq_device_query(c->device, (hcq_query)key, &value), "hcq_device_query");
    return value;
}

/* Did every kernel of both sides run? Counters wrap around. */
static void check_counters(cuda *c, const char *name) {
    uint32_t ours = 0, theirs = 0;
    bench_check(hcq_copyout(&ours, hcq_view(c->counter, 0, 4), 4), "hcq_copyout");
    raw_enter(&c->raw);
    raw_read(&c->raw, &theirs, c->raw_counter, sizeof theirs);
    raw_leave(&c->raw);
    if (ours != c->expected[OURS] || theirs != c->expected[THEIRS]) {
        bench_die("%s: counters are %u and %u, not %u and %u", name, (unsigned)ours,
                  (unsigned)theirs, (unsigned)c->expected[OURS], (unsigned)c->expected[THEIRS]);
    }
}

/* ---- samples that are timed one by one ----------------------------------- */

typedef struct timed_side {
    double (*sample)(cuda *c);            /* ns */
    int side;
} timed_side;

static double all_samples[BENCH_MAX_SIDES][BENCH_MAX_PASSES * SAMPLES];

static double timed_pass(cuda *c, const timed_side *side, double *samples, uint32_t count) {
    if (side->side == THEIRS) {
        raw_enter(&c->raw);
    }
    for (uint32_t i = 0; i < at_most(10, 1); i++) {
        side->sample(c);
    }
    for (uint32_t i = 0; i < count; i++) {
        samples[i] = side->sample(c);
    }
    if (side->side == THEIRS) {
        raw_leave(&c->raw);
    }
    return bench_median(samples, count);
}

/* As bench_latency, for samples that know themselves what belongs to them. */
static void timed(cuda *c, const timed_side *sides, uint32_t count, bench_stats *stats) {
    double pass[BENCH_MAX_SIDES][BENCH_MAX_PASSES];
    uint32_t passes = bench_smoke() ? 2 : bench_quick() ? 7 : 21;
    uint32_t samples = at_most(SAMPLES, 3);
    for (uint32_t p = 0; p < passes; p++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = p % 2 == 0 ? i : count - 1 - i;
            bench_sleep_ms(at_most(5, 1));
            pass[at][p] = timed_pass(c, &sides[at], all_samples[at] + p * samples, samples);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        double sum = 0.0;
        uint32_t all = passes * samples;
        bench_stats_make(&stats[i], pass[i], passes);
        for (uint32_t k = 0; k < all; k++) {
            sum += all_samples[i][k];
        }
        stats[i].mean = sum / all;
        stats[i].median = bench_median(all_samples[i], all);
        stats[i].p99 = bench_percentile(all_samples[i], all, 99.0);
    }
}

static void report_latency(bench_result *result, const bench_stats *ours,
                           const bench_stats *theirs) {
    bench_report(result, ours, theirs, 1.0);
    result->latency = 1;
}

/* ---- the chain on both sides --------------------------------------------- */

static void exec_tiny(const cuda *c, hcq_queue *queue) {
    raw_tiny_args args = {c->counter.address, 1, 0};
    int32_t at = hcq_queue_exec(queue, c->tiny, &args, sizeof args, hcq_dim(1, 1, 1),
                                hcq_dim(1, 1, 1));
    if (at < 0) {
        bench_die("hcq_queue_exec: %s", hcq_result_text((hcq_result)at));
    }
}

static void record_chain(const cuda *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        exec_tiny(c, c->queue);
    }
}

static void make_chain(cuda *c, uint32_t count) {
    raw_node last = NULL;
    c->count = c->sums[OURS] = c->sums[THEIRS] = count;
    record_chain(c);
    bench_check(hcq_queue_bind(c->queue, c->device), "hcq_queue_bind");
    raw_enter(&c->raw);
    raw_check(c->raw.GraphCreate(&c->graph, 0), "cuGraphCreate");
    for (uint32_t i = 0; i < count; i++) {
        c->nodes[i] = last = raw_add_tiny(&c->raw, c->graph, last, c->raw_counter);
        c->steps[OURS][i] = c->steps[THEIRS][i] = 1;
    }
    c->exec = raw_instantiate(&c->raw, c->graph);
    raw_leave(&c->raw);
}

static void submit_and_wait(const cuda *c) {
    hcq_point done;
    bench_check(hcq_queue_submit(c->queue, c->device, &done), "hcq_queue_submit");
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
}

static void launch_and_finish(cuda *c) {
    raw_check(c->raw.GraphLaunch(c->exec, c->raw.stream), "cuGraphLaunch");
    raw_finish(&c->raw, c->raw.stream);
}

static void replay(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        submit_and_wait(c);
        c->expected[OURS] += c->sums[OURS];
    }
}

static void raw_replay(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        launch_and_finish(c);
        c->expected[THEIRS] += c->sums[THEIRS];
    }
}

static void raw_replay_launch(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < c->count; k++) {
            raw_launch_tiny(&c->raw, c->raw.stream, c->raw_counter);
        }
        raw_finish(&c->raw, c->raw.stream);
        c->expected[THEIRS] += c->count;
    }
}

/* What a replay hands to the driver. */
static void count_replay(cuda *c, bench_result *result) {
    uint64_t graphs = query(c, HCQ_CUDA_QUERY_GRAPH_LAUNCHES);
    uint64_t kernels = query(c, HCQ_CUDA_QUERY_LAUNCHES);
    replay(c, 10);
    graphs = query(c, HCQ_CUDA_QUERY_GRAPH_LAUNCHES) - graphs;
    kernels = query(c, HCQ_CUDA_QUERY_LAUNCHES) - kernels;
    bench_extra_add(result, "graph_launches_per_replay", (double)graphs / 10.0);
    bench_extra_add(result, "launches_per_replay", (double)kernels / 10.0);
}

/* ---- replay -------------------------------------------------------------- */

/* The other side twice: what differs there is noise. And once by plain launches. */
static void replay_chain(bench_result *result, uint32_t count, const char *name) {
    static cuda c;
    bench_stats stats[4];
    bench_result noise;
    if (!cuda_open(&c, 0, result)) {
        return;
    }
    make_chain(&c, count);
    count_replay(&c, result);
    bench_side sides[4] = {{replay, NULL, NULL, &c, 0},
                           {raw_replay, raw_begin, raw_end, &c, 0},
                           {raw_replay, raw_begin, raw_end, &c, 0},
                           {raw_replay_launch, raw_begin, raw_end, &c, 0}};
    bench_throughput(sides, 4, stats);
    bench_report(result, &stats[0], &stats[1], 1.0 / count);
    bench_report(&noise, &stats[2], &stats[1], 1.0);
    bench_extra_add(result, "raw_against_raw", noise.ratio);
    bench_extra_add(result, "raw_launches_ns", stats[3].median / count);
    check_counters(&c, name);
    cuda_close(&c);
}

void bench_cuda_replay_1000(bench_result *result) {
    replay_chain(result, chain_length(), "replay_1000");
}

void bench_cuda_replay_1(bench_result *result) {
    replay_chain(result, 1, "replay_1");
}

/* ---- recorded each time -------------------------------------------------- */

static void record_run(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_queue_reset(c->queue), "hcq_queue_reset");
        record_chain(c);
    }
}

static void eager_run(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        record_run(c, 1);
        replay(c, 1);
    }
}

void bench_cuda_eager_exec(bench_result *result) {
    static cuda c;
    bench_stats stats[3];
    if (!cuda_open(&c, 0, result)) {
        return;
    }
    c.count = c.sums[OURS] = chain_length();
    bench_side sides[3] = {{eager_run, NULL, NULL, &c, 0},
                           {raw_replay_launch, raw_begin, raw_end, &c, 0},
                           {record_run, NULL, NULL, &c, 0}};
    bench_throughput(sides, 3, stats);
    bench_report(result, &stats[0], &stats[1], 1.0 / c.count);
    bench_extra_add(result, "record_ns", stats[2].median / c.count);
    check_counters(&c, "eager_exec");
    cuda_close(&c);
}

/* ---- one exec for each submission ---------------------------------------- */
/* What the calls cost their thread: a burst that the device's queue has room for,
   then, outside the sample, a wait until all is done. */

static uint32_t burst(void) {
    return at_most(BURST, 8);
}

static void submit_one(cuda *c, hcq_point *done) {
    bench_check(hcq_queue_submit(c->queue, c->device, done), "hcq_queue_submit");
    c->expected[OURS]++;
}

static double end_burst(const hcq_point *done, uint64_t start) {
    uint64_t end = bench_now();
    bench_check(hcq_wait(done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    return (double)(end - start) / burst();
}

static double bound_burst(cuda *c) {
    hcq_point done;
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < burst(); i++) {
        submit_one(c, &done);
    }
    return end_burst(&done, start);
}

static double recorded_burst(cuda *c) {
    hcq_queue *bound = c->queue;
    hcq_point done;
    c->queue = c->other;
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < burst(); i++) {
        bench_check(hcq_queue_reset(c->queue), "hcq_queue_reset");
        exec_tiny(c, c->queue);
        submit_one(c, &done);
    }
    c->queue = bound;
    return end_burst(&done, start);
}

static double raw_burst(cuda *c) {
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < burst(); i++) {
        raw_launch_tiny(&c->raw, c->raw.stream, c->raw_counter);
        raw_record(&c->raw, c->spin, c->raw.stream);
    }
    uint64_t end = bench_now();
    raw_finish(&c->raw, c->raw.stream);
    c->expected[THEIRS] += burst();
    return (double)(end - start) / burst();
}

void bench_cuda_submit_one(bench_result *result) {
    static cuda c;
    bench_stats stats[3];
    static const timed_side sides[3] = {{bound_burst, OURS}, {raw_burst, THEIRS},
                                        {recorded_burst, OURS}};
    if (!cuda_open(&c, 0, result)) {
        return;
    }
    exec_tiny(&c, c.queue);
    bench_check(hcq_queue_bind(c.queue, c.device), "hcq_queue_bind");
    bench_check(hcq_queue_create(c.device, HCQ_COMPUTE, &c.other), "hcq_queue_create");
    raw_enter(&c.raw);
    c.spin = raw_event_make(&c.raw, RAW_SPIN_EVENT);
    raw_leave(&c.raw);
    timed(&c, sides, 3, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_extra_add(result, "recorded_each_time_ns", stats[2].median);
    check_counters(&c, "submit_one");
    cuda_close(&c);
}

/* ---- a kernel that waits for the host ------------------------------------ */

static void spin_until(const uint64_t *word, uint64_t value, uint64_t limit_ns) {
    uint64_t end = bench_now() + limit_ns;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
        if (bench_now() > end) {
            bench_die("a word of pinned memory stays below %llu", (unsigned long long)value);
        }
        if (bench_smoke()) {
            sched_yield();                /* the mock's device needs the processor, too */
        }
    }
}

static void *release_thread(void *ctx) {
    releaser *r = (releaser *)ctx;
    uint64_t last = __atomic_load_n(&r->value, __ATOMIC_ACQUIRE);
    while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
        uint64_t value = __atomic_load_n(&r->value, __ATOMIC_ACQUIRE);
        if (value == last) {
            sched_yield();
            continue;
        }
        uint64_t start = bench_now(), now;
        do {
            now = bench_now();
        } while (now - start < r->delay_ns);
        __atomic_store_n(&r->released_ns, now, __ATOMIC_SEQ_CST);
        __atomic_store_n(r->go, value, __ATOMIC_SEQ_CST);
        last = value;
    }
    return NULL;
}

static void releaser_start(cuda *c) {
    c->releaser.go = c->words.host + WORD_GO;
    if (pthread_create(&c->releaser.thread, NULL, release_thread, &c->releaser) != 0) {
        bench_die("pthread_create");
    }
}

static void releaser_end(cuda *c) {
    __atomic_store_n(&c->releaser.stop, 1, __ATOMIC_RELEASE);
    pthread_join(c->releaser.thread, NULL);
}

/* The kernel runs; it is let go after the delay. */
static void release_soon(cuda *c) {
    spin_until(c->words.host + WORD_BEGAN, c->hold_value, 10000000000u);
    c->releaser.delay_ns = c->delay_ns;
    __atomic_store_n(&c->releaser.value, c->hold_value, __ATOMIC_RELEASE);
}

static double since_release(const cuda *c) {
    uint64_t now = bench_now();
    return (double)now - (double)__atomic_load_n(&c->releaser.released_ns, __ATOMIC_SEQ_CST);
}

static raw_hold_args next_hold(cuda *c) {
    raw_hold_args args;
    args.began = c->words.address + WORD_BEGAN * 8;
    args.go = c->words.address + WORD_GO * 8;
    args.seen = c->words.address + WORD_SEEN * 8;
    args.value = ++c->hold_value;
    args.limit_ns = hold_limit_ns();
    return args;
}

static void raw_hold_on(cuda *c, raw_stream stream) {
    raw_hold_args args = next_hold(c);
    void *params[5] = {&args.began, &args.go, &args.seen, &args.value, &args.limit_ns};
    raw_check(c->raw.LaunchKernel(c->raw.hold, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
              "cuLaunchKernel");
}

/* ---- from the GPU to the host -------------------------------------------- */
/* From the host's store that lets a kernel go until the wait for it returns. What
   the store and the kernel's end need in between is the same for all: "bare", the
   time until the host sees a word that the kernel writes as its last. */

static double signal_sample(cuda *c) {
    hcq_point done;
    raw_hold_args args = next_hold(c);
    bench_check(hcq_queue_reset(c->queue), "hcq_queue_reset");
    hcq_queue_exec(c->queue, c->hold, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
    bench_check(hcq_queue_submit(c->queue, c->device, &done), "hcq_queue_submit");
    release_soon(c);
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    return since_release(c);
}

static double event_sample(cuda *c, raw_event event) {
    raw_hold_on(c, c->raw.stream);
    raw_record(&c->raw, event, c->raw.stream);
    release_soon(c);
    raw_check(c->raw.EventSynchronize(event), "cuEventSynchronize");
    return since_release(c);
}

static double spin_sample(cuda *c) { return event_sample(c, c->spin); }
static double blocking_sample(cuda *c) { return event_sample(c, c->blocking); }

static double stream_sample(cuda *c) {
    raw_hold_on(c, c->raw.stream);
    release_soon(c);
    raw_finish(&c->raw, c->raw.stream);
    return since_release(c);
}

static double query_sample(cuda *c) {
    int result;
    raw_hold_on(c, c->raw.stream);
    raw_record(&c->raw, c->spin, c->raw.stream);
    release_soon(c);
    do {
        result = c->raw.EventQuery(c->spin);
    } while (result == RAW_NOT_READY);
    raw_check(result, "cuEventQuery");
    return since_release(c);
}

static double word_sample(cuda *c) {
    raw_hold_on(c, c->raw.stream);
    raw_check(c->raw.StreamWriteValue64(c->raw.stream, c->words.address + WORD_OUT * 8,
                                        c->hold_value, 0), "cuStreamWriteValue64");
    release_soon(c);
    spin_until(c->words.host + WORD_OUT, c->hold_value, 10000000000u);
    double time = since_release(c);
    raw_finish(&c->raw, c->raw.stream);
    return time;
}

static double bare_sample(cuda *c) {
    raw_hold_on(c, c->raw.stream);
    release_soon(c);
    spin_until(c->words.host + WORD_SEEN, c->hold_value, 10000000000u);
    double time = since_release(c);
    raw_finish(&c->raw, c->raw.stream);
    return time;
}

static void make_events(cuda *c) {
    raw_enter(&c->raw);
    c->spin = raw_event_make(&c->raw, RAW_SPIN_EVENT);
    c->blocking = raw_event_make(&c->raw, RAW_BLOCKING_EVENT);
    raw_leave(&c->raw);
}

/* 20 us: the waiter still spins. 500 us: it has gone to sleep. */
void bench_cuda_signal_to_host(bench_result *result) {
    static cuda c;
    bench_stats near[3], parked[2];
    static const timed_side sides[3] = {{signal_sample, OURS}, {spin_sample, THEIRS},
                                        {bare_sample, THEIRS}};
    static const timed_side late[2] = {{signal_sample, OURS}, {blocking_sample, THEIRS}};
    if (!cuda_open(&c, 0, result)) {
        return;
    }
    make_events(&c);
    releaser_start(&c);
    c.delay_ns = 20000;
    timed(&c, sides, 3, near);
    c.delay_ns = 500000;
    timed(&c, late, 2, parked);
    releaser_end(&c);
    report_latency(result, &near[0], &near[1]);
    bench_extra_add(result, "bare_ns", near[2].median);
    bench_extra_add(result, "parked_ns", parked[0].median);
    bench_extra_add(result, "parked_p99_ns", parked[0].p99);
    bench_extra_add(result, "raw_blocking_ns", parked[1].median);
    bench_extra_add(result, "raw_blocking_p99_ns", parked[1].p99);
    cuda_close(&c);
}

/* ---- from the host to the GPU and back ----------------------------------- */

/* The submission waits for the signal before the sample begins. */
static double set_sample(cuda *c) {
    hcq_point done;
    hcq_point set = hcq_at(c->signal, ++c->signal_value);
    bench_check(hcq_queue_reset(c->queue), "hcq_queue_reset");
    hcq_queue_wait(c->queue, set);
    exec_tiny(c, c->queue);
    submit_one(c, &done);
    uint64_t start = bench_now();
    bench_check(hcq_signal_set(c->signal, c->signal_value), "hcq_signal_set");
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    return (double)(bench_now() - start);
}

static double launch_sample(cuda *c) {
    uint64_t start = bench_now();
    raw_launch_tiny(&c->raw, c->raw.stream, c->raw_counter);
    raw_record(&c->raw, c->spin, c->raw.stream);
    raw_check(c->raw.EventSynchronize(c->spin), "cuEventSynchronize");
    c->expected[THEIRS]++;
    return (double)(bench_now() - start);
}

/* The stream itself waits for the host's word, and answers by another. */
static double value_sample(cuda *c) {
    const raw *r = &c->raw;
    uint64_t value = ++c->hold_value;
    raw_check(r->StreamWaitValue64(r->stream, c->words.address + WORD_GO * 8, value, 0),
              "cuStreamWaitValue64");
    raw_launch_tiny(&c->raw, r->stream, c->raw_counter);
    raw_check(r->StreamWriteValue64(r->stream, c->words.address + WORD_OUT * 8, value, 0),
              "cuStreamWriteValue64");
    r->StreamQuery(r->stream);            /* so that what drivers gather goes out */
    uint64_t start = bench_now();
    __atomic_store_n(c->words.host + WORD_GO, value, __ATOMIC_SEQ_CST);
    spin_until(c->words.host + WORD_OUT, value, 10000000000u);
    c->expected[THEIRS]++;
    double time = (double)(bench_now() - start);
    raw_finish(&c->raw, r->stream);
    return time;
}

void bench_cuda_host_to_gpu(bench_result *result) {
    static cuda c;
    bench_stats stats[3];
    static const timed_side sides[3] = {{set_sample, OURS}, {launch_sample, THEIRS},
                                        {value_sample, THEIRS}};
    if (!cuda_open(&c, 0, result)) {
        return;
    }
    make_events(&c);
    bench_check(hcq_signal_create(c.device, 0, &c.signal), "hcq_signal_create");
    timed(&c, sides, c.raw.memops ? 3 : 2, stats);
    report_latency(result, &stats[0], &stats[1]);
    bench_extra_add(result, "raw_value_wait_ns", c.raw.memops ? stats[2].median : BENCH_NONE);
    check_counters(&c, "host_to_gpu");
    cuda_close(&c);
}

/* ---- from lane to lane --------------------------------------------------- */

static uint32_t hops(void) {
    return at_most(HOPS, 6);
}

static hcq_submission hop(cuda *c, uint32_t i, const hcq_point *before) {
    hcq_submission s;
    memset(&s, 0, sizeof s);
    s.queues = i % 2 == 0 ? &c->queue : &c->other;
    s.queue_count = 1;
    s.affinity = i % 2;
    s.waits = before;
    s.wait_count = i == 0 ? 0 : 1;
    return s;
}

static void hops_run(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    hcq_point last = {{0}, 0};
    for (uint64_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < hops(); i++) {
            hcq_point before = last;
            hcq_submission s = hop(c, i, &before);
            bench_check(hcq_submit(c->device, &s, 1, &last), "hcq_submit");
        }
        bench_check(hcq_wait(&last, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
        c->expected[OURS] += hops();
    }
}

static void raw_hops_run(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < hops(); i++) {
            raw_stream stream = c->streams[i % 2];
            if (i != 0) {
                raw_wait_event(&c->raw, stream, c->events[i - 1]);
            }
            raw_launch_tiny(&c->raw, stream, c->raw_counter);
            raw_record(&c->raw, c->events[i], stream);
        }
        raw_check(c->raw.EventSynchronize(c->events[hops() - 1]), "cuEventSynchronize");
        c->expected[THEIRS] += hops();
    }
}

static void make_hops(cuda *c) {
    exec_tiny(c, c->queue);
    bench_check(hcq_queue_create(c->device, HCQ_COMPUTE, &c->other), "hcq_queue_create");
    exec_tiny(c, c->other);
    bench_check(hcq_queue_bind(c->queue, c->device), "hcq_queue_bind");
    bench_check(hcq_queue_bind(c->other, c->device), "hcq_queue_bind");
    raw_enter(&c->raw);
    c->streams[0] = raw_stream_make(&c->raw);
    c->streams[1] = raw_stream_make(&c->raw);
    for (uint32_t i = 0; i < HOPS; i++) {
        c->events[i] = raw_event_make(&c->raw, RAW_SPIN_EVENT);
    }
    raw_leave(&c->raw);
}

/* Two lanes that take turns, each waits for the other. */
void bench_cuda_cross_stream_wait(bench_result *result) {
    static cuda c;
    bench_stats stats[2];
    if (!cuda_open(&c, 2, result)) {
        return;
    }
    make_hops(&c);
    bench_side sides[2] = {{hops_run, NULL, NULL, &c, 0},
                           {raw_hops_run, raw_begin, raw_end, &c, 0}};
    uint64_t waits = query(&c, HCQ_CUDA_QUERY_WAITS);
    uint64_t values = query(&c, HCQ_CUDA_QUERY_VALUE_WAITS);
    hops_run(&c, 10);
    waits = query(&c, HCQ_CUDA_QUERY_WAITS) - waits;
    values = query(&c, HCQ_CUDA_QUERY_VALUE_WAITS) - values;
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1.0 / hops());
    bench_extra_add(result, "event_waits_per_hop", (double)waits / (10.0 * hops()));
    bench_extra_add(result, "value_waits_per_hop", (double)values / (10.0 * hops()));
    check_counters(&c, "cross_stream_wait");
    cuda_close(&c);
}

/* ---- patching ------------------------------------------------------------ */

/* The next kernel in turn, and a step that it has not had. */
static uint32_t next_step(cuda *c, int side, uint32_t *index) {
    uint32_t at = c->turn[side]++ * 7 % c->count;
    uint32_t step = c->steps[side][at] % 3 + 1;
    c->sums[side] += step - c->steps[side][at];
    c->steps[side][at] = step;
    *index = at;
    return step;
}

static void patch_run(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t index;
        uint32_t step = next_step(c, OURS, &index);
        bench_check(hcq_queue_update_arg(c->queue, index, 1, &step, sizeof step),
                    "hcq_queue_update_arg");
        replay(c, 1);
    }
}

static void raw_patch_run(void *ctx, uint64_t n) {
    cuda *c = (cuda *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t index;
        uint32_t step = next_step(c, THEIRS, &index);
        raw_set_tiny(&c->raw, c->exec, c->nodes[index], c->raw_counter, step);
        raw_replay(c, 1);
    }
}

void bench_cuda_patch_1_of_1000(bench_result *result) {
    static cuda c;
    bench_stats stats[4];
    if (!cuda_open(&c, 0, result)) {
        return;
    }
    make_chain(&c, chain_length());
    bench_side sides[4] = {{patch_run, NULL, NULL, &c, 0},
                           {raw_patch_run, raw_begin, raw_end, &c, 0},
                           {replay, NULL, NULL, &c, 0},
                           {raw_replay, raw_begin, raw_end, &c, 0}};
    bench_throughput(sides, 4, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_extra_add(result, "patch_adds_ns", stats[0].median - stats[2].median);
    bench_extra_add(result, "raw_patch_adds_ns", stats[1].median - stats[3].median);
    uint64_t set = query(&c, HCQ_CUDA_QUERY_NODES_SET);
    patch_run(&c, 10);
    set = query(&c, HCQ_CUDA_QUERY_NODES_SET) - set;
    bench_extra_add(result, "nodes_set_per_launch", (double)set / 10.0);
    check_counters(&c, "patch_1_of_1000");
    cuda_close(&c);
}

/* ---- large copies -------------------------------------------------------- */

typedef struct copies {
    cuda c;
    hcq_buffer memory, pinned;
    void *host;                           /* pinned, or not */
    raw_pointer raw_host;                 /* the same for the driver; 0: not pinned */
    size_t size;
} copies;

static void copyin_run(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_copyin(c->memory, c->host, c->size), "hcq_copyin");
    }
}

static void copyout_run(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_copyout(c->host, c->memory, c->size), "hcq_copyout");
    }
}

static void raw_copy_run(copies *c, uint64_t n, raw_pointer dst, raw_pointer src) {
    raw *r = &c->c.raw;
    for (uint64_t i = 0; i < n; i++) {
        raw_check(r->MemcpyAsync(dst, src, c->size, r->stream), "cuMemcpyAsync");
        raw_finish(r, r->stream);
    }
}

static void raw_copyin_run(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    if (c->raw_host != 0) {
        raw_copy_run(c, n, c->memory.address, c->raw_host);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        raw_check(c->c.raw.MemcpyHtoD(c->memory.address, c->host, c->size), "cuMemcpyHtoD");
    }
}

static void raw_copyout_run(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    if (c->raw_host != 0) {
        raw_copy_run(c, n, c->raw_host, c->memory.address);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        raw_check(c->c.raw.MemcpyDtoH(c->host, c->memory.address, c->size), "cuMemcpyDtoH");
    }
}

static void copies_begin(void *ctx) { raw_enter(&((copies *)ctx)->c.raw); }
static void copies_end(void *ctx) { raw_leave(&((copies *)ctx)->c.raw); }

static hcq_result copies_alloc(copies *c, int pinned) {
    hcq_result result = hcq_alloc(c->c.device, c->size, 0, &c->memory);
    if (result != HCQ_OK || !pinned) {
        return result;
    }
    result = hcq_alloc(c->c.device, c->size, HCQ_HOST_VISIBLE, &c->pinned);
    if (result != HCQ_OK) {
        bench_check(hcq_free(c->memory), "hcq_free");
    }
    return result;
}

/* As much as there is memory for: half as much, and so on. All of it is touched. */
static void copies_make(copies *c, size_t size, int pinned) {
    c->size = bench_smoke() ? 1u << 20 : size;
    hcq_result result = copies_alloc(c, pinned);
    while (result == HCQ_ERROR_OUT_OF_MEMORY && c->size > 1u << 20) {
        c->size /= 2;
        result = copies_alloc(c, pinned);
    }
    bench_check(result, "hcq_alloc");
    c->host = pinned ? c->pinned.host : malloc(c->size);
    c->raw_host = pinned ? c->pinned.address : 0;
    if (c->host == NULL) {
        bench_die("out of memory");
    }
    memset(c->host, 0x5a, c->size);
}

/* In, out again, and is it what it was? */
static void copies_check(copies *c) {
    uint64_t *at = (uint64_t *)c->host;
    size_t count = c->size / sizeof *at;
    for (size_t i = 0; i < count; i++) {
        at[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    copyin_run(c, 1);
    memset(c->host, 0, c->size);
    copyout_run(c, 1);
    for (size_t i = 0; i < count; i++) {
        if (at[i] != i * UINT64_C(0x9e3779b97f4a7c15)) {
            bench_die("a copy of %zu bytes differs at %zu", c->size, i * sizeof *at);
        }
    }
}

static void copy_bench(bench_result *result, size_t size, int pinned, int in) {
    static copies c;
    bench_stats stats[2];
    memset(&c, 0, sizeof c);
    if (!cuda_open(&c.c, 0, result)) {
        return;
    }
    if (!pinned && (c.c.raw.MemcpyHtoD == NULL || c.c.raw.MemcpyDtoH == NULL)) {
        bench_note(result, "SKIP: the driver lacks cuMemcpyHtoD_v2");
        cuda_close(&c.c);
        return;
    }
    copies_make(&c, size, pinned);
    copies_check(&c);
    bench_side sides[2] = {{in ? copyin_run : copyout_run, NULL, NULL, &c, 1},
                           {in ? raw_copyin_run : raw_copyout_run, copies_begin, copies_end,
                            &c, 1}};
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1e-6);
    bench_extra_add(result, "mib", (double)c.size / 1048576.0);
    bench_extra_add(result, "gb_per_s", (double)c.size / stats[0].median);
    bench_extra_add(result, "raw_gb_per_s", (double)c.size / stats[1].median);
    bench_extra_add(result, "bandwidth_ratio", stats[1].median / stats[0].median);
    cuda_close(&c.c);
    if (!pinned) {
        free(c.host);
    }
}

void bench_cuda_copyin_1g(bench_result *result) { copy_bench(result, 1u << 30, 1, 1); }
void bench_cuda_copyout_1g(bench_result *result) { copy_bench(result, 1u << 30, 1, 0); }
void bench_cuda_copyin_pageable(bench_result *result) { copy_bench(result, 256u << 20, 0, 1); }
void bench_cuda_copyout_pageable(bench_result *result) { copy_bench(result, 256u << 20, 0, 0); }

#include "bench_cuda_facts.h"
