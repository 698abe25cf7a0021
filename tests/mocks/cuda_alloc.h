/* cuda_alloc.h - part of libcuda.c: memory's entry points. */
#pragma once

#include "cuda_device.h"

/* Refuses to take away what enqueued work names. */
static int mc_range_end(mc_range *r) {
    mc_op *op = mc_range_used(r);
    if (op) {
        return mc_misuse("%s that is enqueued names %#llx, which is taken away",
                         mc_work_names[op->work.kind], mc_u(r->base));
    }
    mc_range_free(r);
    return MC_OK;
}

/* ---- device memory ---- */

MC_API(cuMemAlloc_v2, mc_address *address, size_t bytes) {
    MC_ENTER(MC_UNSAFE)
    mc_device *d = &M.devices[mc_tls.here->device];
    MC_RULE(address && bytes, MC_INVALID);
    MC_RULE(bytes <= M.desc.memory_bytes - d->used, MC_MEMORY);
    mc_range *r = mc_range_map(MC_RANGE_DEVICE, mc_tls.here, bytes);
    MC_RULE(r, MC_MEMORY);
    d->used += bytes;
    *address = r->base;
    return MC_OK;
}

MC_API(cuMemFree_v2, mc_address address) {
    MC_ENTER(MC_UNSAFE)
    mc_range *r = mc_range_begins(address);
    MC_RULE(address, MC_OK);
    MC_RULE(r && (r->kind == MC_RANGE_DEVICE || r->kind == MC_RANGE_POOL) && !r->doomed && !r->dies,
            mc_misuse("%#llx is not allocated, or was freed", mc_u(address)));
    MC_RULE(r->context == mc_tls.here, mc_misuse("%#llx is of another context", mc_u(address)));
    r->doomed = 1;
    mc_wait_call(mc_context_ready, r->context, M.sequence, "cuMemFree");
    MC_RULE(!r->context->error, r->context->error); /* the memory then ends with the context */
    mc_range_free(r);
    return MC_OK;
}

/* ---- pools ---- */

typedef struct mc_location {
    int type, id;                      /* 1: a device */
} mc_location;

typedef struct mc_pool_props {
    int type, handle_types;
    mc_location location;
    void *security;
    unsigned char reserved[64];        /* of which later drivers know 8 */
} mc_pool_props;

MC_API(cuMemPoolCreate, mc_handle *pool, const mc_pool_props *props) {
    static const unsigned char zero[sizeof props->reserved];
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(pool && props && props->type == 1 && props->location.type == 1, MC_INVALID);
    MC_RULE(memcmp(props->reserved, zero, sizeof zero) == 0,
            mc_misuse("reserved bytes that are not 0"));
    MC_RULE((uint32_t)props->location.id < M.desc.devices, MC_BAD_DEVICE);
    MC_RULE(!(M.desc.flags & MOCK_CUDA_NO_POOLS), MC_NOT_SUPPORTED);
    mc_pool *p = (mc_pool *)mc_object_new(MC_POOL, sizeof *p, NULL, mc_pool_end);
    p->device = (uint32_t)props->location.id;
    p->access[p->device] = 3;
    *pool = mc_handle_of(p);
    return MC_OK;
}

MC_API(cuMemPoolDestroy, mc_handle pool) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_FIND(mc_pool, p, pool, MC_POOL);
    mc_pool_trim(p, 0);
    mc_object_drop(p);
    return MC_OK;
}

MC_API(cuMemPoolSetAttribute, mc_handle pool, int attribute, void *value) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_FIND(mc_pool, p, pool, MC_POOL);
    MC_RULE(value && attribute >= 1 && attribute <= 8, MC_INVALID);
    if (attribute == 4) {
        memcpy(&p->threshold, value, sizeof p->threshold);
    }
    return MC_OK;
}

typedef struct mc_access {
    mc_location location;
    uint32_t flags;                    /* 1: read, 3: read and write */
} mc_access;

MC_API(cuMemPoolSetAccess, mc_handle pool, const mc_access *list, size_t count) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_FIND(mc_pool, p, pool, MC_POOL);
    MC_RULE(list || !count, MC_INVALID);
    for (size_t i = 0; i < count; i++) {
        uint32_t device = (uint32_t)list[i].location.id, flags = list[i].flags;
        MC_RULE(list[i].location.type == 1 && device < M.desc.devices, MC_INVALID);
        MC_RULE(device != p->device || flags == 3, MC_INVALID);
        MC_RULE(device == p->device || !flags || mc_peers(device, p->device), MC_BAD_DEVICE);
        p->access[device] = flags;
    }
    return MC_OK;
}

MC_API(cuMemPoolTrimTo, mc_handle pool, size_t keep) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_FIND(mc_pool, p, pool, MC_POOL);
    mc_pool_trim(p, keep);
    return MC_OK;
}

/* Takes bytes out of a pool, which grows if it has to. */
static int mc_pool_take(mc_pool *p, uint64_t bytes) {
    uint64_t have = p->reserved - p->used, more = bytes > have ? bytes - have : 0;
    MC_RULE(more <= M.desc.memory_bytes - M.devices[p->device].used, MC_MEMORY);
    M.devices[p->device].used += more;
    p->reserved += more;
    p->used += bytes;
    return MC_OK;
}

MC_API(cuMemAllocFromPoolAsync, mc_address *address, size_t bytes, mc_handle pool,
       mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_OPEN(s, stream);
    MC_FIND(mc_pool, p, pool, MC_POOL);
    MC_RULE(!s->capture, mc_misuse("the mock's captures do not allocate"));
    MC_RULE(address && bytes && p->access[s->object.context->device], MC_INVALID);
    MC_RULE(mc_pool_take(p, bytes) == MC_OK, MC_MEMORY);
    mc_range *r = mc_range_map(MC_RANGE_POOL, s->object.context, bytes);
    if (!r) {
        p->used -= bytes;
        return MC_MEMORY;
    }
    r->pool = p;
    r->device = p->device;
    r->born = 0;
    p->object.refs++;
    mc_op *op = mc_op_new(s, MC_WORK_BIRTH);
    op->work.u.range = r;
    mc_op_enqueue(op);
    *address = r->base;
    return MC_OK;
}

MC_API(cuMemFreeAsync, mc_address address, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_OPEN(s, stream);
    mc_range *r = mc_range_begins(address);
    MC_RULE(!s->capture, mc_misuse("the mock's captures do not allocate"));
    MC_RULE(r && r->kind == MC_RANGE_POOL && !r->dies && !r->doomed,
            mc_misuse("%#llx is not of a pool, or was freed", mc_u(address)));
    mc_op *op = mc_op_new(s, MC_WORK_DEATH);
    op->work.u.range = r;
    mc_op_enqueue(op);
    r->dies = op->sequence;
    return MC_OK;
}

/* ---- pinned memory ---- */

/* A call pins so much. */
static void mc_pin(uint64_t bytes) {
    mc_slow((uint64_t)((double)bytes * 1e-9 * (double)M.slow_ns.pin));
}

MC_API(cuMemHostAlloc, void **memory, size_t bytes, unsigned flags) {
    MC_ENTER(MC_UNSAFE)
    MC_RULE(memory && flags <= 7, MC_INVALID);
    *memory = NULL;
    MC_RULE(bytes, MC_OK);
    mc_pin(bytes);
    mc_range *r = mc_range_map(MC_RANGE_HOST, mc_tls.here, bytes);
    MC_RULE(r, MC_MEMORY);
    r->flags = flags;
    *memory = mc_host(r->base);
    return MC_OK;
}

MC_API(cuMemFreeHost, void *memory) {
    MC_ENTER(MC_UNSAFE)
    mc_range *r = mc_range_begins((mc_address)(uintptr_t)memory);
    MC_RULE(r && r->kind == MC_RANGE_HOST,
            mc_misuse("%p is not of cuMemHostAlloc, or was freed", memory));
    mc_may_sync("cuMemFreeHost");
    return mc_range_end(r);
}

MC_API(cuMemHostGetFlags, unsigned *flags, void *memory) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_range *r = mc_range_at((mc_address)(uintptr_t)memory);
    MC_RULE(flags && r && r->kind == MC_RANGE_HOST, MC_INVALID);
    *flags = r->flags;
    return MC_OK;
}

MC_API(cuMemHostGetDevicePointer_v2, mc_address *address, void *memory, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_range *r = mc_range_at((mc_address)(uintptr_t)memory);
    MC_RULE(address && !flags, MC_INVALID);
    MC_RULE(r && (r->kind == MC_RANGE_HOST || r->kind == MC_RANGE_REGISTERED), MC_INVALID);
    *address = (mc_address)(uintptr_t)memory;
    return MC_OK;
}

/* Of the range that an address is in: 2 its kind, 1 the host's, 2 a device's; to the byte
   11 its begin, 12 its size. */
MC_API(cuPointerGetAttribute, void *value, int attribute, mc_address address) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    const mc_range *r = mc_range_at(address);
    MC_RULE(value && r && (attribute == 2 || attribute == 11 || attribute == 12), MC_INVALID);
    if (attribute == 2) {
        *(unsigned *)value = mc_is_hosts(address) ? 1 : 2;
    } else if (attribute == 11) {
        *(mc_address *)value = r->base;
    } else {
        *(size_t *)value = (size_t)r->size;
    }
    return MC_OK;
}

/* Is there memory everywhere, and may it be written, unless that does not matter? */
static int mc_mapped(mc_address at, mc_address end, int written) {
    unsigned long long from, to;
    char mode[5];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && at < end && fscanf(maps, "%llx-%llx %4s%*[^\n]", &from, &to, mode) == 3) {
        at = from <= at && at < to && mode[written] == "rw"[written] ? to : at;
    }
    if (maps) {
        fclose(maps);
    }
    return at >= end;
}

MC_API(cuMemHostRegister_v2, void *memory, size_t bytes, unsigned flags) {
    MC_ENTER(MC_UNSAFE)
    mc_address base = (mc_address)(uintptr_t)memory, end = base + bytes;
    MC_RULE(memory && bytes && flags <= 15, MC_INVALID);
    MC_RULE(!(M.desc.flags & MOCK_CUDA_NO_REGISTER), MC_NOT_SUPPORTED);
    MC_RULE(mc_mapped(base, end, !(flags & 8)), MC_INVALID);
    mc_pin(bytes);
    for (uint32_t i = 0; i < mc_map.count; i++) {
        const mc_range *r = mc_map.ranges[i];
        MC_RULE(r->base >= end || base >= r->base + r->size,
                r->kind == MC_RANGE_REGISTERED ? MC_REGISTERED : MC_INVALID);
    }
    mc_range_new(MC_RANGE_REGISTERED, mc_tls.here, base, bytes)->flags = flags;
    return MC_OK;
}

MC_API(cuMemHostUnregister, void *memory) {
    MC_ENTER(MC_UNSAFE)
    mc_range *r = mc_range_begins((mc_address)(uintptr_t)memory);
    MC_RULE(!r || r->kind == MC_RANGE_REGISTERED, MC_INVALID);
    MC_RULE(r && r->kind == MC_RANGE_REGISTERED, MC_NOT_REGISTERED);
    mc_may_sync("cuMemHostUnregister");
    return mc_range_end(r);
}
