/* replay.h - bound queues and graphs: what a submit launches, and what a patch
   changes. Part of cuda.c. */

/* What a device did since. */
typedef struct done_counts {
    uint64_t launches, graph_launches, graphs, nodes, set, records, waits, batches, calls;
} done_counts;

static done_counts counts_now(hcq_device *device) {
    done_counts c;
    c.launches = COUNT(device, LAUNCHES);
    c.graph_launches = COUNT(device, GRAPH_LAUNCHES);
    c.graphs = COUNT(device, GRAPHS);
    c.nodes = COUNT(device, NODES);
    c.set = COUNT(device, NODES_SET);
    c.records = COUNT(device, RECORDS);
    c.waits = COUNT(device, WAITS) + COUNT(device, VALUE_WAITS);
    c.batches = COUNT(device, BATCHES);
    c.calls = allocations();
    return c;
}

static done_counts counts_since(hcq_device *device, const done_counts *before) {
    done_counts c = counts_now(device);
    c.launches -= before->launches;
    c.graph_launches -= before->graph_launches;
    c.graphs -= before->graphs;
    c.nodes -= before->nodes;
    c.set -= before->set;
    c.records -= before->records;
    c.waits -= before->waits;
    c.batches -= before->batches;
    c.calls -= before->calls;
    return c;
}

static hcq_device *device_with_slots(uint32_t slots) {
    hcq_device_desc desc = test_desc();
    desc.slots = slots;
    return test_open(0, &desc);
}

#define NEEDS_GRAPHS() \
    do { \
        if (!info_of(T.dev).graphs) { \
            SKIP("bound queues are no graphs here"); \
            return; \
        } \
    } while (0)

static hcq_queue *bound_adds(hcq_device *device, hcq_buffer words, uint32_t count,
                             uint32_t *model, uint32_t model_words) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_program *add = make_add(device);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_INDEX(record_add(q, add, words, i % model_words, i + 1), i);
        model[i % model_words] += i + 1;
    }
    CHECK_OK(hcq_queue_bind(q, device));
    return q;
}

/* ---- one launch for all, one node for one change ---- */

static void replay_is_one_launch(void **state) {
    (void)state;
    enum { COMMANDS = 200, TIMES = 50, WORDS = 16 };
    uint32_t sums[WORDS] = {0};
    hcq_buffer words = make_words(T.dev, WORDS);
    hcq_point done = {{0}, 0};
    NEEDS_GRAPHS();
    hcq_queue *q = bound_adds(T.dev, words, COMMANDS, sums, WORDS);
    for (uint32_t i = 0; i < TIMES; i++) { /* every version has its graph, and so on */
        done = submit_of(q, T.dev);
    }
    WAIT_OK(done);
    settle(T.dev);
    done_counts before = counts_now(T.dev);
    uint64_t kernels = calls_of("cuLaunchKernel"), launches = calls_of("cuGraphLaunch");
    uint64_t others = set_calls() + calls_of("cuGraphAdd*") +
                      calls_of("cuGraphInstantiate*") + calls_of("cuGraphUpload");
    for (uint32_t i = 0; i < TIMES; i++) {
        done = submit_of(q, T.dev);
    }
    WAIT_OK(done);
    done_counts c = counts_since(T.dev, &before);
    CHECK_U64(c.graph_launches, TIMES);
    CHECK_U64(c.batches, TIMES);
    CHECK(c.launches == 0 && c.graphs == 0 && c.nodes == 0 && c.set == 0);
    CHECK_U64(c.calls, 0);             /* allocations of hcq */
    if (mocked) {
        CHECK_U64(calls_of("cuLaunchKernel"), kernels);
        CHECK_U64(calls_of("cuGraphLaunch") - launches, TIMES);
        CHECK_U64(set_calls() + calls_of("cuGraphAdd*") +
                  calls_of("cuGraphInstantiate*") + calls_of("cuGraphUpload"), others);
    }
    for (uint32_t i = 0; i < WORDS; i++) {
        sums[i] *= 2 * TIMES;
    }
    CHECK_BYTES(words, sums, sizeof sums);
    hcq_queue_destroy(q);
}

/* A copy that is updated to what it was is no patch. */
static void the_same_copy_is_no_patch(void **state) {
    (void)state;
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_buffer from[2] = {make_words(device, 64), make_words(device, 64)};
    hcq_buffer to = make_words(device, 128);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_copy(q, to, from[0], 128), 0);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(to, 256, 128), from[1], 128), 1);
    CHECK_OK(hcq_queue_bind(q, device));
    submit_and_wait(q, device);
    for (int k = 0; k < 6; k++) {
        done_counts before = counts_now(device);
        CHECK_OK(hcq_queue_update_copy(q, 0, NULL, &from[k / 2 % 2], 128));
        submit_and_wait(q, device);
        CHECK_U64(counts_since(device, &before).set, k == 2 || k == 4);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

/* With one version a change is one node; the same value again is none. */
static void one_patch_is_one_node(void **state) {
    (void)state;
    enum { COMMANDS = 1000, WORDS = 16, ROUNDS = 30 };
    static uint32_t value[COMMANDS];
    uint32_t sums[WORDS] = {0}, model[WORDS] = {0};
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_buffer words = make_words(device, WORDS);
    hcq_queue *q = bound_adds(device, words, COMMANDS, sums, WORDS);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        value[i] = i + 1;
    }
    submit_and_wait(q, device);
    memcpy(model, sums, sizeof model);
    for (uint32_t k = 0; k < ROUNDS; k++) {
        uint32_t at = k * 379 % COMMANDS, before_value = value[at];
        done_counts before = counts_now(device);
        uint64_t sets = set_calls();
        value[at] = k % 3 == 2 ? before_value : 5000 + k;
        CHECK_OK(hcq_queue_update_arg(q, at, 1, &value[at], 4));
        sums[at % WORDS] += value[at] - before_value;
        submit_and_wait(q, device);
        done_counts c = counts_since(device, &before);
        CHECK_U64(c.set, k % 3 == 2 ? 0 : 1);
        CHECK(!mocked || set_calls() - sets == c.set);
        CHECK(c.graph_launches == 1 && c.graphs == 0 && c.nodes == 0 && c.launches == 0);
        CHECK_U64(c.calls, 0);
        for (uint32_t i = 0; i < WORDS; i++) {
            model[i] += sums[i];
        }
    }
    CHECK_BYTES(words, model, sizeof model);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

/* Two changes of one command before a submit are one node, too; and a change that is
   taken back is none. */
static void patches_before_a_submit(void **state) {
    (void)state;
    uint32_t sums[4] = {0};
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_buffer words = make_words(device, 4);
    hcq_queue *q = bound_adds(device, words, 20, sums, 4);
    submit_and_wait(q, device);
    for (uint32_t k = 0; k < 3; k++) {
        done_counts before = counts_now(device);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t value = k == 2 && i == 3 ? 106 : 100 * i + k + 6;
            uint64_t address = words.address + (k == 2 ? 8 : i % 2 * 4);
            CHECK_OK(hcq_queue_update_arg(q, 6, 1, &value, 4));
            CHECK_OK(hcq_queue_update_arg(q, 6, 0, &address, 8));
        }
        submit_and_wait(q, device);
        CHECK_U64(counts_since(device, &before).set, 1);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

/* ---- what runs keeps what it was given ---- */

/* Submissions of one bound queue that run at once keep to their own values. */
static void running_versions_are_left_alone(void **state) {
    (void)state;
    enum { TIMES = 60, SLOTS = 6 };
    for (uint32_t slots = 1; slots <= SLOTS; slots += SLOTS - 1) {
        uint32_t want[TIMES];
        hcq_device *device = device_with_slots(slots);
        hcq_buffer dst = make_words(device, TIMES), copies = make_words(device, TIMES);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_program *put = make_put(device), *last = make_own(device, "ct_last", last_list);
        hcq_point done = {{0}, 0};
        put_args args = {dst.address, 0, 0};
        CHECK_INDEX(record_last(q, last, 400000), 0);
        CHECK_INDEX(hcq_queue_exec(q, put, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(record_last(q, last, 100000), 2);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(copies, 0, 4), hcq_view(dst, 0, 4), 4), 3);
        CHECK_OK(hcq_queue_bind(q, device));
        for (uint32_t k = 0; k < TIMES; k++) {
            uint32_t index = k * 37 % TIMES, value = 1000 + k;
            hcq_buffer to = hcq_view(copies, index * 4, 4), from = hcq_view(dst, index * 4, 4);
            want[index] = value;
            CHECK_OK(hcq_queue_update_arg(q, 1, 1, &index, 4));
            CHECK_OK(hcq_queue_update_arg(q, 1, 2, &value, 4));
            CHECK_OK(hcq_queue_update_copy(q, 3, &to, &from, HCQ_KEEP));
            done = submit_of(q, device);
        }
        WAIT_OK(done);
        CHECK_BYTES(dst, want, sizeof want);
        CHECK_BYTES(copies, want, sizeof want);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_close(device));
    }
}

/* The first of two versions spins while the second one is patched and submitted. */
static void patched_behind_a_running_one(void **state) {
    (void)state;
    hcq_buffer dst = make_words(T.dev, 4);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    gates g;
    gates_open(&g, T.dev);
    put_args args = {dst.address, 0, 1};
    CHECK_INDEX(record_spin(q, &g, 0), 0);
    CHECK_INDEX(hcq_queue_exec(q, make_put(T.dev), &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(dst, 8, 8), 8, 3, 8), 2);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t k = 0; k < 6; k++) {
        uint32_t index = 1, value = 50 + k, index0 = 0, first = 70 + k;
        gate_shut(&g, 0);
        CHECK_OK(hcq_queue_update_arg(q, 1, 1, &index0, 4));
        CHECK_OK(hcq_queue_update_arg(q, 1, 2, &first, 4));
        hcq_point one = submit_of(q, T.dev);
        gate_until_begun(&g, 0);
        CHECK_OK(hcq_queue_update_arg(q, 1, 1, &index, 4));
        CHECK_OK(hcq_queue_update_arg(q, 1, 2, &value, 4));
        hcq_point two = submit_of(q, T.dev);
        CHECK_RESULT(test_poll(one), HCQ_TIMEOUT);
        gate_let(&g, 0);
        WAIT_OK(two);
        CHECK_U64(READ32(dst, 0), first);
        CHECK_U64(READ32(dst, 1), value);
    }
    hcq_queue_destroy(q);
}

/* ---- where there are no graphs ---- */

/* Runs of one command go to the stream; waits and host commands cut. */
static void single_commands_are_launched(void **state) {
    (void)state;
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_buffer words = make_words(device, 4);
    hcq_program *add = make_add(device);
    hcq_signal s = make_signal(device, 1);
    hcq_queue *one = make_queue(device, HCQ_COMPUTE), *cut = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(record_add(one, add, words, 0, 1), 0);
    CHECK_INDEX(record_add(cut, add, words, 1, 1), 0);
    CHECK_INDEX(hcq_queue_wait(cut, hcq_at(s, 1)), 1);
    CHECK_INDEX(record_add(cut, add, words, 1, 1), 2);
    CHECK_INDEX(record_add(cut, add, words, 2, 1), 3);
    CHECK_INDEX(record_add(cut, add, words, 3, 1), 4);
    CHECK_INDEX(hcq_queue_host(cut, host_ok, NULL), 5);
    CHECK_INDEX(record_add(cut, add, words, 3, 1), 6);
    CHECK_OK(hcq_queue_bind(one, device));
    CHECK_OK(hcq_queue_bind(cut, device));
    done_counts before = counts_now(device);
    submit_and_wait(one, device);
    done_counts c = counts_since(device, &before);
    CHECK(c.launches == 1 && c.graph_launches == 0);
    before = counts_now(device);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t value = i + 1;
        CHECK_OK(hcq_queue_update_arg(cut, 0, 1, &value, 4));
        CHECK_OK(hcq_queue_update_arg(cut, 4, 1, &value, 4));
        submit_and_wait(cut, device);
    }
    c = counts_since(device, &before);
    CHECK(c.launches == 2 * 5 && c.graph_launches == 5 && c.set == 4);
    const uint32_t want[4] = {1, 15 + 5, 5, 15 + 5};
    CHECK_BYTES(words, want, sizeof want);
    hcq_queue_destroy(one);
    hcq_queue_destroy(cut);
    CHECK_OK(hcq_close(device));
}

/* Asked for, there are none at all, with the same results. */
static void no_graphs(void **state) {
    (void)state;
    uint32_t sums[4] = {0};
    hcq_device *device = device_with(HCQ_CUDA_NO_GRAPHS, 1, 1);
    hcq_buffer words = make_words(device, 4);
    hcq_queue *q = bound_adds(device, words, 40, sums, 4);
    CHECK_U64(info_of(device).graphs, 0);
    for (uint32_t i = 0; i < 3; i++) {
        submit_and_wait(q, device);
    }
    for (uint32_t i = 0; i < 4; i++) {
        sums[i] *= 3;
    }
    CHECK_BYTES(words, sums, sizeof sums);
    CHECK_U64(COUNT(device, GRAPHS), 0);
    CHECK_U64(COUNT(device, GRAPH_LAUNCHES), 0);
    CHECK_U64(COUNT(device, LAUNCHES), 120);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

/* ---- overlap ---- */

/* Commands without an edge to the one before run beside it; a barrier orders all. */
static void overlapping_commands(void **state) {
    (void)state;
    hcq_buffer words = make_words(T.dev, 8);
    hcq_program *step = make_own(T.dev, "ct_step", step_list);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    uint32_t model[8] = {0};
    CHECK_INDEX(hcq_queue_fill(q, words, 32, 1, 4), 0);
    for (uint32_t i = 0; i < 4; i++) { /* beside each other */
        CHECK_INDEX(record_step(q, step, words, i, words, 7, 2, i), i + 1);
        CHECK_OK(hcq_queue_command_flags(q, i + 1, i ? HCQ_OVERLAP : 0));
    }
    CHECK_INDEX(hcq_queue_memory_barrier(q), 5);
    CHECK_INDEX(record_step(q, step, words, 4, words, 0, 3, 0), 6);
    CHECK_INDEX(record_step(q, step, words, 5, words, 1, 3, 0), 7);
    CHECK_OK(hcq_queue_command_flags(q, 7, HCQ_OVERLAP));
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(words, 24, 4), hcq_view(words, 16, 4), 4), 8);
    for (uint32_t i = 0; i < 8; i++) {
        model[i] = i < 4 ? 3 + i : 1;
    }
    model[4] = 3 + model[0];
    model[5] = 3 + model[1];
    model[6] = model[4];
    for (uint32_t bound = 0; bound < 2; bound++) {
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        for (uint32_t k = 0; k < 30; k++) {
            submit_and_wait(q, T.dev);
            CHECK_BYTES(words, model, sizeof model);
        }
    }
    hcq_queue_destroy(q);
}

/* ---- against the CPU ---- */

enum { TWIN_WORDS = 64, TWIN_COMMANDS = 24, TWIN_BUFFERS = 3 };

/* The same recording on CUDA and on the CPU, with the same changes. */
typedef struct twin {
    hcq_device *dev[2];
    hcq_queue *q[2];
    hcq_buffer buffers[2][TWIN_BUFFERS];
    uint32_t kinds[TWIN_COMMANDS];
    uint64_t random;
} twin;

static uint32_t twin_pick(twin *t, uint32_t below) {
    return (uint32_t)(test_random(&t->random) % below);
}

enum { TWIN_ADD, TWIN_MIX, TWIN_COPY, TWIN_FILL, TWIN_WRITE, TWIN_BARRIER, TWIN_KINDS };

static void twin_record(twin *t, uint32_t side, uint32_t i, const uint32_t *numbers) {
    hcq_queue *q = t->q[side];
    const hcq_buffer *b = t->buffers[side];
    uint32_t dst = numbers[0] % TWIN_BUFFERS, src = (dst + 1) % TWIN_BUFFERS;
    add_args add = {b[dst].address, numbers[1], numbers[2] % TWIN_WORDS};
    mix_args mix = {b[dst].address, b[src].address, TWIN_WORDS, numbers[1]};
    int32_t r = 0;
    switch (t->kinds[i]) {
    case TWIN_ADD:
        r = hcq_queue_exec(q, make_add(t->dev[side]), &add, sizeof add,
                           hcq_dim(numbers[3] % 20, 1, 1), hcq_dim(1 + numbers[2] % 4, 1, 1));
        break;
    case TWIN_MIX:
        r = hcq_queue_exec(q, make_mix(t->dev[side]), &mix, sizeof mix,
                           hcq_dim(1 + numbers[3] % 4, 1, 1), hcq_dim(16, 1, 1));
        break;
    case TWIN_COPY:
        r = hcq_queue_copy(q, hcq_view(b[dst], numbers[1] % 100, 0), b[src],
                           1 + numbers[2] % 150);
        break;
    case TWIN_FILL:
        r = hcq_queue_fill(q, hcq_view(b[dst], numbers[1] % 30 * 8, 0), 8 + numbers[2] % 2 * 8,
                           (uint64_t)numbers[3] << 20 | 7, 1u << numbers[0] % 4);
        break;
    case TWIN_WRITE:
        r = hcq_queue_write(q, hcq_view(b[dst], numbers[1] % 30 * 8, 0), numbers[3],
                            4 + numbers[2] % 2 * 4);
        break;
    default:
        r = hcq_queue_memory_barrier(q);
    }
    CHECK_INDEX(r, i);
}

static void twin_open(twin *t, hcq_device *device, hcq_device *cpu, uint64_t seed) {
    uint32_t words[TWIN_WORDS];
    memset(t, 0, sizeof *t);
    t->random = seed;
    t->dev[0] = device;
    t->dev[1] = cpu;
    for (uint32_t k = 0; k < TWIN_WORDS; k++) {
        words[k] = (uint32_t)test_random(&t->random);
    }
    for (uint32_t side = 0; side < 2; side++) {
        t->q[side] = make_queue(t->dev[side], HCQ_COMPUTE);
        for (uint32_t i = 0; i < TWIN_BUFFERS; i++) {
            t->buffers[side][i] = make_words(t->dev[side], TWIN_WORDS);
            CHECK_OK(hcq_copyin(t->buffers[side][i], words, sizeof words));
        }
    }
    for (uint32_t i = 0; i < TWIN_COMMANDS; i++) {
        uint32_t numbers[4];
        t->kinds[i] = twin_pick(t, TWIN_KINDS);
        for (uint32_t k = 0; k < 4; k++) {
            numbers[k] = (uint32_t)test_random(&t->random);
        }
        twin_record(t, 0, i, numbers);
        twin_record(t, 1, i, numbers);
    }
}

/* Changes command i in the same way on both sides. */
static void twin_update(twin *t, uint32_t i) {
    uint32_t dst = twin_pick(t, TWIN_BUFFERS), src = (dst + 1) % TWIN_BUFFERS;
    uint32_t a = twin_pick(t, 1000), what = twin_pick(t, 3);
    hcq_dims grid = hcq_dim(a % 20, 1, 1), block = hcq_dim(1 + a % 16, 1, 1);
    for (uint32_t side = 0; side < 2; side++) {
        hcq_queue *q = t->q[side];
        const hcq_buffer *b = t->buffers[side];
        if (t->kinds[i] == TWIN_ADD && what == 0) {
            CHECK_OK(hcq_queue_update_exec(q, i, &grid, a & 1 ? &block : NULL));
        } else if (t->kinds[i] == TWIN_ADD || (t->kinds[i] == TWIN_MIX && what == 1)) {
            CHECK_OK(hcq_queue_update_arg(q, i, t->kinds[i] == TWIN_ADD ? 1 : 3, &a, 4));
        } else if (t->kinds[i] == TWIN_MIX) {
            CHECK_OK(hcq_queue_update_arg(q, i, 0, &b[dst].address, 8));
            CHECK_OK(hcq_queue_update_arg(q, i, 1, &b[src].address, 8));
        } else if (t->kinds[i] == TWIN_COPY) {
            hcq_buffer to = hcq_view(b[dst], a % 90, 0);
            CHECK_OK(hcq_queue_update_copy(q, i, &to, &b[src], 1 + a % 160));
        }
    }
}

static void twin_compare(const char *file, int line, twin *t) {
    for (uint32_t i = 0; i < TWIN_BUFFERS; i++) {
        unsigned char want[TWIN_WORDS * 4];
        CHECK_OK(hcq_copyout(want, t->buffers[1][i], sizeof want));
        test_bytes(file, line, t->buffers[0][i], want, sizeof want);
    }
}

static void twin_play(hcq_device *device, hcq_device *cpu, uint64_t seed) {
    hcq_point done[2] = {{{0}, 0}, {{0}, 0}};
    twin t;
    twin_open(&t, device, cpu, seed);
    for (uint32_t round = 0; round < 24; round++) {
        if (round == 3) {
            CHECK_OK(hcq_queue_bind(t.q[0], device));
        }
        for (uint32_t i = twin_pick(&t, 4); i > 0; i--) {
            twin_update(&t, twin_pick(&t, TWIN_COMMANDS));
        }
        for (uint32_t side = 0; side < 2; side++) {
            done[side] = submit_of(t.q[side], t.dev[side]);
        }
        if (round % 5 == 0 || round == 23) {
            WAIT_OK(done[0]);
            WAIT_OK(done[1]);
            twin_compare(__FILE__, __LINE__, &t);
        }
    }
    for (uint32_t side = 0; side < 2; side++) {
        hcq_queue_destroy(t.q[side]);
        for (uint32_t i = 0; i < TWIN_BUFFERS; i++) {
            CHECK_OK(hcq_free(t.buffers[side][i]));
        }
    }
}

static void replays_agree_with_the_cpu(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu(), *few = device_with_slots(1), *many = device_with_slots(5);
    hcq_device *const devices[3] = {T.dev, few, many};
    for (uint32_t k = 0; k < (T.quick ? 9u : 45u); k++) {
        twin_play(devices[k % 3], cpu, T.seed * 1000 + k);
    }
    CHECK_OK(hcq_close(few));
    CHECK_OK(hcq_close(many));
    CHECK_OK(hcq_close(cpu));
}

/* Where a memset's node takes another value only, not another size. */
static void replays_on_a_strict_driver(void **state) {
    (void)state;
    NEEDS_MOCK();
    mock_cuda_desc desc = mock_wanted();
    desc.flags |= MOCK_CUDA_STRICT_MEMSETS;
    M.setup(&desc);
    hcq_device *cpu = open_cpu(), *device = device_with_slots(2);
    for (uint32_t k = 0; k < 8; k++) {
        twin_play(device, cpu, T.seed * 555 + k);
    }
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_buffer words = make_words(device, 64);
    CHECK_INDEX(hcq_queue_fill(q, words, 256, 0, 4), 0);
    CHECK_INDEX(hcq_queue_fill(q, words, 256, 7, 4), 1);
    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_SIZE, 0, 0));
    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_VALUE, 1, 0));
    CHECK_OK(hcq_queue_bind(q, device));
    for (uint32_t k = 1; k <= 64; k += 3) {
        uint32_t model[64];
        uint64_t values[2] = {k * 4, 100 + k};
        WAIT_OK(submit_values(q, device, values, 2, NULL));
        for (uint32_t i = 0; i < 64; i++) {
            model[i] = i < k ? 100 + k : 0;
        }
        CHECK_BYTES(words, model, sizeof model);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
    CHECK_OK(hcq_close(cpu));
}

/* A copy between device memory becomes one to pinned, imported, another device's
   memory, which no node may do, and back. */
static void copies_change_their_kind_of_memory(void **state) {
    (void)state;
    enum { N = 64, KINDS = 4 };
    uint32_t *pages = (uint32_t *)calloc(N, 4);
    hcq_device *other = device_with(0, 1, 1);
    hcq_buffer ends[KINDS];
    uint32_t kinds = 2;
    ends[0] = make_words(T.dev, N);
    CHECK_OK(hcq_alloc(T.dev, N * 4, HCQ_HOST_VISIBLE | HCQ_ZEROED, &ends[1]));
    if (has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        CHECK_OK(hcq_import(T.dev, pages, N * 4, &ends[kinds++]));
    }
    if (has_feature(T.dev, HCQ_FEATURE_MAP)) {
        ends[kinds++] = make_words(other, N);
    }
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer first = make_words(T.dev, N), src = make_words(T.dev, N);
    CHECK_INDEX(hcq_queue_copy(q, first, src, N * 4), 0);
    CHECK_INDEX(hcq_queue_fill(q, src, N * 4, 0, 4), 1);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t k = 0; k < 4 * kinds * kinds; k++) {
        hcq_buffer to = ends[k % kinds], from = ends[k / kinds % kinds];
        uint32_t model[N];
        if (k % kinds == k / kinds % kinds) {
            continue;
        }
        for (uint32_t i = 0; i < N; i++) {
            model[i] = k * 1000 + i;
        }
        CHECK_OK(hcq_copyin(from, model, sizeof model));
        settle(other);                 /* no point orders the two */
        CHECK_OK(hcq_queue_update_copy(q, 0, &to, &from, HCQ_KEEP));
        submit_and_wait(q, T.dev);
        CHECK_BYTES(to, model, sizeof model);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(other));
    if (kinds > 2 && ends[2].host == pages) {
        CHECK_OK(hcq_free(ends[2]));
    }
    free(pages);
}

/* ---- variables ---- */

static void variables_patch_nodes(void **state) {
    (void)state;
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_buffer words = make_words(device, 32), src = make_words(device, 32);
    hcq_program *add = make_add(device);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    uint32_t ones[32], model[32];
    for (uint32_t i = 0; i < 32; i++) {
        ones[i] = 0x01010101u * i;
    }
    CHECK_OK(hcq_copyin(src, ones, sizeof ones));
    add_args args = {words.address, 1, 0xffffffffu};
    CHECK_INDEX(hcq_queue_fill(q, words, 128, 0, 4), 0);
    CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(32, 1, 1), hcq_dim(1, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_copy(q, words, src, 64), 2);
    CHECK_INDEX(hcq_queue_write(q, hcq_view(words, 120, 8), 0, 8), 3);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_GRID_X, 1, 0));
    CHECK_OK(hcq_queue_variable(q, 2, HCQ_PART_SIZE, 2, 0));
    CHECK_OK(hcq_queue_variable(q, 3, HCQ_PART_VALUE, 3, 0));
    CHECK_OK(hcq_queue_bind(q, device));
    for (uint32_t k = 0; k < 40; k++) {
        uint64_t values[4] = {k * 3, 1 + k * 7 % 32, 1 + k * 4 % 64, 0x100000001u * k};
        done_counts before = counts_now(device);
        WAIT_OK(submit_values(q, device, values, 4, NULL));
        CHECK(counts_since(device, &before).set <= 4 && COUNT(device, GRAPHS) <= 2);
        for (uint32_t i = 0; i < 32; i++) {
            model[i] = k * 3 + (i < values[1] ? 1 : 0);
        }
        memcpy(model, ones, values[2]);
        model[30] = model[31] = k;
        CHECK_BYTES(words, model, sizeof model);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(device));
}

/* ---- hcq_graph ---- */

/* A diamond and a tail, on one device: one launch, nothing between. */
static void a_graph_is_one_launch(void **state) {
    (void)state;
    enum { N = 16, TIMES = 20 };
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_buffer a = make_words(device, N), b = make_words(device, N), c = make_words(device, N);
    hcq_queue *g = make_queue(device, HCQ_GRAPH);
    hcq_program *add = make_add(device), *mix = make_mix(device);
    add_args first = {a.address, 3, N};
    mix_args left = {b.address, a.address, N, 1}, right = {c.address, a.address, N, 2};
    mix_args join = {b.address, c.address, N, 5};
    uint32_t model[3] = {0, 0, 0};
    hcq_dims grid = hcq_dim(1, 1, 1), block = hcq_dim(N, 1, 1);
    CHECK_INDEX(hcq_queue_exec(g, add, &first, sizeof first, grid, block), 0);
    CHECK_INDEX(hcq_queue_exec(g, mix, &left, sizeof left, grid, block), 1);
    CHECK_INDEX(hcq_queue_exec(g, mix, &right, sizeof right, grid, block), 2);
    CHECK_INDEX(hcq_queue_exec(g, mix, &join, sizeof join, grid, block), 3);
    CHECK_INDEX(hcq_queue_copy(g, a, b, N * 4), 4);
    CHECK_OK(hcq_queue_bind(g, device));
    submit_and_wait(g, device);
    done_counts before = counts_now(device);
    for (uint32_t k = 1; k < TIMES; k++) {
        submit_and_wait(g, device);
    }
    done_counts c1 = counts_since(device, &before);
    CHECK_U64(c1.graph_launches, TIMES - 1);
    CHECK(c1.launches == 0 && c1.set == 0 && c1.graphs == 0 && c1.waits == 0);
    CHECK(c1.records <= (info_of(device).memops ? 0 : TIMES - 1) ||
          !info_of(device).value_waits);
    CHECK_U64(c1.batches, TIMES - 1);
    for (uint32_t k = 0; k < TIMES; k++) {
        model[0] += 3;
        model[1] = model[1] * 31 + model[0] + 1;
        model[2] = model[2] * 31 + model[0] + 2;
        model[1] = model[1] * 31 + model[2] + 5;
        model[0] = model[1];
    }
    CHECK_U64(READ32(a, 3), model[0]);
    CHECK_U64(READ32(c, 3), model[2]);
    hcq_queue_destroy(g);
    CHECK_OK(hcq_close(device));
}

/* Another input is another value in the nodes that name it, and nothing else. */
static void graph_inputs_patch_nodes(void **state) {
    (void)state;
    enum { N = 16, INPUTS = 5, OTHERS = 30 };
    hcq_buffer inputs[INPUTS];
    uint32_t model[INPUTS] = {0};
    NEEDS_GRAPHS();
    hcq_device *device = device_with_slots(1);
    hcq_queue *g = make_queue(device, HCQ_GRAPH);
    hcq_buffer in = hcq_input(g, 0, NULL, N * 4), scratch, sums = make_words(device, OTHERS);
    hcq_program *add = make_add(device);
    CHECK_INDEX(hcq_queue_empty(g, NULL, N * 4, 0, &scratch), 0);
    add_args args = {in.address, 4, N};
    CHECK_INDEX(hcq_queue_exec(g, add, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(N, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_copy(g, scratch, in, N * 4), 2);
    for (uint32_t i = 0; i < OTHERS; i++) {
        CHECK_INDEX(record_add(g, add, sums, i, 1), 3 + i);
    }
    CHECK_OK(hcq_queue_variable(g, 1, HCQ_PART_ARG + 1, 0, 0));
    CHECK_OK(hcq_queue_bind(g, device));
    for (uint32_t i = 0; i < INPUTS; i++) {
        inputs[i] = make_words(device, N);
    }
    for (uint32_t k = 0; k < 20; k++) {
        uint32_t which = k % 4 == 3 ? (k - 1) % INPUTS : k % INPUTS;
        uint64_t value = k % 4 == 3 ? 10 + k - 1 : 10 + k;
        done_counts before = counts_now(device);
        WAIT_OK(submit_values(g, device, &value, 1, &inputs[which]));
        done_counts c = counts_since(device, &before);
        model[which] += (uint32_t)value;
        CHECK(k == 0 || (c.graphs == 0 && c.nodes == 0));
        CHECK(k == 0 || c.set <= (k % 4 == 3 ? 0u : 2u));
        CHECK_U64(c.graph_launches, 1);
    }
    for (uint32_t i = 0; i < INPUTS; i++) {
        CHECK_U64(READ32(inputs[i], 7), model[i]);
    }
    CHECK_U64(READ32(sums, OTHERS - 1), 20);
    hcq_queue_destroy(g);
    CHECK_OK(hcq_close(device));
}

/* ---- around the edges ---- */

/* Recorded on, bound again, destroyed and reset while it runs; many commands. */
static void bound_queues_come_and_go(void **state) {
    (void)state;
    hcq_buffer words = make_words(T.dev, 16);
    hcq_program *add = make_add(T.dev);
    uint32_t sums[16] = {0};
    gates g;
    gates_open(&g, T.dev);
    for (uint32_t k = 0; k < 3; k++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        gate_shut(&g, 0);
        CHECK_INDEX(record_spin(q, &g, 0), 0);
        CHECK_INDEX(record_add(q, add, words, 1, 1), 1);
        CHECK_OK(hcq_queue_bind(q, T.dev));
        hcq_point done = submit_of(q, T.dev);
        gate_until_begun(&g, 0);
        sums[1]++;
        if (k == 0) {
            hcq_queue_destroy(q);
        } else if (k == 1) {
            CHECK_OK(hcq_queue_reset(q));
            CHECK_INDEX(record_add(q, add, words, 2, 5), 0);
            CHECK_INDEX(record_add(q, add, words, 3, 5), 1);
        } else {
            CHECK_INDEX(record_add(q, add, words, 2, 5), 2);
        }
        gate_let(&g, 0);
        WAIT_OK(done);
        if (k) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
            submit_and_wait(q, T.dev);
            sums[1] += k == 2;
            sums[2] += 5;
            sums[3] += k == 1 ? 5 : 0;
            hcq_queue_destroy(q);
        }
    }
    hcq_queue *large = make_queue(T.dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < 5000; i++) {
        CHECK_INDEX(record_add(large, add, words, i % 16, i), i);
        sums[i % 16] += 2 * i;
    }
    CHECK_OK(hcq_queue_bind(large, T.dev));
    submit_and_wait(large, T.dev);
    submit_and_wait(large, T.dev);
    CHECK_BYTES(words, sums, sizeof sums);
    hcq_queue_destroy(large);
}

/* Bound to one device and submitted to another, by turns. */
static void bound_for_two_devices(void **state) {
    (void)state;
    hcq_device *other = device_with(0, 1, 1);
    hcq_buffer words;
    if (!has_feature(T.dev, HCQ_FEATURE_MAP)) {
        CHECK_OK(hcq_close(other));
        SKIP("devices see only their own memory");
        return;
    }
    CHECK_OK(hcq_alloc(T.dev, 64, HCQ_ZEROED, &words));
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_fill(q, words, 8, 1, 4), 0);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(words, 16, 8), words, 8), 1);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t i = 0; i < 6; i++) {
        submit_and_wait(q, i & 1 ? other : T.dev);
        CHECK_U64(READ32(words, 5), 1);
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_close(other));
}

#define REPLAY_TESTS                                                               \
    TEST(replay_is_one_launch), TEST(one_patch_is_one_node), \
    TEST(the_same_copy_is_no_patch), TEST(patches_before_a_submit), \
    TEST(running_versions_are_left_alone), TEST(patched_behind_a_running_one),     \
    TEST(single_commands_are_launched), TEST(no_graphs), TEST(overlapping_commands), \
    TEST(replays_agree_with_the_cpu), TEST_ALONE(replays_on_a_strict_driver),      \
    TEST(copies_change_their_kind_of_memory), TEST(variables_patch_nodes),         \
    TEST(a_graph_is_one_launch), TEST(graph_inputs_patch_nodes),                   \
    TEST(bound_queues_come_and_go), TEST(bound_for_two_devices),
