/* vulkan.c - what only the Vulkan backend does: replay, grids beyond the device's
   limits, arguments by bindings, native edges, memory in blocks, the pipeline
   cache, handles for engines, times, machines without Vulkan.

   vulkan [VARIANT] [--quick], VARIANT vulkan or vulkan-*. Needs -DHCQ_TEST_VULKAN. */
#include "support/util.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- what the parts share ---- */

static uint64_t count_of(hcq_device *device, int key) {
    return test_query(device, key);
}
#define COUNT(device, name) count_of((device), HCQ_VULKAN_QUERY_##name)

/* What a device did so far, and its memory hooks. */
typedef struct counts {
    uint64_t recorded, recordings, batches, waits, calls;
} counts;

static counts counts_now(hcq_device *device) {
    counts c;
    c.recorded = COUNT(device, RECORDED);
    c.recordings = COUNT(device, RECORDINGS);
    c.batches = COUNT(device, BATCHES);
    c.waits = COUNT(device, WAITS);
    c.calls = __atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST);
    return c;
}

static counts counts_since(hcq_device *device, const counts *before) {
    counts c = counts_now(device);
    c.recorded -= before->recorded;
    c.recordings -= before->recordings;
    c.batches -= before->batches;
    c.waits -= before->waits;
    c.calls -= before->calls;
    return c;
}

/* One more device of the variant, with more HCQ_VULKAN_* flags. `slots` 0: default. */
static hcq_device *device_with(uint32_t flags, uint32_t slots) {
    hcq_device_desc desc = test_desc();
    test_vulkan_desc.flags |= flags;
    desc.slots = slots;
    return test_open(0, &desc);
}

static hcq_device *open_cpu(void) {
    hcq_device_desc desc = test_desc();
    hcq_device *cpu = NULL;
    desc.cpu = NULL;
    desc.counter_limit = 0;
    CHECK_OK(hcq_open("CPU", &desc, &cpu));
    return cpu;
}

static int has_feature(hcq_device *device, uint32_t feature) {
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(device, &info));
    return (info.features & feature) != 0;
}

static const test_shader *shader_named(const char *name) {
    for (size_t i = 0; i < sizeof test_shaders / sizeof test_shaders[0]; i++) {
        if (strcmp(test_shaders[i].name, name) == 0) {
            return &test_shaders[i];
        }
    }
    test_fail(__FILE__, __LINE__, name);
    return NULL;
}

/* A description with a shader in place of a CPU kernel. `args` ends with 0. */
static hcq_program_desc shader_desc(const char *name, const uint32_t *args) {
    const test_shader *shader = shader_named(name);
    hcq_program_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.label = name;
    for (uint32_t i = 0; args[i] != HCQ_ARG_NONE; i++) {
        desc.args[i] = args[i];
    }
    desc.spirv.data = shader->words;
    desc.spirv.size = shader->size;
    return desc;
}

static hcq_program *make_program(hcq_device *device, const char *name, const uint32_t *args) {
    hcq_program_desc desc = shader_desc(name, args);
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

/* vk_heavy.comp: a few milliseconds, then one word. */
typedef struct heavy_args { uint64_t work, dst; uint32_t n, index, value; } heavy_args;

enum { HEAVY = 32768 };

static hcq_program *make_heavy(hcq_device *device) {
    static const uint32_t args[] = {HCQ_ARG_INOUT, HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32,
                                    HCQ_ARG_U32, HCQ_ARG_NONE};
    return make_program(device, "vk_heavy", args);
}

static int32_t record_heavy(hcq_queue *queue, hcq_program *heavy, hcq_buffer work, hcq_buffer dst,
                            uint32_t index, uint32_t value) {
    heavy_args args = {work.address, dst.address, HEAVY, index, value};
    return hcq_queue_exec(queue, heavy, &args, sizeof args, hcq_dim(HEAVY / 64, 1, 1),
                          hcq_dim(64, 1, 1));
}

/* A grid of many blocks takes long where the device is a busy host. */
static void submit_and_wait(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    CHECK_OK(hcq_queue_submit(queue, device, &done));
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, 6 * BOUND));
}

static void submit_values(hcq_queue *queue, hcq_device *device, const uint64_t *variables,
                          uint32_t count, hcq_point *done) {
    hcq_submission s;
    memset(&s, 0, sizeof s);
    s.queues = &queue;
    s.queue_count = 1;
    s.variables = variables;
    s.variable_count = count;
    CHECK_OK(hcq_submit(device, &s, 1, done));
}

#include "support/gpu_devices.h"
#include "replay.h"
#include "grids.h"
#include "programs.h"
#include "devices.h"
#include "memory.h"
#include "engine.h"
#include "times.h"
#include "children.h"

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        REPLAY_TESTS GRID_TESTS PROGRAM_TESTS DEVICE_TESTS MEMORY_TESTS ENGINE_TESTS TIME_TESTS
        CHILD_TESTS
    };
    if (argc == 2 && strncmp(argv[1], "child-", 6) == 0) {
        return child_main(argv[1] + 6);
    }
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    if (!T.variant_given) {
        T.variant = test_find_variant("vulkan");
        result = test_start_vulkan();
    }
    if (result == 0 && (!is_vulkan() || T.variant->inner || T.variant->driver)) {
        fprintf(stderr, "these tests need the system's Vulkan\n");
        return 77;
    }
    return result ? result : cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}
