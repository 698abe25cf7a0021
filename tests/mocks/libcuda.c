/* libcuda.c - a CUDA driver library for tests: what cuda.h declares, and the kernels
   that are always there. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cuda_alloc.h"
#include "cuda_graphs.h"
#include "cuda_nvrtc.h"

/* ---- kernels of hcq's own ---- */

static uint64_t mc_globaltimer(void) {
    int64_t since = (int64_t)(mc_now() - M.began_ns);
    uint64_t now = mc_clock(CLOCK_REALTIME) + (uint64_t)M.desc.timer_offset_ns;
    now += (uint64_t)(since / 1000000 * M.desc.timer_drift_ppm +
                      since % 1000000 * M.desc.timer_drift_ppm / 1000000);
    return now - now % M.desc.timer_step_ns;
}

static void mc_kernel_stamp(const void *args, const hcq_block *b) {
    (void)b;
    __atomic_store_n((uint64_t *)mc_host(*(const mc_address *)args), mc_globaltimer(),
                     __ATOMIC_RELEASE);
}

static void mc_kernel_fill(const void *args, const hcq_block *b) {
    const struct { uint64_t *dst, value, count; } *k = args;
    HCQ_FOR_THREADS(b, t) {
        for (uint64_t i = b->id.x * (uint64_t)b->block.x + t.x; i < k->count;
             i += (uint64_t)b->grid.x * b->block.x) {
            k->dst[i] = k->value;
        }
    }
}

static void mc_kernel_copy(const void *args, const hcq_block *b) {
    const struct { uint8_t *dst; const uint8_t *src; uint64_t size; } *k = args;
    const uint64_t odd = ((uint64_t)(uintptr_t)k->dst | (uint64_t)(uintptr_t)k->src | k->size) & 7;
    const uint64_t unit = odd ? 1 : 8;
    HCQ_FOR_THREADS(b, t) {
        for (uint64_t i = b->id.x * (uint64_t)b->block.x + t.x; i < k->size / unit;
             i += (uint64_t)b->grid.x * b->block.x) {
            memcpy(k->dst + i * unit, k->src + i * unit, unit);
        }
    }
}

/* ---- ... of hello.c ---- */

static void mc_kernel_axpy(const void *args, const hcq_block *b) {
    const struct { int32_t *y; const int32_t *x; int32_t a; uint32_t n; } *k = args;
    HCQ_FOR_THREADS(b, t) {
        uint32_t i = b->id.x * b->block.x + t.x;
        if (i < k->n) {
            k->y[i] += k->a * k->x[i];
        }
    }
}

static const struct { const char *entry; mock_cuda_fn fn; } mc_builtin[] = {
    {"hcq_stamp", mc_kernel_stamp}, {"hcq_fill", mc_kernel_fill},
    {"hcq_copy", mc_kernel_copy}, {"axpy", mc_kernel_axpy}
};

/* ---- beginning anew ---- */

static void mc_configure(const mock_cuda_desc *desc) {
    memset(&M.desc, 0, sizeof M.desc);
    M.desc = desc ? *desc : M.desc;
    mc_desc_defaults(&M.desc);
    for (size_t i = 0; i < sizeof mc_builtin / sizeof *mc_builtin && !M.configured; i++) {
        if (!mc_kernel_find(mc_builtin[i].entry)) {
            mc_kernel_set(mc_builtin[i].entry, mc_builtin[i].fn);
        }
    }
    M.began_ns = mc_now();
    M.configured = 1;
}

/* Ends all threads; with the lock, which it gives up. */
static void mc_queues_stop(void) {
    M.quit = 1;
    mc_queues_ring();
    for (mc_waiter *w = M.waiters; w; w = w->next) {
        pthread_cond_signal(&w->bell);
    }
    for (uint32_t i = 0; i < MC_DEVICES * MC_QUEUES; i++) {
        mc_queue *q = &M.devices[i / MC_QUEUES].queues[i % MC_QUEUES];
        if (q->started) {
            pthread_mutex_unlock(&M.lock);
            pthread_join(q->thread, NULL);
            pthread_mutex_lock(&M.lock);
            pthread_cond_destroy(&q->bell);
        }
    }
    M.quit = 0;
    memset(M.devices, 0, sizeof M.devices);
}

static void mc_objects_clear(void) {
    while (mc_map.count) {             /* of pools */
        mc_range_free(mc_map.ranges[mc_map.count - 1]);
    }
    for (uint32_t i = 0; i < M.slot_count; i++) {
        mc_object *o = M.slots[i].object;
        if (o && (o->kind == MC_GRAPH || o->kind == MC_POOL)) {
            mc_object_drop(o);
        }
    }
    while (M.contexts) {
        mc_context *c = M.contexts;
        M.contexts = c->next;
        mc_object_unref(c);
    }
}

/* ---- what tests call: a head, and a lock until it returns ---- */

static void mc_own_end(const int *one) {
    (void)one;
    pthread_mutex_unlock(&M.lock);
}

static int mc_own_begin(const char *name) {
    mc_tls.where = name;
    pthread_mutex_lock(&M.lock);
    if (!M.configured) {
        mc_configure(NULL);
    }
    return 1;
}

#define MC_OWN_ENTER() \
    __attribute__((cleanup(mc_own_end), unused)) const int entered_ = mc_own_begin(__func__)

static void mock_cuda_setup(const mock_cuda_desc *desc) {
    MC_OWN_ENTER();
    if (M.counts.contexts) {
        mc_misuse("%llu contexts are alive", mc_u(M.counts.contexts));
        return;
    }
    mc_queues_stop();
    mc_objects_clear();
    mc_configure(desc);
    memset(&M.counts, 0, sizeof M.counts);
    memset(&M.slow_ns, 0, sizeof M.slow_ns);
    M.failure.armed = 0;
    for (mc_call *c = M.calls; c; c = c->next) {
        c->count = 0;
    }
    M.misuses = 0;
    M.initialised = 0;
    M.broken = M.captures = 0;
}

static void mock_cuda_kernel(const char *entry, mock_cuda_fn fn) {
    MC_OWN_ENTER();
    mc_kernel_set(entry, fn);
}

static void mock_cuda_stats(mock_cuda_counts *out) {
    MC_OWN_ENTER();
    *out = M.counts;
}

static uint64_t mock_cuda_calls(const char *pattern) {
    uint64_t calls = 0;
    MC_OWN_ENTER();
    for (const mc_call *c = M.calls; c; c = c->next) {
        calls += mc_matches(pattern, c->name) ? c->count : 0;
    }
    return calls;
}

static void mock_cuda_fail(const char *pattern, uint64_t skip, int result) {
    MC_OWN_ENTER();
    M.failure.armed = pattern != NULL;
    M.failure.skip = skip;
    M.failure.result = result;
    snprintf(M.failure.pattern, sizeof M.failure.pattern, "%s", pattern ? pattern : "");
}

static void mock_cuda_fault(int error) { mc_tls.fault = error; }

static void mock_cuda_slow(uint64_t jit_ns, uint64_t pin_ns, uint64_t node_ns) {
    MC_OWN_ENTER();
    M.slow_ns.jit = jit_ns;
    M.slow_ns.pin = pin_ns;
    M.slow_ns.node = node_ns;
}

extern const mock_cuda_api mock_cuda;
const mock_cuda_api mock_cuda = {
    mock_cuda_setup, mock_cuda_kernel, mock_cuda_stats, mock_cuda_calls, mock_cuda_fail,
    mock_cuda_fault, mock_cuda_slow
};
