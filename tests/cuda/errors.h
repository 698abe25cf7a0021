/* errors.h - errors that end a context, at every operation; every call of the
   driver's that fails, in turn. Part of cuda.c. */

/* ---- a context is lost ---- */

enum { SCENE_POINTS = 24, SCENE_WORDS = 64 };

/* Work of all kinds on two lanes, with waits between them. */
typedef struct scene {
    hcq_device *dev;
    hcq_queue *compute, *bound, *copy, *graph;
    hcq_signal s;
    hcq_buffer words, other;
    hcq_point points[SCENE_POINTS];
    uint32_t count;
} scene;

static void scene_open(scene *c, hcq_device *device) {
    memset(c, 0, sizeof *c);
    c->dev = device;
    c->s = make_signal(device, 0);
    c->words = make_words(device, SCENE_WORDS);
    c->other = make_words(device, SCENE_WORDS);
    hcq_program *add = make_add(device);
    add_args args = {c->words.address, 1, SCENE_WORDS};
    hcq_queue **queues[] = {&c->compute, &c->bound, &c->graph};
    for (uint32_t i = 0; i < 3; i++) {
        hcq_queue *q = *queues[i] = make_queue(device, i == 2 ? HCQ_GRAPH : HCQ_COMPUTE);
        for (uint32_t k = 0; k < 3; k++) {
            CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, hcq_dim(4, 1, 1),
                                       hcq_dim(16, 1, 1)), k);
        }
        CHECK_INDEX(hcq_queue_copy(q, c->other, c->words, 64), 3);
    }
    c->copy = make_queue(device, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(c->copy, hcq_view(c->words, 128, 64), c->other, 64), 0);
    CHECK_OK(hcq_queue_bind(c->bound, device));
    CHECK_OK(hcq_queue_bind(c->graph, device));
    settle(device);
}

/* Submits until it is refused. */
static void scene_submit(scene *c) {
    hcq_point before = {{0}, 0};
    for (uint32_t i = 0; i < SCENE_POINTS; i++) {
        hcq_queue *const queues[] = {c->compute, c->copy, c->bound, c->copy, c->graph};
        hcq_queue *q = queues[i % 5];
        hcq_point up = hcq_at(c->s, i + 1);
        hcq_submission s;
        memset(&s, 0, sizeof s);
        s.waits = &before;
        s.wait_count = i % 5 == 4 || i == 0 ? 0 : 1;
        s.queues = &q;
        s.queue_count = 1;
        s.signals = &up;
        s.signal_count = i % 5 == 4 ? 0 : 1;
        hcq_result r = hcq_submit(c->dev, &s, 1, &c->points[c->count]);
        if (r != HCQ_OK) {
            CHECK_RESULT(r, HCQ_ERROR_LOST);
            return;
        }
        before = c->points[c->count++];
    }
}

/* Every point has to end. 1: the device was lost. */
static int scene_wait(const scene *c) {
    int lost = c->count < SCENE_POINTS;
    for (uint32_t i = 0; i < c->count; i++) {
        hcq_result r = hcq_wait(&c->points[i], 1, HCQ_ALL, BOUND);
        if (r != HCQ_OK && r != HCQ_ERROR_LOST) {
            test_dump_device("the scene's device", c->dev);
            CHECK_RESULT(r, HCQ_ERROR_LOST);
        }
        lost |= r == HCQ_ERROR_LOST;
    }
    return lost;
}

/* The driver says an error at the k-th operation, of whatever kind. */
static int lose_at(uint32_t way, uint64_t k, int error) {
    mock_cuda_desc desc = mock_wanted();
    hcq_error_info info;
    scene c;
    desc.seed += k;
    M.setup(&desc);
    hcq_device *device = device_by(way, 2, 1);
    scene_open(&c, device);
    hcq_signal held = make_signal(device, 0);
    hcq_point shut = hcq_at(held, 1), up = hcq_at(held, 2), parked = {{0}, 0};
    M.fail_operation(NULL, k, error);
    scene_submit(&c);
    hcq_result r = submit_lists(device, &shut, &up, HCQ_UNORDERED, &parked);
    CHECK(r == HCQ_OK || r == HCQ_ERROR_LOST);
    int parks = r == HCQ_OK, lost = scene_wait(&c);
    if (!lost) {                       /* it comes later, in eager calls */
        uint32_t word;
        CHECK_OK(parks ? hcq_signal_set(held, 1) : HCQ_OK);
        r = hcq_copyout(&word, c.words, 4);
        CHECK(r == HCQ_OK || r == HCQ_ERROR_LOST);
        lost = r == HCQ_ERROR_LOST;
    } else if (parks) {
        WAIT_RESULT(parked, HCQ_ERROR_LOST);
        WAIT_RESULT(up, HCQ_ERROR_LOST);
    }
    if (lost) {
        CHECK_RESULT(hcq_queue_submit(c.copy, device, NULL), HCQ_ERROR_LOST);
        CHECK_OK(hcq_device_error(device, &info));
        CHECK_RESULT(info.result, HCQ_ERROR_LOST);
        CHECK_U64(info.native_code, error ? error : 700);
        CHECK(strncmp(info.native, "cu", 2) == 0);
    }
    M.fail_nothing();
    CHECK_OK(hcq_close(device));
    CHECK_U64(things_now(), 0);
    device = test_open(0, NULL);       /* once more, with a new context */
    use_device(device);
    CHECK_OK(hcq_close(device));
    CHECK_U64(things_now(), 0);
    return lost;
}

static void context_is_lost_anywhere(void **state) {
    (void)state;
    uint32_t lost = 0;
    NEEDS_MOCK();
    const uint64_t most = T.rounds ? T.rounds : T.quick ? 16 : 90;
    for (uint64_t k = 0; k < most; k++) {
        lost += (uint32_t)lose_at((uint32_t)k % MEANS, k, 0);
    }
    CHECK(lost >= most / 2);
}

static void errors_that_end_a_context(void **state) {
    (void)state;
    static const int codes[] = {700, 702, 710, 714, 715, 716, 717, 718, 719};
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        CHECK(lose_at(i % 3, i % 4, codes[i]));
    }
}

/* With marks the very command is named; without, its queue or what is near. */
static void errors_name_the_command(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 8; i++) {
        hcq_device *device = device_with(i & 1 ? HCQ_CUDA_TRAIL : 0, 1, 1);
        hcq_program *bad = make_own(device, "ct_bad", count_list), *add = make_add(device);
        hcq_buffer words = make_words(device, 4);
        hcq_queue *good = make_queue(device, HCQ_COMPUTE), *q = make_queue(device, HCQ_COMPUTE);
        hcq_error_info error;
        CHECK_OK(hcq_queue_label(good, "harmless"));
        CHECK_OK(hcq_queue_label(q, "poisonous"));
        for (uint32_t k = 0; k < 5; k++) {
            CHECK_INDEX(record_add(good, add, words, 0, 1), k);
            CHECK_INDEX(record_add(q, add, words, 0, 1), k);
        }
        CHECK_INDEX(hcq_queue_exec(q, bad, &words.address, sizeof words.address, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 5);
        CHECK_INDEX(record_add(q, add, words, 0, 1), 6);
        CHECK_OK(i & 2 ? hcq_queue_bind(q, device) : HCQ_OK);
        log_clear();
        (void)submit_of(good, device);
        hcq_point done = submit_of(q, device), behind = {{0}, 0};
        (void)hcq_queue_submit(good, device, &behind);
        WAIT_RESULT(done, HCQ_ERROR_LOST);
        CHECK_OK(hcq_device_error(device, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_LOST);
        CHECK_U64(error.native_code, 700);
        CHECK(strncmp(error.native, "cu", 2) == 0);
        if (i & 1) {
            CHECK_U64(error.command, 5);
            CHECK(strcmp(error.program, "ct_bad") == 0);
        }
        if (i & 1 || info_of(device).memops) { /* all events tell the error then */
            CHECK(strcmp(error.queue, "poisonous") == 0);
            CHECK(log_has("poisonous"));
        }
        hcq_queue_destroy(good);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_close(device));
        CHECK_U64(things_now(), 0);
    }
}

/* With marks everything else is as always, only there are no graphs. */
static void marks_change_nothing(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu(), *device = device_with(HCQ_CUDA_TRAIL, 1, 1);
    CHECK_U64(info_of(device).graphs, 0);
    for (uint32_t i = 0; i < 4; i++) {
        twin_play(device, cpu, T.seed * 77 + i);
    }
    CHECK_OK(hcq_close(device));
    CHECK_OK(hcq_close(cpu));
}

/* What waits for a lost device ends; the other one goes on. */
static void others_survive_a_loss(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 4; i++) {
        hcq_device *first = test_open(0, NULL), *second = open_number(1), *cpu = open_cpu();
        hcq_program *bad = make_own(first, "ct_bad", count_list);
        hcq_buffer words = make_words(first, 4), there = make_words(second, 4);
        hcq_queue *q = make_queue(first, HCQ_COMPUTE), *fill = make_queue(second, HCQ_COPY);
        gates g;
        gates_open(&g, first);
        CHECK_INDEX(record_spin(q, &g, 0), 0);
        CHECK_INDEX(hcq_queue_exec(q, bad, &words.address, sizeof words.address, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(hcq_queue_write(fill, there, 6, 4), 0);
        CHECK_OK(i & 1 ? hcq_queue_bind(q, first) : HCQ_OK);
        hcq_point done = submit_of(q, first);
        hcq_point on_second = submit_to(second, fill, 0, &done, NULL);
        hcq_point on_cpu = submit_to(cpu, NULL, 0, &done, NULL);
        gate_let(&g, 0);
        WAIT_RESULT(done, HCQ_ERROR_LOST);
        WAIT_RESULT(on_second, HCQ_ERROR_LOST);
        WAIT_RESULT(on_cpu, HCQ_ERROR_LOST);
        submit_and_wait(fill, second);
        CHECK_U64(READ32(there, 0), 6);
        use_device(second);
        CHECK_OK(i & 2 ? hcq_close(first) : hcq_close(second));
        CHECK_OK(i & 2 ? hcq_close(second) : hcq_close(first));
        CHECK_OK(hcq_close(cpu));
        CHECK_U64(things_now(), 0);
    }
}

/* Threads that wait when it happens wake up. */
static void waiters_wake_at_a_loss(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t way = 0; way < 3; way++) {
        hcq_device *device = device_by(way, 2, 1);
        hcq_program *bad = make_own(device, "ct_bad", count_list);
        hcq_buffer words = make_words(device, 4);
        hcq_signal s = make_signal(device, 0);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        waiter w[3];
        gates g;
        gates_open(&g, device);
        CHECK_INDEX(record_spin(q, &g, 0), 0);
        CHECK_INDEX(hcq_queue_exec(q, bad, &words.address, sizeof words.address, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)), 1);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 2);
        hcq_point done = submit_of(q, device);
        hcq_point other = submit_to(device, NULL, 1, &done, NULL);
        waiter_start(&w[0], done);
        waiter_start(&w[1], hcq_at(s, 1));
        waiter_start(&w[2], other);
        gate_let(&g, 0);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK(pthread_join(w[i].thread, NULL) == 0);
            CHECK_RESULT(w[i].result, HCQ_ERROR_LOST);
        }
        CHECK_OK(hcq_close(device));
    }
}

/* ---- every call fails ---- */

enum { STEPS_TEXT = 4096 };

/* What went wrong in a child, in words for the parent. */
static struct {
    int bad;
    char text[STEPS_TEXT];
    size_t used;
} steps;

static int took_step(const char *what, int result) {
    if (result == HCQ_TIMEOUT) {
        steps.bad = 1;                 /* nobody may wait for what cannot happen */
    }
    if ((result < 0 || result == HCQ_TIMEOUT) && steps.used < sizeof steps.text) {
        int n = snprintf(steps.text + steps.used, sizeof steps.text - steps.used, "   %s: %s\n",
                         what, hcq_result_name((hcq_result)result));
        steps.used += n > 0 ? (size_t)n : 0;
    }
    return result >= 0 && result != HCQ_TIMEOUT;
}
#define TAKE(call) took_step(#call, (int)(call))

enum { STAGE_MAY_LEAVE = 1 << 30 };    /* a call that gives something back is to fail */

typedef struct stage {
    hcq_device *device;
    hcq_program *step;
    hcq_buffer a, b, large, late;
    hcq_signal s;
    hcq_queue *q, *copy, *graph, *lone;
} stage;

static int run_step(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    return TAKE(hcq_queue_submit(queue, device, &done)) &&
           TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
}

static int stage_open(stage *g, uint32_t flags) {
    static const uint32_t words[1024] = {1, 2, 3};
    hcq_program_desc step = ptx_desc("ct_step", step_ptx, step_list);
    hcq_device_desc desc = test_desc();
    test_cuda_desc.flags |= flags & ~(uint32_t)STAGE_MAY_LEAVE;
    desc.timeout_ns = 3 * SECOND;
    desc.explain_ns = HCQ_KEEP;
    desc.compute_lanes = 2;
    memset(g, 0, sizeof *g);
    return TAKE(hcq_open("CUDA", &desc, &g->device)) &&
           TAKE(hcq_program_create(g->device, &step, &g->step)) &&
           TAKE(hcq_alloc(g->device, 4096, HCQ_ZEROED, &g->a)) &&
           TAKE(hcq_alloc(g->device, 4096, HCQ_HOST_VISIBLE, &g->b)) &&
           TAKE(hcq_alloc(g->device, 20u << 20, 0, &g->large)) &&
           TAKE(hcq_copyin(g->a, words, sizeof words)) &&
           TAKE(hcq_signal_create(g->device, 0, &g->s)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &g->q)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COPY, &g->copy)) &&
           TAKE(hcq_queue_create(g->device, HCQ_GRAPH, &g->graph)) &&
           TAKE(hcq_queue_create(g->device, HCQ_COMPUTE, &g->lone));
}

static void stage_record(const stage *g) {
    step_args args = {g->a.address, g->a.address + 64, 3, 4};
    hcq_dims one = hcq_dim(1, 1, 1);
    (void)hcq_queue_exec(g->q, g->step, &args, sizeof args, one, one);
    (void)hcq_queue_copy(g->q, g->b, g->a, 4096);
    (void)hcq_queue_fill(g->q, hcq_view(g->a, 3, 61), 61, 7, 1);
    (void)hcq_queue_fill(g->q, hcq_view(g->a, 1024, 512), 512, 0x123456789a, 8);
    (void)hcq_queue_fill(g->q, hcq_view(g->a, 2048, 62), 62, 7, 2);
    (void)hcq_queue_timestamp(g->q, g->s);
    (void)hcq_queue_signal(g->q, hcq_at(g->s, 1));
    (void)hcq_queue_host(g->q, host_ok, NULL);
    (void)hcq_queue_write(g->q, g->b, 5, 8);
    (void)hcq_queue_write(g->q, g->a, 5, 4);
    (void)hcq_queue_exec(g->q, g->step, &args, sizeof args, one, one);
    (void)hcq_queue_wait(g->copy, hcq_at(g->s, 1));
    (void)hcq_queue_copy(g->copy, hcq_view(g->b, 0, 64), hcq_view(g->a, 64, 64), 64);
    (void)hcq_queue_timestamp(g->copy, g->s);
    (void)hcq_queue_exec(g->graph, g->step, &args, sizeof args, one, one);
    (void)hcq_queue_copy(g->graph, g->b, g->a, 4096);
    (void)hcq_queue_fill(g->graph, g->large, 4096, 1, 4);
    (void)hcq_queue_exec(g->lone, g->step, &args, sizeof args, one, one);
}

/* Bound, profiled, with other values each time; then lanes that wait for each other. */
static void stage_replay(const stage *g) {
    hcq_submission s;
    hcq_point done = {{0}, 0}, before = {{0}, 0};
    TAKE(hcq_queue_update_signal(g->q, 6, NULL, 2));
    TAKE(hcq_queue_bind(g->q, g->device));
    TAKE(hcq_profile_start(g->device, NULL));
    for (uint32_t i = 2; i < 5; i++) {
        hcq_dims grid = {i, 1, 1};
        TAKE(hcq_queue_update_exec(g->q, 0, &grid, NULL));
        TAKE(hcq_queue_update_copy(g->q, 1, NULL, NULL, 4096 - i));
        TAKE(hcq_queue_update_signal(g->q, 6, NULL, i));
        (void)run_step(g->q, g->device);
    }
    TAKE(hcq_profile_stop(g->device));
    memset(&s, 0, sizeof s);
    s.queues = &g->lone;
    s.queue_count = 1;
    s.waits = &before;
    for (uint32_t i = 0; i < 6; i++) {
        s.affinity = i & 1;
        if (TAKE(hcq_submit(g->device, &s, 1, &done))) {
            before = done;
            s.wait_count = 1;
        }
    }
    if (s.wait_count) {
        TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
    }
}

static void stage_eager(stage *g) {
    static unsigned char words[4096];
    static unsigned char pages[65536];
    const uint64_t values[2] = {1, 4};
    hcq_buffer both[2] = {g->a, g->a}, in;
    double seconds;
    hcq_clock clock;
    hcq_cuda_program_info info;
    TAKE(hcq_copyout(words, g->b, sizeof words));
    TAKE(hcq_copyout(words, g->a, sizeof words));
    TAKE(hcq_program_call(g->step, both, 2, values, 2, NULL, NULL, &seconds));
    TAKE(hcq_device_clock(g->device, &clock));
    TAKE(hcq_cuda_program(g->step, &info));
    if (TAKE(hcq_alloc(g->device, 50000, HCQ_ZEROED | HCQ_NO_CACHE, &g->late))) {
        TAKE(hcq_free(g->late));
    }
    TAKE(hcq_free(g->large));
    TAKE(hcq_trim(g->device, 0));
    if (hcq_import(g->device, pages, sizeof pages, &in) == HCQ_OK) {
        TAKE(hcq_transfer(hcq_transfer_device(in), hcq_transfer_device(g->a), 4096, 0,
                          3 * SECOND));
        TAKE(hcq_free(in));
    }
    TAKE(hcq_device_synchronize(g->device, 3 * SECOND));
}

/* An event of an application's, recorded on a lane's stream. */
static void stage_import_event(const stage *g, const hcq_cuda_info *info) {
    hcq_cuda_lane_info lane;
    hcq_point done;
    raw_context context;
    raw_event event;
    if (!TAKE(hcq_cuda_lane(g->device, HCQ_COMPUTE, 0, &lane)) ||
        R.cuCtxPushCurrent_v2(info->context) != 0) {
        return;
    }
    if (R.cuEventCreate(&event, RAW_NO_TIMES) == 0) {
        if (R.cuEventRecord(event, lane.stream) == 0 &&
            TAKE(hcq_cuda_import_event(g->device, event, &done))) {
            TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
        }
        (void)R.cuEventDestroy_v2(event);
    }
    (void)R.cuCtxPopCurrent_v2(&context);
}

/* Events for an application, and of one. */
static void stage_native(const stage *g) {
    hcq_cuda_info info;
    hcq_point done;
    raw_event event;
    if (TAKE(hcq_queue_submit(g->lone, g->device, &done)) &&
        TAKE(hcq_cuda_event_acquire(g->device, done, &event))) {
        TAKE(hcq_cuda_event_release(g->device, event));
    }
    if (TAKE(hcq_cuda_info_get(g->device, &info))) {
        raw_load(g->device);
        stage_import_event(g, &info);
    }
}

/* A bit of everything; whatever fails, closing gives all back. */
static void stage_play(uint32_t flags) {
    stage g;
    if (stage_open(&g, flags)) {
        stage_record(&g);
        if (run_step(g.q, g.device)) { /* else nobody raises what it waits for */
            (void)run_step(g.copy, g.device);
        }
        stage_replay(&g);
        (void)run_step(g.graph, g.device);
        (void)run_step(g.graph, g.device);
        stage_native(&g);
        stage_eager(&g);
    }
    if (g.device && hcq_close(g.device) != HCQ_OK) {
        steps.bad = 1;
        took_step("hcq_close", HCQ_ERROR_BUSY);
    }
    steps.bad |= (flags & STAGE_MAY_LEAVE ? T.memory.blocks : things_now()) != 0;
}

/* One way to fail: a result from the call behind `skip` others of a function; without
   a name, from the operation behind so many. */
typedef struct mishap {
    const char *variant, *name;
    uint64_t skip;
    int result;
    uint32_t flags;                    /* of the device, besides */
} mishap;

static mishap Z;                       /* of the child */

enum { MISHAP_NONE = 3, MISHAP_BAD = 4 };

/* mishap VARIANT NAME SKIP RESULT FLAGS SEED */
static int mishap_start(int argc, char **argv) {
    char *few[] = {argv[0], argv[2], argv[7]};
    if (argc != 8) {
        return 2;
    }
    Z.name = argv[3];
    Z.skip = strtoull(argv[4], NULL, 0);
    Z.result = (int)strtol(argv[5], NULL, 0);
    Z.flags = (uint32_t)strtoul(argv[6], NULL, 0);
    return test_start(3, few);
}

static int mishap_main(void) {
    mock_cuda_desc desc = mock_wanted();
    alarm(60);
    desc.watchdog_ms = 20000;
    M.setup(&desc);
    if (strcmp(Z.name, "-") == 0) {
        M.fail_operation(NULL, Z.skip, Z.result);
    } else {
        (M.fail)(Z.name, Z.skip, 1, Z.result);
    }
    stage_play(Z.flags);
    mock_cuda_counts c = stats_now();
    if (steps.bad) {
        fprintf(stderr, "%s, log:\n%s", steps.text, T.log.text);
        tell_things();
        return MISHAP_BAD;
    }
    return c.failed || (strcmp(Z.name, "-") == 0 && c.operations + c.dropped > Z.skip)
               ? 0 : MISHAP_NONE;
}

/* 0: it came to nothing, the scene has fewer calls. */
static int mishap_run(const mishap *m) {
    char skip[24], result[24], flags[24], seed[24];
    int status = 0;
    snprintf(skip, sizeof skip, "%llu", (unsigned long long)m->skip);
    snprintf(result, sizeof result, "%d", m->result);
    snprintf(flags, sizeof flags, "%u", (unsigned)m->flags);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)(T.seed + m->skip));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "cuda", "mishap", m->variant, m->name, skip, result, flags, seed,
              (char *)NULL);
        _exit(127);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == MISHAP_NONE) {
        return 0;
    }
    if (status != 0) {
        fprintf(stderr, "cuda mishap %s '%s' %s %s %s %s: status %#x\n", m->variant, m->name, skip,
                result, flags, seed, (unsigned)status);
        fail();
    }
    return 1;
}

static void mishaps(const char *name, int result, uint32_t flags) {
    uint64_t most = T.rounds ? T.rounds : T.quick ? 2 : 12;
    mishap m = {T.variant->name, name, 0, result, flags};
    while (m.skip < most && mishap_run(&m)) {
        m.skip += 1 + (T.quick ? m.skip * 3 : m.skip / 4);
    }
}

/* Does the function give something back? What it refuses to take stays. */
static int gives_back(const char *name) {
    return strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Release") ||
           strstr(name, "Unregister") || strstr(name, "Unload");
}

/* Memory is out, says each function in turn. */
static void every_call_fails(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof hcqi_cuda_names / sizeof hcqi_cuda_names[0]; i++) {
        const char *name = hcqi_cuda_names[i].name;
        if (strcmp(name, "cuGetErrorName") != 0) {
            mishaps(name, 2, gives_back(name) ? STAGE_MAY_LEAVE : 0);
        }
    }
}

/* Any call may be the first to tell that the context is gone. */
static void every_call_tells_a_loss(void **state) {
    (void)state;
    static const char *const names[] = {
        "cuMemcpyAsync", "cuLaunchKernel", "cuGraphLaunch", "cuStreamWriteValue64_v2",
        "cuStreamWaitEvent", "cuEventRecord", "cuEventQuery", "cuStreamQuery",
        "cuMemsetD8Async", "cuMemsetD32Async", "cuMemAllocFromPoolAsync", "cuStreamSynchronize",
        "cuGraphExecKernel*", "cuMemHostAlloc", "cuCtxPushCurrent_v2",
        "cuCtxSynchronize", "-"
    };
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        mishaps(names[i], 719, 0);     /* CUDA_ERROR_LAUNCH_FAILED */
        mishaps(names[i], 719, HCQ_CUDA_TRAIL);
    }
}

#define ERROR_TESTS                                                                \
    TEST_ALONE(context_is_lost_anywhere), TEST_ALONE(errors_that_end_a_context),   \
    TEST_ALONE(errors_name_the_command), TEST(marks_change_nothing),               \
    TEST_ALONE(others_survive_a_loss), TEST_ALONE(waiters_wake_at_a_loss),         \
    TEST_ALONE(every_call_fails), TEST_ALONE(every_call_tells_a_loss),
