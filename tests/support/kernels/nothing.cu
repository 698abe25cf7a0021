#include "kernel.cuh"

KERNEL(nothing)() {}
