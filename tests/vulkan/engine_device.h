/* engine_device.h - an engine with a device of the system's, which it lends to hcq and
   looks at what that calls. Part of vulkan.c. */
#ifndef HCQ_TEST_VULKAN_ENGINE_DEVICE_H
#define HCQ_TEST_VULKAN_ENGINE_DEVICE_H

#include "mocks/vulkan_rig.h"
#include "shared.h"

typedef struct engine {
    rig r;
    VkQueue queue;
    uint32_t family;
    pthread_mutex_t lock;              /* of the queue */
    uint64_t holder;                   /* thread that has it; atomic */
    uint64_t locked, faults;           /* atomic */
    uint64_t submits, idles;           /* calls by hcq; atomic */
    PFN_vkQueueSubmit2KHR submit2;
} engine;

static engine E;

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
    return E.r.vk.QueueSubmit(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL seen_submit2(VkQueue queue, uint32_t count,
                                                   const VkSubmitInfo2KHR *infos, VkFence fence) {
    engine_used();
    return E.submit2(queue, count, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL seen_idle(VkDevice device) {
    __atomic_add_fetch(&E.idles, 1, __ATOMIC_SEQ_CST);
    return E.r.vk.DeviceWaitIdle(device);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL seen_device_proc(VkDevice device,
                                                                 const char *name) {
    PFN_vkVoidFunction found = E.r.vk.GetDeviceProcAddr(device, name);
    if (found && strcmp(name, "vkQueueSubmit") == 0) {
        return (PFN_vkVoidFunction)seen_submit;
    }
    if (found && (strcmp(name, "vkQueueSubmit2") == 0 || strcmp(name, "vkQueueSubmit2KHR") == 0)) {
        E.submit2 = (PFN_vkQueueSubmit2KHR)found;
        return (PFN_vkVoidFunction)seen_submit2;
    }
    return strcmp(name, "vkDeviceWaitIdle") == 0 ? (PFN_vkVoidFunction)seen_idle : found;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL seen_loader(VkInstance instance,
                                                            const char *name) {
    PFN_vkVoidFunction found = mock_vk_loader(instance, name);
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (PFN_vkVoidFunction)seen_device_proc : found;
}

/* ---- the engine ---- */

static void engine_open(void) {
    memset(&E, 0, sizeof E);
    pthread_mutex_init(&E.lock, NULL);
    rig_open(&E.r);
    E.family = E.r.first;
    E.queue = E.r.queues[E.family][0];
}

/* hcq did not stop it either. */
static void engine_close(void) {
    CHECK_U64(E.faults, 0);
    CHECK_U64(E.idles, 0);
    rig_close(&E.r);
    pthread_mutex_destroy(&E.lock);
}

/* hcq on the engine's device. */
static hcq_device *engine_lend(void) {
    static hcq_vulkan_queue queue;
    queue.queue = E.queue;
    queue.family = E.family;
    hcq_device_desc desc = rig_desc(&E.r, &queue, 1);
    test_vulkan_desc.loader = seen_loader;
    test_vulkan_desc.lock_fn = engine_lock;
    test_vulkan_desc.lock_user = &E;
    return test_open(0, &desc);
}

static void engine_signal(VkSemaphore semaphore, uint64_t value) {
    rig_signal(&E.r, semaphore, value);
}

/* A copy of a word between two buffers of hcq's. */
static VkCommandBuffer engine_copy(hcq_buffer dst, uint64_t dst_word, hcq_buffer src,
                                   uint64_t src_word) {
    VkBuffer to, from;
    VkBufferCopy region = {0, 0, 4};
    CHECK_OK(hcq_vulkan_buffer(dst, &to, &region.dstOffset));
    CHECK_OK(hcq_vulkan_buffer(src, &from, &region.srcOffset));
    region.dstOffset += dst_word * 4;
    region.srcOffset += src_word * 4;
    VkCommandBuffer commands = rig_begin(&E.r, E.family);
    E.r.vk.CmdCopyBuffer(commands, from, to, 1, &region);
    RIG_OK(E.r.vk.EndCommandBuffer(commands));
    return commands;
}

/* After `wait`, raises `signal`. */
static void engine_submit(VkCommandBuffer commands, VkSemaphore wait, uint64_t wait_value,
                          VkSemaphore signal, uint64_t signal_value) {
    engine_lock(&E, E.queue, 1);
    VkResult r = rig_submit(&E.r, E.queue, commands, wait, wait_value, signal, signal_value);
    engine_lock(&E, E.queue, 0);
    RIG_OK(r);
}

#endif /* HCQ_TEST_VULKAN_ENGINE_DEVICE_H */
