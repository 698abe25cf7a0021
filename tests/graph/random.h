/* random.h - launching random graphs, changing them, comparing every byte. Part of
   graph.c. */

enum { IN_FLIGHT = 12 };               /* launches; mostly up to 3 */

/* ---- launches ---- */

static int is_touched(const graph *g, uint32_t name, int only_writes) {
    for (uint32_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        for (uint32_t t = 0; t < c->touch_count; t++) {
            if (c->touches[t].where.name == name && (c->touches[t].writes || !only_writes)) {
                return 1;
            }
        }
    }
    return 0;
}

/* Where an input's bytes are in this launch. */
static span input_span(const graph *g, const launch *l, uint32_t n) {
    return (span){l->inputs[n].memory, l->inputs[n].at, g->sizes[FIRST_INPUT + n]};
}

/* To memory that the graph does not name, or to any. */
static void bind_input(const graph *g, launch *l, uint32_t n, int any) {
    uint32_t name = FIRST_INPUT + n, size = g->sizes[name];
    uint32_t unit = any ? 8 + 8 * pick(8) : chance(50) ? 64 : size; /* many fit in, too */
    binding *b = &l->inputs[n];
    b->memory = g->device_of[name] * PER_DEVICE + (any ? pick(PER_DEVICE) : OWN + pick(SPARES));
    b->at = pick(((uint32_t)W.memory[b->memory].size - size) / unit + 1) * unit;
}

/* Has the input bytes in common with what a call touches by another name, and one of
   them is written? */
static int is_aliased(const graph *g, const launch *l, uint32_t n) {
    const touch mine = {input_span(g, l, n), is_touched(g, FIRST_INPUT + n, 1)};
    for (uint32_t m = 0; m < INPUTS; m++) {
        const touch other = {input_span(g, l, m), is_touched(g, FIRST_INPUT + m, 1)};
        if (m != n && is_touched(g, FIRST_INPUT + m, 0) && touches_conflict(&mine, &other)) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < g->count; i++) {
        for (uint32_t t = 0; t < g->calls[i].touch_count; t++) {
            if (touches_conflict(&mine, &g->calls[i].touches[t])) {
                return 1;
            }
        }
    }
    return 0;
}

static int any_aliased(const graph *g, const launch *l) {
    for (uint32_t n = 0; n < INPUTS; n++) {
        if (is_touched(g, FIRST_INPUT + n, 0) && is_aliased(g, l, n)) {
            return 1;
        }
    }
    return 0;
}

static void bind_inputs(const graph *g, launch *l) {
    do {
        for (uint32_t n = 0; n < INPUTS; n++) {
            for (uint32_t tries = 0; g->sizes[FIRST_INPUT + n] && tries < 20; tries++) {
                bind_input(g, l, n, 0);
                tries = is_aliased(g, l, n) ? tries : 20;
            }
        }
    } while (any_aliased(g, l));
}

/* Two inputs of one size on one device change places, now and then. */
static void swap_inputs(const graph *g, launch *l) {
    for (uint32_t n = 0; n < INPUTS; n++) {
        for (uint32_t m = n + 1; m < INPUTS; m++) {
            uint32_t a = FIRST_INPUT + n, b = FIRST_INPUT + m;
            if (g->sizes[a] && g->sizes[a] == g->sizes[b] &&
                g->device_of[a] == g->device_of[b] && chance(70)) {
                binding keep = l->inputs[n];
                l->inputs[n] = l->inputs[m];
                l->inputs[m] = keep;
            }
        }
    }
}

static void choose_variables(const graph *g, launch *l) {
    for (uint32_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        uint64_t *v = &l->variables[c->variable];
        if (l->has_variables && chance(40)) {
            continue;                  /* as in the launch before */
        }
        switch (c->part) {
        case 0:
            break;
        case HCQ_PART_GRID_X:
            *v = pick((uint32_t)(c->maximum ? c->maximum : c->grid) + 1);
            break;
        case HCQ_PART_SIZE:
            *v = chance(30) ? c->dst.size : 1 + pick(c->dst.size);
            if (c->kind == CALL_FILL) {
                *v = (*v + c->value_size - 1) / c->value_size * c->value_size;
            }
            break;
        case HCQ_PART_VALUE:
            *v = test_random(&W.random);
            break;
        default:
            *v = pick(1000);
            break;
        }
    }
    l->has_variables = 1;
}

static hcq_result submit_launch(const graph *g, const launch *l, hcq_point *point) {
    hcq_value values[HCQ_MAX_VALUES] = {0};
    for (uint32_t n = 0; n < INPUTS; n++) {
        const binding *b = &l->inputs[n];
        if (is_touched(g, FIRST_INPUT + n, 0)) { /* others may be missing; larger is fine */
            hcq_buffer view = hcq_view(W.memory[b->memory], b->at,
                                       chance(50) ? g->sizes[FIRST_INPUT + n] : 0);
            values[INPUT_NUMBER(n)] =
                chance(50) ? hcq_value_buffer(view) : hcq_value_number(view.address);
        }
    }
    for (uint32_t v = 0; v < VARIABLES; v++) {
        values[VARIABLE_NUMBER(v)] = hcq_value_number(l->variables[v]);
    }
    return SUBMIT(W.devices[g->devices[0]], g->queue, point, .waits = &W.gate,
                  .wait_count = l->held && W.shut, .values = values,
                  .value_count = INPUT_NUMBER(INPUTS), .flags = l->flags);
}

/* ---- comparing ---- */

/* Only when nothing is in flight. */
static void compare_all(void) {
    for (uint32_t m = 0; m < DEVICES * PER_DEVICE; m++) {
        const unsigned char *got = (const unsigned char *)W.memory[m].host;
        uint32_t size = (uint32_t)W.memory[m].size, i = 0;
        if (memcmp(got, W.model[m], size) == 0) {
            continue;
        }
        while (got[i] == W.model[m][i]) {
            i++;
        }
        wrong("memory %u (device %u) differs at byte %u: %#x, not %#x", m, m / PER_DEVICE, i,
              got[i], W.model[m][i]);
    }
}

static void shut_gate(void) {
    W.gate.value++;
    W.shut = 1;
}

static void open_gate(void) {
    if (W.shut) {
        MUST(hcq_signal_set(W.gate.signal, W.gate.value));
        W.shut = 0;
    }
}

static void wait_for(const hcq_point *points, uint32_t count) {
    static char text[32768];
    open_gate();
    hcq_result r = hcq_wait(points, count, HCQ_ALL, BOUND);
    if (r == HCQ_TIMEOUT) {
        hcq_explain(points, count, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    WRONG_IF(r != HCQ_OK, "waiting for %u launches gives %s", count, hcq_result_name(r));
}

/* ---- between launches ---- */

/* Earlier work of a device that the graph uses: a launch without HCQ_OVERLAP
   follows it although nobody waits. */
static void submit_plain(const graph *g, const hcq_point *waits, uint32_t wait_count) {
    const call *c = &g->calls[pick(g->count)];
    hcq_queue *q = NULL;
    span where;
    uint64_t value = test_random(&W.random);
    if (c->kind == CALL_EMPTY) {
        return;
    }
    where = pick_span(g, c->device * PER_DEVICE + pick(OWN), 8, 4096);
    MUST(hcq_queue_create(W.devices[c->device], chance(30) ? HCQ_COPY : HCQ_COMPUTE, &q));
    MUST_INDEX(hcq_queue_fill(q, hcq_view(W.memory[where.name], where.at, where.size),
                              where.size, value, 8), 0);
    MUST(SUBMIT(W.devices[c->device], q, NULL, .waits = waits, .wait_count = wait_count,
                .flags = chance(30) ? HCQ_UNORDERED : 0));
    hcq_queue_destroy(q);
    fill_bytes(W.model[where.name] + where.at, where.size, value, 8);
}

/* A range of the same size elsewhere that the call may use instead. */
static span move_span(const graph *g, uint32_t device, uint32_t index, const span *old,
                      uint32_t unit) {
    span s = *old;
    uint32_t name = pick_name(g, device, index);
    if (name_size(g, name) >= s.size) {
        s.name = name;
    }
    s.at = pick(name_size(g, s.name) - s.size + 1);
    s.at -= s.at % unit;
    return s;
}

static void update_copy(graph *g, uint32_t index) {
    call *c = &g->calls[index];
    call now = *c;
    int both = chance(50);
    uint32_t tries = 0;
    do {
        if (tries++ > 50) {
            return;
        }
        now.a = move_span(g, g->devices[pick(g->device_count)], index, &c->a, 1);
        if (both) {
            now.dst = move_span(g, g->devices[pick(g->device_count)], index, &c->dst, 1);
        }
    } while (spans_meet(&now.dst, &now.a));
    if (!c->part && chance(30)) {
        now.dst.size = now.a.size = 1 + pick(now.dst.size);
    }
    hcq_buffer dst = span_buffer(g, &now.dst), src = span_buffer(g, &now.a);
    MUST(hcq_queue_update_copy(g->queue, (int32_t)index, both || chance(50) ? &dst : NULL, &src,
                               now.dst.size != c->dst.size || chance(50) ? now.dst.size
                                                                         : HCQ_KEEP));
    *c = now;
}

/* Which argument is which would be open if a kernel's ranges were stated. */
static void update_argument(graph *g, uint32_t index) {
    call *c = &g->calls[index];
    call now = *c;
    uint32_t arg = pick(3), tries = 0;
    do {
        if (tries++ > 50) {
            return;
        }
        now.spans[arg] = move_span(g, c->device, index, &c->spans[arg], 4);
    } while (spans_meet(&now.dst, &now.a) || spans_meet(&now.dst, &now.b));
    uint64_t address = span_buffer(g, &now.spans[arg]).address;
    MUST(hcq_queue_update_arg(g->queue, (int32_t)index, arg * 8, &address, 8));
    *c = now;
}

/* Not the part that is variable: the launch would say something else. */
static void update_mix(graph *g, uint32_t index) {
    call *c = &g->calls[index];
    hcq_dims grid;
    if (!c->stated && chance(60)) {
        update_argument(g, index);
    } else if (c->part != PART_SEED && chance(50)) {
        c->with.seed = pick(1000);
        MUST(hcq_queue_update_arg(g->queue, (int32_t)index, PART_SEED - HCQ_PART_ARG, &c->with.seed,
                                  4));
    } else if (c->part != HCQ_PART_GRID_X && !c->indirect) {
        c->grid = 1 + pick(c->grid + 1);
        grid = hcq_dim(c->grid, 1, 1);
        MUST(hcq_queue_update_exec(g->queue, (int32_t)index, &grid, NULL));
    }
}

/* Changes a few calls; earlier launches may be in flight. */
static void update_calls(graph *g) {
    for (uint32_t n = 1 + pick(4); n; n--) {
        uint32_t index = pick(g->count);
        call *c = &g->calls[index];
        fill_payload payload;
        switch (c->kind) {
        case CALL_MIX:
            update_mix(g, index);
            break;
        case CALL_COPY:
            update_copy(g, index);
            break;
        case CALL_CUSTOM:
            c->value = test_random(&W.random) & UINT32_MAX;
            payload = call_payload(g, c);
            MUST(hcq_queue_update_custom(g->queue, (int32_t)index, &payload));
            break;
        default:
            break;
        }
        set_touches(g, c);
    }
    find_places(g);
    find_can_step(g);
}

/* ---- launches that are refused ---- */

static void must_refuse(const graph *g, const launch *l, hcq_result want, const char *what) {
    uint64_t was[DEVICES];
    hcq_point point;
    for (uint32_t d = 0; d < DEVICES; d++) {
        was[d] = hcq_device_timeline_value(W.devices[d]);
    }
    hcq_result r = submit_launch(g, l, &point);
    WRONG_IF(r != want, "%s gives %s, not %s", what, hcq_result_name(r), hcq_result_name(want));
    for (uint32_t d = 0; d < DEVICES; d++) {
        WRONG_IF(hcq_device_timeline_value(W.devices[d]) != was[d],
                 "%s is refused, but device %u gave out a number", what, d);
    }
}

/* Inputs in any memory, and a variable above its maximum. */
static void refuse_something(const graph *g, const launch *like) {
    launch l = *like;
    for (uint32_t n = 0; n < INPUTS; n++) {
        if (is_touched(g, FIRST_INPUT + n, 0)) {
            bind_input(g, &l, n, 1);
        }
    }
    if (any_aliased(g, &l)) {
        must_refuse(g, &l, HCQ_ERROR_ALIAS, "an alias");
    }
    l = *like;
    for (uint32_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        if (c->part == HCQ_PART_GRID_X || c->part == HCQ_PART_SIZE) {
            l.variables[c->variable] = c->part == HCQ_PART_SIZE
                                           ? c->dst.size + c->value_size + !c->value_size
                                           : (c->maximum ? c->maximum : c->grid) + 1;
            must_refuse(g, &l, HCQ_ERROR_INVALID, "a variable above its maximum");
            return;
        }
    }
}

/* ---- a seed ---- */

/* Some devices have versions for two launches only: the third is refused as
   long as one of the others is held back. */
static void launch_and_model(graph *g, const launch *l, hcq_point *points, uint32_t at,
                             int check) {
    hcq_result r = submit_launch(g, l, &points[at]);
    if (r == HCQ_ERROR_LIMIT && at >= 2) {
        wait_for(points, at);
        r = submit_launch(g, l, &points[at]);
    }
    WRONG_IF(r != HCQ_OK, "a launch with flags %#x gives %s", l->flags, hcq_result_name(r));
    if (check) {
        check_plan(g);
    }
    model_launch(g, l);
}

static void step_once(graph *g, launch *l) {
    hcq_point point;
    l->flags = HCQ_STEP | (chance(30) ? (uint32_t)HCQ_COPY_LISTS : 0);
    W.step = "stepping";
    if (!g->can_step) {
        must_refuse(g, l, HCQ_ERROR_INVALID, "a step that is not possible");
        return;
    }
    launch_and_model(g, l, &point, 0, 0);
    WRONG_IF(test_poll(point) != HCQ_OK, "a step's point is not reached");
}

/* Up to IN_FLIGHT launches at once, with other inputs and variables, updates
   and other work between them. */
static void run_burst(graph *g, launch *l, int *stale) {
    hcq_point points[IN_FLIGHT];
    uint32_t count = 1 + pick(chance(10) ? (uint32_t)IN_FLIGHT : 3);
    int plain = 0;                     /* what HCQ_OVERLAP would not follow */
    if (chance(30)) {
        shut_gate();
    }
    for (uint32_t i = 0; i < count; i++) {
        W.step = "a burst";
        if (chance(25)) {
            update_calls(g);
            *stale = 1;
        }
        if (chance(60)) {
            bind_inputs(g, l);
        } else {
            swap_inputs(g, l);
        }
        if (any_aliased(g, l)) {       /* an update has made one of them written */
            bind_inputs(g, l);
        }
        choose_variables(g, l);
        l->held = chance(60);
        l->flags = i && !plain && chance(75) ? HCQ_OVERLAP : 0;
        if (!l->flags && chance(25)) {
            submit_plain(g, points, i);
            plain = 1;
        }
        launch_and_model(g, l, points, i, *stale);
        *stale = 0;
        R.in_flight += i && test_poll(points[i - 1]) == HCQ_TIMEOUT;
    }
    open_gate();
    if (chance(30)) {
        bind_inputs(g, l);
        choose_variables(g, l);
        step_once(g, l);
    }
    wait_for(points, count);
}

/* Nothing of the graph is needed any more once it is submitted, held or not. */
static void destroy_in_flight(graph *g, launch *l) {
    hcq_point point;
    bind_inputs(g, l);
    choose_variables(g, l);
    l->flags = 0;
    l->held = 1;
    W.step = "destroying in flight";
    if (chance(50)) {
        shut_gate();
    }
    launch_and_model(g, l, &point, 0, 0);
    if (chance(50)) {
        MUST(hcq_queue_reset(g->queue));
    }
    hcq_queue_destroy(g->queue);
    g->queue = NULL;
    wait_for(&point, 1);
    compare_all();
}

static void run_seed(uint64_t seed) {
    static char running[64];
    static launch l;
    graph *g = &W.graph;
    int stale = 1;
    alarm(TEST_SANITIZED ? 900 : 300);
    test_alive();
    snprintf(running, sizeof running, "graph %s --first %llu", T.variant->name,
             (unsigned long long)seed);
    T.running = running;
    log_clear();
    round_number = seed;
    W.random = seed * 0x9e3779b97f4a7c15ull + 1;
    memset(&l, 0, sizeof l);
    W.step = "recording";
    draw_graph(g);
    record_graph(g);
    find_places(g);
    bind_inputs(g, &l);
    if (chance(50)) {
        MUST(hcq_queue_bind(g->queue, W.devices[g->devices[0]]));
        check_plan(g);
    }
    W.step = "scheduling";
    check_schedule(g, 0);
    check_schedule(g, HCQ_COPY_LISTS);
    for (uint32_t rounds = 2 + pick(5); rounds; rounds--) {
        run_burst(g, &l, &stale);
        compare_all();
        if (chance(30)) {
            W.step = "refusing";
            refuse_something(g, &l);
            compare_all();
        }
    }
    if (chance(50)) {
        destroy_in_flight(g, &l);
    }
    hcq_queue_destroy(g->queue);
    g->queue = NULL;
    for (uint32_t d = 0; d < DEVICES; d++) {
        hcq_error_info error;
        MUST(hcq_device_error_take(W.devices[d], &error));
        WRONG_IF(error.result != HCQ_OK, "device %u has met %s", d, hcq_result_name(error.result));
    }
}
