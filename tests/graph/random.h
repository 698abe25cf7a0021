/* random.h - making graphs, launching them, comparing every byte. Part of
   graph.c. */
#ifndef HCQ_TEST_GRAPH_RANDOM_H
#define HCQ_TEST_GRAPH_RANDOM_H

enum { IN_FLIGHT = 12 };               /* launches; mostly up to 3 */

/* ---- names and ranges ---- */

static uint32_t name_size(const graph *g, uint32_t name) {
    return name < FIRST_INPUT ? (uint32_t)W.memory[name].size : g->sizes[name];
}

/* May commands of `device` name it? */
static int sees(const graph *g, uint32_t device, uint32_t name) {
    return W.sees[device][g->device_of[name]];
}

static int spans_meet(const span *a, const span *b) {
    return a->name == b->name && a->at < b->at + b->size && b->at < a->at + a->size;
}

/* A range whose ends are likely to meet those of others: eighths of the memory,
   exactly or one unit off. `unit` divides both ends. */
static span pick_span(const graph *g, uint32_t name, uint32_t unit, uint32_t most) {
    uint32_t size = name_size(g, name), step = size / 8;
    uint32_t at = pick(8) * step, end = at + (chance(50) ? step : 1 + pick(most));
    span s;
    if (chance(30)) {
        at += chance(50) || !at ? unit : 0u - unit;
    }
    if (chance(20)) {
        at = pick(size - unit + 1);
    }
    end = end > at + most ? at + most : end;
    end = end > size ? size : end;
    at -= at % unit;
    end -= end % unit;
    if (end <= at) {
        end = at + unit;
    }
    s.name = name;
    s.at = at;
    s.size = end - at;
    return s;
}

static uint32_t pick_most(void) {
    uint32_t dice = pick(10);
    return dice < 4 ? 64 : dice < 9 ? 1024 : 4096;
}

/* A name that `device` sees: one in play, or an empty that has contents. */
static uint32_t pick_name(const graph *g, uint32_t device, uint32_t index) {
    for (uint32_t tries = 0; tries < 100; tries++) {
        uint32_t e = pick(EMPTIES), name = g->names[pick(g->name_count)];
        if (chance(12) && g->ready[e] < index) {
            name = FIRST_EMPTY + e;
        }
        if (sees(g, device, name)) {
            return name;
        }
    }
    return device * PER_DEVICE + pick(OWN);
}

/* One that the host can name, on any device. */
static uint32_t pick_memory(const graph *g) {
    uint32_t name;
    do {
        name = g->names[pick(g->name_count)];
    } while (name >= FIRST_INPUT);
    return name;
}

/* ---- what the planner has to assume ---- */

static void add_touch(call *c, const span *where, int writes) {
    c->touches[c->touch_count].where = *where;
    c->touches[c->touch_count++].writes = writes;
}

/* Without a statement an argument reaches to the end of its memory. */
static void add_argument(const graph *g, call *c, const span *s, int writes) {
    span wide = *s;
    if (!c->stated) {
        wide.size = name_size(g, s->name) - s->at;
    }
    add_touch(c, &wide, writes);
}

static void set_touches(const graph *g, call *c) {
    c->touch_count = 0;
    switch (c->kind) {
    case CALL_MIX:
        add_argument(g, c, &c->dst, 1);
        add_argument(g, c, &c->a, !c->stated && c->shape == SHAPE_LOOSE);
        add_argument(g, c, &c->b, 0);
        break;
    case CALL_BARRIER:
    case CALL_EMPTY:
        break;
    default:
        if (c->fence) {                /* it says nothing */
            break;
        }
        add_touch(c, &c->dst, 1);
        if (c->a.size) {
            add_touch(c, &c->a, 0);
        }
        if (c->b.size) {
            add_touch(c, &c->b, 0);
        }
        break;
    }
    if (c->has_extra) {
        add_touch(c, &c->extra.where, c->extra.writes);
    }
}

/* ---- calls ---- */

static uint32_t pick_pause(const graph *g) {
    return chance(g->pauses) ? 1 + pick(200) : 0;
}

static void draw_mix(graph *g, call *c, uint32_t index) {
    c->device = g->devices[pick(g->device_count)];
    c->shape = pick(SHAPES);
    c->stated = chance(70);
    do {
        c->dst = pick_span(g, pick_name(g, c->device, index), 4, pick_most());
        c->a = pick_span(g, pick_name(g, c->device, index), 4, pick_most());
        c->b = pick_span(g, pick_name(g, c->device, index), 4, pick_most());
    } while (spans_meet(&c->dst, &c->a) || spans_meet(&c->dst, &c->b) ||
             (c->a.name == c->b.name && c->a.at == c->b.at)); /* which one is stated? */
}

static void draw_numbers(const graph *g, call *c) {
    c->with.n = c->dst.size / 4;
    c->with.a_n = c->a.size / 4;
    c->with.b_n = c->b.size / 4;
    c->with.seed = pick(1000);
    c->with.reads = c->kind == CALL_HOST ? (uint32_t)chance(50) : c->shape != SHAPE_OUT;
    c->with.pause_us = pick_pause(g);
    c->grid = (c->with.n + THREADS_OF_BLOCK - 1) / THREADS_OF_BLOCK;
    if (chance(10) && c->grid > 1) {
        c->grid--;
    }
}

/* Where it sees both, a copy runs on the destination's device. */
static void draw_copy(graph *g, call *c, uint32_t index) {
    uint32_t most = chance(35) ? 40000 : pick_most();
    c->device = g->devices[pick(g->device_count)];
    do {
        uint32_t size;
        c->dst = pick_span(g, pick_name(g, c->device, index), 1, most);
        c->a = pick_span(g, pick_name(g, c->device, index), 1, most);
        if (most == 40000) {
            c->dst.size = name_size(g, c->dst.name) - c->dst.at;
            c->a.size = name_size(g, c->a.name) - c->a.at;
            size = COPY_LANE_BYTES - 1 + pick(most - COPY_LANE_BYTES);
            c->dst.size = c->dst.size > size ? size : c->dst.size;
        }
        c->dst.size = c->dst.size < c->a.size ? c->dst.size : c->a.size;
        c->a.size = c->dst.size;
    } while (spans_meet(&c->dst, &c->a));
    c->device = g->device_of[c->dst.name];
}

static void draw_fill(graph *g, call *c, uint32_t index) {
    static const uint32_t sizes[] = {1, 2, 4, 8};
    c->value_size = sizes[c->kind == CALL_WRITE ? 2 + pick(2) : pick(4)];
    c->device = g->devices[pick(g->device_count)];
    c->dst = pick_span(g, pick_name(g, c->device, index), c->value_size,
                       c->kind == CALL_WRITE ? c->value_size : pick_most());
    c->dst.size = c->kind == CALL_WRITE ? c->value_size : c->dst.size;
    c->device = g->device_of[c->dst.name];
    c->value = test_random(&W.random);
}

/* Stated and in the order of its device, or ordered with everything at home. */
static void draw_host(graph *g, call *c) {
    c->fence = chance(10);
    do {
        c->dst = pick_span(g, pick_memory(g), 4, pick_most());
        c->a = pick_span(g, pick_memory(g), 4, pick_most());
        c->b = pick_span(g, pick_memory(g), 4, pick_most());
    } while (spans_meet(&c->dst, &c->a) || spans_meet(&c->dst, &c->b));
    c->device = c->fence ? g->devices[0] : g->device_of[c->dst.name];
    c->stated = !c->fence;
}

static void draw_custom(graph *g, call *c) {
    uint32_t home = g->devices[0];
    c->fence = chance(10);
    c->value_size = 4;
    c->value = test_random(&W.random) & UINT32_MAX;
    c->dst = pick_span(g, c->fence ? home * PER_DEVICE + pick(OWN) : pick_memory(g), 4,
                       pick_most());
    c->device = g->device_of[c->dst.name];
    c->stated = !c->fence;
}

/* A part of it that each launch brings. */
static void draw_variable(call *c, uint32_t number) {
    c->variable = number;
    switch (c->kind) {
    case CALL_MIX:
        c->part = chance(50) ? (uint32_t)HCQ_PART_GRID_X : (uint32_t)HCQ_PART_ARG + 6u;
        c->maximum = c->part == HCQ_PART_GRID_X && chance(50) ? c->grid + 3 : 0;
        break;
    case CALL_FILL:
        c->part = chance(50) ? HCQ_PART_VALUE : HCQ_PART_SIZE;
        break;
    case CALL_WRITE:
        c->part = HCQ_PART_VALUE;
        break;
    case CALL_COPY:
        c->part = HCQ_PART_SIZE;
        break;
    default:
        break;
    }
}

static void draw_extra(graph *g, call *c, uint32_t index) {
    if (c->fence) {
        return;
    }
    c->extra.where = pick_span(g, pick_name(g, c->device, index), 1, pick_most());
    c->extra.writes = chance(50);
    c->has_extra = c->extra.where.name != c->dst.name && c->extra.where.name != c->a.name &&
                   c->extra.where.name != c->b.name &&
                   (c->kind != CALL_MIX || c->extra.where.name < FIRST_INPUT); /* no argument */
}

static call_kind pick_kind(void) {
    uint32_t dice = pick(100);
    return dice < 50   ? CALL_MIX
           : dice < 70 ? CALL_COPY
           : dice < 77 ? CALL_FILL
           : dice < 83 ? CALL_WRITE
           : dice < 93 ? CALL_HOST
           : dice < 98 ? CALL_CUSTOM
                       : CALL_BARRIER;
}

static void draw_call(graph *g, uint32_t index, uint32_t *variables) {
    call *c = &g->calls[index];
    memset(c, 0, sizeof *c);
    c->kind = pick_kind();
    switch (c->kind) {
    case CALL_MIX:
        draw_mix(g, c, index);
        break;
    case CALL_COPY:
        draw_copy(g, c, index);
        break;
    case CALL_HOST:
        draw_host(g, c);
        break;
    case CALL_CUSTOM:
        draw_custom(g, c);
        break;
    case CALL_BARRIER:
        c->fence = 1;
        c->device = g->devices[0];
        break;
    default:
        draw_fill(g, c, index);
        break;
    }
    if (c->kind == CALL_MIX || c->kind == CALL_HOST) {
        draw_numbers(g, c);
    }
    if (chance(6)) {                   /* a host command's comes last: it runs elsewhere */
        draw_extra(g, c, index);
    }
    if (c->kind <= CALL_WRITE && *variables < VARIABLES && chance(12)) {
        draw_variable(c, (*variables)++);
    }
    set_touches(g, c);
}

/* Memory of the graph and, so that it has contents, a fill of all of it. */
static void draw_empty(graph *g, uint32_t index, uint32_t e) {
    call *made = &g->calls[index], *fill = &g->calls[index + 1];
    uint32_t name = FIRST_EMPTY + e;
    memset(made, 0, 2 * sizeof *made);
    g->device_of[name] = g->devices[pick(g->device_count)];
    g->sizes[name] = 8192u << pick(3);
    g->ready[e] = index + 1;
    made->kind = CALL_EMPTY;
    fill->kind = CALL_FILL;
    made->device = fill->device = g->device_of[name];
    made->dst.name = fill->dst.name = name;
    fill->dst.size = g->sizes[name];
    fill->value = test_random(&W.random);
    fill->value_size = 8;
    set_touches(g, fill);
}

/* ---- graphs ---- */

static void shuffle(uint32_t *list, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = pick(i), keep = list[i - 1];
        list[i - 1] = list[k];
        list[k] = keep;
    }
}

/* Few names make many conflicts. */
static void choose_names(graph *g) {
    uint32_t all[DEVICES * OWN], count = 0;
    for (uint32_t i = 0; i < g->device_count; i++) {
        for (uint32_t k = 0; k < OWN; k++) {
            all[count++] = g->devices[i] * PER_DEVICE + k;
        }
    }
    shuffle(all, count);
    g->name_count = 1 + pick(count);
    memcpy(g->names, all, g->name_count * sizeof all[0]);
    for (uint32_t n = 0; n < INPUTS; n++) {
        if (chance(50)) {
            uint32_t name = FIRST_INPUT + n;
            g->sizes[name] = 8192u << pick(3);
            g->device_of[name] = g->devices[pick(g->device_count)];
            g->names[g->name_count++] = name;
        }
    }
}

static void choose_devices(graph *g) {
    for (uint32_t i = 0; i < W.device_count; i++) {
        g->devices[i] = i;
    }
    shuffle(g->devices, W.device_count);
    g->device_count = 1 + pick(W.device_count);
    for (uint32_t m = 0; m < MEMORIES; m++) {
        g->device_of[m] = m / PER_DEVICE;
    }
}

static uint32_t pick_count(void) {
    uint32_t dice = pick(100);
    return dice < 25 ? 2 + pick(11) : dice < 70 ? 2 + pick(63) : 2 + pick(CALLS - 1);
}

static void choose_edges(graph *g) {
    uint32_t wanted = chance(50) ? 0 : pick(EDGES);
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t after = 1 + pick(g->count - 1), before = pick(after);
        if (g->calls[before].kind != CALL_EMPTY && g->calls[after].kind != CALL_EMPTY) {
            g->edges[g->edge_count].before = before;
            g->edges[g->edge_count++].after = after;
        }
    }
}

/* HCQ_STEP wants kernels of one device and copies with one output. */
static int call_can_step(const graph *g, const call *c) {
    const span *spans[3] = {&c->dst, &c->a, &c->b};
    if (c->kind == CALL_COPY && c->has_extra && c->extra.writes) {
        return 0;
    }
    if (c->kind != CALL_MIX) {
        return 1;
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (g->device_of[spans[i]->name] != c->device) {
            return 0;
        }
    }
    return !c->has_extra || g->device_of[c->extra.where.name] == c->device;
}

static void find_can_step(graph *g) {
    g->can_step = 1;
    for (uint32_t i = 0; i < g->count; i++) {
        g->can_step = g->can_step && call_can_step(g, &g->calls[i]);
    }
}

static void draw_graph(graph *g) {
    uint32_t variables = 0, empties = chance(40) ? 1 + pick(EMPTIES) : 0, made = 0;
    memset(g, 0, sizeof *g);
    for (uint32_t e = 0; e < EMPTIES; e++) {
        g->ready[e] = NOBODY;
    }
    choose_devices(g);
    choose_names(g);
    g->pauses = chance(50) ? 10 : 0;
    uint32_t count = pick_count();
    for (uint32_t i = 0; i < count;) {
        if (made < empties && i + 1 < count && chance(30)) {
            draw_empty(g, i, made++);
            i += 2;
        } else {
            draw_call(g, i++, &variables);
        }
        g->count = i;
    }
    choose_edges(g);
    find_can_step(g);
}

/* ---- launches ---- */

static hcq_buffer bound_buffer(const graph *g, const launch *l, uint32_t n) {
    const binding *b = &l->inputs[n];
    uint64_t size = g->sizes[FIRST_INPUT + n];
    return hcq_view(W.memory[b->memory], b->at, chance(50) ? size : 0); /* larger is fine */
}

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

static int is_written(const graph *g, uint32_t name) {
    return is_touched(g, name, 1);
}

static int bindings_meet(const graph *g, const launch *l, uint32_t n, uint32_t m) {
    const binding *a = &l->inputs[n], *b = &l->inputs[m];
    return a->memory == b->memory && a->at < b->at + g->sizes[FIRST_INPUT + m] &&
           b->at < a->at + g->sizes[FIRST_INPUT + n];
}

static void bind_input(const graph *g, launch *l, uint32_t n) {
    uint32_t name = FIRST_INPUT + n;
    uint32_t unit = chance(50) ? 64 : g->sizes[name]; /* so that many fit in, too */
    l->inputs[n].memory = g->device_of[name] * PER_DEVICE + OWN + pick(SPARES);
    l->inputs[n].at = pick((SPARE_BYTES - g->sizes[name]) / unit + 1) * unit;
}

/* Inputs may share memory where neither is written. */
static int input_fits(const graph *g, const launch *l, uint32_t n) {
    for (uint32_t m = 0; m < INPUTS; m++) {
        if (m != n && g->sizes[FIRST_INPUT + m] && bindings_meet(g, l, n, m) &&
            (is_written(g, FIRST_INPUT + n) || is_written(g, FIRST_INPUT + m))) {
            return 0;
        }
    }
    return 1;
}

static int inputs_fit(const graph *g, const launch *l) {
    for (uint32_t n = 0; n < INPUTS; n++) {
        if (g->sizes[FIRST_INPUT + n] && !input_fits(g, l, n)) {
            return 0;
        }
    }
    return 1;
}

static void bind_inputs(const graph *g, launch *l) {
    do {
        for (uint32_t n = 0; n < INPUTS; n++) {
            for (uint32_t tries = 0; g->sizes[FIRST_INPUT + n] && tries < 20; tries++) {
                bind_input(g, l, n);
                tries = input_fits(g, l, n) ? 20 : tries;
            }
        }
    } while (!inputs_fit(g, l));
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
    hcq_submission s;
    hcq_buffer inputs[INPUTS];
    memset(&s, 0, sizeof s);
    memset(inputs, 0, sizeof inputs);
    for (uint32_t n = 0; n < INPUTS; n++) {
        if (g->sizes[FIRST_INPUT + n]) {
            inputs[n] = bound_buffer(g, l, n);
        }
    }
    s.queues = &g->queue;
    s.queue_count = 1;
    s.inputs = inputs;
    s.input_count = INPUTS;
    s.variables = l->variables;
    s.variable_count = VARIABLES;
    s.flags = l->flags;
    return hcq_submit(W.devices[g->devices[0]], &s, 1, point);
}

/* ---- comparing ---- */

static void print_writers(uint32_t memory, uint32_t at) {
    const graph *g = &W.graph;
    for (uint32_t i = 0; i < g->count; i++) {
        const span *dst = &g->calls[i].dst;
        if (dst->name == memory && dst->at <= at && at < dst->at + dst->size) {
            fprintf(stderr, "call %u writes it\n", i);
        }
    }
}

/* Only when nothing is in flight. */
static void compare_all(void) {
    for (uint32_t m = 0; m < W.device_count * PER_DEVICE; m++) {
        const unsigned char *got = (const unsigned char *)W.memory[m].host;
        uint32_t size = (uint32_t)W.memory[m].size, i = 0;
        if (memcmp(got, W.model[m], size) == 0) {
            continue;
        }
        while (got[i] == W.model[m][i]) {
            i++;
        }
        print_writers(m, i);
        wrong("memory %u (device %u) differs at byte %u: %#x, not %#x", m, m / PER_DEVICE, i,
              got[i], W.model[m][i]);
    }
}

static void wait_for(const hcq_point *points, uint32_t count) {
    static char text[32768];
    hcq_result r = hcq_wait(points, count, HCQ_ALL, BOUND);
    if (r == HCQ_TIMEOUT) {
        hcq_explain(points, count, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    if (r != HCQ_OK) {
        wrong("waiting for %u launches gives %s", count, hcq_result_name(r));
    }
}

/* ---- between launches ---- */

/* Earlier work of a device that the graph uses: a launch without HCQ_OVERLAP
   follows it although nobody waits. */
static void submit_plain(const graph *g, const hcq_point *waits, uint32_t wait_count) {
    const call *c = &g->calls[pick(g->count)];
    hcq_submission s;
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
    memset(&s, 0, sizeof s);
    s.waits = waits;
    s.wait_count = wait_count;
    s.queues = &q;
    s.queue_count = 1;
    s.flags = chance(30) ? HCQ_UNORDERED : 0;
    MUST(hcq_submit(W.devices[c->device], &s, 1, NULL));
    hcq_queue_destroy(q);
    fill_bytes(W.model[where.name] + where.at, where.size, value, 8);
}

/* A range of the same size elsewhere that the call may use instead. */
static span move_span(const graph *g, uint32_t device, const span *old, uint32_t unit) {
    span s = *old;
    uint32_t name = g->names[pick(g->name_count)];
    if (sees(g, device, name) && name_size(g, name) >= s.size) {
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
        now.a = move_span(g, c->device, &c->a, 1);
        if (both) {
            now.dst = move_span(g, c->device, &c->dst, 1);
        }
        now.device = g->device_of[now.dst.name];
    } while (spans_meet(&now.dst, &now.a) || !sees(g, now.device, now.a.name));
    if (!c->part && chance(30)) {
        now.dst.size = now.a.size = 1 + pick(now.dst.size);
    }
    hcq_buffer dst = span_buffer(g, &now.dst), src = span_buffer(g, &now.a);
    MUST(hcq_queue_update_copy(g->queue, index, both || chance(50) ? &dst : NULL, &src,
                               now.dst.size != c->dst.size || chance(50) ? now.dst.size
                                                                         : HCQ_KEEP));
    *c = now;
}

/* Which argument is which would be open if a kernel's ranges were stated. */
static void update_argument(graph *g, uint32_t index) {
    call *c = &g->calls[index];
    call now = *c;
    span *moved[3] = {&now.dst, &now.a, &now.b};
    uint32_t arg = pick(3), tries = 0;
    do {
        if (tries++ > 50) {
            return;
        }
        *moved[arg] = move_span(g, c->device, moved[arg], 4);
    } while (spans_meet(&now.dst, &now.a) || spans_meet(&now.dst, &now.b));
    uint64_t address = g->buffers[moved[arg]->name].address + moved[arg]->at;
    MUST(hcq_queue_update_arg(g->queue, index, arg, &address, 8));
    *c = now;
}

/* Not the part that is variable: the launch would say something else. */
static void update_mix(graph *g, uint32_t index) {
    call *c = &g->calls[index];
    hcq_dims grid;
    if (!c->stated && chance(60)) {
        update_argument(g, index);
    } else if (c->part != HCQ_PART_ARG + 6 && chance(50)) {
        c->with.seed = pick(1000);
        MUST(hcq_queue_update_arg(g->queue, index, 6, &c->with.seed, 4));
    } else if (c->part != HCQ_PART_GRID_X) {
        c->grid = 1 + pick(c->grid + 1);
        grid = hcq_dim(c->grid, 1, 1);
        MUST(hcq_queue_update_exec(g->queue, index, &grid, NULL));
    }
}

static void update_custom(graph *g, uint32_t index) {
    call *c = &g->calls[index];
    fill_payload payload;
    c->value = test_random(&W.random) & UINT32_MAX;
    payload = call_payload(g, c);
    MUST(hcq_queue_update_custom(g->queue, index, &payload));
}

/* Changes a few calls; earlier launches may be in flight. */
static void update_calls(graph *g) {
    for (uint32_t n = 1 + pick(4); n; n--) {
        uint32_t index = pick(g->count);
        call *c = &g->calls[index];
        switch (c->kind) {
        case CALL_MIX:
            update_mix(g, index);
            break;
        case CALL_COPY:
            update_copy(g, index);
            break;
        case CALL_CUSTOM:
            update_custom(g, index);
            break;
        default:
            break;
        }
        set_touches(g, c);
    }
    find_can_step(g);
}

/* ---- launches that are refused ---- */

static void timelines(uint64_t *values) {
    for (uint32_t d = 0; d < W.device_count; d++) {
        values[d] = hcq_device_timeline_value(W.devices[d]);
    }
}

static void must_refuse(const graph *g, const launch *l, hcq_result want, const char *what) {
    uint64_t was[DEVICES], now[DEVICES];
    hcq_point point;
    timelines(was);
    hcq_result r = submit_launch(g, l, &point);
    timelines(now);
    if (r != want) {
        wrong("%s gives %s, not %s", what, hcq_result_name(r), hcq_result_name(want));
    }
    if (memcmp(was, now, W.device_count * sizeof was[0])) {
        wrong("%s is refused, but a number was given out", what);
    }
}

/* One that the graph uses, or NOBODY. */
static uint32_t pick_input(const graph *g) {
    uint32_t n = pick(INPUTS);
    for (uint32_t i = 0; i < INPUTS; i++, n = (n + 1) % INPUTS) {
        if (g->sizes[FIRST_INPUT + n] && is_touched(g, FIRST_INPUT + n, 0)) {
            return n;
        }
    }
    return NOBODY;
}

/* Binds input n over a range of a memory that the graph names. */
static int alias_memory(const graph *g, launch *l, uint32_t n) {
    const call *c = &g->calls[pick(g->count)];
    uint32_t size = g->sizes[FIRST_INPUT + n];
    for (uint32_t t = 0; t < c->touch_count; t++) {
        const span *where = &c->touches[t].where;
        uint32_t whole = name_size(g, where->name);
        if (where->name >= FIRST_INPUT || whole < size ||
            g->device_of[where->name] != g->device_of[FIRST_INPUT + n] ||
            !(c->touches[t].writes || is_written(g, FIRST_INPUT + n))) {
            continue;
        }
        /* one byte of overlap at the least, at one end or the other */
        uint32_t last = where->at + where->size - 1;
        uint32_t at = last + size <= whole ? last : whole - size;
        at = chance(50) && where->at + 1 >= size ? where->at + 1 - size : at;
        if (at <= last && at + size > where->at) {
            l->inputs[n].memory = where->name;
            l->inputs[n].at = at;
            return 1;
        }
    }
    return 0;
}

/* Binds input n over another one: all of it or its last byte. */
static int alias_input(const graph *g, launch *l, uint32_t n) {
    uint32_t m = pick_input(g), size = g->sizes[FIRST_INPUT + n];
    if (n == m || g->device_of[FIRST_INPUT + n] != g->device_of[FIRST_INPUT + m] ||
        !(is_written(g, FIRST_INPUT + n) || is_written(g, FIRST_INPUT + m))) {
        return 0;
    }
    l->inputs[n] = l->inputs[m];
    l->inputs[n].at += chance(50) ? g->sizes[FIRST_INPUT + m] - 1 : 0;
    if (l->inputs[n].at + size > SPARE_BYTES) {
        l->inputs[n].at = SPARE_BYTES - size;
    }
    return bindings_meet(g, l, n, m);
}

static void refuse_something(const graph *g, const launch *like) {
    launch l = *like;
    uint32_t n = pick_input(g);
    if (n != NOBODY && chance(80)) {
        if (chance(50) ? alias_memory(g, &l, n) : alias_input(g, &l, n)) {
            must_refuse(g, &l, HCQ_ERROR_ALIAS, "an alias");
        }
        return;
    }
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
    if (r != HCQ_OK) {
        wrong("a launch with flags %#x gives %s", l->flags, hcq_result_name(r));
    }
    if (check) {
        check_plan(g);
    }
    model_launch(g, l);
    R.launches++;
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
    if (test_poll(point) != HCQ_OK) {
        wrong("a step's point is not reached");
    }
}

/* Up to IN_FLIGHT launches at once, with other inputs and variables, updates
   and other work between them. */
static void run_burst(graph *g, launch *l, int *stale) {
    hcq_point points[IN_FLIGHT];
    uint32_t count = 1 + pick(chance(10) ? (uint32_t)IN_FLIGHT : 3);
    int plain = 0;                     /* what HCQ_OVERLAP would not follow */
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
        if (!inputs_fit(g, l)) {       /* an update has made one of them written */
            bind_inputs(g, l);
        }
        choose_variables(g, l);
        l->flags = i && !plain && chance(75) ? HCQ_OVERLAP : 0;
        if (!l->flags && chance(25)) {
            submit_plain(g, points, i);
            plain = 1;
        }
        launch_and_model(g, l, points, i, *stale);
        *stale = 0;
        R.in_flight += i && test_poll(points[i - 1]) == HCQ_TIMEOUT;
    }
    if (chance(30)) {
        bind_inputs(g, l);
        choose_variables(g, l);
        step_once(g, l);
    }
    wait_for(points, count);
}

/* Nothing of the graph is needed any more once it is submitted. */
static void destroy_in_flight(graph *g, launch *l) {
    hcq_point point;
    bind_inputs(g, l);
    choose_variables(g, l);
    l->flags = 0;
    W.step = "destroying in flight";
    launch_and_model(g, l, &point, 0, 0);
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
    alarm(TEST_SANITIZED ? 600 : 120);
    test_alive();
    snprintf(running, sizeof running, "graph %s --first %llu", T.variant->name,
             (unsigned long long)seed);
    T.running = running;
    log_clear();
    W.seed = seed;
    W.random = seed * 0x9e3779b97f4a7c15ull + 1;
    memset(&l, 0, sizeof l);
    W.step = "recording";
    draw_graph(g);
    record_graph(g);
    bind_inputs(g, &l);
    if (chance(50)) {
        MUST(hcq_queue_bind(g->queue, W.devices[g->devices[0]]));
        check_plan(g);
    }
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
    for (uint32_t d = 0; d < W.device_count; d++) {
        hcq_error_info error;
        MUST(hcq_device_error(W.devices[d], &error));
        if (error.result != HCQ_OK) {
            wrong("device %u has met %s", d, hcq_result_name(error.result));
        }
    }
}

#endif /* HCQ_TEST_GRAPH_RANDOM_H */
