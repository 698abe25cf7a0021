/* indirect.h - grids that a kernel reads from memory when it runs. Part of conformance.c. */

/* Records x, a variable, into words 1, 1, 1, 1, of which the last three are the grid. */
static void record_x(hcq_queue *q, hcq_buffer in) {
    const int32_t at = hcq_queue_count(q);
    CHECK_INDEX(hcq_queue_fill(q, in, 16, 1, 4), at);
    CHECK_INDEX(record_word(q, hcq_view(in, 4, 4), 0, 4), at + 1);
    CHECK_OK(hcq_queue_variable(q, at + 1, HCQ_PART_VALUE, 0, 0));
}

/* x times 16 of 64 words become larger by 1, then the last by 100; before that nothing, but
   so often that one change is better patched than all encoded again. Returns where. */
static int32_t record_indirect(hcq_queue *q, hcq_buffer words, hcq_buffer in, uint32_t most) {
    hcq_program *add = make_add(T.dev);
    const add_args args = {words.address, 1, 64};
    for (uint32_t i = 0; i < 8; i++) {
        CHECK(record_add(q, add, words, 63, 0) >= 0);
    }
    const int32_t at = hcq_queue_count(q);
    CHECK_INDEX(hcq_queue_exec_indirect(q, add, &args, sizeof args, hcq_view(in, 4, 12),
                                        hcq_dim(most, 1, 1), hcq_dim(16, 1, 1)), at);
    CHECK_INDEX(record_add(q, add, words, 63, 100), at + 1);
    return at;
}

/* One event for each command, also where several packets do it. */
static void check_indirect_profile(hcq_submission *s, int32_t first) {
    hcq_profile_event e[16];
    hcq_point done;
    uint32_t count = 0;
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(hcq_submit(T.dev, s, 1, &done));
    WAIT_OK(done);
    CHECK_OK(hcq_profile_stop(T.dev));
    CHECK_OK(hcq_profile_events(T.dev, e, 16, &count, NULL));
    CHECK(count >= 10 && count <= 12);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(i + 2 < count || (e[i].kind == HCQ_COMMAND_EXEC && e[i].command >= first));
        CHECK(e[i].begin_ns <= e[i].end_ns && (i == 0 || e[i - 1].end_ns <= e[i].begin_ns));
    }
}

/* Who writes the grid before each run, which is bound with an odd number: */
enum {
    IN_BEFORE = 0,                     /* another queue; one that is its own */
    IN_QUEUE = 2,
    IN_GRAPH = 4,                      /* it is a graph, in memory of its own */
    IN_INPUT = 6,                      /* ... other queues in turn, it is the input */
    IN_WAYS = 8
};

/* Each run has its own, whether it was held or not. What is bound is not encoded again. */
TEST(grids_of_each_run) {
    for (uint32_t way = 0; way < IN_WAYS; way++) {
        const uint32_t who = way & ~1u;
        const hcq_buffer words = make_words(T.dev, 64);
        hcq_queue *q = make_queue(T.dev, way < IN_GRAPH ? HCQ_COMPUTE : HCQ_GRAPH);
        const hcq_point gate = make_gate(T.dev);
        hcq_queue *writers[6];         /* more than versions, each of which keeps its input */
        hcq_buffer grids[6], in;
        uint32_t model[64] = {0};
        uint64_t copied = 0, x;
        hcq_submission s = submission(&q, 1);
        hcq_point done;
        hcq_command c;
        for (uint32_t k = 0; k < 6; k++) {
            writers[k] = make_queue(T.dev, HCQ_COMPUTE);
            grids[k] = make_words(T.dev, 4);
            record_x(writers[k], grids[k]);
            CHECK_OK(way & 1 ? hcq_queue_bind(writers[k], T.dev) : HCQ_OK);
        }
        in = who == IN_INPUT ? hcq_graph_input(q, 0, NULL, 16) : grids[0];
        if (who == IN_GRAPH) {
            CHECK_INDEX(hcq_graph_alloc(q, NULL, 16, 0, &in), 0);
        }
        if (who == IN_QUEUE || who == IN_GRAPH) {
            record_x(q, in);
        }
        const int32_t at = record_indirect(q, words, in, 4);
        CHECK_OK(hcq_queue_command(q, at, &c));
        CHECK(c.kind == HCQ_COMMAND_EXEC && c.grid.x == 4 && c.grid.y == 1 && c.grid.z == 1);
        CHECK(c.args_size == sizeof(add_args) && c.grid_buffer.address == in.address + 4);
        CHECK_U64(c.grid_buffer.size, 12);
        CHECK_OK(way & 1 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        s.waits = &gate;
        hcq_value value;
        s.values = &value;
        s.value_count = 1;
        for (uint64_t n = 0; n < 24; n++) {
            const uint32_t turn = who == IN_INPUT ? (uint32_t)(n % 6) : 0;
            if (n == 4) {
                open_gate(gate);
                copied = test_query(T.dev, HCQ_QUERY_PACKETS_COPIED);
            }
            x = n % 5;
            s.wait_count = n < 4;
            value = who == IN_INPUT ? hcq_value_buffer(grids[turn]) : hcq_value_number(x);
            s.flags = way >= IN_GRAPH && n % 8 == 7 ? HCQ_STEP : 0;
            if (who == IN_BEFORE || who == IN_INPUT) {
                CHECK_OK(submit_variables(writers[turn], &x, 1, NULL));
            }
            CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
            for (uint32_t i = 0; i < 64; i++) { model[i] += i < 16 * x; }
            model[63] += 100;
        }
        WAIT_OK(done);
        CHECK(way >= IN_GRAPH || !(way & 1) ||
              test_query(T.dev, HCQ_QUERY_PACKETS_COPIED) == copied);
        CHECK_BYTES(words, model, sizeof model);
        if (has_feature(HCQ_FEATURE_PROFILING)) {
            s.flags = 0;
            check_indirect_profile(&s, at);
            for (uint32_t i = 0; i < 64; i++) { model[i] += i < 16 * x; }
            model[63] += 100;
            CHECK_BYTES(words, model, sizeof model);
        }
    }
}

/* A grid above the maximum runs nothing and fails the submission; Vulkan does not see it, and
   refuses a maximum that the device could not run. */
TEST(grids_above_their_maximum) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *g = make_queue(T.dev, HCQ_GRAPH);
    const hcq_buffer words = make_words(T.dev, 64), in = make_words(T.dev, 4);
    uint64_t x = 5;
    hcq_error_info e;
    hcq_point done;
    record_x(q, in);
    CHECK_INDEX(record_indirect(q, words, in, is_vulkan() ? UINT32_MAX : 4), 10);
    if (is_vulkan()) {
        CHECK_RESULT(submit_variables(q, &x, 1, NULL), HCQ_ERROR_LIMIT);
        return;
    }
    CHECK_OK(submit_variables(q, &x, 1, &done));
    CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, BOUND), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_device_error_take(T.dev, &e));
    CHECK(e.result == HCQ_ERROR_INVALID && e.command == 10 && strcmp(e.program, "add") == 0);
    CHECK(strstr(e.native, "above the maximum") != NULL);
    CHECK_INDEX(hcq_queue_append(g, q), 0);
    const hcq_value five = hcq_value_number(x);
    CHECK_RESULT(SUBMIT(T.dev, g, NULL, .flags = HCQ_STEP, .values = &five,
                        .value_count = 1), HCQ_ERROR_INVALID);
    CHECK(READ32(words, 0) == 0 && READ32(words, 63) == 0);
    x = 4;
    CHECK_OK(submit_variables(q, &x, 1, &done));
    WAIT_OK(done);
    CHECK(READ32(words, 0) == 1 && READ32(words, 63) == 101);
}

/* Side by side they do not share what they read. */
TEST(grids_of_unordered_runs) {
    hcq_queue *part = make_queue(T.dev, HCQ_COMPUTE), *q = make_queue(T.dev, HCQ_COMPUTE);
    const hcq_buffer words = make_words(T.dev, 4);
    const uint32_t ones[4] = {1, 1, 1, 0};
    const put_args args = {words.address, 3, 77};
    hcq_point done;
    CHECK_OK(hcq_copyin(words, ones, sizeof ones));
    CHECK_INDEX(hcq_queue_exec_indirect(part, make_put(T.dev), &args, sizeof args, words,
                                        hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_INDEX(hcq_queue_append(q, part), 0);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    for (uint32_t n = 0; n < 100; n++) {
        CHECK_OK(submit_queue(q, T.dev, NULL, NULL, HCQ_UNORDERED, &done));
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(READ32(words, 3), 77);
}
