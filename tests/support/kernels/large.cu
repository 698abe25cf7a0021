// By hand: an argument of as many words as a backend takes, another number for each.
#include "kernel.cuh"

// As many as all drivers take.
struct large_struct { word words[1000]; };

KERNEL(large)(word *dst, large_struct data, word tail) {
    if (first_of_block()) {
        word sum = tail;
        ONE_BY_ONE
        for (word i = 0; i < 1000; i++) {
            sum = sum * 31 + data.words[i];
        }
        dst[0] = sum;
    }
}
