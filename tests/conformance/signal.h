/* signal.h - a signal and its values: what it shows, who may raise it and how far,
   promises, resets, timestamps, references, its end. Who waits for it is in waits.h,
   how it fails in failure.h. Part of conformance.c. */

/* ---- values ---- */

/* From the host and by a queue, beyond 32 bits, up to the largest one. */
TEST(signal_values) {
    static const uint64_t values[] = {0, 1, 2, 41, 0xffffffffull, 0x100000000ull, 0x100000007ull,
                                      INT64_MAX - 1, INT64_MAX};
    enum { VALUES = sizeof values / sizeof values[0] };
    hcq_signal host = make_signal(T.dev, 0), queued = make_signal(T.dev, 0), s;
    for (size_t i = 0; i < VALUES; i++) {
        const hcq_point made = hcq_at(make_signal(T.dev, values[i]), values[i]);
        const hcq_point set = hcq_at(host, values[i]), raise = hcq_at(queued, values[i]);
        CHECK_OK(test_poll(made));
        CHECK(i + 1 == VALUES || test_poll(hcq_at(made.signal, values[i + 1])) == HCQ_TIMEOUT);
        CHECK_VALUE(made.signal, HCQ_OK, values[i]);
        CHECK_RESULT(test_poll(set), i ? HCQ_TIMEOUT : HCQ_OK);
        CHECK_RESULT(hcq_signal_set(host, values[i]), i ? HCQ_OK : HCQ_ERROR_INVALID);
        CHECK_RESULT(hcq_signal_set(host, values[i]), HCQ_ERROR_INVALID); /* must rise */
        CHECK_OK(test_poll(set));
        CHECK_RESULT(test_poll(raise), i ? HCQ_TIMEOUT : HCQ_OK);
        CHECK_OK(i ? submit_lists(T.dev, NULL, &raise, 0, NULL) : HCQ_OK);
        WAIT_OK(raise);
        CHECK_VALUE(queued, HCQ_OK, values[i]);
    }
    CHECK_RESULT(hcq_signal_set(host, (uint64_t)INT64_MAX + 1), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_signal_create(T.dev, (uint64_t)INT64_MAX + 1, &s), HCQ_ERROR_INVALID);
}

/* Of producers that nothing orders the larger one stands, the late one does nothing. */
TEST(the_larger_raise_stands) {
    hcq_signal s = make_signal(T.dev, 6);
    hcq_point high = hcq_at(s, 20), low = hcq_at(s, 10), gate = make_gate(T.dev), d1, d2;
    CHECK_OK(submit_lists(T.dev, &gate, &low, HCQ_UNORDERED, &d1));
    CHECK_OK(submit_lists(T.dev, NULL, &high, HCQ_UNORDERED, &d2));
    WAIT_OK(high);
    log_clear();
    GATE_END(gate, d1);
    WAIT_OK(d2);
    CHECK_VALUE(s, HCQ_OK, 20);
    CHECK(log_has("10"));              /* the late one is logged */
}

/* A value that somebody in flight is going to raise is refused, whether that one is
   held, runs, or is over; a smaller one is not. A promise that broke is none any more,
   nor is one of a submission that was refused. */
TEST(a_repeated_value_gets_one_answer) {
    enum { HELD, RUNNING, OVER, BROKEN, WAYS };
    for (uint32_t i = 0; i < 2 * WAYS; i++) {
        const uint32_t recorded = i / WAYS, way = i % WAYS;
        hcq_signal s = make_signal(T.dev, 0), other = make_signal(T.dev, 0);
        hcq_point five = hcq_at(s, 5), three = hcq_at(s, 3), gate = make_gate(T.dev), first;
        const hcq_point falling[2] = {five, hcq_at(s, 4)};
        hcq_queue *q = make_queue(dev2(), HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_signal(q, recorded ? five : hcq_at(other, 1)), 0);
        /* What the recording raises it to, or a lower value behind it. */
        CHECK_RESULT(SUBMIT(dev2(), q, NULL, .signals = falling,
                            .signal_count = recorded ? 1 : 2), HCQ_ERROR_INVALID);
        if (way == RUNNING) {
            first = hold_device(T.dev, &five);
        } else {
            CHECK_OK(submit_lists(T.dev, way == OVER ? NULL : &gate, &five, HCQ_UNORDERED, &first));
        }
        if (way == OVER) {
            WAIT_OK(first);
        }
        CHECK_SAYS(submit_queue(q, dev2(), NULL, recorded ? NULL : &five, 0, NULL),
                   HCQ_ERROR_INVALID, recorded ? "command 0" : "signals: number 0");
        CHECK(way == OVER || log_has("submission #"));
        if (way == HELD) {             /* legal in any order of submission */
            CHECK_OK(submit_lists(dev2(), NULL, &three, 0, NULL));
            WAIT_OK(three);
        }
        hold_release();
        if (way == BROKEN) {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE, NULL));
            WAIT_RESULT(first, HCQ_ERROR_NATIVE);
        } else {
            GATE_END(gate, five);
            CHECK_RESULT(submit_lists(dev2(), NULL, &five, 0, NULL), HCQ_ERROR_INVALID);
        }
        synchronize_both();
        CHECK_OK(hcq_signal_reset(s, 0)); /* which forgets it */
        CHECK_OK(submit_lists(dev2(), NULL, &five, 0, &first));
        WAIT_OK(first);
        WAIT_OK(five);
    }
}

/* A signal that lanes raise in turns: lanes are looked at one after the other, and a raise that
   is met behind a later one's is none that comes too late. */
TEST(raised_by_lanes_in_turns) {
    enum { LANES = 12, LINKS = 20 * LANES };
    hcq_device *device = OPEN_WITH(0, .compute_lanes = LANES);
    hcq_buffer word = make_words(device, 1);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point last = hcq_at(s, LINKS), first = hcq_at(s, 1);
    CHECK_INDEX(record_word(q, word, 7, 4), 0);
    log_clear();
    first = hold_device(device, &first);
    for (uint64_t i = 1; i < LINKS; i++) {
        hcq_point wait = hcq_at(s, i), raise = hcq_at(s, i + 1);
        CHECK_OK(SUBMIT(device, q, NULL, .affinity = i % LANES, .waits = &wait, .wait_count = 1,
                        .signals = &raise, .signal_count = 1));
    }
    hold_release();
    test_sleep_ms(50);                 /* who has native waits is over before anybody looks */
    WAIT_OK(last);
    WAIT_OK(first);
    CHECK(!log_has("a late signal"));
    CHECK_OK(hcq_close(device));
}

/* ---- resets and failures by the host ---- */

/* Down is legal, too, and forgets what was raised. */
TEST(signal_reset) {
    hcq_signal s = make_signal(T.dev, 50);
    hcq_point raise = hcq_at(s, 70);
    CHECK_OK(hcq_signal_reset(s, 10));
    CHECK_VALUE(s, HCQ_OK, 10);
    for (int i = 0; i < 2; i++) {
        CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT); /* an old 70 does not count */
        CHECK_OK(submit_lists(T.dev, NULL, &raise, 0, NULL));
        WAIT_OK(raise);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_signal_reset(s, 0));
    }
    CHECK_RESULT(hcq_signal_reset(s, (uint64_t)INT64_MAX + 1), HCQ_ERROR_INVALID);
    CHECK_VALUE(s, HCQ_OK, 0);
}

/* What somebody waits for, or is going to raise, stays: also what a held recording waits for
   behind its first wait, and what waits behind a held one of its lane; no other signal. The
   call for one queue takes flags as the one for many does: without order it passes them. */
TEST(reset_beside_pending_work) {
    hcq_signal gate = make_signal(T.dev, 0), later = make_signal(T.dev, 0);
    hcq_signal raised = make_signal(T.dev, 0), behind = make_signal(T.dev, 1);
    const hcq_signal busy[4] = {gate, later, raised, behind};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *next = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *passes = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point raise = hcq_at(raised, 1), done;
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    CHECK_INDEX(record_word(q, a, 1, 4), 1);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(later, 1)), 2);
    CHECK_INDEX(record_word(q, a, 2, 4), 3);
    CHECK_INDEX(hcq_queue_wait(next, hcq_at(behind, 1)), 0);
    CHECK_OK(submit_queue(q, T.dev, NULL, &raise, 0, NULL));
    CHECK_OK(hcq_queue_submit_with(passes, T.dev, NULL, 0, HCQ_UNORDERED, &done));
    WAIT_OK(done);                     /* what is over has a number between theirs */
    CHECK_OK(hcq_queue_submit(next, T.dev, &done));
    for (int i = 0; i < 4; i++) {
        CHECK_RESULT(hcq_signal_reset(busy[i], 0), HCQ_ERROR_BUSY);
    }
    CHECK_OK(hcq_signal_reset(make_signal(T.dev, 0), 7));
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_signal_set(later, 1));
    WAIT_OK(done);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(hcq_signal_reset(busy[i], 7));
    }
}

TEST(signal_failure) {
    hcq_signal s = make_signal(T.dev, 5);
    CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST, NULL));
    hcq_signal_fail(s, HCQ_ERROR_LOST, NULL); /* the first one stays */
    CHECK_OK(test_poll(hcq_at(s, 5)));  /* reached is reached */
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_ERROR_HOST);
    CHECK_VALUE(s, HCQ_ERROR_HOST, 5);
    CHECK_RESULT(hcq_signal_set(s, 9), HCQ_ERROR_HOST);
    CHECK_RESULT(test_poll(hcq_at(s, 9)), HCQ_ERROR_HOST);
    CHECK_OK(hcq_signal_reset(s, 5));  /* forgets the failure */
    CHECK_VALUE(s, HCQ_OK, 5);
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(s, 6));
    CHECK_OK(test_poll(hcq_at(s, 6)));
}

/* ---- timestamps ---- */

/* Submits a queue of stamps and waits: they lie in its submission's time, in order, and
   after `last`. */
static uint64_t run_stamps(hcq_queue *q, const hcq_signal *s, uint64_t last) {
    uint64_t stamps[2];
    const uint64_t before = hcq_now_ns();
    RUN_OK(q, T.dev);
    const uint64_t after = hcq_now_ns();
    hcq_clock clock = CLOCK_OF(T.dev);
    for (int k = 0; k < 2; k++) {
        CHECK_OK(hcq_signal_timestamp(s[k], &stamps[k]));
        uint64_t host = hcq_clock_to_host(&clock, stamps[k]);
        CHECK(host + clock.error_ns >= before && host <= after + clock.error_ns);
    }
    CHECK(last <= stamps[0] && stamps[0] <= stamps[1]);
    return stamps[1];
}

/* The fill and the write behind it, each under its own index. */
static void check_profiled_stamps(uint32_t runs) {
    hcq_profile_event events[256];     /* what reads use is in it, too */
    uint32_t count = 0, fills = 0, writes = 0;
    CHECK_OK(hcq_profile_stop(T.dev));
    CHECK_OK(hcq_profile_events(T.dev, events, 256, &count, NULL));
    for (uint32_t i = 0; i < count && i < 256; i++) {
        fills += events[i].kind == HCQ_COMMAND_FILL && events[i].command == 1;
        writes += events[i].kind == HCQ_COMMAND_WRITE && events[i].command == 4;
    }
    CHECK(fills == runs && writes == runs);
}

/* Two stamps around work are in order, in their submission's time, and no values, with
   a profile, too; a reset forgets them, and so does a place that was used before. */
TEST(signal_timestamps) {
    const int profiles = has_feature(HCQ_FEATURE_PROFILING);
    for (int kind = HCQ_COMPUTE; kind <= HCQ_COPY; kind++) {
        hcq_signal s[2] = {make_signal(T.dev, 3), make_signal(T.dev, 3)};
        hcq_signal t = make_signal(T.dev, 0);
        hcq_queue *q = make_queue(T.dev, (hcq_queue_kind)kind);
        hcq_buffer buffer = make_words(T.dev, 65536);
        uint64_t last = 0, stamp = 77;
        CHECK_OK(hcq_signal_timestamp(s[0], &stamp));
        CHECK_U64(stamp, 0);
        CHECK_INDEX(hcq_queue_timestamp(q, s[0]), 0);
        CHECK_INDEX(hcq_queue_fill(q, buffer, 262144, 5, 4), 1);
        CHECK_INDEX(hcq_queue_timestamp(q, s[1]), 2);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(t, 1)), 3);
        CHECK_INDEX(record_word(q, buffer, 4711, 4), 4);
        for (uint64_t i = 1; i <= 20; i++) {
            CHECK_OK(i == 11 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
            CHECK_OK(i == 6 && profiles ? hcq_profile_start(T.dev, NULL) : HCQ_OK);
            CHECK_OK(hcq_queue_update_signal(q, 3, NULL, i));
            last = run_stamps(q, s, last);
            CHECK_OK(test_poll(hcq_at(t, i)));
            CHECK_U64(READ32(buffer, 0), 4711);
        }
        if (profiles) {
            check_profiled_stamps(15);
        }
        CHECK_VALUE(s[0], HCQ_OK, 3);  /* never touched */
        CHECK_OK(hcq_signal_reset(s[0], 3));
        CHECK_OK(hcq_signal_timestamp(s[0], &stamp));
        CHECK_U64(stamp, 0);
        CHECK_OK(hcq_signal_destroy(s[1]));
        for (int i = 0; i < 40; i++) {
            CHECK_OK(hcq_signal_timestamp(make_signal(T.dev, 0), &stamp));
            CHECK_U64(stamp, 0);
        }
    }
}

/* What was recorded before is not in what is recorded now, though its places are. A
   recording with a timestamp may be pending as often as one without. */
TEST(fewer_timestamps_than_before) {
    enum { STAMPS = 3, TIMES = 30 };
    for (int kind = HCQ_COMPUTE; kind <= HCQ_COPY; kind++) {
        hcq_signal s[STAMPS];
        hcq_point gate = make_gate(T.dev), done[TIMES];
        hcq_queue *q = make_queue(T.dev, (hcq_queue_kind)kind);
        uint64_t was = 0, stamp = 0;
        for (uint32_t i = 0; i < STAMPS; i++) { s[i] = make_signal(T.dev, 0); }
        for (uint32_t round = 0; round < 8; round++) { /* each of its versions: many, and one */
            const uint32_t count = round < 4 ? STAMPS : 1;
            CHECK_OK(hcq_queue_reset(q));
            for (uint32_t i = 0; i < count; i++) {
                CHECK_INDEX(hcq_queue_timestamp(q, s[i]), (int32_t)i);
            }
            CHECK_OK(round % 2 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
            RUN_OK(q, T.dev);
            CHECK_OK(hcq_signal_timestamp(s[STAMPS - 1], &stamp));
            CHECK(stamp != 0 && (round < 4 || stamp == was));
            was = stamp;
        }
        CHECK_OK(hcq_signal_timestamp(s[0], &was));
        for (uint32_t i = 0; i < TIMES; i++) {
            CHECK_OK(submit_queue(q, T.dev, &gate, NULL, i & 1 ? HCQ_UNORDERED : 0, &done[i]));
        }
        open_gate(gate);
        CHECK_OK(hcq_wait(done, TIMES, HCQ_ALL, BOUND));
        CHECK_OK(hcq_signal_timestamp(s[0], &stamp));
        CHECK(stamp > was);
    }
}

/* ---- the end of a signal ---- */

/* What its pending raises cannot reach ends at once; what they can waits for them. */
TEST(destroyed_ends_what_cannot_come) {
    static notice n[2];
    hcq_signal t = make_signal(T.dev, 0);
    hcq_point gate = make_gate(dev2()), low = hcq_at(t, 1), high = hcq_at(t, 2), done[3];
    CHECK_OK(submit_lists(dev2(), &gate, &low, HCQ_UNORDERED, &done[2]));
    CHECK_OK(submit_lists(T.dev, &low, NULL, HCQ_UNORDERED, &done[0]));
    CHECK_OK(submit_lists(T.dev, &high, NULL, HCQ_UNORDERED, &done[1]));
    NOTIFY_AT(&n[0], low);
    NOTIFY_AT(&n[1], high);
    CHECK_OK(hcq_signal_destroy(t));
    WAIT_RESULT(done[1], HCQ_ERROR_CANCELLED);
    NOTIFIED(&n[1], HCQ_ERROR_CANCELLED);
    CHECK_RESULT(test_poll(done[0]), HCQ_TIMEOUT);
    SILENT(&n[0]);
    SAYS(explain(done[0]), "destroyed"); /* nobody has to look for who might set it */
    GATE_END(gate, done[0]);
    WAIT_OK(done[2]);
    NOTIFIED(&n[0], HCQ_OK);
}

/* The raises that are pending wait for those that cannot come: all end. */
TEST(destroyed_in_a_ring) {
    for (int order = 0; order < 2; order++) {
        hcq_signal g = make_signal(T.dev, 0), t = make_signal(dev2(), 0);
        hcq_point open = hcq_at(g, 1), low = hcq_at(t, 1), high = hcq_at(t, 2), a, b;
        CHECK_OK(submit_lists(T.dev, &open, &low, HCQ_UNORDERED, &a));
        CHECK_OK(submit_lists(dev2(), &high, &open, HCQ_UNORDERED, &b));
        CHECK_OK(hcq_signal_destroy(order ? t : g));
        CHECK_OK(hcq_signal_destroy(order ? g : t));
        WAIT_RESULT(a, HCQ_ERROR_CANCELLED);
        WAIT_RESULT(b, HCQ_ERROR_CANCELLED);
    }
}

TEST(signal_references) {
    static notice n;
    hcq_signal s = make_signal(T.dev, 3);
    hcq_point wait = hcq_at(s, 9), above = hcq_at(s, 20), done;
    CHECK_OK(submit_lists(dev2(), NULL, &above, 0, &done));
    CHECK_OK(hcq_device_synchronize(dev2(), BOUND));
    CHECK_OK(hcq_signal_reset(s, 3));  /* a raise before that is no promise any more */
    CHECK_OK(hcq_signal_retain(s));
    CHECK_OK(submit_lists(dev2(), &wait, NULL, 0, &done));
    NOTIFY_AT(&n, wait);
    CHECK_OK(hcq_signal_release(s));
    CHECK_VALUE(s, HCQ_OK, 3);         /* one is left */
    SILENT(&n);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_release(s));   /* the last one destroys: waits end */
    NOTIFIED(&n, HCQ_ERROR_CANCELLED);
    WAIT_RESULT(done, HCQ_ERROR_CANCELLED);
    CHECK_RESULT(hcq_signal_release(s), HCQ_ERROR_CLOSED);
    s = make_signal(T.dev, 0);         /* destroy means all references */
    CHECK_OK(hcq_signal_retain(s));
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_RESULT(hcq_signal_set(s, 1), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_release(s), HCQ_ERROR_CLOSED);
}
