/* Numbers of a device's timeline that are still to come; raises that end in any
   order. Part of conformance.c. */

/* Submits `ahead` short submissions and one that lasts until it is let go. */
static void number_submit(uint32_t ahead, int host, uint32_t *go) {
    hcq_queue *q = host ? make_queue(T.dev, HCQ_COPY) : make_holder(T.dev);
    CHECK(!host || hcq_queue_host(q, host_until, go) == 0);
    for (uint32_t i = 0; i < ahead; i++) {
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, NULL));
    }
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
}

/* A thread that waits, or a notification, hears of a number that was not given yet
   when it began, though nobody calls hcq once the work was submitted. */
TEST(numbers_to_come_are_told) {
    static notice n;
    static blocked_call w;
    for (uint32_t way = 0; way < 8; way++) {
        const uint32_t ahead = way & 1 ? 3 : 0, waits = way & 2, host = way & 4;
        static uint32_t go;
        go = 0;
        w = (blocked_call){.count = 1, .timeout_ns = BOUND};
        w.points[0] = hcq_at(hcq_device_timeline(T.dev), hcq_device_timeline_value(T.dev) + ahead);
        if (waits) {
            CHECK(pthread_create(&w.thread, NULL, blocked_wait, &w) == 0);
            mock_sleep(3000000);       /* asleep by now, most of the time */
        } else {
            NOTIFY_AT(&n, w.points[0]);
        }
        number_submit(ahead, host != 0, &go);
        mock_sleep(3000000);
        CHECK(waits ? !is_over(&w) : !notice_calls(&n));
        __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
        hold_release();
        if (waits) {
            CHECK(word_until(&w.over, 1));
            pthread_join(w.thread, NULL);
            CHECK_OK(w.result);
        } else {
            NOTIFIED(&n, HCQ_OK);
        }
        CHECK_OK(test_poll(w.points[0]));
    }
}

/* ---- submissions that a signal was promised by, and that fail at run time ---- */

enum { RAISES = 3 };

typedef struct raises {
    uint64_t at[RAISES];               /* the values, rising */
    uint32_t fails, over;              /* by bit */
    uint64_t value, failed_from;       /* of the signal, by the rules; UINT64_MAX: it has not */
} raises;

/* Submission k is over: the signal follows the rules of a failure. */
static void raises_end(raises *r, uint32_t k) {
    const uint64_t v = r->at[k];
    uint64_t below = r->value;
    r->over |= 1u << k;
    if (!(r->fails >> k & 1)) {
        r->value = v < r->failed_from && v > r->value ? v : r->value;
        return;
    }
    for (uint32_t i = 0; is_cpu() && !TEST_CHECKED && i < k; i++) { /* elsewhere what follows a host
                                                      command is handed over after it */
        below = !(r->over >> i & 1) && r->at[i] > below ? r->at[i] : below;
    }
    if (v < r->failed_from) {
        r->failed_from = below + 1;
    }
}

static void raises_are(const raises *r, hcq_signal s) {
    uint64_t value = 0;
    hcq_result read = hcq_signal_value(s, &value);
    CHECK_RESULT(read, r->failed_from == UINT64_MAX ? HCQ_OK : HCQ_ERROR_HOST);
    CHECK_U64(value, r->value);
    for (uint64_t v = 1; v <= 9; v++) {
        CHECK_RESULT(test_poll(hcq_at(s, v)), v <= r->value ? HCQ_OK
                                              : v >= r->failed_from ? HCQ_ERROR_HOST
                                                                    : HCQ_TIMEOUT);
    }
}

/* Three that run on devices of their own end in each order, failing or not: each value
   gets its answer at each time. */
TEST(failures_in_every_order) {
    static const uint8_t orders[6][RAISES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                              {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static uint32_t go[RAISES];
    hcq_device *devices[RAISES] = {T.dev, dev2(), test_open(2, NULL)};
    for (uint32_t way = 0; way < 6 * 8; way++) {
        raises r = {{2, 5, 8}, way / 6, 0, 0, UINT64_MAX};
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point done[RAISES];
        memset(go, 0, sizeof go);
        for (uint32_t k = 0; k < RAISES; k++) {
            hcq_queue *q = make_queue(devices[k], HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_host(q, host_until, &go[k]), 0);
            CHECK(!(r.fails >> k & 1) || hcq_queue_host(q, host_fails, NULL) == 1);
            CHECK(hcq_queue_signal(q, hcq_at(s, r.at[k])) >= 1);
            CHECK_OK(hcq_queue_submit(q, devices[k], &done[k]));
        }
        raises_are(&r, s);
        for (uint32_t i = 0; i < RAISES; i++) {
            const uint32_t k = orders[way % 6][i];
            __atomic_store_n(&go[k], 1, __ATOMIC_RELEASE);
            WAIT_RESULT(done[k], r.fails >> k & 1 ? HCQ_ERROR_HOST : HCQ_OK);
            raises_end(&r, k);
            raises_are(&r, s);
        }
    }
    CHECK_OK(hcq_close(devices[2]));
}
