/* programs.h - modules: arguments by bindings, blocks, entry points, and
   what is refused; the pipeline cache. Part of vulkan.c. */
#pragma once

#include "replay.h"
#include "shared.h"

/* ---- arguments by bindings ---- */

typedef struct bind_args { uint64_t dst, src; uint32_t n, factor, add; } bind_args;

static const uint32_t bind_list[] = {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U32, HCQ_ARG_U32,
                                     HCQ_ARG_U32, HCQ_ARG_NONE};

enum { BIND_WORDS = 96, BIND_BUFFERS = 6, BIND_COMMANDS = 5 };

typedef struct binding {
    hcq_device *dev;
    hcq_queue *q;
    hcq_buffer buffers[BIND_BUFFERS];
    uint32_t model[BIND_BUFFERS][BIND_WORDS];
    uint32_t dst[BIND_COMMANDS], src[BIND_COMMANDS], add[BIND_COMMANDS];
    uint64_t state;
} binding;

/* Two buffers are views, at multiples of the highest alignment there may be. */
static void binding_open(binding *b, uint32_t flags, const char *shader, uint32_t slots) {
    *b = (binding){.state = T.seed, .dev = device_with(flags, slots)};
    hcq_program *program = make_program(b->dev, shader, bind_list);
    hcq_buffer whole = make_words(b->dev, 1024);
    for (uint32_t i = 0; i < BIND_BUFFERS; i++) {
        b->buffers[i] = i < 2 ? hcq_view(whole, 1024 * (i + 1), BIND_WORDS * 4)
                              : make_words(b->dev, BIND_WORDS);
        for (uint32_t k = 0; k < BIND_WORDS; k++) {
            b->model[i][k] = (uint32_t)test_random(&b->state);
        }
        CHECK_OK(hcq_copyin(b->buffers[i], b->model[i], sizeof b->model[i]));
    }
    b->q = make_queue(b->dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < BIND_COMMANDS; i++) {
        b->dst[i] = i;
        b->src[i] = i + 1;
        b->add[i] = i * 100;
        bind_args args = {b->buffers[i].address, b->buffers[i + 1].address, BIND_WORDS - i, 3,
                          b->add[i]};
        CHECK_INDEX(hcq_queue_exec(b->q, program, &args, sizeof args, hcq_dim(3, 1, 1),
                                   hcq_dim(32, 1, 1)), i);
    }
}

static void binding_model(binding *b) {
    for (uint32_t i = 0; i < BIND_COMMANDS; i++) {
        for (uint32_t k = 0; k < BIND_WORDS - i; k++) {
            uint32_t *dst = &b->model[b->dst[i]][k];
            *dst = *dst * 3 + b->model[b->src[i]][k] + b->add[i];
        }
    }
}

static void binding_check(const char *file, int line, binding *b) {
    for (uint32_t i = 0; i < BIND_BUFFERS; i++) {
        test_bytes(file, line, b->buffers[i], b->model[i], sizeof b->model[i]);
    }
}
#define CHECK_BINDING(b) binding_check(__FILE__, __LINE__, (b))

/* Other buffers for one command; they stay different. */
static void binding_patch_buffers(binding *b, uint32_t i) {
    b->dst[i] = (uint32_t)(test_random(&b->state) % BIND_BUFFERS);
    b->src[i] = (b->dst[i] + 1 + (uint32_t)(test_random(&b->state) % (BIND_BUFFERS - 1))) %
                BIND_BUFFERS;
    CHECK_OK(hcq_queue_update_arg(b->q, (int32_t)i, 0, &b->buffers[b->dst[i]].address, 8));
    CHECK_OK(hcq_queue_update_arg(b->q, (int32_t)i, 8, &b->buffers[b->src[i]].address, 8));
}

/* Patched while earlier submissions of the queue still run. Returns how many
   commands the submits recorded. */
static uint64_t binding_rounds(binding *b, int buffers, int values) {
    hcq_point done = {{0}, 0};
    uint64_t recorded = 0;
    for (uint32_t k = 0; k < 40; k++) {
        uint32_t i = (uint32_t)(test_random(&b->state) % BIND_COMMANDS);
        if (buffers) {
            binding_patch_buffers(b, i);
        }
        if (values) {
            uint32_t other = (i + 1) % BIND_COMMANDS;
            b->add[other] = (uint32_t)test_random(&b->state);
            CHECK_OK(hcq_queue_update_arg(b->q, (int32_t)other, 24, &b->add[other], 4));
        }
        uint64_t before = COUNT(b->dev, RECORDED);
        done = submit_of(b->q, b->dev);
        recorded += COUNT(b->dev, RECORDED) - before;
        binding_model(b);
        if (k % 8 == 7) {
            WAIT_OK(done);
            CHECK_BINDING(b);
        }
    }
    return recorded;
}

/* Can the device change the descriptors of what is recorded? */
static int binds_late(hcq_device *device) {
    hcq_vulkan_info info = {0};
    VkPhysicalDeviceVulkan12Features more = {0};
    VkPhysicalDeviceFeatures2 features = {0};
    CHECK_OK(hcq_vulkan_info_get(device, &info));
    PFN_vkGetPhysicalDeviceFeatures2 get = (PFN_vkGetPhysicalDeviceFeatures2)info.loader(
        info.instance, "vkGetPhysicalDeviceFeatures2");
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = &more;
    more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    get(info.physical_device, &features);
    return more.descriptorBindingStorageBufferUpdateAfterBind == VK_TRUE;
}

/* The ways to bind: with sets that change late, or not. */
static const uint32_t bind_flags[2] = {0, HCQ_VULKAN_NO_LATE_BINDING};

/* With one version it is known what has to be recorded: what is no data. */
static void bindings_recorded(uint32_t flags, const char *shader) {
    binding b;
    int uniform = strcmp(shader, "vk_uniform") == 0;
    binding_open(&b, flags, shader, 1);
    int late = !((flags | T.variant->vulkan_flags) & HCQ_VULKAN_NO_LATE_BINDING) &&
               binds_late(b.dev);
    CHECK_OK(hcq_queue_bind(b.q, b.dev));
    CHECK_U64(binding_rounds(&b, 0, 0), 0);
    CHECK(late == (binding_rounds(&b, 1, 0) == 0));
    CHECK(uniform == (binding_rounds(&b, 0, 1) == 0));
    for (uint32_t i = 0; i < BIND_COMMANDS; i++) {
        CHECK_OK(hcq_queue_update_arg(b.q, (int32_t)i, 0, &b.buffers[b.dst[i]].address, 8));
        CHECK_OK(hcq_queue_update_arg(b.q, (int32_t)i, 24, &b.add[i], 4));
    }
    CHECK_U64(binding_rounds(&b, 0, 0), 0); /* as they were */
    CHECK_OK(hcq_close(b.dev));
}

static void bindings_in_flight(uint32_t flags, const char *shader) {
    binding b;
    binding_open(&b, flags, shader, 3);
    submit_and_wait(b.q, b.dev);       /* not bound */
    binding_model(&b);
    CHECK_BINDING(&b);
    CHECK_OK(hcq_queue_bind(b.q, b.dev));
    (void)binding_rounds(&b, 1, 1);
    CHECK_OK(hcq_close(b.dev));
}

TEST(bindings_are_bound_and_patched) {
    for (uint32_t way = 0; way < 2; way++) {
        bindings_recorded(bind_flags[way], "vk_push");
        bindings_recorded(bind_flags[way], "vk_uniform");
        bindings_in_flight(bind_flags[way], "vk_push");
        bindings_in_flight(bind_flags[way], "vk_uniform");
    }
}

/* Values in push constants and those of a part of a grid do not meet. */
TEST(bindings_on_large_grids) {
    enum { N = 70001 };
    uint32_t *words = (uint32_t *)malloc(N * 4);
    hcq_buffer src = make_words(T.dev, N);
    for (uint32_t k = 0; k < N; k++) {
        words[k] = k * 2654435761u;
    }
    CHECK_OK(hcq_copyin(src, words, N * 4));
    for (uint32_t i = 0; i < 2; i++) {
        hcq_program *program = make_program(T.dev, i ? "vk_uniform" : "vk_push", bind_list);
        hcq_buffer dst = make_words(T.dev, N);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        bind_args args = {dst.address, src.address, N - 7, 5, 123456 + i};
        CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(N, 1, 1), dims_one), 0);
        submit_and_wait(q, T.dev);
        for (uint32_t k = 0; k < N; k++) {
            words[k] = k < N - 7 ? k * 2654435761u + 123456 + i : 0;
        }
        CHECK_BYTES(dst, words, N * 4);
    }
    free(words);
}

/* A binding ends where its allocation does, however large the block around it. */
TEST(bindings_end_with_the_buffer) {
    hcq_program *program = make_program(T.dev, "vk_length", length_list);
    hcq_buffer dst = make_words(T.dev, 2), src = make_words(T.dev, 300);
    uint32_t first[65] = {0};
    first[0] = 77;
    first[64] = 99;
    CHECK_OK(hcq_copyin(src, first, sizeof first));
    for (uint32_t offset = 0; offset <= 256; offset += 256) {
        uint32_t want[2] = {300 - offset / 4, offset ? 99 : 77};
        const uint64_t args[2] = {dst.address, src.address + offset};
        CHECK_OK(hcq_program_call(program, args, sizeof args, dims_one, dims_one, NULL));
        CHECK_BYTES(dst, want, sizeof want);
    }
}

/* An address that no descriptor can have: refused for as long as it is there. */
TEST(misaligned_bindings_are_refused) {
    for (uint32_t way = 0; way < 2; way++) {
        binding b;
        binding_open(&b, bind_flags[way], "vk_push", 0);
        uint64_t good = b.buffers[1].address, bad = good + 4;
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 8, &bad, 8));
        log_clear();
        CHECK_RESULT(hcq_queue_bind(b.q, b.dev), HCQ_ERROR_INVALID);
        CHECK(log_has("vk_push") && log_has("argument 1") && log_has("multiple of"));
        CHECK_RESULT(hcq_queue_submit(b.q, b.dev, NULL), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 8, &good, 8));
        CHECK_OK(hcq_queue_bind(b.q, b.dev));
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 8, &bad, 8));
        for (uint32_t k = 0; k < 3; k++) {
            log_clear();
            CHECK_RESULT(hcq_queue_submit(b.q, b.dev, NULL), HCQ_ERROR_INVALID);
            CHECK(log_has("argument 1") && log_has("multiple of"));
            CHECK_BINDING(&b);         /* nothing ran */
        }
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 8, &good, 8));
        for (uint32_t k = 0; k < 3; k++) {
            submit_and_wait(b.q, b.dev);
            binding_model(&b);
            CHECK_BINDING(&b);
        }
        CHECK_OK(hcq_close(b.dev));
    }
}

/* ---- what does not fit ---- */

static void refuse_program(const char *file, int line, const hcq_program_desc *desc,
                           hcq_result want, const char *text) {
    hcq_program *program = NULL;
    log_clear();
    test_result(file, line, text, (hcq_program_create)(T.dev, desc, &program), want);
    if (!log_has(text) || !log_has(desc->label)) {
        fprintf(stderr, "the log lacks '%s' or the label\n", text);
        test_fail(file, line, "the message");
    }
}
#define REFUSED(desc, want, text) refuse_program(__FILE__, __LINE__, (desc), (want), (text))

/* spirv.c asks for all that there is about blocks behind a pointer. */
TEST(arguments_have_to_fit) {
    static const struct {
        const char *shader;
        uint32_t args[HCQ_MAX_ARGS];
        const char *text;
    } cases[] = {
#define OF_BOTH(text, ...) {"vk_push", {__VA_ARGS__}, text}, {"vk_uniform", {__VA_ARGS__}, text}
        OF_BOTH("1 buffer arguments, the module 2", HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32,
                HCQ_ARG_U32),
        OF_BOTH("3 buffer arguments, the module 2", HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_IN,
                HCQ_ARG_U32),
        OF_BOTH("16 bytes of values, the module's block 12", HCQ_ARG_INOUT, HCQ_ARG_IN,
                HCQ_ARG_U64, HCQ_ARG_U32, HCQ_ARG_U32),
#undef OF_BOTH
        {"nothing", {HCQ_ARG_INOUT}, "the module takes none"},
        {"add", {HCQ_ARG_U32}, "block has 16 bytes, the list of arguments makes 8"},
        {"add", {HCQ_ARG_INOUT, HCQ_ARG_IN}, "argument 1 is a buffer of 8 bytes at byte 8"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hcq_program_desc desc = shader_desc(cases[i].shader, cases[i].args);
        REFUSED(&desc, HCQ_ERROR_INVALID, cases[i].text);
    }
}

/* A block that the shader says; the mock's tests have the device's limits. */
TEST(blocks_have_to_fit) {
    static const uint32_t list[] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_NONE};
    hcq_program *fixed = make_program(T.dev, "vk_fixed", list);
    hcq_buffer dst = make_words(T.dev, 4096);
    const struct { uint64_t dst; uint32_t value; } args = {dst.address, 3};
    const hcq_dims right = {8, 4, 2}, wrong = {8, 4, 1}, five = {5, 1, 1};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    log_clear();
    CHECK_INDEX(hcq_queue_exec(q, fixed, &args, sizeof args, five, wrong), HCQ_ERROR_INVALID);
    CHECK(log_has("8x4x1") && log_has("8x4x2") && log_has("vk_fixed"));
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_exec(q, fixed, &args, sizeof args, five, right), 0);
    CHECK_RESULT(hcq_queue_update_exec(q, 0, NULL, &wrong), HCQ_ERROR_INVALID);
    submit_and_wait(q, T.dev);         /* as it was before the update */
    CHECK_U64(READ32(dst, 0), 5 * 64 * 3);
}

/* ---- entry points ---- */

/* The module, whose "main" gets another name, may lie anywhere and go at once. */
TEST(entry_points_by_name) {
    enum { SIZE = sizeof spirv_vk_length };
#define LONG "a_name_of_63_characters_which_no_entry_point_of_this_module_has"
    static const char *const wrong[] = {"third", NULL, "", LONG, LONG "s"};
    static const char *const texts[] = {"third", "main", "entry", "no entry point", "name is long"};
#undef LONG
    uint32_t words[SIZE / 4];
    unsigned char *bytes = (unsigned char *)malloc(SIZE + 3);
    hcq_program_desc desc = shader_desc("vk_length", length_list);
    for (uint32_t i = 0; i < SIZE / 4; i++) {
        words[i] = spirv_vk_length[i] == 0x6e69616d ? 0x6e72656b : spirv_vk_length[i];
    }
    desc.spirv.entry = "kern";
    for (uint32_t i = 0; i < 4; i++) {
        const hcq_buffer dst = make_words(T.dev, 2);
        const uint64_t args[2] = {dst.address, make_words(T.dev, 7).address};
        const uint32_t want[2] = {7, 0};
        hcq_program *program = NULL;
        memcpy(bytes + i, words, SIZE);
        desc.spirv.data = bytes + i;
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        memset(bytes, 0xee, SIZE + 3);
        CHECK_OK(hcq_program_call(program, args, sizeof args, dims_one, dims_one, NULL));
        CHECK_BYTES(dst, want, sizeof want);
    }
    desc.spirv.data = words;
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        desc.spirv.entry = wrong[i];
        REFUSED(&desc, HCQ_ERROR_INVALID, texts[i]);
    }
    desc.spirv.entry = NULL;
    desc.spirv.size = 0;
    REFUSED(&desc, HCQ_ERROR_NO_KERNEL, "spirv");
    desc.spirv.data = NULL;
    desc.cpu = put_cpu;                 /* not for this device */
    REFUSED(&desc, HCQ_ERROR_NO_KERNEL, "spirv");
    free(bytes);
}

/* One function under two names is two entry points. */
TEST(entry_points_have_their_own) {
    enum { WORDS = sizeof spirv_vk_length / 4, ENTRY = 15 };
    uint32_t words[2 * WORDS], at = 5, count;
    const uint64_t made = COUNT(T.dev, PIPELINES);
    hcq_program_desc desc = shader_desc("vk_length", length_list);
    hcq_program *program = NULL;
    memcpy(words, spirv_vk_length, sizeof spirv_vk_length);
    while ((words[at] & 0xffff) != ENTRY) { at += words[at] >> 16; }
    count = words[at] >> 16;
    memcpy(words + at + count, spirv_vk_length + at, (WORDS - at) * 4);
    CHECK(words[at + 3] == 0x6e69616d);
    words[at + 3] = 0x6e72656b;        /* "main" is "kern", too */
    desc.spirv.data = words;
    desc.spirv.size = (WORDS + count) * 4;
    for (uint32_t i = 0; i < 4; i++) {
        desc.spirv.entry = i % 2 ? "kern" : "main";
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        CHECK_U64(COUNT(T.dev, PIPELINES) - made, i == 0 ? 1 : 2);
    }
}

/* Equal code is one pipeline for each block, while there is a program of it. */
TEST(equal_programs_share_pipelines) {
    hcq_buffer dst = make_words(T.dev, 1);
    uint64_t made = COUNT(T.dev, PIPELINES);
    for (uint32_t round = 1; round <= 2; round++) {
        hcq_program *programs[3];
        for (uint32_t i = 0; i < 3; i++) { programs[i] = make_add(T.dev); }
        for (uint32_t i = 0; i < 6; i++) { /* blocks of 1, blocks of 32 */
            const add_args args = {dst.address, round, 1};
            hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_exec(q, programs[i % 3], &args, sizeof args, dims_one,
                                       hcq_dim(i < 3 ? 1 : 32, 1, 1)), 0);
            if (i >= 3) { hcq_program_destroy(programs[i % 3]); }
            submit_and_wait(q, T.dev);
            hcq_queue_destroy(q);
            made += i % 3 == 0;
            CHECK_U64(COUNT(T.dev, PIPELINES), made);
        }
        CHECK_U64(READ32(dst, 0), round == 1 ? 6 : 18);
    }
}

/* ---- the pipeline cache ---- */

/* Opens with a cache, runs something, closes. 1: a line about the cache was logged. */
static int cache_is_refused(const void *data, size_t size) {
    hcq_device_desc desc = test_desc();
    test_vulkan_desc.cache = data;
    test_vulkan_desc.cache_size = size;
    log_clear();
    hcq_device *dev = test_open(0, &desc);
    int refused = log_has("vulkan.cache");
    hcq_buffer dst = make_words(dev, 1);
    const add_args args = {dst.address, 4, 1};
    CHECK_OK(hcq_program_call(make_add(dev), &args, sizeof args, dims_one, dims_one, NULL));
    CHECK_U64(READ32(dst, 0), 4);
    CHECK_OK(hcq_close(dev));
    return refused;
}

TEST(caches_are_saved_and_given) {
    size_t size = 0, less = 10;
    uint64_t random = T.seed;
    (void)make_kernel(T.dev, HCQ_PROGRAM(grid));
    CHECK_OK(hcq_vulkan_cache(T.dev, NULL, &size));
    CHECK(size >= 32);
    unsigned char *data = (unsigned char *)malloc(size + 64);
    memset(data, 0xab, size + 64);
    CHECK_RESULT(hcq_vulkan_cache(T.dev, data, &less), HCQ_ERROR_LIMIT);
    CHECK(data[0] == 0xab && less >= size);
    size_t room = size;
    CHECK_OK(hcq_vulkan_cache(T.dev, data, &room));
    CHECK(room >= 32 && room <= size && data[size] == 0xab);
    size = room;
    CHECK(!cache_is_refused(data, size));
    CHECK(!cache_is_refused(NULL, 0));
    (void)cache_is_refused(data, size - 1 < 33 ? 33 : size - 1); /* the driver's to see */
    for (size_t cut = 1; cut < 32; cut += 10) {
        CHECK(cache_is_refused(data, cut));
    }
    for (uint32_t at = 4; at < 32; at += 4) { /* version, vendor, device, id */
        data[at] ^= 0x40;
        CHECK(cache_is_refused(data, size));
        data[at] ^= 0x40;
    }
    for (size_t i = 0; i < size; i++) {
        data[i] = (unsigned char)test_random(&random);
    }
    CHECK(cache_is_refused(data, size));
    free(data);
}
