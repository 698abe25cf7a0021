/* cuda_streams.h - part of libcuda.c: streams, events, what is put into
   streams. */
#pragma once

#include "cuda_queues.h"

/* ---- streams ---- */

MC_API(cuStreamCreateWithPriority, mc_handle *stream, unsigned flags, int priority) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    (void)priority;
    MC_RULE(stream && flags == 1, MC_INVALID); /* the mock has none that are blocking */
    *stream = mc_handle_of(mc_stream_new(mc_tls.here));
    return MC_OK;
}

MC_API(cuStreamDestroy_v2, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_stream, s, stream, MC_STREAM);
    MC_RULE(!s->object.context->error, s->object.context->error);
    mc_object_drop(s);
    return MC_OK;
}

/* Nobody may ask for a stream that captures, or wait for it. */
static int mc_stream_spoiled(mc_stream *s) {
    s->capture = s->capture ? MC_CAPTURE_SPOILED : MC_NO_CAPTURE;
    return s->capture != MC_NO_CAPTURE;
}

MC_API(cuStreamQuery, mc_handle stream) {
    MC_ENTER(MC_UNSAFE)
    MC_OPEN(s, stream);
    MC_RULE(!mc_stream_spoiled(s), MC_CAPTURE_FORBIDS);
    mc_poke();
    return s->done < s->enqueued ? MC_NOT_READY : MC_OK;
}

static int mc_stream_ready(const mc_waiter *w) {
    const mc_stream *s = (const mc_stream *)w->object;
    return s->done >= w->value || s->object.context->error;
}

static int mc_stream_sync(mc_stream *s) {
    mc_context *c = s->object.context;
    s->object.refs++;
    int came = mc_wait_call(mc_stream_ready, s, s->enqueued, "a stream");
    mc_object_unref(s);
    mc_pools_trim();
    return c->error ? c->error : came ? MC_OK : MC_UNKNOWN;
}

MC_API(cuStreamSynchronize, mc_handle stream) {
    MC_ENTER(MC_UNSAFE)
    MC_OPEN(s, stream);
    MC_RULE(!mc_stream_spoiled(s), MC_CAPTURE_FORBIDS);
    return mc_stream_sync(s);
}

/* ---- events ---- */

MC_API(cuEventCreate, mc_handle *event, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_RULE(event && flags <= 3, MC_INVALID);
    *event = mc_handle_of(mc_object_new(MC_EVENT, sizeof(mc_event), mc_tls.here, mc_event_end));
    return MC_OK;
}

/* Declares an event of a context without an error; returns, if it is none. */
#define MC_EVENT_OPEN(name, handle) \
    MC_FIND(mc_event, name, handle, MC_EVENT); \
    MC_RULE(!name->object.context->error, name->object.context->error)

MC_API(cuEventDestroy_v2, mc_handle event) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_EVENT_OPEN(e, event);
    mc_object_drop(e);
    return MC_OK;
}

MC_API(cuEventRecord, mc_handle event, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_EVENT_OPEN(e, event);
    MC_OPEN(s, stream);
    MC_RULE(e->object.context == s->object.context, MC_BAD_HANDLE);
    mc_op *op = mc_op_new(s, MC_WORK_RECORD);
    op->work.u.record = mc_event_renew(e);
    e->record->captured = s->capture != MC_NO_CAPTURE;
    mc_op_enqueue(op);
    return MC_OK;
}

MC_API(cuEventQuery, mc_handle event) {
    MC_ENTER(MC_UNSAFE)
    MC_EVENT_OPEN(e, event);
    MC_RULE(!e->record || !e->record->captured, MC_CAPTURED_EVENT);
    mc_poke();
    return e->record && !e->record->done ? MC_NOT_READY : MC_OK;
}

MC_API(cuEventSynchronize, mc_handle event) {
    MC_ENTER(MC_UNSAFE)
    MC_EVENT_OPEN(e, event);
    mc_context *c = e->object.context;
    mc_record *r = e->record;
    MC_RULE(r, MC_OK);
    MC_RULE(!r->captured, MC_CAPTURED_EVENT);
    r->refs++;
    int came = mc_wait_call(mc_record_ready, r, 0, "an event");
    mc_record_unref(r);
    mc_pools_trim();
    return c->error ? c->error : came ? MC_OK : MC_UNKNOWN;
}

MC_API(cuStreamWaitEvent, mc_handle stream, mc_handle event, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_EVENT_OPEN(e, event);
    MC_OPEN(s, stream);
    MC_RULE(!flags, MC_INVALID);
    MC_RULE(e->record || !(M.desc.flags & MOCK_CUDA_NO_EARLY_WAITS),
            mc_misuse("a stream waits for an event that was never recorded"));
    MC_RULE(e->record, MC_OK);         /* it holds nobody up */
    MC_RULE(s->capture || !e->record->captured, mc_misuse("the mock's captures have one stream"));
    MC_RULE(e->record->captured || !mc_stream_spoiled(s), MC_CAPTURE_ISOLATION);
    mc_op *op = mc_op_new(s, MC_WORK_WAIT);
    op->work.u.record = e->record;
    e->record->refs++;
    mc_op_enqueue(op);
    return MC_OK;
}

/* ---- kernels ---- */

/* Fills in a launch; mc_work_free is due in any case. */
static int mc_launch_fill(mc_work *w, mc_function *f, const uint32_t grid[3],
                          const uint32_t block[3], uint32_t shared, void **params, void **extra) {
    w->kind = MC_WORK_KERNEL;
    w->u.kernel.function = f;
    f->object.refs++;
    memcpy(w->u.kernel.grid, grid, sizeof w->u.kernel.grid);
    memcpy(w->u.kernel.block, block, sizeof w->u.kernel.block);
    int error = mc_function_check(f, grid, block, shared);
    return error ? error : mc_args_take(f, params, extra, &w->data, &w->u.kernel.size);
}

MC_API(cuLaunchKernel, mc_handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
       unsigned by, unsigned bz, unsigned shared, mc_handle stream, void **params,
       void **extra) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    MC_FIND(mc_function, f, function, MC_FUNCTION);
    MC_OPEN(s, stream);
    MC_RULE(f->object.context == s->object.context, MC_BAD_HANDLE);
    mc_function_launched(f);
    mc_op *op = mc_op_new(s, MC_WORK_KERNEL);
    int error = mc_launch_fill(&op->work, f, grid, block, shared, params, extra);
    if (error) {
        mc_op_free(op);
    } else {
        mc_op_enqueue(op);
    }
    return error;
}

/* ---- copies and memsets ---- */

/* A copy. What is not pinned is written before the call returns, and so is what comes from
   pinned memory to such: the caller copies that, when the stream is there. */
static int mc_copy(mc_stream *s, mc_address dst, mc_address src, size_t bytes) {
    int to = bytes && !mc_range_at(dst) && !mc_in_region(dst);
    int hosts = bytes && mc_is_callers(dst, src) && !s->capture;
    MC_RULE(!to || !(M.desc.flags & MOCK_CUDA_PAGEABLE_IS_MISUSE),
            mc_misuse("a copy to memory that is not pinned: %#llx", mc_u(dst)));
    mc_op *op = mc_op_new(s, MC_WORK_COPY);
    op->work.u.copy.dst = dst;
    op->work.u.copy.src = src;
    op->work.u.copy.bytes = bytes;
    mc_op_enqueue(op);
    return to || hosts ? mc_stream_sync(s) : MC_OK;
}

MC_API(cuMemcpyAsync, mc_address dst, mc_address src, size_t bytes, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_OPEN(s, stream);
    return mc_copy(s, dst, src, bytes);
}

#define MC_SET_API(name, value_type, bytes) \
    MC_API(name, mc_address dst, value_type value, size_t count, mc_handle stream) { \
        MC_ENTER(MC_NEEDS_CONTEXT) \
        return mc_set(stream, dst, value, bytes, count, 1, 0); \
    }

static int mc_set(mc_handle stream, mc_address dst, uint32_t value, uint32_t element,
                  uint64_t width, uint64_t height, uint64_t pitch) {
    MC_OPEN(s, stream);
    MC_RULE(dst % element == 0 && pitch % element == 0, MC_INVALID);
    MC_RULE(height <= 1 || pitch >= width * element, MC_INVALID);
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

MC_SET_API(cuMemsetD8Async, unsigned char, 1)
MC_SET_API(cuMemsetD16Async, unsigned short, 2)
MC_SET_API(cuMemsetD32Async, unsigned, 4)

MC_API(cuMemsetD2D32Async, mc_address dst, size_t pitch, unsigned value, size_t width,
       size_t height, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_set(stream, dst, value, 4, width, height, pitch);
}

/* ---- memory operations ---- */

/* Looks at one; `old`: by a function without _v2, which drivers refuse. Waits are those for >=. */
static int mc_value_check(const mc_value *v, unsigned kind, int old) {
    uint32_t flags = M.desc.flags;
    int waits = v->type == MC_WAIT64;
    MC_RULE(!old && !(flags & MOCK_CUDA_NO_MEMOPS), MC_NOT_SUPPORTED);
    MC_RULE((waits || v->type == MC_WRITE64) && !kind,
            mc_misuse("the mock has no memory operation of that kind"));
    MC_RULE(v->address % 8 == 0,
            mc_misuse("a memory operation of 8 bytes at %#llx", mc_u(v->address)));
    MC_RULE(mc_range_at(v->address),
            mc_misuse("a memory operation on memory that is not the device's or pinned, at %#llx",
                      mc_u(v->address)));
    MC_RULE(!waits || !(flags & MOCK_CUDA_NO_WAIT_VALUES), mc_misuse("a stream waits for a value"));
    return MC_OK;
}

static int mc_value_put(mc_handle stream, const mc_value *v, unsigned kind, int old) {
    MC_OPEN(s, stream);
    int error = mc_value_check(v, kind, old);
    MC_RULE(!error, error);
    MC_RULE(v->type != MC_WAIT64 || !(M.desc.flags & MOCK_CUDA_NO_EARLY_WAITS) ||
            mc_value_there(v) || mc_value_coming(v),
            mc_misuse("a stream waits for a value that nothing enqueued stores"));
    mc_op *op = mc_op_new(s, MC_WORK_VALUE);
    op->work.u.value = *v;
    mc_op_enqueue(op);
    return MC_OK;
}

#define MC_VALUE_API(name, type_, old) \
    MC_API(name, mc_handle stream, mc_address address, uint64_t value, unsigned flags) { \
        const mc_value v = {type_, address, value}; \
        MC_ENTER(MC_NEEDS_CONTEXT) \
        return mc_value_put(stream, &v, flags, old); \
    }

MC_VALUE_API(cuStreamWaitValue64, MC_WAIT64, 1)
MC_VALUE_API(cuStreamWriteValue64, MC_WRITE64, 1)
#if MOCK_CUDA_VERSION >= 11070
MC_VALUE_API(cuStreamWaitValue64_v2, MC_WAIT64, 0)
MC_VALUE_API(cuStreamWriteValue64_v2, MC_WRITE64, 0)
#endif
