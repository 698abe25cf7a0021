/* cuda_memory.h - part of libcuda.c: who owns which addresses. Device and
   pinned memory lie in reserved parts of the address space, where what was freed
   is not mapped any more: whoever touches it gets a SIGSEGV, and an address there
   that nobody owns is a mistake. */
#ifndef HCQ_TEST_MOCK_CUDA_MEMORY_H
#define HCQ_TEST_MOCK_CUDA_MEMORY_H

enum { MC_PAGE = 4096, MC_REGIONS = MC_DEVICES + 1, MC_HOST_REGION = MC_DEVICES };
#define MC_REGION_BYTES (64ull << 30)

typedef enum mc_range_kind {
    MC_RANGE_DEVICE, MC_RANGE_POOL, MC_RANGE_HOST, MC_RANGE_REGISTERED, MC_RANGE_MANAGED
} mc_range_kind;

typedef struct mc_pool {
    mc_object object;
    uint32_t device;
    uint64_t threshold, used, reserved, high; /* bytes */
    uint32_t access[MC_DEVICES];       /* of devices: 1 read, 3 read and write */
    uint32_t allocations;
    uint64_t max_bytes;
} mc_pool;

typedef struct mc_range {
    mc_address base;
    uint64_t size, span;               /* span: whole pages */
    mc_range_kind kind;
    uint32_t device, flags;
    mc_context *context;
    mc_pool *pool;
    int born;                          /* its allocation had its turn */
    uint64_t dies;                     /* sequence of the operation that frees it, or 0 */
    uint32_t doomed;                   /* a free of it is under way */
} mc_range;

/* Where an address is, as seen by a context. */
typedef enum mc_place {
    MC_NOWHERE,                        /* misuse */
    MC_PAGEABLE, MC_PINNED, MC_ON_DEVICE, MC_MANAGED
} mc_place;

static struct {
    mc_address base[MC_REGIONS], cursor[MC_REGIONS]; /* 0: not reserved yet */
    uint64_t bytes[MC_REGIONS];
    mc_range **ranges;                 /* by address */
    uint32_t count, room;
} mc_map;

/* The sequence of the operation that runs on this thread, or 0. */
static _Thread_local uint64_t mc_running;

static uint64_t mc_pages(uint64_t bytes) { return (bytes + MC_PAGE - 1) / MC_PAGE * MC_PAGE; }

/* Index of the first range that begins behind an address. */
static uint32_t mc_range_after(mc_address address) {
    uint32_t from = 0, to = mc_map.count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (mc_map.ranges[middle]->base <= address) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static mc_range *mc_range_at(mc_address address) {
    uint32_t after = mc_range_after(address);
    mc_range *r = after ? mc_map.ranges[after - 1] : NULL;
    return r && address - r->base < r->size ? r : NULL;
}

/* The range that begins there. */
static mc_range *mc_range_begins(mc_address address) {
    mc_range *r = mc_range_at(address);
    return r && r->base == address ? r : NULL;
}

static int mc_in_region(mc_address address) {
    for (uint32_t i = 0; i < MC_REGIONS; i++) {
        if (mc_map.base[i] && address - mc_map.base[i] < mc_map.bytes[i]) {
            return 1;
        }
    }
    return 0;
}

static void mc_range_insert(mc_range *range) {
    uint32_t at = mc_range_after(range->base);
    if (mc_map.count == mc_map.room) {
        mc_map.room = mc_map.room ? 2 * mc_map.room : 256;
        mc_map.ranges = (mc_range **)realloc(mc_map.ranges,
                                             mc_map.room * sizeof *mc_map.ranges);
        if (!mc_map.ranges) {
            abort();
        }
    }
    memmove(&mc_map.ranges[at + 1], &mc_map.ranges[at],
            (mc_map.count - at) * sizeof *mc_map.ranges);
    mc_map.ranges[at] = range;
    mc_map.count++;
}

/* Reserves a region's addresses: fewer, where they are rare (in valgrind). */
static void mc_region_reserve(uint32_t region) {
    void *memory = MAP_FAILED;
    uint64_t bytes = 2 * MC_REGION_BYTES;
    while (memory == MAP_FAILED && bytes > MC_REGION_BYTES >> 8) {
        bytes /= 2;
        memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (memory != MAP_FAILED) {
        mc_map.base[region] = mc_map.cursor[region] = (mc_address)(uintptr_t)memory;
        mc_map.bytes[region] = bytes;
    }
}

/* Finds room in a region, with an unmapped page behind: after the newest one, so that
   addresses come back late. 0: none. */
static mc_address mc_room(uint32_t region, uint64_t span) {
    mc_address base, end, at;
    if (!mc_map.base[region]) {
        mc_region_reserve(region);
    }
    base = mc_map.base[region];
    if (!base) {
        return 0;
    }
    end = base + mc_map.bytes[region];
    at = mc_map.cursor[region];
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = mc_range_after(at); ; i++) {
            mc_address limit = i < mc_map.count && mc_map.ranges[i]->base < end ?
                               mc_map.ranges[i]->base : end;
            mc_range *before = i ? mc_map.ranges[i - 1] : NULL;
            if (before && before->base >= base && before->base + before->span + MC_PAGE > at) {
                at = before->base + before->span + MC_PAGE;
            }
            if (at + span + MC_PAGE <= limit) {
                mc_map.cursor[region] = at + span + MC_PAGE;
                return at;
            }
            if (limit == end) {
                break;
            }
        }
        at = base;
    }
    return 0;
}

static void mc_range_count(const mc_range *r, int64_t sign) {
    uint64_t one = (uint64_t)sign, bytes = (uint64_t)(sign * (int64_t)r->size);
    if (r->kind == MC_RANGE_HOST) {
        M.counts.host_allocations += one;
        M.counts.host_bytes += bytes;
    } else if (r->kind == MC_RANGE_REGISTERED) {
        M.counts.registered += one;
        M.counts.registered_bytes += bytes;
    } else {
        M.counts.device_allocations += one;
        M.counts.device_bytes += bytes;
    }
}

/* Fresh memory holds no zeros that somebody could rely on. */
static void mc_range_soil(const mc_range *r) {
    unsigned char *at = (unsigned char *)(uintptr_t)r->base;
    size_t edge = r->size < 65536 ? (size_t)r->size : MC_PAGE;
    memset(at, 0xa5, edge);
    memset(at + r->size - edge, 0xa5, edge);
}

static mc_range *mc_range_new(mc_range_kind kind, mc_context *c, mc_address base,
                              uint64_t size) {
    mc_range *r = (mc_range *)calloc(1, sizeof *r);
    if (!r) {
        abort();
    }
    r->kind = kind;
    r->base = base;
    r->size = size;
    r->span = mc_pages(size);
    r->context = c;
    r->device = c->device;
    r->born = 1;
    mc_range_insert(r);
    mc_range_count(r, 1);
    return r;
}

/* Memory of a device, or pinned; NULL: no address space. */
static mc_range *mc_range_map(mc_range_kind kind, mc_context *c, uint64_t size) {
    uint32_t region = kind == MC_RANGE_HOST ? (uint32_t)MC_HOST_REGION : c->device;
    mc_address base = mc_room(region, mc_pages(size));
    if (!base || mprotect((void *)(uintptr_t)base, mc_pages(size), PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    mc_range *r = mc_range_new(kind, c, base, size);
    mc_range_soil(r);
    return r;
}

static void mc_pool_unref(mc_pool *pool) {
    if (pool->object.refs == 1) {
        M.devices[pool->device].used -= pool->reserved;
    }
    mc_object_unref(pool);
}

static void mc_range_free(mc_range *r) {
    uint32_t at = mc_range_after(r->base) - 1;
    memmove(&mc_map.ranges[at], &mc_map.ranges[at + 1],
            (mc_map.count - at - 1) * sizeof *mc_map.ranges);
    mc_map.count--;
    mc_range_count(r, -1);
    if (r->kind != MC_RANGE_REGISTERED &&
        mmap((void *)(uintptr_t)r->base, r->span, PROT_NONE,
             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
        abort();
    }
    if (r->kind == MC_RANGE_DEVICE || r->kind == MC_RANGE_MANAGED) {
        M.devices[r->device].used -= r->size;
    }
    if (r->pool) {
        r->pool->used -= r->size;
        r->pool->allocations--;
        mc_pool_unref(r->pool);
    }
    free(r);
}

/* A pool gives back what it keeps above its threshold: when somebody synchronizes. */
static void mc_pool_trim(mc_pool *pool, uint64_t keep) {
    uint64_t left = pool->used > keep ? pool->used : keep;
    if (pool->reserved > left) {
        M.devices[pool->device].used -= pool->reserved - left;
        pool->reserved = left;
    }
}

static void mc_pools_trim(void) {
    for (uint32_t i = 0; i < M.slot_count && M.counts.pools; i++) {
        if (M.slots[i].object && M.slots[i].object->kind == MC_POOL) {
            mc_pool *pool = (mc_pool *)(void *)M.slots[i].object;
            mc_pool_trim(pool, pool->threshold);
        }
    }
}

/* May the context get at this range? */
static int mc_reachable(const mc_context *c, const mc_range *r) {
    switch (r->kind) {
    case MC_RANGE_POOL:
        return r->device == c->device || r->pool->access[c->device] != 0;
    case MC_RANGE_DEVICE:
        return r->context == c || c->peers[r->device] == r->context;
    case MC_RANGE_HOST:
    case MC_RANGE_REGISTERED:
        return r->context == c || (r->flags & 1) != 0; /* PORTABLE */
    default:
        return 1;
    }
}

/* Checks `bytes` at an address, which an operation of `c` is about to use. */
static mc_place mc_reach(const mc_context *c, mc_address address, uint64_t bytes,
                         const char *what) {
    mc_range *r = mc_range_at(address);
    if (!r) {
        if (mc_in_region(address)) {
            mc_misuse("%s %#llx is memory that was freed, or never allocated", what,
                      mc_u(address));
            return MC_NOWHERE;
        }
        return MC_PAGEABLE;
    }
    if (bytes > r->size - (address - r->base)) {
        mc_misuse("%s: %llu bytes at %#llx pass the end of an allocation of %llu bytes", what,
                  mc_u(bytes), mc_u(address), mc_u(r->size));
    } else if (!r->born) {
        mc_misuse("%s %#llx is used before its allocation in a stream: nothing orders the two",
                  what, mc_u(address));
    } else if (r->dies && mc_running > r->dies) {
        mc_misuse("%s %#llx is used after its cuMemFreeAsync", what, mc_u(address));
    } else if (!mc_reachable(c, r)) {
        mc_misuse("%s %#llx is memory of device %u that a context of device %u cannot reach", what,
                  mc_u(address), r->device, c->device);
    } else {
        return r->kind == MC_RANGE_HOST || r->kind == MC_RANGE_REGISTERED ? MC_PINNED :
               r->kind == MC_RANGE_MANAGED ? MC_MANAGED : MC_ON_DEVICE;
    }
    return MC_NOWHERE;
}

#endif /* HCQ_TEST_MOCK_CUDA_MEMORY_H */
