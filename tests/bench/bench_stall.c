/* bench_stall.c - how long a call on an idle device takes while another thread
   does something long on another device: p99.9 and worst of hcq_signal_set, less
   those of a quiet run. A sample in which the caller had to sleep, on the core's
   lock, is counted apart: on a busy machine others are late for want of a CPU. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                    /* RUSAGE_THREAD */
#endif

#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef enum stall_kind {
    STALL_QUIET,
    STALL_ALLOC,                       /* 512 MiB of HCQ_ZEROED, and back */
    STALL_PROGRAM,                     /* from a library that is not loaded yet */
    STALL_BIND,                        /* 100,000 commands */
    STALL_OPEN,                        /* and close */
    STALL_KINDS
} stall_kind;

static const char *const g_names[STALL_KINDS] = {"quiet", "alloc", "program", "bind", "open"};

typedef struct stall {
    stall_kind kind;
    int stop;                          /* atomic */
    hcq_device *device;
    hcq_program *tiny;
    hcq_buffer buffer;
    const char *library;
    uint32_t rounds;
    double p999, worst, slept;         /* us */
} stall;

static void stall_alloc(stall *s) {
    hcq_buffer b;
    uint64_t bytes = (uint64_t)(bench_smoke() ? 1 : 512) << 20;
    bench_check(hcq_alloc(s->device, bytes, HCQ_ZEROED | HCQ_NO_CACHE, &b), "alloc");
    bench_check(hcq_free(b), "free");
}

static void stall_program(stall *s) {
    hcq_program_desc desc;
    hcq_program *program;
    memset(&desc, 0, sizeof desc);
    desc.label = "stall";
    desc.library = s->library;
    desc.symbol = "hcq_bench_stall";
    bench_check(hcq_program_create(s->device, &desc, &program), "program");
    hcq_program_destroy(program);
}

static void stall_bind(stall *s) {
    hcq_queue *q;
    uint32_t count = bench_smoke() ? 1000 : 100000;
    bench_tiny_args args = {s->buffer.address};
    bench_check(hcq_queue_create(s->device, HCQ_COMPUTE, &q), "queue");
    for (uint32_t i = 0; i < count; i++) {
        hcq_queue_exec(q, s->tiny, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
    }
    bench_check(hcq_queue_bind(q, s->device), "bind");
    hcq_queue_destroy(q);
}

static void stall_open(stall *s) {
    hcq_device *device;
    (void)s;
    bench_check(hcq_open("CPU:2", NULL, &device), "open");
    bench_check(hcq_close(device), "close");
}

static void *stall_run(void *user) {
    stall *s = (stall *)user;
    static void (*const runs[STALL_KINDS])(stall *) = {NULL, stall_alloc, stall_program,
                                                       stall_bind, stall_open};
    while (!__atomic_load_n(&s->stop, __ATOMIC_SEQ_CST)) {
        if (s->kind == STALL_QUIET) {
            bench_sleep_ms(1);
        } else {
            runs[s->kind](s);
        }
        s->rounds++;
    }
    return NULL;
}

static long sleeps_of_thread(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* One set each 20 us or so, until at least two rounds of the other thread are over. */
static void stall_measure(stall *s, hcq_signal signal, uint64_t *value) {
    enum { MAX = 400000 };
    double *samples = (double *)malloc(MAX * sizeof *samples);
    uint64_t least = bench_smoke() ? 2000000u : bench_quick() ? 500000000u : 2000000000u;
    uint32_t count = 0;
    pthread_t thread;
    if (samples == NULL || pthread_create(&thread, NULL, stall_run, s) != 0) {
        bench_die("no thread, or out of memory");
    }
    long sleeps = sleeps_of_thread();
    for (uint64_t start = bench_now(), now = start; count < MAX;) {
        uint64_t before = bench_now();
        bench_check(hcq_signal_set(signal, ++*value), "set");
        uint64_t after = bench_now();
        double us = (double)(after - before) * 1e-3;
        samples[count++] = us;
        long slept = us > 5.0 ? sleeps_of_thread() : sleeps;
        if (slept != sleeps && us > s->slept) {
            s->slept = us;
        }
        sleeps = slept;
        for (now = after; now < after + 20000; now = bench_now()) {
        }
        if (now - start > least && __atomic_load_n(&s->rounds, __ATOMIC_SEQ_CST) >= 2) {
            break;
        }
    }
    __atomic_store_n(&s->stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    s->p999 = bench_percentile(samples, count, 99.9);
    s->worst = samples[count - 1];     /* sorted now */
    free(samples);
}

/* A library with some pages to map; its code is never run. */
static void stall_library(char *path, size_t size) {
    const char *cc = getenv("BENCH_CC"), *tmp = getenv("BENCH_TMP");
    char command[1600];
    if (cc == NULL || tmp == NULL) {
        bench_die("core.stall_us: start it by run.sh");
    }
    snprintf(path, size, "%s/stall.so", tmp);
    snprintf(command, sizeof command,
             "echo 'int hcq_bench_stall_data[1 << 18] = {1}; void hcq_bench_stall(void) {}' |"
             " %s -shared -fPIC -x c - -o '%s'", cc, path);
    if (system(command) != 0) {
        bench_die("failed: %s", command);
    }
}

void bench_stall_us(bench_result *result) {
    char path[600], key[32];
    stall base;
    hcq_device *idle;
    hcq_signal signal;
    uint64_t value = 0;
    double quiet = 0.0, most = 0.0;
    hcq_program_desc desc;
    stall_library(path, sizeof path);
    memset(&base, 0, sizeof base);
    memset(&desc, 0, sizeof desc);
    desc.label = "tiny";
    desc.cpu = bench_tiny;
    desc.args[0] = HCQ_ARG_INOUT;
    base.library = path;
    bench_check(hcq_open("CPU", NULL, &idle), "open");
    bench_check(hcq_open("CPU:1", NULL, &base.device), "open");
    bench_check(hcq_signal_create(idle, 0, &signal), "signal");
    bench_check(hcq_alloc(base.device, 64, HCQ_ZEROED, &base.buffer), "alloc");
    bench_check(hcq_program_create(base.device, &desc, &base.tiny), "program");
    for (int kind = STALL_QUIET; kind < STALL_KINDS; kind++) {
        stall s = base;
        s.kind = (stall_kind)kind;
        stall_measure(&s, signal, &value);
        quiet = kind == STALL_QUIET ? s.p999 : quiet;
        most = s.p999 > most ? s.p999 : most;
        snprintf(key, sizeof key, "%s_p999_us", g_names[kind]);
        bench_extra_add(result, key, s.p999);
        snprintf(key, sizeof key, "%s_worst_us", g_names[kind]);
        bench_extra_add(result, key, s.worst);
        snprintf(key, sizeof key, "%s_worst_asleep_us", g_names[kind]);
        bench_extra_add(result, key, s.slept);
    }
    result->ours = most - quiet;
    bench_note(result, "p99.9 of a set beside long calls, above a quiet run");
    bench_check(hcq_close(base.device), "close");
    bench_check(hcq_close(idle), "close");
}
