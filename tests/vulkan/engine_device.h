/* engine_device.h - an engine with a device of its own, by raw calls, which it lends to
   hcq and looks at what that calls. Part of vulkan.c. */
#ifndef HCQ_TEST_VULKAN_ENGINE_DEVICE_H
#define HCQ_TEST_VULKAN_ENGINE_DEVICE_H

#include "shared.h"

#define ENGINE_FUNCTIONS(X)                                                        \
    X(vkGetDeviceQueue) X(vkQueueSubmit) X(vkCreateCommandPool) X(vkDestroyCommandPool) \
    X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) X(vkEndCommandBuffer)      \
    X(vkCmdCopyBuffer) X(vkCreateSemaphore) X(vkDestroySemaphore) X(vkWaitSemaphores) \
    X(vkSignalSemaphore) X(vkGetSemaphoreCounterValue) X(vkDeviceWaitIdle) X(vkDestroyDevice)

enum { ENGINE_SEMAPHORES = 5 };

typedef struct engine {
    void *library;
    PFN_vkGetInstanceProcAddr loader;
    PFN_vkGetDeviceProcAddr device_proc;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkPhysicalDeviceVulkan12Features features12;
    VkPhysicalDeviceFeatures2 features;
    VkCommandPool pool;
    VkSemaphore semaphores[ENGINE_SEMAPHORES]; /* timelines */
    pthread_mutex_t lock;              /* of the queue */
    uint64_t holder;                   /* thread that has it; atomic */
    uint64_t locked, faults;           /* atomic */
    uint64_t submits, idles;           /* calls by hcq; atomic */
    PFN_vkQueueSubmit2KHR submit2;
#define ENGINE_MEMBER(name) PFN_##name name;
    ENGINE_FUNCTIONS(ENGINE_MEMBER)
} engine;

static engine E;

static const char *const engine_extensions[] = {
    VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME
};

/* ---- what hcq calls, looked at ---- */

static void engine_fault_if(int fault) {
    __atomic_add_fetch(&E.faults, fault ? 1u : 0u, __ATOMIC_SEQ_CST);
}

static void engine_lock(void *user, VkQueue queue, int locked) {
    engine *e = (engine *)user;
    engine_fault_if(queue != e->queue);
    if (locked) {
        pthread_mutex_lock(&e->lock);
        engine_fault_if(__atomic_exchange_n(&e->holder, hcq_sys_thread_id(),
                                            __ATOMIC_SEQ_CST) != 0);
        __atomic_add_fetch(&e->locked, 1, __ATOMIC_SEQ_CST);
        return;
    }
    engine_fault_if(__atomic_exchange_n(&e->holder, 0, __ATOMIC_SEQ_CST) != hcq_sys_thread_id());
    pthread_mutex_unlock(&e->lock);
}

/* A call of hcq's on the queue: only between lock and unlock. */
static void engine_used(void) {
    __atomic_add_fetch(&E.submits, 1, __ATOMIC_SEQ_CST);
    engine_fault_if(__atomic_load_n(&E.holder, __ATOMIC_SEQ_CST) != hcq_sys_thread_id());
}

static VKAPI_ATTR VkResult VKAPI_CALL seen_submit(VkQueue queue, uint32_t count,
                                                  const VkSubmitInfo *infos, VkFence fence) {
    engine_used();
    return E.vkQueueSubmit(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL seen_submit2(VkQueue queue, uint32_t count,
                                                   const VkSubmitInfo2KHR *infos, VkFence fence) {
    engine_used();
    return E.submit2(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL seen_idle(VkDevice device) {
    __atomic_add_fetch(&E.idles, 1, __ATOMIC_SEQ_CST);
    return E.vkDeviceWaitIdle(device);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL seen_device_proc(VkDevice device,
                                                                 const char *name) {
    PFN_vkVoidFunction found = E.device_proc(device, name);
    if (found && strcmp(name, "vkQueueSubmit") == 0) {
        return (PFN_vkVoidFunction)seen_submit;
    }
    if (found && (strcmp(name, "vkQueueSubmit2") == 0 || strcmp(name, "vkQueueSubmit2KHR") == 0)) {
        return (PFN_vkVoidFunction)seen_submit2;
    }
    return strcmp(name, "vkDeviceWaitIdle") == 0 ? (PFN_vkVoidFunction)seen_idle : found;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL seen_loader(VkInstance instance,
                                                            const char *name) {
    PFN_vkVoidFunction found = E.loader(instance, name);
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (PFN_vkVoidFunction)seen_device_proc : found;
}

/* ---- the engine ---- */

/* A function of the instance's, called at once. */
#define ENGINE_CALL(name) ((PFN_##name)E.loader(E.instance, #name))

static VKAPI_ATTR VkBool32 VKAPI_CALL engine_message(
    VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
    const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    (void)severity;
    (void)types;
    (void)user;
    fprintf(stderr, "validation: %.800s\n", data->pMessage);
    __atomic_add_fetch(&test_vk.messages, 1, __ATOMIC_SEQ_CST);
    return VK_FALSE;
}

static void engine_instance(void) {
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    const uint32_t validates = test_validates() ? 1 : 0;
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
        .pfnUserCallback = engine_message};
    CHECK(ENGINE_CALL(vkCreateInstance)(&info, NULL, &E.instance) == VK_SUCCESS);
    CHECK(!validates || ENGINE_CALL(vkCreateDebugUtilsMessengerEXT)(
                            E.instance, &messages, NULL, &E.messenger) == VK_SUCCESS);
}

static void engine_device(void) {
    static const float priority = 1.0f;
    VkQueueFamilyProperties families[16];
    uint32_t count = 1, family_count = 16;
    CHECK(ENGINE_CALL(vkEnumeratePhysicalDevices)(E.instance, &count, &E.physical) >= VK_SUCCESS);
    ENGINE_CALL(vkGetPhysicalDeviceQueueFamilyProperties)(E.physical, &family_count, families);
    while (!(families[E.family].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        E.family++;
        CHECK(E.family < family_count);
    }
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = E.family,
        .queueCount = 1, .pQueuePriorities = &priority};
    E.features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    E.features12.timelineSemaphore = VK_TRUE;
    E.features12.bufferDeviceAddress = VK_TRUE;
    E.features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    E.features.pNext = &E.features12;
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &E.features,
        .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue, .enabledExtensionCount = 2,
        .ppEnabledExtensionNames = engine_extensions};
    CHECK(ENGINE_CALL(vkCreateDevice)(E.physical, &info, NULL, &E.device) == VK_SUCCESS);
}

static void engine_open(void) {
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                            .pNext = &type};
    memset(&E, 0, sizeof E);
    pthread_mutex_init(&E.lock, NULL);
    E.library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(E.library != NULL);
    void *symbol = dlsym(E.library, "vkGetInstanceProcAddr");
    memcpy(&E.loader, &symbol, sizeof symbol);
    engine_instance();
    engine_device();
    E.device_proc = ENGINE_CALL(vkGetDeviceProcAddr);
#define ENGINE_LOAD(name) E.name = (PFN_##name)E.device_proc(E.device, #name);
    ENGINE_FUNCTIONS(ENGINE_LOAD)
    E.submit2 = (PFN_vkQueueSubmit2KHR)E.device_proc(E.device, "vkQueueSubmit2KHR");
    E.vkGetDeviceQueue(E.device, E.family, 0, &E.queue);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = E.family};
    CHECK(E.vkCreateCommandPool(E.device, &pool, NULL, &E.pool) == VK_SUCCESS);
    for (uint32_t i = 0; i < ENGINE_SEMAPHORES; i++) {
        CHECK(E.vkCreateSemaphore(E.device, &timeline, NULL, &E.semaphores[i]) == VK_SUCCESS);
    }
}

/* Nothing of hcq's is left on it, says the layer; hcq did not stop it either. */
static void engine_close(void) {
    CHECK_U64(E.faults, 0);
    CHECK_U64(E.idles, 0);
    for (uint32_t i = 0; i < ENGINE_SEMAPHORES; i++) {
        E.vkDestroySemaphore(E.device, E.semaphores[i], NULL);
    }
    E.vkDestroyCommandPool(E.device, E.pool, NULL);
    E.vkDestroyDevice(E.device, NULL);
    if (E.messenger) {
        ENGINE_CALL(vkDestroyDebugUtilsMessengerEXT)(E.instance, E.messenger, NULL);
    }
    ENGINE_CALL(vkDestroyInstance)(E.instance, NULL);
    dlclose(E.library);
    pthread_mutex_destroy(&E.lock);
}

/* hcq on the engine's device. */
static hcq_device *engine_lend(void) {
    static hcq_vulkan_queue queue;
    hcq_device_desc desc = test_desc();
    queue.queue = E.queue;
    queue.family = E.family;
    test_vulkan_desc.flags &= ~(uint32_t)HCQ_VULKAN_VALIDATION;
    test_vulkan_desc.instance = E.instance;
    test_vulkan_desc.physical_device = E.physical;
    test_vulkan_desc.device = E.device;
    test_vulkan_desc.loader = seen_loader;
    test_vulkan_desc.queues = &queue;
    test_vulkan_desc.queue_count = 1;
    test_vulkan_desc.extensions = engine_extensions;
    test_vulkan_desc.extension_count = 2;
    test_vulkan_desc.features = &E.features;
    test_vulkan_desc.lock_fn = engine_lock;
    test_vulkan_desc.lock_user = &E;
    return test_open(0, &desc);
}

/* ---- work of the engine's ---- */

static void engine_signal(VkSemaphore semaphore, uint64_t value) {
    const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                        .semaphore = semaphore, .value = value};
    CHECK(E.vkSignalSemaphore(E.device, &info) == VK_SUCCESS);
}

static int engine_wait(VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns) {
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1, .pSemaphores = &semaphore,
                                      .pValues = &value};
    return E.vkWaitSemaphores(E.device, &info, timeout_ns) == VK_SUCCESS;
}

/* A copy of a word between two buffers of hcq's. */
static VkCommandBuffer engine_copy(hcq_buffer dst, uint64_t dst_word, hcq_buffer src,
                                   uint64_t src_word) {
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = E.pool,
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandBuffer commands = NULL;
    VkBuffer to, from;
    VkBufferCopy region = {0, 0, 4};
    CHECK_OK(hcq_vulkan_buffer(dst, &to, &region.dstOffset));
    CHECK_OK(hcq_vulkan_buffer(src, &from, &region.srcOffset));
    region.dstOffset += dst_word * 4;
    region.srcOffset += src_word * 4;
    CHECK(E.vkAllocateCommandBuffers(E.device, &info, &commands) == VK_SUCCESS);
    CHECK(E.vkBeginCommandBuffer(commands, &begin) == VK_SUCCESS);
    E.vkCmdCopyBuffer(commands, from, to, 1, &region);
    CHECK(E.vkEndCommandBuffer(commands) == VK_SUCCESS);
    return commands;
}

/* After `wait`, raises `signal`. */
static void engine_submit(VkCommandBuffer commands, VkSemaphore wait, uint64_t wait_value,
                          VkSemaphore signal, uint64_t signal_value) {
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = wait ? 1 : 0, .pWaitSemaphoreValues = &wait_value,
        .signalSemaphoreValueCount = signal ? 1 : 0, .pSignalSemaphoreValues = &signal_value};
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values,
        .waitSemaphoreCount = wait ? 1 : 0, .pWaitSemaphores = &wait,
        .pWaitDstStageMask = &stages, .commandBufferCount = commands ? 1 : 0,
        .pCommandBuffers = &commands, .signalSemaphoreCount = signal ? 1 : 0,
        .pSignalSemaphores = &signal};
    engine_lock(&E, E.queue, 1);
    VkResult r = E.vkQueueSubmit(E.queue, 1, &info, VK_NULL_HANDLE);
    engine_lock(&E, E.queue, 0);
    CHECK(r == VK_SUCCESS);
}

#endif /* HCQ_TEST_VULKAN_ENGINE_DEVICE_H */
