/* indirect.h - grids that a kernel reads from memory when it runs. Part of conformance.c. */
#include "shared.h"

/* 16 bytes, of which a recording writes the second word, x; y and z are 1. */
static hcq_buffer make_counts(void) {
    const uint32_t ones[4] = {1, 1, 1, 1};
    hcq_buffer b = make_words(T.dev, 4);
    CHECK_OK(hcq_copyin(b, ones, sizeof ones));
    return b;
}

/* `writer`'s variable 0 is x: so many times 16 of 64 words become larger by 1, then the last
   by 100. */
static void record_indirect(hcq_queue *writer, hcq_queue *q, hcq_buffer words, hcq_buffer in,
                            uint32_t most) {
    hcq_program *add = make_add(T.dev);
    const add_args args = {words.address, 1, 64};
    CHECK_INDEX(record_word(writer, hcq_view(in, 4, 4), 0, 4), 0);
    CHECK_OK(hcq_queue_variable(writer, 0, HCQ_PART_VALUE, 0, 0));
    CHECK_INDEX(hcq_queue_exec_indirect(q, add, &args, sizeof args, hcq_view(in, 4, 12),
                                        hcq_dim(most, 1, 1), hcq_dim(16, 1, 1)), writer == q);
    CHECK_INDEX(record_add(q, add, words, 63, 100), 1 + (writer == q));
}

/* One event for each command, also where several packets do it. */
static void check_indirect_profile(hcq_submission *s) {
    static const hcq_command_kind kinds[3] = {HCQ_COMMAND_WRITE, HCQ_COMMAND_EXEC,
                                              HCQ_COMMAND_EXEC};
    hcq_profile_event e[4];
    hcq_point done;
    uint32_t count = 0;
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(hcq_submit(T.dev, s, 1, &done));
    WAIT_OK(done);
    CHECK_OK(hcq_profile_stop(T.dev));
    CHECK_OK(hcq_profile_events(T.dev, e, 4, &count, NULL));
    CHECK_U64(count, 3);
    for (int32_t i = 0; i < 3; i++) {
        CHECK(e[i].kind == kinds[i] && e[i].command == i && e[i].begin_ns <= e[i].end_ns);
        CHECK(i == 0 || e[i - 1].end_ns <= e[i].begin_ns);
    }
}

/* Each run has its own, whether it waits or not: of a queue, behind another one, of a graph,
   a graph's input, bound or not. What is bound is not encoded again. */
static void grids_of_each_run(TEST_ARGS) {
    for (uint32_t way = 0; way < 8; way++) {
        const int behind = way < 2, graph = way >= 4, input = way >= 6;
        hcq_queue *q = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COMPUTE);
        hcq_queue *writer = behind ? make_queue(T.dev, HCQ_COMPUTE) : q;
        const hcq_buffer words = make_words(T.dev, 64), grids[2] = {make_counts(), make_counts()};
        const hcq_buffer in = input ? hcq_input(q, 1, NULL, 16) : grids[0];
        const hcq_point gate = make_gate(T.dev);
        uint32_t model[64] = {0};
        uint64_t copied = 0, x;
        hcq_submission s = submission(&q, 1);
        hcq_point done;
        hcq_command c;
        record_indirect(writer, q, words, in, 4);
        CHECK_OK(hcq_queue_command(q, !behind, &c));
        CHECK(c.kind == HCQ_COMMAND_EXEC && c.grid.x == 4 && c.grid.y == 1 && c.grid.z == 1);
        CHECK(c.args_size == sizeof(add_args) && c.grid_buffer.address == in.address + 4);
        CHECK_U64(c.grid_buffer.size, 12);
        CHECK_OK(way & 1 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(way & 1 && behind ? hcq_queue_bind(writer, T.dev) : HCQ_OK);
        s.waits = &gate;
        hcq_value values[2] = {hcq_number(0), hcq_number(0)};
        s.values = values;
        s.value_count = 2;
        for (uint64_t n = 0; n < 24; n++) {
            if (n == 4) {
                open_gate(gate);
                copied = test_query(T.dev, HCQ_QUERY_PACKETS_COPIED);
            }
            x = n % 5;
            s.wait_count = n < 4;
            values[0].number = x;
            values[1] = hcq_value_of(grids[n % 2]);
            s.flags = graph && n % 8 == 7 ? HCQ_STEP : 0;
            CHECK_OK(behind ? submit_variables(writer, &x, 1, NULL) : HCQ_OK);
            CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
            for (uint32_t i = 0; i < 64; i++) { model[i] += i < 16 * x; }
            model[63] += 100;
        }
        WAIT_OK(done);
        CHECK(!(way & 1) || graph || test_query(T.dev, HCQ_QUERY_PACKETS_COPIED) == copied);
        CHECK_BYTES(words, model, sizeof model);
        if (!behind && has_feature(HCQ_FEATURE_PROFILING)) {
            s.flags = 0;
            check_indirect_profile(&s);
        }
        hcq_queue_destroy(q);
    }
}

/* A grid above the maximum runs nothing and fails the submission; Vulkan does not see it, and
   refuses a maximum that the device could not run. */
static void grids_above_their_maximum(TEST_ARGS) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    const hcq_buffer words = make_words(T.dev, 64);
    uint64_t x = 5;
    hcq_error_info e;
    hcq_point done;
    record_indirect(q, q, words, make_counts(), is_vulkan() ? UINT32_MAX : 4);
    if (is_vulkan()) {
        CHECK_RESULT(submit_variables(q, &x, 1, NULL), HCQ_ERROR_LIMIT);
        return;
    }
    CHECK_OK(submit_variables(q, &x, 1, &done));
    CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, BOUND), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_device_error(T.dev, &e));
    CHECK(e.result == HCQ_ERROR_INVALID && e.command == 1 && strcmp(e.program, "add") == 0);
    CHECK(strstr(e.native, "above the maximum") != NULL);
    CHECK(READ32(words, 0) == 0 && READ32(words, 63) == 0);
    x = 4;
    CHECK_OK(submit_variables(q, &x, 1, &done));
    WAIT_OK(done);
    CHECK(READ32(words, 0) == 1 && READ32(words, 63) == 101);
}

#define INDIRECT_TESTS TEST(grids_of_each_run), TEST(grids_above_their_maximum)
