#include "photo.cuh"

KERNEL(blur_x)(half_word *dst, const byte *src, word width, word rows, word skip) {
    word x = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * width;
    ONE_BY_ONE
    for (word c = 0; c < RGB && x < width; c++) {
        word sum = 0;
        ONE_BY_ONE
        for (word i = 0; i < 5; i++) {
            sum += tap(i) * src[(row + near_index(x, i, 2, width)) * RGB + c];
        }
        dst[(row + x) * RGB + c] = (half_word)sum;
    }
}
