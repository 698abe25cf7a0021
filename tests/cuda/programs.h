/* programs.h - modules: what is refused and how it is told, blocks, grids, dynamic
   shared memory, NVRTC. Part of cuda.c. */
#pragma once

#include "kernels.h"
#include "shared.h"

/* Runs the kernel that the description leads to: the word that it writes. */
static uint32_t which_runs(const hcq_program_desc *desc) {
    hcq_program *program = NULL;
    hcq_buffer dst = make_words(T.dev, 4);
    CHECK_OK(hcq_program_create(T.dev, desc, &program));
    CHECK_OK(hcq_program_call(program, &dst.address, 8, dims_one, dims_one, NULL));
    uint32_t which = READ32(dst, 0);
    hcq_program_destroy(program);
    CHECK_OK(hcq_free(dst));
    return which;
}

static void refused(const hcq_program_desc *desc, const char *text) {
    hcq_program *program = NULL;
    log_clear();
    hcq_result r = hcq_program_create(T.dev, desc, &program);
    CHECK(r < 0 && program == NULL);
    CHECK(log_has(text) && (!desc->label || log_has(desc->label)));
}

/* ---- entries and broken modules ---- */

TEST(entries_of_a_module) {
    hcq_program_desc first = own_desc("ct_first", NULL), second = own_desc("ct_second", NULL);
    char *text = (char *)malloc(sizeof two_ptx + 8);
    CHECK_U64(which_runs(&first), 1);
    CHECK_U64(which_runs(&second), 2);
    second.ptx.size = 0;               /* text has an end */
    CHECK_U64(which_runs(&second), 2);
    second.ptx.size = sizeof two_ptx - 1; /* or it ends where it does, at no zero */
    memcpy(text, two_ptx, sizeof two_ptx - 1);
    memset(text + sizeof two_ptx - 1, '%', 8);
    second.ptx.data = text;
    CHECK_U64(which_runs(&second), 2);
    second.ptx.data = two_ptx;
    second.ptx.entry = NULL;
    CHECK_U64(which_runs(&second), 1);
    free(text);
}

/* Equal code is loaded once for all its kernels, while there is a program of it; text of
   the same length that differs in its last character is another. */
TEST(equal_code_is_loaded_once) {
    char *copy = strdup(two_ptx);
    hcq_buffer dst = make_words(T.dev, 4);
    NEEDS_MOCK();
    for (uint32_t round = 0; round < 3; round++) {
        const uint64_t loads = calls_of("cuModuleLoadDataEx");
        hcq_program *programs[4];
        copy[strlen(copy) - 1] = round == 2 ? ' ' : two_ptx[strlen(copy) - 1];
        for (uint32_t i = 0; i < 4; i++) {
            hcq_program_desc desc = own_desc(i & 1 ? "ct_second" : "ct_first", i < 2 ? NULL : copy);
            CHECK_OK(hcq_program_create(T.dev, &desc, &programs[i]));
        }
        CHECK_U64(calls_of("cuModuleLoadDataEx") - loads, round == 2 ? 2 : 1);
        for (uint32_t i = 0; i < 4; i++) {
            hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_exec(q, programs[i], &dst.address, 8, dims_one, dims_one), 0);
            hcq_program_destroy(programs[i]);
            submit_and_wait(q, T.dev);
            hcq_queue_destroy(q);
            CHECK_U64(READ32(dst, 0), 1 + (i & 1));
        }
    }
    free(copy);
}

TEST(line_numbers_are_asked_for) {
    for (uint32_t i = 0; i < 3; i++) { /* without, with, with, which is loaded by now */
        hcq_program_desc desc = own_desc("ct_first", NULL);
        const uint64_t lines = stats_now().line_numbers;
        hcq_program *program = NULL;
        desc.flags = i != 0 ? HCQ_PROGRAM_LINES : 0;
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        CHECK_U64(stats_now().line_numbers - lines, mocked && i == 1);
    }
}

#define EMPTY_KERNEL ".visible .entry ct_first(.param .u64 dst) {\n    ret;\n}\n"

TEST(broken_modules) {
    static const struct { const char *ptx, *entry, *text; } cases[] = {
        {two_ptx, "ct_third", "ct_third"},
        {PTX_HEAD ".visible .entry ct_first(.param .u64 dst) {\n    frobnicate.u32 %r1, %r2;\n"
         "    ret;\n}\n", "ct_first", "frobnicate"}, /* the compiler's own words */
        {".version 6.0\n.target sm_999\n.address_size 64\n" EMPTY_KERNEL, "ct_first", "sm_999"},
        {PTX_HEAD ".visible .global .u32 word;\n", NULL, "entry"},
        {"", NULL, ""},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hcq_program_desc desc = own_desc("ct_first", cases[i].ptx);
        desc.label = "broken";
        desc.ptx.size++;
        desc.ptx.entry = cases[i].entry;
        refused(&desc, cases[i].text);
    }
}

/* ELF and fatbin go to the driver as they are; without an entry nobody knows what is
   meant. */
TEST(binary_modules) {
    static const unsigned char both[2][64] = {{0x7f, 'E', 'L', 'F', 2, 1, 1},
                                              {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0}};
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 2; i++) {
        hcq_program_desc desc = own_desc("ct_second", NULL);
        desc.ptx.data = both[i];
        desc.ptx.size = 64;
        CHECK_U64(which_runs(&desc), 2);
        desc.ptx.entry = NULL;
        refused(&desc, "entry");
        desc.ptx.entry = "ct_unknown";
        refused(&desc, "ct_unknown");
    }
}

/* The machine has no compiler (221), or one that is too old for the text (222). */
TEST_ALONE(no_compiler) {
    NEEDS_MOCK();
    hcq_program_desc text = own_desc("ct_first", ".version 99.0\n.target sm_50\n"
                                     ".address_size 64\n" EMPTY_KERNEL);
    hcq_program *program = NULL;
    hcq_device *device = test_open(0, NULL);
    CHECK_RESULT(hcq_program_create(device, &text, &program), HCQ_ERROR_NO_KERNEL);
    CHECK(log_has("222") && log_has("ct_first"));
    CHECK_OK(hcq_close(device));
    mock_again(MOCK_CUDA_NO_JIT, 0);
    device = test_open(0, NULL);
    CHECK_U64(info_of(device).device_times, 0);
    CHECK(!has_feature(device, HCQ_FEATURE_PROFILING));
    text = own_desc("ct_second", NULL);
    CHECK(hcq_program_create(device, &text, &program) < 0);
    CHECK(log_has("221"));
    fills_with(device, 8, 8, 0x1020304050607080u, 0); /* all else works */
    fills_with(device, 8, 0, 0x1020304050607080u, 1);
    CHECK_OK(hcq_close(device));
}

/* ---- blocks and grids ---- */

/* Grids and blocks of all shapes, recorded, and as updates of a bound queue: what CUDA
   would not launch is refused before, with the numbers. */
TEST(launches_of_all_shapes) {
    static const struct { hcq_dims grid, block; const char *refusal; } rows[] = {
        {{7, 5, 3}, {1024, 1, 1}, NULL}, {{1, 1, 1}, {1025, 1, 1}, "threads"},
        {{3, 1, 1}, {32, 32, 1}, NULL}, {{1, 1, 1}, {32, 33, 1}, "threads"},
        {{1, 2, 1}, {1, 1, 64}, NULL}, {{1, 1, 1}, {1, 1, 65}, "block"},
        {{1, 1, 2}, {16, 1, 64}, NULL}, {{1, 1, 1}, {65536, 65536, 1}, "block"},
        {{1, 1, 1}, {1, 1024, 1}, NULL}, {{1, 1, 1}, {0xffffffffu, 1, 1}, "block"},
        {{1, 1, 1}, {4096, 1024, 1024}, "block"}, {{1, 1, 1}, {0, 0, 0}, NULL},
        {{70000, 1, 1}, {2, 2, 2}, NULL}, {{2, 65535, 1}, {1, 1, 1}, NULL},
        {{1, 65536, 1}, {1, 1, 1}, "65535"}, {{1, 1, 65535}, {2, 1, 1}, NULL},
        {{1, 1, 65536}, {1, 1, 1}, "65535"}, {{0, 5, 5}, {1, 1, 1}, NULL},
        {{3, 0, 0}, {1, 1, 1}, NULL}
    };
    enum { WORDS = 2 * 65536 };
    static uint32_t want[WORDS];
    hcq_program *count = make_own(T.dev, "ct_count");
    hcq_buffer dst = make_words(T.dev, WORDS);
    for (uint32_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const hcq_dims grid = rows[i / 2].grid, block = rows[i / 2].block;
        const uint32_t threads = block.x ? block.x * block.y * block.z : 1, updated = i % 2;
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_point done;
        CHECK_INDEX(hcq_queue_fill(q, dst, WORDS * 4, 0, 4), 0);
        log_clear();
        int32_t r = hcq_queue_exec(q, count, &dst.address, 8, updated ? dims_one : grid,
                                   updated ? dims_one : block);
        if (updated) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
            r = hcq_queue_update_exec(q, 1, &grid, &block);
        }
        r = r < 0 ? r : hcq_queue_submit(q, T.dev, &done);
        r = r < 0 ? r : hcq_wait(&done, 1, HCQ_ALL, 6 * BOUND);
        CHECK(rows[i / 2].refusal ? r < 0 && log_has(rows[i / 2].refusal) : r == HCQ_OK);
        for (uint32_t k = 0; k < WORDS; k++) {
            want[k] = k < grid.x * grid.y * grid.z ? threads : 0;
        }
        if (r == HCQ_OK) {
            CHECK_BYTES(dst, want, sizeof want);
        } else if (updated && r == HCQ_ERROR_INVALID) {
            submit_and_wait(q, T.dev); /* as it was */
            CHECK_U64(READ32(dst, 0), 1);
        }
        hcq_queue_destroy(q);
    }
}

/* ... and what the kernel itself does not allow. */
TEST(blocks_of_a_bounded_kernel) {
    hcq_program_desc desc = own_desc("ct_count", PTX_HEAD
                                     ".visible .entry ct_count(.param .u64 dst)\n"
                                     ".maxntid 256, 1, 1\n{\n    ret;\n}\n");
    hcq_program *bounded = NULL;
    CHECK_OK(hcq_program_create(T.dev, &desc, &bounded));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer dst = make_words(T.dev, 4);
    log_clear();
    for (uint32_t threads = 256; threads <= 257; threads++) {
        CHECK_INDEX(hcq_queue_exec(q, bounded, &dst.address, 8, dims_one, hcq_dim(threads, 1, 1)),
                    threads == 256 ? 0 : HCQ_ERROR_INVALID);
    }
    CHECK(log_has("ct_count") && log_has("256") && log_has("257"));
}

/* ---- shared memory, arguments ---- */

TEST(dynamic_shared_memory) {
    static const struct { uint32_t bytes; int works; } sizes[] = {
        {0, 1}, {1000, 1}, {48 * 1024, 1}, {48 * 1024 + 16, 1}, {227 * 1024, 1},
        {227 * 1024 + 1, 0}, {0x7fffffff, 0}, {0xffffffffu, 0},
    };
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hcq_program_desc desc = own_desc("ct_first", NULL);
        hcq_program *program = NULL;
        hcq_cuda_program_info info = {0};
        desc.shared_bytes = sizes[i].bytes;
        if (!sizes[i].works) {
            refused(&desc, "shared");
            CHECK(log_has("232448"));
            continue;
        }
        uint64_t set = calls_of("cuFuncSetAttribute");
        CHECK_OK(hcq_program_create(T.dev, &desc, &program));
        CHECK(sizes[i].bytes <= 48 * 1024 || calls_of("cuFuncSetAttribute") > set);
        CHECK_OK(hcq_cuda_program(program, &info));
        CHECK_U64(info.dynamic_bytes, sizes[i].bytes);
        CHECK(info.function != NULL && info.max_threads >= 1 && info.max_threads <= 1024);
        CHECK(info.registers > 0 && info.shared_bytes == 0 && info.ptx_version == 60);
        CHECK(info.const_bytes == 4 && info.local_bytes == 24);
        CHECK_U64(info.binary_version, info_of(T.dev).capability);
        hcq_buffer dst = make_words(T.dev, 4);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_fill(q, dst, 16, 0, 4), 0);
        CHECK_INDEX(hcq_queue_exec(q, program, &dst.address, 8, dims_one, dims_one), 1);
        for (uint32_t bound = 0; bound < 2; bound++) {
            CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
            submit_and_wait(q, T.dev);
            CHECK_U64(READ32(dst, 0), 1);
        }
    }
}

static void log_destroys(void *user, hcq_result result, const char *text) {
    hcq_program **program = (hcq_program **)user;
    if (result == HCQ_ERROR_LIMIT && strstr(text, "shared memory")) {
        hcq_program_destroy(*program);
        *program = NULL;
    }
}

/* Whoever reads the line may destroy another program of the module. */
TEST(refused_and_destroyed) {
    hcq_program_desc desc = own_desc("ct_first", NULL);
    hcq_program *same = NULL, *refused = NULL;
    hcq_device *device = OPEN_WITH(0, .log_fn = log_destroys, .log_user = &same);
    CHECK_OK(hcq_program_create(device, &desc, &same));
    desc.shared_bytes = UINT32_MAX;
    CHECK_RESULT(hcq_program_create(device, &desc, &refused), HCQ_ERROR_LIMIT);
    CHECK(same == NULL && refused == NULL);
    CHECK_OK(hcq_close(device));
}

/* More arguments than a launch takes, by the driver and the device. */
TEST(too_many_arguments) {
    hcq_program_desc desc = own_desc("ct_first", NULL);
    hcq_program *program = NULL;
    desc.args[0] = HCQ_ARG_STRUCT(40000, 16);
    CHECK_RESULT(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_LIMIT);
    CHECK(log_has("ct_first") && (log_has("4096") || log_has("32764")));
    const uint32_t most = log_has("4096") ? 4096 : 32764;
    for (uint32_t bytes = most - 1; bytes <= most + 1; bytes++) {
        desc.args[0] = HCQ_ARG_STRUCT(bytes, 1); /* not what the text says, either */
        hcq_result made = hcq_program_create(T.dev, &desc, &program);
        CHECK_U64(made == HCQ_ERROR_LIMIT, bytes > most);
    }
    desc.ptx.takes_grid = 1;           /* which is 12 bytes behind them, on all drivers */
    for (uint32_t bytes = 4083; bytes <= 4085; bytes++) {
        desc.args[0] = HCQ_ARG_STRUCT(bytes, 1);
        hcq_result made = hcq_program_create(T.dev, &desc, &program);
        CHECK_U64(made == HCQ_ERROR_LIMIT, bytes > 4084);
    }
}

/* The fewest that a kernel can have; alone, and in a graph. */
TEST(one_byte_of_arguments) {
    hcq_program *program = make_own(T.dev, "ct_byte");
    for (uint8_t i = 1; i < 3; i++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q, program, &i, 1, dims_one, dims_one), 0);
        CHECK_OK(i == 1 ? HCQ_OK : hcq_queue_bind(q, T.dev));
        submit_and_wait(q, T.dev);
        CHECK(!mocked || __atomic_load_n(&byte_taken, __ATOMIC_SEQ_CST) == i);
    }
}

/* ---- NVRTC, which the mock is, too ---- */

TEST(source_is_compiled) {
    static char source[4096];
    const char *const options[] = {"--use_fast_math", "-DTWO=2",
                                   "--gpu-architecture=compute_80", "--gpu-architecture=sm_91"};
    hcq_code code = {NULL, 0, NULL, 0};
    NEEDS_MOCK();
    snprintf(source, sizeof source, "extern \"C\" __global__ void ct_second(unsigned *dst) {}\n"
             "//PTX\n%s", two_ptx);
    CHECK_RESULT(hcq_cuda_compile(T.dev, source, NULL, 0, &code), HCQ_ERROR_UNSUPPORTED);
    CHECK(log_has("NVRTC"));           /* this machine has none */
    test_nvrtc = test_cuda_library;
    CHECK_OK(hcq_cuda_compile(T.dev, source, options, 2, &code));
    CHECK(log_has("--use_fast_math") && log_has("-DTWO=2") && log_has("arch"));
    CHECK(log_has("HCQ_OK: ") && !log_has("HCQ_ERROR_NATIVE")); /* they are no errors */
    hcq_program_desc desc = own_desc("ct_second", NULL);
    for (uint32_t count = 2; count < 4; count++) { /* for the device itself: no driver compiles it */
        CHECK_OK(count == 2 ? HCQ_OK : hcq_cuda_compile(T.dev, source, options, count, &code));
        CHECK_U64(memcmp(code.data, count == 2 ? "\177ELF" : ".ver", 4), 0);
        desc.ptx = code;
        desc.ptx.entry = "ct_second";
        CHECK_U64(which_runs(&desc), 2);
        hcq_cuda_code_free(T.dev, &code);
        CHECK(code.data == NULL);
    }
    CHECK_RESULT(hcq_cuda_compile(T.dev, source, options, 4, &code), HCQ_ERROR_NATIVE);
    hcq_cuda_code_free(T.dev, &code);  /* nothing */
    CHECK_RESULT(hcq_cuda_compile(T.dev, "an error", NULL, 0, &code), HCQ_ERROR_NATIVE);
    CHECK(log_has("this is an error"));
    test_nvrtc = no_nvrtc;
}
