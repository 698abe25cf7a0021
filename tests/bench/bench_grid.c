/* bench_grid.c - one grid over all processors, against OpenMP.

   Both sides call the same kernel through a function pointer for the same
   blocks. One measured operation is GRIDS grids: GRIDS execs in one recording,
   or as many parallel-for loops in a row, each of which ends with a barrier.
   So each side wakes its threads about once an operation and pays its hand-out
   and its barrier on every grid. The peer is the better of schedule(static)
   and schedule(dynamic).
*/

#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRIDS = 8, MAX_BUFFERS = 2 };

typedef struct grid_args { uint64_t y, x; float a; uint32_t n; } grid_args;

/* ---- kernels ------------------------------------------------------------- */

static void kernel_saxpy(const void *args, const hcq_block *b) {
    const grid_args *k = HCQ_ARGS(grid_args, args);
    float *y = HCQ_PTR(float, k->y);
    const float *x = HCQ_PTR(float, k->x);
    uint32_t first = b->id.x * b->block.x;
    for (uint32_t t = 0; t < b->block.x; t++) {
        uint32_t i = first + t;
        if (i < k->n) {
            y[i] += k->a * x[i];
        }
    }
}

static void kernel_tiny(const void *args, const hcq_block *b) {
    const grid_args *k = HCQ_ARGS(grid_args, args);
    HCQ_PTR(uint32_t, k->y)[b->id.x] = b->id.x * 2654435761u;
}

/* `steps` dependent steps of xorshift: time that no memory system can change. */
static void churn(uint32_t *out, uint32_t seed, uint32_t steps) {
    uint32_t s = seed | 1u;
    for (uint32_t i = 0; i < steps; i++) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
    }
    *out = s;
}

static void kernel_heavy(const void *args, const hcq_block *b) {
    const grid_args *k = HCQ_ARGS(grid_args, args);
    churn(HCQ_PTR(uint32_t, k->y) + 64 * b->id.x, b->id.x, k->n);
}

/* Block i costs i + 1 units: a static split in halves is off by half. */
static void kernel_uneven(const void *args, const hcq_block *b) {
    const grid_args *k = HCQ_ARGS(grid_args, args);
    churn(HCQ_PTR(uint32_t, k->y) + b->id.x, b->id.x, k->n * (b->id.x + 1));
}

/* ---- both sides ---------------------------------------------------------- */

typedef struct grid {
    hcq_cpu_fn fn;
    uint32_t blocks, threads, grids;      /* `grids` in one operation */
    grid_args args;
    hcq_device *device;
    hcq_program *program;
    hcq_queue *queue;
    hcq_buffer buffers[MAX_BUFFERS];
} grid;

static void grid_open(grid *g, hcq_cpu_fn fn, uint32_t blocks, uint32_t threads, uint32_t n,
                      uint64_t bytes, uint32_t grids) {
    memset(g, 0, sizeof *g);
    g->grids = grids;
    g->fn = fn;
    g->blocks = blocks;
    g->threads = threads;
    hcq_program_desc desc = {"grid", fn, {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_F32, HCQ_ARG_U32},
                             NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    bench_check(hcq_open("CPU", NULL, &g->device), "hcq_open");
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        bench_check(hcq_alloc(g->device, bytes, HCQ_HOST_VISIBLE, &g->buffers[i]), "hcq_alloc");
        memset(g->buffers[i].host, 0, bytes); /* first touch, long before any timing */
    }
    g->args.y = g->buffers[0].address;
    g->args.x = g->buffers[1].address;
    g->args.a = 0.5f;
    g->args.n = n;
    bench_check(hcq_program_create(g->device, &desc, &g->program), "hcq_program_create");
    bench_check(hcq_queue_create(g->device, HCQ_COMPUTE, &g->queue), "hcq_queue_create");
    for (uint32_t i = 0; i < grids; i++) {
        hcq_queue_exec(g->queue, g->program, &g->args, sizeof g->args, hcq_dim(blocks, 1, 1),
                       hcq_dim(threads, 1, 1));
    }
    bench_check(hcq_queue_bind(g->queue, g->device), "hcq_queue_bind");
}

static void grid_close(grid *g) {
    hcq_queue_destroy(g->queue);
    hcq_program_destroy(g->program);
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        bench_check(hcq_free(g->buffers[i]), "hcq_free");
    }
    bench_check(hcq_close(g->device), "hcq_close");
}

static void grid_run(void *ctx, uint64_t n) {
    grid *g = (grid *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        hcq_point done;
        bench_check(hcq_queue_submit(g->queue, g->device, &done), "hcq_queue_submit");
        bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
}

#ifdef _OPENMP
static void openmp_static(void *ctx, uint64_t n) {
    const grid *g = (const grid *)ctx;
    const hcq_dims size = hcq_dim(g->blocks, 1, 1);
    const hcq_dims threads = hcq_dim(g->threads, 1, 1);
    for (uint64_t i = 0; i < n * g->grids; i++) {
#pragma omp parallel for schedule(static)
        for (uint32_t b = 0; b < g->blocks; b++) {
            hcq_block block = {{b, 0, 0}, size, threads};
            g->fn(&g->args, &block);
        }
    }
}

static void openmp_dynamic(void *ctx, uint64_t n) {
    const grid *g = (const grid *)ctx;
    const hcq_dims size = hcq_dim(g->blocks, 1, 1);
    const hcq_dims threads = hcq_dim(g->threads, 1, 1);
    for (uint64_t i = 0; i < n * g->grids; i++) {
#pragma omp parallel for schedule(dynamic)
        for (uint32_t b = 0; b < g->blocks; b++) {
            hcq_block block = {{b, 0, 0}, size, threads};
            g->fn(&g->args, &block);
        }
    }
}
#endif

#ifdef _OPENMP
static uint64_t run_time(void (*run)(void *, uint64_t), grid *g) {
    run(g, 1);
    uint64_t start = bench_now();
    run(g, 1);
    return bench_now() - start;
}

/* A schedule that is off by a factor of two at the first look (a million tiny
   blocks handed out one by one: by a hundred) takes no part in the passes. */
static void grid_measure(grid *g, bench_result *result) {
    const double ms = 1e-6 / GRIDS;
    bench_stats stats[3];
    uint64_t fixed = run_time(openmp_static, g);
    uint64_t dynamic = run_time(openmp_dynamic, g);
    bench_side sides[3] = {{grid_run, NULL, NULL, g, 0},
                           {openmp_static, NULL, NULL, g, 0},
                           {openmp_dynamic, NULL, NULL, g, 0}};
    uint32_t best = dynamic < fixed ? 2 : 1;
    if (fixed > 2 * dynamic || dynamic > 2 * fixed) {
        sides[1] = sides[best];
        bench_throughput(sides, 2, stats);
        bench_report(result, &stats[0], &stats[1], ms);
    } else {
        bench_throughput(sides, 3, stats);
        best = stats[2].median < stats[1].median ? 2 : 1;
        bench_report(result, &stats[0], &stats[best], ms);
        bench_extra_add(result, "openmp_static_ms", stats[1].median * ms);
        bench_extra_add(result, "openmp_dynamic_ms", stats[2].median * ms);
    }
    bench_note(result, best == 2 ? "OpenMP dynamic" : "OpenMP static");
}
#else
static void grid_measure(grid *g, bench_result *result) {
    bench_stats stats;
    bench_side side = {grid_run, NULL, NULL, g, 0};
    bench_throughput(&side, 1, &stats);
    bench_report(result, &stats, NULL, 1e-6 / GRIDS);
    bench_note(result, "no OpenMP");
}
#endif

/* ---- the benches --------------------------------------------------------- */

void bench_grid_saxpy_16m(bench_result *result) {
    enum { N = 16u << 20 };
    grid g;
    grid_open(&g, kernel_saxpy, N / 256, 256, N, (uint64_t)N * sizeof(float), GRIDS);
    grid_measure(&g, result);
    grid_close(&g);
}

void bench_grid_tiny_1m(bench_result *result) {
    enum { N = 1u << 20 };
    grid g;
    grid_open(&g, kernel_tiny, N, 1, N, (uint64_t)N * sizeof(uint32_t), GRIDS);
    grid_run(&g, 1);
    const uint32_t *out = (const uint32_t *)g.buffers[0].host;
    for (uint32_t i = 0; i < N; i++) {
        if (out[i] != i * 2654435761u) {
            bench_die("grid_tiny_1m: block %u did not run", (unsigned)i);
        }
    }
    grid_measure(&g, result);
    grid_close(&g);
}

/* Two blocks of about a millisecond. */
void bench_grid_2_heavy(bench_result *result) {
    grid g;
    grid_open(&g, kernel_heavy, 2, 1, 800000, 4096, GRIDS);
    grid_measure(&g, result);
    grid_close(&g);
}

/* 1024 blocks, about 5 ms of one processor. */
void bench_grid_uneven(bench_result *result) {
    grid g;
    grid_open(&g, kernel_uneven, 1024, 1, 8, 4096, GRIDS);
    grid_measure(&g, result);
    grid_close(&g);
}

/* ---- where others want the processors, too ------------------------------- */
/* Four threads for each processor do nothing but run. A thread that gives up
   its turn there gets the next one many milliseconds later; OpenMP waits
   asleep (OMP_WAIT_POLICY=passive). An operation is one grid, as a pause between
   grids is where turns are lost; a pass is some of them in one go. */

enum { HOGS = 4 };                        /* for each processor */

static _Atomic int g_hogs_stop;

static void *hog_thread(void *unused) {
    while (!g_hogs_stop) {
    }
    return unused;
}

static double busy_pass(void (*run)(void *, uint64_t), grid *g, uint32_t operations) {
    run(g, 1);
    uint64_t start = bench_now();
    run(g, operations);
    return (double)(bench_now() - start) / operations;
}

static void busy_passes(grid *g, uint32_t operations, bench_result *result) {
    double pass[3][BENCH_MAX_PASSES];
    bench_stats stats[3];
    uint32_t passes = bench_smoke() ? 1 : bench_quick() ? 7 : 15, best = 0;
    for (uint32_t p = 0; p < passes; p++) {
        pass[0][p] = busy_pass(grid_run, g, operations);
#ifdef _OPENMP
        pass[1][p] = busy_pass(openmp_static, g, operations);
        pass[2][p] = busy_pass(openmp_dynamic, g, operations);
#endif
    }
    bench_stats_make(&stats[0], pass[0], passes);
#ifdef _OPENMP
    bench_stats_make(&stats[1], pass[1], passes);
    bench_stats_make(&stats[2], pass[2], passes);
    best = stats[2].median < stats[1].median ? 2 : 1;
#endif
    bench_report(result, &stats[0], best == 0 ? NULL : &stats[best], 1e-6);
    bench_note(result, best == 0 ? "no OpenMP" : best == 2 ? "OpenMP dynamic" : "OpenMP static");
}

static void busy_measure(grid *g, uint32_t operations, bench_result *result) {
    pthread_t hogs[64];
    uint32_t count = HOGS * hcq_sys_cpu_count();
    count = count < 64 ? count : 64;
    for (uint32_t i = 0; i < count; i++) {
        if (pthread_create(&hogs[i], NULL, hog_thread, NULL) != 0) {
            bench_die("pthread_create");
        }
    }
    busy_passes(g, operations, result);
    g_hogs_stop = 1;
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(hogs[i], NULL);
    }
}

/* Half a millisecond where nobody else is. */
void bench_busy_saxpy(bench_result *result) {
    enum { N = 1u << 20 };
    grid g;
    grid_open(&g, kernel_saxpy, N / 256, 256, N, (uint64_t)N * sizeof(float), 1);
    busy_measure(&g, 20, result);
    grid_close(&g);
}

/* Two and a half. */
void bench_busy_uneven(bench_result *result) {
    grid g;
    grid_open(&g, kernel_uneven, 1024, 1, 8, 4096, 1);
    busy_measure(&g, 8, result);
    grid_close(&g);
}
