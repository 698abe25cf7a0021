/* draw.h - random graphs: which calls they have. Part of graph.c. */

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

/* Without a statement an argument reaches to the end of its memory, and may be written
   if its program says so; what orders everything says nothing. */
static void set_touches(const graph *g, call *c) {
    const int open = c->kind == CALL_MIX && !c->stated;
    c->touch_count = 0;
    for (uint32_t i = 0; i < 3 && !c->fence; i++) {
        span s = c->spans[i];
        if (s.size) {
            s.size = open ? name_size(g, s.name) - s.at : s.size;
            add_touch(c, &s, i == 0 || (i == 1 && open && c->shape == SHAPE_LOOSE));
        }
    }
    if (c->has_extra) {
        add_touch(c, &c->extra.where, c->extra.writes);
    }
}

/* ---- calls ---- */

static void draw_mix(graph *g, call *c, uint32_t index) {
    c->device = g->devices[pick(g->device_count)];
    c->shape = pick(SHAPES);
    c->stated = chance(70);
    do {
        for (uint32_t i = 0; i < 3; i++) {
            c->spans[i] = pick_span(g, pick_name(g, c->device, index), 4, pick_most());
        }
    } while (spans_meet(&c->dst, &c->a) || spans_meet(&c->dst, &c->b) ||
             (c->a.name == c->b.name && c->a.at == c->b.at)); /* which one is stated? */
}

static void draw_numbers(const graph *g, call *c) {
    c->with.n = c->dst.size / 4;
    c->with.a_n = c->a.size / 4;
    c->with.b_n = c->b.size / 4;
    c->with.seed = pick(1000);
    c->with.reads = c->kind == CALL_HOST ? (uint32_t)chance(50) : c->shape != SHAPE_OUT;
    c->with.pause_us = chance(g->pauses) ? 1 + pick(200) : 0;
    c->grid = (c->with.n + THREADS_OF_BLOCK - 1) / THREADS_OF_BLOCK;
    if (chance(10) && c->grid > 1) {
        c->grid--;
    }
    c->indirect = c->kind == CALL_MIX && c->grid < GRIDS && chance(10);
}

/* Between any two devices. */
static void draw_copy(graph *g, call *c, uint32_t index) {
    uint32_t most = chance(35) ? 40000 : pick_most();
    uint32_t to = g->devices[pick(g->device_count)];
    uint32_t from = chance(50) ? to : g->devices[pick(g->device_count)];
    do {
        uint32_t size;
        c->dst = pick_span(g, pick_name(g, to, index), 1, most);
        c->a = pick_span(g, pick_name(g, from, index), 1, most);
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
    c->value_size = c->kind == CALL_WRITE ? 8 : sizes[pick(4)];
    c->device = g->devices[pick(g->device_count)];
    c->dst = pick_span(g, pick_name(g, c->device, index),
                       c->kind == CALL_WRITE ? 1 : c->value_size, pick_most());
    uint32_t word = sizes[pick(4)];
    if (c->kind == CALL_WRITE && word < c->dst.size && chance(50)) {
        c->dst.size = word;
    }
    c->device = g->device_of[c->dst.name];
    c->value = test_random(&W.random);
}

/* Stated and in the order of its device, or ordered with everything at home. */
static void draw_host(graph *g, call *c) {
    c->fence = chance(10);
    do {
        for (uint32_t i = 0; i < 3; i++) {
            c->spans[i] = pick_span(g, pick_memory(g), 4, pick_most());
        }
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
        c->part = chance(50) && !c->indirect ? (uint32_t)HCQ_PART_GRID_X
                                             : (uint32_t)PART_SEED;
        c->maximum = c->part == HCQ_PART_GRID_X && chance(50) ? c->grid + 3 : 0;
        break;
    case CALL_FILL:
        c->part = chance(50) ? HCQ_PART_VALUE : HCQ_PART_SIZE;
        break;
    case CALL_WRITE:
        c->part = c->dst.size <= 8 && (c->dst.size & (c->dst.size - 1)) == 0 ? HCQ_PART_VALUE : 0;
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
           : dice < 97 ? CALL_CUSTOM
           : dice < 98 ? CALL_STAMP
                       : CALL_BARRIER;
}

static void draw_call(graph *g, uint32_t index, uint32_t *variables) {
    call *c = &g->calls[index];
    *c = (call){.kind = pick_kind()};
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
    case CALL_STAMP:
        c->fence = c->kind == CALL_BARRIER;
        c->device = g->devices[0];
        break;
    default:
        draw_fill(g, c, index);
        break;
    }
    if (c->kind == CALL_MIX || c->kind == CALL_HOST) {
        draw_numbers(g, c);
    }
    if (c->kind != CALL_STAMP && chance(6)) { /* a host command's comes last: it runs elsewhere */
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
    for (uint32_t i = 0; i < DEVICES; i++) {
        g->devices[i] = i;
    }
    shuffle(g->devices, DEVICES);
    g->device_count = 1 + pick(DEVICES);
    for (uint32_t m = 0; m < MEMORIES; m++) {
        g->device_of[m] = m / PER_DEVICE;
    }
}

static void choose_edges(graph *g) {
    uint32_t wanted = chance(50) ? 0 : pick(EDGES / 2);
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t after = 1 + pick(g->count - 1), before = pick(after);
        if (g->calls[before].kind != CALL_EMPTY && g->calls[after].kind != CALL_EMPTY) {
            g->edges[g->edge_count].before = before;
            g->edges[g->edge_count++].after = after;
        }
    }
}

/* HCQ_STEP wants kernels of one device and copies with one output. */
static void find_can_step(graph *g) {
    g->can_step = 1;
    for (uint32_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        int alone = !c->has_extra || g->device_of[c->extra.where.name] == c->device;
        for (uint32_t k = 0; k < 3; k++) {
            alone &= g->device_of[c->spans[k].name] == c->device;
        }
        g->can_step &= c->kind == CALL_MIX    ? alone
                       : c->kind == CALL_COPY ? !c->has_extra || !c->extra.writes
                                              : 1;
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
    uint32_t dice = pick(100);
    uint32_t count = 2 + (dice < 25 ? pick(11) : dice < 70 ? pick(63) : pick(CALLS - 1));
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
