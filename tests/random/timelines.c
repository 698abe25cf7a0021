/* timelines.c - random timelines on many lanes against a model.

   timelines [VARIANT] [SEED] [--commands N] [--quick]
   timelines [VARIANT] [SEED] --signals     interrupted system calls all the time
   timelines [VARIANT] [SEED] --kill ROUNDS processes that are killed in the middle

   stress.c compares bytes after work that always succeeds; here it is about who
   waits for whom. A round is a list of actions in logical order: submissions on
   2 devices with 4 lanes each, sets, failures and destroyed signals by the host.
   An action waits only for what comes before it, so there is a way to do them
   all; but threads issue them in another order. The model says of every value
   of every signal and of every submission: reached, failed and how, or unmet
   until the finale, in which the host opens, fails or destroys the last gates.
   Meanwhile the threads poll, wait, explain, notify and cancel, and every answer
   must be one that the model allows. At the end every answer is exact, and every
   command has left its mark or has not. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "support/util.h"
#include "support/util_threads.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>

enum {
    SUBS = 160,
    QUEUES = 3,                        /* of one submission */
    COMMANDS = 9,                      /* of one queue */
    LIST = 3,                          /* waits or signals of the submission itself */
    SIGNALS = 64,                      /* the first GATES are for the host alone */
    GATES = 8,
    EVENTS = 8,                        /* of one signal */
    ACTIONS = SUBS + GATES * EVENTS,
    THREADS = 3,
    NOTES = 48,                        /* notifications of one thread and round */
    GROUPS = 4,                        /* device * 2 + affinity % 2: two lanes each */
    WORDS = SUBS * QUEUES * COMMANDS,  /* one for each command, then: */
    WORD_LANES = WORDS,                /* one for each lane of a device */
    WORD_ZERO = WORDS + 4,
    ALL_WORDS = WORDS + 5,
    TEXT = 16384
};

#define NEVER UINT32_MAX

/* ---- what a round consists of ---- */

typedef enum target_kind { ON_EVENT, ON_SUB } target_kind;

/* What is waited for: an event of a signal, or a submission's own point. */
typedef struct target {
    target_kind kind;
    uint32_t signal, event, sub;
    uint64_t value;
} target;

/* How something ends. */
typedef struct outcome {
    uint32_t mask;                     /* 0: reached; else the results it may have, as bits */
    int may_be_late, is_late;          /* not before the finale */
} outcome;

typedef enum command_kind {
    DO_WAIT, DO_SIGNAL, DO_WRITE, DO_COPY, DO_MIX, DO_LANE, DO_HOST, DO_CUSTOM
} command_kind;

typedef struct command {
    command_kind kind;
    target wait;
    uint32_t signal, event;
    uint32_t word, value;
    int source;                        /* a word of `source_device`, -1 = none */
    uint32_t source_device;
    hcq_result result;                 /* host and custom */
} command;

typedef struct part {                  /* a queue of a submission */
    hcq_queue_kind kind;
    command commands[COMMANDS];
    uint32_t count;
    uint32_t mask;                     /* of all failures in it */
    int shares_lane;                   /* with another queue of this submission */
} part;

typedef struct sub {
    uint32_t thread, device, group, pos;
    uint64_t affinity;
    int unordered;
    part parts[QUEUES];
    uint32_t part_count;
    uint8_t order[QUEUES * COMMANDS];  /* the part of each command, in logical order */
    uint32_t order_count;
    target waits[LIST];
    uint32_t wait_count;
    struct { uint32_t signal, event; } signals[LIST];
    uint32_t signal_count;
    outcome end;
    int wants_point;                   /* somebody waits for it */
    int busy_gate;                     /* a gate of the finale that it waits for, or -1 */
    uint32_t issued;                   /* atomic: 1 = `point` is valid, 2 = no point */
    hcq_point point;
} sub;

typedef enum act_kind { ACT_SUBMIT, ACT_SET, ACT_FAIL, ACT_DESTROY } act_kind;

typedef struct event {
    uint64_t value;
    act_kind act;
    hcq_result result;                 /* of ACT_FAIL */
    outcome end;
    uint32_t pos;
    int sub, part;                     /* who raises it; part -1: the submission's list */
    int word;                          /* written before it, or -1 */
    uint32_t word_device;
} event;

typedef struct timeline {
    hcq_signal signal;
    event events[EVENTS];
    uint32_t count;
    uint32_t thread;                   /* of a gate: who moves it */
    int is_private;                    /* only that thread names it */
    int finale;                        /* its last event belongs to the finale */
    int last;                          /* the host does no more to it */
    int closed;                        /* destroyed in this round */
} timeline;

typedef struct action {
    act_kind kind;
    uint32_t index, event;             /* of the submission, or of a signal */
    uint32_t pos;
} action;

typedef struct note {
    struct world *world;
    target on;
    hcq_point point;
    uint32_t calls;                    /* atomic */
    int32_t result;
    hcq_notification handle;
    int cancelled;                     /* 1: it must never run */
    intptr_t fd;                       /* of hcq_notify_handle, or -1 */
    uint32_t bad_poll;
} note;

typedef struct actor {                 /* a thread */
    struct world *world;
    pthread_t thread;
    uint32_t index;
    uint64_t random;
    action actions[ACTIONS];           /* in the order in which they are issued */
    uint32_t lowest[ACTIONS + 1];      /* smallest pos from here on */
    uint32_t count, at;
    note notes[NOTES];
    uint32_t note_count;
    hcq_queue *queues[2][2][QUEUES];   /* device, kind: used again and again */
    uint64_t seen[SIGNALS];            /* values that were read */
    char text[TEXT];
} actor;

typedef struct world {
    uint64_t random, commands;
    hcq_device *devices[2];
    hcq_buffer words[2];
    hcq_program *mix[2];
    int mapped, on_cpu;
    uint32_t thread_count;
    uint32_t owner[GROUPS];
    sub subs[SUBS];
    uint32_t sub_count;
    timeline lines[SIGNALS];
    action actions[ACTIONS];
    uint32_t action_count;
    int lane_is_late[2][2][2], group_may_be_late[GROUPS];
    uint32_t expected[2][ALL_WORDS];
    uint32_t calls[WORDS], want_calls[WORDS]; /* of host and custom commands */
    struct host_call { struct world *world; uint32_t word; hcq_result result; } hosts[WORDS];
    actor actors[THREADS];
    int after_finale;
    uint32_t fail_percent;             /* of host commands */
} world;

static world W;

static uint32_t pick(uint32_t below) {
    return pick_from(&W.random, below);
}

static int chance(uint32_t percent) {
    return pick(100) < percent;
}

static const hcq_result failures[] = {HCQ_ERROR_HOST, HCQ_ERROR_NATIVE, HCQ_ERROR_LIMIT,
                                      HCQ_ERROR_UNSUPPORTED};

static hcq_result pick_failure(void) {
    return failures[pick(sizeof failures / sizeof failures[0])];
}

/* ---- saying what is wrong ---- */

static void explain_all(void) {
    static char text[65536];
    for (uint32_t i = 0; i < W.sub_count; i++) {
        const sub *s = &W.subs[i];
        if (__atomic_load_n(&s->issued, __ATOMIC_ACQUIRE) == 1 &&
            test_poll(s->point) == HCQ_TIMEOUT) {
            hcq_explain(&s->point, 1, text, sizeof text);
            fprintf(stderr, "submission %u is not over:\n%s\n", i, text);
        }
    }
}

/* ---- the model ---- */

static outcome outcome_of(const target *t) {
    return t->kind == ON_SUB ? W.subs[t->sub].end : W.lines[t->signal].events[t->event].end;
}

static uint32_t pos_of(const target *t) {
    return t->kind == ON_SUB ? W.subs[t->sub].pos : W.lines[t->signal].events[t->event].pos;
}

static void join(outcome *to, outcome what) {
    to->mask |= what.mask;
    to->may_be_late |= what.may_be_late;
    to->is_late |= what.is_late;
}

/* A command that runs leaves its mark. */
static void model_mark(const sub *s, const part *p, const command *c) {
    uint32_t *words = W.expected[s->device];
    uint32_t lane = (uint32_t)p->kind * 2 + (uint32_t)(s->affinity % 2);
    switch (c->kind) {
    case DO_WRITE:
        words[c->word] = c->value;
        break;
    case DO_COPY:
        words[c->word] = W.expected[c->source_device][c->source];
        break;
    case DO_MIX:
        words[c->word] = W.expected[c->source_device][c->source] + c->value;
        break;
    case DO_LANE:
        words[WORD_LANES + lane] = p->kind == HCQ_COPY
                                       ? c->value
                                       : words[WORD_LANES + lane] * 31u + c->value;
        break;
    case DO_HOST:
    case DO_CUSTOM:
        W.want_calls[c->word] = 1;
        break;
    default:
        break;
    }
}

/* One command; `state` is how the queue stands. */
static void model_command(sub *s, part *p, const command *c, outcome *state) {
    event *e;
    switch (c->kind) {
    case DO_WAIT:
        join(state, outcome_of(&c->wait));
        break;
    case DO_SIGNAL:
        e = &W.lines[c->signal].events[c->event];
        e->end = *state;
        if (state->mask) {
            e->end.mask |= p->mask;
        }
        break;
    default:
        if (!state->mask) {
            model_mark(s, p, c);
            state->mask |= c->result != HCQ_OK ? bit_of(HCQ_ERROR_HOST) : 0;
        }
        break;
    }
    p->mask |= state->mask;
}

static void model_lists(sub *s, const outcome *states) {
    for (uint32_t k = 0; k < s->part_count; k++) {
        join(&s->end, states[k]);
        s->end.mask |= s->parts[k].mask;
    }
    for (uint32_t i = 0; i < s->signal_count; i++) {
        W.lines[s->signals[i].signal].events[s->signals[i].event].end = s->end;
    }
}

static int *lane_late(const sub *s, const part *p) {
    return &W.lane_is_late[s->device][p->kind][s->affinity % 2];
}

/* What the submission waits for before its first command. */
static outcome model_start(const sub *s) {
    outcome start = {0, 0, 0};
    for (uint32_t i = 0; i < s->wait_count; i++) {
        join(&start, outcome_of(&s->waits[i]));
    }
    return start;
}

static void model_sub(sub *s) {
    outcome states[QUEUES], start = model_start(s);
    uint32_t at[QUEUES] = {0};
    if (!s->unordered) {
        start.may_be_late |= W.group_may_be_late[s->group];
    }
    for (uint32_t k = 0; k < s->part_count; k++) {
        states[k] = start;
        s->parts[k].mask |= start.mask;
        if (!s->unordered) {
            states[k].is_late |= *lane_late(s, &s->parts[k]);
        }
    }
    s->end = start;
    for (uint32_t i = 0; i < s->order_count; i++) {
        uint32_t k = s->order[i];
        model_command(s, &s->parts[k], &s->parts[k].commands[at[k]++], &states[k]);
    }
    model_lists(s, states);
    if (!s->unordered) {
        W.group_may_be_late[s->group] |= s->end.may_be_late;
        for (uint32_t k = 0; k < s->part_count; k++) {
            *lane_late(s, &s->parts[k]) |= !states[k].mask && states[k].is_late;
        }
    }
}

/* The whole round. Twice where results spread: a failure may be noticed before
   an earlier one of the same queue, so each end may have any of its results. */
static void model_round(void) {
    for (int pass = 0; pass < 3; pass++) {
        memset(W.expected, 0, sizeof W.expected);
        memset(W.want_calls, 0, sizeof W.want_calls);
        memset(W.lane_is_late, 0, sizeof W.lane_is_late);
        memset(W.group_may_be_late, 0, sizeof W.group_may_be_late);
        for (uint32_t i = 0; i < W.action_count; i++) {
            if (W.actions[i].kind == ACT_SUBMIT) {
                model_sub(&W.subs[W.actions[i].index]);
            }
        }
    }
}

/* May a look at this answer so, now? */
static int allowed(const target *t, hcq_result result) {
    outcome o = outcome_of(t);
    if (result == HCQ_TIMEOUT) {
        return 1;
    }
    if (result == HCQ_OK) {
        return o.mask == 0 && (W.after_finale || !o.is_late);
    }
    return (int)result < 0 && (o.mask & bit_of(result)) != 0;
}

static void describe(char *text, size_t size, const target *t) {
    outcome o = outcome_of(t);
    int n = t->kind == ON_SUB
                ? snprintf(text, size, "submission %u", t->sub)
                : snprintf(text, size, "signal %u at %llu", t->signal,
                           (unsigned long long)t->value);
    snprintf(text + n, size - (size_t)n, " (model: mask %#x, late %d..%d)", o.mask, o.is_late,
             o.may_be_late);
}

static void check_allowed(const char *what, const target *t, hcq_result result) {
    char text[128];
    if (!allowed(t, result)) {
        describe(text, sizeof text, t);
        wrong("%s of %s gives %s", what, text, hcq_result_name(result));
    }
}

/* ---- generating ---- */

static action *add_action(act_kind kind, uint32_t index, uint32_t event_index) {
    action *a = &W.actions[W.action_count];
    a->kind = kind;
    a->index = index;
    a->event = event_index;
    a->pos = W.action_count++;
    return a;
}

static event *add_event(uint32_t signal, act_kind act, int sub_index, int part_index) {
    timeline *line = &W.lines[signal];
    event *e = &line->events[line->count++];
    memset(e, 0, sizeof *e);
    e->value = (line->count > 1 ? e[-1].value : 0) + 1 + pick(5);
    e->act = act;
    e->sub = sub_index;
    e->part = part_index;
    e->word = -1;
    e->pos = W.action_count;           /* of the action that is being made */
    return e;
}

static act_kind pick_act(const timeline *line, int finale) {
    if (!W.fail_percent || !chance(finale ? 50 : 20)) {
        return ACT_SET;
    }
    return (line->is_private || finale) && chance(60) ? ACT_DESTROY : ACT_FAIL;
}

/* The host moves a gate. The last move of some gates is left to the finale; a
   signal is destroyed only after everything that names it is issued. */
static void generate_gate(uint32_t signal, int finale) {
    timeline *line = &W.lines[signal];
    act_kind act = pick_act(line, finale);
    event *e = add_event(signal, act, -1, -1);
    e->result = act == ACT_FAIL ? pick_failure() : HCQ_ERROR_CANCELLED;
    e->end.mask = act == ACT_SET ? 0 : bit_of(e->result);
    e->end.is_late = finale;
    e->end.may_be_late = finale || act == ACT_DESTROY;
    line->finale = finale;
    line->last = act != ACT_SET || finale;
    if (finale || act == ACT_DESTROY) {
        e->pos = NEVER;
    } else {
        add_action(act, signal, line->count - 1);
    }
}

static void generate_destroys(void) {
    for (uint32_t i = 0; i < GATES; i++) {
        const timeline *line = &W.lines[i];
        if (line->last && !line->finale && line->events[line->count - 1].act == ACT_DESTROY) {
            add_action(ACT_DESTROY, i, line->count - 1);
        }
    }
}

/* Failures and lateness spread: only some of them are let in. */
static int acceptable(const sub *s, const target *t) {
    outcome o = outcome_of(t);
    if (o.mask && !chance(15)) {
        return 0;
    }
    return !o.may_be_late || (s->pos * 2 > SUBS / 2 && chance(25));
}

static int pick_event(const sub *s, target *t) {
    uint32_t signal = pick(SIGNALS);
    const timeline *line = &W.lines[signal];
    if (!line->count || (line->is_private && line->thread != s->thread)) {
        return 0;
    }
    t->kind = ON_EVENT;
    t->signal = signal;
    t->event = chance(60) ? line->count - 1 : pick(line->count);
    const event *e = &line->events[t->event];
    uint64_t low = t->event ? e[-1].value : 0;
    t->value = low + 1 + pick((uint32_t)(e->value - low));
    return 1;
}

static int pick_sub(const sub *s, target *t) {
    uint32_t index = pick(W.sub_count ? W.sub_count : 1);
    sub *other = &W.subs[index];
    if (other >= s || other->thread != s->thread) {
        return 0;
    }
    t->kind = ON_SUB;
    t->sub = index;
    return 1;
}

/* Something before this submission; 0 = nothing suitable was found. */
static int pick_target(const sub *s, target *t) {
    for (int tries = 0; tries < 6; tries++) {
        memset(t, 0, sizeof *t);
        if ((chance(20) ? pick_sub(s, t) : pick_event(s, t)) && acceptable(s, t)) {
            if (t->kind == ON_SUB) {
                W.subs[t->sub].wants_point = 1;
            }
            return 1;
        }
    }
    return 0;
}

/* Queues of one submission may wait for each other, in the middle. Where two of
   them are on one lane only for those before them, as the lane runs in list
   order, and not for the finale, which would make the others late, too. */
static int suits(const sub *s, uint32_t k, const target *t) {
    const event *e = t->kind == ON_EVENT ? &W.lines[t->signal].events[t->event] : NULL;
    int shared = 0;
    for (uint32_t i = 0; i < s->part_count; i++) {
        shared |= s->parts[i].shares_lane;
    }
    if (!shared) {
        return 1;
    }
    return !outcome_of(t).may_be_late &&
           !(e && e->sub == (int)(s - W.subs) && e->part > (int)k);
}

/* The state of a submission while it is made. */
typedef struct making {
    sub *s;
    outcome start, states[QUEUES];
    int word[QUEUES];                  /* last written by the part */
    int seen[QUEUES];                  /* written by those who were waited for */
    uint32_t seen_device[QUEUES];
} making;

static command *add_command(making *m, uint32_t k, command_kind kind) {
    part *p = &m->s->parts[k];
    command *c = &p->commands[p->count];
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->word = ((uint32_t)(m->s - W.subs) * QUEUES + k) * COMMANDS + p->count;
    c->value = 1 + pick(1u << 20);
    c->source = -1;
    p->count++;
    m->s->order[m->s->order_count++] = (uint8_t)k;
    W.commands++;
    return c;
}

static void note_gate(sub *s, const target *t) {
    const timeline *line = t->kind == ON_EVENT ? &W.lines[t->signal] : NULL;
    if (line && line->finale && t->event == line->count - 1) {
        s->busy_gate = (int)t->signal;
    }
}

static void see(making *m, uint32_t k, const target *t) {
    const event *e = t->kind == ON_EVENT ? &W.lines[t->signal].events[t->event] : NULL;
    if (e && e->word >= 0 && e->end.mask == 0) {
        m->seen[k] = e->word;
        m->seen_device[k] = e->word_device;
    }
}

static void make_wait(making *m, uint32_t k, const target *t) {
    command *c = add_command(m, k, DO_WAIT);
    c->wait = *t;
    join(&m->states[k], outcome_of(t));
    see(m, k, t);
    note_gate(m->s, t);
}

/* The next raise of a signal follows the one before: after it in the same
   queue, or after a wait for it, at which the queue cannot have failed yet. */
static int follows(const making *m, int k, const timeline *line) {
    if (line->count == 0) {
        return 1;
    }
    const event *e = &line->events[line->count - 1];
    return k >= 0 && e->sub == (int)(m->s - W.subs) && e->part == k;
}

static void make_signal_command(making *m, uint32_t k) {
    uint32_t signal = GATES + pick(SIGNALS - GATES);
    timeline *line = &W.lines[signal];
    part *p = &m->s->parts[k];
    if (line->count >= EVENTS) {
        return;
    }
    if (!follows(m, (int)k, line)) {
        const event *last = &line->events[line->count - 1];
        target t = {ON_EVENT, signal, line->count - 1, 0, last->value};
        if (last->end.mask || last->end.may_be_late || m->states[k].mask ||
            p->count + 2 > COMMANDS || !suits(m->s, k, &t)) {
            return;
        }
        make_wait(m, k, &t);
    }
    command *c = add_command(m, k, DO_SIGNAL);
    event *e = add_event(signal, ACT_SUBMIT, (int)(m->s - W.subs), (int)k);
    c->signal = signal;
    c->event = line->count - 1;
    e->end = m->states[k];
    e->word = m->word[k];
    e->word_device = m->s->device;
}

static void make_work(making *m, uint32_t k) {
    part *p = &m->s->parts[k];
    int copy = p->kind == HCQ_COPY;
    int can_read = m->seen[k] >= 0 && (W.mapped || m->seen_device[k] == m->s->device);
    int lane = !m->s->unordered && !p->shares_lane && chance(30);
    command *c = add_command(m, k, lane ? DO_LANE : DO_WRITE);
    if (!lane && can_read && chance(70)) {
        c->kind = copy || chance(40) ? DO_COPY : DO_MIX;
        c->source = m->seen[k];
        c->source_device = m->seen_device[k];
    }
    if (!lane && !m->states[k].mask) {
        m->word[k] = (int)c->word;
    }
}

static void make_host(making *m, uint32_t k) {
    command *c = add_command(m, k, W.on_cpu && chance(40) ? DO_CUSTOM : DO_HOST);
    if (chance(W.fail_percent)) {
        c->result = pick_failure();
        m->states[k].mask |= m->states[k].mask ? 0 : bit_of(HCQ_ERROR_HOST);
    }
}

static void make_command(making *m, uint32_t k) {
    target t;
    uint32_t way = pick(100);
    if (m->s->parts[k].count >= COMMANDS - 1) {
        return;
    }
    if (way < 25) {
        if (pick_target(m->s, &t) && suits(m->s, k, &t)) {
            make_wait(m, k, &t);
        }
    } else if (way < 50) {
        make_signal_command(m, k);
    } else if (way < 58) {
        make_host(m, k);
    } else {
        make_work(m, k);
    }
}

static void make_list_waits(making *m) {
    sub *s = m->s;
    uint32_t count = chance(50) ? 0 : 1 + pick(LIST - 1);
    for (uint32_t i = 0; i < count; i++) {
        target *t = &s->waits[s->wait_count];
        if (pick_target(s, t)) {
            s->wait_count++;
            join(&m->start, outcome_of(t));
            note_gate(s, t);
            for (uint32_t k = 0; k < s->part_count; k++) {
                see(m, k, t);
            }
        }
    }
}

/* Waits with no command between them may fail in any order. */
static int first_waits_fail(const sub *s) {
    for (uint32_t k = 0; k < s->part_count; k++) {
        const command *c = s->parts[k].commands;
        for (uint32_t i = 0; i < s->parts[k].count && c[i].kind == DO_WAIT; i++) {
            if (outcome_of(&c[i].wait).mask) {
                return 1;
            }
        }
    }
    return 0;
}

/* The wait for the raise before goes into the list, beside waits that succeed. */
static void make_list_signals(making *m) {
    sub *s = m->s;
    uint32_t signal = GATES + pick(SIGNALS - GATES);
    timeline *line = &W.lines[signal];
    if (line->count >= EVENTS || chance(40)) {
        return;
    }
    if (!follows(m, -1, line)) {
        const event *last = &line->events[line->count - 1];
        target t = {ON_EVENT, signal, line->count - 1, 0, last->value};
        if (last->sub == (int)(s - W.subs) || last->end.mask || last->end.may_be_late ||
            m->start.mask || first_waits_fail(s) || s->wait_count == LIST) {
            return;
        }
        s->waits[s->wait_count++] = t;
    }
    event *e = add_event(signal, ACT_SUBMIT, (int)(s - W.subs), -1);
    s->signals[s->signal_count].signal = signal;
    s->signals[s->signal_count].event = line->count - 1;
    s->signal_count++;
    e->end = m->start;
    for (uint32_t k = 0; k < s->part_count; k++) {
        join(&e->end, m->states[k]);
        e->word = m->word[k] >= 0 ? m->word[k] : e->word;
    }
    e->word_device = s->device;
}

static void make_parts(sub *s) {
    s->part_count = chance(10) ? 0 : chance(75) ? 1 : 2 + pick(QUEUES - 1);
    for (uint32_t k = 0; k < s->part_count; k++) {
        s->parts[k].kind = chance(50) ? HCQ_COMPUTE : HCQ_COPY;
        for (uint32_t i = 0; i < k; i++) {
            if (s->parts[i].kind == s->parts[k].kind) {
                s->parts[i].shares_lane = s->parts[k].shares_lane = 1;
            }
        }
    }
}

/* Ordered submissions of a group come from one thread: that is their order. */
static void make_place(sub *s) {
    s->device = pick(2);
    s->unordered = chance(35);
    s->affinity = s->unordered && chance(30) ? HCQ_ANY_LANE : pick(7);
    s->group = s->device * 2 + (uint32_t)(s->affinity % 2);
    s->thread = s->unordered ? pick(W.thread_count) : W.owner[s->group];
    s->busy_gate = -1;
}

static void generate_sub(void) {
    making m;
    sub *s = &W.subs[W.sub_count];
    memset(s, 0, sizeof *s);
    memset(&m, 0, sizeof m);
    m.s = s;
    s->pos = W.action_count;
    make_place(s);
    make_parts(s);
    memset(m.seen, -1, sizeof m.seen);
    memset(m.word, -1, sizeof m.word);
    m.start.may_be_late = !s->unordered && W.group_may_be_late[s->group];
    make_list_waits(&m);
    for (uint32_t k = 0; k < s->part_count; k++) {
        m.states[k] = m.start;
    }
    uint32_t count = s->part_count ? s->part_count * (2 + pick(COMMANDS - 2)) : 0;
    for (uint32_t i = 0; i < count; i++) {
        make_command(&m, pick(s->part_count));
    }
    make_list_signals(&m);
    s->end = m.start;
    for (uint32_t k = 0; k < s->part_count; k++) {
        join(&s->end, m.states[k]);
    }
    if (!s->unordered) {
        W.group_may_be_late[s->group] |= s->end.may_be_late;
    }
    W.sub_count++;
    add_action(ACT_SUBMIT, W.sub_count - 1, 0);
}

/* Signals are used again: back to 0, which only works if nothing is pending. */
static void generate_signals(void) {
    for (uint32_t i = 0; i < SIGNALS; i++) {
        timeline *line = &W.lines[i];
        if (line->closed || !line->signal.id) {
            MUST(hcq_signal_create(W.devices[pick(2)], 0, &line->signal));
        } else {
            MUST(hcq_signal_reset(line->signal, 0));
        }
        line->count = 0;
        line->closed = 0;
        line->finale = line->last = 0;
        line->thread = pick(W.thread_count);
        line->is_private = i < GATES && chance(30);
    }
}

static void generate_round(void) {
    uint32_t count = 10 + pick(SUBS - 10 + 1);
    W.sub_count = W.action_count = 0;
    W.after_finale = 0;
    W.thread_count = 1 + pick(THREADS);
    W.fail_percent = chance(60) ? 30 : 0;
    int late = chance(60);
    memset(W.group_may_be_late, 0, sizeof W.group_may_be_late);
    for (uint32_t i = 0; i < GROUPS; i++) {
        W.owner[i] = pick(W.thread_count);
    }
    generate_signals();
    while (W.sub_count < count) {
        uint32_t gate = pick(GATES);
        const timeline *line = &W.lines[gate];
        if (chance(15) && line->count < EVENTS && !line->last) {
            generate_gate(gate, late && line->count > 0 && chance(30));
        } else {
            generate_sub();
        }
    }
    generate_destroys();
    model_round();
}

/* ---- the order in which threads issue ---- */

static int names_signal(const sub *s, uint32_t signal) {
    for (uint32_t i = 0; i < s->wait_count; i++) {
        if (s->waits[i].kind == ON_EVENT && s->waits[i].signal == signal) {
            return 1;
        }
    }
    for (uint32_t k = 0; k < s->part_count; k++) {
        for (uint32_t i = 0; i < s->parts[k].count; i++) {
            const command *c = &s->parts[k].commands[i];
            if (c->kind == DO_WAIT && c->wait.kind == ON_EVENT && c->wait.signal == signal) {
                return 1;
            }
        }
    }
    return 0;
}

static int waits_for_sub(const sub *s, uint32_t index) {
    for (uint32_t i = 0; i < s->wait_count; i++) {
        if (s->waits[i].kind == ON_SUB && s->waits[i].sub == index) {
            return 1;
        }
    }
    for (uint32_t k = 0; k < s->part_count; k++) {
        for (uint32_t i = 0; i < s->parts[k].count; i++) {
            const command *c = &s->parts[k].commands[i];
            if (c->kind == DO_WAIT && c->wait.kind == ON_SUB && c->wait.sub == index) {
                return 1;
            }
        }
    }
    return 0;
}

/* Must `a`, the earlier one, be issued before `b`? Else waits come first. */
static int before(const action *a, const action *b) {
    if (a->kind == ACT_SUBMIT && b->kind == ACT_SUBMIT) {
        const sub *first = &W.subs[a->index], *second = &W.subs[b->index];
        int ordered = !first->unordered && !second->unordered && first->group == second->group;
        return ordered || waits_for_sub(second, a->index);
    }
    if (a->kind != ACT_SUBMIT && b->kind != ACT_SUBMIT) {
        return a->index == b->index;
    }
    return b->kind == ACT_DESTROY && names_signal(&W.subs[a->index], b->index);
}

static uint32_t thread_of(const action *a) {
    return a->kind == ACT_SUBMIT ? W.subs[a->index].thread : W.lines[a->index].thread;
}

/* Takes the actions of one thread in another order: each time one of the first
   few that are left, unless one before it has to come first. */
static void shuffle(actor *me, action *own, uint32_t count) {
    uint32_t window = 1 + pick(chance(50) ? 24 : 4);
    me->count = 0;
    while (count) {
        uint32_t chosen = pick(count < window ? count : window);
        for (uint32_t i = 0; i < chosen;) {
            if (before(&own[i], &own[chosen])) {
                chosen = i;            /* and what must come before that one? */
                i = 0;
            } else {
                i++;
            }
        }
        me->actions[me->count++] = own[chosen];
        count--;
        memmove(&own[chosen], &own[chosen + 1], (count - chosen) * sizeof *own);
    }
    me->lowest[me->count] = NEVER;
    for (uint32_t i = me->count; i > 0; i--) {
        uint32_t pos = me->actions[i - 1].pos;
        me->lowest[i - 1] = pos < me->lowest[i] ? pos : me->lowest[i];
    }
}

static void deal(void) {
    static action own[ACTIONS];
    for (uint32_t t = 0; t < W.thread_count; t++) {
        actor *me = &W.actors[t];
        uint32_t count = 0;
        for (uint32_t i = 0; i < W.action_count; i++) {
            if (thread_of(&W.actions[i]) == t) {
                own[count++] = W.actions[i];
            }
        }
        me->world = &W;
        me->index = t;
        me->random = test_random(&W.random);
        me->at = 0;
        me->note_count = 0;
        memset(me->seen, 0, sizeof me->seen);
        shuffle(me, own, count);
    }
}

/* ---- recording and submitting ---- */

static hcq_point point_of(const target *t) {
    return t->kind == ON_SUB ? W.subs[t->sub].point : hcq_at(W.lines[t->signal].signal, t->value);
}

static hcq_result host_run(void *user) {
    struct host_call *call = (struct host_call *)user;
    __atomic_add_fetch(&call->world->calls[call->word], 1, __ATOMIC_RELAXED);
    return call->result;
}

static hcq_result custom_run(void *native, const void *payload, void *user) {
    struct host_call *call;
    (void)native;
    (void)user;
    memcpy(&call, payload, sizeof call);
    return host_run(call);
}

static const hcq_custom_type custom_type = {
    .label = "mark", .payload_size = sizeof(struct host_call *), .encode = {{"CPU", custom_run}}};

static void record_lane(hcq_queue *q, const sub *s, const part *p, const command *c) {
    uint64_t word = WORD_LANES + (uint64_t)p->kind * 2 + s->affinity % 2;
    hcq_buffer words = W.words[s->device];
    mix_args args = {words.address + word * 4, words.address + WORD_ZERO * 4, 1, c->value};
    if (p->kind == HCQ_COPY) {
        MUST_RECORD(hcq_queue_write(q, hcq_view(words, word * 4, 4), c->value, 4));
    } else {
        MUST_RECORD(hcq_queue_exec(q, W.mix[s->device], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)));
    }
}

static void record_host(hcq_queue *q, const command *c) {
    struct host_call *call = &W.hosts[c->word];
    call->world = &W;
    call->word = c->word;
    call->result = c->result;
    if (c->kind == DO_CUSTOM) {
        MUST_RECORD(hcq_queue_custom(q, &custom_type, &call));
    } else {
        MUST_RECORD(hcq_queue_host(q, host_run, call));
    }
}

static void record_command(hcq_queue *q, const sub *s, const part *p, const command *c) {
    hcq_buffer words = W.words[s->device], from = W.words[c->source_device];
    uint64_t source = c->source < 0 ? 0 : (uint64_t)c->source * 4;
    mix_args args = {words.address + c->word * 4, from.address + source, 1, c->value};
    switch (c->kind) {
    case DO_WAIT:
        MUST_RECORD(hcq_queue_wait(q, point_of(&c->wait)));
        break;
    case DO_SIGNAL:
        MUST_RECORD(hcq_queue_signal(q, hcq_at(W.lines[c->signal].signal,
                                               W.lines[c->signal].events[c->event].value)));
        break;
    case DO_WRITE:
        MUST_RECORD(hcq_queue_write(q, hcq_view(words, c->word * 4, 4), c->value, 4));
        break;
    case DO_COPY:
        MUST_RECORD(hcq_queue_copy(q, hcq_view(words, c->word * 4, 4),
                                   hcq_view(from, source, 4), 4));
        break;
    case DO_MIX:
        MUST_RECORD(hcq_queue_exec(q, W.mix[s->device], &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)));
        break;
    case DO_LANE:
        record_lane(q, s, p, c);
        break;
    default:
        record_host(q, c);
        break;
    }
}

static hcq_queue *record_part(actor *me, const sub *s, uint32_t k) {
    const part *p = &s->parts[k];
    hcq_queue **q = &me->queues[s->device][p->kind][k];
    if (*q && pick_from(&me->random, 8) == 0) { /* also while it is pending */
        hcq_queue_destroy(*q);
        *q = NULL;
    }
    if (*q) {
        MUST(hcq_queue_reset(*q));
    } else {
        MUST(hcq_queue_create(W.devices[s->device], p->kind, q));
    }
    for (uint32_t i = 0; i < p->count; i++) {
        record_command(*q, s, p, &p->commands[i]);
    }
    if (pick_from(&me->random, 10) == 0) {
        MUST(hcq_queue_bind(*q, W.devices[s->device]));
    }
    return *q;
}

/* An hcq_submission and the lists it points to. */
typedef struct package {
    hcq_submission submission;
    hcq_point waits[LIST], signals[LIST];
    hcq_queue *queues[QUEUES];
} package;

static void pack(actor *me, const sub *s, package *out) {
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < s->wait_count; i++) {
        out->waits[i] = point_of(&s->waits[i]);
    }
    for (uint32_t i = 0; i < s->signal_count; i++) {
        const timeline *line = &W.lines[s->signals[i].signal];
        out->signals[i] = hcq_at(line->signal, line->events[s->signals[i].event].value);
    }
    for (uint32_t k = 0; k < s->part_count; k++) {
        out->queues[k] = record_part(me, s, k);
    }
    out->submission.waits = out->waits;
    out->submission.wait_count = s->wait_count;
    out->submission.signals = out->signals;
    out->submission.signal_count = s->signal_count;
    out->submission.queues = out->queues;
    out->submission.queue_count = s->part_count;
    out->submission.affinity = s->affinity;
    out->submission.flags = s->unordered ? HCQ_UNORDERED : 0;
}

/* The next action, if it can go into the same call as this one. */
static const sub *companion(actor *me, const sub *s) {
    if (s->wants_point || me->at + 1 >= me->count || pick_from(&me->random, 4)) {
        return NULL;
    }
    const action *next = &me->actions[me->at + 1];
    const sub *other = next->kind == ACT_SUBMIT ? &W.subs[next->index] : NULL;
    if (!other || other->device != s->device) {
        return NULL;
    }
    for (uint32_t i = 0; i < other->part_count; i++) {
        for (uint32_t k = 0; k < s->part_count; k++) {
            if (i == k && other->parts[i].kind == s->parts[k].kind) {
                return NULL;           /* they would record the same queue */
            }
        }
    }
    return other;
}

static void publish(sub *s, uint32_t how) {
    __atomic_store_n(&s->issued, how, __ATOMIC_RELEASE);
}

static void submit_one(actor *me, sub *s) {
    package packages[2];
    hcq_submission list[2];
    hcq_device *device = W.devices[s->device];
    sub *last = s;
    uint32_t count = 1;
    pack(me, s, &packages[0]);
    list[0] = packages[0].submission;
    const sub *other = companion(me, s);
    if (other) {
        pack(me, other, &packages[1]);
        list[count++] = packages[1].submission;
        last = &W.subs[other - W.subs];
        me->at++;
        publish(s, 2);
    }
    if (pick_from(&me->random, 12) == 0) {
        target t = {ON_SUB, 0, 0, (uint32_t)(last - W.subs), 0};
        uint64_t timeout = pick_from(&me->random, 2) ? 0 : pick_from(&me->random, 100000);
        hcq_result r = hcq_submit_and_wait(device, list, count, timeout, &last->point);
        check_allowed("submit_and_wait", &t, r);
    } else {
        MUST(hcq_submit(device, list, count, &last->point));
    }
    publish(last, 1);
}

static void move_signal(uint32_t signal, const event *e) {
    timeline *line = &W.lines[signal];
    switch (e->act) {
    case ACT_SET:
        MUST(hcq_signal_set(line->signal, e->value));
        break;
    case ACT_FAIL:
        MUST(hcq_signal_fail(line->signal, e->result));
        break;
    default:
        MUST(hcq_signal_destroy(line->signal));
        line->closed = 1;
        break;
    }
}

/* ---- looking on: everything a thread may ask at any time ---- */

/* Something that can be named now by this thread. */
static int look_target(actor *me, target *t) {
    memset(t, 0, sizeof *t);
    if (pick_from(&me->random, 2)) {
        t->kind = ON_SUB;
        t->sub = pick_from(&me->random, W.sub_count);
        return __atomic_load_n(&W.subs[t->sub].issued, __ATOMIC_ACQUIRE) == 1;
    }
    t->signal = pick_from(&me->random, SIGNALS);
    const timeline *line = &W.lines[t->signal];
    if (!line->count || (line->is_private && (line->thread != me->index || line->closed))) {
        return 0;
    }
    t->event = pick_from(&me->random, line->count);
    t->value = line->events[t->event].value;
    return 1;
}

static uint64_t short_timeout(actor *me) {
    uint64_t timeout = pick_from(&me->random, 200000);
    switch (pick_from(&me->random, 3)) {
    case 0: return 0;
    case 1: return timeout;
    default: return HCQ_DEADLINE(hcq_sys_now_ns() + timeout);
    }
}

static void look_one(actor *me) {
    target t;
    if (look_target(me, &t)) {
        hcq_point p = point_of(&t);
        check_allowed("a short wait", &t, hcq_wait(&p, 1, HCQ_ALL, short_timeout(me)));
    }
}

/* ALL and ANY over a few points. */
static void look_many(actor *me) {
    enum { MANY = 6 };
    target t[MANY];
    hcq_point points[MANY];
    uint32_t count = 0, masks = 0, reachable = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        if (look_target(me, &t[count])) {
            outcome o = outcome_of(&t[count]);
            masks |= o.mask;
            reachable += allowed(&t[count], HCQ_OK) != 0;
            points[count] = point_of(&t[count]);
            count++;
        }
    }
    hcq_wait_mode mode = pick_from(&me->random, 2) ? HCQ_ALL : HCQ_ANY;
    hcq_result r = hcq_wait(points, count, mode, short_timeout(me));
    int fine = r == HCQ_TIMEOUT || ((int)r < 0 && (masks & bit_of(r)));
    if (r == HCQ_OK) {
        fine = mode == HCQ_ALL ? reachable == count : reachable > 0 || count == 0;
    }
    if (!fine) {
        wrong("a wait for %s of %u points, of which %u can be reached, gives %s",
              mode == HCQ_ALL ? "all" : "any", count, reachable, hcq_result_name(r));
    }
}

/* Waits long, but only for what nobody who waits could hold up: everything
   before that point is issued or belongs to threads that are not beyond it. */
static void look_long(actor *me) {
    target t;
    if (!look_target(me, &t) || pos_of(&t) >= me->lowest[me->at] || outcome_of(&t).may_be_late) {
        return;
    }
    hcq_point p = point_of(&t);
    hcq_result r = hcq_wait(&p, 1, HCQ_ALL, BOUND * (TEST_SANITIZED ? 10 : 2));
    check_allowed("a long wait", &t, r);
    if (r == HCQ_TIMEOUT) {
        char text[128];
        describe(text, sizeof text, &t);
        wrong("a long wait for %s times out", text);
    }
}

static void look_explain(actor *me) {
    target t;
    hcq_point points[3];
    uint32_t count = 0;
    while (count < 3 && look_target(me, &t)) {
        points[count++] = point_of(&t);
    }
    uint32_t size = 1 + pick_from(&me->random, TEXT - 1);
    memset(me->text, 'x', size);
    size_t length = hcq_explain(points, count, me->text, size);
    if (memchr(me->text, 0, size) == NULL || (length < size && strlen(me->text) != length)) {
        wrong("hcq_explain of %u points, %u bytes: length %zu", count, size, length);
    }
}

/* A note runs when its point has an answer, so asking gives one. */
static void note_run(void *user, hcq_result result) {
    note *n = (note *)user;
    hcq_result now = hcq_wait(&n->point, 1, HCQ_ALL, 0);
    if (now != result && now != HCQ_ERROR_CLOSED) {
        __atomic_add_fetch(&n->bad_poll, 1, __ATOMIC_RELAXED);
    }
    n->result = result;
    __atomic_add_fetch(&n->calls, 1, __ATOMIC_RELEASE);
}

static void look_notify(actor *me) {
    note *n = &me->notes[me->note_count];
    if (me->note_count == NOTES || !look_target(me, &n->on)) {
        return;
    }
    me->note_count++;
    n->world = &W;
    n->calls = n->bad_poll = 0;
    n->cancelled = 0;
    n->fd = -1;
    n->point = point_of(&n->on);
    if (pick_from(&me->random, 8) == 0) {
        MUST(hcq_notify_handle(n->point, &n->fd, &n->handle));
    } else {
        MUST(hcq_notify(n->point, note_run, n, &n->handle));
    }
}

static void look_cancel(actor *me) {
    note *n = &me->notes[pick_from(&me->random, me->note_count ? me->note_count : 1)];
    if (!me->note_count || n->cancelled) {
        return;
    }
    hcq_result r = hcq_notify_cancel(n->handle);
    if (r == HCQ_OK) {
        n->cancelled = 1;
    } else if (r != HCQ_ERROR_CLOSED) {
        wrong("hcq_notify_cancel gives %s", hcq_result_name(r));
    }
}

static void look_value(actor *me) {
    uint32_t signal = pick_from(&me->random, SIGNALS);
    const timeline *line = &W.lines[signal];
    uint64_t value = 0;
    if (line->is_private && (line->thread != me->index || line->closed)) {
        return;
    }
    hcq_result r = hcq_signal_value(line->signal, &value);
    uint64_t most = line->count ? line->events[line->count - 1].value : 0;
    if (value < me->seen[signal] || value > most || (r != HCQ_OK && (int)r > 0)) {
        wrong("signal %u is at %llu (%s), was at %llu, may be at %llu", signal,
              (unsigned long long)value, hcq_result_name(r),
              (unsigned long long)me->seen[signal], (unsigned long long)most);
    }
    me->seen[signal] = value;
}

/* A gate that work of this thread surely waits for cannot be reset. */
static void look_reset(actor *me) {
    const sub *s = &W.subs[pick_from(&me->random, W.sub_count)];
    if (s->thread != me->index || !__atomic_load_n(&s->issued, __ATOMIC_ACQUIRE) ||
        s->busy_gate < 0 || s->end.mask) {
        return;
    }
    hcq_result r = hcq_signal_reset(W.lines[s->busy_gate].signal, 0);
    if (r != HCQ_ERROR_BUSY) {
        wrong("submission %u waits for gate %d, whose reset gives %s", (unsigned)(s - W.subs),
              s->busy_gate, hcq_result_name(r));
    }
}

static void look(actor *me) {
    uint32_t way = pick_from(&me->random, 64);
    if (way < 10) {
        look_one(me);
    } else if (way < 14) {
        look_many(me);
    } else if (way < 17) {
        look_long(me);
    } else if (way < 19) {
        look_explain(me);
    } else if (way < 25) {
        look_notify(me);
    } else if (way < 28) {
        look_cancel(me);
    } else if (way < 31) {
        look_value(me);
    } else if (way < 33) {
        look_reset(me);
    } else if (way == 33) {
        hcq_device_dump(W.devices[pick_from(&me->random, 2)], me->text, TEXT);
    }
    progress();
}

static void *actor_run(void *user) {
    actor *me = (actor *)user;
    for (me->at = 0; me->at < me->count; me->at++) {
        const action *a = &me->actions[me->at];
        look(me);
        if (a->kind == ACT_SUBMIT) {
            submit_one(me, &W.subs[a->index]);
        } else {
            move_signal(a->index, &W.lines[a->index].events[a->event]);
        }
    }
    for (int i = 0; i < 8; i++) {
        look(me);
    }
    return NULL;
}

/* ---- the end of a round ---- */

/* What depends on the finale is not there. */
static void check_unmet(void) {
    for (uint32_t i = 0; i < W.sub_count; i++) {
        target t = {ON_SUB, 0, 0, i, 0};
        if (W.subs[i].issued == 1) {
            check_allowed("before the finale, a poll", &t, test_poll(W.subs[i].point));
        }
    }
}

/* The last gates, in any order; others may be destroyed while raises of them
   are pending, which still count. */
static void finale(void) {
    uint32_t first = pick(SIGNALS), step = 1 + 2 * pick(SIGNALS / 2);
    W.after_finale = 1;
    for (uint32_t i = 0; i < SIGNALS; i++) {
        uint32_t signal = (first + i * step) % SIGNALS;
        timeline *line = &W.lines[signal];
        if (line->finale) {
            move_signal(signal, &line->events[line->count - 1]);
        } else if (!line->closed && chance(3)) {
            MUST(hcq_signal_destroy(line->signal));
            line->closed = 1;
        }
    }
}

/* Behind everything, on both devices, also behind what failed. */
static void wait_for_devices(void) {
    hcq_queue *q = NULL;
    hcq_point done;
    uint32_t d = pick(2);
    MUST(hcq_queue_create(W.devices[d], HCQ_COMPUTE, &q));
    MUST_RECORD(hcq_queue_wait_device(q, W.devices[0]));
    MUST_RECORD(hcq_queue_wait_device(q, W.devices[1]));
    MUST(hcq_queue_submit(q, W.devices[d], &done));
    hcq_queue_destroy(q);
    MUST(hcq_wait(&done, 1, HCQ_ALL, BOUND * (TEST_SANITIZED ? 10 : 2)));
    for (d = 0; d < 2; d++) {
        uint64_t value = 0, pending = 0;
        MUST(hcq_device_synchronize(W.devices[d], BOUND));
        MUST(hcq_signal_value(hcq_device_timeline(W.devices[d]), &value));
        MUST(hcq_device_query(W.devices[d], HCQ_QUERY_PENDING, &pending));
        if (pending || value + 1 != hcq_device_timeline_value(W.devices[d])) {
            wrong("device %u: %llu pending, timeline at %llu, next %llu", d,
                  (unsigned long long)pending, (unsigned long long)value,
                  (unsigned long long)hcq_device_timeline_value(W.devices[d]));
        }
    }
}

static void check_exact(const char *what, const target *t, hcq_result result) {
    check_allowed(what, t, result);
    if (result == HCQ_TIMEOUT) {
        char text[128];
        describe(text, sizeof text, t);
        wrong("%s of %s: not even at the end", what, text);
    }
}

static void check_points(void) {
    for (uint32_t i = 0; i < W.sub_count; i++) {
        target t = {ON_SUB, 0, 0, i, 0};
        if (W.subs[i].issued == 1) {
            check_exact("at the end, a poll", &t, test_poll(W.subs[i].point));
        }
    }
    for (uint32_t i = 0; i < SIGNALS; i++) {
        timeline *line = &W.lines[i];
        uint64_t value = 0, want = 0;
        for (uint32_t e = 0; e < line->count && !line->closed; e++) {
            target t = {ON_EVENT, i, e, 0, line->events[e].value};
            check_exact("at the end, a poll", &t, test_poll(hcq_at(line->signal, t.value)));
            want = line->events[e].end.mask ? want : t.value;
        }
        if (!line->closed) {
            (void)hcq_signal_value(line->signal, &value);
            if (value != want) {
                wrong("signal %u ends at %llu, not %llu", i, (unsigned long long)value,
                      (unsigned long long)want);
            }
        }
    }
}

static void check_note(note *n) {
    struct pollfd fd = {(int)n->fd, POLLIN, 0};
    uint32_t calls = 0;
    if (n->fd >= 0) {
        calls = poll(&fd, 1, n->cancelled ? 0 : 10000) == 1;
        close((int)n->fd);
    } else {
        uint64_t end = hcq_sys_now_ns() + BOUND;
        do {
            calls = __atomic_load_n(&n->calls, __ATOMIC_ACQUIRE);
        } while (!calls && !n->cancelled && hcq_sys_now_ns() < end);
    }
    if (calls != !n->cancelled || n->bad_poll) {
        wrong("a notification that was %scancelled ran %u times, %u polls in it differ",
              n->cancelled ? "" : "not ", calls, n->bad_poll);
    }
    if (calls && n->fd < 0) {
        check_exact("the notification", &n->on, (hcq_result)n->result);
    }
}

static void check_words(void) {
    for (uint32_t d = 0; d < 2; d++) {
        const uint32_t *got = (const uint32_t *)W.words[d].host;
        for (uint32_t i = 0; i < ALL_WORDS; i++) {
            if (got[i] != W.expected[d][i]) {
                wrong("device %u, word %u (submission %u) is %u, not %u", d, i,
                      i / (QUEUES * COMMANDS), got[i], W.expected[d][i]);
            }
        }
        memset(W.words[d].host, 0, ALL_WORDS * 4);
    }
    for (uint32_t i = 0; i < WORDS; i++) {
        if (W.calls[i] != W.want_calls[i]) {
            wrong("a host command of submission %u ran %u times, not %u",
                  i / (QUEUES * COMMANDS), W.calls[i], W.want_calls[i]);
        }
    }
    memset(W.calls, 0, sizeof W.calls);
}

static void run_round(void) {
    hcq_error_info error;
    generate_round();
    deal();
    for (uint32_t t = 1; t < W.thread_count; t++) {
        pthread_create(&W.actors[t].thread, NULL, actor_run, &W.actors[t]);
    }
    actor_run(&W.actors[0]);
    for (uint32_t t = 1; t < W.thread_count; t++) {
        pthread_join(W.actors[t].thread, NULL);
    }
    check_unmet();
    finale();
    wait_for_devices();
    check_points();
    for (uint32_t t = 0; t < W.thread_count; t++) {
        for (uint32_t i = 0; i < W.actors[t].note_count; i++) {
            check_note(&W.actors[t].notes[i]);
        }
    }
    check_words();
    for (uint32_t d = 0; d < 2; d++) {
        MUST(hcq_device_error(W.devices[d], &error));
    }
}

/* ---- devices ---- */

static hcq_device *open_lanes(uint32_t ordinal) {
    hcq_device_desc desc = test_desc();
    hcq_device_info info;
    desc.compute_lanes = desc.copy_lanes = 2;
    hcq_device *device = test_open(ordinal, &desc);
    MUST(hcq_device_info_get(device, &info));
    if (info.compute_lanes != 2 || info.copy_lanes != 2) {
        wrong("the model has two lanes of each kind, the device %u and %u", info.compute_lanes,
              info.copy_lanes);
    }
    W.mapped = (info.features & HCQ_FEATURE_MAP) != 0;
    return device;
}

static void world_open(void) {
    memset(&W, 0, sizeof W);
    W.random = T.seed * 0x9e3779b97f4a7c15ull + 1;
    W.on_cpu = is_cpu();
    W.devices[0] = T.dev = open_lanes(0);
    W.devices[1] = T.dev2 = open_lanes(1);
    for (uint32_t d = 0; d < 2; d++) {
        W.mix[d] = make_mix(W.devices[d]);
        MUST(hcq_alloc(W.devices[d], ALL_WORDS * 4, HCQ_ZEROED | HCQ_HOST_VISIBLE, &W.words[d]));
    }
}

static void forget_queues(void) {
    for (uint32_t t = 0; t < THREADS; t++) {
        for (uint32_t i = 0; i < 4 * QUEUES; i++) {
            hcq_queue **q = &W.actors[t].queues[i / (2 * QUEUES)][i / QUEUES % 2][i % QUEUES];
            hcq_queue_destroy(*q);
            *q = NULL;
        }
    }
}

static int world_close(void) {
    void *state = NULL;
    forget_queues();
    return test_teardown(&state);
}

/* ---- interrupted all the time ---- */

static struct {
    pthread_t victims[4], sender, copier;
    uint32_t victim_count;             /* set before the sender starts */
    uint32_t stop, copies, naps;       /* atomic */
    uint64_t interrupts;               /* atomic */
} E;

static void interrupted(int number) {
    (void)number;
    __atomic_add_fetch(&E.interrupts, 1, __ATOMIC_RELAXED);
}

/* Handlers without SA_RESTART: every sleep in the kernel ends with EINTR. */
static void handle(int number) {
    struct sigaction how;
    memset(&how, 0, sizeof how);
    how.sa_handler = interrupted;
    sigaction(number, &how, NULL);
}

static void *sender_run(void *user) {
    (void)user;
    while (!__atomic_load_n(&E.stop, __ATOMIC_ACQUIRE)) {
        for (uint32_t i = 0; i < E.victim_count; i++) {
            pthread_kill(E.victims[i], SIGUSR1);
        }
        mock_sleep(20000);
    }
    return NULL;
}

/* A wait that is interrupted neither ends early nor late. */
static void nap(hcq_signal never) {
    hcq_point point = hcq_at(never, 1);
    uint64_t start = hcq_sys_now_ns(), span = 2000000;
    hcq_result r = hcq_wait(&point, 1, HCQ_ALL, span);
    uint64_t took = hcq_sys_now_ns() - start;
    if (r != HCQ_TIMEOUT || took < span) {
        wrong("a wait of %llu ns gives %s after %llu ns", (unsigned long long)span,
              hcq_result_name(r), (unsigned long long)took);
    }
    start = hcq_sys_now_ns() + span;
    r = hcq_wait(&point, 1, HCQ_ALL, HCQ_DEADLINE(start));
    if (r != HCQ_TIMEOUT || hcq_sys_now_ns() < start) {
        wrong("a wait with a deadline gives %s", hcq_result_name(r));
    }
    __atomic_add_fetch(&E.naps, 1, __ATOMIC_RELAXED);
}

/* Eager copies of several batches, on a device of its own. */
static void *copier_run(void *user) {
    enum { SIZE = 1 << 20 };
    static unsigned char from[SIZE], to[SIZE];
    hcq_device *device = (hcq_device *)user;
    hcq_buffer buffer;
    hcq_signal never;
    MUST(hcq_alloc(device, SIZE, 0, &buffer));
    MUST(hcq_signal_create(device, 0, &never));
    for (uint32_t i = 0; !__atomic_load_n(&E.stop, __ATOMIC_ACQUIRE); i++) {
        memset(from, (int)(i & 255), SIZE);
        MUST(hcq_copyin(buffer, from, SIZE));
        MUST(hcq_copyout(to, buffer, SIZE));
        if (memcmp(from, to, SIZE)) {
            wrong("copy %u comes back changed", i);
        }
        MUST(hcq_device_synchronize(device, BOUND));
        nap(never);
        __atomic_add_fetch(&E.copies, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* The timer's signal goes to whichever thread the kernel likes, also to the
   library's own; the sender's to the threads that call the library. */
static void interrupt_start(hcq_device *device) {
    struct itimerval timer = {{0, 300}, {0, 300}};
    handle(SIGUSR1);
    handle(SIGALRM);
    pthread_create(&E.copier, NULL, copier_run, device);
    E.victims[0] = pthread_self();
    E.victims[1] = E.copier;
    E.victim_count = 2;
    pthread_create(&E.sender, NULL, sender_run, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void interrupt_stop(void) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    __atomic_store_n(&E.stop, 1, __ATOMIC_RELEASE);
    pthread_join(E.sender, NULL);
    pthread_join(E.copier, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- the tests ---- */

static struct {
    uint64_t commands;                 /* to record; 0 = the default */
    int signals;
    uint32_t kill;                     /* rounds */
} O;

static uint64_t default_commands(void) {
    uint64_t commands = O.commands ? O.commands : 200000;
    return !O.commands && (T.quick || TEST_SANITIZED) ? commands / 8 : commands;
}

static void random_timelines(void **state) {
    (void)state;
    uint64_t commands = default_commands();
    world_open();
    while (W.commands < commands) {
        run_round();
        R.round++;
        test_alive();
    }
    fprintf(stderr, "%llu commands in %llu rounds\n", (unsigned long long)W.commands,
            (unsigned long long)R.round);
    if (world_close() != 0) {
        fail();
    }
}

static void interrupted_timelines(void **state) {
    (void)state;
    uint64_t end = hcq_sys_now_ns() + (T.quick ? 2 : 6) * SECOND;
    world_open();
    hcq_device *device = test_open(2, NULL);
    interrupt_start(device);
    while (hcq_sys_now_ns() < end || E.naps < 10) {
        run_round();
        R.round++;
    }
    interrupt_stop();
    fprintf(stderr, "%llu rounds, %u copies, %llu interrupts\n", (unsigned long long)R.round,
            E.copies, (unsigned long long)E.interrupts);
    if (E.interrupts < 1000) {
        wrong("hardly anything was interrupted");
    }
    MUST(hcq_close(device));
    if (world_close() != 0) {
        fail();
    }
}

/* ---- killed in the middle ---- */

/* Names in a folder, each on a line. */
static void list_folder(const char *path, char *text, size_t size) {
    size_t used = 0;
    DIR *folder = opendir(path);
    text[0] = 0;
    for (struct dirent *d = folder ? readdir(folder) : NULL; d; d = readdir(folder)) {
        int n = snprintf(text + used, size - used, "%s\n", d->d_name);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
    if (folder) {
        closedir(folder);
    }
}

/* The System V objects of the machine. */
static void list_objects(char *text, size_t size) {
    static const char *const kinds[] = {"shm", "sem", "msg"};
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/sysvipc/%s", kinds[i]);
        FILE *file = fopen(path, "r");
        if (!file) {
            continue;
        }
        char line[256];
        while (fgets(line, sizeof line, file)) {
            long key = 0, id = -1;
            if (sscanf(line, "%ld %ld", &key, &id) == 2 && size - used > 64) {
                used += (size_t)snprintf(text + used, size - used, "%s %ld\n", kinds[i], id);
            }
        }
        fclose(file);
    }
    text[used] = 0;
}

typedef struct leftovers {
    char shared[16384], objects[16384];
} leftovers;

static void look_around(leftovers *l) {
    list_folder("/dev/shm", l->shared, sizeof l->shared);
    list_objects(l->objects, sizeof l->objects);
}

/* A line of `now` that is not in `was`: something new. */
static int has_new_line(const char *was, const char *now) {
    while (*now) {
        char line[300];
        size_t n = strcspn(now, "\n");
        snprintf(line, sizeof line, "%.*s\n", (int)(n < 290 ? n : 290), now);
        const char *found = strstr(was, line);
        if (!found || (found > was && found[-1] != '\n')) {
            fprintf(stderr, "new: %s", line);
            return 1;
        }
        now += n + 1;
    }
    return 0;
}

/* A process of its own group, in an empty folder that is also its TMPDIR. */
static pid_t start_child(const char *folder, const char *commands, uint64_t seed) {
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        if (chdir(folder) == 0 && freopen("/dev/null", "w", stdout)) {
            setenv("TMPDIR", folder, 1);
            execl("/proc/self/exe", "timelines", T.variant->name, "--seed", number, "--commands",
                  commands, (char *)NULL);
        }
        _exit(99);
    }
    if (child < 0) {
        wrong("fork: %s", strerror(errno));
    }
    setpgid(child, child);
    return child;
}

/* Nothing of the process group is left, no file, no object. Others use the
   machine, too: what is gone after a while was not ours. */
static void check_nothing_left(pid_t group, const char *folder, const leftovers *was) {
    static leftovers now;
    char files[4096];
    for (int tries = 0;; tries++) {
        look_around(&now);
        list_folder(folder, files, sizeof files);
        int gone = kill(-group, 0) != 0 && errno == ESRCH;
        int fresh = has_new_line(was->shared, now.shared) ||
                    has_new_line(was->objects, now.objects) || has_new_line(".\n..\n", files);
        if (gone && !fresh) {
            return;
        }
        if (tries == 50) {
            wrong("a killed process leaves %s", gone ? "something behind" : "a process behind");
        }
        test_sleep_ms(100);
    }
}

static void killed_at_random(void **state) {
    (void)state;
    static leftovers was;
    uint64_t random = T.seed;
    char folder[] = "/tmp/hcq-killed.XXXXXX";
    int status = 0;
    if (!mkdtemp(folder)) {
        wrong("mkdtemp: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < O.kill; i++) {
        look_around(&was);
        pid_t child = start_child(folder, "1000000000000", T.seed * 1000 + i);
        mock_sleep((long)pick_from(&random, 120000) * 1000); /* before, in and after start */
        kill(child, SIGKILL);
        if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) ||
            WTERMSIG(status) != SIGKILL) {
            wrong("process %u was not killed: status %#x", i, (unsigned)status);
        }
        check_nothing_left(child, folder, &was);
        progress();
    }
    look_around(&was);
    pid_t child = start_child(folder, "20000", T.seed); /* and the next one is fine */
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) {
        wrong("a process after %u killed ones ends with %#x", O.kill, (unsigned)status);
    }
    check_nothing_left(child, folder, &was);
    rmdir(folder);
}

/* Takes the options that only this program has. */
static int own_options(int argc, char **argv) {
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--commands") == 0) {
            O.commands = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--kill") == 0) {
            O.kill = (uint32_t)strtoul(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--signals") == 0) {
            O.signals = 1;
        } else {
            argv[kept++] = argv[i];
        }
    }
    return kept;
}

int main(int argc, char **argv) {
    static const struct CMUnitTest plain[] = {TEST_BARE(random_timelines)};
    static const struct CMUnitTest signals[] = {TEST_BARE(interrupted_timelines)};
    static const struct CMUnitTest killed[] = {TEST_BARE(killed_at_random)};
    argc = own_options(argc, argv);
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    watch("timelines", explain_all);
    if (O.kill) {
        return cmocka_run_group_tests_name(T.variant->name, killed, NULL, NULL);
    }
    if (O.signals) {
        return cmocka_run_group_tests_name(T.variant->name, signals, NULL, NULL);
    }
    return cmocka_run_group_tests_name(T.variant->name, plain, NULL, NULL);
}
