/* data.h - what submissions of answers.c do to small buffers of their thread: after
   one another, as a model does it, because each waits for those that it meets. */

static step *add_step(draft *d, uint32_t part, step_kind kind) {
    step *s = &d->steps[part][d->counts[part]++];
    *s = (step){.kind = kind};
    return s;
}

static void add_wait(draft *d, uint32_t part, claim *c) {
    add_step(d, part, STEP_WAIT)->on = c;
    end_follow(&d->states[part], &c->end);
}

static void model_op(actor *me, const op *o) {
    uint32_t *dst = me->data[o->dst].model + o->dst_at;
    const uint32_t *src = me->data[o->src].model + o->src_at;
    for (uint32_t i = 0; i < o->count; i++) {
        uint64_t pattern = o->value >> (o->value_size == 8 ? i % 2 * 32 : 0);
        switch (o->kind) {
        case OP_COPY: dst[i] = src[i]; break;
        case OP_MIX: dst[i] = dst[i] * 31u + src[i] + (uint32_t)o->value; break;
        default:
            dst[i] = o->value_size == 1   ? (uint32_t)(pattern & 0xff) * 0x01010101u
                     : o->value_size == 2 ? (uint32_t)(pattern & 0xffff) * 0x00010001u
                                          : (uint32_t)pattern;
        }
    }
}

static uint32_t pick_buffer(actor *me, uint32_t device) {
    device = W.mapped && chance(me, 25) ? pick(me, DEVICES) : device;
    return device * BUFFERS + pick(me, BUFFERS);
}

static void draw_op(actor *me, const draft *d, op *o) {
    o->kind = (op_kind)pick(me, d->kinds[0] == HCQ_COPY ? OP_MIX : OP_KINDS);
    o->dst = pick_buffer(me, d->device);
    do {
        o->src = pick_buffer(me, d->device);
    } while (o->src == o->dst);
    o->value_size = 1u << pick(me, 4);
    o->value = test_random(&me->random);
    o->count = 2 + 2 * pick(me, DATA_WORDS / 4);
    if (o->kind == OP_WRITE) {
        o->value_size = o->value_size < 8 ? 4 : 8;
        o->count = o->value_size / 4;
    } else if (o->kind != OP_FILL) {
        o->count -= pick(me, 2);
    }
    o->dst_at = pick(me, (DATA_WORDS - o->count) / 2 + 1) * 2;
    o->src_at = pick(me, DATA_WORDS - o->count + 1);
}

/* A lane of its own is in order without. */
static void wait_for_data(actor *me, draft *d, claim *c) {
    if (!c || c->sub == d->index || (d->own_lane && me->subs[c->sub].own_lane && chance(me, 80))) {
        return;
    }
    if (c->sub >= me->first) {
        d->needs |= 1u << (c->sub - me->first);
        d->follows |= 1u << (c->sub - me->first);
    }
    add_wait(d, 0, c);
}

/* The submission's own claim is reached for sure: so it runs, and can be waited for. */
static void make_data(actor *me, draft *d, claim *own) {
    while (d->counts[0] + READERS + 3 <= STEPS && chance(me, 70)) {
        op o;
        draw_op(me, d, &o);
        data *dst = &me->data[o.dst], *src = &me->data[o.src];
        int reads = o.kind == OP_COPY || o.kind == OP_MIX;
        if (reads && src->reader_count == READERS) {
            return;
        }
        wait_for_data(me, d, dst->writer);
        for (uint32_t i = 0; i < dst->reader_count; i++) {
            wait_for_data(me, d, dst->readers[i]);
        }
        if (reads) {
            wait_for_data(me, d, src->writer);
            src->readers[src->reader_count++] = own;
        }
        dst->writer = own;
        dst->reader_count = 0;
        add_step(d, 0, STEP_DATA)->op = o;
        model_op(me, &o);
    }
}

static void record_data(hcq_queue *q, const actor *me, const draft *d, const op *o) {
    hcq_buffer to = me->data[o->dst].buffer, from = me->data[o->src].buffer;
    hcq_buffer dst = hcq_view(to, o->dst_at * 4, o->count * 4);
    mix_args args = {dst.address, from.address + o->src_at * 4, o->count, (uint32_t)o->value};
    switch (o->kind) {
    case OP_COPY:
        MUST_RECORD(hcq_queue_copy(q, dst, hcq_view(from, o->src_at * 4, o->count * 4),
                                   o->count * 4));
        break;
    case OP_FILL:
        MUST_RECORD(hcq_queue_fill(q, dst, o->count * 4, o->value, o->value_size));
        break;
    case OP_WRITE: MUST_RECORD(record_word(q, dst, o->value, o->value_size)); break;
    default:
        MUST_RECORD(hcq_queue_exec(q, W.mix[d->device], &args, sizeof args,
                                   hcq_dim((o->count + 7) / 8, 1, 1), hcq_dim(8, 1, 1)));
    }
}

static void check_data(const actor *me) {
    uint32_t got[DATA_WORDS];
    for (uint32_t b = 0; b < DEVICES * BUFFERS; b++) {
        MUST(hcq_copyout(got, me->data[b].buffer, sizeof got));
        for (uint32_t i = 0; i < DATA_WORDS; i++) {
            WRONG_IF(got[i] != me->data[b].model[i], "thread %u: buffer %u word %u is %#x, not %#x",
                     me->index, b, i, got[i], me->data[b].model[i]);
        }
    }
}
