#include "photo.cuh"

KERNEL(blur_y)(byte *dst, const half_word *src, word width, word rows, word skip) {
    word x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    ONE_BY_ONE
    for (word c = 0; c < RGB && x < width; c++) {
        word sum = 128;
        ONE_BY_ONE
        for (word i = 0; i < 5; i++) {
            sum += tap(i) * src[(near_index(y, i, 2, rows) * width + x) * RGB + c];
        }
        dst[(y * width + x) * RGB + c] = (byte)(sum / 256);
    }
}
