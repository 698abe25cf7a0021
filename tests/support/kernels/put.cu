#include "kernel.cuh"

KERNEL(put)(word *dst, word index, word value) {
    if (first_of_block()) {
        dst[index] = value;
    }
}
