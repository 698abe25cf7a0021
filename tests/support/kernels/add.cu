#include "kernel.cuh"

KERNEL(add)(word *dst, word value, word n) {
    word i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.y == 0 && threadIdx.z == 0 && i < n) {
        dst[i] += value;
    }
}
