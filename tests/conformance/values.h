/* What a submission brings: values in place of what was recorded, kept while it
   is held. Part of conformance.c. */
#include "shared.h"

/* A buffer that a variable replaces is neither held nor asked for. */
static void values_replace_buffers(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *both = make_queue(T.dev, HCQ_COMPUTE);
        hcq_program *add = make_add(T.dev);
        hcq_buffer b[3], gone;
        CHECK_OK(hcq_alloc(T.dev, 256, HCQ_NO_CACHE, &gone));
        for (uint32_t i = 0; i < 3; i++) {
            b[i] = make_words(T.dev, 64);
        }
        CHECK_INDEX(record_add(q, add, gone, 0, 5), 0);
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + 0, 0, 0));
        CHECK_OK(hcq_free(gone));      /* nobody needs it */
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_OK(submit_variables(q, &b[i].address, 1, NULL));
            CHECK_U64(READ32(b[i], 0), 5);
            CHECK_U64(READ32(b[i], 1), 0);
        }
        CHECK_RESULT(submit_variables(q, &gone.address, 1, NULL), HCQ_ERROR_INVALID);
        const uint64_t other = gone.address;
        CHECK_OK(hcq_queue_update_arg(q, 0, 0, &other, 8)); /* what is replaced may be anything */
        CHECK_INDEX(hcq_queue_append(both, q), 0);
        CHECK_OK(submit_variables(both, &b[1].address, 1, NULL));
        CHECK_U64(READ32(b[1], 0), 10);
        hcq_queue_destroy(q);
        hcq_queue_destroy(both);
    }
}

/* Address 0 is for what variables bring; without one it is refused before it runs. */
static void values_replace_nothing(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *g = make_queue(T.dev, HCQ_GRAPH);
        hcq_program *add = make_add(T.dev);
        hcq_buffer a = make_words(T.dev, 64), none;
        const uint64_t zero = 0;
        memset(&none, 0, sizeof none);
        CHECK_INDEX(record_add(q, add, none, 0, 7), 0);
        log_clear();
        CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID);
        CHECK(log_has("argument 0 of command 0"));
        CHECK_RESULT(hcq_queue_bind(q, T.dev), HCQ_ERROR_INVALID);
        CHECK(hcq_queue_append(g, q) < 0);
        CHECK_OK(hcq_queue_update_arg(q, 0, 0, &a.address, 8));
        CHECK_RESULT(hcq_queue_update_arg(q, 0, 0, &zero, 8), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_U64(READ32(a, 0), 7);
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + 0, 0, 0));
        CHECK_OK(hcq_queue_update_arg(q, 0, 0, &zero, 8));
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        CHECK_OK(submit_variables(q, &a.address, 1, NULL));
        CHECK_U64(READ32(a, 0), 14);
        CHECK_RESULT(submit_variables(q, &zero, 1, NULL), HCQ_ERROR_INVALID);
        hcq_queue_destroy(q);
        hcq_queue_destroy(g);
    }
}

/* A graph's placeholders are buffer arguments: anywhere else they are refused. */
static void placeholders_only_as_buffers(void **state) {
    (void)state;
    hcq_program *all = make_all(T.dev);
    hcq_buffer a = make_words(T.dev, 64);
    const hcq_dims one = {1, 1, 1};
    for (int kind = 0; kind < 6; kind++) {
        hcq_queue *g = make_queue(T.dev, HCQ_GRAPH);
        hcq_buffer in = hcq_input(g, 3, NULL, 256), empty;
        CHECK_INDEX(hcq_queue_empty(g, NULL, 256, 0, &empty), 0);
        const uint64_t held = kind & 1 ? empty.address + 8 : in.address;
        all_args k;
        memset(&k, 0, sizeof k);
        k.out = a.address;
        k.in = in.address;
        k.u64 = 17;
        const all_args good = k;
        if (kind / 2 == 0) {
            k.u64 = held;
        } else if (kind / 2 == 1) {
            k.i64 = (int64_t)held;
        } else {
            memcpy(&k.wide, &held, sizeof held);
        }
        log_clear();
        CHECK(hcq_queue_exec(g, all, &k, sizeof k, one, one) < 0);
        CHECK(log_has("placeholder"));
        CHECK_OK(hcq_queue_reset(g));
        CHECK(hcq_input(g, 3, NULL, 256).size == 256);
        CHECK_INDEX(hcq_queue_empty(g, NULL, 256, 0, &empty), 0);
        CHECK_INDEX(hcq_queue_exec(g, all, &good, sizeof good, one, one), 1);
        CHECK_RESULT(hcq_queue_update_arg(g, 1, 9, &in.address, 8), HCQ_ERROR_INVALID);
        CHECK_RESULT(hcq_queue_access(g, 1, empty, HCQ_ARG_IN), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_access(g, 1, hcq_view(in, 16, 8), HCQ_ARG_IN));
        CHECK_OK(hcq_queue_variable(g, 1, HCQ_PART_ARG + 9, 0, 0));
        hcq_submission s = submission(&g, 1);
        hcq_buffer inputs[4] = {a, a, a, make_words(T.dev, 64)};
        s.variables = &in.address;
        s.variable_count = 1;
        s.inputs = inputs;
        s.input_count = 4;
        CHECK_RESULT(hcq_submit(T.dev, &s, 1, NULL), HCQ_ERROR_INVALID);
        const uint64_t value = 18;
        s.variables = &value;
        CHECK_OK(hcq_submit(T.dev, &s, 1, NULL));
        double out[11];
        CHECK_OK(hcq_copyout(out, a, sizeof out));
        CHECK(out[7] == 18.0);
        hcq_queue_destroy(g);
    }
}

/* The size of a copy grows alone as far as both buffers reach. */
static void copies_grow_alone(void **state) {
    (void)state;
    for (int graph = 0; graph < 2; graph++) {
        hcq_queue *q = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COPY);
        hcq_queue *both = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COPY);
        hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64);
        uint32_t words[64];
        for (uint32_t i = 0; i < 64; i++) {
            words[i] = i + 1;
        }
        CHECK_OK(hcq_copyin(a, words, sizeof words));
        CHECK_INDEX(hcq_queue_copy(q, b, hcq_view(a, 0, 128), 16), 0);
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_U64(READ32(b, 3), 4);
        CHECK_U64(READ32(b, 4), 0);
        CHECK_INDEX(hcq_queue_append(both, q), 0);
        CHECK_OK(hcq_queue_update_copy(both, 0, NULL, NULL, 128));
        log_clear();
        CHECK_RESULT(hcq_queue_update_copy(both, 0, NULL, NULL, 129), HCQ_ERROR_INVALID);
        CHECK(log_has("command 0: size: ") && log_has("src has 128 bytes"));
        CHECK_OK(hcq_queue_submit(both, T.dev, NULL));
        CHECK_U64(READ32(b, 31), 32);
        CHECK_U64(READ32(b, 32), 0);
        const hcq_buffer whole = a, less = hcq_view(b, 0, 240);
        CHECK_OK(hcq_queue_update_copy(q, 0, NULL, &whole, 200)); /* one of them alone, too */
        CHECK_OK(hcq_queue_update_copy(q, 0, NULL, NULL, 256));
        CHECK_OK(hcq_queue_update_copy(q, 0, &less, NULL, 8));
        CHECK_RESULT(hcq_queue_update_copy(q, 0, NULL, NULL, 244), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_update_copy(q, 0, NULL, NULL, 240));
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_U64(READ32(b, 59), 60);
        CHECK_U64(READ32(b, 60), 0);
        hcq_queue_destroy(q);
        hcq_queue_destroy(both);
    }
}

/* ---- values of held submissions ---- */

/* out[variable 0] = variable 1 */
static hcq_queue *make_putter(hcq_device *device, hcq_buffer out, int bound) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    put_args args = {out.address, 0, 0};
    CHECK_INDEX(hcq_queue_exec(q, make_put(device), &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 0);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + 1, 0, 0));
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + 2, 1, 0));
    if (bound) {
        CHECK_OK(hcq_queue_bind(q, device));
    }
    return q;
}

static hcq_result put_behind(hcq_queue *q, hcq_device *device, uint64_t index, uint64_t value,
                             const hcq_point *wait, uint32_t flags, hcq_point *done) {
    const uint64_t v[2] = {index, value};
    hcq_submission s = submission(&q, 1);
    s.variables = v;
    s.variable_count = 2;
    s.waits = wait;
    s.wait_count = wait ? 1 : 0;
    s.flags = flags;
    return hcq_submit(device, &s, 1, done);
}

static void check_puts(hcq_buffer out, uint32_t count, uint32_t factor) {
    uint32_t *got = (uint32_t *)malloc(count * 4);
    CHECK_OK(hcq_copyout(got, out, (uint64_t)count * 4));
    for (uint32_t i = 0; i < count; i++) {
        CHECK_U64(got[i], i * factor + 1);
    }
    free(got);
}

/* A held submission costs its values and little more, and nothing once it ran. */
static void held_values_are_small(void **state) {
    (void)state;
    const uint32_t count = is_cpu() ? 20000 : 2000; /* drivers take their time for each */
    hcq_device_desc desc = test_desc();
    desc.parked = 64;                  /* so that all are made when they are needed */
    hcq_device *device = test_open(0, &desc);
    for (uint32_t way = 0; way < 4; way++) {
        hcq_buffer out = make_words(device, count);
        hcq_queue *q = make_putter(device, out, way & 1);
        hcq_point gate = make_gate(device), done = {{0}, 0};
        const uint32_t flags = way & 2 ? HCQ_UNORDERED : 0;
        CHECK_OK(put_behind(q, device, 0, 0, NULL, 0, &done));
        WAIT_OK(done);
        for (uint32_t i = 0; i < 8; i++) {
            CHECK_U64(READ32(out, 0), 0); /* and staging memory is there */
        }
        CHECK_OK(put_behind(q, device, 0, 1, &gate, flags, &done));
        uint64_t before = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST);
        for (uint64_t i = 1; i < count; i++) {
            CHECK_OK(put_behind(q, device, i, i * 3 + 1, &gate, flags, &done));
        }
        uint64_t held = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST) - before;
        fprintf(stderr, "%u held submissions with 2 values: %.1f bytes each\n", count,
                (double)held / (double)count);
        CHECK(held <= (256ull + 16) * count + 65536); /* a chunk is a chunk */
        CHECK_U64(test_query(device, HCQ_QUERY_HELD), count);
        open_gate(gate);
        CHECK_OK(hcq_device_synchronize(device, 60 * SECOND));
        check_puts(out, count, 3);     /* each its own */
        uint64_t after = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST);
        CHECK(!is_cpu() || after <= before + 2000000); /* mocks keep theirs */
        hcq_queue_destroy(q);
        CHECK_OK(hcq_free(out));
    }
    CHECK_OK(hcq_close(device));
}

/* Whatever holds them up, a bound queue takes submissions with other values: those
   of its own wait, and work of somebody else before it on the lane. */
static void bound_queue_takes_all_values(void **state) {
    (void)state;
    enum { N = 40 };
    for (uint32_t way = 0; way < 4; way++) {
        hcq_buffer out = make_words(T.dev, N);
        hcq_queue *q = make_putter(T.dev, out, 1);
        hcq_point gate = make_gate(T.dev), done = {{0}, 0};
        if ((way & 1) == 0) {          /* not ours: parks the lane */
            CHECK_OK(submit_lists(T.dev, &gate, NULL, 0, NULL));
        }
        for (uint64_t i = 0; i < N; i++) {
            CHECK_OK(put_behind(q, T.dev, i, i * 5 + 1, way & 1 ? &gate : NULL,
                                way == 3 ? HCQ_UNORDERED : 0, &done));
        }
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        if (way == 2) {
            hcq_queue_destroy(q);      /* they go on as if it lived */
        }
        open_gate(gate);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        check_puts(out, N, 5);
        if (way != 2) {
            hcq_queue_destroy(q);
        }
    }
}

/* What is held runs what was recorded when it was submitted, with its values,
   whatever becomes of the queue. */
static void held_values_keep_their_recording(void **state) {
    (void)state;
    enum { EACH = 5, STEPS = 8, N = EACH * STEPS };
    for (uint32_t way = 0; way < 4; way++) {
        hcq_buffer out = make_words(T.dev, N);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_program *put = make_put(T.dev);
        hcq_point gate = make_gate(T.dev), done[N];
        put_args args = {out.address, 0, 0};
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t value = i / EACH * 100 + 1, step = i / EACH;
            if (i % EACH == 0 && (i == 0 || (way & 2))) { /* recorded anew */
                CHECK_OK(hcq_queue_reset(q));
                for (uint32_t k = 0; k < step; k++) {
                    CHECK(hcq_queue_memory_barrier(q) >= 0);
                }
                args.value = value;
                CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1),
                                           hcq_dim(1, 1, 1)),
                            (int32_t)(way & 2 ? step : 0));
                CHECK_OK(hcq_queue_variable(q, way & 2 ? step : 0, HCQ_PART_ARG + 1, step % 3, 0));
                if (way & 1) {
                    CHECK_OK(hcq_queue_bind(q, T.dev));
                }
            } else if (i % EACH == 0) { /* or updated */
                CHECK_OK(hcq_queue_update_arg(q, 0, 2, &value, 4));
            }
            uint64_t v[3] = {N, N, N};
            hcq_submission s = submission(&q, 1);
            v[way & 2 ? step % 3 : 0] = i;
            s.variables = v;
            s.variable_count = 3;
            s.waits = &gate;
            s.wait_count = 1;
            s.flags = i % 2 ? HCQ_UNORDERED : 0;
            CHECK_OK(hcq_submit(T.dev, &s, 1, &done[i]));
        }
        CHECK_OK(hcq_queue_reset(q));
        hcq_queue_destroy(q);
        open_gate(gate);
        for (uint32_t i = 0; i < N; i++) {
            WAIT_OK(done[i]);
        }
        for (uint32_t i = 0; i < N; i++) {
            CHECK_U64(READ32(out, i), i / EACH * 100 + 1);
        }
    }
}

static hcq_result count_call(void *user) {
    __atomic_add_fetch((uint32_t *)user, 1, __ATOMIC_SEQ_CST);
    return HCQ_OK;
}

/* Have so many been called, and what was handed over with them been noticed? */
static int calls_reach(const uint32_t *calls, uint32_t count, hcq_point later) {
    uint64_t deadline = hcq_sys_now_ns() + BOUND;
    while (__atomic_load_n(calls, __ATOMIC_SEQ_CST) < count && hcq_sys_now_ns() < deadline) {
        (void)hcq_wait(&later, 1, HCQ_ALL, 1000000);
    }
    (void)hcq_wait(&later, 1, HCQ_ALL, SECOND / 20);
    return __atomic_load_n(calls, __ATOMIC_SEQ_CST) == count;
}

/* Those that wait in the middle of their recording, with a version, keep nobody
   from getting one. */
static void versions_of_those_that_wait(void **state) {
    (void)state;
    enum { N = 9 };
    hcq_device_desc desc = test_desc();
    desc.slots = 1;
    hcq_device *device = test_open(0, &desc);
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer out = make_words(device, N);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_point middle = make_gate(device), gate = make_gate(device), done[N];
        put_args args = {out.address, 0, 0};
        hcq_signal stamp = make_signal(device, 0);
        uint64_t then = 0, now = 0;
        uint32_t calls = 0;
        CHECK_INDEX(hcq_queue_timestamp(q, stamp), 0);
        CHECK_INDEX(hcq_queue_host(q, count_call, &calls), 1);
        CHECK_INDEX(hcq_queue_wait(q, middle), 2);
        CHECK_INDEX(hcq_queue_exec(q, make_put(device), &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 3);
        CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_ARG + 1, 0, 0));
        CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_ARG + 2, 1, 0));
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, device));
        }
        for (uint64_t i = 0; i < N; i++) {
            CHECK_OK(put_behind(q, device, i, i * 7 + 1, i < N / 2 ? NULL : &gate, HCQ_UNORDERED,
                                &done[i]));
        }
        CHECK(calls_reach(&calls, N / 2, done[0]));
        CHECK_OK(hcq_signal_timestamp(stamp, &then));
        open_gate(gate);
        CHECK(calls_reach(&calls, N, done[0])); /* all are in the middle */
        CHECK_OK(hcq_signal_timestamp(stamp, &now));
        CHECK(then != 0 && now > then); /* stored by a version of its own */
        open_gate(middle);
        for (uint32_t i = 0; i < N; i++) {
            WAIT_OK(done[i]);
        }
        check_puts(out, N, 7);
        hcq_queue_destroy(q);
    }
    CHECK_OK(hcq_close(device));
}

/* No memory for more versions: what is released follows those there are. */
static void release_without_memory(void **state) {
    (void)state;
    enum { N = 20 };
    if (!is_cpu() && !is_mock()) {
        SKIP("others take memory to hand over");
        return;
    }
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer out = make_words(T.dev, N);
        hcq_queue *q = make_putter(T.dev, out, bound);
        hcq_point gate = make_gate(T.dev), done[N];
        for (uint64_t i = 0; i < N; i++) {
            CHECK_OK(put_behind(q, T.dev, i, i * 9 + 1, &gate, HCQ_UNORDERED, &done[i]));
        }
        __atomic_store_n(&T.memory.fail_until, UINT64_MAX, __ATOMIC_SEQ_CST);
        __atomic_store_n(&T.memory.fail_at, 1, __ATOMIC_SEQ_CST);
        hcq_result r = hcq_signal_set(gate.signal, gate.value);
        for (uint32_t i = 0; i < N && r == HCQ_OK; i++) {
            r = hcq_wait(&done[i], 1, HCQ_ALL, BOUND);
        }
        __atomic_store_n(&T.memory.fail_at, 0, __ATOMIC_SEQ_CST);
        CHECK_OK(r);
        check_puts(out, N, 9);
        hcq_queue_destroy(q);
    }
}

/* Closing ends what is held with its values, here and where it names memory of
   the device. */
static void close_with_held_values(void **state) {
    (void)state;
    enum { N = 20 };
    for (int bound = 0; bound < 2; bound++) {
        hcq_device *device = test_open(0, NULL);
        hcq_buffer out = make_words(device, N);
        hcq_queue *q = make_putter(device, out, bound);
        hcq_point gate = make_gate(T.dev), done[N];
        for (uint64_t i = 0; i < N; i++) {
            CHECK_OK(put_behind(q, device, i, 1, &gate, i % 2 ? HCQ_UNORDERED : 0, &done[i]));
        }
        CHECK_OK(hcq_close(device));
        for (uint32_t i = 0; i < N; i++) {
            CHECK(hcq_wait(&done[i], 1, HCQ_ALL, BOUND) < 0);
        }
        open_gate(gate);
    }
}

/* Times are taken of each, and versions with times are not shared. */
static void held_values_in_a_profile(void **state) {
    (void)state;
    enum { N = 20 };
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer out = make_words(T.dev, N);
        hcq_signal stamp = make_signal(T.dev, 0);
        hcq_queue *q = make_putter(T.dev, out, 0);
        CHECK_INDEX(hcq_queue_timestamp(q, stamp), 1);
        hcq_point gate = make_gate(T.dev), done[N];
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        for (uint64_t i = 0; i < N; i++) {
            if (i == N / 2 && hcq_profile_start(T.dev, NULL) != HCQ_OK) {
                fprintf(stderr, "without a profile\n");
            }
            CHECK_OK(put_behind(q, T.dev, i, i * 2 + 1, &gate, 0, &done[i]));
        }
        open_gate(gate);
        uint64_t before = 0;
        for (uint32_t i = 0; i < N; i++) {
            uint64_t now = 0;
            WAIT_OK(done[i]);
            CHECK_OK(hcq_signal_timestamp(stamp, &now));
            CHECK(now != 0 && now >= before);
            before = now;
        }
        check_puts(out, N, 2);
        (void)hcq_profile_stop(T.dev);
        hcq_queue_destroy(q);
    }
}

#define VALUES_TESTS                                                               \
    TEST(values_replace_buffers), TEST(values_replace_nothing),                    \
    TEST(placeholders_only_as_buffers), TEST(copies_grow_alone),                   \
    TEST(held_values_are_small), TEST(bound_queue_takes_all_values),               \
    TEST(held_values_keep_their_recording), TEST(versions_of_those_that_wait),     \
    TEST(release_without_memory), TEST(close_with_held_values),                    \
    TEST(held_values_in_a_profile)
