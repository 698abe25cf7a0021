/* engine.h - handles that hcq gives, and a device that an engine lends: a
   small one of the test's own, with raw calls. Part of vulkan.c. */

#define ENGINE_FUNCTIONS(X)                                                        \
    X(vkGetDeviceQueue) X(vkQueueSubmit) X(vkCreateCommandPool) X(vkDestroyCommandPool) \
    X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) X(vkEndCommandBuffer)      \
    X(vkCmdCopyBuffer) X(vkCmdFillBuffer) X(vkCmdPipelineBarrier) X(vkCreateSemaphore) \
    X(vkDestroySemaphore) X(vkWaitSemaphores) X(vkSignalSemaphore)                 \
    X(vkGetSemaphoreCounterValue) X(vkDeviceWaitIdle) X(vkDestroyDevice)

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
    pthread_mutex_t lock;              /* of the queue */
    uint64_t holder;                   /* thread that has it; atomic */
    uint64_t locked, faults;           /* atomic */
    uint64_t submits, modules, idles;  /* calls by hcq; atomic */
    PFN_vkQueueSubmit2KHR submit2;
    PFN_vkCreateShaderModule create_module;
#define ENGINE_MEMBER(name) PFN_##name name;
    ENGINE_FUNCTIONS(ENGINE_MEMBER)
} engine;

static engine E;

static const char *const engine_extensions[] = {
    VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME
};

/* ---- what hcq calls, looked at ---- */

static void engine_lock(void *user, VkQueue queue, int locked) {
    engine *e = (engine *)user;
    if (queue != e->queue) {
        __atomic_add_fetch(&e->faults, 1, __ATOMIC_SEQ_CST);
    }
    if (locked) {
        pthread_mutex_lock(&e->lock);
        if (__atomic_exchange_n(&e->holder, hcq_sys_thread_id(), __ATOMIC_SEQ_CST) != 0) {
            __atomic_add_fetch(&e->faults, 1, __ATOMIC_SEQ_CST);
        }
        __atomic_add_fetch(&e->locked, 1, __ATOMIC_SEQ_CST);
        return;
    }
    if (__atomic_exchange_n(&e->holder, 0, __ATOMIC_SEQ_CST) != hcq_sys_thread_id()) {
        __atomic_add_fetch(&e->faults, 1, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&e->lock);
}

/* A call of hcq's on the queue: only between lock and unlock. */
static void engine_used(void) {
    __atomic_add_fetch(&E.submits, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&E.holder, __ATOMIC_SEQ_CST) != hcq_sys_thread_id()) {
        __atomic_add_fetch(&E.faults, 1, __ATOMIC_SEQ_CST);
    }
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

static VKAPI_ATTR VkResult VKAPI_CALL seen_module(VkDevice device,
                                                  const VkShaderModuleCreateInfo *info,
                                                  const VkAllocationCallbacks *memory,
                                                  VkShaderModule *module) {
    __atomic_add_fetch(&E.modules, 1, __ATOMIC_SEQ_CST);
    return E.create_module(device, info, memory, module);
}

static VKAPI_ATTR VkResult VKAPI_CALL seen_idle(VkDevice device) {
    __atomic_add_fetch(&E.idles, 1, __ATOMIC_SEQ_CST);
    return E.vkDeviceWaitIdle(device);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL seen_device_proc(VkDevice device,
                                                                 const char *name) {
    PFN_vkVoidFunction found = E.device_proc(device, name);
    if (!found) {
        return NULL;
    }
    if (strcmp(name, "vkQueueSubmit") == 0) {
        return (PFN_vkVoidFunction)seen_submit;
    }
    if (strcmp(name, "vkQueueSubmit2") == 0 || strcmp(name, "vkQueueSubmit2KHR") == 0) {
        return (PFN_vkVoidFunction)seen_submit2;
    }
    if (strcmp(name, "vkCreateShaderModule") == 0) {
        return (PFN_vkVoidFunction)seen_module;
    }
    return strcmp(name, "vkDeviceWaitIdle") == 0 ? (PFN_vkVoidFunction)seen_idle : found;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL seen_loader(VkInstance instance,
                                                            const char *name) {
    PFN_vkVoidFunction found = E.loader(instance, name);
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (PFN_vkVoidFunction)seen_device_proc : found;
}

/* ---- the engine ---- */

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

static void engine_messenger(void) {
    VkDebugUtilsMessengerCreateInfoEXT info;
    PFN_vkCreateDebugUtilsMessengerEXT create = (PFN_vkCreateDebugUtilsMessengerEXT)E.loader(
        E.instance, "vkCreateDebugUtilsMessengerEXT");
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    info.pfnUserCallback = engine_message;
    CHECK(create && create(E.instance, &info, NULL, &E.messenger) == VK_SUCCESS);
}

static void engine_instance(void) {
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    VkApplicationInfo app;
    VkInstanceCreateInfo info;
    memset(&app, 0, sizeof app);
    memset(&info, 0, sizeof info);
    app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    app.apiVersion = VK_API_VERSION_1_2;
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &app;
    info.enabledLayerCount = info.enabledExtensionCount = test_validates() ? 1 : 0;
    info.ppEnabledLayerNames = layers;
    info.ppEnabledExtensionNames = extensions;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)E.loader(NULL, "vkCreateInstance");
    CHECK(create && create(&info, NULL, &E.instance) == VK_SUCCESS);
    if (test_validates()) {
        engine_messenger();
    }
}

static void engine_physical(void) {
    VkQueueFamilyProperties families[16];
    uint32_t count = 1, family_count = 16;
    PFN_vkEnumeratePhysicalDevices list = (PFN_vkEnumeratePhysicalDevices)E.loader(
        E.instance, "vkEnumeratePhysicalDevices");
    PFN_vkGetPhysicalDeviceQueueFamilyProperties get =
        (PFN_vkGetPhysicalDeviceQueueFamilyProperties)E.loader(
            E.instance, "vkGetPhysicalDeviceQueueFamilyProperties");
    CHECK(list(E.instance, &count, &E.physical) >= VK_SUCCESS && count == 1);
    get(E.physical, &family_count, families);
    while (!(families[E.family].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        E.family++;
        CHECK(E.family < family_count);
    }
}

static void engine_device(void) {
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue;
    VkDeviceCreateInfo info;
    memset(&queue, 0, sizeof queue);
    memset(&info, 0, sizeof info);
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = E.family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    E.features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    E.features12.timelineSemaphore = VK_TRUE;
    E.features12.bufferDeviceAddress = VK_TRUE;
    E.features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    E.features.pNext = &E.features12;
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &E.features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = 2;
    info.ppEnabledExtensionNames = engine_extensions;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)E.loader(E.instance, "vkCreateDevice");
    CHECK(create(E.physical, &info, NULL, &E.device) == VK_SUCCESS);
}

static void engine_open(void) {
    VkCommandPoolCreateInfo info;
    memset(&E, 0, sizeof E);
    pthread_mutex_init(&E.lock, NULL);
    E.library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(E.library != NULL);
    void *symbol = dlsym(E.library, "vkGetInstanceProcAddr");
    memcpy(&E.loader, &symbol, sizeof symbol);
    engine_instance();
    engine_physical();
    engine_device();
    E.device_proc = (PFN_vkGetDeviceProcAddr)E.loader(E.instance, "vkGetDeviceProcAddr");
#define ENGINE_LOAD(name) E.name = (PFN_##name)E.device_proc(E.device, #name);
    ENGINE_FUNCTIONS(ENGINE_LOAD)
    E.submit2 = (PFN_vkQueueSubmit2KHR)E.device_proc(E.device, "vkQueueSubmit2KHR");
    E.create_module = (PFN_vkCreateShaderModule)E.device_proc(E.device, "vkCreateShaderModule");
    E.vkGetDeviceQueue(E.device, E.family, 0, &E.queue);
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.queueFamilyIndex = E.family;
    CHECK(E.vkCreateCommandPool(E.device, &info, NULL, &E.pool) == VK_SUCCESS);
}

static void engine_close(void) {
    CHECK_U64(E.faults, 0);
    E.vkDestroyCommandPool(E.device, E.pool, NULL);
    E.vkDestroyDevice(E.device, NULL);
    if (E.messenger) {
        ((PFN_vkDestroyDebugUtilsMessengerEXT)E.loader(
            E.instance, "vkDestroyDebugUtilsMessengerEXT"))(E.instance, E.messenger, NULL);
    }
    ((PFN_vkDestroyInstance)E.loader(E.instance, "vkDestroyInstance"))(E.instance, NULL);
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

static VkSemaphore engine_semaphore(void) {
    VkSemaphoreTypeCreateInfo type;
    VkSemaphoreCreateInfo info;
    VkSemaphore made = VK_NULL_HANDLE;
    memset(&type, 0, sizeof type);
    memset(&info, 0, sizeof info);
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    CHECK(E.vkCreateSemaphore(E.device, &info, NULL, &made) == VK_SUCCESS);
    return made;
}

static void engine_signal(VkSemaphore semaphore, uint64_t value) {
    VkSemaphoreSignalInfo info;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = semaphore;
    info.value = value;
    CHECK(E.vkSignalSemaphore(E.device, &info) == VK_SUCCESS);
}

/* A copy of `words` words between two buffers of hcq's. */
static VkCommandBuffer engine_copy(hcq_buffer dst, uint64_t dst_word, hcq_buffer src,
                                   uint64_t src_word, uint64_t words) {
    VkCommandBufferAllocateInfo info;
    VkCommandBufferBeginInfo begin;
    VkCommandBuffer commands = NULL;
    VkBuffer to, from;
    VkDeviceSize to_offset, from_offset;
    VkBufferCopy region;
    memset(&info, 0, sizeof info);
    memset(&begin, 0, sizeof begin);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = E.pool;
    info.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    CHECK_OK(hcq_vulkan_buffer(dst, &to, &to_offset));
    CHECK_OK(hcq_vulkan_buffer(src, &from, &from_offset));
    CHECK(E.vkAllocateCommandBuffers(E.device, &info, &commands) == VK_SUCCESS);
    CHECK(E.vkBeginCommandBuffer(commands, &begin) == VK_SUCCESS);
    region.dstOffset = to_offset + dst_word * 4;
    region.srcOffset = from_offset + src_word * 4;
    region.size = words * 4;
    E.vkCmdCopyBuffer(commands, from, to, 1, &region);
    CHECK(E.vkEndCommandBuffer(commands) == VK_SUCCESS);
    return commands;
}

/* An engine's submission: after `wait`, raises `signal`. */
static void engine_submit(VkCommandBuffer commands, VkSemaphore wait, uint64_t wait_value,
                          VkSemaphore signal, uint64_t signal_value) {
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo values;
    VkSubmitInfo info;
    memset(&values, 0, sizeof values);
    memset(&info, 0, sizeof info);
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = info.waitSemaphoreCount = wait ? 1 : 0;
    values.pWaitSemaphoreValues = &wait_value;
    values.signalSemaphoreValueCount = info.signalSemaphoreCount = signal ? 1 : 0;
    values.pSignalSemaphoreValues = &signal_value;
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &values;
    info.pWaitSemaphores = &wait;
    info.pWaitDstStageMask = &stages;
    info.commandBufferCount = commands ? 1 : 0;
    info.pCommandBuffers = &commands;
    info.pSignalSemaphores = &signal;
    engine_lock(&E, E.queue, 1);
    VkResult r = E.vkQueueSubmit(E.queue, 1, &info, VK_NULL_HANDLE);
    engine_lock(&E, E.queue, 0);
    CHECK(r == VK_SUCCESS);
}

static int engine_wait(VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns) {
    VkSemaphoreWaitInfo info;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    return E.vkWaitSemaphores(E.device, &info, timeout_ns) == VK_SUCCESS;
}

/* ---- rounds ---- */

enum { ROUNDS = 100 };

typedef struct rounds {
    hcq_device *dev;
    hcq_program *mix;
    hcq_buffer input, src, dst, history;
    VkSemaphore own, gate;
    hcq_point done;
} rounds;

static void rounds_open(rounds *r) {
    uint32_t input[ROUNDS];
    memset(r, 0, sizeof *r);
    r->dev = engine_lend();
    r->mix = make_mix(r->dev);
    r->input = make_words(r->dev, ROUNDS);
    r->src = make_words(r->dev, 1);
    r->dst = make_words(r->dev, 1);
    r->history = make_words(r->dev, ROUNDS);
    r->own = engine_semaphore();
    r->gate = engine_semaphore();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        input[i] = 1000 + i * i;
    }
    CHECK_OK(hcq_copyin(r->input, input, sizeof input));
}

/* hcq's part: after the engine's value, dst = dst * 31 + src + seed. */
static void round_of_hcq(rounds *r, uint32_t i, VkSemaphore *semaphore, uint64_t *value) {
    mix_args args = {r->dst.address, r->src.address, 1, i};
    hcq_point drawn;
    CHECK_OK(hcq_vulkan_import_point(r->dev, r->own, i + 1, &drawn));
    hcq_queue *q = make_queue(r->dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_wait(q, drawn), 0);
    CHECK_INDEX(hcq_queue_exec(q, r->mix, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    CHECK_OK(hcq_queue_submit(q, r->dev, &r->done));
    CHECK_OK(hcq_vulkan_point(r->dev, r->done, semaphore, value));
    hcq_queue_destroy(q);
}

/* The engine brings src, hcq computes, the engine keeps the result, and so on;
   everything is handed over before the first of it may run. */
static void engine_and_hcq_take_turns(void **state) {
    (void)state;
    rounds r;
    uint32_t want[ROUNDS], last = 0;
    uint64_t value = 1;
    if (T.variant->narrow) {
        SKIP("counters that are swapped hold work back");
        return;
    }
    engine_open();
    rounds_open(&r);
    VkSemaphore before = r.gate;
    uint32_t threads = service_threads();
    CHECK_OK(hcq_device_synchronize(r.dev, BOUND));
    counts first = counts_now(r.dev);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        engine_submit(engine_copy(r.src, 0, r.input, i, 1), before, value, r.own, i + 1);
        round_of_hcq(&r, i, &before, &value);
        CHECK(!engine_wait(before, value, 0));
        engine_submit(engine_copy(r.history, i, r.dst, 0, 1), before, value, VK_NULL_HANDLE, 0);
        last = last * 31 + 1000 + i * i + i;
        want[i] = last;
    }
    CHECK_U64(counts_since(r.dev, &first).batches, ROUNDS);
    CHECK_U64(test_query(r.dev, HCQ_QUERY_HELD), 0);
    CHECK_RESULT(test_poll(r.done), HCQ_TIMEOUT);
    engine_signal(r.gate, 1);
    WAIT_OK(r.done);
    CHECK(E.vkDeviceWaitIdle(E.device) == VK_SUCCESS);
    CHECK_BYTES(r.history, want, sizeof want);
    CHECK_U64(service_threads(), threads);
    uint64_t reached = 0;
    CHECK(E.vkGetSemaphoreCounterValue(E.device, before, &reached) == VK_SUCCESS);
    CHECK(reached >= value);
    CHECK(E.submits > 0 && E.locked >= E.submits + 2 * ROUNDS);
    CHECK_OK(hcq_close(r.dev));
    CHECK_U64(E.idles, 0);             /* the engine's device is not stopped for hcq */
    E.vkDestroySemaphore(E.device, r.own, NULL);
    E.vkDestroySemaphore(E.device, r.gate, NULL);
    engine_close();
}

typedef struct drawing { VkSemaphore semaphore; VkCommandBuffer commands; } drawing;

static void *draw(void *user) {
    drawing *d = (drawing *)user;
    for (uint32_t i = 1; i <= 300; i++) {
        engine_submit(NULL, VK_NULL_HANDLE, 0, d->semaphore, i);
    }
    return NULL;
}

/* Both submit all the time; the engine's lock is always held, and by one. */
static void lent_queues_are_locked(void **state) {
    (void)state;
    pthread_t thread;
    drawing d = {VK_NULL_HANDLE, NULL};
    hcq_point done = {{0}, 0};
    engine_open();
    hcq_device *dev = engine_lend();
    hcq_buffer words = make_words(dev, 8);
    hcq_program *add = make_add(dev);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    d.semaphore = engine_semaphore();
    CHECK_INDEX(record_add(q, add, words, 0, 1), 0);
    CHECK_OK(hcq_queue_bind(q, dev));
    uint64_t submits = E.submits;
    CHECK(pthread_create(&thread, NULL, draw, &d) == 0);
    for (uint32_t i = 0; i < 300; i++) {
        hcq_clock clock;
        CHECK_OK(hcq_queue_submit(q, dev, &done));
        CHECK(i % 50 || hcq_device_clock(dev, &clock) == HCQ_OK);
    }
    WAIT_OK(done);
    pthread_join(thread, NULL);
    CHECK(engine_wait(d.semaphore, 300, BOUND));
    CHECK_U64(READ32(words, 0), 300);
    CHECK(E.submits - submits >= 300 / 32); /* at most so many in one call */
    CHECK_U64(E.faults, 0);
    CHECK_OK(hcq_close(dev));
    E.vkDestroySemaphore(E.device, d.semaphore, NULL);
    engine_close();
}

/* The rule of hcq_vulkan_lock_fn: who holds the lock calls nothing of hcq. Then it may
   be held for long and by many while hcq does all that takes it: nothing is lost. */
typedef struct lock_keeper {
    pthread_t thread;
    hcq_device *dev;
    hcq_queue *q;
    VkSemaphore semaphore;
    uint32_t rounds;
    int right;
} lock_keeper;

static void *lock_keep(void *user) {
    lock_keeper *k = (lock_keeper *)user;
    for (uint32_t i = 1; i <= k->rounds && k->right; i++) {
        struct timespec pause = {0, 2000000};
        hcq_point done = {{0}, 0};
        uint64_t value = 0;
        hcq_clock clock;
        hcq_buffer zeroed;
        engine_lock(&E, E.queue, 1);
        nanosleep(&pause, NULL);       /* a frame is presented, say */
        engine_lock(&E, E.queue, 0);
        k->right = hcq_queue_submit(k->q, k->dev, &done) == HCQ_OK &&
                   hcq_device_query(k->dev, HCQ_QUERY_PENDING, &value) == HCQ_OK &&
                   hcq_alloc(k->dev, 8192, HCQ_ZEROED, &zeroed) == HCQ_OK &&
                   hcq_copyout(&value, zeroed, 8) == HCQ_OK && value == 0 &&
                   hcq_free(zeroed) == HCQ_OK && hcq_device_clock(k->dev, &clock) == HCQ_OK &&
                   hcq_wait(&done, 1, HCQ_ALL, BOUND) == HCQ_OK;
        engine_submit(NULL, VK_NULL_HANDLE, 0, k->semaphore, i);
    }
    return NULL;
}

static void locks_are_held_for_long(void **state) {
    (void)state;
    enum { KEEPERS = 3, TIMES = 30 };
    lock_keeper keepers[KEEPERS];
    engine_open();
    hcq_device *dev = engine_lend();
    hcq_buffer words = make_words(dev, 8);
    hcq_program *add = make_add(dev);
    alarm(60);
    for (uint32_t i = 0; i < KEEPERS; i++) {
        lock_keeper *k = &keepers[i];
        k->dev = dev;
        k->q = make_queue(dev, HCQ_COMPUTE);
        k->semaphore = engine_semaphore();
        k->rounds = TIMES;
        k->right = 1;
        CHECK_INDEX(record_add(k->q, add, words, i, 1), 0);
        CHECK(pthread_create(&k->thread, NULL, lock_keep, k) == 0);
    }
    for (uint32_t i = 0; i < KEEPERS; i++) {
        CHECK(pthread_join(keepers[i].thread, NULL) == 0);
    }
    for (uint32_t i = 0; i < KEEPERS; i++) {
        CHECK(keepers[i].right);
        CHECK_U64(READ32(words, i), TIMES);
        CHECK(engine_wait(keepers[i].semaphore, TIMES, BOUND));
        hcq_queue_destroy(keepers[i].q);
    }
    CHECK_U64(E.faults, 0);
    CHECK_OK(hcq_close(dev));
    for (uint32_t i = 0; i < KEEPERS; i++) {
        E.vkDestroySemaphore(E.device, keepers[i].semaphore, NULL);
    }
    engine_close();
}

/* ---- handles ---- */

static void handles_of_a_lent_device(void **state) {
    (void)state;
    hcq_vulkan_info info;
    hcq_vulkan_lane_info lane;
    engine_open();
    hcq_device *dev = engine_lend();
    CHECK_OK(hcq_vulkan_info_get(dev, &info));
    CHECK(info.instance == E.instance && info.physical_device == E.physical);
    CHECK(info.device == E.device && info.loader == seen_loader);
    CHECK_OK(hcq_vulkan_lane(dev, HCQ_COMPUTE, 0, &lane));
    CHECK(lane.queue == E.queue && lane.family == E.family && lane.index == UINT32_MAX);
    CHECK_U64(lane.shared, T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE ? 1 : 2);
    CHECK_RESULT(hcq_vulkan_lane(dev, HCQ_COMPUTE, 1, &lane), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_lane(dev, HCQ_GRAPH, 0, &lane), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_device_retain(dev));
    CHECK_OK(hcq_close(dev));
    hcq_point none = {{0}, 0};
    VkSemaphore semaphore = engine_semaphore(), got;
    uint64_t value;
    size_t size = 0;
    CHECK_RESULT(hcq_vulkan_info_get(dev, &info), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_vulkan_lane(dev, HCQ_COMPUTE, 0, &lane), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_vulkan_import_point(dev, semaphore, 1, &none), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_vulkan_cache(dev, NULL, &size), HCQ_ERROR_CLOSED);
    CHECK(hcq_vulkan_point(dev, none, &got, &value) < 0);
    (void)hcq_device_release(dev);
    E.vkDestroySemaphore(E.device, semaphore, NULL);
    engine_close();                    /* everything of hcq's is gone, says the layer */
}

static void handles_of_its_own(void **state) {
    (void)state;
    hcq_vulkan_info info = {0};
    hcq_vulkan_lane_info lane;
    hcq_buffer words = make_words(T.dev, 300);
    VkBuffer whole, part;
    VkDeviceSize at, part_at;
    CHECK_OK(hcq_vulkan_info_get(T.dev, &info));
    CHECK(info.instance && info.physical_device && info.device && info.loader);
    CHECK(info.api_version >= VK_API_VERSION_1_2 && info.driver[0]);
    CHECK_OK(hcq_vulkan_lane(T.dev, HCQ_COMPUTE, 0, &lane));
    CHECK(lane.queue && lane.index == 0 && lane.shared >= 1);
    CHECK_OK(hcq_vulkan_buffer(words, &whole, &at));
    CHECK_OK(hcq_vulkan_buffer(hcq_view(words, 400, 8), &part, &part_at));
    CHECK(whole == part && part_at == at + 400);
    CHECK_OK(hcq_free(words));
    CHECK_RESULT(hcq_vulkan_buffer(words, &whole, &at), HCQ_ERROR_CLOSED);
}

static void handles_refused(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu();
    hcq_buffer here = make_words(T.dev, 4), there = make_words(cpu, 4), none;
    hcq_vulkan_info info;
    hcq_vulkan_lane_info lane;
    VkSemaphore semaphore = VK_NULL_HANDLE, some = (VkSemaphore)(uintptr_t)64;
    VkBuffer buffer;
    VkDeviceSize offset;
    uint64_t value;
    size_t size = 0;
    hcq_point point = {{0}, 0}, got;
    memset(&none, 0, sizeof none);
    CHECK_RESULT(hcq_vulkan_info_get(NULL, &info), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_info_get(T.dev, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_info_get(cpu, &info), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_lane(NULL, HCQ_COPY, 0, &lane), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_lane(T.dev, HCQ_COPY, 0, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_lane(cpu, HCQ_COPY, 0, &lane), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_buffer(none, &buffer, &offset), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_buffer(here, NULL, &offset), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_buffer(here, &buffer, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_buffer(there, &buffer, &offset), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_point(T.dev, point, &semaphore, &value), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_point(NULL, point, &semaphore, &value), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_point(T.dev, point, NULL, &value), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_point(T.dev, point, &semaphore, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_point(cpu, point, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_import_point(T.dev, VK_NULL_HANDLE, 1, &got), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_import_point(T.dev, some, 1, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_import_point(T.dev, some, (uint64_t)INT64_MAX + 1, &got),
                 HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_import_point(NULL, some, 1, &got), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_import_point(cpu, some, 1, &got), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_cache(NULL, NULL, &size), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_cache(cpu, NULL, &size), HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_close(cpu));
}

/* ---- points ---- */

static uint32_t cpu_goes;

static void k_until_it_goes(const void *args, const hcq_block *b) {
    (void)args;
    (void)b;
    while (!__atomic_load_n(&cpu_goes, __ATOMIC_SEQ_CST)) {
        hcq_sys_yield();
    }
}

static hcq_result host_refuses(void *user) {
    (void)user;
    return HCQ_ERROR_INVALID;
}

/* A point of a device that is busy for a while is no other device's. */
static void point_of_another(hcq_device *dev, hcq_device *other) {
    VkSemaphore semaphore;
    uint64_t value;
    hcq_point there;
    hcq_buffer work = make_words(other, HEAVY), dst = make_words(other, 1);
    hcq_program *heavy = make_heavy(other);
    hcq_queue *q = make_queue(other, HCQ_COMPUTE);
    for (uint32_t i = 0; i < 40; i++) {
        CHECK_INDEX(record_heavy(q, heavy, work, dst, 0, i), i);
    }
    CHECK_OK(hcq_queue_submit(q, other, &there));
    CHECK_RESULT(hcq_vulkan_point(dev, there, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_vulkan_point(other, there, &semaphore, &value));
    WAIT_OK(there);
    CHECK_OK(hcq_vulkan_point(dev, there, &semaphore, &value)); /* reached */
}

/* Held, of another device, of the host, failed. */
static void points_that_have_no_semaphore(void **state) {
    (void)state;
    VkSemaphore semaphore;
    uint64_t value;
    hcq_device *cpu = open_cpu();
    hcq_signal gate = make_signal(T.dev, 0), raised = make_signal(T.dev, 0);
    hcq_point shut = hcq_at(gate, 1), up = hcq_at(raised, 5), held, there;
    CHECK_OK(submit_lists(T.dev, &shut, &up, 0, &held));
    CHECK_RESULT(hcq_vulkan_point(T.dev, held, &semaphore, &value), HCQ_NOT_READY);
    CHECK_RESULT(hcq_vulkan_point(T.dev, up, &semaphore, &value), HCQ_NOT_READY);
    CHECK_RESULT(hcq_vulkan_point(T.dev, shut, &semaphore, &value), HCQ_NOT_READY);
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_vulkan_point(T.dev, shut, &semaphore, &value)); /* reached, by whomever */
    CHECK_OK(hcq_vulkan_point(T.dev, held, &semaphore, &value));
    CHECK(semaphore != VK_NULL_HANDLE);
    CHECK_OK(hcq_vulkan_point(T.dev, up, &semaphore, &value));
    hcq_program_desc desc = {"goes", k_until_it_goes, {HCQ_ARG_NONE}, NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *goes = NULL;
    cpu_goes = 0;
    CHECK_OK(hcq_program_create(cpu, &desc, &goes));
    hcq_queue *q = make_queue(cpu, HCQ_COMPUTE), *bad = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(q, goes, NULL, 0, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_OK(hcq_queue_submit(q, cpu, &there));
    CHECK_RESULT(hcq_vulkan_point(T.dev, there, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_point(cpu, there, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    __atomic_store_n(&cpu_goes, 1, __ATOMIC_SEQ_CST);
    WAIT_OK(there);
    point_of_another(T.dev, T.dev2);
    CHECK_INDEX(hcq_queue_host(bad, host_refuses, NULL), 0);
    CHECK_OK(hcq_queue_submit(bad, T.dev, &held));
    WAIT_RESULT(held, HCQ_ERROR_HOST);
    CHECK_RESULT(hcq_vulkan_point(T.dev, held, &semaphore, &value), HCQ_ERROR_HOST);
    CHECK_OK(hcq_signal_destroy(gate));
    CHECK_RESULT(hcq_vulkan_point(T.dev, shut, &semaphore, &value), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_close(cpu));
}

/* Values rise; up to four semaphores; one whose values are all reached makes room. */
static void points_of_an_engine(void **state) {
    (void)state;
    VkSemaphore all[5];
    hcq_point points[5], again;
    engine_open();
    hcq_device *dev = engine_lend();
    for (uint32_t i = 0; i < 5; i++) {
        all[i] = engine_semaphore();
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(hcq_vulkan_import_point(dev, all[i], 10 + i, &points[i]));
    }
    log_clear();
    CHECK_RESULT(hcq_vulkan_import_point(dev, all[4], 1, &again), HCQ_ERROR_LIMIT);
    CHECK(log_has("4 at once"));
    CHECK_RESULT(hcq_vulkan_import_point(dev, all[1], 11, &again), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_import_point(dev, all[1], 3, &again), HCQ_ERROR_INVALID);
    CHECK(log_has("value"));
    CHECK_OK(hcq_vulkan_import_point(dev, all[1], 20, &again));
    CHECK_RESULT(test_poll(points[0]), HCQ_TIMEOUT);
    engine_signal(all[2], 11);         /* one below */
    CHECK_RESULT(test_poll(points[2]), HCQ_TIMEOUT);
    engine_signal(all[2], 100);
    WAIT_OK(points[2]);
    CHECK_OK(hcq_vulkan_import_point(dev, all[4], 1, &points[4]));
    CHECK_RESULT(hcq_vulkan_import_point(dev, all[2], 101, &points[2]), HCQ_ERROR_LIMIT);
    engine_signal(all[1], 15);
    WAIT_OK(points[1]);
    CHECK_RESULT(test_poll(again), HCQ_TIMEOUT);
    engine_signal(all[1], 20);
    WAIT_OK(again);
    engine_signal(all[4], 1);
    WAIT_OK(points[4]);
    CHECK_RESULT(test_poll(points[0]), HCQ_TIMEOUT);
    hcq_buffer words = make_words(dev, 4);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_wait(q, points[0]), 0);
    CHECK_INDEX(hcq_queue_wait(q, points[3]), 1);
    CHECK_INDEX(record_add(q, make_add(dev), words, 1, 6), 2);
    CHECK_OK(hcq_queue_submit(q, dev, &again));
    engine_signal(all[0], 10);
    engine_signal(all[3], 12);
    test_sleep_ms(5);
    CHECK_RESULT(test_poll(again), HCQ_TIMEOUT);
    engine_signal(all[3], 13);
    WAIT_OK(again);
    CHECK_U64(READ32(words, 1), 6);
    CHECK_OK(hcq_close(dev));
    for (uint32_t i = 0; i < 5; i++) {
        E.vkDestroySemaphore(E.device, all[i], NULL);
    }
    engine_close();
}

/* What an engine does counts as submitted: the device's timeline waits for it. */
static void the_timeline_waits_for_an_engine(void **state) {
    (void)state;
    hcq_point drawn, done;
    engine_open();
    hcq_device *dev = engine_lend();
    VkSemaphore semaphore = engine_semaphore();
    hcq_buffer words = make_words(dev, 4);
    for (uint32_t way = 0; way < 2; way++) {
        CHECK_OK(hcq_vulkan_import_point(dev, semaphore, way + 1, &drawn));
        hcq_point all = hcq_at(hcq_device_timeline(dev), hcq_device_timeline_value(dev) - 1);
        hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
        CHECK_INDEX(way ? hcq_queue_wait_device(q, dev) : hcq_queue_wait(q, all), 0);
        CHECK_INDEX(record_add(q, make_add(dev), words, way, 6), 1);
        CHECK_OK(hcq_queue_submit(q, dev, &done));
        test_sleep_ms(5);
        CHECK_RESULT(test_poll(all), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        engine_signal(semaphore, way + 1);
        WAIT_OK(done);
        WAIT_OK(all);
        CHECK_U64(READ32(words, way), 6);
    }
    CHECK_OK(hcq_close(dev));
    E.vkDestroySemaphore(E.device, semaphore, NULL);
    engine_close();
}

/* A device that hcq made follows nobody. */
static void points_of_no_engine(void **state) {
    (void)state;
    hcq_point point;
    VkSemaphore some = (VkSemaphore)(uintptr_t)64; /* is not looked at */
    CHECK_RESULT(hcq_vulkan_import_point(T.dev, some, 1, &point), HCQ_ERROR_UNSUPPORTED);
}

/* ---- modules ---- */

static void refuse_module(hcq_device *dev, const void *data, size_t size) {
    hcq_program_desc desc = {"broken", NULL, {HCQ_ARG_INOUT, HCQ_ARG_U32}, NULL, NULL,
                             {data, size, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *program = NULL;
    log_clear();
    hcq_result r = hcq_program_create(dev, &desc, &program);
    if (r >= 0 || !log_has("broken")) {
        fprintf(stderr, "a module of %zu bytes: %s\n", size, hcq_result_name(r));
        test_fail(__FILE__, __LINE__, "it should be refused, with a line");
    }
}

/* What is no whole module is refused by hcq: the driver never sees it. */
static void broken_modules_stay_here(void **state) {
    (void)state;
    const test_shader *shader = shader_named("vk_ids");
    uint64_t random = T.seed;
    engine_open();
    hcq_device *dev = engine_lend();
    uint32_t *words = (uint32_t *)malloc(shader->size);
    for (size_t size = 1; size < shader->size; size += size % 4 == 1 ? 3 : 1) {
        if (size % 4 || shader->words[size / 4 - 1] != 0x10038) { /* else whole functions are
                                                      missing: for the layer to find out */
            refuse_module(dev, shader->words, size);
        }
    }
    memcpy(words, shader->words, shader->size);
    for (size_t i = 0; i < shader->size / 4; i++) {
        words[i] = words[i] << 24 | (words[i] & 0xff00) << 8 | (words[i] >> 8 & 0xff00) |
                   words[i] >> 24;
    }
    refuse_module(dev, words, shader->size);
    for (uint32_t k = 0; k < 50; k++) {
        for (size_t i = 0; i < shader->size / 4; i++) {
            words[i] = (uint32_t)test_random(&random);
        }
        words[0] = k % 2 ? 0x07230203 : words[0];
        refuse_module(dev, words, shader->size);
    }
    CHECK_U64(E.modules, 0);
    (void)make_program(dev, "vk_ids", ids_list);
    CHECK_U64(E.modules, 1);
    free(words);
    CHECK_OK(hcq_close(dev));
    engine_close();
}

#define ENGINE_TESTS                                                               \
    TEST(engine_and_hcq_take_turns), TEST(lent_queues_are_locked),                 \
    TEST(locks_are_held_for_long),                                                 \
    TEST(handles_of_a_lent_device), TEST(handles_of_its_own), TEST(handles_refused), \
    TEST(points_that_have_no_semaphore), TEST(points_of_an_engine),                \
    TEST(the_timeline_waits_for_an_engine), TEST(points_of_no_engine),             \
    TEST(broken_modules_stay_here),
