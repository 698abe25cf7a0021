/* vulkan_variants.h - the devices of the mock that the conformance suite meets. */
#ifndef HCQ_TEST_MOCK_VULKAN_VARIANTS_H
#define HCQ_TEST_MOCK_VULKAN_VARIANTS_H

#include "vulkan_options.h"

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

/* Low limits, little of the device's memory for the host, a clock of 12 MHz. */
static TEST_UNUSED const mock_vk_desc mock_vk_low = {
    .on = 1, .devices = 4, .discrete = 1, .queues = {1, 0, 1},
    .timestamp_bits = {36, 0, 64}, .timestamp_period = 83.333f,
    .max_groups = {8, 8, 8}, .max_allocations = 64, .max_storage_range = 1 << 20,
    .max_storage_buffers = 8, .import_alignment = 65536, .small_heap_bytes = 1 << 20,
    .without = MOCK_VK_NO_UPDATE_AFTER_BIND, .seed = 3
};

/* Many queues that one thread serves in turns, command by command. */
static TEST_UNUSED const mock_vk_desc mock_vk_turns = {
    .on = 1, .devices = 4, .discrete = 1, .queues = {1, 4, 2},
    .timestamp_bits = {64, 64, 64}, .without = MOCK_VK_NO_SYNC2 | MOCK_VK_NO_CALIBRATION,
    .flags = MOCK_VK_SCHEDULER, .seed = 4
};

/* For a list of test_variant, whose member `driver` is a const mock_vk_desc *. On the
   last one a kernel that waits stops all queues. */
#define MOCK_VK_VARIANTS \
    {.name = "vkmock", .backend = "VULKAN", .driver = &mock_vk_many}, \
    {.name = "vkmock-one", .backend = "VULKAN", .driver = &mock_vk_one}, \
    {.name = "vkmock-low", .backend = "VULKAN", .driver = &mock_vk_low}, \
    {.name = "vkmock-turns", .backend = "VULKAN", .driver = &mock_vk_turns, .one_fifo = 1},

#endif /* HCQ_TEST_MOCK_VULKAN_VARIANTS_H */
