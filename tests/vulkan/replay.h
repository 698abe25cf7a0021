/* replay.h - bound queues: what a submit records anew and what it only writes. Part of
   vulkan.c. */
#pragma once

#include "shared.h"

/* ---- what is data ---- */

/* Adds to as many words as the grid has blocks; the model does the same. */
static int32_t record_adds(hcq_queue *q, hcq_program *add, hcq_buffer words, uint32_t blocks) {
    add_args args = {words.address, 1, 0xffffffffu};
    return hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(blocks, 1, 1), hcq_dim(1, 1, 1));
}

static void model_adds(uint32_t *model, uint32_t blocks, uint32_t value) {
    for (uint32_t i = 0; i < blocks; i++) {
        model[i] += value;
    }
}

/* The first change of a grid makes it data, for each version once; variables are so
   from the beginning, as are arguments and values that are written: no command is
   recorded again. */
TEST(arguments_grids_and_values_are_data) {
    enum { ADDS = 10, WRITES = 3, WORDS = 64 };
    for (uint32_t slots = 1; slots <= 2; slots++) {
        uint32_t model[WORDS] = {0}, value[ADDS], from = 0;
        hcq_device *dev = device_with_slots(slots);
        hcq_program *add = make_add(dev);
        hcq_buffer words = make_words(dev, WORDS), out = make_words(dev, 5);
        hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
        uint64_t recorded = 0, recordings = 0;
        for (uint32_t i = 0; i < ADDS; i++) {
            value[i] = 1;
            CHECK_INDEX(record_adds(q, add, words, WORDS), i);
        }
        CHECK_INDEX(record_word(q, out, 1, 4), ADDS);
        CHECK_INDEX(record_word(q, hcq_view(out, 8, 8), 2, 8), ADDS + 1);
        CHECK_INDEX(record_word(q, hcq_view(out, 16, 4), 3, 4), ADDS + 2);
        CHECK_OK(hcq_queue_variable(q, 4, HCQ_PART_GRID_X, 0, 0));
        CHECK_OK(hcq_queue_variable(q, 5, HCQ_PART_GRID_X, 1, 0));
        CHECK_OK(hcq_queue_variable(q, ADDS, HCQ_PART_VALUE, 2, 0));
        CHECK_OK(hcq_queue_variable(q, ADDS + 1, HCQ_PART_VALUE, 3, 0));
        counts unbound = counts_now(dev);
        CHECK_OK(hcq_queue_bind(q, dev));
        counts bound = counts_since(dev, &unbound);
        CHECK(bound.recordings >= 1);
        CHECK_U64(bound.recorded, (ADDS + WRITES) * bound.recordings); /* one buffer a version */
        for (uint32_t k = 0; k < 40; k++) {
            hcq_dims grid = hcq_dim(k * 13 % (WORDS - 7), 1, 1); /* 0 too */
            uint64_t values[4] = {k * 5 % (WORDS + 1), WORDS - k, 0xfffffff0u + k,
                                  0x123456789abcdefull * k};
            uint32_t want[5] = {(uint32_t)values[2], 0, (uint32_t)values[3],
                                (uint32_t)(values[3] >> 32), 3};
            counts before = counts_now(dev);
            CHECK_OK(hcq_queue_update_exec(q, 3, &grid, NULL));
            if (k >= 10) {             /* the first word and the value of two commands */
                const uint64_t address = words.address + (from = k % 7) * 4;
                value[6 + k % 2] = 1000 + k;
                CHECK_OK(hcq_queue_update_arg(q, 6 + k % 2, 8, &value[6 + k % 2], 4));
                CHECK_OK(hcq_queue_update_arg(q, 3, 0, &address, 8));
            }
            WAIT_OK(submit_values(q, dev, values, 4));
            counts c = counts_since(dev, &before);
            CHECK(k < slots || c.recorded == 0);
            recorded += c.recorded;
            recordings += c.recordings;
            for (uint32_t i = 0; i < ADDS; i++) {
                model_adds(model + (i == 3 ? from : 0),
                           i == 3 ? grid.x : i == 4 || i == 5 ? (uint32_t)values[i - 4] : WORDS,
                           value[i]);
            }
            CHECK_BYTES(words, model, sizeof model);
            CHECK_BYTES(out, want, sizeof want);
        }
        CHECK(recordings <= slots);
        CHECK_U64(recorded, (ADDS + WRITES) * recordings);
        CHECK_OK(hcq_close(dev));
    }
}

/* ---- what is recorded anew ---- */

/* Three runs of commands, which waits for what is reached separate: adds; a copy and
   adds; a fill and adds. */
enum { PART_A = 10, PART_COPY = PART_A + 1, PART_B = 5, PART_FILL = PART_COPY + PART_B + 2,
       PART_C = 7, PART_WORDS = 64 };

/* Copies, fills and blocks record the run that they are in, and nothing else. */
static void parts_record(hcq_device *dev, hcq_queue *q, hcq_buffer words, hcq_buffer src) {
    hcq_program *add = make_add(dev);
    hcq_point reached = hcq_at(make_signal(dev, 1), 1);
    for (uint32_t i = 0; i < PART_A; i++) {
        CHECK_INDEX(record_adds(q, add, words, 1), i);
    }
    CHECK(hcq_queue_wait(q, reached) == PART_A);
    CHECK_INDEX(hcq_queue_copy(q, words, src, PART_WORDS * 4), PART_COPY);
    for (uint32_t i = 0; i < PART_B; i++) {
        CHECK(record_adds(q, add, words, 3) > 0);
    }
    CHECK(hcq_queue_wait(q, reached) == PART_FILL - 1);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(words, 128, 64), 64, 7, 4), PART_FILL);
    for (uint32_t i = 0; i < PART_C; i++) {
        CHECK(record_adds(q, add, words, 40) > 0);
    }
    CHECK_OK(hcq_queue_variable(q, PART_FILL, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_bind(q, dev));
}

TEST(segments_are_recorded_alone) {
    static const struct {
        uint32_t copied, block;        /* words; of command 2 */
        uint64_t filled;
        uint32_t commands, recordings, pipelines;
    } steps[] = {
        {64, 1, 7, 0, 0, 0},           /* the variable's first value: not counted */
        {64, 1, 7, 0, 0, 0}, {20, 1, 7, 1 + PART_B, 1, 0}, {20, 1, 7, 0, 0, 0},
        {20, 1, 9, 1 + PART_C, 1, 0}, {20, 1, 9, 0, 0, 0}, {20, 5, 9, PART_A, 1, 1},
        {20, 5, 9, 0, 0, 0}, {1, 1, 11, PART_A + 1 + PART_B + 1 + PART_C, 3, 0},
    };
    hcq_device *dev = device_with_slots(1);
    hcq_buffer words = make_words(dev, PART_WORDS), src = make_words(dev, PART_WORDS);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    parts_record(dev, q, words, src);
    for (uint32_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        hcq_dims block = hcq_dim(steps[k].block, 1, 1);
        uint64_t pipelines = COUNT(dev, PIPELINES);
        CHECK_OK(hcq_queue_update_copy(q, PART_COPY, NULL, NULL, steps[k].copied * 4));
        CHECK_OK(hcq_queue_update_exec(q, 2, NULL, &block));
        counts before = counts_now(dev);
        WAIT_OK(submit_values(q, dev, &steps[k].filled, 1));
        counts c = counts_since(dev, &before);
        CHECK(k == 0 || c.recorded == steps[k].commands);
        CHECK(k == 0 || c.recordings == steps[k].recordings);
        CHECK_U64(COUNT(dev, PIPELINES), pipelines + steps[k].pipelines);
    }
    CHECK_OK(hcq_close(dev));
}
