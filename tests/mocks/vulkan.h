/* vulkan.h - a Vulkan driver that has what lavapipe has not: three queue
   families with several queues, memory of its own, short timestamps, low limits,
   missing extensions, errors and loss on demand.

   It executes, like a strict GPU: each VkQueue is a FIFO with a thread, and a
   batch whose waits are not met blocks everything behind it. Device addresses
   are not host pointers. Commands between two barriers run in any order, and
   what is not recorded for one submit begins with a barrier after all that was
   before and ends with one to the host. Objects that the user must not use from
   two threads at once have a plain counter that every call changes:
   ThreadSanitizer sees a missing lock even if the two calls never met.

   What the specification forbids of timelines, queues, lifetimes, limits and
   threads aborts with a line that begins with VKMOCK. The rest is for the
   validation layer, which looks at the same code on another driver.

   Shaders are not executed: mock_vk_lend_module makes a module that stands for a
   CPU kernel. Any other does nothing.

   Set mock_vk_options before the instance is made; zero is the default, in
   brackets. Include after hcq.h, whose implementation was compiled after
   vulkan_loader.h. */
#pragma once

#include "vulkan_device.h"

/* ---- the devices that the conformance suite meets ---- */

/* A large card: families for everything, much memory of its own, a coarse clock that
   soon begins at 0 again. */
static TEST_UNUSED const mock_vk_desc mock_vk_many = {
    .on = 1, .devices = 4, .discrete = 1, .queues = {2, 2, 1},
    .timestamp_bits = {32, 32, 36}, .timestamp_period = 10.0f, .clock_drift_ppm = 20,
    .heap_bytes = (uint64_t)16 << 30, .max_allocation = (uint64_t)8 << 30, .linger = 20, .seed = 1
};

/* As little as Vulkan 1.2 has to have. */
static TEST_UNUSED const mock_vk_desc mock_vk_one = {
    .on = 1, .devices = 4, .api_version = VK_API_VERSION_1_2, .without = MOCK_VK_NO_OPTIONAL,
    .timestamp_bits = {MOCK_VK_NONE},
    .flags = MOCK_VK_SCHEDULER | MOCK_VK_IMPLIED_TRANSFER, .seed = 2
};

/* Low limits, little of the device's memory for the host, a clock of 12 MHz; one device's
   addresses are another's, too. */
static TEST_UNUSED const mock_vk_desc mock_vk_low = {
    .on = 1, .devices = 4, .discrete = 1, .queues = {1, 0, 1},
    .timestamp_bits = {36, 0, 64}, .timestamp_period = 83.333f,
    .max_groups = {8, 8, 8}, .max_allocations = 64, .max_storage_range = 1 << 20,
    .max_storage_buffers = 8, .import_alignment = 65536, .small_heap_bytes = 1 << 20,
    .without = MOCK_VK_NO_UPDATE_AFTER_BIND, .flags = MOCK_VK_SAME_ADDRESSES, .seed = 3
};

/* Many queues that one thread serves in turns, command by command. */
static TEST_UNUSED const mock_vk_desc mock_vk_turns = {
    .on = 1, .devices = 4, .discrete = 1, .queues = {1, 4, 2},
    .timestamp_bits = {64, 64, 64}, .without = MOCK_VK_NO_SYNC2 | MOCK_VK_NO_CALIBRATION,
    .flags = MOCK_VK_SCHEDULER | MOCK_VK_ADDRESSES_AGAIN, .seed = 4
};

/* For a list of test_variant, whose member `driver` is a const mock_vk_desc *. On the
   last one a kernel that waits stops all queues. */
#define MOCK_VK_VARIANTS \
    {.name = "vkmock", .backend = "VULKAN", .driver = &mock_vk_many}, \
    {.name = "vkmock-one", .backend = "VULKAN", .driver = &mock_vk_one}, \
    {.name = "vkmock-low", .backend = "VULKAN", .driver = &mock_vk_low}, \
    {.name = "vkmock-turns", .backend = "VULKAN", .driver = &mock_vk_turns, .one_fifo = 1},
