/* bench_vulkan_raw.h - the other side of bench_vulkan.c: Vulkan without hcq.

   A device of its own on hcq's instance, one queue, one timeline semaphore. Functions
   come from vkGetDeviceProcAddr, as hcq's do: none goes through the loader's trampoline.
*/
#pragma once

#include "bench.h"

#include <string.h>
#include <vulkan/vulkan.h>

#define RAW_FNS(X)                                                                 \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(CreateSemaphore)        \
    X(DestroySemaphore) X(WaitSemaphores) X(AllocateMemory) X(FreeMemory)          \
    X(MapMemory) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)   \
    X(BindBufferMemory) X(GetBufferDeviceAddress) X(CreateCommandPool)             \
    X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer)          \
    X(EndCommandBuffer) X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch)      \
    X(CmdCopyBuffer) X(CmdPipelineBarrier) X(CreateShaderModule)                   \
    X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout)        \
    X(CreateComputePipelines) X(DestroyPipeline) X(QueueSubmit2)

typedef struct raw {
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkSemaphore semaphore;
    uint64_t value;                       /* that the semaphore was last told to reach */
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkPhysicalDeviceMemoryProperties memory;
#define RAW_MEMBER(name) PFN_vk##name name;
    RAW_FNS(RAW_MEMBER)
} raw;

/* A buffer with memory of its own, mapped. */
typedef struct raw_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    void *host;
} raw_buffer;

static void raw_check(VkResult result, const char *what) {
    if (result < 0) {
        bench_die("vk%s: Vulkan error %d", what, (int)result);
    }
}
#define RAW(r, call) raw_check((r)->call, #call)

/* ---- opening ------------------------------------------------------------- */

static void raw_device(raw *r, const hcq_vulkan_info *on, uint32_t family) {
    float priority = 1.0f;
    VkPhysicalDeviceVulkan13Features features13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
        .synchronization2 = VK_TRUE};
    VkPhysicalDeviceVulkan12Features features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = &features13,
        .timelineSemaphore = VK_TRUE,
        .bufferDeviceAddress = VK_TRUE};
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue};
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)on->loader(on->instance, "vkCreateDevice");
    PFN_vkGetDeviceProcAddr get =
        (PFN_vkGetDeviceProcAddr)on->loader(on->instance, "vkGetDeviceProcAddr");
    PFN_vkGetPhysicalDeviceMemoryProperties memory = (PFN_vkGetPhysicalDeviceMemoryProperties)
        on->loader(on->instance, "vkGetPhysicalDeviceMemoryProperties");
    raw_check(create(on->physical_device, &info, NULL, &r->device), "CreateDevice");
    memory(on->physical_device, &r->memory);
#define RAW_LOAD(name) r->name = (PFN_vk##name)get(r->device, "vk" #name);
    RAW_FNS(RAW_LOAD)
}

/* Opens hcq's device, which is of Vulkan 1.3, with the queue family that hcq uses. */
static void raw_open(raw *r, const hcq_vulkan_info *on, uint32_t family) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                       .pNext = &type};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = family};
    memset(r, 0, sizeof *r);
    raw_device(r, on, family);
    r->GetDeviceQueue(r->device, family, 0, &r->queue);
    RAW(r, CreateSemaphore(r->device, &semaphore, NULL, &r->semaphore));
    RAW(r, CreateCommandPool(r->device, &pool, NULL, &r->pool));
}

/* Once the device is idle. */
static void raw_close(raw *r) {
    r->DestroyPipeline(r->device, r->pipeline, NULL);
    r->DestroyPipelineLayout(r->device, r->layout, NULL);
    r->DestroyCommandPool(r->device, r->pool, NULL);
    r->DestroySemaphore(r->device, r->semaphore, NULL);
    r->DestroyDevice(r->device, NULL);
}

/* ---- memory and pipelines ------------------------------------------------ */

static uint32_t raw_memory_type(const raw *r, uint32_t bits) {
    VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (uint32_t i = 0; i < r->memory.memoryTypeCount; i++) {
        if ((bits >> i & 1) && (r->memory.memoryTypes[i].propertyFlags & wanted) == wanted) {
            return i;
        }
    }
    bench_die("no memory type for the host");
}

static raw_buffer raw_buffer_make(raw *r, uint64_t size) {
    raw_buffer b;
    VkMemoryRequirements needs;
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                        VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    RAW(r, CreateBuffer(r->device, &info, NULL, &b.buffer));
    r->GetBufferMemoryRequirements(r->device, b.buffer, &needs);
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .pNext = &flags,
                                   .allocationSize = needs.size,
                                   .memoryTypeIndex = raw_memory_type(r, needs.memoryTypeBits)};
    RAW(r, AllocateMemory(r->device, &memory, NULL, &b.memory));
    RAW(r, BindBufferMemory(r->device, b.buffer, b.memory, 0));
    RAW(r, MapMemory(r->device, b.memory, 0, VK_WHOLE_SIZE, 0, &b.host));
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                         .buffer = b.buffer};
    b.address = r->GetBufferDeviceAddress(r->device, &address);
    memset(b.host, 0, (size_t)size);
    return b;
}

static void raw_buffer_free(raw *r, raw_buffer *b) {
    r->DestroyBuffer(r->device, b->buffer, NULL);
    r->FreeMemory(r->device, b->memory, NULL);
}

/* A pipeline whose push constants are one pointer. */
static void raw_pipeline(raw *r, const uint32_t *words, size_t size) {
    VkShaderModule module;
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = size,
                                     .pCode = words};
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    RAW(r, CreateShaderModule(r->device, &code, NULL, &module));
    RAW(r, CreatePipelineLayout(r->device, &layout, NULL, &r->layout));
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = r->layout};
    RAW(r, CreateComputePipelines(r->device, VK_NULL_HANDLE, 1, &info, NULL, &r->pipeline));
    r->DestroyShaderModule(r->device, module, NULL);
}

/* ---- commands ------------------------------------------------------------ */

static VkCommandBuffer raw_commands(raw *r) {
    VkCommandBuffer commands;
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = r->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    RAW(r, AllocateCommandBuffers(r->device, &info, &commands));
    return commands;
}

static void raw_barrier(const raw *r, VkCommandBuffer commands, VkPipelineStageFlags before,
                        VkPipelineStageFlags after, VkAccessFlags access) {
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                               .dstAccessMask = access};
    r->CmdPipelineBarrier(commands, before, after, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Begins with what orders it behind everything earlier on the queue. */
static void raw_begin(const raw *r, VkCommandBuffer commands) {
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    RAW(r, BeginCommandBuffer(commands, &info));
    raw_barrier(r, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

/* Between two commands: the second sees what the first wrote. */
static void raw_between(const raw *r, VkCommandBuffer commands) {
    VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    raw_barrier(r, commands, stages, stages,
                VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

/* Ends with what lets the host see it. */
static void raw_end(const raw *r, VkCommandBuffer commands) {
    raw_barrier(r, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                VK_ACCESS_HOST_READ_BIT);
    RAW(r, EndCommandBuffer(commands));
}

static void raw_dispatch(const raw *r, VkCommandBuffer commands, VkDeviceAddress args) {
    r->CmdPushConstants(commands, r->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof args, &args);
    r->CmdDispatch(commands, 1, 1, 1);
}

static void raw_copy(const raw *r, VkCommandBuffer commands, const raw_buffer *dst,
                     const raw_buffer *src, uint64_t size) {
    VkBufferCopy region = {0, 0, size};
    r->CmdCopyBuffer(commands, src->buffer, dst->buffer, 1, &region);
}

/* Raises the semaphore by 1 when the commands are done. */
static void raw_submit(raw *r, VkCommandBuffer commands) {
    VkCommandBufferSubmitInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                        .commandBuffer = commands};
    VkSemaphoreSubmitInfo signal = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                    .semaphore = r->semaphore,
                                    .value = ++r->value,
                                    .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    VkSubmitInfo2 info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                          .commandBufferInfoCount = 1,
                          .pCommandBufferInfos = &buffer,
                          .signalSemaphoreInfoCount = 1,
                          .pSignalSemaphoreInfos = &signal};
    RAW(r, QueueSubmit2(r->queue, 1, &info, VK_NULL_HANDLE));
}

/* Until everything submitted is done. */
static void raw_wait(raw *r) {
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &r->semaphore,
                                .pValues = &r->value};
    RAW(r, WaitSemaphores(r->device, &info, UINT64_MAX));
}
