/* graph.h - graph queues: a recording over several devices gives what
   its commands give one after another, whatever the plan makes of it; inputs and
   variables belong to their launch; a launch is a submission like others. Part
   of conformance.c, after edges.h. */

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
    hcq_program_desc desc = {"mark", k_mark, {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32}, NULL,
                             NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

static int32_t record_mark(hcq_queue *q, hcq_program *mark, hcq_buffer dst, uint32_t index,
                           uint32_t late) {
    mark_args args = {dst.address, index, late};
    return hcq_queue_exec(q, mark, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
}

static hcq_result host_mark(void *user) {
    mark_now((uint32_t)(uintptr_t)user);
    return HCQ_OK;
}

static hcq_result host_late_mark(void *user) {
    __atomic_fetch_add(&SEEN->hold_began, 1, __ATOMIC_RELEASE);
    int let = word_until(&SEEN->hold_go, 1);
    mark_now((uint32_t)(uintptr_t)user);
    return let ? HCQ_OK : HCQ_ERROR_HOST;
}

static void *mark_user(uint32_t index) {
    return (void *)(uintptr_t)index;
}

/* k_mix that waits for hold_release first. */
static void k_late_mix(const void *block_args, const hcq_block *b) {
    word_until(&SEEN->hold_go, 1);
    k_mix(block_args, b);
}
TEST_SHADER(k_late_mix, late_mix)

static hcq_program *make_late_mix(hcq_device *device) {
    hcq_program_desc desc = {"late mix", k_late_mix,
                             {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U32, HCQ_ARG_U32}, NULL, NULL,
                             {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

/* dst[0] = value, not before hold_release; it does not read. */
static void k_late_put(const void *block_args, const hcq_block *b) {
    word_until(&SEEN->hold_go, 1);
    k_put(block_args, b);
}
TEST_SHADER(k_late_put, late_put)

static int32_t record_late_put(hcq_queue *q, hcq_device *device, hcq_buffer dst,
                               uint32_t value) {
    hcq_program_desc desc = {"late put", k_late_put, {HCQ_ARG_OUT, HCQ_ARG_U32, HCQ_ARG_U32},
                             NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    const put_args args = {dst.address, 0, value};
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
}

static int32_t record_mix(hcq_queue *q, hcq_program *mix, hcq_buffer dst, hcq_buffer src,
                          uint32_t count, uint32_t seed) {
    mix_args args = {dst.address, src.address, count, seed};
    return hcq_queue_exec(q, mix, &args, sizeof args, hcq_dim((count + 15) / 16, 1, 1),
                          hcq_dim(16, 1, 1));
}

/* ---- launches ---- */

static hcq_queue *make_graph(void) {
    return make_queue(T.dev, HCQ_GRAPH);
}

static hcq_result launch_inputs(hcq_queue *g, const hcq_buffer *inputs, uint32_t count,
                                hcq_point *point) {
    hcq_submission s = submission(&g, 1);
    s.inputs = inputs;
    s.input_count = count;
    return hcq_submit(T.dev, &s, 1, point);
}

static hcq_result launch_flags(hcq_queue *g, uint32_t flags, hcq_point *point) {
    hcq_submission s = submission(&g, 1);
    s.flags = flags;
    return hcq_submit(T.dev, &s, 1, point);
}

/* Launches and waits. */
static void launch_now(const char *file, int line, hcq_queue *g) {
    hcq_point done = {{0}, 0};
    test_result(file, line, "hcq_queue_submit(graph)", hcq_queue_submit(g, T.dev, &done), HCQ_OK);
    test_reached(file, line, done, HCQ_OK);
}
#define LAUNCH(g) launch_now(__FILE__, __LINE__, (g))

/* A buffer with words of its own. */
static hcq_buffer make_filled(hcq_device *device, uint32_t count, uint32_t seed) {
    hcq_buffer buffer = make_words(device, count);
    uint32_t *words = (uint32_t *)malloc((size_t)count * 4);
    for (uint32_t i = 0; i < count; i++) {
        words[i] = i * 2654435761u + seed;
    }
    hcq_result result = hcq_copyin(buffer, words, (uint64_t)count * 4);
    free(words);
    CHECK_OK(result);
    return buffer;
}

static void check_same(const char *file, int line, hcq_buffer got, hcq_buffer want) {
    unsigned char *bytes = (unsigned char *)malloc((size_t)want.size);
    test_result(file, line, "hcq_copyout", hcq_copyout(bytes, want, want.size), HCQ_OK);
    test_bytes(file, line, got, bytes, (size_t)want.size);
    free(bytes);
}
#define CHECK_SAME(got, want) check_same(__FILE__, __LINE__, (got), (want))

/* What is refused took no number and changed nothing; it is asked before. */
typedef struct untouched { uint64_t number, other; } untouched;

static untouched untouched_now(void) {
    untouched u = {hcq_device_timeline_value(T.dev), hcq_device_timeline_value(T.dev2)};
    return u;
}

static void check_untouched(const char *file, int line, untouched u) {
    test_number(file, line, "the next number", hcq_device_timeline_value(T.dev), u.number);
    test_number(file, line, "the next number", hcq_device_timeline_value(T.dev2), u.other);
}
#define CHECK_UNTOUCHED(u) check_untouched(__FILE__, __LINE__, (u))

/* ---- the same as one after another ---- */

typedef struct graph_work {
    hcq_program *add, *mix;
    hcq_buffer a, b, c;                /* 64 words each */
    uint32_t calls;                    /* of the host command, atomic */
} graph_work;

static graph_work make_work(void) {
    graph_work w;
    memset(&w, 0, sizeof w);
    w.add = make_add(T.dev);
    w.mix = make_mix(T.dev);
    w.a = make_filled(T.dev, 64, 1);
    w.b = make_filled(T.dev, 64, 2);
    w.c = make_filled(T.dev, 64, 3);
    return w;
}

static hcq_result host_count_work(void *user) {
    __atomic_fetch_add(&((graph_work *)user)->calls, 1, __ATOMIC_RELEASE);
    return HCQ_OK;
}

/* Every kind of command, each reading what others wrote; results of one run go
   into the next. */
static uint32_t record_work(hcq_queue *q, graph_work *w) {
    add_args add = {w->a.address, 3, 64}, end = {w->c.address + 128, 1, 32};
    custom_payload p = {w->b.address + 8, 4711, 1234};
    const hcq_dims grid = {16, 1, 1}, block = {4, 1, 1};
    CHECK_INDEX(hcq_queue_exec(q, w->add, &add, sizeof add, grid, block), 0);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(w->b, 0, 128), hcq_view(w->a, 64, 128), 128), 1);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(w->a, 0, 32), 32, 0x55, 1), 2);
    CHECK_INDEX(record_mix(q, w->mix, w->c, w->b, 64, 9), 3);
    CHECK_INDEX(hcq_queue_write(q, hcq_view(w->b, 252, 4), 77, 4), 4);
    CHECK_INDEX(hcq_queue_host(q, host_count_work, w), 5);
    CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 6);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(w->a, 128, 64), hcq_view(w->c, 4, 64), 64), 7);
    CHECK_INDEX(hcq_queue_exec(q, w->add, &end, sizeof end, grid, block), 8);
    CHECK_INDEX(hcq_queue_memory_barrier(q), 9);
    CHECK_INDEX(record_mix(q, w->mix, w->a, w->b, 64, 1), 10);
    return hcq_queue_count(q);
}

static void check_work(const char *file, int line, const graph_work *got,
                       const graph_work *want) {
    check_same(file, line, got->a, want->a);
    check_same(file, line, got->b, want->b);
    check_same(file, line, got->c, want->c);
    test_number(file, line, "calls", got->calls, want->calls);
}
#define CHECK_WORK(got, want) check_work(__FILE__, __LINE__, (got), (want))

/* Launches one after another and with HCQ_OVERLAP, in which each still depends on
   the one before. */
static void graph_is_as_one_after_another(void **state) {
    (void)state;
    static graph_work w[2];            /* host commands may outlive a failed check */
    for (int way = 0; way < 4; way++) {
        hcq_queue *g = make_graph(), *q = make_queue(T.dev, HCQ_COMPUTE);
        w[0] = make_work();
        w[1] = make_work();
        CHECK_U64(record_work(g, &w[0]), record_work(q, &w[1]));
        if (way % 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (int i = 0; i < 8; i++) {
            hcq_point done;
            CHECK_OK(launch_flags(g, way / 2 ? HCQ_OVERLAP : 0, &done));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            if (i % 4 == 3) {
                WAIT_OK(done);
            }
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_WORK(&w[0], &w[1]);
        hcq_queue_destroy(g);
    }
}

/* A graph without commands is a submission like any other. */
static void empty_graph(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_point gate = make_gate(T.dev), raise = hcq_at(make_signal(T.dev, 0), 1), done;
    hcq_submission s = submission(&g, 1);
    CHECK_U64(hcq_queue_count(g), 0);
    LAUNCH(g);
    s.waits = &gate;
    s.wait_count = 1;
    s.signals = &raise;
    s.signal_count = 1;
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT);
    open_gate(gate);
    WAIT_OK(done);
    WAIT_OK(raise);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    LAUNCH(g);
}

/* ---- two devices ---- */

/* Each command runs on its own device and both get a number. */
static void graph_of_two_devices(void **state) {
    (void)state;
    hcq_program *add[2] = {make_add(T.dev), make_add(T.dev2)};
    hcq_buffer word[2] = {make_words(T.dev, 8), make_words(T.dev2, 8)};
    custom_payload p = {word[1].address + 16, 4711, 1234};
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        for (uint32_t i = 0; i < 6; i++) {
            CHECK_INDEX(record_add(g, add[i % 2], word[i % 2], 0, 1 + i), (int32_t)i);
        }
        CHECK_INDEX(hcq_queue_fill(g, hcq_view(word[1], 4, 4), 4, 7, 4), 6);
        CHECK_INDEX(hcq_queue_write(g, hcq_view(word[1], 8, 4), 8, 4), 7);
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(word[1], 12, 4), hcq_view(word[1], 4, 4), 4), 8);
        CHECK_INDEX(hcq_queue_custom(g, &custom_type, &p), 9); /* on its device by access */
        CHECK_OK(hcq_queue_access(g, 9, hcq_view(word[1], 16, 4), HCQ_ARG_OUT));
        CHECK_INDEX(record_add(g, add[0], word[0], 1, 5), 10);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        for (uint32_t i = 1; i <= 3; i++) {
            untouched before = untouched_now();
            hcq_point done;
            CHECK_OK(hcq_queue_submit(g, T.dev, &done));
            CHECK_U64(hcq_device_timeline_value(T.dev), before.number + 1);
            CHECK_U64(hcq_device_timeline_value(T.dev2), before.other + 1);
            WAIT_OK(done);
            WAIT_OK(timeline_now(T.dev2)); /* the point says that all of it is done */
        }
        const uint32_t rounds = 3u * (1u + (uint32_t)bound);
        CHECK_U64(READ32(word[0], 0), 9 * rounds);
        CHECK_U64(READ32(word[0], 1), 5 * rounds);
        CHECK_U64(READ32(word[1], 0), 12 * rounds);
        const uint32_t want[4] = {7, 8, 7, 4711};
        CHECK_BYTES(hcq_view(word[1], 4, 16), want, sizeof want);
    }
}

/* Data that goes to and fro: each step needs the one before, on the other device. */
static void graph_goes_to_and_fro(void **state) {
    (void)state;
    enum { STEPS = 12 };
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    hcq_program *mix[2] = {make_mix(T.dev), make_mix(T.dev2)};
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_filled(T.dev, 64, 5), b = make_filled(T.dev2, 64, 6);
        hcq_buffer x = make_filled(T.dev, 64, 5), y = make_filled(T.dev, 64, 6);
        hcq_queue *g = make_graph(), *q = make_queue(T.dev, HCQ_COMPUTE);
        for (uint32_t i = 0; i < STEPS; i++) {
            int other = i % 2;
            if (i % 4 < 2) {
                CHECK(record_mix(g, mix[other], other ? a : b, other ? b : a, 64, i) >= 0);
                CHECK(record_mix(q, mix[0], other ? x : y, other ? y : x, 64, i) >= 0);
            } else {                   /* and half of it back */
                CHECK(hcq_queue_copy(g, other ? hcq_view(a, 128, 0) : b, other ? b : a, 128) >= 0);
                CHECK(hcq_queue_copy(q, other ? hcq_view(x, 128, 0) : y, other ? y : x, 128) >= 0);
            }
        }
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (int i = 0; i < 5; i++) {
            CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        }
        CHECK_SAME(a, x);
        CHECK_SAME(b, y);
        hcq_queue_destroy(g);
    }
}

static uint32_t mixed(uint32_t dst, uint32_t src, uint32_t seed) {
    return dst * 31u + src + seed;
}

/* `first` runs late on one device, `second` on the other; `a` is shared. */
static void one_hazard(int way, int bound) {
    hcq_buffer a = make_filled(T.dev, 1, 10), b = make_filled(T.dev, 1, 20);
    hcq_buffer c = make_filled(T.dev2, 1, 30), own = make_words(T.dev2, 1);
    hcq_queue *g = make_graph();
    hcq_point done;
    uint32_t va = 10, vb = 20, vc = 30;
    marks_reset();
    CHECK_INDEX(record_mark(g, make_mark(T.dev2), own, 0, 0), 0);
    if (way == 0) {                    /* read after write */
        CHECK(record_mix(g, make_late_mix(T.dev), a, b, 1, 1) >= 0);
        CHECK(record_mix(g, make_mix(T.dev2), c, a, 1, 2) >= 0);
        va = mixed(va, vb, 1);
        vc = mixed(vc, va, 2);
    } else if (way == 1) {             /* write after read */
        CHECK(record_mix(g, make_late_mix(T.dev), b, a, 1, 1) >= 0);
        CHECK(record_mix(g, make_mix(T.dev2), a, c, 1, 2) >= 0);
        vb = mixed(vb, va, 1);
        va = mixed(va, vc, 2);
    } else if (way == 2) {             /* write after write */
        const put_args args = {a.address, 0, va = 77};
        CHECK(record_late_put(g, T.dev, a, 66) >= 0);
        CHECK(hcq_queue_exec(g, make_put(T.dev2), &args, sizeof args, hcq_dim(1, 1, 1),
                             hcq_dim(1, 1, 1)) >= 0);
    } else if (way == 3) {             /* a fill over what is still written */
        CHECK(record_late_put(g, T.dev, c, 66) >= 0);
        CHECK(hcq_queue_fill(g, c, 4, vc = 55, 4) >= 0);
    } else if (way == 4) {             /* a copy reads it */
        CHECK(record_mix(g, make_late_mix(T.dev), a, b, 1, 1) >= 0);
        CHECK(hcq_queue_copy(g, c, a, 4) >= 0);
        vc = va = mixed(va, vb, 1);
    } else {                           /* a copy writes what is still read */
        CHECK(record_mix(g, make_late_mix(T.dev), b, c, 1, 1) >= 0);
        CHECK(hcq_queue_copy(g, c, a, 4) >= 0);
        vb = mixed(vb, vc, 1);
        vc = va;
    }
    if (bound) {
        CHECK_OK(hcq_queue_bind(g, T.dev));
    }
    CHECK_OK(hcq_queue_submit(g, T.dev, &done));
    CHECK(mark_until(0));              /* the other device is at it */
    mark_chance(1);
    hold_release();
    WAIT_OK(done);
    CHECK_U64(READ32(a, 0), va);
    CHECK_U64(READ32(b, 0), vb);
    CHECK_U64(READ32(c, 0), vc);
    hcq_queue_destroy(g);
}

static void hazards_are_ordered(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    for (int way = 0; way < 6; way++) {
        one_hazard(way, 0);
        one_hazard(way, 1);
    }
}

/* What shares nothing does not wait: one device works while the other is held. */
static void independent_commands_overlap(void **state) {
    (void)state;
    hcq_program *mark[2] = {make_mark(T.dev), make_mark(T.dev2)};
    hcq_buffer x = make_words(T.dev, 1), y = make_words(T.dev2, 1);
    hcq_queue *g = make_graph();
    hcq_point done;
    CHECK_INDEX(record_mark(g, mark[0], x, 0, 1), 0);
    CHECK_INDEX(record_mark(g, mark[1], y, 1, 0), 1);
    for (int i = 0; i < 6; i++) {
        marks_reset();
        if (i == 3) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(mark_until(1));
        CHECK(!mark_at(0));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT); /* both have to be done */
        hold_release();
        WAIT_OK(done);
        CHECK(mark_at(0));
    }
}

/* A device of another backend: each command where it belongs, edges between them. */
static void graph_of_two_backends(void **state) {
    (void)state;
    hcq_device *other = open_other_backend();
    hcq_program *mark[2] = {make_mark(T.dev), make_mark(other)};
    for (uint32_t way = 0; way < 4; way++) { /* which is held, bound or not */
        const uint32_t first = way % 2;
        hcq_buffer word[2] = {make_words(T.dev, 2), make_words(other, 2)};
        hcq_queue *g = make_graph();
        hcq_point done;
        marks_reset();
        CHECK_INDEX(record_mark(g, mark[first], word[first], 0, 1), 0);
        CHECK_INDEX(record_mark(g, mark[1 - first], word[1 - first], 1, 0), 1);
        CHECK_INDEX(hcq_queue_fill(g, hcq_view(word[1], 4, 4), 4, 9, 4), 2);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        mark_chance(1);
        CHECK(!mark_at(1));
        hold_release();
        WAIT_OK(done);
        CHECK(mark_at(0) < mark_at(1));
        CHECK_U64(READ32(word[first], 0), 1);
        CHECK_U64(READ32(word[1 - first], 0), 2);
        CHECK_U64(READ32(word[1], 1), 9);
        hcq_queue_destroy(g);
    }
    CHECK_OK(hcq_close(other));
}

/* ---- accesses, edges, fences ---- */

/* Two halves of one buffer: a kernel's argument covers all that follows its
   address, until its access is narrowed. */
static void access_narrows_an_argument(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    for (int narrow = 0; narrow < 2; narrow++) {
        hcq_buffer a = make_words(T.dev, 8), own = make_words(T.dev2, 1);
        hcq_queue *g = make_graph();
        hcq_point done;
        marks_reset();
        CHECK_INDEX(record_mark(g, make_mark(T.dev), a, 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), own, 1, 0), 1);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), hcq_view(a, 16, 16), 2, 0), 2);
        if (narrow) {
            CHECK_OK(hcq_queue_access(g, 0, hcq_view(a, 0, 16), HCQ_ARG_INOUT));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(mark_until(1));
        mark_chance(2);
        CHECK(narrow ? mark_until(2) : !mark_at(2));
        CHECK(!mark_at(0));
        hold_release();
        WAIT_OK(done);
        CHECK_U64(READ32(a, 0), 1);
        CHECK_U64(READ32(a, 4), 3);
    }
}

/* Two readers of one word, once they say that they only read. */
static void access_changes_the_kind(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    for (int reads = 0; reads < 2; reads++) {
        hcq_buffer a = make_words(T.dev, 8), own = make_words(T.dev2, 1);
        hcq_queue *g = make_graph();
        hcq_point done;
        marks_reset();
        CHECK_INDEX(record_mark(g, make_mark(T.dev), hcq_view(a, 0, 4), 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), own, 1, 0), 1);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), hcq_view(a, 4, 4), 2, 0), 2);
        if (reads) {                   /* the first covers the word of the second */
            CHECK_OK(hcq_queue_access(g, 0, a, HCQ_ARG_IN));
            CHECK_OK(hcq_queue_access(g, 2, hcq_view(a, 4, 4), HCQ_ARG_IN));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(mark_until(1));
        mark_chance(2);
        CHECK(reads ? mark_until(2) : !mark_at(2));
        hold_release();
        WAIT_OK(done);
    }
}

/* Bytes that no argument names count in addition. */
static void access_adds_bytes(void **state) {
    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        hcq_buffer x = make_words(T.dev, 1), y = make_words(T.dev2, 1);
        hcq_buffer own = make_words(T.dev2, 1);
        hcq_queue *g = make_graph();
        hcq_point done;
        marks_reset();
        CHECK_INDEX(hcq_queue_host(g, host_late_mark, mark_user(0)), 0);
        CHECK_OK(hcq_queue_access(g, 0, x, HCQ_ARG_OUT)); /* not a fence any more */
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), own, 1, 0), 1);
        if (writes) {
            CHECK_OK(hcq_queue_access(g, 0, y, HCQ_ARG_INOUT));
        }
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), y, 2, 0), 2);
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(mark_until(1));
        mark_chance(2);
        CHECK(writes ? !mark_at(2) : mark_until(2));
        hold_release();
        WAIT_OK(done);
        CHECK((mark_at(0) < mark_at(2)) == writes);
    }
}

static void edges_order(void **state) {
    (void)state;
    hcq_program *mark[2] = {make_mark(T.dev), make_mark(T.dev2)};
    hcq_buffer x = make_words(T.dev, 1), y = make_words(T.dev2, 1), z = make_words(T.dev2, 1);
    hcq_queue *g = make_graph();
    hcq_point done;
    CHECK_INDEX(record_mark(g, mark[0], x, 0, 1), 0);
    CHECK_INDEX(record_mark(g, mark[1], y, 1, 0), 1);
    CHECK_INDEX(record_mark(g, mark[1], z, 2, 0), 2);
    CHECK_OK(hcq_queue_edge(g, 0, 2));
    CHECK_OK(hcq_queue_edge(g, 0, 2)); /* twice is as once */
    CHECK_OK(hcq_queue_edge(g, 1, 2)); /* and this one is not needed */
    for (int i = 0; i < 6; i++) {
        marks_reset();
        if (i == 3) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(mark_until(1));          /* without the edge: at once */
        mark_chance(2);
        CHECK(!mark_at(2));
        hold_release();
        WAIT_OK(done);
        CHECK(mark_at(0) < mark_at(2));
    }
}

/* An edge that is recorded later counts from the next launch on. */
static void edge_after_a_launch(void **state) {
    (void)state;
    hcq_buffer x = make_words(T.dev, 1), y = make_words(T.dev2, 1);
    hcq_queue *g = make_graph();
    hcq_point done;
    CHECK_INDEX(record_mark(g, make_mark(T.dev), x, 0, 1), 0);
    CHECK_INDEX(record_mark(g, make_mark(T.dev2), y, 1, 0), 1);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    for (int edge = 0; edge < 2; edge++) {
        marks_reset();
        if (edge) {
            CHECK_OK(hcq_queue_edge(g, 0, 1));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        mark_chance(1);
        CHECK(edge ? !mark_at(1) : mark_until(1));
        hold_release();
        WAIT_OK(done);
    }
}

/* A host or custom command that says nothing, and a barrier: after everything
   before, before everything after, on all devices. */
static void fences_order(void **state) {
    (void)state;
    const custom_payload p = {make_words(T.dev, 1).address, 4711, 1234};
    for (int kind = 0; kind < 3; kind++) {
        hcq_program *mark[2] = {make_mark(T.dev), make_mark(T.dev2)};
        hcq_queue *g = make_graph();
        hcq_point done;
        CHECK_INDEX(record_mark(g, mark[0], make_words(T.dev, 1), 0, 1), 0);
        CHECK_INDEX(record_mark(g, mark[1], make_words(T.dev2, 1), 1, 0), 1);
        CHECK_INDEX(kind == 0   ? hcq_queue_host(g, host_mark, mark_user(2))
                    : kind == 1 ? hcq_queue_memory_barrier(g)
                                : hcq_queue_custom(g, &custom_type, &p), 2);
        CHECK_INDEX(record_mark(g, mark[1], make_words(T.dev2, 1), 3, 0), 3);
        CHECK_INDEX(record_mark(g, mark[0], make_words(T.dev, 1), 4, 0), 4);
        for (int i = 0; i < 4; i++) {
            marks_reset();
            if (i == 2) {
                CHECK_OK(hcq_queue_bind(g, T.dev));
            }
            CHECK_OK(hcq_queue_submit(g, T.dev, &done));
            CHECK(mark_until(1));
            mark_chance(3);
            CHECK(!mark_at(2) && !mark_at(3) && !mark_at(4));
            hold_release();
            WAIT_OK(done);
            CHECK(mark_at(0) < mark_at(3));
            CHECK(mark_at(0) < mark_at(4));
            CHECK(kind != 0 || (mark_at(0) < mark_at(2) && mark_at(2) < mark_at(3) &&
                                mark_at(2) < mark_at(4)));
        }
    }
}

/* ---- copy lanes ---- */

/* A large copy that nobody needs yet goes on while the compute lane is held. */
static void large_copies_have_a_lane(void **state) {
    (void)state;
    enum { WORDS = 65536 };
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    if (T.variant->one_fifo || info.copy_lanes == 0) {
        SKIP("no copy lane that runs beside the compute lane");
        return;
    }
    hcq_buffer a = make_filled(T.dev, WORDS, 7), b = make_words(T.dev, WORDS);
    hcq_buffer x = make_words(T.dev, 1), flag = make_words(T.dev2, 1);
    hcq_queue *g = make_graph();
    hcq_point done;
    CHECK_INDEX(record_mark(g, make_mark(T.dev), x, 0, 1), 0);
    CHECK_INDEX(hcq_queue_copy(g, b, a, WORDS * 4), 1);
    CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(1)), 2); /* tells of the copy */
    CHECK_OK(hcq_queue_access(g, 2, flag, HCQ_ARG_OUT));
    CHECK_OK(hcq_queue_access(g, 2, b, HCQ_ARG_IN));
    for (int i = 0; i < 4; i++) {
        marks_reset();
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(mark_until(1));
        CHECK(!mark_at(0));
        hold_release();
        WAIT_OK(done);
        CHECK_SAME(b, a);
    }
}

/* Wherever copies run: every hazard between them and kernels, in a launch and
   from one launch to the next. */
static void large_copies_keep_their_place(void **state) {
    (void)state;
    enum { WORDS = 1 << 18, ROUNDS = 4 };
    hcq_buffer a = make_words(T.dev, WORDS), b = make_words(T.dev, WORDS);
    hcq_buffer x = make_words(T.dev, 1), out[ROUNDS];
    hcq_program *add = make_add(T.dev);
    hcq_queue *g = make_graph();
    hcq_buffer in = hcq_input(g, 0, NULL, WORDS * 4);
    hcq_point done;
    CHECK_INDEX(hcq_queue_fill(g, a, WORDS * 4, 0, 4), 0);
    CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_VALUE, 0, 0));
    CHECK_INDEX(hcq_queue_copy(g, b, a, WORDS * 4), 1);
    CHECK_INDEX(record_add(g, add, x, 0, 1), 2); /* what the copies are beside */
    CHECK_INDEX(hcq_queue_fill(g, a, WORDS * 4, 0x2222, 4), 3);
    CHECK_INDEX(hcq_queue_copy(g, in, b, WORDS * 4), 4);
    CHECK_INDEX(hcq_queue_fill(g, b, WORDS * 4, 0x3333, 4), 5);
    CHECK_INDEX(record_add(g, add, x, 0, 1), 6);
    for (int bound = 0; bound < 2; bound++) {
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (uint32_t i = 0; i < ROUNDS; i++) {
            uint64_t value = 0x1010101u * (i + 1);
            hcq_submission s = submission(&g, 1);
            out[i] = make_words(T.dev, WORDS);
            s.inputs = &out[i];
            s.input_count = 1;
            s.variables = &value;
            s.variable_count = 1;
            CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        }
        WAIT_OK(done);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            CHECK_FILLED(out[i], (uint8_t)(i + 1));
            CHECK_OK(hcq_free(out[i]));
        }
        CHECK_U64(READ32(a, WORDS - 1), 0x2222);
        CHECK_U64(READ32(b, 0), 0x3333);
        CHECK_U64(READ32(x, 0), 2 * ROUNDS * (1u + (uint32_t)bound));
    }
}

/* ---- appended recordings ---- */

/* A compute and a copy recording, with labels and variables. */
static void graphs_append_recordings(void **state) {
    (void)state;
    hcq_program *put = make_put(T.dev);
    hcq_buffer a = make_words(T.dev, 8), b = make_words(T.dev, 8);
    hcq_queue *compute = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
    hcq_queue *none = make_queue(T.dev, HCQ_COMPUTE), *g = make_graph();
    put_args args = {a.address, 2, 5};
    hcq_command c;
    CHECK_INDEX(hcq_queue_exec(compute, put, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 0);
    CHECK_OK(hcq_queue_command_label(compute, 0, "the put"));
    CHECK_OK(hcq_queue_variable(compute, 0, HCQ_PART_ARG + 2, 1, 0));
    CHECK_INDEX(hcq_queue_memory_barrier(compute), 1);
    CHECK_INDEX(hcq_queue_copy(copy, b, a, 32), 0);
    CHECK_OK(hcq_queue_variable(copy, 0, HCQ_PART_SIZE, 0, 0));
    CHECK_OK(hcq_queue_command_label(copy, 0, "the copy"));
    CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_append(g, compute), 1);
    CHECK_INDEX(hcq_queue_append(g, none), 3);
    CHECK_INDEX(hcq_queue_append(g, copy), 3);
    CHECK_INDEX(hcq_queue_write(g, a, 9, 4), 4);
    CHECK_OK(hcq_queue_command(g, 1, &c));
    CHECK(c.kind == HCQ_COMMAND_EXEC && c.program == put && strcmp(c.label, "the put") == 0);
    CHECK_OK(hcq_queue_command(g, 3, &c));
    CHECK(c.kind == HCQ_COMMAND_COPY && strcmp(c.label, "the copy") == 0);
    hcq_queue_destroy(compute);        /* it was copied */
    CHECK_OK(hcq_queue_reset(copy));
    for (uint64_t i = 0; i < 4; i++) {
        const uint64_t v[2] = {i % 2 ? 32 : 8, 40 + i};
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(submit_variables(g, v, 2, NULL));
        CHECK_U64(READ32(a, 2), 40 + i);
        CHECK_U64(READ32(a, 0), 9);
        CHECK_U64(READ32(b, 0), 1);
        CHECK_U64(READ32(b, 2), i == 0 ? 0 : 40 + i - (i + 1) % 2);
    }
}

/* A recording of another device than the graph's runs there. */
static void graphs_append_other_devices(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE), *g = make_graph();
    hcq_buffer a = make_words(T.dev2, 4), b = make_words(T.dev2, 4), c = make_words(T.dev, 4);
    custom_payload p = {b.address + 4, 11, 1234};
    CHECK_INDEX(record_add(q, make_add(T.dev2), a, 0, 3), 0);
    CHECK_INDEX(hcq_queue_copy(q, b, a, 4), 1);
    CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 2);
    CHECK_INDEX(hcq_queue_memory_barrier(q), 3);
    CHECK_INDEX(hcq_queue_write(g, c, 1, 4), 0);
    CHECK_INDEX(hcq_queue_append(g, q), 1);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(c, 4, 4), c, 4), 5);
    for (uint32_t i = 1; i <= 4; i++) {
        LAUNCH(g);
        CHECK_U64(READ32(a, 0), 3 * i);
        CHECK_U64(READ32(b, 0), 3 * i);
        CHECK_U64(READ32(b, 1), 11);
        CHECK_U64(READ32(c, 1), 1);
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
    }
}

/* A graph in a graph, twice: its labels, accesses, edges and variables come along. */
static void graphs_append_graphs(void **state) {
    (void)state;
    hcq_program *mark[2] = {make_mark(T.dev), make_mark(T.dev2)};
    hcq_buffer x = make_words(T.dev, 1), y = make_words(T.dev2, 1), z = make_words(T.dev2, 1);
    hcq_device *third = test_open(2, NULL);
    hcq_buffer w = make_words(T.dev2, 2), other = make_words(third, 1);
    hcq_queue *part = make_graph(), *g = make_graph();
    hcq_point done;
    const uint64_t v[1] = {77};
    hcq_submission s = submission(&g, 1);
    hcq_command c;
    CHECK_INDEX(record_mark(part, mark[0], x, 0, 1), 0);
    CHECK_INDEX(record_mark(part, mark[1], y, 1, 0), 1);
    CHECK_INDEX(record_mark(part, mark[1], z, 2, 0), 2);
    CHECK_INDEX(hcq_queue_host(part, host_mark, mark_user(3)), 3);
    CHECK_INDEX(hcq_queue_write(part, w, 0, 4), 4);
    CHECK_INDEX(hcq_queue_host(part, host_mark, mark_user(5)), 5);
    CHECK_OK(hcq_queue_edge(part, 0, 2));
    CHECK_OK(hcq_queue_access(part, 3, z, HCQ_ARG_IN));
    CHECK_OK(hcq_queue_access(part, 5, other, HCQ_ARG_OUT)); /* no fence: on its own device */
    CHECK_OK(hcq_queue_variable(part, 4, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_command_label(part, 3, "the host"));
    CHECK_INDEX(record_mark(g, mark[1], hcq_view(w, 4, 4), 4, 0), 0); /* shifts all indices */
    CHECK_INDEX(hcq_queue_append(g, part), 1);
    CHECK_OK(hcq_queue_command(g, 4, &c));
    CHECK(c.kind == HCQ_COMMAND_HOST && strcmp(c.label, "the host") == 0);
    hcq_queue_destroy(part);
    s.variables = v;
    s.variable_count = 1;
    for (int i = 0; i < 4; i++) {
        marks_reset();
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        CHECK(mark_until(1));
        CHECK(mark_until(5));
        mark_chance(2);
        CHECK(!mark_at(2) && !mark_at(3));
        hold_release();
        WAIT_OK(done);
        CHECK(mark_at(0) < mark_at(2) && mark_at(2) < mark_at(3));
        CHECK_U64(READ32(w, 0), 77);
    }
    hcq_queue_destroy(g);
    CHECK_OK(hcq_close(third));
}

/* Inputs keep their number in the graph that takes them over, memory of the graph
   gets one of its own; wherever they are named. */
static void graphs_append_placeholders(void **state) {
    (void)state;
    hcq_queue *part = make_graph(), *g = make_graph();
    hcq_buffer in = hcq_input(part, 1, NULL, 64), e[2], first = hcq_input(g, 0, NULL, 64);
    hcq_buffer out = make_words(T.dev, 16);
    const uint64_t v[1] = {41};
    CHECK_INDEX(hcq_queue_empty(part, T.dev, 64, HCQ_ZEROED, &e[0]), 0);
    CHECK_INDEX(hcq_queue_write(part, hcq_view(e[0], 4, 4), 0, 4), 1);
    CHECK_OK(hcq_queue_variable(part, 1, HCQ_PART_VALUE, 0, 0));
    CHECK_INDEX(record_mix(part, make_mix(T.dev), in, e[0], 16, 1), 2);
    CHECK_INDEX(hcq_queue_host(part, host_mark, mark_user(0)), 3);
    CHECK_OK(hcq_queue_access(part, 3, e[0], HCQ_ARG_IN));
    CHECK_INDEX(hcq_queue_fill(part, e[0], 8, 3, 4), 4);
    CHECK_INDEX(hcq_queue_empty(g, T.dev, 64, HCQ_ZEROED, &e[1]), 0);
    CHECK_INDEX(hcq_queue_append(g, part), 1);
    CHECK_INDEX(hcq_queue_append(g, part), 6); /* its memory is other memory again */
    CHECK_INDEX(hcq_queue_copy(g, out, e[1], 64), 11);
    CHECK_INDEX(hcq_queue_copy(g, first, in, 64), 12); /* declared here, too, by now */
    hcq_queue_destroy(part);
    for (int i = 0; i < 4; i++) {
        hcq_buffer inputs[2] = {make_words(T.dev, 16), make_words(T.dev, 16)};
        hcq_submission s = submission(&g, 1);
        s.inputs = inputs;
        s.input_count = 2;
        s.variables = v;
        s.variable_count = 1;
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, NULL));
        const uint32_t zeros[16] = {0}, word = i ? 3 : 0; /* a fill of the launch before */
        CHECK_U64(READ32(inputs[0], 0), mixed(mixed(0, word, 1), word, 1));
        CHECK_U64(READ32(inputs[0], 1), mixed(mixed(0, 41, 1), 41, 1));
        CHECK_U64(READ32(inputs[0], 2), mixed(1, 0, 1));
        CHECK_BYTES(out, zeros, sizeof zeros); /* nobody wrote there */
    }
}

/* Waits, signals and timestamps have no place in a graph, however they come. */
static void graphs_take_no_waits(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0);
    hcq_buffer a = make_words(T.dev, 2);
    for (int way = 0; way < 8; way++) {
        hcq_queue *g = make_graph(), *q = way < 4 ? g : make_queue(T.dev, HCQ_COMPUTE);
        int32_t index = 0;
        switch (way % 4) {
        case 0: index = hcq_queue_wait(q, hcq_at(s, 1)); break;
        case 1: index = hcq_queue_signal(q, hcq_at(s, 1)); break;
        case 2: index = hcq_queue_timestamp(q, s); break;
        default: index = hcq_queue_wait_device(q, T.dev2); break;
        }
        CHECK(way < 4 ? index == HCQ_ERROR_INVALID : index == 0);
        if (q != g) {
            CHECK_INDEX(hcq_queue_append(g, q), HCQ_ERROR_INVALID);
        }
        CHECK_U64(hcq_queue_count(g), 0);
        CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_INVALID); /* it sticks */
        CHECK_OK(hcq_queue_reset(g));
        CHECK_INDEX(hcq_queue_write(g, a, 7u + (uint32_t)way, 4), 0);
        LAUNCH(g);
        CHECK_U64(READ32(a, 0), 7 + way);
        hcq_queue_destroy(g);
    }
}

/* ---- inputs ---- */

/* Each launch brings its own buffers: a mix, and copies with views of both. */
static hcq_queue *graph_with_inputs(hcq_program *mix) {
    hcq_queue *g = make_graph();
    hcq_buffer out = hcq_input(g, 0, NULL, 256), in = hcq_input(g, 1, T.dev, 256);
    CHECK(out.size == 256 && in.size == 256 && out.device == T.dev);
    CHECK_INDEX(record_mix(g, mix, hcq_view(out, 0, 128), hcq_view(in, 128, 128), 32, 3), 0);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(out, 128, 64), hcq_view(in, 4, 64), 64), 1);
    CHECK_INDEX(hcq_queue_fill(g, hcq_view(out, 192, 64), 64, 0x77, 1), 2);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(out, 224, 32), hcq_view(out, 0, 32), 32), 3);
    return g;
}

static void model_with_inputs(uint32_t *out, const uint32_t *in) {
    for (uint32_t i = 0; i < 32; i++) {
        out[i] = mixed(out[i], in[32 + i], 3);
    }
    memcpy(out + 32, in + 1, 64);
    memset(out + 48, 0x77, 64);
    memcpy(out + 56, out, 32);
}

static void inputs_belong_to_the_launch(void **state) {
    (void)state;
    enum { BUFFERS = 4, ROUNDS = 24 };
    static uint32_t model[BUFFERS][64];
    hcq_program *mix = make_mix(T.dev);
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = graph_with_inputs(mix);
        hcq_buffer all = make_words(T.dev, BUFFERS * 64 + 32), buffers[BUFFERS];
        for (uint32_t i = 0; i < BUFFERS; i++) { /* two are views, one is too large */
            buffers[i] = i < 2 ? make_words(T.dev, 64 + i * 10) : hcq_view(all, i * 256, 256);
            for (uint32_t k = 0; k < 64; k++) {
                model[i][k] = i * 1000 + k;
            }
            CHECK_OK(hcq_copyin(buffers[i], model[i], 256));
        }
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (uint32_t i = 0; i < ROUNDS; i++) { /* nobody waits in between */
            const uint32_t to = i % BUFFERS, from = (i / BUFFERS + to + 1) % BUFFERS;
            if (to == from) {
                continue;
            }
            const hcq_buffer inputs[2] = {buffers[to], buffers[from]};
            CHECK_OK(launch_inputs(g, inputs, 2, NULL));
            model_with_inputs(model[to], model[from]);
        }
        for (uint32_t i = 0; i < BUFFERS; i++) {
            CHECK_BYTES(buffers[i], model[i], 256);
        }
        hcq_queue_destroy(g);
    }
}

/* Launches that are held keep the inputs and variables that they came with. */
static void inputs_while_held(void **state) {
    (void)state;
    enum { LAUNCHES = 6 };
    hcq_device_desc desc = test_desc();
    desc.slots = 8;
    hcq_device *keep = T.dev, *device = test_open(0, &desc);
    T.dev = device;                    /* helpers use it */
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(device), done = {{0}, 0};
        hcq_buffer out[LAUNCHES], in = hcq_input(g, 0, NULL, 16);
        hcq_submission s = submission(&g, 1);
        put_args args = {in.address, 1, 0};
        CHECK_INDEX(hcq_queue_exec(g, make_put(device), &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_ARG + 2, 0, 0));
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(in, 8, 4), hcq_view(in, 4, 4), 4), 1);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, device));
        }
        s.waits = &gate;
        s.wait_count = 1;
        for (uint64_t i = 0; i < LAUNCHES; i++) {
            const uint64_t value = 100 + i;
            hcq_buffer input = out[i] = make_words(device, 4);
            s.inputs = &input;
            s.input_count = 1;
            s.variables = &value;
            s.variable_count = 1;
            CHECK_OK(hcq_submit(device, &s, 1, &done));
            memset(&input, 0, sizeof input); /* the lists were copied */
        }
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(done);
        for (uint32_t i = 0; i < LAUNCHES; i++) {
            const uint32_t want[4] = {0, 100 + i, 100 + i, 0};
            CHECK_BYTES(out[i], want, 16);
        }
    }
    T.dev = keep;
    CHECK_OK(hcq_close(device));
}

/* An input of another device than the graph's. */
static void inputs_of_two_devices(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_buffer mine = hcq_input(g, 5, T.dev, 64), theirs = hcq_input(g, 2, T.dev2, 64);
    hcq_buffer again = hcq_input(g, 2, T.dev2, 64);
    CHECK_U64(theirs.address, again.address);
    CHECK(mine.address != theirs.address);
    CHECK_INDEX(hcq_queue_fill(g, mine, 64, 3, 4), 0);
    CHECK_INDEX(record_add(g, make_add(T.dev2), theirs, 2, 40), 1);
    CHECK_INDEX(hcq_queue_copy(g, hcq_view(again, 0, 4), hcq_view(theirs, 8, 4), 4), 2);
    for (uint32_t i = 0; i < 4; i++) {
        hcq_buffer inputs[6];
        memset(inputs, 0, sizeof inputs); /* numbers that nothing uses may be zero */
        inputs[5] = make_words(T.dev, 16);
        inputs[2] = make_words(T.dev2, 16);
        CHECK_OK(launch_inputs(g, inputs, 6, NULL));
        CHECK_U64(READ32(inputs[5], 15), 3);
        CHECK_U64(READ32(inputs[2], 0), 40);
        CHECK_U64(READ32(inputs[2], 2), 40);
        if (i == 1) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
    }
}

/* A launch with wrong inputs is refused and runs nothing; the next one is fine. */
static void wrong_inputs_run_nothing(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = graph_with_inputs(make_mix(T.dev));
        hcq_buffer good[2] = {make_filled(T.dev, 64, 1), make_filled(T.dev, 64, 2)};
        hcq_buffer witness = make_filled(T.dev, 64, 1), freed = make_words(T.dev, 777);
        hcq_buffer foreign = make_words(T.dev2, 64), zero;
        hcq_point done = {{0}, 0};
        memset(&zero, 0, sizeof zero);
        CHECK_OK(hcq_free(freed));
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        untouched before = untouched_now();
        CHECK_RESULT(hcq_queue_submit(g, T.dev, &done), HCQ_ERROR_INVALID); /* none */
        CHECK_RESULT(launch_inputs(g, good, 1, &done), HCQ_ERROR_INVALID);  /* one short */
        CHECK_RESULT(launch_inputs(g, NULL, 2, &done), HCQ_ERROR_INVALID);
        for (uint32_t i = 0; i < 2; i++) {
            const struct { hcq_buffer buffer; hcq_result want; } bad[] = {
                {zero, HCQ_ERROR_INVALID},
                {freed, HCQ_ERROR_CLOSED},
                {hcq_view(good[i], 0, 252), HCQ_ERROR_INVALID}, /* too small */
                {foreign, HCQ_ERROR_FOREIGN},
            };
            for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
                hcq_buffer inputs[2] = {good[0], good[1]};
                inputs[i] = bad[k].buffer;
                CHECK_RESULT(launch_inputs(g, inputs, 2, &done), bad[k].want);
            }
        }
        CHECK_UNTOUCHED(before);
        CHECK_SAME(good[0], witness);
        CHECK_OK(launch_inputs(g, good, 2, &done));
        WAIT_OK(done);
        CHECK_U64(READ32(good[0], 48), 0x77777777);
    }
}

/* A graph that writes input 0 and `own`, reads input 1, input 2 and `other`. */
typedef struct alias_graph { hcq_queue *g; hcq_buffer own, other; } alias_graph;

static alias_graph make_alias_graph(void) {
    alias_graph a;
    a.g = make_graph();
    a.own = make_words(T.dev, 32);
    a.other = make_words(T.dev, 32);
    hcq_buffer out = hcq_input(a.g, 0, NULL, 64), in = hcq_input(a.g, 1, NULL, 64);
    hcq_buffer in2 = hcq_input(a.g, 2, NULL, 64);
    CHECK_INDEX(hcq_queue_copy(a.g, hcq_view(out, 0, 16), hcq_view(in, 0, 16), 16), 0);
    CHECK_INDEX(hcq_queue_copy(a.g, hcq_view(out, 16, 16), in2, 16), 1);
    CHECK_INDEX(hcq_queue_copy(a.g, hcq_view(a.own, 32, 32), in, 32), 2);
    CHECK_INDEX(hcq_queue_copy(a.g, hcq_view(out, 32, 16), hcq_view(a.other, 16, 16), 16), 3);
    return a;
}

static void aliases_are_refused(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        alias_graph a = make_alias_graph();
        hcq_buffer big = make_filled(T.dev, 64, 9), x = make_filled(T.dev, 16, 1);
        hcq_buffer y = make_filled(T.dev, 16, 2), keep = make_filled(T.dev, 64, 9);
        const struct { hcq_buffer inputs[3]; hcq_result want; } cases[] = {
            {{x, x, y}, HCQ_ERROR_ALIAS},
            {{x, y, x}, HCQ_ERROR_ALIAS},
            {{hcq_view(big, 0, 64), hcq_view(big, 60, 64), y}, HCQ_ERROR_ALIAS}, /* four bytes */
            {{hcq_view(big, 60, 64), y, hcq_view(big, 0, 64)}, HCQ_ERROR_ALIAS},
            {{x, y, hcq_view(a.own, 64, 64)}, HCQ_OK},   /* touches, but not the same bytes */
            {{x, y, hcq_view(a.own, 60, 64)}, HCQ_ERROR_ALIAS}, /* reads what is written */
            {{hcq_view(a.own, 0, 64), x, y}, HCQ_ERROR_ALIAS}, /* both written */
            {{hcq_view(a.other, 0, 64), x, y}, HCQ_ERROR_ALIAS}, /* writes what is read */
            {{hcq_view(a.other, 32, 64), x, y}, HCQ_OK}, /* behind the bytes it reads */
            {{x, a.other, y}, HCQ_OK},                   /* both only read */
            {{x, y, y}, HCQ_OK},
            {{x, hcq_view(big, 0, 64), hcq_view(big, 32, 64)}, HCQ_OK},
            {{hcq_view(big, 0, 64), hcq_view(big, 64, 64), y}, HCQ_OK}, /* side by side */
            {{hcq_view(big, 0, 128), hcq_view(big, 64, 64), y}, HCQ_OK}, /* 64 declared */
        };
        if (bound) {
            CHECK_OK(hcq_queue_bind(a.g, T.dev));
        }
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            hcq_point done = {{0}, 0};
            CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
            untouched before = untouched_now();
            hcq_result result = launch_inputs(a.g, cases[i].inputs, 3, &done);
            if (result != cases[i].want) {
                fprintf(stderr, "case %zu, bound %d\n", i, bound);
            }
            CHECK_RESULT(result, cases[i].want);
            if (result == HCQ_OK) {
                WAIT_OK(done);
                continue;
            }
            CHECK_UNTOUCHED(before);
            if (i < 4) {
                CHECK_SAME(big, keep);
            }
        }
    }
}

/* The same buffer again and again in a launch that is written, each time in order:
   consecutive launches depend on each other through their inputs. */
static void launches_depend_through_inputs(void **state) {
    (void)state;
    enum { ROUNDS = 40 };
    hcq_buffer x = make_filled(T.dev, 64, 1), y = make_filled(T.dev, 64, 2);
    hcq_buffer want_x = make_filled(T.dev, 64, 1), want_y = make_filled(T.dev, 64, 2);
    hcq_program *mix = make_mix(T.dev);
    hcq_queue *g = graph_with_inputs(mix), *plain = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const hcq_buffer inputs[2] = {i % 2 ? x : y, i % 2 ? y : x};
        hcq_submission s = submission(&g, 1);
        s.inputs = inputs;
        s.input_count = 2;
        s.flags = i % 3 ? HCQ_OVERLAP : 0;
        CHECK_OK(hcq_submit(T.dev, &s, 1, NULL));
        hcq_buffer out = i % 2 ? want_x : want_y, in = i % 2 ? want_y : want_x;
        CHECK_OK(hcq_queue_reset(plain));
        CHECK(record_mix(plain, mix, out, hcq_view(in, 128, 128), 32, 3) >= 0);
        CHECK(hcq_queue_copy(plain, hcq_view(out, 128, 64), hcq_view(in, 4, 64), 64) >= 0);
        CHECK(hcq_queue_fill(plain, hcq_view(out, 192, 64), 64, 0x77, 1) >= 0);
        CHECK(hcq_queue_copy(plain, hcq_view(out, 224, 32), out, 32) >= 0);
        CHECK_OK(hcq_queue_submit(plain, T.dev, NULL));
    }
    CHECK_SAME(x, want_x);
    CHECK_SAME(y, want_y);
}

/* Freed right after the launch: the launch goes on, the memory is nobody's yet. */
static void inputs_are_freed_early(void **state) {
    (void)state;
    hcq_queue *g = graph_with_inputs(make_mix(T.dev));
    hcq_buffer inputs[2] = {make_words(T.dev, 64), make_filled(T.dev, 64, 2)}, other;
    hcq_point gate = make_gate(T.dev), done;
    hcq_submission s = submission(&g, 1);
    s.inputs = inputs;
    s.input_count = 2;
    s.waits = &gate;
    s.wait_count = 1;
    CHECK_OK(hcq_queue_bind(g, T.dev));
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
    CHECK_OK(hcq_free(inputs[0]));
    CHECK_OK(hcq_free(inputs[1]));
    CHECK_OK(hcq_alloc(T.dev, 256, 0, &other)); /* the same size, but not the same block */
    CHECK(other.address != inputs[0].address && other.address != inputs[1].address);
    open_gate(gate);
    WAIT_OK(done);
    inputs[0] = make_words(T.dev, 64);
    inputs[1] = make_words(T.dev, 64);
    s.wait_count = 0;
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
    WAIT_OK(done);
    CHECK_U64(READ32(inputs[0], 48), 0x77777777);
}

/* One memory under two names: it is the same bytes in the plan, and an alias of an
   input. */
static void imports_of_one_memory(void **state) {
    (void)state;
    static uint32_t memory[64];
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    if (!(info.features & HCQ_FEATURE_IMPORT)) {
        SKIP("no HCQ_FEATURE_IMPORT");
        return;
    }
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_buffer x, y, z, own = make_words(T.dev2, 1);
        hcq_buffer in[2] = {hcq_input(g, 0, NULL, 64), hcq_input(g, 1, T.dev2, 64)};
        hcq_point done;
        memset(memory, 0, sizeof memory);
        marks_reset();
        CHECK_OK(hcq_import(T.dev, memory, 64, &x));
        CHECK_OK(hcq_import(T.dev2, memory + 8, 64, &y)); /* half of it is the same */
        CHECK_OK(hcq_import(T.dev2, memory + 24, 64, &z));
        CHECK_INDEX(record_mark(g, make_mark(T.dev), x, 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), own, 1, 0), 1);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), y, 2, 0), 2);
        CHECK_INDEX(hcq_queue_fill(g, in[0], 64, 1, 4), 3);
        CHECK_INDEX(record_add(g, make_add(T.dev2), in[1], 0, 1), 4);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        const hcq_buffer good[2] = {make_words(T.dev, 16), z};
        const hcq_buffer bad[3][2] = {{x, z}, {good[0], y}, {x, y}};
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
        CHECK_U64(memory[0], 1);
        CHECK_U64(memory[8], 3);
        CHECK_U64(memory[24], 1);
        CHECK_OK(hcq_free(x));
        CHECK_OK(hcq_free(y));
        CHECK_OK(hcq_free(z));
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    }
}

/* An input that both devices use: each finds it where it sees it. */
static void inputs_seen_by_two_devices(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    hcq_program *mix[2] = {make_mix(T.dev), make_mix(T.dev2)};
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_buffer in = hcq_input(g, 0, T.dev, 64), in2 = hcq_input(g, 1, T.dev2, 64);
        CHECK_INDEX(record_mix(g, mix[0], in, in2, 16, 1), 0);
        CHECK_INDEX(record_mix(g, mix[1], in2, in, 16, 2), 1);
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(in, 32, 32), in2, 32), 2);
        CHECK_INDEX(record_mix(g, mix[1], in, in2, 8, 3), 3);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (uint32_t i = 0; i < 4; i++) {
            hcq_buffer inputs[2] = {make_filled(T.dev, 16, i), make_filled(T.dev2, 16, 7 * i)};
            uint32_t a[16], b[16];
            CHECK_OK(hcq_copyout(a, inputs[0], 64));
            CHECK_OK(hcq_copyout(b, inputs[1], 64));
            for (int k = 0; k < 16; k++) {
                a[k] = mixed(a[k], b[k], 1);
                b[k] = mixed(b[k], a[k], 2);
            }
            memcpy(a + 8, b, 32);
            for (int k = 0; k < 8; k++) {
                a[k] = mixed(a[k], b[k], 3);
            }
            CHECK_OK(launch_inputs(g, inputs, 2, NULL));
            CHECK_BYTES(inputs[0], a, 64);
            CHECK_BYTES(inputs[1], b, 64);
        }
    }
}

/* ---- variables ---- */

static void graph_variables(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64);
        hcq_buffer c = make_words(T.dev, 64);
        add_args args = {a.address, 0, 64};
        hcq_point done;
        CHECK_INDEX(hcq_queue_fill(g, b, 64, 0, 4), 0);
        CHECK_INDEX(hcq_queue_exec(g, make_add(T.dev), &args, sizeof args, hcq_dim(16, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(hcq_queue_write(g, hcq_view(a, 252, 4), 1, 4), 2);
        CHECK_INDEX(hcq_queue_copy(g, c, a, 256), 3);
        CHECK_OK(hcq_queue_variable(g, 1, HCQ_PART_GRID_X, 0, 64));
        CHECK_OK(hcq_queue_variable(g, 1, HCQ_PART_ARG + 1, 1, 0));
        CHECK_OK(hcq_queue_variable(g, 2, HCQ_PART_VALUE, 2, 0));
        CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_VALUE, 2, 0));
        CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_SIZE, 3, 0));
        CHECK_OK(hcq_queue_variable(g, 3, HCQ_PART_SIZE, 3, 0));
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        untouched before = untouched_now();
        const uint64_t bad[][4] = {{65, 3, 77, 16}, {8, 3, 77, 65}, {8, 3, 77, 6}};
        CHECK_RESULT(hcq_queue_submit(g, T.dev, &done), HCQ_ERROR_INVALID); /* none given */
        CHECK_RESULT(submit_variables(g, bad[0], 3, &done), HCQ_ERROR_INVALID); /* one short */
        for (int i = 0; i < 3; i++) {  /* too wide, too long, no multiple of four */
            CHECK_RESULT(submit_variables(g, bad[i], 4, &done), HCQ_ERROR_INVALID);
        }
        CHECK_UNTOUCHED(before);
        CHECK_U64(READ32(a, 63), 0);
        const uint64_t v[4] = {8, 3, 77, 16};
        CHECK_OK(submit_variables(g, v, 4, &done));
        CHECK_U64(READ32(a, 7), 3);
        CHECK_U64(READ32(a, 8), 0);
        CHECK_U64(READ32(a, 63), 77);
        CHECK_U64(READ32(b, 3), 77);
        CHECK_U64(READ32(b, 4), 0);
        CHECK_U64(READ32(c, 3), 3);
        CHECK_U64(READ32(c, 4), 0);
        const uint64_t w[4] = {64, 100, 5, 64};
        CHECK_OK(submit_variables(g, w, 4, &done));
        CHECK_U64(READ32(a, 63), 5);
        CHECK_U64(READ32(a, 8), 100);
        CHECK_U64(READ32(b, 15), 5);
        CHECK_U64(READ32(c, 15), 100);
        CHECK_U64(READ32(c, 16), 0);
        const uint64_t none[4] = {0, 1, 6, 64}; /* an empty grid runs nothing */
        CHECK_OK(submit_variables(g, none, 4, &done));
        CHECK_U64(READ32(a, 8), 100);
        CHECK_U64(READ32(a, 63), 6);
        hcq_queue_destroy(g);
    }
}

/* A buffer argument is no variable of a graph: the plan would not know of it. */
static void buffer_variables_are_refused(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_buffer a = make_words(T.dev, 4);
    CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 1), 0);
    CHECK_RESULT(hcq_queue_variable(g, 0, HCQ_PART_ARG + 0, 0, 0), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_ARG + 1, 0, 0));
    const uint64_t v[1] = {9};
    CHECK_OK(submit_variables(g, v, 1, NULL));
    CHECK_U64(READ32(a, 0), 9);
}

/* ---- updates, and recording more ---- */

static void graph_updates(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64);
        add_args args = {a.address, 1, 64};
        custom_payload p = {b.address + 128, 11, 1234};
        CHECK_INDEX(hcq_queue_exec(g, make_add(T.dev), &args, sizeof args, hcq_dim(2, 1, 1),
                                   hcq_dim(4, 1, 1)), 0);
        CHECK_INDEX(hcq_queue_copy(g, b, a, 8), 1);
        CHECK_INDEX(hcq_queue_custom(g, &custom_type, &p), 2);
        CHECK_OK(hcq_queue_access(g, 2, hcq_view(b, 128, 4), HCQ_ARG_OUT));
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        LAUNCH(g);
        CHECK_U64(READ32(a, 7), 1);
        CHECK_U64(READ32(a, 8), 0);
        CHECK_U64(READ32(b, 32), 11);
        const hcq_dims grid = {4, 1, 1};
        const uint32_t value = 10;
        const hcq_buffer dst = hcq_view(b, 64, 64), src = hcq_view(a, 32, 64);
        p.value = 12;
        CHECK_OK(hcq_queue_update_exec(g, 0, &grid, NULL));
        CHECK_OK(hcq_queue_update_arg(g, 0, 1, &value, 4));
        CHECK_OK(hcq_queue_update_copy(g, 1, &dst, &src, 16));
        CHECK_OK(hcq_queue_update_custom(g, 2, &p));
        CHECK_U64(READ32(b, 32), 11);  /* nothing yet */
        LAUNCH(g);
        CHECK_U64(READ32(a, 7), 11);
        CHECK_U64(READ32(a, 8), 10);
        CHECK_U64(READ32(a, 15), 10);
        CHECK_U64(READ32(a, 16), 0);
        CHECK_U64(READ32(b, 1), 1);    /* the old place is left alone */
        CHECK_U64(READ32(b, 16), 10);
        CHECK_U64(READ32(b, 19), 10);
        CHECK_U64(READ32(b, 20), 0);
        CHECK_U64(READ32(b, 32), 12);
        const uint64_t other = b.address + 192;
        CHECK_OK(hcq_queue_update_arg(g, 0, 0, &other, 8)); /* another buffer */
        LAUNCH(g);
        CHECK_U64(READ32(a, 7), 11);
        CHECK_U64(READ32(b, 63), 10);
        CHECK_RESULT(hcq_queue_update_exec(g, 1, &grid, NULL), HCQ_ERROR_INVALID);
        CHECK_RESULT(hcq_queue_update_copy(g, 1, &dst, &dst, 4), HCQ_ERROR_INVALID);
        CHECK_RESULT(hcq_queue_update_arg(g, 0, 7, &value, 4), HCQ_ERROR_INVALID);
        LAUNCH(g);
        CHECK_U64(READ32(b, 63), 20);
        hcq_queue_destroy(g);
    }
}

/* An update is for the launches to come, not for those under way. */
static void graph_updates_while_held(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_buffer a = make_words(T.dev, 8), b = make_words(T.dev, 8);
        hcq_point gate = make_gate(T.dev), first, second;
        put_args args = {a.address, 0, 1};
        CHECK_INDEX(hcq_queue_exec(g, make_put(T.dev), &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        CHECK_INDEX(hcq_queue_copy(g, b, a, 4), 1);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(submit_behind(g, T.dev, &gate, &first));
        const uint32_t index = 1, value = 2;
        const hcq_buffer dst = hcq_view(b, 4, 4), src = hcq_view(a, 4, 4);
        CHECK_OK(hcq_queue_update_arg(g, 0, 1, &index, 4));
        CHECK_OK(hcq_queue_update_arg(g, 0, 2, &value, 4));
        CHECK_OK(hcq_queue_update_copy(g, 1, &dst, &src, HCQ_KEEP));
        CHECK_OK(hcq_queue_submit(g, T.dev, &second));
        CHECK_RESULT(test_poll(first), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(second), HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(first);
        WAIT_OK(second);
        const uint32_t want[3] = {1, 2, 0};
        CHECK_BYTES(a, want, 12);
        CHECK_BYTES(b, want, 12);
        hcq_queue_destroy(g);
    }
}

/* Commands are given inputs and the graph's memory by updates, and taken off them. */
static void graph_updates_to_placeholders(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *g = make_graph();
        hcq_buffer a = make_words(T.dev, 16), b = make_words(T.dev, 16), e;
        hcq_buffer x = make_words(T.dev, 16), in = hcq_input(g, 0, NULL, 64);
        hcq_point done;
        CHECK_INDEX(hcq_queue_empty(g, T.dev, 64, HCQ_ZEROED, &e), 0);
        CHECK_INDEX(record_add(g, make_add(T.dev), a, 0, 5), 1);
        CHECK_INDEX(hcq_queue_copy(g, b, a, 4), 2);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        LAUNCH(g);                     /* the input is declared, but nothing uses it */
        CHECK_OK(hcq_queue_update_arg(g, 1, 0, &e.address, 8));
        CHECK_OK(hcq_queue_update_copy(g, 2, &in, &e, HCQ_KEEP));
        CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_INVALID);
        for (uint32_t i = 1; i <= 3; i++) {
            CHECK_OK(launch_inputs(g, &x, 1, &done));
            CHECK_U64(READ32(x, 0), 5 * i);
        }
        CHECK_OK(hcq_queue_update_arg(g, 1, 0, &x.address, 8));
        CHECK_RESULT(launch_inputs(g, &x, 1, &done), HCQ_ERROR_ALIAS);
        CHECK_OK(hcq_queue_update_copy(g, 2, &b, &x, HCQ_KEEP));
        LAUNCH(g);                     /* without inputs again */
        CHECK_U64(READ32(x, 0), 20);
        CHECK_U64(READ32(b, 0), 20);
        CHECK_U64(READ32(a, 0), 5);
    }
}

/* What an update makes of a buffer is planned anew: commands that had nothing to
   do with each other have now. */
static void updates_are_planned(void **state) {
    (void)state;
    if (!devices_share_memory()) {
        SKIP("devices do not see each other's memory");
        return;
    }
    for (int copy = 0; copy < 2; copy++) {
        hcq_buffer x = make_words(T.dev, 4), y = make_words(T.dev2, 4);
        hcq_buffer z = make_words(T.dev2, 4), own = make_words(T.dev2, 1);
        hcq_program *mark2 = make_mark(T.dev2);
        hcq_queue *g = make_graph();
        hcq_point done;
        CHECK_INDEX(record_mark(g, make_mark(T.dev), x, 0, 1), 0);
        CHECK_INDEX(copy ? hcq_queue_copy(g, z, y, 4) : record_mark(g, mark2, z, 1, 0), 1);
        CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(2)), 2); /* tells of the copy */
        CHECK_OK(hcq_queue_access(g, 2, own, HCQ_ARG_OUT));
        CHECK_OK(hcq_queue_access(g, 2, z, HCQ_ARG_IN));
        CHECK_OK(hcq_queue_bind(g, T.dev));
        for (int i = 0; i < 4; i++) {
            const uint32_t told = copy ? 2 : 1;
            marks_reset();
            if (i == 2) {              /* now it touches what command 0 writes */
                CHECK_OK(copy ? hcq_queue_update_copy(g, 1, NULL, &x, HCQ_KEEP)
                              : hcq_queue_update_arg(g, 1, 0, &x.address, 8));
            }
            CHECK_OK(hcq_queue_submit(g, T.dev, &done));
            CHECK(word_until(&SEEN->hold_began, 1));
            mark_chance(told);
            CHECK(i < 2 ? mark_until(told) : !mark_at(told));
            hold_release();
            WAIT_OK(done);
            CHECK(i < 2 || mark_at(0) < mark_at(told));
        }
        CHECK(!copy || READ32(z, 0) == READ32(x, 0));
    }
}

/* Recording more, also after bind and launches; reset and recorded anew. */
static void graph_is_recorded_on(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_program *add[2] = {make_add(T.dev), make_add(T.dev2)};
    hcq_buffer a[2] = {make_words(T.dev, 16), make_words(T.dev2, 16)};
    uint32_t want[2][16] = {{0}};
    for (uint32_t i = 0; i < 16; i++) {
        CHECK_INDEX(record_add(g, add[i % 2], a[i % 2], i, i + 1), (int32_t)i);
        if (i % 3 == 0) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
        CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
        for (uint32_t j = 0; j <= i; j++) {
            want[j % 2][j] += 2 * (j + 1);
        }
    }
    CHECK_BYTES(a[0], want[0], 64);
    CHECK_BYTES(a[1], want[1], 64);
    CHECK_OK(hcq_queue_label(g, "kept"));
    CHECK_OK(hcq_queue_reset(g));
    CHECK_U64(hcq_queue_count(g), 0);
    LAUNCH(g);
    CHECK_BYTES(a[0], want[0], 64);
    CHECK_INDEX(record_add(g, add[1], a[1], 15, 5), 0);
    hcq_buffer in = hcq_input(g, 0, T.dev2, 8); /* inputs were forgotten, too */
    CHECK_U64(in.size, 8);
    LAUNCH(g);
    want[1][15] += 5;
    CHECK_BYTES(a[1], want[1], 64);
    CHECK_BYTES(a[0], want[0], 64);
}

static uint64_t sum_of_both(int query) {
    return test_query(T.dev, query) + test_query(T.dev2, query);
}

static void synchronize_both(void) {
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
}

/* Bound, a launch copies no commands and patches only what changed. */
static void bound_graph_is_encoded_once(void **state) {
    (void)state;
    enum { COMMANDS = 40, ROUNDS = 200 };
    hcq_queue *g = make_graph();
    hcq_program *add[2] = {make_add(T.dev), make_add(T.dev2)};
    hcq_buffer a[2] = {make_words(T.dev, COMMANDS), make_words(T.dev2, COMMANDS)};
    for (uint32_t i = 0; i < COMMANDS; i++) {
        CHECK_INDEX(record_add(g, add[i % 2], a[i % 2], i, 1), (int32_t)i);
    }
    CHECK_OK(hcq_queue_bind(g, T.dev));
    uint32_t value = 1;
    for (int i = 0; i < 10; i++) {     /* all versions are made */
        CHECK_OK(hcq_queue_update_arg(g, 7, 1, &value, 4));
        CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
    }
    synchronize_both();
    const uint64_t copied = sum_of_both(HCQ_QUERY_PACKETS_COPIED);
    const uint64_t patched = sum_of_both(HCQ_QUERY_PACKETS_PATCHED);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
    }
    synchronize_both();
    CHECK(sum_of_both(HCQ_QUERY_PACKETS_PATCHED) <= patched + 2); /* nothing changed */
    for (uint32_t i = 0; i < ROUNDS; i++) {
        value = i;
        CHECK_OK(hcq_queue_update_arg(g, 7, 1, &value, 4));
        CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
    }
    synchronize_both();
    CHECK_U64(sum_of_both(HCQ_QUERY_PACKETS_COPIED), copied);
    CHECK(sum_of_both(HCQ_QUERY_PACKETS_PATCHED) - patched <= 2 * ROUNDS + 8);
    CHECK_U64(READ32(a[1], 5), 2 * ROUNDS + 10);
    CHECK_U64(READ32(a[1], 7), ROUNDS + 10 + ROUNDS * (ROUNDS - 1) / 2);
}

/* ---- memory of the graph ---- */

/* Allocated by the first run, kept from launch to launch, freed by reset and by
   destroying the graph. */
static void empty_is_kept(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* on either device, bound or not */
        hcq_device *device = way % 2 ? T.dev2 : T.dev;
        hcq_program *add = make_add(device);
        hcq_buffer out, e;
        hcq_queue *g = make_graph();
        hcq_command c;
        CHECK_OK(hcq_alloc(device, 8, HCQ_HOST_VISIBLE | HCQ_ZEROED, &out));
        const uint32_t *words = (const uint32_t *)out.host;
        const uint64_t bytes = test_query(device, HCQ_QUERY_ALLOCATED_BYTES);
        memset(&e, 0, sizeof e);
        CHECK_INDEX(hcq_queue_empty(g, device, 80000, HCQ_ZEROED, &e), 0);
        CHECK_U64(e.size, 80000);
        CHECK(e.device == device);
        CHECK_OK(hcq_queue_command(g, 0, &c));
        CHECK(c.kind == HCQ_COMMAND_EMPTY);
        CHECK_INDEX(record_add(g, add, hcq_view(e, 400, 400), 1, 3), 1);
        CHECK_INDEX(hcq_queue_copy(g, out, hcq_view(e, 404, 8), 8), 2);
        CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes);
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        for (uint32_t i = 1; i <= 4; i++) {
            LAUNCH(g);
            CHECK_U64(words[0], 3 * i); /* copyout would allocate */
            CHECK_U64(words[1], 0);
            CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes + 80000);
        }
        if (way < 2) {
            CHECK_OK(hcq_queue_reset(g));
        } else {
            hcq_queue_destroy(g);
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes);
    }
}

/* Several of them are distinct memory, which inputs and commands go through. */
static void empties_are_distinct(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_buffer in = hcq_input(g, 0, NULL, 64), e[3], out = make_words(T.dev, 48);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(hcq_queue_empty(g, T.dev, 64, i == 2 ? HCQ_HOST_VISIBLE : 0, &e[i]) >= 0);
    }
    CHECK(e[0].address != e[1].address && e[1].address != e[2].address);
    CHECK(hcq_queue_fill(g, e[0], 64, 1, 4) >= 0);
    CHECK(hcq_queue_copy(g, e[1], in, 64) >= 0);
    CHECK(hcq_queue_fill(g, e[2], 64, 3, 4) >= 0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(hcq_queue_copy(g, hcq_view(out, i * 64, 64), e[i], 64) >= 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        hcq_buffer x = make_words(T.dev, 16);
        uint32_t words[48];
        for (uint32_t k = 0; k < 48; k++) {
            words[k] = k < 16 ? 1 : k < 32 ? 100 + i : 3;
        }
        CHECK_OK(hcq_copyin(x, words + 16, 64));
        CHECK_OK(launch_inputs(g, &x, 1, NULL));
        CHECK_BYTES(out, words, sizeof words);
    }
}

/* ---- a launch among other submissions ---- */

/* A submission without order runs: whatever was handed over before it has run. */
static void probe_lane(hcq_device *device) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_buffer word = make_words(device, 1);
    hcq_submission s = submission(&q, 1);
    hcq_point done = {{0}, 0};
    CHECK_INDEX(hcq_queue_write(q, word, 1, 4), 0);
    s.flags = HCQ_UNORDERED;
    CHECK_OK(hcq_submit(device, &s, 1, &done));
    WAIT_OK(done);
    hcq_queue_destroy(q);
}

typedef struct two_marks {
    hcq_queue *g;
    hcq_buffer word[2];
} two_marks;

/* A mark on each of the two devices, independent of each other. */
static two_marks make_two_marks(void) {
    two_marks t;
    t.g = make_graph();
    t.word[0] = make_words(T.dev, 4);
    t.word[1] = make_words(T.dev2, 4);
    CHECK_INDEX(record_mark(t.g, make_mark(T.dev), t.word[0], 0, 0), 0);
    CHECK_INDEX(record_mark(t.g, make_mark(T.dev2), t.word[1], 1, 0), 1);
    CHECK_OK(hcq_queue_label(t.g, "two marks"));
    return t;
}

/* Work that stands on one lane of one device until `gate` opens. */
static hcq_point hold_lane(hcq_device *device, hcq_queue_kind kind, hcq_point gate) {
    hcq_queue *q = make_queue(device, kind);
    hcq_point held = {{0}, 0};
    CHECK(hcq_queue_write(q, make_words(device, 1), 1, 4) >= 0);
    CHECK_OK(submit_behind(q, device, &gate, &held));
    hcq_queue_destroy(q);
    return held;
}

/* On every lane of every device: a launch begins there only after it. */
static void launch_follows_earlier_work(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 8; way++) {
        const uint32_t other = way % 2, kind = way / 2 % 2;
        hcq_device *devices[2] = {T.dev, T.dev2};
        two_marks t = make_two_marks();
        hcq_point gate = make_gate(T.dev), done, held;
        marks_reset();
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        held = hold_lane(devices[other], kind ? HCQ_COPY : HCQ_COMPUTE, gate);
        CHECK_OK(hcq_queue_submit(t.g, T.dev, &done));
        probe_lane(T.dev);
        probe_lane(T.dev2);
        CHECK(!mark_at(other));
        CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
        CHECK_OK(test_poll(held));
        hcq_queue_destroy(t.g);
    }
}

/* And earlier work that runs already, on another lane than the launch's. */
static void launch_follows_running_work(void **state) {
    (void)state;
    two_marks t = make_two_marks();
    static uint32_t go;
    for (int i = 0; i < 4; i++) {
        hcq_device *device = i % 2 ? T.dev2 : T.dev;
        hcq_queue *q = make_queue(device, HCQ_COPY);
        hcq_point done, earlier;
        __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
        marks_reset();
        if (i == 2) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_INDEX(hcq_queue_host(q, host_until, &go), 0);
        CHECK_OK(hcq_queue_submit(q, device, &earlier));
        CHECK_OK(hcq_queue_submit(t.g, T.dev, &done));
        mark_chance((uint32_t)i % 2);
        CHECK(!mark_at((uint32_t)i % 2));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
        WAIT_OK(done);
        CHECK_OK(test_poll(earlier));
        hcq_queue_destroy(q);
    }
}

/* A held launch does not pass, and nothing passes it: later work of its lanes, work
   that waits for its point, the timelines and eager calls of both devices. */
static void later_work_follows_a_launch(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_device *devices[2] = {T.dev, T.dev2};
        hcq_point gate = make_gate(T.dev2), done, line[2], after[2], behind[2];
        hcq_buffer copy[2] = {make_words(T.dev, 1), make_words(T.dev2, 1)};
        marks_reset();
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(submit_behind(t.g, T.dev, &gate, &done));
        for (int i = 0; i < 2; i++) {
            hcq_queue *q = make_queue(devices[i], HCQ_COPY);
            hcq_queue *same = make_queue(devices[i], HCQ_COMPUTE);
            line[i] = timeline_now(devices[i]);
            CHECK_INDEX(hcq_queue_wait(q, done), 0);
            CHECK_INDEX(hcq_queue_copy(q, copy[i], t.word[i], 4), 1);
            CHECK_OK(hcq_queue_submit(q, devices[i], &after[i]));
            CHECK_INDEX(hcq_queue_fill(same, hcq_view(t.word[i], 4, 4), 4, 5, 4), 0);
            CHECK_OK(hcq_queue_submit(same, devices[i], &behind[i]));
        }
        for (int i = 0; i < 2; i++) {
            CHECK_RESULT(test_poll(line[i]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(after[i]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(behind[i]), HCQ_TIMEOUT);
        }
        CHECK(!mark_at(0) && !mark_at(1));
        open_gate(gate);
        for (int i = 0; i < 2; i++) {
            CHECK_U64(READ32(t.word[i], 0), i + 1); /* an eager call: after all of it */
            WAIT_OK(line[i]);
            WAIT_OK(after[i]);
            WAIT_OK(behind[i]);
            CHECK_U64(READ32(copy[i], 0), i + 1);
            CHECK_U64(READ32(t.word[i], 1), 5);
        }
        WAIT_OK(done);
        hcq_queue_destroy(t.g);
    }
}

/* The submission's own lists: all waits before the first command, all signals
   after the last, on whatever device. */
static void launch_with_waits_and_signals(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev2)}, done;
        hcq_point raise[2] = {hcq_at(make_signal(T.dev, 0), 7),
                              hcq_at(make_signal(T.dev2, 3), 4)};
        hcq_submission s = submission(&t.g, 1);
        s.waits = gates;
        s.wait_count = 2;
        s.signals = raise;
        s.signal_count = 2;
        marks_reset();
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        for (int i = 0; i < 2; i++) {
            probe_lane(T.dev);
            probe_lane(T.dev2);
            CHECK(!mark_at(0) && !mark_at(1));
            CHECK_RESULT(test_poll(raise[0]), HCQ_TIMEOUT);
            CHECK_RESULT(test_poll(raise[1]), HCQ_TIMEOUT);
            open_gate(gates[i]);
        }
        WAIT_OK(raise[0]);
        CHECK(mark_at(0) && mark_at(1)); /* a signal comes after all commands */
        WAIT_OK(raise[1]);
        WAIT_OK(done);
        CHECK_RESULT(hcq_submit(T.dev, &s, 1, &done), HCQ_ERROR_INVALID); /* does not rise */
    }
}

/* The launch comes before what it waits for: work of another device, and of its
   own, that was submitted later. */
static void launch_waits_for_later_work(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        two_marks t = make_two_marks();
        hcq_device *device = way % 2 ? T.dev2 : T.dev;
        hcq_point wait = hcq_at(make_signal(T.dev, 0), 1), done;
        marks_reset();
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_OK(submit_behind(t.g, T.dev, &wait, &done));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        CHECK_OK(submit_lists(device, NULL, &wait, HCQ_UNORDERED, NULL));
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* Launch by launch, each waits for a signal that the one before raises, last one
   first, with graphs of either device as home. */
static void launches_in_a_chain(void **state) {
    (void)state;
    enum { LINKS = 8 };
    hcq_signal s = make_signal(T.dev2, 0);
    hcq_device *devices[2] = {T.dev, T.dev2};
    hcq_program *mix = make_mix(T.dev);
    hcq_buffer a = make_filled(T.dev, 1, 3), b = make_filled(T.dev, 1, 4);
    hcq_point done[LINKS];
    uint32_t va = 3;
    for (uint32_t i = LINKS; i-- > 0;) { /* graphs of one device would stand in a line */
        hcq_queue *g = make_queue(devices[1], HCQ_GRAPH);
        hcq_point wait = hcq_at(s, i), raise = hcq_at(s, i + 1);
        hcq_submission sub = submission(&g, 1);
        sub.waits = &wait;
        sub.wait_count = 1;
        sub.signals = &raise;
        sub.signal_count = 1;
        sub.flags = HCQ_OVERLAP;
        CHECK_INDEX(record_mix(g, mix, a, b, 1, i), 0);
        CHECK_OK(hcq_submit(devices[1], &sub, 1, &done[i]));
    }
    for (uint32_t i = 0; i < LINKS; i++) {
        WAIT_OK(done[i]);
        va = mixed(va, 4, i);
    }
    CHECK_U64(READ32(a, 0), va);
}

/* Flag HCQ_OVERLAP: other work is passed, on whatever lane it is held. */
static void overlap_passes_other_work(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        hcq_device *devices[2] = {T.dev, T.dev2};
        two_marks t = make_two_marks();
        hcq_point gate = make_gate(T.dev), done, held;
        marks_reset();
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        held = hold_lane(devices[way % 2], way / 2 % 2 ? HCQ_COPY : HCQ_COMPUTE, gate);
        CHECK_OK(launch_flags(t.g, HCQ_OVERLAP, &done));
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
        CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(held);
    }
}

/* A launch while the one before is held or runs; with HCQ_OVERLAP, too, for it
   needs what the one before writes. */
static void launch_while_another_is_under_way(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        const uint32_t flags = way % 2 ? HCQ_OVERLAP : 0;
        hcq_program *late = make_late_mix(T.dev), *mix = make_mix(T.dev);
        hcq_buffer a = make_filled(T.dev, 1, 3), b = make_filled(T.dev, 1, 4);
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(T.dev), done[2];
        uint32_t va = 3, vb = 4;
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_mix(g, late, a, b, 1, 1), 0);
        CHECK_INDEX(record_mix(g, mix, b, a, 1, 2), 1);
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.waits = &gate;
        s.wait_count = way & 2 ? 1 : 0; /* held, or begun and not done */
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[0]));
        s.wait_count = 0;
        s.flags = flags;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[1]));
        CHECK_RESULT(test_poll(done[0]), HCQ_TIMEOUT);
        CHECK_RESULT(test_poll(done[1]), HCQ_TIMEOUT);
        hold_release();
        open_gate(gate);
        WAIT_OK(done[0]);
        WAIT_OK(done[1]);
        for (int i = 0; i < 2; i++) {
            va = mixed(va, vb, 1);
            vb = mixed(vb, va, 2);
        }
        CHECK_U64(READ32(a, 0), va);
        CHECK_U64(READ32(b, 0), vb);
    }
}

typedef struct step_call { hcq_queue *g; hcq_point done; hcq_result result; } step_call;

/* One call submits plain work and launches; another one waits for its launch. */
static void launches_among_submissions(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *queues[3] = {make_queue(T.dev, HCQ_COMPUTE), make_graph(),
                                make_queue(T.dev, HCQ_COMPUTE)};
        hcq_buffer a = make_words(T.dev, 4);
        hcq_submission subs[5];
        hcq_point done;
        static notice told;
        CHECK_INDEX(hcq_queue_write(queues[0], a, 5, 4), 0);
        CHECK_INDEX(record_mix(queues[1], make_mix(T.dev), a, hcq_view(a, 4, 4), 1, 1), 0);
        CHECK_INDEX(hcq_queue_copy(queues[2], hcq_view(a, 8, 4), a, 4), 0);
        if (bound) {
            CHECK_OK(hcq_queue_bind(queues[1], T.dev));
        }
        for (int i = 0; i < 5; i++) {  /* write, launch, launch, copy, launch */
            static const int order[5] = {0, 1, 1, 2, 1};
            subs[i] = submission(&queues[order[i]], 1);
        }
        CHECK_OK(hcq_submit(T.dev, subs, 5, &done));
        NOTIFY_AT(&told, done);
        NOTIFIED(&told, HCQ_OK);
        const uint32_t once = 5 * 31 + 1, twice = once * 31 + 1;
        CHECK_U64(READ32(a, 2), twice);
        CHECK_U64(READ32(a, 0), twice * 31 + 1);
        CHECK_OK(hcq_submit_and_wait(T.dev, subs, 2, BOUND, &done));
        CHECK_OK(test_poll(done));
        CHECK_U64(READ32(a, 0), once);
    }
}

static hcq_result host_launches(void *user) {
    step_call *c = (step_call *)user;
    c->result = hcq_queue_submit(c->g, T.dev, &c->done);
    return HCQ_OK;
}

/* A launch does not wait, and so a callback may make it. */
static void launch_in_a_callback(void **state) {
    (void)state;
    static step_call call;
    for (int bound = 0; bound < 2; bound++) {
        two_marks t = make_two_marks();
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_point done;
        memset(&call, 0, sizeof call);
        call.g = t.g;
        marks_reset();
        if (bound) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        CHECK_INDEX(hcq_queue_host(q, host_launches, &call), 0);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK_OK(call.result);
        WAIT_OK(call.done);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* ---- failures ---- */

/* A host command fails a launch: what follows it does not run, on any device,
   whoever waits is told, and the next launch runs well. */
static void failing_host_command_in_a_graph(void **state) {
    (void)state;
    static host_log log;
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4);
        hcq_queue *g = make_graph(), *q = make_queue(T.dev2, HCQ_COMPUTE);
        hcq_point raise = hcq_at(make_signal(T.dev2, 0), 1), done, after;
        hcq_submission s = submission(&g, 1);
        hcq_error_info error;
        memset(&log, 0, sizeof log);
        log.result = HCQ_ERROR_HOST;
        marks_reset();
        CHECK_OK(hcq_queue_label(g, "failing graph"));
        CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
        CHECK_INDEX(hcq_queue_host(g, host_record, &log), 1);
        CHECK_OK(hcq_queue_access(g, 1, a, HCQ_ARG_INOUT));
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(a, 8, 4), a, 4), 2);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), b, 3, 0), 3);
        CHECK_OK(hcq_queue_edge(g, 1, 3));
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.signals = &raise;
        s.signal_count = 1;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        CHECK_INDEX(hcq_queue_wait(q, done), 0);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(b, 8, 4), 9, 4), 1);
        CHECK_OK(hcq_queue_submit(q, T.dev2, &after));
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(raise, HCQ_ERROR_HOST);
        WAIT_RESULT(after, HCQ_ERROR_HOST);
        WAIT_OK(timeline_now(T.dev));  /* timelines only order */
        WAIT_OK(timeline_now(T.dev2));
        CHECK_U64(log.calls, 1);
        CHECK_U64(READ32(a, 0), 1);
        CHECK_U64(READ32(a, 2), 0);
        CHECK_U64(READ32(b, 2), 0);
        CHECK(!mark_at(3));
        CHECK_OK(hcq_device_error(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "failing graph") == 0);
        CHECK_U64(error.command, 1);
        CHECK_RESULT(test_poll(done), HCQ_ERROR_HOST); /* the point remembers */
        log.result = HCQ_OK;
        LAUNCH(g);
        CHECK_U64(log.calls, 2);
        CHECK_U64(READ32(a, 2), 1);
        CHECK(mark_at(3));
        CHECK_OK(hcq_device_error(T.dev2, &error)); /* may have told of it, too */
    }
}

/* The n-th launch fails, the others do not, however many are under way. */
static hcq_result host_fails_third(void *user) {
    return __atomic_add_fetch((uint32_t *)user, 1, __ATOMIC_ACQ_REL) == 3 ? HCQ_ERROR_HOST
                                                                          : HCQ_OK;
}

static void one_failing_launch_of_many(void **state) {
    (void)state;
    enum { LAUNCHES = 6 };
    static uint32_t calls;
    hcq_device_desc desc = test_desc();
    desc.slots = LAUNCHES;
    hcq_device *keep = T.dev, *device = test_open(0, &desc);
    T.dev = device;
    for (int bound = 0; bound < 2; bound++) {
        hcq_buffer a = make_words(device, 1), b = make_words(T.dev2, 1);
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(device), done[LAUNCHES];
        __atomic_store_n(&calls, 0, __ATOMIC_RELEASE);
        CHECK_INDEX(hcq_queue_host(g, host_fails_third, &calls), 0);
        CHECK_INDEX(record_add(g, make_add(device), a, 0, 1), 1);
        CHECK_INDEX(record_add(g, make_add(T.dev2), b, 0, 1), 2);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, device));
        }
        for (int i = 0; i < LAUNCHES; i++) {
            CHECK_OK(submit_behind(g, device, &gate, &done[i]));
        }
        open_gate(gate);
        for (int i = 0; i < LAUNCHES; i++) {
            WAIT_RESULT(done[i], i == 2 ? HCQ_ERROR_HOST : HCQ_OK);
        }
        CHECK_U64(READ32(a, 0), LAUNCHES - 1);
        CHECK_U64(READ32(b, 0), LAUNCHES - 1);
    }
    T.dev = keep;
    CHECK_OK(hcq_close(device));
}

/* What a launch waits for fails: nothing of it runs, and its signals fail. */
static void launch_whose_wait_fails(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* before or after the launch; bound */
        two_marks t = make_two_marks();
        hcq_point gate = make_gate(T.dev2), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        hcq_submission s = submission(&t.g, 1);
        s.waits = &gate;
        s.wait_count = 1;
        s.signals = &raise;
        s.signal_count = 1;
        marks_reset();
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(t.g, T.dev));
        }
        if (way % 2) {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
        }
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        if (!(way % 2)) {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
        }
        WAIT_RESULT(done, HCQ_ERROR_NATIVE);
        WAIT_RESULT(raise, HCQ_ERROR_NATIVE);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        CHECK(!mark_at(0) && !mark_at(1));
        LAUNCH(t.g);
        CHECK(mark_at(0) && mark_at(1));
    }
}

/* One of two waits fails, the other is never raised: nobody waits for that. */
static void launch_with_one_failing_wait(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        two_marks t = make_two_marks();
        hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev2)}, done;
        hcq_submission s = submission(&t.g, 1);
        s.waits = gates;
        s.wait_count = 2;
        s.flags = way / 2 ? HCQ_OVERLAP : 0;
        marks_reset();
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        CHECK_OK(hcq_signal_fail(gates[way % 2].signal, HCQ_ERROR_NATIVE));
        WAIT_RESULT(done, HCQ_ERROR_NATIVE);
        CHECK(!mark_at(0) && !mark_at(1));
        hcq_queue_destroy(t.g);
    }
}

/* More waits than there are waiters at first, over several slices. */
static void launch_with_many_waits(void **state) {
    (void)state;
    enum { WAITS = 3000 };
    static hcq_point waits[WAITS];
    two_marks t = make_two_marks();
    hcq_point gate = make_gate(T.dev), done;
    hcq_submission s = submission(&t.g, 1);
    for (int i = 0; i < WAITS; i++) {
        waits[i] = gate;
    }
    s.waits = waits;
    s.wait_count = WAITS;
    for (int way = 0; way < 2; way++) {
        s.flags = way ? HCQ_OVERLAP : 0;
        marks_reset();
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        if (!way) {
            CHECK(!mark_at(0) && !mark_at(1));
            open_gate(gate);
        }
        WAIT_OK(done);
        CHECK(mark_at(0) && mark_at(1));
    }
}

static uint32_t chain_go;              /* lets chain_read end */
static uint32_t chain_reads, chain_wrong;

static hcq_result chain_write(void *user) {
    (void)user;
    if (__atomic_load_n(&chain_reads, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&chain_wrong, 1, __ATOMIC_RELEASE);
    }
    return HCQ_OK;
}

static hcq_result chain_read(void *user) {
    (void)user;
    __atomic_store_n(&chain_reads, 1, __ATOMIC_RELEASE);
    int let = word_until(&chain_go, 1);
    __atomic_store_n(&chain_reads, 0, __ATOMIC_RELEASE);
    return let ? HCQ_OK : HCQ_ERROR_HOST;
}

/* A launch that fails early still keeps the one after it behind the one before
   it: the third would write what the first one reads. */
static void failed_launch_keeps_the_order(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_buffer x = make_words(T.dev, 16), y = make_words(T.dev2, 16);
    hcq_point gate = make_gate(T.dev), done[3];
    CHECK_INDEX(hcq_queue_host(g, chain_write, NULL), 0);
    CHECK_OK(hcq_queue_access(g, 0, x, HCQ_ARG_OUT));
    CHECK_INDEX(hcq_queue_host(g, chain_read, NULL), 1);
    CHECK_OK(hcq_queue_access(g, 1, y, HCQ_ARG_OUT));
    CHECK_OK(hcq_queue_access(g, 1, x, HCQ_ARG_IN));
    hcq_submission s = submission(&g, 1);
    __atomic_store_n(&chain_go, 0, __ATOMIC_RELEASE);
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &done[0]));
    CHECK(word_until(&chain_reads, 1));
    s.waits = &gate;
    s.wait_count = 1;
    CHECK_OK(hcq_submit(T.dev, &s, 1, &done[1]));
    CHECK_OK(launch_flags(g, HCQ_OVERLAP, &done[2]));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_NATIVE));
    for (int i = 0; i < 20; i++) {     /* time to go wrong */
        (void)test_poll(done[2]);
        mock_sleep(1000000);
    }
    CHECK_RESULT(test_poll(done[2]), HCQ_TIMEOUT);
    __atomic_store_n(&chain_go, 1, __ATOMIC_RELEASE);
    WAIT_OK(done[0]);
    WAIT_RESULT(done[1], HCQ_ERROR_NATIVE);
    WAIT_OK(done[2]);
    CHECK(!__atomic_load_n(&chain_wrong, __ATOMIC_ACQUIRE));
}

/* What was stated of an argument's bytes goes along with the argument. */
static void stated_access_follows_updates(void **state) {
    (void)state;
    hcq_queue *g = make_graph();
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 32), b = make_words(T.dev, 32), tiny = make_words(T.dev, 1);
    hcq_buffer in = hcq_input(g, 0, NULL, 64);
    hcq_point done;
    CHECK_INDEX(record_add(g, add, a, 0, 1), 0);
    CHECK_OK(hcq_queue_access(g, 0, hcq_view(a, 0, 64), HCQ_ARG_INOUT));
    CHECK_INDEX(hcq_queue_fill(g, in, 64, 3, 4), 1);
    CHECK_RESULT(launch_inputs(g, &a, 1, &done), HCQ_ERROR_ALIAS);
    hcq_buffer rest = hcq_view(a, 64, 64);
    CHECK_OK(launch_inputs(g, &rest, 1, &done)); /* not among the stated bytes */
    WAIT_OK(done);
    CHECK_RESULT(hcq_queue_update_arg(g, 0, 0, &tiny.address, 8), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_update_arg(g, 0, 0, &b.address, 8));
    CHECK_RESULT(launch_inputs(g, &b, 1, &done), HCQ_ERROR_ALIAS);
    rest = hcq_view(b, 64, 64);
    CHECK_OK(launch_inputs(g, &rest, 1, &done));
    WAIT_OK(done);
    CHECK_OK(launch_inputs(g, &a, 1, &done)); /* nobody names it any more */
    WAIT_OK(done);
    CHECK_U64(READ32(b, 0), 2);
}

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

/* ---- objects that go while a launch is under way ---- */

static void graph_destroyed_in_flight(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) { /* held or running; destroyed or reset; bound */
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4), e;
        hcq_queue *g = make_graph();
        hcq_point gate = make_gate(T.dev), done[2];
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_mark(g, make_mark(T.dev), a, 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(T.dev2), b, 1, 0), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        CHECK_INDEX(hcq_queue_empty(g, T.dev, 4096, 0, &e), 2);
        CHECK_INDEX(hcq_queue_fill(g, e, 4096, 5, 4), 3);
        CHECK_INDEX(hcq_queue_copy(g, hcq_view(a, 8, 8), hcq_view(e, 4088, 8), 8), 4);
        if (way / 4) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.waits = &gate;
        s.wait_count = way % 2 ? 1 : 0;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[0]));
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done[1]));
        if (way / 2 % 2) {
            hcq_queue_destroy(g);
        } else {
            CHECK_OK(hcq_queue_reset(g));
        }
        CHECK_RESULT(test_poll(done[0]), HCQ_TIMEOUT);
        open_gate(gate);
        hold_release();
        WAIT_OK(done[0]);
        WAIT_OK(done[1]);
        CHECK_U64(READ32(a, 0), 32);
        CHECK_U64(READ32(a, 3), 5);
        CHECK_U64(READ32(b, 0), 64);
    }
}

/* Programs, buffers and signals of a launch go before it runs. */
static void objects_go_before_a_launch_runs(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_program *add = make_add(T.dev), *mark = make_mark(T.dev2);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev2, 4), out = make_words(T.dev, 4);
        hcq_point gate = make_gate(T.dev), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        hcq_queue *g = make_graph();
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_add(g, add, a, 0, 7), 0);
        CHECK_INDEX(record_mark(g, mark, b, 0, 0), 1);
        CHECK_INDEX(hcq_queue_copy(g, out, a, 4), 2);
        if (bound) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
        }
        s.waits = &gate;
        s.wait_count = 1;
        s.signals = &raise;
        s.signal_count = 1;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        hcq_program_destroy(add);
        hcq_program_destroy(mark);
        CHECK_OK(hcq_free(a));
        CHECK_OK(hcq_free(b));
        CHECK_OK(hcq_signal_destroy(raise.signal));
        CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_CLOSED); /* buffers are gone */
        open_gate(gate);
        WAIT_OK(done);
        CHECK_U64(READ32(out, 0), 7);
        CHECK(mark_at(0));
        hcq_queue_destroy(g);
    }
}

/* A device of a held launch is closed: its part is cancelled, with it the launch
   and what follows, and the other device goes on. */
static void device_of_a_launch_is_closed(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* the home or the other one; bound */
        hcq_device *device = test_open(0, NULL);
        hcq_device *home = way % 2 ? device : T.dev, *other = way % 2 ? T.dev : device;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_buffer word = make_words(T.dev, 1);
        hcq_point gate = make_gate(T.dev2), raise = hcq_at(make_signal(T.dev2, 0), 1), done, next;
        hcq_submission s = submission(&g, 1);
        marks_reset();
        CHECK_INDEX(record_mark(g, make_mark(home), make_words(home, 1), 0, 0), 0);
        CHECK_INDEX(record_mark(g, make_mark(other), make_words(other, 1), 1, 0), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
        if (way / 2) {
            CHECK_OK(hcq_queue_bind(g, home));
        }
        s.waits = &gate;
        s.wait_count = 1;
        s.signals = &raise;
        s.signal_count = 1;
        CHECK_OK(hcq_submit(home, &s, 1, &done));
        CHECK_OK(hcq_close(device));
        open_gate(gate);
        hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        CHECK(result == HCQ_ERROR_CANCELLED || (way % 2 && result == HCQ_ERROR_CLOSED));
        WAIT_RESULT(raise, HCQ_ERROR_CANCELLED);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK(!mark_at(1) && !(way % 2 && mark_at(0)));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &next));
        WAIT_OK(next);
        if (!(way % 2)) {              /* the graph is still there, its device is not */
            CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_CLOSED);
            CHECK_RESULT(hcq_queue_bind(g, T.dev), HCQ_ERROR_CLOSED);
            CHECK_OK(hcq_queue_reset(g));
            CHECK_INDEX(hcq_queue_write(g, word, 6, 4), 0);
            LAUNCH(g);
            CHECK_U64(READ32(word, 0), 6);
        }
    }
}

/* Closed while the launch runs: what was handed over is waited for, the rest ends. */
static void device_of_a_running_launch_is_closed(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) { /* whose part runs; the home or the other one */
        static blocked_call call;
        hcq_device *device = test_open(0, NULL);
        hcq_device *home = way / 2 ? device : T.dev, *other = way / 2 ? T.dev : device;
        hcq_device *first = way % 2 ? home : other, *second = way % 2 ? other : home;
        hcq_queue *g = make_queue(home, HCQ_GRAPH);
        hcq_point done, next;
        marks_reset();
        memset(&call, 0, sizeof call);
        CHECK_INDEX(record_mark(g, make_mark(first), make_words(first, 1), 0, 1), 0);
        CHECK_INDEX(record_mark(g, make_mark(second), make_words(second, 1), 1, 0), 1);
        CHECK_OK(hcq_queue_edge(g, 0, 1));
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
        CHECK(result == HCQ_OK ? mark_at(1) != 0
                               : result == HCQ_ERROR_CANCELLED || result == HCQ_ERROR_CLOSED);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &next));
        WAIT_OK(next);
    }
}

/* A device goes and another one comes, at the same place maybe: the graph knows
   that it is not the same, whatever it has of the first. */
static void graph_outlives_a_device(void **state) {
    (void)state;
    for (int way = 0; way < 10; way++) { /* by what it names it; planned before or not */
        hcq_device *device = test_open(0, NULL), *again;
        hcq_queue *g = make_graph();
        hcq_buffer word = make_words(T.dev, 1), theirs = make_words(device, 1), e, in;
        hcq_buffer input = make_words(device, 1);
        CHECK_INDEX(hcq_queue_write(g, word, 1, 4), 0);
        switch (way % 5) {
        case 0:
            CHECK_INDEX(hcq_queue_exec(g, make_nothing(device), NULL, 0, hcq_dim(1, 1, 1),
                                       hcq_dim(1, 1, 1)), 1);
            break;
        case 1: CHECK_INDEX(hcq_queue_empty(g, device, 64, 0, &e), 1); break;
        case 2: CHECK_INDEX(hcq_queue_fill(g, theirs, 4, 2, 4), 1); break;
        case 3:
            CHECK_INDEX(hcq_queue_host(g, host_mark, mark_user(0)), 1);
            CHECK_OK(hcq_queue_access(g, 1, theirs, HCQ_ARG_OUT));
            break;
        default:
            in = hcq_input(g, 0, device, 4);
            CHECK_INDEX(hcq_queue_write(g, in, 2, 4), 1);
            break;
        }
        if (way / 5) {
            CHECK_OK(hcq_queue_bind(g, T.dev));
            CHECK_OK(launch_inputs(g, &input, 1, NULL));
        }
        CHECK_OK(hcq_close(device));
        again = test_open(0, NULL);
        input = make_words(again, 1);
        for (int i = 0; i < 2; i++) {
            char text[16];
            CHECK_RESULT(launch_inputs(g, &input, 1, NULL), HCQ_ERROR_CLOSED);
            CHECK_RESULT(hcq_queue_bind(g, T.dev), HCQ_ERROR_CLOSED);
            CHECK_U64(hcq_queue_print(g, 0, text, sizeof text), 0);
        }
        CHECK_OK(hcq_queue_reset(g));
        CHECK_INDEX(hcq_queue_write(g, word, 2, 4), 0);
        LAUNCH(g);
        CHECK_U64(READ32(word, 0), 2);
        CHECK_OK(hcq_close(again));
        hcq_queue_destroy(g);
    }
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

#define GRAPH_TESTS                                                                \
    TEST(graph_is_as_one_after_another), TEST(empty_graph), TEST(graph_of_two_devices), \
    TEST(graph_goes_to_and_fro), TEST(hazards_are_ordered), TEST(independent_commands_overlap), \
    TEST(graph_of_two_backends), TEST(imports_of_one_memory), TEST(inputs_seen_by_two_devices), \
    TEST(launches_among_submissions), TEST(launch_in_a_callback),                  \
    TEST(access_narrows_an_argument), TEST(access_changes_the_kind), TEST(access_adds_bytes), \
    TEST(edges_order), TEST(edge_after_a_launch), TEST(fences_order),              \
    TEST(large_copies_have_a_lane), TEST(large_copies_keep_their_place),           \
    TEST(graphs_append_recordings), TEST(graphs_append_other_devices),             \
    TEST(graphs_append_graphs), TEST(graphs_append_placeholders), TEST(graphs_take_no_waits), \
    TEST(inputs_belong_to_the_launch), TEST(inputs_while_held), TEST(inputs_of_two_devices), \
    TEST(wrong_inputs_run_nothing), TEST(aliases_are_refused),                     \
    TEST(launches_depend_through_inputs), TEST(inputs_are_freed_early), TEST(graph_variables), \
    TEST(buffer_variables_are_refused), TEST(graph_updates),                       \
    TEST(graph_updates_to_placeholders), TEST(graph_updates_while_held),           \
    TEST(updates_are_planned), TEST(graph_is_recorded_on), TEST(bound_graph_is_encoded_once), \
    TEST(empty_is_kept), TEST(empties_are_distinct), TEST(launch_follows_earlier_work), \
    TEST(launch_follows_running_work), TEST(later_work_follows_a_launch),          \
    TEST(launch_with_waits_and_signals), TEST(launch_waits_for_later_work),        \
    TEST(launches_in_a_chain), TEST(overlap_passes_other_work),                    \
    TEST(launch_while_another_is_under_way), TEST(failing_host_command_in_a_graph), \
    TEST(one_failing_launch_of_many), TEST(launch_whose_wait_fails),                \
    TEST(launch_with_one_failing_wait), TEST(launch_with_many_waits),              \
    TEST(failed_launch_keeps_the_order), TEST(stated_access_follows_updates),      \
    TEST(step_is_the_same),                                                        \
    TEST(step_with_inputs), TEST(step_in_a_callback), TEST(step_fails), TEST(graph_as_text), \
    TEST(graph_destroyed_in_flight), TEST(objects_go_before_a_launch_runs),        \
    TEST(device_of_a_launch_is_closed), TEST(device_of_a_running_launch_is_closed), \
    TEST(graph_outlives_a_device), TEST(launches_beyond_the_parked_limit),         \
    TEST(device_of_a_launch_is_lost), TEST(refused_part_of_a_launch),              \
    TEST(coverage_counts_launches), TEST(freed_input_waits_for_all_devices),       \
    TEST(held_launch_is_explained), TEST(running_launch_is_explained),             \
    TEST(graph_commands_are_read_back), TEST(launches_over_counter_swaps),         \
    TEST(launches_from_two_threads)
