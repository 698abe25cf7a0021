/* spirv.c - what the Vulkan backend reads from SPIR-V modules, by its internal
   name: good ones, refused ones with their reasons, and broken ones, which must
   neither crash it nor keep it busy. No Vulkan is needed.

   Modules: tests/vulkan/spirv/, of which spirv_modules.sh makes spirv_modules.h. */
#define HCQ_IMPLEMENTATION
#define HCQ_VULKAN
#include "../../hcq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "spirv_modules.h"

enum {
    VERSION = 0x00010600,              /* highest that is allowed here */
    HEADER = 5,                        /* words */
    BIG = 8 << 20                      /* words of a module made to take long */
};

#define NO UINT32_MAX

typedef struct module {
    const char *name;
    const uint32_t *words;
    size_t size;                       /* bytes */
    const char *entry;                 /* NULL: "main" */
    const char *refused;               /* part of the reason, NULL: it is taken */
    hcqi_vk_shader wanted;
} module;

#define MODULE(name_) .name = #name_, .words = spirv_##name_, .size = sizeof spirv_##name_

/* args, buffers, uniform, uniform_bytes, push_bytes, block, spec_id, needs, subgroups, type */
static const module modules[] = {
    {MODULE(pointer),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, {1, 1, 1}, {0, 1, 2},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(pointer_nested),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, {8, 4, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(pointer_uint64),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES | HCQI_VK_NEEDS_INT64, 0, 0}},
    {MODULE(pointer_uvec2),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(bindings_push),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 2, NO, 0, 80, {1, 2, 1}, {3, NO, NO},
                HCQI_VK_NEEDS_FLOAT64, 0, 0}},
    {MODULE(size_id),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 2, NO, 0, 80, {1, 2, 1}, {3, NO, NO},
                HCQI_VK_NEEDS_FLOAT64 | HCQI_VK_NEEDS_LOCAL_SIZE_ID, 0, 0}},
    {MODULE(bindings_uniform),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, 1, 388, 0, {64, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(values),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 0, NO, 0, 8, {1, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(nothing),
     .wanted = {HCQI_VK_ARGS_NONE, 0, NO, 0, 0, {32, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(types),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 3, NO, 0, 3, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_INT64 | HCQI_VK_NEEDS_FLOAT64 | HCQI_VK_NEEDS_FLOAT16 |
                    HCQI_VK_NEEDS_INT8 | HCQI_VK_NEEDS_STORAGE16 | HCQI_VK_NEEDS_STORAGE8 |
                    HCQI_VK_NEEDS_ATOMIC64 | HCQI_VK_NEEDS_MEMORY_MODEL |
                    HCQI_VK_NEEDS_SUBGROUPS | HCQI_VK_NEEDS_PUSH16 | HCQI_VK_NEEDS_PUSH8,
                VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, 0}},
    {MODULE(old_block),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, NO, 0, 0, {7, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two), .entry = "one",
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, NO, 0, 0, {16, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two), .entry = "two",
     .wanted = {HCQI_VK_ARGS_BINDINGS, 2, NO, 0, 8, {4, 2, 3}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two), .entry = "three",
     .refused = "it has \"one\" (compute), \"two\" (compute), \"three\" (vertex)"},
    {MODULE(two), .refused = "no entry point \"main\" for compute"},
    {MODULE(vertex), .refused = "it has \"main\" (vertex)"},
    {MODULE(kernel), .refused = "OpenCL"},
    {MODULE(hole), .refused = "no storage buffer at binding 1"},
    {MODULE(set_1), .refused = "binding 0 is in set 1"},
    {MODULE(image), .refused = "binding 1 of set 0 is an image;"},
    {MODULE(sampler), .refused = "is an image with a sampler"},
    {MODULE(descriptors), .refused = "is an array of descriptors"},
    {MODULE(two_uniforms), .refused = "uniform blocks at bindings 1 and 2"},
    {MODULE(uniform_first), .refused = "the uniform block has binding 0"},
    {MODULE(both), .refused = "a uniform block and push constants"},
    {MODULE(atomic_float), .refused = "AtomicFloat32AddEXT, number 6033"},
};

enum { MODULES = sizeof modules / sizeof modules[0] };

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t limit) { /* splitmix64 */
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

#define TEST_ARGS void **state __attribute__((unused))

/* ---- what modules say ------------------------------------------------------ */

static void modules_say_what_they_are(TEST_ARGS) {
    for (int i = 0; i < MODULES; i++) {
        const module *m = &modules[i];
        hcqi_vk_shader shader;
        char text[400];
        int taken = hcqi_vk_shader_read(m->words, m->size, m->entry, VERSION, &shader, text,
                                        sizeof text);
        shader.block_type = 0;         /* an id: whichever */
        if (taken ? m->refused || text[0] || memcmp(&shader, &m->wanted, sizeof shader) != 0
                  : !m->refused || !strstr(text, m->refused)) {
            fail_msg("%s, entry %s: %s \"%s\", needs 0x%x, block %u %u %u", m->name,
                     m->entry ? m->entry : "main", taken ? "taken" : "refused:", text,
                     (unsigned)shader.needs, (unsigned)shader.block[0], (unsigned)shader.block[1],
                     (unsigned)shader.block[2]);
        }
    }
}

/* ---- the block against a list of arguments --------------------------------- */

#define B HCQ_ARG_INOUT
#define U HCQ_ARG_U32
#define F HCQ_ARG_F32
#define D HCQ_ARG_F64
#define L HCQ_ARG_U64
#define RAW(size, align) HCQ_ARG_STRUCT(size, align)

typedef struct list {
    const char *name;
    const uint32_t *words;
    size_t size;
    uint32_t args[HCQ_MAX_ARGS];
    const char *refused;               /* part of the reason, NULL: it fits */
} list;

#define LIST(name_) .name = #name_, .words = spirv_##name_, .size = sizeof spirv_##name_

static const list lists[] = {
    {LIST(block_plain), .args = {B, B, U, F}},
    {LIST(block_plain), .args = {B, B, F, U}},             /* 4 bytes are 4 bytes */
    {LIST(block_plain), .args = {B, B, U, F, D, B}},       /* the shader has a prefix */
    {LIST(block_plain), .args = {B, B, L}},                /* both halves of a number */
    {LIST(block_plain), .args = {L, B, U, F}},             /* an address as a value */
    {LIST(block_plain), .args = {RAW(24, 8)}},             /* whatever it holds */
    {LIST(block_plain), .args = {B, RAW(8, 8), U, F}},
    {LIST(block_plain), .args = {B, U, F},
     .refused = "the shader's block has 24 bytes, the list of arguments makes 16"},
    {LIST(block_plain), .args = {B, B}, .refused = "has 24 bytes, the list of arguments makes 16"},
    {LIST(block_plain), .args = {B, B, U},
     .refused = "the shader's block has a number at byte 20, where no argument is"},
    {LIST(block_plain), .args = {B, B, B}, .refused = "argument 2 is a buffer of 8 bytes at byte "
     "16; the shader's block has a number of 4 bytes at byte 16"},
    {LIST(block_plain), .args = {B, U, F, U, F}, .refused = "argument 1 is a value of 4 bytes at "
     "byte 8; the shader's block has a pointer of 8 bytes at byte 8"},
    {LIST(block_plain), .args = {U, B, B, U, F}, .refused = "argument 0 is a value of 4 bytes at "
     "byte 0; the shader's block has a pointer of 8 bytes at byte 0"},
    {LIST(block_plain), .args = {B, B, HCQ_ARG_STRUCT(2, 2), HCQ_ARG_STRUCT(2, 2), F}},
    {LIST(block_wide), .args = {B, B, B, B, B, U, U, U, U, U}},
    {LIST(block_wide), .args = {B, B, B, B, B, L, RAW(12, 4)}},
    {LIST(block_wide), .args = {B, B, B, U, U, B, U, U, U, U, U}, .refused = "argument 3 is a "
     "value of 4 bytes at byte 24; the shader's block has a pointer of 8 bytes at byte 24"},
    {LIST(block_odd), .args = {B, B, RAW(16, 16), U, D, D, U}},
    {LIST(block_odd), .args = {B, B, F, F, F, F, U, D, D}},
    {LIST(block_odd), .args = {B, B, F, F, F, F, U, U, F, F, F, F, U}},
    {LIST(block_odd), .args = {B, B, F, F, F, F, B, D, D}, .refused = "argument 6 is a buffer of 8 "
     "bytes at byte 32; the shader's block has a number of 4 bytes at byte 32"},
    {LIST(block_odd), .args = {U, U, B, F, F, F, F, U, D, D}},
    {LIST(block_odd), .args = {U, B, F, F, F, F, U, D, D}, .refused = "argument 0 is a value of 4 "
     "bytes at byte 0; the shader's block has a number of 8 bytes at byte 0"},
    {LIST(block_odd), .args = {B, B, F, F, D, U, D, D}}, /* halves of a number again */
    {LIST(block_odd), .args = {B, B, F, F, B, U, D, D}, .refused = "argument 4 is a buffer of 8 "
     "bytes at byte 24; the shader's block has a number of 16 bytes at byte 16"},
    {LIST(pointer), .args = {B, U}},
    {LIST(pointer), .args = {U, B}, .refused = "argument 0 is a value"},
    {LIST(pointer_uint64), .args = {U, U, U}},             /* it does not say */
    {LIST(pointer_uvec2), .args = {D}},
    {LIST(bindings_push), .args = {B, B, U, F, RAW(48, 16), D, D}},
    {LIST(bindings_push), .args = {U, B, F, B, RAW(48, 16), D, D}}, /* buffers do not count */
    {LIST(bindings_push), .args = {B, B, U, F},
     .refused = "the shader's block has 80 bytes, the list of arguments makes 8"},
};

static void blocks_are_held_against_lists(TEST_ARGS) {
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const list *l = &lists[i];
        hcq_program_desc desc;
        hcqi_vk_program p;
        char text[400] = "";
        memset(&desc, 0, sizeof desc);
        memset(&p, 0, sizeof p);
        memcpy(desc.args, l->args, sizeof desc.args);
        memcpy(p.args, l->args, sizeof p.args);
        p.code = l->words;
        p.code_size = l->size;
        assert_true(hcqi_program_layout(&desc, &p.info));
        assert_true(hcqi_vk_shader_read(l->words, l->size, "main", VERSION, &p.shader, text,
                                        sizeof text));
        int fits = hcqi_vk_program_holds(&p, text, sizeof text);
        if (fits ? l->refused != NULL || text[0] : !l->refused || !strstr(text, l->refused)) {
            fail_msg("%s, list %u: %s \"%s\"", l->name, (unsigned)i, fits ? "taken" : "refused:",
                     text);
        }
    }
}

/* The first module with a word replaced, cut, or of a version that is not known. */
static void headers_are_checked(TEST_ARGS) {
    enum { SIZE = sizeof spirv_pointer };
    static const struct {
        uint32_t at, word;
        size_t size;
        uint32_t version;
        const char *reason;
    } cases[] = {
        {0, 0x03022307, SIZE, VERSION, "other byte order"},
        {0, 0x464c457f, SIZE, VERSION, "no SPIR-V: it begins with 0x464c457f"},
        {1, 0x00010600, SIZE, 0x00010500, "SPIR-V 1.6 (0x00010600)"},
        {1, 0x00000900, SIZE, VERSION, "SPIR-V 0.9"},
        {1, 0x00010501, SIZE, VERSION, "(0x00010501)"},
        {3, 0, SIZE, VERSION, "bound 0"},
        {3, 0x400000, SIZE, VERSION, "bound 4194304"},
        {3, 5, SIZE, VERSION, "it says that its ids are 1 to 4"},
        {4, 1, SIZE, VERSION, "schema 1"},
        {0, 0x07230203, SIZE - 4, VERSION, "is cut off at word"},
        {0, 0x07230203, SIZE - 2, VERSION, "cannot have"},
        {0, 0x07230203, HEADER * 4, VERSION, "cannot have 20 bytes"},
        {0, 0x07230203, 0, VERSION, "cannot have 0 bytes"},
        {HEADER, 0xffff0011, SIZE, VERSION, "is cut off at word"},
        {HEADER, 0x00000011, SIZE, VERSION, "no length"},
        {HEADER, 0x00010011, SIZE, VERSION, "too short"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t words[SIZE / 4];
        hcqi_vk_shader shader;
        char text[400];
        memcpy(words, spirv_pointer, SIZE);
        words[cases[i].at] = cases[i].word;
        assert_false(hcqi_vk_shader_read(words, cases[i].size, "main", cases[i].version, &shader,
                                         text, sizeof text));
        if (!strstr(text, cases[i].reason)) {
            fail_msg("wanted \"%s\", got \"%s\"", cases[i].reason, text);
        }
    }
}

static void texts_are_cut(TEST_ARGS) {
    hcqi_vk_shader shader;
    char text[16];
    memset(text, 'x', sizeof text);
    assert_false(hcqi_vk_shader_read(NULL, 100, "main", VERSION, &shader, text, 8));
    assert_string_equal(text, "a modul");
    assert_true(text[8] == 'x');
    assert_false(hcqi_vk_shader_read(NULL, 100, "main", VERSION, &shader, text, 1));
    assert_string_equal(text, "");
    assert_false(hcqi_vk_shader_read(NULL, 100, "main", VERSION, &shader, NULL, 0));
}

/* ---- broken modules --------------------------------------------------------- */

/* Reads a copy that ends where its memory does and begins at an odd address. */
static void survives(const void *words, size_t size, const char *entry) {
    uint8_t *copy = (uint8_t *)malloc(size + 1);
    hcqi_vk_shader shader;
    char text[80];
    assert_non_null(copy);
    memcpy(copy + 1, words, size);
    int taken = hcqi_vk_shader_read(copy + 1, size, entry, VERSION, &shader, text, sizeof text);
    assert_true(taken == (text[0] == 0)); /* refused always with a reason */
    if (taken) {                       /* what is broken behind the block, too */
        const hcqi_vk_field fields[2] = {{0, 0, 8, 1, 0}, {1, 8, 4, 0, 0}};
        int fits = hcqi_vk_block_hold(words, size, &shader, fields, 2, text, sizeof text);
        assert_true(fits == (text[0] == 0));
    }
    free(copy);
}

static void every_beginning_is_survived(TEST_ARGS) {
    for (int i = 0; i < MODULES; i++) {
        for (size_t size = 0; size <= modules[i].size; size++) {
            survives(modules[i].words, size, modules[i].entry);
        }
    }
}

/* Every word in turn becomes: special values, itself with a bit changed, other words. */
static void words_changed(const module *m, uint32_t *words) {
    static const uint32_t values[] = {0, 1, 2, 3, 5, 28, 30, 32, 0xffff, 0x10000, 0x1e0002,
                                      0x7fffffff, 0x80000000, 0xffff0000, 0xffffffff};
    enum { VALUES = sizeof values / sizeof values[0], WAYS = VALUES + 32 + 8 };
    uint32_t count = (uint32_t)(m->size / 4);
    for (uint32_t at = 0; at < count; at++) {
        uint32_t old = words[at];
        for (uint32_t way = 0; way < WAYS; way++) {
            words[at] = way < VALUES        ? values[way]
                        : way < VALUES + 32 ? old ^ 1u << (way - VALUES)
                                            : m->words[random_below(count)];
            survives(words, m->size, m->entry);
        }
        words[at] = old;
    }
}

/* Several words changed, half of them into other words of the module. */
static void words_changed_at_random(const module *m, uint32_t *words) {
    uint32_t count = (uint32_t)(m->size / 4);
    for (int round = 0; round < 1000; round++) {
        memcpy(words, m->words, m->size);
        for (uint32_t changes = random_below(6) + 1; changes; changes--) {
            uint32_t at = HEADER + random_below(count - HEADER);
            words[at] = random_below(2) ? m->words[random_below(count)] : random_below(64);
        }
        survives(words, m->size, m->entry);
    }
}

static void changed_words_are_survived(TEST_ARGS) {
    for (int i = 0; i < MODULES; i++) {
        uint32_t *words = (uint32_t *)malloc(modules[i].size);
        assert_non_null(words);
        memcpy(words, modules[i].words, modules[i].size);
        words_changed(&modules[i], words);
        words_changed_at_random(&modules[i], words);
        free(words);
    }
}

/* ---- modules made here ------------------------------------------------------- */

typedef struct big {
    uint32_t *words;
    uint32_t count;
} big;

static void put(big *b, uint32_t code, uint32_t operands, ...) {
    va_list rest;
    va_start(rest, operands);
    assert_true(b->count + operands < BIG);
    b->words[b->count++] = (operands + 1) << 16 | code;
    for (uint32_t i = 0; i < operands; i++) {
        b->words[b->count++] = va_arg(rest, uint32_t);
    }
    va_end(rest);
}

/* Up to the types; the entry point names `named` variables, ids from 1000 on. */
static void begin(big *b, uint32_t named) {
    const uint32_t header[HEADER] = {0x07230203, 0x00010500, 0, 0x3fffff, 0};
    memcpy(b->words, header, sizeof header);
    b->count = HEADER;
    put(b, HCQI_VK_OP_CAPABILITY, 1u, 1u);
    put(b, HCQI_VK_OP_MEMORY_MODEL, 2u, 0u, 1u);
    put(b, HCQI_VK_OP_ENTRY_POINT, 4u, 5u, 1u, 0x6e69616du, 0u);
    b->words[b->count - 5] += named << 16;
    for (uint32_t i = 0; i < named; i++) {
        b->words[b->count++] = 1000 + 2 * i;
    }
    put(b, HCQI_VK_OP_MODE, 5u, 1u, 17u, 1u, 1u, 1u);
    put(b, HCQI_VK_OP_VOID, 1u, 2u);
}

static void put_main(big *b) {
    put(b, HCQI_VK_OP_FUNCTION, 4u, 2u, 1u, 0u, 2u);
    put(b, HCQI_VK_OP_LABEL, 1u, 5u);
    put(b, HCQI_VK_OP_FUNCTION_END, 0u);
}

static void refused_soon(big *b, const char *reason) {
    hcqi_vk_shader shader;
    char text[200];
    put_main(b);
    uint64_t start = hcq_sys_now_ns();
    assert_false(hcqi_vk_shader_read(b->words, (size_t)b->count * 4, "main", VERSION, &shader,
                                     text, sizeof text));
    uint64_t ns = hcq_sys_now_ns() - start;
    if (!strstr(text, reason)) {
        fail_msg("wanted \"%s\", got \"%s\"", reason, text);
    }
    if (ns > 10000000000u) { /* 20 ms on an idle machine; linear, not quadratic */
        fail_msg("%llu ms", (unsigned long long)(ns / 1000000));
    }
}

static void put_variables(big *b, uint32_t step) {
    put(b, HCQI_VK_OP_STRUCT, 1u, 3u);
    put(b, HCQI_VK_OP_DECORATE, 2u, 3u, (uint32_t)HCQI_VK_BLOCK);
    put(b, HCQI_VK_OP_POINTER, 3u, 4u, (uint32_t)HCQI_VK_CLASS_STORAGE, 3u);
    for (uint32_t i = 0; i < 400000; i++) {
        uint32_t id = 1000 + i * step;
        put(b, HCQI_VK_OP_DECORATE, 3u, id, (uint32_t)HCQI_VK_SET, 0u);
        put(b, HCQI_VK_OP_DECORATE, 3u, id, (uint32_t)HCQI_VK_BINDING, i % 32);
        put(b, HCQI_VK_OP_VARIABLE, 3u, 4u, id, (uint32_t)HCQI_VK_CLASS_STORAGE);
    }
}

/* A struct in a struct in a struct ... */
static void put_nested(big *b, uint32_t depth) {
    enum { FIRST = 100000 };
    put(b, HCQI_VK_OP_INT, 3u, (uint32_t)FIRST, 32u, 0u);
    for (uint32_t i = FIRST; i < FIRST + depth; i++) {
        put(b, HCQI_VK_OP_STRUCT, 3u, i + 1, i, i);
        put(b, HCQI_VK_OP_MEMBER_DECORATE, 4u, i + 1, 0u, (uint32_t)HCQI_VK_OFFSET, 0u);
        put(b, HCQI_VK_OP_MEMBER_DECORATE, 4u, i + 1, 1u, (uint32_t)HCQI_VK_OFFSET, 4u);
    }
    put(b, HCQI_VK_OP_DECORATE, 2u, FIRST + depth, (uint32_t)HCQI_VK_BLOCK);
    put(b, HCQI_VK_OP_POINTER, 3u, 999u, (uint32_t)HCQI_VK_CLASS_PUSH, FIRST + depth);
    put(b, HCQI_VK_OP_VARIABLE, 3u, 999u, 1000u, (uint32_t)HCQI_VK_CLASS_PUSH);
}

static void huge_modules_end_soon(TEST_ARGS) {
    const char *reason = "too large or too tangled";
    big b = {(uint32_t *)calloc(BIG, 4), 0};
    assert_non_null(b.words);
    begin(&b, 1);
    put_variables(&b, 0);              /* all of one id */
    refused_soon(&b, reason);
    begin(&b, 60000);
    put_variables(&b, 1);
    refused_soon(&b, reason);
    begin(&b, 1);
    put_nested(&b, 400000);
    refused_soon(&b, reason);
    free(b.words);
}

/* Each struct has the one before twice: a walk through all of it would not end. */
static void tangled_blocks_end_soon(TEST_ARGS) {
    const hcqi_vk_field field = {0, 0, 4, 0, 0};
    hcqi_vk_shader shader;
    char text[200];
    big b = {(uint32_t *)calloc(BIG, 4), 0};
    assert_non_null(b.words);
    begin(&b, 1);
    put_nested(&b, 30);
    put_main(&b);
    size_t size = (size_t)b.count * 4;
    assert_true(hcqi_vk_shader_read(b.words, size, "main", VERSION, &shader, text, sizeof text));
    assert_false(hcqi_vk_block_hold(b.words, size, &shader, &field, 1, text, sizeof text));
    assert_non_null(strstr(text, "too large or too tangled"));
    free(b.words);
}

static void odd_declarations_are_refused(TEST_ARGS) {
    big b = {(uint32_t *)calloc(BIG, 4), 0};
    assert_non_null(b.words);
    begin(&b, 1);
    put_nested(&b, 40);
    refused_soon(&b, "is nested too deeply");
    begin(&b, 1);
    put(&b, HCQI_VK_OP_MEMBER_DECORATE, 4u, 100001u, 2u, (uint32_t)HCQI_VK_OFFSET, 8u);
    put_nested(&b, 1);                 /* a struct with members 0 and 1 */
    refused_soon(&b, "uses id 0");
    begin(&b, 0);
    put(&b, HCQI_VK_OP_ENTRY_POINT, 3u, 5u, 1u, 0x61616161u);
    refused_soon(&b, "does not end");
    begin(&b, 0);
    put(&b, HCQI_VK_OP_GROUP, 1u, 7u);
    refused_soon(&b, "groups of decorations");
    begin(&b, 0);
    put(&b, HCQI_VK_OP_MEMORY_MODEL, 2u, 0u, 1u);
    refused_soon(&b, "2 memory models");
    begin(&b, 0);
    put(&b, HCQI_VK_OP_CAPABILITY, 1u, 12345u);
    refused_soon(&b, "number 12345");
    free(b.words);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_say_what_they_are),
        cmocka_unit_test(blocks_are_held_against_lists),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(texts_are_cut),
        cmocka_unit_test(every_beginning_is_survived),
        cmocka_unit_test(changed_words_are_survived),
        cmocka_unit_test(huge_modules_end_soon),
        cmocka_unit_test(tangled_blocks_end_soon),
        cmocka_unit_test(odd_declarations_are_refused),
    };
    return cmocka_run_group_tests_name("spirv", tests, NULL, NULL);
}
