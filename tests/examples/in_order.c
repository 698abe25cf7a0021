/* in_order.c - preloaded into examples/engine.c by engine.sh: does the engine wait for hcq, and
   hcq for the engine?

   A queue of lavapipe runs one submission after another, whether it is told to or not, and
   the validation layer knows nothing of values that semaphores will have. So neither the
   picture nor the layer misses a wait that is left out; here it is missed: of two submissions,
   one by each side, the second has to wait for what the first one signals, unless that is
   there already. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <vulkan/vulkan.h>

/* All submissions are under the engine's lock, and so is this. */
static VkSemaphoreSubmitInfo before;   /* what the last one signals */
static int hcq_was_it;
static unsigned turns, hurried;
static VkDevice device;

static PFN_vkVoidFunction next(const char *name) {
    PFN_vkVoidFunction f = NULL;
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(&f, &symbol, sizeof f);
    return f;
}

static int is_over(void) {
    uint64_t value = 0;
    return ((PFN_vkGetSemaphoreCounterValue)next("vkGetSemaphoreCounterValue"))(
               device, before.semaphore, &value) == VK_SUCCESS && value >= before.value;
}

static void look(const VkSubmitInfo2 *info, int is_hcq) {
    int waits = 0;
    for (uint32_t k = 0; k < info->waitSemaphoreInfoCount; k++) {
        const VkSemaphoreSubmitInfo *w = &info->pWaitSemaphoreInfos[k];
        waits |= w->semaphore == before.semaphore && w->value == before.value;
    }
    if (before.semaphore != VK_NULL_HANDLE && is_hcq != hcq_was_it) {
        turns++;
        hurried += !waits && !is_over();
    }
    hcq_was_it = is_hcq;
    memset(&before, 0, sizeof before);
    if (info->signalSemaphoreInfoCount != 0) { before = info->pSignalSemaphoreInfos[0]; }
}

static VkResult submit(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos, VkFence fence,
                       int is_hcq) {
    for (uint32_t i = 0; i < count; i++) { look(&infos[i], is_hcq); }
    return ((PFN_vkQueueSubmit2)next("vkQueueSubmit2"))(queue, count, infos, fence);
}

/* The engine calls this by its name, hcq that by its address. */
VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit2(VkQueue queue, uint32_t count,
                                              const VkSubmitInfo2 *infos, VkFence fence) {
    return submit(queue, count, infos, fence, 0);
}

static VKAPI_ATTR VkResult VKAPI_CALL by_hcq(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo2 *infos, VkFence fence) {
    return submit(queue, count, infos, fence, 1);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice of, const char *name) {
    int ours = strcmp(name, "vkQueueSubmit2") == 0 || strcmp(name, "vkQueueSubmit2KHR") == 0;
    device = of;
    return ours ? (PFN_vkVoidFunction)by_hcq
                : ((PFN_vkGetDeviceProcAddr)next("vkGetDeviceProcAddr"))(of, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                               const char *name) {
    return strcmp(name, "vkGetDeviceProcAddr") == 0
               ? (PFN_vkVoidFunction)vkGetDeviceProcAddr
               : ((PFN_vkGetInstanceProcAddr)next("vkGetInstanceProcAddr"))(instance, name);
}

static void __attribute__((destructor)) say(void) {
    fprintf(stderr, "%u of %u turns are hurried\n", hurried, turns);
}
