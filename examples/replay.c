/* replay.c - what it costs to run a recorded queue again.

       cc -O2 examples/replay.c -o replay -pthread
       ./replay [SUBMISSIONS [DEVICE]]

   -DHCQ_VULKAN adds the device VULKAN, -DHCQ_CUDA the device CUDA.

   One bound queue of 1000 kernels, each of which reads what the one before it
   wrote, is submitted again and again; before every submission one argument of
   one kernel is changed. The time is that of all of it together: update,
   submit, run and the wait at the end. Plain C then goes the same 1000 steps
   as often and must come to the same number. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "replay.k"
#include "replay.k.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS = 1000, SUBMISSIONS = 100000 };

/* The addend that kernel `n % KERNELS` gets before submission n. */
static uint32_t addend(uint32_t n) {
    return n * 2654435761u;
}

/* KERNELS times the same kernel with addend 0, bound to `dev`. */
static hcq_result record(hcq_device *dev, hcq_buffer state, hcq_queue **queue) {
    step_args args = { state.address, 0 };
    hcq_program_desc desc = HCQ_PROGRAM(step);
    hcq_program *program;
    hcq_result r = hcq_program_create(dev, &desc, &program);
    if (r == HCQ_OK) { r = hcq_queue_create(dev, HCQ_COMPUTE, queue); }
    for (int i = 0; i < KERNELS && r == HCQ_OK; i++) {
        int32_t index = hcq_queue_exec(*queue, program, &args, sizeof args, hcq_dim(1, 1, 1),
                                       hcq_dim(1, 1, 1));
        r = index == i ? HCQ_OK : HCQ_ERROR_INVALID;
    }
    if (r == HCQ_OK) { r = hcq_queue_bind(*queue, dev); }
    return r;
}

static hcq_result replay(hcq_device *dev, hcq_queue *queue, uint32_t submissions) {
    hcq_point point = hcq_at(hcq_device_timeline(dev), 0);
    hcq_result r = HCQ_OK;
    for (uint32_t n = 0; n < submissions && r == HCQ_OK; n++) {
        uint32_t add = addend(n);
        r = hcq_queue_update_arg(queue, (int32_t)(n % KERNELS), offsetof(step_args, add), &add,
                                 sizeof add);
        if (r == HCQ_OK) { r = hcq_queue_submit(queue, dev, &point); }
    }
    if (r == HCQ_OK) { r = hcq_wait(&point, 1, HCQ_ALL, HCQ_FOREVER); }
    return r;
}

static uint32_t plain(uint32_t submissions) {
    static uint32_t add[KERNELS];
    uint32_t state = 1;
    for (uint32_t n = 0; n < submissions; n++) {
        add[n % KERNELS] = addend(n);
        for (int i = 0; i < KERNELS; i++) {
            state = next_state(state, add[i]);
        }
    }
    return state;
}

static hcq_result measure(hcq_device *dev, uint32_t submissions, uint32_t *state, uint64_t *ns) {
    hcq_buffer buffer;
    hcq_queue *queue;
    hcq_clock begin, end;
    hcq_result r = hcq_alloc(dev, sizeof *state, 0, &buffer);
    if (r == HCQ_OK) { r = hcq_copyin(buffer, state, sizeof *state); }
    if (r == HCQ_OK) { r = record(dev, buffer, &queue); }
    if (r == HCQ_OK) { r = hcq_device_clock(dev, &begin); }
    if (r == HCQ_OK) { r = replay(dev, queue, submissions); }
    if (r == HCQ_OK) { r = hcq_device_clock(dev, &end); }
    if (r == HCQ_OK) { r = hcq_copyout(state, buffer, sizeof *state); }
    if (r == HCQ_OK) { *ns = end.host_ns - begin.host_ns; }
    return r;
}

int main(int argc, char **argv) {
    long submissions = SUBMISSIONS;
    hcq_device *dev = NULL;
    uint32_t state = 1, expected;
    uint64_t ns = 0;
    hcq_result r, closed;
    if (argc > 1) {
        submissions = strtol(argv[1], NULL, 10);
    }
    if (argc > 3 || submissions < 1 || submissions > 100000000) {
        fprintf(stderr, "usage: replay [SUBMISSIONS [DEVICE]], 1 to 100000000 submissions\n");
        return 1;
    }
    r = hcq_open(argc > 2 ? argv[2] : "CPU", NULL, &dev);
    if (r == HCQ_OK) { r = measure(dev, (uint32_t)submissions, &state, &ns); }
    closed = hcq_close(dev);
    r = r == HCQ_OK ? closed : r;
    if (r != HCQ_OK) {
        fprintf(stderr, "replay: %s\n", hcq_result_text(r));
        return 1;
    }
    expected = plain((uint32_t)submissions);
    printf("%ld submissions of %d kernels, one update before each: %.2f ns per kernel\n",
           submissions, (int)KERNELS, (double)ns / ((double)submissions * (int)KERNELS));
    printf("state %08x, plain C %08x: %s\n", state, expected,
           state == expected ? "the same" : "DIFFERENT");
    return state == expected ? 0 : 1;
}
