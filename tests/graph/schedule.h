/* schedule.h - the schedule: lists per device with SYNC and WAIT, its rules, its
   order, its text. Part of graph.c. */

static void build_schedule(hcqi_schedule *s, hcq_queue *q, uint32_t flags) {
    hcqi_enter();
    hcq_result r = hcqi_schedule_build(s, q, flags);
    hcqi_leave();
    CHECK_OK(r);
}

/* ---- rules that hold for every schedule ---- */

enum { ITEMS = 16 * PARTS };           /* at most */

static uint32_t item_of_call[PARTS];

static uint32_t source_of(const hcqi_schedule *s, const hcqi_item *wait) {
    return s->items[wait->sync].list;
}

/* A WAIT is for the call behind it, which needs what no WAIT before it covers; a copy
   waits for its source's list in any case, but for no SYNC twice. */
static void check_wait_is_needed(const graph *g, const hcqi_schedule *s, uint32_t at) {
    const hcqi_item *wait = &s->items[at];
    const uint32_t from = source_of(s, wait);
    uint32_t open = 0, next = at;      /* the first item that none covers */
    for (uint32_t k = s->lists[wait->list].first; k != at; k = s->items[k].next) {
        if (s->items[k].kind == HCQI_ITEM_WAIT && source_of(s, &s->items[k]) == from) {
            open = s->items[k].sync + 1;
        }
    }
    while (next != HCQI_NONE && s->items[next].kind != HCQI_ITEM_CALL) {
        next = s->items[next].next;
    }
    WRONG_IF(next == HCQI_NONE || open > wait->sync, "a WAIT for nothing new in list %u at %u",
             wait->list, at);
    const uint32_t index = s->items[next].call;
    const call *c = &g->calls[index];
    if (c->kind == CALL_EMPTY ||       /* it runs nowhere, and a fence is before it, too */
        (c->kind == CALL_COPY && s->lists[from].dev == W.devices[g->device_of[c->a.name]])) {
        return;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (set_has(&R.hazards[index], i) && s->items[item_of_call[i]].list == from &&
            item_of_call[i] >= open) {
            return;
        }
    }
    wrong("call %u of list %u needs no WAIT at %u", index, wait->list, at);
}

/* A call stands in the list of the device it runs on, a copy in its target's; in one of its
   own if that is asked for. */
static void check_call(const graph *g, const hcqi_schedule *s, uint32_t at, uint32_t flags) {
    const hcqi_item *item = &s->items[at];
    const hcqi_list *list = &s->lists[item->list];
    WRONG_IF(item->call >= g->count || item_of_call[item->call] != NOBODY,
             "call %u stands twice in the schedule", item->call);
    item_of_call[item->call] = at;
    const call *c = &g->calls[item->call];
    int copy = c->kind == CALL_COPY, copies = copy && (flags & HCQ_COPY_LISTS) != 0;
    uint32_t device = copy && !c->from ? g->device_of[c->dst.name] : c->device;
    WRONG_IF(list->dev != W.devices[device] || (list->copies != 0) != copies,
             "call %u stands in a wrong list", item->call);
}

/* Nothing stands twice: what is after each other is of different kinds, or lists. */
static void check_list(const graph *g, const hcqi_schedule *s, uint32_t at, uint32_t flags,
                       uint32_t *waiters) {
    const hcqi_item *last = NULL;
    for (uint32_t i = s->lists[at].first; i != HCQI_NONE; i = s->items[i].next) {
        const hcqi_item *item = &s->items[i];
        int again = last && last->kind == item->kind;
        WRONG_IF(item->list != at, "item %u of list %u belongs to list %u", i, at, item->list);
        if (item->kind == HCQI_ITEM_CALL) {
            check_call(g, s, i, flags);
        } else if (item->kind == HCQI_ITEM_SYNC && again) {
            wrong("SYNC after SYNC in list %u", at);
        } else if (item->kind == HCQI_ITEM_WAIT) {
            waiters[item->sync]++;
            WRONG_IF(s->items[item->sync].kind != HCQI_ITEM_SYNC || source_of(s, item) == at,
                     "a WAIT in list %u is for no SYNC of another list", at);
            WRONG_IF(again && source_of(s, last) == source_of(s, item),
                     "WAIT after WAIT for the same list in list %u", at);
        }
        last = item;
    }
}

/* Every call stands somewhere, and nothing needless does. */
static void check_items(const graph *g, const hcqi_schedule *s, uint32_t flags) {
    static uint32_t waiters[ITEMS];
    memset(waiters, 0, sizeof waiters);
    memset(item_of_call, 0xff, sizeof item_of_call);
    for (uint32_t l = 0; l < s->list_count; l++) {
        check_list(g, s, l, flags, waiters);
    }
    for (uint32_t i = 0; i < g->count; i++) {
        WRONG_IF(item_of_call[i] == NOBODY, "call %u is in no list", i);
    }
    for (uint32_t l = 0; l < s->list_count; l++) {
        for (uint32_t i = s->lists[l].first; i != HCQI_NONE; i = s->items[i].next) {
            const hcqi_item *item = &s->items[i];
            const uint32_t has = waiters[i];
            WRONG_IF(item->kind == HCQI_ITEM_SYNC && (has == 0 || has != item->waiters),
                     "a SYNC of list %u counts %u waiters, it has %u", l, item->waiters, has);
            if (item->kind == HCQI_ITEM_WAIT) {
                check_wait_is_needed(g, s, i);
            }
        }
    }
}

/* Items of a list run in its order; what matters to each other is ordered by SYNCs and
   WAITs, not by luck. */
static void check_run_order(const graph *g, const hcqi_schedule *s) {
    static set done[HCQI_MAX_DEVICES * 2], synced[ITEMS];
    uint32_t item_at[ITEMS], at[HCQI_MAX_DEVICES * 2] = {0};
    memset(done, 0, sizeof done);
    memset(synced, 0, sizeof synced);
    memset(item_at, 0xff, sizeof item_at);
    for (uint32_t l = 0; l < s->list_count; l++) {
        at[l] = s->lists[l].first;
        for (uint32_t i = at[l]; i != HCQI_NONE; i = s->items[i].next) {
            item_at[s->items[i].order] = i;
        }
    }
    for (uint32_t o = 0; o < ITEMS && item_at[o] != NOBODY; o++) {
        const hcqi_item *item = &s->items[item_at[o]];
        WRONG_IF(at[item->list] != item_at[o], "list %u does not run in its order", item->list);
        at[item->list] = item->next;
        if (item->kind == HCQI_ITEM_SYNC) {
            synced[item_at[o]] = done[item->list];
            continue;
        }
        if (item->kind == HCQI_ITEM_WAIT) {
            set_join(&done[item->list], &synced[item->sync]);
            continue;
        }
        uint32_t missing = set_missing(&R.hazards[item->call], &done[item->list]);
        WRONG_IF(missing != NOBODY, "nothing in the schedule orders call %u before call %u",
                 missing, item->call);
        set_add(&done[item->list], item->call);
    }
    for (uint32_t l = 0; l < s->list_count; l++) {
        WRONG_IF(at[l] != HCQI_NONE, "list %u of %u calls does not run to its end", l, g->count);
    }
}

/* From any list that starts first. What cannot be done step by step has no text. */
static void check_schedule(const graph *whole, uint32_t flags) {
    const graph *g = find_parts(whole);
    uint32_t start[HCQI_MAX_DEVICES * 2];
    hcqi_schedule s;
    char text[64] = "x";
    if (!g->can_step) {
        WRONG_IF(hcq_graph_dot(g->queue, flags, text, sizeof text) != 0 || text[0] != 0,
                 "a schedule that cannot be has a text");
        return;
    }
    find_hazards(g);
    build_schedule(&s, g->queue, flags);
    CHECK(s.item_count <= ITEMS);
    for (uint32_t i = 0; i < s.list_count; i++) {
        start[i] = i;
    }
    shuffle(start, s.list_count);
    for (uint32_t round = 0; round < 2; round++) {
        check_items(g, &s, flags);
        check_run_order(g, &s);
        hcqi_schedule_order(&s, start);
    }
    hcqi_arena_delete(&s.arena);
}

/* ---- as text, and in which order: no rule that check_schedule sees ---- */

/* Three devices and their buffers. */
enum { METAL, EXT, CLANG, POST_DEVICES };

typedef struct post {
    hcq_device *devices[POST_DEVICES];
    hcq_program *mix, *add[POST_DEVICES];
    hcq_buffer a, b, on[2], result;    /* in EXT's, METAL's, CLANG's memory */
    hcq_queue *q;
} post;

static void post_open(post *p) {
    static const char *const names[POST_DEVICES] = {"METAL", "EXT", "CLANG"};
    for (uint32_t d = 0; d < POST_DEVICES; d++) {
        p->devices[d] = OPEN_WITH(1 + d, .label = names[d]);
        p->add[d] = make_add(p->devices[d]);
    }
    p->mix = make_mix(p->devices[METAL]);
    p->a = make_words(p->devices[EXT], 2);
    p->b = make_words(p->devices[EXT], 2);
    p->on[0] = make_words(p->devices[METAL], 2);
    p->on[1] = make_words(p->devices[METAL], 2);
    p->result = make_words(p->devices[CLANG], 2);
    p->q = make_queue(p->devices[METAL], HCQ_GRAPH);
}

static void post_copy(post *p, uint32_t index, hcq_buffer dst, hcq_buffer src) {
    CHECK_INDEX(hcq_queue_copy(p->q, dst, src, 4), index);
}

static void post_add(post *p, uint32_t index, uint32_t device, hcq_buffer what) {
    CHECK_INDEX(record_add(p->q, p->add[device], what, 0, 1), index);
}

static void record_others(post *p) {
    post_copy(p, 0, p->on[0], p->a);
    post_add(p, 1, CLANG, p->result);
    post_add(p, 2, CLANG, p->result);
}

static void record_lists(post *p) {
    post_add(p, 0, EXT, p->a);
    post_copy(p, 1, p->on[0], p->a);
    post_add(p, 2, EXT, p->b);
    post_copy(p, 3, p->on[1], p->b);
    mix_args args = {p->on[0].address, p->on[1].address, 2, 0};
    CHECK_INDEX(hcq_queue_exec(p->q, p->mix, &args, sizeof args, dims_one, hcq_dim(2, 1, 1)), 4);
    post_copy(p, 5, p->result, p->on[0]);
}

/* The dot product of the post that these devices are from. */
static void record_dot(post *p) {
    post_copy(p, 0, p->on[0], p->a);
    post_copy(p, 1, p->on[1], p->b);
    mix_args args = {p->on[0].address, p->on[1].address, 1, 0};
    CHECK_INDEX(hcq_queue_exec(p->q, p->mix, &args, sizeof args, dims_one, hcq_dim(2, 1, 1)), 2);
    post_copy(p, 3, p->result, p->on[0]);
}

/* Numbers are the order in which HCQ_STEP does the items. */
static const struct rule {
    const char *name;
    void (*record)(post *p);
    int alone;                         /* for devices that see nothing of each other */
    uint32_t flags;
    int one_order;                     /* whichever list starts first */
    const char *text;
} rules[] = {
    {"a SYNC goes back as long as another list has something else to do", record_others, 0, 0, 1,
     "METAL\n"
     "    3  WAIT EXT 2\n"
     "    4  copy  [0]\n"
     "EXT\n"
     "    2  SYNC (1 waiting)\n"
     "CLANG\n"
     "    0  exec add  [1]\n"
     "    1  exec add  [2]\n"},
    {"as docs/ideas.md shows it", record_dot, 0, 0, 1,
     "METAL\n"
     "    1  WAIT EXT 0\n"
     "    2  copy  [0]\n"
     "    3  copy  [1]\n"
     "    4  exec mix  [2]\n"
     "    5  SYNC (1 waiting)\n"
     "EXT\n"
     "    0  SYNC (1 waiting)\n"
     "CLANG\n"
     "    6  WAIT METAL 5\n"
     "    7  copy  [3]\n"},
    {"copies have lists of their own if that is asked for", record_lists,
     0, HCQ_COPY_LISTS, 0,
     "EXT\n"
     "    0  exec add  [0]\n"
     "    1  SYNC (1 waiting)\n"
     "    3  exec add  [2]\n"
     "    5  SYNC (1 waiting)\n"
     "METAL-copy\n"
     "    2  WAIT EXT 1\n"
     "    4  copy  [1]\n"
     "    6  WAIT EXT 5\n"
     "    7  copy  [3]\n"
     "    8  SYNC (1 waiting)\n"
     "METAL\n"
     "    9  WAIT METAL-copy 8\n"
     "   10  exec mix  [4]\n"
     "   11  SYNC (1 waiting)\n"
     "CLANG-copy\n"
     "   12  WAIT METAL 11\n"
     "   13  copy  [5]\n"},
    {"what no device can copy alone is out of one and in to another", record_dot, 1, 0, 1,
     "EXT\n"
     "    0  copy to staging  [0]\n"
     "    1  SYNC (1 waiting)\n"
     "    3  copy to staging  [1]\n"
     "    5  SYNC (1 waiting)\n"
     "METAL\n"
     "    2  WAIT EXT 1\n"
     "    4  copy from staging  [0]\n"
     "    6  WAIT EXT 5\n"
     "    7  copy from staging  [1]\n"
     "    8  exec mix  [2]\n"
     "    9  copy to staging  [3]\n"
     "   10  SYNC (1 waiting)\n"
     "CLANG\n"
     "   11  WAIT METAL 10\n"
     "   12  copy from staging  [3]\n"},
};

static void the_order_is_one(hcq_queue *q, uint32_t flags) {
    static const uint32_t starts[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    uint32_t first[64];
    hcqi_schedule s;
    build_schedule(&s, q, flags);
    CHECK(s.item_count <= 64);
    for (uint32_t i = 0; i < s.item_count; i++) {
        first[i] = s.items[i].order;
    }
    CHECK_U64(s.list_count, 3);
    for (uint32_t k = 0; k < 6; k++) {
        hcqi_schedule_order(&s, starts[k]);
        for (uint32_t i = 0; i < s.item_count; i++) {
            CHECK_U64(s.items[i].order, first[i]);
        }
    }
    hcqi_arena_delete(&s.arena);
}

TEST(schedules_by_the_rules) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        post p;
        char text[1024];
        if (rules[i].alone == devices_are_mapped()) {
            continue;
        }
        post_open(&p);
        rules[i].record(&p);
        if (hcq_graph_print(p.q, rules[i].flags, text, sizeof text) != strlen(rules[i].text) ||
            strcmp(text, rules[i].text) != 0) {
            fprintf(stderr, "%s:\n%swanted:\n%s", rules[i].name, text, rules[i].text);
            fail();
        }
        if (rules[i].one_order) {
            the_order_is_one(p.q, rules[i].flags);
        }
        for (uint32_t d = 0; d < POST_DEVICES; d++) {
            CHECK_OK(hcq_close(p.devices[d]));
        }
    }
}
