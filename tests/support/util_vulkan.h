/* util_vulkan.h - what util.h adds where the tests run on Vulkan: shaders in place
   of the CPU's kernels, gates for kernels that wait for the host, validation. Part
   of util.h. */

#include "shaders.h"                   /* made of shaders/ by vulkan/spirv_modules.sh */

/* What was found out about the first Vulkan device. */
static struct {
    uint32_t devices;
    int shares_addresses;              /* it uses the host's, for all memory */
    int one_fifo;                      /* its lanes have one queue */
    int validates;                     /* HCQ_TEST_VALIDATION is set */
    uint64_t messages;                 /* of the layer, of closed devices; atomic */
} test_vk;

static TEST_UNUSED int test_validates(void) {
    return is_vulkan() && test_vk.validates;
}

static TEST_UNUSED int is_vulkan_device(hcq_device *device) {
    return is_device_of(device, "VULKAN");
}

/* ---- gates ---- */

/* A kernel that runs for as long as a test wants reads a word of a page that nobody
   may read: the handler of the signal waits in the kernel's place and opens the
   page. For that the device has to run on the host's threads, as Mesa's lavapipe
   does, which ends every loop after 65,535 turns. Other devices find all pages
   open, and their kernels look at the words again and again. */

static void (*test_gate_waits[TEST_GATES])(void); /* called by the handler */
static struct sigaction test_gate_before;

static unsigned char *gate_page(uint32_t gate) {
    return test_seen_base + (size_t)(gate + 1) * TEST_GATE_BYTES;
}

static void gate_signal(int number, siginfo_t *info, void *context) {
    unsigned char *at = (unsigned char *)info->si_addr;
    int error = errno;
    (void)context;
    if (at < gate_page(0) || at >= gate_page(TEST_GATES)) {
        sigaction(number, &test_gate_before, NULL); /* not ours: it comes again */
        return;
    }
    uint32_t gate = (uint32_t)((size_t)(at - gate_page(0)) / TEST_GATE_BYTES);
    test_gate_waits[gate]();
    (void)mprotect(gate_page(gate), TEST_GATE_BYTES, PROT_READ | PROT_WRITE);
    errno = error;
}

/* From now on a kernel that comes to the gate waits until `wait_fn` returns, once;
   the next time has to ask again. Every time sets the handler, since cmocka sets
   one of its own before each test. */
static TEST_UNUSED void test_gate(uint32_t gate, void (*wait_fn)(void)) {
    struct sigaction own = {0}, before;
    if (!test_vk.shares_addresses) {
        return;
    }
    own.sa_sigaction = gate_signal;
    own.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&own.sa_mask);
    CHECK(sigaction(SIGSEGV, &own, &before) == 0);
    if (!(before.sa_flags & SA_SIGINFO) || before.sa_sigaction != gate_signal) {
        test_gate_before = before;
    }
    test_gate_waits[gate] = wait_fn;
    CHECK(mprotect(gate_page(gate), TEST_GATE_BYTES, PROT_NONE) == 0);
}

/* Imports `SEEN` and the gates. A device takes memory once: if it has it already it
   is the last one of this address that was told where. 0: it cannot. */
static uint64_t import_seen(hcq_device *device) {
    static struct { hcq_device *device; uint64_t address; } known[64];
    static uint32_t next;
    hcq_buffer all;
    if (hcq_import(device, test_seen_base, TEST_SEEN_BYTES, 0, &all) == HCQ_OK) {
        known[next % 64].device = device;
        known[next++ % 64].address = all.address;
        return all.address;
    }
    for (uint32_t i = next; i-- > 0 && next - i <= 64;) {
        if (known[i % 64].device == device) {
            return known[i % 64].address;
        }
    }
    return 0;
}

/* The address at which kernels of the device see a word of `SEEN`; on a mock driver, where
   the CPU's kernels run, the host's. */
static uint64_t vulkan_see(hcq_device *device, void *host) {
    if (test_vk.shares_addresses || T.variant->driver) {
        return (uint64_t)(uintptr_t)host;
    }
    uint64_t address = import_seen(device);
    if (!address) {
        SKIP("kernels cannot see the host's memory");
    }
    return address + (uint64_t)((unsigned char *)host - test_seen_base);
}

/* ---- shaders ---- */

typedef struct test_shader {
    const char *name;
    const uint32_t *words;
    size_t size;                       /* bytes */
} test_shader;

#define TEST_SHADER_ROW(name) {#name, spirv_##name, sizeof spirv_##name},
#define spirv_add add_spirv            /* of shared.k */
static const test_shader test_shaders[] = {SPIRV_MODULES(TEST_SHADER_ROW) TEST_SHADER_ROW(add)};

static const test_shader *shader_named(const char *name) {
    for (size_t k = 0; name && k < sizeof test_shaders / sizeof test_shaders[0]; k++) {
        if (strcmp(name, test_shaders[k].name) == 0) {
            return &test_shaders[k];
        }
    }
    return NULL;
}

/* A description with a shader in place of a CPU kernel. `args` ends with 0. */
static TEST_UNUSED hcq_program_desc shader_desc(const char *name, const uint32_t *args) {
    const test_shader *shader = shader_named(name);
    hcq_program_desc desc = HCQ_CPU_PROGRAM(name, NULL);
    CHECK(shader != NULL);
    for (uint32_t i = 0; i < HCQ_MAX_ARGS && args[i] != HCQ_ARG_NONE; i++) {
        desc.args[i] = args[i];
    }
    desc.spirv.data = shader->words;
    desc.spirv.size = shader->size;
    return desc;
}

/* What vk_length takes. */
static TEST_UNUSED const uint32_t length_list[] = {HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_NONE};

/* Gives the constant with this SpecId another default; 0: there is none. */
static int spirv_constant(uint32_t *words, size_t count, uint32_t spec_id, uint32_t value) {
    enum { OP_SPEC_CONSTANT = 50, OP_DECORATE = 71, SPEC_ID = 1 };
    uint32_t id = 0;
    for (size_t i = 5; i < count; i += words[i] >> 16) {
        uint32_t op = words[i] & 0xffff;
        if (op == OP_DECORATE && words[i + 2] == SPEC_ID && words[i + 3] == spec_id) {
            id = words[i + 1];
        } else if (op == OP_SPEC_CONSTANT && words[i + 2] == id) {
            words[i + 3] = value;
            return 1;
        }
    }
    return 0;
}

/* Adds the kernel's shader, told where SEEN is. On the mock driver the kernel itself
   runs. */
static hcq_result vulkan_program(hcq_device *device, const hcq_program_desc *desc,
                                 hcq_program **program) {
    const test_shader *shader = shader_named(desc->cpu ? kernel_name(desc->cpu) : NULL);
    hcq_program_desc own = *desc;
    if (T.variant->driver && desc->cpu) {
        uint32_t module[MOCK_VK_MODULE_WORDS];
        mock_vk_lend_module(&own, module);
        return hcq_program_create(device, &own, program);
    }
    if (!shader) {
        return hcq_program_create(device, desc, program);
    }
    uint32_t *words = (uint32_t *)malloc(shader->size);
    memcpy(words, shader->words, shader->size);
    if (spirv_constant(words, shader->size / 4, 20, 0)) {
        uint64_t seen = vulkan_see(device, SEEN);
        spirv_constant(words, shader->size / 4, 20, (uint32_t)seen);
        spirv_constant(words, shader->size / 4, 21, (uint32_t)(seen >> 32));
    }
    own.spirv.data = words;
    own.spirv.size = shader->size;
    hcq_result result = hcq_program_create(device, &own, program);
    free(words);
    return result;
}

/* ---- custom commands ---- */

/* As test_gpu_fill. */
static TEST_UNUSED hcq_result vulkan_fill(void *native, uint64_t address, uint64_t size,
                                          uint64_t value) {
    const hcq_vulkan_encoder *e = (const hcq_vulkan_encoder *)native;
    VkBuffer buffer;
    VkDeviceSize offset;
    PFN_vkCmdFillBuffer fill = (PFN_vkCmdFillBuffer)e->get_proc(e->device, "vkCmdFillBuffer");
    if (!fill || hcq_vulkan_address(e, 16, &buffer, &offset) != HCQ_ERROR_INVALID || /* nothing */
        hcq_vulkan_address(e, address, NULL, &offset) != HCQ_ERROR_INVALID ||
        hcq_vulkan_address(e, address, &buffer, NULL) != HCQ_ERROR_INVALID ||
        hcq_vulkan_address(e, address, &buffer, &offset) != HCQ_OK) {
        return HCQ_ERROR_HOST;
    }
    fill(e->commands, buffer, offset, size, (uint32_t)value);
    return HCQ_OK;
}

/* ---- what the validation layer says ---- */

static hcq_result test_close(hcq_device *device) {
    uint64_t messages = 0;
    if (test_vk.validates && is_vulkan_device(device) &&
        hcq_device_query(device, HCQ_VULKAN_QUERY_MESSAGES, &messages) == HCQ_OK) {
        __atomic_add_fetch(&test_vk.messages, messages, __ATOMIC_SEQ_CST);
    }
    return hcq_close(device);
}
#define hcq_close(device) test_close(device)

/* ---- the device ---- */

/* Does it use the host's addresses? */
static int addresses_are_shared(hcq_device *device) {
    hcq_buffer buffer;
    if (hcq_alloc(device, 64, HCQ_HOST_VISIBLE, &buffer) != HCQ_OK) {
        return 0;
    }
    int shared = buffer.address == (uint64_t)(uintptr_t)buffer.host;
    (void)hcq_free(buffer);
    return shared;
}

/* Before anything is opened on Vulkan: what there is. 0 = nothing. */
static int vulkan_look(void) {
    hcq_driver *driver = NULL;
    hcq_device *device = NULL;
    hcq_vulkan_lane_info compute, copy;
    setenv("LP_NUM_THREADS", "8", 0);  /* lavapipe: kernels that wait need one each */
    test_vk.validates = getenv("HCQ_TEST_VALIDATION") != NULL;
    struct hcq_vulkan_desc own = {.flags = test_vk.validates ? HCQ_VULKAN_VALIDATION : 0};
    const hcq_device_desc desc = {.vulkan = &own, .log_fn = test_log_line, .log_user = &T.log};
    hcq_result result = hcq_driver_create(NULL, "VULKAN", &driver);
    if (result == HCQ_OK) {
        (void)hcq_driver_devices(driver, NULL, 0, &test_vk.devices);
        hcq_driver_release(driver);
        result = hcq_open("VULKAN", &desc, &device);
    }
    if (log_has("vulkan.flags: no layer, or no ")) {
        fprintf(stderr, "no VK_LAYER_KHRONOS_validation\n");
        (void)hcq_close(device);
        return 0;
    }
    if (result != HCQ_OK) {
        fprintf(stderr, "no Vulkan device: %s\n", hcq_result_text(result));
        return 0;
    }
    test_vk.shares_addresses = addresses_are_shared(device);
    test_vk.one_fifo = hcq_vulkan_lane(device, HCQ_COMPUTE, 0, &compute) != HCQ_OK ||
                       hcq_vulkan_lane(device, HCQ_COPY, 0, &copy) != HCQ_OK ||
                       compute.queue == copy.queue;
    return hcq_close(device) == HCQ_OK;
}
