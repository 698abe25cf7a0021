/* cuda_ptx.h - part of libcuda.c: PTX is read as far as its kernels' names,
   parameters and bounds; of instructions one is unknown: frobnicate. */
#pragma once

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

typedef struct mc_ptx {                /* a text that is read */
    const char *at;
    char token[MC_NAME];
    char error[MC_NAME + 64];
    int result;                        /* of the first error, which ends the text */
    mc_module *module;
} mc_ptx;

/* Something is wrong with the token. */
static void mc_ptx_error(mc_ptx *p, int result, const char *what) {
    if (!p->result) {
        snprintf(p->error, sizeof p->error, "mock ptx: error: %s '%s'", what, p->token);
        p->result = result;
    }
    p->at = "";
}

/* ---- tokens ---- */

/* The next token, behind blanks and comments: a word with its dots, or one character;
   0 at the end. */
static int mc_ptx_next(mc_ptx *p) {
    size_t n = 0;
    p->at += strspn(p->at, " \t\r\n");
    while (strncmp(p->at, "//", 2) == 0) {
        p->at += strcspn(p->at, "\n");
        p->at += strspn(p->at, " \t\r\n");
    }
    while (isalnum((unsigned char)p->at[n]) || (p->at[n] && strchr("._$%@", p->at[n]))) {
        n++;
    }
    n = n || !*p->at ? n : 1;
    snprintf(p->token, sizeof p->token, "%.*s", (int)n, p->at);
    p->at += n;
    return n != 0;
}

static int mc_ptx_is(const mc_ptx *p, const char *token) { return strcmp(p->token, token) == 0; }

static uint32_t mc_ptx_number(mc_ptx *p) {
    mc_ptx_next(p);
    return (uint32_t)strtoul(p->token, NULL, 0);
}

/* ---- kernels ---- */

/* A parameter, such as ".param .align 16 .b8 name[20]", and what ends it. */
static void mc_ptx_param(mc_ptx *p, mc_function *f) {
    uint32_t align = 0, count = 1;
    mc_param param = {0, 0};
    while (mc_ptx_next(p) && !mc_ptx_is(p, ",") && !mc_ptx_is(p, ")")) {
        if (mc_ptx_is(p, ".align")) {
            align = mc_ptx_number(p);
        } else if (p->token[0] == '.' && strchr("usbf", p->token[1])) {
            param.size = (uint32_t)strtoul(p->token + 2, NULL, 10) / 8;
        } else if (mc_ptx_is(p, "[")) {
            count = mc_ptx_number(p);
        }
    }
    if (param.size == 0) {
        mc_ptx_error(p, MC_BAD_PTX, "no type before");
        return;
    }
    align = align ? align : param.size;
    param.size *= count;
    param.offset = (f->param_bytes + align - 1) / align * align;
    f->param_bytes = param.offset + param.size;
    f->params = (mc_param *)mc_list(f->params, f->param_count, sizeof param);
    f->params[f->param_count++] = param;
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

/* Behind ".entry": the name, the parameters, the bounds. */
static void mc_ptx_entry(mc_ptx *p) {
    mc_ptx_next(p);
    mc_function *f = mc_function_new(p->module, p->token);
    f->known = 1;
    while (mc_ptx_next(p) && !mc_ptx_is(p, "{")) {
        if (mc_ptx_is(p, ".param")) {
            mc_ptx_param(p, f);
        } else if (mc_ptx_is(p, ".maxntid")) { /* of x; the others are 1 */
            f->threads = mc_ptx_number(p);
        }
    }
}

/* ---- modules ---- */

/* .version, .target */
static void mc_ptx_head(mc_ptx *p) {
    char *minor;
    if (!mc_ptx_next(p) || !mc_ptx_is(p, ".version") || !mc_ptx_next(p)) {
        mc_ptx_error(p, MC_BAD_PTX, "no .version but");
    }
    p->module->ptx = 10 * (uint32_t)strtoul(p->token, &minor, 10);
    p->module->ptx += *minor == '.' ? (uint32_t)strtoul(minor + 1, NULL, 10) : 0;
    if (p->module->ptx > MC_MAX_PTX) {
        mc_ptx_error(p, MC_NEW_PTX, "newer than the compiler: PTX");
    }
    if (!mc_ptx_next(p) || !mc_ptx_is(p, ".target") || !mc_ptx_next(p)) {
        mc_ptx_error(p, MC_BAD_PTX, "no .target but");
    } else if (strtoul(p->token + strcspn(p->token, "0123456789"), NULL, 10) >
               M.desc.capability) {
        mc_ptx_error(p, MC_BAD_PTX, "newer than the device: target");
    }
}

/* Reads a module's text; the result, and what is wrong in p->error. */
static int mc_ptx_read(mc_ptx *p) {
    mc_ptx_head(p);
    while (mc_ptx_next(p)) {
        if (mc_ptx_is(p, ".entry")) {
            mc_ptx_entry(p);
        } else if (strncmp(p->token, "frobnicate", 10) == 0) {
            mc_ptx_error(p, MC_BAD_PTX, "unknown instruction");
        }
    }
    return p->result;
}
