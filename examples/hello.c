#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include <stdio.h>

#include "kernels/hello.h"             /* the kernel for GPUs, as their compilers left it */
#include "shaders/hello.h"

typedef struct axpy_args { uint64_t y, x; int32_t a; uint32_t n; } axpy_args;

static void axpy(const void *args, const hcq_block *b) { /* called once per block */
    const axpy_args *k = HCQ_ARGS(axpy_args, args);
    int32_t *y = HCQ_PTR(int32_t, k->y), *x = HCQ_PTR(int32_t, k->x);
    for (uint32_t t = 0; t < b->block.x; t++) {
        uint32_t i = b->id.x * b->block.x + t;
        if (i < k->n) { y[i] += k->a * x[i]; }
    }
}

int main(int argc, char **argv) {
    enum { N = 1000 };
    int32_t x[N], y[N], right = 0;
    for (int32_t i = 0; i < N; i++) { x[i] = i; y[i] = 1; }
    hcq_device *dev;
    hcq_result r = hcq_open(argc > 1 ? argv[1] : "CPU", NULL, &dev);
    if (r != HCQ_OK) { fprintf(stderr, "hello: %s\n", hcq_result_text(r)); return 1; }
    hcq_buffer bx, by;
    hcq_alloc(dev, sizeof x, 0, &bx);  hcq_copyin(bx, x, sizeof x);
    hcq_alloc(dev, sizeof y, 0, &by);  hcq_copyin(by, y, sizeof y);
    hcq_program_desc desc = HCQ_CPU_PROGRAM("axpy", axpy, HCQ_ARG_INOUT, HCQ_ARG_IN,
                                            HCQ_ARG_I32, HCQ_ARG_U32); /* y, x, a, n */
    desc.ptx.data = ptx_axpy;          /* for CUDA */
    desc.spirv.data = spirv_axpy;      /* for Vulkan */
    desc.spirv.size = sizeof spirv_axpy;
    hcq_program *prog;  hcq_program_create(dev, &desc, &prog);
    hcq_queue *q;       hcq_queue_create(dev, HCQ_COMPUTE, &q);
    axpy_args args = { by.address, bx.address, 2, N };
    hcq_queue_exec(q, prog, &args, sizeof args, hcq_dim((N + 63) / 64, 1, 1), hcq_dim(64, 1, 1));
    hcq_point done;
    r = hcq_queue_submit(q, dev, &done); /* or the recording's first error */
    if (r == HCQ_OK) { r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER); }
    if (r == HCQ_OK) { r = hcq_copyout(y, by, sizeof y); }
    for (int32_t i = 0; i < N; i++) { right += y[i] == 2 * i + 1; }
    printf("%s: 2 * 20 + 1 = %d, %d of %d right\n", hcq_result_text(r), y[20], right, N);
    return hcq_close(dev) != HCQ_OK || right != N;
}
