#include "kernel.cuh"

KERNEL(mix)(word *dst, const word *src, word n, word seed) {
    word i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.y == 0 && threadIdx.z == 0 && i < n) {
        dst[i] = dst[i] * 31 + src[i] + seed;
    }
}
