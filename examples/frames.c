/* frames.c - a game's loop with three frames in flight.

       cc -O2 examples/frames.c -o frames -pthread
       ./frames [FRAMES [DEVICE [PAGE.html]]]

   For every frame the host moves particles and writes down what is to be seen
   of them. One launch of a graph does the rest: it uploads that on the copy
   lane, clears the image meanwhile, and draws. The graph is recorded and bound
   once; the buffers of a frame come with its launch, as inputs.

   HCQ_OVERLAP lets a launch begin while the one before it still runs. So one
   frame is simulated while another is uploaded and a third one drawn. What
   keeps the host from running further ahead is the point of the frame whose
   buffers it wants to use again.

   The frames are made one at a time first, then three in flight. Both times
   every image has to be that of plain C. PAGE.html gets a timeline of a few
   frames in flight. -DHCQ_VULKAN adds the device VULKAN, -DHCQ_CUDA the
   device CUDA. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "frames.k"
#include "frames.k.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IMAGE_BYTES = WIDTH * HEIGHT * 4,
    PARTICLES = 50000, WELLS = 16,
    IN_FLIGHT = 3,
    FRAMES = 240, MAX_FRAMES = 4000,
    MAX_EVENTS = 3 * MAX_FRAMES,       /* uploads, clearings, drawings */
    PICTURED = 6                       /* frames in the timeline */
};
enum { INPUT_DOTS, INPUT_UPLOADED, INPUT_IMAGE, INPUTS };
enum { UPLOAD, CLEAR, DRAW, COMMANDS, SIMULATE = COMMANDS, PARTS }; /* in recording order */

static int ok(hcq_result result, const char *doing) {
    if (result != HCQ_OK) {
        fprintf(stderr, "frames: %s: %s\n", doing, hcq_result_text(result));
    }
    return result == HCQ_OK;
}

/* ---- the simulation ------------------------------------------------------ */

typedef struct body { float x, y, vx, vy; } body;

/* Particles fall around a few wells, which drift. */
typedef struct world {
    body particles[PARTICLES], wells[WELLS];
} world;

static float random_below(uint32_t *state, uint32_t limit) {
    *state = *state * 1664525u + 1013904223u;
    return (float)((*state >> 8) % limit);
}

static void start(world *w) {
    uint32_t state = 1;
    for (int i = 0; i < PARTICLES + WELLS; i++) {
        body *b = i < WELLS ? &w->wells[i] : &w->particles[i - WELLS];
        b->x = random_below(&state, WIDTH);
        b->y = random_below(&state, HEIGHT);
        b->vx = random_below(&state, 257) / 128 - 1;
        b->vy = random_below(&state, 257) / 128 - 1;
    }
}

/* Moves a body; the image's borders throw it back. */
static void move(body *b) {
    float x = b->x + b->vx, y = b->y + b->vy;
    if (x < 0 || x >= (float)WIDTH) {
        b->vx = -b->vx;
        x = b->x;
    }
    if (y < 0 || y >= (float)HEIGHT) {
        b->vy = -b->vy;
        y = b->y;
    }
    b->x = x;
    b->y = y;
}

static void attract(body *b, const body *wells) {
    for (int i = 0; i < WELLS; i++) {
        float dx = wells[i].x - b->x, dy = wells[i].y - b->y;
        float pull = 0.5f / (dx * dx + dy * dy + 100);
        b->vx = 0.9995f * b->vx + pull * dx;
        b->vy = 0.9995f * b->vy + pull * dy;
    }
}

/* Blue, and the redder the faster. */
static uint32_t light_of(const body *b) {
    float speed2 = b->vx * b->vx + b->vy * b->vy;
    uint32_t heat = speed2 < 8 ? (uint32_t)(speed2 * 8) : 64;
    return heat << 16 | 16 << 8 | (80 - heat);
}

/* One step of time, and what is to be seen after it. */
static void simulate(world *w, dot *dots) {
    for (int i = 0; i < WELLS; i++) {
        move(&w->wells[i]);
    }
    for (int i = 0; i < PARTICLES; i++) {
        body *b = &w->particles[i];
        attract(b, w->wells);
        move(b);
        dots[i].x = (int16_t)b->x;
        dots[i].y = (int16_t)b->y;
        dots[i].light = light_of(b);
    }
}

/* ---- the same in plain C ------------------------------------------------- */

static uint32_t checksum(const uint32_t *image) {
    uint32_t sum = 2166136261u;
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        sum = (sum ^ image[i]) * 16777619u;
    }
    return sum;
}

static void plain_lighten(uint32_t *image, int x, int y, uint32_t light) {
    if (x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT) {
        image[y * WIDTH + x] = lightened(image[y * WIDTH + x], light);
    }
}

static void plain(world *w, uint32_t frames, uint32_t *sums) {
    static uint32_t image[WIDTH * HEIGHT];
    static dot dots[PARTICLES];
    start(w);
    for (uint32_t n = 0; n < frames; n++) {
        simulate(w, dots);
        memset(image, 0, sizeof image);
        for (int i = 0; i < PARTICLES; i++) {
            plain_lighten(image, dots[i].x, dots[i].y, dots[i].light);
            plain_lighten(image, dots[i].x - 1, dots[i].y, dots[i].light);
            plain_lighten(image, dots[i].x + 1, dots[i].y, dots[i].light);
            plain_lighten(image, dots[i].x, dots[i].y - 1, dots[i].light);
            plain_lighten(image, dots[i].x, dots[i].y + 1, dots[i].light);
        }
        sums[n] = checksum(image);
    }
}

/* ---- the graph ----------------------------------------------------------- */

typedef struct frame {
    hcq_buffer inputs[INPUTS];
    hcq_point done;                    /* of the last launch with these buffers */
} frame;

typedef struct game {
    hcq_device *dev;
    hcq_program *draw;
    hcq_queue *graph;
    frame frames[IN_FLIGHT];           /* take turns */
    world scene;
} game;

/* The upload and the clearing have nothing in common: they may run at once.
   The drawing needs both. */
static int record(game *g) {
    static const uint64_t dots_bytes = PARTICLES * sizeof(dot);
    hcq_buffer dots, uploaded, image;
    draw_args args;
    if (!ok(hcq_graph_create(g->dev, &g->graph), "graph")) {
        return 0;
    }
    hcq_queue_label(g->graph, "frame");
    dots = hcq_graph_input(g->graph, INPUT_DOTS, g->dev, dots_bytes);
    uploaded = hcq_graph_input(g->graph, INPUT_UPLOADED, g->dev, dots_bytes);
    image = hcq_graph_input(g->graph, INPUT_IMAGE, g->dev, IMAGE_BYTES);
    args.image = image.address;
    args.dots = uploaded.address;
    args.count = PARTICLES;
    hcq_queue_copy(g->graph, uploaded, dots, dots_bytes);
    hcq_queue_fill(g->graph, image, IMAGE_BYTES, 0, 4);
    hcq_queue_exec(g->graph, g->draw, &args, sizeof args, hcq_dim((PARTICLES + 63) / 64, 1, 1),
                   hcq_dim(64, 1, 1));
    hcq_queue_command_label(g->graph, UPLOAD, "upload");
    hcq_queue_command_label(g->graph, CLEAR, "clear");
    return ok(hcq_queue_bind(g->graph, g->dev), "graph");
}

static int make_frame(game *g, frame *f) {
    uint64_t dots_bytes = PARTICLES * sizeof(dot);
    hcq_result r = hcq_alloc(g->dev, dots_bytes, HCQ_HOST_WRITES, &f->inputs[INPUT_DOTS]);
    if (r == HCQ_OK) { r = hcq_alloc(g->dev, dots_bytes, 0, &f->inputs[INPUT_UPLOADED]); }
    if (r == HCQ_OK) {
        r = hcq_alloc(g->dev, IMAGE_BYTES, HCQ_HOST_VISIBLE, &f->inputs[INPUT_IMAGE]);
    }
    return ok(r, "memory");
}

static int make_game(game *g, const char *device) {
    hcq_program_desc program = HCQ_PROGRAM(draw);
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.versions = IN_FLIGHT;         /* launches of a bound graph that may be pending */
    if (!ok(hcq_open(device, &desc, &g->dev), device) ||
        !ok(hcq_program_create(g->dev, &program, &g->draw), "program")) {
        return 0;
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        if (!make_frame(g, &g->frames[i])) {
            return 0;
        }
    }
    return record(g);
}

static int launch(game *g, frame *f) {
    hcq_value values[INPUTS];
    for (int i = 0; i < INPUTS; i++) { values[i] = hcq_value_buffer(f->inputs[i]); }
    return ok(hcq_queue_submit_with(g->graph, g->dev, values, INPUTS, HCQ_OVERLAP, &f->done),
              "launch");
}

/* ---- the loop ------------------------------------------------------------ */

typedef struct span { uint64_t begin, end; } span;     /* host nanoseconds */

typedef struct times {
    span shown[MAX_FRAMES];            /* from the frame before to this one */
    span part[PARTS][MAX_FRAMES];
} times;

/* Shows a frame: waits until it is drawn and, for want of a screen, compares. */
static int show(const frame *f, uint32_t number, const uint32_t *sums) {
    if (!ok(hcq_wait(&f->done, 1, HCQ_ALL, HCQ_FOREVER), "wait")) {
        return 0;
    }
    if (checksum((const uint32_t *)f->inputs[INPUT_IMAGE].host) != sums[number]) {
        fprintf(stderr, "frames: image %u differs from that of plain C\n", number);
        return 0;
    }
    return 1;
}

/* Each turn shows the frame whose buffers are needed next, then makes a new one
   in them. With one frame in flight everything happens in turn. */
static int run(game *g, uint32_t frames, uint32_t in_flight, const uint32_t *sums, times *t) {
    uint64_t before = hcq_now_ns();
    start(&g->scene);
    for (uint32_t n = 0; n < frames + in_flight; n++) {
        frame *f = &g->frames[n % in_flight];
        if (n >= in_flight) {
            span *shown = &t->shown[n - in_flight];
            if (!show(f, n - in_flight, sums)) {
                return 0;
            }
            shown->begin = before;
            shown->end = before = hcq_now_ns();
        }
        if (n < frames) {
            t->part[SIMULATE][n].begin = hcq_now_ns();
            simulate(&g->scene, (dot *)f->inputs[INPUT_DOTS].host);
            t->part[SIMULATE][n].end = hcq_now_ns();
            if (!launch(g, f)) {
                return 0;
            }
        }
    }
    return 1;
}

/* ---- what ran when ------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;
    return (*x > *y) - (*x < *y);
}

/* Returns the mean, in ms. */
static double print_frames(const char *name, const times *t, uint32_t frames) {
    static uint64_t ns[MAX_FRAMES];
    double mean = (double)(t->shown[frames - 1].end - t->shown[0].begin) / 1e6 / frames;
    for (uint32_t n = 0; n < frames; n++) {
        ns[n] = t->shown[n].end - t->shown[n].begin;
    }
    qsort(ns, frames, sizeof ns[0], by_number);
    printf("%-16s frame time %7.3f ms, p99 %7.3f ms\n", name, mean,
           (double)ns[frames * 99 / 100] / 1e6);
    return mean;
}

/* Sorts the profile's events into parts: a command's index is its part. */
static int read_profile(game *g, uint32_t frames, times *t) {
    static hcq_profile_event events[MAX_EVENTS];
    uint32_t count, seen[COMMANDS] = { 0, 0, 0 };
    if (!ok(hcq_profile_events(g->dev, events, MAX_EVENTS, &count, NULL), "profile")) {
        return 0;
    }
    for (uint32_t i = 0; i < count && i < MAX_EVENTS; i++) {
        int32_t command = events[i].command;
        if (command < COMMANDS && seen[command] < frames) {
            span *s = &t->part[command][seen[command]++];
            s->begin = events[i].begin_ns;
            s->end = events[i].end_ns;
        }
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (seen[i] != frames) {
            fprintf(stderr, "frames: profile: %u of %u launches\n", seen[i], frames);
            return 0;
        }
    }
    return 1;
}

/* How long two parts ran at the same time, of whatever frames; ms a frame. */
static double common_ms(const span *a, const span *b, uint32_t frames) {
    uint64_t sum = 0;
    for (uint32_t n = 0; n < frames; n++) {
        for (uint32_t m = 0; m < frames; m++) {
            uint64_t begin = a[n].begin > b[m].begin ? a[n].begin : b[m].begin;
            uint64_t end = a[n].end < b[m].end ? a[n].end : b[m].end;
            sum += end > begin ? end - begin : 0;
        }
    }
    return (double)sum / 1e6 / frames;
}

static void print_parts(const times *t, uint32_t frames) {
    static const char *const names[PARTS] = { "upload", "clear", "draw", "simulate" };
    printf("ms a frame      alone or not   beside simulate   beside draw\n");
    for (int i = 0; i < PARTS; i++) {
        printf("  %-14s %11.3f %17.3f %13.3f\n", names[i],
               common_ms(t->part[i], t->part[i], frames),
               i == SIMULATE ? 0 : common_ms(t->part[i], t->part[SIMULATE], frames),
               i == DRAW ? 0 : common_ms(t->part[i], t->part[DRAW], frames));
    }
}

/* Makes a few frames more, for a timeline of them. */
static int save_page(game *g, uint32_t frames, const uint32_t *sums, times *t,
                     const char *page) {
    frames = frames < PICTURED ? frames : (uint32_t)PICTURED;
    if (!ok(hcq_profile_start(g->dev, NULL), "profile") ||
        !run(g, frames, IN_FLIGHT, sums, t) || !ok(hcq_profile_stop(g->dev), "profile") ||
        !ok(hcq_profile_save(&g->dev, 1, HCQ_PROFILE_HTML, page), page)) {
        return 0;
    }
    printf("%u frames in flight: %s, for any browser\n", frames, page);
    return 1;
}

static int compare(game *g, uint32_t frames, const char *page) {
    static uint32_t sums[MAX_FRAMES];
    static times t;
    double alone, together;
    plain(&g->scene, frames, sums);
    if (!run(g, frames, 1, sums, &t)) {
        return 0;
    }
    alone = print_frames("one at a time", &t, frames);
    if (!ok(hcq_profile_start(g->dev, NULL), "profile") ||
        !run(g, frames, IN_FLIGHT, sums, &t) ||
        !ok(hcq_profile_stop(g->dev), "profile") || !read_profile(g, frames, &t)) {
        return 0;
    }
    together = print_frames("three in flight", &t, frames);
    print_parts(&t, frames);
    printf("overlap: %.3f ms a frame saved, %.0f %%\n", alone - together,
           100 * (alone - together) / alone);
    if (page != NULL && !save_page(g, frames, sums, &t, page)) {
        return 0;
    }
    printf("%u images, twice: every one is that of plain C\n", frames);
    return 1;
}

int main(int argc, char **argv) {
    static game g;
    long frames = argc > 1 ? strtol(argv[1], NULL, 10) : (long)FRAMES;
    const char *device = argc > 2 ? argv[2] : "CPU", *page = argc > 3 ? argv[3] : NULL;
    int good;
    if (argc > 4 || frames < 1 || frames > MAX_FRAMES) {
        fprintf(stderr, "usage: frames [FRAMES [DEVICE [PAGE.html]]], 1 to %d frames\n",
                (int)MAX_FRAMES);
        return 1;
    }
    good = make_game(&g, device);
    if (good) {
        printf("%d particles, %d x %d pixels, %ld frames on %s\n", (int)PARTICLES, (int)WIDTH,
               (int)HEIGHT, frames, device);
    }
    good = good && compare(&g, (uint32_t)frames, page);
    good = ok(hcq_close(g.dev), device) && good;
    return good ? 0 : 1;
}
