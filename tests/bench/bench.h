/* bench.h - the harness of the benchmarks: clocks, passes, medians, results.

   Every bench is one function that fills a bench_result. It runs in a process
   of its own, so that the threads of one runtime (OpenMP, oneTBB, PoCL) never
   disturb the next bench. Inside a bench both sides take turns in passes:
   absolute figures drift by 15 % and more, only ratios from one run mean much.
*/
#ifndef BENCH_H
#define BENCH_H

#include "../../hcq.h"

#include <math.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_NONE ((double)NAN)            /* a number that is null in the JSON */

enum { BENCH_MAX_SIDES = 4, BENCH_MAX_PASSES = 32, BENCH_MAX_EXTRA = 24, BENCH_CHAIN = 1000 };

/* One side of a comparison. */
typedef struct bench_side {
    void (*run)(void *ctx, uint64_t n);   /* does n operations */
    void (*begin)(void *ctx);             /* before each pass, may be NULL: start threads */
    void (*end)(void *ctx);               /* after each pass, may be NULL */
    void *ctx;
    uint64_t max_n;                       /* operations in one sample at most [no limit] */
} bench_side;

/* Nanoseconds of one operation. */
typedef struct bench_stats {
    double median, mean, p99;
    double low, high;                     /* smallest and largest median of one pass */
    double pass[BENCH_MAX_PASSES];        /* median of each pass */
    uint32_t passes;
} bench_stats;

typedef struct bench_extra { char key[32]; double value; } bench_extra;

/* What a bench reports, in its unit; BENCH_NONE means null. */
typedef struct bench_result {
    double ours, peer, ratio;
    double pass_ratio;                    /* median of the ratios within each pass: where the
                                             machine's speed drifts, this one drifts least */
    bench_stats ours_stats, peer_stats;   /* printed where `latency` is set */
    int latency;
    double p99_goal;                      /* for ours, of a latency; BENCH_NONE = none */
    uint32_t extra_count;
    bench_extra extra[BENCH_MAX_EXTRA];   /* more keys for the JSON */
    char note[160];                       /* why a side is missing, which peer it was */
} bench_result;

typedef struct bench {
    const char *name, *unit;
    double goal;                          /* BENCH_NONE = none */
    void (*run)(bench_result *result);
} bench;

/* ---- harness, bench.c ---------------------------------------------------- */

int bench_quick(void);                    /* was --quick given? */
int bench_smoke(void);                    /* --smoke: only that it runs, figures mean nothing */
uint64_t bench_now(void);                 /* nanoseconds, monotonic */
void bench_sleep_ms(uint32_t ms);

/* Ends this bench's process as failed, with a line that says why. */
#if defined(__GNUC__)
__attribute__((noreturn, format(printf, 1, 2)))
#endif
void bench_die(const char *format, ...);
void bench_check(hcq_result result, const char *what);

/* Sorts `samples` in place. */
double bench_median(double *samples, uint32_t count);
double bench_percentile(double *samples, uint32_t count, double percent);

/* Measures `count` sides in turns. Throughput: a sample is a run of some
   milliseconds, divided by its operations. Latency: every operation is a
   sample, the clock's own cost taken off. */
void bench_throughput(const bench_side *sides, uint32_t count, bench_stats *stats);
void bench_latency(const bench_side *sides, uint32_t count, bench_stats *stats);

/* Makes the stats of passes that were measured by hand. */
void bench_stats_make(bench_stats *stats, const double *pass, uint32_t count);

/* Stores medians times `scale` (1e-6: ms) and their ratio; peer may be NULL. */
void bench_report(bench_result *result, const bench_stats *ours, const bench_stats *peer,
                  double scale);
void bench_extra_add(bench_result *result, const char *key, double value);
void bench_note(bench_result *result, const char *note);

/* ---- what the benches share, bench_queue.c ------------------------------- */

typedef struct bench_tiny_args { uint64_t counter; } bench_tiny_args;

/* Adds 1 to a counter in memory, so that a chain of them is dependent. */
void bench_tiny(const void *args, const hcq_block *block);

/* A default device with a bound queue of `count` tiny kernels. */
typedef struct bench_chain {
    hcq_device *device;
    hcq_program *program;
    hcq_buffer counter;                   /* one uint64_t */
    hcq_queue *queue;
} bench_chain;

void bench_chain_open(bench_chain *chain, uint32_t count);
void bench_chain_close(bench_chain *chain);
void bench_chain_replay(void *chain, uint64_t n); /* n times submit and wait */

/* The same chain in other runtimes. The maker returns NULL, and why in `note`,
   where the runtime is missing. */
void *bench_tbb_open(uint32_t count, uint64_t *counter);
void bench_tbb_replay(void *tbb, uint64_t n);
void bench_tbb_close(void *tbb);
void *bench_pocl_open(uint32_t count, char *note, size_t note_size);
int bench_pocl_has_buffer(void *pocl);
void bench_pocl_replay_buffer(void *pocl, uint64_t n);
void bench_pocl_replay_queue(void *pocl, uint64_t n);
uint64_t bench_pocl_counter(void *pocl);
void bench_pocl_close(void *pocl);

/* Two threads that wake each other by a futex: the least a sleeping round trip
   can do. Free it by free(). */
typedef struct bench_pingpong bench_pingpong;

bench_pingpong *bench_pingpong_new(void);
void bench_pingpong_begin(void *pingpong);
void bench_pingpong_roundtrip(void *pingpong, uint64_t n);
void bench_pingpong_end(void *pingpong);

/* ---- the benches --------------------------------------------------------- */

void bench_replay_1000(bench_result *result);
void bench_replay_1000_tbb(bench_result *result);
void bench_replay_1000_pocl(bench_result *result);
void bench_submit_call(bench_result *result);
void bench_roundtrip_spin(bench_result *result);
void bench_roundtrip_sleep(bench_result *result);
void bench_signal_set_no_waiter(bench_result *result);
void bench_wait_reached(bench_result *result);
void bench_submit_and_wait(bench_result *result);
void bench_wake_same_cpu(bench_result *result);
void bench_wake_same_cpu_lane(bench_result *result);
void bench_update_exec(bench_result *result);
void bench_record_exec(bench_result *result);
void bench_grid_saxpy_16m(bench_result *result);
void bench_grid_tiny_1m(bench_result *result);
void bench_grid_2_heavy(bench_result *result);
void bench_grid_uneven(bench_result *result);
void bench_busy_saxpy(bench_result *result);
void bench_busy_uneven(bench_result *result);
void bench_copy_256m(bench_result *result);
void bench_copyin_256m(bench_result *result);
void bench_parked_one_set(bench_result *result);
void bench_parked_many_sets(bench_result *result);
void bench_graph_replay_1000(bench_result *result);
void bench_graph_replay_1000_tbb(bench_result *result);
void bench_graph_patch_1_of_1000(bench_result *result);
void bench_graph_patch_100_of_1000(bench_result *result);
void bench_graph_input_1_of_1000(bench_result *result);
void bench_graph_replay_two_devices(bench_result *result);
void bench_graph_plan_1000(bench_result *result);
void bench_profile_off(bench_result *result);
void bench_profile_on(bench_result *result);
void bench_vulkan_replay_1000(bench_result *result);
void bench_vulkan_replay_1(bench_result *result);
void bench_vulkan_submit_call(bench_result *result);
void bench_vulkan_graph_1000_alternating(bench_result *result);
void bench_vulkan_patch_grid(bench_result *result);
void bench_vulkan_patch_arg(bench_result *result);
void bench_vulkan_record_dispatch(bench_result *result);
void bench_vulkan_copy_256m(bench_result *result);
void bench_cuda_replay_1000(bench_result *result);
void bench_cuda_replay_1(bench_result *result);
void bench_cuda_eager_exec(bench_result *result);
void bench_cuda_submit_one(bench_result *result);
void bench_cuda_signal_to_host(bench_result *result);
void bench_cuda_host_to_gpu(bench_result *result);
void bench_cuda_cross_stream_wait(bench_result *result);
void bench_cuda_patch_1_of_1000(bench_result *result);
void bench_cuda_copyin_1g(bench_result *result);
void bench_cuda_copyout_1g(bench_result *result);
void bench_cuda_copyin_pageable(bench_result *result);
void bench_cuda_copyout_pageable(bench_result *result);
void bench_cuda_fact_calls(bench_result *result);
void bench_cuda_fact_hops(bench_result *result);
void bench_cuda_fact_graphs(bench_result *result);
void bench_cuda_fact_streams(bench_result *result);
void bench_cuda_fact_timer(bench_result *result);
void bench_cuda_fact_wake(bench_result *result);
void bench_header_ms(bench_result *result);
void bench_stall_us(bench_result *result);

#ifdef __cplusplus
}
#endif

#endif /* BENCH_H */
