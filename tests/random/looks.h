/* looks.h - what the threads of answers.c ask for while they submit: claims of all
   threads, soon or late. */
#include <poll.h>

static uint64_t short_timeout(actor *me) {
    uint64_t timeout = pick(me, 300000);
    return chance(me, 60) ? 0 : chance(me, 50) ? timeout
                                               : HCQ_DEADLINE(hcq_now_ns() + timeout);
}

/* Of any thread. */
static claim *look_claim(actor *me) {
    actor *of = &W.actors[pick(me, THREADS)];
    return any_claim(me, of, published(of));
}

static void look_one(actor *me) {
    claim *c = look_claim(me);
    if (c) {
        ask("a short wait", c, short_timeout(me), 0);
    }
}

/* What nobody who waits could hold up. */
static void look_long(actor *me) {
    claim *c = look_claim(me);
    if (c && moves_done(&c->end.due)) {
        ask("a long wait", c, long_timeout(), 1);
    }
}

/* The raises of its own last batch that nothing orders, while they come in. */
static void look_group(actor *me) {
    for (uint32_t i = 0; i < me->group_count; i++) {
        ask("a poll of the group", &me->claims[me->group + i], 0, 0);
    }
}

/* What a read has shown is there, and no read shows less. */
static void look_value(actor *me) {
    claim *c = look_claim(me);
    uint64_t value = 0, again = 0;
    if (!c || c->sub != NEVER || c->maker == NEVER) {
        return;
    }
    uint32_t seen = __atomic_load_n(&c->seen, __ATOMIC_ACQUIRE);
    hcq_result r = hcq_signal_value(c->point.signal, &value);
    (void)hcq_signal_value(c->point.signal, &again);
    if (value >= c->point.value) {
        check_answer("the value", c, HCQ_OK);
    }
    if (again < value || (int)r > 0 || (seen == REACHED && value < c->point.value)) {
        differs("hcq_signal_value", c, r, "it falls");
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
static void look_many(actor *me) {
    hcq_wait_mode mode = chance(me, 50) ? HCQ_ALL : HCQ_ANY;
    list l = {.every = REACHED, .over = 1};
    for (uint32_t i = pick(me, 7); i > 0; i--) {
        claim *c = look_claim(me);
        if (c) {
            list_add(&l, c);
        }
    }
    uint32_t allowed = l.seen ? REACHED : l.failures | l.some;
    if (mode == HCQ_ALL || l.count == 0) {
        allowed = l.worst > REACHED ? l.failures & ~(l.worst - 1) : l.failures | l.every;
    }
    int over = l.over || (mode == HCQ_ALL ? l.worst > REACHED : l.seen != 0);
    hcq_result r = hcq_wait(l.points, l.count, mode, l.over ? long_timeout() : short_timeout(me));
    if (r == HCQ_TIMEOUT ? over : !(bit_of(r) & allowed)) {
        static char text[32768];
        hcq_explain(l.points, l.count, text, sizeof text);
        wrong("a wait for %s of %u points gives %s, the model has %#x:\n%s",
              mode == HCQ_ALL ? "all" : "any", l.count, hcq_result_name(r), allowed, text);
    }
}

static void look_explain(actor *me) {
    char text[2000];
    claim *c = look_claim(me);
    uint32_t size = 1 + pick(me, sizeof text - 1);
    memset(text, 'x', sizeof text);
    size_t length = c && chance(me, 80)
                        ? hcq_explain(&c->point, 1, text, size)
                        : hcq_device_dump(W.devices[pick(me, DEVICES)], text, size);
    WRONG_IF(!memchr(text, 0, size) || (length < size && strlen(text) != length),
             "a text for %u bytes: length %zu", size, length);
}

/* The prefix: what is before it is over, and failures do not matter. */
static void look_timeline(actor *me) {
    uint32_t device = pick(me, DEVICES), i = pick(me, me->sub_count ? me->sub_count : 1);
    const sub *s = &me->subs[i];
    if (me->sub_count == 0 || s->device != device || i >= me->first) {
        return;
    }
    hcq_point p = hcq_at(hcq_device_timeline(W.devices[device]), s->own->point.value);
    hcq_result r = chance(me, 20) ? hcq_device_synchronize(W.devices[device], 200000)
                                  : hcq_wait(&p, 1, HCQ_ALL, short_timeout(me));
    WRONG_IF(r != HCQ_OK && r != HCQ_TIMEOUT, "a wait for the timeline gives %s",
             hcq_result_name(r));
    if (r == HCQ_OK) {
        ask("after its timeline, a poll", s->own, 0, 1);
    }
}

/* ---- notifications ---- */

/* Runs when its claim is decided, so asking gives the same answer. */
static void note_run(void *user, hcq_result result) {
    note *n = (note *)user;
    check_answer("a notification", n->on, result);
    ask("a poll in a notification", n->on, 0, 1);
    __atomic_add_fetch(&n->calls, 1, __ATOMIC_RELEASE);
}

static void look_notify(actor *me) {
    claim *c = look_claim(me);
    note *n = &me->notes[me->note_count];
    if (!c || me->note_count == NOTES || (c->mortal && moves_done(&c->end.due))) {
        return;
    }
    *n = (note){.on = c, .handle_fd = -1};
    hcq_result r = chance(me, 3) ? hcq_notify_handle(c->point, &n->handle_fd, &n->handle)
                                 : hcq_notify(c->point, note_run, n, &n->handle);
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
    WRONG_IF(r != HCQ_OK && r != HCQ_ERROR_CLOSED && r != HCQ_ERROR_BUSY,
             "hcq_notify_cancel gives %s", hcq_result_name(r));
}

static uint32_t note_calls(const note *n) {
    struct pollfd fd = {(int)n->handle_fd, POLLIN, 0};
    return n->handle_fd >= 0 ? poll(&fd, 1, 0) == 1
                             : __atomic_load_n(&n->calls, __ATOMIC_ACQUIRE);
}

/* At the end: each has run once, or was cancelled. */
static void check_note(const note *n) {
    uint64_t until = hcq_now_ns() + long_timeout();
    while (!n->cancelled && !note_calls(n) && hcq_now_ns() < until) {
        mock_sleep(100000);
    }
    if (note_calls(n) != !n->cancelled) {
        const char *is = note_calls(n) ? "it ran" : "it did not run";
        differs("a notification", n->on, HCQ_NOT_READY, is);
    }
    if (n->handle_fd >= 0) {
        close((int)n->handle_fd);
    }
}

static void look(actor *me) {
    static void (*const looks[])(actor *) = {
        look_one, look_one, look_one, look_long, look_many, look_many, look_group, look_value,
        look_explain, look_notify, look_notify, look_cancel, look_timeline, look_timeline, attack};
    while (chance(me, W.look_percent)) {
        looks[pick(me, sizeof looks / sizeof looks[0])](me);
    }
}
