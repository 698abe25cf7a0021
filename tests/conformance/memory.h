/* Buffers, the cache, copies, eager order. Part of conformance.c. */

/* Blocks of every kind, zeroed if asked for, also where others have used them. */
TEST(zeros_around_every_size) {
    static const uint32_t sizes[] = {2, 64, 512, 4096, 16384, 65536, 100000};
    static unsigned char zeros[100001], dirty[100001];
    memset(dirty, 0xff, sizeof dirty);
    for (uint32_t k = 0; k < 3 * 32 * sizeof sizes / sizeof sizes[0]; k++) {
        if (TEST_SANITIZED && k % 32 > 15) { continue; } /* once is enough */
        const uint32_t size = sizes[k / 96] - 1 + k / 32 % 3, flags = k % 16; /* each twice */
        hcq_buffer buffer = make_buffer(T.dev, size, flags);
        CHECK_U64(buffer.size, size);
        CHECK_U64(buffer.address % 64, 0);
        CHECK(buffer.device == T.dev && buffer.address != 0);
        const int visible = (flags & (HCQ_HOST_VISIBLE | HCQ_HOST_WRITES)) != 0;
        CHECK(visible ? buffer.host != NULL
                      : has_feature(HCQ_FEATURE_HOST_MEMORY) || buffer.host == NULL);
        if (flags & HCQ_ZEROED) {
            CHECK_BYTES(buffer, zeros, size);
        }
        CHECK_OK(hcq_copyin(buffer, dirty, size));
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_free(buffer));
    }
}

/* What the host only writes is a kind of its own in the cache. The device sees what is
   written; whoever reads it on the host gets it through the device where that has
   memory of its own. */
TEST(memory_for_writing) {
    enum { BYTES = 100000 };
    static unsigned char want[BYTES], got[BYTES];
    const int apart = !has_feature(HCQ_FEATURE_HOST_MEMORY);
    hcq_buffer b = make_buffer(T.dev, BYTES, HCQ_HOST_WRITES), other = make_buffer(T.dev, BYTES, 0);
    fill_pattern(want, BYTES, 1);
    memcpy(b.host, want, BYTES);
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(q, other, b, BYTES), 0);
    RUN_OK(q, T.dev);
    CHECK_BYTES(other, want, BYTES);
    for (uint32_t i = 0; i < 2; i++) { /* copyout, transfer */
        uint64_t before = test_query(T.dev, HCQ_QUERY_SUBMISSIONS);
        CHECK_OK(i == 0 ? hcq_copyout(got, hcq_view(b, 1, 0), BYTES - 1)
                        : hcq_transfer(hcq_transfer_host(got, BYTES),
                                       hcq_transfer_device(hcq_view(b, 1, 0)), BYTES - 1, 0,
                                       BOUND));
        CHECK(memcmp(got, want + 1, BYTES - 1) == 0);
        CHECK_U64(test_query(T.dev, HCQ_QUERY_SUBMISSIONS) > before, apart);
        before = test_query(T.dev, HCQ_QUERY_SUBMISSIONS);
        CHECK_OK(hcq_copyin(b, want, BYTES));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_SUBMISSIONS), before); /* is written in place */
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_free(b));
    other = make_buffer(T.dev, BYTES, HCQ_HOST_VISIBLE);
    CHECK_U64(other.address == b.address, !apart);
    hcq_buffer again = make_buffer(T.dev, BYTES, HCQ_HOST_WRITES | HCQ_HOST_VISIBLE);
    CHECK(again.host != NULL && (again.address == b.address) == apart);
}

/* From any address in a living buffer of the device to its end, and nowhere else. */
TEST(buffers_by_address) {
    static char text[64];
    hcq_buffer a = make_words(T.dev, 64), visible = make_buffer(T.dev, 1000, HCQ_HOST_VISIBLE);
    hcq_buffer got, imported;
    hcq_buffer list[] = {a, visible, {0, 0, NULL, NULL, 0}};
    if (has_feature(HCQ_FEATURE_IMPORT)) {
        CHECK_OK(hcq_import(T.dev, text, sizeof text, 0, &imported));
        list[2] = imported;
    }
    for (uint32_t i = 0; i < 3 && list[i].size != 0; i++) {
        const uint64_t offsets[] = {0, 1, list[i].size - 1};
        for (uint32_t k = 0; k < 3; k++) {
            const hcq_buffer want = hcq_view(list[i], offsets[k], 0);
            CHECK_OK(hcq_buffer_at(T.dev, want.address, &got));
            CHECK(got.address == want.address && got.size == want.size && got.host == want.host);
            CHECK(got.device == want.device && got.id == want.id);
        }
    }
    CHECK_OK(hcq_buffer_at(T.dev, a.address, &got));
    CHECK_OK(hcq_free(got));           /* the whole is as good as what hcq_alloc gave */
    if (is_cpu()) { /* elsewhere they have addresses of their own */
        CHECK_SAYS(hcq_buffer_at(dev2(), visible.address, &got), HCQ_ERROR_INVALID, "which");
    }
}

TEST(views_are_values) {
    hcq_buffer buffer = make_words(T.dev, 256);
    hcq_buffer view = hcq_view(buffer, 100, 24);
    CHECK_U64(view.address, buffer.address + 100);
    CHECK_U64(view.size, 24);
    CHECK_U64(hcq_view(buffer, 100, 0).size, 924);
    CHECK_U64(hcq_view(view, 4, 4).address, buffer.address + 104);
    CHECK(!buffer.host || (char *)view.host == (char *)buffer.host + 100);
    hcq_buffer bad = hcq_view(buffer, 1000, 25);
    CHECK(bad.address == 0 && bad.size == 0 && bad.device == NULL && bad.host == NULL);
    CHECK(hcq_view(buffer, 1024, 0).device == NULL);
    CHECK(hcq_view(buffer, 1025, 0).device == NULL);
    CHECK(hcq_view(view, 20, 8).device == NULL);
    CHECK(hcq_view(buffer, UINT64_MAX, 2).device == NULL);
    CHECK(hcq_view(buffer, 8, UINT64_MAX).device == NULL);
    CHECK_U64(hcq_view(buffer, 1023, 1).address, buffer.address + 1023);
}

/* Eager calls and transfers with the host follow all lanes, also those that are still
   busy, and are seen by what comes after them. */
TEST(eager_calls_follow_all_lanes) {
    enum { ROUNDS = 12, BYTES = 200000 };
    hcq_buffer a = make_buffer(T.dev, BYTES, HCQ_ZEROED), b = make_buffer(T.dev, BYTES, HCQ_ZEROED);
    hcq_buffer c = make_buffer(T.dev, BYTES, HCQ_ZEROED);
    static unsigned char bytes[BYTES], want[BYTES], got[BYTES];
    const hcq_transfer_end host = hcq_transfer_host(bytes, BYTES), end = hcq_transfer_device(a);
    hcq_queue *left = make_queue(T.dev, HCQ_COMPUTE), *right = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(left, b, a, BYTES), 0);
    CHECK_INDEX(hcq_queue_copy(right, c, a, BYTES), 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        fill_pattern(bytes, BYTES, i);
        memcpy(want, bytes, BYTES);
        CHECK_OK(i % 2 ? hcq_copyin(a, bytes, BYTES)
                       : hcq_transfer(end, host, BYTES, 0, HCQ_FOREVER));
        CHECK_OK(hcq_queue_submit(left, T.dev, NULL));
        CHECK_OK(hcq_queue_submit(right, T.dev, NULL));
        memset(bytes, 0, BYTES);
        CHECK_OK(i % 2 ? hcq_copyin(a, bytes, BYTES) /* must not overtake the readers */
                       : hcq_transfer(end, host, BYTES, 0, HCQ_DEADLINE(hcq_now_ns() + BOUND)));
        CHECK_OK(hcq_transfer(hcq_transfer_host(got, BYTES), hcq_transfer_device(c), BYTES, 0,
                              BOUND));
        CHECK(memcmp(got, want, BYTES) == 0);
        CHECK_BYTES(b, want, BYTES);
    }
}

static uint64_t cached(hcq_device *device) {
    return test_query(device, HCQ_QUERY_CACHED_BYTES);
}

static void come_and_go_once(hcq_device *device, uint64_t size, uint32_t flags) {
    hcq_buffer a = make_buffer(device, size, flags);
    CHECK_OK(hcq_free(a));
}

/* Who wants none gets no block from it and leaves none there. Which one is found there, and
   what a trim leaves: core/unit.c; blocks that work still uses: after.h. */
TEST(no_cache) {
    come_and_go_once(T.dev, 3000, HCQ_NO_CACHE);
    CHECK_U64(cached(T.dev), 0);
    come_and_go_once(T.dev, 3000, 0);
    (void)make_buffer(T.dev, 3000, HCQ_NO_CACHE);
    (void)make_buffer(T.dev, 2999, 0); /* nor does another size */
    CHECK_U64(cached(T.dev), 3000);
    for (uint32_t none = 0; none < 2; none++) {
        hcq_device *device = OPEN_WITH(0, .cache_bytes = none ? HCQ_NEVER : 8192);
        for (uint32_t i = 0; i < 20; i++) {
            come_and_go_once(device, 1000 + 128 * i, 0);
            CHECK(cached(device) <= (none ? 0 : 8192));
        }
        CHECK_OK(hcq_close(device));
    }
}

/* Freed at once, or behind a point while work that names it is still submitted. */
TEST(import_host_memory) {
    static uint32_t mine[64], want[64];
    hcq_buffer buffer;
    if (!has_feature(HCQ_FEATURE_IMPORT)) {
        CHECK_RESULT(hcq_import(T.dev, mine, sizeof mine, 0, &buffer), HCQ_ERROR_UNSUPPORTED);
        return;
    }
    for (uint32_t i = 0; i < 64; i++) {
        mine[i] = want[i] = i;
    }
    for (int after = 0; after < 2; after++) {
        hcq_point gate = make_gate(T.dev), freed = gate;
        want[63] += 5;
        CHECK_OK(hcq_import(T.dev, mine, sizeof mine, 0, &buffer));
        CHECK(buffer.host == mine);
        CHECK_OK(after ? hcq_free_after(buffer, &gate, 1, &freed) : HCQ_OK);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(record_add(q, make_add(T.dev), buffer, 63, 5), 0);
        RUN_OK(q, T.dev);
        CHECK(memcmp(mine, want, sizeof mine) == 0);
        GATE_END(gate, freed);
        CHECK_RESULT(hcq_free(buffer), after ? HCQ_ERROR_CLOSED : HCQ_OK);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_U64(cached(T.dev), 0);   /* never kept */
        CHECK_RESULT(hcq_free(buffer), HCQ_ERROR_CLOSED);
    }
}

/* Memory that is partly a buffer's is refused, on whichever side that lies. */
TEST(imports_side_by_side) {
    enum { PAGE = 65536 };
    static unsigned char room[7 * PAGE];
    unsigned char *mine = room + (PAGE - (uintptr_t)room % PAGE) % PAGE;
    hcq_buffer a, b, c;
    SKIP_IF(!has_feature(HCQ_FEATURE_IMPORT), "no imports");
    CHECK_OK(hcq_import(T.dev, mine, 2 * PAGE, 0, &a));
    CHECK_OK(hcq_import(T.dev, mine + 4 * PAGE, PAGE, 0, &b));
    SKIP_IF(a.address != (uintptr_t)mine, "the device has addresses of its own");
    for (int first = 0; first < 6; first++) {
        for (int end = first + 1; end <= 6; end++) {
            int meets = first < 2 || (first < 5 && end > 4);
            const uint64_t size = (uint64_t)(end - first) * PAGE;
            CHECK_RESULT(hcq_import(T.dev, mine + first * PAGE, size, 0, &c),
                         meets ? HCQ_ERROR_INVALID : HCQ_OK);
            if (!meets) { CHECK_OK(hcq_free(c)); }
        }
    }
}

/* The one that another device still uses is not in the way of one that nobody does. */
TEST(freed_blocks_wait_for_their_devices) {
    hcq_queue *q = make_queue(dev2(), HCQ_COMPUTE);
    hcq_point gate = make_gate(dev2()), done;
    hcq_buffer a = make_buffer(T.dev, 12345, 0), b = make_buffer(T.dev, 12345, 0);
    CHECK_INDEX(hcq_queue_wait(q, gate), 0);
    SKIP_IF(hcq_queue_fill(q, a, 4, 1, 4) < 0, "devices do not see each other's memory");
    CHECK_OK(hcq_queue_submit(q, dev2(), &done));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_free(a));
    CHECK_OK(hcq_free(b));
    hcq_buffer c = make_buffer(T.dev, 12345, 0), d = make_buffer(T.dev, 12345, 0);
    CHECK_U64(c.address, b.address);
    CHECK(d.address != a.address);
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 12345);
    GATE_END(gate, done);
    CHECK_OK(hcq_device_synchronize(dev2(), BOUND));
    hcq_buffer e = make_buffer(T.dev, 12345, 0);
    CHECK_U64(e.address, a.address);
}

/* The system takes its time over large blocks; meanwhile calls on other devices
   get through. The hooks wait for one that does. */
typedef struct slow_hooks {
    pthread_t thread;
    hcq_device *device;                /* of the thread that allocates */
    uint32_t asked, answered, over;    /* atomic */
    int late;
    hcq_result result;
} slow_hooks;

static void slow_hook_wait(slow_hooks *h, size_t size) {
    if (size >= 1u << 20) {
        uint32_t mine = __atomic_add_fetch(&h->asked, 1, __ATOMIC_SEQ_CST);
        h->late |= !word_until(&h->answered, mine);
    }
}

static void *slow_hook_alloc(void *user, size_t size, size_t align) {
    slow_hook_wait((slow_hooks *)user, size);
    return test_hook_alloc(&T.memory, size, align);
}

static void slow_hook_free(void *user, void *ptr, size_t size) {
    slow_hook_wait((slow_hooks *)user, size);
    test_hook_free(&T.memory, ptr, size);
}

static hcq_result slow_hooks_use(hcq_device *device) {
    hcq_buffer a, b;
    TRY(hcq_alloc(device, 1u << 20, HCQ_ZEROED | HCQ_NO_CACHE, &a));
    TRY(hcq_alloc(device, 2u << 20, 0, &b));
    TRY(hcq_free(a));
    return hcq_close(device);          /* with a block that lives */
}

static void *slow_hooks_run(void *user) {
    slow_hooks *h = (slow_hooks *)user;
    h->result = slow_hooks_use(h->device);
    __atomic_store_n(&h->over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

TEST(large_blocks_hold_nobody_up) {
    static slow_hooks h;
    hcq_signal s = make_signal(T.dev, 0);
    SKIP_IF(is_vulkan() || is_cuda(), "large blocks are not from the hooks");
    memset(&h, 0, sizeof h);
    h.device = OPEN_WITH(1, .memory = {slow_hook_alloc, slow_hook_free, &h});
    pthread_create(&h.thread, NULL, slow_hooks_run, &h);
    for (uint64_t value = 1; !__atomic_load_n(&h.over, __ATOMIC_SEQ_CST); value++) {
        uint32_t asked = __atomic_load_n(&h.asked, __ATOMIC_SEQ_CST);
        CHECK_OK(hcq_signal_set(s, value));
        __atomic_store_n(&h.answered, asked, __ATOMIC_SEQ_CST);
        mock_sleep(100000);
    }
    pthread_join(h.thread, NULL);
    CHECK_OK(h.result);
    CHECK(!h.late);
    CHECK_U64(h.asked, 4);
}

typedef struct eager_worker {
    hcq_device *from, *to;
    uint64_t seed;
    int right;
} eager_worker;

/* Copies all of a buffer to a new one, step by step. */
static int eager_step(hcq_queue *g, hcq_device *device, uint32_t size, const unsigned char *want) {
    unsigned char out[3000];
    hcq_buffer fresh = {0, 0, NULL, NULL, 0};
    int made = hcq_alloc(device, sizeof out, 0, &fresh) == HCQ_OK;
    const hcq_value value = hcq_value_buffer(fresh);
    return made &&
           SUBMIT(device, g, NULL, .flags = HCQ_STEP, .values = &value, .value_count = 1) == HCQ_OK &&
           hcq_copyout(out, fresh, size) == HCQ_OK && memcmp(out, want, size) == 0 &&
           hcq_free(fresh) == HCQ_OK;
}

static void *eager_worker_run(void *user) {
    eager_worker *w = (eager_worker *)user;
    unsigned char in[3000], out[3000];
    hcq_buffer src, dst;
    hcq_queue *g = NULL;
    int right = hcq_alloc(w->from, 3000, 0, &src) == HCQ_OK &&
                hcq_alloc(w->to, 3000, 0, &dst) == HCQ_OK &&
                hcq_graph_create(w->from, &g) == HCQ_OK &&
                hcq_queue_copy(g, hcq_graph_input(g, 0, NULL, 3000), src, 3000) == 0;
    for (uint32_t i = 0; i < 30 && right; i++) {
        const uint32_t size = 1 + i * 331 % 3000;
        fill_pattern(in, size, test_random(&w->seed));
        right = hcq_copyin(src, in, size) == HCQ_OK &&
                hcq_transfer(hcq_transfer_device(dst), hcq_transfer_device(src), size, 0,
                             BOUND) == HCQ_OK &&
                hcq_copyout(out, dst, size) == HCQ_OK && memcmp(in, out, size) == 0 &&
                eager_step(g, w->from, size, in);
    }
    w->right = right;
    return NULL;
}

/* Both ways between two devices at once, and within one; steps of a launch name what
   they need while others come and go. */
TEST(eager_calls_from_threads) {
    enum { THREADS = 5 };
    eager_worker w[THREADS] = {0};
    for (uint32_t i = 0; i < THREADS; i++) {
        w[i].from = i % 2 ? T.dev : dev2();
        w[i].to = i % 2 || i == 4 ? dev2() : T.dev;
        w[i].seed = T.seed + i;
    }
    run_threads(eager_worker_run, w, sizeof w[0], THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(w[i].right);
    }
}
