/* bench_graph.c - graphs: replay, patching, two devices, planning; the profile.

   Before its figures are taken every bench checks what its graph computed, and
   counts allocations: one that a launch makes, through the hooks of the device
   or by malloc on any thread, ends the bench.
*/

#define _GNU_SOURCE
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHAIN = BENCH_CHAIN, PATCHES = 100, LAUNCHES = 1000, GROUP = 10 };

static const double g_per_call = 1.0 / CHAIN;

/* ---- counting allocations ------------------------------------------------ */
/* These stand for the whole program, so the other benches pass here, too, and
   must not pay for it: counted is only while somebody asks. */

static int g_counting;
static uint64_t g_heap_calls;
static uint64_t g_hook_calls;

static void count_call(uint64_t *calls) {
    if (__atomic_load_n(&g_counting, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
    }
}

#ifdef __GLIBC__
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size) {
    count_call(&g_heap_calls);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    count_call(&g_heap_calls);
    return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size) {
    count_call(&g_heap_calls);
    return __libc_realloc(ptr, size);
}

int posix_memalign(void **ptr, size_t align, size_t size) {
    count_call(&g_heap_calls);
    *ptr = __libc_memalign(align, size);
    return *ptr != NULL ? 0 : 12; /* ENOMEM */
}

void *aligned_alloc(size_t align, size_t size) {
    count_call(&g_heap_calls);
    return __libc_memalign(align, size);
}
#endif

static void *hook_alloc(void *user, size_t size, size_t align) {
    void *ptr = NULL;
    (void)user;
    count_call(&g_hook_calls);
    if (align <= 2 * sizeof(void *)) {
        return malloc(size);
    }
    return posix_memalign(&ptr, align, size) == 0 ? ptr : NULL;
}

static void hook_free(void *user, void *ptr, size_t size) {
    (void)user;
    (void)size;
    free(ptr);
}

/* The first launches may still take memory, those after them must not. */
static void check_allocations(bench_result *result, void (*launch)(void *, uint64_t), void *ctx) {
    launch(ctx, LAUNCHES);
    g_heap_calls = 0;
    g_hook_calls = 0;
    __atomic_store_n(&g_counting, 1, __ATOMIC_SEQ_CST);
    launch(ctx, LAUNCHES);
    __atomic_store_n(&g_counting, 0, __ATOMIC_SEQ_CST);
    if (g_hook_calls != 0 || g_heap_calls != 0) {
        bench_die("%llu allocations by the hooks, %llu by malloc in %d launches",
                  (unsigned long long)g_hook_calls, (unsigned long long)g_heap_calls,
                  (int)LAUNCHES);
    }
    bench_extra_add(result, "allocations_per_launch", (double)g_hook_calls / LAUNCHES);
}

/* ---- placement ----------------------------------------------------------- */
/* A launch and the wait for it cost 2 us where host and lane have a processor
   each, 7 where the scheduler puts them on one. So they are kept apart: this
   thread on the first processor, all others on the rest. Devices are opened
   while everybody may go everywhere, as what they make of the machine then is
   what they do by default. */

static cpu_set_t all_processors(void) {
    static cpu_set_t all;
    static int known;
    if (!known && sched_getaffinity(0, sizeof all, &all) != 0) {
        bench_die("sched_getaffinity: %s", strerror(errno));
    }
    known = 1;
    return all;
}

static void place_thread(pid_t id, const cpu_set_t *where) {
    if (sched_setaffinity(id, sizeof *where, where) != 0 && errno != ESRCH) {
        bench_die("sched_setaffinity: %s", strerror(errno));
    }
}

static void place_anywhere(void) {
    cpu_set_t all = all_processors();
    place_thread(0, &all);
}

static void place_apart(void) {
    cpu_set_t rest = all_processors(), first;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    size_t cpu = 0;
    if (tasks == NULL) {
        bench_die("/proc/self/task: %s", strerror(errno));
    }
    while (!CPU_ISSET(cpu, &rest)) {
        cpu++;
    }
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    CPU_CLR(cpu, &rest);
    while (CPU_COUNT(&rest) != 0 && (task = readdir(tasks)) != NULL) {
        pid_t id = (pid_t)atoi(task->d_name); /* 0: "." and ".." */
        if (id != 0) {
            place_thread(id, id == getpid() ? &first : &rest);
        }
    }
    closedir(tasks);
}

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

static hcq_device *open_device(uint32_t slots) {
    hcq_device_desc desc;
    hcq_device *device;
    memset(&desc, 0, sizeof desc);
    desc.memory.alloc_fn = hook_alloc;
    desc.memory.free_fn = hook_free;
    desc.slots = slots;
    place_anywhere();
    bench_check(hcq_open("CPU", &desc, &device), "hcq_open");
    return device;
}

static hcq_program *make_program(hcq_device *device, const char *label, hcq_cpu_fn fn,
                                 uint32_t second) {
    hcq_program_desc desc;
    hcq_program *program;
    memset(&desc, 0, sizeof desc);
    desc.label = label;
    desc.cpu = fn;
    desc.args[0] = HCQ_ARG_INOUT;
    desc.args[1] = second;
    bench_check(hcq_program_create(device, &desc, &program), "hcq_program_create");
    return program;
}

static hcq_buffer make_buffer(hcq_device *device, uint64_t size) {
    hcq_buffer buffer;
    bench_check(hcq_alloc(device, size, HCQ_HOST_VISIBLE | HCQ_ZEROED, &buffer), "hcq_alloc");
    return buffer;
}

static hcq_queue *make_queue(hcq_device *device, hcq_queue_kind kind) {
    hcq_queue *queue;
    bench_check(hcq_queue_create(device, kind, &queue), "hcq_queue_create");
    return queue;
}

static uint32_t exec(hcq_queue *queue, hcq_program *program, const void *args) {
    hcq_program_info info;
    bench_check(hcq_program_info_get(program, &info), "hcq_program_info_get");
    int32_t at = hcq_queue_exec(queue, program, args, info.kernargs_size, hcq_dim(1, 1, 1),
                                hcq_dim(1, 1, 1));
    if (at < 0) {
        bench_die("hcq_queue_exec: %s", hcq_result_text((hcq_result)at));
    }
    return (uint32_t)at;
}

static uint64_t read_word(hcq_buffer buffer) {
    uint64_t value;
    bench_check(hcq_copyout(&value, buffer, sizeof value), "hcq_copyout");
    return value;
}

static void wait_for(hcq_point done) {
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
}

/* A graph on one device whose calls all raise one counter, one after another. */
typedef struct graph {
    hcq_device *device;
    hcq_buffer counter;
    hcq_queue *queue;
    uint64_t expected;                    /* what the counter must hold */
    uint64_t per_launch;                  /* what a launch adds to it */
    uint64_t turn;                        /* of whatever changes between launches */
    uint64_t steps[CHAIN];                /* of add_step, as they are now */
    uint32_t patches;                     /* steps changed before each launch */
    hcq_buffer inputs[2];
    uint32_t alternate;                   /* 1: between the inputs */
} graph;

static void graph_open(graph *g, uint32_t slots) {
    memset(g, 0, sizeof *g);
    g->device = open_device(slots);
    g->counter = make_buffer(g->device, sizeof(uint64_t));
    g->queue = make_queue(g->device, HCQ_GRAPH);
}

static void record_tiny(graph *g, hcq_program *tiny, uint32_t count) {
    bench_tiny_args args;
    args.counter = g->counter.address;
    for (uint32_t i = 0; i < count; i++) {
        exec(g->queue, tiny, &args);
    }
    g->per_launch += count;
}

static void graph_ready(graph *g) {
    bench_check(hcq_queue_bind(g->queue, g->device), "hcq_queue_bind");
    place_apart();
}

static void tiny_open(graph *g) {
    graph_open(g, 0);
    record_tiny(g, make_program(g->device, "tiny", bench_tiny, HCQ_ARG_NONE), CHAIN);
    graph_ready(g);
}

static void graph_close(graph *g) {
    hcq_queue_destroy(g->queue);
    bench_check(hcq_close(g->device), "hcq_close");
}

static void graph_check(const graph *g, const char *name) {
    uint64_t value = read_word(g->counter);
    if (value != g->expected) {
        bench_die("%s: the counter is %llu, not %llu", name, (unsigned long long)value,
                  (unsigned long long)g->expected);
    }
}

static void graph_replay(void *ctx, uint64_t n) {
    graph *g = (graph *)ctx;
    hcq_point done;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_queue_submit(g->queue, g->device, &done), "hcq_queue_submit");
        wait_for(done);
    }
    g->expected += n * g->per_launch;
}

/* ---- replay against a loop of indirect calls ----------------------------- */

typedef struct loop_node { hcq_cpu_fn fn; const void *args; } loop_node;

typedef struct loop {
    loop_node nodes[CHAIN];
    bench_tiny_args tiny[CHAIN];          /* blocks as large as a recording's */
    pair_args pairs[CHAIN];
    uint64_t own[2], mail[CHAIN / GROUP];
} loop;

static loop *loop_new(void) {
    loop *l = (loop *)calloc(1, sizeof *l);
    if (l == NULL) {
        bench_die("out of memory");
    }
    for (uint32_t i = 0; i < CHAIN; i++) {
        l->tiny[i].counter = (uint64_t)(uintptr_t)&l->own[0];
        l->nodes[i].fn = bench_tiny;
        l->nodes[i].args = &l->tiny[i];
    }
    return l;
}

/* The nodes are reached by a pointer that the compiler cannot look behind, so
   every call stays an indirect one. */
static void loop_run(void *ctx, uint64_t n) {
    const loop *volatile hidden = (const loop *)ctx;
    const loop *l = hidden;
    hcq_block block = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
    for (uint64_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < CHAIN; i++) {
            l->nodes[i].fn(l->nodes[i].args, &block);
        }
    }
}

void bench_graph_replay_1000(bench_result *result) {
    static graph g;
    loop *l = loop_new();
    bench_stats stats[2];
    tiny_open(&g);
    check_allocations(result, graph_replay, &g);
    graph_check(&g, "graph.replay_1000");
    loop_run(l, 1);
    if (l->own[0] != CHAIN) {
        bench_die("graph.replay_1000: the loop did not call every kernel");
    }
    bench_side sides[2] = {{graph_replay, NULL, NULL, &g, 0}, {loop_run, NULL, NULL, l, 0}};
    bench_throughput(sides, 2, stats);
    graph_check(&g, "graph.replay_1000");
    bench_report(result, &stats[0], &stats[1], g_per_call);
    bench_note(result, "loop of indirect calls");
    graph_close(&g);
    free(l);
}

void bench_graph_replay_1000_tbb(bench_result *result) {
    static graph g;
    uint64_t counter = 0;
    bench_stats stats[2];
    void *tbb = bench_tbb_open(CHAIN, &counter); /* first: its threads are placed, too */
    bench_note(result, tbb == NULL ? "no oneTBB" : "oneTBB lightweight continue_node chain");
    if (tbb != NULL) {
        bench_tbb_replay(tbb, 1);
        if (counter != CHAIN) {
            bench_die("graph.replay_1000_tbb: not every node ran");
        }
    }
    tiny_open(&g);
    check_allocations(result, graph_replay, &g);
    graph_check(&g, "graph.replay_1000_tbb");
    bench_side sides[2] = {{graph_replay, NULL, NULL, &g, 0},
                           {bench_tbb_replay, NULL, NULL, tbb, 0}};
    bench_throughput(sides, tbb == NULL ? 1 : 2, stats);
    bench_report(result, &stats[0], tbb == NULL ? NULL : &stats[1], g_per_call);
    if (tbb != NULL) {
        bench_tbb_close(tbb);
    }
    graph_close(&g);
}

/* ---- patching ------------------------------------------------------------ */
/* Both sides launch the same graph and wait for it; ours changes something
   before that. What is changed moves through the graph, so that no version has
   it in its cache, and its value is never what it was. */

static void steps_open(graph *g) {
    graph_open(g, 0);
    hcq_program *program = make_program(g->device, "add_step", add_step, HCQ_ARG_U64);
    for (uint32_t i = 0; i < CHAIN; i++) {
        pair_args args = {g->counter.address, 1};
        exec(g->queue, program, &args);
        g->steps[i] = 1;
    }
    g->per_launch = CHAIN;
    graph_ready(g);
}

static void patch_one(graph *g) {
    uint32_t at = (uint32_t)(g->turn * 37 % CHAIN); /* prime to CHAIN: each call in turn */
    uint64_t step = ++g->turn;
    bench_check(hcq_queue_update_arg(g->queue, at, 1, &step, sizeof step),
                "hcq_queue_update_arg");
    g->per_launch += step - g->steps[at];
    g->steps[at] = step;
}

static void patch_run(void *ctx, uint64_t n) {
    graph *g = (graph *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t p = 0; p < g->patches; p++) {
            patch_one(g);
        }
        graph_replay(g, 1);
    }
}

static void measure_patches(bench_result *result, const char *name, uint32_t patches) {
    static graph g;
    bench_stats stats[2];
    steps_open(&g);
    g.patches = patches;
    check_allocations(result, patch_run, &g);
    graph_check(&g, name);
    bench_side sides[2] = {{patch_run, NULL, NULL, &g, 0}, {graph_replay, NULL, NULL, &g, 0}};
    bench_throughput(sides, 2, stats);
    graph_check(&g, name);
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_extra_add(result, "patch_ns", (stats[0].median - stats[1].median) / patches);
    bench_note(result, "itself with nothing changed");
    graph_close(&g);
}

void bench_graph_patch_1_of_1000(bench_result *result) {
    measure_patches(result, "graph.patch_1_of_1000", 1);
}

void bench_graph_patch_100_of_1000(bench_result *result) {
    measure_patches(result, "graph.patch_100_of_1000", PATCHES);
}

/* ---- an input ------------------------------------------------------------ */
/* Call 500 adds a word of the input. Two inputs take turns, with a slot for
   each launch that may be under way and one more. */

static void input_open(graph *g) {
    graph_open(g, 4);
    hcq_program *tiny = make_program(g->device, "tiny", bench_tiny, HCQ_ARG_NONE);
    hcq_program *taker = make_program(g->device, "take", take, HCQ_ARG_IN);
    pair_args args = {g->counter.address, 0};
    args.other = hcq_input(g->queue, 0, g->device, sizeof(uint64_t)).address;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t value = 1000000u * (i + 1);
        g->inputs[i] = make_buffer(g->device, sizeof value);
        bench_check(hcq_copyin(g->inputs[i], &value, sizeof value), "hcq_copyin");
    }
    record_tiny(g, tiny, CHAIN / 2);
    exec(g->queue, taker, &args);
    record_tiny(g, tiny, CHAIN / 2 - 1);
    graph_ready(g);
}

static void input_run(void *ctx, uint64_t n) {
    graph *g = (graph *)ctx;
    hcq_submission s;
    hcq_point done;
    memset(&s, 0, sizeof s);
    s.queues = &g->queue;
    s.queue_count = 1;
    s.input_count = 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t which = g->turn++ & g->alternate;
        s.inputs = &g->inputs[which];
        bench_check(hcq_submit(g->device, &s, 1, &done), "hcq_submit");
        wait_for(done);
        g->expected += g->per_launch + 1000000u * (which + 1);
    }
}

static void input_run_alternating(void *ctx, uint64_t n) {
    graph *g = (graph *)ctx;
    g->alternate = 1;
    input_run(g, n);
}

static void input_run_same(void *ctx, uint64_t n) {
    graph *g = (graph *)ctx;
    g->alternate = 0;
    input_run(g, n);
}

void bench_graph_input_1_of_1000(bench_result *result) {
    static graph g;
    bench_stats stats[2];
    input_open(&g);
    check_allocations(result, input_run_alternating, &g);
    graph_check(&g, "graph.input_1_of_1000");
    bench_side sides[2] = {{input_run_alternating, NULL, NULL, &g, 0},
                           {input_run_same, NULL, NULL, &g, 0}};
    bench_throughput(sides, 2, stats);
    graph_check(&g, "graph.input_1_of_1000");
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_extra_add(result, "input_ns", stats[0].median - stats[1].median);
    bench_note(result, "itself with the same input each time");
    graph_close(&g);
}

/* ---- two devices --------------------------------------------------------- */
/* Call i runs on device i % 2 and raises that device's counter. In every ten
   calls one leaves its counter in a word of its own (post), and the call after
   it, on the other device, adds that word (take). The direction alternates. */

enum { MAIL_STRIDE = 64 };

typedef enum call_kind { CALL_TINY, CALL_POST, CALL_TAKE } call_kind;

static call_kind call_kind_of(uint32_t i) {
    uint32_t poster = i / GROUP % 2; /* of this group: 0 or 1 after its first call */
    if (i % GROUP == poster) {
        return CALL_POST;
    }
    return i % GROUP == poster + 1 ? CALL_TAKE : CALL_TINY;
}

typedef struct two {
    hcq_device *device[2];
    hcq_program *program[2][3];           /* of each device, by call_kind */
    hcq_buffer own[2], mail;
    hcq_queue *graph;
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
    static const hcq_cpu_fn functions[3] = {bench_tiny, post, take};
    static const char *const names[3] = {"tiny", "post", "take"};
    static const uint32_t second[3] = {HCQ_ARG_NONE, HCQ_ARG_OUT, HCQ_ARG_IN};
    memset(t, 0, sizeof *t);
    for (uint32_t d = 0; d < 2; d++) {
        t->device[d] = open_device(0);
        for (uint32_t k = 0; k < 3; k++) {
            t->program[d][k] = make_program(t->device[d], names[k], functions[k], second[k]);
        }
        t->own[d] = make_buffer(t->device[d], sizeof(uint64_t));
        bench_check(hcq_signal_create(t->device[d], 0, &t->signal[d]), "hcq_signal_create");
    }
    t->mail = make_buffer(t->device[0], CHAIN / GROUP * MAIL_STRIDE);
}

static pair_args two_args(const two *t, uint32_t i) {
    pair_args args = {t->own[i % 2].address, two_mail(t, i).address};
    return args;
}

static void two_record_graph(two *t) {
    t->graph = make_queue(t->device[0], HCQ_GRAPH);
    for (uint32_t i = 0; i < CHAIN; i++) {
        call_kind kind = call_kind_of(i);
        pair_args args = two_args(t, i);
        uint32_t at = exec(t->graph, t->program[i % 2][kind], &args);
        if (kind != CALL_TINY) {
            bench_check(hcq_queue_access(t->graph, at, two_mail(t, i),
                                         kind == CALL_POST ? HCQ_ARG_OUT : HCQ_ARG_IN),
                        "hcq_queue_access");
        }
    }
    bench_check(hcq_queue_bind(t->graph, t->device[0]), "hcq_queue_bind");
}

static void two_graph_run(void *ctx, uint64_t n) {
    two *t = (two *)ctx;
    hcq_point done;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_queue_submit(t->graph, t->device[0], &done), "hcq_queue_submit");
        wait_for(done);
    }
}

static void two_note_update(two *t, uint32_t d, int32_t at) {
    if (at < 0) {
        bench_die("recording: %s", hcq_result_text((hcq_result)at));
    }
    t->updates[d][t->update_count[d]++] = (uint32_t)at;
}

/* Signal and wait of group k have the value k + 1, plus 100 for each launch
   before. Each device's signal skips the groups in which the other one posts. */
static void two_record_queues(two *t) {
    t->queue[0] = make_queue(t->device[0], HCQ_COMPUTE);
    t->queue[1] = make_queue(t->device[1], HCQ_COMPUTE);
    for (uint32_t i = 0; i < CHAIN; i++) {
        uint32_t d = i % 2;
        call_kind kind = call_kind_of(i);
        pair_args args = two_args(t, i);
        if (kind == CALL_TAKE) {
            hcq_point posted = hcq_at(t->signal[1 - d], i / GROUP + 1);
            two_note_update(t, d, hcq_queue_wait(t->queue[d], posted));
        }
        exec(t->queue[d], t->program[d][kind], &args);
        if (kind == CALL_POST) {
            hcq_point posted = hcq_at(t->signal[d], i / GROUP + 1);
            two_note_update(t, d, hcq_queue_signal(t->queue[d], posted));
        }
    }
    for (uint32_t d = 0; d < 2; d++) {
        bench_check(hcq_queue_bind(t->queue[d], t->device[d]), "hcq_queue_bind");
    }
}

/* In group k queue k % 2 signals and the other one waits. */
static void two_update(two *t, uint64_t base) {
    for (uint32_t k = 0; k < CHAIN / GROUP; k++) {
        uint32_t poster = k % 2;
        bench_check(hcq_queue_update_signal(t->queue[poster], t->updates[poster][k], NULL,
                                            base + k + 1), "hcq_queue_update_signal");
        bench_check(hcq_queue_update_wait(t->queue[1 - poster], t->updates[1 - poster][k], NULL,
                                          base + k + 1), "hcq_queue_update_wait");
    }
}

static void two_queues_run(void *ctx, uint64_t n) {
    two *t = (two *)ctx;
    hcq_point done[2];
    for (uint64_t i = 0; i < n; i++) {
        two_update(t, t->value);
        t->value += CHAIN / GROUP;
        for (uint32_t d = 0; d < 2; d++) {
            bench_check(hcq_queue_submit(t->queue[d], t->device[d], &done[d]),
                        "hcq_queue_submit");
        }
        bench_check(hcq_wait(done, 2, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
}

static loop *two_loop(void) {
    loop *l = loop_new();
    static const hcq_cpu_fn functions[3] = {bench_tiny, post, take};
    for (uint32_t i = 0; i < CHAIN; i++) {
        call_kind kind = call_kind_of(i);
        l->tiny[i].counter = (uint64_t)(uintptr_t)&l->own[i % 2];
        l->pairs[i].own = l->tiny[i].counter;
        l->pairs[i].other = (uint64_t)(uintptr_t)&l->mail[i / GROUP];
        l->nodes[i].fn = functions[kind];
        l->nodes[i].args = kind == CALL_TINY ? (void *)&l->tiny[i] : (void *)&l->pairs[i];
    }
    return l;
}

/* `times` launches from zero leave the counters that the loop leaves. */
static void two_check(two *t, void (*run)(void *, uint64_t), const char *name) {
    enum { TIMES = 100 };
    static const uint64_t zero;
    loop *l = two_loop();
    loop_run(l, TIMES);
    for (uint32_t d = 0; d < 2; d++) {
        bench_check(hcq_copyin(t->own[d], &zero, sizeof zero), "hcq_copyin");
    }
    run(t, TIMES);
    for (uint32_t d = 0; d < 2; d++) {
        uint64_t value = read_word(t->own[d]);
        if (value != l->own[d]) {
            bench_die("graph.replay_two_devices: %s: counter %u is %llu, not %llu", name,
                      (unsigned)d, (unsigned long long)value, (unsigned long long)l->own[d]);
        }
    }
    free(l);
}

static void two_close(two *t) {
    hcq_queue_destroy(t->graph);
    for (uint32_t d = 0; d < 2; d++) {
        bench_check(hcq_close(t->device[d]), "hcq_close");
    }
}

void bench_graph_replay_two_devices(bench_result *result) {
    static two t;
    bench_stats stats[3];
    loop *l = two_loop();
    two_open(&t);
    two_record_graph(&t);
    two_record_queues(&t);
    two_check(&t, two_graph_run, "graph");
    two_check(&t, two_queues_run, "queues");
    check_allocations(result, two_graph_run, &t);
    bench_side sides[3] = {{two_graph_run, NULL, NULL, &t, 0},
                           {two_queues_run, NULL, NULL, &t, 0},
                           {loop_run, NULL, NULL, l, 0}};
    bench_throughput(sides, 3, stats);
    two_check(&t, two_graph_run, "graph");
    bench_report(result, &stats[0], &stats[1], g_per_call);
    bench_extra_add(result, "loop_ns", stats[2].median * g_per_call);
    bench_note(result, "two queues and 100 signals by hand");
    two_close(&t);
    free(l);
}

/* ---- planning ------------------------------------------------------------ */
/* Recording and binding less recording alone: the plan, and the versions that
   are encoded by it. Of a chain, and of calls that read and write any of 64
   buffers; that one also of 4000 calls, as planning must not grow faster than
   the graph. */

enum { MIXED_BUFFERS = 64, MIXED_CALLS = 4000 };

typedef struct plan {
    hcq_device *device;
    hcq_program *tiny, *taker;
    hcq_buffer buffers[MIXED_BUFFERS];
    hcq_queue *queue;
    pair_args args[MIXED_CALLS];
    uint32_t calls;
    int mixed, bind;
} plan;

static void plan_run(void *ctx, uint64_t n) {
    plan *p = (plan *)ctx;
    for (uint64_t r = 0; r < n; r++) {
        bench_check(hcq_queue_reset(p->queue), "hcq_queue_reset");
        for (uint32_t i = 0; i < p->calls; i++) {
            exec(p->queue, p->mixed ? p->taker : p->tiny, &p->args[i]);
        }
        if (p->bind) {
            bench_check(hcq_queue_bind(p->queue, p->device), "hcq_queue_bind");
        }
    }
}

static void plan_open(plan *p, hcq_device *device, uint32_t calls, int mixed, int bind) {
    uint32_t state = 12345;
    memset(p, 0, sizeof *p);
    p->device = device;
    p->calls = calls;
    p->mixed = mixed;
    p->bind = bind;
    p->tiny = make_program(device, "tiny", bench_tiny, HCQ_ARG_NONE);
    p->taker = make_program(device, "take", take, HCQ_ARG_IN);
    p->queue = make_queue(device, HCQ_GRAPH);
    for (uint32_t i = 0; i < MIXED_BUFFERS; i++) {
        p->buffers[i] = make_buffer(device, sizeof(uint64_t));
    }
    for (uint32_t i = 0; i < calls; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t own = state >> 8 & (MIXED_BUFFERS - 1);
        uint32_t other = (own + 1 + (state >> 16) % (MIXED_BUFFERS - 1)) % MIXED_BUFFERS;
        p->args[i].own = p->buffers[mixed ? own : 0].address;
        p->args[i].other = p->buffers[other].address;
    }
}

/* Nanoseconds per call of binding; those of recording alone in `record_ns`. */
static double plan_measure(hcq_device *device, uint32_t calls, int mixed, double *record_ns) {
    static plan bound, recorded;
    bench_stats stats[2];
    plan_open(&bound, device, calls, mixed, 1);
    plan_open(&recorded, device, calls, mixed, 0);
    bench_side sides[2] = {{plan_run, NULL, NULL, &bound, 0},
                           {plan_run, NULL, NULL, &recorded, 0}};
    bench_throughput(sides, 2, stats);
    hcq_queue_destroy(bound.queue);
    hcq_queue_destroy(recorded.queue);
    *record_ns = stats[1].median / calls;
    return (stats[0].median - stats[1].median) / calls;
}

void bench_graph_plan_1000(bench_result *result) {
    double record_ns, mixed_record_ns;
    hcq_device *device = open_device(0);
    result->ours = plan_measure(device, CHAIN, 0, &record_ns);
    double mixed = plan_measure(device, CHAIN, 1, &mixed_record_ns);
    double more = plan_measure(device, MIXED_CALLS, 1, &mixed_record_ns);
    bench_extra_add(result, "record_ns", record_ns);
    bench_extra_add(result, "mixed_ns", mixed);
    bench_extra_add(result, "mixed_4000_ns", more);
    bench_note(result, "bind less recording; versions are encoded by it, too");
    bench_check(hcq_close(device), "hcq_close");
}

/* ---- profile ------------------------------------------------------------- */
/* There is no library without the profile to compare with: the other side is a
   device of the same library on which none was ever started. Two of them, so
   that the ratio of these shows what the machine alone can do to a ratio.

   One long comparison would not do: where a queue happens to lie in memory is
   worth some per cent. So the devices are opened anew in each round, in another
   order, and take turns in samples of a quarter of a millisecond. */

enum { PROFILED, NEVER, NEVER_EITHER, PROFILE_SIDES, SAMPLE_LAUNCHES = 150, WAKE_LAUNCHES = 50 };

static void profile_start(const graph *g) {
    bench_check(hcq_profile_start(g->device, NULL), "hcq_profile_start");
}

static void profile_stop(const graph *g) {
    bench_check(hcq_profile_stop(g->device), "hcq_profile_stop");
}

static void profile_open(graph *graphs, uint32_t round, int on) {
    for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
        tiny_open(&graphs[(i + round) % PROFILE_SIDES]);
    }
    for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
        graph_replay(&graphs[i], 2 * WAKE_LAUNCHES);
    }
    profile_start(&graphs[PROFILED]);
    graph_replay(&graphs[PROFILED], 2 * WAKE_LAUNCHES);
    if (!on) {
        profile_stop(&graphs[PROFILED]);
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
    enum { MOST = 256 };
    static graph graphs[PROFILE_SIDES];
    static double values[PROFILE_SIDES][MOST];
    profile_open(graphs, round, on);
    for (uint32_t s = 0; s < samples && s < MOST; s++) {
        for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
            uint32_t at = s % 2 == 0 ? i : PROFILE_SIDES - 1 - i;
            values[at][s] = profile_sample(&graphs[at]);
        }
    }
    for (uint32_t i = 0; i < PROFILE_SIDES; i++) {
        medians[i] = bench_median(values[i], samples < MOST ? samples : MOST);
        graph_check(&graphs[i], "profile");
        graph_close(&graphs[i]);
    }
}

/* The ratio is the median of those within a round: the machine drifts more
   between two rounds than what is looked for. */
static void profile_measure(bench_result *result, int on) {
    static double ours[BENCH_MAX_PASSES], peer[BENCH_MAX_PASSES], noise[BENCH_MAX_PASSES];
    double medians[PROFILE_SIDES];
    bench_stats stats[2];
    uint32_t rounds = bench_quick() ? 9 : BENCH_MAX_PASSES;
    uint32_t samples = bench_quick() ? 60 : 120;
    for (uint32_t r = 0; r < rounds; r++) {
        profile_round(r, on, samples, medians);
        ours[r] = medians[PROFILED];
        peer[r] = medians[NEVER];
        noise[r] = medians[NEVER_EITHER] / medians[NEVER];
    }
    bench_stats_make(&stats[0], ours, rounds);
    bench_stats_make(&stats[1], peer, rounds);
    bench_report(result, &stats[0], &stats[1], 1.0);
    result->ratio = result->pass_ratio;
    bench_extra_add(result, "noise_ratio", bench_median(noise, rounds));
}

static void profile_check_allocations(bench_result *result, int on) {
    static graph g;
    tiny_open(&g);
    profile_start(&g);
    if (!on) {
        profile_stop(&g);
    }
    check_allocations(result, graph_replay, &g);
    graph_check(&g, "profile");
    graph_close(&g);
}

void bench_profile_off(bench_result *result) {
    profile_check_allocations(result, 0);
    profile_measure(result, 0);
    bench_note(result, "started and stopped, against a device that never started it");
}

void bench_profile_on(bench_result *result) {
    profile_check_allocations(result, 1);
    profile_measure(result, 1);
    bench_extra_add(result, "event_ns", result->ours - result->peer);
    bench_note(result, "recording, against a device that never started it");
}
