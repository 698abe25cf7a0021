/* vulkan.h - a Vulkan driver that has what lavapipe has not: three queue
   families with several queues, memory of its own, short timestamps, low limits,
   missing extensions, errors and loss on demand.

   It executes, like a strict GPU: each VkQueue is a FIFO with a thread, and a
   batch whose waits are not met blocks everything behind it. Device addresses
   are not host pointers. What the specification forbids aborts with a line
   that begins with VKMOCK, since no validation layer looks at these profiles.
   Commands between two barriers may run in any order (MOCK_VK_SHUFFLE). Objects
   that the user must not use from two threads at once have a plain counter that
   every call changes: ThreadSanitizer sees a missing lock even if the two calls
   never met.

   Shaders are not executed: mock_vk_kernel says which CPU kernel a module
   stands for. A module that nobody told about does nothing.

   Set mock_vk_options before the instance is made; zero is the default, in
   brackets. Include after hcq.h, whose implementation was compiled after
   vulkan_loader.h. */
#ifndef HCQ_TEST_MOCK_VULKAN_H
#define HCQ_TEST_MOCK_VULKAN_H

#include "vulkan_loader.h"
#ifndef HCQ_H
#include "../../hcq.h"
#endif

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef TEST_UNUSED
#define TEST_UNUSED __attribute__((unused))
#endif

/* ---- options ---- */

/* mock_vk_desc.without */
enum {
    MOCK_VK_NO_SYNC2 = 1,
    MOCK_VK_NO_PUSH_SETS = 2,
    MOCK_VK_NO_UPDATE_AFTER_BIND = 4,
    MOCK_VK_NO_HOST_MEMORY = 8,        /* VK_EXT_external_memory_host */
    MOCK_VK_NO_CALIBRATION = 16,
    MOCK_VK_NO_HOST_RESET = 32,        /* vkResetQueryPool */
    MOCK_VK_NO_DEBUG_UTILS = 64,
    MOCK_VK_NO_MAINTENANCE4 = 128,
    MOCK_VK_NO_TIMELINE = 256,         /* so that it is no device for hcq */
    MOCK_VK_NO_ADDRESSES = 512,        /* bufferDeviceAddress, likewise */
    MOCK_VK_NO_OPTIONAL = 255
};

/* mock_vk_desc.flags */
enum {
    MOCK_VK_SCHEDULER = 1,             /* one thread for all queues of a device, which takes
                                          them in turns by chance, command by command */
    MOCK_VK_SHUFFLE = 2,               /* what no barrier orders runs in any order */
    MOCK_VK_CHECK_WAITS = 4,           /* no wait before the batch that signals it */
    MOCK_VK_CHECK_EDGES = 8,           /* a command buffer, if not for one submit, begins with
                                          a barrier after all that was before, and ends with
                                          one to the host */
    MOCK_VK_CHECK_HAZARDS = 16,        /* of copies and fills without barrier between */
    MOCK_VK_LOST_JUMP = 32,            /* counters are at their highest once the device is
                                          lost [reading them fails] */
    MOCK_VK_BASE_BEYOND = 64,          /* vkCmdDispatchBase may leave the limits */
    MOCK_VK_IMPLIED_TRANSFER = 128,    /* compute families do not say TRANSFER */
    MOCK_VK_NARROW_STAGES = 256,       /* semaphores with other stages than all commands */
    MOCK_VK_SAME_ADDRESSES = 512       /* every device begins at the same one, as GPUs do */
};

#define MOCK_VK_NONE UINT32_MAX        /* where 0 is the default */

typedef struct mock_vk_desc {
    int on;                            /* 0: the system's Vulkan */
    uint32_t devices;                  /* physical ones, up to 8 [1] */
    uint32_t api_version;              /* of the devices [1.3] */
    uint32_t instance_version;         /* [api_version] */
    uint32_t without;                  /* MOCK_VK_NO_* */
    uint32_t flags;                    /* MOCK_VK_* */
    uint64_t seed;                     /* of what happens by chance */

    /* Families: graphics with compute and transfer, compute with transfer, transfer. */
    uint32_t queues[3];                /* of each [1, no such family, no such family] */
    uint32_t timestamp_bits[3];        /* [64]; MOCK_VK_NONE: no timestamps */
    float timestamp_period;            /* nanoseconds of a tick [1] */
    int64_t clock_offset_ns;           /* from CLOCK_MONOTONIC [7.7 s] */
    int32_t clock_drift_ppm;           /* faster than that */
    uint64_t clock_deviation_ns;       /* of calibrated timestamps, kept to [100] */

    int discrete;                      /* memory types: the device's; coherent; cached, not
                                          coherent; a little of the device's for the host.
                                          [one that is all of that] */
    uint64_t heap_bytes;               /* of the device's [4 GiB] */
    uint64_t host_heap_bytes;          /* [4 GiB] */
    uint64_t small_heap_bytes;         /* [256 MiB] */

    uint64_t max_allocation;           /* bytes [1 GiB] */
    uint64_t max_buffer;               /* bytes [1 GiB] */
    uint32_t max_allocations;          /* [4096] */
    uint32_t max_groups[3];            /* [65535] */
    uint32_t max_group_size[3];        /* [1024, 1024, 64] */
    uint32_t max_invocations;          /* [1024] */
    uint32_t max_push_constants;       /* bytes [128] */
    uint32_t max_storage_range;        /* bytes [128 MiB] */
    uint32_t max_storage_buffers;      /* of a pipeline [64] */
    uint32_t storage_alignment;        /* [256] */
    uint32_t import_alignment;         /* [4096] */
    uint64_t max_counter_difference;   /* [2^31 - 1] */

    uint64_t batch_delay_ns;           /* up to this, by chance, before each batch */
    uint32_t linger;                   /* calls of 1000 that yield halfway, so that two
                                          threads meet that should not */
    uint64_t watchdog_ns;              /* a blocked queue aborts after this [20 s] */
} mock_vk_desc;

static mock_vk_desc mock_vk_options;

/* ---- entry points: name, who gives it, what it needs ---- */

enum { MOCK_VK_GLOBAL, MOCK_VK_INSTANCE, MOCK_VK_DEVICE };
enum { /* extensions */
    MOCK_VK_CORE, MOCK_VK_CORE13, MOCK_VK_SYNC2, MOCK_VK_PUSH_SETS, MOCK_VK_HOST_MEMORY,
    MOCK_VK_CALIBRATION, MOCK_VK_DEBUG_UTILS, MOCK_VK_MAINTENANCE4
};

#define MOCK_VK_ENTRIES(X) \
    X(GetInstanceProcAddr, GLOBAL, CORE) \
    X(EnumerateInstanceVersion, GLOBAL, CORE) \
    X(EnumerateInstanceExtensionProperties, GLOBAL, CORE) \
    X(EnumerateInstanceLayerProperties, GLOBAL, CORE) \
    X(CreateInstance, GLOBAL, CORE) \
    X(DestroyInstance, INSTANCE, CORE) \
    X(EnumeratePhysicalDevices, INSTANCE, CORE) \
    X(GetPhysicalDeviceProperties, INSTANCE, CORE) \
    X(GetPhysicalDeviceProperties2, INSTANCE, CORE) \
    X(GetPhysicalDeviceFeatures2, INSTANCE, CORE) \
    X(GetPhysicalDeviceMemoryProperties, INSTANCE, CORE) \
    X(GetPhysicalDeviceMemoryProperties2, INSTANCE, CORE) \
    X(GetPhysicalDeviceQueueFamilyProperties, INSTANCE, CORE) \
    X(EnumerateDeviceExtensionProperties, INSTANCE, CORE) \
    X(CreateDevice, INSTANCE, CORE) \
    X(GetDeviceProcAddr, INSTANCE, CORE) \
    X(GetPhysicalDeviceCalibrateableTimeDomainsEXT, INSTANCE, CALIBRATION) \
    X(CreateDebugUtilsMessengerEXT, INSTANCE, DEBUG_UTILS) \
    X(DestroyDebugUtilsMessengerEXT, INSTANCE, DEBUG_UTILS) \
    X(DestroyDevice, DEVICE, CORE) \
    X(GetDeviceQueue, DEVICE, CORE) \
    X(DeviceWaitIdle, DEVICE, CORE) \
    X(QueueWaitIdle, DEVICE, CORE) \
    X(QueueSubmit, DEVICE, CORE) \
    X(QueueSubmit2, DEVICE, CORE13) \
    X(QueueSubmit2KHR, DEVICE, SYNC2) \
    X(CreateSemaphore, DEVICE, CORE) \
    X(DestroySemaphore, DEVICE, CORE) \
    X(GetSemaphoreCounterValue, DEVICE, CORE) \
    X(WaitSemaphores, DEVICE, CORE) \
    X(SignalSemaphore, DEVICE, CORE) \
    X(AllocateMemory, DEVICE, CORE) \
    X(FreeMemory, DEVICE, CORE) \
    X(MapMemory, DEVICE, CORE) \
    X(UnmapMemory, DEVICE, CORE) \
    X(CreateBuffer, DEVICE, CORE) \
    X(DestroyBuffer, DEVICE, CORE) \
    X(GetBufferMemoryRequirements, DEVICE, CORE) \
    X(BindBufferMemory, DEVICE, CORE) \
    X(GetBufferDeviceAddress, DEVICE, CORE) \
    X(GetMemoryHostPointerPropertiesEXT, DEVICE, HOST_MEMORY) \
    X(CreateCommandPool, DEVICE, CORE) \
    X(ResetCommandPool, DEVICE, CORE) \
    X(DestroyCommandPool, DEVICE, CORE) \
    X(AllocateCommandBuffers, DEVICE, CORE) \
    X(FreeCommandBuffers, DEVICE, CORE) \
    X(BeginCommandBuffer, DEVICE, CORE) \
    X(EndCommandBuffer, DEVICE, CORE) \
    X(ResetCommandBuffer, DEVICE, CORE) \
    X(CmdBindPipeline, DEVICE, CORE) \
    X(CmdPushConstants, DEVICE, CORE) \
    X(CmdDispatch, DEVICE, CORE) \
    X(CmdDispatchBase, DEVICE, CORE) \
    X(CmdDispatchIndirect, DEVICE, CORE) \
    X(CmdCopyBuffer, DEVICE, CORE) \
    X(CmdFillBuffer, DEVICE, CORE) \
    X(CmdUpdateBuffer, DEVICE, CORE) \
    X(CmdPipelineBarrier, DEVICE, CORE) \
    X(CmdBindDescriptorSets, DEVICE, CORE) \
    X(CmdPushDescriptorSetKHR, DEVICE, PUSH_SETS) \
    X(CmdWriteTimestamp, DEVICE, CORE) \
    X(CmdResetQueryPool, DEVICE, CORE) \
    X(CmdCopyQueryPoolResults, DEVICE, CORE) \
    X(CmdBeginDebugUtilsLabelEXT, DEVICE, DEBUG_UTILS) \
    X(CmdEndDebugUtilsLabelEXT, DEVICE, DEBUG_UTILS) \
    X(CreateQueryPool, DEVICE, CORE) \
    X(DestroyQueryPool, DEVICE, CORE) \
    X(GetQueryPoolResults, DEVICE, CORE) \
    X(ResetQueryPool, DEVICE, CORE) \
    X(CreateShaderModule, DEVICE, CORE) \
    X(DestroyShaderModule, DEVICE, CORE) \
    X(CreatePipelineLayout, DEVICE, CORE) \
    X(DestroyPipelineLayout, DEVICE, CORE) \
    X(CreateDescriptorSetLayout, DEVICE, CORE) \
    X(DestroyDescriptorSetLayout, DEVICE, CORE) \
    X(CreateDescriptorPool, DEVICE, CORE) \
    X(ResetDescriptorPool, DEVICE, CORE) \
    X(DestroyDescriptorPool, DEVICE, CORE) \
    X(AllocateDescriptorSets, DEVICE, CORE) \
    X(UpdateDescriptorSets, DEVICE, CORE) \
    X(CreateComputePipelines, DEVICE, CORE) \
    X(DestroyPipeline, DEVICE, CORE) \
    X(CreatePipelineCache, DEVICE, CORE) \
    X(DestroyPipelineCache, DEVICE, CORE) \
    X(GetPipelineCacheData, DEVICE, CORE) \
    X(GetCalibratedTimestampsEXT, DEVICE, CALIBRATION) \
    X(SetDebugUtilsObjectNameEXT, DEVICE, DEBUG_UTILS)

typedef enum mock_vk_entry {
#define MOCK_VK_ENUM(name, level, need) MOCK_VK_##name,
    MOCK_VK_ENTRIES(MOCK_VK_ENUM)
#undef MOCK_VK_ENUM
    MOCK_VK_ENTRY_COUNT
} mock_vk_entry;

/* ---- what it is made of; see the files ---- */

#include "vulkan_base.h"
#include "vulkan_kernels.h"
#include "vulkan_physical.h"
#include "vulkan_memory.h"
#include "vulkan_pipelines.h"
#include "vulkan_commands.h"
#include "vulkan_queues.h"
#include "vulkan_device.h"
#include "vulkan_variants.h"

#endif /* HCQ_TEST_MOCK_VULKAN_H */
