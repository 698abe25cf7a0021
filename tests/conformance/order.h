/* order.h - lanes beside each other, waits for a device, limits, and what goes before a
   recording is submitted or runs. What runs after what, see random/answers.c. Part of
   conformance.c. */

/* ---- between lanes ---- */

/* Each queue waits for the next one in the middle of its recording, so that they
   get through only if no two share a lane. */
TEST(any_lane_spreads_the_queues_of_one) {
    enum { LANES = 4 };
    hcq_device *device = OPEN_WITH(0, .compute_lanes = LANES);
    CHECK_U64(test_info(device).compute_lanes, LANES);
    hcq_buffer words = make_words(device, LANES);
    hcq_signal s[LANES + 1];
    hcq_queue *q[LANES];
    hcq_point done;
    for (uint32_t i = 0; i < LANES; i++) {
        s[i] = make_signal(device, 0);
        q[i] = make_queue(device, HCQ_COMPUTE);
    }
    s[LANES] = make_signal(device, 1);
    for (uint32_t i = 0; i < LANES; i++) {
        CHECK_INDEX(hcq_queue_wait(q[i], hcq_at(s[i + 1], 1)), 0);
        CHECK_INDEX(record_word(q[i], hcq_view(words, 4 * i, 4), i + 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(q[i], hcq_at(s[i], 1)), 2);
    }
    hcq_submission sub = {.queues = q, .queue_count = LANES, .affinity = HCQ_ANY_LANE};
    CHECK_OK(hcq_submit(device, &sub, 1, &done));
    WAIT_OK(done);
    for (uint32_t i = 0; i < LANES; i++) {
        CHECK_U64(READ32(words, i), i + 1);
    }
    CHECK_OK(hcq_close(device));
}

/* Finished work is no load, also if nobody has looked at its lane since; any other number
   counts round. Lane 2 of four is the only one that nothing holds. */
TEST(any_lane_is_the_least_busy) {
    static const uint64_t held[] = {0, 8, 5, 3};
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 4);
    const hcq_point gate = make_gate(device);
    hcq_point done;
    hcq_queue *q[6];
    for (uint32_t i = 0; i < 6; i++) {
        q[i] = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(record_sleep(q[i], 1000000), 0); /* so that its end finds who waits */
    }
    for (uint32_t i = 0; i < 6 + 4; i++) {
        const uint64_t lane = i < 4 ? held[i] : i == 4 ? 7 : i == 5 ? 6 : HCQ_ANY_LANE;
        CHECK_OK(SUBMIT(device, q[i < 5 ? i : 5], &done, .affinity = lane, .waits = &gate,
                        .wait_count = i < 4));
        if (i == 4) {
            CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
        } else if (i > 4) {
            WAIT_OK(done);
        }
    }
    open_gate(gate);
    CHECK_OK(hcq_close(device));
}

/* The copy lane gets on while a kernel of the compute lane runs. */
TEST(copy_lane_overlaps_compute) {
    SKIP_IF(T.variant->one_fifo, "one FIFO under all lanes");
    hcq_buffer source = make_filled(T.dev, 64, 7), copied = make_words(T.dev, 64);
    hcq_queue *copy = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(copy, copied, source, 256), 0);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    hcq_point held = hold_device(T.dev, NULL);
    RUN_OK(copy, T.dev);
    CHECK(holds());
    hold_release();
    WAIT_OK(held);
    check_same(__FILE__, __LINE__, copied, source);
}

/* ---- hold-back ---- */

/* wait_device: everything submitted there before this submission. */
TEST(wait_device) {
    hcq_queue *q = make_queue(dev2(), HCQ_COMPUTE);
    uint64_t prefix = 0;
    CHECK_INDEX(hcq_queue_wait_device(q, T.dev), 0);
    for (int round = 0; round < 2; round++) { /* the recording is used again */
        hcq_point gate = make_gate(T.dev), never = make_gate(T.dev), p1, p2, p3, watching, later;
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &p1));
        CHECK_OK(submit_lists(T.dev, &gate, NULL, HCQ_UNORDERED, &p2));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, HCQ_UNORDERED, &p3));
        CHECK_OK(hcq_queue_submit(q, dev2(), &watching));
        WAIT_OK(p1);
        WAIT_OK(p3);
        CHECK_RESULT(hcq_wait(&watching, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_value(hcq_device_timeline(T.dev), &prefix));
        CHECK(prefix < p2.value);      /* a prefix, not a count */
        CHECK_OK(submit_lists(T.dev, &never, NULL, HCQ_UNORDERED, &later));
        GATE_END(gate, p2);
        WAIT_OK(watching);             /* later work is not waited for */
        CHECK_RESULT(test_poll(later), HCQ_TIMEOUT);
        GATE_END(never, later);
        synchronize_both();
    }
}

/* A limit in the description refuses more, and nothing is lost. */
TEST(parked_limit_refuses) {
    hcq_device_desc desc = test_desc();
    desc.held_pool = 16;
    desc.held_limit = 100;
    test_forced.counter_limit = 16;
    hcq_device *device = test_open(0, &desc);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_buffer a = make_words(device, 4);
    hcq_point gate = make_gate(device), last = {{0}, 0};
    CHECK_INDEX(hcq_queue_wait(q, gate), 0);
    CHECK_INDEX(record_add(q, make_add(device), a, 0, 1), 1);
    CHECK_OK(hcq_queue_bind(q, device));
    for (int i = 0; i < 100; i++) {
        CHECK_OK(hcq_queue_submit(q, device, &last));
    }
    uint64_t number = hcq_device_timeline_value(device);
    CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
    CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
    CHECK_U64(hcq_device_timeline_value(device), number); /* no number was used up */
    GATE_END(gate, last);
    RUN_OK(q, device);
    CHECK_U64(READ32(a, 0), 101);
    CHECK(test_query(device, HCQ_QUERY_COUNTER_SWAPS) >= 101 / 16);
    CHECK_OK(hcq_close(device));
}

typedef struct chain {
    hcq_signal signal;
    hcq_point end;
    int fails;
    hcq_result result;
} chain;

static void *chain_run(void *user) {
    chain *c = (chain *)user;
    c->result = c->fails ? hcq_signal_fail(c->signal, HCQ_ERROR_HOST, NULL)
                         : hcq_signal_set(c->signal, 1);
    if (c->result == HCQ_OK) {
        c->result = hcq_wait(&c->end, 1, HCQ_ALL, BOUND);
    }
    return NULL;
}

/* Each release brings about the next one, by a raise or by a failure. */
TEST(chain_on_a_small_stack) {
    enum { LINKS = 10000 };
    for (int fails = 0; fails < 2; fails++) {
        hcq_signal t = make_signal(T.dev, 0);
        chain c = {t, hcq_at(t, LINKS + 1), fails, HCQ_OK};
        for (uint64_t i = 1; i <= LINKS; i++) {
            const uint64_t at = fails ? i : LINKS + 1 - i; /* the last one first */
            hcq_point wait = hcq_at(t, at), raise = hcq_at(t, at + 1);
            CHECK_OK(submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, NULL));
        }
        on_a_small_stack(chain_run, &c);
        CHECK_RESULT(c.result, fails ? HCQ_ERROR_HOST : HCQ_OK);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
    }
}

/* ---- points ---- */

/* Where nothing is submitted there is none; of two submissions the first stands; the point
   may be among the waits. */
TEST(the_point_is_the_last_one_submitted) {
    hcq_submission s[2] = {submission(NULL, 0), submission(NULL, 0)};
    hcq_point first, point;
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &first));
    for (int i = 0; i < 2; i++) {
        point = first;
        CHECK_OK(i ? hcq_submit_and_wait(T.dev, NULL, 0, BOUND, &point)
                   : hcq_submit(T.dev, NULL, 0, &point));
        CHECK(point.signal.id == 0 && point.value == 0);
        CHECK_RESULT(test_poll(point), HCQ_ERROR_INVALID);
    }
    point = first;
    s[0].waits = &point;
    s[0].wait_count = 1;
    s[1].wait_count = 1;               /* of none */
    CHECK_RESULT(hcq_submit(T.dev, s, 2, &point), HCQ_ERROR_INVALID);
    CHECK(point.signal.id == first.signal.id && point.value == first.value + 1);
    WAIT_OK(point);
    CHECK_OK(hcq_submit(T.dev, s, 1, &point));
    WAIT_OK(point);
}

/* Sixteen queues are waited for, each of them; core/misuse.c has one more. */
TEST(sixteen_queues_at_most) {
    enum { N = 16 };
    hcq_queue *q[N];
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, N);
    hcq_point done;
    for (uint32_t i = 0; i < N; i++) {
        q[i] = make_queue(T.dev, i % 2 ? HCQ_COPY : HCQ_COMPUTE);
        CHECK_INDEX(i % 2 ? record_word(q[i], hcq_view(a, 4 * i, 4), 1, 4)
                          : record_add(q[i], add, a, i, 1), 0);
    }
    const hcq_submission sub = submission(q, N);
    for (uint32_t round = 0; round < 4; round++) {
        const uint64_t first = hcq_device_timeline_value(T.dev);
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
        CHECK_U64(done.value, first + N); /* a number each, and one for the end */
        CHECK_U64(hcq_device_timeline_value(T.dev), first + N + 1);
        WAIT_OK(done);
        for (uint32_t i = 0; i < N; i++) {
            CHECK_U64(READ32(a, i), i % 2 ? 1 : round + 1);
        }
    }
}

/* ---- what goes between record and submit, and after it ---- */

/* What was checked once is checked again when it may have changed: refused, never a
   crash. Recordings keep their programs. */
TEST(stale_checks) {
    enum { APPENDED, FILLS, ADDS, RECORDINGS };
    hcq_queue *late[RECORDINGS], *fills = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *p = make_queue(T.dev, HCQ_COMPUTE), *c = make_queue(T.dev, HCQ_COPY);
    hcq_buffer gone = make_words(T.dev, 16), little = make_words(T.dev, 16);
    hcq_program *add = make_add(T.dev);
    for (int i = 0; i < RECORDINGS; i++) {
        late[i] = make_queue(T.dev, HCQ_COMPUTE);
    }
    CHECK_INDEX(hcq_queue_fill(fills, gone, 64, 1, 4), 0);
    CHECK_INDEX(hcq_queue_fill(late[FILLS], gone, 64, 1, 4), 0);
    CHECK_INDEX(record_add(late[ADDS], add, gone, 0, 1), 0);
    CHECK_INDEX(record_add(p, add, little, 0, 1), 0);
    CHECK_OK(hcq_queue_bind(late[FILLS], T.dev));
    CHECK_OK(hcq_free(gone));
    hcq_program_destroy(add);
    CHECK_INDEX(hcq_queue_append(late[APPENDED], fills), 0);
    for (int i = 0; i < RECORDINGS; i++) {
        CHECK_RESULT(hcq_queue_submit(late[i], T.dev, NULL), HCQ_ERROR_CLOSED);
    }
    CHECK_OK(hcq_queue_submit(p, T.dev, NULL));
    CHECK_U64(READ32(little, 0), 1);
    uint64_t size = 4096;
    CHECK_INDEX(hcq_queue_copy(c, make_words(T.dev, 1024), make_words(T.dev, 1024), size), 0);
    CHECK_OK(hcq_queue_variable(c, 0, HCQ_PART_SIZE, 0, 0));
    CHECK_OK(hcq_queue_update_copy(c, 0, &little, NULL, 64));
    CHECK_RESULT(submit_variables(c, &size, 1, NULL), HCQ_ERROR_INVALID);
    size = 64;
    CHECK_OK(submit_variables(c, &size, 1, NULL));
    CHECK_INDEX(hcq_queue_append(c, p), HCQ_ERROR_INVALID); /* an exec on a copy queue */
}

/* Whatever a submission, or a launch, needs may go once it is submitted, held or not. */
TEST(destroyed_after_submit) {
    for (int way = 0; way < 12; way++) {
        const int held = way & 1, bound = way & 2, graph = way < 4, unordered = way & 4;
        hcq_signal s = make_signal(T.dev, 0), stamp = make_signal(T.dev, 0);
        hcq_signal waited = make_signal(T.dev, 1);
        hcq_point gate = make_gate(T.dev), raise = hcq_at(s, 1), done;
        hcq_buffer in = make_words(T.dev, 64), out = make_words(T.dev, 64);
        hcq_buffer kept = make_words(T.dev, 4), far = make_words(dev2(), 4);
        hcq_program *add = make_add(T.dev), *add2 = make_add(dev2());
        hcq_queue *q = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COMPUTE);
        custom_payload p = {kept.address, 55, 1234};
        CHECK(graph || hcq_queue_wait(q, hcq_at(waited, 1)) >= 0);
        CHECK(hcq_queue_timestamp(q, stamp) >= 0);
        CHECK(record_add(q, add, in, 0, 7) >= 0);
        CHECK(hcq_queue_copy(q, out, in, 256) >= 0);
        CHECK(hcq_queue_custom(q, &custom_type, &p) >= 0);
        CHECK(hcq_queue_copy(q, hcq_view(kept, 4, 4), out, 4) >= 0);
        CHECK(!graph || record_add(q, add2, far, 0, 1) >= 0);
        CHECK(graph || hcq_queue_signal(q, raise) >= 0);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(submit_queue(q, T.dev, held ? &gate : NULL, graph ? &raise : NULL,
                              unordered && !graph ? HCQ_UNORDERED : 0, &done));
        hcq_program_destroy(add);
        hcq_program_destroy(add2);
        CHECK_OK(hcq_free(in));
        CHECK_OK(hcq_free(out));
        CHECK_OK(hcq_free(far));
        CHECK_OK(hcq_signal_destroy(s));
        CHECK_OK(hcq_signal_destroy(stamp));
        CHECK_OK(hcq_signal_destroy(waited));
        CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_CLOSED);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_trim(T.dev, 0));
        CHECK(!held || test_poll(done) == HCQ_TIMEOUT);
        open_gate(gate);
        CHECK_OK(hcq_signal_destroy(gate.signal)); /* its set counts */
        WAIT_OK(done);
        CHECK_U64(READ32(kept, 1), 7);
        CHECK_U64(READ32(kept, 0), 55);
    }
}

/* A queue that nothing has changed is submitted again without being checked again: what
   may be in its way is looked at each time. */
TEST(the_same_again) {
    hcq_device *device = OPEN_WITH(0, .held_pool = 2, .held_limit = 3); /* numbers go round early */
    hcq_queue *q = make_queue(device, HCQ_COMPUTE), *copies = make_queue(device, HCQ_COPY);
    hcq_queue *named = make_queue(device, HCQ_COMPUTE);
    hcq_buffer a = make_words(device, 4), other = make_words(device, 4);
    hcq_buffer theirs = make_words(dev2(), 4);
    hcq_program *add = make_add(device);
    hcq_queue *rises = make_queue(device, HCQ_COMPUTE), *takes = make_queue(device, HCQ_COMPUTE);
    hcq_queue *waits = make_queue(device, HCQ_COMPUTE);
    hcq_point done, held[3], raise = hcq_at(make_signal(device, 0), 1), passed = make_gate(device);
    const hcq_value one = hcq_value_number(1);
    const uint32_t forty = 40;
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_fill(copies, other, 4, 1, 1), 0);
    CHECK_INDEX(hcq_queue_copy(named, other, theirs, 4), 0);
    CHECK_INDEX(hcq_queue_signal(rises, hcq_at(make_signal(device, 0), 1)), 0);
    CHECK_INDEX(record_add(takes, add, other, 0, 1), 0);
    CHECK_OK(hcq_queue_variable(takes, 0, HCQ_PART_GRID_X, 0, 1));
    CHECK_INDEX(hcq_queue_wait(waits, passed), 0);
    CHECK_INDEX(record_add(waits, add, other, 0, 1), 1);
    open_gate(passed);
    CHECK_OK(hcq_queue_submit_with(takes, device, &one, 1, 0, NULL));
    RUN_OK(rises, device);
    RUN_OK(waits, device);
    RUN_OK(q, device);
    RUN_OK(named, device);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_RESULT(hcq_queue_submit(takes, device, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_submit(rises, device, NULL), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_signal_reset(passed.signal, 0));
    hcq_queue *const ways[5] = {q, q, named, q, waits};
    for (int way = 0; way < 5; way++) {
        hcq_point gate = way == 4 ? passed : make_gate(device);
        if (way == 0) {                /* what is held on its lane, ... */
            CHECK_OK(submit_lists(device, &gate, NULL, 0, NULL));
        } else if (way == 1) {         /* ... an eager call behind another lane's, ... */
            CHECK_OK(submit_behind(copies, device, &gate, NULL));
            CHECK_OK(hcq_copyin(a, &forty, sizeof forty));
        } else if (way == 2) {         /* ... one of a device whose memory it names, ... */
            CHECK_OK(submit_lists(dev2(), &gate, NULL, 0, NULL));
            CHECK_OK(hcq_copyin(theirs, &forty, sizeof forty));
        }
        CHECK_OK(way == 3 ? submit_behind(q, device, &gate, &done) /* ... its own wait */
                          : hcq_queue_submit(ways[way], device, &done));
        CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
        GATE_END(gate, done);
    }
    CHECK_OK(submit_queue(q, device, NULL, &raise, 0, NULL));
    WAIT_OK(raise);
    hcq_point gate = make_gate(device);
    CHECK_OK(submit_lists(device, &gate, NULL, HCQ_UNORDERED, &held[0]));
    for (int i = 0; i < 20; i++) { RUN_OK(q, device); } /* round and round, past its number */
    CHECK_RESULT(test_poll(held[0]), HCQ_TIMEOUT);
    CHECK_OK(submit_lists(device, &gate, NULL, HCQ_UNORDERED, &held[1]));
    CHECK_OK(submit_lists(device, &gate, NULL, HCQ_UNORDERED, &held[2]));
    CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
    open_gate(gate);
    for (int i = 0; i < 3; i++) { WAIT_OK(held[i]); }
    RUN_OK(q, device);
    CHECK_U64(READ32(a, 0), 64);
    CHECK_OK(hcq_close(device));
}

/* Nor where its lane is full, or its device is closing. */
TEST(the_same_again_at_a_bad_time) {
    hcq_device *device = OPEN_WITH(0, .inflight = 1, .timeout_ns = SECOND / 10);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE), *copies = make_queue(device, HCQ_COPY);
    CHECK_INDEX(record_add(q, make_add(device), make_words(device, 1), 0, 1), 0);
    CHECK_INDEX(record_word(copies, make_words(device, 1), 1, 1), 0);
    RUN_OK(q, device);
    RUN_OK(copies, device);            /* its lane has room */
    hcq_point hold = hold_device(device, NULL);
    CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_close(device), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_queue_submit(copies, device, NULL), HCQ_ERROR_CLOSED);
    HOLD_END(hold);
    CHECK_OK(hcq_close(device));
}
