/* stack.c - hcq needs little stack: a device is opened, used and closed on a thread
   of 64 KiB, which is less than threads of small C libraries and fibers have.

   stack [VARIANT]       on vulkan with the driver, lavapipe say: one that itself needs
                         more crashes here, and vkmock tells that it is not hcq */
#include "support/util.h"

#include <limits.h>

enum { STACK_BYTES = 64 * 1024, WORDS = 1024 };

/* One set releases many submissions, every second of which needs a version to be built. */
static hcq_result release_many(hcq_device *device, hcq_buffer buffer) {
    hcq_signal gate;
    hcq_result r = hcq_signal_create(device, 0, &gate);
    const hcq_point open = hcq_at(gate, 1);
    for (uint64_t i = 0; i < 400 && r == HCQ_OK; i++) {
        hcq_queue *queue = NULL;
        r = hcq_queue_create(device, HCQ_COPY, &queue);
        (void)hcq_queue_fill(queue, buffer, 64, 0, 4);
        (void)hcq_queue_variable(queue, 0, HCQ_PART_VALUE, 0, 0);
        for (uint64_t k = 0; k < 2 && r == HCQ_OK; k++) {
            const hcq_value values[1] = {hcq_value_number(i + k)};
            hcq_submission s = {.queues = &queue, .queue_count = 1, .values = values,
                                .value_count = 1, .waits = &open, .wait_count = 1,
                                .flags = HCQ_UNORDERED};
            r = hcq_submit(device, &s, 1, NULL);
        }
        hcq_queue_destroy(queue);
    }
    if (r == HCQ_OK) { r = hcq_signal_set(gate, 1); }
    return r == HCQ_OK ? hcq_device_synchronize(device, BOUND) : r;
}

/* Only the result goes back: a check that fails ends the thread it stands in. */
typedef struct visit { hcq_result result; uint32_t word; } visit;

static hcq_result use(hcq_device *device, uint32_t *word) {
    static uint32_t words[WORDS];
    hcq_buffer buffer;
    hcq_queue *queue = NULL;
    hcq_point done;
    hcq_result r = hcq_alloc(device, sizeof words, HCQ_ZEROED, &buffer);
    if (r == HCQ_OK) { r = hcq_copyin(buffer, words, sizeof words); }
    if (r == HCQ_OK) { r = hcq_queue_create(device, HCQ_COPY, &queue); }
    (void)hcq_queue_fill(queue, buffer, sizeof words, 7, 4);
    if (r == HCQ_OK) { r = hcq_queue_submit(queue, device, &done); }
    if (r == HCQ_OK) { r = hcq_wait(&done, 1, HCQ_ALL, BOUND); }
    if (r == HCQ_OK) { r = hcq_copyout(words, buffer, sizeof words); }
    *word = words[WORDS - 1];
    return r == HCQ_OK ? release_many(device, buffer) : r;
}

static void *visit_device(void *user) {
    visit *v = (visit *)user;
    hcq_device_desc desc = test_desc();
    hcq_device *device = NULL;
    v->result = hcq_open(T.variant->backend, &desc, &device);
    if (v->result != HCQ_OK) { return NULL; }
    hcq_result used = use(device, &v->word);
    v->result = hcq_close(device);
    if (used != HCQ_OK) { v->result = used; }
    return NULL;
}

TEST_BARE(opens_on_a_small_stack) {
    visit v = {HCQ_ERROR_LOST, 0};
    pthread_attr_t attr;
    pthread_t thread;
    size_t bytes = STACK_BYTES;
#ifdef PTHREAD_STACK_MIN
    bytes = bytes < (size_t)PTHREAD_STACK_MIN ? (size_t)PTHREAD_STACK_MIN : bytes;
#endif
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, bytes) == 0);
    CHECK(pthread_create(&thread, &attr, visit_device, &v) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attr);
    CHECK_OK(v.result);
    CHECK_U64(v.word, 7);
}

int main(int argc, char **argv) { return test_main(argc, argv); }
