/* bench_graph.c - graphs: replay, patching, two devices; the profile.

   Before its figures are taken and after it every bench checks what its graph computed.

   A launch and the wait for it cost 2 us where host and lane have a processor
   each, 7 where the scheduler puts them on one. So they are kept apart: this
   thread on the first processor, all others on the rest. Devices are opened
   while everybody may go everywhere, as what they make of the machine then is
   what they do by default.
*/

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { CHAIN = BENCH_CHAIN, CHECKED = 1000, GROUP = 10 };

static const double g_per_call = 1.0 / CHAIN;

/* ---- kernels ------------------------------------------------------------- */

/* `own` and something else: a step, or the address of a word. */
typedef struct pair_args { uint64_t own, other; } pair_args;

static void add_step(const void *args, const hcq_block *block) {
    const pair_args *a = HCQ_ARGS(pair_args, args);
    (void)block;
    *HCQ_PTR(uint64_t, a->own) += a->other;
}

/* Adds a word of another buffer; wraps around. */
static void take(const void *args, const hcq_block *block) {
    const pair_args *a = HCQ_ARGS(pair_args, args);
    (void)block;
    *HCQ_PTR(uint64_t, a->own) += *HCQ_PTR(uint64_t, a->other);
}

/* Adds 1 and leaves the sum in another buffer. */
static void post(const void *args, const hcq_block *block) {
    const pair_args *a = HCQ_ARGS(pair_args, args);
    (void)block;
    *HCQ_PTR(uint64_t, a->own) += 1;
    *HCQ_PTR(uint64_t, a->other) = *HCQ_PTR(uint64_t, a->own);
}

/* ---- devices and graphs -------------------------------------------------- */

static hcq_device *open_device(void) {
    hcq_device *device;
    bench_place_threads(BENCH_ANYWHERE);
    CHECK(hcq_open("CPU", NULL, &device));
    return device;
}

static uint64_t read_word(hcq_buffer buffer) {
    uint64_t value;
    CHECK(hcq_copyout(&value, buffer, sizeof value));
    return value;
}

/* A graph on one device whose calls all raise one counter, one after another. */
typedef struct graph {
    bench_chain on;
    uint64_t expected;                    /* what the counter must hold */
    uint64_t per_launch;                  /* what a launch adds to it */
    uint64_t turn;                        /* of what changes between launches */
    uint64_t steps[CHAIN];                /* of add_step, as they are now */
    uint32_t patches;                     /* steps changed before each launch */
} graph;

static void graph_open(graph *g, int steps) {
    *g = (graph){.on.device = open_device()};
    g->on.counter = bench_buffer(g->on.device, sizeof(uint64_t));
    g->on.queue = bench_queue(g->on.device, HCQ_GRAPH);
    g->on.program = steps ? bench_program(g->on.device, "add_step", add_step, HCQ_ARG_U64)
                          : bench_program(g->on.device, "tiny", bench_tiny, HCQ_ARG_NONE);
    for (uint32_t i = 0; i < CHAIN; i++) {
        pair_args args = {g->on.counter.address, 1};
        bench_exec(g->on.queue, g->on.program, &args,
                   steps ? sizeof args : sizeof(bench_tiny_args));
        g->steps[i] = 1;
    }
    g->per_launch = CHAIN;
    CHECK(hcq_queue_bind(g->on.queue, g->on.device));
    bench_place_threads(BENCH_APART);
}

/* Is the counter right? */
static void graph_check(const graph *g, const char *name) {
    bench_counter(read_word(g->on.counter), g->expected, name);
}

static void graph_close(graph *g, const char *name) {
    graph_check(g, name);
    bench_chain_close(&g->on);
}

static void graph_replay(void *ctx, uint64_t n) {
    graph *g = (graph *)ctx;
    bench_chain_replay(&g->on, n);
    g->expected += n * g->per_launch;
}

static void replay_open(void *ctx) {
    graph *g = (graph *)ctx;
    graph_open(g, 0);
    graph_replay(g, CHECKED);
    graph_check(g, "graph.replay_1000");
}

static void replay_1000(bench_result *result) {
    static graph g;
    bench_loop *l = bench_loop_new();
    replay_open(&g);
    bench_side sides[2] = {{graph_replay, &g}, {bench_loop_run, l->nodes}};
    bench_compare(result, sides, 2, g_per_call);
    bench_note(result, "loop of indirect calls");
    graph_close(&g, "graph.replay_1000");
    free(l);
}

#ifdef BENCH_TBB
static void replay_1000_tbb(bench_result *result) {
    static graph g;
    bench_compare_tbb(result, (bench_side){graph_replay, &g}, replay_open);
    graph_close(&g, "graph.replay_1000_tbb");
}
#endif

/* ---- patching ------------------------------------------------------------ */
/* Both sides launch the same graph and wait for it; ours changes something
   before that. What is changed moves through the graph, so that no version has
   it in its cache, and its value is never what it was. */

static void patch_one(graph *g) {
    uint32_t at = (uint32_t)(g->turn * 37 % CHAIN); /* prime to CHAIN: each call in turn */
    uint64_t step = ++g->turn;
    CHECK(hcq_queue_update_arg(g->on.queue, at, 8, &step, sizeof step));
    g->per_launch += step - g->steps[at];
    g->steps[at] = step;
}

BENCH_RUN(patch_run, graph, g) {
    for (uint32_t p = 0; p < g->patches; p++) {
        patch_one(g);
    }
    graph_replay(g, 1);
}

static void patch(bench_result *result) {
    static graph g;
    graph_open(&g, 1);
    g.patches = result->number;
    patch_run(&g, CHECKED);
    graph_check(&g, "graph.patch");
    bench_side sides[2] = {{patch_run, &g}, {graph_replay, &g}};
    bench_compare(result, sides, 2, 1.0);
    bench_note(result, "itself with nothing changed");
    graph_close(&g, "graph.patch");
}

/* ---- two devices --------------------------------------------------------- */
/* Call i runs on device i % 2 and raises that device's counter. In every ten
   calls one leaves its counter in a word of its own (post), and the call after
   it, on the other device, adds that word (take). The direction alternates. */

enum { MAIL_STRIDE = 64 };

typedef enum call_kind { CALL_TINY, CALL_POST, CALL_TAKE, CALL_KINDS } call_kind;

static const hcq_cpu_fn g_functions[CALL_KINDS] = {bench_tiny, post, take};

static call_kind call_kind_of(uint32_t i) {
    uint32_t poster = i / GROUP % 2; /* of this group: 0 or 1 after its first call */
    if (i % GROUP == poster) {
        return CALL_POST;
    }
    return i % GROUP == poster + 1 ? CALL_TAKE : CALL_TINY;
}

typedef struct two {
    bench_chain graph;
    hcq_device *device[2];
    hcq_program *program[2][CALL_KINDS];  /* of each device */
    hcq_buffer own[2], mail;
    hcq_queue *queue[2];                  /* the same made by hand */
    hcq_signal signal[2];                 /* raised by that device's queue */
    uint64_t value;                       /* no signal is above it between two launches */
    uint32_t updates[2][CHAIN / GROUP];   /* of each queue: its waits and signals in order */
    uint32_t update_count[2];
} two;

static hcq_buffer two_mail(const two *t, uint32_t i) {
    return hcq_view(t->mail, (uint64_t)(i / GROUP) * MAIL_STRIDE, sizeof(uint64_t));
}

static void two_open(two *t) {
    static const char *const names[CALL_KINDS] = {"tiny", "post", "take"};
    static const uint32_t second[CALL_KINDS] = {HCQ_ARG_NONE, HCQ_ARG_OUT, HCQ_ARG_IN};
    memset(t, 0, sizeof *t);
    for (uint32_t d = 0; d < 2; d++) {
        t->device[d] = open_device();
        for (uint32_t k = 0; k < CALL_KINDS; k++) {
            t->program[d][k] = bench_program(t->device[d], names[k], g_functions[k], second[k]);
        }
        t->own[d] = bench_buffer(t->device[d], sizeof(uint64_t));
        CHECK(hcq_signal_create(t->device[d], 0, &t->signal[d]));
    }
    t->graph.device = t->device[0];
    t->mail = bench_buffer(t->device[0], CHAIN / GROUP * MAIL_STRIDE);
}

/* Records call i. */
static uint32_t two_exec(const two *t, hcq_queue *queue, uint32_t i) {
    call_kind kind = call_kind_of(i);
    pair_args args = {t->own[i % 2].address, two_mail(t, i).address};
    return bench_exec(queue, t->program[i % 2][kind], &args,
                      kind == CALL_TINY ? sizeof(bench_tiny_args) : sizeof args);
}

static void two_record_graph(two *t) {
    t->graph.queue = bench_queue(t->device[0], HCQ_GRAPH);
    for (uint32_t i = 0; i < CHAIN; i++) {
        uint32_t at = two_exec(t, t->graph.queue, i);
        if (call_kind_of(i) != CALL_TINY) {
            CHECK(hcq_queue_access(t->graph.queue, at, two_mail(t, i), call_kind_of(i) == CALL_POST
                                   ? HCQ_ARG_OUT : HCQ_ARG_IN));
        }
    }
    CHECK(hcq_queue_bind(t->graph.queue, t->device[0]));
}

static void two_note_update(two *t, uint32_t d, int32_t at) {
    CHECK(at);
    t->updates[d][t->update_count[d]++] = (uint32_t)at;
}

/* Signal and wait of group k have the value k + 1, plus 100 for each launch
   before. Each device's signal skips the groups in which the other one posts. */
static void two_record_queues(two *t) {
    t->queue[0] = bench_queue(t->device[0], HCQ_COMPUTE);
    t->queue[1] = bench_queue(t->device[1], HCQ_COMPUTE);
    for (uint32_t i = 0; i < CHAIN; i++) {
        uint32_t d = i % 2;
        call_kind kind = call_kind_of(i);
        if (kind == CALL_TAKE) {
            hcq_point posted = hcq_at(t->signal[1 - d], i / GROUP + 1);
            two_note_update(t, d, hcq_queue_wait(t->queue[d], posted));
        }
        two_exec(t, t->queue[d], i);
        if (kind == CALL_POST) {
            hcq_point posted = hcq_at(t->signal[d], i / GROUP + 1);
            two_note_update(t, d, hcq_queue_signal(t->queue[d], posted));
        }
    }
    CHECK(hcq_queue_bind(t->queue[0], t->device[0]));
    CHECK(hcq_queue_bind(t->queue[1], t->device[1]));
}

/* In group k queue k % 2 signals and the other one waits. */
static void two_update(two *t, uint64_t base) {
    for (uint32_t k = 0; k < CHAIN / GROUP; k++) {
        uint32_t poster = k % 2, waiter = 1 - poster;
        CHECK(hcq_queue_update_signal(t->queue[poster], t->updates[poster][k], NULL, base + k + 1));
        CHECK(hcq_queue_update_wait(t->queue[waiter], t->updates[waiter][k], NULL, base + k + 1));
    }
}

BENCH_RUN(two_queues_run, two, t) {
    hcq_point done[2];
    two_update(t, t->value);
    t->value += CHAIN / GROUP;
    CHECK(hcq_queue_submit(t->queue[0], t->device[0], &done[0]));
    CHECK(hcq_queue_submit(t->queue[1], t->device[1], &done[1]));
    CHECK(hcq_wait(done, 2, HCQ_ALL, HCQ_FOREVER));
}

/* Launches from zero leave the counters that as many calls one after another leave. */
static void two_check(two *t, void (*run)(void *, uint64_t), const char *name) {
    enum { TIMES = 100 };
    static const uint64_t zero;
    uint64_t own[2] = {0, 0}, mail = 0;
    CHECK(hcq_copyin(t->own[0], &zero, sizeof zero));
    CHECK(hcq_copyin(t->own[1], &zero, sizeof zero));
    for (uint32_t i = 0; i < TIMES * CHAIN; i++) {
        call_kind kind = call_kind_of(i % CHAIN);
        own[i % 2] += kind == CALL_TAKE ? mail : 1;
        mail = kind == CALL_POST ? own[i % 2] : mail;
    }
    run(t, TIMES);
    bench_counter(read_word(t->own[0]), own[0], name);
    bench_counter(read_word(t->own[1]), own[1], name);
}

static void replay_two_devices(bench_result *result) {
    static two t;
    two_open(&t);
    two_record_graph(&t);
    two_record_queues(&t);
    two_check(&t, bench_chain_replay, "graph");
    two_check(&t, two_queues_run, "queues");
    bench_side sides[2] = {{bench_chain_replay, &t}, {two_queues_run, &t}};
    bench_compare(result, sides, 2, g_per_call);
    two_check(&t, bench_chain_replay, "graph");
    bench_note(result, "two queues and 100 signals by hand");
    bench_chain_close(&t.graph);
    CHECK(hcq_close(t.device[1]));
}

/* ---- profile ------------------------------------------------------------- */
/* There is no library without the profile to compare with: the other side is a
   device of the same library on which none was ever started.

   One long comparison would not do: where a queue happens to lie in memory is
   worth some per cent. So the devices are opened anew in each round, in another
   order, and take turns in samples of a quarter of a millisecond. */

enum { PROFILED, NEVER, PROFILE_SIDES, SAMPLE_LAUNCHES = 150, WAKE_LAUNCHES = 50 };

static void profile_open(graph *graphs, uint32_t round, int on) {
    for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
        graph_open(&graphs[(i + round) % PROFILE_SIDES], 0);
    }
    for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
        graph_replay(&graphs[i], 2 * WAKE_LAUNCHES);
    }
    CHECK(hcq_profile_start(graphs[PROFILED].on.device, NULL));
    graph_replay(&graphs[PROFILED], 2 * WAKE_LAUNCHES);
    if (!on) {
        CHECK(hcq_profile_stop(graphs[PROFILED].on.device));
    }
}

/* The launches before a sample wake the device's thread, which went to sleep
   while the other devices had their turn. */
static double profile_sample(graph *g) {
    graph_replay(g, WAKE_LAUNCHES);
    uint64_t start = bench_now();
    graph_replay(g, SAMPLE_LAUNCHES);
    return (double)(bench_now() - start) / ((double)SAMPLE_LAUNCHES * CHAIN);
}

static void profile_round(uint32_t round, int on, uint32_t samples, double *medians) {
    enum { MOST = 120 };
    static graph graphs[PROFILE_SIDES];
    static double values[PROFILE_SIDES][MOST];
    profile_open(graphs, round, on);
    for (uint32_t s = 0; s < samples; s++) {
        for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
            uint32_t at = s % 2 == 0 ? i : PROFILE_SIDES - 1 - i;
            values[at][s] = profile_sample(&graphs[at]);
        }
    }
    for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
        medians[i] = bench_median(values[i], samples);
        graph_close(&graphs[i], "profile");
    }
}

/* The ratio is the median of those within a round: the machine drifts more
   between two rounds than what is looked for. */
static void profile(bench_result *result) {
    const int on = result->number != 0;
    double ours[BENCH_MAX_PASSES], peer[BENCH_MAX_PASSES], medians[PROFILE_SIDES];
    bench_stats stats[2];
    uint32_t rounds = bench_of(2, 9, BENCH_MAX_PASSES);
    uint32_t samples = bench_of(4, 60, 120);
    for (uint32_t r = 0; r < rounds; r++) {
        profile_round(r, on, samples, medians);
        ours[r] = medians[PROFILED];
        peer[r] = medians[NEVER];
    }
    bench_stats_make(&stats[0], ours, rounds);
    bench_stats_make(&stats[1], peer, rounds);
    result->ratio = bench_report(result, &stats[0], &stats[1], 1.0);
    bench_note(result, on ? "recording, against a device that never started it"
                          : "started and stopped, against a device that never started it");
}

const bench bench_graph_rows[] = {
    {"graph.replay_1000", "ns/kernel", 2.5, replay_1000},
#ifdef BENCH_TBB
    {"graph.replay_1000_tbb", "ns/kernel", 0.3, replay_1000_tbb},
#endif
    {"graph.patch_1_of_1000", "ns/launch", 1.2, patch, 1},
    {"graph.patch_100_of_1000", "ns/launch", BENCH_NONE, patch, 100},
    {"graph.replay_two_devices", "ns/kernel", BENCH_NONE, replay_two_devices},
    {"profile.off", "ns/kernel", 1.02, profile, 0},
    {"profile.on", "ns/kernel", BENCH_NONE, profile, 1},
    {0}};
