/* memory.h - staging, pools, memory that runs out, freeing beside running work,
   several devices. Part of cuda.c. */
#pragma once

#include "lent.h"

/* Copies from and to pinned memory are one call, however small a batch of staging. */
TEST(pinned_copies_are_not_staged) {
    enum { BYTES = 6 << 20 };
    static unsigned char pages[BYTES] __attribute__((aligned(65536)));
    NEEDS_MOCK();
    hcq_device *device = OPEN_WITH(0, .staging_bytes = 65536, .staging_count = 4);
    hcq_buffer pinned = make_buffer(device, BYTES, HCQ_HOST_VISIBLE), imported;
    hcq_buffer buffer = make_buffer(device, BYTES, 0);
    CHECK(pinned.host != NULL && buffer.host == NULL);
    memset(pages, 0x4e, BYTES);
    settle(device);
    uint64_t before = calls_of("cuMemcpy*");
    CHECK_OK(hcq_copyin(buffer, pages, BYTES)); /* staged */
    CHECK(calls_of("cuMemcpy*") >= before + BYTES / 65536);
    CHECK_U64(READ32(buffer, BYTES / 4 - 1), 0x4e4e4e4e);
    before = calls_of("cuMemcpy*");
    CHECK_OK(hcq_copyin(buffer, pinned.host, BYTES));
    CHECK_OK(hcq_copyout(pinned.host, buffer, BYTES));
    CHECK_U64(calls_of("cuMemcpy*"), before + 2);
    if (has_feature(device, HCQ_FEATURE_IMPORT)) {
        CHECK_OK(hcq_import(device, pages, BYTES, 0, &imported));
        CHECK_OK(hcq_copyout(pages, buffer, BYTES));
        CHECK_OK(hcq_copyin(buffer, pages + 100, BYTES - 200));
        CHECK_U64(calls_of("cuMemcpy*"), before + 4);
    }
    CHECK_OK(hcq_close(device));
}

/* What the host only writes is pinned with caches out of the way. What is given back beside
   running work is kept, and taken again by its own kind. */
TEST(written_memory_is_combined) {
    enum { COMBINED = 4 };
    raw_side a;
    gates g;
    SKIP_IF(T.variant->one_fifo, "all streams are behind the long kernel");
    hcq_device *device = device_with(0, 1, 1); /* another one of the context */
    gates_open(&g, T.dev);
    raw_open(&a, T.dev);
    hcq_point done = submit_spin(&g, 0, 0);
    gate_until_begun(&g, 0);
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t flags = (i % 2 ? HCQ_HOST_WRITES : HCQ_HOST_VISIBLE) | HCQ_NO_CACHE;
        hcq_buffer b = make_buffer(device, 5000, flags);
        unsigned found = 0;
        RAW_OK(CUDA_CALL("cuMemHostGetFlags", (unsigned *, void *), &found, b.host));
        CHECK_U64(found & COMBINED, i % 2 ? COMBINED : 0);
        CHECK_OK(hcq_free(b));
    }
    GATE_END(&g, 0, done);
    raw_close(&a);
    CHECK_OK(hcq_close(device));
}

/* Two threads clear memory at the same time: what comes is behind the one that came later.
   The first record of an event meets the other thread, which can wait no longer. */
static hcqi_cuda_api zero_api;         /* as it was */
static hcqi_cuda_device *zero_device;
static hcqi_cu_event zero_last;        /* what was recorded last */
static uint32_t zero_records, zero_met; /* atomic */

static int HCQI_CU_API zero_record(hcqi_cu_event event, hcqi_cu_stream stream) {
    int first = __atomic_add_fetch(&zero_records, 1, __ATOMIC_SEQ_CST) == 1;
    int r = zero_api.EventRecord(event, stream);
    if (stream == zero_device->memory_stream) { zero_last = event; }
    for (int i = 0; first && !__atomic_load_n(&zero_met, __ATOMIC_SEQ_CST) && i < 50; i++) {
        test_sleep_ms(1);
    }
    return r;
}

static void *zero_run(void *user) {
    hcq_buffer b;
    while (!__atomic_load_n(&zero_records, __ATOMIC_SEQ_CST)) { test_sleep_ms(1); }
    hcq_result *r = (hcq_result *)user;
    *r = hcq_alloc(zero_device->device, 4096, HCQ_ZEROED, &b);
    __atomic_store_n(&zero_met, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

TEST(clearing_in_two_threads) {
    hcq_result other = HCQ_ERROR_INVALID;
    pthread_t thread;
    NEEDS_MOCK();
    hcq_device *device = test_open(0, NULL);
    zero_device = (hcqi_cuda_device *)device->self;
    zero_api = *zero_device->api;
    hcqi_cuda_api own = zero_api;
    own.EventRecord = zero_record;
    zero_records = zero_met = 0;
    zero_device->api = &own;
    CHECK(pthread_create(&thread, NULL, zero_run, &other) == 0);
    (void)make_buffer(device, 8192, HCQ_ZEROED);
    pthread_join(thread, NULL);
    CHECK_OK(other);
    CHECK(zero_device->zero_event->handle == zero_last);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    zero_device->api = &zero_api;
    CHECK_OK(hcq_close(device));
}

/* ---- freeing beside running work ---- */

/* A kernel spins, on the device or on another one of this GPU: allocating, importing,
   freeing, destroying programs and queues, trimming, reading the clock, and then closing go on. It
   would end by itself after 10 seconds, and its point with it. */
static void frees_beside(hcq_device *device, const gates *g) {
    static unsigned char pages[200000];
    hcq_buffer buffers[12];
    hcq_clock clock;
    hcq_program *spare = make_own(device, "ct_count");
    hcq_queue *bound = make_queue(device, HCQ_COMPUTE);
    const int imports = has_feature(device, HCQ_FEATURE_IMPORT);
    CHECK_INDEX(record_word(bound, make_words(device, 4), 1, 8), 0);
    CHECK_INDEX(record_word(bound, make_words(device, 4), 1, 8), 1);
    CHECK_OK(hcq_queue_bind(bound, device));
    submit_and_wait(bound, device);
    settle(device);
    gate_shut(g, 0);
    hcq_point done = submit_spin(g, 0, 0);
    gate_until_begun(g, 0);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 12; i++) {
            uint32_t flags = (i & 1 ? (uint32_t)HCQ_HOST_VISIBLE : 0) |
                             (i & 2 ? (uint32_t)HCQ_NO_CACHE : 0) | (i & 4 ? 0u : HCQ_ZEROED);
            buffers[i] = make_buffer(device, 5000u << i, flags);
        }
        for (uint32_t i = 0; i < 12; i++) {
            CHECK_OK(hcq_free(buffers[i]));
        }
        CHECK_OK(hcq_trim(device, 0));
    }
    hcq_program_destroy(spare);
    hcq_queue_destroy(bound);
    CHECK_OK(hcq_trim(device, 0));
    CHECK_OK(imports ? hcq_import(device, pages, sizeof pages, 0, &buffers[0]) : HCQ_OK);
    CHECK_OK(hcq_device_clock(device, &clock));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    GATE_END(g, 0, done);
    CHECK_OK(imports ? hcq_free(buffers[0]) : HCQ_OK); /* this one may wait: it is yours now */
}

TEST(freeing_never_waits) {
    SKIP_IF(T.variant->one_fifo, "all streams are behind the long kernel");
    gates other;
    gates_open(&other, T.dev);
    for (uint32_t i = 0; i < 4; i++) {
        hcq_device *device = device_with(i & 1 ? HCQ_CUDA_NO_POOLS : 0, 1, 1);
        gates own;
        gates_open(&own, device);
        frees_beside(device, i < 2 ? &own : &other);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- pools, or none; memory runs out ---- */

/* In pieces of 4 MiB, of 64; what was freed lies in the cache, which is emptied for a
   large one. */
static void memory_runs_out(hcq_device *device) {
    enum { PIECE = 4 << 20, MOST = 40 };
    hcq_buffer pieces[MOST], large;
    uint32_t got = 0;
    hcq_result r = HCQ_OK;
    log_clear();
    while (r == HCQ_OK && got < MOST) {
        r = hcq_alloc(device, PIECE, 0, &pieces[got]);
        got += r == HCQ_OK;
    }
    CHECK_RESULT(r, HCQ_ERROR_OUT_OF_MEMORY);
    CHECK(got >= 12 && got <= 16 && log_has("4194304"));
    for (uint32_t i = 0; i < got; i++) {
        CHECK_OK(hcq_free(pieces[i]));
    }
    large = make_buffer(device, 40u << 20, 0);
    CHECK_RESULT(hcq_alloc(device, 40u << 20, 0, &pieces[0]), HCQ_ERROR_OUT_OF_MEMORY);
    CHECK_OK(hcq_free(large));
    large = make_buffer(device, 48u << 20, HCQ_ZEROED);
    CHECK_U64(READ32(large, (12u << 20) - 1), 0);
}

/* Pools are used where they are there, and nothing of them where they are not, not wanted, or
   refused. */
TEST_ALONE(pools_and_no_pools) {
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 4; i++) {
        mock_again(i == 1 ? MOCK_CUDA_NO_POOLS : 0, 64u << 20);
        (M.fail)(i == 3 ? "cuMemPoolCreate" : NULL, 0, 801);
        hcq_device *device = device_with(i == 2 ? HCQ_CUDA_NO_POOLS : 0, 1, 1);
        uint32_t pools = info_of(device).pools;
        memory_runs_out(device);
        use_device(device);
        CHECK(i == 0 || pools == 0);
        CHECK(pools ? calls_of("cuMemAllocFromPoolAsync") > 0 && calls_of("cuMemAlloc_v2") == 0
                    : calls_of("cuMemAllocFromPoolAsync") == 0 && calls_of("cuMemAlloc_v2") > 0);
        CHECK_OK(hcq_close(device));
        CHECK_U64(things_now(), 0);
    }
}

/* ---- several devices: each other's memory, and the host's ---- */

enum { PEER_WORDS = 5000 };

/* Copies between the devices, by transfers and by a queue of one of them, whether or not it
   sees the other's memory. */
static void use_each_other(hcq_device *one, hcq_device *two) {
    static uint32_t model[PEER_WORDS];
    hcq_buffer here = make_words(one, PEER_WORDS), there = make_words(two, PEER_WORDS);
    hcq_buffer back = make_words(one, PEER_WORDS);
    for (uint32_t i = 0; i < PEER_WORDS; i++) {
        model[i] = i * 2654435761u;
    }
    CHECK_OK(hcq_copyin(here, model, sizeof model));
    CHECK_OK(hcq_transfer(hcq_transfer_device(there), hcq_transfer_device(here), sizeof model, 0,
                          BOUND));
    CHECK_BYTES(there, model, sizeof model);
    copy_by_queue(one, back, there, sizeof model);
    CHECK_BYTES(back, model, sizeof model);
    CHECK_OK(hcq_free(there));
    CHECK_OK(hcq_free(back));
    CHECK_OK(hcq_free(here));
}

/* Two devices on one GPU share a context: they see each other's memory always; those of
   other GPUs where these are peers. */
TEST_ALONE(memory_of_another_device) {
    NEEDS_MOCK();
    for (uint32_t peers = 0; peers < 2; peers++) {
        mock_cuda_desc desc = mock_wanted();
        desc.devices = test_cu.devices = 3;
        desc.flags |= MOCK_CUDA_NO_PEERS;
        desc.flags ^= peers ? MOCK_CUDA_NO_PEERS : 0;
        M.setup(&desc);
        hcq_device *one = test_open(0, NULL), *two = test_open(1, NULL);
        hcq_device *three = test_open(2, NULL), *same = test_open(0, NULL);
        use_each_other(one, same);
        use_each_other(one, two);
        use_each_other(two, one);
        use_each_other(three, one);
        CHECK_OK(hcq_close(two));
        use_each_other(one, three);
        two = test_open(1, NULL);      /* in a context of its own, again */
        use_each_other(two, one);
        use_each_other(one, two);
        CHECK_OK(hcq_close(two));
        CHECK_OK(hcq_close(three));
        CHECK_OK(hcq_close(same));
        CHECK_OK(hcq_close(one));
        CHECK_U64(things_now(), 0);
    }
}

/* So many are listed, and no more. */
TEST_ALONE(devices_that_are_listed) {
    NEEDS_MOCK();
    mock_cuda_desc desc = mock_wanted();
    hcq_driver *driver = NULL;
    uint32_t count = 0;
    desc.devices = 65;
    M.setup(&desc);
    CHECK_OK(hcq_driver_create(NULL, "CUDA", &driver));
    CHECK_OK(hcq_driver_devices(driver, NULL, 0, &count));
    hcq_driver_release(driver);
    CHECK_U64(count, 64);
    test_cu.devices = count;
    hcq_device *device = test_open(63, NULL);
    use_device(device);
    CHECK_OK(hcq_close(device));
}

/* Host memory that several devices see, as an import or the CPU's: each comes and goes
   as it likes, the memory's owner, too. */
TEST_ALONE(host_memory_of_all) {
    static uint32_t pages[1024];
    for (uint32_t round = 0; round < 3; round++) {
        hcq_device *cpu = open_cpu(), *one = test_open(0, NULL), *two = test_open(1, NULL);
        hcq_device *const order[3][3] = {{one, two, cpu}, {cpu, one, two}, {two, cpu, one}};
        hcq_buffer shared, mine, theirs;
        if (has_feature(one, HCQ_FEATURE_IMPORT)) {
            shared = make_words(cpu, 16);
            CHECK_OK(hcq_import(one, pages, 4096, 0, &mine));
            CHECK_OK(hcq_import(two, pages, 4096, 0, &theirs));
            ((uint32_t *)shared.host)[3] = 7 + round;
            copy_by_queue(one, mine, shared, 64);
            copy_by_queue(two, hcq_view(theirs, 64, 64), mine, 64);
            copy_by_queue(two, shared, theirs, 64);
            copy_by_queue(one, shared, hcq_view(mine, 64, 64), 64);
            CHECK_OK(round ? hcq_free(shared) : HCQ_OK); /* or its device ends it */
            CHECK_OK(hcq_trim(cpu, 0));
            CHECK(pages[3] == 7 + round && pages[16 + 3] == 7 + round);
        }
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_OK(hcq_close(order[round][i]));
        }
        CHECK_U64(stats_now().contexts, 0);
    }
}
