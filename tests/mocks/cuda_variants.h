/* cuda_variants.h - the CUDA devices, of the mock driver, that the conformance
   suite meets. Part of util.h. */
#pragma once

/* What no test means to do. */
enum {
    MOCK_CUDA_NEVER = MOCK_CUDA_PAGEABLE_IS_MISUSE | MOCK_CUDA_NO_EARLY_WAITS
};

/* Operations start early or late, as chance has it; each stream has a work queue. The
   clock is seconds off. */
static TEST_UNUSED const mock_cuda_desc mock_cuda_many = {
    .devices = 4, .pending = 1022, .queues = 32, .linger = 20, .memory_bytes = 16ull << 30,
    .timer_offset_ns = 5000000000,
    .flags = MOCK_CUDA_NEVER | MOCK_CUDA_SYNCS
};

/* Work is gathered until somebody asks for it. The clock is days off. */
static TEST_UNUSED const mock_cuda_desc mock_cuda_late = {
    .devices = 4, .pending = 1022, .queues = 32, .timer_step_ns = 1,
    .timer_offset_ns = -1000000000000000,
    .flags = MOCK_CUDA_NEVER | MOCK_CUDA_LATE | MOCK_CUDA_NO_WAIT_VALUES |
             MOCK_CUDA_STRICT_MEMSETS
};

/* An old card; its clock is coarse, its driver as well, no device sees another. */
static TEST_UNUSED const mock_cuda_desc mock_cuda_old = {
    .devices = 4, .pending = 1022, .queues = 32, .capability = 60, .timer_step_ns = 1000,
    .flags = MOCK_CUDA_NEVER | MOCK_CUDA_NO_POOLS | MOCK_CUDA_NO_PEERS | MOCK_CUDA_NO_REGISTER |
             MOCK_CUDA_NO_WAIT_VALUES | MOCK_CUDA_STRICT_MEMSETS
};

/* Streams share work queues: one that waits stops others. */
static TEST_UNUSED const mock_cuda_desc mock_cuda_few = {
    .devices = 4, .pending = 1022, .queues = 3, .linger = 20, .flags = MOCK_CUDA_NEVER
};

static TEST_UNUSED const mock_cuda_desc mock_cuda_single = {
    .devices = 4, .pending = 1022, .queues = 1, .linger = 20, .flags = MOCK_CUDA_NEVER
};

/* For a list of test_variant, whose member `cuda` is a const mock_cuda_desc *. */
#define MOCK_CUDA_VARIANTS \
    {.name = "cumock", .backend = "CUDA", .cuda = &mock_cuda_many}, \
    {.name = "cumock-events", .backend = "CUDA", .cuda = &mock_cuda_late, \
     .cuda_flags = HCQ_CUDA_EVENTS}, \
    {.name = "cumock-plain", .backend = "CUDA", .cuda = &mock_cuda_old, .cuda_version = "11040", \
     .cuda_flags = HCQ_CUDA_NO_JIT, .staging_bytes = 65536}, \
    {.name = "cumock-lists", .backend = "CUDA", .cuda = &mock_cuda_many, \
     .cuda_flags = HCQ_CUDA_NO_GRAPHS | HCQ_CUDA_NO_POOLS}, \
    {.name = "cumock-few", .backend = "CUDA", .cuda = &mock_cuda_few, .one_fifo = 1}, \
    {.name = "cumock-one", .backend = "CUDA", .cuda = &mock_cuda_single, \
     .cuda_flags = HCQ_CUDA_ONE_STREAM, .one_fifo = 1}, \
    {.name = "cumock-no-copy", .backend = "CUDA", .cuda = &mock_cuda_single, \
     .test.no_copy_lane = 1, .one_fifo = 1}, \
    {.name = "cumock-narrow", .backend = "CUDA", .cuda = &mock_cuda_many, \
     .test.counter_limit = 16, .narrow = 1},
