/* cuda_base.h - part of libcuda.c: settings, misuse, failures on demand, objects
   and their handles, what every call begins with. */
#pragma once

#include "../../hcq.h"                    /* hcq_block */
#include "../support/chance.h"
#include "cuda.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef MOCK_CUDA_VERSION
#define MOCK_CUDA_VERSION 13000
#endif

typedef void *mc_handle;
typedef uint64_t mc_address;

enum { /* CUresult */
    MC_OK = 0, MC_INVALID = 1, MC_MEMORY = 2, MC_NOT_INITIALIZED = 3, MC_BAD_DEVICE = 101,
    MC_NO_CONTEXT = 201, MC_NO_PEER = 217, MC_BAD_PTX = 218, MC_NO_JIT = 221, MC_NEW_PTX = 222,
    MC_BAD_HANDLE = 400, MC_NOT_FOUND = 500, MC_NOT_READY = 600, MC_ILLEGAL_ADDRESS = 700,
    MC_RESOURCES = 701, MC_PEER_ALREADY = 704, MC_DESTROYED = 709, MC_REGISTERED = 712,
    MC_NOT_REGISTERED = 713, MC_NOT_PERMITTED = 800, MC_NOT_SUPPORTED = 801,
    MC_CAPTURE_FORBIDS = 900, MC_CAPTURE_INVALID = 901, MC_CAPTURE_ISOLATION = 905,
    MC_CAPTURED_EVENT = 907, MC_WRONG_THREAD = 908, MC_UNKNOWN = 999
};

enum { MC_DEVICES = 72, MC_QUEUES = 32, MC_STACK = 32 };

typedef enum mc_kind {
    MC_CONTEXT = 1, MC_STREAM, MC_EVENT, MC_MODULE, MC_FUNCTION, MC_GRAPH, MC_NODE, MC_EXEC,
    MC_POOL
} mc_kind;

static const char *const mc_kind_names[] = {
    "", "context", "stream", "event", "module", "function", "graph", "graph node",
    "executable graph", "memory pool"
};

/* What a handle stands for. Whoever needs the object after its handle is gone (a
   queued operation) holds a reference. */
typedef struct mc_object {
    mc_kind kind;
    uint32_t index, refs;
    struct mc_context *context;        /* it ends with this one; or NULL */
    void (*end)(void *object);         /* gives back what it has besides its memory; or NULL */
    uint32_t busy;                     /* a call is in it: objects that are not thread safe */
    uint32_t touched;                  /* plain, for ThreadSanitizer */
} mc_object;

typedef struct mc_context {
    mc_object object;
    uint32_t device, retained;
    int primary;
    int error;                         /* sticky */
    int ended;
    struct mc_context *peers[MC_DEVICES];
    struct mc_op *first, *last;        /* enqueued and not done, oldest first */
    struct mc_context *next;           /* all that were, freed by setup */
} mc_context;

typedef struct mc_call {               /* of one function */
    const char *name;
    uint64_t count;
    struct mc_call *next;
} mc_call;

typedef struct mc_queue {              /* a work queue */
    pthread_t thread;
    pthread_cond_t bell;
    int started, asleep;
    int slow;                          /* most of the others go ahead of it */
    int held;                          /* its head waits for calls that ask; `pokes` had come ... */
    uint64_t pokes;                    /* ... when it was enqueued */
    uint64_t random;
    struct mc_op *head, *tail;
    uint32_t count;
} mc_queue;

typedef struct mc_device {
    mc_context *context;               /* the primary one, while it lives */
    uint64_t used;                     /* bytes */
    uint32_t streams;                  /* created so far */
    mc_queue queues[MC_QUEUES];
} mc_device;

typedef struct mc_slot {
    mc_object *object;                 /* NULL: unused */
    uint32_t generation;
} mc_slot;

static struct {
    pthread_mutex_t lock;              /* of all that follows */
    int configured, initialised, quit, expects;
    mock_cuda_desc desc;
    mock_cuda_counts counts;
    uint64_t began_ns;
    mc_call *calls;
    struct { char pattern[64]; uint64_t skip; int result, armed; } failure;
    struct { uint64_t jit, pin, node; } slow_ns;
    char misuse[512];
    uint64_t misuses;
    mc_slot *slots;
    uint32_t slot_count, *unused, unused_count;
    mc_context *contexts;
    struct mc_waiter *waiters;
    uint32_t syncing;                  /* calls that wait */
    uint64_t pokes;                    /* calls that asked or waited */
    uint64_t sequence;                 /* operations enqueued so far */
    int locked;                        /* a slow call has the driver's lock */
    int broken;                        /* the first error that ends the process, says CUDA */
    int captures;                      /* a stream captures, or did */
    mc_device devices[MC_DEVICES];
    struct mc_kernel *kernels;
} M = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    const char *where;                 /* the call that it is in, or the operation */
    mc_handle stack[MC_STACK];
    uint32_t depth;
    mc_context *here;                  /* the current one, during a call */
    int in_kernel, fault;
    uint64_t running;                  /* the sequence of the operation that runs, or 0 */
    uint64_t random;
    int mode;                          /* of what it may call beside captures */
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
    M.misuses++;
    snprintf(M.misuse, sizeof M.misuse, "CUMOCK: %s: %s", mc_tls.where ? mc_tls.where : "", text);
    if (!M.expects) {
        fprintf(stderr, "\n%s\n", M.misuse);
        fflush(stderr);
        abort();
    }
    return MC_INVALID;
}

static unsigned long long mc_u(uint64_t value) { return value; }

/* A rule: unless `good`, the function returns `error`. */
#define MC_RULE(good, error) \
    do { \
        if (!(good)) { \
            return error; \
        } \
    } while (0)

/* ---- memory of its own, time ---- */

static void *mc_calloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        abort();
    }
    return memory;
}

/* A list of `count` that has room for one more. */
static void *mc_list(void *list, uint32_t count, size_t size) {
    if ((count & (count - 1)) == 0) {
        list = realloc(list, (count ? 2 * (size_t)count : 1) * size);
        if (!list) {
            abort();
        }
    }
    return list;
}

static uint64_t mc_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mc_now(void) { return mc_clock(CLOCK_MONOTONIC); }

/* ---- objects ---- */

static uint64_t *mc_living(mc_kind kind) {
    static uint64_t parts;             /* of modules and graphs */
    return kind == MC_CONTEXT ? &M.counts.contexts : kind == MC_EVENT ? &M.counts.events :
           kind == MC_FUNCTION || kind == MC_NODE ? &parts : &M.counts.others;
}

/* A handle is no address, and never comes twice: what is gone is told from what is
   there. */
static mc_handle mc_handle_of(const void *object) {
    const mc_object *o = (const mc_object *)object;
    uint64_t value = 1ull << 62 | (uint64_t)o->kind << 56 |
                     (uint64_t)M.slots[o->index].generation << 24 | o->index;
    return (mc_handle)(uintptr_t)value;
}

/* A new object, with one reference: its handle's. */
static void *mc_object_new(mc_kind kind, size_t size, mc_context *context,
                           void (*end)(void *object)) {
    mc_object *o = (mc_object *)mc_calloc(1, size);
    if (M.unused_count) {
        o->index = M.unused[--M.unused_count];
    } else {
        M.slots = (mc_slot *)mc_list(M.slots, M.slot_count, sizeof *M.slots);
        M.slots[M.slot_count].generation = 0;
        o->index = M.slot_count++;
    }
    o->kind = kind;
    o->refs = 1;
    o->context = context;
    o->end = end;
    M.slots[o->index].object = o;
    M.slots[o->index].generation++;
    *mc_living(kind) += 1;
    return o;
}

static void mc_object_unref(void *object) {
    mc_object *o = (mc_object *)object;
    if (--o->refs == 0) {
        if (o->end) {
            o->end(o);
        }
        free(o);
    }
}

/* Its handle is no longer good, and the handle's reference goes. */
static void mc_object_drop(void *object) {
    mc_object *o = (mc_object *)object;
    *mc_living(o->kind) -= 1;
    M.slots[o->index].object = NULL;
    M.unused = (uint32_t *)mc_list(M.unused, M.unused_count, sizeof *M.unused);
    M.unused[M.unused_count++] = o->index;
    mc_object_unref(o);
}

/* The object of a handle, or NULL. */
static mc_object *mc_alive(mc_handle handle) {
    uint32_t index = (uint32_t)((uint64_t)(uintptr_t)handle & 0xffffffu);
    mc_object *o = index < M.slot_count ? M.slots[index].object : NULL;
    return o && mc_handle_of(o) == handle ? o : NULL;
}

static void *mc_find(mc_handle handle, mc_kind kind) {
    uint64_t value = (uint64_t)(uintptr_t)handle;
    mc_object *o = mc_alive(handle);
    if (handle && (value >> 62 != 1 || (value >> 56 & 63) != (uint64_t)kind)) {
        mc_misuse("%p is no %s", handle, mc_kind_names[kind]);
        return NULL;
    }
    if (handle && !o) {
        mc_misuse("the %s %p was destroyed", mc_kind_names[kind], handle);
    }
    return o;
}

/* ---- settings ---- */

static void mc_desc_defaults(mock_cuda_desc *d) {
    d->devices = !d->devices ? 1 : d->devices > MC_DEVICES ? MC_DEVICES : d->devices;
    d->queues = !d->queues ? 4 : d->queues > MC_QUEUES ? MC_QUEUES : d->queues;
    d->capability = d->capability ? d->capability : 90;
    d->memory_bytes = d->memory_bytes ? d->memory_bytes : 4ull << 30;
    d->timer_step_ns = d->timer_step_ns ? d->timer_step_ns : 32;
    d->watchdog_ms = d->watchdog_ms ? d->watchdog_ms : 30000;
}

/* ---- what every call begins with ---- */

enum mc_needs {
    MC_NEEDS_NOTHING,                  /* may come before cuInit */
    MC_NEEDS_INIT,
    MC_NEEDS_CONTEXT,                  /* a current one, without an error */
    MC_NEEDS_ANY_CONTEXT,              /* a current one */
    MC_UNSAFE = 4 | MC_NEEDS_CONTEXT   /* as that one, and no capture that forbids it: all that
                                          allocates, frees, loads, asks or waits */
};

static void mc_configure(const mock_cuda_desc *desc);
static void mc_poison(mc_context *c, int error);
static int mc_capture_spoiled(const mc_context *c);

/* Does an error end its context? */
static int mc_sticky(int error) {
    return error == 226 || error == MC_ILLEGAL_ADDRESS || error == 702 || error == 710 ||
           (error >= 714 && error <= 719) || error == 721 || error == 911;
}

static int mc_matches(const char *pattern, const char *name) {
    size_t n = strcspn(pattern, "*");
    return pattern[n] ? strncmp(pattern, name, n) == 0 : strcmp(pattern, name) == 0;
}

/* The result of a call, or an operation ("-"), that is to fail, else 0. */
static int mc_injected(const char *name) {
    if (!M.failure.armed || !mc_matches(M.failure.pattern, name) || M.failure.skip--) {
        return 0;
    }
    M.failure.armed = 0;
    M.counts.failed++;
    return M.failure.result;
}

/* Finds the current context. */
static int mc_current(enum mc_needs needs) {
    mc_handle top = mc_tls.depth ? mc_tls.stack[mc_tls.depth - 1] : NULL;
    mc_tls.here = (mc_context *)(void *)mc_alive(top);
    if (needs < MC_NEEDS_CONTEXT) {
        return 0;
    }
    if (!mc_tls.here) {
        return top ? MC_DESTROYED : MC_NO_CONTEXT;
    }
    MC_RULE(needs == MC_NEEDS_ANY_CONTEXT || !mc_tls.here->error, mc_tls.here->error);
    return needs == MC_UNSAFE && mc_capture_spoiled(NULL) ? MC_CAPTURE_FORBIDS : 0;
}

/* Gives other threads a chance to come in between. */
static void mc_linger(void) {
    if (M.desc.linger && test_random(&mc_tls.random) % 1000 < M.desc.linger) {
        sched_yield();
    }
}

/* Begins a call; without an error it leaves the lock held. */
static int mc_enter(mc_call *call, const char *name, enum mc_needs needs) {
    if (mc_tls.in_kernel) {
        return MC_NOT_PERMITTED;
    }
    mc_tls.where = name;
    pthread_mutex_lock(&M.lock);
    if (!M.configured) {
        mc_configure(NULL);
    }
    if (!call->name) {
        call->name = name;
        call->next = M.calls;
        M.calls = call;
    }
    call->count++;
    int bad = mc_current(needs), result = mc_injected(name);
    if (mc_sticky(result) && mc_tls.here) {
        mc_poison(mc_tls.here, result);
    }
    if (result == 0) {
        result = needs != MC_NEEDS_NOTHING && !M.initialised ? MC_NOT_INITIALIZED : bad;
    }
    if (result != 0) {
        pthread_mutex_unlock(&M.lock);
    }
    return result;
}

static void mc_leave(const int *entered) {
    if (*entered == 0) {
        pthread_mutex_unlock(&M.lock);
        mc_linger();
    }
}

/* A function of the driver: MC_API its head, MC_ENTER the first line; it has the lock
   from there on until it returns. Then its rules. */
#define MC_API(name, ...) \
    int name(__VA_ARGS__); \
    int name(__VA_ARGS__)

#define MC_ENTER(needs) \
    static mc_call call_; \
    __attribute__((cleanup(mc_leave))) const int entered_ = mc_enter(&call_, __func__, needs); \
    MC_RULE(entered_ == 0, entered_);

/* Declares the object of a handle; returns, if it has none. */
#define MC_FIND(type, name, handle, kind) \
    type *name = (type *)mc_find(handle, kind); \
    MC_RULE(name, kind == MC_CONTEXT ? MC_NO_CONTEXT : MC_BAD_HANDLE)

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
