/* faults.c - the n-th allocation fails, for n = 1, 2, 3 ... until a whole
   scenario passes: HCQ_ERROR_OUT_OF_MEMORY or nothing, no crash, and after
   close everything has been given back.

   faults [VARIANT] [--quick] */
#include "support/util.h"

typedef struct scenario {
    hcq_device *dev, *dev2;
    hcq_program *add, *add2;
    hcq_queue *q, *copy, *held, *graph;
    hcq_buffer a, b, c, d, in, out, there;
    hcq_signal s, gate, late, last;
    hcq_registry *registry;
    hcq_driver *driver;
    hcq_point done;
    uint32_t host_calls, graph_calls;
    const char *step;                  /* the one that failed */
    int retry;                         /* a step that is refused is repeated */
} scenario;

/* The numbers that both devices gave out. */
static uint64_t numbers(const scenario *c) {
    return (c->dev ? hcq_device_timeline_value(c->dev) : 0) +
           (c->dev2 ? hcq_device_timeline_value(c->dev2) : 0);
}

/* Runs one step; a failure that is not "out of memory" is a bug. */
static hcq_result scenario_step(scenario *c, const char *what, hcq_result result) {
    if (result < 0 && result != HCQ_ERROR_OUT_OF_MEMORY) {
        fprintf(stderr, "%s gives %s\n", what, hcq_result_name(result));
        test_dump_device("device", c->dev);
        CHECK_RESULT(result, HCQ_ERROR_OUT_OF_MEMORY);
    }
    if (result != HCQ_OK) {
        c->step = what;
    }
    return result;
}

/* The same call again must do, for nothing was spoilt. A wait cannot be repeated, as
   what it waits for has failed. Of a call that is refused as a WHOLE no part has begun. */
#define STEP_OF(call, whole) \
    do { \
        const uint64_t step_number = numbers(c); \
        hcq_result step_result = scenario_step(c, #call, (call)); \
        if (step_result == HCQ_ERROR_OUT_OF_MEMORY && c->retry && !strstr(#call, "hcq_wait")) { \
            __atomic_store_n(&T.memory.fail_until, 0, __ATOMIC_SEQ_CST); \
            CHECK(!(whole) || numbers(c) == step_number); \
            step_result = (call); \
            CHECK_RESULT(step_result, HCQ_OK); \
        } \
        if (step_result != HCQ_OK) { \
            return step_result; \
        } \
    } while (0)
#define STEP(call) STEP_OF(call, 0)
#define WHOLE(call) STEP_OF(call, 1)

static hcq_result open_device(uint32_t ordinal, hcq_device **device) {
    hcq_device_desc desc = test_desc();
    char name[32];
    desc.staging_bytes = 4096;
    desc.staging_count = 3;
    desc.held_pool = 4;                /* so that held submissions need more */
    desc.inflight = 16;
    test_mock_desc.room = 2;
    snprintf(name, sizeof name, "%s:%u", T.variant->backend, test_ordinal(ordinal));
    return hcq_open(name, &desc, device);
}

static hcq_result host_count(void *user) {
    __atomic_fetch_add((uint32_t *)user, 1, __ATOMIC_RELAXED);
    return HCQ_OK;
}

typedef struct poke { uint64_t address; uint32_t value; } poke;

static hcq_result poke_word(void *user, void *native, const void *payload) {
    poke p;
    (void)user;
    memcpy(&p, payload, sizeof p);
    return test_encode_fill(native, p.address, 4, p.value);
}

static const hcq_custom_type poke_type = {
    "poke", sizeof(poke), {{"CPU", poke_word}, {"MOCK", poke_word}, {"TRACE", poke_word},
                             TEST_GPU_ENCODE(poke_word)},
    {{0, 0}}, NULL};

/* The whole recording from the start: an error sticks until the reset. */
static hcq_result record(scenario *c) {
    add_args args = {c->a.address, 1, 16};
    poke p = {c->a.address + 60, 5};
    TRY(hcq_queue_reset(c->q));
    for (int i = 0; i < 20; i++) {
        TRY(record_result(hcq_queue_exec(c->q, c->add, &args, sizeof args, hcq_dim(16, 1, 1),
                                    dims_one)));
    }
    hcq_queue_copy(c->q, c->b, c->a, 64);
    hcq_queue_host(c->q, host_count, &c->host_calls);
    hcq_queue_custom(c->q, &poke_type, &p);
    record_word(c->q, c->b, 99, 4);
    hcq_queue_timestamp(c->q, c->s);
    TRY(record_result(hcq_queue_signal(c->q, hcq_at(c->s, 1))));
    TRY(hcq_queue_label(c->q, "recording"));
    TRY(hcq_queue_command_label(c->q, 0, "first"));
    return hcq_queue_variable(c->q, 23, HCQ_PART_VALUE, 0, 0);
}

static hcq_result record_held(scenario *c) {
    TRY(hcq_queue_reset(c->held));
    TRY(record_result(hcq_queue_wait(c->held, hcq_at(c->gate, 1))));
    return record_result(record_add(c->held, c->add, c->c, 0, 1));
}

/* A queue that could not be appended to is recorded anew. */
static hcq_result append(scenario *c) {
    TRY(record_held(c));
    TRY(record_result(hcq_queue_append(c->held, c->q)));
    return record_held(c);
}

static hcq_result submit_once(scenario *c, uint64_t value) {
    const hcq_value list = hcq_value_number(value);
    return hcq_queue_submit_with(c->q, c->dev, &list, 1, 0, &c->done);
}

static hcq_result create_add(hcq_device *device, hcq_program **program) {
    const hcq_program_desc desc = HCQ_PROGRAM(add);
    return hcq_program_create(device, &desc, program);
}

static hcq_result scenario_setup(scenario *c) {
    STEP(open_device(0, &c->dev));
    STEP(open_device(1, &c->dev2));
    STEP(create_add(c->dev, &c->add));
    STEP(hcq_alloc(c->dev, 64, HCQ_ZEROED, &c->a));
    STEP(hcq_alloc(c->dev, 64, HCQ_ZEROED | HCQ_HOST_VISIBLE, &c->b));
    STEP(hcq_alloc(c->dev2, 64, HCQ_ZEROED, &c->c));
    STEP(hcq_free(c->c));
    STEP(hcq_alloc(c->dev, 64, HCQ_ZEROED, &c->c));
    STEP(hcq_alloc(c->dev, 64, HCQ_NO_CACHE, &c->d));
    STEP(hcq_signal_create(c->dev, 0, &c->s));
    STEP(hcq_signal_create(c->dev, 0, &c->late));
    STEP(hcq_signal_create(c->dev2, 0, &c->gate));
    STEP(hcq_queue_create(c->dev, HCQ_COMPUTE, &c->q));
    STEP(hcq_queue_create(c->dev, HCQ_COPY, &c->copy));
    STEP(hcq_queue_create(c->dev, HCQ_COMPUTE, &c->held));
    STEP(record(c));
    STEP(append(c));
    return HCQ_OK;
}

/* Twelve submissions are held, more than the pool has room for. */
static hcq_result scenario_held(scenario *c) {
    hcq_point points[12];
    for (int i = 0; i < 12; i++) {
        WHOLE(hcq_queue_submit(c->held, c->dev, &points[i]));
    }
    STEP(hcq_signal_set(c->gate, 1));
    STEP(hcq_wait(points, 12, HCQ_ALL, BOUND));
    STEP(hcq_device_synchronize(c->dev, BOUND));
    return HCQ_OK;
}

/* Memory as a step of the work, and many transfers at once, all held, with no
   room left in the pool. */
static hcq_result scenario_ordered(scenario *c) {
    uint32_t words[16] = {0, 1, 2, 3};
    hcq_point late = hcq_at(c->late, 1), ready, done, freed;
    hcq_buffer a;
    for (int i = 0; i < 6; i++) {
        STEP(hcq_alloc(c->dev, 64, 0, &a));
        WHOLE(hcq_free_after(a, &late, 1, NULL));
    }
    const uint64_t bytes = test_query(c->dev, HCQ_QUERY_ALLOCATED_BYTES);
    WHOLE(hcq_alloc_after(c->dev, &late, 1, 64, 0, &a, &ready));
    CHECK_U64(test_query(c->dev, HCQ_QUERY_ALLOCATED_BYTES), bytes + 64); /* refused: none */
    const hcq_command list[3] = {
        {.kind = HCQ_COMMAND_FILL, .dst = a, .size = 64, .value_size = 1},
        {.kind = HCQ_COMMAND_WRITE, .dst = a, .data = words, .size = 16},
        {.kind = HCQ_COMMAND_COPY, .dst = c->d, .src = a, .size = 64},
    };
    WHOLE(hcq_transfer_submit(c->dev, &ready, 1, list, 3, &done));
    WHOLE(hcq_free_after(a, &done, 1, &freed));
    STEP(hcq_signal_set(c->late, 1));
    STEP(hcq_wait(&done, 1, HCQ_ALL, BOUND));
    STEP(hcq_wait(&freed, 1, HCQ_ALL, BOUND));
    WHOLE(hcq_alloc_after(c->dev, NULL, 0, 64, 0, &a, &ready)); /* out of the cache */
    STEP(hcq_wait(&ready, 1, HCQ_ALL, BOUND));
    return hcq_free(a);
}

/* Host to device to device to host, through more than one staging batch. */
static hcq_result scenario_copies(scenario *c) {
    static unsigned char in[20000], out[20000];
    hcq_buffer a, b;
    for (size_t i = 0; i < sizeof in; i++) {
        in[i] = (unsigned char)(i * 7);
    }
    STEP(hcq_alloc(c->dev, sizeof in, 0, &a));
    STEP(hcq_alloc(c->dev2, sizeof in, 0, &b));
    STEP(hcq_copyin(a, in, sizeof in));
    STEP(hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a), sizeof in, 0, BOUND));
    STEP(hcq_copyout(out, b, sizeof out));
    CHECK(memcmp(in, out, sizeof in) == 0);
    return hcq_free(a);
}

/* ---- graphs ---- */

/* Both devices, an input, memory of its own, accesses and edges; what it writes is
   the same however often it runs. */
static hcq_result record_graph(scenario *c) {
    hcq_queue *g = c->graph;
    hcq_buffer e, in;
    TRY(hcq_queue_reset(g));
    in = hcq_graph_input(g, 0, NULL, 64);
    hcq_graph_alloc(g, c->dev, 64, 0, &e);
    record_word(g, in, 0, 4);
    for (int i = 0; i < 20; i++) {     /* so that every list has to grow */
        hcq_queue_fill(g, i % 2 ? hcq_view(c->there, 0, 4) : hcq_view(e, 0, 4), 4, 7, 4);
    }
    hcq_queue_fill(g, hcq_view(c->there, 4, 4), 4, 3, 4);
    record_add(g, c->add2, c->there, 1, 1);
    hcq_queue_host(g, host_count, &c->graph_calls);
    hcq_queue_copy(g, e, in, 4);
    hcq_queue_copy(g, c->out, e, 4);
    TRY(record_result(hcq_queue_copy(g, hcq_view(c->out, 4, 4), hcq_view(c->there, 4, 4), 4)));
    TRY(hcq_queue_variable(g, 1, HCQ_PART_VALUE, 1, 0));
    for (int32_t i = 2; i < 12; i++) {
        TRY(hcq_graph_edge(g, i, i + 1));
    }
    TRY(hcq_queue_access(g, 24, hcq_view(c->there, 0, 8), HCQ_ARG_INOUT));
    return hcq_queue_command_label(g, 3, "third");
}

/* What the graph did last, in a queue that need not see it. */
static hcq_result record_far(scenario *c) {
    TRY(hcq_queue_reset(c->copy));
    return record_result(hcq_queue_copy(c->copy, hcq_view(c->out, 8, 4),
                                        hcq_view(c->there, 4, 4), 4));
}

static hcq_result launch(scenario *c, uint64_t value, uint32_t flags, const hcq_point *wait,
                         hcq_point *point) {
    const hcq_value values[2] = {hcq_value_buffer(c->in), hcq_value_number(value)};
    return SUBMIT(c->dev, c->graph, point, .waits = wait, .wait_count = wait != NULL,
                  .values = values, .value_count = 2, .flags = flags);
}

static char text[1 << 18];

/* Without memory there is no text, but a line in the log. */
static hcq_result printed(int whole) {
    int told = log_has("out of memory");
    return whole ? HCQ_OK : told ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_ERROR_HOST;
}

static hcq_result print_graph(scenario *c) {
    log_clear();
    return printed(hcq_graph_print(c->graph, 0, text, sizeof text) != 0 &&
                   hcq_graph_dot(c->graph, HCQ_COPY_LISTS, text, sizeof text) != 0);
}

static hcq_result print_profile(scenario *c) {
    hcq_device *devices[2] = {c->dev, c->dev2};
    log_clear();
    return printed(hcq_profile_print(devices, 2, HCQ_PROFILE_TRACE, text, sizeof text) != 0 &&
                   hcq_profile_print(devices, 2, HCQ_PROFILE_SUMMARY, text, sizeof text) != 0);
}

static hcq_result scenario_graph_setup(scenario *c) {
    STEP(create_add(c->dev2, &c->add2));
    STEP(hcq_signal_create(c->dev, 0, &c->last));
    STEP(hcq_alloc(c->dev, 64, HCQ_ZEROED, &c->in));
    STEP(hcq_alloc(c->dev, 64, HCQ_ZEROED, &c->out));
    STEP(hcq_alloc(c->dev2, 64, HCQ_ZEROED, &c->there));
    STEP(hcq_graph_create(c->dev, &c->graph));
    STEP(record_graph(c));
    return HCQ_OK;
}

/* Planned at a launch and by bind; held; step by step; recorded on. */
static hcq_result scenario_graph(scenario *c) {
    hcq_point points[12];
    TRY(scenario_graph_setup(c));
    const hcq_point last = hcq_at(c->last, 1);
    WHOLE(launch(c, 30, 0, NULL, &points[0]));
    STEP(hcq_wait(points, 1, HCQ_ALL, BOUND));
    for (uint64_t i = 0; i < 12; i++) { /* more than the pool has room for */
        WHOLE(launch(c, 31 + i, 0, &last, &points[i]));
    }
    STEP(hcq_signal_set(c->last, 1));
    STEP(hcq_wait(points, 12, HCQ_ALL, BOUND));
    STEP(print_graph(c));
    STEP(launch(c, 50, HCQ_STEP, NULL, &points[0]));
    WHOLE(hcq_queue_bind(c->graph, c->dev));
    for (uint64_t i = 0; i < 4; i++) {
        WHOLE(launch(c, 60 + i, i % 2 ? HCQ_OVERLAP : 0, NULL, &points[0]));
        STEP(hcq_wait(points, 1, HCQ_ALL, BOUND));
    }
    STEP(record_graph(c));
    WHOLE(launch(c, 70, 0, NULL, &points[0]));
    STEP(hcq_wait(points, 1, HCQ_ALL, BOUND));
    STEP(record_far(c));
    WHOLE(hcq_queue_submit(c->copy, c->dev, &points[0]));
    STEP(hcq_wait(points, 1, HCQ_ALL, BOUND));
    return HCQ_OK;
}

/* The same graph and a bound queue, with the profile on where there is one. */
static hcq_result scenario_profile(scenario *c) {
    hcq_device_info info;
    const hcq_profile_desc desc = {.events = 256}, more = {.events = 512};
    hcq_point done;
    STEP(hcq_device_info_get(c->dev, &info));
    const int on = (info.features & HCQ_FEATURE_PROFILING) != 0;
    if (on) {
        STEP(hcq_profile_start(c->dev, &desc));
        STEP(hcq_profile_start(c->dev2, &desc));
    }
    WHOLE(hcq_queue_submit(c->held, c->dev, &done));
    STEP(hcq_wait(&done, 1, HCQ_ALL, BOUND));
    WHOLE(launch(c, 71, 0, NULL, &done));
    STEP(hcq_wait(&done, 1, HCQ_ALL, BOUND));
    if (on) {
        STEP(hcq_profile_stop(c->dev));
        STEP(print_profile(c));
        STEP(hcq_profile_start(c->dev, &more)); /* another size */
    }
    return HCQ_OK;
}

static const hcq_memory_hooks hooks = {test_hook_alloc, test_hook_free, &T.memory};

/* A registry, a driver and a device by hand, all with hooks that fail. */
static hcq_result scenario_drivers(scenario *c) {
    const hcq_device_desc desc = {.memory = hooks};
    hcq_device *device;
    STEP(hcq_registry_create(&hooks, &c->registry));
    STEP(hcq_registry_register(c->registry, &mock_backend));
    STEP(hcq_driver_create(c->registry, "MOCK", &c->driver));
    STEP(hcq_driver_open(c->driver, "mock 2", &desc, &device));
    return hcq_close(device);
}

static hcq_result scenario_bound(scenario *c) {
    WHOLE(submit_once(c, 100));
    STEP(hcq_wait(&c->done, 1, HCQ_ALL, BOUND));
    WHOLE(hcq_queue_bind(c->q, c->dev));
    for (uint64_t i = 2; i < 6; i++) {
        const hcq_dims grid = {16, 1, 1};
        STEP(hcq_queue_update_signal(c->q, 25, NULL, i));
        STEP(hcq_queue_update_exec(c->q, 3, &grid, NULL));
        WHOLE(submit_once(c, 100 + i));
        STEP(hcq_wait(&c->done, 1, HCQ_ALL, BOUND));
    }
    return HCQ_OK;
}

static hcq_result scenario_end(scenario *c) {
    uint64_t ns = 0;
    const add_args args = {c->c.address, 1, 16};
    STEP(hcq_program_call(c->add, &args, sizeof args, dims_one, dims_one, &ns));
    STEP(hcq_device_synchronize(c->dev, BOUND));
    STEP(hcq_queue_reset(c->held));
    WHOLE(hcq_queue_bind(c->held, c->dev2));
    return HCQ_OK;
}

static hcq_result scenario_run(scenario *c) {
    static hcq_result (*const parts[])(scenario *) = {
        scenario_setup, scenario_bound, scenario_ordered, scenario_held, scenario_copies,
        scenario_drivers, scenario_graph, scenario_profile, scenario_end};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        TRY(parts[i](c));
    }
    return HCQ_OK;
}

/* Where memory never failed, the results are right. */
static void check_results(const scenario *c) {
    uint32_t words[16];
    CHECK_U64(READ32(c->b, 0), 105);
    CHECK_U64(READ32(c->a, 0), 100);
    CHECK_U64(READ32(c->c, 0), 14);
    CHECK_OK(hcq_copyout(words, c->d, 64));
    CHECK(words[0] == 0 && words[3] == 3 && words[4] == 0);
    CHECK_U64(c->host_calls, 5);
    CHECK_OK(hcq_copyout(words, c->out, 64));
    CHECK(words[0] == 71 && words[1] == 4 && words[2] == 4);
    CHECK_OK(hcq_copyout(words, c->there, 64));
    CHECK(words[0] == 7 && words[1] == 4);
    CHECK(c->graph_calls >= 20);
}

/* One fails; all do until a step is refused; all do. */
typedef enum fault_mode { FAIL_ONCE, FAIL_UNTIL_REFUSED, FAIL_FROM_THERE_ON } fault_mode;

/* Runs the scenario with the n-th allocation failing; 1 = it never came to it. */
static int run_with_fault(fault_mode mode, uint64_t n) {
    scenario c = {0};
    memset(&T.memory, 0, sizeof T.memory);
    log_clear();
    c.retry = mode != FAIL_FROM_THERE_ON;
    T.memory.fail_until = mode == FAIL_ONCE ? n : UINT64_MAX;
    T.memory.fail_at = n;
    hcq_result result = scenario_run(&c);
    uint64_t failed = __atomic_load_n(&T.memory.failed, __ATOMIC_SEQ_CST);
    if (result == HCQ_OK) {
        __atomic_store_n(&T.memory.fail_at, 0, __ATOMIC_SEQ_CST);
        check_results(&c);
    }
    hcq_driver_release(c.driver);
    hcq_registry_destroy(c.registry);
    hcq_result close = hcq_close(c.dev);
    hcq_result close2 = hcq_close(c.dev2);
    uint64_t blocks = __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST);
    if (close != HCQ_OK || close2 != HCQ_OK || blocks || (result != HCQ_OK && !failed)) {
        test_fail(__FILE__, __LINE__, "allocation %llu, mode %d: stopped at %s, close gives %s and "
                  "%s, %llu blocks left", (unsigned long long)n, (int)mode,
                  c.step ? c.step : "the end", hcq_result_name(close), hcq_result_name(close2),
                  (unsigned long long)blocks);
    }
    /* A released submission cannot be repeated: its failure shows in the wait. */
    CHECK(!c.retry || result == HCQ_OK || strstr(c.step, "hcq_wait"));
    return failed == 0;
}

/* Quick: each allocation in one of the modes. */
static void run_mode(fault_mode mode) {
    const uint64_t step = T.quick ? 3 : 1;
    uint64_t n = T.quick ? 1 + (uint64_t)mode : 1;
    signal(SIGALRM, test_alarm);
    for (alarm(120); !run_with_fault(mode, n); alarm(120)) {
        n += step;
        CHECK(n < 5000);
        test_alive();
    }
    alarm(0);
    fprintf(stderr, "%s: of %llu allocations each %s failed\n", T.variant->name,
            (unsigned long long)(n - 1), step == 1 ? "one" : "third");
    CHECK(n > 10);
}

TEST_BARE(each_allocation_fails) {
    run_mode(FAIL_ONCE);
    run_mode(FAIL_UNTIL_REFUSED);
    run_mode(FAIL_FROM_THERE_ON);
}

int main(int argc, char **argv) { return test_main(argc, argv); }
