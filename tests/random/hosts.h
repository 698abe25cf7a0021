/* hosts.h - what the host does in answers.c: it moves gates, as planned before
   anybody waits for them, and closes devices. */

static void new_gate(actor *me, gate *g) {
    memset(g, 0, sizeof *g);
    MUST(hcq_signal_create(W.devices[pick(me, DEVICES)], 0, &g->signal));
}

static int may_plan(const actor *me) {
    return me->planned - me->done < MOVES / 2;
}

static move *plan_move(actor *me, act what) {
    move *m = &me->plan[me->planned++ % MOVES];
    *m = (move){.act = what};
    return m;
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
    move *m = plan_move(me, !fails || !last ? ACT_SET : g->mortal ? ACT_DESTROY : ACT_FAIL);
    uint64_t rise = 1 + pick(me, 4), ask = g->value + 1 + pick(me, (uint32_t)rise);
    end e = nothing;
    m->result = m->act == ACT_FAIL ? pick_failure(me) : HCQ_ERROR_CANCELLED;
    e.mask = m->act == ACT_SET ? REACHED : bit_of(m->result);
    e.mask |= g->attackable ? bit_of(ATTACKED) : 0;
    e.need.of[me->index] = e.due.of[me->index] = me->planned;
    claim *c = add_claim(me, hcq_at(g->signal, ask), &e, NEVER);
    c->mortal = (uint8_t)g->mortal;
    g->claims[g->count++] = c;
    g->value += rise;
    m->gate = *g;
    if (g->attackable) {
        __atomic_store_n(&me->target, g->signal.id, __ATOMIC_RELEASE);
    }
    if (m->act != ACT_SET) {
        memset(g, 0, sizeof *g);
    }
}

/* ---- guests: devices that are closed in the middle ---- */

static void guest_claim(actor *me, hcq_point point, hcq_result result, int mortal) {
    end e = nothing;
    e.mask = bit_of(result);
    e.due.of[me->index] = result == HCQ_OK ? 0 : me->planned;
    claim *c = add_claim(me, point, &e, NEVER);
    c->mortal = c->look_only = (uint8_t)mortal;
}

/* Nothing but a wait and a raise; a value of 0 is none. */
static hcq_point guest_submit(actor *me, hcq_device *device, hcq_point wait, hcq_point raise,
                              hcq_result result) {
    int mortal = device == me->guest.device;
    hcq_point point = {{0}, 0};
    MUST(submit_lists(device, wait.value ? &wait : NULL, raise.value ? &raise : NULL,
                      mortal ? 0 : HCQ_UNORDERED, &point));
    guest_claim(me, point, result, mortal);
    if (raise.value) {
        guest_claim(me, raise, result, raise.signal.id == me->guest.line.id);
    }
    return point;
}

/* What the guest has handed over succeeds; what waits for its gate, which nobody
   will set, is cancelled when it closes, and so is what waits for that. */
static void open_guest(actor *me) {
    const hcq_result cancelled = HCQ_ERROR_CANCELLED;
    guest *g = &me->guest;
    hcq_device *home = W.devices[pick(me, DEVICES)];
    hcq_point none = {{0}, 0};
    uint32_t ordinal = test_ordinal(2);
    gate ours;
    char name[32];
    snprintf(name, sizeof name, ordinal ? "%s:%u" : "%s", T.variant->backend, ordinal);
    MUST(hcq_open(name, &W.desc, &g->device));
    MUST(hcq_signal_create(g->device, 0, &g->gate));
    MUST(hcq_signal_create(g->device, 0, &g->line));
    new_gate(me, &ours);
    (void)plan_move(me, ACT_CLOSE);
    guest_submit(me, g->device, none, hcq_at(g->line, 1), HCQ_OK);
    hcq_point p = guest_submit(me, g->device, hcq_at(g->gate, 1), hcq_at(ours.signal, 1),
                               cancelled);
    guest_submit(me, g->device, none, hcq_at(g->line, 2), cancelled); /* behind it */
    guest_claim(me, hcq_at(g->gate, 3), cancelled, 1);
    guest_submit(me, home, hcq_at(g->line, 1), none, HCQ_OK);
    guest_submit(me, home, hcq_at(g->line, 2), none, cancelled);
    guest_submit(me, home, hcq_at(g->gate, 2), none, cancelled);
    guest_submit(me, home, p, none, cancelled);
}

/* ---- moves ---- */

static void move_set(const gate *g) {
    hcq_result r = hcq_signal_set(g->signal, g->value);
    WRONG_IF(r != HCQ_OK && !(g->attackable && r == ATTACKED), "a set of %llx to %llu gives %s",
             (unsigned long long)g->signal.id, (unsigned long long)g->value, hcq_result_name(r));
}

/* The next planned move; in the middle of a batch nothing may go that it names. */
static int make_move(actor *me, int in_batch) {
    const move *m = &me->plan[me->done % MOVES];
    if (me->done == me->planned || (in_batch && (m->act == ACT_DESTROY || m->act == ACT_CLOSE))) {
        return 0;
    }
    for (uint32_t i = 0; m->act == ACT_DESTROY && i < m->gate.count; i++) {
        me->gone[m->gate.claims[i] - me->claims] = 1;
    }
    __atomic_store_n(&me->started, me->done + 1, __ATOMIC_SEQ_CST);
    switch (m->act) {
    case ACT_SET: move_set(&m->gate); break;
    case ACT_FAIL: MUST(hcq_signal_fail(m->gate.signal, m->result, NULL)); break;
    case ACT_DESTROY: MUST(hcq_signal_destroy(m->gate.signal)); break;
    case ACT_CLOSE:
        MUST(hcq_close(me->guest.device));
        me->guest.device = NULL;
        break;
    }
    __atomic_store_n(&me->done, me->done + 1, __ATOMIC_RELEASE);
    return 1;
}

/* Fails a gate of another thread. */
static void attack(actor *me) {
    hcq_signal signal = {0};
    signal.id = __atomic_exchange_n(&W.actors[pick(me, THREADS)].target, 0, __ATOMIC_ACQ_REL);
    if (signal.id) {
        MUST(hcq_signal_fail(signal, ATTACKED, NULL));
    }
}
