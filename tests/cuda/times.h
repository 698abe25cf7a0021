/* times.h - timestamps, the clock, profiles. Part of cuda.c. */

#define NEEDS_DEVICE_TIMES() \
    do { \
        if (!info_of(T.dev).device_times) { \
            SKIP("times are the host's"); \
            return; \
        } \
    } while (0)

enum { STAMPS = 6, STAMP_NS = 300000 };

/* Times between kernels that take a while: they rise by that, and lie between the
   host's readings. */
static void stamps_on(hcq_device *device, hcq_queue_kind kind, int bound) {
    hcq_program *last = make_own(device, "ct_last", last_list);
    hcq_signal s[STAMPS];
    hcq_queue *q = make_queue(device, kind);
    uint64_t before_it = 0;
    for (uint32_t i = 0; i < STAMPS; i++) {
        s[i] = make_signal(device, 0);
        CHECK(hcq_queue_timestamp(q, s[i]) >= 0);
        CHECK(kind == HCQ_COPY || record_last(q, last, STAMP_NS) >= 0);
    }
    CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t before = hcq_sys_now_ns();
        submit_and_wait(q, device);
        uint64_t after = hcq_sys_now_ns();
        hcq_clock clock = CLOCK_OF(device);
        for (uint32_t i = 0; i < STAMPS; i++) {
            uint64_t ns = 0, least = i && kind == HCQ_COMPUTE ? STAMP_NS - 5000 : 0;
            CHECK_OK(hcq_signal_timestamp(s[i], &ns));
            CHECK(ns >= before_it + least);
            before_it = ns;
            uint64_t host = hcq_clock_to_host(&clock, ns);
            CHECK(host + clock.error_ns + 2000 >= before);
            CHECK(host <= after + clock.error_ns + 2000);
        }
    }
    hcq_queue_destroy(q);
    hcq_program_destroy(last);
}

static void timestamps_are_the_devices(void **state) {
    (void)state;
    NEEDS_DEVICE_TIMES();
    for (uint32_t way = 0; way < 3; way++) {
        hcq_device *device = device_by(way, 1, 1);
        stamps_on(device, HCQ_COMPUTE, 0);
        stamps_on(device, HCQ_COMPUTE, 1);
        stamps_on(device, HCQ_COPY, 0);
        stamps_on(device, HCQ_COPY, 1);
        CHECK_OK(hcq_close(device));
    }
}

/* Readings are right within what they say, and rise. */
static void clock_on(hcq_device *device, uint32_t times) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < times; i++) {
        hcq_clock clock = CLOCK_OF(device);
        CHECK(clock.device_ns + clock.error_ns >= last);
        last = clock.device_ns;
    }
}

static void clocks_are_read_together(void **state) {
    (void)state;
    hcq_device *plain = device_with(HCQ_CUDA_NO_JIT, 1, 1);
    clock_on(T.dev, 100);
    clock_on(plain, 100);
    CHECK_OK(hcq_close(plain));
}

/* The device's clock is days off, runs too fast or slow, and in steps. */
static void clocks_that_are_off(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 4; i++) {
        mock_cuda_desc desc = mock_wanted();
        desc.timer_offset_ns = i & 1 ? -1000000000000000 : 5000000000;
        desc.timer_drift_ppm = i & 2 ? 80 : -50;
        desc.timer_step_ns = i & 1 ? 1 : 1000;
        M.setup(&desc);
        hcq_device *device = test_open(0, NULL);
        if (info_of(device).device_times) {
            stamps_on(device, HCQ_COMPUTE, 0);
            test_sleep_ms(200);
            stamps_on(device, HCQ_COMPUTE, 1);
            clock_on(device, 10);
        }
        CHECK_OK(hcq_close(device));
    }
}

/* A clock can be read while the lanes are busy; it does not wait for them. */
static void clock_beside_work(void **state) {
    (void)state;
    hcq_clock clock;
    gates g;
    if (T.variant->one_fifo) {
        SKIP("what is behind a kernel waits for it");
        return;
    }
    gates_open(&g, T.dev);
    hcq_point done = submit_spin(&g, 0, 0);
    gate_until_begun(&g, 0);
    CHECK_OK(hcq_device_clock(T.dev, &clock));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    gate_let(&g, 0);
    WAIT_OK(done);
}

/* ---- profiles ---- */

enum { SPANS = 8, SPAN_TIMES = 3 };

static void profile_check(hcq_device *device, uint64_t before, uint64_t after) {
    enum { MOST = 64 };
    static hcq_profile_event events[MOST];
    uint32_t count = 0;
    uint64_t lost = 0;
    CHECK_OK(hcq_profile_events(device, events, MOST, &count, &lost));
    CHECK_U64(count, SPANS * SPAN_TIMES);
    CHECK_U64(lost, 0);
    for (uint32_t i = 0; i < count; i++) {
        const hcq_profile_event *e = &events[i], *last = i ? &events[i - 1] : e;
        CHECK(i == 0 || e->begin_ns >= last->end_ns);
        CHECK(e->end_ns >= e->begin_ns + STAMP_NS - 5000);
        CHECK(e->begin_ns + e->error_ns + 2000 >= before);
        CHECK(e->end_ns <= after + e->error_ns + 2000);
        CHECK(strcmp(e->name, "ct_last") == 0 && strcmp(e->queue, "steps") == 0);
        CHECK_U64(e->command, i % SPANS);
        CHECK(e->kind == HCQ_COMMAND_EXEC && e->device == device);
    }
}

static void profiles_have_spans(void **state) {
    (void)state;
    NEEDS_DEVICE_TIMES();
    for (uint32_t way = 0; way < 4; way++) {
        hcq_device *device = device_by(way / 2, 1, 1);
        hcq_program *last = make_own(device, "ct_last", last_list);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        CHECK_OK(hcq_queue_label(q, "steps"));
        for (uint32_t i = 0; i < SPANS; i++) {
            CHECK_INDEX(record_last(q, last, STAMP_NS), i);
        }
        CHECK_OK(way & 1 ? hcq_queue_bind(q, device) : HCQ_OK);
        CHECK_OK(hcq_profile_start(device, NULL));
        uint64_t before = hcq_sys_now_ns();
        for (uint32_t k = 0; k < SPAN_TIMES; k++) {
            submit_and_wait(q, device);
        }
        profile_check(device, before, hcq_sys_now_ns());
        CHECK_OK(hcq_profile_stop(device));
        submit_and_wait(q, device);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_close(device));
    }
}

#define TIME_TESTS                                                                 \
    TEST(timestamps_are_the_devices), TEST(clocks_are_read_together),              \
    TEST_ALONE(clocks_that_are_off), TEST(clock_beside_work), TEST(profiles_have_spans),
