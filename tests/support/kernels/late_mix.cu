#include "kernel.cuh"
#include "seen.cuh"

KERNEL(late_mix)(word *dst, const word *src, word n, word seed) {
    word i = blockIdx.x * blockDim.x + threadIdx.x;
    until(&seen()->hold_go);
    if (threadIdx.y == 0 && threadIdx.z == 0 && i < n) {
        dst[i] = dst[i] * 31 + src[i] + seed;
    }
}
