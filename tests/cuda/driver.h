/* driver.h - what drivers do that one would not think: queues that fill, pinned ranges, captured
   streams, memory that outlives its context, refusals. Part of cuda.c. */
#pragma once

#include "lent.h"
#include "mishaps.h"

#include <sys/mman.h>

/* ---- operations that are pending ---- */

/* More than the driver takes before it blocks, one by one and in one recording, behind a kernel
   that this very thread lets go. */
TEST_OF_MEANS(thousands_are_pending) {
    enum { TIMES = 1500 };
    NEEDS_WIDE_COUNTERS();
    hcq_device *device = device_by(way, 2, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_queue *one = queue_of_adds(words, 0, 1), *many = queue_of_adds(words, 1, TIMES);
    hcq_queue *others = queue_of_adds(make_words(T.dev, 4), 0, 1);
    gates g;
    gates_open(&g, device);
    (void)submit_spin(&g, 0, 0);
    for (uint32_t i = 0; i < TIMES; i++) {
        (void)submit_to(device, one, 0, NULL, NULL);
    }
    hcq_point done = submit_to(device, many, 0, NULL, NULL);
    done = submit_to(device, many, 1, &done, NULL);
    CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, SECOND / 20), HCQ_TIMEOUT);
    CHECK(!mocked || stats_now().operations_pending < 1022);
    if (!T.variant->one_fifo) {
        submit_and_wait(others, T.dev);
    }
    GATE_END(&g, 0, done);
    settle(device);
    CHECK_U64(READ32(words, 0), TIMES);
    CHECK_U64(READ32(words, 1), 2 * TIMES);
    CHECK_OK(hcq_close(device));
}

/* ---- calls that take long ---- */

enum { SLOW_NODES = 1000 };

typedef struct slow {
    hcq_device *device;
    hcq_queue *queue;
    uint32_t kind, over;               /* over: atomic */
} slow;

static void *slow_call(void *user) {
    slow *s = (slow *)user;
    hcq_buffer buffer;
    hcq_result r = HCQ_OK;
    if (s->kind == 0) {
        (void)make_own(s->device, "ct_bad"); /* compiles PTX */
    } else if (s->kind == 1) {
        r = hcq_alloc(s->device, 1000000000, HCQ_HOST_VISIBLE | HCQ_NO_CACHE, &buffer);
    } else {
        r = hcq_queue_bind(s->queue, s->device);
    }
    __atomic_store_n(&s->over, r == HCQ_OK ? 1 : 2, __ATOMIC_SEQ_CST);
    return NULL;
}

/* While the driver compiles, pins or instantiates for seconds, work on another backend's device is
   submitted and done. */
TEST(slow_calls_hold_up_nobody) {
    const uint64_t slow_ns = T.quick ? 600000000 : 1500000000;
    NEEDS_MOCK();
    hcq_device *cpu = open_cpu();
    hcq_queue *q = queue_of_adds(make_words(T.dev, 4), 0, SLOW_NODES);
    hcq_queue *others = queue_of_adds(make_words(cpu, 4), 0, 1);
    submit_and_wait(others, cpu);
    for (uint32_t kind = 0; kind < 3; kind++) {
        const int skips = kind == 2 && !info_of(T.dev).graphs;
        slow s = {T.dev, q, kind, 0};
        pthread_t thread;
        M.slow(kind == 0 ? slow_ns : 0, kind == 1 ? slow_ns : 0,
               kind == 2 ? slow_ns / SLOW_NODES : 0);
        uint64_t start = hcq_now_ns();
        CHECK(pthread_create(&thread, NULL, slow_call, &s) == 0);
        mock_sleep(50000000);          /* it is in the driver by then */
        for (uint32_t i = 0; i < 200; i++) {
            submit_and_wait(others, cpu);
        }
        CHECK(skips || __atomic_load_n(&s.over, __ATOMIC_SEQ_CST) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_U64(s.over, 1);
        CHECK(skips || hcq_now_ns() - start >= slow_ns);
    }
    M.slow(0, 0, 0);
    CHECK_OK(hcq_close(cpu));
}

/* ---- pinned memory ---- */

/* Copies of a buffer with a seam, from and to each side of it and over it: recorded, bound, as
   updates of a graph, and at once. */
static void copy_over_seams(hcq_device *device, hcq_buffer seamed, uint32_t *host, uint32_t words) {
    hcq_buffer own = make_words(device, words);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_copy(q, own, seamed, 64), 0);
    CHECK_INDEX(hcq_queue_fill(q, own, 4, 7, 4), 1);
    CHECK_INDEX(hcq_queue_copy(q, seamed, own, 64), 2);
    for (int bound = 0; bound < 4; bound++) {
        uint64_t size = bound == 2 ? 64 : words * 4;
        CHECK_OK(hcq_queue_update_copy(q, 0, NULL, NULL, size));
        CHECK_OK(hcq_queue_update_copy(q, 2, NULL, NULL, size));
        CHECK_OK(bound == 1 ? hcq_queue_bind(q, device) : HCQ_OK);
        for (uint32_t i = 0; i < words; i++) {
            host[i] = i * 3 + (uint32_t)bound;
        }
        submit_and_wait(q, device);
        for (uint32_t i = 1; i < words; i++) {
            CHECK_U64(host[i], i * 3 + (uint32_t)bound);
        }
        CHECK_U64(host[0], 7);
        CHECK_U64(READ32(own, bound == 2 ? 15 : words - 1), host[bound == 2 ? 15 : words - 1]);
    }
    CHECK_OK(hcq_transfer(hcq_transfer_device(own), hcq_transfer_device(seamed), words * 4, 0,
                          BOUND));
    CHECK_BYTES(own, host, words * 4);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(own));
}

/* A range in another or beside it, on one device or two: what they have of pages in common stays
   as it is until both are gone. */
TEST(copies_over_seams) {
    enum { WORDS = 40000 };
    static const struct { uint32_t goes, words, stays, more; int one_device; } cases[] = {
        {1001, 3003, 0, WORDS, 0}, {0, 1001, 1001, WORDS - 1001, 0},
        {0, 1001, 1001, WORDS - 1001, 1}, {1001, 3000, 0, 1001, 0}, {1001, 3000, 0, 1001, 1}
    };
    NEEDS_IMPORT();
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t *memory = (uint32_t *)malloc(WORDS * 4), *host = memory + cases[i].stays;
        hcq_device *device = cases[i].one_device ? T.dev : dev2();
        hcq_buffer goes, stays;
        CHECK_OK(hcq_import(T.dev, memory + cases[i].goes, cases[i].words * 4, 0, &goes));
        CHECK_OK(hcq_import(device, host, cases[i].more * 4, 0, &stays));
        copy_over_seams(device, stays, host, cases[i].more);
        CHECK_OK(hcq_free(goes));
        CHECK_OK(hcq_trim(T.dev, 0));
        copy_over_seams(device, stays, host, cases[i].more);
        CHECK_OK(hcq_free(stays));
        imports_are_gone();
        free(memory);
    }
}

/* CUDA's own copies from pinned memory to such wait in the call, or in the launch of their graph,
   for what is before them: the submission would last as long as the kernel, and for good where
   that waits for the host. All sizes and offsets around a word are right, too. */
TEST(copies_between_hosts_wait_for_nobody) {
    enum { BYTES = 1 << 19, SMALL = 40, RELAY = 65536 };
    SKIP_IF(is_one_stream(0), "the kernel that waits is before all");
    hcq_device *device = device_by(0, 2, 1);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_buffer src = make_buffer(device, BYTES, HCQ_HOST_VISIBLE);
    hcq_buffer dst = make_buffer(device, BYTES, HCQ_HOST_VISIBLE | HCQ_ZEROED);
    static unsigned char want[BYTES];
    const uint32_t sealed = 0x12345678;
    for (uint32_t i = 0; i < BYTES; i++) {
        ((unsigned char *)src.host)[i] = (unsigned char)(i * 31 + (i >> 8));
    }
    for (int bound = 0; bound < 2; bound++) {
        gates g;
        gates_open(&g, device);
        memset(want, 0, sizeof want);
        memset(dst.host, 0, BYTES);
        CHECK_OK(hcq_queue_reset(q));
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(dst, 32768, 30000), hcq_view(src, 8, 30000), 30000),
                    0);
        memcpy(want + 32768, (unsigned char *)src.host + 8, 30000);
        for (uint32_t size = 1; size <= SMALL; size++) {
            uint32_t to = size * 128 + size % 9, from = size * 64 + size % 5;
            CHECK(hcq_queue_copy(q, hcq_view(dst, to, size), hcq_view(src, from, size), size) > 0);
            memcpy(want + to, (unsigned char *)src.host + from, size);
        }
        for (uint32_t size = RELAY - 1, to = 2 * RELAY; size <= RELAY + 1; size++, to += 2 * RELAY) {
            CHECK(hcq_queue_copy(q, hcq_view(dst, to, size), hcq_view(src, 3, size), size) > 0);
            memcpy(want + to, (unsigned char *)src.host + 3, size);
        }
        CHECK(hcq_queue_write(q, hcq_view(dst, 65532, 4), &sealed, 4) > 0);
        memcpy(want + 65532, &sealed, 4);
        CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
        hcq_point held = submit_spin(&g, 0, 0);
        gate_until_begun(&g, 0);
        hcq_point done = submit_to(device, q, 1, &held, NULL);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        GATE_END(&g, 0, held);
        WAIT_OK(done);
        CHECK(memcmp(dst.host, want, BYTES) == 0);
    }
    CHECK_OK(hcq_close(device));
}

/* More than drivers pin at once, none of which is touched but the bytes around the seam. */
TEST(imports_of_more_than_one_range) {
    const size_t seam = (size_t)256 << 30, size = seam + 65536;
    NEEDS_IMPORT();
    NEEDS_MOCK();
    unsigned char *memory = (unsigned char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                                                  MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SKIP_IF(memory == MAP_FAILED, "no such address space");
    hcq_buffer all, own = make_words(T.dev, 100);
    uint64_t before = calls_of("cuMemHostRegister*");
    CHECK_OK(hcq_import(T.dev, memory, size, 0, &all));
    CHECK_U64(calls_of("cuMemHostRegister*"), before + 2);
    memset(memory + seam - 200, 0x5a, 400);
    copy_by_queue(T.dev, own, hcq_view(all, seam - 200, 400), 400);
    CHECK_BYTES(own, memory + seam - 200, 400);
    CHECK_OK(hcq_free(all));
    imports_are_gone();
    CHECK(munmap(memory, size) == 0);
}

/* By cuMemHostAlloc, or a part of it by cuMemHostRegister; it stays theirs. */
TEST(memory_that_others_pinned) {
    enum { WORDS = 8192, BYTES = WORDS * 4 };
    NEEDS_IMPORT();
    raw_side a;
    hcq_buffer buffer;
    void *pinned;
    raw_open(&a, T.dev);
    RAW_OK(R.MemHostAlloc(&pinned, BYTES, 3));
    CHECK_OK(hcq_import(T.dev, (uint32_t *)pinned + 25, BYTES - 200, 0, &buffer));
    copy_over_seams(T.dev, buffer, (uint32_t *)pinned + 25, WORDS - 50);
    CHECK_OK(hcq_free(buffer));
    RAW_OK(R.MemFreeHost(pinned));
    for (uint32_t first = 0; first < WORDS; first += WORDS / 2) {
        uint32_t *memory = (uint32_t *)malloc(BYTES);
        RAW_OK(R.MemHostRegister(memory + first, BYTES / 2, 3));
        CHECK_OK(hcq_import(T.dev, memory + 100, BYTES - 800, 0, &buffer));
        copy_over_seams(T.dev, buffer, memory + 100, WORDS - 200);
        CHECK_OK(hcq_free(buffer));
        RAW_OK(R.MemHostUnregister(memory + first));
        free(memory);
    }
    raw_close(&a);
}

/* Weights in a mapped file, say. */
TEST(memory_that_is_read_only) {
    enum { BYTES = 3 * 4096 };
    NEEDS_IMPORT();
    hcq_buffer buffer, own = make_words(T.dev, BYTES / 4);
    uint32_t *pages = (uint32_t *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint32_t i = 0; i < BYTES / 4; i++) {
        pages[i] = i * i;
    }
    CHECK_U64(mprotect(pages, BYTES, PROT_READ), 0);
    CHECK_OK(hcq_import(T.dev, pages, BYTES, 0, &buffer));
    copy_by_queue(T.dev, own, buffer, BYTES);
    CHECK_BYTES(own, pages, BYTES);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    log_clear();
    CHECK_INDEX(hcq_queue_copy(q, buffer, own, 64), HCQ_ERROR_INVALID);
    CHECK(log_has("dst: is imported memory that its device may only read"));
    CHECK_INDEX(hcq_queue_fill(q, buffer, 64, 0, 4), HCQ_ERROR_INVALID);
    CHECK_INDEX(hcq_queue_write(q, buffer, pages, 64), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_copyin(buffer, pages, 64), HCQ_ERROR_INVALID);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(buffer));
    CHECK_OK(hcq_free(own));
    munmap(pages, BYTES);
}

/* ---- what a loss leaves ---- */

/* A pool's memory outlives its context: it comes back when the device is closed. */
TEST_ALONE(memory_of_lost_devices) {
    NEEDS_MOCK();
    mock_again(0, 64u << 20);
    for (uint32_t round = 0; round < 4; round++) {
        hcq_device *device = device_with(0, 1, 1);
        (void)make_buffer(device, 30u << 20, 0);
        hcq_buffer less = make_buffer(device, 10u << 20, 0);
        CHECK_OK(round & 1 ? hcq_free(less) : HCQ_OK);
        (void)lose_and_close(device);
        CHECK_U64(stats_now().device_allocations, 0);
    }
    hcq_device *last = device_with(0, 1, 1);
    use_device(last);
    CHECK_OK(hcq_close(last));
}

/* A driver that gives the process no other context, as NVIDIA promises none: opening fails, says
   why, and nothing is left. */
TEST_ALONE(contexts_that_do_not_come_back) {
    NEEDS_MOCK();
    mock_again(MOCK_CUDA_NO_RECOVERY, 0);
    hcq_device *again = NULL;
    (void)lose_and_close(device_with(0, 1, 1));
    log_clear();
    hcq_device_desc own = test_desc();
    CHECK_RESULT(hcq_open("CUDA", &own, &again), HCQ_ERROR_LOST);
    CHECK(again == NULL && log_has("no other context: start it again"));
    CHECK_U64(things_now(), 0);
}

/* ---- streams that are none of one's own ---- */

TEST(default_streams_are_refused) {
    raw_side a;
    raw_open(&a, T.dev);
    for (uintptr_t i = 0; i < 3; i++) {
        raw_stream streams[2] = {a.stream, (raw_stream)i};
        hcq_device_desc desc = test_desc();
        hcq_device *device = NULL;
        test_cuda_desc.context = a.context;
        test_cuda_desc.streams = streams;
        test_cuda_desc.stream_count = 2;
        log_clear();
        CHECK_RESULT(hcq_open("CUDA", &desc, &device), HCQ_ERROR_INVALID);
        CHECK(log_has("streams: number 1"));
    }
    raw_close(&a);
}

static void capture_begin(raw_stream stream) {
    RAW_OK(CUDA_CALL("cuStreamBeginCapture_v2", (raw_stream, int), stream, 0)); /* global */
}

static void capture_end(raw_stream stream) {
    hcqi_cu_graph graph;
    RAW_OK(CUDA_CALL("cuStreamEndCapture", (raw_stream, hcqi_cu_graph *), stream, &graph));
    RAW_OK(R.GraphDestroy(graph));
}

/* A lent stream that its owner captures takes no work, and tells so; what came before is done,
   what comes after it, too. A part of a long submission that waits for its turn goes on
   afterwards. Nothing of either is in the owner's graph. */
TEST(captured_streams) {
    enum { LONG = 1500 };
    NEEDS_WIDE_COUNTERS();
    raw_side a;
    raw_open(&a, T.dev);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t count = i & 1 ? LONG : 1;
        raw_stream stream = raw_stream_new();
        hcq_device *device = open_lent(a.context, &stream, 1, i & 2 ? HCQ_CUDA_MEMOPS : 0);
        hcq_buffer words = make_words(device, 4);
        hcq_queue *q = queue_of_adds(words, 0, count);
        gates g;
        gates_open(&g, device);
        settle(device);
        hcq_point spun = submit_spin(&g, 0, 0), before = submit_of(q, device);
        capture_begin(stream);
        if (count == LONG) {
            GATE_END(&g, 0, spun);
            CHECK_RESULT(hcq_wait(&before, 1, HCQ_ALL, SECOND / 50), HCQ_TIMEOUT);
        } else {
            log_clear();
            hcq_point refused = submit_of(q, device);
            CHECK_RESULT(hcq_wait(&before, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT); /* and asks */
            GATE_END(&g, 0, before);
            WAIT_RESULT(refused, HCQ_ERROR_NATIVE);
            CHECK(log_has("HCQ_ERROR_NATIVE: hcq CUDA: cuda: a lent stream is being captured"));
        }
        capture_end(stream);
        WAIT_OK(before);
        submit_and_wait(q, device);
        CHECK_U64(READ32(words, 0), 2 * count);
        CHECK_OK(hcq_close(device));
        raw_stream_end(stream);
    }
    raw_close(&a);
}

/* hcq's calls do not end the capture of a stream that is none of its own. */
TEST(captures_of_others) {
    enum { LONG = 700 };               /* somebody asks how far it is while it is given */
    raw_side a;
    hcq_queue *q = queue_of_adds(make_words(T.dev, 4), 0, LONG);
    raw_open(&a, T.dev);
    capture_begin(a.stream);
    use_device(T.dev);
    submit_and_wait(q, T.dev);
    hcq_device *device = device_with(0, 1, 1);
    use_device(device);
    CHECK_OK(hcq_close(device));
    capture_end(a.stream);
    raw_close(&a);
}

/* ---- refusals ---- */

/* A graph that the driver refuses, when it is bound or when it is changed, runs as calls. */
TEST(refused_graphs) {
    NEEDS_MOCK();
    SKIP_IF(info_of(T.dev).graphs == 0, "no graphs");
    static const char *const calls[] = {"cuGraphAdd*", "cuGraphInstantiate*", "cuGraphUpload"};
    for (uint32_t i = 0; i < 3; i++) {
        hcq_buffer words = make_words(T.dev, 4);
        hcq_queue *q = queue_of_adds(words, 1, 2);
        log_clear();
        (M.fail)(calls[i], 0, 1);
        CHECK_OK(hcq_queue_bind(q, T.dev));
        (M.fail)(NULL, 0, 0);
        CHECK(log_has("not a graph"));
        submit_and_wait(q, T.dev);
        submit_and_wait(q, T.dev);
        CHECK_U64(READ32(words, 1), 4);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_free(words));
    }
}
