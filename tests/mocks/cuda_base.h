/* cuda_base.h - part of libcuda.c: settings, misuse, counters, failures on
   demand, living objects, what every call begins with. */
#ifndef HCQ_TEST_MOCK_CUDA_BASE_H
#define HCQ_TEST_MOCK_CUDA_BASE_H

#ifndef MOCK_CUDA_VERSION
#define MOCK_CUDA_VERSION 13000
#endif

typedef void *mc_handle;
typedef uint64_t mc_address;

enum { /* CUresult */
    MC_OK = 0, MC_INVALID = 1, MC_MEMORY = 2, MC_NOT_INITIALIZED = 3, MC_NO_DEVICE = 100,
    MC_BAD_DEVICE = 101, MC_NO_CONTEXT = 201, MC_NO_BINARY = 209, MC_NO_PEER = 217,
    MC_BAD_PTX = 218, MC_NO_JIT = 221, MC_NEW_PTX = 222, MC_BAD_HANDLE = 400, MC_NOT_FOUND = 500,
    MC_NOT_READY = 600, MC_ILLEGAL_ADDRESS = 700, MC_RESOURCES = 701, MC_PEER_ALREADY = 704,
    MC_PEER_NOT = 705, MC_DESTROYED = 709, MC_REGISTERED = 712, MC_NOT_REGISTERED = 713,
    MC_NOT_PERMITTED = 800, MC_NOT_SUPPORTED = 801
};

enum { MC_DEVICES = 8, MC_QUEUES = 32, MC_STACK = 32, MC_FAILURES = 16 };

typedef enum mc_kind {
    MC_CONTEXT = 1, MC_STREAM, MC_EVENT, MC_MODULE, MC_FUNCTION, MC_GRAPH, MC_NODE, MC_EXEC,
    MC_POOL
} mc_kind;

static const char *const mc_kind_names[] = {
    "", "context", "stream", "event", "module", "function", "graph", "graph node",
    "executable graph", "memory pool"
};

typedef struct mc_op mc_op;
typedef struct mc_queue mc_queue;

/* What a handle stands for. Whoever needs the object after its handle is gone (a
   queued operation) holds a reference. */
typedef struct mc_object {
    mc_kind kind;
    uint32_t index, refs;
    struct mc_context *context;        /* it ends with this one; or NULL */
    uint32_t busy;                     /* a call is in it: objects that are not thread safe */
    uint32_t touched;                  /* plain, for ThreadSanitizer */
} mc_object;

typedef struct mc_context {
    mc_object object;
    uint32_t device;
    int primary;
    uint32_t retained;                 /* of a primary context */
    int error;                         /* sticky */
    int ended;
    struct mc_context *peers[MC_DEVICES];
    struct mc_stream *null_stream;
    mc_op *first, *last;               /* enqueued and not done, oldest first */
    struct mc_context *next;           /* all that were, freed by setup */
} mc_context;

/* ---- all state ---- */

typedef struct mc_call {
    const char *name;
    uint64_t count;
    struct mc_call *next;
} mc_call;

typedef struct mc_failure {
    char pattern[64];
    uint64_t skip, count;
    int result;
} mc_failure;

typedef struct mc_waiter {
    pthread_cond_t bell;
    int (*ready)(const struct mc_waiter *waiter);
    void *object;
    uint64_t value;
    struct mc_waiter *next;
} mc_waiter;

struct mc_queue {                      /* a work queue */
    pthread_t thread;
    pthread_cond_t bell;
    int started, asleep;
    int slow;                          /* most of the others go ahead of it */
    const mc_op *held;                 /* its head, which waits for calls that ask */
    uint32_t device, index;
    uint64_t random;
    mc_op *head, *tail;
    const char *doing;                 /* what its thread is in, for the watchdog */
};

typedef struct mc_device {
    mc_context *context;               /* the primary one, while it lives */
    uint64_t used;                     /* bytes */
    uint32_t streams;                  /* created so far */
    mc_queue queues[MC_QUEUES];
} mc_device;

typedef struct mc_builtin {
    const char *entry;
    mock_cuda_fn fn;
} mc_builtin;

typedef struct mc_slot {
    mc_object *object;                 /* NULL: unused */
    uint32_t generation;
} mc_slot;

static struct {
    pthread_mutex_t lock;              /* of all that follows */
    int configured, initialised, quit, paused, expects;
    mock_cuda_desc desc;
    mock_cuda_counts counts;
    uint64_t random, began_ns;
    mc_call *calls;
    mc_failure failures[MC_FAILURES];
    uint32_t failure_count;
    struct { char entry[64]; uint64_t skip; int error, on; } fault;
    char misuse[512];
    uint64_t misuses_told;
    mc_slot *slots;
    uint32_t slot_count, *unused, unused_count;
    mc_context *contexts;
    mc_waiter *waiters;
    uint32_t syncing;                  /* calls that wait */
    uint64_t pokes;                    /* calls that asked or waited */
    uint64_t sequence;                 /* operations enqueued so far */
    mc_device devices[MC_DEVICES];
    mc_builtin *kernels;               /* entries: copies */
    uint32_t kernel_count;
} M = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    const char *where;                 /* the call that it is in */
    mc_handle stack[MC_STACK];
    uint32_t depth;
    mc_context *here;                  /* the current one, during a call */
    int in_kernel, in_host_fn, fault;
    uint64_t random;
} mc_tls;

/* ---- misuse ---- */

/* Something that CUDA forbids, or does wrong in silence. Returns 1. */
__attribute__((format(printf, 1, 2)))
static int mc_misuse(const char *format, ...) {
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    M.counts.misuses++;
    snprintf(M.misuse, sizeof M.misuse, "CUMOCK: %s: %s", mc_tls.where ? mc_tls.where : "", text);
    if (!M.expects) {
        fprintf(stderr, "\n%s\n", M.misuse);
        fflush(stderr);
        abort();
    }
    return MC_INVALID;
}

static unsigned long long mc_u(uint64_t value) { return value; }

/* ---- time and chance ---- */

static uint64_t mc_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mc_now(void) { return mc_clock(CLOCK_MONOTONIC); }

static uint64_t mc_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void mc_cond_init(pthread_cond_t *bell) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(bell, &attr);
    pthread_condattr_destroy(&attr);
}

/* Waits until a moment of mc_now, with the lock; 0: it is over. */
static int mc_sleep_until(pthread_cond_t *bell, uint64_t until) {
    struct timespec t;
    t.tv_sec = (time_t)(until / 1000000000u);
    t.tv_nsec = (long)(until % 1000000000u);
    return pthread_cond_timedwait(bell, &M.lock, &t) == 0;
}

/* ---- counters ---- */

static int mc_matches(const char *pattern, const char *name) {
    size_t n = strlen(pattern);
    if (n && pattern[n - 1] == '*') {
        return strncmp(pattern, name, n - 1) == 0;
    }
    return strcmp(pattern, name) == 0;
}

static uint64_t *mc_living(mc_kind kind) {
    switch (kind) {
    case MC_CONTEXT: return &M.counts.contexts;
    case MC_STREAM: return &M.counts.streams;
    case MC_EVENT: return &M.counts.events;
    case MC_MODULE: return &M.counts.modules;
    case MC_GRAPH: return &M.counts.graphs;
    case MC_EXEC: return &M.counts.graph_execs;
    case MC_POOL: return &M.counts.pools;
    default: return NULL;
    }
}

/* ---- objects ---- */

/* A handle is no address, and never comes twice: what is gone is told from what is
   there. */
static mc_handle mc_handle_of(const void *object) {
    const mc_object *o = (const mc_object *)object;
    uint64_t value = 1ull << 62 | (uint64_t)o->kind << 56 |
                     (uint64_t)(M.slots[o->index].generation & 0xffffffffu) << 24 | o->index;
    return (mc_handle)(uintptr_t)value;
}

static void mc_object_count(mc_kind kind) {
    uint64_t *living = mc_living(kind);
    if (living) {
        *living += 1;
    }
    if (M.counts.events > M.counts.max_events) {
        M.counts.max_events = M.counts.events;
    }
    if (M.counts.streams > M.counts.max_streams) {
        M.counts.max_streams = M.counts.streams;
    }
}

/* A new object, with one reference: its handle's. */
static void *mc_object_new(mc_kind kind, size_t size, mc_context *context) {
    mc_object *o = (mc_object *)calloc(1, size);
    if (!M.unused_count) {
        uint32_t more = M.slot_count ? M.slot_count : 256;
        M.slots = (mc_slot *)realloc(M.slots, (M.slot_count + more) * sizeof *M.slots);
        M.unused = (uint32_t *)realloc(M.unused, (M.slot_count + more) * sizeof *M.unused);
        if (!o || !M.slots || !M.unused) {
            abort();
        }
        memset(&M.slots[M.slot_count], 0, more * sizeof *M.slots);
        for (uint32_t i = more; i-- > 0;) {
            M.unused[M.unused_count++] = M.slot_count + i;
        }
        M.slot_count += more;
    }
    o->kind = kind;
    o->refs = 1;
    o->context = context;
    o->index = M.unused[--M.unused_count];
    M.slots[o->index].object = o;
    M.slots[o->index].generation++;
    mc_object_count(kind);
    return o;
}

/* The handle is no longer good; the caller then drops its reference. */
static void mc_object_forget(void *object) {
    mc_object *o = (mc_object *)object;
    uint64_t *living = mc_living(o->kind);
    if (living) {
        *living -= 1;
    }
    M.slots[o->index].object = NULL;
    M.unused[M.unused_count++] = o->index;
}

/* Drops a reference of an object whose memory is all that it has. */
static void mc_object_unref(void *object) {
    mc_object *o = (mc_object *)object;
    if (o && --o->refs == 0) {
        free(o);
    }
}

/* The object of a handle; NULL, if it has none. */
static void *mc_find(mc_handle handle, mc_kind kind) {
    uint64_t value = (uint64_t)(uintptr_t)handle;
    uint32_t index = (uint32_t)(value & 0xffffffu);
    if (!handle) {
        return NULL;
    }
    if (value >> 62 != 1 || (value >> 56 & 63) != (uint64_t)kind || index >= M.slot_count) {
        mc_misuse("%p is no %s", handle, mc_kind_names[kind]);
        return NULL;
    }
    if (!M.slots[index].object || mc_handle_of(M.slots[index].object) != handle) {
        mc_misuse("the %s %p was destroyed", mc_kind_names[kind], handle);
        return NULL;
    }
    return M.slots[index].object;
}

/* ---- settings ---- */

static uint64_t mc_env(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void mc_env_desc(mock_cuda_desc *d) {
    d->devices = (uint32_t)mc_env("MOCK_CUDA_DEVICES", d->devices);
    d->queues = (uint32_t)mc_env("MOCK_CUDA_QUEUES", d->queues);
    d->seed = mc_env("MOCK_CUDA_SEED", d->seed);
    d->mode = (uint32_t)mc_env("MOCK_CUDA_MODE", d->mode);
    d->flags = (uint32_t)mc_env("MOCK_CUDA_FLAGS", d->flags);
    d->delay_us = (uint32_t)mc_env("MOCK_CUDA_DELAY_US", d->delay_us);
    d->memory_bytes = mc_env("MOCK_CUDA_MEMORY_MIB", d->memory_bytes >> 20) << 20;
}

static void mc_default(uint32_t *field, uint32_t value) {
    if (*field == 0) {
        *field = value;
    }
}

static uint32_t mc_max_ptx(uint32_t version) {
    return version >= 13000 ? 90 : version >= 12000 ? 80 + version % 1000 / 10 :
           70 + version % 1000 / 10;
}

static void mc_desc_defaults(mock_cuda_desc *d) {
    mc_default(&d->devices, 1);
    mc_default(&d->queues, 4);
    mc_default(&d->delay_us, 100);
    mc_default(&d->late_polls, 3);
    mc_default(&d->late_us, 300);
    mc_default(&d->driver_version, MOCK_CUDA_VERSION);
    mc_default(&d->capability, 90);
    mc_default(&d->processors, 16);
    mc_default(&d->max_threads, 1024);
    mc_default(&d->shared_bytes, 48 * 1024);
    mc_default(&d->shared_optin, 227 * 1024);
    mc_default(&d->timer_step_ns, 32);
    mc_default(&d->max_ptx, mc_max_ptx(d->driver_version));
    mc_default(&d->watchdog_ms, 30000);
    d->memory_bytes = d->memory_bytes ? d->memory_bytes : 4ull << 30;
    d->devices = d->devices == UINT32_MAX ? 0 : d->devices > MC_DEVICES ? MC_DEVICES : d->devices;
    d->queues = d->queues > MC_QUEUES ? MC_QUEUES : d->queues;
    uint32_t any = 0;
    for (uint32_t i = 0; i < MC_DEVICES; i++) {
        any |= d->peers[i];
    }
    for (uint32_t i = 0; i < MC_DEVICES && !any; i++) {
        d->peers[i] = 0xff;
    }
}

/* ---- what every call begins with ---- */

enum mc_needs {
    MC_NEEDS_NOTHING,                  /* may come before cuInit */
    MC_NEEDS_INIT,
    MC_NEEDS_CONTEXT,                  /* a current one, without an error */
    MC_NEEDS_ANY_CONTEXT               /* a current one */
};

static void mc_configure(void);

/* Should this call fail? Under the lock. */
static int mc_injected(const char *name) {
    for (uint32_t i = 0; i < M.failure_count; i++) {
        mc_failure *f = &M.failures[i];
        if (f->count && mc_matches(f->pattern, name)) {
            if (f->skip) {
                f->skip--;
                continue;
            }
            f->count--;
            M.counts.failed++;
            return f->result;
        }
    }
    return 0;
}

/* Gives other threads a chance to come in between. */
static void mc_linger(void) {
    if (M.desc.linger && mc_random(&mc_tls.random) % 1000 < M.desc.linger) {
        sched_yield();
    }
}

static int mc_current(enum mc_needs needs) {
    mc_tls.here = NULL;
    if (needs < MC_NEEDS_CONTEXT) {
        return 0;
    }
    if (!mc_tls.depth || !mc_tls.stack[mc_tls.depth - 1]) {
        return MC_NO_CONTEXT;
    }
    uint64_t value = (uint64_t)(uintptr_t)mc_tls.stack[mc_tls.depth - 1];
    mc_slot *slot = &M.slots[value & 0xffffffu];
    if (!slot->object || mc_handle_of(slot->object) != mc_tls.stack[mc_tls.depth - 1]) {
        return MC_DESTROYED;
    }
    mc_tls.here = (mc_context *)(void *)slot->object;
    return needs == MC_NEEDS_CONTEXT ? mc_tls.here->error : 0;
}

static int mc_is_sticky(int result) {
    return result == MC_ILLEGAL_ADDRESS || result == 702 || result == 710 ||
           (result >= 714 && result <= 719);
}

static void mc_poison(mc_context *c, int error);

/* The failure that this call is to have, or 0. A sticky one ends the context. */
static int mc_fails(const char *name) {
    int result = M.failure_count ? mc_injected(name) : 0;
    if (mc_is_sticky(result) && mc_current(MC_NEEDS_ANY_CONTEXT) == 0) {
        mc_poison(mc_tls.here, result);
    }
    return result;
}

/* Begins a call; without an error it leaves the lock held. */
static int mc_enter(mc_call *call, const char *name, enum mc_needs needs) {
    int result;
    if (mc_tls.in_host_fn || mc_tls.in_kernel) {
        return MC_NOT_PERMITTED;
    }
    mc_tls.where = name;
    pthread_mutex_lock(&M.lock);
    if (!M.configured) {
        mc_configure();
    }
    if (!call->name) {
        call->name = name;
        call->next = M.calls;
        M.calls = call;
    }
    call->count++;
    M.counts.calls++;
    result = mc_fails(name);
    if (result == 0 && needs != MC_NEEDS_NOTHING && !M.initialised) {
        result = MC_NOT_INITIALIZED;
    }
    if (result == 0) {
        result = mc_current(needs);
    }
    if (result != 0) {
        pthread_mutex_unlock(&M.lock);
    }
    return result;
}

static int mc_leave(int result) {
    pthread_mutex_unlock(&M.lock);
    if (M.desc.linger) {
        mc_linger();
    }
    return result;
}

#define MC_API(name, ...) \
    __attribute__((visibility("default"))) int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

#define MC_ENTER(needs) \
    static mc_call call_; \
    int entered_ = mc_enter(&call_, __func__, needs); \
    if (entered_ != 0) { \
        return entered_; \
    }

/* A call is in an object that only one thread may use at once. */
static int mc_take(void *object) {
    mc_object *o = (mc_object *)object;
    if (o->busy) {
        return mc_misuse("two threads are in one %s at once", mc_kind_names[o->kind]);
    }
    o->busy = 1;
    pthread_mutex_unlock(&M.lock);
    o->touched++;
    mc_linger();
    pthread_mutex_lock(&M.lock);
    return 0;
}

static void mc_give(void *object) { ((mc_object *)object)->busy = 0; }

#endif /* HCQ_TEST_MOCK_CUDA_BASE_H */
