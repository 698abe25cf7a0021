/* vulkan_mishaps.h - hcq on the mock Vulkan driver when calls fail or devices are
   lost. */
#pragma once

#include "stage.h"
#include "vulkan_engines.h"

/* ---- refusals and loss ---- */

/* What Vulkan refuses, also when it is asked again, fails, with what waits for it;
   the lane goes on. */
TEST_BARE(refused_submits) {
    for (uint64_t k = 1; k <= 6; k++) {
        hcq_device *device = driver_open(k & 1 ? "vkmock" : "vkmock-low");
        hcq_signal gate = make_signal(device, 0), s = make_signal(device, 0);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE), *copy = make_queue(device, HCQ_COPY);
        hcq_buffer words = make_words(device, 4);
        hcq_point done, behind;
        hcq_error_info error;
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
        CHECK_INDEX(hcq_queue_fill(q, words, 8, 1, 4), 1);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
        CHECK_INDEX(hcq_queue_fill(q, words, 8, 2, 4), 3);
        CHECK_INDEX(hcq_queue_wait(copy, hcq_at(s, 1)), 0);
        CHECK_INDEX(hcq_queue_timestamp(copy, s), 1);
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(hcq_queue_submit(q, device, &done));
        CHECK_OK(hcq_queue_submit(copy, device, &behind));
        mock_vk_fail("vkQueueSubmit*", (k + 1) / 2, k < 3 ? 2 : 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        CHECK_OK(hcq_signal_set(gate, 1)); /* hands over what was held */
        hcq_result first = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        hcq_result second = hcq_wait(&behind, 1, HCQ_ALL, BOUND);
        int failed = first < 0 || second < 0;
        CHECK(!failed || mock_vk_peek(&mock_vk_counters.failed) != 0);
        CHECK(failed || k > 2);
        CHECK(first != HCQ_TIMEOUT && second != HCQ_TIMEOUT);
        CHECK(test_poll(hcq_at(s, 1)) == HCQ_OK || second < 0);
        CHECK_OK(hcq_device_error_take(device, &error));
        CHECK(failed == (error.result < 0));
        mock_vk_clear();
        CHECK(first == HCQ_OK || READ32(words, 0) != 2); /* ended where it failed */
        CHECK_OK(hcq_queue_reset(q));
        CHECK_INDEX(hcq_queue_fill(q, words, 16, 7, 4), 0);
        submit_and_wait(q, device);
        CHECK_U64(READ32(words, 1), 7);
        backend_close(device);
    }
}

/* Everything of a lost device ends, and whatever waits for it on another one. */
TEST_BARE(lost_devices) {
    for (uint32_t way = 0; way < 4; way++) {
        driver_is(way & 2 ? "vkmock-turns" : "vkmock");
        hcq_device *device = backend_open(1), *other = test_open(1, NULL);
        hcq_signal s = make_signal(device, 0), never = make_signal(device, 0);
        hcq_point raise = hcq_at(s, 1), wait = hcq_at(never, 1), held, foreign, done = {{0}, 0};
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_error_info error;
        CHECK_INDEX(hcq_queue_fill(q, make_words(device, 64), 256, 1, 4), 0);
        CHECK_INDEX(hcq_queue_timestamp(q, s), 1);
        CHECK_INDEX(hcq_queue_signal(q, raise), 2);
        CHECK_OK(submit_lists(device, &wait, NULL, HCQ_UNORDERED, &held));
        CHECK_OK(submit_lists(other, &raise, NULL, 0, &foreign));
        if (way & 1) {
            mock_vk_lose(1);
        } else {
            mock_vk_fail("vkQueueSubmit*", 1, 1, VK_ERROR_DEVICE_LOST);
        }
        if (hcq_queue_submit(q, device, &done) == HCQ_OK) {
            WAIT_RESULT(done, HCQ_ERROR_LOST);
        }
        WAIT_RESULT(raise, HCQ_ERROR_LOST);
        WAIT_RESULT(foreign, HCQ_ERROR_LOST);
        WAIT_RESULT(held, HCQ_ERROR_LOST);
        CHECK_RESULT(submit_lists(device, NULL, NULL, 0, NULL), HCQ_ERROR_LOST);
        CHECK_RESULT(hcq_device_synchronize(device, BOUND), HCQ_ERROR_LOST);
        CHECK_OK(hcq_device_error_take(device, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_LOST);
        CHECK(strncmp(error.native, "vk", 2) == 0 && error.native_code == VK_ERROR_DEVICE_LOST);
        (void)hcq_close(device);
        CHECK_OK(submit_lists(other, NULL, NULL, 0, &done)); /* it lives */
        WAIT_OK(done);
        backend_close(other);
    }
}

/* Not even what ends the work can be given: others wait for it in vain. */
TEST_BARE(submits_that_never_go) {
    hcq_device *device = driver_open("vkmock");
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point done, behind;
    CHECK_INDEX(hcq_queue_fill(q, make_words(device, 64), 256, 1, 4), 0);
    mock_vk_fail("vkQueueSubmit*", 1, 9, VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK_OK(hcq_queue_submit(q, device, &done));
    WAIT_RESULT(done, HCQ_ERROR_OUT_OF_MEMORY);
    if (submit_lists(device, &done, NULL, 0, &behind) == HCQ_OK) {
        WAIT_RESULT(behind, HCQ_ERROR_LOST);
    }
    CHECK_RESULT(hcq_device_synchronize(device, BOUND), HCQ_ERROR_LOST);
    (void)hcq_close(device);
    CHECK(!backend_left());
}

/* A driver may say of a lost device that all its counters are at their highest, an engine's,
   too. That is no end of any work, whether one waits or looks. */
TEST_BARE(counters_of_a_lost_device) {
    for (uint32_t way = 0; way < 4; way++) {
        const uint64_t limit = way & 1 ? 0 : BOUND;
        rig r;
        rig_driver(&r, MOCK_VK_LOST_JUMP);
        hcq_device *device = way & 2 ? rig_lend(&r) : backend_open(1);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_point done, drawn;
        hcq_result result;
        CHECK_INDEX(hcq_queue_fill(q, make_words(device, 1), 4, 1, 4), 0);
        submit_and_wait(q, device);
        mock_vk_lose(1);
        if (way & 2) {
            CHECK_OK(hcq_vulkan_point_import(device, r.a, 1, &drawn));
        }
        CHECK_OK(hcq_queue_submit(q, device, &done));
        do {
            result = hcq_wait(way & 2 ? &drawn : &done, 1, HCQ_ALL, limit);
        } while (result == HCQ_TIMEOUT);
        CHECK_RESULT(result, HCQ_ERROR_LOST);
        WAIT_RESULT(done, HCQ_ERROR_LOST);
        (void)hcq_close(device);
        rig_close(&r);
        CHECK(!backend_left());
    }
}

/* ---- a bit of everything, in which any call may fail ---- */

/* A program with bindings, replayed with other buffers, and its pipeline. */
static void play_bindings(const stage *g) {
    const uint64_t bind[2] = {g->a.address, g->b.address};
    const hcq_program_desc desc = shader_desc("vk_length", length_list);
    hcq_program *bound;
    hcq_queue *q;
    size_t size = 0;
    TAKE(hcq_vulkan_cache(g->device, NULL, &size));
    if (!TAKE(hcq_program_create(g->device, &desc, &bound)) ||
        !TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &q))) {
        return;
    }
    (void)hcq_queue_exec(q, bound, &bind, sizeof bind, hcq_dim(20, 1, 1), dims_one);
    TAKE(hcq_queue_bind(q, g->device));
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t to = g->a.address + (i & 1) * 512;
        (void)stage_run(q, g->device);
        TAKE(hcq_queue_update_arg(q, 0, 0, &to, 8));
    }
}

/* ---- the ways to fail, each in a process of its own ---- */

/* A result of the n-th call, or, without a name, the n-th command buffer losing the
   device. */
typedef struct mishap {
    const char *variant, *name;
    uint64_t n;
    VkResult result;
} mishap;

/* Whatever fails, closing gives all back. */
static int mishap_child(const mishap *m) {
    stage g;
    driver_is(m->variant);
    hcq_device_desc desc = test_desc();
    if (m->name) {
        mock_vk_fail(m->name, m->n, 1, m->result);
    } else {
        mock_vk_options.flags |= MOCK_VK_LOST_JUMP;
        mock_vk_lose(m->n);
    }
    stage_play(&g, "VULKAN", &desc, play_bindings);
    stage_is_bad |= m->result == VK_ERROR_UNKNOWN && g.opened != HCQ_OK &&
                    g.opened != HCQ_ERROR_NO_DEVICE;
    stage_is_bad |= g.device && hcq_close(g.device) != HCQ_OK;
    if (stage_is_bad || backend_left()) {
        fprintf(stderr, "log:\n%s", T.log.text);
        return MISHAP_BAD;
    }
    if (m->name ? mock_vk_peek(&mock_vk_counters.failed) == 0
                : mock_vk_peek(&mock_vk_counters.buffers) < m->n) {
        return MISHAP_NONE;
    }
    return g.device ? 0 : MISHAP_SHUT;
}

/* 0: it came to nothing, there are fewer calls. */
static int mishap_run(const mishap *m) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        alarm(60);
        _exit(mishap_child(m));
    }
    int ended = mishap_ended(child);
    if (ended < 0) {
        fail_msg("%s: %s, the %lluth, gives %d", m->variant, m->name ? m->name : "a command buffer",
                 (unsigned long long)m->n, (int)m->result);
    }
    return ended;
}

/* Every call of those names that there is, up to a number. How many there were. */
static uint64_t mishaps(const char *const *names, size_t count, VkResult result) {
    static const char *const variants[] = {"vkmock", "vkmock-low", "vkmock-one", "vkmock-turns"};
    uint64_t most = T.rounds ? T.rounds : T.quick ? 3 : 30, came = 0;
    for (size_t i = 0; i < count * (T.quick ? 2 : 4); i++) {
        mishap m = {variants[i / count], names[i % count], 1, result};
        while (m.n <= most && mishap_run(&m)) {
            m.n++;
            came++;
        }
    }
    return came;
}

TEST_BARE(every_call_fails) {
    static const char *const names[] = {
        "vkEnumerateInstanceVersion", "vkEnumerateInstanceExtensionProperties",
        "vkCreateInstance", "vkEnumeratePhysicalDevices",
        "vkEnumerateDeviceExtensionProperties", "vkCreateDevice",
        "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT", "vkQueueSubmit*", "vkDeviceWaitIdle",
        "vkCreateSemaphore", "vkGetSemaphoreCounterValue", "vkWaitSemaphores",
        "vkAllocateMemory", "vkMapMemory", "vkCreateBuffer", "vkBindBufferMemory",
        "vkGetMemoryHostPointerPropertiesEXT", "vkCreateCommandPool",
        "vkAllocateCommandBuffers", "vkBeginCommandBuffer", "vkEndCommandBuffer",
        "vkCreateQueryPool", "vkGetQueryPoolResults", "vkCreateShaderModule",
        "vkCreatePipelineLayout", "vkCreateDescriptorSetLayout", "vkCreateDescriptorPool",
        "vkAllocateDescriptorSets", "vkCreateComputePipelines", "vkCreatePipelineCache",
        "vkGetPipelineCacheData", "vkGetCalibratedTimestampsEXT",
        "vkSetDebugUtilsObjectNameEXT"
    };
    size_t count = sizeof names / sizeof names[0];
    CHECK(mishaps(names, count, VK_ERROR_OUT_OF_HOST_MEMORY) > count);
}

TEST_BARE(every_loss) {
    static const char *const names[] = {
        "vkQueueSubmit*", "vkWaitSemaphores", "vkGetSemaphoreCounterValue",
        "vkGetQueryPoolResults", "vkDeviceWaitIdle", NULL
    };
    size_t count = sizeof names / sizeof names[0];
    CHECK(mishaps(names, count, VK_ERROR_DEVICE_LOST) > count);
}

/* hcq_open's answer for a device that is lent, which is the engine's also where a call fails. */
static hcq_result open_lent_without(const char *name, uint64_t n) {
    hcq_device *device = NULL;
    rig r;
    rig_driver(&r, 0);
    const hcq_device_desc desc = rig_desc(&r);
    mock_vk_fail(name, n, 1, VK_ERROR_UNKNOWN);
    hcq_result result = hcq_open("VULKAN", &desc, &device);
    rig_gone(&r, device);
    return result;
}

TEST_BARE(functions_of_a_lent_device) {
    for (uint64_t n = 2; n < 12; n++) {
        CHECK_RESULT(open_lent_without("vkGetDeviceProcAddr", n), HCQ_ERROR_NO_DEVICE);
    }
    for (uint64_t n = 5; !log_has("vulkan: the instance lacks functions of Vulkan 1.2"); n++) {
        (void)open_lent_without("vkGetInstanceProcAddr", n);
        CHECK(n < 100);                /* the loader's own come first */
    }
}

/* A driver without a function, of those that hcq asks for by a call, from the `n`-th on: refused
   if hcq needs it. How many it opens without. */
static uint64_t opens_without(const char *name, uint64_t n, uint64_t least) {
    mishap m = {"vkmock", name, n, VK_ERROR_UNKNOWN};
    uint64_t opened = 0;
    for (int ended = mishap_run(&m); ended != 0; ended = mishap_run(&m)) {
        opened += ended != MISHAP_SHUT;
        m.n++;
    }
    CHECK(m.n > least);
    return opened;
}

/* What destroys devices and instances is there. */
TEST_BARE(every_function_missing) {
    CHECK_U64(opens_without("vkGetDeviceProcAddr", 2, 60), 9);
    CHECK_U64(opens_without("vkGetInstanceProcAddr", 5, 12), 3);
}
