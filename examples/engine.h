/* engine.h - the engine of engine.c: a VkDevice with one queue, and a picture that it draws
   particles into. Plain Vulkan 1.3, which knows nothing of hcq; engine.c is about that.

   The shaders were made by, for `vert` and `frag`,

       glslangValidator -V -g0 --vn engine_vert -o examples/engine.vert.h examples/engine.vert */
#pragma once
#include "engine.vert.h"
#include "engine.frag.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum { PARTICLES = 10000, PARTICLE_BYTES = PARTICLES * sizeof(particle) };

/* An empty structure of Vulkan's: STRUCT(SubmitInfo2, info, SUBMIT_INFO_2). */
#define STRUCT(type, name, s_type)                                                 \
    Vk##type name;                                                                 \
    memset(&name, 0, sizeof name);                                                 \
    name.sType = VK_STRUCTURE_TYPE_##s_type

/* What fails here ends the program. */
static void sure(int good, const char *doing, int code) {
    if (!good) {
        fprintf(stderr, "engine: %s: %d\n", doing, code);
        exit(1);
    }
}

static void vk(VkResult result, const char *doing) { sure(result == VK_SUCCESS, doing, result); }

/* ---- a device with one queue --------------------------------------------- */

typedef struct engine {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceVulkan13Features v13;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceFeatures2 features;
    VkDevice device;
    uint32_t family;
    VkQueue queue;
    pthread_mutex_t queue_lock;
    VkSemaphore frames;                /* timeline: so many are drawn */
    VkCommandPool pool;
    VkBuffer particles;
    VkDeviceMemory particle_memory;
    VkImage picture;
    VkDeviceMemory picture_memory;
    VkImageView view;
    VkPipelineLayout layout;
    VkPipeline points;
    VkCommandBuffer first, next;       /* draw a frame */
} engine;

static void open_instance(engine *e) {
    uint32_t count = 1;
    VkPhysicalDeviceProperties is;
    STRUCT(ApplicationInfo, app, APPLICATION_INFO);
    STRUCT(InstanceCreateInfo, info, INSTANCE_CREATE_INFO);
    app.apiVersion = VK_API_VERSION_1_3;
    info.pApplicationInfo = &app;
    vk(vkCreateInstance(&info, NULL, &e->instance), "no Vulkan");
    VkResult r = vkEnumeratePhysicalDevices(e->instance, &count, &e->physical);
    sure(r >= 0 && count == 1, "no Vulkan device", r);
    vkGetPhysicalDeviceProperties(e->physical, &is);
    sure(is.apiVersion >= VK_API_VERSION_1_3, "no Vulkan 1.3", (int)is.apiVersion);
}

/* What draws and computes. */
static uint32_t choose_family(const engine *e) {
    const VkQueueFlags wanted = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    VkQueueFamilyProperties families[16];
    uint32_t count = 16, i = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(e->physical, &count, families);
    while (i < count && (families[i].queueFlags & wanted) != wanted) { i++; }
    sure(i < count, "no queue for graphics", 0);
    return i;
}

/* The last two features are the engine's own. */
static void open_device(engine *e) {
    const float priority = 1;
    STRUCT(DeviceQueueCreateInfo, queue, DEVICE_QUEUE_CREATE_INFO);
    STRUCT(DeviceCreateInfo, info, DEVICE_CREATE_INFO);
    e->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    e->features.pNext = &e->v12;
    e->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    e->v12.pNext = &e->v13;
    e->v12.timelineSemaphore = e->v12.bufferDeviceAddress = VK_TRUE;
    e->v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    e->v13.synchronization2 = e->v13.dynamicRendering = VK_TRUE;
    queue.queueFamilyIndex = e->family = choose_family(e);
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    info.pNext = &e->features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    vk(vkCreateDevice(e->physical, &info, NULL, &e->device), "device");
    vkGetDeviceQueue(e->device, e->family, 0, &e->queue);
    pthread_mutex_init(&e->queue_lock, NULL);
}

static void open_frames(engine *e) {
    STRUCT(SemaphoreTypeCreateInfo, type, SEMAPHORE_TYPE_CREATE_INFO);
    STRUCT(SemaphoreCreateInfo, semaphore, SEMAPHORE_CREATE_INFO);
    STRUCT(CommandPoolCreateInfo, pool, COMMAND_POOL_CREATE_INFO);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    semaphore.pNext = &type;
    vk(vkCreateSemaphore(e->device, &semaphore, NULL, &e->frames), "semaphore");
    pool.queueFamilyIndex = e->family;
    vk(vkCreateCommandPool(e->device, &pool, NULL, &e->pool), "command pool");
}

/* Any memory that will do, on the device if there is some. */
static VkDeviceMemory allocate(const engine *e, VkMemoryRequirements needs) {
    VkPhysicalDeviceMemoryProperties all;
    VkDeviceMemory memory;
    STRUCT(MemoryAllocateFlagsInfo, flags, MEMORY_ALLOCATE_FLAGS_INFO);
    STRUCT(MemoryAllocateInfo, info, MEMORY_ALLOCATE_INFO);
    vkGetPhysicalDeviceMemoryProperties(e->physical, &all);
    for (uint32_t i = all.memoryTypeCount; i-- > 0;) {
        int local = (all.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
        int fits = (needs.memoryTypeBits >> i & 1) != 0;
        if (fits && (local || info.allocationSize == 0)) {
            info.memoryTypeIndex = i;
            info.allocationSize = needs.size;
        }
    }
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT; /* kernels take addresses */
    info.pNext = &flags;
    vk(vkAllocateMemory(e->device, &info, NULL, &memory), "memory");
    return memory;
}

/* Vertices; the rest of its usage is what hcq_vulkan_buffer_import asks for. */
static void make_particles(engine *e) {
    VkMemoryRequirements needs;
    STRUCT(BufferCreateInfo, info, BUFFER_CREATE_INFO);
    info.size = PARTICLE_BYTES;
    info.usage = VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_VERTEX_BUFFER_BIT;
    vk(vkCreateBuffer(e->device, &info, NULL, &e->particles), "particles");
    vkGetBufferMemoryRequirements(e->device, e->particles, &needs);
    e->particle_memory = allocate(e, needs);
    vk(vkBindBufferMemory(e->device, e->particles, e->particle_memory, 0), "particles");
}

static const VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;
static const VkImageSubresourceRange whole = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 };

static void make_picture(engine *e) {
    VkMemoryRequirements needs;
    STRUCT(ImageCreateInfo, info, IMAGE_CREATE_INFO);
    STRUCT(ImageViewCreateInfo, view, IMAGE_VIEW_CREATE_INFO);
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = view.format = format;
    info.extent.width = WIDTH;
    info.extent.height = HEIGHT;
    info.extent.depth = info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    vk(vkCreateImage(e->device, &info, NULL, &e->picture), "picture");
    vkGetImageMemoryRequirements(e->device, e->picture, &needs);
    e->picture_memory = allocate(e, needs);
    vk(vkBindImageMemory(e->device, e->picture, e->picture_memory, 0), "picture");
    view.image = e->picture;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.subresourceRange = whole;
    vk(vkCreateImageView(e->device, &view, NULL, &e->view), "picture");
}

/* ---- the pipeline -------------------------------------------------------- */

static VkPipelineShaderStageCreateInfo stage(const engine *e, VkShaderStageFlagBits which,
                                             const uint32_t *words, size_t size) {
    STRUCT(ShaderModuleCreateInfo, module, SHADER_MODULE_CREATE_INFO);
    STRUCT(PipelineShaderStageCreateInfo, info, PIPELINE_SHADER_STAGE_CREATE_INFO);
    module.codeSize = size;
    module.pCode = words;
    info.stage = which;
    info.pName = "main";
    vk(vkCreateShaderModule(e->device, &module, NULL, &info.module), "shader");
    return info;
}

/* Points, each of which adds its light to the pixel that it is on. */
static void make_pipeline(engine *e) {
    static const VkVertexInputBindingDescription binding = { 0, sizeof(particle),
                                                             VK_VERTEX_INPUT_RATE_VERTEX };
    static const VkVertexInputAttributeDescription attributes[2] = {
        { 0, 0, VK_FORMAT_R32G32_SFLOAT, offsetof(particle, x) },
        { 1, 0, VK_FORMAT_R8G8B8A8_UNORM, offsetof(particle, light) }
    };
    static const VkViewport viewport = { 0, 0, WIDTH, HEIGHT, 0, 1 };
    static const VkRect2D all = { { 0, 0 }, { WIDTH, HEIGHT } };
    VkPipelineColorBlendAttachmentState add;
    STRUCT(PipelineLayoutCreateInfo, layout, PIPELINE_LAYOUT_CREATE_INFO);
    STRUCT(PipelineVertexInputStateCreateInfo, vertices, PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO);
    STRUCT(PipelineInputAssemblyStateCreateInfo, points, PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO);
    STRUCT(PipelineViewportStateCreateInfo, area, PIPELINE_VIEWPORT_STATE_CREATE_INFO);
    STRUCT(PipelineRasterizationStateCreateInfo, raster, PIPELINE_RASTERIZATION_STATE_CREATE_INFO);
    STRUCT(PipelineMultisampleStateCreateInfo, samples, PIPELINE_MULTISAMPLE_STATE_CREATE_INFO);
    STRUCT(PipelineColorBlendStateCreateInfo, blend, PIPELINE_COLOR_BLEND_STATE_CREATE_INFO);
    STRUCT(PipelineRenderingCreateInfo, target, PIPELINE_RENDERING_CREATE_INFO);
    STRUCT(GraphicsPipelineCreateInfo, info, GRAPHICS_PIPELINE_CREATE_INFO);
    VkPipelineShaderStageCreateInfo stages[2] = {
        stage(e, VK_SHADER_STAGE_VERTEX_BIT, engine_vert, sizeof engine_vert),
        stage(e, VK_SHADER_STAGE_FRAGMENT_BIT, engine_frag, sizeof engine_frag)
    };
    vk(vkCreatePipelineLayout(e->device, &layout, NULL, &e->layout), "pipeline");
    vertices.vertexBindingDescriptionCount = 1;
    vertices.pVertexBindingDescriptions = &binding;
    vertices.vertexAttributeDescriptionCount = 2;
    vertices.pVertexAttributeDescriptions = attributes;
    points.topology = VK_PRIMITIVE_TOPOLOGY_POINT_LIST;
    area.viewportCount = area.scissorCount = 1;
    area.pViewports = &viewport;
    area.pScissors = &all;
    raster.lineWidth = 1;
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    memset(&add, 0, sizeof add);
    add.blendEnable = VK_TRUE;
    add.srcColorBlendFactor = add.dstColorBlendFactor = VK_BLEND_FACTOR_ONE;
    add.colorWriteMask = VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_G_BIT |
                         VK_COLOR_COMPONENT_B_BIT;
    blend.attachmentCount = 1;
    blend.pAttachments = &add;
    target.colorAttachmentCount = 1;
    target.pColorAttachmentFormats = &format;
    info.pNext = &target;
    info.stageCount = 2;
    info.pStages = stages;
    info.pVertexInputState = &vertices;
    info.pInputAssemblyState = &points;
    info.pViewportState = &area;
    info.pRasterizationState = &raster;
    info.pMultisampleState = &samples;
    info.pColorBlendState = &blend;
    info.layout = e->layout;
    vk(vkCreateGraphicsPipelines(e->device, VK_NULL_HANDLE, 1, &info, NULL, &e->points),
       "pipeline");
    vkDestroyShaderModule(e->device, stages[0].module, NULL);
    vkDestroyShaderModule(e->device, stages[1].module, NULL);
}

/* ---- commands ------------------------------------------------------------ */

/* To be submitted any number of times, also while it runs. */
static VkCommandBuffer begin(const engine *e) {
    VkCommandBuffer commands;
    STRUCT(CommandBufferAllocateInfo, info, COMMAND_BUFFER_ALLOCATE_INFO);
    STRUCT(CommandBufferBeginInfo, how, COMMAND_BUFFER_BEGIN_INFO);
    info.commandPool = e->pool;
    info.commandBufferCount = 1;
    how.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    vk(vkAllocateCommandBuffers(e->device, &info, &commands), "commands");
    vk(vkBeginCommandBuffer(commands, &how), "commands");
    return commands;
}

static void change_layout(const engine *e, VkCommandBuffer commands, VkImageLayout from,
                          VkImageLayout to) {
    STRUCT(ImageMemoryBarrier2, change, IMAGE_MEMORY_BARRIER_2);
    STRUCT(DependencyInfo, info, DEPENDENCY_INFO);
    change.srcStageMask = change.dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
    change.srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT;
    change.dstAccessMask = VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT;
    change.oldLayout = from;
    change.newLayout = to;
    change.srcQueueFamilyIndex = change.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    change.image = e->picture;
    change.subresourceRange = whole;
    info.imageMemoryBarrierCount = 1;
    info.pImageMemoryBarriers = &change;
    vkCmdPipelineBarrier2(commands, &info);
}

/* Adds the particles to the picture, the first time to a black one. */
static VkCommandBuffer record_draw(const engine *e, int first) {
    const VkDeviceSize offset = 0;
    VkCommandBuffer commands = begin(e);
    STRUCT(RenderingAttachmentInfo, target, RENDERING_ATTACHMENT_INFO);
    STRUCT(RenderingInfo, info, RENDERING_INFO);
    target.imageView = e->view;
    target.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
    target.loadOp = first ? VK_ATTACHMENT_LOAD_OP_CLEAR : VK_ATTACHMENT_LOAD_OP_LOAD;
    target.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    info.renderArea.extent.width = WIDTH;
    info.renderArea.extent.height = HEIGHT;
    info.layerCount = info.colorAttachmentCount = 1;
    info.pColorAttachments = &target;
    if (first) {
        change_layout(e, commands, VK_IMAGE_LAYOUT_UNDEFINED, target.imageLayout);
    }
    vkCmdBeginRendering(commands, &info);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, e->points);
    vkCmdBindVertexBuffers(commands, 0, 1, &e->particles, &offset);
    vkCmdDraw(commands, PARTICLES, 1, 0, 0);
    vkCmdEndRendering(commands);
    vk(vkEndCommandBuffer(commands), "commands");
    return commands;
}

/* Copies the picture to where the host reads it. */
static VkCommandBuffer record_copy(const engine *e, VkBuffer to, VkDeviceSize offset) {
    VkBufferImageCopy region;
    VkCommandBuffer commands = begin(e);
    STRUCT(MemoryBarrier2, seen, MEMORY_BARRIER_2);
    STRUCT(DependencyInfo, info, DEPENDENCY_INFO);
    memset(&region, 0, sizeof region);
    region.bufferOffset = offset;
    region.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    region.imageSubresource.layerCount = region.imageExtent.depth = 1;
    region.imageExtent.width = WIDTH;
    region.imageExtent.height = HEIGHT;
    change_layout(e, commands, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                  VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    vkCmdCopyImageToBuffer(commands, e->picture, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, to, 1,
                           &region);
    seen.srcStageMask = VK_PIPELINE_STAGE_2_COPY_BIT;
    seen.srcAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT;
    seen.dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT;
    seen.dstAccessMask = VK_ACCESS_2_HOST_READ_BIT;
    info.memoryBarrierCount = 1;
    info.pMemoryBarriers = &seen;
    vkCmdPipelineBarrier2(commands, &info);
    vk(vkEndCommandBuffer(commands), "commands");
    return commands;
}

static void lock_queue(engine *e) { pthread_mutex_lock(&e->queue_lock); }

static void unlock_queue(engine *e) { pthread_mutex_unlock(&e->queue_lock); }

/* Runs commands once `wait` is at `wait_value`, then `frames` is at `frame`. */
static void submit(engine *e, VkCommandBuffer commands, VkSemaphore wait, uint64_t wait_value,
                   uint64_t frame) {
    STRUCT(SemaphoreSubmitInfo, before, SEMAPHORE_SUBMIT_INFO);
    STRUCT(SemaphoreSubmitInfo, after, SEMAPHORE_SUBMIT_INFO);
    STRUCT(CommandBufferSubmitInfo, work, COMMAND_BUFFER_SUBMIT_INFO);
    STRUCT(SubmitInfo2, info, SUBMIT_INFO_2);
    before.semaphore = wait;
    before.value = wait_value;
    after.semaphore = e->frames;
    after.value = frame;
    before.stageMask = after.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
    work.commandBuffer = commands;
    info.waitSemaphoreInfoCount = info.signalSemaphoreInfoCount = 1;
    info.commandBufferInfoCount = 1;
    info.pWaitSemaphoreInfos = &before;
    info.pSignalSemaphoreInfos = &after;
    info.pCommandBufferInfos = &work;
    lock_queue(e);
    vk(vkQueueSubmit2(e->queue, 1, &info, VK_NULL_HANDLE), "submit");
    unlock_queue(e);
}

/* A semaphore's value would not do before it is destroyed: a driver (Mesa's lavapipe) may
   look at what a submission waited for a moment after that has signalled. */
static void wait_idle(engine *e) {
    lock_queue(e);
    vk(vkQueueWaitIdle(e->queue), "wait");
    unlock_queue(e);
}

/* ---- all of it ----------------------------------------------------------- */

static void open_engine(engine *e) {
    memset(e, 0, sizeof *e);
    open_instance(e);
    open_device(e);
    open_frames(e);
    make_particles(e);
    make_picture(e);
    make_pipeline(e);
    e->first = record_draw(e, 1);
    e->next = record_draw(e, 0);
}

static void close_engine(engine *e) {
    vkDestroyPipeline(e->device, e->points, NULL);
    vkDestroyPipelineLayout(e->device, e->layout, NULL);
    vkDestroyImageView(e->device, e->view, NULL);
    vkDestroyImage(e->device, e->picture, NULL);
    vkDestroyBuffer(e->device, e->particles, NULL);
    vkFreeMemory(e->device, e->picture_memory, NULL);
    vkFreeMemory(e->device, e->particle_memory, NULL);
    vkDestroyCommandPool(e->device, e->pool, NULL);
    vkDestroySemaphore(e->device, e->frames, NULL);
    vkDestroyDevice(e->device, NULL);
    vkDestroyInstance(e->instance, NULL);
    pthread_mutex_destroy(&e->queue_lock);
}
