/* vulkan_pipelines.h - the mock of Vulkan: which CPU kernel a module stands for, and
   how its arguments reach it: by a pointer in the push constants; modules, layouts,
   pipelines and their caches; sets of descriptors, which no kernel reads. */
#pragma once

#include "vulkan_memory.h"
#ifndef HCQ_H
#include "../../hcq.h"
#endif

/* ---- kernels ---- */

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
        uint32_t kind = k->args[i] & 0xff, size = k->args[i] >> 8 & 0xffff;
        uint32_t align = k->args[i] >> 24;
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

/* The kernel that a module stands for, or NULL. */
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

enum { MOCK_VK_MODULE_WORDS = 118, MOCK_VK_BASE = 16 }; /* byte of the push constants */

/* Writes a valid module that takes its arguments by pointer, and its base, whose blocks
   have any size, and which does nothing. */
static void mock_vk_module(uint32_t tag, uint32_t words[MOCK_VK_MODULE_WORDS]) {
    enum { MAIN = 1, PUSH, X, Y, Z, SIZE, VOID_T, FN_T, UINT_T, VEC_T, ARGS_T, ARGS_P, PUSH_T,
           PUSH_P, TAG, LABEL, BOUND };
    const uint32_t code[] = {
        0x07230203, 0x00010500, 0, BOUND, 0,
        2u << 16 | 17, 1,                                 /* Capability Shader */
        2u << 16 | 17, 5347,                              /* PhysicalStorageBufferAddresses */
        3u << 16 | 14, 5348, 1,                           /* MemoryModel */
        6u << 16 | 15, 5, MAIN, 0x6e69616d, 0, PUSH,      /* EntryPoint "main" */
        6u << 16 | 16, MAIN, 17, 1, 1, 1,                 /* LocalSize */
        4u << 16 | 71, X, 1, 0, 4u << 16 | 71, Y, 1, 1, 4u << 16 | 71, Z, 1, 2, /* SpecId */
        4u << 16 | 71, SIZE, 11, 25,                      /* WorkgroupSize */
        3u << 16 | 71, ARGS_T, 2,                         /* Block, of any list */
        3u << 16 | 71, PUSH_T, 2, 5u << 16 | 72, PUSH_T, 0, 35, 0, /* Block, Offset */
        5u << 16 | 72, PUSH_T, 1, 35, MOCK_VK_BASE,
        2u << 16 | 19, VOID_T, 3u << 16 | 33, FN_T, VOID_T,
        4u << 16 | 21, UINT_T, 32, 0, 4u << 16 | 23, VEC_T, UINT_T, 3,
        4u << 16 | 50, UINT_T, X, 1, 4u << 16 | 50, UINT_T, Y, 1, 4u << 16 | 50, UINT_T, Z, 1,
        6u << 16 | 51, VEC_T, SIZE, X, Y, Z,
        4u << 16 | 43, UINT_T, TAG, tag,
        2u << 16 | 30, ARGS_T, 4u << 16 | 32, ARGS_P, 5349, ARGS_T,
        4u << 16 | 30, PUSH_T, ARGS_P, VEC_T, 4u << 16 | 32, PUSH_P, 9, PUSH_T,
        4u << 16 | 59, PUSH_P, PUSH, 9,
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

/* ---- modules ---- */

typedef struct mock_vk_module_object {
    mock_vk_object o;
    const mock_vk_kernel *kernel;      /* NULL: nobody told what it does */
} mock_vk_module_object;

static void mock_vk_module_make(mock_vk_module_object *m, const VkShaderModuleCreateInfo *info) {
    m->kernel = mock_vk_kernel_of(info->pCode, info->codeSize);
}

MOCK_VK_CREATE(ShaderModule, mock_vk_module_object, MODULE, mock_vk_module_make)

/* ---- layouts ---- */

/* Of those that may be updated after they were bound there may be more. */
static void mock_vk_set_layout_make(mock_vk_object *o,
                                    const VkDescriptorSetLayoutCreateInfo *info) {
    const VkDescriptorSetLayoutBindingFlagsCreateInfo *flags = info->pNext;
    uint32_t early = 0, most = o->device->desc->max_storage_buffers;
    for (uint32_t i = 0; i < info->bindingCount; i++) {
        int storage = info->pBindings[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        early += storage && !(flags && flags->pBindingFlags[i]) ? 1 : 0;
    }
    mock_vk_check(early <= most, "%u storage buffers, the device has %u", early, most);
    mock_vk_check(!flags || (o->device->features & MOCK_VK_NO_UPDATE_AFTER_BIND),
                  "update after bind is not enabled");
}

MOCK_VK_CREATE(DescriptorSetLayout, mock_vk_object, SET_LAYOUT, mock_vk_set_layout_make)

typedef struct mock_vk_layout {
    mock_vk_object o;
    uint32_t push_bytes;
} mock_vk_layout;

static void mock_vk_layout_make(mock_vk_layout *layout, const VkPipelineLayoutCreateInfo *info) {
    uint32_t most = layout->o.device->desc->max_push_constants;
    for (uint32_t i = 0; i < info->pushConstantRangeCount; i++) {
        layout->push_bytes = info->pPushConstantRanges[i].size;
        mock_vk_check(layout->push_bytes <= most, "%u push constants, the device has %u",
                      layout->push_bytes, most);
    }
}

MOCK_VK_CREATE(PipelineLayout, mock_vk_layout, PIPELINE_LAYOUT, mock_vk_layout_make)

/* ---- caches ---- */

/* Those that begin with something are counted. */
static void mock_vk_cache_make(mock_vk_object *o TEST_UNUSED,
                               const VkPipelineCacheCreateInfo *info) {
    mock_vk_check(info->initialDataSize == 0 || info->initialDataSize >= 32,
                  "%zu bytes are no vkGetPipelineCacheData's", info->initialDataSize);
    mock_vk_count(&mock_vk_counters.filled_caches, info->initialDataSize != 0);
}

MOCK_VK_CREATE(PipelineCache, mock_vk_object, PIPELINE_CACHE, mock_vk_cache_make)

/* Only the head that all have. */
MOCK_VK_API(VkResult, GetPipelineCacheData, VkDevice handle, VkPipelineCache cache, size_t *size,
            void *out) {
    VkResult result = mock_vk_enter(MOCK_VK_GetPipelineCacheData);
    mock_vk_device *d = mock_vk_device_of(handle);
    const VkPhysicalDeviceProperties *p = &d->physical->properties;
    const uint32_t words[4] = {32, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, p->vendorID,
                               p->deviceID};
    mock_vk_say(d->physical, "the pipelines were asked for");
    if (result == VK_SUCCESS && out) {
        memcpy(out, words, sizeof words);
        memcpy((char *)out + sizeof words, p->pipelineCacheUUID, VK_UUID_SIZE);
    }
    *size = 32;
    return result;
}

/* ---- pipelines ---- */

typedef struct mock_vk_pipeline {
    mock_vk_object o;
    const mock_vk_kernel *kernel;      /* or NULL */
    uint32_t block[3];
    int captures;
} mock_vk_pipeline;

/* The workgroup's size: in all modules of the tests the constants 0, 1 and 2. */
static void mock_vk_specialize(mock_vk_pipeline *p, const VkSpecializationInfo *info) {
    const mock_vk_desc *desc = p->o.device->desc;
    for (uint32_t i = 0; i < 3; i++) {
        p->block[i] = 1;
        for (uint32_t e = 0; info && e < info->mapEntryCount; e++) {
            if (info->pMapEntries[e].constantID == i) {
                memcpy(&p->block[i], (const char *)info->pData + info->pMapEntries[e].offset, 4);
            }
        }
        mock_vk_check(p->block[i] != 0 && p->block[i] <= desc->max_group_size[i],
                      "a workgroup of %u in dimension %u, the device has %u", p->block[i], i,
                      desc->max_group_size[i]);
    }
    mock_vk_check((uint64_t)p->block[0] * p->block[1] * p->block[2] <= 1024,
                  "a workgroup of %u x %u x %u, the device has 1024", p->block[0], p->block[1],
                  p->block[2]);
}

static mock_vk_pipeline *mock_vk_pipeline_make(mock_vk_device *d,
                                               const VkComputePipelineCreateInfo *info) {
    const mock_vk_module_object *m =
        MOCK_VK_OBJECT(mock_vk_module_object, info->stage.module, MODULE, d);
    const mock_vk_layout *layout = MOCK_VK_OBJECT(mock_vk_layout, info->layout, PIPELINE_LAYOUT, d);
    mock_vk_pipeline *p = mock_vk_new(d, NULL, MOCK_VK_KIND_PIPELINE, sizeof *p);
    p->kernel = m->kernel;
    p->captures = (info->flags & VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR) != 0;
    mock_vk_check(!p->captures || (d->features & MOCK_VK_NO_STATISTICS),
                  "statistics without the feature for them");
    mock_vk_specialize(p, info->stage.pSpecializationInfo);
    mock_vk_check(!p->kernel || layout->push_bytes >= MOCK_VK_BASE + 12,
                  "%u push constants are too few", layout->push_bytes);
    return p;
}

MOCK_VK_API(VkResult, CreateComputePipelines, VkDevice handle, VkPipelineCache cache,
            uint32_t count, const VkComputePipelineCreateInfo *infos, MOCK_VK_HOOKS,
            VkPipeline *out) {
    VkResult result = mock_vk_enter(MOCK_VK_CreateComputePipelines);
    mock_vk_device *d = mock_vk_device_of(handle);
    for (uint32_t i = 0; i < count; i++) {
        mock_vk_pipeline *p = result == VK_SUCCESS ? mock_vk_pipeline_make(d, &infos[i]) : NULL;
        out[i] = (VkPipeline)(uintptr_t)p;
    }
    return result;
}

MOCK_VK_DESTROY(DestroyPipeline, VkPipeline, PIPELINE)

/* One of each format. */
MOCK_VK_API(VkResult, GetPipelineExecutableStatisticsKHR, VkDevice handle,
            const VkPipelineExecutableInfoKHR *info, uint32_t *count,
            VkPipelineExecutableStatisticKHR *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_GetPipelineExecutableStatisticsKHR);
    const mock_vk_pipeline *p =
        MOCK_VK_OBJECT(mock_vk_pipeline, info->pipeline, PIPELINE, mock_vk_device_of(handle));
    const VkPipelineExecutableStatisticKHR all[4] = {
        {.name = "Threads", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR,
         .value.u64 = (uint64_t)p->block[0] * p->block[1] * p->block[2]},
        {.name = "Spilled", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR,
         .value.i64 = -3},
        {.name = "Ratio", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR,
         .value.f64 = 2.5},
        {.name = "Fast", .format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR,
         .value.u64 = 0xffffffff00000001ull},
    };
    mock_vk_check(p->captures && info->executableIndex == 0, "a pipeline without statistics");
    return failure != VK_SUCCESS ? failure : mock_vk_give(all, sizeof all[0], 4, count, out);
}

/* ---- descriptors ---- */

typedef struct mock_vk_set_pool {
    mock_vk_object o;
    uint32_t left;
} mock_vk_set_pool;

static void mock_vk_set_pool_make(mock_vk_set_pool *pool, const VkDescriptorPoolCreateInfo *info) {
    pool->left = info->maxSets;
}

MOCK_VK_CREATE(DescriptorPool, mock_vk_set_pool, DESCRIPTOR_POOL, mock_vk_set_pool_make)

/* One set, as hcq wants them. */
MOCK_VK_API(VkResult, AllocateDescriptorSets, VkDevice handle,
            const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_AllocateDescriptorSets);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_set_pool *pool =
        MOCK_VK_OBJECT(mock_vk_set_pool, info->descriptorPool, DESCRIPTOR_POOL, d);
    *out = VK_NULL_HANDLE;
    if (failure != VK_SUCCESS || pool->left == 0) {
        return pool->left ? failure : VK_ERROR_OUT_OF_POOL_MEMORY;
    }
    mock_vk_inside(&pool->o, d->desc->linger);
    pool->left--;
    mock_vk_object *set = mock_vk_new(d, &pool->o, MOCK_VK_KIND_DESCRIPTOR_SET, sizeof *set);
    mock_vk_outside(&pool->o);
    *out = (VkDescriptorSet)(uintptr_t)set;
    return VK_SUCCESS;
}

/* The buffer of a descriptor, which keeps the limits. */
static mock_vk_buffer *mock_vk_described(const mock_vk_device *d,
                                         const VkWriteDescriptorSet *write) {
    const VkDescriptorBufferInfo *info = write->pBufferInfo;
    mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, info->buffer, BUFFER, d);
    mock_vk_check(info->offset % MOCK_VK_STORAGE_ALIGNMENT == 0 &&
                      info->range <= d->desc->max_storage_range,
                  "binding %u: %llu bytes at %llu", write->dstBinding, mock_vk_u(info->range),
                  mock_vk_u(info->offset));
    mock_vk_within(b, info->offset, info->range);
    return b;
}

MOCK_VK_API(void, UpdateDescriptorSets, VkDevice handle, uint32_t count,
            const VkWriteDescriptorSet *writes, uint32_t copy_count,
            const VkCopyDescriptorSet *copies) {
    (void)mock_vk_enter(MOCK_VK_UpdateDescriptorSets);
    mock_vk_device *d = mock_vk_device_of(handle);
    for (uint32_t i = 0; i < count; i++) {
        mock_vk_object *set = MOCK_VK_OBJECT(mock_vk_object, writes[i].dstSet, DESCRIPTOR_SET, d);
        (void)mock_vk_described(d, &writes[i]);
        pthread_mutex_lock(&d->lock);
        mock_vk_unused(set);
        pthread_mutex_unlock(&d->lock);
    }
}
