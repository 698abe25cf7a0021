/* vulkan_options.h - what the mock of Vulkan can be told, and its functions. */
#pragma once

#include "vulkan_loader.h"

#include <stdint.h>

#ifndef TEST_UNUSED
#define TEST_UNUSED __attribute__((unused))
#endif

/* mock_vk_desc.without */
enum {
    MOCK_VK_NO_SYNC2 = 1,
    MOCK_VK_NO_UPDATE_AFTER_BIND = 4,
    MOCK_VK_NO_HOST_MEMORY = 8,        /* VK_EXT_external_memory_host */
    MOCK_VK_NO_CALIBRATION = 16,
    MOCK_VK_NO_HOST_RESET = 32,        /* vkResetQueryPool */
    MOCK_VK_NO_DEBUG_UTILS = 64,
    MOCK_VK_NO_MAINTENANCE4 = 128,
    MOCK_VK_NO_STATISTICS = 1024,      /* VK_KHR_pipeline_executable_properties */
    MOCK_VK_NO_OPTIONAL = 255 | MOCK_VK_NO_STATISTICS,
    MOCK_VK_NO_LAYER = 2048,           /* of validation */
    MOCK_VK_NO_TIMELINE = 256,         /* so that it is no device for hcq */
    MOCK_VK_NO_ADDRESSES = 512         /* bufferDeviceAddress, likewise */
};

/* mock_vk_desc.flags */
enum {
    MOCK_VK_SCHEDULER = 1,             /* one thread for all queues of a device, which takes
                                          them in turns by chance, command by command */
    MOCK_VK_LATE_SIGNALS = 2,          /* a wait may come before what signals it */
    MOCK_VK_LOST_JUMP = 4,             /* counters are at their highest once the device is
                                          lost [reading them fails] */
    MOCK_VK_IMPLIED_TRANSFER = 8,      /* compute families do not say TRANSFER */
    MOCK_VK_SAME_ADDRESSES = 16,       /* every device begins at the same one, as GPUs do */
    MOCK_VK_WRONG_CLOCK = 32,          /* calibrated timestamps have the host's a second late */
    MOCK_VK_NOT_CACHED = 128,          /* the host's memory is not, where all is one */
    MOCK_VK_ADDRESSES_AGAIN = 64       /* memory gets those of what was freed last, if it has as
                                          many bytes */
};

#define MOCK_VK_NONE UINT32_MAX        /* where 0 is the default */

typedef struct mock_vk_desc {
    int on;                            /* 0: the system's Vulkan */
    uint32_t devices;                  /* physical ones, up to 8 [1] */
    uint32_t api_version;              /* [1.3] */
    uint32_t loader_version;           /* [the same] */
    uint32_t without;                  /* MOCK_VK_NO_* */
    uint32_t flags;                    /* MOCK_VK_* */
    uint64_t seed;                     /* of what happens by chance */

    /* Families: graphics with compute and transfer, compute with transfer, transfer. */
    uint32_t queues[3];                /* of each [1, no such family, no such family] */
    uint32_t timestamp_bits[3];        /* [64]; MOCK_VK_NONE: no timestamps */
    float timestamp_period;            /* nanoseconds of a tick [1] */
    int64_t clock_offset_ns;           /* from CLOCK_MONOTONIC [7.7 s] */
    int32_t clock_drift_ppm;           /* faster than that */

    int discrete;                      /* memory types: the device's; coherent; cached, not
                                          coherent; a little of the device's for the host.
                                          [one that is all of that] */
    uint64_t heap_bytes;               /* of the device's [4 GiB] */
    uint64_t small_heap_bytes;         /* of its memory for the host [256 MiB] */
    uint64_t max_allocation;           /* bytes; twice as many of a buffer [1 GiB] */
    uint32_t max_allocations;          /* [4096] */
    uint32_t max_groups[3];            /* [65535] */
    uint32_t max_group_size[3];        /* [1024, 1024, 64] */
    uint32_t max_push_constants;       /* bytes [128] */
    uint32_t max_storage_range;        /* bytes [128 MiB] */
    uint32_t max_storage_buffers;      /* of a pipeline [64] */
    uint32_t import_alignment;         /* [4096] */

    uint32_t linger;                   /* calls of 1000 that yield halfway, so that two
                                          threads meet that should not */
} mock_vk_desc;

static mock_vk_desc mock_vk_options;

/* ---- entry points: those without an instance, of an instance, of a device ---- */

#define MOCK_VK_ENTRIES(X)                                                         \
    X(GetInstanceProcAddr) X(EnumerateInstanceVersion)                             \
    X(EnumerateInstanceExtensionProperties) X(CreateInstance)                      \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2)            \
    X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) \
    X(CreateDevice) X(GetDeviceProcAddr)                                           \
    X(GetPhysicalDeviceCalibrateableTimeDomainsEXT)                                \
    X(CreateDebugUtilsMessengerEXT) X(DestroyDebugUtilsMessengerEXT)               \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit)            \
    X(QueueSubmit2) X(CreateSemaphore) X(DestroySemaphore)      \
    X(WaitSemaphores) X(GetSemaphoreCounterValue) X(SignalSemaphore)               \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(GetMemoryHostPointerPropertiesEXT) \
    X(CreateBuffer) X(DestroyBuffer) X(BindBufferMemory) X(GetBufferMemoryRequirements) \
    X(GetBufferDeviceAddress) X(CreateCommandPool) X(DestroyCommandPool)           \
    X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer)          \
    X(EndCommandBuffer) X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch)      \
    X(CmdDispatchIndirect) X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdPipelineBarrier) \
    X(CmdBindDescriptorSets) X(CmdWriteTimestamp)                                  \
    X(CmdResetQueryPool) X(CmdCopyQueryPoolResults) X(CmdBeginDebugUtilsLabelEXT)  \
    X(CmdEndDebugUtilsLabelEXT) X(CreateQueryPool) X(DestroyQueryPool)             \
    X(GetQueryPoolResults) X(ResetQueryPool) X(CreateShaderModule)                 \
    X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout)        \
    X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) \
    X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets)     \
    X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineCache)            \
    X(DestroyPipelineCache) X(GetPipelineCacheData) X(GetCalibratedTimestampsEXT)  \
    X(SetDebugUtilsObjectNameEXT) X(GetPipelineExecutableStatisticsKHR)

typedef enum mock_vk_entry {
#define MOCK_VK_ENUM(name) MOCK_VK_##name,
    MOCK_VK_ENTRIES(MOCK_VK_ENUM)
#undef MOCK_VK_ENUM
    MOCK_VK_ENTRY_COUNT
} mock_vk_entry;

static const char *const mock_vk_names[MOCK_VK_ENTRY_COUNT] = {
#define MOCK_VK_NAME(name) "vk" #name,
    MOCK_VK_ENTRIES(MOCK_VK_NAME)
#undef MOCK_VK_NAME
};
