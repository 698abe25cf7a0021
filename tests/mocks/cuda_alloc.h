/* cuda_alloc.h - part of libcuda.c: memory's entry points. */
#ifndef HCQ_TEST_MOCK_CUDA_ALLOC_H
#define HCQ_TEST_MOCK_CUDA_ALLOC_H

/* ---- device memory ---- */

MC_API(cuMemGetInfo_v2, size_t *left, size_t *total) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!left || !total) {
        return mc_leave(MC_INVALID);
    }
    *left = M.desc.memory_bytes - M.devices[mc_tls.here->device].used;
    *total = M.desc.memory_bytes;
    return mc_leave(MC_OK);
}

static int mc_alloc(mc_address *address, size_t bytes, mc_range_kind kind) {
    mc_device *d = &M.devices[mc_tls.here->device];
    if (!address || !bytes) {
        return MC_INVALID;
    }
    if (bytes > M.desc.memory_bytes - d->used) {
        return MC_MEMORY;
    }
    mc_range *r = mc_range_map(kind, mc_tls.here, bytes);
    if (!r) {
        return MC_MEMORY;
    }
    d->used += bytes;
    *address = r->base;
    return MC_OK;
}

MC_API(cuMemAlloc_v2, mc_address *address, size_t bytes) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_leave(mc_alloc(address, bytes, MC_RANGE_DEVICE));
}

MC_API(cuMemAllocManaged, mc_address *address, size_t bytes, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_leave(flags == 1 || flags == 2 ? mc_alloc(address, bytes, MC_RANGE_MANAGED) :
                    MC_INVALID);
}

/* Refuses to take away what enqueued work names. */
static int mc_range_unused(const mc_range *r) {
    mc_op *op = mc_range_used(r);
    return op ? mc_misuse("%s that is enqueued names %#llx, which is taken away",
                          mc_work_names[op->work.kind], mc_u(r->base)) : MC_OK;
}

MC_API(cuMemFree_v2, mc_address address) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_range *r = mc_range_begins(address);
    int error = MC_OK;
    if (!address) {
        return mc_leave(MC_OK);
    }
    if (!r || r->kind == MC_RANGE_HOST || r->kind == MC_RANGE_REGISTERED || r->doomed || r->dies) {
        return mc_leave(mc_misuse("%#llx is not allocated, or was freed", mc_u(address)));
    }
    if (r->context != mc_tls.here) {
        return mc_leave(mc_misuse("%#llx is of another context", mc_u(address)));
    }
    if (M.desc.flags & MOCK_CUDA_FREE_AT_ONCE) {
        error = mc_range_unused(r);
    } else {
        r->doomed = 1;
        mc_wait_call(mc_context_ready, r->context, M.sequence, "cuMemFree");
        error = r->context->error;     /* the memory then ends with the context */
    }
    if (!error) {
        mc_range_free(r);
    }
    return mc_leave(error);
}

/* ---- pools ---- */

typedef struct mc_location {
    int type, id;                      /* 1: a device */
} mc_location;

typedef struct mc_pool_props {
    int type, handle_types;
    mc_location location;
    void *security;
    size_t max_bytes;                  /* reserved before 12.2 */
    unsigned char reserved[56];
} mc_pool_props;

static int mc_pool_props_check(const mc_pool_props *props) {
    for (size_t i = 0; i < sizeof props->reserved; i++) {
        if (props->reserved[i]) {
            return mc_misuse("reserved bytes that are not 0");
        }
    }
    if (props->max_bytes && M.desc.driver_version < 12020) {
        return mc_misuse("a pool's greatest size came with 12.2");
    }
    if (props->type != 1 || props->location.type != 1) {
        return MC_INVALID;
    }
    if (!mc_device_good(props->location.id)) {
        return MC_BAD_DEVICE;
    }
    return M.desc.flags & MOCK_CUDA_NO_POOLS ? MC_NOT_SUPPORTED : MC_OK;
}

MC_API(cuMemPoolCreate, mc_handle *pool, const mc_pool_props *props) {
    MC_ENTER(MC_NEEDS_INIT)
    int error = pool && props ? mc_pool_props_check(props) : MC_INVALID;
    if (error) {
        return mc_leave(error);
    }
    mc_pool *p = (mc_pool *)mc_object_new(MC_POOL, sizeof *p, NULL);
    p->device = (uint32_t)props->location.id;
    p->max_bytes = props->max_bytes;
    p->access[p->device] = 3;
    *pool = mc_handle_of(p);
    return mc_leave(MC_OK);
}

MC_API(cuMemPoolDestroy, mc_handle pool) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_pool *p = (mc_pool *)mc_find(pool, MC_POOL);
    if (!p) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_pool_trim(p, 0);
    mc_object_forget(p);
    mc_pool_unref(p);
    return mc_leave(MC_OK);
}

MC_API(cuMemPoolSetAttribute, mc_handle pool, int attribute, void *value) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_pool *p = (mc_pool *)mc_find(pool, MC_POOL);
    if (!p || !value || attribute < 1 || attribute > 8) {
        return mc_leave(p ? MC_INVALID : MC_BAD_HANDLE);
    }
    if (attribute == 4) {
        memcpy(&p->threshold, value, sizeof p->threshold);
    }
    return mc_leave(MC_OK);
}

MC_API(cuMemPoolGetAttribute, mc_handle pool, int attribute, void *value) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_pool *p = (mc_pool *)mc_find(pool, MC_POOL);
    if (!p || !value || attribute < 4 || attribute > 8) {
        return mc_leave(p ? MC_INVALID : MC_BAD_HANDLE);
    }
    const uint64_t values[] = {p->threshold, p->reserved, p->high, p->used, p->high};
    memcpy(value, &values[attribute - 4], sizeof *values);
    return mc_leave(MC_OK);
}

typedef struct mc_access {
    mc_location location;
    uint32_t flags;                    /* 1: read, 3: read and write */
} mc_access;

MC_API(cuMemPoolSetAccess, mc_handle pool, const mc_access *list, size_t count) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_pool *p = (mc_pool *)mc_find(pool, MC_POOL);
    if (!p || (count && !list)) {
        return mc_leave(p ? MC_INVALID : MC_BAD_HANDLE);
    }
    for (size_t i = 0; i < count; i++) {
        int device = list[i].location.id;
        if (list[i].location.type != 1 || !mc_device_good(device)) {
            return mc_leave(MC_INVALID);
        }
        int own = (uint32_t)device == p->device;
        if (own ? list[i].flags != 3 : list[i].flags && !mc_peers((uint32_t)device, p->device)) {
            return mc_leave(own ? MC_INVALID : MC_BAD_DEVICE);
        }
        p->access[device] = list[i].flags;
    }
    return mc_leave(MC_OK);
}

MC_API(cuMemPoolTrimTo, mc_handle pool, size_t keep) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_pool *p = (mc_pool *)mc_find(pool, MC_POOL);
    if (!p) {
        return mc_leave(MC_BAD_HANDLE);
    }
    mc_pool_trim(p, keep);
    return mc_leave(MC_OK);
}

/* Takes bytes out of a pool, which grows if it has to. */
static int mc_pool_take(mc_pool *p, uint64_t bytes) {
    uint64_t have = p->reserved - p->used, more = bytes > have ? bytes - have : 0;
    if (more > M.desc.memory_bytes - M.devices[p->device].used ||
        (p->max_bytes && bytes > p->max_bytes - p->used)) {
        return MC_MEMORY;
    }
    M.devices[p->device].used += more;
    p->reserved += more;
    p->used += bytes;
    p->high = p->high > p->used ? p->high : p->used;
    return MC_OK;
}

MC_API(cuMemAllocFromPoolAsync, mc_address *address, size_t bytes, mc_handle pool,
       mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    mc_pool *p = (mc_pool *)mc_find(pool, MC_POOL);
    if (!s || !p || !address || !bytes) {
        return mc_leave(!s ? error : !p ? MC_BAD_HANDLE : MC_INVALID);
    }
    if (!p->access[s->object.context->device]) {
        return mc_leave(MC_INVALID);
    }
    error = mc_pool_take(p, bytes);
    if (error) {
        return mc_leave(error);
    }
    mc_range *r = mc_range_map(MC_RANGE_POOL, s->object.context, bytes);
    if (!r) {
        p->used -= bytes;
        return mc_leave(MC_MEMORY);
    }
    r->pool = p;
    r->device = p->device;
    r->born = 0;
    p->object.refs++;
    p->allocations++;
    mc_op *op = mc_op_new(s, MC_WORK_BIRTH);
    op->work.u.memory.range = r;
    mc_op_enqueue(op);
    *address = r->base;
    return mc_leave(MC_OK);
}

MC_API(cuMemFreeAsync, mc_address address, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    mc_range *r = mc_range_begins(address);
    if (!s) {
        return mc_leave(error);
    }
    if (!r || r->kind != MC_RANGE_POOL || r->dies || r->doomed) {
        return mc_leave(mc_misuse("%#llx is not of a pool, or was freed", mc_u(address)));
    }
    mc_op *op = mc_op_new(s, MC_WORK_DEATH);
    op->work.u.memory.range = r;
    r->dies = UINT64_MAX;
    mc_op_enqueue(op);
    r->dies = op->sequence;
    return mc_leave(MC_OK);
}

/* ---- pinned memory ---- */

MC_API(cuMemHostAlloc, void **memory, size_t bytes, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!memory || !bytes || flags > 7) {
        return mc_leave(MC_INVALID);
    }
    mc_range *r = mc_range_map(MC_RANGE_HOST, mc_tls.here, bytes);
    if (!r) {
        return mc_leave(MC_MEMORY);
    }
    r->flags = flags;
    *memory = (void *)(uintptr_t)r->base;
    return mc_leave(MC_OK);
}

MC_API(cuMemFreeHost, void *memory) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_range *r = mc_range_begins((mc_address)(uintptr_t)memory);
    if (!r || r->kind != MC_RANGE_HOST) {
        return mc_leave(mc_misuse("%p is not of cuMemHostAlloc, or was freed", memory));
    }
    mc_may_sync("cuMemFreeHost");
    int error = mc_range_unused(r);
    if (!error) {
        mc_range_free(r);
    }
    return mc_leave(error);
}

MC_API(cuMemHostGetDevicePointer_v2, mc_address *address, void *memory, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_range *r = mc_range_at((mc_address)(uintptr_t)memory);
    if (!address || flags || !r ||
        (r->kind != MC_RANGE_HOST && r->kind != MC_RANGE_REGISTERED)) {
        return mc_leave(MC_INVALID);
    }
    *address = (mc_address)(uintptr_t)memory;
    return mc_leave(MC_OK);
}

/* Does a range have memory in common with these bytes? */
static int mc_overlaps(mc_address base, uint64_t bytes) {
    uint32_t i = mc_range_after(base);
    return mc_range_at(base) || (i < mc_map.count && mc_map.ranges[i]->base - base < bytes);
}

static int mc_register_check(mc_address base, uint64_t bytes) {
    mc_address page = base / MC_PAGE * MC_PAGE;
    uint64_t span = mc_pages(base + bytes - page);
    if (M.desc.flags & MOCK_CUDA_NO_REGISTER) {
        return MC_NOT_SUPPORTED;
    }
    if (msync((void *)(uintptr_t)page, span, MS_ASYNC) != 0 && errno == ENOMEM) {
        return MC_INVALID;             /* there is no memory */
    }
    if (mc_overlaps(base, bytes)) {
        return MC_REGISTERED;
    }
    for (uint32_t i = 0; i < mc_map.count && M.desc.flags & MOCK_CUDA_REGISTER_PAGES; i++) {
        const mc_range *r = mc_map.ranges[i];
        if (r->base < page + span && page < mc_pages(r->base + r->size)) {
            return MC_REGISTERED;
        }
    }
    return MC_OK;
}

MC_API(cuMemHostRegister_v2, void *memory, size_t bytes, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!memory || !bytes || flags > 15) {
        return mc_leave(MC_INVALID);
    }
    int error = mc_register_check((mc_address)(uintptr_t)memory, bytes);
    if (!error) {
        mc_range *r = mc_range_new(MC_RANGE_REGISTERED, mc_tls.here,
                                   (mc_address)(uintptr_t)memory, bytes);
        r->flags = flags;
    }
    return mc_leave(error);
}

MC_API(cuMemHostUnregister, void *memory) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_range *r = mc_range_begins((mc_address)(uintptr_t)memory);
    if (!r || r->kind != MC_RANGE_REGISTERED) {
        return mc_leave(MC_NOT_REGISTERED);
    }
    mc_may_sync("cuMemHostUnregister");
    int error = mc_range_unused(r);
    if (!error) {
        mc_range_free(r);
    }
    return mc_leave(error);
}

#endif /* HCQ_TEST_MOCK_CUDA_ALLOC_H */
