/* hcq_cuda.h - the CUDA backend of hcq: NVIDIA GPUs, by the driver alone.

   Recipe: keep it beside hcq.h and never include it yourself. It needs no CUDA
   toolkit: libcuda.so.1 (nvcuda.dll), which comes with the driver, is opened at
   run time; version 11.4 or later. In the one file with the implementation, and
   in those that call a function below:

       #define HCQ_IMPLEMENTATION
       #define HCQ_CUDA
       #include "hcq.h"

   and open "CUDA", "CUDA:1" or "CUDA:name of the device". Licence: as hcq.h.

   ============================================================================
   Kernels. hcq_program_desc.ptx takes PTX text, a cubin or a fatbin; `entry` is
   the kernel's name in it, without it the first one of a PTX text. The kernel's
   parameters are the argument block: pointers and values in the order of the
   argument list, so that

       extern "C" __global__ void axpy(float *y, const float *x, float a, unsigned n)

   goes with { HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_F32, HCQ_ARG_U32 }. PTX with a
   low .version and .target runs on all later drivers and devices. grid is
   gridDim, block is blockDim; hcq_program_desc.shared_bytes is dynamic shared
   memory. What a launch would refuse (a block with too many threads, too much
   shared memory) is refused when it is recorded. hcq_cuda_compile makes PTX of
   CUDA C++ where NVRTC is installed.

   Addresses. hcq_buffer.address is the CUdeviceptr. HCQ_HOST_VISIBLE memory is
   pinned host memory, all other memory is the device's and has no host pointer.
   copyin and copyout from and to pinned memory (of hcq_alloc or hcq_import) are
   done in one piece without staging.

   Lanes are streams that do not wait for the legacy default stream. A lane tells
   how far it is in one of two ways, chosen when the device is opened:

   1. Stream memory operations, where the driver has them (11.7): each submission
      ends with a 64-bit store into pinned memory, which the host reads.
   2. Events: each submission ends with an event of a pool.

   A lane that waits for another one waits for an event: in the first way one that
   is recorded when somebody asks. If that is too late, because the lane was given
   more to do meanwhile, it waits for the stored value, and from then on the other
   lane records an event with every submission for a while.

   Nothing is given to a stream before its waits are, and no completion depends on
   a host function: these run on a thread of the driver's, must not call CUDA, are
   skipped after an error, and hold up their stream. Host commands run on hcq's
   service thread, finished submissions are collected there or by a thread that
   waits.

   Replay. A bound queue is one CUgraphExec for each run of commands between waits,
   signals, host and custom commands; a graph's commands on this device are one,
   too, with an edge for each dependency. A patch changes the nodes whose values
   differ, at the next submit. Runs of a single command, and custom commands, go
   to the stream as they are.

   Errors. An error of a kernel ends its CUDA context, and with it everything of
   the process in that context: the device is lost. Close it, and open it again.
*/
#ifndef HCQ_H
#error "hcq_cuda.h: define HCQ_CUDA and include hcq.h, which includes this file"
#endif

#ifndef HCQ_CUDA_H
#define HCQ_CUDA_H

/* CUDA's handles: CUcontext is struct CUctx_st *, and so on, as <cuda.h> has it. */
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUfunc_st;

/* The driver's library, an expression: #define HCQ_CUDA_LIBRARY "..."
   ["libcuda.so.1", "nvcuda.dll"]. HCQ_CUDA_NVRTC likewise ["libnvrtc.so"...]. */

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HCQ_CUDA_EVENTS = 1,               /* lanes count by events ... */
    HCQ_CUDA_MEMOPS = 2,               /* ... or by memory operations, even by those of drivers
                                          before 11.7 [those of 11.7, else events] */
    HCQ_CUDA_NO_VALUE_WAITS = 4,       /* never wait for a stored value: an event with each
                                          submission. Always so on Windows */
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
    void *library;                     /* libcuda's handle, for hcq_sys_library_symbol */
    uint32_t driver_version;           /* 1000 * major + 10 * minor */
    uint32_t capability;               /* 10 * major + minor: 90 is sm_90 */
    uint32_t processors;               /* streaming multiprocessors */
    uint32_t memops;                   /* lanes count by: 2 memory operations of 11.7, 1 older
                                          ones, 0 events */
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

   Threads: any. Lifetime: of the handles, until hcq_close.
   Errors:  HCQ_ERROR_UNSUPPORTED (not a CUDA device).
*/
HCQ_API hcq_result hcq_cuda_info_get(hcq_device *device, hcq_cuda_info *info);

/* Tells which stream a lane uses, and how many lanes share it.

   Threads: any. Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_INVALID (no such lane).
*/
HCQ_API hcq_result hcq_cuda_lane(hcq_device *device, hcq_queue_kind kind, uint32_t index,
                                 hcq_cuda_lane_info *info);

/* Describes a kernel.

   Threads: any. Lifetime: of the function, until the program is gone.
   Errors:  HCQ_ERROR_UNSUPPORTED (not of a CUDA device).
*/
HCQ_API hcq_result hcq_cuda_program(const hcq_program *program, hcq_cuda_program_info *info);

/* Gives an event that completes once `point` is reached, for streams that are not
   hcq's: cuStreamWaitEvent(stream, event, 0).

   The point is a submission's own, or a user signal's that a submission raises.
   If the submission fails after it was handed over, the event completes all
   the same. The event comes from hcq's pool and may be the one that others got:
   do not record it.

   Threads:  any.
   Lifetime: until hcq_cuda_event_release, which may come before it completes but
             after all calls that name it; hcq_close takes what is left.
   Errors:   HCQ_NOT_READY (held back: nobody can wait for it natively yet),
             HCQ_ERROR_UNSUPPORTED (of no single CUDA lane), its failure,
             HCQ_ERROR_OUT_OF_MEMORY.
*/
HCQ_API hcq_result hcq_cuda_event_acquire(hcq_device *device, hcq_point point,
                                          struct CUevent_st **event);
HCQ_API hcq_result hcq_cuda_event_release(hcq_device *device, struct CUevent_st *event);

/* Gives a point that is reached when `event` completes, so that hcq's work, and the
   host, wait for it.

   The event was recorded before, as for cuStreamWaitEvent: what is recorded in it
   later does not count, and it may be destroyed. It counts as a submission of
   `device`; up to 4 run beside each other, later ones behind one of these.

   Threads: any. Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_NATIVE,
            HCQ_ERROR_OUT_OF_MEMORY.
*/
HCQ_API hcq_result hcq_cuda_import_event(hcq_device *device, struct CUevent_st *event,
                                         hcq_point *point);

/* Compiles CUDA C++ with NVRTC, if that is installed (libnvrtc comes with the CUDA
   toolkit, not with the driver), for this device; the log goes to the logger.

   `options` as for nvrtcCompileProgram; the architecture is set. Give `code` as
   hcq_program_desc.ptx, with the `entry` of an extern "C" kernel.

   Threads:  any. Blocks: for as long as it compiles.
   Lifetime: of `code`, until hcq_cuda_code_free.
   Errors:   HCQ_ERROR_UNSUPPORTED (no NVRTC, not a CUDA device), HCQ_ERROR_NATIVE
             (it does not compile), HCQ_ERROR_OUT_OF_MEMORY.
*/
HCQ_API hcq_result hcq_cuda_compile(hcq_device *device, const char *source,
                                    const char *const *options, uint32_t option_count,
                                    hcq_code *code);
HCQ_API void hcq_cuda_code_free(hcq_device *device, hcq_code *code);

#ifdef __cplusplus
}
#endif

#endif /* HCQ_CUDA_H */
