/* closing.h - a device is closed, in the middle of anything: what is finished, what
   is cancelled, who is told, and references to it. Part of conformance.c. */

/* ---- references ---- */

/* While one thread closes another one is told so, and the device takes no more work. */
TEST(closed_by_one_only) {
    blocked_call first;
    hcq_device *device = test_open(0, NULL);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    (void)hold_device(device, NULL);
    CHECK_OK(hcq_device_retain(device));
    close_begins(&first, device);
    while (hcq_queue_submit(q, device, NULL) == HCQ_OK) {
        mock_sleep(100000);            /* it closes now, and waits for the kernel */
    }
    hcq_result second = hcq_close(device);
    hold_release();
    CHECK_OK(call_ends(&first));
    CHECK_RESULT(second, HCQ_ERROR_BUSY);
    CHECK_OK(hcq_device_release(device));
    CHECK(hcq_close(NULL) == HCQ_OK && hcq_device_release(NULL) == HCQ_OK);
    hcq_registry_destroy(NULL);
}

/* Owns one reference, takes and gives back others, often or until nobody is answered any
   more, and then gives back its own. The first of all only does that, or closes. */
static void *holder_run(void *user) {
    blocked_call *b = (blocked_call *)user;
    const int closes = b->mode == HCQ_ANY;
    uint64_t value;
    hcq_result result = HCQ_OK;
    for (uint32_t i = 0; b->count != 0 && (i < b->count || closes) && result == HCQ_OK; i++) {
        result = hcq_device_retain(b->device);
        if (result == HCQ_OK) {
            result = hcq_device_query(b->device, HCQ_QUERY_HELD, &value);
            hcq_result released = hcq_device_release(b->device);
            result = released == HCQ_OK ? result : released;
        }
    }
    hcq_result last = closes && b->count == 0 ? hcq_close(b->device)
                                              : hcq_device_release(b->device);
    result = result == HCQ_ERROR_CLOSED && closes ? HCQ_OK : result;
    return blocked_end(b, result == HCQ_OK ? last : result);
}

/* Whichever thread gives the last reference back closes, once; one that is given back
   at any moment of a hcq_close is taken. */
TEST(device_references_in_threads) {
    enum { N = 5 };
    static blocked_call h[N];
    static notice n;
    for (int round = 0; round < (T.quick ? 20 : 50); round++) {
        hcq_device *device = test_open(0, NULL);
        hcq_point never = make_gate(device), held;
        CHECK_OK(submit_lists(device, &never, NULL, 0, &held));
        NOTIFY_AT(&n, held);
        for (int i = 0; i < N; i++) {
            h[i] = (blocked_call){.device = device, .count = i ? 200 : 0,
                                  .mode = round % 2 ? HCQ_ANY : HCQ_ALL};
            CHECK_OK(i ? hcq_device_retain(device) : HCQ_OK);
        }
        run_threads(holder_run, h, sizeof h[0], N);
        for (int i = 0; i < N; i++) {
            CHECK_OK(h[i].result);
        }
        NOTIFIED(&n, HCQ_ERROR_CANCELLED);
        CHECK_RESULT(test_poll(held), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_device_release(device), HCQ_ERROR_CLOSED); /* one too many */
    }
}

/* ---- work ---- */

/* Its held work would raise s@2, and another device runs what raises s@1: what is
   cancelled, or fails as the device is lost, waits for nobody; nor does an idle device
   that is closed, whose narrow counters were swapped before. */
TEST(the_end_does_not_wait_for_others) {
    for (int lost = 0; lost <= is_mock(); lost++) {
        const hcq_result want = lost ? HCQ_ERROR_LOST : HCQ_ERROR_CANCELLED;
        mock_control control;
        hcq_device_desc desc = test_desc();
        hcq_device *device = lost ? open_to_lose(&control) : test_open(0, NULL);
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point gate = make_gate(T.dev), first = hcq_at(s, 1), second = hcq_at(s, 2), held, last;
        hcq_queue *q = make_filler(device, make_words(device, 1), 1);
        desc.timeout_ns = BOUND / 2;
        test_forced.counter_limit = 16;
        hcq_device *idle = test_open(2, &desc);
        hcq_point done = hold_device(T.dev, &first);
        CHECK_OK(submit_lists(device, &gate, &second, HCQ_UNORDERED, &held));
        if (lost) {
            lose_at_next_submit(&control);
            CHECK_OK(submit_queue(q, device, NULL, NULL, HCQ_UNORDERED, &last));
            CHECK_RESULT(hcq_wait(&last, 1, HCQ_ALL, BOUND / 4), want);
            CHECK_RESULT(hcq_wait(&held, 1, HCQ_ALL, BOUND / 4), want);
        } else {
            CHECK_OK(hcq_close(device));
        }
        CHECK_RESULT(hcq_wait(&second, 1, HCQ_ALL, BOUND / 4), want);
        for (int k = 0; k < 12; k++) {
            CHECK_OK(submit_lists(idle, NULL, NULL, 0, &last));
        }
        WAIT_OK(last);
        CHECK_OK(hcq_close(idle));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        HOLD_END(done);
        CHECK(!lost || hcq_close(device) <= HCQ_OK);
    }
}

/* Queues of one submission have failed, both or one, above values that another device
   still raises: its answers are there at once, before the closing and after it, lower
   values are still waited for, and nothing above them lands any more. */
TEST(close_with_failures_above_others) {
    for (int bad = 1; bad <= 3; bad++) { /* bits: which queues fail */
        hcq_device *device = test_open(2, NULL);
        hcq_point low[3], fails = make_gate(T.dev), ends = make_gate(T.dev), failed;
        hcq_queue *slow = make_holder(T.dev), *q[2];
        for (int i = 0; i < 3; i++) {
            low[i] = make_gate(T.dev);
            CHECK_INDEX(hcq_queue_signal(slow, low[i]), i + 1);
        }
        hcq_point done = hold_start(slow, T.dev), last = hcq_at(low[2].signal, 2);
        for (int i = 0; i < 2; i++) {
            int this_one = bad >> i & 1;
            q[i] = make_queue(device, i ? HCQ_COPY : HCQ_COMPUTE);
            CHECK(!this_one || hcq_queue_wait(q[i], fails) == 0);
            CHECK(hcq_queue_signal(q[i], this_one ? hcq_at(low[i].signal, 2) : ends) >= 0);
        }
        hcq_submission sub = {.queues = q, .queue_count = 2, .signals = &last, .signal_count = 1};
        CHECK_OK(hcq_submit(device, &sub, 1, &failed));
        CHECK_OK(hcq_signal_fail(fails.signal, HCQ_ERROR_HOST, NULL));
        if (bad != 3) {
            WAIT_OK(ends);
        }
        for (int closed = 0; closed < 2; closed++) {
            for (int i = 0; i < 3; i++) {
                CHECK_RESULT(test_poll(low[i]), HCQ_TIMEOUT);
                CHECK_RESULT(test_poll(hcq_at(low[i].signal, 2)),
                             i == 2 || (bad >> i & 1) ? HCQ_ERROR_HOST : HCQ_TIMEOUT);
            }
            CHECK(closed || hcq_close(device) == HCQ_OK);
        }
        CHECK_VALUE(low[2].signal, HCQ_ERROR_HOST, 0);
        HOLD_END(done);

        WAIT_OK(low[2]);
        WAIT_RESULT(last, HCQ_ERROR_HOST);
        CHECK_VALUE(low[2].signal, HCQ_ERROR_HOST, 1);
        CHECK_OK(hcq_signal_reset(low[2].signal, 0));
        CHECK_OK(hcq_signal_set(low[2].signal, 7));
        WAIT_OK(last);
    }
}

/* A raise elsewhere that comes too late for its signal tells nobody whose device is closed. */
TEST(a_late_raise_tells_no_closed_device) {
    hcq_device *device = test_open(0, NULL);
    hcq_signal s = make_signal(device, 0);
    hcq_point three = hcq_at(s, 3), done;
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    hcq_point low = hold_device(T.dev, &three);
    uint64_t value;
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 5)), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done)); /* first, where it has its own lane */
    (void)hcq_wait(&done, 1, HCQ_ALL, SECOND / 50);
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_OK(hcq_close(device));
    log_clear();
    HOLD_END(low);
    WAIT_OK(done);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND)); /* now it was seen */
    CHECK(!log_has("a late signal"));
}

/* Who is notified of what a device has, or still would do, is told before hcq_close
   returns, by call and by handle, and only once; what was handed over is finished.
   Another device's work, which would raise its signal, is held or runs, where that does
   not hold up all others. */
TEST(notices_end_with_their_device) {
    enum { POINTS = 7 };
    static notice n[POINTS];
    for (int runs = 0; runs < 2 - (int)T.variant->one_fifo; runs++) {
        hcq_device *device = test_open(0, NULL);
        hcq_signal mine = make_signal(device, 0);
        hcq_point gate = make_gate(T.dev), raise = hcq_at(mine, 1), theirs, held, over;
        hcq_point would = hcq_at(make_signal(T.dev, 0), 1);
        intptr_t handle = -1;
        if (runs) {
            theirs = hold_device(T.dev, &raise);
        } else {
            CHECK_OK(submit_lists(T.dev, &gate, &raise, 0, &theirs));
        }
        CHECK_OK(submit_lists(device, NULL, NULL, HCQ_UNORDERED, &over));
        CHECK_OK(submit_lists(device, &gate, &would, 0, &held));
        const hcq_point points[POINTS] = {raise, hcq_at(mine, 2), held, would,
                                          hcq_at(hcq_device_timeline(device), 1000), over, raise};
        for (int i = 0; i < POINTS; i++) {
            NOTIFY_AT(&n[i], points[i]);
        }
        CHECK_OK(hcq_notify_cancel(n[POINTS - 1].id));
        CHECK_OK(hcq_notify_handle(raise, &handle, NULL));
        CHECK_OK(hcq_close(device));
        for (int i = 0; i < POINTS; i++) {
            CHECK_U64(notice_calls(&n[i]), i < POINTS - 1);
        }
        CHECK(readable(handle, (int)(BOUND / 1000000)));
        CHECK_RESULT(test_poll(theirs), HCQ_TIMEOUT); /* the other one goes on */
        hold_release();
        GATE_END(gate, theirs);
        for (int i = 0; i < POINTS; i++) {
            CHECK_U64(notice_calls(&n[i]), i < POINTS - 1);
            CHECK(notice_is_over(n[i].id));
            CHECK(i > 5 || n[i].result == (i == 5 ? HCQ_OK : HCQ_ERROR_CANCELLED));
        }
        close((int)handle);
    }
}

BLOCKED(blocked_submit, hcq_queue_submit(b->queue, b->device, NULL))

/* A queue of the closed device is just being submitted to another one, whose lane
   is full: the queue stays until the call is over. */
TEST(queue_outlives_its_submit) {
    blocked_call submits = {0}, closes;
    hcq_device *full = OPEN_WITH(0, .inflight = 1);
    hcq_device *device = test_open(0, NULL);
    submits.device = full;
    submits.queue = make_queue(device, HCQ_COMPUTE);
    hcq_point done = hold_device(full, NULL);
    pthread_create(&submits.thread, NULL, blocked_submit, &submits);
    for (int i = 0; i < 4; i++) { /* it may sleep on its way in, for the lock: that is free now */
        blocked_until(&submits);
        (void)test_query(full, HCQ_QUERY_SUBMISSIONS);
    }
    blocked_until(&submits);
    close_begins(&closes, device);
    hold_release();
    hcq_result submitted = call_ends(&submits);
    CHECK_OK(call_ends(&closes));
    CHECK(submitted == HCQ_OK || submitted == HCQ_ERROR_CLOSED ||
          submitted == HCQ_ERROR_CANCELLED);
    WAIT_OK(done);
    CHECK_OK(hcq_close(full));
}

/* ---- memory ---- */

/* A free that waits for a device that goes and for a signal: it goes on waiting
   for the signal, and nobody gets the memory before. */
TEST(free_after_and_a_device_that_goes) {
    for (int lost = 0; lost <= is_mock(); lost++) { /* closed; lost before */
        mock_control control;
        hcq_device *device = lost ? open_to_lose(&control) : test_open(0, NULL);
        hcq_point gate = make_gate(T.dev), freed, done;
        hcq_point waits[2] = {hcq_at(hcq_device_timeline(device), 1000), gate};
        hcq_buffer a = make_buffer(T.dev, 4096, 0);
        CHECK_OK(hcq_free_after(a, waits, 2, &freed));
        if (lost) {
            hcq_queue *q = make_filler(device, make_words(device, 1), 1);
            lose_at_next_submit(&control);
            CHECK_OK(hcq_queue_submit(q, device, &done));
            WAIT_RESULT(done, HCQ_ERROR_LOST);
        }
        hcq_result closed = hcq_close(device);
        CHECK(lost || closed == HCQ_OK);
        CHECK_RESULT(test_poll(freed), HCQ_TIMEOUT);
        hcq_buffer other = make_buffer(T.dev, 4096, 0);
        CHECK(other.address != a.address);
        GATE_END(gate, freed);
        CHECK_OK(hcq_free(other));
    }
}

/* Another device's work names the closed one's memory: what is held is cancelled,
   what runs is waited for. */
TEST(memory_outlives_running_work) {
    SKIP_IF(!devices_share_memory(), "devices do not see each other's memory");
    for (int runs = 0; runs < 2; runs++) {
        static unsigned char bytes[4096];
        blocked_call call;
        hcq_device *device = test_open(0, NULL);
        hcq_point gate = make_gate(T.dev), done;
        memset(bytes, 0x5c, sizeof bytes);
        hcq_buffer x = make_buffer(device, sizeof bytes, 0);
        hcq_buffer y = make_buffer(T.dev, sizeof bytes, 0);
        CHECK_OK(hcq_copyin(x, bytes, sizeof bytes));
        CHECK_OK(hcq_device_synchronize(device, BOUND)); /* T.dev does not wait for it */
        hcq_queue *q = runs ? make_holder(T.dev) : make_queue(T.dev, HCQ_COPY);
        CHECK_INDEX(hcq_queue_copy(q, y, x, sizeof bytes), runs);
        if (runs) {
            done = hold_start(q, T.dev);
        } else {
            CHECK_OK(submit_behind(q, T.dev, &gate, &done));
        }
        close_begins(&call, device);
        int early = runs && is_over(&call);
        hold_release();
        CHECK_OK(call_ends(&call));
        CHECK(!early);
        open_gate(gate);
        WAIT_RESULT(done, runs ? HCQ_OK : HCQ_ERROR_CANCELLED);
        if (runs) {
            CHECK_BYTES(y, bytes, sizeof bytes);
        }
    }
}

/* A queue once named the memory of a device that is closed now, and another one
   has its place: closing that one is nothing to the queue. */
TEST(a_place_is_taken_again) {
    SKIP_IF(!devices_share_memory(), "devices do not see each other's memory");
    hcq_device *device = test_open(0, NULL);
    hcq_buffer x = make_words(device, 16), y = make_words(T.dev, 16), z = make_words(T.dev, 16);
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    hcq_point gate = make_gate(T.dev), done;
    CHECK_INDEX(hcq_queue_copy(q, y, x, 64), 0);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (int i = 0; i < 4; i++) {      /* each version has seen it */
        RUN_OK(q, T.dev);
    }
    CHECK_OK(hcq_queue_update_copy(q, 0, NULL, &z, HCQ_KEEP));
    CHECK_OK(hcq_close(device));
    CHECK_OK(submit_behind(q, T.dev, &gate, &done));
    CHECK_OK(hcq_close(test_open(0, NULL)));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    GATE_END(gate, done);
}

/* A graph names a program whose device closes, and then a second one that ran it, too. */
TEST(a_program_outlives_its_devices) {
    SKIP_IF(!devices_share_memory(), "devices do not see each other's memory");
    hcq_device *closes[2] = {test_open(0, NULL), test_open(0, NULL)};
    hcq_device *device = test_open(0, NULL);
    hcq_buffer x = make_words(closes[0], 16);
    hcq_program *add = make_add(closes[0]);
    hcq_queue *q = make_queue(closes[0], HCQ_COMPUTE), *g;
    CHECK_OK(hcq_graph_create(device, &g));
    CHECK_INDEX(record_add(q, add, x, 0, 1), 0);
    CHECK_INDEX(record_add(g, add, x, 0, 1), 0);
    for (int i = 0; i < 2; i++) {
        RUN_OK(q, closes[1 - i]);
    }
    CHECK_OK(hcq_close(closes[0]));
    CHECK_OK(hcq_close(closes[1]));
    CHECK_OK(hcq_close(device));       /* and with it the graph */
}

/* Closing ends what is held, of this device and of those who wait for it, and
   gives everything back (the teardown counts). */
TEST(close_with_held_memory) {
    hcq_device *device = test_open(0, NULL);
    hcq_point gate = make_gate(T.dev), ready, freed, follower[2];
    hcq_buffer a, b = make_words(device, 64);
    const uint32_t data[4] = {1, 2, 3, 4};
    CHECK_OK(hcq_alloc_after(device, &gate, 1, 640, 0, &a, &ready));
    CHECK_OK(hcq_free_after(a, &ready, 1, NULL));
    CHECK_OK(hcq_free_after(b, &gate, 1, &freed));
    hcq_command command = command_write(a, data, sizeof data);
    CHECK_OK(hcq_transfer_submit(device, &ready, 1, &command, 1, NULL));
    CHECK_OK(submit_lists(T.dev, &ready, NULL, 0, &follower[0]));
    CHECK_OK(submit_lists(dev2(), &freed, NULL, 0, &follower[1]));
    CHECK_OK(hcq_close(device));
    WAIT_RESULT(follower[0], HCQ_ERROR_CANCELLED);
    WAIT_RESULT(follower[1], HCQ_ERROR_CANCELLED);
    CHECK_RESULT(test_poll(ready), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free_after(b, &gate, 1, NULL), HCQ_ERROR_CLOSED);
    open_gate(gate);
}

/* ---- calls that take long ---- */

enum { LONG_ALLOC = 1, LONG_IMPORT, LONG_PROGRAM, LONG_CHECK, LONG_BIND, LONG_SUBMIT, LONG_RELEASE,
       LONG_PROFILE, LONG_DESTROY };

/* A call of the backend's of this kind stops, once, until it is told to go on. */
static uint32_t long_stops, long_inside, long_go, long_late; /* atomic */

static void long_call(uint32_t kind) {
    if (__atomic_compare_exchange_n(&long_stops, &kind, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        __atomic_store_n(&long_inside, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&long_late, !word_until(&long_go, 1), __ATOMIC_SEQ_CST);
    }
}

static hcq_result long_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    long_call(LONG_ALLOC);
    return mock_alloc(self, size, flags, memory);
}

static hcq_result long_import(void *self, void *ptr, uint64_t size, hcq_memory *memory) {
    (void)self;
    long_call(LONG_IMPORT);
    memory->address = (uint64_t)(uintptr_t)ptr;
    memory->host = ptr;
    memory->size = size;
    return HCQ_OK;
}

static void long_dealloc(void *self, hcq_memory *memory) {
    if (memory->native) {
        mock_dealloc(self, memory);
    }
}

static hcq_result long_program(void *self, const hcq_program_desc *desc,
                               const hcq_program_info *info, void **code) {
    long_call(LONG_PROGRAM);
    return mock_program_create(self, desc, info, code);
}

static hcq_result long_check(void *self, void *code, const uint32_t block[3]) {
    (void)self;
    (void)code;
    long_call(LONG_CHECK);
    return block[0] == 3 ? HCQ_ERROR_INVALID : HCQ_OK;
}

static hcq_result long_encode(void *self, hcq_recording *recording) {
    long_call(LONG_BIND);
    return mock_encode(self, recording);
}

static void long_encode_free(void *self, hcq_recording *recording) {
    long_call(LONG_DESTROY);
    mock_encode_free(self, recording);
}

typedef struct long_caller {
    pthread_t thread;
    uint32_t kind;
    hcq_device *device;
    hcq_queue *queue;
    hcq_program *program;
    hcq_point gate, done;
    hcq_buffer buffer;
    uint32_t words[16];
    hcq_result result;
} long_caller;

static void *long_caller_run(void *user) {
    long_caller *c = (long_caller *)user;
    hcq_program_desc desc = HCQ_CPU_PROGRAM("nothing", k_nothing);
    switch (c->kind) {
    case LONG_ALLOC: c->result = hcq_alloc(c->device, 4096, HCQ_NO_CACHE, &c->buffer); break;
    case LONG_IMPORT: c->result = hcq_import(c->device, c->words, 64, 0, &c->buffer); break;
    case LONG_PROGRAM: c->result = hcq_program_create(c->device, &desc, &c->program); break;
    case LONG_CHECK:
        c->result = record_result(hcq_queue_exec(c->queue, c->program, NULL, 0, dims_one,
                                                 hcq_dim(2, 1, 1)));
        break;
    case LONG_BIND: c->result = hcq_queue_bind(c->queue, c->device); break;
    case LONG_SUBMIT: c->result = hcq_queue_submit(c->queue, c->device, &c->done); break;
    case LONG_PROFILE: c->result = hcq_profile_start(c->device, NULL); break;
    case LONG_DESTROY: hcq_queue_destroy(c->queue); break;
    default: c->result = hcq_signal_set(c->gate.signal, c->gate.value);
    }
    return NULL;
}

/* Another device's calls, and what this one answers at once, are not behind a call of the
   backend that takes long; closing is. */
static void long_call_meanwhile(long_caller *c, int closes) {
    blocked_call close;
    hcq_signal other = make_signal(T.dev, 0);
    CHECK(word_until(&long_inside, 1));
    CHECK_OK(hcq_signal_set(other, 1));
    CHECK_U64(READ32(make_words(T.dev, 4), 0), 0);
    (void)test_info(c->device);
    if (c->kind == LONG_BIND) {        /* the commands may have been about it */
        CHECK_OK(hcq_alloc(c->device, 4096, HCQ_NO_CACHE, &c->buffer));
        CHECK_OK(hcq_free(c->buffer));
        CHECK_U64(test_query(c->device, HCQ_QUERY_CACHED_BYTES), 4096);
    }
    if (c->kind == LONG_RELEASE) {     /* makes versions, but not of this one */
        CHECK_OK(hcq_queue_bind(c->queue, c->device));
    } else if (c->kind == LONG_PROFILE) {
        hcq_queue_destroy(c->queue);
    }
    if (closes) {
        close_begins(&close, c->device);
        CHECK(!is_over(&close));
    }
    __atomic_store_n(&long_go, 1, __ATOMIC_SEQ_CST);
    pthread_join(c->thread, NULL);
    CHECK(!long_late);
    CHECK_OK(closes ? call_ends(&close) : HCQ_OK);
}

/* Allocating, importing, compiling, checking and encoding, by bind, by submit, for a
   profile of a queue that is destroyed, destroying one, or by the set that releases two
   submissions of which the second needs a version of its own. */
TEST(long_calls_concern_one_device) {
    T.races_meant = 1;
    hcq_backend backend = mock_named("LONG", "takes long");
    backend.alloc = long_alloc;
    backend.dealloc = long_dealloc;
    backend.import = long_import;
    backend.program_create = long_program;
    backend.exec_check = long_check;
    backend.encode = long_encode;
    backend.encode_free = long_encode_free;
    hcq_registry *registry = make_registry(&backend);
    hcq_device_desc desc = mock_only_desc(registry);
    for (uint32_t k = 2 * LONG_ALLOC; k <= 2 * LONG_DESTROY + 1; k++) {
        int closes = k % 2;
        static notice n;
        long_caller c = {.kind = k / 2};
        CHECK_OK(hcq_open("LONG", &desc, &c.device));
        c.program = make_nothing(c.device);
        c.queue = make_filler(c.device, make_words(c.device, 1), 7);
        c.gate = make_gate(c.device);
        for (uint64_t i = 0; c.kind == LONG_RELEASE && i < 2; i++) {
            CHECK_OK(i == 0 ? hcq_queue_variable(c.queue, 0, HCQ_PART_VALUE, 0, 0) : HCQ_OK);
            const hcq_value value = hcq_value_number(i);
            CHECK_OK(SUBMIT(c.device, c.queue, &c.done, .values = &value, .value_count = 1,
                            .waits = &c.gate, .wait_count = 1, .flags = HCQ_UNORDERED));
        }
        CHECK_OK(c.kind >= LONG_PROFILE ? hcq_queue_bind(c.queue, c.device) : HCQ_OK);
        if (c.kind == LONG_RELEASE) {
            NOTIFY_AT(&n, c.done);
        }
        long_inside = long_go = 0;
        int encodes = c.kind >= LONG_BIND && c.kind <= LONG_PROFILE;
        __atomic_store_n(&long_stops, encodes ? LONG_BIND : c.kind, __ATOMIC_SEQ_CST);
        CHECK(pthread_create(&c.thread, NULL, long_caller_run, &c) == 0);
        long_call_meanwhile(&c, closes);
        CHECK(c.result == HCQ_OK || (closes && c.result < 0));
        if (c.kind == LONG_RELEASE) {  /* closing let it be built and run */
            NOTIFIED(&n, HCQ_OK);
        }
        if (!closes) {
            hcq_queue *q = make_queue(c.device, HCQ_COMPUTE);
            CHECK_RESULT(hcq_queue_exec(q, c.program, NULL, 0, dims_one, hcq_dim(3, 1, 1)),
                         HCQ_ERROR_INVALID);
            CHECK_OK(c.done.value != 0 ? hcq_wait(&c.done, 1, HCQ_ALL, BOUND) : HCQ_OK);
            CHECK_U64(test_query(c.device, HCQ_QUERY_CACHED_BYTES), 0);
            CHECK_OK(hcq_close(c.device));
        }
    }
    hcq_registry_destroy(registry);
}
