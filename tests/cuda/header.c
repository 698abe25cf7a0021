/* header.c - hcq's declarations of CUDA against NVIDIA's, where the toolkit is:
   sizes, places, values, and, compiled as C++, parameters.

   Compiles as C11 and as C++11 and later, as a whole or with -DCUDA_H_AFTER, which
   includes <cuda.h> behind hcq.h. Run, it also looks whether the toolkit's stub exports
   what hcq looks up: $CUDA_HOME/lib64/stubs/libcuda.so. */
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

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#define HOLDS(condition) static_assert(condition, #condition)
#else
#define HOLDS(condition) _Static_assert(condition, #condition)
#endif

/* ---- handles ---- */

static void handles(CUdeviceptr address, CUcontext context, CUstream stream, CUevent event,
                    CUfunction function, CUmodule module, CUgraph graph, CUgraphNode node,
                    CUgraphExec exec, CUmemoryPool pool) {
    hcqi_cu_ptr a = address, *address_of = &address;
    hcqi_cu_context c = context;
    hcqi_cu_stream s = stream;
    hcqi_cu_event e = event;
    hcqi_cu_function f = function;
    hcqi_cu_module m = module;
    hcqi_cu_graph g = graph;
    hcqi_cu_node n = node;
    hcqi_cu_exec x = exec;
    hcqi_cu_pool p = pool;
    hcq_cuda_encoder encoder = {stream, context, 0};
    struct hcq_cuda_desc desc = {0, context, &stream, 1};
    (void)a, (void)address_of, (void)c, (void)s, (void)e, (void)f, (void)m, (void)g, (void)n;
    (void)x, (void)p, (void)encoder, (void)desc;
}

/* ---- values ---- */

#define VALUE(ours, theirs) HOLDS((long long)(ours) == (long long)(theirs))

VALUE(HCQI_CU_OK, CUDA_SUCCESS);
VALUE(HCQI_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
VALUE(HCQI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
VALUE(HCQI_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
VALUE(HCQI_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
VALUE(HCQI_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
VALUE(HCQI_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
VALUE(HCQI_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
VALUE(HCQI_CU_ECC, CUDA_ERROR_ECC_UNCORRECTABLE);
VALUE(HCQI_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
VALUE(HCQI_CU_NVLINK, CUDA_ERROR_NVLINK_UNCORRECTABLE);
VALUE(HCQI_CU_NO_JIT, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
VALUE(HCQI_CU_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
VALUE(HCQI_CU_JIT_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED);
VALUE(HCQI_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
VALUE(HCQI_CU_NOT_READY, CUDA_ERROR_NOT_READY);
VALUE(HCQI_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
VALUE(HCQI_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
VALUE(HCQI_CU_PEER_ALREADY, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
VALUE(HCQI_CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
VALUE(HCQI_CU_ASSERT, CUDA_ERROR_ASSERT);
VALUE(HCQI_CU_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
VALUE(HCQI_CU_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR);
VALUE(HCQI_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
VALUE(HCQI_CU_UNKNOWN, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000
VALUE(HCQI_CU_TENSOR_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
#if CUDA_VERSION >= 12000
VALUE(HCQI_CU_MPS_TERMINATED, CUDA_ERROR_MPS_CLIENT_TERMINATED);
#endif
#if CUDA_VERSION >= 12080
VALUE(HCQI_CU_CONTAINED, CUDA_ERROR_CONTAINED);
#endif

VALUE(HCQI_CU_MAX_THREADS, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
VALUE(HCQI_CU_MAX_BLOCK_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
VALUE(HCQI_CU_MAX_BLOCK_X + 1, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
VALUE(HCQI_CU_MAX_BLOCK_X + 2, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
VALUE(HCQI_CU_MAX_GRID_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
VALUE(HCQI_CU_MAX_GRID_X + 1, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
VALUE(HCQI_CU_MAX_GRID_X + 2, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
VALUE(HCQI_CU_MAX_SHARED, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
VALUE(HCQI_CU_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
VALUE(HCQI_CU_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
VALUE(HCQI_CU_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
VALUE(HCQI_CU_CAPABILITY_MAJOR + 1, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
VALUE(HCQI_CU_MAX_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
VALUE(HCQI_CU_HOST_REGISTER, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
VALUE(HCQI_CU_MEMORY_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
#if CUDA_VERSION >= 12000
VALUE(HCQI_CU_MEMOPS_V1_64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1);
VALUE(HCQI_CU_MEMOPS_64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
#endif

VALUE(HCQI_CU_FUNC_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
VALUE(HCQI_CU_FUNC_SHARED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
VALUE(HCQI_CU_FUNC_CONST, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
VALUE(HCQI_CU_FUNC_LOCAL, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
VALUE(HCQI_CU_FUNC_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
VALUE(HCQI_CU_FUNC_PTX, CU_FUNC_ATTRIBUTE_PTX_VERSION);
VALUE(HCQI_CU_FUNC_BINARY, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
VALUE(HCQI_CU_FUNC_MAX_DYNAMIC, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

VALUE(HCQI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
VALUE(HCQI_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
VALUE(HCQI_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
VALUE(HCQI_CU_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
VALUE(HCQI_CU_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
VALUE(HCQI_CU_HOST_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
VALUE(HCQI_CU_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);
VALUE(HCQI_CU_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
VALUE(HCQI_CU_WRITE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
VALUE(HCQI_CU_WRITE_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
VALUE(HCQI_CU_POOL_INTERNAL, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
VALUE(HCQI_CU_POOL_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
VALUE(HCQI_CU_POOL_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
VALUE(HCQI_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
VALUE(HCQI_CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
VALUE(HCQI_CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
VALUE(HCQI_CU_JIT_ERROR_LOG_SIZE, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

/* hcq has an int where these are. */
VALUE(sizeof(int), sizeof(CUresult));
VALUE(sizeof(int), sizeof(CUdevice));
VALUE(sizeof(int), sizeof(CUdevice_attribute));
VALUE(sizeof(int), sizeof(CUfunction_attribute));
VALUE(sizeof(int), sizeof(CUjit_option));
VALUE(sizeof(int), sizeof(CUmemPool_attribute));
VALUE(sizeof(unsigned int), sizeof(CUmemorytype));

/* ---- structs ---- */

#define SIZE(ours, theirs) VALUE(sizeof(ours), sizeof(theirs))
#define FIELD(ours, field, theirs, their_field)                                    \
    VALUE(offsetof(ours, field), offsetof(theirs, their_field));                   \
    VALUE(sizeof(((ours *)0)->field), sizeof(((theirs *)0)->their_field))

#define KERNEL(field, theirs) \
    FIELD(hcqi_cu_kernel_params, field, CUDA_KERNEL_NODE_PARAMS, theirs);

#define KERNEL_FIELDS(X) \
    X(func, func) X(grid[0], gridDimX) X(grid[1], gridDimY) X(grid[2], gridDimZ) \
    X(block[0], blockDimX) X(block[1], blockDimY) X(block[2], blockDimZ) \
    X(shared_bytes, sharedMemBytes) X(params, kernelParams) X(extra, extra)
KERNEL_FIELDS(KERNEL)
#if CUDA_VERSION >= 12000
SIZE(hcqi_cu_kernel_params, CUDA_KERNEL_NODE_PARAMS_v2);
KERNEL(kern, kern)
KERNEL(context, ctx)
FIELD(hcqi_cu_kernel_params, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra);
VALUE(offsetof(hcqi_cu_kernel_params, kern), sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
#endif

#define COPY(field, theirs) FIELD(hcqi_cu_copy_params, field, CUDA_MEMCPY3D, theirs);

SIZE(hcqi_cu_copy_params, CUDA_MEMCPY3D);
#define COPY_FIELDS(X) \
    X(src.x_bytes, srcXInBytes) X(src.y, srcY) X(src.z, srcZ) X(src.lod, srcLOD) \
    X(src.memory_type, srcMemoryType) X(src.host, srcHost) X(src.device, srcDevice) \
    X(src.array, srcArray) X(src.reserved, reserved0) X(src.pitch, srcPitch) \
    X(src.height, srcHeight) X(dst.x_bytes, dstXInBytes) X(dst.y, dstY) X(dst.z, dstZ) \
    X(dst.lod, dstLOD) X(dst.memory_type, dstMemoryType) X(dst.host, dstHost) \
    X(dst.device, dstDevice) X(dst.array, dstArray) X(dst.reserved, reserved1) \
    X(dst.pitch, dstPitch) X(dst.height, dstHeight) X(width_bytes, WidthInBytes) \
    X(height, Height) X(depth, Depth)
COPY_FIELDS(COPY)

#define MEMSET(field, theirs) FIELD(hcqi_cu_memset_params, field, CUDA_MEMSET_NODE_PARAMS, theirs)

SIZE(hcqi_cu_memset_params, CUDA_MEMSET_NODE_PARAMS);
MEMSET(dst, dst);
MEMSET(pitch, pitch);
MEMSET(value, value);
MEMSET(element_size, elementSize);
MEMSET(width, width);
MEMSET(height, height);

#define MEMOP(field, theirs) FIELD(hcqi_cu_memop, field, CUstreamBatchMemOpParams, theirs)

SIZE(hcqi_cu_memop, CUstreamBatchMemOpParams);
MEMOP(write.operation, writeValue.operation);
MEMOP(write.address, writeValue.address);
MEMOP(write.value, writeValue.value64);
MEMOP(write.flags, writeValue.flags);
MEMOP(write.alias, writeValue.alias);

#if CUDA_VERSION >= 11070
#define MEMOPS(field, theirs) \
    FIELD(hcqi_cu_memop_params, field, CUDA_BATCH_MEM_OP_NODE_PARAMS, theirs)

SIZE(hcqi_cu_memop_params, CUDA_BATCH_MEM_OP_NODE_PARAMS);
MEMOPS(context, ctx);
MEMOPS(count, count);
MEMOPS(ops, paramArray);
MEMOPS(flags, flags);
#endif

SIZE(hcqi_cu_location, CUmemLocation);
FIELD(hcqi_cu_location, type, CUmemLocation, type);
FIELD(hcqi_cu_location, id, CUmemLocation, id);
SIZE(hcqi_cu_access, CUmemAccessDesc);
FIELD(hcqi_cu_access, location, CUmemAccessDesc, location);
FIELD(hcqi_cu_access, flags, CUmemAccessDesc, flags);

#define POOL(field, theirs) FIELD(hcqi_cu_pool_props, field, CUmemPoolProps, theirs)

SIZE(hcqi_cu_pool_props, CUmemPoolProps);
POOL(type, allocType);
POOL(handle_types, handleTypes);
POOL(location, location);
POOL(security, win32SecurityAttributes);
#if CUDA_VERSION >= 12030
POOL(max_size, maxSize);
#endif
#if CUDA_VERSION >= 12060
POOL(usage, usage);
#endif

/* ---- functions ---- */

/* Member of hcqi_cuda_api and the function, in hcq's order; the second list is of
   functions that this toolkit's header may not have, or only under another name. */
#define FUNCTIONS(X)                                                               \
    X(Init, cuInit) X(DriverGetVersion, cuDriverGetVersion) X(GetErrorName, cuGetErrorName) \
    X(DeviceGetCount, cuDeviceGetCount) X(DeviceGet, cuDeviceGet)                  \
    X(DeviceGetName, cuDeviceGetName) X(DeviceTotalMem, cuDeviceTotalMem_v2)       \
    X(DeviceGetAttribute, cuDeviceGetAttribute) X(DeviceGetPCIBusId, cuDeviceGetPCIBusId) \
    X(DeviceCanAccessPeer, cuDeviceCanAccessPeer)                                  \
    X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                            \
    X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                       \
    X(CtxPushCurrent, cuCtxPushCurrent_v2) X(CtxPopCurrent, cuCtxPopCurrent_v2)    \
    X(CtxGetDevice, cuCtxGetDevice)                                                \
    X(CtxEnablePeerAccess, cuCtxEnablePeerAccess) X(MemAlloc, cuMemAlloc_v2)       \
    X(MemFree, cuMemFree_v2) X(MemHostAlloc, cuMemHostAlloc) X(MemFreeHost, cuMemFreeHost) \
    X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2)                       \
    X(MemHostRegister, cuMemHostRegister_v2) X(MemHostUnregister, cuMemHostUnregister) \
    X(MemcpyAsync, cuMemcpyAsync) X(MemsetD8Async, cuMemsetD8Async)                \
    X(MemsetD16Async, cuMemsetD16Async) X(MemsetD32Async, cuMemsetD32Async)        \
    X(MemsetD2D32Async, cuMemsetD2D32Async) X(ModuleLoadDataEx, cuModuleLoadDataEx) \
    X(ModuleUnload, cuModuleUnload) X(ModuleGetFunction, cuModuleGetFunction)      \
    X(FuncGetAttribute, cuFuncGetAttribute) X(FuncSetAttribute, cuFuncSetAttribute) \
    X(LaunchKernel, cuLaunchKernel)                                                \
    X(StreamCreateWithPriority, cuStreamCreateWithPriority)                        \
    X(StreamDestroy, cuStreamDestroy_v2) X(StreamQuery, cuStreamQuery)             \
    X(StreamSynchronize, cuStreamSynchronize) X(StreamWaitEvent, cuStreamWaitEvent) \
    X(EventCreate, cuEventCreate) X(EventDestroy, cuEventDestroy_v2)               \
    X(EventRecord, cuEventRecord) X(EventQuery, cuEventQuery)                      \
    X(GraphCreate, cuGraphCreate) X(GraphDestroy, cuGraphDestroy)                  \
    X(GraphAddKernelNode, cuGraphAddKernelNode_v2)                                 \
    X(GraphAddMemcpyNode, cuGraphAddMemcpyNode)                                    \
    X(GraphAddMemsetNode, cuGraphAddMemsetNode) X(GraphAddEmptyNode, cuGraphAddEmptyNode) \
    X(GraphInstantiate, cuGraphInstantiateWithFlags)                               \
    X(GraphLaunch, cuGraphLaunch) X(GraphExecDestroy, cuGraphExecDestroy)          \
    X(GraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2)             \
    X(GraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams)                \
    X(GraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams)                \
    X(WriteValue64, cuStreamWriteValue64_v2) X(WaitValue64, cuStreamWaitValue64_v2)

#define OLD_FUNCTIONS(X)                                                           \
    X(WriteValue64V1, cuStreamWriteValue64) X(WaitValue64V1, cuStreamWaitValue64)

#define NEW_FUNCTIONS(X)                                                           \
    X(GraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode)                            \
    X(GraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams)        \
    X(GraphNodeSetEnabled, cuGraphNodeSetEnabled) X(FuncLoad, cuFuncLoad)          \
    X(MemPoolCreate, cuMemPoolCreate) X(MemPoolDestroy, cuMemPoolDestroy)          \
    X(MemPoolSetAttribute, cuMemPoolSetAttribute) X(MemPoolSetAccess, cuMemPoolSetAccess) \
    X(MemPoolTrimTo, cuMemPoolTrimTo) X(MemAllocFromPoolAsync, cuMemAllocFromPoolAsync) \
    X(MemFreeAsync, cuMemFreeAsync)

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

#define SAME_CALL(member, function)                                                \
    static_assert(same_call<decltype(hcqi_cuda_api::member), decltype(&function)>::yes, #function);
FUNCTIONS(SAME_CALL)
#if CUDA_VERSION >= 12040
NEW_FUNCTIONS(SAME_CALL)
#endif

#endif /* __cplusplus */

#define NAME(member, function) #function,
#define MEMBER(member, function) offsetof(hcqi_cuda_api, member),

static const char *const names[] = {FUNCTIONS(NAME) OLD_FUNCTIONS(NAME) NEW_FUNCTIONS(NAME)};
static const size_t members[] = {FUNCTIONS(MEMBER) OLD_FUNCTIONS(MEMBER) NEW_FUNCTIONS(MEMBER)};

enum { COUNT = sizeof names / sizeof names[0] };

HOLDS(sizeof(hcqi_cuda_names) / sizeof(hcqi_cuda_names[0]) == COUNT);
HOLDS(sizeof(hcqi_cuda_api) == COUNT * sizeof(void (*)(void)));

static int failures;

/* Every member gets the function whose parameters it has. */
static void check_names(void) {
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(hcqi_cuda_names[i].name, names[i]) != 0 ||
            members[i] != i * sizeof(void (*)(void))) {
            printf("%s is looked up where %s has to be\n", hcqi_cuda_names[i].name, names[i]);
            failures++;
        }
    }
}

static void check_export(void *stub, const char *name) {
    if (name != NULL && dlsym(stub, name) == NULL) {
        printf("the stub has no %s\n", name);
        failures++;
    }
}

static void check_exports(void) {
    const char *home = getenv("CUDA_HOME");
    char path[512];
    snprintf(path, sizeof path, "%s/lib64/stubs/libcuda.so", home ? home : "/usr/local/cuda");
    void *stub = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (stub == NULL) {
        printf("no stub of the toolkit: %s\n", path);
        return;
    }
    for (size_t i = 0; i < COUNT; i++) {
        check_export(stub, hcqi_cuda_names[i].name);
        check_export(stub, hcqi_cuda_names[i].older);
    }
    dlclose(stub);
}

static void check_launch_tags(void) {
    if ((size_t)CU_LAUNCH_PARAM_END != HCQI_CU_LAUNCH_END ||
        (size_t)CU_LAUNCH_PARAM_BUFFER_POINTER != HCQI_CU_LAUNCH_POINTER ||
        (size_t)CU_LAUNCH_PARAM_BUFFER_SIZE != HCQI_CU_LAUNCH_SIZE) {
        printf("CU_LAUNCH_PARAM_* are others\n");
        failures++;
    }
}

int main(void) {
    handles(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    check_names();
    check_exports();
    check_launch_tags();
    printf("CUDA %d: %d failures\n", CUDA_VERSION, failures);
    return failures != 0;
}
