/* vulkan_pipelines.h - part of vulkan.h: modules, layouts, pipelines and
   their caches, descriptors. */
#ifndef HCQ_TEST_MOCK_VULKAN_PIPELINES_H
#define HCQ_TEST_MOCK_VULKAN_PIPELINES_H

/* ---- modules ---- */

enum { MOCK_VK_ENTRY_POINTS = 4 };

typedef struct mock_vk_module_object {
    mock_vk_object o;
    uint32_t *words;
    size_t size;
    mock_vk_kernel_info kernels[MOCK_VK_ENTRY_POINTS]; /* that are known of it */
    uint32_t kernel_count;
} mock_vk_module_object;

static uint64_t mock_vk_hash(const void *data, size_t size) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
    }
    return hash;
}

static void mock_vk_module_kernels(mock_vk_module_object *m) {
    pthread_mutex_lock(&mock_vk_lock);
    for (uint32_t i = 0; i < mock_vk_kernel_count; i++) {
        const mock_vk_kernel_info *k = &mock_vk_kernels[i];
        if (k->size == m->size && memcmp(k->words, m->words, m->size) == 0 &&
            m->kernel_count < MOCK_VK_ENTRY_POINTS) {
            m->kernels[m->kernel_count++] = *k;
        }
    }
    const mock_vk_kernel_info *like =
        m->kernel_count ? NULL : mock_vk_kernel_like(m->words, m->size);
    mock_vk_shader changed;
    if (like && mock_vk_shader_read(m->words, m->size, like->entry, &changed) &&
        changed.part != MOCK_VK_NONE) {
        m->kernels[0] = *like;
        m->kernels[0].shader.part = changed.part;
        m->kernel_count = 1;
    }
    pthread_mutex_unlock(&mock_vk_lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateShaderModule(
    VkDevice handle, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkShaderModule *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateShaderModule);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    mock_vk_check(info->codeSize >= 20 && info->codeSize % 4 == 0 && info->flags == 0 &&
                      (uintptr_t)info->pCode % 4 == 0 && info->pCode[0] == 0x07230203,
                  "this is no SPIR-V");
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_module_object *m =
        (mock_vk_module_object *)mock_vk_new(d, MOCK_VK_KIND_MODULE, sizeof *m);
    m->size = info->codeSize;
    m->words = (uint32_t *)malloc(m->size);
    memcpy(m->words, info->pCode, m->size);
    mock_vk_module_kernels(m);
    *out = (VkShaderModule)(uintptr_t)m;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyShaderModule(
    VkDevice handle, VkShaderModule module, const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyShaderModule);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (!module) {
        return;
    }
    mock_vk_module_object *m = MOCK_VK_OBJECT(mock_vk_module_object, module, MODULE, d);
    mock_vk_destroy(d, &m->o);
    free(m->words);
    m->words = NULL;
}

/* ---- layouts ---- */

enum { MOCK_VK_BINDINGS = 64 };

typedef struct mock_vk_binding {
    int used;
    VkDescriptorType type;
    VkDescriptorBindingFlags flags;
} mock_vk_binding;

typedef struct mock_vk_set_layout {
    mock_vk_object o;
    int push, late;
    uint32_t storage, uniform;         /* how many of each */
    mock_vk_binding bindings[MOCK_VK_BINDINGS];
} mock_vk_set_layout;

typedef struct mock_vk_layout {
    mock_vk_object o;
    const mock_vk_set_layout *set;     /* 0, or NULL */
    uint32_t push_offset, push_size;
} mock_vk_layout;

static void mock_vk_binding_add(const mock_vk_device *d, mock_vk_set_layout *layout,
                                const VkDescriptorSetLayoutBinding *info,
                                VkDescriptorBindingFlags flags) {
    mock_vk_check(info->binding < MOCK_VK_BINDINGS && info->descriptorCount == 1 &&
                      !layout->bindings[info->binding].used,
                  "binding %u: %u descriptors, named twice, or above the mock's 64",
                  info->binding, info->descriptorCount);
    mock_vk_check(info->stageFlags & VK_SHADER_STAGE_COMPUTE_BIT, "binding %u: stages %#x",
                  info->binding, (unsigned)info->stageFlags);
    mock_vk_check(info->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER ||
                      info->descriptorType == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                  "binding %u: type %d", info->binding, (int)info->descriptorType);
    int storage = info->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    int late = (flags & VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT) != 0;
    mock_vk_check(!late || (layout->late && storage && d->enabled.late_sets),
                  "binding %u: update after bind, of a uniform block or without flag or feature",
                  info->binding);
    mock_vk_check(!(flags & VK_DESCRIPTOR_BINDING_UPDATE_UNUSED_WHILE_PENDING_BIT) ||
                      d->enabled.late_unused, "binding %u: feature is not enabled",
                  info->binding);
    layout->bindings[info->binding].used = 1;
    layout->bindings[info->binding].type = info->descriptorType;
    layout->bindings[info->binding].flags = flags;
    layout->storage += storage && !late;
    layout->uniform += !storage;
}

static void mock_vk_set_layout_fill(const mock_vk_device *d, mock_vk_set_layout *layout,
                                    const VkDescriptorSetLayoutCreateInfo *info) {
    const VkDescriptorSetLayoutBindingFlagsCreateInfo *flags =
        (const VkDescriptorSetLayoutBindingFlagsCreateInfo *)mock_vk_chained(
            info->pNext, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO);
    layout->push = (info->flags & VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR) != 0;
    layout->late =
        (info->flags & VK_DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT) != 0;
    mock_vk_check(!(layout->push && layout->late), "push descriptors with update after bind");
    mock_vk_check(!flags || flags->bindingCount == 0 || flags->bindingCount == info->bindingCount,
                  "%u flags for %u bindings", flags ? flags->bindingCount : 0,
                  info->bindingCount);
    for (uint32_t i = 0; i < info->bindingCount; i++) {
        mock_vk_binding_add(d, layout, &info->pBindings[i],
                            flags && flags->bindingCount ? flags->pBindingFlags[i] : 0);
    }
    const VkPhysicalDeviceLimits *l = &d->physical->limits;
    mock_vk_check(layout->storage <= l->maxPerStageDescriptorStorageBuffers &&
                      layout->uniform <= l->maxPerStageDescriptorUniformBuffers,
                  "%u storage buffers and %u uniform ones, the device has %u and %u",
                  layout->storage, layout->uniform, l->maxPerStageDescriptorStorageBuffers,
                  l->maxPerStageDescriptorUniformBuffers);
    mock_vk_check(!layout->push || info->bindingCount <= 32, "%u push descriptors",
                  info->bindingCount);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateDescriptorSetLayout(
    VkDevice handle, const VkDescriptorSetLayoutCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkDescriptorSetLayout *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateDescriptorSetLayout);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    mock_vk_only(info->pNext,
                 VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO, 0);
    if (info->flags & VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR) {
        mock_vk_need(d, MOCK_VK_PUSH_SETS);
    }
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_set_layout *layout =
        (mock_vk_set_layout *)mock_vk_new(d, MOCK_VK_KIND_SET_LAYOUT, sizeof *layout);
    mock_vk_set_layout_fill(d, layout, info);
    *out = (VkDescriptorSetLayout)(uintptr_t)layout;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyDescriptorSetLayout(
    VkDevice handle, VkDescriptorSetLayout layout, const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyDescriptorSetLayout);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (layout) {
        mock_vk_destroy(d, &MOCK_VK_OBJECT(mock_vk_set_layout, layout, SET_LAYOUT, d)->o);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreatePipelineLayout(
    VkDevice handle, const VkPipelineLayoutCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkPipelineLayout *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreatePipelineLayout);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    mock_vk_check(info->setLayoutCount <= 1 && info->pushConstantRangeCount <= 1,
                  "%u sets, %u ranges: the mock knows one of each", info->setLayoutCount,
                  info->pushConstantRangeCount);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_layout *layout =
        (mock_vk_layout *)mock_vk_new(d, MOCK_VK_KIND_PIPELINE_LAYOUT, sizeof *layout);
    if (info->setLayoutCount) {
        layout->set = MOCK_VK_OBJECT(mock_vk_set_layout, info->pSetLayouts[0], SET_LAYOUT, d);
    }
    if (info->pushConstantRangeCount) {
        const VkPushConstantRange *range = &info->pPushConstantRanges[0];
        mock_vk_check(range->size != 0 && range->size % 4 == 0 && range->offset % 4 == 0 &&
                          range->stageFlags == VK_SHADER_STAGE_COMPUTE_BIT &&
                          range->offset + range->size <= d->desc->max_push_constants,
                      "%u push constants at %u, the device has %u", range->size, range->offset,
                      d->desc->max_push_constants);
        layout->push_offset = range->offset;
        layout->push_size = range->size;
    }
    *out = (VkPipelineLayout)(uintptr_t)layout;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyPipelineLayout(
    VkDevice handle, VkPipelineLayout layout, const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyPipelineLayout);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (layout) {
        mock_vk_destroy(d, &MOCK_VK_OBJECT(mock_vk_layout, layout, PIPELINE_LAYOUT, d)->o);
    }
}

static int mock_vk_same_sets(const mock_vk_set_layout *a, const mock_vk_set_layout *b) {
    if (a == b || !a || !b) {
        return a == b;
    }
    return a->push == b->push && a->late == b->late &&
           memcmp(a->bindings, b->bindings, sizeof a->bindings) == 0;
}

static int mock_vk_same_push(const mock_vk_layout *a, const mock_vk_layout *b) {
    return a->push_offset == b->push_offset && a->push_size == b->push_size;
}

/* ---- caches ---- */

enum { MOCK_VK_CACHED = 1024, MOCK_VK_CACHE_HEAD = 32 };

typedef struct mock_vk_cache {
    mock_vk_object o;
    uint64_t hashes[MOCK_VK_CACHED];
    uint32_t count;
} mock_vk_cache;

static void mock_vk_cache_head(const mock_vk_device *d, unsigned char head[MOCK_VK_CACHE_HEAD]) {
    VkPhysicalDeviceProperties p;
    mock_vk_core_properties(d->physical, &p);
    const uint32_t words[4] = {MOCK_VK_CACHE_HEAD, VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
                               p.vendorID, p.deviceID};
    memcpy(head, words, sizeof words);
    memcpy(head + sizeof words, p.pipelineCacheUUID, VK_UUID_SIZE);
}

/* Data of another device or driver is ignored; what is no cache's data at all is
   forbidden. */
static void mock_vk_cache_fill(mock_vk_cache *cache, const void *data, size_t size) {
    unsigned char head[MOCK_VK_CACHE_HEAD];
    uint32_t words[2] = {0, 0};
    if (size == 0) {
        return;
    }
    if (size >= sizeof words) {
        memcpy(words, data, sizeof words);
    }
    mock_vk_check(size >= MOCK_VK_CACHE_HEAD && words[0] == MOCK_VK_CACHE_HEAD &&
                      words[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
                  "the initial data is not vkGetPipelineCacheData's");
    mock_vk_cache_head(cache->o.device, head);
    if (memcmp(head, data, sizeof head) == 0) {
        size_t count = (size - sizeof head) / sizeof(uint64_t);
        cache->count = count < MOCK_VK_CACHED ? (uint32_t)count : MOCK_VK_CACHED;
        memcpy(cache->hashes, (const unsigned char *)data + sizeof head,
               cache->count * sizeof(uint64_t));
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreatePipelineCache(
    VkDevice handle, const VkPipelineCacheCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkPipelineCache *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreatePipelineCache);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_cache *cache =
        (mock_vk_cache *)mock_vk_new(d, MOCK_VK_KIND_PIPELINE_CACHE, sizeof *cache);
    mock_vk_cache_fill(cache, info->pInitialData, info->initialDataSize);
    *out = (VkPipelineCache)(uintptr_t)cache;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyPipelineCache(
    VkDevice handle, VkPipelineCache cache, const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyPipelineCache);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (cache) {
        mock_vk_destroy(d, &MOCK_VK_OBJECT(mock_vk_cache, cache, PIPELINE_CACHE, d)->o);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkGetPipelineCacheData(VkDevice handle,
                                                                  VkPipelineCache object,
                                                                  size_t *size, void *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_GetPipelineCacheData);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_cache *cache = MOCK_VK_OBJECT(mock_vk_cache, object, PIPELINE_CACHE, d);
    unsigned char head[MOCK_VK_CACHE_HEAD];
    if (failure != VK_SUCCESS) {
        return failure;
    }
    pthread_mutex_lock(&d->lock);
    size_t bytes = cache->count * sizeof(uint64_t), needed = sizeof head + bytes;
    int fits = out && *size >= needed;
    if (fits) {
        mock_vk_cache_head(d, head);
        memcpy(out, head, sizeof head);
        memcpy((unsigned char *)out + sizeof head, cache->hashes, bytes);
    }
    pthread_mutex_unlock(&d->lock);
    *size = out && !fits ? 0 : needed;
    return out && !fits ? VK_INCOMPLETE : VK_SUCCESS;
}

static void mock_vk_cache_use(mock_vk_device *d, mock_vk_cache *cache, uint64_t hash) {
    uint32_t i = 0;
    if (!cache) {
        return;
    }
    pthread_mutex_lock(&d->lock);
    while (i < cache->count && cache->hashes[i] != hash) {
        i++;
    }
    if (i < cache->count) {
        mock_vk_count(&mock_vk_counters.cache_hits, 1);
    } else if (i < MOCK_VK_CACHED) {
        cache->hashes[cache->count++] = hash;
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- pipelines ---- */

typedef struct mock_vk_pipeline {
    mock_vk_object o;
    const mock_vk_layout *layout;
    mock_vk_kernel_info kernel;        /* .fn NULL: nobody told what it does */
    uint32_t block[3];
    int based;                         /* for vkCmdDispatchBase */
} mock_vk_pipeline;

/* The workgroup's size, with what the specialization says of it. */
static void mock_vk_specialize(const mock_vk_device *d, const mock_vk_shader *shader,
                               const VkSpecializationInfo *info, uint32_t block[3]) {
    uint64_t all = 1;
    for (uint32_t i = 0; i < 3; i++) {
        block[i] = shader->block[i];
        for (uint32_t e = 0; info && e < info->mapEntryCount; e++) {
            const VkSpecializationMapEntry *entry = &info->pMapEntries[e];
            if (entry->constantID != shader->spec_id[i]) {
                continue;
            }
            mock_vk_check(entry->size == 4 && entry->offset + entry->size <= info->dataSize,
                          "specialization constant %u lies outside", entry->constantID);
            memcpy(&block[i], (const unsigned char *)info->pData + entry->offset, 4);
        }
        mock_vk_check(block[i] != 0 && block[i] <= d->desc->max_group_size[i],
                      "a workgroup of %u in dimension %u, the device has %u", block[i], i,
                      d->desc->max_group_size[i]);
        all *= block[i];
    }
    mock_vk_check(all <= d->desc->max_invocations, "a workgroup of %llu, the device has %u",
                  mock_vk_u(all), d->desc->max_invocations);
}

/* Does the layout bring what the kernel reads? */
static void mock_vk_layout_fits(const mock_vk_layout *layout, const mock_vk_kernel_info *k) {
    uint32_t end = layout->push_offset ? 0 : layout->push_size;
    mock_vk_check(k->shader.part == MOCK_VK_NONE || end >= k->shader.part + 44,
                  "the layout has no push constants for a part of a grid");
    if (k->shader.by_pointer) {
        mock_vk_check(end >= 8, "the layout has no push constants for a pointer");
        return;
    }
    for (uint32_t i = 0; i < k->buffer_count; i++) {
        mock_vk_check(layout->set && layout->set->bindings[i].used &&
                          layout->set->bindings[i].type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                      "the layout has no storage buffer at binding %u", i);
    }
    if (k->shader.uniform) {
        const mock_vk_binding *b = layout->set ? &layout->set->bindings[k->buffer_count] : NULL;
        mock_vk_check(b && b->used && b->type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                      "the layout has no uniform block at binding %u", k->buffer_count);
    } else {
        mock_vk_check(end >= k->value_bytes, "%u bytes of values, %u of push constants",
                      k->value_bytes, end);
    }
}

static mock_vk_pipeline *mock_vk_pipeline_make(mock_vk_device *d,
                                               const VkComputePipelineCreateInfo *info) {
    const VkPipelineShaderStageCreateInfo *stage = &info->stage;
    mock_vk_shader shader;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    mock_vk_type(stage->sType, VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
    mock_vk_check(stage->stage == VK_SHADER_STAGE_COMPUTE_BIT, "stage %#x",
                  (unsigned)stage->stage);
    const mock_vk_module_object *m =
        MOCK_VK_OBJECT(mock_vk_module_object, stage->module, MODULE, d);
    mock_vk_check(mock_vk_shader_read(m->words, m->size, stage->pName, &shader),
                  "the module has no entry point '%s'", stage->pName);
    mock_vk_pipeline *p = (mock_vk_pipeline *)mock_vk_new(d, MOCK_VK_KIND_PIPELINE, sizeof *p);
    p->layout = MOCK_VK_OBJECT(mock_vk_layout, info->layout, PIPELINE_LAYOUT, d);
    p->based = (info->flags & VK_PIPELINE_CREATE_DISPATCH_BASE_BIT) != 0;
    mock_vk_specialize(d, &shader, stage->pSpecializationInfo, p->block);
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        if (strcmp(m->kernels[i].entry, stage->pName) == 0) {
            p->kernel = m->kernels[i];
            mock_vk_layout_fits(p->layout, &p->kernel);
        }
    }
    return p;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateComputePipelines(
    VkDevice handle, VkPipelineCache object, uint32_t count,
    const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *allocator,
    VkPipeline *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateComputePipelines);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_cache *cache =
        object ? MOCK_VK_OBJECT(mock_vk_cache, object, PIPELINE_CACHE, d) : NULL;
    (void)allocator;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = VK_NULL_HANDLE;
        if (failure != VK_SUCCESS) {
            continue;
        }
        mock_vk_pipeline *p = mock_vk_pipeline_make(d, &infos[i]);
        const mock_vk_module_object *m =
            MOCK_VK_OBJECT(mock_vk_module_object, infos[i].stage.module, MODULE, d);
        uint64_t hash = mock_vk_hash(m->words, m->size);
        mock_vk_cache_use(d, cache, hash ^ mock_vk_hash(p->block, sizeof p->block));
        out[i] = (VkPipeline)(uintptr_t)p;
    }
    return failure;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyPipeline(VkDevice handle, VkPipeline pipeline,
                                                         const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyPipeline);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (pipeline) {
        mock_vk_destroy(d, &MOCK_VK_OBJECT(mock_vk_pipeline, pipeline, PIPELINE, d)->o);
    }
}

/* ---- descriptors ---- */

typedef struct mock_vk_descriptor {
    mock_vk_buffer *buffer;            /* NULL: never written */
    uint64_t offset, range;
} mock_vk_descriptor;

typedef struct mock_vk_set {
    mock_vk_object o;
    struct mock_vk_set *next_of_pool;
    const mock_vk_set_layout *layout;
    uint64_t version;                  /* what is recorded with another one is invalid */
    mock_vk_descriptor descriptors[MOCK_VK_BINDINGS];
} mock_vk_set;

typedef struct mock_vk_set_pool {
    mock_vk_object o;
    int late;
    uint32_t most_sets, most_storage, most_uniform;
    uint32_t sets_used, storage_used, uniform_used;
    mock_vk_set *sets;
} mock_vk_set_pool;

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateDescriptorPool(
    VkDevice handle, const VkDescriptorPoolCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkDescriptorPool *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateDescriptorPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
    mock_vk_check(info->maxSets != 0, "maxSets is 0");
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_set_pool *pool =
        (mock_vk_set_pool *)mock_vk_new(d, MOCK_VK_KIND_DESCRIPTOR_POOL, sizeof *pool);
    pool->late = (info->flags & VK_DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT) != 0;
    pool->most_sets = info->maxSets;
    for (uint32_t i = 0; i < info->poolSizeCount; i++) {
        const VkDescriptorPoolSize *size = &info->pPoolSizes[i];
        mock_vk_check(size->descriptorCount != 0, "a pool size of 0");
        if (size->type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) {
            pool->most_storage += size->descriptorCount;
        } else {
            pool->most_uniform += size->descriptorCount;
        }
    }
    *out = (VkDescriptorPool)(uintptr_t)pool;
    return VK_SUCCESS;
}

static void mock_vk_set_pool_empty(mock_vk_device *d, mock_vk_set_pool *pool) {
    for (mock_vk_set *set = pool->sets; set; set = set->next_of_pool) {
        mock_vk_destroy(d, &set->o);
    }
    pool->sets = NULL;
    pool->sets_used = pool->storage_used = pool->uniform_used = 0;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyDescriptorPool(
    VkDevice handle, VkDescriptorPool object, const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyDescriptorPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (!object) {
        return;
    }
    mock_vk_set_pool *pool = MOCK_VK_OBJECT(mock_vk_set_pool, object, DESCRIPTOR_POOL, d);
    mock_vk_inside(&pool->o, d->desc->linger);
    mock_vk_set_pool_empty(d, pool);
    mock_vk_destroy(d, &pool->o);
    mock_vk_outside(&pool->o);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkResetDescriptorPool(
    VkDevice handle, VkDescriptorPool object, VkDescriptorPoolResetFlags flags) {
    (void)mock_vk_enter(MOCK_VK_ResetDescriptorPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_set_pool *pool = MOCK_VK_OBJECT(mock_vk_set_pool, object, DESCRIPTOR_POOL, d);
    (void)flags;
    mock_vk_inside(&pool->o, d->desc->linger);
    mock_vk_set_pool_empty(d, pool);
    mock_vk_outside(&pool->o);
    return VK_SUCCESS;
}

/* One set, NULL: the pool is used up. */
static mock_vk_set *mock_vk_set_make(mock_vk_device *d, mock_vk_set_pool *pool,
                                     const mock_vk_set_layout *layout) {
    uint32_t storage = 0, uniform = 0;
    for (uint32_t i = 0; i < MOCK_VK_BINDINGS; i++) {
        int used = layout->bindings[i].used;
        storage += used && layout->bindings[i].type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        uniform += used && layout->bindings[i].type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    }
    mock_vk_check(!layout->push, "a set of a layout for push descriptors");
    mock_vk_check(!layout->late || pool->late, "the pool is not for updates after bind");
    if (pool->sets_used == pool->most_sets || storage > pool->most_storage - pool->storage_used ||
        uniform > pool->most_uniform - pool->uniform_used) {
        return NULL;
    }
    pool->sets_used++;
    pool->storage_used += storage;
    pool->uniform_used += uniform;
    mock_vk_set *set = (mock_vk_set *)mock_vk_new(d, MOCK_VK_KIND_DESCRIPTOR_SET, sizeof *set);
    set->layout = layout;
    set->next_of_pool = pool->sets;
    pool->sets = set;
    return set;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkAllocateDescriptorSets(
    VkDevice handle, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
    VkResult result = mock_vk_enter(MOCK_VK_AllocateDescriptorSets);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    mock_vk_set_pool *pool =
        MOCK_VK_OBJECT(mock_vk_set_pool, info->descriptorPool, DESCRIPTOR_POOL, d);
    mock_vk_check(info->descriptorSetCount != 0, "no sets");
    mock_vk_inside(&pool->o, d->desc->linger);
    for (uint32_t i = 0; i < info->descriptorSetCount; i++) {
        mock_vk_set *set = NULL;
        if (result == VK_SUCCESS) {
            set = mock_vk_set_make(d, pool, MOCK_VK_OBJECT(mock_vk_set_layout,
                                                           info->pSetLayouts[i], SET_LAYOUT, d));
            result = set ? VK_SUCCESS : VK_ERROR_OUT_OF_POOL_MEMORY;
        }
        out[i] = (VkDescriptorSet)(uintptr_t)set;
    }
    /* The sets made before a failure stay with the pool: they are counted as used. */
    for (uint32_t i = 0; result != VK_SUCCESS && i < info->descriptorSetCount; i++) {
        out[i] = VK_NULL_HANDLE;
    }
    mock_vk_outside(&pool->o);
    return result;
}

/* What a write says of its one descriptor, checked. */
static mock_vk_descriptor mock_vk_describe(const mock_vk_device *d,
                                           const mock_vk_set_layout *layout,
                                           const VkWriteDescriptorSet *write) {
    const VkPhysicalDeviceLimits *l = &d->physical->limits;
    mock_vk_descriptor made;
    mock_vk_type(write->sType, VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    mock_vk_check(write->dstBinding < MOCK_VK_BINDINGS && write->descriptorCount == 1 &&
                      write->dstArrayElement == 0 && layout->bindings[write->dstBinding].used &&
                      layout->bindings[write->dstBinding].type == write->descriptorType,
                  "binding %u is not as in the layout", write->dstBinding);
    int storage = write->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    uint64_t most = storage ? l->maxStorageBufferRange : l->maxUniformBufferRange;
    uint64_t align = storage ? l->minStorageBufferOffsetAlignment
                             : l->minUniformBufferOffsetAlignment;
    made.buffer = MOCK_VK_OBJECT(mock_vk_buffer, write->pBufferInfo->buffer, BUFFER, d);
    made.offset = write->pBufferInfo->offset;
    made.range = write->pBufferInfo->range;
    mock_vk_usable(made.buffer, storage ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
                                        : VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT);
    mock_vk_check(made.offset < made.buffer->size && made.offset % align == 0,
                  "binding %u: offset %llu, alignment %llu", write->dstBinding,
                  mock_vk_u(made.offset), mock_vk_u(align));
    if (made.range == VK_WHOLE_SIZE) {
        made.range = made.buffer->size - made.offset;
    }
    mock_vk_within(made.buffer, made.offset, made.range);
    mock_vk_check(made.range != 0 && made.range <= most, "binding %u: a range of %llu, at most "
                  "%llu", write->dstBinding, mock_vk_u(made.range), mock_vk_u(most));
    return made;
}

static void mock_vk_set_write(mock_vk_device *d, const VkWriteDescriptorSet *write) {
    mock_vk_set *set = MOCK_VK_OBJECT(mock_vk_set, write->dstSet, DESCRIPTOR_SET, d);
    mock_vk_inside(&set->o, d->desc->linger);
    mock_vk_descriptor made = mock_vk_describe(d, set->layout, write);
    VkDescriptorBindingFlags flags = set->layout->bindings[write->dstBinding].flags;
    pthread_mutex_lock(&d->lock);
    mock_vk_unused(d, &set->o);
    set->descriptors[write->dstBinding] = made;
    if (!(flags & VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT)) {
        set->version++;
    }
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&set->o);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkUpdateDescriptorSets(
    VkDevice handle, uint32_t write_count, const VkWriteDescriptorSet *writes,
    uint32_t copy_count, const VkCopyDescriptorSet *copies) {
    (void)mock_vk_enter(MOCK_VK_UpdateDescriptorSets);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)copies;
    mock_vk_check(copy_count == 0, "the mock copies no descriptors");
    for (uint32_t i = 0; i < write_count; i++) {
        mock_vk_set_write(d, &writes[i]);
    }
}

#endif /* HCQ_TEST_MOCK_VULKAN_PIPELINES_H */
