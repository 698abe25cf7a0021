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
#include "support/util.h"

enum {
    BUFFERS = 4,                       /* per device */
    ALL_BUFFERS = 2 * BUFFERS,
    WORDS = 96,                        /* of one buffer */
    TASKS = 48,                        /* of one round; a set of tasks is a uint64_t */
    COMMANDS = 5,                      /* of one task, at most */
    LANES = 4                          /* device * 2 + kind */
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
    int unordered, reuse;
    op ops[COMMANDS];
    uint32_t op_count;
    uint64_t gate;                     /* waits for the host; 0 = no */
    hcq_signal done;
    uint64_t done_value;
    int submitted;
} task;

/* A queue that is kept and changed by updates: wait, copy, mix, write, signal. */
typedef struct kept_queue {
    hcq_queue *queue;
    int bound;
    uint32_t uses;
} kept_queue;

typedef struct stream {
    uint64_t random;
    const char *error;
    hcq_result result;
    uint64_t round;
    int shared_lanes;                  /* others submit to them, too */
    int mapped;                        /* commands may name the other device's buffers */
    int one_lane;                      /* compute and copy of a device are one lane */
    hcq_device *devices[2];
    hcq_program *mix[2];
    hcq_buffer buffers[ALL_BUFFERS];
    uint32_t model[ALL_BUFFERS][WORDS];
    hcq_signal gate, open;             /* open: always reached */
    uint64_t gates, gates_open;
    kept_queue kept[LANES];
    task tasks[TASKS];
    uint32_t task_count;
    hcq_point last[2];
} stream;

static uint32_t pick(stream *s, uint32_t below) {
    return (uint32_t)(test_random(&s->random) >> 33) % below;
}

static int chance(stream *s, uint32_t percent) {
    return pick(s, 100) < percent;
}

/* The first error of a stream stays; threads may not call the checks. */
static int stream_ok(stream *s, const char *what, hcq_result result) {
    if (result == HCQ_OK) {
        return 1;
    }
    if (!s->error) {
        s->error = what;
        s->result = result;
    }
    return 0;
}

#define TRY(s, call) stream_ok((s), #call, (hcq_result)(call))
#define TRY_RECORD(s, call) stream_ok((s), #call, (call) < 0 ? HCQ_ERROR_HOST : HCQ_OK)

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

/* ---- generating ---- */

static uint32_t pick_buffer(stream *s, uint32_t device) {
    if (s->mapped && chance(s, 25)) {
        return pick(s, ALL_BUFFERS);
    }
    return device * BUFFERS + pick(s, BUFFERS);
}

static void generate_op(stream *s, op *o, uint32_t lane) {
    static const uint32_t sizes[] = {1, 2, 4, 8};
    memset(o, 0, sizeof *o);
    o->kind = (op_kind)pick(s, lane % 2 ? OP_MIX : OP_KINDS);
    o->dst = pick_buffer(s, lane / 2);
    do {
        o->src = pick_buffer(s, lane / 2);
    } while (o->src == o->dst);
    o->count = 1 + pick(s, WORDS / 2);
    o->value_size = sizes[pick(s, 4)];
    o->value = test_random(&s->random);
    if (o->kind == OP_WRITE) {
        o->value_size = o->value_size < 8 ? 4 : 8;
        o->count = o->value_size / 4;
    }
    if (o->kind == OP_FILL) {
        o->count = (o->count + 1) & ~1u;
    }
    o->dst_at = pick(s, WORDS - o->count + 1);
    o->src_at = pick(s, WORDS - o->count + 1);
    if (o->kind == OP_FILL || o->kind == OP_WRITE) {
        o->dst_at &= ~1u;
    }
}

typedef struct hazards {
    uint64_t readers[ALL_BUFFERS];     /* tasks since the last write */
    int32_t writer[ALL_BUFFERS];       /* -1 = none in this round */
} hazards;

static uint64_t writer_of(const hazards *h, uint32_t buffer) {
    return h->writer[buffer] < 0 ? 0 : 1ull << h->writer[buffer];
}

static void op_hazards(hazards *h, op *o, uint32_t t) {
    int reads = o->kind == OP_COPY || o->kind == OP_MIX;
    o->waits = writer_of(h, o->dst) | h->readers[o->dst];
    if (reads) {
        o->waits |= writer_of(h, o->src);
        h->readers[o->src] |= 1ull << t;
    }
    o->waits &= ~(1ull << t);
    h->writer[o->dst] = (int32_t)t;
    h->readers[o->dst] = 0;
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

/* The fixed shape of a kept queue. */
static void generate_reused(stream *s, task *t) {
    generate_op(s, &t->ops[0], t->lane | 1); /* copy, fill or write: retried below */
    while (t->ops[0].kind != OP_COPY) {
        generate_op(s, &t->ops[0], t->lane | 1);
    }
    t->op_count = 1;
    if (t->lane % 2 == 0) {
        while (t->ops[1].kind != OP_MIX || t->op_count == 1) {
            generate_op(s, &t->ops[1], t->lane);
            t->op_count = 2;
        }
    }
}

static void generate_round(stream *s) {
    hazards h;
    memset(&h, 0, sizeof h);
    for (uint32_t i = 0; i < ALL_BUFFERS; i++) {
        h.writer[i] = -1;
    }
    s->task_count = 8 + pick(s, TASKS - 8 + 1);
    for (uint32_t t = 0; t < s->task_count; t++) {
        task *mine = &s->tasks[t];
        memset(mine, 0, sizeof *mine);
        mine->lane = pick(s, LANES);
        mine->unordered = chance(s, 25);
        mine->reuse = chance(s, 40);
        mine->done_value = 1 + pick(s, 1000);
        mine->gate = chance(s, 12) ? ++s->gates : 0;
        if (mine->reuse) {
            generate_reused(s, mine);
        } else {
            mine->op_count = 1 + pick(s, COMMANDS);
            for (uint32_t i = 0; i < mine->op_count; i++) {
                generate_op(s, &mine->ops[i], mine->lane);
            }
        }
        for (uint32_t i = 0; i < mine->op_count; i++) {
            op_hazards(&h, &mine->ops[i], t);
            model_op(s, &mine->ops[i]);
        }
        drop_lane_waits(s, t);
    }
}

/* ---- submitting ---- */

static hcq_buffer part_of(const stream *s, uint32_t buffer, uint32_t at, uint32_t count) {
    return hcq_view(s->buffers[buffer], at * 4, count * 4);
}

static mix_args op_mix_args(const stream *s, const op *o) {
    mix_args args = {s->buffers[o->dst].address + o->dst_at * 4,
                     s->buffers[o->src].address + o->src_at * 4, o->count, (uint32_t)o->value};
    return args;
}

static hcq_dims op_grid(const op *o) {
    return hcq_dim((o->count + 7) / 8, 1, 1);
}

static int record_op(stream *s, hcq_queue *q, const op *o, uint32_t device) {
    hcq_buffer dst = part_of(s, o->dst, o->dst_at, o->count);
    mix_args args;
    switch (o->kind) {
    case OP_COPY:
        return TRY_RECORD(s, hcq_queue_copy(q, dst, part_of(s, o->src, o->src_at, o->count),
                                            o->count * 4));
    case OP_FILL:
        return TRY_RECORD(s, hcq_queue_fill(q, dst, o->count * 4, o->value, o->value_size));
    case OP_WRITE:
        return TRY_RECORD(s, hcq_queue_write(q, dst, o->value, o->value_size));
    default:
        args = op_mix_args(s, o);
        return TRY_RECORD(s, hcq_queue_exec(q, s->mix[device], &args, sizeof args, op_grid(o),
                                            hcq_dim(8, 1, 1)));
    }
}

/* The waits of a set of tasks, into the recording or into a list. */
static uint32_t list_waits(const stream *s, uint64_t tasks, hcq_point *list) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (tasks >> i & 1) {
            list[count++] = hcq_at(s->tasks[i].done, s->tasks[i].done_value);
        }
    }
    return count;
}

static void submit_queue(stream *s, task *t, hcq_queue *q, const hcq_point *waits,
                         uint32_t wait_count, int signal_here, const uint64_t *variable) {
    hcq_submission sub;
    hcq_point raise = hcq_at(t->done, t->done_value);
    memset(&sub, 0, sizeof sub);
    sub.queues = &q;
    sub.queue_count = 1;
    sub.waits = waits;
    sub.wait_count = wait_count;
    sub.signals = &raise;
    sub.signal_count = signal_here ? 1 : 0;
    sub.flags = t->unordered ? HCQ_UNORDERED : 0;
    sub.variables = variable;
    sub.variable_count = variable ? 1 : 0;
    TRY(s, hcq_submit(s->devices[t->lane / 2], &sub, 1, &s->last[t->lane / 2]));
}

/* A fresh recording: waits right before the command that needs them, or
   earlier, or in the submission's list. */
static void submit_fresh(stream *s, task *t) {
    uint32_t device = t->lane / 2, count = 0;
    uint64_t waited = 0;
    hcq_point list[TASKS + 1], some[TASKS];
    hcq_queue *q = NULL;
    int in_list = chance(s, 40), signal_here = chance(s, 40);
    if (!TRY(s, hcq_queue_create(s->devices[device], t->lane % 2 ? HCQ_COPY : HCQ_COMPUTE, &q))) {
        return;
    }
    if (t->gate) {
        list[count++] = hcq_at(s->gate, t->gate);
    }
    for (uint32_t i = 0; i < t->op_count; i++) {
        uint64_t tasks = t->ops[i].waits & ~waited;
        uint32_t n = list_waits(s, tasks, some);
        waited |= tasks;
        for (uint32_t k = 0; k < n; k++) {
            if (in_list) {
                list[count++] = some[k];
            } else {
                TRY_RECORD(s, hcq_queue_wait(q, some[k]));
            }
        }
        if (i && chance(s, 15) && t->done_value > i + 1) { /* an early, lower value */
            TRY_RECORD(s, hcq_queue_signal(q, hcq_at(t->done, i)));
        }
        record_op(s, q, &t->ops[i], device);
    }
    if (!signal_here) {
        TRY_RECORD(s, hcq_queue_signal(q, hcq_at(t->done, t->done_value)));
    }
    if (chance(s, 10)) {
        TRY(s, hcq_queue_bind(q, s->devices[device]));
    }
    submit_queue(s, t, q, list, count, signal_here, NULL);
    hcq_queue_destroy(q);
}

static int record_kept(stream *s, task *t, kept_queue *k) {
    uint32_t device = t->lane / 2;
    TRY(s, hcq_queue_create(s->devices[device], t->lane % 2 ? HCQ_COPY : HCQ_COMPUTE,
                            &k->queue));
    TRY_RECORD(s, hcq_queue_wait(k->queue, hcq_at(s->open, 1)));
    record_op(s, k->queue, &t->ops[0], device);
    TRY_RECORD(s, hcq_queue_signal(k->queue, hcq_at(t->done, t->done_value)));
    if (t->op_count > 1) {
        record_op(s, k->queue, &t->ops[1], device);
        TRY(s, hcq_queue_variable(k->queue, 3, HCQ_PART_ARG + 3, 0, 0));
    }
    TRY_RECORD(s, hcq_queue_signal(k->queue, hcq_at(t->done, t->done_value)));
    k->bound = chance(s, 60);
    if (k->bound) {
        TRY(s, hcq_queue_bind(k->queue, s->devices[device]));
    }
    return s->error == NULL;
}

/* Every part of the recording is brought to this task's by updates. */
static void update_kept(stream *s, task *t, kept_queue *k, hcq_point wait) {
    const op *copy = &t->ops[0], *mix = &t->ops[1];
    hcq_buffer dst = part_of(s, copy->dst, copy->dst_at, copy->count);
    hcq_buffer src = part_of(s, copy->src, copy->src_at, copy->count);
    uint32_t last = t->op_count > 1 ? 4 : 3;
    TRY(s, hcq_queue_update_wait(k->queue, 0, &wait.signal, wait.value));
    TRY(s, hcq_queue_update_copy(k->queue, 1, &dst, &src, copy->count * 4));
    TRY(s, hcq_queue_update_signal(k->queue, 2, &t->done, t->done_value)); /* raised early */
    if (t->op_count > 1) {
        mix_args args = op_mix_args(s, mix);
        hcq_dims grid = op_grid(mix), block = {8, 1, 1};
        TRY(s, hcq_queue_update_exec(k->queue, 3, &grid, &block));
        TRY(s, hcq_queue_update_arg(k->queue, 3, 0, &args.dst, 8));
        TRY(s, hcq_queue_update_arg(k->queue, 3, 1, &args.src, 8));
        TRY(s, hcq_queue_update_arg(k->queue, 3, 2, &args.n, 4));
    }
    t->done_value += 5;                /* what the others wait for is the last signal */
    TRY(s, hcq_queue_update_signal(k->queue, last, &t->done, t->done_value));
}

/* Reuses the lane's queue. Where held work has all versions: says so. */
static int submit_kept(stream *s, task *t) {
    kept_queue *k = &s->kept[t->lane];
    hcq_point list[TASKS + 1], wait = hcq_at(s->open, 1);
    uint64_t waits = 0, variable = t->ops[1].value;
    for (uint32_t i = 0; i < t->op_count; i++) {
        waits |= t->ops[i].waits;
    }
    uint32_t count = list_waits(s, waits, list);
    if (count) {
        wait = list[--count];
    }
    if (t->gate) {
        list[count++] = hcq_at(s->gate, t->gate);
    }
    if (!k->queue && !record_kept(s, t, k)) {
        return 1;
    }
    update_kept(s, t, k, wait);
    if (s->error) {
        return 1;
    }
    submit_queue(s, t, k->queue, list, count, 0, t->op_count > 1 ? &variable : NULL);
    if (s->error && s->result == HCQ_ERROR_LIMIT) {
        s->error = NULL;
        return 0;
    }
    if (++k->uses % 16 == 0) {         /* also destroyed while it is pending */
        hcq_queue_destroy(k->queue);
        memset(k, 0, sizeof *k);
    }
    return 1;
}

/* done_value of a reused task is known before anybody waits for it. */
static void submit_task(stream *s, uint32_t index) {
    task *t = &s->tasks[index];
    t->submitted = 1;
    if (t->reuse) {
        t->done_value -= 5;
        if (submit_kept(s, t)) {
            return;
        }
    }
    submit_fresh(s, t);
}

/* May this task go to the device before the ones that are left? */
static int may_submit(const stream *s, uint32_t index) {
    const task *t = &s->tasks[index];
    for (uint32_t i = 0; i < index; i++) {
        const task *other = &s->tasks[i];
        uint32_t mask = s->one_lane ? ~1u : ~0u;
        if (other->submitted) {
            continue;
        }
        if (s->shared_lanes) {         /* others' work may be behind ours on a lane */
            return 0;
        }
        if (!t->unordered && !other->unordered && (other->lane & mask) == (t->lane & mask)) {
            return 0;
        }
    }
    return 1;
}

static void open_gates(stream *s, uint64_t up_to) {
    if (up_to > s->gates_open) {
        s->gates_open = up_to;
        TRY(s, hcq_signal_set(s->gate, up_to));
    }
}

static void submit_round(stream *s) {
    uint32_t left = s->task_count;
    for (uint32_t i = 0; i < s->task_count; i++) {
        task *t = &s->tasks[i];
        TRY(s, hcq_signal_create(s->devices[pick(s, 2)], 0, &t->done));
        t->done_value += t->reuse ? 5 : 0;
    }
    while (left && !s->error) {
        uint32_t index = pick(s, s->task_count);
        while (s->tasks[index].submitted || !may_submit(s, index)) {
            index = (index + 1) % s->task_count;
        }
        submit_task(s, index);
        left--;
        if (s->gates > s->gates_open && chance(s, 20)) {
            open_gates(s, s->gates_open + 1 + pick(s, (uint32_t)(s->gates - s->gates_open)));
        }
    }
    open_gates(s, s->gates);
}

static void finish_round(stream *s) {
    hcq_point points[TASKS];
    uint32_t n = list_waits(s, s->task_count == 64 ? ~0ull : (1ull << s->task_count) - 1, points);
    TRY(s, hcq_wait(points, n, HCQ_ALL, BOUND));
    for (uint32_t i = 0; i < s->task_count; i++) {
        TRY(s, hcq_signal_destroy(s->tasks[i].done));
    }
}

static void compare(stream *s) {
    static const char wrong[] = "the bytes differ from the model";
    uint32_t got[WORDS];
    for (uint32_t b = 0; b < ALL_BUFFERS && !s->error; b++) {
        TRY(s, hcq_copyout(got, s->buffers[b], sizeof got));
        for (uint32_t i = 0; i < WORDS && !s->error; i++) {
            if (got[i] != s->model[b][i]) {
                fprintf(stderr, "round %llu: buffer %u word %u is %#x, not %#x\n",
                        (unsigned long long)s->round, b, i, got[i], s->model[b][i]);
                stream_ok(s, wrong, HCQ_ERROR_HOST);
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
    TRY(s, hcq_copyin(s->buffers[b], words, sizeof words));
    memcpy(s->model[b], words, sizeof words);
    if (other != b) {
        TRY(s, hcq_transfer(hcq_transfer_device(s->buffers[other]),
                            hcq_transfer_device(s->buffers[b]), sizeof words, 0, BOUND));
        memcpy(s->model[other], words, sizeof words);
    }
    if (chance(s, 30)) {
        TRY(s, hcq_free(s->buffers[b]));
        TRY(s, hcq_alloc(s->devices[b / BUFFERS], WORDS * 4, HCQ_ZEROED, &s->buffers[b]));
        memset(s->model[b], 0, sizeof s->model[b]);
        for (uint32_t i = 0; i < LANES; i++) { /* they may name the old one */
            hcq_queue_destroy(s->kept[i].queue);
            memset(&s->kept[i], 0, sizeof s->kept[i]);
        }
    }
    /* Unordered submissions and those of the other device do not follow. */
    for (uint32_t d = 0; d < 2; d++) {
        TRY(s, hcq_device_synchronize(s->devices[d], BOUND));
    }
}

static void stream_open(stream *s, uint64_t seed) {
    hcq_device_info info;
    memset(s, 0, sizeof *s);
    s->random = seed;
    s->devices[0] = T.dev;
    s->devices[1] = T.dev2;
    TRY(s, hcq_device_info_get(T.dev, &info));
    s->mapped = (info.features & HCQ_FEATURE_MAP) != 0;
    s->one_lane = info.copy_lanes == 0;
    hcq_program_desc desc = {"mix", k_mix,
                             {HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_U32, HCQ_ARG_U32}, NULL, NULL,
                             {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    for (uint32_t d = 0; d < 2; d++) {
        TRY(s, hcq_program_create(s->devices[d], &desc, &s->mix[d]));
        for (uint32_t b = 0; b < BUFFERS; b++) {
            TRY(s, hcq_alloc(s->devices[d], WORDS * 4, HCQ_ZEROED, &s->buffers[d * BUFFERS + b]));
        }
    }
    TRY(s, hcq_signal_create(T.dev, 0, &s->gate));
    TRY(s, hcq_signal_create(T.dev2, 1, &s->open));
}

static void stream_close(stream *s) {
    for (uint32_t i = 0; i < LANES; i++) {
        hcq_queue_destroy(s->kept[i].queue);
    }
    for (uint32_t d = 0; d < 2; d++) {
        hcq_program_destroy(s->mix[d]);
    }
    for (uint32_t b = 0; b < ALL_BUFFERS; b++) {
        TRY(s, hcq_free(s->buffers[b]));
    }
    TRY(s, hcq_signal_destroy(s->gate));
    TRY(s, hcq_signal_destroy(s->open));
}

static void stream_run(stream *s, uint32_t rounds) {
    for (s->round = 0; s->round < rounds && !s->error; s->round++) {
        generate_round(s);
        submit_round(s);
        if (!s->error) {
            finish_round(s);
        }
        if (!s->error) {
            compare(s);
        }
        if (!s->error && !s->shared_lanes) {
            eager_changes(s);
        }
    }
}

static void check_stream(const stream *s, uint64_t seed) {
    if (s->error) {
        fprintf(stderr, "seed %llu, round %llu: %s gives %s\n", (unsigned long long)seed,
                (unsigned long long)s->round, s->error, hcq_result_name(s->result));
        test_dump();
        fail();
    }
}

static stream streams[4];

static uint32_t default_rounds(uint32_t full) {
    if (T.rounds) {
        return T.rounds;
    }
    return T.quick || TEST_SANITIZED ? full / 4 : full;
}

static void random_streams(void **state) {
    (void)state;
    stream *s = &streams[0];
    stream_open(s, T.seed);
    stream_run(s, default_rounds(400));
    check_stream(s, T.seed);
    stream_close(s);
    check_stream(s, T.seed);
}

/* ---- threads on the same devices ---- */

typedef struct worker {
    pthread_t thread;
    stream *stream;
    uint32_t rounds;
} worker;

static void *worker_run(void *user) {
    worker *w = (worker *)user;
    stream_run(w->stream, w->rounds);
    return NULL;
}

static void random_streams_in_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    worker workers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        stream_open(&streams[i], T.seed * 1000 + i);
        streams[i].shared_lanes = 1;
        workers[i].stream = &streams[i];
        workers[i].rounds = default_rounds(100);
        check_stream(&streams[i], T.seed);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        check_stream(&streams[i], T.seed * 1000 + i);
        stream_close(&streams[i]);
        check_stream(&streams[i], T.seed * 1000 + i);
    }
}

/* ---- random graphs of waits and signals alone ---- */

static hcq_result node_fine(void *user) {
    (void)user;
    return HCQ_OK;
}

static hcq_result node_fails(void *user) {
    (void)user;
    return HCQ_ERROR_HOST;
}

/* A recording of one host command, one for each device, kind and result. */
static void graph_queues(hcq_queue *queues[2][2][2]) {
    for (uint32_t i = 0; i < 8; i++) {
        hcq_queue **q = &queues[i >> 2 & 1][i >> 1 & 1][i & 1];
        *q = make_queue(i & 4 ? T.dev2 : T.dev, i & 2 ? HCQ_COPY : HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_host(*q, i & 1 ? node_fails : node_fine, NULL), 0);
    }
}

enum { NODES = 400, DEGREE = 4 };

static struct {
    uint64_t random;
    uint32_t nodes, fail;
    hcq_signal host;
    uint64_t opened, gates;
    hcq_queue *queues[2][2][2];
    hcq_signal done[NODES];
    hcq_point points[NODES];
    uint32_t parents[NODES][DEGREE], order[NODES];
    uint8_t fails[NODES], failed[NODES];
} G;

static uint32_t graph_pick(uint32_t below) {
    return (uint32_t)(test_random(&G.random) >> 33) % below;
}

static void graph_generate(uint64_t seed, uint32_t nodes, uint32_t fail) {
    memset(&G, 0, sizeof G);
    G.random = seed;
    G.nodes = nodes;
    G.fail = fail;
    G.host = make_signal(T.dev, 0);
    graph_queues(G.queues);
    for (uint32_t i = 0; i < nodes; i++) {
        G.fails[i] = fail && i > nodes / 2 && graph_pick(fail) == 0;
        G.failed[i] = G.fails[i];
        G.done[i] = make_signal(i % 3 ? T.dev : T.dev2, 0);
        G.order[i] = i;
        for (uint32_t k = 0; i && k < DEGREE; k++) {
            G.parents[i][k] = graph_pick(i);
            G.failed[i] |= G.failed[G.parents[i][k]];
        }
    }
    for (uint32_t i = nodes; i > 1; i--) {
        uint32_t j = graph_pick(i), keep = G.order[i - 1];
        G.order[i - 1] = G.order[j];
        G.order[j] = keep;
    }
}

static void graph_submit(uint32_t i) {
    hcq_point waits[DEGREE + 1], raise = hcq_at(G.done[i], 1);
    uint32_t device = graph_pick(2), kind = graph_pick(2);
    hcq_submission sub;
    memset(&sub, 0, sizeof sub);
    for (uint32_t k = 0; i && k < DEGREE; k++) {
        waits[sub.wait_count++] = hcq_at(G.done[G.parents[i][k]], 1);
    }
    if (i == 0 || graph_pick(8) == 0) {
        waits[sub.wait_count++] = hcq_at(G.host, ++G.gates);
    }
    sub.waits = waits;
    sub.signals = &raise;
    sub.signal_count = 1;
    sub.flags = HCQ_UNORDERED;
    sub.queues = &G.queues[device][kind][G.fails[i]];
    sub.queue_count = G.fails[i] || graph_pick(2);
    CHECK_OK(hcq_submit(device ? T.dev2 : T.dev, &sub, 1, &G.points[i]));
}

/* Who is done has only parents that are done. */
static void graph_look(void) {
    uint32_t i = graph_pick(G.nodes);
    if (!i || G.fail || test_poll(hcq_at(G.done[i], 1)) != HCQ_OK) {
        return;
    }
    for (uint32_t k = 0; k < DEGREE; k++) {
        CHECK_OK(test_poll(hcq_at(G.done[G.parents[i][k]], 1)));
    }
}

static void graph_finish(void) {
    for (uint32_t i = 0; i < G.nodes; i++) {
        hcq_result want = G.failed[i] ? HCQ_ERROR_HOST : HCQ_OK;
        WAIT_RESULT(G.points[i], want);
        CHECK_RESULT(test_poll(hcq_at(G.done[i], 1)), want);
        CHECK_OK(hcq_signal_destroy(G.done[i]));
    }
    CHECK_OK(hcq_signal_destroy(G.host));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND)); /* timelines pass failures */
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    for (uint32_t i = 0; i < 8; i++) {
        hcq_queue_destroy(G.queues[i >> 2 & 1][i >> 1 & 1][i & 1]);
    }
}

/* Node i waits for some nodes before it and for the host; nodes are submitted
   in random order, unordered, on random lanes; the host sets in between.
   Nothing may pass before the nodes it waits for have passed. Where `fail` is
   set, one in that many nodes fails, and exactly those that wait for a failed
   one, directly or not, fail as well. */
static void run_graph(uint64_t seed, uint32_t nodes, uint32_t fail) {
    graph_generate(seed, nodes, fail);
    for (uint32_t n = 0; n < nodes; n++) {
        graph_submit(G.order[n]);
        if (G.opened < G.gates && graph_pick(16) == 0) {
            CHECK_OK(hcq_signal_set(G.host, ++G.opened));
        }
        graph_look();
    }
    if (G.opened < G.gates) {
        CHECK_OK(hcq_signal_set(G.host, G.gates));
    }
    graph_finish();
}

static void random_graphs(void **state) {
    (void)state;
    uint32_t rounds = default_rounds(40);
    for (uint32_t i = 0; i < rounds; i++) {
        run_graph(T.seed * 7777 + i, 20 + (i * 37) % 380, 0);
    }
}

static void random_graphs_with_failures(void **state) {
    (void)state;
    uint32_t rounds = default_rounds(100);
    for (uint32_t i = 0; i < rounds; i++) {
        run_graph(T.seed * 8888 + i, 5 + (i * 13) % 60, 20 + i % 40);
    }
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(random_streams),
        TEST(random_streams_in_threads),
        TEST(random_graphs),
        TEST(random_graphs_with_failures),
    };
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    if (T.variant_given) {
        return cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
    }
    static const char *const names[] = {"cpu", "cpu-narrow", "mock"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        T.variant = test_find_variant(names[i]);
        result += cmocka_run_group_tests_name(names[i], tests, NULL, NULL);
    }
    return result;
}
