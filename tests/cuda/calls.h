/* calls.h - what of the driver an operation of hcq's calls, and how often. Part of cuda.c. */
#pragma once

#include "shared.h"

/* The calls that any operation here makes; others fail the test. */
static const char *const call_names[] = {
    "cuCtxPushCurrent*", "cuCtxPopCurrent*", "cuThreadExchangeStreamCaptureMode",
    "cuLaunchKernel", "cuGraphLaunch", "cuMemcpyAsync", "cuStreamWriteValue64*", "cuEventRecord",
    "cuStreamWaitEvent", "cuStreamQuery", "cuEventQuery", "cuPointerGetAttribute",
    "cuMemHostAlloc", "cuMemFreeHost",
};

enum { CALL_NAMES = sizeof call_names / sizeof call_names[0] };

typedef struct tally { uint64_t all, of[CALL_NAMES]; } tally;

static tally tally_now(void) {
    tally t = {calls_of("cu*"), {0}};
    for (size_t i = 0; i < CALL_NAMES; i++) {
        t.of[i] = calls_of(call_names[i]);
    }
    return t;
}

/* Since `before`: prints them; gives how many, without queries (how often somebody looks is
   chance) and what is around them, and without questions what an address is. */
static uint64_t tally_tell(const char *what, const tally *before) {
    tally now = tally_now();
    uint64_t told = 0, looks = 0;
    fprintf(stderr, "calls: %s:", what);
    for (size_t i = 0; i < CALL_NAMES; i++) {
        uint64_t n = now.of[i] - before->of[i];
        told += n;
        looks += strcmp(call_names[i], "cuStreamQuery") == 0 ? 5 * n : 0;
        looks += strcmp(call_names[i], "cuEventQuery") == 0 ? 3 * n : 0;
        looks += strcmp(call_names[i], "cuPointerGetAttribute") == 0 ? n : 0;
        if (n) {
            fprintf(stderr, " %llu %s", (unsigned long long)n, call_names[i]);
        }
    }
    fprintf(stderr, "\n");
    CHECK_U64(told, now.all - before->all);
    return told - looks;
}

static uint64_t pins_since(const tally *before) {
    return calls_of("cuMemHostAlloc") + calls_of("cuMemFreeHost") - before->of[CALL_NAMES - 2] -
           before->of[CALL_NAMES - 1];
}

/* NULL: submissions end with events. */
static hcq_device *device_that_stores(void) {
    hcq_device *device = device_by(0, 1, 1);
    if (!info_of(device).value_waits) {
        CHECK_OK(hcq_close(device));
        device = NULL;
    }
    return device;
}

/* A submission: the context, what it launches, a store for its end. */
TEST(calls_of_a_submission) {
    enum { MANY = 800, IN_ONE = 2 + 1 };
    NEEDS_MOCK();
    NEEDS_WIDE_COUNTERS();
    hcq_device *device = device_that_stores();
    SKIP_IF(!device, "submissions end with events");
    hcq_buffer words = make_words(device, 4);
    hcq_program *add = make_add(device);
    hcq_queue *one = make_queue(device, HCQ_COMPUTE), *many = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(record_add(one, add, words, 0, 1), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_INDEX(record_add(many, add, words, 1, 1), i);
    }
    const uint64_t graphs = info_of(device).graphs;
    submit_and_wait(one, device);      /* what they need is there from now on */
    for (int bound = 0; bound < 2; bound++) {
        submit_and_wait(many, device);
        tally before = tally_now();
        hcq_point done = submit_to(device, one, 0, NULL, NULL);
        CHECK_U64(tally_tell("submit of 1 exec", &before), IN_ONE + 1);
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        before = tally_now();
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        CHECK_U64(tally_tell("wait for what is reached", &before), 0);
        before = tally_now();
        done = submit_to(device, many, 0, NULL, NULL);
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        uint64_t got = tally_tell(bound ? "replay of 800" : "submit of 800", &before);
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
    hcq_device *device = device_that_stores();
    SKIP_IF(!device, "submissions end with events");
    hcq_buffer large;
    unsigned char *bytes = (unsigned char *)calloc(1, LARGE);
    CHECK_OK(hcq_alloc(device, LARGE, 0, &large));
    uint32_t word = 7;
    CHECK_OK(hcq_copyin(large, bytes, LARGE)); /* what they need is there from now on */
    CHECK_OK(hcq_copyin(large, &word, 4));
    tally before = tally_now();
    CHECK_OK(hcq_copyin(large, &word, 4));
    CHECK_U64(tally_tell("copyin of 4 bytes", &before), 4);
    before = tally_now();
    CHECK_OK(hcq_copyin(large, bytes, LARGE));
    uint64_t got = tally_tell("copyin of 256 MiB", &before);
    CHECK(got <= 4 * (calls_of("cuMemcpyAsync") - before.of[5]));
    CHECK_U64(pins_since(&before), 0);
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
    hcq_program *add = make_add(device);
    hcq_queue *queues[QUEUES];
    for (int round = 0; round < 3; round++) {
        tally before = tally_now();
        for (uint32_t i = 0; i < QUEUES; i++) {
            queues[i] = make_queue(device, HCQ_COMPUTE);
            CHECK_INDEX(record_add(queues[i], add, words, i % 4, 1), 0);
            submit_and_wait(queues[i], device);
        }
        CHECK(pins_since(&before) <= (round ? 1 : 2));
        for (uint32_t i = 0; i < QUEUES; i++) {
            hcq_queue_destroy(queues[i]);
        }
        settle(device);
        CHECK(pins_since(&before) <= (round ? 2 : 3));
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
    hcq_buffer pieces[PIECES] = {{0}}, whole;
    uint64_t chance = T.seed, most = 0;
    const uint64_t before = stats_now().host_allocations;
    CHECK_OK(hcq_alloc(device, MOST, 0, &whole));
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
                                  hcq_transfer_host(model, size), size, 0,
                                  BOUND));
            hcq_queue *q = make_queue(device, HCQ_COPY);
            CHECK_INDEX(hcq_queue_copy(q, *b, whole, size), 0);
            submit_and_wait(q, device);
            hcq_queue_destroy(q);
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
        hcq_buffer buffer;
        CHECK_OK(hcq_alloc(device, SIZE, HCQ_NO_CACHE, &buffer));
        mock_sleep(1000000);           /* its stream is idle by then, mostly */
        CHECK_OK(hcq_free(buffer));
        CHECK(i > 3 || calls_of("cuMemPoolTrimTo") == before);
    }
    uint64_t times = calls_of("cuMemPoolTrimTo") - before;
    CHECK(times >= 1 && times <= 40 / 3);
    CHECK_OK(hcq_close(device));
}
