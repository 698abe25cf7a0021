/* answers.c - every answer of four threads against a model.

   answers [VARIANT] [SEED] [--seconds N] [--quick]
   answers [VARIANT] [SEED] --signals N   system calls are interrupted, N seconds

   Work never stops and failures are many, as an answer must not depend on how much
   else fails or is asked later. A thread makes batches of submissions for 2 devices
   with 3 lanes each. Each has waits and raises whose ends are known when it is made,
   as what the host is going to do to its gates (set, fail, destroy, close a device)
   is planned before anybody waits for it. So a claim, a point with the results that
   it may have, can be written down at once: most have one. Only what timing decides
   (raises that nothing orders, a gate that another thread fails) has more.

   With each claim stand the host's moves without which it cannot be reached and
   those after which it must be over. All threads ask for claims of all, soon or
   late: waits for one, all and any, notifications, timelines. An answer must be
   allowed, must not come before those moves nor stay out after them, and is the
   same for ever: at the end of a run each is asked once more, each command that had
   to run has left its word, and buffers hold what commands give one after another. */
#include "random.h"

#include "claims.h"
#include "hosts.h"
#include "data.h"
#include "batch.h"
#include "looks.h"
#include "disturbed.h"

static struct {                        /* 0: the default */
    uint32_t seconds, signals;
} O;

/* ---- a thread ---- */

/* Takes what is over off the list; 0 = too much is left. */
static int collect(actor *me) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < me->open_count; i++) {
        if (ask("a poll", me->subs[me->open[i]].own, 0, 0) == HCQ_TIMEOUT) {
            me->open[left++] = me->open[i];
        }
    }
    me->open_count = left;
    return left < OPEN;
}

/* Others make their moves, too: it gets less some time. */
static void throttle(actor *me) {
    uint64_t until = hcq_now_ns() + long_timeout();
    while (!collect(me)) {
        claim *own = me->subs[me->open[0]].own;
        if (!make_move(me, 0)) {
            ask("a wait for room", own, 1000000, hcq_now_ns() > until);
        }
    }
}

/* A draft that may be submitted now. */
static draft *pick_ready(actor *me) {
    for (uint32_t i = pick(me, me->draft_count);; i = (i + 1) % me->draft_count) {
        draft *d = &me->drafts[i];
        int ready = !d->submitted;
        for (uint32_t k = 0; k < me->draft_count; k++) {
            ready &= !(d->follows >> k & 1) || me->drafts[k].submitted;
        }
        if (ready) {
            return d;
        }
    }
}

static void run_batch(actor *me) {
    uint32_t count = 1 + pick(me, BATCH);
    me->draft_count = me->group_count = 0;
    me->first = me->sub_count;
    while (may_plan(me) && chance(me, 60)) {
        plan_gate(me);
    }
    while (me->draft_count < count) {
        make_draft(me);
    }
    if (chance(me, 30)) {
        make_group(me);
    }
    for (uint32_t left = count; left > 0; left--) {
        submit_draft(me, pick_ready(me));
        while (chance(me, 20) && make_move(me, 1)) { }
        look(me);
    }
    for (uint32_t i = 0; i < me->group_count; i++) {
        me->claims[me->group + i].look_only = 0;
    }
    me->first = me->sub_count;
    publish(me);
}

static void *actor_run(void *user) {
    actor *me = (actor *)user;
    while (me->sub_count + BATCH <= W.subs) {
        run_batch(me);
        if (!me->guest.device && may_plan(me) && chance(me, 1)) {
            open_guest(me);
            publish(me);
        }
        while (chance(me, 50) && make_move(me, 0)) { }
        look(me);
        if (me->open_count >= OPEN) {
            throttle(me);
        }
    }
    while (make_move(me, 0)) { }
    return NULL;
}

/* ---- the end of a run ---- */

static void check_claims(const char *how, uint64_t timeout) {
    uint32_t skip = pick(&W, 1000);
    for (uint32_t t = 0; t < THREADS; t++) {
        actor *me = &W.actors[(t + skip) % THREADS];
        for (uint32_t i = 0; i < me->claim_count; i++) {
            claim *c = &me->claims[(i + skip) % me->claim_count];
            ask(how, c, timeout, !c->mortal);
        }
    }
}

static void check_devices(void) {
    for (uint32_t d = 0; d < DEVICES; d++) {
        uint64_t value = 0, pending = 0;
        MUST(hcq_device_synchronize(W.devices[d], long_timeout()));
        MUST(hcq_signal_value(hcq_device_timeline(W.devices[d]), &value));
        MUST(hcq_device_query(W.devices[d], HCQ_QUERY_PENDING, &pending));
        WRONG_IF(pending || value + 1 != hcq_device_timeline_value(W.devices[d]),
                 "device %u: %llu pending, the timeline is at %llu, the next number %llu", d,
                 (unsigned long long)pending, (unsigned long long)value,
                 (unsigned long long)hcq_device_timeline_value(W.devices[d]));
    }
}

/* A signal has one failure, whatever else of it broke. */
static void check_failures(const actor *me) {
    for (uint32_t i = 1; i < me->claim_count; i++) {
        const claim *c = &me->claims[i];
        uint32_t seen = c[-1].seen > REACHED && c->seen > REACHED ? c[-1].seen : c->seen;
        if (c->sub == NEVER && c[-1].point.signal.id == c->point.signal.id && c->seen != seen) {
            differs("at the end", c, HCQ_NOT_READY, "the signal has two failures");
        }
    }
}

static void check_subs(const actor *me) {
    for (uint32_t i = 0; i < me->sub_count; i++) {
        const sub *s = &me->subs[i];
        check_words(s, s->own->seen == REACHED);
        W.failed += s->own->seen != REACHED;
    }
    W.total += me->sub_count;
}

/* They end where they were raised to, and nothing is pending: a reset is legal. */
static void check_lines(const actor *me) {
    for (uint32_t i = 0; i < LINES; i++) {
        const gate *line = &me->lines[i];
        uint64_t value = 0;
        if (line->count && line->claims[line->count - 1]->seen == REACHED) {
            MUST(hcq_signal_value(line->signal, &value));
            WRONG_IF(value != line->value, "a signal ends at %llu, not %llu",
                     (unsigned long long)value, (unsigned long long)line->value);
            MUST(hcq_signal_reset(line->signal, 0));
            WRONG_IF(test_poll(hcq_at(line->signal, 1)) != HCQ_TIMEOUT,
                     "a signal that was reset is not at 0");
        }
    }
}

static void check_run(void) {
    check_claims("at the end, a wait", long_timeout());
    check_devices();
    check_claims("asked once more, a wait", 0);
    for (uint32_t t = 0; t < THREADS; t++) {
        const actor *me = &W.actors[t];
        check_failures(me);
        check_subs(me);
        for (uint32_t i = 0; i < me->note_count; i++) {
            check_note(&me->notes[i]);
        }
        check_lines(me);
        check_data(me);
    }
}

/* ---- runs ---- */

static void open_device(uint32_t d) {
    uint64_t bytes = (uint64_t)THREADS * W.subs * WORDS * 4;
    W.devices[d] = test_open(d, &W.desc);
    hcq_device_info info = test_info(W.devices[d]);
    W.compute_lanes = info.compute_lanes;
    W.copy_lanes = info.copy_lanes;
    W.mapped = (info.features & HCQ_FEATURE_MAP) != 0;
    W.put[d] = make_put(W.devices[d]);
    W.mix[d] = make_mix(W.devices[d]);
    MUST(hcq_alloc(W.devices[d], bytes, HCQ_ZEROED | HCQ_HOST_VISIBLE, &W.words[d]));
}

/* Each thread has one lane for itself, others belong to all. */
static void deal_lanes(void) {
    uint32_t lanes[DEVICES * LANES], count = 0;
    for (uint32_t i = 0; i < DEVICES * LANES; i++) {
        if (i % LANES < W.compute_lanes || (i % LANES == LANES - 1 && W.copy_lanes)) {
            lanes[count++] = i;
        }
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        uint32_t i = pick(&W, count);
        W.actors[t].lane = count > 1 ? lanes[i] : NEVER;
        lanes[i] = lanes[count - 1];
        count -= count > 1;
    }
}

static void open_run(void) {
    static const uint32_t sizes[] = {200, 1000, 4000, SUBS};
    uint32_t size = T.quick || TEST_SANITIZED ? 2 : 4;
    W.subs = sizes[round_number < size ? round_number : pick(&W, size)];
    W.fail_percent = round_number ? pick(&W, 60) : 25;
    W.look_percent = 10 + pick(&W, 60);
    for (uint32_t d = 0; d < DEVICES; d++) {
        open_device(d);
    }
    T.dev = W.devices[0];
    T.dev2 = W.devices[1];
    memset(&W.always, 0, sizeof W.always);
    W.always.point.value = 1;
    MUST(hcq_signal_create(W.devices[0], 1, &W.always.point.signal));
    for (uint32_t t = 0; t < THREADS; t++) {
        actor *me = &W.actors[t];
        memset(me, 0, sizeof *me);
        me->index = t;
        me->random = test_random(&W.random);
        me->lane_end = nothing;
        for (uint32_t b = 0; b < DEVICES * BUFFERS; b++) {
            me->data[b].buffer = make_words(W.devices[b / BUFFERS], DATA_WORDS);
        }
    }
    deal_lanes();
}

static void close_run(void) {
    void *state = NULL;
    WRONG_IF(test_teardown(&state) != 0, "the devices do not close as they should");
}

TEST_BARE(answers_stay) {
    uint32_t seconds = O.signals ? O.signals : O.seconds;
    uint64_t begin = hcq_now_ns(), until = begin + (uint64_t)seconds * SECOND;
    uint64_t rounds = T.rounds ? T.rounds : seconds ? UINT64_MAX : T.quick ? 3 : 6;
    W.random = T.seed * 0x9e3779b97f4a7c15ull + 7;
    W.desc = test_desc();
    W.desc.compute_lanes = 2;
    W.desc.copy_lanes = 1;
    T.trace_left = trace_left();
#ifdef HCQ_TEST_CUDA
    T.cuda_left = cuda_left();
#endif
    for (round_number = 0; round_number < rounds; round_number++) {
        if (seconds && hcq_now_ns() >= until) { break; }
        open_run();
        if (O.signals) {
            interrupt_start();
        }
        run_threads(actor_run, W.actors, sizeof W.actors[0], THREADS);
        check_run();
        if (O.signals) {
            interrupt_stop();
        }
        close_run();
        test_alive();
    }
    fprintf(stderr, "%llu submissions, %llu failed, %llu runs, %llu interrupts, %llu ms\n",
            (unsigned long long)W.total, (unsigned long long)W.failed,
            (unsigned long long)round_number, (unsigned long long)E.interrupts,
            (unsigned long long)(hcq_now_ns() - begin) / 1000000);
    WRONG_IF(O.signals && E.interrupts < 1000, "hardly anything was interrupted");
}

int main(int argc, char **argv) {
    O.seconds = (uint32_t)own_option(&argc, argv, "--seconds");
    O.signals = (uint32_t)own_option(&argc, argv, "--signals");
    return test_main(argc, argv);
}
