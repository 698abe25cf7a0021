/* bench.c - harness and main of the benchmarks; see run.sh for how to call. */

#define _GNU_SOURCE
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int g_quick, g_smoke;

/* BENCH_CUDA_ONLY: of three files, bench_cuda.c, bench_hcq.c and this one. */
static const bench *const g_tables[] = {
#ifndef BENCH_CUDA_ONLY
    bench_queue_rows, bench_signal_rows, bench_grid_rows, bench_copy_rows,
    bench_parked_rows, bench_stall_rows, bench_graph_rows, bench_kernel_rows, bench_check_rows,
#ifdef BENCH_POCL
    bench_pocl_rows,
#endif
#ifdef BENCH_VULKAN
    bench_vulkan_rows,
#endif
    bench_header_rows,
#endif
#ifdef BENCH_CUDA
    bench_cuda_rows,
#endif
};

/* ---- small things -------------------------------------------------------- */

int bench_smoke(void) { return g_smoke; }

uint32_t bench_of(uint32_t smoke, uint32_t quick, uint32_t full) {
    return g_smoke ? smoke : g_quick ? quick : full;
}

uint64_t bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_sleep_ms(uint32_t ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

void bench_die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(3);
}

void bench_check(int result, const char *what) {
    if (result < 0) {
        bench_die("%s: %s", what, hcq_result_text((hcq_result)result));
    }
}

void *bench_alloc(size_t size, size_t align) {
    void *memory = NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size) != 0) {
        bench_die("out of memory");
    }
    return memset(memory, 0, size);
}

void bench_thread(pthread_t *thread, void *(*run)(void *ctx), void *ctx) {
    if (pthread_create(thread, NULL, run, ctx) != 0) {
        bench_die("pthread_create");
    }
}

hcq_buffer bench_buffer(hcq_device *device, uint64_t size) {
    hcq_buffer buffer;
    CHECK(hcq_alloc(device, size, HCQ_HOST_VISIBLE | HCQ_ZEROED, &buffer));
    return buffer;
}

hcq_queue *bench_queue(hcq_device *device, hcq_queue_kind kind) {
    hcq_queue *queue;
    CHECK(kind == HCQ_GRAPH ? hcq_graph_create(device, &queue)
                            : hcq_queue_create(device, kind, &queue));
    return queue;
}

uint32_t bench_exec(hcq_queue *queue, hcq_program *program, const void *args, uint32_t size) {
    int32_t at = hcq_queue_exec(queue, program, args, size, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
    CHECK(at);
    return (uint32_t)at;
}

hcq_device *bench_open(const char *name, hcq_device_desc desc, bench_result *result) {
    hcq_device *device;
    char text[100];
    desc.log_fn = hcq_log_none;           /* the note says it */
    hcq_result opened = hcq_open(name, &desc, &device);
    if (opened != HCQ_OK) {
        snprintf(text, sizeof text, "SKIP: %s: %s", name, hcq_result_text(opened));
        bench_note(result, text);
    }
    return device;
}

void bench_submit_and_wait(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    CHECK(hcq_queue_submit(queue, device, &done));
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
}

void bench_counter(uint64_t value, uint64_t expected, const char *name) {
    if (value != expected) {
        bench_die("%s: the counter is %llu, not %llu", name, (unsigned long long)value,
                  (unsigned long long)expected);
    }
}

/* Threads of this process: itself, or all others. */
static void place_threads(int others, const cpu_set_t *where) {
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        pid_t id = (pid_t)atoi(task->d_name); /* 0: "." and ".." */
        if (id != 0 && (id != getpid()) == others &&
            sched_setaffinity(id, sizeof *where, where) != 0 && errno != ESRCH) {
            bench_die("sched_setaffinity: %s", strerror(errno));
        }
    }
    if (tasks == NULL || closedir(tasks) != 0) {
        bench_die("/proc/self/task: %s", strerror(errno));
    }
}

void bench_place_threads(bench_place place) {
    static cpu_set_t all;
    cpu_set_t first, rest;
    size_t cpu = 0;
    if (CPU_COUNT(&all) == 0 && sched_getaffinity(0, sizeof all, &all) != 0) {
        bench_die("sched_getaffinity: %s", strerror(errno));
    }
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    rest = all;
    CPU_CLR(cpu, &rest);
    place_threads(0, place == BENCH_ANYWHERE ? &all : &first);
    if (place == BENCH_TOGETHER || (place == BENCH_APART && CPU_COUNT(&rest) != 0)) {
        place_threads(1, place == BENCH_TOGETHER ? &first : &rest);
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *samples, uint32_t count, double percent) {
    qsort(samples, count, sizeof *samples, compare_doubles);
    uint32_t at = (uint32_t)((double)count * percent / 100.0);
    return count == 0 ? BENCH_NONE : samples[at < count ? at : count - 1];
}

double bench_median(double *samples, uint32_t count) {
    qsort(samples, count, sizeof *samples, compare_doubles);
    return count == 0 ? BENCH_NONE : 0.5 * (samples[(count - 1) / 2] + samples[count / 2]);
}

/* ---- results ------------------------------------------------------------- */

static void result_clear(bench_result *result) {
    memset(result, 0, sizeof *result);
    result->ours = result->peer = result->ratio = result->p99_goal = BENCH_NONE;
}

/* Leaves out what would have to be quoted in JSON. */
void bench_note(bench_result *result, const char *note) {
    size_t out = 0;
    for (; *note != 0 && out + 1 < sizeof result->note; note++) {
        if (*note >= ' ' && *note != '"' && *note != '\\') {
            result->note[out++] = *note;
        }
    }
    result->note[out] = 0;
}

void bench_extra_add(bench_result *result, const char *key, double value) {
    if (result->extra_count == BENCH_MAX_EXTRA) {
        bench_die("too many extra keys");
    }
    bench_extra *extra = &result->extra[result->extra_count++];
    snprintf(extra->key, sizeof extra->key, "%s", key);
    extra->value = value;
}

double bench_report(bench_result *result, const bench_stats *ours, const bench_stats *peer,
                    double scale) {
    double ratios[BENCH_MAX_PASSES];
    result->ours = ours->median * scale;
    if (peer == NULL) {
        return BENCH_NONE;
    }
    uint32_t count = ours->passes < peer->passes ? ours->passes : peer->passes;
    for (uint32_t i = 0; i < count; i++) {
        ratios[i] = ours->pass[i] / peer->pass[i];
    }
    double pass_ratio = bench_median(ratios, count);
    result->peer = peer->median * scale;
    result->ratio = ours->median / peer->median;
    bench_extra_add(result, "pass_ratio", pass_ratio);
    return pass_ratio;
}

/* ---- passes -------------------------------------------------------------- */

enum { PASS_SAMPLES = 20000 };            /* at most, in one pass */

/* The samples of one side over all passes. */
typedef struct samples {
    double *values;
    uint32_t count, pass_first;
    double pass[BENCH_MAX_PASSES];        /* medians */
    uint32_t passes;
    uint64_t n;                           /* operations in one sample, once calibrated */
} samples;

static uint64_t pass_ns(void) { return bench_of(1000000, 35000000, 80000000); }

static void samples_add(samples *s, double value) { s->values[s->count++] = value; }

/* Keeps the median of a finished pass. The order of samples within a pass is of
   no use, so sorting them in place does no harm. */
static void samples_end_pass(samples *s) {
    uint32_t count = s->count - s->pass_first;
    s->pass[s->passes++] = bench_median(s->values + s->pass_first, count);
    s->pass_first = s->count;
}

void bench_stats_make(bench_stats *stats, const double *pass, uint32_t count) {
    double sorted[BENCH_MAX_PASSES];
    if (count == 0 || count > BENCH_MAX_PASSES) {
        bench_die("%u passes", (unsigned)count);
    }
    for (uint32_t i = 0; i < count; i++) {
        stats->pass[i] = sorted[i] = pass[i];
    }
    stats->passes = count;
    stats->median = bench_median(sorted, count);
}

/* Over the samples of all passes, not over passes: longer passes count more. */
static bench_stats samples_stats(samples *s) {
    bench_stats stats;
    double sum = 0.0;
    bench_stats_make(&stats, s->pass, s->passes);
    for (uint32_t i = 0; i < s->count; i++) {
        sum += s->values[i];
    }
    stats.mean = sum / s->count;
    stats.median = bench_median(s->values, s->count);
    stats.p99 = bench_percentile(s->values, s->count, 99.0);
    return stats;
}

/* Runs a side for some 20 ms (--smoke: 1 ms) before it counts: threads wake up, the scheduler
   spreads them over the processors, clocks and caches warm up. The first time
   it also finds how many operations make a sample of about 2 ms. */
static void warm_up(const bench_side *side, samples *s) {
    uint64_t warm_ns = bench_of(1000000, 20000000, 20000000);
    uint64_t start = bench_now();
    uint64_t n = s->n == 0 ? 1 : s->n;
    for (;;) {
        uint64_t before = bench_now();
        side->run(side->ctx, n);
        uint64_t after = bench_now();
        if (s->n == 0) {
            if (after - before >= warm_ns / 10) {
                s->n = n;
            } else {
                n *= 2;
            }
        }
        if (s->n != 0 && after - start >= warm_ns) {
            return;
        }
    }
}

static void throughput_pass(const bench_side *side, samples *s) {
    uint64_t start = bench_now(), before = start;
    for (uint32_t i = 0; i < 2 || (before - start < pass_ns() && i < PASS_SAMPLES); i++) {
        side->run(side->ctx, s->n);
        uint64_t after = bench_now();
        samples_add(s, (double)(after - before) / (double)s->n);
        before = after;
    }
}

/* What one reading of the clock costs; part of every latency sample. */
static double clock_cost(void) {
    double deltas[1001];
    uint64_t before = bench_now();
    for (uint32_t i = 0; i < 1001; i++) {
        uint64_t after = bench_now();
        deltas[i] = (double)(after - before);
        before = after;
    }
    return bench_median(deltas, 1001);
}

static void latency_pass(const bench_side *side, samples *s) {
    double cost = clock_cost();
    uint64_t start = bench_now(), before = start;
    for (uint32_t i = 0; i < PASS_SAMPLES && before - start < pass_ns(); i++) {
        side->run(side->ctx, 1);
        double sample = (double)(bench_now() - before) - cost;
        samples_add(s, sample > 0.0 ? sample : 0.0);
        before = bench_now();
    }
}

/* For what knows itself what belongs to a sample. */
static void samples_pass(const bench_side *side, samples *s) {
    for (uint32_t i = 0; i < bench_of(1, 10, 10); i++) {
        side->sample(side->ctx);
    }
    for (uint32_t i = 0; i < bench_of(3, 100, 100); i++) {
        samples_add(s, side->sample(side->ctx));
    }
}

/* Between two sides the machine is left alone for 10 ms, until the spinning
   threads of the side before have gone to sleep. Odd passes run in reverse
   order, so that no side is always the one after a given other. */
static void interleave(const bench_side *sides, uint32_t count, bench_stats *stats,
                       void (*pass_fn)(const bench_side *, samples *)) {
    samples all[BENCH_MAX_SIDES] = {0};
    uint32_t passes = bench_of(2, 7, 21);
    for (uint32_t i = 0; i < count; i++) {
        all[i].values = (double *)malloc((size_t)passes * PASS_SAMPLES * sizeof(double));
        if (all[i].values == NULL) {
            bench_die("out of memory");
        }
    }
    for (uint32_t p = 0; p < passes; p++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = p % 2 == 0 ? i : count - 1 - i;
            const bench_side *side = &sides[at];
            bench_sleep_ms(bench_of(1, 10, 10));
            if (side->begin != NULL) {
                side->begin(side->ctx);
            }
            if (side->sample != NULL) {
                samples_pass(side, &all[at]);
            } else {
                warm_up(side, &all[at]);
                pass_fn(side, &all[at]);
            }
            if (side->end != NULL) {
                side->end(side->ctx);
            }
            samples_end_pass(&all[at]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        stats[i] = samples_stats(&all[i]);
        free(all[i].values);
    }
}

void bench_throughput(const bench_side *sides, uint32_t count, bench_stats *stats) {
    interleave(sides, count, stats, throughput_pass);
}

void bench_passes(double (*const *pass)(void *ctx), uint32_t count, void *ctx, uint32_t passes,
                  bench_stats *stats) {
    double values[BENCH_MAX_SIDES][BENCH_MAX_PASSES];
    for (uint32_t p = 0; p < passes; p++) {
        for (uint32_t i = 0; i < count; i++) {
            values[i][p] = pass[i](ctx);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        bench_stats_make(&stats[i], values[i], passes);
    }
}

const bench_stats *bench_compare(bench_result *result, const bench_side *sides, uint32_t count,
                                 double scale) {
    static bench_stats stats[BENCH_MAX_SIDES];
    bench_throughput(sides, count, stats);
    bench_report(result, &stats[0], count > 1 ? &stats[1] : NULL, scale);
    return stats;
}

void bench_compare_latency(bench_result *result, const bench_side sides[2]) {
    bench_stats stats[2];
    interleave(sides, 2, stats, latency_pass);
    bench_report(result, &stats[0], &stats[1], 1.0);
    result->p99 = stats[0].p99;
    bench_extra_add(result, "ours_mean", stats[0].mean);
    bench_extra_add(result, "ours_p99", stats[0].p99);
    bench_extra_add(result, "peer_mean", stats[1].mean);
    bench_extra_add(result, "peer_p99", stats[1].p99);
}

/* ---- one bench in its process -------------------------------------------- */

/* Runs it in this process and writes the result into the pipe. */
static void child_main(const bench *b, int fd) {
    bench_result result;
    result_clear(&result);
    result.number = b->number;
    b->run(&result);
    _exit(write(fd, &result, sizeof result) == (ssize_t)sizeof result ? 0 : 4);
}

/* Starts this program anew, as `--child NAME FD`: OpenMP reads its wait policy once,
   before main; on a busy machine it is to wait asleep. */
static void start_child(const bench *b, int fd, uint64_t limit_ns) {
    char number[16];
    char *args[] = {"bench", "--child", (char *)b->name, number, NULL, NULL};
    args[4] = g_smoke ? "--smoke" : g_quick ? "--quick" : NULL;
    snprintf(number, sizeof number, "%d", fd);
    alarm((unsigned)(limit_ns / 1000000000u) + 1);
    if (strncmp(b->name, "cpu.busy_", 9) == 0) {
        setenv("OMP_WAIT_POLICY", "passive", 1);
    }
    execv("/proc/self/exe", args);
    bench_die("exec: %s", strerror(errno));
}

/* Returns 1 if the bench gave a result. It ends itself once time is up. */
static int run_bench(const bench *b, bench_result *result, uint64_t limit_ns) {
    int fds[2];
    uint64_t start = bench_now();
    fflush(NULL);
    pid_t pid = pipe(fds) == 0 ? fork() : -1;
    if (pid < 0) {
        bench_die("pipe or fork: %s", strerror(errno));
    }
    if (pid == 0) {
        close(fds[0]);
        start_child(b, fds[1], limit_ns);
    }
    close(fds[1]);
    int ok = read(fds[0], result, sizeof *result) == (ssize_t)sizeof *result;
    close(fds[0]);
    waitpid(pid, NULL, 0);
    if (!ok) {
        result_clear(result);
        snprintf(result->note, sizeof result->note, "failed after %.1f s",
                 (double)(bench_now() - start) * 1e-9);
    }
    return ok;
}

/* ---- output -------------------------------------------------------------- */

static void print_number(FILE *file, const char *format, const char *none, double value) {
    if (isnan(value)) {
        fputs(none, file);
    } else {
        fprintf(file, format, value);
    }
}

/* A missed goal says so; what has no other side is held to its goal directly. */
static const char *verdict(const bench *b, const bench_result *r) {
    int alone = strncmp(b->name, "include.", 8) == 0 || strncmp(b->name, "core.", 5) == 0;
    double measured = isnan(r->ratio) && alone ? r->ours : r->ratio;
    if (isnan(b->goal) || isnan(measured)) {
        return "";
    }
    int stalls = !isnan(r->p99_goal) && r->p99 > r->p99_goal;
    return measured <= b->goal && !stalls ? "ok" : "MISSED";
}

static void print_row(const bench *b, const bench_result *r) {
    printf("%-30s", b->name);
    print_number(stdout, " %11.3f", "           -", r->ours);
    print_number(stdout, " %11.3f", "           -", r->peer);
    printf("  %-14s", b->unit);
    print_number(stdout, "%8.3f", "       -", r->ratio);
    print_number(stdout, " %6.2f", "      -", b->goal);
    printf("  %-6s %s\n", verdict(b, r), r->note);
    print_number(stdout, "    p99 at most %.0f\n", "", r->p99_goal);
    for (uint32_t i = 0; i < r->extra_count; i++) {
        printf("    %s", r->extra[i].key);
        print_number(stdout, " %.3f\n", " -\n", r->extra[i].value);
    }
    fflush(stdout);
}

static void json_key(FILE *file, const char *key, double value) {
    fprintf(file, ", \"%s\": ", key);
    print_number(file, "%.6g", "null", value);
}

static void json_row(FILE *file, const bench *b, const bench_result *r) {
    fprintf(file, "{\"name\": \"%s\"", b->name);
    json_key(file, "ours", r->ours);
    json_key(file, "peer", r->peer);
    json_key(file, "ratio", r->ratio);
    fprintf(file, ", \"unit\": \"%s\"", b->unit);
    json_key(file, "goal", b->goal);
    if (!isnan(r->p99_goal)) {
        json_key(file, "p99_goal", r->p99_goal);
    }
    for (uint32_t i = 0; i < r->extra_count; i++) {
        json_key(file, r->extra[i].key, r->extra[i].value);
    }
    if (r->note[0] != 0) {
        fprintf(file, ", \"note\": \"%s\"", r->note);
    }
    fputs("}", file);
}

/* ---- main ---------------------------------------------------------------- */

typedef struct options {
    const char *json, *only, *child;
    int fd;                               /* the child's */
} options;

static int parse_options(int argc, char **argv, options *o) {
    *o = (options){.only = ""};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            g_quick = 1;
        } else if (strcmp(argv[i], "--smoke") == 0) {
            g_smoke = 1;
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            o->json = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            o->only = argv[++i];
        } else if (strcmp(argv[i], "--child") == 0 && i + 2 < argc) {
            o->child = argv[++i];
            o->fd = atoi(argv[++i]);
        } else {
            fprintf(stderr, "usage: run.sh [--json FILE] [--quick] [--smoke] [--only NAME]\n"
                            "NAME is the start of a bench's name, \"cpu.grid\" say\n");
            return 0;
        }
    }
    return 1;
}

/* Time left of --quick's 150 s, or of BENCH_LIMIT_S; the build before counts, too. */
static uint64_t time_left(void) {
    static uint64_t end;
    if (!g_quick) {
        return UINT64_C(120) * 1000000000u;
    }
    if (end == 0) {
        const char *start = getenv("BENCH_START");
        long long spent = start == NULL ? 0 : (long long)time(NULL) - atoll(start);
        const char *given = getenv("BENCH_LIMIT_S");
        spent = spent < 0 || spent > 40 ? 0 : spent;
        end = bench_now() + (uint64_t)((given == NULL ? 147 : atoll(given)) - spent) * 1000000000u;
    }
    uint64_t now = bench_now();
    return now >= end ? 0 : end - now;
}

static void print_head(void) {
    double load[1] = {0.0};
    if (getloadavg(load, 1) == 1 && load[0] > 0.5) {
        printf("note: the load is %.2f; figures from a busy machine are worth little\n", load[0]);
    }
    printf("%-30s %11s %11s  %-14s%8s %6s\n", "name", "ours", "peer", "unit", "ratio", "goal");
}

/* Runs it and tells; returns 1 if it failed. */
static int run_row(const bench *b, FILE *json, int first) {
    bench_result result;
    int failed = 0;
    if (time_left() == 0) {
        result_clear(&result);
        bench_note(&result, "left out: --quick is out of time");
    } else {
        failed = !run_bench(b, &result, time_left());
    }
    print_row(b, &result);
    if (json != NULL) {
        fputs(first ? "\n  " : ",\n  ", json);
        json_row(json, b, &result);
    }
    return failed;
}

static int run_rows(const options *o, FILE *json) {
    int count = 0, failed = 0;
    time_left();
    for (size_t t = 0; t < sizeof g_tables / sizeof g_tables[0]; t++) {
        for (const bench *b = g_tables[t]; b->name != NULL; b++) {
            if (o->child != NULL && strcmp(b->name, o->child) == 0) {
                child_main(b, o->fd);
            }
            if (o->child == NULL && strncmp(b->name, o->only, strlen(o->only)) == 0) {
                failed |= run_row(b, json, count++ == 0);
            }
        }
    }
    if (count == 0) {
        fprintf(stderr, "bench: no bench is called \"%s\"\n", o->only);
        return 2;
    }
    return failed;
}

int main(int argc, char **argv) {
    options o;
    FILE *json = NULL;
    if (!parse_options(argc, argv, &o)) {
        return 2;
    }
    if (o.json != NULL && (json = fopen(o.json, "w")) == NULL) {
        fprintf(stderr, "bench: %s: %s\n", o.json, strerror(errno));
        return 1;
    }
    if (o.child == NULL) {
        print_head();
    }
    if (json != NULL) {
        fputs("[", json);
    }
    int status = run_rows(&o, json);
    if (json != NULL && (fputs("\n]\n", json) < 0 || fclose(json) != 0)) {
        fprintf(stderr, "bench: %s: %s\n", o.json, strerror(errno));
        return 1;
    }
    return status;
}
