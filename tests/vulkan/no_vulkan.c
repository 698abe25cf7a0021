/* no_vulkan.c - a program with Vulkan compiled in, on a machine that has none:
   opening says so and why, all else works.

   no_vulkan TEXT: TEXT has to be in what is logged. tests/run.sh takes Vulkan away. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#define HCQ_VULKAN
#include "../../hcq.h"

#include <stdio.h>
#include <string.h>

static const char *wanted;
static int told;

static void log_line(void *user, hcq_result result, const char *text) {
    (void)user;
    printf("logged: %s: %s\n", hcq_result_name(result), text);
    told |= strstr(text, wanted) != NULL;
}

static void add_one(const void *args, const hcq_block *block) {
    uint32_t *data = HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args));
    HCQ_FOR_THREADS(block, t) {
        data[block->id.x * block->block.x + t.x] += 1;
    }
}

static hcq_result run(hcq_device *device, hcq_buffer buffer) {
    hcq_program_desc desc = {"add_one", add_one, {HCQ_ARG_INOUT}, NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *program = NULL;
    hcq_queue *queue = NULL;
    hcq_point done;
    hcq_result r = hcq_program_create(device, &desc, &program);
    if (r == HCQ_OK) { r = hcq_queue_create(device, HCQ_COMPUTE, &queue); }
    if (r == HCQ_OK) {
        hcq_queue_exec(queue, program, &buffer.address, sizeof buffer.address, hcq_dim(4, 1, 1),
                       hcq_dim(16, 1, 1));
        r = hcq_queue_submit(queue, device, &done);
    }
    if (r == HCQ_OK) { r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER); }
    hcq_queue_destroy(queue);
    hcq_program_destroy(program);
    return r;
}

static int works_on_cpu(const hcq_device_desc *desc) {
    uint32_t data[64];
    hcq_device *device = NULL;
    hcq_buffer buffer;
    hcq_result r = hcq_open("CPU", desc, &device);
    memset(&buffer, 0, sizeof buffer);
    for (uint32_t i = 0; i < 64; i++) { data[i] = i; }
    if (r == HCQ_OK) { r = hcq_alloc(device, sizeof data, 0, &buffer); }
    if (r == HCQ_OK) { r = hcq_copyin(buffer, data, sizeof data); }
    if (r == HCQ_OK) { r = run(device, buffer); }
    if (r == HCQ_OK) { r = hcq_copyout(data, buffer, sizeof data); }
    for (uint32_t i = 0; i < 64 && r == HCQ_OK; i++) {
        if (data[i] != i + 1) { return 0; }
    }
    return hcq_close(device) == HCQ_OK && r == HCQ_OK;
}

/* Every way to ask for a device; 0 = one was found. */
static int none_is_found(const hcq_device_desc *desc) {
    static const char *const names[] = {"VULKAN", "VULKAN:0", "VULKAN:1", "VULKAN:any"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hcq_device *device = NULL;
        hcq_result r = hcq_open(names[i], desc, &device);
        if (r != HCQ_ERROR_NO_DEVICE || device != NULL) {
            printf("%s: %s\n", names[i], hcq_result_name(r));
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.log_fn = log_line;
    if (argc != 2) {
        fprintf(stderr, "usage: no_vulkan TEXT\n");
        return 2;
    }
    wanted = argv[1];
    if (!works_on_cpu(&desc) || !none_is_found(&desc) || !works_on_cpu(&desc)) {
        printf("failed\n");
        return 1;
    }
    if (!told) { printf("nothing that is logged says '%s'\n", wanted); }
    return !told;
}
