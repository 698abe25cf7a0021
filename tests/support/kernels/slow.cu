// By hand: time, or words that the host sees while it runs.
#include "kernel.cuh"

// 20 milliseconds.
KERNEL(slow)() {
    word64 start = now();
    while (now() - start < 20000000) {}
}
