/* cuda_ptx.h - part of libcuda.c: PTX is read as far as its kernels' names,
   parameters and bounds; of instructions one is unknown: frobnicate. */
#ifndef HCQ_TEST_MOCK_CUDA_PTX_H
#define HCQ_TEST_MOCK_CUDA_PTX_H

#include "cuda_base.h"

#include <ctype.h>

enum { MC_NAME = 256, MC_MAX_THREADS = 1024 };

enum { /* the newest .version that the compiler takes: 10 * major + minor */
    MC_MAX_PTX = MOCK_CUDA_VERSION >= 13000 ? 90 :
                 (MOCK_CUDA_VERSION >= 12000 ? 80 : 70) + MOCK_CUDA_VERSION % 1000 / 10
};

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
    uint32_t threads;                  /* of a block, at most */
    int dynamic;                       /* at most, if not the default; else -1 */
    uint32_t pending;                  /* launches enqueued and not done */
    int loaded;                        /* on the device, else its first launch does it */
    struct mc_function *next;
} mc_function;

typedef struct mc_module {
    mc_object object;
    uint32_t ptx;                      /* 10 * major + minor; 0: it is binary code */
    mc_function *functions;
} mc_module;

/* A text that is read. The first error ends it: nothing comes any more. */
typedef struct mc_ptx {
    const char *at;
    char token[MC_NAME];
    char error[MC_NAME + 64];
    int result;
    mc_module *module;
} mc_ptx;

/* Something is wrong with the token. */
static void mc_ptx_error(mc_ptx *p, const char *what) {
    if (!p->result) {
        snprintf(p->error, sizeof p->error, "mock ptx: error: %s '%s'", what, p->token);
        p->result = MC_BAD_PTX;
    }
    p->at = "";
}

/* ---- tokens ---- */

static void mc_ptx_blank(mc_ptx *p) {
    for (;;) {
        p->at += strspn(p->at, " \t\r\n\f\v");
        if (strncmp(p->at, "//", 2) == 0) {
            p->at += strcspn(p->at, "\n");
        } else if (strncmp(p->at, "/*", 2) == 0) {
            const char *end = strstr(p->at + 2, "*/");
            p->at = end ? end + 2 : "";
        } else {
            return;
        }
    }
}

static int mc_ptx_word(char c) {
    return isalnum((unsigned char)c) || (c && strchr("._$%@!", c) != NULL);
}

/* The next token: a word with its dots, or one character; 0 at the end. */
static int mc_ptx_next(mc_ptx *p) {
    size_t n = 0;
    mc_ptx_blank(p);
    while (mc_ptx_word(p->at[n])) {
        n++;
    }
    n = n || !*p->at ? n : 1;
    snprintf(p->token, sizeof p->token, "%.*s", (int)n, p->at);
    p->at += n;
    return n != 0;
}

static int mc_ptx_is(const mc_ptx *p, const char *token) { return strcmp(p->token, token) == 0; }

/* Takes the character, if it is the next one. */
static int mc_ptx_eat(mc_ptx *p, char c) {
    mc_ptx_blank(p);
    int is = *p->at == c;
    p->at += is;
    return is;
}

static uint32_t mc_ptx_number(mc_ptx *p) {
    char *end;
    mc_ptx_next(p);
    uint32_t value = (uint32_t)strtoul(p->token, &end, 0);
    if (end == p->token) {
        mc_ptx_error(p, "no number:");
    }
    return value;
}

/* Over what the token begins: up to a semicolon, or over its braces. */
static void mc_ptx_over(mc_ptx *p) {
    uint32_t depth = 0;
    do {
        depth += mc_ptx_is(p, "{") ? 1u : mc_ptx_is(p, "}") ? UINT32_MAX : 0;
        if (depth == 0 && (mc_ptx_is(p, ";") || mc_ptx_is(p, "}"))) {
            return;
        }
        if (strncmp(p->token, "frobnicate", 10) == 0) {
            mc_ptx_error(p, "unknown instruction");
        }
    } while (mc_ptx_next(p));
    mc_ptx_error(p, "the end, where there is more to come:");
}

/* ---- kernels ---- */

/* Bytes of a type such as ".u64", or 0. */
static uint32_t mc_ptx_type(const char *token) {
    if (token[0] != '.' || !token[1] || !strchr("usbf", token[1])) {
        return 0;
    }
    unsigned long bits = strtoul(token + 2, NULL, 10);
    return bits >= 8 && bits <= 128 ? (uint32_t)bits / 8 : 0;
}

/* A parameter behind ".param", such as ".align 16 .b8 name[20]". */
static void mc_ptx_param(mc_ptx *p, mc_function *f) {
    uint32_t type = 0, align = 0;
    int points = 0;
    while (mc_ptx_next(p) && p->token[0] == '.') {
        points |= mc_ptx_is(p, ".ptr"); /* to what then has the alignment */
        type = mc_ptx_type(p->token) ? mc_ptx_type(p->token) : type;
        if (mc_ptx_is(p, ".align")) {
            uint32_t n = mc_ptx_number(p);
            align = points ? align : n;
        }
    }
    mc_param param = {0, type};
    if (mc_ptx_eat(p, '[')) {
        param.size = type * mc_ptx_number(p);
        mc_ptx_eat(p, ']');
    }
    if (type == 0) {
        mc_ptx_error(p, "no type before");
        return;
    }
    align = align ? align : type;
    param.offset = (f->param_bytes + align - 1) / align * align;
    f->param_bytes = param.offset + param.size;
    f->params = (mc_param *)mc_list(f->params, f->param_count, sizeof param);
    f->params[f->param_count++] = param;
}

/* The parameters, behind the parenthesis. */
static void mc_ptx_params(mc_ptx *p, mc_function *f) {
    while (mc_ptx_next(p) && !mc_ptx_is(p, ")")) {
        if (mc_ptx_is(p, ".param")) {
            mc_ptx_param(p, f);
        } else if (!mc_ptx_is(p, ",")) {
            mc_ptx_error(p, "among parameters:");
        }
    }
}

static void mc_function_end(void *object) { free(((mc_function *)object)->params); }

static mc_function *mc_function_new(mc_module *m, const char *entry) {
    mc_function *f = (mc_function *)mc_object_new(MC_FUNCTION, sizeof *f, m->object.context,
                                                  mc_function_end);
    snprintf(f->entry, sizeof f->entry, "%s", entry);
    f->module = m;
    f->threads = MC_MAX_THREADS;
    f->dynamic = -1;
    f->next = m->functions;
    m->functions = f;
    return f;
}

/* Behind ".entry": the name, the parameters, the bounds, the body. */
static void mc_ptx_entry(mc_ptx *p) {
    mc_ptx_next(p);
    mc_function *f = mc_function_new(p->module, p->token);
    f->known = 1;
    if (mc_ptx_eat(p, '(')) {
        mc_ptx_params(p, f);
    }
    while (mc_ptx_next(p) && !mc_ptx_is(p, "{")) {
        if (mc_ptx_is(p, ".maxntid") || mc_ptx_is(p, ".reqntid")) { /* up to three numbers */
            uint32_t threads = mc_ptx_number(p);
            while (mc_ptx_eat(p, ',')) {
                threads *= mc_ptx_number(p);
            }
            f->threads = threads < f->threads ? threads : f->threads;
        }
    }
    mc_ptx_over(p);
}

/* ---- modules ---- */

/* .version, .target */
static void mc_ptx_head(mc_ptx *p) {
    char *minor;
    if (!mc_ptx_next(p) || !mc_ptx_is(p, ".version") || !mc_ptx_next(p)) {
        mc_ptx_error(p, "no .version but");
    }
    p->module->ptx = 10 * (uint32_t)strtoul(p->token, &minor, 10);
    p->module->ptx += *minor == '.' ? (uint32_t)strtoul(minor + 1, NULL, 10) : 0;
    if (!p->result && p->module->ptx > MC_MAX_PTX) {
        mc_ptx_error(p, "newer than the compiler: PTX");
        p->result = MC_NEW_PTX;
    }
    if (!mc_ptx_next(p) || !mc_ptx_is(p, ".target") || !mc_ptx_next(p) ||
        strncmp(p->token, "sm_", 3) != 0) {
        mc_ptx_error(p, "no .target but");
    } else if (strtoul(p->token + 3, NULL, 10) > M.desc.capability) {
        mc_ptx_error(p, "newer than the device: target");
    }
    while (mc_ptx_eat(p, ',')) {       /* debug, texmode ... */
        mc_ptx_next(p);
    }
}

/* Reads a module's text; the result, and what is wrong in p->error. */
static int mc_ptx_read(mc_ptx *p) {
    mc_ptx_head(p);
    while (mc_ptx_next(p)) {
        if (mc_ptx_is(p, ".address_size")) {
            if (mc_ptx_number(p) != 64) {
                mc_ptx_error(p, "bits of addresses:");
            }
        } else if (mc_ptx_is(p, ".entry")) {
            mc_ptx_entry(p);
        } else if (p->token[0] != '.' && !mc_ptx_is(p, ";")) {
            mc_ptx_error(p, "no directive:");
        } else if (!mc_ptx_is(p, ".visible") && !mc_ptx_is(p, ".weak")) {
            mc_ptx_over(p);
        }
    }
    return p->result;
}

#endif /* HCQ_TEST_MOCK_CUDA_PTX_H */
