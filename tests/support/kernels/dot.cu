#include "kernel.cuh"

KERNEL(dot)(word *dst, const word *a, const word *b, word n) {
    if (first_of_block()) {
        word sum = 0;
        ONE_BY_ONE
        for (word i = 0; i < n; i++) {
            sum += a[i] * b[i];
        }
        dst[0] = sum;
    }
}
