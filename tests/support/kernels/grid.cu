#include "kernel.cuh"

struct dims { word x, y, z; };

static __device__ bool same(dim3 a, dims b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

static __device__ bool below(uint3 a, dims b) {
    return a.x < b.x && a.y < b.y && a.z < b.z;
}

KERNEL(grid)(word64 *sum, word *seen, dims grid, dims block) {
    bool good = same(gridDim, grid) && same(blockDim, block) && below(blockIdx, grid) &&
                below(threadIdx, block);
    if (good) {
        atomicAdd(&seen[(blockIdx.z * grid.y + blockIdx.y) * grid.x + blockIdx.x], 1u);
    }
    atomicAdd(sum, good ? 1 : 1000000);
}
