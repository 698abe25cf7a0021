/* cuda_queues.h - part of libcuda.c: work queues and their threads, chance,
   streams, enqueueing. */
#pragma once

#include "cuda_work.h"

enum { MC_DELAY_US = 100 };            /* the longest by chance */

typedef struct mc_stream {
    mc_object object;
    mc_queue *queue;
    uint64_t enqueued, done;
    enum { MC_NO_CAPTURE, MC_CAPTURING, MC_CAPTURE_SPOILED } capture;
    const void *capturer;              /* the thread that began it */
} mc_stream;

typedef struct mc_op {
    mc_work work;
    mc_stream *stream;
    struct mc_op *next;                /* in the work queue */
    struct mc_op *older, *newer;       /* of the context */
    uint64_t sequence, pokes, since_ns;
} mc_op;

static int mc_context_ready(const mc_waiter *w) {
    const mc_context *c = (const mc_context *)w->object;
    return !c->first || c->first->sequence > w->value || c->error;
}

static int mc_context_drained(const mc_waiter *w) {
    return !((const mc_context *)w->object)->first;
}

/* ---- the head of a queue: when it begins ---- */

/* Sleeps, at most until then, while the lock is open. */
static void mc_queue_sleep(mc_queue *q, uint64_t until) {
    q->asleep = 1;
    mc_sleep_until(&q->bell, until);
    q->asleep = 0;
}

static void mc_gate_late(mc_queue *q, const mc_op *op) {
    uint64_t until = op->since_ns + MC_LATE_US * 1000ull;
    q->pokes = op->pokes;
    while (!M.quit && !mc_queue_asked(q) && !op->work.context->error && mc_now() < until) {
        q->held = 1;
        mc_queue_sleep(q, until);
    }
    q->held = 0;
}

/* Lets others go ahead of an operation: seldom, for all together must not take long. One
   work queue of four is slow. */
static void mc_gate_random(mc_queue *q) {
    uint64_t r = test_random(&q->random), us = MC_DELAY_US, done = UINT64_MAX;
    uint32_t kind = (uint32_t)(q->slow ? r & 31 : r & 127);
    if (kind > 5) {
        if (kind < 16) {
            pthread_mutex_unlock(&M.lock);
            sched_yield();
            pthread_mutex_lock(&M.lock);
        }
        return;
    }
    if (kind < 3) {
        us = (r >> 8) % us / (kind == 0 ? 1 : 8);
    } else {
        done = M.counts.operations + 1 + (r >> 8) % 4; /* of other work queues */
    }
    uint64_t until = mc_now() + us * 1000;
    while (!M.quit && mc_now() < until && M.counts.operations < done) {
        mc_queue_sleep(q, until);
    }
}

/* ---- ... and its end ---- */

static void mc_op_free(mc_op *op) {
    mc_work_free(&op->work);
    mc_object_unref(op->stream);
    free(op);
}

static void mc_op_finish(mc_queue *q, mc_op *op) {
    mc_context *c = op->work.context;
    q->head = op->next;
    q->count--;
    *(op->older ? &op->older->newer : &c->first) = op->newer;
    *(op->newer ? &op->newer->older : &c->last) = op->older;
    if (op->work.kind == MC_WORK_DEATH) {
        mc_range_free(op->work.u.range);
    } else if (op->work.kind == MC_WORK_KERNEL) {
        op->work.u.kernel.function->pending--;
    }
    M.counts.operations_pending--;
    op->stream->done++;
    mc_wake();
    mc_op_free(op);
}

static void mc_queue_step(mc_queue *q) {
    mc_op *op = q->head;
    int error;
    if (M.desc.flags & MOCK_CUDA_LATE) {
        mc_gate_late(q, op);
    } else {
        mc_gate_random(q);
    }
    mc_tls.running = op->sequence;
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
        if (q->head) {
            mc_queue_step(q);
        } else {
            mc_queue_sleep(q, mc_now() + 3600000000000u);
        }
    }
    pthread_mutex_unlock(&M.lock);
    return NULL;
}

/* ---- enqueueing ---- */

static mc_stream *mc_stream_new(mc_context *c) {
    mc_stream *s = (mc_stream *)mc_object_new(MC_STREAM, sizeof *s, c, NULL);
    mc_device *d = &M.devices[c->device];
    s->queue = &d->queues[d->streams++ % M.desc.queues];
    return s;
}

/* Declares the stream of a call that enqueues; returns, if it has none: the default ones,
   0 to 2, are none here. */
#define MC_OPEN(name, handle) \
    MC_FIND(mc_stream, name, handle, MC_STREAM); \
    MC_RULE(!name->object.context->error, name->object.context->error); \
    MC_RULE(name->capture != MC_CAPTURE_SPOILED, MC_CAPTURE_INVALID)

/* A call that no stream of a context may capture beside, or (NULL) what is unsafe in this
   thread, by its mode: is there one? It is spoiled. */
static int mc_capture_spoiled(const mc_context *c) {
    int found = 0;
    for (uint32_t i = 0; M.captures && i < M.slot_count; i++) {
        mc_object *o = M.slots[i].object;
        mc_stream *s = o && o->kind == MC_STREAM ? (mc_stream *)(void *)o : NULL;
        const int own = s && s->capturer == &mc_tls;
        if (s && s->capture && (c ? o->context == c : mc_tls.mode <= own)) {
            s->capture = MC_CAPTURE_SPOILED;
            found = 1;
        }
    }
    return found;
}

static mc_op *mc_op_new(mc_stream *s, mc_work_kind kind) {
    mc_op *op = (mc_op *)mc_calloc(1, sizeof *op);
    op->work.kind = kind;
    op->work.context = s->object.context;
    op->stream = s;
    s->object.refs++;
    return op;
}

static void mc_queue_start(mc_queue *q) {
    ptrdiff_t number = (char *)q - (char *)M.devices;
    q->random = M.desc.seed * 0x100000001b3ull + (uint64_t)number;
    q->slow = test_random(&q->random) % 4 == 0;
    mc_cond_init(&q->bell);
    q->started = 1;
    if (pthread_create(&q->thread, NULL, mc_queue_main, q) != 0) {
        abort();
    }
}

static int mc_queue_room(const mc_waiter *w) {
    return !M.desc.pending || ((const mc_queue *)w->object)->count < M.desc.pending;
}

/* What a stream captures is dropped. */
static void mc_op_enqueue(mc_op *op) {
    const mc_waiter room = {.object = op->stream->queue};
    mc_queue *q = op->stream->queue;
    mc_context *c = op->work.context;
    if (op->stream->capture) {
        mc_op_free(op);
        return;
    }
    if (M.locked || !mc_queue_room(&room)) {
        mc_driver_lock();
        mc_wait_call(mc_queue_room, q, 0, "room in a work queue");
        mc_driver_unlock();
    }
    q->count++;
    op->sequence = ++M.sequence;
    op->pokes = M.pokes;
    op->since_ns = mc_now();
    op->older = c->last;
    *(c->last ? &c->last->newer : &c->first) = op;
    c->last = op;
    *(q->head ? &q->tail->next : &q->head) = op;
    q->tail = op;
    op->stream->enqueued++;
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

/* ---- looking at what is enqueued ---- */

static int mc_meets(mc_address a, uint64_t a_bytes, const mc_range *r) {
    return a < r->base + r->size && r->base < a + a_bytes;
}

/* Does a work name memory of this range? */
static int mc_work_names_range(mc_work *w, const mc_range *r) {
    switch (w->kind) {
    case MC_WORK_COPY:
        return mc_meets(w->u.copy.dst, w->u.copy.bytes, r) ||
               mc_meets(w->u.copy.src, w->u.copy.bytes, r);
    case MC_WORK_SET: return mc_meets(w->u.set.dst, 1, r);
    case MC_WORK_VALUE: return mc_meets(w->u.value.address, 1, r);
    case MC_WORK_KERNEL:
        for (uint32_t i = 0; i < w->u.kernel.function->param_count; i++) {
            MC_RULE(!mc_meets(mc_kernel_address(w, i), 1, r), 1);
        }
        return 0;
    default: return 0;
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

/* Is a store enqueued, in any stream, that lets this wait go on? */
static int mc_value_coming(const mc_value *wait) {
    for (const mc_context *c = M.contexts; c; c = c->next) {
        for (const mc_op *op = c->first; op; op = op->newer) {
            const mc_value *v = &op->work.u.value;
            if (op->work.kind == MC_WORK_VALUE && v->type == MC_WRITE64 &&
                v->address == wait->address && mc_value_met(wait, v->value)) {
                return 1;
            }
        }
    }
    return 0;
}
