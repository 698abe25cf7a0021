/* claims.h - what answers.c holds answers against: claims, the host's moves that
   they wait for, and how an answer is checked. */

enum {
    THREADS = 4,
    DEVICES = 2,
    LANES = 3,                         /* of one device; the last one copies */
    BATCH = 12,                        /* submissions */
    PARTS = 2,                         /* queues of one */
    MADE = 7,                          /* commands of a queue ... */
    STEPS = 14,                        /* ... with what it does to data */
    LIST = 3,                          /* waits of the submission itself */
    WORDS = 4,                         /* that a submission writes, at most */
    BUFFERS = 3,                       /* of one thread on a device ... */
    DATA_WORDS = 96,                   /* ... each of so many words */
    READERS = 3,
    SUBS = 24000,                      /* of one thread and run */
    CLAIMS = 4 * SUBS,
    GATES = 6,                         /* of one thread */
    LINES = 8,                         /* signals that its submissions raise in turn */
    EVENTS = 8,                        /* of a gate or line */
    MOVES = 64,                        /* planned ones, a power of two */
    RECENT = 64,                       /* claims that are chosen more often */
    OPEN = 160,                        /* submissions of a thread that may not be over */
    NOTES = 1500
};

/* `who` has a member `random`. */
#define pick(who, below) pick_from(&(who)->random, (below))
#define chance(who, percent) (pick(who, 100) < (percent))

#define MUST_RECORD(call) must(#call, (call) < 0 ? HCQ_ERROR_INVALID : HCQ_OK)
#define NEVER UINT32_MAX
#define REACHED 1u                     /* the bit of HCQ_OK */
#define ATTACKED HCQ_ERROR_ALIAS       /* how another thread fails a gate */

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
    uint8_t own_lane;
    uint8_t host;                      /* its host command: the same; 3: none */
    uint32_t calls;                    /* atomic */
    hcq_result result;                 /* of the host command */
    hcq_point set;                     /* which sets this; value 0: nothing */
} sub;

/* A signal and what was claimed of it. */
typedef struct gate {
    hcq_signal signal;
    uint64_t value;
    claim *claims[EVENTS];
    uint32_t count;
    uint32_t part;                     /* of a line: where it was raised last */
    int mortal, attackable;
} gate;

typedef enum act { ACT_SET, ACT_FAIL, ACT_DESTROY, ACT_CLOSE } act;

typedef struct move {
    act act;
    gate gate;                         /* with the new value, and those who name it */
    hcq_result result;
} move;

typedef struct note {
    claim *on;
    uint32_t calls;                    /* atomic */
    int cancelled;
    intptr_t handle_fd;                /* -1: it calls */
    hcq_notification handle;
} note;

/* A device that is opened and closed in the middle. */
typedef struct guest {
    hcq_device *device;
    hcq_signal gate, line;
} guest;

typedef enum op_kind { OP_COPY, OP_FILL, OP_WRITE, OP_MIX, OP_KINDS } op_kind;

typedef struct op {                    /* on a thread's buffers */
    op_kind kind;
    uint32_t dst, src;                 /* buffers */
    uint32_t dst_at, src_at, count;    /* words */
    uint32_t value_size;
    uint64_t value;
} op;

typedef struct data {
    hcq_buffer buffer;
    uint32_t model[DATA_WORDS];
    claim *writer, *readers[READERS];  /* the last one; those since then */
    uint32_t reader_count;
} data;

typedef enum step_kind { STEP_WAIT, STEP_RAISE, STEP_PUT, STEP_DATA, STEP_HOST } step_kind;

typedef struct step {
    step_kind kind;
    claim *on;                         /* wait; of a raise its claim */
    hcq_point raise;
    uint32_t word;                     /* put: where, and one more is the value */
    op op;                             /* data */
} step;

/* A submission while it is made. */
typedef struct draft {
    uint32_t index;                    /* of the submission */
    int kept;                          /* a recording that is used again */
    uint32_t device, lane;             /* lane: of all devices, of the first part */
    int ordered, own_lane;
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

typedef struct kept {
    hcq_queue *queue;
    uint32_t uses;
} kept;

typedef struct actor {                 /* a thread */
    uint32_t index;
    uint64_t random;
    sub subs[SUBS];
    uint32_t sub_count, first;         /* first: of the batch */
    claim claims[CLAIMS];
    uint8_t gone[CLAIMS];              /* those that it may not name any more */
    uint32_t claim_count;
    uint32_t published;                /* atomic: claims that others may see */
    draft drafts[BATCH];
    uint32_t draft_count;
    gate gates[GATES], lines[LINES];
    move plan[MOVES];
    uint32_t planned;
    uint32_t started, done;            /* atomic: moves */
    uint64_t target;                   /* atomic: a gate that others may fail */
    uint32_t lane;                     /* its own, or NEVER */
    data data[DEVICES * BUFFERS];
    end lane_end;
    kept kept[DEVICES];
    hcq_queue *queues[DEVICES][2][PARTS];
    uint32_t group, group_count;       /* the claims of the last one */
    uint32_t open[OPEN + BATCH], open_count;
    note notes[NOTES];
    uint32_t note_count;
    guest guest;
} actor;

static struct {
    uint64_t random;
    hcq_device_desc desc;
    hcq_device *devices[DEVICES];
    uint32_t compute_lanes, copy_lanes;
    int mapped;                        /* commands may name the other device's buffers */
    hcq_program *put[DEVICES], *mix[DEVICES];
    hcq_buffer words[DEVICES];
    claim always;                      /* reached */
    uint32_t subs;                     /* of a thread in this run */
    uint32_t fail_percent, look_percent;
    actor actors[THREADS];
    uint64_t total, failed;            /* of all runs */
} W;

/* Results as bits; HCQ_OK is the lowest. */
static uint32_t bit_of(hcq_result result) {
    return 1u << -(int)result;
}

static hcq_result pick_failure(actor *me) {
    static const hcq_result failures[] = {HCQ_ERROR_NATIVE, HCQ_ERROR_UNSUPPORTED,
                                          HCQ_ERROR_FOREIGN, HCQ_ERROR_NO_DEVICE};
    return failures[pick(me, 4)];
}

/* ---- saying what is wrong ---- */

static void differs(const char *how, const claim *c, hcq_result result, const char *why) {
    static char text[32768];
    hcq_explain(&c->point, 1, text, sizeof text);
    fprintf(stderr, "\n%s\nneeds, is due, made, of each thread:", text);
    for (uint32_t t = 0; t < THREADS; t++) {
        fprintf(stderr, " %u %u %u,", c->end.need.of[t], c->end.due.of[t], W.actors[t].done);
    }
    wrong("%s of claim %u of thread %u (%s %llx at %llu) gives %s: %s; the model has %#x, seen %#x",
          how, (uint32_t)(c - W.actors[c->thread].claims), c->thread,
          c->sub == NEVER ? "signal" : "submission", (unsigned long long)c->point.signal.id,
          (unsigned long long)c->point.value, hcq_result_name(result), why, c->end.mask, c->seen);
}

/* ---- the model ---- */

/* Are so many of each thread's done, or at least begun? */
static int moves_are(const moves *m, int begun) {
    uint32_t late = 0;
    for (uint32_t t = 0; t < THREADS; t++) {
        actor *a = &W.actors[t];
        late += __atomic_load_n(begun ? &a->started : &a->done, __ATOMIC_ACQUIRE) < m->of[t];
    }
    return late == 0;
}

static int moves_done(const moves *m) {
    return moves_are(m, 0);
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
    if (bit == REACHED && !moves_are(&c->end.need, 1)) {
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

/* Asks for it; where it has to be over, it is. */
static hcq_result ask(const char *how, claim *c, uint64_t timeout, int over) {
    hcq_result r = hcq_wait(&c->point, 1, HCQ_ALL, timeout);
    check_answer(how, c, r);
    if (over && r == HCQ_TIMEOUT) {
        differs(how, c, r, "it should be over");
    }
    return r;
}

static uint64_t long_timeout(void) {
    return BOUND * (TEST_SANITIZED ? 3 : 1);
}

/* ---- claims ---- */

static claim *add_claim(actor *me, hcq_point point, const end *e, uint32_t maker) {
    claim *c = &me->claims[me->claim_count++];
    *c = (claim){.point = point, .end = *e, .sub = NEVER, .maker = maker,
                 .thread = (uint16_t)me->index};
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
