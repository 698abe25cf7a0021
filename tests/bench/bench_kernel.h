/* bench_kernel.h - the kernels of bench_kernel.c, as one compiler makes them of
   hcq_kernel.h and of loops by hand. */
#pragma once

#include "bench.h"

#include "kernels.k"

enum { KERNEL_SAXPY, KERNEL_BLUR, KERNEL_MATMUL, KERNEL_REDUCE, KERNELS };

typedef struct bench_kernel { hcq_cpu_fn ours, peer; } bench_kernel;

/* bench_loops.c with gcc -O3, gcc -O2 -ftree-vectorize and clang -O2, by run.sh; NULL: not
   here. */
extern const bench_kernel bench_loops_gcc3[KERNELS] __attribute__((weak));
extern const bench_kernel bench_loops_gcc2[KERNELS] __attribute__((weak));
extern const bench_kernel bench_loops_clang[KERNELS] __attribute__((weak));
