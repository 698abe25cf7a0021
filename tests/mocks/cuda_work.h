/* cuda_work.h - part of libcuda.c: what an operation is, and what it does when its
   turn comes. */
#pragma once

#include "cuda_memory.h"
#include "cuda_modules.h"
#include "cuda_wait.h"

typedef enum mc_work_kind {
    MC_WORK_NOTHING, MC_WORK_KERNEL, MC_WORK_COPY, MC_WORK_SET, MC_WORK_VALUE, MC_WORK_RECORD,
    MC_WORK_WAIT, MC_WORK_GRAPH, MC_WORK_BIRTH, MC_WORK_DEATH
} mc_work_kind;

static const char *const mc_work_names[] = {
    "nothing", "a kernel", "a copy", "a memset", "a memory operation", "an event's record",
    "a wait for an event", "a graph", "an allocation", "a free"
};

/* One record of an event: later ones do not change it. */
typedef struct mc_record {
    uint32_t refs;
    int done;
    int captured;                      /* it will never be done */
} mc_record;

typedef struct mc_event {
    mc_object object;
    mc_record *record;                 /* the latest, or NULL */
} mc_event;

enum { MC_WAIT64 = 4, MC_WRITE64 = 5 }; /* CUstreamBatchMemOpType */

typedef struct mc_value {              /* a memory operation */
    uint32_t type;
    mc_address address;
    uint64_t value;
} mc_value;

typedef struct mc_work {
    mc_work_kind kind;
    mc_context *context;
    unsigned char *data;               /* arguments, or NULL */
    union {
        struct {
            mc_function *function;
            uint32_t grid[3], block[3];
            size_t size;
        } kernel;
        struct { mc_address dst, src; uint64_t bytes; } copy;
        struct { mc_address dst; uint64_t pitch, width, height; uint32_t value, element; } set;
        mc_value value;
        mc_record *record;
        struct { struct mc_exec *exec; struct mc_program *program; uint64_t ticket; } graph;
        mc_range *range;
    } u;
} mc_work;

static void mc_graph_work_free(mc_work *w);
static int mc_graph_run(mc_work *w);

/* ---- events and their records ---- */

static void mc_record_unref(mc_record *r) {
    if (r && --r->refs == 0) {
        free(r);
    }
}

static void mc_event_end(void *object) { mc_record_unref(((mc_event *)object)->record); }

/* Gives an event a new record, of which the caller gets a reference. */
static mc_record *mc_event_renew(mc_event *e) {
    mc_record_unref(e->record);
    e->record = (mc_record *)mc_calloc(1, sizeof *e->record);
    e->record->refs = 2;
    return e->record;
}

/* Lets go of what a work holds. */
static void mc_work_free(mc_work *w) {
    if (w->kind == MC_WORK_GRAPH) {
        mc_graph_work_free(w);
    } else if (w->kind == MC_WORK_KERNEL) {
        mc_object_unref(w->u.kernel.function);
    } else if (w->kind == MC_WORK_RECORD || w->kind == MC_WORK_WAIT) {
        mc_record_unref(w->u.record);
    }
    free(w->data);
}

/* ---- what waits ---- */

static int mc_record_ready(const mc_waiter *w) { return ((const mc_record *)w->object)->done; }

static int mc_range_ready(const mc_waiter *w) { return ((const mc_range *)w->object)->born; }

/* ---- doing it: with the lock, which they give up where it takes time ---- */

/* The address that a kernel gets as its i-th parameter, or 0. */
static mc_address mc_kernel_address(mc_work *w, uint32_t i) {
    const mc_param *p = &w->u.kernel.function->params[i];
    mc_address address = 0;
    if (p->size == 8 && p->offset + 8 <= w->u.kernel.size) {
        memcpy(&address, w->data + p->offset, sizeof address);
    }
    return address;
}

/* Arguments that are addresses of memory must be of living memory within reach. */
static int mc_kernel_args_good(mc_work *w) {
    const mc_function *f = w->u.kernel.function;
    for (uint32_t i = 0; i < f->param_count; i++) {
        if (mc_reach(w->context, mc_kernel_address(w, i), 0, f->entry) == MC_NOWHERE) {
            return 0;
        }
    }
    return 1;
}

/* Does a kernel that takes its grid, as a last parameter of three words, get it? Its
   blocks are then a row of as many. */
static int mc_kernel_row(mc_work *w, uint32_t row[3]) {
    const mc_function *f = w->u.kernel.function;
    const mc_param *last = f->param_count ? &f->params[f->param_count - 1] : NULL;
    row[0] = 0;
    if (last && last->size == 12) {
        memcpy(row, w->data + last->offset, 12);
    }
    if (row[0] && (w->u.kernel.grid[0] != row[0] * row[1] * row[2] || w->u.kernel.grid[1] != 1 ||
                   w->u.kernel.grid[2] != 1)) {
        mc_misuse("'%s' is to be %ux%ux%u blocks, and gets another row", f->entry, row[0], row[1],
                  row[2]);
    }
    return row[0] != 0;
}

static int mc_run_kernel(mc_work *w) {
    const mc_function *f = w->u.kernel.function;
    const mc_kernel *kernel = mc_kernel_find(f->entry);
    uint32_t row[3];
    const uint32_t *grid = mc_kernel_row(w, row) ? row : w->u.kernel.grid;
    const uint32_t *block = w->u.kernel.block;
    hcq_block b = {{0, 0, 0}, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
                   NULL};
    uint64_t count = (uint64_t)grid[0] * grid[1] * grid[2];
    int backwards = test_random(&mc_tls.random) % 2 != 0;
    if (!f->module) {
        mc_misuse("the module of '%s' was unloaded", f->entry);
        return 0;
    }
    if (!kernel) {
        mc_misuse("'%s' has no function: mock_cuda_kernel did not tell", f->entry);
        return 0;
    }
    if (!mc_kernel_args_good(w)) {
        return 0;
    }
    mc_tls.in_kernel = 1;
    mc_tls.fault = 0;
    pthread_mutex_unlock(&M.lock);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = backwards ? count - 1 - i : i;
        b.id = (hcq_dims){(uint32_t)(n % grid[0]), (uint32_t)(n / grid[0] % grid[1]),
                          (uint32_t)(n / grid[0] / grid[1])};
        kernel->fn(w->data, &b);
    }
    pthread_mutex_lock(&M.lock);
    mc_tls.in_kernel = 0;
    return mc_tls.fault;
}

static void mc_run_copy(mc_work *w) {
    mc_address dst = w->u.copy.dst, src = w->u.copy.src;
    uint64_t n = w->u.copy.bytes;
    if (!n || mc_reach(w->context, dst, n, "a copy's destination") == MC_NOWHERE) {
        return;
    }
    mc_place place = mc_reach(w->context, src, n, "a copy's source");
    if (place == MC_NOWHERE) {
        return;
    }
    if (place == MC_PAGEABLE || (dst < src + n && src < dst + n)) {
        mc_misuse("a copy's source is not pinned, or overlaps its destination");
        return;
    }
    pthread_mutex_unlock(&M.lock);
    memcpy(mc_host(dst), mc_host(src), n);
    pthread_mutex_lock(&M.lock);
}

static void mc_run_set(mc_work *w) {
    uint64_t width = w->u.set.width, element = w->u.set.element, row = width * element;
    mc_address dst = w->u.set.dst;
    if (!row || !w->u.set.height) {
        return;
    }
    mc_place place = mc_reach(w->context, dst, w->u.set.pitch * (w->u.set.height - 1) + row,
                              "a memset");
    if (place == MC_PAGEABLE) {
        mc_misuse("a memset of memory that is not pinned, at %#llx", mc_u(dst));
    }
    if (place == MC_PAGEABLE || place == MC_NOWHERE) {
        return;
    }
    pthread_mutex_unlock(&M.lock);
    for (uint64_t y = 0; y < w->u.set.height; y++) {
        unsigned char *at = (unsigned char *)mc_host(dst + y * w->u.set.pitch);
        if (element == 1) {
            memset(at, (int)(w->u.set.value & 255), width);
        }
        for (uint64_t x = 0; element == 2 && x < width; x++) {
            memcpy(at + x * element, &w->u.set.value, element); /* little endian, as GPUs are */
        }
        for (uint64_t x = 0; element == 4 && x < width; x++) { /* whole: the host may look */
            __atomic_store_n((uint32_t *)(void *)at + x, (uint32_t)w->u.set.value,
                             __ATOMIC_RELAXED);
        }
    }
    pthread_mutex_lock(&M.lock);
}

static int mc_value_met(const mc_value *v, uint64_t now) {
    return (int64_t)(now - v->value) >= 0;
}

static int mc_value_there(const mc_value *v) {
    return mc_value_met(v, __atomic_load_n((uint64_t *)mc_host(v->address), __ATOMIC_ACQUIRE));
}

static int mc_value_reached(const mc_work *w, const mc_value *v) {
    return mc_reach(w->context, v->address, 8, "a memory operation") > MC_PAGEABLE;
}

/* Nobody says when the word changes: look again and again. */
static void mc_value_wait(mc_work *w, const mc_value *v) {
    uint64_t until = mc_now() + M.desc.watchdog_ms * 1000000ull;
    for (uint32_t turn = 0; !w->context->error && !M.quit && mc_value_reached(w, v); turn++) {
        struct timespec pause = {0, turn < 100 ? 5000 : 100000};
        if (mc_value_there(v)) {
            return;
        }
        if (mc_now() > until) {
            mc_watchdog("a value that a stream waits for");
            return;
        }
        pthread_mutex_unlock(&M.lock);
        if (turn < 16) {
            sched_yield();
        } else {
            nanosleep(&pause, NULL);
        }
        pthread_mutex_lock(&M.lock);
    }
}

static void mc_run_value(mc_work *w) {
    const mc_value *v = &w->u.value;
    if (v->type == MC_WAIT64) {
        mc_value_wait(w, v);
        return;
    }
    if (mc_value_reached(w, v)) {
        __atomic_store_n((uint64_t *)mc_host(v->address), v->value, __ATOMIC_RELEASE);
    }
}

static void mc_run_death(mc_work *w) {
    if (!w->u.range->born) {
        mc_misuse("memory is freed before its allocation in a stream: nothing orders the two");
        mc_wait(mc_range_ready, w->u.range, 0, "an allocation in a stream");
    }
}

/* Does the work, unless it is to fail; returns a sticky error. */
static int mc_work_run(mc_work *w) {
    if (w->kind != MC_WORK_GRAPH && w->kind < MC_WORK_BIRTH && w->kind != MC_WORK_NOTHING) {
        int error = mc_injected("-");
        MC_RULE(!error, error);
    }
    switch (w->kind) {
    case MC_WORK_NOTHING: break;
    case MC_WORK_KERNEL: return mc_run_kernel(w);
    case MC_WORK_COPY: mc_run_copy(w); break;
    case MC_WORK_SET: mc_run_set(w); break;
    case MC_WORK_VALUE: mc_run_value(w); break;
    case MC_WORK_RECORD: w->u.record->done = 1; break;
    case MC_WORK_WAIT:
        mc_wait(mc_record_ready, w->u.record, 0, "an event that a stream waits for");
        break;
    case MC_WORK_GRAPH: return mc_graph_run(w);
    case MC_WORK_BIRTH:
        mc_range_soil(w->u.range);
        w->u.range->born = 1;
        break;
    case MC_WORK_DEATH: mc_run_death(w); break;
    }
    return 0;
}

/* What has to be done for a work even if its context is lost. */
static void mc_work_drop(mc_work *w) {
    if (w->kind == MC_WORK_RECORD) {
        w->u.record->done = 1;
    } else if (w->kind == MC_WORK_BIRTH) {
        w->u.range->born = 1;
    } else if (w->kind == MC_WORK_DEATH) {
        mc_wait(mc_range_ready, w->u.range, 0, "an allocation in a stream");
    } else if (w->kind == MC_WORK_GRAPH) {
        (void)mc_graph_run(w);
    }
}
