/* turns.h - nobody starves and nobody is woken for nothing: host
   commands beside work that keeps coming, threads that wait for what others do
   not raise. Part of conformance.c. */
#include "shared.h"

#include <sys/resource.h>

typedef struct turns_host { uint32_t ran; } turns_host;

static hcq_result turns_host_run(void *user) {
    __atomic_add_fetch(&((turns_host *)user)->ran, 1, __ATOMIC_RELEASE);
    return HCQ_OK;
}

/* An ordered host command runs once what was before it is done, however much
   unordered work keeps its lane busy. */
static void unordered_work_starves_nobody(void **state) {
    (void)state;
    enum { FLIGHT = 4, MOST = 300 };
    const uint64_t size = 4 << 20;
    hcq_queue *copy = make_queue(T.dev, HCQ_COMPUTE), *host = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a, b;
    hcq_point flight[FLIGHT], done;
    turns_host counter = {0};
    CHECK_OK(hcq_alloc(T.dev, size, 0, &a));
    CHECK_OK(hcq_alloc(T.dev, size, 0, &b));
    CHECK_INDEX(hcq_queue_copy(copy, a, b, size), 0);
    CHECK_OK(hcq_queue_bind(copy, T.dev));
    CHECK_INDEX(hcq_queue_host(host, turns_host_run, &counter), 0);
    hcq_submission s = submission(&copy, 1);
    s.flags = HCQ_UNORDERED;
    for (uint32_t i = 0; i < FLIGHT; i++) {
        CHECK_OK(hcq_submit(T.dev, &s, 1, &flight[i]));
    }
    CHECK_OK(hcq_queue_submit(host, T.dev, &done));
    uint32_t more = 0;
    for (; more < MOST && test_poll(done) == HCQ_TIMEOUT; more++) {
        WAIT_OK(flight[more % FLIGHT]);
        CHECK_OK(hcq_submit(T.dev, &s, 1, &flight[more % FLIGHT]));
    }
    CHECK(more < MOST);
    WAIT_OK(done);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    hcq_free(a);
    hcq_free(b);
}

/* Host commands of one lane do not hold up those of another, and among unordered
   ones the oldest is first. */
static void host_commands_take_turns(void **state) {
    (void)state;
    enum { N = 200 };
    hcq_queue *first = make_queue(T.dev, HCQ_COMPUTE), *other = make_queue(T.dev, HCQ_COPY);
    turns_host counters[2] = {{0}, {0}};
    hcq_point done, all = make_gate(T.dev);
    CHECK_INDEX(hcq_queue_host(first, turns_host_run, &counters[0]), 0);
    CHECK_INDEX(hcq_queue_host(other, turns_host_run, &counters[1]), 0);
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(submit_behind(first, T.dev, i ? NULL : &all, NULL));
    }
    CHECK_OK(submit_behind(other, T.dev, &all, &done));
    open_gate(all);
    WAIT_OK(done);
    if (!T.variant->one_fifo && !is_cpu()) {
        CHECK(__atomic_load_n(&counters[0].ran, __ATOMIC_ACQUIRE) < N);
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(counters[0].ran, N);
}

/* The service thread waits for one lane when a host command is due on another: it
   is called at once, not when that wait ends. */
static void service_thread_can_be_kicked(void **state) {
    (void)state;
    enum { COPIES = 48, N = 10 };
    if (is_cpu() || (T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE)) {
        SKIP("no service thread, or one lane");
        return;
    }
    const uint64_t size = 16 << 20;
    turns_host counter = {0};
    hcq_queue *busy = make_queue(T.dev, HCQ_COMPUTE), *quick = make_queue(T.dev, HCQ_COPY);
    hcq_buffer a, b;
    hcq_point done;
    CHECK_OK(hcq_alloc(T.dev, size, 0, &a));
    CHECK_OK(hcq_alloc(T.dev, size, 0, &b));
    for (int i = 0; i < COPIES; i++) {
        CHECK_INDEX(hcq_queue_copy(busy, a, b, size), i);
    }
    CHECK_INDEX(hcq_queue_host(busy, turns_host_run, &counter), COPIES);
    CHECK_INDEX(hcq_queue_host(quick, turns_host_run, &counter), 0);
    CHECK_OK(hcq_queue_submit(busy, T.dev, &done));
    hcq_submission s = submission(&quick, 1);
    s.flags = HCQ_UNORDERED;           /* follows nothing: due as soon as it is submitted */
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(hcq_submit(T.dev, &s, 1, NULL));
        CHECK(word_until(&counter.ran, i + 1));
    }
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_OK(hcq_device_synchronize(T.dev, 60 * SECOND));
    WAIT_OK(done);
    CHECK_U64(counter.ran, N + 1);
    hcq_free(a);
    hcq_free(b);
}

typedef struct turns_sleeper {
    pthread_t thread;
    hcq_point points[3];
    uint32_t count;
    uint32_t ready;                    /* atomic */
    long switches;
    hcq_result result;
} turns_sleeper;

static void *turns_sleep(void *user) {
    turns_sleeper *s = (turns_sleeper *)user;
    struct rusage before, after;
    const int thread = 1;              /* RUSAGE_THREAD, which POSIX does not know */
    getrusage(thread, &before);
    __atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
    s->result = hcq_wait(s->points, s->count, HCQ_ANY, BOUND);
    getrusage(thread, &after);
    s->switches = after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

/* Threads that wait for other signals, or for higher values of the same one, sleep
   through a raise. */
static void a_raise_wakes_who_waits_for_it(void **state) {
    (void)state;
    enum { N = 12, RAISES = 60 };
    turns_sleeper sleepers[N];
    hcq_signal own[N], busy = make_signal(T.dev, 0);
    memset(sleepers, 0, sizeof sleepers);
    for (uint32_t i = 0; i < N; i++) {
        turns_sleeper *s = &sleepers[i];
        own[i] = make_signal(i % 2 ? T.dev : T.dev2, 0);
        s->count = 1 + i % 3;
        for (uint32_t k = 0; k < s->count; k++) {
            s->points[k] = k ? hcq_at(busy, 1000 + i + k) : hcq_at(own[i], 1);
        }
        CHECK(pthread_create(&s->thread, NULL, turns_sleep, s) == 0);
        while (!__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE)) {
            mock_sleep(100000);
        }
    }
    mock_sleep(20000000);
    for (uint32_t i = 0; i < RAISES; i++) {
        CHECK_OK(hcq_signal_set(busy, i + 1));
        mock_sleep(1000000);
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(hcq_signal_set(own[i], 1));
    }
    for (uint32_t i = 0; i < N; i++) {
        pthread_join(sleepers[i].thread, NULL);
        CHECK_OK(sleepers[i].result);
        CHECK(sleepers[i].switches < RAISES / 2);
    }
}

typedef struct many_wait { const hcq_point *points; uint32_t count; hcq_result result; } many_wait;

static void *many_wait_run(void *user) {
    many_wait *w = (many_wait *)user;
    w->result = hcq_wait(w->points, w->count, HCQ_ANY, BOUND);
    return NULL;
}

/* More points than a thread can be linked to, and one that is reset meanwhile. */
static void waits_of_many_points_and_resets(void **state) {
    (void)state;
    enum { N = 40 };
    for (uint32_t count = 15; count <= 18; count++) {
        hcq_signal s[N];
        hcq_point points[N];
        for (uint32_t i = 0; i < count; i++) {
            s[i] = make_signal(i % 2 ? T.dev : T.dev2, 0);
            points[i] = hcq_at(s[i], 5);
        }
        for (uint32_t way = 0; way < 3; way++) {
            pthread_t thread;
            many_wait wait = {points, count, HCQ_OK};
            CHECK(pthread_create(&thread, NULL, many_wait_run, &wait) == 0);
            mock_sleep(3000000);
            CHECK_OK(way == 0   ? hcq_signal_set(s[count - 1], 5)
                     : way == 1 ? hcq_signal_reset(s[0], 9)
                                : hcq_signal_fail(s[count / 2], HCQ_ERROR_NATIVE));
            pthread_join(thread, NULL);
            CHECK_RESULT(wait.result, way == 2 ? HCQ_ERROR_NATIVE : HCQ_OK);
            CHECK_OK(hcq_signal_reset(s[0], 0));
            CHECK_OK(hcq_signal_reset(s[count - 1], 0));
            CHECK_OK(hcq_signal_reset(s[count / 2], 0));
        }
    }
}

#define TURNS_TESTS                                                                \
    TEST(unordered_work_starves_nobody), TEST(host_commands_take_turns),           \
    TEST(service_thread_can_be_kicked), TEST(a_raise_wakes_who_waits_for_it),      \
    TEST(waits_of_many_points_and_resets)
