#include "kernel.cuh"
#include "seen.cuh"

KERNEL(late_put)(word *dst, word index, word value) {
    until(&seen()->hold_go);
    if (first_of_block()) {
        dst[index] = value;
    }
}
