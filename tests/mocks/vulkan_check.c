/* vulkan_check.c - the mock Vulkan driver, by raw calls: that it aborts where Vulkan
   forbids something, and does what else the tests build upon; it has to be right
   before it judges the backend. Then hcq on it.

   vulkan_check [--quick] [--rounds N] [--filter NAME] */
#ifndef HCQ_TEST_VULKAN
#define HCQ_TEST_VULKAN
#endif
#include "vulkan_rig.h"

#include <sys/wait.h>

static int setup(TEST_ARGS) {
    static const mock_vk_desc three = {
        .on = 1, .discrete = 1, .queues = {4, 2, 1}, .timestamp_bits = {32, 36, 64},
        .timestamp_period = 10.0f, .seed = 1};
    mock_vk_options = three;
    mock_vk_clear();
    return 0;
}

static void rig_fill(rig *r, VkCommandBuffer c, uint64_t offset, uint32_t word) {
    r->vk.CmdFillBuffer(c, r->buffer, offset, 4, word);
}

static void rig_barrier(rig *r, VkCommandBuffer c, VkPipelineStageFlags src) {
    VkMemoryBarrier all = {.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT |
                                            VK_ACCESS_MEMORY_WRITE_BIT};
    r->vk.CmdPipelineBarrier(c, src, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

/* Ends, submits to a family's first queue, which raises a, and waits. */
static void rig_run(rig *r, uint32_t family, VkCommandBuffer c, uint64_t value) {
    RIG_OK(r->vk.EndCommandBuffer(c));
    RIG_OK(rig_submit(r, r->queues[family][0], c, 0, 0, r->a, value));
    RIG_OK(rig_wait(r, r->a, value, BOUND));
}

/* ---- what aborts: each in a process of its own ---- */

/* What can be done; all of it at once is forbidden, by the table below. */
typedef enum act {
    FILL = 1, END, RUN,                /* commands of family 0, which are begun */
    AGAIN,                             /* begins them once more, for any number of submits */
    TRANSFER,                          /* from now on they are of family 2 */
    HOLD,                              /* submits them behind a value that nobody raises */
    SUBMIT_0, SUBMIT_1,                /* submits them to a queue of that family */
    RAISE_0, RAISE_1, RAISE_HOST,      /* raises a to 2 */
    EARLY,                             /* waits for what nobody submitted */
    BARRIER, DISPATCH, MANY_GROUPS, INDIRECT, RESET, STAMP, BEYOND, OVERLAP,
    KERNEL,                            /* binds a pipeline */
    WILD, ODD,                         /* ... with a host pointer, or an odd block */
    DESTROY, FREE, MAP, LEAK, THREADS
} act;

static const struct crime {
    const char *text;                  /* of what is said */
    act acts[5];
} crimes[] = {
    {"two queues signal", {RAISE_0, RAISE_1}},
    {"the host signals semaphore", {RAISE_0, RAISE_HOST}},
    {"a queue signals semaphore", {RAISE_HOST, RAISE_0}},
    {"does not rise: 2 to 2", {RAISE_0, RAISE_0}},
    {"before the batch that signals it", {EARLY}},
    {"a command buffer of family 0 on a queue of 1", {END, SUBMIT_1}},
    {"not on family 2", {TRANSFER, KERNEL}},
    {"not on family 2", {TRANSFER, RESET}},
    {"stages 0x1800 on family 2", {TRANSFER, BARRIER}},
    {"written without a reset", {RESET, STAMP, STAMP, RUN}},
    {"is pending", {FILL, END, HOLD, SUBMIT_0}},
    {"is destroyed or changed while 1 pending", {FILL, END, HOLD, AGAIN}},
    {"is destroyed or changed while 1 pending", {FILL, END, HOLD, DESTROY}},
    {"is destroyed or changed while 1 pending", {FILL, END, HOLD, FREE}},
    {"which was destroyed", {FILL, END, DESTROY, SUBMIT_0}},
    {"was destroyed", {DESTROY, DESTROY}},
    {"16 bytes at 65528", {BEYOND}},
    {"overlaps", {OVERLAP, RUN}},
    {"is not coherent", {MAP}},
    {"is left", {LEAK}},
    {"no barrier after earlier work", {END, AGAIN, FILL, END}},
    {"two threads use command pool", {THREADS}},
    {"no pipeline", {DISPATCH}},
    {"65536 groups", {KERNEL, MANY_GROUPS}},
    {"65536 groups", {KERNEL, INDIRECT, RUN}},
    {"device address fault", {KERNEL, WILD, DISPATCH, RUN}},
    {"no multiple of 16", {KERNEL, ODD, DISPATCH, RUN}},
};

typedef struct scene {
    rig r;
    VkCommandBuffer c;
    VkPipelineLayout layout;
    VkQueryPool queries;
} scene;

static void bind_kernel(scene *s) {
    hcq_program_desc add = HCQ_PROGRAM(add);
    uint32_t words[MOCK_VK_MODULE_WORDS];
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, MOCK_VK_BASE + 12};
    VkPipelineLayoutCreateInfo layout = {.pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkShaderModuleCreateInfo module = {.codeSize = sizeof words, .pCode = words};
    VkComputePipelineCreateInfo info = {.flags = 0};
    VkPipeline pipeline;
    mock_vk_lend_module(&add, words);
    RIG_OK(s->r.vk.CreatePipelineLayout(s->r.device, &layout, NULL, &s->layout));
    RIG_OK(s->r.vk.CreateShaderModule(s->r.device, &module, NULL, &info.stage.module));
    info.layout = s->layout;
    RIG_OK(s->r.vk.CreateComputePipelines(s->r.device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline));
    s->r.vk.CmdBindPipeline(s->c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
}

/* Its arguments lie at `at` of the buffer, and lead to `dst`. */
static void push_kernel(scene *s, uint64_t at, uint64_t dst) {
    add_args args = {dst, 1, 1};
    const struct { uint64_t address, pad; uint32_t base[3]; } push = {s->r.address + at, 0, {0}};
    memcpy(s->r.host + at, &args, sizeof args);
    s->r.vk.CmdPushConstants(s->c, s->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           MOCK_VK_BASE + 12, &push);
}

static void reset_query(scene *s) {
    VkQueryPoolCreateInfo info = {.queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 4};
    RIG_OK(s->r.vk.CreateQueryPool(s->r.device, &info, NULL, &s->queries));
    s->r.vk.CmdResetQueryPool(s->c, s->queries, 0, 1);
}

static void map_incoherent(scene *s) {
    VkMemoryAllocateInfo info = {.allocationSize = 256, .memoryTypeIndex = 2};
    VkDeviceMemory memory;
    void *host;
    RIG_OK(s->r.vk.AllocateMemory(s->r.device, &info, NULL, &memory));
    (void)s->r.vk.MapMemory(s->r.device, memory, 0, 256, 0, &host);
}

static void *begin_many(void *user) {
    scene *s = user;
    for (uint32_t i = 0; i < 20000; i++) {
        VkCommandBuffer c = rig_begin(&s->r, 0);
        s->r.vk.FreeCommandBuffers(s->r.device, s->r.pools[0], 1, &c);
    }
    return NULL;
}

static void begin_in_threads(scene *s) {
    pthread_t other;
    ((mock_vk_instance *)(void *)s->r.instance)->desc.linger = 500;
    pthread_create(&other, NULL, begin_many, s);
    (void)begin_many(s);
    pthread_join(other, NULL);
}

static void copy(scene *s, uint64_t to) {
    const VkBufferCopy region = {0, to, 16};
    s->r.vk.CmdCopyBuffer(s->c, s->r.buffer, s->r.buffer, 1, &region);
}

static void commit(scene *s, act what) {
    static const VkCommandBufferBeginInfo begin = {.flags = 0};
    const uint32_t many[3] = {1, 65536, 1};
    rig *r = &s->r;
    switch (what) {
    case FILL: rig_fill(r, s->c, 0, 1); break;
    case END: (void)r->vk.EndCommandBuffer(s->c); break;
    case RUN: rig_run(r, 0, s->c, 1); break;
    case AGAIN: (void)r->vk.BeginCommandBuffer(s->c, &begin); break;
    case TRANSFER: s->c = rig_begin(r, 2); break;
    case HOLD: (void)rig_submit(r, r->queues[0][0], s->c, r->b, 1, r->a, 1); break;
    case SUBMIT_0: (void)rig_submit(r, r->queues[0][0], s->c, 0, 0, r->a, 2); break;
    case SUBMIT_1: (void)rig_submit(r, r->queues[1][0], s->c, 0, 0, r->a, 2); break;
    case RAISE_0: (void)rig_submit(r, r->queues[0][0], NULL, 0, 0, r->a, 2); break;
    case RAISE_1: (void)rig_submit(r, r->queues[1][0], NULL, 0, 0, r->a, 2); break;
    case RAISE_HOST: rig_signal(r, r->a, 2); break;
    case EARLY:
        ((mock_vk_instance *)(void *)r->instance)->desc.flags = 0;
        (void)rig_submit(r, r->queues[0][0], NULL, r->b, 1, r->a, 1);
        break;
    case BARRIER: rig_barrier(r, s->c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT); break;
    case DISPATCH: r->vk.CmdDispatch(s->c, 1, 1, 1); break;
    case MANY_GROUPS: r->vk.CmdDispatch(s->c, 65536, 1, 1); break;
    case INDIRECT:
        memcpy(r->host, many, sizeof many);
        r->vk.CmdDispatchIndirect(s->c, r->buffer, 0);
        break;
    case RESET: reset_query(s); break;
    case STAMP:
        r->vk.CmdWriteTimestamp(s->c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, s->queries, 0);
        break;
    case BEYOND: copy(s, RIG_BYTES - 8); break;
    case OVERLAP: copy(s, 8); break;
    case KERNEL: bind_kernel(s); break;
    case WILD: push_kernel(s, 256, (uint64_t)(uintptr_t)r->host); break;
    case ODD: push_kernel(s, 264, r->address); break;
    case DESTROY: r->vk.DestroyBuffer(r->device, r->buffer, NULL); break;
    case FREE: r->vk.FreeMemory(r->device, r->memory, NULL); break;
    case MAP: map_incoherent(s); break;
    case LEAK: (void)rig_semaphore(r); rig_close(r); break;
    case THREADS: begin_in_threads(s); break;
    }
}

static void commit_all(const struct crime *crime) {
    scene s = {0};
    mock_vk_options.flags = MOCK_VK_LATE_SIGNALS;
    rig_open(&s.r);
    s.c = rig_begin(&s.r, 0);
    for (uint32_t i = 0; i < 5 && crime->acts[i]; i++) {
        commit(&s, crime->acts[i]);
    }
}

static const char *wanted;

static void look_at_what_is_said(int number) {
    (void)number;
    _exit(strstr(mock_vk_said, wanted) ? 0 : 1);
}

TEST_WITH(aborts, setup, NULL) {
    for (size_t i = 0; i < sizeof crimes / sizeof crimes[0]; i++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            wanted = crimes[i].text;
            signal(SIGABRT, look_at_what_is_said);
            stderr = fopen("/dev/null", "w");
            alarm(60);
            commit_all(&crimes[i]);
            _exit(2);
        }
        assert_true(waitpid(child, &status, 0) == child);
        if (status != 0) {
            fail_msg("'%s' is not said, status %#x", crimes[i].text, status);
        }
    }
}

/* Without a barrier two fills of one word end either way, with one only one way. */
TEST_WITH(shuffled, setup, NULL) {
    uint32_t seen[2][3] = {{0, 0, 0}, {0, 0, 0}};
    rig r;
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

#include "vulkan_backend.h"
#include "vulkan_engines.h"
#include "vulkan_mishaps.h"

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    alarm(T.quick ? 300 : 1800);
    return test_run();
}
