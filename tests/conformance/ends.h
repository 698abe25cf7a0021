/* ends.h - how submissions with several queues end, what followers
   of half-failed ones see, and what goes stale between record and submit. */
#include "shared.h"

/* The middle queue of three shares a lane with the first and nothing with the
   last, which fails: it must neither wait for it nor fail with it. */
static void siblings_are_independent(void **state) {
    (void)state;
    host_log log;
    memset(&log, 0, sizeof log);
    log.result = HCQ_ERROR_HOST;
    hcq_queue *q[3] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COMPUTE),
                       make_queue(T.dev, HCQ_COPY)};
    hcq_buffer a = make_words(T.dev, 4);
    hcq_signal mine = make_signal(T.dev, 0), all = make_signal(T.dev, 0);
    hcq_point raise = hcq_at(all, 1), done;
    CHECK_INDEX(hcq_queue_write(q[0], a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_write(q[1], hcq_view(a, 4, 4), 2, 4), 0);
    CHECK_INDEX(hcq_queue_signal(q[1], hcq_at(mine, 1)), 1);
    CHECK_INDEX(hcq_queue_host(q[2], host_record, &log), 0);
    hcq_submission sub = submission(q, 3);
    sub.signals = &raise;
    sub.signal_count = 1;
    CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
    WAIT_OK(hcq_at(mine, 1));
    WAIT_RESULT(done, HCQ_ERROR_HOST);
    WAIT_RESULT(raise, HCQ_ERROR_HOST);
    CHECK_U64(READ32(a, 0), 1);
    CHECK_U64(READ32(a, 1), 2);
}

/* Sixteen queues are waited for, each of them; more are refused. */
static void sixteen_queues_at_most(void **state) {
    (void)state;
    enum { N = 16 };
    hcq_queue *q[N + 1];
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, N + 1);
    hcq_point done;
    for (uint32_t i = 0; i <= N; i++) {
        q[i] = make_queue(T.dev, i % 2 ? HCQ_COPY : HCQ_COMPUTE);
        if (i % 2) {
            CHECK_INDEX(hcq_queue_write(q[i], hcq_view(a, 4 * i, 4), 1, 4), 0);
        } else {
            CHECK_INDEX(record_add(q[i], add, a, i, 1), 0);
        }
    }
    hcq_submission sub = submission(q, N + 1);
    CHECK_RESULT(hcq_submit(T.dev, &sub, 1, &done), HCQ_ERROR_LIMIT);
    for (uint32_t round = 0; round < 20; round++) {
        sub.queue_count = N;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
        WAIT_OK(done);
        for (uint32_t i = 0; i < N; i++) {
            CHECK_U64(READ32(a, i), i % 2 ? 1 : round + 1);
        }
    }
}

/* A submission fails at its second wait while its first part still runs: who
   waits for its point must see the failure, on another lane, too. */
static void follower_of_a_half_failed_one(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0), bad = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *f = make_queue(T.dev, HCQ_COPY);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point done, after;
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 1);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(bad, 1)), 2);
    CHECK_INDEX(hcq_queue_write(q, a, 2, 4), 3);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_INDEX(hcq_queue_wait(f, done), 0);
    CHECK_INDEX(hcq_queue_write(f, hcq_view(a, 4, 4), 9, 4), 1);
    CHECK_OK(hcq_queue_submit(f, T.dev, &after));
    CHECK_OK(hcq_signal_fail(bad, HCQ_ERROR_NATIVE));
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_RESULT(done, HCQ_ERROR_NATIVE);
    WAIT_RESULT(after, HCQ_ERROR_NATIVE);
    CHECK_U64(READ32(a, 0), 1);
    CHECK_U64(READ32(a, 1), 0);
}

/* A reset would take away what a held submission has yet to look at. */
static void reset_with_a_wait_behind(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0), s = make_signal(T.dev, 1);
    hcq_queue *first = make_queue(T.dev, HCQ_COMPUTE), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point done;
    CHECK_INDEX(hcq_queue_wait(first, hcq_at(gate, 1)), 0);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), 0);
    CHECK_OK(hcq_queue_submit(first, T.dev, NULL));
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_RESULT(hcq_signal_reset(s, 0), HCQ_ERROR_BUSY);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(done);
    CHECK_OK(hcq_signal_reset(s, 0));
}

/* What was checked once is checked again when it may have changed. */
static void stale_checks(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *other = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer kept = make_words(T.dev, 1024), gone = make_words(T.dev, 1024);
    hcq_buffer source = make_words(T.dev, 1024), little = make_words(T.dev, 16);
    hcq_point done;
    CHECK_INDEX(hcq_queue_write(q, kept, 1, 4), 0);
    CHECK_INDEX(hcq_queue_write(other, gone, 1, 4), 0);
    CHECK_OK(hcq_free(gone));
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_INDEX(hcq_queue_append(q, other), 1);
    CHECK_RESULT(hcq_queue_submit(q, T.dev, &done), HCQ_ERROR_CLOSED);
    hcq_queue *c = make_queue(T.dev, HCQ_COPY);
    uint64_t size = 4096;
    CHECK_INDEX(hcq_queue_copy(c, kept, source, 4096), 0);
    CHECK_OK(hcq_queue_variable(c, 0, HCQ_PART_SIZE, 0, 0));
    CHECK_OK(hcq_queue_update_copy(c, 0, &little, NULL, 64));
    hcq_submission sub = submission(&c, 1);
    sub.variables = &size;
    sub.variable_count = 1;
    CHECK_RESULT(hcq_submit(T.dev, &sub, 1, &done), HCQ_ERROR_INVALID);
    size = 64;
    CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
    WAIT_OK(done);
}

/* Failures of some never fail the signals of others, however many there are. */
static void many_failures_fail_nobody_else(void **state) {
    (void)state;
    enum { N = 100 };
    host_log log;
    memset(&log, 0, sizeof log);
    log.result = HCQ_ERROR_HOST;
    hcq_signal gate = make_signal(T.dev, 0), s[N];
    hcq_queue *good = make_queue(T.dev, HCQ_COMPUTE), *bad = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point open = hcq_at(gate, 1);
    CHECK_INDEX(hcq_queue_host(good, host_nothing, NULL), 0);
    CHECK_INDEX(hcq_queue_host(bad, host_record, &log), 0);
    for (uint32_t i = 0; i < N; i++) {
        s[i] = make_signal(T.dev, 0);
        hcq_point raise = hcq_at(s[i], 1);
        hcq_submission sub = submission(i % 2 ? &bad : &good, 1);
        sub.waits = &open;
        sub.wait_count = 1;
        sub.signals = &raise;
        sub.signal_count = 1;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, NULL));
    }
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    for (uint32_t i = 0; i < N; i++) {
        WAIT_RESULT(hcq_at(s[i], 1), i % 2 ? HCQ_ERROR_HOST : HCQ_OK);
    }
}

#define ENDS_TESTS                                                                 \
    TEST(siblings_are_independent), TEST(sixteen_queues_at_most),                  \
    TEST(follower_of_a_half_failed_one), TEST(reset_with_a_wait_behind),           \
    TEST(stale_checks), TEST(many_failures_fail_nobody_else)
