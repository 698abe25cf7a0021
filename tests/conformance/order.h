/* Order within and between lanes, hold-back, submissions, timelines.
   Part of conformance.c. */
#include "shared.h"

/* Submissions of one lane run in order: k_mix does not commute. */
static void same_lane_in_order(void **state) {
    (void)state;
    enum { QUEUES = 7, ROUNDS = 60, N = 300 };
    hcq_program *mix = make_mix(T.dev);
    hcq_buffer a = make_words(T.dev, N), b = make_words(T.dev, N);
    hcq_queue *queues[QUEUES];
    static uint32_t model[N];
    memset(model, 0, sizeof model);
    for (uint32_t i = 0; i < QUEUES; i++) {
        mix_args args = {a.address, b.address, N, i + 1};
        queues[i] = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(queues[i], mix, &args, sizeof args, hcq_dim(10, 1, 1),
                                   hcq_dim(32, 1, 1)),
                    0);
        if (i % 2) {
            CHECK_OK(hcq_queue_bind(queues[i], T.dev));
        }
    }
    for (uint32_t round = 0; round < ROUNDS * QUEUES; round++) {
        uint32_t i = round * 5 % QUEUES;
        CHECK_OK(hcq_queue_submit(queues[i], T.dev, NULL));
        for (uint32_t j = 0; j < N; j++) {
            model[j] = model[j] * 31u + i + 1;
        }
    }
    CHECK_BYTES(a, model, sizeof model);
}

/* Who signals what: every pair of lanes of the two devices. */
typedef struct lane_pick { hcq_device *device; hcq_queue_kind kind; } lane_pick;

/* Waits before it is signalled, in both directions, between all lanes. */
static void wait_before_signal_all_lanes(void **state) {
    (void)state;
    const lane_pick lanes[4] = {{T.dev, HCQ_COMPUTE}, {T.dev, HCQ_COPY},
                                {T.dev2, HCQ_COMPUTE}, {T.dev2, HCQ_COPY}};
    for (uint32_t from = 0; from < 4; from++) {
        for (uint32_t to = 0; to < 4; to++) {
            if (from == to) {
                continue;
            }
            hcq_signal s = make_signal(lanes[(from + to) % 4].device, 0);
            hcq_queue *late = make_queue(lanes[to].device, lanes[to].kind);
            hcq_queue *first = make_queue(lanes[from].device, lanes[from].kind);
            hcq_buffer a = make_words(lanes[to].device, 4);
            hcq_point waited, raised;
            CHECK_INDEX(hcq_queue_wait(late, hcq_at(s, 1)), 0);
            CHECK_INDEX(hcq_queue_write(late, a, 5, 4), 1);
            CHECK_INDEX(hcq_queue_signal(first, hcq_at(s, 1)), 0);
            if (T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE &&
                lanes[to].device == lanes[from].device) {
                /* One lane: the consumer may overtake only unordered. */
                hcq_submission sub = submission(&late, 1);
                sub.flags = HCQ_UNORDERED;
                CHECK_OK(hcq_submit(lanes[to].device, &sub, 1, &waited));
            } else {
                CHECK_OK(hcq_queue_submit(late, lanes[to].device, &waited));
            }
            CHECK_RESULT(test_poll(waited), HCQ_TIMEOUT);
            CHECK_OK(hcq_queue_submit(first, lanes[from].device, &raised));
            WAIT_OK(raised);
            WAIT_OK(waited);
            CHECK_U64(READ32(a, 0), 5);
        }
    }
}

static void host_releases(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_signal s = make_signal(T.dev, 0), t = make_signal(T.dev, 0);
    hcq_point done;
    /* Several waits and signals in one recording: host and queue take turns. */
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(hcq_queue_wait(q, hcq_at(s, i + 1)) >= 0);
        CHECK(record_add(q, add, a, 0, 1) >= 0);
        CHECK(hcq_queue_signal(q, hcq_at(t, i + 1)) >= 0);
    }
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_RESULT(test_poll(hcq_at(t, i + 1)), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_set(s, i + 1));
        WAIT_OK(hcq_at(t, i + 1));
    }
    WAIT_OK(done);
    CHECK_U64(READ32(a, 0), 10);
}

/* Two queues that wait for each other in the middle, many times. */
static void record_mutual(hcq_queue *compute, hcq_queue *copy, hcq_buffer a, hcq_buffer b,
                          hcq_signal s, hcq_signal t, uint32_t rounds) {
    hcq_program *add = make_add(T.dev);
    for (uint32_t i = 0; i < rounds; i++) {
        CHECK(record_add(compute, add, a, 0, 1) >= 0);
        CHECK(hcq_queue_signal(compute, hcq_at(s, i + 1)) >= 0);
        CHECK(hcq_queue_wait(compute, hcq_at(t, i + 1)) >= 0);
        CHECK(hcq_queue_wait(copy, hcq_at(s, i + 1)) >= 0);
        CHECK(hcq_queue_copy(copy, hcq_view(b, i * 4, 4), a, 4) >= 0);
        CHECK(hcq_queue_signal(copy, hcq_at(t, i + 1)) >= 0);
    }
}

static void mutual_waits(void **state) {
    (void)state;
    enum { ROUNDS = 40 };
    for (int way = 0; way < 4; way++) {
        if (way < 3 && T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE) {
            continue;                  /* on one lane that is a cycle, unless unordered */
        }
        hcq_queue *compute = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
        hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev, ROUNDS);
        hcq_signal s = make_signal(T.dev, 0), t = make_signal(T.dev, 0);
        hcq_point done[2];
        record_mutual(compute, copy, a, b, s, t, ROUNDS);
        hcq_queue *pair[2] = {way % 2 ? copy : compute, way % 2 ? compute : copy};
        if (way == 0) {                /* one submission with both */
            hcq_submission sub = submission(pair, 2);
            CHECK_OK(hcq_submit(T.dev, &sub, 1, &done[0]));
            done[1] = done[0];
        } else if (way < 3) {          /* two, either first */
            CHECK_OK(hcq_queue_submit(pair[0], T.dev, &done[0]));
            CHECK_OK(hcq_queue_submit(pair[1], T.dev, &done[1]));
        } else {                       /* unordered: a lane edge is not needed */
            hcq_submission subs[2] = {submission(&pair[0], 1), submission(&pair[1], 1)};
            subs[0].flags = subs[1].flags = HCQ_UNORDERED;
            CHECK_OK(hcq_submit(T.dev, &subs[0], 1, &done[0]));
            CHECK_OK(hcq_submit(T.dev, &subs[1], 1, &done[1]));
        }
        WAIT_OK(done[0]);
        WAIT_OK(done[1]);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            CHECK_U64(READ32(b, i), i + 1);
        }
    }
}

/* Ping-pong over both devices, mid-recording. */
static void mutual_waits_of_devices(void **state) {
    (void)state;
    enum { ROUNDS = 30 };
    hcq_queue *q[2] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev2, HCQ_COMPUTE)};
    hcq_buffer a[2] = {make_words(T.dev, 2), make_words(T.dev2, 2)};
    hcq_program *add[2] = {make_add(T.dev), make_add(T.dev2)};
    hcq_signal s[2] = {make_signal(T.dev, 0), make_signal(T.dev2, 0)};
    hcq_point done[2];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            if (k == 1 || i > 0) {
                CHECK(hcq_queue_wait(q[k], hcq_at(s[1 - k], k ? i + 1 : i)) >= 0);
            }
            CHECK(record_add(q[k], add[k], a[k], 0, i + 1) >= 0);
            CHECK(hcq_queue_signal(q[k], hcq_at(s[k], i + 1)) >= 0);
        }
    }
    CHECK_OK(hcq_queue_submit(q[1], T.dev2, &done[1])); /* the consumer first */
    CHECK_OK(hcq_queue_submit(q[0], T.dev, &done[0]));
    WAIT_OK(done[0]);
    WAIT_OK(done[1]);
    CHECK_U64(READ32(a[0], 0), ROUNDS * (ROUNDS + 1) / 2);
    CHECK_U64(READ32(a[1], 0), ROUNDS * (ROUNDS + 1) / 2);
}

/* A held submission stops the later ones of its lane and nobody else. */
static void hold_back_stays_on_its_lane(void **state) {
    (void)state;
    if (T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE) {
        SKIP("one lane");
        return;
    }
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_queue *held = make_queue(T.dev, HCQ_COMPUTE), *behind = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *free_lane = make_queue(T.dev, HCQ_COPY), *other = make_queue(T.dev2, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 8), b = make_words(T.dev2, 8);
    hcq_point d_held, d_behind, d_free, d_other;
    CHECK_INDEX(hcq_queue_write(held, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 1);
    CHECK_INDEX(hcq_queue_copy(held, hcq_view(a, 8, 4), a, 4), 2);
    CHECK_INDEX(hcq_queue_write(behind, a, 2, 4), 0);
    CHECK_INDEX(hcq_queue_write(free_lane, hcq_view(a, 4, 4), 3, 4), 0);
    CHECK_INDEX(hcq_queue_write(other, b, 4, 4), 0);
    CHECK_OK(hcq_queue_submit(held, T.dev, &d_held));
    CHECK_OK(hcq_queue_submit(behind, T.dev, &d_behind));
    CHECK_OK(hcq_queue_submit(free_lane, T.dev, &d_free));
    CHECK_OK(hcq_queue_submit(other, T.dev2, &d_other));
    WAIT_OK(d_free);
    WAIT_OK(d_other);
    CHECK_RESULT(test_poll(d_held), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(d_behind), HCQ_TIMEOUT);
    uint64_t prefix = 99;
    CHECK_OK(hcq_signal_value(hcq_device_timeline(T.dev), &prefix));
    CHECK(prefix < hcq_device_timeline_value(T.dev) - 3); /* a prefix, not a count */
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 2);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(d_held);
    WAIT_OK(d_behind);
    WAIT_OK(hcq_at(hcq_device_timeline(T.dev), hcq_device_timeline_value(T.dev) - 1));
    CHECK_U64(READ32(a, 0), 2);
    CHECK_U64(READ32(a, 1), 3);
    CHECK_U64(READ32(a, 2), 1);        /* read before `behind` wrote: lane order */
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
}

static void unordered_overtakes(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_queue *held = make_queue(T.dev, HCQ_COMPUTE), *fast = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_point d_held, d_fast;
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 0);
    CHECK_INDEX(hcq_queue_write(held, a, 1, 4), 1);
    CHECK_INDEX(hcq_queue_write(fast, a, 2, 4), 0);
    CHECK_INDEX(hcq_queue_signal(fast, hcq_at(gate, 1)), 1);
    CHECK_OK(hcq_queue_submit(held, T.dev, &d_held));
    hcq_submission sub = submission(&fast, 1);
    sub.flags = HCQ_UNORDERED;
    CHECK_OK(hcq_submit(T.dev, &sub, 1, &d_fast)); /* releases what it overtook */
    WAIT_OK(d_fast);
    WAIT_OK(d_held);
    CHECK_U64(READ32(a, 0), 1);
}

/* A consumer ahead of its only producer on one lane is named as a cycle, and
   the host can still resolve it. */
static void cycle_is_named(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *consumer = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *producer = make_queue(T.dev, HCQ_COMPUTE);
    static char text[32768];
    hcq_point d1, d2;
    CHECK_INDEX(hcq_queue_wait(consumer, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_signal(producer, hcq_at(s, 2)), 0);
    CHECK_OK(hcq_queue_submit(consumer, T.dev, &d1));
    CHECK_OK(hcq_queue_submit(producer, T.dev, &d2));
    CHECK_RESULT(hcq_wait(&d1, 1, HCQ_ALL, SECOND / 50), HCQ_TIMEOUT);
    hcq_device_dump(T.dev, text, sizeof text);
    CHECK(strstr(text, "cycle") || log_has("cycle"));
    CHECK_OK(hcq_signal_set(s, 1));
    WAIT_OK(d1);
    WAIT_OK(d2);
}

/* Waits and signals of the submission itself, with two queues in it. */
static void submission_lists(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0), gate2 = make_signal(T.dev2, 0);
    hcq_signal out = make_signal(T.dev, 0), out2 = make_signal(T.dev2, 0);
    hcq_queue *queues[2] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COPY)};
    hcq_buffer a = make_words(T.dev, 4096), b = make_words(T.dev, 4096);
    CHECK_INDEX(hcq_queue_fill(queues[0], a, 16384, 7, 4), 0);
    CHECK_INDEX(hcq_queue_fill(queues[1], b, 16384, 8, 4), 0);
    const hcq_point waits[2] = {hcq_at(gate, 1), hcq_at(gate2, 5)};
    const hcq_point signals[2] = {hcq_at(out, 3), hcq_at(out2, 4)};
    hcq_submission sub = submission(queues, 2);
    sub.waits = waits;
    sub.wait_count = 2;
    sub.signals = signals;
    sub.signal_count = 2;
    hcq_point done;
    CHECK_OK(hcq_submit(T.dev, &sub, 1, &done));
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(signals[0]), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(gate2, 5));
    CHECK_OK(hcq_wait(signals, 2, HCQ_ALL, BOUND));
    WAIT_OK(done);
    CHECK_U64(READ32(a, 4095), 7);
    CHECK_U64(READ32(b, 4095), 8);
}

/* A batch of submissions in one call, each waiting for the one before. */
static void submission_batches(void **state) {
    (void)state;
    enum { N = 50 };
    hcq_submission subs[N];
    hcq_point waits[N], signals[N], done;
    hcq_queue *queues[2] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COMPUTE)};
    hcq_program *mix = make_mix(T.dev);
    hcq_buffer a = make_words(T.dev, 4), b = make_words(T.dev, 4);
    hcq_signal s = make_signal(T.dev, 0);
    uint32_t model = 0;
    for (uint32_t i = 0; i < 2; i++) {
        mix_args args = {a.address, b.address, 1, i + 1};
        CHECK_INDEX(hcq_queue_exec(queues[i], mix, &args, sizeof args, hcq_dim(1, 1, 1),
                                   hcq_dim(1, 1, 1)),
                    0);
    }
    for (uint32_t i = 0; i < N; i++) { /* the array is in order, so are the waits */
        subs[i] = submission(&queues[i % 2], 1);
        waits[i] = hcq_at(s, i);
        signals[i] = hcq_at(s, i + 1);
        subs[i].waits = &waits[i];
        subs[i].wait_count = 1;
        subs[i].signals = &signals[i];
        subs[i].signal_count = 1;
        subs[i].flags = HCQ_UNORDERED;
        model = model * 31u + i % 2 + 1;
    }
    uint64_t before = hcq_device_timeline_value(T.dev);
    CHECK_OK(hcq_submit(T.dev, subs, N, &done));
    CHECK_U64(hcq_device_timeline_value(T.dev), before + N);
    WAIT_OK(done);
    WAIT_OK(hcq_at(s, N));
    CHECK_U64(READ32(a, 0), model);
    CHECK_OK(hcq_submit(T.dev, subs, 0, NULL)); /* nothing is fine */
    signals[2] = hcq_at(s, N);                  /* does not rise: the rest is not submitted */
    signals[0] = hcq_at(s, N + 1);
    signals[1] = hcq_at(s, N + 2);
    waits[0] = waits[1] = waits[2] = hcq_at(s, 0);
    before = hcq_device_timeline_value(T.dev);
    CHECK_RESULT(hcq_submit(T.dev, subs, 3, NULL), HCQ_ERROR_INVALID);
    CHECK_U64(hcq_device_timeline_value(T.dev), before + 2);
    WAIT_OK(hcq_at(s, N + 2));
}

static void signals_must_rise(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 5);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 5)), 0); /* legal to record */
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_update_signal(q, 0, NULL, 6));
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    WAIT_OK(hcq_at(s, 6));
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID); /* stale now */
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 9)), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 8)), 1); /* below the one before */
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID);
    uint64_t value = 0;
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_U64(value, 6);               /* nothing was submitted */
    /* Between unordered producers the larger stands, the late one does nothing. */
    hcq_point high = hcq_at(s, 20), low = hcq_at(s, 10), open = hcq_at(make_signal(T.dev, 0), 1);
    hcq_point d1, d2;
    CHECK_OK(submit_lists(T.dev, &open, &low, HCQ_UNORDERED, &d1));
    CHECK_OK(submit_lists(T.dev, NULL, &high, HCQ_UNORDERED, &d2));
    WAIT_OK(high);
    log_clear();
    CHECK_OK(hcq_signal_set(open.signal, 1));
    WAIT_OK(d1);
    WAIT_OK(d2);
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_U64(value, 20);
    CHECK(log_has("10"));              /* the late one is logged */
}

/* Waits between the values that are raised; producers of one signal on several
   lanes, the larger value first. */
static void jumps_release_what_they_pass(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 0), g = make_signal(T.dev, 0);
    hcq_point gates[3], raise[3], waits[20], done[20];
    for (uint64_t i = 0; i < 3; i++) { /* raise 10, 7, 4: each behind its own gate */
        gates[i] = hcq_at(g, i + 1);
        raise[i] = hcq_at(s, 10 - 3 * i);
        CHECK_OK(submit_lists(i % 2 ? T.dev2 : T.dev, &gates[i], &raise[i], HCQ_UNORDERED,
                              NULL));
    }
    CHECK_OK(hcq_signal_set(g, 0 + 1)); /* the 10 passes everything up to 10 */
    WAIT_OK(hcq_at(s, 10));
    CHECK_OK(hcq_signal_set(g, 3));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    CHECK_OK(hcq_signal_reset(s, 0));
    for (uint64_t i = 1; i < 20; i++) {
        waits[i] = hcq_at(s, i);
        CHECK_OK(submit_lists(i % 2 ? T.dev : T.dev2, &waits[i], NULL, HCQ_UNORDERED, &done[i]));
    }
    static const uint64_t steps[] = {3, 4, 11, 12, 19};
    for (size_t k = 0; k < 5; k++) {
        hcq_point step = hcq_at(s, steps[k]);
        CHECK_OK(k % 2 ? hcq_signal_set(s, steps[k])
                       : submit_lists(T.dev, NULL, &step, HCQ_UNORDERED, NULL));
        for (uint64_t i = 1; i < 20; i++) {
            if (i <= steps[k]) {
                WAIT_OK(done[i]);
            } else {
                CHECK_RESULT(test_poll(done[i]), HCQ_TIMEOUT);
            }
        }
    }
}

/* A submission's point may be waited for by other queues and devices. */
static void points_between_devices(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a;
    CHECK_OK(hcq_alloc(T.dev, 4096, HCQ_ZEROED | HCQ_HOST_VISIBLE, &a));
    hcq_program *add = make_add(T.dev);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    hcq_point last = {{0}, 0};
    for (uint32_t i = 0; i < 50; i++) {
        hcq_point mine, theirs;
        CHECK_OK(hcq_queue_submit(q, T.dev, &mine));
        hcq_queue *w = make_queue(T.dev2, i % 2 ? HCQ_COMPUTE : HCQ_COPY);
        CHECK_INDEX(hcq_queue_wait(w, mine), 0);
        if (i > 0) {
            CHECK_INDEX(hcq_queue_wait(w, last), 1);
        }
        CHECK_OK(hcq_queue_submit(w, T.dev2, &theirs));
        hcq_queue_destroy(w);
        WAIT_OK(theirs);
        CHECK_OK(test_poll(mine));     /* implied */
        CHECK_U64(*(volatile uint32_t *)a.host, i + 1);
        last = theirs;
    }
}

/* wait_device: everything submitted there before this submission. */
static void wait_device(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point open = hcq_at(gate, 1), p1, p2, p3, watching, later;
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE), *own = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_program *add = make_add(T.dev);
    CHECK_INDEX(hcq_queue_wait_device(q, T.dev), 0);
    for (int round = 0; round < 2; round++) { /* the recording is used again */
        CHECK_OK(hcq_signal_reset(gate, 0));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &p1));
        CHECK_OK(submit_lists(T.dev, &open, NULL, HCQ_UNORDERED, &p2));
        CHECK_OK(submit_lists(T.dev, NULL, NULL, HCQ_UNORDERED, &p3));
        CHECK_OK(hcq_queue_submit(q, T.dev2, &watching));
        WAIT_OK(p1);
        WAIT_OK(p3);
        CHECK_RESULT(hcq_wait(&watching, 1, HCQ_ALL, SECOND / 100), HCQ_TIMEOUT);
        hcq_point never = hcq_at(gate, 2);
        CHECK_OK(submit_lists(T.dev, &never, NULL, HCQ_UNORDERED, &later));
        CHECK_OK(hcq_signal_set(gate, 1));
        WAIT_OK(p2);
        WAIT_OK(watching);             /* later work is not waited for */
        CHECK_RESULT(test_poll(later), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_set(gate, 2));
        WAIT_OK(later);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
    }
    CHECK_INDEX(record_add(own, add, a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_wait_device(own, T.dev), 1); /* its own device: not itself */
    CHECK_INDEX(record_add(own, add, a, 0, 1), 2);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(hcq_queue_submit(own, T.dev, NULL));
    }
    CHECK_U64(READ32(a, 0), 40);
}

/* Points stay valid over any number of counter swaps. */
static void old_points_survive_swaps(void **state) {
    (void)state;
    const uint32_t rounds = T.quick ? 3000 : 10000;
    enum { KEPT = 200 };
    static hcq_point kept[KEPT];
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_signal s = make_signal(T.dev, 0);
    CHECK_INDEX(record_add(q, add, a, 0, 1), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 1);
    CHECK_INDEX(hcq_queue_wait(copy, hcq_at(s, 1)), 0);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t i = 0; i < rounds; i++) {
        CHECK_OK(hcq_queue_update_signal(q, 1, NULL, i + 1));
        CHECK_OK(hcq_queue_submit(q, T.dev, &kept[i % KEPT]));
        if (i % 16 == 0) {             /* a point of the other lane hangs on it */
            CHECK_OK(hcq_queue_update_wait(copy, 0, NULL, i + 1));
            CHECK_OK(hcq_queue_submit(copy, T.dev, &kept[i % KEPT]));
        }
    }
    CHECK_OK(hcq_wait(kept, KEPT, HCQ_ALL, BOUND));
    for (uint32_t i = 0; i < KEPT; i++) {
        CHECK_OK(test_poll(kept[i]));
    }
    WAIT_OK(hcq_at(s, rounds));
    CHECK_U64(READ32(a, 0), rounds);
    if (T.variant->narrow) {
        CHECK(test_query(T.dev, HCQ_QUERY_COUNTER_SWAPS) >= rounds / 256);
    }
}

/* A point from before many swaps of a lane that then stays behind a gate. */
static void held_points_survive_swaps(void **state) {
    (void)state;
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point first, held, waiting, open = hcq_at(gate, 1);
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &first));
    CHECK_OK(submit_lists(T.dev, &open, NULL, HCQ_UNORDERED, &held));
    CHECK_OK(submit_lists(T.dev2, &held, NULL, 0, &waiting));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (int i = 0; i < 2000; i++) {
        hcq_submission sub = submission(&q, 1);
        sub.flags = HCQ_UNORDERED;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, NULL));
    }
    WAIT_OK(first);
    CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(waiting), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(held);
    WAIT_OK(waiting);
    CHECK_OK(test_poll(first));
}

/* More waits than any fixed list has room for, on many lanes and devices. */
static void many_waits_in_one_submission(void **state) {
    (void)state;
    enum { DEVICES = 6, SIGNALS = 120 };
    hcq_device_desc desc = test_desc();
    hcq_device *devices[DEVICES];
    hcq_signal s[SIGNALS];
    hcq_point list[SIGNALS], done[2], raised[SIGNALS];
    desc.compute_lanes = 3;
    desc.copy_lanes = 2;
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i] = test_open(0, &desc);
    }
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    for (uint32_t i = 0; i < SIGNALS; i++) {
        s[i] = make_signal(devices[i % DEVICES], 0);
        list[i] = hcq_at(s[i], 2);
        CHECK_INDEX(hcq_queue_wait(q, hcq_at(s[i], 1)), (int32_t)i);
    }
    for (int early = 0; early < 2; early++) {
        hcq_submission sub = submission(&q, 1), empty = submission(NULL, 0);
        empty.waits = list;
        empty.wait_count = SIGNALS;
        empty.flags = HCQ_UNORDERED;
        if (early) {
            CHECK_OK(hcq_submit(T.dev, &sub, 1, &done[0]));
            CHECK_OK(hcq_submit(T.dev2, &empty, 1, &done[1]));
        }
        for (uint32_t i = 0; i < SIGNALS; i++) {
            hcq_queue *r = make_queue(devices[i % DEVICES], i % 3 ? HCQ_COMPUTE : HCQ_COPY);
            hcq_buffer a = make_words(devices[i % DEVICES], 256);
            hcq_submission one = submission(&r, 1);
            CHECK_INDEX(hcq_queue_fill(r, a, 1024, 1, 4), 0);
            CHECK_INDEX(hcq_queue_signal(r, hcq_at(s[i], 1)), 1);
            CHECK_INDEX(hcq_queue_signal(r, list[i]), 2);
            one.affinity = i;
            CHECK_OK(hcq_submit(devices[i % DEVICES], &one, 1, &raised[i]));
            hcq_queue_destroy(r);
            CHECK_OK(hcq_free(a));
        }
        if (!early) {
            CHECK_OK(hcq_submit(T.dev, &sub, 1, &done[0]));
            CHECK_OK(hcq_submit(T.dev2, &empty, 1, &done[1]));
        }
        CHECK_OK(hcq_wait(done, 2, HCQ_ALL, BOUND));
        CHECK_OK(hcq_wait(raised, SIGNALS, HCQ_ALL, 0)); /* implied */
        for (uint32_t i = 0; i < DEVICES; i++) {
            CHECK_OK(hcq_device_synchronize(devices[i], BOUND));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_OK(hcq_device_synchronize(T.dev2, BOUND));
        for (uint32_t i = 0; i < SIGNALS; i++) {
            CHECK_OK(hcq_signal_reset(s[i], 0));
        }
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        CHECK_OK(hcq_close(devices[i]));
    }
}

#define ORDER_TESTS \
    TEST(many_waits_in_one_submission), TEST(jumps_release_what_they_pass), \
    TEST(same_lane_in_order), TEST(wait_before_signal_all_lanes), TEST(host_releases), \
    TEST(mutual_waits), TEST(mutual_waits_of_devices), TEST(hold_back_stays_on_its_lane), \
    TEST(unordered_overtakes), TEST(cycle_is_named), TEST(submission_lists), \
    TEST(submission_batches), TEST(signals_must_rise), TEST(points_between_devices), \
    TEST(wait_device), TEST(old_points_survive_swaps), TEST(held_points_survive_swaps)
