/* hcq_cuda.h - the CUDA backend of hcq: NVIDIA GPUs, by the driver alone.

   Recipe: keep it beside hcq.h and never include it yourself. It needs no CUDA
   toolkit: libcuda.so.1 (nvcuda.dll), which comes with the driver, is opened at
   run time; version 11.4 or later. In the one file with the implementation, and
   in those that call a function below:

       #define HCQ_IMPLEMENTATION
       #define HCQ_CUDA
       #include "hcq.h"

   and open "CUDA", "CUDA:1" or "CUDA:name of the device". Licence: as hcq.h.

   Kernels. hcq_program_desc.ptx takes PTX text, a cubin or a fatbin; `entry` is
   the kernel's name in it, without it the first one of a PTX text. The kernel's
   parameters are the argument block: pointers and values in the order of the
   argument list, so that

       extern "C" __global__ void axpy(float *y, const float *x, float a, unsigned n)

   goes with { HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_F32, HCQ_ARG_U32 }. PTX with a
   low .version and .target runs on all later drivers and devices. grid is gridDim,
   block is blockDim; hcq_program_desc.shared_bytes is dynamic shared memory. A kernel
   that says so (ptx.takes_grid; hcq_kernel.h's do) has a struct of three unsigned as
   its last parameter, behind the argument block. They are 0, or for a grid with more
   than 65535 blocks in y or z, launched as gridDim.x blocks, x first, its size. What a
   launch would refuse (a block with too many threads, too much shared memory) is
   refused when it is recorded. hcq_cuda_compile makes PTX of CUDA C++ where NVRTC is
   installed. Programs of the same code share one module.

   Addresses. hcq_buffer.address is the CUdeviceptr. The device's memory comes, and is
   cleared, in a stream of hcq's: what an application gives to streams itself comes behind
   a submission of hcq's that was made after the hcq_alloc. HCQ_HOST_VISIBLE memory is
   pinned host memory (with HCQ_HOST_WRITES it is written around the host's caches), all
   other memory is the device's and has no host pointer.
   copyin and copyout from and to pinned memory (of hcq_alloc or hcq_import) are
   done in one piece without staging. Imported memory is registered to the byte, once
   for all devices of the process, but for what others have pinned, which stays theirs.
   A copy over the seam of two such ranges is several calls, and no node of a graph.
   What the host may only read a device may only read, too: a kernel that writes there
   ends the context. A recorded copy from the host's memory to the host's is a kernel of
   hcq's: CUDA's own is done by who gives it, when its turn has come.

   CUDA (driver 580) waits for running kernels when it loads or unloads a module, frees
   memory and lets go of a registration; launches of other threads wait meanwhile. hcq
   gives back when it has no work, and loads in hcq_program_create.

   Lanes are streams that do not wait for the legacy default stream. Each submission
   ends with a 64-bit store into pinned memory, which the host reads, where the driver
   has such operations (11.7); while other lanes wait for this one, with an event, and a
   store now and then. Elsewhere, and where a context or streams are lent and
   HCQ_CUDA_MEMOPS is not asked for, it ends with an event of a pool.

   A lane that waits for another one waits for an event: beside stores one that is
   recorded when somebody asks, or, if the lane was given more to do meanwhile, for the
   stored value; from then on that lane records one with every submission for a while
   (0.2 us of the calling thread, a store 1.1). CUDA sees no order in stored values, and
   may let a stream that waits for one hold up the stream that is to store it: hcq gives
   such a wait only behind its store, to whichever stream. What others give to lent
   streams or in a lent context it does not know: hence events there.

   CUDA takes about 1,000 operations for a device; whoever gives one more waits in the
   driver, and every other thread that gives something, too. hcq keeps to 900: the rest
   waits in the core, and is given as the device gets on. What others give counts for
   CUDA, but not for hcq.

   A lent stream is no default stream (0, legacy, per thread). While its owner captures
   it its lane takes no work: a submission fails with HCQ_ERROR_NATIVE, but for one that
   the stream has a part of, which goes on after the capture.

   Nothing is given to a stream before its waits are. Host commands run on hcq's
   service thread, not as host functions of CUDA's, which hold up their stream and are
   skipped after an error.

   Replay. A bound queue is one CUgraphExec for each run of commands between waits,
   signals, host and custom commands; a graph's commands on this device are one,
   too, with an edge for each dependency. A patch changes the nodes whose values
   differ, at the next submit. A single copy or fill, custom commands, and what the
   driver refuses to have in a graph go to the stream as they are.

   A wait of the host spins for spin_ns, and again where the lane's last wait ended;
   between these it naps for a sixteenth of the time passed so far, at most 0.5 ms.

   Between devices. "Host": a thread that waits, else the service thread, sees the end of
   one and gives the other what waited. On an H100 a hop with a kernel takes 4.0 us by
   event, 5.8 by a stored value, 8.3 until the host reads a store.

       from, to                    order          memory
       lanes of a device           event, store   the same
       devices on one GPU          host           the same
       GPUs that are peers         host           seen: the one that copies reads the other's
       GPUs that are not           host           by pinned memory of each
       CUDA, CPU                   host           the host's is registered where it is named
       CUDA, Vulkan                host           what the host sees of either, else as above

   Errors. An error of a kernel ends its CUDA context, and with it everything of
   the process in that context: the device is lost. A new context NVIDIA promises only to
   another process, and driver 580 gave none after a trap; opening says so.
*/
#ifndef HCQ_H
#error "hcq_cuda.h: define HCQ_CUDA and include hcq.h, which includes this file"
#endif

#ifndef HCQ_CUDA_H
#define HCQ_CUDA_H

/* CUDA's handles: CUcontext is struct CUctx_st *, and so on, as <cuda.h> has it. */
struct CUctx_st; struct CUstream_st; struct CUevent_st; struct CUfunc_st;

/* The driver's library, an expression: #define HCQ_CUDA_LIBRARY "..."
   ["libcuda.so.1", "nvcuda.dll"]. HCQ_CUDA_NVRTC likewise ["libnvrtc.so"...]. */

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HCQ_CUDA_EVENTS = 1,               /* lanes count by events ... */
    HCQ_CUDA_MEMOPS = 2,               /* ... or by memory operations [these from 11.7 on, else
                                          events; where a context or streams are lent, events] */
    HCQ_CUDA_NO_VALUE_WAITS = 4,       /* never wait for a stored value: an event with each
                                          submission. Always so on Windows and WSL2 */
    HCQ_CUDA_NO_GRAPHS = 8,            /* bound queues stay lists of calls (tests) */
    HCQ_CUDA_NO_POOLS = 16,            /* cuMemAlloc instead of a memory pool (tests) */
    HCQ_CUDA_NO_JIT = 32,              /* as if the driver had no compiler for PTX (tests):
                                          times are the host's */
    HCQ_CUDA_NO_IMPORT = 64,           /* as if host memory could not be registered (tests) */
    HCQ_CUDA_ONE_STREAM = 128,         /* for all lanes (tests) */
    HCQ_CUDA_TRAIL = 256               /* each command leaves a mark when it is done, so that an
                                          error names the command; slow, no graphs */
};

/* The CUDA backend's part of hcq_device_desc; all zero gives the defaults. */
struct hcq_cuda_desc {
    uint32_t flags;                    /* HCQ_CUDA_* */
    struct CUctx_st *context;          /* yours, open until hcq_close; the device is then that of
                                          the context [the device's primary context] */
    struct CUstream_st *const *streams; /* yours, of that context: each is a compute lane, unless
                                          lanes are asked for [streams of hcq's own] */
    uint32_t stream_count;
};

/* Keys for hcq_device_query. */
enum {
    HCQ_CUDA_QUERY_LAUNCHES = 1200,    /* kernels launched one by one */
    HCQ_CUDA_QUERY_GRAPH_LAUNCHES,
    HCQ_CUDA_QUERY_GRAPHS,             /* instantiated so far */
    HCQ_CUDA_QUERY_NODES,              /* put into graphs */
    HCQ_CUDA_QUERY_NODES_SET,          /* changed in them */
    HCQ_CUDA_QUERY_EVENTS,             /* in use now: out of the pool */
    HCQ_CUDA_QUERY_EVENTS_MADE,        /* created so far */
    HCQ_CUDA_QUERY_RECORDS,            /* events recorded */
    HCQ_CUDA_QUERY_WAITS,              /* of streams, for events */
    HCQ_CUDA_QUERY_VALUE_WAITS,        /* of streams, for stored values */
    HCQ_CUDA_QUERY_WRITES,             /* values stored by streams */
    HCQ_CUDA_QUERY_BATCHES             /* handed to streams */
};

/* What a CUDA device is made of. */
typedef struct hcq_cuda_info {
    int device;                        /* CUdevice */
    struct CUctx_st *context;
    void *library;                     /* libcuda's handle, for dlsym, GetProcAddress */
    uint32_t driver_version;           /* 1000 * major + 10 * minor */
    uint32_t capability;               /* 10 * major + minor: 90 is sm_90 */
    uint32_t processors;               /* streaming multiprocessors */
    uint32_t memops;                   /* lanes count by memory operations, else by events */
    uint32_t value_waits;              /* may streams wait for stored values? */
    uint32_t pools;                    /* memory comes from a pool of hcq's */
    uint32_t graphs;                   /* bound queues become graphs */
    uint32_t device_times;             /* timestamps are the device's */
} hcq_cuda_info;

/* Where a lane's work goes. */
typedef struct hcq_cuda_lane_info {
    struct CUstream_st *stream;
    uint32_t shared;                   /* lanes on this stream, this one too */
    uint32_t lent;                     /* the stream is yours */
} hcq_cuda_lane_info;

/* A kernel, as the driver sees it. */
typedef struct hcq_cuda_program_info {
    struct CUfunc_st *function;        /* CUfunction */
    uint32_t max_threads;              /* of one block */
    uint32_t registers;                /* of one thread */
    uint32_t shared_bytes;             /* of one block, static */
    uint32_t dynamic_bytes;            /* of one block, hcq_program_desc.shared_bytes */
    uint32_t const_bytes, local_bytes;
    uint32_t ptx_version, binary_version;
} hcq_cuda_program_info;

/* What the encode function of a custom command gets as `native`. Called each time
   the command's turn comes to be given to the stream, with the context current:
   enqueue on `stream` (cuBLAS, a library's kernels), do not wait for it. The
   rules of callbacks hold. */
typedef struct hcq_cuda_encoder {
    struct CUstream_st *stream;
    struct CUctx_st *context;
    int device;                        /* CUdevice */
} hcq_cuda_encoder;

/* Describes a CUDA device.
   Lifetime: of the handles, until hcq_close.
   Errors: HCQ_ERROR_UNSUPPORTED (not a CUDA device). */
HCQ_API hcq_result hcq_cuda_info_get(hcq_device *device, hcq_cuda_info *info);

/* Tells which stream a lane uses, and how many lanes share it.
   Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_INVALID (no such lane). */
HCQ_API hcq_result hcq_cuda_lane(hcq_device *device, hcq_queue_kind kind, uint32_t index,
                                 hcq_cuda_lane_info *info);

/* Describes a kernel.
   Lifetime: of the function, until the program is gone.
   Errors: HCQ_ERROR_UNSUPPORTED (not of a CUDA device). */
HCQ_API hcq_result hcq_cuda_program(const hcq_program *program, hcq_cuda_program_info *info);

/* Gives an event that completes once `point` is reached, for streams that are
   not hcq's: cuStreamWaitEvent(stream, event, 0). The point is a submission's
   own, or a user signal's that a submission raises. If the submission fails
   after it was handed over, the event completes all the same. The event comes
   from hcq's pool and may be the one that others got: do not record it.
   Lifetime: until hcq_cuda_event_release, which may come before it completes
     but after all calls that name it; hcq_close takes what is left.
   Errors: HCQ_NOT_READY (held back: nobody can wait for it natively yet),
     HCQ_ERROR_WOULD_BLOCK (so much is pending that it is given later: try again),
     HCQ_ERROR_UNSUPPORTED (of no single CUDA lane), its failure; release:
     HCQ_ERROR_INVALID (not acquired). */
HCQ_API hcq_result hcq_cuda_event_acquire(hcq_device *device, hcq_point point,
                                          struct CUevent_st **event);
HCQ_API hcq_result hcq_cuda_event_release(hcq_device *device, struct CUevent_st *event);

/* Gives a point that is reached when `event` completes, so that hcq's work, and
   the host, wait for it. The event was recorded before, as for
   cuStreamWaitEvent: what is recorded in it later does not count, and it may be
   destroyed. It counts as a submission of `device`; up to 4 run beside each
   other, later ones behind one of these.
   Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_WOULD_BLOCK (in a custom command's
     function). */
HCQ_API hcq_result hcq_cuda_event_import(hcq_device *device, struct CUevent_st *event,
                                         hcq_point *point);

/* Compiles CUDA C++ with NVRTC, if that is installed (libnvrtc comes with the
   CUDA toolkit, not with the driver), for this device; the log goes to the
   logger. `options` as for nvrtcCompileProgram; the architecture is set, the
   device's without what "sm_90a" and the like add, and may be set again. Give
   `code`, which is binary where NVRTC knows the device, as hcq_program_desc.ptx,
   with the `entry` of an extern "C" kernel.
   Lifetime: of `code`, until hcq_cuda_code_free.
   Blocks: for as long as it compiles.
   Errors: HCQ_ERROR_UNSUPPORTED (no NVRTC, not a CUDA device), HCQ_ERROR_NATIVE
     (it does not compile). */
HCQ_API hcq_result hcq_cuda_compile(hcq_device *device, const char *source,
                                    const char *const *options, uint32_t option_count,
                                    hcq_code *code);
HCQ_API void hcq_cuda_code_free(hcq_device *device, hcq_code *code);

#ifdef __cplusplus
}
#endif

#endif /* HCQ_CUDA_H */

#if defined(HCQ_IMPLEMENTATION) && !defined(HCQI_CUDA_IMPLEMENTED)
#define HCQI_CUDA_IMPLEMENTED

/* Where to look, from the top down: CUDA's declarations, structures, results and
   locks, events, memory, programs, graphs, encoding and patching, giving work to
   streams, submitting, ends, times, drivers, devices, lanes, the table, native
   handles, compiling. */

/* ========================================================================== */
/* ---- CUDA's declarations ------------------------------------------------- */
/* As in cuda.h of 13.0; a test compares them. Functions are named as libcuda exports
   them: a name without its _v2 is an older function, cuStreamWaitValue64 say. */

#ifdef _WIN32
#define HCQI_CU_API __stdcall
#else
#define HCQI_CU_API
#endif

typedef unsigned long long hcqi_cu_ptr;                 /* CUdeviceptr */
typedef struct CUctx_st *hcqi_cu_context;
typedef struct CUstream_st *hcqi_cu_stream;
typedef struct CUevent_st *hcqi_cu_event;
typedef struct CUfunc_st *hcqi_cu_function;
typedef struct CUmod_st *hcqi_cu_module;
typedef struct CUgraph_st *hcqi_cu_graph;
typedef struct CUgraphNode_st *hcqi_cu_node;
typedef struct CUgraphExec_st *hcqi_cu_exec;
typedef struct CUmemPoolHandle_st *hcqi_cu_pool;

enum {                                 /* CUresult */
    HCQI_CU_OK = 0,
    HCQI_CU_INVALID_VALUE = 1,
    HCQI_CU_OUT_OF_MEMORY = 2,
    HCQI_CU_DEINITIALIZED = 4,
    HCQI_CU_STUB_LIBRARY = 34,
    HCQI_CU_NO_DEVICE = 100,
    HCQI_CU_INVALID_CONTEXT = 201,
    HCQI_CU_NO_BINARY = 209,
    HCQI_CU_ECC = 214,
    HCQI_CU_INVALID_PTX = 218,
    HCQI_CU_NVLINK = 220,
    HCQI_CU_NO_JIT = 221,
    HCQI_CU_PTX_VERSION = 222,
    HCQI_CU_JIT_DISABLED = 223,
    HCQI_CU_CONTAINED = 226,
    HCQI_CU_NOT_FOUND = 500,
    HCQI_CU_NOT_READY = 600,
    HCQI_CU_ILLEGAL_ADDRESS = 700,
    HCQI_CU_LAUNCH_TIMEOUT = 702,
    HCQI_CU_PEER_ALREADY = 704,
    HCQI_CU_CONTEXT_IS_DESTROYED = 709,
    HCQI_CU_ASSERT = 710,
    HCQI_CU_ALREADY_REGISTERED = 712,
    HCQI_CU_STACK = 714,
    HCQI_CU_LAUNCH_FAILED = 719,
    HCQI_CU_TENSOR_LEAK = 721,
    HCQI_CU_UNSUPPORTED = 801,
    HCQI_CU_MPS_TERMINATED = 810,
    HCQI_CU_CAPTURE_WRONG = 900,       /* STREAM_CAPTURE_UNSUPPORTED */
    HCQI_CU_EXTERNAL_DEVICE = 911,
    HCQI_CU_UNKNOWN = 999
};

enum {                                 /* CUdevice_attribute */
    HCQI_CU_MAX_THREADS = 1,
    HCQI_CU_MAX_BLOCK_X = 2,           /* Y and Z follow */
    HCQI_CU_MAX_GRID_X = 5,            /* Y and Z follow */
    HCQI_CU_MAX_SHARED = 8,
    HCQI_CU_WARP = 10,
    HCQI_CU_PROCESSORS = 16,
    HCQI_CU_INTEGRATED = 18,
    HCQI_CU_UNIFIED_ADDRESSING = 41,
    HCQI_CU_CAPABILITY_MAJOR = 75,     /* MINOR follows */
    HCQI_CU_MAX_SHARED_OPTIN = 97,
    HCQI_CU_HOST_REGISTER = 99,
    HCQI_CU_REGISTER_READ_ONLY = 113,
    HCQI_CU_MEMORY_POOLS = 115,
    HCQI_CU_MEMOPS_64 = 122
};

enum {                                 /* CUfunction_attribute */
    HCQI_CU_FUNC_MAX_THREADS = 0, HCQI_CU_FUNC_SHARED = 1, HCQI_CU_FUNC_CONST = 2,
    HCQI_CU_FUNC_LOCAL = 3, HCQI_CU_FUNC_REGISTERS = 4, HCQI_CU_FUNC_PTX = 5,
    HCQI_CU_FUNC_BINARY = 6, HCQI_CU_FUNC_MAX_DYNAMIC = 8
};

enum {                                 /* flags and tags of several functions */
    HCQI_CU_STREAM_NON_BLOCKING = 1,
    HCQI_CU_EVENT_DISABLE_TIMING = 2,
    HCQI_CU_HOST_PORTABLE = 1,         /* cuMemHostAlloc, cuMemHostRegister */
    HCQI_CU_HOST_DEVICEMAP = 2,
    HCQI_CU_HOST_COMBINED = 4,
    HCQI_CU_HOST_READ_ONLY = 8,
    HCQI_CU_MEMORY_TYPE = 2,           /* CUpointer_attribute */
    HCQI_CU_RANGE_START = 11,
    HCQI_CU_RANGE_SIZE = 12,
    HCQI_CU_CAPTURE_RELAXED = 2,       /* CUstreamCaptureMode */
    HCQI_CU_CAPTURE_NONE = 0,          /* CUstreamCaptureStatus */
    HCQI_CU_LAUNCH_END = 0,
    HCQI_CU_LAUNCH_POINTER = 1,
    HCQI_CU_LAUNCH_SIZE = 2,
    HCQI_CU_MEMORY_HOST = 1,           /* CUmemorytype */
    HCQI_CU_MEMORY_UNIFIED = 4,
    HCQI_CU_WAIT_GEQ = 0,              /* (int64_t)(*address - value) >= 0 */
    HCQI_CU_WRITE_DEFAULT = 0,         /* behind a fence for the whole system */
    HCQI_CU_POOL_INTERNAL = 3,         /* CUmemPool_attribute: reuse by hidden waits */
    HCQI_CU_POOL_THRESHOLD = 4,
    HCQI_CU_POOL_PINNED = 1,           /* CUmemAllocationType */
    HCQI_CU_LOCATION_DEVICE = 1,
    HCQI_CU_ACCESS_READ_WRITE = 3,
    HCQI_CU_JIT_ERROR_LOG = 5,
    HCQI_CU_JIT_ERROR_LOG_SIZE = 6,
    HCQI_CU_JIT_LINES = 13
};

/* CUDA_KERNEL_NODE_PARAMS_v2; that of drivers before 12.0 is its beginning. */
typedef struct hcqi_cu_kernel_params {
    hcqi_cu_function func;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    void **params;
    void **extra;
    void *kern;
    hcqi_cu_context context;
} hcqi_cu_kernel_params;

typedef struct hcqi_cu_copy_side {     /* half of CUDA_MEMCPY3D */
    size_t x_bytes, y, z, lod;
    unsigned int memory_type;
    void *host;
    hcqi_cu_ptr device;
    void *array, *reserved;
    size_t pitch, height;
} hcqi_cu_copy_side;

typedef struct hcqi_cu_copy_params {   /* CUDA_MEMCPY3D */
    hcqi_cu_copy_side src, dst;
    size_t width_bytes, height, depth;
} hcqi_cu_copy_params;

typedef struct hcqi_cu_memset_params { /* CUDA_MEMSET_NODE_PARAMS */
    hcqi_cu_ptr dst;
    size_t pitch;
    unsigned int value, element_size;
    size_t width, height;              /* elements, rows */
} hcqi_cu_memset_params;

typedef struct hcqi_cu_location {      /* CUmemLocation */
    int type, id;
} hcqi_cu_location;

typedef struct hcqi_cu_pool_props {    /* CUmemPoolProps */
    int type, handle_types;
    hcqi_cu_location location;
    void *security;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
} hcqi_cu_pool_props;

typedef struct hcqi_cu_access {        /* CUmemAccessDesc */
    hcqi_cu_location location;
    int flags;
} hcqi_cu_access;

/* Member, the suffix of its name, will the name without one do, parameters. */
#define HCQI_CU_NEW_NODE                                                           \
    hcqi_cu_node *node, hcqi_cu_graph graph, const hcqi_cu_node *after, size_t count
#define HCQI_CUDA_NEEDED(X)                                                        \
    X(Init, , 0, (unsigned int flags))                                             \
    X(DriverGetVersion, , 0, (int *version))                                       \
    X(GetErrorName, , 0, (int error, const char **name))                           \
    X(DeviceGetCount, , 0, (int *count))                                           \
    X(DeviceGet, , 0, (int *device, int ordinal))                                  \
    X(DeviceGetName, , 0, (char *name, int size, int device))                      \
    X(DeviceTotalMem, _v2, 0, (size_t *bytes, int device))                         \
    X(DeviceGetAttribute, , 0, (int *value, int attribute, int device))            \
    X(DeviceGetPCIBusId, , 0, (char *id, int size, int device))                    \
    X(DeviceCanAccessPeer, , 0, (int *can, int device, int peer))                  \
    X(DevicePrimaryCtxRetain, , 0, (hcqi_cu_context *context, int device))         \
    X(DevicePrimaryCtxRelease, _v2, 0, (int device))                               \
    X(CtxPushCurrent, _v2, 0, (hcqi_cu_context c))                                 \
    X(CtxPopCurrent, _v2, 0, (hcqi_cu_context *context))                           \
    X(CtxGetDevice, , 0, (int *device))                                            \
    X(CtxEnablePeerAccess, , 0, (hcqi_cu_context peer, unsigned int flags))        \
    X(MemAlloc, _v2, 0, (hcqi_cu_ptr *address, size_t size))                       \
    X(MemFree, _v2, 0, (hcqi_cu_ptr address))                                      \
    X(MemHostAlloc, , 0, (void **host, size_t size, unsigned int flags))           \
    X(MemFreeHost, , 0, (void *host))                                              \
    X(MemHostGetDevicePointer, _v2, 0, (hcqi_cu_ptr *address, void *host, unsigned int flags)) \
    X(MemHostRegister, _v2, 0, (void *host, size_t size, unsigned int flags))      \
    X(MemHostUnregister, , 0, (void *host))                                        \
    X(MemcpyAsync, , 0, (hcqi_cu_ptr dst, hcqi_cu_ptr src, size_t size, hcqi_cu_stream s)) \
    X(MemsetD8Async, , 0, (hcqi_cu_ptr dst, unsigned char value, size_t count, hcqi_cu_stream s)) \
    X(MemsetD16Async, , 0,                                                         \
      (hcqi_cu_ptr dst, unsigned short value, size_t count, hcqi_cu_stream s))     \
    X(MemsetD32Async, , 0, (hcqi_cu_ptr dst, unsigned int value, size_t count, hcqi_cu_stream s)) \
    X(MemsetD2D32Async, , 0,                                                       \
      (hcqi_cu_ptr dst, size_t pitch, unsigned int value, size_t width, size_t height, \
       hcqi_cu_stream s))                                                          \
    X(ModuleLoadDataEx, , 0,                                                       \
      (hcqi_cu_module *m, const void *image, unsigned int count, int *options, void **values)) \
    X(ModuleUnload, , 0, (hcqi_cu_module module))                                  \
    X(ModuleGetFunction, , 0, (hcqi_cu_function *f, hcqi_cu_module m, const char *name)) \
    X(FuncGetAttribute, , 0, (int *value, int attribute, hcqi_cu_function function)) \
    X(FuncSetAttribute, , 0, (hcqi_cu_function function, int attribute, int value)) \
    X(LaunchKernel, , 0,                                                           \
      (hcqi_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,           \
       unsigned int shared_bytes, hcqi_cu_stream s, void **params, void **extra))  \
    X(StreamCreateWithPriority, , 0, (hcqi_cu_stream *stream, unsigned int flags, int priority)) \
    X(StreamDestroy, _v2, 0, (hcqi_cu_stream s))                                   \
    X(StreamQuery, , 0, (hcqi_cu_stream s))                                        \
    X(StreamSynchronize, , 0, (hcqi_cu_stream s))                                  \
    X(StreamWaitEvent, , 0, (hcqi_cu_stream s, hcqi_cu_event event, unsigned int flags)) \
    X(EventCreate, , 0, (hcqi_cu_event *event, unsigned int flags))                \
    X(EventDestroy, _v2, 0, (hcqi_cu_event event))                                 \
    X(EventRecord, , 0, (hcqi_cu_event event, hcqi_cu_stream s))                   \
    X(EventQuery, , 0, (hcqi_cu_event event))                                      \
    X(GraphCreate, , 0, (hcqi_cu_graph *graph, unsigned int flags))                \
    X(GraphDestroy, , 0, (hcqi_cu_graph graph))                                    \
    X(GraphAddKernelNode, _v2, 1, (HCQI_CU_NEW_NODE, const hcqi_cu_kernel_params *p)) \
    X(GraphAddMemcpyNode, , 0,                                                     \
      (HCQI_CU_NEW_NODE, const hcqi_cu_copy_params *p, hcqi_cu_context c))         \
    X(GraphAddMemsetNode, , 0,                                                     \
      (HCQI_CU_NEW_NODE, const hcqi_cu_memset_params *p, hcqi_cu_context c))       \
    X(GraphAddEmptyNode, , 0, (HCQI_CU_NEW_NODE))                                  \
    X(GraphInstantiateWithFlags, , 0,                                              \
      (hcqi_cu_exec *exec, hcqi_cu_graph g, unsigned long long flags))             \
    X(StreamIsCapturing, , 0, (hcqi_cu_stream s, int *status))                     \
    X(ThreadExchangeStreamCaptureMode, , 0, (int *mode))                           \
    X(GraphUpload, , 0, (hcqi_cu_exec exec, hcqi_cu_stream s))                     \
    X(GraphLaunch, , 0, (hcqi_cu_exec exec, hcqi_cu_stream s))                     \
    X(GraphExecDestroy, , 0, (hcqi_cu_exec exec))                                  \
    X(GraphExecKernelNodeSetParams, _v2, 1,                                        \
      (hcqi_cu_exec exec, hcqi_cu_node node, const hcqi_cu_kernel_params *p))      \
    X(GraphExecMemcpyNodeSetParams, , 0,                                           \
      (hcqi_cu_exec exec, hcqi_cu_node node, const hcqi_cu_copy_params *p, hcqi_cu_context c)) \
    X(GraphExecMemsetNodeSetParams, , 0,                                           \
      (hcqi_cu_exec exec, hcqi_cu_node node, const hcqi_cu_memset_params *p, hcqi_cu_context c))

/* These may be missing. */
#define HCQI_CU_VALUE_ARGS                                                         \
    (hcqi_cu_stream stream, hcqi_cu_ptr address, unsigned long long value, unsigned int flags)
#define HCQI_CUDA_OPTIONAL(X)                                                      \
    X(StreamWriteValue64, _v2, 0, HCQI_CU_VALUE_ARGS)                              \
    X(StreamWaitValue64, _v2, 0, HCQI_CU_VALUE_ARGS)                               \
    X(GraphNodeSetEnabled, , 0, (hcqi_cu_exec exec, hcqi_cu_node node, unsigned int enabled)) \
    X(FuncLoad, , 0, (hcqi_cu_function function))                                  \
    X(PointerGetAttribute, , 0, (void *value, int attribute, hcqi_cu_ptr address)) \
    X(MemPoolCreate, , 0, (hcqi_cu_pool *pool, const hcqi_cu_pool_props *props))   \
    X(MemPoolDestroy, , 0, (hcqi_cu_pool pool))                                    \
    X(MemPoolSetAttribute, , 0, (hcqi_cu_pool pool, int attribute, void *value))   \
    X(MemPoolSetAccess, , 0, (hcqi_cu_pool pool, const hcqi_cu_access *access, size_t count)) \
    X(MemPoolTrimTo, , 0, (hcqi_cu_pool pool, size_t keep))                        \
    X(MemAllocFromPoolAsync, , 0,                                                  \
      (hcqi_cu_ptr *address, size_t size, hcqi_cu_pool pool, hcqi_cu_stream s))    \
    X(MemFreeAsync, , 0, (hcqi_cu_ptr address, hcqi_cu_stream s))

#define HCQI_CUDA_MEMBER(member, suffix, older, args) int(HCQI_CU_API *member) args;
#define HCQI_CUDA_NAME(member, suffix, older, args)                                \
    { "cu" #member #suffix, older ? "cu" #member : NULL },
#define HCQI_CUDA_ONE(member, suffix, older, args) + 1

/* Members in the order of the names, which fill them in. */
typedef struct hcqi_cuda_api {
    HCQI_CUDA_NEEDED(HCQI_CUDA_MEMBER)
    HCQI_CUDA_OPTIONAL(HCQI_CUDA_MEMBER)
} hcqi_cuda_api;

typedef struct hcqi_cuda_name { const char *name, *older; } hcqi_cuda_name;

static const hcqi_cuda_name hcqi_cuda_names[] = { HCQI_CUDA_NEEDED(HCQI_CUDA_NAME)
                                                  HCQI_CUDA_OPTIONAL(HCQI_CUDA_NAME) };

enum { HCQI_CUDA_NEEDED_COUNT = 0 HCQI_CUDA_NEEDED(HCQI_CUDA_ONE) };

#ifndef HCQ_CUDA_LIBRARY
#ifdef _WIN32
#define HCQ_CUDA_LIBRARY "nvcuda.dll"
#else
#define HCQ_CUDA_LIBRARY "libcuda.so.1"
#endif
#endif

/* hcq's own kernels. The version is old enough for all drivers that hcq takes. */
#define HCQI_CUDA_PTX_THREAD /* %d4: this one's number, %d5: how many there are */ \
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"        \
    "  mov.u32 %r4, %nctaid.x; mul.wide.u32 %d4, %r1, %r2; cvt.u64.u32 %d5, %r3;\n" \
    "  add.u64 %d4, %d4, %d5; mul.wide.u32 %d5, %r2, %r4;\n"

static const char hcqi_cuda_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry hcq_stamp(.param .u64 dst) {\n"
    "  .reg .b64 %d<3>;\n"
    "  ld.param.u64 %d1, [dst]; mov.u64 %d2, %globaltimer;\n"
    "  st.volatile.global.u64 [%d1], %d2; membar.sys; ret;\n"
    "}\n"
    ".visible .entry hcq_fill(.param .u64 dst, .param .u64 value, .param .u64 count) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %d<8>;\n"
    "  ld.param.u64 %d1, [dst]; ld.param.u64 %d2, [value]; ld.param.u64 %d3, [count];\n"
    HCQI_CUDA_PTX_THREAD
    "again: setp.ge.u64 %p1, %d4, %d3; @%p1 bra over;\n"
    "  shl.b64 %d6, %d4, 3; add.u64 %d7, %d1, %d6; st.global.u64 [%d7], %d2;\n"
    "  add.u64 %d4, %d4, %d5; bra again;\n"
    "over: ret;\n"
    "}\n"
    ".visible .entry hcq_copy(.param .u64 dst, .param .u64 src, .param .u64 size) {\n"
    "  .reg .pred %p<3>; .reg .b16 %h1; .reg .b32 %r<5>; .reg .b64 %d<11>;\n"
    "  ld.param.u64 %d1, [dst]; ld.param.u64 %d2, [src]; ld.param.u64 %d3, [size];\n"
    HCQI_CUDA_PTX_THREAD
    "  or.b64 %d6, %d1, %d2; or.b64 %d6, %d6, %d3; and.b64 %d6, %d6, 7;\n"
    "  setp.ne.u64 %p1, %d6, 0; @%p1 bra bytes; shr.u64 %d3, %d3, 3;\n"
    "words: setp.ge.u64 %p2, %d4, %d3; @%p2 bra over;\n"
    "  shl.b64 %d7, %d4, 3; add.u64 %d8, %d2, %d7; add.u64 %d9, %d1, %d7;\n"
    "  ld.global.u64 %d10, [%d8]; st.global.u64 [%d9], %d10;\n"
    "  add.u64 %d4, %d4, %d5; bra words;\n"
    "bytes: setp.ge.u64 %p2, %d4, %d3; @%p2 bra over;\n"
    "  add.u64 %d8, %d2, %d4; add.u64 %d9, %d1, %d4;\n"
    "  ld.global.u8 %h1, [%d8]; st.global.u8 [%d9], %h1; add.u64 %d4, %d4, %d5; bra bytes;\n"
    "over: ret;\n"
    "}\n";

/* ========================================================================== */
/* ---- structures ---------------------------------------------------------- */

enum {
    HCQI_CUDA_OLDEST = 11040,          /* driver */
    HCQI_CUDA_DEVICES = 64,            /* that are listed */
    HCQI_CUDA_LANES = 8,               /* of each kind */
    HCQI_CUDA_COPY_LANES = 4,          /* so many of these */
    HCQI_CUDA_IMPORTED = 4,
    HCQI_CUDA_ALL_LANES = 2 * HCQI_CUDA_LANES + HCQI_CUDA_IMPORTED,
    HCQI_CUDA_WORD_BYTES = 128,        /* apart for each lane */
    HCQI_CUDA_RECORDS = 256,           /* batches that record events after somebody waited */
    HCQI_CUDA_GRAPH_MIN = 2,           /* commands that are worth a graph, without a kernel */
    HCQI_CUDA_PENDING = 900,           /* operations given and not done: CUDA takes some 1,000, then
                                          every call of the process that gives one blocks */
    HCQI_CUDA_MARK = 256,              /* of one batch, between looks at how far it is */
    HCQI_CUDA_UNSTORED = 64,           /* operations between stores, where events are recorded */
    HCQI_CUDA_FULL = -1,               /* no CUresult: so many are pending */
    HCQI_CUDA_EVENTS_FIRST = 256,      /* made at once: submitting allocates nothing */
    HCQI_CUDA_ARGS_BYTES = 4096,       /* of a launch, ... */
    HCQI_CUDA_ARGS_BYTES_NOW = 32764,  /* ... from 12.1 on, and Volta */
    HCQI_CUDA_LOG_BYTES = 4096,
    HCQI_CUDA_SLAB_BYTES = 262144,     /* of pinned memory, in ... */
    HCQI_CUDA_PIECE_LEAST = 4096,      /* ... pieces: of whole pages, for who imports one */
    HCQI_CUDA_PIECE_MOST = 65536,
    HCQI_CUDA_RELAY_BYTES = 65536,     /* a copy between hosts' memories without a kernel */
    HCQI_CUDA_TEXT = 160
};

#define HCQI_CUDA_POOL_KEEP ((uint64_t)64 << 20) /* free bytes that the pool keeps */
#define HCQI_CUDA_RANGE_MOST ((uint64_t)256 << 30) /* pinned in one piece: drivers refuse 512 GiB */

/* What libcuda is. */
typedef struct hcqi_cuda_driver {
    hcq_memory_hooks hooks;
    void *library;
    hcqi_cuda_api api;
    int works;                         /* cuInit did: it leaves threads behind, and stays */
    int version;                       /* of the driver: 12040 is 12.4 */
    int devices[HCQI_CUDA_DEVICES];
    uint32_t count;
    char failure[HCQI_CUDA_TEXT];      /* why there are none, "" */
} hcqi_cuda_driver;

/* An event of the pool. It is in use while somebody counts on it: the lane that it
   was recorded on until that is so far, and those who acquired it. */
typedef struct hcqi_cuda_event {
    hcqi_cu_event handle;
    uint32_t refs;                     /* atomic; 0: in the pool */
    uint32_t lent;                     /* of them, to the user; under d->event_lock */
    struct hcqi_cuda_event *next;      /* in the pool */
    struct hcqi_cuda_event *all;       /* the one made before it */
} hcqi_cuda_event;

/* A batch that is not known to be over. */
typedef struct hcqi_cuda_given {
    uint64_t epoch;
    hcqi_cuda_event *event;            /* for its end, or NULL */
    int recorded;
    hcq_job *job;
    const hcq_recording *recording;
    uint32_t first, count;             /* its packets */
    uint32_t pending;                  /* operations, of d->pending */
} hcqi_cuda_given;

typedef struct hcqi_cuda_lane {
    struct hcqi_cuda_device *d;
    hcq_lane *base;
    hcqi_cu_stream stream;
    uint32_t lent, is_imported;
    uint32_t strayed;                  /* lent, captured: the last end was given to `relay` */
    uint32_t part;                     /* packets given of the batch being given, + 1; 0: none is */
    uint32_t marked;                   /* its operations up to ... */
    hcqi_cuda_event *mark;             /* ... this event, or NULL */
    uint64_t *word;                    /* pinned: epoch, as the stream stores it; ... */
    uint32_t *trail;                   /* ... index + 1 of the last command done, and the low
                                          half of its batch's epoch */
    hcqi_cu_ptr word_address, trail_address;
    uint64_t base_epoch[2], last[2];   /* of the counters: epoch = base + value; last value */
    uint64_t done;                     /* atomic: epoch known to be over */
    uint64_t handed;                   /* atomic: epoch of the last batch given to the stream */
    uint64_t submitted;                /* epoch of the last batch taken */
    uint64_t begun;                    /* handed when a driver that gathers was last asked */
    uint32_t users;                    /* atomic: who is about to take its event */
    uint64_t stored;                   /* atomic: the last epoch whose store was given */
    uint32_t unstored;                 /* operations given since */
    uint32_t relay_lock;
    hcqi_cu_stream relay;              /* waits for its values, and for others' events */
    uint32_t records;                  /* atomic: batches still to record an event */
    uint32_t idle_looks;               /* in vain, since it went on */
    uint32_t refusals;                 /* atomic: of queries, in a row */
    uint64_t lasted_ns;                /* atomic: the last wait for it */
    uint64_t zeroed;                   /* d->zeroed when it last waited for it */
    uint32_t lock;                     /* what follows; never held over a call that can wait */
    hcqi_cuda_given *given;            /* ring by epoch */
    uint32_t given_first, given_count, given_capacity; /* a power of two */
} hcqi_cuda_lane;

/* What a node of a graph was made or last changed with. */
typedef struct hcqi_cuda_command {
    hcqi_cu_node node;
    uint32_t piece;                    /* of the list */
    uint32_t next;                     /* dirty one of its piece, + 1 */
    uint8_t dirty, off;                /* off: the node is disabled, there is nothing to do */
    size_t shadow;                     /* offset of the arguments in list->shadows */
    uint64_t words[7];                 /* of the packet */
} hcqi_cuda_command;

/* Packets next to each other that are one graph, or calls. */
typedef struct hcqi_cuda_piece {
    uint32_t first, count;
    uint32_t dirty;                    /* first command to be changed, + 1 */
    uint32_t stale;                    /* to be built before it runs again */
    uint32_t is_graph;
    hcqi_cu_graph graph;
    hcqi_cu_exec exec;                 /* NULL: nothing in it runs */
    uint32_t nodes;
} hcqi_cuda_piece;

/* A bound recording. */
typedef struct hcqi_cuda_list {
    const hcq_recording *recording;
    size_t bytes;                      /* of this with all that follows */
    hcqi_cuda_command *commands;       /* by packet */
    hcqi_cuda_piece *pieces;
    uint32_t piece_count;
    uint32_t *edge_first, *edges;      /* of a graph, else NULL: between packets of one piece */
    uint8_t *shadows;
    size_t shadow_bytes;
} hcqi_cuda_list;

/* Pinned memory for small buffers and what versions of queues have: locking pages takes some
   100 us, and freeing them may wait for the GPU. */
typedef struct hcqi_cuda_slab {
    struct hcqi_cuda_slab *next;
    hcq_memory memory;
    uint64_t piece;                    /* bytes of one: a power of two */
    uint64_t free, all;                /* a bit for each */
} hcqi_cuda_slab;

/* Host memory of others that the device sees, by hcq_memory.host. */
typedef struct hcqi_cuda_mapping {
    struct hcqi_cuda_mapping *next;
    void *host;
    uint64_t size;
    hcqi_cu_ptr address;
    uint32_t users;                    /* memories */
} hcqi_cuda_mapping;

/* Of what several devices share, which may stay when the first one has closed. */
static const hcq_memory_hooks hcqi_cuda_kept = { hcqi_malloc, hcqi_mfree, NULL };

/* A range that is registered, once in a process for all its devices; a mapping or an
   import is one or several of these. */
typedef struct hcqi_cuda_pages {
    struct hcqi_cuda_pages *next;      /* by address */
    uint64_t first, end;
    hcqi_cu_ptr address;
    uint32_t users;
    int owned;                         /* else somebody else has pinned it */
    uint32_t read_only;                /* for devices, too: the host's pages are */
    hcqi_cu_context context;           /* its, which stays as long */
    int ordinal, retained;
} hcqi_cuda_pages;

/* What hcq's devices in one context share: until the last of them closes, since loading,
   unloading and freeing wait for all that runs in the context. Under the core's lock. */
typedef struct hcqi_cuda_shared {
    struct hcqi_cuda_shared *next;
    hcqi_cu_context context;
    struct hcqi_cuda_device *devices;
    hcqi_cu_module module;             /* hcq's own kernels, under hcqi_cuda_module_lock */
    hcqi_cu_function stamp, fill, copy;
    hcq_memory *late;                  /* given back while something ran */
    uint32_t late_count, late_capacity;
} hcqi_cuda_shared;

typedef struct hcqi_cuda_device {
    hcq_device *device;
    hcq_memory_hooks hooks;
    hcqi_cuda_shared *shared;
    struct hcqi_cuda_device *next;     /* of shared->devices */
    hcqi_cuda_driver *driver;
    const hcqi_cuda_api *api;
    int ordinal;                       /* CUdevice */
    hcqi_cu_context context;
    int retained;                      /* the primary context is */
    uint32_t flags;
    uint32_t capability, processors;
    uint32_t max_threads, max_block[3], max_grid[3], max_shared, max_args, warp, integrated;
    int memops;                        /* 0: events */
    int value_waits, graphs, has_import, has_read_only, has_stamp;
    int gathers;                       /* the driver begins when it is asked */
    uint64_t spin_ns;                  /* 0 = never */
    uint64_t nap_late_ns;              /* atomic: how much longer a sleep takes than asked for */

    uint32_t compute_lanes, copy_lanes;
    hcqi_cuda_lane *lanes[HCQI_CUDA_ALL_LANES]; /* compute, copy, imported */
    uint32_t next_imported;
    hcqi_cu_stream *streams;           /* lent */
    uint32_t stream_count;
    hcqi_cu_stream one_stream;         /* of all lanes: HCQ_CUDA_ONE_STREAM */

    hcq_memory words;                  /* pinned: of lanes, then of `tool` */
    hcq_memory relayed;                /* without kernels: what is copied between hosts' memories */
    hcqi_cu_function stamp, fill, copy; /* hcq's own kernels */
    uint32_t tool_lock;                /* what follows */
    hcqi_cu_stream tool;               /* for clocks */
    uint64_t *tool_word;
    hcq_clock moment;

    hcqi_cu_pool pool;
    hcqi_cu_stream memory_stream;      /* allocations, zeroes */
    uint32_t zero_lock;
    hcqi_cuda_event *zero_event;       /* behind the last zeroes */
    uint64_t zeroed;                   /* atomic: how often there were some */
    uint64_t peers;                    /* bits: ordinals that see the pool */
    hcqi_cu_ptr *orphans;              /* the pool's, that could not be freed: the device is lost */
    uint32_t orphan_count, orphan_capacity;
    uint64_t orphan_bytes;
    uint64_t pool_freed;               /* atomic: bytes since the pool was last trimmed */
    uint32_t slab_lock;
    hcqi_cuda_slab *slabs;
    hcqi_cuda_mapping *mappings;

    uint32_t code_lock;                /* not held while one is loaded */
    struct hcqi_cuda_code *codes;

    uint32_t event_lock;               /* the pool */
    hcqi_cuda_event *spare_events;
    hcqi_cuda_event *events;           /* all */
    hcqi_cuda_event *past;             /* for points that are reached */

    uint32_t pending;                  /* atomic: operations of all lanes */
    uint32_t lost;                     /* atomic: 3, then 1 = found out, 2 = told */
    uint32_t kicked;                   /* atomic: the service thread is to stop waiting */
    int lost_code;                     /* CUresult */
    char lost_call[40];

    uint64_t launches, graph_launches, graphs_made, nodes, nodes_set, records, waits, waits_value,
        writes, batches;               /* atomic */
} hcqi_cuda_device;

/* A loaded module, for all kernels in it. */
typedef struct hcqi_cuda_code {
    struct hcqi_cuda_code *next;       /* of d->codes */
    uint32_t refs;                     /* programs */
    const void *data;                  /* which the core has as long */
    uint32_t lines;                    /* HCQ_PROGRAM_LINES or 0 */
    hcqi_cu_module module;
} hcqi_cuda_code;

/* A kernel. */
typedef struct hcqi_cuda_program {
    hcqi_cuda_device *d;
    hcqi_cuda_code *code;              /* others may have it, too */
    hcqi_cu_function function;
    hcq_program_info info;
    uint32_t args_bytes;               /* to the end of the last argument */
    int takes_grid;                    /* behind them */
    uint32_t shared_bytes, flags;
    uint32_t max_threads;
} hcqi_cuda_program;

/* ========================================================================== */
/* ---- results, locks, arrays ---------------------------------------------- */

/* Errors that end the context, and all that runs in it. */
static int hcqi_cuda_is_sticky(int r) {
    switch (r) {
    case HCQI_CU_DEINITIALIZED:
    case HCQI_CU_ECC:
    case HCQI_CU_NVLINK:
    case HCQI_CU_CONTAINED:
    case HCQI_CU_ILLEGAL_ADDRESS:
    case HCQI_CU_LAUNCH_TIMEOUT:
    case HCQI_CU_CONTEXT_IS_DESTROYED:
    case HCQI_CU_ASSERT:
    case HCQI_CU_TENSOR_LEAK:
    case HCQI_CU_MPS_TERMINATED:
    case HCQI_CU_EXTERNAL_DEVICE:
    case HCQI_CU_UNKNOWN: return 1;
    default: return r >= HCQI_CU_STACK && r <= HCQI_CU_LAUNCH_FAILED;
    }
}

static hcq_result hcqi_cuda_result(int r) {
    if (r == HCQI_CU_OK) { return HCQ_OK; }
    if (r == HCQI_CU_OUT_OF_MEMORY) { return HCQ_ERROR_OUT_OF_MEMORY; }
    return hcqi_cuda_is_sticky(r) ? HCQ_ERROR_LOST : HCQ_ERROR_NATIVE;
}

static const char *hcqi_cuda_text(const hcqi_cuda_api *api, int r) {
    const char *text = NULL;
    if (api->GetErrorName != NULL) { (void)api->GetErrorName(r, &text); }
    return text != NULL ? text : "an unknown CUresult";
}

/* Remembers the first error after which nothing can be given any more. */
static void hcqi_cuda_found_lost(hcqi_cuda_device *d, int r, const char *call) {
    if (!hcqi_atomic_cas32(&d->lost, 0, 3)) { return; }
    d->lost_code = r;
    snprintf(d->lost_call, sizeof d->lost_call, "%s", call);
    hcqi_atomic_store32(&d->lost, 1);
}

static void hcqi_cuda_note(hcqi_cuda_device *d, int r, const char *call) {
    if (hcqi_cuda_is_sticky(r)) { hcqi_cuda_found_lost(d, r, call); }
}

/* Is the context lost? hcq knows when this returns, from whichever thread: what the caller
   refuses next is no error of its own. Not under a lock of ours. */
static int hcqi_cuda_lost(hcqi_cuda_device *d) {
    uint32_t lost = hcqi_atomic_load32(&d->lost);
    for (; lost == 3; lost = hcqi_atomic_load32(&d->lost)) { hcqi_atomic_pause(); }
    if (lost != 1) { return lost != 0; }
    hcq_backend_lost(d->device, HCQ_ERROR_LOST, d->lost_call, d->lost_code);
    hcqi_atomic_store32(&d->lost, 2);
    return 1;
}

/* What a query answered. A stream that somebody destroyed, say, never gets any further:
   three refusals in a row end the device, too. Not those of a stream capture. */
static void hcqi_cuda_asked(hcqi_cuda_lane *lane, int r, const char *call) {
    int refused = r != HCQI_CU_OK && r != HCQI_CU_NOT_READY && (r < 900 || r > 909);
    if (!refused) {
        hcqi_atomic_store32(&lane->refusals, 0);
        return;
    }
    hcqi_cuda_note(lane->d, r, call);
    if (hcqi_atomic_add32(&lane->refusals, 1) >= 2) { hcqi_cuda_found_lost(lane->d, r, call); }
}

/* The end of a function that may have found a loss. */
static hcq_result hcqi_cuda_end(hcqi_cuda_device *d, hcq_result r) {
    if (r != HCQ_OK) { (void)hcqi_cuda_lost(d); }
    return r;
}

/* Logs a call if it failed. Not under a lock of ours. */
static hcq_result hcqi_cuda_failed(hcqi_cuda_device *d, int r, const char *call) {
    if (r == HCQI_CU_OK) { return HCQ_OK; }
    hcqi_cuda_note(d, r, call);
    hcq_backend_log(d->device, hcqi_cuda_result(r), "%s: %s (%d)", call,
                    hcqi_cuda_text(d->api, r), r);
    return hcqi_cuda_result(r);
}

/* The same without a line, where a log could come back. */
static hcq_result hcqi_cuda_quiet(hcqi_cuda_device *d, int r, const char *call) {
    hcqi_cuda_note(d, r, call);
    return hcqi_cuda_result(r);
}

/* While some thread captures a stream, in the usual mode, queries and allocations of all others
   are errors that end the capture: not ours, between these two. What gives work to streams is
   allowed, and has them around its queries only. */
static HCQI_THREAD_LOCAL uint32_t hcqi_cuda_unsafe;
static HCQI_THREAD_LOCAL int hcqi_cuda_capture_mode; /* the thread's own meanwhile */

static void hcqi_cuda_unsafe_begin(hcqi_cuda_device *d) {
    if (hcqi_cuda_unsafe++ != 0) { return; }
    hcqi_cuda_capture_mode = HCQI_CU_CAPTURE_RELAXED;
    (void)d->api->ThreadExchangeStreamCaptureMode(&hcqi_cuda_capture_mode);
}

static void hcqi_cuda_unsafe_end(hcqi_cuda_device *d) {
    if (--hcqi_cuda_unsafe != 0) { return; }
    (void)d->api->ThreadExchangeStreamCaptureMode(&hcqi_cuda_capture_mode);
}

static hcq_result hcqi_cuda_push(hcqi_cuda_device *d) {
    return hcqi_cuda_quiet(d, d->api->CtxPushCurrent(d->context), "cuCtxPushCurrent");
}

static void hcqi_cuda_pop(hcqi_cuda_device *d) {
    hcqi_cu_context popped;
    (void)d->api->CtxPopCurrent(&popped);
}

/* The context of the calling thread from here to hcqi_cuda_leave_context, for whatever calls. */
static hcq_result hcqi_cuda_enter_context(hcqi_cuda_device *d) {
    hcq_result r = hcqi_cuda_push(d);
    if (r == HCQ_OK) { hcqi_cuda_unsafe_begin(d); }
    return r;
}

static void hcqi_cuda_leave_context(hcqi_cuda_device *d) {
    hcqi_cuda_unsafe_end(d);
    hcqi_cuda_pop(d);
}

static void hcqi_cuda_count(uint64_t *counter, uint64_t n) { (void)hcqi_atomic_add64(counter, n); }

static hcq_result hcqi_cuda_stream_new(hcqi_cuda_device *d, hcqi_cu_stream *stream) {
    int r = d->api->StreamCreateWithPriority(stream, HCQI_CU_STREAM_NON_BLOCKING, 0);
    return hcqi_cuda_failed(d, r, "cuStreamCreateWithPriority");
}

/* ========================================================================== */
/* ---- events -------------------------------------------------------------- */
/* The lanes' timepoints. Whoever keeps one counts: at 0 it goes back to the pool, also
   if it is not complete. That is safe, since a stream that was told to wait for it
   waits for the record that was the last one then. */

/* One more in the pool; 0: there is no memory for it. Under d->event_lock, with any context. */
static int hcqi_cuda_event_make(hcqi_cuda_device *d) {
    hcqi_cuda_event *e = HCQI_CAST(hcqi_cuda_event *, hcqi_new(&d->hooks, sizeof *e));
    int r = HCQI_CU_OUT_OF_MEMORY;
    if (e != NULL && hcqi_cuda_push(d) == HCQ_OK) {
        r = d->api->EventCreate(&e->handle, HCQI_CU_EVENT_DISABLE_TIMING);
        hcqi_cuda_pop(d);
        hcqi_cuda_note(d, r, "cuEventCreate");
    }
    if (r != HCQI_CU_OK) {
        hcqi_delete(&d->hooks, e, sizeof *e);
        return 0;
    }
    e->all = d->events;
    d->events = e;
    e->next = d->spare_events;
    d->spare_events = e;
    return 1;
}

/* One of the pool, with one reference; NULL: there is no memory for more. */
static hcqi_cuda_event *hcqi_cuda_event_get(hcqi_cuda_device *d) {
    hcqi_cuda_event *e = NULL;
    hcqi_word_lock(&d->event_lock);
    if (d->spare_events != NULL || hcqi_cuda_event_make(d)) {
        e = d->spare_events;
        d->spare_events = e->next;
        hcqi_atomic_store32(&e->refs, 1);
    }
    hcqi_word_unlock(&d->event_lock);
    return e;
}

/* Why there was none. */
static int hcqi_cuda_event_none(hcqi_cuda_device *d) {
    uint32_t lost = hcqi_atomic_load32(&d->lost);
    if (lost == 0) { return HCQI_CU_OUT_OF_MEMORY; }
    return lost == 3 ? HCQI_CU_UNKNOWN : d->lost_code;
}

static void hcqi_cuda_event_put(hcqi_cuda_device *d, hcqi_cuda_event *e) {
    if (e == NULL || hcqi_atomic_add32(&e->refs, UINT32_MAX) != 1) { return; }
    hcqi_word_lock(&d->event_lock);
    e->next = d->spare_events;
    d->spare_events = e;
    hcqi_word_unlock(&d->event_lock);
}

/* The i-th that is not known to be over; under lane->lock. */
static hcqi_cuda_given *hcqi_cuda_given_at(hcqi_cuda_lane *lane, uint32_t i) {
    return &lane->given[(lane->given_first + i) & (lane->given_capacity - 1)];
}

/* Room for one more batch that is on its way; under lane->lock. */
static int hcqi_cuda_given_room(hcqi_cuda_lane *lane) {
    if (lane->given_count < lane->given_capacity) { return 1; }
    uint32_t capacity = lane->given_capacity != 0 ? lane->given_capacity * 2 : 512;
    hcqi_cuda_given *grown = HCQI_CAST(
        hcqi_cuda_given *, hcqi_new(&lane->d->hooks, capacity * sizeof *grown));
    if (grown == NULL) { return 0; }
    for (uint32_t i = 0; i < lane->given_count; i++) { grown[i] = *hcqi_cuda_given_at(lane, i); }
    hcqi_delete(&lane->d->hooks, lane->given, lane->given_capacity * sizeof *lane->given);
    lane->given = grown;
    lane->given_first = 0;
    lane->given_capacity = capacity;
    return 1;
}

/* The batch with this epoch or the first after it, NULL: none; under lane->lock. */
static hcqi_cuda_given *hcqi_cuda_given_find(hcqi_cuda_lane *lane, uint64_t epoch) {
    uint32_t low = 0, high = lane->given_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (hcqi_cuda_given_at(lane, mid)->epoch < epoch) { low = mid + 1; } else { high = mid; }
    }
    return low < lane->given_count ? hcqi_cuda_given_at(lane, low) : NULL;
}

/* ========================================================================== */
/* ---- memory -------------------------------------------------------------- */
/* Device memory comes from a pool of hcq's, in the order of a stream of its own, or
   from cuMemAlloc. hcq gives memory back when nothing uses it any more, but freeing
   what is not from the pool waits for everything that runs in the context: such
   memory, and modules, are kept until nothing does, and memory is handed out again if
   somebody wants the same. */

enum {
    HCQI_CUDA_POOLED = 1,
    HCQI_CUDA_PLAIN,
    HCQI_CUDA_PINNED,
    HCQI_CUDA_COMBINED,                /* pinned, and written by the host around its caches */
    HCQI_CUDA_REGISTERED,
    HCQI_CUDA_MODULE,                  /* .host is one */
    HCQI_CUDA_KINDS                    /* from here on: a piece of this slab */
};

#define HCQI_CUDA_KIND(kind) ((void *)(uintptr_t)(kind))

static int hcqi_cuda_kind(const hcq_memory *memory) { return (int)(uintptr_t)memory->native; }

static uint64_t hcqi_cuda_look(hcqi_cuda_lane *lane);
static void hcqi_cuda_unregister(hcqi_cuda_device *d, const void *host, uint64_t size);

/* Does nothing of hcq's run in the context? With the core's lock, as what is kept. */
static int hcqi_cuda_is_idle(const hcqi_cuda_shared *shared) {
    for (hcqi_cuda_device *d = shared->devices; d != NULL; d = d->next) {
        for (uint32_t k = 0; !hcqi_atomic_load32(&d->lost) && k < HCQI_CUDA_ALL_LANES; k++) {
            hcqi_cuda_lane *lane = d->lanes[k];
            if (lane != NULL && hcqi_cuda_look(lane) < lane->submitted) { return 0; }
        }
    }
    return 1;
}

/* A pool's memory is the process's: it outlives its context, which is broken. */
static void hcqi_cuda_orphan(hcqi_cuda_device *d, const hcq_memory *memory) {
    hcq_backend_lock(1);
    d->orphan_bytes += memory->size;
    if (HCQI_GROW(&d->hooks, d->orphans, d->orphan_capacity, d->orphan_count + 1u)) {
        d->orphans[d->orphan_count++] = memory->address;
    }
    hcq_backend_lock(0);
}

/* Gives it back in the device's primary context, a new one if it can be had, once the broken
   one is left. */
static void hcqi_cuda_orphans_free(hcqi_cuda_device *d) {
    const hcqi_cuda_api *api = d->api;
    hcqi_cu_context context, popped;
    hcqi_cu_stream stream;
    uint32_t freed = 0;
    if (d->orphan_bytes == 0) { return; }
    int r = api->DevicePrimaryCtxRetain(&context, d->ordinal), retained = r == HCQI_CU_OK;
    if (retained) { r = api->CtxPushCurrent(context); }
    if (r == HCQI_CU_OK) {
        r = api->StreamCreateWithPriority(&stream, HCQI_CU_STREAM_NON_BLOCKING, 0);
        int made = r == HCQI_CU_OK;
        for (; r == HCQI_CU_OK && freed < d->orphan_count; freed += r == HCQI_CU_OK) {
            r = api->MemFreeAsync(d->orphans[freed], stream);
        }
        if (made) {
            (void)api->StreamSynchronize(stream);
            (void)api->StreamDestroy(stream);
        }
        (void)api->CtxPopCurrent(&popped);
    }
    if (retained) { (void)api->DevicePrimaryCtxRelease(d->ordinal); }
    if (freed < d->orphan_count || r != HCQI_CU_OK) {
        hcq_backend_log(d->device, HCQ_ERROR_LOST, "cuda: of %llu bytes that the lost context had "
                        "some stay taken until the process ends: %s (%d)",
                        (unsigned long long)d->orphan_bytes, hcqi_cuda_text(api, r), r);
    }
    hcqi_delete(&d->hooks, d->orphans, d->orphan_capacity * sizeof *d->orphans);
}

/* A pool has what was freed until somebody waits for a stream, which hcq never does. */
static void hcqi_cuda_pool_trim(hcqi_cuda_device *d) {
    int idle = hcqi_atomic_load64(&d->pool_freed) > HCQI_CUDA_POOL_KEEP &&
               d->api->StreamQuery(d->memory_stream) == HCQI_CU_OK;
    if (!idle) { return; }
    hcqi_atomic_store64(&d->pool_freed, 0);
    (void)d->api->MemPoolTrimTo(d->pool, HCQI_CUDA_POOL_KEEP);
}

static void hcqi_cuda_memory_free(hcqi_cuda_device *d, const hcq_memory *memory) {
    switch (hcqi_cuda_kind(memory)) {
    case HCQI_CUDA_POOLED:
        hcqi_cuda_pool_trim(d);        /* of what was freed before */
        hcqi_cuda_count(&d->pool_freed, memory->size);
        if (d->api->MemFreeAsync(memory->address, d->memory_stream) != HCQI_CU_OK) {
            hcqi_cuda_orphan(d, memory);
        }
        break;
    case HCQI_CUDA_PLAIN: (void)d->api->MemFree(memory->address); break;
    case HCQI_CUDA_PINNED:
    case HCQI_CUDA_COMBINED: (void)d->api->MemFreeHost(memory->host); break;
    case HCQI_CUDA_REGISTERED: hcqi_cuda_unregister(d, memory->host, memory->size); break;
    case HCQI_CUDA_MODULE: (void)d->api->ModuleUnload((hcqi_cu_module)memory->host); break;
    default: break;
    }
}

/* With the context, if nothing runs in it. */
static void hcqi_cuda_late_free(hcqi_cuda_device *d) {
    hcqi_cuda_shared *shared = d->shared;
    hcq_memory *late = NULL;
    uint32_t count = 0, capacity = 0;
    hcq_backend_lock(1);
    if (shared != NULL && shared->late_count != 0 && hcqi_cuda_is_idle(shared)) {
        late = shared->late;
        count = shared->late_count;
        capacity = shared->late_capacity;
        shared->late = NULL;
        shared->late_count = shared->late_capacity = 0;
    }
    hcq_backend_lock(0);
    for (uint32_t i = 0; i < count; i++) { hcqi_cuda_memory_free(d, &late[i]); }
    if (late != NULL) { hcqi_delete(&hcqi_cuda_kept, late, capacity * sizeof *late); }
}

/* Keeps what would wait; 0: it cannot, or need not be kept. */
static int hcqi_cuda_late_put(hcqi_cuda_shared *shared, const hcq_memory *memory) {
    hcq_backend_lock(1);
    int keeps = !hcqi_cuda_is_idle(shared) &&
                HCQI_GROW(&hcqi_cuda_kept, shared->late, shared->late_capacity,
                          shared->late_count + 1u);
    if (keeps) { shared->late[shared->late_count++] = *memory; }
    hcq_backend_lock(0);
    return keeps;
}

/* Memory of this kind that was kept and has the size. */
static int hcqi_cuda_late_take(hcqi_cuda_device *d, int kind, uint64_t size, hcq_memory *memory) {
    hcqi_cuda_shared *shared = d->shared;
    int found = 0;
    hcq_backend_lock(1);
    for (uint32_t i = 0; !found && i < shared->late_count; i++) {
        const hcq_memory *m = &shared->late[i];
        found = hcqi_cuda_kind(m) == kind && m->size == size;
        if (!found) { continue; }
        *memory = *m;
        shared->late[i] = shared->late[--shared->late_count];
    }
    hcq_backend_lock(0);
    return found;
}

/* A later batch of any lane comes behind what is in the memory stream now. */
static int hcqi_cuda_zero_mark(hcqi_cuda_device *d) {
    hcqi_cuda_event *event = hcqi_cuda_event_get(d);
    if (event == NULL) { return hcqi_cuda_event_none(d); }
    hcqi_word_lock(&d->zero_lock);     /* the last recorded is the one that stays */
    int r = d->api->EventRecord(event->handle, d->memory_stream);
    hcqi_cuda_event *before = event;
    if (r == HCQI_CU_OK) {
        before = d->zero_event;
        d->zero_event = event;
        hcqi_atomic_store64(&d->zeroed, d->zeroed + 1);
    }
    hcqi_word_unlock(&d->zero_lock);
    hcqi_cuda_event_put(d, before);
    if (r == HCQI_CU_OK) { hcqi_cuda_count(&d->records, 1); }
    return r;
}

/* New memory of a kind. */
static int hcqi_cuda_memory_new(hcqi_cuda_device *d, int kind, uint64_t size, hcq_memory *memory) {
    hcqi_cu_ptr address = 0;
    void *host = NULL;
    int r;
    if (kind == HCQI_CUDA_POOLED) {
        r = d->api->MemAllocFromPoolAsync(&address, (size_t)size, d->pool, d->memory_stream);
    } else if (kind == HCQI_CUDA_PLAIN) {
        r = d->api->MemAlloc(&address, (size_t)size);
    } else {
        unsigned int combined = kind == HCQI_CUDA_COMBINED ? HCQI_CU_HOST_COMBINED : 0;
        r = d->api->MemHostAlloc(&host, (size_t)size,
                                 HCQI_CU_HOST_PORTABLE | HCQI_CU_HOST_DEVICEMAP | combined);
        address = (uint64_t)(uintptr_t)host; /* by unified addressing */
    }
    if (r != HCQI_CU_OK) { return r; }
    memory->address = address;
    memory->host = host;
    memory->size = size;
    memory->native = HCQI_CUDA_KIND(kind);
    return HCQI_CU_OK;
}

/* A piece of a slab that has one left, or of a new one, which has its memory; 0: none has. */
static int hcqi_cuda_piece_take(hcqi_cuda_device *d, uint64_t size, hcqi_cuda_slab *made,
                                hcq_memory *memory) {
    uint64_t piece = HCQI_CUDA_PIECE_LEAST, at = 0;
    while (piece < size) { piece *= 2; }
    hcqi_word_lock(&d->slab_lock);
    if (made != NULL) {
        made->piece = piece;
        made->free = made->all = ~(uint64_t)0 >> (64 - HCQI_CUDA_SLAB_BYTES / piece);
        made->next = d->slabs;
        d->slabs = made;
    }
    hcqi_cuda_slab *slab = d->slabs;
    while (slab != NULL && (slab->piece != piece || slab->free == 0)) { slab = slab->next; }
    if (slab != NULL) {
        while (!(slab->free >> at & 1)) { at++; }
        slab->free &= slab->free - 1;
        memory->address = slab->memory.address + at * piece;
        memory->host = HCQI_CAST(uint8_t *, slab->memory.host) + at * piece;
        memory->size = size;
        memory->native = slab;
    }
    hcqi_word_unlock(&d->slab_lock);
    return slab != NULL;
}

static int hcqi_cuda_slab_new(hcqi_cuda_device *d, uint64_t size, hcq_memory *memory) {
    hcqi_cuda_slab *slab = HCQI_CAST(hcqi_cuda_slab *, hcqi_new(&d->hooks, sizeof *slab));
    if (slab == NULL) { return HCQI_CU_OUT_OF_MEMORY; }
    int r = hcqi_cuda_memory_new(d, HCQI_CUDA_PINNED, HCQI_CUDA_SLAB_BYTES, &slab->memory);
    if (r == HCQI_CU_OK) {
        (void)hcqi_cuda_piece_take(d, size, slab, memory);
    } else {
        hcqi_delete(&d->hooks, slab, sizeof *slab);
    }
    return r;
}

/* Gives a piece back, and the slab's memory if nobody has one of it and there is another slab
   of such pieces; 0: that is all. */
static int hcqi_cuda_piece_put(hcqi_cuda_device *d, hcq_memory *memory) {
    hcqi_cuda_slab *slab = HCQI_CAST(hcqi_cuda_slab *, memory->native), **link = &d->slabs;
    uint64_t at = (memory->address - slab->memory.address) / slab->piece;
    int another = 0;
    hcqi_word_lock(&d->slab_lock);
    slab->free |= (uint64_t)1 << at;
    for (const hcqi_cuda_slab *s = d->slabs; s != NULL; s = s->next) {
        another |= s != slab && s->piece == slab->piece && s->free != 0;
    }
    int drops = another && slab->free == slab->all;
    while (drops && *link != slab) { link = &(*link)->next; }
    if (drops) { *link = slab->next; }
    hcqi_word_unlock(&d->slab_lock);
    if (!drops) { return 0; }
    *memory = slab->memory;
    hcqi_delete(&d->hooks, slab, sizeof *slab);
    return 1;
}

/* Makes a device's memory ready for all streams. */
static int hcqi_cuda_memory_ready(hcqi_cuda_device *d, uint32_t flags, const hcq_memory *memory) {
    int r = HCQI_CU_OK;
    if (flags & HCQ_ZEROED) {
        r = d->api->MemsetD8Async(memory->address, 0, (size_t)memory->size, d->memory_stream);
        if (r == HCQI_CU_OK) { r = hcqi_cuda_zero_mark(d); }
    } else if (hcqi_cuda_kind(memory) == HCQI_CUDA_POOLED) {
        r = d->api->StreamQuery(d->memory_stream);
        if (r == HCQI_CU_NOT_READY) { r = hcqi_cuda_zero_mark(d); } /* behind some clearing */
    }
    if (r != HCQI_CU_OK) { hcqi_cuda_memory_free(d, memory); }
    return r;
}

static hcq_result hcqi_cuda_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    static const char *const calls[] = { "", "cuMemAllocFromPoolAsync", "cuMemAlloc",
                                         "cuMemHostAlloc", "cuMemHostAlloc" };
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    int kind = flags & HCQ_HOST_WRITES ? HCQI_CUDA_COMBINED
               : flags & HCQ_HOST_VISIBLE ? HCQI_CUDA_PINNED
               : d->pool != NULL ? HCQI_CUDA_POOLED : HCQI_CUDA_PLAIN;
    int is_small = kind == HCQI_CUDA_PINNED && size <= HCQI_CUDA_PIECE_MOST;
    if (hcqi_cuda_lost(d)) { return HCQ_ERROR_LOST; }
    if (is_small && hcqi_cuda_piece_take(d, size, NULL, memory)) { return HCQ_OK; }
    hcq_result r = hcqi_cuda_enter_context(d);
    if (r != HCQ_OK) { return hcqi_cuda_end(d, r); }
    int got = HCQI_CU_OUT_OF_MEMORY;
    for (int tries = 0; tries < 2 && got == HCQI_CU_OUT_OF_MEMORY; tries++) {
        if (tries == 1) { /* what is kept goes first */
            hcqi_cuda_late_free(d);
            if (d->pool != NULL) {
                (void)d->api->StreamSynchronize(d->memory_stream);
                (void)d->api->MemPoolTrimTo(d->pool, 0);
            }
        }
        int kept = !is_small && hcqi_cuda_late_take(d, kind, size, memory);
        got = kept ? HCQI_CU_OK : is_small ? hcqi_cuda_slab_new(d, size, memory)
                                        : hcqi_cuda_memory_new(d, kind, size, memory);
        if (got == HCQI_CU_OK && kind < HCQI_CUDA_PINNED) {
            got = hcqi_cuda_memory_ready(d, flags, memory);
        }
    }
    hcqi_cuda_leave_context(d);
    if (got == HCQI_CU_OUT_OF_MEMORY) { return HCQ_ERROR_OUT_OF_MEMORY; }
    return hcqi_cuda_end(d, hcqi_cuda_failed(d, got, calls[kind]));
}

/* Also modules. What is registered is the user's, who may free it at once. */
static void hcqi_cuda_dealloc(void *self, hcq_memory *memory) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    if (memory->native == NULL) { return; }
    if ((uintptr_t)memory->native >= HCQI_CUDA_KINDS && !hcqi_cuda_piece_put(d, memory)) { return; }
    int kind = hcqi_cuda_kind(memory);
    int keeps = kind != HCQI_CUDA_POOLED && kind != HCQI_CUDA_REGISTERED;
    if (keeps && hcqi_cuda_late_put(d->shared, memory)) { return; }
    if (hcqi_cuda_enter_context(d) != HCQ_OK) { return; }
    hcqi_cuda_late_free(d);
    hcqi_cuda_memory_free(d, memory);
    hcqi_cuda_leave_context(d);
}

/* CUDA takes memory once in a process, so this list is the process's, too. It is empty
   when no device is open. */
static hcqi_cuda_pages *hcqi_cuda_registered;
static uint32_t hcqi_cuda_registered_lock; /* whoever changes it, with what the driver does, ... */
static uint32_t hcqi_cuda_links_lock;  /* ... and its links: for who only looks */
static uint32_t hcqi_cuda_seamed;      /* atomic: memories in several ranges of it */

static void hcqi_cuda_pages_drop(hcqi_cuda_device *d, hcqi_cuda_pages **link) {
    hcqi_cuda_pages *pages = *link;
    hcqi_cu_context popped;
    hcqi_word_lock(&hcqi_cuda_links_lock);
    *link = pages->next;
    hcqi_word_unlock(&hcqi_cuda_links_lock);
    if (pages->owned && d->api->CtxPushCurrent(pages->context) == HCQI_CU_OK) {
        (void)d->api->MemHostUnregister(HCQ_PTR(void, pages->first));
        (void)d->api->CtxPopCurrent(&popped);
    }
    if (pages->retained) { (void)d->api->DevicePrimaryCtxRelease(pages->ordinal); }
    hcqi_delete(&hcqi_cuda_kept, pages, sizeof *pages);
}

/* The range that somebody has pinned around `at`, or 0. */
static int hcqi_cuda_pinned_around(const hcqi_cuda_device *d, uint64_t at, uint64_t *first,
                                   uint64_t *end) {
    hcqi_cu_ptr begin, address;
    size_t size;
    if (d->api->PointerGetAttribute == NULL ||
        d->api->MemHostGetDevicePointer(&address, HCQ_PTR(void, at), 0) != HCQI_CU_OK ||
        d->api->PointerGetAttribute(&begin, HCQI_CU_RANGE_START, address) != HCQI_CU_OK ||
        d->api->PointerGetAttribute(&size, HCQI_CU_RANGE_SIZE, address) != HCQI_CU_OK) {
        return 0;
    }
    *first = at - (address - begin);
    *end = *first + size;
    return *first <= at && at < *end;
}

/* Registers [first, *end) in front of *link. Where somebody else did a part of it, only up to
   there or, from `first` on, that part, which stays theirs: *end is how far it came. */
static int hcqi_cuda_pages_add(hcqi_cuda_device *d, hcqi_cuda_pages **link, uint64_t first,
                               uint64_t *end) {
    const unsigned int flags = HCQI_CU_HOST_PORTABLE | HCQI_CU_HOST_DEVICEMAP;
    void *host = HCQ_PTR(void, first);
    uint64_t begin, stop;
    hcqi_cuda_pages *pages = HCQI_CAST(
        hcqi_cuda_pages *, hcqi_new(&hcqi_cuda_kept, sizeof *pages));
    if (pages == NULL) { return HCQI_CU_OUT_OF_MEMORY; }
    pages->context = d->context;
    pages->ordinal = d->ordinal;
    pages->retained =
        d->retained && d->api->DevicePrimaryCtxRetain(&pages->context, d->ordinal) == HCQI_CU_OK;
    int r = d->api->MemHostRegister(host, (size_t)(*end - first), flags);
    if (r != HCQI_CU_OK && hcqi_cuda_pinned_around(d, first, &begin, &stop)) {
        *end = stop < *end ? stop : *end;
        r = HCQI_CU_OK;
    } else {
        if (r != HCQI_CU_OK && hcqi_cuda_pinned_around(d, *end - 1, &begin, &stop)) {
            *end = begin;
            r = d->api->MemHostRegister(host, (size_t)(*end - first), flags);
        }
        if (r != HCQI_CU_OK && d->has_read_only) {
            pages->read_only = 1;
            r = d->api->MemHostRegister(host, (size_t)(*end - first),
                                        flags | HCQI_CU_HOST_READ_ONLY);
        }
        pages->owned = r == HCQI_CU_OK;
    }
    if (r == HCQI_CU_OK) { r = d->api->MemHostGetDevicePointer(&pages->address, host, 0); }
    pages->first = first;
    pages->end = *end;
    pages->next = *link;
    hcqi_word_lock(&hcqi_cuda_links_lock);
    *link = pages;
    hcqi_word_unlock(&hcqi_cuda_links_lock);
    if (r != HCQI_CU_OK) { hcqi_cuda_pages_drop(d, link); }
    return r;
}

/* One user less of what is in [first, end): of how many ranges? */
static uint32_t hcqi_cuda_unregister_parts(hcqi_cuda_device *d, uint64_t first, uint64_t end) {
    hcqi_cuda_pages **link = &hcqi_cuda_registered;
    uint32_t parts = 0;
    while (*link != NULL && (*link)->first < end) {
        parts += (*link)->end > first;
        if ((*link)->end > first && --(*link)->users == 0) {
            hcqi_cuda_pages_drop(d, link);
        } else {
            link = &(*link)->next;
        }
    }
    return parts;
}

/* A lost context takes its registrations along: it must not stay for them. */
static void hcqi_cuda_pages_lost(hcqi_cuda_device *d) {
    hcqi_word_lock(&hcqi_cuda_registered_lock);
    for (hcqi_cuda_pages *pages = hcqi_cuda_registered; pages != NULL; pages = pages->next) {
        if (pages->context != d->context) { continue; }
        if (pages->retained) { (void)d->api->DevicePrimaryCtxRelease(pages->ordinal); }
        pages->retained = 0;
        pages->owned = 0;
        pages->context = NULL;
    }
    hcqi_word_unlock(&hcqi_cuda_registered_lock);
}

static void hcqi_cuda_unregister(hcqi_cuda_device *d, const void *host, uint64_t size) {
    uint64_t first = (uint64_t)(uintptr_t)host;
    hcqi_word_lock(&hcqi_cuda_registered_lock);
    int seamed = hcqi_cuda_unregister_parts(d, first, first + size) > 1;
    if (seamed) { hcqi_atomic_add32(&hcqi_cuda_seamed, UINT32_MAX); }
    hcqi_word_unlock(&hcqi_cuda_registered_lock);
}

/* How many of `size` bytes at a device's address lie in one range: no copy takes more. */
static uint64_t hcqi_cuda_in_range(hcqi_cu_ptr at, uint64_t size) {
    if (hcqi_atomic_load32(&hcqi_cuda_seamed) == 0) { return size; }
    hcqi_word_lock(&hcqi_cuda_links_lock);
    for (const hcqi_cuda_pages *pages = hcqi_cuda_registered; pages != NULL; pages = pages->next) {
        uint64_t bytes = pages->end - pages->first, offset = at - pages->address;
        if (offset < bytes && bytes - offset < size) { size = bytes - offset; }
    }
    hcqi_word_unlock(&hcqi_cuda_links_lock);
    return size;
}

/* Registers the parts of a range that are not yet; the context is current. *address:
   where the device sees it. */
static int hcqi_cuda_register_parts(hcqi_cuda_device *d, uint64_t first, uint64_t end,
                                    hcqi_cu_ptr *address, uint32_t *read_only) {
    hcqi_cuda_pages **link = &hcqi_cuda_registered;
    uint64_t at = first;
    uint32_t parts = 0;
    int r = HCQI_CU_OK;
    while (*link != NULL && (*link)->end <= first) { link = &(*link)->next; }
    while (r == HCQI_CU_OK && at < end) {
        if (*link == NULL || (*link)->first > at) {
            uint64_t to = *link != NULL && (*link)->first < end ? (*link)->first : end;
            if (to - at > HCQI_CUDA_RANGE_MOST) { to = at + HCQI_CUDA_RANGE_MOST; }
            r = hcqi_cuda_pages_add(d, link, at, &to);
            if (r != HCQI_CU_OK) { break; }
        }
        hcqi_cuda_pages *pages = *link;
        hcqi_cu_ptr seen = pages->address + (at - pages->first);
        if (at == first) { *address = seen; }
        if (seen - *address != at - first) { r = HCQI_CU_ALREADY_REGISTERED; } /* in two places */
        *read_only |= pages->read_only;
        pages->users++;
        parts++;
        at = pages->end;
        link = &pages->next;
    }
    if (r != HCQI_CU_OK && at > first) { (void)hcqi_cuda_unregister_parts(d, first, at); }
    if (r == HCQI_CU_OK && parts > 1) { hcqi_atomic_add32(&hcqi_cuda_seamed, 1); }
    return r;
}

static hcq_result hcqi_cuda_register(hcqi_cuda_device *d, const void *host, uint64_t size,
                                     hcqi_cu_ptr *address, uint32_t *read_only) {
    uint64_t first = (uint64_t)(uintptr_t)host;
    *read_only = 0;
    HCQI_PASS(hcqi_cuda_enter_context(d));
    hcqi_word_lock(&hcqi_cuda_registered_lock);
    int r = hcqi_cuda_register_parts(d, first, first + size, address, read_only);
    hcqi_word_unlock(&hcqi_cuda_registered_lock);
    hcqi_cuda_leave_context(d);
    return hcqi_cuda_end(d, hcqi_cuda_failed(d, r, "cuMemHostRegister"));
}

static hcq_result hcqi_cuda_import(void *self, void *ptr, uint64_t size, hcq_memory *memory) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cu_ptr address;
    if (!d->has_import) { return HCQ_ERROR_UNSUPPORTED; }
    HCQI_PASS(hcqi_cuda_register(d, ptr, size, &address, &memory->read_only));
    memory->address = address;
    memory->host = ptr;
    memory->size = size;
    memory->native = HCQI_CUDA_KIND(HCQI_CUDA_REGISTERED);
    return HCQ_OK;
}

static const hcq_backend *hcqi_cuda_backend(void);

/* Does `d` see the device memory of `owner`? Arranges for it. */
static hcq_result hcqi_cuda_peer(hcqi_cuda_device *d, hcqi_cuda_device *owner) {
    hcqi_cu_access access;
    int can = 0, r;
    if (d->ordinal == owner->ordinal) {
        return d->context == owner->context || owner->pool != NULL ? HCQ_OK : HCQ_ERROR_UNSUPPORTED;
    }
    if (d->api->DeviceCanAccessPeer(&can, d->ordinal, owner->ordinal) != HCQI_CU_OK || !can) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    if (owner->pool != NULL && (owner->peers >> d->ordinal & 1)) { return HCQ_OK; }
    HCQI_PASS(hcqi_cuda_enter_context(d));
    memset(&access, 0, sizeof access);
    access.location.type = HCQI_CU_LOCATION_DEVICE;
    access.location.id = d->ordinal;
    access.flags = HCQI_CU_ACCESS_READ_WRITE;
    r = owner->pool != NULL ? d->api->MemPoolSetAccess(owner->pool, &access, 1)
                            : d->api->CtxEnablePeerAccess(owner->context, 0);
    hcqi_cuda_leave_context(d);
    if (r == HCQI_CU_PEER_ALREADY) { r = HCQI_CU_OK; }
    const char *call = owner->pool != NULL ? "cuMemPoolSetAccess" : "cuCtxEnablePeerAccess";
    HCQI_PASS(hcqi_cuda_failed(d, r, call));
    owner->peers |= (uint64_t)1 << d->ordinal;
    return HCQ_OK;
}

/* Memory of another CUDA device, at the same address. What clears it is over first. */
static hcq_result hcqi_cuda_map_peer(hcqi_cuda_device *d, hcqi_cuda_device *owner,
                                     const hcq_memory *memory, uint64_t *address) {
    if (memory == NULL) { return hcqi_cuda_peer(d, owner); }
    if (memory->host == NULL) {
        HCQI_PASS(hcqi_cuda_peer(d, owner));
        HCQI_PASS(hcqi_cuda_enter_context(owner));
        int r = d->api->StreamSynchronize(owner->memory_stream);
        hcqi_cuda_leave_context(owner);
        HCQI_PASS(hcqi_cuda_failed(owner, r, "cuStreamSynchronize"));
    }
    *address = memory->address;
    return HCQ_OK;
}

/* Where the mapping of a memory is linked in, or would be. */
static hcqi_cuda_mapping **hcqi_cuda_mapping_at(hcqi_cuda_device *d, const hcq_memory *memory) {
    hcqi_cuda_mapping **link = &d->mappings;
    while (*link != NULL && ((*link)->host != memory->host || (*link)->size != memory->size)) {
        link = &(*link)->next;
    }
    return link;
}

static void hcqi_cuda_mapping_drop(hcqi_cuda_device *d, hcqi_cuda_mapping **link) {
    hcqi_cuda_mapping *m = *link;
    *link = m->next;
    hcqi_cuda_unregister(d, m->host, m->size);
    hcqi_delete(&d->hooks, m, sizeof *m);
}

static hcq_result hcqi_cuda_map(void *self, const hcq_backend *owner_backend, void *owner_self,
                                const hcq_memory *memory, uint64_t *address) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    if (owner_backend == hcqi_cuda_backend()) {
        return hcqi_cuda_map_peer(d, HCQI_CAST(hcqi_cuda_device *, owner_self), memory, address);
    }
    int all = memory == NULL && strcmp(owner_backend->name, "CPU") == 0;
    uint32_t read_only;                /* the owner knows */
    if (!d->has_import || (!all && (memory == NULL || memory->host == NULL))) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    if (all) { return HCQ_OK; }
    hcqi_cuda_mapping **link = hcqi_cuda_mapping_at(d, memory), *m = *link;
    if (m == NULL) {
        m = HCQI_CAST(hcqi_cuda_mapping *, hcqi_new(&d->hooks, sizeof *m));
        if (m == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
        hcq_result r = hcqi_cuda_register(d, memory->host, memory->size, &m->address, &read_only);
        if (r != HCQ_OK) {
            hcqi_delete(&d->hooks, m, sizeof *m);
            return r;
        }
        m->host = memory->host;
        m->size = memory->size;
        *link = m;
    }
    m->users++;
    *address = m->address;
    return HCQ_OK;
}

static void hcqi_cuda_unmap(void *self, const hcq_backend *owner_backend, void *owner_self,
                            const hcq_memory *memory) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_mapping **link = hcqi_cuda_mapping_at(d, memory);
    (void)owner_backend;
    (void)owner_self;
    if (*link != NULL && --(*link)->users == 0) { hcqi_cuda_mapping_drop(d, link); }
}

static hcq_result hcqi_cuda_pool_open(hcqi_cuda_device *d) {
    hcqi_cu_pool_props props;
    uint64_t keep = HCQI_CUDA_POOL_KEEP;
    int has = 0, no = 0;
    (void)d->api->DeviceGetAttribute(&has, HCQI_CU_MEMORY_POOLS, d->ordinal);
    if (!has || (d->flags & HCQ_CUDA_NO_POOLS) || d->api->MemPoolCreate == NULL ||
        d->api->MemPoolDestroy == NULL || d->api->MemPoolSetAttribute == NULL ||
        d->api->MemPoolSetAccess == NULL || d->api->MemPoolTrimTo == NULL ||
        d->api->MemAllocFromPoolAsync == NULL || d->api->MemFreeAsync == NULL) {
        return HCQ_OK;
    }
    memset(&props, 0, sizeof props);
    props.type = HCQI_CU_POOL_PINNED;
    props.location.type = HCQI_CU_LOCATION_DEVICE;
    props.location.id = d->ordinal;
    int r = d->api->MemPoolCreate(&d->pool, &props);
    if (r == HCQI_CU_UNSUPPORTED) {    /* whatever the attribute says: a part of a GPU, say */
        d->pool = NULL;
        hcq_backend_log(d->device, HCQ_OK, "cuda: no memory pools: cuMemPoolCreate is refused");
        return HCQ_OK;
    }
    if (r == HCQI_CU_OK) {
        r = d->api->MemPoolSetAttribute(d->pool, HCQI_CU_POOL_THRESHOLD, &keep);
    }
    if (r == HCQI_CU_OK) { r = d->api->MemPoolSetAttribute(d->pool, HCQI_CU_POOL_INTERNAL, &no); }
    return hcqi_cuda_failed(d, r, "cuMemPoolCreate");
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- programs ------------------------------------------------------------ */

static int hcqi_cuda_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '$' || c == '%';
}

/* Behind spaces and comments. */
static const char *hcqi_cuda_skip(const char *at) {
    for (;;) {
        if (at[0] == '/' && at[1] == '/') {
            while (*at && *at != '\n') { at++; }
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end != NULL ? end + 2 : at + strlen(at);
        } else if (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') {
            at++;
        } else {
            return at;
        }
    }
}

/* The name of the first kernel in a PTX text; "" if there is none. */
static void hcqi_cuda_first_entry(const char *text, char *name, size_t size) {
    size_t used = 0;
    for (const char *at = hcqi_cuda_skip(text); *at; at = hcqi_cuda_skip(at)) {
        if (strncmp(at, ".entry", 6) == 0 && !hcqi_cuda_is_letter(at[6])) {
            at = hcqi_cuda_skip(at + 6);
            while (used + 1 < size && hcqi_cuda_is_letter(*at)) { name[used++] = *at++; }
            break;
        }
        at++;
        while (hcqi_cuda_is_letter(at[-1]) && hcqi_cuda_is_letter(*at)) { at++; }
    }
    name[used] = 0;
}

/* Binary formats begin with a number. */
static int hcqi_cuda_is_binary(const hcq_code *code) {
    static const uint8_t elf[4] = { 0x7f, 'E', 'L', 'F' }, fat[4] = { 0x50, 0xed, 0x55, 0xba };
    return code->size >= 4 && (memcmp(code->data, elf, 4) == 0 || memcmp(code->data, fat, 4) == 0);
}

/* What the compiler for PTX, or the loader, said: line by line. */
static void hcqi_cuda_jit_log(hcqi_cuda_device *d, hcq_result r, const char *label, char *text) {
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        if (end != NULL) { *end = 0; }
        if (*line) { hcq_backend_log(d->device, r, "program '%s': %s", label, line); }
        if (end == NULL) { return; }
        line = end + 1;
    }
}

static const char *hcqi_cuda_load_hint(int r) {
    switch (r) {
    case HCQI_CU_NO_BINARY: return ": no code in it runs on this device";
    case HCQI_CU_NO_JIT: return ": the driver's compiler for PTX (libnvidia-ptxjitcompiler) "
                                "is not installed, give a cubin";
    case HCQI_CU_PTX_VERSION: return ": its .version is newer than the driver";
    case HCQI_CU_JIT_DISABLED: return ": compiling PTX is disabled";
    default: return "";
    }
}

/* Loads a module from a copy that ends with a zero. */
static hcq_result hcqi_cuda_module_load(hcqi_cuda_device *d, const char *label, const char *image,
                                        int lines, hcqi_cu_module *module) {
    int options[3] = { HCQI_CU_JIT_ERROR_LOG, HCQI_CU_JIT_ERROR_LOG_SIZE, HCQI_CU_JIT_LINES };
    char *log = HCQI_CAST(char *, hcqi_new(&d->hooks, HCQI_CUDA_LOG_BYTES));
    void *values[3] = { log, (void *)(uintptr_t)(HCQI_CUDA_LOG_BYTES - 1), (void *)(uintptr_t)1 };
    if (log == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    int r = d->api->ModuleLoadDataEx(module, image, lines ? 3 : 2, options, values);
    hcq_result result = HCQ_OK;
    if (r != HCQI_CU_OK) {
        hcqi_cuda_note(d, r, "cuModuleLoadDataEx");
        int ours = r == HCQI_CU_OUT_OF_MEMORY || hcqi_cuda_is_sticky(r);
        result = ours ? hcqi_cuda_result(r) : HCQ_ERROR_NO_KERNEL;
        hcq_backend_log(d->device, result, "program '%s': cuModuleLoadDataEx: %s (%d)%s", label,
                        hcqi_cuda_text(d->api, r), r, hcqi_cuda_load_hint(r));
        hcqi_cuda_jit_log(d, result, label, log);
    }
    hcqi_delete(&d->hooks, log, HCQI_CUDA_LOG_BYTES);
    return result;
}

static uint32_t hcqi_cuda_func_ask(const hcqi_cuda_device *d, hcqi_cu_function f, int attribute) {
    int value = 0;
    (void)d->api->FuncGetAttribute(&value, attribute, f);
    return value < 0 ? 0 : (uint32_t)value;
}

static void hcqi_cuda_code_put(hcqi_cuda_device *d, hcqi_cuda_code *c) {
    hcqi_cuda_code **link = &d->codes;
    hcq_memory module;
    hcqi_word_lock(&d->code_lock);
    int last = --c->refs == 0;
    while (last && *link != NULL && *link != c) { link = &(*link)->next; }
    if (last && *link != NULL) { *link = c->next; }
    hcqi_word_unlock(&d->code_lock);
    if (!last) { return; }
    memset(&module, 0, sizeof module);
    module.host = c->module;
    module.native = HCQI_CUDA_KIND(HCQI_CUDA_MODULE);
    if (c->module != NULL) { hcqi_cuda_dealloc(d, &module); }
    hcqi_delete(&d->hooks, c, sizeof *c);
}

/* Finds the program's module, or loads it. */
static hcq_result hcqi_cuda_code_get(hcqi_cuda_program *p, const hcq_code *ptx, const char *image) {
    hcqi_cuda_device *d = p->d;
    uint32_t lines = p->flags & HCQ_PROGRAM_LINES;
    hcqi_word_lock(&d->code_lock);
    hcqi_cuda_code *c = d->codes;
    while (c != NULL && (c->data != ptx->data || c->lines != lines)) { c = c->next; }
    if (c != NULL) { c->refs++; }
    hcqi_word_unlock(&d->code_lock);
    p->code = c;
    if (c != NULL) { return HCQ_OK; }
    c = p->code = HCQI_CAST(hcqi_cuda_code *, hcqi_new(&d->hooks, sizeof *c));
    if (c == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    c->refs = 1;
    c->data = ptx->data;
    c->lines = lines;
    HCQI_PASS(hcqi_cuda_module_load(d, p->info.label, image, lines != 0, &c->module));
    hcqi_word_lock(&d->code_lock);
    c->next = d->codes;
    d->codes = c;
    hcqi_word_unlock(&d->code_lock);
    return HCQ_OK;
}

/* Dynamic shared memory: more than is usual must be asked for. */
static hcq_result hcqi_cuda_shared_set(hcqi_cuda_program *p) {
    hcqi_cuda_device *d = p->d;
    uint32_t fixed = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_SHARED);
    int fits = (uint64_t)p->shared_bytes + fixed <= d->max_shared, r = HCQI_CU_OK;
    hcqi_word_lock(&d->code_lock);     /* a line in here would meet it again, in a logger */
    uint32_t most = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_MAX_DYNAMIC);
    int more = p->shared_bytes > most; /* others of this kernel may have */
    if (more && fits) {
        r = d->api->FuncSetAttribute(p->function, HCQI_CU_FUNC_MAX_DYNAMIC, (int)p->shared_bytes);
    }
    hcqi_word_unlock(&d->code_lock);
    if (more && !fits) {
        return hcqi_deny(d->device, HCQ_ERROR_LIMIT, "program '%s': %u bytes of shared memory and "
                         "%u of its own, the device has %u for a block",
                         p->info.label, p->shared_bytes, fixed, d->max_shared);
    }
    return hcqi_cuda_failed(d, r, "cuFuncSetAttribute");
}

/* With the context; `image` ends with a zero. */
static hcq_result hcqi_cuda_program_load(hcqi_cuda_program *p, const hcq_code *code,
                                         const char *image) {
    hcqi_cuda_device *d = p->d;
    char first[256];
    const char *entry = code->entry;
    if (entry == NULL && !hcqi_cuda_is_binary(code)) {
        hcqi_cuda_first_entry(image, first, sizeof first);
        entry = first;
    }
    if (entry == NULL || !entry[0]) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_KERNEL, "program '%s': ptx.entry: %s",
                         p->info.label, entry ? "there is no kernel in the text" : "is NULL");
    }
    HCQI_PASS(hcqi_cuda_code_get(p, code, image));
    int got = d->api->ModuleGetFunction(&p->function, p->code->module, entry);
    if (got == HCQI_CU_NOT_FOUND) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_KERNEL,
                         "program '%s': ptx.entry: no kernel '%s'", p->info.label, entry);
    }
    HCQI_PASS(hcqi_cuda_failed(d, got, "cuModuleGetFunction"));
    if (d->api->FuncLoad != NULL) { /* not at the first launch, which would wait for streams */
        HCQI_PASS(hcqi_cuda_failed(d, d->api->FuncLoad(p->function), "cuFuncLoad"));
    }
    p->max_threads = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_MAX_THREADS);
    return hcqi_cuda_shared_set(p);
}

static void hcqi_cuda_program_destroy(void *self, void *code) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_program *p = HCQI_CAST(hcqi_cuda_program *, code);
    if (p->code != NULL) { hcqi_cuda_code_put(d, p->code); }
    hcqi_delete(&d->hooks, p, sizeof *p);
}

static hcq_result hcqi_cuda_program_create(void *self, const hcq_program_desc *desc,
                                           const hcq_program_info *info, void **code) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcq_code ptx = desc->ptx;
    if (ptx.data == NULL) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_KERNEL, "program '%s': ptx: is NULL", info->label);
    }
    if (ptx.size == 0) { ptx.size = strlen(HCQI_CAST(const char *, ptx.data)); }
    uint32_t last = info->arg_count - 1; /* behind it the block may have padding */
    uint32_t args_bytes = info->arg_count != 0 ? info->offsets[last] + info->sizes[last] : 0;
    uint32_t most = ptx.takes_grid ? HCQI_CUDA_ARGS_BYTES - 12 : d->max_args;
    if (args_bytes > most) {
        return hcqi_deny(d->device, HCQ_ERROR_LIMIT, "program '%s': args: %u bytes, the device "
                         "takes %u", info->label, args_bytes, most);
    }
    hcqi_cuda_program *p = HCQI_CAST(hcqi_cuda_program *, hcqi_new(&d->hooks, sizeof *p));
    char *image = HCQI_CAST(char *, hcqi_new(&d->hooks, ptx.size + 1));
    hcq_result r = HCQ_ERROR_OUT_OF_MEMORY;
    if (p != NULL && image != NULL) { r = hcqi_cuda_enter_context(d); }
    if (r == HCQ_OK) {
        memcpy(image, ptx.data, ptx.size);
        image[ptx.size] = 0;
        p->d = d;
        p->info = *info;
        p->args_bytes = args_bytes;
        p->takes_grid = ptx.takes_grid;
        p->shared_bytes = desc->shared_bytes;
        p->flags = desc->flags;
        r = hcqi_cuda_program_load(p, &ptx, image);
        hcqi_cuda_leave_context(d);
    }
    hcqi_delete(&d->hooks, image, ptx.size + 1);
    if (r != HCQ_OK && p != NULL) { hcqi_cuda_program_destroy(d, p); }
    if (r == HCQ_OK) { *code = p; }
    return hcqi_cuda_end(d, r);
}

static hcq_result hcqi_cuda_exec_check(void *self, void *code, const uint32_t block[3]) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    const hcqi_cuda_program *p = HCQI_CAST(const hcqi_cuda_program *, code);
    const uint32_t *most = d->max_block;
    if (block[0] > most[0] || block[1] > most[1] || block[2] > most[2] ||
        (uint64_t)block[0] * block[1] * block[2] > p->max_threads) {
        return hcqi_deny(d->device, HCQ_ERROR_INVALID, "program '%s': block: %ux%ux%u; up to "
                         "%ux%ux%u, and %u threads of this kernel", p->info.label, block[0],
                         block[1], block[2], most[0], most[1], most[2], p->max_threads);
    }
    return HCQ_OK;
}

static void hcqi_cuda_statistics(void *self, void *code, char *text, size_t size) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    const hcqi_cuda_program *p = HCQI_CAST(const hcqi_cuda_program *, code);
    if (hcqi_cuda_enter_context(d) != HCQ_OK) { return; }
    snprintf(text, size, "registers %u, local bytes %u (spilled, arrays), shared bytes %u, "
             "threads at most %u", hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_REGISTERS),
             hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_LOCAL),
             hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_SHARED), p->max_threads);
    hcqi_cuda_leave_context(d);
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- nodes of graphs ----------------------------------------------------- */

/* Without hcq's own kernels some commands take several calls. */
static int hcqi_cuda_fits_graph(const hcqi_cuda_device *d, const hcq_packet *p) {
    switch ((int)p->kind) {
    case HCQ_COMMAND_CUSTOM: return 0;
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
    case HCQ_COMMAND_TIMESTAMP: return d->has_stamp;
    case HCQ_COMMAND_FILL: return p->value_size < 8 || d->has_stamp;
    default: return 1;
    }
}

/* Barriers are edges, not nodes. */
static int hcqi_cuda_is_node(const hcq_packet *p) { return p->kind != HCQ_COMMAND_BARRIER; }

/* Is there nothing to do? */
static int hcqi_cuda_is_off(const hcq_packet *p) {
    switch ((int)p->kind) {
    case HCQ_COMMAND_EXEC: return HCQ_GRID_IS_EMPTY(p->u.exec.grid);
    case HCQ_COMMAND_COPY: return p->u.copy.size == 0;
    case HCQ_COMMAND_FILL: return p->u.fill.size == 0;
    default: return 0;
    }
}

/* Is the grid one that CUDA has? */
static int hcqi_cuda_grid_is(const hcqi_cuda_device *d, const uint32_t grid[3]) {
    return grid[0] <= d->max_grid[0] && grid[1] <= d->max_grid[1] && grid[2] <= d->max_grid[2];
}

/* Can it be launched, as it is or as a row? */
static int hcqi_cuda_grid_fits(const hcqi_cuda_device *d, const hcq_packet *p) {
    const uint32_t *grid = p->u.exec.grid;
    if (p->kind != HCQ_COMMAND_EXEC || HCQ_GRID_IS_EMPTY(grid) || hcqi_cuda_grid_is(d, grid)) {
        return 1;
    }
    return HCQI_CAST(const hcqi_cuda_program *, p->u.exec.code)->takes_grid &&
           (uint64_t)grid[0] * grid[1] <= d->max_grid[0] / grid[2];
}

/* How many bytes of a copy are one call's, from `done` on. */
static uint64_t hcqi_cuda_copy_step(const hcq_packet *p, uint64_t done) {
    uint64_t size = p->u.copy.size - done;
    return hcqi_cuda_in_range(p->u.copy.src + done, hcqi_cuda_in_range(p->u.copy.dst + done, size));
}

/* Is it a copy that takes several calls, and cannot be a node? */
static int hcqi_cuda_is_seamed(const hcq_packet *p) {
    return (p->kind == HCQ_COMMAND_COPY || p->kind == HCQ_COMMAND_WRITE) &&
           hcqi_cuda_copy_step(p, 0) != p->u.copy.size;
}

/* Can a node be made of it? A graph's inputs have addresses from the first launch on. */
static int hcqi_cuda_is_ready(const hcqi_cuda_device *d, const hcq_packet *p) {
    switch ((int)p->kind) {
    case HCQ_COMMAND_EXEC: return hcqi_cuda_grid_fits(d, p);
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
        return (p->u.copy.dst | p->u.copy.src) >> 56 == 0 && !hcqi_cuda_is_seamed(p);
    case HCQ_COMMAND_FILL: return p->u.fill.dst >> 56 == 0;
    default: return 1;
    }
}

/* What a launch gets for its arguments, in `extra`. */
typedef struct hcqi_cuda_extra {
    size_t size;
    void *list[5];
} hcqi_cuda_extra;

static void **hcqi_cuda_extra_make(hcqi_cuda_extra *x, const void *args, size_t size) {
    x->size = size;
    x->list[0] = (void *)(uintptr_t)HCQI_CU_LAUNCH_POINTER;
    x->list[1] = (void *)(uintptr_t)args;
    x->list[2] = (void *)(uintptr_t)HCQI_CU_LAUNCH_SIZE;
    x->list[3] = &x->size;
    x->list[4] = (void *)(uintptr_t)HCQI_CU_LAUNCH_END;
    return size == 0 ? NULL : x->list;
}

/* Where a node goes: into a graph that is being built, or it is changed. */
typedef struct hcqi_cuda_place {
    hcqi_cuda_piece *piece;
    hcqi_cuda_command *command;
    const hcqi_cu_node *after;
    size_t count;
    const char *call;                  /* the last one made */
} hcqi_cuda_place;

/* Is it a copy from the host's memory to the host's? CUDA's are done by the caller, who waits in
   the call, or in the launch of the graph that has it, for all that is before it. A kernel of
   hcq's copies, or the device's memory is in between. */
static int hcqi_cuda_is_hosts(const hcqi_cuda_device *d, const hcq_packet *p) {
    const uint64_t ends[2] = { p->u.copy.src, p->u.copy.dst };
    int copies = p->kind == HCQ_COMMAND_COPY || p->kind == HCQ_COMMAND_WRITE;
    if (!copies || d->api->PointerGetAttribute == NULL) { return 0; }
    for (int i = 0; i < 2; i++) {
        unsigned int type = 0;
        int r = d->api->PointerGetAttribute(&type, HCQI_CU_MEMORY_TYPE, ends[i]);
        if (r != HCQI_CU_OK || type != HCQI_CU_MEMORY_HOST) { return 0; }
    }
    return 1;
}

/* The kernel that does a command: the program's, or one of hcq's own. */
typedef struct hcqi_cuda_kernel {
    hcqi_cu_kernel_params params;
    hcqi_cuda_extra extra;
    uint64_t args[3];                  /* of hcq's own */
    uint8_t taking[HCQI_CUDA_ARGS_BYTES]; /* the arguments, and the grid behind them */
} hcqi_cuda_kernel;

/* 0: none does it. */
static int hcqi_cuda_kernel_of(const hcqi_cuda_device *d, const hcq_packet *p,
                               hcqi_cuda_kernel *k) {
    hcqi_cu_kernel_params *params = &k->params;
    memset(params, 0, sizeof *params);
    for (int i = 0; i < 3; i++) { params->grid[i] = params->block[i] = 1; }
    if (p->kind == HCQ_COMMAND_EXEC) {
        const hcqi_cuda_program *program = HCQI_CAST(const hcqi_cuda_program *, p->u.exec.code);
        int off = HCQ_GRID_IS_EMPTY(p->u.exec.grid);
        params->func = program->function;
        params->shared_bytes = program->shared_bytes;
        if (!off) { memcpy(params->grid, p->u.exec.grid, sizeof params->grid); }
        memcpy(params->block, p->u.exec.block, sizeof params->block);
        const void *args = HCQ_PTR(const void, p->u.exec.args);
        if (!program->takes_grid) {
            params->extra = hcqi_cuda_extra_make(&k->extra, args, program->args_bytes);
            return 1;
        }
        uint32_t row[3] = {0, 0, 0}, *grid = params->grid, at = (program->args_bytes + 3) & ~3u;
        if (!hcqi_cuda_grid_is(d, grid)) {
            memcpy(row, grid, sizeof row);
            grid[0] *= grid[1] * grid[2];
            grid[1] = grid[2] = 1;
        }
        memcpy(k->taking, args, program->args_bytes);
        memcpy(k->taking + at, row, sizeof row);
        params->extra = hcqi_cuda_extra_make(&k->extra, k->taking, at + sizeof row);
        return 1;
    }
    int stamps = p->kind == HCQ_COMMAND_TIMESTAMP;
    int copies = d->has_stamp && hcqi_cuda_is_hosts(d, p);
    if (!d->has_stamp || (!stamps && !copies && p->value_size < 8)) { return 0; }
    params->func = stamps ? d->stamp : copies ? d->copy : d->fill;
    k->args[0] = stamps ? p->u.stamp.dst : p->u.fill.dst;
    k->args[1] = copies ? p->u.copy.src : p->u.fill.value;
    k->args[2] = copies ? p->u.copy.size : p->u.fill.size / 8;
    if (!stamps && k->args[2] > 1) {
        uint64_t blocks = (k->args[2] + 255) / 256;
        params->block[0] = 256;
        params->grid[0] = blocks < 4096 ? (uint32_t)blocks : 4096;
    }
    params->extra = hcqi_cuda_extra_make(&k->extra, k->args, stamps ? 8 : sizeof k->args);
    return 1;
}

static int hcqi_cuda_node_copy(hcqi_cuda_device *d, hcqi_cuda_place *at, const hcq_packet *p) {
    hcqi_cu_exec exec = at->piece->exec;
    hcqi_cu_copy_params params;
    memset(&params, 0, sizeof params);
    params.src.memory_type = params.dst.memory_type = HCQI_CU_MEMORY_UNIFIED;
    params.src.device = p->u.copy.src;
    params.dst.device = p->u.copy.dst;
    params.width_bytes = p->u.copy.size == 0 ? 1 : (size_t)p->u.copy.size;
    params.height = params.depth = 1;
    at->call = exec != NULL ? "cuGraphExecMemcpyNodeSetParams" : "cuGraphAddMemcpyNode";
    if (exec != NULL) {
        return d->api->GraphExecMemcpyNodeSetParams(exec, at->command->node, &params, d->context);
    }
    return d->api->GraphAddMemcpyNode(&at->command->node, at->piece->graph, at->after, at->count,
                                      &params, d->context);
}

static int hcqi_cuda_node_memset(hcqi_cuda_device *d, hcqi_cuda_place *at, const hcq_packet *p) {
    hcqi_cu_exec exec = at->piece->exec;
    hcqi_cu_memset_params params;
    uint64_t size = p->u.fill.size;
    memset(&params, 0, sizeof params);
    params.dst = p->u.fill.dst;
    params.value = (unsigned int)p->u.fill.value;
    params.element_size = p->value_size;
    params.width = size == 0 ? 1 : (size_t)(size / p->value_size);
    params.height = 1;
    at->call = exec != NULL ? "cuGraphExecMemsetNodeSetParams" : "cuGraphAddMemsetNode";
    if (exec != NULL) {
        return d->api->GraphExecMemsetNodeSetParams(exec, at->command->node, &params, d->context);
    }
    return d->api->GraphAddMemsetNode(&at->command->node, at->piece->graph, at->after, at->count,
                                      &params, d->context);
}

/* Puts the command's node into the graph, or changes the node. */
static int hcqi_cuda_node_put(hcqi_cuda_device *d, hcqi_cuda_place *at, const hcq_packet *p) {
    const hcqi_cuda_api *api = d->api;
    hcqi_cu_exec exec = at->piece->exec;
    hcqi_cu_graph graph = at->piece->graph;
    hcqi_cu_node *node = &at->command->node;
    hcqi_cuda_kernel kernel;
    if (hcqi_cuda_is_off(p) && api->GraphNodeSetEnabled == NULL) {
        at->call = "cuGraphAddEmptyNode";
        return api->GraphAddEmptyNode(node, graph, at->after, at->count);
    }
    if (hcqi_cuda_kernel_of(d, p, &kernel)) {
        at->call = exec != NULL ? "cuGraphExecKernelNodeSetParams" : "cuGraphAddKernelNode";
        if (exec != NULL) {
            return api->GraphExecKernelNodeSetParams(exec, *node, &kernel.params);
        }
        return api->GraphAddKernelNode(node, graph, at->after, at->count, &kernel.params);
    }
    return p->kind == HCQ_COMMAND_FILL ? hcqi_cuda_node_memset(d, at, p)
                                       : hcqi_cuda_node_copy(d, at, p);
}

static uint32_t hcqi_cuda_args_bytes(const hcq_packet *p) {
    if (p->kind != HCQ_COMMAND_EXEC) { return 0; }
    return HCQI_CAST(const hcqi_cuda_program *, p->u.exec.code)->args_bytes;
}

/* Remembers what the node has now. */
static void hcqi_cuda_command_keep(const hcqi_cuda_list *list, hcqi_cuda_command *c,
                                   const hcq_packet *p) {
    uint32_t bytes = hcqi_cuda_args_bytes(p);
    c->dirty = 0;
    c->off = (uint8_t)hcqi_cuda_is_off(p);
    memcpy(c->words, p->u.words, sizeof c->words);
    if (bytes != 0) {
        memcpy(list->shadows + c->shadow, HCQ_PTR(const void, p->u.exec.args), bytes);
    }
}

static int hcqi_cuda_command_differs(const hcqi_cuda_list *list, const hcqi_cuda_command *c,
                                     const hcq_packet *p) {
    uint32_t bytes = hcqi_cuda_args_bytes(p);
    if (memcmp(c->words, p->u.words, sizeof c->words) != 0) { return 1; }
    return bytes != 0 &&
           memcmp(list->shadows + c->shadow, HCQ_PTR(const void, p->u.exec.args), bytes) != 0;
}

/* ---- graphs ---- */

/* How far a graph in building is: the nodes that the next one follows. Commands that
   overlap follow what the first of them followed. */
typedef struct hcqi_cuda_building {
    hcqi_cuda_device *d;
    hcqi_cuda_list *list;
    hcqi_cuda_place at;
    hcqi_cu_node base;                 /* before the group, or NULL */
    hcqi_cu_node *group;               /* commands that may overlap */
    uint32_t group_count;
} hcqi_cuda_building;

/* Later commands follow all of the group. */
static int hcqi_cuda_group_close(hcqi_cuda_building *b) {
    int r = HCQI_CU_OK;
    if (b->group_count == 1) { b->base = b->group[0]; }
    if (b->group_count > 1) {
        b->at.call = "cuGraphAddEmptyNode";
        r = b->d->api->GraphAddEmptyNode(&b->base, b->at.piece->graph, b->group, b->group_count);
    }
    b->group_count = 0;
    return r;
}

/* In order, or by the edges of a graph, whose `group` is those that it follows. */
static int hcqi_cuda_build_node(hcqi_cuda_building *b, uint32_t i) {
    const hcqi_cuda_list *list = b->list;
    const hcq_packet *p = &list->recording->packets[i];
    hcqi_cuda_command *c = &list->commands[i];
    int r = HCQI_CU_OK;
    if (!hcqi_cuda_is_node(p)) { return hcqi_cuda_group_close(b); }
    if (list->edge_first != NULL) {
        b->group_count = 0;
        for (uint32_t k = list->edge_first[i]; k < list->edge_first[i + 1]; k++) {
            b->group[b->group_count++] = list->commands[list->edges[k]].node;
        }
        b->at.after = b->group;
        b->at.count = b->group_count;
    } else {
        if (!(p->flags & HCQ_OVERLAP)) { r = hcqi_cuda_group_close(b); }
        b->at.after = &b->base;
        b->at.count = b->base != NULL;
    }
    b->at.command = c;
    if (r == HCQI_CU_OK) { r = hcqi_cuda_node_put(b->d, &b->at, p); }
    if (r != HCQI_CU_OK) { return r; }
    if (list->edge_first == NULL) { b->group[b->group_count++] = c->node; }
    hcqi_cuda_command_keep(list, c, p);
    b->at.piece->nodes++;
    return HCQI_CU_OK;
}

static void hcqi_cuda_piece_drop(hcqi_cuda_device *d, hcqi_cuda_piece *piece) {
    if (piece->exec != NULL) { (void)d->api->GraphExecDestroy(piece->exec); }
    if (piece->graph != NULL) { (void)d->api->GraphDestroy(piece->graph); }
    piece->exec = NULL;
    piece->graph = NULL;
    piece->nodes = 0;
}

/* Builds the graph of a piece anew, with the context; *call: what failed. */
static int hcqi_cuda_piece_build(hcqi_cuda_device *d, hcqi_cuda_list *list, hcqi_cuda_piece *piece,
                                 hcqi_cu_node *scratch, const char **call) {
    hcqi_cuda_building b;
    memset(&b, 0, sizeof b);
    b.d = d;
    b.list = list;
    b.at.piece = piece;
    b.group = scratch;
    hcqi_cuda_piece_drop(d, piece);
    piece->dirty = 0;
    b.at.call = "cuGraphCreate";
    int r = d->api->GraphCreate(&piece->graph, 0);
    for (uint32_t i = piece->first; r == HCQI_CU_OK && i < piece->first + piece->count; i++) {
        r = hcqi_cuda_build_node(&b, i);
    }
    if (r == HCQI_CU_OK) {
        b.at.call = "cuGraphInstantiateWithFlags";
        r = d->api->GraphInstantiateWithFlags(&piece->exec, piece->graph, 0);
    }
    for (uint32_t i = piece->first; r == HCQI_CU_OK && i < piece->first + piece->count; i++) {
        if (!list->commands[i].off || d->api->GraphNodeSetEnabled == NULL) { continue; }
        b.at.call = "cuGraphNodeSetEnabled"; /* it stays, but does nothing */
        r = d->api->GraphNodeSetEnabled(piece->exec, list->commands[i].node, 0);
    }
    *call = b.at.call;
    if (r != HCQI_CU_OK) {
        hcqi_cuda_piece_drop(d, piece);
        return r;
    }
    hcqi_cuda_count(&d->graphs_made, 1);
    hcqi_cuda_count(&d->nodes, piece->nodes);
    piece->stale = 0;
    return HCQI_CU_OK;
}

/* ========================================================================== */
/* ---- encoding and patching ----------------------------------------------- */

/* Walks over the pieces that a recording has, and counts what they take; fills the
   arrays if the list has them. */
static void hcqi_cuda_list_lay(const hcqi_cuda_device *d, hcqi_cuda_list *list) {
    uint32_t open = 0;
    list->piece_count = 0;
    list->shadow_bytes = 0;
    for (uint32_t i = 0; i < list->recording->count; i++) {
        const hcq_packet *p = &list->recording->packets[i];
        uint32_t fits = hcqi_packet_is_work(p) ? 1u + (uint32_t)hcqi_cuda_fits_graph(d, p) : 0;
        int begins = fits != 0 && (fits != open || p->kind == HCQ_COMMAND_CUSTOM);
        open = fits;
        list->piece_count += (uint32_t)begins;
        if (fits != 0 && list->pieces != NULL) {
            hcqi_cuda_piece *piece = &list->pieces[list->piece_count - 1];
            if (begins) { piece->first = i; }
            piece->is_graph = fits == 2;
            piece->count++;
            piece->nodes += (uint32_t)hcqi_cuda_is_node(p);
            list->commands[i].piece = list->piece_count - 1;
            list->commands[i].shadow = list->shadow_bytes;
        }
        list->shadow_bytes += hcqi_cuda_args_bytes(p);
    }
}

/* The list with its arrays in one piece. Barriers are between all commands, so a graph
   with some is built in order. */
static hcqi_cuda_list *hcqi_cuda_list_new(hcqi_cuda_device *d, const hcq_recording *recording) {
    uint32_t count = recording->count;
    int edged = recording->edge_first != NULL;
    for (uint32_t i = 0; i < count; i++) { edged &= hcqi_cuda_is_node(&recording->packets[i]); }
    hcqi_cuda_list plan;
    memset(&plan, 0, sizeof plan);
    plan.recording = recording;
    hcqi_cuda_list_lay(d, &plan);
    size_t commands = (sizeof plan + 15) & ~(size_t)15;
    size_t pieces = commands + count * sizeof *plan.commands;
    size_t edges = pieces + plan.piece_count * sizeof *plan.pieces;
    size_t edge_count = edged ? count + 1u + recording->edge_first[count] : 0;
    size_t shadows = edges + edge_count * sizeof *plan.edges;
    uint8_t *base = HCQI_CAST(uint8_t *, hcqi_new(&d->hooks, shadows + plan.shadow_bytes));
    if (base == NULL) { return NULL; }
    hcqi_cuda_list *list = HCQI_CAST(hcqi_cuda_list *, (void *)base);
    list->recording = recording;
    list->bytes = shadows + plan.shadow_bytes;
    list->commands = HCQI_CAST(hcqi_cuda_command *, (void *)(base + commands));
    list->pieces = HCQI_CAST(hcqi_cuda_piece *, (void *)(base + pieces));
    list->edge_first = edged ? HCQI_CAST(uint32_t *, (void *)(base + edges)) : NULL;
    list->edges = edged ? list->edge_first + count + 1 : NULL;
    list->shadows = base + shadows;
    hcqi_cuda_list_lay(d, list);
    return list;
}

static void hcqi_cuda_list_free(hcqi_cuda_device *d, hcqi_cuda_list *list) {
    int has_context = hcqi_cuda_enter_context(d) == HCQ_OK;
    for (uint32_t i = 0; has_context && i < list->piece_count; i++) {
        hcqi_cuda_piece_drop(d, &list->pieces[i]);
    }
    if (has_context) { hcqi_cuda_leave_context(d); }
    hcqi_delete(&d->hooks, list, list->bytes);
}

/* Copies the edges that stay inside a piece and are not implied by others: from the
   latest command down, which brings most with it. `scratch`: two words a packet, all 0. */
static void hcqi_cuda_edges_reduce(hcqi_cuda_list *list, const hcq_recording *recording,
                                   uint32_t *scratch) {
    uint32_t *named = scratch, *implied = scratch + recording->count, used = 0;
    for (uint32_t i = 0; i < recording->count; i++) {
        uint32_t low = i, high = 0, mark = i + 1;
        list->edge_first[i] = used;
        for (uint32_t k = recording->edge_first[i]; k < recording->edge_first[i + 1]; k++) {
            uint32_t before = recording->edges[k];
            if (!hcqi_packet_is_work(&recording->packets[before]) ||
                list->commands[before].piece != list->commands[i].piece) {
                continue;
            }
            named[before] = mark;
            low = before < low ? before : low;
            high = before > high ? before : high;
        }
        for (uint32_t at = high + 1; at-- > low;) {
            if (named[at] != mark && implied[at] != mark) { continue; }
            if (implied[at] != mark) { list->edges[used++] = at; }
            for (uint32_t k = list->edge_first[at]; k < list->edge_first[at + 1]; k++) {
                implied[list->edges[k]] = mark;
            }
        }
    }
    list->edge_first[recording->count] = used;
}

/* A graph that the driver refuses runs as calls: 1, and a line in the log. */
static int hcqi_cuda_piece_calls(hcqi_cuda_device *d, hcqi_cuda_piece *piece, int r,
                                 const char *call) {
    if (r == HCQI_CU_OK || r == HCQI_CU_OUT_OF_MEMORY || hcqi_cuda_is_sticky(r)) { return 0; }
    hcq_backend_log(d->device, HCQ_OK, "cuda: %s: %s (%d): commands %u to %u are calls, "
                    "not a graph", call, hcqi_cuda_text(d->api, r), r, piece->first,
                    piece->first + piece->count - 1);
    hcqi_cuda_piece_drop(d, piece);
    piece->is_graph = 0;
    return 1;
}

/* Only bound queues are worth graphs; what runs once goes to the stream as it is. */
static hcq_result hcqi_cuda_encode(void *self, hcq_recording *recording) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    size_t scratch_bytes = recording->count * sizeof(hcqi_cu_node) + 8;
    const char *call = "";
    int got = HCQI_CU_OK;
    if (!d->graphs || !recording->bound || recording->count == 0) { return HCQ_OK; }
    hcqi_cuda_list *list = hcqi_cuda_list_new(d, recording);
    void *scratch = hcqi_new(&d->hooks, scratch_bytes);
    hcq_result r = list == NULL || scratch == NULL ? HCQ_ERROR_OUT_OF_MEMORY
                                                   : hcqi_cuda_enter_context(d);
    if (r == HCQ_OK) {
        if (list->edge_first != NULL) {
            hcqi_cuda_edges_reduce(list, recording, HCQI_CAST(uint32_t *, scratch));
        }
        for (uint32_t k = 0; got == HCQI_CU_OK && k < list->piece_count; k++) {
            hcqi_cuda_piece *piece = &list->pieces[k];
            uint32_t worth = piece->nodes >= HCQI_CUDA_GRAPH_MIN;
            for (uint32_t i = piece->first; i < piece->first + piece->count; i++) {
                if (!hcqi_cuda_is_ready(d, &recording->packets[i])) { piece->stale = 1; }
                worth |= recording->packets[i].kind == HCQ_COMMAND_EXEC;
            }
            piece->is_graph &= worth;  /* to launch a graph costs half of what a kernel does */
            piece->nodes = 0;
            if (!piece->is_graph) { continue; }
            if (piece->stale) { continue; }
            got = hcqi_cuda_piece_build(d, list, piece, HCQI_CAST(hcqi_cu_node *, scratch), &call);
            if (got == HCQI_CU_OK) { /* the first launch does not */
                call = "cuGraphUpload";
                got = d->api->GraphUpload(piece->exec, d->memory_stream);
            }
            if (hcqi_cuda_piece_calls(d, piece, got, call)) { got = HCQI_CU_OK; }
        }
        hcqi_cuda_leave_context(d);
        r = hcqi_cuda_failed(d, got, call);
    }
    hcqi_delete(&d->hooks, scratch, scratch_bytes);
    if (r != HCQ_OK && list != NULL) { hcqi_cuda_list_free(d, list); }
    if (r == HCQ_OK) { recording->encoded = list; }
    return hcqi_cuda_end(d, r);
}

/* Nodes are changed at the next submit, which may be many patches later. */
static hcq_result hcqi_cuda_patch(void *self, hcq_recording *recording, uint32_t index) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_list *list = HCQI_CAST(hcqi_cuda_list *, recording->encoded);
    const hcq_packet *p = &recording->packets[index];
    if (list == NULL || !hcqi_packet_is_work(p) || !hcqi_cuda_is_node(p)) { return HCQ_OK; }
    hcqi_cuda_command *c = &list->commands[index];
    hcqi_cuda_piece *piece = &list->pieces[c->piece];
    if (!piece->is_graph || piece->stale) { return HCQ_OK; }
    if (c->off != hcqi_cuda_is_off(p) && d->api->GraphNodeSetEnabled == NULL) {
        piece->stale = 1;
        return HCQ_OK;
    }
    if (c->dirty || !hcqi_cuda_command_differs(list, c, p)) { return HCQ_OK; }
    c->dirty = 1;
    c->next = piece->dirty;
    piece->dirty = index + 1;
    return HCQ_OK;
}

static void hcqi_cuda_encode_free(void *self, hcq_recording *recording) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_list_free(d, HCQI_CAST(hcqi_cuda_list *, recording->encoded));
    recording->encoded = NULL;
}

/* The piece of a packet. */
static hcqi_cuda_piece *hcqi_cuda_piece_of(const hcqi_cuda_list *list, uint32_t index) {
    return &list->pieces[list->commands[index].piece];
}

/* ========================================================================== */
/* ---- giving work to streams ---------------------------------------------- */

static uint32_t hcqi_cuda_lane_index(const hcq_lane *target) {
    if (target->imported) { return 2 * HCQI_CUDA_LANES + target->index; }
    return target->kind == HCQ_COPY ? HCQI_CUDA_LANES + target->index : target->index;
}

/* A batch in hand. */
typedef struct hcqi_cuda_giving {
    hcqi_cuda_device *d;
    hcqi_cuda_lane *lane;
    const hcq_batch *batch;
    hcqi_cu_stream end;                /* where its end is given, usually the lane's */
    uint32_t operations;               /* given, and not yet counted */
    int failed;                        /* hcq knows of it: only its end is given */
    const hcq_packet *packet;          /* that was refused, or NULL */
    const char *call;                  /* the last one made */
} hcqi_cuda_giving;

/* How far the lane is, by what its stream stored; with events, by what was asked
   last. Any thread. */
static uint64_t hcqi_cuda_look(hcqi_cuda_lane *lane) {
    uint64_t done = hcqi_atomic_load64(&lane->done);
    if (!lane->d->memops) { return done; }
    uint64_t word = hcqi_atomic_load64(lane->word);
    return word > done ? word : done;
}

/* What a kernel does; times without one are the host's. */
static int hcqi_cuda_launch(hcqi_cuda_giving *g, const hcq_packet *p) {
    hcqi_cuda_kernel kernel;
    const hcqi_cu_kernel_params *k = &kernel.params;
    if (!hcqi_cuda_kernel_of(g->d, p, &kernel)) { return HCQI_CU_OK; }
    g->call = "cuLaunchKernel";
    if (!hcqi_cuda_grid_fits(g->d, p)) { return HCQI_CU_INVALID_VALUE; }
    return g->d->api->LaunchKernel(k->func, k->grid[0], k->grid[1], k->grid[2], k->block[0],
                                   k->block[1], k->block[2], k->shared_bytes, g->lane->stream,
                                   NULL, k->extra);
}

/* 8-byte words without a kernel: their halves, as two columns. */
static int hcqi_cuda_give_columns(hcqi_cuda_giving *g, uint64_t dst, uint64_t value,
                                  uint64_t words) {
    hcqi_cu_stream stream = g->lane->stream;
    g->call = "cuMemsetD2D32Async";
    int r = g->d->api->MemsetD2D32Async(dst, 8, (unsigned int)value, 1, (size_t)words, stream);
    if (r != HCQI_CU_OK) { return r; }
    return g->d->api->MemsetD2D32Async(dst + 4, 8, (unsigned int)(value >> 32), 1, (size_t)words,
                                       stream);
}

static int hcqi_cuda_give_fill(hcqi_cuda_giving *g, const hcq_packet *p) {
    hcqi_cuda_device *d = g->d;
    hcqi_cu_stream stream = g->lane->stream;
    uint64_t dst = p->u.fill.dst, size = p->u.fill.size, value = p->u.fill.value;
    g->call = "cuMemsetD32Async";
    switch (p->value_size) {
    case 1: return d->api->MemsetD8Async(dst, (unsigned char)value, (size_t)size, stream);
    case 2: return d->api->MemsetD16Async(dst, (unsigned short)value, (size_t)(size / 2), stream);
    case 4: return d->api->MemsetD32Async(dst, (unsigned int)value, (size_t)(size / 4), stream);
    default: break;
    }
    if (d->has_stamp) { return hcqi_cuda_launch(g, p); }
    return hcqi_cuda_give_columns(g, dst, value, size / 8);
}

/* A function of the user's, who may call hcq. */
static int hcqi_cuda_give_custom(hcqi_cuda_giving *g, const hcq_packet *p) {
    hcqi_cuda_device *d = g->d;
    hcq_cuda_encoder encoder;
    encoder.stream = g->lane->stream;
    encoder.context = d->context;
    encoder.device = d->ordinal;
    hcq_backend_callback(1);
    hcq_result r = p->u.custom.encode_fn(p->u.custom.type->user, &encoder, p->u.custom.payload);
    hcq_backend_callback(0);
    g->call = "";
    return (int)r < 0 ? HCQI_CU_INVALID_VALUE : HCQI_CU_OK;
}

static int hcqi_cuda_give_copy(hcqi_cuda_giving *g, const hcq_packet *p) {
    const hcqi_cuda_device *d = g->d;
    hcqi_cu_stream stream = g->lane->stream;
    uint64_t relay = d->relayed.address + hcqi_cuda_lane_index(g->lane->base) *
                     (uint64_t)HCQI_CUDA_RELAY_BYTES;
    int hosts = hcqi_cuda_is_hosts(d, p), r = HCQI_CU_OK;
    if (hosts && d->has_stamp) { return hcqi_cuda_launch(g, p); }
    g->call = "cuMemcpyAsync";
    for (uint64_t done = 0, step; r == HCQI_CU_OK && done < p->u.copy.size; done += step) {
        uint64_t dst = p->u.copy.dst + done, src = p->u.copy.src + done;
        step = hcqi_cuda_copy_step(p, done);
        if (hosts) {
            if (step > HCQI_CUDA_RELAY_BYTES) { step = HCQI_CUDA_RELAY_BYTES; }
            r = d->api->MemcpyAsync(relay, src, (size_t)step, stream);
            src = relay;
        }
        if (r == HCQI_CU_OK) { r = d->api->MemcpyAsync(dst, src, (size_t)step, stream); }
    }
    return r;
}

static int hcqi_cuda_give_packet(hcqi_cuda_giving *g, const hcq_packet *p) {
    if (hcqi_cuda_is_off(p)) { return HCQI_CU_OK; }
    switch ((int)p->kind) {
    case HCQ_COMMAND_EXEC:
    case HCQ_COMMAND_TIMESTAMP: return hcqi_cuda_launch(g, p);
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE: return hcqi_cuda_give_copy(g, p);
    case HCQ_COMMAND_FILL: return hcqi_cuda_give_fill(g, p);
    case HCQ_COMMAND_CUSTOM: return hcqi_cuda_give_custom(g, p);
    default: return HCQI_CU_OK;        /* a stream runs in order: barriers are nothing */
    }
}

/* Counts what was given so far; the batch's end takes it back, or a mark before it. */
static void hcqi_cuda_give_counted(hcqi_cuda_giving *g) {
    hcqi_word_lock(&g->lane->lock);
    hcqi_cuda_given *given = hcqi_cuda_given_find(g->lane, g->batch->done.epoch);
    if (given != NULL) {
        given->pending += g->operations;
        hcqi_atomic_add32(&g->d->pending, g->operations);
    }
    hcqi_word_unlock(&g->lane->lock);
    g->lane->unstored += g->operations;
    g->operations = 0;
}

/* Is the mark reached? Then what is before it is not pending any more. */
static void hcqi_cuda_mark_look(hcqi_cuda_giving *g) {
    hcqi_cuda_lane *lane = g->lane;
    if (lane->mark == NULL) { return; }
    hcqi_cuda_unsafe_begin(g->d);
    int r = g->d->api->EventQuery(lane->mark->handle);
    hcqi_cuda_unsafe_end(g->d);
    if (r != HCQI_CU_OK) { return; }
    hcqi_word_lock(&lane->lock);
    hcqi_cuda_given *given = hcqi_cuda_given_find(lane, g->batch->done.epoch);
    if (given != NULL) {
        given->pending -= lane->marked;
        hcqi_atomic_add32(&g->d->pending, 0u - lane->marked);
    }
    hcqi_word_unlock(&lane->lock);
    hcqi_cuda_event_put(g->d, lane->mark);
    lane->mark = NULL;
    lane->marked = 0;
}

/* Is there room for packet `i`, which is next? In a long batch there is a mark now and then. */
static int hcqi_cuda_give_room(hcqi_cuda_giving *g, uint32_t i) {
    hcqi_cuda_lane *lane = g->lane;
    int full = hcqi_atomic_load32(&g->d->pending) + g->operations >= HCQI_CUDA_PENDING;
    if (!full) { g->operations += g->d->flags & HCQ_CUDA_TRAIL ? 2 : 1; }
    if (!full && g->operations < HCQI_CUDA_MARK) { return HCQI_CU_OK; }
    hcqi_cuda_give_counted(g);
    hcqi_cuda_mark_look(g);
    if (lane->mark == NULL && (lane->mark = hcqi_cuda_event_get(g->d)) != NULL) {
        g->call = "cuEventRecord";
        int r = g->d->api->EventRecord(lane->mark->handle, lane->stream);
        if (r != HCQI_CU_OK) { return r; }
        hcqi_word_lock(&lane->lock);
        const hcqi_cuda_given *given = hcqi_cuda_given_find(lane, g->batch->done.epoch);
        lane->marked = given != NULL ? given->pending : 0;
        hcqi_word_unlock(&lane->lock);
    }
    lane->part = i - g->batch->first + 1;
    return full ? (int)HCQI_CUDA_FULL : (int)HCQI_CU_OK;
}

/* Packets one by one. With a trail each leaves its number. */
static int hcqi_cuda_give_packets(hcqi_cuda_giving *g, uint32_t first, uint32_t count) {
    hcqi_cuda_device *d = g->d;
    const hcqi_cuda_lane *lane = g->lane;
    int trail = (d->flags & HCQ_CUDA_TRAIL) != 0, r = HCQI_CU_OK;
    uint32_t launches = 0;
    for (uint32_t i = first; r == HCQI_CU_OK && i < first + count; i++) {
        const hcq_packet *p = &g->batch->recording->packets[i];
        r = hcqi_cuda_give_room(g, i);
        if (r == HCQI_CU_OK) { r = hcqi_cuda_give_packet(g, p); }
        if (r == HCQI_CUDA_FULL) { break; }
        launches += p->kind == HCQ_COMMAND_EXEC;
        if (r == HCQI_CU_OK && trail) {
            g->call = "cuMemsetD32Async";
            r = d->api->MemsetD32Async(lane->trail_address, i + 1, 1, lane->stream);
        }
        if (r != HCQI_CU_OK) { g->packet = p; }
    }
    if (launches != 0) { hcqi_cuda_count(&d->launches, launches); }
    return r;
}

static int hcqi_cuda_piece_renew(hcqi_cuda_giving *g, hcqi_cuda_list *list,
                                 hcqi_cuda_piece *piece) {
    size_t bytes = piece->count * sizeof(hcqi_cu_node);
    hcqi_cu_node *scratch = HCQI_CAST(hcqi_cu_node *, hcqi_new(&g->d->hooks, bytes));
    if (scratch == NULL) { return HCQI_CU_OUT_OF_MEMORY; }
    hcqi_cuda_unsafe_begin(g->d);
    int r = hcqi_cuda_piece_build(g->d, list, piece, scratch, &g->call);
    hcqi_cuda_unsafe_end(g->d);
    hcqi_delete(&g->d->hooks, scratch, bytes);
    return r;
}

/* Changes one node. */
static int hcqi_cuda_node_set(hcqi_cuda_giving *g, hcqi_cuda_list *list, hcqi_cuda_piece *piece,
                              uint32_t i) {
    hcqi_cuda_device *d = g->d;
    const hcq_packet *p = &list->recording->packets[i];
    hcqi_cuda_place at;
    memset(&at, 0, sizeof at);
    at.piece = piece;
    at.command = &list->commands[i];
    int was_off = at.command->off, off = hcqi_cuda_is_off(p), r = HCQI_CU_OK;
    if (!off) { r = hcqi_cuda_node_put(d, &at, p); }
    if (r == HCQI_CU_OK && off != was_off) {
        at.call = "cuGraphNodeSetEnabled";
        r = d->api->GraphNodeSetEnabled(piece->exec, at.command->node, (unsigned int)!off);
    }
    if (at.call != NULL) { g->call = at.call; }
    if (r != HCQI_CU_OK) { return r; }
    hcqi_cuda_command_keep(list, at.command, p);
    hcqi_cuda_count(&d->nodes_set, 1);
    return HCQI_CU_OK;
}

/* The graph with what was patched since it ran; what cannot be changed, memory of
   another kind say, is built anew. */
static int hcqi_cuda_piece_ready(hcqi_cuda_giving *g, hcqi_cuda_list *list,
                                 hcqi_cuda_piece *piece) {
    int r = HCQI_CU_OK;
    while (!piece->stale && piece->dirty != 0) {
        uint32_t i = piece->dirty - 1;
        piece->dirty = list->commands[i].next;
        r = hcqi_cuda_node_set(g, list, piece, i);
        if (hcqi_cuda_is_sticky(r)) { return r; }
        if (r != HCQI_CU_OK) { piece->stale = 1; }
    }
    return piece->stale ? hcqi_cuda_piece_renew(g, list, piece) : HCQI_CU_OK;
}

/* A grid that no launch takes, found before a graph is made of it. */
static const hcq_packet *hcqi_cuda_piece_bad(const hcqi_cuda_device *d, const hcqi_cuda_list *list,
                                             const hcqi_cuda_piece *piece) {
    uint32_t at = piece->dirty, i = piece->first;
    while (piece->stale ? i < piece->first + piece->count : at != 0) {
        const hcq_packet *p = &list->recording->packets[piece->stale ? i : at - 1];
        if (!hcqi_cuda_grid_fits(d, p)) { return p; }
        at = piece->stale ? 0 : list->commands[at - 1].next;
        i++;
    }
    return NULL;
}

/* Does it have a copy over a seam? Seldom anybody does. */
static int hcqi_cuda_piece_seamed(const hcqi_cuda_list *list, const hcqi_cuda_piece *piece) {
    int seamed = 0;
    uint32_t count = hcqi_atomic_load32(&hcqi_cuda_seamed) != 0 ? piece->count : 0;
    for (uint32_t i = 0; i < count; i++) {
        seamed |= hcqi_cuda_is_seamed(&list->recording->packets[piece->first + i]);
    }
    return seamed;
}

/* From packet `i` on, which is its first unless a part of it was given before. */
static int hcqi_cuda_give_piece(hcqi_cuda_giving *g, hcqi_cuda_list *list,
                                hcqi_cuda_piece *piece, uint32_t i) {
    uint32_t left = piece->first + piece->count - i;
    if (!piece->is_graph || i != piece->first || hcqi_cuda_piece_seamed(list, piece)) {
        return hcqi_cuda_give_packets(g, i, left);
    }
    int room = hcqi_cuda_give_room(g, i);
    if (room != HCQI_CU_OK) { return room; }
    g->packet = hcqi_cuda_piece_bad(g->d, list, piece);
    if (g->packet != NULL) {
        g->call = "cuLaunchKernel";
        piece->stale = 1;
        return HCQI_CU_INVALID_VALUE;
    }
    int r = hcqi_cuda_piece_ready(g, list, piece);
    if (hcqi_cuda_piece_calls(g->d, piece, r, g->call)) {
        return hcqi_cuda_give_packets(g, i, left);
    }
    if (r == HCQI_CU_OK) {
        g->call = "cuGraphLaunch";
        r = g->d->api->GraphLaunch(piece->exec, g->lane->stream);
        hcqi_cuda_count(&g->d->graph_launches, 1);
    }
    return r;
}

static int hcqi_cuda_give_batch(hcqi_cuda_giving *g) {
    const hcq_batch *b = g->batch;
    if (b->recording == NULL || b->count == 0) { return HCQI_CU_OK; }
    uint32_t first = b->first + g->lane->part - 1, end = b->first + b->count;
    if (g->d->flags & HCQ_CUDA_TRAIL && g->lane->part == 1) { /* nothing of this batch is done */
        g->call = "cuMemsetD32Async";
        hcqi_cu_ptr trail = g->lane->trail_address;
        int r = g->d->api->MemsetD32Async(trail, 0, 1, g->lane->stream);
        if (r == HCQI_CU_OK) {
            r = g->d->api->MemsetD32Async(trail + 4, (unsigned int)b->done.epoch, 1,
                                          g->lane->stream);
        }
        if (r != HCQI_CU_OK) { return r; }
    }
    hcqi_cuda_list *list = HCQI_CAST(hcqi_cuda_list *, b->recording->encoded);
    if (list == NULL) { return hcqi_cuda_give_packets(g, first, end - first); }
    int r = HCQI_CU_OK;
    for (uint32_t i = first; r == HCQI_CU_OK && i < end;) {
        hcqi_cuda_piece *piece = hcqi_cuda_piece_of(list, i);
        r = hcqi_cuda_give_piece(g, list, piece, i);
        i = piece->first + piece->count;
    }
    return r;
}

/* ---- waits ---- */

/* The event kept for a batch, or another one; with a reference. */
static hcqi_cuda_event *hcqi_cuda_lane_spare(hcqi_cuda_lane *lane, uint64_t epoch) {
    hcqi_cuda_event *event = NULL;
    hcqi_word_lock(&lane->lock);
    const hcqi_cuda_given *given = hcqi_cuda_given_find(lane, epoch);
    if (given != NULL && given->epoch == epoch && given->event != NULL && !given->recorded) {
        event = given->event;
        (void)hcqi_atomic_add32(&event->refs, 1);
    }
    hcqi_word_unlock(&lane->lock);
    return event != NULL ? event : hcqi_cuda_event_get(lane->d);
}

/* Records an event behind the last batch of a lane, for that batch's epoch. By who
   gives to the lane's device. *out, with a reference: NULL if there is no memory for one,
   which only matters where each batch has one from the beginning. */
static int hcqi_cuda_lane_record(hcqi_cuda_lane *lane, hcqi_cu_stream stream, uint64_t epoch,
                                 hcqi_cuda_event **out) {
    hcqi_cuda_device *d = lane->d;
    hcqi_cuda_event *event = hcqi_cuda_lane_spare(lane, epoch);
    *out = NULL;
    if (event == NULL) {
        return hcqi_atomic_load32(&d->lost) ? hcqi_cuda_event_none(d) : HCQI_CU_OK;
    }
    int r = d->api->EventRecord(event->handle, stream);
    if (r != HCQI_CU_OK) {
        hcqi_cuda_event_put(d, event);
        return r;
    }
    hcqi_cuda_count(&d->records, 1);
    hcqi_word_lock(&lane->lock);
    hcqi_cuda_given *given = hcqi_cuda_given_find(lane, epoch);
    if (given != NULL && given->epoch == epoch && !given->recorded) {
        if (given->event == NULL) {
            given->event = event;
            (void)hcqi_atomic_add32(&event->refs, 1);
        }
        given->recorded = given->event == event;
    }
    hcqi_word_unlock(&lane->lock);
    *out = event;
    return HCQI_CU_OK;
}

/* The event of exactly this epoch, if it was recorded, with a reference. *done: it is
   over, nobody has to wait. */
static hcqi_cuda_event *hcqi_cuda_lane_event(hcqi_cuda_lane *lane, uint64_t epoch, int *done) {
    hcqi_cuda_event *event = NULL;
    hcqi_word_lock(&lane->lock);
    const hcqi_cuda_given *given = hcqi_cuda_given_find(lane, epoch);
    *done = hcqi_cuda_look(lane) >= epoch || given == NULL;
    if (!*done && given->epoch == epoch && given->recorded) {
        event = given->event;
        (void)hcqi_atomic_add32(&event->refs, 1);
    }
    hcqi_word_unlock(&lane->lock);
    return event;
}

/* The event that `epoch` of the lane has by now, or gets if nothing was given to the
   lane after it; NULL and *done 0: it is too late for one. By who gives. */
static int hcqi_cuda_event_for(hcqi_cuda_lane *lane, uint64_t epoch, hcqi_cuda_event **event,
                               int *done) {
    *event = hcqi_cuda_lane_event(lane, epoch, done);
    hcqi_atomic_store32(&lane->records, HCQI_CUDA_RECORDS);
    if (*event != NULL || *done || hcqi_atomic_load64(&lane->handed) != epoch) {
        return HCQI_CU_OK;
    }
    return hcqi_cuda_lane_record(lane, lane->strayed ? lane->relay : lane->stream, epoch, event);
}

/* Makes the batch's stream wait for another lane. */
static int hcqi_cuda_give_wait(hcqi_cuda_giving *g, const hcq_lane_point *wait) {
    hcqi_cuda_device *d = g->d;
    hcqi_cuda_lane *other = HCQI_CAST(hcqi_cuda_lane *, wait->lane->native);
    hcqi_cu_stream stream = g->lane->stream;
    hcqi_cuda_event *event;
    int done;
    if (other->stream == stream || hcqi_cuda_look(other) >= wait->epoch) { return HCQI_CU_OK; }
    g->call = "cuEventRecord";
    int r = hcqi_cuda_event_for(other, wait->epoch, &event, &done);
    if (r != HCQI_CU_OK || done) { return r; }
    if (event != NULL) {
        g->call = "cuStreamWaitEvent";
        r = d->api->StreamWaitEvent(stream, event->handle, 0);
        hcqi_cuda_event_put(d, event);
        hcqi_cuda_count(&d->waits, 1);
        return r;
    }
    g->call = "cuStreamWaitValue64";
    hcqi_cuda_count(&d->waits_value, 1);
    return d->api->StreamWaitValue64(stream, other->word_address, wait->epoch, HCQI_CU_WAIT_GEQ);
}

/* What clears new memory comes first. */
static int hcqi_cuda_give_zero(hcqi_cuda_giving *g) {
    hcqi_cuda_device *d = g->d;
    hcqi_cuda_lane *lane = g->lane;
    int r = HCQI_CU_OK;
    if (lane->zeroed == hcqi_atomic_load64(&d->zeroed)) { return r; }
    hcqi_word_lock(&d->zero_lock);
    g->call = "cuStreamWaitEvent";
    r = d->api->StreamWaitEvent(lane->stream, d->zero_event->handle, 0);
    if (r == HCQI_CU_OK) { lane->zeroed = d->zeroed; }
    hcqi_word_unlock(&d->zero_lock);
    hcqi_cuda_count(&d->waits, 1);
    return r;
}

/* The end of a batch: an event if somebody will want one, and the lane's word, which costs as much
   as six events. Beside events it is stored now and then: who looks meanwhile asks them. */
static int hcqi_cuda_give_end(hcqi_cuda_giving *g) {
    hcqi_cuda_device *d = g->d;
    hcqi_cuda_lane *lane = g->lane;
    hcqi_cuda_event *event = NULL;
    uint64_t epoch = g->batch->done.epoch;
    uint32_t records = hcqi_atomic_load32(&lane->records);
    int r = HCQI_CU_OK, recorded = 0;
    if (records != 0 || !d->value_waits) {
        g->call = "cuEventRecord";
        r = hcqi_cuda_lane_record(lane, g->end, epoch, &event);
        if (records != 0) { (void)hcqi_atomic_cas32(&lane->records, records, records - 1); }
        recorded = event != NULL;
        hcqi_cuda_event_put(d, event);
    }
    if (r == HCQI_CU_OK && d->memops && !(recorded && lane->unstored < HCQI_CUDA_UNSTORED)) {
        g->call = "cuStreamWriteValue64";
        r = d->api->StreamWriteValue64(g->end, lane->word_address, epoch, HCQI_CU_WRITE_DEFAULT);
        hcqi_cuda_count(&d->writes, 1);
        if (r == HCQI_CU_OK) { hcqi_atomic_store64(&lane->stored, epoch); }
        lane->unstored = 0;
    }
    if (r == HCQI_CU_OK) { hcqi_atomic_store64(&lane->handed, epoch); }
    return r;
}

/* ---- failures ---- */

static hcq_result hcqi_cuda_give_result(const hcqi_cuda_giving *g, int r) {
    int custom = g->packet != NULL && g->packet->kind == HCQ_COMMAND_CUSTOM;
    if (custom && g->call[0] == 0) { return HCQ_ERROR_HOST; }
    if (g->packet != NULL && r == HCQI_CU_INVALID_VALUE &&
        !hcqi_cuda_grid_fits(g->d, g->packet)) {
        return HCQ_ERROR_LIMIT;
    }
    return hcqi_cuda_result(r);
}

/* A call was refused. */
static void hcqi_cuda_give_fail(hcqi_cuda_giving *g, int r) {
    hcqi_cuda_device *d = g->d;
    hcq_result result = hcqi_cuda_give_result(g, r);
    const char *call = g->call;
    hcqi_cuda_note(d, r, call);
    if (hcqi_atomic_load32(&d->lost)) { return; }
    if (result == HCQ_ERROR_LIMIT && g->packet != NULL) {
        const uint32_t *grid = g->packet->u.exec.grid;
        hcq_backend_log(d->device, result, "grid: %ux%ux%u, the device takes up to %ux%ux%u, and "
                        "%u blocks in all of a kernel that takes its grid", grid[0], grid[1],
                        grid[2], d->max_grid[0], d->max_grid[1], d->max_grid[2], d->max_grid[0]);
    } else if (call[0]) {
        hcq_backend_log(d->device, result, "%s: %s (%d)", call, hcqi_cuda_text(d->api, r), r);
    }
    hcq_backend_job_fail(g->batch->job, &g->batch->done, result, g->packet,
                         call[0] ? call : NULL, call[0] ? r : 0);
    g->failed = 1;
}

/* Makes a stream wait for what the lane was given so far. */
static int hcqi_cuda_give_behind(hcqi_cuda_lane *lane, hcqi_cu_stream stream) {
    int done, r = HCQI_CU_OK;
    uint64_t epoch = hcqi_atomic_load64(&lane->handed);
    hcqi_cuda_event *event = hcqi_cuda_lane_event(lane, epoch, &done);
    if (event != NULL) {
        r = lane->d->api->StreamWaitEvent(stream, event->handle, 0);
        hcqi_cuda_event_put(lane->d, event);
    } else if (!done) {
        r = lane->d->api->StreamWaitValue64(stream, lane->word_address, epoch, HCQI_CU_WAIT_GEQ);
    }
    return r;
}

/* Under lane->relay_lock. */
static int hcqi_cuda_relay_open(hcqi_cuda_lane *lane) {
    if (lane->relay != NULL) { return HCQI_CU_OK; }
    return lane->d->api->StreamCreateWithPriority(&lane->relay, HCQI_CU_STREAM_NON_BLOCKING, 0);
}

/* A lent stream that its owner captures keeps what it is given for a graph of theirs: the batch
   fails, and has its end on the lane's other stream. */
static int hcqi_cuda_give_lent(hcqi_cuda_giving *g) {
    hcqi_cuda_lane *lane = g->lane;
    const hcqi_cuda_api *api = g->d->api;
    int status = HCQI_CU_CAPTURE_NONE;
    g->call = "cuStreamIsCapturing";
    int r = api->StreamIsCapturing(lane->stream, &status);
    if (r != HCQI_CU_OK) { return r; }
    if (status == HCQI_CU_CAPTURE_NONE) {
        if (lane->strayed) { r = hcqi_cuda_give_behind(lane, lane->stream); }
        lane->strayed = 0;
        return r;
    }
    hcqi_word_lock(&lane->relay_lock);
    r = hcqi_cuda_relay_open(lane);
    if (r == HCQI_CU_OK) { r = hcqi_cuda_give_behind(lane, lane->relay); }
    hcqi_word_unlock(&lane->relay_lock);
    if (r != HCQI_CU_OK) { return r; }
    g->end = lane->relay;
    lane->strayed = 1;
    hcq_backend_log(g->d->device, HCQ_ERROR_NATIVE, "cuda: a lent stream is being captured: its "
                    "lane takes no work meanwhile");
    return HCQI_CU_CAPTURE_WRONG;
}

/* Behind an event of others, see hcqi_cuda_import_wait. */
static int hcqi_cuda_give_import(hcqi_cuda_giving *g) {
    hcqi_cuda_event *own = HCQI_CAST(hcqi_cuda_event *, (void *)(uintptr_t)g->batch->posted);
    g->call = "cuStreamWaitEvent";
    int r = g->d->api->StreamWaitEvent(g->lane->stream, own->handle, 0);
    hcqi_cuda_event_put(g->d, own);
    hcqi_cuda_count(&g->d->waits, 1);
    return r;
}

/* What comes before a batch's commands. */
static int hcqi_cuda_give_begin(hcqi_cuda_giving *g) {
    const hcq_batch *batch = g->batch;
    uint32_t waits = batch->result == HCQ_OK ? batch->wait_count : 0; /* else one may never end */
    int r = g->lane->lent ? hcqi_cuda_give_lent(g) : HCQI_CU_OK;
    for (uint32_t i = 0; r == HCQI_CU_OK && i < waits; i++) {
        r = hcqi_cuda_give_wait(g, &batch->waits[i]);
    }
    if (r == HCQI_CU_OK && batch->posted != 0) { r = hcqi_cuda_give_import(g); }
    if (r == HCQI_CU_OK) { r = hcqi_cuda_give_zero(g); }
    g->operations += waits + 2;        /* its end, too */
    return r;
}

/* Everything of one batch, with the context; a failure leaves only its end. 1: it failed;
   HCQI_CUDA_FULL: the rest is for later. */
static int hcqi_cuda_give_one(hcqi_cuda_device *d, const hcq_batch *batch) {
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, batch->done.lane->native);
    hcqi_cuda_giving g = { d, lane, batch, lane->stream, 0, 0, NULL, "" };
    int r = HCQI_CU_OK;
    if (lane->part == 0) {
        if (hcqi_atomic_load32(&d->pending) >= HCQI_CUDA_PENDING) { return HCQI_CUDA_FULL; }
        lane->part = 1;
        r = hcqi_cuda_give_begin(&g);
    } else {
        int status = HCQI_CU_CAPTURE_NONE; /* it goes on then behind the capture */
        if (lane->lent) { (void)d->api->StreamIsCapturing(lane->stream, &status); }
        if (status != HCQI_CU_CAPTURE_NONE) { return HCQI_CUDA_FULL; }
        hcqi_cuda_mark_look(&g);
    }
    if (r == HCQI_CU_OK && batch->result == HCQ_OK) { r = hcqi_cuda_give_batch(&g); }
    if (r == HCQI_CUDA_FULL) { return r; }
    if (r != HCQI_CU_OK) { hcqi_cuda_give_fail(&g, r); }
    hcqi_cuda_give_counted(&g);
    for (int tries = 0; tries < 3 && !hcqi_atomic_load32(&d->lost); tries++) {
        r = hcqi_cuda_give_end(&g);
        if (r == HCQI_CU_OK) { break; }
        if (tries == 0) { hcqi_cuda_give_fail(&g, r); }
    }
    if (r != HCQI_CU_OK) { hcqi_cuda_found_lost(d, r, g.call); } /* it would never end */
    hcqi_cuda_event_put(d, lane->mark);
    lane->mark = NULL;
    lane->part = lane->marked = 0;
    hcqi_cuda_count(&d->batches, 1);
    return g.failed;
}

static uint32_t hcqi_cuda_give(void *self, const hcq_batch *batches, uint32_t count) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    uint32_t given = 0;
    int failed = hcqi_cuda_push(d) != HCQ_OK, entered = !failed;
    if (failed) { hcqi_cuda_found_lost(d, HCQI_CU_INVALID_CONTEXT, "cuCtxPushCurrent"); }
    while (given < count && failed == 0 && !hcqi_atomic_load32(&d->lost)) {
        failed = hcqi_cuda_give_one(d, &batches[given]);
        given += failed != HCQI_CUDA_FULL;
    }
    for (uint32_t k = 0; d->gathers && k < HCQI_CUDA_ALL_LANES; k++) {
        hcqi_cuda_lane *lane = d->lanes[k];
        if (lane == NULL || lane->begun == hcqi_atomic_load64(&lane->handed)) { continue; }
        hcqi_cuda_unsafe_begin(d);
        (void)d->api->StreamQuery(lane->strayed ? lane->relay : lane->stream);
        hcqi_cuda_unsafe_end(d);
        lane->begun = hcqi_atomic_load64(&lane->handed);
    }
    if (entered) { hcqi_cuda_pop(d); }
    (void)hcqi_cuda_lost(d);
    return given;
}

/* ---- submitting ---- */

/* A batch is on its way from now on. */
static int hcqi_cuda_given_add(hcqi_cuda_lane *lane, const hcq_batch *batch) {
    hcqi_cuda_event *event = NULL;
    if (!lane->d->value_waits) {       /* then it must have one in any case */
        event = hcqi_cuda_event_get(lane->d);
        if (event == NULL) { return 0; }
    }
    hcqi_word_lock(&lane->lock);
    int room = hcqi_cuda_given_room(lane);
    if (room) {
        hcqi_cuda_given *given = hcqi_cuda_given_at(lane, lane->given_count++);
        given->epoch = batch->done.epoch;
        given->event = event;
        given->recorded = 0;
        given->pending = 0;
        given->job = batch->job;
        given->recording = batch->recording;
        given->first = batch->first;
        given->count = batch->count;
    }
    hcqi_word_unlock(&lane->lock);
    if (!room) { hcqi_cuda_event_put(lane->d, event); }
    return room;
}

static hcq_result hcqi_cuda_submit(void *self, hcq_lane *target, hcq_batch *batch) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, target->native);
    if (hcqi_cuda_lost(d)) { return HCQ_ERROR_LOST; }
    if (!hcqi_cuda_given_add(lane, batch)) {
        return hcqi_cuda_lost(d) ? HCQ_ERROR_LOST : HCQ_ERROR_OUT_OF_MEMORY;
    }
    hcqi_atomic_store64(&lane->base_epoch[batch->done.counter],
                        batch->done.epoch - batch->done.value);
    lane->last[batch->done.counter] = batch->done.value;
    lane->submitted = batch->done.epoch;
    return HCQ_NOT_READY;
}

/* ========================================================================== */
/* ---- ends ---------------------------------------------------------------- */

/* Can events tell more than the word? */
static int hcqi_cuda_is_unstored(hcqi_cuda_lane *lane, uint64_t epoch) {
    return !lane->d->memops || hcqi_atomic_load64(&lane->stored) < epoch;
}

/* Asks for the events of the oldest batches, with the context and lane->lock. */
static uint64_t hcqi_cuda_ask_events(hcqi_cuda_lane *lane, uint64_t done) {
    for (uint32_t i = 0; i < lane->given_count; i++) {
        const hcqi_cuda_given *given = hcqi_cuda_given_at(lane, i);
        if (given->epoch <= done) { continue; }
        if (!given->recorded) { break; }
        int r = lane->d->api->EventQuery(given->event->handle);
        hcqi_cuda_asked(lane, r, "cuEventQuery");
        if (r != HCQI_CU_OK) { break; }
        done = given->epoch;
    }
    return done;
}

/* Batches up to `done` are over; their events go back. Under lane->lock. */
static void hcqi_cuda_lane_retire(hcqi_cuda_lane *lane, uint64_t done) {
    while (lane->given_count != 0 && hcqi_cuda_given_at(lane, 0)->epoch <= done) {
        hcqi_cuda_event_put(lane->d, hcqi_cuda_given_at(lane, 0)->event);
        hcqi_atomic_add32(&lane->d->pending, 0u - hcqi_cuda_given_at(lane, 0)->pending);
        lane->given_first = (lane->given_first + 1) & (lane->given_capacity - 1);
        lane->given_count--;
    }
    hcqi_atomic_store64(&lane->done, done);
}

/* How far the lane is by now. With the core's lock. */
static uint64_t hcqi_cuda_lane_look(hcqi_cuda_lane *lane) {
    hcqi_cuda_device *d = lane->d;
    uint64_t before = hcqi_atomic_load64(&lane->done), done = hcqi_cuda_look(lane);
    uint64_t handed = hcqi_atomic_load64(&lane->handed);
    int asks = done < handed && !lane->base->hurried && hcqi_cuda_is_unstored(lane, handed);
    if (hcqi_atomic_load32(&d->lost)) { return before; }
    if (asks && hcqi_cuda_enter_context(d) != HCQ_OK) { return before; }
    if (done == before && !asks) { return before; }
    hcqi_word_lock(&lane->lock);
    if (asks) { done = hcqi_cuda_ask_events(lane, done); }
    if (done > before) { hcqi_cuda_lane_retire(lane, done); }
    hcqi_word_unlock(&lane->lock);
    if (asks) { hcqi_cuda_leave_context(d); }
    return done;
}

/* Does anything tell of an error? To ask for a lent stream would end a capture by its owner. */
static void hcqi_cuda_lane_ask(hcqi_cuda_lane *lane) {
    const hcqi_cuda_api *api = lane->d->api;
    int r = lane->lent ? api->EventQuery(lane->d->past->handle) : api->StreamQuery(lane->stream);
    hcqi_cuda_asked(lane, r, lane->lent ? "cuEventQuery" : "cuStreamQuery");
}

/* Words do not tell of errors: once in a while the stream is asked. */
static void hcqi_cuda_lane_doubt(hcqi_cuda_lane *lane, uint32_t looks) {
    hcqi_cuda_device *d = lane->d;
    if (++lane->idle_looks < looks || !d->memops) { return; }
    lane->idle_looks = 0;
    if (hcqi_cuda_enter_context(d) != HCQ_OK) { return; }
    hcqi_cuda_lane_ask(lane);
    hcqi_cuda_leave_context(d);
}

static uint64_t hcqi_cuda_completed(void *self, hcq_lane *target, uint32_t counter) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, target->native);
    uint64_t before = hcqi_atomic_load64(&lane->done), done = hcqi_cuda_lane_look(lane);
    if (done > before) {
        lane->idle_looks = 0;
    } else if (done < lane->submitted) {
        hcqi_cuda_lane_doubt(lane, 256);
    }
    (void)hcqi_cuda_lost(d);
    uint64_t base = lane->base_epoch[counter];
    uint64_t value = done > base ? done - base : 0;
    return value < lane->last[counter] ? value : lane->last[counter];
}

/* Is the lane there? Any thread, without the core's lock. */
static int hcqi_cuda_lane_reached(hcqi_cuda_lane *lane, uint64_t epoch) {
    hcqi_cuda_device *d = lane->d;
    if (hcqi_cuda_look(lane) >= epoch) { return 1; }
    if (hcqi_atomic_load64(&lane->handed) < epoch || !hcqi_cuda_is_unstored(lane, epoch)) {
        return 0;
    }
    int done;
    hcqi_cuda_event *event = hcqi_cuda_lane_event(lane, epoch, &done);
    if (event == NULL) { return done; }
    if (hcqi_cuda_enter_context(d) == HCQ_OK) {
        int r = d->api->EventQuery(event->handle);
        hcqi_cuda_asked(lane, r, "cuEventQuery");
        done = r == HCQI_CU_OK;
        hcqi_cuda_leave_context(d);
    }
    hcqi_cuda_event_put(d, event);
    return done;
}

/* Did any lane get on, from the epochs that they had done? */
static int hcqi_cuda_any_reached(const hcqi_cuda_device *d, const uint64_t *done) {
    for (uint32_t k = 0; k < HCQI_CUDA_ALL_LANES; k++) {
        hcqi_cuda_lane *lane = d->lanes[k];
        if (lane == NULL || hcqi_atomic_load64(&lane->handed) <= done[k]) { continue; }
        if (hcqi_cuda_lane_reached(lane, done[k] + 1)) { return 1; }
    }
    return 0;
}

/* A nap of a wait that has lasted `passed` and will, if it goes as the last one, `lasted`; 0: it
   spins. CUDA has no wait with a timeout. It spins for spin_ns, then naps for a sixteenth of the
   time passed so far, so that the end is noticed at most so much later, and where the last wait
   ended it spins again: a nap ends late, which is measured. */
static uint64_t hcqi_cuda_nap(hcqi_cuda_device *d, uint64_t passed, uint64_t lasted, int serves) {
    uint64_t late = hcqi_atomic_load64(&d->nap_late_ns);
    uint64_t most = serves ? 60000 : 500000; /* others wait for what that thread finds */
    uint64_t nap = passed / 16 < 5000 ? 5000 : passed / 16 > most ? most : passed / 16;
    if (passed < d->spin_ns) { return 0; }
    if (d->spin_ns == 0 || passed > lasted + d->spin_ns) { return nap; }
    if (passed + 5000 + late > lasted) { return 0; }
    return nap < lasted - late - passed ? nap : lasted - late - passed;
}

static hcq_result hcqi_cuda_wait(void *self, hcq_lane *target, uint32_t counter, uint64_t value,
                                 uint64_t timeout_ns, int serves) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, target->native);
    uint64_t epoch = hcqi_atomic_load64(&lane->base_epoch[counter]) + value;
    uint64_t began = hcq_now_ns(), asked = began, passed = 0;
    uint64_t lasted = hcqi_atomic_load64(&lane->lasted_ns);
    uint64_t done[HCQI_CUDA_ALL_LANES];
    for (uint32_t k = 0; serves && k < HCQI_CUDA_ALL_LANES; k++) {
        done[k] = d->lanes[k] != NULL ? hcqi_cuda_look(d->lanes[k]) : 0;
    }
    for (;;) {
        uint32_t never = 0;
        if (serves && hcqi_cuda_any_reached(d, done)) { return HCQ_OK; }
        if (hcqi_cuda_lane_reached(lane, epoch)) {
            if (passed != 0) { hcqi_atomic_store64(&lane->lasted_ns, passed); }
            return HCQ_OK;
        }
        if (hcqi_cuda_lost(d)) { return HCQ_ERROR_LOST; }
        uint64_t now = hcq_now_ns();
        passed = now - began;
        if (passed >= timeout_ns) { return HCQ_TIMEOUT; }
        if (serves && hcqi_atomic_cas32(&d->kicked, 1, 0)) { return HCQ_TIMEOUT; }
        if (now - asked > 1000000) {
            asked = now;
            if (hcqi_cuda_enter_context(d) == HCQ_OK) {
                hcqi_cuda_lane_ask(lane);
                hcqi_cuda_leave_context(d);
            }
            continue;
        }
        uint64_t nap = hcqi_cuda_nap(d, passed, lasted, serves);
        if (nap == 0) {
            hcqi_atomic_pause();
            continue;
        }
        if (nap > timeout_ns - passed) { nap = timeout_ns - passed; }
        if (hcq_sys_wait(serves ? &d->kicked : &never, 0, nap) != HCQ_TIMEOUT) { continue; }
        uint64_t late = hcq_now_ns() - now, usual = hcqi_atomic_load64(&d->nap_late_ns);
        late = late < nap ? 0 : late - nap < 20000000 ? late - nap : 20000000;
        hcqi_atomic_store64(&d->nap_late_ns, usual - usual / 8 + late / 8);
    }
}

static void hcqi_cuda_kick(void *self) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_atomic_store32(&d->kicked, 1);
    hcq_sys_wake(&d->kicked, 1);
}

/* Words hold epochs, which never begin anew. */
static void hcqi_cuda_counter_reset(void *self, hcq_lane *target, uint32_t counter) {
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, target->native);
    (void)self;
    lane->last[counter] = 0;
}

/* ---- errors that end the context ---- */

typedef struct hcqi_cuda_blame {
    hcq_job *job;
    const hcq_packet *packet;          /* NULL: one of several */
    uint32_t lanes;                    /* that were in the middle of something */
} hcqi_cuda_blame;

/* The kernel that a batch consists of, or the one behind its trail. */
static const hcq_packet *hcqi_cuda_blame_packet(const hcqi_cuda_lane *lane,
                                                const hcqi_cuda_given *given) {
    const hcq_packet *found = NULL;
    uint32_t execs = 0, first = given->first;
    if (given->recording == NULL) { return NULL; }
    int trail = (lane->d->flags & HCQ_CUDA_TRAIL) != 0;
    if (trail) {
        uint32_t last = hcqi_atomic_load32(lane->trail);
        if (last > first && last < given->first + given->count) { first = last; }
    }
    for (uint32_t i = first; i < given->first + given->count; i++) {
        const hcq_packet *p = &given->recording->packets[i];
        if (p->kind != HCQ_COMMAND_EXEC && !(trail && execs == 0)) { continue; }
        if (execs++ == 0) { found = p; }
        if (trail) { return found; }
    }
    return execs == 1 ? found : NULL;
}

/* The batch that a lane is in the middle of; under lane->lock. */
static const hcqi_cuda_given *hcqi_cuda_blame_batch(hcqi_cuda_lane *lane) {
    uint64_t done = hcqi_cuda_look(lane);
    int trail = (lane->d->flags & HCQ_CUDA_TRAIL) != 0;
    for (uint32_t i = 0; trail && i < lane->given_count; i++) {
        const hcqi_cuda_given *given = hcqi_cuda_given_at(lane, i);
        if ((uint32_t)given->epoch == hcqi_atomic_load32(lane->trail + 1)) { return given; }
    }
    return hcqi_cuda_given_find(lane, done + 1);
}

/* Who did it? The oldest batches that are not over, one with a kernel if there is. */
static void hcqi_cuda_blame_find(hcqi_cuda_device *d, hcqi_cuda_blame *blame) {
    hcq_backend_lock(1);
    for (uint32_t k = 0; k < 2 * HCQI_CUDA_LANES; k++) {
        hcqi_cuda_lane *lane = d->lanes[k];
        if (lane == NULL) { continue; }
        hcqi_word_lock(&lane->lock);
        const hcqi_cuda_given *given = hcqi_cuda_blame_batch(lane);
        if (given != NULL && given->epoch <= hcqi_atomic_load64(&lane->handed)) {
            const hcq_packet *packet = hcqi_cuda_blame_packet(lane, given);
            blame->lanes += d->memops && hcqi_cuda_is_unstored(lane, lane->submitted) ? 2u : 1u;
            if (blame->job == NULL || (packet != NULL && blame->packet == NULL)) {
                blame->job = given->job;
                blame->packet = packet;
            }
        }
        hcqi_word_unlock(&lane->lock);
    }
    if (blame->job != NULL) {
        hcq_backend_job_fail(blame->job, NULL, HCQ_ERROR_LOST, blame->packet, d->lost_call,
                             d->lost_code);
    }
    hcq_backend_lock(0);
}

/* A context that lives goes on with what it was given, which must end before memory goes;
   a broken one answers at once. */
static void hcqi_cuda_drain(hcqi_cuda_device *d) {
    if (hcqi_cuda_enter_context(d) != HCQ_OK) { return; }
    for (uint32_t k = 0; k < 2 * HCQI_CUDA_LANES; k++) {
        hcqi_cuda_lane *lane = d->lanes[k];
        if (lane != NULL) { (void)d->api->StreamSynchronize(lane->stream); }
    }
    hcqi_cuda_leave_context(d);
}

static void hcqi_cuda_lose(void *self) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_blame blame = { NULL, NULL, 0 };
    hcqi_cuda_blame_find(d, &blame);
    hcq_backend_log(d->device, HCQ_ERROR_LOST, "%s: %s (%d): the CUDA context is lost%s",
                    d->lost_call, hcqi_cuda_text(d->api, d->lost_code), d->lost_code,
                    blame.lanes > 1 ? "; of several that may have, the command is a guess"
                    : blame.job == NULL || blame.packet != NULL
                        ? "" : "; HCQ_CUDA_TRAIL tells the command");
    hcqi_cuda_drain(d);
}

/* ========================================================================== */
/* ---- times --------------------------------------------------------------- */

/* One reading: the kernel stores its time between two of the host's. */
static int hcqi_cuda_sample_once(hcqi_cuda_device *d, uint64_t timeout_ns, hcq_clock *m) {
    hcqi_cuda_extra extra;
    uint64_t dst = (uint64_t)(uintptr_t)d->tool_word, after, device;
    hcqi_atomic_store64(d->tool_word, 0);
    uint64_t before = hcq_now_ns();
    int r = d->api->LaunchKernel(d->stamp, 1, 1, 1, 1, 1, 1, 0, d->tool, NULL,
                                 hcqi_cuda_extra_make(&extra, &dst, sizeof dst));
    if (r != HCQI_CU_OK) { return r; }
    do {
        device = hcqi_atomic_load64(d->tool_word);
        after = hcq_now_ns();
        if (device == 0 && after - before > timeout_ns) { return HCQI_CU_NOT_READY; }
        r = device == 0 ? d->api->StreamQuery(d->tool) : HCQI_CU_OK; /* starts gathered work */
        if (r != HCQI_CU_OK && r != HCQI_CU_NOT_READY) { return r; }
    } while (device == 0);
    m->device_ns = device;
    m->host_ns = before + (after - before) / 2;
    m->error_ns = (after - before) / 2 + 1;
    return HCQI_CU_OK;
}

/* The tightest of a few tries becomes d->moment; with d->tool_lock. */
static int hcqi_cuda_sample(hcqi_cuda_device *d, int tries, uint64_t timeout_ns) {
    hcq_clock best, m;
    best.error_ns = UINT64_MAX;
    int r = d->api->StreamQuery(d->tool); /* one before did not end in time */
    for (int i = 0; r == HCQI_CU_OK && i < tries; i++) {
        r = hcqi_cuda_sample_once(d, timeout_ns, &m);
        if (r == HCQI_CU_OK && m.error_ns < best.error_ns) { best = m; }
    }
    if (best.error_ns != UINT64_MAX) {
        d->moment = best;
        return HCQI_CU_OK;
    }
    return r;
}

/* A moment of the last second serves, else of longer ago; the clocks drift apart by less
   than 500 millionths, as the host's may be slewed. */
static hcq_result hcqi_cuda_clock(void *self, hcq_clock *clock) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    uint64_t now = hcq_now_ns();
    clock->device_ns = clock->host_ns = now;
    clock->error_ns = 0;
    if (!d->has_stamp) { return HCQ_OK; } /* times are the host's */
    hcqi_word_lock(&d->tool_lock);
    if (now - d->moment.host_ns > 1000000000 && hcqi_cuda_enter_context(d) == HCQ_OK) {
        hcqi_cuda_note(d, hcqi_cuda_sample(d, 3, 20000000), "cuLaunchKernel");
        hcqi_cuda_leave_context(d);
    }
    hcq_clock m = d->moment;
    hcqi_word_unlock(&d->tool_lock);
    if (m.host_ns == 0) { return HCQ_TIMEOUT; } /* behind something long since the opening */
    uint64_t passed = now > m.host_ns ? now - m.host_ns : 0;
    clock->host_ns = m.host_ns + passed;
    clock->device_ns = m.device_ns + passed;
    clock->error_ns = m.error_ns + passed / 2000;
    return HCQ_OK;
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- the library and drivers --------------------------------------------- */

static int hcqi_cuda_fail_text(hcqi_cuda_driver *driver, const char *format, ...)
    HCQI_PRINTF(2, 3);

/* Keeps why there are no devices; always returns 0. */
static int hcqi_cuda_fail_text(hcqi_cuda_driver *driver, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(driver->failure, sizeof driver->failure, format, args);
    va_end(args);
    return 0;
}

/* Looks names up for an array of pointers to functions, which C has no cast for; returns
   the first of those needed that is missing. */
static const char *hcqi_cuda_names_find(void *library, const hcqi_cuda_name *names, size_t count,
                                        size_t needed, void *pointers) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = hcq_sys_library_symbol(library, names[i].name);
        if (symbol == NULL && names[i].older != NULL) {
            symbol = hcq_sys_library_symbol(library, names[i].older);
        }
        if (symbol == NULL && i < needed) { return names[i].name; }
        memcpy(HCQI_CAST(uint8_t *, pointers) + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return NULL;
}

static int hcqi_cuda_library_open(hcqi_cuda_driver *driver) {
    const char *name = HCQ_CUDA_LIBRARY;
    driver->library = hcq_sys_library_open(name);
    if (driver->library == NULL) {
        return hcqi_cuda_fail_text(driver, "%s, the CUDA driver's library, is not installed", name);
    }
    const char *missing = hcqi_cuda_names_find(driver->library, hcqi_cuda_names,
                                               sizeof hcqi_cuda_names / sizeof hcqi_cuda_names[0],
                                               HCQI_CUDA_NEEDED_COUNT, &driver->api);
    if (missing == NULL) { return 1; }
    return hcqi_cuda_fail_text(driver, "%s has no %s: not a CUDA driver of 11.4 or later", name,
                               missing);
}

/* What cuInit answers, in words. */
static const char *hcqi_cuda_init_hint(int r) {
    switch (r) {
    case HCQI_CU_STUB_LIBRARY: return ": the library is the toolkit's stub, not a driver";
    case HCQI_CU_NO_DEVICE: return ": there is no CUDA device";
    case 803: return ": the driver's library and its kernel module are of different versions";
    case 804: return ": the driver is too old for this compatibility library";
    default: return "";
    }
}

static int hcqi_cuda_init(hcqi_cuda_driver *driver) {
    const hcqi_cuda_api *api = &driver->api;
    int r = api->Init(0), count = 0;
    if (r != HCQI_CU_OK) {
        return hcqi_cuda_fail_text(driver, "cuInit: %s (%d)%s", hcqi_cuda_text(api, r), r,
                                   hcqi_cuda_init_hint(r));
    }
    driver->works = 1;
    r = api->DriverGetVersion(&driver->version);
    if (r != HCQI_CU_OK || driver->version < HCQI_CUDA_OLDEST) {
        return hcqi_cuda_fail_text(driver, "the driver is for CUDA %d.%d, 11.4 is needed",
                                   driver->version / 1000, driver->version % 1000 / 10);
    }
    r = api->DeviceGetCount(&count);
    if (r != HCQI_CU_OK || count <= 0) {
        return hcqi_cuda_fail_text(driver, "cuDeviceGetCount: there is no CUDA device");
    }
    for (int i = 0; i < count && driver->count < HCQI_CUDA_DEVICES; i++) {
        int device, unified = 0;
        if (api->DeviceGet(&device, i) != HCQI_CU_OK) { continue; }
        (void)api->DeviceGetAttribute(&unified, HCQI_CU_UNIFIED_ADDRESSING, device);
        if (unified) { driver->devices[driver->count++] = device; }
    }
    if (driver->count != 0) { return 1; }
    return hcqi_cuda_fail_text(driver, "no CUDA device has unified addressing");
}

static void hcqi_cuda_driver_destroy(const hcq_memory_hooks *memory, void *self) {
    hcqi_cuda_driver *driver = HCQI_CAST(hcqi_cuda_driver *, self);
    if (driver->library != NULL && !driver->works) { hcq_sys_library_close(driver->library); }
    hcqi_delete(memory, driver, sizeof *driver);
}

static hcq_result hcqi_cuda_driver_create(const hcq_memory_hooks *memory, void **out) {
    hcqi_cuda_driver *driver = HCQI_CAST(hcqi_cuda_driver *, hcqi_new(memory, sizeof *driver));
    if (driver == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    driver->hooks = *memory;
    if (hcqi_cuda_library_open(driver)) { (void)hcqi_cuda_init(driver); }
    *out = driver;
    return HCQ_OK;
}

static const char *hcqi_cuda_why_none(void *self) {
    const hcqi_cuda_driver *driver = HCQI_CAST(const hcqi_cuda_driver *, self);
    return driver->failure[0] ? driver->failure : NULL;
}

static uint32_t hcqi_cuda_devices(void *self, hcq_device_info *infos, uint32_t capacity) {
    const hcqi_cuda_driver *driver = HCQI_CAST(const hcqi_cuda_driver *, self);
    for (uint32_t i = 0; i < driver->count && i < capacity; i++) {
        hcq_device_info *info = &infos[i];
        size_t bytes = 0;
        (void)driver->api.DeviceGetName(info->name, (int)sizeof info->name, driver->devices[i]);
        (void)driver->api.DeviceGetPCIBusId(info->path, (int)sizeof info->path,
                                            driver->devices[i]);
        (void)driver->api.DeviceTotalMem(&bytes, driver->devices[i]);
        info->id = (uint64_t)driver->devices[i];
        info->memory_bytes = bytes;
        info->compute_lanes = info->copy_lanes = 1;
        info->features = HCQ_FEATURE_IMPORT | HCQ_FEATURE_MAP | HCQ_FEATURE_PROFILING;
    }
    return driver->count;
}

/* ========================================================================== */
/* ---- devices ------------------------------------------------------------- */

static uint32_t hcqi_cuda_ask(const hcqi_cuda_device *d, int attribute) {
    int value = 0;
    (void)d->api->DeviceGetAttribute(&value, attribute, d->ordinal);
    return value < 0 ? 0 : (uint32_t)value;
}

/* The device's primary context, which the runtime API and its libraries use, too; or
   the user's, whose device it then is. */
static hcq_result hcqi_cuda_context_open(hcqi_cuda_device *d, uint32_t ordinal,
                                         const struct hcq_cuda_desc *desc) {
    if (desc != NULL && desc->context != NULL) {
        d->context = desc->context;
        hcq_result r = hcqi_cuda_enter_context(d);
        if (r != HCQ_OK) { return hcqi_cuda_failed(d, HCQI_CU_INVALID_CONTEXT, "cuda.context"); }
        int got = d->api->CtxGetDevice(&d->ordinal);
        hcqi_cuda_leave_context(d);
        return hcqi_cuda_failed(d, got, "cuCtxGetDevice");
    }
    if (ordinal >= d->driver->count) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_DEVICE, "cuda: %s",
                         d->driver->count ? "there is no such device" : d->driver->failure);
    }
    d->ordinal = d->driver->devices[ordinal];
    int got = d->api->DevicePrimaryCtxRetain(&d->context, d->ordinal);
    HCQI_PASS(hcqi_cuda_failed(d, got, "cuDevicePrimaryCtxRetain"));
    d->retained = 1;
    return HCQ_OK;
}

static void hcqi_cuda_limits_read(hcqi_cuda_device *d) {
    uint32_t optin = hcqi_cuda_ask(d, HCQI_CU_MAX_SHARED_OPTIN);
    d->max_threads = hcqi_cuda_ask(d, HCQI_CU_MAX_THREADS);
    for (int k = 0; k < 3; k++) {
        d->max_block[k] = hcqi_cuda_ask(d, HCQI_CU_MAX_BLOCK_X + k);
        d->max_grid[k] = hcqi_cuda_ask(d, HCQI_CU_MAX_GRID_X + k);
    }
    d->max_shared = hcqi_cuda_ask(d, HCQI_CU_MAX_SHARED);
    if (optin > d->max_shared) { d->max_shared = optin; }
    d->processors = hcqi_cuda_ask(d, HCQI_CU_PROCESSORS);
    d->capability = 10 * hcqi_cuda_ask(d, HCQI_CU_CAPABILITY_MAJOR) +
                    hcqi_cuda_ask(d, HCQI_CU_CAPABILITY_MAJOR + 1);
    int now = d->driver->version >= 12010 && d->capability >= 70;
    d->warp = hcqi_cuda_ask(d, HCQI_CU_WARP);
    d->integrated = hcqi_cuda_ask(d, HCQI_CU_INTEGRATED);
    d->max_args = now ? HCQI_CUDA_ARGS_BYTES_NOW : HCQI_CUDA_ARGS_BYTES;
}

/* Under Windows, and Linux on top of it, the driver gathers work until it is asked. */
static int hcqi_cuda_gathers(void) {
#ifdef _WIN32
    return 1;
#else
    FILE *device = fopen("/dev/dxg", "rb");
    if (device != NULL) { fclose(device); }
    return device != NULL;
#endif
}

/* Which native means lanes count by. */
static void hcqi_cuda_means_choose(hcqi_cuda_device *d) {
    const hcqi_cuda_api *api = d->api;
    d->memops = hcqi_cuda_ask(d, HCQI_CU_MEMOPS_64) != 0 && api->StreamWriteValue64 != NULL &&
                api->StreamWaitValue64 != NULL;
    int lent = d->stream_count != 0 || !d->retained;
    if ((d->flags & HCQ_CUDA_EVENTS) || (lent && !(d->flags & HCQ_CUDA_MEMOPS))) { d->memops = 0; }
    if (!d->memops && (d->flags & HCQ_CUDA_MEMOPS)) {
        hcq_backend_log(d->device, HCQ_OK, "cuda.flags: no stream memory operations, events");
    }
    d->value_waits = d->memops != 0 && !(d->flags & HCQ_CUDA_NO_VALUE_WAITS);
    d->gathers = hcqi_cuda_gathers();
    if (d->gathers) { d->value_waits = 0; } /* the store may come too late */
    d->graphs = !(d->flags & (HCQ_CUDA_NO_GRAPHS | HCQ_CUDA_TRAIL));
    int registers = hcqi_cuda_ask(d, HCQI_CU_HOST_REGISTER) != 0;
    d->has_import = registers && !(d->flags & HCQ_CUDA_NO_IMPORT);
    d->has_read_only = hcqi_cuda_ask(d, HCQI_CU_REGISTER_READ_ONLY) != 0;
}

static hcqi_cuda_shared *hcqi_cuda_contexts; /* under the core's lock */
static uint32_t hcqi_cuda_module_lock;

static void hcqi_cuda_fork_child(void) {
    hcqi_cuda_registered = NULL;
    hcqi_cuda_registered_lock = hcqi_cuda_links_lock = 0;
    hcqi_cuda_seamed = 0;
    hcqi_cuda_contexts = NULL;
    hcqi_cuda_module_lock = 0;
}

/* Joins the devices of the context. */
static hcq_result hcqi_cuda_shared_join(hcqi_cuda_device *d) {
    hcq_backend_lock(1);
    hcqi_cuda_shared *shared = hcqi_cuda_contexts;
    while (shared != NULL && shared->context != d->context) { shared = shared->next; }
    if (shared == NULL) {
        shared = HCQI_CAST(hcqi_cuda_shared *, hcqi_new(&hcqi_cuda_kept, sizeof *shared));
        if (shared != NULL) {
            shared->context = d->context;
            shared->next = hcqi_cuda_contexts;
            hcqi_cuda_contexts = shared;
        }
    }
    if (shared != NULL) {
        d->next = shared->devices;
        shared->devices = d;
        d->shared = shared;
    }
    hcq_backend_lock(0);
    return shared != NULL ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY;
}

/* The last one takes all with it; with the context, unless that is gone. */
static void hcqi_cuda_shared_leave(hcqi_cuda_device *d, int has_context) {
    hcqi_cuda_shared *shared = d->shared, **link = &hcqi_cuda_contexts;
    hcqi_cuda_device **at = &shared->devices;
    hcq_backend_lock(1);
    while (*at != d) { at = &(*at)->next; }
    *at = d->next;
    if (has_context) { hcqi_cuda_late_free(d); }
    int last = shared->devices == NULL;
    while (*link != shared) { link = &(*link)->next; }
    if (last) { *link = shared->next; }
    hcq_backend_lock(0);
    if (!last) { return; }
    if (has_context && shared->module != NULL) { (void)d->api->ModuleUnload(shared->module); }
    hcqi_delete(&hcqi_cuda_kept, shared->late, shared->late_capacity * sizeof *shared->late);
    hcqi_delete(&hcqi_cuda_kept, shared, sizeof *shared);
}

static hcq_result hcqi_cuda_module_make(hcqi_cuda_device *d, hcqi_cuda_shared *shared) {
    const hcqi_cuda_api *api = d->api;
    HCQI_PASS(hcqi_cuda_module_load(d, "hcq", hcqi_cuda_ptx, 0, &shared->module));
    static const char *const names[] = { "hcq_stamp", "hcq_fill", "hcq_copy" };
    hcqi_cu_function *const kernels[] = { &shared->stamp, &shared->fill, &shared->copy };
    int got = HCQI_CU_OK;
    for (int i = 0; got == HCQI_CU_OK && i < 3; i++) {
        got = api->ModuleGetFunction(kernels[i], shared->module, names[i]);
        if (got == HCQI_CU_OK && api->FuncLoad != NULL) { got = api->FuncLoad(*kernels[i]); }
    }
    if (got == HCQI_CU_OK) { return HCQ_OK; }
    (void)api->ModuleUnload(shared->module);
    shared->module = NULL;
    return hcqi_cuda_failed(d, got, "cuModuleGetFunction");
}

/* Pinned memory that streams write, and the host reads. */
static hcq_result hcqi_cuda_words_open(hcqi_cuda_device *d) {
    size_t size = (HCQI_CUDA_ALL_LANES + 1) * HCQI_CUDA_WORD_BYTES;
    int r = hcqi_cuda_memory_new(d, HCQI_CUDA_PINNED, size, &d->words);
    if (r == HCQI_CU_OK) { memset(d->words.host, 0, size); }
    return hcqi_cuda_failed(d, r, "cuMemHostAlloc");
}

static uint64_t *hcqi_cuda_word(const hcqi_cuda_device *d, uint32_t index) {
    return HCQI_CAST(uint64_t *, d->words.host) + index * (HCQI_CUDA_WORD_BYTES / sizeof(uint64_t));
}

/* hcq's own kernels, if the driver compiles PTX. */
static hcq_result hcqi_cuda_module_open(hcqi_cuda_device *d) {
    hcqi_cuda_shared *shared = d->shared;
    if (d->flags & HCQ_CUDA_NO_JIT) { return HCQ_OK; }
    hcqi_word_lock(&hcqi_cuda_module_lock);
    hcq_result r = shared->module != NULL ? HCQ_OK : hcqi_cuda_module_make(d, shared);
    hcqi_word_unlock(&hcqi_cuda_module_lock);
    if (r == HCQ_ERROR_NO_KERNEL) {
        hcq_backend_log(d->device, HCQ_OK, "cuda: timestamps are the host's");
        return HCQ_OK;
    }
    if (r != HCQ_OK) { return r; }
    d->stamp = shared->stamp;
    d->fill = shared->fill;
    d->copy = shared->copy;
    d->has_stamp = 1;
    return HCQ_OK;
}

static hcq_result hcqi_cuda_tool_open(hcqi_cuda_device *d) {
    HCQI_PASS(hcqi_cuda_stream_new(d, &d->tool));
    d->tool_word = hcqi_cuda_word(d, HCQI_CUDA_ALL_LANES);
    int r = d->has_stamp ? hcqi_cuda_sample(d, 5, 500000000) : HCQI_CU_OK;
    if (r == HCQI_CU_NOT_READY) { return HCQ_OK; } /* a busy GPU: later */
    return hcqi_cuda_failed(d, r, "hcq_stamp");
}

static hcq_result hcqi_cuda_streams_lend(hcqi_cuda_device *d, const struct hcq_cuda_desc *desc) {
    if (desc == NULL || desc->stream_count == 0) { return HCQ_OK; }
    if (desc->context == NULL || desc->streams == NULL) {
        return hcqi_deny(d->device, HCQ_ERROR_INVALID, "cuda.%s: is NULL",
                         desc->context ? "streams" : "context");
    }
    for (uint32_t i = 0; i < desc->stream_count; i++) {
        if ((uintptr_t)desc->streams[i] > 2) { continue; } /* legacy, too, and each thread's */
        return hcqi_deny(d->device, HCQ_ERROR_INVALID,
                         "cuda.streams: number %u is a default stream", i);
    }
    d->streams = HCQI_CAST(
       hcqi_cu_stream *, hcqi_new(&d->hooks, desc->stream_count * sizeof *d->streams));
    if (d->streams == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    memcpy(d->streams, desc->streams, desc->stream_count * sizeof *d->streams);
    d->stream_count = desc->stream_count;
    return HCQ_OK;
}

/* So that submissions take no memory later. */
static int hcqi_cuda_events_first(hcqi_cuda_device *d) {
    int made = 1;
    hcqi_word_lock(&d->event_lock);
    for (int i = 0; made && i < HCQI_CUDA_EVENTS_FIRST; i++) { made = hcqi_cuda_event_make(d); }
    hcqi_word_unlock(&d->event_lock);
    return made;
}

/* Everything between the context and the lanes; the context is current. */
static hcq_result hcqi_cuda_device_open(hcqi_cuda_device *d) {
    hcqi_cuda_limits_read(d);
    hcqi_cuda_means_choose(d);
    HCQI_PASS(hcqi_cuda_shared_join(d));
    HCQI_PASS(hcqi_cuda_words_open(d));
    HCQI_PASS(hcqi_cuda_module_open(d));
    if (!d->has_stamp) {
        size_t size = (size_t)HCQI_CUDA_ALL_LANES * HCQI_CUDA_RELAY_BYTES;
        int r = hcqi_cuda_memory_new(d, HCQI_CUDA_PLAIN, size, &d->relayed);
        HCQI_PASS(hcqi_cuda_failed(d, r, "cuMemAlloc"));
    }
    HCQI_PASS(hcqi_cuda_tool_open(d));
    HCQI_PASS(hcqi_cuda_stream_new(d, &d->memory_stream));
    HCQI_PASS(hcqi_cuda_pool_open(d));
    if (d->flags & HCQ_CUDA_ONE_STREAM) { HCQI_PASS(hcqi_cuda_stream_new(d, &d->one_stream)); }
    d->past = hcqi_cuda_event_get(d);
    if (d->past == NULL || !hcqi_cuda_events_first(d)) { return HCQ_ERROR_OUT_OF_MEMORY; }
    int r = d->api->EventRecord(d->past->handle, d->memory_stream);
    return hcqi_cuda_failed(d, r, "cuEventRecord");
}

/* What is CUDA's; with the context, which may be broken. */
static void hcqi_cuda_device_free(hcqi_cuda_device *d) {
    hcqi_cu_stream streams[3];
    streams[0] = d->tool;
    streams[1] = d->memory_stream;
    streams[2] = d->one_stream;
    for (int i = 0; i < 3; i++) {
        if (streams[i] == NULL) { continue; }
        if (streams[i] != d->memory_stream) { (void)d->api->StreamSynchronize(streams[i]); }
        (void)d->api->StreamDestroy(streams[i]); /* its frees run, behind others' work, too */
    }
    if (d->pool != NULL) { (void)d->api->MemPoolDestroy(d->pool); }
    hcq_backend_lock(1);
    hcqi_cuda_dealloc(d, &d->words);   /* nothing, if it was never allocated */
    hcqi_cuda_dealloc(d, &d->relayed);
    for (hcqi_cuda_slab *s = d->slabs; s != NULL; s = s->next) { hcqi_cuda_dealloc(d, &s->memory); }
    hcq_backend_lock(0);
}

static void hcqi_cuda_close(void *self) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    int has_context = d->context != NULL && hcqi_cuda_enter_context(d) == HCQ_OK;
    while (d->mappings != NULL) { /* the memory may stay */
        hcqi_cuda_mapping_drop(d, &d->mappings);
    }
    if (hcqi_atomic_load32(&d->lost) && d->context != NULL) { hcqi_cuda_pages_lost(d); }
    if (has_context) { hcqi_cuda_device_free(d); }
    while (d->slabs != NULL) {
        hcqi_cuda_slab *slab = d->slabs;
        d->slabs = slab->next;
        hcqi_delete(&d->hooks, slab, sizeof *slab);
    }
    while (d->events != NULL) {
        hcqi_cuda_event *e = d->events;
        d->events = e->all;
        if (has_context) { (void)d->api->EventDestroy(e->handle); }
        hcqi_delete(&d->hooks, e, sizeof *e);
    }
    if (d->shared != NULL) { hcqi_cuda_shared_leave(d, has_context); }
    if (has_context) { hcqi_cuda_leave_context(d); }
    if (d->retained) { (void)d->api->DevicePrimaryCtxRelease(d->ordinal); }
    hcqi_cuda_orphans_free(d);
    hcqi_delete(&d->hooks, d->streams, d->stream_count * sizeof *d->streams);
    hcqi_delete(&d->hooks, d, sizeof *d);
}

static void hcqi_cuda_report(hcqi_cuda_device *d, hcq_backend_caps *caps) {
    size_t bytes = 0;
    memset(caps, 0, sizeof *caps);
    (void)d->api->DeviceGetName(caps->name, (int)sizeof caps->name, d->ordinal);
    (void)d->api->DeviceTotalMem(&bytes, d->ordinal);
    caps->memory_bytes = bytes;
    caps->compute_lanes = d->compute_lanes;
    caps->copy_lanes = d->copy_lanes;
    caps->imported_lanes = HCQI_CUDA_IMPORTED;
    caps->copy_shared = (d->flags & HCQ_CUDA_ONE_STREAM) != 0;
    caps->edges = d->graphs;
    caps->host_times = !d->has_stamp;
    caps->features = d->has_import ? (uint32_t)(HCQ_FEATURE_IMPORT | HCQ_FEATURE_MAP) : 0;
    caps->unlocked = 1;
}

static void hcqi_cuda_lanes_choose(hcqi_cuda_device *d, const hcq_device_desc *desc) {
    uint32_t own = d->stream_count != 0 ? d->stream_count : 1;
    d->compute_lanes = desc->compute_lanes != 0 ? desc->compute_lanes : own;
    d->copy_lanes = desc->copy_lanes != 0 ? desc->copy_lanes : 1;
    if (d->compute_lanes > HCQI_CUDA_LANES) { d->compute_lanes = HCQI_CUDA_LANES; }
    if (d->copy_lanes > HCQI_CUDA_COPY_LANES) { d->copy_lanes = HCQI_CUDA_COPY_LANES; }
    if (desc->test->no_copy_lane) { d->copy_lanes = 0; }
}

static hcq_result hcqi_cuda_open(void *driver, hcq_device *device, uint32_t ordinal,
                                 const hcq_device_desc *desc, hcq_backend_caps *caps,
                                 void **self) {
    const struct hcq_cuda_desc *own = desc->cuda;
    if (own != NULL) { HCQI_PASS(hcqi_flags_check(device, own->flags, HCQ_CUDA_TRAIL)); }
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, hcqi_new(&desc->memory, sizeof *d));
    if (d == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    d->device = device;
    d->hooks = desc->memory;
    d->driver = HCQI_CAST(hcqi_cuda_driver *, driver);
    d->api = &d->driver->api;
    d->flags = own != NULL ? own->flags : 0;
    d->spin_ns = desc->spin_ns == HCQ_NEVER || hcq_sys_cpu_count() == 1 ? 0 : desc->spin_ns;
    d->nap_late_ns = 60000;
    hcq_result r = d->driver->count == 0 ? HCQ_ERROR_NO_DEVICE : HCQ_OK;
    if (r != HCQ_OK) { hcq_backend_log(device, r, "cuda: %s", d->driver->failure); }
    if (r == HCQ_OK) { r = hcqi_cuda_streams_lend(d, own); }
    if (r == HCQ_OK) { r = hcqi_cuda_context_open(d, ordinal, own); }
    if (r == HCQ_OK) { r = hcqi_cuda_enter_context(d); }
    if (r == HCQ_OK) {
        hcqi_cuda_lanes_choose(d, desc);
        r = hcqi_cuda_device_open(d);
        hcqi_cuda_leave_context(d);
    }
    if (r != HCQ_OK) {
        if (hcqi_atomic_load32(&d->lost)) {
            hcq_backend_log(device, r, "cuda: %s", d->retained
                            ? "the primary context is broken, and somebody else in this process "
                              "holds it" : "after an error before the driver gives this process "
                                           "no other context: start it again");
        }
        hcqi_cuda_close(d);
        return r;
    }
    hcqi_cuda_report(d, caps);
    *self = d;
    return HCQ_OK;
}

/* ---- lanes ---- */

/* Lent streams are compute lanes in turn. */
static hcq_result hcqi_cuda_lane_stream(hcqi_cuda_device *d, hcqi_cuda_lane *lane) {
    lane->lent = 0;
    if (!lane->is_imported && lane->base->kind == HCQ_COMPUTE && d->stream_count != 0) {
        lane->stream = d->streams[lane->base->index % d->stream_count];
        lane->lent = 1;
        return HCQ_OK;
    }
    if (d->one_stream != NULL && !lane->is_imported) {
        lane->stream = d->one_stream;
        return HCQ_OK;
    }
    HCQI_PASS(hcqi_cuda_enter_context(d));
    hcq_result r = hcqi_cuda_stream_new(d, &lane->stream);
    hcqi_cuda_leave_context(d);
    return r;
}

static void hcqi_cuda_lane_free(hcqi_cuda_device *d, hcqi_cuda_lane *lane) {
    if (lane->stream != NULL && !lane->lent && lane->stream != d->one_stream &&
        hcqi_cuda_enter_context(d) == HCQ_OK) {
        (void)d->api->StreamDestroy(lane->stream);
        hcqi_cuda_leave_context(d);
    }
    hcqi_delete(&d->hooks, lane->given, lane->given_capacity * sizeof *lane->given);
    hcqi_delete(&d->hooks, lane, sizeof *lane);
}

static hcq_result hcqi_cuda_lane_open(void *self, hcq_lane *target) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, hcqi_new(&d->hooks, sizeof *lane));
    uint32_t index = hcqi_cuda_lane_index(target);
    if (lane == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    lane->d = d;
    lane->base = target;
    lane->is_imported = (uint32_t)target->imported;
    lane->word = hcqi_cuda_word(d, index);
    lane->trail = HCQI_CAST(uint32_t *, (void *)(lane->word + 8));
    lane->word_address = (hcqi_cu_ptr)(uintptr_t)lane->word;
    lane->trail_address = (hcqi_cu_ptr)(uintptr_t)lane->trail;
    hcq_result r = HCQ_OK;
    if (!lane->is_imported) { r = hcqi_cuda_lane_stream(d, lane); } /* else when it is used */
    if (r == HCQ_OK && !hcqi_cuda_given_room(lane)) { r = HCQ_ERROR_OUT_OF_MEMORY; }
    if (r != HCQ_OK) {
        hcqi_cuda_lane_free(d, lane);
        return r;
    }
    hcq_backend_lock(1);
    d->lanes[index] = lane;
    hcq_backend_lock(0);
    target->native = lane;
    return HCQ_OK;
}

/* Somebody may be about to take an event of its last batches, which are over. */
static void hcqi_cuda_lane_close(void *self, hcq_lane *target) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    hcqi_cuda_lane *lane = HCQI_CAST(hcqi_cuda_lane *, target->native);
    while (hcqi_atomic_load32(&lane->users) != 0) { hcq_sys_yield(); }
    if (lane->stream != NULL && hcqi_cuda_enter_context(d) == HCQ_OK) { /* its store is done ... */
        if (!lane->lent) { (void)d->api->StreamSynchronize(lane->stream); } /* ... maybe not it */
        if (lane->relay != NULL) {
            (void)d->api->StreamSynchronize(lane->relay);
            (void)d->api->StreamDestroy(lane->relay);
        }
        hcqi_cuda_leave_context(d);
    }
    hcqi_word_lock(&lane->lock);
    hcqi_cuda_lane_retire(lane, lane->submitted);
    hcqi_word_unlock(&lane->lock);
    hcq_backend_lock(1);
    d->lanes[hcqi_cuda_lane_index(target)] = NULL;
    hcq_backend_lock(0);
    hcqi_cuda_lane_free(d, lane);
}

/* Between devices the host is in between: a stream would go on when the context that it
   waits for ends, and nobody could tell. */
static int hcqi_cuda_can_wait(void *self, const hcq_backend *owner_backend,
                              const hcq_lane *other) {
    (void)self;
    (void)owner_backend;
    (void)other;
    return 0;
}

static hcq_result hcqi_cuda_query(void *self, uint32_t key, uint64_t *value) {
    hcqi_cuda_device *d = HCQI_CAST(hcqi_cuda_device *, self);
    uint64_t *const counters[] = { /* by key */
        &d->launches, &d->graph_launches, &d->graphs_made, &d->nodes, &d->nodes_set, NULL, NULL,
        &d->records, &d->waits, &d->waits_value, &d->writes, &d->batches
    };
    const uint64_t limits[] = { /* by key */
        d->max_threads, d->max_block[0], d->max_block[1], d->max_block[2], d->max_grid[0],
        d->max_grid[1], d->max_grid[2], d->max_shared, d->warp, 1, d->integrated
    };
    uint32_t at = (uint32_t)key - HCQ_CUDA_QUERY_LAUNCHES, events = 0;
    if (key >= HCQ_QUERY_MAX_BLOCK && key <= HCQ_QUERY_UNIFIED) {
        *value = limits[key - HCQ_QUERY_MAX_BLOCK];
        return HCQ_OK;
    }
    if (at >= sizeof counters / sizeof counters[0]) { return HCQ_ERROR_UNSUPPORTED; }
    if (counters[at] != NULL) {
        *value = hcqi_atomic_load64(counters[at]);
        return HCQ_OK;
    }
    hcqi_word_lock(&d->event_lock);
    for (hcqi_cuda_event *e = d->events; e != NULL; e = e->all) {
        events += key == HCQ_CUDA_QUERY_EVENTS_MADE || hcqi_atomic_load32(&e->refs) != 0;
    }
    hcqi_word_unlock(&d->event_lock);
    *value = events - 1; /* without d->past */
    return HCQ_OK;
}

static const hcq_backend *hcqi_cuda_backend(void) {
    static const hcq_backend backend = {
        HCQ_BACKEND_VERSION, "CUDA", "NVIDIA GPUs, by the CUDA driver",
        hcqi_cuda_driver_create, hcqi_cuda_driver_destroy, hcqi_cuda_devices, hcqi_cuda_why_none,
        hcqi_cuda_open, hcqi_cuda_close, hcqi_cuda_lane_open, hcqi_cuda_lane_close,
        hcqi_cuda_query,
        hcqi_cuda_alloc, hcqi_cuda_dealloc, hcqi_cuda_import, hcqi_cuda_map, hcqi_cuda_unmap,
        hcqi_cuda_program_create, hcqi_cuda_program_destroy, hcqi_cuda_exec_check,
        hcqi_cuda_statistics,
        hcqi_cuda_encode, hcqi_cuda_patch, hcqi_cuda_encode_free,
        hcqi_cuda_submit, NULL, hcqi_cuda_give, hcqi_cuda_completed, hcqi_cuda_wait,
        hcqi_cuda_kick, hcqi_cuda_counter_reset, hcqi_cuda_lose,
        hcqi_cuda_can_wait, NULL, hcqi_cuda_clock, NULL
    };
    return &backend;
}

/* ========================================================================== */
/* ---- native handles ------------------------------------------------------ */

/* The device of a call, with the core's lock; NULL: `why`. */
static hcqi_cuda_device *hcqi_cuda_from(hcq_device *device, hcq_result *why) {
    return HCQI_CAST(hcqi_cuda_device *, hcq_backend_enter(device, hcqi_cuda_backend(), why));
}

HCQI_DEF hcq_result hcq_cuda_info_get(hcq_device *device, hcq_cuda_info *info) {
    hcq_result r;
    if (info == NULL) { return hcqi_null("info"); }
    const hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    memset(info, 0, sizeof *info);
    info->device = d->ordinal;
    info->context = d->context;
    info->library = d->driver->library;
    info->driver_version = (uint32_t)d->driver->version;
    info->capability = d->capability;
    info->processors = d->processors;
    info->memops = (uint32_t)d->memops;
    info->value_waits = (uint32_t)d->value_waits;
    info->pools = d->pool != NULL;
    info->graphs = (uint32_t)d->graphs;
    info->device_times = (uint32_t)d->has_stamp;
    return hcq_backend_leave(HCQ_OK);
}

HCQI_DEF hcq_result hcq_cuda_lane(hcq_device *device, hcq_queue_kind kind, uint32_t index,
                                  hcq_cuda_lane_info *info) {
    hcq_result r;
    if (info == NULL) { return hcqi_null("info"); }
    hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    uint32_t count = kind == HCQ_COPY ? d->copy_lanes : d->compute_lanes;
    int known = kind == HCQ_COMPUTE || kind == HCQ_COPY;
    if (!known || index >= count) {
        return hcq_backend_leave(
            hcqi_deny(d->device, HCQ_ERROR_INVALID, "%s: %u of %u lanes", known ? "index" : "kind",
                      known ? index : (uint32_t)kind, count));
    }
    const hcqi_cuda_lane *lane = d->lanes[(kind == HCQ_COPY ? HCQI_CUDA_LANES : 0) + index];
    if (lane == NULL) { return hcq_backend_leave(HCQ_ERROR_CLOSED); }
    memset(info, 0, sizeof *info);
    info->stream = lane->stream;
    info->lent = lane->lent;
    for (uint32_t k = 0; k < 2 * HCQI_CUDA_LANES; k++) {
        const hcqi_cuda_lane *other = d->lanes[k];
        info->shared += other != NULL && other->stream == lane->stream;
    }
    return hcq_backend_leave(HCQ_OK);
}

HCQI_DEF hcq_result hcq_cuda_program(const hcq_program *program, hcq_cuda_program_info *info) {
    hcq_device *device;
    hcq_result r;
    void *code = hcq_backend_code(program, &device);
    const hcqi_cuda_program *p = HCQI_CAST(const hcqi_cuda_program *, code);
    if (info == NULL || device == NULL) {
        return hcqi_null(info != NULL ? "program" : "info");
    }
    hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    r = p != NULL ? hcqi_cuda_enter_context(d) : HCQ_ERROR_CLOSED;
    if (r != HCQ_OK) { return hcq_backend_leave(r); }
    memset(info, 0, sizeof *info);
    info->function = p->function;
    info->max_threads = p->max_threads;
    info->dynamic_bytes = p->shared_bytes;
    info->registers = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_REGISTERS);
    info->shared_bytes = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_SHARED);
    info->const_bytes = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_CONST);
    info->local_bytes = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_LOCAL);
    info->ptx_version = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_PTX);
    info->binary_version = hcqi_cuda_func_ask(d, p->function, HCQI_CU_FUNC_BINARY);
    hcqi_cuda_leave_context(d);
    return hcq_backend_leave(HCQ_OK);
}

/* An event of ours behind a wait for another's event, or else for the lane's word. */
static int hcqi_cuda_event_relay(hcqi_cuda_device *d, hcqi_cuda_lane *lane, hcqi_cu_event other,
                                 uint64_t epoch, hcqi_cuda_event **event) {
    hcqi_word_lock(&lane->relay_lock);
    int r = hcqi_cuda_relay_open(lane);
    if (r == HCQI_CU_OK && other != NULL) {
        r = d->api->StreamWaitEvent(lane->relay, other, 0);
    } else if (r == HCQI_CU_OK) {
        r = d->api->StreamWaitValue64(lane->relay, lane->word_address, epoch, HCQI_CU_WAIT_GEQ);
    }
    *event = r == HCQI_CU_OK ? hcqi_cuda_event_get(d) : NULL;
    if (r == HCQI_CU_OK && *event == NULL) { r = hcqi_cuda_event_none(d); }
    if (r == HCQI_CU_OK) { r = d->api->EventRecord((*event)->handle, lane->relay); }
    if (r == HCQI_CU_OK) {
        hcqi_cuda_count(other != NULL ? &d->waits : &d->waits_value, 1);
        hcqi_cuda_count(&d->records, 1);
    } else {
        hcqi_cuda_event_put(d, *event);
        *event = NULL;
    }
    hcqi_word_unlock(&lane->relay_lock);
    return r;
}

/* The event of an epoch that was handed over. */
static hcq_result hcqi_cuda_event_of(hcqi_cuda_device *d, hcqi_cuda_lane *lane, uint64_t epoch,
                                     hcqi_cuda_event **event) {
    int done = 0, r = HCQI_CU_OK;
    if (hcqi_atomic_load64(&lane->handed) < epoch) {
        return hcqi_cuda_lost(d) ? HCQ_ERROR_LOST : HCQ_ERROR_WOULD_BLOCK;
    }
    HCQI_PASS(hcqi_cuda_enter_context(d));
    *event = hcqi_cuda_lane_event(lane, epoch, &done);
    hcqi_atomic_store32(&lane->records, HCQI_CUDA_RECORDS); /* the next ones have one */
    if (*event == NULL && !done) { r = hcqi_cuda_event_relay(d, lane, NULL, epoch, event); }
    hcqi_cuda_leave_context(d);
    return r == HCQI_CU_OK ? HCQ_OK : hcqi_cuda_failed(d, r, "cuEventRecord");
}

HCQI_DEF hcq_result hcq_cuda_event_acquire(hcq_device *device, hcq_point point,
                                           struct CUevent_st **event) {
    hcqi_cuda_event *found = NULL;
    hcqi_cuda_lane *lane = NULL;
    hcq_lane_point at;
    hcq_result r;
    if (event == NULL) { return hcqi_null("event"); }
    *event = NULL;
    hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    r = hcq_backend_point(device, point, &at);
    if (r == HCQ_OK && at.lane != NULL) {
        lane = HCQI_CAST(hcqi_cuda_lane *, at.lane->native);
        hcq_backend_flush_soon(device);  /* given when the lock is free */
        (void)hcqi_atomic_add32(&lane->users, 1); /* it stays until the event is there */
    }
    if (hcq_backend_leave(r) != HCQ_OK) { return r; }
    if (lane != NULL) { r = hcqi_cuda_event_of(d, lane, at.epoch, &found); }
    if (r == HCQ_OK && found == NULL) {       /* reached: one that is complete */
        found = d->past;
        (void)hcqi_atomic_add32(&found->refs, 1);
    }
    if (found != NULL) {
        hcqi_word_lock(&d->event_lock);
        found->lent++;
        hcqi_word_unlock(&d->event_lock);
        *event = found->handle;
    }
    if (lane != NULL) { (void)hcqi_atomic_add32(&lane->users, UINT32_MAX); }
    return r;
}

HCQI_DEF hcq_result hcq_cuda_event_release(hcq_device *device, struct CUevent_st *event) {
    hcqi_cuda_event *found = NULL;
    hcq_result r;
    if (event == NULL) { return hcqi_null("event"); }
    hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    hcqi_word_lock(&d->event_lock);
    for (hcqi_cuda_event *e = d->events; e != NULL && found == NULL; e = e->all) {
        if (e->handle == event && e->lent != 0) { found = e; }
    }
    if (found != NULL) { found->lent--; }
    hcqi_word_unlock(&d->event_lock);
    hcqi_cuda_event_put(d, found);
    if (found == NULL) {
        r = hcqi_deny(d->device, HCQ_ERROR_INVALID, "event: was not acquired from this device");
    }
    return hcq_backend_leave(r);
}

/* Makes an imported lane wait for an event, at once: before the batch is given, which may be later
   if much is pending, the event may be recorded anew, or destroyed. The stream of a busy lane may
   still get what comes before it: *own is then an event for which the batch waits. */
static hcq_result hcqi_cuda_import_wait(hcqi_cuda_device *d, hcqi_cuda_lane *lane,
                                        hcqi_cu_event event, hcqi_cuda_event **own) {
    int r, busy = hcqi_cuda_lane_look(lane) < lane->submitted;
    *own = NULL;
    if (lane->stream == NULL) { HCQI_PASS(hcqi_cuda_lane_stream(d, lane)); }
    HCQI_PASS(hcqi_cuda_enter_context(d));
    hcqi_apart_begin(d->device);       /* where others fill the channel the driver blocks */
    r = busy ? hcqi_cuda_event_relay(d, lane, event, 0, own)
             : d->api->StreamWaitEvent(lane->stream, event, 0);
    hcqi_apart_end(d->device);
    hcqi_cuda_leave_context(d);
    return hcqi_cuda_end(d, hcqi_cuda_failed(d, r, "cuStreamWaitEvent"));
}

/* On a lane of its own that waits for the event; one that is idle, else the next. */
HCQI_DEF hcq_result hcq_cuda_event_import(hcq_device *device, struct CUevent_st *event,
                                          hcq_point *point) {
    hcqi_cuda_event *own;
    hcq_result r;
    if (point == NULL) { return hcqi_null("point"); }
    memset(point, 0, sizeof *point);
    if (event == NULL) { return hcqi_null("event"); }
    hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    if (hcqi_giving != 0) { return hcq_backend_leave(HCQ_ERROR_WOULD_BLOCK); } /* given too late */
    uint32_t index = d->next_imported;
    for (uint32_t i = 0; i < HCQI_CUDA_IMPORTED; i++) {
        uint32_t k = (d->next_imported + i) % HCQI_CUDA_IMPORTED;
        hcqi_cuda_lane *lane = d->lanes[2 * HCQI_CUDA_LANES + k];
        if (hcqi_cuda_lane_look(lane) < lane->submitted) { continue; }
        index = k;
        break;
    }
    d->next_imported = (index + 1) % HCQI_CUDA_IMPORTED; /* others may come meanwhile */
    hcqi_cuda_lane *lane = d->lanes[2 * HCQI_CUDA_LANES + index];
    r = hcqi_cuda_lost(d) ? HCQ_ERROR_LOST : hcqi_cuda_import_wait(d, lane, event, &own);
    if (r != HCQ_OK) { return hcq_backend_leave(r); }
    r = hcq_backend_post(device, index, (uint64_t)(uintptr_t)own, point);
    if (r != HCQ_OK) { hcqi_cuda_event_put(d, own); }
    return hcq_backend_leave(r);
}

/* ========================================================================== */
/* ---- compiling ----------------------------------------------------------- */

#ifndef HCQ_CUDA_NVRTC
#define HCQ_CUDA_NVRTC NULL
#endif

typedef struct hcqi_cuda_nvrtc {
    int (*create)(void **program, const char *source, const char *name, int header_count,
                  const char *const *headers, const char *const *names);
    int (*compile)(void *program, int option_count, const char *const *options);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *text);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *text);
    int (*destroy)(void **program);
    int (*cubin_size)(void *program, size_t *size); /* those from here on, or none: from 11.2 */
    int (*cubin)(void *program, char *code);
    int (*arch_count)(int *count);
    int (*archs)(int *archs);
    void *library;
} hcqi_cuda_nvrtc;

enum { HCQI_CUDA_NVRTC_NEEDED = 7, HCQI_CUDA_NVRTC_ALL = 11 };

/* The library has its version in its name. The driver takes what one of its own makes, or of an
   older: a newer one's PTX it does not. */
static void *hcqi_cuda_nvrtc_library(int version) {
    static const char *const names[] = {
#ifdef _WIN32
        "nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"
#else
        "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"
#endif
    };
    const int count = (int)(sizeof names / sizeof names[0]);
    const char *given = HCQ_CUDA_NVRTC;
    if (given != NULL) { return hcq_sys_library_open(given); }
    void *library = NULL;
    int first = version >= 13000 ? 0 : version >= 12000 ? 1 : 2;
    for (int i = 0; library == NULL && i < count; i++) {
        library = hcq_sys_library_open(names[(first + i) % count]);
    }
    return library;
}

static int hcqi_cuda_nvrtc_open(hcqi_cuda_nvrtc *n, int version) {
    static const hcqi_cuda_name names[HCQI_CUDA_NVRTC_ALL] = {
        { "nvrtcCreateProgram", NULL }, { "nvrtcCompileProgram", NULL },
        { "nvrtcGetPTXSize", NULL }, { "nvrtcGetPTX", NULL }, { "nvrtcGetProgramLogSize", NULL },
        { "nvrtcGetProgramLog", NULL }, { "nvrtcDestroyProgram", NULL },
        { "nvrtcGetCUBINSize", NULL }, { "nvrtcGetCUBIN", NULL },
        { "nvrtcGetNumSupportedArchs", NULL }, { "nvrtcGetSupportedArchs", NULL }
    };
    memset(n, 0, sizeof *n);
    n->library = hcqi_cuda_nvrtc_library(version);
    if (n->library == NULL) { return 0; }
    const char *missing = hcqi_cuda_names_find(n->library, names, HCQI_CUDA_NVRTC_ALL,
                                               HCQI_CUDA_NVRTC_NEEDED, n);
    if (missing == NULL) { return 1; }
    hcq_sys_library_close(n->library);
    return 0;
}

/* For the device itself, so that no driver has to take this NVRTC's PTX; else, where it knows no
   such device or makes no binary code, PTX for the newest that it knows and the device is. */
static void hcqi_cuda_nvrtc_arch(const hcqi_cuda_device *d, const hcqi_cuda_nvrtc *n, char *arch,
                                 size_t size) {
    int known[64], count = 0, best = (int)d->capability, exact = 0;
    if (n->cubin != NULL && n->archs != NULL && n->arch_count(&count) == 0 && count <= 64 &&
        n->archs(known) == 0) {
        int below = 0;
        for (int i = 0; i < count; i++) {
            exact |= known[i] == best;
            if (known[i] <= best && known[i] > below) { below = known[i]; }
        }
        best = below != 0 ? below : best;
    }
    snprintf(arch, size, "--gpu-architecture=%s_%d", exact ? "sm" : "compute", best);
}

static void hcqi_cuda_compile_log(hcqi_cuda_device *d, const hcqi_cuda_nvrtc *n, void *program,
                                  hcq_result result) {
    size_t size = 0;
    if (n->log_size(program, &size) != 0 || size <= 1) { return; }
    char *text = HCQI_CAST(char *, hcqi_new(&d->hooks, size + 1));
    if (text == NULL) { return; }
    if (n->log(program, text) == 0) {
        text[size] = 0;
        hcqi_cuda_jit_log(d, result, "NVRTC", text);
    }
    hcqi_delete(&d->hooks, text, size + 1);
}

/* The architecture first, so that the user's options may say another. */
static hcq_result hcqi_cuda_compile_run(hcqi_cuda_device *d, const hcqi_cuda_nvrtc *n,
                                        void *program, const char *const *options, uint32_t count,
                                        hcq_code *code) {
    size_t bytes = (count + 1) * sizeof(const char *), size = 0;
    char arch[48], *text = NULL;
    const char **all = HCQI_CAST(const char **, hcqi_new(&d->hooks, bytes));
    if (all == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    hcqi_cuda_nvrtc_arch(d, n, arch, sizeof arch);
    all[0] = arch;
    for (uint32_t i = 0; i < count; i++) { all[i + 1] = options[i]; }
    int r = n->compile(program, (int)count + 1, all);
    hcqi_delete(&d->hooks, all, bytes);
    hcqi_cuda_compile_log(d, n, program, r == 0 ? HCQ_OK : HCQ_ERROR_NATIVE);
    if (r != 0) {
        return hcqi_deny(d->device, HCQ_ERROR_NATIVE, "nvrtcCompileProgram: failed (%d)", r);
    }
    int binary = n->cubin != NULL && n->cubin_size(program, &size) == 0 && size != 0;
    if (!binary) { r = n->ptx_size(program, &size); }
    if (r == 0) { text = HCQI_CAST(char *, hcqi_new(&d->hooks, size)); }
    if (r == 0 && text == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    if (r == 0) { r = binary ? n->cubin(program, text) : n->ptx(program, text); }
    if (r != 0) {
        hcqi_delete(&d->hooks, text, size);
        return hcqi_deny(d->device, HCQ_ERROR_NATIVE, "nvrtcGet%s: failed (%d)",
                         binary ? "CUBIN" : "PTX", r);
    }
    memset(code, 0, sizeof *code);
    code->data = text;
    code->size = size;
    return HCQ_OK;
}

HCQI_DEF hcq_result hcq_cuda_compile(hcq_device *device, const char *source,
                                     const char *const *options, uint32_t option_count,
                                     hcq_code *code) {
    hcq_result r;
    hcqi_cuda_nvrtc n;
    void *program = NULL;
    if (code != NULL) { memset(code, 0, sizeof *code); }
    if (source == NULL || code == NULL) { return hcqi_null(code != NULL ? "source" : "code"); }
    if (option_count != 0 && options == NULL) { return hcqi_null("options"); }
    hcqi_cuda_device *d = hcqi_cuda_from(device, &r);
    if (d == NULL) { return r; }
    (void)hcq_backend_leave(HCQ_OK);
    if (!hcqi_cuda_nvrtc_open(&n, d->driver->version)) {
        return hcqi_deny(d->device, HCQ_ERROR_UNSUPPORTED, "hcq_cuda_compile: NVRTC is missing");
    }
    r = HCQ_ERROR_NATIVE;
    if (n.create(&program, source, "hcq.cu", 0, NULL, NULL) == 0) {
        r = hcqi_cuda_compile_run(d, &n, program, options, option_count, code);
        (void)n.destroy(&program);
    }
    hcq_sys_library_close(n.library);
    return r;
}

HCQI_DEF void hcq_cuda_code_free(hcq_device *device, hcq_code *code) {
    if (device == NULL || code == NULL || code->data == NULL) { return; }
    hcq_backend_free(device, (void *)(uintptr_t)code->data, code->size);
    memset(code, 0, sizeof *code);
}

HCQI_COLD_END

#endif /* HCQ_IMPLEMENTATION */
