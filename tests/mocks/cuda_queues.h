/* cuda_queues.h - part of libcuda.c: operations, work queues and their
   threads, chance, waiting. */
#ifndef HCQ_TEST_MOCK_CUDA_QUEUES_H
#define HCQ_TEST_MOCK_CUDA_QUEUES_H

/* ---- what there is to do ---- */

typedef enum mc_work_kind {
    MC_WORK_NOTHING, MC_WORK_KERNEL, MC_WORK_COPY, MC_WORK_SET, MC_WORK_VALUES, MC_WORK_RECORD,
    MC_WORK_WAIT, MC_WORK_HOST, MC_WORK_GRAPH, MC_WORK_BIRTH, MC_WORK_DEATH
} mc_work_kind;

static const char *const mc_work_names[] = {
    "nothing", "a kernel", "a copy", "a memset", "memory operations", "an event's record",
    "a wait for an event", "a host function", "a graph", "an allocation", "a free"
};

/* One record of an event: later ones do not change it. */
typedef struct mc_record {
    uint32_t refs;
    int done;
    uint64_t time_ns;
} mc_record;

typedef struct mc_event {
    mc_object object;
    uint32_t flags;
    mc_record *record;                 /* the latest, or NULL */
} mc_event;

typedef struct mc_stream {
    mc_object object;
    mc_queue *queue;
    uint32_t flags;
    int priority;
    uint64_t enqueued, done;
} mc_stream;

enum { /* CUstreamBatchMemOpType */
    MC_WAIT32 = 1, MC_WRITE32 = 2, MC_FLUSH = 3, MC_WAIT64 = 4, MC_WRITE64 = 5, MC_BARRIER = 6
};

typedef struct mc_value {              /* a memory operation */
    uint32_t type, flags;
    mc_address address;
    uint64_t value;
} mc_value;

enum { MC_SMALL = 192 };

typedef struct mc_work {
    mc_work_kind kind;
    mc_context *context;
    unsigned char *large;              /* what does not fit into `small`, or NULL */
    union {
        struct {
            mc_function *function;
            uint32_t grid[3], block[3], shared;
            size_t size;
        } kernel;                      /* arguments: small or large */
        struct { mc_address dst, src; uint64_t bytes; int staged, peer; } copy; /* large */
        struct { mc_address dst; uint64_t pitch, width, height; uint32_t value, element; } set;
        struct { uint32_t count; } values; /* mc_value each: small or large */
        struct { mc_record *record; mc_event *event; } event; /* event: of a node */
        struct { void (*fn)(void *); void *user; } host;
        struct { struct mc_exec *exec; struct mc_program *program; uint64_t ticket; } graph;
        struct { mc_range *range; } memory;
    } u;
    _Alignas(16) unsigned char small[MC_SMALL];
} mc_work;

struct mc_op {
    mc_work work;
    mc_stream *stream;
    mc_op *next;                       /* in the work queue, or unused */
    mc_op *older, *newer;              /* of the context */
    uint64_t sequence, pokes, since_ns;
};

static mc_op *mc_unused_ops;

static unsigned char *mc_work_data(mc_work *w) { return w->large ? w->large : w->small; }

static mc_value *mc_work_values(mc_work *w) { return (mc_value *)(void *)mc_work_data(w); }

static mc_record *mc_record_new(void) {
    mc_record *r = (mc_record *)calloc(1, sizeof *r);
    if (!r) {
        abort();
    }
    r->refs = 1;
    return r;
}

static void mc_record_unref(mc_record *r) {
    if (r && --r->refs == 0) {
        free(r);
    }
}

static void mc_event_unref(mc_event *e) {
    if (e->object.refs == 1) {
        mc_record_unref(e->record);
    }
    mc_object_unref(e);
}

static void mc_graph_work_free(mc_work *w);
static int mc_graph_run(mc_work *w);

/* Lets go of what a work holds. */
static void mc_work_free(mc_work *w) {
    free(w->large);
    w->large = NULL;
    switch (w->kind) {
    case MC_WORK_KERNEL: mc_function_unref(w->u.kernel.function); break;
    case MC_WORK_RECORD:
    case MC_WORK_WAIT:
        mc_record_unref(w->u.event.record);
        if (w->u.event.event) {
            mc_event_unref(w->u.event.event);
        }
        break;
    case MC_WORK_GRAPH: mc_graph_work_free(w); break;
    default: break;
    }
}

/* ---- waiting ---- */

static void mc_queues_ring(void) {
    for (uint32_t d = 0; d < M.desc.devices; d++) {
        for (uint32_t i = 0; i < M.desc.queues; i++) {
            if (M.devices[d].queues[i].asleep) {
                pthread_cond_signal(&M.devices[d].queues[i].bell);
            }
        }
    }
}

static void mc_wake(void) {
    for (mc_waiter *w = M.waiters; w; w = w->next) {
        if (w->ready(w)) {
            pthread_cond_signal(&w->bell);
        }
    }
}

/* Has somebody asked often enough to let this one go? */
static int mc_op_asked(const mc_op *op) {
    return M.syncing || M.pokes - op->pokes >= M.desc.late_polls;
}

/* Somebody asks how far things are. */
static void mc_poke(void) {
    M.pokes++;
    for (uint32_t d = 0; d < M.desc.devices && M.desc.mode == MOCK_CUDA_LATE; d++) {
        for (uint32_t i = 0; i < M.desc.queues; i++) {
            mc_queue *q = &M.devices[d].queues[i];
            if (q->held && mc_op_asked(q->held)) {
                q->held = NULL;
                pthread_cond_signal(&q->bell);
            }
        }
    }
}

static void mc_state_print(void) {
    for (uint32_t d = 0; d < M.desc.devices; d++) {
        for (uint32_t i = 0; i < M.desc.queues; i++) {
            const mc_queue *q = &M.devices[d].queues[i];
            uint64_t n = 0;
            for (const mc_op *op = q->head; op; op = op->next) {
                n++;
            }
            if (n) {
                fprintf(stderr, "CUMOCK: device %u, work queue %u: %s, and %llu behind it\n", d, i,
                        mc_work_names[q->head->work.kind], mc_u(n - 1));
            }
        }
    }
}

static void mc_watchdog(const char *what) {
    if (!M.expects) {
        mc_state_print();
    }
    mc_misuse("%s did not come in %u ms: a deadlock", what, M.desc.watchdog_ms);
}

/* Waits with the lock until `ready`; 0: the watchdog barked. */
static int mc_wait(int (*ready)(const mc_waiter *), void *object, uint64_t value,
                   const char *what) {
    uint64_t until = mc_now() + M.desc.watchdog_ms * 1000000ull;
    mc_waiter w = {.ready = ready, .object = object, .value = value, .next = M.waiters};
    int came = ready(&w);
    if (came) {
        return 1;
    }
    mc_cond_init(&w.bell);
    M.waiters = &w;
    while (!(came = ready(&w)) && !M.quit && mc_now() < until) {
        mc_sleep_until(&w.bell, until);
    }
    mc_waiter **at = &M.waiters;
    while (*at != &w) {
        at = &(*at)->next;
    }
    *at = w.next;
    pthread_cond_destroy(&w.bell);
    if (!came && !M.quit) {
        mc_watchdog(what);
    }
    return came;
}

/* The same, by a call: work that is held back is let go. */
static int mc_wait_call(int (*ready)(const mc_waiter *), void *object, uint64_t value,
                        const char *what) {
    M.syncing++;
    mc_poke();
    int came = mc_wait(ready, object, value, what);
    M.syncing--;
    return came;
}

static int mc_stream_ready(const mc_waiter *w) {
    const mc_stream *s = (const mc_stream *)w->object;
    return s->done >= w->value || s->object.context->error;
}

static int mc_context_ready(const mc_waiter *w) {
    const mc_context *c = (const mc_context *)w->object;
    return !c->first || c->first->sequence > w->value || c->error;
}

static int mc_context_drained(const mc_waiter *w) {
    return !((const mc_context *)w->object)->first;
}

static void mc_may_sync(const char *name) {
    if (M.desc.flags & MOCK_CUDA_SYNCS) {
        mc_wait_call(mc_context_ready, mc_tls.here, M.sequence, name);
    }
}

static int mc_record_ready(const mc_waiter *w) { return ((const mc_record *)w->object)->done; }

static int mc_range_ready(const mc_waiter *w) { return ((const mc_range *)w->object)->born; }

/* ---- errors ---- */

/* From now on everything in this context fails, and nothing of it runs. */
static void mc_poison(mc_context *c, int error) {
    if (!c->error) {
        c->error = error;
        mc_queues_ring();
        mc_wake();
    }
}

/* Is it this operation's turn to fail? */
static int mc_faulted(const mc_work *w) {
    if (!M.fault.on || w->kind == MC_WORK_GRAPH || w->kind == MC_WORK_BIRTH ||
        w->kind == MC_WORK_DEATH || w->kind == MC_WORK_NOTHING ||
        (M.fault.entry[0] && (w->kind != MC_WORK_KERNEL ||
                              strcmp(w->u.kernel.function->entry, M.fault.entry) != 0))) {
        return 0;
    }
    if (M.fault.skip) {
        M.fault.skip--;
        return 0;
    }
    M.fault.on = 0;
    return M.fault.error;
}

/* ---- doing it: with the lock, which they give up where it takes time ---- */

/* Arguments that are addresses of memory must be of living memory within reach. */
static int mc_kernel_args_good(mc_work *w) {
    const mc_function *f = w->u.kernel.function;
    for (uint32_t i = 0; i < f->param_count; i++) {
        mc_address address;
        if (f->params[i].size != 8 || f->params[i].offset + 8 > w->u.kernel.size) {
            continue;
        }
        memcpy(&address, mc_work_data(w) + f->params[i].offset, sizeof address);
        if ((mc_in_region(address) || mc_range_at(address)) &&
            mc_reach(w->context, address, 0, f->entry) == MC_NOWHERE) {
            return 0;
        }
    }
    return 1;
}

static void mc_kernel_blocks(mock_cuda_fn fn, const unsigned char *args, const uint32_t grid[3],
                             const uint32_t block[3]) {
    uint64_t count = (uint64_t)grid[0] * grid[1] * grid[2];
    int backwards = mc_random(&mc_tls.random) % 2 != 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = backwards ? count - 1 - i : i;
        uint32_t id[3];
        id[0] = (uint32_t)(n % grid[0]);
        id[1] = (uint32_t)(n / grid[0] % grid[1]);
        id[2] = (uint32_t)(n / grid[0] / grid[1]);
        fn(args, id, grid, block);
    }
}

static int mc_run_kernel(mc_work *w) {
    mc_function *f = w->u.kernel.function;
    mock_cuda_fn fn = mc_kernel_find(f->entry);
    if (!f->module) {
        mc_misuse("the module of '%s' was unloaded", f->entry);
        return 0;
    }
    if (!fn) {
        mc_misuse("'%s' has no function: mock_cuda_kernel did not tell", f->entry);
        return 0;
    }
    if (!mc_kernel_args_good(w)) {
        return 0;
    }
    M.counts.kernels++;
    M.counts.blocks += (uint64_t)w->u.kernel.grid[0] * w->u.kernel.grid[1] * w->u.kernel.grid[2];
    mc_tls.in_kernel = 1;
    mc_tls.fault = 0;
    pthread_mutex_unlock(&M.lock);
    mc_kernel_blocks(fn, mc_work_data(w), w->u.kernel.grid, w->u.kernel.block);
    pthread_mutex_lock(&M.lock);
    mc_tls.in_kernel = 0;
    return mc_tls.fault;
}

static void mc_run_copy(mc_work *w) {
    mc_address dst = w->u.copy.dst, src = w->u.copy.src;
    uint64_t n = w->u.copy.bytes;
    const void *from = w->u.copy.staged ? w->large : (const void *)(uintptr_t)src;
    M.counts.copies++;
    if (!n) {
        return;
    }
    if (!w->u.copy.peer && (mc_reach(w->context, dst, n, "a copy's destination") == MC_NOWHERE ||
        (!w->u.copy.staged && mc_reach(w->context, src, n, "a copy's source") == MC_NOWHERE))) {
        return;
    }
    if (!w->u.copy.staged && dst < src + n && src < dst + n) {
        mc_misuse("a copy's source and destination overlap");
        return;
    }
    pthread_mutex_unlock(&M.lock);
    memcpy((void *)(uintptr_t)dst, from, n);
    pthread_mutex_lock(&M.lock);
}

static void mc_set_row(unsigned char *at, uint32_t value, uint32_t element, uint64_t width) {
    if (element == 1) {
        memset(at, (int)(value & 255), width);
        return;
    }
    for (uint64_t i = 0; i < width; i++) {
        memcpy(at + i * element, &value, element); /* little endian, as GPUs are */
    }
}

static void mc_run_set(mc_work *w) {
    uint64_t row = w->u.set.width * w->u.set.element;
    uint64_t pitch = w->u.set.height > 1 ? w->u.set.pitch : row;
    mc_address dst = w->u.set.dst;
    uint64_t bytes = w->u.set.height ? pitch * (w->u.set.height - 1) + row : 0;
    M.counts.memsets++;
    if (!bytes || !row) {
        return;
    }
    mc_place place = mc_reach(w->context, dst, bytes, "a memset");
    if (place == MC_PAGEABLE) {
        mc_misuse("a memset of memory that is not pinned, at %#llx", mc_u(dst));
    }
    if (place == MC_PAGEABLE || place == MC_NOWHERE) {
        return;
    }
    pthread_mutex_unlock(&M.lock);
    for (uint64_t y = 0; y < w->u.set.height; y++) {
        mc_set_row((unsigned char *)(uintptr_t)(dst + y * pitch), w->u.set.value,
                   w->u.set.element, w->u.set.width);
    }
    pthread_mutex_lock(&M.lock);
}

static uint64_t mc_value_read(const mc_value *v) {
    return v->type == MC_WAIT64 ?
           __atomic_load_n((const uint64_t *)(uintptr_t)v->address, __ATOMIC_ACQUIRE) :
           __atomic_load_n((const uint32_t *)(uintptr_t)v->address, __ATOMIC_ACQUIRE);
}

static int mc_value_met(const mc_value *v, uint64_t now) {
    switch (v->flags & 3) {
    case 0: return v->type == MC_WAIT64 ? (int64_t)(now - v->value) >= 0 :
                   (int32_t)((uint32_t)now - (uint32_t)v->value) >= 0;
    case 1: return now == v->value;
    case 2: return (now & v->value) != 0;
    default: return v->type == MC_WAIT64 ? ~(now | v->value) != 0 :
                    (uint32_t)~(now | v->value) != 0;
    }
}

static int mc_value_reached(const mc_work *w, const mc_value *v) {
    mc_place place = mc_reach(w->context, v->address, v->type >= MC_WAIT64 ? 8 : 4,
                              "a memory operation");
    if (place == MC_PAGEABLE || place == MC_MANAGED) {
        mc_misuse("a memory operation on memory that is not the device's or pinned, at %#llx",
                  mc_u(v->address));
    }
    return place == MC_PINNED || place == MC_ON_DEVICE;
}

/* Nobody says when the word changes: look again and again. */
static void mc_value_wait(mc_work *w, const mc_value *v) {
    uint64_t until = mc_now() + M.desc.watchdog_ms * 1000000ull;
    for (uint32_t turn = 0; !w->context->error && !M.quit && mc_value_reached(w, v); turn++) {
        struct timespec pause = {0, turn < 100 ? 5000 : 100000};
        if (mc_value_met(v, mc_value_read(v))) {
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

static void mc_run_values(mc_work *w) {
    for (uint32_t i = 0; i < w->u.values.count && !w->context->error; i++) {
        const mc_value *v = &mc_work_values(w)[i];
        if (v->type == MC_WAIT32 || v->type == MC_WAIT64) {
            M.counts.value_waits++;
            mc_value_wait(w, v);
        } else if (v->type == MC_WRITE32 || v->type == MC_WRITE64) {
            M.counts.value_writes++;
            if (!mc_value_reached(w, v)) {
                continue;
            }
            if (v->type == MC_WRITE64) {
                __atomic_store_n((uint64_t *)(uintptr_t)v->address, v->value, __ATOMIC_RELEASE);
            } else {
                __atomic_store_n((uint32_t *)(uintptr_t)v->address, (uint32_t)v->value,
                                 __ATOMIC_RELEASE);
            }
        }
    }
}

static void mc_record_finish(mc_record *r) {
    r->done = 1;
    r->time_ns = mc_now();
}

static void mc_run_host(mc_work *w) {
    M.counts.host_functions++;
    mc_tls.in_host_fn = 1;
    pthread_mutex_unlock(&M.lock);
    w->u.host.fn(w->u.host.user);
    pthread_mutex_lock(&M.lock);
    mc_tls.in_host_fn = 0;
}

/* Does the work, unless it is to fail; returns a sticky error. */
static int mc_work_run(mc_work *w) {
    int error = mc_faulted(w);
    if (error) {
        return error;
    }
    switch (w->kind) {
    case MC_WORK_KERNEL: error = mc_run_kernel(w); break;
    case MC_WORK_COPY: mc_run_copy(w); break;
    case MC_WORK_SET: mc_run_set(w); break;
    case MC_WORK_VALUES: mc_run_values(w); break;
    case MC_WORK_RECORD:
        M.counts.records++;
        mc_record_finish(w->u.event.record);
        break;
    case MC_WORK_WAIT:
        M.counts.event_waits++;
        mc_wait(mc_record_ready, w->u.event.record, 0, "an event that a stream waits for");
        break;
    case MC_WORK_HOST: mc_run_host(w); break;
    case MC_WORK_GRAPH: error = mc_graph_run(w); break;
    case MC_WORK_BIRTH:
        mc_range_soil(w->u.memory.range);
        w->u.memory.range->born = 1;
        break;
    case MC_WORK_DEATH:
        if (!w->u.memory.range->born) {
            mc_misuse("memory is freed before its allocation in a stream: nothing orders the two");
            mc_wait(mc_range_ready, w->u.memory.range, 0, "an allocation in a stream");
        }
        break;
    default: break;
    }
    return error;
}

/* What has to be done for a work even if its context is lost. */
static void mc_work_drop(mc_work *w) {
    M.counts.dropped++;
    if (w->kind == MC_WORK_RECORD) {
        mc_record_finish(w->u.event.record);
    } else if (w->kind == MC_WORK_BIRTH) {
        w->u.memory.range->born = 1;
    } else if (w->kind == MC_WORK_DEATH) {
        mc_wait(mc_range_ready, w->u.memory.range, 0, "an allocation in a stream");
    } else if (w->kind == MC_WORK_GRAPH) {
        (void)mc_graph_run(w);
    }
}

/* ---- work queues ---- */

static void mc_op_finish(mc_queue *q, mc_op *op) {
    mc_context *c = op->work.context;
    mc_stream *s = op->stream;
    q->head = op->next;
    q->tail = q->head ? q->tail : NULL;
    *(op->older ? &op->older->newer : &c->first) = op->newer;
    *(op->newer ? &op->newer->older : &c->last) = op->older;
    if (op->work.kind == MC_WORK_DEATH) {
        mc_range_free(op->work.u.memory.range);
    } else if (op->work.kind == MC_WORK_KERNEL) {
        op->work.u.kernel.function->pending--;
    }
    mc_work_free(&op->work);
    op->next = mc_unused_ops;
    mc_unused_ops = op;
    M.counts.operations_pending--;
    s->done++;
    mc_wake();
    mc_object_unref(s);
}

/* Sleeps, at most until then, while the lock is open. */
static void mc_queue_sleep(mc_queue *q, uint64_t until) {
    q->asleep = 1;
    if (until == UINT64_MAX) {
        pthread_cond_wait(&q->bell, &M.lock);
    } else {
        mc_sleep_until(&q->bell, until);
    }
    q->asleep = 0;
}

static void mc_gate_late(mc_queue *q, const mc_op *op) {
    uint64_t until = op->since_ns + M.desc.late_us * 1000ull;
    while (!M.quit && !mc_op_asked(op) && !op->work.context->error && mc_now() < until) {
        q->held = op;
        mc_queue_sleep(q, until);
    }
    q->held = NULL;
}

/* Lets time pass before an operation: seldom, for all together must not take long. One
   work queue of four is slow. */
static void mc_gate_random(mc_queue *q) {
    uint64_t r = mc_random(&q->random), us = M.desc.delay_us;
    uint64_t now, done = M.counts.operations;
    r = q->slow ? r & ~48ull : r;
    switch (r & 63) {
    case 0: us = (r >> 8) % us; break;
    case 1:
    case 2: us = (r >> 8) % us / 8; break;
    case 3:
    case 4:
    case 5: done += 1 + (r >> 8) % 4; break; /* behind operations of other work queues */
    default:
        us = 0;
        for (uint32_t i = 0; i < 3 && (r & 63) < 16; i++) {
            pthread_mutex_unlock(&M.lock);
            sched_yield();
            pthread_mutex_lock(&M.lock);
        }
        return;
    }
    now = mc_now();
    while (!M.quit && mc_now() < now + us * 1000 &&
           ((r & 63) < 3 || M.counts.operations < done)) {
        mc_queue_sleep(q, now + us * 1000);
    }
}

static void mc_queue_step(mc_queue *q) {
    mc_op *op = q->head;
    int error;
    if (M.desc.mode == MOCK_CUDA_LATE) {
        mc_gate_late(q, op);
    } else if (M.desc.mode == MOCK_CUDA_RANDOM) {
        mc_gate_random(q);
    }
    if (M.paused && !M.quit) {
        return;                        /* since then */
    }
    mc_running = op->sequence;
    mc_tls.where = mc_work_names[op->work.kind];
    if (op->work.context->error || M.quit) {
        mc_work_drop(&op->work);
    } else {
        error = mc_work_run(&op->work);
        M.counts.operations += op->work.kind != MC_WORK_GRAPH;
        if (error) {
            mc_poison(op->work.context, error);
        }
        if (error && op->work.kind != MC_WORK_GRAPH) {
            mc_work_drop(&op->work);
        }
    }
    mc_op_finish(q, op);
}

static void *mc_queue_main(void *argument) {
    mc_queue *q = (mc_queue *)argument;
    pthread_setname_np(pthread_self(), "cumock"); /* not its starter's, which tests count */
    pthread_mutex_lock(&M.lock);
    mc_tls.random = q->random ^ 0x5bd1e995u;
    while (!M.quit) {
        if (q->head && !M.paused) {
            mc_queue_step(q);
        } else {
            mc_queue_sleep(q, UINT64_MAX);
        }
    }
    pthread_mutex_unlock(&M.lock);
    return NULL;
}

static void mc_queue_start(mc_queue *q) {
    q->random = M.desc.seed * 0x100000001b3ull + q->device * 64 + q->index + 1;
    q->slow = mc_random(&q->random) % 4 == 0;
    mc_cond_init(&q->bell);
    q->started = 1;
    if (pthread_create(&q->thread, NULL, mc_queue_main, q) != 0) {
        abort();
    }
}

/* ---- enqueueing ---- */

static mc_op *mc_op_new(mc_stream *s, mc_work_kind kind) {
    mc_op *op = mc_unused_ops;
    if (op) {
        mc_unused_ops = op->next;
    } else {
        op = (mc_op *)malloc(sizeof *op);
    }
    if (!op) {
        abort();
    }
    memset(op, 0, offsetof(mc_op, work.small));
    memset(&op->stream, 0, sizeof *op - offsetof(mc_op, stream));
    op->work.kind = kind;
    op->work.context = s->object.context;
    op->stream = s;
    s->object.refs++;
    return op;
}

/* A work that was not enqueued after all. */
static void mc_op_cancel(mc_op *op) {
    mc_work_free(&op->work);
    mc_object_unref(op->stream);
    op->next = mc_unused_ops;
    mc_unused_ops = op;
}

static void mc_op_push(mc_op *op) {
    mc_stream *s = op->stream;
    mc_queue *q = s->queue;
    mc_context *c = op->work.context;
    op->sequence = ++M.sequence;
    op->pokes = M.pokes;
    op->since_ns = M.desc.mode == MOCK_CUDA_LATE ? mc_now() : 0;
    op->older = c->last;
    *(c->last ? &c->last->newer : &c->first) = op;
    c->last = op;
    *(q->head ? &q->tail->next : &q->head) = op;
    q->tail = op;
    s->enqueued++;
    M.counts.operations_pending++;
    if (op->work.kind == MC_WORK_KERNEL) {
        op->work.u.kernel.function->pending++;
    }
    if (!q->started) {
        mc_queue_start(q);
    } else if (q->asleep) {
        pthread_cond_signal(&q->bell);
    }
}

/* Lets `later` wait for all that is in `sooner` now. */
static void mc_stream_after(mc_stream *later, mc_stream *sooner) {
    mc_op *record = mc_op_new(sooner, MC_WORK_RECORD), *wait = mc_op_new(later, MC_WORK_WAIT);
    record->work.u.event.record = wait->work.u.event.record = mc_record_new();
    record->work.u.event.record->refs = 2;
    mc_op_push(record);
    mc_op_push(wait);
}

/* The legacy default stream waits for all streams but those that are NON_BLOCKING, and
   they for it. */
static void mc_stream_legacy(mc_stream *s) {
    mc_context *c = s->object.context;
    mc_stream *legacy = c->null_stream;
    if (!legacy || s->flags & 1) {
        return;
    }
    if (s != legacy) {
        if (legacy->done < legacy->enqueued) {
            mc_stream_after(s, legacy);
        }
        return;
    }
    for (uint32_t i = 0; i < M.slot_count; i++) {
        mc_object *o = M.slots[i].object;
        mc_stream *other = o && o->kind == MC_STREAM ? (mc_stream *)(void *)o : NULL;
        if (other && o->context == c && other != s && !(other->flags & 1) &&
            other->done < other->enqueued) {
            mc_stream_after(s, other);
        }
    }
}

static void mc_op_enqueue(mc_op *op) {
    mc_stream_legacy(op->stream);
    mc_op_push(op);
}

/* ---- looking at what is enqueued ---- */

static int mc_meets(mc_address a, uint64_t a_bytes, const mc_range *r) {
    return a < r->base + r->size && r->base < a + (a_bytes ? a_bytes : 1);
}

/* Does a work name memory of this range? */
static int mc_work_names_range(mc_work *w, const mc_range *r) {
    switch (w->kind) {
    case MC_WORK_COPY:
        return mc_meets(w->u.copy.dst, w->u.copy.bytes, r) ||
               (!w->u.copy.staged && mc_meets(w->u.copy.src, w->u.copy.bytes, r));
    case MC_WORK_SET:
        return mc_meets(w->u.set.dst, 1, r);
    case MC_WORK_VALUES:
        for (uint32_t i = 0; i < w->u.values.count; i++) {
            if (mc_meets(mc_work_values(w)[i].address, 4, r)) {
                return 1;
            }
        }
        return 0;
    case MC_WORK_KERNEL:
        for (uint32_t i = 0; i < w->u.kernel.function->param_count; i++) {
            const mc_param *p = &w->u.kernel.function->params[i];
            mc_address address = 0;
            if (p->size == 8 && p->offset + 8 <= w->u.kernel.size) {
                memcpy(&address, mc_work_data(w) + p->offset, sizeof address);
            }
            if (mc_meets(address, 1, r)) {
                return 1;
            }
        }
        return 0;
    default:
        return 0;
    }
}

/* Is something enqueued, of any context, that names memory of this range? */
static mc_op *mc_range_used(const mc_range *r) {
    for (mc_context *c = M.contexts; c; c = c->next) {
        for (mc_op *op = c->error ? NULL : c->first; op; op = op->newer) {
            if (mc_work_names_range(&op->work, r)) {
                return op;
            }
        }
    }
    return NULL;
}

/* Does a work have a store that lets this wait go on? */
static int mc_work_stores(mc_work *w, const mc_value *wait) {
    for (uint32_t i = 0; w->kind == MC_WORK_VALUES && i < w->u.values.count; i++) {
        const mc_value *v = &mc_work_values(w)[i];
        if ((v->type == MC_WRITE32 || v->type == MC_WRITE64) && v->address == wait->address &&
            mc_value_met(wait, v->value)) {
            return 1;
        }
    }
    return 0;
}

static int mc_graph_stores(const mc_work *w, const mc_value *wait);

/* Is such a store enqueued, in any stream? */
static int mc_value_coming(const mc_value *wait) {
    for (mc_context *c = M.contexts; c; c = c->next) {
        for (mc_op *op = c->first; op; op = op->newer) {
            if (mc_work_stores(&op->work, wait) ||
                (op->work.kind == MC_WORK_GRAPH && mc_graph_stores(&op->work, wait))) {
                return 1;
            }
        }
    }
    return 0;
}

#endif /* HCQ_TEST_MOCK_CUDA_QUEUES_H */
