/* vulkan_rig.h - an engine's device to play with by raw calls, with a buffer: the mock's with
   all its families, or the system's with one queue, under the validation layer where that
   looks on. */
#pragma once

#include "support/util.h"

enum { RIG_FAMILIES = 3, RIG_QUEUES = 2, RIG_SEMAPHORES = 5, RIG_BYTES = 65536 };

typedef struct rig {
    mock_vk_functions vk;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice physical;
    VkDevice device;
    VkPhysicalDeviceSynchronization2Features sync2;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceFeatures2 features;
    uint32_t first, last;              /* families; of the system's there is one */
    VkQueue queues[RIG_FAMILIES][RIG_QUEUES];
    VkCommandPool pools[RIG_FAMILIES];
    VkSemaphore semaphores[RIG_SEMAPHORES], a, b; /* timelines, at 0; a and b: the first */
    VkDeviceMemory memory;             /* host visible, with one buffer over it */
    VkBuffer buffer;
    uint64_t address;
    unsigned char *host;
    hcq_vulkan_queue lent[RIG_FAMILIES]; /* to hcq, each with its lock */
    pthread_mutex_t locks[RIG_FAMILIES];
    uint64_t locked;                   /* times; atomic */
    const VkAllocationCallbacks *allocator; /* for hcq */
} rig;

#define RIG_OK(call) assert_int_equal(call, VK_SUCCESS)

static const char *const rig_extensions[] = {
    VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME
};

static void rig_load(rig *r, VkInstance instance) {
    for (uint32_t i = 0; i < MOCK_VK_ENTRY_COUNT; i++) {
        PFN_vkVoidFunction f = mock_vk_loader(instance, mock_vk_names[i]);
        if (f) {
            memcpy((char *)&r->vk + i * sizeof f, &f, sizeof f);
        }
    }
}

static VKAPI_ATTR VkBool32 VKAPI_CALL rig_message(
    VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
    const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    (void)severity;
    (void)types;
    (void)user;
    fprintf(stderr, "validation: %.800s\n", data->pMessage);
    __atomic_add_fetch(&test_vk.messages, 1, __ATOMIC_SEQ_CST);
    return VK_FALSE;
}

static void rig_instance(rig *r) {
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    const uint32_t validates = !mock_vk_options.on && test_vk.validates ? 1 : 0;
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app,
        .enabledLayerCount = validates, .ppEnabledLayerNames = layers,
        .enabledExtensionCount = validates, .ppEnabledExtensionNames = extensions};
    const VkDebugUtilsMessengerCreateInfoEXT messages = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = rig_message};
    rig_load(r, NULL);
    RIG_OK(r->vk.CreateInstance(&info, NULL, &r->instance));
    rig_load(r, r->instance);
    if (validates) {
        RIG_OK(r->vk.CreateDebugUtilsMessengerEXT(r->instance, &messages, NULL, &r->messenger));
    }
}

static void rig_families(rig *r, VkQueueFamilyProperties families[16]) {
    uint32_t count = 1, family_count = 16;
    assert_true(r->vk.EnumeratePhysicalDevices(r->instance, &count, &r->physical) >= VK_SUCCESS);
    r->vk.GetPhysicalDeviceQueueFamilyProperties(r->physical, &family_count, families);
    while (!(families[r->first].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        r->first++;
    }
    r->last = mock_vk_options.on ? RIG_FAMILIES - 1 : r->first;
    assert_in_range(r->last, 0, RIG_FAMILIES - 1);
}

/* On the system's without synchronization2, of which only the extension is there. */
static void rig_device(rig *r) {
    static const float priorities[RIG_QUEUES] = {1.0f, 0.5f};
    VkQueueFamilyProperties families[16];
    VkDeviceQueueCreateInfo queues[RIG_FAMILIES];
    rig_families(r, families);
    for (uint32_t i = r->first; i <= r->last; i++) {
        queues[i] = (VkDeviceQueueCreateInfo){
            .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = i,
            .queueCount = families[i].queueCount < RIG_QUEUES ? 1 : RIG_QUEUES,
            .pQueuePriorities = priorities};
    }
    r->sync2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES;
    r->sync2.synchronization2 = VK_TRUE;
    r->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    r->v12.pNext = mock_vk_options.on ? &r->sync2 : NULL;
    r->v12.timelineSemaphore = r->v12.bufferDeviceAddress = VK_TRUE;
    r->v12.hostQueryReset = mock_vk_options.on ? VK_TRUE : VK_FALSE;
    r->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    r->features.pNext = &r->v12;
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &r->features,
        .queueCreateInfoCount = r->last - r->first + 1, .pQueueCreateInfos = &queues[r->first],
        .enabledExtensionCount = 2, .ppEnabledExtensionNames = rig_extensions};
    RIG_OK(r->vk.CreateDevice(r->physical, &info, NULL, &r->device));
    for (uint32_t i = r->first; i <= r->last; i++) {
        const VkCommandPoolCreateInfo pool = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = i};
        RIG_OK(r->vk.CreateCommandPool(r->device, &pool, NULL, &r->pools[i]));
        for (uint32_t k = 0; k < queues[i].queueCount; k++) {
            r->vk.GetDeviceQueue(r->device, i, k, &r->queues[i][k]);
        }
    }
}

static VkSemaphore rig_semaphore(rig *r) {
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                        .pNext = &type};
    VkSemaphore made;
    RIG_OK(r->vk.CreateSemaphore(r->device, &info, NULL, &made));
    return made;
}

/* The first memory that the host sees, for the buffer. */
static void rig_memory(rig *r) {
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &flags};
    VkMemoryRequirements needs;
    r->vk.GetPhysicalDeviceMemoryProperties2(r->physical, &all);
    r->vk.GetBufferMemoryRequirements(r->device, r->buffer, &needs);
    while (!(needs.memoryTypeBits >> allocate.memoryTypeIndex & 1) ||
           (all.memoryProperties.memoryTypes[allocate.memoryTypeIndex].propertyFlags & wanted) !=
               wanted) {
        allocate.memoryTypeIndex++;
    }
    allocate.allocationSize = needs.size;
    RIG_OK(r->vk.AllocateMemory(r->device, &allocate, NULL, &r->memory));
}

/* A buffer over all families, in the host's memory. */
static void rig_buffer(rig *r) {
    static const uint32_t families[RIG_FAMILIES] = {0, 1, 2};
    void *host;
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = RIG_BYTES,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
        .sharingMode = r->first < r->last ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = r->first < r->last ? RIG_FAMILIES : 0,
        .pQueueFamilyIndices = families};
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    RIG_OK(r->vk.CreateBuffer(r->device, &info, NULL, &r->buffer));
    rig_memory(r);
    RIG_OK(r->vk.BindBufferMemory(r->device, r->buffer, r->memory, 0));
    RIG_OK(r->vk.MapMemory(r->device, r->memory, 0, VK_WHOLE_SIZE, 0, &host));
    memset(host, 0, RIG_BYTES);
    address.buffer = r->buffer;
    r->address = r->vk.GetBufferDeviceAddress(r->device, &address);
    r->host = host;
}

static void rig_open(rig *r) {
    memset(r, 0, sizeof *r);
    rig_instance(r);
    rig_device(r);
    for (uint32_t i = 0; i < RIG_SEMAPHORES; i++) {
        r->semaphores[i] = rig_semaphore(r);
    }
    r->a = r->semaphores[0];
    r->b = r->semaphores[1];
    rig_buffer(r);
}

/* Nothing is left on it, say the mock and the layer. */
static void rig_close(rig *r) {
    r->vk.DestroyBuffer(r->device, r->buffer, NULL);
    r->vk.FreeMemory(r->device, r->memory, NULL);
    for (uint32_t i = 0; i < RIG_SEMAPHORES; i++) {
        r->vk.DestroySemaphore(r->device, r->semaphores[i], NULL);
    }
    for (uint32_t i = r->first; i <= r->last; i++) {
        r->vk.DestroyCommandPool(r->device, r->pools[i], NULL);
    }
    r->vk.DestroyDevice(r->device, NULL);
    if (r->messenger) {
        r->vk.DestroyDebugUtilsMessengerEXT(r->instance, r->messenger, NULL);
    }
    r->vk.DestroyInstance(r->instance, NULL);
}

/* Around what hcq, or the engine, does with a lent queue. */
static void rig_lock(void *user, VkQueue queue, int locked) {
    rig *r = (rig *)user;
    uint32_t i = 0;
    while (i < RIG_FAMILIES && r->lent[i].queue != queue) {
        i++;
    }
    assert_in_range(i, 0, RIG_FAMILIES - 1);
    assert_int_equal(locked ? pthread_mutex_lock(&r->locks[i])
                            : pthread_mutex_unlock(&r->locks[i]), 0);
    __atomic_add_fetch(&r->locked, locked ? 1 : 0, __ATOMIC_RELAXED);
}

/* Lends its first queues; of several families the first one's stays the engine's. */
static hcq_device_desc rig_desc(rig *r) {
    hcq_device_desc desc = test_desc();
    pthread_mutexattr_t checks;
    uint32_t count = 0;
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    for (uint32_t i = r->first < r->last ? r->first + 1 : r->first; i <= r->last; i++) {
        pthread_mutex_init(&r->locks[count], &checks);
        r->lent[count].queue = r->queues[i][0];
        r->lent[count++].family = i;
    }
    pthread_mutexattr_destroy(&checks);
    test_vulkan_desc = (struct hcq_vulkan_desc){
        .flags = test_vulkan_desc.flags & ~(uint32_t)HCQ_VULKAN_VALIDATION,
        .instance = r->instance, .physical_device = r->physical, .device = r->device,
        .loader = mock_vk_loader, .lock_fn = rig_lock, .lock_user = r, .queues = r->lent,
        .queue_count = count, .extensions = rig_extensions, .extension_count = 2,
        .features = &r->features, .allocator = r->allocator};
    return desc;
}

static hcq_device *rig_lend(rig *r) {
    const hcq_device_desc desc = rig_desc(r);
    return test_open(0, &desc);
}

static void rig_end(rig *r, hcq_device *device) {
    CHECK_OK(hcq_close(device));
    rig_close(r);
}

/* ---- its work ---- */

static VkCommandBuffer rig_begin(rig *r, uint32_t family) {
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = r->pools[family],
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkCommandBuffer c;
    RIG_OK(r->vk.AllocateCommandBuffers(r->device, &allocate, &c));
    RIG_OK(r->vk.BeginCommandBuffer(c, &begin));
    return c;
}

/* One batch: waits for one semaphore and signals one, if any. */
static VkResult rig_submit(rig *r, VkQueue queue, VkCommandBuffer c, VkSemaphore wait,
                           uint64_t at, VkSemaphore signal, uint64_t to) {
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = wait ? 1 : 0, .pWaitSemaphoreValues = &at,
        .signalSemaphoreValueCount = signal ? 1 : 0, .pSignalSemaphoreValues = &to};
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values,
        .waitSemaphoreCount = wait ? 1 : 0, .pWaitSemaphores = &wait, .pWaitDstStageMask = &all,
        .commandBufferCount = c ? 1 : 0, .pCommandBuffers = &c,
        .signalSemaphoreCount = signal ? 1 : 0, .pSignalSemaphores = &signal};
    return r->vk.QueueSubmit(queue, 1, &info, VK_NULL_HANDLE);
}

static VkResult rig_wait(rig *r, VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns) {
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1, .pSemaphores = &semaphore,
                                      .pValues = &value};
    return r->vk.WaitSemaphores(r->device, &info, timeout_ns);
}

static void rig_signal(rig *r, VkSemaphore semaphore, uint64_t value) {
    const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                        .semaphore = semaphore, .value = value};
    RIG_OK(r->vk.SignalSemaphore(r->device, &info));
}

static TEST_UNUSED uint32_t rig_word(const rig *r, uint64_t offset) {
    uint32_t word;
    memcpy(&word, r->host + offset, sizeof word);
    return word;
}
