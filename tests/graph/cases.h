/* cases.h - launches in one exact situation each: which of two overlap, and two
   threads that launch. What random graphs (random.h) see is not told here. Part of
   graph.c. */

/* ---- cells ---- */

enum { CELLS = 10, CELL_WORDS = 32 };

/* Buffers, and what their words have to be. Even ones are the first device's,
   odd ones the second's, unless the first owns all. */
static struct {
    hcq_buffer buffers[CELLS];
    uint32_t model[CELLS][CELL_WORDS];
    hcq_program *mix[2];
} C;

static void cells_open(int first_owns_all) {
    memset(&C, 0, sizeof C);
    C.mix[0] = make_mix(T.dev);
    C.mix[1] = make_mix(dev2());
    for (uint32_t i = 0; i < CELLS; i++) {
        hcq_device *device = first_owns_all || i % 2 == 0 ? T.dev : dev2();
        CHECK_OK(hcq_alloc(device, CELL_WORDS * 4, HCQ_HOST_VISIBLE, &C.buffers[i]));
        for (uint32_t k = 0; k < CELL_WORDS; k++) {
            C.model[i][k] = 100 * i + k;
        }
        memcpy(C.buffers[i].host, C.model[i], sizeof C.model[i]);
    }
}

static void check_cells(const char *what) {
    for (uint32_t i = 0; i < CELLS; i++) {
        if (memcmp(C.buffers[i].host, C.model[i], sizeof C.model[i]) != 0) {
            fprintf(stderr, "%s: cell %u is wrong\n", what, i);
            test_dump();
            fail();
        }
    }
}

/* The first word of a cell. */
static hcq_buffer cell(uint32_t i) {
    return hcq_view(C.buffers[i], 0, 4);
}

/* A call that changes a word by another one: order matters. */
static void record_change(hcq_queue *q, int32_t index, uint32_t device, uint32_t id,
                          hcq_buffer dst, hcq_buffer src) {
    const mix_args args = {dst.address, src.address, 1, 1000 * (id + 1)};
    CHECK_INDEX(hcq_queue_exec(q, C.mix[device], &args, sizeof args, dims_one, dims_one), index);
    CHECK_OK(hcq_queue_access(q, index, dst, HCQ_ARG_INOUT));
    CHECK_OK(hcq_queue_access(q, index, src, HCQ_ARG_IN));
}

static void model_change(uint32_t *dst, uint32_t src, uint32_t id) {
    *dst = *dst * 31u + src + 1000 * (id + 1);
}

static int devices_are_mapped(void) {
    return (test_info(T.dev).features & HCQ_FEATURE_MAP) != 0;
}

/* ---- launches that overlap ---- */

/* Call 0 runs on one device, call 1 on another; each reads a word and changes
   another one. Operands: cells 0 to 3, or inputs 0 and 1. In each launch the
   inputs are other cells, at a word. Before one call stands a host command, which holds
   it in the first launch, behind the watched one a host command that counts, until the
   last launch has come there: it must not, or it must. */
enum { IN0 = 100, IN1, LAUNCHES = 3, INPUT_WORDS = 16 };

typedef struct overlap_case {
    const char *name;
    uint32_t operands[2][2];           /* of each call: destination, source */
    struct { uint32_t cell, word; } inputs[LAUNCHES][2];
    uint32_t launches, held, watched;  /* calls */
    uint32_t flags;
    int overtakes;
} overlap_case;

#define TO_5 {{{4, 0}}, {{5, 0}}}      /* input 0 is another cell, or the same again ... */
#define BACK_TO_4 {{{4, 0}}, {{5, 0}}, {{4, 0}}}
#define SWAPPED {{{4, 0}, {5, 0}}, {{5, 0}, {4, 0}}}
#define SWAPPED_LATE {{{4, 0}, {5, 0}}, {{6, 0}, {7, 0}}, {{5, 0}, {4, 0}}}
#define WORD(first, second) {{{4, first}}, {{4, second}}} /* ... or moves within its cell */

static const overlap_case overlap_cases[] = {
    {"write after read", {{0, 1}, {2, 0}}, WORD(0, 0), 2, 1, 0, HCQ_OVERLAP, 0},
    {"write after write", {{0, 1}, {0, 2}}, WORD(0, 0), 2, 1, 0, HCQ_OVERLAP, 0},
    {"read after write", {{2, 0}, {0, 1}}, WORD(0, 0), 2, 1, 0, HCQ_OVERLAP, 0},
    {"nothing in common", {{0, 1}, {2, 3}}, WORD(0, 0), 2, 1, 0, HCQ_OVERLAP, 1},
    {"nothing in common, but not asked for", {{0, 1}, {2, 3}}, WORD(0, 0), 2, 1, 0, 0, 0},
    {"both only read", {{0, 3}, {2, 3}}, WORD(0, 0), 2, 1, 0, HCQ_OVERLAP, 1},
    {"the same call", {{0, 1}, {2, 3}}, WORD(0, 0), 2, 0, 0, HCQ_OVERLAP, 0},
    {"the same input", {{IN0, 1}, {2, IN0}}, WORD(0, 0), 2, 1, 0, HCQ_OVERLAP, 0},
    {"another input", {{IN0, 1}, {2, IN0}}, TO_5, 2, 1, 0, HCQ_OVERLAP, 1},
    {"its last word", {{IN0, 1}, {2, IN0}}, WORD(0, 15), 2, 1, 0, HCQ_OVERLAP, 0},
    {"its first word", {{IN0, 1}, {2, IN0}}, WORD(15, 0), 2, 1, 0, HCQ_OVERLAP, 0},
    {"the word behind it", {{IN0, 1}, {2, IN0}}, WORD(0, 16), 2, 1, 0, HCQ_OVERLAP, 1},
    {"the word before it", {{IN0, 1}, {2, IN0}}, WORD(16, 0), 2, 1, 0, HCQ_OVERLAP, 1},
    {"swapped, write after read", {{IN0, 1}, {2, IN1}}, SWAPPED, 2, 1, 0, HCQ_OVERLAP, 0},
    {"swapped, read after write", {{IN0, 1}, {2, IN1}}, SWAPPED, 2, 0, 1, HCQ_OVERLAP, 0},
    {"swapped, write after write", {{IN0, 1}, {IN1, 2}}, SWAPPED, 2, 1, 0, HCQ_OVERLAP, 0},
    {"swapped, both only read", {{0, IN0}, {2, IN1}}, SWAPPED, 2, 1, 0, HCQ_OVERLAP, 1},
    {"swapped after another launch, write after read", {{IN0, 1}, {2, IN1}}, SWAPPED_LATE,
     3, 1, 0, HCQ_OVERLAP, 0},
    {"swapped after another launch, read after write", {{IN0, 1}, {2, IN1}}, SWAPPED_LATE,
     3, 0, 1, HCQ_OVERLAP, 0},
    {"the same after another launch", {{IN0, 1}, {2, IN0}}, BACK_TO_4, 3, 1, 0, HCQ_OVERLAP, 0},
    {"three of their own", {{IN0, 1}, {2, IN1}},
     {{{4, 0}, {5, 0}}, {{6, 0}, {7, 0}}, {{8, 0}, {9, 0}}}, 3, 1, 0, HCQ_OVERLAP, 1},
};

static uint32_t inputs_of(const overlap_case *c) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t operand = c->operands[i / 2][i % 2];
        count = operand >= IN0 && operand - IN0 >= count ? operand - IN0 + 1 : count;
    }
    return count;
}

static struct { uint32_t held, go, passed; } P; /* atomic */

static hcq_result hold_first(void *user) {
    (void)user;
    uint32_t earlier = __atomic_fetch_add(&P.held, 1, __ATOMIC_ACQ_REL);
    while (earlier == 0 && !__atomic_load_n(&P.go, __ATOMIC_ACQUIRE)) {
        mock_sleep(20000);
    }
    return HCQ_OK;
}

static hcq_result count_passed(void *user) {
    (void)user;
    __atomic_add_fetch(&P.passed, 1, __ATOMIC_RELEASE);
    return HCQ_OK;
}

/* A host command on a device, beside everything else. */
static void record_host(hcq_queue *q, int32_t index, hcq_device *device, hcq_host_fn fn) {
    CHECK_INDEX(hcq_queue_host(q, fn, NULL), index);
    CHECK_OK(hcq_queue_access(q, index, make_words(device, 1), HCQ_ARG_IN));
}

static void case_record(hcq_queue *q, const overlap_case *c) {
    hcq_buffer inputs[2], used[2], watched = {0, 0, NULL, NULL, 0};
    memset(&P, 0, sizeof P);
    record_host(q, 0, c->held ? dev2() : T.dev, hold_first);
    for (uint32_t n = 0; n < inputs_of(c); n++) {
        inputs[n] = hcq_graph_input(q, n, NULL, INPUT_WORDS * 4);
        CHECK_U64(inputs[n].size, INPUT_WORDS * 4);
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t operand = c->operands[i][k];
            used[k] = operand >= IN0 ? inputs[operand - IN0] : cell(operand);
        }
        record_change(q, (int32_t)(1 + i), i, i, used[0], used[1]);
        watched = i == c->watched ? used[0] : watched;
    }
    record_host(q, 3, c->watched ? dev2() : T.dev, count_passed);
    CHECK_OK(hcq_graph_edge(q, 0, (int32_t)(1 + c->held)));
    CHECK_OK(hcq_queue_access(q, 3, watched, HCQ_ARG_IN)); /* an edge would order launches, too */
}

static uint32_t *case_word(const overlap_case *c, uint32_t number, uint32_t operand) {
    if (operand < IN0) {
        return &C.model[operand][0];
    }
    return &C.model[c->inputs[number][operand - IN0].cell][c->inputs[number][operand - IN0].word];
}

static void case_launch(hcq_queue *q, const overlap_case *c, uint32_t number, hcq_point *point) {
    hcq_value inputs[2];
    for (uint32_t n = 0; n < 2; n++) {
        inputs[n] = hcq_value_buffer(hcq_view(C.buffers[c->inputs[number][n].cell],
                                              c->inputs[number][n].word * 4, INPUT_WORDS * 4));
    }
    CHECK_OK(SUBMIT(T.dev, q, point, .values = inputs, .value_count = inputs_of(c),
                    .flags = c->flags));
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t *operands = c->operands[i];
        model_change(case_word(c, number, operands[0]), *case_word(c, number, operands[1]), i);
    }
}

static void run_overlap_case(const overlap_case *c) {
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_point points[LAUNCHES];
    cells_open(1);
    case_record(q, c);
    for (uint32_t i = 0; i < c->launches; i++) {
        case_launch(q, c, i, &points[i]);
    }
    const uint64_t until = hcq_now_ns() + (c->overtakes ? BOUND : 10000000);
    int overtook = 0;
    while (!overtook && hcq_now_ns() < until) {
        mock_sleep(20000);
        overtook = __atomic_load_n(&P.passed, __ATOMIC_ACQUIRE) == c->launches;
    }
    __atomic_store_n(&P.go, 1, __ATOMIC_RELEASE);
    CHECK_OK(hcq_wait(points, c->launches, HCQ_ALL, BOUND));
    if (overtook != c->overtakes) {
        fprintf(stderr, "%s: the later launch %s\n", c->name,
                overtook ? "overtakes" : "does not overlap");
        fail();
    }
    check_cells(c->name);
    hcq_queue_destroy(q);
}

TEST(overlapping_launches_keep_what_matters) {
    hcq_device_desc desc = test_desc();
    SKIP_IF(!devices_are_mapped(), "kernels of two devices share no memory");
    desc.versions = 4;
    CHECK_OK(hcq_close(T.dev));
    T.dev = test_open(0, &desc);
    T.dev2 = test_open(1, &desc);
    for (size_t i = 0; i < sizeof overlap_cases / sizeof overlap_cases[0]; i++) {
        run_overlap_case(&overlap_cases[i]);
    }
}

/* Updates have moved what a launch in flight has yet to write out of the plan; the next one
   reads it in a call that the one before had at other memory. */
TEST(launches_follow_an_older_plan) {
    SKIP_IF(!devices_are_mapped(), "kernels of two devices share no memory");
    hcq_buffer from = make_words(T.dev, 1), to[2] = {make_words(T.dev, 1), make_words(T.dev, 1)};
    hcq_buffer other = make_words(dev2(), 1), copied = make_words(dev2(), 1);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_point points[2];
    const uint32_t seven = 7;
    memset(&P, 0, sizeof P);
    CHECK_OK(hcq_copyin(from, &seven, 4));
    record_host(q, 0, T.dev, hold_first);
    CHECK_INDEX(hcq_queue_copy(q, to[0], from, 4), 1);
    CHECK_INDEX(hcq_queue_copy(q, copied, other, 4), 2);
    CHECK_OK(hcq_graph_edge(q, 0, 1));
    CHECK_OK(SUBMIT(T.dev, q, &points[0], .flags = HCQ_OVERLAP));
    CHECK_OK(hcq_queue_update_copy(q, 1, &to[1], NULL, HCQ_KEEP));
    CHECK_OK(hcq_queue_update_copy(q, 2, NULL, &to[0], HCQ_KEEP));
    CHECK_OK(SUBMIT(T.dev, q, &points[1], .flags = HCQ_OVERLAP));
    mock_sleep(10000000);
    __atomic_store_n(&P.go, 1, __ATOMIC_RELEASE);
    CHECK_OK(hcq_wait(points, 2, HCQ_ALL, BOUND));
    CHECK_U64(READ32(copied, 0), 7);
}

/* ---- two threads, two graphs, the same buffers ---- */

enum { TURNS = 40 };

typedef struct told { uint32_t count, who[2 * TURNS]; } told; /* of a device, in order */

typedef struct teller { told *list; uint32_t who; } teller;

static hcq_result tell(void *user) {
    const teller *t = (const teller *)user;
    t->list->who[t->list->count++ % (2 * TURNS)] = t->who;
    return HCQ_OK;
}

typedef struct launcher {
    hcq_device *home;
    hcq_queue *queue;
    teller tellers[2];
    hcq_result result;
} launcher;

static void *launcher_run(void *user) {
    launcher *l = (launcher *)user;
    for (int i = 0; i < TURNS && l->result == HCQ_OK; i++) {
        hcq_point point;
        l->result = hcq_queue_submit(l->queue, l->home, &point);
        if (l->result == HCQ_OK && (i % 4 == 3 || i == TURNS - 1)) {
            l->result = hcq_wait(&point, 1, HCQ_ALL, BOUND);
        }
    }
    return NULL;
}

/* Both devices tell who is there, then both change the same cells. */
static void record_turn(launcher *l, uint32_t who, told *lists) {
    l->queue = make_queue(l->home, HCQ_GRAPH);
    for (uint32_t d = 0; d < 2; d++) {
        l->tellers[d] = (teller){&lists[d], who};
        CHECK_INDEX(hcq_queue_host(l->queue, tell, &l->tellers[d]), d);
        CHECK_OK(hcq_queue_access(l->queue, (int32_t)d, C.buffers[8 + d], HCQ_ARG_INOUT));
    }
    for (int32_t i = 0; i < 4; i++) {
        uint32_t d = ((uint32_t)i + who) % 2;
        record_change(l->queue, 2 + i, d, (uint32_t)i, cell(d), cell(d + 2 * (1 + who)));
        CHECK(i == 0 || hcq_graph_edge(l->queue, 1 + i, 2 + i) == HCQ_OK);
    }
}

/* Launches of one graph never run in the middle of the other's: both devices
   see them in one order, and the bytes are those of that order. */
TEST(two_threads_share_buffers) {
    launcher launchers[2] = {{.home = T.dev}, {.home = dev2()}};
    told lists[2] = {{0}, {0}};
    cells_open(0);
    for (uint32_t i = 0; i < 2; i++) {
        record_turn(&launchers[i], i, lists);
    }
    run_threads(launcher_run, launchers, sizeof launchers[0], 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(launchers[i].result);
        CHECK_U64(lists[i].count, 2 * TURNS);
    }
    CHECK(memcmp(&lists[0], &lists[1], sizeof lists[0]) == 0);
    for (uint32_t i = 0; i < 2 * TURNS; i++) {
        uint32_t who = lists[0].who[i];
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t d = (k + who) % 2;
            model_change(&C.model[d][0], C.model[d + 2 * (1 + who)][0], k);
        }
    }
    check_cells("two threads");
}

/* What was said of a command's memory is said of the graph's own that it has here: the host
   command may overlap what came before, the fill of what it writes may not. */
TEST(appended_memory_is_stated) {
    hcq_queue *part = make_queue(T.dev, HCQ_GRAPH), *g = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer e;
    CHECK_INDEX(hcq_graph_alloc(part, T.dev, 64, 0, &e), 0);
    CHECK_INDEX(hcq_queue_host(part, count_passed, NULL), 1);
    CHECK_OK(hcq_queue_access(part, 1, e, HCQ_ARG_OUT));
    CHECK_INDEX(hcq_queue_fill(part, e, 64, 1, 4), 2);
    CHECK_INDEX(hcq_queue_append(g, part), 0);
    CHECK_INDEX(hcq_queue_append(g, part), 3);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    const hcqi_call *calls = hcqi_plan_of(g)->calls;
    CHECK(calls[4].overlap && !calls[5].overlap);
}
