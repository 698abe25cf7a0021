// By hand: words that the host sees while it runs, at an address put into the code.
#include "kernel.cuh"
#include "seen.cuh"

KERNEL(mark)(word *dst, word index, word late) {
    if (first_of_block()) {
        if (late != 0) {
            add(&seen()->hold_began, 1);
            until(&seen()->hold_go);
        }
        dst[0] = dst[0] * 31 + index + 1;
        store(&seen()->marks[index], add(&seen()->mark_clock, 1));
    }
}
