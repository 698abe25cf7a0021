/* bench_cuda_raw.h - the other side of bench_cuda.c: CUDA's driver without hcq.

   The functions have prototypes of our own and come from the driver's library,
   as hcq's do, so that neither needs the toolkit. Both use the device's primary
   context; it is current on a thread only while the raw side is measured.
*/
#ifndef BENCH_CUDA_RAW_H
#define BENCH_CUDA_RAW_H

#include "bench.h"
#include "bench_cuda_ptx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct CUctx_st *raw_context;
typedef struct CUstream_st *raw_stream;
typedef struct CUevent_st *raw_event;
typedef struct CUmod_st *raw_module;
typedef struct CUfunc_st *raw_function;
typedef struct CUgraph_st *raw_graph;
typedef struct CUgraphNode_st *raw_node;
typedef struct CUgraphExec_st *raw_exec;
typedef unsigned long long raw_pointer;
typedef struct raw_kernel_node raw_kernel_node;
typedef struct raw_memop raw_memop;
typedef struct raw_memop_node raw_memop_node;

enum { RAW_NOT_READY = 600, RAW_MEMOPS_64 = 122, RAW_WRITE_64 = 5 };
enum { RAW_SPIN_EVENT = 2, RAW_BLOCKING_EVENT = 3 }; /* neither takes times */

/* CUDA_KERNEL_NODE_PARAMS of 12.0; that of 11.4 is its beginning. */
struct raw_kernel_node {
    raw_function function;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    void **params;
    void **extra;
    void *kernel;
    raw_context context;
};

/* CUstreamBatchMemOpParams, a write of 64 bits. */
struct raw_memop {
    uint32_t operation;
    raw_pointer address;
    uint64_t value;
    uint32_t flags;
    raw_pointer alias;
    uint64_t pad;
};

struct raw_memop_node {
    raw_context context;
    unsigned int count;
    raw_memop *list;
    unsigned int flags;
};

/* member, exported name, parameters; all give a CUresult */
#define RAW_FNS(X)                                                                          \
    X(Init, "cuInit", (unsigned int flags))                                                 \
    X(DriverGetVersion, "cuDriverGetVersion", (int *version))                               \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                     \
    X(DeviceGet, "cuDeviceGet", (int *device, int ordinal))                                 \
    X(DeviceGetName, "cuDeviceGetName", (char *name, int size, int device))                 \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))  \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (raw_context *context, int device)) \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (raw_context context))                         \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (raw_context *context))                          \
    X(CtxSynchronize, "cuCtxSynchronize", (void))                                           \
    X(MemAlloc, "cuMemAlloc_v2", (raw_pointer *pointer, size_t size))                       \
    X(MemFree, "cuMemFree_v2", (raw_pointer pointer))                                       \
    X(MemHostAlloc, "cuMemHostAlloc", (void **host, size_t size, unsigned int flags))       \
    X(MemFreeHost, "cuMemFreeHost", (void *host))                                           \
    X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                              \
      (raw_pointer *pointer, void *host, unsigned int flags))                               \
    X(MemcpyAsync, "cuMemcpyAsync",                                                         \
      (raw_pointer dst, raw_pointer src, size_t size, raw_stream stream))                   \
    X(MemsetD8Async, "cuMemsetD8Async",                                                     \
      (raw_pointer dst, unsigned char value, size_t size, raw_stream stream))               \
    X(ModuleLoadDataEx, "cuModuleLoadDataEx",                                               \
      (raw_module *module, const void *image, unsigned int count, int *options, void **values)) \
    X(ModuleUnload, "cuModuleUnload", (raw_module module))                                  \
    X(ModuleGetFunction, "cuModuleGetFunction",                                             \
      (raw_function *function, raw_module module, const char *name))                        \
    X(LaunchKernel, "cuLaunchKernel",                                                       \
      (raw_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                    \
       unsigned int shared_bytes, raw_stream stream, void **params, void **extra))          \
    X(StreamCreateWithPriority, "cuStreamCreateWithPriority",                               \
      (raw_stream *stream, unsigned int flags, int priority))                               \
    X(StreamDestroy, "cuStreamDestroy_v2", (raw_stream stream))                             \
    X(StreamQuery, "cuStreamQuery", (raw_stream stream))                                    \
    X(StreamSynchronize, "cuStreamSynchronize", (raw_stream stream))                        \
    X(StreamWaitEvent, "cuStreamWaitEvent",                                                 \
      (raw_stream stream, raw_event event, unsigned int flags))                             \
    X(EventCreate, "cuEventCreate", (raw_event *event, unsigned int flags))                 \
    X(EventDestroy, "cuEventDestroy_v2", (raw_event event))                                 \
    X(EventRecord, "cuEventRecord", (raw_event event, raw_stream stream))                   \
    X(EventQuery, "cuEventQuery", (raw_event event))                                        \
    X(EventSynchronize, "cuEventSynchronize", (raw_event event))                            \
    X(GraphCreate, "cuGraphCreate", (raw_graph *graph, unsigned int flags))                 \
    X(GraphDestroy, "cuGraphDestroy", (raw_graph graph))                                    \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                      \
      (raw_exec *exec, raw_graph graph, unsigned long long flags))                          \
    X(GraphUpload, "cuGraphUpload", (raw_exec exec, raw_stream stream))                     \
    X(GraphLaunch, "cuGraphLaunch", (raw_exec exec, raw_stream stream))                     \
    X(GraphExecDestroy, "cuGraphExecDestroy", (raw_exec exec))

/* Those that older drivers lack, or have by another name. */
#define RAW_OPTIONAL_FNS(X)                                                                 \
    X(GraphAddKernelNode, "cuGraphAddKernelNode_v2",                                        \
      (raw_node *node, raw_graph graph, const raw_node *before, size_t count,               \
       const raw_kernel_node *params))                                                      \
    X(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                    \
      (raw_exec exec, raw_node node, const raw_kernel_node *params))                        \
    X(GraphAddEventRecordNode, "cuGraphAddEventRecordNode",                                 \
      (raw_node *node, raw_graph graph, const raw_node *before, size_t count, raw_event event)) \
    X(GraphAddBatchMemOpNode, "cuGraphAddBatchMemOpNode",                                   \
      (raw_node *node, raw_graph graph, const raw_node *before, size_t count,               \
       const raw_memop_node *params))                                                       \
    X(StreamWriteValue64, "cuStreamWriteValue64_v2",                                        \
      (raw_stream stream, raw_pointer address, uint64_t value, unsigned int flags))         \
    X(StreamWaitValue64, "cuStreamWaitValue64_v2",                                          \
      (raw_stream stream, raw_pointer address, uint64_t value, unsigned int flags))         \
    X(MemcpyHtoD, "cuMemcpyHtoD_v2", (raw_pointer dst, const void *src, size_t size))       \
    X(MemcpyDtoH, "cuMemcpyDtoH_v2", (void *dst, raw_pointer src, size_t size))

typedef struct raw {
    void *library;
    int device, version;
    raw_context context;
    raw_stream stream;
    raw_module module;
    raw_function tiny, hold, clock;
    int memops;                           /* writes and waits of 64 bits work */
#define RAW_MEMBER(name, symbol, params) int (*name) params;
    RAW_FNS(RAW_MEMBER)
    RAW_OPTIONAL_FNS(RAW_MEMBER)
} raw;

/* Pinned memory, for both to see. */
typedef struct raw_pinned {
    void *host;
    raw_pointer address;
} raw_pinned;

static void raw_check(int result, const char *what) {
    if (result != 0) {
        bench_die("%s: CUDA error %d", what, result);
    }
}

/* ---- on a driver without a GPU ------------------------------------------- */
/* The tests' stand-in for libcuda takes kernels as functions. */

typedef void (*raw_mock_fn)(const void *args, const uint32_t id[3], const uint32_t grid[3],
                            const uint32_t block[3]);

typedef struct raw_tiny_args { uint64_t counter; uint32_t step, pad; } raw_tiny_args;
typedef struct raw_hold_args { uint64_t began, go, seen, value, limit_ns; } raw_hold_args;
typedef struct raw_clock_args { uint64_t times, count; } raw_clock_args;

static void raw_mock_tiny(const void *args, const uint32_t id[3], const uint32_t grid[3],
                          const uint32_t block[3]) {
    raw_tiny_args a;
    (void)id;
    (void)grid;
    (void)block;
    memcpy(&a, args, 12);                 /* as many bytes as the kernel has */
    *(uint32_t *)(uintptr_t)a.counter += a.step;
}

static void raw_mock_hold(const void *args, const uint32_t id[3], const uint32_t grid[3],
                          const uint32_t block[3]) {
    raw_hold_args a;
    (void)id;
    (void)grid;
    (void)block;
    memcpy(&a, args, sizeof a);
    uint64_t end = bench_now() + a.limit_ns;
    __atomic_store_n((uint64_t *)(uintptr_t)a.began, a.value, __ATOMIC_SEQ_CST);
    while (__atomic_load_n((uint64_t *)(uintptr_t)a.go, __ATOMIC_ACQUIRE) < a.value &&
           bench_now() < end) {
        struct timespec t = {0, 1000};
        nanosleep(&t, NULL);
    }
    __atomic_store_n((uint64_t *)(uintptr_t)a.seen, a.value, __ATOMIC_RELEASE);
}

static void raw_mock_clock(const void *args, const uint32_t id[3], const uint32_t grid[3],
                           const uint32_t block[3]) {
    raw_clock_args a;
    uint64_t last = 0;
    (void)id;
    (void)grid;
    (void)block;
    memcpy(&a, args, sizeof a);
    for (uint64_t i = 0; i < a.count; i++) {
        uint64_t now;
        do {
            now = bench_now() / 32 * 32;
        } while (now == last);
        last = now;
        ((uint64_t *)(uintptr_t)a.times)[i] = now;
    }
}

/* Object pointer to function pointer, which ISO C has no cast for. */
static int raw_find(void *library, const char *name, void *fn) {
    void *symbol = dlsym(library, name);
    memcpy(fn, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int raw_is_mock(void *library) {
    return dlsym(library, "mock_cuda_kernel") != NULL;
}

static void raw_mock_kernels(void *library) {
    void (*kernel)(const char *entry, raw_mock_fn fn);
    if (raw_find(library, "mock_cuda_kernel", &kernel)) {
        kernel("bench_tiny", raw_mock_tiny);
        kernel("bench_hold", raw_mock_hold);
        kernel("bench_clock", raw_mock_clock);
    }
}

/* ---- opening ------------------------------------------------------------- */

/* Returns NULL, or what is missing. */
static const char *raw_load(raw *r) {
    memset(r, 0, sizeof *r);
    r->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (r->library == NULL) {
        return "no libcuda.so.1";
    }
#define RAW_LOAD(name, symbol, params)           \
    if (!raw_find(r->library, symbol, &r->name)) { \
        return "the driver lacks " symbol;       \
    }
    RAW_FNS(RAW_LOAD)
#define RAW_LOAD_OPTIONAL(name, symbol, params) raw_find(r->library, symbol, &r->name);
    RAW_OPTIONAL_FNS(RAW_LOAD_OPTIONAL)
    if (r->GraphAddKernelNode == NULL) {
        raw_find(r->library, "cuGraphAddKernelNode", &r->GraphAddKernelNode);
        raw_find(r->library, "cuGraphExecKernelNodeSetParams", &r->GraphExecKernelNodeSetParams);
    }
    raw_mock_kernels(r->library);
    return NULL;
}

static const char *raw_find_device(raw *r) {
    static char text[64];
    int count = 0;
    int result = r->Init(0);
    if (result == 0) {
        result = r->DeviceGetCount(&count);
    }
    if (result != 0) {
        snprintf(text, sizeof text, "cuInit gives %d", result);
        return text;
    }
    if (count == 0) {
        return "the driver finds no device";
    }
    raw_check(r->DeviceGet(&r->device, 0), "cuDeviceGet");
    raw_check(r->DriverGetVersion(&r->version), "cuDriverGetVersion");
    return NULL;
}

static raw_stream raw_stream_make(raw *r) {
    raw_stream stream;
    raw_check(r->StreamCreateWithPriority(&stream, 1, 0), "cuStreamCreateWithPriority");
    return stream;
}

/* Opens the first device. Its context is current when this returns.
   Returns NULL, or what is missing. */
static const char *raw_open(raw *r) {
    const char *missing = raw_load(r);
    int memops = 0;
    if (missing == NULL) {
        missing = raw_find_device(r);
    }
    if (missing != NULL) {
        return missing;
    }
    raw_check(r->DevicePrimaryCtxRetain(&r->context, r->device), "cuDevicePrimaryCtxRetain");
    raw_check(r->CtxPushCurrent(r->context), "cuCtxPushCurrent");
    raw_check(r->ModuleLoadDataEx(&r->module, bench_cuda_ptx, 0, NULL, NULL),
              "cuModuleLoadDataEx");
    raw_check(r->ModuleGetFunction(&r->tiny, r->module, "bench_tiny"), "cuModuleGetFunction");
    raw_check(r->ModuleGetFunction(&r->hold, r->module, "bench_hold"), "cuModuleGetFunction");
    raw_check(r->ModuleGetFunction(&r->clock, r->module, "bench_clock"), "cuModuleGetFunction");
    r->stream = raw_stream_make(r);
    r->memops = r->StreamWriteValue64 != NULL && r->StreamWaitValue64 != NULL &&
                r->DeviceGetAttribute(&memops, RAW_MEMOPS_64, r->device) == 0 && memops != 0;
    return NULL;
}

static void raw_enter(raw *r) { raw_check(r->CtxPushCurrent(r->context), "cuCtxPushCurrent"); }

static void raw_leave(raw *r) {
    raw_context context;
    raw_check(r->CtxPopCurrent(&context), "cuCtxPopCurrent");
}

/* The context has to be current. */
static void raw_close(raw *r) {
    raw_check(r->CtxSynchronize(), "cuCtxSynchronize");
    raw_check(r->StreamDestroy(r->stream), "cuStreamDestroy");
    raw_check(r->ModuleUnload(r->module), "cuModuleUnload");
    raw_leave(r);
    raw_check(r->DevicePrimaryCtxRelease(r->device), "cuDevicePrimaryCtxRelease");
}

/* ---- memory -------------------------------------------------------------- */

/* Zeroed memory of the device. */
static raw_pointer raw_memory(raw *r, size_t size) {
    raw_pointer pointer;
    raw_check(r->MemAlloc(&pointer, size), "cuMemAlloc");
    raw_check(r->MemsetD8Async(pointer, 0, size, r->stream), "cuMemsetD8Async");
    raw_check(r->StreamSynchronize(r->stream), "cuStreamSynchronize");
    return pointer;
}

static raw_pinned raw_pinned_make(raw *r, size_t size) {
    raw_pinned p;
    raw_check(r->MemHostAlloc(&p.host, size, 3), "cuMemHostAlloc"); /* portable, mapped */
    raw_check(r->MemHostGetDevicePointer(&p.address, p.host, 0), "cuMemHostGetDevicePointer");
    memset(p.host, 0, size);
    return p;
}

static void raw_read(raw *r, void *dst, raw_pointer src, size_t size) {
    raw_check(r->MemcpyAsync((raw_pointer)(uintptr_t)dst, src, size, r->stream), "cuMemcpyAsync");
    raw_check(r->StreamSynchronize(r->stream), "cuStreamSynchronize");
}

/* ---- commands ------------------------------------------------------------ */

static raw_event raw_event_make(raw *r, unsigned int flags) {
    raw_event event;
    raw_check(r->EventCreate(&event, flags), "cuEventCreate");
    return event;
}

static void raw_launch_tiny(raw *r, raw_stream stream, raw_pointer counter) {
    uint32_t step = 1;
    void *params[2] = {&counter, &step};
    raw_check(r->LaunchKernel(r->tiny, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
              "cuLaunchKernel");
}

static void raw_record(raw *r, raw_event event, raw_stream stream) {
    raw_check(r->EventRecord(event, stream), "cuEventRecord");
}

static void raw_wait_event(raw *r, raw_stream stream, raw_event event) {
    raw_check(r->StreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
}

static void raw_finish(raw *r, raw_stream stream) {
    raw_check(r->StreamSynchronize(stream), "cuStreamSynchronize");
}

/* ---- graphs -------------------------------------------------------------- */

static void raw_kernel(raw *r, raw_kernel_node *node, void **params) {
    memset(node, 0, sizeof *node);
    node->function = r->tiny;
    for (int i = 0; i < 3; i++) {
        node->grid[i] = node->block[i] = 1;
    }
    node->params = params;
}

/* Adds a kernel behind `before` (NULL: the first node). */
static raw_node raw_add_tiny(raw *r, raw_graph graph, raw_node before, raw_pointer counter) {
    raw_kernel_node params;
    raw_node node;
    uint32_t step = 1;
    void *values[2] = {&counter, &step};
    raw_kernel(r, &params, values);
    raw_check(r->GraphAddKernelNode(&node, graph, &before, before == NULL ? 0 : 1, &params),
              "cuGraphAddKernelNode");
    return node;
}

/* Gives the kernel of a node another step. */
static void raw_set_tiny(raw *r, raw_exec exec, raw_node node, raw_pointer counter,
                         uint32_t step) {
    raw_kernel_node params;
    void *values[2] = {&counter, &step};
    raw_kernel(r, &params, values);
    raw_check(r->GraphExecKernelNodeSetParams(exec, node, &params),
              "cuGraphExecKernelNodeSetParams");
}

static raw_node raw_add_write(raw *r, raw_graph graph, raw_node before, raw_pointer word) {
    raw_memop op;
    raw_memop_node params;
    raw_node node;
    memset(&op, 0, sizeof op);
    memset(&params, 0, sizeof params);
    op.operation = RAW_WRITE_64;
    op.address = word;
    op.value = 1;
    params.context = r->context;
    params.count = 1;
    params.list = &op;
    raw_check(r->GraphAddBatchMemOpNode(&node, graph, &before, before == NULL ? 0 : 1, &params),
              "cuGraphAddBatchMemOpNode");
    return node;
}

static raw_node raw_add_record(raw *r, raw_graph graph, raw_node before, raw_event event) {
    raw_node node;
    raw_check(r->GraphAddEventRecordNode(&node, graph, &before, before == NULL ? 0 : 1, event),
              "cuGraphAddEventRecordNode");
    return node;
}

/* Instantiates the graph and gives it to the device, so that no launch does. */
static raw_exec raw_instantiate(raw *r, raw_graph graph) {
    raw_exec exec;
    raw_check(r->GraphInstantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
    raw_check(r->GraphUpload(exec, r->stream), "cuGraphUpload");
    raw_finish(r, r->stream);
    return exec;
}

#endif /* BENCH_CUDA_RAW_H */
