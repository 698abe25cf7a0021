/* vulkan_base.h - part of vulkan.h: checks, counters, failures on
   demand, objects. */
#ifndef HCQ_TEST_MOCK_VULKAN_BASE_H
#define HCQ_TEST_MOCK_VULKAN_BASE_H

/* ---- checks ---- */

static const char *const mock_vk_names[MOCK_VK_ENTRY_COUNT] = {
#define MOCK_VK_NAME(name, level, need) "vk" #name,
    MOCK_VK_ENTRIES(MOCK_VK_NAME)
#undef MOCK_VK_NAME
};

/* The entry point that this thread is in, for messages. */
static _Thread_local const char *mock_vk_where = "";

/* Something that Vulkan forbids: nothing after it means anything. */
static void mock_vk_abort(const char *format, va_list list) {
    char text[512];
    vsnprintf(text, sizeof text, format, list);
    fprintf(stderr, "\nVKMOCK: %s: %s\n", mock_vk_where, text);
    fflush(stderr);
    abort();
}

__attribute__((format(printf, 2, 3)))
static void mock_vk_check(int condition, const char *format, ...) {
    if (condition) {
        return;
    }
    va_list list;
    va_start(list, format);
    mock_vk_abort(format, list);
    va_end(list);
}

static unsigned long long mock_vk_u(uint64_t value) { return value; }

static void mock_vk_type(VkStructureType got, VkStructureType want) {
    mock_vk_check(got == want, "sType is %d, not %d", (int)got, (int)want);
}

/* The structure of a type in a chain, or NULL. */
static const void *mock_vk_chained(const void *next, VkStructureType type) {
    const VkBaseInStructure *s = (const VkBaseInStructure *)next;
    while (s && s->sType != type) {
        s = s->pNext;
    }
    return s;
}

/* Nothing but these may be in the chain; 0 ends the list. */
static void mock_vk_only(const void *next, VkStructureType a, VkStructureType b) {
    for (const VkBaseInStructure *s = (const VkBaseInStructure *)next; s; s = s->pNext) {
        mock_vk_check((a && s->sType == a) || (b && s->sType == b),
                      "a structure of type %d in pNext, which the mock does not expect here",
                      (int)s->sType);
    }
}

/* ---- time and chance ---- */

static uint64_t mock_vk_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mock_vk_now(void) { return mock_vk_clock(CLOCK_MONOTONIC); }

static void mock_vk_sleep(uint64_t ns) {
    struct timespec t;
    t.tv_sec = (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    nanosleep(&t, NULL);
}

static uint64_t mock_vk_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Waits on a condition until a moment of mock_vk_now; 0 = it is over. */
static int mock_vk_sleep_until(pthread_cond_t *bell, pthread_mutex_t *lock, uint64_t until) {
    struct timespec t;
    if (until == UINT64_MAX) {
        pthread_cond_wait(bell, lock);
        return 1;
    }
    t.tv_sec = (time_t)(until / 1000000000u);
    t.tv_nsec = (long)(until % 1000000000u);
    return pthread_cond_timedwait(bell, lock, &t) == 0;
}

/* ---- counters ---- */

typedef enum mock_vk_kind {
    MOCK_VK_KIND_INSTANCE,
    MOCK_VK_KIND_PHYSICAL,
    MOCK_VK_KIND_MESSENGER,
    MOCK_VK_KIND_DEVICE,
    MOCK_VK_KIND_QUEUE,
    MOCK_VK_KIND_SEMAPHORE,
    MOCK_VK_KIND_MEMORY,
    MOCK_VK_KIND_BUFFER,
    MOCK_VK_KIND_COMMAND_POOL,
    MOCK_VK_KIND_COMMAND_BUFFER,
    MOCK_VK_KIND_QUERY_POOL,
    MOCK_VK_KIND_MODULE,
    MOCK_VK_KIND_SET_LAYOUT,
    MOCK_VK_KIND_PIPELINE_LAYOUT,
    MOCK_VK_KIND_PIPELINE,
    MOCK_VK_KIND_PIPELINE_CACHE,
    MOCK_VK_KIND_DESCRIPTOR_POOL,
    MOCK_VK_KIND_DESCRIPTOR_SET,
    MOCK_VK_KIND_COUNT
} mock_vk_kind;

static const char *const mock_vk_kind_names[MOCK_VK_KIND_COUNT] = {
    "instance", "physical device", "messenger", "device", "queue", "semaphore", "memory",
    "buffer", "command pool", "command buffer", "query pool", "shader module",
    "descriptor set layout", "pipeline layout", "pipeline", "pipeline cache",
    "descriptor pool", "descriptor set"
};

typedef struct mock_vk_stats {
    uint64_t calls[MOCK_VK_ENTRY_COUNT];
    uint64_t live[MOCK_VK_KIND_COUNT]; /* not changed by mock_vk_clear */
    uint64_t memory_bytes;             /* living, without imported memory; likewise */
    uint64_t imported_bytes;           /* likewise */
    uint64_t submits;                  /* vkQueueSubmit and its kin, without failed ones */
    uint64_t batches;
    uint64_t waits, signals;           /* of batches */
    uint64_t recorded;                 /* commands */
    uint64_t buffers;                  /* command buffers executed */
    uint64_t executed;                 /* commands */
    uint64_t dispatches, blocks;       /* blocks: calls of CPU kernels */
    uint64_t copies, fills, barriers, stamps;
    uint64_t cache_hits;               /* pipelines found in a cache */
    uint64_t failed;                   /* calls that mock_vk_fail made fail */
} mock_vk_stats;

static mock_vk_stats mock_vk_counters; /* atomic */

static void mock_vk_count(uint64_t *counter, uint64_t n) {
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void mock_vk_uncount(uint64_t *counter, uint64_t n) {
    __atomic_fetch_sub(counter, n, __ATOMIC_RELAXED);
}

static uint64_t mock_vk_peek(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* The counters now. */
static TEST_UNUSED mock_vk_stats mock_vk_read(void) {
    mock_vk_stats stats;
    const uint64_t *from = (const uint64_t *)(const void *)&mock_vk_counters;
    uint64_t *to = (uint64_t *)(void *)&stats;
    for (size_t i = 0; i < sizeof stats / sizeof *to; i++) {
        to[i] = mock_vk_peek(&from[i]);
    }
    return stats;
}

/* Calls of an entry point so far, or of all whose name begins so: "vkQueueSubmit*". */
static int mock_vk_matches(const char *pattern, const char *name) {
    size_t n = strlen(pattern);
    if (n && pattern[n - 1] == '*') {
        return strncmp(pattern, name, n - 1) == 0;
    }
    return strcmp(pattern, name) == 0;
}

static TEST_UNUSED uint64_t mock_vk_calls(const char *pattern) {
    uint64_t calls = 0;
    for (uint32_t i = 0; i < MOCK_VK_ENTRY_COUNT; i++) {
        if (mock_vk_matches(pattern, mock_vk_names[i])) {
            calls += mock_vk_peek(&mock_vk_counters.calls[i]);
        }
    }
    return calls;
}

/* ---- failures on demand ---- */

typedef struct mock_vk_failure {
    char pattern[64];
    uint64_t skip, count;              /* calls to pass, calls to fail after those */
    VkResult result;
} mock_vk_failure;

enum { MOCK_VK_FAILURES = 8 };

static pthread_mutex_t mock_vk_lock = PTHREAD_MUTEX_INITIALIZER; /* instances, kernels ... */
static mock_vk_failure mock_vk_failures[MOCK_VK_FAILURES];
static uint64_t mock_vk_failing;       /* some failure is set, atomic */
static uint64_t mock_vk_buffers_left;  /* command buffers until a device is lost, atomic */

/* Makes the `at`-th call from now (1 = the next) and the count - 1 after it
   give `result`. A "*" at the end stands for any rest of the name.
   VK_ERROR_DEVICE_LOST, of a submit or a wait, loses the device. */
static TEST_UNUSED void mock_vk_fail(const char *pattern, uint64_t at, uint64_t count,
                                     VkResult result) {
    pthread_mutex_lock(&mock_vk_lock);
    uint32_t i = 0;
    while (i < MOCK_VK_FAILURES && mock_vk_failures[i].count) {
        i++;
    }
    mock_vk_where = "mock_vk_fail";
    mock_vk_check(i < MOCK_VK_FAILURES && at > 0 && count > 0, "too many, or none");
    snprintf(mock_vk_failures[i].pattern, sizeof mock_vk_failures[i].pattern, "%s", pattern);
    mock_vk_failures[i].skip = at - 1;
    mock_vk_failures[i].count = count;
    mock_vk_failures[i].result = result;
    pthread_mutex_unlock(&mock_vk_lock);
    __atomic_store_n(&mock_vk_failing, 1, __ATOMIC_RELAXED);
}

/* The `at`-th command buffer executed from now on loses its device halfway. */
static TEST_UNUSED void mock_vk_lose(uint64_t at) {
    __atomic_store_n(&mock_vk_buffers_left, at, __ATOMIC_RELAXED);
}

/* Forgets failures, and counters but for those of what lives. */
static TEST_UNUSED void mock_vk_clear(void) {
    uint64_t *words = (uint64_t *)(void *)&mock_vk_counters;
    size_t first = offsetof(mock_vk_stats, live) / sizeof *words;
    size_t last = offsetof(mock_vk_stats, submits) / sizeof *words;
    for (size_t i = 0; i < sizeof mock_vk_counters / sizeof *words; i++) {
        if (i < first || i >= last) {
            __atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
        }
    }
    mock_vk_lose(0);
    pthread_mutex_lock(&mock_vk_lock);
    memset(mock_vk_failures, 0, sizeof mock_vk_failures);
    pthread_mutex_unlock(&mock_vk_lock);
    __atomic_store_n(&mock_vk_failing, 0, __ATOMIC_RELAXED);
}

static VkResult mock_vk_injected(mock_vk_entry entry) {
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&mock_vk_lock);
    for (uint32_t i = 0; i < MOCK_VK_FAILURES; i++) {
        mock_vk_failure *f = &mock_vk_failures[i];
        if (f->count == 0 || !mock_vk_matches(f->pattern, mock_vk_names[entry])) {
            continue;
        }
        if (f->skip) {
            f->skip--;
        } else {
            f->count--;
            result = f->result;
        }
    }
    pthread_mutex_unlock(&mock_vk_lock);
    if (result != VK_SUCCESS) {
        mock_vk_count(&mock_vk_counters.failed, 1);
    }
    return result;
}

/* Every entry point begins with this; what it returns is for those that can fail. */
static VkResult mock_vk_enter(mock_vk_entry entry) {
    mock_vk_where = mock_vk_names[entry];
    mock_vk_count(&mock_vk_counters.calls[entry], 1);
    if (!mock_vk_peek(&mock_vk_failing)) {
        return VK_SUCCESS;
    }
    return mock_vk_injected(entry);
}

/* ---- objects ---- */

/* What every handle points to. The memory of an object of a device is kept until
   the device goes, so that a stale handle is noticed and not followed. */
typedef struct mock_vk_object {
    uint32_t magic;
    uint32_t alive;                    /* atomic */
    mock_vk_kind kind;
    uint32_t pending;                  /* uses by batches, under the device's lock */
    struct mock_vk_object *next;       /* of the owner's list */
    struct mock_vk_device *device;
    uint64_t number;                   /* among all objects */
    uintptr_t inside;                  /* thread that uses it alone, atomic */
    uint64_t touched;                  /* plain on purpose: ThreadSanitizer watches it */
} mock_vk_object;

#define MOCK_VK_MAGIC 0x6d6b7600u

static uint64_t mock_vk_numbers;       /* atomic */

static void mock_vk_init(mock_vk_object *o, mock_vk_kind kind, struct mock_vk_device *device) {
    o->magic = MOCK_VK_MAGIC + (uint32_t)kind;
    o->kind = kind;
    o->device = device;
    o->number = __atomic_add_fetch(&mock_vk_numbers, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&o->alive, 1, __ATOMIC_RELAXED);
    mock_vk_count(&mock_vk_counters.live[kind], 1);
}

static int mock_vk_lives(const mock_vk_object *o) {
    return __atomic_load_n(&o->alive, __ATOMIC_RELAXED) != 0;
}

static void mock_vk_die(mock_vk_object *o) {
    __atomic_store_n(&o->alive, 0, __ATOMIC_RELAXED);
    mock_vk_uncount(&mock_vk_counters.live[o->kind], 1);
}

/* The object behind a handle, checked. `device` NULL: of any. */
static void *mock_vk_object_of(uintptr_t handle, mock_vk_kind kind,
                               const struct mock_vk_device *device) {
    mock_vk_object *o = (mock_vk_object *)handle;
    mock_vk_check(o != NULL, "a %s is VK_NULL_HANDLE", mock_vk_kind_names[kind]);
    mock_vk_check(o->magic == MOCK_VK_MAGIC + (uint32_t)kind, "this is no %s: %#llx",
                  mock_vk_kind_names[kind], mock_vk_u((uint64_t)handle));
    mock_vk_check(mock_vk_lives(o), "%s #%llu was destroyed", mock_vk_kind_names[kind],
                  mock_vk_u(o->number));
    mock_vk_check(!device || o->device == device, "%s #%llu is of another device",
                  mock_vk_kind_names[kind], mock_vk_u(o->number));
    return o;
}

#define MOCK_VK_OBJECT(type, handle, kind, device) \
    ((type *)mock_vk_object_of((uintptr_t)(handle), MOCK_VK_KIND_##kind, device))

static _Thread_local char mock_vk_thread;

/* Around calls that nobody else may make for the same object meanwhile. */
static void mock_vk_inside(mock_vk_object *o, uint32_t linger) {
    uintptr_t me = (uintptr_t)&mock_vk_thread;
    uintptr_t other = __atomic_exchange_n(&o->inside, me, __ATOMIC_RELAXED);
    mock_vk_check(other == 0, "two threads use %s #%llu at once", mock_vk_kind_names[o->kind],
                  mock_vk_u(o->number));
    o->touched++;
    if (linger && mock_vk_now() / 64 % 1000 < linger) {
        sched_yield();
    }
}

static void mock_vk_outside(mock_vk_object *o) {
    __atomic_store_n(&o->inside, 0, __ATOMIC_RELAXED);
}

#endif /* HCQ_TEST_MOCK_VULKAN_BASE_H */
