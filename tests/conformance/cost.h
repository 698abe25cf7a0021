/* cost.h - what is pending does not make calls dearer and wakes nobody for nothing. Part
   of conformance.c. */
#include <sys/resource.h>

static uint64_t thread_ns(void) {      /* others on this CPU do not count */
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* Gives the time that something took with `n` pending, in one of two ways. */
typedef uint64_t (*cost_fn)(uint32_t n, int way);

/* Eight times as many take about eight times as long; where each is looked at
   for each, 64 times. Both are measured in turns, as what else runs may slow them down;
   less than a millisecond counts as one. A sanitizer only sees it run. */
static void grows_with(const char *file, int line, const char *what, cost_fn cost, int way,
                       uint32_t n) {
    uint64_t once = 0, eight = 0;
    if (TEST_SANITIZED) {
        (void)cost(n / 8, way);
        return;
    }
    n = T.quick ? n / 2 : n;
    for (int i = 0; i < 5; i++) {
        once = cost(n, way);
        eight = cost(8 * n, way);
        if (eight < 24 * (once > SECOND / 1000 ? once : SECOND / 1000)) {
            return;
        }
    }
    fprintf(stderr, "%s:%d: %s, %d: %u take %.2f ms, %u take %.2f ms\n", file, line, what, way, n,
            (double)once / 1e6, 8 * n, (double)eight / 1e6);
    _fail(file, line);
}
#define GROWS_LIKE_N(cost, way, n) grows_with(__FILE__, __LINE__, #cost, (cost), (way), (n))

static void *room_for(uint32_t count, size_t size) {
    void *room = calloc(count, size);
    CHECK(room != NULL);
    return room;
}

/* ---- explaining ---- */

/* One submission with many waits; or a 64th, and many held ones of which none raises
   them. */
static uint64_t explain_many(uint32_t n, int held) {
    hcq_device *device = test_open(0, NULL);
    uint32_t wait_count = held ? n / 64 : n;
    hcq_point *waits = (hcq_point *)room_for(wait_count, sizeof *waits), done;
    hcq_signal other = make_signal(device, 0);
    for (uint32_t i = 0; i < wait_count; i++) {
        hcq_point near = make_gate(device);
        waits[i] = hcq_at(near.signal, 2); /* somebody raises it, but not that far */
        CHECK_OK(held ? submit_lists(device, &waits[0], &near, HCQ_UNORDERED, NULL) : HCQ_OK);
    }
    CHECK_OK(submit_waits(device, waits, wait_count, NULL, HCQ_UNORDERED, &done));
    for (uint32_t i = 0; held && i < n; i++) {
        hcq_point raise = hcq_at(other, i + 1);
        CHECK_OK(submit_lists(device, &waits[0], &raise, HCQ_UNORDERED, NULL));
    }
    uint64_t start = thread_ns();
    CHECK(hcq_explain(&done, 1, NULL, 0) < sizeof explained);
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_close(device));
    free(waits);
    return took;
}

TEST(explaining_is_bounded) {
    GROWS_LIKE_N(explain_many, 0, 2000);
    GROWS_LIKE_N(explain_many, 1, 5120);
}

/* ---- what comes and goes ---- */

typedef struct comer { hcq_notification notice; hcq_signal signal; } comer;

static void comes(comer *c, hcq_device *device, hcq_point gate, int notices) {
    if (notices) {
        CHECK_OK(hcq_notify(gate, notify_nothing, NULL, &c->notice));
    } else {
        c->signal = make_signal(device, 0);
    }
}

/* One early and one late of many are taken back and made again. */
static uint64_t come_and_go(uint32_t n, int notices) {
    hcq_device *device = test_open(0, NULL);
    hcq_point gate = make_gate(device);
    comer *all = (comer *)room_for(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        comes(&all[i], device, gate, notices);
    }
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n / 2; i++) {
        comer *c = &all[i % 2 ? n - 1 : 0];
        CHECK_OK(notices ? hcq_notify_cancel(c->notice) : hcq_signal_destroy(c->signal));
        comes(c, device, gate, notices);
    }
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_close(device));
    free(all);
    return took;
}

TEST(handles_are_found_at_once) {
    GROWS_LIKE_N(come_and_go, 0, 8000);
    GROWS_LIKE_N(come_and_go, 1, 8000);
}

/* One block comes and goes: many others, of another size, are in the cache; or all are
   behind work that does not end. */
static uint64_t blocks_come_and_go(uint32_t n, int behind_work) {
    static const uint32_t flags[] = {0, HCQ_NO_CACHE, HCQ_ZEROED};
    hcq_device *device = test_open(0, NULL);
    hcq_point gate = make_gate(device);
    hcq_buffer *buffers = (hcq_buffer *)room_for(n, sizeof *buffers), one;
    for (uint32_t i = 0; !behind_work && i < n; i++) {
        CHECK_OK(hcq_alloc(device, 64, 0, &buffers[i]));
    }
    for (uint32_t i = 0; !behind_work && i < n; i++) {
        CHECK_OK(hcq_free(buffers[i]));
    }
    CHECK_OK(behind_work ? submit_lists(device, &gate, NULL, 0, NULL) : HCQ_OK);
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < (behind_work ? 3 * n : n); i++) {
        CHECK_OK(hcq_alloc(device, behind_work ? 256 : 4096, flags[i / n], &one));
        CHECK_OK(hcq_free(one));
    }
    uint64_t took = thread_ns() - start;
    open_gate(gate);
    CHECK_OK(hcq_close(device));
    free(buffers);
    return took;
}

TEST(freed_blocks_cost_the_same) {
    GROWS_LIKE_N(blocks_come_and_go, 0, 1500);
    GROWS_LIKE_N(blocks_come_and_go, 1, 400);
}

/* ---- raises ---- */

/* A lower value of a signal is still to land, maybe with a timestamp before it. Many
   raises of higher ones follow, which run or have failed; then many wait. */
static uint64_t raises_follow(uint32_t n, int failed) {
    /* no growth of pools is measured */
    hcq_device *device = OPEN_WITH(0, .inflight = 1u << 20, .held_pool = 65536);
    hcq_signal s = make_signal(device, 0);
    hcq_point gate = make_gate(device), wait = hcq_at(s, failed ? 2 : 1);
    hcq_queue *q = make_holder(device);
    CHECK_INDEX(failed ? hcq_queue_signal(q, hcq_at(s, 1)) : hcq_queue_timestamp(q, s), 1);
    hcq_point done = hold_start(q, device);
    for (uint32_t i = 0; i < n; i++) {
        hcq_point raise = hcq_at(s, i + wait.value);
        CHECK_OK(submit_lists(device, failed ? &gate : NULL, &raise, failed ? HCQ_UNORDERED : 0,
                              NULL));
    }
    CHECK_OK(failed ? hcq_signal_fail(gate.signal, HCQ_ERROR_HOST, NULL) : HCQ_OK);
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(submit_lists(device, &wait, NULL, failed ? HCQ_UNORDERED : 0, NULL));
    }
    uint64_t took = thread_ns() - start;
    hold_release();
    WAIT_OK(done);
    CHECK_OK(hcq_close(device));
    return took;
}

TEST(raises_are_found_at_once) {
    GROWS_LIKE_N(raises_follow, 1, 2000);
    if (T.variant->narrow || test_validates()) {
        return;                        /* few can run at once; the layer searches, too */
    }
    GROWS_LIKE_N(raises_follow, 0, 2000);
}

/* Work that is held on another device and goes with the closed one, each waking
   the next. */
static uint64_t close_cancels_elsewhere(uint32_t n, int way TEST_UNUSED) {
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *q = make_call(device, HCQ_COMPUTE, host_nothing, NULL);
    for (uint32_t i = 0; i < n; i++) {
        hcq_point wait = hcq_at(s, i + 2), raise = hcq_at(s, i + 3);
        CHECK_OK(submit_queue(q, T.dev, &wait, &raise, HCQ_UNORDERED, NULL));
    }
    uint64_t start = thread_ns();
    CHECK_OK(hcq_close(device));
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    return took;
}

TEST(closing_is_not_a_search) {
    GROWS_LIKE_N(close_cancels_elsewhere, 0, 3000);
}

/* ---- wake-ups ---- */

typedef struct sleeper {
    blocked_call wait;
    long switches;                     /* of a thread that does nothing else */
} sleeper;

static void *sleeper_run(void *user) {
    sleeper *s = (sleeper *)user;
    struct rusage usage;
    const int thread = 1;              /* RUSAGE_THREAD, which POSIX does not know */
    (void)blocked_wait(&s->wait);
    getrusage(thread, &usage);
    s->switches = usage.ru_nvcsw;
    return NULL;
}

/* Threads that wait for other signals, or for higher values of the same one, sleep
   through a raise. */
TEST(a_raise_wakes_who_waits_for_it) {
    enum { N = 12, RAISES = 60 };
    static sleeper sleepers[N];
    hcq_signal own[N], busy = make_signal(T.dev, 0);
    for (uint32_t i = 0; i < N; i++) {
        blocked_call *w = &sleepers[i].wait;
        own[i] = make_signal(i % 2 ? T.dev : dev2(), 0);
        *w = (blocked_call){.count = 1 + i % 3, .mode = HCQ_ANY, .timeout_ns = BOUND};
        for (uint32_t k = 0; k < w->count; k++) {
            w->points[k] = k ? hcq_at(busy, 1000 + i + k) : hcq_at(own[i], 1);
        }
        CHECK(pthread_create(&w->thread, NULL, sleeper_run, &sleepers[i]) == 0);
        blocked_until(w);
    }
    for (uint32_t i = 0; i < RAISES; i++) {
        CHECK_OK(hcq_signal_set(busy, i + 1));
        mock_sleep(1000000);
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(hcq_signal_set(own[i], 1));
    }
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(call_ends(&sleepers[i].wait));
        CHECK(sleepers[i].switches < RAISES / 2);
    }
}
