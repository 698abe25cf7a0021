/* vulkan_device.h - part of vulkan.h: devices, and the way in. */
#ifndef HCQ_TEST_MOCK_VULKAN_DEVICE_H
#define HCQ_TEST_MOCK_VULKAN_DEVICE_H

/* ---- features ---- */

/* Everything that a structure asks for must be there. */
static void mock_vk_wanted(const mock_vk_physical *p, const VkBaseInStructure *s) {
    size_t size = mock_vk_feature_size(p, s->sType), head = sizeof(VkBaseInStructure);
    mock_vk_check(size != 0, "a structure of type %d in pNext, which the device does not know",
                  (int)s->sType);
    VkBaseOutStructure *there = (VkBaseOutStructure *)calloc(1, size + sizeof(VkBool32));
    there->sType = s->sType;
    mock_vk_feature(p, there);
    for (size_t at = head; at < size; at += sizeof(VkBool32)) {
        VkBool32 want, have;
        memcpy(&want, (const char *)(const void *)s + at, sizeof want);
        memcpy(&have, (const char *)(const void *)there + at, sizeof have);
        mock_vk_check(!want || have, "feature %zu of structure %d is not there",
                      (at - head) / sizeof want, (int)s->sType);
    }
    free(there);
}

static void mock_vk_enable_12(mock_vk_enabled *e, const VkPhysicalDeviceVulkan12Features *f) {
    e->timeline |= f->timelineSemaphore != 0;
    e->addresses |= f->bufferDeviceAddress != 0;
    e->host_reset |= f->hostQueryReset != 0;
    e->late_sets |= f->descriptorBindingStorageBufferUpdateAfterBind != 0;
    e->late_unused |= f->descriptorBindingUpdateUnusedWhilePending != 0;
}

static void mock_vk_enable_feature(mock_vk_enabled *e, const VkBaseInStructure *s) {
    const void *at = s;
    switch ((int)s->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        mock_vk_enable_12(e, (const VkPhysicalDeviceVulkan12Features *)at);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        e->sync2 |= ((const VkPhysicalDeviceVulkan13Features *)at)->synchronization2 != 0;
        e->maintenance4 |= ((const VkPhysicalDeviceVulkan13Features *)at)->maintenance4 != 0;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        e->timeline |=
            ((const VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore != 0;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
        e->addresses |=
            ((const VkPhysicalDeviceBufferDeviceAddressFeatures *)at)->bufferDeviceAddress != 0;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES:
        e->host_reset |=
            ((const VkPhysicalDeviceHostQueryResetFeatures *)at)->hostQueryReset != 0;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
        e->sync2 |=
            ((const VkPhysicalDeviceSynchronization2Features *)at)->synchronization2 != 0;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES:
        e->maintenance4 |= ((const VkPhysicalDeviceMaintenance4Features *)at)->maintenance4 != 0;
        break;
    default:
        break;
    }
}

static void mock_vk_enable_features(mock_vk_device *d, const VkDeviceCreateInfo *info) {
    mock_vk_enabled *e = &d->enabled;
    const VkBaseInStructure *first = (const VkBaseInStructure *)info->pNext;
    for (const VkBaseInStructure *s = first; s; s = s->pNext) {
        mock_vk_check(!mock_vk_chained(s->pNext, s->sType), "structure %d twice in pNext",
                      (int)s->sType);
        mock_vk_wanted(d->physical, s);
        mock_vk_enable_feature(e, s);
    }
    int v12 = mock_vk_chained(first, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) != NULL;
    int v13 = mock_vk_chained(first, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES) != NULL;
    const VkStructureType of_12[] = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES
    };
    for (uint32_t i = 0; i < 3; i++) {
        mock_vk_check(!v12 || !mock_vk_chained(first, of_12[i]),
                      "structure %d beside that of Vulkan 1.2", (int)of_12[i]);
    }
    int sync2 = mock_vk_chained(
                    first, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES) != NULL;
    int four = mock_vk_chained(
                   first, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES) != NULL;
    mock_vk_check(!v13 || (!sync2 && !four),
                  "a structure beside that of Vulkan 1.3");
    int core = d->version >= VK_API_VERSION_1_3;
    mock_vk_check(!v13 || core, "features of Vulkan 1.3 with an older version");
    mock_vk_check(!e->sync2 || core || (e->extensions >> MOCK_VK_SYNC2 & 1),
                  "synchronization2 without its extension");
    mock_vk_check(!e->maintenance4 || core || (e->extensions >> MOCK_VK_MAINTENANCE4 & 1),
                  "maintenance4 without its extension");
}

/* ---- devices ---- */

static void mock_vk_queues_open(mock_vk_device *d, const VkDeviceCreateInfo *info) {
    uint32_t families = 0;
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
        const VkDeviceQueueCreateInfo *q = &info->pQueueCreateInfos[i];
        mock_vk_type(q->sType, VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
        mock_vk_check(q->queueFamilyIndex < d->physical->family_count &&
                          !(families >> q->queueFamilyIndex & 1) && q->queueCount != 0 &&
                          q->queueCount <=
                              d->physical->families[q->queueFamilyIndex].queueCount,
                      "%u queues of family %u", q->queueCount, q->queueFamilyIndex);
        families |= 1u << q->queueFamilyIndex;
        d->queue_count += q->queueCount;
        for (uint32_t k = 0; k < q->queueCount; k++) {
            mock_vk_check(q->pQueuePriorities[k] >= 0 && q->pQueuePriorities[k] <= 1,
                          "a priority outside of 0 to 1");
        }
    }
    mock_vk_check(d->queue_count != 0, "no queues");
    d->queues = (mock_vk_queue *)calloc(d->queue_count, sizeof *d->queues);
    mock_vk_queue *q = d->queues;
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
        for (uint32_t k = 0; k < info->pQueueCreateInfos[i].queueCount; k++, q++) {
            mock_vk_init(&q->o, MOCK_VK_KIND_QUEUE, d);
            q->family = info->pQueueCreateInfos[i].queueFamilyIndex;
            q->index = k;
        }
    }
}

static void mock_vk_runners_open(mock_vk_device *d) {
    int one = (d->desc->flags & MOCK_VK_SCHEDULER) != 0;
    d->runner_count = one ? 1 : d->queue_count;
    d->runners = (mock_vk_runner *)calloc(d->runner_count, sizeof *d->runners);
    for (uint32_t i = 0; i < d->runner_count; i++) {
        mock_vk_runner *r = &d->runners[i];
        r->d = d;
        r->first = one ? 0 : i;
        r->count = one ? d->queue_count : 1;
        mock_vk_check(pthread_create(&r->thread, NULL, mock_vk_runner_main, r) == 0,
                      "no thread for a queue");
    }
}

static void mock_vk_device_open(mock_vk_device *d, mock_vk_physical *p,
                                const VkDeviceCreateInfo *info) {
    pthread_condattr_t attributes;
    mock_vk_init(&d->o, MOCK_VK_KIND_DEVICE, d);
    d->physical = p;
    d->desc = &p->instance->desc;
    d->version = mock_vk_version(p);
    mock_vk_check(d->version >= VK_API_VERSION_1_2, "the application asks for an older Vulkan");
    mock_vk_enable_features(d, info);
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&d->bell, &attributes);
    pthread_condattr_destroy(&attributes);
    uint64_t made = __atomic_add_fetch(&mock_vk_devices_made, 1, __ATOMIC_RELAXED);
    uint64_t slot = d->desc->flags & MOCK_VK_SAME_ADDRESSES ? 0 : made % 64;
    d->next_address = 0x800000000000ull + (slot << 40) + 0x10000; /* no host pointer */
    d->random = d->desc->seed * 1000003u + p->index;
    mock_vk_queues_open(d, info);
    mock_vk_batches_make(d);
    mock_vk_runners_open(d);
    __atomic_fetch_add(&p->instance->devices, 1, __ATOMIC_RELEASE);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateDevice(VkPhysicalDevice physical,
                                                          const VkDeviceCreateInfo *info,
                                                          const VkAllocationCallbacks *allocator,
                                                          VkDevice *out) {
    VkResult result = mock_vk_enter(MOCK_VK_CreateDevice);
    mock_vk_physical *p = mock_vk_physical_of(physical);
    uint32_t extensions = 0;
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    mock_vk_check(info->enabledLayerCount == 0 && (!info->pNext || !info->pEnabledFeatures),
                  "layers of a device, or features said twice");
    if (result == VK_SUCCESS) {
        result = mock_vk_enable(p->instance->desc.without, 0, info->ppEnabledExtensionNames,
                                info->enabledExtensionCount, &extensions);
    }
    if (result != VK_SUCCESS) {
        return result;
    }
    mock_vk_device *d = (mock_vk_device *)calloc(1, sizeof *d);
    d->enabled.extensions = extensions;
    mock_vk_device_open(d, p, info);
    *out = (VkDevice)(uintptr_t)d;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetDeviceQueue(VkDevice handle, uint32_t family,
                                                        uint32_t index, VkQueue *out) {
    (void)mock_vk_enter(MOCK_VK_GetDeviceQueue);
    mock_vk_device *d = mock_vk_device_of(handle);
    uint32_t i = 0;
    while (i < d->queue_count && (d->queues[i].family != family || d->queues[i].index != index)) {
        i++;
    }
    mock_vk_check(i < d->queue_count, "there is no queue %u of family %u", index, family);
    d->queues[i].fetched = 1;
    *out = (VkQueue)(uintptr_t)&d->queues[i];
}

/* Everything that was made of the device must be gone. */
static void mock_vk_leaks(const mock_vk_device *d) {
    uint32_t left[MOCK_VK_KIND_COUNT] = {0}, all = 0;
    for (const mock_vk_object *o = d->objects; o; o = o->next) {
        left[o->kind] += (uint32_t)mock_vk_lives(o);
        all += (uint32_t)mock_vk_lives(o);
    }
    for (uint32_t i = 0; all && i < MOCK_VK_KIND_COUNT; i++) {
        if (left[i]) {
            fprintf(stderr, "VKMOCK: left: %u x %s\n", left[i], mock_vk_kind_names[i]);
        }
    }
    mock_vk_check(all == 0, "%u objects are left", all);
}

static void mock_vk_threads_end(mock_vk_device *d) {
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < d->queue_count; i++) {
        while (d->queues[i].head && mock_vk_is_lost(d)) {
            pthread_cond_wait(&d->bell, &d->lock);
        }
        mock_vk_check(!d->queues[i].head, "queue %u of family %u has work", d->queues[i].index,
                      d->queues[i].family);
    }
    d->stop = 1;
    pthread_cond_broadcast(&d->bell);
    pthread_mutex_unlock(&d->lock);
    for (uint32_t i = 0; i < d->runner_count; i++) {
        pthread_join(d->runners[i].thread, NULL);
    }
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyDevice(VkDevice handle,
                                                       const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyDevice);
    (void)allocator;
    if (!handle) {
        return;
    }
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_threads_end(d);
    mock_vk_leaks(d);
    for (uint32_t i = 0; i < d->queue_count; i++) {
        mock_vk_die(&d->queues[i].o);
        free(d->queues[i].order);
        free(d->queues[i].block);
    }
    while (d->objects) {
        mock_vk_object *next = d->objects->next;
        free(d->objects);
        d->objects = next;
    }
    while (d->spare) {
        mock_vk_batch *next = d->spare->next;
        free(d->spare);
        d->spare = next;
    }
    free(d->queues);
    free(d->runners);
    free(d->buffers);
    pthread_cond_destroy(&d->bell);
    pthread_mutex_destroy(&d->lock);
    __atomic_fetch_sub(&d->physical->instance->devices, 1, __ATOMIC_RELEASE);
    mock_vk_die(&d->o);
    free(d);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkSetDebugUtilsObjectNameEXT(
    VkDevice handle, const VkDebugUtilsObjectNameInfoEXT *info) {
    VkResult failure = mock_vk_enter(MOCK_VK_SetDebugUtilsObjectNameEXT);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_object *o = (const mock_vk_object *)(uintptr_t)info->objectHandle;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT);
    mock_vk_check(o && o->magic == MOCK_VK_MAGIC + (uint32_t)o->kind && mock_vk_lives(o) &&
                      (o->device == d || !o->device),
                  "a name for something that is no object of the device");
    return failure;
}

/* ---- the way in ---- */

static PFN_vkVoidFunction mock_vk_function(mock_vk_entry entry);

static mock_vk_entry mock_vk_entry_of(const char *name) {
    uint32_t i = 0;
    while (i < MOCK_VK_ENTRY_COUNT && strcmp(mock_vk_names[i], name) != 0) {
        i++;
    }
    return (mock_vk_entry)i;
}

static const struct { uint8_t level, need; } mock_vk_table[MOCK_VK_ENTRY_COUNT] = {
#define MOCK_VK_ROW(name, level, need) {MOCK_VK_##level, MOCK_VK_##need},
    MOCK_VK_ENTRIES(MOCK_VK_ROW)
#undef MOCK_VK_ROW
};

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL mock_vkGetDeviceProcAddr(VkDevice handle,
                                                                         const char *name) {
    (void)mock_vk_enter(MOCK_VK_GetDeviceProcAddr);
    const mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_entry entry = mock_vk_entry_of(name);
    if (entry == MOCK_VK_GetDeviceProcAddr) {
        return mock_vk_function(entry);
    }
    if (entry == MOCK_VK_ENTRY_COUNT || mock_vk_table[entry].level != MOCK_VK_DEVICE) {
        return NULL;
    }
    uint32_t need = mock_vk_table[entry].need;
    int there = need == MOCK_VK_CORE || (d->enabled.extensions >> need & 1) ||
                (need == MOCK_VK_CORE13 && d->version >= VK_API_VERSION_1_3) ||
                (need == MOCK_VK_DEBUG_UTILS && d->physical->instance->debug_utils);
    return there ? mock_vk_function(entry) : NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL mock_vkGetInstanceProcAddr(VkInstance handle,
                                                                           const char *name) {
    (void)mock_vk_enter(MOCK_VK_GetInstanceProcAddr);
    mock_vk_entry entry = mock_vk_entry_of(name);
    if (entry == MOCK_VK_ENTRY_COUNT) {
        return NULL;
    }
    if (entry == MOCK_VK_GetInstanceProcAddr || !handle) {
        return mock_vk_table[entry].level == MOCK_VK_GLOBAL ? mock_vk_function(entry) : NULL;
    }
    const mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    uint32_t need = mock_vk_table[entry].need;
    int there = mock_vk_table[entry].level != MOCK_VK_GLOBAL &&
                (need != MOCK_VK_DEBUG_UTILS || instance->debug_utils) &&
                (need != MOCK_VK_CORE13 || instance->desc.api_version >= VK_API_VERSION_1_3);
    for (uint32_t i = 0; i < MOCK_VK_EXTENSIONS; i++) {
        there &= mock_vk_extensions[i].need != need ||
                 !(instance->desc.without & mock_vk_extensions[i].without);
    }
    return there ? mock_vk_function(entry) : NULL;
}

/* All functions of the mock, each with the type that Vulkan gives it. */
typedef struct mock_vk_functions {
#define MOCK_VK_MEMBER(name, level, need) PFN_vk##name name;
    MOCK_VK_ENTRIES(MOCK_VK_MEMBER)
#undef MOCK_VK_MEMBER
} mock_vk_functions;

static const mock_vk_functions mock_vk_all = {
#define MOCK_VK_VALUE(name, level, need) mock_vk##name,
    MOCK_VK_ENTRIES(MOCK_VK_VALUE)
#undef MOCK_VK_VALUE
};

static PFN_vkVoidFunction mock_vk_function(mock_vk_entry entry) {
    PFN_vkVoidFunction function;
    _Static_assert(sizeof mock_vk_all == MOCK_VK_ENTRY_COUNT * sizeof function,
                   "function pointers are of one size");
    memcpy(&function, (const char *)&mock_vk_all + entry * sizeof function, sizeof function);
    return function;
}

/* The system's way in, or NULL. */
static PFN_vkGetInstanceProcAddr mock_vk_system(void) {
    static PFN_vkGetInstanceProcAddr found;
    static int looked;
    pthread_mutex_lock(&mock_vk_lock);
    if (!looked) {
        void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        memcpy(&found, &symbol, sizeof found);
        looked = 1;
    }
    PFN_vkGetInstanceProcAddr loader = found;
    pthread_mutex_unlock(&mock_vk_lock);
    return loader;
}

static int mock_vk_is_ours(VkInstance handle) {
    pthread_mutex_lock(&mock_vk_lock);
    const mock_vk_instance *instance = mock_vk_instances;
    while (instance && (uintptr_t)instance != (uintptr_t)handle) {
        instance = instance->next_instance;
    }
    pthread_mutex_unlock(&mock_vk_lock);
    return instance != NULL;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL mock_vk_loader(VkInstance instance, const char *name) {
    if (instance ? mock_vk_is_ours(instance) : mock_vk_options.on) {
        return mock_vkGetInstanceProcAddr(instance, name);
    }
    PFN_vkGetInstanceProcAddr loader = mock_vk_system();
    return loader ? loader(instance, name) : NULL;
}

#endif /* HCQ_TEST_MOCK_VULKAN_DEVICE_H */
