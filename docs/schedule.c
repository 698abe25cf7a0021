/* schedule.c - a graph on two devices for the page to show (page.py): writes the schedule
   that hcq_graph_dot makes of it, runs it and writes its profile, as a page.

       cc docs/schedule.c -o schedule -pthread && ./schedule SCHEDULE.dot PROFILE.html

   Each band of numbers is uploaded, gets 2 added on one device, is handed over, gets 3 added
   on the other one, and is fetched. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "../examples/hello.k"
#include "../examples/hello.k.h"

#include <stdio.h>

enum { BANDS = 3, N = 1 << 18, BYTES = N * 4, LAUNCHES = 40 };

static hcq_result worst;               /* of all calls: the first that failed */

static void sure(hcq_result result) {
    if (result < 0 && worst == HCQ_OK) { worst = result; }
}

typedef struct band { hcq_buffer in, x, y, out; } band;

static void make_band(hcq_device *const dev[2], band *b) {
    sure(hcq_alloc(dev[0], BYTES, HCQ_HOST_WRITES, &b->in));
    sure(hcq_alloc(dev[0], BYTES, 0, &b->x));
    sure(hcq_alloc(dev[1], BYTES, 0, &b->y));
    sure(hcq_alloc(dev[1], BYTES, HCQ_HOST_VISIBLE, &b->out));
    for (int32_t i = 0; worst == HCQ_OK && i < N; i++) { ((int32_t *)b->in.host)[i] = i; }
}

static void make_ones(hcq_device *dev, hcq_buffer *ones) {
    static int32_t data[N];
    for (int i = 0; i < N; i++) { data[i] = 1; }
    sure(hcq_alloc(dev, BYTES, 0, ones));
    sure(hcq_copyin(*ones, data, BYTES));
}

/* What waits for what is not said: the graph knows it from what is read and written. */
static void record(hcq_queue *graph, hcq_program *const axpy[2], const hcq_buffer ones[2],
                   const band *b) {
    hcq_dims grid = hcq_dim(N / 256, 1, 1), block = hcq_dim(256, 1, 1);
    axpy_args add_2 = { b->x.address, ones[0].address, 2, N };
    axpy_args add_3 = { b->y.address, ones[1].address, 3, N };
    hcq_queue_copy(graph, b->x, b->in, BYTES);
    hcq_queue_exec(graph, axpy[0], &add_2, sizeof add_2, grid, block);
    hcq_queue_copy(graph, b->y, b->x, BYTES);
    hcq_queue_exec(graph, axpy[1], &add_3, sizeof add_3, grid, block);
    hcq_queue_copy(graph, b->out, b->y, BYTES);
}

static void label(hcq_queue *graph) {
    static const char *const names[] = { "upload", "add 2", "hand over", "add 3", "fetch" };
    sure(hcq_queue_label(graph, "bands"));
    for (int i = 0; i < BANDS * 5; i++) { sure(hcq_queue_command_label(graph, i, names[i % 5])); }
}

static void save(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) { worst = HCQ_ERROR_NATIVE; }
}

/* Writes the profile of the fastest launch: where others use the CPUs, too, most are slow. */
static void launch(hcq_queue *graph, hcq_device *const dev[2], const char *page) {
    uint64_t best = UINT64_MAX;
    sure(hcq_queue_bind(graph, dev[0]));
    for (int n = 0; worst == HCQ_OK && n < LAUNCHES; n++) {
        hcq_point done;
        for (int i = 0; i < 2; i++) { sure(hcq_profile_start(dev[i], NULL)); }
        uint64_t begin = hcq_now_ns();
        sure(hcq_queue_submit(graph, dev[0], &done));
        sure(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
        uint64_t took = hcq_now_ns() - begin;
        if (took >= best) { continue; }
        best = took;
        sure(hcq_profile_save(dev, 2, HCQ_PROFILE_HTML, page));
    }
}

int main(int argc, char **argv) {
    static char dot[1 << 16];
    hcq_program_desc desc = HCQ_PROGRAM(axpy);
    hcq_device *dev[2] = { NULL, NULL };
    hcq_program *axpy[2] = { NULL, NULL };
    hcq_queue *graph = NULL;
    hcq_buffer ones[2];
    band bands[BANDS];
    int right = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: schedule SCHEDULE.dot PROFILE.html\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        sure(hcq_open(i == 0 ? "CPU" : "CPU:1", NULL, &dev[i]));
        sure(hcq_program_create(dev[i], &desc, &axpy[i]));
        make_ones(dev[i], &ones[i]);
    }
    sure(hcq_graph_create(dev[0], &graph));
    for (int b = 0; worst == HCQ_OK && b < BANDS; b++) {
        make_band(dev, &bands[b]);
        record(graph, axpy, ones, &bands[b]);
    }
    label(graph);
    if (worst == HCQ_OK) { (void)hcq_graph_dot(graph, HCQ_COPY_LISTS, dot, sizeof dot); }
    save(argv[1], dot);
    launch(graph, dev, argv[2]);
    for (int i = 0; worst == HCQ_OK && i < BANDS * N; i++) {
        right += ((int32_t *)bands[i / N].out.host)[i % N] == i % N + 5;
    }
    for (int i = 0; i < 2; i++) { sure(hcq_close(dev[i])); }
    printf("%s: %d of %d right\n", hcq_result_text(worst), right, BANDS * N);
    return worst != HCQ_OK || right != BANDS * N;
}
