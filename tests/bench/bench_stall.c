/* bench_stall.c - how long a call on an idle device takes while another thread
   does something long on another device: p99.9 of hcq_signal_set, less that of a
   quiet run. */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

/* What the other thread does, and to what. */
typedef struct stall {
    void (*work)(const struct stall *s);
    hcq_device *device;
    hcq_program *tiny;
    hcq_buffer buffer;
    const char *library;
    int stop;                             /* atomic, like the next */
    uint32_t rounds;
} stall;

static void work_quiet(const stall *s) {
    (void)s;
    bench_sleep_ms(1);
}

static void work_alloc(const stall *s) { /* 512 MiB, and back */
    hcq_buffer b;
    uint64_t bytes = (uint64_t)bench_of(1, 512, 512) << 20;
    CHECK(hcq_alloc(s->device, bytes, HCQ_ZEROED | HCQ_NO_CACHE, &b));
    CHECK(hcq_free(b));
}

static void work_program(const stall *s) { /* from a library that is not loaded yet */
    hcq_program_desc desc = {.label = "stall", .library = s->library, .symbol = "hcq_bench_stall"};
    hcq_program *program;
    CHECK(hcq_program_create(s->device, &desc, &program));
    hcq_program_destroy(program);
}

static void work_bind(const stall *s) {
    hcq_queue *q = bench_queue(s->device, HCQ_COMPUTE);
    uint32_t count = bench_of(1000, 100000, 100000);
    bench_tiny_args args = {s->buffer.address};
    for (uint32_t i = 0; i < count; i++) {
        bench_exec(q, s->tiny, &args, sizeof args);
    }
    CHECK(hcq_queue_bind(q, s->device));
    hcq_queue_destroy(q);
}

static void work_open(const stall *s) { /* and close */
    hcq_device *device;
    (void)s;
    CHECK(hcq_open("CPU:2", NULL, &device));
    CHECK(hcq_close(device));
}

static void *stall_run(void *user) {
    stall *s = (stall *)user;
    while (!__atomic_load_n(&s->stop, __ATOMIC_SEQ_CST)) {
        s->work(s);
        __atomic_add_fetch(&s->rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* One set each 20 us or so, until at least two rounds of the other thread are over. */
static double stall_p999_us(stall *s, hcq_signal signal, uint64_t *value) {
    enum { MAX = 400000 };
    double *samples = (double *)bench_alloc(MAX * sizeof *samples, 0);
    uint64_t least = bench_of(2000000, 500000000, 2000000000);
    uint32_t count = 0;
    pthread_t thread;
    bench_thread(&thread, stall_run, s);
    for (uint64_t start = bench_now(), now = start; count < MAX;) {
        uint64_t before = bench_now();
        CHECK(hcq_signal_set(signal, ++*value));
        uint64_t after = bench_now();
        samples[count++] = (double)(after - before) * 1e-3;
        for (now = after; now < after + 20000; now = bench_now()) {
        }
        if (now - start > least && __atomic_load_n(&s->rounds, __ATOMIC_SEQ_CST) >= 2) {
            break;
        }
    }
    __atomic_store_n(&s->stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    double p999 = bench_percentile(samples, count, 99.9);
    free(samples);
    return p999;
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

static void stall_us(bench_result *result) {
    static const struct { const char *name; void (*work)(const stall *s); } kinds[] = {
        {"quiet_us", work_quiet}, {"alloc_us", work_alloc}, {"program_us", work_program},
        {"bind_us", work_bind}, {"open_us", work_open}};
    char path[600];
    stall base = {.library = path};
    hcq_device *idle;
    hcq_signal signal;
    uint64_t value = 0;
    double quiet = 0.0, most = 0.0;
    stall_library(path, sizeof path);
    CHECK(hcq_open("CPU", NULL, &idle));
    CHECK(hcq_open("CPU:1", NULL, &base.device));
    CHECK(hcq_signal_create(idle, 0, &signal));
    base.buffer = bench_buffer(base.device, 64);
    base.tiny = bench_program(base.device, "tiny", bench_tiny, HCQ_ARG_NONE);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        stall s = base;
        s.work = kinds[i].work;
        double p999 = stall_p999_us(&s, signal, &value);
        quiet = i == 0 ? p999 : quiet;
        most = p999 > most ? p999 : most;
        bench_extra_add(result, kinds[i].name, p999);
    }
    result->ours = most - quiet;
    bench_note(result, "p99.9 of a set beside long calls, above a quiet run");
    CHECK(hcq_close(base.device));
    CHECK(hcq_close(idle));
}

const bench bench_stall_rows[] = {{"core.stall_us", "us", 100.0, stall_us}, {0}};
