/* vulkan_kernels.h - the mock of Vulkan: which CPU kernel a SPIR-V module stands
   for, and how its arguments reach it: by a pointer in the push constants. */
#ifndef HCQ_TEST_MOCK_VULKAN_KERNELS_H
#define HCQ_TEST_MOCK_VULKAN_KERNELS_H

#include "vulkan_base.h"
#ifndef HCQ_H
#include "../../hcq.h"
#endif

typedef struct mock_vk_kernel_info {
    uint32_t *words;                   /* a copy */
    size_t size;
    hcq_cpu_fn fn;
    uint32_t block_bytes;              /* of the arguments */
    uint32_t pointers[HCQ_MAX_ARGS];   /* where addresses of buffers lie in them */
    uint32_t pointer_count;
} mock_vk_kernel_info;

/* Under mock_vk_lock; not from the heap, which tests count. */
static mock_vk_kernel_info mock_vk_kernels[2048];
static uint32_t mock_vk_kernel_count;
static uint32_t mock_vk_kernel_words[4 << 20];
static size_t mock_vk_kernel_word_count;

static uint32_t mock_vk_round(uint32_t value, uint32_t align) {
    return align ? (value + align - 1) / align * align : value;
}

/* Lays a list of HCQ_ARG_* out as a C compiler would a struct. */
static void mock_vk_kernel_layout(mock_vk_kernel_info *k, const uint32_t *args) {
    uint32_t most = 1;
    k->block_bytes = k->pointer_count = 0;
    for (uint32_t i = 0; i < HCQ_MAX_ARGS && args[i] != HCQ_ARG_NONE; i++) {
        uint32_t kind = args[i] & 0xff, size = args[i] >> 8 & 0xffff, align = args[i] >> 24;
        int buffer = kind == HCQ_ARG_IN || kind == HCQ_ARG_OUT || kind == HCQ_ARG_INOUT;
        if (kind < HCQI_ARG_STRUCT) {
            int wide = kind == HCQ_ARG_I64 || kind == HCQ_ARG_U64 || kind == HCQ_ARG_F64;
            size = align = buffer || wide ? 8 : 4;
        }
        k->block_bytes = mock_vk_round(k->block_bytes, align);
        if (buffer) {
            k->pointers[k->pointer_count++] = k->block_bytes;
        }
        k->block_bytes += size;
        most = align > most ? align : most;
    }
    k->block_bytes = mock_vk_round(k->block_bytes, most);
}

/* The kernel of a module, or NULL; under mock_vk_lock. */
static mock_vk_kernel_info *mock_vk_kernel_find(const void *words, size_t size) {
    for (uint32_t i = mock_vk_kernel_count; i > 0; i--) {
        mock_vk_kernel_info *k = &mock_vk_kernels[i - 1];
        if (k->size == size && memcmp(k->words, words, size) == 0) {
            return k;
        }
    }
    return NULL;
}

/* Says that `fn`, with a list of arguments as hcq_program_desc has it, is what a
   SPIR-V module of `size` bytes does. Of the same words the latest counts, for
   modules made from then on. */
static TEST_UNUSED void mock_vk_kernel(const void *words, size_t size, hcq_cpu_fn fn,
                                       const uint32_t *args) {
    mock_vk_where = "mock_vk_kernel";
    pthread_mutex_lock(&mock_vk_lock);
    mock_vk_kernel_info *k = mock_vk_kernel_find(words, size);
    if (!k) {
        k = &mock_vk_kernels[mock_vk_kernel_count++];
        k->words = &mock_vk_kernel_words[mock_vk_kernel_word_count];
        k->size = size;
        mock_vk_kernel_word_count += (size + 3) / 4;
        mock_vk_check(mock_vk_kernel_word_count <= sizeof mock_vk_kernel_words / 4 &&
                          mock_vk_kernel_count < sizeof mock_vk_kernels / sizeof *k,
                      "no room for a kernel more");
        memcpy(k->words, words, size);
    }
    k->fn = fn;
    mock_vk_kernel_layout(k, args);
    pthread_mutex_unlock(&mock_vk_lock);
}

/* The same for a program that has both a CPU kernel and a module. */
static TEST_UNUSED void mock_vk_program(const hcq_program_desc *desc) {
    if (desc->cpu && desc->spirv.data) {
        mock_vk_kernel(desc->spirv.data, desc->spirv.size, desc->cpu, desc->args);
    }
}

/* How much of a module another one has, in the same order, of 1000 instructions.
   The backend changes modules for grids beyond the limits. */
static uint32_t mock_vk_likeness(const mock_vk_kernel_info *k, const uint32_t *other,
                                 size_t other_size) {
    enum { AHEAD = 64 };
    size_t at = 5, cursor = 5, count = k->size / 4, other_count = other_size / 4, length;
    uint32_t all = 1, same = 0;
    for (; at < count && (length = k->words[at] >> 16) != 0; at += length, all++) {
        size_t look = cursor;
        for (uint32_t i = 0; i < AHEAD && look < other_count; i++) {
            if (length <= other_count - look &&
                memcmp(&k->words[at], &other[look], length * 4) == 0) {
                cursor = look + length;
                same++;
                break;
            }
            look += other[look] >> 16;
        }
    }
    return same * 1000 / all;
}

/* The kernel whose module was changed into this one, or NULL; under mock_vk_lock. */
static const mock_vk_kernel_info *mock_vk_kernel_like(const uint32_t *words, size_t size) {
    const mock_vk_kernel_info *best = NULL;
    uint32_t most = 600;
    for (uint32_t i = 0; i < mock_vk_kernel_count; i++) {
        const mock_vk_kernel_info *k = &mock_vk_kernels[i];
        uint32_t like = k->size < size ? mock_vk_likeness(k, words, size) : 0;
        if (like >= most) {
            best = k;
            most = like;
        }
    }
    return best;
}

/* ---- a module for kernels that have none ---- */

enum { MOCK_VK_MODULE_WORDS = 144 };

/* Writes a valid module that takes its arguments by pointer, whose blocks have
   any size, and which does nothing; `tag` makes it different from others.
   Returns its size in bytes. */
static TEST_UNUSED size_t mock_vk_module(uint32_t tag, uint32_t words[MOCK_VK_MODULE_WORDS]) {
    enum { MAIN = 1, PUSH, X, Y, Z, SIZE, VOID_T, FN_T, UINT_T, VEC_T, ARGS_T, ARGS_P, PUSH_T,
           PUSH_P, TAG, LABEL, GROUP, GROUP_P, BOUND };
    const uint32_t code[] = {
        0x07230203, 0x00010500, 0, BOUND, 0,
        2u << 16 | 17, 1,                                 /* Capability Shader */
        2u << 16 | 17, 5347,                              /* PhysicalStorageBufferAddresses */
        3u << 16 | 14, 5348, 1,                           /* MemoryModel */
        7u << 16 | 15, 5, MAIN, 0x6e69616d, 0, PUSH, GROUP, /* EntryPoint "main" */
        6u << 16 | 16, MAIN, 17, 1, 1, 1,                 /* LocalSize */
        4u << 16 | 71, X, 1, 0, 4u << 16 | 71, Y, 1, 1, 4u << 16 | 71, Z, 1, 2, /* SpecId */
        4u << 16 | 71, SIZE, 11, 25, 4u << 16 | 71, GROUP, 11, 26, /* WorkgroupSize, -Id */
        3u << 16 | 71, ARGS_T, 2,                         /* Block, of any list */
        3u << 16 | 71, PUSH_T, 2, 5u << 16 | 72, PUSH_T, 0, 35, 0, /* Block, Offset */
        2u << 16 | 19, VOID_T, 3u << 16 | 33, FN_T, VOID_T,
        4u << 16 | 21, UINT_T, 32, 0, 4u << 16 | 23, VEC_T, UINT_T, 3,
        4u << 16 | 50, UINT_T, X, 1, 4u << 16 | 50, UINT_T, Y, 1, 4u << 16 | 50, UINT_T, Z, 1,
        6u << 16 | 51, VEC_T, SIZE, X, Y, Z,
        4u << 16 | 43, UINT_T, TAG, tag,
        2u << 16 | 30, ARGS_T, 4u << 16 | 32, ARGS_P, 5349, ARGS_T,
        3u << 16 | 30, PUSH_T, ARGS_P, 4u << 16 | 32, PUSH_P, 9, PUSH_T,
        4u << 16 | 59, PUSH_P, PUSH, 9,
        4u << 16 | 32, GROUP_P, 1, VEC_T, 4u << 16 | 59, GROUP_P, GROUP, 1,
        5u << 16 | 54, VOID_T, MAIN, 0, FN_T, 2u << 16 | 248, LABEL, 1u << 16 | 253, 1u << 16 | 56
    };
    _Static_assert(sizeof code <= MOCK_VK_MODULE_WORDS * 4, "MOCK_VK_MODULE_WORDS is too low");
    memcpy(words, code, sizeof code);
    return sizeof code;
}

/* Gives a program without a module one, so that the mock can run its CPU kernel.
   `words` must stay until hcq_program_create returned. */
static TEST_UNUSED void mock_vk_lend_module(hcq_program_desc *desc,
                                            uint32_t words[MOCK_VK_MODULE_WORDS]) {
    uint64_t mark = 0;
    if (!desc->cpu || desc->spirv.data) {
        return;
    }
    memcpy(&mark, &desc->cpu, sizeof desc->cpu < 8 ? sizeof desc->cpu : 8);
    for (uint32_t i = 0; i < HCQ_MAX_ARGS; i++) {
        mark = (mark ^ desc->args[i]) * 0x100000001b3ull;
    }
    desc->spirv.size = mock_vk_module((uint32_t)(mark ^ mark >> 32), words);
    desc->spirv.data = words;
    desc->spirv.entry = NULL;
}

#endif /* HCQ_TEST_MOCK_VULKAN_KERNELS_H */
