/* stress.c - random command streams against a sequential model.

   stress [VARIANT] [SEED] [--rounds N] [--quick]

   A round is a list of tasks in logical order. Each task is a submission for
   one lane of one of two devices: a few commands on small buffers. The model
   runs them one after the other. The devices get them in another order, with
   exactly the waits and signals that make the result the same: lanes, waits
   for later submissions, gates that the host opens, reused and bound queues
   with updates. At the end every byte is compared. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "random.h"

enum {
    BUFFERS = 4,                       /* per device */
    ALL_BUFFERS = 2 * BUFFERS,
    WORDS = 96,                        /* of one buffer */
    TASKS = 48,                        /* of one round; a set of tasks is a uint64_t */
    COMMANDS = 5,                      /* of one task, at most */
    LANES = 4,                         /* device * 2 + kind */
    STREAMS = 4,                       /* in threads */
    EARLY = 5                          /* so much below a task's last value is raised before */
};

typedef enum op_kind { OP_COPY, OP_FILL, OP_WRITE, OP_MIX, OP_KINDS } op_kind;

typedef struct op {
    op_kind kind;
    uint32_t dst, src;                 /* buffers */
    uint32_t dst_at, src_at, count;    /* words */
    uint32_t value_size;
    uint64_t value;
    uint64_t waits;                    /* tasks that must be done before */
} op;

typedef struct task {
    uint32_t lane;
    int unordered, reuse, submitted;
    op ops[COMMANDS];
    uint32_t op_count;
    uint64_t gate;                     /* waits for the host; 0 = no */
    hcq_point done;
} task;

/* A queue that is kept and changed by updates: wait, copy, signal, mix, signal. */
typedef struct kept {
    hcq_queue *queue;
    uint32_t uses;
} kept;

typedef struct stream {
    uint64_t random;
    uint32_t rounds;
    int shared_lanes;                  /* others submit to them, too */
    int mapped;                        /* commands may name the other device's buffers */
    int one_lane;                      /* compute and copy of a device are one lane */
    hcq_device *devices[2];
    hcq_program *mix[2];
    hcq_buffer buffers[ALL_BUFFERS];
    uint32_t model[ALL_BUFFERS][WORDS];
    uint64_t readers[ALL_BUFFERS];     /* tasks since the last write */
    uint64_t writer[ALL_BUFFERS];      /* 0: none in this round */
    hcq_signal gate, open;             /* open: always reached */
    uint64_t gates, gates_open;
    kept kept[LANES];
    task tasks[TASKS];
    uint32_t task_count;
} stream;

/* ---- the model ---- */

static void model_op(stream *s, const op *o) {
    unsigned char *bytes = (unsigned char *)(s->model[o->dst] + o->dst_at);
    switch (o->kind) {
    case OP_COPY:
        memcpy(bytes, s->model[o->src] + o->src_at, o->count * 4);
        break;
    case OP_FILL:
    case OP_WRITE:
        for (uint32_t i = 0; i < o->count * 4; i++) {
            bytes[i] = (unsigned char)(o->value >> (i % o->value_size * 8));
        }
        break;
    default:
        for (uint32_t i = 0; i < o->count; i++) {
            uint32_t *dst = &s->model[o->dst][o->dst_at + i];
            *dst = *dst * 31u + s->model[o->src][o->src_at + i] + (uint32_t)o->value;
        }
    }
}

/* Whom it has to wait for: the writer of what it names, the readers of what it writes. */
static void find_waits(stream *s, op *o, uint64_t mine) {
    o->waits = s->writer[o->dst] | s->readers[o->dst];
    if (o->kind == OP_COPY || o->kind == OP_MIX) {
        o->waits |= s->writer[o->src];
        s->readers[o->src] |= mine;
    }
    o->waits &= ~mine;
    s->writer[o->dst] = mine;
    s->readers[o->dst] = 0;
}

/* Lane order already gives what ordered tasks of one lane need. */
static void drop_lane_waits(stream *s, uint32_t t) {
    task *mine = &s->tasks[t];
    uint64_t same_lane = 0;
    if (mine->unordered || chance(s, 20)) {
        return;
    }
    for (uint32_t i = 0; i < t; i++) {
        if (s->tasks[i].lane == mine->lane && !s->tasks[i].unordered) {
            same_lane |= 1ull << i;
        }
    }
    for (uint32_t i = 0; i < mine->op_count; i++) {
        mine->ops[i].waits &= ~same_lane;
    }
}

/* ---- generating ---- */

static uint32_t pick_buffer(stream *s, uint32_t device) {
    return s->mapped && chance(s, 25) ? pick(s, ALL_BUFFERS) : device * BUFFERS + pick(s, BUFFERS);
}

static void generate_op(stream *s, op *o, op_kind kind, uint32_t lane) {
    memset(o, 0, sizeof *o);
    o->kind = kind;
    o->dst = pick_buffer(s, lane / 2);
    do {
        o->src = pick_buffer(s, lane / 2);
    } while (o->src == o->dst);
    o->count = 1 + pick(s, WORDS / 2);
    o->value_size = 1u << pick(s, 4);
    o->value = test_random(&s->random);
    if (kind == OP_WRITE) {
        o->value_size = o->value_size < 8 ? 4 : 8;
        o->count = o->value_size / 4;
    }
    if (kind == OP_FILL) {
        o->count = (o->count + 1) & ~1u;
    }
    o->dst_at = pick(s, WORDS - o->count + 1);
    o->src_at = pick(s, WORDS - o->count + 1);
    if (kind == OP_FILL || kind == OP_WRITE) {
        o->dst_at &= ~1u;
    }
}

static void generate_task(stream *s, task *t) {
    memset(t, 0, sizeof *t);
    t->lane = pick(s, LANES);
    t->unordered = chance(s, 25);
    t->reuse = chance(s, 40);
    t->gate = chance(s, 12) ? ++s->gates : 0;
    t->done.value = 1 + EARLY + pick(s, 1000);
    t->op_count = !t->reuse ? 1 + pick(s, COMMANDS) : t->lane % 2 ? 1 : 2;
    for (uint32_t i = 0; i < t->op_count; i++) {
        op_kind any = (op_kind)pick(s, t->lane % 2 ? OP_MIX : OP_KINDS);
        generate_op(s, &t->ops[i], !t->reuse ? any : i ? OP_MIX : OP_COPY, t->lane);
    }
}

static void generate_round(stream *s) {
    memset(s->readers, 0, sizeof s->readers);
    memset(s->writer, 0, sizeof s->writer);
    s->task_count = 8 + pick(s, TASKS - 8 + 1);
    for (uint32_t t = 0; t < s->task_count; t++) {
        task *mine = &s->tasks[t];
        generate_task(s, mine);
        for (uint32_t i = 0; i < mine->op_count; i++) {
            find_waits(s, &mine->ops[i], 1ull << t);
            model_op(s, &mine->ops[i]);
        }
        drop_lane_waits(s, t);
    }
}

/* ---- recording ---- */

static hcq_buffer part_of(const stream *s, uint32_t buffer, uint32_t at, uint32_t count) {
    return hcq_view(s->buffers[buffer], at * 4, count * 4);
}

static mix_args args_of(const stream *s, const op *o) {
    mix_args args = {s->buffers[o->dst].address + o->dst_at * 4,
                     s->buffers[o->src].address + o->src_at * 4, o->count, (uint32_t)o->value};
    return args;
}

static hcq_dims grid_of(const op *o) {
    return hcq_dim((o->count + 7) / 8, 1, 1);
}

static void record_op(const stream *s, hcq_queue *q, const op *o, uint32_t device) {
    hcq_buffer dst = part_of(s, o->dst, o->dst_at, o->count);
    hcq_buffer src = part_of(s, o->src, o->src_at, o->count);
    mix_args args = args_of(s, o);
    switch (o->kind) {
    case OP_COPY: MUST_RECORD(hcq_queue_copy(q, dst, src, o->count * 4)); break;
    case OP_FILL:
        MUST_RECORD(hcq_queue_fill(q, dst, o->count * 4, o->value, o->value_size));
        break;
    case OP_WRITE: MUST_RECORD(hcq_queue_write(q, dst, o->value, o->value_size)); break;
    default:
        MUST_RECORD(hcq_queue_exec(q, s->mix[device], &args, sizeof args, grid_of(o),
                                   hcq_dim(8, 1, 1)));
    }
}

static hcq_queue *new_queue(const stream *s, const task *t) {
    hcq_queue *q = NULL;
    MUST(hcq_queue_create(s->devices[t->lane / 2], t->lane % 2 ? HCQ_COPY : HCQ_COMPUTE, &q));
    return q;
}

static void forget(kept *k) {
    hcq_queue_destroy(k->queue);
    memset(k, 0, sizeof *k);
}

/* Its parts are brought to each task's by updates. */
static void record_kept(stream *s, const task *t, kept *k) {
    hcq_point early = hcq_at(t->done.signal, t->done.value - EARLY);
    k->queue = new_queue(s, t);
    MUST_RECORD(hcq_queue_wait(k->queue, hcq_at(s->open, 1)));
    record_op(s, k->queue, &t->ops[0], t->lane / 2);
    MUST_RECORD(hcq_queue_signal(k->queue, early));
    if (t->op_count > 1) {
        record_op(s, k->queue, &t->ops[1], t->lane / 2);
        MUST(hcq_queue_variable(k->queue, 3, HCQ_PART_ARG + 3, 0, 0));
    }
    MUST_RECORD(hcq_queue_signal(k->queue, t->done));
    if (chance(s, 60)) {
        MUST(hcq_queue_bind(k->queue, s->devices[t->lane / 2]));
    }
}

static void update_kept(const stream *s, const task *t, hcq_queue *q, hcq_point wait) {
    const op *copy = &t->ops[0], *mix = &t->ops[1];
    hcq_buffer dst = part_of(s, copy->dst, copy->dst_at, copy->count);
    hcq_buffer src = part_of(s, copy->src, copy->src_at, copy->count);
    uint32_t last = t->op_count > 1 ? 4 : 3;
    MUST(hcq_queue_update_wait(q, 0, &wait.signal, wait.value));
    MUST(hcq_queue_update_copy(q, 1, &dst, &src, copy->count * 4));
    MUST(hcq_queue_update_signal(q, 2, &t->done.signal, t->done.value - EARLY));
    if (t->op_count > 1) {
        mix_args args = args_of(s, mix);
        hcq_dims grid = grid_of(mix), block = {8, 1, 1};
        MUST(hcq_queue_update_exec(q, 3, &grid, &block));
        MUST(hcq_queue_update_arg(q, 3, 0, &args.dst, 8));
        MUST(hcq_queue_update_arg(q, 3, 1, &args.src, 8));
        MUST(hcq_queue_update_arg(q, 3, 2, &args.n, 4));
    }
    MUST(hcq_queue_update_signal(q, last, &t->done.signal, t->done.value));
}

/* ---- submitting ---- */

static uint32_t list_waits(const stream *s, uint64_t tasks, hcq_point *list) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (tasks >> i & 1) {
            list[count++] = s->tasks[i].done;
        }
    }
    return count;
}

static hcq_result submit_queue(const stream *s, const task *t, hcq_queue *q,
                               const hcq_point *waits, uint32_t wait_count, int signal_here) {
    uint64_t variable = t->ops[1].value;
    hcq_submission sub;
    memset(&sub, 0, sizeof sub);
    sub.queues = &q;
    sub.queue_count = 1;
    sub.waits = waits;
    sub.wait_count = wait_count;
    sub.signals = &t->done;
    sub.signal_count = signal_here ? 1 : 0;
    sub.flags = t->unordered ? HCQ_UNORDERED : 0;
    sub.variables = &variable;
    sub.variable_count = t->reuse && t->op_count > 1 ? 1 : 0;
    return hcq_submit(s->devices[t->lane / 2], &sub, 1, NULL);
}

/* A fresh recording: waits right before the command that needs them, or
   earlier, or in the submission's list. */
static void submit_fresh(stream *s, const task *t) {
    uint32_t device = t->lane / 2, count = 0;
    uint64_t waited = 0;
    hcq_point list[TASKS + 1], some[TASKS];
    hcq_queue *q = new_queue(s, t);
    int in_list = chance(s, 40), signal_here = chance(s, 40);
    if (t->gate) {
        list[count++] = hcq_at(s->gate, t->gate);
    }
    for (uint32_t i = 0; i < t->op_count; i++) {
        uint32_t n = list_waits(s, t->ops[i].waits & ~waited, some);
        waited |= t->ops[i].waits;
        for (uint32_t k = 0; k < n; k++) {
            if (in_list) {
                list[count++] = some[k];
            } else {
                MUST_RECORD(hcq_queue_wait(q, some[k]));
            }
        }
        if (i && chance(s, 15)) {      /* an early, lower value */
            MUST_RECORD(hcq_queue_signal(q, hcq_at(t->done.signal, i)));
        }
        record_op(s, q, &t->ops[i], device);
    }
    if (!signal_here) {
        MUST_RECORD(hcq_queue_signal(q, t->done));
    }
    if (chance(s, 10)) {
        MUST(hcq_queue_bind(q, s->devices[device]));
    }
    MUST(submit_queue(s, t, q, list, count, signal_here));
    hcq_queue_destroy(q);
}

/* Reuses the lane's queue; 0: held work has all its versions. */
static int submit_kept(stream *s, const task *t) {
    kept *k = &s->kept[t->lane];
    hcq_point list[TASKS + 1], wait = hcq_at(s->open, 1);
    uint32_t count = list_waits(s, t->ops[0].waits | t->ops[1].waits, list);
    if (count) {
        wait = list[--count];
    }
    if (t->gate) {
        list[count++] = hcq_at(s->gate, t->gate);
    }
    if (!k->queue) {
        record_kept(s, t, k);
    }
    update_kept(s, t, k->queue, wait);
    hcq_result r = submit_queue(s, t, k->queue, list, count, 0);
    if (r == HCQ_ERROR_LIMIT) {
        return 0;
    }
    MUST(r);
    if (++k->uses % 16 == 0) {         /* also destroyed while it is pending */
        forget(k);
    }
    return 1;
}

/* May this task go to the device before the ones that are left? */
static int may_submit(const stream *s, uint32_t index) {
    const task *t = &s->tasks[index];
    uint32_t mask = s->one_lane ? ~1u : ~0u;
    int may = !t->submitted;
    for (uint32_t i = 0; i < index; i++) {
        const task *other = &s->tasks[i];
        int same = (other->lane & mask) == (t->lane & mask);
        /* Others' work may be behind ours on a lane. */
        int behind = s->shared_lanes || (same && !t->unordered && !other->unordered);
        may &= other->submitted || !behind;
    }
    return may;
}

static void open_gates(stream *s, uint64_t up_to) {
    if (up_to > s->gates_open) {
        s->gates_open = up_to;
        MUST(hcq_signal_set(s->gate, up_to));
    }
}

static void submit_round(stream *s) {
    for (uint32_t i = 0; i < s->task_count; i++) {
        MUST(hcq_signal_create(s->devices[pick(s, 2)], 0, &s->tasks[i].done.signal));
    }
    for (uint32_t left = s->task_count; left > 0; left--) {
        uint32_t index = pick(s, s->task_count);
        while (!may_submit(s, index)) {
            index = (index + 1) % s->task_count;
        }
        task *t = &s->tasks[index];
        t->submitted = 1;
        if (!t->reuse || !submit_kept(s, t)) {
            t->reuse = 0;
            submit_fresh(s, t);
        }
        if (s->gates > s->gates_open && chance(s, 20)) {
            open_gates(s, s->gates_open + 1 + pick(s, (uint32_t)(s->gates - s->gates_open)));
        }
    }
    open_gates(s, s->gates);
}

/* ---- rounds ---- */

static void finish_round(stream *s) {
    hcq_point points[TASKS];
    uint32_t n = list_waits(s, (1ull << s->task_count) - 1, points), got[WORDS];
    MUST(hcq_wait(points, n, HCQ_ALL, BOUND));
    for (uint32_t i = 0; i < s->task_count; i++) {
        MUST(hcq_signal_destroy(s->tasks[i].done.signal));
    }
    for (uint32_t b = 0; b < ALL_BUFFERS; b++) {
        MUST(hcq_copyout(got, s->buffers[b], sizeof got));
        for (uint32_t i = 0; i < WORDS; i++) {
            if (got[i] != s->model[b][i]) {
                wrong("buffer %u word %u is %#x, not %#x", b, i, got[i], s->model[b][i]);
            }
        }
    }
}

/* Between rounds: eager calls, fresh buffers out of the cache. */
static void eager_changes(stream *s) {
    uint32_t b = pick(s, ALL_BUFFERS), other = pick(s, ALL_BUFFERS);
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = (uint32_t)test_random(&s->random);
    }
    MUST(hcq_copyin(s->buffers[b], words, sizeof words));
    memcpy(s->model[b], words, sizeof words);
    if (other != b) {
        MUST(hcq_transfer(hcq_transfer_device(s->buffers[other]),
                          hcq_transfer_device(s->buffers[b]), sizeof words, 0, BOUND));
        memcpy(s->model[other], words, sizeof words);
    }
    if (chance(s, 30)) {
        MUST(hcq_free(s->buffers[b]));
        MUST(hcq_alloc(s->devices[b / BUFFERS], WORDS * 4, HCQ_ZEROED, &s->buffers[b]));
        memset(s->model[b], 0, sizeof s->model[b]);
        for (uint32_t i = 0; i < LANES; i++) { /* they may name the old one */
            forget(&s->kept[i]);
        }
    }
    /* Unordered submissions and those of the other device do not follow. */
    for (uint32_t d = 0; d < 2; d++) {
        MUST(hcq_device_synchronize(s->devices[d], BOUND));
    }
}

static void stream_open(stream *s, uint64_t seed) {
    hcq_device_info info;
    memset(s, 0, sizeof *s);
    s->random = seed;
    s->devices[0] = T.dev;
    s->devices[1] = T.dev2;
    MUST(hcq_device_info_get(T.dev, &info));
    s->mapped = (info.features & HCQ_FEATURE_MAP) != 0;
    s->one_lane = info.copy_lanes == 0;
    for (uint32_t b = 0; b < ALL_BUFFERS; b++) {
        s->buffers[b] = make_words(s->devices[b / BUFFERS], WORDS);
    }
    for (uint32_t d = 0; d < 2; d++) {
        s->mix[d] = make_mix(s->devices[d]);
    }
    s->gate = make_signal(T.dev, 0);
    s->open = make_signal(T.dev2, 1);
}

static void *stream_run(void *user) {
    stream *s = (stream *)user;
    for (uint32_t round = 0; round < s->rounds; round++) {
        generate_round(s);
        submit_round(s);
        finish_round(s);
        if (!s->shared_lanes) {
            R.round = round;
            eager_changes(s);
        }
        progress();
    }
    for (uint32_t i = 0; i < LANES; i++) {
        forget(&s->kept[i]);
    }
    return NULL;
}

static void run_streams(uint32_t count, uint32_t rounds) {
    static stream streams[STREAMS];
    for (uint32_t i = 0; i < count; i++) {
        stream_open(&streams[i], T.seed * 1000 + i);
        streams[i].shared_lanes = count > 1;
        streams[i].rounds = T.rounds ? T.rounds : T.quick || TEST_SANITIZED ? rounds / 4 : rounds;
    }
    run_threads(stream_run, streams, sizeof streams[0], count);
}

static void random_streams(void **state) {
    (void)state;
    run_streams(1, 400);
}

static void random_streams_in_threads(void **state) {
    (void)state;
    run_streams(STREAMS, 100);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {TEST(random_streams),
                                              TEST(random_streams_in_threads)};
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    watch("stress", NULL);
    return cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}
