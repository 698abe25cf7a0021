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
    hcq_buffer dst, src;
    void *host;
} copies;

static void touched(hcq_device *device, hcq_buffer *buffer, int value) {
    bench_check(hcq_alloc(device, g_bytes, HCQ_HOST_VISIBLE, buffer), "hcq_alloc");
    memset(buffer->host, value, g_bytes);
}

static void lane_copy(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        hcq_point done;
        bench_check(hcq_queue_submit(c->queue, c->device, &done), "hcq_queue_submit");
        bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
}

static void memcpy_views(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(c->dst.host, c->src.host, g_bytes);
        __asm__ __volatile__("" ::: "memory");
    }
}

static void copyin(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_copyin(c->dst, c->host, g_bytes), "hcq_copyin");
    }
}

static void memcpy_host(void *ctx, uint64_t n) {
    copies *c = (copies *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(c->dst.host, c->host, g_bytes);
        __asm__ __volatile__("" ::: "memory");
    }
}

static void check_copied(const copies *c, const void *src, const char *what) {
    if (memcmp(c->dst.host, src, g_bytes) != 0) {
        bench_die("%s: the copy differs", what);
    }
}

void bench_copy_256m(bench_result *result) {
    copies c;
    bench_stats stats[2];
    bench_check(hcq_open("CPU", NULL, &c.device), "hcq_open");
    touched(c.device, &c.dst, 1);
    touched(c.device, &c.src, 2);
    bench_check(hcq_queue_create(c.device, HCQ_COPY, &c.queue), "hcq_queue_create");
    hcq_queue_copy(c.queue, c.dst, c.src, g_bytes);
    bench_check(hcq_queue_bind(c.queue, c.device), "hcq_queue_bind");
    lane_copy(&c, 1);
    check_copied(&c, c.src.host, "copy_256m");
    bench_side sides[2] = {{lane_copy, NULL, NULL, &c, 0}, {memcpy_views, NULL, NULL, &c, 0}};
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1e-6);
    bench_note(result, "memcpy between the same buffers");
    hcq_queue_destroy(c.queue);
    bench_check(hcq_close(c.device), "hcq_close");
}

void bench_copyin_256m(bench_result *result) {
    copies c;
    bench_stats stats[2];
    bench_check(hcq_open("CPU", NULL, &c.device), "hcq_open");
    touched(c.device, &c.dst, 1);
    c.host = malloc(g_bytes);
    if (c.host == NULL) {
        bench_die("out of memory");
    }
    memset(c.host, 3, g_bytes);
    copyin(&c, 1);
    check_copied(&c, c.host, "copyin_256m");
    bench_side sides[2] = {{copyin, NULL, NULL, &c, 0}, {memcpy_host, NULL, NULL, &c, 0}};
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1e-6);
    bench_note(result, "memcpy into the same buffer");
    free(c.host);
    bench_check(hcq_close(c.device), "hcq_close");
}
