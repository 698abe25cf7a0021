/* util.h - what the behavioural tests share: variants, checks that explain
   themselves, a logger that remembers. Test programs include it first; it brings
   hcq.h with its implementation. */
#pragma once

/* Under -std=c11 the tests need POSIX by name, also where HCQ_TEST_HEADER brings
   only declarations. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef HCQ_IMPLEMENTATION
#define HCQ_IMPLEMENTATION
#endif
#ifndef HCQ_CPU
#define HCQ_CPU
#endif
#if defined(HCQ_TEST_VULKAN) && !defined(HCQ_VULKAN)
#define HCQ_VULKAN
#endif
#if defined(HCQ_TEST_CUDA) && !defined(HCQ_CUDA)
#define HCQ_CUDA
#endif
#ifdef HCQ_TEST_VULKAN
#include "mocks/vulkan_loader.h"
#endif
#ifdef HCQ_TEST_CUDA
extern const char *test_cuda_library;  /* the variant's */
#define HCQ_CUDA_LIBRARY test_cuda_library
#endif
#ifdef HCQ_TEST_HEADER
#include HCQ_TEST_HEADER
#else
#include "../../hcq.h"
#endif
#include "shared.k"
#if defined(__has_include)
#if __has_include("shared.k.h")        /* else the host's alone */
#include "shared.k.h"
#endif
#endif

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define TEST_UNUSED __attribute__((unused))
#include "chance.h"
#include "mocks/mock.h"
#ifdef HCQ_TEST_VULKAN
#include "mocks/vulkan.h"
#endif
#ifdef HCQ_TEST_CUDA
#include "mocks/cuda.h"
#include "mocks/cuda_variants.h"
#endif
#define HCQ_EXAMPLE_NO_MAIN
#include "../../examples/backend.c"       /* TRACE, around CPU or MOCK */

#define SECOND 1000000000ull
#ifndef TEST_BOUND_S
#define TEST_BOUND_S 60
#endif
#define BOUND (TEST_BOUND_S * SECOND)  /* of every wait in the tests: none is that slow */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif
#include "util_resources.h"
#include "util_hooks.h"

/* ---- variants ---- */

typedef struct test_variant {
    const char *name;
    const char *backend;
    const char *inner;                 /* whom TRACE passes its calls on to */
    uint32_t cpu_flags;
    uint32_t vulkan_flags;
    uint32_t cuda_flags;
    hcq_device_test test;
    uint64_t spin_ns;
    uint32_t staging_bytes;            /* small, so that copies need several */
    int one_fifo;                      /* compute and copy never overlap */
    int narrow;                        /* counters are swapped often */
    int mapped;                        /* mock: devices see each other's memory */
    int seeded;                        /* no threads, and the order of the test's seed */
    const struct mock_vk_desc *driver; /* the mock in place of the system's Vulkan ... */
    const struct mock_cuda_desc *cuda; /* ... and CUDA; of this driver version */
    const char *cuda_version;
} test_variant;

static const test_variant test_variants[] = {
    {.name = "cpu", .backend = "CPU"},
    {.name = "cpu-one-engine", .backend = "CPU", .cpu_flags = HCQ_CPU_ONE_ENGINE, .one_fifo = 1},
    {.name = "cpu-no-copy", .backend = "CPU", .test.no_copy_lane = 1,
     .one_fifo = 1},
    {.name = "cpu-narrow", .backend = "CPU", .test.counter_limit = 16, .narrow = 1},
    {.name = "cpu-nospin", .backend = "CPU", .spin_ns = HCQ_NEVER},
    {.name = "cpu-no-native-wait", .backend = "CPU", .test.no_native_wait = 1},
    {.name = "cpu-seeded", .backend = "CPU", .seeded = 1},
    {.name = "mock", .backend = "MOCK", .one_fifo = 1, .narrow = 1},
    {.name = "mock-map", .backend = "MOCK", .one_fifo = 1, .narrow = 1, .mapped = 1},
    {.name = "mock-no-copy", .backend = "MOCK", .test.no_copy_lane = 1,
     .one_fifo = 1, .narrow = 1},
    {.name = "trace", .backend = "TRACE", .inner = "CPU"},
    {.name = "trace-mock", .backend = "TRACE", .inner = "MOCK", .one_fifo = 1, .narrow = 1},
#ifdef HCQ_TEST_VULKAN
    /* one_fifo is found out when the program starts. */
    {.name = "vulkan", .backend = "VULKAN"},
    {.name = "vulkan-staged", .backend = "VULKAN", .vulkan_flags = HCQ_VULKAN_STAGED,
     .staging_bytes = 65536},
    {.name = "vulkan-plain", .backend = "VULKAN",
     .vulkan_flags = HCQ_VULKAN_NO_SYNC2 | HCQ_VULKAN_NO_IMPORT | HCQ_VULKAN_NO_CALIBRATION |
                     HCQ_VULKAN_NO_LATE_BINDING},
    {.name = "vulkan-no-copy", .backend = "VULKAN", .test.no_copy_lane = 1,
     .one_fifo = 1},
    {.name = "vulkan-narrow", .backend = "VULKAN", .test.counter_limit = 16, .narrow = 1},
    MOCK_VK_VARIANTS
#endif
#ifdef HCQ_TEST_CUDA
    {.name = "cuda", .backend = "CUDA"},
    {.name = "cuda-events", .backend = "CUDA", .cuda_flags = HCQ_CUDA_EVENTS},
    {.name = "cuda-lists", .backend = "CUDA", .cuda_flags = HCQ_CUDA_NO_GRAPHS},
    {.name = "cuda-narrow", .backend = "CUDA", .test.counter_limit = 16, .narrow = 1},
    MOCK_CUDA_VARIANTS
#endif
};

/* ---- a logger that remembers ---- */

typedef struct test_log {
    pthread_mutex_t lock;
    char text[32768];
    size_t used;
    uint32_t lines;
    uint32_t validation;               /* of them of Vulkan's layer */
#ifdef HCQ_CHECK
    uint32_t possible, races;          /* findings that count nowhere; lines of those that do */
#endif
} test_log;

#ifdef HCQ_CHECK
static int test_is_of_a_race(const char *text) {
    return strstr(text, "race: ") != NULL || strstr(text, ": in order: ") != NULL ||
           strstr(text, ": to add: ") != NULL;
}
#endif

static void test_log_line(void *user, hcq_result result, const char *text) {
    test_log *log = (test_log *)user;
    pthread_mutex_lock(&log->lock);
#ifdef HCQ_CHECK
    log->possible += result == HCQ_OK && strstr(text, ": possible race: ") != NULL;
    if (result == HCQ_OK && test_is_of_a_race(text)) { /* what nobody stated, nobody tests */
        pthread_mutex_unlock(&log->lock);
        return;
    }
    log->races += result == HCQ_ERROR_RACE;
#endif
    log->lines++;
    log->validation += strstr(text, "validation: ") != NULL;
    if (sizeof log->text - log->used < strlen(text) + 64) {
        log->used = 0;
    }
    int n = snprintf(log->text + log->used, sizeof log->text - log->used, "%s: %s\n",
                     hcq_result_name(result), text);
    log->used += n > 0 ? (size_t)n : 0;
    pthread_mutex_unlock(&log->lock);
}

/* ---- the state of a test program ---- */

static struct {
    const test_variant *variant;
    int variant_given;
    uint64_t seed;
    uint32_t rounds;                   /* 0 = the program's default */
    int quick;
    const char *library;               /* of a kernel, for tests of program_create */
    hcq_device *dev, *dev2;            /* opened by test_setup, and by dev2() */
    test_memory memory;
    test_log log;
    const char *running;
    uint64_t trace_left, cuda_left;    /* before the test */
    test_resources resources;          /* likewise */
    int warm;                          /* a device was open before the first test */
    int hardware;                      /* a driver of a GPU's that is here */
    int races_meant;                   /* by this test, where HCQ_CHECK tells them */
    int skipped;
    uint64_t began_ns, open_ns;        /* the test; the longest opening in it */
} T = {.log = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* The backend that does the work. */
static TEST_UNUSED const char *test_worker(void) {
    return T.variant->inner ? T.variant->inner : T.variant->backend;
}

static TEST_UNUSED int is_cpu(void) { return strcmp(test_worker(), "CPU") == 0; }
static TEST_UNUSED int is_mock(void) { return strcmp(test_worker(), "MOCK") == 0; }
static TEST_UNUSED int is_vulkan(void) { return strcmp(test_worker(), "VULKAN") == 0; }
static TEST_UNUSED int is_cuda(void) { return strcmp(test_worker(), "CUDA") == 0; }
static TEST_UNUSED int is_gpu(void) { return is_vulkan() || is_cuda(); }

static TEST_UNUSED void log_clear(void) {
    pthread_mutex_lock(&T.log.lock);
    T.log.used = 0;
    T.log.text[0] = 0;
    T.log.lines = 0;
    pthread_mutex_unlock(&T.log.lock);
}

static TEST_UNUSED int log_has(const char *text) {
    pthread_mutex_lock(&T.log.lock);
    int found = T.log.used && strstr(T.log.text, text) != NULL;
    pthread_mutex_unlock(&T.log.lock);
    return found;
}

static void test_dump_device(const char *what, hcq_device *device) {
    static char text[65536];
    if (device) {
        hcq_device_dump(device, text, sizeof text);
        fprintf(stderr, "---- %s ----\n%s", what, text);
    }
}

static void test_dump(void) {
    fprintf(stderr, "---- variant %s, seed %llu, log ----\n%s", T.variant->name,
            (unsigned long long)T.seed, T.log.used ? T.log.text : "");
    test_dump_device("first device", T.dev);
    test_dump_device("second device", T.dev2);
    if (T.variant->inner) {
        trace_print(stderr, 50);
        trace_print_sums(stderr);
    }
    fflush(stderr);
}

/* ---- checks ---- */

__attribute__((format(printf, 3, 4))) static void test_fail(const char *file, int line,
                                                            const char *format, ...) {
    va_list list;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    test_dump();
    _fail(file, line);
}

static TEST_UNUSED void test_result(const char *file, int line, const char *what,
                                    hcq_result got, hcq_result want) {
    if (got != want) {
        test_fail(file, line, "%s gives %s, not %s", what, hcq_result_name(got),
                  hcq_result_name(want));
    }
}

static TEST_UNUSED void test_number(const char *file, int line, const char *what, uint64_t got,
                                    uint64_t want) {
    if (got != want) {
        test_fail(file, line, "%s is %llu (%#llx), not %llu (%#llx)", what,
                  (unsigned long long)got, (unsigned long long)got, (unsigned long long)want,
                  (unsigned long long)want);
    }
}

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            test_fail(__FILE__, __LINE__, "not so: %s", #condition); \
        } \
    } while (0)
#define CHECK_RESULT(call, want) test_result(__FILE__, __LINE__, #call, (call), (want))
#define CHECK_OK(call) test_result(__FILE__, __LINE__, #call, (call), HCQ_OK)
#define CHECK_U64(got, want) \
    test_number(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(want))
/* A recording call and the command index it must give; negative: its result. */
#define CHECK_INDEX(call, want) test_result(__FILE__, __LINE__, #call, \
                                            (hcq_result)(call), (hcq_result)(want))
#define SKIP(reason) \
    do { \
        fprintf(stderr, "SKIP %s on %s: %s\n", __func__, T.variant->name, reason); \
        T.skipped = 1; \
        skip(); \
    } while (0)
#ifdef HCQ_CHECK
#define TEST_CHECKED 1                 /* the checker has memory and time of its own */
#else
#define TEST_CHECKED 0
#endif

#define SKIP_IF(condition, reason) \
    do { \
        if (condition) { \
            SKIP(reason); \
        } \
    } while (0)

/* Devices without threads have none for the host's own, nor for kernels that wait for it:
   tests that need those are named in conformance/seeded.h. */
static TEST_UNUSED void test_needs_threads(void) {
    if (T.variant->seeded) {
        test_fail(__FILE__, __LINE__, "the test needs threads: name it in seeded.h");
    }
}

static TEST_UNUSED int test_thread(pthread_t *thread, const pthread_attr_t *attributes,
                                   void *(*run)(void *), void *user) {
    test_needs_threads();
    return pthread_create(thread, attributes, run, user);
}
#ifndef pthread_create                 /* of a test that has its own */
#define pthread_create test_thread
#endif

/* While something is awaited without a call of hcq's: it gets on, or time goes by. */
static TEST_UNUSED void test_sleep(long ns) {
    if (T.variant->seeded && !hcq_cpu_step() && T.dev != NULL) {
        hcq_point never = hcq_at(hcq_device_timeline(T.dev), INT64_MAX);
        (void)hcq_wait(&never, 1, HCQ_ALL, (uint64_t)ns);
    } else if (!T.variant->seeded) {
        mock_sleep(ns);
    }
}
#define mock_sleep(ns) test_sleep(ns)

static void (*test_seeded_fn)(void);   /* before tests on devices without threads */

/* TEST(name) {...} is a test, and runs in its place in the program's text. Its name travels
   as the initial state, for one that hangs. */
static struct CMUnitTest test_list[600];
static uint32_t test_count;

#define TEST_ARGS void **state TEST_UNUSED /* what cmocka hands over, and no test needs */
#define TEST_WITH(name, setup, teardown) \
    static void name(TEST_ARGS); \
    __attribute__((constructor)) static void name##_is_a_test(void) { \
        const struct CMUnitTest own = {#name, name, setup, teardown, (void *)(uintptr_t)#name}; \
        test_list[test_count++] = own; \
    } \
    static void name(TEST_ARGS)
#define TEST(name) TEST_WITH(name, test_setup, test_teardown)
#define TEST_BARE(name) TEST_WITH(name, NULL, NULL)
static TEST_UNUSED int test_setup(void **state), test_teardown(void **state);

/* ---- small helpers; the checks in them name the caller's line ---- */

static TEST_UNUSED void test_reached(const char *file, int line, hcq_point point,
                                     hcq_result want) {
    test_result(file, line, "hcq_wait(point)", hcq_wait(&point, 1, HCQ_ALL, BOUND), want);
}
#define WAIT_OK(point) test_reached(__FILE__, __LINE__, (point), HCQ_OK)
#define WAIT_RESULT(point, want) test_reached(__FILE__, __LINE__, (point), (want))

static TEST_UNUSED hcq_result test_poll(hcq_point point) {
    return hcq_wait(&point, 1, HCQ_ALL, 0);
}

static TEST_UNUSED void test_bytes(const char *file, int line, hcq_buffer buffer,
                                   const void *want, size_t size) {
    unsigned char *got = (unsigned char *)malloc(size);
    test_result(file, line, "hcq_copyout", hcq_copyout(got, buffer, size), HCQ_OK);
    for (size_t i = 0; i < size; i++) {
        if (got[i] != ((const unsigned char *)want)[i]) {
            test_fail(file, line, "byte %zu of %zu is %#x, not %#x", i, size, got[i],
                      ((const unsigned char *)want)[i]);
        }
    }
    free(got);
}
#define CHECK_BYTES(buffer, want, size) test_bytes(__FILE__, __LINE__, (buffer), (want), (size))

static TEST_UNUSED uint32_t test_read32(const char *file, int line, hcq_buffer buffer,
                                        uint64_t index) {
    uint32_t value = 0;
    test_result(file, line, "hcq_copyout",
                hcq_copyout(&value, hcq_view(buffer, index * 4, 4), 4), HCQ_OK);
    return value;
}
#define READ32(buffer, index) test_read32(__FILE__, __LINE__, (buffer), (index))

static TEST_UNUSED hcq_device_info test_info(hcq_device *device) {
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(device, &info));
    return info;
}

static TEST_UNUSED uint64_t test_query(hcq_device *device, uint32_t key) {
    uint64_t value = 0;
    CHECK_OK(hcq_device_query(device, key, &value));
    return value;
}

/* Long loops call it: a word now and then, for whoever ends what says nothing. */
static TEST_UNUSED void test_alive(void) {
    static uint64_t last;
    uint64_t now = hcq_now_ns();
    if (last == 0) { last = now; }
    if (now - last > 20 * SECOND) {
        fprintf(stderr, "...\n");
        last = now;
    }
}

static TEST_UNUSED void test_sleep_ms(uint32_t ms) {
    for (uint32_t i = 0; i < ms; i++) {
        mock_sleep(1000000);
    }
}

/* A thread for each of the users, which lie `size` bytes apart; one is here. */
static TEST_UNUSED void run_threads(void *(*run)(void *), void *users, size_t size,
                                    uint32_t count) {
    pthread_t threads[8];
    for (uint32_t i = 1; i < count; i++) {
        pthread_create(&threads[i], NULL, run, (char *)users + i * size);
    }
    run(users);
    for (uint32_t i = 1; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

#include "util_gpu.h"

/* ---- devices ---- */

static struct hcq_cpu_desc test_cpu_desc;
static mock_desc test_mock_desc;
#ifdef HCQ_TEST_VULKAN
static struct hcq_vulkan_desc test_vulkan_desc;
#endif
#ifdef HCQ_TEST_CUDA
static struct hcq_cuda_desc test_cuda_desc;
#endif

static hcq_device_test test_forced;

/* A description in the variant's way where it says nothing. */
static hcq_device_desc test_desc_of(hcq_device_desc desc) {
    const hcq_memory_hooks hooks = {test_hook_alloc, test_hook_free, &T.memory};
    desc.memory = desc.memory.alloc_fn ? desc.memory : hooks;
    desc.log_user = desc.log_fn ? desc.log_user : &T.log;
    desc.log_fn = desc.log_fn ? desc.log_fn : test_log_line;
    desc.test = &test_forced;
#ifdef HCQ_CHECK
    desc.flags |= HCQ_DEVICE_CHECK;
#endif
    desc.spin_ns = T.variant->spin_ns;
    desc.staging_bytes = desc.staging_bytes ? desc.staging_bytes : T.variant->staging_bytes;
    memset(&test_cpu_desc, 0, sizeof test_cpu_desc);
    memset(&test_mock_desc, 0, sizeof test_mock_desc);
    test_forced = T.variant->test;
    test_cpu_desc.flags = T.variant->cpu_flags;
    test_cpu_desc.seed = T.variant->seeded ? T.seed : 0;
    test_mock_desc.map = T.variant->mapped;
    desc.cpu = is_cpu() ? &test_cpu_desc : NULL;
    desc.backend_desc = is_mock() ? &test_mock_desc : NULL;
#ifdef HCQ_TEST_VULKAN
    test_vulkan_desc = (struct hcq_vulkan_desc){.flags = T.variant->vulkan_flags};
    test_vulkan_desc.flags |= test_vk.validates ? HCQ_VULKAN_VALIDATION : 0;
    desc.vulkan = &test_vulkan_desc;
#endif
#ifdef HCQ_TEST_CUDA
    test_cuda_desc = (struct hcq_cuda_desc){.flags = T.variant->cuda_flags};
    desc.cuda = &test_cuda_desc;
#endif
    return desc;
}

/* A test may change it, what is forced and the backends' parts, before test_open. */
static TEST_UNUSED hcq_device_desc test_desc(void) {
    return test_desc_of((hcq_device_desc){0});
}

/* Which device stands for number `ordinal`: where there are fewer, one again. */
static TEST_UNUSED uint32_t test_ordinal(uint32_t ordinal) {
#ifdef HCQ_TEST_VULKAN
    ordinal %= is_vulkan() ? test_vk.devices : UINT32_MAX;
#endif
#ifdef HCQ_TEST_CUDA
    ordinal %= is_cuda() ? test_cu.devices : UINT32_MAX;
#endif
    return ordinal;
}

static TEST_UNUSED hcq_device *test_open(uint32_t ordinal, const hcq_device_desc *desc) {
    hcq_device_desc own = desc ? *desc : test_desc();
    hcq_device *device = NULL;
    char name[32];
    ordinal = test_ordinal(ordinal);
    snprintf(name, sizeof name, ordinal ? "%s:%u" : "%s", T.variant->backend, ordinal);
    uint64_t began = hcq_now_ns();
    CHECK_OK(hcq_open(name, &own, &device));
    began = hcq_now_ns() - began;
    T.open_ns = began > T.open_ns ? began : T.open_ns;
    return device;
}

static TEST_UNUSED hcq_device *test_open_with(uint32_t ordinal, hcq_device_desc set) {
    set = test_desc_of(set);
    return test_open(ordinal, &set);
}
#define OPEN_WITH(ordinal, ...) test_open_with((ordinal), (hcq_device_desc){__VA_ARGS__})

/* A test's second device, which most do without. */
static TEST_UNUSED hcq_device *dev2(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    T.dev2 = T.dev2 ? T.dev2 : test_open(1, NULL);
    hcq_device *device = T.dev2;
    pthread_mutex_unlock(&lock);
    return device;
}

static TEST_UNUSED void synchronize_both(void) {
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_device_synchronize(dev2(), BOUND));
}

/* How far clocks may claim to be off, by what the test saw itself: they were read
   together in a call that took `call_ns`, or while a device was opened, and have
   drifted apart by 100 millionths since. */
static TEST_UNUSED uint64_t test_clock_bound(uint64_t call_ns) {
    uint64_t longest = call_ns > T.open_ns ? call_ns : T.open_ns;
    return longest + 1000 + (hcq_now_ns() - T.began_ns) / 10000;
}

/* Reads both clocks, and holds the reading against the host's. */
static TEST_UNUSED hcq_clock test_clock(const char *file, int line, hcq_device *device) {
    hcq_clock clock;
    uint64_t before = hcq_now_ns();
    test_result(file, line, "hcq_device_clock", hcq_device_clock(device, &clock), HCQ_OK);
    uint64_t after = hcq_now_ns();
    if (clock.error_ns > test_clock_bound(after - before) ||
        clock.host_ns + clock.error_ns < before || clock.host_ns > after + clock.error_ns) {
        test_fail(file, line, "read between %llu and %llu, opened in %llu: %llu, error %llu",
                  (unsigned long long)before, (unsigned long long)after,
                  (unsigned long long)T.open_ns, (unsigned long long)clock.host_ns,
                  (unsigned long long)clock.error_ns);
    }
    return clock;
}
#define CLOCK_OF(device) test_clock(__FILE__, __LINE__, (device))

static void test_alarm(int number) {
    (void)number;
    (void)!write(2, "\nthe test hangs: ", 17);
    (void)!write(2, T.running, T.running ? strlen(T.running) : 0);
    (void)!write(2, "\n", 1);
    abort();
}

/* What is ours alone here. */
static test_rules test_counted(void) {
    test_rules rules = {test_heap_is_bare() && !T.skipped && (!is_gpu() || T.variant->driver),
                        is_cuda(),     /* whose mock keeps caches, too */
                        !T.hardware};
    return rules;
}

/* What stays once it was used is there before the first count. */
static void test_warm_up(void) {
    static hcq_driver *kept;           /* the system's Vulkan loads layers for each instance */
    T.warm = 1;
    if (strncmp(T.variant->name, "vulkan", 6) == 0) {
        (void)hcq_driver_create(NULL, "VULKAN", &kept);
    }
    hcq_device *first = test_open(0, NULL);
    T.hardware = is_gpu() && !T.variant->driver && !T.variant->cuda &&
                 !strstr(test_info(first).name, "llvmpipe");
    (void)hcq_close(first);
    for (int i = 0; T.library && i < 2; i++) { /* glibc has two tables, and the last error */
        void *library = dlopen(T.library, RTLD_NOW);
        if (library) {
            dlclose(library);
        }
        (void)dlopen("./no-such-library.so", RTLD_NOW);
    }
    if (is_cuda()) {                   /* brought by NVRTC, and never unloaded */
        (void)dlopen("libstdc++.so.6", RTLD_NOW);
        (void)dlopen("librt.so.1", RTLD_NOW);
    }
    if (!test_entries("/proc/self/fd", 0)) {
        fprintf(stderr, "no /proc: files, threads and mappings are not counted\n");
    }
    if (!test_counted().heap) {
        fprintf(stderr, "heap is not counted: a sanitizer, a system's driver, or no "
                        "GLIBC_TUNABLES=%s\n", TEST_TUNABLES);
    }
}

/* Devices are opened fresh for each test: none lives on another one's leftovers. */
static TEST_UNUSED int test_setup(void **state) {
    T.running = (const char *)*state;
    memset(&T.memory, 0, sizeof T.memory);
    T.began_ns = hcq_now_ns();
    T.open_ns = 0;
    log_clear();
    signal(SIGALRM, test_alarm);
    alarm(T.quick ? 300 : 900);
    if (!T.warm) {
        test_warm_up();
    }
    T.skipped = 0;
    T.resources = test_resources_now(test_counted());
    T.trace_left = trace_left();
    T.log.validation = 0;
#ifdef HCQ_TEST_VULKAN
    test_vk.messages = 0;
#endif
#ifdef HCQ_TEST_CUDA
    T.cuda_left = cuda_left();
#endif
    T.dev = test_open(0, NULL);
    return 0;
}

/* Something that there was a number of before the test; 1: now it is another one. */
static int test_left(const char *what, uint64_t now, uint64_t before) {
    if (now != before) {
        fprintf(stderr, "teardown: %s: %llu, before the test %llu\n", what,
                (unsigned long long)now, (unsigned long long)before);
        test_dump();
    }
    return now != before;
}

/* Closing must succeed and give everything back, whatever the test did. */
static TEST_UNUSED int test_teardown(void **state) {
    (void)state;
    hcq_result first = hcq_close(T.dev);
    hcq_result second = T.dev2 ? hcq_close(T.dev2) : HCQ_OK;
    T.dev = T.dev2 = NULL;
    alarm(0);
    if (first != HCQ_OK || second != HCQ_OK) {
        fprintf(stderr, "teardown: close gives %s and %s\n", hcq_result_name(first),
                hcq_result_name(second));
        test_dump();
        return -1;
    }
    int left = test_left("blocks of memory", T.memory.blocks, 0);
    left |= test_left("objects of the traced backend", trace_left(), T.trace_left);
#ifdef HCQ_CHECK
    left |= !T.races_meant && test_left("lines about races", T.log.races, 0);
    T.log.races = 0;
    T.races_meant = 0;
#endif
#ifdef HCQ_TEST_VULKAN
    left |= test_left("messages of the validation layer", test_vk.messages, 0);
    left |= test_left("of them in the log", T.log.validation, 0); /* closing's are only there */
#endif
#ifdef HCQ_TEST_CUDA
    left |= test_left("objects of the CUDA driver", cuda_left_after(T.cuda_left), T.cuda_left);
#endif
    return left || (T.warm && test_resources_left(&T.resources, test_counted())) ? -1 : 0;
}

/* ---- the command line: VARIANT [--seed N] [--rounds N] [--quick] ... ---- */

static TEST_UNUSED const test_variant *test_find_variant(const char *name) {
    for (size_t i = 0; i < sizeof test_variants / sizeof test_variants[0]; i++) {
        if (strcmp(test_variants[i].name, name) == 0) {
            return &test_variants[i];
        }
    }
    return NULL;
}

static int test_usage(const char *program) {
    fprintf(stderr, "usage: %s [VARIANT] [SEED] [--quick] [--seed N] [--rounds N] [--library PATH] "
            "[--filter NAME]\nvariants:", program);
    for (size_t i = 0; i < sizeof test_variants / sizeof test_variants[0]; i++) {
        fprintf(stderr, " %s", test_variants[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}

/* Finds out what a Vulkan variant runs on; 0 = go on, 77 = there is nothing. */
static int test_start_vulkan(void) {
#ifdef HCQ_TEST_VULKAN
    static test_variant own;
    if (is_vulkan()) {
        if (T.variant->driver) {
            mock_vk_options = *T.variant->driver;
        }
        if (!vulkan_look()) {
            return 77;
        }
        own = *T.variant;
        own.one_fifo |= test_vk.one_fifo;
        T.variant = &own;
    }
#endif
    return 0;
}

/* The same for CUDA. */
static int test_start_cuda(void) {
#ifdef HCQ_TEST_CUDA
    if (is_cuda() && !cuda_look()) {
        return 77;
    }
#endif
    return 0;
}

static int test_option(const char *name, const char *value) {
    if (strcmp(name, "--seed") == 0) {
        T.seed = strtoull(value, NULL, 0);
    } else if (strcmp(name, "--rounds") == 0) {
        T.rounds = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(name, "--library") == 0) {
        T.library = value;
    } else if (strcmp(name, "--filter") == 0) {
        cmocka_set_test_filter(value);
    } else {
        return 0;
    }
    return 1;
}

/* Reads the arguments, registers the mock and TRACE; 0 = go on. */
static TEST_UNUSED int test_start(int argc, char **argv) {
    T.seed = 1;
    T.variant = &test_variants[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            T.quick = 1;
        } else if (argv[i][0] >= '0' && argv[i][0] <= '9') {
            T.seed = strtoull(argv[i], NULL, 0);
        } else if (test_find_variant(argv[i])) {
            T.variant = test_find_variant(argv[i]);
            T.variant_given = 1;
        } else if (i + 1 == argc || !test_option(argv[i], argv[i + 1])) {
            return test_usage(argv[0]);
        } else {
            i++;
        }
    }
    (void)trace_unregister;            /* no test ends what all its devices need */
    if (mock_register() != HCQ_OK ||
        (T.variant->inner && trace_register(T.variant->inner) != HCQ_OK)) {
        fprintf(stderr, "the mock or TRACE cannot be registered\n");
        return 1;
    }
    fprintf(stderr, "variant %s, seed %llu%s\n", T.variant->name, (unsigned long long)T.seed,
            T.quick ? ", quick" : "");
    int result = test_start_vulkan();
    return result != 0 ? result : test_start_cuda();
}

static TEST_UNUSED int test_run(void) {
    return _cmocka_run_group_tests(T.variant->name, test_list, test_count, NULL, NULL);
}

static TEST_UNUSED int test_main(int argc, char **argv) {
    int result = test_start(argc, argv);
    if (result == 0 && T.variant->seeded && test_seeded_fn != NULL) {
        test_seeded_fn();
    }
    return result != 0 ? result : test_run();
}

#include "util_make.h"
