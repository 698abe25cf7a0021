/* times.h - a device's clock that is off, and read beside work. Part of cuda.c. */
#ifndef HCQ_TEST_CUDA_TIMES_H
#define HCQ_TEST_CUDA_TIMES_H

#include "kernels.h"
#include "shared.h"

/* Times around kernels that take a while: they rise by that, and lie between the
   host's readings. */
static void stamps_on(hcq_device *device, int bound) {
    enum { STAMPS = 6, STAMP_NS = 300000, STEP_NS = 2000 }; /* the coarsest clock's here */
    const uint64_t stamp_ns = STAMP_NS;
    hcq_program *last = make_kernel(device, "last", k_last, (const uint32_t[4]){HCQ_ARG_U64});
    hcq_signal s[STAMPS];
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    uint64_t earlier = 0;
    for (uint32_t i = 0; i < STAMPS; i++) {
        s[i] = make_signal(device, 0);
        CHECK(hcq_queue_timestamp(q, s[i]) >= 0);
        CHECK(hcq_queue_exec(q, last, &stamp_ns, 8, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)) >= 0);
    }
    CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t before = hcq_sys_now_ns();
        submit_and_wait(q, device);
        uint64_t after = hcq_sys_now_ns();
        hcq_clock clock = CLOCK_OF(device);
        for (uint32_t i = 0; i < STAMPS; i++) {
            uint64_t ns = 0;
            CHECK_OK(hcq_signal_timestamp(s[i], &ns));
            CHECK(ns >= earlier + (i ? STAMP_NS - 5000 : 0));
            earlier = ns;
            uint64_t host = hcq_clock_to_host(&clock, ns);
            CHECK(host + clock.error_ns + STEP_NS >= before);
            CHECK(host <= after + clock.error_ns + STEP_NS);
        }
    }
    hcq_queue_destroy(q);
    hcq_program_destroy(last);
}

/* The device's clock is days off, runs too fast or slow, and in steps. */
static void clocks_that_are_off(TEST_ARGS) {
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 4; i++) {
        mock_cuda_desc desc = mock_wanted();
        desc.timer_offset_ns = i & 1 ? -1000000000000000 : 5000000000;
        desc.timer_drift_ppm = i & 2 ? 80 : -50;
        desc.timer_step_ns = i & 1 ? 1 : 1000;
        M.setup(&desc);
        hcq_device *device = test_open(0, NULL);
        if (info_of(device).device_times) {
            stamps_on(device, 0);
            test_sleep_ms(200);
            stamps_on(device, 1);
        }
        CHECK_OK(hcq_close(device));
    }
}

/* A clock can be read while the lanes are busy; it does not wait for them. */
static void clock_beside_work(TEST_ARGS) {
    hcq_clock clock;
    gates g;
    SKIP_IF(T.variant->one_fifo, "what is behind a kernel waits for it");
    gates_open(&g, T.dev);
    hcq_point done = submit_spin(&g, 0, 0);
    gate_until_begun(&g, 0);
    CHECK_OK(hcq_device_clock(T.dev, &clock));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    gate_let(&g, 0);
    WAIT_OK(done);
}

#define TIME_TESTS TEST_ALONE(clocks_that_are_off), TEST(clock_beside_work),

#endif /* HCQ_TEST_CUDA_TIMES_H */
