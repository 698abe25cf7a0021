/* host.h - commands that call functions of the user, by the host or where they are encoded:
   what they see, what may be called from them and from notifications, how they fail, and
   whose turn it is on the thread that runs them. Part of conformance.c. */
#include "shared.h"

typedef struct host_view { const uint32_t *word; uint32_t seen; } host_view;

static hcq_result host_look(void *user) {
    host_view *view = (host_view *)user;
    view->seen = *view->word;
    return HCQ_OK;
}

/* The host command sees what was written before it; commands see what the host wrote
   before the submission. */
static void host_command_sees_memory(TEST_ARGS) {
    hcq_buffer a;
    CHECK_OK(hcq_alloc(T.dev, 64, HCQ_HOST_VISIBLE | HCQ_ZEROED, &a));
    host_view view = {(const uint32_t *)a.host, 0};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_point done;
    CHECK_INDEX(record_add(q, add, a, 0, 21), 0);
    CHECK_INDEX(hcq_queue_host(q, host_look, &view), 1);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 2);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 8, 4), hcq_view(a, 4, 4), 4), 3);
    for (uint32_t i = 0; i < 20; i++) {
        ((uint32_t *)a.host)[1] = 1000 + i;
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK_U64(view.seen, i * 22 + 21);
        CHECK_U64(((const uint32_t *)a.host)[2], 1000 + i);
    }
}

/* A failing host command, or a custom one: the rest does not run, its signals fail,
   later work of the lane goes on, the timeline advances, the error says where. What was
   handed over before a host command has run. */
static void commands_fail(TEST_ARGS) {
    for (int way = 0; way < 4; way++) {
        const int bound = way & 1, custom = way & 2;
        host_log log = {0, HCQ_ERROR_HOST};
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *next = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        custom_payload p = {a.address + 16, 666, 1234};
        hcq_signal before = make_signal(T.dev, 0), after = make_signal(T.dev, 0);
        hcq_point done, later, line;
        hcq_error_info error;
        CHECK_OK(hcq_queue_label(q, "failing"));
        CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(before, 1)), 1);
        CHECK_INDEX(custom ? hcq_queue_custom(q, &custom_type, &p)
                           : hcq_queue_host(q, host_record, &log), 2);
        CHECK_INDEX(hcq_queue_write(q, a, 2, 4), 3);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(after, 1)), 4);
        CHECK_INDEX(hcq_queue_write(next, hcq_view(a, 4, 4), 3, 4), 0);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        CHECK_OK(hcq_queue_submit(next, T.dev, &later));
        line = timeline_now(T.dev);
        const hcq_point first = hcq_at(before, 1);
        CHECK(custom || hcq_wait(&first, 1, HCQ_ALL, BOUND) == HCQ_OK);
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(after, 1), HCQ_ERROR_HOST);
        WAIT_OK(later);
        WAIT_OK(line);                 /* the timeline only orders */
        CHECK_RESULT(test_poll(done), HCQ_ERROR_HOST); /* and the point remembers */
        CHECK(custom || READ32(a, 0) == 1);
        CHECK(READ32(a, 0) != 2);
        CHECK_U64(READ32(a, 1), 3);
        CHECK_OK(hcq_device_error(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "failing") == 0 && error.command == 2);
        CHECK_OK(hcq_device_error(T.dev, &error)); /* was taken */
        CHECK_OK(error.result);
        log.result = HCQ_OK;           /* the queue itself is not spoilt */
        p.value = 5;
        CHECK_OK(custom ? hcq_queue_update_custom(q, 2, &p) : HCQ_OK);
        CHECK_OK(hcq_signal_reset(before, 0));
        CHECK_OK(hcq_signal_reset(after, 0));
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        WAIT_OK(hcq_at(after, 1));
        CHECK_U64(READ32(a, 0), 2);
        CHECK_U64(READ32(a, 4), custom ? 5 : 0);
        hcq_queue_destroy(q);
    }
}

/* ---- commands of a type of the user's own ---- */

static const hcq_custom_type custom_elsewhere = {
    "elsewhere", 4, {{"OTHER", custom_poke}}, {{0, 0}}, NULL};

static void custom_commands(TEST_ARGS) {
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        custom_payload p = {a.address, 11, 1234};
        CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 0);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 4, 4), a, 4), 1);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        p.value = 0;                   /* was copied */
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_U64(READ32(a, 1), 11);
        for (uint32_t i = 0; i < 20; i++) {
            p.value = 20 + i;
            p.fixed = 99;              /* outside of the updatable range: refused */
            CHECK_RESULT(hcq_queue_update_custom(q, 0, &p), HCQ_ERROR_INVALID);
            p.fixed = 1234;
            CHECK_OK(hcq_queue_update_custom(q, 0, &p));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            CHECK_U64(READ32(a, 1), 20 + i);
        }
        hcq_queue_destroy(q);
        q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_custom(q, &custom_elsewhere, &p), HCQ_ERROR_UNSUPPORTED);
    }
}

typedef struct custom_thread {
    pthread_t thread;
    hcq_device *dev;
    hcq_buffer words;
    uint32_t rounds, wrong;            /* wrong: the first round that was, 0 none */
} custom_thread;

/* Records, submits and changes queues with two custom commands, which live until that
   is done, and sees its own values only. */
static void *custom_thread_run(void *user) {
    custom_thread *t = (custom_thread *)user;
    for (uint32_t i = 0; i < t->rounds && !t->wrong; i++) {
        custom_payload p = {t->words.address, 10 + i, 1234}, later = p;
        uint32_t got[3] = {0, 0, 0};
        hcq_queue *q = NULL;
        hcq_point done = {{0}, 0};
        hcq_buffer other;
        later.value += 1000000;
        int right = hcq_alloc(t->dev, 4096 + i % 7 * 256, 0, &other) == HCQ_OK &&
                    hcq_queue_create(t->dev, HCQ_COMPUTE, &q) == HCQ_OK &&
                    hcq_queue_custom(q, &custom_type, &p) == 0 &&
                    hcq_queue_copy(q, hcq_view(t->words, 4, 4), t->words, 4) == 1 &&
                    hcq_queue_custom(q, &custom_type, &p) == 2 &&
                    hcq_queue_copy(q, hcq_view(t->words, 8, 4), t->words, 4) == 3 &&
                    (i % 2 || hcq_queue_bind(q, t->dev) == HCQ_OK) &&
                    hcq_queue_submit(q, t->dev, NULL) == HCQ_OK &&
                    hcq_queue_update_custom(q, 2, &later) == HCQ_OK &&
                    hcq_queue_submit(q, t->dev, &done) == HCQ_OK;
        hcq_queue_destroy(q);
        right = right && hcq_free(other) == HCQ_OK &&
                hcq_wait(&done, 1, HCQ_ALL, BOUND) == HCQ_OK &&
                hcq_copyout(got, t->words, 12) == HCQ_OK && got[1] == p.value &&
                got[2] == later.value;
        t->wrong = right ? 0 : i + 1;
    }
    return NULL;
}

static void custom_commands_beside_others(TEST_ARGS) {
    enum { THREADS = 3 };
    custom_thread threads[THREADS];
    memset(threads, 0, sizeof threads);
    for (uint32_t i = 0; i < THREADS; i++) {
        custom_thread *t = &threads[i];
        t->dev = i % 2 ? T.dev2 : T.dev;
        t->words = make_words(t->dev, 4);
        t->rounds = T.quick ? 60 : 400;
        CHECK(pthread_create(&t->thread, NULL, custom_thread_run, t) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i].thread, NULL) == 0);
        CHECK_U64(threads[i].wrong, 0);
    }
}

/* ---- callbacks ---- */

static void *notice_elsewhere(void *user) {
    notice_caller *c = (notice_caller *)user;
    uint64_t value = 0;
    if (hcq_signal_set(c->other, 1) == HCQ_OK &&
        hcq_device_query(T.dev, HCQ_QUERY_PENDING, &value) == HCQ_OK &&
        hcq_signal_value(c->other, &value) == HCQ_OK && value == 1) {
        c->unlocked = 1;
    }
    return NULL;
}

static void notice_calls_back(void *user, hcq_result result) {
    notice_caller *c = (notice_caller *)user;
    hcq_point far_away = hcq_at(c->set, 1000000), reached = hcq_at(c->set, 0);
    hcq_submission empty = submission(NULL, 0);
    pthread_t thread;
    uint64_t value = 0;
    char text[64];
    c->got[0] = result;
    c->got[1] = hcq_signal_set(c->set, c->set_to);
    c->got[2] = hcq_queue_submit(c->submit, T.dev, &c->submitted);
    c->got[3] = hcq_notify(c->submitted, notice_run, &c->again, NULL);
    c->got[4] = hcq_notify_cancel(c->undone.id);
    c->got[5] = hcq_device_query(T.dev, HCQ_QUERY_PENDING, &value);
    c->got[6] = hcq_device_dump(T.dev, text, sizeof text) ? HCQ_OK : HCQ_ERROR_INVALID;
    c->got[7] = hcq_explain(&far_away, 1, text, sizeof text) ? HCQ_OK : HCQ_ERROR_INVALID;
    c->got[8] = hcq_wait(&reached, 1, HCQ_ALL, 0); /* polls are fine */
    c->got[9] = hcq_device_retain(T.dev2);
    c->got[10] = hcq_device_release(T.dev2); /* not the last */
    c->got[11] = hcq_wait(&far_away, 1, HCQ_ALL, SECOND); /* these would block */
    c->got[12] = hcq_wait(&far_away, 1, HCQ_ANY, HCQ_FOREVER);
    c->got[13] = hcq_device_synchronize(T.dev, SECOND);
    value = hcq_device_timeline_value(T.dev);
    c->got[14] = hcq_submit_and_wait(T.dev, &empty, 1, SECOND, NULL);
    if (hcq_device_timeline_value(T.dev) != value) {
        c->got[14] = HCQ_OK;           /* it is refused before anything is submitted */
    }
    c->got[15] = hcq_copyout(text, c->buffer, 4);
    c->got[16] = hcq_copyin(c->buffer, text, 4);
    c->got[17] = hcq_close(T.dev2);
    c->got[18] = hcq_device_release(T.dev2); /* the last */
    c->got[19] = hcq_wait(&far_away, 1, HCQ_ALL,
                          HCQ_DEADLINE(hcq_sys_now_ns() + SECOND));
    /* Another thread gets on while this one sits in a notification. */
    if (pthread_create(&thread, NULL, notice_elsewhere, c) == 0) {
        pthread_join(thread, NULL);
    }
    __atomic_fetch_add(&c->calls, 1, __ATOMIC_RELEASE);
}

static hcq_result host_calls_back(void *user) {
    notice_calls_back(user, HCQ_OK);
    return HCQ_OK;
}

static notice_caller caller;

/* May be called again, for another version. */
static hcq_result custom_calls_back(void *native, const void *payload, void *user) {
    (void)native;
    (void)payload;
    if (!caller.calls) { notice_calls_back(user, HCQ_OK); }
    return HCQ_OK;
}

static const hcq_custom_type custom_calls_type = {
    "calls", 4, {{"CPU", custom_calls_back}, {"MOCK", custom_calls_back},
                 {"TRACE", custom_calls_back}, TEST_GPU_ENCODE(custom_calls_back)},
    {{0, 0}}, &caller};

/* Notifications, whoever runs them, host commands and custom ones: what would block is
   refused, the rest is done, and no lock is held meanwhile. */
static void callbacks_call_hcq(TEST_ARGS) {
    for (int way = 0; way < 7; way++) {
        notice_caller *c = &caller;
        hcq_signal s = make_signal(T.dev, way == 0), gate = make_signal(T.dev, 0);
        hcq_point open = hcq_at(gate, 1), raise = hcq_at(s, 1);
        hcq_buffer a = make_words(T.dev, 4);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        const uint32_t payload = 0;
        memset(c, 0, sizeof *c);
        c->set = make_signal(T.dev, 0);
        c->set_to = 5;
        c->other = make_signal(T.dev2, 0);
        c->buffer = make_words(T.dev, 4);
        c->submit = make_queue(T.dev, HCQ_COPY);
        CHECK_INDEX(hcq_queue_write(c->submit, a, 9, 4), 0);
        NOTIFY_AT(&c->undone, hcq_at(c->set, 900));
        hcq_point late = hcq_at(c->set, 900); /* so that there is something to wait for */
        CHECK_OK(submit_lists(T.dev, &late, NULL, HCQ_UNORDERED, NULL));
        if (way > 1 && way < 5) {
            CHECK_OK(submit_lists(way == 4 ? T.dev2 : T.dev, &open, &raise, 0, NULL));
        }
        if (way >= 5) {
            CHECK_INDEX(way == 5 ? hcq_queue_host(q, host_calls_back, c)
                                 : hcq_queue_custom(q, &custom_calls_type, &payload), 0);
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        } else {
            CHECK_OK(hcq_notify(raise, notice_calls_back, c, NULL));
        }
        if (way == 1) {                /* by the host */
            CHECK_OK(hcq_signal_set(s, 1));
        } else {                       /* at once; by whoever collects the work or waits */
            CHECK_OK(hcq_signal_set(gate, 1));
        }
        if (way == 3) {
            WAIT_OK(raise);
        }
        CHECK(word_until(&c->calls, 1));
        for (int i = 0; i < 20; i++) {
            CHECK_RESULT(c->got[i], i < 11 ? HCQ_OK : HCQ_ERROR_WOULD_BLOCK);
        }
        CHECK(c->unlocked);
        WAIT_OK(hcq_at(c->set, 5));    /* and this thread may block again */
        WAIT_OK(c->submitted);
        NOTIFIED(&c->again, HCQ_OK);
        CHECK_OK(hcq_signal_set(c->set, 900));
        CHECK_U64(READ32(a, 0), 9);
        SILENT(&c->undone);
        synchronize_both();
        CHECK_U64(c->calls, 1);
    }
}

/* ---- whose turn it is ---- */

static hcq_result host_nap(void *user) {
    (void)user;
    mock_sleep(30000000);
    return HCQ_OK;
}

/* What waits for another device's work goes on although no thread is in hcq. */
static void releases_without_anybody_asking(TEST_ARGS) {
    for (int round = 0; round < 6; round++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_queue *slow = make_queue(T.dev, round % 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_queue *after = make_queue(T.dev2, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4);
        uint32_t flag = 0;
        CHECK_INDEX(hcq_queue_host(slow, host_nap, NULL), 0);
        CHECK_INDEX(hcq_queue_write(slow, a, 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(slow, hcq_at(s, 1)), 2);
        CHECK_INDEX(hcq_queue_wait(after, hcq_at(s, 1)), 0);
        CHECK_INDEX(hcq_queue_write(after, b, 1, 4), 1);
        CHECK_INDEX(hcq_queue_host(after, host_counts, &flag), 2);
        CHECK_OK(hcq_queue_submit(round % 3 ? after : slow, round % 3 ? T.dev2 : T.dev, NULL));
        CHECK_OK(hcq_queue_submit(round % 3 ? slow : after, round % 3 ? T.dev : T.dev2, NULL));
        CHECK(word_until(&flag, 1));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND)); /* `flag` lives until then */
    }
}

/* An ordered host command runs once what was before it is done, however much
   unordered work keeps its lane busy. */
static void unordered_work_starves_nobody(TEST_ARGS) {
    enum { FLIGHT = 4, MOST = 300 };
    const uint64_t size = 4 << 20;
    hcq_queue *copy = make_queue(T.dev, HCQ_COMPUTE), *host = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a, b;
    hcq_point flight[FLIGHT], done;
    uint32_t counter = 0;
    CHECK_OK(hcq_alloc(T.dev, size, 0, &a));
    CHECK_OK(hcq_alloc(T.dev, size, 0, &b));
    CHECK_INDEX(hcq_queue_copy(copy, a, b, size), 0);
    CHECK_OK(hcq_queue_bind(copy, T.dev));
    CHECK_INDEX(hcq_queue_host(host, host_counts, &counter), 0);
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

static hcq_result host_looks(void *user) { /* how many ran before it, and itself */
    uint32_t *counters = (uint32_t *)user;
    __atomic_store_n(&counters[1], __atomic_load_n(&counters[0], __ATOMIC_ACQUIRE) + 1,
                     __ATOMIC_RELEASE);
    return HCQ_OK;
}

/* Host commands of one lane do not hold up those of another. */
static void host_commands_take_turns(TEST_ARGS) {
    enum { N = 200 };
    hcq_queue *first = make_queue(T.dev, HCQ_COMPUTE), *other = make_queue(T.dev, HCQ_COPY);
    uint32_t counters[2] = {0, 0};
    hcq_point done, all = make_gate(T.dev);
    CHECK_INDEX(hcq_queue_host(first, host_counts, &counters[0]), 0);
    CHECK_INDEX(hcq_queue_host(other, host_looks, counters), 0);
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(submit_behind(first, T.dev, i ? NULL : &all, NULL));
    }
    CHECK_OK(submit_behind(other, T.dev, &all, &done));
    open_gate(all);
    WAIT_OK(done);
    if (!T.variant->one_fifo && !is_cpu()) {
        CHECK(counters[1] <= N);
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(counters[0], N);
}

/* The service thread waits for one lane when a host command is due on another: it
   is called at once, not when that wait ends. */
static void service_thread_can_be_kicked(TEST_ARGS) {
    enum { N = 10 };
    SKIP_IF(is_cpu() || (T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE),
            "no service thread, or one lane");
    uint32_t counter = 0;
    hcq_queue *busy = make_holder(T.dev), *quick = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_host(busy, host_counts, &counter), 1);
    CHECK_INDEX(hcq_queue_host(quick, host_counts, &counter), 0);
    hold_reset();
    hcq_point done = hold_start(busy, T.dev);
    for (uint32_t i = 0; i < N; i++) { /* follows nothing: due as soon as it is submitted */
        CHECK_OK(submit_queue(quick, T.dev, NULL, NULL, HCQ_UNORDERED, NULL));
        CHECK(word_until(&counter, i + 1));
    }
    CHECK(holds());
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    hold_release();
    WAIT_OK(done);
    CHECK_U64(counter, N + 1);
}

#define HOST_TESTS \
    TEST(custom_commands), TEST(custom_commands_beside_others), TEST(host_command_sees_memory), \
    TEST(commands_fail), TEST(callbacks_call_hcq), TEST(releases_without_anybody_asking), \
    TEST(unordered_work_starves_nobody), TEST(host_commands_take_turns), \
    TEST(service_thread_can_be_kicked)
