/* graph_limits.h - graphs step by step and as text, their limits and losses, what
   tells of them. Part of conformance.c. */
#include "shared.h"
#include "graph.h"

/* ---- step by step ---- */

static void step_is_the_same(void **state) {
    (void)state;
    static graph_work w[2];
    for (int way = 0; way < 4; way++) {
        const uint32_t flags = HCQ_STEP | (way / 2 ? HCQ_COPY_LISTS : 0);
        hcq_queue *g = make_graph(), *q = make_queue(T.dev, HCQ_COMPUTE);
        w[0] = make_work();
        w[1] = make_work();
        CHECK_U64(record_work(g, &w[0]), record_work(q, &w[1]));
        if (way % 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (int i = 0; i < 4; i++) {  /* steps and plain launches in turn */
            hcq_point done = {{0}, 0};
            CHECK_OK(launch_flags(g, i == 2 ? 0 : flags, &done));
            CHECK(i == 2 || test_poll(done) == HCQ_OK);
            WAIT_OK(done);
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
            CHECK_WORK(&w[0], &w[1]);
        }
        hcq_queue_destroy(g);
    }
}

/* With two devices, inputs, variables and memory of the graph. */
static void step_with_inputs(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_buffer in = hcq_input(g, 0, T.dev2, 64), e;
    hcq_program *add = make_add(T.dev2);
    CHECK_INDEX(hcq_queue_empty(g, T.dev2, 64, HCQ_ZEROED, &e), 0);
    CHECK_INDEX(record_add(g, add, e, 3, 5), 1);
    CHECK_OK(hcq_queue_variable(g, 1, HCQ_PART_ARG + 1, 0, 0));
    CHECK_INDEX(hcq_queue_copy(g, in, e, 64), 2);
    CHECK_INDEX(hcq_queue_memory_barrier(g), 3);
    CHECK_INDEX(record_add(g, add, in, 0, 1), 4);
    CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(0)), 5);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 5; i++) {
        hcq_buffer input = make_words(T.dev2, 16);
        uint64_t value = 10 + i;
        hcq_point done;
        hcq_submission s = submission(&g, 1);
        s.inputs = &input;
        s.input_count = 1;
        s.variables = &value;
        s.variable_count = 1;
        s.flags = i == 3 ? 0 : HCQ_STEP;
        marks_reset();
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        CHECK(i == 3 || test_poll(done) == HCQ_OK);
        CHECK(i == 3 || mark_at(0));
        sum += 10 + i;
        CHECK_U64(READ32(input, 3), sum);
        CHECK_U64(READ32(input, 0), 1);
    }
}

static hcq_result host_steps(void *user) {
    step_call *c = (step_call *)user;
    c->result = launch_flags(c->g, HCQ_STEP, NULL);
    return HCQ_OK;
}

/* It waits, and so it is refused where nobody may wait. */
static void step_in_a_callback(void **state) {
    (void)state;
    static step_call call;
    two_marks t = make_two_marks();
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point done;
    call.g = t.g;
    call.result = HCQ_OK;
    marks_reset();
    CHECK_INDEX(hcq_queue_host(q, host_steps, &call), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    WAIT_OK(done);
    CHECK_RESULT(call.result, HCQ_ERROR_WOULD_BLOCK);
    CHECK(!mark_at(0) && !mark_at(1));
    CHECK_OK(launch_flags(t.g, HCQ_STEP, &done));
    CHECK(mark_at(0) && mark_at(1));
}

/* A failing host command, or a failed wait, ends it, and the call says so. */
static void step_fails(void **state) {
    (void)state;
    static host_log log;
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *g = make_graph();
    hcq_point raise[3], bad = make_gate(T.dev2), done;
    hcq_submission s = submission(&g, 1);
    memset(&log, 0, sizeof log);
    for (int i = 0; i < 3; i++) {
        raise[i] = hcq_at(make_signal(T.dev, 0), 1);
    }
    CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_host(g, host_record, &log), 1);
    CHECK_INDEX(hcq_queue_write(g, hcq_view(a, 4, 4), 1, 4), 2);
    s.flags = HCQ_STEP;
    s.signals = &raise[0];
    s.signal_count = 1;
    log.result = HCQ_ERROR_HOST;
    CHECK_RESULT(hcq_submit(T.dev, &s, 1, &done), HCQ_ERROR_HOST);
    WAIT_RESULT(raise[0], HCQ_ERROR_HOST);
    CHECK_U64(READ32(a, 0), 1);
    CHECK_U64(READ32(a, 1), 0);
    log.result = HCQ_OK;
    CHECK_OK(hcq_signal_fail(bad.signal, HCQ_ERROR_NATIVE));
    s.signals = &raise[1];
    s.waits = &bad;
    s.wait_count = 1;
    CHECK_RESULT(hcq_submit(T.dev, &s, 1, &done), HCQ_ERROR_NATIVE);
    WAIT_RESULT(raise[1], HCQ_ERROR_NATIVE);
    CHECK_U64(log.calls, 1);
    s.signals = &raise[2];
    s.wait_count = 0;
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
    CHECK_OK(test_poll(done));
    CHECK_OK(test_poll(raise[2]));
    CHECK_U64(READ32(a, 1), 1);
}

/* ---- the schedule as text ---- */

typedef size_t (*graph_text_fn)(hcq_queue *, uint32_t, char *, size_t);

static void graph_as_text(void **state) {
    (void)state;
    static char text[65536], part[65536];
    const graph_text_fn fns[2] = {hcq_queue_print, hcq_queue_dot};
    hcq_queue *g = make_graph();
    hcq_buffer a = make_words(T.dev, 16), b = make_words(T.dev2, 16);
    CHECK_OK(hcq_queue_label(g, "the schedule"));
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_fill(g, a, 64, 1, 4), 1);
    CHECK_OK(hcq_queue_command_label(g, 1, "first fill"));
    CHECK_INDEX(record_add(g, make_add(T.dev2), b, 0, 1), 2);
    CHECK_OK(hcq_queue_edge(g, 1, 2));
    CHECK_OK(hcq_queue_command_label(g, 2, "a \"quoted\\one\""));
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t flags = i / 2 % 2 ? HCQ_COPY_LISTS : 0;
        graph_text_fn fn = fns[i % 2];
        if (i == 4) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        size_t length = fn(g, flags, NULL, 0);
        CHECK(length > 0 && length < sizeof text);
        memset(text, 'x', sizeof text);
        CHECK_U64(fn(g, flags, text, sizeof text), length);
        CHECK_U64(strlen(text), length);
        memset(part, 'x', sizeof part);
        CHECK_U64(fn(g, flags, part, length + 1), length); /* fits exactly */
        CHECK(memcmp(text, part, length + 1) == 0 && part[length + 1] == 'x');
        memset(part, 'x', sizeof part);
        CHECK_U64(fn(g, flags, part, 20), length); /* cut, and ended with a zero */
        CHECK(memcmp(text, part, 19) == 0 && part[19] == 0 && part[20] == 'x');
        CHECK_U64(fn(g, flags, part, 1), length);
        CHECK(part[0] == 0);
        SAYS(text, "first fill");
        SAYS(text, "SYNC");
        SAYS(text, "WAIT");
        CHECK(i % 2 == 0 || strstr(text, "digraph") != NULL);
        CHECK(i % 2 == 0 || strstr(text, "a \"quoted") == NULL); /* it is escaped there */
    }
    LAUNCH(g);
    CHECK_U64(READ32(a, 15), 1);
}

/* ---- limits, losses, refusals ---- */

/* A launch for which a device has no room left takes a number on none. */
static void launches_beyond_the_parked_limit(void **state) {
    (void)state;
    hcq_device_desc desc = test_desc();
    desc.parked_limit = 12;
    hcq_device *limited = test_open(0, &desc);
    for (int way = 0; way < 2; way++) { /* it is the other device, or the home */
        hcq_device *home = way ? limited : T.dev, *other = way ? T.dev : limited;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_buffer a = make_words(home, 1), b = make_words(other, 1);
        hcq_point gate = make_gate(T.dev2), done = {{0}, 0}, last = {{0}, 0};
        hcq_result result = HCQ_OK;
        uint32_t accepted = 0;
        CHECK_INDEX(record_add(g, make_add(home), a, 0, 1), 0);
        CHECK_INDEX(record_add(g, make_add(other), b, 0, 1), 1);
        for (int i = 0; i < 100 && result == HCQ_OK; i++) {
            const uint64_t numbers[2] = {hcq_device_timeline_value(home),
                                         hcq_device_timeline_value(other)};
            result = submit_behind(g, home, &gate, &done);
            if (result == HCQ_OK) {
                last = done;
                accepted++;
                continue;
            }
            CHECK_U64(hcq_device_timeline_value(home), numbers[0]);
            CHECK_U64(hcq_device_timeline_value(other), numbers[1]);
        }
        CHECK_RESULT(result, HCQ_ERROR_LIMIT);
        CHECK(accepted > 0 && accepted <= 12);
        open_gate(gate);
        WAIT_OK(last);
        CHECK_OK(hcq_queue_submit(g, home, &done));
        WAIT_OK(done);
        CHECK_U64(READ32(a, 0), accepted + 1);
        CHECK_U64(READ32(b, 0), accepted + 1);
        hcq_queue_destroy(g);
    }
    CHECK_OK(hcq_close(limited));
}

/* A device of a launch is lost: the launch fails, the other device goes on. */
static void device_of_a_launch_is_lost(void **state) {
    (void)state;
    if (!is_mock()) {
        SKIP("only the mock is lost on demand");
        return;
    }
    for (int way = 0; way < 4; way++) { /* the other device, or the home; bound */
        static mock_control control;
        hcq_device *lossy = open_to_lose(&control);
        hcq_device *home = way % 2 ? lossy : T.dev, *other = way % 2 ? T.dev : lossy;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_point raise = hcq_at(make_signal(T.dev2, 0), 1), done = {{0}, 0}, next;
        hcq_submission s = submission(&g, 1);
        marks_reset();
        hold_release();
        CHECK_INDEX(record_mark(g, make_mark(T.dev), make_words(T.dev, 1), 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(lossy), make_words(lossy, 1), 1, 0), 1);
        CHECK_INDEX(record_mark(g, make_mark(T.dev), make_words(T.dev, 1), 2, 0), 2);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        CHECK_OK(hcq_queue_edge(g, 1, 2));
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(g, home));
        }
        CHECK_OK(hcq_device_synchronize(other, BOUND));
        CHECK_OK(hcq_device_synchronize(home, BOUND));
        s.signals = &raise;
        s.signal_count = 1;
        lose_at_next_submit(&control);
        hcq_result result = hcq_submit(home, &s, 1, &done);
        CHECK(result == HCQ_OK || result == HCQ_ERROR_LOST);
        if (result == HCQ_OK) {
            WAIT_RESULT(done, HCQ_ERROR_LOST);
        }
        WAIT_RESULT(raise, HCQ_ERROR_LOST);
        CHECK_RESULT(hcq_queue_submit(g, home, NULL), HCQ_ERROR_LOST);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK(!mark_at(1) && !mark_at(2));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &next));
        WAIT_OK(next);
        (void)hcq_close(lossy);
    }
}

/* The native API takes one part of a launch and refuses another: the launch fails,
   the next one runs. */
static void refused_part_of_a_launch(void **state) {
    (void)state;
    if (!is_mock()) {
        SKIP("only the mock refuses a batch on demand");
        return;
    }
    for (int way = 0; way < 4; way++) { /* whose part; bound */
        static mock_control control;
        hcq_device_desc desc = test_desc();
        memset(&control, 0, sizeof control);
        test_mock_desc.control = &control;
        hcq_device *device = test_open(0, &desc);
        hcq_device *home = way % 2 ? device : T.dev, *other = way % 2 ? T.dev : device;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_buffer a = make_words(home, 1), b = make_words(other, 1);
        hcq_point done = {{0}, 0};
        CHECK_INDEX(record_add(g, make_add(home), a, 0, 1), 0);
        CHECK_INDEX(record_add(g, make_add(other), b, 0, 1), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(g, home));
        }
        CHECK_OK(hcq_device_synchronize(home, BOUND));
        CHECK_OK(hcq_device_synchronize(other, BOUND));
        __atomic_store_n(&control.refuse_at, mock_load(&control.submits) + 1, __ATOMIC_SEQ_CST);
        hcq_result result = hcq_queue_submit(g, home, &done);
        CHECK(result == HCQ_OK || result == HCQ_ERROR_NATIVE);
        if (result == HCQ_OK) {
            WAIT_RESULT(done, HCQ_ERROR_NATIVE);
        }
        CHECK_OK(hcq_device_synchronize(home, BOUND));
        CHECK_OK(hcq_device_synchronize(other, BOUND));
        const uint32_t before = READ32(b, 0);
        CHECK_OK(hcq_queue_submit(g, home, &done));
        WAIT_OK(done);
        CHECK_U64(READ32(b, 0), before + 1);
        CHECK_OK(hcq_close(device));
        if (way % 2 == 0) {
            hcq_queue_destroy(g);
        }
    }
}

/* Execs of launches are counted like others, step by step or not. */
static void coverage_counts_launches(void **state) {
    (void)state;
    hcq_device *keep = T.dev, *device = open_covered();
    T.dev = device;
    hcq_program *add = make_add(device);
    hcq_buffer a = make_words(device, 4);
    hcq_queue *g = make_graph();
    hcq_point done = {{0}, 0};
    CHECK_INDEX(record_add(g, add, a, 0, 1), 0);
    CHECK_INDEX(record_add(g, add, a, 1, 1), 1);
    for (uint64_t i = 1; i <= 8; i++) {
        if (i == 4) {
            CHECK_OK(hcq_queue_bind(g, device));
        }
        CHECK_OK(launch_flags(g, i == 2 || i == 6 ? HCQ_STEP : i % 3 ? 0 : HCQ_OVERLAP, &done));
        WAIT_OK(done);
        CHECK_U64(runs_of(add), 2 * i);
    }
    T.dev = keep;
    CHECK_OK(hcq_close(device));
}

/* An input is freed while another device than its own still writes it. */
static void freed_input_waits_for_all_devices(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    hcq_queue *g = make_graph();
    hcq_buffer in = hcq_input(g, 0, T.dev, 4096), input, other;
    hcq_point done;
    CHECK_INDEX(record_mark(g, make_mark(T.dev2), in, 0, 1), 0);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    for (int i = 0; i < 3; i++) {
        marks_reset();
        CHECK_OK(hcq_alloc(T.dev, 4096, 0, &input));
        CHECK_OK(launch_inputs(g, &input, 1, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        CHECK_OK(hcq_free(input));
        CHECK_OK(hcq_alloc(T.dev, 4096, 0, &other));
        CHECK(other.address != input.address); /* not its block */
        hold_release();
        WAIT_OK(done);
        CHECK_OK(hcq_free(other));
    }
}

/* ---- what tells of it ---- */

/* A held launch in the dump of its devices and in the explanation of its point. */
static void held_launch_is_explained(void **state) {
    (void)state;
    static char text[65536];
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_signal s = labelled_signal(T.dev2, "the gate");
        hcq_point gate = hcq_at(s, 1), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        hcq_submission sub = submission(&t.g, 1);
        sub.waits = &gate;
        sub.wait_count = 1;
        sub.signals = &raise;
        sub.signal_count = 1;
        marks_reset();
        CHECK_OK(hcq_queue_label(t.g, "explained graph"));
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
        for (int i = 0; i < 2; i++) {
            SAYS(explain(i ? raise : done), "explained graph");
            SAYS(explained, "the gate");
            SAYS_NOT(explained, "cycle");
        }
        (void)explain(timeline_now(T.dev2));
        CHECK(hcq_device_dump(T.dev, text, sizeof text) < sizeof text);
        SAYS(text, "explained graph");
        CHECK(hcq_device_dump(T.dev2, text, sizeof text) < sizeof text);
        CHECK_OK(hcq_signal_set(s, 1));
        WAIT_OK(done);
        SAYS(explain(done), "reached");
    }
}

/* While it runs, with one device waiting for the other. */
static void running_launch_is_explained(void **state) {
    (void)state;
    static char text[65536];
    hcq_queue *g = make_graph();
    hcq_point done;
    marks_reset();
    CHECK_OK(hcq_queue_label(g, "running graph"));
    CHECK_INDEX(record_mark(g, make_mark(T.dev2), make_words(T.dev2, 1), 0, 1), 0);
    CHECK_INDEX(record_mark(g, make_mark(T.dev), make_words(T.dev, 1), 1, 0), 1);
    CHECK_OK(hcq_queue_edge(g, 0, 1));
    CHECK_OK(hcq_queue_submit(g, T.dev, &done));
    CHECK(word_until(&SEEN->hold_began, 1));
    SAYS(explain(done), "running graph");
    SAYS_NOT(explained, "cycle");
    CHECK(hcq_device_dump(T.dev, text, sizeof text) < sizeof text);
    CHECK(hcq_device_dump(T.dev2, text, sizeof text) < sizeof text);
    hold_release();
    WAIT_OK(done);
}

static void graph_commands_are_read_back(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_program *add = make_add(T.dev2);
    hcq_buffer a = make_words(T.dev, 16), b = make_words(T.dev2, 16), e;
    hcq_buffer in = hcq_input(g, 3, NULL, 64);
    add_args args = {b.address + 4, 3, 1};
    hcq_command c;
    CHECK_INDEX(hcq_queue_exec(g, add, &args, sizeof args, hcq_dim(3, 0, 2), hcq_dim(4, 1, 1)), 0);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(in, 16, 16), hcq_view(a, 8, 16), 16), 1);
    CHECK_INDEX(hcq_queue_empty(g, T.dev2, 256, 0, &e), 2);
    CHECK_INDEX(hcq_queue_fill(g, e, 32, 0xabcd, 2), 3);
    CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(4)), 4);
    CHECK_INDEX(hcq_queue_memory_barrier(g), 5);
    CHECK_INDEX(hcq_queue_write(g, a, 5, 8), 6);
    CHECK_OK(hcq_queue_command_label(g, 4, "reads back"));
    for (int round = 0; round < 2; round++) {
        CHECK_U64(hcq_queue_count(g), 7);
        CHECK_OK(hcq_queue_command(g, 0, &c));
        CHECK(c.kind == HCQ_COMMAND_EXEC && c.program == add);
        CHECK(c.grid.x == 3 && c.grid.y == 0 && c.grid.z == 2 && c.block.x == 4);
        CHECK(c.args_size == sizeof args && memcmp(c.args, &args, sizeof args) == 0);
        CHECK_OK(hcq_queue_command(g, 1, &c));
        CHECK(c.kind == HCQ_COMMAND_COPY && c.size == 16);
        CHECK(c.src.address == a.address + 8 && c.src.device == T.dev);
        CHECK(c.dst.address == in.address + 16);
        CHECK_OK(hcq_queue_command(g, 2, &c));
        CHECK(c.kind == HCQ_COMMAND_EMPTY);
        CHECK_OK(hcq_queue_command(g, 3, &c));
        CHECK(c.kind == HCQ_COMMAND_FILL && c.size == 32 && c.value_size == 2);
        CHECK(c.value == 0xabcd && c.dst.address == e.address);
        CHECK_OK(hcq_queue_command(g, 4, &c));
        CHECK(c.kind == HCQ_COMMAND_HOST && c.host_fn == host_mark && c.user == mark_user(4));
        CHECK(strcmp(c.label, "reads back") == 0);
        CHECK_OK(hcq_queue_command(g, 5, &c));
        CHECK(c.kind == HCQ_COMMAND_BARRIER);
        CHECK_OK(hcq_queue_command(g, 6, &c));
        CHECK(c.kind == HCQ_COMMAND_WRITE && c.value == 5 && c.value_size == 8);
        CHECK_RESULT(hcq_queue_command(g, 7, &c), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_bind(g, T.dev)); /* and the same afterwards */
    }
}

/* ---- many launches ---- */

/* Counters of 16 values: they are swapped many times between two launches, and in
   the middle of a run of launches. */
static void launches_over_counter_swaps(void **state) {
    (void)state;
    const uint32_t rounds = T.quick ? 60 : 300;
    hcq_device_desc desc = test_desc();
    desc.counter_limit = 16;
    hcq_device *keep = T.dev, *devices[2] = {test_open(0, &desc), test_open(1, &desc)};
    T.dev = devices[0];
    for (int bound = 0; bound < 2; bound++) {
        hcq_program *add[2] = {make_add(devices[0]), make_add(devices[1])};
        hcq_buffer a = make_words(devices[0], 4), b = make_words(devices[1], 4);
        hcq_queue *g = make_graph();
        hcq_point first = {{0}, 0}, done = {{0}, 0};
        uint64_t before = test_query(devices[0], HCQ_QUERY_COUNTER_SWAPS);
        CHECK_INDEX(record_add(g, add[0], a, 0, 1), 0);
        CHECK_INDEX(record_add(g, add[1], b, 0, 1), 1);
        CHECK_INDEX(record_add(g, add[0], a, 0, 1), 2);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        CHECK_OK(hcq_queue_edge(g, 1, 2));
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (uint32_t i = 0; i < rounds; i++) {
            CHECK_OK(launch_flags(g, i % 2 ? HCQ_OVERLAP : 0, i ? &done : &first));
            for (uint32_t k = 0; i % 5 == 0 && k < 50; k++) { /* three swaps */
                CHECK_OK(submit_lists(devices[k % 2], NULL, NULL, 0, NULL));
                CHECK_OK(submit_lists(devices[1 - k % 2], NULL, NULL, 0, NULL));
            }
        }
        WAIT_OK(done);
        CHECK_OK(test_poll(first));
        CHECK(test_query(devices[0], HCQ_QUERY_COUNTER_SWAPS) >= before + rounds / 5 * 2);
        CHECK_U64(READ32(a, 0), 2 * rounds);
        CHECK_U64(READ32(b, 0), rounds);
        for (int k = 0; k < 2; k++) {  /* nothing is left over */
            CHECK_OK(hcq_device_synchronize(devices[k], BOUND));
            CHECK_U64(test_query(devices[k], HCQ_QUERY_PENDING), 0);
            CHECK_U64(test_query(devices[k], HCQ_QUERY_HELD), 0);
        }
    }
    T.dev = keep;
    CHECK_OK(hcq_close(devices[0]));
    CHECK_OK(hcq_close(devices[1]));
}

typedef struct launcher {
    pthread_t thread;
    hcq_queue *g;
    hcq_device *home;
    uint32_t rounds;
    hcq_result result;
} launcher;

static void *launcher_run(void *user) {
    launcher *l = (launcher *)user;
    hcq_point done = {{0}, 0};
    for (uint32_t i = 0; i < l->rounds && l->result == HCQ_OK; i++) {
        l->result = hcq_queue_submit(l->g, l->home, &done);
    }
    if (l->result == HCQ_OK) {
        l->result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
    }
    return NULL;
}

/* Two threads, two graphs, the same buffers, homes apart: launches follow each
   other on every device that they share. */
static void launches_from_two_threads(void **state) {
    (void)state;
    const uint32_t rounds = T.quick ? 300 : 1500;
    static launcher l[2];
    hcq_device *devices[2] = {T.dev, T.dev2};
    hcq_buffer a = make_words(T.dev, 1), b = make_words(T.dev2, 1);
    for (int k = 0; k < 2; k++) {
        hcq_queue *g = make_queue(devices[k], HCQ_GRAPH);
        CHECK(record_add(g, make_add(T.dev), a, 0, 1u + (uint32_t)k) >= 0);
        CHECK(record_add(g, make_add(T.dev2), b, 0, 1u + (uint32_t)k) >= 0);
        CHECK(record_add(g, make_add(T.dev), a, 0, 1) >= 0);
        CHECK_OK(hcq_queue_edge(g, k ? 0 : 1, k ? 1 : 2)); /* to and fro */
        CHECK_OK(hcq_queue_bind(g, devices[k]));
        memset(&l[k], 0, sizeof l[k]);
        l[k].g = g;
        l[k].home = devices[k];
        l[k].rounds = rounds;
    }
    for (int k = 0; k < 2; k++) {
        pthread_create(&l[k].thread, NULL, launcher_run, &l[k]);
    }
    for (int k = 0; k < 2; k++) {
        pthread_join(l[k].thread, NULL);
    }
    CHECK_OK(l[0].result);
    CHECK_OK(l[1].result);
    CHECK_U64(READ32(a, 0), 5 * rounds);
    CHECK_U64(READ32(b, 0), 3 * rounds);
}

#define GRAPH_LIMITS_TESTS \
    TEST(step_is_the_same), TEST(step_with_inputs), TEST(step_in_a_callback), \
    TEST(step_fails), TEST(graph_as_text), TEST(launches_beyond_the_parked_limit), \
    TEST(device_of_a_launch_is_lost), TEST(refused_part_of_a_launch), \
    TEST(coverage_counts_launches), TEST(freed_input_waits_for_all_devices), \
    TEST(held_launch_is_explained), TEST(running_launch_is_explained), \
    TEST(graph_commands_are_read_back), TEST(launches_over_counter_swaps), \
    TEST(launches_from_two_threads)
