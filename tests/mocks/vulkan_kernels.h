/* vulkan_kernels.h - the mock of Vulkan: which CPU kernel a SPIR-V module stands
   for, and how its arguments reach it: by a pointer in the push constants. */
#ifndef HCQ_TEST_MOCK_VULKAN_KERNELS_H
#define HCQ_TEST_MOCK_VULKAN_KERNELS_H

#include "vulkan_base.h"
#ifndef HCQ_H
#include "../../hcq.h"
#endif

typedef struct mock_vk_kernel {
    hcq_cpu_fn fn;
    uint32_t args[HCQ_MAX_ARGS];
    uint32_t block_bytes;              /* of the arguments */
    uint32_t pointers[HCQ_MAX_ARGS];   /* where addresses of buffers lie in them */
    uint32_t pointer_count;
} mock_vk_kernel;

enum { MOCK_VK_KERNELS = 2048 };
#define MOCK_VK_TAG 0x7a900000u        /* and the number of a kernel: a constant of its module */

/* Under mock_vk_lock; not from the heap, which tests count. */
static mock_vk_kernel mock_vk_kernels[MOCK_VK_KERNELS];
static uint32_t mock_vk_kernel_count;

static uint32_t mock_vk_round(uint32_t value, uint32_t align) {
    return align ? (value + align - 1) / align * align : value;
}

/* Lays a list of HCQ_ARG_* out as a C compiler would a struct. */
static void mock_vk_kernel_layout(mock_vk_kernel *k) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < HCQ_MAX_ARGS && k->args[i] != HCQ_ARG_NONE; i++) {
        uint32_t kind = k->args[i] & 0xff, size = k->args[i] >> 8 & 0xffff, align = k->args[i] >> 24;
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

/* The tag of a kernel, which is known from then on. */
static uint32_t mock_vk_kernel_tag(hcq_cpu_fn fn, const uint32_t args[HCQ_MAX_ARGS]) {
    uint32_t i = 0;
    pthread_mutex_lock(&mock_vk_lock);
    while (i < mock_vk_kernel_count && (mock_vk_kernels[i].fn != fn ||
           memcmp(mock_vk_kernels[i].args, args, sizeof mock_vk_kernels[i].args) != 0)) {
        i++;
    }
    mock_vk_check(i < MOCK_VK_KERNELS, "no room for a kernel more");
    if (i == mock_vk_kernel_count) {
        mock_vk_kernels[i].fn = fn;
        memcpy(mock_vk_kernels[i].args, args, sizeof mock_vk_kernels[i].args);
        mock_vk_kernel_layout(&mock_vk_kernels[i]);
        mock_vk_kernel_count++;
    }
    pthread_mutex_unlock(&mock_vk_lock);
    return MOCK_VK_TAG + i;
}

/* The kernel that a module stands for, or NULL. The backend changes modules for grids
   beyond the limits, but not their constants. */
static const mock_vk_kernel *mock_vk_kernel_of(const uint32_t *words, size_t size) {
    const mock_vk_kernel *found = NULL;
    pthread_mutex_lock(&mock_vk_lock);
    for (size_t at = 5; at < size / 4 && !found; at += words[at] >> 16) {
        if (words[at] == (4u << 16 | 43) && words[at + 3] - MOCK_VK_TAG < mock_vk_kernel_count) {
            found = &mock_vk_kernels[words[at + 3] - MOCK_VK_TAG];
        }
    }
    pthread_mutex_unlock(&mock_vk_lock);
    return found;
}

/* ---- their modules ---- */

enum { MOCK_VK_MODULE_WORDS = 125 };

/* Writes a valid module that takes its arguments by pointer, whose blocks have
   any size, and which does nothing. */
static void mock_vk_module(uint32_t tag, uint32_t words[MOCK_VK_MODULE_WORDS]) {
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
    _Static_assert(sizeof code == MOCK_VK_MODULE_WORDS * 4, "MOCK_VK_MODULE_WORDS is wrong");
    memcpy(words, code, sizeof code);
}

/* Gives a program with a CPU kernel a module in its place, so that the mock runs it.
   `words` must stay until hcq_program_create returned. */
static TEST_UNUSED void mock_vk_lend_module(hcq_program_desc *desc,
                                            uint32_t words[MOCK_VK_MODULE_WORDS]) {
    mock_vk_module(mock_vk_kernel_tag(desc->cpu, desc->args), words);
    desc->spirv.size = MOCK_VK_MODULE_WORDS * 4;
    desc->spirv.data = words;
    desc->spirv.entry = NULL;
}

#endif /* HCQ_TEST_MOCK_VULKAN_KERNELS_H */
