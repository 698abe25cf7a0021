#include "kernel.cuh"
#include "seen.cuh"

KERNEL(until)() {
    if (first_of_block()) {
        store(&seen()->until_began, 1);
        until(&seen()->until_go);
    }
}
