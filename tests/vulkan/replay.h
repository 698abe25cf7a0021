/* replay.h - bound queues: what a submit records anew and what it only
   writes. Part of vulkan.c. */

static hcq_queue *bound_adds(hcq_device *device, hcq_program *add, hcq_buffer words,
                             uint32_t count, uint32_t *model, uint32_t model_words) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_INDEX(record_add(q, add, words, i % model_words, i + 1), i);
        model[i % model_words] += i + 1;
    }
    CHECK_OK(hcq_queue_bind(q, device));
    return q;
}

static void replay_records_nothing(void **state) {
    (void)state;
    enum { COMMANDS = 200, TIMES = 50, WORDS = 16 };
    uint32_t sums[WORDS] = {0};
    hcq_buffer words = make_words(T.dev, WORDS);
    counts before = counts_now(T.dev);
    hcq_queue *q = bound_adds(T.dev, make_add(T.dev), words, COMMANDS, sums, WORDS);
    counts bound = counts_since(T.dev, &before);
    CHECK(bound.recorded >= COMMANDS && bound.recordings >= 1);
    CHECK_U64(bound.recorded, COMMANDS * bound.recordings); /* one buffer a version */
    hcq_point done;
    submit_and_wait(q, T.dev);
    before = counts_now(T.dev);
    for (uint32_t i = 1; i < TIMES; i++) {
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    }
    WAIT_OK(done);
    counts c = counts_since(T.dev, &before);
    CHECK_U64(c.recorded, 0);
    CHECK_U64(c.recordings, 0);
    CHECK_U64(c.batches, TIMES - 1);
    CHECK_U64(c.calls, 0);
    for (uint32_t i = 0; i < WORDS; i++) {
        sums[i] *= TIMES;
    }
    CHECK_BYTES(words, sums, sizeof sums);
}

static void patched_arguments_are_data(void **state) {
    (void)state;
    enum { COMMANDS = 60, TIMES = 60, WORDS = 16 };
    uint32_t sums[WORDS] = {0}, where[COMMANDS], value[COMMANDS];
    hcq_buffer words = make_words(T.dev, WORDS);
    hcq_queue *q = bound_adds(T.dev, make_add(T.dev), words, COMMANDS, sums, WORDS);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        where[i] = i % WORDS;
        value[i] = i + 1;
    }
    memset(sums, 0, sizeof sums);
    counts before = counts_now(T.dev);
    hcq_point done;
    for (uint32_t k = 0; k < TIMES; k++) {
        uint32_t at = k * 7 % COMMANDS, other = k * 11 % COMMANDS;
        value[at] = 1000 + k;
        where[other] = k % WORDS;
        uint64_t address = words.address + where[other] * 4;
        CHECK_OK(hcq_queue_update_arg(q, at, 1, &value[at], 4));
        CHECK_OK(hcq_queue_update_arg(q, other, 0, &address, 8));
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        for (uint32_t i = 0; i < COMMANDS; i++) {
            sums[where[i]] += value[i];
        }
    }
    WAIT_OK(done);
    counts c = counts_since(T.dev, &before);
    CHECK_U64(c.recorded, 0);
    CHECK_U64(c.recordings, 0);
    CHECK_U64(c.calls, 0);
    CHECK_BYTES(words, sums, sizeof sums);
}

/* Adds to as many words as the grid has blocks; the model does the same. */
static int32_t record_adds(hcq_queue *q, hcq_program *add, hcq_buffer words, uint32_t blocks) {
    add_args args = {words.address, 1, 0xffffffffu};
    return hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(blocks, 1, 1), hcq_dim(1, 1, 1));
}

static void model_adds(uint32_t *model, uint32_t blocks) {
    for (uint32_t i = 0; i < blocks; i++) {
        model[i]++;
    }
}

/* The first change of a grid makes it data, for each version once. */
static void patched_grids_with(uint32_t slots) {
    enum { COMMANDS = 20, WORDS = 64 };
    uint32_t model[WORDS] = {0}, grid[COMMANDS];
    hcq_device *dev = device_with(0, slots);
    hcq_program *add = make_add(dev);
    hcq_buffer words = make_words(dev, WORDS);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        grid[i] = i;                   /* 0 too */
        CHECK_INDEX(record_adds(q, add, words, i), i);
    }
    CHECK_OK(hcq_queue_bind(q, dev));
    uint64_t recorded = 0, recordings = 0;
    for (uint32_t k = 0; k < 40; k++) {
        grid[3] = (k * 13 + 1) % WORDS;
        hcq_dims dims = hcq_dim(grid[3], 1, 1);
        counts before = counts_now(dev);
        CHECK_OK(hcq_queue_update_exec(q, 3, &dims, NULL));
        submit_and_wait(q, dev);
        counts c = counts_since(dev, &before);
        CHECK(k < slots || c.recorded == 0);
        recorded += c.recorded;
        recordings += c.recordings;
        for (uint32_t i = 0; i < COMMANDS; i++) {
            model_adds(model, grid[i]);
        }
        CHECK_BYTES(words, model, sizeof model);
    }
    CHECK(recordings >= 1 && recordings <= slots);
    CHECK_U64(recorded, COMMANDS * recordings);
    CHECK_OK(hcq_close(dev));
}

static void patched_grids_become_data(void **state) {
    (void)state;
    patched_grids_with(1);
    patched_grids_with(2);
}

static void variable_grids_are_data(void **state) {
    (void)state;
    enum { COMMANDS = 10, WORDS = 64 };
    uint32_t model[WORDS] = {0};
    hcq_program *add = make_add(T.dev);
    hcq_buffer words = make_words(T.dev, WORDS);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        CHECK_INDEX(record_adds(q, add, words, WORDS), i);
    }
    CHECK_OK(hcq_queue_variable(q, 4, HCQ_PART_GRID_X, 0, 0));
    CHECK_OK(hcq_queue_variable(q, 5, HCQ_PART_GRID_X, 1, 0));
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t k = 0; k < 40; k++) {
        counts before = counts_now(T.dev);
        uint64_t values[2] = {k * 5 % (WORDS + 1), WORDS - k};
        hcq_point done;
        submit_values(q, T.dev, values, 2, &done);
        WAIT_OK(done);
        CHECK_U64(counts_since(T.dev, &before).recordings, 0);
        for (uint32_t i = 0; i < COMMANDS; i++) {
            model_adds(model, i == 4 || i == 5 ? (uint32_t)values[i - 4] : WORDS);
        }
        CHECK_BYTES(words, model, sizeof model);
    }
}

static void written_values_are_data(void **state) {
    (void)state;
    hcq_buffer words = make_words(T.dev, 16);
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_write(q, words, 1, 4), 0);
    CHECK_INDEX(hcq_queue_write(q, hcq_view(words, 8, 8), 2, 8), 1);
    CHECK_INDEX(hcq_queue_write(q, hcq_view(words, 16, 4), 3, 4), 2);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_VALUE, 1, 0));
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t k = 0; k < 40; k++) {
        counts before = counts_now(T.dev);
        uint64_t values[2] = {0xfffffff0u + k, 0x123456789abcdefull * k};
        uint32_t model[8] = {(uint32_t)values[0], 0, (uint32_t)values[1],
                             (uint32_t)(values[1] >> 32), 3, 0, 0, 0};
        hcq_point done;
        submit_values(q, T.dev, values, 2, &done);
        WAIT_OK(done);
        CHECK_U64(counts_since(T.dev, &before).recordings, 0);
        CHECK_BYTES(words, model, sizeof model);
    }
}

/* ---- what is recorded anew ---- */

enum {
    PART_WORDS = 64,
    PART_A = 10,                       /* adds, then a wait, ... */
    PART_COPY = PART_A + 1,            /* ... a copy and adds, a wait, ... */
    PART_B = 5,
    PART_FILL = PART_COPY + 1 + PART_B + 1, /* ... a fill and adds */
    PART_C = 7
};

typedef struct parted {
    hcq_device *dev;
    hcq_queue *q;
    hcq_buffer words, src;
    uint32_t model[PART_WORDS], source[PART_WORDS];
    uint64_t copy_bytes, fill_value;
    uint32_t block;                    /* of command 2 */
} parted;

static void parted_model(parted *p) {
    p->model[0] += PART_A - 1;
    model_adds(p->model, p->block);
    memcpy(p->model, p->source, p->copy_bytes);
    for (uint32_t i = 0; i < PART_B; i++) {
        model_adds(p->model, 3);
    }
    for (uint32_t i = 32; i < 48; i++) {
        p->model[i] = (uint32_t)p->fill_value;
    }
    for (uint32_t i = 0; i < PART_C; i++) {
        model_adds(p->model, 40);
    }
}

/* Waits for what is reached cut the recording. */
static void parted_record(parted *p) {
    hcq_program *add = make_add(p->dev);
    hcq_point reached = hcq_at(make_signal(p->dev, 1), 1);
    add_args args = {p->words.address, 1, 0xffffffffu};
    p->q = make_queue(p->dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < PART_A; i++) {
        CHECK_INDEX(hcq_queue_exec(p->q, add, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), i);
    }
    CHECK(hcq_queue_wait(p->q, reached) == PART_A);
    CHECK(hcq_queue_copy(p->q, p->words, p->src, sizeof p->source) == PART_COPY);
    for (uint32_t i = 0; i < PART_B; i++) {
        CHECK(record_adds(p->q, add, p->words, 3) > 0);
    }
    CHECK(hcq_queue_wait(p->q, reached) == PART_FILL - 1);
    CHECK(hcq_queue_fill(p->q, hcq_view(p->words, 32 * 4, 16 * 4), 16 * 4, 7, 4) == PART_FILL);
    for (uint32_t i = 0; i < PART_C; i++) {
        CHECK(record_adds(p->q, add, p->words, 40) > 0);
    }
    CHECK_OK(hcq_queue_variable(p->q, PART_FILL, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_bind(p->q, p->dev));
}

static void parted_open(parted *p) {
    memset(p, 0, sizeof *p);
    p->dev = device_with(0, 1);
    p->words = make_words(p->dev, PART_WORDS);
    p->src = make_words(p->dev, PART_WORDS);
    p->copy_bytes = sizeof p->source;
    p->fill_value = 7;
    p->block = 1;
    for (uint32_t i = 0; i < PART_WORDS; i++) {
        p->source[i] = i * 1000;
    }
    CHECK_OK(hcq_copyin(p->src, p->source, sizeof p->source));
    parted_record(p);
}

static void parted_run(const char *file, int line, parted *p, uint64_t commands,
                       uint64_t recordings) {
    counts before = counts_now(p->dev);
    hcq_point done;
    submit_values(p->q, p->dev, &p->fill_value, 1, &done);
    WAIT_OK(done);
    counts c = counts_since(p->dev, &before);
    test_number(file, line, "commands recorded", c.recorded, commands);
    test_number(file, line, "command buffers recorded", c.recordings, recordings);
    parted_model(p);
    test_bytes(file, line, p->words, p->model, sizeof p->model);
}
#define RUN(p, commands, recordings) \
    parted_run(__FILE__, __LINE__, (p), (commands), (recordings))

/* Copies, fills and blocks record the run of commands that they are in. */
static void segments_are_recorded_alone(void **state) {
    (void)state;
    parted p;
    parted_open(&p);
    submit_values(p.q, p.dev, &p.fill_value, 1, NULL); /* the variable's first value */
    parted_model(&p);
    RUN(&p, 0, 0);
    p.copy_bytes = 20 * 4;
    CHECK_OK(hcq_queue_update_copy(p.q, PART_COPY, NULL, NULL, p.copy_bytes));
    RUN(&p, 1 + PART_B, 1);
    RUN(&p, 0, 0);
    p.fill_value = 9;
    RUN(&p, 1 + PART_C, 1);
    RUN(&p, 0, 0);
    p.block = 5;
    hcq_dims block = hcq_dim(5, 1, 1);
    uint64_t pipelines = COUNT(p.dev, PIPELINES);
    CHECK_OK(hcq_queue_update_exec(p.q, 2, NULL, &block));
    RUN(&p, PART_A, 1);
    CHECK_U64(COUNT(p.dev, PIPELINES), pipelines + 1);
    RUN(&p, 0, 0);
    p.copy_bytes = 4;
    p.fill_value = 11;
    p.block = 1;
    block.x = 1;
    CHECK_OK(hcq_queue_update_copy(p.q, PART_COPY, NULL, NULL, p.copy_bytes));
    CHECK_OK(hcq_queue_update_exec(p.q, 2, NULL, &block));
    RUN(&p, PART_A + 1 + PART_B + 1 + PART_C, 3);
    CHECK_U64(COUNT(p.dev, PIPELINES), pipelines + 1); /* it is still there */
    CHECK_OK(hcq_close(p.dev));
}
#undef RUN

/* Submissions of one bound queue that run at once keep to their own arguments. */
static void submissions_in_flight_differ(void **state) {
    (void)state;
    enum { TIMES = 60 };
    uint32_t want[TIMES];
    hcq_device *dev = device_with(0, 8);
    hcq_program *heavy = make_heavy(dev);
    hcq_buffer work = make_words(dev, HEAVY), dst = make_words(dev, TIMES);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE);
    uint64_t most = 0;
    hcq_point done;
    CHECK_INDEX(record_heavy(q, heavy, work, dst, 0, 0), 0);
    CHECK_INDEX(record_heavy(q, heavy, work, dst, 0, 0), 1);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(hcq_queue_variable(q, i, HCQ_PART_ARG + 3, 0, 0));
        CHECK_OK(hcq_queue_variable(q, i, HCQ_PART_ARG + 4, 1, 0));
    }
    CHECK_OK(hcq_queue_bind(q, dev));
    counts before = counts_now(dev);
    for (uint32_t k = 0; k < TIMES; k++) {
        uint64_t values[2] = {(k * 37) % TIMES, 1000 + k};
        want[values[0]] = (uint32_t)values[1];
        submit_values(q, dev, values, 2, &done);
        uint64_t pending = test_query(dev, HCQ_QUERY_PENDING);
        most = pending > most ? pending : most;
    }
    WAIT_OK(done);
    CHECK(most >= 4);
    counts c = counts_since(dev, &before);
    CHECK_U64(c.recorded, 0);
    CHECK_BYTES(dst, want, sizeof want);
    CHECK_OK(hcq_close(dev));
}

#define REPLAY_TESTS                                                               \
    TEST(replay_records_nothing), TEST(patched_arguments_are_data),                \
    TEST(patched_grids_become_data), TEST(variable_grids_are_data),                \
    TEST(written_values_are_data), TEST(segments_are_recorded_alone),              \
    TEST(submissions_in_flight_differ),
