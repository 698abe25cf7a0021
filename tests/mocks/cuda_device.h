/* cuda_device.h - part of libcuda.c: the driver, devices, contexts. */
#pragma once

#include "cuda_queues.h"

/* ---- driver ---- */

/* The library stays: its threads would miss it. */
static void mc_stay(void) {
    Dl_info info;
    if (dladdr(&M, &info) && info.dli_fname) {
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

MC_API(cuInit, unsigned flags) {
    MC_ENTER(MC_NEEDS_NOTHING)
    MC_RULE(!flags, MC_INVALID);
    mc_stay();
    M.initialised = 1;
    return MC_OK;
}

MC_API(cuDriverGetVersion, int *version) {
    MC_ENTER(MC_NEEDS_NOTHING)
    MC_RULE(version, MC_INVALID);
    *version = MOCK_CUDA_VERSION;
    return MC_OK;
}

MC_API(cuGetErrorName, int code, const char **text) {
    MC_ENTER(MC_NEEDS_NOTHING)
    MC_RULE(text, MC_INVALID);
    *text = code < 0 || code > MC_UNKNOWN ? NULL : code ? "CUDA_ERROR_OF_THE_MOCK" : "CUDA_SUCCESS";
    return *text ? MC_OK : MC_INVALID;
}

/* ---- devices ---- */

#define MC_DEVICE_RULES(device, result) \
    MC_RULE(result, MC_INVALID); \
    MC_RULE((uint32_t)(device) < M.desc.devices, MC_BAD_DEVICE)

MC_API(cuDeviceGetCount, int *count) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(count, MC_INVALID);
    *count = (int)M.desc.devices;
    return MC_OK;
}

/* One that says something of a device; `ok`: of what it writes to. */
#define MC_DEVICE_API(name, ok, action, ...) \
    MC_API(name, __VA_ARGS__, int device) { \
        MC_ENTER(MC_NEEDS_INIT) \
        MC_DEVICE_RULES(device, ok); \
        action; \
        return MC_OK; \
    }

MC_DEVICE_API(cuDeviceGet, out, *out = device, int *out)
MC_DEVICE_API(cuDeviceTotalMem_v2, bytes, *bytes = M.desc.memory_bytes, size_t *bytes)
MC_DEVICE_API(cuDeviceGetName, name && room > 0,
              snprintf(name, (size_t)room, "Mock GPU %d", device), char *name, int room)
MC_DEVICE_API(cuDeviceGetPCIBusId, id && room >= 13,
              snprintf(id, (size_t)room, "0000:%02X:00.0", 16 + (unsigned)device),
              char *id, int room)

/* Neighbours of what somebody asks for have other values. */
static int mc_attribute(int *value, int attribute) {
    uint32_t flags = M.desc.flags;
    switch (attribute) {
    case 1:                            /* of a block: threads, and x */
    case 2:
    case 3: *value = MC_MAX_THREADS; break;
    case 4: *value = 64; break;        /* z */
    case 5: *value = 0x7fffffff; break; /* of a grid: x */
    case 6:
    case 7: *value = 65535; break;
    case 8: *value = MC_SHARED; break;
    case 10: *value = 32; break;       /* of a warp */
    case 16: *value = 16; break;       /* multiprocessors */
    case 17:
    case 19: *value = 1; break;        /* 18: is it integrated? */
    case 40: *value = 2; break;        /* copy engines */
    case 41: *value = 1; break;        /* unified addressing */
    case 75: *value = (int)M.desc.capability / 10; break;
    case 76: *value = (int)M.desc.capability % 10; break;
    case 92: *value = 1; break;        /* 32 bits, of old functions */
    case 94: *value = 1; break;
    case 97: *value = MC_SHARED_OPTIN; break;
    case 99: *value = !(flags & MOCK_CUDA_NO_REGISTER); break;
    case 113: *value = !(flags & MOCK_CUDA_NO_REGISTER); break;
    case 115: *value = !(flags & MOCK_CUDA_NO_POOLS); break;
    case 121: *value = (flags & MOCK_CUDA_NO_MEMOPS) != 0; break;
    case 122: *value = !(flags & MOCK_CUDA_NO_MEMOPS); break;
    case 123: *value = (flags & MOCK_CUDA_NO_MEMOPS) != 0; break;
    default: *value = 0; break;
    }
    return MC_OK;
}

MC_API(cuDeviceGetAttribute, int *value, int attribute, int device) {
    const int last = MOCK_CUDA_VERSION >= 13000 ? 147 : MOCK_CUDA_VERSION >= 12000 ? 135 :
                     MOCK_CUDA_VERSION >= 11070 ? 124 : 119; /* that this driver knows */
    MC_ENTER(MC_NEEDS_INIT)
    MC_DEVICE_RULES(device, value);
    MC_RULE(attribute > 0 && attribute <= 999, mc_misuse("%d is no attribute", attribute));
    MC_RULE(attribute <= last, MC_INVALID);
    return mc_attribute(value, attribute);
}

static int mc_peers(uint32_t from, uint32_t to) {
    return from != to && !(M.desc.flags & MOCK_CUDA_NO_PEERS);
}

MC_API(cuDeviceCanAccessPeer, int *can, int device, int peer) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_DEVICE_RULES(device, can);
    MC_DEVICE_RULES(peer, can);
    *can = mc_peers((uint32_t)device, (uint32_t)peer);
    return MC_OK;
}

/* ---- contexts ---- */

static mc_context *mc_context_new(uint32_t device) {
    mc_context *c = (mc_context *)mc_object_new(MC_CONTEXT, sizeof *c, NULL, NULL);
    c->object.refs++;                  /* of M.contexts: others may still look at it */
    c->device = device;
    c->next = M.contexts;
    M.contexts = c;
    return c;
}

static void mc_context_clear(mc_context *c) {
    uint64_t left = 0;
    for (uint32_t i = 0; i < M.slot_count; i++) {
        mc_object *o = M.slots[i].object;
        if (o && o->context == c && o->kind != MC_FUNCTION) {
            mc_object_drop(o);
            left++;
        }
    }
    for (uint32_t i = mc_map.count; i-- > 0;) {
        mc_range *r = mc_map.ranges[i];
        if (r->context == c && r->kind == MC_RANGE_POOL) {
            r->context = NULL;         /* its pool has it still */
        } else if (r->context == c) {
            mc_range_free(r);
            left++;
        }
    }
    M.counts.left_behind += c->error ? 0 : left;
}

static void mc_context_end(mc_context *c) {
    mc_wait_call(mc_context_drained, c, 0, "the end of a context's work");
    mc_context_clear(c);
    for (mc_context *other = M.contexts; other; other = other->next) {
        if (other->peers[c->device] == c) {
            other->peers[c->device] = NULL;
        }
    }
    c->ended = 1;
    mc_object_drop(c);
}

/* May there be a new context? */
static int mc_context_may(void) { return M.desc.flags & MOCK_CUDA_NO_RECOVERY ? M.broken : MC_OK; }

MC_API(cuDevicePrimaryCtxRetain, mc_handle *context, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_DEVICE_RULES(device, context);
    mc_device *d = &M.devices[device];
    MC_RULE(d->context || !mc_context_may(), M.broken);
    if (!d->context) {
        d->context = mc_context_new((uint32_t)device);
        d->context->primary = 1;
    }
    d->context->retained++;
    *context = mc_handle_of(d->context);
    return MC_OK;
}

MC_API(cuDevicePrimaryCtxRelease_v2, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_DEVICE_RULES(device, 1);
    mc_context *c = M.devices[device].context;
    MC_RULE(c, mc_misuse("the primary context is not retained"));
    if (--c->retained == 0) {
        M.devices[device].context = NULL;
        mc_context_end(c);
    }
    return MC_OK;
}

static int mc_stack_push(mc_handle context) {
    MC_RULE(mc_tls.depth < MC_STACK,
            mc_misuse("%d contexts are on this thread's stack", (int)MC_STACK));
    mc_tls.stack[mc_tls.depth++] = context;
    return MC_OK;
}

MC_API(cuCtxCreate_v2, mc_handle *context, unsigned flags, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_DEVICE_RULES(device, context && !flags);
    MC_RULE(!mc_context_may(), M.broken);
    *context = mc_handle_of(mc_context_new((uint32_t)device));
    return mc_stack_push(*context);
}

MC_API(cuCtxDestroy_v2, mc_handle context) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_FIND(mc_context, c, context, MC_CONTEXT);
    MC_RULE(!c->primary, mc_misuse("a primary context is released, not destroyed"));
    mc_tls.depth -= c == mc_tls.here;
    mc_context_end(c);
    return MC_OK;
}

MC_API(cuCtxPushCurrent_v2, mc_handle context) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(mc_find(context, MC_CONTEXT), MC_NO_CONTEXT);
    return mc_stack_push(context);
}

MC_API(cuCtxPopCurrent_v2, mc_handle *context) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(mc_tls.depth, MC_NO_CONTEXT);
    mc_tls.depth--;
    if (context) {
        *context = mc_tls.stack[mc_tls.depth];
    }
    return MC_OK;
}

MC_API(cuCtxGetCurrent, mc_handle *context) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(context, MC_INVALID);
    *context = mc_tls.depth ? mc_tls.stack[mc_tls.depth - 1] : NULL;
    return MC_OK;
}

MC_API(cuCtxGetDevice, int *device) {
    MC_ENTER(MC_NEEDS_ANY_CONTEXT)
    MC_RULE(device, MC_INVALID);
    *device = (int)mc_tls.here->device;
    return MC_OK;
}

MC_API(cuCtxSynchronize, void) {
    MC_ENTER(MC_UNSAFE)
    mc_context *c = mc_tls.here;
    MC_RULE(!mc_capture_spoiled(c), MC_CAPTURE_FORBIDS);
    int came = mc_wait_call(mc_context_ready, c, M.sequence, "a context");
    mc_pools_trim();
    return c->error ? c->error : came ? MC_OK : MC_UNKNOWN;
}

MC_API(cuCtxEnablePeerAccess, mc_handle peer, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_context, p, peer, MC_CONTEXT);
    mc_context *c = mc_tls.here;
    MC_RULE(!flags, MC_INVALID);
    MC_RULE(mc_peers(c->device, p->device), MC_NO_PEER);
    MC_RULE(c->peers[p->device] != p, MC_PEER_ALREADY);
    c->peers[p->device] = p;
    return MC_OK;
}
