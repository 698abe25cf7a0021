/* alloc.c - after set-up the hot paths allocate nothing: neither through the
   hooks nor behind their back. What a CUDA driver allocates is its own business.

   alloc [VARIANT] */
#include "support/util.h"

/* ---- every allocation of the process, where the C library lets us ---- */

static uint64_t heap_calls;

#if defined(__GLIBC__) && !TEST_SANITIZED
#define HEAP_COUNTED 1

static const void *driver;             /* where its library begins */

static const void *library_of(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

static void find_driver(void) {
#ifdef HCQ_TEST_CUDA
    driver = test_cu.library ? library_of(hcq_sys_library_symbol(test_cu.library, "cuInit")) : NULL;
#endif
}

static void count_call(const void *caller) {
    if (!driver || library_of(caller) != driver) {
        __atomic_fetch_add(&heap_calls, 1, __ATOMIC_RELAXED);
    }
}

#define COUNT_CALL() count_call(__builtin_return_address(0))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size) {
    COUNT_CALL();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    COUNT_CALL();
    return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size) {
    COUNT_CALL();
    return __libc_realloc(ptr, size);
}

int posix_memalign(void **ptr, size_t align, size_t size) {
    COUNT_CALL();
    *ptr = __libc_memalign(align, size);
    return *ptr ? 0 : 12;
}

void *aligned_alloc(size_t align, size_t size) {
    COUNT_CALL();
    return __libc_memalign(align, size);
}
#else
#define HEAP_COUNTED 0
static void find_driver(void) {}
#endif

typedef struct counts { uint64_t hooks, heap; } counts;

static counts counts_now(void) {
    counts now = {__atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST),
                  __atomic_load_n(&heap_calls, __ATOMIC_SEQ_CST)};
    return now;
}

enum { WARM = 300, ROUNDS = 1000, DEPTH = 64, SLOTS = 2 };

typedef struct bench {
    hcq_queue *q, *copy, *held, *other, *graph;
    hcq_program *put;
    hcq_buffer a, b, c, inputs[4];
    hcq_signal s, t, gate;
    uint64_t value, opened;
    uint32_t i;
    int bound, profiled;
    hcq_point last;
} bench;

typedef struct path {
    const char *name;
    hcq_result (*run)(bench *);
    int deep;
} path;

/* An unbound queue has a version per submission under way, and a profiled one, too;
   a bound one has its slots: as many as ever will be at once are made while a gate
   keeps the lane from finishing any. */
static void go_deep(const path *p, bench *b) {
    const int depth = b->bound && !b->profiled ? SLOTS : DEPTH;
    hcq_point open = hcq_at(make_signal(T.dev, 0), 1);
    CHECK_OK(submit_lists(T.dev, &open, NULL, 0, NULL));
    CHECK_OK(submit_lists(dev2(), &open, NULL, 0, NULL));
    for (int i = 0; i < depth; i++) {
        CHECK_OK(p->run(b));
    }
    CHECK_OK(hcq_signal_set(open.signal, 1));
}

/* A device's service thread starts when it is first needed: that is set-up. */
static void start_services(void) {
    hcq_device *devices[2] = {T.dev, dev2()};
    for (int i = 0; i < 2; i++) {
        hcq_queue *q = make_queue(devices[i], HCQ_COMPUTE);
        hcq_point done = {{0}, 0};
        CHECK_INDEX(hcq_queue_host(q, host_nothing, NULL), 0);
        CHECK_OK(hcq_queue_submit(q, devices[i], &done));
        WAIT_OK(done);
        hcq_queue_destroy(q);
    }
}

/* Both devices are idle now and then. */
static void run_path(const path *p, bench *b, int rounds) {
    for (int i = 0; i < rounds; i++) {
        CHECK_OK(p->run(b));
        CHECK_OK(i % DEPTH == 0 ? hcq_device_synchronize(T.dev, BOUND) : HCQ_OK);
    }
    synchronize_both();
}

static void count_path(const path *p, bench *b) {
    start_services();
    if (p->deep) {
        go_deep(p, b);
    }
    run_path(p, b, WARM);
    counts before, after;
    int tries = 0;
    do {                               /* as many versions are made as ever run side by side, */
        before = counts_now();         /* which is a matter of how the threads run */
        run_path(p, b, ROUNDS);
        after = counts_now();
    } while (after.hooks != before.hooks && ++tries < 8);
    fprintf(stderr, "%s%s%s: %llu by the hooks, %llu on the heap in %d rounds\n", p->name,
            b->bound ? ", bound" : "", b->profiled ? ", profiled" : "",
            (unsigned long long)(after.hooks - before.hooks),
            (unsigned long long)(after.heap - before.heap), ROUNDS);
    CHECK_U64(after.hooks - before.hooks, 0);
    CHECK_U64(after.heap - before.heap, 0);
}

/* ---- the paths ---- */

static hcq_result wait_last(bench *b) {
    return hcq_wait(&b->last, 1, HCQ_ALL, BOUND);
}

static hcq_result submit_only(bench *b) {
    return hcq_queue_submit(b->q, T.dev, &b->last);
}

static hcq_result submit_and_wait(bench *b) {
    const hcq_submission sub = {.queues = &b->q, .queue_count = 1};
    return hcq_submit_and_wait(T.dev, &sub, 1, BOUND, &b->last);
}

static hcq_result update_and_submit(bench *b) {
    const hcq_buffer dst = hcq_view(b->b, b->i % 64 * 4, 4);
    uint32_t value = b->i++;
    TRY(hcq_queue_update_arg(b->q, 0, 12, &value, 4));
    TRY(hcq_queue_update_exec(b->q, 0, &dims_one, &dims_one));
    TRY(hcq_queue_update_copy(b->q, 1, &dst, NULL, HCQ_KEEP));
    return submit_only(b);
}

static hcq_result submit_variable(bench *b) {
    const hcq_value value = hcq_value_number(b->i++);
    return hcq_queue_submit_with(b->other, T.dev, &value, 1, 0, &b->last);
}

/* Waits and signals: lane to lane, device to device. */
static hcq_result signals_between_lanes(bench *b) {
    uint64_t v = ++b->value;
    hcq_point raise = hcq_at(b->s, v), raise2 = hcq_at(b->t, v);
    TRY(SUBMIT(T.dev, b->copy, NULL, .signals = &raise, .signal_count = 1));
    TRY(submit_lists(dev2(), &raise, &raise2, 0, &b->last));
    return hcq_wait(&raise2, 1, HCQ_ALL, BOUND);
}

/* Held by a gate of the host and released by its set. */
static hcq_result held_and_set(bench *b) {
    uint64_t v = ++b->opened;
    TRY(hcq_queue_update_wait(b->held, 0, NULL, v));
    TRY(hcq_queue_submit(b->held, T.dev, &b->last));
    TRY(hcq_signal_set(b->gate, v));
    return hcq_wait(&b->last, 1, HCQ_ANY, BOUND);
}

/* A graph over two devices, with inputs that change and a variable. */
static hcq_result launch(bench *b, uint32_t flags, const hcq_point *wait) {
    const uint64_t value = b->i++;
    const hcq_value values[3] = {hcq_value_buffer(b->inputs[value % 2]),
                                 hcq_value_buffer(b->inputs[2 + value / 2 % 2]),
                                 hcq_value_number(value)};
    return SUBMIT(T.dev, b->graph, &b->last, .values = values, .value_count = 3, .waits = wait,
                  .wait_count = wait != NULL, .flags = flags);
}

static hcq_result launch_only(bench *b) {
    return launch(b, 0, NULL);
}

static hcq_result launch_overlapping(bench *b) {
    return launch(b, HCQ_OVERLAP, NULL);
}

static hcq_result update_and_launch(bench *b) {
    const uint32_t value = b->i;
    TRY(hcq_queue_update_arg(b->graph, 1, 8, &value, 4));
    return launch(b, 0, NULL);
}

/* Released by the host. */
static hcq_result launch_held(bench *b) {
    const hcq_point wait = hcq_at(b->gate, ++b->opened);
    TRY(launch(b, 0, &wait));
    TRY(hcq_signal_set(wait.signal, wait.value));
    return wait_last(b);
}

/* Wait-before-signal between devices by lists only. */
static hcq_result wait_first(bench *b) {
    const hcq_point raise = hcq_at(b->s, ++b->value);
    TRY(submit_lists(dev2(), &raise, NULL, 0, &b->last));
    TRY(submit_lists(T.dev, NULL, &raise, 0, NULL));
    return wait_last(b);
}

static hcq_result polls_and_timeouts(bench *b) {
    uint64_t value = 0;
    hcq_point points[2] = {hcq_at(b->gate, INT64_MAX), hcq_at(b->s, 0)};
    TRY(hcq_signal_value(b->s, &value));
    TRY(hcq_wait(points, 2, HCQ_ANY, 0));
    TRY(hcq_wait(points, 2, HCQ_ALL, 1000) == HCQ_TIMEOUT ? HCQ_OK : HCQ_ERROR_HOST);
    return hcq_device_synchronize(T.dev, BOUND);
}

/* Kernels to and fro, a copy for a lane of its own, memory of the graph. */
static void record_graph(bench *b) {
    enum { LARGE = 16384 };
    hcq_queue *g = b->graph = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer in = hcq_graph_input(g, 0, T.dev, 256), in2 = hcq_graph_input(g, 1, dev2(), 256), e;
    hcq_buffer large = make_words(T.dev, LARGE / 4), beside = make_words(T.dev, 1);
    const put_args args = {in.address, 3, 4};
    for (uint32_t i = 0; i < 4; i++) {
        b->inputs[i] = make_words(i < 2 ? T.dev : dev2(), 64);
    }
    CHECK_INDEX(hcq_queue_exec(g, b->put, &args, sizeof args, dims_one, dims_one), 0);
    CHECK_INDEX(record_add(g, make_add(dev2()), in2, 1, 1), 1);
    CHECK_INDEX(hcq_graph_alloc(g, T.dev, LARGE, 0, &e), 2);
    CHECK_INDEX(hcq_queue_copy(g, e, large, LARGE), 3);
    CHECK_INDEX(record_add(g, make_add(T.dev), beside, 0, 1), 4);
    CHECK_INDEX(record_word(g, hcq_view(in, 16, 4), 1, 4), 5);
    CHECK_INDEX(hcq_queue_host(g, host_nothing, NULL), 6);
    CHECK_INDEX(record_add(g, make_add(T.dev), in, 2, 1), 7);
    CHECK_OK(hcq_queue_access(g, 6, in, HCQ_ARG_INOUT));
    CHECK_OK(hcq_graph_edge(g, 0, 1));
    CHECK_OK(hcq_graph_edge(g, 1, 7));
    CHECK_OK(hcq_queue_variable(g, 5, HCQ_PART_VALUE, 2, 0));
}

static void record_bench(bench *b, int bound) {
    *b = (bench){.bound = bound, .put = make_put(T.dev), .a = make_words(T.dev, 64),
                 .b = make_words(T.dev, 64), .c = make_words(T.dev, 64), .s = make_signal(T.dev, 0),
                 .t = make_signal(dev2(), 0), .gate = make_signal(T.dev, 0)};
    const put_args args = {b->a.address, 3, 4};
    b->q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(b->q, b->put, &args, sizeof args, dims_one, dims_one), 0);
    CHECK_INDEX(hcq_queue_copy(b->q, b->b, b->a, 4), 1);
    b->copy = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(b->copy, b->c, b->a, 256), 0);
    b->held = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_wait(b->held, hcq_at(b->gate, 1)), 0);
    CHECK_INDEX(hcq_queue_exec(b->held, b->put, &args, sizeof args, dims_one, dims_one), 1);
    b->other = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(b->other, b->put, &args, sizeof args, dims_one, dims_one), 0);
    CHECK_OK(hcq_queue_variable(b->other, 0, HCQ_PART_ARG + offsetof(put_args, value), 0, 0));
    record_graph(b);
    hcq_queue *const queues[5] = {b->q, b->copy, b->held, b->other, b->graph};
    for (int i = 0; bound && i < 5; i++) {
        CHECK_OK(hcq_queue_bind(queues[i], T.dev));
    }
}

static const path paths[] = {
    {"submit", submit_only, 1},
    {"update and submit", update_and_submit, 1},
    {"held, released by the host", held_and_set, 0},
    {"launch", launch_only, 1},
    {"overlapping launches", launch_overlapping, 1},
    {"update and launch", update_and_launch, 1},
    {"launch, held, released by the host", launch_held, 0},
    {"submit and wait", submit_and_wait, 0}, /* the rest: not profiled */
    {"variables", submit_variable, 1},
    {"signals between lanes and devices", signals_between_lanes, 0},
    {"wait before signal", wait_first, 0},
    {"polls and timeouts", polls_and_timeouts, 0},
};
enum { PROFILED_PATHS = 7, PATHS = sizeof paths / sizeof paths[0] };

/* Not bound, bound. */
static void count_paths(int count, int profiled) {
    for (int bound = 0; bound < 2; bound++) {
        bench b;
        record_bench(&b, bound);
        b.profiled = profiled;
        for (int i = 0; i < 2 && profiled; i++) {
            CHECK_OK(hcq_profile_start(i ? dev2() : T.dev, NULL));
        }
        for (int i = 0; i < count; i++) {
            count_path(&paths[i], &b);
        }
    }
}

TEST(paths_allocate_nothing) {
    count_paths(PATHS, 0);
}

/* The profile writes into memory that it took when it was started. */
TEST(profiled_paths_allocate_nothing) {
    SKIP_IF(!(test_info(T.dev).features & HCQ_FEATURE_PROFILING), "no HCQ_FEATURE_PROFILING");
    count_paths(PROFILED_PATHS, 1);
}

/* The counters themselves: a test that cannot fail is worse than none. */
TEST(counters_count) {
    counts before = counts_now();
    hcq_buffer buffer = make_words(T.dev, 12345);
    counts after = counts_now();
    CHECK(after.hooks > before.hooks);
    CHECK(!HEAP_COUNTED || after.heap > before.heap);
    CHECK_OK(hcq_free(buffer));
}

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
    find_driver();
    return result != 0 ? result : test_run();
}
