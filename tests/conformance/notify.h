/* notify.h - notifications, and handles for event loops: when they come, once, in
   which order and from which thread, and how they are taken back. Part of
   conformance.c. */
#include "shared.h"

#include <fcntl.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

/* ---- when they come ---- */

static void notify_at_once(TEST_ARGS) {
    static notice n[8];
    uint32_t i = 0;
    hcq_signal s = make_signal(T.dev, 7), failed = make_signal(T.dev2, 3);
    hcq_signal stale = make_signal(T.dev, 1);
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_NATIVE));
    const struct { hcq_point point; hcq_result want; } cases[] = {
        {hcq_at(s, 7), HCQ_OK},
        {hcq_at(s, 1), HCQ_OK},
        {hcq_at(s, 0), HCQ_OK},
        {hcq_at(failed, 3), HCQ_OK},   /* reached is reached */
        {hcq_at(failed, 4), HCQ_ERROR_NATIVE},
        {hcq_at(hcq_device_timeline(T.dev), 0), HCQ_OK},
    };
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        NOTIFY_AT(&n[i], cases[i].point);
        CHECK_U64(notice_calls(&n[i]), 1); /* before hcq_notify returned */
        CHECK_RESULT(n[i].result, cases[i].want);
        CHECK(pthread_equal(n[i].thread, pthread_self()));
        CHECK_RESULT(hcq_notify_cancel(n[i].id), HCQ_ERROR_CLOSED);
    }
    memset(&n[6], 0, sizeof n[6]);
    CHECK_OK(hcq_notify(hcq_at(s, 7), notice_run, &n[6], NULL));
    CHECK_U64(notice_calls(&n[6]), 1);
    CHECK_OK(hcq_signal_destroy(stale));
    memset(&n[7], 0, sizeof n[7]);
    CHECK_RESULT(hcq_notify(hcq_at(stale, 1), notice_run, &n[7], NULL), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_signal_set(s, 8));
    CHECK_OK(hcq_signal_set(s, 100));
    for (i = 0; i < 8; i++) {
        CHECK_U64(notice_calls(&n[i]), i < 7); /* once, and the refused one never */
    }
}

/* Held first, then run by somebody's set: nobody calls hcq after that. */
static void notify_when_released(TEST_ARGS) {
    static notice n[5];
    for (int way = 0; way < 4; way++) {
        hcq_device *device = way % 2 ? T.dev2 : T.dev;
        hcq_signal gate = make_signal(T.dev, 0), s = make_signal(T.dev2, 0);
        hcq_queue *q = make_queue(device, way / 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_buffer word = make_words(device, 4);
        hcq_point done;
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
        CHECK_INDEX(hcq_queue_write(q, word, 5, 4), 1);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 2)), 2);
        NOTIFY_AT(&n[0], hcq_at(s, 1)); /* before anybody was going to raise it */
        CHECK_OK(hcq_queue_submit(q, device, &done));
        NOTIFY_AT(&n[1], hcq_at(s, 2));
        NOTIFY_AT(&n[2], done);
        NOTIFY_AT(&n[3], timeline_now(device));
        NOTIFY_AT(&n[4], hcq_at(gate, 1));
        for (int i = 0; i < 5; i++) {
            SILENT(&n[i]);
        }
        CHECK_OK(hcq_signal_set(gate, 1));
        for (int i = 0; i < 5; i++) {
            NOTIFIED(&n[i], HCQ_OK);
        }
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(hcq_signal_set(gate, 2));
        CHECK_OK(hcq_signal_set(s, 3));
        CHECK_U64(READ32(word, 0), 5);
        for (int i = 0; i < 5; i++) {
            CHECK_U64(notice_calls(&n[i]), 1);
            CHECK_RESULT(hcq_notify_cancel(n[i].id), HCQ_ERROR_CLOSED);
        }
    }
}

/* A submission's point is exact; the timeline's waits for all before it. */
static void notify_exact_and_prefix(TEST_ARGS) {
    static notice exact, prefix, first;
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1), held, done;
    CHECK_OK(submit_lists(T.dev, &open, NULL, HCQ_UNORDERED, &held));
    CHECK_OK(submit_lists(T.dev, NULL, NULL, HCQ_UNORDERED, &done));
    NOTIFY_AT(&first, held);
    NOTIFY_AT(&prefix, timeline_now(T.dev));
    NOTIFY_AT(&exact, done);
    NOTIFIED(&exact, HCQ_OK);
    SILENT(&first);
    SILENT(&prefix);
    CHECK_OK(hcq_signal_set(gate, 1));
    NOTIFIED(&first, HCQ_OK);
    NOTIFIED(&prefix, HCQ_OK);
}

/* Every way in which a point can become impossible: one call, and why. */
static void notify_of_failures(TEST_ARGS) {
    static notice n[9];
    static uint32_t go;
    __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
    hcq_signal fails = make_signal(T.dev, 0), gone = make_signal(T.dev2, 0);
    hcq_signal raised = make_signal(T.dev2, 0), by_host = make_signal(T.dev, 0);
    hcq_signal half = make_signal(T.dev2, 0);
    hcq_point wait = hcq_at(fails, 2), raise = hcq_at(raised, 1), held, hosted;
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE);
    CHECK_OK(submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, &held));
    CHECK_INDEX(hcq_queue_host(q, host_until, &go), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(half, 1)), 1);
    CHECK_INDEX(hcq_queue_host(q, host_fails, NULL), 2);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(by_host, 1)), 3);
    CHECK_OK(hcq_queue_submit(q, T.dev2, &hosted));
    NOTIFY_AT(&n[0], wait);
    NOTIFY_AT(&n[1], held);
    NOTIFY_AT(&n[2], raise);
    NOTIFY_AT(&n[3], timeline_now(T.dev));
    NOTIFY_AT(&n[4], hcq_at(gone, 1));
    NOTIFY_AT(&n[5], hosted);
    NOTIFY_AT(&n[6], hcq_at(by_host, 1));
    NOTIFY_AT(&n[7], hcq_at(half, 1));
    NOTIFY_AT(&n[8], timeline_now(T.dev2));
    CHECK_OK(hcq_signal_fail(fails, HCQ_ERROR_LOST));
    NOTIFIED(&n[0], HCQ_ERROR_LOST);
    NOTIFIED(&n[1], HCQ_ERROR_LOST);
    NOTIFIED(&n[2], HCQ_ERROR_LOST);
    NOTIFIED(&n[3], HCQ_OK);           /* the timeline only orders */
    SILENT(&n[4]);
    CHECK_OK(hcq_signal_destroy(gone));
    NOTIFIED(&n[4], HCQ_ERROR_CANCELLED);
    SILENT(&n[5]);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    NOTIFIED(&n[5], HCQ_ERROR_HOST);
    NOTIFIED(&n[6], HCQ_ERROR_HOST);
    NOTIFIED(&n[7], HCQ_OK);
    NOTIFIED(&n[8], HCQ_OK);
    synchronize_both();
    CHECK_OK(hcq_signal_reset(fails, 0));
    CHECK_OK(hcq_signal_set(fails, 5));
    for (int i = 0; i < 9; i++) {
        CHECK_U64(notice_calls(&n[i]), 1);
    }
}

/* ---- many ---- */

static void shuffle(uint32_t *list, uint32_t count, uint64_t seed) {
    for (uint32_t i = 0; i < count; i++) {
        list[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)(test_random(&seed) % i), kept = list[i - 1];
        list[i - 1] = list[k];
        list[k] = kept;
    }
}

/* Asked for in any order, told in the order of values: by one set for all of
   them, by one for each, and by work. */
static void notify_many_in_value_order(TEST_ARGS) {
    enum { N = 10000 };
    static notice n[N];
    static uint32_t turn[N];
    for (int way = 0; way < 3; way++) {
        hcq_signal s = make_signal(T.dev, 0);
        uint32_t before = 0;
        shuffle(turn, N, T.seed + (uint64_t)way);
        for (uint32_t i = 0; i < N; i++) {
            NOTIFY_AT(&n[turn[i]], hcq_at(s, turn[i] + 1));
        }
        if (way == 0) {
            CHECK_OK(hcq_signal_set(s, N));
        }
        for (uint32_t i = 0; i < N && way == 1; i++) {
            CHECK_OK(hcq_signal_set(s, i + 1));
            CHECK_U64(notice_calls(&n[i]), 1);
            CHECK_U64(i + 1 < N ? notice_calls(&n[i + 1]) : 0, 0);
        }
        if (way == 2) {
            hcq_point raise = hcq_at(s, N);
            CHECK_OK(submit_lists(T.dev, NULL, &raise, 0, NULL));
        }
        for (uint32_t i = 0; i < N; i++) {
            NOTIFIED(&n[i], HCQ_OK);
            if (way < 2) {             /* a single thread finds out */
                CHECK(n[i].order > before);
                before = n[i].order;
            }
        }
        CHECK_OK(hcq_signal_destroy(s));
        for (uint32_t i = 0; i < N; i++) {
            CHECK_U64(notice_calls(&n[i]), 1);
        }
    }
}

/* The limit that the header names; beyond it a clear answer, and no harm. */
static void notify_up_to_the_limit(TEST_ARGS) {
    enum { LEAST = 1000000, MOST = 1100000 };
    SKIP_IF(T.quick || TEST_SANITIZED || strcmp(T.variant->name, "cpu") != 0,
            "once is enough, on cpu");
    static notice n;
    hcq_notification *ids = (hcq_notification *)malloc(MOST * sizeof *ids);
    hcq_signal s = make_signal(T.dev, 0);
    hcq_result result = HCQ_OK;
    uint32_t count = 0;
    memset(&n, 0, sizeof n);
    while (count < MOST && result == HCQ_OK) {
        result = hcq_notify(hcq_at(s, 1 + count % 1000), notice_run, &n, &ids[count]);
        count += result == HCQ_OK;
    }
    hcq_result cancelled = hcq_notify_cancel(ids[count / 2]);
    hcq_result again = hcq_notify(hcq_at(s, 1), notice_run, &n, &ids[count / 2]);
    for (uint32_t i = 0; i < count && cancelled == HCQ_OK; i += 2) {
        cancelled = hcq_notify_cancel(ids[i]);
    }
    free(ids);
    CHECK_RESULT(result, HCQ_ERROR_LIMIT);
    CHECK(count >= LEAST);
    CHECK_OK(again);
    CHECK_OK(cancelled);
    CHECK_OK(hcq_signal_set(s, 1000));
    CHECK_U64(notice_calls(&n), count / 2);
}

/* ---- in several threads ---- */

typedef struct notice_slow {
    uint32_t began, go;
    pthread_t thread;
    hcq_signal signal;
    hcq_result set;
} notice_slow;

static void notice_stays(void *user, hcq_result result) {
    notice_slow *slow = (notice_slow *)user;
    (void)result;
    __atomic_store_n(&slow->began, 1, __ATOMIC_RELEASE);
    word_until(&slow->go, 1);
}

static void *notice_slow_run(void *user) {
    notice_slow *slow = (notice_slow *)user;
    slow->set = hcq_signal_set(slow->signal, 1);
    return NULL;
}

/* While one of them takes its time in its thread, others run elsewhere; also
   those that end with a device that is closed meanwhile. */
static void notify_while_another_runs(TEST_ARGS) {
    static notice_slow slow;
    static notice set, worked, ended;
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(T.dev, 0), mine = make_signal(device, 0);
    hcq_signal raised = make_signal(T.dev, 0);
    hcq_point raise = hcq_at(raised, 1);
    memset(&slow, 0, sizeof slow);
    slow.signal = make_signal(T.dev, 0);
    CHECK_OK(hcq_notify(hcq_at(slow.signal, 1), notice_stays, &slow, NULL));
    NOTIFY_AT(&set, hcq_at(s, 1));
    NOTIFY_AT(&worked, raise);
    NOTIFY_AT(&ended, hcq_at(mine, 1));
    CHECK(pthread_create(&slow.thread, NULL, notice_slow_run, &slow) == 0);
    int began = word_until(&slow.began, 1);
    hcq_result first = hcq_signal_set(s, 1);
    hcq_result second = submit_lists(T.dev, NULL, &raise, 0, NULL);
    hcq_result third = hcq_close(device);
    word_until(&worked.calls, 1);
    uint32_t calls = notice_calls(&set) + notice_calls(&worked) + notice_calls(&ended);
    __atomic_store_n(&slow.go, 1, __ATOMIC_RELEASE);
    pthread_join(slow.thread, NULL);
    CHECK(began);
    CHECK_OK(slow.set);
    CHECK_OK(first);
    CHECK_OK(second);
    CHECK_OK(third);
    CHECK_U64(calls, 3);
    NOTIFIED(&set, HCQ_OK);
    NOTIFIED(&worked, HCQ_OK);
    NOTIFIED(&ended, HCQ_ERROR_CANCELLED);
}

typedef struct asker {
    pthread_t thread;
    hcq_signal signal;
    uint32_t asked, told;              /* atomic */
    hcq_result end;
} asker;

static void asker_told(void *user, hcq_result result) {
    (void)result;
    __atomic_fetch_add(&((asker *)user)->told, 1, __ATOMIC_ACQ_REL);
}

static void *asker_run(void *user) {
    asker *a = (asker *)user;
    for (uint64_t i = 1; i < 20000 && a->end == HCQ_OK; i++) {
        a->end = hcq_notify(hcq_at(a->signal, i), asker_told, a, NULL);
        if (a->end == HCQ_OK) {
            __atomic_fetch_add(&a->asked, 1, __ATOMIC_ACQ_REL);
        }
    }
    return NULL;
}

/* Threads go on asking while the device is closed: each that was accepted is
   told, and told before both are done. */
static void notify_races_with_close(TEST_ARGS) {
    static asker a[2];
    for (int round = 0; round < 10; round++) {
        hcq_device *device = test_open(0, NULL);
        memset(a, 0, sizeof a);
        a[0].signal = make_signal(device, 0);
        a[1].signal = hcq_device_timeline(device);
        for (int k = 0; k < 2; k++) {
            pthread_create(&a[k].thread, NULL, asker_run, &a[k]);
        }
        word_until(&a[round % 2].asked, 100);
        hcq_result submitted = submit_lists(device, NULL, NULL, 0, NULL);
        hcq_result closed = hcq_close(device);
        for (int k = 0; k < 2; k++) {
            pthread_join(a[k].thread, NULL);
        }
        CHECK_OK(submitted);
        CHECK_OK(closed);
        for (int k = 0; k < 2; k++) {
            CHECK(a[k].end == HCQ_ERROR_CLOSED || a[k].end == HCQ_OK);
            CHECK(word_until(&a[k].told, a[k].asked));
            CHECK_U64(a[k].told, a[k].asked);
        }
    }
}

/* ---- a chain ---- */

enum { RELAY_NOTIFY, RELAY_SET, RELAY_BOTH, RELAY_SUBMIT };

typedef struct relay {
    int way;
    uint32_t count;                    /* links of the chain */
    uint32_t calls;                    /* atomic */
    hcq_signal signal;
    hcq_result result;
} relay;

/* Each call brings about the next one, which another thread may run at once. */
static void relay_run(void *user, hcq_result result) {
    relay *r = (relay *)user;
    uint32_t call = __atomic_add_fetch(&r->calls, 1, __ATOMIC_ACQ_REL);
    hcq_point next = hcq_at(r->signal, r->way == RELAY_NOTIFY ? 1 : call + 1);
    if (result == HCQ_OK && call < r->count) {
        if (r->way != RELAY_SET) {
            result = hcq_notify(next, relay_run, r, NULL);
        }
        if (result == HCQ_OK && (r->way == RELAY_SET || r->way == RELAY_BOTH)) {
            result = hcq_signal_set(r->signal, next.value);
        }
        if (result == HCQ_OK && r->way == RELAY_SUBMIT) {
            result = submit_lists(T.dev, NULL, &next, 0, NULL);
        }
    }
    if (result != HCQ_OK) {
        r->result = result;
        __atomic_store_n(&r->calls, r->count, __ATOMIC_RELEASE); /* ends the test */
    }
}

static void *relay_start(void *user) {
    relay *r = (relay *)user;
    hcq_result result = HCQ_OK;
    uint32_t asked = r->way == RELAY_SET ? r->count : 1;
    for (uint32_t i = 0; i < asked && result == HCQ_OK; i++) {
        result = hcq_notify(hcq_at(r->signal, i + 1), relay_run, r, NULL);
    }
    if (result == HCQ_OK) {
        result = hcq_signal_set(r->signal, 1);
    }
    if (result == HCQ_OK && !word_until(&r->calls, r->count)) {
        result = HCQ_TIMEOUT;
    }
    if (result != HCQ_OK) {
        r->result = result;
    }
    return NULL;
}

static void notify_chain_on_a_small_stack(TEST_ARGS) {
    static relay r;
    for (int way = RELAY_NOTIFY; way <= RELAY_SUBMIT; way++) {
        memset(&r, 0, sizeof r);
        r.way = way;
        r.count = T.quick ? 10000 : 100000;
        if (way == RELAY_SUBMIT) {
            r.count /= 50;             /* a round trip each */
        }
        r.signal = make_signal(T.dev, 0);
        on_a_small_stack(relay_start, &r);
        CHECK_OK(r.result);
        CHECK_U64(r.calls, r.count);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    }
}

/* ---- cancel ---- */

static void notify_cancel(TEST_ARGS) {
    static notice first, second, third;
    hcq_signal s = make_signal(T.dev, 0);
    NOTIFY_AT(&first, hcq_at(s, 1));
    NOTIFY_AT(&second, hcq_at(s, 1));
    NOTIFY_AT(&third, hcq_at(s, 2));
    CHECK_RESULT(hcq_signal_reset(s, 0), HCQ_ERROR_BUSY); /* they wait for it */
    CHECK(first.id.id != second.id.id);
    CHECK_OK(hcq_notify_cancel(first.id));
    CHECK_RESULT(hcq_notify_cancel(first.id), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_signal_set(s, 1));
    SILENT(&first);
    NOTIFIED(&second, HCQ_OK);
    SILENT(&third);
    CHECK_RESULT(hcq_notify_cancel(first.id), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_notify_cancel(second.id), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_notify_cancel(third.id));
    CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST));
    SILENT(&third);
    CHECK_OK(hcq_signal_reset(s, 0));  /* nothing is left that waits */
    for (int i = 0; i < 1000; i++) {   /* a place used before is not stale */
        hcq_notification old = first.id;
        NOTIFY_AT(&first, hcq_at(s, 1));
        CHECK_RESULT(hcq_notify_cancel(old), HCQ_ERROR_CLOSED);
        if (i + 1 < 1000) {
            CHECK_OK(hcq_notify_cancel(first.id));
        }
    }
    CHECK_OK(hcq_signal_set(s, 1));
    NOTIFIED(&first, HCQ_OK);
}

static void notice_cancels(void *user, hcq_result result) {
    notice_caller *c = (notice_caller *)user;
    c->got[0] = result;
    canceller.self = hcq_notify_cancel(c->again.id);
    canceller.taken = hcq_notify_cancel(canceller.other.id);
    __atomic_fetch_add(&c->calls, 1, __ATOMIC_RELEASE);
}

static void notify_cancels_inside(TEST_ARGS) {
    for (int other_first = 0; other_first < 2; other_first++) {
        hcq_signal s = make_signal(T.dev, 0);
        memset(&canceller, 0, sizeof canceller);
        if (other_first) {
            NOTIFY_AT(&canceller.other, hcq_at(s, 1));
        }
        CHECK_OK(hcq_notify(hcq_at(s, 1), notice_cancels, &canceller.own,
                            &canceller.own.again.id));
        if (!other_first) {
            NOTIFY_AT(&canceller.other, hcq_at(s, 1));
        }
        CHECK_OK(hcq_signal_set(s, 1));
        CHECK(word_until(&canceller.own.calls, 1));
        CHECK_RESULT(canceller.self, HCQ_ERROR_CLOSED);
        CHECK(canceller.taken == HCQ_OK || canceller.taken == HCQ_ERROR_CLOSED);
        if (canceller.taken == HCQ_ERROR_CLOSED) {
            NOTIFIED(&canceller.other, HCQ_OK);
        }
        CHECK_OK(hcq_signal_set(s, 2));
        CHECK_U64(notice_calls(&canceller.other), canceller.taken == HCQ_ERROR_CLOSED);
    }
}

/* ---- handles for event loops ---- */

static int count_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

static void notify_handle(TEST_ARGS) {
    int files = count_files();
    for (int way = 0; way < 8; way++) {
        hcq_signal s = make_signal(T.dev, way == 0), gate = make_signal(T.dev2, 0);
        hcq_point point = hcq_at(s, 1), open = hcq_at(gate, 1);
        hcq_notification id = {0};
        intptr_t handle = -1;
        if (way == 2 || way == 3) {    /* raised by work, of either device */
            CHECK_OK(submit_lists(way == 2 ? T.dev : T.dev2, &open, &point, 0, NULL));
        } else if (way == 4) {         /* the work's own point */
            CHECK_OK(submit_lists(T.dev, &open, NULL, 0, &point));
        }
        CHECK_OK(hcq_notify_handle(point, &handle, way % 2 ? &id : NULL));
        CHECK(handle >= 0);
        CHECK(way == 0 || !readable(handle, 0));
        if (way == 1) {
            CHECK_OK(hcq_signal_set(s, 1));
        } else if (way >= 2 && way <= 4) {
            CHECK_OK(hcq_signal_set(gate, 1));
        } else if (way == 5) {         /* what can no longer be turns it readable, too */
            CHECK_OK(hcq_signal_fail(s, HCQ_ERROR_HOST));
        } else if (way == 6) {
            CHECK_OK(hcq_signal_destroy(s));
        } else if (way == 7) {
            CHECK_OK(hcq_notify_cancel(id));
            CHECK_RESULT(hcq_notify_cancel(id), HCQ_ERROR_CLOSED);
            CHECK_OK(hcq_signal_set(s, 1));
            CHECK(!readable(handle, 20));
        }
        if (way < 7) {
            CHECK(readable(handle, 10000)); /* the loop is asleep in poll, not in hcq */
            CHECK(readable(handle, 0));
            CHECK(readable(handle, 0)); /* it stays so */
            CHECK_RESULT(hcq_notify_cancel(id), HCQ_ERROR_CLOSED);
        }
        CHECK(close((int)handle) == 0);
    }
    synchronize_both();
    CHECK_U64(count_files(), files);
}

/* The user may close his handle whenever he wants; what has its number then is
   not touched. */
static void notify_handle_closed_early(TEST_ARGS) {
#ifdef __linux__
    int files = count_files();
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
static void notify_handle_out_of_files(TEST_ARGS) {
    struct rlimit old, low;
    hcq_signal s = make_signal(T.dev, 0);
    int files = count_files(), lowest = dup(2);
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

#define NOTIFY_TESTS \
    TEST(notify_at_once), TEST(notify_when_released), TEST(notify_exact_and_prefix), \
    TEST(notify_of_failures), TEST(notify_many_in_value_order), TEST(notify_up_to_the_limit), \
    TEST(notify_while_another_runs), TEST(notify_races_with_close), \
    TEST(notify_chain_on_a_small_stack), TEST(notify_cancel), TEST(notify_cancels_inside), \
    TEST(notify_handle), TEST(notify_handle_closed_early), TEST(notify_handle_out_of_files)
