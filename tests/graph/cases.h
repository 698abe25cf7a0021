/* cases.h - graphs in one exact situation each. Part of graph.c. */
#ifndef HCQ_TEST_GRAPH_CASES_H
#define HCQ_TEST_GRAPH_CASES_H

/* ---- devices ---- */

/* What differs between the devices of the world; all zero is the default. */
typedef struct setting {
    uint32_t flags, cpu_flags, compute_lanes, copy_lanes;
    uint64_t counter_limit, spin_ns;
} setting;

static const setting settings[DEVICES] = {
    {0, 0, 0, 0, 0, 0},
    {0, 0, 0, 0, 16, 0},
    {0, HCQ_CPU_ONE_ENGINE, 0, 0, 0, HCQ_KEEP},
    {HCQ_DEVICE_NO_COPY_LANE, 0, 0, 0, 0, HCQ_KEEP},
    {HCQ_DEVICE_NO_NATIVE_WAIT, 0, 0, 0, 0, HCQ_KEEP},
    {0, 0, 2, 2, 5, HCQ_KEEP},
};

static hcq_device *open_setting(uint32_t index) {
    hcq_device_desc desc = test_desc();
    const setting *s = &settings[index];
    desc.flags |= s->flags;
    desc.compute_lanes = s->compute_lanes;
    desc.copy_lanes = s->copy_lanes;
    desc.counter_limit = s->counter_limit ? s->counter_limit : desc.counter_limit;
    desc.spin_ns = s->spin_ns;
    desc.slots = index % 3 ? 4 : 0;
    test_cpu_desc.flags |= s->cpu_flags;
    return test_open(index % MOCK_ORDINALS, &desc);
}

static hcq_program *make_mixing(hcq_device *device, uint32_t shape) {
    static const uint32_t first[SHAPES] = {HCQ_ARG_INOUT, HCQ_ARG_OUT, HCQ_ARG_INOUT};
    static const uint32_t second[SHAPES] = {HCQ_ARG_IN, HCQ_ARG_IN, HCQ_ARG_INOUT};
    hcq_program_desc desc;
    hcq_program *program = NULL;
    memset(&desc, 0, sizeof desc);
    desc.label = "mixing";
    desc.cpu = k_mixing;
    desc.args[0] = first[shape];
    desc.args[1] = second[shape];
    desc.args[2] = HCQ_ARG_IN;
    for (uint32_t i = 0; i < 6; i++) {
        desc.args[3 + i] = HCQ_ARG_U32;
    }
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

static void open_memory(uint32_t device) {
    for (uint32_t k = 0; k < PER_DEVICE; k++) {
        uint32_t m = device * PER_DEVICE + k;
        uint32_t size = k < OWN ? 32768u << k : (uint32_t)SPARE_BYTES;
        CHECK_OK(hcq_alloc(W.devices[device], size, HCQ_HOST_VISIBLE, &W.memory[m]));
        W.model[m] = (unsigned char *)malloc(size);
        for (uint32_t i = 0; i < size; i++) {
            W.model[m][i] = (unsigned char)(i * 7u + i / 256u + m);
        }
        memcpy(W.memory[m].host, W.model[m], size);
    }
}

/* Memory is shared within a backend, if it can do that at all. */
static void find_sight(void) {
    hcq_device_info a, b;
    for (uint32_t d = 0; d < DEVICES; d++) {
        for (uint32_t e = 0; e < DEVICES; e++) {
            CHECK_OK(hcq_device_info_get(W.devices[d], &a));
            CHECK_OK(hcq_device_info_get(W.devices[e], &b));
            W.sees[d][e] = d == e || ((a.features & HCQ_FEATURE_MAP) != 0 &&
                                      strcmp(a.backend, b.backend) == 0);
        }
    }
}

/* Every other device is one of `others`, if that is a variant. */
static void world_open(const char *others) {
    const test_variant *variant = T.variant;
    memset(&W, 0, sizeof W);
    memset(&T.memory, 0, sizeof T.memory);
    log_clear();
    signal(SIGALRM, test_alarm);
    alarm(T.quick ? 120 : 600);
    T.running = "random graphs";
    W.device_count = DEVICES;
    for (uint32_t d = 0; d < DEVICES; d++) {
        T.variant = others && d % 2 ? test_find_variant(others) : variant;
        W.devices[d] = open_setting(d);
        for (uint32_t s = 0; s < SHAPES; s++) {
            W.programs[d][s] = make_mixing(W.devices[d], s);
        }
        open_memory(d);
    }
    T.variant = variant;
    for (uint32_t e = 0; e < EMPTIES; e++) {
        W.empties[e] = (unsigned char *)calloc(1, SPARE_BYTES);
    }
    find_sight();
}

static void world_close(void) {
    for (uint32_t d = 0; d < DEVICES; d++) {
        CHECK_OK(hcq_close(W.devices[d]));
    }
    for (uint32_t m = 0; m < MEMORIES; m++) {
        free(W.model[m]);
    }
    for (uint32_t e = 0; e < EMPTIES; e++) {
        free(W.empties[e]);
    }
    CHECK_U64(T.memory.blocks, 0);
    alarm(0);
}

/* ---- kernels that hold on until somebody else has run ---- */

enum { PACED = 4, CELLS = 10, CELL_WORDS = 1024 };

/* Steered by the host before a launch, written by kernels; atomic. */
typedef struct pace {
    uint32_t runs[PACED];              /* of each paced call */
    uint32_t armed;                    /* everything is submitted */
    uint32_t open;                     /* ends every hold */
    uint32_t seen;                     /* the watched call ran while the other one held */
    uint32_t hold_call, hold_run;      /* run 0: nobody holds */
    uint32_t watch_call, watch_run;
    uint32_t let;                      /* the holder may go on */
    uint64_t limit_ns;
} pace;

#define P (*(pace *)(void *)SEEN->own)

typedef struct paced_args {
    uint64_t dst, src, pace;
    uint32_t id, add;
} paced_args;

static uint32_t peek(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void poke(uint32_t *word) {
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

/* Until the watched call ran, or the host opens, or it is clear that they do
   not come: counted from when the host has submitted all. */
static void hold(pace *p) {
    uint64_t start = 0;
    while (!peek(&p->open)) {
        if (peek(&p->runs[p->watch_call]) >= p->watch_run) {
            poke(&p->seen);
            return;
        }
        if (start == 0 && peek(&p->armed)) {
            start = hcq_sys_now_ns();
        }
        if (start != 0 && hcq_sys_now_ns() - start > p->limit_ns) {
            return;
        }
        mock_sleep(20000);
    }
}

/* dst[0] = dst[0] * 31 + src[0] + add */
static void k_paced(const void *block_args, const hcq_block *b) {
    const paced_args *k = HCQ_ARGS(paced_args, block_args);
    pace *p = HCQ_PTR(pace, k->pace);
    uint32_t run = __atomic_add_fetch(&p->runs[k->id], 1, __ATOMIC_ACQ_REL);
    (void)b;
    if (p->hold_call == k->id && p->hold_run == run) {
        hold(p);
    }
    uint32_t *dst = HCQ_PTR(uint32_t, k->dst);
    *dst = *dst * 31u + *HCQ_PTR(const uint32_t, k->src) + k->add;
}
TEST_SHADER(k_paced, paced)

static void pace_wait(void) {          /* in the place of a kernel on Vulkan */
    hold(&P);
    poke(&P.let);
}

static void pace_reset(void) {
    memset(&P, 0, sizeof P);
    P.limit_ns = 15000000;
    test_gate(GATE_PACE, pace_wait);
}

static hcq_program *make_paced(hcq_device *device) {
    hcq_program_desc desc = {"paced", k_paced,
                             {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U64, HCQ_ARG_U32, HCQ_ARG_U32},
                             NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

/* Buffers, and what their words have to be. Even ones are the first device's,
   odd ones the second's, unless the first owns all. */
static struct {
    hcq_buffer buffers[CELLS];
    uint32_t model[CELLS][CELL_WORDS];
    hcq_program *on[2];
} C;

static void cells_open(int first_owns_all) {
    memset(&C, 0, sizeof C);
    pace_reset();
    C.on[0] = make_paced(T.dev);
    C.on[1] = make_paced(T.dev2);
    for (uint32_t i = 0; i < CELLS; i++) {
        hcq_device *device = first_owns_all || i % 2 == 0 ? T.dev : T.dev2;
        CHECK_OK(hcq_alloc(device, CELL_WORDS * 4, HCQ_HOST_VISIBLE, &C.buffers[i]));
        for (uint32_t k = 0; k < CELL_WORDS; k++) {
            C.model[i][k] = 100 * i + k;
        }
        memcpy(C.buffers[i].host, C.model[i], sizeof C.model[i]);
    }
}

static void cells_close(void) {
    for (uint32_t i = 0; i < CELLS; i++) {
        CHECK_OK(hcq_free(C.buffers[i]));
    }
    hcq_program_destroy(C.on[0]);
    hcq_program_destroy(C.on[1]);
}

static void check_cells(const char *what) {
    for (uint32_t i = 0; i < CELLS; i++) {
        const uint32_t *got = (const uint32_t *)C.buffers[i].host;
        for (uint32_t k = 0; k < CELL_WORDS; k++) {
            if (got[k] != C.model[i][k]) {
                fprintf(stderr, "%s: cell %u word %u is %u, not %u\n", what, i, k, got[k],
                        C.model[i][k]);
                test_dump();
                fail();
            }
        }
    }
}

/* The first word of a cell. */
static hcq_buffer cell(uint32_t i) {
    return hcq_view(C.buffers[i], 0, 4);
}

static uint32_t add_of(uint32_t id) {
    return 1000 * (id + 1);
}

static void record_paced(hcq_queue *q, uint32_t index, uint32_t device, uint32_t id,
                         hcq_buffer dst, hcq_buffer src) {
    const uint64_t at = test_see(device ? T.dev2 : T.dev, &P);
    paced_args args = {dst.address, src.address, at, id, add_of(id)};
    CHECK_INDEX(hcq_queue_exec(q, C.on[device], &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)),
                index);
    CHECK_OK(hcq_queue_access(q, index, dst, HCQ_ARG_INOUT));
    CHECK_OK(hcq_queue_access(q, index, src, HCQ_ARG_IN));
}

static void model_word(uint32_t *dst, uint32_t src, uint32_t id) {
    *dst = *dst * 31u + src + add_of(id);
}

static void model_paced(uint32_t id, uint32_t dst, uint32_t src) {
    model_word(&C.model[dst][0], C.model[src][0], id);
}

static hcq_result launch_with(hcq_queue *q, const hcq_buffer *inputs, uint32_t count,
                              uint32_t flags, hcq_point *point) {
    hcq_submission s;
    memset(&s, 0, sizeof s);
    s.queues = &q;
    s.queue_count = 1;
    s.inputs = inputs;
    s.input_count = count;
    s.flags = flags;
    return hcq_submit(T.dev, &s, 1, point);
}

/* The devices again, with other descriptions. */
static void reopen_with(uint32_t slots, uint64_t counter_limit) {
    for (uint32_t d = 0; d < 2; d++) {
        hcq_device **device = d ? &T.dev2 : &T.dev;
        hcq_device_desc desc = test_desc();
        CHECK_OK(hcq_close(*device));
        *device = NULL;
        desc.slots = slots;
        desc.counter_limit = counter_limit ? counter_limit : desc.counter_limit;
        *device = test_open(d, &desc);
    }
}

static int devices_are_mapped(void) {
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    return (info.features & HCQ_FEATURE_MAP) != 0;
}

#define NEEDS_MAP \
    if (!devices_are_mapped()) { \
        SKIP("kernels of two devices share no memory"); \
    }

/* ---- launches that overlap ---- */

/* Call 0 runs on one device, call 1 on another; each reads a word and changes
   another one. Operands: cells 0 to 3, or inputs 0 and 1. In each launch the
   inputs are other cells, at a word. One call holds in the first launch until
   a call of the last launch has run: it must not, or it must. */
enum { IN0 = 100, IN1, LAUNCHES = 3, INPUT_WORDS = 16 };

typedef struct overlap_case {
    const char *name;
    uint32_t operands[2][2];           /* of each call: destination, source */
    struct { uint32_t cell, word; } inputs[LAUNCHES][2];
    uint32_t launches, holds, watched; /* calls */
    uint32_t flags;                    /* of all, but that the second of three has none ... */
    int overtakes, full;               /* ... where this is set */
} overlap_case;

static const overlap_case overlap_cases[] = {
    {"write after read", {{0, 1}, {2, 0}}, {{{0, 0}}}, 2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"write after write", {{0, 1}, {0, 2}}, {{{0, 0}}}, 2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"read after write", {{2, 0}, {0, 1}}, {{{0, 0}}}, 2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"nothing in common", {{0, 1}, {2, 3}}, {{{0, 0}}}, 2, 1, 0, HCQ_OVERLAP, 1, 0},
    {"nothing in common, but not asked for", {{0, 1}, {2, 3}}, {{{0, 0}}}, 2, 1, 0, 0, 0, 0},
    {"both only read", {{0, 3}, {2, 3}}, {{{0, 0}}}, 2, 1, 0, HCQ_OVERLAP, 1, 0},
    {"the same call", {{0, 1}, {2, 3}}, {{{0, 0}}}, 2, 0, 0, HCQ_OVERLAP, 0, 0},
    {"the same input", {{IN0, 1}, {2, IN0}}, {{{4, 0}}, {{4, 0}}}, 2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"another input", {{IN0, 1}, {2, IN0}}, {{{4, 0}}, {{5, 0}}}, 2, 1, 0, HCQ_OVERLAP, 1, 0},
    {"its last word", {{IN0, 1}, {2, IN0}}, {{{4, 0}}, {{4, 15}}}, 2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"its first word", {{IN0, 1}, {2, IN0}}, {{{4, 15}}, {{4, 0}}}, 2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"the word behind it", {{IN0, 1}, {2, IN0}}, {{{4, 0}}, {{4, 16}}}, 2, 1, 0, HCQ_OVERLAP, 1, 0},
    {"the word before it", {{IN0, 1}, {2, IN0}}, {{{4, 16}}, {{4, 0}}}, 2, 1, 0, HCQ_OVERLAP, 1, 0},
    {"swapped, write after read", {{IN0, 1}, {2, IN1}}, {{{4, 0}, {5, 0}}, {{5, 0}, {4, 0}}},
     2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"swapped, read after write", {{IN0, 1}, {2, IN1}}, {{{4, 0}, {5, 0}}, {{5, 0}, {4, 0}}},
     2, 0, 1, HCQ_OVERLAP, 0, 0},
    {"swapped, write after write", {{IN0, 1}, {IN1, 2}}, {{{4, 0}, {5, 0}}, {{5, 0}, {4, 0}}},
     2, 1, 0, HCQ_OVERLAP, 0, 0},
    {"swapped, both only read", {{0, IN0}, {2, IN1}}, {{{4, 0}, {5, 0}}, {{5, 0}, {4, 0}}},
     2, 1, 0, HCQ_OVERLAP, 1, 0},
    {"swapped after another launch, write after read", {{IN0, 1}, {2, IN1}},
     {{{4, 0}, {5, 0}}, {{6, 0}, {7, 0}}, {{5, 0}, {4, 0}}}, 3, 1, 0, HCQ_OVERLAP, 0, 0},
    {"swapped after another launch, read after write", {{IN0, 1}, {2, IN1}},
     {{{4, 0}, {5, 0}}, {{6, 0}, {7, 0}}, {{5, 0}, {4, 0}}}, 3, 0, 1, HCQ_OVERLAP, 0, 0},
    {"the same after another launch", {{IN0, 1}, {2, IN0}}, {{{4, 0}}, {{5, 0}}, {{4, 0}}},
     3, 1, 0, HCQ_OVERLAP, 0, 0},
    {"the same after one that follows all", {{IN0, 1}, {2, IN0}},
     {{{4, 0}}, {{5, 0}}, {{4, 0}}}, 3, 1, 0, HCQ_OVERLAP, 0, 1},
    {"swapped after one that follows all", {{IN0, 1}, {2, IN1}},
     {{{4, 0}, {5, 0}}, {{6, 0}, {7, 0}}, {{5, 0}, {4, 0}}}, 3, 1, 0, HCQ_OVERLAP, 0, 1},
    {"three of their own", {{IN0, 1}, {2, IN1}},
     {{{4, 0}, {5, 0}}, {{6, 0}, {7, 0}}, {{8, 0}, {9, 0}}}, 3, 1, 0, HCQ_OVERLAP, 1, 0},
};

static uint32_t inputs_of(const overlap_case *c) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t operand = c->operands[i / 2][i % 2];
        count = operand >= IN0 && operand - IN0 >= count ? operand - IN0 + 1 : count;
    }
    return count;
}

static void case_record(hcq_queue *q, const overlap_case *c) {
    hcq_buffer inputs[2], used[2];
    for (uint32_t n = 0; n < inputs_of(c); n++) {
        inputs[n] = hcq_input(q, n, NULL, INPUT_WORDS * 4);
        CHECK_U64(inputs[n].size, INPUT_WORDS * 4);
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t operand = c->operands[i][k];
            used[k] = operand >= IN0 ? inputs[operand - IN0] : cell(operand);
        }
        record_paced(q, i, i, i, used[0], used[1]);
    }
}

static uint32_t *case_word(const overlap_case *c, uint32_t number, uint32_t operand) {
    if (operand < IN0) {
        return &C.model[operand][0];
    }
    return &C.model[c->inputs[number][operand - IN0].cell][c->inputs[number][operand - IN0].word];
}

static void case_launch(hcq_queue *q, const overlap_case *c, uint32_t number, hcq_point *point) {
    hcq_buffer inputs[2];
    for (uint32_t n = 0; n < 2; n++) {
        inputs[n] = hcq_view(C.buffers[c->inputs[number][n].cell],
                             c->inputs[number][n].word * 4, INPUT_WORDS * 4);
    }
    CHECK_OK(launch_with(q, inputs, inputs_of(c), c->full && number == 1 ? 0 : c->flags, point));
    for (uint32_t i = 0; i < 2; i++) {
        model_word(case_word(c, number, c->operands[i][0]),
                   *case_word(c, number, c->operands[i][1]), i);
    }
}

static void run_overlap_case(const overlap_case *c) {
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_point points[LAUNCHES];
    cells_open(1);
    case_record(q, c);
    P.hold_call = c->holds;
    P.hold_run = 1;
    P.watch_call = c->watched;
    P.watch_run = c->launches;
    P.limit_ns = c->overtakes ? BOUND : P.limit_ns;
    for (uint32_t i = 0; i < c->launches; i++) {
        case_launch(q, c, i, &points[i]);
    }
    poke(&P.armed);
    CHECK_OK(hcq_wait(points, c->launches, HCQ_ALL, 2 * BOUND));
    if (P.seen != (uint32_t)c->overtakes) {
        fprintf(stderr, "%s: the later launch %s\n", c->name,
                P.seen ? "overtakes" : "does not overlap");
        fail();
    }
    check_cells(c->name);
    hcq_queue_destroy(q);
    cells_close();
}

static void overlapping_launches_keep_what_matters(void **state) {
    (void)state;
    NEEDS_MAP
    reopen_with(4, 0);
    for (size_t i = 0; i < sizeof overlap_cases / sizeof overlap_cases[0]; i++) {
        run_overlap_case(&overlap_cases[i]);
    }
}

static void holds_until(uint32_t id, uint32_t watched, uint32_t run) {
    P.hold_call = id;
    P.hold_run = 1;
    P.watch_call = watched;
    P.watch_run = run;
}

/* A call is changed between two launches so that only now they share memory. */
static void updated_launches_keep_what_matters(void **state) {
    (void)state;
    NEEDS_MAP
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_point points[2];
    cells_open(1);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(C.buffers[3], 64, 64), hcq_view(C.buffers[4], 0, 64),
                               64), 0);
    record_paced(q, 1, 0, 0, cell(1), cell(6));
    record_paced(q, 2, 1, 1, cell(2), cell(0));
    holds_until(1, 0, 2);
    CHECK_OK(hcq_queue_submit(q, T.dev, &points[0]));
    CHECK_OK(hcq_queue_update_copy(q, 0, &C.buffers[0], NULL, HCQ_KEEP));
    CHECK_OK(launch_with(q, NULL, 0, HCQ_OVERLAP, &points[1]));
    poke(&P.armed);
    CHECK_OK(hcq_wait(points, 2, HCQ_ALL, BOUND));
    CHECK_U64(P.seen, 0);
    memcpy(&C.model[3][16], &C.model[4][0], 64);
    model_paced(0, 1, 6);
    model_paced(1, 2, 0);
    memcpy(&C.model[0][0], &C.model[4][0], 64);
    model_paced(0, 1, 6);
    model_paced(1, 2, 0);
    check_cells("an updated copy");
    hcq_queue_destroy(q);
}

/* Two calls are changed so that neither plan knows what they share: only the
   call before the update and the other one after it do. */
static void updates_meet_the_launch_before(void **state) {
    (void)state;
    NEEDS_MAP
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_point points[2];
    cells_open(1);
    for (uint32_t i = 0; i < 2; i++) { /* whole cells, nothing stated */
        paced_args args = {C.buffers[i ? 2 : 4].address, C.buffers[i ? 5 : 1].address,
                           (uint64_t)(uintptr_t)&P, i, add_of(i)};
        CHECK_INDEX(hcq_queue_exec(q, C.on[i], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), i);
    }
    holds_until(1, 0, 2);
    CHECK_OK(launch_with(q, NULL, 0, HCQ_OVERLAP, &points[0]));
    CHECK_OK(hcq_queue_update_arg(q, 0, 0, &C.buffers[5].address, 8));
    CHECK_OK(hcq_queue_update_arg(q, 1, 1, &C.buffers[6].address, 8));
    CHECK_OK(launch_with(q, NULL, 0, HCQ_OVERLAP, &points[1]));
    poke(&P.armed);
    CHECK_OK(hcq_wait(points, 2, HCQ_ALL, BOUND));
    CHECK_U64(P.seen, 0);
    model_paced(0, 4, 1);
    model_paced(1, 2, 5);
    model_paced(0, 5, 1);
    model_paced(1, 2, 6);
    check_cells("updated arguments");
    hcq_queue_destroy(q);
}

/* A graph's own memory is one, whichever launch uses it. */
static void overlapping_launches_share_empties(void **state) {
    (void)state;
    hcq_buffer mine;
    hcq_point points[2];
    uint32_t kept;
    NEEDS_MAP
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    cells_open(1);
    CHECK_INDEX(hcq_queue_empty(q, T.dev, 64, 0, &mine), 0);
    CHECK_INDEX(hcq_queue_fill(q, mine, 64, 5, 4), 1);
    record_paced(q, 2, 0, 0, mine, cell(0));
    record_paced(q, 3, 1, 1, cell(1), mine);
    holds_until(1, 0, 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(launch_with(q, NULL, 0, i ? HCQ_OVERLAP : 0, &points[i]));
        kept = 5;
        model_word(&kept, C.model[0][0], 0);
        model_word(&C.model[1][0], kept, 1);
    }
    poke(&P.armed);
    CHECK_OK(hcq_wait(points, 2, HCQ_ALL, BOUND));
    CHECK_U64(P.seen, 0);
    check_cells("an empty");
    hcq_queue_destroy(q);
}

/* A launch without HCQ_OVERLAP follows everything on its devices, and plain
   work that waits for its point follows the launch. */
static void launches_follow_other_work(void **state) {
    (void)state;
    hcq_point point;
    cells_open(0);
    for (uint32_t d = 0; d < 2; d++) {
        hcq_queue *plain = make_queue(d ? T.dev2 : T.dev, HCQ_COMPUTE);
        hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
        pace_reset();
        paced_args args = {C.buffers[d].address, C.buffers[d + 2].address,
                           test_see(d ? T.dev2 : T.dev, &P), 2, add_of(2)};
        CHECK_INDEX(hcq_queue_exec(plain, C.on[d], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 0);
        record_paced(q, 0, 0, 0, cell(4), cell(0)); /* both devices take part */
        record_paced(q, 1, 1, 1, cell(5), cell(1));
        holds_until(2, 1 - d, 1);      /* the call of the other device */
        CHECK_OK(hcq_queue_submit(plain, d ? T.dev2 : T.dev, NULL));
        CHECK_OK(hcq_queue_submit(q, T.dev, &point));
        poke(&P.armed);
        WAIT_OK(point);
        CHECK_U64(P.seen, 0);
        model_word(&C.model[d][0], C.model[d + 2][0], 2);
        model_paced(0, 4, 0);
        model_paced(1, 5, 1);
        check_cells("work before a launch");
        hcq_queue_destroy(plain);
        hcq_queue_destroy(q);
    }
}

/* ---- counters that are swapped ---- */

static uint64_t swaps(hcq_device *device) {
    return test_query(device, HCQ_QUERY_COUNTER_SWAPS);
}

static void submit_tick(hcq_device *device, hcq_point *point) {
    hcq_submission s;
    memset(&s, 0, sizeof s);
    CHECK_OK(hcq_submit(device, &s, 1, point));
}

/* Submissions until each counter was swapped twice. */
static void swap_twice(hcq_device *device, hcq_queue *plain) {
    uint64_t before = swaps(device);
    hcq_point point;
    for (uint32_t i = 0; i < 1000 && swaps(device) < before + 4; i++) {
        CHECK_OK(hcq_queue_submit(plain, device, &point));
        WAIT_OK(point);
        submit_tick(device, &point);
        WAIT_OK(point);
    }
    CHECK(swaps(device) >= before + 4);
}

static hcq_queue *plain_fill(hcq_device *device, uint32_t cell_index) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(C.buffers[cell_index], 256, 64), 64, 9, 4), 0);
    return q;
}

static void model_fill(uint32_t cell_index) {
    for (uint32_t i = 0; i < 16; i++) {
        C.model[cell_index][64 + i] = 9;
    }
}

/* A launch's numbers mean the same after its lanes' counters went round. */
static void counters_swap_between_launches(void **state) {
    (void)state;
    hcq_point point;
    reopen_with(0, 4);
    cells_open(0);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_queue *plain[2] = {plain_fill(T.dev, 6), plain_fill(T.dev2, 7)};
    record_paced(q, 0, 0, 0, cell(0), cell(2));
    record_paced(q, 1, 1, 1, cell(1), cell(3));
    record_paced(q, 2, 0, 2, cell(4), cell(0));
    CHECK_OK(hcq_queue_edge(q, 1, 2));
    record_paced(q, 3, 1, 3, cell(5), cell(1));
    CHECK_OK(hcq_queue_edge(q, 2, 3));
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(launch_with(q, NULL, 0, i % 2 ? HCQ_OVERLAP : 0, &point));
        model_paced(0, 0, 2);
        model_paced(1, 1, 3);
        model_paced(2, 4, 0);
        model_paced(3, 5, 1);
        if (i % 4 < 2) {
            WAIT_OK(point);
        }
        swap_twice(T.dev, plain[0]);
        swap_twice(T.dev2, plain[1]);
        WAIT_OK(point);
        model_fill(6);
        model_fill(7);
        check_cells("after two swaps");
    }
    hcq_queue_destroy(q);
    hcq_queue_destroy(plain[0]);
    hcq_queue_destroy(plain[1]);
}

/* The second device's counters go round while the first one, which will need
   what the second has done, is held up. */
static void counters_swap_within_a_launch(void **state) {
    (void)state;
    hcq_point points[2], last;
    reopen_with(0, 4);
    cells_open(0);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH), *plain = plain_fill(T.dev2, 7);
    record_paced(q, 0, 0, 0, cell(0), cell(2));
    record_paced(q, 1, 1, 1, cell(1), cell(3));
    record_paced(q, 2, 0, 2, cell(4), cell(0));
    CHECK_OK(hcq_queue_edge(q, 1, 2));
    holds_until(0, 3, 1);              /* nobody: until it is opened */
    P.limit_ns = 10 * BOUND;
    CHECK_OK(hcq_queue_submit(q, T.dev, &points[0]));
    for (uint32_t i = 0; i < 40; i++) { /* it may wait with a swap, and must not hang */
        CHECK_OK(hcq_queue_submit(plain, T.dev2, &last));
    }
    CHECK_OK(launch_with(q, NULL, 0, HCQ_OVERLAP, &points[1]));
    poke(&P.open);
    CHECK_OK(hcq_wait(points, 2, HCQ_ALL, BOUND));
    WAIT_OK(last);
    for (uint32_t i = 0; i < 2; i++) {
        model_paced(0, 0, 2);
        model_paced(1, 1, 3);
        model_paced(2, 4, 0);
    }
    model_fill(7);
    check_cells("swaps within a launch");
    hcq_queue_destroy(q);
    hcq_queue_destroy(plain);
}

/* ---- destroyed in flight ---- */

static void until_it_holds(void) {
    uint64_t end = hcq_sys_now_ns() + BOUND;
    while (!peek(&P.runs[P.hold_call]) && hcq_sys_now_ns() < end) {
        mock_sleep(20000);
    }
    CHECK(peek(&P.runs[P.hold_call]));
}

static void destroyed_in_flight(void **state) {
    (void)state;
    hcq_point points[2];
    hcq_buffer mine;
    for (uint32_t how = 0; how < 2; how++) { /* destroyed, reset */
        uint32_t kept = 5;
        cells_open(0);
        hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
        CHECK_INDEX(hcq_queue_empty(q, T.dev, 64, 0, &mine), 0);
        CHECK_INDEX(hcq_queue_fill(q, mine, 64, 5, 4), 1);
        record_paced(q, 2, 0, 0, cell(0), mine);
        record_paced(q, 3, 1, 1, cell(1), cell(3));
        CHECK_OK(hcq_queue_edge(q, 2, 3));
        record_paced(q, 4, 0, 2, cell(2), mine);
        CHECK_OK(hcq_queue_edge(q, 3, 4));
        holds_until(0, 3, 1);
        P.limit_ns = 10 * BOUND;
        for (uint32_t i = 0; i < 2; i++) {
            CHECK_OK(launch_with(q, NULL, 0, i ? HCQ_OVERLAP : 0, &points[i]));
            model_word(&C.model[0][0], kept, 0);
            model_paced(1, 1, 3);
            model_word(&C.model[2][0], kept, 2);
        }
        until_it_holds();              /* the fill is behind it */
        if (how == 0) {
            hcq_queue_destroy(q);
        } else {
            CHECK_OK(hcq_queue_reset(q));
            record_paced(q, 0, 0, 2, cell(4), cell(6));
        }
        CHECK_RESULT(test_poll(points[0]), HCQ_TIMEOUT);
        poke(&P.open);
        CHECK_OK(hcq_wait(points, 2, HCQ_ALL, BOUND));
        if (how == 1) {
            CHECK_OK(hcq_queue_submit(q, T.dev, &points[0]));
            WAIT_OK(points[0]);
            model_paced(2, 4, 6);
            hcq_queue_destroy(q);
        }
        check_cells("destroyed in flight");
        cells_close();
    }
}

/* Memory of another device, as an input and not: freed while the launch still
   has to read it, it is not handed out again. */
static void freed_in_flight(void **state) {
    (void)state;
    NEEDS_MAP
    for (uint32_t as_input = 0; as_input < 2; as_input++) {
        hcq_buffer next;
        hcq_point point;
        hcq_submission s;
        cells_open(0);
        hcq_queue *q = make_queue(T.dev2, HCQ_GRAPH);
        hcq_buffer src = C.buffers[0];
        if (as_input) {
            src = hcq_input(q, 0, T.dev, CELL_WORDS * 4);
        }
        record_paced(q, 0, 1, 0, cell(1), src);
        holds_until(0, 1, 1);          /* nobody: until it is opened */
        P.limit_ns = 10 * BOUND;
        memset(&s, 0, sizeof s);
        s.queues = &q;
        s.queue_count = 1;
        s.inputs = &C.buffers[0];
        s.input_count = 1;
        CHECK_OK(hcq_submit(T.dev2, &s, 1, &point));
        until_it_holds();
        CHECK_OK(hcq_free(C.buffers[0]));
        CHECK_OK(hcq_alloc(T.dev, CELL_WORDS * 4, HCQ_HOST_VISIBLE, &next));
        memset(next.host, 0x77, CELL_WORDS * 4);
        poke(&P.open);
        WAIT_OK(point);
        model_paced(0, 1, 0);
        C.buffers[0] = next;
        memset(C.model[0], 0x77, sizeof C.model[0]);
        check_cells("freed in flight");
        hcq_queue_destroy(q);
        cells_close();
    }
}

/* ---- appended graphs ---- */

/* A graph with memory of its own, appended twice behind such memory: there are
   three of them then. */
static void appended_empties_are_their_own(void **state) {
    (void)state;
    hcq_buffer mine, theirs;
    hcq_point point;
    uint32_t kept[3] = {0x01010101, 0x02020202, 0x02020202};
    cells_open(0);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH), *part = make_queue(T.dev, HCQ_GRAPH);
    CHECK_INDEX(hcq_queue_empty(part, T.dev, 64, 0, &theirs), 0);
    CHECK_INDEX(hcq_queue_fill(part, theirs, 64, 2, 1), 1);
    record_paced(part, 2, 0, 0, theirs, cell(0));
    record_paced(part, 3, 0, 1, cell(2), theirs);
    CHECK_INDEX(hcq_queue_copy(part, hcq_view(C.buffers[4], 0, 4), theirs, 4), 4);
    CHECK_INDEX(hcq_queue_empty(q, T.dev, 64, 0, &mine), 0);
    CHECK_INDEX(hcq_queue_fill(q, mine, 64, 1, 1), 1);
    CHECK_INDEX(hcq_queue_append(q, part), 2);
    CHECK_INDEX(hcq_queue_append(q, part), 7);
    hcq_queue_destroy(part);
    record_paced(q, 12, 0, 2, cell(6), mine);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(launch_with(q, NULL, 0, i == 1 ? HCQ_STEP : 0, &point));
        WAIT_OK(point);
        for (uint32_t k = 1; k < 3; k++) {
            kept[k] = 0x02020202;
            model_word(&kept[k], C.model[0][0], 0);
            model_word(&C.model[2][0], kept[k], 1);
            C.model[4][0] = kept[k];
        }
        model_word(&C.model[6][0], kept[0], 2);
        check_cells("appended empties");
    }
    hcq_queue_destroy(q);
}

/* ---- two threads, two graphs, the same buffers ---- */

enum { TURNS = 40, TOLD = 2 * TURNS };

typedef struct told { uint32_t count, ids[TOLD]; } told; /* who ran, in order */

typedef struct tell_args { uint64_t list; uint32_t id; } tell_args;

static void k_tell(const void *block_args, const hcq_block *b) {
    const tell_args *k = HCQ_ARGS(tell_args, block_args);
    told *list = HCQ_PTR(told, k->list);
    (void)b;
    list->ids[list->count++ % TOLD] = k->id;
}
TEST_SHADER(k_tell, tell)

typedef struct launcher {
    pthread_t thread;
    hcq_device *home;
    hcq_queue *queue;
    uint32_t index;
    hcq_result result;
} launcher;

static void *launcher_run(void *user) {
    launcher *l = (launcher *)user;
    hcq_point point;
    for (uint32_t i = 0; i < TURNS && l->result == HCQ_OK; i++) {
        hcq_submission s;
        uint64_t id = l->index * TURNS + i;
        memset(&s, 0, sizeof s);
        s.queues = &l->queue;
        s.queue_count = 1;
        s.variables = &id;
        s.variable_count = 1;
        l->result = hcq_submit(l->home, &s, 1, &point);
        if (l->result == HCQ_OK && i % 4 == 3) {
            l->result = hcq_wait(&point, 1, HCQ_ALL, BOUND);
        }
    }
    if (l->result == HCQ_OK) {
        l->result = hcq_wait(&point, 1, HCQ_ALL, BOUND);
    }
    return NULL;
}

/* Both devices tell who is there, then both change the same cells. */
static void record_turn(hcq_queue *q, hcq_program *const *tell, const hcq_buffer *lists,
                        uint32_t which) {
    for (uint32_t d = 0; d < 2; d++) {
        tell_args args = {lists[d].address, 0};
        CHECK_INDEX(hcq_queue_exec(q, tell[d], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), d);
        CHECK_OK(hcq_queue_variable(q, d, HCQ_PART_ARG + 1, 0, 0));
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t d = (i + which) % 2;
        record_paced(q, 2 + i, d, i, cell(d), cell(d + 2 * (1 + which)));
    }
    CHECK_OK(hcq_queue_edge(q, 2, 3));
    CHECK_OK(hcq_queue_edge(q, 3, 4));
    CHECK_OK(hcq_queue_edge(q, 4, 5));
}

/* Launches of one graph never run in the middle of the other's: both devices
   see them in one order, and the bytes are those of that order. */
static void two_threads_share_buffers(void **state) {
    (void)state;
    hcq_program_desc desc = {"tell", k_tell, {HCQ_ARG_INOUT, HCQ_ARG_U32}, NULL, NULL, {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *tell[2];
    hcq_buffer lists[2];
    launcher launchers[2];
    cells_open(0);
    for (uint32_t d = 0; d < 2; d++) {
        hcq_device *device = d ? T.dev2 : T.dev;
        CHECK_OK(hcq_program_create(device, &desc, &tell[d]));
        CHECK_OK(hcq_alloc(device, sizeof(told), HCQ_HOST_VISIBLE | HCQ_ZEROED, &lists[d]));
    }
    memset(launchers, 0, sizeof launchers);
    for (uint32_t i = 0; i < 2; i++) {
        launchers[i].index = i;
        launchers[i].home = i ? T.dev2 : T.dev;
        launchers[i].queue = make_queue(launchers[i].home, HCQ_GRAPH);
        record_turn(launchers[i].queue, tell, lists, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_create(&launchers[i].thread, NULL, launcher_run, &launchers[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(launchers[i].thread, NULL);
    }
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(launchers[i].result);
        hcq_queue_destroy(launchers[i].queue);
    }
    const told *first = (const told *)lists[0].host, *second = (const told *)lists[1].host;
    CHECK_U64(first->count, TOLD);
    CHECK_U64(second->count, TOLD);
    for (uint32_t i = 0; i < TOLD; i++) {
        CHECK_U64(second->ids[i], first->ids[i]);
        uint32_t which = first->ids[i] / TURNS;
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t d = (k + which) % 2;
            model_paced(k, d, d + 2 * (1 + which));
        }
    }
    check_cells("two threads");
}

/* ---- aliases ---- */

/* Input 0 is written, input 1 only read, cells 0 and 1 too; one device. */
static void aliases_run_nothing(void **state) {
    (void)state;
    enum { W0 = 0, R1 = 1 };
    static const struct {
        uint32_t cells[2], words[2];   /* of each input */
        hcq_result result;
    } cases[] = {
        {{4, 6}, {0, 0}, HCQ_OK},
        {{4, 4}, {0, 0}, HCQ_ERROR_ALIAS},
        {{4, 4}, {0, 15}, HCQ_ERROR_ALIAS},
        {{4, 4}, {0, 16}, HCQ_OK},
        {{4, 4}, {15, 0}, HCQ_ERROR_ALIAS},
        {{4, 4}, {16, 0}, HCQ_OK},
        {{0, 6}, {0, 0}, HCQ_ERROR_ALIAS},     /* a word that the graph writes */
        {{4, 0}, {0, 0}, HCQ_ERROR_ALIAS},
        {{4, 0}, {0, 1}, HCQ_OK},              /* the graph names the first word only */
        {{0, 6}, {1, 0}, HCQ_OK},
        {{2, 6}, {0, 0}, HCQ_ERROR_ALIAS},     /* a word that it only reads: written as input */
        {{4, 2}, {0, 0}, HCQ_OK},              /* both only read */
        {{4, 6}, {0, 0}, HCQ_OK},
    };
    hcq_point point;
    cells_open(1);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer in[2] = {hcq_input(q, 0, NULL, INPUT_WORDS * 4),
                        hcq_input(q, 1, NULL, INPUT_WORDS * 4)};
    record_paced(q, 0, 0, 0, in[0], in[1]);
    record_paced(q, 1, 0, 1, cell(0), cell(2));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hcq_buffer inputs[2];
        for (uint32_t n = 0; n < 2; n++) {
            inputs[n] = hcq_view(C.buffers[cases[i].cells[n]], cases[i].words[n] * 4,
                                 INPUT_WORDS * 4);
        }
        uint64_t number = hcq_device_timeline_value(T.dev);
        hcq_result r = launch_with(q, inputs, 2, 0, &point);
        if (r != cases[i].result) {
            fprintf(stderr, "case %zu gives %s\n", i, hcq_result_name(r));
            fail();
        }
        if (r == HCQ_OK) {
            WAIT_OK(point);
            model_word(&C.model[cases[i].cells[0]][cases[i].words[0]],
                       C.model[cases[i].cells[1]][cases[i].words[1]], 0);
            model_paced(1, 0, 2);
        } else {
            CHECK_U64(hcq_device_timeline_value(T.dev), number);
            CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        }
        check_cells("an alias");
    }
    hcq_queue_destroy(q);
}

/* What is wrong with an input, one by one. */
static void bad_inputs_run_nothing(void **state) {
    (void)state;
    hcq_point point;
    hcq_buffer none, gone;
    cells_open(0);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer in[2] = {hcq_input(q, 0, NULL, INPUT_WORDS * 4),
                        hcq_input(q, 1, NULL, INPUT_WORDS * 4)};
    hcq_buffer good[2] = {C.buffers[4], C.buffers[6]};
    record_paced(q, 0, 0, 0, in[0], in[1]);
    memset(&none, 0, sizeof none);
    CHECK_OK(hcq_alloc(T.dev, CELL_WORDS * 4, 0, &gone));
    CHECK_OK(hcq_free(gone));
    uint64_t number = hcq_device_timeline_value(T.dev);
    CHECK_RESULT(launch_with(q, NULL, 0, 0, &point), HCQ_ERROR_INVALID);
    CHECK_RESULT(launch_with(q, good, 1, 0, &point), HCQ_ERROR_INVALID);
    const struct { hcq_buffer buffer; hcq_result result; } cases[] = {
        {none, HCQ_ERROR_INVALID},
        {gone, HCQ_ERROR_CLOSED},
        {hcq_view(C.buffers[4], 0, INPUT_WORDS * 4 - 1), HCQ_ERROR_INVALID},
        {C.buffers[5], HCQ_ERROR_FOREIGN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t n = 0; n < 2; n++) {
            hcq_buffer inputs[2] = {good[0], good[1]};
            inputs[n] = cases[i].buffer;
            CHECK_RESULT(launch_with(q, inputs, 2, 0, &point), cases[i].result);
            CHECK_RESULT(launch_with(q, inputs, 2, HCQ_STEP, &point), cases[i].result);
        }
    }
    CHECK_U64(hcq_device_timeline_value(T.dev), number);
    CHECK_OK(launch_with(q, good, 2, 0, &point));
    WAIT_OK(point);
    model_paced(0, 4, 6);
    check_cells("bad inputs");
    hcq_queue_destroy(q);
}

/* Inputs that may overlap, until an update makes one of them written. */
static void updates_make_aliases(void **state) {
    (void)state;
    hcq_point point;
    cells_open(1);
    hcq_queue *q = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer in[2] = {hcq_input(q, 0, NULL, INPUT_WORDS * 4),
                        hcq_input(q, 1, NULL, INPUT_WORDS * 4)};
    hcq_buffer same[2] = {C.buffers[4], C.buffers[4]};
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(C.buffers[0], 0, 32), in[0], 32), 0);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(C.buffers[1], 0, 32), in[1], 32), 1);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(launch_with(q, same, 2, 0, &point));
        WAIT_OK(point);
    }
    memcpy(C.model[0], C.model[4], 32);
    memcpy(C.model[1], C.model[4], 32);
    CHECK_OK(hcq_queue_update_copy(q, 0, &in[0], &C.buffers[2], HCQ_KEEP));
    CHECK_RESULT(launch_with(q, same, 2, 0, &point), HCQ_ERROR_ALIAS);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    check_cells("an alias by an update");
    hcq_queue_destroy(q);
}

#define GRAPH_CASES \
    TEST(overlapping_launches_keep_what_matters), TEST(updated_launches_keep_what_matters), \
    TEST(updates_meet_the_launch_before), TEST(updates_make_aliases), \
    TEST(overlapping_launches_share_empties), TEST(launches_follow_other_work), \
    TEST(counters_swap_between_launches), TEST(counters_swap_within_a_launch), \
    TEST(destroyed_in_flight), TEST(freed_in_flight), TEST(bad_inputs_run_nothing), \
    TEST(appended_empties_are_their_own), TEST(two_threads_share_buffers), TEST(aliases_run_nothing)

#endif /* HCQ_TEST_GRAPH_CASES_H */
