/* calls.h - what of the driver an operation of hcq's calls, and how often. Part of cuda.c. */
#pragma once

#include "shared.h"

/* The calls that any operation here makes; others fail the test. How often somebody looks is
   chance: of a look so many calls, with what is around it, do not count. */
static const struct { const char *name; uint64_t looks; } call_names[] = {
    {"cuCtxPushCurrent*", 0}, {"cuCtxPopCurrent*", 0}, {"cuThreadExchangeStreamCaptureMode", 0},
    {"cuLaunchKernel", 0}, {"cuGraphLaunch", 0}, {"cuMemcpyAsync", 0},
    {"cuStreamWriteValue64*", 0}, {"cuEventRecord", 0}, {"cuStreamWaitEvent", 0},
    {"cuStreamQuery", 5}, {"cuEventQuery", 3}, {"cuPointerGetAttribute", 1},
    {"cuMemHostAlloc", 0}, {"cuMemFreeHost", 0},
};

typedef struct tally { uint64_t counted, others; } tally;

static tally tally_now(void) {
    tally t = {0, calls_of("cu*")};
    for (size_t i = 0; i < sizeof call_names / sizeof call_names[0]; i++) {
        uint64_t n = calls_of(call_names[i].name);
        t.counted += n - call_names[i].looks * n;
        t.others -= n;
    }
    return t;
}

static uint64_t counted_since(tally before) {
    tally now = tally_now();
    CHECK_U64(now.others, before.others);
    return now.counted - before.counted;
}

static uint64_t pins_now(void) { return calls_of("cuMemHostAlloc") + calls_of("cuMemFreeHost"); }

/* A submission: the context, what it launches, a store for its end. */
TEST(calls_of_a_submission) {
    enum { MANY = 800, IN_ONE = 2 + 1 };
    NEEDS_MOCK();
    NEEDS_WIDE_COUNTERS();
    NEEDS_STORES();
    hcq_device *device = device_by(0, 1, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_queue *one = queue_of_adds(words, 0, 1), *many = queue_of_adds(words, 1, MANY);
    const uint64_t graphs = info_of(device).graphs;
    submit_and_wait(one, device);      /* what they need is there from now on */
    for (int bound = 0; bound < 2; bound++) {
        submit_and_wait(many, device);
        tally before = tally_now();
        hcq_point done = submit_to(device, one, 0, NULL, NULL);
        CHECK_U64(counted_since(before), IN_ONE + 1);
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        before = tally_now();
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        CHECK_U64(counted_since(before), 0); /* it is reached */
        before = tally_now();
        done = submit_to(device, many, 0, NULL, NULL);
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        uint64_t got = counted_since(before);
        uint64_t least = bound && graphs ? 1 : MANY, most = least + least / 256; /* and marks */
        CHECK(got >= IN_ONE + least && got <= IN_ONE + most);
        CHECK_OK(hcq_queue_bind(many, device));
    }
    CHECK_OK(hcq_close(device));
}

/* The host's copies: no more than one of CUDA's for each piece that is staged. */
TEST(calls_of_a_copy) {
    enum { LARGE = 256 << 20 };
    NEEDS_MOCK();
    NEEDS_WIDE_COUNTERS();
    NEEDS_STORES();
    hcq_device *device = device_by(0, 1, 1);
    hcq_buffer large = make_buffer(device, LARGE, 0);
    unsigned char *bytes = (unsigned char *)calloc(1, LARGE);
    uint32_t word = 7;
    CHECK_OK(hcq_copyin(large, bytes, LARGE)); /* what they need is there from now on */
    CHECK_OK(hcq_copyin(large, &word, 4));
    tally before = tally_now();
    CHECK_OK(hcq_copyin(large, &word, 4));
    CHECK_U64(counted_since(before), 4);
    const uint64_t copies = calls_of("cuMemcpyAsync"), pins = pins_now();
    before = tally_now();
    CHECK_OK(hcq_copyin(large, bytes, LARGE));
    CHECK(counted_since(before) <= 4 * (calls_of("cuMemcpyAsync") - copies));
    CHECK_U64(pins_now(), pins);
    free(bytes);
    CHECK_OK(hcq_close(device));
}

/* No pages are locked for a queue: what it has of the host's memory is a piece of what is
   locked already. */
TEST(queues_pin_nothing) {
    enum { QUEUES = 100 };
    NEEDS_MOCK();
    hcq_device *device = device_by(0, 1, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_queue *queues[QUEUES];
    for (int round = 0; round < 3; round++) {
        const uint64_t before = pins_now();
        for (uint32_t i = 0; i < QUEUES; i++) {
            queues[i] = queue_of_adds(words, i % 4, 1);
            submit_and_wait(queues[i], device);
        }
        CHECK(pins_now() - before <= (round ? 1 : 2));
        for (uint32_t i = 0; i < QUEUES; i++) {
            hcq_queue_destroy(queues[i]);
        }
        settle(device);
        CHECK(pins_now() - before <= (round ? 2 : 3));
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_U64(READ32(words, i), 3 * QUEUES / 4);
    }
    CHECK_OK(hcq_close(device));
}

/* Small buffers that the host sees: each its own bytes, whoever goes first, and slabs go when
   nobody has a piece of them. */
TEST(pieces_of_pinned_memory) {
    enum { PIECES = 200, MOST = 80000, SIZES = 5 };
    static unsigned char model[MOST];
    NEEDS_MOCK();
    hcq_device *device = device_by(0, 1, 1);
    hcq_buffer pieces[PIECES] = {{0}}, whole = make_buffer(device, MOST, 0);
    uint64_t chance = T.seed, most = 0;
    const uint64_t before = stats_now().host_allocations;
    for (uint32_t step = 0; step < 4 * PIECES; step++) {
        hcq_buffer *b = &pieces[test_random(&chance) % PIECES];
        if (b->device) {
            memset(model, (int)(b - pieces), (size_t)b->size);
            CHECK(memcmp(b->host, model, (size_t)b->size) == 0);
            CHECK_OK(hcq_free(*b));
            CHECK_OK(step % 16 ? HCQ_OK : hcq_trim(device, 0));
            memset(b, 0, sizeof *b);
        } else {
            uint64_t size = 1 + test_random(&chance) % (step % 3 ? 6000 : MOST);
            if (step % 4 == 0) {       /* around the limits */
                size = (step % 8 ? 4096u : 65536u) - 1 + test_random(&chance) % 3;
            }
            CHECK_OK(hcq_alloc(device, size, HCQ_HOST_VISIBLE, b));
            CHECK(b->address % 4096 == 0);
            memset(model, (int)(b - pieces), (size_t)size);
            CHECK_OK(hcq_transfer(hcq_transfer_device(hcq_view(whole, 0, size)),
                                  hcq_transfer_host(model, size), size, 0, BOUND));
            copy_by_queue(device, *b, whole, size);
        }
        most = stats_now().host_allocations > most ? stats_now().host_allocations : most;
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        CHECK_OK(pieces[i].device ? hcq_free(pieces[i]) : HCQ_OK);
    }
    CHECK_OK(hcq_trim(device, 0));
    settle(device);
    CHECK_OK(hcq_trim(device, 0));
    /* one for each size of pieces, and what copies are staged in */
    CHECK(most >= before + 10 && stats_now().host_allocations <= before + SIZES + 1);
    CHECK_OK(hcq_close(device));
}

/* What the pool has of freed memory goes back to the system, but for some. */
TEST(pools_are_trimmed) {
    enum { SIZE = 24 << 20 };
    NEEDS_MOCK();
    SKIP_IF(!info_of(T.dev).pools, "no pools");
    hcq_device *device = device_by(0, 1, 1);
    uint64_t before = calls_of("cuMemPoolTrimTo");
    for (uint32_t i = 1; i <= 40; i++) {
        hcq_buffer buffer = make_buffer(device, SIZE, HCQ_NO_CACHE);
        mock_sleep(1000000);           /* its stream is idle by then, mostly */
        CHECK_OK(hcq_free(buffer));
        CHECK(i > 3 || calls_of("cuMemPoolTrimTo") == before);
    }
    uint64_t times = calls_of("cuMemPoolTrimTo") - before;
    CHECK(times >= 1 && times <= 40 / 3);
    CHECK_OK(hcq_close(device));
}
