/* vulkan_backend.h - hcq on the mock Vulkan driver: queues, limits, memory, time. */
#pragma once

#include "vulkan_rig.h"

/* What there is, of the hooks' memory and of Vulkan's objects. */
static uint64_t backend_things(void) {
    uint64_t things = __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < MOCK_VK_KIND_COUNT; i++) {
        things += mock_vk_peek(&mock_vk_counters.live[i]);
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

static hcq_device *backend_open(uint32_t compute_lanes) {
    return OPEN_WITH(0, .compute_lanes = compute_lanes);
}

static hcq_device *driver_open(const char *variant) {
    driver_is(variant);
    return backend_open(1);
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
TEST_BARE(lanes_have_queues) {
    hcq_vulkan_lane_info a, b, copy;
    driver_is("vkmock");
    hcq_device *device = backend_open(2);
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COMPUTE, 0, &a));
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COMPUTE, 1, &b));
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COPY, 0, &copy));
    CHECK(a.queue != b.queue && a.family == b.family && copy.family == 2);
    CHECK(a.shared == 1 && copy.shared == 1);
    CHECK(a.index == 0 && b.index == 1 && copy.index == 0);
    CHECK(a.timestamp_bits == 32 && copy.timestamp_bits == 32); /* of {32, 32, 36}: as in all */
    uint32_t with = test_info(device).features;
    CHECK_OK(hcq_close(device));
    hcq_device_desc desc = test_desc();
    test_forced.no_copy_lane = 1;
    device = test_open(0, &desc);
    CHECK_U64(test_info(device).features, with & ~(uint32_t)HCQ_FEATURE_COPY_LANE);
    backend_close(device);
    driver_is("vkmock-one");
    device = backend_open(2);
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COMPUTE, 1, &a));
    CHECK_OK(hcq_vulkan_lane(device, HCQ_COPY, 0, &b));
    CHECK(a.queue == b.queue && a.shared == 3 && a.timestamp_bits == 0);
    backend_close(device);
}

/* Of instance and device the lower; hcq's own instance asks for 1.3. The others are no device for
   hcq. */
TEST_BARE(drivers_and_their_versions) {
    static const struct { uint32_t loader, device, used, without; } cases[] = {
        {VK_API_VERSION_1_2, VK_API_VERSION_1_3, VK_API_VERSION_1_2, 0},
        {VK_API_VERSION_1_3, VK_API_VERSION_1_2, VK_API_VERSION_1_2, 0},
        {VK_MAKE_API_VERSION(0, 1, 4, 0), VK_MAKE_API_VERSION(0, 1, 4, 0), VK_API_VERSION_1_3, 0},
        {VK_API_VERSION_1_1, VK_API_VERSION_1_1, 0, 0},
        {VK_API_VERSION_1_2, VK_API_VERSION_1_2, 0, MOCK_VK_NO_TIMELINE},
        {VK_API_VERSION_1_3, VK_API_VERSION_1_3, 0, MOCK_VK_NO_ADDRESSES},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hcq_vulkan_info info;
        hcq_device *device = NULL;
        driver_is("vkmock");
        mock_vk_options.loader_version = cases[i].loader;
        mock_vk_options.api_version = cases[i].device;
        mock_vk_options.without = cases[i].without;
        const hcq_device_desc desc = test_desc();
        CHECK_RESULT(hcq_open("VULKAN", &desc, &device),
                     cases[i].used ? HCQ_OK : HCQ_ERROR_NO_DEVICE);
        if (cases[i].used) {
            CHECK_OK(hcq_vulkan_info_get(device, &info));
            CHECK(info.instance && info.physical_device && info.device && info.loader);
            CHECK(info.api_version == cases[i].used && info.driver[0]);
        }
        backend_close(device);
    }
}

/* What an engine may do with a buffer; what lies between its cuts is handed over at once. */
TEST_BARE(buffers_and_batches) {
    VkBuffer handle, part;
    VkDeviceSize offset, part_offset;
    hcq_device *device = driver_open("vkmock");
    hcq_buffer words = make_words(device, 4);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_signal s = make_signal(device, 0);
    CHECK_OK(hcq_vulkan_buffer(words, &handle, &offset));
    CHECK_OK(hcq_vulkan_buffer(hcq_view(words, 4, 8), &part, &part_offset));
    CHECK(part == handle && part_offset == offset + 4);
    CHECK_U64(((const mock_vk_buffer *)(uintptr_t)handle)->usage,
              VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
              VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
              VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_VERTEX_BUFFER_BIT |
              VK_BUFFER_USAGE_INDEX_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_INDEX(hcq_queue_fill(q, words, 16, i, 4), 2 * i);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, i + 1)), 2 * i + 1);
    }
    for (uint32_t i = 0; i < 3; i++) { /* singly where there is no memory for all; then as before */
        const uint64_t batches = test_query(device, HCQ_VULKAN_QUERY_BATCHES);
        const uint64_t submits = test_query(device, HCQ_VULKAN_QUERY_SUBMITS);
        if (i == 1) { mock_vk_fail("vkQueueSubmit*", 1, 1, VK_ERROR_OUT_OF_DEVICE_MEMORY); }
        for (uint32_t k = 0; k < 3; k++) {
            CHECK_OK(hcq_queue_update_signal(q, (int32_t)(2 * k + 1), NULL, 3 * i + k + 1));
        }
        submit_and_wait(q, device);
        CHECK_U64(test_query(device, HCQ_VULKAN_QUERY_BATCHES) - batches, 3);
        CHECK_U64(test_query(device, HCQ_VULKAN_QUERY_SUBMITS) - submits, i == 1 ? 4 : 1);
    }
    backend_close(device);
}

/* ---- grids and blocks: vkmock-low has 8 groups in each dimension ---- */

/* As many parts as there may be of a grid. */
TEST_BARE(grids_in_parts) {
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t parts = 4095 + i;
        driver_is("vkmock-low");
        mock_vk_options.max_push_constants = 28; /* which the base ends */
        hcq_device *device = backend_open(1);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_buffer words = make_words(device, 8 * parts);
        add_args args = {words.address, 1, 8 * parts};
        CHECK_INDEX(hcq_queue_exec(q, make_add(device), &args, sizeof args,
                                   hcq_dim(8 * parts, 1, 1), dims_one), 0);
        CHECK_RESULT(hcq_queue_bind(q, device), i == 2 ? HCQ_ERROR_LIMIT : HCQ_OK);
        CHECK(log_has("more than 4096 dispatches") == (i == 2));
        if (i < 2) {
            submit_and_wait(q, device);
            CHECK_U64(mock_vk_peek(&mock_vk_counters.dispatches), parts);
            CHECK_U64(READ32(words, 8 * parts - 1), 1);
            CHECK_U64(READ32(words, 8 * parts - 9), 1);
        }
        backend_close(device);
    }
}

/* What a shader lacks for them is said with the numbers; smaller ones then run. */
TEST_BARE(grids_without_a_base) {
    static const struct {
        const char *shader;
        uint32_t args[3];
        hcq_dims block;
        const char *text;
    } cases[] = {
        {"vk_fixed", {HCQ_ARG_INOUT, HCQ_ARG_U32}, {8, 4, 2}, "a uvec3 at byte 16"},
        {"vk_length", {HCQ_ARG_INOUT, HCQ_ARG_IN}, {1, 1, 1}, "a uvec3 at byte 0"},
    };
    for (uint32_t i = 0; i < 2; i++) {
        const hcq_dims nine = {1, 9, 1}, eight = {1, 8, 1};
        hcq_device *device = driver_open("vkmock-low");
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        const uint64_t args[2] = {make_words(device, 4).address, make_words(device, 4).address};
        hcq_program *program = make_kernel(device, shader_desc(cases[i].shader, cases[i].args));
        CHECK_INDEX(hcq_queue_exec(q, program, args, sizeof args, nine, cases[i].block), 0);
        CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
        log_clear();
        CHECK_RESULT(hcq_queue_bind(q, device), HCQ_ERROR_LIMIT);
        CHECK(log_has("a grid of 1x9x1") && log_has("8x8x8") && log_has("take its base"));
        CHECK(log_has(cases[i].text));
        CHECK_OK(hcq_queue_update_exec(q, 0, &eight, NULL));
        CHECK_OK(hcq_queue_bind(q, device));
        CHECK_OK(hcq_queue_update_exec(q, 0, &nine, NULL));
        CHECK_RESULT(hcq_queue_submit(q, device, NULL), HCQ_ERROR_LIMIT);
        CHECK_OK(hcq_queue_update_exec(q, 0, &eight, NULL));
        submit_and_wait(q, device);
        CHECK_U64(mock_vk_peek(&mock_vk_counters.dispatches), 1);
        backend_close(device);
    }
}

/* Updated before it is bound, afterwards, or brought by each run; beside a neighbour that stays.
   No indirect dispatch may go beyond the limit. */
TEST_BARE(grids_change_across_the_limit) {
    static const uint64_t sizes[] = {3, 5, 8, 9, 2, 64, 0, 8};
    enum { WORDS = 64, SIZES = sizeof sizes / sizeof sizes[0], BEFORE = 0, BOUND_ONE, VARIABLE };
    for (uint32_t way = BEFORE; way <= VARIABLE; way++) {
        uint32_t model[WORDS] = {0};
        hcq_device *device = driver_open("vkmock-low");
        hcq_buffer words = make_words(device, WORDS), beside = make_words(device, 9);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_program *add = make_add(device);
        const add_args args = {words.address, 1, WORDS}, other = {beside.address, 1, 9};
        const hcq_dims nine = {9, 1, 1};
        CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, dims_one, dims_one), 0);
        CHECK_INDEX(hcq_queue_exec(q, add, &other, sizeof other, nine, dims_one), 1);
        CHECK_OK(way == VARIABLE ? hcq_queue_variable(q, 0, HCQ_PART_GRID_X, 0, WORDS) : HCQ_OK);
        CHECK_OK(way != BEFORE ? hcq_queue_bind(q, device) : HCQ_OK);
        for (uint32_t i = 0; i < SIZES; i++) {
            const hcq_dims grid = {(uint32_t)sizes[i], 1, 1};
            const hcq_value value = hcq_value_number(sizes[i]);
            hcq_point done;
            CHECK_OK(way != VARIABLE ? hcq_queue_update_exec(q, 0, &grid, NULL) : HCQ_OK);
            CHECK_OK(hcq_queue_submit_with(q, device, &value, way == VARIABLE, 0, &done));
            WAIT_OK(done);
            for (uint32_t k = 0; k < sizes[i]; k++) {
                model[k]++;
            }
            CHECK_BYTES(words, model, sizeof model);
            CHECK(READ32(beside, 0) == i + 1 && READ32(beside, 8) == i + 1);
        }
        backend_close(device);
    }
}

/* Each side of a block has its own limit, and all threads are 1024 at most. */
TEST_BARE(blocks_have_limits) {
    static const uint32_t most[3] = {64, 32, 16};
    static const struct { hcq_dims block; const char *refused; } cases[] = {
        {{64, 1, 1}, NULL}, {{65, 1, 1}, "65x1x1"}, {{1, 32, 1}, NULL}, {{1, 33, 1}, "1x33x1"},
        {{1, 1, 16}, NULL}, {{1, 1, 17}, "1x1x17"}, {{64, 16, 1}, NULL},
        {{41, 25, 1}, "41x25x1"}, {{0x80000000u, 0x80000000u, 4}, "2147483648x2147483648x4"},
    };
    driver_is("vkmock-low");
    memcpy(mock_vk_options.max_group_size, most, sizeof most);
    hcq_device *device = backend_open(1);
    hcq_program *add = make_add(device);
    add_args args = {make_words(device, 4).address, 1, 1};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *refused = cases[i].refused;
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        log_clear();
        CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, dims_one, cases[i].block),
                    refused ? HCQ_ERROR_INVALID : 0);
        CHECK(refused == NULL || (log_has(refused) && log_has("'add'")));
        hcq_queue_destroy(q);
    }
    backend_close(device);
}

/* ---- bindings ---- */

/* As many as a program can have, on a device that has as many, or one less. Descriptors that may
   be changed late are, and what was recorded stays; else it is anew. */
TEST_BARE(most_bindings) {
    uint32_t list[HCQ_MAX_ARGS];
    uint64_t args[HCQ_MAX_ARGS];
    hcq_program *program = NULL;
    for (uint32_t i = 0; i < HCQ_MAX_ARGS; i++) {
        list[i] = HCQ_ARG_INOUT;
    }
    const hcq_program_desc desc = shader_desc("vk_most", list);
    for (uint32_t early = 0; early < 2; early++) {
        driver_is("vkmock");
        mock_vk_options.without = early ? MOCK_VK_NO_OPTIONAL : 0;
        mock_vk_options.max_storage_buffers = HCQ_MAX_ARGS;
        hcq_device *device = backend_open(1);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        for (uint32_t i = 0; i < HCQ_MAX_ARGS; i++) {
            args[i] = make_words(device, 64).address;
        }
        CHECK_INDEX(hcq_queue_exec(q, make_kernel(device, desc), args, sizeof args, dims_one,
                                   dims_one), 0);
        submit_and_wait(q, device);
        CHECK_U64(mock_vk_peek(&mock_vk_counters.dispatches), 1);
        CHECK_OK(hcq_queue_bind(q, device));
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t before = test_query(device, HCQ_VULKAN_QUERY_RECORDED);
            args[i % 2] = make_words(device, 64).address;
            CHECK_OK(hcq_queue_update_arg(q, 0, i % 2 * 8, &args[i % 2], 8));
            submit_and_wait(q, device);
            CHECK_U64(test_query(device, HCQ_VULKAN_QUERY_RECORDED) - before, early);
        }
        backend_close(device);
    }
    mock_vk_options.max_storage_buffers--;
    hcq_device *device = backend_open(1);
    CHECK_RESULT(hcq_program_create(device, &desc, &program), HCQ_ERROR_UNSUPPORTED);
    CHECK(program == NULL && log_has("storage buffers, at most"));
    backend_close(device);
}

/* What was recorded names buffers: other memory at an argument's address is recorded anew. */
TEST_BARE(bindings_whose_memory_is_another) {
    const uint64_t size = (uint64_t)96 << 20; /* blocks of their own */
    hcq_device *device = driver_open("vkmock-turns");         /* it gives addresses again */
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_buffer words[2] = {make_buffer(device, size, HCQ_NO_CACHE),
                           make_buffer(device, size, HCQ_NO_CACHE)};
    const uint64_t args[2] = {words[0].address, words[1].address};
    hcq_program *program = make_kernel(device, shader_desc("vk_length", length_list));
    CHECK_INDEX(hcq_queue_exec(q, program, args, sizeof args, dims_one, dims_one), 0);
    CHECK_OK(hcq_queue_bind(q, device));
    for (uint32_t i = 0; i < 6; i++) { /* another one's, theirs, theirs, ... */
        const uint64_t before = test_query(device, HCQ_VULKAN_QUERY_RECORDED);
        hcq_buffer other = i % 3 == 0 ? make_buffer(device, size, HCQ_NO_CACHE) : words[i % 2];
        CHECK_OK(hcq_free(other));
        CHECK_OK(hcq_trim(device, 0));
        if (i % 3 != 0) {
            words[i % 2] = make_buffer(device, size, HCQ_NO_CACHE);
            CHECK_U64(words[i % 2].address, args[i % 2]);
            CHECK_OK(hcq_queue_update_arg(q, 0, i % 2 * 8, &args[i % 2], 8));
        }
        submit_and_wait(q, device);
        CHECK_U64(test_query(device, HCQ_VULKAN_QUERY_RECORDED) - before, i % 3 != 0);
    }
    backend_close(device);
}

/* ---- memory ---- */

/* What the driver does not take, or there is no memory to note, is refused and leaves nothing. */
TEST_BARE(imports_are_refused) {
    enum { PAGES = 20, PAGE = 4096 };
    static unsigned char memory[PAGES + 1][PAGE] __attribute__((aligned(4096)));
    hcq_buffer buffer;
    hcq_device *device = driver_open("vkmock");
    mock_vk_fail("vkGetMemoryHostPointerPropertiesEXT", 1, 1, VK_ERROR_INVALID_EXTERNAL_HANDLE);
    CHECK_RESULT(hcq_import(device, memory[PAGES], PAGE, 0, &buffer), HCQ_ERROR_UNSUPPORTED);
    CHECK(log_has("import of 4096 bytes: the driver takes none of this memory"));
    for (uint32_t i = 0; i < PAGES; i++) { /* lists grow on the way */
        hcq_result result = HCQ_ERROR_OUT_OF_MEMORY;
        for (uint32_t n = 1; result == HCQ_ERROR_OUT_OF_MEMORY; n++) {
            const uint64_t things = backend_things();
            T.memory.fail_at = T.memory.fail_until = T.memory.calls + n;
            result = hcq_import(device, memory[i], PAGE, 0, &buffer);
            T.memory.fail_at = 0;
            CHECK(result == HCQ_OK || backend_things() == things);
        }
        CHECK_OK(result);
        CHECK(buffer.host == memory[i]);
    }
    backend_close(device);
}

/* Many buffers take few blocks; the heap's end, and what is more than an allocation may
   have, are errors that spoil nothing. */
TEST_BARE(memory_has_limits) {
    enum { MANY = 3000, LARGE = 16 << 20 };
    hcq_buffer small, large[32];
    uint32_t got = 0;
    hcq_result result = HCQ_OK;
    driver_is("vkmock");
    mock_vk_options.heap_bytes = 256u << 20;
    mock_vk_options.max_allocation = 64u << 20;
    mock_vk_options.max_allocations = 40;
    hcq_device *device = backend_open(1);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_OK(hcq_alloc(device, 64 + i, i & 1 ? HCQ_HOST_VISIBLE : 0, &small));
    }
    CHECK(mock_vk_peek(&mock_vk_counters.live[MOCK_VK_KIND_MEMORY]) < 12);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint64_t sizes[3] = {(64u << 20) + 1, (uint64_t)1 << 44, (uint64_t)1 << 61};
        log_clear();
        CHECK_RESULT(hcq_alloc(device, sizes[i], i == 2 ? HCQ_ZEROED : 0, &small),
                     HCQ_ERROR_OUT_OF_MEMORY);
        CHECK(i == 2 || log_has("the device allows 67108864 at once"));
        CHECK(i != 1 || log_has("17592186044416 bytes"));
    }
    while (got < 32 && result == HCQ_OK) {
        result = hcq_alloc(device, LARGE, 0, &large[got]);
        got += result == HCQ_OK;
    }
    CHECK_RESULT(result, HCQ_ERROR_OUT_OF_MEMORY);
    CHECK(got >= 12 && log_has("vkAllocateMemory"));
    CHECK_OK(hcq_alloc(device, LARGE / 8 * 3, 0, &small)); /* a block of just its size */
    CHECK_OK(hcq_free(large[0]));
    CHECK_OK(hcq_alloc(device, LARGE, HCQ_ZEROED, &large[0]));
    CHECK_U64(READ32(large[0], LARGE / 4 - 1), 0);
    backend_close(device);
}

/* Where all memory is one, and the host's accesses are not dear, every buffer is the host's. */
TEST_BARE(memory_that_is_one) {
    static const struct { int discrete; uint32_t flags; int seen; } cases[] = {
        {0, 0, 1}, {0, MOCK_VK_NOT_CACHED, 1}, {1, 0, 0}};
    for (uint32_t i = 0; i < 3; i++) {
        driver_is("vkmock");
        mock_vk_options.discrete = cases[i].discrete;
        mock_vk_options.flags |= cases[i].flags;
        hcq_device *device = backend_open(1);
        CHECK((make_buffer(device, 64, 0).host != NULL) == cases[i].seen);
        backend_close(device);
    }
}

/* A grid may be in whatever memory of the CPU's a launch brings, if it can be imported. */
TEST_BARE(grids_that_the_cpu_brings) {
    for (uint32_t without = 0; without < 2; without++) {
        const uint32_t words[3] = {2, 1, 1};
        hcq_device *cpu = NULL;
        hcq_point done;
        driver_is("vkmock");
        mock_vk_options.without = without ? MOCK_VK_NO_HOST_MEMORY : 0;
        hcq_device *device = backend_open(1);
        CHECK_OK(hcq_open("CPU", NULL, &cpu));
        hcq_queue *g = make_queue(device, HCQ_GRAPH);
        hcq_buffer to = make_words(device, 16), grid = make_words(cpu, 3);
        const add_args args = {to.address, 5, 16};
        const hcq_value value = hcq_value_buffer(grid);
        CHECK_OK(hcq_copyin(grid, words, sizeof words));
        int32_t index = hcq_queue_exec_indirect(g, make_add(device), &args, sizeof args,
                                                hcq_graph_input(g, 0, cpu, 12), hcq_dim(4, 1, 1),
                                                dims_one);
        CHECK(index == (without ? HCQ_ERROR_FOREIGN : 0));
        if (!without) {
            CHECK_OK(hcq_queue_submit_with(g, device, &value, 1, 0, &done));
            WAIT_OK(done);
            CHECK(READ32(to, 1) == 5 && READ32(to, 2) == 0);
        }
        hcq_queue_destroy(g);
        CHECK_OK(hcq_close(cpu));
        backend_close(device);
    }
}

/* Memory is cleared on the first queue: another one waits for that, once, and no queue else. */
TEST_BARE(clearing_is_waited_for_once) {
    driver_is("vkmock");
    hcq_device *device = backend_open(2);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_memory_barrier(q), 0);
    for (uint32_t i = 0; i < 6; i++) { /* on the first one, the second one, and again */
        const uint64_t before = test_query(device, HCQ_VULKAN_QUERY_WAITS);
        hcq_point done;
        if (i % 3 == 0) { make_words(device, 64); }
        CHECK_OK(SUBMIT(device, q, &done, .affinity = i % 3 != 0));
        WAIT_OK(done);
        CHECK_U64(test_query(device, HCQ_VULKAN_QUERY_WAITS) - before, i % 3 == 1);
    }
    backend_close(device);
}

/* What the host writes lies on the device as long as that has room, then beside what else
   the host sees, without a word; where the device has none that the host sees, at once. */
TEST_BARE(writes_go_to_the_device) {
    enum { BYTES = 200000, MANY = 8, ROOM = 1 << 20 };
    static const uint32_t words[BYTES / 4] = {1, 2, 3};
    hcq_device *device = driver_open("vkmock-low");
    hcq_buffer b[MANY];
    hcq_vulkan_info info;
    CHECK_OK(hcq_vulkan_info_get(device, &info));
    const uint64_t *used = mock_vk_physical_of(info.physical_device)->heap_used;
    CHECK_U64(mock_vk_peek(&used[2]), 0);
    log_clear();
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_OK(hcq_alloc(device, BYTES, HCQ_HOST_WRITES, &b[i]));
        memcpy(b[i].host, words, BYTES);
        CHECK_U64(READ32(b[i], 2), 3);
        CHECK(mock_vk_peek(&used[2]) >= (i < 4 ? i + 1 : 4) * BYTES);
    }
    CHECK(mock_vk_peek(&used[2]) <= ROOM && T.log.lines == 0);
    CHECK_OK(hcq_alloc(device, 2 * ROOM, HCQ_HOST_WRITES, &b[0]));
    CHECK(b[0].host != NULL && T.log.lines == 0);
    backend_close(device);
    device = backend_open(1);
    CHECK_OK(hcq_vulkan_info_get(device, &info));
    mock_vk_physical_of(info.physical_device)->heap_used[2] = ROOM; /* by another process */
    log_clear();
    CHECK_OK(hcq_alloc(device, BYTES, HCQ_HOST_WRITES, &b[0]));
    CHECK(b[0].host != NULL && T.log.lines == 0);
    backend_close(device);
}

/* ---- time ---- */

/* Where there is no memory to note what is to be fetched that is why the work fails. */
TEST_BARE(stamps_without_memory) {
    uint32_t failed = 0;
    for (uint32_t n = 1; n < 12; n++) {
        hcq_device *device = driver_open("vkmock");
        hcq_queue *q = make_queue(device, HCQ_COPY);
        hcq_point done;
        CHECK_INDEX(hcq_queue_timestamp(q, make_signal(device, 0)), 0);
        CHECK_OK(hcq_queue_bind(q, device));
        T.memory.fail_at = T.memory.fail_until = T.memory.calls + n;
        hcq_result result = hcq_queue_submit(q, device, &done);
        if (result == HCQ_OK) { result = hcq_wait(&done, 1, HCQ_ALL, BOUND); }
        T.memory.fail_at = 0;
        CHECK(result == HCQ_OK || result == HCQ_ERROR_OUT_OF_MEMORY);
        failed += result != HCQ_OK;
        backend_close(device);
    }
    CHECK(failed != 0);
}

/* A clock of 32 bits begins at 0 again while stamps are taken: on both families, with
   a host's clock that the driver gets wrong, by queries alone, and without means to
   reset those for copies. The clock is asked after a stamp. */
TEST_BARE(clock_begins_again) {
    for (uint32_t way = 0; way < 8; way++) {
        driver_is("vkmock");
        uint64_t wrap = (uint64_t)10 << 32, last = 0; /* 10 ns, 32 bits */
        uint64_t end = hcq_now_ns() + 120000000;
        mock_vk_options.flags |= way / 2 == 1 ? MOCK_VK_WRONG_CLOCK : 0;
        mock_vk_options.without |= way / 2 == 2 ? MOCK_VK_NO_CALIBRATION : 0;
        mock_vk_options.without |= way / 2 == 3 ? MOCK_VK_NO_HOST_RESET : 0;
        mock_vk_options.clock_drift_ppm = 0;
        mock_vk_options.clock_offset_ns = (int64_t)(wrap - end % wrap) + 60000000;
        hcq_device_desc desc = test_desc();
        test_forced.counter_limit = 16; /* over many swaps of counters */
        hcq_device *device = test_open(0, &desc);
        hcq_signal s = make_signal(device, 0);
        hcq_queue *q = make_queue(device, way % 2 ? HCQ_COPY : HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
        while (last == 0 || hcq_now_ns() < end) {
            uint64_t stamp = 0, before = hcq_now_ns();
            hcq_clock clock;
            submit_and_wait(q, device);
            uint64_t after = hcq_now_ns();
            CHECK_OK(hcq_signal_timestamp(s, &stamp));
            CHECK_OK(hcq_device_clock(device, &clock));
            uint64_t host = hcq_clock_to_host(&clock, stamp);
            CHECK(stamp > last);
            CHECK(host + clock.error_ns + 1000 >= before);
            CHECK(host <= after + clock.error_ns + 1000);
            last = stamp;
            test_sleep_ms(1);
        }
        backend_close(device);
    }
}

/* With calibrated timestamps each answer is read anew. A stamp is taken for what the clocks of up
   to a second ago allow: then they are read again. This device's is so much too fast that it is
   out of reach after 1.6 seconds. 0: a busy machine held us up so long, which says nothing. */
static int clocks_are_read_in_time(void) {
    uint64_t last = 0;
    hcq_clock a, b;
    int in_time = 1;
    driver_is("vkmock");
    mock_vk_options.clock_drift_ppm = 600000;
    hcq_device *device = backend_open(1);
    CHECK_OK(hcq_device_clock(device, &a));
    test_sleep_ms(20);
    uint64_t at = hcq_now_ns();
    CHECK_OK(hcq_device_clock(device, &b));
    const uint64_t passed = b.host_ns - a.host_ns, error = a.error_ns + b.error_ns;
    CHECK(b.device_ns - a.device_ns + error > passed + passed / 2);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
    for (uint32_t i = 0; in_time && i < 3; i++) {
        const uint64_t before = at;
        uint64_t stamp = 0;
        test_sleep_ms(i ? 1010 : 0);
        at = hcq_now_ns();
        submit_and_wait(q, device);
        CHECK_OK(hcq_signal_timestamp(s, &stamp));
        in_time = hcq_now_ns() - before < SECOND * 3 / 2;
        CHECK(!in_time || i == 0 || (stamp > last + SECOND && stamp < last + 10 * SECOND));
        last = stamp;
    }
    backend_close(device);
    return in_time;
}

TEST_BARE(clocks_are_read_again) {
    for (uint32_t tries = 1; !clocks_are_read_in_time(); tries++) { CHECK(tries < 30); }
}

/* A second run begins with the pipelines of the first, which grew between the two looks at them:
   then they are told to be larger. */
TEST_BARE(caches_are_of_use) {
    static unsigned char data[4096];
    size_t size = sizeof data;
    driver_is("vkmock");
    for (uint32_t run = 0; run < 2; run++) {
        hcq_device_desc desc = test_desc();
        test_vulkan_desc.cache = run ? data : NULL;
        test_vulkan_desc.cache_size = run ? size : 0;
        hcq_device *device = test_open(0, &desc);
        CHECK_U64(mock_vk_peek(&mock_vk_counters.filled_caches), run);
        mock_vk_fail("vkGetPipelineCacheData", 2, 1, VK_INCOMPLETE);
        CHECK_RESULT(hcq_vulkan_cache(device, data, &size), HCQ_ERROR_LIMIT);
        CHECK(size != 0 && size < sizeof data);
        CHECK_OK(hcq_vulkan_cache(device, data, &size));
        backend_close(device);
    }
}
