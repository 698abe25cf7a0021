/* hcq_vulkan.h - the Vulkan backend of hcq: any device with Vulkan 1.2 or later.

   Recipe: keep it beside hcq.h and never include it yourself. It needs Vulkan's
   headers (1.3.204 or later) to compile and nothing to link. In the one file
   with the implementation, and in those that call a function below:

       #define HCQ_IMPLEMENTATION
       #define HCQ_VULKAN
       #include "hcq.h"

   and open "VULKAN", "VULKAN:1" or "VULKAN:name of the device". Licence: as hcq.h.

   ============================================================================
   Kernels. hcq_program_desc.spirv takes a SPIR-V module for Vulkan 1.2, made by
   `glslangValidator --target-env vulkan1.2` say. Its arguments reach it in one
   of two ways, which hcq reads from the module; a broken one is refused.

   1. By pointer: the push constants are one pointer to the argument block, the
      struct that exec takes, with buffers as pointers. Changing arguments costs
      a store.

          layout(buffer_reference, std430) buffer words { uint v[]; };
          layout(buffer_reference, std430) buffer args { words dst; uint n; };
          layout(push_constant) uniform block { args k; };

   2. By bindings: set 0 has a storage buffer for each buffer argument, binding i
      for the i-th of them; the other arguments follow each other, with C's
      alignment, in the push constants or in a uniform block, which is the one
      binding after those. A buffer must lie at a multiple of the device's
      minStorageBufferOffsetAlignment (at most 256); only the first
      maxStorageBufferRange bytes from there are seen. Changing arguments may
      record the segment anew.

   The block that the module declares is held against the list of arguments when
   the program is made: where its numbers and pointers are, and how far it goes; it
   may be shorter. An address may be a 64-bit number or two words there. A pointer
   pushed as a number says nothing of what is behind it.

   A block is the shader's workgroup. If its size is given by specialization
   constants (local_size_x_id = 0 say), any block of exec is right, and a pipeline
   is made for each size; else exec must say the same size. Programs with the same
   module and entry share what is made of them.

   A grid beyond the device's maxComputeWorkGroupCount (at least 65535 in each
   direction) runs in parts, one dispatch each, if the shader takes its base: the
   block of the grid that a part begins with, {0,0,0} in a whole grid. That is a
   uvec3 behind all else in the push constants, at the next multiple of 16 bytes,
   where GLSL puts it by itself; in shaders of kind 1, and in those of kind 2 with
   the values there, or in a uniform block:

          layout(push_constant) uniform block { args k; uvec3 base; };
          layout(push_constant) uniform block { uint n, factor; uvec3 base; };
          layout(push_constant) uniform block { uvec3 base; };

          uvec3 id = base + gl_WorkGroupID;
          uvec3 thread = base * gl_WorkGroupSize + gl_GlobalInvocationID;

   Shaders of hcq_kernel.h do so. gl_NumWorkGroups is then that of the part: who
   needs the grid's size takes it as an argument. Without a base such a grid is
   HCQ_ERROR_LIMIT when its command is recorded for the device: by bind, or by
   submit. So is, in any shader, such a maximum of a grid that is read from
   memory, which never runs in parts.

   Lanes. Compute lanes share the queues of one family, copy lanes those of
   another where the device has one for transfers. Where there are fewer queues
   than lanes, lanes share one; hcq_vulkan_lane tells. Nothing is submitted to a
   queue before its waits are: so one queue is enough, always. Lanes of a device
   wait by semaphore or barrier, without the host, devices by the host.

   Replay. A bound queue is one command buffer for each run of commands between
   waits, signals and host commands. Arguments by pointer, grids and hcq_queue_write's
   bytes are data and are changed in place; what else changes (blocks, copies,
   fills, a grid changed for the first time) records the run of commands it is
   in again, at the next submit. HCQ_VULKAN_QUERY_RECORDED counts.
*/
#ifndef HCQ_H
#error "hcq_vulkan.h: define HCQ_VULKAN and include hcq.h, which includes this file"
#endif

#ifndef HCQ_VULKAN_H
#define HCQ_VULKAN_H

#include <vulkan/vulkan.h>

#ifndef VK_API_VERSION_1_3
#error "hcq_vulkan.h: needs Vulkan headers of version 1.3 (devices may have 1.2)"
#endif

/* Where the loader is linked in, or is one of your own:
   #define HCQ_VULKAN_LOADER vkGetInstanceProcAddr
   Else libvulkan is opened when the driver is made. */

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HCQ_VULKAN_VALIDATION = 1,         /* Khronos' layer, if there: messages to the log. An old
                                          one (1.3.239) may crash if threads open and close,
                                          or make and drop commands, at once */
    HCQ_VULKAN_ONE_QUEUE = 2,          /* of those that the device has (tests) */
    HCQ_VULKAN_NO_SYNC2 = 4,           /* do without what is optional (tests): ... */
    HCQ_VULKAN_NO_IMPORT = 8,          /* ... memory of the host, ... */
    HCQ_VULKAN_NO_CALIBRATION = 16,    /* ... reading both clocks at once, ... */
    HCQ_VULKAN_NO_LATE_BINDING = 32,   /* ... changing descriptors of a recorded set */
    HCQ_VULKAN_STAGED = 128            /* host pointers for HCQ_HOST_VISIBLE memory only,
                                          as if it were a device with its own memory (tests) */
};

/* A queue that an engine lends. */
typedef struct hcq_vulkan_queue {
    VkQueue queue;
    uint32_t family;
} hcq_vulkan_queue;

/* Called around each use of a lent queue, with `locked` 1 and 0, on whatever thread
   hands work over, allocates zeroed memory or reads the clock. Locks of hcq's are
   held: it takes the engine's lock or gives it back, and calls nothing of hcq.

   Nor may anybody who holds that lock call hcq, not even to ask something: the
   thread with hcq's own lock may be waiting for it. Hold it for one submission or
   presentation at a time; hcq waits as long. */
typedef void (*hcq_vulkan_lock_fn)(void *user, VkQueue queue, int locked);

/* The Vulkan backend's part of hcq_device_desc; all zero gives the defaults.

   To use an engine's device give all handles of the second part; they must stay
   until hcq_close. The device needs the features timelineSemaphore and
   bufferDeviceAddress; of what else is enabled only what is said here is used. */
struct hcq_vulkan_desc {
    uint32_t flags;                    /* HCQ_VULKAN_* */
    const void *cache;                 /* from hcq_vulkan_cache, of an earlier run; what is
                                          not of this device and driver is ignored */
    size_t cache_size;

    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    uint32_t api_version;              /* the instance's [1.2] */
    PFN_vkGetInstanceProcAddr loader;  /* [the system's library] */
    const hcq_vulkan_queue *queues;    /* up to 16, of two families. Each has a lane, unless
                                          lanes are asked for, or more than 8 compute, 4 copy */
    uint32_t queue_count;
    const char *const *extensions;     /* that the device was made with */
    uint32_t extension_count;
    const VkPhysicalDeviceFeatures2 *features; /* and these, with all that is chained */
    hcq_vulkan_lock_fn lock_fn;        /* [nobody else uses the queues meanwhile] */
    void *lock_user;
    const VkAllocationCallbacks *allocator; /* for all that is made of the device, on any
                                          thread, until hcq_close [the driver's own] */
};

/* Keys for hcq_device_query. */
enum {
    HCQ_VULKAN_QUERY_RECORDED = 1100,  /* commands put into command buffers */
    HCQ_VULKAN_QUERY_RECORDINGS,       /* command buffers recorded, or recorded anew */
    HCQ_VULKAN_QUERY_BATCHES,          /* handed to queues */
    HCQ_VULKAN_QUERY_SUBMITS,          /* calls of vkQueueSubmit that this took */
    HCQ_VULKAN_QUERY_WAITS,            /* of batches, for semaphores of other queues */
    HCQ_VULKAN_QUERY_PIPELINES,
    HCQ_VULKAN_QUERY_BLOCKS,           /* VkDeviceMemory objects */
    HCQ_VULKAN_QUERY_BLOCK_BYTES,
    HCQ_VULKAN_QUERY_MESSAGES          /* of the validation layer: warnings and errors */
};

/* What a device is made of. */
typedef struct hcq_vulkan_info {
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    PFN_vkGetInstanceProcAddr loader;
    uint32_t api_version;              /* in use: of instance and device the lower */
    char driver[256];                  /* its name and version as text */
} hcq_vulkan_info;

/* Where a lane's work goes. */
typedef struct hcq_vulkan_lane_info {
    VkQueue queue;
    uint32_t family, index;            /* of the queue; index UINT32_MAX: it was lent */
    uint32_t shared;                   /* lanes on this queue, this one too */
    uint32_t timestamp_bits;           /* 0: times are taken on the host, when noticed */
} hcq_vulkan_lane_info;

/* What the encode function of a custom command gets as `native`. Record into
   `commands`; barriers before and after are hcq's. It is called when what it
   belongs to is handed over for the first time, and again when its segment
   has changed since; without locks, so it may call hcq, but nothing blocks. If it
   fails, its submission does, and nothing of its segment runs. */
typedef struct hcq_vulkan_encoder {
    VkCommandBuffer commands;
    VkDevice device;
    PFN_vkGetDeviceProcAddr get_proc;
    void *self;                        /* hcq's */
} hcq_vulkan_encoder;

/* Describes a Vulkan device.
   Lifetime: of the handles, until hcq_close.
   Errors: HCQ_ERROR_UNSUPPORTED (not a Vulkan device). */
HCQ_API hcq_result hcq_vulkan_info_get(hcq_device *device, hcq_vulkan_info *info);

/* Tells which VkQueue a lane uses, and how many lanes share it.
   Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_INVALID (no such lane). */
HCQ_API hcq_result hcq_vulkan_lane(hcq_device *device, hcq_queue_kind kind, uint32_t index,
                                   hcq_vulkan_lane_info *info);

/* Gives the VkBuffer and the offset in it where `buffer` begins, for an
   engine's own commands. Its usage: storage, uniform, transfer, indirect,
   vertex, index. Of HCQ_ZEROED memory they come behind a submission of hcq's
   that was made after the hcq_alloc, as hcq clears it on a queue of its own.
   Lifetime: until hcq_free.
   Errors: HCQ_ERROR_UNSUPPORTED. */
HCQ_API hcq_result hcq_vulkan_buffer(hcq_buffer buffer, VkBuffer *handle, VkDeviceSize *offset);

/* Makes a buffer of the first `size` bytes of an engine's VkBuffer, for hcq's
   commands and kernels; host is NULL. The handle's usage: shader device address,
   transfer both ways, storage for kernels of kind 2; a family of hcq's, or
   concurrent; its memory bound to it, allocated for device addresses. hcq_free
   gives it back to the engine, whose it stays.
   Lifetime: of the handle, until work that names the buffer is done.
   Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_INVALID (overlaps a buffer that hcq
     has, or had and whose work is not done). */
HCQ_API hcq_result hcq_vulkan_buffer_import(hcq_device *device, VkBuffer handle, uint64_t size,
                                            hcq_buffer *buffer);

/* Gives a timeline semaphore and the value that it has once `point` is reached,
   so that an engine's submission waits for hcq's work. The point is a
   submission's own, or a user signal's that a submission raises. If the
   submission fails after it was handed over, the value is reached all the same.
   Never signal the semaphore.
   Lifetime: of the semaphore, until hcq_close.
   Errors: HCQ_NOT_READY (held back, or an earlier run of a copy queue with
     timestamps has to end first: nobody can wait for it natively yet),
     HCQ_ERROR_UNSUPPORTED (of no single Vulkan lane), its failure. */
HCQ_API hcq_result hcq_vulkan_point(hcq_device *device, hcq_point point, VkSemaphore *semaphore,
                                    uint64_t *value);

/* Gives a point that is reached when an engine's timeline semaphore has
   `value`, so that hcq's work waits for it: natively, on this device. The
   submission that signals it must have been made before; hcq holds nothing back
   for it. It counts as a submission of `device`. Up to 4 semaphores; one at
   UINT64_MAX is taken for a lost device's.
   Lifetime: of the semaphore, until hcq_close or until the point is reached, what
     waits for it is done, and no other value of it will be asked for.
   Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_INVALID (value not above the last
     one of this semaphore), HCQ_ERROR_LIMIT. */
HCQ_API hcq_result hcq_vulkan_point_import(hcq_device *device, VkSemaphore semaphore,
                                           uint64_t value, hcq_point *point);

/* Copies the pipeline cache to `data`, to be given to a later run as
   hcq_vulkan_desc.cache. `size`: bytes there are; changed to those used, with
   `data` NULL to those needed.
   Errors: HCQ_ERROR_UNSUPPORTED, HCQ_ERROR_LIMIT (too small). */
HCQ_API hcq_result hcq_vulkan_cache(hcq_device *device, void *data, size_t *size);

/* In an encode function: the VkBuffer and offset of a device address.
   Threads: the encode function's. Errors: HCQ_ERROR_INVALID (in no buffer of the device). */
HCQ_API hcq_result hcq_vulkan_address(const hcq_vulkan_encoder *encoder, uint64_t address,
                                      VkBuffer *handle, VkDeviceSize *offset);

#ifdef __cplusplus
}
#endif

#endif /* HCQ_VULKAN_H */

#if defined(HCQ_IMPLEMENTATION) && !defined(HCQI_VULKAN_IMPLEMENTED)
#define HCQI_VULKAN_IMPLEMENTED

/* Where to look, from the bottom up: functions of the library, structures,
   modules (SPIR-V), results, memory, programs, recording, patching, submitting,
   times, drivers, devices, lanes, the table, for engines. */

/* ========================================================================== */
/* ---- functions of the library -------------------------------------------- */

#define HCQI_VK_GLOBAL(X)                                                          \
    X(EnumerateInstanceVersion) X(EnumerateInstanceExtensionProperties)            \
    X(CreateInstance)

#define HCQI_VK_INSTANCE(X)                                                        \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2)            \
    X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) \
    X(CreateDevice) X(GetDeviceProcAddr)

#define HCQI_VK_INSTANCE_OPTIONAL(X)                                               \
    X(GetPhysicalDeviceCalibrateableTimeDomainsEXT)                                \
    X(CreateDebugUtilsMessengerEXT) X(DestroyDebugUtilsMessengerEXT)

#define HCQI_VK_DEVICE(X)                                                          \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit)            \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue)             \
    X(SignalSemaphore) X(WaitSemaphores) X(AllocateMemory) X(FreeMemory) X(MapMemory) \
    X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)                \
    X(BindBufferMemory) X(GetBufferDeviceAddress) X(CreateCommandPool)             \
    X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers)          \
    X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline)                   \
    X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect)                      \
    X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdPipelineBarrier)                        \
    X(CmdBindDescriptorSets) X(CmdWriteTimestamp) X(CmdResetQueryPool)             \
    X(CmdCopyQueryPoolResults) X(CreateQueryPool) X(DestroyQueryPool)              \
    X(GetQueryPoolResults) X(CreateShaderModule) X(DestroyShaderModule)            \
    X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateDescriptorSetLayout)  \
    X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) X(DestroyDescriptorPool) \
    X(AllocateDescriptorSets) X(UpdateDescriptorSets) X(CreateComputePipelines)    \
    X(DestroyPipeline) X(CreatePipelineCache) X(DestroyPipelineCache)              \
    X(GetPipelineCacheData)

#define HCQI_VK_DEVICE_OPTIONAL(X)                                                 \
    X(QueueSubmit2) X(QueueSubmit2KHR) X(GetMemoryHostPointerPropertiesEXT)        \
    X(ResetQueryPool) X(GetCalibratedTimestampsEXT) X(SetDebugUtilsObjectNameEXT)  \
    X(CmdBeginDebugUtilsLabelEXT) X(CmdEndDebugUtilsLabelEXT)                      \
    X(GetPipelineExecutableStatisticsKHR)

#define HCQI_VK_MEMBER(name) PFN_vk##name name;
#define HCQI_VK_NAME(name) "vk" #name,

/* Members in the order of the names, which fill them in. */
typedef struct hcqi_vk_instance_api {
    HCQI_VK_INSTANCE(HCQI_VK_MEMBER)
    HCQI_VK_INSTANCE_OPTIONAL(HCQI_VK_MEMBER)
} hcqi_vk_instance_api;

typedef struct hcqi_vk_device_api {
    HCQI_VK_DEVICE(HCQI_VK_MEMBER)
    HCQI_VK_DEVICE_OPTIONAL(HCQI_VK_MEMBER)
} hcqi_vk_device_api;

typedef struct hcqi_vk_global_api { HCQI_VK_GLOBAL(HCQI_VK_MEMBER) } hcqi_vk_global_api;

#define HCQI_VK_COUNT(names) (sizeof(names) / sizeof(names)[0])

static const char *const hcqi_vk_global_names[] = { HCQI_VK_GLOBAL(HCQI_VK_NAME) };
static const char *const hcqi_vk_instance_names[] = { HCQI_VK_INSTANCE(HCQI_VK_NAME)
                                                      HCQI_VK_INSTANCE_OPTIONAL(HCQI_VK_NAME) };
static const char *const hcqi_vk_device_names[] = { HCQI_VK_DEVICE(HCQI_VK_NAME)
                                                    HCQI_VK_DEVICE_OPTIONAL(HCQI_VK_NAME) };

#define HCQI_VK_ONE(name) + 1
enum {
    HCQI_VK_INSTANCE_NEEDED = 0 HCQI_VK_INSTANCE(HCQI_VK_ONE),
    HCQI_VK_DEVICE_NEEDED = 0 HCQI_VK_DEVICE(HCQI_VK_ONE)
};

/* A structure of Vulkan's, empty: HCQI_VK_STRUCT(SubmitInfo, info, SUBMIT_INFO). */
#define HCQI_VK_STRUCT(type, name, s_type)                                         \
    Vk##type name;                                                                 \
    memset(&name, 0, sizeof name);                                                 \
    name.sType = VK_STRUCTURE_TYPE_##s_type

/* ========================================================================== */
/* ---- structures ---------------------------------------------------------- */

enum {
    HCQI_VK_DEVICES = 16,              /* physical ones that are listed */
    HCQI_VK_FAMILIES = 2,              /* in use: compute, and copy if it is another */
    HCQI_VK_ALL_FAMILIES = 16,         /* of a physical device */
    HCQI_VK_QUEUES = 16,
    HCQI_VK_LANES = 8,                 /* of each kind */
    HCQI_VK_COPY_LANES = 4,            /* so many of these */
    HCQI_VK_IMPORTED = 4,              /* semaphores of engines */
    HCQI_VK_ALIGN = 256,               /* the highest that Vulkan asks of a buffer's parts */
    HCQI_VK_CALL = 32,                 /* batches in one call */
    HCQI_VK_CALL_WAITS = 64,
    HCQI_VK_USES = 4,                  /* runs of a segment whose times the host fetches, that are
                                          given and not over: the next one waits in the core */
    HCQI_VK_PATTERN = 256,             /* bytes that begin a fill */
    HCQI_VK_BUCKETS = 64,
    HCQI_VK_BUFFERS = HCQ_MAX_ARGS,    /* bindings of one kernel */
    HCQI_VK_BASE_BYTES = 12,           /* of push constants, at a multiple of ... */
    HCQI_VK_BASE_ALIGN = 16,
    HCQI_VK_MAX_PUSH = 256,            /* bytes of push constants */
    HCQI_VK_PARTS = 4096,              /* dispatches of one grid */
    HCQI_VK_MESSAGE = 512              /* characters */
};

#define HCQI_VK_BLOCK_MIN ((uint64_t)8 << 20)
#define HCQI_VK_BLOCK_MAX ((uint64_t)64 << 20)

/* What libvulkan is, and an instance. A device with settings of its own has one
   of these to itself. */
typedef struct hcqi_vk_driver {
    const hcq_memory_hooks *memory;
    void *library;
    PFN_vkGetInstanceProcAddr loader;
    hcqi_vk_instance_api api;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    uint32_t version;                  /* of the instance */
    int has_names;                     /* VK_EXT_debug_utils */
    const char *failure;               /* why there is no instance, or NULL */
    VkPhysicalDevice physical[HCQI_VK_DEVICES];
    uint32_t count;
} hcqi_vk_driver;

/* A piece of a block, used or free; they lie in order and meet. */
typedef struct hcqi_vk_range {
    struct hcqi_vk_range *next, *prev;
    struct hcqi_vk_range *open_next, *open_prev; /* free ones of the block */
    struct hcqi_vk_block *block;
    uint64_t offset, size;             /* in the block */
    uint64_t asked;                    /* bytes that somebody has, 0 = it is free */
    uint64_t zeroed;                   /* when that is done, on now_semaphore; 0: long ago */
    struct hcqi_vk_range *late;        /* next of d->late */
} hcqi_vk_range;

/* Commands of a small job. */
typedef struct hcqi_vk_now {
    VkCommandBuffer commands;
    uint64_t value;                    /* of now_semaphore when they are over */
} hcqi_vk_now;

/* One VkDeviceMemory with one VkBuffer over it. */
typedef struct hcqi_vk_block {
    struct hcqi_vk_block *next_import; /* of d->imports' bucket: another device's memory */
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t address, size;
    uint64_t born;                     /* as the so many-th of the device */
    uint64_t used;
    uint8_t *host;                     /* NULL: not visible */
    uint32_t type;
    uint32_t imported;
    uint32_t mapped;                   /* memories of other devices that it is */
    int lent;                          /* the buffer, with memory of its own, is an engine's */
    hcqi_vk_range *ranges, *open;
} hcqi_vk_block;

/* An engine's buffer on its way through hcq_import, as what begins at its address. */
typedef struct hcqi_vk_arrival {
    struct hcqi_vk_arrival *next;
    VkBuffer buffer;
    uint64_t address;
} hcqi_vk_arrival;

typedef struct hcqi_vk_family {
    uint32_t index;
    int computes;                      /* dispatches, and query commands */
    VkPipelineStageFlags stages;       /* that commands of ours run in */
} hcqi_vk_family;

typedef struct hcqi_vk_queue {
    VkQueue queue;
    hcqi_vk_family *family;
    uint32_t index;
    uint32_t lanes_of[2];              /* on it: compute, copy */
    uint64_t zeroed;                   /* its batches come after this value */
} hcqi_vk_queue;

/* A run of packets between waits, signals and host commands. */
typedef struct hcqi_vk_segment {
    uint32_t first, count;
    VkCommandBuffer commands;
    uint32_t stale;                    /* to be recorded before it runs again */
    uint32_t customs;                  /* it has some: recorded when handed over */
    uint32_t stamp_first, stamp_count; /* queries */
    uint32_t turn;                     /* of the uses */
    hcq_lane_point stamped;            /* end of the last run that used the queries */
    uint64_t deaths;                   /* of blocks, when all of its own were there */
} hcqi_vk_segment;

/* What a command needs besides its packet, and what was recorded of it. */
typedef struct hcqi_vk_command {
    uint32_t slot;                     /* of the list's own memory: grid, value, pattern */
    uint32_t uniform;                  /* and the uniform block */
    uint32_t stamp;                    /* query */
    size_t shadow;                     /* offset of the arguments as recorded */
    uint32_t indirect;
    uint32_t grid[3];
    uint64_t key[3];                   /* what else was recorded: hcqi_vk_key */
    uint64_t born;                     /* blocks that there had been then */
    VkDescriptorSet set;
} hcqi_vk_command;

/* A run of a segment whose times the host fetches. */
typedef struct hcqi_vk_use {
    VkCommandBuffer commands;
    uint32_t first;                    /* query */
    hcq_lane_point given;              /* the last one; .lane NULL: none. By who gives, with the
                                          core's lock */
} hcqi_vk_use;

/* An encoded recording. */
typedef struct hcqi_vk_list {
    const hcq_recording *recording;
    hcqi_vk_family *family;
    size_t bytes;                      /* of this with all that follows */
    hcqi_vk_command *commands;         /* by packet */
    hcqi_vk_segment *segments;
    uint32_t segment_count;
    int encoded;                       /* all is there: what is missing from now on is an error */
    hcq_memory memory;                 /* host visible, .size 0: none */
    VkQueryPool queries;
    VkDescriptorPool sets;
    VkCommandPool pool;                /* only whoever encodes or gives the list uses it */
    const hcq_packet *refused;         /* by its encode function */
    uint8_t *shadows;
    hcqi_vk_use *uses;                 /* HCQI_VK_USES for each segment, or NULL */
} hcqi_vk_list;

typedef struct hcqi_vk_pipeline {
    struct hcqi_vk_pipeline *next;
    VkPipeline handle;
    uint32_t block[3];
} hcqi_vk_pipeline;

/* Times to be fetched from queries once the lane is there. */
typedef struct hcqi_vk_harvest {
    hcqi_vk_list *list;
    hcqi_vk_segment *segment;
    const hcqi_vk_use *use;
    hcq_lane_point done;
} hcqi_vk_harvest;

typedef struct hcqi_vk_lane {
    hcqi_vk_queue *queue;              /* NULL: it is imported */
    VkSemaphore semaphores[2];         /* of the counters; imported: [0], an engine's */
    uint64_t base[2];                  /* semaphore = base + counter */
    uint64_t seen[2];                  /* of the counter, when last looked */
    uint64_t handed;                   /* atomic: epoch of the last batch given */
    hcqi_vk_harvest *harvests;         /* in order */
    uint32_t harvest_count, harvest_capacity;
    uint32_t imported_lock;            /* waits ask without the core's lock */
    uint64_t *imported;                /* its values by counter, those not yet reached */
    uint32_t imported_count, imported_capacity;
    uint64_t imported_last;
    uint32_t waiters;                  /* threads that the driver has for its semaphore */
    int ends;                          /* all values are reached, but for those threads */
} hcqi_vk_lane;

/* The structures of a call of vkQueueSubmit2, filled in but for what differs. */
typedef struct hcqi_vk_sync2 {
    VkSubmitInfo2KHR infos[HCQI_VK_CALL];
    VkCommandBufferSubmitInfoKHR commands[HCQI_VK_CALL];
    VkSemaphoreSubmitInfoKHR signals[HCQI_VK_CALL], waits[HCQI_VK_CALL_WAITS];
} hcqi_vk_sync2;

/* Both clocks at one moment; `ticks` as if the counter had 64 bits. */
typedef struct hcqi_vk_moment {
    uint64_t ticks, host_ns, error_ns;
} hcqi_vk_moment;

typedef struct hcqi_vk_device {
    hcq_device *device;
    hcq_memory_hooks hooks;
    hcqi_vk_driver *driver;
    hcqi_vk_driver own;                /* the driver, if not the shared one */
    VkPhysicalDevice physical;
    VkDevice handle;
    hcqi_vk_device_api api;
    int lent;                          /* VkDevice and instance are an engine's */
    hcq_vulkan_lock_fn lock_fn;
    void *lock_user;
    const VkAllocationCallbacks *allocator;
    uint32_t flags, version;
    uint32_t subgroups;                /* VkSubgroupFeatureFlags of compute shaders */
    uint32_t subgroup_size;
    int unified;                       /* there is no memory but the host's */
    int drained;
    char driver_text[256];
    VkPhysicalDeviceProperties is;
    uint64_t max_allocation, max_buffer, import_align;
    uint32_t needs;                    /* HCQI_VK_NEEDS_* that there are */
    int has_sync2, has_import, has_late_binding, has_clock;
    int has_host_reset, has_budget, has_monotonic, has_maintenance4, has_statistics;
    int validates;
    PFN_vkQueueSubmit2KHR submit2;

    uint32_t stamp_bits;               /* that all families have, 0: times are the host's */
    hcqi_vk_family families[HCQI_VK_FAMILIES];
    uint32_t family_count;
    VkQueueFamilyProperties all_families[HCQI_VK_ALL_FAMILIES]; /* of the physical device */
    uint32_t family_total;
    hcqi_vk_family *family_of[2];      /* of compute and copy lanes */
    hcqi_vk_queue queues[HCQI_VK_QUEUES];
    uint32_t queue_count;
    uint32_t compute_lanes, copy_lanes;
    int lanes_asked;                   /* for so many by the user */
    hcqi_vk_lane *lanes[2][HCQI_VK_LANES];
    hcqi_vk_lane *imported[HCQI_VK_IMPORTED];

    VkPhysicalDeviceMemoryProperties memory;
    uint32_t device_type, host_type, writes_type; /* of memory */
    int device_visible;                /* all memory has a host pointer */
    hcqi_vk_block **blocks;
    uint32_t block_count, block_capacity;
    uint64_t block_bytes;
    uint32_t imported_blocks;
    uint64_t births, deaths;           /* of blocks, ever; atomic */
    hcqi_vk_arrival *arrivals;         /* under the core's lock */
    hcqi_vk_range **ranges;            /* in use, by address */
    uint32_t range_count, range_capacity;
    uint64_t heap_used[VK_MAX_MEMORY_HEAPS];
    hcqi_vk_block *imports[HCQI_VK_BUCKETS];

    VkPipelineCache cache;
    uint32_t kernel_lock;              /* for looking, not while one is made */
    struct hcqi_vk_kernel *kernels;

    uint32_t lock;                     /* of the queues; nothing of hcq's is called under it */
    uint32_t singly;                   /* batches to be given one by one */
    hcqi_vk_sync2 sync2;
    uint32_t lost;                     /* atomic: 1 = found out, 2 = told */

    VkSemaphore kick_semaphore;        /* the host's: ends a wait of the service thread */
    uint64_t kick_value;               /* that thread's: of the last kick that it saw */
    uint32_t kicked;                   /* atomic: the next value is about to be signalled (1),
                                          or was (2) */

    VkSemaphore now_semaphore;         /* of small jobs that are waited for at once */
    uint64_t now_value;
    VkCommandPool now_pool;
    hcqi_vk_now *nows;
    uint32_t now_count, now_capacity;
    uint64_t zeroed;                   /* atomic: the value of the last that cleared memory */
    hcqi_vk_range *late;               /* freed before they were cleared */
    VkQueryPool now_queries;
    uint32_t now_lock;                 /* these and `moment` */
    hcqi_vk_moment moment;

    uint64_t recorded, recordings, batches, submits, waits, pipelines;
    uint32_t message_lock;
    uint64_t messages, messages_logged; /* of the validation layer; atomic */
    char message[HCQI_VK_MESSAGE];     /* the first not logged yet */
} hcqi_vk_device;

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- SPIR-V -------------------------------------------------------------- */
/* What a module says about itself is read here, before a driver sees it. The
   words are not trusted: hcqi_vk_module_walk makes sure that instructions end
   inside the module; after that an operand that is missing reads as 0, which is
   no id. Declarations are found by searching, nothing is allocated; a budget of
   words bounds the time that a huge or malicious module can take. */

enum { HCQI_VK_ARGS_NONE, HCQI_VK_ARGS_POINTER, HCQI_VK_ARGS_BINDINGS };

/* What a module may need of a device: its capability, and the feature behind it. */
#define HCQI_VK_ABILITIES(X)                                                       \
    X(INT64, 11, all.features, shaderInt64)                                        \
    X(FLOAT64, 10, all.features, shaderFloat64)                                    \
    X(INT16, 22, all.features, shaderInt16)                                        \
    X(FLOAT16, 9, v12, shaderFloat16)                                              \
    X(INT8, 39, v12, shaderInt8)                                                   \
    X(STORAGE16, 4433, v11, storageBuffer16BitAccess)                              \
    X(UNIFORM16, 4434, v11, uniformAndStorageBuffer16BitAccess)                    \
    X(PUSH16, 4435, v11, storagePushConstant16)                                    \
    X(STORAGE8, 4448, v12, storageBuffer8BitAccess)                                \
    X(UNIFORM8, 4449, v12, uniformAndStorageBuffer8BitAccess)                      \
    X(PUSH8, 4450, v12, storagePushConstant8)                                      \
    X(ATOMIC64, 12, v12, shaderBufferInt64Atomics)                                 \
    X(VARIABLE_POINTERS, 4441, v11, variablePointersStorageBuffer)                 \
    X(ALL_POINTERS, 4442, v11, variablePointers)                                   \
    X(MEMORY_MODEL, 5345, v12, vulkanMemoryModel)                                  \
    X(DEVICE_SCOPE, 5346, v12, vulkanMemoryModelDeviceScope)                       \
    X(ADDRESSES, 5347, v12, bufferDeviceAddress)                                   \
    X(LOCAL_SIZE_ID, HCQI_VK_NO_CAPABILITY, maintenance4, maintenance4)

#define HCQI_VK_NO_CAPABILITY 0xffff   /* an instruction says it */
#define HCQI_VK_ABILITY(name, capability, where, feature) HCQI_VK_ABILITY_##name,
#define HCQI_VK_NEEDS(name, capability, where, feature)                            \
    HCQI_VK_NEEDS_##name = 1 << HCQI_VK_ABILITY_##name,
#define HCQI_VK_TAKEN(name, capability, where, feature) { capability, HCQI_VK_NEEDS_##name },
#define HCQI_VK_FEATURE(name, capability, where, feature) #feature,

enum { HCQI_VK_ABILITIES(HCQI_VK_ABILITY) HCQI_VK_ABILITY_COUNT };
enum { HCQI_VK_ABILITIES(HCQI_VK_NEEDS) HCQI_VK_NEEDS_NOTHING = 0 };

/* One entry point of a module. */
typedef struct hcqi_vk_shader {
    int args;                          /* HCQI_VK_ARGS_* */
    uint32_t buffers;                  /* storage buffers: set 0, binding 0 .. buffers - 1 */
    uint32_t uniform;                  /* binding of the uniform block, UINT32_MAX: none */
    uint32_t uniform_bytes, push_bytes; /* where the last member of each ends, 0: none */
    uint32_t base;                     /* offset of a uvec3 that ends the push constants,
                                          UINT32_MAX: they do not end so */
    uint32_t before_base;              /* where what is before that ends */
    uint32_t block[3];                 /* workgroup, the default where it is specialized */
    uint32_t spec_id[3];               /* constant that gives it, UINT32_MAX: fixed */
    uint32_t needs;                    /* HCQI_VK_NEEDS_* */
    uint32_t subgroups;                /* VkSubgroupFeatureFlags */
    uint32_t block_type;               /* struct with the arguments or values, 0: not said */
} hcqi_vk_shader;

enum {                                 /* opcodes */
    HCQI_VK_OP_LINE = 8, HCQI_VK_OP_EXT_INST = 12, HCQI_VK_OP_MEMORY_MODEL = 14,
    HCQI_VK_OP_ENTRY_POINT = 15, HCQI_VK_OP_MODE = 16, HCQI_VK_OP_CAPABILITY = 17,
    HCQI_VK_OP_VOID = 19, HCQI_VK_OP_INT = 21, HCQI_VK_OP_FLOAT = 22, HCQI_VK_OP_VECTOR = 23,
    HCQI_VK_OP_MATRIX = 24, HCQI_VK_OP_IMAGE = 25, HCQI_VK_OP_SAMPLER = 26,
    HCQI_VK_OP_SAMPLED = 27, HCQI_VK_OP_ARRAY = 28, HCQI_VK_OP_RUNTIME_ARRAY = 29,
    HCQI_VK_OP_STRUCT = 30, HCQI_VK_OP_POINTER = 32,
    HCQI_VK_OP_FORWARD = 39,           /* names a pointer's type before it comes */
    HCQI_VK_OP_CONSTANT = 43, HCQI_VK_OP_COMPOSITE = 44, HCQI_VK_OP_SPEC = 50,
    HCQI_VK_OP_SPEC_COMPOSITE = 51, HCQI_VK_OP_SPEC_OP = 52, HCQI_VK_OP_FUNCTION = 54,
    HCQI_VK_OP_FUNCTION_END = 56, HCQI_VK_OP_VARIABLE = 59, HCQI_VK_OP_DECORATE = 71,
    HCQI_VK_OP_MEMBER_DECORATE = 72,
    HCQI_VK_OP_GROUP = 73, HCQI_VK_OP_GROUP_MEMBER = 75, /* of decorations */
    HCQI_VK_OP_LABEL = 248, HCQI_VK_OP_NO_LINE = 317, HCQI_VK_OP_MODE_ID = 331,
    HCQI_VK_OP_DECORATE_ID = 332, HCQI_VK_OP_ACCELERATION = 5341
};

enum {                                 /* decorations */
    HCQI_VK_SPEC_ID = 1, HCQI_VK_BLOCK = 2, HCQI_VK_BUFFER_BLOCK = 3, HCQI_VK_ROW_MAJOR = 4,
    HCQI_VK_ARRAY_STRIDE = 6, HCQI_VK_MATRIX_STRIDE = 7, HCQI_VK_BUILT_IN = 11,
    HCQI_VK_BINDING = 33, HCQI_VK_SET = 34, HCQI_VK_OFFSET = 35
};

enum {                                 /* storage classes */
    HCQI_VK_CLASS_IMAGES = 0,          /* "uniform constant" */
    HCQI_VK_CLASS_UNIFORM = 2, HCQI_VK_CLASS_PUSH = 9, HCQI_VK_CLASS_STORAGE = 12,
    HCQI_VK_CLASS_ADDRESS = 5349
};

enum {                                 /* other numbers of the format */
    HCQI_VK_COMPUTE = 5,               /* execution model */
    HCQI_VK_LOCAL_SIZE = 17, HCQI_VK_LOCAL_SIZE_ID = 38, /* execution modes */
    HCQI_VK_WORKGROUP_SIZE = 25,       /* built-in */
    HCQI_VK_HEADER = 5,                /* words before the first instruction */
    HCQI_VK_LISTS_ALL = 0x00010400,    /* from this version on entry points name all
                                          variables that they use */
    HCQI_VK_MAX_ID = 0x3fffff,
    HCQI_VK_MAX_NAME = 64,             /* bytes of an entry point's, with its zero */
    HCQI_VK_MAX_DEPTH = 32,            /* of types in types */
    HCQI_VK_MAX_BLOCK = 0x40000000,    /* bytes */
    HCQI_VK_BUDGET = 0x10000000        /* words that a search may look at, all together */
};

/* One instruction; a zero one is before the first. */
typedef struct hcqi_vk_op {
    uint32_t at, words, code;
} hcqi_vk_op;

typedef struct hcqi_vk_module {
    const uint8_t *data;
    uint32_t count;                    /* words */
    uint32_t declared;                 /* words before the first function */
    uint32_t version;
    uint32_t bound;                    /* every id is below it */
    uint32_t budget;
    uint32_t function;                 /* id of the entry point's, 0: not found */
    uint32_t interface_at, interface_end; /* ids of the variables that it names */
    uint32_t models;                   /* memory models */
    hcqi_vk_op mode;                   /* says the workgroup's size */
    uint32_t size;                     /* constant that counts more, 0: none */
    uint32_t push;                     /* type of the push constants, 0: none so far */
    int pushes_pointer;                /* and nothing else, but for a base */
    uint32_t target;                   /* of that: a type, 0: not said */
    uint64_t bindings;                 /* bits: storage buffers so far */
    uint32_t failed;                   /* something was said */
    uint32_t over;                     /* the budget is: nothing more is said */
    char *text;                        /* what is wrong with it */
    size_t text_size, text_used;
    hcqi_vk_shader *shader;
} hcqi_vk_module;

/* Appends to the reason; always returns 0. */
static HCQI_PRINTF(2, 3) int hcqi_vk_say(hcqi_vk_module *m, const char *format, ...) {
    va_list args;
    m->failed = 1;
    if (!m->over && m->text_used + 1 < m->text_size) {
        va_start(args, format);
        int length = vsnprintf(m->text + m->text_used, m->text_size - m->text_used, format, args);
        va_end(args);
        size_t left = m->text_size - 1 - m->text_used;
        if (length > 0) { m->text_used += (size_t)length < left ? (size_t)length : left; }
    }
    return 0;
}

/* Pays for a search through `words` words. */
static int hcqi_vk_pay(hcqi_vk_module *m, uint32_t words) {
    if (m->budget < words) {
        hcqi_vk_say(m, "the module is too large or too tangled to be read");
        m->budget = 0;
        m->over = 1;
        return 0;
    }
    m->budget -= words;
    return 1;
}

/* The data may lie at any address. */
static uint32_t hcqi_vk_word(const hcqi_vk_module *m, uint32_t at) {
    uint32_t word;
    memcpy(&word, m->data + (size_t)at * 4, 4);
    return word;
}

static uint32_t hcqi_vk_operand(const hcqi_vk_module *m, const hcqi_vk_op *op, uint32_t index) {
    return index < op->words ? hcqi_vk_word(m, op->at + index) : 0;
}

/* Goes to the next instruction before word `end`. */
static int hcqi_vk_next(const hcqi_vk_module *m, uint32_t end, hcqi_vk_op *op) {
    op->at = op->at != 0 ? op->at + op->words : (uint32_t)HCQI_VK_HEADER;
    if (op->at >= end) { return 0; }
    uint32_t word = hcqi_vk_word(m, op->at);
    op->words = word >> 16;
    op->code = word & 0xffff;
    return 1;
}

/* ---- the shape of a module ---- */

/* Words that an instruction read here has at least. */
static uint32_t hcqi_vk_least(uint32_t code) {
    switch (code) {
    case HCQI_VK_OP_CAPABILITY: case HCQI_VK_OP_STRUCT: return 2;
    case HCQI_VK_OP_MEMORY_MODEL: case HCQI_VK_OP_MODE: case HCQI_VK_OP_MODE_ID:
    case HCQI_VK_OP_DECORATE: case HCQI_VK_OP_FLOAT: case HCQI_VK_OP_RUNTIME_ARRAY:
    case HCQI_VK_OP_COMPOSITE: case HCQI_VK_OP_SPEC_COMPOSITE: return 3;
    case HCQI_VK_OP_ENTRY_POINT: case HCQI_VK_OP_MEMBER_DECORATE: case HCQI_VK_OP_INT:
    case HCQI_VK_OP_VECTOR: case HCQI_VK_OP_MATRIX: case HCQI_VK_OP_ARRAY:
    case HCQI_VK_OP_POINTER: case HCQI_VK_OP_CONSTANT: case HCQI_VK_OP_SPEC:
    case HCQI_VK_OP_VARIABLE: return 4;
    case HCQI_VK_OP_FUNCTION: return 5;
    default: return 1;
    }
}

/* May an instruction stand in a function, or else between and behind functions? */
static int hcqi_vk_may_stand(uint32_t code, int inside) {
    if (!inside) {
        return code == HCQI_VK_OP_LINE || code == HCQI_VK_OP_NO_LINE || code == HCQI_VK_OP_EXT_INST;
    }
    return !((code >= HCQI_VK_OP_MEMORY_MODEL && code <= HCQI_VK_OP_SPEC_OP) ||
             (code >= HCQI_VK_OP_DECORATE && code <= HCQI_VK_OP_GROUP_MEMBER) ||
             code == HCQI_VK_OP_MODE_ID || code == HCQI_VK_OP_DECORATE_ID);
}

/* Visits every instruction once. From here on they end inside the module. */
static int hcqi_vk_module_walk(hcqi_vk_module *m) {
    hcqi_vk_op op = {0, 0, 0};
    int inside = 0;                    /* a function */
    m->declared = m->count;
    while (hcqi_vk_next(m, m->count, &op)) {
        int begins = op.code == HCQI_VK_OP_FUNCTION, ends = op.code == HCQI_VK_OP_FUNCTION_END;
        if (op.words < 1) {
            return hcqi_vk_say(m, "word %u of the module, where an instruction should begin, has "
                                  "no length (0)", op.at);
        }
        if (op.words > m->count - op.at) {
            return hcqi_vk_say(m, "the module is cut off at word %u, in the instruction that "
                                  "begins at word %u", m->count, op.at);
        }
        if (op.words < hcqi_vk_least(op.code)) {
            return hcqi_vk_say(m, "instruction %u at word %u of the module is too short",
                               op.code, op.at);
        }
        int declares = m->declared == m->count;
        if (begins && declares) { m->declared = op.at; }
        if (begins ? inside
                   : ends ? !inside : !declares && !hcqi_vk_may_stand(op.code, inside)) {
            return hcqi_vk_say(m, "word %u of the module has instruction %u, which cannot stand %s",
                               op.at, op.code, inside ? "in a function" : "outside of functions");
        }
        inside = begins || (inside && !ends);
    }
    if (inside) {
        return hcqi_vk_say(m, "the module is cut off at word %u, in a function", m->count);
    }
    return m->declared < m->count ? 1 : hcqi_vk_say(m, "the module has no function");
}

/* Begins to read a module of SPIR-V up to `version` (a header's word). */
static int hcqi_vk_module_open(hcqi_vk_module *m, const void *data, size_t size,
                               uint32_t version, char *text, size_t text_size) {
    memset(m, 0, sizeof *m);
    m->data = HCQI_CAST(const uint8_t *, data);
    m->count = size / 4 < HCQI_VK_BUDGET ? (uint32_t)(size / 4) : 0;
    m->budget = HCQI_VK_BUDGET;
    m->text = text;
    m->text_size = text_size;
    if (text_size != 0) { text[0] = 0; }
    if (data == NULL || size % 4 || m->count <= HCQI_VK_HEADER) {
        return hcqi_vk_say(m, "a module cannot have %lu bytes: wanted are words of 4 bytes, and "
                              "more than a header of 5", (unsigned long)(data != NULL ? size : 0));
    }
    uint32_t magic = hcqi_vk_word(m, 0), schema = hcqi_vk_word(m, 4);
    m->version = hcqi_vk_word(m, 1);
    m->bound = hcqi_vk_word(m, 3);
    if (magic == 0x03022307u) {
        return hcqi_vk_say(m, "the module is of the other byte order; swap the bytes of its words");
    }
    if (magic != 0x07230203u) {
        return hcqi_vk_say(m, "this is no SPIR-V: it begins with 0x%08x instead of 0x07230203",
                           magic);
    }
    if ((m->version & 0xff0000ffu) || m->version < 0x00010000u || m->version > version) {
        return hcqi_vk_say(m, "the module is of SPIR-V %u.%u (0x%08x), and the device takes 1.0 to "
                              "%u.%u; say --target-env vulkan1.2 to glslangValidator",
                           m->version >> 16 & 0xff, m->version >> 8 & 0xff,
                           m->version, version >> 16 & 0xff, version >> 8 & 0xff);
    }
    if (m->bound < 1 || m->bound > HCQI_VK_MAX_ID || schema != 0) {
        return hcqi_vk_say(m, "the module's header is broken: bound %u of ids, schema %u",
                           m->bound, schema);
    }
    return hcqi_vk_module_walk(m);
}

/* ---- searching among the declarations ---- */

/* The operand with an instruction's id, 0 if it is not one that is looked for. */
static uint32_t hcqi_vk_result_index(uint32_t code) {
    if (code == HCQI_VK_OP_ACCELERATION) { return 1; }
    if (code == HCQI_VK_OP_VARIABLE) { return 2; }
    if (code < HCQI_VK_OP_VOID || code > HCQI_VK_OP_SPEC_OP || code == HCQI_VK_OP_FORWARD) {
        return 0;
    }
    return code < HCQI_VK_OP_FORWARD ? 1 : 2;
}

/* Finds the type, constant or variable `id`. */
static int hcqi_vk_find(hcqi_vk_module *m, uint32_t id, hcqi_vk_op *op) {
    hcqi_vk_op found = {0, 0, 0};
    *op = found;
    if (id == 0 || id >= m->bound) {
        return hcqi_vk_say(m, "the module uses id %u; it says that its ids are 1 to %u",
                           id, m->bound - 1);
    }
    if (!hcqi_vk_pay(m, m->declared)) { return 0; }
    while (hcqi_vk_next(m, m->declared, &found)) {
        uint32_t index = hcqi_vk_result_index(found.code);
        if (index != 0 && hcqi_vk_operand(m, &found, index) == id) {
            *op = found;
            return 1;
        }
    }
    return hcqi_vk_say(m, "the module uses id %u and does not declare it", id);
}

/* Has member `member` of the struct `id` a decoration? Its literal goes to `value`. */
static int hcqi_vk_member(hcqi_vk_module *m, uint32_t id, uint32_t member, uint32_t decoration,
                          uint32_t *value) {
    hcqi_vk_op op = {0, 0, 0};
    int whole = member == UINT32_MAX;
    if (!hcqi_vk_pay(m, m->declared)) { return 0; }
    while (hcqi_vk_next(m, m->declared, &op)) {
        uint32_t at = op.code == HCQI_VK_OP_DECORATE ? 2 : 3;
        if (op.code != (whole ? HCQI_VK_OP_DECORATE : HCQI_VK_OP_MEMBER_DECORATE) ||
            hcqi_vk_operand(m, &op, 1) != id || hcqi_vk_operand(m, &op, at) != decoration ||
            (!whole && hcqi_vk_operand(m, &op, 2) != member)) {
            continue;
        }
        *value = hcqi_vk_operand(m, &op, at + 1);
        return 1;
    }
    return 0;
}

static int hcqi_vk_decoration(hcqi_vk_module *m, uint32_t id, uint32_t decoration,
                              uint32_t *value) {
    return hcqi_vk_member(m, id, UINT32_MAX, decoration, value);
}

/* A number known now: of an array's length, of a workgroup. `spec` may be NULL:
   then it must not be one for specialization. */
static int hcqi_vk_number(hcqi_vk_module *m, uint32_t id, uint32_t *value, uint32_t *spec) {
    hcqi_vk_op op, type;
    if (!hcqi_vk_find(m, id, &op)) { return 0; }
    if (op.code != HCQI_VK_OP_CONSTANT && (op.code != HCQI_VK_OP_SPEC || spec == NULL)) {
        return hcqi_vk_say(m, "a size in the module is given by %u, which is no plain%s constant",
                           id, spec != NULL ? " or specialization" : "");
    }
    int found = hcqi_vk_find(m, hcqi_vk_operand(m, &op, 1), &type);
    if (found && (type.code != HCQI_VK_OP_INT || hcqi_vk_operand(m, &type, 2) > 32)) {
        return hcqi_vk_say(m, "a size in the module is given by %u, which is no integer of 32 bits",
                           id);
    }
    *value = hcqi_vk_operand(m, &op, 3);
    if (spec != NULL && (op.code != HCQI_VK_OP_SPEC ||
                         !hcqi_vk_decoration(m, id, HCQI_VK_SPEC_ID, spec))) {
        *spec = UINT32_MAX;
    }
    return !m->failed;
}

/* ---- what is in a block ---- */
/* A walk visits every number, vector, matrix and pointer in a block: to measure it, or
   to hold it against the arguments, whose every byte has its meaning. There what may
   be right is taken: an address as a 64-bit number or two words, a vector over several
   values, words over a struct of bytes, members in the padding before an argument,
   types that are not known here. */

/* Where an argument lies in the block. */
typedef struct hcqi_vk_field {
    uint32_t arg, offset, size;
    int buffer, raw;                   /* an address; bytes of any meaning */
} hcqi_vk_field;

/* A place in the block with its type, and the struct and member it came by. */
typedef struct hcqi_vk_place {
    uint32_t id, of, member, depth;
    uint64_t offset, bytes;            /* what follows is said of a leaf: */
    int pointer, address;              /* it is one; it may hold one */
    int gaps;                          /* not all of these bytes are used: a matrix */
    int three;                         /* it is a uvec3, or an ivec3 */
} hcqi_vk_place;

typedef struct hcqi_vk_walk {
    hcqi_vk_module *m;
    uint32_t id;                       /* its type */
    uint64_t bytes;                    /* where the last leaf ends */
    hcqi_vk_place last;                /* that leaf */
    uint64_t before;                   /* where all others end */
    int pointer;                       /* an address is at byte 0, or what may hold one */
    uint32_t target;                   /* type that it points to, 0: not said */
    const hcqi_vk_field *fields;       /* it is held against these, by offset; NULL: measured */
    uint32_t base;                     /* a uvec3 here is no argument's */
    uint32_t count, end;               /* bytes of them all */
    uint32_t rounded;                  /* the same, as the block has them */
    char wrong[160];                   /* the first that differs */
} hcqi_vk_walk;

/* Looks for the argument at a leaf's place that is of another kind or size, or for none
   where one should be. */
static void hcqi_vk_leaf_hold(hcqi_vk_walk *w, const hcqi_vk_place *leaf) {
    uint64_t end = leaf->offset + leaf->bytes, covered = 0;
    const hcqi_vk_field *bad = NULL, *touched = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        const hcqi_vk_field *f = &w->fields[i];
        uint64_t first = leaf->offset > f->offset ? leaf->offset : f->offset;
        uint64_t last = end < f->offset + (uint64_t)f->size ? end : f->offset + (uint64_t)f->size;
        if (first >= last) { continue; }
        int exact = leaf->offset == f->offset && leaf->bytes == f->size;
        int fits = f->buffer ? exact && (leaf->pointer || leaf->address)
                             : !leaf->pointer || exact || f->raw;
        covered += last - first;
        touched = f;
        if (bad == NULL && !fits) { bad = f; }
    }
    int alone = touched == NULL && (leaf->pointer || leaf->offset >= w->end);
    int part = alone || (touched != NULL && covered < leaf->bytes && !leaf->gaps && !touched->raw);
    if (bad == NULL && part) { bad = touched; }
    if (w->wrong[0] || (bad == NULL && !part)) { return; }
    const char *what = leaf->pointer ? "a pointer" : "a number";
    if (bad == NULL) {
        snprintf(w->wrong, sizeof w->wrong, "the shader's block has %s at byte %u, where no "
                 "argument is", what, (unsigned)leaf->offset);
        return;
    }
    snprintf(w->wrong, sizeof w->wrong, "argument %u is %s of %u bytes at byte %u; the shader's "
             "block has %s of %u bytes at byte %u", bad->arg,
             bad->buffer ? "a buffer" : "a value", bad->size, bad->offset, what,
             (unsigned)leaf->bytes, (unsigned)leaf->offset);
}

/* Bytes of a number or a vector, 0: it is neither. */
static uint32_t hcqi_vk_number_bytes(hcqi_vk_module *m, hcqi_vk_op op) {
    uint32_t count = 1;
    if (op.code == HCQI_VK_OP_VECTOR) {
        count = hcqi_vk_operand(m, &op, 3);
        if (!hcqi_vk_find(m, hcqi_vk_operand(m, &op, 2), &op)) { return 0; }
    }
    uint32_t width = hcqi_vk_operand(m, &op, 2);
    int number = (op.code == HCQI_VK_OP_INT || op.code == HCQI_VK_OP_FLOAT) && width % 8 == 0;
    return number && width <= 64 && count <= 4 ? width / 8 * count : 0;
}

/* Measures a matrix, whose stride is said by the struct that it is in. */
static void hcqi_vk_matrix_read(hcqi_vk_module *m, const hcqi_vk_op *op, hcqi_vk_place *at) {
    uint32_t stride, unused, columns = hcqi_vk_operand(m, op, 3);
    hcqi_vk_op vector;
    if (at->of == 0 || !hcqi_vk_member(m, at->of, at->member, HCQI_VK_MATRIX_STRIDE, &stride)) {
        hcqi_vk_say(m, "matrix %u of the module has no stride", at->id);
        return;
    }
    if (!hcqi_vk_find(m, hcqi_vk_operand(m, op, 2), &vector)) { return; }
    uint32_t rows = hcqi_vk_operand(m, &vector, 3), column = hcqi_vk_number_bytes(m, vector);
    if (m->failed) { return; }
    if (vector.code != HCQI_VK_OP_VECTOR || column == 0 || columns < 2 || columns > 4) {
        hcqi_vk_say(m, "matrix %u of the module is none", at->id);
        return;
    }
    at->gaps = 1;
    at->bytes = hcqi_vk_member(m, at->of, at->member, HCQI_VK_ROW_MAJOR, &unused)
                    ? (uint64_t)stride * (rows - 1) + (uint64_t)column / rows * columns
                    : (uint64_t)stride * (columns - 1) + column;
}

static int hcqi_vk_walk_leaf(hcqi_vk_walk *w, hcqi_vk_place *at, const hcqi_vk_op *op) {
    hcqi_vk_module *m = w->m;
    if (op->code == HCQI_VK_OP_MATRIX) {
        hcqi_vk_matrix_read(m, op, at);
    } else if (op->code == HCQI_VK_OP_POINTER) {
        at->pointer = 1;
        at->bytes = hcqi_vk_operand(m, op, 2) == HCQI_VK_CLASS_ADDRESS ? 8 : 0;
    } else {
        hcqi_vk_op word = *op;         /* words of 32 bits, or one of 64 */
        int vector = op->code == HCQI_VK_OP_VECTOR;
        at->bytes = hcqi_vk_number_bytes(m, *op);
        if (at->bytes != 0 && vector) { (void)hcqi_vk_find(m, hcqi_vk_operand(m, op, 2), &word); }
        at->address = at->bytes == 8 && word.code == HCQI_VK_OP_INT;
        at->three = at->bytes == 12 && word.code == HCQI_VK_OP_INT &&
                    hcqi_vk_operand(m, op, 3) == 3;
    }
    if (m->failed) { return 0; }
    if (w->fields != NULL && at->three && at->offset == w->base) { return 1; }
    if (at->bytes == 0) {
        return hcqi_vk_say(m, "a block of the module has a member of type %u, which is no number, "
                              "vector, matrix, pointer, array or struct", at->id);
    }
    uint64_t end = at->offset + at->bytes;
    if (end > w->bytes) {
        w->before = w->bytes;
        w->bytes = end;
        w->last = *at;
    } else if (end > w->before) {
        w->before = end;
    }
    if (at->offset == 0 && (at->pointer || at->address)) {
        w->pointer = 1;
        w->target = at->pointer ? hcqi_vk_operand(m, op, 3) : 0;
    }
    if (w->fields != NULL) { hcqi_vk_leaf_hold(w, at); }
    return 1;
}

static int hcqi_vk_walk_place(hcqi_vk_walk *w, hcqi_vk_place at);

static int hcqi_vk_walk_struct(hcqi_vk_walk *w, const hcqi_vk_place *at, const hcqi_vk_op *op) {
    hcqi_vk_place member = *at;
    uint32_t offset;
    member.of = at->id;
    for (uint32_t i = 0; i + 2 < op->words; i++) {
        if (!hcqi_vk_member(w->m, at->id, i, HCQI_VK_OFFSET, &offset)) {
            return hcqi_vk_say(w->m, "struct %u of the module has no offsets", at->id);
        }
        member.id = hcqi_vk_operand(w->m, op, 2 + i);
        member.member = i;
        member.offset = at->offset + offset;
        if (!hcqi_vk_walk_place(w, member)) { return 0; }
    }
    return 1;
}

/* Elements that arguments may be at, and the last one. */
static int hcqi_vk_walk_array(hcqi_vk_walk *w, const hcqi_vk_place *at, const hcqi_vk_op *op) {
    hcqi_vk_place element = *at;
    hcqi_vk_op count;
    uint32_t stride, length;
    if (!hcqi_vk_find(w->m, hcqi_vk_operand(w->m, op, 3), &count)) { return 0; }
    if (w->fields != NULL && count.code != HCQI_VK_OP_CONSTANT) { return 1; } /* not known */
    if (!hcqi_vk_number(w->m, hcqi_vk_operand(w->m, op, 3), &length, NULL)) { return 0; }
    if (!hcqi_vk_decoration(w->m, at->id, HCQI_VK_ARRAY_STRIDE, &stride)) {
        return hcqi_vk_say(w->m, "array %u of the module has no stride", at->id);
    }
    if (length == 0) {
        return hcqi_vk_say(w->m, "array %u of the module has no elements", at->id);
    }
    element.id = hcqi_vk_operand(w->m, op, 2);
    for (uint32_t i = 0; i < length; i++) {
        if (at->offset + (uint64_t)stride * i > w->rounded) { i = length - 1; }
        element.offset = at->offset + (uint64_t)stride * i;
        if (!hcqi_vk_walk_place(w, element)) { return 0; }
    }
    return 1;
}

/* 0: the module is broken. */
static int hcqi_vk_walk_place(hcqi_vk_walk *w, hcqi_vk_place at) {
    hcqi_vk_op op;
    if (at.depth++ > HCQI_VK_MAX_DEPTH || at.offset > HCQI_VK_MAX_BLOCK) {
        return hcqi_vk_say(w->m, "struct %u of the module is %s", w->id,
                           at.offset > HCQI_VK_MAX_BLOCK ? "too large" : "nested too deeply");
    }
    if (!hcqi_vk_find(w->m, at.id, &op)) { return 0; }
    switch (op.code) {
    case HCQI_VK_OP_STRUCT: return hcqi_vk_walk_struct(w, &at, &op);
    case HCQI_VK_OP_ARRAY: return hcqi_vk_walk_array(w, &at, &op);
    case HCQI_VK_OP_INT: case HCQI_VK_OP_FLOAT: case HCQI_VK_OP_VECTOR: case HCQI_VK_OP_MATRIX:
    case HCQI_VK_OP_POINTER: return hcqi_vk_walk_leaf(w, &at, &op);
    default: /* an array without an end? */
        return w->fields != NULL || hcqi_vk_walk_leaf(w, &at, &op);
    }
}

/* Visits a block of the type `id`; what `w` has before says in what way. */
static int hcqi_vk_walk_all(hcqi_vk_walk *w, hcqi_vk_module *m, uint32_t id) {
    hcqi_vk_place at;
    memset(&at, 0, sizeof at);
    at.id = w->id = id;
    w->m = m;
    return hcqi_vk_walk_place(w, at) &&
           (w->bytes <= HCQI_VK_MAX_BLOCK ||
            hcqi_vk_say(m, "struct %u of the module is too large", id));
}

/* Does the block of a module that hcqi_vk_shader_read took fit the arguments? */
static int hcqi_vk_block_hold(hcqi_vk_module *m, const hcqi_vk_field *fields, uint32_t count) {
    const hcqi_vk_shader *shader = m->shader;
    hcqi_vk_walk w;
    if (shader->block_type == 0) { return 1; }
    memset(&w, 0, sizeof w);
    int pushed = shader->args == HCQI_VK_ARGS_BINDINGS && shader->uniform == UINT32_MAX;
    w.base = pushed ? shader->base : UINT32_MAX;
    w.fields = fields;
    w.count = count;
    w.end = count != 0 ? fields[count - 1].offset + fields[count - 1].size : 0;
    w.rounded = (w.end + 7) & ~7u;
    if (!hcqi_vk_walk_all(&w, m, shader->block_type)) { return 0; }
    if (w.bytes > w.rounded) {
        return hcqi_vk_say(m, "the shader's block has %lu bytes, the list of arguments makes %u",
                           (unsigned long)w.bytes, w.rounded);
    }
    return w.wrong[0] ? hcqi_vk_say(m, "%s", w.wrong) : 1;
}

/* ---- what a module needs ---- */

/* Capabilities that every device has, and those with a feature. */
static const struct { uint32_t number, needs; } hcqi_vk_taken[] = {
    {0, 0}, {1, 0},                    /* Matrix, Shader */
    {43, 0}, {44, 0}, {46, 0}, {47, 0}, {50, 0}, /* images, of which no argument can be one */
    HCQI_VK_ABILITIES(HCQI_VK_TAKEN)
};

/* All others are refused, these by name. */
static const struct { uint32_t number; const char *name; } hcqi_vk_refused[] = {
    {2, "Geometry"}, {3, "Tessellation"}, {4, "Addresses (of OpenCL)"},
    {5, "Linkage (of OpenCL)"}, {6, "Kernel (of OpenCL)"},
    {28, "UniformBufferArrayDynamicIndexing"}, {30, "StorageBufferArrayDynamicIndexing"},
    {55, "StorageImageReadWithoutFormat"}, {56, "StorageImageWriteWithoutFormat"},
    {4464, "DenormPreserve"}, {4465, "DenormFlushToZero"}, {4466, "SignedZeroInfNanPreserve"},
    {4467, "RoundingModeRTE"}, {4468, "RoundingModeRTZ"}, {4472, "RayQueryKHR"},
    {4479, "RayTracingKHR"}, {5055, "ShaderClockKHR"}, {5301, "ShaderNonUniform"},
    {5302, "RuntimeDescriptorArray"}, {6016, "DotProductInputAll"},
    {6017, "DotProductInput4x8Bit"}, {6018, "DotProductInput4x8BitPacked"},
    {6019, "DotProduct"}, {6022, "CooperativeMatrixKHR"}, {6033, "AtomicFloat32AddEXT"},
    {6034, "AtomicFloat64AddEXT"},
};

static int hcqi_vk_capability_read(hcqi_vk_module *m, uint32_t number) {
    enum { FIRST = 61, LAST = 68 };    /* of subgroups, in the order of Vulkan's bits */
    const char *name = "of a name unknown here";
    if (number >= FIRST && number <= LAST) {
        m->shader->subgroups |= 1u << (number - FIRST);
        return 1;
    }
    for (size_t i = 0; i < HCQI_VK_COUNT(hcqi_vk_taken); i++) {
        if (hcqi_vk_taken[i].number == number) {
            m->shader->needs |= hcqi_vk_taken[i].needs;
            return 1;
        }
    }
    for (size_t i = 0; i < HCQI_VK_COUNT(hcqi_vk_refused); i++) {
        if (hcqi_vk_refused[i].number == number) { name = hcqi_vk_refused[i].name; }
    }
    return hcqi_vk_say(m, "the module needs the capability %s, number %u, which hcq does not "
                          "enable", name, number);
}

static int hcqi_vk_addressing_read(hcqi_vk_module *m, uint32_t addressing, uint32_t model) {
    enum { LOGICAL = 0, PHYSICAL_STORAGE = 5348, GLSL450 = 1, VULKAN = 3 };
    m->models++;
    if ((addressing != LOGICAL && addressing != PHYSICAL_STORAGE) ||
        (model != GLSL450 && model != VULKAN)) {
        return hcqi_vk_say(m, "the module has addressing %u and memory model %u; those of Vulkan "
                              "are 0 or 5348, and 1 or 3", addressing, model);
    }
    if (addressing == PHYSICAL_STORAGE) { m->shader->needs |= HCQI_VK_NEEDS_ADDRESSES; }
    if (model == VULKAN) { m->shader->needs |= HCQI_VK_NEEDS_MEMORY_MODEL; }
    return 1;
}

/* ---- entry points ---- */

/* Reads an entry point's name, or as much of it as there is room for. Its first character
   is in a word's low bits, on any host. Returns its words, 0: it does not end. */
static uint32_t hcqi_vk_name_read(const hcqi_vk_module *m, const hcqi_vk_op *op, char *name,
                                  uint32_t size) {
    enum { FIRST = 3 };
    name[size - 1] = 0;
    for (uint32_t i = 0; i / 4 + FIRST < op->words; i++) {
        char c = (char)(unsigned char)(hcqi_vk_operand(m, op, FIRST + i / 4) >> i % 4 * 8 & 0xff);
        if (i < size - 1) { name[i] = c; }
        if (!c) { return i / 4 + 1; }
    }
    return 0;
}

static int hcqi_vk_entry_read(hcqi_vk_module *m, const hcqi_vk_op *op, const char *entry) {
    char name[HCQI_VK_MAX_NAME + 1];   /* one that is cut is longer than `entry` may be */
    uint32_t words = hcqi_vk_name_read(m, op, name, sizeof name);
    if (words == 0) {
        return hcqi_vk_say(m, "the name of the entry point at word %u does not end", op->at);
    }
    if (m->function == 0 && hcqi_vk_operand(m, op, 1) == HCQI_VK_COMPUTE && !strcmp(name, entry)) {
        m->function = hcqi_vk_operand(m, op, 2);
        m->interface_at = op->at + 3 + words;
        m->interface_end = op->at + op->words;
    }
    return 1;
}

/* Says what entry points there are instead of `entry`. */
static int hcqi_vk_entry_missing(hcqi_vk_module *m, const char *entry) {
    enum { SHOWN = 8, NAME = 49 };
    static const char *const stages[] = {"vertex",   "tessellation", "tessellation", "geometry",
                                         "fragment", "compute",      "an OpenCL kernel"};
    hcqi_vk_op op = {0, 0, 0};
    uint32_t count = 0;
    hcqi_vk_say(m, "the module has no entry point \"%.48s\" for compute; it has ", entry);
    while (hcqi_vk_next(m, m->declared, &op)) {
        char name[NAME];
        uint32_t stage = hcqi_vk_operand(m, &op, 1);
        if (op.code != HCQI_VK_OP_ENTRY_POINT || ++count > SHOWN) { continue; }
        (void)hcqi_vk_name_read(m, &op, name, NAME);
        for (char *c = name; *c; c++) {
            if (*c < 32 || *c > 126) { *c = '?'; }
        }
        hcqi_vk_say(m, "%s\"%s\" (%s)", count > 1 ? ", " : "", name,
                    stage < HCQI_VK_COUNT(stages) ? stages[stage] : "another stage");
    }
    if (count > SHOWN) { hcqi_vk_say(m, " and %u more", count - SHOWN); }
    return hcqi_vk_say(m, "%s", count != 0 ? "" : "none at all");
}

/* Is the entry point's function there, with a body? */
static int hcqi_vk_function_check(hcqi_vk_module *m) {
    hcqi_vk_op op = {m->declared, 0, 0};
    int inside = 0;
    while (hcqi_vk_next(m, m->count, &op)) {
        if (op.code == HCQI_VK_OP_FUNCTION) {
            inside = hcqi_vk_operand(m, &op, 2) == m->function;
        } else if (inside && op.code == HCQI_VK_OP_LABEL) {
            return 1;
        }
    }
    return hcqi_vk_say(m, "the entry point's function, %u, is not in the module", m->function);
}

/* What comes before types: capabilities, the memory model, entry points, where the size
   of workgroups is said. */
static int hcqi_vk_head_read(hcqi_vk_module *m, const char *entry) {
    hcqi_vk_op op = {0, 0, 0};
    while (!m->failed && hcqi_vk_next(m, m->declared, &op)) {
        uint32_t of = hcqi_vk_operand(m, &op, 1), what = hcqi_vk_operand(m, &op, 2);
        uint32_t size = op.code == HCQI_VK_OP_MODE ? HCQI_VK_LOCAL_SIZE : HCQI_VK_LOCAL_SIZE_ID;
        switch (op.code) {
        case HCQI_VK_OP_CAPABILITY: (void)hcqi_vk_capability_read(m, of); break;
        case HCQI_VK_OP_MEMORY_MODEL: (void)hcqi_vk_addressing_read(m, of, what); break;
        case HCQI_VK_OP_ENTRY_POINT: (void)hcqi_vk_entry_read(m, &op, entry); break;
        case HCQI_VK_OP_MODE: case HCQI_VK_OP_MODE_ID:
            if (of == m->function && what == size) { m->mode = op; }
            break;
        case HCQI_VK_OP_DECORATE:
            if (what == HCQI_VK_BUILT_IN && hcqi_vk_operand(m, &op, 3) == HCQI_VK_WORKGROUP_SIZE) {
                m->size = of;
            }
            break;
        case HCQI_VK_OP_GROUP: case HCQI_VK_OP_GROUP + 1: case HCQI_VK_OP_GROUP_MEMBER:
            return hcqi_vk_say(m, "the module has groups of decorations; have a newer compiler "
                                  "make it");
        default: break;
        }
    }
    if (m->failed) { return 0; }
    if (m->models != 1) {
        return hcqi_vk_say(m, "the module has %u memory models; wanted is one", m->models);
    }
    return m->function != 0 ? hcqi_vk_function_check(m) : hcqi_vk_entry_missing(m, entry);
}

/* ---- the size of workgroups ---- */

/* The entry point's mode says it, in numbers or in ids of constants; a WorkgroupSize of the
   module, a vector of constants, counts more. */
static int hcqi_vk_workgroup_read(hcqi_vk_module *m) {
    hcqi_vk_op op = m->mode;
    hcqi_vk_shader *shader = m->shader;
    int ids = op.code == HCQI_VK_OP_MODE_ID;
    if (ids) { shader->needs |= HCQI_VK_NEEDS_LOCAL_SIZE_ID; }
    if (m->size != 0) {
        if (!hcqi_vk_find(m, m->size, &op)) { return 0; }
        ids = op.code == HCQI_VK_OP_COMPOSITE || op.code == HCQI_VK_OP_SPEC_COMPOSITE;
        if (!ids || op.words != 6) {
            return hcqi_vk_say(m, "the module's WorkgroupSize, %u, is no constant of 3 numbers",
                               m->size);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t *size = &shader->block[i], *spec = &shader->spec_id[i];
        *size = hcqi_vk_operand(m, &op, 3 + i);
        if (ids && !hcqi_vk_number(m, *size, size, spec)) { return 0; }
        if (*size == 0 && *spec == UINT32_MAX) {
            return hcqi_vk_say(m, "the entry point's workgroup has no size");
        }
    }
    return 1;
}

/* ---- arguments ---- */

static const char *hcqi_vk_kind(uint32_t code) {
    switch (code) {
    case HCQI_VK_OP_IMAGE: return "an image";
    case HCQI_VK_OP_SAMPLER: return "a sampler";
    case HCQI_VK_OP_SAMPLED: return "an image with a sampler";
    case HCQI_VK_OP_ARRAY: case HCQI_VK_OP_RUNTIME_ARRAY: return "an array of descriptors";
    case HCQI_VK_OP_ACCELERATION: return "an acceleration structure";
    default: return "no struct";
    }
}

/* Whether the last member is taken for a base depends on the arguments before it, but for
   a pointer that is pushed. */
static int hcqi_vk_push_read(hcqi_vk_module *m, uint32_t variable, const hcqi_vk_op *type) {
    enum { POINTER = 8, BASE = 16 };   /* bytes; a base's offset after that */
    uint32_t unused, id = hcqi_vk_operand(m, type, 1);
    hcqi_vk_walk w;
    memset(&w, 0, sizeof w);
    if (m->push != 0) {
        return hcqi_vk_say(m, "the module has two blocks of push constants; wanted is one");
    }
    if (type->code != HCQI_VK_OP_STRUCT || !hcqi_vk_decoration(m, id, HCQI_VK_BLOCK, &unused)) {
        return hcqi_vk_say(m, "the push constants, variable %u, are no block", variable);
    }
    if (!hcqi_vk_walk_all(&w, m, id)) { return 0; }
    m->push = id;
    m->shader->push_bytes = (uint32_t)w.bytes;
    if (w.last.three) {
        m->shader->base = (uint32_t)w.last.offset;
        m->shader->before_base = (uint32_t)w.before;
    }
    m->pushes_pointer = w.pointer && (w.bytes == POINTER ||
                                      (w.before == POINTER && m->shader->base == BASE));
    m->target = w.target;
    return 1;
}

/* A buffer, or what else has a descriptor. */
static int hcqi_vk_resource_read(hcqi_vk_module *m, uint32_t variable, uint32_t storage_class,
                                 const hcqi_vk_op *type) {
    uint32_t set, binding, unused, id = hcqi_vk_operand(m, type, 1);
    hcqi_vk_walk w;
    if (!hcqi_vk_decoration(m, variable, HCQI_VK_SET, &set) ||
        !hcqi_vk_decoration(m, variable, HCQI_VK_BINDING, &binding)) {
        return hcqi_vk_say(m, "variable %u of the module has no set and binding", variable);
    }
    if (storage_class == HCQI_VK_CLASS_IMAGES || type->code != HCQI_VK_OP_STRUCT) {
        return hcqi_vk_say(m, "binding %u of set %u is %s; wanted are storage buffers, one for "
                              "each binding, and at most one uniform block", binding, set,
                           hcqi_vk_kind(type->code));
    }
    if (set != 0) {
        return hcqi_vk_say(m, "binding %u is in set %u; wanted is set 0", binding, set);
    }
    if (storage_class == HCQI_VK_CLASS_STORAGE ||
        hcqi_vk_decoration(m, id, HCQI_VK_BUFFER_BLOCK, &unused)) {
        if (binding >= HCQ_MAX_ARGS) {
            return hcqi_vk_say(m, "a storage buffer has binding %u; they begin at 0, and programs "
                                  "have at most %d arguments", binding, HCQ_MAX_ARGS);
        }
        m->bindings |= (uint64_t)1 << binding;
        return 1;
    }
    if (m->shader->uniform != UINT32_MAX) {
        return hcqi_vk_say(m, "the module has uniform blocks at bindings %u and %u; wanted is at "
                              "most one", m->shader->uniform, binding);
    }
    memset(&w, 0, sizeof w);
    if (!hcqi_vk_walk_all(&w, m, id)) { return 0; }
    m->shader->uniform = binding;
    m->shader->uniform_bytes = (uint32_t)w.bytes;
    m->shader->block_type = id;
    return 1;
}

static int hcqi_vk_variable_read(hcqi_vk_module *m, const hcqi_vk_op *variable) {
    uint32_t id = hcqi_vk_operand(m, variable, 2), storage = hcqi_vk_operand(m, variable, 3);
    int used = m->version < HCQI_VK_LISTS_ALL; /* old modules do not say, so all count */
    hcqi_vk_op type;
    if (storage != HCQI_VK_CLASS_IMAGES && storage != HCQI_VK_CLASS_UNIFORM &&
        storage != HCQI_VK_CLASS_PUSH && storage != HCQI_VK_CLASS_STORAGE) {
        return 1;
    }
    if (!hcqi_vk_pay(m, m->interface_end - m->interface_at)) { return 0; }
    for (uint32_t i = m->interface_at; i < m->interface_end; i++) {
        used |= hcqi_vk_word(m, i) == id;
    }
    if (!used) { return 1; }
    if (!hcqi_vk_find(m, hcqi_vk_operand(m, variable, 1), &type)) { return 0; }
    if (type.code != HCQI_VK_OP_POINTER) {
        return hcqi_vk_say(m, "variable %u of the module has a type that is no pointer", id);
    }
    if (!hcqi_vk_find(m, hcqi_vk_operand(m, &type, 3), &type)) { return 0; }
    return storage == HCQI_VK_CLASS_PUSH ? hcqi_vk_push_read(m, id, &type)
                                         : hcqi_vk_resource_read(m, id, storage, &type);
}

/* Reads all variables. Bindings follow each other as arguments do. */
static int hcqi_vk_args_read(hcqi_vk_module *m) {
    hcqi_vk_shader *shader = m->shader;
    hcqi_vk_op op = {0, 0, 0};
    uint32_t count = 0;
    while (hcqi_vk_next(m, m->declared, &op)) {
        if (op.code == HCQI_VK_OP_VARIABLE && !hcqi_vk_variable_read(m, &op)) { return 0; }
    }
    int uniform = shader->uniform != UINT32_MAX;
    while (count < HCQ_MAX_ARGS && m->bindings >> count & 1) { count++; }
    shader->buffers = count;
    if (count < HCQ_MAX_ARGS && m->bindings >> count) {
        return hcqi_vk_say(m, "set 0 has no storage buffer at binding %u and has some after it; "
                              "wanted are bindings without a hole", count);
    }
    if (uniform && shader->uniform != count) {
        return hcqi_vk_say(m, "the uniform block has binding %u; wanted is the one after the "
                              "storage buffers, %u", shader->uniform, count);
    }
    if (uniform && m->push != 0 && shader->base != 0) {
        return hcqi_vk_say(m, "the module has a uniform block and push constants; wanted is one of "
                              "them, for all arguments that are no buffers");
    }
    int bindings = count != 0 || uniform;
    if (!bindings && m->push == 0) { return 1; }
    shader->args = HCQI_VK_ARGS_BINDINGS;
    if (!uniform) { shader->block_type = m->push; }
    if (!bindings && m->pushes_pointer) {
        int known = m->target != 0 && hcqi_vk_find(m, m->target, &op) &&
                    op.code == HCQI_VK_OP_STRUCT;
        shader->args = HCQI_VK_ARGS_POINTER;
        shader->block_type = known ? m->target : 0;
    }
    return !m->failed;
}

/* Reads entry point `entry` of a module of SPIR-V up to `version` (a header's
   word); `m` stays open. 0: it cannot be used, `text` says why. */
static int hcqi_vk_shader_read(hcqi_vk_module *m, const void *data, size_t size, const char *entry,
                               uint32_t version, hcqi_vk_shader *shader, char *text,
                               size_t text_size) {
    memset(shader, 0, sizeof *shader);
    shader->uniform = shader->base = UINT32_MAX;
    shader->spec_id[0] = shader->spec_id[1] = shader->spec_id[2] = UINT32_MAX;
    if (!hcqi_vk_module_open(m, data, size, version, text, text_size)) { return 0; }
    m->shader = shader;
    return hcqi_vk_head_read(m, entry) && hcqi_vk_workgroup_read(m) && hcqi_vk_args_read(m);
}

/* What is made of a module's entry point, for all programs of it. */
typedef struct hcqi_vk_kernel {
    struct hcqi_vk_kernel *next;       /* of d->kernels */
    uint32_t refs;                     /* programs */
    const void *code;                  /* which the core has as long, ... */
    const char *entry;                 /* ... and this, or NULL */
    uint32_t statistics;               /* HCQ_PROGRAM_STATISTICS or 0 */
    VkShaderModule module;
    VkDescriptorSetLayout sets;
    VkPipelineLayout layout;
    uint32_t bindings;                 /* of set 0: buffers, and the uniform block */
    hcqi_vk_pipeline *pipelines;       /* by block; under d->kernel_lock, but stay */
} hcqi_vk_kernel;

typedef struct hcqi_vk_program {
    hcqi_vk_device *d;
    hcqi_vk_kernel *kernel;            /* others may have it, too */
    hcqi_vk_shader shader;
    uint32_t args[HCQ_MAX_ARGS];
    hcq_program_info info;
    hcqi_vk_field fields[HCQ_MAX_ARGS]; /* arguments in the shader's block, by offset */
    uint32_t field_count, field_bytes;
    uint32_t base_at;                  /* in the push constants, if the shader takes one */
} hcqi_vk_program;

/* ========================================================================== */
/* ---- results, locks, names ----------------------------------------------- */

/* What hcq makes of results; all others are HCQ_ERROR_NATIVE. */
#define HCQI_VK_RESULTS(X)                                                         \
    X(SUCCESS, OK) X(TIMEOUT, TIMEOUT) X(NOT_READY, TIMEOUT)                       \
    X(ERROR_OUT_OF_HOST_MEMORY, ERROR_OUT_OF_MEMORY)                               \
    X(ERROR_OUT_OF_DEVICE_MEMORY, ERROR_OUT_OF_MEMORY)                             \
    X(ERROR_OUT_OF_POOL_MEMORY, ERROR_OUT_OF_MEMORY)                               \
    X(ERROR_FRAGMENTED_POOL, ERROR_OUT_OF_MEMORY)                                  \
    X(ERROR_TOO_MANY_OBJECTS, ERROR_OUT_OF_MEMORY) X(ERROR_DEVICE_LOST, ERROR_LOST) \
    X(ERROR_INITIALIZATION_FAILED, ERROR_NATIVE) X(ERROR_MEMORY_MAP_FAILED, ERROR_NATIVE) \
    X(ERROR_LAYER_NOT_PRESENT, ERROR_NATIVE) X(ERROR_EXTENSION_NOT_PRESENT, ERROR_NATIVE) \
    X(ERROR_FEATURE_NOT_PRESENT, ERROR_NATIVE) X(ERROR_INCOMPATIBLE_DRIVER, ERROR_NATIVE) \
    X(ERROR_INVALID_EXTERNAL_HANDLE, ERROR_NATIVE) X(ERROR_INVALID_SHADER_NV, ERROR_NATIVE)

#define HCQI_VK_RESULT(native, result) { VK_##native, "VK_" #native, HCQ_##result },
static const struct { int native; const char *text; hcq_result result; } hcqi_vk_results[] = {
    HCQI_VK_RESULTS(HCQI_VK_RESULT)
    { 0, "an unknown VkResult", HCQ_ERROR_NATIVE }
};

static size_t hcqi_vk_result_row(VkResult r) {
    size_t i = 0;
    while (i + 1 < HCQI_VK_COUNT(hcqi_vk_results) && hcqi_vk_results[i].native != (int)r) { i++; }
    return i;
}

static const char *hcqi_vk_text(VkResult r) { return hcqi_vk_results[hcqi_vk_result_row(r)].text; }

static hcq_result hcqi_vk_result(VkResult r) {
    return hcqi_vk_results[hcqi_vk_result_row(r)].result;
}

/* What a call's result is for hcq; a loss is reported by the next flush or wait. Without
   a line in the log, for calls under a lock of ours: a logger may come back. */
static hcq_result hcqi_vk_quiet(hcqi_vk_device *d, VkResult r) {
    if (r == VK_ERROR_DEVICE_LOST) { (void)hcqi_atomic_cas32(&d->lost, 0, 1); }
    return hcqi_vk_result(r);
}

/* Where a semaphore is. Some drivers put those of a lost device to their highest (NVIDIA's on
   Windows do: KhronosGroup/Vulkan-ValidationLayers#4566), which is no end of any work. */
static VkResult hcqi_vk_count(hcqi_vk_device *d, VkSemaphore semaphore, uint64_t *value) {
    VkResult r = d->api.GetSemaphoreCounterValue(d->handle, semaphore, value);
    if (r == VK_SUCCESS && *value == UINT64_MAX) { r = VK_ERROR_DEVICE_LOST; }
    if (r == VK_ERROR_DEVICE_LOST) { (void)hcqi_atomic_cas32(&d->lost, 0, 1); }
    return r;
}

/* Was the device lost, in whatever call? hcq knows when this returns, from whichever thread. */
static int hcqi_vk_lost(hcqi_vk_device *d, const char *call) {
    uint32_t lost = hcqi_atomic_load32(&d->lost);
    if (lost != 1) { return lost != 0; }
    hcq_backend_lost(d->device, HCQ_ERROR_LOST, call, VK_ERROR_DEVICE_LOST);
    hcqi_atomic_store32(&d->lost, 2);
    return 1;
}

static hcq_result hcqi_vk_check(hcqi_vk_device *d, VkResult r, const char *call) {
    hcq_result result = hcqi_vk_quiet(d, r);
    if (result == HCQ_OK) { return HCQ_OK; }
    return hcqi_deny(d->device, result, "%s: %s", call, hcqi_vk_text(r));
}

/* Calls a function of the device's. */
#define HCQI_VK_TRY(d, name, args) hcqi_vk_check(d, (d)->api.name args, "vk" #name)

/* Destroys what may be there; where it is not, neither may the function. */
#define HCQI_VK_DESTROY(d, name, object)                                           \
    do {                                                                           \
        if ((object) != VK_NULL_HANDLE) {                                          \
            (d)->api.Destroy##name((d)->handle, object, (d)->allocator);           \
        }                                                                          \
    } while (0)

/* The lock of the queues, and an engine's for this one, around each use of it on the way of
   every submission: leaving it is a plain store, so those who wait look again after a while
   instead of being woken up. */
static void hcqi_vk_enter(hcqi_vk_device *d, VkQueue queue) {
    for (uint32_t turn = 0; !hcqi_atomic_cas32(&d->lock, 0, 1); turn++) {
        if (turn < 64) {
            hcqi_atomic_pause();
        } else {
            (void)hcq_sys_wait(&d->lock, 1, 50000);
        }
    }
    if (d->lock_fn != NULL) { d->lock_fn(d->lock_user, queue, 1); }
}

static void hcqi_vk_leave(hcqi_vk_device *d, VkQueue queue) {
    if (d->lock_fn != NULL) { d->lock_fn(d->lock_user, queue, 0); }
    hcqi_atomic_store32(&d->lock, 0);
}

/* The number behind a handle that is a pointer on some systems. */
#define HCQI_VK_ID(handle) ((uint64_t)(handle))

static void hcqi_vk_name(hcqi_vk_device *d, VkObjectType type, uint64_t object,
                         const char *what, const char *label) {
    char text[96];
    if (!d->driver->has_names || d->api.SetDebugUtilsObjectNameEXT == NULL) { return; }
    snprintf(text, sizeof text, "hcq %s%s%.60s", what, label[0] ? " " : "", label);
    HCQI_VK_STRUCT(DebugUtilsObjectNameInfoEXT, info, DEBUG_UTILS_OBJECT_NAME_INFO_EXT);
    info.objectType = type;
    info.objectHandle = object;
    info.pObjectName = text;
    d->api.SetDebugUtilsObjectNameEXT(d->handle, &info);
}

/* ========================================================================== */
/* ---- memory -------------------------------------------------------------- */
/* Ranges and lists are under the core's lock; blocks are made and destroyed without it. */

static uint64_t hcqi_vk_address(const hcqi_vk_range *r) { return r->block->address + r->offset; }

/* The first range in use above `address`. */
static uint32_t hcqi_vk_range_at(const hcqi_vk_device *d, uint64_t address) {
    uint32_t low = 0, high = d->range_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (hcqi_vk_address(d->ranges[mid]) <= address) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* The allocation that `size` bytes at `address` lie in. Imported ones may overlap. */
static hcqi_vk_range *hcqi_vk_owner(const hcqi_vk_device *d, uint64_t address, uint64_t size) {
    hcqi_vk_range *found = NULL;
    hcq_backend_lock(1);
    for (uint32_t i = hcqi_vk_range_at(d, address); found == NULL && i > 0; i--) {
        hcqi_vk_range *r = d->ranges[i - 1];
        uint64_t offset = address - hcqi_vk_address(r);
        if (offset < r->asked && size <= r->asked - offset) { found = r; }
        if (d->imported_blocks == 0) { break; }
    }
    hcq_backend_lock(0);
    return found;
}

static void hcqi_vk_range_open(hcqi_vk_range *r) {
    r->open_prev = NULL;
    r->open_next = r->block->open;
    if (r->open_next != NULL) { r->open_next->open_prev = r; }
    r->block->open = r;
}

static void hcqi_vk_range_close(hcqi_vk_range *r) {
    if (r->open_next != NULL) { r->open_next->open_prev = r->open_prev; }
    if (r->open_prev != NULL) {
        r->open_prev->open_next = r->open_next;
    } else {
        r->block->open = r->open_next;
    }
}

static hcq_result hcqi_vk_range_list(hcqi_vk_device *d, hcqi_vk_range *r) {
    if (!HCQI_GROW(&d->hooks, d->ranges, d->range_capacity, d->range_count + 1u)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    uint32_t at = hcqi_vk_range_at(d, hcqi_vk_address(r));
    memmove(&d->ranges[at + 1], &d->ranges[at], (d->range_count - at) * sizeof *d->ranges);
    d->ranges[at] = r;
    d->range_count++;
    return HCQ_OK;
}

static void hcqi_vk_range_unlist(hcqi_vk_device *d, const hcqi_vk_range *r) {
    uint32_t at = hcqi_vk_range_at(d, hcqi_vk_address(r));
    while (at > 0 && d->ranges[at - 1] != r) { at--; }
    if (at == 0) { return; }
    d->range_count--;
    memmove(&d->ranges[at - 1], &d->ranges[at], (d->range_count - (at - 1)) * sizeof *d->ranges);
}

static hcq_result hcqi_vk_block_list(hcqi_vk_device *d, hcqi_vk_block *b) {
    if (!HCQI_GROW(&d->hooks, d->blocks, d->block_capacity, d->block_count + 1u)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    d->blocks[d->block_count++] = b;
    b->born = d->births + 1;
    hcqi_atomic_store64(&d->births, b->born);
    hcqi_atomic_store64(&d->block_bytes, d->block_bytes + b->size);
    d->heap_used[d->memory.memoryTypes[b->type].heapIndex] += b->imported ? 0 : b->size;
    d->imported_blocks += b->imported;
    return HCQ_OK;
}

static void hcqi_vk_block_unlist(hcqi_vk_device *d, hcqi_vk_block *b) {
    uint32_t at = 0;
    while (d->blocks[at] != b) { at++; }
    d->blocks[at] = d->blocks[--d->block_count];
    hcqi_atomic_store64(&d->deaths, d->deaths + 1);
    hcqi_atomic_store64(&d->block_bytes, d->block_bytes - b->size);
    d->heap_used[d->memory.memoryTypes[b->type].heapIndex] -= b->imported ? 0 : b->size;
    d->imported_blocks -= b->imported;
    if (b->imported) { hcqi_vk_range_unlist(d, b->ranges); }
}

static void hcqi_vk_block_destroy(hcqi_vk_device *d, hcqi_vk_block *b) {
    while (b->ranges != NULL) {
        hcqi_vk_range *next = b->ranges->next;
        hcqi_delete(&d->hooks, b->ranges, sizeof *b->ranges);
        b->ranges = next;
    }
    if (!b->lent) { HCQI_VK_DESTROY(d, Buffer, b->buffer); }
    if (b->memory != VK_NULL_HANDLE) { d->api.FreeMemory(d->handle, b->memory, d->allocator); }
    hcqi_delete(&d->hooks, b, sizeof *b);
}

static void hcqi_vk_blocks_destroy(hcqi_vk_device *d, hcqi_vk_block *dead) {
    for (hcqi_vk_block *next; dead != NULL; dead = next) {
        next = dead->next_import;
        hcqi_vk_block_destroy(d, dead);
    }
}

static hcq_result hcqi_vk_buffer_create(hcqi_vk_device *d, hcqi_vk_block *b, uint64_t size) {
    uint32_t families[HCQI_VK_ALL_FAMILIES];
    HCQI_VK_STRUCT(ExternalMemoryBufferCreateInfo, external, EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
    HCQI_VK_STRUCT(BufferCreateInfo, info, BUFFER_CREATE_INFO);
    uint32_t count = d->lent ? d->family_total : d->family_count; /* an engine uses others, too */
    for (uint32_t i = 0; i < count; i++) { families[i] = d->lent ? i : d->families[i].index; }
    external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    if (b->imported) { info.pNext = &external; }
    info.size = size;
    info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_VERTEX_BUFFER_BIT |
                 VK_BUFFER_USAGE_INDEX_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    if (count > 1) { /* no ownership to be handed over, then */
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = count;
        info.pQueueFamilyIndices = families;
    }
    return HCQI_VK_TRY(d, CreateBuffer, (d->handle, &info, d->allocator, &b->buffer));
}

/* Why memory ran out, in numbers. */
static void hcqi_vk_explain_heap(hcqi_vk_device *d, uint64_t size, uint32_t type, VkResult r) {
    uint32_t heap = d->memory.memoryTypes[type].heapIndex;
    char budget[80] = "";
    HCQI_VK_STRUCT(PhysicalDeviceMemoryBudgetPropertiesEXT, left,
                   PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    HCQI_VK_STRUCT(PhysicalDeviceMemoryProperties2, all, PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    if (d->has_budget) {
        all.pNext = &left;
        d->driver->api.GetPhysicalDeviceMemoryProperties2(d->physical, &all);
        snprintf(budget, sizeof budget, ", budget %llu, in use by the process %llu",
                 (unsigned long long)left.heapBudget[heap],
                 (unsigned long long)left.heapUsage[heap]);
    }
    hcq_backend_lock(1);
    hcq_backend_log(d->device, HCQ_ERROR_OUT_OF_MEMORY,
                    "vkAllocateMemory of %llu bytes: %s; heap %u (%s) has %llu bytes, %llu of them "
                    "taken by this device in %u blocks%s; at most %u blocks",
                    (unsigned long long)size, hcqi_vk_text(r), heap,
                    d->memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
                        ? "device local" : "host",
                    (unsigned long long)d->memory.memoryHeaps[heap].size,
                    (unsigned long long)d->heap_used[heap], d->block_count, budget,
                    d->is.limits.maxMemoryAllocationCount);
    hcq_backend_lock(0);
}

/* The type that host memory can be imported as, of those its buffer takes; UINT32_MAX = none. */
static uint32_t hcqi_vk_import_type(hcqi_vk_device *d, const void *pointer, uint32_t takes) {
    VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    HCQI_VK_STRUCT(MemoryHostPointerPropertiesEXT, properties, MEMORY_HOST_POINTER_PROPERTIES_EXT);
    VkResult r = d->api.GetMemoryHostPointerPropertiesEXT(
        d->handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, pointer, &properties);
    for (uint32_t i = 0; r == VK_SUCCESS && i < d->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = d->memory.memoryTypes[i].propertyFlags;
        int fits = (properties.memoryTypeBits & takes) >> i & 1;
        if (fits && (flags & wanted) == wanted) { return i; }
    }
    return UINT32_MAX;
}

/* Memory for the block's buffer; `pointer`: memory of the host to be used. */
static hcq_result hcqi_vk_block_memory(hcqi_vk_device *d, hcqi_vk_block *b, void *pointer) {
    VkMemoryRequirements needs;
    HCQI_VK_STRUCT(ImportMemoryHostPointerInfoEXT, import, IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
    HCQI_VK_STRUCT(MemoryAllocateFlagsInfo, flags, MEMORY_ALLOCATE_FLAGS_INFO);
    HCQI_VK_STRUCT(MemoryAllocateInfo, info, MEMORY_ALLOCATE_INFO);
    d->api.GetBufferMemoryRequirements(d->handle, b->buffer, &needs);
    if (pointer != NULL) { b->type = hcqi_vk_import_type(d, pointer, needs.memoryTypeBits); }
    if (pointer != NULL ? b->type == UINT32_MAX || needs.size > b->size
                        : (needs.memoryTypeBits >> b->type & 1) == 0) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    import.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    import.pHostPointer = pointer;
    import.pNext = &flags;
    info.pNext = pointer != NULL ? (const void *)&import : (const void *)&flags;
    info.allocationSize = pointer != NULL ? b->size : needs.size;
    info.memoryTypeIndex = b->type;
    VkResult r = d->api.AllocateMemory(d->handle, &info, d->allocator, &b->memory);
    int needed = b->type == d->host_type || b->type == d->device_type; /* else there is other */
    if (r != VK_SUCCESS && pointer == NULL && needed) {
        hcqi_vk_explain_heap(d, info.allocationSize, b->type, r);
    }
    if (r != VK_SUCCESS) { return pointer != NULL ? HCQ_ERROR_UNSUPPORTED : hcqi_vk_result(r); }
    return HCQI_VK_TRY(d, BindBufferMemory, (d->handle, b->buffer, b->memory, 0));
}

static hcq_result hcqi_vk_block_open(hcqi_vk_device *d, hcqi_vk_block *b) {
    void *host = NULL;
    HCQI_VK_STRUCT(BufferDeviceAddressInfo, info, BUFFER_DEVICE_ADDRESS_INFO);
    info.buffer = b->buffer;
    b->address = d->api.GetBufferDeviceAddress(d->handle, &info);
    VkMemoryPropertyFlags flags = d->memory.memoryTypes[b->type].propertyFlags;
    if (!b->imported && (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0) {
        HCQI_PASS(HCQI_VK_TRY(d, MapMemory, (d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &host)));
        b->host = HCQI_CAST(uint8_t *, host);
    }
    hcqi_vk_name(d, VK_OBJECT_TYPE_BUFFER, HCQI_VK_ID(b->buffer), "block", "");
    return HCQ_OK;
}

/* A block that has its range, and nothing else. */
static hcqi_vk_block *hcqi_vk_block_empty(hcqi_vk_device *d, uint64_t size) {
    hcqi_vk_block *b = HCQI_CAST(hcqi_vk_block *, hcqi_new(&d->hooks, sizeof *b));
    if (b == NULL) { return NULL; }
    b->size = size;
    b->ranges = HCQI_CAST(hcqi_vk_range *, hcqi_new(&d->hooks, sizeof *b->ranges));
    if (b->ranges == NULL) {
        hcqi_delete(&d->hooks, b, sizeof *b);
        return NULL;
    }
    b->ranges->block = b;
    b->ranges->size = size;
    return b;
}

/* A block of `size` bytes, in one free range; or over memory of the host. */
static hcq_result hcqi_vk_block_new(hcqi_vk_device *d, uint64_t size, uint32_t type,
                                    void *pointer, hcqi_vk_block **out) {
    hcqi_vk_block *b = hcqi_vk_block_empty(d, size);
    if (b == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    b->type = type;
    b->imported = pointer != NULL;
    hcq_result r = hcqi_vk_buffer_create(d, b, size);
    if (r == HCQ_OK) { r = hcqi_vk_block_memory(d, b, pointer); }
    if (r == HCQ_OK) { r = hcqi_vk_block_open(d, b); }
    if (r != HCQ_OK) {
        hcqi_vk_block_destroy(d, b);
        return r;
    }
    if (!b->imported) { hcqi_vk_range_open(b->ranges); }
    *out = b;
    return HCQ_OK;
}

/* Takes the first `size` bytes of a free range for somebody who `asked` for a few
   less. */
static hcqi_vk_range *hcqi_vk_range_take(hcqi_vk_device *d, hcqi_vk_range *r, uint64_t size,
                                         uint64_t asked) {
    if (r->size > size) {
        hcqi_vk_range *rest = HCQI_CAST(hcqi_vk_range *, hcqi_new(&d->hooks, sizeof *rest));
        if (rest == NULL) { return NULL; }
        rest->block = r->block;
        rest->offset = r->offset + size;
        rest->size = r->size - size;
        rest->prev = r;
        rest->next = r->next;
        if (rest->next != NULL) { rest->next->prev = rest; }
        r->next = rest;
        r->size = size;
        hcqi_vk_range_open(rest);
    }
    if (hcqi_vk_range_list(d, r) != HCQ_OK) { return NULL; }
    hcqi_vk_range_close(r);
    r->asked = asked;
    r->zeroed = 0;
    r->block->used += size;
    return r;
}

/* `a` swallows the free range behind it. */
static void hcqi_vk_range_join(hcqi_vk_device *d, hcqi_vk_range *a) {
    hcqi_vk_range *b = a->next;
    hcqi_vk_range_close(b);
    a->size += b->size;
    a->next = b->next;
    if (a->next != NULL) { a->next->prev = a; }
    hcqi_delete(&d->hooks, b, sizeof *b);
}

/* The latest free one that fits in the blocks of this type. */
static hcqi_vk_range *hcqi_vk_range_find(const hcqi_vk_device *d, uint64_t size, uint32_t type) {
    for (uint32_t i = 0; i < d->block_count; i++) {
        hcqi_vk_block *b = d->blocks[i];
        if (b->imported || b->type != type || b->size - b->used < size) { continue; }
        for (hcqi_vk_range *r = b->open; r != NULL; r = r->open_next) {
            if (r->size >= size) { return r; }
        }
    }
    return NULL;
}

/* A new block for an allocation; large ones get their own. Small blocks while
   little is used, and where a large one is not to be had. */
static hcq_result hcqi_vk_block_for(hcqi_vk_device *d, uint64_t size, uint32_t type,
                                    hcqi_vk_block **out) {
    uint64_t most = d->max_allocation < d->max_buffer ? d->max_allocation : d->max_buffer;
    uint64_t share = d->memory.memoryHeaps[d->memory.memoryTypes[type].heapIndex].size / 8;
    uint64_t wanted = HCQI_VK_BLOCK_MIN, has = hcqi_atomic_load64(&d->block_bytes);
    while (wanted < HCQI_VK_BLOCK_MAX && wanted < has) { wanted *= 2; }
    if (wanted > share) { wanted = share; }
    if (wanted > most) { wanted = most; }
    wanted &= ~(uint64_t)(HCQI_VK_ALIGN - 1);
    if (size > most) {
        return hcqi_deny(d->device, HCQ_ERROR_OUT_OF_MEMORY,
                         "alloc of %llu bytes: the device allows %llu at once (%s)",
                         (unsigned long long)size, (unsigned long long)most,
                         most == d->max_buffer ? "maxBufferSize" : "maxMemoryAllocationSize");
    }
    if (size > wanted / 2) { wanted = size; }
    hcq_result r = hcqi_vk_block_new(d, wanted, type, NULL, out);
    if (r == HCQ_ERROR_OUT_OF_MEMORY && wanted > size) {
        r = hcqi_vk_block_new(d, size, type, NULL, out);
    }
    return r;
}

static hcq_result hcqi_vk_zero(hcqi_vk_device *d, hcqi_vk_range *range);

/* Blocks that are all free join those to be destroyed, but for one of each type. */
static void hcqi_vk_range_free(hcqi_vk_device *d, hcqi_vk_range *r, hcqi_vk_block **dead) {
    hcqi_vk_block *b = r->block;
    if (!b->imported) {
        hcqi_vk_range_unlist(d, r);
        r->asked = 0;
        hcqi_vk_range_open(r);
        b->used -= r->size;
        if (r->next != NULL && r->next->asked == 0) { hcqi_vk_range_join(d, r); }
        if (r->prev != NULL && r->prev->asked == 0) { hcqi_vk_range_join(d, r->prev); }
    }
    int spare = 0;
    for (uint32_t i = 0; i < d->block_count; i++) {
        const hcqi_vk_block *o = d->blocks[i];
        spare |= o != b && o->type == b->type && !o->imported && o->used == 0;
    }
    int large = b->size > HCQI_VK_BLOCK_MAX;
    if (!b->imported && (b->used != 0 || !(spare || large))) { return; }
    hcqi_vk_block_unlist(d, b);
    b->next_import = *dead;
    *dead = b;
}

/* Ranges whose clearing is over by now. */
static void hcqi_vk_late_free(hcqi_vk_device *d, hcqi_vk_block **dead) {
    hcqi_vk_range **link = &d->late;
    uint64_t done = 0;
    if (d->late == NULL) { return; }
    (void)hcqi_vk_count(d, d->now_semaphore, &done);
    while (*link != NULL) {
        hcqi_vk_range *r = *link;
        if (r->zeroed > done) {
            link = &r->late;
        } else {
            *link = r->late;
            hcqi_vk_range_free(d, r, dead);
        }
    }
}

static void hcqi_vk_dealloc(void *self, hcq_memory *memory) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_range *r = HCQI_CAST(hcqi_vk_range *, memory->native);
    hcqi_vk_block *dead = NULL;
    hcq_backend_lock(1);
    if (r->zeroed == 0) {
        hcqi_vk_range_free(d, r, &dead);
    } else {
        r->late = d->late;
        d->late = r;
    }
    hcqi_vk_late_free(d, &dead);
    hcq_backend_lock(0);
    hcqi_vk_blocks_destroy(d, dead);
}

/* A range for an allocation, of a block that there is or of a new one. Of what the host
   shall write on the device there may be little: then from the host's memory. */
static hcq_result hcqi_vk_range_get(hcqi_vk_device *d, uint64_t size, uint64_t asked,
                                    uint32_t flags, hcqi_vk_range **range) {
    uint32_t type = flags & HCQ_HOST_WRITES ? d->writes_type
                    : flags & HCQ_HOST_VISIBLE ? d->host_type : d->device_type;
    uint32_t heap = d->memory.memoryTypes[type].heapIndex;
    hcqi_vk_block *b, *dead = NULL;
    hcq_backend_lock(1);
    hcqi_vk_late_free(d, &dead);
    hcqi_vk_range *found = hcqi_vk_range_find(d, size, type);
    *range = found == NULL ? NULL : hcqi_vk_range_take(d, found, size, asked);
    int room = d->heap_used[heap] + size <= d->memory.memoryHeaps[heap].size;
    hcq_backend_lock(0);
    hcqi_vk_blocks_destroy(d, dead);
    if (found == NULL) {
        int other = (flags & HCQ_HOST_WRITES) != 0 && type != d->host_type;
        hcq_result r = other && !room ? HCQ_ERROR_OUT_OF_MEMORY
                                      : hcqi_vk_block_for(d, size, type, &b);
        if (r != HCQ_OK && other) {
            return hcqi_vk_range_get(d, size, asked, HCQ_HOST_VISIBLE, range);
        }
        if (r != HCQ_OK) { return r; }
        hcq_backend_lock(1);
        int listed = hcqi_vk_block_list(d, b) == HCQ_OK;
        if (listed) { *range = hcqi_vk_range_take(d, b->ranges, size, asked); }
        hcq_backend_lock(0);
        if (!listed) { hcqi_vk_block_destroy(d, b); }
    }
    return *range == NULL ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_OK;
}

static hcq_result hcqi_vk_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_range *range;
    uint64_t rounded = (size + HCQI_VK_ALIGN - 1) & ~(uint64_t)(HCQI_VK_ALIGN - 1);
    if (rounded < size) { return HCQ_ERROR_OUT_OF_MEMORY; }
    HCQI_PASS(hcqi_vk_range_get(d, rounded, size, flags, &range));
    memory->address = hcqi_vk_address(range);
    memory->native = range;
    memory->host = NULL;
    if (range->block->host != NULL && (flags & HCQ_HOST_VISIBLE || d->device_visible)) {
        memory->host = range->block->host + range->offset;
    }
    if (memory->host != NULL || !(flags & HCQ_ZEROED)) { return HCQ_OK; }
    hcq_result r = hcqi_vk_zero(d, range);
    if (r != HCQ_OK) { hcqi_vk_dealloc(d, memory); }
    return r;
}

/* Enters an imported block, which goes if there is no room. */
static hcq_result hcqi_vk_import_list(hcqi_vk_device *d, hcqi_vk_block *b) {
    hcq_backend_lock(1);
    hcq_result r = hcqi_vk_range_list(d, b->ranges);
    if (r == HCQ_OK && hcqi_vk_block_list(d, b) != HCQ_OK) {
        r = HCQ_ERROR_OUT_OF_MEMORY;
        hcqi_vk_range_unlist(d, b->ranges);
    }
    hcq_backend_lock(0);
    if (r != HCQ_OK) { hcqi_vk_block_destroy(d, b); }
    return r;
}

/* Whole pages of the host's; what lies beside the memory on them is not touched. */
static hcq_result hcqi_vk_import_pages(hcqi_vk_device *d, void *ptr, uint64_t size,
                                       hcqi_vk_block **out) {
    uintptr_t pages = (uintptr_t)ptr & ~(uintptr_t)(d->import_align - 1);
    uint64_t before = (uint64_t)((uintptr_t)ptr - pages);
    uint64_t whole = (before + size + d->import_align - 1) & ~(d->import_align - 1);
    if (!d->has_import) {
        return hcqi_deny(d->device, HCQ_ERROR_UNSUPPORTED,
                         "import: the device has no VK_EXT_external_memory_host");
    }
    void *first = HCQI_CAST(uint8_t *, ptr) - before;
    hcq_result r = whole > d->max_buffer ? HCQ_ERROR_UNSUPPORTED : HCQ_OK;
    if (r == HCQ_OK) { r = hcqi_vk_block_new(d, whole, UINT32_MAX, first, out); }
    if (r == HCQ_ERROR_UNSUPPORTED) {
        hcq_backend_log(d->device, r, "import of %llu bytes: the driver takes none of this memory",
                        (unsigned long long)size);
    }
    if (r != HCQ_OK) { return r; }
    hcqi_vk_block *b = *out;
    b->host = HCQI_CAST(uint8_t *, first);
    b->ranges->offset = before;
    b->ranges->asked = size;
    return hcqi_vk_import_list(d, b);
}

/* An engine's buffer that hcq_vulkan_buffer_import announced, or none. */
static VkBuffer hcqi_vk_arrived(const hcqi_vk_device *d, uint64_t address) {
    hcq_backend_lock(1);
    const hcqi_vk_arrival *a = d->arrivals;
    while (a != NULL && a->address != address) { a = a->next; }
    VkBuffer buffer = a != NULL ? a->buffer : VK_NULL_HANDLE;
    hcq_backend_lock(0);
    return buffer;
}

/* A block that is an engine's buffer. */
static hcq_result hcqi_vk_import_lent(hcqi_vk_device *d, VkBuffer buffer, uint64_t address,
                                      uint64_t size, hcqi_vk_block **out) {
    hcqi_vk_block *b = hcqi_vk_block_empty(d, size);
    if (b == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    b->lent = 1;
    b->imported = 1;
    b->buffer = buffer;
    b->address = address;
    b->ranges->asked = size;
    *out = b;
    return hcqi_vk_import_list(d, b);
}

static hcq_result hcqi_vk_import(void *self, void *ptr, uint64_t size, hcq_memory *memory) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    uint64_t address = (uint64_t)(uintptr_t)ptr; /* of a lent one */
    VkBuffer lent = hcqi_vk_arrived(d, address);
    hcqi_vk_block *b;
    HCQI_PASS(lent != VK_NULL_HANDLE ? hcqi_vk_import_lent(d, lent, address, size, &b)
                                     : hcqi_vk_import_pages(d, ptr, size, &b));
    memory->address = hcqi_vk_address(b->ranges);
    memory->host = b->lent ? NULL : ptr;
    memory->native = b->ranges;
    return HCQ_OK;
}

/* Where the import of another device's memory is linked, or will be. */
static hcqi_vk_block **hcqi_vk_import_find(hcqi_vk_device *d, const hcq_memory *memory) {
    uintptr_t key = (uintptr_t)memory->host;
    hcqi_vk_block **link = &d->imports[(key >> 6 ^ key >> 14) % HCQI_VK_BUCKETS];
    for (; *link != NULL; link = &(*link)->next_import) {
        const hcqi_vk_range *r = (*link)->ranges;
        if ((*link)->host + r->offset == memory->host && r->asked == memory->size) { break; }
    }
    return link;
}

/* Memory of other devices is seen by importing it where it has a host pointer. */
static hcq_result hcqi_vk_map(void *self, const struct hcq_backend *owner_backend,
                              void *owner_self, const hcq_memory *memory, uint64_t *address) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    int visible = memory != NULL ? memory->host != NULL : strcmp(owner_backend->name, "CPU") == 0;
    if (memory == NULL && owner_backend == hcqi_vk_backend()) { /* all of it? */
        visible = HCQI_CAST(const hcqi_vk_device *, owner_self)->device_visible;
    }
    if (!d->has_import || !visible) { return HCQ_ERROR_UNSUPPORTED; }
    if (memory == NULL) { return HCQ_OK; }
    hcqi_vk_block **link = hcqi_vk_import_find(d, memory), *b = *link;
    if (b == NULL) {
        HCQI_PASS(hcqi_vk_import_pages(d, memory->host, memory->size, &b));
        *link = b;
    }
    b->mapped++;
    *address = hcqi_vk_address(b->ranges);
    return HCQ_OK;
}

static void hcqi_vk_unmap(void *self, const struct hcq_backend *owner_backend, void *owner_self,
                          const hcq_memory *memory) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_block **link = hcqi_vk_import_find(d, memory), *b = *link;
    (void)owner_backend;
    (void)owner_self;
    if (b == NULL || --b->mapped != 0) { return; }
    *link = b->next_import;
    hcqi_vk_block_unlist(d, b);
    hcqi_vk_block_destroy(d, b);
}

/* The host pointer behind a device address, or NULL. */
static uint8_t *hcqi_vk_host(const hcqi_vk_device *d, uint64_t address, uint64_t size) {
    const hcqi_vk_range *r = hcqi_vk_owner(d, address, size);
    if (r == NULL || r->block->host == NULL) { return NULL; }
    return r->block->host + (address - r->block->address);
}

/* ========================================================================== */
/* ---- programs ------------------------------------------------------------ */

static int hcqi_vk_is_buffer(uint32_t kind) {
    return kind == HCQ_ARG_IN || kind == HCQ_ARG_OUT || kind == HCQ_ARG_INOUT;
}

/* Places the arguments in the shader's block: all of them behind a pointer, as exec's
   struct has them; else the values, one behind the other. A base is behind what is pushed;
   what ends the push constants elsewhere is a value. */
static void hcqi_vk_fields_place(hcqi_vk_program *p) {
    int pointer = p->shader.args == HCQI_VK_ARGS_POINTER;
    uint32_t end = 0;
    p->field_count = 0;
    for (uint32_t i = 0; i < p->info.arg_count; i++) {
        hcqi_vk_field *f = &p->fields[p->field_count];
        f->arg = i;
        f->buffer = hcqi_vk_is_buffer(p->args[i]);
        f->raw = p->args[i] >> 24 != 0;
        f->size = p->info.sizes[i];
        f->offset = p->info.offsets[i];
        if (!pointer && f->buffer) { continue; }
        uint32_t align = f->raw ? p->args[i] >> 24 : f->size;
        if (!pointer) { f->offset = (end + align - 1) & ~(align - 1); }
        end = f->offset + f->size;
        p->field_count++;
    }
    p->field_bytes = end;
    uint32_t pushed = pointer ? 8 : p->shader.uniform != UINT32_MAX ? 0 : end;
    p->base_at = (pushed + HCQI_VK_BASE_ALIGN - 1) & ~(uint32_t)(HCQI_VK_BASE_ALIGN - 1);
    if (p->shader.base != p->base_at) { p->shader.base = UINT32_MAX; }
}

/* Copies the values, where they are not behind a pointer. */
static void hcqi_vk_values(const hcqi_vk_program *p, const uint8_t *block, uint8_t *to) {
    for (uint32_t i = 0; i < p->field_count; i++) {
        const hcqi_vk_field *f = &p->fields[i];
        memcpy(to + f->offset, block + p->info.offsets[f->arg], f->size);
    }
}

/* Does the module take what the list of arguments says? */
static int hcqi_vk_program_fits(const hcqi_vk_program *p, hcqi_vk_module *m) {
    const hcqi_vk_shader *s = &p->shader;
    uint32_t buffers = p->info.arg_count - p->field_count, values = p->field_bytes;
    uint32_t room = s->uniform != UINT32_MAX ? s->uniform_bytes
                    : s->base != UINT32_MAX  ? s->before_base
                                             : s->push_bytes;
    if (s->args == HCQI_VK_ARGS_NONE && p->info.arg_count != 0) {
        return hcqi_vk_say(m, "has %u arguments, the module takes none: neither a pointer as push "
                              "constant nor bindings in set 0", p->info.arg_count);
    }
    if (s->args == HCQI_VK_ARGS_BINDINGS && s->buffers != buffers) {
        return hcqi_vk_say(m, "has %u buffer arguments, the module %u storage buffers", buffers,
                           s->buffers);
    }
    if (s->args == HCQI_VK_ARGS_BINDINGS && values > room) {
        return hcqi_vk_say(m, "has %u bytes of values, the module's block %u", values, room);
    }
    return hcqi_vk_block_hold(m, p->fields, p->field_count);
}

/* Has the device what the module needs? */
static int hcqi_vk_program_able(const hcqi_vk_program *p, hcqi_vk_module *m) {
    static const char *const features[] = { HCQI_VK_ABILITIES(HCQI_VK_FEATURE) };
    const hcqi_vk_device *d = p->d;
    const hcqi_vk_shader *s = &p->shader;
    const VkPhysicalDeviceLimits *most = &d->is.limits;
    for (uint32_t i = 0; i < HCQI_VK_ABILITY_COUNT; i++) {
        if ((s->needs & ~d->needs) >> i & 1) {
            return hcqi_vk_say(m, "the module needs %s, which the device has not", features[i]);
        }
    }
    if (s->subgroups & ~d->subgroups) {
        return hcqi_vk_say(m, "the module uses subgroup operations %#x, the device has %#x",
                           s->subgroups, d->subgroups);
    }
    if (s->push_bytes > most->maxPushConstantsSize || s->push_bytes > HCQI_VK_MAX_PUSH) {
        return hcqi_vk_say(m, "%u bytes of push constants, the device has %u", s->push_bytes,
                           most->maxPushConstantsSize);
    }
    if (s->uniform_bytes > most->maxUniformBufferRange) {
        return hcqi_vk_say(m, "a uniform block of %u bytes, the device has %u", s->uniform_bytes,
                           most->maxUniformBufferRange);
    }
    if (s->buffers > HCQI_VK_BUFFERS || s->buffers > most->maxPerStageDescriptorStorageBuffers) {
        return hcqi_vk_say(m, "%u storage buffers, at most %d and %u", s->buffers, HCQI_VK_BUFFERS,
                           most->maxPerStageDescriptorStorageBuffers);
    }
    return 1;
}

static hcq_result hcqi_vk_set_layout(hcqi_vk_program *p) {
    hcqi_vk_device *d = p->d;
    hcqi_vk_kernel *k = p->kernel;
    VkDescriptorSetLayoutBinding bindings[HCQI_VK_BUFFERS + 1];
    VkDescriptorBindingFlags late[HCQI_VK_BUFFERS + 1];
    memset(bindings, 0, sizeof bindings);
    for (uint32_t i = 0; i < k->bindings; i++) {
        bindings[i].binding = i;
        bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        bindings[i].descriptorCount = 1;
        bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
        late[i] = VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT;
        if (i != p->shader.uniform) { continue; }
        bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
        late[i] = 0;                   /* it stays where it is */
    }
    HCQI_VK_STRUCT(DescriptorSetLayoutBindingFlagsCreateInfo, flags,
                   DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO);
    HCQI_VK_STRUCT(DescriptorSetLayoutCreateInfo, info, DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    flags.bindingCount = k->bindings;
    flags.pBindingFlags = late;
    info.bindingCount = k->bindings;
    info.pBindings = bindings;
    if (d->has_late_binding) {
        info.pNext = &flags;
        info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT;
    }
    return HCQI_VK_TRY(d, CreateDescriptorSetLayout, (d->handle, &info, d->allocator, &k->sets));
}

static hcq_result hcqi_vk_layout(hcqi_vk_program *p) {
    hcqi_vk_device *d = p->d;
    hcqi_vk_kernel *k = p->kernel;
    VkPushConstantRange range;
    range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    range.offset = 0;
    range.size = (p->shader.push_bytes + 3u) & ~3u;
    k->bindings = p->shader.buffers + (p->shader.uniform != UINT32_MAX);
    if (k->bindings != 0) { HCQI_PASS(hcqi_vk_set_layout(p)); }
    HCQI_VK_STRUCT(PipelineLayoutCreateInfo, info, PIPELINE_LAYOUT_CREATE_INFO);
    info.setLayoutCount = k->bindings != 0;
    info.pSetLayouts = &k->sets;
    info.pushConstantRangeCount = range.size != 0;
    info.pPushConstantRanges = &range;
    return HCQI_VK_TRY(d, CreatePipelineLayout, (d->handle, &info, d->allocator, &k->layout));
}

/* The first dimension whose size is given by the same constant as that of `i`. */
static uint32_t hcqi_vk_twin(const hcqi_vk_shader *s, uint32_t i) {
    uint32_t k = 0;
    while (s->spec_id[k] != s->spec_id[i]) { k++; }
    return k;
}

static hcq_result hcqi_vk_pipeline_create(hcqi_vk_program *p, hcqi_vk_pipeline *made) {
    hcqi_vk_device *d = p->d;
    VkSpecializationMapEntry entries[3];
    VkSpecializationInfo special;
    memset(&special, 0, sizeof special);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t id = p->shader.spec_id[i];
        if (id == UINT32_MAX || hcqi_vk_twin(&p->shader, i) != i) { continue; }
        VkSpecializationMapEntry *e = &entries[special.mapEntryCount++];
        e->constantID = id;
        e->offset = 4 * i;
        e->size = 4;
    }
    special.pMapEntries = entries;
    special.dataSize = sizeof made->block;
    special.pData = made->block;
    HCQI_VK_STRUCT(ComputePipelineCreateInfo, info, COMPUTE_PIPELINE_CREATE_INFO);
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = p->kernel->module;
    info.stage.pName = p->kernel->entry != NULL ? p->kernel->entry : "main";
    info.stage.pSpecializationInfo = special.mapEntryCount != 0 ? &special : NULL;
    info.layout = p->kernel->layout;
    if (p->kernel->statistics) { info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR; }
    HCQI_PASS(HCQI_VK_TRY(d, CreateComputePipelines,
                          (d->handle, d->cache, 1, &info, d->allocator, &made->handle)));
    (void)hcqi_atomic_add64(&d->pipelines, 1);
    hcqi_vk_name(d, VK_OBJECT_TYPE_PIPELINE, HCQI_VK_ID(made->handle), "program", p->info.label);
    return HCQ_OK;
}

static void hcqi_vk_pipeline_destroy(hcqi_vk_device *d, hcqi_vk_pipeline *p) {
    HCQI_VK_DESTROY(d, Pipeline, p->handle);
    hcqi_delete(&d->hooks, p, sizeof *p);
}

/* The kernel's pipeline for these blocks; or `made`, which it then has, if there is none. */
static hcqi_vk_pipeline *hcqi_vk_pipeline_find(hcqi_vk_program *p, const uint32_t size[3],
                                               hcqi_vk_pipeline *made) {
    hcqi_word_lock(&p->d->kernel_lock);
    hcqi_vk_pipeline *found = p->kernel->pipelines;
    while (found != NULL && memcmp(found->block, size, sizeof found->block) != 0) {
        found = found->next;
    }
    if (found == NULL && made != NULL) {
        made->next = p->kernel->pipelines;
        p->kernel->pipelines = found = made;
    }
    hcqi_word_unlock(&p->d->kernel_lock);
    return found;
}

/* The pipeline for blocks of this size, made when first needed. */
static hcq_result hcqi_vk_pipeline_get(hcqi_vk_program *p, const uint32_t block[3],
                                       VkPipeline *handle) {
    uint32_t size[3];
    for (uint32_t i = 0; i < 3; i++) { /* fixed ones are all the same */
        size[i] = p->shader.spec_id[i] == UINT32_MAX ? p->shader.block[i] : block[i];
    }
    hcqi_vk_pipeline *found = hcqi_vk_pipeline_find(p, size, NULL), *made = NULL;
    hcq_result r = HCQ_OK;
    if (found == NULL) {
        made = HCQI_CAST(hcqi_vk_pipeline *, hcqi_new(&p->d->hooks, sizeof *made));
        if (made == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
        memcpy(made->block, size, sizeof size);
        r = hcqi_vk_pipeline_create(p, made);
        if (r == HCQ_OK) { found = hcqi_vk_pipeline_find(p, size, made); }
        if (found != made) { hcqi_vk_pipeline_destroy(p->d, made); } /* or there was one by then */
    }
    *handle = found == NULL ? VK_NULL_HANDLE : found->handle;
    return r;
}

static void hcqi_vk_kernel_put(hcqi_vk_device *d, hcqi_vk_kernel *k) {
    hcqi_vk_kernel **link = &d->kernels;
    hcqi_word_lock(&d->kernel_lock);
    int last = --k->refs == 0;
    while (last && *link != NULL && *link != k) { link = &(*link)->next; }
    if (last && *link != NULL) { *link = k->next; }
    hcqi_word_unlock(&d->kernel_lock);
    if (!last) { return; }
    while (k->pipelines != NULL) {
        hcqi_vk_pipeline *next = k->pipelines->next;
        hcqi_vk_pipeline_destroy(d, k->pipelines);
        k->pipelines = next;
    }
    HCQI_VK_DESTROY(d, PipelineLayout, k->layout);
    HCQI_VK_DESTROY(d, DescriptorSetLayout, k->sets);
    HCQI_VK_DESTROY(d, ShaderModule, k->module);
    hcqi_delete(&d->hooks, k, sizeof *k);
}

/* Finds the program's kernel, or makes it. */
static hcq_result hcqi_vk_kernel_get(hcqi_vk_program *p, const hcq_program_desc *desc) {
    hcqi_vk_device *d = p->d;
    const hcq_code *spirv = &desc->spirv;
    uint32_t statistics = d->has_statistics ? desc->flags & HCQ_PROGRAM_STATISTICS : 0;
    hcqi_word_lock(&d->kernel_lock);
    hcqi_vk_kernel *k = d->kernels;
    while (k != NULL && (k->code != spirv->data || k->entry != spirv->entry ||
                         k->statistics != statistics)) {
        k = k->next;
    }
    if (k != NULL) { k->refs++; }
    hcqi_word_unlock(&d->kernel_lock);
    p->kernel = k;
    if (k != NULL) { return HCQ_OK; }
    k = p->kernel = HCQI_CAST(hcqi_vk_kernel *, hcqi_new(&d->hooks, sizeof *k));
    if (k == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    k->refs = 1;
    k->code = spirv->data;
    k->statistics = statistics;
    k->entry = spirv->entry;
    HCQI_PASS(hcqi_vk_layout(p));
    HCQI_VK_STRUCT(ShaderModuleCreateInfo, module, SHADER_MODULE_CREATE_INFO);
    module.codeSize = spirv->size;
    module.pCode = HCQI_CAST(const uint32_t *, spirv->data); /* the core's copy is aligned */
    HCQI_PASS(HCQI_VK_TRY(d, CreateShaderModule,
                          (d->handle, &module, d->allocator, &k->module)));
    hcqi_vk_name(d, VK_OBJECT_TYPE_SHADER_MODULE, HCQI_VK_ID(k->module), "module", p->info.label);
    hcqi_word_lock(&d->kernel_lock);
    k->next = d->kernels;
    d->kernels = k;
    hcqi_word_unlock(&d->kernel_lock);
    return HCQ_OK;
}

static void hcqi_vk_program_destroy(void *self, void *code) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_program *p = HCQI_CAST(hcqi_vk_program *, code);
    if (p->kernel != NULL) { hcqi_vk_kernel_put(d, p->kernel); }
    hcqi_delete(&d->hooks, p, sizeof *p);
}

/* What can be found out without the driver. */
static hcq_result hcqi_vk_program_read(hcqi_vk_program *p, const hcq_code *code) {
    char text[200] = "has no .spirv";
    hcqi_vk_module m;
    hcq_result r = HCQ_ERROR_INVALID;
    const char *entry = code->entry != NULL ? code->entry : "main";
    uint32_t version = p->d->version >= VK_API_VERSION_1_3 ? 0x00010600 : 0x00010500;
    if (code->data == NULL || code->size == 0) {
        r = HCQ_ERROR_NO_KERNEL;
    } else if (strlen(entry) >= HCQI_VK_MAX_NAME) {
        snprintf(text, sizeof text, "the entry's name is long");
    } else if (hcqi_vk_shader_read(&m, code->data, code->size, entry, version, &p->shader, text,
                                   sizeof text)) {
        hcqi_vk_fields_place(p);
        if (hcqi_vk_program_fits(p, &m)) {
            r = hcqi_vk_program_able(p, &m) ? HCQ_OK : HCQ_ERROR_UNSUPPORTED;
        }
    }
    if (r != HCQ_OK) { hcq_backend_log(p->d->device, r, "program '%s': %s", p->info.label, text); }
    return r;
}

static hcq_result hcqi_vk_program_create(void *self, const hcq_program_desc *desc,
                                         const hcq_program_info *info, void **code) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    VkPipeline first;
    hcqi_vk_program *p = HCQI_CAST(hcqi_vk_program *, hcqi_new(&d->hooks, sizeof *p));
    if (p == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    p->d = d;
    p->info = *info;
    memcpy(p->args, desc->args, sizeof p->args);
    hcq_result r = hcqi_vk_program_read(p, &desc->spirv);
    if (r == HCQ_OK) { r = hcqi_vk_kernel_get(p, desc); }
    const uint32_t *ids = p->shader.spec_id;
    int fixed = (ids[0] & ids[1] & ids[2]) == UINT32_MAX;
    if (r == HCQ_OK && fixed) { /* its errors come early */
        r = hcqi_vk_pipeline_get(p, p->shader.block, &first);
    }
    if (r != HCQ_OK) {
        hcqi_vk_program_destroy(d, p);
        return r;
    }
    *code = p;
    return HCQ_OK;
}

static hcq_result hcqi_vk_exec_check(void *self, void *code, const uint32_t block[3]) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    const hcqi_vk_program *p = HCQI_CAST(const hcqi_vk_program *, code);
    const hcqi_vk_shader *s = &p->shader;
    const uint32_t *most = d->is.limits.maxComputeWorkGroupSize;
    uint64_t all = (uint64_t)block[0] * block[1];
    all = all > UINT32_MAX ? UINT64_MAX : all * block[2];
    for (uint32_t i = 0; i < 3; i++) {
        int fixed = s->spec_id[i] == UINT32_MAX;
        if (block[i] == (fixed ? s->block[i] : block[hcqi_vk_twin(s, i)])) { continue; }
        return hcqi_deny(d->device, HCQ_ERROR_INVALID, "program '%s': its blocks are %ux%ux%u "
                         "(specialized: equal sizes), fixed in the shader", p->info.label,
                         s->block[0], s->block[1], s->block[2]);
    }
    if (block[0] <= most[0] && block[1] <= most[1] && block[2] <= most[2] &&
        all <= d->is.limits.maxComputeWorkGroupInvocations) {
        return HCQ_OK;
    }
    return hcqi_deny(d->device, HCQ_ERROR_INVALID,
                     "program '%s': the device's blocks are up to %ux%ux%u, %u threads in all",
                     p->info.label, most[0], most[1], most[2],
                     d->is.limits.maxComputeWorkGroupInvocations);
}

/* Of the pipeline that was made last. */
static void hcqi_vk_statistics(void *self, void *code, char *text, size_t size) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_kernel *k = HCQI_CAST(const hcqi_vk_program *, code)->kernel;
    VkPipelineExecutableStatisticKHR list[16];
    uint32_t count = HCQI_VK_COUNT(list);
    size_t end = 0;
    HCQI_VK_STRUCT(PipelineExecutableInfoKHR, info, PIPELINE_EXECUTABLE_INFO_KHR);
    hcqi_word_lock(&d->kernel_lock);
    if (k->pipelines != NULL) { info.pipeline = k->pipelines->handle; }
    hcqi_word_unlock(&d->kernel_lock);
    memset(list, 0, sizeof list);
    for (uint32_t i = 0; i < count; i++) {
        list[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    }
    if (info.pipeline == VK_NULL_HANDLE || k->statistics == 0 ||
        d->api.GetPipelineExecutableStatisticsKHR(d->handle, &info, &count, list) < VK_SUCCESS) {
        return;
    }
    for (uint32_t i = 0; i < count && end < size; i++) {
        const VkPipelineExecutableStatisticValueKHR *value = &list[i].value;
        long long n = (long long)value->i64;
        switch (list[i].format) {
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: n = (long long)value->b32; break;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: n = (long long)value->f64; break;
        default: break;
        }
        int wrote = snprintf(text + end, size - end, "%s%.63s %lld", i == 0 ? "" : ", ",
                             list[i].name, n);
        end += wrote < 0 ? 0 : (size_t)wrote;
    }
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- recording ----------------------------------------------------------- */

/* One command buffer while it is recorded. */
typedef struct hcqi_vk_recorder {
    hcqi_vk_device *d;
    hcqi_vk_list *list;
    hcqi_vk_segment *segment;
    VkCommandBuffer commands;
    const hcqi_vk_program *program;    /* of the exec before, NULL: none */
    uint32_t block[3];
    uint32_t query_first;              /* queries of this run, in the list's pool */
    int unordered;                     /* commands since the last barrier */
    uint32_t recorded;
} hcqi_vk_recorder;

static hcq_result hcqi_vk_pool_create(hcqi_vk_device *d, uint32_t family, VkCommandPool *pool) {
    HCQI_VK_STRUCT(CommandPoolCreateInfo, info, COMMAND_POOL_CREATE_INFO);
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = family;
    return HCQI_VK_TRY(d, CreateCommandPool, (d->handle, &info, d->allocator, pool));
}

static hcq_result hcqi_vk_commands_new(hcqi_vk_device *d, VkCommandPool pool,
                                       VkCommandBuffer *commands) {
    HCQI_VK_STRUCT(CommandBufferAllocateInfo, info, COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    return hcqi_vk_quiet(d, d->api.AllocateCommandBuffers(d->handle, &info, commands));
}

/* What was written before is there for all that comes, the host too if it is among `to`. */
static void hcqi_vk_barrier(hcqi_vk_device *d, VkCommandBuffer commands,
                            VkPipelineStageFlags from, VkPipelineStageFlags to) {
    HCQI_VK_STRUCT(MemoryBarrier, barrier, MEMORY_BARRIER);
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    if (to & VK_PIPELINE_STAGE_HOST_BIT) { barrier.dstAccessMask |= VK_ACCESS_HOST_READ_BIT; }
    d->api.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Between two commands of ours. */
static void hcqi_vk_order(hcqi_vk_recorder *rec) {
    VkPipelineStageFlags stages = rec->list->family->stages;
    hcqi_vk_barrier(rec->d, rec->commands, stages, stages);
    rec->unordered = 0;
}

/* Against whatever there is, host and custom commands too. */
static void hcqi_vk_order_all(hcqi_vk_recorder *rec) {
    hcqi_vk_barrier(rec->d, rec->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                    VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT);
    rec->unordered = 0;
}

/* Where `size` bytes at a device address are. */
static hcq_result hcqi_vk_resolve(hcqi_vk_device *d, uint64_t address, uint64_t size,
                                  VkBuffer *buffer, VkDeviceSize *offset) {
    const hcqi_vk_range *r = hcqi_vk_owner(d, address, size);
    if (r == NULL) {
        return hcqi_deny(d->device, HCQ_ERROR_INVALID,
                         "%llu bytes at address %#llx: in no buffer of the device",
                         (unsigned long long)size, (unsigned long long)address);
    }
    *buffer = r->block->buffer;
    *offset = address - r->block->address;
    return HCQ_OK;
}

static uint64_t hcqi_vk_slot_address(const hcqi_vk_list *list, const hcqi_vk_command *c) {
    return list->memory.address + c->slot;
}

static uint8_t *hcqi_vk_slot(const hcqi_vk_list *list, const hcqi_vk_command *c) {
    return HCQI_CAST(uint8_t *, list->memory.host) + c->slot;
}

/* The same for a command. Addresses of a graph's inputs come with the first launch: until
   then they are HCQ_NOT_READY. */
static hcq_result hcqi_vk_record_at(const hcqi_vk_recorder *rec, uint64_t address, uint64_t size,
                                    VkBuffer *buffer, VkDeviceSize *offset) {
    if (!rec->list->encoded && hcqi_vk_owner(rec->d, address, size) == NULL) {
        return HCQ_NOT_READY;
    }
    return hcqi_vk_resolve(rec->d, address, size, buffer, offset);
}

static hcq_result hcqi_vk_record_copy(hcqi_vk_recorder *rec, uint64_t dst, uint64_t src,
                                      uint64_t size) {
    VkBuffer to, from;
    VkBufferCopy region;
    if (size == 0) { return HCQ_OK; }
    HCQI_PASS(hcqi_vk_record_at(rec, dst, size, &to, &region.dstOffset));
    HCQI_PASS(hcqi_vk_record_at(rec, src, size, &from, &region.srcOffset));
    region.size = size;
    rec->d->api.CmdCopyBuffer(rec->commands, from, to, 1, &region);
    return HCQ_OK;
}

/* vkCmdFillBuffer knows aligned 32-bit words. What it cannot do is copied from
   the pattern in the command's slot: ends of up to 3 bytes, or a first piece
   that then doubles itself. */
static hcq_result hcqi_vk_record_fill(hcqi_vk_recorder *rec, const hcq_packet *p,
                                      const hcqi_vk_command *c) {
    uint64_t dst = p->u.fill.dst, size = p->u.fill.size, slot = hcqi_vk_slot_address(rec->list, c);
    uint32_t word;
    VkBuffer buffer;
    VkDeviceSize offset;
    const uint8_t *pattern = hcqi_vk_slot(rec->list, c);
    uint64_t head = (4 - (dst & 3)) & 3, middle = size < head ? 0 : (size - head) & ~(uint64_t)3;
    if (memcmp(pattern, pattern + 4, 4) != 0 || middle == 0) {
        uint64_t done = size < HCQI_VK_PATTERN ? size : (uint64_t)HCQI_VK_PATTERN;
        hcq_result r = hcqi_vk_record_copy(rec, dst, slot, done);
        for (; r == HCQ_OK && done < size; done *= 2) {
            hcqi_vk_order(rec);
            r = hcqi_vk_record_copy(rec, dst + done, dst, size - done < done ? size - done : done);
        }
        return r;
    }
    hcq_result r = hcqi_vk_record_at(rec, dst, size, &buffer, &offset);
    if (r != HCQ_OK) { return r; }
    memcpy(&word, pattern + head, 4);
    rec->d->api.CmdFillBuffer(rec->commands, buffer, offset + head, middle, word);
    uint64_t tail = size - head - middle;
    if (head != 0) { r = hcqi_vk_record_copy(rec, dst, slot, head); }
    if (r == HCQ_OK && tail != 0) {
        r = hcqi_vk_record_copy(rec, dst + head + middle, slot + ((head + middle) & 7), tail);
    }
    return r;
}

/* The buffers of an exec as bindings, from its argument block. */
static hcq_result hcqi_vk_bindings_find(hcqi_vk_device *d, const hcqi_vk_list *list,
                                        const hcqi_vk_program *p, const uint8_t *block,
                                        VkDescriptorBufferInfo *infos) {
    uint64_t align = d->is.limits.minStorageBufferOffsetAlignment;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->info.arg_count; i++) {
        uint64_t address;
        if (!hcqi_vk_is_buffer(p->args[i])) { continue; }
        memcpy(&address, block + p->info.offsets[i], sizeof address);
        const hcqi_vk_range *at = hcqi_vk_owner(d, address, 1);
        if (at == NULL && !list->encoded) { return HCQ_NOT_READY; }
        uint64_t offset = at != NULL ? address - at->block->address : 1;
        if (at == NULL || offset % align != 0) {
            return hcqi_deny(d->device, HCQ_ERROR_INVALID, "exec of '%s': argument %u: its address "
                             "%#llx is no multiple of %llu, as a binding needs it", p->info.label,
                             i, (unsigned long long)address, (unsigned long long)align);
        }
        uint64_t range = at->asked - (offset - at->offset);
        uint64_t most = d->is.limits.maxStorageBufferRange & ~3u;
        infos[n].buffer = at->block->buffer;
        infos[n].offset = offset;
        infos[n++].range = range > most ? most : range;
    }
    return HCQ_OK;
}

/* Binds the descriptors of an exec while `commands` are recorded; where those are NULL only
   changes the ones of buffers, which may be changed late. */
static hcq_result hcqi_vk_describe(hcqi_vk_device *d, const hcqi_vk_list *list,
                                   const hcqi_vk_program *p, const uint8_t *block,
                                   const hcqi_vk_command *c, VkCommandBuffer commands) {
    const hcqi_vk_range *own = HCQI_CAST(const hcqi_vk_range *, list->memory.native);
    VkWriteDescriptorSet writes[HCQI_VK_BUFFERS + 1];
    VkDescriptorBufferInfo infos[HCQI_VK_BUFFERS + 1];
    uint32_t count = commands != VK_NULL_HANDLE ? p->kernel->bindings : p->shader.buffers;
    HCQI_PASS(hcqi_vk_bindings_find(d, list, p, block, infos));
    memset(writes, 0, sizeof writes);
    for (uint32_t i = 0; i < count; i++) {
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = c->set;
        writes[i].dstBinding = i;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &infos[i];
        if (i != p->shader.uniform) { continue; }
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
        infos[i].buffer = own->block->buffer;
        infos[i].offset = own->offset + c->uniform;
        infos[i].range = p->shader.uniform_bytes;
    }
    d->api.UpdateDescriptorSets(d->handle, count, writes, 0, NULL);
    if (commands != VK_NULL_HANDLE) {
        d->api.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                     p->kernel->layout, 0, 1, &c->set, 0, NULL);
    }
    return HCQ_OK;
}

/* The argument block of an exec, as the host sees it. */
static const uint8_t *hcqi_vk_args(const hcqi_vk_device *d, const hcq_packet *p,
                                   const hcqi_vk_program *program) {
    if (program->info.kernargs_size == 0) { return NULL; }
    return hcqi_vk_host(d, p->u.exec.args, program->info.kernargs_size);
}

static hcq_result hcqi_vk_record_bindings(hcqi_vk_recorder *rec, const hcqi_vk_program *p,
                                          const uint8_t *block, hcqi_vk_command *c) {
    if (block != NULL) { memcpy(rec->list->shadows + c->shadow, block, p->info.kernargs_size); }
    if (p->shader.uniform != UINT32_MAX) {
        hcqi_vk_values(p, block, HCQI_CAST(uint8_t *, rec->list->memory.host) + c->uniform);
    } else if (p->shader.push_bytes != 0) {
        uint8_t values[HCQI_VK_MAX_PUSH];
        memset(values, 0, sizeof values);
        hcqi_vk_values(p, block, values); /* which fit, program_create saw to that */
        rec->d->api.CmdPushConstants(rec->commands, p->kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT,
                                     0, (p->shader.push_bytes + 3u) & ~3u, values);
    }
    if (p->kernel->bindings == 0) { return HCQ_OK; }
    return hcqi_vk_describe(rec->d, rec->list, p, block, c, rec->commands);
}

static int hcqi_vk_grid_fits(const hcqi_vk_device *d, const uint32_t grid[3]) {
    const uint32_t *most = d->is.limits.maxComputeWorkGroupCount;
    return HCQ_GRID_IS_EMPTY(grid) ||
           (grid[0] <= most[0] && grid[1] <= most[1] && grid[2] <= most[2]);
}

/* For an indirect dispatch, whose numbers must be within the limits in any case. */
static void hcqi_vk_grid_write(const hcqi_vk_list *list, const hcqi_vk_command *c,
                               const uint32_t grid[3]) {
    static const uint32_t none[3] = { 0, 0, 0 };
    memcpy(hcqi_vk_slot(list, c), HCQ_GRID_IS_EMPTY(grid) ? none : grid, sizeof none);
}

/* Can a grid run that one dispatch cannot? */
static hcq_result hcqi_vk_parts_check(const hcqi_vk_program *p, const uint32_t grid[3]) {
    const hcqi_vk_device *d = p->d;
    const uint32_t *most = d->is.limits.maxComputeWorkGroupCount;
    uint64_t parts = 1;
    if (p->shader.base == UINT32_MAX) {
        return hcqi_deny(d->device, HCQ_ERROR_LIMIT, "exec of '%s': a grid of %ux%ux%u, the "
                         "device's are up to %ux%ux%u; in parts the shader must take its base, and "
                         "its push constants do not end with a uvec3 at byte %u", p->info.label,
                         grid[0], grid[1], grid[2], most[0], most[1], most[2], p->base_at);
    }
    for (uint32_t i = 0; i < 3 && parts <= HCQI_VK_PARTS; i++) {
        parts *= grid[i] / most[i] + (grid[i] % most[i] != 0);
    }
    if (parts <= HCQI_VK_PARTS) { return HCQ_OK; }
    return hcqi_deny(d->device, HCQ_ERROR_LIMIT, "exec of '%s': a grid of %ux%ux%u is more than "
                     "%d dispatches of this device", p->info.label, grid[0], grid[1], grid[2],
                     (int)HCQI_VK_PARTS);
}

/* Tells a shader that wants to know where in the grid the next dispatch begins. */
static void hcqi_vk_record_base(hcqi_vk_recorder *rec, const hcqi_vk_program *p,
                                const uint32_t base[3]) {
    if (p->shader.base == UINT32_MAX) { return; }
    rec->d->api.CmdPushConstants(rec->commands, p->kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT,
                                 p->shader.base, HCQI_VK_BASE_BYTES, base);
}

/* One dispatch, or as many as the device's limits make of the grid. */
static void hcqi_vk_record_grid(hcqi_vk_recorder *rec, const hcqi_vk_program *p,
                                const uint32_t grid[3]) {
    const uint32_t *most = rec->d->is.limits.maxComputeWorkGroupCount;
    uint32_t base[3] = {0, 0, 0}, size[3], axis = 0;
    while (axis < 3) {
        for (uint32_t i = 0; i < 3; i++) {
            size[i] = grid[i] - base[i] < most[i] ? grid[i] - base[i] : most[i];
        }
        hcqi_vk_record_base(rec, p, base);
        rec->d->api.CmdDispatch(rec->commands, size[0], size[1], size[2]);
        for (axis = 0; axis < 3; axis++) { /* like an odometer */
            base[axis] += size[axis];
            if (base[axis] < grid[axis]) { break; }
            base[axis] = 0;
        }
    }
}

/* Where an indirect exec's grid is, if the device can run whatever it may be. */
static hcq_result hcqi_vk_record_reads(const hcqi_vk_recorder *rec, const hcq_packet *packet,
                                       VkBuffer *buffer, VkDeviceSize *offset) {
    const uint32_t *most = rec->d->is.limits.maxComputeWorkGroupCount;
    const uint32_t x = packet->u.exec.grid[0], y = packet->u.exec.grid[1];
    const uint32_t z = packet->u.exec.grid[2] & ~HCQ_GRID_INDIRECT;
    uint64_t at = packet->u.exec.grid_at;
    if (x > most[0] || y > most[1] || z > most[2]) {
        return hcqi_deny(rec->d->device, HCQ_ERROR_LIMIT, "exec: grids of up to %ux%ux%u from a "
                         "buffer, the device's are up to %ux%ux%u", x, y, z, most[0], most[1],
                         most[2]);
    }
    return hcqi_vk_record_at(rec, at, 12, buffer, offset);
}

static hcq_result hcqi_vk_record_exec(hcqi_vk_recorder *rec, const hcq_packet *packet,
                                      hcqi_vk_command *c) {
    static const uint32_t begin[3] = {0, 0, 0};
    hcqi_vk_device *d = rec->d;
    hcqi_vk_program *p = HCQI_CAST(hcqi_vk_program *, packet->u.exec.code);
    const uint32_t *grid = packet->u.exec.grid, *block = packet->u.exec.block;
    const hcqi_vk_range *own = HCQI_CAST(const hcqi_vk_range *, rec->list->memory.native);
    int reads = packet->u.exec.grid_at != 0, whole = reads || hcqi_vk_grid_fits(d, grid);
    VkBuffer buffer = own->block->buffer; /* the grid's */
    VkDeviceSize offset = own->offset + c->slot;
    memcpy(c->grid, grid, sizeof c->grid);
    if (!whole) { c->indirect = 0; }
    if (HCQ_GRID_IS_EMPTY(grid) && !c->indirect) { return HCQ_OK; }
    if (!whole) { HCQI_PASS(hcqi_vk_parts_check(p, grid)); }
    if (reads) { HCQI_PASS(hcqi_vk_record_reads(rec, packet, &buffer, &offset)); }
    if (rec->program != p || memcmp(rec->block, block, sizeof rec->block) != 0) {
        VkPipeline pipeline;           /* not that of the exec before */
        HCQI_PASS(hcqi_vk_pipeline_get(p, block, &pipeline));
        rec->program = p;
        memcpy(rec->block, block, sizeof rec->block);
        d->api.CmdBindPipeline(rec->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    }
    if (p->shader.args == HCQI_VK_ARGS_POINTER) {
        d->api.CmdPushConstants(rec->commands, p->kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8,
                                &packet->u.exec.args);
    } else if (p->shader.args == HCQI_VK_ARGS_BINDINGS) {
        HCQI_PASS(hcqi_vk_record_bindings(rec, p, hcqi_vk_args(d, packet, p), c));
    }
    if (!c->indirect) {
        hcqi_vk_record_grid(rec, p, grid);
        return HCQ_OK;
    }
    if (!reads) { hcqi_vk_grid_write(rec->list, c, grid); }
    hcqi_vk_record_base(rec, p, begin);
    d->api.CmdDispatchIndirect(rec->commands, buffer, offset);
    return HCQ_OK;
}

/* A function of the user's, who may call hcq. Nothing that the recorder needs can go
   meanwhile: the version is in use, its pool and command buffer are the list's. */
static hcq_result hcqi_vk_record_custom(hcqi_vk_recorder *rec, const hcq_packet *p) {
    hcq_vulkan_encoder encoder;
    hcqi_vk_order_all(rec);
    encoder.commands = rec->commands;
    encoder.device = rec->d->handle;
    encoder.get_proc = rec->d->driver->api.GetDeviceProcAddr;
    encoder.self = rec->d;
    hcq_backend_callback(1);
    hcq_result r = p->u.custom.encode_fn(p->u.custom.type->user, &encoder, p->u.custom.payload);
    hcq_backend_callback(0);
    hcqi_vk_order_all(rec);
    rec->program = NULL;
    if ((int)r >= 0) { return HCQ_OK; }
    rec->list->refused = p;
    return HCQ_ERROR_HOST;
}

/* What the commands of a packet are made of besides grids and arguments: where that changes,
   its segment is recorded anew. */
static void hcqi_vk_key(const hcq_packet *p, uint64_t key[3]) {
    memset(key, 0, 3 * sizeof *key);
    switch ((int)p->kind) {
    case HCQ_COMMAND_EXEC:
        key[0] = (uint64_t)p->u.exec.block[0] << 32 | p->u.exec.block[1];
        key[1] = p->u.exec.block[2];
        key[2] = p->u.exec.grid_at;
        break;
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
        key[0] = p->u.copy.dst;
        key[1] = p->u.copy.src;
        key[2] = p->u.copy.size;
        break;
    case HCQ_COMMAND_FILL:
        key[0] = p->u.fill.dst;
        key[1] = p->u.fill.value;
        key[2] = p->u.fill.size;
        break;
    default: break;
    }
}

static hcq_result hcqi_vk_record_packet(hcqi_vk_recorder *rec, const hcq_packet *p,
                                        hcqi_vk_command *c) {
    hcq_result r = HCQ_OK;
    if (p->kind == HCQ_COMMAND_TIMESTAMP) { /* behind the command before, not the next */
        if (rec->d->stamp_bits != 0) { /* else the host's time, later */
            rec->d->api.CmdWriteTimestamp(rec->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                          rec->list->queries, rec->query_first + c->stamp -
                                                                  rec->segment->stamp_first);
        }
        return HCQ_OK;
    }
    if (rec->unordered && !(p->flags & HCQ_OVERLAP)) { hcqi_vk_order(rec); }
    hcqi_vk_key(p, c->key);
    c->born = hcqi_atomic_load64(&rec->d->births);
    rec->recorded++;
    switch ((int)p->kind) {
    case HCQ_COMMAND_EXEC: r = hcqi_vk_record_exec(rec, p, c); break;
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
        r = hcqi_vk_record_copy(rec, p->u.copy.dst, p->u.copy.src, p->u.copy.size);
        break;
    case HCQ_COMMAND_FILL: r = hcqi_vk_record_fill(rec, p, c); break;
    case HCQ_COMMAND_BARRIER: hcqi_vk_order_all(rec); return HCQ_OK;
    case HCQ_COMMAND_CUSTOM: return hcqi_vk_record_custom(rec, p);
    default: break;
    }
    rec->unordered = 1;
    return r;
}

static void hcqi_vk_label(hcqi_vk_recorder *rec, const char *label) {
    if (!rec->d->driver->has_names || rec->d->api.CmdBeginDebugUtilsLabelEXT == NULL) { return; }
    if (rec->d->api.CmdEndDebugUtilsLabelEXT == NULL) { return; }
    if (label == NULL) {
        rec->d->api.CmdEndDebugUtilsLabelEXT(rec->commands);
        return;
    }
    HCQI_VK_STRUCT(DebugUtilsLabelEXT, info, DEBUG_UTILS_LABEL_EXT);
    info.pLabelName = label[0] ? label : "hcq";
    rec->d->api.CmdBeginDebugUtilsLabelEXT(rec->commands, &info);
}

/* After all that came before on the queue, and after that for the host. Results of queries
   go last to where the timestamps want them. */
static hcq_result hcqi_vk_record_all(hcqi_vk_recorder *rec) {
    hcqi_vk_device *d = rec->d;
    const hcqi_vk_segment *seg = rec->segment;
    hcqi_vk_list *list = rec->list;
    const hcq_packet *packets = list->recording->packets;
    uint32_t end = seg->first + seg->count;
    VkPipelineStageFlags stages = list->family->stages;
    int queries = list->family->computes && d->stamp_bits != 0 && seg->stamp_count != 0;
    hcq_result r = HCQ_OK;
    hcqi_vk_barrier(d, rec->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, stages);
    if (queries) {
        d->api.CmdResetQueryPool(rec->commands, list->queries, rec->query_first, seg->stamp_count);
    }
    for (uint32_t i = seg->first; r == HCQ_OK && i < end; i++) {
        r = hcqi_vk_record_packet(rec, &packets[i], &list->commands[i]);
    }
    for (uint32_t i = seg->first; queries && r == HCQ_OK && i < end; i++) {
        uint32_t query = rec->query_first + list->commands[i].stamp - seg->stamp_first;
        VkBuffer buffer;
        VkDeviceSize offset;
        if (packets[i].kind != HCQ_COMMAND_TIMESTAMP) { continue; }
        r = hcqi_vk_resolve(d, packets[i].u.stamp.dst, 8, &buffer, &offset);
        if (r != HCQ_OK) { break; }
        d->api.CmdCopyQueryPoolResults(rec->commands, list->queries, query, 1, buffer, offset, 8,
                                       VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    }
    hcqi_vk_barrier(d, rec->commands, stages, VK_PIPELINE_STAGE_HOST_BIT);
    return r;
}

/* Records a segment, anew if it was before. `first`: its first query. */
static hcq_result hcqi_vk_record(hcqi_vk_device *d, hcqi_vk_list *list, hcqi_vk_segment *seg,
                                 VkCommandBuffer commands, uint32_t first) {
    hcqi_vk_recorder rec;
    memset(&rec, 0, sizeof rec);
    rec.d = d;
    rec.list = list;
    rec.segment = seg;
    rec.commands = commands;
    rec.query_first = first;
    seg->deaths = hcqi_atomic_load64(&d->deaths);
    HCQI_VK_STRUCT(CommandBufferBeginInfo, info, COMMAND_BUFFER_BEGIN_INFO);
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    VkResult r = d->api.BeginCommandBuffer(commands, &info);
    if (r != VK_SUCCESS) { return hcqi_vk_check(d, r, "vkBeginCommandBuffer"); }
    hcqi_vk_label(&rec, list->recording->label);
    hcq_result result = hcqi_vk_record_all(&rec);
    hcqi_vk_label(&rec, NULL);
    r = d->api.EndCommandBuffer(commands);
    if (result != HCQ_OK) { return result; }
    (void)hcqi_atomic_add64(&d->recorded, rec.recorded);
    (void)hcqi_atomic_add64(&d->recordings, 1);
    return hcqi_vk_check(d, r, "vkEndCommandBuffer");
}

/* ========================================================================== */
/* ---- encoding and patching ----------------------------------------------- */

/* What a list takes: in its own memory, and of descriptors. */
typedef struct hcqi_vk_room {
    uint32_t segments, stamps;
    uint64_t bytes, shadows;
    uint32_t sets, set_buffers, set_uniforms;
} hcqi_vk_room;

/* Places what one command needs. */
static void hcqi_vk_room_command(hcqi_vk_room *room, const hcq_packet *p, hcqi_vk_command *c) {
    const hcqi_vk_program *program = HCQI_CAST(const hcqi_vk_program *, p->u.exec.code);
    c->slot = (uint32_t)room->bytes;
    c->stamp = room->stamps;
    c->shadow = (size_t)room->shadows;
    if (p->kind == HCQ_COMMAND_TIMESTAMP) { room->stamps++; }
    if (p->kind == HCQ_COMMAND_FILL) { room->bytes += HCQI_VK_PATTERN; }
    if (p->kind != HCQ_COMMAND_EXEC) { return; }
    room->bytes += 16;
    c->indirect = (p->flags & HCQ_PACKET_CHANGES) != 0 || p->u.exec.grid_at != 0;
    if (program->shader.args != HCQI_VK_ARGS_BINDINGS) { return; }
    room->shadows += program->info.kernargs_size;
    int uniform = program->shader.uniform != UINT32_MAX;
    if (uniform) {
        room->bytes = (room->bytes + HCQI_VK_ALIGN - 1) & ~(uint64_t)(HCQI_VK_ALIGN - 1);
        c->uniform = (uint32_t)room->bytes;
        room->bytes += ((uint64_t)program->shader.uniform_bytes + 15) & ~(uint64_t)15;
    }
    if (program->kernel->sets == VK_NULL_HANDLE) { return; }
    room->sets++;
    room->set_buffers += program->shader.buffers;
    room->set_uniforms += (uint32_t)uniform;
}

/* Places segments, and what their commands need; without a list it only counts. */
static void hcqi_vk_lay(const hcq_recording *recording, hcqi_vk_list *list, hcqi_vk_room *room) {
    hcqi_vk_segment no_segment, *seg = NULL;
    hcqi_vk_command no_command;
    memset(room, 0, sizeof *room);
    memset(&no_segment, 0, sizeof no_segment);
    for (uint32_t i = 0; i < recording->count; i++) {
        const hcq_packet *p = &recording->packets[i];
        if (!hcqi_packet_is_work(p)) {
            seg = NULL;
            continue;
        }
        if (seg == NULL) {
            seg = list != NULL ? &list->segments[room->segments] : &no_segment;
            seg->first = i;
            seg->stamp_first = room->stamps;
            room->segments++;
        }
        seg->count++;
        seg->stamp_count += p->kind == HCQ_COMMAND_TIMESTAMP;
        seg->customs += p->kind == HCQ_COMMAND_CUSTOM;
        hcqi_vk_room_command(room, p, list != NULL ? &list->commands[i] : &no_command);
    }
    if (list != NULL) { list->segment_count = room->segments; }
}

/* The list with its arrays in one piece. */
static hcqi_vk_list *hcqi_vk_list_new(hcqi_vk_device *d, const hcq_recording *recording,
                                      const hcqi_vk_room *room) {
    hcqi_vk_family *family = d->family_of[recording->lanes == HCQ_COPY];
    size_t commands = recording->count * sizeof(hcqi_vk_command);
    size_t segments = room->segments * sizeof(hcqi_vk_segment);
    int fetches = !family->computes && d->stamp_bits != 0 && room->stamps != 0;
    size_t uses = fetches ? room->segments * HCQI_VK_USES * sizeof(hcqi_vk_use) : 0;
    size_t bytes = sizeof(hcqi_vk_list) + commands + segments + uses + (size_t)room->shadows;
    hcqi_vk_list *list = HCQI_CAST(hcqi_vk_list *, hcqi_new(&d->hooks, bytes));
    if (list == NULL) { return NULL; }
    uint8_t *at = (uint8_t *)(list + 1);
    list->recording = recording;
    list->family = family;
    list->bytes = bytes;
    list->commands = HCQI_CAST(hcqi_vk_command *, (void *)at);
    list->segments = HCQI_CAST(hcqi_vk_segment *, (void *)(at + commands));
    list->uses = uses != 0 ? HCQI_CAST(hcqi_vk_use *, (void *)(at + commands + segments)) : NULL;
    list->shadows = at + commands + segments + uses;
    return list;
}

static void hcqi_vk_list_free(hcqi_vk_device *d, hcqi_vk_list *list) {
    HCQI_VK_DESTROY(d, CommandPool, list->pool);
    HCQI_VK_DESTROY(d, QueryPool, list->queries);
    HCQI_VK_DESTROY(d, DescriptorPool, list->sets);
    if (list->memory.size != 0) { hcqi_vk_dealloc(d, &list->memory); }
    hcqi_delete(&d->hooks, list, list->bytes);
}

static hcq_result hcqi_vk_queries_create(hcqi_vk_device *d, uint32_t count, VkQueryPool *queries) {
    HCQI_VK_STRUCT(QueryPoolCreateInfo, info, QUERY_POOL_CREATE_INFO);
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = count;
    return HCQI_VK_TRY(d, CreateQueryPool, (d->handle, &info, d->allocator, queries));
}

/* A fill's pattern, from its first byte on. */
static void hcqi_vk_slot_write(const hcqi_vk_list *list, const hcq_packet *p,
                               const hcqi_vk_command *c) {
    if (p->kind != HCQ_COMMAND_FILL) { return; }
    for (uint32_t i = 0; i < HCQI_VK_PATTERN; i++) {
        hcqi_vk_slot(list, c)[i] = (uint8_t)(p->u.fill.value >> 8 * (i % p->value_size));
    }
}

/* Fills in a list: its own memory with all slots, queries and descriptors. */
static hcq_result hcqi_vk_list_open(hcqi_vk_device *d, hcqi_vk_list *list, hcqi_vk_room *room) {
    const hcq_recording *recording = list->recording;
    hcq_result r = HCQ_OK;
    if (room->bytes > UINT32_MAX) {
        return hcqi_deny(d->device, HCQ_ERROR_LIMIT, "encode: uniform blocks and fills above 4 GiB");
    }
    if (room->bytes != 0) { r = hcqi_vk_alloc(d, room->bytes, HCQ_HOST_VISIBLE, &list->memory); }
    if (r == HCQ_OK && room->stamps != 0 && d->stamp_bits != 0) {
        uint32_t copies = list->uses != NULL ? HCQI_VK_USES : 1;
        r = hcqi_vk_queries_create(d, room->stamps * copies, &list->queries);
    }
    if (r == HCQ_OK) { r = hcqi_vk_pool_create(d, list->family->index, &list->pool); }
    VkDescriptorPoolSize sizes[2] = { /* none may be of 0 */
        { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, room->set_buffers + 1 },
        { VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, room->set_uniforms + 1 },
    };
    HCQI_VK_STRUCT(DescriptorPoolCreateInfo, pool, DESCRIPTOR_POOL_CREATE_INFO);
    if (d->has_late_binding) { pool.flags = VK_DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT; }
    pool.maxSets = room->sets;
    pool.poolSizeCount = 2;
    pool.pPoolSizes = sizes;
    if (r == HCQ_OK && room->sets != 0) {
        r = HCQI_VK_TRY(d, CreateDescriptorPool, (d->handle, &pool, d->allocator, &list->sets));
    }
    if (r == HCQ_OK) { hcqi_vk_lay(recording, list, room); }
    HCQI_VK_STRUCT(DescriptorSetAllocateInfo, info, DESCRIPTOR_SET_ALLOCATE_INFO);
    info.descriptorPool = list->sets;
    info.descriptorSetCount = 1;
    for (uint32_t i = 0; r == HCQ_OK && i < recording->count; i++) {
        const hcq_packet *p = &recording->packets[i];
        const hcqi_vk_program *program = HCQI_CAST(const hcqi_vk_program *, p->u.exec.code);
        hcqi_vk_command *c = &list->commands[i];
        hcqi_vk_slot_write(list, p, c);
        if (p->kind != HCQ_COMMAND_EXEC || program->kernel->sets == VK_NULL_HANDLE) { continue; }
        info.pSetLayouts = &program->kernel->sets;
        r = HCQI_VK_TRY(d, AllocateDescriptorSets, (d->handle, &info, &c->set));
    }
    return r;
}

/* Segments whose times the host fetches are recorded for each run. */
static int hcqi_vk_records_late(const hcqi_vk_list *list, const hcqi_vk_segment *seg) {
    return list->uses != NULL && seg->stamp_count != 0;
}

/* All that a segment will ever need: later somebody may be recording from the pool. */
static hcq_result hcqi_vk_segment_commands(hcqi_vk_device *d, hcqi_vk_list *list,
                                           hcqi_vk_segment *seg) {
    hcq_result r = HCQ_OK;
    if (!hcqi_vk_records_late(list, seg)) {
        return hcqi_vk_commands_new(d, list->pool, &seg->commands);
    }
    uint32_t at = (uint32_t)(seg - list->segments) * HCQI_VK_USES;
    for (uint32_t k = 0; r == HCQ_OK && k < HCQI_VK_USES; k++) {
        r = hcqi_vk_commands_new(d, list->pool, &list->uses[at + k].commands);
    }
    return r;
}

static hcq_result hcqi_vk_encode(void *self, hcq_recording *recording) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_room room;
    hcqi_vk_lay(recording, NULL, &room);
    hcqi_vk_list *list = hcqi_vk_list_new(d, recording, &room);
    if (list == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    hcq_result r = hcqi_vk_list_open(d, list, &room);
    for (uint32_t i = 0; r == HCQ_OK && i < list->segment_count; i++) {
        hcqi_vk_segment *seg = &list->segments[i];
        r = hcqi_vk_segment_commands(d, list, seg);
        seg->stale = seg->customs != 0;
        if (r == HCQ_OK && !seg->customs && !hcqi_vk_records_late(list, seg)) {
            r = hcqi_vk_record(d, list, seg, seg->commands, seg->stamp_first);
            seg->stale = r == HCQ_NOT_READY;
            if (seg->stale) { r = HCQ_OK; } /* when it is given for the first time */
        }
    }
    if (r != HCQ_OK) {
        hcqi_vk_list_free(d, list);
        return r;
    }
    list->encoded = 1;
    recording->encoded = list;
    return HCQ_OK;
}

/* The segment of a packet. */
static hcqi_vk_segment *hcqi_vk_segment_of(const hcqi_vk_list *list, uint32_t index) {
    uint32_t low = 0, high = list->segment_count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (list->segments[mid].first <= index) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return &list->segments[low];
}

/* Buffers and values in bindings: descriptors that may be changed late, and what
   lies in a uniform block, are data. */
static hcq_result hcqi_vk_patch_bindings(hcqi_vk_device *d, hcqi_vk_list *list,
                                         hcqi_vk_segment *seg, const hcq_packet *packet,
                                         hcqi_vk_command *c) {
    const hcqi_vk_program *p = HCQI_CAST(const hcqi_vk_program *, packet->u.exec.code);
    const uint8_t *block = hcqi_vk_args(d, packet, p);
    uint8_t *shadow = list->shadows + c->shadow;
    int buffers = 0, values = 0;
    for (uint32_t i = 0; block != NULL && i < p->info.arg_count; i++) {
        uint32_t at = p->info.offsets[i];
        int differs = memcmp(shadow + at, block + at, p->info.sizes[i]) != 0;
        if (hcqi_vk_is_buffer(p->args[i])) { buffers |= differs; } else { values |= differs; }
    }
    if (!buffers && !values) { return HCQ_OK; }
    int late = !buffers || d->has_late_binding;
    int data = !values || p->shader.uniform != UINT32_MAX;
    if (seg->stale || !late || !data) {
        VkDescriptorBufferInfo infos[HCQI_VK_BUFFERS];
        seg->stale = 1;
        return hcqi_vk_bindings_find(d, list, p, block, infos); /* what is wrong is told now */
    }
    if (buffers) { /* on failure nothing has changed: it may be patched again */
        HCQI_PASS(hcqi_vk_describe(d, list, p, block, c, NULL));
        c->born = hcqi_atomic_load64(&d->births);
    }
    if (values) { hcqi_vk_values(p, block, HCQI_CAST(uint8_t *, list->memory.host) + c->uniform); }
    memcpy(shadow, block, p->info.kernargs_size);
    return HCQ_OK;
}

/* Is there a younger block at the address than all that were there when a command was recorded? */
static int hcqi_vk_moved(const hcqi_vk_device *d, uint64_t address, uint64_t born) {
    int found = 0, old = 0;
    hcq_backend_lock(1);
    for (uint32_t i = hcqi_vk_range_at(d, address); !old && i > 0; i--) {
        const hcqi_vk_range *r = d->ranges[i - 1];
        if (address - hcqi_vk_address(r) < r->asked) {
            found = 1;
            old = r->block->born <= born;
        }
        if (d->imported_blocks == 0) { break; }
    }
    hcq_backend_lock(0);
    return found && !old;
}

static int hcqi_vk_bindings_moved(const hcqi_vk_device *d, const hcq_packet *packet,
                                  const hcqi_vk_command *c) {
    const hcqi_vk_program *p = HCQI_CAST(const hcqi_vk_program *, packet->u.exec.code);
    if (p->shader.args != HCQI_VK_ARGS_BINDINGS) { return 0; }
    const uint8_t *block = hcqi_vk_args(d, packet, p);
    for (uint32_t i = 0; block != NULL && i < p->info.arg_count; i++) {
        uint64_t address;
        if (!hcqi_vk_is_buffer(p->args[i])) { continue; }
        memcpy(&address, block + p->info.offsets[i], sizeof address);
        if (hcqi_vk_moved(d, address, c->born)) { return 1; }
    }
    return 0;
}

/* Buffers are recorded, but known by their addresses, and a driver gives those of a block that
   went to another one: what names it is to be recorded anew. It does not run: the memory was
   in use until then. */
static int hcqi_vk_segment_moved(const hcqi_vk_device *d, const hcqi_vk_list *list,
                                 hcqi_vk_segment *seg) {
    uint64_t deaths = hcqi_atomic_load64(&d->deaths);
    if (seg->deaths == deaths) { return 0; }
    seg->deaths = deaths;
    for (uint32_t i = seg->first; i < seg->first + seg->count; i++) {
        const hcq_packet *p = &list->recording->packets[i];
        const hcqi_vk_command *c = &list->commands[i];
        int copies = p->kind == HCQ_COMMAND_COPY || p->kind == HCQ_COMMAND_WRITE;
        int exec = p->kind == HCQ_COMMAND_EXEC;
        int moved = (copies || p->kind == HCQ_COMMAND_FILL) &&
                    hcqi_vk_moved(d, p->u.copy.dst, c->born);
        if (copies) { moved |= hcqi_vk_moved(d, p->u.copy.src, c->born); }
        if (exec) { moved |= hcqi_vk_bindings_moved(d, p, c); }
        uint64_t grid = exec ? p->u.exec.grid_at : 0;
        if (grid != 0) { moved |= hcqi_vk_moved(d, grid, c->born); }
        if (moved) { return 1; }
    }
    return 0;
}

/* Data is written at once; the rest waits until it is given, which may be many patches
   later. */
static hcq_result hcqi_vk_patch(void *self, hcq_recording *recording, uint32_t index) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_list *list = HCQI_CAST(hcqi_vk_list *, recording->encoded);
    const hcq_packet *p = &recording->packets[index];
    uint64_t key[3];
    if (!hcqi_packet_is_work(p)) { return HCQ_OK; }
    hcqi_vk_segment *seg = hcqi_vk_segment_of(list, index);
    hcqi_vk_command *c = &list->commands[index];
    hcqi_vk_key(p, key);
    int same = key[0] == c->key[0] && key[1] == c->key[1] && key[2] == c->key[2];
    if (p->kind == HCQ_COMMAND_CUSTOM || !same) { seg->stale = 1; }
    hcqi_vk_slot_write(list, p, c);
    if (p->kind != HCQ_COMMAND_EXEC) { return HCQ_OK; }
    const hcqi_vk_program *program = HCQI_CAST(const hcqi_vk_program *, p->u.exec.code);
    if (p->u.exec.grid_at == 0 && memcmp(c->grid, p->u.exec.grid, sizeof c->grid) != 0) {
        int fits = hcqi_vk_grid_fits(d, p->u.exec.grid);
        if (!fits) { HCQI_PASS(hcqi_vk_parts_check(program, p->u.exec.grid)); }
        if (!c->indirect || !fits) { seg->stale = 1; }
        c->indirect = (uint32_t)fits;
        if (fits) { hcqi_vk_grid_write(list, c, p->u.exec.grid); }
        memcpy(c->grid, p->u.exec.grid, sizeof c->grid);
    }
    if (program->shader.args != HCQI_VK_ARGS_BINDINGS) { return HCQ_OK; }
    return hcqi_vk_patch_bindings(d, list, seg, p, c);
}

static void hcqi_vk_encode_free(void *self, hcq_recording *recording) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_list *list = HCQI_CAST(hcqi_vk_list *, recording->encoded);
    hcq_backend_lock(1);
    for (uint32_t k = 0; k < 2 * HCQI_VK_LANES; k++) { /* left only by a lost device */
        hcqi_vk_lane *lane = d->lanes[k / HCQI_VK_LANES][k % HCQI_VK_LANES];
        for (uint32_t i = 0; lane != NULL && i < lane->harvest_count; i++) {
            if (lane->harvests[i].list == list) { lane->harvests[i].list = NULL; }
        }
    }
    hcq_backend_lock(0);
    hcqi_vk_list_free(d, list);
    recording->encoded = NULL;
}

/* ========================================================================== */
/* ---- submitting ---------------------------------------------------------- */

/* What has which value once the point is reached; no semaphore: it is, an engine's may be gone. */
static uint64_t hcqi_vk_value(const hcq_lane_point *p, VkSemaphore *semaphore) {
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, p->lane->native);
    if (lane->queue != NULL) {
        *semaphore = lane->semaphores[p->counter];
        return lane->base[p->counter] + p->value;
    }
    hcqi_word_lock(&lane->imported_lock);
    uint64_t index = p->value - lane->seen[0] - 1;
    int is_left = index < lane->imported_count;
    uint64_t value = is_left ? lane->imported[index] : 0;
    *semaphore = is_left ? lane->semaphores[0] : VK_NULL_HANDLE;
    hcqi_word_unlock(&lane->imported_lock);
    return value;
}

/* With the core's lock. A counter begins anew only after hcq saw its last epoch. */
static int hcqi_vk_reached(const hcq_lane_point *p) {
    return hcq_backend_done(p->lane) >= p->epoch ||
           HCQI_CAST(const hcqi_vk_lane *, p->lane->native)->seen[p->counter] >= p->value;
}

/* An engine submitted its side before; only the value is to be kept. */
static hcq_result hcqi_vk_imported_submit(hcqi_vk_device *d, hcqi_vk_lane *lane,
                                          uint64_t posted) {
    hcqi_word_lock(&lane->imported_lock);
    int room = HCQI_GROW(&d->hooks, lane->imported, lane->imported_capacity,
                         lane->imported_count + 1u);
    if (room) { lane->imported[lane->imported_count++] = posted; }
    hcqi_word_unlock(&lane->imported_lock);
    return room ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY;
}

/* So many of an engine's values are reached; with lane->imported_lock. With the last one its
   semaphore may go: that counts when no thread waits for it any more, which takes none long. */
static void hcqi_vk_imported_look(hcqi_vk_device *d, hcqi_vk_lane *lane) {
    uint64_t value = 0;
    uint32_t due = 0;
    lane->ends = 0;
    if (lane->imported_count == 0 ||
        hcqi_vk_count(d, lane->semaphores[0], &value) != VK_SUCCESS) {
        return;
    }
    while (due < lane->imported_count && lane->imported[due] <= value) { due++; }
    lane->ends = due == lane->imported_count && lane->waiters != 0;
    due -= (uint32_t)lane->ends;
    lane->seen[0] += due;
    lane->imported_count -= due;
    memmove(lane->imported, lane->imported + due, lane->imported_count * sizeof *lane->imported);
}

/* How many are reached, and how many are not. */
static uint64_t hcqi_vk_imported_completed(hcqi_vk_device *d, hcqi_vk_lane *lane, uint32_t *left) {
    hcqi_word_lock(&lane->imported_lock);
    hcqi_vk_imported_look(d, lane);
    uint64_t seen = lane->seen[0];
    *left = lane->imported_count;
    hcqi_word_unlock(&lane->imported_lock);
    return seen;
}

/* Is value number `value` reached, and its semaphore free to go? With lane->imported_lock, which
   it lets go of while others are about to leave. */
static int hcqi_vk_imported_reached(hcqi_vk_device *d, hcqi_vk_lane *lane, uint64_t value) {
    hcqi_vk_imported_look(d, lane);
    while (lane->seen[0] < value && lane->ends) {
        hcqi_word_unlock(&lane->imported_lock);
        hcq_sys_yield();
        hcqi_word_lock(&lane->imported_lock);
        hcqi_vk_imported_look(d, lane);
    }
    return lane->seen[0] >= value;
}

/* The semaphore to wait for, and its value; hcqi_vk_imported_leave has to follow. 0: there is
   nothing to wait for. */
static int hcqi_vk_imported_enter(hcqi_vk_device *d, hcqi_vk_lane *lane, uint64_t value,
                                  VkSemaphore *semaphore, uint64_t *native) {
    hcqi_word_lock(&lane->imported_lock);
    int waits = !hcqi_vk_imported_reached(d, lane, value);
    uint64_t index = value - lane->seen[0] - 1;
    waits = waits && index < lane->imported_count;
    if (waits) {
        *semaphore = lane->semaphores[0];
        *native = lane->imported[index];
        lane->waiters++;
    }
    hcqi_word_unlock(&lane->imported_lock);
    return waits;
}

static void hcqi_vk_imported_leave(hcqi_vk_device *d, hcqi_vk_lane *lane, uint64_t value,
                                   VkResult r) {
    hcqi_word_lock(&lane->imported_lock);
    lane->waiters--;
    if (r == VK_SUCCESS) { (void)hcqi_vk_imported_reached(d, lane, value); }
    hcqi_word_unlock(&lane->imported_lock);
}

/* Of a run whose times the host will fetch: commands and queries, in turn. */
static hcqi_vk_use *hcqi_vk_use_next(const hcqi_vk_list *list, hcqi_vk_segment *seg) {
    uint32_t turn = seg->turn++ % HCQI_VK_USES;
    hcqi_vk_use *use = &list->uses[(uint32_t)(seg - list->segments) * HCQI_VK_USES + turn];
    use->first = seg->stamp_first * HCQI_VK_USES + turn * seg->stamp_count;
    return use;
}

static int hcqi_vk_use_is(const hcqi_vk_use *use, const hcq_lane_point *done) {
    return use->given.lane == done->lane && use->given.epoch == done->epoch;
}

/* Is an earlier run with what the batch will use not over, or are its times not fetched? Then
   its turn has not come. */
static int hcqi_vk_use_waits(const hcq_batch *batch) {
    const hcqi_vk_use *use = HCQI_CAST(const hcqi_vk_use *, batch->prepared);
    return use != NULL && batch->result == HCQ_OK && use->given.lane != NULL &&
           !hcqi_vk_use_is(use, &batch->done) &&
           hcq_backend_done(use->given.lane) < use->given.epoch;
}

static void hcqi_vk_use_begin(hcqi_vk_device *d, const hcqi_vk_list *list,
                              const hcqi_vk_segment *seg, hcqi_vk_use *use,
                              const hcq_lane_point *done) {
    hcq_backend_lock(1);
    use->given = *done;
    hcq_backend_lock(0);
    d->api.ResetQueryPool(d->handle, list->queries, use->first, seg->stamp_count);
}

static hcq_result hcqi_vk_harvest_later(hcqi_vk_device *d, hcqi_vk_lane *lane, hcqi_vk_list *list,
                                        hcqi_vk_segment *seg, const hcqi_vk_use *use,
                                        const hcq_lane_point *done) {
    if (!HCQI_GROW(&d->hooks, lane->harvests, lane->harvest_capacity, lane->harvest_count + 1u)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    hcqi_vk_harvest *h = &lane->harvests[lane->harvest_count++];
    h->list = list;
    h->segment = seg;
    h->use = use;
    h->done = *done;
    return HCQ_OK;
}

/* What was encoded of a batch's recording; NULL: it has no packets. */
static hcqi_vk_list *hcqi_vk_list_of(const hcq_batch *batch) {
    return batch->recording == NULL ? NULL : HCQI_CAST(hcqi_vk_list *, batch->recording->encoded);
}

/* What is to be recorded is when it is given, without the lock. */
static hcq_result hcqi_vk_submit(void *self, hcq_lane *target, hcq_batch *batch) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, target->native);
    hcqi_vk_list *list = hcqi_vk_list_of(batch);
    if (hcqi_vk_lost(d, "a call before this one")) { return HCQ_ERROR_LOST; }
    if (target->imported) { return hcqi_vk_imported_submit(d, lane, batch->posted); }
    if (list == NULL || batch->count == 0) { return HCQ_NOT_READY; }
    hcqi_vk_segment *seg = hcqi_vk_segment_of(list, batch->first);
    if (!hcqi_vk_records_late(list, seg)) { return HCQ_NOT_READY; }
    hcqi_vk_use *use = hcqi_vk_use_next(list, seg);
    HCQI_PASS(hcqi_vk_harvest_later(d, lane, list, seg, use, &batch->done));
    batch->prepared = use;
    return HCQ_NOT_READY;
}

/* Batches next to each other, for one queue, that become one call. */
typedef struct hcqi_vk_call {
    hcqi_vk_queue *queue;
    const hcq_batch *batches;
    uint32_t count, wait_count;
    VkCommandBuffer commands[HCQI_VK_CALL]; /* NULL: none */
    hcqi_vk_segment *stamps[HCQI_VK_CALL]; /* whose .stamped is now the batch, or NULL; ... */
    hcq_lane_point stamped[HCQI_VK_CALL]; /* ... and what it was */
    uint32_t wait_first[HCQI_VK_CALL + 1];
    VkSemaphore waits[HCQI_VK_CALL_WAITS];
    uint64_t wait_values[HCQI_VK_CALL_WAITS];
} hcqi_vk_call;

static void hcqi_vk_sync2_open(hcqi_vk_sync2 *t) {
    for (uint32_t i = 0; i < HCQI_VK_CALL; i++) {
        t->commands[i].sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO_KHR;
        t->signals[i].sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO_KHR;
        t->signals[i].stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT_KHR;
        t->infos[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2_KHR;
        t->infos[i].pCommandBufferInfos = &t->commands[i];
        t->infos[i].signalSemaphoreInfoCount = 1;
        t->infos[i].pSignalSemaphoreInfos = &t->signals[i];
    }
    for (uint32_t i = 0; i < HCQI_VK_CALL_WAITS; i++) {
        t->waits[i].sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO_KHR;
        t->waits[i].stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT_KHR;
    }
}

static VkResult hcqi_vk_call_sync2(hcqi_vk_device *d, const hcqi_vk_call *call) {
    hcqi_vk_sync2 *t = &d->sync2;
    for (uint32_t i = 0; i < call->wait_count; i++) {
        t->waits[i].semaphore = call->waits[i];
        t->waits[i].value = call->wait_values[i];
    }
    for (uint32_t i = 0; i < call->count; i++) {
        const hcq_lane_point *done = &call->batches[i].done;
        const hcqi_vk_lane *lane = HCQI_CAST(const hcqi_vk_lane *, done->lane->native);
        t->commands[i].commandBuffer = call->commands[i];
        t->signals[i].semaphore = lane->semaphores[done->counter];
        t->signals[i].value = lane->base[done->counter] + done->value;
        t->infos[i].waitSemaphoreInfoCount = call->wait_first[i + 1] - call->wait_first[i];
        t->infos[i].pWaitSemaphoreInfos = &t->waits[call->wait_first[i]];
        t->infos[i].commandBufferInfoCount = call->commands[i] != NULL;
    }
    return d->submit2(call->queue->queue, call->count, t->infos, VK_NULL_HANDLE);
}

static VkResult hcqi_vk_call_plain(hcqi_vk_device *d, const hcqi_vk_call *call) {
    VkSubmitInfo infos[HCQI_VK_CALL];
    VkTimelineSemaphoreSubmitInfo values[HCQI_VK_CALL];
    VkSemaphore signals[HCQI_VK_CALL];
    uint64_t signal_values[HCQI_VK_CALL];
    VkPipelineStageFlags stages[HCQI_VK_CALL_WAITS];
    memset(infos, 0, call->count * sizeof *infos);
    memset(values, 0, call->count * sizeof *values);
    for (uint32_t i = 0; i < call->wait_count; i++) {
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    for (uint32_t i = 0; i < call->count; i++) {
        const hcq_lane_point *done = &call->batches[i].done;
        const hcqi_vk_lane *lane = HCQI_CAST(const hcqi_vk_lane *, done->lane->native);
        uint32_t first = call->wait_first[i];
        signals[i] = lane->semaphores[done->counter];
        signal_values[i] = lane->base[done->counter] + done->value;
        values[i].sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
        values[i].waitSemaphoreValueCount = call->wait_first[i + 1] - first;
        values[i].pWaitSemaphoreValues = &call->wait_values[first];
        values[i].signalSemaphoreValueCount = 1;
        values[i].pSignalSemaphoreValues = &signal_values[i];
        infos[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        infos[i].pNext = &values[i];
        infos[i].waitSemaphoreCount = values[i].waitSemaphoreValueCount;
        infos[i].pWaitSemaphores = &call->waits[first];
        infos[i].pWaitDstStageMask = &stages[first];
        infos[i].commandBufferCount = call->commands[i] != NULL;
        infos[i].pCommandBuffers = &call->commands[i];
        infos[i].signalSemaphoreCount = 1;
        infos[i].pSignalSemaphores = &signals[i];
    }
    return d->api.QueueSubmit(call->queue->queue, call->count, infos, VK_NULL_HANDLE);
}

static VkResult hcqi_vk_call_make(hcqi_vk_device *d, const hcqi_vk_call *call) {
    hcqi_vk_enter(d, call->queue->queue);
    VkResult r = d->submit2 != NULL ? hcqi_vk_call_sync2(d, call) : hcqi_vk_call_plain(d, call);
    hcqi_vk_leave(d, call->queue->queue);
    hcqi_atomic_store64(&d->submits, d->submits + 1);
    return r;
}

static void hcqi_vk_call_wait(hcqi_vk_call *call, VkSemaphore semaphore, uint64_t value) {
    call->waits[call->wait_count] = semaphore;
    call->wait_values[call->wait_count++] = value;
}

/* Behind the other lane, if the queue is not anyway and hcq does not know it to be there. */
static void hcqi_vk_call_follow(hcqi_vk_call *call, const hcq_lane_point *point) {
    const hcqi_vk_lane *other = HCQI_CAST(const hcqi_vk_lane *, point->lane->native);
    if (other->queue == call->queue || hcq_backend_done(point->lane) >= point->epoch) { return; }
    VkSemaphore semaphore;
    uint64_t value = hcqi_vk_value(point, &semaphore);
    if (semaphore != VK_NULL_HANDLE) { hcqi_vk_call_wait(call, semaphore, value); }
}

/* The next batch joins the call; 0: it fails, and the call ends with it. */
static int hcqi_vk_call_add(hcqi_vk_device *d, hcqi_vk_call *call) {
    uint32_t at = call->count++;
    const hcq_batch *batch = &call->batches[at];
    hcqi_vk_list *list = hcqi_vk_list_of(batch);
    uint64_t zeroed = hcqi_atomic_load64(&d->zeroed);
    hcq_result r = batch->result;
    call->commands[at] = NULL;
    call->stamps[at] = NULL;
    call->wait_first[at] = call->wait_count;
    if (r == HCQ_OK && list != NULL && batch->count != 0) {
        hcqi_vk_segment *seg = hcqi_vk_segment_of(list, batch->first);
        hcqi_vk_use *use = HCQI_CAST(hcqi_vk_use *, batch->prepared);
        VkCommandBuffer commands = use != NULL ? use->commands : seg->commands;
        if (use != NULL || seg->stale || hcqi_vk_segment_moved(d, list, seg)) {
            list->refused = NULL;
            if (use != NULL) { hcqi_vk_use_begin(d, list, seg, use, &batch->done); }
            r = hcqi_vk_record(d, list, seg, commands, use != NULL ? use->first : seg->stamp_first);
            seg->stale = r != HCQ_OK;
        }
        if (r == HCQ_OK) {
            call->commands[at] = commands;
        } else {
            hcq_backend_job_fail(batch->job, &batch->done, r, list->refused, NULL, 0);
        }
        if (seg->stamp_count != 0 && use == NULL) { /* one run with these queries after the other */
            if (seg->stamped.lane != NULL) { hcqi_vk_call_follow(call, &seg->stamped); }
            call->stamps[at] = seg;
            call->stamped[at] = seg->stamped;
            seg->stamped = batch->done;
        }
    }
    for (uint32_t i = 0; i < batch->wait_count; i++) {
        hcqi_vk_call_follow(call, &batch->waits[i]);
    }
    if (call->queue != d->queues && call->queue->zeroed < zeroed) {
        call->queue->zeroed = zeroed;
        hcqi_vk_call_wait(call, d->now_semaphore, zeroed);
    }
    call->wait_first[at + 1] = call->wait_count;
    return r == batch->result;
}

/* Can the next batch join the call? Custom commands are recorded in calls of their own. */
static int hcqi_vk_call_takes(const hcqi_vk_call *call) {
    const hcq_batch *batch = &call->batches[call->count];
    const hcqi_vk_list *list = hcqi_vk_list_of(batch);
    return HCQI_CAST(const hcqi_vk_lane *, batch->done.lane->native)->queue == call->queue &&
           call->count < HCQI_VK_CALL &&
           call->wait_count + batch->wait_count + 2 <= HCQI_VK_CALL_WAITS &&
           !hcqi_vk_use_waits(batch) &&
           !(list != NULL && batch->count != 0 && hcqi_vk_segment_of(list, batch->first)->customs);
}

/* All but the first batch will be given later, with all their waits. */
static void hcqi_vk_call_shorten(hcqi_vk_call *call) {
    while (call->count > 1) {
        uint32_t at = --call->count;
        if (call->stamps[at] != NULL) { call->stamps[at]->stamped = call->stamped[at]; }
    }
    call->wait_count = call->wait_first[1];
    call->queue->zeroed = 0;
}

/* Out of memory: the first batch alone, then without its commands. What cannot even signal
   leaves others without an end: the device is lost. */
static VkResult hcqi_vk_call_retry(hcqi_vk_device *d, hcqi_vk_call *call, VkResult why) {
    const hcq_batch *batch = call->batches;
    VkResult r = why;
    if (call->count > 1) {
        d->singly = call->count - 1;
        hcqi_vk_call_shorten(call);
        r = hcqi_vk_call_make(d, call);
    }
    for (int tries = 0; r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST && tries < 3; tries++) {
        if (tries == 0) {
            call->commands[0] = NULL;
            hcq_backend_job_fail(batch->job, &batch->done, hcqi_vk_result(r), NULL,
                                 "vkQueueSubmit", r);
        }
        r = hcqi_vk_call_make(d, call);
    }
    if (r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST) { /* what runs must not, once its memory */
        hcqi_vk_enter(d, call->queue->queue); /* may go; nobody may use a queue meanwhile */
        if (!d->lent) { (void)d->api.DeviceWaitIdle(d->handle); }
        hcqi_vk_leave(d, call->queue->queue);
        r = VK_ERROR_DEVICE_LOST;
    }
    return r;
}

static void hcqi_vk_messages_log(hcqi_vk_device *d);

/* As many batches as one call takes. */
static uint32_t hcqi_vk_give(void *self, const hcq_batch *batches, uint32_t count) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_call call;
    call.queue = HCQI_CAST(const hcqi_vk_lane *, batches->done.lane->native)->queue;
    call.batches = batches;
    call.count = 0;
    call.wait_count = 0;
    if (hcqi_vk_use_waits(batches)) { return 0; }
    int goes_on = hcqi_vk_call_add(d, &call) && d->singly == 0;
    while (goes_on && call.count < count && hcqi_vk_call_takes(&call)) {
        goes_on = hcqi_vk_call_add(d, &call);
    }
    if (d->singly != 0) { d->singly--; }
    VkResult r = hcqi_vk_call_make(d, &call);
    if (r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST) { r = hcqi_vk_call_retry(d, &call, r); }
    if (r == VK_SUCCESS) {
        hcqi_atomic_store64(&d->batches, d->batches + call.count); /* queries read them */
        hcqi_atomic_store64(&d->waits, d->waits + call.wait_count);
        for (uint32_t i = 0; i < call.count; i++) {
            const hcq_lane_point *done = &batches[i].done;
            hcqi_atomic_store64(&HCQI_CAST(hcqi_vk_lane *, done->lane->native)->handed,
                                done->epoch);
        }
    } else {
        (void)hcqi_atomic_cas32(&d->lost, 0, 1);
        (void)hcqi_vk_lost(d, "vkQueueSubmit");
    }
    hcqi_vk_messages_log(d);
    return call.count;
}

/* ---- ends ---- */

/* Stores the times of a run that is over. */
static void hcqi_vk_harvest_take(hcqi_vk_device *d, const hcqi_vk_harvest *h) {
    const hcqi_vk_segment *seg = h->segment;
    if (!hcqi_vk_use_is(h->use, &h->done)) { return; } /* it failed before it was given */
    for (uint32_t i = seg->first; i < seg->first + seg->count; i++) {
        const hcq_packet *p = &h->list->recording->packets[i];
        uint64_t stored;
        if (p->kind != HCQ_COMMAND_TIMESTAMP) { continue; }
        void *host = hcqi_vk_host(d, p->u.stamp.dst, 8);
        uint32_t query = h->use->first + h->list->commands[i].stamp - seg->stamp_first;
        VkResult r = d->api.GetQueryPoolResults(d->handle, h->list->queries, query, 1, 8, &stored,
                                                8, VK_QUERY_RESULT_64_BIT);
        if (r == VK_SUCCESS && host != NULL) { /* else it did not run */
            hcqi_atomic_store64(HCQI_CAST(uint64_t *, host), stored);
        }
    }
}

static void hcqi_vk_harvest_due(hcqi_vk_device *d, hcqi_vk_lane *lane) {
    uint32_t due = 0;
    while (due < lane->harvest_count && hcqi_vk_reached(&lane->harvests[due].done)) {
        if (lane->harvests[due].list != NULL) { hcqi_vk_harvest_take(d, &lane->harvests[due]); }
        due++;
    }
    if (due == 0) { return; }
    lane->harvest_count -= due;
    memmove(lane->harvests, lane->harvests + due, lane->harvest_count * sizeof *lane->harvests);
}

static uint64_t hcqi_vk_completed(void *self, hcq_lane *target, uint32_t counter) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, target->native);
    uint64_t value = 0;
    uint32_t left;
    if (target->imported) {
        value = hcqi_vk_imported_completed(d, lane, &left);
        (void)hcqi_vk_lost(d, "vkGetSemaphoreCounterValue");
        return value;
    }
    VkResult r = hcqi_vk_count(d, lane->semaphores[counter], &value);
    if (hcqi_vk_lost(d, "vkGetSemaphoreCounterValue") || r != VK_SUCCESS) {
        return lane->seen[counter];
    }
    if (value - lane->base[counter] > lane->seen[counter] && value > lane->base[counter]) {
        lane->seen[counter] = value - lane->base[counter];
        if (lane->harvest_count != 0) { hcqi_vk_harvest_due(d, lane); }
    }
    return lane->seen[counter];
}

/* One kick at a time, so that the semaphore's values rise. */
static void hcqi_vk_kick(void *self) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    if (!hcqi_atomic_cas32(&d->kicked, 0, 1)) { return; }
    HCQI_VK_STRUCT(SemaphoreSignalInfo, info, SEMAPHORE_SIGNAL_INFO);
    info.semaphore = d->kick_semaphore;
    info.value = d->kick_value + 1;
    (void)d->api.SignalSemaphore(d->handle, &info);
    hcqi_atomic_store32(&d->kicked, 2);
}

/* Whoever kicked may still be in the middle of it: then the next wait ends early. */
static void hcqi_vk_kick_seen(hcqi_vk_device *d) {
    if (hcqi_atomic_load32(&d->kicked) != 2) { return; }
    d->kick_value++;
    hcqi_atomic_store32(&d->kicked, 0);
}

static hcq_result hcqi_vk_wait(void *self, hcq_lane *target, uint32_t counter, uint64_t value,
                               uint64_t timeout_ns, int serves) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, target->native);
    VkSemaphore semaphores[2] = { VK_NULL_HANDLE, d->kick_semaphore };
    uint64_t native[2] = { lane->base[counter] + value, 0 }, now = 0;
    if (!target->imported) { semaphores[0] = lane->semaphores[counter]; }
    HCQI_VK_STRUCT(SemaphoreWaitInfo, info, SEMAPHORE_WAIT_INFO);
    info.semaphoreCount = serves ? 2 : 1;
    info.flags = serves ? VK_SEMAPHORE_WAIT_ANY_BIT : 0;
    info.pSemaphores = semaphores;
    info.pValues = native;
    if (serves) { native[1] = d->kick_value + 1; }
    if (hcqi_vk_lost(d, "a call before this one")) { return HCQ_ERROR_LOST; }
    if (target->imported && !hcqi_vk_imported_enter(d, lane, value, semaphores, native)) {
        return HCQ_OK;
    }
    VkResult r = d->api.WaitSemaphores(d->handle, &info, timeout_ns);
    if (r == VK_SUCCESS) {
        if (serves) { hcqi_vk_kick_seen(d); }
        r = hcqi_vk_count(d, semaphores[0], &now);
        if (r == VK_SUCCESS && now < native[0]) { r = VK_TIMEOUT; }
    }
    if (target->imported) { hcqi_vk_imported_leave(d, lane, value, r); }
    if (r == VK_ERROR_DEVICE_LOST) {
        (void)hcqi_atomic_cas32(&d->lost, 0, 1);
        (void)hcqi_vk_lost(d, "vkWaitSemaphores");
    }
    return hcqi_vk_result(r);
}

/* A semaphore never goes back: the counter's zero moves up to where it is. */
static void hcqi_vk_counter_reset(void *self, hcq_lane *target, uint32_t counter) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, target->native);
    uint64_t value = lane->base[counter] + lane->seen[counter];
    if (!target->imported) { /* whose may be gone */
        (void)hcqi_vk_count(d, lane->semaphores[counter], &value);
    }
    lane->base[counter] = value;
    lane->seen[counter] = 0;
}

/* ========================================================================== */
/* ---- times, and work that is waited for at once -------------------------- */

/* Submits commands to the first queue; d->now_value is reached when they are over. */
static hcq_result hcqi_vk_now_submit(hcqi_vk_device *d, hcqi_vk_now *now) {
    uint64_t value = d->now_value + 1;
    HCQI_VK_STRUCT(TimelineSemaphoreSubmitInfo, values, TIMELINE_SEMAPHORE_SUBMIT_INFO);
    HCQI_VK_STRUCT(SubmitInfo, info, SUBMIT_INFO);
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    info.pNext = &values;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &now->commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &d->now_semaphore;
    hcqi_vk_enter(d, d->queues[0].queue);
    VkResult r = d->api.QueueSubmit(d->queues[0].queue, 1, &info, VK_NULL_HANDLE);
    hcqi_vk_leave(d, d->queues[0].queue);
    if (r != VK_SUCCESS) { return hcqi_vk_quiet(d, r); }
    d->now_value = now->value = value;
    return HCQ_OK;
}

static hcq_result hcqi_vk_now_wait(hcqi_vk_device *d, uint64_t timeout_ns) {
    HCQI_VK_STRUCT(SemaphoreWaitInfo, info, SEMAPHORE_WAIT_INFO);
    info.semaphoreCount = 1;
    info.pSemaphores = &d->now_semaphore;
    info.pValues = &d->now_value;
    return hcqi_vk_quiet(d, d->api.WaitSemaphores(d->handle, &info, timeout_ns));
}

/* Begins commands whose last job is over, or new ones. */
static hcq_result hcqi_vk_now_begin(hcqi_vk_device *d, hcqi_vk_now **out) {
    uint64_t done = 0;
    uint32_t i = 0;
    HCQI_VK_STRUCT(CommandBufferBeginInfo, info, COMMAND_BUFFER_BEGIN_INFO);
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    (void)hcqi_vk_count(d, d->now_semaphore, &done);
    while (i < d->now_count && d->nows[i].value > done) { i++; }
    if (i == d->now_count) {
        if (!HCQI_GROW(&d->hooks, d->nows, d->now_capacity, i + 1u)) {
            return HCQ_ERROR_OUT_OF_MEMORY;
        }
        d->nows[i].value = 0;
        HCQI_PASS(hcqi_vk_commands_new(d, d->now_pool, &d->nows[i].commands));
        d->now_count++;
    }
    *out = &d->nows[i];
    return hcqi_vk_quiet(d, d->api.BeginCommandBuffer(d->nows[i].commands, &info));
}

/* Clears an allocation that the host cannot write to, without waiting for it: later
   batches of the first queue come after it anyway, those of others wait for it. */
static hcq_result hcqi_vk_zero(hcqi_vk_device *d, hcqi_vk_range *range) {
    hcqi_vk_now *now;
    hcqi_word_lock(&d->now_lock);
    hcq_result r = hcqi_vk_now_begin(d, &now);
    if (r == HCQ_OK) {
        d->api.CmdFillBuffer(now->commands, range->block->buffer, range->offset, range->size, 0);
        hcqi_vk_barrier(d, now->commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
        r = hcqi_vk_quiet(d, d->api.EndCommandBuffer(now->commands));
    }
    if (r == HCQ_OK) { r = hcqi_vk_now_submit(d, now); }
    if (r == HCQ_OK) {
        range->zeroed = d->now_value;
        hcqi_atomic_store64(&d->zeroed, d->now_value);
    }
    hcqi_word_unlock(&d->now_lock);
    if (r != HCQ_OK) { hcq_backend_log(d->device, r, "zeroing: %s", hcq_result_text(r)); }
    return r == HCQ_TIMEOUT ? HCQ_ERROR_NATIVE : r;
}

static uint64_t hcqi_vk_mask(uint32_t bits) {
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

/* The count of ticks that `raw` has the low bits of: the latest that is not after
   `host_ns`, but for a second or a quarter of the range that clocks may be off. */
static uint64_t hcqi_vk_extend(const hcqi_vk_device *d, uint64_t raw, uint64_t host_ns) {
    if (d->stamp_bits >= 64) { return raw; }
    double period = (double)d->is.limits.timestampPeriod;
    double passed = (double)(int64_t)(host_ns - d->moment.host_ns) / period;
    uint64_t slack = (uint64_t)(1e9 / period), mask = hcqi_vk_mask(d->stamp_bits);
    if (slack > mask / 4) { slack = mask / 4; }
    uint64_t latest = d->moment.ticks + (uint64_t)(int64_t)passed + slack;
    return latest - ((latest - raw) & mask);
}

static uint64_t hcqi_vk_ticks_ns(const hcqi_vk_device *d, uint64_t ticks) {
    double period = (double)d->is.limits.timestampPeriod;
    return period == 1.0 ? ticks : (uint64_t)((double)ticks * period);
}

/* Both clocks by VK_EXT_calibrated_timestamps. */
static hcq_result hcqi_vk_sample_pair(hcqi_vk_device *d, hcqi_vk_moment *m) {
    VkCalibratedTimestampInfoEXT infos[2];
    uint64_t values[2] = { 0, 0 }, deviation = 0;
    memset(infos, 0, sizeof infos);
    infos[0].sType = infos[1].sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT;
    infos[0].timeDomain = VK_TIME_DOMAIN_DEVICE_EXT;
    infos[1].timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
    uint64_t before = hcq_now_ns();
    VkResult r = d->api.GetCalibratedTimestampsEXT(d->handle, d->has_monotonic ? 2 : 1, infos,
                                                   values, &deviation);
    uint64_t after = hcq_now_ns();
    if (r != VK_SUCCESS) { return hcqi_vk_quiet(d, r); }
    m->ticks = values[0];
    m->host_ns = before + (after - before) / 2;
    m->error_ns = (after - before) / 2 + 1;
    if (d->has_monotonic && values[1] >= before && values[1] <= after) {
        m->host_ns = values[1];
        m->error_ns = deviation;
    }
    return HCQ_OK;
}

/* By a timestamp on the queue, if that is over soon; not while an earlier one may be written. */
static hcq_result hcqi_vk_sample_query(hcqi_vk_device *d, hcqi_vk_moment *m,
                                       uint64_t timeout_ns) {
    hcqi_vk_now *now;
    HCQI_PASS(hcqi_vk_now_wait(d, 0));
    HCQI_PASS(hcqi_vk_now_begin(d, &now));
    d->api.CmdResetQueryPool(now->commands, d->now_queries, 0, 1);
    d->api.CmdWriteTimestamp(now->commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, d->now_queries, 0);
    HCQI_PASS(hcqi_vk_quiet(d, d->api.EndCommandBuffer(now->commands)));
    uint64_t before = hcq_now_ns();
    HCQI_PASS(hcqi_vk_now_submit(d, now));
    HCQI_PASS(hcqi_vk_now_wait(d, timeout_ns));
    uint64_t after = hcq_now_ns();
    m->host_ns = before + (after - before) / 2;
    m->error_ns = (after - before) / 2 + 1;
    VkResult got = d->api.GetQueryPoolResults(d->handle, d->now_queries, 0, 1, 8, &m->ticks, 8,
                                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    return hcqi_vk_quiet(d, got);
}

/* Reads both clocks into d->moment; the tighter one of a few tries. */
static hcq_result hcqi_vk_sample(hcqi_vk_device *d, int tries, uint64_t timeout_ns) {
    hcqi_vk_moment best = { 0, 0, UINT64_MAX }, m;
    hcq_result r = HCQ_OK;
    for (int i = 0; r == HCQ_OK && i < tries; i++) {
        m = best;
        r = d->has_clock ? hcqi_vk_sample_pair(d, &m) : hcqi_vk_sample_query(d, &m, timeout_ns);
        if (r == HCQ_OK && m.error_ns < best.error_ns) { best = m; }
    }
    if (best.error_ns == UINT64_MAX) { return r; }
    best.ticks &= hcqi_vk_mask(d->stamp_bits);
    if (d->moment.host_ns != 0) { best.ticks = hcqi_vk_extend(d, best.ticks, best.host_ns); }
    d->moment = best;
    return HCQ_OK;
}

/* Without the extension a moment of the last second serves; clocks drift apart by
   less than 100 millionths. */
static hcq_result hcqi_vk_clock(void *self, hcq_clock *clock) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    uint64_t now = hcq_now_ns();
    clock->device_ns = clock->host_ns = now;
    clock->error_ns = 0;
    if (d->stamp_bits == 0) { return HCQ_OK; } /* times are the host's */
    hcqi_word_lock(&d->now_lock);
    int fresh = !d->has_clock && now - d->moment.host_ns < 1000000000;
    if (!fresh) { (void)hcqi_vk_sample(d, d->has_clock ? 3 : 1, 20000000); }
    hcqi_vk_moment m = d->moment;
    hcqi_word_unlock(&d->now_lock);
    uint64_t passed = now > m.host_ns ? now - m.host_ns : 0;
    clock->host_ns = m.host_ns + passed;
    clock->device_ns = hcqi_vk_ticks_ns(d, m.ticks) + passed;
    clock->error_ns = m.error_ns + passed / 10000;
    return HCQ_OK;
}

static uint64_t hcqi_vk_stamp_ns(void *self, const hcq_lane *lane, uint64_t stored) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    uint32_t bits = d->stamp_bits;
    (void)lane;
    if (bits == 0) { return stored; }
    uint64_t now = bits < 64 ? hcq_now_ns() : 0;
    hcqi_word_lock(&d->now_lock);
    int old = bits < 64 && d->has_clock && now - d->moment.host_ns > 1000000000;
    if (old) { (void)hcqi_vk_sample(d, 1, 0); }
    uint64_t ticks = hcqi_vk_extend(d, stored, now);
    hcqi_word_unlock(&d->now_lock);
    return hcqi_vk_ticks_ns(d, ticks);
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- the library and instances ------------------------------------------- */

/* Fills in a table of functions: a device's, the instance's, or the loader's where there is
   no instance yet. Returns the first name that is missing of those needed, or NULL. */
static const char *hcqi_vk_functions(const hcqi_vk_driver *v, VkDevice device,
                                     const char *const *names, size_t count, size_t needed,
                                     void *api) {
    for (size_t i = 0; i < count; i++) {
        PFN_vkVoidFunction f = device != VK_NULL_HANDLE ? v->api.GetDeviceProcAddr(device, names[i])
                                                        : v->loader(v->instance, names[i]);
        if (f == NULL && i < needed) { return names[i]; }
        memcpy(HCQI_CAST(char *, api) + i * sizeof f, &f, sizeof f);
    }
    return NULL;
}

static hcq_result hcqi_vk_instance_functions(hcqi_vk_driver *v) {
    int all = hcqi_vk_functions(v, NULL, hcqi_vk_instance_names,
                                HCQI_VK_COUNT(hcqi_vk_instance_names), HCQI_VK_INSTANCE_NEEDED,
                                &v->api) == NULL;
    v->failure = all ? NULL : "the instance lacks functions of Vulkan 1.2";
    return all ? HCQ_OK : HCQ_ERROR_NO_DEVICE;
}

/* Finds the loader's one function. */
static hcq_result hcqi_vk_library_open(hcqi_vk_driver *v) {
#ifdef HCQ_VULKAN_LOADER
    v->loader = HCQ_VULKAN_LOADER;
#else
    static const char *const names[] = {
#if defined(_WIN32)
        "vulkan-1.dll"
#elif defined(__APPLE__)
        "libvulkan.dylib", "libvulkan.1.dylib", "libMoltenVK.dylib"
#else
        "libvulkan.so.1", "libvulkan.so"
#endif
    };
    for (size_t i = 0; i < HCQI_VK_COUNT(names) && v->library == NULL; i++) {
        v->library = hcq_sys_library_open(names[i]);
    }
    v->failure = "Vulkan's loader (libvulkan) cannot be opened";
    if (v->library == NULL) { return HCQ_ERROR_NO_DEVICE; }
    void *symbol = hcq_sys_library_symbol(v->library, "vkGetInstanceProcAddr");
    memcpy(&v->loader, &symbol, sizeof symbol);
#endif
    v->failure = v->loader != NULL ? NULL : "Vulkan's loader has no vkGetInstanceProcAddr";
    return v->loader != NULL ? HCQ_OK : HCQ_ERROR_NO_DEVICE;
}

/* Which of `names` there are, as bits: of a device's extensions, or of the loader's where
   `physical` is NULL. A driver that cannot tell has none. */
static hcq_result hcqi_vk_extensions_ask(const hcqi_vk_driver *v, const hcqi_vk_global_api *global,
                                         VkPhysicalDevice physical, const char *const *names,
                                         uint32_t name_count, uint32_t *found) {
    VkExtensionProperties *list = NULL; /* of 260 bytes each: too large for a stack */
    uint32_t count = 0;
    size_t bytes = 0;
    for (*found = 0;;) {
        VkResult r = physical != VK_NULL_HANDLE
                         ? v->api.EnumerateDeviceExtensionProperties(physical, NULL, &count, list)
                         : global->EnumerateInstanceExtensionProperties(NULL, &count, list);
        if (r < VK_SUCCESS) { count = 0; }
        if (list != NULL || count == 0) { break; }
        bytes = count * sizeof *list;
        list = HCQI_CAST(VkExtensionProperties *, hcqi_new(v->memory, bytes));
        if (list == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    }
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = 0; i < name_count; i++) {
            if (strcmp(list[k].extensionName, names[i]) == 0) { *found |= 1u << i; }
        }
    }
    hcqi_delete(v->memory, list, bytes);
    return HCQ_OK;
}

/* Messages wait until no lock is held, as a logger may come back. */
static void hcqi_vk_messages_log(hcqi_vk_device *d) {
    char text[HCQI_VK_MESSAGE];
    if (!d->validates) { return; }
    while (hcqi_atomic_load64(&d->messages) != hcqi_atomic_load64(&d->messages_logged)) {
        hcqi_word_lock(&d->message_lock); /* another thread may take it first */
        uint64_t messages = hcqi_atomic_load64(&d->messages);
        int is_new = messages != d->messages_logged;
        memcpy(text, d->message, HCQI_VK_MESSAGE);
        hcqi_atomic_store64(&d->messages_logged, messages);
        hcqi_word_unlock(&d->message_lock);
        if (is_new) { hcq_backend_log(d->device, HCQ_ERROR_NATIVE, "validation: %s", text); }
    }
}

/* Khronos' layer speaks through here, inside of any call. */
static VKAPI_ATTR VkBool32 VKAPI_CALL hcqi_vk_message(
    VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
    const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, user);
    if ((types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT) == 0) { return VK_FALSE; }
    (void)severity;
    hcqi_word_lock(&d->message_lock);
    if (hcqi_atomic_load64(&d->messages) == d->messages_logged) { /* the first one tells most */
        snprintf(d->message, sizeof d->message, "%s", data->pMessage);
    }
    (void)hcqi_atomic_add64(&d->messages, 1);
    hcqi_word_unlock(&d->message_lock);
    return VK_FALSE;
}

static void hcqi_vk_messenger_open(hcqi_vk_driver *v, hcqi_vk_device *d) {
    HCQI_VK_STRUCT(DebugUtilsMessengerCreateInfoEXT, info, DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
    info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    info.pfnUserCallback = hcqi_vk_message;
    info.pUserData = d;
    if (v->api.CreateDebugUtilsMessengerEXT == NULL) { return; }
    (void)v->api.CreateDebugUtilsMessengerEXT(v->instance, &info, NULL, &v->messenger);
}

/* An instance, for `d` alone if it wants validation. Texts are constant. One is made at a time:
   the validation layer reads its settings into one table of the process (1.3.239 threw an
   exception when two threads made one each). */
static hcq_result hcqi_vk_instance_open(hcqi_vk_driver *v, hcqi_vk_device *d) {
    hcqi_vk_global_api api;
    const char *wanted[] = { VK_EXT_DEBUG_UTILS_EXTENSION_NAME, "VK_KHR_portability_enumeration" };
    const char *extensions[2], *layer = "VK_LAYER_KHRONOS_validation";
    uint32_t count = 0, layer_extensions = 0, found;
    VkValidationFeatureEnableEXT enable =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    v->failure = "the loader lacks functions of Vulkan 1.1";
    if (hcqi_vk_functions(v, NULL, hcqi_vk_global_names, HCQI_VK_COUNT(hcqi_vk_global_names),
                          HCQI_VK_COUNT(hcqi_vk_global_names), &api) != NULL) {
        return HCQ_ERROR_NO_DEVICE;
    }
    if (api.EnumerateInstanceVersion(&v->version) != VK_SUCCESS) { return HCQ_ERROR_NO_DEVICE; }
    HCQI_PASS(hcqi_vk_extensions_ask(v, &api, NULL, wanted, 2, &found));
    HCQI_VK_STRUCT(ApplicationInfo, app, APPLICATION_INFO);
    HCQI_VK_STRUCT(ValidationFeaturesEXT, features, VALIDATION_FEATURES_EXT);
    HCQI_VK_STRUCT(InstanceCreateInfo, info, INSTANCE_CREATE_INFO);
    app.pEngineName = "hcq";
    app.apiVersion = v->version < VK_API_VERSION_1_3 ? v->version : VK_API_VERSION_1_3;
    info.pApplicationInfo = &app;
    v->has_names = found & 1;
    for (uint32_t i = 0; i < 2; i++) {
        if (found >> i & 1) { extensions[count++] = wanted[i]; }
    }
    info.flags = found >> 1; /* VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR is 1 */
    if (d != NULL && api.EnumerateInstanceExtensionProperties(layer, &layer_extensions, NULL) ==
                         VK_SUCCESS) { /* the layer is there */
        features.enabledValidationFeatureCount = 1;
        features.pEnabledValidationFeatures = &enable;
        info.pNext = &features;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        d->validates = v->has_names;
    }
    info.enabledExtensionCount = count;
    info.ppEnabledExtensionNames = extensions;
    hcqi_word_lock(&hcqi_core.instances);
    VkResult r = api.CreateInstance(&info, NULL, &v->instance);
    hcqi_word_unlock(&hcqi_core.instances);
    v->failure = hcqi_vk_text(r);
    if (r == VK_ERROR_INCOMPATIBLE_DRIVER) { v->failure = "Vulkan's loader finds no driver"; }
    if (r != VK_SUCCESS) { return HCQ_ERROR_NO_DEVICE; }
    return hcqi_vk_instance_functions(v);
}

/* Vulkan 1.2 with its two features that everything rests on, and a queue that
   computes. */
static int hcqi_vk_usable(const hcqi_vk_driver *v, VkPhysicalDevice physical) {
    VkQueueFamilyProperties families[HCQI_VK_ALL_FAMILIES];
    uint32_t count = 16;
    HCQI_VK_STRUCT(PhysicalDeviceProperties2, properties, PHYSICAL_DEVICE_PROPERTIES_2);
    HCQI_VK_STRUCT(PhysicalDeviceVulkan12Features, new_ones, PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    HCQI_VK_STRUCT(PhysicalDeviceFeatures2, features, PHYSICAL_DEVICE_FEATURES_2);
    v->api.GetPhysicalDeviceProperties2(physical, &properties);
    if (properties.properties.apiVersion < VK_API_VERSION_1_2) { return 0; }
    features.pNext = &new_ones;
    v->api.GetPhysicalDeviceFeatures2(physical, &features);
    if (!new_ones.timelineSemaphore || !new_ones.bufferDeviceAddress) { return 0; }
    v->api.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) { return 1; }
    }
    return 0;
}

static hcq_result hcqi_vk_physical_list(hcqi_vk_driver *v) {
    VkPhysicalDevice all[HCQI_VK_DEVICES];
    uint32_t count = HCQI_VK_DEVICES;
    VkResult r = v->api.EnumeratePhysicalDevices(v->instance, &count, all);
    v->failure = r < VK_SUCCESS ? hcqi_vk_text(r) : "there is no device with Vulkan 1.2";
    v->count = 0;
    for (uint32_t i = 0; r >= VK_SUCCESS && i < count; i++) {
        if (hcqi_vk_usable(v, all[i])) { v->physical[v->count++] = all[i]; }
    }
    if (v->count != 0) { v->failure = NULL; }
    return v->count != 0 ? HCQ_OK : HCQ_ERROR_NO_DEVICE;
}

static void hcqi_vk_instance_close(hcqi_vk_driver *v) {
    if (v->instance != VK_NULL_HANDLE) {
        if (v->messenger != VK_NULL_HANDLE) {
            v->api.DestroyDebugUtilsMessengerEXT(v->instance, v->messenger, NULL);
        }
        if (v->api.DestroyInstance != NULL) { v->api.DestroyInstance(v->instance, NULL); }
    }
    v->instance = NULL;
    if (v->library != NULL) { hcq_sys_library_close(v->library); }
    v->library = NULL;
}

static void hcqi_vk_driver_destroy(const hcq_memory_hooks *memory, void *driver) {
    hcqi_vk_instance_close(HCQI_CAST(hcqi_vk_driver *, driver));
    hcqi_delete(memory, driver, sizeof(hcqi_vk_driver));
}

/* A machine without Vulkan has a driver without devices: opening one says why. */
static hcq_result hcqi_vk_driver_create(const hcq_memory_hooks *memory, void **driver) {
    hcqi_vk_driver *v = HCQI_CAST(hcqi_vk_driver *, hcqi_new(memory, sizeof *v));
    if (v == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    v->memory = memory;
    hcq_result r = hcqi_vk_library_open(v);
    if (r == HCQ_OK) { r = hcqi_vk_instance_open(v, NULL); }
    if (r == HCQ_ERROR_OUT_OF_MEMORY) {
        hcqi_vk_driver_destroy(memory, v);
        return r;
    }
    if (r == HCQ_OK) { (void)hcqi_vk_physical_list(v); }
    *driver = v;
    return HCQ_OK;
}

static uint64_t hcqi_vk_memory_bytes(const VkPhysicalDeviceMemoryProperties *m) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++) {
        int local = (m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
        if (local && m->memoryHeaps[i].size > most) { most = m->memoryHeaps[i].size; }
    }
    return most;
}

static void hcqi_vk_device_describe(const hcqi_vk_driver *v, uint32_t ordinal,
                                    hcq_device_info *info) {
    VkPhysicalDevice physical = v->physical[ordinal];
    HCQI_VK_STRUCT(PhysicalDeviceVulkan11Properties, ids, PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    HCQI_VK_STRUCT(PhysicalDeviceProperties2, properties, PHYSICAL_DEVICE_PROPERTIES_2);
    HCQI_VK_STRUCT(PhysicalDeviceMemoryProperties2, memory, PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    properties.pNext = &ids;
    v->api.GetPhysicalDeviceProperties2(physical, &properties);
    v->api.GetPhysicalDeviceMemoryProperties2(physical, &memory);
    snprintf(info->name, sizeof info->name, "%.95s", properties.properties.deviceName);
    int at = snprintf(info->path, sizeof info->path, "uuid:");
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++) {
        at += snprintf(info->path + at, sizeof info->path - (size_t)at, "%02x",
                       (unsigned)ids.deviceUUID[i]);
    }
    info->id = (uint64_t)(ordinal + 1) << 56 |
               (uint64_t)(properties.properties.vendorID & 0xffffff) << 32 |
               properties.properties.deviceID;
    info->compute_lanes = 1;
    info->copy_lanes = 1;
    info->memory_bytes = hcqi_vk_memory_bytes(&memory.memoryProperties);
}

static const char *hcqi_vk_why_none(void *driver) {
    return HCQI_CAST(const hcqi_vk_driver *, driver)->failure;
}

static uint32_t hcqi_vk_devices(void *driver, hcq_device_info *infos, uint32_t capacity) {
    const hcqi_vk_driver *v = HCQI_CAST(const hcqi_vk_driver *, driver);
    for (uint32_t i = 0; i < v->count && i < capacity; i++) {
        hcqi_vk_device_describe(v, i, &infos[i]);
    }
    return v->count;
}

/* ---- small things of a device ---- */

static hcq_result hcqi_vk_semaphore_create(hcqi_vk_device *d, VkSemaphore *semaphore) {
    HCQI_VK_STRUCT(SemaphoreTypeCreateInfo, type, SEMAPHORE_TYPE_CREATE_INFO);
    HCQI_VK_STRUCT(SemaphoreCreateInfo, info, SEMAPHORE_CREATE_INFO);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    info.pNext = &type;
    return HCQI_VK_TRY(d, CreateSemaphore, (d->handle, &info, d->allocator, semaphore));
}

/* The queue of a lane: those of its family in turn, copy lanes behind compute
   lanes where they share a family. */
static hcqi_vk_queue *hcqi_vk_queue_for(hcqi_vk_device *d, hcq_queue_kind kind, uint32_t index) {
    const hcqi_vk_family *f = d->family_of[kind == HCQ_COPY];
    uint32_t count = 0;
    if (kind == HCQ_COPY && f == d->family_of[0]) { index += d->compute_lanes; }
    for (uint32_t i = 0; i < d->queue_count; i++) { count += d->queues[i].family == f; }
    index %= count;
    for (uint32_t i = 0;; i++) {
        if (d->queues[i].family == f && index-- == 0) { return &d->queues[i]; }
    }
}

/* ========================================================================== */
/* ---- devices ------------------------------------------------------------- */

/* The features of a device: what it can, or what an engine made it with. */
typedef struct hcqi_vk_features {
    VkPhysicalDeviceFeatures2 all;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceSynchronization2FeaturesKHR sync2;
    VkPhysicalDeviceMaintenance4FeaturesKHR maintenance4;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics;
} hcqi_vk_features;

static void hcqi_vk_features_chain(hcqi_vk_features *f, const hcqi_vk_device *d) {
    memset(f, 0, sizeof *f);
    f->all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->sync2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES_KHR;
    f->maintenance4.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES_KHR;
    f->statistics.sType =
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
    f->all.pNext = &f->v11;
    f->v11.pNext = &f->v12;
    if (d->has_sync2) { f->v12.pNext = &f->sync2; }
    if (d->has_maintenance4) {
        f->maintenance4.pNext = f->v12.pNext;
        f->v12.pNext = &f->maintenance4;
    }
    if (d->has_statistics) {
        f->statistics.pNext = f->v12.pNext;
        f->v12.pNext = &f->statistics;
    }
}

/* What kernels may want of what there is; all else costs something or is nothing for us. */
static void hcqi_vk_features_choose(hcqi_vk_features *f, const hcqi_vk_features *can) {
#define HCQI_VK_WANT(name, capability, where, feature) f->where.feature = can->where.feature;
    HCQI_VK_ABILITIES(HCQI_VK_WANT)
    HCQI_VK_WANT(LAYOUT, 0, v12, scalarBlockLayout)
    HCQI_VK_WANT(LAYOUT, 0, v12, uniformBufferStandardLayout)
    HCQI_VK_WANT(SUBGROUPS, 0, v12, shaderSubgroupExtendedTypes)
    HCQI_VK_WANT(LATE, 0, v12, descriptorBindingStorageBufferUpdateAfterBind)
    HCQI_VK_WANT(RESET, 0, v12, hostQueryReset)
    HCQI_VK_WANT(SYNC2, 0, sync2, synchronization2)
    HCQI_VK_WANT(STATISTICS, 0, statistics, pipelineExecutableInfo)
#undef HCQI_VK_WANT
    f->v12.timelineSemaphore = VK_TRUE;
    f->v12.bufferDeviceAddress = VK_TRUE;
}

/* Features that an engine may have asked for in structures of their own: where one is there,
   and here. */
#define HCQI_VK_PARTS(X)                                                           \
    X(16BIT_STORAGE, 16BitStorageFeatures, v11, storageBuffer16BitAccess)          \
    X(16BIT_STORAGE, 16BitStorageFeatures, v11, uniformAndStorageBuffer16BitAccess) \
    X(16BIT_STORAGE, 16BitStorageFeatures, v11, storagePushConstant16)             \
    X(8BIT_STORAGE, 8BitStorageFeatures, v12, storageBuffer8BitAccess)             \
    X(8BIT_STORAGE, 8BitStorageFeatures, v12, uniformAndStorageBuffer8BitAccess)   \
    X(8BIT_STORAGE, 8BitStorageFeatures, v12, storagePushConstant8)                \
    X(SHADER_FLOAT16_INT8, ShaderFloat16Int8Features, v12, shaderFloat16)          \
    X(SHADER_FLOAT16_INT8, ShaderFloat16Int8Features, v12, shaderInt8)             \
    X(SHADER_ATOMIC_INT64, ShaderAtomicInt64Features, v12, shaderBufferInt64Atomics) \
    X(DESCRIPTOR_INDEXING, DescriptorIndexingFeatures, v12,                        \
      descriptorBindingStorageBufferUpdateAfterBind)                               \
    X(HOST_QUERY_RESET, HostQueryResetFeatures, v12, hostQueryReset)               \
    X(SYNCHRONIZATION_2, Synchronization2FeaturesKHR, sync2, synchronization2)     \
    X(MAINTENANCE_4, Maintenance4FeaturesKHR, maintenance4, maintenance4)          \
    X(VULKAN_1_3, Vulkan13Features, sync2, synchronization2)                       \
    X(VULKAN_1_3, Vulkan13Features, maintenance4, maintenance4)

#define HCQI_VK_PART(s_type, type, where, feature)                                 \
    { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##s_type##_FEATURES,                       \
      offsetof(VkPhysicalDevice##type, feature), offsetof(hcqi_vk_features, where.feature) },
static const struct { int type; size_t from, to; } hcqi_vk_parts[] = {
    HCQI_VK_PARTS(HCQI_VK_PART)
};

/* An engine's own list, gathered from whatever structures it used. */
static void hcqi_vk_features_lent(hcqi_vk_features *f, const hcqi_vk_device *d,
                                  const VkPhysicalDeviceFeatures2 *lent) {
    hcqi_vk_features_chain(f, d);
    f->v12.timelineSemaphore = VK_TRUE;
    f->v12.bufferDeviceAddress = VK_TRUE;
    if (lent == NULL) { return; }
    f->all.features = lent->features;
    const VkBaseInStructure *s = HCQI_CAST(const VkBaseInStructure *, lent->pNext);
    for (; s != NULL; s = s->pNext) {
        if (s->sType == f->v11.sType) { f->v11 = *(const VkPhysicalDeviceVulkan11Features *)s; }
        if (s->sType == f->v12.sType) { f->v12 = *(const VkPhysicalDeviceVulkan12Features *)s; }
        if (s->sType == f->statistics.sType) {
            f->statistics = *(const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR *)s;
        }
        for (size_t i = 0; i < HCQI_VK_COUNT(hcqi_vk_parts); i++) {
            if (hcqi_vk_parts[i].type != (int)s->sType) { continue; }
            memcpy((char *)f + hcqi_vk_parts[i].to, (const char *)s + hcqi_vk_parts[i].from,
                   sizeof(VkBool32));
        }
    }
}

/* Extensions that are used where they are, or where an engine says so; `names` gets those to
   be enabled. */
static hcq_result hcqi_vk_extensions(hcqi_vk_device *d, const struct hcq_vulkan_desc *lent,
                                     const char **names, uint32_t *count) {
    enum { ROWS = 7 };
    const struct { const char *name; uint32_t off; int *has; } table[ROWS] = {
        { VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME, HCQ_VULKAN_NO_SYNC2, &d->has_sync2 },
        { VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, HCQ_VULKAN_NO_IMPORT, &d->has_import },
        { VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME, HCQ_VULKAN_NO_CALIBRATION, &d->has_clock },
        { VK_KHR_MAINTENANCE_4_EXTENSION_NAME, 0, &d->has_maintenance4 },
        { VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 0, &d->has_budget },
        { VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, 0, &d->has_statistics },
        { "VK_KHR_portability_subset", 0, NULL },
    };
    uint32_t found = 0;
    hcq_result r = HCQ_OK;
    for (uint32_t i = 0; i < ROWS; i++) {
        names[i] = table[i].name;
        for (uint32_t k = 0; lent != NULL && k < lent->extension_count; k++) {
            if (strcmp(lent->extensions[k], names[i]) == 0) { found |= 1u << i; }
        }
    }
    if (lent == NULL) {
        r = hcqi_vk_extensions_ask(d->driver, NULL, d->physical, names, ROWS, &found);
    }
    *count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        if ((d->flags & table[i].off) || !(found >> i & 1)) { continue; }
        if (table[i].has != NULL) { *table[i].has = 1; }
        names[(*count)++] = table[i].name;
    }
    return r;
}

/* Which queues there will be: compute lanes share family_of[0], copy lanes
   family_of[1]; where that is the same the copy lanes get queues of their own if
   there are enough. */
static void hcqi_vk_plan_queues(hcqi_vk_device *d, uint32_t wanted[HCQI_VK_FAMILIES]) {
    const VkQueueFlags also = VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
    uint32_t compute = UINT32_MAX, copy = UINT32_MAX;
    for (uint32_t i = 0; i < d->family_total; i++) {
        VkQueueFlags flags = d->all_families[i].queueFlags;
        int computes = (flags & VK_QUEUE_COMPUTE_BIT) != 0;
        int graphics = (flags & VK_QUEUE_GRAPHICS_BIT) != 0;
        int copies = (flags & ~also) == VK_QUEUE_TRANSFER_BIT; /* and nothing else */
        if (computes && (compute == UINT32_MAX || !graphics)) { compute = i; }
        if (copies && d->all_families[i].queueCount != 0 && copy == UINT32_MAX) { copy = i; }
    }
    int apart = copy != UINT32_MAX && d->copy_lanes != 0 && !(d->flags & HCQ_VULKAN_ONE_QUEUE);
    d->family_count = apart ? 2 : 1;
    d->families[0].index = compute;
    d->families[1].index = copy;
    d->family_of[0] = &d->families[0];
    d->family_of[1] = &d->families[apart];
    wanted[0] = d->compute_lanes + (apart ? 0 : d->copy_lanes);
    wanted[1] = d->copy_lanes;
    for (uint32_t i = 0; i < d->family_count; i++) {
        uint32_t most = d->all_families[d->families[i].index].queueCount;
        if (d->flags & HCQ_VULKAN_ONE_QUEUE) { most = 1; }
        if (wanted[i] > most) { wanted[i] = most; }
    }
}

static hcq_result hcqi_vk_device_functions(hcqi_vk_device *d) {
    const char *missing = hcqi_vk_functions(d->driver, d->handle, hcqi_vk_device_names,
                                            HCQI_VK_COUNT(hcqi_vk_device_names),
                                            HCQI_VK_DEVICE_NEEDED, &d->api);
    if (missing == NULL) { return HCQ_OK; }
    if (!d->lent && d->api.DestroyDevice != NULL) { d->api.DestroyDevice(d->handle, d->allocator); }
    d->handle = VK_NULL_HANDLE;        /* there is nothing that close could call */
    return hcqi_deny(d->device, HCQ_ERROR_NO_DEVICE, "the driver has no %s", missing);
}

/* A VkDevice of our own, with its queues. */
static hcq_result hcqi_vk_device_create(hcqi_vk_device *d, hcqi_vk_features *features) {
    hcqi_vk_features can;
    VkDeviceQueueCreateInfo queues[HCQI_VK_FAMILIES];
    const char *names[16];
    float priorities[HCQI_VK_QUEUES];
    uint32_t name_count, wanted[HCQI_VK_FAMILIES] = { 0, 0 };
    HCQI_PASS(hcqi_vk_extensions(d, NULL, names, &name_count));
    hcqi_vk_features_chain(&can, d);
    d->driver->api.GetPhysicalDeviceFeatures2(d->physical, &can.all);
    hcqi_vk_features_chain(features, d);
    hcqi_vk_features_choose(features, &can);
    hcqi_vk_plan_queues(d, wanted);
    for (uint32_t i = 0; i < HCQI_VK_QUEUES; i++) { priorities[i] = 1.0f; }
    memset(queues, 0, sizeof queues);
    for (uint32_t i = 0; i < d->family_count; i++) {
        queues[i].sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queues[i].queueFamilyIndex = d->families[i].index;
        queues[i].queueCount = wanted[i];
        queues[i].pQueuePriorities = priorities;
    }
    HCQI_VK_STRUCT(DeviceCreateInfo, info, DEVICE_CREATE_INFO);
    info.pNext = &features->all;
    info.queueCreateInfoCount = d->family_count;
    info.pQueueCreateInfos = queues;
    info.enabledExtensionCount = name_count;
    info.ppEnabledExtensionNames = names;
    VkResult r = d->driver->api.CreateDevice(d->physical, &info, d->allocator, &d->handle);
    HCQI_PASS(hcqi_vk_check(d, r, "vkCreateDevice"));
    HCQI_PASS(hcqi_vk_device_functions(d));
    for (uint32_t f = 0; f < d->family_count; f++) {
        for (uint32_t i = 0; i < wanted[f]; i++) {
            hcqi_vk_queue *q = &d->queues[d->queue_count++];
            q->family = &d->families[f];
            q->index = i;
            d->api.GetDeviceQueue(d->handle, q->family->index, i, &q->queue);
        }
    }
    return HCQ_OK;
}

static hcqi_vk_family *hcqi_vk_family_lent(hcqi_vk_device *d, uint32_t index) {
    for (uint32_t i = 0; i < d->family_count; i++) {
        if (d->families[i].index == index) { return &d->families[i]; }
    }
    if (d->family_count == HCQI_VK_FAMILIES) { return NULL; }
    d->families[d->family_count].index = index;
    return &d->families[d->family_count++];
}

/* What is wrong with the second part of a description, or NULL. */
static const char *hcqi_vk_lent_check(const struct hcq_vulkan_desc *desc) {
    if (desc->queue_count == 0 || desc->queues == NULL) { return "queues: there are none"; }
    for (uint32_t i = 0; i < desc->queue_count; i++) {
        if (desc->queues[i].queue == VK_NULL_HANDLE) { return "queues: one is NULL"; }
    }
    if (desc->extension_count != 0 && desc->extensions == NULL) { return "extensions: is NULL"; }
    for (uint32_t i = 0; i < desc->extension_count; i++) {
        if (desc->extensions[i] == NULL) { return "extensions: one is NULL"; }
    }
    return NULL;
}

/* As many lanes as queues, so that each has one. */
static void hcqi_vk_lanes_lent(hcqi_vk_device *d) {
    uint32_t lanes[2] = { 0, 0 };
    for (uint32_t i = 0; i < d->queue_count; i++) {
        lanes[d->queues[i].family != d->family_of[0]]++;
    }
    if (lanes[0] <= HCQI_VK_LANES) { d->compute_lanes = lanes[0]; }
    if (lanes[1] != 0 && lanes[1] <= HCQI_VK_COPY_LANES && d->copy_lanes != 0) {
        d->copy_lanes = lanes[1];
    }
}

/* An engine's device and queues. The first queue that computes leads: its family's
   are for compute lanes, those of another for copies. */
static hcq_result hcqi_vk_device_lent(hcqi_vk_device *d, const struct hcq_vulkan_desc *desc,
                                      hcqi_vk_features *features) {
    const char *names[16];
    uint32_t name_count;
    const char *bad = hcqi_vk_lent_check(desc);
    if (bad != NULL) { return hcqi_deny(d->device, HCQ_ERROR_INVALID, "vulkan.%s", bad); }
    (void)hcqi_vk_extensions(d, desc, names, &name_count);
    hcqi_vk_features_lent(features, d, desc->features);
    d->handle = desc->device;
    HCQI_PASS(hcqi_vk_device_functions(d));
    for (uint32_t pass = 0; pass < 2; pass++) { /* those that compute first */
        for (uint32_t i = 0; i < desc->queue_count && d->queue_count < HCQI_VK_QUEUES; i++) {
            uint32_t index = desc->queues[i].family;
            if (index >= d->family_total ||
                !(d->all_families[index].queueFlags & VK_QUEUE_COMPUTE_BIT) != (pass != 0)) {
                continue;
            }
            hcqi_vk_family *f = hcqi_vk_family_lent(d, index);
            if (f == NULL) { continue; }
            d->queues[d->queue_count].family = f;
            d->queues[d->queue_count].index = UINT32_MAX;
            d->queues[d->queue_count++].queue = desc->queues[i].queue;
        }
    }
    if (d->queue_count == 0 ||
        !(d->all_families[d->families[0].index].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        return hcqi_deny(d->device, HCQ_ERROR_INVALID, "vulkan.queues: none of them computes");
    }
    if (d->queue_count < desc->queue_count) {
        hcq_backend_log(d->device, HCQ_OK, "vulkan.queues: %u of %u are used", d->queue_count,
                        desc->queue_count);
    }
    d->family_of[0] = &d->families[0];
    d->family_of[1] = &d->families[d->family_count - 1];
    if (!d->lanes_asked) { hcqi_vk_lanes_lent(d); }
    return HCQ_OK;
}

static void hcqi_vk_families_open(hcqi_vk_device *d) {
    d->stamp_bits = 64;
    for (uint32_t i = 0; i < d->family_count; i++) {
        hcqi_vk_family *f = &d->families[i];
        const VkQueueFamilyProperties *p = &d->all_families[f->index];
        f->computes = (p->queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
        f->stages = VK_PIPELINE_STAGE_TRANSFER_BIT;
        if (f->computes) {
            f->stages |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                         VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT;
        }
        uint32_t bits = f->computes || d->has_host_reset ? p->timestampValidBits : 0;
        if (bits < d->stamp_bits) { d->stamp_bits = bits; } /* one clock for all: 0, the host's */
    }
}

static void hcqi_vk_limits_read(hcqi_vk_device *d) {
    HCQI_VK_STRUCT(PhysicalDeviceExternalMemoryHostPropertiesEXT, host,
                   PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
    HCQI_VK_STRUCT(PhysicalDeviceMaintenance4PropertiesKHR, four,
                   PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES_KHR);
    HCQI_VK_STRUCT(PhysicalDeviceVulkan11Properties, v11, PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    HCQI_VK_STRUCT(PhysicalDeviceVulkan12Properties, v12, PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    HCQI_VK_STRUCT(PhysicalDeviceProperties2, all, PHYSICAL_DEVICE_PROPERTIES_2);
    void *next = NULL;
    if (d->has_import) { next = &host; }
    if (d->has_maintenance4) {
        four.pNext = next;
        next = &four;
    }
    v12.pNext = next;
    v11.pNext = &v12;
    all.pNext = &v11;
    d->driver->api.GetPhysicalDeviceProperties2(d->physical, &all);
    d->is = all.properties;
    d->version = d->is.apiVersion;
    if (d->driver->version < d->version) { d->version = d->driver->version; }
    if (d->version > VK_API_VERSION_1_3) { d->version = VK_API_VERSION_1_3; }
    d->subgroups = v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT
                       ? v11.subgroupSupportedOperations : 0;
    d->subgroup_size = v11.subgroupSize;
    d->unified = d->is.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ||
                 d->is.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    d->max_allocation = v11.maxMemoryAllocationSize;
    d->max_buffer = d->has_maintenance4 ? four.maxBufferSize : 0;
    if (d->max_buffer == 0) { d->max_buffer = UINT64_MAX; }
    d->import_align = host.minImportedHostPointerAlignment;
    if (d->import_align == 0) { d->has_import = 0; }
    snprintf(d->driver_text, sizeof d->driver_text, "%.100s %.140s", v12.driverName,
             v12.driverInfo);
}

/* A score for a memory type, 0 = it will not do. All must be coherent: buffers
   have host pointers and no flush. `host`: HCQ_HOST_VISIBLE, HCQ_HOST_WRITES or 0. */
static uint32_t hcqi_vk_type_score(VkMemoryPropertyFlags flags, uint32_t host) {
    VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    VkMemoryPropertyFlags coherent = visible | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if (flags & (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
                 0xC0u /* AMD's device coherent ones */)) {
        return 0;
    }
    uint32_t local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
    uint32_t cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    if (host != 0 && (flags & coherent) != coherent) { return 0; }
    if (host == HCQ_HOST_WRITES) { return local * (2 - cached); }
    if (host != 0) { return 1 + 4 * cached + 2 * (1 - local); }
    if ((flags & visible) && (flags & coherent) != coherent) { return 0; }
    return 1 + 8 * local + (flags & visible ? 0u : 1u);
}

/* Chooses the memory types. All memory is the host's too where the device has none
   of its own, or has it cached. */
static hcq_result hcqi_vk_memory_open(hcqi_vk_device *d) {
    HCQI_VK_STRUCT(PhysicalDeviceMemoryProperties2, all, PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    static const uint32_t wanted[3] = { 0, HCQ_HOST_VISIBLE, HCQ_HOST_WRITES };
    uint32_t best[3] = { 0, 0, 0 }, type[3] = { 0, 0, 0 };
    hcqi_vk_block probe;               /* which types our buffers may lie in: all the same ones */
    VkMemoryRequirements needs;
    memset(&probe, 0, sizeof probe);
    d->driver->api.GetPhysicalDeviceMemoryProperties2(d->physical, &all);
    d->memory = all.memoryProperties;
    HCQI_PASS(hcqi_vk_buffer_create(d, &probe, HCQI_VK_ALIGN));
    d->api.GetBufferMemoryRequirements(d->handle, probe.buffer, &needs);
    d->api.DestroyBuffer(d->handle, probe.buffer, d->allocator);
    for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = d->memory.memoryTypes[i].propertyFlags;
        if ((needs.memoryTypeBits >> i & 1) == 0) { continue; }
        VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                     VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t score = hcqi_vk_type_score(flags, wanted[k]);
            int coherent = hcqi_vk_type_score(flags, HCQ_HOST_VISIBLE) != 0;
            if (k == 0 && coherent && d->unified && (flags & both) == both) { score += 32; }
            if (score <= best[k]) { continue; }
            best[k] = score;
            type[k] = i;
        }
    }
    d->device_type = type[0];
    d->host_type = type[1];
    d->writes_type = type[best[2] != 0 ? 2 : 1];
    if (best[0] == 0 || best[1] == 0) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_DEVICE, "the device has no memory for buffers");
    }
    VkMemoryPropertyFlags chosen = d->memory.memoryTypes[d->device_type].propertyFlags;
    int visible = (chosen & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
    int cheap = d->unified || (chosen & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    d->device_visible = visible && cheap && !(d->flags & HCQ_VULKAN_STAGED);
    return HCQ_OK;
}

static hcq_result hcqi_vk_now_open(hcqi_vk_device *d) {
    hcq_result r = hcqi_vk_semaphore_create(d, &d->now_semaphore);
    if (r == HCQ_OK) { r = hcqi_vk_semaphore_create(d, &d->kick_semaphore); }
    if (r == HCQ_OK) { r = hcqi_vk_pool_create(d, d->family_of[0]->index, &d->now_pool); }
    if (r == HCQ_OK && d->stamp_bits != 0) {
        r = hcqi_vk_queries_create(d, 1, &d->now_queries);
        if (r == HCQ_OK) { r = hcqi_vk_sample(d, 5, (uint64_t)5 * 1000000000); }
    }
    return r;
}

/* Both clocks readable at once? */
static void hcqi_vk_domains_read(hcqi_vk_device *d) {
    VkTimeDomainEXT domains[16];
    uint32_t count = 16;
    int device = 0;
    if (!d->has_clock) { return; }
    if (d->driver->api.GetPhysicalDeviceCalibrateableTimeDomainsEXT == NULL ||
        d->api.GetCalibratedTimestampsEXT == NULL ||
        d->driver->api.GetPhysicalDeviceCalibrateableTimeDomainsEXT(d->physical, &count,
                                                                    domains) < VK_SUCCESS) {
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        device |= domains[i] == VK_TIME_DOMAIN_DEVICE_EXT;
        d->has_monotonic |= domains[i] == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
    }
    d->has_clock = device;
}

static hcq_result hcqi_vk_cache_open(hcqi_vk_device *d, const struct hcq_vulkan_desc *desc) {
    const void *data = desc->cache;
    size_t size = desc->cache_size;
    HCQI_VK_STRUCT(PipelineCacheCreateInfo, info, PIPELINE_CACHE_CREATE_INFO);
    uint32_t head[4] = { 0, 0, 0, 0 };
    if (data != NULL && size >= 32) { memcpy(head, data, sizeof head); }
    if (head[0] >= 32 && head[0] <= size && head[1] == 1 && head[2] == d->is.vendorID &&
        head[3] == d->is.deviceID &&
        memcmp(HCQI_CAST(const char *, data) + 16, d->is.pipelineCacheUUID, 16) == 0) {
        info.initialDataSize = size;
        info.pInitialData = data;
    } else if (data != NULL && size != 0) {
        hcq_backend_log(d->device, HCQ_OK, "vulkan.cache: of another device or driver, ignored");
    }
    return HCQI_VK_TRY(d, CreatePipelineCache, (d->handle, &info, d->allocator, &d->cache));
}

static void hcqi_vk_close(void *self) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    if (d->handle != VK_NULL_HANDLE) {
        if (!d->lent) { (void)d->api.DeviceWaitIdle(d->handle); }
        if (d->lent && d->now_value != 0) { (void)hcqi_vk_now_wait(d, (uint64_t)2000000000); }
        while (d->block_count != 0) { hcqi_vk_block_destroy(d, d->blocks[--d->block_count]); }
        HCQI_VK_DESTROY(d, QueryPool, d->now_queries);
        HCQI_VK_DESTROY(d, CommandPool, d->now_pool);
        HCQI_VK_DESTROY(d, Semaphore, d->now_semaphore);
        HCQI_VK_DESTROY(d, Semaphore, d->kick_semaphore);
        HCQI_VK_DESTROY(d, PipelineCache, d->cache);
        if (!d->lent) { d->api.DestroyDevice(d->handle, d->allocator); }
    }
    if (d->driver == &d->own && !d->lent) { hcqi_vk_instance_close(&d->own); }
    hcqi_vk_messages_log(d);
    hcqi_delete(&d->hooks, d->blocks, d->block_capacity * sizeof *d->blocks);
    hcqi_delete(&d->hooks, d->ranges, d->range_capacity * sizeof *d->ranges);
    hcqi_delete(&d->hooks, d->nows, d->now_capacity * sizeof *d->nows);
    hcqi_delete(&d->hooks, d, sizeof *d);
}

/* The instance: shared, with validation, or an engine's. */
static hcq_result hcqi_vk_driver_choose(hcqi_vk_device *d, hcqi_vk_driver *shared,
                                        const struct hcq_vulkan_desc *desc, uint32_t ordinal) {
    d->driver = shared;
    d->own.memory = shared->memory;
    hcq_result r = HCQ_OK;
    if (d->lent) {
        d->driver = &d->own;
        d->own.instance = desc->instance;
        d->own.loader = desc->loader != NULL ? desc->loader : shared->loader;
        d->own.version = desc->api_version != 0 ? desc->api_version : VK_API_VERSION_1_2;
        d->own.failure = "vulkan.loader: is needed, there is no libvulkan";
        d->physical = desc->physical_device;
        r = d->own.loader != NULL ? hcqi_vk_instance_functions(&d->own) : HCQ_ERROR_NO_DEVICE;
    } else if (d->flags & HCQ_VULKAN_VALIDATION) {
        d->driver = &d->own;
        r = hcqi_vk_library_open(&d->own);
        if (r == HCQ_OK) { r = hcqi_vk_instance_open(&d->own, d); }
        if (r == HCQ_OK && d->validates) { hcqi_vk_messenger_open(&d->own, d); }
        if (r == HCQ_OK) { r = hcqi_vk_physical_list(&d->own); }
        if (r == HCQ_OK && !d->validates) {
            hcq_backend_log(d->device, HCQ_OK, "vulkan.flags: no layer, or no VK_EXT_debug_utils");
        }
    }
    if (r == HCQ_OK && d->physical == VK_NULL_HANDLE) {
        r = ordinal < d->driver->count ? HCQ_OK : HCQ_ERROR_NO_DEVICE;
        if (r == HCQ_OK) { d->physical = d->driver->physical[ordinal]; }
    }
    if (r != HCQ_OK) {
        hcq_backend_log(d->device, r, "vulkan: %s",
                        d->driver->failure != NULL ? d->driver->failure
                                                   : "there is no such device");
    }
    return r;
}

/* Everything between the handles of a device and its lanes. */
static hcq_result hcqi_vk_device_open(hcqi_vk_device *d, const struct hcq_vulkan_desc *desc) {
    hcqi_vk_features features;
    d->family_total = HCQI_VK_ALL_FAMILIES;
    d->driver->api.GetPhysicalDeviceQueueFamilyProperties(d->physical, &d->family_total,
                                                          d->all_families);
    HCQI_PASS(d->lent ? hcqi_vk_device_lent(d, desc, &features)
                      : hcqi_vk_device_create(d, &features));
#define HCQI_VK_HAS(name, capability, where, feature)                              \
    if (features.where.feature) { d->needs |= HCQI_VK_NEEDS_##name; }
    HCQI_VK_ABILITIES(HCQI_VK_HAS)
#undef HCQI_VK_HAS
    d->has_late_binding = features.v12.descriptorBindingStorageBufferUpdateAfterBind &&
                          !(d->flags & HCQ_VULKAN_NO_LATE_BINDING);
    d->has_host_reset = features.v12.hostQueryReset && d->api.ResetQueryPool != NULL;
    d->has_import = d->has_import && d->api.GetMemoryHostPointerPropertiesEXT != NULL;
    d->has_maintenance4 = d->has_maintenance4 && features.maintenance4.maintenance4;
    d->has_statistics = d->has_statistics && features.statistics.pipelineExecutableInfo &&
                        d->api.GetPipelineExecutableStatisticsKHR != NULL;
    hcqi_vk_limits_read(d);
    if (d->lent && d->version >= VK_API_VERSION_1_3) { /* which has it without the extension */
        d->has_sync2 = !(d->flags & HCQ_VULKAN_NO_SYNC2);
    }
    d->submit2 = !d->has_sync2 || !features.sync2.synchronization2 ? NULL
                 : d->api.QueueSubmit2 != NULL ? d->api.QueueSubmit2 : d->api.QueueSubmit2KHR;
    hcqi_vk_families_open(d);
    HCQI_PASS(hcqi_vk_memory_open(d));
    HCQI_PASS(hcqi_vk_cache_open(d, desc));
    hcqi_vk_domains_read(d);
    return hcqi_vk_now_open(d);
}

static void hcqi_vk_report(hcqi_vk_device *d, hcq_backend_caps *caps) {
    uint32_t shared = 1;
    memset(caps, 0, sizeof *caps);
    snprintf(caps->name, sizeof caps->name, "%.95s", d->is.deviceName);
    caps->compute_lanes = d->compute_lanes;
    caps->copy_lanes = d->copy_lanes;
    caps->imported_lanes = d->lent ? HCQI_VK_IMPORTED : 0;
    for (uint32_t i = 0; i < d->copy_lanes; i++) {
        shared &= hcqi_vk_queue_for(d, HCQ_COPY, i)->lanes_of[0] != 0;
    }
    caps->copy_shared = (int)shared;
    caps->indirect = 1;
    caps->host_times = d->stamp_bits == 0;
    caps->memory_bytes = hcqi_vk_memory_bytes(&d->memory);
    caps->features = d->device_visible ? (uint32_t)HCQ_FEATURE_HOST_MEMORY : 0;
    caps->features |= d->has_import ? (uint32_t)HCQ_FEATURE_IMPORT : 0;
    caps->features |= d->has_import && d->device_visible ? (uint32_t)HCQ_FEATURE_MAP : 0;
    caps->unlocked = 1;
}

static hcq_result hcqi_vk_open(void *driver, hcq_device *device, uint32_t ordinal,
                               const hcq_device_desc *desc, hcq_backend_caps *caps, void **self) {
    static struct hcq_vulkan_desc none;
    const struct hcq_vulkan_desc *own = desc->vulkan != NULL ? desc->vulkan : &none;
    HCQI_PASS(hcqi_flags_check(device, own->flags, HCQ_VULKAN_STAGED));
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, hcqi_new(&desc->memory, sizeof *d));
    if (d == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    d->device = device;
    d->hooks = desc->memory;
    d->flags = own->flags;
    d->lent = own->device != VK_NULL_HANDLE;
    d->lock_fn = own->lock_fn;
    d->lock_user = own->lock_user;
    d->allocator = own->allocator;
    d->lanes_asked = desc->compute_lanes != 0 || desc->copy_lanes != 0;
    d->compute_lanes = desc->compute_lanes != 0 ? desc->compute_lanes : 1;
    d->copy_lanes = desc->copy_lanes != 0 ? desc->copy_lanes : 1;
    if (d->compute_lanes > HCQI_VK_LANES) { d->compute_lanes = HCQI_VK_LANES; }
    if (d->copy_lanes > HCQI_VK_COPY_LANES) { d->copy_lanes = HCQI_VK_COPY_LANES; }
    if (desc->test->no_copy_lane) { d->copy_lanes = 0; }
    hcqi_vk_sync2_open(&d->sync2);
    hcq_result r = hcqi_vk_driver_choose(d, HCQI_CAST(hcqi_vk_driver *, driver), own, ordinal);
    if (r == HCQ_OK) { r = hcqi_vk_device_open(d, own); }
    if (r != HCQ_OK) {
        hcqi_vk_close(d);
        return r;
    }
    for (uint32_t i = 0; i < d->compute_lanes; i++) {
        hcqi_vk_queue_for(d, HCQ_COMPUTE, i)->lanes_of[0]++;
    }
    for (uint32_t i = 0; i < d->copy_lanes; i++) {
        hcqi_vk_queue_for(d, HCQ_COPY, i)->lanes_of[1]++;
    }
    hcqi_vk_report(d, caps);
    *self = d;
    return HCQ_OK;
}

/* ---- lanes ---- */

static void hcqi_vk_lane_free(hcqi_vk_device *d, hcqi_vk_lane *lane) {
    for (uint32_t i = 0; i < 2 && lane->queue != NULL; i++) {
        HCQI_VK_DESTROY(d, Semaphore, lane->semaphores[i]);
    }
    hcqi_delete(&d->hooks, lane->harvests, lane->harvest_capacity * sizeof *lane->harvests);
    hcqi_delete(&d->hooks, lane->imported, lane->imported_capacity * sizeof *lane->imported);
    hcqi_delete(&d->hooks, lane, sizeof *lane);
}

static hcqi_vk_lane **hcqi_vk_lane_place(hcqi_vk_device *d, const hcq_lane *target) {
    return target->imported ? &d->imported[target->index]
                            : &d->lanes[target->kind == HCQ_COPY][target->index];
}

static hcq_result hcqi_vk_lane_open(void *self, hcq_lane *target) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, hcqi_new(&d->hooks, sizeof *lane));
    hcq_result r = HCQ_OK;
    if (lane == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    if (!target->imported) {
        lane->queue = hcqi_vk_queue_for(d, target->kind, target->index);
        r = hcqi_vk_semaphore_create(d, &lane->semaphores[0]);
        if (r == HCQ_OK) { r = hcqi_vk_semaphore_create(d, &lane->semaphores[1]); }
    }
    if (r != HCQ_OK) {
        hcqi_vk_lane_free(d, lane);
        return r;
    }
    *hcqi_vk_lane_place(d, target) = lane;
    target->native = lane;
    return HCQ_OK;
}

/* The last batch has raised its semaphore, but a driver may not have ended with it. */
static void hcqi_vk_lane_close(void *self, hcq_lane *target) {
    hcqi_vk_device *d = HCQI_CAST(hcqi_vk_device *, self);
    hcqi_vk_lane *lane = HCQI_CAST(hcqi_vk_lane *, target->native);
    if (!d->lent && !d->drained) {
        (void)d->api.DeviceWaitIdle(d->handle);
        d->drained = 1;
    }
    *hcqi_vk_lane_place(d, target) = NULL;
    hcqi_vk_lane_free(d, lane);
}

static hcq_result hcqi_vk_query(void *self, uint32_t key, uint64_t *value) {
    const hcqi_vk_device *d = HCQI_CAST(const hcqi_vk_device *, self);
    const VkPhysicalDeviceLimits *most = &d->is.limits;
    uint32_t axis = ((uint32_t)key - HCQ_QUERY_MAX_BLOCK_X) % 3;
    switch (key) {
    case HCQ_QUERY_MAX_BLOCK: *value = most->maxComputeWorkGroupInvocations; return HCQ_OK;
    case HCQ_QUERY_MAX_BLOCK_X: case HCQ_QUERY_MAX_BLOCK_Y: case HCQ_QUERY_MAX_BLOCK_Z:
        *value = most->maxComputeWorkGroupSize[axis];
        return HCQ_OK;
    case HCQ_QUERY_MAX_GRID_X: case HCQ_QUERY_MAX_GRID_Y: case HCQ_QUERY_MAX_GRID_Z:
        *value = most->maxComputeWorkGroupCount[axis];
        return HCQ_OK;
    case HCQ_QUERY_SHARED_BYTES: *value = most->maxComputeSharedMemorySize; return HCQ_OK;
    case HCQ_QUERY_SUBGROUP: *value = d->subgroup_size; return HCQ_OK;
    case HCQ_QUERY_ADDRESS_ALIGN: *value = most->minStorageBufferOffsetAlignment; return HCQ_OK;
    case HCQ_QUERY_UNIFIED: *value = (uint64_t)d->unified; return HCQ_OK;
    case HCQ_VULKAN_QUERY_RECORDED: *value = hcqi_atomic_load64(&d->recorded); return HCQ_OK;
    case HCQ_VULKAN_QUERY_RECORDINGS: *value = hcqi_atomic_load64(&d->recordings); return HCQ_OK;
    case HCQ_VULKAN_QUERY_BATCHES: *value = hcqi_atomic_load64(&d->batches); return HCQ_OK;
    case HCQ_VULKAN_QUERY_SUBMITS: *value = hcqi_atomic_load64(&d->submits); return HCQ_OK;
    case HCQ_VULKAN_QUERY_WAITS: *value = hcqi_atomic_load64(&d->waits); return HCQ_OK;
    case HCQ_VULKAN_QUERY_PIPELINES: *value = hcqi_atomic_load64(&d->pipelines); return HCQ_OK;
    case HCQ_VULKAN_QUERY_BLOCKS: *value = d->block_count; return HCQ_OK;
    case HCQ_VULKAN_QUERY_BLOCK_BYTES: *value = d->block_bytes; return HCQ_OK;
    case HCQ_VULKAN_QUERY_MESSAGES:
        *value = hcqi_atomic_load64(&d->messages);
        return d->validates ? HCQ_OK : HCQ_ERROR_UNSUPPORTED;
    default: return HCQ_ERROR_UNSUPPORTED;
    }
}

static const hcq_backend *hcqi_vk_backend(void) {
    static const hcq_backend backend = {
        HCQ_BACKEND_VERSION, "VULKAN", "devices with Vulkan 1.2 or later",
        hcqi_vk_driver_create, hcqi_vk_driver_destroy, hcqi_vk_devices,
        hcqi_vk_why_none,
        hcqi_vk_open, hcqi_vk_close, hcqi_vk_lane_open, hcqi_vk_lane_close, hcqi_vk_query,
        hcqi_vk_alloc, hcqi_vk_dealloc, hcqi_vk_import, hcqi_vk_map, hcqi_vk_unmap,
        hcqi_vk_program_create, hcqi_vk_program_destroy, hcqi_vk_exec_check, hcqi_vk_statistics,
        hcqi_vk_encode, hcqi_vk_patch, hcqi_vk_encode_free,
        hcqi_vk_submit, NULL, hcqi_vk_give, hcqi_vk_completed, hcqi_vk_wait, hcqi_vk_kick,
        hcqi_vk_counter_reset, NULL,
        NULL /* can_wait: semaphores are not shared between devices */, NULL, hcqi_vk_clock,
        hcqi_vk_stamp_ns
    };
    return &backend;
}

/* ========================================================================== */
/* ---- for engines --------------------------------------------------------- */

/* The device of a call, with the core's lock; NULL: `why`. */
static hcqi_vk_device *hcqi_vk_from(hcq_device *device, hcq_result *why) {
    return HCQI_CAST(hcqi_vk_device *, hcq_backend_enter(device, hcqi_vk_backend(), why));
}

HCQI_DEF hcq_result hcq_vulkan_info_get(hcq_device *device, hcq_vulkan_info *info) {
    hcq_result r;
    if (info == NULL) { return hcqi_null("info"); }
    const hcqi_vk_device *d = hcqi_vk_from(device, &r);
    if (d == NULL) { return r; }
    memset(info, 0, sizeof *info);
    info->instance = d->driver->instance;
    info->physical_device = d->physical;
    info->device = d->handle;
    info->loader = d->driver->loader;
    info->api_version = d->version;
    memcpy(info->driver, d->driver_text, sizeof info->driver);
    return hcq_backend_leave(HCQ_OK);
}

HCQI_DEF hcq_result hcq_vulkan_lane(hcq_device *device, hcq_queue_kind kind, uint32_t index,
                                    hcq_vulkan_lane_info *info) {
    hcq_result r;
    if (info == NULL) { return hcqi_null("info"); }
    hcqi_vk_device *d = hcqi_vk_from(device, &r);
    if (d == NULL) { return r; }
    uint32_t count = kind == HCQ_COPY ? d->copy_lanes : d->compute_lanes;
    int known = kind == HCQ_COMPUTE || kind == HCQ_COPY;
    if (!known || index >= count) {
        return hcq_backend_leave(hcqi_deny(device, HCQ_ERROR_INVALID, "%s: %u of %u lanes",
                                           known ? "index" : "kind",
                                           known ? index : (uint32_t)kind, count));
    }
    const hcqi_vk_queue *q = hcqi_vk_queue_for(d, kind, index);
    memset(info, 0, sizeof *info);
    info->queue = q->queue;
    info->family = q->family->index;
    info->index = q->index;
    info->shared = q->lanes_of[0] + q->lanes_of[1];
    info->timestamp_bits = d->stamp_bits;
    return hcq_backend_leave(HCQ_OK);
}

HCQI_DEF hcq_result hcq_vulkan_buffer(hcq_buffer buffer, VkBuffer *handle, VkDeviceSize *offset) {
    hcq_result r;
    if (handle == NULL || offset == NULL) {
        return hcqi_null(handle != NULL ? "offset" : "handle");
    }
    *handle = VK_NULL_HANDLE;
    *offset = 0;
    hcqi_vk_device *d = hcqi_vk_from(buffer.device, &r);
    if (d == NULL) { return r; }
    r = hcq_backend_buffer(&buffer);
    if (r == HCQ_OK) { r = hcqi_vk_resolve(d, buffer.address, buffer.size, handle, offset); }
    return hcq_backend_leave(r);
}

/* Announces an engine's buffer, so that hcq_import takes its address for it. */
static hcq_result hcqi_vk_arrive(hcqi_vk_device *d, uint64_t size, hcqi_vk_arrival *a) {
    VkMemoryRequirements has;
    HCQI_VK_STRUCT(BufferDeviceAddressInfo, info, BUFFER_DEVICE_ADDRESS_INFO);
    info.buffer = a->buffer;
    a->address = d->api.GetBufferDeviceAddress(d->handle, &info);
    if ((uintptr_t)a->address != a->address) { return HCQ_ERROR_UNSUPPORTED; }
    d->api.GetBufferMemoryRequirements(d->handle, a->buffer, &has);
    uint32_t above = hcqi_vk_range_at(d, a->address + size - 1);
    const hcqi_vk_range *below = above != 0 ? d->ranges[above - 1] : NULL;
    int meets = below != NULL && hcqi_vk_address(below) + below->asked > a->address;
    if (meets || size > has.size) {
        return hcqi_deny(d->device, HCQ_ERROR_INVALID, meets ? "handle: overlaps a buffer of hcq's"
                                                             : "size: above the handle's");
    }
    a->next = d->arrivals;
    d->arrivals = a;
    return HCQ_OK;
}

HCQI_DEF hcq_result hcq_vulkan_buffer_import(hcq_device *device, VkBuffer handle, uint64_t size,
                                             hcq_buffer *buffer) {
    hcqi_vk_arrival own = { NULL, handle, 0 }, **link;
    hcq_result r, gone;
    if (buffer == NULL) { return hcqi_null("buffer"); }
    memset(buffer, 0, sizeof *buffer);
    if (handle == VK_NULL_HANDLE) { return hcqi_null("handle"); }
    HCQI_PASS(hcq_trim(device, UINT64_MAX)); /* those that were freed, and are done, go */
    hcqi_vk_device *d = hcqi_vk_from(device, &r);
    if (d == NULL) { return r; }
    HCQI_PASS(hcq_backend_leave(hcqi_vk_arrive(d, size, &own)));
    r = hcq_import(device, (void *)(uintptr_t)own.address, size, 0, buffer);
    d = hcqi_vk_from(device, &gone);
    if (d == NULL) { return gone; }
    for (link = &d->arrivals; *link != &own; link = &(*link)->next) { }
    *link = own.next;
    return hcq_backend_leave(r);
}

HCQI_DEF hcq_result hcq_vulkan_point(hcq_device *device, hcq_point point, VkSemaphore *semaphore,
                                     uint64_t *value) {
    hcq_lane_point found;
    hcq_result r;
    if (semaphore == NULL || value == NULL) {
        return hcqi_null(semaphore != NULL ? "value" : "semaphore");
    }
    *semaphore = VK_NULL_HANDLE;
    *value = 0;
    hcqi_vk_device *d = hcqi_vk_from(device, &r);
    if (d == NULL) { return r; }
    r = hcq_backend_point(device, point, &found);
    if (r == HCQ_OK && found.lane == NULL) {  /* reached before: any semaphore has 0 */
        *semaphore = d->now_semaphore;
    } else if (r == HCQ_OK) {
        hcq_backend_flush_soon(device); /* so that it is on its way when this returns */
        *value = hcqi_vk_value(&found, semaphore);
        if (*semaphore == VK_NULL_HANDLE) { *semaphore = d->now_semaphore; }
    }
    if (hcq_backend_leave(r) != HCQ_OK || found.lane == NULL || found.lane->imported) { return r; }
    if (hcqi_vk_from(device, &r) == NULL) { return r; }
    if (hcqi_atomic_load64(&HCQI_CAST(hcqi_vk_lane *, found.lane->native)->handed) < found.epoch) {
        *semaphore = VK_NULL_HANDLE; /* its turn has not come: an engine's wait on that queue */
        *value = 0;                  /* would be in its way */
        r = HCQ_NOT_READY;
    }
    return hcq_backend_leave(r);
}

/* A handle may come again: all that was asked of the lane's semaphore is reached, but this one is
   not as far, so it is a new one. */
static void hcqi_vk_imported_renew(hcqi_vk_device *d, hcqi_vk_lane *lane) {
    uint64_t value = 0;
    uint32_t left;
    (void)hcqi_vk_imported_completed(d, lane, &left);
    if (left == 0 &&
        hcqi_vk_count(d, lane->semaphores[0], &value) == VK_SUCCESS && value < lane->imported_last) {
        lane->imported_last = 0;
    }
}

/* The lane that follows a semaphore: its own, or one that nobody needs now. */
static hcqi_vk_lane *hcqi_vk_imported_find(hcqi_vk_device *d, VkSemaphore semaphore,
                                           uint32_t *index) {
    hcqi_vk_lane *spare = NULL;
    uint32_t left;
    for (uint32_t i = 0; i < HCQI_VK_IMPORTED; i++) {
        hcqi_vk_lane *lane = d->imported[i];
        if (lane->semaphores[0] == semaphore) {
            hcqi_vk_imported_renew(d, lane);
            *index = i;
            return lane;
        }
        (void)hcqi_vk_imported_completed(d, lane, &left);
        if (spare == NULL && left == 0) {
            spare = lane;
            *index = i;
        }
    }
    if (spare != NULL) {
        spare->semaphores[0] = semaphore; /* nobody reads it: nothing of it is left */
        spare->imported_last = 0;
    }
    return spare;
}

static hcq_result hcqi_vk_import_at(hcqi_vk_device *d, VkSemaphore semaphore, uint64_t value,
                                    hcq_point *point) {
    uint32_t index = 0;
    if (!d->lent) { return HCQ_ERROR_UNSUPPORTED; }
    hcqi_vk_lane *lane = hcqi_vk_imported_find(d, semaphore, &index);
    if (lane == NULL) {
        return hcqi_deny(d->device, HCQ_ERROR_LIMIT, "semaphore: more than %d at once",
                         (int)HCQI_VK_IMPORTED);
    }
    if (value <= lane->imported_last) {
        return hcqi_deny(d->device, HCQ_ERROR_INVALID, "value: %llu, the last one was %llu",
                         (unsigned long long)value, (unsigned long long)lane->imported_last);
    }
    hcq_result r = hcq_backend_post(d->device, index, value, point);
    if (r == HCQ_OK) { lane->imported_last = value; }
    return r;
}

HCQI_DEF hcq_result hcq_vulkan_point_import(hcq_device *device, VkSemaphore semaphore,
                                            uint64_t value, hcq_point *point) {
    hcq_result r;
    if (point == NULL) { return hcqi_null("point"); }
    memset(point, 0, sizeof *point);
    if (semaphore == VK_NULL_HANDLE) { return hcqi_null("semaphore"); }
    if (value > (uint64_t)INT64_MAX) {
        return hcqi_deny(NULL, HCQ_ERROR_INVALID, "value: above INT64_MAX");
    }
    hcqi_vk_device *d = hcqi_vk_from(device, &r);
    return d != NULL ? hcq_backend_leave(hcqi_vk_import_at(d, semaphore, value, point)) : r;
}

HCQI_DEF hcq_result hcq_vulkan_cache(hcq_device *device, void *data, size_t *size) {
    size_t needed = 0;
    hcq_result r;
    if (size == NULL) { return hcqi_null("size"); }
    hcqi_vk_device *d = hcqi_vk_from(device, &r);
    if (d == NULL) { return r; }
    VkResult got = d->api.GetPipelineCacheData(d->handle, d->cache, &needed, NULL);
    if (got == VK_SUCCESS && (data == NULL || needed > *size)) {
        *size = needed;
        return hcq_backend_leave(data != NULL ? HCQ_ERROR_LIMIT : HCQ_OK);
    }
    if (got == VK_SUCCESS) {
        needed = *size;
        got = d->api.GetPipelineCacheData(d->handle, d->cache, &needed, data);
    }
    if (got == VK_INCOMPLETE) {        /* it grew meanwhile */
        got = d->api.GetPipelineCacheData(d->handle, d->cache, &needed, NULL);
        *size = got == VK_SUCCESS ? needed : *size;
        if (got == VK_SUCCESS) { return hcq_backend_leave(HCQ_ERROR_LIMIT); }
    }
    if (got == VK_SUCCESS) { *size = needed; }
    return hcq_backend_leave(hcqi_vk_check(d, got, "vkGetPipelineCacheData"));
}

HCQI_DEF hcq_result hcq_vulkan_address(const hcq_vulkan_encoder *encoder, uint64_t address,
                                       VkBuffer *handle, VkDeviceSize *offset) {
    hcq_result r;
    if (encoder == NULL || handle == NULL || offset == NULL) { return HCQ_ERROR_INVALID; }
    const hcqi_vk_device *d =
        hcqi_vk_from(HCQI_CAST(const hcqi_vk_device *, encoder->self)->device, &r);
    const hcqi_vk_range *range = d != NULL ? hcqi_vk_owner(d, address, 1) : NULL;
    if (range != NULL) {
        *handle = range->block->buffer;
        *offset = address - range->block->address;
    }
    if (d != NULL) { (void)hcq_backend_leave(HCQ_OK); }
    return range != NULL ? HCQ_OK : HCQ_ERROR_INVALID;
}

HCQI_COLD_END

#endif /* HCQ_IMPLEMENTATION */
