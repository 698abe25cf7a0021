/* bench_copy.c - 256 MiB through the copy lane and by hcq_copyin, against
   memcpy between the same bytes: pages, alignment and huge pages are the same
   for both sides. All memory is touched long before. */

#include "bench.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t g_bytes = 256u << 20;

typedef struct copies {
    hcq_device *device;
    hcq_queue *queue;
    hcq_buffer dst;
    void *src;
} copies;

static void lane_copy(void *ctx, uint64_t n) {
    const copies *c = (const copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_submit_and_wait(c->queue, c->device);
    }
}

static void copyin(void *ctx, uint64_t n) {
    const copies *c = (const copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        CHECK(hcq_copyin(c->dst, c->src, g_bytes));
    }
}

static void memcpy_run(void *ctx, uint64_t n) {
    const copies *c = (const copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(c->dst.host, c->src, g_bytes);
        __asm__ __volatile__("" ::: "memory");
    }
}

static hcq_buffer touched(hcq_device *device, int value) {
    hcq_buffer buffer;
    CHECK(hcq_alloc(device, g_bytes, HCQ_HOST_VISIBLE, &buffer));
    memset(buffer.host, value, g_bytes);
    return buffer;
}

static void measure(bench_result *result, copies *c, void (*run)(void *, uint64_t)) {
    bench_stats stats[2];
    bench_side sides[2] = {{run, c}, {memcpy_run, c}};
    run(c, 1);
    if (memcmp(c->dst.host, c->src, g_bytes) != 0) {
        bench_die("the copy differs");
    }
    bench_compare(result, sides, 2, 1e-6, stats);
    bench_note(result, "memcpy into the same buffer");
    hcq_queue_destroy(c->queue);
    CHECK(hcq_close(c->device));
}

static void copy_256m(bench_result *result) {
    copies c;
    CHECK(hcq_open("CPU", NULL, &c.device));
    c.dst = touched(c.device, 1);
    hcq_buffer src = touched(c.device, 2);
    c.src = src.host;
    CHECK(hcq_queue_create(c.device, HCQ_COPY, &c.queue));
    hcq_queue_copy(c.queue, c.dst, src, g_bytes);
    CHECK(hcq_queue_bind(c.queue, c.device));
    measure(result, &c, lane_copy);
}

static void copyin_256m(bench_result *result) {
    copies c = {NULL, NULL, {0}, malloc(g_bytes)};
    if (c.src == NULL) {
        bench_die("out of memory");
    }
    CHECK(hcq_open("CPU", NULL, &c.device));
    c.dst = touched(c.device, 1);
    memset(c.src, 3, g_bytes);
    measure(result, &c, copyin);
    free(c.src);
}

const bench bench_copy_rows[] = {
    {"cpu.copy_256m", "ms", 1.05, copy_256m},
    {"cpu.copyin_256m", "ms", 1.05, copyin_256m},
    {0}};
