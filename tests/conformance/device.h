/* Results, devices, queries, clock, registry. Part of conformance.c. */
#include "shared.h"

static void results_have_names(TEST_ARGS) {
    static const hcq_result all[] = {
#define RESULT_CODE(name, value, text) name,
        HCQ_RESULTS(RESULT_CODE)
#undef RESULT_CODE
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK(strncmp(hcq_result_name(all[i]), "HCQ_", 4) == 0);
        CHECK(strlen(hcq_result_text(all[i])) > 1);
    }
    CHECK(strcmp(hcq_result_name(HCQ_ERROR_LIMIT), "HCQ_ERROR_LIMIT") == 0);
    CHECK(strcmp(hcq_result_text(HCQ_ERROR_LIMIT), "a limit is reached") == 0);
    CHECK(hcq_result_name((hcq_result)-9999) != NULL);
    CHECK(hcq_result_text((hcq_result)-9999) != NULL);
    CHECK_U64(hcq_version(), HCQ_VERSION_MAJOR << 16 | HCQ_VERSION_MINOR << 8 |
                                 HCQ_VERSION_PATCH);
}

static void dump_is_text(TEST_ARGS) {
    char small[16], text[16384];
    hcq_device *device = open_labelled("the labelled one", 0);
    hcq_point gate = make_gate(T.dev);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_label(q, "heldqueue"));
    CHECK_OK(submit_behind(q, device, &gate, NULL));
    CHECK(hcq_device_dump(device, NULL, 0) > 16);
    memset(small, 'x', sizeof small);
    hcq_device_dump(device, small, sizeof small);
    CHECK(memchr(small, 0, sizeof small) != NULL);
    hcq_device_dump(device, text, sizeof text);
    SAYS(text, "the labelled one");
    SAYS(text, "heldqueue");
    open_gate(gate);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_close(device));
}

static void clock_converts(TEST_ARGS) {
    hcq_clock first = CLOCK_OF(T.dev), second;
    CHECK_U64(hcq_clock_to_host(&first, first.device_ns), first.host_ns);
    CHECK_U64(hcq_clock_to_host(&first, first.device_ns + 1000), first.host_ns + 1000);
    CHECK_U64(hcq_clock_to_host(&first, first.device_ns - 1000), first.host_ns - 1000);
    second = CLOCK_OF(T.dev);
    CHECK(second.device_ns > first.device_ns);
    hcq_point never = hcq_at(make_signal(T.dev, 0), 1);
    CHECK_OK(submit_lists(T.dev, &never, NULL, 0, NULL));
    first = CLOCK_OF(T.dev);           /* also while its lanes are held */
    CHECK(first.device_ns > second.device_ns);
}

/* Devices up to the limit; past it a clear answer, and all of them close. */
static void many_devices(TEST_ARGS) {
    enum { MORE = 70 };
    hcq_device *devices[MORE] = {NULL};
    hcq_device_desc desc = test_desc();
    hcq_result result = HCQ_OK;
    uint32_t count = 0;
    desc.parked = 16;
    desc.inflight = 16;
    while (count < MORE && result == HCQ_OK) {
        result = hcq_open(T.variant->backend, &desc, &devices[count]);
        count += result == HCQ_OK;
    }
    hcq_result closed = HCQ_OK;
    for (uint32_t i = 0; i < count; i++) {
        hcq_point done;
        if (hcq_queue_submit(make_queue(devices[i], HCQ_COMPUTE), devices[i], &done) != HCQ_OK ||
            hcq_wait(&done, 1, HCQ_ALL, BOUND) != HCQ_OK || hcq_close(devices[i]) != HCQ_OK) {
            closed = HCQ_ERROR_HOST;
        }
    }
    CHECK_OK(closed);
    CHECK_RESULT(result, HCQ_ERROR_LIMIT);
    CHECK(count == 62);                /* two are open already */
}

typedef struct opener {
    pthread_t thread;
    const hcq_device_desc *desc;
    hcq_result result;
} opener;

static void *opener_run(void *user) {
    opener *o = (opener *)user;
    for (int i = 0; i < 15 && o->result == HCQ_OK; i++) {
        hcq_device *device = NULL;
        hcq_queue *queue = NULL;
        hcq_signal signal;
        int right = hcq_open(T.variant->backend, o->desc, &device) == HCQ_OK &&
                    hcq_queue_create(device, HCQ_COMPUTE, &queue) == HCQ_OK &&
                    hcq_signal_create(device, 0, &signal) == HCQ_OK &&
                    hcq_queue_signal(queue, hcq_at(signal, 1)) == 0 &&
                    hcq_queue_submit(queue, device, NULL) == HCQ_OK;
        hcq_result closed = hcq_close(device); /* what was handed over is finished */
        o->result = right ? closed : HCQ_ERROR_HOST;
    }
    return NULL;
}

static void open_and_close_in_threads(TEST_ARGS) {
    hcq_device_desc desc = test_desc();
    opener openers[4];
    for (int i = 0; i < 4; i++) {
        openers[i].desc = &desc;
        openers[i].result = HCQ_OK;
        pthread_create(&openers[i].thread, NULL, opener_run, &openers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(openers[i].thread, NULL);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_OK(openers[i].result);
    }
}

#define DEVICE_TESTS \
    TEST(many_devices), TEST(open_and_close_in_threads), TEST(results_have_names), \
    TEST(dump_is_text), TEST(clock_converts)
