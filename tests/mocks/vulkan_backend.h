/* vulkan_backend.h - hcq on the mock Vulkan driver: what lavapipe cannot show.
   Part of vulkan_check.c. */
#ifndef HCQ_TEST_MOCK_VULKAN_BACKEND_H
#define HCQ_TEST_MOCK_VULKAN_BACKEND_H

/* What there is, of the hooks' memory and of Vulkan's objects. */
static uint64_t backend_things(void) {
    mock_vk_stats s = mock_vk_read();
    uint64_t things = __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST) + s.memory_bytes;
    for (uint32_t i = MOCK_VK_KIND_MESSENGER; i < MOCK_VK_KIND_COUNT; i++) {
        things += s.live[i];
    }
    return things;
}

static uint64_t things_before;         /* a test that failed may have left some */

static int backend_left(void) { return backend_things() != things_before; }

/* Makes the variant's driver the one that is found next. */
static void driver_is(const char *variant) {
    T.variant = test_find_variant(variant);
    mock_vk_options = *T.variant->driver;
    test_vk.devices = mock_vk_options.devices;
    mock_vk_clear();
    things_before = backend_things();
    log_clear();
}

static hcq_device *backend_open(uint32_t compute_lanes, uint32_t copy_lanes) {
    hcq_device_desc desc = test_desc();
    desc.compute_lanes = compute_lanes;
    desc.copy_lanes = copy_lanes;
    return test_open(0, &desc);
}

static void backend_close(hcq_device *device) {
    CHECK_OK(hcq_close(device));
    CHECK(!backend_left());
}

static void submit_and_wait(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    CHECK_OK(hcq_queue_submit(queue, device, &done));
    WAIT_OK(done);
}

/* ---- queues and lanes ---- */

/* Lanes spread over the queues that there are, copies on the family for them; with
   one queue all share it. */
static void lanes_have_queues(void **state) {
    hcq_vulkan_lane_info a, b, copy;
    (void)state;
    driver_is("vkmock");
    hcq_device *device = backend_open(2, 1);
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COMPUTE, 0, &a));
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COMPUTE, 1, &b));
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COPY, 0, &copy));
    CHECK(a.queue != b.queue && a.family == b.family && copy.family == 2);
    CHECK(a.shared == 1 && copy.shared == 1);
    backend_close(device);
    driver_is("vkmock-one");
    device = backend_open(2, 1);
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COMPUTE, 1, &a));
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COPY, 0, &b));
    CHECK(a.queue == b.queue && a.shared == 3);
    backend_close(device);
}

/* A bound queue is recorded once; a submit is one call of Vulkan's. */
static void replay_is_one_call(void **state) {
    (void)state;
    driver_is("vkmock");
    hcq_device *device = backend_open(1, 1);
    hcq_program *add = make_add(device);
    hcq_buffer words = make_words(device, 64);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    for (uint32_t i = 0; i < 20; i++) {
        CHECK_INDEX(record_add(q, add, words, i, 1), i);
    }
    CHECK_OK(hcq_queue_bind(q, device));
    submit_and_wait(q, device);
    uint64_t submits = mock_vk_calls("vkQueueSubmit*"), commands = mock_vk_calls("vkCmd*");
    uint64_t executed = mock_vk_read().dispatches;
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t value = i + 2;
        CHECK_OK(hcq_queue_update_arg(q, i, 1, &value, 4));
        submit_and_wait(q, device);
    }
    CHECK_U64(mock_vk_calls("vkQueueSubmit*") - submits, 10);
    CHECK_U64(mock_vk_calls("vkCmd*") - commands, 0);
    CHECK_U64(mock_vk_read().dispatches - executed, 200);
    CHECK_U64(READ32(words, 0), 1 + 10 * 2);
    CHECK_U64(READ32(words, 9), 1 + 9 + 11);
    backend_close(device);
}

/* ---- grids and bindings ---- */

typedef struct place_args { uint64_t seen; uint32_t n; } place_args;

static const uint32_t place_list[HCQ_MAX_ARGS] = {HCQ_ARG_INOUT, HCQ_ARG_U32};

static uint32_t place_of(hcq_dims grid, hcq_dims id) {
    return ((id.z * grid.y + id.y) * grid.x + id.x);
}

/* seen[place] += 1 + place, if each block is told its own place and the whole grid. */
static void k_place(const void *block_args, const hcq_block *b) {
    const place_args *k = HCQ_ARGS(place_args, block_args);
    uint32_t place = place_of(b->grid, b->id);
    if (place < k->n) {
        HCQ_PTR(uint32_t, k->seen)[place] += 1 + place;
    }
}

static void check_places(const char *file, int line, hcq_buffer seen, uint32_t n, uint32_t times) {
    uint32_t *want = (uint32_t *)malloc(n * sizeof *want);
    for (uint32_t i = 0; i < n; i++) {
        want[i] = times * (1 + i);
    }
    test_bytes(file, line, seen, want, n * sizeof *want);
    free(want);
}

/* The device has 8 groups in each dimension. */
static void grids_in_parts(void **state) {
    static const hcq_dims grids[] = {{8, 8, 8}, {9, 1, 1}, {20, 3, 17}, {1, 33, 1}, {2, 2, 9}};
    (void)state;
    driver_is("vkmock-low");
    hcq_device *device = backend_open(1, 1);
    hcq_program_desc desc = {"place", k_place, {0}, NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *place = NULL;
    memcpy(desc.args, place_list, sizeof desc.args);
    CHECK_OK(hcq_program_create(device, &desc, &place));
    hcq_buffer seen = make_words(device, 2048);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    place_args args = {seen.address, 2048};
    CHECK_INDEX(hcq_queue_fill(q, seen, 8192, 0, 4), 0);
    CHECK_INDEX(hcq_queue_exec(q, place, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    for (uint32_t bound = 0; bound < 2; bound++) {
        for (uint32_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
            CHECK_OK(hcq_queue_update_exec(q, 1, &grids[i], NULL));
            submit_and_wait(q, device);
            check_places(__FILE__, __LINE__, seen, grids[i].x * grids[i].y * grids[i].z, 1);
        }
        CHECK_OK(hcq_queue_bind(q, device));
    }
    for (uint32_t parts = 4095; parts <= 4097; parts++) { /* as many as there may be */
        hcq_queue *most = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(most, place, &args, sizeof args, hcq_dim(8 * parts, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        log_clear();
        CHECK_RESULT(hcq_queue_bind(most, device), parts <= 4096 ? HCQ_OK : HCQ_ERROR_LIMIT);
        CHECK(log_has("more than 4096 dispatches") == (parts > 4096));
        hcq_queue_destroy(most);
    }
    backend_close(device);
}

/* Each side of a block has its own limit. */
static void blocks_have_limits(void **state) {
    static const uint32_t most[3] = {16, 8, 4};
    (void)state;
    driver_is("vkmock-low");
    memcpy(mock_vk_options.max_group_size, most, sizeof most);
    hcq_device *device = backend_open(1, 1);
    hcq_program *add = make_add(device);
    hcq_buffer words = make_words(device, 4);
    add_args args = {words.address, 1, 1};
    for (uint32_t side = 0; side < 3; side++) {
        for (uint32_t more = 0; more < 2; more++) {
            uint32_t block[3] = {1, 1, 1};
            hcq_queue *q = make_queue(device, HCQ_COMPUTE);
            block[side] = most[side] + more;
            CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(1, 1, 1),
                                       hcq_dim(block[0], block[1], block[2])),
                        more ? HCQ_ERROR_INVALID : 0);
            hcq_queue_destroy(q);
        }
    }
    backend_close(device);
}

typedef struct bound_args { uint64_t dst, src; uint32_t n, factor, add; } bound_args;

/* dst[i] = dst[i] * factor + src[i] + add, as vk_push.comp and vk_uniform.comp have it */
static void k_bound(const void *block_args, const hcq_block *b) {
    const bound_args *k = HCQ_ARGS(bound_args, block_args);
    uint32_t *dst = HCQ_PTR(uint32_t, k->dst);
    const uint32_t *src = HCQ_PTR(const uint32_t, k->src);
    for (uint32_t t = 0; t < b->block.x; t++) {
        uint32_t i = b->id.x * b->block.x + t;
        if (i < k->n) {
            dst[i] = dst[i] * k->factor + src[i] + k->add;
        }
    }
}

static hcq_program *make_bound(hcq_device *device, int uniform) {
    hcq_program_desc desc = {
        "bound", k_bound,
        {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U32, HCQ_ARG_U32, HCQ_ARG_U32}, NULL, NULL,
        {uniform ? shader_vk_uniform : shader_vk_push,
         uniform ? sizeof shader_vk_uniform : sizeof shader_vk_push, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

enum { BOUND_WORDS = 200, BOUND_ROUNDS = 12 };

/* Buffers and values change from round to round while earlier ones run. */
static void bindings_rounds(hcq_device *device, hcq_program *program) {
    uint32_t model[3][BOUND_WORDS];
    hcq_buffer buffers[3];
    hcq_point done;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < BOUND_WORDS; k++) {
            model[i][k] = i * 1000 + k;
        }
        buffers[i] = make_words(device, BOUND_WORDS);
        CHECK_OK(hcq_copyin(buffers[i], model[i], sizeof model[i]));
    }
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    bound_args args = {buffers[0].address, buffers[1].address, BOUND_WORDS, 3, 0};
    CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(50, 1, 1),
                               hcq_dim(4, 1, 1)), 0);
    CHECK_OK(hcq_queue_bind(q, device));
    for (uint32_t round = 0; round < BOUND_ROUNDS; round++) {
        uint32_t dst = round % 3, src = (round + 1 + round / 3 % 2) % 3;
        CHECK_OK(hcq_queue_update_arg(q, 0, 0, &buffers[dst].address, 8));
        CHECK_OK(hcq_queue_update_arg(q, 0, 1, &buffers[src].address, 8));
        CHECK_OK(hcq_queue_update_arg(q, 0, 4, &round, 4));
        CHECK_OK(hcq_queue_submit(q, device, &done));
        for (uint32_t k = 0; k < BOUND_WORDS; k++) {
            model[dst][k] = model[dst][k] * 3 + model[src][k] + round;
        }
    }
    WAIT_OK(done);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_BYTES(buffers[i], model[i], sizeof model[i]);
    }
}

/* Updated after they were bound, pushed, or bound anew; on -low in parts, too. */
static void bindings(void **state) {
    static const char *const variants[] = {"vkmock", "vkmock-low", "vkmock-one", "vkmock-turns"};
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        driver_is(variants[i / 2]);
        hcq_device *device = backend_open(1, 1);
        bindings_rounds(device, make_bound(device, i & 1));
        backend_close(device);
    }
}

/* ---- memory ---- */

/* Many buffers take few blocks, and the heap's end is an error with numbers. */
static void memory_comes_in_blocks(void **state) {
    enum { MANY_BUFFERS = 3000 };
    static hcq_buffer small[MANY_BUFFERS];
    hcq_buffer large[32];
    uint32_t got = 0;
    (void)state;
    driver_is("vkmock");
    mock_vk_options.heap_bytes = 256u << 20;
    mock_vk_options.max_allocations = 40;
    hcq_device *device = backend_open(1, 1);
    for (uint32_t i = 0; i < MANY_BUFFERS; i++) {
        CHECK_OK(hcq_alloc(device, 64 + i, i & 1 ? HCQ_HOST_VISIBLE : 0, &small[i]));
    }
    CHECK(mock_vk_read().live[MOCK_VK_KIND_MEMORY] < 12);
    hcq_result result = HCQ_OK;
    while (got < 32 && result == HCQ_OK) {
        result = hcq_alloc(device, 16u << 20, 0, &large[got]);
        got += result == HCQ_OK;
    }
    CHECK_RESULT(result, HCQ_ERROR_OUT_OF_MEMORY);
    CHECK(got >= 12 && log_has("vkAllocateMemory"));
    CHECK_OK(hcq_free(large[0]));
    CHECK_OK(hcq_alloc(device, 16u << 20, 0, &large[0]));
    backend_close(device);
}

/* More than one allocation may have: refused, and nothing is spoilt. */
static void memory_has_a_largest_piece(void **state) {
    hcq_buffer buffer;
    (void)state;
    driver_is("vkmock");
    mock_vk_options.max_allocation = 64u << 20;
    hcq_device *device = backend_open(1, 1);
    CHECK_RESULT(hcq_alloc(device, (64u << 20) + 1, 0, &buffer), HCQ_ERROR_OUT_OF_MEMORY);
    CHECK_OK(hcq_alloc(device, 60u << 20, HCQ_ZEROED, &buffer));
    CHECK_U64(READ32(buffer, (60u << 18) - 1), 0);
    backend_close(device);
}

/* GPUs give the same addresses to each device. */
static void devices_with_the_same_addresses(void **state) {
    (void)state;
    driver_is("vkmock");
    mock_vk_options.flags |= MOCK_VK_SAME_ADDRESSES;
    T.dev = test_open(0, NULL);
    T.dev2 = test_open(1, NULL);
    hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev2, 64);
    hcq_program *add = make_add(T.dev), *add2 = make_add(T.dev2);
    CHECK_U64(a.address, b.address);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *q2 = make_queue(T.dev2, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, add, a, 3, 5), 0);
    CHECK_INDEX(record_add(q2, add2, b, 3, 7), 0);
    for (uint32_t i = 0; i < 3; i++) {
        submit_and_wait(q, T.dev);
        submit_and_wait(q2, T.dev2);
    }
    CHECK_U64(READ32(a, 3), 15);
    CHECK_U64(READ32(b, 3), 21);
    CHECK_OK(hcq_transfer(hcq_transfer_device(a), hcq_transfer_device(b), 256, 0, BOUND));
    CHECK_U64(READ32(a, 3), 21);
    CHECK_OK(hcq_close(T.dev2));
    backend_close(T.dev);
    T.dev = T.dev2 = NULL;
}

/* ---- time ---- */

/* A clock of 32 bits begins at 0 again while stamps are taken. */
static void clock_begins_again(void **state) {
    (void)state;
    for (uint32_t copy = 0; copy < 2; copy++) {
        driver_is("vkmock");
        uint64_t wrap = (uint64_t)10 << 32, now = hcq_sys_now_ns(); /* 10 ns, 32 bits */
        uint64_t left = wrap - now % wrap;
        mock_vk_options.clock_drift_ppm = 0;
        mock_vk_options.clock_offset_ns = (int64_t)left - 300000000; /* in 0.3 s */
        hcq_device *device = backend_open(1, 1);
        hcq_signal s = make_signal(device, 0);
        hcq_queue *q = make_queue(device, copy ? HCQ_COPY : HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
        uint64_t last = 0, end = hcq_sys_now_ns() + 600000000;
        while (hcq_sys_now_ns() < end) {
            uint64_t stamp = 0, before = hcq_sys_now_ns();
            hcq_clock clock;
            submit_and_wait(q, device);
            uint64_t after = hcq_sys_now_ns();
            CHECK_OK(hcq_signal_timestamp(s, &stamp));
            CHECK_OK(hcq_device_clock(device, &clock));
            uint64_t host = hcq_clock_to_host(&clock, stamp);
            CHECK(stamp > last);
            CHECK(host + clock.error_ns + 1000 >= before);
            CHECK(host <= after + clock.error_ns + 1000);
            last = stamp;
            test_sleep_ms(20);
        }
        backend_close(device);
    }
}

/* ---- a second run finds its pipelines ---- */

static void cache_is_of_use(void **state) {
    static unsigned char data[4096];
    size_t size = sizeof data;
    (void)state;
    driver_is("vkmock");
    for (uint32_t run = 0; run < 2; run++) {
        hcq_device_desc desc = test_desc();
        test_vulkan_desc.cache = run ? data : NULL;
        test_vulkan_desc.cache_size = run ? size : 0;
        hcq_device *device = test_open(0, &desc);
        hcq_program *add = make_add(device);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(record_add(q, add, make_words(device, 4), 0, 1), 0);
        submit_and_wait(q, device);
        CHECK_U64(mock_vk_read().cache_hits, run);
        size = sizeof data;
        CHECK_OK(hcq_vulkan_cache(device, data, &size));
        backend_close(device);
    }
}

/* ---- refusals and loss ---- */

/* What Vulkan refuses, also when it is asked again, fails, with what waits for it;
   the lane goes on. */
static void refused_submits(void **state) {
    (void)state;
    for (uint64_t k = 1; k <= 6; k++) {
        driver_is(k & 1 ? "vkmock" : "vkmock-low");
        hcq_device *device = backend_open(1, 1);
        hcq_signal gate = make_signal(device, 0), s = make_signal(device, 0);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE), *copy = make_queue(device, HCQ_COPY);
        hcq_buffer words = make_words(device, 4);
        hcq_point done, behind, next;
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
        CHECK_INDEX(hcq_queue_fill(q, words, 8, 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
        CHECK_INDEX(hcq_queue_timestamp(q, s), 3);
        CHECK_INDEX(hcq_queue_fill(q, words, 8, 2, 4), 4);
        CHECK_INDEX(hcq_queue_wait(copy, hcq_at(s, 1)), 0);
        CHECK_INDEX(hcq_queue_timestamp(copy, s), 1);
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(hcq_queue_submit(q, device, &done));
        CHECK_OK(hcq_queue_submit(copy, device, &behind));
        mock_vk_fail("vkQueueSubmit*", (k + 1) / 2, k < 3 ? 2 : 1,
                     VK_ERROR_OUT_OF_DEVICE_MEMORY);
        CHECK_OK(hcq_signal_set(gate, 1)); /* hands over what was held */
        hcq_result first = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        hcq_result second = hcq_wait(&behind, 1, HCQ_ALL, BOUND);
        int failed = first < 0 || second < 0;
        CHECK(!failed || mock_vk_read().failed != 0);
        CHECK(failed || k > 2);
        CHECK(first != HCQ_TIMEOUT && second != HCQ_TIMEOUT);
        CHECK(test_poll(hcq_at(s, 1)) == HCQ_OK || second < 0);
        hcq_error_info error;
        CHECK_OK(hcq_device_error(device, &error));
        CHECK(failed == (error.result < 0));
        mock_vk_clear();
        CHECK(first == HCQ_OK || READ32(words, 0) != 2); /* ended where it failed */
        CHECK_OK(submit_lists(device, NULL, NULL, 0, &next));
        WAIT_OK(next);
        CHECK_OK(hcq_queue_reset(q));
        CHECK_INDEX(hcq_queue_fill(q, words, 16, 7, 4), 0);
        submit_and_wait(q, device);
        CHECK_U64(READ32(words, 1), 7);
        backend_close(device);
    }
}

/* Everything of a lost device ends, and whatever waits for it on another one. */
static void lost_devices(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        driver_is(way & 2 ? "vkmock-turns" : "vkmock");
        hcq_device *device = backend_open(1, 1), *other = test_open(1, NULL);
        hcq_signal s = make_signal(device, 0), never = make_signal(device, 0);
        hcq_point raise = hcq_at(s, 1), wait = hcq_at(never, 1), held, foreign, done = {{0}, 0};
        hcq_buffer words = make_words(device, 64);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_fill(q, words, 256, 1, 4), 0);
        CHECK_INDEX(hcq_queue_timestamp(q, s), 1);
        CHECK_INDEX(hcq_queue_signal(q, raise), 2);
        CHECK_OK(submit_lists(device, &wait, NULL, HCQ_UNORDERED, &held));
        CHECK_OK(submit_lists(other, &raise, NULL, 0, &foreign));
        if (way & 1) {
            mock_vk_lose(1);
        } else {
            mock_vk_fail("vkQueueSubmit*", 1, 1, VK_ERROR_DEVICE_LOST);
        }
        hcq_result result = hcq_queue_submit(q, device, &done);
        if (result == HCQ_OK) {
            WAIT_RESULT(done, HCQ_ERROR_LOST);
        }
        WAIT_RESULT(raise, HCQ_ERROR_LOST);
        WAIT_RESULT(foreign, HCQ_ERROR_LOST);
        WAIT_RESULT(held, HCQ_ERROR_LOST);
        CHECK_RESULT(submit_lists(device, NULL, NULL, 0, NULL), HCQ_ERROR_LOST);
        CHECK_RESULT(hcq_device_synchronize(device, BOUND), HCQ_ERROR_LOST);
        hcq_error_info error;
        CHECK_OK(hcq_device_error(device, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_LOST);
        CHECK(strncmp(error.native, "vk", 2) == 0);
        CHECK(error.native_code == VK_ERROR_DEVICE_LOST);
        (void)hcq_close(device);
        CHECK_OK(submit_lists(other, NULL, NULL, 0, &done)); /* it lives */
        WAIT_OK(done);
        backend_close(other);
    }
}

/* ---- each call fails, each command buffer loses the device ---- */

enum { STEPS_TEXT = 4096 };

/* What went wrong in a child; in words for the parent. */
static struct {
    int bad;
    char text[STEPS_TEXT];
    size_t used;
} steps;

static int took_step(const char *what, int result) {
    if (result == HCQ_TIMEOUT) {
        steps.bad = 1;                 /* nobody may wait for what cannot happen */
    }
    if ((result < 0 || result == HCQ_TIMEOUT) && steps.used < sizeof steps.text) {
        int n = snprintf(steps.text + steps.used, sizeof steps.text - steps.used, "   %s: %s\n",
                         what, hcq_result_name((hcq_result)result));
        steps.used += n > 0 ? (size_t)n : 0;
    }
    return result >= 0 && result != HCQ_TIMEOUT;
}
#define TAKE(call) took_step(#call, (int)(call))

typedef struct stage {
    hcq_device *device;
    hcq_program *add, *bound;
    hcq_buffer a, b, large;
    hcq_signal s;
    hcq_queue *q, *copy, *graph, *binds;
} stage;

static hcq_result host_ok(void *user) {
    (void)user;
    return HCQ_OK;
}

static int run_step(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    return TAKE(hcq_queue_submit(queue, device, &done)) &&
           TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
}

static int stage_open(stage *g) {
    static const uint32_t words[1024] = {1, 2, 3};
    hcq_program_desc add = {"add", k_add, {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32}, NULL, NULL,
                            {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program_desc bound = {
        "bound", k_bound,
        {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U32, HCQ_ARG_U32, HCQ_ARG_U32}, NULL, NULL,
        {shader_vk_push, sizeof shader_vk_push, NULL}, {NULL, 0, NULL}, 0};
    hcq_device_desc desc = test_desc();
    desc.timeout_ns = 3 * SECOND;
    desc.explain_ns = HCQ_KEEP;
    memset(g, 0, sizeof *g);
    return TAKE(hcq_open("VULKAN", &desc, &g->device)) &&
           TAKE(hcq_program_create(g->device, &add, &g->add)) &&
           TAKE(hcq_program_create(g->device, &bound, &g->bound)) &&
           TAKE(hcq_alloc(g->device, 4096, HCQ_ZEROED, &g->a)) &&
           TAKE(hcq_alloc(g->device, 4096, HCQ_HOST_VISIBLE, &g->b)) &&
           TAKE(hcq_alloc(g->device, 20u << 20, 0, &g->large)) &&
           TAKE(hcq_copyin(g->a, words, sizeof words)) &&
           TAKE(hcq_signal_create(g->device, 0, &g->s)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &g->q)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COPY, &g->copy)) &&
           TAKE(hcq_queue_create(g->device, HCQ_GRAPH, &g->graph)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &g->binds));
}

static void stage_record(const stage *g) {
    add_args args = {g->a.address, 1, 4};
    bound_args bind = {g->a.address, g->b.address, 64, 3, 4};
    (void)hcq_queue_exec(g->q, g->add, &args, sizeof args, hcq_dim(4, 1, 1), hcq_dim(4, 1, 1));
    (void)hcq_queue_copy(g->q, g->b, g->a, 4096);
    (void)hcq_queue_fill(g->q, g->a, 64, 7, 1);
    (void)hcq_queue_timestamp(g->q, g->s);
    (void)hcq_queue_signal(g->q, hcq_at(g->s, 1));
    (void)hcq_queue_host(g->q, host_ok, NULL);
    (void)hcq_queue_write(g->q, g->b, 5, 8);
    (void)hcq_queue_exec(g->q, g->add, &args, sizeof args, hcq_dim(20, 1, 1), hcq_dim(8, 1, 1));
    (void)hcq_queue_wait(g->copy, hcq_at(g->s, 1));
    (void)hcq_queue_copy(g->copy, hcq_view(g->b, 0, 64), hcq_view(g->a, 64, 64), 64);
    (void)hcq_queue_timestamp(g->copy, g->s);
    (void)hcq_queue_exec(g->graph, g->add, &args, sizeof args, hcq_dim(4, 1, 1), hcq_dim(4, 1, 1));
    (void)hcq_queue_copy(g->graph, g->b, g->a, 4096);
    (void)hcq_queue_exec(g->binds, g->bound, &bind, sizeof bind, hcq_dim(20, 1, 1),
                         hcq_dim(4, 1, 1));
}

/* Bound, profiled, with other grids and blocks each time. */
static void stage_replay(const stage *g) {
    TAKE(hcq_queue_update_signal(g->q, 4, NULL, 2));
    TAKE(hcq_queue_bind(g->q, g->device));
    TAKE(hcq_profile_start(g->device, NULL));
    for (uint32_t i = 2; i < 5; i++) {
        hcq_dims grid = {i, 1, 1}, block = {2 + i, 1, 1};
        TAKE(hcq_queue_update_exec(g->q, 0, &grid, i == 3 ? &block : NULL));
        TAKE(hcq_queue_update_signal(g->q, 4, NULL, i));
        (void)run_step(g->q, g->device);
    }
    TAKE(hcq_profile_stop(g->device));
    TAKE(hcq_queue_bind(g->binds, g->device));
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t to = g->a.address + (i & 1) * 512;
        TAKE(hcq_queue_update_arg(g->binds, 0, 0, &to, 8));
        (void)run_step(g->binds, g->device);
    }
}

static void stage_eager(const stage *g) {
    static unsigned char words[4096];
    const uint64_t values[2] = {1, 4};
    double seconds;
    hcq_clock clock;
    size_t size = 0;
    TAKE(hcq_copyout(words, g->b, sizeof words));
    TAKE(hcq_program_call(g->add, &g->a, 1, values, 2, NULL, NULL, &seconds));
    TAKE(hcq_device_clock(g->device, &clock));
    TAKE(hcq_vulkan_cache(g->device, NULL, &size));
}

static void stage_import(const stage *g) {
    static unsigned char *pages;
    void *made = NULL;
    hcq_buffer in;
    if (!pages && posix_memalign(&made, 65536, 65536) == 0) {
        pages = (unsigned char *)made; /* may outlive the device, which may be lost */
    }
    if (hcq_import(g->device, pages, 65536, &in) == HCQ_OK) {
        TAKE(hcq_transfer(hcq_transfer_device(in), hcq_transfer_device(g->a), 4096, 0,
                          3 * SECOND));
        TAKE(hcq_free(in));
    }
    TAKE(hcq_device_synchronize(g->device, 3 * SECOND));
}

/* A bit of everything; whatever fails, closing gives all back. */
static void stage_play(void) {
    stage g;
    if (stage_open(&g)) {
        stage_record(&g);
        if (run_step(g.q, g.device)) { /* else nobody raises what it waits for */
            (void)run_step(g.copy, g.device);
        }
        stage_replay(&g);
        stage_eager(&g);
        (void)run_step(g.graph, g.device);
        stage_import(&g);
    }
    if (g.device && hcq_close(g.device) != HCQ_OK) {
        steps.bad = 1;
    }
    steps.bad |= backend_left();
}

/* One way to fail: a result from the n-th call of an entry point, or, without a
   name, the n-th command buffer losing the device. */
typedef struct mishap {
    const char *variant, *name;
    uint64_t n;
    VkResult result;
    uint32_t flags;                    /* of the driver, besides */
} mishap;

enum { MISHAP_NONE = 1, MISHAP_BAD = 2 };

static int mishap_child(const mishap *m) {
    driver_is(m->variant);
    mock_vk_options.flags |= m->flags;
    if (m->name) {
        mock_vk_fail(m->name, m->n, 1, m->result);
    } else {
        mock_vk_lose(m->n);
    }
    stage_play();
    mock_vk_stats s = mock_vk_read();
    if (steps.bad) {
        fprintf(stderr, "%s, log:\n%s", steps.text, T.log.text);
        return MISHAP_BAD;
    }
    return (m->name ? s.failed != 0 : s.buffers >= m->n) ? 0 : MISHAP_NONE;
}

/* 0: it came to nothing, the scenario has fewer calls. */
static int mishap_run(const mishap *m) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        alarm(60);
        _exit(mishap_child(m));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == MISHAP_NONE) {
        return 0;
    }
    if (status != 0) {
        fprintf(stderr, "%s: %s, the %lluth, gives %d: status %#x\n", m->variant,
                m->name ? m->name : "a command buffer", (unsigned long long)m->n, (int)m->result,
                status);
        fail();
    }
    return 1;
}

static void mishaps(const char *variant, const char *name, VkResult result, uint32_t flags) {
    uint64_t most = T.rounds ? T.rounds : T.quick ? 3 : 30;
    mishap m = {variant, name, 1, result, flags};
    while (m.n <= most && mishap_run(&m)) {
        m.n++;
    }
}

static const char *const mishap_variants[] = {"vkmock", "vkmock-low", "vkmock-one",
                                              "vkmock-turns"};

static uint32_t mishap_variant_count(void) { return T.quick ? 2 : 4; }

static void every_call_fails(void **state) {
    static const char *const names[] = {
        "vkEnumerateInstanceVersion", "vkEnumerateInstanceExtensionProperties",
        "vkCreateInstance", "vkEnumeratePhysicalDevices",
        "vkEnumerateDeviceExtensionProperties", "vkCreateDevice",
        "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT", "vkQueueSubmit*", "vkDeviceWaitIdle",
        "vkCreateSemaphore", "vkGetSemaphoreCounterValue", "vkWaitSemaphores",
        "vkAllocateMemory", "vkMapMemory", "vkCreateBuffer", "vkBindBufferMemory",
        "vkGetMemoryHostPointerPropertiesEXT", "vkCreateCommandPool",
        "vkAllocateCommandBuffers", "vkBeginCommandBuffer", "vkEndCommandBuffer",
        "vkCreateQueryPool", "vkGetQueryPoolResults", "vkCreateShaderModule",
        "vkCreatePipelineLayout", "vkCreateDescriptorSetLayout", "vkCreateDescriptorPool",
        "vkAllocateDescriptorSets", "vkCreateComputePipelines", "vkCreatePipelineCache",
        "vkGetPipelineCacheData", "vkGetCalibratedTimestampsEXT",
        "vkSetDebugUtilsObjectNameEXT"
    };
    (void)state;
    for (uint32_t v = 0; v < mishap_variant_count(); v++) {
        for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            mishaps(mishap_variants[v], names[i], VK_ERROR_OUT_OF_HOST_MEMORY, 0);
        }
    }
}

static void every_loss(void **state) {
    static const char *const names[] = {
        "vkQueueSubmit*", "vkWaitSemaphores", "vkGetSemaphoreCounterValue",
        "vkGetQueryPoolResults", "vkDeviceWaitIdle", NULL
    };
    (void)state;
    for (uint32_t v = 0; v < mishap_variant_count(); v++) {
        for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            mishaps(mishap_variants[v], names[i], VK_ERROR_DEVICE_LOST, 0);
        }
        mishaps(mishap_variants[v], NULL, VK_ERROR_DEVICE_LOST, MOCK_VK_LOST_JUMP);
    }
}

/* ---- an engine's device ---- */

typedef struct lent_locks {
    uint32_t held;                     /* atomic */
    uint32_t uses;
} lent_locks;

static void lent_lock(void *user, VkQueue queue, int locked) {
    lent_locks *locks = (lent_locks *)user;
    (void)queue;
    if (locked) {
        __atomic_add_fetch(&locks->uses, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_add_fetch(&locks->held, locked ? 1u : (uint32_t)-1, __ATOMIC_SEQ_CST);
}

/* hcq computes on two queues of an engine's, which reads the result on a third, of
   another family, and hcq goes on once it has. */
static void engine_lends_its_device(void **state) {
    static const char *const extensions[] = {"VK_KHR_synchronization2"};
    VkPhysicalDeviceSynchronization2Features sync2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
        .synchronization2 = VK_TRUE};
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &sync2,
        .timelineSemaphore = VK_TRUE, .bufferDeviceAddress = VK_TRUE,
        .hostQueryReset = VK_TRUE};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &v12};
    lent_locks locks = {0, 0};
    rig r;
    (void)state;
    driver_is("vkmock");
    rig_open(&r);
    const hcq_vulkan_queue queues[2] = {{r.queues[1][0], 1}, {r.queues[2][0], 2}};
    hcq_device_desc desc = test_desc();
    test_vulkan_desc.instance = r.instance;
    test_vulkan_desc.physical_device = r.physical;
    test_vulkan_desc.device = r.device;
    test_vulkan_desc.loader = mock_vk_loader;
    test_vulkan_desc.queues = queues;
    test_vulkan_desc.queue_count = 2;
    test_vulkan_desc.extensions = extensions;
    test_vulkan_desc.extension_count = 1;
    test_vulkan_desc.features = &features;
    test_vulkan_desc.lock_fn = lent_lock;
    test_vulkan_desc.lock_user = &locks;
    hcq_device *device = test_open(0, &desc);
    hcq_buffer words = make_words(device, 64);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point done, engine;
    VkBuffer buffer;
    VkBufferCopy region = {0, 512, 64};
    VkSemaphore semaphore;
    uint64_t value;
    CHECK_INDEX(record_add(q, make_add(device), words, 2, 9), 0);
    CHECK_OK(hcq_queue_submit(q, device, &done));
    CHECK_OK(hcq_vulkan_point(device, done, &semaphore, &value));
    CHECK_OK(hcq_vulkan_buffer(words, &buffer, &region.srcOffset));
    VkCommandBuffer c = rig_begin(&r, 0, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    r.vk.CmdCopyBuffer(c, buffer, r.buffer, 1, &region);
    assert_int_equal(r.vk.EndCommandBuffer(c), VK_SUCCESS);
    assert_int_equal(rig_submit(&r, r.queues[0][0], c, semaphore, value, r.a, 5), VK_SUCCESS);
    CHECK_OK(hcq_vulkan_import_point(device, r.a, 5, &engine));
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_wait(q, engine), 0);
    CHECK_INDEX(hcq_queue_fill(q, words, 256, 1, 4), 1);
    submit_and_wait(q, device);
    CHECK_U64(rig_word(&r, 512 + 8), 9);
    CHECK_U64(READ32(words, 2), 1);
    CHECK(locks.held == 0 && locks.uses != 0);
    CHECK_OK(hcq_close(device));
    rig_close(&r);
    CHECK(!backend_left());
}

/* ---- drivers that are no device for hcq ---- */

static void unfit_drivers(void **state) {
    static const struct {
        uint32_t without, api, devices;
    } cases[] = {
        {MOCK_VK_NO_TIMELINE, VK_API_VERSION_1_2, 1},
        {MOCK_VK_NO_ADDRESSES, VK_API_VERSION_1_3, 2},
        {0, VK_API_VERSION_1_1, 1},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hcq_device *device = NULL;
        driver_is("vkmock");
        mock_vk_options.without = cases[i].without;
        mock_vk_options.api_version = cases[i].api;
        mock_vk_options.devices = cases[i].devices;
        hcq_device_desc desc = test_desc();
        CHECK_RESULT(hcq_open("VULKAN", &desc, &device), HCQ_ERROR_NO_DEVICE);
        CHECK(!backend_left());
    }
}

#define BACKEND_TESTS \
    cmocka_unit_test(lanes_have_queues), cmocka_unit_test(replay_is_one_call), \
    cmocka_unit_test(grids_in_parts), cmocka_unit_test(blocks_have_limits), \
    cmocka_unit_test(bindings), \
    cmocka_unit_test(memory_comes_in_blocks), cmocka_unit_test(memory_has_a_largest_piece), \
    cmocka_unit_test(devices_with_the_same_addresses), cmocka_unit_test(clock_begins_again), \
    cmocka_unit_test(cache_is_of_use), cmocka_unit_test(unfit_drivers), \
    cmocka_unit_test(refused_submits), cmocka_unit_test(lost_devices), \
    cmocka_unit_test(engine_lends_its_device), \
    cmocka_unit_test(every_call_fails), cmocka_unit_test(every_loss)

#endif /* HCQ_TEST_MOCK_VULKAN_BACKEND_H */
