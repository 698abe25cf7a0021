/* waits.h - handles for event loops, deadlines, waits over backends,
   synchronize, submit_and_wait, references. Part of conformance.c. */
#include "shared.h"

#include <fcntl.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

/* ---- handles for event loops ---- */

static int count_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

static void notify_handle(void **state) {
    (void)state;
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
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    CHECK_U64(count_files(), files);
}

/* The user may close his handle whenever he wants; what has its number then is
   not touched. */
static void notify_handle_closed_early(void **state) {
    (void)state;
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

/* Closing the device is an end, too. */
static void notify_handle_of_a_closed_device(void **state) {
    (void)state;
    int files = count_files();
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(device, 0);
    intptr_t handle[2];
    hcq_notification id;
    CHECK_OK(hcq_notify_handle(hcq_at(s, 1), &handle[0], NULL));
    CHECK_OK(hcq_notify_handle(hcq_at(s, 1), &handle[1], &id));
    CHECK_OK(hcq_notify_cancel(id));
    CHECK_OK(hcq_close(device));
    CHECK(readable(handle[0], 0));
    CHECK(!readable(handle[1], 0));
    close((int)handle[0]);
    close((int)handle[1]);
    CHECK_U64(count_files(), files);
}

/* No handle to be had: said, and nothing is left behind. */
static void notify_handle_out_of_files(void **state) {
    (void)state;
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

/* ---- deadlines ---- */

static void deadlines(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 1), failed = make_signal(T.dev2, 0);
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point reached = hcq_at(s, 1), pending = hcq_at(s, 2), open = hcq_at(gate, 1);
    hcq_point never = hcq_at(failed, 1);
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_HOST));
    CHECK_OK(submit_lists(T.dev, &open, NULL, 0, NULL));
    const uint64_t past[] = {HCQ_DEADLINE(0), HCQ_DEADLINE(1),
                             HCQ_DEADLINE(hcq_sys_now_ns() - 1)};
    for (int i = 0; i < 3; i++) {      /* in the past: polls, and reached counts */
        CHECK_OK(hcq_wait(&reached, 1, HCQ_ALL, past[i]));
        CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ALL, past[i]), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_wait(&never, 1, HCQ_ALL, past[i]), HCQ_ERROR_HOST);
        CHECK_RESULT(hcq_device_synchronize(T.dev, past[i]), HCQ_TIMEOUT);
        CHECK_OK(hcq_device_synchronize(T.dev2, past[i]));
    }
    uint64_t when = hcq_sys_now_ns() + SECOND / 50;
    CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ANY, HCQ_DEADLINE(when)), HCQ_TIMEOUT);
    CHECK(hcq_sys_now_ns() >= when);
    CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ALL, HCQ_DEADLINE(when)), HCQ_TIMEOUT);
    when = hcq_sys_now_ns() + SECOND / 50;
    CHECK_RESULT(hcq_device_synchronize(T.dev, HCQ_DEADLINE(when)), HCQ_TIMEOUT);
    CHECK(hcq_sys_now_ns() >= when);
    when = hcq_sys_now_ns() + BOUND;
    CHECK_OK(hcq_wait(&reached, 1, HCQ_ALL, HCQ_DEADLINE(when)));
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_device_synchronize(T.dev, HCQ_DEADLINE(when)));
    CHECK(hcq_sys_now_ns() < when);
}

/* A sleeping thread is woken in time, however its end was named. */
static void deadlines_wake(void **state) {
    (void)state;
    const uint64_t ends[] = {HCQ_DEADLINE(hcq_sys_now_ns() + 60 * SECOND), 60 * SECOND,
                             (uint64_t)INT64_MAX, HCQ_FOREVER,
                             HCQ_DEADLINE(INT64_MAX), HCQ_DEADLINE(INT64_MAX - 1)};
    enum { N = sizeof ends / sizeof ends[0] };
    static sleeper w[2 * N];
    uint64_t start = hcq_sys_now_ns();
    hcq_signal s = make_signal(T.dev, 0), t = make_signal(T.dev2, 0);
    memset(w, 0, sizeof w);
    for (int i = 0; i < 2 * N; i++) {
        w[i].points[0] = hcq_at(s, 1);
        w[i].points[1] = hcq_at(i < N ? t : s, 1);
        w[i].count = 2;
        w[i].mode = i < N ? HCQ_ALL : HCQ_ANY;
        w[i].timeout_ns = ends[i % N];
        pthread_create(&w[i].thread, NULL, sleeper_run, &w[i]);
    }
    test_sleep_ms(20);                 /* some of them sleep by now; all are woken */
    hcq_result first = hcq_signal_set(s, 1), second = hcq_signal_set(t, 1);
    for (int i = 0; i < 2 * N; i++) {
        pthread_join(w[i].thread, NULL);
    }
    CHECK_OK(first);
    CHECK_OK(second);
    for (int i = 0; i < 2 * N; i++) {
        CHECK_OK(w[i].result);
    }
    CHECK(hcq_sys_now_ns() - start < 50 * SECOND);
}

/* ---- points of several devices and backends ---- */

/* One point of each kind on each device, opened one after the other. */
static void wait_over_backends(void **state) {
    (void)state;
    enum { DEVICES = 3, KINDS = 4, N = DEVICES * KINDS };
    hcq_device *other = open_other_backend();
    hcq_device *devices[DEVICES];
    devices[0] = T.dev;
    devices[1] = T.dev2;
    devices[2] = other;
    for (int round = 0; round < 4; round++) {
        hcq_signal gates[DEVICES];
        hcq_point points[N];
        for (int d = 0; d < DEVICES; d++) {
            /* The gate is of the next device: releases cross devices, too. */
            gates[d] = make_signal(devices[(d + 1) % DEVICES], 0);
            hcq_signal s = make_signal(devices[(d + round) % DEVICES], 0);
            hcq_queue *q = make_queue(devices[d], round % 2 ? HCQ_COPY : HCQ_COMPUTE);
            hcq_buffer word = make_words(devices[d], 4);
            CHECK_INDEX(hcq_queue_wait(q, hcq_at(gates[d], 1)), 0);
            CHECK_INDEX(hcq_queue_write(q, word, 1, 4), 1);
            CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
            CHECK_OK(hcq_queue_submit(q, devices[d], &points[d * KINDS]));
            points[d * KINDS + 1] = hcq_at(s, 1);
            points[d * KINDS + 2] = hcq_at(gates[d], 1);
            points[d * KINDS + 3] = timeline_now(devices[d]);
        }
        CHECK_RESULT(hcq_wait(points, N, HCQ_ALL, 0), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_wait(points, N, HCQ_ANY, 0), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_wait(points, N, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_wait(points, N, HCQ_ANY, SECOND / 100), HCQ_TIMEOUT);
        for (int k = 0; k < DEVICES; k++) {
            int d = (k + round) % DEVICES;
            CHECK_OK(hcq_signal_set(gates[d], 1));
            CHECK_OK(hcq_wait(points, N, HCQ_ANY, BOUND));
            CHECK_OK(hcq_wait(&points[d * KINDS], KINDS, HCQ_ALL, BOUND));
            CHECK_RESULT(hcq_wait(points, N, HCQ_ALL, 0),
                         k + 1 < DEVICES ? HCQ_TIMEOUT : HCQ_OK);
        }
        CHECK_OK(hcq_wait(points, N, HCQ_ALL, BOUND));
    }
    CHECK_OK(hcq_close(other));
}

/* Threads asleep over both backends are woken by whichever comes. */
static void wait_over_backends_wakes(void **state) {
    (void)state;
    enum { DEVICES = 3 };
    hcq_device *other = open_other_backend();
    hcq_device *devices[DEVICES];
    static sleeper w[2];
    static uint32_t go[DEVICES];
    devices[0] = T.dev;
    devices[1] = T.dev2;
    devices[2] = other;
    for (int first = 0; first < DEVICES; first++) {
        memset(w, 0, sizeof w);
        for (int d = 0; d < DEVICES; d++) {
            hcq_queue *q = make_queue(devices[d], HCQ_COMPUTE);
            __atomic_store_n(&go[d], 0, __ATOMIC_RELEASE);
            CHECK_INDEX(hcq_queue_host(q, host_until, &go[d]), 0);
            CHECK_OK(hcq_queue_submit(q, devices[d], &w[0].points[d]));
            w[1].points[d] = w[0].points[d];
        }
        for (int k = 0; k < 2; k++) {
            w[k].count = DEVICES;
            w[k].mode = k ? HCQ_ANY : HCQ_ALL;
            w[k].timeout_ns = BOUND;
            pthread_create(&w[k].thread, NULL, sleeper_run, &w[k]);
        }
        __atomic_store_n(&go[first], 1, __ATOMIC_RELEASE);
        pthread_join(w[1].thread, NULL); /* any: the others still run */
        hcq_result pending = hcq_wait(w[0].points, DEVICES, HCQ_ALL, 0);
        for (int d = 0; d < DEVICES; d++) {
            __atomic_store_n(&go[d], 1, __ATOMIC_RELEASE);
        }
        pthread_join(w[0].thread, NULL);
        CHECK_OK(w[1].result);
        CHECK_OK(w[0].result);
        CHECK_RESULT(pending, HCQ_TIMEOUT);
    }
    CHECK_OK(hcq_close(other));
}

/* The same answer in any order, over both backends, with failures in it. */
static void wait_over_backends_fails(void **state) {
    (void)state;
    hcq_device *other = open_other_backend();
    hcq_signal up = make_signal(T.dev, 10), low = make_signal(other, 0);
    hcq_signal lost = make_signal(other, 4), hosted = make_signal(T.dev2, 4);
    CHECK_OK(hcq_signal_fail(lost, HCQ_ERROR_LOST));
    CHECK_OK(hcq_signal_fail(hosted, HCQ_ERROR_HOST));
    const hcq_point all[4] = {hcq_at(up, 10), hcq_at(lost, 5), hcq_at(low, 1),
                              hcq_at(hosted, 5)};
    check_wait_orders(all, 4, HCQ_ERROR_HOST, HCQ_OK);
    check_wait_orders(all + 1, 2, HCQ_ERROR_LOST, HCQ_ERROR_LOST);
    const hcq_point two[2] = {hcq_at(up, 10), hcq_at(low, 1)};
    check_wait_orders(two, 2, HCQ_TIMEOUT, HCQ_OK);
    const hcq_point stale[2] = {hcq_at(up, 11), hcq_at(low, 1)};
    CHECK_OK(hcq_close(other));
    check_wait_orders(stale, 2, HCQ_ERROR_CLOSED, HCQ_ERROR_CLOSED);
}

/* ---- synchronize ---- */

typedef struct syncer {
    pthread_t thread;
    hcq_device *device;
    hcq_result result;
} syncer;

static void *syncer_run(void *user) {
    syncer *s = (syncer *)user;
    s->result = hcq_device_synchronize(s->device, BOUND);
    return NULL;
}

/* Covers what was submitted before the call on any lane, failed work too, and
   nothing that another thread submits later. That the call has begun is seen
   by the line that a long wait writes. */
static void synchronize_covers_earlier_work(void **state) {
    (void)state;
    static syncer s;
    hcq_device_desc desc = test_desc();
    desc.explain_ns = 1000000;
    hcq_device *device = test_open(0, &desc);
    hcq_signal gate = make_signal(T.dev, 0), later = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1), never = hcq_at(later, 1);
    hcq_point early[3], bad = hcq_at(make_signal(T.dev, 0), 1), held;
    hcq_queue *copy = make_queue(device, HCQ_COPY);
    hcq_buffer word = make_words(device, 4);
    CHECK_INDEX(hcq_queue_wait(copy, open), 0);
    CHECK_INDEX(hcq_queue_write(copy, word, 3, 4), 1);
    CHECK_OK(hcq_signal_fail(bad.signal, HCQ_ERROR_HOST));
    CHECK_OK(submit_lists(device, &open, NULL, 0, &early[0]));
    CHECK_OK(submit_lists(device, &bad, NULL, HCQ_UNORDERED, &early[1]));
    CHECK_OK(hcq_queue_submit(copy, device, &early[2]));
    log_clear();
    s.device = device;
    pthread_create(&s.thread, NULL, syncer_run, &s);
    uint64_t start = hcq_sys_now_ns();
    while (log_lines() == 0 && hcq_sys_now_ns() - start < BOUND / 2) {
        mock_sleep(100000);
    }
    uint32_t lines = log_lines();
    hcq_result submitted = submit_lists(device, &never, NULL, 0, &held);
    hcq_result set = hcq_signal_set(gate, 1);
    pthread_join(s.thread, NULL);
    CHECK(lines > 0);
    CHECK_OK(submitted);
    CHECK_OK(set);
    CHECK_OK(s.result);
    CHECK_OK(test_poll(early[0]));     /* covered: nothing to wait for any more */
    CHECK_RESULT(test_poll(early[1]), HCQ_ERROR_HOST);
    CHECK_OK(test_poll(early[2]));
    CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_device_synchronize(device, 0), HCQ_TIMEOUT); /* now it is earlier */
    CHECK_OK(hcq_signal_set(later, 1));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(test_poll(held));
    CHECK_OK(hcq_close(device));
}

/* ---- submit and wait ---- */

static void submit_and_wait(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point done = {{0}, 0}, old;
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    hcq_submission sub = submission(&q, 1);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(hcq_submit_and_wait(T.dev, &sub, 1, BOUND, i % 2 ? &done : NULL));
    }
    CHECK_U64(done.value, hcq_device_timeline_value(T.dev) - 1);
    CHECK_OK(test_poll(done));         /* it was waited for */
    CHECK_U64(READ32(a, 0), 50);
    hcq_submission three[3];
    three[0] = three[1] = three[2] = sub;
    uint64_t next = hcq_device_timeline_value(T.dev);
    CHECK_OK(hcq_submit_and_wait(T.dev, three, 3, HCQ_DEADLINE(hcq_sys_now_ns() + BOUND), &done));
    CHECK_U64(done.value, next + 2);   /* the last one's */
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, 0));
    CHECK_OK(hcq_submit_and_wait(T.dev, NULL, 0, BOUND, NULL));
    CHECK_RESULT(hcq_submit_and_wait(T.dev, NULL, 1, BOUND, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_submit_and_wait(NULL, &sub, 1, BOUND, NULL), HCQ_ERROR_INVALID);
    old = done;
    hcq_signal fails = make_signal(T.dev2, 0);
    hcq_point wait = hcq_at(fails, 1);
    CHECK_OK(hcq_signal_fail(fails, HCQ_ERROR_NATIVE));
    sub.waits = &wait;
    sub.wait_count = 1;
    CHECK_RESULT(hcq_submit_and_wait(T.dev, &sub, 1, BOUND, &done), HCQ_ERROR_NATIVE);
    CHECK(done.value > old.value);     /* it ran, and failed */
    CHECK_RESULT(test_poll(done), HCQ_ERROR_NATIVE);
    CHECK_U64(READ32(a, 0), 53);
    sub.flags = 0x80000000u;           /* refused: nothing to wait for */
    next = hcq_device_timeline_value(T.dev);
    CHECK_RESULT(hcq_submit_and_wait(T.dev, &sub, 1, BOUND, NULL), HCQ_ERROR_INVALID);
    CHECK_U64(hcq_device_timeline_value(T.dev), next);
}

/* A timeout still gives the point, and the work goes on. */
static void submit_and_wait_times_out(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev2, 0);
    hcq_point open = hcq_at(gate, 1), done[3];
    uint64_t when = hcq_sys_now_ns() + SECOND / 50;
    const uint64_t ends[3] = {0, HCQ_DEADLINE(when), SECOND / 50};
    hcq_submission sub = submission(NULL, 0);
    sub.waits = &open;
    sub.wait_count = 1;
    memset(done, 0, sizeof done);
    for (int i = 0; i < 3; i++) {
        uint64_t start = hcq_sys_now_ns();
        CHECK_RESULT(hcq_submit_and_wait(T.dev, &sub, 1, ends[i], &done[i]), HCQ_TIMEOUT);
        CHECK(i != 1 || hcq_sys_now_ns() >= when);
        CHECK(i != 2 || hcq_sys_now_ns() - start >= ends[i] - SECOND / 500);
        CHECK_U64(done[i].value, i + 1);
        CHECK_RESULT(test_poll(done[i]), HCQ_TIMEOUT);
    }
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_wait(done, 3, HCQ_ALL, BOUND));
}

static hcq_result host_submits_and_waits(void *user) {
    host_log *log = (host_log *)user;
    hcq_submission sub = submission(NULL, 0);
    log->set_to = hcq_device_timeline_value(T.dev2);
    log->got[0] = hcq_submit_and_wait(T.dev2, &sub, 1, BOUND, NULL);
    log->got[1] = hcq_submit_and_wait(T.dev2, &sub, 1, HCQ_FOREVER, NULL);
    log->set_to = hcq_device_timeline_value(T.dev2) - log->set_to;
    log->calls++;
    return HCQ_OK;
}

/* In a callback it would block: refused before anything is submitted. */
static void submit_and_wait_in_a_callback(void **state) {
    (void)state;
    static host_log log;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_submission sub = submission(&q, 1);
    memset(&log, 0, sizeof log);
    CHECK_INDEX(hcq_queue_host(q, host_submits_and_waits, &log), 0);
    CHECK_OK(hcq_submit_and_wait(T.dev, &sub, 1, BOUND, NULL));
    CHECK_U64(log.calls, 1);
    CHECK_RESULT(log.got[0], HCQ_ERROR_WOULD_BLOCK);
    CHECK_RESULT(log.got[1], HCQ_ERROR_WOULD_BLOCK);
    CHECK_U64(log.set_to, 0);
}

/* ---- references ---- */

static void device_references(void **state) {
    (void)state;
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(device, 0), none;
    hcq_device_info info;
    uint64_t value = 77, blocks = __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST);
    hcq_point done;
    CHECK_OK(hcq_device_retain(device));
    CHECK_OK(hcq_device_retain(device));
    CHECK_OK(hcq_device_release(device));
    CHECK_OK(submit_lists(device, NULL, NULL, 0, &done)); /* two are left */
    WAIT_OK(done);
    CHECK_OK(hcq_device_release(device));
    CHECK_OK(hcq_signal_set(s, 1));    /* one is left */
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_device_release(device)); /* the last one closes */
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_CLOSED);
    CHECK_RESULT(test_poll(done), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_device_release(device), HCQ_ERROR_CLOSED); /* one too many */
    CHECK(__atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST) < blocks);

    device = test_open(0, NULL);       /* one closes, the other is told */
    CHECK_OK(hcq_device_retain(device));
    CHECK_OK(hcq_device_retain(device));
    s = make_signal(device, 0);
    CHECK_OK(hcq_close(device));
    for (int i = 0; i < 2; i++) {
        CHECK_RESULT(hcq_device_query(device, HCQ_QUERY_PENDING, &value), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_device_info_get(device, &info), HCQ_ERROR_CLOSED);
        CHECK_RESULT(submit_lists(device, NULL, NULL, 0, NULL), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_signal_create(device, 0, &none), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_device_synchronize(device, BOUND), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_submit_and_wait(device, NULL, 0, BOUND, NULL), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_device_retain(device), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_close(device), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_signal_set(s, 1), HCQ_ERROR_CLOSED);
        CHECK_OK(hcq_device_release(device)); /* gives back what was retained */
    }
    CHECK_RESULT(hcq_device_release(device), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_device_retain(NULL), HCQ_ERROR_INVALID);
}

typedef struct holder {
    pthread_t thread;
    hcq_device *device;
    hcq_result result;
} holder;

/* Owns one reference, takes and gives back others, then gives back its own. */
static void *holder_run(void *user) {
    holder *h = (holder *)user;
    for (int i = 0; i < 200 && h->result == HCQ_OK; i++) {
        uint64_t value = 0;
        h->result = hcq_device_retain(h->device);
        if (h->result == HCQ_OK) {
            h->result = hcq_device_query(h->device, HCQ_QUERY_HELD, &value);
        }
        if (h->result == HCQ_OK) {
            h->result = hcq_device_release(h->device);
        }
    }
    hcq_result last = hcq_device_release(h->device);
    h->result = h->result == HCQ_OK ? last : h->result;
    return NULL;
}

/* Whichever thread gives the last reference back closes, once. */
static void device_references_in_threads(void **state) {
    (void)state;
    enum { N = 4 };
    static holder h[N];
    static notice n;
    for (int round = 0; round < 10; round++) {
        hcq_device *device = test_open(0, NULL);
        hcq_signal never = make_signal(device, 0);
        hcq_point wait = hcq_at(never, 1), held;
        CHECK_OK(submit_lists(device, &wait, NULL, 0, &held));
        NOTIFY_AT(&n, held);
        memset(h, 0, sizeof h);
        for (int i = 0; i < N; i++) {
            h[i].device = device;
            CHECK_OK(hcq_device_retain(device));
        }
        for (int i = 0; i < N; i++) {
            pthread_create(&h[i].thread, NULL, holder_run, &h[i]);
        }
        hcq_result mine = hcq_device_release(device);
        for (int i = 0; i < N; i++) {
            pthread_join(h[i].thread, NULL);
        }
        CHECK_OK(mine);
        for (int i = 0; i < N; i++) {
            CHECK_OK(h[i].result);
        }
        NOTIFIED(&n, HCQ_ERROR_CANCELLED);
        CHECK_RESULT(test_poll(held), HCQ_ERROR_CLOSED);
    }
}

static void signal_references(void **state) {
    (void)state;
    static notice n;
    uint64_t value = 0;
    hcq_signal s = make_signal(T.dev, 3);
    hcq_signal line = hcq_device_timeline(T.dev);
    hcq_point wait = hcq_at(s, 9), done;
    CHECK_OK(hcq_signal_retain(s));
    CHECK_OK(hcq_signal_retain(s));
    CHECK_OK(submit_lists(T.dev2, &wait, NULL, 0, &done));
    NOTIFY_AT(&n, wait);
    CHECK_OK(hcq_signal_release(s));
    CHECK_OK(hcq_signal_release(s));
    CHECK_OK(hcq_signal_value(s, &value)); /* one is left */
    CHECK_U64(value, 3);
    SILENT(&n);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_release(s));   /* the last one destroys: waits end */
    NOTIFIED(&n, HCQ_ERROR_CANCELLED);
    WAIT_RESULT(done, HCQ_ERROR_CANCELLED);
    CHECK_RESULT(hcq_signal_release(s), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_retain(s), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_value(s, &value), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_retain(line), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_signal_release(line), HCQ_ERROR_INVALID);
    s = make_signal(T.dev, 0);         /* destroy means all references */
    CHECK_OK(hcq_signal_retain(s));
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_RESULT(hcq_signal_set(s, 1), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_release(s), HCQ_ERROR_CLOSED);
}

#define WAITS_TESTS \
    TEST(notify_handle), TEST(notify_handle_closed_early), \
    TEST(notify_handle_of_a_closed_device), TEST(notify_handle_out_of_files), TEST(deadlines), \
    TEST(deadlines_wake), TEST(wait_over_backends), TEST(wait_over_backends_wakes), \
    TEST(wait_over_backends_fails), TEST(synchronize_covers_earlier_work), \
    TEST(submit_and_wait), TEST(submit_and_wait_times_out), \
    TEST(submit_and_wait_in_a_callback), TEST(device_references), \
    TEST(device_references_in_threads), TEST(signal_references)
