/* cuda_streams.h - part of libcuda.c: streams, events, what is put into
   streams. */
#ifndef HCQ_TEST_MOCK_CUDA_STREAMS_H
#define HCQ_TEST_MOCK_CUDA_STREAMS_H

/* ---- streams ---- */

static mc_stream *mc_stream_new(mc_context *c, unsigned flags, int priority) {
    mc_stream *s = (mc_stream *)mc_object_new(MC_STREAM, sizeof *s, c);
    mc_device *d = &M.devices[c->device];
    uint32_t index = d->streams++ % M.desc.queues;
    s->queue = &d->queues[index];
    s->queue->device = c->device;
    s->queue->index = index;
    s->flags = flags;
    s->priority = priority;
    return s;
}

/* The stream of a handle. 0, 1 and 2 are the current context's default stream. */
static mc_stream *mc_stream_find(mc_handle stream) {
    if ((uintptr_t)stream > 2) {
        return (mc_stream *)mc_find(stream, MC_STREAM);
    }
    if (!mc_tls.here->null_stream) {
        mc_tls.here->null_stream = mc_stream_new(mc_tls.here, 0, 0);
        M.counts.streams--;
    }
    return mc_tls.here->null_stream;
}

MC_API(cuStreamCreateWithPriority, mc_handle *stream, unsigned flags, int priority) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!stream || flags > 1) {
        return mc_leave(MC_INVALID);
    }
    *stream = mc_handle_of(mc_stream_new(mc_tls.here, flags, priority));
    return mc_leave(MC_OK);
}

MC_API(cuStreamCreate, mc_handle *stream, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!stream || flags > 1) {
        return mc_leave(MC_INVALID);
    }
    *stream = mc_handle_of(mc_stream_new(mc_tls.here, flags, 0));
    return mc_leave(MC_OK);
}

MC_API(cuStreamDestroy_v2, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = (mc_stream *)mc_find(stream, MC_STREAM);
    if (!s) {
        return mc_leave(MC_BAD_HANDLE);
    }
    if (s->object.context->error) {
        return mc_leave(s->object.context->error);
    }
    mc_object_forget(s);
    mc_object_unref(s);
    return mc_leave(MC_OK);
}

MC_API(cuStreamGetCtx, mc_handle stream, mc_handle *context) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(stream);
    if (!s || !context) {
        return mc_leave(s ? MC_INVALID : MC_BAD_HANDLE);
    }
    *context = mc_handle_of(s->object.context);
    return mc_leave(MC_OK);
}

MC_API(cuStreamGetFlags, mc_handle stream, unsigned *flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(stream);
    if (!s || !flags) {
        return mc_leave(s ? MC_INVALID : MC_BAD_HANDLE);
    }
    *flags = s->flags;
    return mc_leave(MC_OK);
}

MC_API(cuStreamGetPriority, mc_handle stream, int *priority) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(stream);
    if (!s || !priority) {
        return mc_leave(s ? MC_INVALID : MC_BAD_HANDLE);
    }
    *priority = s->priority;
    return mc_leave(MC_OK);
}

MC_API(cuStreamQuery, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(stream);
    if (!s) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_poke();
    return mc_leave(s->object.context->error ? s->object.context->error :
                    s->done < s->enqueued ? MC_NOT_READY : MC_OK);
}

static int mc_stream_sync(mc_stream *s) {
    mc_context *c = s->object.context;
    s->object.refs++;
    int came = mc_wait_call(mc_stream_ready, s, s->enqueued, "a stream");
    mc_object_unref(s);
    mc_pools_trim();
    return c->error ? c->error : came ? MC_OK : 999;
}

MC_API(cuStreamSynchronize, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(stream);
    return mc_leave(s ? mc_stream_sync(s) : MC_BAD_HANDLE);
}

/* The stream of a call that enqueues; else `*error` is set. */
static mc_stream *mc_stream_open(mc_handle stream, int *error) {
    mc_stream *s = mc_stream_find(stream);
    *error = s ? s->object.context->error : MC_BAD_HANDLE;
    return *error ? NULL : s;
}

/* ---- events ---- */

MC_API(cuEventCreate, mc_handle *event, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!event || flags > 7 || ((flags & 4) && !(flags & 2))) {
        return mc_leave(MC_INVALID);
    }
    mc_event *e = (mc_event *)mc_object_new(MC_EVENT, sizeof *e, mc_tls.here);
    e->flags = flags;
    *event = mc_handle_of(e);
    return mc_leave(MC_OK);
}

MC_API(cuEventDestroy_v2, mc_handle event) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_event *e = (mc_event *)mc_find(event, MC_EVENT);
    if (!e) {
        return mc_leave(MC_BAD_HANDLE);
    }
    if (e->object.context->error) {
        return mc_leave(e->object.context->error);
    }
    mc_object_forget(e);
    mc_event_unref(e);
    return mc_leave(MC_OK);
}

/* Gives an event a new record, of which the caller gets a reference. */
static mc_record *mc_event_renew(mc_event *e) {
    mc_record_unref(e->record);
    e->record = mc_record_new();
    e->record->refs++;
    return e->record;
}

MC_API(cuEventRecord, mc_handle event, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_event *e = (mc_event *)mc_find(event, MC_EVENT);
    mc_stream *s = mc_stream_open(stream, &error);
    if (!e || !s) {
        return mc_leave(e ? error : MC_BAD_HANDLE);
    }
    if (e->object.context != s->object.context) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_op *op = mc_op_new(s, MC_WORK_RECORD);
    op->work.u.event.record = mc_event_renew(e);
    mc_op_enqueue(op);
    return mc_leave(MC_OK);
}

MC_API(cuEventQuery, mc_handle event) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_event *e = (mc_event *)mc_find(event, MC_EVENT);
    if (!e) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_poke();
    return mc_leave(e->object.context->error ? e->object.context->error :
                    e->record && !e->record->done ? MC_NOT_READY : MC_OK);
}

MC_API(cuEventSynchronize, mc_handle event) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_event *e = (mc_event *)mc_find(event, MC_EVENT);
    if (!e) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_context *c = e->object.context;
    mc_record *r = e->record;
    int came = 1;
    if (r && !c->error) {
        r->refs++;
        came = mc_wait_call(mc_record_ready, r, 0, "an event");
        mc_record_unref(r);
        mc_pools_trim();
    }
    return mc_leave(c->error ? c->error : came ? MC_OK : 999);
}

MC_API(cuEventElapsedTime, float *ms, mc_handle start, mc_handle end) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_event *a = (mc_event *)mc_find(start, MC_EVENT), *b = (mc_event *)mc_find(end, MC_EVENT);
    if (!a || !b || !ms) {
        return mc_leave(a && b ? MC_INVALID : MC_BAD_HANDLE);
    }
    if ((a->flags | b->flags) & 2 || !a->record || !b->record ||
        a->object.context != b->object.context) {
        return mc_leave(MC_BAD_HANDLE);
    }
    if (!a->record->done || !b->record->done) {
        return mc_leave(MC_NOT_READY);
    }
    double ns = (double)(int64_t)(b->record->time_ns - a->record->time_ns);
    *ms = (float)((double)(int64_t)(ns / 500.0) * 0.0005);
    return mc_leave(MC_OK);
}

MC_API(cuStreamWaitEvent, mc_handle stream, mc_handle event, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_event *e = (mc_event *)mc_find(event, MC_EVENT);
    mc_stream *s = mc_stream_open(stream, &error);
    if (!e || !s || flags) {
        return mc_leave(!e ? MC_BAD_HANDLE : !s ? error : MC_INVALID);
    }
    if (e->object.context->error) {
        return mc_leave(e->object.context->error);
    }
    if (!e->record && M.desc.flags & MOCK_CUDA_NO_EARLY_WAITS) {
        return mc_leave(mc_misuse("a stream waits for an event that was never recorded"));
    }
    if (e->record) {                   /* one that was not recorded holds nobody up */
        mc_op *op = mc_op_new(s, MC_WORK_WAIT);
        op->work.u.event.record = e->record;
        e->record->refs++;
        mc_op_enqueue(op);
    }
    return mc_leave(MC_OK);
}

/* ---- kernels ---- */

/* Fills in a launch; mc_work_free is due in any case. */
static int mc_launch_fill(mc_work *w, mc_function *f, const uint32_t grid[3],
                          const uint32_t block[3], uint32_t shared, void **params, void **extra) {
    unsigned char *args = w->small;
    int error;
    w->kind = MC_WORK_KERNEL;
    w->large = NULL;
    w->u.kernel.function = f;
    f->object.refs++;
    memcpy(w->u.kernel.grid, grid, sizeof w->u.kernel.grid);
    memcpy(w->u.kernel.block, block, sizeof w->u.kernel.block);
    w->u.kernel.shared = shared;
    w->u.kernel.size = 0;
    error = mc_function_check(f, grid, block, shared);
    if (!error) {
        error = mc_args_take(f, params, extra, w->small, sizeof w->small, &args,
                             &w->u.kernel.size);
        w->large = args == w->small ? NULL : args;
    }
    return error;
}

MC_API(cuLaunchKernel, mc_handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
       unsigned by, unsigned bz, unsigned shared, mc_handle stream, void **params,
       void **extra) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    int error;
    mc_function *f = (mc_function *)mc_find(function, MC_FUNCTION);
    mc_stream *s = mc_stream_open(stream, &error);
    if (!f || !s) {
        return mc_leave(f ? error : MC_BAD_HANDLE);
    }
    if (f->object.context != s->object.context) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_function_launched(f);
    mc_op *op = mc_op_new(s, MC_WORK_KERNEL);
    error = mc_launch_fill(&op->work, f, grid, block, shared, params, extra);
    if (error) {
        mc_op_cancel(op);
    } else {
        mc_op_enqueue(op);
    }
    return mc_leave(error);
}

MC_API(cuLaunchHostFunc, mc_handle stream, void (*fn)(void *), void *user) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    if (!s || !fn) {
        return mc_leave(s ? MC_INVALID : error);
    }
    mc_op *op = mc_op_new(s, MC_WORK_HOST);
    op->work.u.host.fn = fn;
    op->work.u.host.user = user;
    mc_op_enqueue(op);
    return mc_leave(MC_OK);
}

/* ---- copies and memsets ---- */

static int mc_pageable(mc_address address) {
    return !mc_range_at(address) && !mc_in_region(address);
}

/* A copy. What is not pinned is read now and written before the call returns, as
   drivers do more or less. */
static int mc_copy(mc_stream *s, mc_address dst, mc_address src, size_t bytes, int peer) {
    int from = bytes && mc_pageable(src), to = bytes && mc_pageable(dst);
    if ((from || to) && M.desc.flags & MOCK_CUDA_PAGEABLE_IS_MISUSE) {
        return mc_misuse("a copy from or to memory that is not pinned: %#llx to %#llx", mc_u(src),
                         mc_u(dst));
    }
    mc_op *op = mc_op_new(s, MC_WORK_COPY);
    op->work.u.copy.dst = dst;
    op->work.u.copy.src = src;
    op->work.u.copy.bytes = bytes;
    op->work.u.copy.peer = peer;
    op->work.u.copy.staged = from;
    if (from) {
        op->work.large = (unsigned char *)malloc(bytes);
        if (!op->work.large) {
            abort();
        }
        memcpy(op->work.large, (const void *)(uintptr_t)src, bytes);
    }
    M.counts.pageable_copies += from || to;
    mc_op_enqueue(op);
    return to ? mc_stream_sync(s) : MC_OK;
}

MC_API(cuMemcpyAsync, mc_address dst, mc_address src, size_t bytes, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    return mc_leave(s ? mc_copy(s, dst, src, bytes, 0) : error);
}

MC_API(cuMemcpyPeerAsync, mc_address dst, mc_handle dst_context, mc_address src,
       mc_handle src_context, size_t bytes, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    if (!mc_find(dst_context, MC_CONTEXT) || !mc_find(src_context, MC_CONTEXT)) {
        return mc_leave(MC_NO_CONTEXT);
    }
    return mc_leave(s ? mc_copy(s, dst, src, bytes, 1) : error);
}

MC_API(cuMemcpyHtoD_v2, mc_address dst, const void *src, size_t bytes) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(NULL);
    int error = mc_copy(s, dst, (mc_address)(uintptr_t)src, bytes, 0);
    return mc_leave(error ? error : mc_stream_sync(s));
}

MC_API(cuMemcpyDtoH_v2, void *dst, mc_address src, size_t bytes) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_stream *s = mc_stream_find(NULL);
    int error = mc_copy(s, (mc_address)(uintptr_t)dst, src, bytes, 0);
    return mc_leave(error ? error : mc_stream_sync(s));
}

static int mc_set(mc_handle stream, mc_address dst, uint32_t value, uint32_t element,
                  uint64_t width, uint64_t height, uint64_t pitch) {
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    if (!s) {
        return error;
    }
    if (dst % element || pitch % element || (height > 1 && pitch < width * element)) {
        return MC_INVALID;
    }
    mc_op *op = mc_op_new(s, MC_WORK_SET);
    op->work.u.set.dst = dst;
    op->work.u.set.value = value;
    op->work.u.set.element = element;
    op->work.u.set.width = width;
    op->work.u.set.height = height;
    op->work.u.set.pitch = pitch;
    mc_op_enqueue(op);
    return MC_OK;
}

MC_API(cuMemsetD8Async, mc_address dst, unsigned char value, size_t count, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_leave(mc_set(stream, dst, value, 1, count, 1, 0));
}

MC_API(cuMemsetD16Async, mc_address dst, unsigned short value, size_t count, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_leave(mc_set(stream, dst, value, 2, count, 1, 0));
}

MC_API(cuMemsetD32Async, mc_address dst, unsigned value, size_t count, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_leave(mc_set(stream, dst, value, 4, count, 1, 0));
}

MC_API(cuMemsetD2D32Async, mc_address dst, size_t pitch, unsigned value, size_t width,
       size_t height, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_leave(mc_set(stream, dst, value, 4, width, height, pitch));
}

/* ---- memory operations ---- */

/* Looks at one; `old`: by a function without _v2. */
static int mc_value_check(const mc_value *v, int old) {
    uint32_t need = old ? MOCK_CUDA_MEMOPS_V1 : 0;
    uint32_t bytes = v->type == MC_WAIT64 || v->type == MC_WRITE64 ? 8 : 4;
    mc_range *r = mc_range_at(v->address);
    int waits = v->type == MC_WAIT32 || v->type == MC_WAIT64;
    if (M.desc.flags & MOCK_CUDA_NO_MEMOPS || (M.desc.flags & need) != need) {
        return MC_NOT_SUPPORTED;
    }
    if (v->type == MC_BARRIER || v->type == MC_FLUSH) {
        return v->type == MC_FLUSH || old ? MC_NOT_SUPPORTED : MC_OK;
    }
    if (v->type < MC_WAIT32 || v->type > MC_BARRIER) {
        return mc_misuse("%u is no kind of memory operation", v->type);
    }
    if (v->address % bytes) {
        return mc_misuse("a memory operation of %u bytes at %#llx", bytes, mc_u(v->address));
    }
    if (r && r->kind == MC_RANGE_MANAGED) {
        return MC_INVALID;
    }
    if (!r) {
        return mc_misuse("a memory operation on memory that is not the device's or pinned, at "
                         "%#llx", mc_u(v->address));
    }
    if (waits && M.desc.flags & MOCK_CUDA_NO_WAIT_VALUES) {
        return mc_misuse("a stream waits for a value");
    }
    return v->flags > (waits ? 3u : old ? 1u : 0u) ? MC_INVALID : MC_OK;
}

/* Is this a wait for what nobody is going to store? */
static int mc_value_early(const mc_value *v) {
    if ((v->type != MC_WAIT32 && v->type != MC_WAIT64) || mc_value_met(v, mc_value_read(v)) ||
        mc_value_coming(v)) {
        return MC_OK;
    }
    M.counts.value_waits_early++;
    return M.desc.flags & MOCK_CUDA_NO_EARLY_WAITS ?
           mc_misuse("a stream waits for a value that nothing enqueued stores") : MC_OK;
}

static int mc_values(mc_handle stream, uint32_t type, mc_address address, uint64_t value,
                     uint32_t flags, int old) {
    mc_value v = {.type = type, .flags = flags, .address = address, .value = value};
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    error = s ? mc_value_check(&v, old) : error;
    if (error) {
        return error;
    }
    error = mc_value_early(&v);
    if (error) {
        return error;
    }
    mc_op *op = mc_op_new(s, MC_WORK_VALUES);
    op->work.u.values.count = 1;
    memcpy(op->work.small, &v, sizeof v);
    mc_op_enqueue(op);
    return MC_OK;
}

#define MC_VALUE_API(name, value_type, kind, old) \
    MC_API(name, mc_handle stream, mc_address address, value_type value, unsigned flags) { \
        MC_ENTER(MC_NEEDS_CONTEXT) \
        return mc_leave(mc_values(stream, kind, address, value, flags, old)); \
    }

MC_VALUE_API(cuStreamWaitValue32, uint32_t, MC_WAIT32, 1)
MC_VALUE_API(cuStreamWaitValue64, uint64_t, MC_WAIT64, 1)
MC_VALUE_API(cuStreamWriteValue32, uint32_t, MC_WRITE32, 1)
MC_VALUE_API(cuStreamWriteValue64, uint64_t, MC_WRITE64, 1)
#if MOCK_CUDA_VERSION >= 11070
MC_VALUE_API(cuStreamWaitValue32_v2, uint32_t, MC_WAIT32, 0)
MC_VALUE_API(cuStreamWaitValue64_v2, uint64_t, MC_WAIT64, 0)
MC_VALUE_API(cuStreamWriteValue32_v2, uint32_t, MC_WRITE32, 0)
MC_VALUE_API(cuStreamWriteValue64_v2, uint64_t, MC_WRITE64, 0)

/* CUstreamBatchMemOpParams: all its structs are laid out like this one. */
typedef struct mc_batch_params {
    uint32_t operation;
    mc_address address;
    uint64_t value;
    uint32_t flags;
    mc_address alias;
    uint64_t pad;
} mc_batch_params;

/* Takes a batch into a work; mc_work_free is due in any case. */
static int mc_values_fill(mc_work *w, const mc_batch_params *params, unsigned count) {
    w->kind = MC_WORK_VALUES;
    w->u.values.count = count;
    w->large = count * sizeof(mc_value) > sizeof w->small ?
               (unsigned char *)calloc(count, sizeof(mc_value)) : NULL;
    for (unsigned i = 0; i < count; i++) {
        mc_value *v = &mc_work_values(w)[i];
        int error;
        v->type = params[i].operation;
        v->address = params[i].address;
        v->flags = params[i].flags;
        v->value = params[i].value;
        if (v->type == MC_WAIT32 || v->type == MC_WRITE32) {
            v->value = (uint32_t)v->value; /* the other half is not set */
        }
        error = mc_value_check(v, 0);
        if (error) {
            return error;
        }
    }
    return count && count < 256 ? MC_OK : MC_INVALID;
}

MC_API(cuStreamBatchMemOp_v2, mc_handle stream, unsigned count, const mc_batch_params *params,
       unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    if (!s || !params || flags) {
        return mc_leave(s ? MC_INVALID : error);
    }
    mc_op *op = mc_op_new(s, MC_WORK_VALUES);
    error = mc_values_fill(&op->work, params, count);
    for (unsigned i = 0; i < count && !error; i++) {
        error = mc_value_early(&mc_work_values(&op->work)[i]);
    }
    if (error) {
        mc_op_cancel(op);
    } else {
        mc_op_enqueue(op);
    }
    return mc_leave(error);
}
#endif

#endif /* HCQ_TEST_MOCK_CUDA_STREAMS_H */
