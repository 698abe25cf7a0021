/* cuda_check.c - the mock CUDA driver, by raw calls: that it executes, in which
   order, and that it finds the mistakes; it has to be right before it judges the
   backend.

   mock_cuda_check [--filter NAME] [--seed N] (the rest of the tests' arguments is
   accepted). The library is $HCQ_TEST_CUDA_MOCK/libcuda.so.1, or that of
   $HCQ_TEST_CUDA_VERSION: libcuda-11040.so.1. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "cuda.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLOW 4
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 4
#endif
#endif
#ifndef SLOW
#define SLOW 1
#endif

/* ---- the driver ---- */

typedef uint64_t addr;
typedef void *handle;

typedef struct kernel_params {
    handle function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    handle kernel, context;            /* _v2 */
} kernel_params;

typedef struct copy_end {
    size_t x, y, z, lod;
    unsigned type;
    void *host;
    addr device;
    void *array, *reserved;
    size_t pitch, height;
} copy_end;

typedef struct copy_params {
    copy_end src, dst;
    size_t width, height, depth;
} copy_params;

typedef struct set_params {
    addr dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} set_params;

typedef struct batch_params {
    unsigned operation;
    addr address;
    uint64_t value;
    unsigned flags;
    addr alias;
    uint64_t pad;
} batch_params;

typedef struct batch_node_params {
    handle context;
    unsigned count;
    batch_params *params;
    unsigned flags;
} batch_node_params;

typedef struct pool_props {
    int type, handle_types, location, id;
    void *security;
    unsigned char reserved[64];
} pool_props;

typedef struct pool_access {
    int location, id;
    unsigned flags;
} pool_access;

#define NODE handle *, handle, const handle *, size_t

#define FUNCTIONS(X) \
    X(cuInit, (unsigned)) \
    X(cuDriverGetVersion, (int *)) \
    X(cuGetErrorName, (int, const char **)) \
    X(cuDeviceGetCount, (int *)) \
    X(cuDeviceGetAttribute, (int *, int, int)) \
    X(cuDeviceCanAccessPeer, (int *, int, int)) \
    X(cuDevicePrimaryCtxRetain, (handle *, int)) \
    X(cuDevicePrimaryCtxRelease_v2, (int)) \
    X(cuCtxCreate_v2, (handle *, unsigned, int)) \
    X(cuCtxDestroy_v2, (handle)) \
    X(cuCtxPushCurrent_v2, (handle)) \
    X(cuCtxPopCurrent_v2, (handle *)) \
    X(cuCtxGetCurrent, (handle *)) \
    X(cuCtxGetDevice, (int *)) \
    X(cuCtxSynchronize, (void)) \
    X(cuCtxEnablePeerAccess, (handle, unsigned)) \
    X(cuCtxDisablePeerAccess, (handle)) \
    X(cuMemGetInfo_v2, (size_t *, size_t *)) \
    X(cuMemAlloc_v2, (addr *, size_t)) \
    X(cuMemAllocManaged, (addr *, size_t, unsigned)) \
    X(cuMemFree_v2, (addr)) \
    X(cuMemHostAlloc, (void **, size_t, unsigned)) \
    X(cuMemFreeHost, (void *)) \
    X(cuMemHostGetDevicePointer_v2, (addr *, void *, unsigned)) \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned)) \
    X(cuMemHostUnregister, (void *)) \
    X(cuMemPoolCreate, (handle *, const pool_props *)) \
    X(cuMemPoolDestroy, (handle)) \
    X(cuMemPoolSetAttribute, (handle, int, void *)) \
    X(cuMemPoolSetAccess, (handle, const pool_access *, size_t)) \
    X(cuMemPoolTrimTo, (handle, size_t)) \
    X(cuMemAllocFromPoolAsync, (addr *, size_t, handle, handle)) \
    X(cuMemFreeAsync, (addr, handle)) \
    X(cuMemcpyAsync, (addr, addr, size_t, handle)) \
    X(cuMemsetD8Async, (addr, unsigned char, size_t, handle)) \
    X(cuMemsetD16Async, (addr, unsigned short, size_t, handle)) \
    X(cuMemsetD32Async, (addr, unsigned, size_t, handle)) \
    X(cuMemsetD2D32Async, (addr, size_t, unsigned, size_t, size_t, handle)) \
    X(cuModuleLoadDataEx, (handle *, const void *, unsigned, int *, void **)) \
    X(cuModuleUnload, (handle)) \
    X(cuModuleGetFunction, (handle *, handle, const char *)) \
    X(cuFuncGetAttribute, (int *, int, handle)) \
    X(cuFuncSetAttribute, (handle, int, int)) \
    X(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       unsigned, handle, void **, void **)) \
    X(cuLaunchHostFunc, (handle, void (*)(void *), void *)) \
    X(cuStreamCreateWithPriority, (handle *, unsigned, int)) \
    X(cuStreamDestroy_v2, (handle)) \
    X(cuStreamQuery, (handle)) \
    X(cuStreamSynchronize, (handle)) \
    X(cuStreamWaitEvent, (handle, handle, unsigned)) \
    X(cuStreamGetCtx, (handle, handle *)) \
    X(cuEventCreate, (handle *, unsigned)) \
    X(cuEventDestroy_v2, (handle)) \
    X(cuEventRecord, (handle, handle)) \
    X(cuEventQuery, (handle)) \
    X(cuEventSynchronize, (handle)) \
    X(cuEventElapsedTime, (float *, handle, handle)) \
    X(cuStreamWaitValue32, (handle, addr, uint32_t, unsigned)) \
    X(cuStreamWriteValue64, (handle, addr, uint64_t, unsigned)) \
    X(cuGraphCreate, (handle *, unsigned)) \
    X(cuGraphDestroy, (handle)) \
    X(cuGraphAddEmptyNode, (NODE)) \
    X(cuGraphAddKernelNode, (NODE, const kernel_params *)) \
    X(cuGraphAddMemcpyNode, (NODE, const copy_params *, handle)) \
    X(cuGraphAddMemsetNode, (NODE, const set_params *, handle)) \
    X(cuGraphAddEventRecordNode, (NODE, handle)) \
    X(cuGraphAddEventWaitNode, (NODE, handle)) \
    X(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long)) \
    X(cuGraphUpload, (handle, handle)) \
    X(cuGraphLaunch, (handle, handle)) \
    X(cuGraphExecDestroy, (handle)) \
    X(cuGraphExecKernelNodeSetParams, (handle, handle, const kernel_params *)) \
    X(cuGraphExecMemcpyNodeSetParams, (handle, handle, const copy_params *, handle)) \
    X(cuGraphExecMemsetNodeSetParams, (handle, handle, const set_params *, handle))

/* Those that old drivers lack. */
#define LATER_FUNCTIONS(X) \
    X(cuStreamWaitValue32_v2, (handle, addr, uint32_t, unsigned)) \
    X(cuStreamWaitValue64_v2, (handle, addr, uint64_t, unsigned)) \
    X(cuStreamWriteValue32_v2, (handle, addr, uint32_t, unsigned)) \
    X(cuStreamWriteValue64_v2, (handle, addr, uint64_t, unsigned)) \
    X(cuStreamBatchMemOp_v2, (handle, unsigned, const batch_params *, unsigned)) \
    X(cuGraphAddBatchMemOpNode, (NODE, const batch_node_params *)) \
    X(cuGraphExecBatchMemOpNodeSetParams, (handle, handle, const batch_node_params *)) \
    X(cuGraphNodeSetEnabled, (handle, handle, unsigned)) \
    X(cuFuncLoad, (handle)) \
    X(cuFuncIsLoaded, (int *, handle)) \
    X(cuGraphAddKernelNode_v2, (NODE, const kernel_params *)) \
    X(cuGraphExecKernelNodeSetParams_v2, (handle, handle, const kernel_params *))

#define MEMBER(name, args) int (*name) args;
static struct { FUNCTIONS(MEMBER) LATER_FUNCTIONS(MEMBER) } cu;
static mock_cuda_api mock;
static void *library;
static uint64_t seed = 1;
static int has_v2;

#define NAME(name, args) #name,
static const char *const names[] = {FUNCTIONS(NAME) LATER_FUNCTIONS(NAME)};
enum {
#define COUNT(name, args) INDEX_##name,
    FUNCTIONS(COUNT) FUNCTION_COUNT,
    AGAIN = FUNCTION_COUNT - 1, LATER_FUNCTIONS(COUNT) ALL_COUNT
};

static void *driver_open(const char *version) {
    const char *folder = getenv("HCQ_TEST_CUDA_MOCK");
    char path[4096];
    snprintf(path, sizeof path, "%s/libcuda%s%s.so.1", folder ? folder : ".",
             version && *version ? "-" : "", version ? version : "");
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void driver_functions(void *from) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(from, names[i]);
        memcpy((char *)&cu + i * sizeof symbol, &symbol, sizeof symbol);
    }
    has_v2 = cu.cuStreamWriteValue64_v2 != NULL;
}

/* ---- a device to play with ---- */

#define OK(call) assert_int_equal(call, 0)
#define IS(code, call) assert_int_equal(call, code)

enum { WORDS = 512, STREAMS = 4 };

static struct {
    handle context, module, streams[STREAMS], add, hold, copy, fault;
    uint64_t *words;                   /* pinned */
    addr memory;                       /* WORDS * 8 bytes of the device */
} R;

static const char ptx[] =
    "// a module\n"
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry t_add(.param .u64 word, .param .u32 n)\n"
    "{ .reg .b64 %rd<3>; .shared .align 4 .b8 space[1024]; ld.param.u64 %rd1, [word]; ret; }\n"
    ".visible .entry t_hold(.param .u64 word, .param .u64 least) { L: bra.uni L; }\n"
    ".entry t_copy(.param .u64 .ptr .global .align 8 dst, .param .u64 src)\n"
    ".maxntid 128, 1, 1\n{ @%p1 ret; /* } */ exit; }\n"
    ".visible .entry t_fault() { trap; }\n"
    ".visible .entry t_odd(.param .u8 a, .param .align 16 .b8 b[20], .param .u16 c) { ret; }\n"
    ".visible .entry t_missing() { ret; }\n";

static void k_add(const void *args, const uint32_t id[3], const uint32_t grid[3],
                  const uint32_t block[3]) {
    struct { uint64_t *word; uint32_t n; } a;
    (void)id;
    (void)grid;
    memcpy(&a, args, sizeof a);
    __atomic_fetch_add(a.word, (uint64_t)a.n * block[0], __ATOMIC_RELAXED);
}

static void k_hold(const void *args, const uint32_t id[3], const uint32_t grid[3],
                   const uint32_t block[3]) {
    struct { uint64_t *word, least; } a;
    (void)id;
    (void)grid;
    (void)block;
    memcpy(&a, args, sizeof a);
    while (__atomic_load_n(a.word, __ATOMIC_ACQUIRE) < a.least) {
        usleep(20);
    }
}

static void k_copy(const void *args, const uint32_t id[3], const uint32_t grid[3],
                   const uint32_t block[3]) {
    struct { uint64_t *dst, *src; } a;
    (void)id;
    (void)grid;
    (void)block;
    memcpy(&a, args, sizeof a);
    *a.dst = *a.src;
}

static void k_fault(const void *args, const uint32_t id[3], const uint32_t grid[3],
                    const uint32_t block[3]) {
    (void)args;
    (void)id;
    (void)grid;
    (void)block;
    mock.fault(719);
}

static addr pinned(uint32_t word) { return (addr)(uintptr_t)&R.words[word]; }

static uint64_t word(uint32_t i) { return __atomic_load_n(&R.words[i], __ATOMIC_ACQUIRE); }

static void set_word(uint32_t i, uint64_t value) {
    __atomic_store_n(&R.words[i], value, __ATOMIC_RELEASE);
}

static void rig_functions(void) {
    OK(cu.cuModuleLoadDataEx(&R.module, ptx, 0, NULL, NULL));
    OK(cu.cuModuleGetFunction(&R.add, R.module, "t_add"));
    OK(cu.cuModuleGetFunction(&R.hold, R.module, "t_hold"));
    OK(cu.cuModuleGetFunction(&R.copy, R.module, "t_copy"));
    OK(cu.cuModuleGetFunction(&R.fault, R.module, "t_fault"));
}

/* A mock with these settings, the primary context of device 0, streams and memory. */
static void rig_open(mock_cuda_desc desc) {
    void *memory;
    desc.seed = desc.seed ? desc.seed : seed;
    mock.setup(&desc);
    (void)mock.expect_misuse(0, NULL, 0);
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&R.context, 0));
    OK(cu.cuCtxPushCurrent_v2(R.context));
    for (uint32_t i = 0; i < STREAMS; i++) {
        OK(cu.cuStreamCreateWithPriority(&R.streams[i], 1, 0));
    }
    OK(cu.cuMemHostAlloc(&memory, WORDS * 8, 3));
    R.words = (uint64_t *)memory;
    memset(R.words, 0, WORDS * 8);
    OK(cu.cuMemAlloc_v2(&R.memory, WORDS * 8));
    rig_functions();
}

static mock_cuda_counts counts(void) {
    mock_cuda_counts c;
    mock.stats(&c);
    return c;
}

/* Ends the context, in which nothing else may be left. */
static void rig_end(void) {
    handle popped;
    OK(cu.cuCtxPopCurrent_v2(&popped));
    assert_ptr_equal(popped, R.context);
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    IS(201, cu.cuCtxSynchronize());
}

static void rig_close(void) {
    OK(cu.cuCtxSynchronize());
    OK(cu.cuModuleUnload(R.module));
    for (uint32_t i = 0; i < STREAMS; i++) {
        OK(cu.cuStreamDestroy_v2(R.streams[i]));
    }
    OK(cu.cuMemFree_v2(R.memory));
    OK(cu.cuMemFreeHost(R.words));
    rig_end();
    mock_cuda_counts c = counts();
    assert_int_equal(c.contexts + c.streams + c.events + c.modules + c.graphs + c.graph_execs +
                     c.pools + c.device_allocations + c.device_bytes + c.host_allocations +
                     c.host_bytes + c.registered + c.operations_pending + c.left_behind, 0);
}

static int launch(handle function, uint32_t threads, const void *args, size_t size,
                  handle stream) {
    void *extra[] = {(void *)1, (void *)(uintptr_t)args, (void *)2, &size, NULL};
    return cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, NULL, extra);
}

/* Adds n to a pinned word. */
static int add(uint32_t at, uint32_t n, handle stream) {
    struct { uint64_t word; uint32_t n; } args = {pinned(at), n};
    return launch(R.add, 1, &args, 12, stream);
}

/* Waits in a kernel until a pinned word is at least that. */
static int hold(uint32_t at, uint64_t least, handle stream) {
    uint64_t args[2] = {pinned(at), least};
    return launch(R.hold, 1, args, sizeof args, stream);
}

static void expect(int on) { (void)mock.expect_misuse(on, NULL, 0); }

/* There was misuse since the last time, whose text has this in it. */
static void misused(const char *part) {
    char text[512];
    uint64_t n = mock.expect_misuse(1, text, sizeof text);
    if (n == 0 || !strstr(text, part)) {
        fail_msg("'%s' is not the misuse '%s' (%llu)", text, part, (unsigned long long)n);
    }
}

static void not_misused(void) {
    char text[512];
    if (mock.expect_misuse(1, text, sizeof text) != 0) {
        fail_msg("%s", text);
    }
}

static void nap(uint32_t us) { usleep(us * SLOW); }

/* ---- the mock itself ---- */

static void child_aborts(void) {
    addr memory = 0;
    handle context;
    (void)!freopen("/dev/null", "w", stderr);
    mock.setup(NULL);
    (void)cu.cuInit(0);
    (void)cu.cuDevicePrimaryCtxRetain(&context, 0);
    (void)cu.cuCtxPushCurrent_v2(context);
    (void)cu.cuMemAlloc_v2(&memory, 64);
    (void)cu.cuMemFree_v2(memory + 8);
    _exit(0);
}

static void aborts(void **state) {
    int status = 0;
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        child_aborts();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

static void versions(void **state) {
    static const char *const profiles[] = {"11040", "11070", "12000", "13000"};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        void *old = driver_open(profiles[i]);
        int version = 0;
        if (!old) {
            continue;
        }
        driver_functions(old);
        OK(cu.cuDriverGetVersion(&version));
        assert_int_equal(version, atoi(profiles[i]));
        for (uint32_t k = 0; k < FUNCTION_COUNT; k++) {
            assert_non_null(dlsym(old, names[k]));
        }
        assert_int_equal(cu.cuStreamWriteValue64_v2 != NULL, version >= 11070);
        assert_int_equal(cu.cuStreamBatchMemOp_v2 != NULL, version >= 11070);
        assert_int_equal(cu.cuGraphAddBatchMemOpNode != NULL, version >= 11070);
        assert_int_equal(cu.cuGraphExecBatchMemOpNodeSetParams != NULL, version >= 11070);
        assert_int_equal(cu.cuGraphNodeSetEnabled != NULL, version >= 11070);
        assert_int_equal(cu.cuGraphAddKernelNode_v2 != NULL, version >= 12000);
        assert_int_equal(cu.cuGraphExecKernelNodeSetParams_v2 != NULL, version >= 12000);
        assert_null(dlsym(old, "cuStreamCreate_v2"));
    }
    driver_functions(library);
}

static void begin(void **state) {
    int n = 0;
    const char *text;
    handle context;
    (void)state;
    mock_cuda_desc desc = {.init_result = 34};
    mock.setup(&desc);
    IS(3, cu.cuDeviceGetCount(&n));
    IS(34, cu.cuInit(0));
    IS(3, cu.cuDevicePrimaryCtxRetain(&context, 0));
    desc.init_result = 0;
    desc.devices = UINT32_MAX;
    mock.setup(&desc);
    IS(100, cu.cuInit(0));
    OK(cu.cuGetErrorName(719, &text));
    assert_string_equal(text, "CUDA_ERROR_LAUNCH_FAILED");
    IS(1, cu.cuGetErrorName(12345, &text));
    setenv("MOCK_CUDA_DEVICES", "3", 1);
    mock.setup(NULL);
    unsetenv("MOCK_CUDA_DEVICES");
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGetCount(&n));
    assert_int_equal(n, 3);
    IS(101, cu.cuDevicePrimaryCtxRetain(&context, 3));
}

static void attributes(void **state) {
    int value = 0;
    (void)state;
    mock_cuda_desc desc = {.capability = 75, .processors = 7,
                           .flags = MOCK_CUDA_NO_POOLS | MOCK_CUDA_NO_REGISTER};
    rig_open(desc);
    static const struct { int attribute, value; } some[] = {
        {1, 1024}, {4, 64}, {7, 65535}, {8, 49152}, {10, 32}, {16, 7}, {31, 1}, {40, 2}, {41, 1},
        {75, 7}, {76, 5}, {91, 1}, {92, 0}, {97, 232448}, {99, 0}, {115, 0}
    };
    for (uint32_t i = 0; i < sizeof some / sizeof *some; i++) {
        OK(cu.cuDeviceGetAttribute(&value, some[i].attribute, 0));
        assert_int_equal(value, some[i].value);
    }
    IS(has_v2 ? 0 : 1, cu.cuDeviceGetAttribute(&value, 122, 0));
    IS(1, cu.cuDeviceGetAttribute(&value, 400, 0));
    expect(1);
    IS(1, cu.cuDeviceGetAttribute(&value, 0, 0));
    misused("no attribute");
    expect(0);
    rig_close();
}

/* ---- order ---- */

static void one_by_one(void **state) {
    (void)state;
    for (uint32_t mode = 0; mode < 3; mode++) {
        mock_cuda_desc desc = {.mode = mode};
        rig_open(desc);
        for (uint32_t i = 0; i < 100; i++) {
            OK(cu.cuMemsetD32Async(pinned(1), i, 2, R.streams[0]));
            OK(cu.cuMemcpyAsync(R.memory + 8 * i, pinned(1), 8, R.streams[0]));
        }
        OK(cu.cuMemcpyAsync(pinned(100), R.memory, 800, R.streams[0]));
        OK(cu.cuStreamSynchronize(R.streams[0]));
        for (uint32_t i = 0; i < 100; i++) {
            assert_int_equal(word(100 + i), (uint64_t)i << 32 | i);
        }
        rig_close();
    }
}

/* Streams of different work queues run beside each other; those of one do not. */
static void work_queues(void **state) {
    (void)state;
    mock_cuda_desc desc = {.queues = 2};
    rig_open(desc);
    OK(hold(0, 1, R.streams[0]));
    OK(add(1, 5, R.streams[1]));
    OK(add(2, 7, R.streams[2]));       /* the work queue of streams[0] */
    OK(cu.cuStreamSynchronize(R.streams[1]));
    assert_int_equal(word(1), 5);
    nap(2000);
    assert_int_equal(word(2), 0);
    IS(600, cu.cuStreamQuery(R.streams[2]));
    IS(600, cu.cuStreamQuery(R.streams[0]));
    OK(cu.cuStreamQuery(R.streams[1]));
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(R.streams[2]));
    assert_int_equal(word(2), 7);
    rig_close();
}

/* Two streams without order between them: both orders are seen. */
static void by_chance(void **state) {
    uint32_t seen[2] = {0, 0};
    (void)state;
    mock_cuda_desc desc = {.queues = 2, .mode = MOCK_CUDA_RANDOM};
    rig_open(desc);
    for (uint32_t i = 0; i < 4000 && !(seen[0] && seen[1]); i++) {
        set_word(0, 0);
        OK(cu.cuMemsetD8Async(pinned(0), 1, 1, R.streams[i % 2]));
        OK(cu.cuMemsetD8Async(pinned(0), 2, 1, R.streams[1 - i % 2]));
        OK(cu.cuCtxSynchronize());
        seen[word(0) - 1] = 1;
    }
    assert_true(seen[0] && seen[1]);
    rig_close();
}

/* Work is gathered until somebody asks. */
static void late(void **state) {
    (void)state;
    mock_cuda_desc desc = {.mode = MOCK_CUDA_LATE, .late_polls = 5, .late_us = 10000000};
    rig_open(desc);
    OK(add(0, 1, R.streams[0]));
    nap(2000);
    assert_int_equal(word(0), 0);
    for (uint32_t i = 0; i < 5; i++) {
        IS(600, cu.cuStreamQuery(R.streams[0]));
    }
    while (cu.cuStreamQuery(R.streams[0]) == 600) {
    }
    assert_int_equal(word(0), 1);
    rig_close();
    desc.late_us = 500;
    rig_open(desc);
    OK(add(0, 1, R.streams[0]));
    while (word(0) == 0) {             /* nobody asks */
    }
    rig_close();
}

static void paused(void **state) {
    (void)state;
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    mock.pause(1);
    OK(add(0, 1, R.streams[0]));
    assert_int_equal(mock.idle(5), 0);
    assert_int_equal(counts().operations_pending, 1);
    mock.pause(0);
    assert_int_equal(mock.idle(10000), 1);
    assert_int_equal(word(0), 1);
    rig_close();
}

/* The legacy default stream and streams that are not NON_BLOCKING wait for each other. */
static void legacy_stream(void **state) {
    handle blocking;
    (void)state;
    mock_cuda_desc desc = {.queues = 8};
    rig_open(desc);
    OK(cu.cuStreamCreateWithPriority(&blocking, 0, 0));
    OK(hold(0, 1, blocking));
    OK(add(1, 1, NULL));
    OK(add(2, 1, blocking));
    OK(add(3, 1, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    nap(2000);
    assert_int_equal(word(1) + word(2), 0);
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(NULL));
    assert_int_equal(word(1), 1);
    OK(cu.cuStreamSynchronize(blocking));
    OK(hold(0, 2, NULL));
    OK(add(2, 1, blocking));
    nap(2000);
    assert_int_equal(word(2), 1);
    set_word(0, 2);
    OK(cu.cuStreamDestroy_v2(blocking));
    rig_close();
}

/* ---- events ---- */

static void events(void **state) {
    handle a, b;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    OK(cu.cuEventCreate(&a, 2));
    OK(cu.cuEventCreate(&b, 2));
    OK(cu.cuEventQuery(a));            /* never recorded: complete */
    OK(cu.cuEventSynchronize(a));
    OK(cu.cuStreamWaitEvent(R.streams[1], a, 0));
    OK(hold(0, 1, R.streams[0]));
    OK(cu.cuEventRecord(a, R.streams[0]));
    IS(600, cu.cuEventQuery(a));
    assert_int_equal(counts().events_pending, 1);
    OK(add(1, 1, R.streams[1]));       /* its wait came before the record */
    OK(cu.cuStreamSynchronize(R.streams[1]));
    OK(cu.cuStreamWaitEvent(R.streams[2], a, 0));
    OK(add(2, 1, R.streams[2]));
    OK(cu.cuEventRecord(a, R.streams[1])); /* changes nothing for streams[2] */
    OK(cu.cuEventSynchronize(a));
    nap(2000);
    assert_int_equal(word(2), 0);
    OK(cu.cuEventDestroy_v2(a));
    OK(cu.cuEventRecord(b, R.streams[0]));
    OK(cu.cuStreamWaitEvent(R.streams[3], b, 0));
    OK(add(3, 1, R.streams[3]));
    OK(cu.cuEventDestroy_v2(b));       /* in flight */
    nap(1000);
    assert_int_equal(word(3), 0);
    set_word(0, 1);
    OK(cu.cuCtxSynchronize());
    assert_int_equal(word(2) + word(3), 2);
    expect(1);
    IS(400, cu.cuEventQuery(a));
    misused("destroyed");
    IS(400, cu.cuEventQuery(R.streams[0]));
    misused("no event");
    expect(0);
    rig_close();
}

static void event_times(void **state) {
    handle a, b, quiet;
    float ms = -1;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    OK(cu.cuEventCreate(&a, 0));
    OK(cu.cuEventCreate(&b, 1));
    OK(cu.cuEventCreate(&quiet, 2));
    IS(400, cu.cuEventElapsedTime(&ms, a, b)); /* not recorded */
    OK(cu.cuEventRecord(a, R.streams[0]));
    OK(cu.cuEventSynchronize(a));
    usleep(3000);
    OK(cu.cuEventRecord(b, R.streams[0]));
    OK(cu.cuEventRecord(quiet, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    OK(cu.cuEventElapsedTime(&ms, a, b));
    assert_true(ms >= 2.9f && ms < 10000.0f);
    IS(400, cu.cuEventElapsedTime(&ms, a, quiet));
    assert_int_equal(counts().max_events, 3);
    OK(cu.cuEventDestroy_v2(a));
    OK(cu.cuEventDestroy_v2(b));
    assert_int_equal(counts().max_events, 3);
    assert_int_equal(counts().max_events, 1);
    OK(cu.cuEventDestroy_v2(quiet));
    rig_close();
}

/* An event is recorded in its own context, and may be waited for in others. */
static void event_contexts(void **state) {
    handle other, stream, event;
    (void)state;
    mock_cuda_desc desc = {.devices = 2};
    rig_open(desc);
    OK(cu.cuCtxCreate_v2(&other, 0, 1));
    OK(cu.cuStreamCreateWithPriority(&stream, 1, 0));
    OK(cu.cuEventCreate(&event, 2));
    IS(400, cu.cuEventRecord(event, R.streams[0]));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    OK(hold(0, 1, R.streams[0]));
    handle own;
    OK(cu.cuEventCreate(&own, 2));
    OK(cu.cuEventRecord(own, R.streams[0]));
    OK(cu.cuStreamWaitEvent(stream, own, 0));
    OK(cu.cuMemsetD8Async(pinned(1), 9, 1, stream));
    nap(2000);
    assert_int_equal(word(1), 0);
    set_word(0, 1);
    OK(cu.cuCtxPushCurrent_v2(other));
    OK(cu.cuStreamSynchronize(stream));
    assert_int_equal(word(1), 9);
    handle which;
    OK(cu.cuStreamGetCtx(stream, &which));
    assert_ptr_equal(which, other);
    IS(400, launch(R.fault, 1, NULL, 0, stream)); /* a function of another context */
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuEventDestroy_v2(event));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    OK(cu.cuEventDestroy_v2(own));
    OK(cu.cuCtxDestroy_v2(other));
    rig_close();
}

/* ---- memory operations ---- */

#define NEEDS_V2 \
    if (!has_v2) { \
        return; \
    }

static void values(void **state) {
    (void)state;
    NEEDS_V2
    mock_cuda_desc desc = {.queues = 2};
    rig_open(desc);
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 10, 0));
    assert_int_equal(counts().value_waits_early, 1);
    OK(cu.cuStreamWriteValue64_v2(R.streams[0], pinned(1), 77, 0));
    OK(cu.cuStreamWriteValue64_v2(R.streams[2], pinned(2), 1, 0)); /* behind, in the work queue */
    OK(cu.cuStreamWriteValue64_v2(R.streams[1], pinned(3), 1, 0));
    OK(cu.cuStreamSynchronize(R.streams[1]));
    nap(2000);
    assert_int_equal(word(1) + word(2), 0);
    set_word(0, 10);
    OK(cu.cuStreamSynchronize(R.streams[2]));
    assert_int_equal(word(1), 77);
    assert_int_equal(word(2), 1);
    OK(cu.cuStreamWriteValue64_v2(R.streams[0], pinned(4), 5, 0));
    OK(cu.cuStreamWaitValue64_v2(R.streams[1], pinned(4), 5, 0)); /* its store is under way */
    OK(cu.cuCtxSynchronize());
    assert_int_equal(counts().value_waits_early, 1);
    rig_close();
}

/* Cyclic >=, ==, &, nor. */
static void value_conditions(void **state) {
    (void)state;
    NEEDS_V2
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    set_word(0, 2);                    /* 2 is 3 further than 2^64 - 1 */
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), UINT64_MAX, 0));
    OK(cu.cuStreamWaitValue32_v2(R.streams[0], pinned(0), UINT32_MAX, 0));
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 2, 1));
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 6, 2));
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 0, 3));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    for (uint32_t i = 1; i < 4; i++) {
        static const uint64_t wanted[] = {0, 3, 4, ~2ull};
        OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), wanted[i], i));
        nap(1000);
        IS(600, cu.cuStreamQuery(R.streams[0]));
        set_word(0, i == 1 ? 3 : i == 2 ? 4 : 0);
        OK(cu.cuStreamSynchronize(R.streams[0]));
        set_word(0, 2);
    }
    IS(1, cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 0, 4));
    IS(1, cu.cuStreamWriteValue64_v2(R.streams[0], pinned(0), 0, 1));
    batch_params batch[3] = {{.operation = 2, .address = pinned(5), .value = 1ull << 40 | 3},
                             {.operation = 6}, {.operation = 5, .address = pinned(6), .value = 4}};
    OK(cu.cuStreamBatchMemOp_v2(R.streams[0], 3, batch, 0));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(5), 3);
    assert_int_equal(word(6), 4);
    rig_close();
}

static void value_mistakes(void **state) {
    static uint64_t elsewhere;
    addr managed;
    (void)state;
    NEEDS_V2
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    OK(cu.cuMemAllocManaged(&managed, 64, 1));
    IS(1, cu.cuStreamWriteValue64_v2(R.streams[0], managed, 1, 0));
    expect(1);
    IS(1, cu.cuStreamWriteValue64_v2(R.streams[0], pinned(0) + 4, 1, 0));
    misused("8 bytes at");
    IS(1, cu.cuStreamWriteValue64_v2(R.streams[0], (addr)(uintptr_t)&elsewhere, 1, 0));
    misused("not the device's or pinned");
    expect(0);
    OK(cu.cuMemFree_v2(managed));
    IS(801, cu.cuStreamWriteValue64(R.streams[0], pinned(0), 1, 0)); /* the old one */
    rig_close();
    desc.flags = MOCK_CUDA_NO_MEMOPS;
    rig_open(desc);
    IS(801, cu.cuStreamWriteValue64_v2(R.streams[0], pinned(0), 1, 0));
    rig_close();
    desc.flags = MOCK_CUDA_MEMOPS_V1 | MOCK_CUDA_NO_WAIT_VALUES;
    rig_open(desc);
    OK(cu.cuStreamWriteValue64(R.streams[0], pinned(0), 3, 0));
    expect(1);
    IS(1, cu.cuStreamWaitValue32(R.streams[0], pinned(0), 3, 0));
    misused("waits for a value");
    expect(0);
    rig_close();
}

/* A wait before its store in one work queue: nothing goes on, and the mock says so. */
static void value_deadlock(void **state) {
    (void)state;
    NEEDS_V2
    mock_cuda_desc desc = {.queues = 2, .watchdog_ms = 200};
    rig_open(desc);
    expect(1);
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 1, 0));
    OK(cu.cuStreamWriteValue64_v2(R.streams[2], pinned(0), 1, 0));
    assert_int_equal(mock.idle(20000), 1);
    misused("deadlock");
    OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(1), 1, 0));
    OK(cu.cuStreamWriteValue64_v2(R.streams[1], pinned(1), 1, 0)); /* another work queue */
    OK(cu.cuCtxSynchronize());
    not_misused();
    expect(0);
    rig_close();
}

/* Waits that CUDA takes and a backend must not enqueue. */
static void early_waits(void **state) {
    handle event, graph, exec, node;
    (void)state;
    mock_cuda_desc desc = {.queues = 4, .flags = MOCK_CUDA_NO_EARLY_WAITS};
    rig_open(desc);
    OK(cu.cuEventCreate(&event, 2));
    expect(1);
    IS(1, cu.cuStreamWaitEvent(R.streams[0], event, 0));
    misused("never recorded");
    OK(cu.cuEventRecord(event, R.streams[0]));
    OK(cu.cuStreamWaitEvent(R.streams[0], event, 0));
    if (has_v2) {
        batch_params wait = {.operation = 4, .address = pinned(0), .value = 3};
        batch_params store = {.operation = 5, .address = pinned(0), .value = 4};
        batch_node_params p = {.context = R.context, .count = 1, .params = &store};
        IS(1, cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 1, 0));
        misused("nothing enqueued stores");
        OK(hold(1, 1, R.streams[1]));
        OK(cu.cuStreamWriteValue64_v2(R.streams[1], pinned(0), 2, 0));
        OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 1, 0));
        IS(1, cu.cuStreamBatchMemOp_v2(R.streams[0], 1, &wait, 0));
        misused("nothing enqueued stores");
        OK(cu.cuGraphCreate(&graph, 0));
        OK(cu.cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
        OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cu.cuGraphLaunch(exec, R.streams[1]));
        OK(cu.cuStreamBatchMemOp_v2(R.streams[0], 1, &wait, 0));
        set_word(1, 1);
        OK(cu.cuCtxSynchronize());
        OK(cu.cuStreamWaitValue64_v2(R.streams[0], pinned(0), 4, 0)); /* it is there */
        OK(cu.cuGraphExecDestroy(exec));
        OK(cu.cuGraphDestroy(graph));
    }
    not_misused();
    expect(0);
    OK(cu.cuEventDestroy_v2(event));
    rig_close();
}

/* ---- memory ---- */

static void *lets_go_on(void *user) {
    nap(3000);
    set_word(1, word(1) + 1);
    return user;
}

/* Calls that may wait for the context's work. */
static void syncs(void **state) {
    void *memory;
    handle module;
    (void)state;
    mock_cuda_desc desc = {.flags = MOCK_CUDA_SYNCS};
    rig_open(desc);
    OK(cu.cuMemHostAlloc(&memory, 8, 3));
    OK(add(0, 1, R.streams[0]));
    for (uint32_t i = 0; i < (cu.cuFuncLoad ? 4 : 3); i++) {
        OK(hold(1, i + 1, R.streams[0]));
        pthread_t thread;
        pthread_create(&thread, NULL, lets_go_on, NULL);
        OK(i == 0 ? cu.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL) :
           i == 1 ? cu.cuModuleUnload(module) :
           i == 2 ? cu.cuMemFreeHost(memory) : cu.cuFuncLoad(R.copy));
        assert_int_equal(word(1), i + 1);
        assert_int_equal(counts().operations_pending, 0);
        pthread_join(thread, NULL);
    }
    if (cu.cuFuncLoad) {
        uint64_t args[2] = {pinned(3), pinned(0)};
        int loaded = 0;
        OK(cu.cuFuncIsLoaded(&loaded, R.copy));
        assert_int_equal(loaded, 1);
        OK(cu.cuFuncIsLoaded(&loaded, R.fault));
        assert_int_equal(loaded, 0);
        OK(hold(1, 5, R.streams[0]));
        OK(launch(R.copy, 1, args, sizeof args, R.streams[1])); /* waits for nobody */
        OK(cu.cuStreamSynchronize(R.streams[1]));
        assert_int_equal(word(3), 1);
        set_word(1, 5);
    }
    rig_close();
}

static void *lets_go(void *user) {
    nap(3000);
    set_word(0, 1);
    return user;
}

static void device_memory(void **state) {
    addr a, b;
    size_t left, total;
    (void)state;
    mock_cuda_desc desc = {.memory_bytes = 1 << 20, .queues = 2};
    rig_open(desc);
    OK(cu.cuMemGetInfo_v2(&left, &total));
    assert_int_equal(total, 1 << 20);
    assert_int_equal(left, (1 << 20) - WORDS * 8);
    IS(1, cu.cuMemAlloc_v2(&a, 0));
    IS(2, cu.cuMemAlloc_v2(&a, 1 << 20));
    OK(cu.cuMemAlloc_v2(&a, 1 << 19));
    IS(2, cu.cuMemAlloc_v2(&b, 1 << 19));
    OK(hold(0, 1, R.streams[0]));
    OK(cu.cuMemsetD8Async(a, 1, 1 << 19, R.streams[0]));
    pthread_t thread;
    pthread_create(&thread, NULL, lets_go, NULL);
    OK(cu.cuMemFree_v2(a));            /* waits for what is enqueued */
    assert_int_equal(word(0), 1);
    assert_int_equal(counts().operations_pending, 0);
    pthread_join(thread, NULL);
    expect(1);
    IS(1, cu.cuMemFree_v2(a));
    misused("was freed");
    OK(cu.cuMemsetD8Async(a, 1, 16, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    misused("was freed");
    OK(cu.cuMemsetD8Async(R.memory + 8, 1, WORDS * 8, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    misused("pass the end");
    OK(cu.cuMemcpyAsync(R.memory, R.memory + 8, 16, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    misused("overlap");
    uint64_t dead[2] = {a, pinned(0)};
    OK(launch(R.copy, 1, dead, sizeof dead, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    misused("t_copy");
    expect(0);
    OK(cu.cuMemFree_v2(0));
    rig_close();
}

static void free_in_use(void **state) {
    addr a;
    void *memory;
    (void)state;
    mock_cuda_desc desc = {.flags = MOCK_CUDA_FREE_AT_ONCE};
    rig_open(desc);
    OK(cu.cuMemAlloc_v2(&a, 64));
    OK(cu.cuMemHostAlloc(&memory, 64, 3));
    memset(memory, 0, 64);
    OK(hold(0, 1, R.streams[0]));
    OK(cu.cuMemcpyAsync(a, (addr)(uintptr_t)memory, 64, R.streams[0]));
    expect(1);
    IS(1, cu.cuMemFree_v2(a));
    misused("names");
    IS(1, cu.cuMemFreeHost(memory));
    misused("names");
    IS(1, cu.cuModuleUnload(R.module));
    misused("t_hold");
    expect(0);
    set_word(0, 1);
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemFree_v2(a));
    OK(cu.cuMemFreeHost(memory));
    rig_close();
}

static unsigned char own[16384];

static unsigned char *own_page(void) { return own + (4096 - (uintptr_t)own % 4096) % 4096; }

static void registered_memory(void **state) {
    addr seen;
    unsigned char *page = own_page();
    (void)state;
    mock_cuda_desc desc = {.flags = MOCK_CUDA_REGISTER_PAGES};
    rig_open(desc);
    OK(cu.cuMemHostRegister_v2(page, 100, 3));
    IS(712, cu.cuMemHostRegister_v2(page + 50, 100, 3));
    IS(712, cu.cuMemHostRegister_v2(page + 200, 100, 3)); /* the same page */
    OK(cu.cuMemHostRegister_v2(page + 4096, 100, 3));
    IS(1, cu.cuMemHostRegister_v2((void *)(uintptr_t)4096, 100, 3));
    assert_int_equal(counts().registered, 2);
    OK(cu.cuMemHostGetDevicePointer_v2(&seen, page, 0));
    OK(cu.cuMemsetD8Async(seen, 3, 100, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(page[99], 3);
    OK(cu.cuMemHostUnregister(page));
    IS(713, cu.cuMemHostUnregister(page));
    OK(cu.cuMemHostUnregister(page + 4096));
    rig_close();
    desc.flags = 0;                    /* byte by byte */
    rig_open(desc);
    OK(cu.cuMemHostRegister_v2(page, 100, 3));
    IS(712, cu.cuMemHostRegister_v2(page + 99, 100, 3));
    OK(cu.cuMemHostRegister_v2(page + 100, 100, 3));
    IS(712, cu.cuMemHostRegister_v2(page, 4096, 3));
    OK(cu.cuMemHostUnregister(page));
    OK(cu.cuMemHostUnregister(page + 100));
    rig_close();
    desc.flags = MOCK_CUDA_NO_REGISTER;
    rig_open(desc);
    IS(801, cu.cuMemHostRegister_v2(page, 100, 3));
    rig_close();
}

static void pinned_memory(void **state) {
    addr seen, at = (addr)(uintptr_t)own_page();
    (void)state;
    mock_cuda_desc desc = {.queues = 2};
    rig_open(desc);
    OK(cu.cuMemHostGetDevicePointer_v2(&seen, R.words, 0));
    assert_int_equal(seen, pinned(0));
    IS(1, cu.cuMemHostGetDevicePointer_v2(&seen, own_page(), 0));
    OK(cu.cuMemcpyAsync(R.memory, at, 64, R.streams[0]));
    own_page()[0]++;                   /* it was read */
    OK(cu.cuMemcpyAsync(at, R.memory, 64, R.streams[0]));
    assert_int_equal(counts().pageable_copies, 2);
    expect(1);
    IS(1, cu.cuMemFreeHost(own_page()));
    misused("not of cuMemHostAlloc");
    expect(0);
    rig_close();
    desc.flags = MOCK_CUDA_PAGEABLE_IS_MISUSE;
    rig_open(desc);
    expect(1);
    IS(1, cu.cuMemcpyAsync(R.memory, at, 64, R.streams[0]));
    misused("not pinned");
    expect(0);
    rig_close();
}

static handle pool_new(void) {
    handle pool = NULL;
    pool_props props = {.type = 1, .location = 1};
    OK(cu.cuMemPoolCreate(&pool, &props));
    return pool;
}

/* Memory of a pool is there from its turn in the stream on. */
static void pools(void **state) {
    addr a;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    handle pool = pool_new();
    OK(hold(0, 1, R.streams[0]));
    OK(cu.cuMemAllocFromPoolAsync(&a, 4096, pool, R.streams[0]));
    expect(1);
    OK(cu.cuMemsetD8Async(a, 1, 16, R.streams[1])); /* nothing orders it */
    OK(cu.cuStreamSynchronize(R.streams[1]));
    misused("nothing orders");
    set_word(0, 1);
    OK(cu.cuMemsetD8Async(a, 1, 16, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    OK(cu.cuMemsetD8Async(a, 1, 16, R.streams[1]));
    OK(cu.cuStreamSynchronize(R.streams[1]));
    not_misused();
    OK(hold(0, 2, R.streams[0]));
    OK(cu.cuMemFreeAsync(a, R.streams[0]));
    OK(cu.cuMemsetD8Async(a, 1, 16, R.streams[1])); /* before the free's turn, by luck */
    OK(cu.cuStreamSynchronize(R.streams[1]));
    misused("after its cuMemFreeAsync");
    IS(1, cu.cuMemFreeAsync(a, R.streams[0]));
    misused("was freed");
    set_word(0, 2);
    OK(cu.cuStreamSynchronize(R.streams[0]));
    OK(cu.cuMemsetD8Async(a, 1, 16, R.streams[1]));
    OK(cu.cuStreamSynchronize(R.streams[1]));
    misused("was freed");
    expect(0);
    OK(cu.cuMemPoolDestroy(pool));
    rig_close();
}

static void pool_sizes(void **state) {
    addr a, b;
    size_t left, total;
    uint64_t keep = 1 << 19;
    (void)state;
    mock_cuda_desc desc = {.memory_bytes = 1 << 20};
    rig_open(desc);
    handle pool = pool_new();
    OK(cu.cuMemPoolSetAttribute(pool, 4, &keep));
    OK(cu.cuMemAllocFromPoolAsync(&a, 3 << 18, pool, R.streams[0]));
    IS(2, cu.cuMemAllocFromPoolAsync(&b, 3 << 18, pool, R.streams[0]));
    OK(cu.cuMemFreeAsync(a, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    OK(cu.cuMemGetInfo_v2(&left, &total));
    assert_int_equal(left, total - WORDS * 8 - keep); /* down to the threshold */
    IS(2, cu.cuMemAlloc_v2(&b, 1 << 19));
    OK(cu.cuMemPoolTrimTo(pool, 0));
    OK(cu.cuMemAlloc_v2(&b, 1 << 19));
    OK(cu.cuMemFree_v2(b));
    OK(cu.cuMemPoolDestroy(pool));
    OK(cu.cuMemGetInfo_v2(&left, &total));
    assert_int_equal(left, total - WORDS * 8);
    rig_close();
}

/* ---- several devices ---- */

static void peers(void **state) {
    handle second;
    addr theirs;
    int can = -1, device = -1;
    (void)state;
    mock_cuda_desc desc = {.devices = 3, .peers = {2, 1, 0}}; /* 0 and 1 */
    rig_open(desc);
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 2));
    assert_int_equal(can, 0);
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 0));
    assert_int_equal(can, 0);
    OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cu.cuCtxPushCurrent_v2(second));
    OK(cu.cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cu.cuMemAlloc_v2(&theirs, 64));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    expect(1);
    OK(cu.cuMemsetD8Async(theirs, 1, 8, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    misused("cannot reach");
    expect(0);
    OK(cu.cuCtxEnablePeerAccess(second, 0));
    IS(704, cu.cuCtxEnablePeerAccess(second, 0));
    OK(cu.cuMemsetD8Async(theirs, 1, 8, R.streams[0]));
    OK(cu.cuMemcpyAsync(pinned(0), theirs, 8, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(0), 0x0101010101010101ull);
    OK(cu.cuCtxDisablePeerAccess(second));
    IS(705, cu.cuCtxDisablePeerAccess(second));
    OK(cu.cuCtxPushCurrent_v2(second));
    OK(cu.cuMemFree_v2(theirs));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    OK(cu.cuDevicePrimaryCtxRelease_v2(1));
    OK(cu.cuDevicePrimaryCtxRetain(&second, 2));
    IS(217, cu.cuCtxEnablePeerAccess(second, 0));
    OK(cu.cuDevicePrimaryCtxRelease_v2(2));
    rig_close();
}

static void pool_peers(void **state) {
    handle second, stream;
    addr a;
    (void)state;
    mock_cuda_desc desc = {.devices = 2};
    rig_open(desc);
    handle pool = pool_new();
    OK(cu.cuMemAllocFromPoolAsync(&a, 64, pool, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cu.cuCtxPushCurrent_v2(second));
    OK(cu.cuStreamCreateWithPriority(&stream, 1, 0));
    expect(1);
    OK(cu.cuMemsetD8Async(a, 1, 8, stream));
    OK(cu.cuStreamSynchronize(stream));
    misused("cannot reach");
    pool_access access = {1, 1, 3};
    OK(cu.cuMemPoolSetAccess(pool, &access, 1));
    OK(cu.cuMemsetD8Async(a, 1, 8, stream));
    OK(cu.cuStreamSynchronize(stream));
    not_misused();
    expect(0);
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    OK(cu.cuDevicePrimaryCtxRelease_v2(1));
    OK(cu.cuMemFreeAsync(a, R.streams[0]));
    OK(cu.cuMemPoolDestroy(pool));
    rig_close();
}

/* ---- modules ---- */

/* Loads a text; the error's log goes to `log`. */
static int load(handle *module, const char *text, char *log, size_t room) {
    int options[] = {5, 6, 3, 4};
    char information[64];
    void *values_[] = {log, (void *)room, information, (void *)sizeof information};
    int result = cu.cuModuleLoadDataEx(module, text, 4, options, values_);
    assert_int_equal((size_t)(uintptr_t)values_[1], strlen(log) + 1);
    return result;
}

static void bad_ptx(void **state) {
    static const struct { int code; const char *text, *part; } bad[] = {
        {218, "hello", "line 1"},
        {218, ".version 7.0\n.entry x() { ret; }", ".target"},
        {218, ".version 7.0\n.target sm_50\n.visible .entry x(.param .u65 a) { ret; }", "line 3"},
        {218, ".version 7.0\n.target sm_50\n.visible .entry x() {\n frobnicate.u32 %r1; }",
         "unknown instruction 'frobnicate.u32'"},
        {218, ".version 7.0\n.target sm_50\n.visible .entry x() { ret; ", "no end"},
        {218, ".version 7.0\n.target sm_120\n", "newer"},
        {222, ".version 99.0\n.target sm_50\n", "newer"}
    };
    handle module;
    char log[200];
    (void)state;
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        IS(bad[i].code, load(&module, bad[i].text, log, sizeof log));
        assert_non_null(strstr(log, bad[i].part));
    }
    IS(218, load(&module, "hello", log, 5));
    assert_int_equal(strlen(log), 4);
    OK(load(&module, ptx, log, sizeof log));
    assert_string_equal(log, "");
    OK(cu.cuModuleUnload(module));
    rig_close();
    desc.flags = MOCK_CUDA_NO_JIT;
    mock.setup(&desc);
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&R.context, 0));
    OK(cu.cuCtxPushCurrent_v2(R.context));
    IS(221, cu.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cu.cuModuleLoadDataEx(&module, "\177ELF", 0, NULL, NULL));
    handle f;
    OK(cu.cuModuleGetFunction(&f, module, "t_add"));
    IS(500, cu.cuModuleGetFunction(&f, module, "t_nobody"));
    OK(cu.cuModuleUnload(module));
    rig_end();
}

static void functions(void **state) {
    handle odd, missing, nobody;
    int value = 0;
    char block[64] = "";
    (void)state;
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    IS(500, cu.cuModuleGetFunction(&nobody, R.module, "nobody"));
    OK(cu.cuModuleGetFunction(&odd, R.module, "t_odd"));
    OK(cu.cuModuleGetFunction(&missing, R.module, "t_missing"));
    OK(cu.cuFuncGetAttribute(&value, 0, R.copy));
    assert_int_equal(value, 128);      /* .maxntid */
    OK(cu.cuFuncGetAttribute(&value, 1, R.add));
    assert_int_equal(value, 1024);     /* .shared */
    OK(cu.cuFuncGetAttribute(&value, 8, R.add));
    assert_int_equal(value, 48 * 1024 - 1024);
    IS(1, cu.cuFuncGetAttribute(&value, 99, R.add));
    IS(701, launch(R.copy, 256, block, 16, R.streams[0]));
    IS(1, launch(R.add, 2048, block, 16, R.streams[0]));
    IS(1, launch(R.add, 0, block, 16, R.streams[0]));
    IS(1, cu.cuLaunchKernel(R.fault, 1, 65536, 1, 1, 1, 1, 0, R.streams[0], NULL, NULL));
    IS(1, cu.cuLaunchKernel(R.fault, 1, 1, 1, 1, 1, 1, 49153, R.streams[0], NULL, NULL));
    IS(1, cu.cuFuncSetAttribute(R.fault, 8, 1 << 20));
    OK(cu.cuFuncSetAttribute(R.fault, 8, 100000));
    OK(cu.cuFuncGetAttribute(&value, 8, R.fault));
    assert_int_equal(value, 100000);
    expect(1);
    IS(1, launch(R.add, 1, block, 8, R.streams[0])); /* two parameters: 12 bytes */
    misused("12 bytes of parameters");
    IS(1, launch(odd, 1, block, 37, R.streams[0])); /* 1, 20 at 16, 2 at 36 */
    misused("38 bytes");
    IS(1, cu.cuLaunchKernel(R.add, 1, 1, 1, 1, 1, 1, 0, R.streams[0], NULL, NULL));
    OK(cu.cuLaunchKernel(missing, 1, 1, 1, 1, 1, 1, 0, R.streams[0], NULL, NULL));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    misused("has no function");
    expect(0);
    uint64_t at = pinned(7);
    uint32_t n = 6;
    void *params[] = {&at, &n};
    OK(cu.cuLaunchKernel(R.add, 2, 3, 1, 4, 1, 1, 0, R.streams[0], params, NULL));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(7), 6 * 4 * 6);
    rig_close();
}

/* The kernels that are always there. */
static void builtin(void **state) {
    static const char text[] =
        ".version 6.0 .target sm_50 .address_size 64\n"
        ".visible .entry hcq_stamp(.param .u64 dst) { ret; }\n"
        ".visible .entry hcq_fill(.param .u64 dst, .param .u64 value, .param .u64 n) { ret; }\n";
    struct timespec before, after;
    handle module, stamp, fill;
    (void)state;
    mock_cuda_desc desc = {.timer_step_ns = 1024, .timer_offset_ns = 5000000000};
    rig_open(desc);
    OK(cu.cuModuleLoadDataEx(&module, text, 0, NULL, NULL));
    OK(cu.cuModuleGetFunction(&stamp, module, "hcq_stamp"));
    OK(cu.cuModuleGetFunction(&fill, module, "hcq_fill"));
    uint64_t args[3] = {pinned(8), 42, 100};
    clock_gettime(CLOCK_REALTIME, &before);
    OK(launch(stamp, 1, args, 8, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    clock_gettime(CLOCK_REALTIME, &after);
    assert_int_equal(word(8) % 1024, 0);
    uint64_t t = word(8) - 5000000000;
    assert_true(t + 2048 >= (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
    assert_true(t <= (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
    void *extra[] = {(void *)1, args, (void *)2, &(size_t){24}, NULL};
    OK(cu.cuLaunchKernel(fill, 3, 1, 1, 8, 1, 1, 0, R.streams[0], NULL, extra));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    for (uint32_t i = 0; i < 101; i++) {
        assert_int_equal(word(8 + i), i < 100 ? 42 : 0);
    }
    OK(cu.cuModuleUnload(module));
    rig_close();
}

/* ---- contexts ---- */

static void contexts(void **state) {
    handle again, current, popped;
    (void)state;
    mock_cuda_desc desc = {.devices = 2};
    rig_open(desc);
    OK(cu.cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(again, R.context);
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuCtxGetCurrent(&current));
    assert_ptr_equal(current, R.context);
    OK(cu.cuCtxPopCurrent_v2(&popped));
    IS(201, cu.cuStreamQuery(R.streams[0])); /* nothing is current */
    IS(201, cu.cuCtxPopCurrent_v2(&popped));
    expect(1);
    IS(1, cu.cuDevicePrimaryCtxRelease_v2(1));
    misused("not retained");
    expect(0);
    OK(cu.cuCtxPushCurrent_v2(R.context));
    rig_close();
    mock_cuda_desc one = {.devices = 1};
    rig_open(one);
    OK(cu.cuDevicePrimaryCtxRelease_v2(0)); /* all is left */
    assert_int_equal(counts().left_behind, 1 + STREAMS + 2);
    IS(709, cu.cuCtxSynchronize());
    OK(cu.cuCtxPopCurrent_v2(&popped));
    expect(1);
    IS(201, cu.cuCtxPushCurrent_v2(R.context));
    misused("destroyed");
    expect(0);
}

static int in_host_fn, host_calls;

static void host_fn(void *user) {
    in_host_fn = cu.cuStreamQuery((handle)user);
    host_calls++;
}

static void host_functions(void **state) {
    (void)state;
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    host_calls = 0;
    OK(cu.cuLaunchHostFunc(R.streams[0], host_fn, R.streams[1]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(in_host_fn, 800);
    OK(hold(0, 1, R.streams[0]));
    OK(launch(R.fault, 1, NULL, 0, R.streams[0]));
    OK(cu.cuLaunchHostFunc(R.streams[0], host_fn, R.streams[1]));
    set_word(0, 1);
    IS(719, cu.cuStreamSynchronize(R.streams[0]));
    rig_end();
    assert_int_equal(host_calls, 1);   /* left out after the error */
}

/* ---- errors ---- */

static void *asks(void *user) {
    (void)cu.cuCtxPushCurrent_v2(R.context);
    *(int *)user = cu.cuStreamQuery(R.streams[2]);
    return NULL;
}

static void sticky(void **state) {
    pthread_t thread;
    addr a;
    handle event;
    int elsewhere = 0;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    OK(cu.cuEventCreate(&event, 2));
    OK(hold(0, 1, R.streams[0]));
    OK(launch(R.fault, 1, NULL, 0, R.streams[0]));
    OK(cu.cuMemsetD8Async(pinned(1), 1, 1, R.streams[0]));
    OK(cu.cuEventRecord(event, R.streams[0]));
    OK(cu.cuStreamWaitEvent(R.streams[1], event, 0));
    OK(cu.cuMemsetD8Async(pinned(2), 1, 1, R.streams[1]));
    set_word(0, 1);
    IS(719, cu.cuStreamSynchronize(R.streams[1]));
    IS(719, cu.cuStreamQuery(R.streams[3]));
    IS(719, cu.cuEventQuery(event));
    IS(719, cu.cuEventDestroy_v2(event));
    IS(719, cu.cuMemAlloc_v2(&a, 8));
    IS(719, cu.cuMemFree_v2(R.memory));
    IS(719, cu.cuStreamDestroy_v2(R.streams[0]));
    IS(719, cu.cuCtxSynchronize());
    pthread_create(&thread, NULL, asks, &elsewhere);
    pthread_join(thread, NULL);
    assert_int_equal(elsewhere, 719);
    assert_int_equal(mock.idle(10000), 1);
    assert_int_equal(word(1) + word(2), 0);
    rig_end();
    mock_cuda_counts c = counts();
    assert_int_equal(c.streams + c.events + c.modules + c.device_allocations +
                     c.host_allocations + c.left_behind, 0);
    OK(cu.cuDevicePrimaryCtxRetain(&R.context, 0)); /* as new */
    OK(cu.cuCtxPushCurrent_v2(R.context));
    OK(cu.cuCtxSynchronize());
    rig_end();
}

static void sticky_operation(void **state) {
    (void)state;
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    mock.fail_operation(NULL, 2, 0);
    for (uint32_t i = 0; i < 5; i++) {
        OK(cu.cuMemsetD8Async(pinned(i), 1, 1, R.streams[0]));
        (void)mock.idle(i < 2 ? 10000 : 0);
        if (i >= 2) {
            break;
        }
    }
    IS(700, cu.cuCtxSynchronize());
    assert_int_equal(word(0) + word(1) + word(2), 2);
    rig_end();
    rig_open(desc);
    mock.fail_operation("t_copy", 0, 716);
    uint64_t args[2] = {pinned(1), pinned(0)};
    OK(add(0, 1, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    OK(launch(R.copy, 1, args, sizeof args, R.streams[0]));
    IS(716, cu.cuStreamSynchronize(R.streams[0]));
    rig_end();
}

/* A record that fails holds nobody up. */
static void sticky_record(void **state) {
    handle other, event, stream;
    (void)state;
    mock_cuda_desc desc = {.queues = 2, .devices = 2};
    rig_open(desc);
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    OK(cu.cuEventCreate(&event, 2));
    OK(hold(0, 1, R.streams[0]));
    OK(cu.cuEventRecord(event, R.streams[0]));
    OK(cu.cuCtxPushCurrent_v2(other));
    OK(cu.cuStreamCreateWithPriority(&stream, 1, 0));
    OK(cu.cuStreamWaitEvent(stream, event, 0));
    nap(20000);                        /* the kernel and the wait, not the record, run */
    mock.fail_operation(NULL, 0, 702);
    if (cu.cuStreamQuery(stream) == 600) {
        set_word(0, 1);
    }
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    IS(702, cu.cuCtxSynchronize());
    OK(cu.cuDevicePrimaryCtxRelease_v2(1));
    rig_end();
}

static void failures(void **state) {
    addr a;
    (void)state;
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    (mock.fail)("cuMemAlloc_v2", 1, 1, 2);
    (mock.fail)("cuEvent*", 0, 2, 999);
    OK(cu.cuMemAlloc_v2(&a, 8));
    OK(cu.cuMemFree_v2(a));
    IS(2, cu.cuMemAlloc_v2(&a, 8));
    OK(cu.cuMemAlloc_v2(&a, 8));
    OK(cu.cuMemFree_v2(a));
    handle event;
    IS(999, cu.cuEventCreate(&event, 0));
    IS(999, cu.cuEventCreate(&event, 0));
    OK(cu.cuEventCreate(&event, 0));
    assert_int_equal(counts().failed, 3);
    assert_int_equal(mock.calls("cuEventCreate"), 3);
    (mock.fail)("cuEvent*", 0, 100, 999);
    mock.fail_nothing();
    OK(cu.cuEventDestroy_v2(event));
    rig_close();
    rig_open(desc);
    (mock.fail)("cuMemsetD8Async", 0, 1, 719);
    OK(cu.cuCtxSynchronize());
    IS(719, cu.cuMemsetD8Async(R.memory, 1, 1, R.streams[0]));
    IS(719, cu.cuCtxSynchronize());    /* the context is lost */
    rig_end();
}

/* ---- graphs ---- */

static kernel_params kernel_node_params(handle function, void **extra) {
    kernel_params p = {.function = function, .grid = {1, 1, 1}, .block = {1, 1, 1},
                       .extra = extra};
    return p;
}

/* A node that copies a word to another. */
static copy_params copy_word(addr dst, addr src) {
    copy_params p = {.width = 8, .height = 1, .depth = 1};
    p.src.type = p.dst.type = 4;
    p.src.device = src;
    p.dst.device = dst;
    return p;
}

static handle add_copy(handle graph, addr dst, addr src, const handle *before, size_t count) {
    handle node = NULL;
    copy_params p = copy_word(dst, src);
    OK(cu.cuGraphAddMemcpyNode(&node, graph, before, count, &p, R.context));
    return node;
}

static set_params set_byte(addr dst, unsigned value) {
    set_params p = {.dst = dst, .value = value, .element = 1, .width = 1, .height = 1};
    return p;
}

/* Edges hold; what has none comes in any order. */
static void graph_order(void **state) {
    handle graph, exec, set[2], join, last;
    uint32_t seen[3] = {0, 0, 0};
    (void)state;
    mock_cuda_desc desc = {.queues = 2};
    rig_open(desc);
    OK(cu.cuGraphCreate(&graph, 0));
    for (uint32_t i = 0; i < 2; i++) {
        set_params p = set_byte(pinned(0), i + 1);
        OK(cu.cuGraphAddMemsetNode(&set[i], graph, NULL, 0, &p, R.context));
    }
    OK(cu.cuGraphAddEmptyNode(&join, graph, set, 2));
    last = add_copy(graph, pinned(1), pinned(0), &join, 1);
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphUpload(exec, R.streams[0]));
    for (uint32_t i = 0; i < 500; i++) {
        OK(cu.cuGraphLaunch(exec, R.streams[0]));
        OK(cu.cuStreamSynchronize(R.streams[0]));
        assert_int_equal(word(1), word(0));
        assert_in_range(word(1), 1, 2);
        seen[word(1)] = 1;
    }
    assert_true(seen[1] && seen[2]);
    IS(1, cu.cuGraphAddEmptyNode(&join, graph, (handle[]){last, last}, 2));
    add_copy(graph, pinned(2), pinned(0), &last, 1); /* not in the instance */
    OK(cu.cuGraphLaunch(exec, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(2), 0);
    assert_int_equal(counts().graph_launches, 501);
    assert_int_equal(counts().graph_nodes, 501 * 4);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    rig_close();
}

/* A kernel that holds, then a copy and a memset. */
typedef struct updated {
    handle graph, exec, held, node, set;
    uint64_t args[2];                  /* of the kernel */
    size_t size;
    void *extra[5];
    kernel_params kernel;
    copy_params copy;
    set_params byte;
} updated;

static void updated_open(updated *u) {
    mock_cuda_desc desc = {.queues = 2, .flags = MOCK_CUDA_STRICT_MEMSETS};
    rig_open(desc);
    u->args[0] = pinned(0);
    u->args[1] = 1;
    u->size = sizeof u->args;
    void *extra[] = {(void *)1, u->args, (void *)2, &u->size, NULL};
    memcpy(u->extra, extra, sizeof extra);
    u->kernel = kernel_node_params(R.hold, u->extra);
    set_word(10, 100);
    set_word(11, 200);
    u->copy = copy_word(pinned(1), pinned(11));
    u->byte = set_byte(pinned(2), 1);
    OK(cu.cuGraphCreate(&u->graph, 0));
    OK(cu.cuGraphAddKernelNode(&u->held, u->graph, NULL, 0, &u->kernel));
    u->node = add_copy(u->graph, pinned(1), pinned(10), &u->held, 1);
    OK(cu.cuGraphAddMemsetNode(&u->set, u->graph, &u->held, 1, &u->byte, R.context));
    OK(cu.cuGraphInstantiateWithFlags(&u->exec, u->graph, 0));
}

static void updated_run(const updated *u) {
    OK(cu.cuGraphLaunch(u->exec, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
}

/* An update reaches later launches only. */
static void graph_updates(void **state) {
    updated u;
    (void)state;
    updated_open(&u);
    OK(cu.cuGraphLaunch(u.exec, R.streams[0]));
    OK(cu.cuGraphExecMemcpyNodeSetParams(u.exec, u.node, &u.copy, R.context));
    u.byte.value = 2;
    OK(cu.cuGraphExecMemsetNodeSetParams(u.exec, u.set, &u.byte, R.context));
    u.args[1] = 0;                     /* read when it was added: nothing happens */
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(1), 100);
    assert_int_equal(word(2), 1);
    updated_run(&u);
    assert_int_equal(word(1), 200);
    assert_int_equal(word(2), 2);
    u.kernel.function = R.copy;        /* another function will do */
    u.args[0] = pinned(3);
    u.args[1] = pinned(11);
    OK(cu.cuGraphExecKernelNodeSetParams(u.exec, u.held, &u.kernel));
    updated_run(&u);
    assert_int_equal(word(3), 200);
    OK(cu.cuGraphExecDestroy(u.exec));
    OK(cu.cuGraphDestroy(u.graph));
    rig_close();
}

/* ... and not everything of a node, and of no other graph's. */
static void graph_refusals(void **state) {
    handle other, stranger;
    updated u;
    (void)state;
    updated_open(&u);
    set_word(0, 1);
    u.copy.src.device = R.memory;      /* another kind of memory */
    IS(1, cu.cuGraphExecMemcpyNodeSetParams(u.exec, u.node, &u.copy, R.context));
    u.copy.src.device = pinned(11);
    u.copy.height = 0;
    IS(1, cu.cuGraphExecMemcpyNodeSetParams(u.exec, u.node, &u.copy, R.context));
    IS(1, cu.cuGraphExecMemsetNodeSetParams(u.exec, u.node, &u.byte, R.context)); /* a copy */
    u.byte.width = 2;
    IS(1, cu.cuGraphExecMemsetNodeSetParams(u.exec, u.set, &u.byte, R.context));
    OK(cu.cuGraphCreate(&other, 0));
    OK(cu.cuGraphAddEmptyNode(&stranger, other, NULL, 0));
    expect(1);
    IS(1, cu.cuGraphExecMemsetNodeSetParams(u.exec, stranger, &u.byte, R.context));
    misused("not of the graph");
    OK(cu.cuGraphDestroy(other));
    OK(cu.cuGraphDestroy(u.graph));
    IS(400, cu.cuGraphExecMemcpyNodeSetParams(u.exec, u.node, &u.copy, R.context));
    misused("destroyed");
    expect(0);
    updated_run(&u);                   /* the instance needs no graph */
    assert_int_equal(word(1), 100);
    OK(cu.cuGraphExecDestroy(u.exec));
    rig_close();
}

/* One instance of a graph runs at a time, whatever the streams. */
static void graph_once(void **state) {
    handle graph, exec, node;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    uint64_t args[2] = {pinned(0), 1};
    void *extra[] = {(void *)1, args, (void *)2, &(size_t){16}, NULL};
    kernel_params kernel = kernel_node_params(R.hold, extra);
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, R.streams[0]));
    args[0] = pinned(1);
    args[1] = 0;
    OK(cu.cuGraphExecKernelNodeSetParams(exec, node, &kernel));
    OK(cu.cuGraphLaunch(exec, R.streams[1])); /* would not wait by itself */
    nap(2000);
    IS(600, cu.cuStreamQuery(R.streams[1]));
    expect(1);
    IS(1, cu.cuGraphExecDestroy(exec));
    misused("not done");
    expect(0);
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(R.streams[1]));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    rig_close();
}

static void graph_events(void **state) {
    handle graph, exec, wait, record, in, out, copied;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    OK(cu.cuEventCreate(&in, 2));
    OK(cu.cuEventCreate(&out, 2));
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddEventWaitNode(&wait, graph, NULL, 0, in));
    set_word(10, 5);
    copied = add_copy(graph, pinned(1), pinned(10), &wait, 1);
    OK(cu.cuGraphAddEventRecordNode(&record, graph, &copied, 1, out));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    OK(hold(0, 1, R.streams[0]));
    OK(cu.cuEventRecord(in, R.streams[0]));
    OK(cu.cuGraphLaunch(exec, R.streams[1]));
    IS(600, cu.cuEventQuery(out));
    OK(cu.cuStreamWaitEvent(R.streams[2], out, 0));
    OK(cu.cuMemcpyAsync(pinned(2), pinned(1), 8, R.streams[2]));
    nap(2000);
    assert_int_equal(word(1) + word(2), 0);
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(R.streams[2]));
    assert_int_equal(word(2), 5);
    OK(cu.cuStreamSynchronize(R.streams[1]));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuEventDestroy_v2(in));
    OK(cu.cuEventDestroy_v2(out));
    rig_close();
}

static void graph_values(void **state) {
    handle graph, exec, node, then;
    (void)state;
    NEEDS_V2
    mock_cuda_desc desc = {.queues = 1};
    rig_open(desc);
    batch_params ops[2] = {{.operation = 4, .address = pinned(0), .value = 1},
                           {.operation = 5, .address = pinned(1), .value = 9}};
    batch_node_params p = {.context = R.context, .count = 2, .params = ops};
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
    then = add_copy(graph, pinned(2), pinned(1), &node, 1);
    assert_non_null(then);
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, R.streams[0]));
    ops[1].value = 10;
    OK(cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &p));
    nap(1000);
    IS(600, cu.cuStreamQuery(R.streams[0]));
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(2), 9);
    OK(cu.cuGraphLaunch(exec, R.streams[0]));
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(2), 10);
    p.count = 1;
    IS(1, cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &p));
    p.count = 2;
    ops[1].operation = 2;
    IS(1, cu.cuGraphExecBatchMemOpNodeSetParams(exec, node, &p));
    if (cu.cuGraphAddKernelNode_v2) {
        kernel_params kernel = kernel_node_params(R.fault, NULL);
        OK(cu.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel));
    }
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    rig_close();
}

/* A node that is disabled does nothing, in later launches. */
static void graph_enabling(void **state) {
    updated u;
    (void)state;
    NEEDS_V2
    updated_open(&u);
    handle empty;
    OK(cu.cuGraphLaunch(u.exec, R.streams[0]));
    OK(cu.cuGraphNodeSetEnabled(u.exec, u.node, 0));
    set_word(0, 1);
    OK(cu.cuStreamSynchronize(R.streams[0]));
    assert_int_equal(word(1), 100);
    set_word(1, 0);
    updated_run(&u);
    assert_int_equal(word(1), 0);
    OK(cu.cuGraphExecMemcpyNodeSetParams(u.exec, u.node, &u.copy, R.context));
    updated_run(&u);
    assert_int_equal(word(1), 0);
    OK(cu.cuGraphNodeSetEnabled(u.exec, u.node, 1));
    updated_run(&u);
    assert_int_equal(word(1), 200);
    OK(cu.cuGraphExecDestroy(u.exec));
    OK(cu.cuGraphAddEmptyNode(&empty, u.graph, NULL, 0));
    OK(cu.cuGraphInstantiateWithFlags(&u.exec, u.graph, 0));
    IS(1, cu.cuGraphNodeSetEnabled(u.exec, empty, 0)); /* not of this kind */
    OK(cu.cuGraphExecDestroy(u.exec));
    OK(cu.cuGraphDestroy(u.graph));
    rig_close();
}

static void *adds_nodes(void *user) {
    handle node;
    (void)cu.cuCtxPushCurrent_v2(R.context);
    for (uint32_t i = 0; i < 200000 && (i % 64 || counts().misuses == 0); i++) {
        (void)cu.cuGraphAddEmptyNode(&node, (handle)user, NULL, 0);
    }
    return NULL;
}

/* Two threads in one graph. */
static void graph_threads(void **state) {
    handle graph;
    pthread_t thread[2];
    (void)state;
#if SLOW == 1
    mock_cuda_desc desc = {.linger = 500};
    rig_open(desc);
    OK(cu.cuGraphCreate(&graph, 0));
    expect(1);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_create(&thread[i], NULL, adds_nodes, graph);
    }
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    misused("two threads");
    expect(0);
    OK(cu.cuGraphDestroy(graph));
    rig_close();
#else
    (void)graph;                       /* ThreadSanitizer would find it, too */
    (void)thread;
    (void)adds_nodes;
#endif
}

/* ---- many ---- */

enum { MANY_THREADS = 3, MANY = 2000 };

static void *works(void *user) {
    uint32_t me = *(const uint32_t *)user;
    handle stream, event;
    (void)cu.cuCtxPushCurrent_v2(R.context);
    OK(cu.cuStreamCreateWithPriority(&stream, 1, 0));
    OK(cu.cuEventCreate(&event, 2));
    for (uint32_t i = 0; i < MANY / SLOW; i++) {
        OK(add(me, 1, stream));
        OK(cu.cuEventRecord(event, stream));
        OK(cu.cuStreamWaitEvent(R.streams[me % STREAMS], event, 0));
        if (i % 16 == 0) {
            OK(cu.cuEventSynchronize(event));
            assert_int_equal(word(me), i + 1);
        }
    }
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuEventDestroy_v2(event));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    return NULL;
}

static void threads(void **state) {
    pthread_t thread[MANY_THREADS];
    uint32_t me[MANY_THREADS];
    (void)state;
    for (uint32_t mode = 0; mode < 3; mode++) {
        mock_cuda_desc desc = {.mode = mode, .linger = 20};
        rig_open(desc);
        for (uint32_t i = 0; i < MANY_THREADS; i++) {
            me[i] = i;
            pthread_create(&thread[i], NULL, works, &me[i]);
        }
        for (uint32_t i = 0; i < MANY_THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(word(i), MANY / SLOW);
        }
        rig_close();
    }
}

static void quick(void **state) {
    struct timespec a, b;
    (void)state;
    mock_cuda_desc desc = {.queues = 4};
    rig_open(desc);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (uint32_t i = 0; i < 20000; i++) {
        OK(add(0, 1, R.streams[i % 4]));
        if (i % 64 == 63) {
            OK(cu.cuStreamSynchronize(R.streams[i % 4]));
        }
    }
    OK(cu.cuCtxSynchronize());
    clock_gettime(CLOCK_MONOTONIC, &b);
    double s = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    print_message("20,000 launches: %.3f s\n", s);
    assert_true(s < 20);
    assert_int_equal(word(0), 20000);
    rig_close();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(aborts), cmocka_unit_test(versions), cmocka_unit_test(begin),
    cmocka_unit_test(attributes), cmocka_unit_test(one_by_one), cmocka_unit_test(work_queues),
    cmocka_unit_test(by_chance), cmocka_unit_test(late), cmocka_unit_test(paused),
    cmocka_unit_test(legacy_stream), cmocka_unit_test(events), cmocka_unit_test(event_times),
    cmocka_unit_test(event_contexts), cmocka_unit_test(values),
    cmocka_unit_test(value_conditions), cmocka_unit_test(value_mistakes),
    cmocka_unit_test(value_deadlock), cmocka_unit_test(early_waits),
    cmocka_unit_test(device_memory), cmocka_unit_test(free_in_use),
    cmocka_unit_test(registered_memory), cmocka_unit_test(pinned_memory),
    cmocka_unit_test(syncs), cmocka_unit_test(pools),
    cmocka_unit_test(pool_sizes), cmocka_unit_test(peers), cmocka_unit_test(pool_peers),
    cmocka_unit_test(bad_ptx), cmocka_unit_test(functions), cmocka_unit_test(builtin),
    cmocka_unit_test(contexts), cmocka_unit_test(host_functions), cmocka_unit_test(sticky),
    cmocka_unit_test(sticky_operation), cmocka_unit_test(sticky_record),
    cmocka_unit_test(failures),
    cmocka_unit_test(graph_order), cmocka_unit_test(graph_updates),
    cmocka_unit_test(graph_refusals),
    cmocka_unit_test(graph_once), cmocka_unit_test(graph_events),
    cmocka_unit_test(graph_values), cmocka_unit_test(graph_enabling),
    cmocka_unit_test(graph_threads), cmocka_unit_test(threads),
    cmocka_unit_test(quick)
};

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--filter") == 0) {
            cmocka_set_test_filter(argv[i + 1]);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
        }
    }
    library = driver_open(getenv("HCQ_TEST_CUDA_VERSION"));
    if (!library || !mock_cuda_load(library, &mock)) {
        fprintf(stderr, "mock_cuda_check: no mock: %s\n", library ? "another library" : dlerror());
        return 1;
    }
    driver_functions(library);
    mock.kernel("t_add", k_add);
    mock.kernel("t_hold", k_hold);
    mock.kernel("t_copy", k_copy);
    mock.kernel("t_fault", k_fault);
    alarm(600);
    return cmocka_run_group_tests_name("mock_cuda", tests, NULL, NULL);
}
