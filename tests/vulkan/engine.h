/* engine.h - handles that hcq gives, and a device that an engine lends. Part of
   vulkan.c. */
#pragma once

#include "mocks/vulkan_rig.h"
#include "shared.h"

#include <malloc.h>

static rig E;

/* A copy of a word between two buffers of hcq's. */
static VkCommandBuffer engine_copy(hcq_buffer dst, uint64_t dst_word, hcq_buffer src,
                                   uint64_t src_word) {
    VkBuffer to, from;
    VkBufferCopy region = {0, 0, 4};
    CHECK_OK(hcq_vulkan_buffer(dst, &to, &region.dstOffset));
    CHECK_OK(hcq_vulkan_buffer(src, &from, &region.srcOffset));
    region.dstOffset += dst_word * 4;
    region.srcOffset += src_word * 4;
    VkCommandBuffer commands = rig_begin(&E, E.first);
    E.vk.CmdCopyBuffer(commands, from, to, 1, &region);
    RIG_OK(E.vk.EndCommandBuffer(commands));
    return commands;
}

/* After `wait`, raises `signal`. */
static void engine_submit(VkCommandBuffer commands, VkSemaphore wait, uint64_t wait_value,
                          VkSemaphore signal, uint64_t signal_value) {
    rig_lock(&E, E.lent[0].queue, 1);
    RIG_OK(rig_submit(&E, E.lent[0].queue, commands, wait, wait_value, signal, signal_value));
    rig_lock(&E, E.lent[0].queue, 0);
}

/* ---- by turns ---- */

/* The engine brings src, hcq computes dst = dst * 31 + src + i, the engine keeps the
   result, and so on; everything is handed over before the first of it may run. */
TEST(engine_and_hcq_take_turns) {
    enum { ROUNDS = 100 };
    uint32_t given[ROUNDS], want[ROUNDS], last = 0;
    uint64_t value = 1, reached = 0;
    hcq_point done = {{0}, 0};
    NEEDS_WIDE_COUNTERS();
    rig_open(&E);
    VkSemaphore own = E.semaphores[0], before = E.semaphores[1]; /* raised by the host */
    hcq_device *dev = rig_lend(&E);
    hcq_program *mix = make_mix(dev);
    hcq_buffer input = make_words(dev, ROUNDS), history = make_words(dev, ROUNDS);
    hcq_buffer src = make_words(dev, 1), dst = make_words(dev, 1);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        given[i] = 1000 + i * i;
        last = want[i] = last * 31 + given[i] + i;
    }
    CHECK_OK(hcq_copyin(input, given, sizeof given));
    settle(dev);
    const uint64_t threads = test_own_threads();
    counts first = counts_now(dev);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        mix_args args = {dst.address, src.address, 1, i};
        hcq_point drawn;
        hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
        engine_submit(engine_copy(src, 0, input, i), before, value, own, i + 1);
        CHECK_OK(hcq_vulkan_point_import(dev, own, i + 1, &drawn));
        CHECK_INDEX(hcq_queue_wait(q, drawn), 0);
        CHECK_INDEX(hcq_queue_exec(q, mix, &args, sizeof args, dims_one, dims_one), 1);
        done = submit_of(q, dev);
        CHECK_OK(hcq_vulkan_point(dev, done, &before, &value));
        hcq_queue_destroy(q);
        CHECK(rig_wait(&E, before, value, 0) == VK_TIMEOUT);
        engine_submit(engine_copy(history, i, dst, 0), before, value, VK_NULL_HANDLE, 0);
    }
    CHECK_U64(counts_since(dev, &first).batches, ROUNDS);
    CHECK_U64(test_query(dev, HCQ_QUERY_HELD), 0);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    rig_signal(&E, E.semaphores[1], 1);
    WAIT_OK(done);
    CHECK(E.vk.DeviceWaitIdle(E.device) == VK_SUCCESS);
    CHECK_BYTES(history, want, sizeof want);
    CHECK_U64(test_own_threads(), threads);
    CHECK(E.vk.GetSemaphoreCounterValue(E.device, before, &reached) == VK_SUCCESS);
    CHECK(reached >= value);
    CHECK(E.locked >= 3 * ROUNDS);    /* the engine's submits, too */
    (void)CLOCK_OF(dev);
    rig_end(&E, dev);
}

/* ---- handles ---- */

TEST(handles_of_a_lent_device) {
    hcq_vulkan_info info;
    hcq_vulkan_lane_info lane;
    hcq_point none;
    rig_open(&E);
    hcq_device *dev = rig_lend(&E);
    CHECK_OK(hcq_vulkan_info_get(dev, &info));
    CHECK(info.instance == E.instance && info.physical_device == E.physical);
    CHECK(info.device == E.device && info.loader == mock_vk_loader);
    CHECK_U64(info.api_version, VK_API_VERSION_1_2); /* the instance's; no device's here is lower */
    CHECK_OK(hcq_vulkan_lane(dev, HCQ_COMPUTE, 0, &lane));
    CHECK(lane.queue == E.lent[0].queue && lane.family == E.first && lane.index == UINT32_MAX);
    CHECK_U64(lane.shared, T.variant->test.no_copy_lane ? 1 : 2);
    CHECK_RESULT(hcq_vulkan_lane(dev, HCQ_COMPUTE, 1, &lane), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_device_retain(dev));
    CHECK_OK(hcq_close(dev));
    CHECK_RESULT(hcq_vulkan_point_import(dev, E.semaphores[0], 1, &none), HCQ_ERROR_CLOSED);
    (void)hcq_device_release(dev);
    rig_close(&E);
}

/* What it says where no device's logger is told. All other calls: core/misuse.txt. */
TEST(import_point_refuses) {
    hcq_device *cpu = open_cpu();
    const VkSemaphore some = (VkSemaphore)(uintptr_t)64; /* is not looked at */
    const uint64_t above = (uint64_t)INT64_MAX + 1;
    char lines[400] = "";
    FILE *user = stderr;
    hcq_point got;
    CHECK_RESULT(hcq_vulkan_point_import(cpu, some, 1, &got), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_point_import(T.dev, some, 1, &got), HCQ_ERROR_UNSUPPORTED);
    stderr = fmemopen(lines, sizeof lines, "w");
    const hcq_result results[] = {hcq_vulkan_point_import(NULL, some, 1, &got),
                                  hcq_vulkan_point_import(T.dev, VK_NULL_HANDLE, 1, &got),
                                  hcq_vulkan_point_import(T.dev, some, 1, NULL),
                                  hcq_vulkan_point_import(T.dev, some, above, &got)};
    fclose(stderr);
    stderr = user;
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_RESULT(results[i], HCQ_ERROR_INVALID);
    }
    CHECK(strstr(lines, "device: is NULL") && strstr(lines, "semaphore: is NULL"));
    CHECK(strstr(lines, "point: is NULL"));
    CHECK(strstr(lines, "value: above INT64_MAX [HCQ_ERROR_INVALID]") != NULL);
    CHECK_OK(hcq_close(cpu));
}

/* ---- points ---- */

/* Until `user`, a word, is not 0. */
static hcq_result host_waits(void *user) {
    while (!__atomic_load_n((uint32_t *)user, __ATOMIC_SEQ_CST)) {
        hcq_sys_yield();
    }
    return HCQ_OK;
}

/* Held, of the CPU, failed, gone. */
TEST(points_that_have_no_semaphore) {
    VkSemaphore semaphore;
    uint64_t value;
    hcq_device *cpu = open_cpu();
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point shut = hcq_at(gate, 1), up = hcq_at(make_signal(T.dev, 0), 5);
    const hcq_point all[] = {submit_to(T.dev, NULL, 0, &shut, &up), up, shut};
    uint32_t goes = 0;
    hcq_queue *q = make_queue(cpu, HCQ_COMPUTE), *bad = make_queue(T.dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_RESULT(hcq_vulkan_point(T.dev, all[i], &semaphore, &value), HCQ_NOT_READY);
    }
    CHECK_OK(hcq_signal_set(gate, 1));
    for (uint32_t i = 0; i < 3; i++) {
        semaphore = VK_NULL_HANDLE;
        CHECK_OK(hcq_vulkan_point(T.dev, all[i], &semaphore, &value));
        CHECK(semaphore != VK_NULL_HANDLE); /* of what is reached, too */
    }
    CHECK_INDEX(hcq_queue_host(q, host_waits, &goes), 0);
    hcq_point there = submit_of(q, cpu);
    CHECK_RESULT(hcq_vulkan_point(T.dev, there, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_point(cpu, there, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    __atomic_store_n(&goes, 1, __ATOMIC_SEQ_CST);
    WAIT_OK(there);
    CHECK_INDEX(hcq_queue_host(bad, host_refuses, NULL), 0);
    hcq_point failed = submit_of(bad, T.dev);
    WAIT_RESULT(failed, HCQ_ERROR_HOST);
    CHECK_RESULT(hcq_vulkan_point(T.dev, failed, &semaphore, &value), HCQ_ERROR_HOST);
    CHECK_OK(hcq_signal_destroy(gate));
    CHECK_RESULT(hcq_vulkan_point(T.dev, shut, &semaphore, &value), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_close(cpu));
}

/* Values rise; up to four semaphores; one whose values are all reached makes room. */
TEST(points_of_an_engine) {
    hcq_point points[5], again;
    VkSemaphore semaphore;
    uint64_t value;
    rig_open(&E);
    hcq_device *dev = rig_lend(&E);
    const VkSemaphore *all = E.semaphores;
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(hcq_vulkan_point_import(dev, all[i], 10 + i, &points[i]));
    }
    CHECK_RESULT(hcq_vulkan_point_import(dev, all[4], 1, &again), HCQ_ERROR_LIMIT);
    CHECK(log_has("4 at once"));
    CHECK_RESULT(hcq_vulkan_point_import(dev, all[1], 11, &again), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_point_import(dev, all[1], 3, &again), HCQ_ERROR_INVALID);
    CHECK(log_has("value"));
    CHECK_OK(hcq_vulkan_point_import(dev, all[1], 20, &again));
    CHECK_RESULT(test_poll(points[0]), HCQ_TIMEOUT);
    rig_signal(&E, all[2], 11);         /* one below */
    CHECK_RESULT(test_poll(points[2]), HCQ_TIMEOUT);
    rig_signal(&E, all[2], 100);
    WAIT_OK(points[2]);
    CHECK_OK(hcq_vulkan_point_import(dev, all[4], 1, &points[4]));
    CHECK_RESULT(hcq_vulkan_point_import(dev, all[2], 101, &points[2]), HCQ_ERROR_LIMIT);
    rig_signal(&E, all[1], 15);
    WAIT_OK(points[1]);
    CHECK_RESULT(test_poll(again), HCQ_TIMEOUT);
    rig_signal(&E, all[1], 20);
    WAIT_OK(again);
    rig_signal(&E, all[4], 1);
    WAIT_OK(points[4]);
    hcq_buffer words = make_words(dev, 4);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_wait(q, points[0]), 0);
    CHECK_INDEX(hcq_queue_wait(q, points[3]), 1);
    CHECK_INDEX(record_add(q, make_add(dev), words, 1, 6), 2);
    again = submit_of(q, dev);
    if (!T.variant->narrow) {          /* handed over, it is its device's and no other's */
        CHECK_OK(hcq_vulkan_point(dev, again, &semaphore, &value));
        CHECK_RESULT(hcq_vulkan_point(T.dev, again, &semaphore, &value), HCQ_ERROR_UNSUPPORTED);
    }
    rig_signal(&E, all[0], 10);
    rig_signal(&E, all[3], 12);
    test_sleep_ms(5);
    CHECK_RESULT(test_poll(again), HCQ_TIMEOUT);
    rig_signal(&E, all[3], 13);
    WAIT_OK(again);
    CHECK_OK(hcq_vulkan_point(T.dev, again, &semaphore, &value)); /* reached */
    CHECK_U64(READ32(words, 1), 6);
    rig_end(&E, dev);
}

/* Once its point is reached a semaphore may be destroyed at once; the next one may get its handle,
   and begins at 0. */
TEST(semaphores_whose_handle_comes_again) {
    enum { TIMES = 50 };
    rig_open(&E);
    hcq_device *dev = rig_lend(&E);
    for (uint32_t i = 0; i < TIMES; i++) {
        hcq_point point;
        CHECK_OK(hcq_vulkan_point_import(dev, E.b, TIMES - i, &point));
        CHECK_OK(hcq_notify(point, notify_nothing, NULL, NULL)); /* hcq's thread waits, too */
        rig_signal(&E, E.b, TIMES - i);
        WAIT_OK(point);
        E.vk.DestroySemaphore(E.device, E.b, NULL);
        E.b = E.semaphores[1] = rig_semaphore(&E);
    }
    rig_end(&E, dev);
}

static hcq_point engine_point(hcq_device *dev, uint32_t way) {
    hcq_point drawn;
    CHECK_OK(hcq_vulkan_point_import(dev, E.semaphores[0], way + 1, &drawn));
    return drawn;
}

static void engine_goes(uint32_t way) {
    rig_signal(&E, E.semaphores[0], way + 1);
}

TEST(the_timeline_waits_for_an_engine) {
    rig_open(&E);
    hcq_device *dev = rig_lend(&E);
    timeline_waits_for_others(dev, engine_point, engine_goes);
    rig_end(&E, dev);
}

/* ---- memory ---- */

/* Kernels of both kinds, a fill and a copy each way work on it. */
static void engine_buffer_works(hcq_device *dev, hcq_buffer ours) {
    const uint32_t words[4] = {1, 2, 3, 4};
    uint32_t got[4];
    const uint32_t *seen = (const uint32_t *)(const void *)E.host;
    hcq_buffer one = make_words(dev, 1);
    mix_args args = {ours.address + 8, one.address, 1, 6};
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_fill(q, one, 4, 5, 4), 0);
    CHECK_INDEX(record_add(q, make_add(dev), ours, 1, 100), 1);
    CHECK_INDEX(hcq_queue_exec(q, make_mix(dev), &args, sizeof args, dims_one, dims_one), 2);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(ours, 3984, 16), ours, 16), 3);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(ours, 16, 4), 4, 9, 4), 4);
    CHECK_OK(hcq_copyin(ours, words, sizeof words));
    WAIT_OK(submit_of(q, dev));
    CHECK_OK(hcq_copyout(got, hcq_view(ours, 3984, 16), sizeof got));
    CHECK(got[0] == 1 && got[1] == 102 && got[2] == 3 * 31 + 5 + 6 && got[3] == 4);
    CHECK(memcmp(seen, got, sizeof got) == 0 && memcmp(seen + 996, got, sizeof got) == 0);
    CHECK(seen[4] == 9 && seen[5] == 0);
    hcq_queue_destroy(q);
}

/* An engine's buffer is hcq's while it is imported, outlives that, and is lent again. */
TEST(buffers_of_an_engine) {
    hcq_buffer ours, again;
    VkBuffer handle;
    VkDeviceSize offset;
    rig_open(&E);
    for (uint32_t turn = 0; turn < 2; turn++) {
        hcq_device *dev = rig_lend(&E);
        hcq_signal gate = make_signal(dev, 0);
        hcq_point shut = hcq_at(gate, 1);
        const uint64_t blocks = COUNT(dev, BLOCKS);
        CHECK_OK(hcq_vulkan_buffer_import(dev, E.buffer, 4000, &ours));
        CHECK(ours.address != 0 && ours.size == 4000 && !ours.host && ours.device == dev);
        CHECK_OK(hcq_vulkan_buffer(hcq_view(ours, 100, 4), &handle, &offset));
        CHECK(handle == E.buffer && offset == 100);
        engine_buffer_works(dev, ours);
        CHECK_RESULT(hcq_vulkan_buffer_import(dev, E.buffer, 4, &again), HCQ_ERROR_INVALID);
        CHECK(log_has("handle: overlaps") && again.address == 0);
        hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_fill(q, ours, 4, 7, 4), 0);
        hcq_point done = submit_to(dev, q, 0, &shut, NULL);
        CHECK_OK(hcq_free(ours));      /* it still belongs to what is held */
        CHECK_RESULT(hcq_vulkan_buffer_import(dev, E.buffer, 4000, &ours), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_signal_set(gate, 1));
        WAIT_OK(done);
        CHECK_U64(rig_word(&E, 0), 7);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_vulkan_buffer_import(dev, E.buffer, RIG_BYTES, &ours));
        if (turn == 0) { CHECK_OK(hcq_free(ours)); } /* else hcq_close does it */
        CHECK(turn == 1 || COUNT(dev, BLOCKS) <= blocks + 2);
        CHECK_OK(hcq_close(dev));
    }
    CHECK_U64(rig_word(&E, 0), 7);
    rig_close(&E);
}

TEST(import_buffer_refuses) {
    hcq_device *cpu = open_cpu();
    const VkBuffer some = (VkBuffer)(uintptr_t)64; /* is not looked at */
    hcq_buffer got;
    rig_open(&E);
    hcq_device *dev = rig_lend(&E);
    CHECK_RESULT(hcq_vulkan_buffer_import(cpu, some, 4, &got), HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(hcq_vulkan_buffer_import(dev, E.buffer, 0, &got), HCQ_ERROR_INVALID);
    CHECK(log_has("size: is 0"));
    CHECK_RESULT(hcq_vulkan_buffer_import(dev, E.buffer, 1 << 20, &got), HCQ_ERROR_INVALID);
    CHECK(log_has("size: above the handle's"));
    CHECK_RESULT(hcq_vulkan_buffer_import(dev, E.buffer, UINT64_MAX, &got), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_buffer_import(NULL, E.buffer, 4, &got), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_buffer_import(dev, VK_NULL_HANDLE, 4, &got), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_vulkan_buffer_import(dev, E.buffer, 4, NULL), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_vulkan_buffer_import(dev, E.buffer, 4, &got));
    rig_end(&E, dev);
    CHECK_OK(hcq_close(cpu));
}

/* ---- the engine's allocator ---- */

/* How many blocks there are, and how many there were. */
typedef struct engine_heap {
    uint64_t blocks, calls;            /* atomic */
} engine_heap;

static void *VKAPI_PTR heap_alloc(void *user, size_t size, size_t align, VkSystemAllocationScope s) {
    engine_heap *heap = user;
    void *memory;
    (void)s;
    if (posix_memalign(&memory, align < 64 ? 64 : align, size)) { return NULL; }
    __atomic_add_fetch(&heap->blocks, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&heap->calls, 1, __ATOMIC_SEQ_CST);
    return memory;
}

static void VKAPI_PTR heap_free(void *user, void *memory) {
    engine_heap *heap = user;
    __atomic_sub_fetch(&heap->blocks, memory ? 1 : 0, __ATOMIC_SEQ_CST);
    free(memory);
}

static void *VKAPI_PTR heap_realloc(void *user, void *old, size_t size, size_t align,
                                    VkSystemAllocationScope s) {
    const size_t had = old ? malloc_usable_size(old) : 0;
    void *memory = size ? heap_alloc(user, size, align, s) : NULL;
    if (old && memory) { memcpy(memory, old, had < size ? had : size); }
    if (memory || !size) { heap_free(user, old); }
    return memory;
}

/* The driver takes from it for hcq's objects; they give all of it back. Whoever made one
   with it and destroys it without is told by the validation layer. */
TEST(an_engines_allocator) {
    static engine_heap heap;
    const VkAllocationCallbacks callbacks = {.pUserData = &heap, .pfnAllocation = heap_alloc,
                                             .pfnReallocation = heap_realloc,
                                             .pfnFree = heap_free};
    heap = (engine_heap){0, 0};
    rig_open(&E);
    E.allocator = &callbacks;
    hcq_device *dev = rig_lend(&E);
    const uint64_t opened = heap.calls;
    CHECK(opened > 0 && heap.blocks > 0);
    hcq_buffer words = make_words(dev, 4);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, make_add(dev), words, 1, 6), 0);
    CHECK_OK(hcq_queue_bind(q, dev));
    WAIT_OK(submit_of(q, dev));
    CHECK_U64(READ32(words, 1), 6);
    CHECK(heap.calls > opened);
    CHECK_OK(hcq_close(dev));
    CHECK_U64(heap.blocks, 0);
    rig_close(&E);
}
