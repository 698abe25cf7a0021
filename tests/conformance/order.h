/* order.h - what runs after what: within a lane and between lanes, hold-back,
   points over counter swaps, submissions with several queues and batches of them,
   and what of a recording is looked at again when it is submitted. Part of
   conformance.c. */
#include "shared.h"

/* ---- between lanes ---- */

/* Each queue waits for the next one in the middle of its recording, so that they
   get through only if no two share a lane. */
static void any_lane_spreads_the_queues_of_one(TEST_ARGS) {
    enum { LANES = 4 };
    hcq_device_desc desc = test_desc();
    desc.compute_lanes = LANES;
    hcq_device *device = test_open(0, &desc);
    CHECK_U64(test_query(device, HCQ_QUERY_COMPUTE_LANES), LANES);
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
        CHECK_INDEX(hcq_queue_write(q[i], hcq_view(words, 4 * i, 4), i + 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(q[i], hcq_at(s[i], 1)), 2);
    }
    hcq_submission sub = submission(q, LANES);
    sub.affinity = HCQ_ANY_LANE;
    CHECK_OK(hcq_submit(device, &sub, 1, &done));
    hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
    if (result != HCQ_OK) {
        test_dump_device("device", device);
    }
    CHECK_OK(result);
    for (uint32_t i = 0; i < LANES; i++) {
        CHECK_U64(READ32(words, i), i + 1);
    }
    CHECK_OK(hcq_close(device));
}

typedef struct spin_args { uint64_t flag, out; } spin_args;

#if defined(__GNUC__) && !defined(__clang__)
#define NO_TSAN __attribute__((no_sanitize_thread))
#else
#define NO_TSAN __attribute__((no_sanitize("thread")))
#endif

/* Waits, bounded, for a word which another lane writes meanwhile. The race is
   the point, so the sanitizer does not look at this one. */
static NO_TSAN void k_spin(const void *block_args, const hcq_block *b) {
    const spin_args *k = HCQ_ARGS(spin_args, block_args);
    const volatile uint32_t *flag = HCQ_PTR(const volatile uint32_t, k->flag);
    uint64_t start = hcq_sys_now_ns();
    uint32_t seen = 0;
    (void)b;
    while (!seen && hcq_sys_now_ns() - start < BOUND / 2) {
        seen = *flag;
        mock_sleep(1000);
    }
    *HCQ_PTR(uint32_t, k->out) = seen;
}
TEST_SHADER(k_spin, spin)

static void copy_lane_overlaps_compute(TEST_ARGS) {
    SKIP_IF(T.variant->one_fifo, "one FIFO under all lanes");
    hcq_program *spin = make_kernel(T.dev, "spin", k_spin,
                                    (const uint32_t[4]){HCQ_ARG_IN, HCQ_ARG_OUT});
    for (uint32_t round = 1; round <= 10; round++) {
        hcq_buffer flag = make_words(T.dev, 64), out = make_words(T.dev, 64);
        hcq_buffer source = make_words(T.dev, 64);
        CHECK_OK(hcq_copyin(source, &round, 4));
        hcq_queue *compute = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
        spin_args args = {flag.address, out.address};
        hcq_point d1, d2;
        CHECK_INDEX(record_one(compute, spin, &args, sizeof args), 0);
        CHECK_INDEX(hcq_queue_copy(copy, flag, source, 4), 0);
        CHECK_OK(hcq_queue_submit(compute, T.dev, &d1));
        CHECK_OK(hcq_queue_submit(copy, T.dev, &d2));
        WAIT_OK(d2);
        WAIT_OK(d1);
        CHECK_U64(READ32(out, 0), round);
    }
}

/* ---- hold-back ---- */

/* A held submission stops the later ones of its lane and nobody else. */
static void hold_back_stays_on_its_lane(TEST_ARGS) {
    SKIP_IF(T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE, "one lane");
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_queue *held = make_queue(T.dev, HCQ_COMPUTE), *behind = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *free_lane = make_queue(T.dev, HCQ_COPY), *other = make_queue(T.dev2, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 8), b = make_words(T.dev2, 8);
    hcq_point d_held, d_behind, d_free, d_other;
    CHECK_INDEX(hcq_queue_write(held, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 1);
    CHECK_INDEX(hcq_queue_copy(held, hcq_view(a, 8, 4), a, 4), 2);
    CHECK_INDEX(hcq_queue_write(behind, a, 2, 4), 0);
    CHECK_INDEX(hcq_queue_write(free_lane, hcq_view(a, 4, 4), 3, 4), 0);
    CHECK_INDEX(hcq_queue_write(other, b, 4, 4), 0);
    CHECK_OK(hcq_queue_submit(held, T.dev, &d_held));
    CHECK_OK(hcq_queue_submit(behind, T.dev, &d_behind));
    CHECK_OK(hcq_queue_submit(free_lane, T.dev, &d_free));
    CHECK_OK(hcq_queue_submit(other, T.dev2, &d_other));
    WAIT_OK(d_free);
    WAIT_OK(d_other);
    CHECK_RESULT(test_poll(d_held), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(d_behind), HCQ_TIMEOUT);
    uint64_t prefix = 99;
    CHECK_OK(hcq_signal_value(hcq_device_timeline(T.dev), &prefix));
    CHECK(prefix < hcq_device_timeline_value(T.dev) - 3); /* a prefix, not a count */
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 2);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(d_held);
    WAIT_OK(d_behind);
    WAIT_OK(hcq_at(hcq_device_timeline(T.dev), hcq_device_timeline_value(T.dev) - 1));
    CHECK_U64(READ32(a, 0), 2);
    CHECK_U64(READ32(a, 1), 3);
    CHECK_U64(READ32(a, 2), 1);        /* read before `behind` wrote: lane order */
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
}

static void unordered_overtakes(TEST_ARGS) {
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_queue *held = make_queue(T.dev, HCQ_COMPUTE), *fast = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point d_held, d_fast;
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 0);
    CHECK_INDEX(hcq_queue_write(held, a, 1, 4), 1);
    CHECK_INDEX(hcq_queue_write(fast, a, 2, 4), 0);
    CHECK_INDEX(hcq_queue_signal(fast, hcq_at(gate, 1)), 1);
    CHECK_OK(hcq_queue_submit(held, T.dev, &d_held));
    CHECK_OK(submit_queue(fast, T.dev, NULL, NULL, HCQ_UNORDERED, &d_fast));
    WAIT_OK(d_fast);                   /* releases what it overtook */
    WAIT_OK(d_held);
    CHECK_U64(READ32(a, 0), 1);
}

/* wait_device: everything submitted there before this submission. */
static void wait_device(TEST_ARGS) {
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1), p1, p2, p3, watching, later;
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE), *own = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_program *add = make_add(T.dev);
    CHECK_INDEX(hcq_queue_wait_device(q, T.dev), 0);
    for (int round = 0; round < 2; round++) { /* the recording is used again */
        CHECK_OK(hcq_signal_reset(gate, 0));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &p1));
        CHECK_OK(submit_lists(T.dev, &open, NULL, HCQ_UNORDERED, &p2));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, HCQ_UNORDERED, &p3));
        CHECK_OK(hcq_queue_submit(q, T.dev2, &watching));
        WAIT_OK(p1);
        WAIT_OK(p3);
        CHECK_RESULT(hcq_wait(&watching, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
        hcq_point never = hcq_at(gate, 2);
        CHECK_OK(submit_lists(T.dev, &never, NULL, HCQ_UNORDERED, &later));
        CHECK_OK(hcq_signal_set(gate, 1));
        WAIT_OK(p2);
        WAIT_OK(watching);             /* later work is not waited for */
        CHECK_RESULT(test_poll(later), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_set(gate, 2));
        WAIT_OK(later);
        synchronize_both();
    }
    CHECK_INDEX(record_add(own, add, a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_wait_device(own, T.dev), 1); /* its own device: not itself */
    CHECK_INDEX(record_add(own, add, a, 0, 1), 2);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(hcq_queue_submit(own, T.dev, NULL));
    }
    CHECK_U64(READ32(a, 0), 40);
}

/* A limit in the description refuses more, and nothing is lost. */
static void parked_limit_refuses(TEST_ARGS) {
    hcq_device_desc desc = test_desc();
    desc.parked = 16;
    desc.parked_limit = 100;
    hcq_device *device = test_open(0, &desc);
    hcq_signal gate = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_program *add = make_add(device);
    hcq_buffer a = make_words(device, 4);
    hcq_point last = {{0}, 0};
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 1);
    CHECK_OK(hcq_queue_bind(q, device));
    for (int i = 0; i < 100; i++) {
        CHECK_OK(hcq_queue_submit(q, device, &last));
    }
    uint64_t number = hcq_device_timeline_value(device);
    CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
    CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
    CHECK_U64(hcq_device_timeline_value(device), number); /* no number was used up */
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(last);
    CHECK_OK(hcq_queue_submit(q, device, &last));
    WAIT_OK(last);
    CHECK_U64(READ32(a, 0), 101);
    CHECK_OK(hcq_close(device));
}

typedef struct chain {
    uint32_t count;
    int fails;
    hcq_result result;
} chain;

static void *chain_run(void *user) {
    chain *c = (chain *)user;
    hcq_signal t = {0};
    c->result = hcq_signal_create(T.dev, 0, &t);
    for (uint32_t i = 1; i <= c->count && c->result == HCQ_OK; i++) {
        const uint32_t at = c->fails ? i : c->count + 1 - i; /* the last one first */
        hcq_point wait = hcq_at(t, at), raise = hcq_at(t, at + 1);
        c->result = submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, NULL);
    }
    if (c->result == HCQ_OK) {
        c->result = c->fails ? hcq_signal_fail(t, HCQ_ERROR_HOST) : hcq_signal_set(t, 1);
    }
    if (c->result == HCQ_OK) {
        hcq_point end = hcq_at(t, c->count + 1);
        c->result = hcq_wait(&end, 1, HCQ_ALL, 60 * SECOND);
    }
    return NULL;
}

/* Each release brings about the next one, by a raise or by a failure. */
static void chain_on_a_small_stack(TEST_ARGS) {
    for (int fails = 0; fails < 2; fails++) {
        chain c = {T.quick ? 10000 : 100000, fails, HCQ_OK};
        on_a_small_stack(chain_run, &c);
        CHECK_RESULT(c.result, fails ? HCQ_ERROR_HOST : HCQ_OK);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
    }
}

/* ---- points ---- */

/* Nothing is submitted: the point that is given is a reached one. */
static void empty_submits_give_a_reached_point(TEST_ARGS) {
    for (int i = 0; i < 2; i++) {
        hcq_point point = {{0xdeadbeefdeadbeefull}, 7};
        CHECK_OK(i ? hcq_submit_and_wait(T.dev, NULL, 0, BOUND, &point)
                   : hcq_submit(T.dev, NULL, 0, &point));
        CHECK_OK(test_poll(point));
    }
}

/* Of two submissions the first stands; the point may be among the waits. */
static void the_point_is_the_last_one_submitted(TEST_ARGS) {
    hcq_submission s[2];
    hcq_point first, point;
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &first));
    point = first;
    memset(s, 0, sizeof s);
    s[0].waits = &point;
    s[0].wait_count = 1;
    s[1].wait_count = 1;               /* of none */
    CHECK_RESULT(hcq_submit(T.dev, s, 2, &point), HCQ_ERROR_INVALID);
    CHECK(point.signal.id == first.signal.id && point.value == first.value + 1);
    WAIT_OK(point);
    CHECK_OK(hcq_submit(T.dev, s, 1, &point));
    WAIT_OK(point);
}

/* ---- several in one ---- */

/* A batch of submissions in one call, each waiting for the one before. */
static void submission_batches(TEST_ARGS) {
    enum { N = 50 };
    hcq_submission subs[N];
    hcq_point waits[N], signals[N], done;
    hcq_queue *queues[2] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COMPUTE)};
    hcq_program *mix = make_mix(T.dev);
    hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev, 4);
    hcq_signal s = make_signal(T.dev, 0);
    uint32_t model = 0;
    CHECK_INDEX(record_mix(queues[0], mix, a, b, 1, 1), 0);
    CHECK_INDEX(record_mix(queues[1], mix, a, b, 1, 2), 0);
    for (uint32_t i = 0; i < N; i++) { /* the array is in order, so are the waits */
        subs[i] = submission(&queues[i % 2], 1);
        waits[i] = hcq_at(s, i);
        signals[i] = hcq_at(s, i + 1);
        subs[i].waits = &waits[i];
        subs[i].signals = &signals[i];
        subs[i].wait_count = subs[i].signal_count = 1;
        subs[i].flags = HCQ_UNORDERED;
        model = model * 31u + i % 2 + 1;
    }
    uint64_t before = hcq_device_timeline_value(T.dev);
    CHECK_OK(hcq_submit(T.dev, subs, N, &done));
    CHECK_U64(hcq_device_timeline_value(T.dev), before + N);
    WAIT_OK(done);
    WAIT_OK(hcq_at(s, N));
    CHECK_U64(READ32(a, 0), model);
}

/* The middle queue of three shares a lane with the first and nothing with the
   last, which fails: it must neither wait for it nor fail with it. */
static void siblings_are_independent(TEST_ARGS) {
    hcq_queue *q[3] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COMPUTE),
                       make_queue(T.dev, HCQ_COPY)};
    hcq_buffer a = make_words(T.dev, 4);
    hcq_signal mine = make_signal(T.dev, 0), all = make_signal(T.dev, 0);
    hcq_point raise = hcq_at(all, 1), done;
    CHECK_INDEX(hcq_queue_write(q[0], a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_write(q[1], hcq_view(a, 4, 4), 2, 4), 0);
    CHECK_INDEX(hcq_queue_signal(q[1], hcq_at(mine, 1)), 1);
    CHECK_INDEX(hcq_queue_host(q[2], host_fails, NULL), 0);
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
static void sixteen_queues_at_most(TEST_ARGS) {
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
    for (uint32_t round = 0; round < 4; round++) {
        sub.queue_count = N;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
        WAIT_OK(done);
        for (uint32_t i = 0; i < N; i++) {
            CHECK_U64(READ32(a, i), i % 2 ? 1 : round + 1);
        }
    }
}

/* ---- what goes stale between record and submit ---- */

/* What was checked once is checked again when it may have changed: refused, never a
   crash. Recordings keep their programs. */
static void stale_checks(TEST_ARGS) {
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
    hcq_signal s = make_signal(T.dev, 1);
    hcq_program *add = make_add(T.dev);
    hcq_queue *late[3], *p = make_queue(T.dev, HCQ_COMPUTE);
    gone = make_words(T.dev, 16);
    for (int i = 0; i < 3; i++) {
        late[i] = make_queue(T.dev, HCQ_COMPUTE);
    }
    CHECK_INDEX(hcq_queue_wait(late[0], hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_fill(late[1], gone, 64, 1, 4), 0);
    CHECK_INDEX(record_add(late[2], add, gone, 0, 1), 0);
    CHECK_INDEX(record_add(p, add, little, 0, 1), 0);
    CHECK_OK(hcq_queue_bind(late[1], T.dev));
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_OK(hcq_free(gone));
    hcq_program_destroy(add);
    for (int i = 0; i < 3; i++) {
        CHECK_RESULT(hcq_queue_submit(late[i], T.dev, NULL), HCQ_ERROR_CLOSED);
    }
    CHECK_OK(hcq_queue_submit(p, T.dev, NULL));
    CHECK_U64(READ32(little, 0), 1);
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

static void destroyed_after_submit(TEST_ARGS) {
    for (int round = 0; round < 16; round++) {
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
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(submit_queue(q, T.dev, NULL, NULL, unordered ? HCQ_UNORDERED : 0, &done));
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

#define ORDER_TESTS \
    TEST(any_lane_spreads_the_queues_of_one), TEST(copy_lane_overlaps_compute), \
    TEST(hold_back_stays_on_its_lane), TEST(unordered_overtakes), TEST(wait_device), \
    TEST(parked_limit_refuses), TEST(chain_on_a_small_stack), \
    TEST(empty_submits_give_a_reached_point), TEST(the_point_is_the_last_one_submitted), \
    TEST(submission_batches), TEST(siblings_are_independent), TEST(sixteen_queues_at_most), \
    TEST(stale_checks), TEST(destroyed_after_submit)
