/* Updates, variables, binding. Part of conformance.c. */
#include "shared.h"

typedef struct updated {
    hcq_queue *q;                      /* wait s, exec add a, copy b <- a, stamp t, signal t */
    hcq_buffer a, b, c;
    hcq_signal s, t, s2, t2;
} updated;

static updated record_updated(void) {
    updated u;
    hcq_program *add = make_add(T.dev);
    u.q = make_queue(T.dev, HCQ_COMPUTE);
    u.a = make_words(T.dev, 64);
    u.b = make_words(T.dev, 64);
    u.c = make_words(T.dev, 64);
    u.s = make_signal(T.dev, 1);
    u.t = make_signal(T.dev, 0);
    u.s2 = make_signal(T.dev2, 7);
    u.t2 = make_signal(T.dev2, 0);
    add_args args = {u.a.address, 1, 64};
    CHECK_INDEX(hcq_queue_wait(u.q, hcq_at(u.s, 1)), 0);
    CHECK_INDEX(hcq_queue_exec(u.q, add, &args, sizeof args, hcq_dim(64, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_copy(u.q, u.b, u.a, 256), 2);
    CHECK_INDEX(hcq_queue_timestamp(u.q, u.t), 3);
    CHECK_INDEX(hcq_queue_signal(u.q, hcq_at(u.t, 1)), 4);
    return u;
}

/* Values and sizes change, the objects are kept. */
static void update_values(const updated *u) {
    const hcq_dims half = {32, 1, 1};
    const uint32_t ten = 10;
    CHECK_OK(hcq_queue_update_wait(u->q, 0, NULL, 2));
    CHECK_OK(hcq_queue_update_signal(u->q, 4, NULL, 2));
    CHECK_OK(hcq_queue_update_exec(u->q, 1, &half, NULL));
    CHECK_OK(hcq_queue_update_arg(u->q, 1, 1, &ten, 4));
    CHECK_OK(hcq_queue_update_copy(u->q, 2, NULL, NULL, 128));
    CHECK_OK(hcq_signal_set(u->s, 2));
    CHECK_OK(hcq_queue_submit(u->q, T.dev, NULL));
    WAIT_OK(hcq_at(u->t, 2));
    CHECK_U64(READ32(u->a, 31), 11);
    CHECK_U64(READ32(u->a, 32), 1);
    CHECK_U64(READ32(u->b, 31), 11);
    CHECK_U64(READ32(u->b, 63), 1);
}

/* The objects change, values and sizes are kept. */
static void update_objects(const updated *u) {
    const hcq_dims block = {2, 1, 1};
    const hcq_buffer from = hcq_view(u->a, 128, 128);
    uint64_t at = u->a.address, stamp = 0;
    hcq_command cmd;
    CHECK_OK(hcq_queue_update_wait(u->q, 0, &u->s2, HCQ_KEEP));
    CHECK_OK(hcq_queue_update_signal(u->q, 3, &u->t2, HCQ_KEEP));
    CHECK_OK(hcq_queue_update_signal(u->q, 4, &u->t2, HCQ_KEEP));
    CHECK_OK(hcq_queue_update_exec(u->q, 1, NULL, &block)); /* 32 blocks of 2 */
    CHECK_OK(hcq_queue_update_copy(u->q, 2, &u->c, &from, HCQ_KEEP));
    CHECK_OK(hcq_queue_update_arg(u->q, 1, 0, &at, 8));
    CHECK_OK(hcq_queue_submit(u->q, T.dev, NULL));
    WAIT_OK(hcq_at(u->t2, 2));
    CHECK_OK(hcq_signal_timestamp(u->t2, &stamp));
    CHECK(stamp != 0);
    CHECK_U64(READ32(u->a, 63), 11);
    CHECK_U64(READ32(u->c, 31), 11);
    CHECK_U64(READ32(u->c, 32), 0);
    CHECK_OK(hcq_queue_command(u->q, 2, &cmd)); /* what is read back is current */
    CHECK(cmd.dst.address == u->c.address && cmd.src.address == from.address);
    CHECK_U64(cmd.size, 128);
    CHECK_OK(hcq_queue_command(u->q, 1, &cmd));
    CHECK(cmd.grid.x == 32 && cmd.block.x == 2);
    CHECK_U64(((const add_args *)cmd.args)->value, 10);
    at = u->b.address;                 /* another buffer in the block */
    CHECK_OK(hcq_queue_update_arg(u->q, 1, 0, &at, 8));
    CHECK_OK(hcq_queue_update_signal(u->q, 4, NULL, 3));
    CHECK_OK(hcq_queue_submit(u->q, T.dev, NULL));
    CHECK_U64(READ32(u->b, 63), 11);
    CHECK_U64(READ32(u->a, 63), 11);
}

/* Each kind of update, bound and unbound, with the parts that are kept. */
static void updates_of_each_kind(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        updated u = record_updated();
        if (bound) {
            CHECK_OK(hcq_queue_bind(u.q, T.dev));
        }
        CHECK_OK(hcq_queue_submit(u.q, T.dev, NULL));
        CHECK_U64(READ32(u.b, 63), 1);
        update_values(&u);
        update_objects(&u);
        hcq_queue_destroy(u.q);
    }
}

/* A wrong index, kind or value is refused and changes nothing. */
static void wrong_updates_change_nothing(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64);
    hcq_signal s = make_signal(T.dev, 1), gone = make_signal(T.dev, 1);
    CHECK_OK(hcq_signal_destroy(gone));
    const hcq_dims dims = {9, 9, 9};
    const uint32_t value = 99;
    add_args args = {a.address, 1, 64};
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(64, 1, 1), hcq_dim(1, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_copy(q, b, a, 256), 2);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 5)), 3);
    CHECK_RESULT(hcq_queue_update_wait(q, 3, &s, 9), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_wait(q, 4, &s, 9), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_wait(q, 0, &gone, 9), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_queue_update_signal(q, 0, &s, 9), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_signal(q, UINT32_MAX, &s, 9), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_exec(q, 2, &dims, &dims), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_copy(q, 1, &a, &b, 4), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_copy(q, 2, NULL, NULL, 257), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_copy(q, 2, &a, NULL, HCQ_KEEP), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_copy(q, 2, NULL, NULL, 0), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_arg(q, 2, 1, &value, 4), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_arg(q, 1, 3, &value, 4), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_arg(q, 1, 1, &value, 3), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_update_custom(q, 1, &value), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_variable(q, 0, HCQ_PART_GRID_X, 0, 0), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_variable(q, 1, HCQ_PART_VALUE, 0, 0), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_variable(q, 1, HCQ_PART_ARG + 3, 0, 0), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_variable(q, 1, HCQ_PART_GRID_X, 64, 0), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_variable(q, 9, HCQ_PART_GRID_X, 0, 0), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    WAIT_OK(hcq_at(s, 5));
    CHECK_RESULT(test_poll(hcq_at(s, 6)), HCQ_TIMEOUT);
    CHECK_U64(READ32(a, 63), 1);
    CHECK_U64(READ32(b, 63), 1);
    CHECK_RESULT(hcq_queue_update_signal(q, 3, &gone, HCQ_KEEP), HCQ_ERROR_CLOSED);
}

/* A held submission keeps the values it was submitted with. */
static void update_while_held(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_signal gate = make_signal(T.dev, 0);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_program *put = make_put(T.dev);
        hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64);
        put_args args = {a.address, 3, 100};
        hcq_point first, second;
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
        CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(hcq_queue_copy(q, b, hcq_view(a, 12, 4), 4), 2);
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        CHECK_OK(hcq_queue_submit(q, T.dev, &first));
        const uint32_t value = 200, index = 5;
        const hcq_buffer dst = hcq_view(b, 4, 4), src = hcq_view(a, 20, 4);
        CHECK_OK(hcq_queue_update_arg(q, 1, 1, &index, 4));
        CHECK_OK(hcq_queue_update_arg(q, 1, 2, &value, 4));
        CHECK_OK(hcq_queue_update_copy(q, 2, &dst, &src, HCQ_KEEP));
        CHECK_OK(hcq_queue_submit(q, T.dev, &second));
        CHECK_OK(hcq_signal_set(gate, 1));
        WAIT_OK(first);
        WAIT_OK(second);
        CHECK_U64(READ32(a, 3), 100);
        CHECK_U64(READ32(a, 5), 200);
        CHECK_U64(READ32(b, 0), 100);
        CHECK_U64(READ32(b, 1), 200);
        hcq_queue_destroy(q);
    }
}

/* Reset, recorded anew and destroyed while an earlier submission is held. */
static void reset_while_held(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_signal gate = make_signal(T.dev, 0);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        hcq_point done[3];
        const uint32_t count = bound ? 2 : 3; /* versions of a bound queue */
        for (uint32_t i = 0; i < count; i++) {
            CHECK_OK(hcq_queue_reset(q));
            CHECK(hcq_queue_wait(q, hcq_at(gate, 1)) >= 0);
            for (uint32_t k = 0; k <= i; k++) {
                CHECK(hcq_queue_write(q, hcq_view(a, 4 * (i + k), 4), 10 * i + k + 1, 4) >= 0);
            }
            if (bound) {
                CHECK_OK(hcq_queue_bind(q, T.dev));
            }
            CHECK_OK(hcq_queue_submit(q, T.dev, &done[i]));
        }
        hcq_queue_destroy(q);
        CHECK_OK(hcq_signal_set(gate, 1));
        CHECK_OK(hcq_wait(done, count, HCQ_ALL, BOUND));
        const uint32_t two[8] = {1, 11, 12}, three[8] = {1, 11, 21, 22, 23};
        CHECK_BYTES(a, bound ? two : three, sizeof two);
    }
}

/* Every update may come while the submission before runs. */
static void update_while_running(void **state) {
    (void)state;
    const uint32_t rounds = T.quick ? 500 : 2000;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_program *put = make_put(T.dev);
        hcq_buffer a = make_words(T.dev, rounds), b = make_words(T.dev, rounds);
        put_args args = {a.address, 0, 0};
        CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        CHECK_INDEX(hcq_queue_copy(q, b, a, 4), 1);
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        for (uint32_t i = 0; i < rounds; i++) {
            const uint32_t value = i * 3 + 1;
            const hcq_buffer dst = hcq_view(b, i * 4, 4), src = hcq_view(a, i * 4, 4);
            CHECK_OK(hcq_queue_update_arg(q, 0, 1, &i, 4));
            if (i % 3 != 1) {          /* else the old one is kept */
                CHECK_OK(hcq_queue_update_arg(q, 0, 2, &value, 4));
            }
            CHECK_OK(hcq_queue_update_copy(q, 1, &dst, &src, HCQ_KEEP));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        }
        uint32_t *got = (uint32_t *)malloc(rounds * 4);
        CHECK_OK(hcq_copyout(got, b, rounds * 4));
        for (uint32_t i = 0; i < rounds; i++) {
            CHECK_U64(got[i], (i % 3 == 1 ? i - 1 : i) * 3 + 1);
        }
        free(got);
        hcq_queue_destroy(q);
    }
}

/* Grid, arguments, value and size as variables, bound and unbound. */
static void variables_of_each_kind(void **state) {
    (void)state;
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_program *add = make_add(T.dev);
        hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64);
        hcq_buffer c = make_words(T.dev, 64);
        add_args args = {a.address, 0, 64};
        uint64_t v[5] = {8, 3, 77, 16, 0};
        CHECK_INDEX(hcq_queue_fill(q, b, 64, 0, 4), 0);
        CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(16, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(a, 252, 4), 1, 4), 2);
        CHECK_INDEX(hcq_queue_copy(q, c, a, 256), 3);
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_GRID_X, 0, 64));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG + 1, 1, 0));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG + 0, 4, 0));
        CHECK_OK(hcq_queue_variable(q, 2, HCQ_PART_VALUE, 2, 0));
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_VALUE, 2, 0));
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_SIZE, 3, 0));
        CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_SIZE, 3, 0));
        v[4] = a.address;
        CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID); /* none given */
        CHECK_RESULT(submit_variables(q, v, 4, NULL), HCQ_ERROR_INVALID);  /* one short */
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        CHECK_OK(submit_variables(q, v, 5, NULL));
        CHECK_U64(READ32(a, 7), 3);
        CHECK_U64(READ32(a, 8), 0);
        CHECK_U64(READ32(a, 63), 77);
        CHECK_U64(READ32(b, 3), 77);
        CHECK_U64(READ32(b, 4), 0);
        CHECK_U64(READ32(c, 3), 3);
        CHECK_U64(READ32(c, 4), 0);
        const uint64_t w[5] = {64, 100, 5, 64, b.address};
        CHECK_OK(submit_variables(q, w, 5, NULL));
        CHECK_U64(READ32(a, 7), 3);    /* the exec went to b */
        CHECK_U64(READ32(b, 7), 105);
        CHECK_U64(READ32(b, 63), 100);
        CHECK_U64(READ32(c, 15), 0);
        CHECK_U64(READ32(c, 7), 3);
        const uint64_t too_wide[5] = {65, 100, 5, 64, b.address};
        CHECK_RESULT(submit_variables(q, too_wide, 5, NULL), HCQ_ERROR_INVALID);
        const uint64_t too_long[5] = {64, 100, 5, 257, b.address};
        CHECK_RESULT(submit_variables(q, too_long, 5, NULL), HCQ_ERROR_INVALID);
        const uint64_t none[5] = {0, 100, 5, 64, b.address}; /* an empty grid is legal */
        CHECK_OK(submit_variables(q, none, 5, NULL));
        CHECK_U64(READ32(b, 63), 100);
        CHECK_U64(READ32(b, 7), 5);
        hcq_queue_destroy(q);
    }
}

/* Variables belong to their submission, also while it is held. */
static void variables_while_held(void **state) {
    (void)state;
    hcq_device_desc desc = test_desc();
    desc.slots = 8;
    hcq_device *keep = T.dev;
    hcq_device *device = test_open(0, &desc);
    T.dev = device;                    /* helpers use it */
    for (int bound = 0; bound < 2; bound++) {
        hcq_signal gate = make_signal(device, 0);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_program *put = make_put(device);
        hcq_buffer a = make_words(device, 16);
        put_args args = {a.address, 0, 0};
        hcq_point done = {{0}, 0};
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
        CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG + 1, 0, 0));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG + 2, 1, 0));
        if (bound) {
            CHECK_OK(hcq_queue_bind(q, device));
        }
        for (uint64_t i = 0; i < 6; i++) {
            const uint64_t v[2] = {i, i * 11 + 1};
            CHECK_OK(submit_variables(q, v, 2, &done));
        }
        CHECK_OK(hcq_signal_set(gate, 1));
        WAIT_OK(done);
        for (uint32_t i = 0; i < 6; i++) {
            CHECK_U64(READ32(a, i), i * 11 + 1);
        }
    }
    T.dev = keep;
    CHECK_OK(hcq_close(device));
}

/* Versions that held submissions occupy: refused at once, and usable again. */
static void slots_all_held(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *put = make_put(T.dev);
    hcq_buffer a = make_words(T.dev, 64);
    put_args args = {a.address, 0, 1};
    hcq_point done = {{0}, 0};
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(gate, 1)), 0);
    CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 1);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    uint32_t accepted = 0;
    hcq_result result = HCQ_OK;
    uint64_t start = hcq_sys_now_ns();
    for (uint32_t i = 0; i < 64 && result == HCQ_OK; i++) {
        CHECK_OK(hcq_queue_update_arg(q, 1, 1, &i, 4));
        hcq_point point;
        result = hcq_queue_submit(q, T.dev, &point);
        accepted += result == HCQ_OK;
        done = result == HCQ_OK ? point : done;
    }
    CHECK(hcq_sys_now_ns() - start < 5 * SECOND); /* it does not wait for the gate */
    CHECK(result == HCQ_OK || result == HCQ_ERROR_LIMIT);
    CHECK(accepted >= 2);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(done);
    for (uint32_t i = 0; i < 64; i++) {
        CHECK_U64(READ32(a, i), i < accepted ? 1 : 0); /* none lost, none invented */
    }
    CHECK_OK(hcq_queue_submit(q, T.dev, &done)); /* what was refused goes now */
    WAIT_OK(done);
}

/* A bound queue is encoded once: submitting again copies no commands. */
static void bound_queue_is_encoded_once(void **state) {
    (void)state;
    enum { COMMANDS = 50, ROUNDS = 300 };
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, COMMANDS);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        CHECK_INDEX(record_add(q, add, a, i, 1), (int32_t)i);
    }
    CHECK_OK(hcq_queue_bind(q, T.dev));
    uint32_t value = 1;
    for (int i = 0; i < 10; i++) {     /* all versions are made */
        CHECK_OK(hcq_queue_update_arg(q, 7, 1, &value, 4));
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    uint64_t copied = test_query(T.dev, HCQ_QUERY_PACKETS_COPIED);
    uint64_t patched = test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED);
    uint64_t encodes = is_mock() ? test_query(T.dev, MOCK_QUERY_ENCODES) : 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK(test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED) <= patched + 2); /* nothing changed */
    for (uint32_t i = 0; i < ROUNDS; i++) {
        value = i;
        CHECK_OK(hcq_queue_update_arg(q, 7, 1, &value, 4));
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_PACKETS_COPIED), copied);
    uint64_t now = test_query(T.dev, HCQ_QUERY_PACKETS_PATCHED);
    CHECK(now - patched <= 2 * ROUNDS + 8); /* only what changed, once per version */
    CHECK(!is_mock() || test_query(T.dev, MOCK_QUERY_ENCODES) == encodes);
    CHECK_U64(READ32(a, 6), 2 * ROUNDS + 10);
    CHECK_U64(READ32(a, 7), ROUNDS + 10 + ROUNDS * (ROUNDS - 1) / 2);
}

/* Recording more undoes the binding; binding again is legal at any time. */
static void record_after_bind(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 32);
    uint32_t want[20] = {0};
    for (uint32_t i = 0; i < 20; i++) {
        CHECK_INDEX(record_add(q, add, a, i, 1), (int32_t)i);
        if (i % 3 == 0) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        if (i % 4 == 0) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        for (uint32_t j = 0; j <= i; j++) {
            want[j] += 2;
        }
    }
    CHECK_BYTES(a, want, sizeof want);
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(record_add(q, add, a, 31, 5), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    CHECK_U64(READ32(a, 31), 5);
    CHECK_BYTES(a, want, sizeof want);
}

/* Bound to one device, submitted to another of the same backend. */
static void bound_here_submitted_there(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    CHECK_INDEX(hcq_queue_timestamp(q, s), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 1);
    hcq_buffer a = make_words(T.dev, 4);
    if (info.features & HCQ_FEATURE_MAP) {
        CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 2);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 8, 4), a, 4), 3);
    }
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint64_t i = 1; i <= 30; i++) {
        hcq_point done;
        hcq_device *device = i % 3 ? T.dev2 : T.dev;
        CHECK_OK(hcq_queue_update_signal(q, 1, NULL, i));
        CHECK_OK(hcq_queue_submit(q, device, &done));
        WAIT_OK(done);
        WAIT_OK(hcq_at(s, i));
    }
    if (info.features & HCQ_FEATURE_MAP) {
        CHECK_U64(READ32(a, 0), 30);
        CHECK_U64(READ32(a, 2), 30);
    }
    hcq_device_desc desc = test_desc();
    hcq_device *other = NULL;
    desc.cpu = NULL;
    desc.backend_desc = NULL;
    CHECK_OK(hcq_open(is_mock() ? "CPU" : "MOCK", &desc, &other));
    CHECK_OK(hcq_queue_update_signal(q, 1, NULL, 99));
    hcq_result result = hcq_queue_submit(q, other, NULL); /* another backend */
    CHECK(result == HCQ_ERROR_FOREIGN || result == HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_close(other));
}

/* Buffers of the peer device, by its memory being mapped. */
static void mapped_buffers(void **state) {
    (void)state;
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer theirs = make_words(T.dev2, 64), mine = make_words(T.dev, 64);
    if (!(info.features & HCQ_FEATURE_MAP)) {
        CHECK_INDEX(hcq_queue_copy(q, mine, theirs, 256), HCQ_ERROR_FOREIGN);
        CHECK_OK(hcq_queue_reset(q));
        CHECK_INDEX(record_add(q, add, theirs, 0, 1), HCQ_ERROR_FOREIGN);
        return;
    }
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND)); /* devices are not ordered */
    CHECK_INDEX(record_add(q, add, theirs, 5, 4), 0);
    CHECK_INDEX(hcq_queue_copy(q, mine, theirs, 256), 1);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(theirs, 0, 8), 8, 9, 4), 2);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    hcq_point done;
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_OK(hcq_free(theirs));        /* stamped with both devices' timelines */
    hcq_buffer reused = make_words(T.dev2, 64);
    WAIT_OK(done);
    CHECK_U64(READ32(mine, 5), 4);
    CHECK_U64(READ32(reused, 0), 0);
}

#define UPDATE_TESTS \
    TEST(updates_of_each_kind), TEST(wrong_updates_change_nothing), TEST(update_while_held), \
    TEST(reset_while_held), TEST(update_while_running), TEST(variables_of_each_kind), \
    TEST(variables_while_held), \
    TEST(slots_all_held), TEST(bound_queue_is_encoded_once), TEST(record_after_bind), \
    TEST(bound_here_submitted_there), TEST(mapped_buffers)
