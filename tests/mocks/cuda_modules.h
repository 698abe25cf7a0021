/* cuda_modules.h - part of libcuda.c: modules, functions, their arguments. */
#pragma once

#include "cuda_ptx.h"
#include "cuda_wait.h"

enum { MC_SHARED = 48 * 1024, MC_SHARED_OPTIN = 227 * 1024 }; /* of a block; where one asks */

/* ---- what kernels do ---- */

typedef struct mc_kernel {
    const char *entry;
    mock_cuda_fn fn;
    struct mc_kernel *next;
} mc_kernel;

static mc_kernel *mc_kernel_find(const char *entry) {
    mc_kernel *k = M.kernels;
    while (k && strcmp(k->entry, entry) != 0) {
        k = k->next;
    }
    return k;
}

static void mc_kernel_set(const char *entry, mock_cuda_fn fn) {
    mc_kernel *k = mc_kernel_find(entry);
    if (!k) {
        k = (mc_kernel *)mc_calloc(1, sizeof *k);
        k->entry = strdup(entry);
        k->next = M.kernels;
        M.kernels = k;
    }
    k->fn = fn;
}

/* ---- loading ---- */

/* Options 5 and 6 are the buffer for errors and its size, which tells how much was
   written. */
static void mc_jit_tell(uint32_t count, const int *options, void **values, const char *text) {
    char *log = NULL;
    for (uint32_t i = 0; i < count; i++) {
        M.counts.line_numbers += options[i] == 13 && values[i] == (void *)1;
        log = options[i] == 5 ? (char *)values[i] : log;
    }
    for (uint32_t i = 0; i < count && log; i++) {
        if (options[i] == 6) {
            size_t room = (uint32_t)(uintptr_t)values[i], n = strlen(text) + 1;
            snprintf(log, room, "%s", text);
            values[i] = (void *)(uintptr_t)(n < room ? n : room);
        }
    }
}

static void mc_module_end(void *object) {
    mc_module *m = (mc_module *)object;
    while (m->functions) {
        mc_function *f = m->functions;
        m->functions = f->next;
        f->module = NULL;
        mc_object_drop(f);
    }
}

MC_API(cuModuleLoadDataEx, mc_handle *module, const void *image, unsigned count,
       const int *options, void **values) {
    MC_ENTER(MC_UNSAFE)
    static const unsigned char elf[4] = {0x7f, 'E', 'L', 'F'}, fat[4] = {0x50, 0xed, 0x55, 0xba};
    mc_ptx p = {.at = (const char *)image};
    MC_RULE(module && image && (!count || (options && values)), MC_INVALID);
    mc_may_sync("cuModuleLoadDataEx");
    p.module = (mc_module *)mc_object_new(MC_MODULE, sizeof *p.module, mc_tls.here, mc_module_end);
    if (memcmp(image, elf, 4) != 0 && memcmp(image, fat, 4) != 0) {
        mc_slow(M.slow_ns.jit);
        p.result = M.desc.flags & MOCK_CUDA_NO_JIT ? MC_NO_JIT : mc_ptx_read(&p);
    }
    mc_jit_tell(count, options, values, p.error);
    *module = p.result ? NULL : mc_handle_of(p.module);
    if (p.result) {
        mc_object_drop(p.module);
    }
    return p.result;
}

MC_API(cuModuleUnload, mc_handle module) {
    MC_ENTER(MC_UNSAFE)
    MC_FIND(mc_module, m, module, MC_MODULE);
    MC_RULE(m->object.context == mc_tls.here, mc_misuse("the module is of another context"));
    for (mc_function *f = m->functions; f; f = f->next) {
        MC_RULE(!f->pending, mc_misuse("'%s' is enqueued and has not run", f->entry));
    }
    mc_may_sync("cuModuleUnload");
    mc_object_drop(m);
    return MC_OK;
}

/* In binary code there are the functions that somebody told about. */
MC_API(cuModuleGetFunction, mc_handle *function, mc_handle module, const char *name) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_module, m, module, MC_MODULE);
    MC_RULE(function && name, MC_INVALID);
    MC_RULE(m->object.context == mc_tls.here, mc_misuse("the module is of another context"));
    mc_function *f = m->functions;
    while (f && strcmp(f->entry, name) != 0) {
        f = f->next;
    }
    if (!f && m->ptx == 0 && mc_kernel_find(name)) {
        f = mc_function_new(m, name);
    }
    MC_RULE(f, MC_NOT_FOUND);
    *function = mc_handle_of(f);
    return MC_OK;
}

/* ---- functions ---- */

static int mc_function_dynamic(const mc_function *f) {
    return f->dynamic >= 0 ? f->dynamic : MC_SHARED;
}

MC_API(cuFuncGetAttribute, int *value, int attribute, mc_handle function) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_function, f, function, MC_FUNCTION);
    MC_RULE(value, MC_INVALID);
    switch (attribute) {
    case 0: *value = (int)f->threads; break;
    case 1: *value = 0; break;         /* memory: static shared, ... */
    case 2: *value = 4; break;         /* ... constant, ... */
    case 3: *value = 24; break;        /* ... local */
    case 4: *value = 32; break;        /* registers */
    case 5: *value = f->module ? (int)f->module->ptx : 0; break;
    case 6: *value = (int)M.desc.capability; break;
    case 8: *value = mc_function_dynamic(f); break;
    default: return MC_INVALID;
    }
    return MC_OK;
}

MC_API(cuFuncSetAttribute, mc_handle function, int attribute, int value) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_function, f, function, MC_FUNCTION);
    MC_RULE(attribute == 8, MC_INVALID);
    MC_RULE(value >= 0 && value <= MC_SHARED_OPTIN, MC_INVALID);
    f->dynamic = value;
    return MC_OK;
}

#if MOCK_CUDA_VERSION >= 13000 /* from 12.4 on */
MC_API(cuFuncLoad, mc_handle function) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_function, f, function, MC_FUNCTION);
    if (!f->loaded) {
        mc_may_sync("cuFuncLoad");
        f->loaded = 1;
    }
    return MC_OK;
}
#endif

/* Drivers load kernels late (from 12.2 on by default): the first launch may wait. */
static void mc_function_launched(mc_function *f) {
    if (!f->loaded && MOCK_CUDA_VERSION >= 12020) {
        mc_may_sync("the first launch of a kernel");
    }
    f->loaded = 1;
}

/* Would a launch be refused? */
static int mc_function_check(const mc_function *f, const uint32_t grid[3], const uint32_t block[3],
                             uint32_t shared) {
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    MC_RULE(grid[0] && grid[1] && grid[2] && threads, MC_INVALID);
    MC_RULE(grid[0] <= 0x7fffffffu && grid[1] <= 65535 && grid[2] <= 65535, MC_INVALID);
    MC_RULE(block[0] <= MC_MAX_THREADS && block[1] <= MC_MAX_THREADS && block[2] <= 64, MC_INVALID);
    MC_RULE(threads <= MC_MAX_THREADS, MC_INVALID);
    MC_RULE(threads <= f->threads, MC_RESOURCES);
    MC_RULE(shared <= (uint32_t)mc_function_dynamic(f), MC_INVALID);
    return MC_OK;
}

/* Finds the arguments of a launch and copies them. */
static int mc_args_take(const mc_function *f, void **params, void **extra, unsigned char **args,
                        size_t *size) {
    const size_t most = MOCK_CUDA_VERSION >= 12010 && M.desc.capability >= 70 ? 32764 : 4096;
    const void *block = NULL;
    *size = 0;
    for (void **e = extra; e && *e; e += 2) { /* 1: pointer, 2: size, 0: end */
        MC_RULE(*e == (void *)1 || *e == (void *)2, MC_INVALID);
        block = *e == (void *)1 ? e[1] : block;
        *size = *e == (void *)2 ? *(const size_t *)e[1] : *size;
    }
    MC_RULE(!(params && extra) && (block || !*size) && *size <= most, MC_INVALID);
    MC_RULE(params || extra || !f->known || !f->param_bytes, MC_INVALID);
    MC_RULE(!params || f->known,
            mc_misuse("'%s' is not PTX: the mock needs its arguments as one block", f->entry));
    MC_RULE(!extra || !f->known || *size >= f->param_bytes,
            mc_misuse("'%s' has %u bytes of parameters and gets %llu", f->entry, f->param_bytes,
                      mc_u(*size)));
    *size = params ? f->param_bytes : *size;
    *args = (unsigned char *)mc_calloc(1, *size);
    if (block && *size) {
        memcpy(*args, block, *size);
    }
    for (uint32_t i = 0; params && i < f->param_count; i++) {
        memcpy(*args + f->params[i].offset, params[i], f->params[i].size);
    }
    return MC_OK;
}
