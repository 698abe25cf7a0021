/* batch.h - how answers.c makes submissions, with a claim for everything that they
   raise, and hands them to the library. */

/* ---- waits ---- */

static uint32_t bit_of_draft(const actor *me, uint32_t index) {
    return 1u << (index - me->first);
}

static int in_batch(const actor *me, const claim *c) {
    return c->thread == me->index && c->maker != NEVER && c->maker >= me->first;
}

/* Failures and what timing decides spread: only some of it is let in. */
static int acceptable(actor *me, const draft *d, const claim *c) {
    int ours = c->thread == me->index;
    if (c->look_only || (c->mortal && !ours) || (ours && me->gone[c - me->claims])) {
        return 0;
    }
    if (in_batch(me, c) && c->maker == d->index) {
        return 0;
    }
    if (!is_sure(&c->end)) {
        return chance(me, 8);
    }
    return c->end.mask == REACHED || chance(me, 4 + W.fail_percent / 2);
}

/* Something to wait for; NULL: nothing suitable was found. */
static claim *pick_claim(actor *me, draft *d) {
    for (int tries = 0; tries < 4; tries++) {
        actor *of = chance(me, 60) ? me : &W.actors[pick(me, THREADS)];
        claim *c = any_claim(me, of, of == me ? me->claim_count : published(of));
        if (c && acceptable(me, d, c)) {
            if (in_batch(me, c)) {
                d->needs |= bit_of_draft(me, c->maker);
                d->follows |= c->sub != NEVER ? bit_of_draft(me, c->maker) : 0;
            }
            return c;
        }
    }
    return NULL;
}

static void make_wait(actor *me, draft *d, uint32_t part) {
    claim *c = pick_claim(me, d);
    if (c) {
        add_wait(d, part, c);
    }
}

static void make_list_waits(actor *me, draft *d) {
    uint32_t count = chance(me, 50) ? 0 : 1 + pick(me, LIST);
    while (d->wait_count < count) {
        claim *c = pick_claim(me, d);
        if (!c) {
            break;
        }
        d->waits[d->wait_count++] = c;
        end_follow(&d->start, &c->end);
    }
}

/* Queues of one submission may wait for each other where each has its lane. */
static void make_mutual_wait(draft *d, uint32_t part) {
    uint32_t other = 1 - part;
    if (d->part_count < 2 || d->kinds[0] == d->kinds[1] || !W.copy_lanes) {
        return;
    }
    for (uint32_t i = d->counts[other]; i > 0; i--) {
        const step *s = &d->steps[other][i - 1];
        if (s->kind == STEP_RAISE && s->on->end.mask == REACHED) {
            add_wait(d, part, s->on);
            return;
        }
    }
}

/* ---- work and raises ---- */

/* Does a command run that stands here? 2: perhaps. */
static uint8_t how_sure(const end *state) {
    return state->mask == REACHED ? 1 : state->mask & REACHED ? 2 : 0;
}

static void make_store(actor *me, draft *d, uint32_t part) {
    sub *s = &me->subs[d->index];
    if (s->words < WORDS) {
        add_step(d, part, STEP_PUT)->word = s->word + s->words;
        s->ran[s->words++] = how_sure(&d->states[part]);
    }
}

/* A host command; one that succeeds for sure may set a signal. */
static void make_host(actor *me, draft *d, uint32_t part) {
    sub *s = &me->subs[d->index];
    end *state = &d->states[part];
    if (s->host != 3) {
        return;
    }
    s->host = how_sure(state);
    add_step(d, part, STEP_HOST);
    if (chance(me, W.fail_percent)) {
        s->result = pick_failure(me);
        state->mask = (state->mask & ~REACHED) |
                      (state->mask & REACHED ? bit_of(HCQ_ERROR_HOST) : 0);
    } else if (state->mask == REACHED && chance(me, 30)) {
        gate g;
        new_gate(me, &g);
        s->set = hcq_at(g.signal, 1 + pick(me, 5));
        add_claim(me, s->set, state, d->index);
    }
}

/* Raises a line. Where another submission raised it before, after a wait for that
   one, at which this cannot have failed yet: so the failure begins above it. */
static void make_raise(actor *me, draft *d, uint32_t part) {
    gate *line = &me->lines[pick(me, LINES)];
    end *state = &d->states[part];
    claim *last = line->count ? line->claims[line->count - 1] : NULL;
    if (!last || line->count == EVENTS || last->end.mask != REACHED) {
        new_gate(me, line);
        last = NULL;
    }
    if (last && (last->maker != d->index || line->part != part)) {
        uint32_t words = me->subs[d->index].words;
        if (last->maker == d->index || state->mask != REACHED || d->counts[part] + 3 > MADE ||
            words == WORDS) {
            return;
        }
        if (in_batch(me, last)) {
            d->needs |= bit_of_draft(me, last->maker);
        }
        add_wait(d, part, last);
        make_store(me, d, part);       /* no wait without an order beside this one */
    }
    uint64_t rise = 1 + pick(me, 4), ask = line->value + 1 + pick(me, (uint32_t)rise);
    step *s = add_step(d, part, STEP_RAISE);
    line->value += rise;
    s->raise = hcq_at(line->signal, line->value);
    s->on = add_claim(me, hcq_at(line->signal, ask), state, d->index);
    line->claims[line->count++] = s->on;
    line->part = part;
}

static void make_step(actor *me, draft *d, uint32_t part) {
    uint32_t way = pick(me, 100);
    if (way < 30) {
        make_wait(me, d, part);
    } else if (way < 35) {
        make_mutual_wait(d, part);
    } else if (way < 60) {
        make_raise(me, d, part);
    } else if (way < 70) {
        make_host(me, d, part);
    } else {
        make_store(me, d, part);
    }
}

/* ---- submissions ---- */

static int is_owned(uint32_t lane) {
    for (uint32_t t = 0; t < THREADS; t++) {
        if (W.actors[t].lane == lane) {
            return 1;
        }
    }
    return 0;
}

/* On its own lane a thread's submissions are ordered as it made them. On those
   that belong to nobody all threads' are, but see submit_draft. */
static void make_place(actor *me, draft *d) {
    d->part_count = chance(me, 85) ? 1 : PARTS;
    d->device = pick(me, DEVICES);
    d->affinity = pick(me, 6);
    for (uint32_t k = 0; k < d->part_count; k++) {
        d->kinds[k] = chance(me, 60) ? HCQ_COMPUTE : HCQ_COPY;
    }
    if (me->lane != NEVER && d->part_count == 1 && chance(me, 40)) {
        d->device = me->lane / LANES;
        d->affinity = me->lane % LANES;
        if (W.copy_lanes) {
            d->kinds[0] = d->affinity == LANES - 1 ? HCQ_COPY : HCQ_COMPUTE;
        }
    }
    d->kept = d->part_count == 1 && d->kinds[0] == HCQ_COMPUTE && chance(me, 40);
    const int copies = d->kinds[0] == HCQ_COPY && W.copy_lanes;
    d->lane = d->device * LANES;
    d->lane += copies ? LANES - 1 : (uint32_t)(d->affinity % W.compute_lanes);
    d->own_lane = d->part_count == 1 && d->lane == me->lane && chance(me, 85);
    d->ordered = d->own_lane || (d->part_count == 1 && !is_owned(d->lane) && chance(me, 60));
    if (!d->ordered && chance(me, 20)) {
        d->affinity = HCQ_ANY_LANE;
    }
}

/* Behind those of its lane that were made before; what it raises is, too. */
static void enter_lane(actor *me, draft *d) {
    d->start.due = me->lane_end.due;
    d->start.need = me->lane_end.need;
    for (uint32_t i = 0; i < me->draft_count; i++) {
        d->follows |= me->drafts[i].own_lane ? 1u << i : 0;
    }
}

static void make_steps(actor *me, draft *d) {
    if (d->kept) {
        make_wait(me, d, 0);
        make_store(me, d, 0);
        return;
    }
    for (uint32_t i = d->part_count * (1 + pick(me, MADE)); i > 0; i--) {
        uint32_t part = pick(me, d->part_count);
        if (d->counts[part] + 1 < MADE) {
            make_step(me, d, part);
        }
    }
}

/* A later failure may be met before an earlier one of the same queue. */
static void spread_failures(draft *d) {
    for (uint32_t k = 0; k < d->part_count; k++) {
        for (uint32_t i = 0; i < d->counts[k]; i++) {
            const step *s = &d->steps[k][i];
            if (s->kind == STEP_RAISE && s->on->end.mask != REACHED) {
                s->on->end.mask |= d->states[k].mask & ~REACHED;
            }
        }
    }
}

static void make_draft(actor *me) {
    draft *d = &me->drafts[me->draft_count];
    sub *s = &me->subs[me->sub_count];
    memset(d, 0, sizeof *d);
    memset(s, 0, sizeof *s);
    d->index = me->sub_count;
    make_place(me, d);
    s->host = 3;
    s->device = (uint8_t)d->device;
    s->own_lane = (uint8_t)d->own_lane;
    s->word = (me->index * W.subs + d->index) * WORDS;
    d->start = nothing;
    if (d->own_lane) {
        enter_lane(me, d);
    }
    make_list_waits(me, d);
    for (uint32_t k = 0; k < d->part_count; k++) {
        d->states[k] = d->start;
    }
    make_steps(me, d);
    spread_failures(d);
    int sure = 1;
    for (uint32_t k = 0; k < d->part_count; k++) {
        sure &= d->states[k].mask == REACHED;
    }
    s->own = add_claim(me, W.always.point, &nothing, d->index);
    s->own->sub = d->index;
    if (sure && !d->kept) {
        make_data(me, d, s->own);
    }
    d->end = d->start;
    for (uint32_t k = 0; k < d->part_count; k++) {
        end_follow(&d->end, &d->states[k]);
    }
    s->own->end = d->end;
    if (d->own_lane) {
        moves_join(&me->lane_end.due, &d->end.due);
    }
    if (d->own_lane && d->end.mask == REACHED) {
        moves_join(&me->lane_end.need, &d->end.need);
    }
    me->sub_count++;
    me->draft_count++;
}

/* Some submissions of the batch raise one signal in their lists, and nothing orders
   them. What is below a raise that can succeed may be reached or fail. */
static void make_group(actor *me) {
    draft *members[BATCH];
    uint32_t count = 0, reach = 0;
    uint64_t value = 0;
    end all = nothing;
    gate g;
    new_gate(me, &g);
    for (uint32_t i = 0; i < me->draft_count && count < 4; i++) {
        draft *d = &me->drafts[i];
        if (chance(me, 60)) {
            continue;
        }
        value += 1 + pick(me, 3);
        d->raise = hcq_at(g.signal, value);
        d->follows |= count ? 1u << (members[count - 1] - me->drafts) : 0;
        all.mask |= d->end.mask;
        moves_join(&all.due, &d->end.due);
        members[count++] = d;
    }
    me->group = me->claim_count;
    me->group_count = count;
    for (uint32_t i = count; i > 0; i--) {
        draft *d = members[i - 1];
        end e = all;
        reach |= d->end.mask & REACHED;
        e.mask = count == 1 ? d->end.mask : (all.mask & ~REACHED) | reach;
        claim *c = add_claim(me, d->raise, &e, members[count - 1]->index);
        c->look_only = 1;              /* until the batch is submitted: see run_batch */
    }
}

/* ---- recording and submitting ---- */

static hcq_result host_run(void *user) {
    sub *s = (sub *)user;
    __atomic_add_fetch(&s->calls, 1, __ATOMIC_RELEASE);
    if (s->set.value) {
        MUST(hcq_signal_set(s->set.signal, s->set.value));
    }
    return s->result;
}

static void record_kernel(hcq_queue *q, uint32_t device, uint32_t word) {
    put_args args = {W.words[device].address, word, word + 1};
    MUST_RECORD(hcq_queue_exec(q, W.put[device], &args, sizeof args, dims_one, dims_one));
}

static void record_put(actor *me, hcq_queue *q, const draft *d, uint32_t part, uint32_t word) {
    if (d->kinds[part] == HCQ_COMPUTE && chance(me, 50)) {
        record_kernel(q, d->device, word);
    } else {
        hcq_buffer dst = hcq_view(W.words[d->device], (uint64_t)word * 4, 4);
        MUST_RECORD(record_word(q, dst, word + 1, 4));
    }
}

static hcq_queue *record_fresh(actor *me, const draft *d, uint32_t part) {
    hcq_queue **q = &me->queues[d->device][d->kinds[part]][part];
    if (*q && pick(me, 8) == 0) {      /* also while it is pending */
        hcq_queue_destroy(*q);
        *q = NULL;
    }
    MUST(*q ? hcq_queue_reset(*q)
            : hcq_queue_create(W.devices[d->device], d->kinds[part], q));
    for (uint32_t i = 0; i < d->counts[part]; i++) {
        const step *s = &d->steps[part][i];
        switch (s->kind) {
        case STEP_WAIT: MUST_RECORD(hcq_queue_wait(*q, s->on->point)); break;
        case STEP_RAISE: MUST_RECORD(hcq_queue_signal(*q, s->raise)); break;
        case STEP_PUT: record_put(me, *q, d, part, s->word); break;
        case STEP_DATA: record_data(*q, me, d, &s->op); break;
        case STEP_HOST: MUST_RECORD(hcq_queue_host(*q, host_run, &me->subs[d->index])); break;
        }
    }
    if (pick(me, 10) == 0) {
        MUST(hcq_queue_bind(*q, W.devices[d->device]));
    }
    return *q;
}

/* A queue that is used again: a wait and a kernel, whose value is updated, and whose
   index each submission brings. */
static hcq_queue *record_kept(actor *me, const draft *d, uint64_t *index) {
    kept *k = &me->kept[d->device];
    const step *first = d->steps[0], *put = &first[d->counts[0] - 1];
    hcq_point wait = first->kind == STEP_WAIT ? first->on->point : W.always.point;
    if (!k->queue || k->uses++ == 100) {
        hcq_queue_destroy(k->queue);
        k->uses = 0;
        MUST(hcq_queue_create(W.devices[d->device], HCQ_COMPUTE, &k->queue));
        MUST_RECORD(hcq_queue_wait(k->queue, wait));
        record_kernel(k->queue, d->device, 0);
        MUST(hcq_queue_variable(k->queue, 1, HCQ_PART_ARG + offsetof(put_args, index), 0, 0));
        if (chance(me, 60)) {
            MUST(hcq_queue_bind(k->queue, W.devices[d->device]));
        }
    }
    MUST(hcq_queue_update_wait(k->queue, 0, &wait.signal, wait.value));
    uint32_t value = put->word + 1;
    MUST(hcq_queue_update_arg(k->queue, 1, offsetof(put_args, value), &value, sizeof value));
    *index = put->word;
    return k->queue;
}

/* Some wait at once: for an answer that is one of those that may be. */
static void submit(actor *me, const draft *d, claim *own) {
    hcq_device *device = W.devices[d->device];
    hcq_point waits[LIST];
    hcq_queue *queues[PARTS];
    uint64_t index = 0;
    for (uint32_t i = 0; i < d->wait_count; i++) {
        waits[i] = d->waits[i]->point;
    }
    for (uint32_t k = 0; k < d->part_count; k++) {
        queues[k] = d->kept ? record_kept(me, d, &index) : record_fresh(me, d, k);
    }
    const hcq_value number = hcq_value_number(index);
    hcq_submission s = {.waits = waits, .wait_count = d->wait_count, .queues = queues,
                        .queue_count = d->part_count, .signals = &d->raise,
                        .signal_count = d->raise.value != 0, .affinity = d->affinity,
                        .flags = d->ordered ? 0 : HCQ_UNORDERED, .values = &number,
                        .value_count = d->kept ? 1 : 0};
    if (chance(me, 5)) {
        hcq_result r = hcq_submit_and_wait(device, &s, 1, pick(me, 100000), &own->point);
        check_answer("submit_and_wait", own, r);
    } else {
        MUST(hcq_submit(device, &s, 1, &own->point));
    }
}

/* Waits for a raise that is not submitted yet, or for one that does. */
static int is_early(const actor *me, const draft *d) {
    for (uint32_t i = 0; i < me->draft_count; i++) {
        const draft *other = &me->drafts[i];
        uint32_t bit = 1u << i;
        if (((d->needs & bit) && !other->submitted) ||
            (((d->needs | d->follows) & bit) && other->early)) {
            return 1;
        }
    }
    return 0;
}

/* On a lane that others use, too, what is not yet sure to get on would be a cycle
   some time: it does without the lane's order. */
static void submit_draft(actor *me, draft *d) {
    d->early = is_early(me, d);
    if (!d->own_lane && (d->early || !moves_done(&d->end.due))) {
        d->ordered = 0;
    }
    submit(me, d, me->subs[d->index].own);
    d->submitted = 1;
    me->open[me->open_count++] = d->index;
}
