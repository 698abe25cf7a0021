/* graph_limits.h - graphs as text and read back, their limits, objects and devices
   that go while a launch is under way, what tells of it. Part of conformance.c. */

/* ---- plans ---- */

/* Each command follows the eight before it. */
static hcq_queue *record_dense(uint32_t count, hcq_buffer words) {
    hcq_queue *g = make_graph();
    for (uint32_t i = 0; i < count; i++) {
        CHECK(hcq_queue_fill(g, hcq_view(words, i * 4, 4), 4, i, 4) >= 0);
        for (uint32_t k = i < 8 ? 0 : i - 8; k < i; k++) {
            CHECK_OK(hcq_graph_edge(g, (int32_t)k, (int32_t)i));
        }
    }
    return g;
}

/* Prints or binds a graph while its k-th allocation fails; 0: it has not so many. A plan for
   which there was no memory is not made, nor is a graph bound without; the next try does. */
static int planned_without_memory(uint32_t count, hcq_buffer words, uint64_t k, int binds) {
    static char text[65536];
    hcq_queue *g = record_dense(count, words);
    const uint64_t at = __atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST) + k;
    allocations_fail(at, at);
    hcq_result result = binds ? hcq_queue_bind(g, T.dev)
                        : hcq_graph_print(g, 0, text, sizeof text) != 0 ? HCQ_OK
                                                                        : HCQ_ERROR_OUT_OF_MEMORY;
    allocations_fail(0, 0);
    const int failed = __atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST) >= at;
    CHECK(result == HCQ_OK ? binds || !failed : result == HCQ_ERROR_OUT_OF_MEMORY && failed);
    CHECK_OK(binds ? hcq_queue_bind(g, T.dev) : HCQ_OK);
    hcq_queue_destroy(g);
    return failed;
}

TEST(plans_are_whole) {
    hcq_buffer words = make_words(T.dev, 300);
    for (uint32_t count = 1; count < (T.quick ? 140u : 300u); count += TEST_SANITIZED ? 3 : 1) {
        for (uint64_t k = 1; planned_without_memory(count, words, k, 0); k++) { }
    }
    for (uint64_t k = 1; planned_without_memory(20, words, k, 1); k++) { }
}

/* ---- what was recorded ---- */

typedef size_t (*graph_text_fn)(hcq_queue *, uint32_t, char *, size_t);

/* Whole, cut, and by its length alone. */
TEST(graph_as_text) {
    static char text[65536], part[65536];
    const graph_text_fn fns[2] = {hcq_graph_print, hcq_graph_dot};
    hcq_queue *g = make_graph();
    hcq_buffer a = make_words(T.dev, 16), b = make_words(dev2(), 16);
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_fill(g, a, 64, 1, 4), 1);
    CHECK_OK(hcq_queue_command_label(g, 1, "first fill"));
    CHECK_INDEX(record_add(g, make_add(dev2()), b, 0, 1), 2);
    CHECK_OK(hcq_graph_edge(g, 1, 2));
    CHECK_OK(hcq_queue_command_label(g, 2, "a \"quoted\\one\""));
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t flags = i / 2 ? HCQ_COPY_LISTS : 0;
        const size_t length = fns[i % 2](g, flags, NULL, 0), sizes[3] = {1, 20, length + 1};
        CHECK(length > 0 && length < sizeof text);
        CHECK_U64(fns[i % 2](g, flags, text, sizeof text), length);
        CHECK_U64(strlen(text), length);
        for (int k = 0; k < 3; k++) {
            memset(part, 'x', sizeof part);
            CHECK_U64(fns[i % 2](g, flags, part, sizes[k]), length);
            CHECK(memcmp(text, part, sizes[k] - 1) == 0);
            CHECK(part[sizes[k] - 1] == 0 && part[sizes[k]] == 'x');
        }
        SAYS(text, "first fill|SYNC|WAIT");
        CHECK((strstr(text, "digraph") != NULL) == (i % 2 != 0));
        int open = 0;
        for (const char *at = text; *at != 0; at++) { open += (*at == '{') - (*at == '}'); }
        CHECK(open == 0);
        SAYS(text, i % 2 ? "a \\\"quoted\\\\one\\\"" : "a \"quoted\\one\"");
    }
    LAUNCH(g);
    CHECK_U64(READ32(a, 15), 1);
}

typedef struct printer { hcq_queue *graph; uint32_t stop, wrong; } printer;

static void *printer_run(void *user) {
    static char text[65536];
    printer *p = (printer *)user;
    while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
        const size_t length = hcq_graph_print(p->graph, 0, text, sizeof text);
        p->wrong += length != strlen(text);
    }
    return NULL;
}

/* A schedule is told whole beside appends and resets, or not at all. */
TEST(meanwhile_a_graph_grows) {
    enum { PARTS = 4, ROUNDS = 400 };
    printer p = {make_graph(), 0, 0};
    pthread_t thread;
    hcq_queue *part = make_graph();
    hcq_buffer a = make_words(T.dev, 64);
    for (int32_t i = 0; i < 50; i++) { CHECK_INDEX(record_word(part, a, 1, 4), i); }
    pthread_create(&thread, NULL, printer_run, &p);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CHECK_OK(hcq_queue_reset(p.graph));
        for (int32_t i = 0; i < PARTS; i++) {
            CHECK_INDEX(hcq_queue_append(p.graph, part), 50 * i);
        }
    }
    __atomic_store_n(&p.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK_U64(p.wrong, 0);
}

/* No schedule has them, step by step or as text: a kernel over two devices, a copy with two
   outputs. A launch does. */
TEST(schedules_are_refused) {
    char text[4096];
    for (int copies = 0; copies < 2; copies++) {
        hcq_queue *g = make_graph();
        hcq_buffer a = make_words(T.dev, 4), other = make_words(copies ? T.dev : dev2(), 4);
        CHECK_INDEX(copies ? hcq_queue_copy(g, a, make_words(T.dev, 4), 16)
                           : record_add(g, make_add(T.dev), a, 0, 1), 0);
        CHECK_OK(hcq_queue_access(g, 0, other, copies ? HCQ_ARG_OUT : HCQ_ARG_IN));
        log_clear();
        CHECK(hcq_graph_print(g, 0, text, sizeof text) == 0 && text[0] == 0);
        CHECK(log_has(copies ? "2 outputs" : "over several devices"));
        CHECK_RESULT(launch_flags(g, HCQ_STEP, NULL), HCQ_ERROR_INVALID);
        LAUNCH(g);
    }
}

/* What was stated of an argument's bytes goes along with the argument, and with the queue
   into a graph. */
TEST(stated_access_follows_updates) {
    hcq_queue *g = make_graph(), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 32), b = make_words(T.dev, 32), tiny = make_words(T.dev, 1);
    hcq_buffer in = hcq_graph_input(g, 0, NULL, 64), late = hcq_view(b, 68, 0);
    hcq_buffer rest[2] = {hcq_view(a, 64, 64), hcq_view(b, 64, 64)};
    hcq_point done;
    CHECK_INDEX(record_add(q, make_add(T.dev), b, 0, 1), 0);
    CHECK_OK(hcq_queue_access(q, 0, hcq_view(b, 0, 64), HCQ_ARG_INOUT));
    CHECK_RESULT(hcq_queue_update_arg(q, 0, 0, &tiny.address, 8), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_update_arg(q, 0, 0, &a.address, 8));
    CHECK_INDEX(hcq_queue_append(g, q), 0);
    CHECK_INDEX(hcq_queue_fill(g, in, 64, 3, 4), 1);
    CHECK_RESULT(launch_inputs(g, &a, 1, &done), HCQ_ERROR_ALIAS);
    CHECK_OK(launch_inputs(g, &rest[0], 1, &done)); /* not among the stated bytes */
    CHECK_RESULT(hcq_queue_update_arg(g, 0, 0, &late.address, 8), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_update_arg(g, 0, 0, &b.address, 8));
    CHECK_RESULT(launch_inputs(g, &b, 1, &done), HCQ_ERROR_ALIAS);
    CHECK_OK(launch_inputs(g, &rest[1], 1, &done));
    CHECK_OK(launch_inputs(g, &a, 1, &done)); /* nobody names it any more */
    WAIT_OK(done);
    CHECK_U64(READ32(b, 0), 2);
    CHECK_OK(hcq_queue_access(q, 0, tiny, HCQ_ARG_IN));
    CHECK_OK(hcq_free(tiny));
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_CLOSED);
}

/* A fill's value and a grid have their alignment in an input, too. */
TEST(inputs_are_aligned) {
    const hcq_buffer a = make_words(T.dev, 32);
    const add_args args = {make_words(T.dev, 1).address, 1, 1};
    hcq_point done;
    for (int grid = 0; grid < 2; grid++) {
        hcq_queue *g = make_graph();
        hcq_buffer in = hcq_graph_input(g, 0, NULL, 64);
        hcq_buffer odd = hcq_view(a, grid ? 2 : 4, 64), even = hcq_view(a, 8, 64);
        CHECK_INDEX(grid ? hcq_queue_exec_indirect(g, make_add(T.dev), &args, sizeof args, in,
                                                   dims_one, dims_one)
                         : hcq_queue_fill(g, in, 64, 0, 8), 0);
        CHECK_RESULT(launch_inputs(g, &odd, 1, &done), HCQ_ERROR_INVALID);
        CHECK_OK(launch_inputs(g, &even, 1, &done));
        WAIT_OK(done);
    }
}

/* ---- limits ---- */

/* A launch for which a device has no room left takes a number on none. */
TEST(launches_beyond_the_parked_limit) {
    hcq_device *keep = T.dev, *limited = OPEN_WITH(0, .held_limit = 12);
    T.dev = limited;
    for (int way = 0; way < 2; way++) { /* it is the other device, or the home */
        hcq_device *home = way ? T.dev : dev2();
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_buffer a = make_words(T.dev, 1), b = make_words(dev2(), 1);
        hcq_point gate = make_gate(dev2()), done = {{0}, 0}, last = {{0}, 0};
        uint64_t own = 0, other = 0;
        hcq_result result = HCQ_OK;
        uint32_t accepted = 0;
        CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
        CHECK_INDEX(record_add(g, make_add(dev2()), b, 0, 1), 1);
        while (result == HCQ_OK && accepted < 100) {
            last = done;
            own = hcq_device_timeline_value(T.dev);
            other = hcq_device_timeline_value(dev2());
            result = submit_behind(g, home, &gate, &done);
            accepted += result == HCQ_OK;
        }
        CHECK_RESULT(result, HCQ_ERROR_LIMIT);
        CHECK(accepted > 0 && accepted <= 12);
        CHECK_U64(hcq_device_timeline_value(T.dev), own);
        CHECK_U64(hcq_device_timeline_value(dev2()), other);
        GATE_END(gate, last);
        RUN_OK(g, home);
        CHECK_U64(READ32(a, 0), accepted + 1);
        CHECK_U64(READ32(b, 0), accepted + 1);
    }
    T.dev = keep;
    CHECK_OK(hcq_close(limited));
}

/* ---- objects that go while a launch is under way ---- */

/* Freed while a launch has still to use it, as an input or not, on its own device or
   on another one: its block is nobody's until then. */
TEST(freed_while_a_launch_needs_it) {
    const int ways = devices_share_memory() ? 12 : 4;
    for (int way = 0; way < ways; way++) { /* whose it is, who uses it; bound */
        hcq_device *owner = way / 4 == 1 ? dev2() : T.dev, *device = way / 4 == 2 ? dev2() : T.dev;
        hcq_queue *g = make_graph();
        hcq_buffer mine = make_buffer(owner, 4096, 0);
        hcq_point done;
        marks_reset();
        hcq_buffer used = way % 2 ? hcq_graph_input(g, 0, owner, 4096) : mine;
        CHECK_INDEX(record_mark(g, make_mark(device), used, 0, 1), 0);
        CHECK_OK(way / 2 % 2 ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        CHECK_OK(launch_inputs(g, &mine, way % 2 ? 1 : 0, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        mark_chance(0);
        CHECK_RESULT(test_poll(timeline_now(owner)), HCQ_TIMEOUT);
        CHECK_OK(hcq_free(mine));
        hcq_buffer next = make_buffer(owner, 4096, 0);
        CHECK(next.address != mine.address);
        hold_release();
        WAIT_OK(done);
        CHECK_OK(hcq_free(next));
    }
}

/* ---- devices that go while a launch is under way ---- */

/* Marks one after another: on `first`, on `second`, on `first` again ... */
static hcq_queue *make_chain(hcq_device *home, hcq_device *first, hcq_device *second,
                             uint32_t count, uint32_t late) {
    hcq_queue *g = make_queue(home, HCQ_GRAPH);
    for (uint32_t i = 0; i < count; i++) {
        hcq_device *device = i % 2 ? second : first;
        CHECK_INDEX(record_mark(g, make_mark(device), make_words(device, 1), i, i ? 0 : late),
                    (int32_t)i);
        CHECK(i == 0 || hcq_graph_edge(g, (int32_t)i - 1, (int32_t)i) == HCQ_OK);
    }
    CHECK_OK(hcq_device_synchronize(first, BOUND));
    CHECK_OK(hcq_device_synchronize(second, BOUND));
    marks_reset();
    return g;
}

static void goes_on(hcq_device *device) {
    hcq_point next;
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(submit_lists(device, NULL, NULL, 0, &next));
    WAIT_OK(next);
}

/* A device of a held launch is closed: its part is cancelled, with it the launch
   and what follows, and the other device goes on. */
TEST(device_of_a_launch_is_closed) {
    for (int way = 0; way < 4; way++) { /* the home or the other one; bound */
        hcq_device *device = test_open(0, NULL);
        hcq_device *home = way % 2 ? device : T.dev, *other = way % 2 ? T.dev : device;
        hcq_queue *g = make_chain(home, home, other, 3, 0);
        hcq_point gate = make_gate(dev2()), raise = hcq_at(make_signal(dev2(), 0), 1), done;
        CHECK_OK(way / 2 ? hcq_queue_bind(g, home) : HCQ_OK);
        CHECK_OK(submit_queue(g, home, &gate, &raise, 0, &done));
        CHECK_OK(hcq_close(device));
        open_gate(gate);
        hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        CHECK(result == HCQ_ERROR_CANCELLED || (way % 2 && result == HCQ_ERROR_CLOSED));
        WAIT_RESULT(raise, HCQ_ERROR_CANCELLED);
        goes_on(T.dev);
        CHECK(!mark_at(1) && !mark_at(2) && !(way % 2 && mark_at(0)));
    }
}

/* Closed while the launch runs: what was handed over is waited for, the rest ends. */
TEST(device_of_a_running_launch_is_closed) {
    for (int way = 0; way < 4; way++) { /* whose part runs; the home or the other one */
        static blocked_call call;
        hcq_device *device = test_open(0, NULL);
        hcq_device *home = way / 2 ? device : T.dev;
        hcq_queue *g = make_chain(home, way % 2 ? T.dev : device, way % 2 ? device : T.dev, 3, 1);
        hcq_point done;
        memset(&call, 0, sizeof call);
        CHECK_OK(hcq_queue_submit(g, home, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        call.device = device;
        pthread_create(&call.thread, NULL, blocked_close, &call);
        blocked_until(&call);
        hold_release();
        pthread_join(call.thread, NULL);
        CHECK_OK(call.result);
        CHECK(mark_until(0));          /* it had begun */
        hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        CHECK(result == HCQ_OK ? mark_at(2) != 0
                               : result == HCQ_ERROR_CANCELLED || result == HCQ_ERROR_CLOSED);
        goes_on(T.dev);
    }
}

/* A device of a launch is lost, or its native API refuses its part: the launch fails
   and the other device goes on; what was only refused runs the next time. */
TEST(device_of_a_launch_fails) {
    SKIP_IF(!is_mock(), "only the mock fails on demand");
    for (int way = 0; way < 8; way++) { /* the other device, or the home; bound */
        static mock_control control;
        const hcq_result want = way / 4 ? HCQ_ERROR_NATIVE : HCQ_ERROR_LOST;
        hcq_device *failing = open_to_lose(&control);
        hcq_device *home = way % 2 ? failing : T.dev;
        hcq_queue *g = make_chain(home, T.dev, failing, 3, 0);
        hcq_point raise = hcq_at(make_signal(dev2(), 0), 1), done = {{0}, 0};
        CHECK_OK(way / 2 % 2 ? hcq_queue_bind(g, home) : HCQ_OK);
        if (want == HCQ_ERROR_LOST) {
            lose_at_next_submit(&control);
        } else {
            __atomic_store_n(&control.refuse_at, mock_load(&control.submits) + 1, __ATOMIC_SEQ_CST);
        }
        hcq_result result = submit_queue(g, home, NULL, &raise, 0, &done);
        CHECK(result == HCQ_OK || result == want);
        if (result == HCQ_OK) {
            WAIT_RESULT(done, want);
        }
        if (result == HCQ_OK || want == HCQ_ERROR_LOST) {
            WAIT_RESULT(raise, want);
        }
        goes_on(T.dev);
        CHECK(!mark_at(1) && !mark_at(2));
        if (want == HCQ_ERROR_LOST) {
            CHECK_RESULT(hcq_queue_submit(g, home, NULL), HCQ_ERROR_LOST);
        } else {
            CHECK_OK(hcq_device_synchronize(failing, BOUND));
            RUN_OK(g, home);
            CHECK(mark_at(0) < mark_at(1) && mark_at(1) < mark_at(2));
        }
        (void)hcq_close(failing);
    }
}

/* A later launch may follow it in place of the one before. */
TEST(refused_launch_is_over_after_the_one_before) {
    SKIP_IF(!is_mock(), "only the mock refuses on demand");
    static mock_control control;
    hcq_device *device = open_to_lose(&control);
    hcq_queue *g = make_chain(device, device, device, 1, 1);
    hcq_point first, refused = {{0}, 0}, next;
    CHECK_OK(hcq_queue_submit(g, device, &first));
    CHECK(word_until(&SEEN->hold_began, 1));
    __atomic_store_n(&control.refuse_at, mock_load(&control.submits) + 1, __ATOMIC_SEQ_CST);
    hcq_result result = hcq_queue_submit(g, device, &refused);
    CHECK(result == HCQ_OK || result == HCQ_ERROR_NATIVE);
    CHECK_RESULT(test_poll(refused), HCQ_TIMEOUT);
    CHECK_OK(hcq_queue_submit_with(g, device, NULL, 0, HCQ_OVERLAP, &next));
    hold_release();
    WAIT_OK(first);
    WAIT_RESULT(refused, HCQ_ERROR_NATIVE);
    WAIT_OK(next);
    (void)hcq_close(device);
}

/* The kernel stays, its device does not, whose memory nobody looks through then. */
TEST(kernel_of_a_closed_device_gets_no_other_argument) {
    hcq_device *device = test_open(0, NULL);
    hcq_queue *g = make_chain(T.dev, device, device, 1, 0);
    hcq_buffer mine = make_words(T.dev, 1), theirs = make_words(device, 1);
    CHECK_OK(hcq_free(theirs));
    CHECK_OK(hcq_close(device));
    const uint64_t ways[] = {mine.address, theirs.address, 1};
    for (int way = 0; way < 3; way++) {
        CHECK_RESULT(hcq_queue_update_arg(g, 0, 0, &ways[way], sizeof ways[way]),
                     HCQ_ERROR_CLOSED);
    }
    CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_CLOSED);
}

/* What names the device in the graph. */
static void name_device(hcq_queue *g, hcq_device *device, int how) {
    hcq_buffer theirs = make_words(device, 1), in, e;
    switch (how) {
    case 0:
        CHECK_INDEX(record_one(g, make_nothing(device), NULL, 0), 1);
        break;
    case 1:
        CHECK_INDEX(hcq_graph_alloc(g, device, 64, 0, &e), 1);
        break;
    case 2:
        CHECK_INDEX(hcq_queue_fill(g, theirs, 4, 2, 4), 1);
        break;
    case 3:
        CHECK_INDEX(hcq_queue_host(g, host_nothing, NULL), 1);
        CHECK_OK(hcq_queue_access(g, 1, theirs, HCQ_ARG_OUT));
        break;
    default:
        in = hcq_graph_input(g, 0, device, 4);
        CHECK_INDEX(record_word(g, in, 2, 4), 1);
        break;
    }
}

/* A device goes and another one comes, at the same place maybe: the graph knows
   that it is not the same, whatever it has of the first. */
TEST(graph_outlives_a_device) {
    for (int way = 0; way < 10; way++) { /* planned before or not */
        hcq_device *device = test_open(0, NULL), *again;
        hcq_queue *g = make_graph(), *other = make_graph();
        hcq_buffer word = make_words(T.dev, 1), input = make_words(device, 1), hole;
        CHECK_INDEX(record_word(g, word, 1, 4), 0);
        name_device(g, device, way % 5);
        CHECK(hcq_graph_alloc(other, device, 64, 0, &hole) >= 0);
        if (way / 5) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
            CHECK_OK(launch_inputs(g, &input, 1, NULL));
        }
        CHECK_OK(hcq_close(device));
        again = test_open(0, NULL);
        CHECK_INDEX(record_word(other, hole, 1, 4), HCQ_ERROR_CLOSED);
        input = make_words(again, 1);
        for (int i = 0; i < 2; i++) {
            char text[16];
            CHECK_RESULT(launch_inputs(g, &input, 1, NULL), HCQ_ERROR_CLOSED);
            CHECK_RESULT(hcq_queue_bind(g, T.dev), HCQ_ERROR_CLOSED);
            CHECK_U64(hcq_graph_print(g, 0, text, sizeof text), 0);
        }
        CHECK_OK(hcq_queue_reset(g));
        CHECK_INDEX(record_word(g, word, 2, 4), 0);
        LAUNCH(g);
        CHECK_U64(READ32(word, 0), 2);
        CHECK_OK(hcq_close(again));
    }
}

/* ---- what tells of it ---- */

/* A launch in the explanation of its point and of what it raises, and in the dump of
   the device that has it. */
static void launch_is_told(hcq_point done, hcq_point raise, const char *gate) {
    static char text[65536];
    for (int i = 0; i < 2; i++) {
        SAYS(explain(i ? raise : done), "explained graph");
        SAYS(explained, gate);
        SAYS_NOT(explained, "cycle");
    }
    CHECK(hcq_device_dump(T.dev, text, sizeof text) < sizeof text);
    SAYS(text, "explained graph");
    CHECK(hcq_device_dump(dev2(), text, sizeof text) < sizeof text);
}

/* Held by a signal, and then running, with one device waiting for the other: to, or
   to and fro. */
TEST(launch_is_explained) {
    for (uint32_t way = 0; way < 4; way++) {
        int bound = way % 2;
        hcq_queue *g = make_chain(T.dev, dev2(), T.dev, 2 + way / 2, 1);
        hcq_signal s = labelled_signal(dev2(), "the gate");
        hcq_point gate = hcq_at(s, 1), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        CHECK_OK(hcq_queue_label(g, "explained graph"));
        CHECK_OK(bound ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        CHECK_OK(submit_queue(g, T.dev, &gate, &raise, 0, &done));
        launch_is_told(done, raise, "the gate");
        open_gate(gate);
        CHECK(word_until(&SEEN->hold_began, 1));
        launch_is_told(done, raise, "");
        hold_release();
        WAIT_OK(done);
        SAYS(explain(done), "reached");
    }
}
