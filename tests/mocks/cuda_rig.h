/* cuda_rig.h - a device of the CUDA mock to play with by raw calls. Part of cuda_check.c. */
#ifndef HCQ_TEST_MOCK_CUDA_RIG_H
#define HCQ_TEST_MOCK_CUDA_RIG_H

#include "libcuda.c"

#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(call) assert_int_equal(call, MC_OK)
#define IS(code, call) assert_int_equal(call, code)

/* ---- a device to play with ---- */

enum { WORDS = 512, STREAMS = 4 };

static struct {
    mc_handle context, module, s[STREAMS], add, hold, copy, fault;
    uint64_t *words;                   /* pinned */
    mc_address memory;                 /* WORDS * 8 bytes of the device */
} R;

static uint64_t seed = 1;

static const char ptx[] =
    "// a module\n"
    ".version 7.0\n.target sm_50\n.address_size 64\n.global .align 4 .b8 table[2] = {1, 2};\n"
    ".visible .entry t_add(.param .u64 word, .param .u32 n)\n"
    "{ .reg .b64 %rd<3>; .shared .align 4 .b8 space[1024]; ld.param.u64 %rd1, [word]; ret; }\n"
    ".visible .entry t_hold(.param .u64 word, .param .u64 least) { L: bra.uni L; }\n"
    ".entry t_copy(.param .u64 .ptr .global .align 8 dst, .param .u64 src)\n"
    ".maxntid 128, 1, 1\n{ @%p1 ret; /* } */ exit; }\n"
    ".visible .entry t_fault() { trap; }\n"
    ".visible .entry t_odd(.param .u8 a, .param .align 16 .b8 b[20], .param .u16 c) { ret; }\n"
    ".visible .entry t_missing() { ret; }\n";

#define UNUSED __attribute__((unused))
#define KERNEL(name) static void name(UNUSED const void *args, UNUSED const hcq_block *b)

KERNEL(k_add) {
    struct { uint64_t *word; uint32_t n; } a;
    memcpy(&a, args, sizeof a);
    __atomic_fetch_add(a.word, (uint64_t)a.n * b->block.x, __ATOMIC_RELAXED);
}

KERNEL(k_hold) {
    struct { uint64_t *word, least; } a;
    memcpy(&a, args, sizeof a);
    while (__atomic_load_n(a.word, __ATOMIC_ACQUIRE) < a.least) {
        usleep(20);
    }
}

KERNEL(k_copy) {
    struct { uint64_t *dst, *src; } a;
    memcpy(&a, args, sizeof a);
    *a.dst = *a.src;
}

KERNEL(k_fault) { mock_cuda_fault(719); }

static mc_address pinned(uint32_t word) { return (mc_address)(uintptr_t)&R.words[word]; }

static uint64_t word(uint32_t i) { return __atomic_load_n(&R.words[i], __ATOMIC_ACQUIRE); }

static void set_word(uint32_t i, uint64_t value) {
    __atomic_store_n(&R.words[i], value, __ATOMIC_RELEASE);
}

/* A mock with these settings, and the primary context of device 0. */
static void context_open(mock_cuda_desc desc) {
    desc.seed = desc.seed ? desc.seed : seed;
    mock_cuda_setup(&desc);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&R.context, 0));
    OK(cuCtxPushCurrent_v2(R.context));
}

/* Ends the context, in which nothing else may be left. */
static void context_close(void) {
    mc_handle popped;
    OK(cuCtxPopCurrent_v2(&popped));
    assert_ptr_equal(popped, R.context);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    IS(201, cuCtxSynchronize());
}

/* ... with streams, memory and kernels. */
static void rig_open(mock_cuda_desc desc) {
    void *memory;
    context_open(desc);
    for (uint32_t i = 0; i < STREAMS; i++) {
        OK(cuStreamCreateWithPriority(&R.s[i], 1, 0));
    }
    OK(cuMemHostAlloc(&memory, WORDS * 8, 3));
    R.words = (uint64_t *)memory;
    memset(R.words, 0, WORDS * 8);
    OK(cuMemAlloc_v2(&R.memory, WORDS * 8));
    OK(cuModuleLoadDataEx(&R.module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&R.add, R.module, "t_add"));
    OK(cuModuleGetFunction(&R.hold, R.module, "t_hold"));
    OK(cuModuleGetFunction(&R.copy, R.module, "t_copy"));
    OK(cuModuleGetFunction(&R.fault, R.module, "t_fault"));
}

static mock_cuda_counts counts(void) {
    mock_cuda_counts c;
    mock_cuda_stats(&c);
    return c;
}

static void rig_close(void) {
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(R.module));
    for (uint32_t i = 0; i < STREAMS; i++) {
        OK(cuStreamDestroy_v2(R.s[i]));
    }
    OK(cuMemFree_v2(R.memory));
    OK(cuMemFreeHost(R.words));
    context_close();
    mock_cuda_counts c = counts();
    assert_int_equal(c.contexts + c.streams + c.events + c.modules + c.graphs + c.graph_execs +
                     c.pools + c.device_allocations + c.host_allocations + c.registered +
                     c.operations_pending + c.left_behind, 0);
}

#define RIG(...) rig_open((mock_cuda_desc){__VA_ARGS__})

static int rig_setup(void **state) {
    rig_open(*(const mock_cuda_desc *)*state);
    return 0;
}

static int rig_teardown(UNUSED void **state) {
    rig_close();
    return 0;
}

#define CASE(name) static void name(UNUSED void **state)

static int launch(mc_handle function, uint32_t threads, const void *args, size_t size,
                  mc_handle stream) {
    void *extra[] = {(void *)1, (void *)(uintptr_t)args, (void *)2, &size, NULL};
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, NULL, extra);
}

/* Adds n to a pinned word. */
static int add(uint32_t at, uint32_t n, mc_handle stream) {
    struct { uint64_t word; uint32_t n; } args = {pinned(at), n};
    return launch(R.add, 1, &args, 12, stream);
}

/* Waits in a kernel until a pinned word is at least that. */
static int hold(uint32_t at, uint64_t least, mc_handle stream) {
    uint64_t args[2] = {pinned(at), least};
    return launch(R.hold, 1, args, sizeof args, stream);
}

/* One byte at an address. */
static int set(mc_address at, unsigned char value, mc_handle stream) {
    return cuMemsetD8Async(at, value, 1, stream);
}

/* For a while nothing of these words changes, and something is enqueued. */
static void still(uint64_t words) {
    uint64_t now = word(1) + word(2) + word(3);
    assert_int_equal(now, words);
    assert_int_equal(mock_cuda_idle(2), 0);
    assert_int_equal(word(1) + word(2) + word(3), now);
}

static void misused(const char *part) {
    char text[512];
    uint64_t n = mock_cuda_expect_misuse(0, text, sizeof text);
    if (n == 0 || !strstr(text, part)) {
        fail_msg("'%s' is not the misuse '%s' (%llu)", text, part, (unsigned long long)n);
    }
}

/* The call is misuse, or what it enqueues is when its turn in the stream comes. */
#define MISUSE(stream, part, call) \
    do { \
        (void)mock_cuda_expect_misuse(1, NULL, 0); \
        (void)(call); \
        (void)cuStreamSynchronize(stream); \
        misused(part); \
    } while (0)

#endif /* HCQ_TEST_MOCK_CUDA_RIG_H */
