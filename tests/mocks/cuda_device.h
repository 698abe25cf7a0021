/* cuda_device.h - part of libcuda.c: the driver, devices, contexts. */
#ifndef HCQ_TEST_MOCK_CUDA_DEVICE_H
#define HCQ_TEST_MOCK_CUDA_DEVICE_H

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
    if (flags) {
        return mc_leave(MC_INVALID);
    }
    if (M.desc.init_result || !M.desc.devices) {
        return mc_leave(M.desc.init_result ? M.desc.init_result : MC_NO_DEVICE);
    }
    mc_stay();
    M.initialised = 1;
    return mc_leave(MC_OK);
}

MC_API(cuDriverGetVersion, int *version) {
    MC_ENTER(MC_NEEDS_NOTHING)
    if (version) {
        *version = (int)M.desc.driver_version;
    }
    return mc_leave(version ? MC_OK : MC_INVALID);
}

static const struct { int code; const char *name; } mc_errors[] = {
    {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"}, {4, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"}, {218, "CUDA_ERROR_INVALID_PTX"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"}, {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"}, {710, "CUDA_ERROR_ASSERT"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS"}, {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}, {714, "CUDA_ERROR_HARDWARE_STACK_ERROR"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"}, {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"}, {718, "CUDA_ERROR_INVALID_PC"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"}, {800, "CUDA_ERROR_NOT_PERMITTED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"}, {999, "CUDA_ERROR_UNKNOWN"}
};

static int mc_error_name(int code, const char **text) {
    *text = NULL;
    for (size_t i = 0; i < sizeof mc_errors / sizeof *mc_errors; i++) {
        if (mc_errors[i].code == code) {
            *text = mc_errors[i].name;
        }
    }
    return *text ? MC_OK : MC_INVALID;
}

MC_API(cuGetErrorName, int code, const char **text) {
    MC_ENTER(MC_NEEDS_NOTHING)
    return mc_leave(text ? mc_error_name(code, text) : MC_INVALID);
}

MC_API(cuGetErrorString, int code, const char **text) {
    MC_ENTER(MC_NEEDS_NOTHING)
    return mc_leave(text ? mc_error_name(code, text) : MC_INVALID);
}

/* ---- devices ---- */

static int mc_device_good(int device) { return device >= 0 && (uint32_t)device < M.desc.devices; }

MC_API(cuDeviceGetCount, int *count) {
    MC_ENTER(MC_NEEDS_INIT)
    if (count) {
        *count = (int)M.desc.devices;
    }
    return mc_leave(count ? MC_OK : MC_INVALID);
}

MC_API(cuDeviceGet, int *device, int ordinal) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!device || !mc_device_good(ordinal)) {
        return mc_leave(device ? MC_BAD_DEVICE : MC_INVALID);
    }
    *device = ordinal;
    return mc_leave(MC_OK);
}

MC_API(cuDeviceGetName, char *name, int room, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!name || room <= 0 || !mc_device_good(device)) {
        return mc_leave(mc_device_good(device) ? MC_INVALID : MC_BAD_DEVICE);
    }
    snprintf(name, (size_t)room, "Mock GPU %d", device);
    return mc_leave(MC_OK);
}

MC_API(cuDeviceTotalMem_v2, size_t *bytes, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!bytes || !mc_device_good(device)) {
        return mc_leave(bytes ? MC_BAD_DEVICE : MC_INVALID);
    }
    *bytes = M.desc.memory_bytes;
    return mc_leave(MC_OK);
}

MC_API(cuDeviceGetPCIBusId, char *id, int room, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!id || room < 13 || !mc_device_good(device)) {
        return mc_leave(mc_device_good(device) ? MC_INVALID : MC_BAD_DEVICE);
    }
    snprintf(id, (size_t)room, "0000:%02X:00.0", 16 + (unsigned)device);
    return mc_leave(MC_OK);
}

/* Attributes that are as always; the rest depends on the settings. */
static const struct { int attribute, value; } mc_attributes[] = {
    {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {9, 65536}, {10, 32}, {11, 0x7fffffff},
    {12, 65536}, {13, 1500000}, {14, 512}, {15, 1}, {17, 0}, {18, 0}, {19, 1}, {20, 0}, {31, 1},
    {32, 0}, {34, 0}, {35, 0}, {36, 2000000}, {37, 5120}, {38, 50 << 20}, {39, 2048}, {40, 2},
    {50, 0}, {78, 1}, {79, 1}, {80, 1}, {82, 65536}, {83, 1}, {84, 0}, {85, 0}, {86, 0}, {87, 2},
    {88, 0}, {89, 1}, {90, 1}, {91, 1}, {95, 1}, {96, 0}, {98, 0}, {100, 0}, {101, 0}, {102, 1},
    {103, 1}, {104, 0}, {105, 0}, {106, 32}, {107, 0}, {108, 0}, {109, 0}, {110, 0}, {111, 1024},
    {112, 0}, {113, 0}, {114, 1}, {116, 0}, {117, 0}, {118, 0}, {119, 1}, {120, 1}, {121, 1},
    {124, 0}, {125, 1}, {126, 1}, {127, 0}, {128, 0}, {129, 1}, {130, 0}, {131, 0}, {132, 0},
    {133, 0}, {134, -1}, {147, 0}
};

static int mc_attribute_fixed(int *value, int attribute) {
    for (size_t i = 0; i < sizeof mc_attributes / sizeof *mc_attributes; i++) {
        if (mc_attributes[i].attribute == attribute) {
            *value = mc_attributes[i].value;
            return MC_OK;
        }
    }
    return MC_INVALID;
}

/* The last attribute that a driver of this version knows. */
static int mc_attribute_last(void) {
    uint32_t v = M.desc.driver_version;
    return v >= 13000 ? 147 : v >= 12000 ? 135 : v >= 11070 ? 124 : 119;
}

static int mc_attribute(int *value, int attribute, int device) {
    const mock_cuda_desc *d = &M.desc;
    int memops = !(d->flags & MOCK_CUDA_NO_MEMOPS);
    int old = memops && (d->flags & MOCK_CUDA_MEMOPS_V1);
    if (attribute <= 0 || attribute > 999) {
        return mc_misuse("%d is no attribute", attribute);
    }
    if (attribute > mc_attribute_last()) {
        return MC_INVALID;
    }
    switch (attribute) {
    case 1:
    case 2:
    case 3: *value = (int)d->max_threads; break;
    case 8: *value = (int)d->shared_bytes; break;
    case 16: *value = (int)d->processors; break;
    case 33: *value = 16 + device; break;
    case 41: *value = !(d->flags & MOCK_CUDA_NO_UNIFIED); break;
    case 75: *value = (int)d->capability / 10; break;
    case 76: *value = (int)d->capability % 10; break;
    case 81: *value = (int)d->shared_optin + 1024; break;
    case 92:
    case 93:
    case 94: *value = old; break;
    case 97: *value = (int)d->shared_optin; break;
    case 99: *value = !(d->flags & MOCK_CUDA_NO_REGISTER); break;
    case 115: *value = !(d->flags & MOCK_CUDA_NO_POOLS); break;
    case 122:
    case 123: *value = memops; break;
    default: return mc_attribute_fixed(value, attribute);
    }
    return MC_OK;
}

MC_API(cuDeviceGetAttribute, int *value, int attribute, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!value || !mc_device_good(device)) {
        return mc_leave(value ? MC_BAD_DEVICE : MC_INVALID);
    }
    return mc_leave(mc_attribute(value, attribute, device));
}

static int mc_peers(uint32_t from, uint32_t to) {
    return from != to && !(M.desc.flags & MOCK_CUDA_NO_PEERS) && (M.desc.peers[from] >> to & 1);
}

MC_API(cuDeviceCanAccessPeer, int *can, int device, int peer) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!can || !mc_device_good(device) || !mc_device_good(peer)) {
        return mc_leave(can ? MC_BAD_DEVICE : MC_INVALID);
    }
    *can = mc_peers((uint32_t)device, (uint32_t)peer);
    return mc_leave(MC_OK);
}

/* ---- contexts ---- */

static mc_context *mc_context_new(uint32_t device) {
    mc_context *c = (mc_context *)mc_object_new(MC_CONTEXT, sizeof *c, NULL);
    c->object.refs++;                  /* of M.contexts: others may still look at it */
    c->device = device;
    c->next = M.contexts;
    M.contexts = c;
    return c;
}

static void mc_exec_free(struct mc_exec *e);

/* Ends an object with its context. */
static void mc_object_end(mc_object *o) {
    switch (o->kind) {
    case MC_STREAM:
        mc_object_forget(o);
        mc_object_unref(o);
        break;
    case MC_EVENT:
        mc_object_forget(o);
        mc_event_unref((mc_event *)(void *)o);
        break;
    case MC_MODULE: mc_module_free((mc_module *)(void *)o); break;
    case MC_EXEC: mc_exec_free((struct mc_exec *)(void *)o); break;
    default: break;
    }
}

static void mc_context_clear(mc_context *c) {
    uint64_t left = 0;
    if (c->null_stream) {
        M.counts.streams++;            /* it was not counted */
        mc_object_end(&c->null_stream->object);
        c->null_stream = NULL;
    }
    for (uint32_t i = 0; i < M.slot_count; i++) {
        mc_object *o = M.slots[i].object;
        if (o && o->context == c && o->kind != MC_FUNCTION) {
            mc_object_end(o);
            left++;
        }
    }
    for (uint32_t i = mc_map.count; i-- > 0;) {
        if (mc_map.ranges[i]->context == c) {
            mc_range_free(mc_map.ranges[i]);
            left++;
        }
    }
    M.counts.left_behind += c->error ? 0 : left;
}

static void mc_context_end(mc_context *c) {
    mc_wait_call(mc_context_drained, c, 0, "the end of a context's work");
    mc_context_clear(c);
    for (mc_context *other = M.contexts; other; other = other->next) {
        for (uint32_t i = 0; i < MC_DEVICES; i++) {
            other->peers[i] = other->peers[i] == c ? NULL : other->peers[i];
        }
    }
    c->ended = 1;
    mc_object_forget(c);
    mc_object_unref(c);
}

MC_API(cuDevicePrimaryCtxRetain, mc_handle *context, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!context || !mc_device_good(device)) {
        return mc_leave(context ? MC_BAD_DEVICE : MC_INVALID);
    }
    mc_device *d = &M.devices[device];
    if (!d->context) {
        d->context = mc_context_new((uint32_t)device);
        d->context->primary = 1;
    }
    d->context->retained++;
    *context = mc_handle_of(d->context);
    return mc_leave(MC_OK);
}

MC_API(cuDevicePrimaryCtxRelease_v2, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!mc_device_good(device)) {
        return mc_leave(MC_BAD_DEVICE);
    }
    mc_context *c = M.devices[device].context;
    if (!c) {
        return mc_leave(mc_misuse("the primary context is not retained"));
    }
    if (--c->retained == 0) {
        M.devices[device].context = NULL;
        mc_context_end(c);
    }
    return mc_leave(MC_OK);
}

MC_API(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!flags || !active || !mc_device_good(device)) {
        return mc_leave(mc_device_good(device) ? MC_INVALID : MC_BAD_DEVICE);
    }
    *flags = 0;
    *active = M.devices[device].context != NULL;
    return mc_leave(MC_OK);
}

static int mc_stack_push(mc_handle context) {
    if (mc_tls.depth == MC_STACK) {
        return mc_misuse("%d contexts are on this thread's stack", (int)MC_STACK);
    }
    mc_tls.stack[mc_tls.depth++] = context;
    return MC_OK;
}

MC_API(cuCtxCreate_v2, mc_handle *context, unsigned flags, int device) {
    MC_ENTER(MC_NEEDS_INIT)
    (void)flags;
    if (!context || !mc_device_good(device)) {
        return mc_leave(context ? MC_BAD_DEVICE : MC_INVALID);
    }
    *context = mc_handle_of(mc_context_new((uint32_t)device));
    return mc_leave(mc_stack_push(*context));
}

MC_API(cuCtxDestroy_v2, mc_handle context) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_context *c = (mc_context *)mc_find(context, MC_CONTEXT);
    if (!c) {
        return mc_leave(MC_NO_CONTEXT);
    }
    if (c->primary) {
        return mc_leave(mc_misuse("a primary context is released, not destroyed"));
    }
    if (mc_tls.depth && mc_tls.stack[mc_tls.depth - 1] == context) {
        mc_tls.depth--;
    }
    mc_context_end(c);
    return mc_leave(MC_OK);
}

MC_API(cuCtxPushCurrent_v2, mc_handle context) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!mc_find(context, MC_CONTEXT)) {
        return mc_leave(MC_NO_CONTEXT);
    }
    return mc_leave(mc_stack_push(context));
}

MC_API(cuCtxPopCurrent_v2, mc_handle *context) {
    MC_ENTER(MC_NEEDS_INIT)
    if (!mc_tls.depth) {
        return mc_leave(MC_NO_CONTEXT);
    }
    mc_tls.depth--;
    if (context) {
        *context = mc_tls.stack[mc_tls.depth];
    }
    return mc_leave(MC_OK);
}

MC_API(cuCtxSetCurrent, mc_handle context) {
    MC_ENTER(MC_NEEDS_INIT)
    if (context && !mc_find(context, MC_CONTEXT)) {
        return mc_leave(MC_NO_CONTEXT);
    }
    mc_tls.depth -= mc_tls.depth ? 1 : 0;
    return mc_leave(context ? mc_stack_push(context) : MC_OK);
}

MC_API(cuCtxGetCurrent, mc_handle *context) {
    MC_ENTER(MC_NEEDS_INIT)
    if (context) {
        *context = mc_tls.depth ? mc_tls.stack[mc_tls.depth - 1] : NULL;
    }
    return mc_leave(context ? MC_OK : MC_INVALID);
}

MC_API(cuCtxGetDevice, int *device) {
    MC_ENTER(MC_NEEDS_ANY_CONTEXT)
    if (device) {
        *device = (int)mc_tls.here->device;
    }
    return mc_leave(device ? MC_OK : MC_INVALID);
}

MC_API(cuCtxGetStreamPriorityRange, int *least, int *greatest) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (least) {
        *least = 0;
    }
    if (greatest) {
        *greatest = -5;
    }
    return mc_leave(MC_OK);
}

MC_API(cuCtxSynchronize, void) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_context *c = mc_tls.here;
    int came = mc_wait_call(mc_context_ready, c, M.sequence, "a context");
    mc_pools_trim();
    return mc_leave(c->error ? c->error : came ? MC_OK : 999);
}

MC_API(cuCtxEnablePeerAccess, mc_handle peer, unsigned flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_context *c = mc_tls.here, *p = (mc_context *)mc_find(peer, MC_CONTEXT);
    if (!p || p == c || flags) {
        return mc_leave(flags ? MC_INVALID : MC_NO_CONTEXT);
    }
    if (!mc_peers(c->device, p->device)) {
        return mc_leave(MC_NO_PEER);
    }
    if (c->peers[p->device] == p) {
        return mc_leave(MC_PEER_ALREADY);
    }
    c->peers[p->device] = p;
    return mc_leave(MC_OK);
}

MC_API(cuCtxDisablePeerAccess, mc_handle peer) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_context *c = mc_tls.here, *p = (mc_context *)mc_find(peer, MC_CONTEXT);
    if (!p || c->peers[p->device] != p) {
        return mc_leave(p ? MC_PEER_NOT : MC_NO_CONTEXT);
    }
    c->peers[p->device] = NULL;
    return mc_leave(MC_OK);
}

#endif /* HCQ_TEST_MOCK_CUDA_DEVICE_H */
