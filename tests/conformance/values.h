/* What a submission brings: values in place of what was recorded, kept while it
   is held. Part of conformance.c. */

/* A buffer that a variable replaces is neither held nor asked for, and may be nothing. */
TEST(values_replace_buffers) {
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *both = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer b[3] = {make_words(T.dev, 64), make_words(T.dev, 64), make_words(T.dev, 64)};
        const uint64_t zero = 0;
        hcq_buffer gone = make_buffer(T.dev, 256, HCQ_NO_CACHE);
        CHECK_INDEX(record_add(q, make_add(T.dev), gone, 0, 5), 0);
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG, 0, 0));
        CHECK_OK(hcq_free(gone));      /* nobody needs it */
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_OK(submit_variables(q, &b[i].address, 1, NULL));
            CHECK_U64(READ32(b[i], 0), 5);
            CHECK_U64(READ32(b[i], 1), 0);
        }
        CHECK_OK(hcq_queue_update_arg(q, 0, 0, &gone.address, 8)); /* it may be anything */
        CHECK_INDEX(hcq_queue_append(both, q), 0);
        CHECK_OK(submit_variables(both, &b[1].address, 1, NULL));
        CHECK_OK(hcq_queue_update_arg(q, 0, 0, &zero, 8));
        CHECK_OK(submit_variables(q, &b[1].address, 1, NULL));
        CHECK_U64(READ32(b[1], 0), 15);
        CHECK_RESULT(submit_variables(q, &zero, 1, NULL), HCQ_ERROR_INVALID);
        const hcq_value part = hcq_value_buffer(hcq_view(b[2], 8, 8)), all = hcq_value_buffer(b[2]);
        CHECK_INDEX(hcq_queue_fill(q, b[0], 256, 7, 4), 1); /* the same one, all of it */
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_DST, 0, 0));
        CHECK_RESULT(hcq_queue_submit_with(q, T.dev, &part, 1, 0, NULL), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_submit_with(q, T.dev, &all, 1, 0, NULL));
        CHECK_U64(READ32(b[2], 63), 7);
    }
}

/* The ends of copies, fills and writes, too: recorded without a buffer, each submission
   brings one that holds what was recorded, or runs nothing. */
TEST(values_replace_operands) {
    static const struct { uint32_t at[4]; const char *why; } rows[] = { /* in words, of `a` */
        {{0, 16, 64, 0}, NULL}, {{48, 62, 32, 0}, NULL}, {{0, 30, 0, 96}, NULL},
        {{114, 0, 64, 0}, "command 0, has fewer"}, {{0, 0, 97, 0}, "command 2, has fewer"},
        {{1, 0, 64, 0}, "command 0, is not a multiple"}, {{0, 0, 64, 33}, "command 2, overlaps"},
        {{0, 0, 33, 64}, "command 2, overlaps"}, {{0x3fffffff, 0, 64, 0}, ", is 0x"}};
    const hcq_buffer hole = {0, 128, NULL, NULL, 0};
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *both = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 128), gone = make_words(T.dev, 64);
        uint32_t want[128] = {0};
        CHECK_INDEX(hcq_queue_fill(q, hole, 64, 0x500000005, 8), 0);
        CHECK_INDEX(record_word(q, hole, 0x700000009, 8), 1);
        CHECK_INDEX(hcq_queue_copy(q, hole, gone, 128), 2);
        CHECK_RESULT(hcq_queue_variable(q, 0, HCQ_PART_SRC, 0, 0), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_DST, 0, 0));
        CHECK_OK(hcq_queue_variable(q, 2, HCQ_PART_DST, 2, 0));
        CHECK_OK(hcq_queue_variable(q, 2, HCQ_PART_SRC, 3, 0));
        CHECK_OK(hcq_free(gone));
        CHECK_SAYS(hcq_queue_bind(q, T.dev), HCQ_ERROR_INVALID, "command 1: has no buffer 0");
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_DST, 1, 0));
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_INDEX(hcq_queue_append(both, q), 0);
        for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
            const uint32_t *at = rows[i / 2].at;
            hcq_value v[4];
            for (uint32_t k = 0; k < 4; k++) { /* by address, and as views */
                v[k] = (i ^ k) % 2 ? hcq_value_number(a.address + 4 * (uint64_t)at[k])
                                   : hcq_value_buffer(hcq_view(a, 4 * (uint64_t)at[k], 0));
            }
            log_clear();
            CHECK_RESULT(hcq_queue_submit_with(i % 2 ? both : q, T.dev, v, 4, 0, NULL),
                         rows[i / 2].why ? HCQ_ERROR_INVALID : HCQ_OK);
            CHECK(!rows[i / 2].why || log_has(rows[i / 2].why));
            for (uint32_t k = 0; k < 16 && !rows[i / 2].why; k++) { want[at[0] + k] = 5; }
            if (!rows[i / 2].why) {
                memcpy(want + at[1], (const uint32_t[2]){9, 7}, 8);
                memcpy(want + at[2], want + at[3], 128);
            }
            CHECK_BYTES(a, want, sizeof want);
        }
        CHECK_RESULT(submit_variables(q, &a.address, 1, NULL), HCQ_ERROR_INVALID);
        CHECK_RESULT(hcq_queue_variable(q, 0, HCQ_PART_DST, 9, 0), HCQ_ERROR_INVALID); /* it is */
        CHECK_RESULT(hcq_queue_variable(q, 0, HCQ_PART_SIZE, 0, 0), HCQ_ERROR_INVALID);
        CHECK(log_has("number: 0 is that of a buffer elsewhere"));
        CHECK_OK(hcq_queue_reset(both));
        CHECK_INDEX(hcq_queue_fill(both, a, 64, 0, 4), 0);
        CHECK_OK(hcq_queue_variable(both, 0, HCQ_PART_VALUE, 3, 0));
        CHECK_INDEX(hcq_queue_append(both, q), HCQ_ERROR_INVALID);
        CHECK(log_has("other: declares a value otherwise"));
    }
}

/* A graph's placeholders are buffer arguments: anywhere else they are refused. */
TEST(placeholders_only_as_buffers) {
    hcq_program *all = make_all(T.dev);
    hcq_buffer a = make_words(T.dev, 64);
    for (int kind = 0; kind < 6; kind++) {
        hcq_queue *g = make_queue(T.dev, HCQ_GRAPH);
        hcq_buffer in = hcq_graph_input(g, 0, NULL, 256), empty, input = make_words(T.dev, 64);
        CHECK_INDEX(hcq_graph_alloc(g, NULL, 256, 0, &empty), 0);
        const uint64_t held = kind & 1 ? empty.address + 8 : in.address;
        all_args good, bad;
        memset(&good, 0, sizeof good);
        good.out = a.address;
        good.in = in.address;
        bad = good;
        memcpy(kind / 2 == 0   ? (void *)&bad.u64
               : kind / 2 == 1 ? (void *)&bad.i64
                               : (void *)&bad.wide, &held, sizeof held);
        CHECK_SAYS(record_one(g, all, &bad, sizeof bad), HCQ_ERROR_INVALID, "placeholder");
        CHECK_OK(hcq_queue_reset(g));
        CHECK(hcq_graph_input(g, 0, NULL, 256).size == 256);
        CHECK_INDEX(record_one(g, all, &good, sizeof good), 0);
        CHECK_RESULT(hcq_queue_update_arg(g, 0, offsetof(all_args, u64), &in.address, 8),
                     HCQ_ERROR_INVALID);
        CHECK_RESULT(hcq_queue_access(g, 0, hcq_graph_input(g, 1, NULL, 64), HCQ_ARG_IN),
                     HCQ_ERROR_INVALID); /* the command cannot get at it */
        CHECK_OK(hcq_queue_access(g, 0, hcq_view(in, 16, 8), HCQ_ARG_IN));
        CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_ARG + offsetof(all_args, u64), 200, 0));
        hcq_value values[201] = {hcq_value_buffer(input)};
        for (int i = 0; i < 2; i++) {
            double out[11];
            values[200] = hcq_value_number(i ? 18 : in.address);
            CHECK_RESULT(hcq_queue_submit_with(g, T.dev, values, 201, 0, NULL),
                         i ? HCQ_OK : HCQ_ERROR_INVALID);
            CHECK_OK(hcq_copyout(out, a, sizeof out));
            CHECK(!i || out[7] == 18.0);
        }
        CHECK_U64(hcq_graph_input(g, 200, NULL, 8).size, 0); /* a number */
    }
}

/* The size of a copy grows alone as far as both buffers reach. */
TEST(copies_grow_alone) {
    for (int graph = 0; graph < 2; graph++) {
        hcq_queue *q = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COPY);
        hcq_queue *both = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COPY);
        hcq_buffer a = make_filled(T.dev, 64, 1), b = make_words(T.dev, 64);
        const hcq_buffer less = hcq_view(b, 0, 240);
        uint32_t want[64] = {0};
        const struct { hcq_queue *queue; uint64_t size; } runs[] = {{q, 16}, {both, 128}, {q, 240}};
        CHECK_INDEX(hcq_queue_copy(q, b, hcq_view(a, 0, 128), 16), 0);
        CHECK_INDEX(hcq_queue_append(both, q), 0);
        CHECK_OK(hcq_queue_update_copy(both, 0, NULL, NULL, 128));
        CHECK_SAYS(hcq_queue_update_copy(both, 0, NULL, NULL, 129), HCQ_ERROR_INVALID,
                   "command 0: size: ");
        CHECK(log_has("src has 128 bytes"));
        for (uint32_t i = 0; i < 3; i++) {
            if (i == 2) {              /* one of them alone, too */
                CHECK_OK(hcq_queue_update_copy(q, 0, NULL, &a, 200));
                CHECK_OK(hcq_queue_update_copy(q, 0, NULL, NULL, 256));
                CHECK_OK(hcq_queue_update_copy(q, 0, &less, NULL, 8));
                CHECK_RESULT(hcq_queue_update_copy(q, 0, NULL, NULL, 244), HCQ_ERROR_INVALID);
                CHECK_OK(hcq_queue_update_copy(q, 0, NULL, NULL, 240));
            }
            CHECK_OK(hcq_queue_submit(runs[i].queue, T.dev, NULL));
            CHECK_OK(hcq_copyout(want, a, runs[i].size));
            CHECK_BYTES(b, want, sizeof want);
        }
    }
}

/* ---- values of held submissions ---- */

/* Behind what is recorded out[variable 0] = variable 1; swapped: behind a barrier, too, with
   the variables the other way round. */
static void record_putter(hcq_queue *q, hcq_buffer out, uint32_t swapped, int bound) {
    CHECK(!swapped || hcq_queue_memory_barrier(q) == 0);
    const int32_t index = hcq_queue_count(q);
    CHECK_INDEX(record_put(q, make_put(out.device), out, 0, 0), index);
    CHECK_OK(hcq_queue_variable(q, index, HCQ_PART_ARG + 8, swapped, 0));
    CHECK_OK(hcq_queue_variable(q, index, HCQ_PART_ARG + 12, !swapped, 0));
    CHECK_OK(bound ? hcq_queue_bind(q, out.device) : HCQ_OK);
}

static hcq_queue *make_putter(hcq_buffer out, int bound) {
    hcq_queue *q = make_queue(out.device, HCQ_COMPUTE);
    record_putter(q, out, 0, bound);
    return q;
}

static hcq_result put_behind(hcq_queue *q, hcq_device *device, uint64_t index, uint64_t value,
                             const hcq_point *wait, uint32_t flags, hcq_point *done) {
    const hcq_value v[2] = {hcq_value_number(index), hcq_value_number(value)};
    return SUBMIT(device, q, done, .values = v, .value_count = 2, .waits = wait,
                  .wait_count = wait ? 1 : 0, .flags = flags);
}

static void check_puts(hcq_buffer out, uint32_t count, uint32_t factor) {
    static uint32_t got[5000];         /* as many as any test has */
    CHECK_OK(hcq_copyout(got, out, (uint64_t)count * 4));
    for (uint32_t i = 0; i < count; i++) {
        CHECK_U64(got[i], i * factor + 1);
    }
}

/* A held submission costs its values and little more, and nothing once it ran. */
TEST(held_values_are_small) {
    SKIP_IF(TEST_CHECKED, "the checker keeps what is held");
    const uint32_t count = is_cpu() && !TEST_SANITIZED ? 5000 : 2000; /* else each takes long */
    hcq_device *device = OPEN_WITH(0, .held_pool = 64); /* all are made when they are needed */
    for (uint32_t way = 0; way < 4; way++) {
        hcq_buffer out = make_words(device, count);
        hcq_queue *q = make_putter(out, way & 1);
        hcq_point gate = make_gate(device), done = {{0}, 0};
        const uint32_t flags = way & 2 ? HCQ_UNORDERED : 0;
        CHECK_OK(put_behind(q, device, 0, 0, NULL, 0, &done));
        WAIT_OK(done);
        CHECK_U64(READ32(out, 0), 0);  /* and staging memory is there */
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
        CHECK(!is_cpu() || after <= before + 65536); /* mocks keep theirs */
    }
    CHECK_OK(hcq_close(device));
}

/* Have so many been called, and what was handed over with them been noticed? */
static int calls_reach(const uint32_t *calls, uint32_t count, hcq_point later) {
    uint64_t deadline = hcq_now_ns() + BOUND;
    while (__atomic_load_n(calls, __ATOMIC_SEQ_CST) < count && hcq_now_ns() < deadline) {
        (void)hcq_wait(&later, 1, HCQ_ALL, 1000000);
    }
    (void)hcq_wait(&later, 1, HCQ_ALL, SECOND / 20);
    return __atomic_load_n(calls, __ATOMIC_SEQ_CST) == count;
}

/* Those that wait in the middle of their recording, with a version, or behind another
   queue of their submission, without, keep nobody from getting one. */
TEST(versions_of_those_that_wait) {
    enum { N = 9 };
    hcq_device *device = OPEN_WITH(0, .versions = 1);
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer out = make_words(device, N);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_point middle = make_gate(device), gate = make_gate(device), done[N];
        hcq_signal stamp = make_signal(device, 0);
        uint64_t then = 0, now = 0;
        uint32_t calls = 0;
        CHECK_INDEX(hcq_queue_timestamp(q, stamp), 0);
        CHECK_INDEX(hcq_queue_host(q, host_counts, &calls), 1);
        CHECK_INDEX(hcq_queue_wait(q, middle), 2);
        record_putter(q, out, 0, bound);
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
        CHECK_OK(hcq_wait(done, N, HCQ_ALL, BOUND));
        check_puts(out, N, 7);
        hcq_queue *both[2] = {make_queue(device, HCQ_COMPUTE), make_putter(out, bound)};
        const hcq_value v[2] = {hcq_value_number(0), hcq_value_number(1)};
        hcq_submission s = {.queues = both, .queue_count = 2, .values = v, .value_count = 2};
        gate = make_gate(device);
        CHECK_INDEX(hcq_queue_wait(both[0], gate), 0);
        CHECK_OK(hcq_submit(device, &s, 1, &done[0]));
        CHECK_OK(put_behind(both[1], device, 1, 8, NULL, HCQ_UNORDERED, &done[1]));
        WAIT_OK(done[1]);
        GATE_END(gate, done[0]);
    }
    CHECK_OK(hcq_close(device));
}

/* A submission whose values a backend refuses leaves the version as it is for another one, which
   was held before and has values of its own. */
TEST(refused_values_are_no_others) {
    SKIP_IF(!is_mock(), "only the mock refuses a patch on demand");
    mock_control control = {0};
    hcq_device_desc desc = test_desc();
    test_mock_desc.control = &control;
    hcq_device *device = test_open(0, &desc);
    hcq_buffer out = make_words(device, 1);
    hcq_queue *q = make_putter(out, 1);
    hcq_point gate = make_gate(device), done;
    CHECK_OK(put_behind(q, device, 0, 5, NULL, 0, &done));
    WAIT_OK(done);
    CHECK_OK(put_behind(q, device, 0, 7, &gate, 0, &done));
    __atomic_store_n(&control.refuse_patches, 1, __ATOMIC_SEQ_CST);
    CHECK_RESULT(put_behind(q, device, 0, 9, NULL, HCQ_UNORDERED, NULL), HCQ_ERROR_LIMIT);
    __atomic_store_n(&control.refuse_patches, 0, __ATOMIC_SEQ_CST);
    GATE_END(gate, done);
    CHECK_U64(READ32(out, 0), 7);
    CHECK_OK(hcq_close(device));
}

/* What an earlier submission brought of another device is nothing to a later one: that device may
   close, and what is held stays. */
TEST(values_of_before_keep_no_device) {
    const hcq_buffer hole = {0, 64, NULL, NULL, 0};
    hcq_device *other = test_open(1, NULL);
    hcq_buffer ours = make_words(T.dev, 16);
    const hcq_value first = hcq_value_buffer(make_words(other, 16)), own = hcq_value_buffer(ours);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point gate = make_gate(T.dev), done;
    CHECK_INDEX(hcq_queue_fill(q, hole, 64, 5, 4), 0);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_DST, 0, 0));
    CHECK_OK(hcq_queue_bind(q, T.dev));
    if (devices_share_memory()) {
        CHECK_OK(hcq_queue_submit_with(q, T.dev, &first, 1, 0, &done));
        WAIT_OK(done);
    }
    CHECK_OK(SUBMIT(T.dev, q, &done, .values = &own, .value_count = 1, .waits = &gate,
                    .wait_count = 1));
    CHECK_OK(hcq_close(other));
    GATE_END(gate, done);
    CHECK_U64(READ32(ours, 15), 5);
}

static void *submit_a_value(void *user) {
    blocked_call *b = (blocked_call *)user;
    const hcq_value v = hcq_value_number(b->timeout_ns); /* an address */
    blocked_begin(b);
    return blocked_end(b, hcq_queue_submit_with(b->queue, b->device, &v, 1, 0, NULL));
}

/* What a submission brings may be freed while that waits for room: it does not run then. */
TEST(values_are_freed_meanwhile) {
    const hcq_buffer hole = {0, 64, NULL, NULL, 0};
    blocked_call b = {.device = OPEN_WITH(0, .inflight = 1)};
    hcq_buffer gone = make_buffer(b.device, 64, HCQ_NO_CACHE);
    b.queue = make_queue(b.device, HCQ_COMPUTE);
    b.timeout_ns = gone.address;
    CHECK_INDEX(hcq_queue_fill(b.queue, hole, 64, 5, 4), 0);
    CHECK_OK(hcq_queue_variable(b.queue, 0, HCQ_PART_DST, 0, 0));
    CHECK_OK(hcq_queue_bind(b.queue, b.device));
    hcq_point done = hold_device(b.device, NULL);
    CHECK(pthread_create(&b.thread, NULL, submit_a_value, &b) == 0);
    mock_sleep(50000000);              /* it is in the call, usually */
    CHECK_OK(hcq_free(gone));
    HOLD_END(done);
    CHECK(pthread_join(b.thread, NULL) == 0);
    CHECK_RESULT(b.result, HCQ_ERROR_INVALID);
    CHECK_OK(hcq_close(b.device));
}

/* A buffer may get the address of one that was freed, in other memory of the device. */
TEST(addresses_come_again) {
    const uint64_t size = (uint64_t)96 << 20;
    const hcq_buffer hole = {0, 256, NULL, NULL, 0};
    hcq_buffer in = make_words(T.dev, 64), buffer = make_buffer(T.dev, size, HCQ_NO_CACHE);
    hcq_queue *brings = make_queue(T.dev, HCQ_COMPUTE), *names = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    CHECK_INDEX(hcq_queue_copy(brings, hole, in, 256), 0);
    CHECK_INDEX(record_add(brings, add, buffer, 0, 5), 1);
    CHECK_OK(hcq_queue_variable(brings, 0, HCQ_PART_DST, 0, 0));
    CHECK_OK(hcq_queue_variable(brings, 1, HCQ_PART_ARG, 0, 0));
    CHECK_INDEX(hcq_queue_copy(names, buffer, in, 256), 0);
    CHECK_OK(hcq_queue_bind(brings, T.dev));
    CHECK_OK(hcq_queue_bind(names, T.dev));
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t words[64] = {i + 1, 0, 0, i};
        const hcq_value v = hcq_value_buffer(buffer);
        hcq_point done;
        CHECK_OK(hcq_copyin(in, words, sizeof words));
        CHECK_OK(hcq_queue_update_copy(names, 0, &buffer, NULL, HCQ_KEEP));
        for (int k = 0; k < 3; k++) {
            CHECK_OK(hcq_queue_submit(names, T.dev, NULL));
            CHECK_OK(hcq_queue_submit_with(brings, T.dev, &v, 1, 0, &done));
        }
        WAIT_OK(done);
        CHECK_U64(READ32(buffer, 0), i + 6);
        CHECK_U64(READ32(buffer, 3), i);
        CHECK_OK(hcq_free(buffer));
        CHECK_OK(hcq_trim(T.dev, 0));
        buffer = make_buffer(T.dev, size, HCQ_NO_CACHE);
    }
}

/* Two devices may have the same memory at the same address: what a submission brings is of the
   one that it says, whose eager calls it follows. */
TEST(values_are_of_their_device) {
    static uint32_t memory[16];
    hcq_device *devices[2] = {test_open(1, NULL), test_open(1, NULL)};
    hcq_buffer b[2], out = make_words(T.dev, 16);
    const hcq_buffer hole = {0, 64, NULL, NULL, 0};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point gate = make_gate(T.dev), done;
    int same = has_feature(HCQ_FEATURE_MAP) && has_feature(HCQ_FEATURE_IMPORT);
    memory[0] = 1;
    for (int i = 0; i < 2; i++) {
        same = same && hcq_import(devices[i], memory, 64, 0, &b[i]) == HCQ_OK;
    }
    if (same && b[0].address == b[1].address) {
        const uint32_t two = 2;
        const hcq_value v[2] = {hcq_value_buffer(b[0]), hcq_value_buffer(b[1])};
        CHECK_INDEX(hcq_queue_copy(q, out, hole, 64), 0);
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_SRC, 0, 0));
        CHECK_OK(hcq_queue_submit_with(q, T.dev, &v[0], 1, 0, &done));
        WAIT_OK(done);
        CHECK_U64(READ32(out, 0), 1);
        CHECK_OK(hcq_submit(devices[1], &(hcq_submission){.waits = &gate, .wait_count = 1}, 1,
                            NULL));
        CHECK_OK(hcq_copyin(b[1], &two, sizeof two)); /* behind that */
        CHECK_OK(hcq_queue_submit_with(q, T.dev, &v[1], 1, 0, &done));
        CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, SECOND / 50), HCQ_TIMEOUT);
        GATE_END(gate, done);
        CHECK_U64(READ32(out, 0), 2);
    }
    CHECK_OK(hcq_close(devices[0]));
    CHECK_OK(hcq_close(devices[1]));
}

/* The only version waits in the middle of its recording, and the queue was changed since: what
   was held finds none. What is submitted after the change has one of its own. */
TEST(held_without_a_version) {
    hcq_device *device = OPEN_WITH(0, .versions = 1);
    hcq_buffer out = make_words(device, 4), other = make_words(device, 1);
    hcq_queue *q = make_putter(out, 0);
    hcq_point middle = make_gate(device), gate = make_gate(device), done[3];
    CHECK_INDEX(hcq_queue_wait(q, middle), 1);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(out, 12, 4), make_words(device, 1), 4), 2);
    CHECK_OK(hcq_queue_bind(q, device));
    CHECK_OK(put_behind(q, device, 0, 7, NULL, HCQ_UNORDERED, &done[0]));
    CHECK_OK(put_behind(q, device, 1, 8, &gate, HCQ_UNORDERED, &done[1]));
    CHECK_OK(hcq_queue_update_copy(q, 2, &other, NULL, HCQ_KEEP));
    CHECK_OK(put_behind(q, device, 2, 9, &gate, HCQ_UNORDERED, &done[2]));
    open_gate(gate);
    WAIT_RESULT(done[1], HCQ_ERROR_LIMIT);
    CHECK_RESULT(test_poll(done[2]), HCQ_TIMEOUT);
    open_gate(middle);
    WAIT_OK(done[0]);
    WAIT_OK(done[2]);
    CHECK(READ32(out, 0) == 7 && READ32(out, 1) == 0 && READ32(out, 2) == 9);
    CHECK_OK(hcq_close(device));
}

/* What happens to submissions with values while they are held. */
typedef enum held_event {
    HELD_BEHIND_OTHERS,                /* nothing: work of somebody else holds them */
    HELD_DESTROYED,                    /* their queue: they go on as if it lived */
    HELD_ANEW,                         /* it is recorded anew, again and again */
    HELD_PROFILED,                     /* a profile begins: versions with times are not shared */
    HELD_NO_MEMORY,                    /* none for more versions: they follow those there are */
    HELD_CLOSED,                       /* their device: they end */
    HELD_EVENTS
} held_event;

/* The gate opens, and they end well, each with its values and its own time. */
static void held_values_run(const hcq_point *gate, const hcq_point *done, uint32_t count,
                            hcq_signal stamp, int without_memory) {
    uint64_t before = 0;
    allocations_fail(without_memory ? 1 : 0, UINT64_MAX);
    hcq_result r = hcq_signal_set(gate->signal, gate->value);
    for (uint32_t i = 0; i < count && r == HCQ_OK; i++) {
        uint64_t now = 0;
        r = hcq_wait(&done[i], 1, HCQ_ALL, BOUND);
        if (stamp.id && r == HCQ_OK) {
            r = hcq_signal_timestamp(stamp, &now);
            r = now != 0 && now >= before ? r : HCQ_ERROR_NATIVE;
            before = now;
        }
    }
    allocations_fail(0, 0);
    CHECK_OK(r);
}

static void one_held_event(held_event how, int bound) {
    enum { N = 40 };
    const hcq_signal none = {0};
    hcq_device *device = how == HELD_CLOSED ? test_open(0, NULL) : T.dev;
    hcq_buffer out = make_words(device, N);
    hcq_queue *q = make_putter(out, bound);
    hcq_point gate = make_gate(T.dev), done[N];
    hcq_signal stamp = how == HELD_PROFILED ? make_signal(T.dev, 0) : none;
    uint32_t swapped = 0;
    if (stamp.id) {                    /* undoes the binding */
        CHECK_INDEX(hcq_queue_timestamp(q, stamp), 1);
        CHECK(!bound || hcq_queue_bind(q, T.dev) == HCQ_OK);
    }
    if (how == HELD_BEHIND_OTHERS) {   /* parks the lane */
        CHECK_OK(submit_lists(T.dev, &gate, NULL, 0, NULL));
    }
    for (uint64_t i = 0; i < N; i++) {
        if (i == N / 2 && how == HELD_PROFILED && hcq_profile_start(T.dev, NULL) != HCQ_OK) {
            fprintf(stderr, "without a profile\n");
        }
        if (i % 5 == 4 && how == HELD_ANEW) {
            swapped = !swapped;
            CHECK_OK(hcq_queue_reset(q));
            record_putter(q, out, swapped, bound);
        }
        CHECK_OK(put_behind(q, device, swapped ? i * 5 + 1 : i, swapped ? i : i * 5 + 1,
                            how == HELD_BEHIND_OTHERS ? NULL : &gate,
                            how == HELD_NO_MEMORY || (how == HELD_CLOSED && i % 2)
                                ? HCQ_UNORDERED : 0, &done[i]));
    }
    CHECK_RESULT(test_poll(done[N - 1]), HCQ_TIMEOUT);
    if (how == HELD_CLOSED) {
        CHECK_OK(hcq_close(device));
        for (uint32_t i = 0; i < N; i++) {
            CHECK(hcq_wait(&done[i], 1, HCQ_ALL, BOUND) < 0);
        }
        open_gate(gate);
        return;
    }
    if (how == HELD_DESTROYED) {
        CHECK_OK(hcq_queue_reset(q));
        hcq_queue_destroy(q);
    }
    held_values_run(&gate, done, N, stamp, how == HELD_NO_MEMORY);
    check_puts(out, N, 5);
    (void)hcq_profile_stop(T.dev);
}

TEST(held_values_outlive_everything) {
    for (int how = 0; how < HELD_EVENTS; how++) {
        if (how == HELD_NO_MEMORY && !is_cpu() && !is_mock()) {
            continue;                  /* others take memory to hand over */
        }
        one_held_event((held_event)how, 0);
        one_held_event((held_event)how, 1);
    }
}
