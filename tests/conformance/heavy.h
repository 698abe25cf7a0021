/* Real concurrency, large numbers, small stacks. Part of conformance.c. */
#include "shared.h"

/* ---- compute and copy really overlap ---- */

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

static void copy_lane_overlaps_compute(void **state) {
    (void)state;
    if (T.variant->one_fifo) {
        SKIP("one FIFO under all lanes");
        return;
    }
    hcq_program_desc desc = {"spin", k_spin, {HCQ_ARG_IN, HCQ_ARG_OUT}, NULL, NULL,
                             {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *spin = NULL;
    CHECK_OK(hcq_program_create(T.dev, &desc, &spin));
    for (uint32_t round = 1; round <= 10; round++) {
        hcq_buffer flag = make_words(T.dev, 64), out = make_words(T.dev, 64);
        hcq_buffer source = make_words(T.dev, 64);
        CHECK_OK(hcq_copyin(source, &round, 4));
        hcq_queue *compute = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
        spin_args args = {flag.address, out.address};
        hcq_point d1, d2;
        CHECK_INDEX(hcq_queue_exec(compute, spin, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        CHECK_INDEX(hcq_queue_copy(copy, flag, source, 4), 0);
        CHECK_OK(hcq_queue_submit(compute, T.dev, &d1));
        CHECK_OK(hcq_queue_submit(copy, T.dev, &d2));
        WAIT_OK(d2);
        WAIT_OK(d1);
        CHECK_U64(READ32(out, 0), round);
    }
}

/* ---- every submission its own variables ---- */

static void check_identity(hcq_buffer out, uint32_t count, uint32_t factor) {
    uint32_t *got = (uint32_t *)malloc((size_t)count * 4);
    CHECK_OK(hcq_copyout(got, out, (uint64_t)count * 4));
    for (uint32_t i = 0; i < count; i++) {
        CHECK_U64(got[i], i * factor + 1);
    }
    free(got);
}

static void each_submission_its_variables(void **state) {
    (void)state;
    enum { BATCH = 10 };
    const uint32_t count = !T.quick ? 100000 : is_cpu() ? 10000 : 2000;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *put = make_put(T.dev);
    hcq_buffer out = make_words(T.dev, count);
    put_args args = {out.address, 0, 0};
    CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + 1, 0, 0));
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + 2, 1, 0));
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t i = 0; i < count; i++) { /* one by one */
        const uint64_t v[2] = {i, i * 3 + 1};
        CHECK_OK(submit_variables(q, v, 2, NULL));
    }
    check_identity(out, count, 3);
    for (uint32_t i = 0; i < count; i += BATCH) { /* many in one call */
        hcq_submission subs[BATCH];
        uint64_t v[BATCH][2];
        for (uint32_t j = 0; j < BATCH; j++) {
            v[j][0] = i + j;
            v[j][1] = (i + j) * 7 + 1;
            subs[j] = submission(&q, 1);
            subs[j].variables = v[j];
            subs[j].variable_count = 2;
        }
        CHECK_OK(hcq_submit(T.dev, subs, BATCH, NULL));
    }
    check_identity(out, count, 7);
}

/* ---- a million submissions behind one unmet wait ---- */

static void many_held_submissions(void **state) {
    (void)state;
    if (!is_cpu() || strcmp(T.variant->name, "cpu") != 0) {
        SKIP("once is enough, on cpu");
        return;
    }
    const uint32_t count = T.quick || TEST_SANITIZED ? 100000 : 1000000;
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point done = {{0}, 0}, first = {{0}, 0};
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 1);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    CHECK_OK(hcq_queue_submit(q, T.dev, &first));
    uint64_t before = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST);
    for (uint32_t i = 1; i < count; i++) {
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    }
    uint64_t held = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST) - before;
    fprintf(stderr, "%u held submissions: %.1f bytes each\n", count,
            (double)held / (double)count);
    CHECK(held <= 256ull * count);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), count);
    CHECK_RESULT(test_poll(first), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, 120 * SECOND));
    CHECK_U64(READ32(a, 0), count);    /* none lost, none twice */
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_PENDING), 0);
    uint64_t after = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST);
    fprintf(stderr, "after release %lld bytes more than before\n",
            (long long)after - (long long)before);
    CHECK(after <= before);            /* none left after release */
}

/* A limit in the description refuses more, and nothing is lost. */
static void parked_limit_refuses(void **state) {
    (void)state;
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

/* ---- a chain of held submissions on a small stack ---- */

typedef struct chain {
    uint32_t count;
    hcq_result result;
    const char *where;
} chain;

static void *chain_run(void *user) {
    chain *c = (chain *)user;
    hcq_signal t = {0};
    c->where = "create";
    c->result = hcq_signal_create(T.dev, 0, &t);
    for (uint32_t i = c->count; i > 0 && c->result == HCQ_OK; i--) { /* the last one first */
        hcq_point wait = hcq_at(t, i), raise = hcq_at(t, i + 1);
        c->where = "submit";
        c->result = submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, NULL);
    }
    if (c->result == HCQ_OK) {
        c->where = "set";
        c->result = hcq_signal_set(t, 1);
    }
    if (c->result == HCQ_OK) {
        hcq_point end = hcq_at(t, c->count + 1);
        c->where = "wait";
        c->result = hcq_wait(&end, 1, HCQ_ALL, 60 * SECOND);
    }
    return NULL;
}

static void chain_on_a_small_stack(void **state) {
    (void)state;
    chain c = {T.quick ? 10000 : 100000, HCQ_OK, ""};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, 256 * 1024) == 0);
    CHECK(pthread_create(&thread, &attr, chain_run, &c) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (c.result != HCQ_OK) {
        fprintf(stderr, "chain: %s\n", c.where);
    }
    CHECK_OK(c.result);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
}

/* The same in the order of the chain, ended by a failure instead of a set. */
static void chain_of_failures(void **state) {
    (void)state;
    const uint32_t count = T.quick ? 2000 : 20000;
    hcq_signal t = make_signal(T.dev, 0);
    hcq_point last = {{0}, 0}, first = {{0}, 0};
    for (uint32_t i = 1; i <= count; i++) {
        hcq_point wait = hcq_at(t, i), raise = hcq_at(t, i + 1);
        CHECK_OK(submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, i == 1 ? &first : &last));
    }
    CHECK_OK(hcq_signal_fail(t, HCQ_ERROR_HOST));
    WAIT_RESULT(first, HCQ_ERROR_HOST);
    WAIT_RESULT(last, HCQ_ERROR_HOST);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
}

/* ---- the ring is smaller than the work ---- */

static void full_lanes_wait(void **state) {
    (void)state;
    hcq_device_desc desc = test_desc();
    desc.inflight = 4;
    hcq_device *device = test_open(0, &desc);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_program *add = make_add(device);
    hcq_buffer a = make_words(device, 4);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    for (int i = 0; i < 500; i++) {
        CHECK_OK(hcq_queue_submit(q, device, NULL));
    }
    CHECK_U64(READ32(a, 0), 500);
    /* More than that is held and released at once. */
    hcq_signal gate = make_signal(device, 0);
    hcq_queue *held = make_queue(device, HCQ_COMPUTE);
    hcq_point done;
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 0);
    CHECK_INDEX(record_add(held, add, a, 0, 1), 1);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(hcq_queue_submit(held, device, &done));
    }
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(done);
    CHECK_U64(READ32(a, 0), 600);
    CHECK_OK(hcq_close(device));
}

/* Several lanes of a kind: equal affinity, equal lane, in order. */
static void affinity_picks_lanes(void **state) {
    (void)state;
    hcq_device_desc desc = test_desc();
    desc.compute_lanes = 3;
    hcq_device *device = test_open(0, &desc);
    hcq_program *mix = make_mix(device);
    hcq_buffer a[3], b = make_words(device, 64);
    hcq_queue *q[3];
    uint32_t model = 0;
    for (uint32_t i = 0; i < 3; i++) {
        a[i] = make_words(device, 64);
        mix_args args = {a[i].address, b.address, 64, i};
        q[i] = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q[i], mix, &args, sizeof args, hcq_dim(64, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
    }
    for (uint32_t round = 0; round < 50; round++) {
        model = model * 31u + 2;
        for (uint32_t i = 0; i < 3; i++) {
            hcq_submission sub = submission(&q[i], 1);
            sub.affinity = 1u << i;
            CHECK_OK(hcq_submit(device, &sub, 1, NULL));
        }
    }
    CHECK_U64(READ32(a[2], 63), model);
    hcq_submission any = submission(&q[0], 1);
    any.affinity = HCQ_ANY_LANE;
    CHECK_OK(hcq_submit(device, &any, 1, NULL));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_close(device));
}

#define HEAVY_TESTS \
    TEST(copy_lane_overlaps_compute), TEST(each_submission_its_variables), \
    TEST(many_held_submissions), TEST(parked_limit_refuses), TEST(chain_on_a_small_stack), \
    TEST(chain_of_failures), TEST(full_lanes_wait), TEST(affinity_picks_lanes)
