/* no_driver.h - a program with a backend compiled in, on a machine that has no
   driver for it: opening says so and why, all else works. Part of no_vulkan.c and
   no_cuda.c, which bring hcq.h. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char logged[8192];

static void log_line(void *user, hcq_result result, const char *text) {
    size_t used = strlen(logged);
    (void)user;
    snprintf(logged + used, sizeof logged - used, "%s: %s\n", hcq_result_name(result), text);
}

static hcq_device_desc plain_desc(void) {
    hcq_device_desc desc = {.log_fn = log_line, .timeout_ns = 20000000000u};
    return desc;
}

static int complain(const char *what, hcq_result result) {
    printf("%s: %s\nlogged:\n%s", what, hcq_result_name(result), logged);
    return 0;
}

/* ---- all else ---- */

static void add_one(const void *args, const hcq_block *block) {
    uint32_t *data = HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args));
    HCQ_FOR_THREADS(block, t) {
        data[block->id.x * block->block.x + t.x] += 1;
    }
}

static const char add_one_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 data) {\n"
    "    .reg .b32 %r<6>;\n    .reg .b64 %d<4>;\n"
    "    ld.param.u64 %d1, [data];\n    cvta.to.global.u64 %d1, %d1;\n"
    "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %ntid.x;\n    mov.u32 %r3, %tid.x;\n"
    "    mad.lo.s32 %r4, %r1, %r2, %r3;\n    mul.wide.u32 %d2, %r4, 4;\n"
    "    add.s64 %d3, %d1, %d2;\n    ld.global.u32 %r5, [%d3];\n    add.u32 %r5, %r5, 1;\n"
    "    st.global.u32 [%d3], %r5;\n    ret;\n}\n";

enum { WORDS = 64, TIMES = 3 };

/* What fails ends the function, and says so. */
#define NEED(call)                                                                 \
    do {                                                                           \
        hcq_result need_result = (call);                                           \
        if (need_result != HCQ_OK) {                                               \
            return complain(#call, need_result);                                   \
        }                                                                          \
    } while (0)

/* Bound, so that there are graphs; a copy lane waits for the compute lane. */
static int run(hcq_device *device, hcq_buffer buffer, hcq_buffer other) {
    hcq_program_desc desc = HCQ_CPU_PROGRAM("add_one", add_one, HCQ_ARG_INOUT);
    desc.ptx.data = add_one_ptx;
    hcq_program *program = NULL;
    hcq_queue *queue = NULL, *copy = NULL;
    const uint64_t word = 0x123456789abcdef;
    hcq_point done;
    NEED(hcq_program_create(device, &desc, &program));
    NEED(hcq_queue_create(device, HCQ_COMPUTE, &queue));
    NEED(hcq_queue_create(device, HCQ_COPY, &copy));
    hcq_queue_exec(queue, program, &buffer.address, sizeof buffer.address, hcq_dim(4, 1, 1),
                   hcq_dim(16, 1, 1));
    hcq_queue_fill(queue, hcq_view(other, 0, 7), 7, 0x5a, 1);
    hcq_queue_write(queue, hcq_view(other, 8, 8), &word, 8);
    NEED(hcq_queue_bind(queue, device));
    for (uint32_t i = 0; i < TIMES; i++) {
        NEED(hcq_queue_submit(queue, device, &done));
    }
    hcq_queue_wait(copy, done);
    hcq_queue_copy(copy, hcq_view(other, 64, 64), hcq_view(buffer, 0, 64), 64);
    NEED(hcq_queue_submit(copy, device, &done));
    NEED(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
    hcq_queue_destroy(queue);
    hcq_queue_destroy(copy);
    hcq_program_destroy(program);
    return 1;
}

static int works_on(const char *name) {
    uint32_t data[WORDS], other[WORDS];
    hcq_device_desc desc = plain_desc();
    hcq_device *device = NULL;
    hcq_buffer a, b;
    for (uint32_t i = 0; i < WORDS; i++) { data[i] = i; }
    NEED(hcq_open(name, &desc, &device));
    NEED(hcq_alloc(device, sizeof data, 0, &a));
    NEED(hcq_alloc(device, sizeof data, HCQ_ZEROED, &b));
    NEED(hcq_copyin(a, data, sizeof data));
    if (!run(device, a, b)) { return 0; }
    NEED(hcq_copyout(data, a, sizeof data));
    NEED(hcq_copyout(other, b, sizeof other));
    NEED(hcq_close(device));
    for (uint32_t i = 0; i < WORDS; i++) {
        if (data[i] != i + TIMES || (i >= 16 && i < 32 && other[i] != i - 16 + TIMES)) {
            return complain("wrong numbers", HCQ_OK);
        }
    }
    return other[0] == 0x5a5a5a5a && (other[1] & 0xffffff) == 0x5a5a5a && other[2] == 0x89abcdef &&
           other[3] == 0x01234567;
}

/* ---- no device ---- */

/* Every way to ask for a device; the log has the text, but where any will do. */
static int none_is_found(const char *backend, const char *text) {
    static const char *const ways[] = {"", ":0", ":1", ":any"};
    hcq_device_desc desc = plain_desc();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char name[32];
        hcq_device *device = NULL;
        logged[0] = 0;
        snprintf(name, sizeof name, "%s%s", backend, ways[i]);
        hcq_result r = hcq_open(name, &desc, &device);
        if (r != HCQ_ERROR_NO_DEVICE || device != NULL || (i < 3 && !strstr(logged, text))) {
            return complain(name, r);
        }
    }
    return 1;
}

/* The driver can be made all the same; it has nothing. */
static int driver_is_empty(const char *backend, const char *text) {
    static const char *const names[] = {NULL, "1", "some card"};
    hcq_device_desc desc = plain_desc();
    hcq_driver *driver = NULL;
    hcq_device *device = NULL;
    uint32_t count = 99;
    NEED(hcq_driver_create(NULL, backend, &driver));
    NEED(hcq_driver_devices(driver, NULL, 0, &count));
    for (size_t i = sizeof names / sizeof names[0]; i-- > 0;) {
        logged[0] = 0;
        hcq_result r = hcq_driver_open(driver, names[i], &desc, &device);
        if (r != HCQ_ERROR_NO_DEVICE) { return complain("hcq_driver_open", r); }
    }
    hcq_driver_release(driver);
    return (count == 0 && strstr(logged, text)) || complain(text, HCQ_OK);
}

static int none(const char *backend, const char *text) {
    return works_on("CPU") && none_is_found(backend, text) && driver_is_empty(backend, text) &&
           works_on("CPU");
}
