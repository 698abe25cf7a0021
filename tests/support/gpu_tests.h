/* gpu_tests.h - what vulkan.c and cuda.c share: helpers, and tests of what both do,
   each in its own way. */
#pragma once

#include "util.h"

static hcq_device *open_cpu(void) {
    hcq_device_desc desc = test_desc();
    hcq_device *cpu = NULL;
    desc.test = NULL;
    CHECK_OK(hcq_open("CPU", &desc, &cpu));
    return cpu;
}

static int has_feature(hcq_device *device, uint32_t feature) {
    return (test_info(device).features & feature) != 0;
}

#define NEEDS_IMPORT() \
    SKIP_IF(!has_feature(T.dev, HCQ_FEATURE_IMPORT), "memory cannot be imported")
#define NEEDS_WIDE_COUNTERS() SKIP_IF(T.variant->narrow, "counters that are swapped hold work back")

static TEST_UNUSED uint64_t allocations(void) {
    return __atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST);
}

static hcq_device *device_with_slots(uint32_t slots) {
    return OPEN_WITH(0, .versions = slots);
}

/* Submits to one lane, behind a point and raising another, if they are given. */
static hcq_point submit_to(hcq_device *device, hcq_queue *queue, uint64_t lane,
                           const hcq_point *wait, const hcq_point *signal) {
    hcq_submission s = {.waits = wait, .wait_count = wait ? 1 : 0, .queues = &queue,
                        .queue_count = queue ? 1 : 0, .signals = signal,
                        .signal_count = signal ? 1 : 0, .affinity = lane};
    hcq_point done = {{0}, 0};
    CHECK_OK(hcq_submit(device, &s, 1, &done));
    return done;
}

static hcq_point submit_of(hcq_queue *queue, hcq_device *device) {
    return submit_to(device, queue, 0, NULL, NULL);
}

/* A grid of many blocks takes long where the device is a busy host. */
static void submit_and_wait(hcq_queue *queue, hcq_device *device) {
    hcq_point done = submit_of(queue, device);
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, 6 * BOUND));
}

/* Submits with numbers. */
static TEST_UNUSED hcq_point submit_values(hcq_queue *queue, hcq_device *device,
                                           const uint64_t *numbers, uint32_t count) {
    hcq_value list[HCQ_MAX_VALUES];
    hcq_point done = {{0}, 0};
    const hcq_value *values = values_of(list, numbers, count, NULL, 0);
    CHECK_OK(hcq_queue_submit_with(queue, device, values, count, 0, &done));
    return done;
}

/* A device at rest, with everything collected. */
static void settle(hcq_device *device) {
    CHECK_OK(hcq_device_synchronize(device, BOUND));
}

static hcq_result host_refuses(void *user) {
    (void)user;
    return HCQ_ERROR_INVALID;
}

/* ---- fills ---- */

enum { STRIP = 384, FILL_MOST = 300 };

/* All sizes with this offset: each into its own strip of a buffer. */
static void fills_with(hcq_device *device, uint32_t value_size, uint32_t offset, uint64_t value,
                       int bound) {
    static unsigned char model[STRIP * FILL_MOST];
    hcq_buffer dst;
    hcq_queue *q = make_queue(device, offset / value_size % 2 ? HCQ_COPY : HCQ_COMPUTE);
    memset(model, 0x5a, sizeof model);
    CHECK_OK(hcq_alloc(device, sizeof model, 0, &dst));
    CHECK_OK(hcq_copyin(dst, model, sizeof model));
    for (uint32_t size = value_size; size <= FILL_MOST; size += value_size) {
        uint32_t at = (size - 1) * STRIP + offset;
        CHECK(hcq_queue_fill(q, hcq_view(dst, at, size), size, value, value_size) >= 0);
        for (uint32_t i = 0; i < size; i++) {
            model[at + i] = (unsigned char)(value >> 8 * (i % value_size));
        }
    }
    CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
    submit_and_wait(q, device);
    CHECK_BYTES(dst, model, sizeof model);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(dst));
}

TEST(fills_of_all_kinds) {
    uint64_t random = T.seed;
    for (uint32_t value_size = 1; value_size <= 8; value_size *= 2) {
        for (uint32_t offset = 0; offset < 16; offset += value_size) {
            fills_with(T.dev, value_size, offset, test_random(&random), (int)(offset & 8));
        }
    }
    fills_with(T.dev, 8, 0, 0x1122334411223344ull, 0); /* halves alike */
    fills_with(T.dev, 8, 8, 0, 1);
}

/* ---- memory that two devices see ---- */

/* They take turns on the same words, by the points of their submissions. */
static void take_turns(hcq_device *one, hcq_device *two) {
    enum { WORDS = 32, ROUNDS = 100 };
    hcq_device *const devices[2] = {one, two};
    hcq_program *const mix[2] = {make_mix(one), make_mix(two)};
    hcq_buffer dst[2], src[2];
    uint32_t model[WORDS] = {0}, words[WORDS];
    hcq_point done = {{0}, 0};
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = i * 77;
    }
    CHECK_OK(hcq_alloc(one, sizeof model, HCQ_HOST_VISIBLE, &dst[0]));
    CHECK_OK(hcq_alloc(one, sizeof words, HCQ_HOST_VISIBLE, &src[0]));
    memcpy(dst[0].host, model, sizeof model);
    memcpy(src[0].host, words, sizeof words);
    CHECK_OK(hcq_import(two, dst[0].host, sizeof model, 0, &dst[1]));
    CHECK_OK(hcq_import(two, src[0].host, sizeof words, 0, &src[1]));
    for (uint32_t k = 0; k < ROUNDS; k++) {
        uint32_t side = k % 2;
        mix_args args = {dst[side].address, src[side].address, WORDS, k};
        hcq_queue *q = make_queue(devices[side], HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q, mix[side], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(WORDS, 1, 1)), 0);
        done = submit_to(devices[side], q, 0, k ? &done : NULL, NULL);
        hcq_queue_destroy(q);
        for (uint32_t i = 0; i < WORDS; i++) {
            model[i] = model[i] * 31u + words[i] + k;
        }
    }
    WAIT_OK(done);
    CHECK(memcmp(dst[0].host, model, sizeof model) == 0);
    for (uint32_t side = 2; side-- > 0;) {
        CHECK_OK(hcq_free(dst[side]));
        CHECK_OK(hcq_free(src[side]));
        hcq_program_destroy(mix[side]);
    }
}

TEST(devices_take_turns) {
    hcq_device *cpu = open_cpu();
    take_turns(T.dev, cpu);
    if (has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        take_turns(cpu, T.dev);
        take_turns(T.dev, dev2());
        take_turns(dev2(), T.dev);
    }
    CHECK_OK(hcq_close(cpu));
}

/* ---- imports ---- */

static void imports_are_gone(void);    /* of T.dev and dev2(): the backend's */

/* What lies beside the range stays as it is. */
static void import_range(unsigned char *memory, uint64_t all, uint64_t offset, uint64_t size) {
    unsigned char *want = (unsigned char *)malloc(all), *got = (unsigned char *)malloc(size);
    hcq_buffer buffer;
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    for (uint64_t i = 0; i < all; i++) {
        memory[i] = want[i] = (unsigned char)(i * 7 + size);
    }
    CHECK_OK(hcq_import(T.dev, memory + offset, size, 0, &buffer));
    CHECK(buffer.host == memory + offset && buffer.size == size);
    CHECK_OK(hcq_copyout(got, buffer, size));
    CHECK(memcmp(got, want + offset, size) == 0);
    CHECK_INDEX(hcq_queue_fill(q, buffer, size, 0x3c, 1), 0);
    submit_and_wait(q, T.dev);
    memset(want + offset, 0x3c, size);
    CHECK(memcmp(memory, want, all) == 0);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(buffer));
    free(want);
    free(got);
}

TEST(imports_of_any_range) {
    enum { ALL = 65536 };
    static const uint64_t ranges[][2] = {
        {0, ALL}, {1, 1}, {4095, 2}, {4096, 4096}, {5, 4096}, {4000, 200}, {4097, 30000},
        {ALL - 1, 1}, {3, ALL - 3}, {8191, 8193},
    };
    NEEDS_IMPORT();
    unsigned char *memory = (unsigned char *)malloc(ALL + 64) + 24; /* no page of its own */
    for (uint32_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        import_range(memory, ALL, ranges[i][0], ranges[i][1]);
    }
    imports_are_gone();
    free(memory - 24);
}

/* The host's memory as a buffer of each of two devices, of which a third one sees both: when one
   of them goes the other is still seen. */
TEST(imports_that_are_mapped_twice) {
    enum { WORDS = 16384 };
    NEEDS_IMPORT();
    hcq_device *owners[2] = {open_cpu(), open_cpu()};
    hcq_buffer src[2], dst = make_words(T.dev, WORDS);
    hcq_queue *q[2];
    for (uint32_t order = 0; order < 2; order++) {
        uint32_t *memory = (uint32_t *)calloc(WORDS, 4);
        for (uint32_t k = 0; k < 2; k++) {
            CHECK_OK(hcq_import(owners[k], memory, WORDS * 4, 0, &src[k]));
            q[k] = make_queue(T.dev, HCQ_COPY);
            CHECK_INDEX(hcq_queue_copy(q[k], dst, src[k], WORDS * 4), 0);
            CHECK_OK(hcq_queue_bind(q[k], T.dev));
            submit_and_wait(q[k], T.dev);
        }
        CHECK_OK(hcq_free(src[order]));
        CHECK_OK(hcq_trim(owners[order], 0));
        memory[WORDS - 1] = 9 + order;
        submit_and_wait(q[!order], T.dev);
        CHECK_U64(READ32(dst, WORDS - 1), 9 + order);
        hcq_queue_destroy(q[0]);
        hcq_queue_destroy(q[1]);
        CHECK_OK(hcq_free(src[!order]));
        CHECK_OK(hcq_trim(owners[!order], 0));
        free(memory);
    }
    CHECK_OK(hcq_close(owners[0]));
    CHECK_OK(hcq_close(owners[1]));
}

/* Ranges with pages in common, and the same one on both devices; freed in any order. */
TEST(imports_that_overlap) {
    NEEDS_IMPORT();
    hcq_program *add = make_add(T.dev), *add2 = make_add(dev2());
    for (uint32_t order = 0; order < 4; order++) {
        uint32_t *memory = (uint32_t *)calloc(4096, 4);
        hcq_buffer all[4];
        CHECK_OK(hcq_import(T.dev, memory, 1001 * 4, 0, &all[0]));
        CHECK_OK(hcq_import(T.dev, memory + 1001, 3000 * 4, 0, &all[1]));
        CHECK_OK(hcq_import(T.dev, memory + 4050, 40 * 4, 0, &all[2]));
        CHECK_OK(hcq_import(dev2(), memory, 4096 * 4, 0, &all[3]));
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *q2 = make_queue(dev2(), HCQ_COMPUTE);
        CHECK_INDEX(record_add(q, add, all[0], 1000, 5), 0);
        CHECK_INDEX(record_add(q, add, all[1], 0, 6), 1);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(all[1], 4, 8), hcq_view(all[0], 999 * 4, 8), 8), 2);
        CHECK_INDEX(record_add(q, add, all[1], 2999, 7), 3);
        CHECK_INDEX(record_add(q, add, all[2], 30, 1), 4);
        CHECK_INDEX(record_add(q2, add2, all[3], 1000, 2), 0);
        submit_and_wait(q, T.dev);
        submit_and_wait(q2, dev2());
        CHECK(memory[1000] == 7 && memory[1001] == 6 && memory[1002] == 0 && memory[1003] == 5);
        CHECK(memory[4000] == 7 && memory[4001] == 0 && memory[4080] == 1);
        for (uint32_t i = 0; i < 4; i++) {
            CHECK_OK(hcq_free(all[(i * 3 + order) % 4]));
        }
        hcq_queue_destroy(q);
        hcq_queue_destroy(q2);
        imports_are_gone();
        free(memory);
    }
}

/* ---- clocks ---- */

/* Both clocks go equally fast: within what two readings claim, and 300 millionths. */
TEST(clocks_keep_pace) {
    hcq_clock first = CLOCK_OF(T.dev);
    test_sleep_ms(50);
    hcq_clock second = CLOCK_OF(T.dev);
    int64_t host = (int64_t)(second.host_ns - first.host_ns);
    int64_t off = (int64_t)(second.device_ns - first.device_ns) - host;
    int64_t most = (int64_t)(first.error_ns + second.error_ns) + host * 3 / 10000;
    CHECK(off <= most && -off <= most);
}

/* ---- work of others ---- */

/* It counts as submitted: the device's timeline waits for it. `import_fn` gives the
   point of some work that does not end before `go_fn`. */
static void timeline_waits_for_others(hcq_device *dev,
                                      hcq_point (*import_fn)(hcq_device *dev, uint32_t way),
                                      void (*go_fn)(uint32_t way)) {
    hcq_buffer words = make_words(dev, 4);
    for (uint32_t way = 0; way < 2; way++) {
        (void)import_fn(dev, way);
        hcq_point all = hcq_at(hcq_device_timeline(dev), hcq_device_timeline_value(dev) - 1);
        hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
        CHECK_INDEX(way ? hcq_queue_wait_device(q, dev) : hcq_queue_wait(q, all), 0);
        CHECK_INDEX(record_word(q, hcq_view(words, 4 * way, 4), 6, 4), 1);
        hcq_point done = submit_of(q, dev);
        test_sleep_ms(3);
        CHECK_RESULT(test_poll(all), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        go_fn(way);
        WAIT_OK(done);
        WAIT_OK(all);
        CHECK_U64(READ32(words, way), 6);
        hcq_queue_destroy(q);
    }
}
