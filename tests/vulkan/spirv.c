/* spirv.c - what the Vulkan backend reads from SPIR-V modules, by its internal
   name: good ones, refused ones with their reasons, and broken ones, which must
   neither crash it nor keep it busy; and types of memory. No Vulkan is needed.

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
#include "support/chance.h"

enum {
    VERSION = 0x00010600,              /* highest that is allowed here */
    HEADER = 5,                        /* words */
    BIG = 6 << 20,                     /* words of a module made to take long */
#ifdef __SANITIZE_ADDRESS__
    EACH = 4                           /* of the ways to change a word, in turns */
#else
    EACH = 1
#endif
};

#define NO UINT32_MAX
#define B HCQ_ARG_INOUT
#define U HCQ_ARG_U32
#define F HCQ_ARG_F32
#define D HCQ_ARG_F64
#define L HCQ_ARG_U64
#define RAW(size, align) HCQ_ARG_STRUCT(size, align)

/* In all instructions `code` the word `at` becomes `to` where it is `from`; word 0: the
   instruction's number. */
typedef struct change {
    uint32_t code, at, from, to;
} change;

typedef struct module {
    const char *name;
    const uint32_t *words;
    size_t size;                       /* bytes */
    const char *entry;                 /* NULL: "main" */
    change change;
    uint32_t args[HCQ_MAX_ARGS];       /* that its block is held against, if any */
    const char *refused;               /* part of the reason, NULL: it is taken */
    hcqi_vk_shader wanted;             /* where there are no arguments */
} module;

#define MODULE(name_) .name = #name_, .words = spirv_##name_, .size = sizeof spirv_##name_

/* args, buffers, uniform, uniform_bytes, push_bytes, base, before_base, block, spec_id, needs,
   subgroups */
static const module modules[] = {
    {MODULE(pointer),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, NO, 0, {1, 1, 1}, {0, 1, 2},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(pointer), .change = {51, 0, 51, 44}, /* a plain vector of those constants */
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, NO, 0, {1, 1, 1}, {0, 1, 2},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(pointer_nested),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, NO, 0, {8, 4, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(pointer_uint64),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 8, NO, 0, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES | HCQI_VK_NEEDS_INT64, 0, 0}},
    {MODULE(bindings_push),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 2, NO, 0, 80, NO, 0, {1, 2, 1}, {3, NO, NO},
                HCQI_VK_NEEDS_FLOAT64, 0, 0}},
    {MODULE(size_id),
     .wanted = {HCQI_VK_ARGS_NONE, 0, NO, 0, 0, NO, 0, {1, 2, 1}, {3, NO, NO},
                HCQI_VK_NEEDS_LOCAL_SIZE_ID, 0, 0}},
    {MODULE(bindings_uniform),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, 1, 388, 0, NO, 0, {64, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(values),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 0, NO, 0, 8, NO, 0, {1, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(nothing),
     .wanted = {HCQI_VK_ARGS_NONE, 0, NO, 0, 0, NO, 0, {32, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(types),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 3, NO, 0, 3, NO, 0, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_INT64 | HCQI_VK_NEEDS_FLOAT64 | HCQI_VK_NEEDS_FLOAT16 |
                    HCQI_VK_NEEDS_INT8 | HCQI_VK_NEEDS_STORAGE16 | HCQI_VK_NEEDS_STORAGE8 |
                    HCQI_VK_NEEDS_ATOMIC64 | HCQI_VK_NEEDS_MEMORY_MODEL |
                    HCQI_VK_NEEDS_PUSH16 | HCQI_VK_NEEDS_PUSH8,
                VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, 0}},
    {MODULE(old_block),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, NO, 0, 0, NO, 0, {7, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, NO, 0, 0, NO, 0, {16, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two), .entry = "two",
     .wanted = {HCQI_VK_ARGS_BINDINGS, 2, NO, 0, 8, NO, 0, {4, 2, 3}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two), .entry = "three", .refused = "no entry point \"three\" for compute; it has "
     "\"main\" (compute), \"two\" (compute), \"three\" (vertex)"},
    {MODULE(base_pointer),
     .wanted = {HCQI_VK_ARGS_POINTER, 0, NO, 0, 28, 16, 8, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(base_pointer), .change = {72, 4, 16, 32}, /* elsewhere it is none */
     .wanted = {HCQI_VK_ARGS_BINDINGS, 0, NO, 0, 44, 32, 8, {1, 1, 1}, {NO, NO, NO},
                HCQI_VK_NEEDS_ADDRESSES, 0, 0}},
    {MODULE(base_push),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, NO, 0, 28, 16, 8, {1, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(base_uniform),
     .wanted = {HCQI_VK_ARGS_BINDINGS, 1, 1, 4, 12, 0, 0, {1, 1, 1}, {NO, NO, NO}, 0, 0, 0}},
    {MODULE(two_uniforms), .refused = "uniform blocks at bindings 1 and 2"},
    {MODULE(both), .refused = "a uniform block and push constants"},
    {MODULE(bindings_push), .change = {71, 3, 1, 2}, .refused = "no storage buffer at binding 1"},
    {MODULE(bindings_push), .change = {71, 3, 0, 1}, .refused = "is in set 1"},
    {MODULE(bindings_uniform), .change = {71, 3, 1, 0},
     .refused = "the uniform block has binding 0"},
    {MODULE(two), .change = {30, 0, 30, 25}, .refused = "binding 0 of set 0 is an image;"},
    {MODULE(two), .change = {30, 0, 30, 27}, .refused = "is an image with a sampler"},
    {MODULE(two), .change = {30, 0, 30, 29}, .refused = "is an array of descriptors"},
    {MODULE(values), .change = {72, 2, 1, 2}, .refused = "has no offsets"}, /* one of two */
    {MODULE(two), .change = {71, 0, 71, 14}, .refused = "those of Vulkan are 0 or 5348"},
    {MODULE(nothing), .change = {15, 4, 0, 0x61616161}, .refused = "does not end"},

    /* The block against a list of arguments. */
    {MODULE(block_plain), .args = {B, B, U, F}},
    {MODULE(block_plain), .args = {B, B, F, U}},             /* 4 bytes are 4 bytes */
    {MODULE(block_plain), .args = {B, B, U, F, D, B}},       /* the shader has a prefix */
    {MODULE(block_plain), .args = {B, B, L}},                /* both halves of a number */
    {MODULE(block_plain), .args = {L, B, U, F}},             /* an address as a value */
    {MODULE(block_plain), .args = {RAW(24, 8)}},             /* whatever it holds */
    {MODULE(block_plain), .args = {B, RAW(8, 8), U, F}},
    {MODULE(block_plain), .args = {B, U, F},
     .refused = "the shader's block has 24 bytes, the list of arguments makes 16"},
    {MODULE(block_plain), .args = {B, B, U},
     .refused = "the shader's block has a number at byte 20, where no argument is"},
    {MODULE(block_plain), .args = {B, B, B}, .refused = "argument 2 is a buffer of 8 bytes at byte "
     "16; the shader's block has a number of 4 bytes at byte 16"},
    {MODULE(block_plain), .args = {B, U, F, U, F}, .refused = "argument 1 is a value of 4 bytes at "
     "byte 8; the shader's block has a pointer of 8 bytes at byte 8"},
    {MODULE(block_plain), .args = {B, B, HCQ_ARG_STRUCT(2, 2), HCQ_ARG_STRUCT(2, 2), F}},
    {MODULE(block_wide), .args = {B, B, B, B, B, U, U, U, U, U}},
    {MODULE(block_wide), .args = {B, B, B, B, B, L, RAW(12, 4)}},
    {MODULE(block_odd), .args = {B, B, RAW(16, 16), U, D, D, U}},
    {MODULE(block_odd), .args = {B, B, F, F, F, F, U, D, D}},
    {MODULE(block_odd), .args = {B, B, F, F, F, F, U, U, F, F, F, F, U}},
    {MODULE(block_odd), .args = {U, U, B, F, F, F, F, U, D, D}},
    {MODULE(block_odd), .args = {U, B, F, F, F, F, U, D, D},
     .refused = "argument 0 is a value of 4 "
     "bytes at byte 0; the shader's block has a number of 8 bytes at byte 0"},
    {MODULE(block_odd), .args = {B, B, F, F, D, U, D, D}}, /* halves of a number again */
    {MODULE(block_odd), .args = {B, B, F, F, B, U, D, D}, .refused = "argument 4 is a buffer of 8 "
     "bytes at byte 24; the shader's block has a number of 16 bytes at byte 16"},
    {MODULE(pointer), .args = {B, U}},
    {MODULE(pointer_uint64), .args = {U, U, U}},             /* it does not say */
    {MODULE(pointer_uint64), .args = {D}},
    {MODULE(bindings_push), .args = {B, B, U, F, RAW(48, 16), D, D}},
    {MODULE(bindings_push), .args = {U, B, F, B, RAW(48, 16), D, D}}, /* buffers do not count */
    {MODULE(bindings_push), .args = {B, B, U, F},
     .refused = "the shader's block has 80 bytes, the list of arguments makes 8"},

    /* What ends the push constants: a base behind the values, else a value. */
    {MODULE(base_pointer), .args = {B, U}},
    {MODULE(base_push), .args = {B, U, F}},
    {MODULE(base_push), .args = {B, U, F, F, F}},
    {MODULE(base_push), .args = {U, F, B, B}},
    {MODULE(base_push), .args = {B, U, F, RAW(12, 16)}},
    {MODULE(base_push), .args = {B, U, RAW(3, 1)}},
    {MODULE(base_push), .args = {B, U}, .refused = "a number at byte 4, where no argument is"},
    {MODULE(base_push), .args = {B, U, F, F, F, F},
     .refused = "the shader's block has 28 bytes, the list of arguments makes 24"},
    {MODULE(base_push), .args = {B, U, F, F, F, F, D}, .refused = "argument 6 is a value of 8 "
     "bytes at byte 24; the shader's block has a number of 12 bytes at byte 16"},
    {MODULE(base_uniform), .args = {B, U}},
    {MODULE(base_uniform), .args = {B},
     .refused = "the shader's block has 4 bytes, the list of arguments makes 0"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static hcqi_vk_module opened;
static hcqi_vk_shader shader;          /* read last, ... */
static char text[800];                 /* ... and why it was refused */
static uint64_t random_state = 1;

static uint32_t random_below(uint32_t limit) {
    return (uint32_t)(test_random(&random_state) % limit);
}

static int reads(const void *words, size_t size, const char *entry) {
    return hcqi_vk_shader_read(&opened, words, size, entry, VERSION, &shader, text, sizeof text);
}

/* Where the instruction is that names an entry point. */
static uint32_t entry_at(const uint32_t *words) {
    uint32_t at = HEADER;
    while ((words[at] & 0xffff) != HCQI_VK_OP_ENTRY_POINT) { at += words[at] >> 16; }
    return at;
}

#define TEST_ARGS void **state __attribute__((unused))

/* ---- what modules say ------------------------------------------------------ */

static void make_change(uint32_t *words, size_t size, const change *c) {
    for (size_t at = HEADER; at < size / 4; at += words[at] >> 16) {
        uint32_t mask = c->at ? UINT32_MAX : 0xffff; /* not the instruction's length */
        if ((words[at] & 0xffff) == c->code && (words[at + c->at] & mask) == c->from) {
            words[at + c->at] += c->to - c->from;
        }
    }
}

/* Does the block of a module that was read fit the arguments? */
static int holds(const module *m) {
    uint8_t block[512], values[512];
    hcq_program_desc desc = HCQ_CPU_PROGRAM(NULL, NULL);
    hcqi_vk_program p = {.shader = shader};
    opened.shader = &p.shader;         /* in which what ends the push constants may change */
    memcpy(desc.args, m->args, sizeof desc.args);
    memcpy(p.args, m->args, sizeof p.args);
    assert_true(hcqi_program_layout(&desc, &p.info));
    hcqi_vk_fields_place(&p);
    assert_true(p.base_at % 16 == 0); /* a uvec3 */
    memset(block, 0, sizeof block);
    memset(values, 0xee, sizeof values);
    hcqi_vk_values(&p, block, values);
    for (uint32_t i = p.field_bytes; i < sizeof values; i++) { assert_int_equal(values[i], 0xee); }
    return hcqi_vk_block_hold(&opened, p.fields, p.field_count);
}

static void modules_say_what_they_are(TEST_ARGS) {
    for (size_t i = 0; i < COUNT(modules); i++) {
        const module *m = &modules[i];
        uint32_t *words = (uint32_t *)malloc(m->size);
        memcpy(words, m->words, m->size);
        make_change(words, m->size, &m->change);
        int taken = reads(words, m->size, m->entry ? m->entry : "main");
        if (taken && m->args[0]) {
            taken = holds(m);
        } else {
            shader.block_type = 0;     /* an id: whichever */
            taken = taken && (m->refused || memcmp(&shader, &m->wanted, sizeof shader) == 0);
        }
        if (taken ? m->refused || text[0] : !m->refused || !strstr(text, m->refused)) {
            fail_msg("%s, row %u: %s \"%s\", needs 0x%x, block %u %u %u", m->name, (unsigned)i,
                     taken ? "taken" : "refused:", text, (unsigned)shader.needs,
                     (unsigned)shader.block[0], (unsigned)shader.block[1],
                     (unsigned)shader.block[2]);
        }
        free(words);
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
        {1, 0x00010600, SIZE, 0x00010500, "1.6 (0x00010600), and the device takes 1.0 to 1.5;"},
        {1, 0x00000900, SIZE, VERSION, "SPIR-V 0.9"},
        {1, 0x00010501, SIZE, VERSION, "(0x00010501)"},
        {3, 0, SIZE, VERSION, "bound 0"},
        {3, 0x400000, SIZE, VERSION, "bound 4194304"},
        {3, 5, SIZE, VERSION, "it says that its ids are 1 to 4"},
        {4, 1, SIZE, VERSION, "schema 1"},
        {0, 0x07230203, SIZE - 4, VERSION, "is cut off at word"},
        {0, 0x07230203, SIZE - 2, VERSION, "cannot have"},
        {0, 0x07230203, HEADER * 4 + 4, VERSION, "in the instruction that begins at word 5"},
        {0, 0x07230203, HEADER * 4, VERSION, "cannot have 20 bytes"},
        {0, 0x07230203, 0, VERSION, "cannot have 0 bytes"},
        {HEADER, 0xffff0011, SIZE, VERSION, "is cut off at word"},
        {HEADER, 0x00000011, SIZE, VERSION, "no length"},
        {HEADER, 0x00010011, SIZE, VERSION, "too short"},
        {HEADER, 0x00020049, SIZE, VERSION, "groups of decorations"},
        {HEADER + 1, 6, SIZE, VERSION, "OpenCL"},
        {HEADER + 1, 6033, SIZE, VERSION, "AtomicFloat32AddEXT, number 6033"},
        {HEADER + 1, 12345, SIZE, VERSION, "number 12345"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t words[SIZE / 4];
        memcpy(words, spirv_pointer, SIZE);
        words[cases[i].at] = cases[i].word;
        assert_false(hcqi_vk_shader_read(&opened, words, cases[i].size, "main", cases[i].version,
                                         &shader, text, sizeof text));
        const char *last = strstr(text, "not enable");
        if (!strstr(text, cases[i].reason) || (last && last[10])) { /* one reason is enough */
            fail_msg("wanted \"%s\", got \"%s\"", cases[i].reason, text);
        }
    }
}

/* Entry points with names as long as one can ask for, and one longer, in place of "main". */
static void names_are_compared_whole(TEST_ARGS) {
    enum { COUNT_OF = sizeof spirv_nothing / 4, LONGEST = 63, NAME = 3, OLD = 2 };
    for (uint32_t length = LONGEST - 1; length <= LONGEST + 1; length++) {
        uint32_t words[COUNT_OF + 32] = {0}, more = length / 4 + 1 - OLD;
        const uint32_t at = entry_at(spirv_nothing);
        char name[LONGEST + 2] = {0};
        memset(name, 'n', length);
        memcpy(words, spirv_nothing, (at + NAME) * 4u);
        words[at] += more << 16;
        memcpy(&words[at + NAME], name, length);
        memcpy(&words[at + NAME + OLD + more], &spirv_nothing[at + NAME + OLD],
               (COUNT_OF - at - NAME - OLD) * 4u);
        for (uint32_t asked = LONGEST - 1; asked <= LONGEST; asked++) {
            name[asked] = 0;
            name[asked - 1] = 'n';
            assert_int_equal(reads(words, (COUNT_OF + more) * 4, name), asked == length);
        }
    }
}

/* The list of what an entry point uses ends where it does, also before a word that would name
   another variable, whose id here is the next instruction's first word. */
static void lists_end(TEST_ARGS) {
    enum { ENTRY = 15, VARIABLE = 59, DECORATE = 71 };
    uint32_t words[sizeof spirv_two / 4], next = 0, count = 0, second = 0;
    memcpy(words, spirv_two, sizeof words);
    for (size_t at = HEADER; at < COUNT(words); at += words[at] >> 16) {
        uint32_t code = words[at] & 0xffff;
        if (code == ENTRY && ++count == 2) { next = words[at]; }
        if (code == VARIABLE && ++count == 5) { second = words[at + 2]; }
    }
    for (size_t at = HEADER; at < COUNT(words); at += words[at] >> 16) {
        uint32_t code = words[at] & 0xffff;
        for (uint32_t i = 1; i < words[at] >> 16; i++) {
            int names = code == ENTRY ? i > 3 : code == VARIABLE ? i == 2
                                                                 : code == DECORATE && i == 1;
            if (names && words[at + i] == second) { words[at + i] = next; }
        }
    }
    words[3] = next + 1;               /* ids are below that */
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(reads(words, sizeof words, i ? "two" : "main"));
        assert_int_equal(shader.buffers, i + 1);
    }
}

/* Of many entry points the first ones are named, and the others counted. */
static void entry_points_are_counted(TEST_ARGS) {
    enum { SIZE = sizeof spirv_nothing / 4, MOST = 12, WORDS = 5 };
    for (uint32_t count = 7; count <= 10; count++) {
        uint32_t words[SIZE + MOST * WORDS];
        const uint32_t at = entry_at(spirv_nothing);
        char more[32] = " and 1 more";
        memcpy(words, spirv_nothing, at * 4u);
        const uint32_t entry = (spirv_nothing[at] >> 16) * 4; /* the same one, again and again */
        for (uint32_t i = 1; i < count; i++) {
            memcpy((char *)&words[at] + (i - 1) * entry, &spirv_nothing[at], entry);
        }
        memcpy((char *)&words[at] + (count - 1) * entry, &spirv_nothing[at], (SIZE - at) * 4u);
        assert_false(reads(words, SIZE * 4 + (count - 1) * entry, "other"));
        snprintf(more, sizeof more, " and %u more", count - 8);
        assert_true((strstr(text, count > 8 ? more : " more") != NULL) == (count > 8));
        uint32_t named = 0;
        for (char *c = text; (c = strstr(c, "\"main\" (compute)")) != NULL; c++) { named++; }
        assert_int_equal(named, count < 8 ? count : 8);
    }
}

/* By the numbers that an assembler has for them: capabilities.spvasm has these, in this order, and
   then those that are taken. */
static void capabilities_have_names(TEST_ARGS) {
    enum { TAKEN = 7 };
    static const char *const names[] = {
        "Geometry", "Tessellation", "Addresses (of OpenCL)", "Linkage (of OpenCL)",
        "Kernel (of OpenCL)",
        "UniformBufferArrayDynamicIndexing", "StorageBufferArrayDynamicIndexing",
        "StorageImageReadWithoutFormat", "StorageImageWriteWithoutFormat", "DenormPreserve",
        "DenormFlushToZero", "SignedZeroInfNanPreserve", "RoundingModeRTE", "RoundingModeRTZ",
        "RayQueryKHR", "RayTracingKHR", "ShaderClockKHR", "ShaderNonUniform",
        "RuntimeDescriptorArray", "DotProductInputAll", "DotProductInput4x8Bit",
        "DotProductInput4x8BitPacked", "DotProduct", "AtomicFloat32AddEXT", "AtomicFloat64AddEXT"
    };
    for (uint32_t i = 0; i < COUNT(names) + TAKEN; i++) {
        uint32_t words[COUNT(spirv_pointer)];
        char want[80];
        memcpy(words, spirv_pointer, sizeof words);
        words[HEADER + 1] = spirv_capabilities[HEADER + 2 * i + 1];
        assert_int_equal(words[HEADER], spirv_capabilities[HEADER + 2 * i]);
        int taken = reads(words, sizeof words, "main");
        assert_int_equal(taken, i >= COUNT(names));
        if (taken) { continue; }
        snprintf(want, sizeof want, "the capability %s, number", names[i]);
        assert_non_null(strstr(text, want));
    }
}

static void texts_are_cut(TEST_ARGS) {
    for (size_t size = 1; size < 100; size++) { /* of several pieces */
        memset(text, 'x', sizeof text);
        assert_false(hcqi_vk_shader_read(&opened, spirv_two, sizeof spirv_two, "three", VERSION,
                                         &shader, text, size));
        assert_true(strlen(text) == size - 1 && text[size] == 'x');
    }
    assert_false(hcqi_vk_shader_read(&opened, NULL, 100, "main", VERSION, &shader, text, 8));
    assert_string_equal(text, "a modul");
    assert_false(hcqi_vk_shader_read(&opened, NULL, 100, "main", VERSION, &shader, NULL, 0));
}

/* ---- broken modules --------------------------------------------------------- */

/* Reads a copy that ends where its memory does and begins at an odd address. */
static void survives(const void *words, size_t size) {
    uint8_t *copy = (uint8_t *)malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy + 1, words, size);
    int taken = reads(copy + 1, size, "main");
    assert_true(taken == (text[0] == 0)); /* refused always with a reason */
    if (taken) {                       /* what is broken behind the block, too */
        const hcqi_vk_field fields[2] = {{0, 0, 8, 1, 0}, {1, 8, 4, 0, 0}};
        int fits = hcqi_vk_block_hold(&opened, fields, 2);
        assert_true(fits == (text[0] == 0));
    }
    free(copy);
}

/* Every word in turn becomes: special values, itself with a bit changed, other words. */
static void words_changed(const uint32_t *module_words, uint32_t *words, uint32_t count) {
    static const uint32_t values[] = {0, 1, 2, 3, 5, 28, 30, 32, 0xffff, 0x10000, 0x1e0002,
                                      0x7fffffff, 0x80000000, 0xffff0000, 0xffffffff};
    enum { VALUES = COUNT(values), WAYS = VALUES + 32 + 8 };
    for (uint32_t at = 0; at < count; at++) {
        uint32_t old = words[at];
        for (uint32_t way = at % EACH; way < WAYS; way += EACH) {
            words[at] = way < VALUES        ? values[way]
                        : way < VALUES + 32 ? old ^ 1u << (way - VALUES)
                                            : module_words[random_below(count)];
            survives(words, count * 4);
        }
        words[at] = old;
    }
}

/* Several words changed, half of them into other words of the module. */
static void words_changed_at_random(const uint32_t *module_words, uint32_t *words,
                                    uint32_t count) {
    for (int round = 0; round < 500; round++) {
        memcpy(words, module_words, count * 4);
        for (uint32_t changes = random_below(6) + 1; changes; changes--) {
            uint32_t at = HEADER + random_below(count - HEADER);
            words[at] = random_below(2) ? module_words[random_below(count)] : random_below(64);
        }
        survives(words, count * 4);
    }
}

static void broken_modules_are_survived(TEST_ARGS) {
#define MODULE_OF(name) {spirv_##name, sizeof spirv_##name},
    static const struct { const uint32_t *words; size_t size; } all[] = {SPIRV_MODULES(MODULE_OF)};
    for (size_t i = 0; i < COUNT(all); i++) {
        uint32_t *words = (uint32_t *)malloc(all[i].size), count = (uint32_t)(all[i].size / 4);
        for (size_t size = 0; size <= all[i].size; size++) {
            survives(all[i].words, size);
        }
        memcpy(words, all[i].words, all[i].size);
        words_changed(all[i].words, words, count);
        words_changed_at_random(all[i].words, words, count);
        free(words);
    }
}

/* ---- a struct in a struct in a struct ... ---------------------------------- */

static uint32_t nest[BIG], nest_count;

static void put(uint32_t code, uint32_t operands, ...) {
    va_list rest;
    va_start(rest, operands);
    assert_true(nest_count + operands < BIG);
    nest[nest_count++] = (operands + 1) << 16 | code;
    for (uint32_t i = 0; i < operands; i++) {
        nest[nest_count++] = va_arg(rest, uint32_t);
    }
    va_end(rest);
}

/* Each struct has the one before twice, at nearly the same place. */
static void put_nested(uint32_t depth, uint32_t models, uint32_t variables) {
    enum { FIRST = 100000 };
    static const uint32_t header[HEADER] = {0x07230203, 0x00010500, 0, 0x3fffff, 0};
    memcpy(nest, header, sizeof header);
    nest_count = HEADER;
    put(HCQI_VK_OP_CAPABILITY, 1u, 1u);
    for (uint32_t i = 0; i < models; i++) {
        put(HCQI_VK_OP_MEMORY_MODEL, 2u, 0u, 1u);
    }
    put(HCQI_VK_OP_ENTRY_POINT, 5u, 5u, 1u, 0x6e69616du, 0u, 1000u);
    put(HCQI_VK_OP_MODE, 5u, 1u, 17u, 1u, 1u, 1u);
    put(HCQI_VK_OP_VOID, 1u, 2u);
    put(HCQI_VK_OP_INT, 3u, (uint32_t)FIRST, 32u, 0u);
    for (uint32_t i = FIRST; i < FIRST + depth; i++) {
        put(HCQI_VK_OP_STRUCT, 3u, i + 1, i, i);
        put(HCQI_VK_OP_MEMBER_DECORATE, 4u, i + 1, 0u, (uint32_t)HCQI_VK_OFFSET, 0u);
        put(HCQI_VK_OP_MEMBER_DECORATE, 4u, i + 1, 1u, (uint32_t)HCQI_VK_OFFSET, 4u);
    }
    put(HCQI_VK_OP_DECORATE, 2u, FIRST + depth, (uint32_t)HCQI_VK_BLOCK);
    put(HCQI_VK_OP_POINTER, 3u, 999u, (uint32_t)HCQI_VK_CLASS_PUSH, FIRST + depth);
    put(HCQI_VK_OP_VARIABLE, 3u, 999u, 1000u, (uint32_t)HCQI_VK_CLASS_PUSH);
    put(HCQI_VK_OP_POINTER, 3u, 998u, (uint32_t)HCQI_VK_CLASS_STORAGE, FIRST + depth);
    put(HCQI_VK_OP_DECORATE, 3u, 1000u, (uint32_t)HCQI_VK_SET, 0u);
    put(HCQI_VK_OP_DECORATE, 3u, 1000u, (uint32_t)HCQI_VK_BINDING, 0u);
    for (uint32_t i = 0; i < variables; i++) { /* all are one */
        put(HCQI_VK_OP_VARIABLE, 3u, 998u, 1000u, (uint32_t)HCQI_VK_CLASS_STORAGE);
    }
    put(HCQI_VK_OP_FUNCTION, 4u, 2u, 1u, 0u, 2u);
    put(HCQI_VK_OP_LABEL, 1u, 5u);
    put(HCQI_VK_OP_FUNCTION_END, 0u);
}

/* A walk through all of the third one would not end without its budget. */
static void nests_end_soon(TEST_ARGS) {
    static const struct { uint32_t depth, models, variables; const char *reason; } cases[] = {
        {1, 2, 0, "2 memory models"}, {40, 1, 0, "is nested too deeply"},
        {30, 1, 0, "too large or too tangled"}, {400000, 1, 0, "too large or too tangled"},
        {1, 1, 370000, "too large or too tangled"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        put_nested(cases[i].depth, cases[i].models, cases[i].variables);
        alarm(60);                     /* 100 ms on an idle machine */
        assert_false(reads(nest, (size_t)nest_count * 4, "main"));
        alarm(0);
        assert_non_null(strstr(text, cases[i].reason));
    }
}

/* NULL, or why a device with these cannot run a module. */
static const char *unable(const uint32_t *words, size_t size, const hcqi_vk_device *d) {
    assert_true(reads(words, size, "main"));
    const hcqi_vk_program p = {.d = (hcqi_vk_device *)(uintptr_t)d, .shader = shader};
    return hcqi_vk_program_able(&p, &opened) ? NULL : text;
}
#define UNABLE(name, d) unable(spirv_##name, sizeof spirv_##name, (d))

/* What is just enough will do; what is missing is named. */
static void devices_are_asked(TEST_ARGS) {
    static const char *const features[] = {
        "shaderInt64", "shaderFloat64", "shaderFloat16", "shaderInt8", "storageBuffer16BitAccess",
        "storageBuffer8BitAccess", "shaderBufferInt64Atomics", "vulkanMemoryModel"
    };
    uint32_t found = 0;
    hcqi_vk_device *d = (hcqi_vk_device *)calloc(1, sizeof *d);
    VkPhysicalDeviceLimits *most = &d->is.limits;
    d->needs = UINT32_MAX;
    d->subgroups = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    *most = (VkPhysicalDeviceLimits){.maxPushConstantsSize = 80, .maxUniformBufferRange = 388,
                                     .maxPerStageDescriptorStorageBuffers = 3};
    assert_null(UNABLE(types, d));
    assert_null(UNABLE(bindings_push, d));
    assert_null(UNABLE(bindings_uniform, d));
    for (uint32_t bit = 0; bit < HCQI_VK_ABILITY_COUNT; bit++) {
        d->needs = ~(1u << bit);
        const char *why = UNABLE(types, d);
        for (uint32_t i = 0; why && i < COUNT(features); i++) {
            found += strstr(why, features[i]) != NULL;
        }
    }
    assert_int_equal(found, COUNT(features));
    d->needs = UINT32_MAX;
    d->subgroups = VK_SUBGROUP_FEATURE_BASIC_BIT;
    assert_non_null(strstr(UNABLE(types, d), "subgroup operations 0x5, the device has 0x1"));
    d->subgroups |= VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    most->maxPerStageDescriptorStorageBuffers--;
    assert_non_null(strstr(UNABLE(types, d), "3 storage buffers, at most"));
    most->maxPushConstantsSize--;
    assert_non_null(strstr(UNABLE(bindings_push, d), "80 bytes of push constants"));
    most->maxUniformBufferRange--;
    assert_non_null(strstr(UNABLE(bindings_uniform, d), "a uniform block of 388 bytes"));
    free(d);
}

/* What an engine switched on in structures of their own counts, each feature alone. */
static void features_are_gathered(TEST_ARGS) {
    hcqi_vk_device *d = (hcqi_vk_device *)calloc(1, sizeof *d);
    hcqi_vk_features none, f;
    VkPhysicalDeviceFeatures2 lent = {0};
    hcqi_vk_features_lent(&none, d, &lent);
#define GATHERED(s_type, type, where, feature)                                     \
    {                                                                              \
        VkPhysicalDevice##type s[2] = {{0}, {                                      \
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##s_type##_FEATURES, .feature = VK_TRUE}}; \
        lent.pNext = &s[1];                                                        \
        hcqi_vk_features_lent(&f, d, &lent);                                       \
        assert_int_equal(none.where.feature, VK_FALSE);                            \
        assert_int_equal(f.where.feature, VK_TRUE);                                \
        f.where.feature = VK_FALSE;                                                \
        assert_memory_equal(&f.v12, &none.v12, sizeof f.v12);                      \
    }
    HCQI_VK_PARTS(GATHERED)
    free(d);
}

/* What the host only writes is better not in its cache; hcq flushes nothing. The device's own
   is better not the host's too: of that there may be little. */
static void memory_is_chosen(TEST_ARGS) {
    enum { LOCAL = 1, VISIBLE = 2, CACHED = 8, ALL = 15 }; /* Vulkan's bits */
    assert_true(hcqi_vk_type_score(ALL - CACHED, HCQ_HOST_WRITES) >
                hcqi_vk_type_score(ALL, HCQ_HOST_WRITES));
    assert_true(hcqi_vk_type_score(LOCAL, 0) > hcqi_vk_type_score(ALL - CACHED, 0));
    assert_true(hcqi_vk_type_score(ALL - CACHED, 0) > hcqi_vk_type_score(0, 0));
    assert_true(hcqi_vk_type_score(0, 0) > 0);
    for (uint32_t odd = 16; odd <= 128; odd *= 2) { /* lazily given, protected, AMD's coherent */
        assert_int_equal(hcqi_vk_type_score(LOCAL | odd, 0), 0);
    }
    assert_int_equal(hcqi_vk_type_score(LOCAL | VISIBLE | CACHED, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_say_what_they_are), cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(names_are_compared_whole), cmocka_unit_test(capabilities_have_names),
        cmocka_unit_test(texts_are_cut), cmocka_unit_test(lists_end),
        cmocka_unit_test(broken_modules_are_survived),
        cmocka_unit_test(nests_end_soon), cmocka_unit_test(memory_is_chosen),
        cmocka_unit_test(devices_are_asked), cmocka_unit_test(features_are_gathered),
        cmocka_unit_test(entry_points_are_counted),
    };
    return cmocka_run_group_tests_name("spirv", tests, NULL, NULL);
}
