/* explain.h - why a wait does not end: hcq_explain, and the same text in the log. The
   words looked for are the stable ones, not whole sentences. Part of conformance.c. */
#include "shared.h"

/* Is submission `number` in the text, as "#7" and not as part of "#71"? */
static int explain_has_number(const char *text, uint64_t number) {
    char word[32];
    int n = snprintf(word, sizeof word, "#%llu", (unsigned long long)number);
    while ((text = strstr(text, word)) != NULL) {
        text += n;
        if (*text < '0' || *text > '9') {
            return 1;
        }
    }
    return 0;
}

static void explain_numbers(const char *file, int line, const char *text, uint64_t number,
                            int want) {
    if (explain_has_number(text, number) != want) {
        fprintf(stderr, "%s:%d: #%llu is %s in:\n%s\n", file, line, (unsigned long long)number,
                want ? "not" : "wrongly", text);
        test_fail(file, line, "explained wrongly");
    }
}
#define NUMBERS(text, number) explain_numbers(__FILE__, __LINE__, (text), (number), 1)
#define NUMBERS_NOT(text, number) explain_numbers(__FILE__, __LINE__, (text), (number), 0)

/* Submits a labelled queue that waits for one point and raises another. */
static hcq_point submit_link(hcq_device *device, hcq_queue_kind kind, const char *label,
                             hcq_point wait, hcq_point raise) {
    hcq_queue *q = make_queue(device, kind);
    hcq_buffer word = make_words(device, 4);
    hcq_point done = {{0}, 0};
    CHECK_OK(hcq_queue_label(q, label));
    CHECK(hcq_queue_wait(q, wait) >= 0);
    CHECK(hcq_queue_write(q, word, 1, 4) >= 0);
    CHECK(hcq_queue_signal(q, raise) >= 0);
    CHECK_OK(hcq_queue_submit(q, device, &done));
    hcq_queue_destroy(q);              /* its name is kept */
    return done;
}

/* ---- what it says ---- */

static void explain_reached(TEST_ARGS) {
    hcq_signal s = labelled_signal(T.dev, "finished");
    hcq_point point = hcq_at(s, 4), done, line;
    CHECK_OK(submit_lists(T.dev, NULL, &point, 0, &done));
    line = timeline_now(T.dev);
    WAIT_OK(point);
    WAIT_OK(done);
    WAIT_OK(line);
    const hcq_point points[] = {point, hcq_at(s, 1), done, line,
                                hcq_at(hcq_device_timeline(T.dev2), 0)};
    for (int i = 0; i < 5; i++) {
        const char *text = explain(points[i]);
        SAYS(text, "reached");
        SAYS_NOT(text, "final");
        SAYS_NOT(text, "held");
        SAYS_NOT(text, "cycle");
        SAYS_NOT(text, "nobody submitted");
    }
    SAYS(explain(point), "finished");
}

static void explain_nobody_raises_it(TEST_ARGS) {
    hcq_signal s = labelled_signal(T.dev2, "uploads");
    hcq_device *device = open_labelled("the labelled one", 0);
    hcq_signal there = labelled_signal(device, "there");
    const char *text = explain(hcq_at(s, 7));
    SAYS(text, "uploads");
    SAYS(text, "7");
    SAYS(text, "nobody submitted raises it");
    SAYS(text, "host set");
    SAYS_NOT(text, "cycle");
    SAYS_NOT(text, "final");
    text = explain(hcq_at(there, 1));
    SAYS(text, "the labelled one");
    SAYS(text, "there");
    /* Somebody raises it, but not that far. */
    hcq_point low = hcq_at(s, 3), wait = hcq_at(there, 1);
    CHECK_OK(submit_lists(T.dev, &wait, &low, HCQ_UNORDERED, NULL));
    text = explain_line(explain(hcq_at(s, 7)), "uploads");
    SAYS(text, "nobody submitted raises it");
    text = explain_line(explain(low), "uploads");
    SAYS_NOT(text, "nobody submitted raises it"); /* for this one somebody does */
    text = explain(hcq_at(hcq_device_timeline(T.dev2), 1000)); /* numbers yet to come */
    SAYS_NOT(text, "reached");
    SAYS_NOT(text, "final");
    SAYS(text, "submitted");
    CHECK_OK(hcq_signal_set(there, 1));
    WAIT_OK(low);
    CHECK_OK(hcq_close(device));
}

/* gate -> first (alpha, compute) -> second (beta, copy) -> third (alpha): every
   link by number, queue, lane, device and signal, down to the first cause. */
static void explain_chain(TEST_ARGS) {
    hcq_device *alpha = open_labelled("alpha", 0), *beta = open_labelled("beta", 0);
    hcq_signal gate = labelled_signal(beta, "gate"), one = labelled_signal(alpha, "one");
    hcq_signal two = labelled_signal(beta, "two"), three = labelled_signal(alpha, "three");
    for (int i = 0; i < 20; i++) {     /* numbers that tell the submissions apart */
        CHECK_OK(submit_lists(beta, NULL, NULL, 0, NULL));
        CHECK_OK(submit_lists(alpha, NULL, NULL, 0, NULL));
        CHECK_OK(submit_lists(alpha, NULL, NULL, 0, NULL));
    }
    CHECK_OK(hcq_device_synchronize(alpha, BOUND));
    CHECK_OK(hcq_device_synchronize(beta, BOUND));
    hcq_point first = submit_link(alpha, HCQ_COMPUTE, "first", hcq_at(gate, 5), hcq_at(one, 1));
    hcq_point second = submit_link(beta, HCQ_COPY, "second", hcq_at(one, 1), hcq_at(two, 1));
    hcq_point third = submit_link(alpha, HCQ_COPY, "third", hcq_at(two, 1), hcq_at(three, 1));
    const hcq_point ends[] = {hcq_at(three, 1), third, timeline_now(alpha), second};
    for (int i = 0; i < 4; i++) {
        const char *text = explain(ends[i]);
        /* The others start nearer to the cause; on one lane so does `third`,
           which is simply behind `first`. */
        int whole = i < 2 && test_query(alpha, HCQ_QUERY_COPY_LANES) > 0;
        NUMBERS(text, first.value);
        NUMBERS_NOT(text, 3);          /* long done */
        SAYS(text, "first");
        SAYS(text, "alpha");
        SAYS(text, "beta");
        SAYS(text, "gate");
        SAYS(text, "held");
        SAYS(explain_line(text, "first"), "compute");
        SAYS(explain_line(text, "first"), "alpha");
        SAYS(text, "nobody submitted raises it");
        SAYS(text, "host set");
        SAYS_NOT(text, "cycle");
        SAYS_NOT(text, "final");
        SAYS_NOT(text, "running");
        if (whole) {
            NUMBERS(text, second.value);
            NUMBERS(text, third.value);
            SAYS(text, "second");
            SAYS(text, "third");
            SAYS(text, "two");
            SAYS(text, "one");
            SAYS(explain_line(text, "second"), "copy");
            SAYS(explain_line(text, "second"), "beta");
            SAYS(explain_line(text, "third"), "alpha");
        }
    }
    SAYS(explain(ends[0]), "three");
    CHECK_OK(hcq_signal_set(gate, 5));
    WAIT_OK(ends[0]);
    CHECK_OK(hcq_close(alpha));
    CHECK_OK(hcq_close(beta));
}

/* Behind a held one of its lane, without a wait of its own. */
static void explain_behind_another(TEST_ARGS) {
    hcq_signal gate = labelled_signal(T.dev, "gate");
    hcq_queue *held = make_queue(T.dev, HCQ_COMPUTE), *behind = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point first, second;
    CHECK_OK(hcq_queue_label(held, "the held one"));
    CHECK_OK(hcq_queue_label(behind, "the later one"));
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 0);
    CHECK_OK(hcq_queue_submit(held, T.dev, &first));
    CHECK_OK(hcq_queue_submit(behind, T.dev, &second));
    const char *text = explain(second);
    NUMBERS(text, first.value);
    NUMBERS(text, second.value);
    SAYS(text, "the held one");
    SAYS(text, "the later one");
    SAYS_NOT(text, "counter swap");
    SAYS(text, "behind");
    SAYS(text, "gate");
    SAYS(text, "nobody submitted raises it");
    SAYS_NOT(text, "cycle");
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(second);
}

/* Of those that will raise a signal far enough the lowest is waited for. */
static void explain_steps_of_a_signal(TEST_ARGS) {
    hcq_signal t = make_signal(T.dev, 0);
    hcq_point done[4];
    char before[64];
    for (uint64_t i = 0; i < 4; i++) {
        const hcq_point wait = hcq_at(t, i + 1), raise = hcq_at(t, i + 2);
        CHECK_OK(submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, &done[i]));
    }
    const char *text = explain(done[3]);
    SAYS_NOT(text, "cycle");
    snprintf(before, sizeof before, "waits for #%llu ", (unsigned long long)done[2].value);
    CHECK(strstr(text, before) != NULL);
    SAYS(text, "nobody submitted raises it");
    CHECK_OK(hcq_signal_set(t, 1));
}

/* ---- cycles ---- */

/* The consumer is ahead of its only producer on one lane. */
static void explain_cycle_on_a_lane(TEST_ARGS) {
    hcq_signal s = labelled_signal(T.dev, "missing"), t = labelled_signal(T.dev2, "after");
    hcq_signal aside = make_signal(T.dev, 0);
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, NULL));
    hcq_point consumer = submit_link(T.dev, HCQ_COMPUTE, "consumer", hcq_at(s, 1), hcq_at(t, 1));
    SAYS_NOT(explain(consumer), "cycle"); /* not yet */
    hcq_point producer = submit_link(T.dev, HCQ_COMPUTE, "producer", hcq_at(aside, 0),
                                     hcq_at(s, 2));
    for (int i = 0; i < 5; i++) {      /* so that its number is nobody else's */
        CHECK_OK(submit_lists(T.dev2, NULL, NULL, 0, NULL));
    }
    hcq_point outsider = submit_link(T.dev2, HCQ_COMPUTE, "outsider", hcq_at(t, 1),
                                     hcq_at(aside, 9));
    const hcq_point from[] = {consumer, producer, hcq_at(t, 1), hcq_at(s, 1), hcq_at(s, 2),
                              timeline_now(T.dev), outsider, hcq_at(aside, 9)};
    for (int i = 0; i < 8; i++) {
        const char *text = explain(from[i]);
        SAYS(text, i == 1 ? "producer" : "consumer");
        const char *line = explain_line(text, "cycle");
        NUMBERS(line, consumer.value);
        NUMBERS(line, producer.value);
        NUMBERS_NOT(line, outsider.value);
    }
    static char dump[32768];
    hcq_device_dump(T.dev, dump, sizeof dump);
    SAYS(dump, "cycle");
    CHECK_OK(hcq_signal_set(s, 1));    /* the host resolves it */
    WAIT_OK(consumer);
    WAIT_OK(producer);
    WAIT_OK(outsider);
    SAYS_NOT(explain(outsider), "cycle");
}

/* A ring of many, and a wait for something else in front of the ring's. */
static void explain_cycle_of_many(TEST_ARGS) {
    enum { N = 20 };
    for (int way = 0; way < 3; way++) {
        hcq_signal s = make_signal(T.dev, 0), ring[N], other = make_signal(T.dev2, 0);
        hcq_point done[N], gate = hcq_at(s, 1), elsewhere = hcq_at(other, 1);
        /* Raised by work that is held, too, but by the host. */
        CHECK_OK(submit_lists(T.dev2, &gate, &elsewhere, HCQ_UNORDERED, NULL));
        for (int i = 0; i < N; i++) {
            ring[i] = make_signal(i % 2 ? T.dev : T.dev2, 0);
        }
        for (int i = 0; i < N; i++) {
            hcq_point list[2], raise = hcq_at(ring[i], 2);
            list[way == 2] = hcq_at(ring[(i + 1) % N], 1);
            list[way != 2] = elsewhere;
            CHECK_OK(submit_waits(i % 3 ? T.dev : T.dev2, list, way == 0 ? 1 : 2, &raise,
                                  HCQ_UNORDERED, &done[i]));
        }
        for (int i = 0; i < N; i += 7) {
            const char *line = explain_line(explain(done[i]), "cycle");
            for (int k = 0; k < N; k++) {
                NUMBERS(line, done[k].value);
            }
        }
        CHECK_OK(hcq_signal_set(s, 1));
        CHECK_OK(hcq_signal_set(ring[0], 1));
        CHECK_OK(hcq_wait(done, N, HCQ_ALL, BOUND));
    }
}

/* Lanes that take turns are no cycle while the host holds them up. */
static void explain_no_false_cycle(TEST_ARGS) {
    hcq_signal gate = labelled_signal(T.dev, "gate"), s = make_signal(T.dev, 0);
    hcq_signal t = make_signal(T.dev2, 0);
    hcq_queue *a = make_queue(T.dev, HCQ_COMPUTE), *b = make_queue(T.dev2, HCQ_COMPUTE);
    hcq_point done[2];
    CHECK_INDEX(hcq_queue_wait(a, hcq_at(gate, 1)), 0);
    CHECK_INDEX(hcq_queue_signal(a, hcq_at(s, 1)), 1);
    CHECK_INDEX(hcq_queue_wait(a, hcq_at(t, 1)), 2);
    CHECK_INDEX(hcq_queue_signal(a, hcq_at(s, 2)), 3);
    CHECK_INDEX(hcq_queue_wait(b, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_signal(b, hcq_at(t, 1)), 1);
    CHECK_INDEX(hcq_queue_wait(b, hcq_at(s, 2)), 2);
    CHECK_OK(hcq_queue_submit(b, T.dev2, &done[1]));
    CHECK_OK(hcq_queue_submit(a, T.dev, &done[0]));
    const char *text = explain_points(done, 2);
    SAYS_NOT(text, "cycle");
    SAYS(text, "gate");
    SAYS(text, "nobody submitted raises it");
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_wait(done, 2, HCQ_ALL, BOUND));
}

/* ---- what is final ---- */

static void explain_final(TEST_ARGS) {
    hcq_device *device = open_labelled("short lived", 0);
    hcq_signal failed = labelled_signal(T.dev, "broken"), gone = make_signal(T.dev2, 2);
    hcq_signal theirs = make_signal(device, 0), raised = labelled_signal(T.dev2, "heir");
    hcq_point wait = hcq_at(gone, 3), raise = hcq_at(raised, 1), cancelled, closed;
    CHECK_OK(submit_lists(T.dev, &wait, &raise, HCQ_UNORDERED, &cancelled));
    CHECK_OK(submit_lists(device, NULL, NULL, 0, &closed));
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_NATIVE));
    CHECK_OK(hcq_signal_destroy(gone));
    CHECK_OK(hcq_close(device));
    WAIT_RESULT(cancelled, HCQ_ERROR_CANCELLED);
    SAYS(explain(hcq_at(failed, 1)), "broken");
    SAYS(explain(raise), "heir");
    const struct { hcq_point point; const char *why; } cases[] = {
        {hcq_at(failed, 1), hcq_result_text(HCQ_ERROR_NATIVE)},
        {cancelled, hcq_result_text(HCQ_ERROR_CANCELLED)},
        {raise, hcq_result_text(HCQ_ERROR_CANCELLED)},
        {hcq_at(gone, 1), "destroyed"},
        {hcq_at(theirs, 1), "closed"},
        {closed, "closed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = explain(cases[i].point);
        SAYS(text, "final");
        SAYS(text, cases[i].why);
        SAYS_NOT(text, "reached");
        SAYS_NOT(text, "held");
        SAYS_NOT(text, "host set");
        SAYS_NOT(text, "nobody submitted");
    }
    SAYS(explain(hcq_at(failed, 0)), "reached"); /* reached is reached */
    const hcq_signal none = {0}, made_up = {0xdeadbeefdeadbeefull};
    CHECK(strlen(explain(hcq_at(none, 1))) > 0);
    CHECK(strlen(explain(hcq_at(made_up, 1))) > 0);
}

/* A submission has failed, but a lower value of its signal is still to land. */
static void explain_a_failure_before_lower_values(TEST_ARGS) {
    hcq_signal s = labelled_signal(T.dev, "result"), gate = make_signal(T.dev, 0);
    hcq_point low = hcq_at(s, 1), high = hcq_at(s, 2), open = hcq_at(gate, 1), failed, done;
    hold_reset();
    done = hold_device(T.dev, &low);
    CHECK_OK(submit_lists(T.dev, &open, &high, HCQ_UNORDERED, &failed));
    CHECK_OK(hcq_signal_fail(gate, HCQ_ERROR_HOST));
    for (int i = 0; i < 2; i++) {
        const char *text = explain(i ? failed : high);
        SAYS(text, "final");
        SAYS_NOT(text, "nobody submitted raises it");
    }
    SAYS(explain(low), "waits for");
    SAYS_NOT(explain(low), "final");
    hold_release();
    WAIT_OK(done);
    WAIT_OK(low);
    WAIT_RESULT(high, HCQ_ERROR_HOST);
    WAIT_RESULT(failed, HCQ_ERROR_HOST);
}

/* ---- what runs ---- */

static void k_until(const void *block_args, const hcq_block *b) {
    (void)block_args;
    (void)b;
    __atomic_store_n(&SEEN->until_began, 1, __ATOMIC_RELEASE);
    word_until(&SEEN->until_go, 1);
}
TEST_SHADER(k_until, until)

static void until_wait(void) {
    word_until(&SEEN->until_go, 1);
}

static hcq_result host_until_told(void *user) {
    __atomic_store_n(&SEEN->until_began, 1, __ATOMIC_RELEASE);
    return host_until(user);
}

/* A program that runs until until_go. */
static hcq_program *make_until(void) {
    hcq_program *until = make_kernel(T.dev, "until", k_until, (const uint32_t[4]){HCQ_ARG_NONE});
    test_gate(GATE_UNTIL, until_wait);
    __atomic_store_n(&SEEN->until_go, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&SEEN->until_began, 0, __ATOMIC_RELEASE);
    return until;
}

/* Of two waits the one that is over is not named. */
static void explain_the_wait_that_is_left(TEST_ARGS) {
    hcq_point waits[2] = {hcq_at(labelled_signal(T.dev, "early"), 1),
                          hcq_at(labelled_signal(T.dev, "late"), 1)};
    hcq_point after;
    hcq_program *until = make_until();
    hold_reset();
    hcq_queue *first = make_holder(T.dev), *second = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_signal(first, waits[0]), 1);
    CHECK_INDEX(record_one(second, until, NULL, 0), 0);
    CHECK_INDEX(hcq_queue_signal(second, waits[1]), 1);
    (void)hold_start(first, T.dev);
    CHECK_OK(hcq_queue_submit(second, T.dev, NULL));
    CHECK_OK(submit_waits(T.dev2, waits, 2, NULL, 0, &after));
    hold_release();
    WAIT_OK(waits[0]);
    CHECK(word_until(&SEEN->until_began, 1));
    SAYS(explain(after), "late");
    SAYS_NOT(explain(after), "early");
    __atomic_store_n(&SEEN->until_go, 1, __ATOMIC_RELEASE);
    WAIT_OK(after);
}

static void explain_running(TEST_ARGS) {
    for (int way = 0; way < 2; way++) {
        hcq_signal s = labelled_signal(T.dev, "result"), t = make_signal(T.dev2, 0);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_point done, after;
        hcq_program *until = make_until();
        CHECK_OK(hcq_queue_label(q, "busy one"));
        if (way == 0) {
            CHECK_INDEX(record_one(q, until, NULL, 0), 0);
        } else {
            CHECK_INDEX(hcq_queue_host(q, host_until_told, &SEEN->until_go), 0);
        }
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 1);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        CHECK(word_until(&SEEN->until_began, 1));
        after = submit_link(T.dev2, HCQ_COMPUTE, "waiting one", hcq_at(s, 1), hcq_at(t, 1));
        const hcq_point from[] = {hcq_at(s, 1), done, timeline_now(T.dev), after, hcq_at(t, 1)};
        for (int i = 0; i < 5; i++) {
            const char *text = explain(from[i]);
            if (i < 3 || T.variant->device_flags & HCQ_DEVICE_NO_NATIVE_WAIT) {
                NUMBERS(text, done.value);
                SAYS(text, "busy one");
            }
            if (strstr(text, "running") == NULL) {
                SAYS(text, "host command"); /* on a service thread that is its name */
            }
            SAYS_NOT(text, "cycle");
            SAYS_NOT(text, "final");
            SAYS_NOT(text, "reached");
            SAYS_NOT(text, "nobody submitted");
        }
        __atomic_store_n(&SEEN->until_go, 1, __ATOMIC_RELEASE);
        WAIT_OK(done);
        WAIT_OK(after);
        hcq_queue_destroy(q);
    }
}

/* Work of one device was handed over and waits for work of another that runs:
   the chain goes on to the first cause, however it waits. */
static void explain_through_native_waits(TEST_ARGS) {
    hcq_device *left = open_labelled("left", 0), *right = open_labelled("right", 0);
    hcq_signal u = labelled_signal(left, "U"), t = labelled_signal(right, "T");
    hcq_point raise = hcq_at(t, 5), done;
    hcq_queue *slow = make_holder(left), *next = make_queue(right, HCQ_COPY);
    CHECK_OK(hcq_queue_label(slow, "slow"));
    CHECK_OK(hcq_queue_label(next, "next"));
    CHECK_INDEX(hcq_queue_signal(slow, hcq_at(u, 5)), 1);
    CHECK_INDEX(hcq_queue_wait(next, hcq_at(u, 5)), 0);
    CHECK_INDEX(hcq_queue_write(next, make_words(right, 1), 1, 4), 1);
    CHECK_INDEX(hcq_queue_signal(next, raise), 2);
    hold_reset();
    hcq_point first = hold_start(slow, left);
    CHECK_OK(hcq_queue_submit(next, right, &done));
    for (int i = 0; i < 2; i++) {
        const char *text = explain(i ? raise : done);
        SAYS(text, "'next'");
        SAYS(text, "right");
        SAYS(text, "'slow'");
        SAYS(explain_line(text, "'slow'"), "left");
        SAYS_NOT(text, "nobody submitted raises it");
    }
    hold_release();
    WAIT_OK(done);
    WAIT_OK(first);
    CHECK_OK(hcq_close(left));
    CHECK_OK(hcq_close(right));
}

/* ---- the text itself ---- */

static void explain_truncates(TEST_ARGS) {
    static char whole[8192], part[8192];
    hcq_signal gate = labelled_signal(T.dev, "gate"), s = labelled_signal(T.dev2, "later");
    submit_link(T.dev, HCQ_COMPUTE, "some queue", hcq_at(gate, 1), hcq_at(s, 1));
    const hcq_point points[] = {hcq_at(s, 1), hcq_at(gate, 1)};
    size_t length = hcq_explain(points, 2, NULL, 0);
    CHECK(length > 32 && length < sizeof whole);
    CHECK_U64(hcq_explain(points, 2, whole, sizeof whole), length);
    CHECK_U64(strlen(whole), length);
    const size_t sizes[] = {0, 1, 2, 17, 64, length - 1, length, length + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t kept = sizes[i] > length ? length : sizes[i] - 1;
        memset(part, '?', sizeof part);
        CHECK_U64(hcq_explain(points, 2, part, sizes[i]), length);
        for (size_t k = sizes[i]; k < sizeof part; k++) {
            CHECK(part[k] == '?');     /* nothing beyond the size is touched */
        }
        if (sizes[i] > 0) {
            CHECK_U64(strlen(part), kept);
            CHECK(memcmp(part, whole, kept) == 0);
        }
    }
    part[0] = '?';
    CHECK_U64(hcq_explain(NULL, 0, part, sizeof part), 0);
    CHECK(part[0] == 0);
    CHECK_U64(hcq_explain(NULL, 0, NULL, 0), 0);
    hcq_explain(NULL, 2, part, sizeof part); /* no crash is all there is to ask */
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(points[0]);
}

static void signal_labels(TEST_ARGS) {
    static char text[32768];
    hcq_signal s = labelled_signal(T.dev, "a first name"), stale = make_signal(T.dev, 0);
    hcq_point wait = hcq_at(s, 1), done;
    CHECK_OK(submit_lists(T.dev, &wait, NULL, 0, &done));
    SAYS(explain(wait), "a first name");
    CHECK_OK(hcq_signal_label(s, "abcdefghijklmnopqrstuvwxyz-1234567890"));
    SAYS(explain(wait), "abcdefghijklmnopqrstuvwxyz-1234"); /* 31 characters are kept */
    SAYS_NOT(explained, "abcdefghijklmnopqrstuvwxyz-12345");
    SAYS_NOT(explained, "a first name");
    hcq_device_dump(T.dev, text, sizeof text);
    SAYS(text, "abcdefghijklmnopqrstuvwxyz-1234");
    SAYS(explain(done), "abcdefghijklmnopqrstuvwxyz-1234");
    CHECK_OK(hcq_signal_label(s, ""));
    SAYS_NOT(explain(wait), "abcdef");
    CHECK_OK(hcq_signal_destroy(stale));
    CHECK_RESULT(hcq_signal_label(stale, "x"), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_signal_set(s, 1));
    WAIT_OK(done);
}

typedef struct explainer {
    pthread_t thread;
    hcq_point point;
    int synchronizes;
    size_t length;                     /* of the text; 1: the call was fine */
} explainer;

static void *explainer_run(void *user) {
    explainer *e = (explainer *)user;
    char text[2048];
    e->length = hcq_explain(&e->point, 1, text, sizeof text);
    return NULL;
}

/* A chain of thousands is told on a small stack, and one where every link has
   two ways back does not double the work at each. */
static void explain_long_chains(TEST_ARGS) {
    enum { LEVELS = 60 };
    const uint32_t count = T.quick || TEST_SANITIZED ? 1000 : 5000;
    hcq_signal t = make_signal(T.dev, 0), two[2] = {make_signal(T.dev, 0), make_signal(T.dev2, 0)};
    explainer e;
    memset(&e, 0, sizeof e);
    for (uint32_t i = 1; i <= count; i++) {
        hcq_point wait = hcq_at(t, i), raise = hcq_at(t, i + 1);
        CHECK_OK(submit_lists(i % 2 ? T.dev : T.dev2, &wait, &raise, HCQ_UNORDERED, NULL));
    }
    e.point = hcq_at(t, count + 1);
    on_a_small_stack(explainer_run, &e);
    CHECK(e.length > 0);
    for (uint32_t i = 1; i <= LEVELS; i++) {
        const hcq_point waits[2] = {hcq_at(two[0], i), hcq_at(two[1], i)};
        for (int k = 0; k < 2; k++) {
            hcq_point raise = hcq_at(two[k], i + 1);
            CHECK_OK(submit_waits(k ? T.dev : T.dev2, waits, 2, &raise, HCQ_UNORDERED, NULL));
        }
    }
    CHECK(strlen(explain(hcq_at(two[0], LEVELS + 1))) > 0);
    CHECK_OK(hcq_signal_set(t, 1));
    WAIT_OK(e.point);
    for (int k = 0; k < 2; k++) {
        CHECK_OK(hcq_signal_set(two[k], 1));
    }
    for (int k = 0; k < 2; k++) {
        WAIT_OK(hcq_at(two[k], LEVELS + 1));
    }
}

/* ---- the log tells of itself ---- */

static uint32_t log_count(const char *word) {
    uint32_t count = 0;
    pthread_mutex_lock(&T.log.lock);
    const char *at = T.log.used ? T.log.text : "";
    while ((at = strstr(at, word)) != NULL) {
        at += strlen(word);
        count++;
    }
    pthread_mutex_unlock(&T.log.lock);
    return count;
}

/* A wait that lasts says why, once, whatever its end; others are silent. */
static void long_waits_explain_themselves(TEST_ARGS) {
    hcq_device *device = open_labelled("slow", SECOND / 200);
    static blocked_call w;
    static const char *labels[4] = {"gate-0", "gate-1", "gate-2", "gate-3"};
    for (int way = 0; way < 4; way++) {
        hcq_signal gate = labelled_signal(device, labels[way]), s = make_signal(T.dev, 0);
        hcq_point held = submit_link(device, HCQ_COMPUTE, "the held one", hcq_at(gate, 1),
                                     hcq_at(s, 1));
        log_clear();
        memset(&w, 0, sizeof w);
        w.points[0] = way == 1 ? hcq_at(gate, 1) : held;
        w.points[1] = hcq_at(s, 1);
        w.count = way == 2 ? 2 : 1;
        w.mode = way == 2 ? HCQ_ANY : HCQ_ALL;
        w.timeout_ns = way == 3 ? HCQ_DEADLINE(hcq_sys_now_ns() + 6 * BOUND) : HCQ_FOREVER;
        pthread_create(&w.thread, NULL, blocked_wait, &w);
        int told = log_until(labels[way]);
        test_sleep_ms(50);             /* ten times as long: it is not told again */
        uint32_t times = log_count("lasts longer"), words = log_count("nobody submitted");
        int held_too = log_has("the held one");
        hcq_result set = hcq_signal_set(gate, 1);
        pthread_join(w.thread, NULL);
        CHECK_OK(set);
        CHECK_OK(w.result);
        CHECK(told);
        CHECK_U64(times, 1);
        CHECK_U64(words, way == 2 ? 2 : 1); /* both points have that cause */
        CHECK(way == 1 || held_too);
        WAIT_OK(held);
    }
    CHECK_OK(hcq_close(device));
}

static void *long_call_run(void *user) {
    explainer *e = (explainer *)user;
    hcq_submission sub = submission(NULL, 0);
    sub.waits = &e->point;
    sub.wait_count = 1;
    e->length = HCQ_OK == (e->synchronizes ? hcq_device_synchronize(T.dev2, BOUND)
                                           : hcq_submit_and_wait(T.dev2, &sub, 1, BOUND, NULL));
    return NULL;
}

/* So do the other calls that wait. */
static void long_calls_explain_themselves(TEST_ARGS) {
    static explainer e;
    CHECK_OK(hcq_close(T.dev2));
    T.dev2 = NULL;
    T.dev2 = open_labelled("slow", SECOND / 200);
    for (int synchronizes = 0; synchronizes < 2; synchronizes++) {
        memset(&e, 0, sizeof e);
        e.point = hcq_at(labelled_signal(T.dev, "closed gate"), 1);
        e.synchronizes = synchronizes;
        if (synchronizes) {
            CHECK_OK(submit_lists(T.dev2, &e.point, NULL, 0, NULL));
        }
        log_clear();
        pthread_create(&e.thread, NULL, long_call_run, &e);
        int told = log_until("closed gate");
        hcq_result set = hcq_signal_set(e.point.signal, 1);
        pthread_join(e.thread, NULL);
        CHECK_OK(set);
        CHECK(e.length);
        CHECK(told);
        CHECK_U64(log_count("lasts longer"), 1);
    }
}

/* Polls, what is reached, and waits that are shorter than the time that they may
   last: 5 s, for ever, more than there is. */
static void short_waits_are_silent(TEST_ARGS) {
    static const uint64_t lasts[] = {0, HCQ_KEEP, HCQ_KEEP - 1, HCQ_KEEP - SECOND,
                                     HCQ_KEEP / 2 + 1, 1};
    for (int way = 0; way < 6; way++) {
        hcq_device *device = open_labelled("quiet", lasts[way]);
        hcq_signal s = make_signal(device, 1);
        hcq_point pending = hcq_at(s, 2), reached = hcq_at(s, 1);
        log_clear();
        CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ALL, 0), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ALL, HCQ_DEADLINE(1)), HCQ_TIMEOUT);
        CHECK_OK(hcq_wait(&reached, 1, HCQ_ALL, HCQ_FOREVER));
        if (lasts[way] != 1) {
            CHECK_RESULT(hcq_wait(&pending, 1, HCQ_ANY, SECOND / 50), HCQ_TIMEOUT);
        }
        CHECK_U64(log_lines(), 0);
        CHECK_OK(hcq_close(device));
    }
}

#define EXPLAIN_TESTS \
    TEST(explain_reached), TEST(explain_nobody_raises_it), TEST(explain_chain), \
    TEST(explain_behind_another), TEST(explain_steps_of_a_signal), TEST(explain_cycle_on_a_lane), \
    TEST(explain_cycle_of_many), TEST(explain_no_false_cycle), TEST(explain_final), \
    TEST(explain_a_failure_before_lower_values), TEST(explain_the_wait_that_is_left), \
    TEST(explain_running), TEST(explain_through_native_waits), TEST(explain_truncates), \
    TEST(signal_labels), TEST(explain_long_chains), TEST(long_waits_explain_themselves), \
    TEST(long_calls_explain_themselves), TEST(short_waits_are_silent)
