/* times.h - timestamps, the clock, profiles; the pipeline cache. Part of
   vulkan.c. */

/* ---- times ---- */

enum { STAMPS = 6 };

/* Times between heavy kernels: they rise, and lie between the host's readings. */
static void stamps_on(hcq_device *dev, int bound) {
    hcq_program *heavy = make_heavy(dev);
    hcq_buffer work = make_words(dev, HEAVY), dst = make_words(dev, STAMPS);
    hcq_signal s[STAMPS];
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    uint64_t last = 0;
    for (uint32_t i = 0; i < STAMPS; i++) {
        s[i] = make_signal(dev, 0);
        CHECK(hcq_queue_timestamp(q, s[i]) >= 0);
        CHECK(record_heavy(q, heavy, work, dst, i, i) >= 0);
    }
    CHECK_OK(bound ? hcq_queue_bind(q, dev) : HCQ_OK);
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t before = hcq_sys_now_ns();
        submit_and_wait(q, dev);
        uint64_t after = hcq_sys_now_ns();
        hcq_clock clock = CLOCK_OF(dev);
        for (uint32_t i = 0; i < STAMPS; i++) {
            uint64_t ns = 0;
            CHECK_OK(hcq_signal_timestamp(s[i], &ns));
            CHECK(i == 0 || ns > last); /* a kernel lies between */
            CHECK(ns >= last);
            last = ns;
            uint64_t host = hcq_clock_to_host(&clock, ns);
            CHECK(host + clock.error_ns >= before && host <= after + clock.error_ns);
        }
    }
    hcq_queue_destroy(q);
}

static void timestamps_are_the_devices(void **state) {
    (void)state;
    hcq_device *plain = device_with(HCQ_VULKAN_NO_CALIBRATION, 0);
    stamps_on(T.dev, 0);
    stamps_on(T.dev, 1);
    stamps_on(plain, 0);
    stamps_on(plain, 1);
    CHECK_OK(hcq_close(plain));
}

static void clock_on(hcq_device *dev) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < 200; i++) {
        hcq_clock clock = CLOCK_OF(dev);
        CHECK(clock.device_ns + clock.error_ns >= last);
        last = clock.device_ns;
    }
}

static void clocks_are_read_together(void **state) {
    (void)state;
    hcq_device *plain = device_with(HCQ_VULKAN_NO_CALIBRATION, 0);
    clock_on(T.dev);
    clock_on(plain);
    CHECK_OK(hcq_close(plain));
}

/* Events of kernels and copies, in their order, within the host's readings, and
   no two of a lane at once. */
static void profile_on(hcq_device *dev) {
    enum { COMMANDS = 8, TIMES = 3, MOST = 64 };
    static hcq_profile_event events[MOST];
    hcq_program *heavy = make_heavy(dev);
    hcq_buffer work = make_words(dev, HEAVY), dst = make_words(dev, COMMANDS);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    uint32_t count = 0;
    uint64_t lost = 0, spent = 0;
    CHECK_OK(hcq_queue_label(q, "steps"));
    for (uint32_t i = 0; i < COMMANDS; i++) {
        CHECK_INDEX(record_heavy(q, heavy, work, dst, i, i), i);
    }
    CHECK_OK(hcq_queue_bind(q, dev));
    CHECK_OK(hcq_profile_start(dev, NULL));
    uint64_t before = hcq_sys_now_ns();
    for (uint32_t k = 0; k < TIMES; k++) {
        submit_and_wait(q, dev);
    }
    uint64_t after = hcq_sys_now_ns();
    CHECK_OK(hcq_profile_events(dev, events, MOST, &count, &lost));
    CHECK_U64(count, COMMANDS * TIMES);
    CHECK_U64(lost, 0);
    for (uint32_t i = 0; i < count; i++) {
        const hcq_profile_event *e = &events[i], *last = i ? &events[i - 1] : e;
        CHECK(e->begin_ns < e->end_ns && (i == 0 || e->begin_ns >= last->end_ns));
        CHECK(e->begin_ns + e->error_ns >= before && e->end_ns <= after + e->error_ns);
        CHECK(strcmp(e->name, "vk_heavy") == 0 && strcmp(e->queue, "steps") == 0);
        CHECK_U64(e->command, i % COMMANDS);
        CHECK(e->kind == HCQ_COMMAND_EXEC && e->device == dev);
        spent += e->end_ns - e->begin_ns;
    }
    CHECK(spent > (after - before) / 3); /* the kernels are what takes the time */
    CHECK_OK(hcq_profile_stop(dev));
    hcq_queue_destroy(q);
}

static void profiles_have_spans(void **state) {
    (void)state;
    hcq_device *plain = device_with(HCQ_VULKAN_NO_CALIBRATION, 0);
    profile_on(T.dev);
    profile_on(plain);
    CHECK_OK(hcq_close(plain));
}

/* ---- the pipeline cache ---- */

static hcq_device *device_cached(const void *data, size_t size) {
    hcq_device_desc desc = test_desc();
    test_vulkan_desc.cache = data;
    test_vulkan_desc.cache_size = size;
    log_clear();
    return test_open(0, &desc);
}

/* Opens with a cache, runs something, closes. 1: a line about the cache was logged. */
static int cache_is_refused(const void *data, size_t size) {
    hcq_device *dev = device_cached(data, size);
    int refused = log_has("vulkan.cache");
    hcq_buffer dst = make_words(dev, 1);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, make_add(dev), dst, 0, 4), 0);
    submit_and_wait(q, dev);
    CHECK_U64(READ32(dst, 0), 4);
    CHECK_OK(hcq_close(dev));
    return refused;
}

static void caches_are_saved_and_given(void **state) {
    (void)state;
    hcq_buffer dst = make_words(T.dev, 1);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    size_t size = 0, less = 10, room = 0;
    CHECK_INDEX(record_add(q, make_add(T.dev), dst, 0, 4), 0);
    submit_and_wait(q, T.dev);
    CHECK_RESULT(hcq_vulkan_cache(T.dev, NULL, NULL), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_vulkan_cache(T.dev, NULL, &size));
    CHECK(size >= 32);
    unsigned char *data = (unsigned char *)malloc(size + 64);
    memset(data, 0xab, size + 64);
    CHECK_RESULT(hcq_vulkan_cache(T.dev, data, &less), HCQ_ERROR_LIMIT);
    CHECK_U64(data[0], 0xab);
    CHECK(less >= size);
    room = size;
    CHECK_OK(hcq_vulkan_cache(T.dev, data, &room));
    CHECK(room >= 32 && room <= size);
    CHECK_U64(data[size], 0xab);
    size = room;
    CHECK(!cache_is_refused(data, size));
    CHECK(!cache_is_refused(NULL, 0));
    (void)cache_is_refused(data, size - 1 < 33 ? 33 : size - 1); /* the driver's to see */
    for (size_t cut = 1; cut < 32; cut += 5) {
        CHECK(cache_is_refused(data, cut));
    }
    for (uint32_t at = 4; at < 32; at += 4) { /* version, vendor, device, id */
        data[at] ^= 0x40;
        CHECK(cache_is_refused(data, size));
        data[at] ^= 0x40;
    }
    uint64_t random = T.seed;
    for (size_t i = 0; i < size; i++) {
        data[i] = (unsigned char)test_random(&random);
    }
    CHECK(cache_is_refused(data, size));
    memset(data, 0xff, size);
    CHECK(cache_is_refused(data, size));
    free(data);
}

#define TIME_TESTS                                                                 \
    TEST(timestamps_are_the_devices), TEST(clocks_are_read_together),              \
    TEST(profiles_have_spans), TEST(caches_are_saved_and_given),
