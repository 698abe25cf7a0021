/* util_gpu.h - what util.h adds where the tests run on a device that is not the
   host: other code in place of the CPU's kernels, and words that kernels see while
   they run. Part of util.h. */

/* ---- words that the host and kernels of all devices see while they run ---- */

/* seen.glsl and seen.cuh have the same, and the former the gates. */
typedef struct test_seen {
    uint32_t hold_go, hold_began, hold_ended;
    uint32_t mark_clock, marks[16];
} test_seen;

enum { GATE_HOLD, GATE_SLOW, TEST_GATES };

#ifndef HCQ_TEST_CUDA                  /* nor HCQ_TEST_VULKAN, which comes with it */

#define TEST_SHADER(kernel, file)

static TEST_UNUSED test_seen test_seen_words;
#define SEEN (&test_seen_words)

#define TEST_GPU_ENCODE(encode_fn) {NULL, NULL}

#else

#include <errno.h>
#include <sys/mman.h>

#define TEST_GPU 1

/* test_seen, then a page at least for each gate. */
enum { TEST_GATE_BYTES = 65536, TEST_SEEN_BYTES = (TEST_GATES + 1) * TEST_GATE_BYTES };

static unsigned char *test_seen_base;
#define SEEN ((test_seen *)(void *)test_seen_base)

__attribute__((constructor)) static void seen_make(void) {
    void *base = mmap(NULL, TEST_SEEN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (base == MAP_FAILED) {
        abort();
    }
    test_seen_base = (unsigned char *)base;
}

static int is_device_of(hcq_device *device, const char *backend) {
    hcq_device_info info;
    return hcq_device_info_get(device, &info) == HCQ_OK && strcmp(info.backend, backend) == 0;
}

/* ---- kernels ---- */

static struct {
    struct { hcq_cpu_fn kernel; const char *name; } list[32];
    uint32_t count;
} test_kernels;

static TEST_UNUSED void kernel_is_called(hcq_cpu_fn kernel, const char *name) {
    test_kernels.list[test_kernels.count].kernel = kernel;
    test_kernels.list[test_kernels.count].name = name;
    test_kernels.count++;
}

/* After a kernel that is not written once: the files in shaders/ and kernels/ that do
   the same. */
#define TEST_SHADER(kernel, file) \
    __attribute__((constructor)) static void name_of_##kernel(void) { \
        kernel_is_called(kernel, #file); \
    }

static const char *kernel_name(hcq_cpu_fn kernel) {
    for (uint32_t i = 0; i < test_kernels.count; i++) {
        if (test_kernels.list[i].kernel == kernel) {
            return test_kernels.list[i].name;
        }
    }
    return NULL;
}

#ifdef HCQ_TEST_VULKAN
#include "util_vulkan.h"
#endif
#include "util_cuda.h"

/* Adds the code of the kernel for the device. */
static hcq_result test_program_create(hcq_device *device, const hcq_program_desc *desc,
                                      hcq_program **program) {
#ifdef HCQ_TEST_VULKAN
    if (desc && is_vulkan_device(device)) {
        return vulkan_program(device, desc, program);
    }
#endif
    if (desc && is_cuda_device(device)) {
        return cuda_program(device, desc, program);
    }
    return hcq_program_create(device, desc, program);
}
#define hcq_program_create(device, desc, program) test_program_create(device, desc, program)

/* ---- custom commands ---- */

/* In the list of a type, in the last place: an encode function for GPUs. */
#ifdef HCQ_TEST_VULKAN
#define TEST_GPU_ENCODE(encode_fn) {"VULKAN", encode_fn}, {"CUDA", encode_fn}
#else
#define TEST_GPU_ENCODE(encode_fn) {"CUDA", encode_fn}
#endif

/* For an encode function: fills with 4 bytes. */
static TEST_UNUSED hcq_result test_gpu_fill(void *native, uint64_t address, uint64_t size,
                                            uint64_t value) {
#ifdef HCQ_TEST_VULKAN
    if (is_vulkan()) {
        return vulkan_fill(native, address, size, value);
    }
#endif
    return cuda_fill(native, address, size, value);
}

#endif /* HCQ_TEST_CUDA */

#ifndef HCQ_TEST_VULKAN

static TEST_UNUSED void test_gate(uint32_t gate, void (*wait_fn)(void)) {
    (void)gate;
    (void)wait_fn;
}

static TEST_UNUSED int test_validates(void) {
    return 0;
}

#endif

/* For an encode function of any backend: fills with 4 bytes. The CPU gives nothing native. */
static TEST_UNUSED hcq_result test_encode_fill(void *native, uint64_t address, uint64_t size,
                                               uint32_t value) {
#ifdef TEST_GPU
    if (native && is_gpu()) {
        return test_gpu_fill(native, address, size, value);
    }
#endif
    if (native) {
        mock_custom_fill(native, address, size, value, 4);
    }
    for (uint64_t i = 0; !native && i < size / 4; i++) {
        HCQ_PTR(uint32_t, address)[i] = value;
    }
    return HCQ_OK;
}

/* ---- tests that need the host's kernels ---- */

#define NEEDS_CPU_KERNELS(reason) SKIP_IF(is_gpu(), reason)
