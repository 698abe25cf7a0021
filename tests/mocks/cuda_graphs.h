/* cuda_graphs.h - part of libcuda.c: graphs. A launch does the nodes one by
   one in an order by chance that the edges allow. */
#pragma once

#include "cuda_streams.h"

/* Whose memory a copy or memset is of: an update may not change that. */
typedef struct mc_owner {
    mc_place place;
    uint32_t device;
    const mc_context *context;
} mc_owner;

typedef struct mc_step {               /* what a node does; never changed, but replaced */
    uint32_t refs;
    mc_owner dst, src;
    mc_work work;
} mc_step;

typedef struct mc_node {               /* executable graphs hold references */
    mc_object object;
    struct mc_graph *graph;
    uint32_t index;
    mc_step *step;
    uint32_t needs;                    /* nodes that come before it */
    uint32_t *next, next_count;        /* those behind it */
} mc_node;

typedef struct mc_graph {
    mc_object object;
    uint64_t id;
    mc_node **nodes;
    uint32_t count;
} mc_graph;

typedef struct mc_program {            /* all steps; each launch has a copy */
    uint32_t count;
    mc_step **steps;
    unsigned char *disabled;           /* of each step */
} mc_program;

typedef struct mc_exec {
    mc_object object;
    uint64_t graph_id;
    mc_node **nodes;                   /* as many as the program has steps */
    mc_program *program;
    uint64_t launched, finished;
} mc_exec;

/* ---- steps ---- */

static void mc_step_unref(mc_step *s) {
    if (--s->refs == 0) {
        mc_work_free(&s->work);
        free(s);
    }
}

static mc_step *mc_step_new(mc_context *c, mc_work_kind kind) {
    mc_step *s = (mc_step *)mc_calloc(1, sizeof *s);
    s->refs = 1;
    s->work.context = c;
    s->work.kind = kind;
    return s;
}

static mc_owner mc_owner_of(mc_address address) {
    const mc_range *r = mc_range_at(address);
    mc_owner o = {r ? MC_PINNED : MC_PAGEABLE, 0, NULL};
    if (r && (r->kind == MC_RANGE_DEVICE || r->kind == MC_RANGE_POOL)) {
        o.place = MC_ON_DEVICE;
        o.device = r->device;
        o.context = r->kind == MC_RANGE_DEVICE ? r->context : NULL;
    }
    return o;
}

static int mc_owner_same(const mc_owner *a, const mc_owner *b) {
    return a->place == b->place && a->device == b->device && a->context == b->context;
}

typedef struct mc_kernel_params {      /* CUDA_KERNEL_NODE_PARAMS; _v2 has two more fields */
    mc_handle function;
    uint32_t grid[3], block[3], shared;
    void **params, **extra;
} mc_kernel_params;

static int mc_step_kernel(mc_step **step, const mc_kernel_params *p) {
    MC_FIND(mc_function, f, p->function, MC_FUNCTION);
    mc_step *s = mc_step_new(f->object.context, MC_WORK_KERNEL);
    int error = mc_launch_fill(&s->work, f, p->grid, p->block, p->shared, p->params, p->extra);
    if (error) {
        mc_step_unref(s);
    }
    *step = s;
    return error;
}

typedef struct mc_copy_end {
    size_t x, y, z, lod;
    uint32_t type;                     /* 4: unified */
    mc_address host, device;
    void *array, *reserved;
    size_t pitch, height;
} mc_copy_end;

typedef struct mc_copy_params {        /* CUDA_MEMCPY3D */
    mc_copy_end src, dst;
    size_t width, height, depth;
} mc_copy_params;

static int mc_copy_end_check(const mc_copy_end *e) {
    MC_RULE(e->type == 4, mc_misuse("%u is no kind of memory that the mock has", e->type));
    MC_RULE(!e->y && !e->z && !e->lod && !e->reserved, MC_INVALID);
    return MC_OK;
}

static int mc_step_copy(mc_step **step, const mc_copy_params *p, mc_handle context) {
    MC_FIND(mc_context, c, context, MC_CONTEXT);
    int error = mc_copy_end_check(&p->src);
    error = error ? error : mc_copy_end_check(&p->dst);
    MC_RULE(!error, error);
    MC_RULE(p->width && p->height && p->depth, MC_INVALID);
    MC_RULE(p->height == 1 && p->depth == 1, mc_misuse("the mock's copies have one dimension"));
    MC_RULE(mc_range_at(p->src.device) && mc_range_at(p->dst.device),
            mc_misuse("a node copies from or to memory that is not pinned"));
    *step = mc_step_new(c, MC_WORK_COPY);
    mc_work *w = &(*step)->work;
    w->u.copy.src = p->src.device + p->src.x;
    w->u.copy.dst = p->dst.device + p->dst.x;
    w->u.copy.bytes = p->width;
    (*step)->src = mc_owner_of(w->u.copy.src);
    (*step)->dst = mc_owner_of(w->u.copy.dst);
    return MC_OK;
}

typedef struct mc_set_params {         /* CUDA_MEMSET_NODE_PARAMS */
    mc_address dst;
    size_t pitch;
    uint32_t value, element;
    size_t width, height;
} mc_set_params;

static int mc_step_set(mc_step **step, const mc_set_params *p, mc_handle context) {
    MC_FIND(mc_context, c, context, MC_CONTEXT);
    uint32_t e = p->element;
    MC_RULE((e == 1 || e == 2 || e == 4) && p->dst % e == 0 && p->width && p->height, MC_INVALID);
    MC_RULE(p->height == 1 || (p->pitch >= p->width * e && p->pitch % e == 0), MC_INVALID);
    *step = mc_step_new(c, MC_WORK_SET);
    mc_work *w = &(*step)->work;
    w->u.set.dst = p->dst;
    w->u.set.pitch = p->pitch;
    w->u.set.value = p->value;
    w->u.set.element = e;
    w->u.set.width = p->width;
    w->u.set.height = p->height;
    (*step)->dst = mc_owner_of(p->dst);
    return MC_OK;
}

/* ---- graphs and nodes ---- */

static void mc_node_end(void *object) {
    mc_node *n = (mc_node *)object;
    mc_step_unref(n->step);
    free(n->next);
}

static void mc_graph_end(void *object) {
    mc_graph *g = (mc_graph *)object;
    for (uint32_t i = 0; i < g->count; i++) {
        mc_object_drop(g->nodes[i]);
    }
    free(g->nodes);
}

static mc_handle mc_graph_new(void) {
    static uint64_t id;
    mc_graph *g = (mc_graph *)mc_object_new(MC_GRAPH, sizeof *g, NULL, mc_graph_end);
    g->id = ++id;
    return mc_handle_of(g);
}

MC_API(cuGraphCreate, mc_handle *graph, unsigned flags) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(graph && !flags, MC_INVALID);
    *graph = mc_graph_new();
    return MC_OK;
}

MC_API(cuGraphDestroy, mc_handle graph) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_FIND(mc_graph, g, graph, MC_GRAPH);
    MC_RULE(!mc_take(g), MC_INVALID);
    mc_object_drop(g);
    return MC_OK;
}

/* May a node of this graph come behind these? */
static int mc_edges_check(const mc_graph *g, const mc_handle *before, size_t count) {
    MC_RULE(before || !count, MC_INVALID);
    for (size_t i = 0; i < count; i++) {
        MC_FIND(mc_node, b, before[i], MC_NODE);
        MC_RULE(b->graph == g, MC_INVALID);
        for (size_t k = 0; k < i; k++) {
            MC_RULE(before[k] != before[i], MC_INVALID); /* twice the same */
        }
    }
    return MC_OK;
}

#define MC_NODE_ARGS mc_handle *node, mc_handle graph, const mc_handle *before, size_t count

/* Adds a node, which takes the step over. */
static int mc_node_add(MC_NODE_ARGS, mc_step *step) {
    mc_graph *g = (mc_graph *)mc_find(graph, MC_GRAPH);
    int error = !g ? MC_BAD_HANDLE : !node ? MC_INVALID : mc_edges_check(g, before, count);
    error = error ? error : mc_take(g);
    if (error) {
        mc_step_unref(step);
        return error;
    }
    mc_node *n = (mc_node *)mc_object_new(MC_NODE, sizeof *n, NULL, mc_node_end);
    n->graph = g;
    n->index = g->count;
    n->step = step;
    n->needs = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        mc_node *b = (mc_node *)mc_find(before[i], MC_NODE);
        b->next = (uint32_t *)mc_list(b->next, b->next_count, sizeof *b->next);
        b->next[b->next_count++] = n->index;
    }
    g->nodes = (mc_node **)mc_list(g->nodes, g->count, sizeof n);
    g->nodes[g->count++] = n;
    *node = mc_handle_of(n);
    mc_give(g);
    return MC_OK;
}

MC_API(cuGraphAddEmptyNode, MC_NODE_ARGS) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_node_add(node, graph, before, count, mc_step_new(mc_tls.here, MC_WORK_NOTHING));
}

/* ---- executable graphs ---- */

static mc_program *mc_program_new(uint32_t count) {
    mc_program *p = (mc_program *)mc_calloc(1, sizeof *p);
    p->count = count;
    p->steps = (mc_step **)mc_calloc(count, sizeof *p->steps);
    p->disabled = (unsigned char *)mc_calloc(count, 1);
    return p;
}

static mc_program *mc_program_copy(const mc_program *p) {
    mc_program *copy = mc_program_new(p->count);
    memcpy(copy->disabled, p->disabled, p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        copy->steps[i] = p->steps[i];
        p->steps[i]->refs++;
    }
    return copy;
}

static void mc_program_free(mc_program *p) {
    for (uint32_t i = 0; i < p->count; i++) {
        mc_step_unref(p->steps[i]);
    }
    free(p->steps);
    free(p->disabled);
    free(p);
}

static void mc_exec_end(void *object) {
    mc_exec *e = (mc_exec *)object;
    for (uint32_t i = 0; i < e->program->count; i++) {
        mc_object_unref(e->nodes[i]);
    }
    free(e->nodes);
    mc_program_free(e->program);
}

MC_API(cuGraphInstantiateWithFlags, mc_handle *exec, mc_handle graph, unsigned long long flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_graph, g, graph, MC_GRAPH);
    MC_RULE(exec && flags <= 15, MC_INVALID);
    MC_RULE(!mc_take(g), MC_INVALID);
    mc_slow(g->count * M.slow_ns.node);
    mc_exec *e = (mc_exec *)mc_object_new(MC_EXEC, sizeof *e, mc_tls.here, mc_exec_end);
    e->graph_id = g->id;
    e->nodes = (mc_node **)mc_calloc(g->count, sizeof *e->nodes);
    e->program = mc_program_new(g->count);
    for (uint32_t i = 0; i < g->count; i++) {
        e->nodes[i] = g->nodes[i];
        g->nodes[i]->object.refs++;
        e->program->steps[i] = g->nodes[i]->step;
        g->nodes[i]->step->refs++;
    }
    *exec = mc_handle_of(e);
    mc_give(g);
    return MC_OK;
}

MC_API(cuGraphExecDestroy, mc_handle exec) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_exec, e, exec, MC_EXEC);
    MC_RULE(!mc_take(e), MC_INVALID);
    mc_give(e);
    MC_RULE(e->finished == e->launched, mc_misuse("the graph is launched and not done"));
    mc_object_drop(e);
    return MC_OK;
}

MC_API(cuGraphUpload, mc_handle exec, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_OPEN(s, stream);
    MC_RULE(mc_find(exec, MC_EXEC), MC_BAD_HANDLE);
    mc_op_enqueue(mc_op_new(s, MC_WORK_NOTHING));
    return MC_OK;
}

/* Does it have a copy that its launch waits for? */
static int mc_program_hosts(const mc_program *p) {
    for (uint32_t i = 0; i < p->count; i++) {
        const mc_work *w = &p->steps[i]->work;
        if (w->kind == MC_WORK_COPY && !p->disabled[i] &&
            mc_is_callers(w->u.copy.dst, w->u.copy.src)) {
            return 1;
        }
    }
    return 0;
}

MC_API(cuGraphLaunch, mc_handle exec, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_OPEN(s, stream);
    MC_FIND(mc_exec, e, exec, MC_EXEC);
    MC_RULE(!mc_take(e), MC_INVALID);
    mc_op *op = mc_op_new(s, MC_WORK_GRAPH);
    op->work.u.graph.exec = e;
    op->work.u.graph.program = mc_program_copy(e->program);
    op->work.u.graph.ticket = e->launched;
    e->launched += !s->capture;
    e->object.refs++;
    mc_op_enqueue(op);
    mc_give(e);
    return mc_program_hosts(e->program) && !s->capture ? mc_stream_sync(s) : MC_OK;
}

static void mc_graph_work_free(mc_work *w) {
    mc_program_free(w->u.graph.program);
    mc_object_unref(w->u.graph.exec);
}

/* ---- execution ---- */

static int mc_exec_ready(const mc_waiter *w) {
    return ((const mc_exec *)w->object)->finished == w->value;
}

static int mc_step_run(mc_step *s) {
    mc_tls.where = mc_work_names[s->work.kind];
    if (s->work.context->ended) {
        mc_misuse("a node's context has ended");
        return 0;
    }
    return mc_work_run(&s->work);
}

static int mc_program_run(const mc_work *w, const mc_exec *e, const mc_program *p) {
    uint32_t *needs = (uint32_t *)mc_calloc(2 * (size_t)p->count, sizeof *needs);
    uint32_t *ready = needs + p->count, count = 0;
    int error = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        needs[i] = e->nodes[i]->needs;
        if (!needs[i]) {
            ready[count++] = i;
        }
    }
    while (count && !error && !w->context->error) {
        uint32_t at = (uint32_t)(test_random(&mc_tls.random) % count), n = ready[at];
        ready[at] = ready[--count];
        error = p->disabled[n] ? 0 : mc_step_run(p->steps[n]);
        M.counts.operations++;
        for (uint32_t k = 0; k < e->nodes[n]->next_count; k++) {
            uint32_t next = e->nodes[n]->next[k]; /* or added later: not in this one */
            if (next < p->count && --needs[next] == 0) {
                ready[count++] = next;
            }
        }
        mc_wake();
    }
    free(needs);
    return error;
}

/* One launch; without its nodes if the context is lost. */
static int mc_graph_run(mc_work *w) {
    mc_exec *e = w->u.graph.exec;
    mc_wait(mc_exec_ready, e, w->u.graph.ticket, "the last launch of a graph");
    int error = w->context->error ? 0 : mc_program_run(w, e, w->u.graph.program);
    e->finished++;
    return error;
}

/* ---- updates ---- */

/* May a node that did `a` do `b` from now on? A memset may get another value and address;
   more only with luck. */
static int mc_step_like(const mc_step *a, const mc_step *b) {
    const mc_work *x = &a->work, *y = &b->work;
    int strict = (M.desc.flags & MOCK_CUDA_STRICT_MEMSETS) != 0 || x->u.set.height > 1;
    MC_RULE(x->kind == y->kind && x->context == y->context, 0);
    MC_RULE(mc_owner_same(&a->dst, &b->dst) && mc_owner_same(&a->src, &b->src), 0);
    return x->kind != MC_WORK_SET ||
           (x->u.set.height == y->u.set.height &&
            (!strict || (x->u.set.width == y->u.set.width && x->u.set.pitch == y->u.set.pitch &&
                         x->u.set.element == y->u.set.element)));
}

/* Finds the executable graph and the node in it. */
static int mc_exec_find(mc_handle exec, mc_handle node, mc_exec **e, mc_node **n) {
    *e = (mc_exec *)mc_find(exec, MC_EXEC);
    *n = (mc_node *)mc_find(node, MC_NODE);
    MC_RULE(*e && *n, MC_BAD_HANDLE);
    MC_RULE(!(*e)->object.context->error, (*e)->object.context->error);
    MC_RULE((*n)->graph->id == (*e)->graph_id && (*n)->index < (*e)->program->count,
            mc_misuse("the node is not of the graph that was instantiated"));
    return MC_OK;
}

/* Puts a step in the place of a node's, if it may. */
static int mc_exec_replace(mc_handle exec, mc_handle node, mc_step *step) {
    mc_exec *e;
    mc_node *n;
    int error = mc_exec_find(exec, node, &e, &n);
    error = error ? error : mc_take(e);
    if (error) {
        mc_step_unref(step);
        return error;
    }
    if (mc_step_like(e->program->steps[n->index], step)) {
        mc_step **place = &e->program->steps[n->index];
        mc_step_unref(*place);
        *place = step;
    } else {
        mc_step_unref(step);
        error = MC_INVALID;
    }
    mc_give(e);
    return error;
}

/* ---- kinds of nodes: a function that adds one, one that changes it ---- */

#define MC_NODE_API(add, set, type, make, ...) \
    MC_API(add, MC_NODE_ARGS, const type *params __VA_ARGS__) { \
        mc_step *step; \
        MC_ENTER(MC_NEEDS_CONTEXT) \
        int error = params ? make : MC_INVALID; \
        return error ? error : mc_node_add(node, graph, before, count, step); \
    } \
    MC_API(set, mc_handle exec, mc_handle node, const type *params __VA_ARGS__) { \
        mc_step *step; \
        MC_ENTER(MC_NEEDS_CONTEXT) \
        int error = params ? make : MC_INVALID; \
        return error ? error : mc_exec_replace(exec, node, step); \
    }

MC_NODE_API(cuGraphAddMemcpyNode, cuGraphExecMemcpyNodeSetParams, mc_copy_params,
            mc_step_copy(&step, params, context), , mc_handle context)
MC_NODE_API(cuGraphAddMemsetNode, cuGraphExecMemsetNodeSetParams, mc_set_params,
            mc_step_set(&step, params, context), , mc_handle context)
MC_NODE_API(cuGraphAddKernelNode, cuGraphExecKernelNodeSetParams, mc_kernel_params,
            mc_step_kernel(&step, params), )
#if MOCK_CUDA_VERSION >= 12000 /* its two more fields are for kernels without a context */
MC_NODE_API(cuGraphAddKernelNode_v2, cuGraphExecKernelNodeSetParams_v2, mc_kernel_params,
            mc_step_kernel(&step, params), )
#endif
#if MOCK_CUDA_VERSION >= 11070 /* from 11.6 on */
MC_API(cuGraphNodeSetEnabled, mc_handle exec, mc_handle node, unsigned enabled) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_exec *e;
    mc_node *n;
    int error = mc_exec_find(exec, node, &e, &n);
    MC_RULE(!error, error);
    mc_work_kind kind = e->program->steps[n->index]->work.kind;
    MC_RULE(kind == MC_WORK_KERNEL || kind == MC_WORK_COPY || kind == MC_WORK_SET, MC_INVALID);
    MC_RULE(!mc_take(e), MC_INVALID);
    e->program->disabled[n->index] = !enabled;
    mc_give(e);
    return MC_OK;
}
#endif

/* ---- capture: what a stream gets does not run; the graph of it has nothing in it. All are
   of the mode that forbids all threads what is unsafe ---- */

MC_API(cuStreamBeginCapture_v2, mc_handle stream, unsigned mode) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_OPEN(s, stream);
    MC_RULE(!mode && !s->capture, MC_INVALID);
    s->capture = MC_CAPTURING;
    s->capturer = &mc_tls;
    M.captures = 1;
    return MC_OK;
}

MC_API(cuStreamEndCapture, mc_handle stream, mc_handle *graph) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_stream, s, stream, MC_STREAM);
    MC_RULE(graph && s->capture, MC_INVALID);
    MC_RULE(s->capturer == &mc_tls, MC_WRONG_THREAD);
    int good = s->capture == MC_CAPTURING;
    s->capture = MC_NO_CAPTURE;
    *graph = good ? mc_graph_new() : NULL;
    return good ? MC_OK : MC_CAPTURE_INVALID;
}

MC_API(cuStreamIsCapturing, mc_handle stream, int *status) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    MC_FIND(mc_stream, s, stream, MC_STREAM);
    MC_RULE(status, MC_INVALID);
    *status = (int)s->capture;
    return MC_OK;
}

/* Beside whose captures this thread does what is unsafe: 0 nobody's, 1 others', 2 all. */
MC_API(cuThreadExchangeStreamCaptureMode, int *mode) {
    MC_ENTER(MC_NEEDS_INIT)
    MC_RULE(mode && *mode >= 0 && *mode <= 2, MC_INVALID);
    int before = mc_tls.mode;
    mc_tls.mode = *mode;
    *mode = before;
    return MC_OK;
}
