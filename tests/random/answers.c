/* answers.c - every answer of a long run on four threads against a model.

   answers [VARIANT] [SEED] [--seconds N] [--threads N] [--quick]

   timelines.c looks at rounds that end; here work never stops and failures are
   many, as an answer must not depend on how much else fails or is asked later. A
   thread makes batches of submissions for 2 devices with 3 lanes each. Each has
   waits and raises whose ends are known when it is made, as what the host is
   going to do to its gates (set, fail, destroy, close a device) is planned before
   anybody waits for it. So a claim, a point with the results that it may have,
   can be written down at once: most have one. Only what timing decides (raises
   that nothing orders, a gate that another thread fails) has more.

   With each claim stand the host's moves without which it cannot be reached and
   those after which it must be over. All threads ask for claims of all, soon or
   late: waits for one, all and any, notifications, timelines. An answer must be
   allowed, must not come before those moves nor stay out after them, and is the
   same for ever: at the end of a run each is asked once more, and each command
   that had to run has left its word. Runs with one thread repeat exactly. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "support/util.h"
#include "support/util_threads.h"
#include "answers_model.h"
#include "answers_batch.h"

/* ---- looking on ---- */

static uint64_t short_timeout(actor *me) {
    uint64_t timeout = pick(me, 300000);
    return chance(me, 60) ? 0 : chance(me, 50) ? timeout
                                               : HCQ_DEADLINE(hcq_sys_now_ns() + timeout);
}

static uint64_t long_timeout(void) {
    return BOUND * (TEST_SANITIZED ? 18 : 6);
}

static void look_one(actor *me) {
    claim *c = look_claim(me);
    if (c) {
        hcq_result r = hcq_wait(&c->point, 1, HCQ_ALL, short_timeout(me));
        mark(me, "short wait: thread, claim", c->thread, (uint64_t)(c - W.actors[c->thread].claims),
              r);
        check_answer("a short wait", c, r);
    }
}

/* What nobody who waits could hold up. */
static void look_long(actor *me) {
    claim *c = look_claim(me);
    if (!c || !moves_done(&c->end.due)) {
        return;
    }
    mark(me, "long wait: thread, claim", c->thread, (uint64_t)(c - W.actors[c->thread].claims),
          HCQ_NOT_READY);
    hcq_result r = hcq_wait(&c->point, 1, HCQ_ALL, long_timeout());
    check_answer("a long wait", c, r);
    if (r == HCQ_TIMEOUT) {
        differs("a long wait", c, r, "it should be over");
    }
}

/* A list of claims, and what may be said of all or any of them. */
typedef struct list {
    hcq_point points[6];
    uint32_t count;
    uint32_t every, some, failures;    /* bits */
    uint32_t seen, worst;              /* answered before: REACHED, the lowest failure */
    int over;
} list;

static void list_add(list *l, const claim *c) {
    uint32_t seen = __atomic_load_n(&c->seen, __ATOMIC_ACQUIRE);
    l->every &= c->end.mask;
    l->some |= c->end.mask & REACHED;
    l->failures |= c->end.mask & ~REACHED;
    if (c->mortal) {
        l->failures |= bit_of(HCQ_ERROR_CLOSED) | bit_of(HCQ_ERROR_CANCELLED);
    }
    l->seen |= seen & REACHED;
    l->worst = seen > l->worst ? seen : l->worst;
    l->over &= moves_done(&c->end.due);
    l->points[l->count++] = c->point;
}

/* Reached counts more than failed for any, and of several failures the lowest
   code; what is known before must not be missed. */
static uint32_t list_allowed(const list *l, hcq_wait_mode mode) {
    if (mode == HCQ_ALL || l->count == 0) {
        return l->worst > REACHED ? l->failures & ~(l->worst - 1) : l->failures | l->every;
    }
    return l->seen ? REACHED : l->failures | l->some;
}

static void look_many(actor *me) {
    hcq_wait_mode mode = chance(me, 50) ? HCQ_ALL : HCQ_ANY;
    list l;
    memset(&l, 0, sizeof l);
    l.every = REACHED;
    l.over = 1;
    for (uint32_t i = pick(me, sizeof l.points / sizeof l.points[0] + 1); i > 0; i--) {
        claim *c = look_claim(me);
        if (c) {
            list_add(&l, c);
        }
    }
    uint32_t allowed = list_allowed(&l, mode);
    int over = l.over || (mode == HCQ_ALL ? l.worst > REACHED : l.seen != 0);
    hcq_result r = hcq_wait(l.points, l.count, mode, l.over ? long_timeout() : short_timeout(me));
    mark(me, mode == HCQ_ALL ? "all of" : "any of", l.count, allowed, r);
    if (r == HCQ_TIMEOUT ? over : !(bit_of(r) & allowed)) {
        static char text[32768];
        hcq_explain(l.points, l.count, text, sizeof text);
        wrong("a wait for %s of %u points gives %s, the model has %#x:\n%s",
              mode == HCQ_ALL ? "all" : "any", l.count, hcq_result_name(r), allowed, text);
    }
}

/* The raises of its own last batch that nothing orders, while they come in. */
static void look_group(actor *me) {
    for (uint32_t i = 0; i < me->group_count; i++) {
        claim *c = &me->claims[me->group + i];
        mark(me, "poll of the group: claim", me->group + i, c->point.value,
             poll_claim("a poll of the group", c));
    }
}

static void look_explain(actor *me) {
    char text[2000];
    claim *c = look_claim(me);
    uint32_t size = 1 + pick(me, sizeof text - 1);
    if (c) {
        memset(text, 'x', sizeof text);
        size_t length = hcq_explain(&c->point, 1, text, size);
        if (!memchr(text, 0, size) || (length < size && strlen(text) != length)) {
            wrong("hcq_explain, %u bytes: length %zu", size, length);
        }
    }
}

/* Runs when its claim is decided, so asking gives the same answer. */
static void note_run(void *user, hcq_result result) {
    note *n = (note *)user;
    check_answer("a notification", n->on, result);
    hcq_result now = poll_claim("a poll in a notification", n->on);
    if (now == HCQ_TIMEOUT) {
        differs("a poll in its notification", n->on, now, "it is over");
    }
    n->result = (int32_t)result;
    __atomic_add_fetch(&n->calls, 1, __ATOMIC_RELEASE);
}

static void look_notify(actor *me) {
    claim *c = look_claim(me);
    note *n = &me->notes[me->note_count];
    if (!c || me->note_count == NOTES || (c->mortal && moves_done(&c->end.due))) {
        return;
    }
    memset(n, 0, sizeof *n);
    n->on = c;
    hcq_result r = hcq_notify(c->point, note_run, n, &n->handle);
    if (r == HCQ_OK) {
        me->note_count++;
    } else if (r != HCQ_ERROR_CLOSED || !c->mortal) {
        differs("hcq_notify", c, r, "it is refused");
    }
}

static void look_cancel(actor *me) {
    note *n = &me->notes[pick(me, me->note_count ? me->note_count : 1)];
    if (!me->note_count || n->cancelled) {
        return;
    }
    hcq_result r = hcq_notify_cancel(n->handle);
    n->cancelled = r == HCQ_OK;
    if (r != HCQ_OK && r != HCQ_ERROR_CLOSED) {
        wrong("hcq_notify_cancel gives %s", hcq_result_name(r));
    }
}

/* The prefix: what is before it is over, and failures do not matter. */
static void look_timeline(actor *me) {
    uint32_t device = pick(me, DEVICES), i = pick(me, me->sub_count ? me->sub_count : 1);
    sub *s = &me->subs[i];
    int all = chance(me, 20);
    if (me->sub_count == 0 || s->device != device || i >= me->first) {
        return;
    }
    hcq_point p = hcq_at(hcq_device_timeline(W.devices[device]), s->own->point.value);
    uint64_t timeout = short_timeout(me);
    hcq_result r = all ? hcq_device_synchronize(W.devices[device], chance(me, 50) ? 0 : 200000)
                       : hcq_wait(&p, 1, HCQ_ALL, timeout);
    mark(me, "timeline: device, number", device, p.value, r);
    if (r != HCQ_OK && r != HCQ_TIMEOUT) {
        wrong("a wait for the timeline gives %s", hcq_result_name(r));
    }
    if (r == HCQ_OK && poll_claim("after its timeline, a poll", s->own) == HCQ_TIMEOUT) {
        differs("after its timeline, a poll", s->own, HCQ_TIMEOUT, "it should be over");
    }
}

static void visit(actor *me);

static void look(actor *me) {
    static void (*const looks[])(actor *) = {
        look_one, look_one, look_one, look_long, look_many, look_many, look_group, look_explain,
        look_notify, look_notify, look_cancel, look_timeline, look_timeline, attack, visit};
    while (chance(me, W.look_percent)) {
        looks[pick(me, sizeof looks / sizeof looks[0])](me);
    }
}

/* ---- guests: devices that are closed in the middle ---- */

static claim *guest_claim(actor *me, hcq_point point, hcq_result result, int mortal) {
    end e = nothing;
    e.mask = bit_of(result);
    e.due.of[me->index] = me->planned;
    claim *c = add_claim(me, point, &e, NEVER);
    c->mortal = c->look_only = (uint8_t)mortal;
    return c;
}

/* Nothing but waits and raises. */
static hcq_point guest_submit(hcq_device *device, hcq_point wait, hcq_point raise,
                              uint32_t flags) {
    hcq_point point = {{0}, 0};
    MUST(submit_lists(device, wait.value ? &wait : NULL, raise.value ? &raise : NULL, flags,
                      &point));
    return point;
}

/* What the guest has handed over succeeds; what waits for its gate, which nobody
   will set, is cancelled when it closes, and so is what waits for that. */
static void open_guest(actor *me) {
    guest *g = &me->guest;
    char name[32];
    uint32_t ordinal = test_ordinal(2), d = pick(me, DEVICES);
    hcq_point none = {{0}, 0};
    gate ours;
    hcq_device_desc desc = W.desc;
    snprintf(name, sizeof name, ordinal ? "%s:%u" : "%s", T.variant->backend, ordinal);
    MUST(hcq_open(name, &desc, &g->device));
    MUST(hcq_signal_create(g->device, 0, &g->gate));
    MUST(hcq_signal_create(g->device, 0, &g->line));
    new_gate(me, &ours);
    (void)plan_move(me, ACT_CLOSE, g->gate);
    hcq_point p = guest_submit(g->device, none, hcq_at(g->line, 1), 0);
    guest_claim(me, p, HCQ_OK, 1)->end.due = nothing.due;
    guest_claim(me, hcq_at(g->line, 1), HCQ_OK, 1)->end.due = nothing.due;
    p = guest_submit(g->device, hcq_at(g->gate, 1), hcq_at(ours.signal, 1), 0);
    guest_claim(me, p, HCQ_ERROR_CANCELLED, 1);
    guest_claim(me, hcq_at(ours.signal, 1), HCQ_ERROR_CANCELLED, 0);
    hcq_point later = guest_submit(g->device, none, hcq_at(g->line, 2), 0); /* behind it */
    guest_claim(me, later, HCQ_ERROR_CANCELLED, 1);
    guest_claim(me, hcq_at(g->line, 2), HCQ_ERROR_CANCELLED, 1);
    guest_claim(me, hcq_at(g->gate, 3), HCQ_ERROR_CANCELLED, 1);
    hcq_device *home = W.devices[d];
    claim *c = guest_claim(me, guest_submit(home, hcq_at(g->line, 1), none, HCQ_UNORDERED),
                           HCQ_OK, 0);
    c->end.due = nothing.due;
    guest_claim(me, guest_submit(home, hcq_at(g->line, 2), none, HCQ_UNORDERED),
                HCQ_ERROR_CANCELLED, 0);
    guest_claim(me, guest_submit(home, hcq_at(g->gate, 2), none, HCQ_UNORDERED),
                HCQ_ERROR_CANCELLED, 0);
    guest_claim(me, guest_submit(home, p, none, HCQ_UNORDERED), HCQ_ERROR_CANCELLED, 0);
    mark(me, "guest: signals", g->gate.id, g->line.id, HCQ_OK);
    MUST(hcq_device_retain(g->device));
    hcq_device *other = __atomic_exchange_n(&W.visited, g->device, __ATOMIC_ACQ_REL);
    if (other) {
        MUST(hcq_device_release(other));
    }
}

static void close_guest(actor *me) {
    guest *g = &me->guest;
    hcq_device *open = __atomic_exchange_n(&W.visited, NULL, __ATOMIC_ACQ_REL);
    if (open) {                        /* nobody came; or to another thread's */
        MUST(hcq_device_release(open));
    }
    MUST(hcq_close(g->device));
    g->device = NULL;
}

/* Another thread's guest, while it is closed or not yet: the reference is ours. */
static void visit(actor *me) {
    hcq_device *device = NULL;
    hcq_point point = {{0}, 0}, never = {{0}, 1};
    if (!me->guest.device) {           /* nobody who waits here can be waited for */
        device = __atomic_exchange_n(&W.visited, NULL, __ATOMIC_ACQ_REL);
    }
    if (!device) {
        return;
    }
    int waits = chance(me, 50);
    hcq_result r = hcq_signal_create(device, 0, &never.signal);
    if (r == HCQ_OK) {
        r = submit_lists(device, waits ? &never : NULL, NULL, HCQ_UNORDERED, &point);
    }
    if (r == HCQ_OK) {
        r = hcq_wait(&point, 1, HCQ_ALL, long_timeout());
    }
    mark(me, "visit: waits", (uint64_t)waits, point.value, r);
    if (r != HCQ_ERROR_CLOSED && r != HCQ_ERROR_CANCELLED && (waits || r != HCQ_OK)) {
        wrong("a visitor of a device that is closed meanwhile gets %s", hcq_result_name(r));
    }
    MUST(hcq_device_release(device));
}

/* ---- a thread ---- */

/* Takes what is over off the list; 0 = too much is left. */
static int collect(actor *me) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < me->open_count; i++) {
        claim *own = me->subs[me->open[i]].own;
        if (poll_claim("a poll", own) == HCQ_TIMEOUT) {
            me->open[left++] = me->open[i];
        }
    }
    me->open_count = left;
    return left < OPEN;
}

/* Others make their moves, too: it gets less some time. */
static void throttle(actor *me) {
    uint64_t until = hcq_sys_now_ns() + long_timeout();
    while (!collect(me)) {
        claim *own = me->subs[me->open[0]].own;
        if (!make_move(me, 0)) {
            mark(me, "throttled: open, moves", me->open_count, me->planned - me->done,
                  hcq_wait(&own->point, 1, HCQ_ALL, 1000000));
        }
        if (hcq_sys_now_ns() > until) {
            differs("while others move, a wait", own, HCQ_TIMEOUT, "it should be over");
        }
    }
}

static void run_batch(actor *me) {
    uint32_t count = 1 + pick(me, BATCH), from = me->claim_count;
    me->draft_count = 0;
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
        uint32_t i = pick(me, count), ready = 0;
        while (!ready) {
            i = (i + 1) % count;
            ready = !me->drafts[i].submitted;
            for (uint32_t k = 0; k < count; k++) {
                ready &= !(me->drafts[i].follows >> k & 1) || me->drafts[k].submitted;
            }
        }
        submit_draft(me, &me->drafts[i]);
        while (chance(me, 20) && make_move(me, 1)) { }
        look(me);
    }
    open_group(me, from);
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
    uint32_t skip = pick_from(&W.random, 1000);
    for (uint32_t t = 0; t < W.threads; t++) {
        actor *me = &W.actors[(t + skip) % W.threads];
        for (uint32_t i = 0; i < me->claim_count; i++) {
            claim *c = &me->claims[(i + skip) % me->claim_count];
            hcq_result r = hcq_wait(&c->point, 1, HCQ_ALL, timeout);
            check_answer(how, c, r);
            if (r == HCQ_TIMEOUT && !c->mortal) {
                differs(how, c, r, "it should be over");
            }
        }
        progress();
    }
}

/* A signal has one failure, whatever else of it broke. */
static void check_failures(void) {
    for (uint32_t t = 0; t < W.threads; t++) {
        for (uint32_t i = 1; i < W.actors[t].claim_count; i++) {
            claim *c = &W.actors[t].claims[i];
            uint32_t seen = c[-1].seen > REACHED && c->seen > REACHED ? c[-1].seen : c->seen;
            if (c->sub == NEVER && c[-1].point.signal.id == c->point.signal.id && c->seen != seen) {
                differs("at the end", c, HCQ_NOT_READY, "the signal has two failures");
            }
        }
    }
}

static void check_subs(void) {
    for (uint32_t t = 0; t < W.threads; t++) {
        for (uint32_t i = 0; i < W.actors[t].sub_count; i++) {
            const sub *s = &W.actors[t].subs[i];
            check_words(s, s->own->seen == REACHED);
            W.failed += s->own->seen != REACHED;
        }
        W.total += W.actors[t].sub_count;
    }
}

static void check_lanes(void) {
    for (uint32_t t = 0; t < W.threads; t++) {
        uint32_t lane = W.actors[t].lane;
        const uint32_t *words = lane == NEVER
                                    ? NULL : (const uint32_t *)W.lanes[lane / LANES].host;
        if (words && words[lane % LANES] != W.actors[t].lane_value) {
            wrong("lane %u ends with %u, not %u: not in order, or not all once", lane,
                  words[lane % LANES], W.actors[t].lane_value);
        }
    }
}

static void check_note(note *n) {
    uint64_t until = hcq_sys_now_ns() + long_timeout();
    while (!n->cancelled && !__atomic_load_n(&n->calls, __ATOMIC_ACQUIRE) &&
           hcq_sys_now_ns() < until) {
        mock_sleep(100000);
    }
    uint32_t calls = __atomic_load_n(&n->calls, __ATOMIC_ACQUIRE);
    if (calls != !n->cancelled) {
        differs("a notification", n->on, (hcq_result)n->result,
                calls ? "it ran" : "it did not run");
    }
}

static void check_devices(void) {
    for (uint32_t d = 0; d < DEVICES; d++) {
        uint64_t value = 0, pending = 0;
        MUST(hcq_device_synchronize(W.devices[d], long_timeout()));
        MUST(hcq_signal_value(hcq_device_timeline(W.devices[d]), &value));
        MUST(hcq_device_query(W.devices[d], HCQ_QUERY_PENDING, &pending));
        if (pending || value + 1 != hcq_device_timeline_value(W.devices[d])) {
            wrong("device %u: %llu pending, the timeline is at %llu, the next number %llu", d,
                  (unsigned long long)pending, (unsigned long long)value,
                  (unsigned long long)hcq_device_timeline_value(W.devices[d]));
        }
    }
}

static void check_run(void) {
    check_claims("at the end, a wait", long_timeout());
    check_devices();
    check_claims("asked once more, a wait", 0);
    check_failures();
    check_subs();
    check_lanes();
    for (uint32_t t = 0; t < W.threads; t++) {
        for (uint32_t i = 0; i < W.actors[t].note_count; i++) {
            check_note(&W.actors[t].notes[i]);
        }
    }
}

/* ---- runs ---- */

static struct {
    uint32_t seconds, threads;         /* 0: the default */
} O;

static hcq_buffer open_words(uint32_t d, uint32_t count) {
    hcq_buffer buffer;
    MUST(hcq_alloc(W.devices[d], (uint64_t)count * 4, HCQ_ZEROED | HCQ_HOST_VISIBLE, &buffer));
    return buffer;
}

static void open_device(uint32_t d) {
    uint32_t words = W.threads * W.subs * WORDS;
    hcq_device_info info;
    W.devices[d] = test_open(d, &W.desc);
    MUST(hcq_device_info_get(W.devices[d], &info));
    W.compute_lanes = info.compute_lanes;
    W.copy_lanes = info.copy_lanes;
    W.put[d] = make_put(W.devices[d]);
    W.mix[d] = make_mix(W.devices[d]);
    W.words[d] = open_words(d, words);
    W.values[d] = open_words(d, words);
    W.lanes[d] = open_words(d, LANES + 1);
    for (uint32_t i = 0; i < words; i++) {
        ((uint32_t *)W.values[d].host)[i] = i + 1;
    }
}

/* Each thread has one lane for itself, others belong to all. */
static void deal_lanes(void) {
    uint32_t lanes[DEVICES * LANES], count = 0;
    for (uint32_t i = 0; i < DEVICES * LANES; i++) {
        if (i % LANES < W.compute_lanes || (i % LANES == LANES - 1 && W.copy_lanes)) {
            lanes[count++] = i;
        }
    }
    for (uint32_t t = 0; t < W.threads; t++) {
        uint32_t i = pick_from(&W.random, count);
        W.actors[t].lane = count > 1 ? lanes[i] : NEVER;
        lanes[i] = lanes[count - 1];
        count -= count > 1;
    }
}

static void open_run(void) {
    static const uint32_t sizes[] = {200, 1000, 4000, SUBS};
    uint32_t size = T.quick || TEST_SANITIZED ? 2 : 4;
    W.threads = O.threads ? O.threads : THREADS;
    W.subs = sizes[R.round < size ? R.round : pick_from(&W.random, size)];
    W.fail_percent = R.round ? pick_from(&W.random, 60) : 25;
    W.look_percent = 10 + pick_from(&W.random, 60);
    for (uint32_t d = 0; d < DEVICES; d++) {
        open_device(d);
    }
    T.dev = W.devices[0];
    T.dev2 = W.devices[1];
    memset(&W.always, 0, sizeof W.always);
    W.always.point.value = 1;
    MUST(hcq_signal_create(W.devices[0], 1, &W.always.point.signal));
    deal_lanes();
    for (uint32_t t = 0; t < W.threads; t++) {
        actor *me = &W.actors[t];
        uint32_t lane = me->lane;
        memset(me, 0, sizeof *me);
        me->lane = lane;
        me->index = t;
        me->random = test_random(&W.random);
        me->lane_end = nothing;
    }
}

static void close_run(void) {
    void *state = NULL;
    for (uint32_t t = 0; t < W.threads; t++) {
        hcq_queue **queues = &W.actors[t].queues[0][0][0];
        for (uint32_t i = 0; i < DEVICES * 2 * PARTS; i++) {
            hcq_queue_destroy(queues[i]);
        }
        for (uint32_t i = 0; i < DEVICES * 2; i++) {
            hcq_queue_destroy(W.actors[t].kept[i / 2][i % 2].queue);
        }
    }
    if (test_teardown(&state) != 0) {
        wrong("the devices do not close as they should");
    }
}

static void run_once(void) {
    open_run();
    for (uint32_t t = 1; t < W.threads; t++) {
        pthread_create(&W.actors[t].thread, NULL, actor_run, &W.actors[t]);
    }
    actor_run(&W.actors[0]);
    for (uint32_t t = 1; t < W.threads; t++) {
        pthread_join(W.actors[t].thread, NULL);
    }
    check_run();
    close_run();
}

static void answers_stay(void **state) {
    uint64_t begin = hcq_sys_now_ns(), until = begin + (uint64_t)O.seconds * SECOND;
    uint64_t rounds = T.rounds ? T.rounds : O.seconds ? UINT64_MAX : T.quick ? 3 : 6;
    (void)state;
    memset(&W, 0, sizeof W);
    W.random = T.seed * 0x9e3779b97f4a7c15ull + 7;
    W.desc = test_desc();
    W.desc.compute_lanes = 2;
    W.desc.copy_lanes = 1;
    T.trace_left = trace_left();
#ifdef HCQ_TEST_CUDA
    T.cuda_left = cuda_left();
#endif
    for (R.round = 0; R.round < rounds && (!O.seconds || hcq_sys_now_ns() < until); R.round++) {
        run_once();
        test_alive();
    }
    fprintf(stderr, "%llu submissions, %llu failed, %llu runs, %llu ms\n",
            (unsigned long long)W.total, (unsigned long long)W.failed,
            (unsigned long long)R.round, (unsigned long long)(hcq_sys_now_ns() - begin) / 1000000);
}

/* Takes the options that only this program has. */
static int own_options(int argc, char **argv) {
    int left = 1;
    for (int i = 1; i < argc; i++) {
        int seconds = strcmp(argv[i], "--seconds") == 0;
        if (!seconds && strcmp(argv[i], "--threads") != 0) {
            argv[left++] = argv[i];
            continue;
        }
        uint32_t value = (uint32_t)strtoul(i + 1 < argc ? argv[i + 1] : "0", NULL, 0);
        *(seconds ? &O.seconds : &O.threads) = value;
        i++;
    }
    return left;
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {TEST_BARE(answers_stay)};
    argc = own_options(argc, argv);
    if (O.threads > THREADS) {
        fprintf(stderr, "at most %d threads\n", THREADS);
        return 2;
    }
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    watch("answers", tell_traces);
    return cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}
