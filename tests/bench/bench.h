/* bench.h - the harness of the benchmarks: clocks, passes, medians, results.

   Every bench is one function that fills a bench_result. It runs in a process
   of its own, so that the threads of one runtime (OpenMP, oneTBB, PoCL) never
   disturb the next bench. Inside a bench both sides take turns in passes:
   absolute figures drift by 15 % and more, only ratios from one run mean much.
*/
#pragma once

#include "../../hcq.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_NONE ((double)NAN)          /* a number that is null in the JSON */

enum { BENCH_MAX_SIDES = 3, BENCH_MAX_PASSES = 32, BENCH_MAX_EXTRA = 40, BENCH_CHAIN = 1000 };

/* One side of a comparison. */
typedef struct bench_side {
    void (*run)(void *ctx, uint64_t n);   /* does n operations */
    void *ctx;
    void (*begin)(void *ctx);             /* before each pass, may be NULL: start threads */
    void (*end)(void *ctx);               /* after each pass, may be NULL */
    double (*sample)(void *ctx);          /* in place of run: does one, returns its ns */
} bench_side;

/* Makes such a run of what one operation does with its context. */
#define BENCH_RUN(name, type, c)                                                   \
    static inline void name##_once(type *c);                                       \
    static void name(void *ctx, uint64_t n) {                                      \
        for (uint64_t i = 0; i < n; i++) {                                         \
            name##_once((type *)ctx);                                              \
        }                                                                          \
    }                                                                              \
    static inline void name##_once(type *c)

/* Nanoseconds of one operation. */
typedef struct bench_stats {
    double median, mean, p99;             /* passes made by hand have only the first */
    double pass[BENCH_MAX_PASSES];        /* median of each pass */
    uint32_t passes;
} bench_stats;

typedef struct bench_extra { char key[32]; double value; } bench_extra;

/* What a bench reports, in its unit; BENCH_NONE means null. */
typedef struct bench_result {
    double ours, peer, ratio;
    double p99, p99_goal;                 /* of ours, where the goal is not BENCH_NONE */
    uint32_t number;                      /* that of the bench */
    uint32_t extra_count;
    bench_extra extra[BENCH_MAX_EXTRA];   /* more keys for the JSON */
    char note[160];                       /* why a side is missing, which peer it was */
} bench_result;

typedef struct bench {
    const char *name, *unit;
    double goal;                          /* BENCH_NONE = none */
    void (*run)(bench_result *result);
    uint32_t number;                      /* for `run`, where several benches share it */
} bench;

/* The rows of each file; the last has no name. */
extern const bench bench_queue_rows[], bench_signal_rows[], bench_grid_rows[], bench_copy_rows[],
    bench_parked_rows[], bench_pocl_rows[], bench_stall_rows[], bench_graph_rows[],
    bench_vulkan_rows[], bench_header_rows[], bench_cuda_rows[], bench_kernel_rows[],
    bench_check_rows[];

/* ---- harness, bench.c ---------------------------------------------------- */

int bench_smoke(void);                    /* --smoke: only that it runs, figures mean nothing */
uint32_t bench_of(uint32_t smoke, uint32_t quick, uint32_t full); /* as the program was called */
uint64_t bench_now(void);                 /* nanoseconds, monotonic */
void bench_sleep_ms(uint32_t ms);

/* Ends this bench's process as failed, with a line that says why. */
#if defined(__GNUC__)
__attribute__((noreturn, format(printf, 1, 2)))
#endif
void bench_die(const char *format, ...);
void bench_check(int result, const char *what); /* of hcq; an index is good, too */
#define CHECK(call) bench_check((int)(call), #call)

void bench_counter(uint64_t value, uint64_t expected, const char *name); /* dies if they differ */

void *bench_alloc(size_t size, size_t align); /* zeroed; free() */
void bench_thread(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

/* ---- hcq, with results checked ------------------------------------------- */

hcq_buffer bench_buffer(hcq_device *device, uint64_t size); /* zeroed, for the host, too */
hcq_queue *bench_queue(hcq_device *device, hcq_queue_kind kind);
/* One thread. */
uint32_t bench_exec(hcq_queue *queue, hcq_program *program, const void *args, uint32_t size);
void bench_submit_and_wait(hcq_queue *queue, hcq_device *device);
/* NULL: there is none, and the note says why. */
hcq_device *bench_open(const char *name, hcq_device_desc desc, bench_result *result);

/* ---- threads and statistics ---------------------------------------------- */

/* Where threads run, and those that they start. */
typedef enum bench_place {
    BENCH_ANYWHERE,                       /* this one may go everywhere again */
    BENCH_FIRST,                          /* this one stays on the first processor */
    BENCH_TOGETHER,                       /* so do all of this process */
    BENCH_APART                           /* this one stays there, all others on the rest */
} bench_place;
void bench_place_threads(bench_place place);

/* Sorts `samples` in place. */
double bench_median(double *samples, uint32_t count);
double bench_percentile(double *samples, uint32_t count, double percent);

/* Measures `count` sides in turns. Throughput: a sample is a run of some milliseconds,
   divided by its operations; 100 samples in each pass of a side that has `sample`.
   Passes: sides that time themselves. */
void bench_throughput(const bench_side *sides, uint32_t count, bench_stats *stats);
void bench_passes(double (*const *pass)(void *ctx), uint32_t count, void *ctx, uint32_t passes,
                  bench_stats *stats);

/* Makes the stats of passes that were measured by hand. */
void bench_stats_make(bench_stats *stats, const double *pass, uint32_t count);

/* Stores medians times `scale` (1e-6: ms) and their ratio; peer may be NULL. Returns the
   median of the ratios within each pass: where the machine's speed drifts, this one drifts
   least. */
double bench_report(bench_result *result, const bench_stats *ours, const bench_stats *peer,
                    double scale);
void bench_extra_add(bench_result *result, const char *key, double value);
void bench_note(bench_result *result, const char *note);

/* Measured and reported, the second side as the peer. Latency: every operation is a
   sample, the clock's own cost taken off; means and p99 as well. Returns the stats, good until
   the next call. */
const bench_stats *bench_compare(bench_result *result, const bench_side *sides, uint32_t count,
                                 double scale);
void bench_compare_latency(bench_result *result, const bench_side sides[2]);

/* ---- what the benches share, bench_queue.c ------------------------------- */

typedef struct bench_tiny_args { uint64_t counter; } bench_tiny_args;

/* Adds 1 to a counter in memory, so that a chain of them is dependent. */
void bench_tiny(const void *args, const hcq_block *block);

/* A device with a bound queue; begins the struct of a bench that has more. */
typedef struct bench_chain {
    hcq_device *device;
    hcq_queue *queue;
    hcq_program *program;                 /* of these two tiny kernels only: */
    hcq_buffer counter;                   /* one uint64_t */
} bench_chain;

hcq_program *bench_program(hcq_device *device, const char *label, hcq_cpu_fn fn, uint32_t second);
void bench_chain_open(bench_chain *chain, uint32_t count); /* so many tiny kernels */
void bench_chain_close(bench_chain *chain);
void bench_chain_replay(void *chain, uint64_t n); /* n times submit and wait */

/* The same tiny kernels as a loop of indirect calls; free(). */
typedef struct bench_node { hcq_cpu_fn fn; const void *args; } bench_node;
typedef struct bench_loop {
    bench_node nodes[BENCH_CHAIN];
    bench_tiny_args args[BENCH_CHAIN];    /* blocks as large as a recording's */
    uint64_t counter;
} bench_loop;

bench_loop *bench_loop_new(void);
void bench_loop_run(void *nodes, uint64_t n);

/* The same chain in oneTBB, bench_tbb.cpp: a throughput row of `ours` against it. What it
   starts is there before `open_ours`, which may be NULL, is called. */
void *bench_tbb_open(uint32_t count, uint64_t *counter);
void bench_tbb_replay(void *tbb, uint64_t n);
void bench_tbb_close(void *tbb);
void bench_compare_tbb(bench_result *result, bench_side ours, void (*open_ours)(void *ctx));

/* A thread that runs what it is given, asleep in between: two words, four calls of futex,
   the least that a sleeping round trip can do. free() the side's context. */
bench_side bench_pingpong(void);

#ifdef __cplusplus
}
#endif
