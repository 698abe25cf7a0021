// What the kernels written by hand share: any block of exec is right, the parameters
// are the struct that the CPU's kernel reads.
#define KERNEL(name) extern "C" __global__ void k_##name
#define ONE_BY_ONE _Pragma("unroll 1") // before a loop: keeps the text short

typedef unsigned int word;
typedef unsigned long long word64;

// A kernel of the CPU is called once for a block.
static __device__ bool first_of_block() {
    return threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0;
}

// Nanoseconds.
static __device__ word64 now() {
    word64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
