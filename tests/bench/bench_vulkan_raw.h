/* bench_vulkan_raw.h - the other side of bench_vulkan.c: Vulkan without hcq.

   On hcq's device, queue and memory, with commands and a timeline semaphore of its own. Functions
   come from vkGetDeviceProcAddr, as hcq's do: none goes through the loader's trampoline.
*/
#pragma once

#include "bench.h"

#include <string.h>
#include <vulkan/vulkan.h>

#define RAW_FNS(X)                                                                 \
    X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) X(CreateCommandPool)  \
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
#define RAW_MEMBER(name) PFN_vk##name name;
    RAW_FNS(RAW_MEMBER)
} raw;

static void raw_check(VkResult result, const char *what) {
    if (result < 0) {
        bench_die("vk%s: Vulkan error %d", what, (int)result);
    }
}
#define RAW(r, call) raw_check((r)->call, #call)

/* ---- opening ------------------------------------------------------------- */

/* On hcq's device, which is of Vulkan 1.3, and the queue of one of its lanes. */
static void raw_open(raw *r, const hcq_vulkan_info *on, const hcq_vulkan_lane_info *lane) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                       .pNext = &type};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = lane->family};
    PFN_vkGetDeviceProcAddr get =
        (PFN_vkGetDeviceProcAddr)on->loader(on->instance, "vkGetDeviceProcAddr");
    *r = (raw){.device = on->device, .queue = lane->queue};
#define RAW_LOAD(name) r->name = (PFN_vk##name)get(r->device, "vk" #name);
    RAW_FNS(RAW_LOAD)
    RAW(r, CreateSemaphore(r->device, &semaphore, NULL, &r->semaphore));
    RAW(r, CreateCommandPool(r->device, &pool, NULL, &r->pool));
}

/* Once all of it is done. */
static void raw_close(raw *r) {
    r->DestroyPipeline(r->device, r->pipeline, NULL);
    r->DestroyPipelineLayout(r->device, r->layout, NULL);
    r->DestroyCommandPool(r->device, r->pool, NULL);
    r->DestroySemaphore(r->device, r->semaphore, NULL);
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

static void raw_copy(const raw *r, VkCommandBuffer commands, hcq_buffer dst, hcq_buffer src,
                     uint64_t size) {
    VkBuffer to, from;
    VkBufferCopy region = {.size = size};
    CHECK(hcq_vulkan_buffer(dst, &to, &region.dstOffset));
    CHECK(hcq_vulkan_buffer(src, &from, &region.srcOffset));
    r->CmdCopyBuffer(commands, from, to, 1, &region);
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
