/* bench_cuda_raw.h - the other side of bench_cuda.c: CUDA's driver without hcq.

   In hcq's context, with its memory and kernels, but with streams, events and graphs of its own.
   The functions have prototypes of our own and come from hcq's handle of the library, so
   that nobody needs the toolkit. The context is current on a thread only while the raw side
   is measured.
*/
#pragma once

#include "bench.h"
#include "../mocks/cuda.h"

typedef struct CUctx_st *raw_context;
typedef struct CUstream_st *raw_stream;
typedef struct CUevent_st *raw_event;
typedef struct CUfunc_st *raw_function;
typedef struct CUgraph_st *raw_graph;
typedef struct CUgraphNode_st *raw_node;
typedef struct CUgraphExec_st *raw_exec;
typedef unsigned long long raw_pointer;

/* CUDA_KERNEL_NODE_PARAMS of 12.0; that of 11.4 is its beginning. */
typedef struct raw_kernel_node {
    raw_function function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void **params;
    void **extra;
    void *kernel;
    raw_context context;
} raw_kernel_node;

#define RAW_VALUE raw_stream stream, raw_pointer address, uint64_t value, unsigned flags

/* member, what its exported name has behind it, parameters; all give a CUresult */
#define RAW_FNS(X)                                                                         \
    X(CtxPushCurrent, "_v2", (raw_context context))                                        \
    X(CtxPopCurrent, "_v2", (raw_context *context))                                        \
    X(CtxSynchronize, "", (void))                                                          \
    X(MemcpyAsync, "", (raw_pointer dst, raw_pointer src, size_t size, raw_stream stream)) \
    X(LaunchKernel, "", (raw_function function, unsigned grid_x, unsigned grid_y,          \
                         unsigned grid_z, unsigned block_x, unsigned block_y,              \
                         unsigned block_z, unsigned shared_bytes, raw_stream stream,       \
                         void **params, void **extra))                                     \
    X(StreamCreateWithPriority, "", (raw_stream *stream, unsigned flags, int priority))    \
    X(StreamDestroy, "_v2", (raw_stream stream))                                           \
    X(StreamSynchronize, "", (raw_stream stream))                                          \
    X(StreamWaitEvent, "", (raw_stream stream, raw_event event, unsigned flags))           \
    X(EventCreate, "", (raw_event *event, unsigned flags))                                 \
    X(EventRecord, "", (raw_event event, raw_stream stream))                               \
    X(EventSynchronize, "", (raw_event event))                                             \
    X(GraphCreate, "", (raw_graph *graph, unsigned flags))                                 \
    X(GraphDestroy, "", (raw_graph graph))                                                 \
    X(GraphInstantiate, "WithFlags", (raw_exec *exec, raw_graph graph, unsigned long long flags)) \
    X(GraphUpload, "", (raw_exec exec, raw_stream stream))                                 \
    X(GraphLaunch, "", (raw_exec exec, raw_stream stream))                                 \
    X(GraphExecDestroy, "", (raw_exec exec))

/* Those that older drivers lack, or have by another name. */
#define RAW_OPTIONAL_FNS(X)                                                                \
    X(GraphAddKernelNode, "_v2", (raw_node *node, raw_graph graph, const raw_node *before,  \
                                  size_t count, const raw_kernel_node *params))            \
    X(StreamWriteValue64, "_v2", (RAW_VALUE))                                              \
    X(StreamWaitValue64, "_v2", (RAW_VALUE))

typedef struct raw {
    raw_context context;
    raw_stream stream;
    raw_function tiny;
#define RAW_MEMBER(name, suffix, params) int (*name) params;
    RAW_FNS(RAW_MEMBER)
    RAW_OPTIONAL_FNS(RAW_MEMBER)
} raw;

static void raw_check(int result, const char *what) {
    if (result != 0) {
        bench_die("cu%s: CUDA error %d", what, result);
    }
}
#define RAW(r, call) raw_check((r)->call, #call)

/* ---- on a driver without a GPU ------------------------------------------- */
/* The tests' stand-in for libcuda takes kernels as functions. */

typedef struct raw_tiny_args { uint64_t counter; uint32_t step, pad; } raw_tiny_args;

static void raw_mock_tiny(const void *args, const hcq_block *block) {
    raw_tiny_args a;
    (void)block;
    memcpy(&a, args, 12);                 /* as many bytes as the kernel has */
    *(uint32_t *)(uintptr_t)a.counter += a.step;
}

static void raw_mock_hold(const void *args, const hcq_block *block) {
    raw_tiny_args a;
    uint64_t begin = bench_now();
    memcpy(&a, args, 12);
    while (bench_now() - begin < a.step) {
    }
    a.step = 1;
    raw_mock_tiny(&a, block);
}

/* ---- opening ------------------------------------------------------------- */

/* Object pointer to function pointer, which ISO C has no cast for. */
static int raw_find(void *library, const char *name, void *fn) {
    void *symbol = dlsym(library, name);
    memcpy(fn, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void raw_enter(raw *r) { RAW(r, CtxPushCurrent(r->context)); }

static void raw_leave(raw *r) {
    raw_context context;
    RAW(r, CtxPopCurrent(&context));
}

static raw_stream raw_stream_make(raw *r) {
    raw_stream stream;
    RAW(r, StreamCreateWithPriority(&stream, 1, 0));
    return stream;
}

/* On hcq's device, before it has programs. */
static void raw_open(raw *r, const hcq_cuda_info *on) {
    mock_cuda_api mock;
    *r = (raw){.context = on->context};
#define RAW_LOAD(name, suffix, params)                           \
    if (!raw_find(on->library, "cu" #name suffix, &r->name)) {   \
        bench_die("the driver lacks cu" #name suffix);           \
    }
    RAW_FNS(RAW_LOAD)
#define RAW_LOAD_OPTIONAL(name, suffix, params) raw_find(on->library, "cu" #name suffix, &r->name);
    RAW_OPTIONAL_FNS(RAW_LOAD_OPTIONAL)
    if (r->GraphAddKernelNode == NULL) {
        raw_find(on->library, "cuGraphAddKernelNode", &r->GraphAddKernelNode);
    }
    if (mock_cuda_load(on->library, &mock)) {
        mock.kernel("bench_tiny", raw_mock_tiny);
        mock.kernel("bench_hold", raw_mock_hold);
    }
    raw_enter(r);
    r->stream = raw_stream_make(r);
    raw_leave(r);
}

/* The context has to be current; with it goes what is left in it. */
static void raw_close(raw *r) {
    RAW(r, CtxSynchronize());
    RAW(r, StreamDestroy(r->stream));
    raw_leave(r);
}

/* ---- commands ------------------------------------------------------------ */

static raw_event raw_event_make(raw *r) {
    raw_event event;
    RAW(r, EventCreate(&event, 2));       /* takes no times */
    return event;
}

static void raw_launch(raw *r, raw_function f, raw_stream stream, raw_pointer counter, uint32_t n) {
    void *params[2] = {&counter, &n};
    RAW(r, LaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void raw_launch_tiny(raw *r, raw_stream stream, raw_pointer counter) {
    raw_launch(r, r->tiny, stream, counter, 1);
}

static void raw_finish(raw *r, raw_stream stream) {
    RAW(r, StreamSynchronize(stream));
}

/* ---- graphs -------------------------------------------------------------- */

/* Adds a kernel behind `before` (NULL: the first node). */
static raw_node raw_add_tiny(raw *r, raw_graph graph, raw_node before, raw_pointer counter) {
    raw_node node;
    uint32_t step = 1;
    void *values[2] = {&counter, &step};
    const raw_kernel_node params = {.function = r->tiny, .grid = {1, 1, 1}, .block = {1, 1, 1},
                                    .params = values};
    RAW(r, GraphAddKernelNode(&node, graph, &before, before == NULL ? 0 : 1, &params));
    return node;
}

/* Instantiates the graph and gives it to the device, so that no launch does. */
static raw_exec raw_instantiate(raw *r, raw_graph graph) {
    raw_exec exec;
    RAW(r, GraphInstantiate(&exec, graph, 0));
    RAW(r, GraphUpload(exec, r->stream));
    raw_finish(r, r->stream);
    return exec;
}
