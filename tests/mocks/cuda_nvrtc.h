/* cuda_nvrtc.h - part of libcuda.c, by which it is NVRTC, too: a source is "compiled" by
   giving back what stands behind "//PTX", unless it says error; the log has the options.
   For a device, sm_90 say, that is binary code: it begins as such. */
#pragma once

#include "cuda_base.h"

typedef struct mc_source {
    char *text, log[4096], arch[32];   /* the last one that was asked for */
} mc_source;

static const int mc_archs[] = {60, 75, 80, 86, 89, 90, 100, 120};

MC_API(nvrtcGetNumSupportedArchs, int *count) {
    *count = (int)(sizeof mc_archs / sizeof mc_archs[0]);
    return MC_OK;
}

MC_API(nvrtcGetSupportedArchs, int *archs) {
    memcpy(archs, mc_archs, sizeof mc_archs);
    return MC_OK;
}

MC_API(nvrtcCreateProgram, mc_source **s, const char *text, const char *name, int header_count,
       const char *const *headers, const char *const *names) {
    (void)name, (void)header_count, (void)headers, (void)names;
    *s = (mc_source *)mc_calloc(1, sizeof **s);
    (*s)->text = strdup(text);
    return MC_OK;
}

MC_API(nvrtcDestroyProgram, mc_source **s) {
    free((*s)->text);
    free(*s);
    *s = NULL;
    return MC_OK;
}

MC_API(nvrtcCompileProgram, mc_source *s, int count, const char *const *options) {
    for (int i = 0; i < count; i++) {
        strcat(strcat(s->log, options[i]), " ");
        sscanf(options[i], "--gpu-architecture=%31s", s->arch);
    }
    for (size_t i = 0, known = 0; i < sizeof mc_archs / sizeof mc_archs[0]; i++) {
        const char *number = strchr(s->arch, '_');
        known |= number && atoi(number + 1) == mc_archs[i];
        MC_RULE(known || i + 1 < sizeof mc_archs / sizeof mc_archs[0], 5);
    }
    MC_RULE(strstr(s->text, "error"), MC_OK);
    strcat(s->log, "line 1: this is an error");
    return 6;                          /* NVRTC_ERROR_COMPILATION */
}

/* The size of a text, and the text. */
#define MC_TEXT_API(name, text) \
    MC_API(name##Size, mc_source *s, size_t *size) { \
        *size = strlen(text) + 1; \
        return MC_OK; \
    } \
    MC_API(name, mc_source *s, char *out) { \
        strcpy(out, text); \
        return MC_OK; \
    }

static const char *mc_source_ptx(const mc_source *s) {
    const char *ptx = strstr(s->text, "//PTX\n");
    return ptx ? ptx + 6 : "";
}

/* Nothing for a virtual architecture. */
MC_API(nvrtcGetCUBINSize, mc_source *s, size_t *size) {
    *size = strncmp(s->arch, "sm_", 3) == 0 ? 5 + strlen(mc_source_ptx(s)) : 0;
    return MC_OK;
}

MC_API(nvrtcGetCUBIN, mc_source *s, char *out) {
    strcat(strcpy(out, "\177ELF"), mc_source_ptx(s));
    return MC_OK;
}

MC_TEXT_API(nvrtcGetPTX, mc_source_ptx(s))
MC_TEXT_API(nvrtcGetProgramLog, s->log)
