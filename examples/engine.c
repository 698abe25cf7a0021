/* engine.c - an engine with a Vulkan device of its own, which it lends to hcq.

       cc -O2 examples/engine.c -o engine -pthread -lvulkan && ./engine engine.ppm

   The engine (engine.h, plain Vulkan) has one VkQueue, a VkBuffer of particles and a picture.
   hcq moves the particles with a kernel, in that buffer and on that queue; the engine adds
   them to the picture as points of light. Each waits for the other on the device: all frames
   of a level are handed over at once, and the host waits for none. Between the two levels
   hcq is closed and the device is lent again. At the end the picture has to be that of plain
   C.

   What an engine has to know:

   The queue. hcq calls lock_fn around each use of a VkQueue, as the engine locks it itself.
   hcq has locks of its own then: whoever holds the queue's must not call hcq. Nothing is
   handed to a queue before what it waits for, so that one is enough.

   Threads. lock_fn, the logger, the hooks for memory and the engine's VkAllocationCallbacks
   (hcq_vulkan_desc.allocator) are called on any thread that calls hcq, and on one of hcq's
   own, which it has once there are host commands, notifications or waits for other devices.

   Order. hcq_vulkan_point gives the semaphore and the value that the engine's submission
   waits for, hcq_vulkan_point_import the point that hcq waits for when the engine's is made.
   Such a wait makes visible what was written before it: neither needs the other's barriers.

   Memory. hcq_vulkan_buffer_import takes the engine's VkBuffer, hcq_vulkan_buffer gives
   hcq's. Images stay with the engine.

   The end. hcq_close ends hcq's own work and leaves what was lent as it is. Before it, queues
   must be idle that have work of the engine's which waits for hcq's semaphores or uses hcq's
   buffers. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_VULKAN
#include "../hcq.h"
#include "engine.k"
#include "engine.k.h"
#include "engine.h"

enum { FRAMES = 120, LEVELS = 2, PICTURE_BYTES = WIDTH * HEIGHT * 4 };

static void ok(hcq_result result, const char *doing) {
    if (result != HCQ_OK) {
        fprintf(stderr, "engine: %s: %s\n", doing, hcq_result_text(result));
        exit(1);
    }
}

/* ---- the device is lent -------------------------------------------------- */

/* What moves particles. */
typedef struct physics {
    hcq_device *dev;
    hcq_buffer particles;              /* the engine's VkBuffer */
    hcq_queue *step;
} physics;

static void lock_for_hcq(void *user, VkQueue queue, int locked) {
    engine *e = (engine *)user;
    (void)queue;                       /* there is one */
    if (locked) {
        lock_queue(e);
    } else {
        unlock_queue(e);
    }
}

static void lend(engine *e, physics *p) {
    hcq_vulkan_queue queue = { e->queue, e->family };
    struct hcq_vulkan_desc vulkan;
    hcq_device_desc desc;
    memset(&vulkan, 0, sizeof vulkan);
    vulkan.instance = e->instance;
    vulkan.physical_device = e->physical;
    vulkan.device = e->device;
    vulkan.api_version = VK_API_VERSION_1_3;
    vulkan.loader = vkGetInstanceProcAddr;
    vulkan.queues = &queue;
    vulkan.queue_count = 1;
    vulkan.features = &e->features;
    vulkan.lock_fn = lock_for_hcq;
    vulkan.lock_user = e;
    memset(&desc, 0, sizeof desc);
    desc.vulkan = &vulkan;
    ok(hcq_open("VULKAN", &desc, &p->dev), "hcq_open");
    ok(hcq_vulkan_buffer_import(p->dev, e->particles, PARTICLE_BYTES, &p->particles), "particles");
}

/* One kernel, encoded once for all frames. */
static void record_step(physics *p) {
    hcq_program_desc desc = HCQ_PROGRAM(drift);
    drift_args args = { p->particles.address, PARTICLES };
    hcq_program *drift;
    ok(hcq_program_create(p->dev, &desc, &drift), "program");
    ok(hcq_queue_create(p->dev, HCQ_COMPUTE, &p->step), "queue");
    hcq_queue_exec(p->step, drift, &args, sizeof args, hcq_dim((PARTICLES + 63) / 64, 1, 1),
                   hcq_dim(64, 1, 1));
    ok(hcq_queue_bind(p->step, p->dev), "queue");
}

/* ---- a frame ------------------------------------------------------------- */

/* hcq moves the particles once the engine has drawn `frame` frames with them; the engine
   draws one more once they have been moved. Nothing of that has to have begun when this
   returns. */
static void hand_over(engine *e, physics *p, uint64_t frame) {
    hcq_submission work;
    hcq_point drawn, moved;
    VkSemaphore semaphore;
    uint64_t value;
    memset(&work, 0, sizeof work);
    work.queues = &p->step;
    work.queue_count = 1;
    if (frame > 0) {
        ok(hcq_vulkan_point_import(p->dev, e->frames, frame, &drawn), "point of the engine");
        work.waits = &drawn;
        work.wait_count = 1;
    }
    ok(hcq_submit(p->dev, &work, 1, &moved), "step");
    ok(hcq_vulkan_point(p->dev, moved, &semaphore, &value), "point for the engine");
    submit(e, frame == 0 ? e->first : e->next, semaphore, value, frame + 1);
}

/* Copies the picture into memory of hcq's. */
static const uint8_t *read_picture(engine *e, physics *p) {
    hcq_buffer pixels;
    VkBuffer to;
    VkDeviceSize offset;
    ok(hcq_alloc(p->dev, PICTURE_BYTES, HCQ_HOST_VISIBLE, &pixels), "pixels");
    ok(hcq_vulkan_buffer(pixels, &to, &offset), "pixels");
    submit(e, record_copy(e, to, offset), e->frames, FRAMES, FRAMES + 1);
    wait_idle(e);
    return (const uint8_t *)pixels.host;
}

/* ---- the same in plain C ------------------------------------------------- */

static particle particles[PARTICLES];
static uint8_t picture[PICTURE_BYTES];

static float random_below(uint32_t *state, uint32_t limit) {
    *state = *state * 1664525u + 1013904223u;
    return (float)((*state >> 8) % (limit * 16)) / 16;
}

static void scatter(void) {
    uint32_t state = 1;
    for (int i = 0; i < PARTICLES; i++) {
        particles[i].x = random_below(&state, WIDTH);
        particles[i].y = random_below(&state, HEIGHT);
        particles[i].light = 0;
    }
}

static void plain(void) {
    for (int i = 0; i < FRAMES * PARTICLES; i++) {
        particle *q = &particles[i % PARTICLES];
        *q = drifted(*q);
        uint8_t *pixel = picture + 4 * (WIDTH * (int)q->y + (int)q->x);
        for (int k = 0; k < 3; k++) {
            uint32_t sum = pixel[k] + (q->light >> 8 * k & 255);
            pixel[k] = (uint8_t)(sum < 255 ? sum : 255);
        }
    }
}

/* How many pixels are lit; -1: it is another picture. A device may round the sum of two
   colours, which plain C does not. */
static int compare(const uint8_t *drawn) {
    int lit = 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        int any = 0;
        for (int k = 4 * i; k < 4 * i + 3; k++) {
            if (abs(drawn[k] - picture[k]) > 1) { return -1; }
            any |= drawn[k];
        }
        lit += any != 0;
    }
    return lit;
}

static void save(const char *path, const uint8_t *drawn) {
    FILE *file = fopen(path, "wb");
    int good = file != NULL && fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT) > 0;
    for (int i = 0; good && i < WIDTH * HEIGHT; i++) {
        good = fwrite(drawn + 4 * i, 1, 3, file) == 3;
    }
    if (file != NULL && fclose(file) != 0) { good = 0; }
    sure(good, "cannot write the picture", 0);
}

/* ---- two levels ---------------------------------------------------------- */

int main(int argc, char **argv) {
    static engine e;
    physics p;
    uint64_t frame = 0;
    int lit = 0;
    open_engine(&e);
    scatter();
    for (int level = 0; level < LEVELS; level++) {
        lend(&e, &p);
        record_step(&p);
        if (level == 0) { ok(hcq_copyin(p.particles, particles, sizeof particles), "copyin"); }
        while (frame < (uint64_t)(level + 1) * FRAMES / LEVELS) { hand_over(&e, &p, frame++); }
        wait_idle(&e);
        if (level == LEVELS - 1) {
            const uint8_t *drawn = read_picture(&e, &p);
            plain();
            lit = compare(drawn);
            if (argc > 1) { save(argv[1], drawn); }
        }
        ok(hcq_close(p.dev), "hcq_close");
    }
    close_engine(&e);
    printf("%s: %d frames, %d pixels lit\n", lit > 0 ? "ok" : "WRONG", FRAMES, lit);
    return lit > 0 ? 0 : 1;
}
