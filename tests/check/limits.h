/* limits.h - the checker's numbers: one below, at and above each. Part of races.c. */

/* As if nothing was told before: what was is forgotten with the last device, and P.dev is
   the only one. */
static int limits_setup(void **state) {
    int result = races_setup(state);
    CHECK_OK(hcq_close(T.dev));
    T.dev = NULL;
    return result;
}

#define TEST_ALONE(name) TEST_WITH(name, limits_setup, races_teardown)

static uint32_t times_in(const char *text, const char *word) {
    uint32_t times = 0;
    for (text = strstr(text, word); text != NULL; text = strstr(text + 1, word)) {
        times++;
    }
    return times;
}

/* `count` commands on one lane that fill a word each, and as many on the other one. */
static void fills_that_meet(uint32_t count) {
    hcq_buffer words = make_words(P.dev, count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(hcq_queue_fill(P.first, AT(words, i * 4, 4), 4, 7, 4) >= 0);
        CHECK(hcq_queue_fill(P.second, AT(words, i * 4, 4), 4, 8, 4) >= 0);
    }
    submit_both(0);
}

/* Of those that are told the texts of the last ones are kept. */
TEST_ALONE(pairs_that_are_told) {
    static const uint32_t counts[] = {31, 32, 33, 2047, 2048, 2049};
    static char text[1 << 17];
    for (uint32_t i = 0; i < 6; i++) {
        program_open(0);
        fills_that_meet(counts[i]);
        CHECK_U64(races_of(P.dev), counts[i] < 2048 ? counts[i] : 2048);
        (void)hcq_device_dump(P.dev, text, sizeof text);
        CHECK_U64(times_in(text, "nothing orders the two"), counts[i] < 32 ? counts[i] : 32);
        CHECK_U64(times_in(text, "command 0 (fill) of 'second', submission"), counts[i] < 33);
    }
}

/* Those leave half of the room to the others. */
TEST_ALONE(possible_pairs_that_are_told) {
    for (uint32_t count = 1023; count <= 1025; count++) {
        program_open(0);
        CHECK_INDEX(record_add(P.first, make_add(P.dev), P.x, 0, 5), 0);
        (void)submit_on(0, P.first, NULL);
        for (uint32_t i = 0; i < count; i++) {
            hcq_queue *q = make_queue(P.dev, HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_copy(q, AT(P.y, 0, 4), AT(P.x, 0, 4), 4), 0);
            hcq_point done = submit_on(1, q, NULL);
            DONE(done);                /* lines are lost where many come at once */
            hcq_queue_destroy(q);
        }
        CHECK_U64(races_of(P.dev), 0);
        settle();
        CHECK_U64(T.log.possible, count < 1024 ? count : 1024);
        CHECK_OK(hcq_queue_reset(P.first));
        fills_that_meet(1);
        CHECK_U64(races_of(P.dev), 1);
    }
}

/* Of `count` raises the last follows none: a wait for any of them is over before the first,
   or is taken for what follows that, if it is not looked at. */
TEST_ALONE(raises_that_a_wait_looks_at) {
    for (uint32_t count = 15; count <= 17; count++) {
        hcq_point first = {{0}, 0};
        program_open(0);
        hcq_queue *reader = labelled(HCQ_COPY, "reader");
        SET(P.first, P.x);
        for (uint32_t i = 1; i < count; i++) {
            hcq_point raise = hcq_at(P.signal, i);
            hcq_submission s = {.queues = &P.first, .queue_count = i == 1, .signals = &raise,
                                .signal_count = 1};
            CHECK_OK(hcq_submit(P.dev, &s, 1, i == 1 ? &first : NULL));
        }
        CHECK(hcq_queue_signal(P.second, hcq_at(P.signal, count)) >= 0);
        CHECK(hcq_queue_wait(reader, hcq_at(P.signal, 1)) >= 0);
        MOVE(reader, P.y, P.x);
        (void)submit_on(1, P.second, NULL);
        (void)submit_on(0, reader, NULL);
        CHECK_U64(races_of(P.dev), count <= 16);
    }
}

TEST_ALONE(hints_that_are_told) {
    for (uint32_t count = 63; count <= 65; count++) {
        char label[16];
        uint32_t told = 0;
        program_open(HCQ_DEVICE_CHECK_WAITS);
        hcq_point one = submit_on(0, P.first, NULL);
        for (uint32_t i = 0; i < count; i++) {
            snprintf(label, sizeof label, "waits%u", i);
            hcq_point done = submit_on(0, labelled(HCQ_COMPUTE, label), &one);
            DONE(done);
        }
        settle();
        for (uint32_t i = 0; i < count; i++) {
            snprintf(label, sizeof label, "waits%u", i);
            told += (uint32_t)hinted("wait", 0, label);
        }
        CHECK_U64(told, count < 64 ? count : 64);
    }
}

TEST_ALONE(waits_held_against_each_other) {
    for (uint32_t count = 15; count <= 17; count++) {
        hcq_point waits[17];
        program_open(HCQ_DEVICE_CHECK_WAITS);
        for (uint32_t i = 0; i < count; i++) {
            waits[i] = submit_on(0, P.first, NULL);
        }
        CHECK_OK(SUBMIT(P.dev, P.second, NULL, .waits = waits, .wait_count = count,
                        .affinity = 1));
        settle();
        CHECK(hinted("wait", 0, "second") == (count <= 16));
        CHECK(hinted("wait", count - 2, "second") == (count <= 16));
        CHECK(!hinted("wait", count - 1, "second"));
    }
}

TEST_ALONE(ranges_that_a_kernel_is_watched_at) {
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    for (uint32_t count = 63; count <= 65; count++) {
        program_open(HCQ_DEVICE_CHECK_READS);
        scribble_args args = {P.x.address, 0, count - 1, 5};
        hcq_program *program = make_scribble(HCQ_ARG_U64);
        CHECK_INDEX(hcq_queue_exec(P.first, program, &args, sizeof args, dims_one, dims_one), 0);
        for (uint32_t i = 0; i < count; i++) {
            CHECK_OK(hcq_queue_access(P.first, 0, AT(P.x, 0, i + 1), HCQ_ARG_IN));
        }
        (void)submit_on(0, P.first, NULL);
        CHECK_U64(races_of(P.dev), count <= 64);
    }
}

/* The longest names there are. */
TEST_ALONE(lines_are_whole) {
    static char text[1 << 16];
    const char *end = "wait for 'a signal whose name fills it up' at 9223372036854775807, which is "
                      "raised behind the first, before command 0 of 'two queues with such a name "
                      "...'\n";
    program_open_with((hcq_device_desc){.label = "a device whose name fills it up"});
    CHECK_OK(hcq_queue_label(P.first, "one queue whose name fills it.."));
    CHECK_OK(hcq_queue_label(P.second, "two queues with such a name ..."));
    CHECK_OK(hcq_signal_label(P.signal, "a signal whose name fills it up"));
    CHECK_OK(hcq_queue_command_label(P.first, hcq_queue_fill(P.first, P.x, BYTES, 7, 4),
                                     "a command with a name of 31 ..."));
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, INT64_MAX)) >= 0);
    CHECK_OK(hcq_queue_command_label(P.second, hcq_queue_fill(P.second, P.x, BYTES, 7, 4),
                                     "another one with a name of 31 ."));
    submit_both(0);
    CHECK_U64(races_of(P.dev), 1);
    settle();
    CHECK(log_has(end));
    (void)hcq_device_dump(P.dev, text, sizeof text);
    CHECK(strstr(text, end) != NULL);
    CHECK(strstr(text, "of 'a device whose name fills it up',\n") != NULL);
}

/* What devices share is not of the first one's memory, which may close before others. */
TEST_ALONE(memory_behind_the_first_device) {
    static test_memory own;
    memset(&own, 0, sizeof own);
    hcq_device *first = OPEN_WITH(0, .memory = {test_hook_alloc, test_hook_free, &own});
    program_open(0);
    SET(P.first, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    DONE(done);
    CHECK_OK(hcq_close(first));
    CHECK_U64(own.blocks, 0);
}
