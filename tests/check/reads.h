/* reads.h - kernels of the CPU: one that writes what it has to read, and what is known while
   one runs. Part of races.c. */

typedef struct scribble_args { uint64_t from, to; uint32_t at, value; } scribble_args;

static void scribble(const void *args, const hcq_block *block) {
    const scribble_args *a = HCQ_ARGS(scribble_args, args);
    (void)block;
    HCQ_PTR(uint8_t, a->from)[a->at] = (uint8_t)a->value;
}

static hcq_program *make_scribble(uint32_t second) {
    return make_kernel(P.dev, HCQ_CPU_PROGRAM("scribble", scribble, HCQ_ARG_IN, second, HCQ_ARG_U32,
                                              HCQ_ARG_U32));
}

/* What is told of a kernel that writes byte 9 of its argument `from`: 1: a race, 2: a possible
   one. */
typedef struct scribbled {
    const char *what;
    uint32_t flags, value;             /* of the device, of the buffers */
    int stated, same, told;            /* bytes 8 to 15 of 64; `to` is the same buffer */
} scribbled;

static int scribble_run(const scribbled *s, uint32_t memory) {
    program_open(HCQ_DEVICE_CHECK | s->flags);
    hcq_buffer from = make_buffer(P.dev, 64, HCQ_ZEROED | memory);
    hcq_buffer to = make_buffer(P.dev, 64, HCQ_ZEROED | memory), view = AT(from, 8, 8);
    scribble_args args = {view.address, s->same ? from.address : to.address, 1, s->value};
    hcq_program *program = make_scribble(HCQ_ARG_OUT);
    SET(P.first, from);                /* bytes of 7 and 0 */
    CHECK_INDEX(hcq_queue_exec(P.first, program, &args, sizeof args, dims_one, dims_one), 1);
    if (s->stated) {
        CHECK_OK(hcq_queue_access(P.first, 1, view, s->stated == 2 ? HCQ_ARG_INOUT : HCQ_ARG_IN));
    }
    if (s->stated == 3) {
        hcq_queue *host = make_queue(P.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_host(host, host_nothing, NULL), 0);
        (void)submit_on(0, host, NULL);
    }
    for (int i = 0; i < 2; i++) {      /* told once */
        CHECK_OK(hcq_queue_submit(P.first, P.dev, NULL));
        CHECK_OK(hcq_device_synchronize(P.dev, BOUND));
    }
    const uint64_t races = test_query(P.dev, HCQ_QUERY_RACES);
    int told = races == 1 && log_has("command 1 (scribble)") && log_has("byte 9 of a buffer of 64") &&
               log_has("0x00 before it ran and 0x05 now") && log_has("argument 0") ? 1
               : races != 0 ? 3 : T.log.possible != 0 ? 2 : 0;
    return told;
}

TEST(kernels_that_write_what_they_read) {
    const uint32_t reads = HCQ_DEVICE_CHECK_READS;
    const scribbled all[] = {
        {"stated", reads, 5, 1, 0, 1},
        {"nothing stated", reads, 5, 0, 0, 1},
        {"what was there", reads, 0, 0, 0, 0},
        {"stated to be written", reads, 5, 2, 0, 0},
        {"the same buffer is its output", reads, 5, 0, 1, 0},
        {"not asked", 0, 5, 1, 0, 0},
        {"nobody knows what the host does", reads, 5, 3, 0, 2},
    };
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int hidden = scribble_run(&all[i], 0), shown = scribble_run(&all[i], HCQ_HOST_VISIBLE);
        int wanted = all[i].told && !all[i].stated ? 2 : all[i].told; /* the host may, too */
        if (hidden != all[i].told || shown != wanted) {
            fprintf(stderr, "%s: told %d, for the host, too: %d\n", all[i].what, hidden, shown);
        }
        CHECK(hidden == all[i].told && shown == wanted);
    }
}

/* What was stated of one argument counts also where another one of the command may read there. */
TEST(an_argument_beside_another) {
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    program_open(0);
    scribble_args args = {P.x.address, P.x.address + 64, 0, 0};
    CHECK_INDEX(hcq_queue_exec(P.first, make_scribble(HCQ_ARG_IN), &args, sizeof args, dims_one,
                               dims_one), 0);
    CHECK_OK(hcq_queue_access(P.first, 0, AT(P.x, 64, 64), HCQ_ARG_IN));
    CHECK(hcq_queue_fill(P.second, AT(P.x, 64, 64), 64, 7, 4) >= 0);
    submit_both(0);
    CHECK_U64(races_of(P.dev), 1);
}

/* While a kernel runs another lane writes what it does not touch. */
static uint32_t beside_state;

static void beside_while(uint32_t state) {
    while (__atomic_load_n(&beside_state, __ATOMIC_SEQ_CST) == state) {
        test_sleep_ms(1);
    }
}

static void beside_kernel(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
    __atomic_store_n(&beside_state, 1, __ATOMIC_SEQ_CST);
    beside_while(1);
}

/* Records the kernel, which runs until beside_end. */
static void record_beside(hcq_queue *q, hcq_buffer buffer) {
    hcq_program *beside = make_kernel(P.dev, HCQ_CPU_PROGRAM("beside", beside_kernel, HCQ_ARG_IN));
    beside_state = 0;
    CHECK_INDEX(hcq_queue_exec(q, beside, &buffer.address, 8, dims_one, dims_one), 0);
}

static void beside_end(void) {
    beside_while(0);
    __atomic_store_n(&beside_state, 2, __ATOMIC_SEQ_CST);
}

TEST(others_beside_a_kernel) {
    SKIP_IF(!is_cpu() || T.variant->seeded, "a kernel of the CPU that waits for the host");
    /* 1: a later one of its lane was there last; 2: it is given late; 3: it is the host */
    for (int later = 0; later < 4; later++) {
        program_open(HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_READS);
        hcq_buffer x = make_buffer(P.dev, BYTES, HCQ_ZEROED);
        hcq_queue *last = labelled(HCQ_COMPUTE, "last");
        record_beside(P.first, x);
        CHECK(hcq_queue_fill(P.second, AT(x, 128, 64), 64, 7, 1) >= 0);
        SET(last, x);
        hcq_point one, two;
        if (later >= 2) {
            one = two = submit_on(0, P.first, NULL);
            beside_while(0);
            if (later == 2) {
                two = submit_on(1, P.second, NULL);
            } else {
                CHECK_OK(hcq_check_host((uint8_t *)x.host + 128, 1, HCQ_ARG_OUT));
                *((uint8_t *)x.host + 128) = 7;
            }
        } else {
            hcq_queue *gate = labelled(HCQ_COMPUTE, "gate");
            CHECK(hcq_queue_wait(gate, hcq_at(P.signal, 1)) >= 0);
            (void)submit_on(0, gate, NULL);
            (void)submit_on(1, gate, NULL);
            one = submit_on(0, P.first, NULL);
            two = submit_on(1, P.second, NULL);
            if (later == 1) {
                (void)submit_on(0, last, &two);
            }
            CHECK_OK(hcq_signal_set(P.signal, 1));
        }
        DONE_IF(later < 3, two);
        beside_end();
        DONE(one);
        settle();
        CHECK_U64(races_of(P.dev), 0);
        /* The two meet, maybe; and one may be at it, if it did not run before the kernel did. */
        CHECK(T.log.possible == 1 || (later == 1 && T.log.possible == 2));
    }
}

/* What the host had seen when it set a signal is not forgotten: who is held since before that
   knows it from there, and only from there. */
TEST(what_a_set_says_is_remembered) {
    SKIP_IF(!is_cpu() || T.variant->seeded, "a kernel of the CPU that waits for the host");
    CHECK_OK(hcq_close(T.dev));        /* what the host has seen is forgotten, too */
    T.dev = NULL;
    for (uint32_t sets = 0; sets < 2; sets++) {
        program_open(0);
        hcq_queue *runs = labelled(HCQ_COMPUTE, "runs");
        hcq_point both[2] = {{{0}, 0}, hcq_at(P.signal, 1)};
        record_beside(runs, P.y);
        SET(P.first, P.x);
        CHECK_INDEX(hcq_queue_host(P.second, host_nothing, NULL), 0); /* held till that has run */
        CHECK_OK(hcq_queue_access(P.second, 0, P.x, HCQ_ARG_IN));
        both[0] = submit_on(0, runs, NULL);
        CHECK_OK(SUBMIT(P.dev, P.second, NULL, .flags = HCQ_UNORDERED, .waits = both,
                        .wait_count = 1 + sets));
        beside_while(0);
        hcq_point one = submit_on(1, P.first, NULL);
        DONE(one);
        CHECK_OK(hcq_signal_set(P.signal, 1));
        many_others(1);
        beside_end();
        CHECK_U64(races_of(P.dev), 1 - sets);
    }
}

/* A value that was read says which raise it is; a wait for it only that it, or a later one, is. */
TEST(a_value_that_is_read) {
    SKIP_IF(!is_cpu() || T.variant->seeded, "a kernel of the CPU that waits for the host");
    for (int reads = 0; reads < 2; reads++) {
        uint64_t value = 0;
        program_open(0);
        const hcq_point at = hcq_at(P.signal, 5);
        record_beside(P.first, P.y);
        CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 7)) >= 0);
        SET(P.second, P.x);
        CHECK(hcq_queue_signal(P.second, at) >= 0);
        hcq_point one = submit_on(0, P.first, NULL);
        beside_while(0);
        (void)submit_on(1, P.second, NULL);
        while (reads && value < 5) {
            CHECK_OK(hcq_signal_value(P.signal, &value));
        }
        DONE_IF(!reads, at);
        CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
        CHECK_U64(test_query(P.dev, HCQ_QUERY_RACES), !reads);
        beside_end();
        DONE(one);
    }
}
