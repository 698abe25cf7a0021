/* vulkan_physical.h - part of vulkan.h: instances, what physical devices
   say about themselves. */
#ifndef HCQ_TEST_MOCK_VULKAN_PHYSICAL_H
#define HCQ_TEST_MOCK_VULKAN_PHYSICAL_H

enum { MOCK_VK_DEVICES = 8, MOCK_VK_FAMILIES = 3, MOCK_VK_HEAPS = 3, MOCK_VK_TYPES = 4 };

typedef struct mock_vk_instance mock_vk_instance;

typedef struct mock_vk_physical {
    mock_vk_object o;
    mock_vk_instance *instance;
    uint32_t index;
    uint32_t family_count;
    VkQueueFamilyProperties families[MOCK_VK_FAMILIES];
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceLimits limits;
    uint64_t heap_used[MOCK_VK_HEAPS]; /* atomic */
} mock_vk_physical;

struct mock_vk_instance {
    mock_vk_object o;
    mock_vk_instance *next_instance;   /* under mock_vk_lock */
    mock_vk_desc desc;                 /* defaults filled in */
    uint32_t api;                      /* that the application asked for */
    int debug_utils;
    uint32_t devices, messengers;      /* living, atomic */
    uint32_t physical_count;
    mock_vk_physical physical[MOCK_VK_DEVICES];
};

static mock_vk_instance *mock_vk_instances;

/* ---- defaults ---- */

static void mock_vk_default32(uint32_t *value, uint32_t wanted) {
    *value = *value ? *value : wanted;
}

static void mock_vk_default64(uint64_t *value, uint64_t wanted) {
    *value = *value ? *value : wanted;
}

static mock_vk_desc mock_vk_defaults(const mock_vk_desc *given) {
    static const uint32_t sizes[3] = {1024, 1024, 64};
    mock_vk_desc d = *given;
    mock_vk_default32(&d.devices, 1);
    d.devices = d.devices > MOCK_VK_DEVICES ? MOCK_VK_DEVICES : d.devices;
    mock_vk_default32(&d.api_version, VK_API_VERSION_1_3);
    mock_vk_default32(&d.instance_version, d.api_version);
    mock_vk_default32(&d.queues[0], 1);
    for (uint32_t i = 0; i < 3; i++) {
        mock_vk_default32(&d.timestamp_bits[i], 64);
        mock_vk_default32(&d.max_groups[i], 65535);
        mock_vk_default32(&d.max_group_size[i], sizes[i]);
        d.timestamp_bits[i] = d.timestamp_bits[i] == MOCK_VK_NONE ? 0 : d.timestamp_bits[i];
    }
    d.timestamp_period = d.timestamp_period > 0 ? d.timestamp_period : 1.0f;
    d.clock_offset_ns = d.clock_offset_ns ? d.clock_offset_ns : 7777777777;
    mock_vk_default64(&d.clock_deviation_ns, 100);
    mock_vk_default64(&d.heap_bytes, (uint64_t)4 << 30);
    mock_vk_default64(&d.host_heap_bytes, (uint64_t)4 << 30);
    mock_vk_default64(&d.small_heap_bytes, (uint64_t)256 << 20);
    mock_vk_default64(&d.max_allocation, (uint64_t)1 << 30);
    mock_vk_default64(&d.max_buffer, (uint64_t)1 << 30);
    mock_vk_default32(&d.max_allocations, 4096);
    mock_vk_default32(&d.max_invocations, 1024);
    mock_vk_default32(&d.max_push_constants, 128);
    mock_vk_default32(&d.max_storage_range, 128u << 20);
    mock_vk_default32(&d.max_storage_buffers, 64);
    mock_vk_default32(&d.storage_alignment, 256);
    mock_vk_default32(&d.import_alignment, 4096);
    mock_vk_default64(&d.max_counter_difference, INT32_MAX);
    mock_vk_default64(&d.watchdog_ns, 20000000000u);
    return d;
}

static int mock_vk_has(const mock_vk_physical *p, uint32_t without) {
    return (p->instance->desc.without & without) == 0;
}

/* ---- physical devices ---- */

static void mock_vk_add_family(mock_vk_physical *p, uint32_t profile, VkQueueFlags flags) {
    const mock_vk_desc *d = &p->instance->desc;
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
    f->minImageTransferGranularity.width = 1;
    f->minImageTransferGranularity.height = 1;
    f->minImageTransferGranularity.depth = 1;
    p->family_count++;
}

static void mock_vk_add_heap(mock_vk_physical *p, uint64_t size, VkMemoryHeapFlags flags) {
    VkMemoryHeap *heap = &p->memory.memoryHeaps[p->memory.memoryHeapCount++];
    heap->size = size;
    heap->flags = flags;
}

static void mock_vk_add_type(mock_vk_physical *p, uint32_t heap, VkMemoryPropertyFlags flags) {
    VkMemoryType *type = &p->memory.memoryTypes[p->memory.memoryTypeCount++];
    type->heapIndex = heap;
    type->propertyFlags = flags;
}

static void mock_vk_fill_memory(mock_vk_physical *p) {
    const mock_vk_desc *d = &p->instance->desc;
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    const VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    mock_vk_add_heap(p, d->heap_bytes, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT);
    if (!d->discrete) {
        mock_vk_add_type(p, 0, local | visible | coherent | cached);
        return;
    }
    mock_vk_add_heap(p, d->host_heap_bytes, 0);
    mock_vk_add_heap(p, d->small_heap_bytes, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT);
    mock_vk_add_type(p, 0, local);
    mock_vk_add_type(p, 1, visible | coherent);
    mock_vk_add_type(p, 1, visible | cached);
    mock_vk_add_type(p, 2, local | visible | coherent);
}

static void mock_vk_fill_limits(mock_vk_physical *p) {
    const mock_vk_desc *d = &p->instance->desc;
    VkPhysicalDeviceLimits *l = &p->limits;
    memcpy(l->maxComputeWorkGroupCount, d->max_groups, sizeof d->max_groups);
    memcpy(l->maxComputeWorkGroupSize, d->max_group_size, sizeof d->max_group_size);
    l->maxComputeWorkGroupInvocations = d->max_invocations;
    l->maxComputeSharedMemorySize = 32768;
    l->maxPushConstantsSize = d->max_push_constants;
    l->maxMemoryAllocationCount = d->max_allocations;
    l->maxStorageBufferRange = d->max_storage_range;
    l->maxUniformBufferRange = 16384;
    l->maxBoundDescriptorSets = 4;
    l->maxPerStageDescriptorStorageBuffers = d->max_storage_buffers;
    l->maxPerStageDescriptorUniformBuffers = 12;
    l->maxPerStageResources = 128;
    l->maxDescriptorSetStorageBuffers = d->max_storage_buffers;
    l->maxDescriptorSetUniformBuffers = 72;
    l->minStorageBufferOffsetAlignment = d->storage_alignment;
    l->minUniformBufferOffsetAlignment = d->storage_alignment;
    l->minMemoryMapAlignment = 64;
    l->nonCoherentAtomSize = 64;
    l->bufferImageGranularity = 1024;
    l->optimalBufferCopyOffsetAlignment = 64;
    l->timestampPeriod = d->timestamp_period;
    l->timestampComputeAndGraphics = d->timestamp_bits[0] != 0 &&
                                     (d->queues[1] == 0 || d->timestamp_bits[1] != 0);
}

static void mock_vk_physical_init(mock_vk_instance *instance, uint32_t index) {
    const VkQueueFlags compute = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
    mock_vk_physical *p = &instance->physical[index];
    mock_vk_init(&p->o, MOCK_VK_KIND_PHYSICAL, NULL);
    p->instance = instance;
    p->index = index;
    mock_vk_add_family(p, 0, VK_QUEUE_GRAPHICS_BIT | compute);
    mock_vk_add_family(p, 1, compute);
    mock_vk_add_family(p, 2, VK_QUEUE_TRANSFER_BIT);
    mock_vk_fill_memory(p);
    mock_vk_fill_limits(p);
}

static mock_vk_physical *mock_vk_physical_of(VkPhysicalDevice handle) {
    return MOCK_VK_OBJECT(mock_vk_physical, handle, PHYSICAL, NULL);
}

/* The lower of what the device has and the application asked for. */
static uint32_t mock_vk_version(const mock_vk_physical *p) {
    uint32_t most = p->instance->desc.api_version;
    return p->instance->api < most ? p->instance->api : most;
}

/* ---- extensions ---- */

static const struct {
    const char *name;
    uint32_t need, without;
    int of_instance;
} mock_vk_extensions[] = {
    {"VK_EXT_debug_utils", MOCK_VK_DEBUG_UTILS, MOCK_VK_NO_DEBUG_UTILS, 1},
    {"VK_KHR_synchronization2", MOCK_VK_SYNC2, MOCK_VK_NO_SYNC2, 0},
    {"VK_KHR_push_descriptor", MOCK_VK_PUSH_SETS, MOCK_VK_NO_PUSH_SETS, 0},
    {"VK_EXT_external_memory_host", MOCK_VK_HOST_MEMORY, MOCK_VK_NO_HOST_MEMORY, 0},
    {"VK_EXT_calibrated_timestamps", MOCK_VK_CALIBRATION, MOCK_VK_NO_CALIBRATION, 0},
    {"VK_KHR_maintenance4", MOCK_VK_MAINTENANCE4, MOCK_VK_NO_MAINTENANCE4, 0}
};

enum { MOCK_VK_EXTENSIONS = sizeof mock_vk_extensions / sizeof mock_vk_extensions[0] };

static VkResult mock_vk_list_extensions(uint32_t without, int of_instance, uint32_t *count,
                                        VkExtensionProperties *properties) {
    uint32_t there = 0, room = properties ? *count : 0;
    for (uint32_t i = 0; i < MOCK_VK_EXTENSIONS; i++) {
        if (mock_vk_extensions[i].of_instance != of_instance ||
            (without & mock_vk_extensions[i].without)) {
            continue;
        }
        if (there < room) {
            memset(&properties[there], 0, sizeof properties[there]);
            snprintf(properties[there].extensionName, sizeof properties[there].extensionName,
                     "%s", mock_vk_extensions[i].name);
            properties[there].specVersion = 1;
        }
        there++;
    }
    *count = properties && there > room ? room : there;
    return properties && there > room ? VK_INCOMPLETE : VK_SUCCESS;
}

/* Marks the named extensions in `enabled` as bits 1 << need. */
static VkResult mock_vk_enable(uint32_t without, int of_instance, const char *const *names,
                               uint32_t count, uint32_t *enabled) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = 0;
        while (i < MOCK_VK_EXTENSIONS && strcmp(mock_vk_extensions[i].name, names[n]) != 0) {
            i++;
        }
        if (i == MOCK_VK_EXTENSIONS || (without & mock_vk_extensions[i].without) ||
            mock_vk_extensions[i].of_instance != of_instance) {
            return VK_ERROR_EXTENSION_NOT_PRESENT;
        }
        *enabled |= 1u << mock_vk_extensions[i].need;
    }
    return VK_SUCCESS;
}

/* ---- properties ---- */

static void mock_vk_core_properties(const mock_vk_physical *p, VkPhysicalDeviceProperties *out) {
    memset(out, 0, sizeof *out);
    out->apiVersion = p->instance->desc.api_version;
    out->driverVersion = VK_MAKE_API_VERSION(0, 1, 2, 3);
    out->vendorID = 0x10005;
    out->deviceID = 0x4d00 + p->index;
    out->deviceType = p->instance->desc.discrete ? VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
                                                 : VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    snprintf(out->deviceName, sizeof out->deviceName, "Mock GPU %u", p->index);
    memset(out->pipelineCacheUUID, 0x4d, VK_UUID_SIZE);
    out->limits = p->limits;
}

static void mock_vk_uuid(uint8_t uuid[VK_UUID_SIZE], uint8_t first, uint32_t index) {
    memset(uuid, 0, VK_UUID_SIZE);
    uuid[0] = first;
    uuid[1] = (uint8_t)index;
}

static void mock_vk_driver_text(char *name, char *info) {
    snprintf(name, VK_MAX_DRIVER_NAME_SIZE, "mock");
    snprintf(info, VK_MAX_DRIVER_INFO_SIZE, "of the tests");
}

static void mock_vk_properties11(const mock_vk_physical *p,
                                 VkPhysicalDeviceVulkan11Properties *out) {
    mock_vk_uuid(out->deviceUUID, 0xd0, p->index);
    mock_vk_uuid(out->driverUUID, 0xd1, 0);
    memset(out->deviceLUID, 0, sizeof out->deviceLUID);
    out->deviceNodeMask = 1;
    out->deviceLUIDValid = VK_FALSE;
    out->subgroupSize = 32;
    out->subgroupSupportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
    out->subgroupSupportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
    out->maxMultiviewViewCount = 6;
    out->maxPerSetDescriptors = 1024;
    out->maxMemoryAllocationSize = p->instance->desc.max_allocation;
}

static void mock_vk_properties12(const mock_vk_physical *p,
                                 VkPhysicalDeviceVulkan12Properties *out) {
    out->driverID = VK_DRIVER_ID_MESA_LLVMPIPE;
    mock_vk_driver_text(out->driverName, out->driverInfo);
    out->maxTimelineSemaphoreValueDifference = p->instance->desc.max_counter_difference;
    out->maxUpdateAfterBindDescriptorsInAllPools = 500000;
    out->maxPerStageDescriptorUpdateAfterBindStorageBuffers = 500000;
    out->maxPerStageUpdateAfterBindResources = 500000;
    out->maxDescriptorSetUpdateAfterBindStorageBuffers = 500000;
}

/* One structure of the chain; those that this device does not know stay as they are. */
static void mock_vk_property(const mock_vk_physical *p, VkBaseOutStructure *s) {
    const mock_vk_desc *d = &p->instance->desc;
    void *at = s;
    switch ((int)s->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES:
        mock_vk_properties11(p, (VkPhysicalDeviceVulkan11Properties *)at);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
        mock_vk_properties12(p, (VkPhysicalDeviceVulkan12Properties *)at);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES: {
        VkPhysicalDeviceIDProperties *out = (VkPhysicalDeviceIDProperties *)at;
        mock_vk_uuid(out->deviceUUID, 0xd0, p->index);
        mock_vk_uuid(out->driverUUID, 0xd1, 0);
        out->deviceLUIDValid = VK_FALSE;
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES: {
        VkPhysicalDeviceDriverProperties *out = (VkPhysicalDeviceDriverProperties *)at;
        out->driverID = VK_DRIVER_ID_MESA_LLVMPIPE;
        mock_vk_driver_text(out->driverName, out->driverInfo);
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES: {
        VkPhysicalDeviceSubgroupProperties *out = (VkPhysicalDeviceSubgroupProperties *)at;
        out->subgroupSize = 32;
        out->supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
        out->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES:
        ((VkPhysicalDeviceTimelineSemaphoreProperties *)at)->maxTimelineSemaphoreValueDifference =
            d->max_counter_difference;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
        ((VkPhysicalDeviceMaintenance3Properties *)at)->maxPerSetDescriptors = 1024;
        ((VkPhysicalDeviceMaintenance3Properties *)at)->maxMemoryAllocationSize =
            d->max_allocation;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
        if (mock_vk_has(p, MOCK_VK_NO_MAINTENANCE4)) {
            ((VkPhysicalDeviceMaintenance4Properties *)at)->maxBufferSize = d->max_buffer;
        }
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES:
        if (d->api_version >= VK_API_VERSION_1_3) {
            ((VkPhysicalDeviceVulkan13Properties *)at)->maxBufferSize = d->max_buffer;
        }
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR:
        if (mock_vk_has(p, MOCK_VK_NO_PUSH_SETS)) {
            ((VkPhysicalDevicePushDescriptorPropertiesKHR *)at)->maxPushDescriptors = 32;
        }
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT:
        if (mock_vk_has(p, MOCK_VK_NO_HOST_MEMORY)) {
            ((VkPhysicalDeviceExternalMemoryHostPropertiesEXT *)at)
                ->minImportedHostPointerAlignment = d->import_alignment;
        }
        break;
    default:
        break;
    }
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetPhysicalDeviceProperties(
    VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceProperties);
    mock_vk_core_properties(mock_vk_physical_of(physical), out);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetPhysicalDeviceProperties2(
    VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceProperties2);
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    mock_vk_type(out->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    mock_vk_core_properties(p, &out->properties);
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)out->pNext; s; s = s->pNext) {
        mock_vk_property(p, s);
    }
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetPhysicalDeviceMemoryProperties(
    VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceMemoryProperties);
    *out = mock_vk_physical_of(physical)->memory;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetPhysicalDeviceMemoryProperties2(
    VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceMemoryProperties2);
    mock_vk_type(out->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    out->memoryProperties = mock_vk_physical_of(physical)->memory;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetPhysicalDeviceQueueFamilyProperties(
    VkPhysicalDevice physical, uint32_t *count, VkQueueFamilyProperties *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceQueueFamilyProperties);
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    uint32_t n = out && *count < p->family_count ? *count : p->family_count;
    for (uint32_t i = 0; out && i < n; i++) {
        out[i] = p->families[i];
    }
    *count = n;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(
    VkPhysicalDevice physical, uint32_t *count, VkTimeDomainEXT *out) {
    static const VkTimeDomainEXT domains[] = {
        VK_TIME_DOMAIN_DEVICE_EXT, VK_TIME_DOMAIN_CLOCK_MONOTONIC_RAW_EXT,
        VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT
    };
    VkResult failure = mock_vk_enter(MOCK_VK_GetPhysicalDeviceCalibrateableTimeDomainsEXT);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    mock_vk_check(mock_vk_has(p, MOCK_VK_NO_CALIBRATION), "the device has no such extension");
    uint32_t n = out && *count < 3 ? *count : 3;
    for (uint32_t i = 0; out && i < n; i++) {
        out[i] = domains[i];
    }
    *count = n;
    return n < 3 ? VK_INCOMPLETE : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkEnumerateDeviceExtensionProperties(
    VkPhysicalDevice physical, const char *layer, uint32_t *count, VkExtensionProperties *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateDeviceExtensionProperties);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_check(layer == NULL, "there are no layers");
    return mock_vk_list_extensions(mock_vk_physical_of(physical)->instance->desc.without, 0,
                                   count, out);
}

/* ---- features ---- */

static void mock_vk_features10(VkPhysicalDeviceFeatures *f) {
    memset(f, 0, sizeof *f);
    f->robustBufferAccess = VK_TRUE;
    f->shaderInt64 = VK_TRUE;
    f->shaderInt16 = VK_TRUE;
    f->shaderFloat64 = VK_TRUE;
}

static void mock_vk_features12(const mock_vk_physical *p, VkPhysicalDeviceVulkan12Features *f) {
    VkBool32 late = (VkBool32)mock_vk_has(p, MOCK_VK_NO_UPDATE_AFTER_BIND);
    f->storageBuffer8BitAccess = VK_TRUE;
    f->shaderFloat16 = VK_TRUE;
    f->shaderInt8 = VK_TRUE;
    f->shaderBufferInt64Atomics = VK_TRUE;
    f->descriptorIndexing = late;
    f->descriptorBindingStorageBufferUpdateAfterBind = late;
    f->descriptorBindingUpdateUnusedWhilePending = late;
    f->scalarBlockLayout = VK_TRUE;
    f->uniformBufferStandardLayout = VK_TRUE;
    f->vulkanMemoryModel = VK_TRUE;
    f->hostQueryReset = (VkBool32)mock_vk_has(p, MOCK_VK_NO_HOST_RESET);
    f->timelineSemaphore = (VkBool32)mock_vk_has(p, MOCK_VK_NO_TIMELINE);
    f->bufferDeviceAddress = (VkBool32)mock_vk_has(p, MOCK_VK_NO_ADDRESSES);
}

/* The bytes of a feature structure, 0 for one that this device does not know. An
   odd number of features leaves padding at the end, which is not counted. */
#define MOCK_VK_ODD(type) (sizeof(type) - sizeof(VkBool32))

static size_t mock_vk_feature_size(const mock_vk_physical *p, VkStructureType type) {
    int v13 = p->instance->desc.api_version >= VK_API_VERSION_1_3;
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
        return MOCK_VK_ODD(VkPhysicalDeviceFeatures2);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        return sizeof(VkPhysicalDeviceVulkan11Features);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        return MOCK_VK_ODD(VkPhysicalDeviceVulkan12Features);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        return v13 ? MOCK_VK_ODD(VkPhysicalDeviceVulkan13Features) : 0;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        return MOCK_VK_ODD(VkPhysicalDeviceTimelineSemaphoreFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
        return MOCK_VK_ODD(VkPhysicalDeviceBufferDeviceAddressFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES:
        return MOCK_VK_ODD(VkPhysicalDeviceHostQueryResetFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
        return v13 || mock_vk_has(p, MOCK_VK_NO_SYNC2)
                   ? MOCK_VK_ODD(VkPhysicalDeviceSynchronization2Features) : 0;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES:
        return v13 || mock_vk_has(p, MOCK_VK_NO_MAINTENANCE4)
                   ? MOCK_VK_ODD(VkPhysicalDeviceMaintenance4Features) : 0;
    default:
        return 0;
    }
}

/* What the device has of a structure's features. */
static void mock_vk_feature(const mock_vk_physical *p, VkBaseOutStructure *s) {
    void *at = s;
    VkBool32 sync2 = (VkBool32)mock_vk_has(p, MOCK_VK_NO_SYNC2);
    VkBool32 four = (VkBool32)mock_vk_has(p, MOCK_VK_NO_MAINTENANCE4);
    size_t size = mock_vk_feature_size(p, s->sType);
    if (size == 0) {
        return;
    }
    memset((char *)at + sizeof *s, 0, size - sizeof *s);
    switch ((int)s->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
        mock_vk_features10(&((VkPhysicalDeviceFeatures2 *)at)->features);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        ((VkPhysicalDeviceVulkan11Features *)at)->storageBuffer16BitAccess = VK_TRUE;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        mock_vk_features12(p, (VkPhysicalDeviceVulkan12Features *)at);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        ((VkPhysicalDeviceVulkan13Features *)at)->synchronization2 = sync2;
        ((VkPhysicalDeviceVulkan13Features *)at)->maintenance4 = four;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        ((VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore =
            (VkBool32)mock_vk_has(p, MOCK_VK_NO_TIMELINE);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
        ((VkPhysicalDeviceBufferDeviceAddressFeatures *)at)->bufferDeviceAddress =
            (VkBool32)mock_vk_has(p, MOCK_VK_NO_ADDRESSES);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES:
        ((VkPhysicalDeviceHostQueryResetFeatures *)at)->hostQueryReset =
            (VkBool32)mock_vk_has(p, MOCK_VK_NO_HOST_RESET);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
        ((VkPhysicalDeviceSynchronization2Features *)at)->synchronization2 = sync2;
        break;
    default:
        ((VkPhysicalDeviceMaintenance4Features *)at)->maintenance4 = four;
        break;
    }
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetPhysicalDeviceFeatures2(
    VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out) {
    (void)mock_vk_enter(MOCK_VK_GetPhysicalDeviceFeatures2);
    const mock_vk_physical *p = mock_vk_physical_of(physical);
    mock_vk_type(out->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)(void *)out; s; s = s->pNext) {
        mock_vk_feature(p, s);
    }
}

/* ---- instances ---- */

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkEnumerateInstanceVersion(uint32_t *version) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateInstanceVersion);
    if (failure == VK_SUCCESS) {
        *version = mock_vk_defaults(&mock_vk_options).instance_version;
    }
    return failure;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkEnumerateInstanceExtensionProperties(
    const char *layer, uint32_t *count, VkExtensionProperties *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateInstanceExtensionProperties);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    if (layer) {
        return VK_ERROR_LAYER_NOT_PRESENT;
    }
    return mock_vk_list_extensions(mock_vk_options.without, 1, count, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkEnumerateInstanceLayerProperties(
    uint32_t *count, VkLayerProperties *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumerateInstanceLayerProperties);
    (void)out;
    *count = 0;
    return failure;
}

static void mock_vk_instance_open(mock_vk_instance *instance) {
    mock_vk_init(&instance->o, MOCK_VK_KIND_INSTANCE, NULL);
    instance->desc = mock_vk_defaults(&mock_vk_options);
    instance->physical_count = instance->desc.devices;
    for (uint32_t i = 0; i < instance->physical_count; i++) {
        mock_vk_physical_init(instance, i);
    }
    pthread_mutex_lock(&mock_vk_lock);
    instance->next_instance = mock_vk_instances;
    mock_vk_instances = instance;
    pthread_mutex_unlock(&mock_vk_lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateInstance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
    VkResult result = mock_vk_enter(MOCK_VK_CreateInstance);
    uint32_t enabled = 0;
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    if (result == VK_SUCCESS && info->enabledLayerCount) {
        result = VK_ERROR_LAYER_NOT_PRESENT;
    }
    if (result == VK_SUCCESS) {
        result = mock_vk_enable(mock_vk_options.without, 1, info->ppEnabledExtensionNames,
                                info->enabledExtensionCount, &enabled);
    }
    if (result != VK_SUCCESS) {
        return result;
    }
    mock_vk_instance *instance = (mock_vk_instance *)calloc(1, sizeof *instance);
    instance->api = info->pApplicationInfo && info->pApplicationInfo->apiVersion
                        ? info->pApplicationInfo->apiVersion : VK_API_VERSION_1_0;
    instance->debug_utils = enabled >> MOCK_VK_DEBUG_UTILS & 1;
    mock_vk_instance_open(instance);
    *out = (VkInstance)(uintptr_t)instance;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyInstance(VkInstance handle,
                                                         const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyInstance);
    (void)allocator;
    if (!handle) {
        return;
    }
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    uint32_t devices = __atomic_load_n(&instance->devices, __ATOMIC_ACQUIRE);
    uint32_t messengers = __atomic_load_n(&instance->messengers, __ATOMIC_ACQUIRE);
    mock_vk_check(!devices && !messengers, "%u devices and %u messengers are left", devices,
                  messengers);
    pthread_mutex_lock(&mock_vk_lock);
    mock_vk_instance **link = &mock_vk_instances;
    while (*link != instance) {
        link = &(*link)->next_instance;
    }
    *link = instance->next_instance;
    pthread_mutex_unlock(&mock_vk_lock);
    for (uint32_t i = 0; i < instance->physical_count; i++) {
        mock_vk_die(&instance->physical[i].o);
    }
    mock_vk_die(&instance->o);
    free(instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkEnumeratePhysicalDevices(VkInstance handle,
                                                                      uint32_t *count,
                                                                      VkPhysicalDevice *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_EnumeratePhysicalDevices);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    uint32_t there = instance->physical_count, n = out && *count < there ? *count : there;
    for (uint32_t i = 0; out && i < n; i++) {
        out[i] = (VkPhysicalDevice)(uintptr_t)&instance->physical[i];
    }
    *count = n;
    return n < there ? VK_INCOMPLETE : VK_SUCCESS;
}

/* ---- messengers: nobody ever says anything to them ---- */

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateDebugUtilsMessengerEXT(
    VkInstance handle, const VkDebugUtilsMessengerCreateInfoEXT *info,
    const VkAllocationCallbacks *allocator, VkDebugUtilsMessengerEXT *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateDebugUtilsMessengerEXT);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
    mock_vk_check(instance->debug_utils, "VK_EXT_debug_utils is not enabled");
    mock_vk_object *messenger = (mock_vk_object *)calloc(1, sizeof *messenger);
    mock_vk_init(messenger, MOCK_VK_KIND_MESSENGER, NULL);
    __atomic_fetch_add(&instance->messengers, 1, __ATOMIC_RELEASE);
    *out = (VkDebugUtilsMessengerEXT)(uintptr_t)messenger;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyDebugUtilsMessengerEXT(
    VkInstance handle, VkDebugUtilsMessengerEXT messenger,
    const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyDebugUtilsMessengerEXT);
    (void)allocator;
    if (!messenger) {
        return;
    }
    mock_vk_object *o = MOCK_VK_OBJECT(mock_vk_object, messenger, MESSENGER, NULL);
    mock_vk_instance *instance = MOCK_VK_OBJECT(mock_vk_instance, handle, INSTANCE, NULL);
    mock_vk_die(o);
    free(o);
    __atomic_fetch_sub(&instance->messengers, 1, __ATOMIC_RELEASE);
}

#endif /* HCQ_TEST_MOCK_VULKAN_PHYSICAL_H */
