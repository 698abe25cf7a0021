/* errors.h - errors that end a context: what they say, who hears them. Part of cuda.c. */
#ifndef HCQ_TEST_CUDA_ERRORS_H
#define HCQ_TEST_CUDA_ERRORS_H

#include "lent.h"
#include "signals.h"

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

/* Threads that wait when it happens wake up, what waits for a lost device ends, on
   others, too; these go on. */
static void a_loss_is_heard(TEST_ARGS) {
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 6; i++) {
        hcq_device *first = device_by(i % 3, 2, 1), *second = test_open(1, NULL);
        hcq_device *cpu = open_cpu();
        hcq_buffer there = make_words(second, 4);
        hcq_signal s = make_signal(first, 0);
        hcq_queue *q = make_queue(first, HCQ_COMPUTE), *fill = make_queue(second, HCQ_COPY);
        waiter w[5];
        gates g;
        gates_open(&g, first);
        CHECK_INDEX(record_spin(q, &g, 0), 0);
        CHECK_INDEX(hcq_queue_exec(q, make_bad(first), NULL, 0, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
        CHECK_INDEX(hcq_queue_write(fill, there, 6, 4), 0);
        CHECK_OK(i & 1 ? hcq_queue_bind(q, first) : HCQ_OK);
        hcq_point done = submit_of(q, first);
        const hcq_point points[5] = {done, hcq_at(s, 1), submit_to(first, NULL, 1, &done, NULL),
                                     submit_to(second, fill, 0, &done, NULL),
                                     submit_to(cpu, NULL, 0, &done, NULL)};
        for (uint32_t k = 0; k < 5; k++) {
            waiter_start(&w[k], points[k]);
        }
        gate_let(&g, 0);
        for (uint32_t k = 0; k < 5; k++) {
            CHECK_RESULT(waiter_join(&w[k]), HCQ_ERROR_LOST);
        }
        submit_and_wait(fill, second);
        CHECK_U64(READ32(there, 0), 6);
        use_device(second);
        CHECK_OK(hcq_close(i & 1 ? first : second));
        CHECK_OK(hcq_close(i & 1 ? second : first));
        CHECK_OK(hcq_close(cpu));
        CHECK_U64(things_now(), 0);
    }
}

#define ERROR_TESTS                                                                \
    TEST_ALONE(errors_name_the_command), TEST_ALONE(a_loss_is_heard),

#endif /* HCQ_TEST_CUDA_ERRORS_H */
