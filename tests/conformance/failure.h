/* failure.h - answers are exact: what succeeded never answers the
   failure of others, what failed never answers OK, and a failed signal says from
   which value on it failed. Part of conformance.c. */
#include "shared.h"

static hcq_result host_fails(void *user) {
    (void)user;
    return HCQ_ERROR_UNSUPPORTED;
}

typedef struct answers {
    hcq_queue *good, *bad;
    hcq_point *points;
    int *fails;
    uint32_t count;
} answers;

static answers answers_of(hcq_device *device, uint32_t capacity) {
    answers a = {make_queue(device, HCQ_COMPUTE), make_queue(device, HCQ_COMPUTE), NULL, NULL, 0};
    CHECK_INDEX(hcq_queue_host(a.bad, host_fails, NULL), 0);
    a.points = (hcq_point *)calloc(capacity, sizeof *a.points);
    a.fails = (int *)calloc(capacity, sizeof *a.fails);
    return a;
}

static void answers_submit(answers *a, hcq_device *device, int fails, const hcq_point *wait) {
    hcq_submission sub = submission(fails ? &a->bad : &a->good, 1);
    sub.waits = wait;
    sub.wait_count = wait ? 1 : 0;
    sub.flags = wait ? HCQ_UNORDERED : 0;
    a->fails[a->count] = fails;
    CHECK_OK(hcq_submit(device, &sub, 1, &a->points[a->count++]));
}

static void answers_check(const answers *a) {
    for (uint32_t i = 0; i < a->count; i++) {
        WAIT_RESULT(a->points[i], a->fails[i] ? HCQ_ERROR_HOST : HCQ_OK);
    }
}

static void answers_free(answers *a) {
    free(a->points);
    free(a->fails);
}

/* However many fail, and however late some of those before them. */
static void many_failures_change_no_answer(void **state) {
    (void)state;
    enum { N = 400 };
    answers a = answers_of(T.dev, N + 80);
    hcq_point gate = make_gate(T.dev);
    for (uint32_t i = 0; i < N; i++) {
        int late = i % 7 == 3;
        answers_submit(&a, T.dev, i % 2 == 0 || (late && i % 3 == 0), late ? &gate : NULL);
        if (i == N / 2) {
            open_gate(gate);
            gate = make_gate(T.dev);
        }
    }
    open_gate(gate);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    answers_check(&a);
    for (uint32_t i = 0; i < 40; i++) {
        answers_submit(&a, T.dev, 1, NULL);
        answers_submit(&a, T.dev, 0, NULL);
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    a.count = N;
    answers_check(&a);
    answers_free(&a);
}

/* Work that builds on a success runs, whatever failed since; on a failure, not. */
static void work_behind_a_success_runs(void **state) {
    (void)state;
    enum { N = 100 };
    answers a = answers_of(T.dev, N);
    hcq_buffer words = make_words(T.dev, N);
    for (uint32_t i = 0; i < N; i++) {
        answers_submit(&a, T.dev, i % 2 != 0, NULL);
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    for (uint32_t i = 0; i < N; i++) {
        hcq_point done;
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(words, i * 4, 4), i + 1, 4), 0);
        CHECK_OK(submit_behind(q, T.dev, &a.points[i], &done));
        WAIT_RESULT(done, a.fails[i] ? HCQ_ERROR_HOST : HCQ_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK_U64(READ32(words, i), a.fails[i] ? 0 : i + 1);
    }
    answers_free(&a);
}

/* What had to be forgotten says so: neither a success nor a failure is guessed. */
static void forgotten_answers_say_so(void **state) {
    (void)state;
    enum { N = 40, KEPT = 8 };
    hcq_device_desc desc = test_desc();
    desc.failure_ranges = KEPT;
    hcq_device *device = test_open(0, &desc);
    answers a = answers_of(device, N);
    for (uint32_t i = 0; i < N; i++) {
        answers_submit(&a, device, i % 2 == 0, NULL);
        WAIT_RESULT(a.points[i], i % 2 == 0 ? HCQ_ERROR_HOST : HCQ_OK);
    }
    for (uint32_t i = 0; i < N; i++) { /* the last eight failures are told apart */
        hcq_result exact = a.fails[i] ? HCQ_ERROR_HOST : HCQ_OK;
        WAIT_RESULT(a.points[i], i < N - 2 * KEPT - 1 ? HCQ_ERROR_LIMIT : exact);
    }
    hcq_point done;
    CHECK_OK(submit_behind(a.good, device, &a.points[1], &done));
    WAIT_RESULT(done, HCQ_ERROR_LIMIT);
    answers_free(&a);
    CHECK_OK(hcq_close(device));
}

/* Neighbours that fail alike are one range: a storm of failures forgets nothing. */
static void failures_in_a_row_are_one(void **state) {
    (void)state;
    enum { N = 200 };
    hcq_device_desc desc = test_desc();
    desc.failure_ranges = 4;
    hcq_device *device = test_open(0, &desc);
    answers a = answers_of(device, 2 * N);
    hcq_point gate = make_gate(device);
    answers_submit(&a, device, 0, NULL);
    for (uint32_t i = 0; i < N; i++) {
        answers_submit(&a, device, 1, i % 2 ? &gate : NULL);
    }
    answers_submit(&a, device, 0, NULL);
    open_gate(gate);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    answers_submit(&a, device, 1, NULL);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    uint32_t forgotten = 0;            /* odd ones fail later: pieces until they join */
    for (uint32_t i = 0; i < a.count; i++) {
        hcq_result r = hcq_wait(&a.points[i], 1, HCQ_ALL, BOUND);
        forgotten += r == HCQ_ERROR_LIMIT;
        CHECK(r == HCQ_ERROR_LIMIT || r == (a.fails[i] ? HCQ_ERROR_HOST : HCQ_OK));
    }
    CHECK(forgotten < a.count);
    WAIT_OK(a.points[N + 1]);
    answers_free(&a);
    CHECK_OK(hcq_close(device));
}

/* A broken promise answers at once, lower values that were handed over are still
   waited for, and nothing above them lands any more. */
static void a_failure_begins_above_what_may_land(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point five = hcq_at(s, 5), nine = hcq_at(s, 9), gate = make_gate(T.dev), failed, after;
    uint64_t value = 0;
    hold_reset();
    hcq_point done = hold_device(T.dev, &five), three = hcq_at(s, 3);
    CHECK_OK(submit_lists(T.dev, &gate, &nine, HCQ_UNORDERED, &failed));
    CHECK_OK(submit_lists(T.dev2, &three, NULL, 0, &after));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
    CHECK_RESULT(test_poll(nine), HCQ_ERROR_NATIVE);
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_ERROR_NATIVE);
    CHECK_RESULT(test_poll(failed), HCQ_ERROR_NATIVE);
    CHECK_RESULT(test_poll(five), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(three), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_NATIVE);
    CHECK_U64(value, 0);
    CHECK(holds());
    hold_release();
    WAIT_OK(done);
    WAIT_OK(five);
    WAIT_OK(after);
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_ERROR_NATIVE);
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_NATIVE);
    CHECK_U64(value, 5);
    CHECK_OK(hcq_signal_reset(s, 0));
    CHECK_OK(hcq_signal_set(s, 7));
    WAIT_OK(hcq_at(s, 6));
}

/* A raise above the broken one, handed over before or after it, does not count. */
static void what_lands_above_a_failure_is_lost(void **state) {
    (void)state;
    for (int before = 0; before < 2; before++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point two = hcq_at(s, 2), four = hcq_at(s, 4), six = hcq_at(s, 6), done, late;
        hcq_point gate = make_gate(T.dev);
        uint64_t value = 0;
        hold_reset();
        hcq_point held = hold_device(T.dev, &two);
        CHECK_OK(submit_lists(T.dev, &gate, &four, HCQ_UNORDERED, &done));
        if (before) {
            CHECK_OK(submit_lists(T.dev, NULL, &six, 0, &late));
        }
        CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
        if (!before) {
            CHECK_OK(submit_lists(T.dev, NULL, &six, 0, &late));
        }
        CHECK_RESULT(test_poll(hcq_at(s, 3)), HCQ_ERROR_NATIVE);
        CHECK_RESULT(test_poll(six), HCQ_ERROR_NATIVE);
        hold_release();
        WAIT_OK(held);
        WAIT_OK(late);                 /* it ran: only its signal had failed before */
        WAIT_OK(two);
        CHECK_RESULT(test_poll(six), HCQ_ERROR_NATIVE);
        CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_NATIVE);
        CHECK_U64(value, 2);
    }
}

/* The raise that waits below a failure still went for breaks, too: no wait hangs,
   and the first failure is the one that stays. */
static void a_failure_comes_down(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point nine = hcq_at(s, 9), gate = make_gate(T.dev), failed;
    hcq_queue *q = make_holder(T.dev);
    CHECK_INDEX(hcq_queue_host(q, host_fails, NULL), 1);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 5)), 2);
    hold_reset();
    hcq_point done = hold_start(q, T.dev);
    CHECK_OK(submit_lists(T.dev, &gate, &nine, HCQ_UNORDERED, &failed));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
    CHECK_RESULT(test_poll(nine), HCQ_ERROR_NATIVE);
    hold_release();
    WAIT_RESULT(done, HCQ_ERROR_HOST);
    for (uint64_t v = 1; v <= 9; v++) {
        WAIT_RESULT(hcq_at(s, v), HCQ_ERROR_NATIVE);
    }
    WAIT_RESULT(failed, HCQ_ERROR_NATIVE);
}

/* The host's failure begins right above the value, whatever is on its way. */
static void a_host_failure_begins_at_once(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 1);
    hcq_point five = hcq_at(s, 5);
    uint64_t value = 9;
    hold_reset();
    hcq_point done = hold_device(T.dev, &five);
    CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_NATIVE));
    CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST)); /* the first stays */
    CHECK_RESULT(test_poll(hcq_at(s, 1)), HCQ_OK);
    CHECK_RESULT(test_poll(hcq_at(s, 2)), HCQ_ERROR_NATIVE);
    CHECK_RESULT(test_poll(five), HCQ_ERROR_NATIVE);
    CHECK(holds());
    hold_release();
    WAIT_OK(done);
    CHECK_RESULT(test_poll(five), HCQ_ERROR_NATIVE);
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_NATIVE);
    CHECK_U64(value, 1);
}

/* A raise that comes too late for a signal that failed, on another lane and looked
   at first, takes nothing from one below the failure. */
static void a_lost_raise_takes_no_other(void **state) {
    (void)state;
    hcq_device *devices[2] = {T.dev, T.dev2};
    for (int i = 0; i < 2; i++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point three = hcq_at(s, 3), seven = hcq_at(s, 7), nine = hcq_at(s, 9);
        hcq_point go = make_gate(T.dev), bad = make_gate(T.dev), done, high;
        uint64_t value = 0;
        hold_reset();
        hcq_point low = hold_device(devices[i], &three);
        CHECK_OK(submit_lists(devices[!i], &go, &seven, HCQ_UNORDERED, &high));
        CHECK_OK(submit_lists(T.dev, &bad, &nine, HCQ_UNORDERED, &done));
        CHECK_OK(hcq_signal_fail(bad.signal, HCQ_ERROR_NATIVE));
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

/* A value that somebody in flight is going to raise is refused, whether that one is
   held, runs, or is over; a smaller one is not. */
static void a_repeated_value_gets_one_answer(void **state) {
    (void)state;
    for (int recorded = 0; recorded < 2; recorded++) {
        for (int way = 0; way < 3; way++) { /* held, running, over */
            hcq_signal s = make_signal(T.dev, 0), other = make_signal(T.dev, 0);
            hcq_point five = hcq_at(s, 5), three = hcq_at(s, 3), gate = make_gate(T.dev), first;
            hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_signal(q, recorded ? five : hcq_at(other, 1)), 0);
            hold_reset();
            if (way == 1) {
                first = hold_device(T.dev, &five);
            } else {
                CHECK_OK(submit_lists(T.dev, way ? NULL : &gate, &five, HCQ_UNORDERED, &first));
            }
            if (way == 2) {
                WAIT_OK(first);
            }
            log_clear();
            hcq_submission sub = submission(&q, 1);
            sub.signals = recorded ? NULL : &five;
            sub.signal_count = recorded ? 0 : 1;
            CHECK_RESULT(hcq_submit(T.dev2, &sub, 1, NULL), HCQ_ERROR_INVALID);
            CHECK(log_has(recorded ? "command 0" : "signals: number 0"));
            CHECK(way == 2 || log_has("submission #"));
            if (way == 0) {            /* legal in any order of submission */
                CHECK_OK(submit_lists(T.dev2, NULL, &three, 0, NULL));
                WAIT_OK(three);
            }
            hold_release();
            open_gate(gate);
            WAIT_OK(five);
            CHECK_RESULT(submit_lists(T.dev2, NULL, &five, 0, NULL), HCQ_ERROR_INVALID);
            CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
            CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
            CHECK_OK(hcq_signal_reset(s, 0)); /* which forgets it */
            CHECK_OK(submit_lists(T.dev2, NULL, &five, 0, &first));
            WAIT_OK(first);
        }
    }
}

/* A promise that broke is none any more, nor is one of a submission that was refused. */
static void a_broken_promise_is_forgotten(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point gate = make_gate(T.dev), five = hcq_at(s, 5), both[2] = {five, hcq_at(s, 4)}, done;
    hcq_submission sub;
    memset(&sub, 0, sizeof sub);
    sub.signals = both;
    sub.signal_count = 2;
    CHECK_RESULT(hcq_submit(T.dev, &sub, 1, NULL), HCQ_ERROR_INVALID);
    CHECK_OK(submit_lists(T.dev, &gate, &five, HCQ_UNORDERED, &done));
    CHECK_RESULT(submit_lists(T.dev2, NULL, &five, 0, NULL), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
    WAIT_RESULT(done, HCQ_ERROR_NATIVE);
    CHECK_OK(hcq_signal_reset(s, 0));
    CHECK_OK(submit_lists(T.dev2, NULL, &five, 0, &done));
    WAIT_OK(done);
    WAIT_OK(five);
}

static uint32_t failure_gates[2];

static void failure_gate(const void *args, const hcq_block *b) {
    (void)b;
    word_until(&failure_gates[*(const uint32_t *)args], 1);
}

static hcq_queue *make_failure_gate(hcq_device *device, uint32_t number) {
    hcq_program_desc desc;
    hcq_program *program = NULL;
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    memset(&desc, 0, sizeof desc);
    desc.cpu = failure_gate;
    desc.args[0] = HCQ_ARG_U32;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    CHECK_INDEX(hcq_queue_exec(q, program, &number, sizeof number, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 0);
    __atomic_store_n(&failure_gates[number], 0, __ATOMIC_RELEASE);
    return q;
}

/* A lane was told to wait for another one's epoch and asks late how that ended:
   many epochs of it have failed meanwhile, others never did. */
static void lanes_ask_for_the_right_failure(void **state) {
    (void)state;
    if (!is_cpu()) {
        SKIP("its kernel is the CPU's");
        return;
    }
    if (T.variant->one_fifo) {
        SKIP("one kernel that waits holds up both lanes");
        return;
    }
    const uint32_t most = T.variant->narrow ? 8 : 1000; /* no counter is swapped meanwhile */
    for (int fails = 0; fails < 2; fails++) {
        hcq_device_desc desc = test_desc();
        desc.compute_lanes = 2;
        hcq_device *device = test_open(0, &desc);
        answers a = answers_of(device, 2000);
        hcq_queue *q[2] = {make_failure_gate(device, 0), make_failure_gate(device, 1)};
        hcq_queue *fill = make_queue(device, HCQ_COMPUTE);
        hcq_buffer word = make_words(device, 1);
        hcq_point first, second, done;
        CHECK(!fails || hcq_queue_host(q[0], host_fails, NULL) == 1);
        CHECK_INDEX(hcq_queue_write(fill, word, 7, 4), 0);
        hcq_submission sub = submission(&q[0], 1);
        CHECK_OK(hcq_submit(device, &sub, 1, &first));
        sub.queues = &q[1];
        sub.affinity = 1;
        CHECK_OK(hcq_submit(device, &sub, 1, &second));
        sub.queues = &fill;
        sub.waits = &first;
        sub.wait_count = 1;
        CHECK_OK(hcq_submit(device, &sub, 1, &done));
        __atomic_store_n(&failure_gates[0], 1, __ATOMIC_RELEASE);
        WAIT_RESULT(first, fails ? HCQ_ERROR_HOST : HCQ_OK);
        for (uint32_t i = 0; i < most; i++) {
            answers_submit(&a, device, i % 2 == 0, NULL);
        }
        WAIT_OK(a.points[a.count - 1]);
        __atomic_store_n(&failure_gates[1], 1, __ATOMIC_RELEASE);
        WAIT_RESULT(done, fails ? HCQ_ERROR_HOST : HCQ_OK);
        WAIT_OK(second);
        CHECK_U64(READ32(word, 0), fails ? 0 : 7);
        for (uint32_t i = 0; i < 1000; i++) { /* nothing waits any more: these may go */
            answers_submit(&a, device, i % 2 == 0, NULL);
            CHECK_OK(hcq_device_synchronize(device, BOUND));
        }
        answers_check(&a);
        answers_free(&a);
        CHECK_OK(hcq_close(device));
    }
}

#define FAILURE_TESTS                                                              \
    TEST(many_failures_change_no_answer), TEST(work_behind_a_success_runs),        \
    TEST(forgotten_answers_say_so), TEST(failures_in_a_row_are_one),               \
    TEST(a_failure_begins_above_what_may_land),                                    \
    TEST(what_lands_above_a_failure_is_lost), TEST(a_failure_comes_down),          \
    TEST(a_host_failure_begins_at_once), TEST(lanes_ask_for_the_right_failure),   \
    TEST(a_lost_raise_takes_no_other), TEST(a_repeated_value_gets_one_answer),     \
    TEST(a_broken_promise_is_forgotten)
