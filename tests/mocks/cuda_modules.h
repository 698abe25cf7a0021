/* cuda_modules.h - part of libcuda.c: modules. PTX is read as far as its
   kernels' names, parameters and bounds; its instructions are only looked at. */
#ifndef HCQ_TEST_MOCK_CUDA_MODULES_H
#define HCQ_TEST_MOCK_CUDA_MODULES_H

enum { MC_NAME = 256, MC_POINTERS = 64 };

typedef struct mc_param {
    uint32_t offset, size;
} mc_param;

typedef struct mc_function {
    mc_object object;
    struct mc_module *module;          /* NULL: unloaded */
    char entry[MC_NAME];
    mc_param *params;
    uint32_t param_count, param_bytes;
    int known;                         /* its parameters are: it came as PTX */
    uint32_t threads, shared;          /* of a block: at most, static */
    int dynamic;                       /* at most, if not the default; else -1 */
    uint32_t ptx;
    uint32_t pending;                  /* launches enqueued and not done */
    int loaded;                        /* on the device, else its first launch does it */
    struct mc_function *next;
} mc_function;

typedef struct mc_module {
    mc_object object;
    uint32_t ptx;                      /* 10 * major + minor; 0: it is binary code */
    mc_function *functions;
} mc_module;

/* ---- kernels ---- */

static mock_cuda_fn mc_kernel_find(const char *entry) {
    for (uint32_t i = 0; i < M.kernel_count; i++) {
        if (strcmp(M.kernels[i].entry, entry) == 0) {
            return M.kernels[i].fn;
        }
    }
    return NULL;
}

static void mc_kernel_set(const char *entry, mock_cuda_fn fn) {
    for (uint32_t i = 0; i < M.kernel_count; i++) {
        if (strcmp(M.kernels[i].entry, entry) == 0) {
            M.kernels[i].fn = fn;
            return;
        }
    }
    M.kernels = (mc_builtin *)realloc(M.kernels, (M.kernel_count + 1) * sizeof *M.kernels);
    if (!M.kernels) {
        abort();
    }
    M.kernels[M.kernel_count].entry = strdup(entry);
    M.kernels[M.kernel_count++].fn = fn;
}

/* ---- PTX ---- */

typedef struct mc_ptx {
    const char *at;
    uint32_t line, version, target;
    char token[MC_NAME];
    char error[MC_NAME];
    mc_module *module;
} mc_ptx;

__attribute__((format(printf, 2, 3)))
static int mc_ptx_error(mc_ptx *p, const char *format, ...) {
    va_list list;
    int n = snprintf(p->error, sizeof p->error, "mock ptx, line %u: error: ", p->line);
    va_start(list, format);
    vsnprintf(p->error + n, sizeof p->error - (size_t)n, format, list);
    va_end(list);
    return MC_BAD_PTX;
}

static void mc_ptx_blank(mc_ptx *p) {
    for (;;) {
        if (p->at[0] == '/' && p->at[1] == '/') {
            p->at += strcspn(p->at, "\n");
        } else if (p->at[0] == '/' && p->at[1] == '*') {
            const char *end = strstr(p->at + 2, "*/");
            for (; p->at != (end ? end + 2 : p->at + strlen(p->at)); p->at++) {
                p->line += *p->at == '\n';
            }
        } else if (*p->at && strchr(" \t\r\n\f\v", *p->at)) {
            p->line += *p->at++ == '\n';
        } else {
            return;
        }
    }
}

static int mc_ptx_word(char c) {
    return isalnum((unsigned char)c) || (c && strchr("._$%@!", c) != NULL);
}

/* The next token: a word with its dots, a string, or one character; 0 at the end. */
static int mc_ptx_next(mc_ptx *p) {
    size_t n = 0;
    mc_ptx_blank(p);
    if (*p->at == '"') {
        p->token[n++] = *p->at++;
        p->at += strcspn(p->at, "\"");
        p->at += *p->at != 0;
    } else if (mc_ptx_word(*p->at)) {
        while (mc_ptx_word(*p->at)) {
            if (n + 1 < sizeof p->token) {
                p->token[n++] = *p->at;
            }
            p->at++;
        }
    } else if (*p->at) {
        p->token[n++] = *p->at++;
    }
    p->token[n] = 0;
    return n != 0;
}

static int mc_ptx_is(const mc_ptx *p, const char *token) { return strcmp(p->token, token) == 0; }

static int mc_ptx_number(mc_ptx *p, uint32_t *value) {
    char *end;
    if (!mc_ptx_next(p)) {
        return 0;
    }
    *value = (uint32_t)strtoul(p->token, &end, 0);
    return end != p->token;
}

/* Bytes of a type such as ".u64", or 0. */
static uint32_t mc_ptx_type(const char *token) {
    if (token[0] != '.' || !token[1] || !strchr("usbf", token[1])) {
        return 0;
    }
    unsigned long bits = strtoul(token + 2, NULL, 10);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ?
           (uint32_t)bits / 8 : 0;
}

/* A variable after its state space: its alignment and bytes. */
static int mc_ptx_variable(mc_ptx *p, uint32_t *align, uint32_t *bytes) {
    uint32_t type = 0, count = 1, skip;
    *align = 0;
    while (mc_ptx_next(p) && p->token[0] == '.') {
        if (mc_ptx_is(p, ".align")) {
            if (!mc_ptx_number(p, align)) {
                return 0;
            }
        } else if (mc_ptx_is(p, ".ptr")) { /* .ptr .space .align N: of what it points to */
            while (mc_ptx_next(p) && p->token[0] == '.') {
                if (mc_ptx_is(p, ".align") && !mc_ptx_number(p, &skip)) {
                    return 0;
                }
            }
            break;
        } else if (mc_ptx_type(p->token)) {
            type = mc_ptx_type(p->token);
        }
    }
    mc_ptx_blank(p);
    if (*p->at == '[') {
        p->at++;
        mc_ptx_blank(p);
        count = 0;
        if (*p->at != ']' && !mc_ptx_number(p, &count)) {
            return 0;
        }
        if (!mc_ptx_next(p) || !mc_ptx_is(p, "]")) {
            return 0;
        }
    }
    *align = *align ? *align : type;
    *bytes = type * count;
    return type != 0;
}

/* The parameters, behind the parenthesis. */
static int mc_ptx_params(mc_ptx *p, mc_function *f) {
    for (;;) {
        uint32_t align, bytes;
        if (!mc_ptx_next(p)) {
            return mc_ptx_error(p, "the parameters of '%s' have no end", f->entry);
        }
        if (mc_ptx_is(p, ")")) {
            return 0;
        }
        if (mc_ptx_is(p, ",")) {
            continue;
        }
        if (!mc_ptx_is(p, ".param") || !mc_ptx_variable(p, &align, &bytes)) {
            return mc_ptx_error(p, "'%s' in the parameters of '%s'", p->token, f->entry);
        }
        f->params = (mc_param *)realloc(f->params, (f->param_count + 1) * sizeof *f->params);
        if (!f->params) {
            abort();
        }
        f->param_bytes = (f->param_bytes + align - 1) / align * align;
        f->params[f->param_count].offset = f->param_bytes;
        f->params[f->param_count++].size = bytes;
        f->param_bytes += bytes;
    }
}

/* What instructions begin with. */
static int mc_ptx_instruction(const char *token) {
    static const char known[] =
        " abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra "
        "brev brkpt brx call clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a "
        "elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu "
        "lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24 "
        "multimem nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red redux rem ret "
        "rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stacksave "
        "stackrestore stmatrix sub subc suld suq sured sust szext tanh tensormap testp tex tld4 "
        "trap txq vabsdiff vadd vmad vmax vmin vote vset vshl vshr vsub wgmma wmma xor ";
    char word[64];
    size_t n = strcspn(token, ".");
    if (n == 0 || n > sizeof word - 3) {
        return 0;
    }
    word[0] = ' ';
    memcpy(word + 1, token, n);
    memcpy(word + 1 + n, " ", 2);
    return strstr(known, word) != NULL;
}

/* A statement of a body, which begins with the token; up to its semicolon. */
static int mc_ptx_statement(mc_ptx *p, mc_function *f) {
    uint32_t align, bytes;
    if (p->token[0] == '@' && !mc_ptx_next(p)) {
        return mc_ptx_error(p, "the end, after a predicate");
    }
    if (mc_ptx_is(p, ".shared")) {
        if (!mc_ptx_variable(p, &align, &bytes)) {
            return mc_ptx_error(p, "'%s' in a declaration", p->token);
        }
        f->shared = (f->shared + align - 1) / align * align + bytes;
    } else if (mc_ptx_is(p, ".loc") || mc_ptx_is(p, ".file")) { /* they end with their line */
        p->at += strcspn(p->at, "\n");
        return 0;
    } else if (p->token[0] != '.' && !mc_ptx_instruction(p->token)) {
        mc_ptx_blank(p);
        if (*p->at != ':') {
            return mc_ptx_error(p, "unknown instruction '%s'", p->token);
        }
        p->at++;
        return 0;
    }
    while (!mc_ptx_is(p, ";")) {
        if (!mc_ptx_next(p)) {
            return mc_ptx_error(p, "the end, in a statement");
        }
    }
    return 0;
}

/* A body, from behind its brace to its end. */
static int mc_ptx_body(mc_ptx *p, mc_function *f) {
    uint32_t depth = 1;
    while (depth) {
        if (!mc_ptx_next(p)) {
            return mc_ptx_error(p, "the body of '%s' has no end", f->entry);
        }
        if (mc_ptx_is(p, "{") || mc_ptx_is(p, "}")) {
            depth += mc_ptx_is(p, "{") ? 1u : UINT32_MAX;
        } else if (!mc_ptx_is(p, ";")) {
            int error = mc_ptx_statement(p, f);
            if (error) {
                return error;
            }
        }
    }
    return 0;
}

/* The bounds between parameters and body, which come in up to three numbers. */
static int mc_ptx_bounds(mc_ptx *p, mc_function *f) {
    while (mc_ptx_next(p) && !mc_ptx_is(p, "{")) {
        if (mc_ptx_is(p, ".maxntid") || mc_ptx_is(p, ".reqntid")) {
            uint32_t n = 0, threads = 1;
            do {
                if (!mc_ptx_number(p, &n)) {
                    return mc_ptx_error(p, "'%s' is no number of threads", p->token);
                }
                threads *= n;
                mc_ptx_blank(p);
            } while (*p->at == ',' && p->at++);
            f->threads = threads < f->threads ? threads : f->threads;
        } else if (mc_ptx_is(p, ";")) {
            return mc_ptx_error(p, "'%s' has no body", f->entry);
        }
    }
    return mc_ptx_is(p, "{") ? 0 : mc_ptx_error(p, "'%s' has no body", f->entry);
}

static mc_function *mc_function_new(mc_module *m, const char *entry) {
    mc_function *f = (mc_function *)mc_object_new(MC_FUNCTION, sizeof *f, m->object.context);
    snprintf(f->entry, sizeof f->entry, "%s", entry);
    f->module = m;
    f->threads = M.desc.max_threads;
    f->dynamic = -1;
    f->ptx = m->ptx;
    f->next = m->functions;
    m->functions = f;
    return f;
}

static int mc_ptx_entry(mc_ptx *p) {
    int error;
    if (!mc_ptx_next(p) || !mc_ptx_word(p->token[0])) {
        return mc_ptx_error(p, "'%s' is no name", p->token);
    }
    mc_function *f = mc_function_new(p->module, p->token);
    f->known = 1;
    mc_ptx_blank(p);
    if (*p->at == '(') {
        p->at++;
        error = mc_ptx_params(p, f);
        if (error) {
            return error;
        }
    }
    error = mc_ptx_bounds(p, f);
    return error ? error : mc_ptx_body(p, f);
}

/* A directive outside of kernels that the mock does not look at: up to its semicolon, or
   over its body. */
static int mc_ptx_skip(mc_ptx *p) {
    uint32_t depth = 0;
    do {
        if (!mc_ptx_next(p)) {
            return mc_ptx_error(p, "the end, in a declaration");
        }
        depth += mc_ptx_is(p, "{") ? 1u : mc_ptx_is(p, "}") ? UINT32_MAX : 0;
    } while (depth || !(mc_ptx_is(p, ";") || mc_ptx_is(p, "}")));
    return 0;
}

/* .version, .target, .address_size */
static int mc_ptx_head(mc_ptx *p) {
    char *minor;
    if (!mc_ptx_next(p) || !mc_ptx_is(p, ".version") || !mc_ptx_next(p)) {
        return mc_ptx_error(p, "'%s' where .version has to be", p->token);
    }
    p->version = 10 * (uint32_t)strtoul(p->token, &minor, 10);
    p->version += *minor == '.' ? (uint32_t)strtoul(minor + 1, NULL, 10) : 0;
    if (p->version > M.desc.max_ptx) {
        mc_ptx_error(p, "PTX %u.%u is newer than %u.%u", p->version / 10, p->version % 10,
                     M.desc.max_ptx / 10, M.desc.max_ptx % 10);
        return MC_NEW_PTX;
    }
    if (!mc_ptx_next(p) || !mc_ptx_is(p, ".target") || !mc_ptx_next(p) ||
        strncmp(p->token, "sm_", 3) != 0) {
        return mc_ptx_error(p, "'%s' where .target has to be", p->token);
    }
    p->target = (uint32_t)strtoul(p->token + 3, NULL, 10);
    if (p->target > M.desc.capability) {
        return mc_ptx_error(p, "the target %s is newer than sm_%u", p->token, M.desc.capability);
    }
    mc_ptx_blank(p);
    while (*p->at == ',') {            /* debug, texmode ... */
        p->at++;
        mc_ptx_next(p);
        mc_ptx_blank(p);
    }
    return 0;
}

static int mc_ptx_read(mc_ptx *p) {
    int error = mc_ptx_head(p);
    p->module->ptx = p->version;
    while (!error && mc_ptx_next(p)) {
        uint32_t bits = 64;
        if (mc_ptx_is(p, ".address_size")) {
            error = mc_ptx_number(p, &bits) && bits == 64 ? 0 :
                    mc_ptx_error(p, "addresses of %u bits", bits);
        } else if (mc_ptx_is(p, ".entry")) {
            error = mc_ptx_entry(p);
        } else if (mc_ptx_is(p, ".visible") || mc_ptx_is(p, ".weak")) {
            continue;
        } else if (mc_ptx_is(p, ".file") || mc_ptx_is(p, ".loc")) {
            p->at += strcspn(p->at, "\n");
        } else if (p->token[0] == '.') {
            error = mc_ptx_skip(p);
        } else if (!mc_ptx_is(p, ";")) {
            error = mc_ptx_error(p, "'%s' is no directive", p->token);
        }
    }
    return error;
}

/* ---- loading ---- */

typedef struct mc_jit {
    char *log[2];                      /* information, errors */
    size_t room[2];
    void **size[2];                    /* where the bytes written go */
} mc_jit;

static void mc_jit_options(mc_jit *jit, uint32_t count, const int *options, void **values) {
    memset(jit, 0, sizeof *jit);
    for (uint32_t i = 0; i < count; i++) {
        if (options[i] == 3 || options[i] == 5) {
            jit->log[options[i] == 5] = (char *)values[i];
        } else if (options[i] == 4 || options[i] == 6) {
            jit->room[options[i] == 6] = (size_t)(uint32_t)(uintptr_t)values[i];
            jit->size[options[i] == 6] = &values[i];
        }
    }
}

static void mc_jit_tell(mc_jit *jit, int which, const char *text) {
    size_t n = strlen(text) + 1;
    if (jit->log[which] && jit->room[which]) {
        n = n < jit->room[which] ? n : jit->room[which];
        memcpy(jit->log[which], text, n);
        jit->log[which][n - 1] = 0;
    }
    if (jit->size[which]) {
        *jit->size[which] = (void *)(uintptr_t)(jit->log[which] ? n : 0);
    }
}

static void mc_function_unref(mc_function *f) {
    if (f->object.refs == 1) {
        free(f->params);
    }
    mc_object_unref(f);
}

static void mc_module_free(mc_module *m) {
    while (m->functions) {
        mc_function *f = m->functions;
        m->functions = f->next;
        f->module = NULL;
        mc_object_forget(f);
        mc_function_unref(f);
    }
    mc_object_forget(m);
    mc_object_unref(m);
}

/* Kernels of binary code: those that somebody told about. */
static int mc_module_binary(const void *image) {
    static const unsigned char elf[4] = {0x7f, 'E', 'L', 'F'}, fat[4] = {0x50, 0xed, 0x55, 0xba};
    return memcmp(image, elf, 4) == 0 || memcmp(image, fat, 4) == 0;
}

static int mc_module_load(mc_handle *module, const void *image, mc_jit *jit) {
    mc_ptx p;
    int error = 0;
    memset(&p, 0, sizeof p);
    p.at = (const char *)image;
    p.line = 1;
    mc_module *m = (mc_module *)mc_object_new(MC_MODULE, sizeof *m, mc_tls.here);
    if (!mc_module_binary(image)) {
        p.module = m;
        error = M.desc.flags & MOCK_CUDA_NO_JIT ? MC_NO_JIT : mc_ptx_read(&p);
    }
    mc_jit_tell(jit, 0, error || m->ptx == 0 ? "" : "mock ptx: compiled");
    mc_jit_tell(jit, 1, p.error);
    if (error) {
        mc_module_free(m);
        return error;
    }
    *module = mc_handle_of(m);
    return 0;
}

static void mc_may_sync(const char *name);

MC_API(cuModuleLoadDataEx, mc_handle *module, const void *image, unsigned count, int *options,
       void **values) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_jit jit;
    if (!module || !image || (count && (!options || !values))) {
        return mc_leave(MC_INVALID);
    }
    mc_may_sync("cuModuleLoadDataEx");
    mc_jit_options(&jit, count, options, values);
    return mc_leave(mc_module_load(module, image, &jit));
}

MC_API(cuModuleLoadData, mc_handle *module, const void *image) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_jit jit;
    mc_may_sync("cuModuleLoadData");
    mc_jit_options(&jit, 0, NULL, NULL);
    return mc_leave(module && image ? mc_module_load(module, image, &jit) : MC_INVALID);
}

MC_API(cuModuleUnload, mc_handle module) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_module *m = (mc_module *)mc_find(module, MC_MODULE);
    if (!m) {
        return mc_leave(MC_BAD_HANDLE);
    }
    if (m->object.context != mc_tls.here) {
        return mc_leave(mc_misuse("the module is of another context"));
    }
    for (mc_function *f = m->functions; f; f = f->next) {
        if (f->pending) {
            return mc_leave(mc_misuse("'%s' is enqueued and has not run", f->entry));
        }
    }
    mc_may_sync("cuModuleUnload");
    mc_module_free(m);
    return mc_leave(MC_OK);
}

MC_API(cuModuleGetFunction, mc_handle *function, mc_handle module, const char *name) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_module *m = (mc_module *)mc_find(module, MC_MODULE);
    if (!m || !function || !name) {
        return mc_leave(m ? MC_INVALID : MC_BAD_HANDLE);
    }
    if (m->object.context != mc_tls.here) {
        return mc_leave(mc_misuse("the module is of another context"));
    }
    mc_function *f = m->functions;
    while (f && strcmp(f->entry, name) != 0) {
        f = f->next;
    }
    if (!f && m->ptx == 0 && mc_kernel_find(name)) {
        f = mc_function_new(m, name);
    }
    if (!f) {
        return mc_leave(MC_NOT_FOUND);
    }
    *function = mc_handle_of(f);
    return mc_leave(MC_OK);
}

/* ---- functions ---- */

static int mc_function_dynamic(const mc_function *f) {
    return f->dynamic >= 0 ? f->dynamic : (int)(M.desc.shared_bytes - f->shared);
}

MC_API(cuFuncGetAttribute, int *value, int attribute, mc_handle function) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_function *f = (mc_function *)mc_find(function, MC_FUNCTION);
    if (!f || !value) {
        return mc_leave(f ? MC_INVALID : MC_BAD_HANDLE);
    }
    switch (attribute) {
    case 0: *value = (int)f->threads; break;
    case 1: *value = (int)f->shared; break;
    case 2: *value = 0; break;         /* constant memory */
    case 3: *value = 0; break;         /* local memory */
    case 4: *value = 32; break;        /* registers */
    case 5: *value = (int)f->ptx; break;
    case 6: *value = (int)M.desc.capability; break;
    case 7: *value = 0; break;         /* cache mode */
    case 8: *value = mc_function_dynamic(f); break;
    case 9: *value = -1; break;        /* carveout */
    default: return mc_leave(MC_INVALID);
    }
    return mc_leave(MC_OK);
}

#if MOCK_CUDA_VERSION >= 13000 /* from 12.4 on */
MC_API(cuFuncLoad, mc_handle function) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_function *f = (mc_function *)mc_find(function, MC_FUNCTION);
    if (f && !f->loaded) {
        mc_may_sync("cuFuncLoad");
        f->loaded = 1;
    }
    return mc_leave(f ? MC_OK : MC_BAD_HANDLE);
}

MC_API(cuFuncIsLoaded, int *loaded, mc_handle function) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_function *f = (mc_function *)mc_find(function, MC_FUNCTION);
    if (!f || !loaded) {
        return mc_leave(f ? MC_INVALID : MC_BAD_HANDLE);
    }
    *loaded = f->loaded;
    return mc_leave(MC_OK);
}
#endif

/* Drivers load kernels late (from 12.2 on by default): the first launch may wait. */
static void mc_function_launched(mc_function *f) {
    if (!f->loaded && M.desc.driver_version >= 12020) {
        mc_may_sync("the first launch of a kernel");
    }
    f->loaded = 1;
}

MC_API(cuFuncSetAttribute, mc_handle function, int attribute, int value) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_function *f = (mc_function *)mc_find(function, MC_FUNCTION);
    if (!f) {
        return mc_leave(MC_BAD_HANDLE);
    }
    if (attribute == 8) {
        if (value < 0 || (uint32_t)value + f->shared > M.desc.shared_optin) {
            return mc_leave(MC_INVALID);
        }
        f->dynamic = value;
    }
    return mc_leave(attribute == 8 || attribute == 9 ? MC_OK : MC_INVALID);
}

/* Would a launch be refused? */
static int mc_function_check(const mc_function *f, const uint32_t grid[3], const uint32_t block[3],
                             uint32_t shared) {
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads || grid[0] > 0x7fffffffu ||
        grid[1] > 65535 || grid[2] > 65535 || block[0] > M.desc.max_threads ||
        block[1] > M.desc.max_threads || block[2] > 64 || threads > M.desc.max_threads) {
        return MC_INVALID;
    }
    if (threads > f->threads) {
        return MC_RESOURCES;
    }
    return shared > (uint32_t)mc_function_dynamic(f) ? MC_INVALID : MC_OK;
}

/* Bytes of arguments that a launch may have. */
static size_t mc_args_limit(void) {
    return M.desc.driver_version >= 12010 && M.desc.capability >= 70 ? 32764 : 4096;
}

/* Finds the arguments of a launch and copies them: into `small`, if they fit, else into
   memory of their own. */
static int mc_args_take(const mc_function *f, void **params, void **extra, unsigned char *small,
                        size_t small_bytes, unsigned char **args, size_t *size) {
    const void *block = NULL;
    *size = 0;
    for (void **e = extra; e && *e; e += 2) { /* 1: pointer, 2: size, 0: end */
        if (*e == (void *)1) {
            block = e[1];
        } else if (*e == (void *)2) {
            *size = *(const size_t *)e[1];
        } else {
            return MC_INVALID;
        }
    }
    if ((params && extra) || (*size && !block) || *size > mc_args_limit() ||
        (!params && !extra && f->known && f->param_bytes)) {
        return MC_INVALID;
    }
    if (params && !f->known) {
        return mc_misuse("'%s' is not PTX: the mock needs its arguments as one block", f->entry);
    }
    if (extra && f->known && *size < f->param_bytes) {
        return mc_misuse("'%s' has %u bytes of parameters and gets %llu", f->entry,
                         f->param_bytes, mc_u(*size));
    }
    *size = params ? f->param_bytes : *size;
    *args = *size <= small_bytes ? small : (unsigned char *)calloc(1, *size);
    if (!*args) {
        abort();
    }
    if (block && *size) {
        memcpy(*args, block, *size);
    }
    for (uint32_t i = 0; params && i < f->param_count; i++) {
        memcpy(*args + f->params[i].offset, params[i], f->params[i].size);
    }
    return MC_OK;
}

#endif /* HCQ_TEST_MOCK_CUDA_MODULES_H */
