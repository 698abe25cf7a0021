/* util_cuda.h - what util.h adds where the tests run on CUDA: PTX in place of the
   CPU's kernels, or the mock driver, which runs these. Part of util.h. */

#include "kernels.h"

/* ---- the driver ---- */

const char *test_cuda_library = "libcuda.so.1"; /* HCQ_CUDA_LIBRARY */

/* What was found out about the variant's driver. */
static struct {
    void *library;
    uint32_t devices;
    mock_cuda_api mock;                /* of cumock variants */
    int kept;                          /* devices whose primary context lives on, else 0 */
} test_cu;

typedef void (*cuda_fn)(void);

static cuda_fn cuda_function(const char *name) {
    void *symbol = hcq_sys_library_symbol(test_cu.library, name);
    cuda_fn found;
    if (!symbol) {
        test_fail(__FILE__, __LINE__, "no function %s", name);
    }
    memcpy(&found, &symbol, sizeof symbol);
    return found;
}

/* A call of the driver's by name; `types`: its parameters, in parentheses. */
#define CUDA_CALL(name, types, ...) ((int (*) types)cuda_function(name))(__VA_ARGS__)

static TEST_UNUSED int is_cuda_device(hcq_device *device) {
    return is_device_of(device, "CUDA");
}

/* Living objects of the mock driver. */
static uint64_t cuda_left(void) {
    mock_cuda_counts c;
    if (!T.variant->cuda) {
        return 0;
    }
    test_cu.mock.stats(&c);
    return mock_cuda_living(&c);
}

/* Frees of a device that was closed may have yet to run. */
static uint64_t cuda_left_after(uint64_t before) {
    uint64_t left = cuda_left();
    for (int i = 0; left != before && i < 5000; i++) {
        mock_sleep(1000000);
        left = cuda_left();
    }
    return left;
}

/* ---- on a GPU: contexts that stay, SEEN ---- */

/* Makes the context current for one call or two; NULL: ends that. */
static int cuda_enter(struct CUctx_st *context) {
    return context ? CUDA_CALL("cuCtxPushCurrent_v2", (struct CUctx_st *), context)
                   : CUDA_CALL("cuCtxPopCurrent_v2", (struct CUctx_st **), &context);
}

/* Lets all of the process see SEEN. */
static int cuda_register_seen(struct CUctx_st *context) {
    enum { PORTABLE = 1, DEVICEMAP = 2 };
    int result = cuda_enter(context);
    if (result == 0) {
        result = CUDA_CALL("cuMemHostRegister_v2", (void *, size_t, unsigned), test_seen_base,
                           TEST_SEEN_BYTES, PORTABLE | DEVICEMAP);
        (void)cuda_enter(NULL);
    }
    return result;
}

/* Ends what cuda_keep_contexts began, for tests that want a context to be gone. */
static TEST_UNUSED void test_cuda_let_go(void) {
    while (test_cu.kept > 0) {
        (void)CUDA_CALL("cuDevicePrimaryCtxRelease_v2", (int), --test_cu.kept);
    }
}

/* To make a context takes longer than most tests: those of the first devices stay
   from now on. */
static void cuda_keep_contexts(void) {
    enum { MOST = 4 };
    int count = 0;
    if (CUDA_CALL("cuInit", (unsigned), 0) != 0 ||
        CUDA_CALL("cuDeviceGetCount", (int *), &count) != 0) {
        return;
    }
    for (struct CUctx_st *context; test_cu.kept < count && test_cu.kept < MOST; test_cu.kept++) {
        if (CUDA_CALL("cuDevicePrimaryCtxRetain", (struct CUctx_st **, int), &context,
                      test_cu.kept) != 0 ||
            (test_cu.kept == 0 && cuda_register_seen(context) != 0)) {
            return;
        }
    }
    atexit(test_cuda_let_go);
}

/* The address at which kernels of the device see a word of `SEEN`; on a mock driver, where
   the CPU's kernels run, the host's. */
static uint64_t cuda_see(hcq_device *device, void *host) {
    hcq_cuda_info info;
    uint64_t address = 0;
    if (T.variant->cuda) {
        return (uint64_t)(uintptr_t)host;
    }
    CHECK_OK(hcq_cuda_info_get(device, &info));
    CHECK(cuda_enter(info.context) == 0);
    int result = CUDA_CALL("cuMemHostGetDevicePointer_v2", (uint64_t *, void *, unsigned), &address,
                           test_seen_base, 0);
    CHECK(cuda_enter(NULL) == 0);
    if (result != 0) {
        SKIP("kernels cannot see the host's memory");
    }
    return address + (uint64_t)((unsigned char *)host - test_seen_base);
}

/* ---- on the mock driver: the CPU's kernels ---- */

/* Text of a kernel that has the parameters, and does nothing. Of `size` bytes. */
static void cuda_write(const hcq_program_desc *desc, const char *entry, char *text, size_t size) {
    int used = snprintf(text, size, ".version 6.0\n.target sm_50\n.address_size 64\n"
                        ".visible .entry %s(\n", entry);
    for (uint32_t i = 0; i < HCQ_MAX_ARGS && desc->args[i] != HCQ_ARG_NONE; i++) {
        const char *comma = i ? ",\n" : "";
        uint32_t kind = desc->args[i];
        if ((kind & 0xff) == HCQI_ARG_STRUCT) {
            used += snprintf(text + used, size - (size_t)used, "%s.param .align %u .b8 p%u[%u]",
                             comma, kind >> 24, i, kind >> 8 & 0xffff);
        } else {
            int half = kind == HCQ_ARG_I32 || kind == HCQ_ARG_U32 || kind == HCQ_ARG_F32;
            used += snprintf(text + used, size - (size_t)used, "%s.param .b%d p%u", comma,
                             half ? 32 : 64, i);
        }
    }
    snprintf(text + used, size - (size_t)used, "\n)\n{\nret;\n}\n");
}

/* ---- kernels ---- */

/* The PTX text of a kernel in tests/support/kernels, or NULL. */
static const char *cuda_text_of(const char *name) {
    for (size_t i = 0; name && i < sizeof test_ptx / sizeof test_ptx[0]; i++) {
        if (strcmp(name, test_ptx[i].name) == 0) {
            return test_ptx[i].text;
        }
    }
    return NULL;
}

/* What stands in texts for the address of SEEN. */
static const char cuda_seen_mark[] = "0x5eed5eed5eed5eed";

static void cuda_tell_seen(char *text, uint64_t seen) {
    char number[sizeof cuda_seen_mark];
    snprintf(number, sizeof number, "0x%016llx", (unsigned long long)seen);
    for (char *at = text; (at = strstr(at, cuda_seen_mark)) != NULL; at++) {
        memcpy(at, number, sizeof number - 1);
    }
}

/* Writes the kernel's text; on the mock driver the kernel itself will run, whose text
   may be without a body. 0: there is none. */
static int cuda_text(hcq_device *device, const hcq_program_desc *desc, char *text, size_t size) {
    const char *name = kernel_name(desc->cpu), *known = cuda_text_of(name);
    char entry[64];
    if (known) {
        snprintf(entry, sizeof entry, "k_%s", name);
        snprintf(text, size, "%s", known);
        if (strstr(text, cuda_seen_mark)) {
            cuda_tell_seen(text, cuda_see(device, SEEN));
        }
    } else if (T.variant->cuda) {
        snprintf(entry, sizeof entry, "test_%llx", (unsigned long long)(uintptr_t)desc->cpu);
        cuda_write(desc, entry, text, size);
    } else {
        return 0;
    }
    if (T.variant->cuda) {
        test_cu.mock.kernel(entry, desc->cpu);
    }
    return 1;
}

/* Adds the kernel's text. */
static hcq_result cuda_program(hcq_device *device, const hcq_program_desc *desc,
                               hcq_program **program) {
    hcq_program_desc own = *desc;
    char text[4096];                   /* longer ones are not made */
    if (!desc->cpu || desc->ptx.data) {
        if (T.variant->cuda && desc->cpu && desc->ptx.entry) {
            test_cu.mock.kernel(desc->ptx.entry, desc->cpu);
        }
        return hcq_program_create(device, desc, program);
    }
    if (!cuda_text(device, desc, text, sizeof text)) {
        SKIP("a kernel that is in no PTX");
        return HCQ_ERROR_NO_KERNEL;
    }
    own.ptx.data = text;
    own.ptx.size = strlen(text);
    own.ptx.entry = NULL;
    return hcq_program_create(device, &own, program);
}

/* ---- custom commands ---- */

/* As test_gpu_fill. */
static TEST_UNUSED hcq_result cuda_fill(void *native, uint64_t address, uint64_t size,
                                        uint64_t value) {
    const hcq_cuda_encoder *e = (const hcq_cuda_encoder *)native;
    int result = CUDA_CALL("cuMemsetD32Async", (uint64_t, unsigned, size_t, struct CUstream_st *),
                           address, (uint32_t)value, size / 4, e->stream);
    return result == 0 ? HCQ_OK : HCQ_ERROR_HOST;
}

/* ---- the device ---- */

/* Where the variant's driver is. A variant without a version takes the
   environment's. */
static const char *cuda_path(void) {
    static char path[4096];
    const char *folder = getenv("HCQ_TEST_CUDA_MOCK"), *version = T.variant->cuda_version;
    if (!T.variant->cuda) {
        return "libcuda.so.1";
    }
    version = version ? version : getenv("HCQ_TEST_CUDA_VERSION");
    snprintf(path, sizeof path, "%s/libcuda%s%s.so.1", folder ? folder : ".",
             version ? "-" : "", version ? version : "");
    return path;
}

/* Begins to use the variant's driver; 0 = there is none. */
static int cuda_load(void) {
    test_cuda_library = cuda_path();
    test_cu.library = hcq_sys_library_open(test_cuda_library);
    if (!test_cu.library) {
        fprintf(stderr, "no CUDA: %s cannot be opened\n", test_cuda_library);
        return 0;
    }
    if (!T.variant->cuda) {
        cuda_keep_contexts();
        return 1;
    }
    if (!mock_cuda_load(test_cu.library, &test_cu.mock)) {
        fprintf(stderr, "no mock of CUDA: %s is another library\n", test_cuda_library);
        return 0;
    }
    mock_cuda_desc desc = *T.variant->cuda;
    desc.seed = T.seed;
    test_cu.mock.setup(&desc);
    return 1;
}

/* Before anything is opened on CUDA: what there is. 0 = nothing. */
static int cuda_look(void) {
    hcq_driver *driver = NULL;
    hcq_result result;
    if (!cuda_load()) {
        return 0;
    }
    result = hcq_driver_create(NULL, "CUDA", &driver);
    if (result == HCQ_OK) {
        (void)hcq_driver_devices(driver, NULL, 0, &test_cu.devices);
        hcq_driver_release(driver);
    }
    if (result != HCQ_OK || test_cu.devices == 0) {
        fprintf(stderr, "no CUDA device: %s\n", hcq_result_text(result));
        return 0;
    }
    return 1;
}
