/* shared.h - what the parts of vulkan.c share. */
#pragma once

#include "support/gpu_tests.h"
#include "support/util.h"

#define COUNT(device, name) test_query((device), HCQ_VULKAN_QUERY_##name)

static void imports_are_gone(void) {
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK(COUNT(T.dev, BLOCKS) <= 4);  /* the library's own, and what the test has */
}

/* What a device did so far. */
typedef struct counts {
    uint64_t recorded, recordings, batches, waits;
} counts;

static counts counts_now(hcq_device *device) {
    return (counts){COUNT(device, RECORDED), COUNT(device, RECORDINGS), COUNT(device, BATCHES),
                    COUNT(device, WAITS)};
}

static counts counts_since(hcq_device *device, const counts *before) {
    counts c = counts_now(device);
    c.recorded -= before->recorded;
    c.recordings -= before->recordings;
    c.batches -= before->batches;
    c.waits -= before->waits;
    return c;
}

static hcq_program *make_program(hcq_device *device, const char *name, const uint32_t *args) {
    return make_kernel(device, shader_desc(name, args));
}

/* One more device of the variant, with more HCQ_VULKAN_* flags. `slots` 0: default. */
static hcq_device *device_with(uint32_t flags, uint32_t slots) {
    hcq_device_desc desc = test_desc();
    test_vulkan_desc.flags |= flags;
    desc.versions = slots;
    return test_open(0, &desc);
}
