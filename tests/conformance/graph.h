/* graph.h - graphs: appended recordings, memory of their own; and what the other files of
   graphs use. What random graphs see (tests/graph) is not told again here. Part of
   conformance.c. */

/* ---- commands that tell when they ran ---- */

enum { MARKS = 16 };

static void marks_reset(void) {
    hold_reset();
    __atomic_store_n(&SEEN->mark_clock, 0, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < MARKS; i++) {
        __atomic_store_n(&SEEN->marks[i], 0, __ATOMIC_RELEASE);
    }
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
    uint32_t now = __atomic_add_fetch(&SEEN->mark_clock, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&SEEN->marks[k->index], now, __ATOMIC_RELEASE);
}
TEST_SHADER(k_mark, mark)

static hcq_program *make_mark(hcq_device *device) {
    return make_kernel(device, HCQ_CPU_PROGRAM("mark", k_mark, HCQ_ARG_INOUT, HCQ_ARG_U32,
                                               HCQ_ARG_U32));
}

static int32_t record_mark(hcq_queue *q, hcq_program *mark, hcq_buffer dst, uint32_t index,
                           uint32_t late) {
    mark_args args = {dst.address, index, late};
    return record_one(q, mark, &args, sizeof args);
}

/* What record_mix makes of a word. */
static uint32_t mixed(uint32_t dst, uint32_t src, uint32_t seed) {
    return dst * 31u + src + seed;
}

/* ---- launches ---- */

static hcq_result launch_inputs(hcq_queue *g, const hcq_buffer *inputs, uint32_t count,
                                hcq_point *point) {
    hcq_value list[HCQ_MAX_VALUES];
    const hcq_value *values = values_of(list, NULL, 0, inputs, count);
    return hcq_queue_submit_with(g, T.dev, values, count, 0, point);
}

static hcq_result launch_flags(hcq_queue *g, uint32_t flags, hcq_point *point) {
    return submit_queue(g, T.dev, NULL, NULL, flags, point);
}

/* Launches and waits. */
#define LAUNCH(g) RUN_OK(g, T.dev)

#define CHECK_SAME(got, want) check_same(__FILE__, __LINE__, (got), (want))

/* A mark on each of the two devices, independent of each other, not yet run. */
typedef struct two_marks {
    hcq_queue *g;
    hcq_buffer word[2];
} two_marks;

static two_marks make_two_marks(int bound) {
    two_marks t = {make_graph(), {make_words(T.dev, 4), make_words(dev2(), 4)}};
    CHECK_INDEX(record_mark(t.g, make_mark(T.dev), t.word[0], 0, 0), 0);
    CHECK_INDEX(record_mark(t.g, make_mark(dev2()), t.word[1], 1, 0), 1);
    CHECK_OK(hcq_queue_label(t.g, "two marks"));
    CHECK_OK(bound ? hcq_queue_bind(t.g, T.dev) : HCQ_OK);
    marks_reset();
    synchronize_both();
    return t;
}

/* ---- recordings ---- */

/* A graph without commands is a submission like any other. */
TEST(empty_graph) {
    hcq_queue *g = make_graph();
    hcq_point gate = make_gate(T.dev), raise = hcq_at(make_signal(T.dev, 0), 1);
    CHECK_OK(submit_queue(g, T.dev, &gate, &raise, 0, NULL));
    CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT);
    GATE_END(gate, raise);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    LAUNCH(g);
}

/* A queue's recording and a graph's, that one twice: labels, variables and inputs
   come along, to the devices that they were for, and memory of the graph is other
   memory each time. */
TEST(graphs_append) {
    hcq_queue *q = make_queue(dev2(), HCQ_COMPUTE), *none = make_queue(T.dev, HCQ_COPY);
    hcq_queue *part = make_graph(), *g = make_graph();
    hcq_buffer far = make_words(dev2(), 4), out = make_words(T.dev, 16), e;
    hcq_buffer in = hcq_graph_input(part, 1, NULL, 64), same = hcq_graph_input(part, 1, T.dev, 64);
    CHECK(in.address != 0 && in.address == same.address && in.size == same.size);
    custom_payload p = {far.address + 4, 11, 1234};
    hcq_command c;
    CHECK_INDEX(record_add(q, make_add(dev2()), far, 0, 3), 0);
    CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 1);
    CHECK_INDEX(hcq_queue_memory_barrier(q), 2);
    CHECK_INDEX(record_word(q, hcq_view(far, 8, 4), 0, 4), 3);
    CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_VALUE, 2, 0));
    CHECK_OK(hcq_queue_command_label(q, 3, "the write"));
    CHECK_INDEX(hcq_graph_alloc(part, T.dev, 64, HCQ_ZEROED, &e), 0);
    CHECK_INDEX(record_word(part, hcq_view(e, 4, 4), 0, 4), 1);
    CHECK_OK(hcq_queue_variable(part, 1, HCQ_PART_VALUE, 2, 0));
    CHECK_INDEX(record_mix(part, make_mix(T.dev), in, e, 16, 1), 2);
    CHECK_INDEX(hcq_queue_host(part, host_nothing, NULL), 3);
    CHECK_OK(hcq_queue_access(part, 3, e, HCQ_ARG_IN));
    CHECK_INDEX(hcq_queue_fill(part, e, 8, 3, 4), 4);
    CHECK_OK(hcq_queue_command_label(part, 4, "the fill"));
    CHECK_INDEX(record_word(g, out, 1, 4), 0);
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
    CHECK(c.kind == HCQ_COMMAND_ALLOC && c.dst.size == 64);
    hcq_queue_destroy(part);           /* it was copied */
    CHECK_OK(hcq_queue_reset(q));
    for (uint32_t i = 0; i < 4; i++) {
        hcq_buffer inputs[2] = {make_words(T.dev, 16), make_words(T.dev, 16)};
        const uint32_t first = i ? 3 : 0, second = 41 + i; /* a fill of the launch before */
        const hcq_value values[3] = {hcq_value_buffer(inputs[0]), hcq_value_buffer(inputs[1]),
                                     hcq_value_number(41 + i)};
        CHECK_OK(i == 2 ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_submit_with(g, T.dev, values, 3, 0, NULL));
        CHECK_U64(READ32(inputs[1], 0), mixed(mixed(0, first, 1), first, 1));
        CHECK_U64(READ32(inputs[1], 1), mixed(mixed(0, second, 1), second, 1));
        CHECK_U64(READ32(inputs[1], 2), mixed(1, 0, 1));
        CHECK_SAME(out, inputs[1]);
        const uint32_t theirs[3] = {3 * (i + 1), 11, second};
        CHECK_BYTES(far, theirs, sizeof theirs);
    }
}

/* Inputs may be declared between launches, whose values get more, whether a command names them
   or not: it may be one that was launched. */
TEST(inputs_are_declared_late) {
    enum { N = 40, BYTES = 256 };
    hcq_queue *g = make_graph();
    hcq_buffer all = make_words(T.dev, N * BYTES / 4), input = hcq_graph_input(g, 0, T.dev, BYTES);
    hcq_value values[N];
    uint32_t named = 0;
    CHECK_INDEX(record_add(g, make_add(T.dev), input, 0, 5), 0);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    for (uint32_t n = 0; n < N; n++) {
        if (n != 0) {
            input = hcq_graph_input(g, n, T.dev, BYTES);
            CHECK_U64(input.size, BYTES);
        }
        if (n % 3 == 2) {
            CHECK_OK(hcq_queue_update_arg(g, 0, 0, &input.address, 8));
            named = n;
        }
        for (uint32_t i = 0; i <= n; i++) { /* they move with each launch */
            values[i] = hcq_value_buffer(hcq_view(all, (i + n) % N * BYTES, BYTES));
        }
        hcq_buffer word = hcq_view(all, (named + n) % N * BYTES, 4);
        const uint32_t before = READ32(word, 0);
        CHECK_OK(hcq_queue_submit_with(g, T.dev, values, n + 1, 0, NULL));
        CHECK_U64(READ32(word, 0), before + 5);
    }
}

/* An input is declared once, also by its size and device, and nothing stands where a value of a
   queue's could: what is not there is refused, and that sticks. */
TEST(graphs_take_what_is_there) {
    const hcq_buffer hole = {.size = 64}, a = make_words(T.dev, 16);
    const add_args none = {0, 1, 16};
    for (uint32_t way = 0; way < 5; way++) {
        hcq_queue *g = make_graph();
        CHECK_U64(hcq_graph_input(g, 0, NULL, 64).size, 64);
        CHECK_INDEX(hcq_queue_fill(g, a, 64, 1, 4), 0);
        CHECK_RESULT(hcq_queue_variable(g, 0, HCQ_PART_DST, 1, 0), HCQ_ERROR_INVALID);
        CHECK(way == 0   ? hcq_graph_input(g, 0, NULL, 128).size == 0
              : way == 1 ? hcq_graph_input(g, 0, dev2(), 64).size == 0
              : way == 2 ? hcq_queue_fill(g, hole, 64, 1, 4) < 0
              : way == 3 ? hcq_queue_copy(g, a, hole, 64) < 0
                         : record_one(g, make_add(T.dev), &none, sizeof none) < 0);
        CHECK_RESULT(launch_inputs(g, &a, 1, NULL), HCQ_ERROR_INVALID);
    }
}

/* A host command runs where it writes first, behind what touches the same, also once it is
   appended. */
TEST(appended_commands_keep_their_accesses) {
    hcq_queue *g[3] = {make_graph(), make_graph(), make_graph()}; /* part, direct, joined */
    const hcq_buffer home = make_words(T.dev, 4), away = make_words(dev2(), 4);
    char text[3][512];
    for (int32_t i = 1; i < 3; i++) {
        CHECK_INDEX(record_word(g[i], home, 1, 4), 0);
    }
    for (int32_t i = 0; i < 2; i++) {
        CHECK_INDEX(hcq_queue_host(g[i], host_nothing, NULL), i);
        CHECK_OK(hcq_queue_access(g[i], i, away, HCQ_ARG_OUT));
        CHECK_OK(hcq_queue_access(g[i], i, home, HCQ_ARG_OUT));
    }
    CHECK_INDEX(hcq_queue_append(g[2], g[0]), 1);
    for (int i = 1; i < 3; i++) {
        CHECK(hcq_graph_print(g[i], 0, text[i], sizeof text[i]) < sizeof text[i]);
    }
    CHECK(text[1][0] != 0 && strcmp(text[1], text[2]) == 0);
}

enum { LATE_BYTES = 65536 };

typedef struct late_args { uint64_t x, y; } late_args;

static void late_cpu(const void *args, const hcq_block *block) {
    const late_args *a = HCQ_ARGS(late_args, args);
    (void)block;
    usleep(20000);
    HCQ_PTR(uint32_t, a->y)[0] = HCQ_PTR(uint32_t, a->y)[LATE_BYTES / 4] = 7;
}

/* An argument that is updated has all that was said of its buffer; what two arguments at one
   address are counts for both: a copy of what the kernel writes comes behind it. */
TEST(updated_arguments_keep_what_was_said) {
    NEEDS_CPU_KERNELS("one that sleeps");
    const hcq_program_desc desc = HCQ_CPU_PROGRAM("late", late_cpu, HCQ_ARG_IN, HCQ_ARG_OUT);
    hcq_program *late = make_kernel(T.dev, desc);
    for (int way = 0; way < 3; way++) {
        hcq_buffer from[2], out = make_words(T.dev, LATE_BYTES / 4);
        hcq_buffer unread = make_words(T.dev, 1);
        hcq_queue *g = make_graph();
        for (int i = 0; i < 2; i++) { from[i] = make_words(T.dev, LATE_BYTES / 2); }
        hcq_buffer old = from[way != 0], read = hcq_view(from[0], LATE_BYTES, LATE_BYTES);
        late_args args = {way == 2 ? from[0].address : unread.address, old.address};
        CHECK_INDEX(record_one(g, late, &args, sizeof args), 0);
        if (way == 2) {
            CHECK_OK(hcq_queue_access(g, 0, from[0], HCQ_ARG_IN));
        } else {
            CHECK_OK(hcq_queue_access(g, 0, hcq_view(old, 0, 64), HCQ_ARG_OUT));
            CHECK_OK(hcq_queue_access(g, 0, hcq_view(old, LATE_BYTES, LATE_BYTES), HCQ_ARG_OUT));
        }
        CHECK_INDEX(hcq_queue_copy(g, out, read, LATE_BYTES), 1);
        CHECK_OK(way ? hcq_queue_update_arg(g, 0, 8, &from[0].address, 8) : HCQ_OK);
        LAUNCH(g);
        CHECK_U64(READ32(out, 0), 7);
    }
}

/* ---- memory ---- */

/* One memory under two names: it is the same bytes in the plan, and an alias of an
   input. */
TEST(imports_of_one_memory) {
    static uint32_t memory[64];
    SKIP_IF(!has_feature(HCQ_FEATURE_IMPORT), "no HCQ_FEATURE_IMPORT");
    hcq_queue *g = make_graph();
    hcq_buffer x, y, z;
    hcq_buffer in[2] = {hcq_graph_input(g, 0, NULL, 64), hcq_graph_input(g, 1, dev2(), 64)};
    hcq_point done;
    memset(memory, 0, sizeof memory);
    CHECK_OK(hcq_import(T.dev, memory, 64, 0, &x));
    CHECK_OK(hcq_import(dev2(), memory + 8, 64, 0, &y)); /* half of it is the same */
    CHECK_OK(hcq_import(dev2(), memory + 24, 64, 0, &z));
    CHECK_INDEX(record_mark(g, make_mark(T.dev), x, 0, 1), 0);
    CHECK_INDEX(record_mark(g, make_mark(dev2()), make_words(dev2(), 1), 1, 0), 1);
    CHECK_INDEX(record_mark(g, make_mark(dev2()), y, 2, 0), 2);
    CHECK_INDEX(hcq_queue_fill(g, in[0], 64, 1, 4), 3);
    CHECK_INDEX(record_add(g, make_add(dev2()), in[1], 0, 1), 4);
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
}

/* Allocated when it is planned, kept from launch to launch, freed by reset and by
   destroying the graph. */
TEST(empty_is_kept) {
    for (int way = 0; way < 4; way++) { /* on either device, bound or not */
        hcq_device *device = way % 2 ? dev2() : T.dev;
        hcq_buffer out = make_buffer(device, 8, HCQ_HOST_VISIBLE | HCQ_ZEROED), e;
        hcq_queue *g = make_graph();
        const uint32_t *words = (const uint32_t *)out.host;
        const uint64_t bytes = test_query(device, HCQ_QUERY_ALLOCATED_BYTES);
        CHECK_INDEX(hcq_graph_alloc(g, device, 80000, HCQ_ZEROED, &e), 0);
        CHECK(e.size == 80000 && e.device == device);
        CHECK_INDEX(record_add(g, make_add(device), hcq_view(e, 400, 400), 1, 3), 1);
        CHECK_INDEX(hcq_queue_copy(g, out, hcq_view(e, 404, 8), 8), 2);
        CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes);
        CHECK_OK(way / 2 ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes + (way / 2 ? 80000 : 0));
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

/* A graph's own memory is none that earlier work still uses: a launch may overlap that. */
TEST(empty_is_idle_before) {
    hcq_queue *hold = make_holder(T.dev), *g = make_graph();
    hcq_buffer busy = make_buffer(T.dev, 5000, 0), e;
    hcq_point next;
    CHECK_INDEX(hcq_queue_fill(hold, busy, 5000, 1, 4), 1);
    CHECK_INDEX(hcq_graph_alloc(g, T.dev, 5000, 0, &e), 0);
    CHECK_INDEX(hcq_queue_fill(g, e, 5000, 2, 4), 1);
    hcq_point done = hold_start(hold, T.dev);
    CHECK_OK(hcq_free(busy));
    const uint64_t cached = test_query(T.dev, HCQ_QUERY_CACHED_BYTES);
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &next));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), cached);
    HOLD_END(done);
    WAIT_OK(next);
}
