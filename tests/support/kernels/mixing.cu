#include "kernel.cuh"

KERNEL(mixing)(word *dst, const word *a, const word *b, word n, word a_n, word b_n, word seed,
               word reads, word pause_us) {
    word i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x == 0) {
        word64 start = now();
        while (now() - start < pause_us * 1000ull) {}
    }
    if (threadIdx.y == 0 && threadIdx.z == 0 && i < n) {
        word x = reads != 0 ? dst[i] * 31 + 7 : 1;
        x += a[(i * 5 + seed) % a_n];
        x ^= b[(i + seed * 3) % b_n] * 0x85ebca6bu;
        dst[i] = x + i * 0x9e3779b1u + seed;
    }
}
