/* header.c - hcq's declarations of CUDA against NVIDIA's, where the toolkit is:
   sizes, places, values, and, compiled as C++, parameters.

   Compiles as C11 and as C++11 and later, as a whole or with -DCUDA_H_AFTER, which
   includes <cuda.h> behind hcq.h. Run, it compares names. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                    /* cuda.h includes system headers before hcq.h can */
#endif
#ifndef CUDA_H_AFTER
#include <cuda.h>
#endif
#define HCQ_IMPLEMENTATION
#define HCQ_CUDA
#include "../../hcq.h"
#ifdef CUDA_H_AFTER
#include <cuda.h>
#endif

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
#define HOLDS(condition) static_assert(condition, #condition)
#else
#define HOLDS(condition) _Static_assert(condition, #condition)
#endif

/* ---- handles ---- */

/* What is declared twice has one type. */
#define SAME(ours, theirs) \
    extern ours same_##ours; \
    extern theirs same_##ours;

SAME(hcqi_cu_ptr, CUdeviceptr) SAME(hcqi_cu_context, CUcontext) SAME(hcqi_cu_stream, CUstream)
SAME(hcqi_cu_event, CUevent) SAME(hcqi_cu_function, CUfunction) SAME(hcqi_cu_module, CUmodule)
SAME(hcqi_cu_graph, CUgraph) SAME(hcqi_cu_node, CUgraphNode) SAME(hcqi_cu_exec, CUgraphExec)
SAME(hcqi_cu_pool, CUmemoryPool)

/* As users fill them in. */
static void handles(CUcontext context, CUstream stream) {
    hcq_cuda_encoder encoder = {stream, context, 0};
    struct hcq_cuda_desc desc = {0, context, &stream, 1};
    (void)encoder, (void)desc;
}

/* ---- values ---- */

#define VALUE(ours, theirs) HOLDS((long long)(ours) == (long long)(theirs));
#define ERROR(ours, theirs) VALUE(HCQI_CU_##ours, CUDA_ERROR_##theirs)
#define ALIKE(name) ERROR(name, name)
#define DEVICE(ours, theirs) VALUE(HCQI_CU_##ours, CU_DEVICE_ATTRIBUTE_##theirs)
#define FUNCTION(ours, theirs) VALUE(HCQI_CU_FUNC_##ours, CU_FUNC_ATTRIBUTE_##theirs)
#define OTHER(ours, theirs) VALUE(HCQI_CU_##ours, CU_##theirs)

VALUE(HCQI_CU_OK, CUDA_SUCCESS)
ALIKE(INVALID_VALUE) ALIKE(OUT_OF_MEMORY) ALIKE(DEINITIALIZED) ALIKE(STUB_LIBRARY)
ALIKE(NO_DEVICE) ALIKE(INVALID_CONTEXT) ALIKE(INVALID_PTX) ALIKE(NOT_FOUND) ALIKE(NOT_READY)
ALIKE(ILLEGAL_ADDRESS) ALIKE(LAUNCH_TIMEOUT) ALIKE(CONTEXT_IS_DESTROYED) ALIKE(ASSERT)
ALIKE(LAUNCH_FAILED) ALIKE(UNKNOWN)
ERROR(NO_BINARY, NO_BINARY_FOR_GPU) ERROR(ECC, ECC_UNCORRECTABLE)
ERROR(NVLINK, NVLINK_UNCORRECTABLE) ERROR(NO_JIT, JIT_COMPILER_NOT_FOUND)
ERROR(PTX_VERSION, UNSUPPORTED_PTX_VERSION) ERROR(JIT_DISABLED, JIT_COMPILATION_DISABLED)
ERROR(PEER_ALREADY, PEER_ACCESS_ALREADY_ENABLED) ERROR(STACK, HARDWARE_STACK_ERROR)
ERROR(ALREADY_REGISTERED, HOST_MEMORY_ALREADY_REGISTERED) ERROR(UNSUPPORTED, NOT_SUPPORTED)
ERROR(EXTERNAL_DEVICE, EXTERNAL_DEVICE) ERROR(CAPTURE_WRONG, STREAM_CAPTURE_UNSUPPORTED)
#if CUDA_VERSION >= 13000
ERROR(TENSOR_LEAK, TENSOR_MEMORY_LEAK)
#endif
#if CUDA_VERSION >= 12000
ERROR(MPS_TERMINATED, MPS_CLIENT_TERMINATED)
#endif
#if CUDA_VERSION >= 12080
ERROR(CONTAINED, CONTAINED)
#endif

DEVICE(MAX_THREADS, MAX_THREADS_PER_BLOCK) DEVICE(MAX_BLOCK_X, MAX_BLOCK_DIM_X)
DEVICE(MAX_BLOCK_X + 1, MAX_BLOCK_DIM_Y) DEVICE(MAX_BLOCK_X + 2, MAX_BLOCK_DIM_Z)
DEVICE(MAX_GRID_X, MAX_GRID_DIM_X) DEVICE(MAX_GRID_X + 1, MAX_GRID_DIM_Y)
DEVICE(MAX_GRID_X + 2, MAX_GRID_DIM_Z) DEVICE(MAX_SHARED, MAX_SHARED_MEMORY_PER_BLOCK)
DEVICE(PROCESSORS, MULTIPROCESSOR_COUNT) DEVICE(UNIFIED_ADDRESSING, UNIFIED_ADDRESSING)
DEVICE(CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MAJOR)
DEVICE(CAPABILITY_MAJOR + 1, COMPUTE_CAPABILITY_MINOR)
DEVICE(MAX_SHARED_OPTIN, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
DEVICE(HOST_REGISTER, HOST_REGISTER_SUPPORTED)
DEVICE(REGISTER_READ_ONLY, READ_ONLY_HOST_REGISTER_SUPPORTED) DEVICE(MEMORY_POOLS, MEMORY_POOLS_SUPPORTED)
#if CUDA_VERSION >= 12000
DEVICE(MEMOPS_64, CAN_USE_64_BIT_STREAM_MEM_OPS)
#endif

FUNCTION(MAX_THREADS, MAX_THREADS_PER_BLOCK) FUNCTION(SHARED, SHARED_SIZE_BYTES)
FUNCTION(CONST, CONST_SIZE_BYTES) FUNCTION(LOCAL, LOCAL_SIZE_BYTES)
FUNCTION(REGISTERS, NUM_REGS) FUNCTION(PTX, PTX_VERSION) FUNCTION(BINARY, BINARY_VERSION)
FUNCTION(MAX_DYNAMIC, MAX_DYNAMIC_SHARED_SIZE_BYTES)

OTHER(STREAM_NON_BLOCKING, STREAM_NON_BLOCKING) OTHER(EVENT_DISABLE_TIMING, EVENT_DISABLE_TIMING)
OTHER(HOST_PORTABLE, MEMHOSTALLOC_PORTABLE) OTHER(HOST_PORTABLE, MEMHOSTREGISTER_PORTABLE)
OTHER(HOST_DEVICEMAP, MEMHOSTALLOC_DEVICEMAP) OTHER(HOST_DEVICEMAP, MEMHOSTREGISTER_DEVICEMAP)
OTHER(MEMORY_UNIFIED, MEMORYTYPE_UNIFIED) OTHER(WAIT_GEQ, STREAM_WAIT_VALUE_GEQ)
OTHER(HOST_READ_ONLY, MEMHOSTREGISTER_READ_ONLY) OTHER(CAPTURE_RELAXED, STREAM_CAPTURE_MODE_RELAXED)
OTHER(CAPTURE_NONE, STREAM_CAPTURE_STATUS_NONE) OTHER(RANGE_SIZE, POINTER_ATTRIBUTE_RANGE_SIZE)
OTHER(RANGE_START, POINTER_ATTRIBUTE_RANGE_START_ADDR)
OTHER(WRITE_DEFAULT, STREAM_WRITE_VALUE_DEFAULT)
OTHER(POOL_INTERNAL, MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
OTHER(POOL_THRESHOLD, MEMPOOL_ATTR_RELEASE_THRESHOLD)
OTHER(POOL_PINNED, MEM_ALLOCATION_TYPE_PINNED) OTHER(LOCATION_DEVICE, MEM_LOCATION_TYPE_DEVICE)
OTHER(ACCESS_READ_WRITE, MEM_ACCESS_FLAGS_PROT_READWRITE)
OTHER(JIT_ERROR_LOG, JIT_ERROR_LOG_BUFFER)
OTHER(JIT_ERROR_LOG_SIZE, JIT_ERROR_LOG_BUFFER_SIZE_BYTES)

/* hcq has an int where these are. */
VALUE(sizeof(int), sizeof(CUresult)) VALUE(sizeof(int), sizeof(CUdevice))
VALUE(sizeof(int), sizeof(CUdevice_attribute)) VALUE(sizeof(int), sizeof(CUfunction_attribute))
VALUE(sizeof(int), sizeof(CUjit_option)) VALUE(sizeof(int), sizeof(CUmemPool_attribute))
VALUE(sizeof(unsigned int), sizeof(CUmemorytype))

/* ---- structs ---- */

#define SIZE(ours, theirs) VALUE(sizeof(ours), sizeof(theirs))
#define FIELD(ours, field, theirs, their_field)                                    \
    VALUE(offsetof(ours, field), offsetof(theirs, their_field))                    \
    VALUE(sizeof(((ours *)0)->field), sizeof(((theirs *)0)->their_field))

#define KERNEL(field, theirs) FIELD(hcqi_cu_kernel_params, field, CUDA_KERNEL_NODE_PARAMS, theirs)

KERNEL(func, func)
KERNEL(grid[0], gridDimX) KERNEL(grid[1], gridDimY) KERNEL(grid[2], gridDimZ)
KERNEL(block[0], blockDimX) KERNEL(block[1], blockDimY) KERNEL(block[2], blockDimZ)
KERNEL(shared_bytes, sharedMemBytes) KERNEL(params, kernelParams) KERNEL(extra, extra)
#if CUDA_VERSION >= 12000
SIZE(hcqi_cu_kernel_params, CUDA_KERNEL_NODE_PARAMS_v2)
KERNEL(kern, kern)
KERNEL(context, ctx)
FIELD(hcqi_cu_kernel_params, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra)
VALUE(offsetof(hcqi_cu_kernel_params, kern), sizeof(CUDA_KERNEL_NODE_PARAMS_v1))
#endif

#define COPY(field, theirs) FIELD(hcqi_cu_copy_params, field, CUDA_MEMCPY3D, theirs)
#define COPY_SIDE(side, reserved_)                                                 \
    COPY(side.x_bytes, side##XInBytes) COPY(side.y, side##Y) COPY(side.z, side##Z) \
    COPY(side.lod, side##LOD) COPY(side.memory_type, side##MemoryType)             \
    COPY(side.host, side##Host) COPY(side.device, side##Device)                    \
    COPY(side.array, side##Array) COPY(side.reserved, reserved_)                   \
    COPY(side.pitch, side##Pitch) COPY(side.height, side##Height)

SIZE(hcqi_cu_copy_params, CUDA_MEMCPY3D)
COPY_SIDE(src, reserved0)
COPY_SIDE(dst, reserved1)
COPY(width_bytes, WidthInBytes) COPY(height, Height) COPY(depth, Depth)

#define MEMSET(field, theirs) FIELD(hcqi_cu_memset_params, field, CUDA_MEMSET_NODE_PARAMS, theirs)

SIZE(hcqi_cu_memset_params, CUDA_MEMSET_NODE_PARAMS)
MEMSET(dst, dst) MEMSET(pitch, pitch) MEMSET(value, value) MEMSET(element_size, elementSize)
MEMSET(width, width) MEMSET(height, height)

SIZE(hcqi_cu_location, CUmemLocation)
FIELD(hcqi_cu_location, type, CUmemLocation, type)
FIELD(hcqi_cu_location, id, CUmemLocation, id)
SIZE(hcqi_cu_access, CUmemAccessDesc)
FIELD(hcqi_cu_access, location, CUmemAccessDesc, location)
FIELD(hcqi_cu_access, flags, CUmemAccessDesc, flags)

#define POOL(field, theirs) FIELD(hcqi_cu_pool_props, field, CUmemPoolProps, theirs)

SIZE(hcqi_cu_pool_props, CUmemPoolProps)
POOL(type, allocType) POOL(handle_types, handleTypes) POOL(location, location)
POOL(security, win32SecurityAttributes)
#if CUDA_VERSION >= 12030
POOL(max_size, maxSize)
#endif
#if CUDA_VERSION >= 12060
POOL(usage, usage)
#endif

/* ---- functions ---- */

static int failures;

/* cuda.h has all of them, and defines the plain names as those of the newest versions:
   every member gets the function of its name. */
#if CUDA_VERSION >= 12040

#define TEXT(text) #text
#define STRING(name) TEXT(name)

static void check_name(const char *ours, const char *theirs) {
    if (strcmp(ours, theirs) != 0) {
        printf("%s is looked up where %s has to be\n", ours, theirs);
        failures++;
    }
}

static void check_names(void) {
#define NAME(member, suffix, older, args) check_name("cu" #member #suffix, STRING(cu##member));
    HCQI_CUDA_NEEDED(NAME)
    HCQI_CUDA_OPTIONAL(NAME)
}

#ifdef __cplusplus

/* Parameters are passed alike if both are pointers, or both are integers or
   enumerations of one size. */
template <class A> struct kind_of { enum { pointer = 0 }; };
template <class A> struct kind_of<A *> { enum { pointer = 1 }; };

template <class A, class B> struct alike {
    enum { yes = sizeof(A) == sizeof(B) && kind_of<A>::pointer + 0 == kind_of<B>::pointer + 0 };
};

template <class A, class B> struct same_call { enum { yes = 0 }; };
template <class R, class S> struct same_call<R (*)(), S (*)()> {
    enum { yes = alike<R, S>::yes };
};
template <class R, class S, class A, class B, class... As, class... Bs>
struct same_call<R (*)(A, As...), S (*)(B, Bs...)> {
    enum { yes = alike<A, B>::yes && same_call<R (*)(As...), S (*)(Bs...)>::yes };
};

#define SAME_CALL(member, suffix, older, args)                                     \
    static_assert(same_call<decltype(hcqi_cuda_api::member), decltype(&cu##member)>::yes, #member);
HCQI_CUDA_NEEDED(SAME_CALL)
HCQI_CUDA_OPTIONAL(SAME_CALL)

#endif /* __cplusplus */
#else
static void check_names(void) {}
#endif

int main(void) {
    handles(NULL, NULL);
    check_names();
    if ((size_t)CU_LAUNCH_PARAM_END != HCQI_CU_LAUNCH_END ||
        (size_t)CU_LAUNCH_PARAM_BUFFER_POINTER != HCQI_CU_LAUNCH_POINTER ||
        (size_t)CU_LAUNCH_PARAM_BUFFER_SIZE != HCQI_CU_LAUNCH_SIZE) {
        printf("CU_LAUNCH_PARAM_* are others\n");
        failures++;
    }
    printf("CUDA %d: %d failures\n", CUDA_VERSION, failures);
    return failures != 0;
}
