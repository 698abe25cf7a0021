/* vulkan_device.h - the mock of Vulkan: devices, and the way in. */
#pragma once

#include "vulkan_run.h"

#include <dlfcn.h>

/* ---- devices ---- */

static void mock_vk_queues_open(mock_vk_device *d, const VkDeviceCreateInfo *info) {
    d->queues = calloc(MOCK_VK_QUEUES, sizeof *d->queues);
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
        const VkDeviceQueueCreateInfo *wanted = &info->pQueueCreateInfos[i];
        uint32_t family = wanted->queueFamilyIndex;
        mock_vk_check(family < d->physical->family_count && wanted->queueCount != 0 &&
                          wanted->queueCount <= d->physical->families[family].queueCount &&
                          d->queue_count + wanted->queueCount <= MOCK_VK_QUEUES,
                      "%u queues of family %u", wanted->queueCount, family);
        for (uint32_t k = 0; k < wanted->queueCount; k++) {
            mock_vk_queue *q = &d->queues[d->queue_count++];
            mock_vk_init(&q->o, MOCK_VK_KIND_QUEUE, d);
            q->family = family;
            q->index = k;
        }
    }
}

/* A thread for each queue, or one for all. */
static void mock_vk_threads_begin(mock_vk_device *d) {
    d->thread_count = d->desc->flags & MOCK_VK_SCHEDULER ? 1 : d->queue_count;
    for (uint32_t i = 0; i < d->thread_count; i++) {
        mock_vk_check(pthread_create(&d->queues[i].thread, NULL, mock_vk_queue_main,
                                     &d->queues[i]) == 0, "no thread for a queue");
    }
}

static void mock_vk_device_open(mock_vk_device *d, mock_vk_physical *p,
                                const VkDeviceCreateInfo *info) {
    static uint64_t devices;
    pthread_condattr_t attributes;
    mock_vk_init(&d->o, MOCK_VK_KIND_DEVICE, d);
    d->physical = p;
    d->desc = p->desc;
    d->features = mock_vk_enabled(p, info->pNext);
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&d->bell, &attributes);
    pthread_condattr_destroy(&attributes);
    uint64_t made = __atomic_add_fetch(&devices, 1, __ATOMIC_RELAXED);
    uint64_t slot = d->desc->flags & MOCK_VK_SAME_ADDRESSES ? 0 : made % 64;
    d->next_address = 0x800000000000ull + (slot << 40) + 0x10000; /* no host pointer */
    d->random = d->desc->seed * 1000003u + p->index;
    mock_vk_queues_open(d, info);
    mock_vk_batches_make(d);
    mock_vk_threads_begin(d);
    __atomic_fetch_add(&p->instance->devices, 1, __ATOMIC_RELEASE);
}

MOCK_VK_API(VkResult, CreateDevice, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
            MOCK_VK_HOOKS, VkDevice *out) {
    VkResult result = mock_vk_enter(MOCK_VK_CreateDevice);
    mock_vk_physical *p = mock_vk_physical_of(physical);
    *out = VK_NULL_HANDLE;
    MOCK_VK_TRY(result);
    result = mock_vk_enable(p->desc->without, info->ppEnabledExtensionNames,
                            info->enabledExtensionCount);
    MOCK_VK_TRY(result);
    mock_vk_device *d = calloc(1, sizeof *d);
    mock_vk_device_open(d, p, info);
    *out = (VkDevice)(uintptr_t)d;
    return VK_SUCCESS;
}

MOCK_VK_API(void, GetDeviceQueue, VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
    (void)mock_vk_enter(MOCK_VK_GetDeviceQueue);
    mock_vk_device *d = mock_vk_device_of(handle);
    uint32_t i = 0;
    while (i < d->queue_count && (d->queues[i].family != family || d->queues[i].index != index)) {
        i++;
    }
    mock_vk_check(i < d->queue_count, "there is no queue %u of family %u", index, family);
    *out = (VkQueue)(uintptr_t)&d->queues[i];
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
    for (uint32_t i = 0; i < d->thread_count; i++) {
        pthread_join(d->queues[i].thread, NULL);
    }
}

/* Everything that was made of the device must be gone. */
static void mock_vk_objects_free(mock_vk_device *d) {
    while (d->objects) {
        mock_vk_object *o = d->objects;
        mock_vk_check(!mock_vk_lives(o), "%s #%u is left", mock_vk_kind_names[o->kind], o->number);
        d->objects = o->next;
        free(o);
    }
    for (uint32_t i = 0; i < d->queue_count; i++) {
        mock_vk_die(&d->queues[i].o);
        free(d->queues[i].order);
        free(d->queues[i].block);
    }
    while (d->spare) {
        mock_vk_batch *next = d->spare->next;
        free(d->spare);
        d->spare = next;
    }
}

MOCK_VK_API(void, DestroyDevice, VkDevice handle, MOCK_VK_HOOKS) {
    (void)mock_vk_enter(MOCK_VK_DestroyDevice);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_threads_end(d);
    mock_vk_objects_free(d);
    free(d->queues);
    pthread_cond_destroy(&d->bell);
    pthread_mutex_destroy(&d->lock);
    __atomic_fetch_sub(&d->physical->instance->devices, 1, __ATOMIC_RELEASE);
    mock_vk_die(&d->o);
    free(d);
}

MOCK_VK_API(VkResult, SetDebugUtilsObjectNameEXT, VkDevice handle,
            const VkDebugUtilsObjectNameInfoEXT *info) {
    VkResult failure = mock_vk_enter(MOCK_VK_SetDebugUtilsObjectNameEXT);
    const mock_vk_object *o = (const mock_vk_object *)(uintptr_t)info->objectHandle;
    mock_vk_check(o && o->magic == MOCK_VK_MAGIC + (uint32_t)o->kind && mock_vk_lives(o) &&
                      o->device == mock_vk_device_of(handle),
                  "a name for something that is no object of the device");
    return failure;
}

/* ---- the way in ---- */

/* All functions of the mock, each with the type that Vulkan gives it; on Linux,
   VKAPI_ATTR and VKAPI_CALL are empty. */
typedef struct mock_vk_functions {
#define MOCK_VK_MEMBER(name) PFN_vk##name name;
    MOCK_VK_ENTRIES(MOCK_VK_MEMBER)
#undef MOCK_VK_MEMBER
} mock_vk_functions;

static PFN_vkVoidFunction mock_vkGetInstanceProcAddr(VkInstance instance, const char *name);
static PFN_vkVoidFunction mock_vkGetDeviceProcAddr(VkDevice device, const char *name);

/* One of those from `first` to `last`, or NULL. */
static PFN_vkVoidFunction mock_vk_function(const char *name, uint32_t first, uint32_t last) {
    static const mock_vk_functions all = {
#define MOCK_VK_VALUE(name) mock_vk##name,
        MOCK_VK_ENTRIES(MOCK_VK_VALUE)
#undef MOCK_VK_VALUE
    };
    PFN_vkVoidFunction function = NULL;
    for (uint32_t i = first; i <= last; i++) {
        if (strcmp(mock_vk_names[i], name) == 0) {
            memcpy(&function, (const char *)&all + i * sizeof function, sizeof function);
        }
    }
    return function;
}

MOCK_VK_API(PFN_vkVoidFunction, GetInstanceProcAddr, VkInstance instance, const char *name) {
    if (mock_vk_enter(MOCK_VK_GetInstanceProcAddr) != VK_SUCCESS) { return NULL; }
    return instance ? mock_vk_function(name, MOCK_VK_DestroyInstance, MOCK_VK_ENTRY_COUNT - 1)
                    : mock_vk_function(name, 0, MOCK_VK_CreateInstance);
}

MOCK_VK_API(PFN_vkVoidFunction, GetDeviceProcAddr, VkDevice device, const char *name) {
    if (mock_vk_enter(MOCK_VK_GetDeviceProcAddr) != VK_SUCCESS) { return NULL; }
    return mock_vk_function(name, MOCK_VK_DestroyDevice, MOCK_VK_ENTRY_COUNT - 1);
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
    pthread_mutex_unlock(&mock_vk_lock);
    return found;
}

/* The system's handles, too, lead to a word that can be read. */
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL mock_vk_loader(VkInstance instance, const char *name) {
    const uint32_t *word = (const uint32_t *)(const void *)instance;
    if (word ? *word == MOCK_VK_MAGIC + MOCK_VK_KIND_INSTANCE : mock_vk_options.on) {
        return mock_vkGetInstanceProcAddr(instance, name);
    }
    PFN_vkGetInstanceProcAddr loader = mock_vk_system();
    return loader ? loader(instance, name) : NULL;
}

#pragma GCC diagnostic pop
