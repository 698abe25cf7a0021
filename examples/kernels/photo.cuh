// What the three kernels of photo.c share.
#define KERNEL(name) extern "C" __global__ void name
#define ONE_BY_ONE _Pragma("unroll 1") // before a loop: keeps the text short

typedef unsigned char byte;
typedef unsigned short half_word;
typedef unsigned int word;

static const word RGB = 3;

// i + step - back, kept within 0 .. count - 1
static __device__ word near_index(word i, word step, word back, word count) {
    return min(i + step < back ? 0 : i + step - back, count - 1);
}

// 1, 4, 6, 4, 1
static __device__ word tap(word i) {
    return 0x14641 >> i * 4 & 15;
}
