/* vulkan_physical.h - the mock of Vulkan: instances, and what physical devices say
   about themselves. Only structures that hcq knows. */
#pragma once

#include "vulkan_base.h"

/* Of creating and destroying functions: nobody has any. */
#define MOCK_VK_HOOKS const VkAllocationCallbacks *hooks

enum { MOCK_VK_DEVICES = 8, MOCK_VK_FAMILIES = 3, MOCK_VK_HEAPS = 3,
       MOCK_VK_STORAGE_ALIGNMENT = 256 };

typedef struct mock_vk_instance mock_vk_instance;

typedef struct mock_vk_physical {
    mock_vk_object o;
    mock_vk_instance *instance;
    const mock_vk_desc *desc;
    uint32_t index;
    uint32_t family_count;
    VkQueueFamilyProperties families[MOCK_VK_FAMILIES];
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceProperties properties;
    uint64_t heap_used[MOCK_VK_HEAPS]; /* atomic */
} mock_vk_physical;

struct mock_vk_instance {
    mock_vk_object o;
    mock_vk_desc desc;                 /* defaults filled in */
    uint32_t devices;                  /* living, atomic */
    VkDebugUtilsMessengerCreateInfoEXT messenger; /* the one, if it has a function */
    mock_vk_physical physical[MOCK_VK_DEVICES];
};

/* ---- defaults ---- */

#define MOCK_VK_DEFAULT(member, value) d.member = d.member ? d.member : (value)

static mock_vk_desc mock_vk_defaults(const mock_vk_desc *given) {
    static const uint32_t sizes[3] = {1024, 1024, 64};
    mock_vk_desc d = *given;
    MOCK_VK_DEFAULT(devices, 1);
    MOCK_VK_DEFAULT(api_version, VK_API_VERSION_1_3);
    MOCK_VK_DEFAULT(loader_version, d.api_version);
    MOCK_VK_DEFAULT(queues[0], 1);
    for (uint32_t i = 0; i < 3; i++) {
        MOCK_VK_DEFAULT(timestamp_bits[i], 64);
        MOCK_VK_DEFAULT(max_groups[i], 65535);
        MOCK_VK_DEFAULT(max_group_size[i], sizes[i]);
        d.timestamp_bits[i] = d.timestamp_bits[i] == MOCK_VK_NONE ? 0 : d.timestamp_bits[i];
    }
    d.timestamp_period = d.timestamp_period > 0 ? d.timestamp_period : 1.0f;
    MOCK_VK_DEFAULT(clock_offset_ns, 7777777777);
    MOCK_VK_DEFAULT(heap_bytes, (uint64_t)4 << 30);
    MOCK_VK_DEFAULT(small_heap_bytes, (uint64_t)256 << 20);
    MOCK_VK_DEFAULT(max_allocation, (uint64_t)1 << 30);
    MOCK_VK_DEFAULT(max_allocations, 4096);
    MOCK_VK_DEFAULT(max_push_constants, 128);
    MOCK_VK_DEFAULT(max_storage_range, 128u << 20);
    MOCK_VK_DEFAULT(max_storage_buffers, 64);
    MOCK_VK_DEFAULT(import_alignment, 4096);
    return d;
}

/* Is a feature there? `without`: MOCK_VK_NO_* that takes it away. */
static VkBool32 mock_vk_has(const mock_vk_physical *p, uint32_t without) {
    return (p->desc->without & without) == 0;
}

/* ---- physical devices ---- */

static void mock_vk_add_family(mock_vk_physical *p, uint32_t profile, VkQueueFlags flags) {
    const mock_vk_desc *d = p->desc;
    VkQueueFamilyProperties *f = &p->families[p->family_count];
    if (d->queues[profile] == 0) {
        return;
    }
    if ((d->flags & MOCK_VK_IMPLIED_TRANSFER) && (flags & VK_QUEUE_COMPUTE_BIT)) {
        flags &= ~(VkQueueFlags)VK_QUEUE_TRANSFER_BIT;
    }
    f->queueFlags = flags;
    f->queueCount = d->queues[profile];
    f->timestampValidBits = d->timestamp_bits[profile];
    p->family_count++;
}

static void mock_vk_fill_memory(mock_vk_physical *p) {
    const mock_vk_desc *d = p->desc;
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    const VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkMemoryHeap heaps[MOCK_VK_HEAPS] = {
        {d->heap_bytes, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {(uint64_t)4 << 30, 0},
        {d->small_heap_bytes, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
    const VkMemoryType types[5] = {
        {local, 0}, {visible | coherent, 1}, {visible | cached, 1},
        {visible | coherent | cached, 1}, {local | visible | coherent, 2}};
    memcpy(p->memory.memoryHeaps, heaps, sizeof heaps);
    memcpy(p->memory.memoryTypes, types, sizeof types);
    p->memory.memoryHeapCount = d->discrete ? 3 : 1;
    p->memory.memoryTypeCount = d->discrete ? 5 : 1;
    if (!d->discrete) {
        p->memory.memoryTypes[0].propertyFlags =
            local | visible | coherent | (d->flags & MOCK_VK_NOT_CACHED ? 0 : cached);
    }
}

static void mock_vk_fill_limits(const mock_vk_desc *d, VkPhysicalDeviceLimits *l) {
    memcpy(l->maxComputeWorkGroupCount, d->max_groups, sizeof d->max_groups);
    memcpy(l->maxComputeWorkGroupSize, d->max_group_size, sizeof d->max_group_size);
    l->maxComputeWorkGroupInvocations = 1024;
    l->maxComputeSharedMemorySize = 32768;
    l->maxPushConstantsSize = d->max_push_constants;
    l->maxMemoryAllocationCount = d->max_allocations;
    l->maxStorageBufferRange = d->max_storage_range;
    l->maxUniformBufferRange = 16384;
    l->maxPerStageDescriptorStorageBuffers = d->max_storage_buffers;
    l->minStorageBufferOffsetAlignment = MOCK_VK_STORAGE_ALIGNMENT;
    l->timestampPeriod = d->timestamp_period;
}

static void mock_vk_physical_init(mock_vk_instance *instance, uint32_t index) {
    const VkQueueFlags compute = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
    mock_vk_physical *p = &instance->physical[index];
    VkPhysicalDeviceProperties *out = &p->properties;
    mock_vk_init(&p->o, MOCK_VK_KIND_PHYSICAL, NULL);
    p->instance = instance;
    p->desc = &instance->desc;
    p->index = index;
    mock_vk_add_family(p, 0, VK_QUEUE_GRAPHICS_BIT | compute);
    mock_vk_add_family(p, 1, compute);
    mock_vk_add_family(p, 2, VK_QUEUE_TRANSFER_BIT);
    mock_vk_fill_memory(p);
    mock_vk_fill_limits(p->desc, &out->limits);
    out->apiVersion = p->desc->api_version;
    out->vendorID = 0x10005;
    out->deviceID = 0x4d00 + index;
    out->deviceType = p->desc->discrete ? VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
                                        : VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    snprintf(out->deviceName, sizeof out->deviceName, "Mock GPU %u", index);
    memset(out->pipelineCacheUUID, 0x4d, VK_UUID_SIZE);
}

static mock_vk_physical *mock_vk_physical_of(VkPhysicalDevice handle) {
    return MOCK_VK_OBJECT(mock_vk_physical, handle, PHYSICAL, NULL);
}

/* Gives as many of `there` items as there is room for, and how many those are. */
static VkResult mock_vk_give(const void *items, size_t size, uint32_t there, uint32_t *count,
                             void *out) {
    const uint32_t n = out && *count < there ? *count : there;
    *count = n;
    if (out) {
        memcpy(out, items, n * size);
    }
    return n < there ? VK_INCOMPLETE : VK_SUCCESS;
}

/* ---- extensions ---- */

static const struct {
    const char *name;
    uint32_t without;
} mock_vk_extensions[] = {             /* the first is of the instance */
    {"VK_EXT_debug_utils", MOCK_VK_NO_DEBUG_UTILS},
    {"VK_KHR_synchronization2", MOCK_VK_NO_SYNC2},
    {"VK_EXT_external_memory_host", MOCK_VK_NO_HOST_MEMORY},
    {"VK_EXT_calibrated_timestamps", MOCK_VK_NO_CALIBRATION},
    {"VK_KHR_maintenance4", MOCK_VK_NO_MAINTENANCE4},
    {"VK_KHR_pipeline_executable_properties", MOCK_VK_NO_STATISTICS}
};

enum { MOCK_VK_EXTENSIONS = sizeof mock_vk_extensions / sizeof mock_vk_extensions[0] };

/* Lists those from `first` to `last`. */
static VkResult mock_vk_list_extensions(uint32_t without, uint32_t first, uint32_t last,
                                        uint32_t *count, VkExtensionProperties *properties) {
    VkExtensionProperties all[MOCK_VK_EXTENSIONS] = {0};
    uint32_t there = 0;
    for (uint32_t i = first; i <= last; i++) {
        if (!(without & mock_vk_extensions[i].without)) {
            strcpy(all[there++].extensionName, mock_vk_extensions[i].name);
        }
    }
    return mock_vk_give(all, sizeof all[0], there, count, properties);
}

/* Are all of these there? */
static VkResult mock_vk_enable(uint32_t without, const char *const *names, uint32_t count) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = 0;
        while (i < MOCK_VK_EXTENSIONS && strcmp(mock_vk_extensions[i].name, names[n]) != 0) {
            i++;
        }
        if (i == MOCK_VK_EXTENSIONS || (without & mock_vk_extensions[i].without)) {
            return VK_ERROR_EXTENSION_NOT_PRESENT;
        }
    }
    return VK_SUCCESS;
}

MOCK_VK_API(VkResult, EnumerateDeviceExtensionProperties, VkPhysicalDevice physical,
            const char *layer, uint32_t *count, VkExtensionProperties *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateDeviceExtensionProperties);
    MOCK_VK_TRY(failure);
    return mock_vk_list_extensions(mock_vk_physical_of(physical)->desc->without, 1,
                                   MOCK_VK_EXTENSIONS - 1, count, out);
}

/* ---- properties ---- */

static void mock_vk_property(const mock_vk_physical *p, void *at) {
    VkPhysicalDeviceVulkan11Properties *v11 = at;
    VkPhysicalDeviceVulkan12Properties *v12 = at;
    switch ((int)v11->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES:
        v11->deviceUUID[0] = 0xd0;
        v11->deviceUUID[1] = (uint8_t)p->index;
        v11->subgroupSize = 32;
        v11->subgroupSupportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
        v11->subgroupSupportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
        v11->maxMemoryAllocationSize = p->desc->max_allocation;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
        strcpy(v12->driverName, "mock");
        strcpy(v12->driverInfo, "of the tests");
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
        ((VkPhysicalDeviceMaintenance4Properties *)at)->maxBufferSize = 2 * p->desc->max_allocation;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT:
        ((VkPhysicalDeviceExternalMemoryHostPropertiesEXT *)at)->minImportedHostPointerAlignment =
            p->desc->import_alignment;
        break;
    default:
        mock_vk_check(0, "the device knows no structure %d", (int)v11->sType);
    }
}

MOCK_VK_API(void, GetPhysicalDeviceProperties2, VkPhysicalDevice physical,
            VkPhysicalDeviceProperties2 *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceProperties2);
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    out->properties = p->properties;
    for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext) {
        mock_vk_property(p, s);
    }
}

MOCK_VK_API(void, GetPhysicalDeviceMemoryProperties2, VkPhysicalDevice physical,
            VkPhysicalDeviceMemoryProperties2 *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceMemoryProperties2);
    out->memoryProperties = mock_vk_physical_of(physical)->memory;
}

MOCK_VK_API(void, GetPhysicalDeviceQueueFamilyProperties, VkPhysicalDevice physical,
            uint32_t *count, VkQueueFamilyProperties *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceQueueFamilyProperties);
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    (void)mock_vk_give(p->families, sizeof p->families[0], p->family_count, count, out);
}

MOCK_VK_API(VkResult, GetPhysicalDeviceCalibrateableTimeDomainsEXT, VkPhysicalDevice physical,
            uint32_t *count, VkTimeDomainEXT *out) {
    static const VkTimeDomainEXT domains[2] = {
        VK_TIME_DOMAIN_DEVICE_EXT, VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT
    };
    VkResult failure = mock_vk_enter(MOCK_VK_GetPhysicalDeviceCalibrateableTimeDomainsEXT);
    (void)mock_vk_physical_of(physical);
    return failure != VK_SUCCESS ? failure
                                 : mock_vk_give(domains, sizeof domains[0], 2, count, out);
}

/* ---- features ---- */

static void mock_vk_feature(const mock_vk_physical *p, VkBaseOutStructure *s) {
    void *at = s;
    VkPhysicalDeviceVulkan11Features *v11 = at;
    VkPhysicalDeviceVulkan12Features *v12 = at;
    VkPhysicalDeviceFeatures *v10 = &((VkPhysicalDeviceFeatures2 *)at)->features;
    switch ((int)s->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
        v10->shaderInt64 = v10->shaderInt16 = v10->shaderFloat64 = VK_TRUE;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        v11->storageBuffer16BitAccess = VK_TRUE;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        v12->storageBuffer8BitAccess = v12->shaderFloat16 = v12->shaderInt8 = VK_TRUE;
        v12->shaderBufferInt64Atomics = v12->scalarBlockLayout = VK_TRUE;
        v12->uniformBufferStandardLayout = v12->vulkanMemoryModel = VK_TRUE;
        v12->descriptorBindingStorageBufferUpdateAfterBind =
            mock_vk_has(p, MOCK_VK_NO_UPDATE_AFTER_BIND);
        v12->hostQueryReset = mock_vk_has(p, MOCK_VK_NO_HOST_RESET);
        v12->timelineSemaphore = mock_vk_has(p, MOCK_VK_NO_TIMELINE);
        v12->bufferDeviceAddress = mock_vk_has(p, MOCK_VK_NO_ADDRESSES);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
        ((VkPhysicalDeviceSynchronization2Features *)at)->synchronization2 =
            mock_vk_has(p, MOCK_VK_NO_SYNC2);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES:
        ((VkPhysicalDeviceMaintenance4Features *)at)->maintenance4 =
            mock_vk_has(p, MOCK_VK_NO_MAINTENANCE4);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR:
        ((VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR *)at)->pipelineExecutableInfo =
            mock_vk_has(p, MOCK_VK_NO_STATISTICS);
        break;
    default:
        mock_vk_check(0, "the device knows no structure %d", (int)s->sType);
    }
}

MOCK_VK_API(void, GetPhysicalDeviceFeatures2, VkPhysicalDevice physical,
            VkPhysicalDeviceFeatures2 *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceFeatures2);
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)(void *)out; s; s = s->pNext) {
        mock_vk_feature(p, s);
    }
}

/* What a device is made with, of which all must be there: bits of MOCK_VK_NO_*. */
static uint32_t mock_vk_enabled(const mock_vk_physical *p, const void *chain) {
    uint32_t on = 0;
    const VkPhysicalDeviceVulkan12Features *v12 =
        mock_vk_chained(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    const VkPhysicalDeviceSynchronization2Features *sync2 =
        mock_vk_chained(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES);
    const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR *statistics = mock_vk_chained(
        chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
    mock_vk_check(v12 != NULL, "no structure of Vulkan 1.2");
    on |= statistics && statistics->pipelineExecutableInfo ? MOCK_VK_NO_STATISTICS : 0;
    on |= v12->descriptorBindingStorageBufferUpdateAfterBind ? MOCK_VK_NO_UPDATE_AFTER_BIND : 0;
    on |= v12->hostQueryReset ? MOCK_VK_NO_HOST_RESET : 0;
    on |= v12->timelineSemaphore ? MOCK_VK_NO_TIMELINE : 0;
    on |= v12->bufferDeviceAddress ? MOCK_VK_NO_ADDRESSES : 0;
    on |= sync2 && sync2->synchronization2 ? MOCK_VK_NO_SYNC2 : 0;
    mock_vk_check((on & p->desc->without) == 0, "a feature that is not there");
    return on;
}

/* ---- instances ---- */

MOCK_VK_API(VkResult, EnumerateInstanceVersion, uint32_t *version) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateInstanceVersion);
    *version = mock_vk_defaults(&mock_vk_options).loader_version;
    return failure;
}

MOCK_VK_API(VkResult, EnumerateInstanceExtensionProperties, const char *layer, uint32_t *count,
            VkExtensionProperties *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateInstanceExtensionProperties);
    MOCK_VK_TRY(failure);
    if (layer && (mock_vk_options.without & MOCK_VK_NO_LAYER)) {
        return VK_ERROR_LAYER_NOT_PRESENT;
    }
    if (layer) {
        *count = 0;
        return VK_SUCCESS;
    }
    return mock_vk_list_extensions(mock_vk_options.without, 0, 0, count, out);
}

MOCK_VK_API(VkResult, CreateInstance, const VkInstanceCreateInfo *info, MOCK_VK_HOOKS,
            VkInstance *out) {
    static uint32_t makers;            /* the layer's table and some loaders want one at a time */
    VkResult result = mock_vk_enter(MOCK_VK_CreateInstance);
    *out = VK_NULL_HANDLE;
    MOCK_VK_TRY(result);
    mock_vk_check(__atomic_fetch_add(&makers, 1, __ATOMIC_RELAXED) == 0, "two threads at once");
    usleep(1000);
    __atomic_fetch_sub(&makers, 1, __ATOMIC_RELAXED);
    result = mock_vk_enable(mock_vk_options.without, info->ppEnabledExtensionNames,
                            info->enabledExtensionCount);
    MOCK_VK_TRY(result);
    mock_vk_instance *instance = calloc(1, sizeof *instance);
    mock_vk_init(&instance->o, MOCK_VK_KIND_INSTANCE, NULL);
    instance->desc = mock_vk_defaults(&mock_vk_options);
    for (uint32_t i = 0; i < instance->desc.devices; i++) {
        mock_vk_physical_init(instance, i);
    }
    *out = (VkInstance)(uintptr_t)instance;
    return VK_SUCCESS;
}

MOCK_VK_API(void, DestroyInstance, VkInstance handle, MOCK_VK_HOOKS) {
    (void)mock_vk_enter(MOCK_VK_DestroyInstance);
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    uint32_t devices = __atomic_load_n(&instance->devices, __ATOMIC_ACQUIRE);
    mock_vk_check(!devices && !instance->messenger.pfnUserCallback,
                  "%u devices or a messenger are left", devices);
    for (uint32_t i = 0; i < instance->desc.devices; i++) {
        mock_vk_die(&instance->physical[i].o);
    }
    mock_vk_die(&instance->o);
    free(instance);
}

MOCK_VK_API(VkResult, EnumeratePhysicalDevices, VkInstance handle, uint32_t *count,
            VkPhysicalDevice *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumeratePhysicalDevices);
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    VkPhysicalDevice all[MOCK_VK_DEVICES];
    for (uint32_t i = 0; i < MOCK_VK_DEVICES; i++) {
        all[i] = (VkPhysicalDevice)(uintptr_t)&instance->physical[i];
    }
    MOCK_VK_TRY(failure);
    return mock_vk_give(all, sizeof all[0], instance->desc.devices, count, out);
}

/* ---- the layer's messages: it is there and says something at each submit, and whenever
   the pipelines are asked for ---- */

MOCK_VK_API(VkResult, CreateDebugUtilsMessengerEXT, VkInstance handle,
            const VkDebugUtilsMessengerCreateInfoEXT *info, MOCK_VK_HOOKS,
            VkDebugUtilsMessengerEXT *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateDebugUtilsMessengerEXT);
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    *out = VK_NULL_HANDLE;
    if (failure == VK_SUCCESS) {
        instance->messenger = *info;
        *out = (VkDebugUtilsMessengerEXT)(uintptr_t)&instance->messenger;
    }
    return failure;
}

MOCK_VK_API(void, DestroyDebugUtilsMessengerEXT, VkInstance handle,
            VkDebugUtilsMessengerEXT messenger, MOCK_VK_HOOKS) {
    (void)mock_vk_enter(MOCK_VK_DestroyDebugUtilsMessengerEXT);
    MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL)->messenger.pfnUserCallback = NULL;
}

static void mock_vk_say(const mock_vk_physical *p, const char *text) {
    const VkDebugUtilsMessengerCreateInfoEXT *m = &p->instance->messenger;
    VkDebugUtilsMessengerCallbackDataEXT data = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT, .pMessage = text};
    if (m->pfnUserCallback) {
        (void)m->pfnUserCallback(VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
                                 VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT, &data,
                                 m->pUserData);
    }
}
