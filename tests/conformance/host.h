/* Host commands, failures, close, objects destroyed early.
   Part of conformance.c. */
#include "shared.h"

/* ---- host commands ---- */

static void host_commands_run_in_order(void **state) {
    (void)state;
    enum { ROUNDS = 40 };
    for (int kind = HCQ_COMPUTE; kind <= HCQ_COPY; kind++) {
        host_log log;
        memset(&log, 0, sizeof log);
        hcq_queue *q = make_queue(T.dev, (hcq_queue_kind)kind);
        hcq_buffer a;
        CHECK_OK(hcq_alloc(T.dev, 64, HCQ_HOST_VISIBLE | HCQ_ZEROED, &a));
        CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_host(q, host_record, &log), 1);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(a, 4, 4), 2, 4), 2);
        CHECK_INDEX(hcq_queue_host(q, host_record, &log), 3);
        if (kind == HCQ_COPY) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        hcq_point done;
        for (int i = 0; i < ROUNDS; i++) {
            CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        }
        WAIT_OK(done);
        CHECK_U64(log.calls, 2 * ROUNDS);
        CHECK_U64(READ32(a, 1), 2);
    }
}

typedef struct host_view { const uint32_t *word; uint32_t seen; } host_view;

static hcq_result host_look(void *user) {
    host_view *view = (host_view *)user;
    view->seen = *view->word;
    return HCQ_OK;
}

/* The host command sees what was written before it, and is seen after it. */
static void host_command_sees_memory(void **state) {
    (void)state;
    hcq_buffer a;
    CHECK_OK(hcq_alloc(T.dev, 64, HCQ_HOST_VISIBLE | HCQ_ZEROED, &a));
    host_view view = {(const uint32_t *)a.host, 0};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_point done;
    CHECK_INDEX(record_add(q, add, a, 0, 21), 0);
    CHECK_INDEX(hcq_queue_host(q, host_look, &view), 1);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 2);
    for (uint32_t i = 0; i < 20; i++) {
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK_U64(view.seen, i * 22 + 21);
    }
}

static hcq_result host_calls(void *user) {
    host_log *log = (host_log *)user;
    uint64_t value = 0;
    char text[64];
    hcq_point far_away = hcq_at(log->set, 1000000);
    log->got[0] = hcq_signal_set(log->set, log->set_to);
    log->got[1] = hcq_queue_submit(log->submit, T.dev, &log->submitted);
    log->got[2] = hcq_device_query(T.dev, HCQ_QUERY_PENDING, &value);
    log->got[3] = hcq_device_dump(T.dev, text, sizeof text) ? HCQ_OK : HCQ_ERROR_INVALID;
    log->got[4] = hcq_wait(&far_away, 1, HCQ_ALL, SECOND); /* would block */
    log->got[5] = hcq_device_synchronize(T.dev, SECOND);   /* would block on itself */
    log->got[6] = hcq_wait(&far_away, 1, HCQ_ALL, 0);      /* polls are fine */
    log->got[7] = hcq_close(T.dev2);
    log->got[8] = hcq_copyout(text, log->buffer, 4);
    log->got[9] = hcq_copyin(log->buffer, text, 4);
    log->got[10] = hcq_transfer(hcq_transfer_device(hcq_view(log->buffer, 0, 4)),
                                hcq_transfer_device(hcq_view(log->buffer, 4, 4)), 4, 0, BOUND);
    log->calls++;
    return HCQ_OK;
}

static void host_command_calls_back(void **state) {
    (void)state;
    host_log log;
    memset(&log, 0, sizeof log);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    log.set = make_signal(T.dev, 0);
    log.set_to = 5;
    log.submit = make_queue(T.dev, HCQ_COPY);
    log.buffer = make_words(T.dev, 4);
    CHECK_INDEX(hcq_queue_write(log.submit, a, 9, 4), 0);
    CHECK_INDEX(hcq_queue_host(q, host_calls, &log), 0);
    hcq_point done;
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    WAIT_OK(done);
    CHECK_U64(log.calls, 1);
    CHECK_OK(log.got[0]);
    CHECK_OK(log.got[1]);
    CHECK_OK(log.got[2]);
    CHECK_OK(log.got[3]);
    CHECK_RESULT(log.got[4], HCQ_ERROR_WOULD_BLOCK);
    CHECK_RESULT(log.got[5], HCQ_ERROR_WOULD_BLOCK);
    CHECK_RESULT(log.got[6], HCQ_TIMEOUT);
    for (int i = 7; i <= 10; i++) {
        CHECK_RESULT(log.got[i], HCQ_ERROR_WOULD_BLOCK);
    }
    WAIT_OK(hcq_at(log.set, 5));
    WAIT_OK(log.submitted);
    CHECK_U64(READ32(a, 0), 9);
}

/* A failing host command: the rest does not run, its signals fail, later work
   of the lane goes on, the timeline advances, the error says where. */
static void host_command_fails(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        host_log log;
        memset(&log, 0, sizeof log);
        log.result = HCQ_ERROR_HOST;
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *next = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        hcq_signal before = make_signal(T.dev, 0), after = make_signal(T.dev, 0);
        hcq_signal last = make_signal(T.dev, 0);
        hcq_point done, later, line;
        CHECK_OK(hcq_queue_label(q, "failing"));
        CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(before, 1)), 1);
        CHECK_INDEX(hcq_queue_host(q, host_record, &log), 2);
        CHECK_INDEX(hcq_queue_write(q, a, 2, 4), 3);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(after, 1)), 4);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(a, 8, 4), 9, 4), 5);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(last, 1)), 6);
        CHECK_INDEX(hcq_queue_write(next, hcq_view(a, 4, 4), 3, 4), 0);
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        CHECK_OK(hcq_queue_submit(next, T.dev, &later));
        line = hcq_at(hcq_device_timeline(T.dev), hcq_device_timeline_value(T.dev) - 1);
        WAIT_OK(hcq_at(before, 1));
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(after, 1), HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(last, 1), HCQ_ERROR_HOST);
        WAIT_OK(later);
        WAIT_OK(line);                 /* the timeline only orders */
        CHECK_RESULT(test_poll(done), HCQ_ERROR_HOST); /* and the point remembers */
        CHECK_U64(READ32(a, 0), 1);
        CHECK_U64(READ32(a, 1), 3);
        CHECK_U64(READ32(a, 2), 0);
        hcq_error_info error;
        CHECK_OK(hcq_device_error(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "failing") == 0);
        CHECK_U64(error.command, 2);
        CHECK_OK(hcq_device_error(T.dev, &error)); /* was taken */
        CHECK_OK(error.result);
        log.result = HCQ_OK;           /* the queue itself is not spoilt */
        CHECK_OK(hcq_signal_reset(after, 0));
        CHECK_OK(hcq_signal_reset(last, 0));
        CHECK_OK(hcq_queue_update_signal(q, 1, NULL, 2));
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        WAIT_OK(hcq_at(after, 1));
        CHECK_U64(READ32(a, 0), 2);
        CHECK_U64(READ32(a, 2), 9);
        hcq_queue_destroy(q);
    }
}

/* ---- nobody asks ---- */

static hcq_result host_nap(void *user) {
    (void)user;
    mock_sleep(30000000);
    return HCQ_OK;
}

static hcq_result host_flag(void *user) {
    __atomic_store_n((uint32_t *)user, 1, __ATOMIC_RELEASE);
    return HCQ_OK;
}

/* What waits for another device's work goes on although no thread is in hcq. */
static void releases_without_anybody_asking(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_queue *slow = make_queue(T.dev, round % 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_queue *after = make_queue(T.dev2, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4);
        uint32_t flag = 0;
        CHECK_INDEX(hcq_queue_host(slow, host_nap, NULL), 0);
        CHECK_INDEX(hcq_queue_write(slow, a, 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(slow, hcq_at(s, 1)), 2);
        CHECK_INDEX(hcq_queue_wait(after, hcq_at(s, 1)), 0);
        CHECK_INDEX(hcq_queue_write(after, b, 1, 4), 1);
        CHECK_INDEX(hcq_queue_host(after, host_flag, &flag), 2);
        CHECK_OK(hcq_queue_submit(round % 3 ? after : slow, round % 3 ? T.dev2 : T.dev, NULL));
        CHECK_OK(hcq_queue_submit(round % 3 ? slow : after, round % 3 ? T.dev : T.dev2, NULL));
        for (int i = 0; i < 5000 && !__atomic_load_n(&flag, __ATOMIC_ACQUIRE); i++) {
            mock_sleep(1000000);
        }
        CHECK(__atomic_load_n(&flag, __ATOMIC_ACQUIRE));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND)); /* `flag` lives until then */
    }
}

/* A wait for any point ends soon after the one that comes, by whatever means. */
static void any_wait_notices_completion(void **state) {
    (void)state;
    hcq_point never = hcq_at(make_signal(T.dev2, 0), 1), list[3];
    hcq_queue *slow = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev2, HCQ_COPY);
    CHECK_INDEX(hcq_queue_host(slow, host_nap, NULL), 0);
    CHECK_INDEX(hcq_queue_host(copy, host_nap, NULL), 0);
    for (int round = 0; round < 6; round++) {
        uint64_t start = hcq_sys_now_ns();
        CHECK_OK(hcq_queue_submit(slow, T.dev, &list[0]));
        list[1] = never;
        list[2] = never;
        if (round % 2) {
            CHECK_OK(hcq_queue_submit(copy, T.dev2, &list[2]));
        }
        CHECK_OK(hcq_wait(list, 3, HCQ_ANY, BOUND));
        CHECK(hcq_sys_now_ns() - start < BOUND / 2);
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    }
}

/* ---- failures travel ---- */

/* A wait that fails: the submission has that result, its signals fail, the
   next one of the lane runs, and who waits for those signals fails as well. */
static void failure_propagates(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        hcq_signal bad = make_signal(T.dev, 0), s = make_signal(T.dev, 0);
        hcq_signal t = make_signal(T.dev2, 0), u = make_signal(T.dev, 0);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *r = make_queue(T.dev2, HCQ_COMPUTE);
        hcq_queue *next = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4);
        hcq_point d1, d2, d3, d4;
        CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(u, 1)), 1);
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(bad, 1)), 2);
        CHECK_INDEX(hcq_queue_write(q, a, 2, 4), 3);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 4);
        CHECK_INDEX(hcq_queue_wait(r, hcq_at(s, 1)), 0);
        CHECK_INDEX(hcq_queue_write(r, b, 3, 4), 1);
        CHECK_INDEX(hcq_queue_signal(r, hcq_at(t, 1)), 2);
        CHECK_INDEX(hcq_queue_write(next, hcq_view(a, 4, 4), 4, 4), 0);
        if (!late) {
            CHECK_OK(hcq_signal_fail(bad, HCQ_ERROR_NATIVE));
        }
        CHECK_OK(hcq_queue_submit(r, T.dev2, &d2));
        CHECK_OK(hcq_queue_submit(q, T.dev, &d1));
        CHECK_OK(hcq_queue_submit(next, T.dev, &d3));
        WAIT_OK(hcq_at(u, 1));         /* what came before the wait did run */
        if (late) {
            CHECK_RESULT(test_poll(d1), HCQ_TIMEOUT);
            CHECK_OK(hcq_signal_fail(bad, HCQ_ERROR_NATIVE));
        }
        WAIT_RESULT(d1, HCQ_ERROR_NATIVE);
        WAIT_RESULT(d2, HCQ_ERROR_NATIVE);
        WAIT_RESULT(hcq_at(s, 1), HCQ_ERROR_NATIVE);
        WAIT_RESULT(hcq_at(t, 1), HCQ_ERROR_NATIVE);
        WAIT_OK(d3);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        WAIT_OK(hcq_at(hcq_device_timeline(T.dev), hcq_device_timeline_value(T.dev) - 1));
        CHECK_U64(READ32(a, 0), 1);
        CHECK_U64(READ32(a, 1), 4);
        CHECK_U64(READ32(b, 0), 0);
        hcq_queue *w = make_queue(T.dev2, HCQ_COMPUTE); /* waits for the failed point */
        CHECK_INDEX(hcq_queue_wait(w, d1), 0);
        CHECK_OK(hcq_queue_submit(w, T.dev2, &d4));
        WAIT_RESULT(d4, HCQ_ERROR_NATIVE);
        CHECK_OK(submit_lists(T.dev2, NULL, NULL, 0, &d4)); /* the device lives */
        WAIT_OK(d4);
    }
}

/* A point remembers its failure among many that succeed. */
static void failed_points_are_exact(void **state) {
    (void)state;
    enum { N = 200 };
    static hcq_point points[N];
    host_log good, bad;
    memset(&good, 0, sizeof good);
    memset(&bad, 0, sizeof bad);
    bad.result = HCQ_ERROR_HOST;
    hcq_queue *ok = make_queue(T.dev, HCQ_COMPUTE), *fails = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_host(ok, host_record, &good), 0);
    CHECK_INDEX(hcq_queue_host(fails, host_record, &bad), 0);
    for (int i = 0; i < N; i++) {
        CHECK_OK(hcq_queue_submit(i % 50 == 17 ? fails : ok, T.dev, &points[i]));
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    for (int i = 0; i < N; i++) {
        WAIT_RESULT(points[i], i % 50 == 17 ? HCQ_ERROR_HOST : HCQ_OK);
    }
    CHECK_RESULT(hcq_wait(points, N, HCQ_ALL, BOUND), HCQ_ERROR_HOST);
    CHECK_OK(hcq_wait(points, N, HCQ_ANY, BOUND));
}

/* ---- native refusals and a lost device: the mock does them on demand ---- */

static void native_refusals(void **state) {
    (void)state;
    if (!is_mock()) {
        SKIP("only the mock refuses on demand");
        return;
    }
    for (int held = 0; held < 2; held++) {
        for (uint64_t k = 1; k <= 6; k++) {
            mock_control control;
            memset(&control, 0, sizeof control);
            hcq_device_desc desc = test_desc();
            test_mock_desc.control = &control;
            hcq_device *device = test_open(0, &desc);
            hcq_signal gate = make_signal(device, 0), s = make_signal(device, 0);
            hcq_queue *q = make_queue(device, HCQ_COMPUTE);
            hcq_point done, next;
            CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
            CHECK_INDEX(hcq_queue_timestamp(q, s), 1);
            CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
            CHECK_INDEX(hcq_queue_timestamp(q, s), 3);
            CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 2)), 4);
            CHECK_OK(hcq_device_synchronize(device, BOUND));
            __atomic_store_n(&control.refuse_at, control.submits + k, __ATOMIC_SEQ_CST);
            if (!held) {
                CHECK_OK(hcq_signal_set(gate, 1));
            }
            hcq_result result = hcq_queue_submit(q, device, &done);
            if (held) {
                CHECK_OK(result);
                CHECK_OK(hcq_signal_set(gate, 1)); /* the caller is not to blame */
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
            CHECK_OK(hcq_device_error(device, &error));
            CHECK_RESULT(error.result, refused ? HCQ_ERROR_NATIVE : HCQ_OK);
            __atomic_store_n(&control.refuse_at, 0, __ATOMIC_SEQ_CST);
            CHECK_OK(submit_lists(device, NULL, NULL, 0, &next)); /* it goes on */
            WAIT_OK(next);
            CHECK_OK(hcq_device_synchronize(device, BOUND));
            CHECK_OK(hcq_close(device));
        }
    }
}

static void lost_device(void **state) {
    (void)state;
    if (!is_mock()) {
        SKIP("only the mock is lost on demand");
        return;
    }
    mock_control control;
    memset(&control, 0, sizeof control);
    hcq_device_desc desc = test_desc();
    test_mock_desc.control = &control;
    hcq_device *device = test_open(0, &desc);
    hcq_signal s = make_signal(device, 0), never = make_signal(device, 0);
    hcq_point raise = hcq_at(s, 1), wait = hcq_at(never, 1), held, foreign, done = {{0}, 0};
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
    CHECK_INDEX(hcq_queue_signal(q, raise), 1);
    CHECK_OK(submit_lists(device, &wait, NULL, HCQ_UNORDERED, &held));
    CHECK_OK(submit_lists(T.dev, &raise, NULL, 0, &foreign)); /* another device waits */
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    __atomic_store_n(&control.lose_at, control.submits + 1, __ATOMIC_SEQ_CST);
    hcq_result result = hcq_queue_submit(q, device, &done);
    if (result == HCQ_OK) {
        WAIT_RESULT(done, HCQ_ERROR_LOST);
    }
    WAIT_RESULT(raise, HCQ_ERROR_LOST);
    WAIT_RESULT(foreign, HCQ_ERROR_LOST);
    WAIT_RESULT(held, HCQ_ERROR_LOST);
    WAIT_RESULT(hcq_at(hcq_device_timeline(device), hcq_device_timeline_value(device)),
                HCQ_ERROR_LOST);
    CHECK_RESULT(submit_lists(device, NULL, NULL, 0, NULL), HCQ_ERROR_LOST);
    CHECK_RESULT(hcq_device_synchronize(device, BOUND), HCQ_ERROR_LOST);
    hcq_error_info error;
    CHECK_OK(hcq_device_error(device, &error));
    CHECK_RESULT(error.result, HCQ_ERROR_LOST);
    CHECK(strcmp(error.native, "mockQueueSubmit") == 0);
    CHECK_U64(error.native_code, MOCK_NATIVE_ERROR);
    hcq_close(device);
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &done)); /* the other one lives */
    WAIT_OK(done);
}

/* ---- close ---- */

/* Held work is cancelled and whoever waits for it, here or elsewhere, is told. */
static void close_cancels_held_work(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        hcq_device *device = test_open(0, NULL);
        hcq_signal gate = make_signal(round % 2 ? device : T.dev, 0), s = make_signal(device, 0);
        hcq_signal outside = make_signal(T.dev, 0);
        hcq_point open = hcq_at(gate, 1), raise = hcq_at(outside, 1), held, foreign;
        CHECK_OK(submit_lists(device, &open, &raise, 0, &held));
        CHECK_OK(submit_lists(T.dev, &raise, NULL, 0, &foreign));
        waiter w[3] = {{.points = {held}, .count = 1},
                       {.points = {hcq_at(s, 1)}, .count = 1},
                       {.points = {raise}, .count = 1}};
        for (int i = 0; i < 3; i++) {
            pthread_create(&w[i].thread, NULL, waiter_run, &w[i]);
        }
        if (round > 1) {
            test_sleep_ms(10);
        }
        hcq_result result = hcq_close(device);
        for (int i = 0; i < 3; i++) {
            pthread_join(w[i].thread, NULL);
        }
        CHECK_OK(result);
        for (int i = 0; i < 3; i++) {
            CHECK(w[i].result == HCQ_ERROR_CANCELLED || w[i].result == HCQ_ERROR_CLOSED);
        }
        WAIT_RESULT(foreign, HCQ_ERROR_CANCELLED);
        WAIT_RESULT(raise, HCQ_ERROR_CANCELLED);
    }
}

/* Close finishes what was handed over: its effects are there. */
static void close_finishes_work(void **state) {
    (void)state;
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(T.dev, 0);
    host_log log;
    memset(&log, 0, sizeof log);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_host(q, host_record, &log), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(hcq_queue_submit(q, device, NULL));
    }
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 1);
    CHECK_OK(hcq_queue_submit(q, device, NULL));
    CHECK_OK(hcq_close(device));
    CHECK_U64(log.calls, 51);
    CHECK_OK(test_poll(hcq_at(s, 1)));
}

/* ---- destroyed right after the submit that names it ---- */

static void destroyed_after_submit(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        int held = round % 2, bound = round / 2 % 2, unordered = round / 4 % 2;
        hcq_signal gate = make_signal(T.dev, 0), s = make_signal(T.dev, 0);
        hcq_signal waited = make_signal(T.dev, 1), stamp = make_signal(T.dev, 0);
        hcq_buffer in = make_words(T.dev, 64), out = make_words(T.dev, 64);
        hcq_buffer kept = make_words(T.dev, 4);
        hcq_program *add = make_add(T.dev);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        custom_payload p = {kept.address, 55, 1234};
        hcq_point done;
        CHECK(hcq_queue_wait(q, hcq_at(waited, 1)) >= 0);
        CHECK(!held || hcq_queue_wait(q, hcq_at(gate, 1)) >= 0);
        CHECK(record_add(q, add, in, 0, 7) >= 0);
        CHECK(hcq_queue_copy(q, out, in, 256) >= 0);
        CHECK(hcq_queue_custom(q, &custom_type, &p) >= 0);
        CHECK(hcq_queue_copy(q, hcq_view(kept, 4, 4), out, 4) >= 0);
        CHECK(hcq_queue_timestamp(q, stamp) >= 0);
        CHECK(hcq_queue_signal(q, hcq_at(s, 1)) >= 0);
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        hcq_submission sub = submission(&q, 1);
        sub.flags = unordered ? HCQ_UNORDERED : 0;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
        hcq_queue_destroy(q);
        hcq_program_destroy(add);
        CHECK_OK(hcq_free(in));
        CHECK_OK(hcq_free(out));
        CHECK_OK(hcq_signal_destroy(s));
        CHECK_OK(hcq_signal_destroy(stamp));
        CHECK_OK(hcq_signal_destroy(waited));
        CHECK_OK(hcq_trim(T.dev, 0));
        if (held) {
            CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
            CHECK_OK(hcq_signal_set(gate, 1));
        }
        CHECK_OK(hcq_signal_destroy(gate)); /* its set counts */
        WAIT_OK(done);
        CHECK_U64(READ32(kept, 1), 7);
        CHECK_U64(READ32(kept, 0), 55);
        CHECK_OK(hcq_free(kept));
    }
}

/* Recorded, then destroyed, then submitted: refused, never a crash. */
static void destroyed_before_submit(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 1);
    hcq_buffer a = make_words(T.dev, 16);
    hcq_program *add = make_add(T.dev);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *r = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *p = make_queue(T.dev, HCQ_COMPUTE), *e = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer b = make_words(T.dev, 16);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_fill(r, a, 64, 1, 4), 0);
    CHECK_INDEX(record_add(e, add, a, 0, 1), 0);
    CHECK_INDEX(record_add(p, add, b, 0, 1), 0);
    CHECK_OK(hcq_queue_bind(r, T.dev));
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_OK(hcq_free(a));
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_queue_submit(r, T.dev, NULL), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_queue_submit(e, T.dev, NULL), HCQ_ERROR_CLOSED);
    hcq_program_destroy(add);          /* recordings keep what they need */
    CHECK_OK(hcq_queue_submit(p, T.dev, NULL));
    CHECK_U64(READ32(b, 0), 1);
}

static hcq_result host_slow_failure(void *user) {
    (void)user;
    mock_sleep(20000000);
    return HCQ_ERROR_HOST;
}

/* One of several waits fails while the work runs; the others, later on the
   same lane, are fine. The order of the waits makes no difference. */
static void failed_wait_among_others(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 6; way++) { /* another lane, device, the same lane */
        hcq_queue_kind kind = way < 4 ? HCQ_COPY : HCQ_COMPUTE;
        hcq_queue *a = make_queue(T.dev, kind), *b = make_queue(T.dev, kind);
        hcq_device *device = way / 2 == 1 ? T.dev2 : T.dev;
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_signal s = make_signal(T.dev, 0), t = make_signal(T.dev2, 0);
        hcq_buffer word = make_words(device, 4);
        hcq_point done;
        CHECK_INDEX(hcq_queue_host(a, host_slow_failure, NULL), 0);
        CHECK_INDEX(hcq_queue_signal(a, hcq_at(s, 1)), 1);
        CHECK_INDEX(hcq_queue_host(b, host_nothing, NULL), 0);
        CHECK_INDEX(hcq_queue_signal(b, hcq_at(t, 1)), 1);
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(way % 2 ? s : t, 1)), 0);
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(way % 2 ? t : s, 1)), 1);
        CHECK_INDEX(hcq_queue_write(q, word, 5, 4), 2);
        CHECK_OK(hcq_queue_submit(a, T.dev, NULL));
        CHECK_OK(hcq_queue_submit(b, T.dev, NULL));
        CHECK_OK(hcq_queue_submit(q, device, &done));
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(s, 1), HCQ_ERROR_HOST);
        WAIT_OK(hcq_at(t, 1));
        CHECK_U64(READ32(word, 0), 0);
    }
}

/* The timeline only orders: who waits for it runs after failed work, too. */
static void timeline_waits_pass_failures(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        hcq_device *device = way < 2 ? T.dev : T.dev2;
        hcq_queue *a = make_queue(T.dev, HCQ_COPY), *q = make_queue(device, HCQ_COMPUTE);
        hcq_buffer word = make_words(device, 4);
        hcq_point failed, done;
        CHECK_INDEX(hcq_queue_host(a, host_slow_failure, NULL), 0);
        CHECK_OK(hcq_queue_submit(a, T.dev, &failed));
        if (way % 2) {
            CHECK_INDEX(hcq_queue_wait_device(q, T.dev), 0);
        } else {
            CHECK_INDEX(hcq_queue_wait(q, hcq_at(hcq_device_timeline(T.dev),
                                                 hcq_device_timeline_value(T.dev) - 1)), 0);
        }
        CHECK_INDEX(hcq_queue_write(q, word, 5, 4), 1);
        CHECK_OK(hcq_queue_submit(q, device, &done));
        WAIT_OK(done);
        CHECK_RESULT(test_poll(failed), HCQ_ERROR_HOST); /* it was waited for */
        CHECK_U64(READ32(word, 0), 5);
        CHECK_OK(hcq_queue_reset(a));  /* and eager calls follow failed work as well */
        CHECK_INDEX(hcq_queue_host(a, host_slow_failure, NULL), 0);
        CHECK_OK(hcq_queue_submit(a, T.dev, NULL));
        CHECK_OK(hcq_copyin(word, &way, 4));
        CHECK_U64(READ32(word, 0), way);
    }
}

/* One of two queues fails: the submission fails as a whole, both lanes go on. */
static void one_of_two_queues_fails(void **state) {
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        host_log log;
        memset(&log, 0, sizeof log);
        log.result = HCQ_ERROR_HOST;
        hcq_queue *q[2] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COPY)};
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev, 4);
        hcq_signal s = make_signal(T.dev, 0), mine[2];
        hcq_point raise = hcq_at(s, 1), done, later[2];
        for (uint32_t i = 0; i < 2; i++) {
            mine[i] = make_signal(T.dev, 0);
            CHECK_INDEX(hcq_queue_write(q[i], i ? b : a, 7, 4), 0);
            CHECK_INDEX(hcq_queue_host(q[i], i == which ? host_record : host_nothing, &log), 1);
            CHECK_INDEX(hcq_queue_signal(q[i], hcq_at(mine[i], 1)), 2);
        }
        hcq_submission sub = submission(q, 2);
        sub.signals = &raise;
        sub.signal_count = 1;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(raise, HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(mine[which], 1), HCQ_ERROR_HOST);
        log.result = HCQ_OK;
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        for (uint32_t i = 0; i < 2; i++) {
            CHECK_OK(hcq_signal_reset(mine[i], 0));
            CHECK_OK(hcq_queue_submit(q[i], T.dev, &later[i]));
        }
        CHECK_OK(hcq_wait(later, 2, HCQ_ALL, BOUND));
        CHECK_U64(READ32(a, 0), 7);
        CHECK_U64(READ32(b, 0), 7);
    }
}

#define HOST_TESTS \
    TEST(releases_without_anybody_asking), TEST(any_wait_notices_completion), \
    TEST(failed_wait_among_others), TEST(timeline_waits_pass_failures), \
    TEST(one_of_two_queues_fails), \
    TEST(host_commands_run_in_order), TEST(host_command_sees_memory), \
    TEST(host_command_calls_back), TEST(host_command_fails), \
    TEST(failure_propagates), TEST(failed_points_are_exact), \
    TEST(native_refusals), TEST(lost_device), TEST(close_cancels_held_work), \
    TEST(close_finishes_work), TEST(destroyed_after_submit), TEST(destroyed_before_submit)
