/* errors.h - errors that end a context: what they say, who hears them. Part of cuda.c. */
#ifndef HCQ_TEST_CUDA_ERRORS_H
#define HCQ_TEST_CUDA_ERRORS_H

#include "lent.h"

/* With marks the very command is named, and there are no graphs; without, its queue or
   what is near. */
static void errors_name_the_command(TEST_ARGS) {
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 8; i++) {
        hcq_device *device = device_with(i & 1 ? HCQ_CUDA_TRAIL : 0, 1, 1);
        hcq_program *bad = make_bad(device), *add = make_add(device);
        hcq_buffer words = make_words(device, 4);
        hcq_queue *good = make_queue(device, HCQ_COMPUTE), *q = make_queue(device, HCQ_COMPUTE);
        hcq_error_info error;
        gates g;
        gates_open(&g, device);
        CHECK_OK(hcq_queue_label(good, "harmless"));
        CHECK_OK(hcq_queue_label(q, "poisonous"));
        for (uint32_t k = 0; k < 5; k++) {
            CHECK_INDEX(record_add(good, add, words, 0, 1), k);
            CHECK_INDEX(record_add(q, add, words, 0, 1), k);
        }
        CHECK_INDEX(hcq_queue_exec(q, bad, NULL, 0, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 5);
        CHECK_INDEX(record_add(q, add, words, 0, 1), 6);
        CHECK_OK(i & 2 ? hcq_queue_bind(q, device) : HCQ_OK);
        CHECK((i & 1) == 0 || info_of(device).graphs == 0);
        log_clear();
        submit_and_wait(good, device);
        CHECK_U64(READ32(words, 0), 5);
        (void)submit_spin(&g, 0, 0);   /* nothing runs before all is handed over */
        hcq_point done = submit_of(q, device);
        (void)submit_of(good, device);
        gate_let(&g, 0);
        WAIT_RESULT(done, HCQ_ERROR_LOST);
        CHECK_OK(hcq_device_error(device, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_LOST);
        CHECK_U64(error.native_code, 700);
        CHECK(strncmp(error.native, "cu", 2) == 0);
        if (i & 1) {
            CHECK_U64(error.command, 5);
            CHECK(strcmp(error.program, "ct_bad") == 0);
        }
        if (i & 1 || info_of(device).memops) { /* all events tell the error then */
            CHECK(strcmp(error.queue, "poisonous") == 0);
            CHECK(log_has("poisonous"));
        }
        CHECK_OK(hcq_close(device));
        CHECK_U64(things_now(), 0);
    }
}

#define ERROR_TESTS                                                                \
    TEST_ALONE(errors_name_the_command),

#endif /* HCQ_TEST_CUDA_ERRORS_H */
