/* signals.h - signals over events and stored words: how many events there are, how
   exact a wait is, what a waiting host costs, what waits for nobody. Part of cuda.c. */
#pragma once

#include "kernels.h"
#include "shared.h"

/* ---- a thread that waits ---- */

typedef struct waiter {
    pthread_t thread;
    hcq_point point;
    hcq_result result;
    uint64_t cpu_ns;
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
    w->cpu_ns = cpu_time_ns() - before;
    return NULL;
}

static void waiter_start(waiter *w, hcq_point point) {
    *w = (waiter){.point = point};
    CHECK(pthread_create(&w->thread, NULL, waiter_run, w) == 0);
    while (!__atomic_load_n(&w->began, __ATOMIC_SEQ_CST)) {
        mock_sleep(20000);
    }
    test_sleep_ms(2);
}

static hcq_result waiter_join(waiter *w) {
    CHECK(pthread_join(w->thread, NULL) == 0);
    return w->result;
}

/* ---- the means ---- */

/* What the driver says it can is taken, but no old functions of the same name. */
TEST_ALONE(means_of_the_driver) {
    NEEDS_MOCK();
    for (uint32_t lacks = 0; lacks < 2; lacks++) {
        mock_again(lacks ? MOCK_CUDA_NO_MEMOPS : 0, 0);
        hcq_device *device = device_by(0, 2, 1);
        hcq_cuda_info info = info_of(device);
        CHECK_U64(info.memops, info.driver_version >= 11070 && !lacks);
        use_device(device);
        CHECK(calls_of("cuStreamWriteValue64_v2") == calls_of("cuStreamWriteValue64*"));
        CHECK((calls_of("cuStreamWriteValue64*") != 0) == (info.value_waits != 0)); /* else later */
        CHECK_OK(hcq_close(device));
    }
}

/* ---- how many events ---- */

enum { MANY = 10000 };

/* Submissions of two lanes wait for one of a third, all before it ends. */
TEST_OF_MEANS(many_waits_share_an_event) {
    NEEDS_WIDE_COUNTERS();
    const uint32_t times = T.quick ? 2000 : MANY;
    hcq_device *device = device_by(way, 3, 1);
    const int own_events = !info_of(device).value_waits; /* with each submission */
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point last[2];
    gates g;
    gates_open(&g, device);
    CHECK_INDEX(record_word(q, make_words(device, 4), 1, 4), 0);
    settle(device);
    uint64_t records = COUNT(device, RECORDS), made = COUNT(device, EVENTS_MADE);
    uint64_t used = COUNT(device, EVENTS);
    hcq_point first = submit_spin(&g, 0, 0);
    for (uint32_t i = 0; i < times; i++) {
        last[i & 1] = submit_to(device, q, 1 + (i & 1), &first, NULL);
    }
    CHECK_U64(test_query(device, HCQ_QUERY_HELD), 0);
    CHECK(COUNT(device, RECORDS) - records <= 8 + (own_events ? times : 0));
    CHECK(COUNT(device, EVENTS_MADE) - made <= 8 + (own_events ? times : 0));
    CHECK(COUNT(device, WAITS) >= 1 || is_one_stream(way));
    CHECK(COUNT(device, WAITS) + COUNT(device, VALUE_WAITS) <= times + 8);
    CHECK_RESULT(test_poll(last[0]), HCQ_TIMEOUT);
    GATE_END(&g, 0, last[0]);
    WAIT_OK(last[1]);
    settle(device);
    CHECK(COUNT(device, EVENTS) <= used + 4);
    CHECK_OK(hcq_close(device));
}

/* Two lanes take turns, each waits for the other; a few are on their way at once. The
   flags have chosen the means, and the mock sees no other. */
TEST_OF_MEANS(events_go_back_to_their_pool) {
    enum { AHEAD = 32 };
    hcq_device *device = device_by(way, 2, 1);
    const hcq_cuda_info info = info_of(device);
    hcq_buffer words = make_words(device, 4);
    hcq_queue *q = queue_of_adds(words, 1, 1);
    hcq_point done[AHEAD], before = {{0}, 0};
    const uint32_t times = T.quick ? 2000 : MANY;
    const uint64_t first = COUNT(device, EVENTS_MADE), created = calls_of("cuEventCreate");
    CHECK(!(all_means[way] & HCQ_CUDA_EVENTS) || info.memops == 0);
    CHECK_U64(info.value_waits, info.memops && !(test_cuda_desc.flags & HCQ_CUDA_NO_VALUE_WAITS));
    settle(device);
    const uint64_t writes = calls_of("cuStreamWrite*"), waits = calls_of("cuStreamWaitValue*");
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
    CHECK(!mocked || calls_of("cuEventCreate") - created == COUNT(device, EVENTS_MADE) - first);
    CHECK(info.value_waits || calls_of("cuStreamWaitValue*") == waits);
    CHECK(!mocked || !info.memops == (calls_of("cuStreamWrite*") == writes));
    CHECK(!info.memops == (COUNT(device, WRITES) == 0));
    CHECK_OK(hcq_close(device));
}

/* Where each submission has an event a store follows every 64 operations; an empty one is two. */
TEST(stores_beside_events) {
    enum { EMPTY = 2, BATCHES = 64 / EMPTY };
    NEEDS_WIDE_COUNTERS();
    hcq_device *device = device_of(0, HCQ_CUDA_MEMOPS | HCQ_CUDA_NO_VALUE_WAITS, 1, 1);
    const int stores = info_of(device).memops != 0;
    settle(device);
    for (uint32_t i = 1; i <= 3 * BATCHES; i++) {
        hcq_point done = submit_to(device, NULL, 0, NULL, NULL);
        CHECK_U64(COUNT(device, WRITES), stores ? i / BATCHES : 0);
        WAIT_OK(done);                 /* stored or not */
    }
    CHECK_OK(hcq_close(device));
}

/* ---- a wait is exact ---- */

/* A host, and a lane where there is another stream, wait for an early submission of a
   lane, which by then has two more that do not end. */
static void exact_on(uint32_t way, int copies, int by_signal) {
    hcq_device *device = device_by(way, 2, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, copies ? HCQ_COPY : HCQ_COMPUTE);
    hcq_queue *early = make_queue(device, HCQ_COMPUTE);
    hcq_point done = {{0}, 0};
    waiter w;
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
    if (!is_one_stream(way)) {
        done = submit_to(device, q, copies ? 0 : 1, &wait, NULL);
        CHECK_U64(COUNT(device, VALUE_WAITS), info_of(device).value_waits);
        gate_until_begun(&g, 0);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    }
    waiter_start(&w, wait);
    gate_let(&g, 0);
    CHECK_OK(waiter_join(&w));
    if (!is_one_stream(way)) {
        WAIT_OK(done);
    }
    CHECK_RESULT(test_poll(second), HCQ_TIMEOUT);
    GATE_END(&g, 1, second);
    CHECK_RESULT(test_poll(third), HCQ_TIMEOUT);
    GATE_END(&g, 2, third);
    CHECK_OK(hcq_close(device));
}

TEST_OF_MEANS(waits_are_exact) {
    for (int i = 0; i < 4; i++) {
        exact_on(way, i & 1, i >> 1);
    }
}

/* What it costs a host to wait for 100 ms, at best. */
TEST_OF_MEANS(waiting_hosts_sleep) {
    hcq_device *device = device_by(way, 1, 1);
    uint64_t best = UINT64_MAX;
    waiter w;
    gates g;
    gates_open(&g, device);
    for (uint32_t i = 0; i < 6 && best >= SECOND / 50; i++) {
        gate_shut(&g, 0);
        waiter_start(&w, submit_spin(&g, 0, 0));
        test_sleep_ms(100);
        gate_let(&g, 0);
        CHECK_OK(waiter_join(&w));
        best = w.cpu_ns < best ? w.cpu_ns : best;
    }
    CHECK(best < SECOND / 50 || TEST_SANITIZED);
    CHECK_OK(hcq_close(device));
}

/* A reading claims less the older it is: at most 100 millionths of its age. */
TEST_ALONE(clocks_that_drift) {
    hcq_clock aged, fresh;
    NEEDS_MOCK();
    mock_cuda_desc desc = mock_wanted();
    desc.timer_drift_ppm = 80;
    M.setup(&desc);
    hcq_device *device = test_open(0, NULL);
    for (uint64_t opened = hcq_now_ns(); hcq_now_ns() - opened < 9 * SECOND / 10;) {
        mock_sleep(1000000);           /* both are read anew once a second */
    }
    CHECK_OK(hcq_device_clock(device, &aged));
    test_sleep_ms(150);
    CHECK_OK(hcq_device_clock(device, &fresh));
    int64_t off = (int64_t)(hcq_clock_to_host(&aged, fresh.device_ns) - fresh.host_ns);
    int64_t most = (int64_t)(aged.error_ns + fresh.error_ns +
                             (fresh.host_ns - aged.host_ns) / 10000);
    CHECK(off <= most && -off <= most);
    CHECK_OK(hcq_close(device));
}
