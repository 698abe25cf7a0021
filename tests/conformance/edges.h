/* edges.h - where two things meet: a notification and the closing of
   another device, a wait and a signal that somebody else ends, memory and work
   of two devices; and calls whose cost must not grow with what is pending.
   Part of conformance.c. */
#include "shared.h"

/* ---- another thread, in one call that may block ---- */

static void *blocked_wait(void *user) {
    blocked_call *b = (blocked_call *)user;
    blocked_begin(b);
    return blocked_end(b, hcq_wait(b->points, b->count, HCQ_ALL, 2 * BOUND));
}

/* ---- a signal is destroyed ---- */

/* What its pending raises cannot reach ends at once; what they can waits for them. */
static void destroyed_ends_what_cannot_come(void **state) {
    (void)state;
    static notice n[2];
    hcq_signal t = make_signal(T.dev, 0);
    hcq_point gate = make_gate(T.dev2), low = hcq_at(t, 1), high = hcq_at(t, 2), done[3];
    CHECK_OK(submit_lists(T.dev2, &gate, &low, HCQ_UNORDERED, &done[2]));
    CHECK_OK(submit_lists(T.dev, &low, NULL, HCQ_UNORDERED, &done[0]));
    CHECK_OK(submit_lists(T.dev, &high, NULL, HCQ_UNORDERED, &done[1]));
    NOTIFY_AT(&n[0], low);
    NOTIFY_AT(&n[1], high);
    CHECK_OK(hcq_signal_destroy(t));
    WAIT_RESULT(done[1], HCQ_ERROR_CANCELLED);
    NOTIFIED(&n[1], HCQ_ERROR_CANCELLED);
    CHECK_RESULT(test_poll(done[0]), HCQ_TIMEOUT);
    SILENT(&n[0]);
    SAYS(explain(done[0]), "destroyed"); /* nobody has to look for who might set it */
    open_gate(gate);
    WAIT_OK(done[0]);
    WAIT_OK(done[2]);
    NOTIFIED(&n[0], HCQ_OK);
}

/* The raises that are pending wait for those that cannot come: all end. */
static void destroyed_in_a_ring(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        hcq_signal g = make_signal(T.dev, 0), t = make_signal(T.dev2, 0);
        hcq_point open = hcq_at(g, 1), low = hcq_at(t, 1), high = hcq_at(t, 2), a, b;
        CHECK_OK(submit_lists(T.dev, &open, &low, HCQ_UNORDERED, &a));
        CHECK_OK(submit_lists(T.dev2, &high, &open, HCQ_UNORDERED, &b));
        CHECK_OK(hcq_signal_destroy(order ? t : g));
        CHECK_OK(hcq_signal_destroy(order ? g : t));
        WAIT_RESULT(a, HCQ_ERROR_CANCELLED);
        WAIT_RESULT(b, HCQ_ERROR_CANCELLED);
    }
}

/* A host wait that has begun is told of the end, like whoever else waits. */
static void waits_hear_the_end(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        hcq_device_desc desc = test_desc();
        desc.explain_ns = SECOND / 1000;
        hcq_device *device = test_open(0, &desc);
        hcq_signal s = make_signal(device, 0);
        hcq_point point = hcq_at(s, 1), gate = make_gate(T.dev), held;
        blocked_call call;
        memset(&call, 0, sizeof call);
        hold_reset();
        if (way == 1) {                /* its raise runs */
            hold_device(T.dev, &point);
        }
        CHECK_OK(submit_lists(device, &gate, NULL, 0, &held));
        call.points[0] = way == 3 ? held : point;
        call.count = 1;
        log_clear();
        pthread_create(&call.thread, NULL, blocked_wait, &call);
        int told = log_until("lasts longer"); /* so it has begun */
        hcq_result ended = way < 2 ? hcq_signal_destroy(s) : hcq_close(device);
        pthread_join(call.thread, NULL);
        hold_release();
        CHECK(told);
        CHECK_OK(ended);
        CHECK_RESULT(call.result, HCQ_ERROR_CANCELLED);
        CHECK_RESULT(test_poll(point), HCQ_ERROR_CLOSED);
        CHECK(way >= 2 || hcq_close(device) == HCQ_OK);
    }
}

/* ---- waits that somebody else ends ---- */

typedef enum wait_end { END_FAIL, END_SET, END_OTHER, END_OTHER_FIRST, WAIT_ENDS }
    wait_end;

/* The raise waited for runs and goes on running; a failure or a set by the host
   ends the wait all the same, and so does the failure of the other of two. */
static void waits_hear_the_host(void **state) {
    (void)state;
    for (int i = 0; i < 2 * WAIT_ENDS; i++) { /* each with and without an explanation before */
        wait_end end = (wait_end)(i / 2);
        hcq_device_desc desc = test_desc();
        desc.explain_ns = i % 2 ? HCQ_KEEP : SECOND / 1000;
        hcq_device *device = test_open(0, &desc);
        hcq_signal s = make_signal(device, 0), t = make_signal(T.dev2, 0);
        hcq_point first = hcq_at(s, 1), second = hcq_at(t, 1);
        hcq_point done[2];
        blocked_call call;
        memset(&call, 0, sizeof call);
        hold_reset();
        log_clear();
        done[0] = hold_device(device, &first);
        done[1] = hold_device(T.dev2, &second);
        int swapped = end == END_OTHER_FIRST;
        call.points[swapped] = first;
        call.points[!swapped] = second;
        call.count = end == END_FAIL || end == END_SET ? 1 : 2;
        pthread_create(&call.thread, NULL, blocked_wait, &call);
        int told = i % 2 || call.count == 2 || log_until("lasts longer");
        blocked_until(&call);
        hcq_result ended = end == END_SET ? hcq_signal_set(s, 1)
                           : end == END_FAIL ? hcq_signal_fail(s, HCQ_ERROR_NATIVE)
                                             : hcq_signal_fail(t, HCQ_ERROR_NATIVE);
        int over = word_until(&call.over, 1), held = holds();
        hold_release();
        pthread_join(call.thread, NULL);
        CHECK_OK(ended);
        CHECK(told);
        CHECK(over && held);
        CHECK_RESULT(call.result, end == END_SET ? HCQ_OK : HCQ_ERROR_NATIVE);
        hcq_wait(done, 2, HCQ_ALL, BOUND);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- room and lanes ---- */

/* A lane that is full: eager calls give up in their own time, not the device's. */
static void transfers_give_up_in_a_full_lane(void **state) {
    (void)state;
    static unsigned char bytes[4096];
    for (uint32_t flags = 0; flags <= HCQ_UNORDERED; flags += HCQ_UNORDERED) {
        hcq_device_desc desc = test_desc();
        desc.inflight = 1;
        hcq_device *device = test_open(0, &desc);
        hcq_buffer a, b;
        CHECK_OK(hcq_alloc(device, sizeof bytes, 0, &a));
        CHECK_OK(hcq_alloc(device, sizeof bytes, 0, &b));
        hold_reset();
        hcq_point done = hold_device(device, NULL), last = done;
        if (test_query(device, HCQ_QUERY_COPY_LANES) != 0) { /* fills the copy lane, too */
            hcq_queue *q = make_queue(device, HCQ_COPY);
            CHECK_INDEX(hcq_queue_wait(q, done), 0);
            CHECK_INDEX(hcq_queue_fill(q, a, sizeof bytes, 3, 1), 1);
            CHECK_OK(hcq_queue_submit(q, device, &last));
        }
        hcq_result copied = hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a),
                                         sizeof bytes, flags, SECOND / 50);
        int in_time = holds();
        hcq_result in = hcq_transfer(hcq_transfer_device(b), hcq_transfer_host(bytes, 4096),
                                     sizeof bytes, flags, SECOND / 50);
        in_time = in_time && holds();
        hold_release();
        CHECK_RESULT(copied, HCQ_TIMEOUT);
        CHECK(in == HCQ_TIMEOUT || (flags && in == HCQ_OK)); /* the host writes it itself */
        CHECK(in_time);
        WAIT_OK(last);
        CHECK_OK(hcq_close(device));
    }
}

/* Each queue waits for the next one in the middle of its recording, so that they
   get through only if no two share a lane. */
static void any_lane_spreads_the_queues_of_one(void **state) {
    (void)state;
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

/* ---- memory ---- */

/* alloc_after takes over a block that another device still writes, fails, and is
   freed: the block is not free before that device is done. */
static void failed_alloc_keeps_the_users(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    static unsigned char bytes[4096];
    hcq_signal failed = make_signal(T.dev, 0);
    hcq_point wait = hcq_at(failed, 1), ready;
    hcq_buffer x, y, z;
    memset(bytes, 0x11, sizeof bytes);
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_HOST));
    CHECK_OK(hcq_alloc(T.dev, sizeof bytes, 0, &x));
    for (int named = 0; named < 2; named++) { /* a queue still names the block, or none */
        hcq_queue *q = make_holder(T.dev2);
        hold_reset();
        CHECK_INDEX(hcq_queue_fill(q, x, sizeof bytes, 0xab, 1), 1);
        hcq_point done = hold_start(q, T.dev2);
        if (!named) {
            hcq_queue_destroy(q);
        }
        CHECK_OK(hcq_free(x));
        CHECK_OK(hcq_alloc_after(T.dev, &wait, 1, sizeof bytes, 0, &y, &ready));
        WAIT_RESULT(ready, HCQ_ERROR_HOST);
        CHECK_OK(hcq_free(y));
        CHECK_OK(hcq_alloc(T.dev, sizeof bytes, 0, &z));
        CHECK_OK(hcq_copyin(z, bytes, sizeof bytes));
        int held = holds();
        hold_release();
        CHECK(held);
        WAIT_OK(done);
        CHECK_BYTES(z, bytes, sizeof bytes);
        x = z;
    }
}

/* Whichever allocation fails inside alloc_after: nothing was submitted. */
static void alloc_after_without_memory(void **state) {
    (void)state;
    uint64_t steps = 0;
    for (int ends = 0; !ends; steps++) {
        hcq_point gate = make_gate(T.dev), ready = {{0}, 0};
        hcq_buffer x, y;
        hcq_queue *q = make_holder(T.dev);
        CHECK_OK(hcq_alloc(T.dev, 4096, 0, &x));
        CHECK_INDEX(hcq_queue_fill(q, x, 4096, 0xab, 1), 1);
        hold_reset();
        hcq_point done = hold_start(q, T.dev);
        CHECK_OK(hcq_free(x));         /* while it is used, and named by `q` */
        uint64_t number = test_query(T.dev, HCQ_QUERY_SUBMISSIONS);
        uint64_t held = test_query(T.dev, HCQ_QUERY_HELD);
        uint64_t call = __atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST) + 1 + steps;
        __atomic_store_n(&T.memory.fail_until, call, __ATOMIC_SEQ_CST);
        __atomic_store_n(&T.memory.fail_at, call, __ATOMIC_SEQ_CST);
        hcq_result result = hcq_alloc_after(T.dev, &gate, 1, 4096, 0, &y, &ready);
        __atomic_store_n(&T.memory.fail_at, 0, __ATOMIC_SEQ_CST);
        uint64_t failed = __atomic_exchange_n(&T.memory.failed, 0, __ATOMIC_SEQ_CST);
        if (result != HCQ_OK) {
            hold_release();
            CHECK_RESULT(result, HCQ_ERROR_OUT_OF_MEMORY);
            CHECK_U64(test_query(T.dev, HCQ_QUERY_SUBMISSIONS), number);
            CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), held);
            CHECK_U64(ready.value, 0);
        }
        hold_release();
        open_gate(gate);
        WAIT_OK(done);
        if (result == HCQ_OK) {
            WAIT_OK(ready);
            CHECK_OK(hcq_free(y));
        }
        hcq_queue_destroy(q);
        ends = failed == 0;
    }
    CHECK(steps > 1);
}

/* An idle block leaves the cache although an older one is still used by another
   device. */
static void trim_passes_what_others_use(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    hcq_buffer busy, idle;
    CHECK_OK(hcq_alloc(T.dev, 4096, 0, &busy));
    CHECK_OK(hcq_alloc(T.dev, 1u << 20, 0, &idle));
    hcq_queue *q = make_holder(T.dev2);
    CHECK_INDEX(hcq_queue_fill(q, busy, 4096, 1, 1), 1);
    hold_reset();
    hcq_point done = hold_start(q, T.dev2);
    CHECK_OK(hcq_free(busy));
    CHECK_OK(hcq_free(idle));
    CHECK_OK(hcq_trim(T.dev, 0));
    uint64_t cached = test_query(T.dev, HCQ_QUERY_CACHED_BYTES);
    int held = holds();
    hold_release();
    CHECK(held);
    CHECK(cached >= 4096 && cached < 1u << 20);
    WAIT_OK(done);
}

/* ---- what a call is given ---- */

static void transfers_refuse_nonsense(void **state) {
    (void)state;
    char from[128], to[64];
    hcq_buffer x = make_words(T.dev, 16);
    hcq_point done = {{0}, 0};
    uint64_t number = hcq_device_timeline_value(T.dev);
    static const uint64_t sizes[4] = {UINT64_MAX, UINT64_MAX - 62, UINT64_MAX / 2, 65};
    memset(from, 7, sizeof from);
    memset(to, 9, sizeof to);
    for (int i = 0; i < 4; i++) {      /* a buffer that claims to be larger */
        hcq_transfer_command command = command_update(x, from, sizes[i]);
        command.dst.size = sizes[i];
        CHECK_RESULT(hcq_transfer_submit(T.dev, NULL, 0, &command, 1, &done),
                     HCQ_ERROR_INVALID);
    }
    CHECK_U64(hcq_device_timeline_value(T.dev), number);
    for (uint32_t flags = 1; flags != 0; flags <<= 1) {
        if (flags == HCQ_UNORDERED) { continue; }
        CHECK_RESULT(hcq_transfer(hcq_transfer_host(to, 64), hcq_transfer_host(from, 64), 64,
                                  flags, BOUND), HCQ_ERROR_INVALID);
    }
    CHECK(to[0] == 9);
    CHECK_OK(hcq_transfer(hcq_transfer_host(to, 64), hcq_transfer_host(from, 64), 64,
                          HCQ_UNORDERED, BOUND));
    CHECK(to[63] == 7);
}

/* Nothing is submitted: the point that is given is a reached one. */
static void empty_submits_give_a_reached_point(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        hcq_point point = {{0xdeadbeefdeadbeefull}, 7};
        CHECK_OK(i ? hcq_submit_and_wait(T.dev, NULL, 0, BOUND, &point)
                   : hcq_submit(T.dev, NULL, 0, &point));
        CHECK_OK(test_poll(point));
    }
}

/* So long that now + explain_ns is more than there is. */
static void explain_ns_may_be_huge(void **state) {
    (void)state;
    static const uint64_t long_ones[3] = {HCQ_KEEP - 1, HCQ_KEEP - SECOND, HCQ_KEEP / 2 + 1};
    for (int i = 0; i < 3; i++) {
        hcq_device *device = open_labelled("patient", long_ones[i]);
        hcq_point gate = make_gate(device);
        log_clear();
        CHECK_RESULT(hcq_wait(&gate, 1, HCQ_ALL, SECOND / 50), HCQ_TIMEOUT);
        CHECK(!log_has("lasts longer"));
        CHECK_OK(hcq_close(device));
    }
}

/* The user closes his end before the point is reached: nobody minds. */
static void handle_closed_before_the_signal(void **state) {
    (void)state;
    for (int way = 0; way < 3; way++) {
        hcq_device *device = test_open(0, NULL);
        hcq_point point = make_gate(device);
        hcq_notification id = {0};
        intptr_t handle = -1;
        CHECK_OK(hcq_notify_handle(point, &handle, &id));
        CHECK(close((int)handle) == 0);
        if (way == 0) {
            CHECK_OK(hcq_signal_set(point.signal, 1));
        } else if (way == 1) {
            CHECK_OK(hcq_signal_fail(point.signal, HCQ_ERROR_HOST));
        }
        CHECK_OK(hcq_close(device));
        CHECK_RESULT(hcq_notify_cancel(id), HCQ_ERROR_CLOSED);
    }
}

/* A submission has failed, but a lower value of its signal is still to land. */
static void explain_a_failure_before_lower_values(void **state) {
    (void)state;
    hcq_signal s = labelled_signal(T.dev, "result"), gate = make_signal(T.dev, 0);
    hcq_point low = hcq_at(s, 1), high = hcq_at(s, 2), open = hcq_at(gate, 1), failed, done;
    hold_reset();
    done = hold_device(T.dev, &low);
    CHECK_OK(submit_lists(T.dev, &open, &high, HCQ_UNORDERED, &failed));
    CHECK_OK(hcq_signal_fail(gate, HCQ_ERROR_HOST));
    for (int i = 0; i < 2; i++) {
        const char *text = explain(i ? failed : high);
        SAYS(text, "final");
        SAYS_NOT(text, "nobody submitted raises it");
    }
    SAYS(explain(low), "waits for");
    SAYS_NOT(explain(low), "final");
    hold_release();
    WAIT_OK(done);
    WAIT_OK(low);
    WAIT_RESULT(high, HCQ_ERROR_HOST);
    WAIT_RESULT(failed, HCQ_ERROR_HOST);
}

/* Work of one device was handed over and waits for work of another that runs:
   the chain goes on to the first cause, however it waits. */
static void explain_through_native_waits(void **state) {
    (void)state;
    hcq_device *left = open_labelled("left", 0), *right = open_labelled("right", 0);
    hcq_signal u = labelled_signal(left, "U"), t = labelled_signal(right, "T");
    hcq_point raise = hcq_at(t, 5), done;
    hcq_queue *slow = make_holder(left), *next = make_queue(right, HCQ_COPY);
    CHECK_OK(hcq_queue_label(slow, "slow"));
    CHECK_OK(hcq_queue_label(next, "next"));
    CHECK_INDEX(hcq_queue_signal(slow, hcq_at(u, 5)), 1);
    CHECK_INDEX(hcq_queue_wait(next, hcq_at(u, 5)), 0);
    CHECK_INDEX(hcq_queue_write(next, make_words(right, 1), 1, 4), 1);
    CHECK_INDEX(hcq_queue_signal(next, raise), 2);
    hold_reset();
    hcq_point first = hold_start(slow, left);
    CHECK_OK(hcq_queue_submit(next, right, &done));
    for (int i = 0; i < 2; i++) {
        const char *text = explain(i ? raise : done);
        SAYS(text, "'next'");
        SAYS(text, "right");
        SAYS(text, "'slow'");
        SAYS(explain_line(text, "'slow'"), "left");
        SAYS_NOT(text, "nobody submitted raises it");
    }
    hold_release();
    WAIT_OK(done);
    WAIT_OK(first);
    CHECK_OK(hcq_close(left));
    CHECK_OK(hcq_close(right));
}

/* ---- what is pending does not make calls dearer ---- */

static uint64_t thread_ns(void) {      /* others on this CPU do not count */
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* Gives the time that something took with `n` pending. */
typedef uint64_t (*cost_fn)(uint32_t n);

/* Eight times as many take about eight times as long; where each is looked at
   for each, 64 times. Best of three, so that what disturbs one run is no failure,
   and less than a millisecond counts as one. */
static void grows_with(const char *file, int line, const char *what, cost_fn cost, uint32_t n) {
    uint64_t least = SECOND, once, eight = 0;
    n = TEST_SANITIZED || T.quick ? n / 2 : n;
    for (int i = 0; i < 3; i++) {
        once = cost(n);
        least = once < least ? once : least;
    }
    least = least > SECOND / 1000 ? least : SECOND / 1000;
    for (int i = 0; i < 3; i++) {
        eight = cost(8 * n);
        if (eight < 24 * least) {
            return;
        }
    }
    fprintf(stderr, "%s:%d: %s: %u take %.2f ms, %u take %.2f ms\n", file, line, what, n,
            (double)least / 1e6, 8 * n, (double)eight / 1e6);
    _fail(file, line);
}
#define GROWS_LIKE_N(cost, n) grows_with(__FILE__, __LINE__, #cost, (cost), (n))

static void *room_for(uint32_t count, size_t size) {
    void *room = malloc(count * size);
    CHECK(room != NULL);
    return room;
}

/* One submission with many waits. */
static uint64_t explain_many_waits(uint32_t n) {
    hcq_device *device = test_open(0, NULL);
    hcq_point *waits = (hcq_point *)room_for(n, sizeof *waits), done;
    for (uint32_t i = 0; i < n; i++) {
        waits[i] = make_gate(device);
    }
    hcq_submission sub = submission(NULL, 0);
    sub.waits = waits;
    sub.wait_count = n;
    CHECK_OK(hcq_submit(device, &sub, 1, &done));
    uint64_t start = thread_ns();
    CHECK(hcq_explain(&done, 1, NULL, 0) < sizeof explained);
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_close(device));
    free(waits);
    return took;
}

/* Many waits, and many held submissions of which none raises them. */
static uint64_t explain_many_held(uint32_t n) {
    hcq_device *device = test_open(0, NULL);
    uint32_t wait_count = n / 64;
    hcq_point *waits = (hcq_point *)room_for(wait_count, sizeof *waits), done;
    hcq_signal other = make_signal(device, 0);
    for (uint32_t i = 0; i < wait_count; i++) {
        hcq_point far_off = hcq_at(make_signal(device, 0), 1);
        waits[i] = hcq_at(far_off.signal, 2); /* somebody raises it, but not that far */
        CHECK_OK(submit_lists(device, &waits[0], &far_off, HCQ_UNORDERED, NULL));
    }
    hcq_submission sub = submission(NULL, 0);
    sub.waits = waits;
    sub.wait_count = wait_count;
    sub.flags = HCQ_UNORDERED;
    CHECK_OK(hcq_submit(device, &sub, 1, &done));
    for (uint32_t i = 0; i < n; i++) {
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

static void explaining_is_bounded(void **state) {
    (void)state;
    GROWS_LIKE_N(explain_many_waits, 2000);
    GROWS_LIKE_N(explain_many_held, 5120);
}

static void notice_ignored(void *user, hcq_result result) {
    (void)user;
    (void)result;
}

/* One early and one late of many notifications are taken back and made again. */
static uint64_t notices_come_and_go(uint32_t n) {
    hcq_device *device = test_open(0, NULL);
    hcq_point gate = make_gate(device);
    hcq_notification *ids = (hcq_notification *)room_for(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(hcq_notify(gate, notice_ignored, NULL, &ids[i]));
    }
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n / 4; i++) {
        CHECK_OK(hcq_notify_cancel(ids[0]));
        CHECK_OK(hcq_notify_cancel(ids[n - 1]));
        CHECK_OK(hcq_notify(gate, notice_ignored, NULL, &ids[0]));
        CHECK_OK(hcq_notify(gate, notice_ignored, NULL, &ids[n - 1]));
    }
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_close(device));
    free(ids);
    return took;
}

static uint64_t signals_come_and_go(uint32_t n) {
    hcq_device *device = test_open(0, NULL);
    hcq_signal *s = (hcq_signal *)room_for(n, sizeof *s);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = make_signal(device, 0);
    }
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n / 4; i++) {
        CHECK_OK(hcq_signal_destroy(s[0]));
        CHECK_OK(hcq_signal_destroy(s[n - 1]));
        s[0] = make_signal(device, 0);
        s[n - 1] = make_signal(device, 0);
    }
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_close(device));
    free(s);
    return took;
}

static void handles_are_found_at_once(void **state) {
    (void)state;
    GROWS_LIKE_N(notices_come_and_go, 8000);
    GROWS_LIKE_N(signals_come_and_go, 8000);
}

/* One block comes and goes; many others, of another size, are in the cache. */
static uint64_t blocks_come_and_go(uint32_t n) {
    hcq_device *device = test_open(0, NULL);
    hcq_buffer *buffers = (hcq_buffer *)room_for(n, sizeof *buffers), one;
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(hcq_alloc(device, 64, 0, &buffers[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(hcq_free(buffers[i]));
    }
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(hcq_alloc(device, 4096, 0, &one));
        CHECK_OK(hcq_free(one));
    }
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_close(device));
    free(buffers);
    return took;
}

static void freeing_is_not_a_search(void **state) {
    (void)state;
    GROWS_LIKE_N(blocks_come_and_go, 1500);
}

/* Many failures of a signal follow a lower value that is still to land, and many
   wait for the signal. */
static uint64_t failures_follow(uint32_t n) {
    hcq_device_desc desc = test_desc();
    desc.parked = 65536;               /* no growth of pools is measured */
    hcq_device *device = test_open(0, &desc);
    hcq_signal s = make_signal(device, 0), gate = make_signal(device, 0);
    hcq_point low = hcq_at(s, 1), high = hcq_at(s, 2), open = hcq_at(gate, 1);
    hold_reset();
    hcq_point done = hold_device(device, &low);
    for (uint32_t i = 0; i < n; i++) {
        hcq_point raise = hcq_at(s, i + 2);
        CHECK_OK(submit_lists(device, &open, &raise, HCQ_UNORDERED, NULL));
    }
    CHECK_OK(hcq_signal_fail(gate, HCQ_ERROR_HOST));
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(submit_lists(device, &high, NULL, HCQ_UNORDERED, NULL));
    }
    uint64_t took = thread_ns() - start;
    hold_release();
    WAIT_OK(done);
    CHECK_OK(hcq_close(device));
    return took;
}

/* The same with raises that run, and a timestamp before them all. */
static uint64_t raises_follow_a_timestamp(uint32_t n) {
    hcq_device_desc desc = test_desc();
    desc.inflight = 1u << 20;
    desc.parked = 65536;
    hcq_device *device = test_open(0, &desc);
    hcq_signal s = make_signal(device, 0);
    hcq_point low = hcq_at(s, 1);
    hcq_queue *q = make_holder(device);
    CHECK_INDEX(hcq_queue_timestamp(q, s), 1);
    hold_reset();
    hcq_point done = hold_start(q, device);
    for (uint32_t i = 0; i < n; i++) {
        hcq_point raise = hcq_at(s, i + 1);
        CHECK_OK(submit_lists(device, NULL, &raise, 0, NULL));
    }
    uint64_t start = thread_ns();
    for (uint32_t i = 0; i < n; i++) {
        CHECK_OK(submit_lists(device, &low, NULL, 0, NULL));
    }
    uint64_t took = thread_ns() - start;
    hold_release();
    WAIT_OK(done);
    CHECK_OK(hcq_close(device));
    return took;
}

static void raises_are_found_at_once(void **state) {
    (void)state;
    GROWS_LIKE_N(failures_follow, 2000);
    if (T.variant->narrow || test_validates()) {
        return;                        /* few can run at once; the layer searches, too */
    }
    GROWS_LIKE_N(raises_follow_a_timestamp, 2000);
}

/* Work that is held on another device and goes with the closed one, each waking
   the next. */
static uint64_t close_cancels_elsewhere(uint32_t n) {
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_host(q, host_nothing, NULL), 0);
    for (uint32_t i = 0; i < n; i++) {
        hcq_point wait = hcq_at(s, i + 2), raise = hcq_at(s, i + 3);
        hcq_submission sub = submission(&q, 1);
        sub.waits = &wait;
        sub.wait_count = 1;
        sub.signals = &raise;
        sub.signal_count = 1;
        sub.flags = HCQ_UNORDERED;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, NULL));
    }
    uint64_t start = thread_ns();
    CHECK_OK(hcq_close(device));
    uint64_t took = thread_ns() - start;
    CHECK_OK(hcq_signal_destroy(s));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    return took;
}

static void closing_is_not_a_search(void **state) {
    (void)state;
    GROWS_LIKE_N(close_cancels_elsewhere, 3000);
}

#define EDGES_TESTS \
    TEST(destroyed_ends_what_cannot_come), TEST(destroyed_in_a_ring), \
    TEST(waits_hear_the_end), TEST(waits_hear_the_host), \
    TEST(transfers_give_up_in_a_full_lane), TEST(any_lane_spreads_the_queues_of_one), \
    TEST(failed_alloc_keeps_the_users), TEST(alloc_after_without_memory), \
    TEST(trim_passes_what_others_use), TEST(transfers_refuse_nonsense), \
    TEST(empty_submits_give_a_reached_point), TEST(explain_ns_may_be_huge), \
    TEST(handle_closed_before_the_signal), TEST(explain_a_failure_before_lower_values), \
    TEST(explain_through_native_waits), TEST(explaining_is_bounded), \
    TEST(handles_are_found_at_once), TEST(freeing_is_not_a_search), \
    TEST(raises_are_found_at_once), TEST(closing_is_not_a_search)
