/* graph_values.h - graphs: inputs, variables, updates, memory of their own.
   Part of conformance.c. */
#include "shared.h"
#include "graph.h"

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

#define GRAPH_VALUES_TESTS \
    TEST(imports_of_one_memory), TEST(inputs_seen_by_two_devices), \
    TEST(inputs_belong_to_the_launch), TEST(inputs_while_held), TEST(inputs_of_two_devices), \
    TEST(wrong_inputs_run_nothing), TEST(aliases_are_refused), \
    TEST(launches_depend_through_inputs), TEST(inputs_are_freed_early), TEST(graph_variables), \
    TEST(buffer_variables_are_refused), TEST(graph_updates), \
    TEST(graph_updates_to_placeholders), TEST(graph_updates_while_held), \
    TEST(updates_are_planned), TEST(graph_is_recorded_on), TEST(bound_graph_is_encoded_once), \
    TEST(empty_is_kept), TEST(empties_are_distinct)
