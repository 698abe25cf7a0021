/* failure.h - failures: how far they travel, and no further; from which value on a
   signal has failed; native refusals and lost devices. That answers stay exact among
   many of them is random/answers.c's. Part of conformance.c. */

/* ---- how far they travel ---- */

static hcq_result host_slow_failure(void *user) {
    (void)user;
    mock_sleep(20000000);
    return HCQ_ERROR_HOST;
}

/* The timeline only orders: who waits for it runs after failed work, too. */
TEST(timeline_waits_pass_failures) {
    for (uint32_t way = 0; way < 4; way++) {
        hcq_device *device = way < 2 ? T.dev : dev2();
        hcq_queue *a = make_call(T.dev, HCQ_COPY, host_slow_failure, NULL);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_buffer word = make_words(device, 4);
        hcq_point failed;
        CHECK_OK(hcq_queue_submit(a, T.dev, &failed));
        CHECK_INDEX(way % 2 ? hcq_queue_wait_device(q, T.dev)
                            : hcq_queue_wait(q, timeline_now(T.dev)), 0);
        CHECK_INDEX(record_word(q, word, 5, 4), 1);
        RUN_OK(q, device);
        CHECK_RESULT(test_poll(failed), HCQ_ERROR_HOST); /* it was waited for */
        CHECK_U64(READ32(word, 0), 5);
        CHECK_OK(hcq_queue_submit(a, T.dev, NULL)); /* eager calls follow failed work as well */
        CHECK_OK(hcq_copyin(word, &way, 4));
        CHECK_U64(READ32(word, 0), way);
    }
}

/* The first failure of a device, and of a lane, is kept though there is no memory by then. */
TEST(failures_take_no_memory) {
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 1);
    hcq_signal raised = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE), *behind = make_queue(device, HCQ_COPY);
    hcq_point gate = make_gate(device), failed, follows;
    CHECK_INDEX(hcq_queue_wait(q, gate), 0);
    CHECK_INDEX(hcq_queue_host(q, host_fails, NULL), 1);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(raised, 1)), 2);
    CHECK_INDEX(hcq_queue_wait(behind, hcq_at(raised, 1)), 0);
    CHECK_INDEX(record_word(behind, make_words(device, 1), 5, 4), 1);
    CHECK_OK(hcq_queue_submit(q, device, &failed));
    CHECK_OK(hcq_queue_submit(behind, device, &follows));
    __atomic_store_n(&T.memory.fail_until, UINT64_MAX, __ATOMIC_SEQ_CST);
    __atomic_store_n(&T.memory.fail_at, 1, __ATOMIC_SEQ_CST);
    hcq_result set = hcq_signal_set(gate.signal, 1);
    hcq_result first = hcq_wait(&failed, 1, HCQ_ALL, BOUND);
    hcq_result second = hcq_wait(&follows, 1, HCQ_ALL, BOUND);
    __atomic_store_n(&T.memory.fail_at, 0, __ATOMIC_SEQ_CST);
    CHECK_OK(set);
    CHECK_RESULT(first, HCQ_ERROR_HOST);
    CHECK_RESULT(second, HCQ_ERROR_HOST);
    CHECK_OK(hcq_close(device));
}

/* ---- answers that were forgotten ---- */

/* They say so: neither a success nor a failure is guessed. */
TEST(forgotten_answers_say_so) {
    enum { N = 40, KEPT = 8 };
    hcq_device *device = OPEN_WITH(0, .failure_ranges = KEPT);
    hcq_queue *queues[2] = {make_call(device, HCQ_COMPUTE, host_fails, NULL),
                            make_queue(device, HCQ_COMPUTE)};
    hcq_point points[N], done;
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(hcq_queue_submit(queues[i % 2], device, &points[i]));
        WAIT_RESULT(points[i], i % 2 ? HCQ_OK : HCQ_ERROR_HOST);
    }
    for (uint32_t i = 0; i < N; i++) { /* the last eight failures are told apart */
        hcq_result exact = i % 2 ? HCQ_OK : HCQ_ERROR_HOST;
        WAIT_RESULT(points[i], i < N - 2 * KEPT - 1 ? HCQ_ERROR_LIMIT : exact);
    }
    CHECK_OK(submit_behind(queues[1], device, &points[1], &done));
    WAIT_RESULT(done, HCQ_ERROR_LIMIT);
    CHECK_OK(hcq_close(device));
}

/* What was handed over behind a signal asks late, and many failures later: it rose. */
TEST(late_questions_are_answered) {
    enum { N = 12 };
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 2, .failure_ranges = 1);
    hcq_queue *q[2] = {make_queue(device, HCQ_COMPUTE), make_queue(device, HCQ_COMPUTE)};
    hcq_queue *ends[2] = {make_queue(device, HCQ_COMPUTE),
                          make_call(device, HCQ_COMPUTE, host_fails, NULL)};
    hcq_point up = hcq_at(make_signal(device, 0), 1), done;
    CHECK_INDEX(record_sleep(q[0], 20000000), 0);
    CHECK_INDEX(hcq_queue_signal(q[0], up), 1);
    CHECK_INDEX(record_sleep(q[1], 60000000), 0);
    for (uint32_t i = 0; i < 2; i++) { /* one behind the signal, the other a long time */
        CHECK_OK(SUBMIT(device, q[i], NULL, .affinity = i));
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(hcq_queue_submit(ends[(i + 1) % 2], device, NULL));
    }
    CHECK_OK(SUBMIT(device, ends[0], &done, .waits = &up, .wait_count = 1, .affinity = 1));
    WAIT_OK(done);
    CHECK_OK(hcq_close(device));
}

/* ---- where a failure begins ---- */

/* The host's failure begins right above the value, whatever is on its way, and the first
   result stays. Where work failed before, further up, lower values are waited for until the
   host brings it down. */
TEST(a_host_failure_begins_at_once) {
    for (int above = 0; above < 2; above++) {
        hcq_signal s = make_signal(T.dev, 1);
        hcq_point five = hcq_at(s, 5), nine = hcq_at(s, 9), gate = make_gate(T.dev), high;
        hcq_point done = hold_device(T.dev, &five);
        CHECK_OK(above ? submit_lists(T.dev, &gate, &nine, HCQ_UNORDERED, &high) : HCQ_OK);
        CHECK_OK(hcq_signal_fail(above ? gate.signal : s, HCQ_ERROR_NATIVE, NULL));
        if (above) {
            CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_ERROR_NATIVE);
            CHECK_RESULT(test_poll(five), HCQ_TIMEOUT);
            for (int i = 0; i < 2; i++) {
                SAYS(explain(i ? high : nine), "final");
                SAYS_NOT(explained, "nobody submitted raises it");
            }
            SAYS(explain(five), "waits for");
            SAYS_NOT(explained, "final");
        }
        CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST, NULL));
        CHECK_OK(test_poll(hcq_at(s, 1)));
        CHECK_RESULT(test_poll(hcq_at(s, 2)), HCQ_ERROR_NATIVE);
        CHECK_RESULT(test_poll(five), HCQ_ERROR_NATIVE);
        HOLD_END(done);
        CHECK_RESULT(test_poll(five), HCQ_ERROR_NATIVE);
        CHECK_VALUE(s, HCQ_ERROR_NATIVE, 1);
    }
}

/* A raise that comes too late for a signal that failed, on another lane and looked
   at first, takes nothing from one below the failure. */
TEST(a_lost_raise_takes_no_other) {
    hcq_device *devices[2] = {T.dev, dev2()};
    for (int i = 0; i < 2; i++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point three = hcq_at(s, 3), seven = hcq_at(s, 7), nine = hcq_at(s, 9);
        hcq_point go = make_gate(T.dev), bad = make_gate(T.dev), done, high;
        uint64_t value = 0;
        hcq_point low = hold_device(devices[i], &three);
        CHECK_OK(submit_lists(devices[!i], &go, &seven, HCQ_UNORDERED, &high));
        CHECK_OK(submit_lists(T.dev, &bad, &nine, HCQ_UNORDERED, &done));
        CHECK_OK(hcq_signal_fail(bad.signal, HCQ_ERROR_NATIVE, NULL));
        open_gate(go);
        hold_release();
        while (!__atomic_load_n(&SEEN->hold_ended, __ATOMIC_ACQUIRE)) {
            mock_sleep(100000);
        }
        mock_sleep(2000000);           /* both are over, and nobody has looked */
        CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_NATIVE);
        WAIT_OK(three);
        WAIT_OK(low);
        WAIT_OK(high);
        CHECK_RESULT(test_poll(seven), HCQ_ERROR_NATIVE);
    }
}

/* ---- native refusals and lost devices: the mock does them on demand ---- */

TEST(native_refusals) {
    SKIP_IF(!is_mock(), "only the mock refuses on demand");
    for (int held = 0; held < 2; held++) {
        for (uint64_t k = 1; k <= 6; k++) {
            mock_control control;
            hcq_device *device = open_to_lose(&control);
            hcq_signal s = make_signal(device, 0);
            hcq_queue *q = make_queue(device, HCQ_COMPUTE);
            hcq_point gate = make_gate(device), done, next;
            CHECK_INDEX(hcq_queue_wait(q, gate), 0);
            CHECK_INDEX(hcq_queue_timestamp(q, s), 1);
            CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
            CHECK_INDEX(hcq_queue_timestamp(q, s), 3);
            CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 2)), 4);
            CHECK_OK(hcq_device_synchronize(device, BOUND));
            __atomic_store_n(&control.refuse_at, control.submits + k, __ATOMIC_SEQ_CST);
            CHECK_OK(held ? HCQ_OK : hcq_signal_set(gate.signal, 1));
            hcq_result result = hcq_queue_submit(q, device, &done);
            if (held) {
                CHECK_OK(result);
                open_gate(gate);       /* the caller is not to blame */
            }
            if (result == HCQ_OK) {
                result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
            }
            int refused = mock_load(&control.submits) >= mock_load(&control.refuse_at);
            CHECK(refused || k > 2);   /* two batches: the first two calls are its */
            CHECK_RESULT(result, refused ? HCQ_ERROR_NATIVE : HCQ_OK);
            CHECK_RESULT(test_poll(hcq_at(s, 2)), refused ? HCQ_ERROR_NATIVE : HCQ_OK);
            CHECK(k != 1 || test_poll(hcq_at(s, 1)) == HCQ_ERROR_NATIVE);
            hcq_error_info error;
            CHECK_OK(hcq_device_error_take(device, &error));
            CHECK_RESULT(error.result, refused ? HCQ_ERROR_NATIVE : HCQ_OK);
            __atomic_store_n(&control.refuse_at, 0, __ATOMIC_SEQ_CST);
            CHECK_OK(submit_lists(device, NULL, NULL, 0, &next)); /* it goes on */
            WAIT_OK(next);
            CHECK_OK(hcq_device_synchronize(device, BOUND));
            CHECK_OK(hcq_close(device));
        }
    }
}

/* A batch that waits for another lane is refused: nothing of it is left that the
   closing would wait for. */
TEST(refused_batch_leaves_no_trace) {
    SKIP_IF(!is_mock(), "only the mock refuses a batch on demand");
    mock_control control = {0};
    hcq_device_desc desc = test_desc();
    test_mock_desc.control = &control;
    desc.compute_lanes = 2;
    desc.timeout_ns = BOUND / 2;
    hcq_device *device = test_open(0, &desc);
    hcq_queue *q = make_filler(device, make_words(device, 1), 1);
    hcq_point before = hold_device(device, NULL), done = {{0}, 0};
    __atomic_store_n(&control.refuse_at, mock_load(&control.submits) + 1, __ATOMIC_SEQ_CST);
    hcq_result refused = SUBMIT(device, q, &done, .waits = &before, .wait_count = 1, .affinity = 1);
    hold_release();
    CHECK_RESULT(refused, HCQ_ERROR_NATIVE);
    WAIT_OK(before);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_close(device));
}

static hcq_result transfer_word_of(hcq_buffer dst, hcq_buffer src) {
    return hcq_transfer(hcq_transfer_device(dst), hcq_transfer_device(src), 4, 0, BOUND);
}

/* What it did before stays done; what it has not done fails, whoever waits and however, no
   host command of it is called, also when that is told, and the others work on. */
TEST(lost_device) {
    SKIP_IF(!is_mock(), "only the mock is lost on demand");
    static notice n[5];
    mock_control control;
    hcq_device *device = open_to_lose(&control);
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point raise = hcq_at(s, 2), gate = make_gate(T.dev), wait = make_gate(device);
    hcq_point before, held, foreign, middle, done;
    uint32_t calls = 0;
    hcq_buffer theirs = make_words(device, 1), mine = make_words(T.dev, 2);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE), *waits = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *again = make_filler(device, theirs, 1);
    RUN_OK(again, device);
    CHECK_INDEX(hcq_queue_wait(q, gate), 0);
    CHECK_INDEX(record_word(q, theirs, 1, 4), 1);
    CHECK_INDEX(hcq_queue_host(q, host_counts, &calls), 2);
    CHECK_INDEX(hcq_queue_signal(q, raise), 3);
    before = hcq_at(s, 1);
    CHECK_OK(submit_lists(device, NULL, &before, 0, NULL));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(submit_lists(device, &wait, NULL, HCQ_UNORDERED, &held));
    CHECK_OK(submit_lists(dev2(), &raise, NULL, 0, &foreign)); /* another device waits */
    CHECK_INDEX(record_word(waits, mine, 1, 4), 0);
    CHECK_INDEX(hcq_queue_wait(waits, held), 1); /* so does one in its middle */
    CHECK_INDEX(record_word(waits, hcq_view(mine, 4, 4), 2, 4), 2);
    CHECK_OK(hcq_queue_submit(waits, T.dev, &middle));
    CHECK_OK(hcq_queue_submit(q, device, &done));
    const hcq_point ends[5] = {done, raise, held, middle,
                               hcq_at(hcq_device_timeline(device), done.value + 10)};
    for (int i = 0; i < 5; i++) {
        NOTIFY_AT(&n[i], ends[i]);
    }
    lose_at_next_submit(&control);
    open_gate(gate);
    WAIT_RESULT(foreign, HCQ_ERROR_LOST);
    for (int i = 0; i < 5; i++) {
        NOTIFIED(&n[i], HCQ_ERROR_LOST);
        WAIT_RESULT(ends[i], HCQ_ERROR_LOST);
        NOTIFY_AT(&n[i], ends[i]);
        NOTIFIED(&n[i], HCQ_ERROR_LOST);
    }
    CHECK_OK(test_poll(before));
    CHECK_RESULT(submit_lists(device, NULL, NULL, 0, NULL), HCQ_ERROR_LOST);
    CHECK_SAYS(hcq_queue_submit(again, device, NULL), HCQ_ERROR_LOST,
               "takes no work");       /* the backend is not asked */
    CHECK_RESULT(hcq_device_synchronize(device, BOUND), HCQ_ERROR_LOST);
    hcq_error_info error;
    CHECK_OK(hcq_device_error_take(device, &error));
    CHECK_RESULT(error.result, HCQ_ERROR_LOST);
    CHECK(strcmp(error.native, "mockQueueSubmit") == 0);
    CHECK_U64(error.native_code, MOCK_NATIVE_ERROR);
    for (int i = 0; i < 2; i++) {
        hcq_result r = i ? transfer_word_of(theirs, mine) : transfer_word_of(mine, theirs);
        CHECK(r == HCQ_ERROR_LOST || (T.variant->mapped && r == HCQ_OK));
    }
    hcq_close(device);
    CHECK_U64(calls, 0);
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &done)); /* the other one lives */
    WAIT_OK(done);
    CHECK(T.variant->mapped || READ32(mine, 0) == 1);
    CHECK_U64(READ32(mine, 1), 0);
}
