/* programs.h - modules: arguments by bindings, blocks, entry points, and
   what is refused. Part of vulkan.c. */

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
    memset(b, 0, sizeof *b);
    b->state = T.seed;
    b->dev = device_with(flags, slots);
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
    CHECK_OK(hcq_queue_update_arg(b->q, i, 0, &b->buffers[b->dst[i]].address, 8));
    CHECK_OK(hcq_queue_update_arg(b->q, i, 1, &b->buffers[b->src[i]].address, 8));
}

static void binding_patch_value(binding *b, uint32_t i) {
    b->add[i] = (uint32_t)test_random(&b->state);
    CHECK_OK(hcq_queue_update_arg(b->q, i, 4, &b->add[i], 4));
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
            binding_patch_value(b, (i + 1) % BIND_COMMANDS);
        }
        uint64_t before = COUNT(b->dev, RECORDED);
        CHECK_OK(hcq_queue_submit(b->q, b->dev, &done));
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
    VkPhysicalDeviceVulkan12Features more;
    VkPhysicalDeviceFeatures2 features;
    CHECK_OK(hcq_vulkan_info_get(device, &info));
    PFN_vkGetPhysicalDeviceFeatures2 get = (PFN_vkGetPhysicalDeviceFeatures2)info.loader(
        info.instance, "vkGetPhysicalDeviceFeatures2");
    memset(&features, 0, sizeof features);
    memset(&more, 0, sizeof more);
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = &more;
    more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    get(info.physical_device, &features);
    return more.descriptorBindingStorageBufferUpdateAfterBind == VK_TRUE;
}

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
        CHECK_OK(hcq_queue_update_arg(b.q, i, 0, &b.buffers[b.dst[i]].address, 8));
        CHECK_OK(hcq_queue_update_arg(b.q, i, 4, &b.add[i], 4));
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
    (void)binding_rounds(&b, 1, 0);
    (void)binding_rounds(&b, 0, 1);
    (void)binding_rounds(&b, 1, 1);
    CHECK_OK(hcq_close(b.dev));
}

static void bindings_are_bound_and_patched(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t flags = (i & 1 ? (uint32_t)HCQ_VULKAN_NO_LATE_BINDING : 0) |
                         (i & 2 ? (uint32_t)HCQ_VULKAN_NO_PUSH_SETS : 0);
        bindings_recorded(flags, "vk_push");
        bindings_recorded(flags, "vk_uniform");
        bindings_in_flight(flags, "vk_push");
        bindings_in_flight(flags, "vk_uniform");
    }
}

/* Values in push constants and those of a part of a grid do not meet. */
static void bindings_on_large_grids(void **state) {
    (void)state;
    static const char *const shaders[] = {"vk_push", "vk_uniform"};
    enum { N = 70001 };
    uint32_t *words = (uint32_t *)malloc(N * 4);
    for (uint32_t i = 0; i < 2; i++) {
        hcq_program *program = make_program(T.dev, shaders[i], bind_list);
        hcq_buffer dst = make_words(T.dev, N), src = make_words(T.dev, N);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        bind_args args = {dst.address, src.address, N - 7, 5, 123456};
        for (uint32_t k = 0; k < N; k++) {
            words[k] = k * 2654435761u;
        }
        CHECK_OK(hcq_copyin(src, words, N * 4));
        CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(N, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        submit_and_wait(q, T.dev);
        for (uint32_t k = 0; k < N; k++) {
            words[k] = k < N - 7 ? words[k] + 123456 : 0;
        }
        CHECK_BYTES(dst, words, N * 4);
    }
    free(words);
}

/* A binding ends where its allocation does, however large the block around it. */
static void bindings_end_with_the_buffer(void **state) {
    (void)state;
    static const uint32_t list[] = {HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_NONE};
    hcq_program *program = make_program(T.dev, "vk_length", list);
    hcq_buffer dst = make_words(T.dev, 2), src = make_words(T.dev, 300);
    uint32_t first[65] = {0};
    first[0] = 77;
    first[64] = 99;
    CHECK_OK(hcq_copyin(src, first, sizeof first));
    for (uint32_t offset = 0; offset <= 256; offset += 256) {
        uint32_t want[2] = {300 - offset / 4, offset ? 99 : 77};
        struct { uint64_t dst, src; } args = {dst.address, src.address + offset};
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        submit_and_wait(q, T.dev);
        CHECK_BYTES(dst, want, sizeof want);
    }
}

/* An address that no descriptor can have: refused for as long as it is there. */
static void misaligned_bindings_are_refused(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        binding b;
        uint32_t flags = (i & 1 ? (uint32_t)HCQ_VULKAN_NO_LATE_BINDING : 0) |
                         (i & 2 ? (uint32_t)HCQ_VULKAN_NO_PUSH_SETS : 0);
        binding_open(&b, flags, "vk_push", 0);
        uint64_t good = b.buffers[1].address, bad = good + 4;
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 1, &bad, 8));
        log_clear();
        CHECK_RESULT(hcq_queue_bind(b.q, b.dev), HCQ_ERROR_INVALID);
        CHECK(log_has("vk_push") && log_has("argument 1") && log_has("multiple of"));
        CHECK_RESULT(hcq_queue_submit(b.q, b.dev, NULL), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 1, &good, 8));
        CHECK_OK(hcq_queue_bind(b.q, b.dev));
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 1, &bad, 8));
        for (uint32_t k = 0; k < 3; k++) {
            log_clear();
            CHECK_RESULT(hcq_queue_submit(b.q, b.dev, NULL), HCQ_ERROR_INVALID);
            CHECK(log_has("argument 1") && log_has("multiple of"));
            CHECK_BINDING(&b);         /* nothing ran */
        }
        CHECK_OK(hcq_queue_update_arg(b.q, 0, 1, &good, 8));
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
    test_result(file, line, text, hcq_program_create(T.dev, desc, &program), want);
    if (!log_has(text) || (desc->label && !log_has(desc->label))) {
        fprintf(stderr, "the log lacks '%s' or the label\n", text);
        test_fail(file, line, "the message");
    }
}
#define REFUSED(desc, want, text) refuse_program(__FILE__, __LINE__, (desc), (want), (text))

static void arguments_have_to_fit(void **state) {
    (void)state;
    static const uint32_t one[] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32, HCQ_ARG_U32,
                                   HCQ_ARG_NONE};
    static const uint32_t three[] = {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_IN, HCQ_ARG_U32,
                                     HCQ_ARG_NONE};
    static const uint32_t long_ones[] = {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U64, HCQ_ARG_U32,
                                         HCQ_ARG_U32, HCQ_ARG_NONE};
    static const uint32_t some[] = {HCQ_ARG_INOUT, HCQ_ARG_NONE};
    static const char *const shaders[] = {"vk_push", "vk_uniform"};
    for (uint32_t i = 0; i < 2; i++) {
        hcq_program_desc desc = shader_desc(shaders[i], one);
        REFUSED(&desc, HCQ_ERROR_INVALID, "1 buffer arguments, the module 2");
        desc = shader_desc(shaders[i], three);
        REFUSED(&desc, HCQ_ERROR_INVALID, "3 buffer arguments, the module 2");
        desc = shader_desc(shaders[i], long_ones);
        REFUSED(&desc, HCQ_ERROR_INVALID, "16 bytes of values, the module's block 12");
    }
    hcq_program_desc desc = shader_desc("nothing", some);
    REFUSED(&desc, HCQ_ERROR_INVALID, "the module takes none");
}

/* The argument block behind a pointer; spirv.c asks for all there is. */
static void blocks_have_to_be_the_lists(void **state) {
    (void)state;
    static const uint32_t mix[] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32, HCQ_ARG_NONE};
    static const uint32_t few[] = {HCQ_ARG_U32, HCQ_ARG_NONE};
    static const uint32_t other[] = {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_NONE};
    static const uint32_t swapped[] = {HCQ_ARG_U32, HCQ_ARG_U32, HCQ_ARG_INOUT, HCQ_ARG_NONE};
    hcq_program_desc desc = shader_desc("add", mix);
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(T.dev, &desc, &program));
    desc = shader_desc("add", few);
    REFUSED(&desc, HCQ_ERROR_INVALID, "block has 16 bytes, the list of arguments makes 8");
    desc = shader_desc("add", other);
    REFUSED(&desc, HCQ_ERROR_INVALID, "argument 1 is a buffer of 8 bytes at byte 8");
    desc = shader_desc("add", swapped);
    REFUSED(&desc, HCQ_ERROR_INVALID, "a pointer of 8 bytes at byte 0");
}

static void blocks_have_to_fit(void **state) {
    (void)state;
    static const uint32_t list[] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_NONE};
    hcq_program *fixed = make_program(T.dev, "vk_fixed", list);
    hcq_program *ids = make_program(T.dev, "vk_ids", ids_list);
    hcq_buffer dst = make_words(T.dev, 4096);
    ids_args args = {dst.address, 3};
    hcq_dims right = hcq_dim(8, 4, 2), wrong = hcq_dim(8, 4, 1);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *bad = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(q, fixed, &args, sizeof args, hcq_dim(5, 1, 1), right), 0);
    log_clear();
    CHECK_RESULT(hcq_queue_update_exec(q, 0, NULL, &wrong), HCQ_ERROR_INVALID);
    CHECK(log_has("8x4x2") && log_has("8x4x1"));
    log_clear();
    CHECK_INDEX(hcq_queue_exec(bad, fixed, &args, sizeof args, hcq_dim(5, 1, 1),
                               wrong), HCQ_ERROR_INVALID);
    CHECK(log_has("8x4x2") && log_has("8x4x1") && log_has("vk_fixed"));
    CHECK_OK(hcq_queue_reset(bad));
    log_clear();
    CHECK_INDEX(hcq_queue_exec(bad, ids, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(64, 64, 64)),
                HCQ_ERROR_INVALID);
    CHECK(log_has("64x64x64") && log_has("threads in all") && log_has("vk_ids"));
    CHECK_OK(hcq_queue_reset(bad));
    log_clear();
    CHECK_INDEX(hcq_queue_exec(bad, ids, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 0x40000000u)),
                HCQ_ERROR_INVALID);
    CHECK(log_has("1x1x1073741824"));
    CHECK_OK(hcq_queue_reset(bad));
    CHECK_INDEX(hcq_queue_exec(bad, ids, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(0x80000000u, 0x80000000u, 4)), HCQ_ERROR_INVALID);
    submit_and_wait(q, T.dev);         /* as it was before the update */
    CHECK_U64(READ32(dst, 0), 5 * 64 * 3);
    hcq_queue *most = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_OK(hcq_copyin(dst, (uint32_t[1]){0}, 4));
    CHECK_INDEX(hcq_queue_exec(most, ids, &args, sizeof args, hcq_dim(2, 1, 1),
                               hcq_dim(8, 4, 4)), 0);
    submit_and_wait(most, T.dev);
    CHECK_IDS(dst, hcq_dim(2, 1, 1), hcq_dim(8, 4, 4), 3, 64);
}

/* Two kernels: `first` stores 11 to word 0 of binding 0, `second` 22 to word 1:

       OpEntryPoint GLCompute %first "first" %words
       OpEntryPoint GLCompute %second "second" %words */
static const uint32_t two_kernels[] = {
    0x7230203,0x10500,0x0,0x13,0x0,0x20011,0x1,0x3000e,0x0,0x1,0x6000f,0x5,0x1,0x73726966,0x74,
    0x2,0x6000f,0x5,0x3,0x6f636573,0x646e,0x2,0x60010,0x1,0x11,0x1,0x1,0x1,0x60010,0x3,0x11,0x1,
    0x1,0x1,0x40047,0x4,0x6,0x4,0x50048,0x5,0x0,0x23,0x0,0x30047,0x5,0x2,0x40047,0x2,0x22,0x0,
    0x40047,0x2,0x21,0x0,0x20013,0x6,0x30021,0x7,0x6,0x40015,0x8,0x20,0x0,0x3001d,0x4,0x8,
    0x3001e,0x5,0x4,0x40020,0x9,0xc,0x5,0x40020,0xa,0xc,0x8,0x4002b,0x8,0xb,0x0,0x4002b,0x8,0xc,
    0x1,0x4002b,0x8,0xd,0xb,0x4002b,0x8,0xe,0x16,0x4003b,0x9,0x2,0xc,0x50036,0x6,0x1,0x0,0x7,
    0x200f8,0xf,0x60041,0xa,0x10,0x2,0xb,0xb,0x3003e,0x10,0xd,0x100fd,0x10038,0x50036,0x6,0x3,
    0x0,0x7,0x200f8,0x11,0x60041,0xa,0x12,0x2,0xb,0xc,0x3003e,0x12,0xe,0x100fd,0x10038
};

static void entry_points_by_name(void **state) {
    (void)state;
    static const char *const names[] = {"first", "second", "first"};
    const hcq_dims one = {1, 1, 1};
    hcq_program_desc desc = {"entry", NULL, {HCQ_ARG_OUT}, NULL, NULL,
                             {two_kernels, sizeof two_kernels, NULL}, {NULL, 0, NULL}, 0};
    for (uint32_t i = 0; i < 3; i++) {
        hcq_buffer dst = make_words(T.dev, 2);
        hcq_program *program = NULL;
        uint32_t want[2] = {i == 1 ? 0 : 11, i == 1 ? 22 : 0};
        desc.spirv.entry = names[i];
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        CHECK_OK(hcq_program_call(program, &dst, 1, NULL, 0, &one, &one, NULL));
        CHECK_BYTES(dst, want, sizeof want);
    }
    desc.spirv.entry = "third";
    REFUSED(&desc, HCQ_ERROR_INVALID, "third");
    desc.spirv.entry = NULL;           /* "main" */
    REFUSED(&desc, HCQ_ERROR_INVALID, "main");
    desc.spirv.entry = "";
    REFUSED(&desc, HCQ_ERROR_INVALID, "entry");
}

static void modules_have_to_be_there(void **state) {
    (void)state;
    hcq_program_desc desc = {"absent", NULL, {HCQ_ARG_OUT}, NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    REFUSED(&desc, HCQ_ERROR_NO_KERNEL, "spirv");
    desc.cpu = k_put;                  /* not for this device */
    hcq_program *program = NULL;
    CHECK_RESULT((hcq_program_create)(T.dev, &desc, &program), HCQ_ERROR_NO_KERNEL);
    desc.cpu = NULL;
    desc.spirv.data = two_kernels;
    REFUSED(&desc, HCQ_ERROR_NO_KERNEL, "spirv");
    desc.spirv.data = NULL;
    desc.spirv.size = sizeof two_kernels;
    CHECK(hcq_program_create(T.dev, &desc, &program) < 0);
}

/* The module may lie anywhere and go at once. */
static void modules_may_lie_anywhere(void **state) {
    (void)state;
    const hcq_dims one = {1, 1, 1};
    unsigned char *bytes = (unsigned char *)malloc(sizeof two_kernels + 3);
    for (uint32_t shift = 1; shift <= 3; shift++) {
        hcq_buffer dst = make_words(T.dev, 2);
        hcq_program_desc desc = {"odd", NULL, {HCQ_ARG_OUT}, NULL, NULL,
                                 {bytes + shift, sizeof two_kernels, "second"},
                                 {NULL, 0, NULL}, 0};
        hcq_program *program = NULL;
        memcpy(bytes + shift, two_kernels, sizeof two_kernels);
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        memset(bytes, 0xee, sizeof two_kernels + 3);
        CHECK_OK(hcq_program_call(program, &dst, 1, NULL, 0, &one, &one, NULL));
        CHECK_U64(READ32(dst, 1), 22);
    }
    free(bytes);
}

#define PROGRAM_TESTS                                                              \
    TEST(bindings_are_bound_and_patched), TEST(bindings_on_large_grids),           \
    TEST(bindings_end_with_the_buffer), TEST(misaligned_bindings_are_refused),     \
    TEST(arguments_have_to_fit), TEST(blocks_have_to_be_the_lists),                \
    TEST(blocks_have_to_fit), TEST(entry_points_by_name),                          \
    TEST(modules_have_to_be_there), TEST(modules_may_lie_anywhere),
