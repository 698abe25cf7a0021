/* bench_kernel.c - kernels written once (hcq_kernel.h) against the same by hand: loops of C
   on the CPU, shaders on Vulkan. An operation is a grid. On the CPU both sides are called
   for one block after the other, without a queue, by one thread; the row has the figures
   of the compiler that does worst. On Vulkan both replay a bound queue of some grids. */

#include "bench_kernel.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 18, NUMBERS = BYTES / 4, WIDTH = 512, ROWS = 512, SIDE = 128, GRIDS = 4 };

/* A grid. */
typedef struct task {
    union { saxpy_args saxpy; blur_args blur; matmul_args matmul; reduce_args reduce; } args;
    size_t size;
    hcq_dims grid, block;
    hcq_cpu_fn fn;
} task;

static task task_of(uint32_t kernel, uint64_t dst, uint64_t a, uint64_t b) {
    task t = {.grid = hcq_dim(NUMBERS / 1024, 1, 1), .block = hcq_dim(1024, 1, 1)};
    switch (kernel) {
    case KERNEL_SAXPY:
        t.args.saxpy = (saxpy_args){dst, a, 0.25f, NUMBERS};
        t.size = sizeof t.args.saxpy;
        break;
    case KERNEL_BLUR:
        t.args.blur = (blur_args){dst, a, WIDTH, ROWS};
        t.size = sizeof t.args.blur;
        t.block = hcq_dim(64, 8, 1);
        t.grid = hcq_dim(WIDTH / 64, ROWS / 8, 1);
        break;
    case KERNEL_MATMUL:
        t.args.matmul = (matmul_args){dst, a, b, SIDE};
        t.size = sizeof t.args.matmul;
        t.block = hcq_dim(16, 16, 1);
        t.grid = hcq_dim(SIDE / 16, SIDE / 16, 1);
        break;
    default:
        t.args.reduce = (reduce_args){dst, a, NUMBERS};
        t.grid = hcq_dim(NUMBERS / 4096, 1, 1);
        t.block = hcq_dim(256, 1, 1);
        t.size = sizeof t.args.reduce;
    }
    return t;
}

/* Small numbers, any way they are read. */
static void fill(void *to, uint32_t first) {
    for (uint32_t i = 0; i < NUMBERS; i++) {
        ((float *)to)[i] = (float)((i * 2654435761u >> 20) + first) / 4096.0f;
    }
}

/* ---- the CPU ------------------------------------------------------------- */

static void run_blocks(const task *t) {
    hcq_block b = {{0, 0, 0}, t->grid, t->block, NULL};
    for (; b.id.y < t->grid.y; b.id.y++) {
        for (b.id.x = 0; b.id.x < t->grid.x; b.id.x++) {
            t->fn(&t->args, &b);
        }
    }
}

/* The least of many: of two programs that do the same the faster one is so at its best. */
static double best(const task *t) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t start = bench_now();
        run_blocks(t);
        uint64_t ns = bench_now() - start;
        least = ns < least ? ns : least;
    }
    return (double)least;
}

static double best_ours(void *tasks) { return best((const task *)tasks); }
static double best_peer(void *tasks) { return best((const task *)tasks + 1); }

static void kernel_row(bench_result *result) {
    static const char *const names[] = {"gcc -O3", "gcc -O2 -ftree-vectorize", "clang -O2"};
    static const char *const keys[] = {"gcc_O3", "gcc_O2", "clang_O2"};
    static double (*const passes[2])(void *) = {best_ours, best_peer};
    const bench_kernel *const tables[] = {bench_loops_gcc3, bench_loops_gcc2, bench_loops_clang};
    bench_stats stats[2], worst[2];
    double most = 0;
    void *memory[4];
    for (uint32_t i = 0; i < 4; i++) {
        memory[i] = bench_alloc(BYTES, 4096);
    }
    fill(memory[2], 1);
    fill(memory[3], 2);
    bench_note(result, "no gcc, no clang");
    for (uint32_t i = 0; i < 3; i++) {
        task tasks[2];
        for (uint32_t side = 0; side < 2; side++) {
            tasks[side] = task_of(result->number, (uintptr_t)memory[side], (uintptr_t)memory[2],
                                  (uintptr_t)memory[3]);
        }
        if (tables[i] == NULL) { continue; }
        tasks[0].fn = tables[i][result->number].ours;
        tasks[1].fn = tables[i][result->number].peer;
        memset(memory[0], 0, BYTES);
        memset(memory[1], 0, BYTES);
        run_blocks(&tasks[0]);
        run_blocks(&tasks[1]);
        if (memcmp(memory[0], memory[1], BYTES) != 0) {
            bench_die("kernel %u of %s: another result", (unsigned)result->number, names[i]);
        }
        bench_passes(passes, 2, tasks, bench_of(2, 9, 25), stats);
        double ratio = stats[0].median / stats[1].median;
        bench_extra_add(result, keys[i], ratio);
        if (ratio > most) {
            most = ratio;
            memcpy(worst, stats, sizeof worst);
            bench_note(result, names[i]);
        }
    }
    if (most > 0) {
        bench_report(result, &worst[0], &worst[1], 1e-3);
    }
    for (uint32_t i = 0; i < 4; i++) {
        free(memory[i]);
    }
}

/* ---- Vulkan -------------------------------------------------------------- */

#ifdef BENCH_VULKAN
#include "bench_vulkan_spirv.h"
#include "kernels.k.h"

static void shader_row(bench_result *result) {
    static const struct { const uint32_t *words; size_t size; } hand[KERNELS] = {
        {spirv_saxpy, sizeof spirv_saxpy}, {spirv_blur, sizeof spirv_blur},
        {spirv_matmul, sizeof spirv_matmul}, {spirv_reduce, sizeof spirv_reduce}};
    const hcq_program_desc once[KERNELS] = {HCQ_PROGRAM(saxpy), HCQ_PROGRAM(blur),
                                            HCQ_PROGRAM(matmul), HCQ_PROGRAM(reduce)};
    bench_chain chains[2];
    hcq_buffer dst[2], a, b;
    bench_place_threads(BENCH_FIRST);
    hcq_device *device = bench_open("VULKAN", (hcq_device_desc){0}, result);
    if (device == NULL) {
        return;
    }
    a = bench_buffer(device, BYTES);
    b = bench_buffer(device, BYTES);
    fill(a.host, 1);
    fill(b.host, 2);
    for (uint32_t side = 0; side < 2; side++) {
        hcq_program_desc desc = once[result->number];
        bench_chain *c = &chains[side];
        if (side == 1) {
            desc.spirv.data = hand[result->number].words;
            desc.spirv.size = hand[result->number].size;
        }
        c->device = device;
        CHECK(hcq_program_create(device, &desc, &c->program));
        c->queue = bench_queue(device, HCQ_COMPUTE);
        dst[side] = bench_buffer(device, BYTES);
        task t = task_of(result->number, dst[side].address, a.address, b.address);
        for (uint32_t i = 0; i < GRIDS; i++) {
            CHECK(hcq_queue_exec(c->queue, c->program, &t.args, t.size, t.grid, t.block));
        }
        CHECK(hcq_queue_bind(c->queue, device));
        bench_chain_replay(c, 1);
    }
    if (memcmp(dst[0].host, dst[1].host, BYTES) != 0) {
        bench_die("shader %u: another result", (unsigned)result->number);
    }
    bench_side sides[2] = {{bench_chain_replay, &chains[0]}, {bench_chain_replay, &chains[1]}};
    bench_compare(result, sides, 2, 1e-3 / GRIDS);
    CHECK(hcq_close(device));
}
#endif

const bench bench_kernel_rows[] = {
    {"kernel.saxpy", "us/grid", 1.02, kernel_row, KERNEL_SAXPY},
    {"kernel.blur", "us/grid", 1.02, kernel_row, KERNEL_BLUR},
    {"kernel.matmul", "us/grid", 1.02, kernel_row, KERNEL_MATMUL},
    {"kernel.reduce", "us/grid", 1.02, kernel_row, KERNEL_REDUCE},
#ifdef BENCH_VULKAN
    {"kernel.vulkan_saxpy", "us/grid", 1.02, shader_row, KERNEL_SAXPY},
    {"kernel.vulkan_blur", "us/grid", 1.02, shader_row, KERNEL_BLUR},
    {"kernel.vulkan_matmul", "us/grid", 1.02, shader_row, KERNEL_MATMUL},
    {"kernel.vulkan_reduce", "us/grid", 1.02, shader_row, KERNEL_REDUCE},
#endif
    {0}};
