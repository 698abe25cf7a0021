/* race.c - three frames in flight, and the wait that keeps a slot of the ring until it
   is free: once left out, which hcq_check.h finds on the first run, and once there. Then
   all orders in which a device may run the frames, and two queues that wait for each
   other, which devices with a seed prove (hcq_cpu.h).

       cc -pthread examples/race.c -o race && ./race [DEVICE]

   The checker goes by what orders commands and the host, not by when they ran: it tells
   the same on every machine, though the pictures may look right on this one. */
#define HCQ_STATIC
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#define HCQ_CHECK
#include "../hcq.h"

#include <stdio.h>
#include <string.h>

enum { RING = 3, FRAMES = 12, WORDS = 1024, BYTES = WORDS * 4 };

static hcq_result worst;               /* of all calls: the first that failed */

static void sure(hcq_result result) {
    if (result < 0 && worst == HCQ_OK) { worst = result; }
}

static void tell(void *user, hcq_result result, const char *text) {
    (void)user;
    if (result == HCQ_ERROR_RACE || result == HCQ_ERROR_DEADLOCK) { printf("    %s\n", text); }
}

/* Draws frames, each from a slot of the ring that the host fills. */
static uint64_t draw(const char *name, int waits) {
    hcq_device_desc desc;
    hcq_device *dev;
    hcq_queue *frame;
    hcq_buffer slots, screen;
    hcq_point shown[FRAMES];
    uint64_t races = 0;
    memset(&desc, 0, sizeof desc);
    desc.flags = HCQ_DEVICE_CHECK;
    desc.compute_lanes = 2;
    desc.log_fn = tell;
    sure(hcq_open(name, &desc, &dev));
    if (worst != HCQ_OK) { return 0; }
    sure(hcq_alloc(dev, RING * BYTES, HCQ_HOST_VISIBLE, &slots));
    sure(hcq_alloc(dev, RING * BYTES, 0, &screen));
    sure(hcq_queue_create(dev, HCQ_COMPUTE, &frame));
    sure(hcq_queue_label(frame, "frame"));
    for (uint32_t f = 0; f < FRAMES; f++) {
        uint64_t at = f % RING * (uint64_t)BYTES;
        uint32_t *slot = (uint32_t *)slots.host + f % RING * WORDS;
        if (waits && f >= RING) {      /* the frame that has the slot */
            sure(hcq_wait(&shown[f - RING], 1, HCQ_ALL, HCQ_FOREVER));
        }
        sure(hcq_check_host(slot, BYTES, HCQ_ARG_OUT)); /* the checker cannot see this: */
        for (uint32_t i = 0; i < WORDS; i++) { slot[i] = f; }
        sure(hcq_queue_reset(frame));
        (void)hcq_queue_copy(frame, hcq_view(screen, at, BYTES), hcq_view(slots, at, BYTES), BYTES);
        sure(hcq_queue_submit(frame, dev, &shown[f]));
    }
    sure(hcq_device_synchronize(dev, HCQ_FOREVER));
    sure(hcq_device_query(dev, HCQ_QUERY_RACES, &races));
    sure(hcq_close(dev));
    return races;
}

/* ---- in every order ---- */

static int ring_waits;

static hcq_result ring_run(void *user) {
    (void)user;
    (void)draw("CPU", ring_waits);
    return worst;
}

/* Explores the ring: as it is, or without its wait. */
static hcq_result explore(int waits, hcq_explore_info *info) {
    hcq_explore_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.run_fn = ring_run;
    desc.seeds = 20;
    desc.log_fn = hcq_log_none;
    ring_waits = waits;
    return hcq_explore(&desc, info);
}

/* ---- two queues that wait for each other ---- */

/* Physics moves what the last frame has drawn, drawing shows what was moved: for the
   first one nothing was drawn before, and the wait has to be for 0. */
static hcq_result engine(int right) {
    struct hcq_cpu_desc cpu;
    hcq_device_desc desc;
    hcq_device *dev;
    hcq_signal moved, drawn;
    hcq_queue *q[2];
    memset(&cpu, 0, sizeof cpu);
    memset(&desc, 0, sizeof desc);
    cpu.seed = 1;                      /* no threads: where nothing can run, nothing will */
    desc.cpu = &cpu;
    desc.compute_lanes = 2;
    desc.log_fn = tell;
    sure(hcq_open("CPU", &desc, &dev));
    sure(hcq_signal_create(dev, 0, &moved));
    sure(hcq_signal_create(dev, 0, &drawn));
    sure(hcq_signal_label(moved, "moved"));
    sure(hcq_signal_label(drawn, "drawn"));
    for (int i = 0; i < 2; i++) {
        sure(hcq_queue_create(dev, HCQ_COMPUTE, &q[i]));
        sure(hcq_queue_label(q[i], i == 0 ? "physics" : "drawing"));
        (void)hcq_queue_wait(q[i], i == 0 ? hcq_at(drawn, right ? 0 : 1) : hcq_at(moved, 1));
        (void)hcq_queue_signal(q[i], hcq_at(i == 0 ? moved : drawn, 1));
        sure(hcq_queue_submit(q[i], dev, NULL));
    }
    hcq_point done = hcq_at(drawn, 1);
    hcq_result r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER);
    sure(hcq_close(dev));
    return r;
}

static int explore_and_prove(void) {
    hcq_explore_info info;
    printf("explored, without the wait: %s", hcq_result_name(explore(0, &info)));
    printf(" in run %llu; with it: ", (unsigned long long)info.runs);
    hcq_result with = explore(1, &info);
    printf("%s in %llu runs\n", hcq_result_name(with), (unsigned long long)info.runs);
    printf("two queues that wait for each other:\n");
    hcq_result dead = engine(0), alive = engine(1);
    printf("%s, and mended: %s\n", hcq_result_name(dead), hcq_result_name(alive));
    return with == HCQ_OK && dead == HCQ_ERROR_DEADLOCK && alive == HCQ_OK && worst == HCQ_OK;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "CPU";
    printf("without the wait:\n");
    uint64_t without = draw(name, 0);
    printf("with it:\n");
    uint64_t with = draw(name, 1);
    if (worst != HCQ_OK) {
        printf("race: %s\n", hcq_result_text(worst));
        return 1;
    }
    printf("%s: %llu race without the wait, %llu with it\n",
           without == 1 && with == 0 ? "ok" : "WRONG", (unsigned long long)without,
           (unsigned long long)with);
    return without == 1 && with == 0 && explore_and_prove() ? 0 : 1;
}
