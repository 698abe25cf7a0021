/* bench.c - harness and main of the benchmarks; see run.sh for how to call. */

#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int g_quick, g_smoke;

/* BENCH_CUDA_ONLY: of three files, bench_cuda.c, bench_hcq.c and this one. */
static const bench g_benches[] = {
#ifndef BENCH_CUDA_ONLY
    {"cpu.replay_1000", "ns/kernel", 2.0, bench_replay_1000},
    {"cpu.replay_1000_tbb", "ns/kernel", 0.25, bench_replay_1000_tbb},
    {"cpu.replay_1000_pocl", "ns/kernel", 1.0, bench_replay_1000_pocl},
    {"cpu.submit_call", "ns", BENCH_NONE, bench_submit_call},
    {"cpu.roundtrip_spin", "ns", 1.5, bench_roundtrip_spin},
    {"cpu.roundtrip_sleep", "ns", 1.3, bench_roundtrip_sleep},
    {"cpu.submit_and_wait", "ns", 1.02, bench_submit_and_wait},
    {"cpu.signal_set_no_waiter", "ns", BENCH_NONE, bench_signal_set_no_waiter},
    {"cpu.wait_reached", "ns", BENCH_NONE, bench_wait_reached},
    {"cpu.wake_same_cpu", "ns", 1.3, bench_wake_same_cpu},
    {"cpu.wake_same_cpu_lane", "ns", 1.3, bench_wake_same_cpu_lane},
    {"cpu.grid_saxpy_16m", "ms/grid", 1.05, bench_grid_saxpy_16m},
    {"cpu.grid_tiny_1m", "ms/grid", 1.05, bench_grid_tiny_1m},
    {"cpu.grid_2_heavy", "ms/grid", 1.05, bench_grid_2_heavy},
    {"cpu.grid_uneven", "ms/grid", 1.05, bench_grid_uneven},
    {"cpu.busy_saxpy", "ms/grid", 1.25, bench_busy_saxpy},
    {"cpu.busy_uneven", "ms/grid", 1.25, bench_busy_uneven},
    {"cpu.copy_256m", "ms", 1.05, bench_copy_256m},
    {"cpu.copyin_256m", "ms", 1.05, bench_copyin_256m},
    {"cpu.update_exec", "ns", BENCH_NONE, bench_update_exec},
    {"cpu.record_exec", "ns", BENCH_NONE, bench_record_exec},
    {"cpu.parked_one_set", "ns/submission", 1.3, bench_parked_one_set},
    {"cpu.parked_many_sets", "ns/submission", 1.3, bench_parked_many_sets},
    {"core.stall_us", "us", 100.0, bench_stall_us},
    {"graph.replay_1000", "ns/kernel", 2.5, bench_graph_replay_1000},
    {"graph.replay_1000_tbb", "ns/kernel", 0.3, bench_graph_replay_1000_tbb},
    {"graph.patch_1_of_1000", "ns/launch", 1.2, bench_graph_patch_1_of_1000},
    {"graph.patch_100_of_1000", "ns/launch", BENCH_NONE, bench_graph_patch_100_of_1000},
    {"graph.input_1_of_1000", "ns/launch", BENCH_NONE, bench_graph_input_1_of_1000},
    {"graph.replay_two_devices", "ns/kernel", BENCH_NONE, bench_graph_replay_two_devices},
    {"graph.plan_1000", "ns/call", BENCH_NONE, bench_graph_plan_1000},
    {"profile.off", "ns/kernel", 1.02, bench_profile_off},
    {"profile.on", "ns/kernel", BENCH_NONE, bench_profile_on},
#ifdef BENCH_VULKAN
    {"vulkan.replay_1000", "ns/kernel", 1.05, bench_vulkan_replay_1000},
    {"vulkan.replay_1", "ns", 1.05, bench_vulkan_replay_1},
    {"vulkan.submit_call", "ns", BENCH_NONE, bench_vulkan_submit_call},
    {"vulkan.graph_1000_alternating", "ns/command", 1.2, bench_vulkan_graph_1000_alternating},
    {"vulkan.patch_grid", "ns", BENCH_NONE, bench_vulkan_patch_grid},
    {"vulkan.patch_arg", "ns", BENCH_NONE, bench_vulkan_patch_arg},
    {"vulkan.record_dispatch", "ns/kernel", 1.3, bench_vulkan_record_dispatch},
    {"vulkan.copy_256m", "ms", 1.05, bench_vulkan_copy_256m},
#endif
    {"include.header_ms", "ms", 20.0, bench_header_ms},
#endif
#ifdef BENCH_CUDA
    {"cuda.replay_1000", "ns/kernel", 1.05, bench_cuda_replay_1000},
    {"cuda.replay_1", "ns", BENCH_NONE, bench_cuda_replay_1},
    {"cuda.eager_exec", "ns/kernel", 1.10, bench_cuda_eager_exec},
    {"cuda.submit_one", "ns", 1.25, bench_cuda_submit_one},
    {"cuda.signal_to_host", "ns", BENCH_NONE, bench_cuda_signal_to_host},
    {"cuda.host_to_gpu", "ns", BENCH_NONE, bench_cuda_host_to_gpu},
    {"cuda.cross_stream_wait", "ns/wait", 1.10, bench_cuda_cross_stream_wait},
    {"cuda.patch_1_of_1000", "ns/launch", BENCH_NONE, bench_cuda_patch_1_of_1000},
    /* 0.95 of the bandwidth */
    {"cuda.copyin_1g", "ms", 1.0 / 0.95, bench_cuda_copyin_1g},
    {"cuda.copyout_1g", "ms", 1.0 / 0.95, bench_cuda_copyout_1g},
    {"cuda.copyin_pageable", "ms", BENCH_NONE, bench_cuda_copyin_pageable},
    {"cuda.copyout_pageable", "ms", BENCH_NONE, bench_cuda_copyout_pageable},
    {"cuda_fact.calls", "", BENCH_NONE, bench_cuda_fact_calls},
    {"cuda_fact.hops", "", BENCH_NONE, bench_cuda_fact_hops},
    {"cuda_fact.graphs", "", BENCH_NONE, bench_cuda_fact_graphs},
    {"cuda_fact.streams", "", BENCH_NONE, bench_cuda_fact_streams},
    {"cuda_fact.timer", "", BENCH_NONE, bench_cuda_fact_timer},
    {"cuda_fact.wake", "", BENCH_NONE, bench_cuda_fact_wake},
#endif
};

enum { BENCH_COUNT = sizeof g_benches / sizeof g_benches[0] };

/* ---- small things -------------------------------------------------------- */

int bench_quick(void) {
    return g_quick;
}

int bench_smoke(void) {
    return g_smoke;
}

uint64_t bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_sleep_ms(uint32_t ms) {
    struct timespec t;
    t.tv_sec = ms / 1000;
    t.tv_nsec = (long)(ms % 1000) * 1000000;
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

void bench_check(hcq_result result, const char *what) {
    if (result != HCQ_OK) {
        bench_die("%s: %s", what, hcq_result_text(result));
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *samples, uint32_t count, double percent) {
    if (count == 0) {
        return BENCH_NONE;
    }
    qsort(samples, count, sizeof *samples, compare_doubles);
    uint32_t at = (uint32_t)((double)count * percent / 100.0);
    return samples[at < count ? at : count - 1];
}

double bench_median(double *samples, uint32_t count) {
    if (count == 0) {
        return BENCH_NONE;
    }
    qsort(samples, count, sizeof *samples, compare_doubles);
    return 0.5 * (samples[(count - 1) / 2] + samples[count / 2]);
}

void bench_note(bench_result *result, const char *note) {
    snprintf(result->note, sizeof result->note, "%s", note);
}

void bench_extra_add(bench_result *result, const char *key, double value) {
    if (result->extra_count == BENCH_MAX_EXTRA) {
        bench_die("too many extra keys");
    }
    bench_extra *extra = &result->extra[result->extra_count++];
    snprintf(extra->key, sizeof extra->key, "%s", key);
    extra->value = value;
}

static bench_stats scaled(const bench_stats *stats, double scale) {
    bench_stats s = *stats;
    s.median *= scale;
    s.mean *= scale;
    s.p99 *= scale;
    s.low *= scale;
    s.high *= scale;
    for (uint32_t i = 0; i < s.passes; i++) {
        s.pass[i] *= scale;
    }
    return s;
}

static double pass_ratio(const bench_stats *ours, const bench_stats *peer) {
    double ratios[BENCH_MAX_PASSES];
    uint32_t count = ours->passes < peer->passes ? ours->passes : peer->passes;
    for (uint32_t i = 0; i < count; i++) {
        ratios[i] = ours->pass[i] / peer->pass[i];
    }
    return bench_median(ratios, count);
}

void bench_report(bench_result *result, const bench_stats *ours, const bench_stats *peer,
                  double scale) {
    result->ours_stats = scaled(ours, scale);
    result->ours = result->ours_stats.median;
    if (peer == NULL) {
        return;
    }
    result->peer_stats = scaled(peer, scale);
    result->peer = result->peer_stats.median;
    result->ratio = result->ours / result->peer;
    result->pass_ratio = pass_ratio(ours, peer);
}

/* ---- passes -------------------------------------------------------------- */

/* The samples of one side over all passes. */
typedef struct samples {
    double *values;
    uint32_t count, capacity, pass_first;
    double pass[BENCH_MAX_PASSES];     /* medians */
    uint32_t passes;
    uint64_t n;                        /* operations in one sample, once calibrated */
} samples;

static uint32_t passes(void) {
    return g_smoke ? 2 : g_quick ? 7 : 21;
}

static uint64_t pass_ns(void) {
    return g_smoke ? 1000000u : g_quick ? 35000000u : 80000000u;
}

static void samples_add(samples *s, double value) {
    if (s->count == s->capacity) {
        uint32_t grown = s->capacity == 0 ? 1024 : 2 * s->capacity;
        double *values = (double *)realloc(s->values, grown * sizeof *values);
        if (values == NULL) {
            bench_die("out of memory");
        }
        s->values = values;
        s->capacity = grown;
    }
    s->values[s->count++] = value;
}

/* Keeps the median of a finished pass. The order of samples within a pass is of
   no use, so sorting them in place does no harm. */
static void samples_end_pass(samples *s) {
    uint32_t count = s->count - s->pass_first;
    s->pass[s->passes++] = bench_median(s->values + s->pass_first, count);
    s->pass_first = s->count;
}

void bench_stats_make(bench_stats *stats, const double *pass, uint32_t count) {
    double sorted[BENCH_MAX_PASSES];
    double sum = 0.0;
    if (count == 0 || count > BENCH_MAX_PASSES) {
        bench_die("%u passes", (unsigned)count);
    }
    for (uint32_t i = 0; i < count; i++) {
        stats->pass[i] = pass[i];
        sorted[i] = pass[i];
        sum += pass[i];
    }
    stats->passes = count;
    stats->mean = sum / count;
    stats->median = bench_median(sorted, count);
    stats->p99 = bench_percentile(sorted, count, 99.0);
    stats->low = sorted[0];
    stats->high = sorted[count - 1];
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
    uint64_t warm_ns = g_smoke ? 1000000u : 20000000u;
    uint64_t start = bench_now();
    uint64_t n = s->n == 0 ? 1 : s->n;
    for (;;) {
        uint64_t before = bench_now();
        side->run(side->ctx, n);
        uint64_t after = bench_now();
        if (s->n == 0) {
            if (after - before >= warm_ns / 10 || (side->max_n != 0 && n >= side->max_n)) {
                s->n = n;
            } else {
                n = side->max_n != 0 && 2 * n > side->max_n ? side->max_n : 2 * n;
            }
        }
        if (s->n != 0 && after - start >= warm_ns) {
            return;
        }
    }
}

static void throughput_pass(const bench_side *side, samples *s) {
    uint64_t start = bench_now();
    uint64_t before = start;
    for (uint32_t i = 0; i < 2 || before - start < pass_ns(); i++) {
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
    uint64_t start = bench_now();
    uint64_t before = start;
    for (uint32_t i = 0; i < 20000 && before - start < pass_ns(); i++) {
        side->run(side->ctx, 1);
        uint64_t after = bench_now();
        double sample = (double)(after - before) - cost;
        samples_add(s, sample > 0.0 ? sample : 0.0);
        before = bench_now();
    }
}

/* Between two sides the machine is left alone for 10 ms, until the spinning
   threads of the side before have gone to sleep. Odd passes run in reverse
   order, so that no side is always the one after a given other. */
static void interleave(const bench_side *sides, uint32_t count, bench_stats *stats,
                       void (*pass_fn)(const bench_side *, samples *)) {
    samples all[BENCH_MAX_SIDES];
    memset(all, 0, sizeof all);
    for (uint32_t p = 0; p < passes(); p++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = p % 2 == 0 ? i : count - 1 - i;
            const bench_side *side = &sides[at];
            bench_sleep_ms(g_smoke ? 1 : 10);
            if (side->begin != NULL) {
                side->begin(side->ctx);
            }
            warm_up(side, &all[at]);
            pass_fn(side, &all[at]);
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

void bench_latency(const bench_side *sides, uint32_t count, bench_stats *stats) {
    interleave(sides, count, stats, latency_pass);
}

/* ---- one bench in its process -------------------------------------------- */

static void result_clear(bench_result *result) {
    memset(result, 0, sizeof *result);
    result->ours = BENCH_NONE;
    result->peer = BENCH_NONE;
    result->ratio = BENCH_NONE;
    result->pass_ratio = BENCH_NONE;
    result->p99_goal = BENCH_NONE;
}

/* OpenMP reads its wait policy once, before main: for a busy machine it is to
   wait asleep, so this program starts anew, as `--child NAME FD`. */
static void restart_passive(const bench *b, int fd) {
    char number[16];
    char *args[] = {"bench", "--child", (char *)b->name, number, NULL, NULL};
    args[4] = g_smoke ? "--smoke" : g_quick ? "--quick" : NULL;
    snprintf(number, sizeof number, "%d", fd);
    if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0 || execv("/proc/self/exe", args) != 0) {
        bench_die("restart: %s", strerror(errno));
    }
}

static void child_main(const bench *b, int fd) {
    bench_result result;
    result_clear(&result);
    b->run(&result);
    const char *bytes = (const char *)&result;
    size_t done = 0;
    while (done < sizeof result) {
        ssize_t n = write(fd, bytes + done, sizeof result - done);
        if (n <= 0 && errno != EINTR) {
            _exit(4);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    _exit(0);
}

/* Reads until the struct is complete, the child is gone or time is up. */
static int read_result(int fd, bench_result *result, uint64_t limit_ns) {
    char *bytes = (char *)result;
    size_t done = 0;
    uint64_t end = bench_now() + limit_ns;
    while (done < sizeof *result) {
        uint64_t now = bench_now();
        struct pollfd p = {fd, POLLIN, 0};
        if (now >= end || poll(&p, 1, (int)((end - now) / 1000000u) + 1) < 0) {
            return 0;
        }
        if (p.revents == 0) {
            continue;
        }
        ssize_t n = read(fd, bytes + done, sizeof *result - done);
        if (n <= 0) {
            return 0;
        }
        done += (size_t)n;
    }
    return 1;
}

/* Returns 1 if the bench gave a result. */
static int run_bench(const bench *b, bench_result *result, uint64_t limit_ns) {
    int fds[2];
    if (pipe(fds) != 0) {
        bench_die("pipe: %s", strerror(errno));
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        bench_die("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        close(fds[0]);
        if (strncmp(b->name, "cpu.busy_", 9) == 0) {
            restart_passive(b, fds[1]);
        }
        child_main(b, fds[1]);
    }
    close(fds[1]);
    uint64_t start = bench_now();
    int ok = read_result(fds[0], result, limit_ns);
    if (!ok) {
        result_clear(result);
        snprintf(result->note, sizeof result->note, "failed after %.1f s",
                 (double)(bench_now() - start) * 1e-9);
        kill(pid, SIGKILL);
    }
    close(fds[0]);
    waitpid(pid, NULL, 0);
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
    int stalls = !isnan(r->p99_goal) && r->ours_stats.p99 > r->p99_goal;
    return measured <= b->goal && !stalls ? "ok" : "MISSED";
}

/* What has no sides and no unit. */
static void print_facts(const bench *b, const bench_result *r) {
    printf("%s  %s\n", b->name, r->note);
    for (uint32_t i = 0; i < r->extra_count; i++) {
        printf("    %-36s", r->extra[i].key);
        print_number(stdout, " %11.1f\n", "           -\n", r->extra[i].value);
    }
    fflush(stdout);
}

static void print_row(const bench *b, const bench_result *r) {
    if (b->unit[0] == 0) {
        print_facts(b, r);
        return;
    }
    printf("%-30s", b->name);
    print_number(stdout, " %11.3f", "           -", r->ours);
    print_number(stdout, " %11.3f", "           -", r->peer);
    printf("  %-14s", b->unit);
    print_number(stdout, "%8.3f", "       -", r->ratio);
    print_number(stdout, " %6.2f", "      -", b->goal);
    printf("  %-6s %s\n", verdict(b, r), r->note);
    if (r->latency) {
        printf("    ours mean %.0f p99 %.0f, peer mean %.0f p99 %.0f\n", r->ours_stats.mean,
               r->ours_stats.p99, r->peer_stats.mean, r->peer_stats.p99);
    }
    if (!isnan(r->p99_goal)) {
        printf("    p99 at most %.0f\n", r->p99_goal);
    }
    if (!isnan(r->peer)) {
        printf("    passes: ours %.3f to %.3f, peer %.3f to %.3f; ratio within a pass %.3f\n",
               r->ours_stats.low, r->ours_stats.high, r->peer_stats.low, r->peer_stats.high,
               r->pass_ratio);
    }
    for (uint32_t i = 0; i < r->extra_count; i++) {
        printf("    %s %.3f\n", r->extra[i].key, r->extra[i].value);
    }
    fflush(stdout);
}

static void json_key(FILE *file, const char *key, double value) {
    fprintf(file, ", \"%s\": ", key);
    print_number(file, "%.6g", "null", value);
}

static void json_row(FILE *file, const bench *b, const bench_result *r, int first) {
    fprintf(file, "%s\n  {\"name\": \"%s\"", first ? "" : ",", b->name);
    json_key(file, "ours", r->ours);
    json_key(file, "peer", r->peer);
    json_key(file, "ratio", r->ratio);
    fprintf(file, ", \"unit\": \"%s\"", b->unit);
    json_key(file, "goal", b->goal);
    if (r->latency) {
        json_key(file, "ours_mean", r->ours_stats.mean);
        json_key(file, "ours_p99", r->ours_stats.p99);
        json_key(file, "peer_mean", r->peer_stats.mean);
        json_key(file, "peer_p99", r->peer_stats.p99);
    }
    if (!isnan(r->p99_goal)) {
        json_key(file, "p99_goal", r->p99_goal);
    }
    if (!isnan(r->peer)) {
        json_key(file, "pass_ratio", r->pass_ratio);
        json_key(file, "ours_low", r->ours_stats.low);
        json_key(file, "ours_high", r->ours_stats.high);
        json_key(file, "peer_low", r->peer_stats.low);
        json_key(file, "peer_high", r->peer_stats.high);
    }
    for (uint32_t i = 0; i < r->extra_count; i++) {
        json_key(file, r->extra[i].key, r->extra[i].value);
    }
    if (r->note[0] != 0) {
        fprintf(file, ", \"note\": \"%s\"", r->note);
    }
    fputs("}", file);
}

static int write_json(const char *path, const bench_result *results, const int *chosen) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
        return 0;
    }
    int first = 1;
    fputs("[", file);
    for (uint32_t i = 0; i < BENCH_COUNT; i++) {
        if (chosen[i]) {
            json_row(file, &g_benches[i], &results[i], first);
            first = 0;
        }
    }
    fputs("\n]\n", file);
    if (fclose(file) != 0) {
        fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
        return 0;
    }
    return 1;
}

/* ---- main ---------------------------------------------------------------- */

typedef struct options {
    const char *json, *only, *child;
    int fd;                                /* the child's */
} options;

static int parse_options(int argc, char **argv, options *o) {
    memset(o, 0, sizeof *o);
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

/* Time left of --quick's 75 s; the build before counts, too. */
static uint64_t time_left(void) {
    static uint64_t end;
    if (!g_quick) {
        return UINT64_C(120) * 1000000000u;
    }
    if (end == 0) {
        const char *start = getenv("BENCH_START");
        long long spent = start == NULL ? 0 : (long long)time(NULL) - atoll(start);
        spent = spent < 0 || spent > 40 ? 0 : spent;
        end = bench_now() + (uint64_t)(72 - spent) * 1000000000u;
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

int main(int argc, char **argv) {
    options o;
    if (!parse_options(argc, argv, &o)) {
        return 2;
    }
    for (uint32_t i = 0; o.child != NULL && i < BENCH_COUNT; i++) {
        if (strcmp(g_benches[i].name, o.child) == 0) {
            child_main(&g_benches[i], o.fd);
        }
    }
    static bench_result results[BENCH_COUNT];
    int chosen[BENCH_COUNT];
    int failed = 0;
    uint32_t count = 0;
    time_left();
    print_head();
    for (uint32_t i = 0; i < BENCH_COUNT; i++) {
        const bench *b = &g_benches[i];
        chosen[i] = o.only == NULL || strncmp(b->name, o.only, strlen(o.only)) == 0;
        if (!chosen[i]) {
            continue;
        }
        count++;
        if (time_left() == 0) {
            result_clear(&results[i]);
            bench_note(&results[i], "left out: --quick is out of time");
        } else if (!run_bench(b, &results[i], time_left())) {
            failed = 1;
        }
        print_row(b, &results[i]);
    }
    if (count == 0) {
        fprintf(stderr, "bench: no bench is called \"%s\"\n", o.only);
        return 2;
    }
    if (o.json != NULL && !write_json(o.json, results, chosen)) {
        return 1;
    }
    return failed;
}
