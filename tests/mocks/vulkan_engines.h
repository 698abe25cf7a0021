/* vulkan_engines.h - hcq on the mock Vulkan driver: engines that lavapipe cannot show, and what
   threads do meanwhile. */
#pragma once

#include "vulkan_backend.h"

static void rig_driver(rig *r, uint32_t flags) {
    driver_is("vkmock");
    mock_vk_options.devices = 1;
    mock_vk_options.flags |= flags;
    rig_open(r);
}

/* The engine's queues go on, hcq does not wait for them. */
static void rig_gone(rig *r, hcq_device *device) {
    mock_vk_clear();
    mock_vk_fail("vkDeviceWaitIdle", 1, 1, VK_ERROR_DEVICE_LOST);
    rig_end(r, device);
    CHECK_U64(mock_vk_peek(&mock_vk_counters.failed), 0);
    CHECK(!backend_left());
}

/* hcq computes on a queue of an engine's, which reads the result on another one, of
   another family. */
TEST_BARE(engine_lends_its_device) {
    hcq_point done;
    VkBuffer buffer;
    VkBufferCopy region = {0, 512, 64};
    VkSemaphore semaphore;
    uint64_t value;
    rig r;
    rig_driver(&r, 0);
    hcq_device *device = rig_lend(&r);
    hcq_buffer words = make_words(device, 64);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, make_add(device), words, 2, 9), 0);
    CHECK_OK(hcq_queue_submit(q, device, &done));
    CHECK_OK(hcq_vulkan_point(device, done, &semaphore, &value));
    CHECK_OK(hcq_vulkan_buffer(words, &buffer, &region.srcOffset));
    VkCommandBuffer c = rig_begin(&r, 0);
    r.vk.CmdCopyBuffer(c, buffer, r.buffer, 1, &region);
    RIG_OK(r.vk.EndCommandBuffer(c));
    RIG_OK(rig_submit(&r, r.queues[0][0], c, semaphore, value, r.a, 5));
    RIG_OK(rig_wait(&r, r.a, 5, BOUND));
    CHECK_U64(rig_word(&r, 512 + 8), 9);
    rig_gone(&r, device);
}

/* A thread that does one thing until it is told to stop: what another one does meanwhile
   is looked at by ThreadSanitizer. */
typedef struct asker {
    pthread_t thread;
    hcq_device *device;
    void (*ask)(hcq_device *device);
    uint32_t stop;                     /* atomic */
} asker;

static void *asker_main(void *user) {
    asker *a = (asker *)user;
    while (!__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE)) {
        a->ask(a->device);
    }
    return NULL;
}

static void asker_start(asker *a, hcq_device *device, void (*ask)(hcq_device *device)) {
    *a = (asker){.device = device, .ask = ask};
    CHECK(pthread_create(&a->thread, NULL, asker_main, a) == 0);
}

static void asker_stop(asker *a) {
    __atomic_store_n(&a->stop, 1, __ATOMIC_RELEASE);
    pthread_join(a->thread, NULL);
}

static void ask_what_is_done(hcq_device *device) { (void)hcq_device_synchronize(device, 0); }

static void ask_for_pipelines(hcq_device *device) {
    const hcq_program_desc add = HCQ_PROGRAM(add);
    hcq_program *program;
    size_t size = 0;
    (void)hcq_program_create(device, &add, &program);
    (void)hcq_vulkan_cache(device, NULL, &size);
    hcq_program_destroy(program);
}

static void ask_for_the_clock(hcq_device *device) {
    hcq_clock clock;
    (void)hcq_device_clock(device, &clock);
}

static void ask_to_submit(hcq_device *device) {
    hcq_point done;
    (void)submit_lists(device, NULL, NULL, 0, &done);
    (void)hcq_wait(&done, 1, HCQ_ALL, BOUND);
}

static void ask_for_zeros(hcq_device *device) {
    hcq_buffer zeros;
    if (hcq_alloc(device, 4096, HCQ_ZEROED, &zeros) == HCQ_OK) { (void)hcq_free(zeros); }
}

/* Work that waits for an engine is handed over while others ask what it has done, submit
   and clear memory, and the engine submits to the queues that it has lent. */
TEST_BARE(meanwhile_an_engine_is_asked) {
    enum { DRAWN = 6000, AHEAD = 4 };
    hcq_point drawn, done = {{0}, 0};
    asker a, b, c;
    rig r;
    rig_driver(&r, MOCK_VK_LATE_SIGNALS);
    hcq_device *device = rig_lend(&r);
    asker_start(&a, device, ask_what_is_done);
    asker_start(&b, device, ask_to_submit);
    asker_start(&c, device, ask_for_zeros);
    for (uint64_t i = 1; i <= DRAWN; i++) {
        CHECK_OK(hcq_vulkan_point_import(device, r.a, i, &drawn));
        CHECK_OK(submit_lists(device, &drawn, NULL, 0, &done));
        if (i > AHEAD) {
            rig_signal(&r, r.a, i - AHEAD);
        }
        VkQueue lent = r.queues[1 + i % 2][0];
        rig_lock(&r, lent, 1);
        RIG_OK(rig_submit(&r, lent, NULL, 0, 0, r.semaphores[2 + i % 2], i));
        rig_lock(&r, lent, 0);
    }
    rig_signal(&r, r.a, DRAWN);
    WAIT_OK(done);
    asker_stop(&a);
    asker_stop(&b);
    asker_stop(&c);
    CHECK(rig_wait(&r, r.semaphores[2], DRAWN, BOUND) == VK_SUCCESS);
    CHECK(rig_wait(&r, r.semaphores[3], DRAWN - 1, BOUND) == VK_SUCCESS);
    rig_gone(&r, device);
}

/* More engines' semaphores than hcq follows at a time: each is over before it takes another. */
typedef struct later { rig *r; VkSemaphore semaphore; uint64_t value; } later;

static void *signal_later(void *user) {
    const later *l = (const later *)user;
    test_sleep(200000);
    rig_signal(l->r, l->semaphore, l->value);
    return NULL;
}

TEST_BARE(meanwhile_engines_take_turns) {
    asker a;
    rig r;
    rig_driver(&r, 0);
    hcq_device *device = rig_lend(&r);
    asker_start(&a, device, ask_what_is_done);
    for (uint32_t i = 0; i < 100; i++) {
        later l = {&r, r.semaphores[i % RIG_SEMAPHORES], i / RIG_SEMAPHORES + 1};
        hcq_point drawn;
        pthread_t thread;
        CHECK_OK(hcq_vulkan_point_import(device, l.semaphore, l.value, &drawn));
        CHECK(pthread_create(&thread, NULL, signal_later, &l) == 0);
        WAIT_OK(drawn);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    asker_stop(&a);
    rig_gone(&r, device);
}

/* What is pending with times that the host fetches waits in hcq: no engine may wait for the next
   one yet. */
TEST_BARE(points_whose_turn_has_not_come) {
    enum { RUNS = 5 };
    hcq_point drawn, done[RUNS];
    VkSemaphore semaphore;
    uint64_t value;
    rig r;
    rig_driver(&r, MOCK_VK_LATE_SIGNALS);
    hcq_device *device = rig_lend(&r);
    hcq_signal stamp = make_signal(device, 0);
    hcq_queue *copies = make_queue(device, HCQ_COPY);
    CHECK_INDEX(hcq_queue_timestamp(copies, stamp), 0);
    CHECK_OK(hcq_queue_bind(copies, device));
    CHECK_OK(hcq_vulkan_point_import(device, r.a, 1, &drawn));
    for (uint32_t i = 0; i < RUNS; i++) {
        CHECK_OK(SUBMIT(device, copies, &done[i], .waits = &drawn, .wait_count = 1));
        hcq_result result = hcq_vulkan_point(device, done[i], &semaphore, &value);
        CHECK_RESULT(result, i < RUNS - 1 ? HCQ_OK : HCQ_NOT_READY);
        CHECK((semaphore == VK_NULL_HANDLE) == (i == RUNS - 1));
    }
    rig_signal(&r, r.a, 1);
    WAIT_OK(done[RUNS - 1]);
    rig_gone(&r, device);
}

/* An engine lends more queues than are used, and some of which none computes. */
TEST_BARE(lent_queues) {
    hcq_vulkan_queue queues[17];
    rig r;
    rig_driver(&r, 0);
    const hcq_device_desc desc = rig_desc(&r);
    for (uint32_t i = 0; i < 17; i++) {
        queues[i] = r.lent[0];
    }
    test_vulkan_desc.queues = queues;
    test_vulkan_desc.queue_count = 17;
    hcq_device *device = test_open(0, &desc);
    CHECK(log_has("vulkan.queues: 16 of 17 are used"));
    CHECK_OK(hcq_close(device));
    test_vulkan_desc.queues = &r.lent[1];
    test_vulkan_desc.queue_count = 1;
    CHECK_RESULT(hcq_open("VULKAN", &desc, &device), HCQ_ERROR_INVALID);
    CHECK(device == NULL && log_has("vulkan.queues: none of them computes"));
    rig_gone(&r, device);
}

/* Times are converted while others compare the clocks; the layer says something in several threads
   at once, and so do two make a program. */
TEST_BARE(meanwhile_the_clock_and_the_layer_speak) {
    static void (*const asks[])(hcq_device *device) = {ask_for_the_clock, ask_for_pipelines,
                                                       ask_to_submit};
    asker askers[3];
    uint64_t ns = 0;
    driver_is("vkmock");
    hcq_device_desc desc = test_desc();
    test_vulkan_desc.flags |= HCQ_VULKAN_VALIDATION;
    hcq_device *device = test_open(0, &desc);
    hcq_signal stamp = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_timestamp(q, stamp), 0);
    for (uint32_t i = 0; i < 3; i++) {
        asker_start(&askers[i], device, asks[i]);
    }
    for (uint32_t i = 0; i < (TEST_SANITIZED ? 6000 : 200); i++) { /* all in the middle of it */
        submit_and_wait(q, device);
        CHECK_OK(hcq_signal_timestamp(stamp, &ns));
        ask_for_pipelines(device);
    }
    for (uint32_t i = 0; i < 3; i++) {
        asker_stop(&askers[i]);
    }
    CHECK(log_has("validation: "));
    CHECK(test_query(device, HCQ_VULKAN_QUERY_MESSAGES) >= 200);
    backend_close(device);
}

/* Without the layer, or a way to hear it, the device opens, and a line says so. */
TEST_BARE(validation_is_not_there) {
    static const uint32_t without[] = {0, MOCK_VK_NO_LAYER, MOCK_VK_NO_DEBUG_UTILS};
    for (uint32_t i = 0; i < 3; i++) {
        driver_is("vkmock");
        hcq_device_desc desc = test_desc();
        mock_vk_options.without = without[i];
        test_vulkan_desc.flags |= HCQ_VULKAN_VALIDATION;
        hcq_device *device = test_open(0, &desc);
        CHECK_U64(log_has("HCQ_OK: hcq VULKAN: vulkan.flags: no layer, or no "), i != 0);
        backend_close(device);
    }
}
