/* plan.h - a slow check of a graph's plan, independent of when things
   happen to run. Part of graph.c.

   The reference knows for each pair of calls whether their order matters: by
   the byte ranges that they touch, pair by pair, by stated edges, by fences.
   From the plan it takes only the lanes' lists and the waits, and computes what
   is surely done when a call starts. Then: every pair that matters is ordered;
   no wait can be left out; a call signals exactly where somebody waits. */

typedef struct set { uint64_t words[PARTS / 64]; } set; /* of calls */

static int set_has(const set *s, uint32_t i) {
    return (int)(s->words[i / 64] >> (i % 64) & 1);
}

static void set_add(set *s, uint32_t i) {
    s->words[i / 64] |= 1ull << (i % 64);
}

static void set_join(set *to, const set *what) {
    for (uint32_t w = 0; w < PARTS / 64; w++) {
        to->words[w] |= what->words[w];
    }
}

/* A call of `a` that is not in `b`, or NOBODY. */
static uint32_t set_missing(const set *a, const set *b) {
    for (uint32_t w = 0; w < PARTS / 64; w++) {
        uint64_t missing = a->words[w] & ~b->words[w];
        for (uint32_t bit = 0; missing && bit < 64; bit++) {
            if (missing >> bit & 1) {
                return w * 64 + bit;
            }
        }
    }
    return NOBODY;
}

static struct reference {
    set hazards[PARTS];                /* earlier calls that must be done before it starts */
    set before[PARTS];                 /* ... that the plan orders before it */
    set without[PARTS];                /* ... if one wait is left out */
    uint64_t waits, overlaps, copy_calls, crossed; /* seen so far */
    uint64_t in_flight;                /* ... launches with the one before it not yet over */
} R;

/* ---- what must be ordered ---- */

static int touches_conflict(const touch *a, const touch *b) {
    return (a->writes || b->writes) && spans_meet(&a->where, &b->where);
}

/* Do touches of the two conflict in one of the names [first, end)? */
static int calls_meet(const call *a, const call *b, uint32_t first, uint32_t end) {
    for (uint32_t i = 0; i < a->touch_count; i++) {
        const uint32_t name = a->touches[i].where.name;
        for (uint32_t k = 0; name >= first && name < end && k < b->touch_count; k++) {
            if (touches_conflict(&a->touches[i], &b->touches[k])) {
                return 1;
            }
        }
    }
    return 0;
}

/* Must `b` follow `a`, which comes first? */
static int calls_conflict(const call *a, const call *b) {
    if (a->kind == CALL_EMPTY || b->kind == CALL_EMPTY) {
        return 0;
    }
    return a->fence || b->fence || b->kind == CALL_STAMP || calls_meet(a, b, 0, NAMES);
}

static void find_hazards(const graph *g) {
    memset(R.hazards, 0, sizeof R.hazards);
    for (uint32_t j = 0; j < g->count; j++) {
        for (uint32_t i = 0; i < j; i++) {
            if (calls_conflict(&g->calls[i], &g->calls[j])) {
                set_add(&R.hazards[j], i);
            }
        }
    }
    for (uint32_t i = 0; i < g->edge_count; i++) {
        set_add(&R.hazards[g->edges[i].after], g->edges[i].before);
    }
}

/* ---- what the plan orders ---- */

/* The first call of the lane that may run together with this one: all before
   that one are done when it starts. */
static uint32_t group_start(const hcqi_plan *plan, uint32_t index) {
    const hcqi_slice *slice = &plan->slices[plan->calls[index].slice];
    uint32_t at = plan->calls[index].place - 1;
    while (at && plan->calls[slice->calls[at]].overlap) {
        at--;
    }
    return at;
}

static void add_prefix(const hcqi_slice *slice, uint32_t count, set *to, const set *before) {
    for (uint32_t i = 0; i < count; i++) {
        set_add(to, slice->calls[i]);
        set_join(to, &before[slice->calls[i]]);
    }
}

/* Everything that is done when each call starts. Calls of a lane start in
   order; a lane's signal says that all up to there is done. */
static void find_before(const graph *g, uint32_t skipped_wait, set *before) {
    const hcqi_plan *plan = &g->queue->graph->plan;
    for (uint32_t i = 0; i < g->count; i++) {
        const hcqi_call *c = &plan->calls[i];
        set *mine = &before[i];
        memset(mine, 0, sizeof *mine);
        if (c->slice == HCQI_NONE) {
            continue;
        }
        const hcqi_slice *slice = &plan->slices[c->slice];
        add_prefix(slice, group_start(plan, i), mine, before);
        for (uint32_t at = 0; at + 1 < c->place; at++) {
            set_join(mine, &before[slice->calls[at]]);
        }
        for (uint32_t w = c->wait_first; w < c->wait_first + c->wait_count; w++) {
            if (w != skipped_wait) {
                const hcqi_call *from = &plan->calls[plan->waits[w]];
                add_prefix(&plan->slices[from->slice], from->place, mine, before);
            }
        }
    }
}

/* A call whose order is missing, with the other one, or NOBODY. */
static uint32_t find_unordered(const graph *g, const set *before, uint32_t *other) {
    for (uint32_t j = 0; j < g->count; j++) {
        *other = set_missing(&R.hazards[j], &before[j]);
        if (*other != NOBODY) {
            return j;
        }
    }
    return NOBODY;
}

/* ---- the checks ---- */

/* Graphs leave a lane alone that has no hardware of its own. */
static int has_copy_lane(const hcq_device *device) {
    return device->caps.copy_lanes != 0 && !device->caps.copy_shared;
}

/* One run of commands of a backend that takes edges is one lane's. */
static int is_whole(const graph *g) {
    const hcq_device *device = NULL;
    for (uint32_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        if (c->kind == CALL_EMPTY) {
            continue;
        }
        if (c->kind == CALL_HOST || c->kind == CALL_CUSTOM ||
            (device && device != W.devices[c->device])) {
            return 0;
        }
        device = W.devices[c->device];
    }
    return device && device->caps.edges;
}

static int may_leave(const graph *g, uint32_t i) {
    const call *c = &g->calls[i];
    return c->kind == CALL_COPY && c->dst.size >= COPY_LANE_BYTES && !is_whole(g) &&
           has_copy_lane(W.devices[c->device]);
}

/* Calls run on their device, on lane 0; but a big copy leaves it if that lane has
   something to do between what the copy needs of it and what needs the copy. */
static void check_lanes(const graph *g, const hcqi_plan *plan) {
    static set needs[PARTS];           /* hazards, directly or not */
    memset(needs, 0, sizeof needs);
    for (uint32_t j = 0; j < g->count; j++) {
        for (uint32_t i = 0; i < j; i++) {
            if (set_has(&R.hazards[j], i)) {
                set_add(&needs[j], i);
                set_join(&needs[j], &needs[i]);
            }
        }
    }
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t place = 0, last = 0, next = NOBODY;
        for (uint32_t k = 0; may_leave(g, i) && k < g->count; k++) {
            if (may_leave(g, k) || g->calls[k].kind == CALL_EMPTY ||
                g->calls[k].device != g->calls[i].device) {
                continue;
            }
            place++;
            last = set_has(&needs[i], k) ? place : last;
            next = set_has(&needs[k], i) && next == NOBODY ? place : next;
        }
        WRONG_IF((plan->calls[i].slice == HCQI_NONE) != (g->calls[i].kind == CALL_EMPTY),
                 "call %u runs %s", i, g->calls[i].kind == CALL_EMPTY ? "somewhere" : "nowhere");
        if (g->calls[i].kind == CALL_EMPTY) {
            continue;
        }
        const hcqi_slice *slice = &plan->slices[plan->calls[i].slice];
        int left = slice->dev->lanes[slice->lane].base.kind == HCQ_COPY;
        int helps = may_leave(g, i) && (next == NOBODY ? place + 1 : next) - last > 1;
        WRONG_IF(slice->dev != W.devices[g->calls[i].device] || left != helps ||
                 (!left && slice->lane != 0), "call %u is on lane %u of %s, and a copy lane %s", i,
                 slice->lane, slice->dev->label, helps ? "helps" : "does not help");
        R.copy_calls += (uint32_t)left;
    }
}

/* Every pair that matters is ordered, and a call signals where somebody waits for it. */
static void check_order(const graph *g, const hcqi_plan *plan) {
    uint32_t other, late;
    set awaited = {0};
    for (uint32_t i = 0; i < g->count; i++) {
        const hcqi_call *c = &plan->calls[i];
        for (uint32_t w = c->wait_first; w < c->wait_first + c->wait_count; w++) {
            set_add(&awaited, plan->waits[w]);
            WRONG_IF(plan->waits[w] >= i, "call %u waits for what does not come before it", i);
        }
    }
    for (uint32_t i = 0; i < g->count; i++) {
        WRONG_IF(plan->calls[i].signals != (uint32_t)set_has(&awaited, i), "call %u %s", i,
                 plan->calls[i].signals ? "signals to nobody" : "never signals");
    }
    find_before(g, NOBODY, R.before);
    late = find_unordered(g, R.before, &other);
    WRONG_IF(late != NOBODY, "call %u may start before call %u is done", late, other);
}

static void check_waits_are_needed(const graph *g, const hcqi_plan *plan) {
    for (uint32_t i = 0; i < g->count; i++) {
        const hcqi_call *c = &plan->calls[i];
        for (uint32_t w = c->wait_first; w < c->wait_first + c->wait_count; w++) {
            uint32_t other;
            find_before(g, w, R.without);
            WRONG_IF(find_unordered(g, R.without, &other) == NOBODY,
                     "the wait of call %u for call %u is needless", i, plan->waits[w]);
            R.waits++;
        }
    }
}

/* Who overlaps has no order with any of those it may run together with. */
static void check_overlaps(const graph *g, const hcqi_plan *plan) {
    for (uint32_t i = 0; i < g->count; i++) {
        const hcqi_call *c = &plan->calls[i];
        if (c->slice == HCQI_NONE || !c->overlap) {
            continue;
        }
        const hcqi_slice *slice = &plan->slices[c->slice];
        for (uint32_t at = group_start(plan, i); at + 1 < c->place; at++) {
            WRONG_IF(set_has(&R.hazards[i], slice->calls[at]),
                     "call %u overlaps call %u of its lane", i, slice->calls[at]);
        }
        R.overlaps++;
    }
}

/* The plan's edges, before any is dropped: all of them are hazards, and they
   imply all hazards. What runs nowhere does not count. */
static void check_edges(const graph *g, const hcqi_plan *plan) {
    static set reached[PARTS];
    memset(reached, 0, sizeof reached);
    for (uint32_t i = 0; i < g->count; i++) {
        const hcqi_call *c = &plan->calls[i];
        for (uint32_t e = c->edge_first; e < c->edge_first + c->edge_count; e++) {
            uint32_t before = plan->edges[e];
            if (before < i && (g->calls[before].kind == CALL_EMPTY ||
                               g->calls[i].kind == CALL_EMPTY)) {
                continue;
            }
            WRONG_IF(before >= i || !set_has(&R.hazards[i], before),
                     "an edge from call %u to call %u that nothing asks for", before, i);
            set_add(&reached[i], before);
            set_join(&reached[i], &reached[before]);
        }
        uint32_t missing = set_missing(&R.hazards[i], &reached[i]);
        WRONG_IF(missing != NOBODY, "no path of edges from call %u to call %u", missing, i);
    }
}

static int is_edge(const graph *g, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < g->edge_count; i++) {
        if ((g->edges[i].before == a && g->edges[i].after == b) ||
            (g->edges[i].before == b && g->edges[i].after == a)) {
            return 1;
        }
    }
    return 0;
}

/* What two slices of two launches have to do with each other. */
static void check_crossing(const graph *g, const hcqi_plan *plan, uint32_t s, uint32_t t) {
    const hcqi_slice *one = &plan->slices[s], *other = &plan->slices[t];
    const hcqi_set *x = &plan->cross[s * plan->slice_count + t];
    uint32_t always = 0, missed = 0;
    for (uint32_t i = 0; i < one->count; i++) {
        for (uint32_t k = 0; k < other->count; k++) {
            const call *a = &g->calls[one->calls[i]], *b = &g->calls[other->calls[k]];
            always |= (uint32_t)(a->fence || b->fence || calls_meet(a, b, 0, FIRST_INPUT) ||
                                 calls_meet(a, b, FIRST_EMPTY, NAMES) ||
                                 is_edge(g, one->calls[i], other->calls[k]));
            for (uint32_t n = 0; n < INPUTS; n++) {
                missed |= calls_meet(a, b, FIRST_INPUT + n, FIRST_INPUT + n + 1) &&
                          !hcqi_set_has(x, INPUT_NUMBER(n));
            }
        }
    }
    R.crossed += always;
    WRONG_IF((always && x->end != HCQI_NONE) || missed,
             "slice %u does not follow slice %u of the launch before", s, t);
}

/* A fence orders all slices, also those that it is not in. */
static void check_crossings(const graph *g, const hcqi_plan *plan) {
    for (uint32_t s = 0; s < plan->slice_count; s++) {
        for (uint32_t t = 0; t < plan->slice_count; t++) {
            if (s != t) {
                check_crossing(g, plan, s, t);
            }
        }
    }
}

static void check_plan(const graph *whole) {
    const hcqi_plan *plan = &whole->queue->graph->plan;
    const graph *g = find_parts(whole);
    WRONG_IF(plan->call_count != g->count, "the plan has %u calls, not %u", plan->call_count,
             g->count);
    find_hazards(g);
    check_lanes(g, plan);
    check_order(g, plan);
    check_edges(g, plan);
    check_overlaps(g, plan);
    check_waits_are_needed(g, plan);
    check_crossings(g, plan);
}
