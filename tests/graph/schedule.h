/* schedule.h - the schedule: lists per device with SYNC and WAIT, its
   rules, its order, its text. Part of graph.c. */
#ifndef HCQ_TEST_GRAPH_SCHEDULE_H
#define HCQ_TEST_GRAPH_SCHEDULE_H

static hcqi_schedule *build_schedule(hcq_queue *q, uint32_t flags, const uint32_t *start) {
    hcqi_enter();
    hcq_result r = hcqi_schedule_build(q, flags);
    if (r == HCQ_OK) {
        hcqi_schedule_order(q, start);
    }
    hcqi_leave();
    CHECK_OK(r);
    return &q->graph->schedule;
}

static void refuse_schedule(hcq_queue *q, uint32_t flags) {
    char text[256] = "x";
    hcq_point point;
    uint64_t number = hcq_device_timeline_value(T.dev);
    log_clear();
    CHECK(launch_with(q, NULL, 0, HCQ_STEP | flags, &point) < 0);
    CHECK_U64(hcq_device_timeline_value(T.dev), number);
    CHECK(T.log.lines > 0);
    CHECK_U64(hcq_queue_print(q, flags, text, sizeof text), 0);
    CHECK_U64(text[0], 0);
    CHECK_U64(hcq_queue_dot(q, flags, text, sizeof text), 0);
}

/* ---- rules that hold for every schedule ---- */

static uint32_t item_of_call[CALLS];

/* Every call stands in one list, once. */
static void find_items(const graph *g, const hcqi_schedule *s) {
    memset(item_of_call, 0xff, sizeof item_of_call);
    for (uint32_t l = 0; l < s->list_count; l++) {
        for (uint32_t i = 0; i < s->lists[l].count; i++) {
            const hcqi_item *item = &s->items[s->lists[l].items[i]];
            if (item->kind != HCQI_ITEM_CALL) {
                continue;
            }
            if (item->call >= g->count || item_of_call[item->call] != NOBODY) {
                wrong("call %u stands twice in the schedule", item->call);
            }
            item_of_call[item->call] = s->lists[l].items[i];
        }
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (item_of_call[i] == NOBODY) {
            wrong("call %u is in no list", i);
        }
    }
}

static uint32_t source_of(const hcqi_schedule *s, const hcqi_item *wait) {
    return s->items[wait->sync].list;
}

/* Nothing stands twice, nothing needless stands at all. */
static void check_list(const hcqi_schedule *s, uint32_t at, uint32_t *waiters) {
    const hcqi_list *list = &s->lists[at];
    for (uint32_t i = 0; i < list->count; i++) {
        const hcqi_item *item = &s->items[list->items[i]];
        const hcqi_item *last = i ? &s->items[list->items[i - 1]] : NULL;
        if (item->list != at) {
            wrong("item %u of list %u belongs to list %u", i, at, item->list);
        }
        if (last && last->kind == HCQI_ITEM_SYNC && item->kind == HCQI_ITEM_SYNC) {
            wrong("SYNC after SYNC in list %u", at);
        }
        if (item->kind != HCQI_ITEM_WAIT) {
            continue;
        }
        waiters[item->sync]++;
        if (s->items[item->sync].kind != HCQI_ITEM_SYNC || source_of(s, item) == at) {
            wrong("a WAIT in list %u is for no SYNC of another list", at);
        }
        if (last && last->kind == HCQI_ITEM_WAIT && source_of(s, last) == source_of(s, item)) {
            wrong("WAIT after WAIT for the same list in list %u", at);
        }
        for (uint32_t k = 0; k < i; k++) {
            const hcqi_item *earlier = &s->items[list->items[k]];
            if (earlier->kind == HCQI_ITEM_WAIT && earlier->sync == item->sync) {
                wrong("the same WAIT twice in list %u", at);
            }
        }
    }
}

static void check_waiters(const hcqi_schedule *s, const uint32_t *waiters) {
    for (uint32_t l = 0; l < s->list_count; l++) {
        for (uint32_t i = 0; i < s->lists[l].count; i++) {
            const hcqi_item *item = &s->items[s->lists[l].items[i]];
            if (item->kind == HCQI_ITEM_SYNC &&
                (waiters[s->lists[l].items[i]] == 0 ||
                 waiters[s->lists[l].items[i]] != item->waiters)) {
                wrong("a SYNC of list %u counts %u waiters, it has %u", l, item->waiters,
                      waiters[s->lists[l].items[i]]);
            }
        }
    }
}

/* Items of a list run in its order; who matters to each other, in theirs. */
static void check_run_order(const graph *g, const hcqi_schedule *s) {
    for (uint32_t l = 0; l < s->list_count; l++) {
        for (uint32_t i = 1; i < s->lists[l].count; i++) {
            if (s->items[s->lists[l].items[i - 1]].order >= s->items[s->lists[l].items[i]].order) {
                wrong("list %u does not run in its order at %u", l, i);
            }
        }
    }
    for (uint32_t j = 0; j < g->count; j++) {
        for (uint32_t i = 0; i < j; i++) {
            if (set_has(&R.hazards[j], i) &&
                s->items[item_of_call[i]].order >= s->items[item_of_call[j]].order) {
                wrong("the schedule runs call %u before call %u", j, i);
            }
        }
    }
}

/* Calls stand in the list of the device they run on; copies in one of their own
   if that is asked for. */
static void check_places(const graph *g, const hcqi_schedule *s, uint32_t flags) {
    for (uint32_t i = 0; i < g->count; i++) {
        const hcqi_list *list = &s->lists[s->items[item_of_call[i]].list];
        int copies = g->calls[i].kind == CALL_COPY && (flags & HCQ_COPY_LISTS) != 0;
        if (list->dev != W.devices[g->calls[i].device] ||
            (list->copies != 0) != copies) {
            wrong("call %u stands in a wrong list", i);
        }
    }
}

/* From any list that starts first. */
static void check_schedule(graph *g, uint32_t flags) {
    static uint32_t waiters[16 * CALLS];
    uint32_t start[HCQI_MAX_DEVICES * 2];
    if (!g->can_step) {
        return;
    }
    find_hazards(g);
    for (uint32_t round = 0; round < 3; round++) {
        hcqi_schedule *s = build_schedule(g->queue, flags, NULL);
        for (uint32_t i = 0; i < s->list_count; i++) {
            start[i] = i;
        }
        shuffle(start, s->list_count);
        s = round ? build_schedule(g->queue, flags, start) : s;
        CHECK(s->item_count <= 16 * CALLS);
        memset(waiters, 0, sizeof waiters);
        find_items(g, s);
        for (uint32_t l = 0; l < s->list_count; l++) {
            check_list(s, l, waiters);
        }
        check_waiters(s, waiters);
        check_places(g, s, flags);
        check_run_order(g, s);
    }
}

/* Schedules of random graphs, by their structure alone. */
static void random_schedules(void **state) {
    (void)state;
    uint32_t seen = 0;
    world_open(NULL);
    for (uint64_t i = 0; i < (T.quick ? 150u : 600u); i++) {
        graph *g = &W.graph;
        W.seed = O.first + i;
        W.random = W.seed * 0x9e3779b97f4a7c15ull + 99;
        W.step = "scheduling";
        draw_graph(g);
        if (!g->can_step) {
            continue;
        }
        record_graph(g);
        check_schedule(g, 0);
        check_schedule(g, HCQ_COPY_LISTS);
        hcq_queue_destroy(g->queue);
        seen++;
    }
    CHECK(seen > 10);
    world_close();
}

/* ---- the example of the blog post ---- */

/* A device of the world's first ordinals with a name of its own. */
static hcq_device *open_named(uint32_t ordinal, const char *label) {
    hcq_device_desc desc = test_desc();
    desc.label = label;
    return test_open(ordinal, &desc);
}

typedef struct dot_args { uint64_t out, a, b; uint32_t n; } dot_args;

static void k_dot(const void *block_args, const hcq_block *b) {
    const dot_args *k = HCQ_ARGS(dot_args, block_args);
    uint32_t sum = 0;
    (void)b;
    for (uint32_t i = 0; i < k->n; i++) {
        sum += HCQ_PTR(const uint32_t, k->a)[i] * HCQ_PTR(const uint32_t, k->b)[i];
    }
    *HCQ_PTR(uint32_t, k->out) = sum;
}
TEST_SHADER(k_dot, dot)

/* "METAL: WAIT(EXT) COPY COPY EXEC SYNC" */
static void list_text(hcq_queue *q, const hcqi_schedule *s, const char *const *names,
                      hcq_device *const *devices, uint32_t at, char *text, size_t size) {
    const hcqi_list *list = &s->lists[at];
    size_t used = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const hcqi_item *item = &s->items[list->items[i]];
        hcq_command command;
        const char *word = "SYNC", *of = "";
        if (item->kind == HCQI_ITEM_CALL) {
            CHECK_OK(hcq_queue_command(q, item->call, &command));
            word = command.kind == HCQ_COMMAND_EXEC    ? "EXEC"
                   : command.kind == HCQ_COMMAND_COPY  ? "COPY"
                   : command.kind == HCQ_COMMAND_EMPTY ? "EMPTY"
                                                       : "OTHER";
        }
        if (item->kind == HCQI_ITEM_WAIT) {
            const hcqi_list *source = &s->lists[source_of(s, item)];
            word = source->copies ? "WAIT-COPY " : "WAIT ";
            for (uint32_t d = 0; d < 3; d++) {
                of = devices[d] == source->dev ? names[d] : of;
            }
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", i ? ", " : "", word, of);
    }
}

static void expect_list(hcq_queue *q, const hcqi_schedule *s, const char *const *names,
                        hcq_device *const *devices, uint32_t device, int copies,
                        const char *want) {
    char text[512] = "";
    for (uint32_t l = 0; l < s->list_count; l++) {
        if (s->lists[l].dev == devices[device] && (s->lists[l].copies != 0) == copies) {
            list_text(q, s, names, devices, l, text, sizeof text);
        }
    }
    if (strcmp(text, want) != 0) {
        fprintf(stderr, "%s has: %s\nwanted:  %s\n", names[device], text, want);
        fail();
    }
}

static const char *const post_names[3] = {"METAL", "EXT", "CLANG"};

typedef struct post {
    hcq_device *devices[3];
    hcq_program *dot;
    hcq_buffer a, b, result;           /* [1, 2] and [3, 4] in EXT's memory */
    hcq_queue *q;
} post;

static void post_open(post *p) {
    static const uint32_t a[2] = {1, 2}, b[2] = {3, 4};
    hcq_program_desc desc = {"dot", k_dot,
                             {HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_IN, HCQ_ARG_U32}, NULL, NULL,
                             {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    for (uint32_t d = 0; d < 3; d++) {
        p->devices[d] = open_named(1 + d, post_names[d]);
    }
    CHECK_OK(hcq_alloc(p->devices[1], 8, 0, &p->a));
    CHECK_OK(hcq_alloc(p->devices[1], 8, 0, &p->b));
    CHECK_OK(hcq_alloc(p->devices[2], 4, HCQ_ZEROED, &p->result));
    CHECK_OK(hcq_copyin(p->a, a, 8));
    CHECK_OK(hcq_copyin(p->b, b, 8));
    CHECK_OK(hcq_program_create(p->devices[0], &desc, &p->dot));
    p->q = make_queue(p->devices[0], HCQ_GRAPH);
}

static void post_close(post *p) {
    hcq_queue_destroy(p->q);
    for (uint32_t d = 0; d < 3; d++) {
        CHECK_OK(hcq_close(p->devices[d]));
    }
}

/* With buffers of the graph's own the outputs are made when it first runs. */
static void post_record(post *p, int empties) {
    hcq_buffer on[3];
    uint32_t index = 0;
    for (uint32_t i = 0; i < 3; i++) {
        if (empties) {
            CHECK_INDEX(hcq_queue_empty(p->q, p->devices[0], 8, 0, &on[i]), index++);
        } else {
            CHECK_OK(hcq_alloc(p->devices[0], 8, 0, &on[i]));
        }
    }
    CHECK_INDEX(hcq_queue_copy(p->q, on[0], p->a, 8), index++);
    CHECK_INDEX(hcq_queue_copy(p->q, on[1], p->b, 8), index++);
    dot_args args = {on[2].address, on[0].address, on[1].address, 2};
    CHECK_INDEX(hcq_queue_exec(p->q, p->dot, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)),
                index++);
    CHECK_INDEX(hcq_queue_copy(p->q, p->result, on[2], 4), index++);
}

static void post_step(post *p, uint32_t flags) {
    hcq_submission s;
    hcq_point point;
    uint32_t zero = 0;
    CHECK_OK(hcq_copyin(p->result, &zero, 4));
    memset(&s, 0, sizeof s);
    s.queues = &p->q;
    s.queue_count = 1;
    s.flags = flags;
    CHECK_OK(hcq_submit(p->devices[0], &s, 1, &point));
    if (flags & HCQ_STEP) {
        CHECK_OK(test_poll(point));
    }
    WAIT_OK(point);
    CHECK_U64(READ32(p->result, 0), 11);
}

/* Number of each call, SYNC and WAIT, for comparison. */
static void take_order(const hcqi_schedule *s, uint32_t *order) {
    for (uint32_t l = 0, n = 0; l < s->list_count; l++) {
        for (uint32_t i = 0; i < s->lists[l].count; i++) {
            order[n++] = s->items[s->lists[l].items[i]].order;
        }
    }
}

static void the_order_is_one(post *p, uint32_t flags) {
    static const uint32_t starts[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    uint32_t first[64], order[64];
    hcqi_schedule *s = build_schedule(p->q, flags, NULL);
    CHECK_U64(s->list_count, 3);
    CHECK(s->item_count <= 64);
    memset(first, 0, sizeof first);
    take_order(s, first);
    for (uint32_t i = 0; i < 6; i++) {
        memset(order, 0, sizeof order);
        take_order(build_schedule(p->q, flags, starts[i]), order);
        CHECK(memcmp(order, first, sizeof order) == 0);
    }
}

/* Numbers are the order in which HCQ_STEP does the items. */
static const char post_text[] = "METAL\n"
                                "    1  WAIT EXT 0\n"
                                "    2  copy  [0]\n"
                                "    3  copy  [1]\n"
                                "    4  exec dot  [2]\n"
                                "    5  SYNC (1 waiting)\n"
                                "EXT\n"
                                "    0  SYNC (1 waiting)\n"
                                "CLANG\n"
                                "    6  WAIT METAL 5\n"
                                "    7  copy  [3]\n";

static void the_example_of_the_post(void **state) {
    (void)state;
    post p;
    char text[1024];
    NEEDS_MAP
    post_open(&p);
    post_record(&p, 0);
    hcqi_schedule *s = build_schedule(p.q, 0, NULL);
    expect_list(p.q, s, post_names, p.devices, 0, 0, "WAIT EXT, COPY, COPY, EXEC, SYNC");
    expect_list(p.q, s, post_names, p.devices, 1, 0, "SYNC");
    expect_list(p.q, s, post_names, p.devices, 2, 0, "WAIT METAL, COPY");
    the_order_is_one(&p, 0);
    CHECK_U64(hcq_queue_print(p.q, 0, text, sizeof text), sizeof post_text - 1);
    CHECK(strcmp(text, post_text) == 0);
    CHECK_U64(hcq_queue_print(p.q, 0, text, 10), sizeof post_text - 1);
    CHECK(strcmp(text, "METAL\n   ") == 0);
    CHECK_U64(hcq_queue_print(p.q, 0, NULL, 0), sizeof post_text - 1);
    CHECK(hcq_queue_dot(p.q, 0, text, sizeof text) < sizeof text);
    CHECK(strncmp(text, "digraph ", 8) == 0 && strstr(text, "label=\"METAL\"") &&
          strstr(text, "label=\"4: exec dot\"") && strstr(text, "label=\"6: WAIT METAL 5\""));
    post_step(&p, HCQ_STEP);
    post_step(&p, 0);
    post_step(&p, HCQ_STEP | HCQ_COPY_LISTS);
    post_close(&p);
}

static void the_example_with_empties(void **state) {
    (void)state;
    post p;
    NEEDS_MAP
    post_open(&p);
    post_record(&p, 1);
    uint64_t before = test_query(p.devices[0], HCQ_QUERY_ALLOCATED_BYTES);
    hcqi_schedule *s = build_schedule(p.q, 0, NULL);
    expect_list(p.q, s, post_names, p.devices, 0, 0,
                "EMPTY, EMPTY, EMPTY, WAIT EXT, COPY, COPY, EXEC, SYNC");
    expect_list(p.q, s, post_names, p.devices, 1, 0, "SYNC");
    expect_list(p.q, s, post_names, p.devices, 2, 0, "WAIT METAL, COPY");
    CHECK_U64(test_query(p.devices[0], HCQ_QUERY_ALLOCATED_BYTES), before);
    post_step(&p, HCQ_STEP);
    CHECK(test_query(p.devices[0], HCQ_QUERY_ALLOCATED_BYTES) >= before + 24);
    before = test_query(p.devices[0], HCQ_QUERY_ALLOCATED_BYTES);
    post_step(&p, HCQ_STEP);
    post_step(&p, 0);
    CHECK_U64(test_query(p.devices[0], HCQ_QUERY_ALLOCATED_BYTES), before);
    post_close(&p);
}

/* ---- rules, one by one ---- */

/* Kernels on EXT that change a and b; copies of them to METAL and CLANG. */
static void record_change(post *p, uint32_t index, hcq_program *on, hcq_buffer what) {
    add_args args = {what.address, 1, 1};
    CHECK_INDEX(hcq_queue_exec(p->q, on, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), index);
    CHECK_OK(hcq_queue_access(p->q, index, hcq_view(what, 0, 4), HCQ_ARG_INOUT));
}

static void a_sync_is_reused_if_it_is_last(void **state) {
    (void)state;
    post p;
    hcq_buffer metal, clang;
    NEEDS_MAP
    post_open(&p);
    hcq_program *add = make_add(p.devices[1]);
    CHECK_OK(hcq_alloc(p.devices[0], 8, 0, &metal));
    CHECK_OK(hcq_alloc(p.devices[2], 8, 0, &clang));
    record_change(&p, 0, add, p.a);
    CHECK_INDEX(hcq_queue_copy(p.q, metal, p.a, 8), 1);
    CHECK_INDEX(hcq_queue_copy(p.q, clang, p.a, 8), 2);
    record_change(&p, 3, add, p.b);
    CHECK_INDEX(hcq_queue_copy(p.q, clang, p.b, 8), 4);
    hcqi_schedule *s = build_schedule(p.q, 0, NULL);
    expect_list(p.q, s, post_names, p.devices, 1, 0, "EXEC, SYNC, EXEC, SYNC");
    expect_list(p.q, s, post_names, p.devices, 0, 0, "WAIT EXT, COPY");
    expect_list(p.q, s, post_names, p.devices, 2, 0, "WAIT EXT, COPY, WAIT EXT, COPY");
    the_order_is_one(&p, 0);
    post_close(&p);
}

/* A SYNC goes back as long as another list has something else to do. */
static void a_sync_lets_others_go_first(void **state) {
    (void)state;
    post p;
    hcq_buffer metal, clang;
    NEEDS_MAP
    post_open(&p);
    hcq_program *add = make_add(p.devices[2]);
    CHECK_OK(hcq_alloc(p.devices[0], 8, 0, &metal));
    CHECK_OK(hcq_alloc(p.devices[2], 8, 0, &clang));
    CHECK_INDEX(hcq_queue_copy(p.q, metal, p.a, 8), 0);
    record_change(&p, 1, add, clang);
    record_change(&p, 2, add, clang);
    the_order_is_one(&p, 0);
    hcqi_schedule *s = build_schedule(p.q, 0, NULL);
    for (uint32_t i = 0; i < s->item_count; i++) {
        const hcqi_item *item = &s->items[i];
        int kernel = item->kind == HCQI_ITEM_CALL && item->call != 0;
        CHECK(kernel ? item->order < 2 : item->order >= 2);
    }
    post_close(&p);
}

/* Two copies in a list of their own make two SYNCs for the kernel behind them:
   the second WAIT takes the first one's place, and the first SYNC goes. */
static void a_wait_replaces_the_one_before_it(void **state) {
    (void)state;
    post p;
    NEEDS_MAP
    post_open(&p);
    hcq_program *add = make_add(p.devices[1]);
    hcq_buffer on[3];
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(hcq_alloc(p.devices[0], 8, 0, &on[i]));
    }
    record_change(&p, 0, add, p.a);
    CHECK_INDEX(hcq_queue_copy(p.q, on[0], p.a, 8), 1);
    record_change(&p, 2, add, p.b);
    CHECK_INDEX(hcq_queue_copy(p.q, on[1], p.b, 8), 3);
    dot_args args = {on[2].address, on[0].address, on[1].address, 2};
    CHECK_INDEX(hcq_queue_exec(p.q, p.dot, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(1, 1, 1)), 4);
    CHECK_INDEX(hcq_queue_copy(p.q, p.result, on[2], 4), 5);
    hcqi_schedule *s = build_schedule(p.q, HCQ_COPY_LISTS, NULL);
    expect_list(p.q, s, post_names, p.devices, 1, 0, "EXEC, SYNC, EXEC, SYNC");
    expect_list(p.q, s, post_names, p.devices, 0, 1, "WAIT EXT, COPY, WAIT EXT, COPY, SYNC");
    expect_list(p.q, s, post_names, p.devices, 0, 0, "WAIT-COPY METAL, EXEC, SYNC");
    expect_list(p.q, s, post_names, p.devices, 2, 1, "WAIT METAL, COPY");
    post_close(&p);
}

/* What the post orders by luck: writes after reads, writes after writes. */
static void later_writes_wait_too(void **state) {
    (void)state;
    post p;
    hcq_buffer metal;
    NEEDS_MAP
    post_open(&p);
    hcq_program *add = make_add(p.devices[1]);
    CHECK_OK(hcq_alloc(p.devices[0], 8, 0, &metal));
    CHECK_INDEX(hcq_queue_copy(p.q, metal, p.a, 8), 0);
    record_change(&p, 1, add, p.a);    /* after the copy has read it */
    hcqi_schedule *s = build_schedule(p.q, 0, NULL);
    expect_list(p.q, s, post_names, p.devices, 1, 0, "SYNC, WAIT METAL, EXEC");
    expect_list(p.q, s, post_names, p.devices, 0, 0, "WAIT EXT, COPY, SYNC");
    post_close(&p);
}

static void what_the_schedule_refuses(void **state) {
    (void)state;
    hcq_queue *q;
    NEEDS_MAP
    cells_open(0);                     /* odd cells are the other device's */
    q = make_queue(T.dev, HCQ_GRAPH);
    record_paced(q, 0, 0, 0, cell(0), cell(1));
    refuse_schedule(q, 0);             /* a kernel over two devices */
    hcq_queue_destroy(q);
    q = make_queue(T.dev, HCQ_GRAPH);
    CHECK_INDEX(hcq_queue_copy(q, cell(0), cell(1), 4), 0);
    CHECK_OK(hcq_queue_access(q, 0, cell(2), HCQ_ARG_OUT));
    refuse_schedule(q, 0);             /* a copy with two outputs */
    refuse_schedule(q, HCQ_COPY_LISTS);
    hcq_queue_destroy(q);
    check_cells("refused");
}

/* ---- as text ---- */

#define GRAPH_SCHEDULE_CASES \
    TEST_BARE(random_schedules), TEST(the_example_of_the_post), TEST(the_example_with_empties), \
    TEST(a_sync_is_reused_if_it_is_last), TEST(a_sync_lets_others_go_first), \
    TEST(a_wait_replaces_the_one_before_it), \
    TEST(later_writes_wait_too), TEST(what_the_schedule_refuses)

#endif /* HCQ_TEST_GRAPH_SCHEDULE_H */
