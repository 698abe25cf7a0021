/* cuda_graphs.h - part of libcuda.c: graphs. A launch does the nodes one by
   one in an order by chance that the edges allow. */
#ifndef HCQ_TEST_MOCK_CUDA_GRAPHS_H
#define HCQ_TEST_MOCK_CUDA_GRAPHS_H

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

typedef struct mc_node {
    mc_object object;
    struct mc_graph *graph;
    uint32_t index;
    mc_step *step;
    uint32_t *after, after_count;      /* nodes that come before it */
} mc_node;

typedef struct mc_graph {
    mc_object object;
    uint64_t id;
    mc_node **nodes;
    uint32_t count, room;
} mc_graph;

typedef struct mc_shape {              /* of an executable graph: who follows whom */
    uint32_t refs, count;
    uint32_t *needs;                   /* nodes before each */
    uint32_t *first, *next;            /* those behind node i: next[first[i]] .. first[i + 1] */
    uint32_t events;                   /* event nodes */
} mc_shape;

typedef struct mc_program {            /* all steps; launches that are enqueued keep theirs */
    uint32_t refs;
    mc_shape *shape;
    mc_step **steps;
    unsigned char *disabled;           /* of each step */
} mc_program;

typedef struct mc_exec {
    mc_object object;
    uint64_t graph_id;
    mc_program *program;
    uint64_t launched, finished;
} mc_exec;

static void *mc_calloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        abort();
    }
    return memory;
}

/* ---- steps ---- */

static mc_step *mc_step_new(mc_context *c) {
    mc_step *s = (mc_step *)mc_calloc(1, sizeof *s);
    s->refs = 1;
    s->work.context = c;
    return s;
}

static void mc_step_unref(mc_step *s) {
    if (--s->refs == 0) {
        mc_work_free(&s->work);
        free(s);
    }
}

static mc_owner mc_owner_of(mc_address address) {
    mc_range *r = mc_range_at(address);
    mc_owner o = {MC_PAGEABLE, 0, NULL};
    if (r) {
        int device = r->kind == MC_RANGE_DEVICE || r->kind == MC_RANGE_POOL;
        o.place = device ? MC_ON_DEVICE : MC_PINNED;
        o.device = device ? r->device : 0;
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
    mc_function *f = (mc_function *)mc_find(p->function, MC_FUNCTION);
    int error;
    if (!f) {
        return MC_BAD_HANDLE;
    }
    *step = mc_step_new(f->object.context);
    error = mc_launch_fill(&(*step)->work, f, p->grid, p->block, p->shared, p->params, p->extra);
    if (error) {
        mc_step_unref(*step);
    }
    return error;
}

typedef struct mc_copy_end {
    size_t x, y, z, lod;
    uint32_t type;                     /* 1 host, 2 device, 3 array, 4 unified */
    mc_address host, device;
    void *array, *reserved;
    size_t pitch, height;
} mc_copy_end;

typedef struct mc_copy_params {        /* CUDA_MEMCPY3D */
    mc_copy_end src, dst;
    size_t width, height, depth;
} mc_copy_params;

static int mc_copy_end_check(const mc_copy_end *e) {
    if (e->type != 1 && e->type != 2 && e->type != 4) {
        return mc_misuse("%u is no kind of memory that the mock has", e->type);
    }
    return e->y || e->z || e->lod || e->reserved ? MC_INVALID : MC_OK;
}

static int mc_step_copy(mc_step **step, const mc_copy_params *p, mc_context *c) {
    int error = mc_copy_end_check(&p->src);
    error = error ? error : mc_copy_end_check(&p->dst);
    if (error || !p->width || !p->height || !p->depth) {
        return error ? error : MC_INVALID;
    }
    if (p->height != 1 || p->depth != 1) {
        return mc_misuse("the mock's copies have one dimension");
    }
    *step = mc_step_new(c);
    mc_work *w = &(*step)->work;
    w->kind = MC_WORK_COPY;
    w->u.copy.src = (p->src.type == 1 ? p->src.host : p->src.device) + p->src.x;
    w->u.copy.dst = (p->dst.type == 1 ? p->dst.host : p->dst.device) + p->dst.x;
    w->u.copy.bytes = p->width;
    (*step)->src = mc_owner_of(w->u.copy.src);
    (*step)->dst = mc_owner_of(w->u.copy.dst);
    if ((*step)->src.place == MC_PAGEABLE || (*step)->dst.place == MC_PAGEABLE) {
        M.counts.pageable_copies++;
    }
    return MC_OK;
}

typedef struct mc_set_params {         /* CUDA_MEMSET_NODE_PARAMS */
    mc_address dst;
    size_t pitch;
    uint32_t value, element;
    size_t width, height;
} mc_set_params;

static int mc_step_set(mc_step **step, const mc_set_params *p, mc_context *c) {
    uint32_t e = p->element;
    if ((e != 1 && e != 2 && e != 4) || p->dst % e || !p->width || !p->height ||
        (p->height > 1 && (p->pitch < p->width * e || p->pitch % e))) {
        return MC_INVALID;
    }
    *step = mc_step_new(c);
    mc_work *w = &(*step)->work;
    w->kind = MC_WORK_SET;
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

MC_API(cuGraphCreate, mc_handle *graph, unsigned flags) {
    static uint64_t id;
    MC_ENTER(MC_NEEDS_INIT)
    if (!graph || flags) {
        return mc_leave(MC_INVALID);
    }
    mc_graph *g = (mc_graph *)mc_object_new(MC_GRAPH, sizeof *g, NULL);
    g->id = ++id;
    *graph = mc_handle_of(g);
    return mc_leave(MC_OK);
}

static void mc_graph_free(mc_graph *g) {
    for (uint32_t i = 0; i < g->count; i++) {
        mc_step_unref(g->nodes[i]->step);
        free(g->nodes[i]->after);
        mc_object_forget(g->nodes[i]);
        mc_object_unref(g->nodes[i]);
    }
    free(g->nodes);
    mc_object_forget(g);
    mc_object_unref(g);
}

MC_API(cuGraphDestroy, mc_handle graph) {
    MC_ENTER(MC_NEEDS_INIT)
    mc_graph *g = (mc_graph *)mc_find(graph, MC_GRAPH);
    int error = g ? mc_take(g) : MC_BAD_HANDLE;
    if (!error) {
        mc_graph_free(g);
    }
    return mc_leave(error);
}

/* Adds edges to a node, from others of its graph. */
static int mc_node_after(mc_node *n, const mc_handle *before, size_t count) {
    for (size_t i = 0; i < count; i++) {
        mc_node *b = (mc_node *)mc_find(before[i], MC_NODE);
        if (!b || b->graph != n->graph || b == n) {
            return b ? MC_INVALID : MC_BAD_HANDLE;
        }
        for (uint32_t k = 0; k < n->after_count; k++) {
            if (n->after[k] == b->index) {
                return MC_INVALID;     /* twice the same */
            }
        }
        n->after = (uint32_t *)realloc(n->after, (n->after_count + 1) * sizeof *n->after);
        if (!n->after) {
            abort();
        }
        n->after[n->after_count++] = b->index;
    }
    return MC_OK;
}

/* Adds a node, which takes the step over. The graph is taken. */
static int mc_node_add(mc_handle *node, mc_graph *g, const mc_handle *before, size_t count,
                       mc_step *step) {
    mc_node *n = (mc_node *)mc_object_new(MC_NODE, sizeof *n, NULL);
    int error;
    n->graph = g;
    n->index = g->count;
    n->step = step;
    error = !node || (count && !before) ? MC_INVALID : mc_node_after(n, before, count);
    if (error) {
        mc_step_unref(step);
        free(n->after);
        mc_object_forget(n);
        mc_object_unref(n);
        return error;
    }
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 16;
        g->nodes = (mc_node **)realloc(g->nodes, g->room * sizeof *g->nodes);
        if (!g->nodes) {
            abort();
        }
    }
    g->nodes[g->count++] = n;
    *node = mc_handle_of(n);
    return MC_OK;
}

/* Finds the graph for a new node, and takes it. */
static mc_graph *mc_graph_open(mc_handle graph, const void *params, int *error) {
    mc_graph *g = (mc_graph *)mc_find(graph, MC_GRAPH);
    *error = !g ? MC_BAD_HANDLE : !params ? MC_INVALID : mc_take(g);
    return *error ? NULL : g;
}

/* Ends a call that adds a node. */
static int mc_graph_close(mc_graph *g, int error) {
    if (g) {
        mc_give(g);
    }
    return mc_leave(error);
}

#define MC_NODE_ARGS mc_handle *node, mc_handle graph, const mc_handle *before, size_t count

MC_API(cuGraphAddEmptyNode, MC_NODE_ARGS) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_graph *g = mc_graph_open(graph, &error, &error);
    if (g) {
        error = mc_node_add(node, g, before, count, mc_step_new(mc_tls.here));
    }
    return mc_graph_close(g, error);
}

static int mc_kernel_node(mc_handle *node, mc_handle graph, const mc_handle *before, size_t count,
                          const mc_kernel_params *params) {
    int error;
    mc_step *step;
    mc_graph *g = mc_graph_open(graph, params, &error);
    if (g) {
        error = mc_step_kernel(&step, params);
        error = error ? error : mc_node_add(node, g, before, count, step);
    }
    return mc_graph_close(g, error);
}

MC_API(cuGraphAddKernelNode, MC_NODE_ARGS, const mc_kernel_params *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_kernel_node(node, graph, before, count, params);
}

#if MOCK_CUDA_VERSION >= 12000
typedef struct mc_kernel_params_v2 {
    mc_kernel_params old;
    mc_handle kernel, context;
} mc_kernel_params_v2;

/* A CUkernel in place of the function is not for the mock. */
static int mc_kernel_params_good(const mc_kernel_params_v2 *p) {
    return !p || p->old.function || !p->kernel;
}

MC_API(cuGraphAddKernelNode_v2, MC_NODE_ARGS, const mc_kernel_params_v2 *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!mc_kernel_params_good(params)) {
        return mc_leave(mc_misuse("the mock has no CUkernel"));
    }
    return mc_kernel_node(node, graph, before, count, params ? &params->old : NULL);
}
#endif

MC_API(cuGraphAddMemcpyNode, MC_NODE_ARGS, const mc_copy_params *params, mc_handle context) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_step *step;
    mc_context *c = (mc_context *)mc_find(context, MC_CONTEXT);
    mc_graph *g = mc_graph_open(graph, params, &error);
    if (g) {
        error = c ? mc_step_copy(&step, params, c) : MC_NO_CONTEXT;
        error = error ? error : mc_node_add(node, g, before, count, step);
    }
    return mc_graph_close(g, error);
}

MC_API(cuGraphAddMemsetNode, MC_NODE_ARGS, const mc_set_params *params, mc_handle context) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_step *step;
    mc_context *c = (mc_context *)mc_find(context, MC_CONTEXT);
    mc_graph *g = mc_graph_open(graph, params, &error);
    if (g) {
        error = c ? mc_step_set(&step, params, c) : MC_NO_CONTEXT;
        error = error ? error : mc_node_add(node, g, before, count, step);
    }
    return mc_graph_close(g, error);
}

static int mc_event_node(mc_handle *node, mc_handle graph, const mc_handle *before, size_t count,
                         mc_handle event, mc_work_kind kind) {
    int error;
    mc_graph *g = mc_graph_open(graph, event, &error);
    mc_event *e = (mc_event *)mc_find(event, MC_EVENT);
    if (g) {
        mc_step *step = mc_step_new(e ? e->object.context : NULL);
        step->work.kind = e ? kind : MC_WORK_NOTHING;
        step->work.u.event.event = e;
        if (e) {
            e->object.refs++;
        }
        error = mc_node_add(node, g, before, count, step);
    }
    return mc_graph_close(g, e ? error : MC_BAD_HANDLE);
}

MC_API(cuGraphAddEventRecordNode, MC_NODE_ARGS, mc_handle event) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_event_node(node, graph, before, count, event, MC_WORK_RECORD);
}

MC_API(cuGraphAddEventWaitNode, MC_NODE_ARGS, mc_handle event) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_event_node(node, graph, before, count, event, MC_WORK_WAIT);
}

typedef struct mc_host_params {        /* CUDA_HOST_NODE_PARAMS */
    void (*fn)(void *);
    void *user;
} mc_host_params;

MC_API(cuGraphAddHostNode, MC_NODE_ARGS, const mc_host_params *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_graph *g = mc_graph_open(graph, params, &error);
    if (g) {
        mc_step *step = mc_step_new(mc_tls.here);
        step->work.kind = MC_WORK_HOST;
        step->work.u.host.fn = params->fn;
        step->work.u.host.user = params->user;
        error = mc_node_add(node, g, before, count, step);
    }
    return mc_graph_close(g, error);
}

MC_API(cuGraphAddDependencies, mc_handle graph, const mc_handle *from, const mc_handle *to,
       size_t count) {
    MC_ENTER(MC_NEEDS_INIT)
    int error;
    mc_graph *g = mc_graph_open(graph, &error, &error);
    for (size_t i = 0; g && i < count && !error; i++) {
        mc_node *n = (mc_node *)mc_find(to[i], MC_NODE);
        error = n && n->graph == g ? mc_node_after(n, &from[i], 1) : MC_INVALID;
    }
    return mc_graph_close(g, error);
}

#if MOCK_CUDA_VERSION >= 11070
typedef struct mc_batch_node_params {  /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
    mc_handle context;
    unsigned count;
    const mc_batch_params *params;
    unsigned flags;
} mc_batch_node_params;

static int mc_step_values(mc_step **step, const mc_batch_node_params *p) {
    mc_context *c = (mc_context *)mc_find(p->context, MC_CONTEXT);
    int error;
    if (!c || !p->params || p->flags) {
        return c ? MC_INVALID : MC_NO_CONTEXT;
    }
    *step = mc_step_new(c);
    error = mc_values_fill(&(*step)->work, p->params, p->count);
    if (error) {
        mc_step_unref(*step);
    }
    return error;
}

MC_API(cuGraphAddBatchMemOpNode, MC_NODE_ARGS, const mc_batch_node_params *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_step *step;
    mc_graph *g = mc_graph_open(graph, params, &error);
    if (g) {
        error = mc_step_values(&step, params);
        error = error ? error : mc_node_add(node, g, before, count, step);
    }
    return mc_graph_close(g, error);
}
#endif

/* ---- executable graphs ---- */

static void mc_shape_unref(mc_shape *s) {
    if (--s->refs == 0) {
        free(s->needs);
        free(s->first);
        free(s->next);
        free(s);
    }
}

static void mc_shape_edges(mc_shape *s, const mc_graph *g) {
    uint32_t *at = (uint32_t *)mc_calloc(g->count + 1, sizeof *at);
    for (uint32_t i = 0; i < g->count; i++) {
        s->needs[i] = g->nodes[i]->after_count;
        for (uint32_t k = 0; k < g->nodes[i]->after_count; k++) {
            s->first[g->nodes[i]->after[k] + 1]++;
        }
        s->events += g->nodes[i]->step->work.kind == MC_WORK_RECORD ||
                     g->nodes[i]->step->work.kind == MC_WORK_WAIT;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        s->first[i + 1] += s->first[i];
        at[i] = s->first[i];
    }
    s->next = (uint32_t *)mc_calloc(s->first[g->count], sizeof *s->next);
    for (uint32_t i = 0; i < g->count; i++) {
        for (uint32_t k = 0; k < g->nodes[i]->after_count; k++) {
            s->next[at[g->nodes[i]->after[k]]++] = i;
        }
    }
    free(at);
}

static mc_shape *mc_shape_new(const mc_graph *g) {
    mc_shape *s = (mc_shape *)mc_calloc(1, sizeof *s);
    s->refs = 1;
    s->count = g->count;
    s->needs = (uint32_t *)mc_calloc(g->count, sizeof *s->needs);
    s->first = (uint32_t *)mc_calloc(g->count + 1, sizeof *s->first);
    mc_shape_edges(s, g);
    return s;
}

/* Do the edges run in a circle? */
static int mc_shape_circles(const mc_shape *s) {
    uint32_t *needs = (uint32_t *)mc_calloc(2 * (size_t)s->count, sizeof *needs);
    uint32_t *ready = needs + s->count, count = 0, done = 0;
    memcpy(needs, s->needs, s->count * sizeof *needs);
    for (uint32_t i = 0; i < s->count; i++) {
        if (!needs[i]) {
            ready[count++] = i;
        }
    }
    while (done < count) {
        uint32_t n = ready[done++];
        for (uint32_t k = s->first[n]; k < s->first[n + 1]; k++) {
            if (--needs[s->next[k]] == 0) {
                ready[count++] = s->next[k];
            }
        }
    }
    free(needs);
    return done != s->count;
}

static mc_program *mc_program_new(mc_shape *shape) {
    mc_program *p = (mc_program *)mc_calloc(1, sizeof *p);
    p->refs = 1;
    p->shape = shape;
    p->steps = (mc_step **)mc_calloc(shape->count, sizeof *p->steps);
    p->disabled = (unsigned char *)mc_calloc(shape->count, 1);
    return p;
}

static void mc_program_unref(mc_program *p) {
    if (--p->refs) {
        return;
    }
    for (uint32_t i = 0; i < p->shape->count; i++) {
        mc_step_unref(p->steps[i]);
    }
    mc_shape_unref(p->shape);
    free(p->steps);
    free(p->disabled);
    free(p);
}

MC_API(cuGraphInstantiateWithFlags, mc_handle *exec, mc_handle graph, unsigned long long flags) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_graph *g = mc_graph_open(graph, exec, &error);
    if (!g || flags > 15) {
        return mc_graph_close(g, g ? MC_INVALID : error);
    }
    mc_shape *shape = mc_shape_new(g);
    if (mc_shape_circles(shape)) {
        mc_shape_unref(shape);
        return mc_graph_close(g, MC_INVALID);
    }
    mc_exec *e = (mc_exec *)mc_object_new(MC_EXEC, sizeof *e, mc_tls.here);
    e->graph_id = g->id;
    e->program = mc_program_new(shape);
    for (uint32_t i = 0; i < g->count; i++) {
        e->program->steps[i] = g->nodes[i]->step;
        g->nodes[i]->step->refs++;
    }
    *exec = mc_handle_of(e);
    return mc_graph_close(g, MC_OK);
}

static void mc_exec_free(mc_exec *e) {
    mc_program_unref(e->program);
    e->program = NULL;
    mc_object_forget(e);
    mc_object_unref(e);
}

MC_API(cuGraphExecDestroy, mc_handle exec) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    mc_exec *e = (mc_exec *)mc_find(exec, MC_EXEC);
    int error = e ? mc_take(e) : MC_BAD_HANDLE;
    if (!error && e->finished != e->launched) {
        mc_give(e);
        error = mc_misuse("the graph is launched and not done");
    }
    if (!error) {
        mc_exec_free(e);
    }
    return mc_leave(error);
}

MC_API(cuGraphUpload, mc_handle exec, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    mc_exec *e = (mc_exec *)mc_find(exec, MC_EXEC);
    if (!s || !e) {
        return mc_leave(e ? error : MC_BAD_HANDLE);
    }
    mc_op_enqueue(mc_op_new(s, MC_WORK_NOTHING));
    return mc_leave(MC_OK);
}

/* The records of a launch's event nodes, by node: those of its waits are the latest
   of their events now. */
static void mc_launch_events(mc_work *w, mc_program *p) {
    mc_record **records = (mc_record **)mc_calloc(p->shape->count, sizeof *records);
    w->large = (unsigned char *)records;
    for (uint32_t i = 0; i < p->shape->count; i++) {
        const mc_work *step = &p->steps[i]->work;
        if (step->kind == MC_WORK_RECORD) {
            records[i] = mc_event_renew(step->u.event.event);
        } else if (step->kind == MC_WORK_WAIT && step->u.event.event->record) {
            records[i] = step->u.event.event->record;
            records[i]->refs++;
        }
    }
}

MC_API(cuGraphLaunch, mc_handle exec, mc_handle stream) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    int error;
    mc_stream *s = mc_stream_open(stream, &error);
    mc_exec *e = (mc_exec *)mc_find(exec, MC_EXEC);
    if (!s || !e) {
        return mc_leave(e ? error : MC_BAD_HANDLE);
    }
    if (mc_take(e)) {
        return mc_leave(MC_INVALID);
    }
    mc_op *op = mc_op_new(s, MC_WORK_GRAPH);
    op->work.u.graph.exec = e;
    op->work.u.graph.program = e->program;
    op->work.u.graph.ticket = e->launched++;
    e->object.refs++;
    e->program->refs++;
    if (e->program->shape->events) {
        mc_launch_events(&op->work, e->program);
    }
    mc_op_enqueue(op);
    mc_give(e);
    return mc_leave(MC_OK);
}

/* Called after `large`, with the records, was freed. */
static void mc_graph_work_free(mc_work *w) {
    mc_program_unref(w->u.graph.program);
    mc_object_unref(w->u.graph.exec);
}

static int mc_graph_stores(const mc_work *w, const mc_value *wait) {
    const mc_program *p = w->u.graph.program;
    for (uint32_t i = 0; i < p->shape->count; i++) {
        if (mc_work_stores(&p->steps[i]->work, wait)) {
            return 1;
        }
    }
    return 0;
}

/* ---- execution ---- */

static int mc_exec_ready(const mc_waiter *w) {
    return ((const mc_exec *)w->object)->finished == w->value;
}

/* Would this step have to wait? */
static int mc_step_blocks(const mc_step *s, const mc_record *r) {
    if (s->work.kind == MC_WORK_WAIT) {
        return r && !r->done;
    }
    const mc_value *v = (const mc_value *)(const void *)(s->work.large ? s->work.large :
                                                         s->work.small);
    return s->work.kind == MC_WORK_VALUES && (v->type == MC_WAIT32 || v->type == MC_WAIT64) &&
           mc_range_at(v->address) && !mc_value_met(v, mc_value_read(v));
}

static int mc_step_run(mc_step *s, mc_record *r) {
    mc_work event = {.kind = s->work.kind, .context = s->work.context};
    int is_event = s->work.kind == MC_WORK_RECORD || s->work.kind == MC_WORK_WAIT;
    event.u.event.record = r;
    event.kind = r ? event.kind : MC_WORK_NOTHING;
    mc_tls.where = mc_work_names[s->work.kind];
    if (s->work.context && s->work.context->ended) {
        mc_misuse("a node's context has ended");
        return 0;
    }
    return mc_work_run(is_event ? &event : &s->work);
}

/* Takes a step out of those that may run: by chance, of those that do not block. */
static uint32_t mc_ready_take(uint32_t *ready, uint32_t *count, mc_program *p,
                              mc_record **records) {
    uint32_t at = (uint32_t)(mc_random(&mc_tls.random) % *count), n;
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t k = (at + i) % *count;
        if (!mc_step_blocks(p->steps[ready[k]], records ? records[ready[k]] : NULL)) {
            at = k;
            break;
        }
    }
    n = ready[at];
    ready[at] = ready[--*count];
    return n;
}

static int mc_program_run(mc_work *w, mc_program *p, mc_record **records) {
    const mc_shape *s = p->shape;
    uint32_t *needs = (uint32_t *)mc_calloc(2 * (size_t)s->count, sizeof *needs);
    uint32_t *ready = needs + s->count, count = 0;
    int error = 0;
    memcpy(needs, s->needs, s->count * sizeof *needs);
    for (uint32_t i = 0; i < s->count; i++) {
        if (!needs[i]) {
            ready[count++] = i;
        }
    }
    while (count && !error && !w->context->error) {
        uint32_t n = mc_ready_take(ready, &count, p, records);
        error = p->disabled[n] ? 0 : mc_step_run(p->steps[n], records ? records[n] : NULL);
        M.counts.operations++;
        M.counts.graph_nodes++;
        for (uint32_t k = s->first[n]; k < s->first[n + 1]; k++) {
            if (--needs[s->next[k]] == 0) {
                ready[count++] = s->next[k];
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
    mc_program *p = w->u.graph.program;
    mc_record **records = (mc_record **)(void *)w->large;
    int error = 0;
    mc_wait(mc_exec_ready, e, w->u.graph.ticket, "the last launch of a graph");
    if (!w->context->error) {
        M.counts.graph_launches++;
        error = mc_program_run(w, p, records);
    }
    for (uint32_t i = 0; records && i < p->shape->count; i++) {
        if (records[i]) {
            if (p->steps[i]->work.kind == MC_WORK_RECORD && !records[i]->done) {
                mc_record_finish(records[i]);
            }
            mc_record_unref(records[i]);
        }
    }
    e->finished++;
    return error;
}

/* ---- updates ---- */

/* Finds the executable graph, which is taken, and the node in it. */
static mc_exec *mc_exec_open(mc_handle exec, mc_handle node, uint32_t *index, int *error) {
    mc_exec *e = (mc_exec *)mc_find(exec, MC_EXEC);
    mc_node *n = (mc_node *)mc_find(node, MC_NODE);
    *error = !e || !n ? MC_BAD_HANDLE : e->object.context->error;
    if (*error) {
        return NULL;
    }
    if (n->graph->id != e->graph_id || n->index >= e->program->shape->count) {
        *error = mc_misuse("the node is not of the graph that was instantiated");
        return NULL;
    }
    *index = n->index;
    *error = mc_take(e);
    return *error ? NULL : e;
}

/* The program for later launches: that of launches which are enqueued stays as it is. */
static void mc_exec_own(mc_exec *e) {
    if (e->program->refs > 1) {
        mc_program *p = mc_program_new(e->program->shape);
        p->shape->refs++;
        for (uint32_t i = 0; i < p->shape->count; i++) {
            p->steps[i] = e->program->steps[i];
            p->steps[i]->refs++;
            p->disabled[i] = e->program->disabled[i];
        }
        mc_program_unref(e->program);
        e->program = p;
    }
}

/* Puts a step in the place of another. */
static void mc_exec_replace(mc_exec *e, uint32_t index, mc_step *step) {
    mc_exec_own(e);
    mc_step_unref(e->program->steps[index]);
    e->program->steps[index] = step;
}

static int mc_kernel_update(mc_handle exec, mc_handle node, const mc_kernel_params *params) {
    uint32_t index;
    int error;
    mc_step *step;
    mc_exec *e = mc_exec_open(exec, node, &index, &error);
    if (!e) {
        return mc_leave(error);
    }
    const mc_work *old = &e->program->steps[index]->work;
    error = params && old->kind == MC_WORK_KERNEL ? mc_step_kernel(&step, params) : MC_INVALID;
    if (!error && step->work.context != old->context) {
        mc_step_unref(step);
        error = MC_INVALID;
    }
    if (!error) {
        mc_exec_replace(e, index, step);
    }
    mc_give(e);
    return mc_leave(error);
}

MC_API(cuGraphExecKernelNodeSetParams, mc_handle exec, mc_handle node,
       const mc_kernel_params *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    return mc_kernel_update(exec, node, params);
}

#if MOCK_CUDA_VERSION >= 12000
MC_API(cuGraphExecKernelNodeSetParams_v2, mc_handle exec, mc_handle node,
       const mc_kernel_params_v2 *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    if (!mc_kernel_params_good(params)) {
        return mc_leave(mc_misuse("the mock has no CUkernel"));
    }
    return mc_kernel_update(exec, node, params ? &params->old : NULL);
}
#endif

MC_API(cuGraphExecMemcpyNodeSetParams, mc_handle exec, mc_handle node,
       const mc_copy_params *params, mc_handle context) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    uint32_t index;
    int error;
    mc_step *step;
    mc_context *c = (mc_context *)mc_find(context, MC_CONTEXT);
    mc_exec *e = c ? mc_exec_open(exec, node, &index, &error) : NULL;
    if (!e) {
        return mc_leave(c ? error : MC_NO_CONTEXT);
    }
    const mc_step *old = e->program->steps[index];
    error = params && old->work.kind == MC_WORK_COPY && old->work.context == c ?
            mc_step_copy(&step, params, c) : MC_INVALID;
    if (!error && !(mc_owner_same(&old->dst, &step->dst) &&
                    mc_owner_same(&old->src, &step->src))) {
        mc_step_unref(step);
        error = MC_INVALID;
    }
    if (!error) {
        mc_exec_replace(e, index, step);
    }
    mc_give(e);
    return mc_leave(error);
}

/* A memset may get another value and address; more only with luck. */
static int mc_set_like(const mc_step *a, const mc_step *b) {
    int strict = (M.desc.flags & MOCK_CUDA_STRICT_MEMSETS) != 0 || a->work.u.set.height > 1;
    return mc_owner_same(&a->dst, &b->dst) && a->work.u.set.height == b->work.u.set.height &&
           (!strict || (a->work.u.set.width == b->work.u.set.width &&
                        a->work.u.set.pitch == b->work.u.set.pitch &&
                        a->work.u.set.element == b->work.u.set.element));
}

MC_API(cuGraphExecMemsetNodeSetParams, mc_handle exec, mc_handle node,
       const mc_set_params *params, mc_handle context) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    uint32_t index;
    int error;
    mc_step *step;
    mc_context *c = (mc_context *)mc_find(context, MC_CONTEXT);
    mc_exec *e = c ? mc_exec_open(exec, node, &index, &error) : NULL;
    if (!e) {
        return mc_leave(c ? error : MC_NO_CONTEXT);
    }
    const mc_step *old = e->program->steps[index];
    error = params && old->work.kind == MC_WORK_SET && old->work.context == c ?
            mc_step_set(&step, params, c) : MC_INVALID;
    if (!error && !mc_set_like(old, step)) {
        mc_step_unref(step);
        error = MC_INVALID;
    }
    if (!error) {
        mc_exec_replace(e, index, step);
    }
    mc_give(e);
    return mc_leave(error);
}

#if MOCK_CUDA_VERSION >= 11070 /* from 11.6 on */
/* The executable graph, taken, with a node that can be disabled; or NULL. */
static mc_exec *mc_exec_able(mc_handle exec, mc_handle node, uint32_t *index, int *error) {
    mc_exec *e = mc_exec_open(exec, node, index, error);
    if (e) {
        mc_work_kind kind = e->program->steps[*index]->work.kind;
        if (kind == MC_WORK_KERNEL || kind == MC_WORK_COPY || kind == MC_WORK_SET) {
            return e;
        }
        mc_give(e);
        *error = MC_INVALID;
    }
    return NULL;
}

MC_API(cuGraphNodeSetEnabled, mc_handle exec, mc_handle node, unsigned enabled) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    uint32_t index;
    int error;
    mc_exec *e = mc_exec_able(exec, node, &index, &error);
    if (e) {
        mc_exec_own(e);
        e->program->disabled[index] = !enabled;
        mc_give(e);
    }
    return mc_leave(error);
}

MC_API(cuGraphNodeGetEnabled, mc_handle exec, mc_handle node, unsigned *enabled) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    uint32_t index;
    int error;
    mc_exec *e = enabled ? mc_exec_able(exec, node, &index, &error) : NULL;
    if (e) {
        *enabled = !e->program->disabled[index];
        mc_give(e);
    }
    return mc_leave(enabled ? error : MC_INVALID);
}

static int mc_values_like(const mc_work *a, mc_work *b) {
    const mc_value *old = (const mc_value *)(const void *)(a->large ? a->large : a->small);
    for (uint32_t i = 0; i < a->u.values.count && i < b->u.values.count; i++) {
        if (old[i].type != mc_work_values(b)[i].type) {
            return 0;
        }
    }
    return a->u.values.count == b->u.values.count && a->context == b->context;
}

MC_API(cuGraphExecBatchMemOpNodeSetParams, mc_handle exec, mc_handle node,
       const mc_batch_node_params *params) {
    MC_ENTER(MC_NEEDS_CONTEXT)
    uint32_t index;
    int error;
    mc_step *step;
    mc_exec *e = mc_exec_open(exec, node, &index, &error);
    if (!e) {
        return mc_leave(error);
    }
    const mc_work *old = &e->program->steps[index]->work;
    error = params && old->kind == MC_WORK_VALUES ? mc_step_values(&step, params) : MC_INVALID;
    if (!error && !mc_values_like(old, &step->work)) {
        mc_step_unref(step);
        error = MC_INVALID;
    }
    if (!error) {
        mc_exec_replace(e, index, step);
    }
    mc_give(e);
    return mc_leave(error);
}
#endif

#endif /* HCQ_TEST_MOCK_CUDA_GRAPHS_H */
