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
#include "support/no_driver.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

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
        _exit((text ? none("CUDA", text) : works_on("CUDA")) ? 0 : (fflush(NULL), 1));
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

static void libraries_of_no_use(void) {
    /* What its functions say; what is in the log then. */
    static const struct { const char *init, *version, *counting, *count, *text; } says[] = {
        {"100", "13000", "0", "0", "100"},          /* CUDA_ERROR_NO_DEVICE */
        {"803", "12000", "0", "0", "803"},          /* _SYSTEM_DRIVER_MISMATCH */
        {"804", "12000", "0", "0", "804"},          /* _COMPAT_NOT_SUPPORTED_ON_DEVICE */
        {"999", "12000", "0", "0", "999"},          /* _UNKNOWN */
        {"0", "11030", "0", "1", "11.3"},
        {"0", "10020", "0", "1", "10.2"},
        {"0", "13000", "0", "0", "there is no CUDA device"},
        {"0", "13000", "3", "1", "cuDeviceGetCount"},
        {"0", "13000", "0", "1", "no CUDA device"}, /* of which nothing is known */
    };
    expect("no library", "/nonexistent/libcuda.so.1", "libcuda");
    write_file(made, "not a library", 13);
    expect("a text file", made, "libcuda");
    build("int hcq_test_nothing;\n");
    expect("a library of another kind", made, "cuInit");
    build_stub();
    expect("a stub", made, "stub");
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        setenv("STUB_INIT", says[i].init, 1);
        setenv("STUB_VERSION", says[i].version, 1);
        setenv("STUB_COUNTING", says[i].counting, 1);
        setenv("STUB_COUNT", says[i].count, 1);
        expect(says[i].text, made, says[i].text);
    }
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
    if (mock_size == 0) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

/* The function is still there, under a name that nobody knows: its first letter is
   another one, so the linker's hash leads to it, and the name does not agree. */
static void hide(unsigned char *elf, const char *name, int needed) {
    const size_t length = strlen(name) + 1;
    int found = 0;
    for (size_t i = 1; i + length <= mock_size; i++) { /* wherever it is a whole string */
        if (elf[i] == name[0] && elf[i - 1] == 0 && memcmp(elf + i, name, length) == 0) {
            elf[i] = 'x';
            found = 1;
        }
    }
    if (needed && !found) {
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
    return none("CUDA", argv[1]) ? 0 : 1;
}
