/* no_cuda.c - a program with CUDA compiled in, on machines that have none, or half of
   it, or something else by its name: opening says so and why, all else works.

   All the machines it makes itself, by standing between hcq and dlsym. For drivers that lack
   functions it takes the mock's library from the folder $HCQ_TEST_CUDA_MOCK; without one that
   part is left out, and the result is 77. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

static void *found(void *library, const char *name);
static const char *driver_path = "libcuda.so.1";

#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#define HCQ_CUDA
#define HCQ_CUDA_LIBRARY driver_path
#define dlsym found
#include "../../hcq.h"
#undef dlsym
#include "mocks/cuda.h"
#include "support/no_driver.h"

#include <sys/wait.h>
#include <unistd.h>

enum { FUNCTIONS = sizeof hcqi_cuda_names / sizeof hcqi_cuda_names[0] };

static const char any_library[] = "libc.so.6"; /* there is one everywhere */

/* ---- what the driver's functions are on a machine ---- */

/* A driver of no use: what its functions say, and what is in the log then. */
typedef struct stub {
    int init, versioning, version, counting, count;
    const char *text;
} stub;

static struct {
    const stub *stub;                  /* or NULL: those of the library, but for ... */
    const char *hidden[FUNCTIONS];     /* ... these */
    size_t hidden_count;
} machine;

static int stub_init(unsigned flags) { return flags ? 1 : machine.stub->init; }

static int stub_version(int *version) {
    *version = machine.stub->version;
    return machine.stub->versioning;
}

static int stub_count(int *count) {
    *count = machine.stub->count;
    return machine.stub->counting;
}

/* The first device lacks unified addressing, of the others nothing is known. */
static int stub_device(int *device, int index) {
    *device = index;
    return index;
}

static int stub_attribute(int *value, int attribute, int device) {
    *value = attribute != 41;
    return device;
}

static int stub_error(int error, const char **name) {
    *name = error == 34 ? "CUDA_ERROR_STUB_LIBRARY" : "CUDA_ERROR_SOME";
    return 0;
}

static int stub_other(void) { return 34; }

typedef void (*any_fn)(void);

static const struct { const char *name; any_fn fn; } stub_functions[] = {
    {"cuInit", (any_fn)stub_init}, {"cuDriverGetVersion", (any_fn)stub_version},
    {"cuDeviceGetCount", (any_fn)stub_count}, {"cuGetErrorName", (any_fn)stub_error},
    {"cuDeviceGet", (any_fn)stub_device}, {"cuDeviceGetAttribute", (any_fn)stub_attribute}
};

static void *stub_symbol(const char *name) {
    any_fn fn = (any_fn)stub_other;
    void *symbol;
    for (size_t i = 0; i < sizeof stub_functions / sizeof stub_functions[0]; i++) {
        fn = strcmp(stub_functions[i].name, name) == 0 ? stub_functions[i].fn : fn;
    }
    memcpy(&symbol, &fn, sizeof symbol);
    return symbol;
}

/* In place of dlsym. */
static void *found(void *library, const char *name) {
    if (machine.stub) {
        return stub_symbol(name);
    }
    void *symbol = dlsym(library, name);
    for (size_t i = 0; i < machine.hidden_count; i++) {
        if (strcmp(machine.hidden[i], name) == 0) {
            if (!symbol) {
                abort();               /* nothing was hidden */
            }
            symbol = NULL;
        }
    }
    return symbol;
}

/* ---- machines ---- */

static uint32_t failures, checks;

/* In a process of its own, so that nobody has opened anything before. Without a text it
   works. */
static void expect(const char *what, const char *path, const char *text) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        driver_path = path;
        if (!text) {
            mock_cuda_tell(path, "add_one", add_one);
        }
        int good = text ? none("CUDA", text) : works_on("CUDA");
        fflush(NULL);
        _exit(good ? 0 : 1);
    }
    checks++;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("FAIL %s: status %#x\n", what, (unsigned)status);
        failures++;
    }
}

static void libraries_of_no_use(void) {
    static const stub stubs[] = {
        {34, 34, 0, 34, 0, "stub"},                 /* the toolkit's */
        {100, 0, 13000, 0, 0, "100"},               /* CUDA_ERROR_NO_DEVICE */
        {803, 0, 12000, 0, 0, "803"},               /* _SYSTEM_DRIVER_MISMATCH */
        {804, 0, 12000, 0, 0, "804"},               /* _COMPAT_NOT_SUPPORTED_ON_DEVICE */
        {999, 0, 12000, 0, 0, "999"},               /* _UNKNOWN */
        {0, 0, 11030, 0, 1, "11.3"},
        {0, 0, 10020, 0, 1, "10.2"},
        {0, 0, 13000, 0, 0, "there is no CUDA device"},
        {0, 0, 13000, 3, 1, "cuDeviceGetCount"},
        {0, 0, 13000, 0, 2, "no CUDA device has unified addressing"},
    };
    expect("no library", "/nonexistent/libcuda.so.1", "libcuda");
    expect("a text file", "/etc/passwd", "/etc/passwd");
    expect("a library of another kind", any_library, "cuInit");
    for (size_t i = 0; i < sizeof stubs / sizeof stubs[0]; i++) {
        machine.stub = &stubs[i];
        expect(stubs[i].text, any_library, stubs[i].text);
    }
    machine.stub = NULL;
}

/* ---- drivers that lack a function ---- */

/* Without these functions of the mock's; without a text it works all the same. */
static void expect_without(const char *path, const char *const *names, size_t count,
                           const char *text) {
    memcpy(machine.hidden, names, count * sizeof *names);
    machine.hidden_count = count;
    expect(names[0], path, text);
    machine.hidden_count = 0;
}

/* One of a function's names is enough. */
static void needed_functions(const char *path) {
    for (size_t i = 0; i < HCQI_CUDA_NEEDED_COUNT; i++) {
        const char *const names[2] = {hcqi_cuda_names[i].name, hcqi_cuda_names[i].older};
        expect_without(path, names, names[1] ? 2 : 1, names[0]);
        if (names[1]) {
            expect_without(path, names, 1, NULL);
            expect_without(path, names + 1, 1, NULL);
        }
    }
}

/* Each of the others, all of them, and what belongs together. */
static void optional_functions(const char *path) {
    static const char *const groups[] = {"", "cuStream", "cuMem", "cuGraph"};
    const char *names[FUNCTIONS];
    for (size_t i = HCQI_CUDA_NEEDED_COUNT; i < FUNCTIONS; i++) {
        expect_without(path, &hcqi_cuda_names[i].name, 1, NULL);
    }
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        size_t count = 0;
        for (size_t i = HCQI_CUDA_NEEDED_COUNT; i < FUNCTIONS; i++) {
            if (strncmp(hcqi_cuda_names[i].name, groups[k], strlen(groups[k])) == 0) {
                names[count++] = hcqi_cuda_names[i].name;
            }
        }
        expect_without(path, names, count, NULL);
    }
}

int main(void) {
    const char *folder = getenv("HCQ_TEST_CUDA_MOCK");
    char path[512];
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder ? folder : ".");
    const int has_mock = access(path, R_OK) == 0;
    libraries_of_no_use();
    if (has_mock) {
        expect("the mock as it is", path, NULL);
        needed_functions(path);
        optional_functions(path);
    }
    printf("%u of %u machines fail\n", (unsigned)failures, (unsigned)checks);
    if (failures == 0 && !has_mock) { printf("no mock: %s\n", path); }
    return failures != 0 ? 1 : has_mock ? 0 : 77;
}
