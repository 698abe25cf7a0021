/* vulkan_check.c - the mock Vulkan driver, by raw calls: that it aborts where Vulkan
   forbids something, and does what else the tests build upon; it has to be right
   before it judges the backend. Then hcq on it.

   vulkan_check [--quick] [--rounds N] [--filter NAME] */
#ifndef HCQ_TEST_VULKAN
#define HCQ_TEST_VULKAN
#endif
#include "vulkan_mishaps.h"

static int setup(void **state) {
    static const mock_vk_desc three = {
        .on = 1, .discrete = 1, .queues = {4, 2, 1}, .timestamp_bits = {32, 36, 64},
        .timestamp_period = 10.0f, .seed = 1};
    (void)state;
    mock_vk_options = three;
    mock_vk_clear();
    return 0;
}

/* ---- what aborts: each in a process of its own ---- */

typedef struct scene {
    rig r;
    VkCommandBuffer c;                 /* of family 0, begun */
    VkPipelineLayout layout;
    VkPipeline pipeline;
} scene;

static const uint32_t scene_args[HCQ_MAX_ARGS] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32};

static void scene_pipeline(scene *s) {
    uint32_t words[MOCK_VK_MODULE_WORDS];
    size_t size = mock_vk_module(7, words);
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                       .codeSize = size, .pCode = words};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = "main"}};
    mock_vk_kernel(words, size, k_add, scene_args);
    RIG_OK(s->r.vk.CreatePipelineLayout(s->r.device, &layout, NULL, &s->layout));
    RIG_OK(s->r.vk.CreateShaderModule(s->r.device, &module, NULL, &info.stage.module));
    info.layout = s->layout;
    RIG_OK(s->r.vk.CreateComputePipelines(s->r.device, VK_NULL_HANDLE, 1, &info, NULL,
                                          &s->pipeline));
    s->r.vk.CmdBindPipeline(s->c, VK_PIPELINE_BIND_POINT_COMPUTE, s->pipeline);
}

static void scene_run(scene *s) { rig_run(&s->r, 0, s->c, 1); }

/* Runs a kernel with a block at `at` of the buffer, which leads to `dst`. */
static void scene_kernel(scene *s, uint64_t at, uint64_t dst) {
    add_args args = {dst, 1, 1};
    uint64_t address = s->r.address + at;
    memcpy(s->r.host + at, &args, sizeof args);
    scene_pipeline(s);
    s->r.vk.CmdPushConstants(s->c, s->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &address);
    s->r.vk.CmdDispatch(s->c, 1, 1, 1);
    scene_run(s);
}

/* Fills a word, and waits for b, which nobody raises. */
static void scene_submit(scene *s) {
    rig_fill(&s->r, s->c, 0, 1);
    (void)s->r.vk.EndCommandBuffer(s->c);
    (void)rig_submit(&s->r, s->r.queues[0][0], s->c, s->r.b, 1, s->r.a, 1);
}

static void two_producers(scene *s) {
    (void)rig_submit(&s->r, s->r.queues[0][0], NULL, 0, 0, s->r.a, 1);
    (void)rig_submit(&s->r, s->r.queues[1][0], NULL, 0, 0, s->r.a, 2);
}

static void queue_and_host(scene *s) {
    (void)rig_submit(&s->r, s->r.queues[0][0], NULL, 0, 0, s->r.a, 1);
    rig_signal(&s->r, s->r.a, 9);
}

static void no_rise(scene *s) {
    (void)rig_submit(&s->r, s->r.queues[0][0], NULL, 0, 0, s->r.a, 2);
    (void)rig_submit(&s->r, s->r.queues[0][0], NULL, 0, 0, s->r.a, 2);
}

static void early_wait(scene *s) {
    mock_vk_instances->desc.flags = 0;
    (void)rig_submit(&s->r, s->r.queues[0][0], NULL, s->r.a, 1, s->r.b, 1);
}

static void foreign_family(scene *s) {
    (void)s->r.vk.EndCommandBuffer(s->c);
    (void)rig_submit(&s->r, s->r.queues[1][0], s->c, 0, 0, s->r.a, 1);
}

static void dispatch_on_transfer(scene *s) {
    s->r.vk.CmdDispatch(rig_begin(&s->r, 2), 1, 1, 1);
}

static void compute_stage_on_transfer(scene *s) {
    rig_barrier(&s->r, rig_begin(&s->r, 2), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
}

static void stamp_twice(scene *s) {
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 4};
    VkQueryPool pool;
    RIG_OK(s->r.vk.CreateQueryPool(s->r.device, &info, NULL, &pool));
    s->r.vk.CmdResetQueryPool(s->c, pool, 0, 1);
    s->r.vk.CmdWriteTimestamp(s->c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, pool, 0);
    s->r.vk.CmdWriteTimestamp(s->c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, pool, 0);
    scene_run(s);
}

static void submit_pending(scene *s) {
    scene_submit(s);
    (void)rig_submit(&s->r, s->r.queues[0][0], s->c, 0, 0, s->r.a, 2);
}

static void destroy_used(scene *s) {
    scene_submit(s);
    s->r.vk.DestroyBuffer(s->r.device, s->r.buffer, NULL);
}

static void free_used(scene *s) {
    scene_submit(s);
    s->r.vk.FreeMemory(s->r.device, s->r.memory, NULL);
}

static void use_destroyed(scene *s) {
    rig_fill(&s->r, s->c, 0, 1);
    (void)s->r.vk.EndCommandBuffer(s->c);
    s->r.vk.DestroyBuffer(s->r.device, s->r.buffer, NULL);
    (void)rig_submit(&s->r, s->r.queues[0][0], s->c, 0, 0, s->r.a, 1);
}

static void destroy_twice(scene *s) {
    s->r.vk.DestroyBuffer(s->r.device, s->r.buffer, NULL);
    s->r.vk.DestroyBuffer(s->r.device, s->r.buffer, NULL);
}

static void copy_beyond(scene *s) {
    const VkBufferCopy region = {0, RIG_BYTES - 8, 16};
    s->r.vk.CmdCopyBuffer(s->c, s->r.buffer, s->r.buffer, 1, &region);
}

static void copy_overlap(scene *s) {
    const VkBufferCopy region = {0, 8, 16};
    s->r.vk.CmdCopyBuffer(s->c, s->r.buffer, s->r.buffer, 1, &region);
    scene_run(s);
}

static void map_incoherent(scene *s) {
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = 256, .memoryTypeIndex = 2};
    VkDeviceMemory memory;
    void *host;
    RIG_OK(s->r.vk.AllocateMemory(s->r.device, &info, NULL, &memory));
    (void)s->r.vk.MapMemory(s->r.device, memory, 0, 256, 0, &host);
}

static void leak(scene *s) {
    (void)rig_semaphore(&s->r);
    rig_close(&s->r);
}

static void no_edges(scene *s) {
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    (void)s->r.vk.EndCommandBuffer(s->c);
    (void)s->r.vk.BeginCommandBuffer(s->c, &begin);
    rig_fill(&s->r, s->c, 0, 1);
    (void)s->r.vk.EndCommandBuffer(s->c);
}

static void *begin_many(void *user) {
    scene *s = user;
    for (uint32_t i = 0; i < 20000; i++) {
        VkCommandBuffer c = rig_begin(&s->r, 0);
        s->r.vk.FreeCommandBuffers(s->r.device, s->r.pools[0], 1, &c);
    }
    return NULL;
}

static void two_threads(scene *s) {
    pthread_t other;
    pthread_create(&other, NULL, begin_many, s);
    (void)begin_many(s);
    pthread_join(other, NULL);
}

static void too_many_groups(scene *s) {
    scene_pipeline(s);
    s->r.vk.CmdDispatch(s->c, 65536, 1, 1);
}

static void too_many_indirect(scene *s) {
    const uint32_t count[3] = {1, 65536, 1};
    memcpy(s->r.host + 512, count, sizeof count);
    scene_pipeline(s);
    s->r.vk.CmdDispatchIndirect(s->c, s->r.buffer, 512);
    scene_run(s);
}

static void wild_pointer(scene *s) { scene_kernel(s, 256, (uint64_t)(uintptr_t)s->r.host); }

static void odd_block(scene *s) { scene_kernel(s, 264, s->r.address); }

static const struct crime {
    const char *text;                  /* of what is said */
    void (*commit)(scene *s);
} crimes[] = {
    {"two queues signal", two_producers},
    {"the host signals semaphore", queue_and_host},
    {"does not rise: 2 to 2", no_rise},
    {"before the batch that signals it", early_wait},
    {"a command buffer of family 0 on a queue of 1", foreign_family},
    {"not on family 2", dispatch_on_transfer},
    {"stages 0x1800 on family 2", compute_stage_on_transfer},
    {"written without a reset", stamp_twice},
    {"is pending", submit_pending},
    {"is destroyed or changed while 1 pending", destroy_used},
    {"is destroyed or changed while 1 pending", free_used},
    {"which was destroyed", use_destroyed},
    {"was destroyed", destroy_twice},
    {"16 bytes at 65528", copy_beyond},
    {"overlaps", copy_overlap},
    {"is not coherent", map_incoherent},
    {"is left", leak},
    {"no barrier after earlier work", no_edges},
    {"two threads use command pool", two_threads},
    {"65536 groups", too_many_groups},
    {"65536 groups", too_many_indirect},
    {"device address fault", wild_pointer},
    {"no multiple of 16", odd_block},
};

static void commit(const struct crime *crime) {
    scene s;
    memset(&s, 0, sizeof s);
    mock_vk_options.linger = crime->commit == two_threads ? 500 : 0;
    mock_vk_options.flags = MOCK_VK_LATE_SIGNALS;
    rig_open(&s.r);
    s.c = rig_begin(&s.r, 0);
    crime->commit(&s);
}

/* What a child that commits the crime says, and how it ends. */
static int watch(const struct crime *crime, char *text, size_t size) {
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        alarm(60);
        commit(crime);
        _exit(0);
    }
    close(ends[1]);
    while (used + 1 < size && (got = read(ends[0], text + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = 0;
    close(ends[0]);
    assert_true(waitpid(child, &status, 0) == child);
    return status;
}

static void aborts(void **state) {
    char text[8192];
    (void)state;
    for (size_t i = 0; i < sizeof crimes / sizeof crimes[0]; i++) {
        int status = watch(&crimes[i], text, sizeof text);
        if (!WIFSIGNALED(status) || !strstr(text, crimes[i].text)) {
            print_error("'%s' is not said, status %#x:\n%s\n", crimes[i].text, status, text);
            fail();
        }
    }
}

/* Without a barrier two fills of one word end either way, with one only one way. */
static void shuffled(void **state) {
    uint32_t seen[2][3] = {{0, 0, 0}, {0, 0, 0}};
    rig r;
    (void)state;
    rig_open(&r);
    for (uint64_t i = 0; i < 48; i++) {
        VkCommandBuffer c = rig_begin(&r, 0);
        rig_fill(&r, c, 0, 1);
        rig_barrier(&r, c, i % 2 ? VK_PIPELINE_STAGE_TRANSFER_BIT
                                 : VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT); /* which wrote nothing */
        rig_fill(&r, c, 0, 2);
        rig_run(&r, 0, c, i + 1);
        seen[i % 2][rig_word(&r, 0)]++;
    }
    rig_close(&r);
    assert_true(seen[0][1] != 0 && seen[0][2] != 0);
    assert_int_equal(seen[1][2], 24);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(aborts, setup),
        cmocka_unit_test_setup(shuffled, setup),
        BACKEND_TESTS, MISHAP_TESTS
    };
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    alarm(T.quick ? 300 : 1800);
    return cmocka_run_group_tests_name("mock_vulkan", tests, NULL, NULL);
}
