/* notify.h - notifications, and handles for event loops: when they come, once, in
   which order and from which thread, and how they are taken back. Part of
   conformance.c. */
#include <sys/resource.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

/* ---- when they come ---- */

TEST(notify_at_once) {
    static notice n[6];
    hcq_signal s = make_signal(T.dev, 7), failed = make_signal(dev2(), 3);
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_NATIVE, NULL));
    const struct { hcq_point point; hcq_result want; } cases[6] = {
        {hcq_at(s, 7), HCQ_OK},
        {hcq_at(s, 1), HCQ_OK},
        {hcq_at(s, 0), HCQ_OK},
        {hcq_at(failed, 3), HCQ_OK},   /* reached is reached */
        {hcq_at(failed, 4), HCQ_ERROR_NATIVE},
        {hcq_at(hcq_device_timeline(T.dev), 0), HCQ_OK},
    };
    for (int i = 0; i < 6; i++) {
        NOTIFY_AT(&n[i], cases[i].point);
        CHECK_U64(notice_calls(&n[i]), 1); /* before hcq_notify returned */
        CHECK_RESULT(n[i].result, cases[i].want);
        CHECK(pthread_equal(n[i].thread, pthread_self()));
        CHECK(notice_is_over(n[i].id));
    }
    CHECK_OK(hcq_signal_set(s, 8));
    CHECK_OK(hcq_signal_set(s, 100));
    for (int i = 0; i < 6; i++) {
        CHECK_U64(notice_calls(&n[i]), 1); /* once */
    }
}

/* Held first, then run by somebody's set: nobody calls hcq after that. */
TEST(notify_when_released) {
    static notice n[5];
    for (int way = 0; way < 4; way++) {
        hcq_device *device = way % 2 ? dev2() : T.dev;
        hcq_point gate = make_gate(T.dev), low = make_gate(dev2());
        hcq_queue *q = make_queue(device, way / 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_point raise = hcq_at(low.signal, 2), done;
        CHECK_INDEX(record_word(q, make_words(device, 1), 5, 4), 0);
        NOTIFY_AT(&n[0], low);         /* before anybody was going to raise it */
        CHECK_OK(submit_queue(q, device, &gate, &raise, 0, &done));
        const hcq_point points[5] = {low, raise, done, timeline_now(device), gate};
        for (int i = 1; i < 5; i++) {
            NOTIFY_AT(&n[i], points[i]);
        }
        for (int i = 0; i < 5; i++) {
            SILENT(&n[i]);
        }
        open_gate(gate);
        for (int i = 0; i < 5; i++) {
            NOTIFIED(&n[i], HCQ_OK);
        }
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(hcq_signal_set(gate.signal, 2));
        CHECK_OK(hcq_signal_set(low.signal, 3));
        for (int i = 0; i < 5; i++) {
            CHECK_U64(notice_calls(&n[i]), 1);
            CHECK(notice_is_over(n[i].id));
        }
    }
}

/* What is asked about first on a device is noticed, whichever lane it runs on. */
TEST(notify_on_every_lane) {
    static notice n;
    for (uint32_t lane = 0; lane < 2; lane++) {
        hcq_device *device = OPEN_WITH(0, .compute_lanes = 2);
        hcq_queue *q = make_holder(device);
        hcq_point done;
        CHECK_OK(SUBMIT(device, q, &done, .affinity = lane));
        CHECK(word_until(&SEEN->hold_began, 1));
        NOTIFY_AT(&n, done);
        mock_sleep(2000000);           /* whoever will notice it sleeps by now */
        SILENT(&n);
        hold_release();
        NOTIFIED(&n, HCQ_OK);
        CHECK_OK(hcq_close(device));
    }
}

/* A submission's point is exact; the timeline's waits for all before it, and only
   orders: it is reached if those fail. */
TEST(notify_exact_and_prefix) {
    static notice exact, prefix, first;
    for (int fails = 0; fails < 2; fails++) {
        hcq_point gate = make_gate(T.dev), held, done;
        CHECK_OK(submit_lists(T.dev, &gate, NULL, HCQ_UNORDERED, &held));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, HCQ_UNORDERED, &done));
        NOTIFY_AT(&first, held);
        NOTIFY_AT(&prefix, timeline_now(T.dev));
        NOTIFY_AT(&exact, done);
        NOTIFIED(&exact, HCQ_OK);
        SILENT(&first);
        SILENT(&prefix);
        CHECK_OK(fails ? hcq_signal_fail(gate.signal, HCQ_ERROR_LOST, NULL) : HCQ_OK);
        CHECK_OK(fails ? hcq_signal_reset(gate.signal, 0) : hcq_signal_set(gate.signal, 1));
        NOTIFIED(&first, fails ? HCQ_ERROR_LOST : HCQ_OK);
        NOTIFIED(&prefix, HCQ_OK);
    }
}

/* ---- many ---- */

/* Asked for in any order, told in the order of values: by one set for all of
   them, by one for each, and by work. */
TEST(notify_many_in_value_order) {
    enum { N = 10000, STEP = 7919 };   /* a prime: each once */
    static notice n[N];
    for (int way = 0; way < 3; way++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point raise = hcq_at(s, N);
        uint32_t before = 0;
        for (uint32_t i = 0; i < N; i++) {
            uint32_t k = (i * STEP + (uint32_t)T.seed) % N;
            NOTIFY_AT(&n[k], hcq_at(s, k + 1));
        }
        if (way == 0) {
            open_gate(raise);
        }
        for (uint32_t i = 0; i < N && way == 1; i++) {
            CHECK_OK(hcq_signal_set(s, i + 1));
            CHECK_U64(notice_calls(&n[i]), 1);
            CHECK(i + 1 == N || notice_calls(&n[i + 1]) == 0);
        }
        CHECK_OK(way == 2 ? submit_lists(T.dev, NULL, &raise, 0, NULL) : HCQ_OK);
        for (uint32_t i = 0; i < N; i++) {
            NOTIFIED(&n[i], HCQ_OK);
            CHECK(way == 2 || n[i].order > before); /* a single thread finds out */
            before = n[i].order;
        }
        CHECK_OK(hcq_signal_destroy(s));
        for (uint32_t i = 0; i < N; i++) {
            CHECK_U64(notice_calls(&n[i]), 1);
        }
    }
}

/* ---- a chain ---- */

enum { RELAY_NOTIFY, RELAY_SET, RELAY_SUBMIT };

typedef struct relay {
    int way;
    uint32_t count;                    /* links of the chain */
    uint32_t calls;                    /* atomic */
    hcq_signal signal;
    hcq_result result;
} relay;

static void relay_fails(relay *r, hcq_result result) {
    if (result != HCQ_OK) {
        r->result = result;
        __atomic_store_n(&r->calls, r->count, __ATOMIC_RELEASE); /* ends the test */
    }
}

/* Each call brings about the next one, which another thread may run at once. */
static void relay_run(void *user, hcq_result result) {
    relay *r = (relay *)user;
    uint32_t call = __atomic_add_fetch(&r->calls, 1, __ATOMIC_ACQ_REL);
    hcq_point next = hcq_at(r->signal, r->way == RELAY_NOTIFY ? 1 : call + 1);
    relay_fails(r, result);
    if (call >= r->count) {
        return;
    }
    if (r->way != RELAY_SET) {
        relay_fails(r, hcq_notify(next, relay_run, r, NULL));
    }
    if (r->way == RELAY_SET) {
        relay_fails(r, hcq_signal_set(r->signal, next.value));
    } else if (r->way == RELAY_SUBMIT) {
        relay_fails(r, submit_lists(T.dev, NULL, &next, 0, NULL));
    }
}

static void *relay_start(void *user) {
    relay *r = (relay *)user;
    for (uint32_t i = 2; i <= r->count && r->way == RELAY_SET; i++) {
        relay_fails(r, hcq_notify(hcq_at(r->signal, i), relay_run, r, NULL));
    }
    relay_run(r, HCQ_OK);
    word_until(&r->calls, r->count);
    return NULL;
}

TEST(notify_chain_on_a_small_stack) {
    static relay r;
    for (int way = RELAY_NOTIFY; way <= RELAY_SUBMIT; way++) {
        r = (relay){.way = way, .count = T.quick ? 10000 : 100000};
        if (way == RELAY_SUBMIT) {
            r.count /= 50;             /* a round trip each */
        }
        r.signal = make_signal(T.dev, 1);
        on_a_small_stack(relay_start, &r);
        CHECK_OK(r.result);
        CHECK_U64(r.calls, r.count);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    }
}

/* ---- cancel ---- */

TEST(notify_cancel) {
    static notice first, second, third;
    hcq_signal s = make_signal(T.dev, 0);
    NOTIFY_AT(&first, hcq_at(s, 1));
    NOTIFY_AT(&second, hcq_at(s, 1));
    NOTIFY_AT(&third, hcq_at(s, 2));
    CHECK_RESULT(hcq_signal_reset(s, 0), HCQ_ERROR_BUSY); /* they wait for it */
    CHECK(first.id.id != second.id.id);
    CHECK_OK(hcq_notify_cancel(first.id));
    CHECK(notice_is_over(first.id));
    CHECK_OK(hcq_signal_set(s, 1));
    SILENT(&first);
    NOTIFIED(&second, HCQ_OK);
    SILENT(&third);
    CHECK(notice_is_over(first.id));
    CHECK(notice_is_over(second.id));
    CHECK_OK(hcq_notify_cancel(third.id));
    CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST, NULL));
    SILENT(&third);
    CHECK_OK(hcq_signal_reset(s, 0));  /* nothing is left that waits */
    hcq_notification old = first.id;
    NOTIFY_AT(&first, hcq_at(s, 1));   /* whose place may be the old one's */
    CHECK(notice_is_over(old));
    CHECK_OK(hcq_signal_set(s, 1));
    NOTIFIED(&first, HCQ_OK);
}

/* ---- handles for event loops ---- */

static uint64_t count_files(void) {
    return test_entries("/proc/self/fd", 0);
}

enum { BY_NOTHING, BY_SET, BY_WORK, BY_OTHERS_WORK, BY_OWN_END, BY_FAILURE, BY_DESTRUCTION,
       BY_CANCEL, HANDLE_WAYS };

/* Readable at once (BY_NOTHING) or later, whatever ends the point, but not after a
   cancel. */
TEST(notify_handle) {
    (void)dev2();                      /* a driver of a GPU's has files open for each */
    uint64_t files = count_files();
    for (int way = BY_NOTHING; way < HANDLE_WAYS; way++) {
        hcq_signal s = make_signal(T.dev, way == BY_NOTHING);
        hcq_point point = hcq_at(s, 1), gate = make_gate(dev2());
        hcq_notification id = {0};
        intptr_t handle = -1;
        if (way == BY_OWN_END) {
            CHECK_OK(submit_lists(T.dev, &gate, NULL, 0, &point));
        } else if (way == BY_WORK || way == BY_OTHERS_WORK) {
            CHECK_OK(submit_lists(way == BY_WORK ? T.dev : dev2(), &gate, &point, 0, NULL));
        }
        CHECK_OK(hcq_notify_handle(point, &handle, way % 2 ? &id : NULL));
        CHECK(handle >= 0);
        CHECK(way == BY_NOTHING || !readable(handle, 0));
        switch (way) {
        case BY_NOTHING: break;
        case BY_SET: CHECK_OK(hcq_signal_set(s, 1)); break;
        case BY_FAILURE: CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST, NULL)); break;
        case BY_DESTRUCTION: CHECK_OK(hcq_signal_destroy(s)); break;
        case BY_CANCEL: CHECK_OK(hcq_notify_cancel(id)); break;
        default: open_gate(gate);
        }
        if (way == BY_CANCEL) {
            CHECK_OK(hcq_signal_set(s, 1));
            CHECK(!readable(handle, 20));
        } else {
            CHECK(readable(handle, (int)(BOUND / 1000000))); /* asleep in poll, not in hcq */
            CHECK(readable(handle, 0)); /* it stays so */
        }
        CHECK(notice_is_over(id));
        CHECK(close((int)handle) == 0);
    }
    synchronize_both();
    CHECK_U64(count_files(), files);
}

/* The user may close his handle whenever he wants; what has its number then is
   not touched. */
TEST(notify_handle_closed_early) {
#ifdef __linux__
    uint64_t files = count_files();
    hcq_signal s = make_signal(T.dev, 0);
    hcq_notification id;
    intptr_t set, cancelled;
    uint64_t word = 0;
    CHECK_OK(hcq_notify_handle(hcq_at(s, 1), &set, NULL));
    CHECK_OK(hcq_notify_handle(hcq_at(s, 1), &cancelled, &id));
    CHECK(close((int)set) == 0);
    CHECK(close((int)cancelled) == 0);
    int first = eventfd(0, EFD_NONBLOCK), second = eventfd(0, EFD_NONBLOCK);
    CHECK(first == (int)set || first == (int)cancelled); /* the numbers are in use again */
    CHECK(second == (int)set || second == (int)cancelled);
    CHECK_OK(hcq_notify_cancel(id));
    CHECK_OK(hcq_signal_set(s, 1));
    CHECK(!readable(first, 0) && !readable(second, 0));
    word = 1;
    CHECK(write(first, &word, sizeof word) == (ssize_t)sizeof word); /* and still open */
    CHECK(write(second, &word, sizeof word) == (ssize_t)sizeof word);
    close(first);
    close(second);
    CHECK_U64(count_files(), files);
#else
    SKIP("reads eventfd's numbers");
#endif
}

/* No handle to be had: said, and nothing is left behind. */
TEST(notify_handle_out_of_files) {
    struct rlimit old, low;
    hcq_signal s = make_signal(T.dev, 0);
    uint64_t files = count_files();
    int lowest = dup(2);
    CHECK(lowest > 2 && close(lowest) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    for (int room = 0; room < 2; room++) { /* none, and one where two are needed */
        intptr_t handle = -5;
        low = old;
        low.rlim_cur = (rlim_t)(lowest + room);
        CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
        hcq_result result = hcq_notify_handle(hcq_at(s, 1), &handle, NULL);
        setrlimit(RLIMIT_NOFILE, &old);
        if (room == 1 && result == HCQ_OK) {
            close((int)handle);        /* a way that needs only one is fine */
        } else {
            CHECK_RESULT(result, HCQ_ERROR_NATIVE);
            CHECK(handle == -1);
        }
    }
    CHECK_OK(hcq_signal_set(s, 1));
    CHECK_U64(count_files(), files);
}
