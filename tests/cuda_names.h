/* cuda_names.h - the driver's functions that hcq looks up, by the names under which
   libcuda exports them. Part of no_cuda.c and cuda_header.c. */
#ifndef HCQ_TEST_CUDA_NAMES_H
#define HCQ_TEST_CUDA_NAMES_H

/* Without any of these there is no device. */
#define CUDA_NEEDED(X)                                                             \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuDeviceGetCount) X(cuDeviceGet) \
    X(cuDeviceGetName) X(cuDeviceTotalMem_v2) X(cuDeviceGetAttribute)              \
    X(cuDeviceGetPCIBusId) X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain)    \
    X(cuDevicePrimaryCtxRelease_v2) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2)   \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuCtxEnablePeerAccess) \
    X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemHostAlloc) X(cuMemFreeHost) \
    X(cuMemHostGetDevicePointer_v2) X(cuMemHostRegister_v2) X(cuMemHostUnregister) \
    X(cuMemcpyAsync) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async)    \
    X(cuMemsetD2D32Async) X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) \
    X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuLaunchKernel)                  \
    X(cuStreamCreateWithPriority) X(cuStreamDestroy_v2) X(cuStreamQuery)           \
    X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventDestroy_v2) \
    X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuGraphCreate)        \
    X(cuGraphDestroy) X(cuGraphAddMemcpyNode) X(cuGraphAddMemsetNode)              \
    X(cuGraphAddEmptyNode) X(cuGraphInstantiateWithFlags) X(cuGraphUpload)         \
    X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphExecMemcpyNodeSetParams)       \
    X(cuGraphExecMemsetNodeSetParams)

/* One of each two is needed: the second is of driver 12.0. */
#define CUDA_EITHER(X)                                                             \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2)                               \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2)

/* Drivers of 11.4, or of some systems, lack these. */
#define CUDA_OPTIONAL(X)                                                           \
    X(cuStreamWriteValue64_v2) X(cuStreamWaitValue64_v2) X(cuStreamWriteValue32_v2) \
    X(cuStreamWriteValue64) X(cuStreamWaitValue64) X(cuStreamWriteValue32)         \
    X(cuGraphAddBatchMemOpNode) X(cuGraphExecBatchMemOpNodeSetParams)              \
    X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemPoolSetAccess) \
    X(cuMemPoolTrimTo) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync)                \
    X(cuCtxDisablePeerAccess)

#endif /* HCQ_TEST_CUDA_NAMES_H */
