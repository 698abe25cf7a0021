/* Signals and host waits. Part of conformance.c. */
#include "shared.h"

static void signal_values(void **state) {
    (void)state;
    static const uint64_t starts[] = {0, 1, 41, 0x100000000ull, INT64_MAX - 1};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        uint64_t value = 99;
        hcq_signal s = make_signal(T.dev, starts[i]);
        CHECK(s.id != 0);
        CHECK_OK(hcq_signal_value(s, &value));
        CHECK_U64(value, starts[i]);
        CHECK_OK(test_poll(hcq_at(s, starts[i])));
        CHECK_RESULT(test_poll(hcq_at(s, starts[i] + 1)), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_set(s, starts[i] + 1));
        CHECK_RESULT(hcq_signal_set(s, starts[i] + 1), HCQ_ERROR_INVALID); /* must rise */
        CHECK_RESULT(hcq_signal_set(s, starts[i]), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_signal_value(s, &value));
        CHECK_U64(value, starts[i] + 1);
        CHECK_OK(hcq_signal_destroy(s));
    }
    hcq_signal s;
    CHECK_OK(hcq_signal_create(T.dev, INT64_MAX, &s));
    CHECK_RESULT(hcq_signal_set(s, (uint64_t)INT64_MAX + 1), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_signal_create(T.dev, (uint64_t)INT64_MAX + 1, &s), HCQ_ERROR_INVALID);
}

/* Jumps, values beyond 32 bits, the largest one: from the host and by a queue. */
static void signal_jumps(void **state) {
    (void)state;
    static const uint64_t values[] = {1, 2, 0xffffffffull, 0x100000000ull, 0x100000007ull,
                                      INT64_MAX - 1, INT64_MAX};
    hcq_signal host = make_signal(T.dev, 0), queued = make_signal(T.dev, 0);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint64_t value = 0;
        hcq_point raise = hcq_at(queued, values[i]), done;
        CHECK_RESULT(test_poll(hcq_at(host, values[i])), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_set(host, values[i]));
        CHECK_OK(test_poll(hcq_at(host, values[i])));
        CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT);
        CHECK_OK(submit_lists(T.dev, NULL, &raise, 0, &done));
        WAIT_OK(raise);
        WAIT_OK(done);
        CHECK_OK(hcq_signal_value(queued, &value));
        CHECK_U64(value, values[i]);
    }
}

static void signal_reset(void **state) {
    (void)state;
    uint64_t value = 0;
    hcq_signal s = make_signal(T.dev, 50);
    hcq_point wait = hcq_at(s, 60), raise = hcq_at(s, 70), done;
    CHECK_OK(hcq_signal_reset(s, 10)); /* down is legal here */
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_U64(value, 10);
    CHECK_OK(submit_lists(T.dev, &wait, NULL, 0, &done));
    CHECK_RESULT(hcq_signal_reset(s, 0), HCQ_ERROR_BUSY); /* somebody waits */
    CHECK_OK(hcq_signal_set(s, 60));
    WAIT_OK(done);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_signal_reset(s, 1));

    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1);
    CHECK_OK(submit_lists(T.dev, &open, &raise, 0, &done));
    CHECK_RESULT(hcq_signal_reset(s, 0), HCQ_ERROR_BUSY); /* somebody will raise it */
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(done);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_signal_reset(s, 0));
    CHECK_RESULT(hcq_signal_reset(s, (uint64_t)INT64_MAX + 1), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_U64(value, 0);
    CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT); /* the old 70 does not count */
    CHECK_OK(submit_lists(T.dev, NULL, &raise, 0, &done));
    WAIT_OK(raise);
}

static void signal_failure(void **state) {
    (void)state;
    uint64_t value = 0;
    hcq_signal s = make_signal(T.dev, 5);
    CHECK_RESULT(hcq_signal_fail(s, HCQ_OK), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST));
    hcq_signal_fail(s, HCQ_ERROR_LOST); /* the first one stays */
    CHECK_OK(test_poll(hcq_at(s, 5)));  /* reached is reached */
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_ERROR_HOST);
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_HOST);
    CHECK_U64(value, 5);
    CHECK_RESULT(hcq_signal_set(s, 9), HCQ_ERROR_HOST);
    CHECK_RESULT(test_poll(hcq_at(s, 9)), HCQ_ERROR_HOST);
    CHECK_OK(hcq_signal_reset(s, 5));  /* forgets the failure */
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(s, 6));
    CHECK_OK(test_poll(hcq_at(s, 6)));
}

static void stale_signals(void **state) {
    (void)state;
    uint64_t value = 0;
    hcq_signal s = make_signal(T.dev, 7);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_RESULT(hcq_signal_destroy(s), HCQ_ERROR_CLOSED);
    for (int i = 0; i < 300; i++) {    /* its place is taken by others */
        make_signal(T.dev, 100);
    }
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_set(s, 8), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_fail(s, HCQ_ERROR_HOST), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_reset(s, 0), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_timestamp(s, &value), HCQ_ERROR_CLOSED);
    CHECK_RESULT(test_poll(hcq_at(s, 1)), HCQ_ERROR_CLOSED);
    WAIT_RESULT(hcq_at(s, 1), HCQ_ERROR_CLOSED);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 100)), HCQ_ERROR_CLOSED);
    hcq_signal none = {0}, made_up = {0xdeadbeefdeadbeefull};
    CHECK(hcq_signal_value(none, &value) < 0);
    CHECK(hcq_signal_value(made_up, &value) < 0);
    CHECK(test_poll(hcq_at(made_up, 1)) < 0);
    hcq_device *device = test_open(0, NULL);
    hcq_point point, line;
    s = make_signal(device, 1);
    CHECK_OK(submit_lists(device, NULL, NULL, 0, &point));
    line = hcq_at(hcq_device_timeline(device), 1);
    CHECK_OK(hcq_close(device));       /* its signals go with it */
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_CLOSED);
    CHECK_RESULT(test_poll(point), HCQ_ERROR_CLOSED);
    CHECK_RESULT(test_poll(line), HCQ_ERROR_CLOSED);
}

static void signal_timestamps(void **state) {
    (void)state;
    uint64_t stamp = 77, value = 0, before, after;
    hcq_signal s = make_signal(T.dev, 3);
    CHECK_OK(hcq_signal_timestamp(s, &stamp));
    CHECK_U64(stamp, 0);
    for (int kind = HCQ_COMPUTE; kind <= HCQ_COPY; kind++) {
        hcq_queue *q = make_queue(T.dev, (hcq_queue_kind)kind);
        hcq_point done;
        CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
        before = hcq_sys_now_ns();
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        after = hcq_sys_now_ns();
        CHECK_OK(hcq_signal_timestamp(s, &stamp));
        hcq_clock clock = CLOCK_OF(T.dev);
        uint64_t host = hcq_clock_to_host(&clock, stamp);
        CHECK(host + clock.error_ns >= before && host <= after + clock.error_ns);
        CHECK_OK(hcq_signal_value(s, &value));
        CHECK_U64(value, 3);           /* never touched */
    }
    CHECK_OK(hcq_signal_reset(s, 3));
    CHECK_OK(hcq_signal_timestamp(s, &stamp));
    CHECK_U64(stamp, 0);
    CHECK_OK(hcq_signal_destroy(s));
    for (int i = 0; i < 40; i++) {     /* a place used before is not stale */
        CHECK_OK(hcq_signal_timestamp(make_signal(T.dev, 0), &stamp));
        CHECK_U64(stamp, 0);
    }
}

/* Two stamps around work are in order, and belong to their submissions. */
static void timestamps_in_order(void **state) {
    (void)state;
    hcq_signal first = make_signal(T.dev, 0), second = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer buffer = make_words(T.dev, 65536);
    uint64_t a = 0, b = 0, last = 0;
    CHECK_INDEX(hcq_queue_timestamp(q, first), 0);
    CHECK_INDEX(hcq_queue_fill(q, buffer, 262144, 5, 4), 1);
    CHECK_INDEX(hcq_queue_timestamp(q, second), 2);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (int i = 0; i < 20; i++) {
        hcq_point done;
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK_OK(hcq_signal_timestamp(first, &a));
        CHECK_OK(hcq_signal_timestamp(second, &b));
        CHECK(last <= a && a <= b);
        last = b;
    }
    CHECK(b > 0);
}

static void wait_all_any(void **state) {
    (void)state;
    hcq_signal up = make_signal(T.dev, 10), low = make_signal(T.dev2, 0);
    hcq_signal lost = make_signal(T.dev, 4), hosted = make_signal(T.dev2, 4);
    hcq_signal gone = make_signal(T.dev, 9);
    CHECK_OK(hcq_signal_fail(lost, HCQ_ERROR_LOST));
    CHECK_OK(hcq_signal_fail(hosted, HCQ_ERROR_HOST));
    CHECK_OK(hcq_signal_destroy(gone));
    const hcq_point reached = hcq_at(up, 10), pending = hcq_at(low, 1);
    const hcq_point failed = hcq_at(lost, 5), failed2 = hcq_at(hosted, 5);
    const hcq_point old = hcq_at(lost, 4), stale = hcq_at(gone, 1);
    hcq_point list[8];
    CHECK_OK(hcq_wait(NULL, 0, HCQ_ALL, 0));
    CHECK_OK(hcq_wait(NULL, 0, HCQ_ANY, HCQ_FOREVER));
#define CASE(all, any, ...) \
    do { \
        const hcq_point make[] = {__VA_ARGS__}; \
        memcpy(list, make, sizeof make); \
        check_wait_orders(list, (uint32_t)(sizeof make / sizeof make[0]), (all), (any)); \
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
}

/* A timeout poisons nothing: the same points are waited out afterwards. */
static void wait_again_after_timeout(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0), gate = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1), raise = hcq_at(s, 5), done;
    CHECK_OK(submit_lists(T.dev, &open, &raise, 0, &done));
    hcq_point points[3] = {done, raise, hcq_at(s, 2)};
    uint64_t start = hcq_sys_now_ns();
    CHECK_RESULT(hcq_wait(points, 3, HCQ_ALL, SECOND / 50), HCQ_TIMEOUT);
    CHECK(hcq_sys_now_ns() - start >= SECOND / 50 - SECOND / 500);
    CHECK_RESULT(hcq_wait(points, 3, HCQ_ANY, SECOND / 50), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_wait(points, 3, HCQ_ALL, BOUND));
    CHECK_OK(hcq_wait(points, 3, HCQ_ALL, 0));
}

static void wait_many_points(void **state) {
    (void)state;
    enum { N = 500 };
    static hcq_point points[N];
    hcq_signal shared = make_signal(T.dev, 0);
    for (uint32_t i = 0; i < N; i++) {
        hcq_device *device = i % 3 ? T.dev : T.dev2;
        switch (i % 4) {
        case 0:
            CHECK_OK(submit_lists(device, NULL, NULL, 0, &points[i]));
            break;
        case 1:
            points[i] = hcq_at(make_signal(device, 0), 1);
            CHECK_OK(submit_lists(device, NULL, &points[i], 0, NULL));
            break;
        case 2:
            points[i] = hcq_at(shared, 1);
            break;
        default:
            points[i] = hcq_at(hcq_device_timeline(device),
                               hcq_device_timeline_value(device) - 1);
        }
    }
    CHECK_OK(hcq_wait(points, N, HCQ_ANY, BOUND));
    CHECK_OK(hcq_signal_set(shared, 1));
    CHECK_OK(hcq_wait(points, N, HCQ_ALL, BOUND));
}

/* Threads asleep in hcq_wait are woken by set, fail, destroy and submissions. */
static void waiters_are_woken(void **state) {
    (void)state;
    enum { N = 6 };
    waiter w[N];
    for (int round = 0; round < 10; round++) {
        hcq_signal s = make_signal(T.dev, 0), f = make_signal(T.dev, 0);
        hcq_signal d = make_signal(T.dev, 0), g = make_signal(T.dev, 0);
        hcq_point open = hcq_at(g, 1), done, unreached = hcq_at(make_signal(T.dev, 0), 1);
        CHECK_OK(submit_lists(T.dev, &open, NULL, 0, &done));
        const waiter start[N] = {
            {.points = {hcq_at(s, 1)}, .count = 1, .mode = HCQ_ALL},
            {.points = {hcq_at(s, 1), done}, .count = 2, .mode = HCQ_ALL},
            {.points = {unreached, hcq_at(s, 1)}, .count = 2, .mode = HCQ_ANY},
            {.points = {hcq_at(f, 1)}, .count = 1, .mode = HCQ_ALL},
            {.points = {hcq_at(d, 1)}, .count = 1, .mode = HCQ_ALL},
            {.points = {done, unreached}, .count = 2, .mode = HCQ_ANY},
        };
        memcpy(w, start, sizeof w);
        for (int i = 0; i < N; i++) {
            pthread_create(&w[i].thread, NULL, waiter_run, &w[i]);
        }
        if (round % 2) {
            test_sleep_ms(5);
        }
        hcq_result set = hcq_signal_set(s, 1);
        hcq_result fail = hcq_signal_fail(f, HCQ_ERROR_NATIVE);
        hcq_result destroy = hcq_signal_destroy(d);
        hcq_result gate = hcq_signal_set(g, 1);
        for (int i = 0; i < N; i++) {
            pthread_join(w[i].thread, NULL);
        }
        CHECK_OK(set);
        CHECK_OK(fail);
        CHECK_OK(destroy);
        CHECK_OK(gate);
        CHECK_OK(w[0].result);
        CHECK_OK(w[1].result);
        CHECK_OK(w[2].result);
        CHECK_RESULT(w[3].result, HCQ_ERROR_NATIVE);
        CHECK(w[4].result == HCQ_ERROR_CANCELLED || w[4].result == HCQ_ERROR_CLOSED);
        CHECK_OK(w[5].result);
    }
}

typedef struct watcher {
    pthread_t thread;
    hcq_signal signal;
    uint64_t last;
    uint32_t stop, fell;
} watcher;

static void *watcher_run(void *user) {
    watcher *w = (watcher *)user;
    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
        uint64_t value = 0;
        if (hcq_signal_value(w->signal, &value) != HCQ_OK || value < w->last) {
            w->fell = 1;
        }
        w->last = value;
    }
    return NULL;
}

/* A read never shows less than an earlier one, whoever raises. */
static void reads_never_fall(void **state) {
    (void)state;
    watcher w = {.signal = make_signal(T.dev, 0)};
    hcq_point done;
    pthread_create(&w.thread, NULL, watcher_run, &w);
    hcq_result result = HCQ_OK;
    for (uint64_t i = 1; i <= 300 && result == HCQ_OK; i++) {
        hcq_point raise = hcq_at(w.signal, i);
        result = i % 3 ? submit_lists(i % 2 ? T.dev : T.dev2, NULL, &raise, 0, &done)
                       : hcq_signal_set(w.signal, i);
        if (result == HCQ_OK) {
            result = hcq_wait(&raise, 1, HCQ_ALL, BOUND);
        }
    }
    __atomic_store_n(&w.stop, 1, __ATOMIC_RELEASE);
    pthread_join(w.thread, NULL);
    CHECK_OK(result);
    CHECK(!w.fell);
}

/* Destroying a signal that pending work raises: the raise still counts for
   work that waits already; who waits for more is cancelled. */
static void destroyed_signal_still_counts(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0), s = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1), raise = hcq_at(s, 1), done, fine, never;
    CHECK_OK(submit_lists(T.dev, &open, &raise, 0, &done));
    CHECK_OK(submit_lists(T.dev2, &raise, NULL, HCQ_UNORDERED, &fine));
    hcq_point beyond = hcq_at(s, 2);
    CHECK_OK(submit_lists(T.dev2, &beyond, NULL, HCQ_UNORDERED, &never));
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(done);
    WAIT_OK(fine);
    WAIT_RESULT(never, HCQ_ERROR_CANCELLED);
}

/* What a held recording waits for behind its first wait is pending, too; no other signal. */
static void reset_beside_recorded_waits(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0), later = make_signal(T.dev, 0);
    hcq_signal other = make_signal(T.dev, 0);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point done;
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 1);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(later, 1)), 2);
    CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 3);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_RESULT(hcq_signal_reset(later, 7), HCQ_ERROR_BUSY);
    CHECK_OK(hcq_signal_reset(other, 7));
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_signal_set(later, 1));
    WAIT_OK(done);
    CHECK_OK(hcq_signal_reset(later, 7));
}

#define SIGNAL_TESTS \
    TEST(signal_values), TEST(signal_jumps), TEST(signal_reset), TEST(signal_failure), \
    TEST(reset_beside_recorded_waits), \
    TEST(stale_signals), TEST(signal_timestamps), TEST(timestamps_in_order), \
    TEST(wait_all_any), TEST(wait_again_after_timeout), TEST(wait_many_points), \
    TEST(waiters_are_woken), TEST(reads_never_fall), TEST(destroyed_signal_still_counts)
