/* vulkan_check.c - the mock Vulkan driver, by raw calls: that it executes, and
   that it aborts where Vulkan forbids something; it has to be right before it
   judges the backend. Then hcq on it.

   mock_vulkan_check [--quick] [--rounds N] [--filter NAME] */
#ifndef HCQ_TEST_VULKAN
#define HCQ_TEST_VULKAN
#endif
#include "support/util.h"

#include <sys/wait.h>

/* ---- a device to play with ---- */

enum { RIG_FAMILIES = 3, RIG_QUEUES = 2, RIG_BYTES = 65536 };

typedef struct rig {
    mock_vk_functions vk;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t family_count;
    VkQueue queues[RIG_FAMILIES][RIG_QUEUES];
    VkCommandPool pools[RIG_FAMILIES];
    VkSemaphore a, b;                  /* timelines, at 0 */
    VkSemaphore done[RIG_FAMILIES];    /* of rig_run */
    VkDeviceMemory memory;             /* host visible, with one buffer over it */
    VkBuffer buffer;
    uint64_t address;
    unsigned char *host;
} rig;

static void rig_load(rig *r, VkInstance instance) {
    for (uint32_t i = 0; i < MOCK_VK_ENTRY_COUNT; i++) {
        PFN_vkVoidFunction f = mock_vk_loader(instance, mock_vk_names[i]);
        if (f) {
            memcpy((char *)&r->vk + i * sizeof f, &f, sizeof f);
        }
    }
}

static void rig_instance(rig *r) {
    uint32_t count = 1;
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app};
    memset(r, 0, sizeof *r);
    rig_load(r, NULL);
    assert_int_equal(r->vk.CreateInstance(&info, NULL, &r->instance), VK_SUCCESS);
    rig_load(r, r->instance);
    (void)r->vk.EnumeratePhysicalDevices(r->instance, &count, &r->physical);
    assert_int_equal(count, 1);
}

static void rig_device(rig *r) {
    static const float priorities[RIG_QUEUES] = {1.0f, 0.5f};
    VkQueueFamilyProperties families[RIG_FAMILIES];
    VkDeviceQueueCreateInfo queues[RIG_FAMILIES];
    const char *names[4];
    uint32_t without = mock_vk_options.without, n = 0;
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .timelineSemaphore = VK_TRUE, .bufferDeviceAddress = VK_TRUE,
        .hostQueryReset = !(without & MOCK_VK_NO_HOST_RESET),
        .descriptorBindingStorageBufferUpdateAfterBind =
            !(without & MOCK_VK_NO_UPDATE_AFTER_BIND)};
    VkPhysicalDeviceSynchronization2Features sync2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
        .pNext = &v12, .synchronization2 = VK_TRUE};
    if (!(without & MOCK_VK_NO_SYNC2)) { names[n++] = "VK_KHR_synchronization2"; }
    if (!(without & MOCK_VK_NO_PUSH_SETS)) { names[n++] = "VK_KHR_push_descriptor"; }
    if (!(without & MOCK_VK_NO_CALIBRATION)) { names[n++] = "VK_EXT_calibrated_timestamps"; }
    if (!(without & MOCK_VK_NO_HOST_MEMORY)) { names[n++] = "VK_EXT_external_memory_host"; }
    r->family_count = RIG_FAMILIES;
    r->vk.GetPhysicalDeviceQueueFamilyProperties(r->physical, &r->family_count, families);
    for (uint32_t i = 0; i < r->family_count; i++) {
        VkDeviceQueueCreateInfo q = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = i, .pQueuePriorities = priorities};
        q.queueCount = families[i].queueCount < RIG_QUEUES ? families[i].queueCount : RIG_QUEUES;
        queues[i] = q;
    }
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = without & MOCK_VK_NO_SYNC2 ? (void *)&v12 : (void *)&sync2,
                               .queueCreateInfoCount = r->family_count,
                               .pQueueCreateInfos = queues, .enabledExtensionCount = n,
                               .ppEnabledExtensionNames = names};
    assert_int_equal(r->vk.CreateDevice(r->physical, &info, NULL, &r->device), VK_SUCCESS);
    for (uint32_t i = 0; i < r->family_count; i++) {
        for (uint32_t k = 0; k < queues[i].queueCount; k++) {
            r->vk.GetDeviceQueue(r->device, i, k, &r->queues[i][k]);
        }
    }
}

static VkSemaphore rig_semaphore(rig *r) {
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                  .pNext = &type};
    VkSemaphore made;
    assert_int_equal(r->vk.CreateSemaphore(r->device, &info, NULL, &made), VK_SUCCESS);
    return made;
}

/* A buffer over all families, with memory of a type; imported if `host`. */
static VkBuffer rig_buffer(rig *r, uint64_t size, uint32_t type, void *host,
                           VkDeviceMemory *memory) {
    const uint32_t families[RIG_FAMILIES] = {0, 1, 2};
    VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = host ? &external : NULL,
        .size = size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
                 VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
        .sharingMode = r->family_count > 1 ? VK_SHARING_MODE_CONCURRENT
                                           : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = r->family_count, .pQueueFamilyIndices = families};
    VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
        .pHostPointer = host};
    VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, .pNext = host ? &import : NULL,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &flags, .memoryTypeIndex = type};
    VkMemoryRequirements needs;
    VkBuffer buffer;
    assert_int_equal(r->vk.CreateBuffer(r->device, &info, NULL, &buffer), VK_SUCCESS);
    r->vk.GetBufferMemoryRequirements(r->device, buffer, &needs);
    allocate.allocationSize = needs.size;
    assert_int_equal(r->vk.AllocateMemory(r->device, &allocate, NULL, memory), VK_SUCCESS);
    assert_int_equal(r->vk.BindBufferMemory(r->device, buffer, *memory, 0), VK_SUCCESS);
    return buffer;
}

static uint64_t rig_address(rig *r, VkBuffer buffer) {
    VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                      .buffer = buffer};
    return r->vk.GetBufferDeviceAddress(r->device, &info);
}

static void rig_open(rig *r) {
    void *host;
    rig_instance(r);
    rig_device(r);
    for (uint32_t i = 0; i < r->family_count; i++) {
        VkCommandPoolCreateInfo pool = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, .queueFamilyIndex = i};
        assert_int_equal(r->vk.CreateCommandPool(r->device, &pool, NULL, &r->pools[i]),
                         VK_SUCCESS);
        r->done[i] = rig_semaphore(r);
    }
    r->a = rig_semaphore(r);
    r->b = rig_semaphore(r);
    r->buffer = rig_buffer(r, RIG_BYTES, mock_vk_options.discrete ? 1 : 0, NULL, &r->memory);
    assert_int_equal(r->vk.MapMemory(r->device, r->memory, 0, VK_WHOLE_SIZE, 0, &host),
                     VK_SUCCESS);
    r->host = (unsigned char *)host;
    r->address = rig_address(r, r->buffer);
    assert_true(r->address != (uint64_t)(uintptr_t)host);
    memset(r->host, 0, RIG_BYTES);
}

static void rig_close(rig *r) {
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
    r->vk.FreeMemory(r->device, r->memory, NULL);
    r->vk.DestroySemaphore(r->device, r->a, NULL);
    r->vk.DestroySemaphore(r->device, r->b, NULL);
    for (uint32_t i = 0; i < r->family_count; i++) {
        r->vk.DestroyCommandPool(r->device, r->pools[i], NULL);
        r->vk.DestroySemaphore(r->device, r->done[i], NULL);
    }
    r->vk.DestroyDevice(r->device, NULL);
    r->vk.DestroyInstance(r->instance, NULL);
}

static VkCommandBuffer rig_begin(rig *r, uint32_t family, VkCommandBufferUsageFlags usage) {
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = r->pools[family],
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = usage};
    VkCommandBuffer c;
    assert_int_equal(r->vk.AllocateCommandBuffers(r->device, &allocate, &c), VK_SUCCESS);
    assert_int_equal(r->vk.BeginCommandBuffer(c, &begin), VK_SUCCESS);
    return c;
}

static void rig_barrier(rig *r, VkCommandBuffer c, VkPipelineStageFlags src,
                        VkPipelineStageFlags dst) {
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT |
                                            VK_ACCESS_MEMORY_WRITE_BIT};
    r->vk.CmdPipelineBarrier(c, src, dst, 0, 1, &all, 0, NULL, 0, NULL);
}

static void rig_copy(rig *r, VkCommandBuffer c, uint64_t to, uint64_t from, uint64_t size) {
    VkBufferCopy region = {from, to, size};
    r->vk.CmdCopyBuffer(c, r->buffer, r->buffer, 1, &region);
}

/* One batch: waits for one semaphore, if any, and signals one, if any. */
static VkResult rig_submit(rig *r, VkQueue queue, VkCommandBuffer c, VkSemaphore wait,
                           uint64_t at, VkSemaphore signal, uint64_t to) {
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = wait ? 1 : 0, .pWaitSemaphoreValues = &at,
        .signalSemaphoreValueCount = signal ? 1 : 0, .pSignalSemaphoreValues = &to};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values,
                         .waitSemaphoreCount = wait ? 1 : 0, .pWaitSemaphores = &wait,
                         .pWaitDstStageMask = &stage, .commandBufferCount = c ? 1 : 0,
                         .pCommandBuffers = &c, .signalSemaphoreCount = signal ? 1 : 0,
                         .pSignalSemaphores = &signal};
    return r->vk.QueueSubmit(queue, 1, &info, VK_NULL_HANDLE);
}

static VkResult rig_wait(rig *r, VkSemaphore semaphore, uint64_t value, uint64_t timeout) {
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1, .pSemaphores = &semaphore,
                                .pValues = &value};
    return r->vk.WaitSemaphores(r->device, &info, timeout);
}

/* Ends, submits to the first queue of a family and waits. */
static void rig_run(rig *r, uint32_t family, VkCommandBuffer c) {
    VkSemaphore done = r->done[family];
    uint64_t value = 0;
    assert_int_equal(r->vk.EndCommandBuffer(c), VK_SUCCESS);
    (void)r->vk.GetSemaphoreCounterValue(r->device, done, &value);
    assert_int_equal(rig_submit(r, r->queues[family][0], c, 0, 0, done, value + 1), VK_SUCCESS);
    assert_int_equal(rig_wait(r, done, value + 1, 10000000000u), VK_SUCCESS);
}

static uint32_t rig_word(const rig *r, uint64_t offset) {
    uint32_t word;
    memcpy(&word, r->host + offset, sizeof word);
    return word;
}

static void rig_put(const rig *r, uint64_t offset, uint32_t word) {
    memcpy(r->host + offset, &word, sizeof word);
}

/* ---- profiles ---- */

static void profile_one(void) {
    memset(&mock_vk_options, 0, sizeof mock_vk_options);
    mock_vk_options.on = 1;
    mock_vk_clear();
}

static void profile_three(void) {
    profile_one();
    mock_vk_options.discrete = 1;
    mock_vk_options.queues[0] = 4;
    mock_vk_options.queues[1] = 2;
    mock_vk_options.queues[2] = 1;
    mock_vk_options.timestamp_bits[0] = 32;
    mock_vk_options.timestamp_bits[1] = 36;
    mock_vk_options.timestamp_bits[2] = MOCK_VK_NONE;
    mock_vk_options.timestamp_period = 10.0f;
}

static int setup(void **state) {
    (void)state;
    profile_three();
    return 0;
}

/* ---- what it says of itself ---- */

static void off_is_the_system(void **state) {
    (void)state;
    mock_vk_options.on = 0;
    PFN_vkVoidFunction f = mock_vk_loader(NULL, "vkCreateInstance");
    assert_true(f == NULL || f != mock_vk_function(MOCK_VK_CreateInstance));
    mock_vk_options.on = 1;
    assert_true(mock_vk_loader(NULL, "vkCreateInstance") ==
                mock_vk_function(MOCK_VK_CreateInstance));
    assert_null(mock_vk_loader(NULL, "vkCreateDevice"));
    assert_null(mock_vk_loader(NULL, "vkCreateImage"));
}

static void three_families(void **state) {
    VkQueueFamilyProperties families[4];
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceProperties properties;
    uint32_t count = 4;
    rig r;
    (void)state;
    rig_instance(&r);
    r.vk.GetPhysicalDeviceQueueFamilyProperties(r.physical, &count, families);
    assert_int_equal(count, 3);
    assert_int_equal(families[0].queueCount, 4);
    assert_int_equal(families[1].queueFlags, VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT);
    assert_int_equal(families[2].queueFlags, VK_QUEUE_TRANSFER_BIT);
    assert_int_equal(families[1].timestampValidBits, 36);
    assert_int_equal(families[2].timestampValidBits, 0);
    r.vk.GetPhysicalDeviceMemoryProperties(r.physical, &memory);
    assert_int_equal(memory.memoryTypeCount, 4);
    assert_int_equal(memory.memoryTypes[0].propertyFlags, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    r.vk.GetPhysicalDeviceProperties(r.physical, &properties);
    assert_int_equal(properties.limits.maxComputeWorkGroupCount[0], 65535);
    assert_int_equal(properties.deviceType, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
    r.vk.DestroyInstance(r.instance, NULL);
}

static void nothing_optional(void **state) {
    uint32_t count = 9;
    VkExtensionProperties names[9];
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &v12};
    rig r;
    (void)state;
    profile_one();
    mock_vk_options.without = MOCK_VK_NO_OPTIONAL;
    mock_vk_options.api_version = VK_API_VERSION_1_2;
    rig_open(&r);
    (void)r.vk.EnumerateDeviceExtensionProperties(r.physical, NULL, &count, names);
    assert_int_equal(count, 0);
    r.vk.GetPhysicalDeviceFeatures2(r.physical, &features);
    assert_true(v12.timelineSemaphore && v12.bufferDeviceAddress && !v12.hostQueryReset);
    assert_null(r.vk.GetDeviceProcAddr(r.device, "vkQueueSubmit2"));
    assert_null(r.vk.GetDeviceProcAddr(r.device, "vkQueueSubmit2KHR"));
    assert_null(r.vk.GetDeviceProcAddr(r.device, "vkCmdPushDescriptorSetKHR"));
    assert_null(r.vk.GetDeviceProcAddr(r.device, "vkCreateDevice"));
    assert_non_null((void *)(uintptr_t)r.vk.GetDeviceProcAddr(r.device, "vkQueueSubmit"));
    rig_close(&r);
}

/* ---- execution ---- */

static void copies_and_fills(void **state) {
    rig r;
    (void)state;
    rig_open(&r);
    for (uint32_t family = 0; family < 3; family++) {
        VkCommandBuffer c = rig_begin(&r, family, 0);
        const uint32_t words[2] = {11, 12};
        VkPipelineStageFlags t = VK_PIPELINE_STAGE_TRANSFER_BIT;
        r.vk.CmdFillBuffer(c, r.buffer, 0, 64, 0x01020304u + family);
        r.vk.CmdUpdateBuffer(c, r.buffer, 256, 8, words);
        rig_barrier(&r, c, t, t);
        rig_copy(&r, c, 129, 4, 3);
        rig_run(&r, family, c);
        assert_int_equal(rig_word(&r, 60), 0x01020304u + family);
        assert_int_equal(r.host[129], 4 + family);
        assert_int_equal(r.host[131], 2);
        assert_int_equal(r.host[132], 0);
        assert_int_equal(rig_word(&r, 260), 12);
    }
    mock_vk_stats s = mock_vk_read();
    assert_int_equal(s.copies, 3);
    assert_int_equal(s.batches, 3);
    assert_int_equal(s.live[MOCK_VK_KIND_COMMAND_BUFFER], 3);
    assert_int_equal(mock_vk_calls("vkQueueSubmit*"), 3);
    rig_close(&r);
    s = mock_vk_read();
    for (uint32_t i = 0; i < MOCK_VK_KIND_COUNT; i++) {
        assert_int_equal(s.live[i], 0);
    }
    assert_int_equal(s.memory_bytes, 0);
}

/* A wait that is submitted before its signal, over two queues; the first byte goes
   from place to place. */
static void chain(void **state) {
    enum { LINKS = 40 };
    rig r;
    uint32_t flags = 0;
    (void)state;
    for (uint32_t mode = 0; mode < 3; mode++) {
        profile_three();
        flags = mode == 1 ? MOCK_VK_SCHEDULER : mode == 2 ? MOCK_VK_SHUFFLE : 0;
        mock_vk_options.flags = flags;
        mock_vk_options.batch_delay_ns = mode == 2 ? 100000 : 0;
        rig_open(&r);
        r.host[0] = 77;
        for (uint32_t i = 0; i < LINKS; i++) {
            uint32_t family = i % 2;
            VkCommandBuffer c = rig_begin(&r, family, 0);
            rig_copy(&r, c, (i + 1) * 16, i * 16, 16);
            assert_int_equal(r.vk.EndCommandBuffer(c), VK_SUCCESS);
            VkSemaphore wait = family ? r.a : r.b, signal = family ? r.b : r.a;
            assert_int_equal(rig_submit(&r, r.queues[family][1], c, i ? wait : 0,
                                        (i + 1) / 2, signal, i / 2 + 1), VK_SUCCESS);
        }
        assert_int_equal(rig_wait(&r, r.b, LINKS / 2, 10000000000u), VK_SUCCESS);
        assert_int_equal(r.host[LINKS * 16], 77);
        rig_close(&r);
    }
}

/* The queue that waits blocks what is behind it; another queue lets it go. */
static void blocked(void **state) {
    rig r;
    (void)state;
    rig_open(&r);
    assert_int_equal(rig_submit(&r, r.queues[0][0], NULL, r.a, 1, r.b, 1), VK_SUCCESS);
    assert_int_equal(rig_wait(&r, r.b, 1, 20000000), VK_TIMEOUT);
    assert_int_equal(rig_submit(&r, r.queues[1][0], NULL, 0, 0, r.a, 1), VK_SUCCESS);
    assert_int_equal(rig_wait(&r, r.b, 1, UINT64_MAX), VK_SUCCESS);
    assert_int_equal(r.vk.DeviceWaitIdle(r.device), VK_SUCCESS);
    rig_close(&r);
}

static void submit2(void **state) {
    rig r;
    (void)state;
    rig_open(&r);
    VkCommandBuffer c = rig_begin(&r, 0, 0);
    r.vk.CmdFillBuffer(c, r.buffer, 0, 4, 5);
    assert_int_equal(r.vk.EndCommandBuffer(c), VK_SUCCESS);
    VkCommandBufferSubmitInfo buffer = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = c};
    VkSemaphoreSubmitInfo signals[2] = {
        {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, .semaphore = r.a, .value = 1,
         .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT},
        {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, .semaphore = r.a, .value = 2,
         .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT}};
    VkSubmitInfo2 infos[2] = {
        {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2, .commandBufferInfoCount = 1,
         .pCommandBufferInfos = &buffer, .signalSemaphoreInfoCount = 1,
         .pSignalSemaphoreInfos = &signals[0]},
        {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2, .signalSemaphoreInfoCount = 1,
         .pSignalSemaphoreInfos = &signals[1]}};
    assert_int_equal(r.vk.QueueSubmit2KHR(r.queues[0][0], 2, infos, VK_NULL_HANDLE), VK_SUCCESS);
    assert_int_equal(rig_wait(&r, r.a, 2, UINT64_MAX), VK_SUCCESS);
    assert_int_equal(rig_word(&r, 0), 5);
    rig_close(&r);
}

/* Without a barrier two fills of one word end either way, with one only one way. */
static void shuffled(void **state) {
    uint32_t seen[2][3] = {{0, 0, 0}, {0, 0, 0}};
    (void)state;
    for (uint32_t seed = 1; seed <= 24; seed++) {
        rig r;
        profile_three();
        mock_vk_options.flags = MOCK_VK_SHUFFLE;
        mock_vk_options.seed = seed;
        rig_open(&r);
        for (uint32_t ordered = 0; ordered < 2; ordered++) {
            VkCommandBuffer c = rig_begin(&r, 0, 0);
            VkPipelineStageFlags t = VK_PIPELINE_STAGE_TRANSFER_BIT;
            VkPipelineStageFlags other = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
            r.vk.CmdFillBuffer(c, r.buffer, 0, 4, 1);
            rig_barrier(&r, c, ordered ? t : other, t); /* of a stage that wrote nothing */
            r.vk.CmdFillBuffer(c, r.buffer, 0, 4, 2);
            rig_run(&r, 0, c);
            seen[ordered][rig_word(&r, 0)]++;
        }
        rig_close(&r);
    }
    assert_true(seen[0][1] != 0 && seen[0][2] != 0);
    assert_int_equal(seen[1][2], 24);
}

/* ---- kernels ---- */

typedef struct count_args { uint64_t dst; uint32_t n, add; } count_args;

static const uint32_t count_kinds[HCQ_MAX_ARGS] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32};

/* dst[i] += add, one thread each; dst[0] counts the blocks. */
static void k_count(const void *block_args, const hcq_block *b) {
    const count_args *k = HCQ_ARGS(count_args, block_args);
    uint32_t *dst = HCQ_PTR(uint32_t, k->dst);
    dst[0]++;
    for (uint32_t t = 0; t < b->block.x; t++) {
        uint32_t i = b->id.x * b->block.x + t;
        if (i < k->n) {
            dst[1 + i] += k->add + b->id.y * 100;
        }
    }
}

/* As little of a module with bindings as the mock reads: storage buffer, and the
   values in push constants or in a uniform block; a fixed block of 4 x 1 x 1. */
static size_t bindings_module(uint32_t *words, int uniform) {
    const uint32_t code[] = {
        0x07230203, 0x00010500, 0, 20, 0,
        7u << 16 | 15, 5, 1, 0x6e69616d, 0, 2, 3,
        6u << 16 | 16, 1, 17, 4, 1, 1,
        4u << 16 | 21, 4, 32, 0, 3u << 16 | 30, 5, 4,
        4u << 16 | 32, 6, 12, 5, 4u << 16 | 59, 6, 2, 12,
        4u << 16 | 32, 7, uniform ? 2 : 9, 5, 4u << 16 | 59, 7, 3, uniform ? 2 : 9};
    memcpy(words, code, sizeof code);
    return sizeof code;
}

typedef struct kernel_rig {
    rig r;
    VkDescriptorSetLayout sets;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    VkPipelineLayout layout;
    VkPipeline pipeline;
} kernel_rig;

enum { BY_POINTER, BY_SET, BY_LATE_SET, BY_PUSHED_SET, BY_UNIFORM, KERNEL_WAYS };

static void kernel_sets(kernel_rig *k, int way) {
    const VkDescriptorSetLayoutBinding bindings[2] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
    const VkDescriptorBindingFlags late = VK_DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT;
    const VkDescriptorPoolSize sizes[2] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1},
                                           {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1}};
    VkDescriptorSetLayoutBindingFlagsCreateInfo flags = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO,
        .bindingCount = 1, .pBindingFlags = &late};
    VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .pNext = way == BY_LATE_SET ? &flags : NULL, .bindingCount = way == BY_UNIFORM ? 2 : 1,
        .pBindings = bindings};
    VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = 1, .poolSizeCount = 2, .pPoolSizes = sizes};
    if (way == BY_LATE_SET) {
        info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT;
        pool.flags = VK_DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT;
    }
    if (way == BY_PUSHED_SET) {
        info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
    }
    assert_int_equal(k->r.vk.CreateDescriptorSetLayout(k->r.device, &info, NULL, &k->sets),
                     VK_SUCCESS);
    if (way == BY_PUSHED_SET) {
        return;
    }
    assert_int_equal(k->r.vk.CreateDescriptorPool(k->r.device, &pool, NULL, &k->pool),
                     VK_SUCCESS);
    VkDescriptorSetAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = k->pool,
        .descriptorSetCount = 1, .pSetLayouts = &k->sets};
    assert_int_equal(k->r.vk.AllocateDescriptorSets(k->r.device, &allocate, &k->set), VK_SUCCESS);
    VkDescriptorSet more;
    assert_int_equal(k->r.vk.AllocateDescriptorSets(k->r.device, &allocate, &more),
                     VK_ERROR_OUT_OF_POOL_MEMORY);
}

static void kernel_layout(kernel_rig *k, int way) {
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = way != BY_POINTER,
                                       .pSetLayouts = &k->sets,
                                       .pushConstantRangeCount = way != BY_UNIFORM,
                                       .pPushConstantRanges = &range};
    if (way != BY_POINTER) {
        kernel_sets(k, way);
    }
    assert_int_equal(k->r.vk.CreatePipelineLayout(k->r.device, &info, NULL, &k->layout),
                     VK_SUCCESS);
}

static void kernel_pipeline(kernel_rig *k, const uint32_t *words, size_t size,
                            const uint32_t block[3], VkPipelineCache cache) {
    const VkSpecializationMapEntry entries[3] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}};
    VkSpecializationInfo special = {3, entries, 12, block};
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                       .codeSize = size, .pCode = words};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = k->layout};
    assert_int_equal(k->r.vk.CreateShaderModule(k->r.device, &module, NULL, &info.stage.module),
                     VK_SUCCESS);
    assert_int_equal(k->r.vk.CreateComputePipelines(k->r.device, cache, 1, &info, NULL,
                                                    &k->pipeline), VK_SUCCESS);
    k->r.vk.DestroyShaderModule(k->r.device, info.stage.module, NULL);
}

static void kernel_open(kernel_rig *k, int way) {
    static const uint32_t block[3] = {4, 1, 1};
    uint32_t words[MOCK_VK_MODULE_WORDS];
    size_t size = way == BY_POINTER ? mock_vk_module(7, words)
                                    : bindings_module(words, way == BY_UNIFORM);
    memset(k, 0, sizeof *k);
    rig_open(&k->r);
    kernel_layout(k, way);
    mock_vk_kernel(words, size, NULL, k_count, count_kinds);
    kernel_pipeline(k, words, size, block, VK_NULL_HANDLE);
}

static void kernel_close(kernel_rig *k) {
    k->r.vk.DestroyPipeline(k->r.device, k->pipeline, NULL);
    k->r.vk.DestroyPipelineLayout(k->r.device, k->layout, NULL);
    k->r.vk.DestroyDescriptorPool(k->r.device, k->pool, NULL);
    k->r.vk.DestroyDescriptorSetLayout(k->r.device, k->sets, NULL);
    rig_close(&k->r);
}

static void kernel_write_set(kernel_rig *k, VkCommandBuffer push, uint32_t binding,
                             uint64_t offset) {
    VkDescriptorBufferInfo buffer = {k->r.buffer, offset, VK_WHOLE_SIZE};
    VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = k->set, .dstBinding = binding,
        .descriptorCount = 1, .pBufferInfo = &buffer,
        .descriptorType = binding ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
                                  : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
    if (binding) {
        buffer.range = 8;
    }
    if (push) {
        k->r.vk.CmdPushDescriptorSetKHR(push, VK_PIPELINE_BIND_POINT_COMPUTE, k->layout, 0, 1,
                                        &write);
    } else {
        k->r.vk.UpdateDescriptorSets(k->r.device, 1, &write, 0, NULL);
    }
}

/* Binds everything for dst at 4096, n 6, add 3; block and values lie at 256. */
static void kernel_bind(kernel_rig *k, VkCommandBuffer c, int way) {
    const uint32_t values[2] = {6, 3};
    count_args args = {k->r.address + 4096, 6, 3};
    uint64_t at = k->r.address + 256;
    k->r.vk.CmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    if (way == BY_POINTER) {
        memcpy(k->r.host + 256, &args, sizeof args);
        k->r.vk.CmdPushConstants(c, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &at);
        return;
    }
    if (way == BY_UNIFORM) {
        memcpy(k->r.host + 256, values, sizeof values);
        kernel_write_set(k, NULL, 1, 256);
    } else {
        k->r.vk.CmdPushConstants(c, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, values);
    }
    if (way == BY_PUSHED_SET) {
        kernel_write_set(k, c, 0, 4096);
        return;
    }
    kernel_write_set(k, NULL, 0, 4096);
    k->r.vk.CmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, k->layout, 0, 1, &k->set, 0,
                                  NULL);
}

static void kernels(void **state) {
    const uint32_t groups[3] = {2, 3, 1};
    kernel_rig k;
    (void)state;
    for (int way = 0; way < KERNEL_WAYS; way++) {
        profile_three();
        kernel_open(&k, way);
        VkCommandBuffer c = rig_begin(&k.r, 0, 0);
        kernel_bind(&k, c, way);
        k.r.vk.CmdDispatch(c, 2, 1, 1);
        rig_run(&k.r, 0, c);
        assert_int_equal(rig_word(&k.r, 4096), 2);       /* blocks */
        assert_int_equal(rig_word(&k.r, 4096 + 4), 3);
        assert_int_equal(rig_word(&k.r, 4096 + 4 * 6), 3);
        assert_int_equal(rig_word(&k.r, 4096 + 4 * 7), 0);
        c = rig_begin(&k.r, 0, 0);
        kernel_bind(&k, c, way);
        memcpy(k.r.host + 512, groups, sizeof groups);
        k.r.vk.CmdDispatchIndirect(c, k.r.buffer, 512);
        k.r.vk.CmdDispatchBase(c, 0, 7, 0, 1, 1, 1);
        rig_run(&k.r, 0, c);
        assert_int_equal(rig_word(&k.r, 4096), 2 + 6 + 1);
        assert_int_equal(rig_word(&k.r, 4096 + 4), 3 + 9 + 300 + 703);
        kernel_close(&k);
    }
}

/* A set that may be updated after it was bound is; the commands stay. */
static void late_set(void **state) {
    kernel_rig k;
    (void)state;
    kernel_open(&k, BY_LATE_SET);
    VkCommandBuffer c = rig_begin(&k.r, 0, 0);
    kernel_bind(&k, c, BY_LATE_SET);
    k.r.vk.CmdDispatch(c, 1, 1, 1);
    kernel_write_set(&k, NULL, 0, 8192);
    rig_run(&k.r, 0, c);
    assert_int_equal(rig_word(&k.r, 4096 + 4), 0);
    assert_int_equal(rig_word(&k.r, 8192 + 4), 3);
    kernel_write_set(&k, NULL, 0, 4096);
    assert_int_equal(rig_submit(&k.r, k.r.queues[0][0], c, 0, 0, k.r.a, 5), VK_SUCCESS);
    assert_int_equal(rig_wait(&k.r, k.r.a, 5, UINT64_MAX), VK_SUCCESS);
    assert_int_equal(rig_word(&k.r, 4096 + 4), 3);
    kernel_close(&k);
}

static void pipeline_cache(void **state) {
    static const uint32_t block[3] = {4, 1, 1};
    uint32_t words[MOCK_VK_MODULE_WORDS];
    unsigned char data[256];
    size_t size = 0, module = mock_vk_module(9, words);
    kernel_rig k;
    VkPipelineCache cache = VK_NULL_HANDLE;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    (void)state;
    kernel_open(&k, BY_POINTER);
    for (uint32_t run = 0; run < 2; run++) {
        info.pInitialData = data;
        info.initialDataSize = size;
        assert_int_equal(k.r.vk.CreatePipelineCache(k.r.device, &info, NULL, &cache),
                         VK_SUCCESS);
        k.r.vk.DestroyPipeline(k.r.device, k.pipeline, NULL);
        kernel_pipeline(&k, words, module, block, cache);
        assert_int_equal(mock_vk_read().cache_hits, run);
        size = 8;
        assert_int_equal(k.r.vk.GetPipelineCacheData(k.r.device, cache, &size, data),
                         VK_INCOMPLETE);
        assert_int_equal(k.r.vk.GetPipelineCacheData(k.r.device, cache, &size, NULL), VK_SUCCESS);
        assert_int_equal(size, 40);
        assert_int_equal(k.r.vk.GetPipelineCacheData(k.r.device, cache, &size, data), VK_SUCCESS);
        k.r.vk.DestroyPipelineCache(k.r.device, cache, NULL);
    }
    kernel_close(&k);
}

/* ---- time ---- */

static void timestamps(void **state) {
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 4};
    VkCalibratedTimestampInfoEXT domains[2] = {
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT,
         .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT},
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT,
         .timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT}};
    uint64_t both[2], deviation, stamp = 0, pair[2] = {0, 0};
    VkQueryPool pool;
    rig r;
    (void)state;
    mock_vk_options.clock_offset_ns = 20000000000; /* so that both lie on one side of a wrap */
    rig_open(&r);
    assert_int_equal(r.vk.CreateQueryPool(r.device, &info, NULL, &pool), VK_SUCCESS);
    VkCommandBuffer c = rig_begin(&r, 0, 0);
    r.vk.CmdResetQueryPool(c, pool, 0, 4);
    r.vk.CmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, 1);
    r.vk.CmdCopyQueryPoolResults(c, pool, 1, 1, r.buffer, 64, 8,
                                 VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    rig_run(&r, 0, c);
    assert_int_equal(r.vk.GetCalibratedTimestampsEXT(r.device, 2, domains, both, &deviation),
                     VK_SUCCESS);
    memcpy(&stamp, r.host + 64, 8);
    assert_true(stamp >> 32 == 0);
    assert_true(both[1] <= mock_vk_now() && deviation >= 100);
    assert_true(((both[0] - stamp) & 0xffffffff) < 500000000); /* 5 s of 10 ns */
    assert_int_equal(r.vk.GetQueryPoolResults(r.device, pool, 1, 1, 8, &pair, 8,
                                              VK_QUERY_RESULT_64_BIT), VK_SUCCESS);
    assert_true(pair[0] == stamp);
    assert_int_equal(r.vk.GetQueryPoolResults(r.device, pool, 0, 1, 16, &pair, 16,
                                              VK_QUERY_RESULT_64_BIT |
                                                  VK_QUERY_RESULT_WITH_AVAILABILITY_BIT),
                     VK_NOT_READY);
    assert_int_equal(pair[1], 0);
    r.vk.ResetQueryPool(r.device, pool, 0, 4);
    assert_int_equal(r.vk.GetQueryPoolResults(r.device, pool, 1, 1, 8, &pair, 8,
                                              VK_QUERY_RESULT_64_BIT), VK_NOT_READY);
    r.vk.DestroyQueryPool(r.device, pool, NULL);
    rig_close(&r);
}

/* ---- errors ---- */

static void injected(void **state) {
    VkSemaphore none = VK_NULL_HANDLE;
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                  .pNext = &type};
    rig r;
    (void)state;
    rig_open(&r);
    mock_vk_fail("vkCreateSemaphore", 2, 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    mock_vk_fail("vkQueueSubmit*", 1, 2, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    r.vk.DestroySemaphore(r.device, r.a, NULL);
    r.a = rig_semaphore(&r);
    assert_int_equal(r.vk.CreateSemaphore(r.device, &info, NULL, &none),
                     VK_ERROR_OUT_OF_HOST_MEMORY);
    assert_true(none == VK_NULL_HANDLE);
    for (uint32_t i = 0; i < 3; i++) {
        VkResult want = i < 2 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
        assert_int_equal(rig_submit(&r, r.queues[0][0], NULL, 0, 0, r.a, 1), want);
    }
    assert_int_equal(rig_wait(&r, r.a, 1, UINT64_MAX), VK_SUCCESS);
    assert_int_equal(mock_vk_read().failed, 3);
    rig_close(&r);
}

static void memory_limits(void **state) {
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = 1 << 20};
    VkDeviceMemory memory[3];
    rig r;
    (void)state;
    mock_vk_options.heap_bytes = 3 << 20;
    mock_vk_options.max_allocations = 3;
    mock_vk_options.max_allocation = 2 << 20;
    rig_open(&r);                      /* has one, in another heap */
    assert_int_equal(r.vk.AllocateMemory(r.device, &info, NULL, &memory[0]), VK_SUCCESS);
    info.allocationSize = 3 << 20;
    assert_int_equal(r.vk.AllocateMemory(r.device, &info, NULL, &memory[1]),
                     VK_ERROR_OUT_OF_DEVICE_MEMORY); /* larger than allowed */
    info.allocationSize = 2 << 20;
    assert_int_equal(r.vk.AllocateMemory(r.device, &info, NULL, &memory[1]), VK_SUCCESS);
    info.allocationSize = 256;
    assert_int_equal(r.vk.AllocateMemory(r.device, &info, NULL, &memory[2]),
                     VK_ERROR_TOO_MANY_OBJECTS);
    r.vk.FreeMemory(r.device, memory[1], NULL);
    info.allocationSize = 2 << 20;
    assert_int_equal(r.vk.AllocateMemory(r.device, &info, NULL, &memory[1]), VK_SUCCESS);
    r.vk.FreeMemory(r.device, memory[0], NULL);
    info.allocationSize = (1 << 20) + 256;
    assert_int_equal(r.vk.AllocateMemory(r.device, &info, NULL, &memory[0]),
                     VK_ERROR_OUT_OF_DEVICE_MEMORY); /* more than the heap has */
    r.vk.FreeMemory(r.device, memory[1], NULL);
    rig_close(&r);
}

static void imported(void **state) {
    void *pages = NULL;
    VkDeviceMemory memory;
    rig r;
    (void)state;
    assert_int_equal(posix_memalign(&pages, 4096, 8192), 0);
    memset(pages, 9, 8192);
    rig_open(&r);
    VkBuffer buffer = rig_buffer(&r, 8192, 1, pages, &memory);
    VkBufferCopy region = {0, 4096, 16};
    VkCommandBuffer c = rig_begin(&r, 2, 0);
    r.vk.CmdCopyBuffer(c, r.buffer, buffer, 1, &region);
    r.host[5] = 42;
    rig_run(&r, 2, c);
    assert_int_equal(((unsigned char *)pages)[4096 + 5], 42);
    assert_int_equal(((unsigned char *)pages)[4096 + 16], 9);
    assert_int_equal(mock_vk_read().imported_bytes, 8192);
    r.vk.DestroyBuffer(r.device, buffer, NULL);
    r.vk.FreeMemory(r.device, memory, NULL);
    rig_close(&r);
    free(pages);
}

/* At a submit, and halfway through a command buffer. */
static void lost(void **state) {
    rig r;
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        uint64_t value = 0;
        profile_three();
        mock_vk_options.flags = way & 2 ? MOCK_VK_LOST_JUMP : 0;
        rig_open(&r);
        VkCommandBuffer c = rig_begin(&r, 0, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
        r.vk.CmdFillBuffer(c, r.buffer, 0, 4, 1);
        r.vk.CmdFillBuffer(c, r.buffer, 4, 4, 1);
        assert_int_equal(r.vk.EndCommandBuffer(c), VK_SUCCESS);
        if (way & 1) {
            mock_vk_fail("vkQueueSubmit*", 3, 1, VK_ERROR_DEVICE_LOST);
        } else {
            mock_vk_lose(2);
        }
        assert_int_equal(rig_submit(&r, r.queues[0][0], c, 0, 0, r.a, 1), VK_SUCCESS);
        assert_int_equal(rig_wait(&r, r.a, 1, UINT64_MAX), VK_SUCCESS);
        rig_put(&r, 0, 0);
        rig_put(&r, 4, 0);
        assert_int_equal(rig_submit(&r, r.queues[0][0], way & 1 ? NULL : c,
                                    way & 1 ? r.b : 0, 1, r.a, 2), VK_SUCCESS);
        VkResult last = rig_submit(&r, r.queues[1][0], NULL, r.a, 2, r.b, 1);
        assert_true(last == VK_ERROR_DEVICE_LOST || !(way & 1));
        assert_int_equal(rig_wait(&r, r.b, 1, UINT64_MAX),
                         way & 2 ? VK_SUCCESS : VK_ERROR_DEVICE_LOST);
        VkResult read = r.vk.GetSemaphoreCounterValue(r.device, r.a, &value);
        assert_int_equal(read, way & 2 ? VK_SUCCESS : VK_ERROR_DEVICE_LOST);
        assert_true(way & 2 ? value == UINT64_MAX : value < 2);
        assert_int_equal(rig_submit(&r, r.queues[0][1], NULL, 0, 0, r.b, 9),
                         VK_ERROR_DEVICE_LOST);
        assert_int_equal(r.vk.DeviceWaitIdle(r.device), VK_ERROR_DEVICE_LOST);
        assert_int_equal(rig_word(&r, 0), way & 1 ? 0 : 1);
        assert_int_equal(rig_word(&r, 4), 0);
        rig_close(&r);
    }
}

/* ---- what aborts: each in a process of its own ---- */

typedef struct crime {
    const char *text;                  /* of what is said */
    void (*commit)(rig *r);
} crime;

static void two_producers(rig *r) {
    (void)rig_submit(r, r->queues[0][0], NULL, 0, 0, r->a, 1);
    (void)rig_submit(r, r->queues[1][0], NULL, 0, 0, r->a, 2);
}

static void host_and_queue(rig *r) {
    VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                  .semaphore = r->a, .value = 9};
    (void)rig_submit(r, r->queues[0][0], NULL, 0, 0, r->a, 1);
    (void)r->vk.SignalSemaphore(r->device, &info);
}

static void no_rise(rig *r) {
    (void)rig_submit(r, r->queues[0][0], NULL, 0, 0, r->a, 2);
    (void)rig_submit(r, r->queues[0][0], NULL, 0, 0, r->a, 2);
}

static void self_wait(rig *r) {
    (void)rig_submit(r, r->queues[0][0], NULL, r->a, 1, r->b, 1);
    (void)rig_submit(r, r->queues[0][0], NULL, 0, 0, r->a, 1);
    (void)rig_wait(r, r->b, 1, UINT64_MAX);
}

static void foreign_family(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    (void)r->vk.EndCommandBuffer(c);
    (void)rig_submit(r, r->queues[1][0], c, 0, 0, r->a, 1);
}

static void dispatch_on_transfer(rig *r) { r->vk.CmdDispatch(rig_begin(r, 2, 0), 1, 1, 1); }

static void reset_on_transfer(rig *r) {
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 4};
    VkQueryPool pool;
    (void)r->vk.CreateQueryPool(r->device, &info, NULL, &pool);
    r->vk.CmdResetQueryPool(rig_begin(r, 2, 0), pool, 0, 1);
}

static void stamp_twice(rig *r) {
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 4};
    VkQueryPool pool;
    VkCommandBuffer c = rig_begin(r, 0, 0);
    (void)r->vk.CreateQueryPool(r->device, &info, NULL, &pool);
    r->vk.CmdResetQueryPool(c, pool, 0, 1);
    r->vk.CmdWriteTimestamp(c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, pool, 0);
    r->vk.CmdWriteTimestamp(c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, pool, 0);
    rig_run(r, 0, c);
}

static void compute_stage_on_transfer(rig *r) {
    rig_barrier(r, rig_begin(r, 2, 0), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                VK_PIPELINE_STAGE_TRANSFER_BIT);
}

static void begin_pending(rig *r) {
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBuffer c = rig_begin(r, 0, 0);
    (void)r->vk.EndCommandBuffer(c);
    (void)rig_submit(r, r->queues[0][0], c, r->b, 1, r->a, 1);
    (void)r->vk.BeginCommandBuffer(c, &begin);
}

static void submit_pending(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    (void)r->vk.EndCommandBuffer(c);
    (void)rig_submit(r, r->queues[0][0], c, r->b, 1, r->a, 1);
    (void)rig_submit(r, r->queues[0][0], c, 0, 0, r->a, 2);
}

static void destroy_used(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    r->vk.CmdFillBuffer(c, r->buffer, 0, 4, 0);
    (void)r->vk.EndCommandBuffer(c);
    (void)rig_submit(r, r->queues[0][0], c, r->b, 1, r->a, 1);
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
}

static void free_used(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    r->vk.CmdFillBuffer(c, r->buffer, 0, 4, 0);
    (void)r->vk.EndCommandBuffer(c);
    (void)rig_submit(r, r->queues[0][0], c, r->b, 1, r->a, 1);
    r->vk.FreeMemory(r->device, r->memory, NULL);
}

static void use_destroyed(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    r->vk.CmdFillBuffer(c, r->buffer, 0, 4, 0);
    (void)r->vk.EndCommandBuffer(c);
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
    (void)rig_submit(r, r->queues[0][0], c, 0, 0, r->a, 1);
}

static void destroy_twice(rig *r) {
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
}

static void odd_fill(rig *r) { r->vk.CmdFillBuffer(rig_begin(r, 0, 0), r->buffer, 2, 4, 0); }

static void copy_beyond(rig *r) { rig_copy(r, rig_begin(r, 0, 0), RIG_BYTES - 8, 0, 16); }

static void copy_overlap(rig *r) { rig_copy(r, rig_begin(r, 0, 0), 8, 0, 16); }

static void map_local(rig *r) {
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = 256};
    VkDeviceMemory memory;
    void *host;
    (void)r->vk.AllocateMemory(r->device, &info, NULL, &memory);
    (void)r->vk.MapMemory(r->device, memory, 0, 256, 0, &host);
}

static void map_incoherent(rig *r) {
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = 256, .memoryTypeIndex = 2};
    VkDeviceMemory memory;
    void *host;
    (void)r->vk.AllocateMemory(r->device, &info, NULL, &memory);
    (void)r->vk.MapMemory(r->device, memory, 0, 256, 0, &host);
}

static void leak(rig *r) {
    (void)rig_semaphore(r);
    rig_close(r);
}

static void no_edges(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    r->vk.CmdFillBuffer(c, r->buffer, 0, 4, 0);
    (void)r->vk.EndCommandBuffer(c);
}

static void early_wait(rig *r) {
    (void)rig_submit(r, r->queues[0][0], NULL, r->a, 1, r->b, 1);
}

static void hazard(rig *r) {
    VkCommandBuffer c = rig_begin(r, 0, 0);
    r->vk.CmdFillBuffer(c, r->buffer, 0, 4, 0);
    rig_copy(r, c, 64, 2, 4);
    (void)r->vk.EndCommandBuffer(c);
}

static void *begin_many(void *user) {
    rig *r = (rig *)user;
    for (uint32_t i = 0; i < 20000; i++) {
        VkCommandBufferAllocateInfo allocate = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = r->pools[0], .commandBufferCount = 1};
        VkCommandBuffer c;
        (void)r->vk.AllocateCommandBuffers(r->device, &allocate, &c);
        r->vk.FreeCommandBuffers(r->device, r->pools[0], 1, &c);
    }
    return NULL;
}

static void two_threads(rig *r) {
    pthread_t other;
    pthread_create(&other, NULL, begin_many, r);
    (void)begin_many(r);
    pthread_join(other, NULL);
}

static const crime crimes[] = {
    {"two queues signal", two_producers},
    {"the host signals semaphore", host_and_queue},
    {"does not rise: 2 to 2", no_rise},
    {"waits for semaphore #", self_wait},
    {"a command buffer of family 0 on a queue of 1", foreign_family},
    {"not on family 2", dispatch_on_transfer},
    {"not on family 2", reset_on_transfer},
    {"written without a reset", stamp_twice},
    {"stages 0x800 on family 2", compute_stage_on_transfer},
    {"is destroyed or changed while 1 pending", begin_pending},
    {"is pending", submit_pending},
    {"is destroyed or changed while 1 pending", destroy_used},
    {"is destroyed or changed while 1 pending", free_used},
    {"which was destroyed", use_destroyed},
    {"was destroyed", destroy_twice},
    {"offset 2", odd_fill},
    {"16 bytes at 65528", copy_beyond},
    {"overlaps", copy_overlap},
    {"is not host visible", map_local},
    {"is not coherent", map_incoherent},
    {"left: 1 x semaphore", leak},
    {"no barrier after earlier work", no_edges},
    {"before the batch that signals it", early_wait},
    {"touch the same bytes", hazard},
    {"two threads use command pool", two_threads},
};

/* Runs `commit` in a child whose stderr comes back in `text`; the child's status. */
static int in_child(void (*commit)(void), char *text, size_t size) {
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        alarm(60);
        commit();
        _exit(0);
    }
    close(ends[1]);
    while (used + 1 < size && (got = read(ends[0], text + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = 0;
    close(ends[0]);
    assert_true(waitpid(child, &status, 0) == child);
    return status;
}

static const crime *crime_now;

static void commit_crime(void) {
    rig r;
    profile_three();
    mock_vk_options.watchdog_ns = 200000000;
    mock_vk_options.linger = crime_now->commit == two_threads ? 500 : 0;
    mock_vk_options.flags = crime_now->commit == no_edges     ? MOCK_VK_CHECK_EDGES
                            : crime_now->commit == early_wait ? MOCK_VK_CHECK_WAITS
                            : crime_now->commit == hazard     ? MOCK_VK_CHECK_HAZARDS
                                                              : 0;
    rig_open(&r);
    crime_now->commit(&r);
}

static void aborts(void **state) {
    char text[8192];
    (void)state;
    for (size_t i = 0; i < sizeof crimes / sizeof crimes[0]; i++) {
        crime_now = &crimes[i];
        int status = in_child(commit_crime, text, sizeof text);
        if (!WIFSIGNALED(status) || !strstr(text, crime_now->text)) {
            print_error("'%s' is not said, status %#x:\n%s\n", crime_now->text, status, text);
            fail();
        }
    }
}

/* ---- what aborts with kernels ---- */

typedef struct kernel_crime {
    const char *text;
    int way;
    void (*commit)(kernel_rig *k, VkCommandBuffer c);
} kernel_crime;

static void no_pipeline(kernel_rig *k, VkCommandBuffer c) { k->r.vk.CmdDispatch(c, 1, 1, 1); }

static void too_many_groups(kernel_rig *k, VkCommandBuffer c) {
    kernel_bind(k, c, BY_POINTER);
    k->r.vk.CmdDispatch(c, 65536, 1, 1);
}

static void too_many_indirect(kernel_rig *k, VkCommandBuffer c) {
    kernel_bind(k, c, BY_POINTER);
    rig_put(&k->r, 512, 65536);
    k->r.vk.CmdDispatchIndirect(c, k->r.buffer, 512);
    rig_run(&k->r, 0, c);
}

static void base_beyond(kernel_rig *k, VkCommandBuffer c) {
    kernel_bind(k, c, BY_POINTER);
    k->r.vk.CmdDispatchBase(c, 65535, 0, 0, 1, 1, 1);
}

static void wild_pointer(kernel_rig *k, VkCommandBuffer c) {
    count_args args = {(uint64_t)(uintptr_t)k->r.host, 1, 1};
    kernel_bind(k, c, BY_POINTER);
    memcpy(k->r.host + 256, &args, sizeof args);
    k->r.vk.CmdDispatch(c, 1, 1, 1);
    rig_run(&k->r, 0, c);
}

static void odd_block(kernel_rig *k, VkCommandBuffer c) {
    uint64_t at = k->r.address + 264;
    kernel_bind(k, c, BY_POINTER);
    k->r.vk.CmdPushConstants(c, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &at);
    k->r.vk.CmdDispatch(c, 1, 1, 1);
    rig_run(&k->r, 0, c);
}

static void nothing_pushed(kernel_rig *k, VkCommandBuffer c) {
    k->r.vk.CmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    k->r.vk.CmdDispatch(c, 1, 1, 1);
}

static void push_beyond(kernel_rig *k, VkCommandBuffer c) {
    const uint32_t values[3] = {0, 0, 0};
    k->r.vk.CmdPushConstants(c, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 12, values);
}

static void no_set(kernel_rig *k, VkCommandBuffer c) {
    k->r.vk.CmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    k->r.vk.CmdDispatch(c, 1, 1, 1);
}

static void stale_set(kernel_rig *k, VkCommandBuffer c) {
    kernel_bind(k, c, BY_SET);
    k->r.vk.CmdDispatch(c, 1, 1, 1);
    kernel_write_set(k, NULL, 0, 8192);
    rig_run(&k->r, 0, c);
}

static void pending_set(kernel_rig *k, VkCommandBuffer c) {
    kernel_bind(k, c, BY_LATE_SET);
    k->r.vk.CmdDispatch(c, 1, 1, 1);
    (void)k->r.vk.EndCommandBuffer(c);
    (void)rig_submit(&k->r, k->r.queues[0][0], c, k->r.b, 1, k->r.a, 1);
    kernel_write_set(k, NULL, 0, 8192);
}

static void odd_set(kernel_rig *k, VkCommandBuffer c) {
    (void)c;
    kernel_write_set(k, NULL, 0, 64);
}

static const kernel_crime kernel_crimes[] = {
    {"no pipeline is bound", BY_POINTER, no_pipeline},
    {"65536 groups", BY_POINTER, too_many_groups},
    {"65536 groups", BY_POINTER, too_many_indirect},
    {"1 groups from 65535", BY_POINTER, base_beyond},
    {"device address fault", BY_POINTER, wild_pointer},
    {"no multiple of 16", BY_POINTER, odd_block},
    {"not all were pushed", BY_POINTER, nothing_pushed},
    {"12 bytes at 0", BY_POINTER, push_beyond},
    {"no descriptors", BY_SET, no_set},
    {"was updated after it was bound", BY_SET, stale_set},
    {"pending batches use it", BY_LATE_SET, pending_set},
    {"alignment 256", BY_SET, odd_set},
};

static const kernel_crime *kernel_crime_now;

static void commit_kernel_crime(void) {
    kernel_rig k;
    profile_three();
    kernel_open(&k, kernel_crime_now->way);
    kernel_crime_now->commit(&k, rig_begin(&k.r, 0, 0));
}

static void kernel_aborts(void **state) {
    char text[8192];
    (void)state;
    for (size_t i = 0; i < sizeof kernel_crimes / sizeof kernel_crimes[0]; i++) {
        kernel_crime_now = &kernel_crimes[i];
        int status = in_child(commit_kernel_crime, text, sizeof text);
        if (!WIFSIGNALED(status) || !strstr(text, kernel_crime_now->text)) {
            print_error("'%s' is not said, status %#x:\n%s\n", kernel_crime_now->text, status,
                        text);
            fail();
        }
    }
}

/* ---- many at once ---- */

enum { MANY = 400 };

typedef struct many {
    rig *r;
    VkQueue queue;
    VkCommandBuffer commands;
    VkSemaphore semaphore;
} many;

static void *submit_many(void *user) {
    many *m = (many *)user;
    for (uint64_t i = 1; i <= MANY; i++) {
        uint64_t value = 0;
        (void)rig_submit(m->r, m->queue, m->commands, 0, 0, m->semaphore, i);
        (void)m->r->vk.GetSemaphoreCounterValue(m->r->device, m->semaphore, &value);
        if (i % 64 == 0) {
            (void)rig_wait(m->r, m->semaphore, i, UINT64_MAX);
        }
    }
    (void)rig_wait(m->r, m->semaphore, MANY, UINT64_MAX);
    return NULL;
}

/* Two threads, each with a queue of its own. */
static void threads(void **state) {
    rig r;
    (void)state;
    for (uint32_t mode = 0; mode < 2; mode++) {
        profile_three();
        mock_vk_options.flags = mode ? MOCK_VK_SCHEDULER | MOCK_VK_SHUFFLE : 0;
        mock_vk_options.linger = 50;
        rig_open(&r);
        many each[2] = {{&r, r.queues[0][0], NULL, r.a}, {&r, r.queues[1][1], NULL, r.b}};
        pthread_t thread[2];
        for (uint32_t i = 0; i < 2; i++) {
            each[i].commands = rig_begin(&r, i, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
            r.vk.CmdFillBuffer(each[i].commands, r.buffer, i * 64, 64, i + 1);
            assert_int_equal(r.vk.EndCommandBuffer(each[i].commands), VK_SUCCESS);
            pthread_create(&thread[i], NULL, submit_many, &each[i]);
        }
        pthread_join(thread[0], NULL);
        pthread_join(thread[1], NULL);
        assert_int_equal(rig_word(&r, 64), 2);
        assert_int_equal(mock_vk_read().batches, 2 * MANY);
        rig_close(&r);
    }
}

#include "vulkan_backend.h"

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(aborts, setup),
    cmocka_unit_test_setup(kernel_aborts, setup),
    cmocka_unit_test_setup(off_is_the_system, setup),
    cmocka_unit_test_setup(three_families, setup),
    cmocka_unit_test_setup(nothing_optional, setup),
    cmocka_unit_test_setup(copies_and_fills, setup),
    cmocka_unit_test_setup(chain, setup),
    cmocka_unit_test_setup(blocked, setup),
    cmocka_unit_test_setup(submit2, setup),
    cmocka_unit_test_setup(shuffled, setup),
    cmocka_unit_test_setup(kernels, setup),
    cmocka_unit_test_setup(late_set, setup),
    cmocka_unit_test_setup(pipeline_cache, setup),
    cmocka_unit_test_setup(timestamps, setup),
    cmocka_unit_test_setup(injected, setup),
    cmocka_unit_test_setup(memory_limits, setup),
    cmocka_unit_test_setup(imported, setup),
    cmocka_unit_test_setup(lost, setup),
    cmocka_unit_test_setup(threads, setup),
    BACKEND_TESTS
};

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    alarm(T.quick ? 300 : 1800);
    return cmocka_run_group_tests_name("mock_vulkan", tests, NULL, NULL);
}
