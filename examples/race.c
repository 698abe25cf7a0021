/* race.c - three frames in flight, and the wait that keeps a slot of the ring until it
   is free: once left out, which hcq_check.h finds on the first run, and once there.

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
    if (result == HCQ_ERROR_RACE) { printf("    %s\n", text); }
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
    return without == 1 && with == 0 ? 0 : 1;
}
