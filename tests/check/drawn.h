/* drawn.h - programs of three lanes drawn at random, and the same with one wait less: what is
   told, and which waits change nothing. Part of races.c. */

enum { STEPS = 14 };

typedef struct area { uint32_t buffer, first, end; int writes; } area;

/* A submission: a fill or a copy, and what it waits for. */
typedef struct step {
    area areas[2];
    uint32_t count, lane;
    uint8_t waits[STEPS], follows[STEPS]; /* of earlier ones: those waited for; all before it */
} step;

typedef struct random_program { step steps[STEPS]; } random_program;

static int steps_meet(const step *a, const step *b) {
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            const area *x = &a->areas[i], *y = &b->areas[k];
            if (x->buffer == y->buffer && (x->writes || y->writes) && x->first < y->end &&
                y->first < x->end) {
                return 1;
            }
        }
    }
    return 0;
}

/* What step `n` follows by its lane and its waits. */
static void step_order(random_program *p, uint32_t n) {
    step *s = &p->steps[n];
    memset(s->follows, 0, sizeof s->follows);
    for (uint32_t i = 0; i < n; i++) {
        if (p->steps[i].lane != s->lane && !s->waits[i]) {
            continue;
        }
        s->follows[i] = 1;
        for (uint32_t k = 0; k < i; k++) {
            s->follows[k] |= p->steps[i].follows[k];
        }
    }
}

static void program_draw(random_program *p, uint64_t *random) {
    memset(p, 0, sizeof *p);
    for (uint32_t n = 0; n < STEPS; n++) {
        step *s = &p->steps[n];
        uint32_t words = 1 + (uint32_t)(test_random(random) % 12);
        s->lane = (uint32_t)(test_random(random) % LANES);
        s->count = 1 + (uint32_t)(test_random(random) % 2);
        for (uint32_t i = 0; i < s->count; i++) { /* a copy goes from one buffer to the other */
            area *a = &s->areas[i];
            a->buffer = i ? 1 - s->areas[0].buffer : (uint32_t)(test_random(random) % 2);
            a->first = (uint32_t)(test_random(random) % 50) * 4;
            a->end = a->first + words * 4;
            a->writes = i == 0;
        }
        for (uint32_t i = 0; i < n; i++) {
            s->waits[i] = test_random(random) % 10 == 0;
        }
        step_order(p, n);
        for (uint32_t i = n; i-- > 0;) {
            s->waits[i] |= !s->follows[i] && steps_meet(&p->steps[i], s);
            step_order(p, n);
        }
    }
}

/* Submits it all; 1: a race was told, *pair: between two that nothing orders by now. */
static int program_go(const random_program *p, int *pair) {
    hcq_queue *queues[STEPS];
    hcq_point done[STEPS];
    const hcq_buffer buffers[2] = {P.x, P.y};
    const uint64_t before = test_query(P.dev, HCQ_QUERY_RACES);
    char label[16], one[24], two[24];
    log_clear();
    for (uint32_t n = 0; n < STEPS; n++) {
        const step *s = &p->steps[n];
        hcq_point waits[STEPS];
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (s->waits[i]) {
                waits[count++] = done[i];
            }
        }
        snprintf(label, sizeof label, "step%u", n);
        hcq_queue *q = queues[n] = labelled(HCQ_COMPUTE, label);
        const area *to = &s->areas[0], *from = &s->areas[1];
        hcq_buffer dst = AT(buffers[to->buffer], to->first, to->end - to->first);
        const hcq_buffer src = AT(buffers[from->buffer], from->first, dst.size);
        CHECK_INDEX(s->count == 1 ? hcq_queue_fill(q, dst, dst.size, 7, 4)
                                  : hcq_queue_copy(q, dst, src, dst.size), 0);
        CHECK_OK(SUBMIT(P.dev, q, &done[n], .waits = waits, .wait_count = count,
                        .affinity = s->lane));
    }
    const uint64_t races = races_of(P.dev);
    *pair = 0;
    for (uint32_t n = 0; n < STEPS; n++) {
        snprintf(two, sizeof two, "of 'step%u'", n);
        for (uint32_t i = 0; i < n && !*pair; i++) {
            snprintf(one, sizeof one, "of 'step%u'", i);
            *pair = !p->steps[n].follows[i] && steps_meet(&p->steps[i], &p->steps[n]) &&
                    log_has(one) && log_has(two);
        }
        hcq_queue_destroy(queues[n]);
    }
    return races != before;
}

/* Are there two that meet, and that nothing orders? */
static int program_races(random_program *p) {
    uint32_t missing = 0;
    for (uint32_t n = 0; n < STEPS; n++) {
        step_order(p, n);
        for (uint32_t i = 0; i < n; i++) {
            missing += !p->steps[n].follows[i] && steps_meet(&p->steps[i], &p->steps[n]);
        }
    }
    return missing != 0;
}

/* Takes one wait out that matters; 0: there is none, or `any` was taken. */
static int program_break(random_program *p, uint64_t *random, int any) {
    uint32_t from = (uint32_t)(test_random(random) % (STEPS * STEPS));
    for (uint32_t k = 0; k < STEPS * STEPS; k++) {
        uint32_t at = (from + k) % (STEPS * STEPS);
        uint8_t *wait = &p->steps[at / STEPS].waits[at % STEPS];
        if (!*wait) {
            continue;
        }
        *wait = 0;
        if (program_races(p)) {
            return 1;
        }
        if (any) {
            return 0;
        }
        *wait = 1;
    }
    (void)program_races(p);
    return 0;
}

TEST(random_programs) {
    const uint32_t programs_count = T.quick ? 100 : 500;
    uint64_t random = T.seed;
    uint32_t broken = 0, told = 0, paired = 0, wrong = 0;
    program_open(0);
    for (uint32_t i = 0; i < programs_count; i++) {
        random_program p;
        int pair;
        program_draw(&p, &random);
        wrong += program_go(&p, &pair) ? 1u : 0u;
        if (!program_break(&p, &random, i % 4 == 0)) { /* nor without one that did not matter */
            wrong += program_go(&p, &pair) ? 1u : 0u;
            continue;
        }
        broken++;
        told += program_go(&p, &pair) ? 1u : 0u;
        paired += pair ? 1u : 0u;
    }
    fprintf(stderr, "%u programs, %u told without a reason; %u with a wait less, %u told, %u with the "
            "pair\n", programs_count, wrong, broken, told, paired);
    CHECK_U64(wrong, 0);
    CHECK(broken > programs_count / 4 && paired * 100 >= broken * 95);
}

/* A wait of the drawn ones is hinted at if without it the rest orders the same, and only then;
   without it that is so for the others. */
TEST(hints_are_true) {
    const uint32_t count = T.quick ? 30 : 150;
    uint64_t random = T.seed + 7;
    uint32_t hints = 0, wrong = 0;
    for (uint32_t i = 0; i < count; i++) {
        random_program p;
        int pair;
        program_open(HCQ_DEVICE_CHECK_WAITS);
        program_draw(&p, &random);
        (void)program_go(&p, &pair);
        settle();
        for (uint32_t n = 0; n < STEPS; n++) {
            char text[32];
            step all = p.steps[n];
            uint32_t number = 0, left = 0;
            snprintf(text, sizeof text, "step%u", n);
            for (uint32_t k = 0; k < n; k++) {
                if (!all.waits[k]) {
                    continue;
                }
                p.steps[n].waits[k] = 0;
                step_order(&p, n);
                left = memcmp(p.steps[n].follows, all.follows, sizeof all.follows) == 0;
                p.steps[n] = all;
                hints += left;
                wrong += left != (uint32_t)hinted("wait", number++, text);
            }
        }
    }
    fprintf(stderr, "%u programs, %u waits that change nothing, %u wrong\n", count, hints, wrong);
    CHECK_U64(wrong, 0);
    CHECK(hints > count / 2);
}
