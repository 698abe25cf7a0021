/* profile.h - the profile: every command that ran, when and where, and
   nothing else changed by it. Part of conformance.c. */

enum { PROFILE_EVENTS = 4096 };

static hcq_profile_event profiled[PROFILE_EVENTS];

#define NEED_PROFILE() SKIP_IF(!has_feature(HCQ_FEATURE_PROFILING), "no HCQ_FEATURE_PROFILING")

/* Reads all events of a device into `profiled`; what holds for any is checked. */
static uint32_t profile_read(const char *file, int line, hcq_device *device, uint64_t lost_want) {
    uint32_t count = 0;
    uint64_t lost = 12345;
    test_result(file, line, "hcq_profile_events",
                hcq_profile_events(device, profiled, PROFILE_EVENTS, &count, &lost), HCQ_OK);
    test_number(file, line, "events lost", lost, lost_want);
    CHECK(count <= PROFILE_EVENTS);
    for (uint32_t i = 0; i < count; i++) {
        const hcq_profile_event *e = &profiled[i];
        CHECK(e->begin_ns <= e->end_ns);
        CHECK(e->begin_ns != 0 && e->device == device && e->name[0] != 0);
        CHECK(memchr(e->name, 0, sizeof e->name) != NULL);
        CHECK(memchr(e->queue, 0, sizeof e->queue) != NULL);
        uint32_t shares = 0;
        for (uint32_t k = 0; k < 16; k++) { shares += e->shares[k]; }
        CHECK(shares == 0 || (shares == 100 && is_cpu() && !T.variant->seeded &&
                              e->kind == HCQ_COMMAND_EXEC));
        for (uint32_t k = i; k-- > 0;) { /* its neighbour on the lane came before it */
            const hcq_profile_event *earlier = &profiled[k];
            if (earlier->lane_kind == e->lane_kind && earlier->lane == e->lane) {
                CHECK(earlier->end_ns <= e->begin_ns);
                CHECK(earlier->submission <= e->submission);
                break;
            }
        }
    }
    return count;
}
#define PROFILE_READ(device) profile_read(__FILE__, __LINE__, (device), 0)

static hcq_queue *make_profiled_queue(hcq_device *device, hcq_buffer a) {
    hcq_buffer b = make_words(device, 16);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_program *add = make_add(device);
    CHECK_OK(hcq_queue_label(q, "the frame"));
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_fill(q, b, 64, 7, 4), 1);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(b, 0, 4), a, 4), 2);
    CHECK_INDEX(record_word(q, hcq_view(b, 8, 8), 5, 8), 3);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 4);
    CHECK_OK(hcq_queue_command_label(q, 1, "clear"));
    CHECK_OK(hcq_queue_command_label(q, 2, "the first thirty letters agreed"));
    CHECK_OK(hcq_queue_command_label(q, 3, "the first thirty letters agree,"));
    CHECK_OK(hcq_queue_command_label(q, 4, "second add"));
    return q;
}

/* Names, numbers, bytes and places of a queue's commands. */
static void check_profiled_queue(const char *file, int line, const hcq_profile_event *e,
                                 uint64_t number) {
    static const struct { hcq_command_kind kind; uint64_t bytes; const char *name; } rows[5] = {
        {HCQ_COMMAND_EXEC, 0, "add"}, {HCQ_COMMAND_FILL, 64, "clear"},
        {HCQ_COMMAND_COPY, 4, "the first thirty letters agreed"},
        {HCQ_COMMAND_WRITE, 8, "the first thirty letters agree,"},
        {HCQ_COMMAND_EXEC, 0, "second add"},
    };
    for (uint32_t i = 0; i < 5; i++) {
        test_number(file, line, "the submission", e[i].submission, number);
        test_number(file, line, "the command", (uint64_t)e[i].command, i);
        test_number(file, line, "the kind", e[i].kind, rows[i].kind);
        test_number(file, line, "the bytes", e[i].bytes, rows[i].bytes);
        test_number(file, line, "the lane's kind", e[i].lane_kind, HCQ_COMPUTE);
        test_number(file, line, "the lane", e[i].lane, 0);
        test_number(file, line, "the grid", e[i].grid.x, rows[i].kind == HCQ_COMMAND_EXEC);
        CHECK(strcmp(e[i].name, rows[i].name) == 0);
        CHECK(strcmp(e[i].queue, "the frame") == 0);
        /* Nothing lies between: one time is the end of one and the next's begin. */
        CHECK(i == 0 || e[i - 1].end_ns == e[i].begin_ns);
    }
}

/* Whoever does the copy of an eager call, the host or a device, in one piece or in many: all
   bytes are in the profile, within the call's time. */
TEST(profile_of_eager_copies) {
    enum { SMALL = 64, LARGE = (5 << 20) + 4, WAYS = 5 };
    NEED_PROFILE();
    const hcq_profile_desc desc = {.events = 256};
    static unsigned char from[LARGE], to[LARGE];
    fill_pattern(from, LARGE, T.seed);
    for (int turn = 0; turn < 4 * WAYS; turn++) {
        const int way = turn % WAYS;
        const uint64_t size = turn / WAYS % 2 ? LARGE : SMALL;
        const uint32_t flags = turn / WAYS / 2 ? HCQ_HOST_VISIBLE : 0;
        uint64_t bytes = 0, begin, end;
        hcq_buffer a = make_buffer(T.dev, size, flags), b = make_buffer(T.dev, size, flags);
        CHECK_OK(hcq_copyin(a, from, size));
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_profile_start(T.dev, &desc));
        begin = hcq_now_ns();
        switch (way) {
        case 0: CHECK_OK(hcq_copyin(b, from, size)); break;
        case 1: CHECK_OK(hcq_copyout(to, a, size)); break;
        case 2: CHECK_OK(hcq_transfer(hcq_transfer_device(b), hcq_transfer_host(from, size), size,
                                      0, BOUND)); break;
        case 3: CHECK_OK(hcq_transfer(hcq_transfer_host(to, size), hcq_transfer_device(a), size,
                                      HCQ_UNORDERED, BOUND)); break;
        default: CHECK_OK(hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a), size, 0,
                                       BOUND));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        end = hcq_now_ns();
        CHECK_OK(hcq_profile_stop(T.dev));
        CHECK_OK(hcq_copyin(b, from, size)); /* not in it any more */
        CHECK_OK(hcq_copyout(to, b, size));
        const uint32_t count = PROFILE_READ(T.dev);
        for (uint32_t i = 0; i < count; i++) {
            const hcq_profile_event *e = &profiled[i];
            CHECK(e->begin_ns + e->error_ns >= begin && e->end_ns <= end + e->error_ns);
            if (e->kind == HCQ_COMMAND_SYNC) { continue; }
            CHECK(e->kind == HCQ_COMMAND_COPY && e->grid.x == 0);
            CHECK(e->lane != UINT32_MAX || strcmp(e->name, way == 0 ? "copyin" : way == 1
                                                           ? "copyout" : "transfer") == 0);
            bytes += e->bytes;
        }
        CHECK_U64(bytes, size);
        CHECK(memcmp(from, to, size) == 0);
    }
}

/* Few, then a bound queue many times in flight: each submission has its own times. */
TEST(profile_of_a_queue) {
    enum { MANY = 200 };
    NEED_PROFILE();
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_words(T.dev, 1);
        hcq_queue *q = make_profiled_queue(T.dev, a);
        const uint32_t rounds = bound ? MANY : 3;
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL)); /* comes before: not in it */
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        uint64_t start = hcq_now_ns();
        CHECK_OK(hcq_profile_start(T.dev, NULL));
        CHECK_U64(PROFILE_READ(T.dev), 0);
        const uint64_t begin = hcq_now_ns(), number = hcq_device_timeline_value(T.dev);
        RUN_TIMES(q, T.dev, rounds);
        uint64_t end = hcq_now_ns();
        CHECK_OK(hcq_profile_stop(T.dev));
        RUN_OK(q, T.dev);              /* comes afterwards: not in it */
        CHECK_U64(PROFILE_READ(T.dev), rounds * 5);
        for (uint32_t i = 0; i < rounds; i++) {
            check_profiled_queue(__FILE__, __LINE__, &profiled[i * 5], number + i);
        }
        CHECK(profiled[0].begin_ns + profiled[0].error_ns >= begin);
        CHECK(profiled[rounds * 5 - 1].end_ns <= end + profiled[0].error_ns);
        CHECK(profiled[0].error_ns <= test_clock_bound(hcq_now_ns() - start));
        CHECK_U64(READ32(a, 0), 2 * (rounds + 1 + (uint32_t)bound));
    }
}

/* What is submitted counts, not what runs: work held at the start is not in it,
   work held at the stop is. A new start forgets. */
TEST(profile_is_of_submissions) {
    NEED_PROFILE();
    hcq_queue *q = make_profiled_queue(T.dev, make_words(T.dev, 1));
    hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev)}, done;
    CHECK_OK(submit_behind(q, T.dev, &gates[0], NULL));
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    uint64_t number = hcq_device_timeline_value(T.dev);
    CHECK_OK(submit_behind(q, T.dev, &gates[1], &done));
    CHECK_OK(hcq_profile_stop(T.dev));
    open_gate(gates[0]);
    GATE_END(gates[1], done);
    CHECK_U64(PROFILE_READ(T.dev), 5);
    CHECK_U64(profiled[0].submission, number);
    CHECK_U64(PROFILE_READ(T.dev), 5); /* reading takes nothing away */
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_U64(PROFILE_READ(T.dev), 0);
    RUN_OK(q, T.dev);
    CHECK_U64(PROFILE_READ(T.dev), 5);
    hcq_point gate = make_gate(T.dev);
    CHECK_OK(submit_behind(q, T.dev, &gate, &done));
    CHECK_OK(hcq_profile_start(T.dev, NULL)); /* while it is on, too */
    CHECK_U64(PROFILE_READ(T.dev), 0);
    GATE_END(gate, done);
    CHECK_U64(PROFILE_READ(T.dev), 0); /* that one was of the recording before */
    CHECK_OK(hcq_profile_stop(T.dev));
    CHECK_OK(hcq_profile_stop(T.dev));
}

/* Lanes by kind and index, and two devices each on their own. */
TEST(profile_of_lanes) {
    NEED_PROFILE();
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 2);
    hcq_device_info info = test_info(device);
    hcq_buffer a = make_words(device, 16);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE), *copy = make_queue(device, HCQ_COPY);
    hcq_point done;
    uint32_t count = 9;
    CHECK_INDEX(hcq_queue_fill(q, a, 64, 1, 4), 0);
    CHECK_INDEX(hcq_queue_copy(copy, make_words(device, 16), a, 64), 0);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_profile_start(device, NULL));
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(SUBMIT(device, q, &done, .affinity = 1));
    WAIT_OK(done);
    RUN_OK(copy, device);
    CHECK_U64(PROFILE_READ(device), 2);
    CHECK_U64(profiled[0].lane_kind, HCQ_COMPUTE);
    CHECK_U64(profiled[0].lane, info.compute_lanes > 1 ? 1 : 0);
    CHECK_U64(profiled[1].lane_kind, info.copy_lanes ? HCQ_COPY : HCQ_COMPUTE);
    CHECK_U64(profiled[1].lane, 0);
    CHECK(profiled[1].bytes == 64 && profiled[0].queue[0] == 0); /* no label */
    CHECK_OK(hcq_close(device));       /* on, and closed */
    CHECK_OK(hcq_profile_events(T.dev, NULL, 0, &count, NULL));
    CHECK_U64(count, 0);
}

/* Launches of a graph over two devices: each event on its device, with the index
   of the graph's recording, and never before what it depends on. */
TEST(profile_of_a_graph) {
    enum { ROUNDS = 20 };
    NEED_PROFILE();
    static char text[4096];
    for (int bound = 0; bound < 2; bound++) {
        static hcq_profile_event first[ROUNDS * 2];
        hcq_buffer a = make_words(T.dev, 4), b = make_words(dev2(), 4);
        hcq_queue *g = make_graph();
        uint64_t numbers[2];
        CHECK_OK(hcq_queue_label(g, "the graph"));
        CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
        CHECK_INDEX(record_add(g, make_add(dev2()), b, 0, 1), 1);
        CHECK_INDEX(hcq_queue_fill(g, hcq_view(a, 8, 8), 8, 1, 8), 2);
        CHECK_OK(hcq_queue_command_label(g, 1, "over there"));
        CHECK_OK(hcq_graph_edge(g, 0, 1));
        CHECK_OK(hcq_graph_edge(g, 1, 2));
        CHECK_OK(bound ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        synchronize_both();
        CHECK_OK(hcq_profile_start(T.dev, NULL));
        CHECK_OK(hcq_profile_start(dev2(), NULL));
        numbers[0] = hcq_device_timeline_value(T.dev);
        numbers[1] = hcq_device_timeline_value(dev2());
        RUN_TIMES(g, T.dev, ROUNDS);
        CHECK_U64(PROFILE_READ(T.dev), 2 * ROUNDS);
        memcpy(first, profiled, sizeof first);
        CHECK_U64(PROFILE_READ(dev2()), ROUNDS);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            const hcq_profile_event *one = &first[2 * i], *three = one + 1, *two = &profiled[i];
            const uint64_t error = one->error_ns + two->error_ns;
            CHECK(one->command == 0 && two->command == 1 && three->command == 2);
            CHECK(strcmp(one->name, "add") == 0 && strcmp(two->name, "over there") == 0);
            CHECK(strcmp(one->queue, "the graph") == 0 && strcmp(two->queue, "the graph") == 0);
            CHECK_U64(one->submission, numbers[0] + 2 * i + 1); /* its end's */
            CHECK_U64(three->submission, one->submission);
            CHECK_U64(two->submission, numbers[1] + i);
            CHECK_U64(three->bytes, 8);
            CHECK(one->end_ns <= two->begin_ns + error);
            CHECK(two->end_ns <= three->begin_ns + error);
        }
        CHECK_OK(hcq_profile_stop(T.dev));
        CHECK_OK(hcq_profile_stop(dev2()));
        CHECK_U64(READ32(b, 0), ROUNDS);
        CHECK_OK(hcq_profile_start(T.dev, NULL)); /* without the second: no arrow begins there */
        RUN_OK(g, T.dev);
        hcq_profile_print(&T.dev, 1, HCQ_PROFILE_SUMMARY, text, sizeof text);
        SAYS(text, ", 0 dependencies");
        CHECK_OK(hcq_profile_stop(T.dev));
    }
}

/* A block for each thread, one, two for whoever comes first, and one for each again. */
TEST(profile_of_shared_grids) {
    static const uint32_t workers[] = {1, 2, 14, 15, 16, 19};
    static meeting m;
    SKIP_IF(!is_cpu(), "no workers");
    for (uint32_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        const uint32_t threads = workers[i] + 1, grids[4] = {threads, 1, 2, threads};
        hcq_device_desc desc = test_desc();
        test_cpu_desc.workers = workers[i];
        hcq_device *device = test_open(1, &desc);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q, make_meet(device, &m), NULL, 0, dims_one, dims_one), 0);
        CHECK_OK(hcq_profile_start(device, NULL));
        for (int turn = 0; turn < 4; turn++) {
            const hcq_dims grid = hcq_dim(grids[turn], 1, 1);
            m = (meeting){0, grids[turn]};
            CHECK_OK(hcq_queue_update_exec(q, 0, &grid, NULL));
            RUN_OK(q, device);
        }
        CHECK_U64(PROFILE_READ(device), 4);
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t end = k == 15 ? 100 : 100 * (k + 1) / threads;
            const uint32_t want = k < threads ? end - 100 * k / threads : 0;
            CHECK(profiled[0].shares[k] == want && profiled[3].shares[k] == want);
            CHECK(profiled[1].shares[k] == 0 && profiled[2].shares[k] % 50 == 0);
        }
        CHECK(memcmp(profiled[2].shares, profiled[1].shares, 16) != 0);
        CHECK_OK(hcq_close(device));
    }
}

/* A ring of few: the latest are kept, the others counted; a short array gets the
   oldest of those. */
TEST(profile_overflows) {
    enum { ROUNDS = 500, EVENTS = 64 };
    NEED_PROFILE();
    const hcq_profile_desc desc = {EVENTS, 0};
    hcq_profile_event few[5] = {0};
    hcq_buffer a = make_words(T.dev, 1);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    uint32_t count = 0;
    uint64_t lost = 0;
    CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 0);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_profile_start(T.dev, &desc));
    uint64_t number = hcq_device_timeline_value(T.dev);
    RUN_TIMES(q, T.dev, ROUNDS);
    CHECK_OK(hcq_profile_stop(T.dev));
    CHECK_OK(hcq_profile_events(T.dev, NULL, 0, &count, &lost));
    CHECK(count >= EVENTS / 2 && count <= 2 * EVENTS);
    CHECK_U64(count + lost, ROUNDS);
    CHECK_U64(profile_read(__FILE__, __LINE__, T.dev, lost), count);
    CHECK_U64(profiled[count - 1].submission, number + ROUNDS - 1);
    CHECK_U64(profiled[0].submission, number + ROUNDS - count);
    CHECK_OK(hcq_profile_events(T.dev, few, 4, &count, NULL));
    CHECK_U64(count + lost, ROUNDS);
    CHECK(memcmp(few, profiled, 4 * sizeof few[0]) == 0);
    CHECK_U64(few[4].begin_ns, 0);
    CHECK_U64(READ32(a, 0), ROUNDS);
}

/* Queues, labels and programs that go before the work is done; a ring of one event
   and one name. */
TEST(profile_outlives_its_objects) {
    NEED_PROFILE();
    const hcq_profile_desc desc = {1, 1};
    for (int way = 0; way < 6; way++) { /* destroyed or reset; bound; the smallest ring */
        hcq_buffer a = make_words(T.dev, 1);
        hcq_queue *q = make_profiled_queue(T.dev, a);
        hcq_point gate = make_gate(T.dev), done;
        uint64_t lost = 0;
        uint32_t count = 0;
        CHECK_OK(way & 2 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_profile_start(T.dev, way < 4 ? NULL : &desc));
        CHECK_OK(submit_behind(q, T.dev, &gate, &done));
        if (way & 1) {
            hcq_queue_destroy(q);
        } else {
            CHECK_OK(hcq_queue_reset(q));
            CHECK_OK(hcq_queue_label(q, "another"));
            CHECK_INDEX(hcq_queue_memory_barrier(q), 0);
            CHECK_OK(hcq_queue_command_label(q, 0, "another"));
        }
        GATE_END(gate, done);
        CHECK_OK(hcq_profile_stop(T.dev));
        CHECK_OK(hcq_profile_events(T.dev, NULL, 0, &count, &lost));
        CHECK_U64(count + lost, 5);
        CHECK_U64(count, way < 4 ? 5 : 1);
        CHECK_U64(profile_read(__FILE__, __LINE__, T.dev, lost), count);
        CHECK_U64(profiled[count - 1].command, 4);
        CHECK(strcmp(profiled[count - 1].name, way < 4 ? "second add" : "(others)") == 0);
        CHECK_U64(READ32(a, 0), 2);
    }
}

/* A failing host command: its submission is not in the profile, the next one is whole. */
TEST(profile_of_a_failure) {
    NEED_PROFILE();
    static host_log log;
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point done;
    log = (host_log){.result = HCQ_ERROR_HOST};
    CHECK_INDEX(record_word(q, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_host(q, host_record, &log), 1);
    CHECK_INDEX(record_word(q, a, 2, 4), 2);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    WAIT_RESULT(done, HCQ_ERROR_HOST);
    log.result = HCQ_OK;
    uint64_t number = hcq_device_timeline_value(T.dev);
    RUN_OK(q, T.dev);
    const uint32_t count = PROFILE_READ(T.dev);
    uint32_t commands = 0;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(profiled[i].submission != done.value);
        commands |= profiled[i].submission == number ? 1u << profiled[i].command : 0;
    }
    CHECK((commands & 5) == 5);        /* both writes */
    CHECK_U64(READ32(a, 0), 2);
}

/* ---- as text ---- */

/* Saving is core/profile.c's. */
static void check_profile_text(hcq_device *const *devices, hcq_profile_format format,
                               const char *words) {
    static char text[1 << 20];
    char part[64];
    size_t length = hcq_profile_print(devices, 2, format, text, sizeof text);
    CHECK(length > 16 && length < sizeof text);
    CHECK_U64(strlen(text), length);
    SAYS(text, words);
    memset(part, 'x', sizeof part);
    CHECK(hcq_profile_print(devices, 2, format, part, 16) == length);
    CHECK(part[15] == 0 && part[16] == 'x' && memcmp(part, text, 15) == 0);
    CHECK(hcq_profile_print(devices, 2, format, NULL, 0) == length);
    for (uint64_t n = 1, some = 0; some != length; n++) { /* whole, or not at all */
        T.memory.fail_at = T.memory.fail_until = T.memory.calls + n;
        some = hcq_profile_print(devices, 2, format, NULL, 0);
        T.memory.fail_at = 0;
        CHECK(some == length || some == 0);
    }
}

/* Of devices that were never profiled, too, it is a whole text. */
TEST(profile_as_text) {
    static const struct { hcq_profile_format format; const char *empty, *words; } formats[3] = {
        {HCQ_PROFILE_TRACE, "traceEvents", "traceEvents|second add|the frame"},
        {HCQ_PROFILE_HTML, "<svg|</html>", "<svg|second add|</html>"},
        {HCQ_PROFILE_SUMMARY, "", "add|clear"},
    };
    hcq_device *devices[2] = {T.dev, dev2()};
    hcq_queue *q = make_profiled_queue(T.dev, make_words(T.dev, 1));
    uint32_t count = 5;
    uint64_t lost = 5;
    CHECK_OK(hcq_profile_events(T.dev, NULL, 0, &count, &lost));
    CHECK(count == 0 && lost == 0);
    CHECK_OK(hcq_profile_stop(T.dev));
    for (int i = 0; i < 3; i++) {
        check_profile_text(devices, formats[i].format, formats[i].empty);
    }
    NEED_PROFILE();
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(hcq_profile_start(dev2(), NULL));
    RUN_OK(q, T.dev);
    for (int i = 0; i < 3; i++) {
        check_profile_text(devices, formats[i].format, formats[i].words);
    }
}

/* A call that waits, or does not, is an event of the host's; those of a stepped launch
   are the SYNCs of its schedule. */
TEST(profile_of_synchronizing) {
    static char text[16384];
    NEED_PROFILE();
    hcq_buffer a = make_words(T.dev, 1), b = make_words(dev2(), 1);
    hcq_queue *g = make_graph();
    hcq_point gate = make_gate(T.dev), done;
    uint64_t times[5], syncs = 0;
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
    CHECK_INDEX(record_add(g, make_add(dev2()), b, 0, 1), 1);
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 2);
    CHECK_OK(hcq_graph_edge(g, 0, 1));
    CHECK_OK(hcq_graph_edge(g, 1, 2));
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(submit_lists(T.dev, &gate, NULL, 0, &done));
    for (int i = 0; i < 4; i++) {
        times[i] = hcq_now_ns();
        if (i == 2) { open_gate(gate); }
        CHECK_RESULT(hcq_device_synchronize(T.dev, i == 0 ? SECOND / 500 : i == 1 ? 0 : BOUND),
                     i < 2 ? HCQ_TIMEOUT : HCQ_OK);
    }
    times[4] = hcq_now_ns();
    CHECK_U64(PROFILE_READ(T.dev), 4);
    for (int i = 0; i < 4; i++) {
        const hcq_profile_event *e = &profiled[i];
        CHECK(e->kind == HCQ_COMMAND_SYNC && e->lane == UINT32_MAX && e->error_ns == 0);
        CHECK(e->begin_ns >= times[i] && e->end_ns <= times[i + 1]);
        CHECK_U64(e->submission, done.value);
    }
    CHECK(profiled[0].end_ns - profiled[0].begin_ns >= SECOND / 500);
    CHECK(hcq_graph_print(g, 0, text, sizeof text) < sizeof text);
    for (const char *at = text; (at = strstr(at, "SYNC")) != NULL; at++) { syncs++; }
    CHECK(syncs != 0);
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(hcq_profile_start(dev2(), NULL));
    CHECK_OK(submit_queue(g, T.dev, NULL, NULL, HCQ_STEP, NULL));
    for (int d = 0; d < 2; d++) {
        const uint32_t count = PROFILE_READ(d ? dev2() : T.dev);
        for (uint32_t i = 0; i < count; i++) { syncs -= profiled[i].kind == HCQ_COMMAND_SYNC; }
    }
    CHECK_U64(syncs, 0);
    CHECK_U64(READ32(a, 0), 2);
}

/* Others run in the middle of a submission, behind a host command: the arrow ends at what
   waited. */
TEST(profile_of_work_in_between) {
    T.races_meant = 1;
    NEED_PROFILE();
    static char text[4096];
    static host_log log;
    hcq_device *devices[2] = {T.dev, dev2()};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *raises = make_queue(dev2(), HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4), b = make_words(dev2(), 1);
    hcq_point raise = hcq_at(make_signal(T.dev, 0), 1), done;
    CHECK_INDEX(record_word(q, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_host(q, host_record, &log), 1);
    CHECK_INDEX(hcq_queue_wait(q, raise), 2);
    CHECK_INDEX(record_word(q, a, 2, 4), 3);
    CHECK_OK(hcq_queue_command_label(q, 3, "late"));
    CHECK_INDEX(record_word(raises, b, 3, 4), 0);
    CHECK_INDEX(hcq_queue_signal(raises, raise), 1);
    for (int i = 0; i < 2; i++) { CHECK_OK(hcq_profile_start(devices[i], NULL)); }
    CHECK_OK(submit_queue(q, T.dev, NULL, NULL, HCQ_UNORDERED, &done));
    for (int i = 0; i < 3; i++) {
        hcq_point other;
        CHECK_OK(submit_queue(make_filler(T.dev, a, 9), T.dev, NULL, NULL, HCQ_UNORDERED, &other));
        WAIT_OK(other);
    }
    RUN_OK(raises, dev2());
    WAIT_OK(done);
    CHECK(hcq_profile_print(devices, 2, HCQ_PROFILE_SUMMARY, text, sizeof text) < sizeof text);
    SAYS(text, ", 1 dependencies");
}

/* ---- at the same time ---- */

typedef struct toggler {
    pthread_t thread;
    uint32_t stop, turns;              /* atomic */
    hcq_result result;
} toggler;

static hcq_result toggle_once(void) {
    const hcq_profile_desc desc = {.events = 4096}; /* a summary sorts them */
    uint32_t count;
    TRY(hcq_profile_start(T.dev, &desc));
    TRY(hcq_profile_events(T.dev, profiled, PROFILE_EVENTS, &count, NULL));
    for (int i = 0; i < 10; i++) {
        (void)hcq_profile_print(&T.dev, 1, HCQ_PROFILE_SUMMARY, NULL, 0);
    }
    return hcq_profile_stop(T.dev);
}

static void *toggler_run(void *user) {
    toggler *t = (toggler *)user;
    while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE) && t->result == HCQ_OK) {
        t->result = toggle_once();
        __atomic_add_fetch(&t->turns, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* One thread starts, reads and stops while another one submits and updates: commands of all
   kinds do what they do without. That more may be held than there are versions: core/alloc.c. */
TEST(profile_starts_and_stops_under_load) {
    NEED_PROFILE();
    static toggler t;
    hcq_buffer a = make_words(T.dev, 2), c = make_words(dev2(), 1);
    hcq_queue *q = make_profiled_queue(T.dev, a), *g = make_graph();
    custom_payload p = {a.address + 4, 4711, 1234};
    uint32_t calls = 0;
    const uint64_t turns = T.quick ? 20 : 200, limit = hcq_now_ns() + 2 * BOUND;
    uint32_t sum = 0, launches = 0;
    hcq_result result = HCQ_OK;
    memset(&t, 0, sizeof t);
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
    CHECK_INDEX(record_add(g, make_add(dev2()), c, 0, 1), 1);
    CHECK_OK(hcq_graph_edge(g, 0, 1));
    CHECK_INDEX(hcq_queue_host(g, host_counts, &calls), 2);
    CHECK_INDEX(hcq_queue_memory_barrier(g), 3);
    CHECK_INDEX(hcq_queue_custom(g, &custom_type, &p), 4);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    CHECK_OK(hcq_queue_bind(g, T.dev));
    pthread_create(&t.thread, NULL, toggler_run, &t);
    /* It may have had all its turns before the first launch. */
    while ((__atomic_load_n(&t.turns, __ATOMIC_ACQUIRE) < turns || launches < 8) &&
           result == HCQ_OK && hcq_now_ns() < limit) {
        const uint32_t value = launches % 7;
        result = hcq_queue_update_arg(q, 0, 8, &value, 4);
        result = result == HCQ_OK ? hcq_queue_submit(q, T.dev, NULL) : result;
        if (result == HCQ_ERROR_LIMIT) { /* its versions are held by work before */
            result = hcq_device_synchronize(T.dev, BOUND);
            continue;
        }
        result = result == HCQ_OK ? hcq_queue_submit(g, T.dev, NULL) : result;
        sum += value + 2;
        if (++launches % 64 == 0 && result == HCQ_OK) { /* a slow device keeps up */
            result = hcq_device_synchronize(T.dev, BOUND);
        }
    }
    __atomic_store_n(&t.stop, 1, __ATOMIC_RELEASE);
    pthread_join(t.thread, NULL);
    CHECK_OK(result);
    CHECK_OK(t.result);
    CHECK(t.turns >= turns);
    CHECK_U64(READ32(a, 0), sum);
    CHECK_U64(READ32(a, 1), 4711);
    CHECK_U64(READ32(c, 0), launches);
    CHECK_U64(calls, launches);
}
