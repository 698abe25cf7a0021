#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "hello.k"                     /* the kernel, written once */
#include "hello.k.h"                   /* what hcq_kernel.sh made of it for GPUs */
#include <stdio.h>

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
    hcq_program_desc desc = HCQ_PROGRAM(axpy);
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
