/* cuda_memory.h - part of libcuda.c: who owns which addresses. Device and
   pinned memory lie in reserved parts of the address space, where what was freed
   is not mapped any more: whoever touches it gets a SIGSEGV, and an address there
   that nobody owns is a mistake. */
#pragma once

#include "cuda_base.h"

#include <sys/mman.h>

enum { MC_PAGE = 4096, MC_REGIONS = MC_DEVICES + 1, MC_HOST_REGION = MC_DEVICES };
#define MC_REGION_BYTES (64ull << 30)

typedef enum mc_range_kind {
    MC_RANGE_DEVICE, MC_RANGE_POOL, MC_RANGE_HOST, MC_RANGE_REGISTERED
} mc_range_kind;

typedef struct mc_pool {
    mc_object object;
    uint32_t device;
    uint64_t threshold, used, reserved; /* bytes */
    uint32_t access[MC_DEVICES];       /* of devices: 1 read, 3 read and write */
} mc_pool;

typedef struct mc_range {
    mc_address base;
    uint64_t size;
    mc_range_kind kind;
    uint32_t device, flags;
    mc_context *context;
    mc_pool *pool;
    int born;                          /* its allocation had its turn */
    uint64_t dies;                     /* sequence of the operation that frees it, or 0 */
    int doomed;                        /* a free of it is under way */
} mc_range;

/* Where an address is, as seen by a context. */
typedef enum mc_place {
    MC_NOWHERE,                        /* misuse */
    MC_PAGEABLE, MC_PINNED, MC_ON_DEVICE
} mc_place;

typedef struct mc_region {
    mc_address base, cursor;           /* 0: not reserved yet; behind the newest range */
    uint64_t bytes;
} mc_region;

static struct {
    mc_region regions[MC_REGIONS];
    mc_range **ranges;                 /* by address */
    uint32_t count;
} mc_map;

static void *mc_host(mc_address address) { return (void *)(uintptr_t)address; }

static uint64_t mc_pages(uint64_t bytes) { return (bytes + MC_PAGE - 1) / MC_PAGE * MC_PAGE; }

/* ---- finding ---- */

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

/* Is it memory of the host, pinned? */
static int mc_is_hosts(mc_address address) {
    const mc_range *r = mc_range_at(address);
    return r && (r->kind == MC_RANGE_HOST || r->kind == MC_RANGE_REGISTERED);
}

/* Is it a copy that the caller does, when its turn has come? */
static int mc_is_callers(mc_address dst, mc_address src) {
    return mc_is_hosts(dst) && mc_is_hosts(src);
}

static int mc_in_region(mc_address address) {
    for (uint32_t i = 0; i < MC_REGIONS; i++) {
        if (address - mc_map.regions[i].base < mc_map.regions[i].bytes) {
            return 1;
        }
    }
    return 0;
}

/* ---- new ranges ---- */

static void mc_region_reserve(mc_region *region) {
    void *memory = mmap(NULL, MC_REGION_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
        region->base = region->cursor = (mc_address)(uintptr_t)memory;
        region->bytes = MC_REGION_BYTES;
    }
}

/* The first room at or behind `at`, with an unmapped page behind; 0: none. */
static mc_address mc_room_from(const mc_region *region, mc_address at, uint64_t span) {
    mc_address end = region->base + region->bytes;
    uint32_t i = mc_range_after(at);
    if (i && mc_map.ranges[i - 1]->base >= region->base) {
        i--;                           /* it may reach over `at` */
    }
    for (; i < mc_map.count && mc_map.ranges[i]->base < end; i++) {
        const mc_range *r = mc_map.ranges[i];
        mc_address behind = r->base + mc_pages(r->size) + MC_PAGE;
        if (at + span + MC_PAGE <= r->base) {
            return at;
        }
        at = behind > at ? behind : at;
    }
    return at + span + MC_PAGE <= end ? at : 0;
}

/* Behind the newest range, if there is room, so that addresses come back late. */
static mc_address mc_room(mc_region *region, uint64_t span) {
    if (!region->base) {
        mc_region_reserve(region);
    }
    mc_address at = region->base ? mc_room_from(region, region->cursor, span) : 0;
    if (!at && region->base) {
        at = mc_room_from(region, region->base, span);
    }
    region->cursor = at ? at + span + MC_PAGE : region->cursor;
    return at;
}

static uint64_t *mc_range_living(mc_range_kind kind) {
    return kind == MC_RANGE_HOST ? &M.counts.host_allocations :
           kind == MC_RANGE_REGISTERED ? &M.counts.registered : &M.counts.device_allocations;
}

static mc_range *mc_range_new(mc_range_kind kind, mc_context *c, mc_address base, uint64_t size) {
    mc_range *r = (mc_range *)mc_calloc(1, sizeof *r);
    uint32_t at = mc_range_after(base);
    r->kind = kind;
    r->base = base;
    r->size = size;
    r->context = c;
    r->device = c->device;
    r->born = 1;
    mc_map.ranges = (mc_range **)mc_list(mc_map.ranges, mc_map.count, sizeof r);
    memmove(&mc_map.ranges[at + 1], &mc_map.ranges[at], (mc_map.count - at) * sizeof r);
    mc_map.ranges[at] = r;
    mc_map.count++;
    *mc_range_living(kind) += 1;
    return r;
}

/* Fresh memory holds no zeros that somebody could rely on. */
static void mc_range_soil(const mc_range *r) {
    unsigned char *at = (unsigned char *)mc_host(r->base);
    size_t edge = r->size < 65536 ? (size_t)r->size : MC_PAGE;
    memset(at, 0xa5, edge);
    memset(at + r->size - edge, 0xa5, edge);
}

/* Memory of a device, or pinned; NULL: no address space. */
static mc_range *mc_range_map(mc_range_kind kind, mc_context *c, uint64_t size) {
    uint32_t region = kind == MC_RANGE_HOST ? (uint32_t)MC_HOST_REGION : c->device;
    mc_address base = mc_room(&mc_map.regions[region], mc_pages(size));
    if (!base || mprotect(mc_host(base), mc_pages(size), PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    mc_range *r = mc_range_new(kind, c, base, size);
    mc_range_soil(r);
    return r;
}

/* ---- their end ---- */

static void mc_pool_end(void *object) {
    const mc_pool *pool = (const mc_pool *)object;
    M.devices[pool->device].used -= pool->reserved;
}

static void mc_range_free(mc_range *r) {
    uint32_t at = mc_range_after(r->base);
    memmove(&mc_map.ranges[at - 1], &mc_map.ranges[at], (mc_map.count - at) * sizeof r);
    mc_map.count--;
    *mc_range_living(r->kind) -= 1;
    if (r->kind != MC_RANGE_REGISTERED &&
        mmap(mc_host(r->base), mc_pages(r->size), PROT_NONE,
             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
        abort();
    }
    if (r->kind == MC_RANGE_DEVICE) {
        M.devices[r->device].used -= r->size;
    }
    if (r->pool) {
        r->pool->used -= r->size;
        mc_object_unref(r->pool);
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
    for (uint32_t i = 0; i < M.slot_count; i++) {
        if (M.slots[i].object && M.slots[i].object->kind == MC_POOL) {
            mc_pool *pool = (mc_pool *)(void *)M.slots[i].object;
            mc_pool_trim(pool, pool->threshold);
        }
    }
}

/* ---- use ---- */

/* May the context get at this range? */
static int mc_reachable(const mc_context *c, const mc_range *r) {
    switch (r->kind) {
    case MC_RANGE_POOL: return r->pool->access[c->device] != 0;
    case MC_RANGE_DEVICE: return r->context == c || c->peers[r->device] == r->context;
    default: return r->context == c || (r->flags & 1) != 0; /* PORTABLE */
    }
}

/* Checks `bytes` at an address, which an operation of `c` is about to use. */
static mc_place mc_reach(const mc_context *c, mc_address address, uint64_t bytes,
                         const char *what) {
    mc_range *r = mc_range_at(address);
    if (!r && !mc_in_region(address)) {
        return MC_PAGEABLE;
    }
    if (!r) {
        mc_misuse("%s %#llx is memory that was freed, or never allocated", what, mc_u(address));
    } else if (bytes > r->size - (address - r->base)) {
        mc_misuse("%s: %llu bytes at %#llx pass the end of an allocation of %llu bytes", what,
                  mc_u(bytes), mc_u(address), mc_u(r->size));
    } else if (!r->born) {
        mc_misuse("%s %#llx is used before its allocation in a stream: nothing orders the two",
                  what, mc_u(address));
    } else if (r->dies && mc_tls.running > r->dies) {
        mc_misuse("%s %#llx is used after its cuMemFreeAsync", what, mc_u(address));
    } else if (!mc_reachable(c, r)) {
        mc_misuse("%s %#llx is memory of device %u that a context of device %u cannot reach", what,
                  mc_u(address), r->device, c->device);
    } else {
        return r->kind == MC_RANGE_HOST || r->kind == MC_RANGE_REGISTERED ? MC_PINNED :
               MC_ON_DEVICE;
    }
    return MC_NOWHERE;
}
