/* bench_copy.c - 256 MiB through the copy lane and by hcq_copyin, against
   memcpy between the same bytes: pages, alignment and huge pages are the same
   for both sides. All memory is touched long before. */

#include "bench.h"

#include <stdlib.h>
#include <string.h>

static uint64_t g_bytes;

typedef struct copies {
    bench_chain lane;
    hcq_buffer dst;
    void *src;
} copies;

BENCH_RUN(copyin, const copies, c) {
    CHECK(hcq_copyin(c->dst, c->src, g_bytes));
}

BENCH_RUN(memcpy_run, const copies, c) {
    memcpy(c->dst.host, c->src, g_bytes);
    __asm__ __volatile__("" ::: "memory");
}

static void copy_row(bench_result *result) {
    void (*run)(void *, uint64_t) = result->number != 0 ? bench_chain_replay : copyin;
    copies c = {0};
    g_bytes = (uint64_t)bench_of(16, 256, 256) << 20;
    CHECK(hcq_open("CPU", NULL, &c.lane.device));
    c.dst = bench_buffer(c.lane.device, g_bytes);
    memset(c.dst.host, 1, g_bytes);
    hcq_buffer src = {0};
    if (result->number != 0) {
        src = bench_buffer(c.lane.device, g_bytes);
        c.lane.queue = bench_queue(c.lane.device, HCQ_COPY);
        hcq_queue_copy(c.lane.queue, c.dst, src, g_bytes);
        CHECK(hcq_queue_bind(c.lane.queue, c.lane.device));
    }
    c.src = result->number != 0 ? src.host : bench_alloc(g_bytes, 0);
    memset(c.src, 2, g_bytes);
    run(&c, 1);
    if (memcmp(c.dst.host, c.src, g_bytes) != 0) {
        bench_die("the copy differs");
    }
    bench_side sides[2] = {{run, &c}, {memcpy_run, &c}};
    bench_compare(result, sides, 2, 1e-6);
    bench_note(result, "memcpy into the same buffer");
    bench_chain_close(&c.lane);
}

const bench bench_copy_rows[] = {
    {"cpu.copy_256m", "ms", 1.05, copy_row, 1},
    {"cpu.copyin_256m", "ms", 1.05, copy_row, 0},
    {0}};
