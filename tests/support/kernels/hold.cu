#include "kernel.cuh"
#include "seen.cuh"

KERNEL(hold)() {
    if (first_of_block()) {
        add(&seen()->hold_began, 1);
        until(&seen()->hold_go);
        add(&seen()->hold_ended, 1);
    }
}
