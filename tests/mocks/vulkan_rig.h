/* vulkan_rig.h - a device of the Vulkan mock to play with by raw calls. The mock looks
   at sType in chains of features only, and so do these. */
#ifndef HCQ_TEST_MOCK_VULKAN_RIG_H
#define HCQ_TEST_MOCK_VULKAN_RIG_H

#include "support/util.h"

enum { RIG_FAMILIES = 3, RIG_QUEUES = 2, RIG_BYTES = 65536 };

typedef struct rig {
    mock_vk_functions vk;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queues[RIG_FAMILIES][RIG_QUEUES]; /* of the last there is one */
    VkCommandPool pools[RIG_FAMILIES];
    VkSemaphore a, b;                  /* timelines, at 0 */
    VkDeviceMemory memory;             /* host visible, with one buffer over it */
    VkBuffer buffer;
    uint64_t address;
    unsigned char *host;
} rig;

#define RIG_OK(call) assert_int_equal(call, VK_SUCCESS)

static void rig_load(rig *r, VkInstance instance) {
    for (uint32_t i = 0; i < MOCK_VK_ENTRY_COUNT; i++) {
        PFN_vkVoidFunction f = mock_vk_loader(instance, mock_vk_names[i]);
        if (f) {
            memcpy((char *)&r->vk + i * sizeof f, &f, sizeof f);
        }
    }
}

static void rig_device(rig *r) {
    static const char *const names[] = {"VK_KHR_synchronization2"};
    static const float priorities[RIG_QUEUES] = {1.0f, 0.5f};
    VkDeviceQueueCreateInfo queues[RIG_FAMILIES];
    VkPhysicalDeviceSynchronization2Features sync2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
        .synchronization2 = VK_TRUE};
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &sync2,
        .timelineSemaphore = VK_TRUE, .bufferDeviceAddress = VK_TRUE, .hostQueryReset = VK_TRUE,
        .descriptorBindingStorageBufferUpdateAfterBind = VK_TRUE};
    for (uint32_t i = 0; i < RIG_FAMILIES; i++) {
        VkDeviceQueueCreateInfo q = {.queueFamilyIndex = i, .pQueuePriorities = priorities,
                                     .queueCount = i < 2 ? 2 : 1};
        queues[i] = q;
    }
    VkDeviceCreateInfo info = {.pNext = &v12, .queueCreateInfoCount = RIG_FAMILIES,
                               .pQueueCreateInfos = queues, .enabledExtensionCount = 1,
                               .ppEnabledExtensionNames = names};
    RIG_OK(r->vk.CreateDevice(r->physical, &info, NULL, &r->device));
    for (uint32_t i = 0; i < RIG_FAMILIES; i++) {
        VkCommandPoolCreateInfo pool = {.queueFamilyIndex = i};
        RIG_OK(r->vk.CreateCommandPool(r->device, &pool, NULL, &r->pools[i]));
        for (uint32_t k = 0; k < queues[i].queueCount; k++) {
            r->vk.GetDeviceQueue(r->device, i, k, &r->queues[i][k]);
        }
    }
}

static VkSemaphore rig_semaphore(rig *r) {
    VkSemaphoreTypeCreateInfo type = {.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.pNext = &type};
    VkSemaphore made;
    RIG_OK(r->vk.CreateSemaphore(r->device, &info, NULL, &made));
    return made;
}

/* A buffer over all families, in the host's memory. */
static void rig_buffer(rig *r) {
    static const uint32_t families[RIG_FAMILIES] = {0, 1, 2};
    void *host;
    VkBufferCreateInfo info = {.size = RIG_BYTES, .sharingMode = VK_SHARING_MODE_CONCURRENT,
                               .queueFamilyIndexCount = RIG_FAMILIES,
                               .pQueueFamilyIndices = families};
    VkMemoryAllocateInfo allocate = {.allocationSize = RIG_BYTES, .memoryTypeIndex = 1};
    VkBufferDeviceAddressInfo address = {.pNext = NULL};
    RIG_OK(r->vk.CreateBuffer(r->device, &info, NULL, &r->buffer));
    RIG_OK(r->vk.AllocateMemory(r->device, &allocate, NULL, &r->memory));
    RIG_OK(r->vk.BindBufferMemory(r->device, r->buffer, r->memory, 0));
    RIG_OK(r->vk.MapMemory(r->device, r->memory, 0, VK_WHOLE_SIZE, 0, &host));
    memset(host, 0, RIG_BYTES);
    address.buffer = r->buffer;
    r->address = r->vk.GetBufferDeviceAddress(r->device, &address);
    r->host = host;
}

/* On a mock with three families. */
static void rig_open(rig *r) {
    uint32_t count = 1;
    VkInstanceCreateInfo info = {.pNext = NULL};
    memset(r, 0, sizeof *r);
    rig_load(r, NULL);
    RIG_OK(r->vk.CreateInstance(&info, NULL, &r->instance));
    rig_load(r, r->instance);
    (void)r->vk.EnumeratePhysicalDevices(r->instance, &count, &r->physical);
    assert_int_equal(count, 1);
    rig_device(r);
    rig_buffer(r);
    r->a = rig_semaphore(r);
    r->b = rig_semaphore(r);
}

static void rig_close(rig *r) {
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
    r->vk.FreeMemory(r->device, r->memory, NULL);
    r->vk.DestroySemaphore(r->device, r->a, NULL);
    r->vk.DestroySemaphore(r->device, r->b, NULL);
    for (uint32_t i = 0; i < RIG_FAMILIES; i++) {
        r->vk.DestroyCommandPool(r->device, r->pools[i], NULL);
    }
    r->vk.DestroyDevice(r->device, NULL);
    r->vk.DestroyInstance(r->instance, NULL);
}

/* Commands for one submit. */
static VkCommandBuffer rig_begin(rig *r, uint32_t family) {
    VkCommandBufferAllocateInfo allocate = {.commandPool = r->pools[family],
                                            .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkCommandBuffer c;
    RIG_OK(r->vk.AllocateCommandBuffers(r->device, &allocate, &c));
    RIG_OK(r->vk.BeginCommandBuffer(c, &begin));
    return c;
}

static void rig_fill(rig *r, VkCommandBuffer c, uint64_t offset, uint32_t word) {
    r->vk.CmdFillBuffer(c, r->buffer, offset, 4, word);
}

static void rig_barrier(rig *r, VkCommandBuffer c, VkPipelineStageFlags src) {
    VkMemoryBarrier all = {.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT |
                                            VK_ACCESS_MEMORY_WRITE_BIT};
    r->vk.CmdPipelineBarrier(c, src, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

/* One batch: waits for one semaphore, if any, and signals one. */
static VkResult rig_submit(rig *r, VkQueue queue, VkCommandBuffer c, VkSemaphore wait,
                           uint64_t at, VkSemaphore signal, uint64_t to) {
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo values = {
        .waitSemaphoreValueCount = wait ? 1 : 0, .pWaitSemaphoreValues = &at,
        .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &to};
    VkSubmitInfo info = {.pNext = &values, .waitSemaphoreCount = wait ? 1 : 0,
                         .pWaitSemaphores = &wait, .pWaitDstStageMask = &all,
                         .commandBufferCount = c ? 1 : 0, .pCommandBuffers = &c,
                         .signalSemaphoreCount = 1, .pSignalSemaphores = &signal};
    return r->vk.QueueSubmit(queue, 1, &info, VK_NULL_HANDLE);
}

static VkResult rig_wait(rig *r, VkSemaphore semaphore, uint64_t value) {
    VkSemaphoreWaitInfo info = {.semaphoreCount = 1, .pSemaphores = &semaphore,
                                .pValues = &value};
    return r->vk.WaitSemaphores(r->device, &info, 10 * SECOND);
}

static void rig_signal(rig *r, VkSemaphore semaphore, uint64_t value) {
    VkSemaphoreSignalInfo info = {.semaphore = semaphore, .value = value};
    RIG_OK(r->vk.SignalSemaphore(r->device, &info));
}

/* Ends, submits to a family's first queue, which raises a, and waits. */
static void rig_run(rig *r, uint32_t family, VkCommandBuffer c, uint64_t value) {
    RIG_OK(r->vk.EndCommandBuffer(c));
    RIG_OK(rig_submit(r, r->queues[family][0], c, 0, 0, r->a, value));
    RIG_OK(rig_wait(r, r->a, value));
}

static uint32_t rig_word(const rig *r, uint64_t offset) {
    uint32_t word;
    memcpy(&word, r->host + offset, sizeof word);
    return word;
}

#endif /* HCQ_TEST_MOCK_VULKAN_RIG_H */
