/* graph.h - graphs: what a launch order_cases, appended recordings, inputs, memory of
   their own; and what the other files of graphs use. What random graphs see
   (tests/graph) is not told again here. Part of conformance.c. */
#ifndef HCQ_TEST_CONFORMANCE_GRAPH_H
#define HCQ_TEST_CONFORMANCE_GRAPH_H

#include "shared.h"

/* ---- commands that tell when they ran ---- */

enum { MARKS = 16 };

static void marks_reset(void) {
    hold_reset();
    __atomic_store_n(&SEEN->mark_clock, 0, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < MARKS; i++) {
        __atomic_store_n(&SEEN->marks[i], 0, __ATOMIC_RELEASE);
    }
}

static void mark_now(uint32_t index) {
    uint32_t now = __atomic_add_fetch(&SEEN->mark_clock, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&SEEN->marks[index], now, __ATOMIC_RELEASE);
}

static uint32_t mark_at(uint32_t index) {
    return __atomic_load_n(&SEEN->marks[index], __ATOMIC_ACQUIRE);
}

static int mark_until(uint32_t index) {
    return word_until(&SEEN->marks[index], 1);
}

/* Gives a command that should wait, and does not, time to run. Correct code
   passes whatever this finds; it is there for the other. */
static void mark_chance(uint32_t index) {
    for (int i = 0; i < 20 && !mark_at(index); i++) {
        mock_sleep(100000);
    }
}

typedef struct mark_args { uint64_t dst; uint32_t index, late; } mark_args;

/* Marks and writes; `late`: not before hold_release. */
static void k_mark(const void *block_args, const hcq_block *b) {
    const mark_args *k = HCQ_ARGS(mark_args, block_args);
    uint32_t *dst = HCQ_PTR(uint32_t, k->dst);
    (void)b;
    if (k->late) {
        __atomic_fetch_add(&SEEN->hold_began, 1, __ATOMIC_RELEASE);
        word_until(&SEEN->hold_go, 1);
    }
    dst[0] = dst[0] * 31u + k->index + 1;
    mark_now(k->index);
}
TEST_SHADER(k_mark, mark)

static hcq_program *make_mark(hcq_device *device) {
    return make_kernel(device, "mark", k_mark,
                       (const uint32_t[4]){HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32});
}

static int32_t record_mark(hcq_queue *q, hcq_program *mark, hcq_buffer dst, uint32_t index,
                           uint32_t late) {
    mark_args args = {dst.address, index, late};
    return record_one(q, mark, &args, sizeof args);
}

static hcq_result host_mark(void *user) {
    mark_now((uint32_t)(uintptr_t)user);
    return HCQ_OK;
}

static void *mark_user(uint32_t index) {
    return (void *)(uintptr_t)index;
}

/* What record_mix makes of a word. */
static uint32_t mixed(uint32_t dst, uint32_t src, uint32_t seed) {
    return dst * 31u + src + seed;
}

/* ---- launches ---- */

static hcq_result launch_inputs(hcq_queue *g, const hcq_buffer *inputs, uint32_t count,
                                hcq_point *point) {
    hcq_submission s = submission(&g, 1);
    s.inputs = inputs;
    s.input_count = count;
    return hcq_submit(T.dev, &s, 1, point);
}

static hcq_result launch_flags(hcq_queue *g, uint32_t flags, hcq_point *point) {
    return submit_queue(g, T.dev, NULL, NULL, flags, point);
}

/* Launches and waits. */
static void launch_now(const char *file, int line, hcq_queue *g) {
    hcq_point done = {{0}, 0};
    test_result(file, line, "hcq_queue_submit(graph)", hcq_queue_submit(g, T.dev, &done), HCQ_OK);
    test_reached(file, line, done, HCQ_OK);
}
#define LAUNCH(g) launch_now(__FILE__, __LINE__, (g))

#define CHECK_SAME(got, want) check_same(__FILE__, __LINE__, (got), (want))

/* The next numbers of both devices: a launch takes one of each, what is refused none. */
typedef struct next_numbers { uint64_t own, other; } next_numbers;

static next_numbers numbers_now(void) {
    next_numbers n = {hcq_device_timeline_value(T.dev), hcq_device_timeline_value(T.dev2)};
    return n;
}

static void check_numbers(const char *file, int line, next_numbers before,
                          uint64_t taken) {
    next_numbers now = numbers_now();
    test_number(file, line, "the next number", now.own, before.own + taken);
    test_number(file, line, "the other's next number", now.other, before.other + taken);
}
#define CHECK_TAKEN(before, taken) check_numbers(__FILE__, __LINE__, (before), (taken))

/* A mark on each of the two devices, independent of each other, not yet run. */
typedef struct two_marks {
    hcq_queue *g;
    hcq_buffer word[2];
} two_marks;

static two_marks make_two_marks(int bound) {
    two_marks t;
    t.g = make_graph();
    t.word[0] = make_words(T.dev, 4);
    t.word[1] = make_words(T.dev2, 4);
    CHECK_INDEX(record_mark(t.g, make_mark(T.dev), t.word[0], 0, 0), 0);
    CHECK_INDEX(record_mark(t.g, make_mark(T.dev2), t.word[1], 1, 0), 1);
    CHECK_OK(hcq_queue_label(t.g, "two marks"));
    CHECK_OK(bound ? hcq_queue_bind(t.g, T.dev) : HCQ_OK);
    marks_reset();
    synchronize_both();
    return t;
}

/* ---- the same as one after another ---- */

/* Every kind of command, launched in every way, in turn with plain launches. */
static void graph_is_as_one_after_another(TEST_ARGS) {
    static const uint32_t flags[] = {0, HCQ_OVERLAP, HCQ_STEP, HCQ_STEP | HCQ_COPY_LISTS};
    static graph_work w[2];            /* host commands may outlive a failed check */
    for (uint32_t way = 0; way < 8; way++) {
        hcq_queue *g = make_graph(), *q = make_queue(T.dev, HCQ_COMPUTE);
        w[0] = make_work();
        w[1] = make_work();
        CHECK_U64(record_work(g, &w[0]), record_work(q, &w[1]));
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (int i = 0; i < 6; i++) {
            const uint32_t how = i % 3 == 1 ? 0 : flags[way % 4];
            hcq_point done = {{0}, 0};
            CHECK_OK(launch_flags(g, how, &done));
            CHECK(!(how & HCQ_STEP) || test_poll(done) == HCQ_OK);
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        }
        synchronize_both();
        CHECK_WORK(&w[0], &w[1]);
        hcq_queue_destroy(g);
    }
}

/* A graph without commands is a submission like any other. */
static void empty_graph(TEST_ARGS) {
    hcq_queue *g = make_graph();
    hcq_point gate = make_gate(T.dev), raise = hcq_at(make_signal(T.dev, 0), 1), done;
    LAUNCH(g);
    CHECK_OK(submit_queue(g, T.dev, &gate, &raise, 0, &done));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT);
    open_gate(gate);
    WAIT_OK(done);
    WAIT_OK(raise);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    LAUNCH(g);
}

/* ---- what waits within a launch ---- */

/* Mark 0 is held on one device, mark 1 runs on the other, then comes mark 2 there:
   what it has to do with mark 0, and the launch of four from which on it waits. */
typedef enum order_kind {
    ORDER_NOTHING, ORDER_EDGE, ORDER_LATE_EDGE, ORDER_HOST, ORDER_BARRIER, ORDER_CUSTOM,
    ORDER_STATED_HOST, ORDER_HOST_TOUCHES, ORDER_ARGUMENT, ORDER_NARROW, ORDER_READERS,
    ORDER_UPDATE, ORDER_COPY, ORDER_KINDS
} order_kind;

static const struct { const char *name; int waits_from, maps; } order_cases[ORDER_KINDS] = {
    {"nothing", 4, 0},
    {"an edge, twice, and one that is not needed", 0, 0},
    {"an edge that is recorded later", 3, 0},
    {"a host command that says nothing", 0, 0},
    {"a barrier", 0, 0},
    {"a custom command that says nothing", 0, 0},
    {"a host command that says what it touches", 4, 0},
    {"one that touches what both do", 0, 0},
    {"an argument, up to the end of its memory", 0, 1},
    {"one that is said to end earlier", 4, 1},
    {"two that are said to be read only", 4, 1},
    {"an argument that is updated", 3, 1},
    {"a large copy, which has a lane of its own", 4, 0},
};

/* Records what stands between marks 0 and 1 and mark 2, and that one. */
static void order_record(hcq_queue *g, int kind, hcq_buffer a, hcq_buffer b) {
    enum { WORDS = 65536 };
    const custom_payload p = {make_words(T.dev, 1).address, 4711, 1234};
    hcq_program *mark = make_mark(T.dev2);
    hcq_buffer own = make_words(T.dev2, 1), large;
    const int shared = kind == ORDER_ARGUMENT || kind == ORDER_NARROW || kind == ORDER_READERS;
    switch (kind) {
    case ORDER_HOST:
        CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(3)), 2);
        break;
    case ORDER_BARRIER:
        CHECK_INDEX(hcq_queue_memory_barrier(g), 2);
        break;
    case ORDER_CUSTOM:
        CHECK_INDEX(hcq_queue_custom(g, &custom_type, &p), 2);
        break;
    case ORDER_STATED_HOST:
    case ORDER_HOST_TOUCHES:
        CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(3)), 2);
        CHECK_OK(hcq_queue_access(g, 2, kind == ORDER_HOST_TOUCHES ? a : own, HCQ_ARG_OUT));
        CHECK_OK(hcq_queue_access(g, 2, b, HCQ_ARG_INOUT));
        break;
    case ORDER_COPY:
        large = make_words(T.dev, WORDS);
        CHECK_INDEX(hcq_queue_copy(g, large, make_words(T.dev, WORDS), WORDS * 4), 2);
        CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(2)), 3); /* tells of it */
        CHECK_OK(hcq_queue_access(g, 3, own, HCQ_ARG_OUT)); /* over there */
        CHECK_OK(hcq_queue_access(g, 3, large, HCQ_ARG_IN));
        return;
    default:
        break;
    }
    CHECK(record_mark(g, mark, shared ? hcq_view(a, 16, 16) : b, 2, 0) >= 2);
    if (kind == ORDER_NARROW) {
        CHECK_OK(hcq_queue_access(g, 0, hcq_view(a, 0, 16), HCQ_ARG_INOUT));
    } else if (kind == ORDER_READERS) {
        CHECK_OK(hcq_queue_access(g, 0, a, HCQ_ARG_IN));
        CHECK_OK(hcq_queue_access(g, 2, hcq_view(a, 16, 16), HCQ_ARG_IN));
    } else if (kind == ORDER_EDGE) {
        CHECK_OK(hcq_queue_edge(g, 0, 2));
        CHECK_OK(hcq_queue_edge(g, 0, 2));
        CHECK_OK(hcq_queue_edge(g, 1, 2));
    }
}

static void order_launch(hcq_queue *g, int waits) {
    hcq_point done;
    marks_reset();
    CHECK_OK(hcq_queue_submit(g, T.dev, &done));
    CHECK(mark_until(1));
    mark_chance(2);
    CHECK(waits ? !mark_at(2) && !mark_at(3) : mark_until(2));
    CHECK(!mark_at(0));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    hold_release();
    WAIT_OK(done);
    CHECK(!waits || (mark_at(0) < mark_at(2) && (!mark_at(3) || mark_at(3) < mark_at(2))));
}

static void launches_order_what_they_must(TEST_ARGS) {
    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        hcq_buffer a = make_words(T.dev, 8), b = make_words(T.dev2, 8);
        hcq_queue *g = make_graph();
        if ((order_cases[kind].maps && !devices_share_memory()) ||
            (kind == ORDER_COPY && (T.variant->one_fifo ||
                                    !test_query(T.dev, HCQ_QUERY_COPY_LANES)))) {
            fprintf(stderr, "not here: %s\n", order_cases[kind].name);
            continue;
        }
        fprintf(stderr, "%s\n", order_cases[kind].name);
        CHECK_INDEX(record_mark(g, make_mark(T.dev), a, 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), make_words(T.dev2, 1), 1, 0), 1);
        order_record(g, kind, a, b);
        for (int i = 0; i < 4; i++) {
            if (i == 2) {
                CHECK_OK(hcq_queue_bind(g, T.dev));
            }
            if (i == 3 && kind == ORDER_LATE_EDGE) {
                CHECK_OK(hcq_queue_edge(g, 0, 2));
            }
            if (i == 3 && kind == ORDER_UPDATE) {
                CHECK_OK(hcq_queue_update_arg(g, 2, 0, &a.address, 8));
            }
            order_launch(g, i >= order_cases[kind].waits_from);
        }
        hcq_queue_destroy(g);
    }
}

/* ---- appended recordings ---- */

/* A queue's recording and a graph's, that one twice: labels, variables and inputs
   come along, to the devices that they were for, and memory of the graph is other
   memory each time. */
static void graphs_append(TEST_ARGS) {
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE), *none = make_queue(T.dev, HCQ_COPY);
    hcq_queue *part = make_graph(), *g = make_graph();
    hcq_buffer far = make_words(T.dev2, 4), out = make_words(T.dev, 16), e;
    hcq_buffer in = hcq_input(part, 1, NULL, 64);
    custom_payload p = {far.address + 4, 11, 1234};
    hcq_command c;
    CHECK_INDEX(record_add(q, make_add(T.dev2), far, 0, 3), 0);
    CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 1);
    CHECK_INDEX(hcq_queue_memory_barrier(q), 2);
    CHECK_INDEX(hcq_queue_write(q, hcq_view(far, 8, 4), 0, 4), 3);
    CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_command_label(q, 3, "the write"));
    CHECK_INDEX(hcq_queue_empty(part, T.dev, 64, HCQ_ZEROED, &e), 0);
    CHECK_INDEX(hcq_queue_write(part, hcq_view(e, 4, 4), 0, 4), 1);
    CHECK_OK(hcq_queue_variable(part, 1, HCQ_PART_VALUE, 0, 0));
    CHECK_INDEX(record_mix(part, make_mix(T.dev), in, e, 16, 1), 2);
    CHECK_INDEX(hcq_queue_host(part, host_mark, mark_user(0)), 3);
    CHECK_OK(hcq_queue_access(part, 3, e, HCQ_ARG_IN));
    CHECK_INDEX(hcq_queue_fill(part, e, 8, 3, 4), 4);
    CHECK_OK(hcq_queue_command_label(part, 4, "the fill"));
    CHECK_INDEX(hcq_queue_write(g, out, 1, 4), 0);
    CHECK_INDEX(hcq_queue_append(g, q), 1);
    CHECK_INDEX(hcq_queue_append(g, none), 5);
    CHECK_INDEX(hcq_queue_append(g, part), 5);
    CHECK_INDEX(hcq_queue_append(g, part), 10);
    CHECK_INDEX(hcq_queue_copy(g, out, in, 64), 15); /* declared here, too, by now */
    CHECK_OK(hcq_queue_command(g, 4, &c));
    CHECK(c.kind == HCQ_COMMAND_WRITE && strcmp(c.label, "the write") == 0);
    CHECK_OK(hcq_queue_command(g, 14, &c));
    CHECK(c.kind == HCQ_COMMAND_FILL && strcmp(c.label, "the fill") == 0);
    CHECK_OK(hcq_queue_command(g, 10, &c));
    CHECK(c.kind == HCQ_COMMAND_EMPTY);
    CHECK_OK(hcq_queue_command(g, 15, &c));
    CHECK(c.dst.address == out.address && c.src.address == in.address && c.size == 64);
    hcq_queue_destroy(part);           /* it was copied */
    CHECK_OK(hcq_queue_reset(q));
    for (uint32_t i = 0; i < 4; i++) {
        hcq_buffer inputs[2] = {make_words(T.dev, 16), make_words(T.dev, 16)};
        const uint64_t value = 41 + i;
        const uint32_t first = i ? 3 : 0, second = 41 + i; /* a fill of the launch before */
        hcq_submission s = submission(&g, 1);
        s.inputs = inputs;
        s.input_count = 2;
        s.variables = &value;
        s.variable_count = 1;
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, NULL));
        CHECK_U64(READ32(inputs[1], 0), mixed(mixed(0, first, 1), first, 1));
        CHECK_U64(READ32(inputs[1], 1), mixed(mixed(0, second, 1), second, 1));
        CHECK_U64(READ32(inputs[1], 2), mixed(1, 0, 1));
        CHECK_SAME(out, inputs[1]);
        const uint32_t theirs[3] = {3 * (i + 1), 11, second};
        CHECK_BYTES(far, theirs, sizeof theirs);
    }
}

/* Waits, signals and timestamps have no place in a graph, however they come. */
static void graphs_take_no_waits(TEST_ARGS) {
    hcq_signal s = make_signal(T.dev, 0);
    for (int way = 0; way < 8; way++) {
        hcq_queue *g = make_graph(), *q = way < 4 ? g : make_queue(T.dev, HCQ_COMPUTE);
        int32_t index = way % 4 == 0   ? hcq_queue_wait(q, hcq_at(s, 1))
                        : way % 4 == 1 ? hcq_queue_signal(q, hcq_at(s, 1))
                        : way % 4 == 2 ? hcq_queue_timestamp(q, s)
                                       : hcq_queue_wait_device(q, T.dev2);
        CHECK(q == g || index == 0);
        index = q == g ? index : hcq_queue_append(g, q);
        CHECK_INDEX(index, HCQ_ERROR_INVALID);
        CHECK_U64(hcq_queue_count(g), 0);
        CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_INVALID); /* it sticks */
        CHECK_OK(hcq_queue_reset(g));
        LAUNCH(g);
        hcq_queue_destroy(g);
    }
}

/* ---- inputs that share memory ---- */

/* Input 0 and `own` are written, inputs 1 and 2 and `other` read. */
static hcq_queue *make_alias_graph(hcq_buffer own, hcq_buffer other) {
    hcq_queue *g = make_graph();
    hcq_buffer out = hcq_input(g, 0, NULL, 64), in = hcq_input(g, 1, NULL, 64);
    hcq_buffer in2 = hcq_input(g, 2, NULL, 64);
    CHECK_U64(hcq_input(g, 2, T.dev, 64).address, in2.address);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(out, 0, 16), hcq_view(in, 0, 16), 16), 0);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(out, 16, 16), in2, 16), 1);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(own, 32, 32), in, 32), 2);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(out, 32, 16), hcq_view(other, 16, 16), 16), 3);
    return g;
}

static void aliases_are_refused(TEST_ARGS) {
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer own = make_words(T.dev, 32), other = make_words(T.dev, 32);
        hcq_queue *g = make_alias_graph(own, other);
        hcq_buffer big = make_filled(T.dev, 64, 9), x = make_filled(T.dev, 16, 1);
        hcq_buffer y = make_filled(T.dev, 16, 2), keep = make_filled(T.dev, 64, 9);
        const struct { hcq_buffer inputs[3]; hcq_result want; } cases[] = {
            {{x, x, y}, HCQ_ERROR_ALIAS},
            {{x, y, x}, HCQ_ERROR_ALIAS},
            {{hcq_view(big, 0, 64), hcq_view(big, 60, 64), y}, HCQ_ERROR_ALIAS}, /* four bytes */
            {{hcq_view(big, 60, 64), y, hcq_view(big, 0, 64)}, HCQ_ERROR_ALIAS},
            {{x, y, hcq_view(own, 64, 64)}, HCQ_OK},     /* touches, but not the same bytes */
            {{x, y, hcq_view(own, 60, 64)}, HCQ_ERROR_ALIAS}, /* reads what is written */
            {{hcq_view(own, 0, 64), x, y}, HCQ_ERROR_ALIAS}, /* both written */
            {{hcq_view(other, 0, 64), x, y}, HCQ_ERROR_ALIAS}, /* writes what is read */
            {{hcq_view(other, 32, 64), x, y}, HCQ_OK},   /* behind the bytes it reads */
            {{x, other, y}, HCQ_OK},                     /* both only read */
            {{x, y, y}, HCQ_OK},
            {{x, hcq_view(big, 0, 64), hcq_view(big, 32, 64)}, HCQ_OK},
            {{hcq_view(big, 0, 64), hcq_view(big, 64, 64), y}, HCQ_OK}, /* side by side */
            {{hcq_view(big, 0, 128), hcq_view(big, 64, 64), y}, HCQ_OK}, /* 64 declared */
        };
        CHECK_OK(bound ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            hcq_point done = {{0}, 0};
            next_numbers before = numbers_now();
            fprintf(stderr, "case %zu, bound %d\n", i, bound);
            CHECK_RESULT(launch_inputs(g, cases[i].inputs, 3, &done), cases[i].want);
            if (cases[i].want == HCQ_OK) {
                WAIT_OK(done);
                continue;
            }
            CHECK_TAKEN(before, 0);
            if (i < 4) {
                CHECK_SAME(big, keep);
            }
        }
    }
}

/* One memory under two names: it is the same bytes in the plan, and an alias of an
   input. */
static void imports_of_one_memory(TEST_ARGS) {
    static uint32_t memory[64];
    SKIP_IF(!has_feature(HCQ_FEATURE_IMPORT), "no HCQ_FEATURE_IMPORT");
    hcq_queue *g = make_graph();
    hcq_buffer x, y, z;
    hcq_buffer in[2] = {hcq_input(g, 0, NULL, 64), hcq_input(g, 1, T.dev2, 64)};
    hcq_point done;
    memset(memory, 0, sizeof memory);
    CHECK_OK(hcq_import(T.dev, memory, 64, &x));
    CHECK_OK(hcq_import(T.dev2, memory + 8, 64, &y)); /* half of it is the same */
    CHECK_OK(hcq_import(T.dev2, memory + 24, 64, &z));
    CHECK_INDEX(record_mark(g, make_mark(T.dev), x, 0, 1), 0);
    CHECK_INDEX(record_mark(g, make_mark(T.dev2), make_words(T.dev2, 1), 1, 0), 1);
    CHECK_INDEX(record_mark(g, make_mark(T.dev2), y, 2, 0), 2);
    CHECK_INDEX(hcq_queue_fill(g, in[0], 64, 1, 4), 3);
    CHECK_INDEX(record_add(g, make_add(T.dev2), in[1], 0, 1), 4);
    const hcq_buffer good[2] = {make_words(T.dev, 16), z};
    const hcq_buffer bad[3][2] = {{x, z}, {good[0], y}, {x, y}};
    for (uint32_t bound = 0; bound < 2; bound++) {
        CHECK_OK(bound ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        marks_reset();
        for (int i = 0; i < 3; i++) {
            CHECK_RESULT(launch_inputs(g, bad[i], 2, &done), HCQ_ERROR_ALIAS);
        }
        CHECK_OK(launch_inputs(g, good, 2, &done));
        CHECK(mark_until(1));
        mark_chance(2);
        CHECK(!mark_at(2));
        hold_release();
        WAIT_OK(done);
        CHECK(mark_at(0) < mark_at(2));
        CHECK_U64(memory[0], bound ? 32 : 1);
        CHECK_U64(memory[8], bound ? 96 : 3);
        CHECK_U64(memory[24], bound + 1);
    }
    CHECK_OK(hcq_free(x));
    CHECK_OK(hcq_free(y));
    CHECK_OK(hcq_free(z));
}

/* ---- memory of the graph ---- */

/* Allocated by the first run, kept from launch to launch, freed by reset and by
   destroying the graph. */
static void empty_is_kept(TEST_ARGS) {
    for (int way = 0; way < 4; way++) { /* on either device, bound or not */
        hcq_device *device = way % 2 ? T.dev2 : T.dev;
        hcq_buffer out, e;
        hcq_queue *g = make_graph();
        CHECK_OK(hcq_alloc(device, 8, HCQ_HOST_VISIBLE | HCQ_ZEROED, &out));
        const uint32_t *words = (const uint32_t *)out.host;
        const uint64_t bytes = test_query(device, HCQ_QUERY_ALLOCATED_BYTES);
        CHECK_INDEX(hcq_queue_empty(g, device, 80000, HCQ_ZEROED, &e), 0);
        CHECK(e.size == 80000 && e.device == device);
        CHECK_INDEX(record_add(g, make_add(device), hcq_view(e, 400, 400), 1, 3), 1);
        CHECK_INDEX(hcq_queue_copy(g, out, hcq_view(e, 404, 8), 8), 2);
        CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes);
        CHECK_OK(way / 2 ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        for (uint32_t i = 1; i <= 4; i++) {
            LAUNCH(g);
            CHECK(words[0] == 3 * i && words[1] == 0); /* copyout would allocate */
            CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes + 80000);
        }
        if (way < 2) {
            CHECK_OK(hcq_queue_reset(g));
        } else {
            hcq_queue_destroy(g);
        }
        synchronize_both();
        CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes);
    }
}

#define GRAPH_TESTS \
    TEST(graph_is_as_one_after_another), TEST(empty_graph), TEST(launches_order_what_they_must), \
    TEST(graphs_append), TEST(graphs_take_no_waits), TEST(aliases_are_refused), \
    TEST(imports_of_one_memory), TEST(empty_is_kept)

#endif /* HCQ_TEST_CONFORMANCE_GRAPH_H */
