/* signals.h - signals over events and stored words: all directions, how many
   events there are, how exact a wait is, what a waiting host costs. Part of cuda.c. */

/* ---- a thread that waits ---- */

typedef struct waiter {
    pthread_t thread;
    hcq_point point;
    hcq_result result;
    uint64_t cpu_ns, end_ns;
    uint32_t began;                    /* atomic */
} waiter;

static uint64_t cpu_time_ns(void) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void *waiter_run(void *user) {
    waiter *w = (waiter *)user;
    uint64_t before = cpu_time_ns();
    __atomic_store_n(&w->began, 1, __ATOMIC_SEQ_CST);
    w->result = hcq_wait(&w->point, 1, HCQ_ALL, BOUND);
    w->end_ns = hcq_sys_now_ns();
    w->cpu_ns = cpu_time_ns() - before;
    return NULL;
}

static void waiter_start(waiter *w, hcq_point point) {
    memset(w, 0, sizeof *w);
    w->point = point;
    CHECK(pthread_create(&w->thread, NULL, waiter_run, w) == 0);
    while (!__atomic_load_n(&w->began, __ATOMIC_SEQ_CST)) {
        mock_sleep(20000);
    }
    test_sleep_ms(2);
}

static void waiter_join(waiter *w) {
    CHECK(pthread_join(w->thread, NULL) == 0);
    CHECK_OK(w->result);
}

/* ---- all directions, the wait before the signal ---- */

static hcq_queue *queue_put(hcq_device *device, hcq_buffer words, uint32_t index, uint32_t value) {
    put_args args = {words.address, index, value};
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(q, make_put(device), &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 0);
    return q;
}

static void host_waits_for_host(hcq_device *device) {
    hcq_signal s = make_signal(device, 0);
    waiter w;
    waiter_start(&w, hcq_at(s, 3));
    CHECK_OK(hcq_signal_set(s, 2));
    CHECK_OK(hcq_signal_set(s, 5));
    waiter_join(&w);
}

static void device_waits_for_host(hcq_device *device) {
    hcq_buffer words = make_words(device, 4);
    hcq_signal s = make_signal(device, 0);
    hcq_point wait = hcq_at(s, 1);
    hcq_queue *q = queue_put(device, words, 0, 7);
    settle(device);
    hcq_point done = submit_to(device, q, 0, &wait, NULL);
    CHECK_U64(test_query(device, HCQ_QUERY_HELD), 1);
    test_sleep_ms(3);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(s, 1));
    CHECK_U64(test_query(device, HCQ_QUERY_HELD), 0);
    WAIT_OK(done);
    CHECK_U64(READ32(words, 0), 7);
    hcq_queue_destroy(q);
}

static void host_waits_for_device(hcq_device *device, const gates *g) {
    hcq_buffer words = make_words(device, 4);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    waiter w;
    put_args args = {words.address, 1, 9};
    CHECK_INDEX(record_spin(q, g, 0), 0);
    CHECK_INDEX(hcq_queue_exec(q, make_put(device), &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 4)), 2);
    waiter_start(&w, hcq_at(s, 4));
    gate_shut(g, 0);
    (void)submit_of(q, device);
    gate_until_begun(g, 0);
    CHECK_RESULT(test_poll(hcq_at(s, 1)), HCQ_TIMEOUT);
    gate_let(g, 0);
    waiter_join(&w);
    CHECK_U64(READ32(words, 1), 9);
    hcq_queue_destroy(q);
}

/* The consumer is submitted first; handed over with its producer, and waits there. */
static void device_waits_for_device(hcq_device *device, const gates *g) {
    hcq_buffer words = make_words(device, 4), seen = make_words(device, 4);
    hcq_signal s = make_signal(device, 0);
    hcq_point up = hcq_at(s, 1);
    hcq_queue *first = queue_put(device, words, 2, 11), *second = make_queue(device, HCQ_COMPUTE);
    CHECK(record_spin(second, g, 1) >= 0);
    CHECK_INDEX(hcq_queue_append(second, first), 1);
    hcq_queue *third = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_copy(third, seen, words, 16), 0);
    settle(device);
    gate_shut(g, 1);
    hcq_point copied = submit_to(device, third, 1, &up, NULL);
    CHECK_U64(test_query(device, HCQ_QUERY_HELD), 1);
    (void)submit_to(device, second, 0, NULL, &up);
    CHECK(T.variant->narrow || test_query(device, HCQ_QUERY_HELD) == 0);
    gate_until_begun(g, 1);
    CHECK_RESULT(test_poll(copied), HCQ_TIMEOUT);
    gate_let(g, 1);
    WAIT_OK(copied);
    CHECK_U64(READ32(seen, 2), 11);
    hcq_queue_destroy(first);
    hcq_queue_destroy(second);
    hcq_queue_destroy(third);
}

static void all_directions(void **state) {
    (void)state;
    for (uint32_t way = 0; way < MEANS; way++) {
        hcq_device *device = device_by(way, 2, 1);
        gates g;
        gates_open(&g, device);
        for (uint32_t round = 0; round < 5; round++) {
            host_waits_for_host(device);
            device_waits_for_host(device);
            host_waits_for_device(device, &g);
            device_waits_for_device(device, &g);
        }
        CHECK_OK(hcq_close(device));
    }
}

/* The flags choose the means, and the mock saw no other. */
static void means_are_as_chosen(void **state) {
    (void)state;
    for (uint32_t way = 0; way < MEANS; way++) {
        hcq_device *device = device_by(way, 2, 1);
        hcq_cuda_info info = info_of(device);
        if (all_means[way].flags & HCQ_CUDA_EVENTS) {
            CHECK_U64(info.memops, 0);
        }
        if (all_means[way].flags & (HCQ_CUDA_EVENTS | HCQ_CUDA_NO_VALUE_WAITS)) {
            CHECK_U64(info.value_waits, 0);
        }
        mock_cuda_counts before = stats_now();
        settle(device);
        for (uint32_t i = 0; i < 20; i++) {
            hcq_point done = submit_to(device, NULL, 0, NULL, NULL);
            hcq_queue *q = queue_put(device, make_words(device, 4), 0, i);
            done = submit_to(device, q, 0, NULL, NULL);
            WAIT_OK(submit_to(device, q, 1, &done, NULL));
            hcq_queue_destroy(q);
        }
        mock_cuda_counts after = stats_now();
        CHECK(info.memops || after.value_writes == before.value_writes);
        CHECK(info.value_waits || after.value_waits == before.value_waits);
        CHECK(!mocked || !info.memops || after.value_writes > before.value_writes);
        CHECK(info.memops ? COUNT(device, WRITES) > 0 : COUNT(device, WRITES) == 0);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- how many events ---- */

enum { MANY = 10000 };

/* Submissions of two lanes wait for one of a third, all before it ends. */
static void many_waits_on(uint32_t way) {
    hcq_device *device = device_by(way, 3, 1);
    const int own_events = !info_of(device).value_waits; /* with each submission */
    hcq_buffer words = make_words(device, 4);
    hcq_queue *q[2] = {make_queue(device, HCQ_COMPUTE), make_queue(device, HCQ_COMPUTE)};
    hcq_point last[2];
    gates g;
    gates_open(&g, device);
    CHECK_INDEX(hcq_queue_write(q[0], words, 1, 4), 0);
    CHECK_INDEX(hcq_queue_write(q[1], hcq_view(words, 4, 4), 1, 4), 0);
    settle(device);
    uint64_t records = COUNT(device, RECORDS), made = COUNT(device, EVENTS_MADE);
    uint64_t used = COUNT(device, EVENTS);
    hcq_point first = submit_spin(&g, 0, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        last[i & 1] = submit_to(device, q[i & 1], 1 + (i & 1), &first, NULL);
    }
    CHECK_U64(test_query(device, HCQ_QUERY_HELD), 0);
    CHECK(COUNT(device, RECORDS) - records <= 8 + (own_events ? MANY : 0));
    CHECK(COUNT(device, EVENTS_MADE) - made <= 8 + (own_events ? MANY : 0));
    CHECK(COUNT(device, WAITS) >= 1 || is_one_stream(way));
    CHECK(COUNT(device, WAITS) + COUNT(device, VALUE_WAITS) <= MANY + 8);
    CHECK_RESULT(test_poll(last[0]), HCQ_TIMEOUT);
    gate_let(&g, 0);
    WAIT_OK(last[0]);
    WAIT_OK(last[1]);
    settle(device);
    CHECK(COUNT(device, EVENTS) <= used + 4);
    hcq_queue_destroy(q[0]);
    hcq_queue_destroy(q[1]);
    CHECK_OK(hcq_close(device));
}

static void many_waits_share_an_event(void **state) {
    (void)state;
    if (T.variant->narrow) {
        SKIP("counters that are swapped hold work back");
        return;
    }
    many_waits_on(0);
    many_waits_on(1);
    many_waits_on(2);
}

/* Two lanes take turns, each waits for the other; a few are on their way at once. */
static void events_on(uint32_t way) {
    enum { AHEAD = 32 };
    hcq_device *device = device_by(way, 2, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_program *add = make_add(device);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point done[AHEAD], before = {{0}, 0};
    const uint32_t times = T.quick ? 2000 : MANY;
    const uint64_t first = COUNT(device, EVENTS_MADE), most = stats_now().max_events;
    CHECK_INDEX(record_add(q, add, words, 1, 1), 0);
    settle(device);
    for (uint32_t i = 0; i < times; i++) {
        if (i >= AHEAD) {
            WAIT_OK(done[i % AHEAD]);
        }
        before = done[i % AHEAD] = submit_to(device, q, i & 1, i ? &before : NULL, NULL);
        CHECK(COUNT(device, EVENTS) <= 4 * AHEAD);
    }
    WAIT_OK(before);
    settle(device);
    CHECK_U64(READ32(words, 1), times);
    CHECK(COUNT(device, EVENTS_MADE) <= first + 4 * AHEAD);
    CHECK(COUNT(device, EVENTS) <= 4);
    CHECK(stats_now().max_events <= most + 8 * AHEAD || !mocked);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

static void events_go_back_to_their_pool(void **state) {
    (void)state;
    for (uint32_t way = 0; way < MEANS; way++) {
        events_on(way);
    }
}

/* ---- a wait is exact ---- */

/* A lane waits for an early submission of another one, which by then has a second
   one that does not end. */
static void exact_on(uint32_t way, int copies, int by_signal) {
    hcq_device *device = device_by(way, 2, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, copies ? HCQ_COPY : HCQ_COMPUTE);
    hcq_queue *early = make_queue(device, HCQ_COMPUTE);
    gates g;
    gates_open(&g, device);
    CHECK_INDEX(hcq_queue_fill(q, words, 16, 5, 4), 0);
    CHECK_INDEX(record_spin(early, &g, 0), 0);
    CHECK_INDEX(hcq_queue_signal(early, hcq_at(s, 1)), 1);
    CHECK_INDEX(hcq_queue_signal(early, hcq_at(s, 2)), 2);
    settle(device);
    hcq_point first = submit_to(device, early, 0, NULL, NULL);
    hcq_point second = submit_spin(&g, 1, 0), third = submit_spin(&g, 2, 0);
    hcq_point wait = by_signal ? hcq_at(s, 1) : first;
    hcq_point done = submit_to(device, q, copies ? 0 : 1, &wait, NULL);
    gate_until_begun(&g, 0);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    gate_let(&g, 0);
    WAIT_OK(done);
    CHECK_RESULT(test_poll(second), HCQ_TIMEOUT);
    gate_let(&g, 1);
    WAIT_OK(second);
    CHECK_RESULT(test_poll(third), HCQ_TIMEOUT);
    gate_let(&g, 2);
    WAIT_OK(third);
    hcq_queue_destroy(q);
    hcq_queue_destroy(early);
    CHECK_OK(hcq_close(device));
}

static void waits_are_exact(void **state) {
    (void)state;
    if (T.variant->one_fifo) {
        SKIP("what is behind the long kernel waits for it");
        return;
    }
    for (uint32_t i = 0; i < 12; i++) {
        exact_on(i / 4, (int)(i & 1), (int)(i >> 1 & 1));
    }
}

/* A stream comes to its wait when the other lane is far beyond it. */
static void waits_for_the_past(void **state) {
    (void)state;
    if (T.variant->one_fifo) {
        SKIP("what is behind the long kernel waits for it");
        return;
    }
    for (uint32_t way = 0; way < 3; way++) {
        hcq_device *device = device_by(way, 2, 1);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        gates g;
        gates_open(&g, device);
        CHECK_INDEX(hcq_queue_write(q, make_words(device, 4), 3, 4), 0);
        settle(device);
        hcq_point busy = submit_spin(&g, 2, 1);
        hcq_point first = submit_spin(&g, 0, 0), second = submit_spin(&g, 1, 0);
        hcq_point done = submit_to(device, q, 1, &first, NULL);
        CHECK(!info_of(device).value_waits || COUNT(device, VALUE_WAITS) == 1);
        gate_let(&g, 0);
        gate_let(&g, 1);
        WAIT_OK(second);
        CHECK_RESULT(test_poll(busy), HCQ_TIMEOUT);
        gate_let(&g, 2);
        WAIT_OK(done);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_close(device));
    }
}

/* A host's wait, too: not for what was submitted later on the lane. */
static void host_waits_are_exact(void **state) {
    (void)state;
    for (uint32_t way = 0; way < MEANS; way++) {
        hcq_device *device = device_by(way, 1, 1);
        gates g;
        waiter w;
        gates_open(&g, device);
        hcq_point first = submit_spin(&g, 0, 0), second = submit_spin(&g, 1, 0);
        waiter_start(&w, first);
        gate_let(&g, 0);
        waiter_join(&w);
        CHECK_RESULT(test_poll(second), HCQ_TIMEOUT);
        gate_let(&g, 1);
        WAIT_OK(second);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- nothing waits for what is not there ---- */

/* With every wait for a value a misuse of the mock's, chains over the lanes work. */
static void no_value_waits(void **state) {
    (void)state;
    NEEDS_MOCK();
    mock_cuda_desc desc = mock_wanted();
    desc.flags |= MOCK_CUDA_NO_WAIT_VALUES;
    M.setup(&desc);
    events_on(2);
    if (!T.variant->one_fifo) {
        exact_on(2, 1, 0);
    }
    CHECK_U64(calls_of("cuStreamWaitValue*"), 0);
    CHECK_U64(calls_of("cuStreamBatchMemOp*"), 0);
}

/* Held work gives CUDA nothing: neither itself nor its waits. */
static void held_work_is_not_handed_over(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t way = 0; way < MEANS; way++) {
        hcq_device *device = device_by(way, 2, 1);
        hcq_signal s = make_signal(device, 0);
        hcq_point wait = hcq_at(s, 1), last = {{0}, 0};
        hcq_queue *q = queue_put(device, make_words(device, 4), 0, 1);
        settle(device);
        CHECK(M.idle(5000));
        uint64_t operations = stats_now().operations, waits = calls_of("cuStreamWait*");
        for (uint32_t i = 0; i < 20; i++) {
            last = submit_to(device, q, i & 1, i < 2 ? &wait : &last, NULL);
        }
        CHECK(M.idle(5000));
        CHECK_U64(stats_now().operations, operations);
        CHECK_U64(calls_of("cuStreamWait*"), waits);
        CHECK_OK(hcq_signal_set(s, 1));
        WAIT_OK(last);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- what a waiting host costs ---- */

static void waiting_hosts_sleep(void **state) {
    (void)state;
    enum { TRIES = 6 };
    for (uint32_t way = 0; way < 2; way++) {
        hcq_device *device = device_by(way, 1, 1);
        uint64_t best_cpu = UINT64_MAX, best_late = UINT64_MAX;
        gates g;
        waiter w;
        gates_open(&g, device);
        for (uint32_t i = 0; i < TRIES; i++) {
            gate_shut(&g, 0);
            waiter_start(&w, submit_spin(&g, 0, 0));
            test_sleep_ms(100);
            uint64_t now = hcq_sys_now_ns();
            gate_let(&g, 0);
            waiter_join(&w);
            best_cpu = w.cpu_ns < best_cpu ? w.cpu_ns : best_cpu;
            best_late = w.end_ns - now < best_late ? w.end_ns - now : best_late;
        }
        fprintf(stderr, "%s: %llu us of CPU in 100 ms, %llu us late\n", all_means[way].name,
                (unsigned long long)best_cpu / 1000, (unsigned long long)best_late / 1000);
        CHECK(best_cpu < 20000000 || TEST_SANITIZED);
        CHECK(best_late < 10000000);
        CHECK_OK(hcq_close(device));
    }
}

#define SIGNAL_TESTS                                                               \
    TEST(all_directions), TEST(means_are_as_chosen), TEST(many_waits_share_an_event), \
    TEST(events_go_back_to_their_pool), TEST(waits_are_exact),                     \
    TEST(waits_for_the_past), TEST(host_waits_are_exact),                          \
    TEST_ALONE(no_value_waits),                                                    \
    TEST(held_work_is_not_handed_over), TEST(waiting_hosts_sleep),
