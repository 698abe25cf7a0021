/* programs.h - modules: what is refused and how it is told, blocks, dynamic shared
   memory, arguments of all kinds, NVRTC. Part of cuda.c. */

/* ---- entries and broken modules ---- */

static const char two_ptx[] = PTX_HEAD
    "// the text names ct_first in a comment: .entry ct_third(\n"
    ".visible .entry ct_first(.param .u64 dst) {\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %d<2>;\n"
    "    ld.param.u64 %d1, [dst];\n    mov.u32 %r1, 1;\n    st.u32 [%d1], %r1;\n    ret;\n}\n"
    ".visible .entry ct_second(.param .u64 dst) {\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %d<2>;\n"
    "    ld.param.u64 %d1, [dst];\n    mov.u32 %r1, 2;\n    st.u32 [%d1], %r1;\n    ret;\n}\n";

static const uint32_t out_list[] = {HCQ_ARG_OUT, 0};

static void own_first(const void *args, const uint32_t id[3], const uint32_t grid[3],
                       const uint32_t block[3]) {
    (void)id;
    (void)grid;
    (void)block;
    *HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args)) = 1;
}

static void own_second(const void *args, const uint32_t id[3], const uint32_t grid[3],
                        const uint32_t block[3]) {
    (void)id;
    (void)grid;
    (void)block;
    *HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args)) = 2;
}

/* Runs the kernel that the description leads to. */
static uint32_t which_runs(hcq_device *device, const char *entry, size_t size) {
    hcq_program_desc desc = ptx_desc(entry, two_ptx, out_list);
    hcq_program *program = NULL;
    hcq_buffer dst = make_words(device, 4);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    desc.label = "two";
    desc.ptx.size = size;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    CHECK_INDEX(hcq_queue_exec(q, program, &dst.address, sizeof dst.address, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 0);
    submit_and_wait(q, device);
    uint32_t which = READ32(dst, 0);
    hcq_queue_destroy(q);
    hcq_program_destroy(program);
    CHECK_OK(hcq_free(dst));
    return which;
}

static void entries_of_a_module(void **state) {
    (void)state;
    if (mocked) {
        M.kernel("ct_first", own_first);
        M.kernel("ct_second", own_second);
    }
    CHECK_U64(which_runs(T.dev, "ct_first", sizeof two_ptx), 1);
    CHECK_U64(which_runs(T.dev, "ct_second", sizeof two_ptx - 1), 2);
    CHECK_U64(which_runs(T.dev, "ct_second", 0), 2); /* text has an end */
    CHECK_U64(which_runs(T.dev, NULL, sizeof two_ptx), 1);
}

static void refused(const hcq_program_desc *desc, const char *text, const char *more) {
    hcq_program *program = NULL;
    log_clear();
    hcq_result r = hcq_program_create(T.dev, desc, &program);
    CHECK(r < 0 && program == NULL);
    if (!log_has(text) || !log_has(more)) {
        fprintf(stderr, "the log should have '%s' and '%s'\n", text, more);
        test_fail(__FILE__, __LINE__, "the log says something else");
    }
}

static void broken_modules(void **state) {
    (void)state;
    static const char unknown[] = PTX_HEAD
        ".visible .entry ct_first(.param .u64 dst) {\n    frobnicate.u32 %r1, %r2;\n    ret;\n}\n";
    static const char other_head[] = ".version 6.0\n.target sm_999\n.address_size 64\n"
        ".visible .entry ct_first() {\n    ret;\n}\n";
    static const char no_entry[] = PTX_HEAD ".visible .global .u32 word;\n";
    hcq_program_desc desc = ptx_desc("ct_third", two_ptx, out_list);
    desc.label = "broken";
    refused(&desc, "ct_third", "broken");
    desc.ptx.data = unknown;
    desc.ptx.size = sizeof unknown;
    desc.ptx.entry = "ct_first";
    refused(&desc, "frobnicate", "broken"); /* the compiler's own words */
    desc.ptx.data = other_head;
    desc.ptx.size = sizeof other_head;
    refused(&desc, "sm_999", "broken");
    desc.ptx.data = no_entry;
    desc.ptx.size = sizeof no_entry;
    desc.ptx.entry = NULL;
    refused(&desc, "entry", "broken");
    desc.ptx.data = "";
    desc.ptx.size = 1;
    refused(&desc, "broken", "");
    desc.ptx.data = NULL;
    desc.ptx.size = 0;
    refused(&desc, "", "");
}

/* Text that ends where it does, not at a zero behind it. */
static void text_without_a_zero(void **state) {
    (void)state;
    char *text = (char *)malloc(sizeof two_ptx + 8);
    hcq_program *program = NULL;
    hcq_program_desc desc = ptx_desc("ct_second", two_ptx, out_list);
    memcpy(text, two_ptx, sizeof two_ptx - 1);
    memset(text + sizeof two_ptx - 1, '%', 8);
    desc.ptx.data = text;
    CHECK_OK(hcq_program_create(T.dev, &desc, &program));
    memset(text, 0, sizeof two_ptx); /* it was read */
    free(text);
    hcq_program_destroy(program);
}

/* ELF and fatbin go to the driver as they are; without an entry nobody knows what is
   meant. */
static void binary_modules(void **state) {
    (void)state;
    static const unsigned char cubin[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    static const unsigned char fatbin[64] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0};
    const unsigned char *const both[2] = {cubin, fatbin};
    NEEDS_MOCK();
    M.kernel("ct_second", own_second);
    for (uint32_t i = 0; i < 2; i++) {
        hcq_program_desc desc = ptx_desc("ct_second", "", out_list);
        hcq_program *program = NULL;
        hcq_buffer dst = make_words(T.dev, 4);
        desc.ptx.data = both[i];
        desc.ptx.size = 64;
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK(hcq_queue_exec(q, program, &dst.address, sizeof dst.address, hcq_dim(1, 1, 1),
                             hcq_dim(1, 1, 1)) == 0);
        submit_and_wait(q, T.dev);
        CHECK_U64(READ32(dst, 0), 2);
        hcq_queue_destroy(q);
        hcq_program_destroy(program);
        desc.ptx.entry = NULL;
        refused(&desc, "entry", "");
        desc.ptx.entry = "ct_unknown";
        refused(&desc, "ct_unknown", "");
    }
}

/* ---- drivers without a compiler ---- */

/* The machine has none (221), or one that is too old for the text (222). */
static void no_compiler(void **state) {
    (void)state;
    static const char new_ptx[] = ".version 99.0\n.target sm_50\n.address_size 64\n"
        ".visible .entry ct_first(.param .u64 dst) {\n    ret;\n}\n";
    NEEDS_MOCK();
    mock_cuda_desc desc = mock_wanted();
    hcq_program_desc text = ptx_desc("ct_first", new_ptx, out_list);
    hcq_program *program = NULL;
    text.label = "newer";
    hcq_device *device = test_open(0, NULL);
    log_clear();
    CHECK_RESULT(hcq_program_create(device, &text, &program), HCQ_ERROR_NO_KERNEL);
    CHECK(log_has("222") && log_has("newer"));
    CHECK_OK(hcq_close(device));
    desc.flags |= MOCK_CUDA_NO_JIT;
    M.setup(&desc);
    device = test_open(0, NULL);
    CHECK_U64(info_of(device).device_times, 0);
    CHECK(!has_feature(device, HCQ_FEATURE_PROFILING));
    log_clear();
    text = ptx_desc("ct_second", two_ptx, out_list);
    CHECK(hcq_program_create(device, &text, &program) < 0);
    CHECK(log_has("221"));
    fills_with(device, 8, 8, 0x1020304050607080u, 0); /* all else works */
    fills_with(device, 8, 0, 0x1020304050607080u, 1);
    CHECK_OK(hcq_close(device));
}

/* Times come from the host, and say so; within its clock. */
static void times_without_a_compiler(void **state) {
    (void)state;
    hcq_device *device = device_with(HCQ_CUDA_NO_JIT, 1, 1);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    uint64_t last = 0;
    CHECK(!has_feature(device, HCQ_FEATURE_PROFILING));
    CHECK_INDEX(hcq_queue_write(q, make_words(device, 4), 1, 4), 0);
    CHECK_INDEX(hcq_queue_timestamp(q, s), 1);
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t stamp = 0, before = hcq_sys_now_ns();
        submit_and_wait(q, device);
        uint64_t after = hcq_sys_now_ns();
        hcq_clock clock = CLOCK_OF(device);
        CHECK_OK(hcq_signal_timestamp(s, &stamp));
        uint64_t host = hcq_clock_to_host(&clock, stamp);
        CHECK(host + clock.error_ns >= before && host <= after + clock.error_ns);
        CHECK(stamp >= last);
        last = stamp;
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

/* ---- blocks and grids ---- */

static const char bounded_ptx[] = PTX_HEAD
    ".visible .entry ct_bounded(.param .u64 dst)\n.maxntid 256, 1, 1\n{\n    ret;\n}\n";

/* What a launch would refuse is refused when it is recorded, with the numbers. */
static void blocks_that_do_not_fit(void **state) {
    (void)state;
    static const struct { uint32_t x, y, z; int fits; } blocks[] = {
        {1024, 1, 1, 1}, {1025, 1, 1, 0}, {32, 32, 1, 1}, {32, 33, 1, 0}, {1, 1, 64, 1},
        {1, 1, 65, 0}, {16, 1, 64, 1}, {2048, 1, 1, 0}, {65536, 65536, 1, 0}, {1, 1024, 1, 1},
        {0xffffffffu, 1, 1, 0}, {4096, 1024, 1024, 0}, {0, 0, 0, 1},
    };
    hcq_program *count = make_own(T.dev, "ct_count", count_list);
    hcq_buffer dst = make_words(T.dev, 4);
    uint32_t want = 0;
    for (uint32_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_dims block = hcq_dim(blocks[i].x, blocks[i].y, blocks[i].z);
        log_clear();
        int32_t r = hcq_queue_exec(q, count, &dst.address, sizeof dst.address, hcq_dim(1, 1, 1),
                                   block);
        CHECK_INDEX(r, blocks[i].fits ? 0 : HCQ_ERROR_INVALID);
        CHECK(blocks[i].fits || (log_has("ct_count") && log_has("threads")) || log_has("block"));
        if (blocks[i].fits) {
            submit_and_wait(q, T.dev);
            want += block.x ? block.x * block.y * block.z : 1;
            hcq_dims more = hcq_dim(1025, 1, 1);
            CHECK_RESULT(hcq_queue_update_exec(q, 0, NULL, &more), HCQ_ERROR_INVALID);
            submit_and_wait(q, T.dev); /* as it was */
            want += block.x ? block.x * block.y * block.z : 1;
        }
        hcq_queue_destroy(q);
    }
    CHECK_U64(READ32(dst, 0), want);
    hcq_program_desc desc = ptx_desc("ct_bounded", bounded_ptx, count_list);
    hcq_program *bounded = NULL;
    CHECK_OK(hcq_program_create(T.dev, &desc, &bounded));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_dims one = hcq_dim(1, 1, 1);
    CHECK_INDEX(hcq_queue_exec(q, bounded, &dst.address, sizeof dst.address, one,
                               hcq_dim(256, 1, 1)), 0);
    log_clear();
    CHECK_INDEX(hcq_queue_exec(q, bounded, &dst.address, sizeof dst.address, one,
                               hcq_dim(257, 1, 1)),
                HCQ_ERROR_INVALID);
    CHECK(log_has("256") && log_has("257"));
    hcq_queue_destroy(q);
}

/* Grids of all shapes: also with y and z beyond what CUDA takes at once. */
static void grids_of_all_shapes(void **state) {
    (void)state;
    static const hcq_dims grids[] = {
        {1, 1, 1}, {7, 5, 3}, {70000, 1, 1}, {1, 70000, 1}, {1, 1, 70000}, {2, 65536, 1},
        {1, 2, 65537}, {0, 5, 5}, {3, 0, 0}, {100, 65535, 0},
    };
    enum { WORDS = 100 * 65535 };
    hcq_program *count = make_own(T.dev, "ct_count", count_list);
    hcq_buffer dst = make_words(T.dev, WORDS);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    uint32_t *got = (uint32_t *)malloc(WORDS * sizeof *got);
    CHECK_INDEX(hcq_queue_fill(q, dst, WORDS * 4, 0, 4), 0);
    CHECK_INDEX(hcq_queue_exec(q, count, &dst.address, sizeof dst.address, hcq_dim(1, 1, 1),
                               hcq_dim(2, 2, 2)), 1);
    for (uint32_t bound = 0; bound < 2; bound++) {
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        for (uint32_t i = 0; i < sizeof grids / sizeof grids[0] - (T.quick ? 1 : 0); i++) {
            hcq_dims grid = grids[i];
            uint32_t blocks = grid.x * grid.y * grid.z, bad = 0;
            hcq_result r = hcq_queue_update_exec(q, 1, &grid, NULL);
            if (r == HCQ_OK) {
                hcq_point done;
                r = hcq_queue_submit(q, T.dev, &done);
                r = r == HCQ_OK ? hcq_wait(&done, 1, HCQ_ALL, 6 * BOUND) : r;
            }
            if (r != HCQ_OK) {         /* refused, with the limit */
                CHECK((grid.y > 65535 || grid.z > 65535) && log_has("65535"));
                continue;
            }
            CHECK_OK(hcq_copyout(got, dst, (uint64_t)WORDS * 4));
            for (uint32_t k = 0; k < WORDS; k++) {
                bad += got[k] != (k < blocks ? 8u : 0u);
            }
            CHECK_U64(bad, 0);
        }
    }
    free(got);
    hcq_queue_destroy(q);
}

/* ---- shared memory ---- */

static void dynamic_shared_memory(void **state) {
    (void)state;
    static const struct { uint32_t bytes; int works; } sizes[] = {
        {0, 1}, {1000, 1}, {48 * 1024, 1}, {48 * 1024 + 16, 1}, {227 * 1024, 1},
        {227 * 1024 + 1, 0}, {0x7fffffff, 0}, {0xffffffffu, 0},
    };
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hcq_program_desc desc = ptx_desc("ct_count", count_ptx, count_list);
        hcq_program *program = NULL;
        hcq_cuda_program_info info;
        desc.shared_bytes = sizes[i].bytes;
        uint64_t set = calls_of("cuFuncSetAttribute");
        log_clear();
        hcq_result r = hcq_program_create(T.dev, &desc, &program);
        CHECK((r == HCQ_OK) == sizes[i].works);
        CHECK(r == HCQ_OK || (log_has("shared") && log_has("232448")));
        CHECK(!sizes[i].works || sizes[i].bytes <= 48 * 1024 ||
              calls_of("cuFuncSetAttribute") > set);
        if (r == HCQ_OK) {
            hcq_buffer dst = make_words(T.dev, 4);
            hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
            memset(&info, 0, sizeof info);
            CHECK_OK(hcq_cuda_program(program, &info));
            CHECK_U64(info.dynamic_bytes, sizes[i].bytes);
            hcq_dims grid = hcq_dim(2, 1, 1), block = hcq_dim(3, 1, 1);
            CHECK_INDEX(hcq_queue_exec(q, program, &dst.address, sizeof dst.address, grid,
                                       block), 0);
            CHECK_INDEX(hcq_queue_exec(q, program, &dst.address, sizeof dst.address, grid,
                                       block), 1);
            submit_and_wait(q, T.dev);
            CHECK_OK(hcq_queue_bind(q, T.dev));
            submit_and_wait(q, T.dev);
            CHECK_U64(READ32(dst, 1), 12);
            hcq_queue_destroy(q);
        }
        hcq_program_destroy(program);
    }
}

static void programs_are_described(void **state) {
    (void)state;
    hcq_program *spin = make_own(T.dev, "ct_spin", spin_list);
    hcq_cuda_program_info info;
    memset(&info, 0, sizeof info);
    CHECK_OK(hcq_cuda_program(spin, &info));
    CHECK(info.function != NULL && info.max_threads >= 1 && info.max_threads <= 1024);
    CHECK(info.registers > 0 && info.shared_bytes == 0 && info.dynamic_bytes == 0);
    CHECK(info.ptx_version == 60 || !mocked);
    CHECK(info.binary_version >= 30);
    hcq_program_destroy(spin);
}

/* ---- arguments ---- */

typedef struct odd_struct { uint8_t bytes[48]; } odd_struct;

typedef struct all_args {              /* the list below, as C has it */
    uint64_t dst;
    int32_t a;
    uint64_t b;
    float c;
    double d;
    uint32_t e;
    uint8_t f[3];
    uint16_t g[5];
    _Alignas(16) odd_struct h;
    uint32_t i;
} all_args;

static const char all_ptx[] = PTX_HEAD
    ".visible .entry ct_all(.param .u64 dst, .param .s32 a, .param .u64 b, .param .f32 c,\n"
    "    .param .f64 d, .param .u32 e, .param .align 1 .b8 f[3], .param .align 2 .b8 g[10],\n"
    "    .param .align 16 .b8 h[48], .param .u32 i) {\n"
    "    .reg .b32 %r<4>;\n    .reg .b64 %d<4>;\n"
    "    ld.param.u64 %d1, [dst];\n    ld.param.u32 %r1, [i];\n    st.u32 [%d1], %r1;\n"
    "    ld.param.u64 %d2, [b];\n    st.u64 [%d1+8], %d2;\n"
    "    ld.param.u32 %r2, [h+44];\n    st.u32 [%d1+16], %r2;\n"
    "    ld.param.u64 %d3, [d];\n    st.u64 [%d1+24], %d3;\n    ret;\n}\n";

static void own_all(const void *args, const uint32_t id[3], const uint32_t grid[3],
                     const uint32_t block[3]) {
    all_args k;
    memcpy(&k, args, offsetof(all_args, i) + 4); /* no byte behind the last one is there */
    unsigned char *dst = HCQ_PTR(unsigned char, k.dst);
    (void)id;
    (void)grid;
    (void)block;
    memcpy(dst, &k.i, 4);
    memcpy(dst + 8, &k.b, 8);
    memcpy(dst + 16, k.h.bytes + 44, 4);
    memcpy(dst + 24, &k.d, 8);
    if (k.a != -5 || k.c != 1.5f || k.e != 0xabcdef01u || k.f[2] != 3 || k.g[4] != 50000) {
        memset(dst, 0, 4);
    }
}

static void arguments_of_all_kinds(void **state) {
    (void)state;
    static const uint32_t list[] = {
        HCQ_ARG_OUT, HCQ_ARG_I32, HCQ_ARG_U64, HCQ_ARG_F32, HCQ_ARG_F64, HCQ_ARG_U32,
        HCQ_ARG_STRUCT(3, 1), HCQ_ARG_STRUCT(10, 2), HCQ_ARG_STRUCT(48, 16), HCQ_ARG_U32, 0
    };
    hcq_program_desc desc = ptx_desc("ct_all", all_ptx, list);
    hcq_program *program = NULL;
    hcq_buffer dst = make_words(T.dev, 8);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    all_args args;
    if (mocked) {
        M.kernel("ct_all", own_all);
    }
    memset(&args, 0, sizeof args);
    args.dst = dst.address;
    args.a = -5;
    args.b = 0x1234567887654321u;
    args.c = 1.5f;
    args.d = -2.25;
    args.e = 0xabcdef01u;
    args.f[2] = 3;
    args.g[4] = 50000;
    memset(args.h.bytes + 44, 0x6b, 4);
    args.i = 99;
    CHECK_OK(hcq_program_create(T.dev, &desc, &program));
    CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 0);
    CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    for (uint32_t bound = 0; bound < 2; bound++) {
        uint32_t want[8] = {99 + bound, 0, 0x87654321u, 0x12345678u, 0x6b6b6b6bu, 0, 0, 0};
        memcpy(want + 6, &args.d, 8);
        submit_and_wait(q, T.dev);
        CHECK_BYTES(dst, want, sizeof want);
        CHECK_OK(hcq_queue_bind(q, T.dev));
        uint32_t next = 100;
        CHECK_OK(hcq_queue_update_arg(q, 1, 9, &next, 4));
    }
    hcq_queue_destroy(q);
}

static const char none_ptx[] = PTX_HEAD ".visible .entry ct_none() {\n    ret;\n}\n";

static void own_none(const void *args, const uint32_t id[3], const uint32_t grid[3],
                      const uint32_t block[3]) {
    (void)args;
    (void)id;
    (void)grid;
    (void)block;
}

/* No argument at all, and more than a launch takes. */
static void arguments_none_and_too_many(void **state) {
    (void)state;
    static const uint32_t none[] = {0};
    static const uint32_t large[] = {HCQ_ARG_STRUCT(40000, 16), 0};
    hcq_program_desc desc = ptx_desc("ct_none", none_ptx, none);
    hcq_program *program = NULL;
    if (mocked) {
        M.kernel("ct_none", own_none);
    }
    CHECK_OK(hcq_program_create(T.dev, &desc, &program));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(q, program, NULL, 0, hcq_dim(9, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_INDEX(hcq_queue_exec(q, program, NULL, 0, hcq_dim(9, 1, 1), hcq_dim(1, 1, 1)), 1);
    submit_and_wait(q, T.dev);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    submit_and_wait(q, T.dev);
    hcq_queue_destroy(q);
    desc = ptx_desc("ct_none", none_ptx, large);
    log_clear();
    CHECK_RESULT(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_LIMIT);
    CHECK(log_has("ct_none") && (log_has("4096") || log_has("32764")));
    const uint32_t most = log_has("4096") ? 4096 : 32764;
    for (uint32_t bytes = most - 1; bytes <= most + 1; bytes++) {
        const uint32_t list[] = {HCQ_ARG_STRUCT(bytes, 1), 0}; /* not what the text says, either */
        desc = ptx_desc("ct_none", none_ptx, list);
        hcq_result made = hcq_program_create(T.dev, &desc, &program);
        CHECK_U64(made == HCQ_ERROR_LIMIT, bytes > most);
    }
}

/* A program goes while what names it still runs. */
static void programs_go_while_they_run(void **state) {
    (void)state;
    gates g;
    gates_open(&g, T.dev);
    hcq_buffer words = make_words(T.dev, 4);
    hcq_program *step = make_own(T.dev, "ct_step", step_list);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(record_spin(q, &g, 0), 0);
    CHECK_INDEX(record_step(q, step, words, 0, words, 1, 1, 5), 1);
    hcq_point done = submit_of(q, T.dev);
    gate_until_begun(&g, 0);
    hcq_program_destroy(step);
    hcq_program_destroy(g.spin);
    hcq_queue_destroy(q);
    gate_let(&g, 0);
    WAIT_OK(done);
    CHECK_U64(READ32(words, 0), 5);
}

/* ---- NVRTC ---- */

/* A library that "compiles" a source by giving back what stands behind "//PTX", unless
   it says error; and writes its options into the log. */
static const char nvrtc_source[] =
    "#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n"
    "typedef struct prog { char *source; char log[4096]; } prog;\n"
    "int nvrtcVersion(int *a, int *b) { *a = 12; *b = 4; return 0; }\n"
    "const char *nvrtcGetErrorString(int r) { return r ? \"NVRTC_ERROR_COMPILATION\" : \"OK\"; }\n"
    "int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }\n"
    "int nvrtcGetSupportedArchs(int *a) { *a = 90; return 0; }\n"
    "int nvrtcCreateProgram(prog **p, const char *source, const char *name, int n,\n"
    "                       const char *const *headers, const char *const *names) {\n"
    "    *p = calloc(1, sizeof **p);\n    (*p)->source = strdup(source);\n    return 0;\n}\n"
    "int nvrtcDestroyProgram(prog **p) {\n"
    "    free((*p)->source);\n    free(*p);\n    *p = 0;\n    return 0;\n}\n"
    "int nvrtcCompileProgram(prog *p, int n, const char *const *options) {\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        strcat(p->log, options[i]);\n        strcat(p->log, \" \");\n    }\n"
    "    if (!strstr(p->source, \"error\")) { return 0; }\n"
    "    strcat(p->log, \"line 1: this is an error\");\n    return 6;\n}\n"
    "static const char *text(prog *p) {\n"
    "    const char *t = strstr(p->source, \"//PTX\\n\");\n    return t ? t + 6 : \"\";\n}\n"
    "int nvrtcGetPTXSize(prog *p, size_t *n) { *n = strlen(text(p)) + 1; return 0; }\n"
    "int nvrtcGetPTX(prog *p, char *t) { strcpy(t, text(p)); return 0; }\n"
    "int nvrtcGetProgramLogSize(prog *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }\n"
    "int nvrtcGetProgramLog(prog *p, char *t) { strcpy(t, p->log); return 0; }\n";

static char nvrtc_folder[] = "/tmp/hcq-nvrtc.XXXXXX";

static void nvrtc_build(char *path, size_t size) {
    char command[512];
    const char *cc = getenv("CC");
    CHECK(mkdtemp(nvrtc_folder) != NULL);
    snprintf(path, size, "%s/nvrtc.c", nvrtc_folder);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(nvrtc_source, file) >= 0 && fclose(file) == 0);
    snprintf(command, sizeof command, "%s -shared -fPIC -w -o %s/libnvrtc.so %s", cc ? cc : "cc",
             nvrtc_folder, path);
    CHECK(system(command) == 0);
    snprintf(path, size, "%s/libnvrtc.so", nvrtc_folder);
}

static void source_is_compiled(void **state) {
    (void)state;
    static char path[128], source[4096];
    const char *const options[] = {"--use_fast_math", "-DTWO=2"};
    hcq_code code = {NULL, 0, NULL};
    hcq_program *program = NULL;
    NEEDS_MOCK();
    snprintf(source, sizeof source, "extern \"C\" __global__ void ct_second(unsigned *dst) {}\n"
             "//PTX\n%s", two_ptx);
    log_clear();
    CHECK_RESULT(hcq_cuda_compile(T.dev, source, NULL, 0, &code), HCQ_ERROR_UNSUPPORTED);
    CHECK(log_has("NVRTC"));        /* this machine has none */
    nvrtc_build(path, sizeof path);
    test_nvrtc = path;
    hcq_device *device = device_with(0, 1, 1);
    log_clear();
    CHECK_OK(hcq_cuda_compile(device, source, options, 2, &code));
    CHECK(log_has("--use_fast_math") && log_has("-DTWO=2") && log_has("arch"));
    CHECK(code.data != NULL && code.size > 0);
    hcq_program_desc desc = ptx_desc("ct_second", "", out_list);
    desc.ptx.data = code.data;
    desc.ptx.size = code.size;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    hcq_cuda_code_free(device, &code);
    CHECK(code.data == NULL);
    hcq_cuda_code_free(device, &code); /* nothing */
    log_clear();
    CHECK_RESULT(hcq_cuda_compile(device, "an error", NULL, 0, &code), HCQ_ERROR_NATIVE);
    CHECK(log_has("this is an error"));
    CHECK_OK(hcq_close(device));
    test_nvrtc = "libnvrtc-of-no-machine.so";
    snprintf(source, sizeof source, "rm -rf %s", nvrtc_folder);
    CHECK(system(source) == 0);
}

#define PROGRAM_TESTS                                                              \
    TEST(entries_of_a_module), TEST(broken_modules), TEST(text_without_a_zero),    \
    TEST(binary_modules), TEST_ALONE(no_compiler), TEST(times_without_a_compiler), \
    TEST(blocks_that_do_not_fit), TEST(grids_of_all_shapes),                       \
    TEST(dynamic_shared_memory), TEST(programs_are_described),                     \
    TEST(arguments_of_all_kinds), TEST(arguments_none_and_too_many),               \
    TEST(programs_go_while_they_run), TEST(source_is_compiled),
