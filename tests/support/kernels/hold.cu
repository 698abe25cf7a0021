// By hand: words that the host sees while it runs, at an address put into the code.
#include "kernel.cuh"
#include "seen.cuh"

KERNEL(hold)() {
    if (first_of_block()) {
        add(&seen()->hold_began, 1);
        until(&seen()->hold_go);
        add(&seen()->hold_ended, 1);
    }
}
