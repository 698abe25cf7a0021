/* waits.h - calls that wait: lists of points, deadlines, who wakes them and who
   ends them, devices of two backends, synchronize, submit_and_wait. Part of
   conformance.c. */

/* ---- lists, time-outs ---- */

TEST(wait_all_any) {
    hcq_signal up = make_signal(T.dev, 10), low = make_signal(dev2(), 0);
    hcq_signal lost = make_signal(T.dev, 4), hosted = make_signal(dev2(), 4);
    hcq_signal gone = make_signal(T.dev, 9);
    CHECK_OK(hcq_signal_fail(lost, HCQ_ERROR_LOST, NULL));
    CHECK_OK(hcq_signal_fail(hosted, HCQ_ERROR_HOST, NULL));
    CHECK_OK(hcq_signal_destroy(gone));
    const hcq_point reached = hcq_at(up, 10), pending = hcq_at(low, 1);
    const hcq_point failed = hcq_at(lost, 5), failed2 = hcq_at(hosted, 5);
    const hcq_point old = hcq_at(lost, 4), stale = hcq_at(gone, 1);
    CHECK_OK(hcq_wait(NULL, 0, HCQ_ALL, 0));
    CHECK_OK(hcq_wait(NULL, 0, HCQ_ANY, HCQ_FOREVER));
#define CASE(all, any, ...) \
    do { \
        const hcq_point list[] = {__VA_ARGS__}; \
        check_wait_orders(list, (uint32_t)(sizeof list / sizeof list[0]), (all), (any)); \
    } while (0)
    CASE(HCQ_OK, HCQ_OK, reached);
    CASE(HCQ_TIMEOUT, HCQ_TIMEOUT, pending);
    CASE(HCQ_ERROR_LOST, HCQ_ERROR_LOST, failed);
    CASE(HCQ_OK, HCQ_OK, reached, reached, old);
    CASE(HCQ_TIMEOUT, HCQ_OK, reached, pending);
    CASE(HCQ_ERROR_LOST, HCQ_OK, reached, failed);
    CASE(HCQ_ERROR_HOST, HCQ_OK, reached, failed, failed2); /* the lowest code */
    CASE(HCQ_ERROR_LOST, HCQ_ERROR_LOST, pending, failed);
    CASE(HCQ_ERROR_HOST, HCQ_ERROR_HOST, failed, pending, failed2, pending);
    CASE(HCQ_ERROR_CLOSED, HCQ_OK, reached, stale);
    CASE(HCQ_ERROR_CLOSED, HCQ_ERROR_CLOSED, pending, stale);
    CASE(HCQ_TIMEOUT, HCQ_OK, hcq_at(up, 11), hcq_at(up, 10), hcq_at(up, 1));
#undef CASE
    /* What is over counts more than what failed, also where nobody has looked at it yet. */
    hcq_point points[2] = {stale, stale};
    hcq_result r = HCQ_ERROR_CLOSED;
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &points[1]));
    for (uint64_t end = hcq_now_ns() + BOUND; r == HCQ_ERROR_CLOSED && hcq_now_ns() < end;) {
        r = hcq_wait(points, 2, HCQ_ANY, HCQ_FOREVER);
    }
    CHECK_OK(r);
}

/* A submit_and_wait that times out still gives its point, and the work goes on. */
TEST(deadlines) {
    hcq_signal s = make_signal(T.dev, 1), failed = make_signal(dev2(), 0);
    hcq_point reached = hcq_at(s, 1), pending = hcq_at(s, 2), open = make_gate(T.dev);
    hcq_point never = hcq_at(failed, 1), done[3];
    hcq_submission sub = {.waits = &open, .wait_count = 1};
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_HOST, NULL));
    CHECK_OK(submit_lists(T.dev, &open, NULL, 0, NULL));
    const uint64_t past[] = {HCQ_DEADLINE(0), HCQ_DEADLINE(1),
                             HCQ_DEADLINE(hcq_now_ns() - 1)};
    for (int i = 0; i < 3; i++) {      /* in the past: polls, and reached counts */
        CHECK_OK(hcq_wait(&reached, 1, HCQ_ALL, past[i]));
        CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ALL, past[i]), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_wait(&never, 1, HCQ_ALL, past[i]), HCQ_ERROR_HOST);
        CHECK_RESULT(hcq_device_synchronize(T.dev, past[i]), HCQ_TIMEOUT);
        CHECK_OK(hcq_device_synchronize(dev2(), past[i]));
    }
    uint64_t when = hcq_now_ns() + SECOND / 50;
    const uint64_t ends[3] = {0, HCQ_DEADLINE(when), SECOND / 50};
    for (int i = 0; i < 3; i++) {
        uint64_t start = hcq_now_ns();
        CHECK_RESULT(hcq_submit_and_wait(T.dev, &sub, 1, ends[i], &done[i]), HCQ_TIMEOUT);
        CHECK(i != 1 || hcq_now_ns() >= when);
        CHECK(i != 2 || hcq_now_ns() - start >= ends[i] - SECOND / 500);
        CHECK_U64(done[i].value, i + 2); /* behind what was held above */
        CHECK_RESULT(test_poll(done[i]), HCQ_TIMEOUT);
    }
    for (int i = 0; i < 2; i++) {
        when = hcq_now_ns() + SECOND / 50;
        CHECK_RESULT(i ? hcq_device_synchronize(T.dev, HCQ_DEADLINE(when))
                       : hcq_wait(&pending, 1, HCQ_ANY, HCQ_DEADLINE(when)), HCQ_TIMEOUT);
        CHECK(hcq_now_ns() >= when);
    }
    when = hcq_now_ns() + BOUND;
    CHECK_OK(hcq_wait(&reached, 1, HCQ_ALL, HCQ_DEADLINE(when)));
    open_gate(open);
    CHECK_OK(hcq_device_synchronize(T.dev, HCQ_DEADLINE(when)));
    CHECK_OK(hcq_wait(done, 3, HCQ_ALL, 0));
    CHECK(hcq_now_ns() < when);
}

/* As many points as a thread can be linked to, and more; whatever ends the wait ends it
   although nobody looks again: its end is far away, however that was named, and nothing is
   to be explained. */
TEST(waits_of_many_points) {
    enum { MOST = 18 };
    const uint64_t ends[] = {HCQ_FOREVER, HCQ_DEADLINE(hcq_now_ns() + 3600 * SECOND),
                             3600 * SECOND, (uint64_t)INT64_MAX, HCQ_DEADLINE(INT64_MAX),
                             HCQ_DEADLINE(INT64_MAX - 1)};
    hcq_device *devices[2] = {open_labelled("left", HCQ_NEVER), open_labelled("right", HCQ_NEVER)};
    for (uint32_t count = 15; count <= MOST; count++) {
        hcq_signal s[MOST];
        blocked_call wait = {.count = count, .mode = HCQ_ANY};
        for (uint32_t i = 0; i < count; i++) {
            s[i] = make_signal(devices[i % 2], 0);
            wait.points[i] = hcq_at(s[i], 5);
        }
        for (uint32_t way = 0; way < 4; way++) {
            const uint32_t at = way == 1 ? 0 : way == 2 ? count / 2 : count - 1;
            wait.tid = wait.over = 0;
            wait.timeout_ns = ends[(4 * count + way) % (sizeof ends / sizeof ends[0])];
            CHECK(pthread_create(&wait.thread, NULL, blocked_wait, &wait) == 0);
            blocked_until(&wait);
            CHECK_OK(way == 0   ? hcq_signal_set(s[at], 5)
                     : way == 1 ? hcq_signal_reset(s[at], 9)
                     : way == 2 ? hcq_signal_fail(s[at], HCQ_ERROR_NATIVE, NULL)
                                : submit_lists(T.dev, NULL, &wait.points[at], 0, NULL));
            pthread_join(wait.thread, NULL);
            CHECK_RESULT(wait.result, way == 2 ? HCQ_ERROR_NATIVE : HCQ_OK);
            CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
            CHECK_OK(hcq_signal_reset(s[at], 0));
        }
    }
    CHECK_OK(hcq_close(devices[0]));
    CHECK_OK(hcq_close(devices[1]));
}

/* ---- points of several devices and backends ---- */

/* Threads asleep over both backends are woken by whichever comes. */
TEST(wait_over_backends_wakes) {
    enum { DEVICES = 3 };
    hcq_device *other = open_other_backend();
    hcq_device *devices[DEVICES] = {T.dev, dev2(), other};
    static blocked_call all, any;
    static uint32_t go[DEVICES];
    for (int first = 0; first < DEVICES; first++) {
        memset(&all, 0, sizeof all);
        memset(go, 0, sizeof go);
        for (int d = 0; d < DEVICES; d++) {
            hcq_queue *q = make_queue(devices[d], HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_host(q, host_until, &go[d]), 0);
            CHECK_OK(hcq_queue_submit(q, devices[d], &all.points[d]));
        }
        all.count = DEVICES;
        all.mode = HCQ_ALL;
        all.timeout_ns = BOUND;
        any = all;
        any.mode = HCQ_ANY;
        pthread_create(&all.thread, NULL, blocked_wait, &all);
        pthread_create(&any.thread, NULL, blocked_wait, &any);
        __atomic_store_n(&go[first], 1, __ATOMIC_RELEASE);
        pthread_join(any.thread, NULL); /* the others still run */
        int over = is_over(&all);
        for (int d = 0; d < DEVICES; d++) {
            __atomic_store_n(&go[d], 1, __ATOMIC_RELEASE);
        }
        pthread_join(all.thread, NULL);
        CHECK_OK(any.result);
        CHECK_OK(all.result);
        CHECK(!over);
    }
    CHECK_OK(hcq_close(other));
}

/* ---- waits that somebody else ends ---- */

typedef enum wait_end {
    END_CLOSE,                         /* the device of the signal */
    END_CLOSE_HELD,                    /* the one that has the submission */
    END_DESTROY,
    END_DESTROY_RAISED,                /* from here on the raise runs, and goes on running */
    END_FAIL,
    END_SET,
    END_OTHER,                         /* the other of two fails */
    END_OTHER_FIRST, WAIT_ENDS
} wait_end;

static hcq_result end_wait(wait_end end, hcq_device *device, hcq_signal s, hcq_signal other) {
    switch (end) {
    case END_CLOSE:
    case END_CLOSE_HELD: return hcq_close(device);
    case END_DESTROY:
    case END_DESTROY_RAISED: return hcq_signal_destroy(s);
    case END_FAIL: return hcq_signal_fail(s, HCQ_ERROR_NATIVE, NULL);
    case END_SET: return hcq_signal_set(s, 1);
    default: return hcq_signal_fail(other, HCQ_ERROR_NATIVE, NULL);
    }
}

/* A wait that has begun, with and without an explanation, is told of its end, like
   whoever else waits. */
TEST(waits_hear_the_end) {
    for (int i = 0; i < 2 * WAIT_ENDS; i++) {
        const wait_end end = (wait_end)(i / 2);
        const int two = end >= END_OTHER, gone = end <= END_DESTROY_RAISED;
        hcq_device *device = OPEN_WITH(0, .explain_ns = i % 2 ? HCQ_NEVER : SECOND / 1000);
        hcq_signal s = make_signal(device, 0), t = make_signal(dev2(), 0);
        hcq_point point = hcq_at(s, 1), other = hcq_at(t, 1), gate = make_gate(T.dev), held;
        blocked_call call = {0};
        hold_reset();
        log_clear();
        if (end >= END_DESTROY_RAISED) { /* loading would wait for a kernel that runs */
            hcq_queue *first = make_holder(T.dev), *second = make_holder(dev2());
            CHECK_INDEX(hcq_queue_signal(first, point), 1);
            CHECK_INDEX(hcq_queue_signal(second, other), 1);
            hold_start(first, T.dev);
            hold_start(second, dev2());
        }
        CHECK_OK(submit_lists(device, &gate, NULL, 0, &held));
        call.points[end == END_OTHER_FIRST] = end == END_CLOSE_HELD ? held : point;
        call.points[end != END_OTHER_FIRST] = other;
        call.count = two ? 2 : 1;
        call.timeout_ns = 2 * BOUND;
        pthread_create(&call.thread, NULL, blocked_wait, &call);
        int told = i % 2 || two || log_until("lasts longer"); /* so it has begun */
        blocked_until(&call);
        hcq_result ended = end_wait(end, device, s, t);
        int over = word_until(&call.over, 1), still = holds();
        hold_release();
        pthread_join(call.thread, NULL);
        CHECK_OK(ended);
        CHECK(told && over && still);
        const int late = i % 2 && gone && call.result == HCQ_ERROR_CLOSED; /* it began then */
        CHECK_RESULT(call.result, late             ? HCQ_ERROR_CLOSED
                                  : gone           ? HCQ_ERROR_CANCELLED
                                  : end == END_SET ? HCQ_OK
                                                   : HCQ_ERROR_NATIVE);
        CHECK(!gone || test_poll(point) == HCQ_ERROR_CLOSED);
        synchronize_both();
        CHECK(end <= END_CLOSE_HELD || hcq_close(device) == HCQ_OK);
    }
}

/* ---- synchronize, submit and wait ---- */

BLOCKED(blocked_synchronize, hcq_device_synchronize(b->device, b->timeout_ns))

/* Failed work on any lane is covered, too; what is submitted once the call waits is not. */
TEST(synchronize_covers_earlier_work) {
    static blocked_call call;
    hcq_device *device = open_labelled("covered", SECOND / 1000);
    hcq_point open = make_gate(T.dev), never = make_gate(T.dev), bad = make_gate(T.dev);
    hcq_point early[3], held;
    hcq_queue *copy = make_queue(device, HCQ_COPY);
    CHECK_INDEX(hcq_queue_wait(copy, open), 0);
    CHECK_INDEX(record_word(copy, make_words(device, 4), 3, 4), 1);
    CHECK_OK(hcq_signal_fail(bad.signal, HCQ_ERROR_HOST, NULL));
    CHECK_OK(submit_lists(device, &open, NULL, 0, &early[0]));
    CHECK_OK(submit_lists(device, &bad, NULL, HCQ_UNORDERED, &early[1]));
    CHECK_OK(hcq_queue_submit(copy, device, &early[2]));
    log_clear();
    call = (blocked_call){.device = device, .timeout_ns = BOUND};
    pthread_create(&call.thread, NULL, blocked_synchronize, &call);
    int waits = log_until("lasts longer"); /* by then it knows for what */
    hcq_result submitted = submit_lists(device, &never, NULL, 0, &held);
    open_gate(open);
    pthread_join(call.thread, NULL);
    CHECK(waits);
    CHECK_OK(submitted);
    CHECK_OK(call.result);
    CHECK_OK(test_poll(early[0]));     /* covered: nothing to wait for any more */
    CHECK_RESULT(test_poll(early[1]), HCQ_ERROR_HOST);
    CHECK_OK(test_poll(early[2]));
    CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_device_synchronize(device, 0), HCQ_TIMEOUT); /* now it is earlier */
    open_gate(never);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(test_poll(held));
    CHECK_OK(hcq_close(device));
}

TEST(submit_and_wait) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point done = {{0}, 0}, wait = make_gate(dev2());
    CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 0);
    hcq_submission three[3] = {submission(&q, 1), submission(&q, 1), submission(&q, 1)};
    CHECK_OK(hcq_submit_and_wait(T.dev, three, 1, BOUND, NULL));
    uint64_t next = hcq_device_timeline_value(T.dev);
    CHECK_OK(hcq_submit_and_wait(T.dev, three, 3, HCQ_DEADLINE(hcq_now_ns() + BOUND), &done));
    CHECK_U64(done.value, next + 2);   /* the last one's */
    CHECK_OK(test_poll(done));         /* it was waited for */
    next = hcq_device_timeline_value(T.dev);
    CHECK_OK(hcq_signal_fail(wait.signal, HCQ_ERROR_NATIVE, NULL));
    three[0].waits = &wait;
    three[0].wait_count = 1;
    CHECK_RESULT(hcq_submit_and_wait(T.dev, three, 1, BOUND, &done), HCQ_ERROR_NATIVE);
    CHECK_U64(done.value, next);       /* it was submitted, and failed */
    CHECK_RESULT(test_poll(done), HCQ_ERROR_NATIVE);
    CHECK_U64(READ32(a, 0), 4);
}
