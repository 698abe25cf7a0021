/* random.h - submissions at random over lanes and devices, against a model.
   Part of cuda.c. */

enum {
    DAG_NODES = 300, DAG_WORDS = 12, DAG_DEVICES = 3, DAG_LANES = 3, DAG_EDGES = 40,
    DAG_BYTES = 65536
};

typedef struct dag_node {
    uint32_t device, lane;             /* lane DAG_LANES - 1 is the copy lane ... */
    uint32_t place;                    /* ... if there is one: the lane it really is */
    uint32_t dst, src, factor, more;
    uint32_t waits[DAG_EDGES], wait_count;
    hcq_signal signal;                 /* raised to 1 */
    hcq_point point;
    int submitted;
} dag_node;

typedef struct dag {
    hcq_device *dev[DAG_DEVICES];
    hcq_program *step[DAG_DEVICES];
    hcq_buffer words[DAG_DEVICES];     /* the same memory */
    uint32_t compute_lanes[DAG_DEVICES], copy_lanes[DAG_DEVICES];
    dag_node nodes[DAG_NODES];
    uint32_t model[DAG_WORDS];
    uint32_t count;
    uint64_t random;
} dag;

static uint32_t dag_pick(dag *d, uint32_t below) {
    return (uint32_t)(test_random(&d->random) % below);
}

static void dag_wait_for(dag_node *node, uint32_t other) {
    for (uint32_t i = 0; i < node->wait_count; i++) {
        if (node->waits[i] == other) {
            return;
        }
    }
    if (node->wait_count == DAG_EDGES) {
        test_fail(__FILE__, __LINE__, "too many edges");
    }
    node->waits[node->wait_count++] = other;
}

/* Everything from the last writer of a word on. */
static void dag_order(dag *d, uint32_t n, uint32_t word, int writes) {
    for (uint32_t i = n; i-- > 0;) {
        int wrote = d->nodes[i].dst == word;
        if (wrote || (writes && d->nodes[i].src == word)) {
            dag_wait_for(&d->nodes[n], i);
        }
        if (wrote) {
            return;
        }
    }
}

/* Lanes of which there are fewer are one. */
static uint32_t dag_place(const dag *d, const dag_node *node) {
    uint32_t i = node->device;
    int copies = node->lane == DAG_LANES - 1 && d->copy_lanes[i] > 0;
    return i * DAG_LANES + (copies ? DAG_LANES - 1 : node->lane % d->compute_lanes[i]);
}

static void dag_plan(dag *d) {
    memset(d->model, 0, sizeof d->model);
    for (uint32_t n = 0; n < d->count; n++) {
        dag_node *node = &d->nodes[n];
        memset(node, 0, sizeof *node);
        node->device = dag_pick(d, DAG_DEVICES);
        node->lane = dag_pick(d, DAG_LANES);
        node->place = dag_place(d, node);
        node->dst = dag_pick(d, DAG_WORDS);
        node->src = (node->dst + 1 + dag_pick(d, DAG_WORDS - 1)) % DAG_WORDS;
        node->factor = 1 + dag_pick(d, 9) * 2;
        node->more = dag_pick(d, 1000);
        dag_order(d, n, node->dst, 1);
        dag_order(d, n, node->src, 0);
        if (node->lane == DAG_LANES - 1) { /* a copy */
            d->model[node->dst] = d->model[node->src];
        } else {
            d->model[node->dst] = d->model[node->dst] * node->factor + d->model[node->src] +
                                  node->more;
        }
        node->signal = make_signal(d->dev[dag_pick(d, DAG_DEVICES)], 0);
    }
}

static void dag_submit(dag *d, uint32_t n) {
    dag_node *node = &d->nodes[n];
    const hcq_buffer words = d->words[node->device];
    hcq_device *device = d->dev[node->device];
    int copies = node->lane == DAG_LANES - 1;
    hcq_queue *q = make_queue(device, copies ? HCQ_COPY : HCQ_COMPUTE);
    hcq_point waits[DAG_EDGES], raised = hcq_at(node->signal, 1);
    hcq_submission s;
    if (copies) {
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(words, node->dst * 4, 4),
                                   hcq_view(words, node->src * 4, 4), 4), 0);
    } else {
        CHECK_INDEX(record_step(q, d->step[node->device], words, node->dst, words, node->src,
                                node->factor, node->more), 0);
    }
    for (uint32_t i = 0; i < node->wait_count; i++) {
        const dag_node *other = &d->nodes[node->waits[i]];
        waits[i] = other->submitted && dag_pick(d, 2) ? other->point : hcq_at(other->signal, 1);
    }
    memset(&s, 0, sizeof s);
    s.waits = waits;
    s.wait_count = node->wait_count;
    s.queues = &q;
    s.queue_count = 1;
    s.signals = &raised;
    s.signal_count = 1;
    s.affinity = node->lane;
    CHECK_OK(hcq_submit(device, &s, 1, &node->point));
    node->submitted = 1;
    hcq_queue_destroy(q);
}

/* In the order of each lane, but with the lanes mixed up: waits come before their
   signals. */
static void dag_run(dag *d) {
    uint32_t next[DAG_DEVICES * DAG_LANES] = {0}, left = d->count;
    while (left > 0) {
        uint32_t lane = dag_pick(d, DAG_DEVICES * DAG_LANES), n = next[lane];
        while (n < d->count && d->nodes[n].place != lane) {
            n++;
        }
        next[lane] = n;
        if (n < d->count && (n < d->count - left + 60 || dag_pick(d, 50) == 0)) {
            dag_submit(d, n);
            next[lane]++;
            left--;
        }
        if (dag_pick(d, 64) == 0 && d->nodes[n % d->count].submitted) {
            (void)test_poll(d->nodes[n % d->count].point);
        }
    }
    for (uint32_t n = 0; n < d->count; n++) {
        WAIT_OK(d->nodes[n].point);
    }
    CHECK(memcmp(d->words[0].host, d->model, sizeof d->model) == 0);
}

static void dag_open(dag *d, uint32_t way) {
    memset(d, 0, sizeof *d);
    for (uint32_t i = 0; i < DAG_DEVICES; i++) {
        d->dev[i] = device_number_by(i & 1, (way + i) % 3, DAG_LANES - 1, 1);
        d->compute_lanes[i] = (uint32_t)test_query(d->dev[i], HCQ_QUERY_COMPUTE_LANES);
        d->copy_lanes[i] = (uint32_t)test_query(d->dev[i], HCQ_QUERY_COPY_LANES);
        d->step[i] = make_own(d->dev[i], "ct_step", step_list);
        if (i == 0) {
            CHECK_OK(hcq_alloc(d->dev[0], DAG_BYTES, HCQ_HOST_VISIBLE, &d->words[0]));
        } else {
            CHECK_OK(hcq_import(d->dev[i], d->words[0].host, DAG_BYTES, &d->words[i]));
        }
    }
}

static void submissions_at_random(void **state) {
    (void)state;
    static dag d;
    const uint32_t rounds = T.rounds ? T.rounds : T.quick ? 6 : 30;
    if (!has_feature(T.dev2, HCQ_FEATURE_IMPORT)) {
        SKIP("memory cannot be imported");
        return;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        dag_open(&d, round % 3);
        d.random = T.seed * 7919 + round;
        for (uint32_t k = 0; k < 3; k++) {
            d.count = 20 + dag_pick(&d, TEST_SANITIZED || T.quick ? 100 : DAG_NODES - 20);
            memset(d.words[0].host, 0, DAG_WORDS * 4);
            dag_plan(&d);
            dag_run(&d);
        }
        for (uint32_t i = DAG_DEVICES; i-- > 0;) {
            CHECK_OK(hcq_free(d.words[i]));
            CHECK_OK(hcq_close(d.dev[i]));
        }
    }
}

/* The same from several threads at once, each with words of its own. */
typedef struct crowd {
    pthread_t thread;
    hcq_device *dev;
    hcq_program *step;
    hcq_buffer words;
    uint64_t seed;
    uint32_t failed;
} crowd;

static void *crowd_run(void *user) {
    crowd *c = (crowd *)user;
    uint64_t random = c->seed;
    uint32_t model[4] = {0};
    hcq_point last = {{0}, 0};
    for (uint32_t i = 0; i < 80; i++) {
        uint32_t dst = (uint32_t)(test_random(&random) % 4), src = (dst + 1) % 4;
        hcq_queue *q = NULL;
        step_args args = {c->words.address + dst * 4, c->words.address + src * 4, 3, i};
        hcq_submission s;
        memset(&s, 0, sizeof s);
        s.waits = &last;
        s.wait_count = i ? 1 : 0;
        s.queues = &q;
        s.queue_count = 1;
        s.affinity = test_random(&random);
        c->failed += hcq_queue_create(c->dev, HCQ_COMPUTE, &q) != HCQ_OK;
        c->failed += hcq_queue_exec(q, c->step, &args, sizeof args, hcq_dim(1, 1, 1),
                                    hcq_dim(1, 1, 1)) != 0;
        c->failed += hcq_submit(c->dev, &s, 1, &last) != HCQ_OK;
        hcq_queue_destroy(q);
        model[dst] = model[dst] * 3 + model[src] + i;
        if (i % 16 == 15) {
            c->failed += hcq_wait(&last, 1, HCQ_ALL, BOUND) != HCQ_OK;
            c->failed += memcmp(c->words.host, model, sizeof model) != 0;
        }
    }
    return NULL;
}

static void threads_at_random(void **state) {
    (void)state;
    enum { CROWD = 6 };
    static crowd all[CROWD];
    hcq_device *device = device_with(0, 3, 1);
    for (uint32_t round = 0; round < (T.quick ? 3u : 10u); round++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            crowd *c = &all[i];
            memset(c, 0, sizeof *c);
            c->dev = i & 1 ? device : T.dev;
            c->step = make_own(c->dev, "ct_step", step_list);
            c->seed = T.seed * 100 + round * 10 + i;
            CHECK_OK(hcq_alloc(c->dev, 64, HCQ_HOST_VISIBLE | HCQ_ZEROED, &c->words));
        }
        for (uint32_t i = 0; i < CROWD; i++) {
            CHECK(pthread_create(&all[i].thread, NULL, crowd_run, &all[i]) == 0);
        }
        for (uint32_t i = 0; i < CROWD; i++) {
            CHECK(pthread_join(all[i].thread, NULL) == 0);
            CHECK_U64(all[i].failed, 0);
            CHECK_OK(hcq_free(all[i].words));
            hcq_program_destroy(all[i].step);
        }
    }
    CHECK_OK(hcq_close(device));
}

#define RANDOM_TESTS TEST(submissions_at_random), TEST(threads_at_random),
