/* graph_launch.h - a launch among other submissions, and how it fails. Part of
   conformance.c. */
#include "shared.h"
#include "graph.h"

/* ---- a launch among other submissions ---- */

/* A submission without order runs: whatever was handed over before it has run. */
static void probe_lane(hcq_device *device) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_buffer word = make_words(device, 1);
    hcq_submission s = submission(&q, 1);
    hcq_point done = {{0}, 0};
    CHECK_INDEX(hcq_queue_write(q, word, 1, 4), 0);
    s.flags = HCQ_UNORDERED;
    CHECK_OK(hcq_submit(device, &s, 1, &done));
    WAIT_OK(done);
    hcq_queue_destroy(q);
}

/* Work that stands on one lane of one device until `gate` opens. */
static hcq_point hold_lane(hcq_device *device, hcq_queue_kind kind, hcq_point gate) {
    hcq_queue *q = make_queue(device, kind);
    hcq_point held = {{0}, 0};
    CHECK(hcq_queue_write(q, make_words(device, 1), 1, 4) >= 0);
    CHECK_OK(submit_behind(q, device, &gate, &held));
    hcq_queue_destroy(q);
    return held;
}

/* On every lane of every device: a launch begins there only after it. */
static void launch_follows_earlier_work(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 8; way++) {
        const uint32_t other = way % 2, kind = way / 2 % 2;
        hcq_device *devices[2] = {T.dev, T.dev2};
        two_marks t = make_two_marks();
        hcq_point gate = make_gate(T.dev), done, held;
        marks_reset();
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        held = hold_lane(devices[other], kind ? HCQ_COPY : HCQ_COMPUTE, gate);
        CHECK_OK(hcq_queue_submit(t.g, T.dev, &done));
        probe_lane(T.dev);
        probe_lane(T.dev2);
        CHECK(!mark_at(other));
        CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
        CHECK_OK(test_poll(held));
        hcq_queue_destroy(t.g);
    }
}

/* And earlier work that runs already, on another lane than the launch's. */
static void launch_follows_running_work(void **state) {
    (void)state;
    two_marks t = make_two_marks();
    static uint32_t go;
    for (int i = 0; i < 4; i++) {
        hcq_device *device = i % 2 ? T.dev2 : T.dev;
        hcq_queue *q = make_queue(device, HCQ_COPY);
        hcq_point done, earlier;
        __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
        marks_reset();
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_INDEX(hcq_queue_host(q, host_until, &go), 0);
        CHECK_OK(hcq_queue_submit(q, device, &earlier));
        CHECK_OK(hcq_queue_submit(t.g, T.dev, &done));
        mark_chance((uint32_t)i % 2);
        CHECK(!mark_at((uint32_t)i % 2));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
        WAIT_OK(done);
        CHECK_OK(test_poll(earlier));
        hcq_queue_destroy(q);
    }
}

/* A held launch does not pass, and nothing passes it: later work of its lanes, work
   that waits for its point, the timelines and eager calls of both devices. */
static void later_work_follows_a_launch(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_device *devices[2] = {T.dev, T.dev2};
        hcq_point gate = make_gate(T.dev2), done, line[2], after[2], behind[2];
        hcq_buffer copy[2] = {make_words(T.dev, 1), make_words(T.dev2, 1)};
        marks_reset();
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(submit_behind(t.g, T.dev, &gate, &done));
        for (int i = 0; i < 2; i++) {
            hcq_queue *q = make_queue(devices[i], HCQ_COPY);
            hcq_queue *same = make_queue(devices[i], HCQ_COMPUTE);
            line[i] = timeline_now(devices[i]);
            CHECK_INDEX(hcq_queue_wait(q, done), 0);
            CHECK_INDEX(hcq_queue_copy(q, copy[i], t.word[i], 4), 1);
            CHECK_OK(hcq_queue_submit(q, devices[i], &after[i]));
            CHECK_INDEX(hcq_queue_fill(same, hcq_view(t.word[i], 4, 4), 4, 5, 4), 0);
            CHECK_OK(hcq_queue_submit(same, devices[i], &behind[i]));
        }
        for (int i = 0; i < 2; i++) {
            CHECK_RESULT(test_poll(line[i]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(after[i]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(behind[i]), HCQ_TIMEOUT);
        }
        CHECK(!mark_at(0) && !mark_at(1));
        open_gate(gate);
        for (int i = 0; i < 2; i++) {
            CHECK_U64(READ32(t.word[i], 0), i + 1); /* an eager call: after all of it */
            WAIT_OK(line[i]);
            WAIT_OK(after[i]);
            WAIT_OK(behind[i]);
            CHECK_U64(READ32(copy[i], 0), i + 1);
            CHECK_U64(READ32(t.word[i], 1), 5);
        }
        WAIT_OK(done);
        hcq_queue_destroy(t.g);
    }
}

/* The submission's own lists: all waits before the first command, all signals
   after the last, on whatever device. */
static void launch_with_waits_and_signals(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev2)}, done;
        hcq_point raise[2] = {hcq_at(make_signal(T.dev, 0), 7),
                              hcq_at(make_signal(T.dev2, 3), 4)};
        hcq_submission s = submission(&t.g, 1);
        s.waits = gates;
        s.wait_count = 2;
        s.signals = raise;
        s.signal_count = 2;
        marks_reset();
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        for (int i = 0; i < 2; i++) {
            probe_lane(T.dev);
            probe_lane(T.dev2);
            CHECK(!mark_at(0) && !mark_at(1));
            CHECK_RESULT(test_poll(raise[0]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(raise[1]), HCQ_TIMEOUT);
            open_gate(gates[i]);
        }
        WAIT_OK(raise[0]);
        CHECK(mark_at(0) && mark_at(1)); /* a signal comes after all commands */
        WAIT_OK(raise[1]);
        WAIT_OK(done);
        CHECK_RESULT(hcq_submit(T.dev, &s, 1, &done), HCQ_ERROR_INVALID); /* does not rise */
    }
}

/* The launch comes before what it waits for: work of another device, and of its
   own, that was submitted later. */
static void launch_waits_for_later_work(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        two_marks t = make_two_marks();
        hcq_device *device = way % 2 ? T.dev2 : T.dev;
        hcq_point wait = hcq_at(make_signal(T.dev, 0), 1), done;
        marks_reset();
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(submit_behind(t.g, T.dev, &wait, &done));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        CHECK_OK(submit_lists(device, NULL, &wait, HCQ_UNORDERED, NULL));
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* Launch by launch, each waits for a signal that the one before raises, last one
   first, with graphs of either device as home. */
static void launches_in_a_chain(void **state) {
    (void)state;
    enum { LINKS = 8 };
    hcq_signal s = make_signal(T.dev2, 0);
    hcq_device *devices[2] = {T.dev, T.dev2};
    hcq_program *mix = make_mix(T.dev);
    hcq_buffer a = make_filled(T.dev, 1, 3), b = make_filled(T.dev, 1, 4);
    hcq_point done[LINKS];
    uint32_t va = 3;
    for (uint32_t i = LINKS; i-- > 0;) { /* graphs of one device would stand in a line */
        hcq_queue *g = make_queue(devices[1], HCQ_GRAPH);
        hcq_point wait = hcq_at(s, i), raise = hcq_at(s, i + 1);
        hcq_submission sub = submission(&g, 1);
        sub.waits = &wait;
        sub.wait_count = 1;
        sub.signals = &raise;
        sub.signal_count = 1;
        sub.flags = HCQ_OVERLAP;
        CHECK_INDEX(record_mix(g, mix, a, b, 1, i), 0);
        CHECK_OK(hcq_submit(devices[1], &sub, 1, &done[i]));
    }
    for (uint32_t i = 0; i < LINKS; i++) {
        WAIT_OK(done[i]);
        va = mixed(va, 4, i);
    }
    CHECK_U64(READ32(a, 0), va);
}

/* Flag HCQ_OVERLAP: other work is passed, on whatever lane it is held. */
static void overlap_passes_other_work(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        hcq_device *devices[2] = {T.dev, T.dev2};
        two_marks t = make_two_marks();
        hcq_point gate = make_gate(T.dev), done, held;
        marks_reset();
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        held = hold_lane(devices[way % 2], way / 2 % 2 ? HCQ_COPY : HCQ_COMPUTE, gate);
        CHECK_OK(launch_flags(t.g, HCQ_OVERLAP, &done));
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
        CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(held);
    }
}

/* A launch while the one before is held or runs; with HCQ_OVERLAP, too, for it
   needs what the one before writes. */
static void launch_while_another_is_under_way(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        const uint32_t flags = way % 2 ? HCQ_OVERLAP : 0;
        hcq_program *late = make_late_mix(T.dev), *mix = make_mix(T.dev);
        hcq_buffer a = make_filled(T.dev, 1, 3), b = make_filled(T.dev, 1, 4);
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(T.dev), done[2];
        uint32_t va = 3, vb = 4;
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_mix(g, late, a, b, 1, 1), 0);
        CHECK_INDEX(record_mix(g, mix, b, a, 1, 2), 1);
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.waits = &gate;
        s.wait_count = way & 2 ? 1 : 0; /* held, or begun and not done */
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[0]));
        s.wait_count = 0;
        s.flags = flags;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[1]));
        CHECK_RESULT(test_poll(done[0]), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(done[1]), HCQ_TIMEOUT);
        hold_release();
        open_gate(gate);
        WAIT_OK(done[0]);
        WAIT_OK(done[1]);
        for (int i = 0; i < 2; i++) {
            va = mixed(va, vb, 1);
            vb = mixed(vb, va, 2);
        }
        CHECK_U64(READ32(a, 0), va);
        CHECK_U64(READ32(b, 0), vb);
    }
}

/* One call submits plain work and launches; another one waits for its launch. */
static void launches_among_submissions(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *queues[3] = {make_queue(T.dev, HCQ_COMPUTE), make_graph(),
                                make_queue(T.dev, HCQ_COMPUTE)};
        hcq_buffer a = make_words(T.dev, 4);
        hcq_submission subs[5];
        hcq_point done;
        static notice told;
        CHECK_INDEX(hcq_queue_write(queues[0], a, 5, 4), 0);
        CHECK_INDEX(record_mix(queues[1], make_mix(T.dev), a, hcq_view(a, 4, 4), 1, 1), 0);
        CHECK_INDEX(hcq_queue_copy(queues[2], hcq_view(a, 8, 4), a, 4), 0);
        if (bound) {
            CHECK_OK(hcq_queue_bind(queues[1], T.dev));
        }
        for (int i = 0; i < 5; i++) {  /* write, launch, launch, copy, launch */
            static const int order[5] = {0, 1, 1, 2, 1};
            subs[i] = submission(&queues[order[i]], 1);
        }
        CHECK_OK(hcq_submit(T.dev, subs, 5, &done));
        NOTIFY_AT(&told, done);
        NOTIFIED(&told, HCQ_OK);
        const uint32_t once = 5 * 31 + 1, twice = once * 31 + 1;
        CHECK_U64(READ32(a, 2), twice);
        CHECK_U64(READ32(a, 0), twice * 31 + 1);
        CHECK_OK(hcq_submit_and_wait(T.dev, subs, 2, BOUND, &done));
        CHECK_OK(test_poll(done));
        CHECK_U64(READ32(a, 0), once);
    }
}

static hcq_result host_launches(void *user) {
    step_call *c = (step_call *)user;
    c->result = hcq_queue_submit(c->g, T.dev, &c->done);
    return HCQ_OK;
}

/* A launch does not wait, and so a callback may make it. */
static void launch_in_a_callback(void **state) {
    (void)state;
    static step_call call;
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_point done;
        memset(&call, 0, sizeof call);
        call.g = t.g;
        marks_reset();
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_INDEX(hcq_queue_host(q, host_launches, &call), 0);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK_OK(call.result);
        WAIT_OK(call.done);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* ---- failures ---- */

/* A host command fails a launch: what follows it does not run, on any device,
   whoever waits is told, and the next launch runs well. */
static void failing_host_command_in_a_graph(void **state) {
    (void)state;
    static host_log log;
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4);
        hcq_queue *g = make_graph(), *q = make_queue(T.dev2, HCQ_COMPUTE);
        hcq_point raise = hcq_at(make_signal(T.dev2, 0), 1), done, after;
        hcq_submission s = submission(&g, 1);
        hcq_error_info error;
        memset(&log, 0, sizeof log);
        log.result = HCQ_ERROR_HOST;
        marks_reset();
        CHECK_OK(hcq_queue_label(g, "failing graph"));
        CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_host(g, host_record, &log), 1);
        CHECK_OK(hcq_queue_access(g, 1, a, HCQ_ARG_INOUT));
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(a, 8, 4), a, 4), 2);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), b, 3, 0), 3);
        CHECK_OK(hcq_queue_edge(g, 1, 3));
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.signals = &raise;
        s.signal_count = 1;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        CHECK_INDEX(hcq_queue_wait(q, done), 0);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(b, 8, 4), 9, 4), 1);
        CHECK_OK(hcq_queue_submit(q, T.dev2, &after));
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(raise, HCQ_ERROR_HOST);
        WAIT_RESULT(after, HCQ_ERROR_HOST);
        WAIT_OK(timeline_now(T.dev));  /* timelines only order */
        WAIT_OK(timeline_now(T.dev2));
        CHECK_U64(log.calls, 1);
        CHECK_U64(READ32(a, 0), 1);
        CHECK_U64(READ32(a, 2), 0);
        CHECK_U64(READ32(b, 2), 0);
        CHECK(!mark_at(3));
        CHECK_OK(hcq_device_error(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "failing graph") == 0);
        CHECK_U64(error.command, 1);
        CHECK_RESULT(test_poll(done), HCQ_ERROR_HOST); /* the point remembers */
        log.result = HCQ_OK;
        LAUNCH(g);
        CHECK_U64(log.calls, 2);
        CHECK_U64(READ32(a, 2), 1);
        CHECK(mark_at(3));
        CHECK_OK(hcq_device_error(T.dev2, &error)); /* may have told of it, too */
    }
}

/* The n-th launch fails, the others do not, however many are under way. */
static hcq_result host_fails_third(void *user) {
    return __atomic_add_fetch((uint32_t *)user, 1, __ATOMIC_ACQ_REL) == 3 ? HCQ_ERROR_HOST
                                                                          : HCQ_OK;
}

static void one_failing_launch_of_many(void **state) {
    (void)state;
    enum { LAUNCHES = 6 };
    static uint32_t calls;
    hcq_device_desc desc = test_desc();
    desc.slots = LAUNCHES;
    hcq_device *keep = T.dev, *device = test_open(0, &desc);
    T.dev = device;
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_words(device, 1), b = make_words(T.dev2, 1);
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(device), done[LAUNCHES];
        __atomic_store_n(&calls, 0, __ATOMIC_RELEASE);
        CHECK_INDEX(hcq_queue_host(g, host_fails_third, &calls), 0);
        CHECK_INDEX(record_add(g, make_add(device), a, 0, 1), 1);
        CHECK_INDEX(record_add(g, make_add(T.dev2), b, 0, 1), 2);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, device));
        }
        for (int i = 0; i < LAUNCHES; i++) {
            CHECK_OK(submit_behind(g, device, &gate, &done[i]));
        }
        open_gate(gate);
        for (int i = 0; i < LAUNCHES; i++) {
            WAIT_RESULT(done[i], i == 2 ? HCQ_ERROR_HOST : HCQ_OK);
        }
        CHECK_U64(READ32(a, 0), LAUNCHES - 1);
        CHECK_U64(READ32(b, 0), LAUNCHES - 1);
    }
    T.dev = keep;
    CHECK_OK(hcq_close(device));
}

/* What a launch waits for fails: nothing of it runs, and its signals fail. */
static void launch_whose_wait_fails(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* before or after the launch; bound */
        two_marks t = make_two_marks();
        hcq_point gate = make_gate(T.dev2), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        hcq_submission s = submission(&t.g, 1);
        s.waits = &gate;
        s.wait_count = 1;
        s.signals = &raise;
        s.signal_count = 1;
        marks_reset();
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        if (way % 2) {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        if (!(way % 2)) {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
        }
        WAIT_RESULT(done, HCQ_ERROR_NATIVE);
        WAIT_RESULT(raise, HCQ_ERROR_NATIVE);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        CHECK(!mark_at(0) && !mark_at(1));
        LAUNCH(t.g);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* One of two waits fails, the other is never raised: nobody waits for that. */
static void launch_with_one_failing_wait(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        two_marks t = make_two_marks();
        hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev2)}, done;
        hcq_submission s = submission(&t.g, 1);
        s.waits = gates;
        s.wait_count = 2;
        s.flags = way / 2 ? HCQ_OVERLAP : 0;
        marks_reset();
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        CHECK_OK(hcq_signal_fail(gates[way % 2].signal, HCQ_ERROR_NATIVE));
        WAIT_RESULT(done, HCQ_ERROR_NATIVE);
        CHECK(!mark_at(0) && !mark_at(1));
        hcq_queue_destroy(t.g);
    }
}

/* More waits than there are waiters at first, over several slices. */
static void launch_with_many_waits(void **state) {
    (void)state;
    enum { WAITS = 3000 };
    static hcq_point waits[WAITS];
    two_marks t = make_two_marks();
    hcq_point gate = make_gate(T.dev), done;
    hcq_submission s = submission(&t.g, 1);
    for (int i = 0; i < WAITS; i++) {
        waits[i] = gate;
    }
    s.waits = waits;
    s.wait_count = WAITS;
    for (int way = 0; way < 2; way++) {
        s.flags = way ? HCQ_OVERLAP : 0;
        marks_reset();
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        if (!way) {
            CHECK(!mark_at(0) && !mark_at(1));
            open_gate(gate);
        }
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
    }
}

static uint32_t chain_go;              /* lets chain_read end */
static uint32_t chain_reads, chain_wrong;

static hcq_result chain_write(void *user) {
    (void)user;
    if (__atomic_load_n(&chain_reads, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&chain_wrong, 1, __ATOMIC_RELEASE);
    }
    return HCQ_OK;
}

static hcq_result chain_read(void *user) {
    (void)user;
    __atomic_store_n(&chain_reads, 1, __ATOMIC_RELEASE);
    int let = word_until(&chain_go, 1);
    __atomic_store_n(&chain_reads, 0, __ATOMIC_RELEASE);
    return let ? HCQ_OK : HCQ_ERROR_HOST;
}

/* A launch that fails early still keeps the one after it behind the one before
   it: the third would write what the first one reads. */
static void failed_launch_keeps_the_order(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_buffer x = make_words(T.dev, 16), y = make_words(T.dev2, 16);
    hcq_point gate = make_gate(T.dev), done[3];
    CHECK_INDEX(hcq_queue_host(g, chain_write, NULL), 0);
    CHECK_OK(hcq_queue_access(g, 0, x, HCQ_ARG_OUT));
    CHECK_INDEX(hcq_queue_host(g, chain_read, NULL), 1);
    CHECK_OK(hcq_queue_access(g, 1, y, HCQ_ARG_OUT));
    CHECK_OK(hcq_queue_access(g, 1, x, HCQ_ARG_IN));
    hcq_submission s = submission(&g, 1);
    __atomic_store_n(&chain_go, 0, __ATOMIC_RELEASE);
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &done[0]));
    CHECK(word_until(&chain_reads, 1));
    s.waits = &gate;
    s.wait_count = 1;
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done[1]));
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &done[2]));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
    for (int i = 0; i < 20; i++) {     /* time to go wrong */
        (void)test_poll(done[2]);
        mock_sleep(1000000);
    }
    CHECK_RESULT(test_poll(done[2]), HCQ_TIMEOUT);
    __atomic_store_n(&chain_go, 1, __ATOMIC_RELEASE);
    WAIT_OK(done[0]);
    WAIT_RESULT(done[1], HCQ_ERROR_NATIVE);
    WAIT_OK(done[2]);
    CHECK(!__atomic_load_n(&chain_wrong, __ATOMIC_ACQUIRE));
}

/* What was stated of an argument's bytes goes along with the argument. */
static void stated_access_follows_updates(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 32), b = make_words(T.dev, 32), tiny = make_words(T.dev, 1);
    hcq_buffer in = hcq_input(g, 0, NULL, 64);
    hcq_point done;
    CHECK_INDEX(record_add(g, add, a, 0, 1), 0);
    CHECK_OK(hcq_queue_access(g, 0, hcq_view(a, 0, 64), HCQ_ARG_INOUT));
    CHECK_INDEX(hcq_queue_fill(g, in, 64, 3, 4), 1);
    CHECK_RESULT(launch_inputs(g, &a, 1, &done), HCQ_ERROR_ALIAS);
    hcq_buffer rest = hcq_view(a, 64, 64);
    CHECK_OK(launch_inputs(g, &rest, 1, &done)); /* not among the stated bytes */
    WAIT_OK(done);
    CHECK_RESULT(hcq_queue_update_arg(g, 0, 0, &tiny.address, 8), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_update_arg(g, 0, 0, &b.address, 8));
    CHECK_RESULT(launch_inputs(g, &b, 1, &done), HCQ_ERROR_ALIAS);
    rest = hcq_view(b, 64, 64);
    CHECK_OK(launch_inputs(g, &rest, 1, &done));
    WAIT_OK(done);
    CHECK_OK(launch_inputs(g, &a, 1, &done)); /* nobody names it any more */
    WAIT_OK(done);
    CHECK_U64(READ32(b, 0), 2);
}

/* ---- objects that go while a launch is under way ---- */

static void graph_destroyed_in_flight(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) { /* held or running; destroyed or reset; bound */
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4), e;
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(T.dev), done[2];
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_mark(g, make_mark(T.dev), a, 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), b, 1, 0), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        CHECK_INDEX(hcq_queue_empty(g, T.dev, 4096, 0, &e), 2);
        CHECK_INDEX(hcq_queue_fill(g, e, 4096, 5, 4), 3);
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(a, 8, 8), hcq_view(e, 4088, 8), 8), 4);
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.waits = &gate;
        s.wait_count = way % 2 ? 1 : 0;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[0]));
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[1]));
        if (way / 2 % 2) {
            hcq_queue_destroy(g);
        } else {
            CHECK_OK(hcq_queue_reset(g));
        }
        CHECK_RESULT(test_poll(done[0]), HCQ_TIMEOUT);
        open_gate(gate);
        hold_release();
        WAIT_OK(done[0]);
        WAIT_OK(done[1]);
        CHECK_U64(READ32(a, 0), 32);
        CHECK_U64(READ32(a, 3), 5);
        CHECK_U64(READ32(b, 0), 64);
    }
}

/* Programs, buffers and signals of a launch go before it runs. */
static void objects_go_before_a_launch_runs(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_program *add = make_add(T.dev), *mark = make_mark(T.dev2);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4), out = make_words(T.dev, 4);
        hcq_point gate = make_gate(T.dev), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        hcq_queue *g = make_graph();
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_add(g, add, a, 0, 7), 0);
        CHECK_INDEX(record_mark(g, mark, b, 0, 0), 1);
        CHECK_INDEX(hcq_queue_copy(g, out, a, 4), 2);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.waits = &gate;
        s.wait_count = 1;
        s.signals = &raise;
        s.signal_count = 1;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        hcq_program_destroy(add);
        hcq_program_destroy(mark);
        CHECK_OK(hcq_free(a));
        CHECK_OK(hcq_free(b));
        CHECK_OK(hcq_signal_destroy(raise.signal));
        CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_CLOSED); /* buffers are gone */
        open_gate(gate);
        WAIT_OK(done);
        CHECK_U64(READ32(out, 0), 7);
        CHECK(mark_at(0));
        hcq_queue_destroy(g);
    }
}

/* A device of a held launch is closed: its part is cancelled, with it the launch
   and what follows, and the other device goes on. */
static void device_of_a_launch_is_closed(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* the home or the other one; bound */
        hcq_device *device = test_open(0, NULL);
        hcq_device *home = way % 2 ? device : T.dev, *other = way % 2 ? T.dev : device;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_buffer word = make_words(T.dev, 1);
        hcq_point gate = make_gate(T.dev2), raise = hcq_at(make_signal(T.dev2, 0), 1), done, next;
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_mark(g, make_mark(home), make_words(home, 1), 0, 0), 0);
        CHECK_INDEX(record_mark(g, make_mark(other), make_words(other, 1), 1, 0), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(g, home));
        }
        s.waits = &gate;
        s.wait_count = 1;
        s.signals = &raise;
        s.signal_count = 1;
        CHECK_OK(hcq_submit(home, &s, 1, &done));
        CHECK_OK(hcq_close(device));
        open_gate(gate);
        hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        CHECK(result == HCQ_ERROR_CANCELLED || (way % 2 && result == HCQ_ERROR_CLOSED));
        WAIT_RESULT(raise, HCQ_ERROR_CANCELLED);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK(!mark_at(1) && !(way % 2 && mark_at(0)));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &next));
        WAIT_OK(next);
        if (!(way % 2)) {              /* the graph is still there, its device is not */
            CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_CLOSED);
            CHECK_RESULT(hcq_queue_bind(g, T.dev), HCQ_ERROR_CLOSED);
            CHECK_OK(hcq_queue_reset(g));
            CHECK_INDEX(hcq_queue_write(g, word, 6, 4), 0);
            LAUNCH(g);
            CHECK_U64(READ32(word, 0), 6);
        }
    }
}

/* Closed while the launch runs: what was handed over is waited for, the rest ends. */
static void device_of_a_running_launch_is_closed(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* whose part runs; the home or the other one */
        static blocked_call call;
        hcq_device *device = test_open(0, NULL);
        hcq_device *home = way / 2 ? device : T.dev, *other = way / 2 ? T.dev : device;
        hcq_device *first = way % 2 ? home : other, *second = way % 2 ? other : home;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_point done, next;
        marks_reset();
        memset(&call, 0, sizeof call);
        CHECK_INDEX(record_mark(g, make_mark(first), make_words(first, 1), 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(second), make_words(second, 1), 1, 0), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        CHECK_OK(hcq_queue_submit(g, home, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        call.device = device;
        pthread_create(&call.thread, NULL, blocked_close, &call);
        blocked_until(&call);
        hold_release();
        pthread_join(call.thread, NULL);
        CHECK_OK(call.result);
        CHECK(mark_until(0));          /* it had begun */
        hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        CHECK(result == HCQ_OK ? mark_at(1) != 0
                               : result == HCQ_ERROR_CANCELLED || result == HCQ_ERROR_CLOSED);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &next));
        WAIT_OK(next);
    }
}

/* A device goes and another one comes, at the same place maybe: the graph knows
   that it is not the same, whatever it has of the first. */
static void graph_outlives_a_device(void **state) {
    (void)state;
    for (int way = 0; way < 10; way++) { /* by what it names it; planned before or not */
        hcq_device *device = test_open(0, NULL), *again;
        hcq_queue *g = make_graph();
        hcq_buffer word = make_words(T.dev, 1), theirs = make_words(device, 1), e, in;
        hcq_buffer input = make_words(device, 1);
        CHECK_INDEX(hcq_queue_write(g, word, 1, 4), 0);
        switch (way % 5) {
        case 0:
            CHECK_INDEX(hcq_queue_exec(g, make_nothing(device), NULL, 0, hcq_dim(1, 1, 1),
                                       hcq_dim(1, 1, 1)), 1);
            break;
        case 1: CHECK_INDEX(hcq_queue_empty(g, device, 64, 0, &e), 1); break;
        case 2: CHECK_INDEX(hcq_queue_fill(g, theirs, 4, 2, 4), 1); break;
        case 3:
            CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(0)), 1);
            CHECK_OK(hcq_queue_access(g, 1, theirs, HCQ_ARG_OUT));
            break;
        default:
            in = hcq_input(g, 0, device, 4);
            CHECK_INDEX(hcq_queue_write(g, in, 2, 4), 1);
            break;
        }
        if (way / 5) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
            CHECK_OK(launch_inputs(g, &input, 1, NULL));
        }
        CHECK_OK(hcq_close(device));
        again = test_open(0, NULL);
        input = make_words(again, 1);
        for (int i = 0; i < 2; i++) {
            char text[16];
            CHECK_RESULT(launch_inputs(g, &input, 1, NULL), HCQ_ERROR_CLOSED);
            CHECK_RESULT(hcq_queue_bind(g, T.dev), HCQ_ERROR_CLOSED);
            CHECK_U64(hcq_queue_print(g, 0, text, sizeof text), 0);
        }
        CHECK_OK(hcq_queue_reset(g));
        CHECK_INDEX(hcq_queue_write(g, word, 2, 4), 0);
        LAUNCH(g);
        CHECK_U64(READ32(word, 0), 2);
        CHECK_OK(hcq_close(again));
        hcq_queue_destroy(g);
    }
}

#define GRAPH_LAUNCH_TESTS \
    TEST(launches_among_submissions), TEST(launch_in_a_callback), \
    TEST(launch_follows_earlier_work), TEST(launch_follows_running_work), \
    TEST(later_work_follows_a_launch), TEST(launch_with_waits_and_signals), \
    TEST(launch_waits_for_later_work), TEST(launches_in_a_chain), \
    TEST(overlap_passes_other_work), TEST(launch_while_another_is_under_way), \
    TEST(failing_host_command_in_a_graph), TEST(one_failing_launch_of_many), \
    TEST(launch_whose_wait_fails), TEST(launch_with_one_failing_wait), \
    TEST(launch_with_many_waits), TEST(failed_launch_keeps_the_order), \
    TEST(stated_access_follows_updates), TEST(graph_destroyed_in_flight), \
    TEST(objects_go_before_a_launch_runs), TEST(device_of_a_launch_is_closed), \
    TEST(device_of_a_running_launch_is_closed), TEST(graph_outlives_a_device)
