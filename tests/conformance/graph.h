/* graph.h - graph queues: a recording over several devices gives what
   its commands give one after another, whatever the plan makes of it; inputs and
   variables belong to their launch; a launch is a submission like others. Part
   of conformance.c, after edges.h. */
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

/* ---- launches ---- */

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

/* A mark on each of the two devices, independent of each other. */
typedef struct two_marks {
    hcq_queue *g;
    hcq_buffer word[2];
} two_marks;

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

typedef struct step_call { hcq_queue *g; hcq_point done; hcq_result result; } step_call;

/* ---- the same as one after another ---- */

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

#define GRAPH_TESTS \
    TEST(graph_is_as_one_after_another), TEST(empty_graph), TEST(graph_of_two_devices), \
    TEST(graph_goes_to_and_fro), TEST(hazards_are_ordered), \
    TEST(independent_commands_overlap), TEST(graph_of_two_backends), \
    TEST(access_narrows_an_argument), TEST(access_changes_the_kind), TEST(access_adds_bytes), \
    TEST(edges_order), TEST(edge_after_a_launch), TEST(fences_order), \
    TEST(large_copies_have_a_lane), TEST(large_copies_keep_their_place), \
    TEST(graphs_append_recordings), TEST(graphs_append_other_devices), \
    TEST(graphs_append_graphs), TEST(graphs_append_placeholders), TEST(graphs_take_no_waits)

#endif /* HCQ_TEST_CONFORMANCE_GRAPH_H */
