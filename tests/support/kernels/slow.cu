#include "kernel.cuh"

// 20 milliseconds.
KERNEL(slow)() {
    word64 start = now();
    while (now() - start < 20000000) {}
}
