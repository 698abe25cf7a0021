/* Buffers, the cache, copies, eager order. Part of conformance.c. */
#include "shared.h"

static void alloc_flags(TEST_ARGS) {
    hcq_buffer buffer;
    static const uint32_t sizes[] = {1, 3, 64, 4095, 4096, 4097, 100000};
    for (uint32_t flags = 0; flags < 8; flags++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            CHECK_OK(hcq_alloc(T.dev, sizes[i], flags, &buffer));
            CHECK_U64(buffer.size, sizes[i]);
            CHECK_U64(buffer.address % 64, 0);
            CHECK(buffer.device == T.dev && buffer.address != 0);
            CHECK(!(flags & HCQ_HOST_VISIBLE) || buffer.host != NULL);
            CHECK(has_feature(HCQ_FEATURE_HOST_MEMORY) || (flags & HCQ_HOST_VISIBLE) ||
                  buffer.host == NULL);
            if (flags & HCQ_ZEROED) {
                void *zeros = calloc(1, sizes[i]);
                CHECK_BYTES(buffer, zeros, sizes[i]);
                free(zeros);
            }
            CHECK_OK(hcq_free(buffer));
        }
    }
}

static void views_are_values(TEST_ARGS) {
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
    CHECK_OK(hcq_free(buffer));
}

/* Eager calls and transfers with the host follow all lanes, also those that are still
   busy, and are seen by what comes after them. */
static void eager_calls_follow_all_lanes(TEST_ARGS) {
    enum { ROUNDS = 12, BYTES = 200000 };
    hcq_buffer a, b, c;
    CHECK_OK(hcq_alloc(T.dev, BYTES, HCQ_ZEROED, &a));
    CHECK_OK(hcq_alloc(T.dev, BYTES, HCQ_ZEROED, &b));
    CHECK_OK(hcq_alloc(T.dev, BYTES, HCQ_ZEROED, &c));
    unsigned char *bytes = (unsigned char *)malloc(BYTES), *want = (unsigned char *)malloc(BYTES);
    unsigned char *got = (unsigned char *)malloc(BYTES);
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
                       : hcq_transfer(end, host, BYTES, 0, HCQ_DEADLINE(hcq_sys_now_ns() + BOUND)));
        CHECK_OK(hcq_transfer(hcq_transfer_host(got, BYTES), hcq_transfer_device(c), BYTES, 0,
                              BOUND));
        CHECK(memcmp(got, want, BYTES) == 0);
        CHECK_BYTES(b, want, BYTES);
    }
    free(bytes);
    free(want);
    free(got);
}

/* From buffer to buffer, in order. */
static hcq_result transfer_all(hcq_buffer dst, hcq_buffer src, uint64_t size) {
    return hcq_transfer(hcq_transfer_device(dst), hcq_transfer_device(src), size, 0, BOUND);
}

static void cache_reuses_after_done(TEST_ARGS) {
    hcq_buffer a, b, c, d;
    CHECK_OK(hcq_alloc(T.dev, 10000, 0, &a));
    CHECK_OK(hcq_free(a));
    CHECK(test_query(T.dev, HCQ_QUERY_CACHED_BYTES) >= 10000);
    CHECK_OK(hcq_alloc(T.dev, 10000, 0, &b));
    CHECK_U64(b.address, a.address);   /* idle: handed out again */
    CHECK(b.id != a.id);
    CHECK_OK(hcq_free(b));
    CHECK_OK(hcq_alloc(T.dev, 9999, 0, &c)); /* another size, other flags: another block */
    CHECK_OK(hcq_alloc(T.dev, 10000, HCQ_NO_CACHE, &d));
    CHECK(test_query(T.dev, HCQ_QUERY_CACHED_BYTES) >= 10000);
    CHECK(c.address != a.address && d.address != a.address);
    CHECK_OK(hcq_alloc(T.dev, 10000, 0, &b));
    CHECK_U64(b.address, a.address);
    unsigned char byte = 0;
    CHECK_RESULT(hcq_copyin(a, &byte, 1), HCQ_ERROR_CLOSED); /* the old value is stale */

    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point done;
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_fill(q, b, 10000, 0x55, 1), 1);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_OK(hcq_free(b));             /* legal while it is pending */
    CHECK_OK(hcq_alloc(T.dev, 10000, 0, &c));
    CHECK(c.address != b.address);     /* not before that work is done */
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_OK(hcq_signal_set(s, 1));
    WAIT_OK(done);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_alloc(T.dev, 10000, 0, &d));
    CHECK_U64(d.address, b.address);
}

static void trim_and_no_cache(TEST_ARGS) {
    hcq_buffer a;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(hcq_alloc(T.dev, 1000u + 64u * (uint32_t)i, 0, &a));
        CHECK_OK(hcq_free(a));
    }
    CHECK(test_query(T.dev, HCQ_QUERY_CACHED_BYTES) >= 5000);
    CHECK_OK(hcq_trim(T.dev, 2000));
    CHECK(test_query(T.dev, HCQ_QUERY_CACHED_BYTES) <= 2000);
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 0);
    CHECK_OK(hcq_alloc(T.dev, 3000, HCQ_NO_CACHE, &a));
    CHECK_OK(hcq_free(a));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 0);
    hcq_device_desc desc = test_desc();
    desc.cache_bytes = 8192;
    hcq_device *device = test_open(0, &desc);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(hcq_alloc(device, 1000u + 128u * (uint32_t)i, 0, &a));
        CHECK_OK(hcq_free(a));
        CHECK(test_query(device, HCQ_QUERY_CACHED_BYTES) <= 8192);
    }
    CHECK_OK(hcq_close(device));
    desc.cache_bytes = HCQ_KEEP;       /* none */
    device = test_open(0, &desc);
    CHECK_OK(hcq_alloc(device, 1000, 0, &a));
    CHECK_OK(hcq_free(a));
    CHECK_U64(test_query(device, HCQ_QUERY_CACHED_BYTES), 0);
    CHECK_OK(hcq_close(device));
}

static void import_host_memory(TEST_ARGS) {
    static uint32_t mine[64];
    hcq_buffer buffer;
    if (!has_feature(HCQ_FEATURE_IMPORT)) {
        CHECK_RESULT(hcq_import(T.dev, mine, sizeof mine, &buffer), HCQ_ERROR_UNSUPPORTED);
        return;
    }
    for (uint32_t i = 0; i < 64; i++) {
        mine[i] = i;
    }
    CHECK_OK(hcq_import(T.dev, mine, sizeof mine, &buffer));
    CHECK(buffer.host == mine);
    hcq_program *add = make_add(T.dev);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    add_args args = {buffer.address, 5, 64};
    CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(64, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    for (uint32_t i = 0; i < 64; i++) {
        CHECK_U64(mine[i], i + 5);
    }
    CHECK_OK(hcq_free(buffer));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 0); /* never kept */
    CHECK_RESULT(hcq_free(buffer), HCQ_ERROR_CLOSED);
}

/* Memory that is partly a buffer's is refused, on whichever side that lies. */
static void imports_side_by_side(TEST_ARGS) {
    enum { PAGE = 65536 };
    static unsigned char room[7 * PAGE];
    unsigned char *mine = room + (PAGE - (uintptr_t)room % PAGE) % PAGE;
    hcq_buffer a, b, c;
    SKIP_IF(!has_feature(HCQ_FEATURE_IMPORT), "no imports");
    CHECK_OK(hcq_import(T.dev, mine, 2 * PAGE, &a));
    CHECK_OK(hcq_import(T.dev, mine + 4 * PAGE, PAGE, &b));
    SKIP_IF(a.address != (uintptr_t)mine, "the device has addresses of its own");
    for (int first = 0; first < 6; first++) {
        for (int end = first + 1; end <= 6; end++) {
            int meets = first < 2 || (first < 5 && end > 4);
            CHECK_RESULT(hcq_import(T.dev, mine + first * PAGE, (uint64_t)(end - first) * PAGE, &c),
                         meets ? HCQ_ERROR_INVALID : HCQ_OK);
            if (!meets) { CHECK_OK(hcq_free(c)); }
        }
    }
    CHECK_OK(hcq_free(a));
    CHECK_OK(hcq_free(b));
}

/* The one that another device still uses is not in the way of one that nobody does. */
static void freed_blocks_wait_for_their_devices(TEST_ARGS) {
    hcq_buffer a, b, c, d, e;
    hcq_signal gate = make_signal(T.dev2, 0);
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE);
    hcq_point done;
    CHECK_OK(hcq_alloc(T.dev, 12345, 0, &a));
    CHECK_OK(hcq_alloc(T.dev, 12345, 0, &b));
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    SKIP_IF(hcq_queue_fill(q, a, 4, 1, 4) < 0, "devices do not see each other's memory");
    CHECK_OK(hcq_queue_submit(q, T.dev2, &done));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_free(a));
    CHECK_OK(hcq_free(b));
    CHECK_OK(hcq_alloc(T.dev, 12345, 0, &c));
    CHECK_OK(hcq_alloc(T.dev, 12345, 0, &d));
    CHECK_U64(c.address, b.address);
    CHECK(d.address != a.address);
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 12345);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(done);
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    CHECK_OK(hcq_alloc(T.dev, 12345, 0, &e));
    CHECK_U64(e.address, a.address);
}

/* The system takes its time over large blocks; meanwhile calls on other devices
   get through. The hooks wait for one that does. */
typedef struct slow_hooks {
    hcq_device *device;                /* of the thread that allocates */
    hcq_memory_hooks inner;
    uint32_t asked, answered;          /* atomic */
    int late;
    int closes;
    hcq_result result;
} slow_hooks;

static void slow_hook_wait(slow_hooks *h, size_t size) {
    if (size < 1u << 20) {
        return;
    }
    uint32_t mine = __atomic_add_fetch(&h->asked, 1, __ATOMIC_SEQ_CST);
    for (uint32_t ms = 0; __atomic_load_n(&h->answered, __ATOMIC_SEQ_CST) < mine; ms++) {
        if (ms == 3000) {
            h->late = 1;
            return;
        }
        test_sleep_ms(1);
    }
}

static void *slow_hook_alloc(void *user, size_t size, size_t align) {
    slow_hooks *h = (slow_hooks *)user;
    slow_hook_wait(h, size);
    return h->inner.alloc_fn(h->inner.user, size, align);
}

static void slow_hook_free(void *user, void *ptr, size_t size) {
    slow_hooks *h = (slow_hooks *)user;
    slow_hook_wait(h, size);
    h->inner.free_fn(h->inner.user, ptr, size);
}

static void *slow_hooks_run(void *user) {
    slow_hooks *h = (slow_hooks *)user;
    hcq_buffer a, b;
    h->result = hcq_alloc(h->device, 1u << 20, HCQ_ZEROED | HCQ_NO_CACHE, &a);
    if (h->result == HCQ_OK) {
        h->result = hcq_alloc(h->device, 2u << 20, 0, &b);
    }
    if (h->result == HCQ_OK) {
        h->result = hcq_free(a);
    }
    hcq_result closed = hcq_close(h->device); /* with a block that lives */
    h->result = h->result == HCQ_OK ? closed : h->result;
    __atomic_store_n(&h->closes, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void large_blocks_hold_nobody_up(TEST_ARGS) {
    slow_hooks h;
    pthread_t thread;
    hcq_device_desc desc = test_desc();
    hcq_signal s = make_signal(T.dev, 0);
    memset(&h, 0, sizeof h);
    h.inner = desc.memory;
    desc.memory.alloc_fn = slow_hook_alloc;
    desc.memory.free_fn = slow_hook_free;
    desc.memory.user = &h;
    SKIP_IF(is_vulkan() || is_cuda(), "large blocks are not from the hooks");
    h.device = test_open(1, &desc);
    pthread_create(&thread, NULL, slow_hooks_run, &h);
    for (uint64_t value = 1; !__atomic_load_n(&h.closes, __ATOMIC_SEQ_CST); value++) {
        uint32_t asked = __atomic_load_n(&h.asked, __ATOMIC_SEQ_CST);
        CHECK_OK(hcq_signal_set(s, value));
        __atomic_store_n(&h.answered, asked, __ATOMIC_SEQ_CST);
        test_sleep_ms(1);
    }
    pthread_join(thread, NULL);
    CHECK_OK(h.result);
    CHECK(!h.late);
    CHECK_U64(h.asked, 4);
}

typedef struct eager_worker {
    pthread_t thread;
    hcq_device *from, *to;
    uint64_t seed;
    hcq_result result;
    int wrong;
} eager_worker;

static hcq_result eager_round(eager_worker *w, hcq_buffer src, hcq_buffer dst, uint32_t size) {
    unsigned char in[3000], out[3000];
    fill_pattern(in, size, test_random(&w->seed));
    hcq_result result = hcq_copyin(src, in, size);
    if (result == HCQ_OK) {
        result = transfer_all(dst, src, size);
    }
    if (result == HCQ_OK) {
        result = hcq_copyout(out, dst, size);
    }
    w->wrong |= result == HCQ_OK && memcmp(in, out, size) != 0;
    return result;
}

static void *eager_worker_run(void *user) {
    eager_worker *w = (eager_worker *)user;
    hcq_buffer src, dst;
    w->result = hcq_alloc(w->from, 3000, 0, &src);
    if (w->result == HCQ_OK) {
        w->result = hcq_alloc(w->to, 3000, 0, &dst);
    }
    for (uint32_t i = 0; i < 30 && w->result == HCQ_OK; i++) {
        w->result = eager_round(w, src, dst, 1 + (i * 331) % 3000);
    }
    if (w->result == HCQ_OK) {
        w->result = hcq_free(src);
    }
    return NULL;
}

/* Both ways between two devices at once, and within one. */
static void eager_calls_from_threads(TEST_ARGS) {
    eager_worker w[5];
    for (uint32_t i = 0; i < 5; i++) {
        memset(&w[i], 0, sizeof w[i]);
        w[i].from = i % 2 ? T.dev : T.dev2;
        w[i].to = i % 2 ? T.dev2 : T.dev;
        w[i].to = i == 4 ? w[i].from : w[i].to;
        w[i].seed = T.seed + i;
        pthread_create(&w[i].thread, NULL, eager_worker_run, &w[i]);
    }
    for (uint32_t i = 0; i < 5; i++) {
        pthread_join(w[i].thread, NULL);
    }
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_OK(w[i].result);
        CHECK(!w[i].wrong);
    }
}

#define MEMORY_TESTS \
    TEST(freed_blocks_wait_for_their_devices), TEST(large_blocks_hold_nobody_up), \
    TEST(eager_calls_from_threads), TEST(alloc_flags), TEST(views_are_values), \
    TEST(eager_calls_follow_all_lanes), TEST(cache_reuses_after_done), TEST(trim_and_no_cache), \
    TEST(import_host_memory), TEST(imports_side_by_side)
