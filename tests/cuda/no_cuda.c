/* no_cuda.c - a program with CUDA compiled in, on machines that have none, or half of
   it, or something else by its name: opening says so and why, all else works.

   no_cuda TEXT: on this machine, TEXT has to be in what is logged.
   no_cuda: all the machines that it makes itself. For drivers that lack functions it
   takes the mock's library from the folder $HCQ_TEST_CUDA_MOCK; without one that part
   is left out, and the result is 77. */
static const char *driver_path = "libcuda.so.1";

#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#define HCQ_CUDA
#define HCQ_CUDA_LIBRARY driver_path
#include "../../hcq.h"
#include "mocks/cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char logged[8192];

static void log_line(void *user, hcq_result result, const char *text) {
    size_t used = strlen(logged);
    (void)user;
    snprintf(logged + used, sizeof logged - used, "%s: %s\n", hcq_result_name(result), text);
}

static hcq_device_desc plain_desc(void) {
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.log_fn = log_line;
    desc.timeout_ns = 20000000000u;
    return desc;
}

static int complain(const char *what, hcq_result result) {
    printf("%s: %s\nlogged:\n%s", what, hcq_result_name(result), logged);
    return 0;
}

/* ---- one kernel ---- */

static void add_one(const void *args, const hcq_block *block) {
    uint32_t *data = HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args));
    HCQ_FOR_THREADS(block, t) {
        data[block->id.x * block->block.x + t.x] += 1;
    }
}

static void mock_add_one(const void *args, const uint32_t id[3], const uint32_t grid[3],
                         const uint32_t block[3]) {
    const hcq_block b = {hcq_dim(id[0], id[1], id[2]), hcq_dim(grid[0], grid[1], grid[2]),
                         hcq_dim(block[0], block[1], block[2])};
    add_one(args, &b);
}

/* Where the library is the mock's, it has to know the kernel. */
static void tell_kernel(void) {
    mock_cuda_api api;
    void *library = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL && mock_cuda_load(library, &api)) { api.kernel("add_one", mock_add_one); }
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

/* Bound, so that there are graphs; a copy lane waits for the compute lane. */
static hcq_result run(hcq_device *device, hcq_buffer buffer, hcq_buffer other) {
    hcq_program_desc desc = {"add_one", add_one, {HCQ_ARG_INOUT}, NULL, NULL, {NULL, 0, NULL},
                             {add_one_ptx, sizeof add_one_ptx, "add_one"}, 0};
    hcq_program *program = NULL;
    hcq_queue *queue = NULL, *copy = NULL;
    hcq_point done;
    hcq_result r = hcq_program_create(device, &desc, &program);
    if (r == HCQ_OK) { r = hcq_queue_create(device, HCQ_COMPUTE, &queue); }
    if (r == HCQ_OK) { r = hcq_queue_create(device, HCQ_COPY, &copy); }
    if (r == HCQ_OK) {
        hcq_queue_exec(queue, program, &buffer.address, sizeof buffer.address, hcq_dim(4, 1, 1),
                       hcq_dim(16, 1, 1));
        hcq_queue_fill(queue, hcq_view(other, 0, 7), 7, 0x5a, 1);
        hcq_queue_write(queue, hcq_view(other, 8, 8), 0x123456789abcdef, 8);
        r = hcq_queue_bind(queue, device);
    }
    for (uint32_t i = 0; i < TIMES && r == HCQ_OK; i++) {
        r = hcq_queue_submit(queue, device, &done);
    }
    if (r == HCQ_OK) {
        hcq_queue_wait(copy, done);
        hcq_queue_copy(copy, hcq_view(other, 64, 64), hcq_view(buffer, 0, 64), 64);
        r = hcq_queue_submit(copy, device, &done);
    }
    if (r == HCQ_OK) { r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER); }
    hcq_queue_destroy(queue);
    hcq_queue_destroy(copy);
    hcq_program_destroy(program);
    return r;
}

static int numbers_are_right(const uint32_t *data, const uint32_t *other) {
    for (uint32_t i = 0; i < WORDS; i++) {
        if (data[i] != i + TIMES || (i >= 16 && i < 32 && other[i] != i - 16 + TIMES)) {
            return complain("wrong numbers", HCQ_OK);
        }
    }
    return other[0] == 0x5a5a5a5a && (other[1] & 0xffffff) == 0x5a5a5a && other[2] == 0x89abcdef &&
           other[3] == 0x01234567;
}

static int works_on(const char *name) {
    uint32_t data[WORDS], other[WORDS];
    hcq_device_desc desc = plain_desc();
    hcq_device *device = NULL;
    hcq_buffer a, b;
    hcq_result r = hcq_open(name, &desc, &device);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(other, 0, sizeof other);
    for (uint32_t i = 0; i < WORDS; i++) { data[i] = i; }
    if (r == HCQ_OK) { r = hcq_alloc(device, sizeof data, 0, &a); }
    if (r == HCQ_OK) { r = hcq_alloc(device, sizeof data, HCQ_ZEROED, &b); }
    if (r == HCQ_OK) { r = hcq_copyin(a, data, sizeof data); }
    if (r == HCQ_OK) { r = run(device, a, b); }
    if (r == HCQ_OK) { r = hcq_copyout(data, a, sizeof data); }
    if (r == HCQ_OK) { r = hcq_copyout(other, b, sizeof other); }
    if (r != HCQ_OK) {
        (void)hcq_close(device);
        return complain(name, r);
    }
    return hcq_close(device) == HCQ_OK && numbers_are_right(data, other);
}

/* ---- no device ---- */

static int is_in_log(const char *text) {
    return strstr(logged, text) != NULL || complain(text, HCQ_ERROR_NO_DEVICE);
}

/* Every way to ask for a device. */
static int none_is_found(const char *text) {
    static const char *const names[] = {"CUDA", "CUDA:0", "CUDA:1", "CUDA:any"};
    hcq_device_desc desc = plain_desc();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hcq_device *device = NULL;
        logged[0] = 0;
        hcq_result r = hcq_open(names[i], &desc, &device);
        if (r != HCQ_ERROR_NO_DEVICE || device != NULL) { return complain(names[i], r); }
        if (i < 3 && !is_in_log(text)) { return 0; }
    }
    return 1;
}

/* The driver can be made all the same; it has nothing. */
static int driver_is_empty(const char *text) {
    hcq_device_desc desc = plain_desc();
    hcq_driver *driver = NULL;
    hcq_device *device = NULL;
    uint32_t count = 99;
    hcq_result r = hcq_driver_create(NULL, "CUDA", &driver);
    if (r != HCQ_OK) { return complain("hcq_driver_create", r); }
    r = hcq_driver_devices(driver, NULL, 0, &count);
    logged[0] = 0;
    if (r == HCQ_OK && count == 0) { r = hcq_driver_open(driver, NULL, &desc, &device); }
    hcq_driver_release(driver);
    return r == HCQ_ERROR_NO_DEVICE ? is_in_log(text) : complain("hcq_driver_open", r);
}

static int none(const char *text) {
    return works_on("CPU") && none_is_found(text) && driver_is_empty(text) && works_on("CPU");
}

/* ---- machines ---- */

static char folder[] = "/tmp/hcq-no-cuda.XXXXXX";
static char made[256];                 /* the library that a child uses */
static uint32_t failures, checks;

/* In a process of its own, so that nobody has opened anything before. */
static void expect(const char *what, const char *path, const char *text) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        driver_path = path;
        if (!text) { tell_kernel(); }
        _exit((text ? none(text) : works_on("CUDA")) ? 0 : (fflush(NULL), 1));
    }
    checks++;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("FAIL %s: status %#x\n", what, (unsigned)status);
        failures++;
    }
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        printf("%s cannot be written\n", path);
        exit(1);
    }
}

/* A library in C, from a compiler. */
static void build(const char *source) {
    char command[1024], path[300];
    const char *cc = getenv("CC");
    snprintf(path, sizeof path, "%s/made.c", folder);
    write_file(path, source, strlen(source));
    snprintf(command, sizeof command, "%s -shared -fPIC -w -o %s %s", cc ? cc : "cc", made, path);
    if (system(command) != 0) {
        printf("%s fails\n", command);
        exit(1);
    }
}

/* What the environment says, ... */
static const char stub_head[] =
    "#include <stdlib.h>\n"
    "static int value(const char *name) {\n"
    "    return getenv(name) ? atoi(getenv(name)) : 34;\n}\n"
    "int cuInit(unsigned flags) { return value(\"STUB_INIT\"); }\n"
    "int cuDriverGetVersion(int *version) {\n"
    "    if (!getenv(\"STUB_VERSION\")) { return 34; }\n"
    "    *version = value(\"STUB_VERSION\");\n    return 0;\n}\n"
    "int cuDeviceGetCount(int *count) {\n"
    "    *count = getenv(\"STUB_COUNT\") ? value(\"STUB_COUNT\") : 0;\n"
    "    return value(\"STUB_COUNTING\");\n}\n"
    "int cuGetErrorName(int error, const char **name) {\n"
    "    *name = error == 34 ? \"CUDA_ERROR_STUB_LIBRARY\" : \"CUDA_ERROR_SOME\";\n"
    "    return 0;\n}\n";

enum { FUNCTIONS = sizeof hcqi_cuda_names / sizeof hcqi_cuda_names[0] };

/* ... and all other functions, which do nothing. */
static void build_stub(void) {
    static char source[16384];
    size_t used = sizeof stub_head - 1;
    memcpy(source, stub_head, sizeof stub_head);
    for (size_t i = 0; i < FUNCTIONS; i++) {
        char mark[64];
        snprintf(mark, sizeof mark, "int %s(", hcqi_cuda_names[i].name);
        if (strstr(stub_head, mark) == NULL) {
            used += (size_t)snprintf(source + used, sizeof source - used,
                                     "%svoid) { return 34; }\n", mark);
        }
    }
    build(source);
}

static void stub_says(const char *init, const char *version, const char *counting,
                      const char *count) {
    setenv("STUB_INIT", init, 1);
    setenv("STUB_VERSION", version, 1);
    setenv("STUB_COUNTING", counting, 1);
    setenv("STUB_COUNT", count, 1);
}

static void libraries_of_no_use(void) {
    expect("no library", "/nonexistent/libcuda.so.1", "libcuda");
    write_file(made, "not a library", 13);
    expect("a text file", made, "libcuda");
    build("int hcq_test_nothing;\n");
    expect("a library of another kind", made, "cuInit");
    build_stub();
    expect("a stub", made, "stub");
    stub_says("100", "13000", "0", "0");
    expect("CUDA_ERROR_NO_DEVICE", made, "100");
    stub_says("803", "12000", "0", "0");
    expect("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", made, "803");
    stub_says("804", "12000", "0", "0");
    expect("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", made, "804");
    stub_says("999", "12000", "0", "0");
    expect("CUDA_ERROR_UNKNOWN", made, "999");
    stub_says("0", "11030", "0", "1");
    expect("driver 11.3", made, "11.3");
    stub_says("0", "10020", "0", "1");
    expect("driver 10.2", made, "10.2");
    stub_says("0", "13000", "0", "0");
    expect("no device", made, "there is no CUDA device");
    stub_says("0", "13000", "3", "1");
    expect("no count", made, "cuDeviceGetCount");
    stub_says("0", "13000", "0", "1");
    expect("a device of which nothing is known", made, "no CUDA device");
}

/* NVIDIA's own stub, where the toolkit is. */
static void stub_of_the_toolkit(void) {
    const char *home = getenv("CUDA_HOME");
    char path[512];
    snprintf(path, sizeof path, "%s/lib64/stubs/libcuda.so", home ? home : "/usr/local/cuda");
    if (access(path, R_OK) == 0) {
        expect("the toolkit's stub", path, "stub");
    } else {
        printf("left out: no stub of the toolkit (%s)\n", path);
    }
}

/* ---- drivers that lack a function ---- */

static unsigned char *mock;
static size_t mock_size;

static void mock_read(const char *path) {
    FILE *file = fopen(path, "rb");
    mock = (unsigned char *)malloc((size_t)64 << 20);
    mock_size = file && mock ? fread(mock, 1, (size_t)64 << 20, file) : 0;
    if (mock_size < sizeof(ElfW(Ehdr))) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

/* Where in the file is what the program sees at this address? */
static size_t offset_of(const unsigned char *elf, size_t address) {
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(const void *)elf;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(const void *)(elf + head->e_phoff);
    for (size_t i = 0; i < head->e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD && address >= parts[i].p_vaddr &&
            address - parts[i].p_vaddr < parts[i].p_filesz) {
            return address - parts[i].p_vaddr + parts[i].p_offset;
        }
    }
    return 0;
}

/* The names that the dynamic linker looks at. */
static char *names_of(unsigned char *elf, size_t *size) {
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(const void *)elf;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(const void *)(elf + head->e_phoff);
    size_t at = 0;
    for (size_t i = 0; i < head->e_phnum; i++) {
        const ElfW(Dyn) *d = (const ElfW(Dyn) *)(const void *)(elf + parts[i].p_offset);
        for (; parts[i].p_type == PT_DYNAMIC && d->d_tag != DT_NULL; d++) {
            if (d->d_tag == DT_STRTAB) { at = offset_of(elf, (size_t)d->d_un.d_ptr); }
            if (d->d_tag == DT_STRSZ) { *size = (size_t)d->d_un.d_val; }
        }
    }
    return (char *)elf + at;
}

/* The function is still there, under a name that nobody knows: its first letter is
   another one, so the linker's hash leads to it, and the name does not agree. */
static void hide(unsigned char *elf, const char *name, int needed) {
    size_t size = 0, length = strlen(name) + 1;
    char *names = names_of(elf, &size);
    for (size_t i = 1; i + length <= size; i++) {
        if (names[i - 1] == 0 && memcmp(names + i, name, length) == 0) {
            names[i] = 'x';
            return;
        }
    }
    if (needed) {
        printf("FAIL: the mock has no %s\n", name);
        failures++;
    }
}

static void expect_without(const char *const *names, size_t count, const char *text) {
    unsigned char *copy = (unsigned char *)malloc(mock_size);
    memcpy(copy, mock, mock_size);
    for (size_t i = 0; i < count; i++) {
        hide(copy, names[i], text != NULL);
    }
    write_file(made, copy, mock_size);
    expect(names[0], made, text);
    free(copy);
}

/* One of a function's names is enough. */
static void needed_functions(void) {
    for (size_t i = 0; i < HCQI_CUDA_NEEDED_COUNT; i++) {
        const char *const names[2] = {hcqi_cuda_names[i].name, hcqi_cuda_names[i].older};
        expect_without(names, names[1] ? 2 : 1, names[0]);
        if (names[1]) { expect_without(names, 1, NULL); }
        if (names[1]) { expect_without(names + 1, 1, NULL); }
    }
}

/* Each of the others, all of them, and what belongs together. */
static void optional_functions(void) {
    static const char *const groups[] = {"", "cuStream", "cuMem", "cuGraph"};
    const char *names[FUNCTIONS];
    for (size_t i = HCQI_CUDA_NEEDED_COUNT; i < FUNCTIONS; i++) {
        expect_without(&hcqi_cuda_names[i].name, 1, NULL);
    }
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        size_t count = 0;
        for (size_t i = HCQI_CUDA_NEEDED_COUNT; i < FUNCTIONS; i++) {
            if (strncmp(hcqi_cuda_names[i].name, groups[k], strlen(groups[k])) == 0) {
                names[count++] = hcqi_cuda_names[i].name;
            }
        }
        expect_without(names, count, NULL);
    }
}

static int all_machines(void) {
    const char *lent = getenv("HCQ_TEST_CUDA_MOCK");
    char path[512];
    if (mkdtemp(folder) == NULL) { return 1; }
    snprintf(made, sizeof made, "%s/libcuda.so.1", folder);
    libraries_of_no_use();
    stub_of_the_toolkit();
    snprintf(path, sizeof path, "%s/libcuda.so.1", lent ? lent : ".");
    if (access(path, R_OK) == 0) {
        mock_read(path);
        expect("the mock as it is", path, NULL);
        needed_functions();
        optional_functions();
        free(mock);
    }
    snprintf(made, sizeof made, "rm -rf '%s'", folder);
    if (system(made) != 0) { failures++; }
    printf("%u of %u machines fail\n", (unsigned)failures, (unsigned)checks);
    if (failures == 0 && mock == NULL) { printf("no mock: %s\n", path); }
    return failures != 0 ? 1 : mock == NULL ? 77 : 0;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        fprintf(stderr, "usage: no_cuda [TEXT]\n");
        return 2;
    }
    if (argc == 1) { return all_machines(); }
    return none(argv[1]) ? 0 : 1;
}
