/* vulkan_base.h - the mock of Vulkan: checks, counters, failures on demand, objects. */
#pragma once

#include "../support/chance.h"
#include "vulkan_options.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A function of Vulkan's; not all that it is given means something here. */
#define MOCK_VK_API(type, name, ...) static type mock_vk##name(__VA_ARGS__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* ---- checks ---- */

/* The entry point that this thread is in, for messages. */
static _Thread_local const char *mock_vk_where = "";

static char mock_vk_said[512];         /* before it aborts */

/* Where not so, something that Vulkan forbids: nothing after it means anything. */
__attribute__((format(printf, 2, 3)))
static void mock_vk_check(int condition, const char *format, ...) {
    va_list list;
    if (condition) {
        return;
    }
    va_start(list, format);
    vsnprintf(mock_vk_said, sizeof mock_vk_said, format, list);
    va_end(list);
    fprintf(stderr, "\nVKMOCK: %s: %s\n", mock_vk_where, mock_vk_said);
    fflush(stderr);
    abort();
}

static unsigned long long mock_vk_u(uint64_t value) { return value; }

/* The structure of a type in a chain, or NULL. */
static const void *mock_vk_chained(const void *next, VkStructureType type) {
    const VkBaseInStructure *s = next;
    while (s && s->sType != type) {
        s = s->pNext;
    }
    return s;
}

/* ---- time ---- */

static uint64_t mock_vk_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- counters ---- */

#define MOCK_VK_KINDS(X)                                                           \
    X(INSTANCE, "instance") X(PHYSICAL, "physical device") X(DEVICE, "device")     \
    X(QUEUE, "queue") X(SEMAPHORE, "semaphore") X(MEMORY, "memory") X(BUFFER, "buffer") \
    X(COMMAND_POOL, "command pool") X(COMMAND_BUFFER, "command buffer")            \
    X(QUERY_POOL, "query pool") X(MODULE, "shader module")                         \
    X(SET_LAYOUT, "descriptor set layout") X(PIPELINE_LAYOUT, "pipeline layout")   \
    X(PIPELINE, "pipeline") X(PIPELINE_CACHE, "pipeline cache")                    \
    X(DESCRIPTOR_POOL, "descriptor pool") X(DESCRIPTOR_SET, "descriptor set")

#define MOCK_VK_KIND_ENUM(name, text) MOCK_VK_KIND_##name,
typedef enum mock_vk_kind { MOCK_VK_KINDS(MOCK_VK_KIND_ENUM) MOCK_VK_KIND_COUNT } mock_vk_kind;

#define MOCK_VK_KIND_NAME(name, text) text,
static const char *const mock_vk_kind_names[] = {MOCK_VK_KINDS(MOCK_VK_KIND_NAME)};

typedef struct mock_vk_stats {
    uint64_t live[MOCK_VK_KIND_COUNT]; /* not changed by mock_vk_clear */
    uint64_t buffers;                  /* command buffers executed */
    uint64_t dispatches;
    uint64_t filled_caches;            /* pipeline caches that begin with something */
    uint64_t failed;                   /* calls that mock_vk_fail made fail */
} mock_vk_stats;

static mock_vk_stats mock_vk_counters; /* atomic */

static void mock_vk_count(uint64_t *counter, uint64_t n) {
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static uint64_t mock_vk_peek(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Is it this name? A "*" at the end stands for any rest: "vkQueueSubmit*". */
static int mock_vk_matches(const char *pattern, const char *name) {
    size_t n = strcspn(pattern, "*");
    return strncmp(pattern, name, n) == 0 && (pattern[n] == '*' || name[n] == 0);
}

/* ---- failures on demand ---- */

static pthread_mutex_t mock_vk_lock = PTHREAD_MUTEX_INITIALIZER; /* instances, kernels ... */
static struct {
    uint64_t count;                    /* calls that will fail; atomic */
    uint64_t skip;                     /* calls before those */
    const char *pattern;
    VkResult result;
} mock_vk_failure;
static uint64_t mock_vk_buffers_left;  /* command buffers until a device is lost, atomic */

/* Makes the `at`-th call from now (1 = the next) of what matches and the count - 1
   after it give `result`. VK_ERROR_DEVICE_LOST, of a submit or a wait, loses the
   device. */
static TEST_UNUSED void mock_vk_fail(const char *pattern, uint64_t at, uint64_t count,
                                     VkResult result) {
    pthread_mutex_lock(&mock_vk_lock);
    mock_vk_failure.pattern = pattern;
    mock_vk_failure.skip = at - 1;
    mock_vk_failure.result = result;
    __atomic_store_n(&mock_vk_failure.count, count, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&mock_vk_lock);
}

/* The `at`-th command buffer executed from now on loses its device halfway. */
static TEST_UNUSED void mock_vk_lose(uint64_t at) {
    __atomic_store_n(&mock_vk_buffers_left, at, __ATOMIC_RELAXED);
}

/* Forgets failures, and counters but for those of what lives. */
static TEST_UNUSED void mock_vk_clear(void) {
    uint64_t *words = (uint64_t *)(void *)&mock_vk_counters;
    for (size_t i = offsetof(mock_vk_stats, buffers) / sizeof *words;
         i < sizeof mock_vk_counters / sizeof *words; i++) {
        __atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
    }
    mock_vk_lose(0);
    mock_vk_fail("", 1, 0, VK_SUCCESS);
}

static VkResult mock_vk_injected(mock_vk_entry entry) {
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&mock_vk_lock);
    if (mock_vk_failure.count && mock_vk_matches(mock_vk_failure.pattern, mock_vk_names[entry])) {
        if (mock_vk_failure.skip) {
            mock_vk_failure.skip--;
        } else {
            __atomic_sub_fetch(&mock_vk_failure.count, 1, __ATOMIC_RELAXED);
            mock_vk_count(&mock_vk_counters.failed, 1);
            result = mock_vk_failure.result;
        }
    }
    pthread_mutex_unlock(&mock_vk_lock);
    return result;
}

/* Every entry point begins with this; what it returns is for those that can fail. */
static VkResult mock_vk_enter(mock_vk_entry entry) {
    mock_vk_where = mock_vk_names[entry];
    return mock_vk_peek(&mock_vk_failure.count) ? mock_vk_injected(entry) : VK_SUCCESS;
}

/* Returns what is no success. */
#define MOCK_VK_TRY(result) \
    do { \
        if ((result) != VK_SUCCESS) { \
            return result; \
        } \
    } while (0)

/* ---- objects ---- */

/* What every handle points to. The memory of an object of a device is kept until
   the device goes, so that a stale handle is noticed and not followed. */
typedef struct mock_vk_object {
    uint32_t magic;
    uint32_t alive;                    /* atomic */
    mock_vk_kind kind;
    uint32_t pending;                  /* uses by batches, under the device's lock */
    struct mock_vk_object *next;       /* of the device's list */
    struct mock_vk_device *device;
    struct mock_vk_object *pool;       /* with which it goes, or NULL */
    struct mock_vk_object *members, *sibling; /* of a pool */
    void (*close)(struct mock_vk_object *o); /* gives back what it has, or NULL */
    unsigned number;                   /* among all objects */
    uintptr_t inside;                  /* thread that uses it alone, atomic */
    uint64_t touched;                  /* plain on purpose: ThreadSanitizer watches it */
} mock_vk_object;

#define MOCK_VK_MAGIC 0x6d6b7600u

static void mock_vk_init(mock_vk_object *o, mock_vk_kind kind, struct mock_vk_device *device) {
    static unsigned numbers;
    o->magic = MOCK_VK_MAGIC + (uint32_t)kind;
    o->kind = kind;
    o->device = device;
    o->number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&o->alive, 1, __ATOMIC_RELAXED);
    mock_vk_count(&mock_vk_counters.live[kind], 1);
}

static int mock_vk_lives(const mock_vk_object *o) {
    return __atomic_load_n(&o->alive, __ATOMIC_RELAXED) != 0;
}

static void mock_vk_die(mock_vk_object *o) {
    __atomic_store_n(&o->alive, 0, __ATOMIC_RELAXED);
    mock_vk_count(&mock_vk_counters.live[o->kind], UINT64_MAX);
}

/* The object behind a handle, checked. `device` NULL: of any. */
static void *mock_vk_object_of(uintptr_t handle, mock_vk_kind kind,
                               const struct mock_vk_device *device) {
    mock_vk_object *o = (mock_vk_object *)handle;
    const char *name = mock_vk_kind_names[kind];
    mock_vk_check(o != NULL, "a %s is VK_NULL_HANDLE", name);
    mock_vk_check(o->magic == MOCK_VK_MAGIC + (uint32_t)kind, "this is no %s: %p", name, (void *)o);
    mock_vk_check(mock_vk_lives(o), "%s #%u was destroyed", name, o->number);
    mock_vk_check(!device || o->device == device, "%s #%u is of another device", name, o->number);
    return o;
}

#define MOCK_VK_OBJECT(type, handle, kind, device) \
    ((type *)mock_vk_object_of((uintptr_t)(handle), MOCK_VK_KIND_##kind, device))

/* Around calls that nobody else may make for the same object meanwhile. */
static void mock_vk_inside(mock_vk_object *o, uint32_t linger) {
    static _Thread_local char thread;
    uintptr_t other = __atomic_exchange_n(&o->inside, (uintptr_t)&thread, __ATOMIC_RELAXED);
    mock_vk_check(other == 0, "two threads use %s #%u at once", mock_vk_kind_names[o->kind],
                  o->number);
    o->touched++;
    if (linger && mock_vk_now() / 64 % 1000 < linger) {
        sched_yield();
    }
}

static void mock_vk_outside(mock_vk_object *o) {
    __atomic_store_n(&o->inside, 0, __ATOMIC_RELAXED);
}
