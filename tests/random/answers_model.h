/* answers_model.h - what answers.c holds answers against: claims, the host's moves
   that they wait for, and how an answer is checked. Part of answers.c. */

enum {
    THREADS = 4,
    DEVICES = 2,
    LANES = 3,                         /* of one device */
    BATCH = 12,                        /* submissions */
    PARTS = 2,                         /* queues of one */
    STEPS = 7,                         /* commands of a queue */
    LIST = 3,                          /* waits of the submission itself */
    WORDS = 4,                         /* that a submission writes, at most */
    SUBS = 24000,                      /* of one thread and run */
    CLAIMS = 4 * SUBS,
    GATES = 6,                         /* of one thread */
    LINES = 8,                         /* signals that its submissions raise in turn */
    EVENTS = 8,                        /* of a gate or line */
    MOVES = 64,                        /* planned ones, a power of two */
    RECENT = 64,                       /* claims that are chosen more often */
    OPEN = 160,                        /* submissions of a thread that may not be over */
    NOTES = 1500,
    TRACE = 48
};

#define NEVER UINT32_MAX
#define REACHED 1u                     /* the bit of HCQ_OK */
#define ATTACKED HCQ_ERROR_ALIAS       /* how another thread fails a gate */

/* ---- what is claimed ---- */

/* How many moves of each thread's host. */
typedef struct moves { uint32_t of[THREADS]; } moves;

typedef struct end {
    uint32_t mask;                     /* results, as bits */
    moves need;                        /* is not reached before these began */
    moves due;                         /* is over once these are done */
} end;

typedef struct claim {
    hcq_point point;
    end end;
    uint32_t seen;                     /* atomic: the first answer, as a bit */
    uint32_t sub;                      /* whose own point it is, or NEVER */
    uint32_t maker;                    /* the submission that must be made for it, or NEVER */
    uint16_t thread;
    uint8_t mortal;                    /* the signal goes during the run */
    uint8_t look_only;                 /* no submission may wait for it */
} claim;

/* What is left of a submission. */
typedef struct sub {
    claim *own;
    uint32_t word;                     /* the first */
    uint8_t device, words;
    uint8_t ran[WORDS];                /* 1: it writes this one, 0: not, 2: as it comes */
    uint8_t host;                      /* its host command: the same; 3: none */
    uint32_t calls;                    /* atomic */
} sub;

/* ---- a batch while it is made ---- */

typedef enum step_kind {
    STEP_WAIT, STEP_WAIT_DEVICE, STEP_RAISE, STEP_PUT, STEP_LANE, STEP_HOST
} step_kind;

typedef struct step {
    step_kind kind;
    claim *on;                         /* wait; of a raise its claim */
    hcq_point raise;
    uint32_t word;                     /* put: where, and one more is the value */
    uint32_t value;                    /* lane */
    struct host_call *call;
} step;

typedef enum form { FRESH, KEPT } form; /* a recording of its own, or one used again */

typedef struct draft {
    uint32_t index;                    /* of the submission */
    form form;
    uint32_t device, lane;             /* lane: of all devices, of the first part */
    int ordered, own_lane, whole;      /* whole: waits for a device */
    uint64_t affinity;
    uint32_t part_count;
    hcq_queue_kind kinds[PARTS];
    step steps[PARTS][STEPS];
    uint32_t counts[PARTS];
    claim *waits[LIST];
    uint32_t wait_count;
    hcq_point raise;                   /* value 0: none */
    end start, states[PARTS], end;
    uint32_t needs;                    /* drafts whose raises it waits for, as bits */
    uint32_t follows;                  /* drafts that must be submitted before */
    int submitted, early;
} draft;

typedef struct host_call {
    sub *sub;
    hcq_result result;
    hcq_point set;                     /* value 0: none */
} host_call;

typedef enum act { ACT_SET, ACT_FAIL, ACT_DESTROY, ACT_CLOSE } act;

typedef struct move {
    act act;
    hcq_signal signal;
    uint64_t value;
    hcq_result result;
    int attackable;
    struct gate *gate;                 /* destroy: a copy, with its claims */
} move;

/* A signal and what was claimed of it. */
typedef struct gate {
    hcq_signal signal;
    uint64_t value;
    claim *claims[EVENTS];
    uint32_t count;
    uint32_t part;                     /* of a line: where it was raised last */
    int mortal, attackable;
} gate;

typedef struct kept {
    hcq_queue *queue;
    uint32_t uses;
} kept;

typedef struct note {
    claim *on;
    uint32_t calls;                    /* atomic */
    int32_t result;
    int cancelled;
    hcq_notification handle;
} note;

/* A device that is opened and closed in the middle. */
typedef struct guest {
    hcq_device *device;
    hcq_signal gate, line;
} guest;

typedef struct line_of_trace {
    const char *what;
    uint64_t a, b;
    int32_t result;
} line_of_trace;

typedef struct actor {                 /* a thread */
    uint32_t index;
    pthread_t thread;
    uint64_t random;
    sub subs[SUBS];
    uint32_t sub_count, first;         /* first: of the batch */
    claim claims[CLAIMS];
    uint8_t gone[CLAIMS];              /* those that it may not name any more */
    uint32_t claim_count;
    uint32_t published;                /* atomic: claims that others may see */
    draft drafts[BATCH];
    uint32_t draft_count;
    gate gates[GATES], lines[LINES], dying[MOVES];
    move plan[MOVES];
    uint32_t planned;
    uint32_t started, done;            /* atomic: moves */
    uint64_t target;                   /* atomic: a gate that others may fail */
    uint32_t lane, lane_value;         /* its own lane, or NEVER */
    end lane_end;
    host_call calls[SUBS];
    kept kept[DEVICES][2];
    hcq_queue *queues[DEVICES][2][PARTS];
    uint32_t group, group_count;       /* the claims of the last one */
    uint32_t open[OPEN + BATCH], open_count;
    note notes[NOTES];
    uint32_t note_count;
    guest guest;
    line_of_trace trace[TRACE];
    uint32_t traced;
} actor;

static struct {
    uint64_t random;
    hcq_device_desc desc;
    hcq_device *devices[DEVICES];
    uint32_t compute_lanes, copy_lanes;
    hcq_program *put[DEVICES], *mix[DEVICES];
    hcq_buffer words[DEVICES], values[DEVICES], lanes[DEVICES];
    claim always;                      /* reached */
    uint32_t threads, subs;            /* of this run */
    uint32_t fail_percent, look_percent;
    hcq_device *visited;               /* atomic: a guest that others may use */
    actor actors[THREADS];
    uint64_t total, failed;            /* of all runs */
} W;

static uint32_t pick(actor *me, uint32_t below) {
    return pick_from(&me->random, below);
}

static int chance(actor *me, uint32_t percent) {
    return pick(me, 100) < percent;
}

static hcq_result pick_failure(actor *me) {
    static const hcq_result failures[] = {HCQ_ERROR_NATIVE, HCQ_ERROR_UNSUPPORTED,
                                          HCQ_ERROR_FOREIGN, HCQ_ERROR_NO_DEVICE};
    return failures[pick(me, 4)];
}

/* ---- saying what is wrong ---- */

static void mark(actor *me, const char *what, uint64_t a, uint64_t b, hcq_result result) {
    line_of_trace *line = &me->trace[me->traced++ % TRACE];
    line->what = what;
    line->a = a;
    line->b = b;
    line->result = (int32_t)result;
    progress();
}

static void tell_traces(void) {
    for (uint32_t t = 0; t < W.threads; t++) {
        const actor *me = &W.actors[t];
        uint32_t from = me->traced < TRACE ? 0 : me->traced - TRACE;
        fprintf(stderr, "---- thread %u: %u submissions, moves %u of %u, the last of %u calls\n", t,
                me->sub_count, me->done, me->planned, me->traced);
        for (uint32_t i = from; i < me->traced; i++) {
            const line_of_trace *line = &me->trace[i % TRACE];
            fprintf(stderr, "  %s %llu %llu: %s\n", line->what, (unsigned long long)line->a,
                    (unsigned long long)line->b, hcq_result_name((hcq_result)line->result));
        }
    }
}

static void differs(const char *how, const claim *c, hcq_result result, const char *why) {
    static char text[32768];
    hcq_explain(&c->point, 1, text, sizeof text);
    fprintf(stderr, "\n%s\n", text);
    wrong("%s of claim %u of thread %u (%s %llx at %llu) gives %s: %s; the model has %#x, seen "
          "%#x, needs moves %u %u %u %u, is over after %u %u %u %u", how,
          (uint32_t)(c - W.actors[c->thread].claims), c->thread,
          c->sub == NEVER ? "signal" : "submission", (unsigned long long)c->point.signal.id,
          (unsigned long long)c->point.value, hcq_result_name(result), why, c->end.mask, c->seen,
          c->end.need.of[0], c->end.need.of[1], c->end.need.of[2], c->end.need.of[3],
          c->end.due.of[0], c->end.due.of[1], c->end.due.of[2], c->end.due.of[3]);
}

/* ---- the model ---- */

static int moves_began(const moves *m) {
    for (uint32_t t = 0; t < W.threads; t++) {
        if (__atomic_load_n(&W.actors[t].started, __ATOMIC_ACQUIRE) < m->of[t]) {
            return 0;
        }
    }
    return 1;
}

static int moves_done(const moves *m) {
    for (uint32_t t = 0; t < W.threads; t++) {
        if (__atomic_load_n(&W.actors[t].done, __ATOMIC_ACQUIRE) < m->of[t]) {
            return 0;
        }
    }
    return 1;
}

static void moves_join(moves *to, const moves *what) {
    for (uint32_t t = 0; t < THREADS; t++) {
        to->of[t] = to->of[t] > what->of[t] ? to->of[t] : what->of[t];
    }
}

static const end nothing = {REACHED, {{0}}, {{0}}};

/* `to` goes on only after `what`, and only if that is reached. */
static void end_follow(end *to, const end *what) {
    uint32_t failures = (to->mask | what->mask) & ~REACHED;
    to->mask = failures | (to->mask & what->mask & REACHED);
    moves_join(&to->need, &what->need);
    moves_join(&to->due, &what->due);
}

static int is_sure(const end *e) {
    return (e->mask & (e->mask - 1)) == 0;
}

/* The words of a submission that is over. */
static void check_words(const sub *s, int reached) {
    const uint32_t *words = (const uint32_t *)W.words[s->device].host;
    for (uint32_t k = 0; k < s->words; k++) {
        uint32_t got = words[s->word + k], want = s->word + k + 1;
        int fine = got == want ? s->ran[k] != 0 : got == 0 && s->ran[k] != 1 && !reached;
        if (!fine) {
            differs("the word", s->own, reached ? HCQ_OK : HCQ_NOT_READY,
                    got ? "it is there" : "it is missing");
        }
    }
    uint32_t calls = __atomic_load_n(&s->calls, __ATOMIC_ACQUIRE);
    uint32_t most = s->host == 1 || s->host == 2;
    uint32_t least = reached ? most : s->host == 1;
    if (calls > most || calls < least) {
        differs("the host command", s->own, HCQ_OK, calls ? "it ran" : "it did not run");
    }
}

static void check_answer(const char *how, claim *c, hcq_result result) {
    uint32_t bit = (int)result > 0 ? 0 : bit_of(result), allowed = c->end.mask, before = 0;
    if (result == HCQ_TIMEOUT) {
        return;
    }
    if (c->mortal) {
        allowed |= bit_of(HCQ_ERROR_CLOSED) | bit_of(HCQ_ERROR_CANCELLED);
    }
    if (!(bit & allowed)) {
        differs(how, c, result, "cannot be");
    }
    if (bit == REACHED && !moves_began(&c->end.need)) {
        differs(how, c, result, "too early");
    }
    if (!c->mortal && !__atomic_compare_exchange_n(&c->seen, &before, bit, 0, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_ACQUIRE) && before != bit) {
        differs(how, c, result, "was another one before");
    }
    if (bit == REACHED && c->sub != NEVER) {
        check_words(&W.actors[c->thread].subs[c->sub], 1);
    }
}

static hcq_result poll_claim(const char *how, claim *c) {
    hcq_result r = hcq_wait(&c->point, 1, HCQ_ALL, 0);
    check_answer(how, c, r);
    return r;
}

/* ---- claims ---- */

static claim *add_claim(actor *me, hcq_point point, const end *e, uint32_t maker) {
    claim *c = &me->claims[me->claim_count++];
    memset(c, 0, sizeof *c);
    c->point = point;
    c->end = *e;
    c->sub = NEVER;
    c->maker = maker;
    c->thread = (uint16_t)me->index;
    return c;
}

static uint32_t published(actor *of) {
    return __atomic_load_n(&of->published, __ATOMIC_ACQUIRE);
}

static void publish(actor *me) {
    __atomic_store_n(&me->published, me->claim_count, __ATOMIC_RELEASE);
}

/* One of the latest, or any; NULL: there is none. */
static claim *any_claim(actor *me, actor *of, uint32_t count) {
    uint32_t recent = count < RECENT ? count : RECENT;
    if (count == 0) {
        return NULL;
    }
    return &of->claims[chance(me, 60) ? count - 1 - pick(me, recent) : pick(me, count)];
}

/* Of any thread, to be asked for. */
static claim *look_claim(actor *me) {
    actor *of = &W.actors[pick(me, W.threads)];
    return any_claim(me, of, published(of));
}

/* ---- the host's moves ---- */

static gate *new_gate(actor *me, gate *g) {
    memset(g, 0, sizeof *g);
    MUST(hcq_signal_create(W.devices[pick(me, DEVICES)], 0, &g->signal));
    return g;
}

static move *plan_move(actor *me, act what, hcq_signal signal) {
    move *m = &me->plan[me->planned++ % MOVES];
    memset(m, 0, sizeof *m);
    m->act = what;
    m->signal = signal;
    return m;
}

static int may_plan(const actor *me) {
    return me->planned - me->done < MOVES / 2;
}

/* The signal goes, and with it what was claimed of it. */
static void plan_destroy(actor *me, gate *g, move *m) {
    m->gate = &me->dying[(me->planned - 1) % MOVES];
    *m->gate = *g;
}

/* Plans what the host will do to a gate next, and claims how that ends. */
static void plan_gate(actor *me) {
    gate *g = &me->gates[pick(me, GATES)];
    if (g->count == EVENTS || !g->signal.id) {
        new_gate(me, g);
        g->mortal = chance(me, 25);
        g->attackable = !g->mortal && chance(me, 10);
    }
    int last = g->count + 1 == EVENTS || chance(me, 10);
    int fails = chance(me, W.fail_percent);
    act what = fails && g->mortal && last ? ACT_DESTROY : fails && last ? ACT_FAIL : ACT_SET;
    uint64_t value = g->value + 1 + pick(me, 4);
    move *m = plan_move(me, what, g->signal);
    end e = nothing;
    m->value = value;
    m->result = what == ACT_FAIL ? pick_failure(me) : HCQ_ERROR_CANCELLED;
    m->attackable = g->attackable;
    e.mask = what == ACT_SET ? REACHED : bit_of(m->result);
    e.mask |= g->attackable ? bit_of(ATTACKED) : 0;
    e.need.of[me->index] = e.due.of[me->index] = me->planned;
    uint64_t ask = g->value + 1 + pick(me, (uint32_t)(value - g->value));
    claim *c = add_claim(me, hcq_at(g->signal, ask), &e, NEVER);
    c->mortal = (uint8_t)g->mortal;
    g->claims[g->count++] = c;
    g->value = value;
    if (what == ACT_DESTROY) {
        plan_destroy(me, g, m);
    }
    if (what != ACT_SET) {
        memset(g, 0, sizeof *g);
    }
    if (g->attackable) {
        __atomic_store_n(&me->target, g->signal.id, __ATOMIC_RELEASE);
    }
}

static void close_guest(actor *me);

static void move_set(const move *m) {
    hcq_result r = hcq_signal_set(m->signal, m->value);
    if (r != HCQ_OK && !(m->attackable && r == ATTACKED)) {
        wrong("a set of %llx to %llu gives %s", (unsigned long long)m->signal.id,
              (unsigned long long)m->value, hcq_result_name(r));
    }
}

/* The next planned move; in the middle of a batch nothing may go that it names. */
static int make_move(actor *me, int in_batch) {
    if (me->done == me->planned) {
        return 0;
    }
    const move *m = &me->plan[me->done % MOVES];
    if (in_batch && (m->act == ACT_DESTROY || m->act == ACT_CLOSE)) {
        return 0;
    }
    for (uint32_t i = 0; m->act == ACT_DESTROY && i < m->gate->count; i++) {
        me->gone[m->gate->claims[i] - me->claims] = 1;
    }
    __atomic_store_n(&me->started, me->done + 1, __ATOMIC_SEQ_CST);
    switch (m->act) {
    case ACT_SET: move_set(m); break;
    case ACT_FAIL: MUST(hcq_signal_fail(m->signal, m->result)); break;
    case ACT_DESTROY: MUST(hcq_signal_destroy(m->signal)); break;
    default: close_guest(me); break;
    }
    mark(me, "move: kind, signal", m->act, m->signal.id, HCQ_OK);
    __atomic_store_n(&me->done, me->done + 1, __ATOMIC_RELEASE);
    return 1;
}

/* Fails a gate of another thread. */
static void attack(actor *me) {
    hcq_signal signal = {0};
    signal.id = __atomic_exchange_n(&W.actors[pick(me, W.threads)].target, 0, __ATOMIC_ACQ_REL);
    if (signal.id) {
        MUST(hcq_signal_fail(signal, ATTACKED));
        mark(me, "attack: signal", signal.id, 0, HCQ_OK);
    }
}
