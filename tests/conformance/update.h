/* Updates, variables, binding. Part of conformance.c. */

/* The first words, and the last ones, from `half` on. */
static void check_halves(hcq_buffer buffer, uint32_t half, uint32_t first, uint32_t last) {
    uint32_t want[64];
    for (uint32_t i = 0; i < 64; i++) {
        want[i] = i < half ? first : last;
    }
    CHECK_BYTES(buffer, want, sizeof want);
}

/* Each kind of update, bound and unbound: values and sizes change and the objects are
   kept, and the other way round; what is read back is current. */
TEST(updates_of_each_kind) {
    const hcq_dims all = {64, 1, 1}, half = {32, 1, 1}, one = {1, 1, 1}, two = {2, 1, 1};
    const uint32_t ten = 10;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64), c = make_words(T.dev, 64);
        hcq_signal s = make_signal(T.dev, 1), t = make_signal(T.dev, 0);
        hcq_signal s2 = make_signal(dev2(), 7), t2 = make_signal(dev2(), 0);
        const add_args args = {a.address, 1, 64};
        const hcq_buffer from = hcq_view(a, 128, 128);
        uint64_t stamp = 0;
        hcq_command cmd;
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), 0);
        CHECK_INDEX(hcq_queue_exec(q, make_add(T.dev), &args, sizeof args, all, one), 1);
        CHECK_INDEX(hcq_queue_copy(q, b, a, 256), 2);
        CHECK_INDEX(hcq_queue_timestamp(q, t), 3);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(t, 1)), 4);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        check_halves(b, 64, 1, 1);
        CHECK_OK(hcq_queue_update_wait(q, 0, NULL, 2));
        CHECK_OK(hcq_queue_update_signal(q, 4, NULL, 2));
        CHECK_OK(hcq_queue_update_exec(q, 1, &half, NULL));
        CHECK_OK(hcq_queue_update_arg(q, 1, 8, &ten, 4));
        CHECK_OK(hcq_queue_update_copy(q, 2, NULL, NULL, 64));
        CHECK_OK(hcq_signal_set(s, 2));
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        WAIT_OK(hcq_at(t, 2));
        check_halves(a, 32, 11, 1);
        check_halves(b, 16, 11, 1);
        CHECK_OK(hcq_queue_update_wait(q, 0, &s2, HCQ_KEEP));
        CHECK_OK(hcq_queue_update_signal(q, 3, &t2, HCQ_KEEP));
        CHECK_OK(hcq_queue_update_signal(q, 4, &t2, HCQ_KEEP));
        CHECK_OK(hcq_queue_update_exec(q, 1, NULL, &two)); /* 32 blocks of 2 */
        CHECK_OK(hcq_queue_update_copy(q, 2, &c, &from, HCQ_KEEP));
        CHECK_OK(hcq_queue_update_arg(q, 1, 0, &b.address, 8));
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        WAIT_OK(hcq_at(t2, 2));
        CHECK_OK(hcq_signal_timestamp(t2, &stamp));
        CHECK(stamp != 0);
        check_halves(a, 32, 11, 1);
        check_halves(b, 16, 21, 11);
        check_halves(c, 16, 1, 0);
        CHECK_OK(hcq_queue_command(q, 2, &cmd));
        CHECK(cmd.dst.address == c.address && cmd.src.address == from.address && cmd.size == 64);
        CHECK(cmd.dst.id == c.id && cmd.src.id == from.id);
        CHECK_OK(hcq_queue_command(q, 1, &cmd));
        CHECK(cmd.grid.x == 32 && cmd.block.x == 2);
        CHECK_U64(((const add_args *)cmd.args)->value, 10);
    }
}

/* Grid, arguments, value and size as variables: what each submission says, or nothing. */
TEST(variables_of_each_kind) {
    enum { GRID, ADDED, VALUE, SIZE, WORDS = 64 };
    static const struct { uint64_t v[4]; uint32_t count, to; hcq_result want; } rows[] = {
        {{8, 3, 77, 16}, 0, 0, HCQ_ERROR_INVALID},   /* none given */
        {{8, 3, 77, 16}, 4, 0, HCQ_ERROR_INVALID},   /* one short */
        {{8, 3, 77, 16}, 5, 0, HCQ_OK},
        {{64, 100, 5, 64}, 5, 1, HCQ_OK},
        {{65, 100, 5, 64}, 5, 1, HCQ_ERROR_INVALID}, /* too wide */
        {{64, 100, 5, 257}, 5, 1, HCQ_ERROR_INVALID}, /* too long */
        {{0, 100, 6, 32}, 5, 1, HCQ_OK},             /* an empty grid is legal */
    };
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer buffers[3] = {make_words(T.dev, WORDS), make_words(T.dev, WORDS),
                                 make_words(T.dev, WORDS)};
        uint32_t words[3][WORDS] = {{0}};
        add_args args = {buffers[0].address, 0, WORDS};
        CHECK_INDEX(hcq_queue_fill(q, buffers[1], 64, 0, 4), 0);
        CHECK_INDEX(hcq_queue_exec(q, make_add(T.dev), &args, sizeof args, hcq_dim(16, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(record_word(q, hcq_view(buffers[0], 252, 4), 1, 4), 2);
        CHECK_INDEX(hcq_queue_copy(q, buffers[2], buffers[0], 256), 3);
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_GRID_X, GRID, 64));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG + offsetof(add_args, value), ADDED, 0));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG, 4, 0));
        CHECK_OK(hcq_queue_variable(q, 2, HCQ_PART_VALUE, VALUE, 0));
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_VALUE, VALUE, 0));
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_SIZE, SIZE, 0));
        CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_SIZE, SIZE, 0));
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const uint64_t *v = rows[i].v, to = buffers[rows[i].to].address;
            const uint64_t given[5] = {v[GRID], v[ADDED], v[VALUE], v[SIZE], to};
            CHECK_RESULT(submit_variables(q, given, rows[i].count, NULL), rows[i].want);
            for (uint32_t k = 0; rows[i].want == HCQ_OK && k < WORDS; k++) {
                words[1][k] = k < v[SIZE] / 4 ? (uint32_t)v[VALUE] : words[1][k];
                words[rows[i].to][k] += k < v[GRID] ? (uint32_t)v[ADDED] : 0;
                words[0][k] = k == WORDS - 1 ? (uint32_t)v[VALUE] : words[0][k];
                words[2][k] = k < v[SIZE] / 4 ? words[0][k] : words[2][k];
            }
            for (uint32_t k = 0; k < 3; k++) {
                CHECK_BYTES(buffers[k], words[k], sizeof words[k]);
            }
        }
    }
}

typedef struct encoded { uint64_t copied, patched, encodes; } encoded;

/* What both devices have encoded so far. */
static encoded encoded_now(void) {
    hcq_device *devices[2] = {T.dev, dev2()};
    encoded e = {0, 0, 0};
    for (uint32_t d = 0; d < 2; d++) {
        CHECK_OK(hcq_device_synchronize(devices[d], BOUND));
        e.copied += test_query(devices[d], HCQ_QUERY_PACKETS_COPIED);
        e.patched += test_query(devices[d], HCQ_QUERY_PACKETS_PATCHED);
        e.encodes += is_mock() ? test_query(devices[d], MOCK_QUERY_ENCODES) : 0;
    }
    return e;
}

/* A bound queue, or graph, is encoded once: submitting again copies no commands, and
   patches only what has changed, once per version. For who waits after each update one
   version suffices: what the other one lacks is not patched. */
TEST(bound_queues_are_encoded_once) {
    enum { COMMANDS = 40, FIRST = 10, ROUNDS = 100, UPDATED = 7 };
    for (uint32_t graph = 0; graph < 2; graph++) {
        hcq_queue *q = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COMPUTE);
        hcq_program *add[2] = {make_add(T.dev), make_add(dev2())};
        hcq_buffer a[2] = {make_words(T.dev, COMMANDS), make_words(dev2(), COMMANDS)};
        encoded begun = {0, 0, 0}, same = {0, 0, 0};
        for (uint32_t i = 0; i < COMMANDS; i++) {
            const uint32_t d = graph ? i % 2 : 0;
            CHECK_INDEX(record_add(q, add[d], a[d], i, 1), (int32_t)i);
        }
        CHECK_OK(hcq_queue_bind(q, T.dev));
        for (uint32_t i = 0; i < FIRST + 2 * ROUNDS; i++) {
            const uint32_t value = i < FIRST ? 1 : i - FIRST - ROUNDS;
            if (i == FIRST) {          /* all versions are made */
                begun = encoded_now();
            }
            if (i == FIRST + ROUNDS) { /* and nothing has changed */
                same = encoded_now();
            }
            if (i < FIRST || i >= FIRST + ROUNDS) {
                CHECK_OK(hcq_queue_update_arg(q, UPDATED, 8, &value, 4));
            }
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        }
        encoded end = encoded_now();
        CHECK(end.copied == begun.copied && end.encodes == begun.encodes);
        CHECK(same.patched <= begun.patched + 2);
        CHECK(end.patched <= begun.patched + 2 * ROUNDS + 8);
        CHECK_U64(READ32(a[0], 6), 2 * ROUNDS + FIRST);
        CHECK_U64(READ32(a[graph], UPDATED), ROUNDS + FIRST + ROUNDS * (ROUNDS - 1) / 2);
        for (uint32_t i = 0; i < ROUNDS && !graph; i++) {
            CHECK_OK(hcq_queue_update_arg(q, (int32_t)(i % COMMANDS), 8, &i, 4));
            RUN_OK(q, T.dev);
        }
        CHECK(graph || encoded_now().patched <= end.patched + ROUNDS + 2);
    }
}

/* What has run is bound with all versions that a bound queue has; once. */
TEST(bound_after_a_run) {
    hcq_device *device = OPEN_WITH(0, .versions = 3);
    hcq_buffer words = make_words(device, 1);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    uint64_t copied = 0;
    CHECK_INDEX(record_add(q, make_add(device), words, 0, 1), 0);
    for (uint32_t bound = 0; bound < 3; bound++) {
        CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
        uint64_t now = test_query(device, HCQ_QUERY_PACKETS_COPIED);
        CHECK(bound == 1 ? now >= 3 : now == copied);
        CHECK_OK(hcq_queue_submit(q, device, NULL));
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        copied = bound ? now : 0;
    }
    CHECK_U64(READ32(words, 0), 3);
    CHECK_OK(hcq_close(device));
}

/* ---- which version is taken ---- */

enum { LEAST_WORDS = 6 };

/* Writes `value` of the submission to the first word, and what updates say to others. */
static void least_record(hcq_queue *q, hcq_program *put, hcq_buffer out) {
    CHECK_OK(hcq_queue_reset(q));
    for (uint32_t i = 0; i < LEAST_WORDS; i++) {
        CHECK_INDEX(record_put(q, put, out, i, 0), (int32_t)i);
    }
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG + offsetof(put_args, value), 0, 0));
}

static void least_update(hcq_queue *q, uint32_t value) {
    for (int32_t i = 1; i < LEAST_WORDS; i++) {
        CHECK_OK(hcq_queue_update_arg(q, i, 12, &value, 4));
    }
}

/* Submits and looks how much was done for it: the newest version was taken. */
static void least_check(hcq_queue *q, hcq_buffer out, int anew, uint32_t value) {
    const uint64_t variable = value;
    const uint32_t want[3] = {value, value, value};
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    if (anew) {                        /* it is not current either */
        least_update(q, value);
    }
    uint64_t copied = test_query(T.dev, HCQ_QUERY_PACKETS_COPIED);
    uint64_t patched = test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED);
    CHECK_OK(submit_variables(q, &variable, 1, NULL));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_PACKETS_COPIED), copied);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED), patched + (anew ? LEAST_WORDS : 1));
    CHECK_BYTES(out, want, sizeof want);
}

/* Whichever of two stands first: a current version is taken before one that has to
   catch up, and that before one of an earlier recording. */
TEST(version_with_least_work_is_taken) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *holder = make_holder(T.dev);
    hcq_buffer out = make_words(T.dev, LEAST_WORDS);
    hcq_program *put = make_put(T.dev);
    const uint64_t one = 1, two = 2;
    const uint64_t patched = test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED);
    least_record(q, put, out);
    CHECK_OK(submit_variables(q, &one, 1, NULL)); /* what is new has its value at once */
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED), patched);
    least_record(q, put, out);
    CHECK_OK(hcq_queue_bind(q, T.dev)); /* makes two */
    for (int anew = 0; anew < 2; anew++) { /* versions get old by updates; by recording anew */
        for (uint32_t last = 0; last < 2; last++) {
            if (last) {                /* the first one is in use: the other one gets newer */
                hold_reset();
                (void)hold_start(holder, T.dev);
                CHECK_OK(submit_variables(q, &two, 1, NULL));
            }
            if (anew) {
                least_record(q, put, out);
            } else {
                least_update(q, 2 + last);
            }
            CHECK_OK(submit_variables(q, &one, 1, NULL));
            hold_release();
            least_check(q, out, anew, 2 + last);
        }
    }
}

/* ---- recording more ---- */

/* It undoes the binding, and binding again is legal at any time; reset forgets all. */
TEST(record_after_bind) {
    enum { N = 20 };
    for (uint32_t graph = 0; graph < 2; graph++) {
        hcq_queue *q = make_queue(T.dev, graph ? HCQ_GRAPH : HCQ_COMPUTE);
        hcq_program *add[2] = {make_add(T.dev), make_add(dev2())};
        hcq_buffer a[2] = {make_words(T.dev, N), make_words(dev2(), N)};
        uint32_t want[2][N] = {{0}};
        CHECK(!graph || hcq_graph_input(q, 0, NULL, 64).size == 64);
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t d = graph ? i % 2 : 0;
            CHECK_INDEX(record_add(q, add[d], a[d], i, 1), (int32_t)i);
            for (uint32_t k = 3; k < 5; k++) {
                CHECK(i % k != 0 || hcq_queue_bind(q, T.dev) == HCQ_OK);
            }
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            want[d][i] = 2 * (N - i);
        }
        CHECK_OK(hcq_queue_reset(q));
        CHECK_U64(hcq_queue_count(q), 0);
        CHECK_INDEX(record_add(q, add[graph], a[graph], 0, 5), 0);
        CHECK(!graph || hcq_graph_input(q, 0, dev2(), 8).size == 8); /* forgotten, too */
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        want[graph][0] += 5;
        CHECK_BYTES(a[0], want[0], sizeof want[0]);
        CHECK_BYTES(a[1], want[1], sizeof want[1]);
    }
}

/* What becomes variable after the binding does so, a grid up to the recorded one. */
TEST(variable_after_bind) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 8);
    const add_args args = {a.address, 1, 8};
    const uint32_t want[8] = {5, 5, 5, 4, 0, 0, 0, 0};
    CHECK_INDEX(hcq_queue_exec(q, make_add(T.dev), &args, sizeof args, hcq_dim(4, 1, 1), dims_one),
                0);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    RUN_TIMES(q, T.dev, 3);            /* with all of its versions */
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_GRID_X, 0, 0));
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID);
    for (uint64_t x = 3; x < 6; x++) {
        CHECK_RESULT(submit_variables(q, &x, 1, NULL), x < 5 ? HCQ_OK : HCQ_ERROR_INVALID);
    }
    CHECK_BYTES(a, want, sizeof want);
}

/* Bound to one device, submitted to another of the same backend. */
TEST(bound_here_submitted_there) {
    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 1);
    hcq_buffer a = make_words(T.dev, 4);
    if (has_feature(HCQ_FEATURE_MAP)) {
        CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 2);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 8, 4), a, 4), 3);
    }
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint64_t i = 1; i <= 30; i++) {
        hcq_device *device = i % 3 ? dev2() : T.dev;
        CHECK_OK(hcq_queue_update_signal(q, 1, NULL, i));
        RUN_OK(q, device);
        WAIT_OK(hcq_at(s, i));
    }
    if (has_feature(HCQ_FEATURE_MAP)) {
        CHECK_U64(READ32(a, 0), 30);
        CHECK_U64(READ32(a, 2), 30);
    }
    hcq_device *other = open_other_backend();
    CHECK_OK(hcq_queue_update_signal(q, 1, NULL, 99));
    hcq_result result = hcq_queue_submit(q, other, NULL); /* another backend */
    CHECK(result == HCQ_ERROR_FOREIGN || result == HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_close(other));
}
