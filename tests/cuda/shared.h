/* shared.h - what the parts of cuda.c share. */
#pragma once

#include "support/gpu_tests.h"
#include "support/util.h"

#define M test_cu.mock                 /* the mock driver's functions */
static int mocked;

#define NEEDS_MOCK() SKIP_IF(!mocked, "only the mock driver shows that")

#define COUNT(device, name) test_query((device), HCQ_CUDA_QUERY_##name)

static mock_cuda_counts stats_now(void) {
    mock_cuda_counts counts = {0};
    if (mocked) {
        M.stats(&counts);
    }
    return counts;
}

static uint64_t calls_of(const char *pattern) {
    return mocked ? M.calls(pattern) : 0;
}

/* How the variant has its mock, with enough work queues that streams share none. */
static mock_cuda_desc mock_wanted(void) {
    mock_cuda_desc desc = *T.variant->cuda;
    desc.seed = T.seed;
    desc.queues = desc.queues == 1 ? 1 : 32;
    desc.flags |= MOCK_CUDA_NO_EARLY_WAITS;
    return desc;
}

/* The mock anew, with more flags; bytes of memory: 0: the variant's. */
static void mock_again(uint32_t flags, uint64_t memory_bytes) {
    mock_cuda_desc desc = mock_wanted();
    desc.flags |= flags;
    desc.memory_bytes = memory_bytes ? memory_bytes : desc.memory_bytes;
    test_cu.devices = desc.devices;
    M.setup(&desc);
}

/* One more device of the variant, with other HCQ_CUDA_* flags and so many lanes. */
static hcq_device *device_of(uint32_t without, uint32_t flags, uint32_t lanes, uint32_t copies) {
    hcq_device_desc desc = test_desc();
    test_cuda_desc.flags = (test_cuda_desc.flags & ~without) | flags;
    desc.compute_lanes = lanes;
    desc.copy_lanes = copies;
    desc.inflight = 16384;
    return test_open(0, &desc);
}

static hcq_device *device_with(uint32_t flags, uint32_t compute_lanes, uint32_t copy_lanes) {
    return device_of(0, flags, compute_lanes, copy_lanes);
}

/* The ways in which lanes count and wait. */
static const uint32_t all_means[] = {
    HCQ_CUDA_MEMOPS, HCQ_CUDA_EVENTS, HCQ_CUDA_MEMOPS | HCQ_CUDA_NO_VALUE_WAITS,
    HCQ_CUDA_MEMOPS | HCQ_CUDA_ONE_STREAM, HCQ_CUDA_EVENTS | HCQ_CUDA_ONE_STREAM,
};

enum { MEANS = sizeof all_means / sizeof all_means[0] };

/* A device that counts in one of these ways, whatever the variant says. */
static hcq_device *device_by(uint32_t way, uint32_t compute_lanes, uint32_t copy_lanes) {
    const uint32_t ways = HCQ_CUDA_EVENTS | HCQ_CUDA_MEMOPS | HCQ_CUDA_NO_VALUE_WAITS;
    const int no_waits = mocked && (T.variant->cuda->flags & MOCK_CUDA_NO_WAIT_VALUES);
    return device_of(ways, all_means[way] | (no_waits ? HCQ_CUDA_NO_VALUE_WAITS : 0), compute_lanes,
                     copy_lanes);
}

/* A test of each of them. */
#define TEST_OF_MEANS(name) \
    static void name##_by(uint32_t way); \
    TEST(name) { \
        for (uint32_t way = 0; way < MEANS; way++) { \
            name##_by(way); \
        } \
    } \
    static void name##_by(uint32_t way)

static int is_one_stream(uint32_t way) {
    return T.variant->one_fifo || (all_means[way] & HCQ_CUDA_ONE_STREAM) != 0;
}

/* A queue of so many commands, each of which adds 1 to a word. */
static hcq_queue *queue_of_adds(hcq_buffer words, uint32_t word, uint32_t count) {
    hcq_queue *q = make_queue(words.device, HCQ_COMPUTE);
    hcq_program *add = make_add(words.device);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_INDEX(record_add(q, add, words, word, 1), i);
    }
    return q;
}

static hcq_cuda_info info_of(hcq_device *device) {
    hcq_cuda_info info = {0};
    CHECK_OK(hcq_cuda_info_get(device, &info));
    return info;
}

/* Copies by a queue. */
static void copy_by_queue(hcq_device *device, hcq_buffer dst, hcq_buffer src, uint64_t size) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_copy(q, dst, src, size), 0);
    submit_and_wait(q, device);
    hcq_queue_destroy(q);
}

#define NEEDS_STORES() SKIP_IF(!info_of(T.dev).value_waits, "each submission has an event")

static void imports_are_gone(void) {
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_OK(hcq_trim(dev2(), 0));
    settle(T.dev);
    settle(dev2());
    CHECK_U64(stats_now().registered, 0);
}

/* ---- tests that set the mock up themselves ---- */

/* What hcq has, its own and of CUDA's. */
static uint64_t things_now(void) {
    return __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST) + cuda_left();
}

static void tell_things(void) {
    fprintf(stderr, "left: %llu blocks of memory, %llu of CUDA's things, %llu in contexts\n",
            (unsigned long long)T.memory.blocks, (unsigned long long)cuda_left(),
            (unsigned long long)stats_now().left_behind);
}

/* No device is open; the mock is as the variant has it. */
static int alone_setup(void **state) {
    T.running = (const char *)*state;
    memset(&T.memory, 0, sizeof T.memory);
    log_clear();
    signal(SIGALRM, test_alarm);
    alarm(T.quick ? 300 : 900);
    return 0;
}

static int alone_teardown(TEST_ARGS) {
    alarm(0);
    if (things_now() || stats_now().left_behind) {
        fprintf(stderr, "teardown: things are left\n");
        tell_things();
        test_dump();
        return -1;
    }
    if (mocked) {
        mock_again(0, 0);
    }
    return 0;
}

#define TEST_ALONE(name) TEST_WITH(name, alone_setup, alone_teardown)
