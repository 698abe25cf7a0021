/* bench_grid.c - one grid over all processors, against OpenMP.

   Both sides call the same kernel through a function pointer for the same
   blocks. One measured operation is GRIDS grids: GRIDS execs in one recording,
   or as many parallel-for loops in a row, each of which ends with a barrier.
   So each side wakes its threads about once an operation and pays its hand-out
   and its barrier on every grid. The peer is the better of schedule(static)
   and schedule(dynamic).
*/

#include "bench_kernel.h"

#include <stdatomic.h>
#include <string.h>

enum { GRIDS = 8 };

typedef saxpy_args grid_args;          /* of them all */

/* ---- kernels ------------------------------------------------------------- */

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

/* What a bench runs: `blocks` blocks of `threads`, on two buffers of `bytes`. */
typedef struct shape {
    hcq_cpu_fn fn;
    uint32_t blocks, threads, n;
    uint64_t bytes;
} shape;

/* Of a row, by its number; --smoke runs a part. */
static shape shape_of(uint32_t number) {
    const uint32_t part = bench_of(16, 1, 1), many = (16u << 20) / part, few = (1u << 20) / part;
    const shape shapes[] = {
        {saxpy_cpu, many / 256, 256, many, many * 4ull},
        {kernel_tiny, few, 1, few, few * 4ull},
        {kernel_heavy, 2, 1, 800000 / part, 4096}, /* two blocks of about a millisecond */
        {kernel_uneven, 1024 / part, 1, 8, 4096},  /* 5 ms of one processor */
        {saxpy_cpu, few / 256, 256, few, few * 4ull} /* half a millisecond */
    };
    return shapes[number];
}

/* ---- both sides ---------------------------------------------------------- */

typedef struct grid {
    bench_chain on;
    shape shape;
    uint32_t grids;                       /* in one operation */
    grid_args args;
    void *out;
} grid;

static void grid_open(grid *g, uint32_t number, uint32_t grids) {
    const shape s = shape_of(number);
    hcq_program_desc desc = {.label = "grid", .cpu = s.fn,
                             .args = {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_F32, HCQ_ARG_U32}};
    hcq_buffer buffers[2];
    CHECK(hcq_open("CPU", NULL, &g->on.device));
    for (uint32_t i = 0; i < 2; i++) {
        buffers[i] = bench_buffer(g->on.device, s.bytes);
        memset(buffers[i].host, 0, s.bytes); /* first touch, long before any timing */
    }
    g->shape = s;
    g->grids = grids;
    g->args = (grid_args){buffers[0].address, buffers[1].address, 0.5f, s.n};
    g->out = buffers[0].host;
    CHECK(hcq_program_create(g->on.device, &desc, &g->on.program));
    g->on.queue = bench_queue(g->on.device, HCQ_COMPUTE);
    for (uint32_t i = 0; i < grids; i++) {
        hcq_queue_exec(g->on.queue, g->on.program, &g->args, sizeof g->args,
                       hcq_dim(s.blocks, 1, 1), hcq_dim(s.threads, 1, 1));
    }
    CHECK(hcq_queue_bind(g->on.queue, g->on.device));
}

/* Without OpenMP these are loops, and no peers. */
#ifdef _OPENMP
#define PARALLEL_FOR(how) _Pragma(#how)
static const uint32_t g_peers = 2;
#else
#define PARALLEL_FOR(how)
static const uint32_t g_peers = 0;
#endif

#define OPENMP(name, how)                                                              \
    static void name(void *ctx, uint64_t n) {                                          \
        const grid *g = (const grid *)ctx;                                             \
        const hcq_dims size = hcq_dim(g->shape.blocks, 1, 1);                          \
        const hcq_dims threads = hcq_dim(g->shape.threads, 1, 1);                      \
        for (uint64_t i = 0; i < n * g->grids; i++) {                                  \
            PARALLEL_FOR(how) for (uint32_t b = 0; b < g->shape.blocks; b++) {         \
                hcq_block block = {{b, 0, 0}, size, threads, NULL};                    \
                g->shape.fn(&g->args, &block);                                         \
            }                                                                          \
        }                                                                              \
    }
OPENMP(openmp_static, omp parallel for schedule(static))
OPENMP(openmp_dynamic, omp parallel for schedule(dynamic))

static uint64_t run_time(void (*run)(void *, uint64_t), grid *g) {
    run(g, 1);
    uint64_t start = bench_now();
    run(g, 1);
    return bench_now() - start;
}

/* The better of the peers is the peer. */
static void report_best(bench_result *result, const bench_stats *ours, const bench_stats *fixed,
                        const bench_stats *dynamic, double scale) {
    int best = dynamic != NULL && (fixed == NULL || dynamic->median < fixed->median);
    bench_report(result, ours, best ? dynamic : fixed, scale);
    bench_note(result, best ? "OpenMP dynamic" : fixed != NULL ? "OpenMP static" : "no OpenMP");
}

/* A schedule that is off by a factor of two at the first look (a million tiny
   blocks handed out one by one: by a hundred) takes no part in the passes. */
static void grid_measure(grid *g, bench_result *result) {
    const double ms = 1e-6 / GRIDS;
    bench_side sides[3] = {{bench_chain_replay, g}, {openmp_static, g}, {openmp_dynamic, g}};
    bench_stats stats[3];
    uint64_t fixed = g_peers ? run_time(openmp_static, g) : 0;
    uint64_t dynamic = g_peers ? run_time(openmp_dynamic, g) : 0;
    uint32_t statics = g_peers && fixed <= 2 * dynamic, dynamics = g_peers && dynamic <= 2 * fixed;
    sides[1] = sides[statics ? 1 : 2];
    bench_throughput(sides, 1 + statics + dynamics, stats);
    report_best(result, &stats[0], statics ? &stats[1] : NULL,
                dynamics ? &stats[1 + statics] : NULL, ms);
}

/* ---- the benches --------------------------------------------------------- */

static void grid_row(bench_result *result) {
    grid g;
    grid_open(&g, result->number, GRIDS);
    bench_chain_replay(&g, 1);
    for (uint32_t i = 0; g.shape.fn == kernel_tiny && i < g.shape.n; i++) {
        if (((const uint32_t *)g.out)[i] != i * 2654435761u) {
            bench_die("grid_tiny_1m: block %u did not run", (unsigned)i);
        }
    }
    grid_measure(&g, result);
    bench_chain_close(&g.on);
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

static double busy_pass(grid *g, void (*run)(void *, uint64_t)) {
    uint32_t count = g->shape.fn == saxpy_cpu ? 60 : 8;
    run(g, 1);
    uint64_t start = bench_now();
    run(g, count);
    return (double)(bench_now() - start) / count;
}

static double busy_ours(void *ctx) { return busy_pass((grid *)ctx, bench_chain_replay); }
static double busy_static(void *ctx) { return busy_pass((grid *)ctx, openmp_static); }
static double busy_dynamic(void *ctx) { return busy_pass((grid *)ctx, openmp_dynamic); }

static void busy(bench_result *result) {
    static double (*const passes[3])(void *) = {busy_ours, busy_static, busy_dynamic};
    pthread_t hogs[64];
    bench_stats stats[3];
    grid g;
    uint32_t count = HOGS * hcq_sys_cpu_count();
    count = count < 64 ? count : 64;
    grid_open(&g, result->number, 1);
    for (uint32_t i = 0; i < count; i++) {
        bench_thread(&hogs[i], hog_thread, NULL);
    }
    bench_passes(passes, 1 + g_peers, &g, bench_of(1, 7, 15), stats);
    g_hogs_stop = 1;
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(hogs[i], NULL);
    }
    report_best(result, &stats[0], g_peers ? &stats[1] : NULL, g_peers ? &stats[2] : NULL, 1e-6);
    bench_chain_close(&g.on);
}

const bench bench_grid_rows[] = {
    {"cpu.grid_saxpy_16m", "ms/grid", 1.05, grid_row, 0},
    {"cpu.grid_tiny_1m", "ms/grid", 1.05, grid_row, 1},
    {"cpu.grid_2_heavy", "ms/grid", 1.05, grid_row, 2},
    {"cpu.grid_uneven", "ms/grid", 1.05, grid_row, 3},
    {"cpu.busy_saxpy", "ms/grid", 1.25, busy, 4},
    {"cpu.busy_uneven", "ms/grid", 1.25, busy, 3},
    {0}};
