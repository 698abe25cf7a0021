/* host.h - commands that call functions of the user, by the host or where they are encoded:
   what they see, what may be called from them and from notifications, how they fail, and
   whose turn it is on the thread that runs them. Part of conformance.c. */

typedef struct host_view { const uint32_t *word; uint32_t seen; } host_view;

static hcq_result host_look(void *user) {
    host_view *view = (host_view *)user;
    view->seen = *view->word;
    return HCQ_OK;
}

/* The host command sees what was written before it; commands see what the host wrote
   before the submission. */
TEST(host_command_sees_memory) {
    hcq_buffer a = make_buffer(T.dev, 64, HCQ_HOST_VISIBLE | HCQ_ZEROED);
    host_view view = {(const uint32_t *)a.host, 0};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    CHECK_INDEX(record_add(q, add, a, 0, 21), 0);
    CHECK_INDEX(hcq_queue_host(q, host_look, &view), 1);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 2);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 8, 4), hcq_view(a, 4, 4), 4), 3);
    for (uint32_t i = 0; i < 20; i++) {
        ((uint32_t *)a.host)[1] = 1000 + i;
        RUN_OK(q, T.dev);
        CHECK_U64(view.seen, i * 22 + 21);
        CHECK_U64(((const uint32_t *)a.host)[2], 1000 + i);
    }
}

/* A failing host command, by any negative result, or a custom one: the rest does not run, its
   signals fail, later work of the lane goes on, the timeline advances. The first error is kept
   until it is taken, and says where. What was handed over before a host command has run. Other
   results are no failures, and the queue itself is not spoilt. */
TEST(commands_fail) {
    static const int fails[2] = {HCQ_ERROR_LIMIT, -99}, fine[3] = {HCQ_OK, HCQ_TIMEOUT, 77};
    for (int way = 0; way < 4; way++) {
        const int bound = way & 1, custom = way & 2;
        host_log log = {0, (hcq_result)fails[bound]};
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *next = make_queue(T.dev, HCQ_COMPUTE);
        hcq_queue *also = make_call(T.dev, HCQ_COMPUTE, host_fails, NULL);
        hcq_buffer a = make_words(T.dev, 8);
        custom_payload p = {a.address + 16, 666, 1234};
        hcq_signal before = make_signal(T.dev, 0), after = make_signal(T.dev, 0);
        hcq_point done, failed, later, line;
        hcq_error_info error;
        CHECK_OK(hcq_queue_label(q, "failing"));
        CHECK_INDEX(record_word(q, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(before, 1)), 1);
        CHECK_INDEX(custom ? hcq_queue_custom(q, &custom_type, &p)
                           : hcq_queue_host(q, host_record, &log), 2);
        p.value = 0;                   /* was copied */
        CHECK_INDEX(record_word(q, a, 2, 4), 3);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(after, 1)), 4);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 8, 4), hcq_view(a, 16, 4), 4), 5);
        CHECK_INDEX(record_word(next, hcq_view(a, 4, 4), 3, 4), 0);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        CHECK_OK(hcq_queue_submit(also, T.dev, &failed));
        CHECK_OK(hcq_queue_submit(next, T.dev, &later));
        line = timeline_now(T.dev);
        const hcq_point first = hcq_at(before, 1);
        CHECK(custom || hcq_wait(&first, 1, HCQ_ALL, BOUND) == HCQ_OK);
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(after, 1), HCQ_ERROR_HOST);
        WAIT_RESULT(failed, HCQ_ERROR_HOST);
        WAIT_OK(later);
        WAIT_OK(line);                 /* the timeline only orders */
        CHECK_RESULT(test_poll(done), HCQ_ERROR_HOST); /* and the point remembers */
        CHECK(custom || READ32(a, 0) == 1);
        CHECK(READ32(a, 0) != 2);
        CHECK_U64(READ32(a, 1), 3);
        CHECK_OK(hcq_device_error_take(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "failing") == 0 && error.command == 2);
        CHECK(custom || error.native_code == log.result);
        CHECK_OK(hcq_device_error_take(T.dev, &error)); /* was taken */
        CHECK_OK(error.result);
        for (uint32_t i = 0; i < 12; i++) {
            log.result = (hcq_result)fine[i % 3];
            p.value = 5 + i;
            CHECK_OK(custom ? hcq_queue_update_custom(q, 2, &p) : HCQ_OK);
            CHECK_OK(hcq_signal_reset(before, 0));
            CHECK_OK(hcq_signal_reset(after, 0));
            RUN_OK(q, T.dev);
            WAIT_OK(hcq_at(after, 1));
            CHECK_U64(READ32(a, 0), 2);
            CHECK_U64(READ32(a, 2), custom ? 5 + i : 0);
        }
        hcq_queue_destroy(q);
    }
}

/* ---- commands of a type of the user's own ---- */

static hcq_result custom_keeps(void *user, void *native, const void *payload) {
    (void)native;
    memcpy(user, payload, 4096);
    return HCQ_OK;
}

/* The largest payload, the last of the encode functions, as many ranges as fit: where there is
   none all of it may change. */
TEST(payloads_of_custom_commands) {
    static unsigned char seen[4096], bytes[4096];
    hcq_custom_type whole = {"whole", sizeof bytes, {{"A", NULL}, {"B", NULL}, {"C", NULL},
                             {"D", NULL}, {"E", NULL}, {"F", NULL}, {"G", NULL},
                             {T.variant->backend, custom_keeps}},
                             {{0, 0}}, seen};
    hcq_custom_type parts = whole;
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    for (uint32_t i = 0; i < 4; i++) {
        parts.updatable[i].offset = 1365 * i;
        parts.updatable[i].size = 1;
        memset(bytes, (int)i + 1, sizeof bytes);
        CHECK_OK((hcq_result)(i ? hcq_queue_update_custom(q, 0, bytes)
                                : hcq_queue_custom(q, &whole, bytes)));
        RUN_OK(q, T.dev);
        CHECK(memcmp(seen, bytes, sizeof bytes) == 0);
    }
    CHECK_INDEX(hcq_queue_custom(q, &parts, bytes), 1);
    for (uint32_t i = 0; i < 4096; i++) {
        bytes[i] ^= 1;
        CHECK_RESULT(hcq_queue_update_custom(q, 1, bytes), i % 1365 ? HCQ_ERROR_INVALID : HCQ_OK);
        bytes[i] ^= i % 1365 ? 1 : 0;
    }
}

/* ---- callbacks ---- */

enum { FINE = 12, BLOCKS = 11 };       /* calls that are done, calls that are refused */

/* Who calls. */
enum { AT_ONCE, BY_HOST_SET, BY_COLLECTOR, BY_WAITER, BY_OTHER_DEVICE, BY_HOST_COMMAND,
       BY_CUSTOM_COMMAND, BY_LOGGER, CALLERS };

/* A callback that calls, and what it got. */
static struct {
    int way;
    hcq_signal set, other;
    hcq_queue *submit, *graph;
    hcq_program *program;
    hcq_buffer buffer;
    notice again, undone, beside, elsewhere[3];
    hcq_notification own;
    hcq_point submitted, launched;
    hcq_result got[FINE + BLOCKS], ended, taken;
    uint32_t calls;                    /* atomic */
    uint32_t unlocked, lines, inside, deepest;
    hcq_device *logged, *closes;       /* whose logger it is; what another thread closes */
    hcq_point work;
} caller;

static void *caller_elsewhere(void *user) {
    uint64_t value = 0;
    if (hcq_signal_set(caller.other, 1) == HCQ_OK &&
        hcq_device_query(T.dev, HCQ_QUERY_PENDING, &value) == HCQ_OK &&
        hcq_signal_value(caller.other, &value) == HCQ_OK && value == 1) {
        caller.unlocked = notice_calls(&caller.elsewhere[0]);
    }
    if (caller.own.id != 0) { caller.unlocked &= hcq_notify_cancel(caller.own) == HCQ_ERROR_BUSY; }
    if (caller.way == BY_HOST_SET) {   /* else the device's thread may be the one that calls */
        caller.unlocked &= submit_lists(T.dev, NULL, &caller.work, HCQ_UNORDERED, NULL) == HCQ_OK;
        caller.unlocked &= hcq_close(caller.closes) == HCQ_OK;
        caller.unlocked &= (uint32_t)word_until(&caller.elsewhere[1].calls, 1);
        caller.unlocked &= notice_calls(&caller.elsewhere[2]);
    }
    return user;
}

static void caller_blocks(hcq_result *got) {
    const hcq_point far_away = hcq_at(caller.set, 1000000);
    const hcq_submission empty = submission(NULL, 0);
    const uint64_t number = hcq_device_timeline_value(T.dev);
    uint32_t word = 0;
    *got++ = hcq_wait(&far_away, 1, HCQ_ALL, SECOND);
    *got++ = hcq_wait(&far_away, 1, HCQ_ANY, HCQ_FOREVER);
    *got++ = hcq_wait(&far_away, 1, HCQ_ALL, HCQ_DEADLINE(hcq_now_ns() + SECOND));
    *got++ = hcq_device_synchronize(T.dev, SECOND);
    *got++ = hcq_copyout(&word, caller.buffer, 4);
    *got++ = hcq_copyin(caller.buffer, &word, 4);
    *got++ = hcq_program_call(caller.program, NULL, 0, dims_one, dims_one, NULL);
    *got++ = hcq_close(dev2());
    *got++ = hcq_device_release(dev2()); /* the last */
    *got++ = submit_queue(caller.graph, T.dev, NULL, NULL, HCQ_STEP, NULL);
    *got = hcq_submit_and_wait(T.dev, &empty, 1, SECOND, NULL);
    if (hcq_device_timeline_value(T.dev) != number) {
        *got = HCQ_OK;                 /* they are refused before anything is submitted */
    }
}

static void notice_calls_back(void *user, hcq_result result) {
    const hcq_point far_away = hcq_at(caller.set, 1000000), reached = hcq_at(caller.set, 0);
    hcq_result *got = caller.got;
    pthread_t thread;
    uint64_t value = 0;
    char text[64];
    (void)user;
    *got++ = result;
    *got++ = hcq_signal_set(caller.set, 5);
    *got++ = hcq_queue_submit(caller.submit, T.dev, &caller.submitted);
    *got++ = hcq_queue_submit(caller.graph, T.dev, &caller.launched);
    *got++ = hcq_notify(caller.submitted, notice_run, &caller.again, NULL);
    *got++ = hcq_notify_cancel(caller.undone.id);
    *got++ = hcq_device_query(T.dev, HCQ_QUERY_PENDING, &value);
    *got++ = hcq_device_dump(T.dev, text, sizeof text) ? HCQ_OK : HCQ_ERROR_INVALID;
    *got++ = hcq_explain(&far_away, 1, text, sizeof text) ? HCQ_OK : HCQ_ERROR_INVALID;
    *got++ = hcq_wait(&reached, 1, HCQ_ALL, 0); /* polls are fine */
    *got++ = hcq_device_retain(dev2());
    *got++ = hcq_device_release(dev2()); /* not the last */
    caller_blocks(got);
    caller.ended = hcq_notify_cancel(caller.own);
    caller.taken = hcq_notify_cancel(caller.beside.id);
    /* Another thread gets on while this one sits in a callback, and runs others. */
    if (pthread_create(&thread, NULL, caller_elsewhere, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    __atomic_fetch_add(&caller.calls, 1, __ATOMIC_RELEASE);
}

static hcq_result host_calls_back(void *user) {
    notice_calls_back(user, HCQ_OK);
    return HCQ_OK;
}

/* May be called again, for another version. */
static hcq_result custom_calls_back(void *user, void *native, const void *payload) {
    (void)native;
    (void)payload;
    if (!caller.calls) { notice_calls_back(user, HCQ_OK); }
    return HCQ_OK;
}

static const hcq_custom_type custom_calls_type = {
    "calls", 4, {{"CPU", custom_calls_back}, {"MOCK", custom_calls_back},
                 {"TRACE", custom_calls_back}, TEST_GPU_ENCODE(custom_calls_back)},
    {{0, 0}}, NULL};

static hcq_result refused_line(void) {
    hcq_queue *queue = NULL;
    return hcq_queue_create(caller.logged, (hcq_queue_kind)9, &queue);
}

/* What is refused here gets a line, but not within this one. */
static void log_calls_back(void *user, hcq_result result, const char *text) {
    (void)result;
    (void)text;
    if (++caller.inside > caller.deepest) {
        caller.deepest = caller.inside;
    }
    if (caller.lines++ == 0) {
        notice_calls_back(user, HCQ_OK);
    }
    if (caller.lines < 20) {
        (void)refused_line();
    }
    caller.inside--;
}

static void caller_reset(hcq_buffer a, hcq_buffer far_one, int way) {
    memset(&caller, 0, sizeof caller);
    caller.way = way;
    caller.set = make_signal(T.dev, 0);
    caller.other = make_signal(dev2(), 0);
    caller.buffer = make_words(T.dev, 4);
    caller.submit = make_queue(T.dev, HCQ_COPY);
    caller.graph = make_graph();
    caller.program = make_add(T.dev);
    CHECK_INDEX(record_word(caller.submit, a, 9, 4), 0);
    CHECK_INDEX(record_add(caller.graph, make_add(T.dev), a, 1, 1), 0);
    CHECK_INDEX(record_add(caller.graph, make_add(dev2()), far_one, 0, 1), 1);
    CHECK_OK(way % 2 ? hcq_queue_bind(caller.graph, T.dev) : HCQ_OK);
    NOTIFY_AT(&caller.elsewhere[0], hcq_at(caller.other, 1));
    if (way == BY_HOST_SET) {
        caller.closes = test_open(0, NULL);
        caller.work = make_gate(T.dev);
        NOTIFY_AT(&caller.elsewhere[1], caller.work);
        NOTIFY_AT(&caller.elsewhere[2], make_gate(caller.closes));
    }
    NOTIFY_AT(&caller.undone, hcq_at(caller.set, 900));
    hcq_point late = hcq_at(caller.set, 900); /* so that there is something to wait for */
    CHECK_OK(submit_lists(T.dev, &late, NULL, HCQ_UNORDERED, NULL));
}

/* A notification with another one of the same point, before it or after it. */
static void notified_calls(int way) {
    hcq_signal s = make_signal(T.dev, way == AT_ONCE);
    hcq_point gate = make_gate(T.dev), raise = hcq_at(s, 1);
    if (way > BY_HOST_SET) {
        CHECK_OK(submit_lists(way == BY_OTHER_DEVICE ? dev2() : T.dev, &gate, &raise, 0, NULL));
    }
    for (int i = 0; i < 2; i++) {
        if (i == way % 2) {
            CHECK_OK(hcq_notify(raise, notice_calls_back, NULL, &caller.own));
        } else {
            NOTIFY_AT(&caller.beside, raise);
        }
    }
    open_gate(way == BY_HOST_SET ? raise : gate);
    if (way == BY_WAITER) {
        WAIT_OK(raise);
    }
    CHECK(word_until(&caller.calls, 1));
    if (way != AT_ONCE) {              /* it has begun: only the other can be taken back */
        CHECK_RESULT(caller.ended, HCQ_ERROR_BUSY);
        CHECK(caller.taken == HCQ_OK || caller.taken == HCQ_ERROR_CLOSED ||
              caller.taken == HCQ_ERROR_BUSY);
        CHECK(notice_is_over(caller.own));
    }
    if (way == AT_ONCE || caller.taken != HCQ_OK) {
        NOTIFIED(&caller.beside, HCQ_OK);
    }
    CHECK_OK(hcq_signal_set(s, 2));
    CHECK_U64(notice_calls(&caller.beside), way == AT_ONCE || caller.taken != HCQ_OK);
}

static void command_calls(int way) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    const uint32_t payload = 0;
    CHECK_INDEX(way == BY_HOST_COMMAND ? hcq_queue_host(q, host_calls_back, NULL)
                                       : hcq_queue_custom(q, &custom_calls_type, &payload), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    CHECK(word_until(&caller.calls, 1));
}

static void logger_calls(void) {
    caller.logged = OPEN_WITH(0, .log_fn = log_calls_back, .log_user = NULL);
    CHECK_RESULT(refused_line(), HCQ_ERROR_INVALID);
    CHECK_U64(caller.deepest, 1);
    CHECK(caller.lines > 1 && caller.lines < 20); /* what it was refused, and no more */
    CHECK_OK(hcq_close(caller.logged));
}

/* Notifications, whoever runs them, host commands, custom ones and loggers: what would
   block is refused, the rest is done, and no lock is held meanwhile. */
TEST(callbacks_call_hcq) {
    for (int way = 0; way < CALLERS; way++) {
        hcq_buffer a = make_words(T.dev, 4), far_one = make_words(dev2(), 4);
        caller_reset(a, far_one, way);
        if (way == BY_LOGGER) {
            logger_calls();
        } else if (way > BY_OTHER_DEVICE) {
            command_calls(way);
        } else {
            notified_calls(way);
        }
        for (int i = 0; i < FINE + BLOCKS; i++) {
            CHECK_RESULT(caller.got[i], i < FINE ? HCQ_OK : HCQ_ERROR_WOULD_BLOCK);
        }
        CHECK(caller.unlocked);
        for (int i = 0; i < (way == BY_HOST_SET ? 3 : 1); i++) {
            NOTIFIED(&caller.elsewhere[i], i < 2 ? HCQ_OK : HCQ_ERROR_CANCELLED);
        }
        WAIT_OK(hcq_at(caller.set, 5)); /* and this thread may block again */
        WAIT_OK(caller.submitted);
        NOTIFIED(&caller.again, HCQ_OK);
        CHECK_OK(hcq_signal_set(caller.set, 900));
        WAIT_OK(caller.launched);
        CHECK_U64(READ32(a, 0), 9);
        CHECK_U64(READ32(a, 1), 1);    /* no step of the refused launch */
        CHECK_U64(READ32(far_one, 0), 1);
        SILENT(&caller.undone);
        synchronize_both();
        CHECK_U64(caller.calls, 1);
    }
}

/* ---- whose turn it is ---- */

/* What waits for another device's work goes on although no thread is in hcq. */
TEST(releases_without_anybody_asking) {
    for (int round = 0; round < 6; round++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_queue *slow = make_queue(T.dev, round % 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_queue *after = make_queue(dev2(), HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(dev2(), 4);
        uint32_t flag = 0;
        CHECK_INDEX(record_sleep(slow, 30000000), 0);
        CHECK_INDEX(record_word(slow, a, 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(slow, hcq_at(s, 1)), 2);
        CHECK_INDEX(hcq_queue_wait(after, hcq_at(s, 1)), 0);
        CHECK_INDEX(record_word(after, b, 1, 4), 1);
        CHECK_INDEX(hcq_queue_host(after, host_counts, &flag), 2);
        CHECK_OK(hcq_queue_submit(round % 3 ? after : slow, round % 3 ? dev2() : T.dev, NULL));
        CHECK_OK(hcq_queue_submit(round % 3 ? slow : after, round % 3 ? T.dev : dev2(), NULL));
        CHECK(word_until(&flag, 1));
        CHECK_OK(hcq_device_synchronize(dev2(), BOUND)); /* `flag` lives until then */
    }
}

/* An ordered host command runs once what was before it is done, however much
   unordered work keeps its lane busy. */
TEST(unordered_work_starves_nobody) {
    T.races_meant = 1;
    enum { FLIGHT = 4 };
    const uint64_t size = 4 << 20, end = hcq_now_ns() + BOUND / 4;
    uint32_t counter = 0;
    hcq_queue *copy = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *host = make_call(T.dev, HCQ_COMPUTE, host_counts, &counter);
    hcq_point flight[FLIGHT], done;
    hcq_buffer a = make_buffer(T.dev, size, 0), b = make_buffer(T.dev, size, 0);
    CHECK_INDEX(hcq_queue_copy(copy, a, b, size), 0);
    CHECK_OK(hcq_queue_bind(copy, T.dev));
    for (uint32_t i = 0; i < FLIGHT; i++) {
        CHECK_OK(SUBMIT(T.dev, copy, &flight[i], .flags = HCQ_UNORDERED));
    }
    CHECK_OK(hcq_queue_submit(host, T.dev, &done));
    for (uint32_t i = 0; test_poll(done) == HCQ_TIMEOUT && hcq_now_ns() < end; i++) {
        WAIT_OK(flight[i % FLIGHT]);
        CHECK_OK(SUBMIT(T.dev, copy, &flight[i % FLIGHT], .flags = HCQ_UNORDERED));
    }
    CHECK_OK(test_poll(done));         /* while there was more all the time */
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
}

static uint32_t host_calls;            /* atomic */

static hcq_result host_looks(void *user) { /* how many ran before it, and itself */
    *(uint32_t *)user = __atomic_load_n(&host_calls, __ATOMIC_ACQUIRE) + 1;
    return HCQ_OK;
}

/* Host commands of one lane do not hold up those of another; of those of one that
   may be called, ordered or not, the oldest is first. */
TEST(host_commands_take_turns) {
    enum { N = 200 };
    hcq_queue *first = make_call(T.dev, HCQ_COMPUTE, host_counts, &host_calls), *looks[3];
    uint32_t seen[3];
    hcq_point all = make_gate(T.dev);
    host_calls = 0;
    for (int i = 0; i < 3; i++) {
        looks[i] = make_call(T.dev, i == 2 ? HCQ_COPY : HCQ_COMPUTE, host_looks, &seen[i]);
    }
    CHECK_OK(submit_queue(looks[0], T.dev, &all, NULL, HCQ_UNORDERED, NULL));
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(submit_behind(first, T.dev, i ? NULL : &all, NULL));
    }
    CHECK_OK(submit_queue(looks[1], T.dev, &all, NULL, HCQ_UNORDERED, NULL));
    CHECK_OK(submit_behind(looks[2], T.dev, &all, NULL));
    open_gate(all);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK(is_cpu() || (seen[0] == 1 && seen[1] > 1));
    CHECK(is_cpu() || T.variant->one_fifo || seen[2] <= N);
    CHECK_U64(host_calls, N);
}

/* The service thread waits for one lane when a host command is due on another: it
   is called at once, not when that wait ends. */
TEST(service_thread_can_be_kicked) {
    enum { N = 10 };
    SKIP_IF(is_cpu() || T.variant->test.no_copy_lane, "no service thread, or one lane");
    uint32_t counter = 0;
    hcq_queue *busy = make_holder(T.dev);
    hcq_queue *quick = make_call(T.dev, HCQ_COPY, host_counts, &counter);
    CHECK_INDEX(hcq_queue_host(busy, host_counts, &counter), 1);
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
