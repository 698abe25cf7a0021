/* graph_launch.h - a launch among other submissions, its waits, and how it fails.
   Part of conformance.c. */

/* ---- other work ---- */

/* A submission without order runs: whatever was handed over before it has run. */
static void probe_lane(hcq_device *device) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point done = {{0}, 0};
    CHECK_INDEX(record_word(q, make_words(device, 1), 1, 4), 0);
    CHECK_OK(submit_queue(q, device, NULL, NULL, HCQ_UNORDERED, &done));
    WAIT_OK(done);
}

static void probe_lanes(int wanted) {
    if (wanted) {
        probe_lane(T.dev);
        probe_lane(dev2());
    }
}

/* A launch follows what was submitted before, on every lane of its devices; one with
   HCQ_OVERLAP passes it. */
TEST(launch_beside_other_work) {
    enum { HELD, RUNNING, PASSED };
    static uint32_t go;
    for (uint32_t way = 0; way < 24; way++) { /* where it is, on which lane; bound */
        const uint32_t there = way % 2, how = way / 8;
        hcq_device *device = there ? dev2() : T.dev;
        two_marks t = make_two_marks(way / 4 % 2);
        hcq_queue *q = make_queue(device, way / 2 % 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_point gate = make_gate(T.dev), done, earlier;
        __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
        CHECK_INDEX(how == RUNNING ? hcq_queue_host(q, host_until, &go)
                                   : record_word(q, make_words(device, 1), 1, 4), 0);
        CHECK_OK(submit_behind(q, device, how == RUNNING ? NULL : &gate, &earlier));
        CHECK_OK(launch_flags(t.g, how == PASSED ? HCQ_OVERLAP : 0, &done));
        if (how == PASSED) {
            WAIT_OK(done);
        } else {
            probe_lanes(how == HELD);
            mark_chance(there);
            CHECK(!mark_at(there));
            CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        }
        CHECK_RESULT(test_poll(earlier), HCQ_TIMEOUT);
        __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
        GATE_END(gate, done);
        WAIT_OK(earlier);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* A held launch does not pass, and nothing passes it: later work of its lanes, work
   that waits for its point, the timelines and eager calls of both devices. */
TEST(later_work_follows_a_launch) {
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks(bound);
        hcq_device *devices[2] = {T.dev, dev2()};
        hcq_point gate = make_gate(dev2()), done, later[6];
        hcq_buffer copy[2] = {make_words(T.dev, 1), make_words(dev2(), 1)};
        CHECK_OK(submit_behind(t.g, T.dev, &gate, &done));
        for (int i = 0; i < 2; i++) {
            hcq_queue *after = make_queue(devices[i], HCQ_COPY);
            hcq_queue *behind = make_queue(devices[i], HCQ_COMPUTE);
            later[i] = timeline_now(devices[i]);
            CHECK_INDEX(hcq_queue_wait(after, done), 0);
            CHECK_INDEX(hcq_queue_copy(after, copy[i], t.word[i], 4), 1);
            CHECK_OK(hcq_queue_submit(after, devices[i], &later[2 + i]));
            CHECK_INDEX(hcq_queue_fill(behind, hcq_view(t.word[i], 4, 4), 4, 5, 4), 0);
            CHECK_OK(hcq_queue_submit(behind, devices[i], &later[4 + i]));
        }
        for (int i = 0; i < 6; i++) {
            CHECK_RESULT(test_poll(later[i]), HCQ_TIMEOUT);
        }
        CHECK(!mark_at(0) && !mark_at(1));
        open_gate(gate);
        for (int i = 0; i < 2; i++) {
            CHECK_U64(READ32(t.word[i], 0), i + 1); /* an eager call: after all of it */
            CHECK_U64(READ32(t.word[i], 1), 5);
            CHECK_U64(READ32(copy[i], 0), i + 1);
        }
        CHECK_OK(hcq_wait(later, 6, HCQ_ALL, BOUND));
        WAIT_OK(done);
    }
}

/* One call submits plain work and launches; another one waits for its launch. */
TEST(launches_among_submissions) {
    static const int order[5] = {0, 1, 1, 2, 1}; /* write, launch, launch, copy, launch */
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *queues[3] = {make_queue(T.dev, HCQ_COMPUTE), make_graph(),
                                make_queue(T.dev, HCQ_COMPUTE)};
        hcq_buffer a = make_words(T.dev, 4);
        hcq_submission subs[5];
        hcq_point done;
        static notice told;
        const uint32_t once = 5 * 31 + 1, twice = once * 31 + 1;
        CHECK_INDEX(record_word(queues[0], a, 5, 4), 0);
        CHECK_INDEX(record_mix(queues[1], make_mix(T.dev), a, hcq_view(a, 4, 4), 1, 1), 0);
        CHECK_INDEX(hcq_queue_copy(queues[2], hcq_view(a, 8, 4), a, 4), 0);
        CHECK_OK(bound ? hcq_queue_bind(queues[1], T.dev) : HCQ_OK);
        for (int i = 0; i < 5; i++) {
            subs[i] = submission(&queues[order[i]], 1);
        }
        CHECK_OK(hcq_submit(T.dev, subs, 5, &done));
        NOTIFY_AT(&told, done);
        NOTIFIED(&told, HCQ_OK);
        CHECK_U64(READ32(a, 2), twice);
        CHECK_U64(READ32(a, 0), twice * 31 + 1);
        CHECK_OK(hcq_submit_and_wait(T.dev, subs, 2, BOUND, &done));
        CHECK_OK(test_poll(done));
        CHECK_U64(READ32(a, 0), once);
    }
}

/* ---- waits and signals ---- */

/* How the two gates of a launch end, one after the other. */
typedef enum gate_end {
    OPENS,
    RISES,                             /* by work that is submitted after the launch */
    FAILS,
    HAS_FAILED,                        /* before the launch */
    STAYS                              /* shut */
} gate_end;

static const gate_end gate_cases[][2] = {{OPENS, OPENS}, {RISES, OPENS}, {OPENS, RISES},
                                         {FAILS, STAYS}, {STAYS, FAILS}, {OPENS, FAILS},
                                         {HAS_FAILED, STAYS}};

static void end_gate(gate_end how, hcq_point gate, hcq_device *device) {
    if (how == RISES) {
        CHECK_OK(submit_lists(device, NULL, &gate, HCQ_UNORDERED, NULL));
    } else if (how == OPENS) {
        open_gate(gate);
    } else {
        CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE, NULL));
    }
}

/* All waits, more than there are waiters at first, are over before the first command,
   and all signals come after the last, on whatever device; with one failed wait nothing
   runs, whatever becomes of others. */
static void one_gate_case(const gate_end *ends, int bound, uint32_t flags) {
    enum { WAITS = 3000 };
    static hcq_point waits[WAITS];
    hcq_result want = HCQ_OK;
    two_marks t = make_two_marks(bound);
    hcq_point gates[2] = {make_gate(T.dev), make_gate(dev2())}, done;
    hcq_point raise[2] = {hcq_at(make_signal(T.dev, 0), 7), hcq_at(make_signal(dev2(), 3), 4)};
    for (int i = 0; i < WAITS; i++) {
        waits[i] = gates[i % 2];
    }
    hcq_submission s = {.queues = &t.g, .queue_count = 1, .waits = waits, .wait_count = WAITS,
                        .signals = raise, .signal_count = 2, .flags = flags};
    for (int i = 0; i < 2; i++) {
        want = ends[i] == FAILS || ends[i] == HAS_FAILED ? HCQ_ERROR_NATIVE : want;
        if (ends[i] == HAS_FAILED) {
            end_gate(HAS_FAILED, gates[i], NULL);
        }
    }
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
    for (int i = 0; i < 2; i++) {
        if (ends[i] == OPENS || ends[i] == RISES || ends[i] == FAILS) {
            probe_lanes(1);
            CHECK(!mark_at(0) && !mark_at(1));
            CHECK_RESULT(test_poll(raise[0]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(raise[1]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
            end_gate(ends[i], gates[i], i ? T.dev : dev2());
        }
    }
    WAIT_RESULT(raise[0], want);
    CHECK(want == HCQ_OK ? mark_at(0) && mark_at(1) : !mark_at(0) && !mark_at(1));
    WAIT_RESULT(raise[1], want);
    WAIT_RESULT(done, want);
    synchronize_both();
    CHECK(want == HCQ_OK || (!mark_at(0) && !mark_at(1)));
    CHECK(want != HCQ_OK || hcq_submit(T.dev, &s, 1, &done) == HCQ_ERROR_INVALID); /* no rise */
    LAUNCH(t.g);
    CHECK(mark_at(0) && mark_at(1));
}

TEST(launch_with_waits_and_signals) {
    for (uint32_t i = 0; i < 4 * sizeof gate_cases / sizeof gate_cases[0]; i++) {
        fprintf(stderr, "case %u, way %u\n", i / 4, i % 4);
        one_gate_case(gate_cases[i / 4], i % 2, i % 4 / 2 ? HCQ_OVERLAP : 0);
    }
}

/* ---- failures ---- */

enum { FAIL_LAUNCHES = 5, FAILING = 2 };

static hcq_result host_fails_one(void *user) {
    uint32_t before = __atomic_fetch_add((uint32_t *)user, 1, __ATOMIC_ACQ_REL);
    return before == FAILING ? HCQ_ERROR_HOST : HCQ_OK;
}

/* What follows the host command in `a` and, by an edge, in `b` on the other device. */
static hcq_queue *make_failing(hcq_buffer a, hcq_buffer b, uint32_t *calls) {
    hcq_queue *g = make_graph();
    CHECK_OK(hcq_queue_label(g, "failing graph"));
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_host(g, host_fails_one, calls), 1);
    CHECK_OK(hcq_queue_access(g, 1, a, HCQ_ARG_INOUT));
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 1, 1), 2);
    CHECK_INDEX(record_add(g, make_add(dev2()), b, 0, 1), 3);
    CHECK_OK(hcq_graph_edge(g, 1, 3));
    return g;
}

/* A host command fails one launch of many under way: what follows it there does not
   run, on any device, whoever waits is told, and all others run well. */
TEST(one_failing_launch_of_many) {
    static uint32_t calls;
    hcq_device *keep = T.dev, *device = OPEN_WITH(0, .versions = FAIL_LAUNCHES);
    T.dev = device;
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_words(device, 4), b = make_words(dev2(), 4);
        hcq_queue *g = make_failing(a, b, &calls), *q = make_queue(dev2(), HCQ_COMPUTE);
        hcq_point gate = make_gate(device), raise = hcq_at(make_signal(dev2(), 0), 1);
        hcq_point done[FAIL_LAUNCHES], after;
        hcq_error_info error;
        __atomic_store_n(&calls, 0, __ATOMIC_RELEASE);
        CHECK_OK(bound ? hcq_queue_bind(g, device) : HCQ_OK);
        for (uint32_t i = 0; i < FAIL_LAUNCHES; i++) {
            CHECK_OK(submit_queue(g, device, &gate, i == FAILING ? &raise : NULL, 0, &done[i]));
        }
        CHECK_INDEX(hcq_queue_wait(q, done[FAILING]), 0);
        CHECK_INDEX(record_word(q, hcq_view(b, 8, 4), 9, 4), 1);
        CHECK_OK(hcq_queue_submit(q, dev2(), &after));
        open_gate(gate);
        for (uint32_t i = 0; i < FAIL_LAUNCHES; i++) {
            WAIT_RESULT(done[i], i == FAILING ? HCQ_ERROR_HOST : HCQ_OK);
        }
        WAIT_RESULT(raise, HCQ_ERROR_HOST);
        WAIT_RESULT(after, HCQ_ERROR_HOST);
        WAIT_OK(timeline_now(device)); /* timelines only order */
        WAIT_OK(timeline_now(dev2()));
        const uint32_t in_a[2] = {FAIL_LAUNCHES, FAIL_LAUNCHES - 1};
        const uint32_t in_b[3] = {FAIL_LAUNCHES - 1, 0, 0};
        CHECK_BYTES(a, in_a, sizeof in_a);
        CHECK_BYTES(b, in_b, sizeof in_b);
        CHECK_OK(hcq_device_error_take(device, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "failing graph") == 0 && error.command == 1);
        CHECK_RESULT(test_poll(done[FAILING]), HCQ_ERROR_HOST); /* the point remembers */
        LAUNCH(g);
        CHECK_U64(READ32(b, 0), FAIL_LAUNCHES);
    }
    T.dev = keep;
    CHECK_OK(hcq_close(device));
}

static uint32_t chain_go;              /* lets chain_read end */
static uint32_t chain_reads, chain_wrong;

static hcq_result chain_write(void *user) {
    (void)user;
    __atomic_fetch_or(&chain_wrong, __atomic_load_n(&chain_reads, __ATOMIC_ACQUIRE),
                      __ATOMIC_RELEASE);
    return HCQ_OK;
}

static hcq_result chain_read(void *user) {
    (void)user;
    __atomic_store_n(&chain_reads, 1, __ATOMIC_RELEASE);
    hcq_result result = host_until(&chain_go);
    __atomic_store_n(&chain_reads, 0, __ATOMIC_RELEASE);
    return result;
}

/* No command runs where the launch ends: once a wait failed that waits for no other, either. */
TEST(launch_elsewhere_fails) {
    hcq_queue *g = make_graph();
    hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev)}, done;
    CHECK_INDEX(record_word(g, make_words(dev2(), 1), 1, 4), 0);
    CHECK_OK(SUBMIT(T.dev, g, &done, .waits = gates, .wait_count = 2));
    CHECK_OK(hcq_signal_fail(gates[0].signal, HCQ_ERROR_NATIVE, NULL));
    WAIT_RESULT(done, HCQ_ERROR_NATIVE);
}

/* A launch that fails early still keeps the one after it behind the one before
   it: the third would write what the first one reads. */
TEST(failed_launch_keeps_the_order) {
    hcq_queue *g = make_graph();
    hcq_buffer x = make_words(T.dev, 16), y = make_words(dev2(), 16);
    hcq_point gate = make_gate(T.dev), done[3];
    CHECK_INDEX(hcq_queue_host(g, chain_write, NULL), 0);
    CHECK_OK(hcq_queue_access(g, 0, x, HCQ_ARG_OUT));
    CHECK_INDEX(hcq_queue_host(g, chain_read, NULL), 1);
    CHECK_OK(hcq_queue_access(g, 1, y, HCQ_ARG_OUT));
    CHECK_OK(hcq_queue_access(g, 1, x, HCQ_ARG_IN));
    __atomic_store_n(&chain_go, 0, __ATOMIC_RELEASE);
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &done[0]));
    CHECK(word_until(&chain_reads, 1));
    CHECK_OK(submit_behind(g, T.dev, &gate, &done[1]));
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &done[2]));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE, NULL));
    for (int i = 0; i < 20; i++) {     /* time to go wrong */
        CHECK_RESULT(test_poll(done[2]), HCQ_TIMEOUT);
        mock_sleep(1000000);
    }
    __atomic_store_n(&chain_go, 1, __ATOMIC_RELEASE);
    WAIT_OK(done[0]);
    WAIT_RESULT(done[1], HCQ_ERROR_NATIVE);
    WAIT_OK(done[2]);
    CHECK(!__atomic_load_n(&chain_wrong, __ATOMIC_ACQUIRE));
}

/* A failing host command, or a failed wait, ends a launch step by step, and the call
   says so. */
TEST(step_fails) {
    static host_log log;
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *g = make_graph();
    hcq_point bad = make_gate(dev2()), done;
    const hcq_result wants[3] = {HCQ_ERROR_HOST, HCQ_ERROR_NATIVE, HCQ_OK};
    memset(&log, 0, sizeof log);
    CHECK_INDEX(record_word(g, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_host(g, host_record, &log), 1);
    CHECK_INDEX(record_word(g, hcq_view(a, 4, 4), 1, 4), 2);
    CHECK_OK(hcq_signal_fail(bad.signal, HCQ_ERROR_NATIVE, NULL));
    for (int i = 0; i < 3; i++) {      /* the command, the wait, none */
        hcq_point raise = hcq_at(make_signal(T.dev, 0), 1);
        log.result = i == 0 ? HCQ_ERROR_HOST : HCQ_OK;
        CHECK_RESULT(submit_queue(g, T.dev, i == 1 ? &bad : NULL, &raise, HCQ_STEP, &done),
                     wants[i]);
        WAIT_RESULT(raise, wants[i]);
        CHECK(i < 2 || test_poll(done) == HCQ_OK);
        CHECK_U64(log.calls, i == 2 ? 2 : 1);
        CHECK_U64(READ32(a, 0), 1);
        CHECK_U64(READ32(a, 1), i == 2);
    }
}

static hcq_result host_prints(void *graph) {
    char text[64];
    return hcq_graph_print((hcq_queue *)graph, 0, text, sizeof text) ? HCQ_OK : HCQ_ERROR_HOST;
}

/* A command that prints its own graph, with other lists, is not in its way. */
TEST(print_within_a_step) {
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *g = make_graph();
    hcq_point done;
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(a, 4, 4), a, 4), 0);
    CHECK_INDEX(hcq_queue_host(g, host_prints, g), 1);
    CHECK_INDEX(record_word(g, hcq_view(a, 8, 4), 3, 4), 2);
    CHECK_OK(submit_queue(g, T.dev, NULL, NULL, HCQ_STEP | HCQ_COPY_LISTS, &done));
    WAIT_OK(done);
    CHECK_U64(READ32(a, 2), 3);
}
