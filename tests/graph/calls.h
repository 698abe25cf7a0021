/* calls.h - random graphs: what a call is, what it does to bytes in plain
   C, and how it is recorded. Part of graph.c. */

enum {
    DEVICES = 6,
    OWN = 3,                           /* buffers of a device that graphs name */
    SPARES = 3,                        /* ... and that launches bring as inputs */
    PER_DEVICE = OWN + SPARES,
    MEMORIES = DEVICES * PER_DEVICE,
    SPARE_BYTES = 64 * 1024,
    INPUTS = 5,
    EMPTIES = 2,
    FIRST_INPUT = MEMORIES,            /* names: memories, inputs, empties */
    FIRST_EMPTY = FIRST_INPUT + INPUTS,
    CALLS = 128,
    PARTS = 2 * CALLS,                 /* with both halves of those that are two */
    FIRST_BRIDGE = FIRST_EMPTY + EMPTIES, /* ... and what copies go through */
    NAMES = FIRST_BRIDGE + CALLS,
    TOUCHES = 6,                       /* of one call */
    EDGES = 32,                        /* that the graph states */
    VARIABLES = 8,
    THREADS_OF_BLOCK = 64,
    GRIDS = 64,                        /* of 0, 1, 2 ... blocks, that kernels read */
    COPY_LANE_BYTES = 16384            /* smaller copies stay on the compute lane */
};

#define NOBODY UINT32_MAX

/* ---- what the calls are ---- */

typedef enum call_kind {
    CALL_MIX,                          /* a kernel */
    CALL_COPY,
    CALL_FILL,
    CALL_WRITE,
    CALL_HOST,
    CALL_CUSTOM,                       /* a fill in its own way */
    CALL_BARRIER,
    CALL_STAMP,                        /* a timestamp: after everything before it */
    CALL_EMPTY
} call_kind;

static const char *const call_names[] = {"mix", "copy", "fill", "write", "host", "custom",
                                         "barrier", "stamp", "alloc"};

/* Programs: one kernel, declared in three ways. */
enum { SHAPE_INOUT, SHAPE_OUT, SHAPE_LOOSE, SHAPES };

typedef struct span { uint32_t name, at, size; } span; /* bytes */

typedef struct touch { span where; int writes; } touch;

/* Lets others overtake, if nothing holds them. */
static void dawdle(uint32_t us) {
    if (us) {
        mock_sleep((long)us * 1000);
    }
}

#define PAUSE(us) dawdle(us)
#include "mixing.k"
#if __has_include("mixing.k.h")
#include "mixing.k.h"
#endif

enum { PART_SEED = HCQ_PART_ARG + offsetof(mixing_args, seed) };

typedef struct host_mix {              /* of a host command */
    uint32_t *dst;
    const uint32_t *a, *b;
    mixing_args with;
} host_mix;

typedef struct fill_payload {          /* of a custom command */
    uint64_t address;
    uint64_t size;
    uint32_t value;
} fill_payload;

typedef struct call {
    call_kind kind;
    uint32_t device;                   /* where it must run */
    uint32_t from;                     /* 1 + where a copy begins that goes over a bridge */
    uint32_t shape, grid;              /* of a kernel */
    int indirect;                      /* which reads its grid */
    union {
        struct { span dst, a, b; };    /* copy: a is the source */
        span spans[3];
    };
    mixing_args with;
    uint64_t value;
    uint32_t value_size;
    int fence;                         /* ordered with everything */
    int stated;                        /* its kernel's ranges are stated */
    int has_extra;                     /* a touch that is only stated */
    touch extra;
    uint32_t part, variable;           /* HCQ_PART_*, 0 = none */
    uint64_t maximum;
    touch touches[TOUCHES];            /* what the planner has to assume */
    uint32_t touch_count;
    host_mix host;
} call;

/* An input's memory for one launch. */
typedef struct binding { uint32_t memory, at; } binding;

/* Numbers of what a launch brings: far apart, and none twice. */
#define INPUT_NUMBER(n) ((n) * 51)
#define VARIABLE_NUMBER(n) (7 + (n) * 29)

typedef struct launch {
    binding inputs[INPUTS];
    uint64_t variables[VARIABLES];
    int has_variables;
    uint32_t flags;
    int held;                          /* by the gate */
} launch;

typedef struct graph {
    call calls[PARTS];
    uint32_t count;
    uint32_t devices[DEVICES], device_count; /* in play; the first is home */
    uint32_t names[NAMES], name_count; /* in play, without empties */
    uint32_t sizes[NAMES];             /* of inputs and empties, 0 = not in play */
    uint32_t device_of[NAMES];
    uint32_t ready[EMPTIES];           /* the call after which it has contents */
    struct { uint32_t before, after; int is_recorded; } edges[EDGES];
    uint32_t edge_count;
    int can_step;                      /* HCQ_STEP takes it */
    uint32_t pauses;                   /* percent of kernels that dawdle */
    hcq_queue *queue;
    hcq_buffer buffers[NAMES];         /* as recorded */
} graph;

/* The devices, their memory, and what it has to hold. */
static struct world {
    uint64_t random;
    const char *step;                  /* for messages */
    hcq_device *devices[DEVICES];
    int sees[DEVICES][DEVICES];        /* whose memory its commands may name */
    hcq_program *programs[DEVICES][SHAPES];
    hcq_buffer grids[DEVICES];
    hcq_buffer memory[MEMORIES];
    unsigned char *model[MEMORIES];
    unsigned char *empties[EMPTIES];
    hcq_signal stamp;
    hcq_point gate;                    /* of the launches that are held */
    int shut;
    graph graph;
} W;

static uint32_t pick(uint32_t below) {
    return pick_from(&W.random, below);
}

static int chance(uint32_t percent) {
    return pick(100) < percent;
}

static void shuffle(uint32_t *list, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = pick(i), keep = list[i - 1];
        list[i - 1] = list[k];
        list[k] = keep;
    }
}

/* ---- saying what is wrong ---- */

static void print_graph(const graph *g) {
    for (uint32_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        fprintf(stderr, "%3u %-7s dev %u%s%s", i, call_names[c->kind], c->device,
                c->fence ? " fence" : "", c->stated ? " stated" : "");
        for (uint32_t t = 0; t < c->touch_count; t++) {
            const span *s = &c->touches[t].where;
            fprintf(stderr, "  %s %u[%u, %u)", c->touches[t].writes ? "W" : "R", s->name, s->at,
                    s->at + s->size);
        }
        fprintf(stderr, "\n");
    }
    for (uint32_t i = 0; i < g->edge_count; i++) {
        fprintf(stderr, "edge %u -> %u\n", g->edges[i].before, g->edges[i].after);
    }
}

static void show_graph(void) {
    print_graph(&W.graph);
    fprintf(stderr, "%s; again: %s --seeds 1\n", W.step ? W.step : "", T.running);
}

static hcq_result index_result(int32_t index, uint32_t want) {
    return index < 0 ? (hcq_result)index : (uint32_t)index == want ? HCQ_OK : HCQ_ERROR_INVALID;
}

#define MUST_INDEX(call, want) must(#call, index_result((call), (want)))

/* ---- what calls do: the same code for kernels, host functions, the model ---- */

static void mix_words(void *dst, const void *a, const void *b, uint64_t end, mixing_args with) {
    const u32s to = {(uint32_t *)dst};
    const u32s_in from = {(const uint32_t *)a}, also = {(const uint32_t *)b};
    for (uint32_t i = 0; i < end && i < with.n; i++) {
        mix_word(to, from, also, i, with.a_n, with.b_n, with.seed, with.reads);
    }
}

static void fill_bytes(unsigned char *dst, uint64_t size, uint64_t value, uint32_t value_size) {
    for (uint64_t i = 0; i < size; i++) {
        dst[i] = (unsigned char)(value >> (i % value_size * 8));
    }
}

static hcq_result run_host_mix(void *user) {
    const host_mix *h = (const host_mix *)user;
    dawdle(h->with.pause_us);
    mix_words(h->dst, h->a, h->b, h->with.n, h->with);
    return HCQ_OK;
}

static hcq_result custom_encode(void *user, void *native, const void *payload) {
    fill_payload p;
    (void)user;
    memcpy(&p, payload, sizeof p);
    return test_encode_fill(native, p.address, p.size, p.value);
}

static const hcq_custom_type custom_fill = {
    "own fill", sizeof(fill_payload),
    {{"CPU", custom_encode}, {"MOCK", custom_encode}, TEST_GPU_ENCODE(custom_encode)},
    {{0, 0}}, NULL
};

/* ---- the model ---- */

static unsigned char *model_bytes(const launch *l, const span *s) {
    if (s->name >= FIRST_EMPTY) {
        return W.empties[s->name - FIRST_EMPTY] + s->at;
    }
    if (s->name >= FIRST_INPUT) {
        const binding *b = &l->inputs[s->name - FIRST_INPUT];
        return W.model[b->memory] + b->at + s->at;
    }
    return W.model[s->name] + s->at;
}

static void model_mix(const launch *l, const call *c) {
    mixing_args with = c->with;
    uint64_t blocks = c->part == HCQ_PART_GRID_X ? l->variables[c->variable] : c->grid;
    uint64_t end = c->kind == CALL_HOST ? with.n : blocks * THREADS_OF_BLOCK;
    if (c->part == PART_SEED) {
        with.seed = (uint32_t)l->variables[c->variable];
    }
    mix_words(model_bytes(l, &c->dst), model_bytes(l, &c->a), model_bytes(l, &c->b), end, with);
}

static void model_call(const launch *l, const call *c) {
    uint64_t size = c->part == HCQ_PART_SIZE ? l->variables[c->variable] : c->dst.size;
    uint64_t value = c->part == HCQ_PART_VALUE ? l->variables[c->variable] : c->value;
    switch (c->kind) {
    case CALL_MIX:
    case CALL_HOST:
        model_mix(l, c);
        break;
    case CALL_COPY:
        memcpy(model_bytes(l, &c->dst), model_bytes(l, &c->a), (size_t)size);
        break;
    case CALL_FILL:
    case CALL_WRITE:
    case CALL_CUSTOM:
        fill_bytes(model_bytes(l, &c->dst), size, value, c->value_size);
        break;
    default:
        break;
    }
}

static void model_launch(const graph *g, const launch *l) {
    for (uint32_t i = 0; i < g->count; i++) {
        model_call(l, &g->calls[i]);
    }
}

/* ---- recording ---- */

static hcq_buffer span_buffer(const graph *g, const span *s) {
    return hcq_view(g->buffers[s->name], s->at, s->size);
}

static mixing_args call_args(const graph *g, const call *c) {
    mixing_args args = c->with;
    args.dst = g->buffers[c->dst.name].address + c->dst.at;
    args.a = g->buffers[c->a.name].address + c->a.at;
    args.b = g->buffers[c->b.name].address + c->b.at;
    return args;
}

static fill_payload call_payload(const graph *g, const call *c) {
    fill_payload p;
    memset(&p, 0, sizeof p);           /* what lies between, too */
    p.address = g->buffers[c->dst.name].address + c->dst.at;
    p.size = c->dst.size;
    p.value = (uint32_t)c->value;
    return p;
}

static int32_t record_command(graph *g, hcq_queue *q, call *c) {
    mixing_args args;
    fill_payload payload;
    unsigned char bytes[4096];         /* a span's most */
    switch (c->kind) {
    case CALL_MIX:
        args = call_args(g, c);
        if (c->indirect) {
            return hcq_queue_exec_indirect(q, W.programs[c->device][c->shape], &args, sizeof args,
                                           hcq_view(W.grids[c->device], 12 * c->grid, 12),
                                           hcq_dim(GRIDS, 1, 1), hcq_dim(THREADS_OF_BLOCK, 1, 1));
        }
        return hcq_queue_exec(q, W.programs[c->device][c->shape], &args, sizeof args,
                              hcq_dim(c->grid, 1, 1), hcq_dim(THREADS_OF_BLOCK, 1, 1));
    case CALL_COPY:
        return hcq_queue_copy(q, span_buffer(g, &c->dst), span_buffer(g, &c->a), c->dst.size);
    case CALL_FILL:
        return hcq_queue_fill(q, span_buffer(g, &c->dst), c->dst.size, c->value, c->value_size);
    case CALL_WRITE:
        fill_bytes(bytes, c->dst.size, c->value, c->value_size);
        return hcq_queue_write(q, span_buffer(g, &c->dst), bytes, c->dst.size);
    case CALL_HOST:                    /* with host pointers: they only name memories */
        c->host.dst = (uint32_t *)(void *)((unsigned char *)W.memory[c->dst.name].host + c->dst.at);
        c->host.a = (const uint32_t *)(void *)((unsigned char *)W.memory[c->a.name].host + c->a.at);
        c->host.b = (const uint32_t *)(void *)((unsigned char *)W.memory[c->b.name].host + c->b.at);
        c->host.with = c->with;
        return hcq_queue_host(q, run_host_mix, &c->host);
    case CALL_CUSTOM:
        payload = call_payload(g, c);
        return hcq_queue_custom(q, &custom_fill, &payload);
    case CALL_BARRIER:
        return hcq_queue_memory_barrier(q);
    case CALL_STAMP:
        return hcq_queue_timestamp(q, W.stamp);
    default:
        return hcq_graph_alloc(q, W.devices[c->device], g->sizes[c->dst.name], 0,
                               &g->buffers[c->dst.name]);
    }
}

/* What a command says about itself besides its arguments. */
static void record_rest(const graph *g, hcq_queue *q, int32_t index, const call *c) {
    const uint32_t first = c->with.reads ? (uint32_t)HCQ_ARG_INOUT : (uint32_t)HCQ_ARG_OUT;
    for (uint32_t i = 0; c->stated && i < 3; i++) {
        if (c->spans[i].size) {
            MUST(hcq_queue_access(q, index, span_buffer(g, &c->spans[i]),
                                  i ? (uint32_t)HCQ_ARG_IN : first));
        }
    }
    if (c->has_extra) {
        MUST(hcq_queue_access(q, index, span_buffer(g, &c->extra.where),
                              c->extra.writes ? HCQ_ARG_OUT : HCQ_ARG_IN));
    }
    if (c->part) {
        MUST(hcq_queue_variable(q, index, c->part, VARIABLE_NUMBER(c->variable), c->maximum));
    }
}

static void declare_inputs(graph *g, hcq_queue *q) {
    for (uint32_t n = 0; n < INPUTS; n++) {
        uint32_t name = FIRST_INPUT + n;
        if (!g->sizes[name]) {
            continue;
        }
        g->buffers[name] = hcq_graph_input(q, INPUT_NUMBER(n), W.devices[g->device_of[name]],
                                           g->sizes[name]);
        WRONG_IF(g->buffers[name].size != g->sizes[name], "hcq_graph_input %u is refused", n);
    }
}

/* May this call be recorded for its device alone, in a queue that is no graph? */
static int is_plain(const graph *g, const call *c) {
    if (c->kind == CALL_EMPTY || c->kind == CALL_CUSTOM || c->fence) {
        return 0;
    }
    for (uint32_t i = 0; i < 3 + (uint32_t)c->has_extra; i++) {
        const span *s = i < 3 ? &c->spans[i] : &c->extra.where;
        if (s->size && (s->name >= FIRST_INPUT || g->device_of[s->name] != c->device)) {
            return 0;
        }
    }
    return 1;
}

/* Edges between calls of [first, end), recorded as they are in `q`. */
static void record_edges(graph *g, hcq_queue *q, uint32_t first, uint32_t end) {
    for (uint32_t i = 0; i < g->edge_count; i++) {
        if (!g->edges[i].is_recorded && g->edges[i].before >= first && g->edges[i].after < end) {
            MUST(hcq_graph_edge(q, (int32_t)(g->edges[i].before - first),
                                (int32_t)(g->edges[i].after - first)));
            g->edges[i].is_recorded = 1;
        }
    }
}

/* Records calls [first, end) elsewhere and appends that. */
static void record_appended(graph *g, uint32_t first, uint32_t end) {
    hcq_queue *part = NULL;
    uint32_t device = g->calls[first].device;
    int plain = 1;
    for (uint32_t i = first; i < end; i++) {
        plain = plain && g->calls[i].device == device && is_plain(g, &g->calls[i]);
    }
    MUST(plain ? hcq_queue_create(W.devices[device], HCQ_COMPUTE, &part)
               : hcq_graph_create(W.devices[g->devices[0]], &part));
    if (!plain) {
        declare_inputs(g, part);
    }
    for (uint32_t i = first; i < end; i++) {
        MUST_INDEX(record_command(g, part, &g->calls[i]), i - first);
        record_rest(g, part, (int32_t)(i - first), &g->calls[i]);
    }
    if (!plain && g->edge_count < EDGES) {
        uint32_t after = first + 1 + pick(end - first - 1), before = first + pick(after - first);
        g->edges[g->edge_count].before = before;
        g->edges[g->edge_count++].after = after;
        record_edges(g, part, first, end);
    }
    MUST_INDEX(hcq_queue_append(g->queue, part), first);
    hcq_queue_destroy(part);
}

static void record_graph(graph *g) {
    MUST(hcq_graph_create(W.devices[g->devices[0]], &g->queue));
    for (uint32_t m = 0; m < MEMORIES; m++) {
        g->buffers[m] = W.memory[m];
    }
    declare_inputs(g, g->queue);
    for (uint32_t i = 0; i < g->count;) {
        uint32_t end = i + 1;
        if (chance(10)) {
            for (uint32_t n = 1 + pick(5); end < g->count && n; n--) {
                end++;
            }
            for (uint32_t k = i; k < end; k++) { /* empty memory belongs to one graph */
                const call *c = &g->calls[k];
                int empty = c->dst.name >= FIRST_EMPTY || c->a.name >= FIRST_EMPTY ||
                            c->b.name >= FIRST_EMPTY ||
                            (c->has_extra && c->extra.where.name >= FIRST_EMPTY);
                end = empty ? k : end;
            }
        }
        if (end > i + 1) {
            record_appended(g, i, end);
            i = end;
            continue;
        }
        MUST_INDEX(record_command(g, g->queue, &g->calls[i]), i);
        record_rest(g, g->queue, (int32_t)i, &g->calls[i]);
        i++;
    }
    record_edges(g, g->queue, 0, g->count);
}

/* ---- where copies run ---- */

static uint32_t device_number(const hcq_device *device) {
    uint32_t d = 0;
    while (W.devices[d] != device) {
        d++;
    }
    return d;
}

/* One device does a copy if it sees both ends, whichever that is; it is for the bytes to
   say that it does. */
static void find_places(graph *g) {
    for (uint32_t i = 0; i < g->count; i++) {
        call *c = &g->calls[i];
        const hcqi_meta *m = &g->queue->metas[i];
        if (c->kind == CALL_COPY) {
            uint32_t to = g->device_of[c->dst.name], from = g->device_of[c->a.name];
            c->device = device_number(m->dev);
            c->from = m->from ? 1 + device_number(m->from) : 0;
            WRONG_IF((c->from && (W.sees[to][from] || c->device != to || c->from != 1 + from)) ||
                     (!c->from && c->device != to && (c->device != from || W.sees[to][from])),
                     "copy %u runs on device %u", i, c->device);
        }
    }
}

/* The graph as its plan has it: copies that go over a bridge are two calls. */
static const graph *find_parts(const graph *g) {
    static graph parts;
    uint32_t first[CALLS], bridges = 0;
    parts = *g;
    parts.count = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        call *out = &parts.calls[parts.count], *in = out;
        first[i] = parts.count++;
        *out = g->calls[i];
        if (!out->from) {
            continue;
        }
        in = &parts.calls[parts.count++];
        *in = *out;
        out->device = out->from - 1;
        out->dst.name = in->a.name = FIRST_BRIDGE + bridges++;
        out->dst.at = in->a.at = 0;
        out->touches[0].where = out->dst;
        in->touches[1].where = in->a;
        parts.device_of[in->a.name] = in->device;
    }
    for (uint32_t i = 0; i < g->edge_count; i++) {
        uint32_t before = g->edges[i].before;
        parts.edges[i].before = first[before] + (g->calls[before].from != 0);
        parts.edges[i].after = first[g->edges[i].after];
    }
    return &parts;
}
