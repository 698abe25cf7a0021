// By hand: no arguments.
#include "kernel.cuh"

KERNEL(nothing)() {}
