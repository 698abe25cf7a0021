/* explain.h - why a wait does not end: hcq_explain, and the same text in the log. The
   words looked for are the stable ones, not whole sentences. Part of conformance.c. */

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

#define NUMBERS(text, number) CHECK(explain_has_number((text), (number)))
#define NUMBERS_NOT(text, number) CHECK(!explain_has_number((text), (number)))

/* Submits a labelled queue that waits for one point and raises another. */
static hcq_point submit_link(hcq_device *device, hcq_queue_kind kind, const char *label,
                             hcq_point wait, hcq_point raise) {
    hcq_queue *q = make_queue(device, kind);
    hcq_buffer word = make_words(device, 4);
    hcq_point done = {{0}, 0};
    CHECK_OK(hcq_queue_label(q, label));
    CHECK(hcq_queue_wait(q, wait) >= 0);
    CHECK(record_word(q, word, 1, 4) >= 0);
    CHECK(hcq_queue_signal(q, raise) >= 0);
    CHECK_OK(hcq_queue_submit(q, device, &done));
    hcq_queue_destroy(q);              /* its name is kept */
    return done;
}

/* ---- what it says ---- */

TEST(explain_nobody_raises_it) {
    hcq_device *device = open_labelled("the labelled one", 0);
    hcq_signal s = labelled_signal(dev2(), "uploads"), there = labelled_signal(device, "there");
    hcq_point low = hcq_at(s, 3), wait = hcq_at(there, 1);
    SAYS(explain(hcq_at(s, 7)), "uploads|7|nobody submitted raises it|host set");
    SAYS_NOT(explained, "cycle|final");
    SAYS(explain(wait), "the labelled one|there");
    CHECK_OK(submit_lists(T.dev, &wait, &low, HCQ_UNORDERED, NULL)); /* not that far */
    SAYS(explain_line(explain(hcq_at(s, 7)), "uploads"), "nobody submitted raises it");
    SAYS_NOT(explain_line(explain(low), "uploads"), "nobody submitted raises it");
    SAYS(explain(hcq_at(hcq_device_timeline(dev2()), 1000)), "submitted"); /* yet to come */
    SAYS_NOT(explained, "reached|final");
    CHECK_OK(hcq_signal_label(there, "abcdefghijklmnopqrstuvwxyz-1234567890"));
    for (int i = 0; i < 3; i++) {      /* 31 characters are kept, wherever it is named */
        static char text[32768];
        CHECK(i < 2 || hcq_device_dump(T.dev, text, sizeof text) < sizeof text);
        SAYS(i < 2 ? explain(i ? wait : low) : text, "abcdefghijklmnopqrstuvwxyz-1234");
        SAYS_NOT(i < 2 ? explained : text, "abcdefghijklmnopqrstuvwxyz-12345|there");
    }
    CHECK_OK(hcq_signal_label(there, ""));
    SAYS_NOT(explain(wait), "abcdef");
    GATE_END(wait, low);
    CHECK_OK(hcq_close(device));
}

/* gate -> first (alpha, compute) -> second (beta, copy) -> third (alpha): every
   link by number, queue, lane, device and signal, down to the first cause; one behind
   the first on its lane has no wait of its own. */
TEST(explain_chain) {
    hcq_device *alpha = open_labelled("alpha", 0), *beta = open_labelled("beta", 0);
    hcq_point gate = hcq_at(labelled_signal(beta, "gate"), 5);
    hcq_point one = hcq_at(labelled_signal(alpha, "one"), 1);
    hcq_point two = hcq_at(labelled_signal(beta, "two"), 1);
    hcq_point three = hcq_at(labelled_signal(alpha, "three"), 1);
    for (int i = 0; i < 60; i++) {     /* numbers that tell the submissions apart */
        CHECK_OK(submit_lists(i % 3 ? alpha : beta, NULL, NULL, 0, NULL));
    }
    CHECK_OK(hcq_device_synchronize(alpha, BOUND));
    CHECK_OK(hcq_device_synchronize(beta, BOUND));
    hcq_point first = submit_link(alpha, HCQ_COMPUTE, "first", gate, one);
    hcq_point second = submit_link(beta, HCQ_COPY, "second", one, two);
    hcq_point third = submit_link(alpha, HCQ_COPY, "third", two, three), last;
    const hcq_point ends[] = {three, third, timeline_now(alpha), second};
    for (int i = 0; i < 4; i++) {
        const char *text = explain(ends[i]);
        NUMBERS(text, first.value);
        NUMBERS_NOT(text, 3);          /* long done */
        SAYS(text, "first|alpha|beta|gate|held|nobody submitted raises it|host set");
        SAYS(explain_line(text, "first"), "compute|alpha");
        SAYS_NOT(text, "cycle|final|running");
        /* The others start nearer to the cause; on one lane so does `third`,
           which is simply behind `first`. */
        if (i < 2 && test_info(alpha).copy_lanes > 0) {
            NUMBERS(text, second.value);
            NUMBERS(text, third.value);
            SAYS(text, "two|one");
            SAYS(explain_line(text, "second"), "copy|beta");
            SAYS(explain_line(text, "third"), "alpha");
        }
    }
    SAYS(explain(three), "three");
    hcq_queue *behind = make_queue(alpha, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_label(behind, "the later one"));
    CHECK_OK(hcq_queue_submit(behind, alpha, &last));
    NUMBERS(explain(last), first.value);
    NUMBERS(explained, last.value);
    SAYS(explained, "first|the later one|behind|gate|nobody submitted raises it");
    SAYS_NOT(explained, "counter swap|cycle|and so on");
    GATE_END(gate, three);
    CHECK_OK(hcq_close(alpha));
    CHECK_OK(hcq_close(beta));
}

/* ---- cycles ---- */

/* The consumer is ahead of its only producer on one lane. */
TEST(explain_cycle_on_a_lane) {
    static char dump[32768];
    hcq_signal s = labelled_signal(T.dev, "missing"), aside = make_signal(T.dev, 0);
    hcq_point after = hcq_at(labelled_signal(dev2(), "after"), 1), last = hcq_at(aside, 9);
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, NULL));
    hcq_point consumer = submit_link(T.dev, HCQ_COMPUTE, "consumer", hcq_at(s, 1), after);
    SAYS_NOT(explain(consumer), "cycle"); /* not yet */
    hcq_point producer = submit_link(T.dev, HCQ_COMPUTE, "producer", hcq_at(aside, 0),
                                     hcq_at(s, 2));
    for (int i = 0; i < 5; i++) {      /* so that its number is nobody else's */
        CHECK_OK(submit_lists(dev2(), NULL, NULL, 0, NULL));
    }
    hcq_point outsider = submit_link(dev2(), HCQ_COMPUTE, "outsider", after, last);
    const hcq_point from[] = {consumer, producer, after, hcq_at(s, 1), hcq_at(s, 2),
                              timeline_now(T.dev), outsider, last};
    for (int i = 0; i < 8; i++) {
        SAYS(explain(from[i]), i == 1 ? "producer" : "consumer");
        const char *line = explain_line(explained, "cycle");
        NUMBERS(line, consumer.value);
        NUMBERS(line, producer.value);
        NUMBERS_NOT(line, outsider.value);
    }
    hcq_device_dump(T.dev, dump, sizeof dump);
    SAYS(dump, "cycle");
    CHECK_OK(hcq_signal_set(s, 1));    /* the host resolves it */
    WAIT_OK(producer);
    WAIT_OK(outsider);
    SAYS_NOT(explain(outsider), "cycle");
}

/* A ring of many, and a wait for something else in front of the ring's or behind. */
TEST(explain_cycle_of_many) {
    enum { N = 20 };
    for (int way = 0; way < 3; way++) {
        hcq_point gate = make_gate(T.dev), elsewhere = make_gate(dev2()), ring[N], done[N];
        /* Raised by work that is held, too, but by the host. */
        CHECK_OK(submit_lists(dev2(), &gate, &elsewhere, HCQ_UNORDERED, NULL));
        for (int i = 0; i < N; i++) {
            ring[i] = make_gate(i % 2 ? T.dev : dev2());
        }
        for (int i = 0; i < N; i++) {
            hcq_point list[2], raise = hcq_at(ring[i].signal, 2);
            list[way == 2] = ring[(i + 1) % N];
            list[way != 2] = elsewhere;
            CHECK_OK(submit_waits(i % 3 ? T.dev : dev2(), list, way == 0 ? 1 : 2, &raise,
                                  HCQ_UNORDERED, &done[i]));
        }
        for (int i = 0; i < N; i += 7) {
            const char *line = explain_line(explain(done[i]), "cycle");
            for (int k = 0; k < N; k++) {
                NUMBERS(line, done[k].value);
            }
        }
        open_gate(gate);
        open_gate(ring[0]);
        CHECK_OK(hcq_wait(done, N, HCQ_ALL, BOUND));
    }
}

/* Lanes that take turns are no cycle while the host holds them up. */
TEST(explain_no_false_cycle) {
    hcq_point gate = hcq_at(labelled_signal(T.dev, "gate"), 1), back = make_gate(dev2()), done[2];
    hcq_signal s = make_signal(T.dev, 0);
    hcq_queue *a = make_queue(T.dev, HCQ_COMPUTE), *b = make_queue(dev2(), HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_wait(a, gate), 0);
    CHECK_INDEX(hcq_queue_signal(a, hcq_at(s, 1)), 1);
    CHECK_INDEX(hcq_queue_wait(a, back), 2);
    CHECK_INDEX(hcq_queue_signal(a, hcq_at(s, 2)), 3);
    CHECK_INDEX(hcq_queue_wait(b, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_signal(b, back), 1);
    CHECK_INDEX(hcq_queue_wait(b, hcq_at(s, 2)), 2);
    CHECK_OK(hcq_queue_submit(b, dev2(), &done[1]));
    CHECK_OK(hcq_queue_submit(a, T.dev, &done[0]));
    SAYS(explain_points(done, 2), "gate|nobody submitted raises it");
    SAYS_NOT(explained, "cycle");
    open_gate(gate);
    CHECK_OK(hcq_wait(done, 2, HCQ_ALL, BOUND));
}

/* Another one's higher raise ends what the lowest raiser waits for, unless it is behind that. */
TEST(explain_no_cycle_where_another_raises) {
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point back = make_gate(dev2()), gate = make_gate(T.dev);
    hcq_point one = submit_link(T.dev, HCQ_COPY, "one", hcq_at(s, 1), back);
    hcq_point lowest = submit_link(dev2(), HCQ_COPY, "lowest", back, hcq_at(s, 1));
    SAYS(explain(one), "cycle");
    hcq_point behind = submit_link(dev2(), HCQ_COPY, "behind", gate, hcq_at(s, 3));
    SAYS(explain(one), "cycle");
    hcq_point higher = hcq_at(s, 2), other;
    CHECK_OK(submit_lists(dev2(), &gate, &higher, HCQ_UNORDERED, &other));
    SAYS(explain(one), "lowest");
    SAYS_NOT(explained, "cycle");
    open_gate(gate);
    const hcq_point all[] = {one, lowest, behind, other};
    CHECK_OK(hcq_wait(all, 4, HCQ_ALL, BOUND));
}

/* ---- what is final ---- */

TEST(explain_what_is_over) {
    hcq_device *device = open_labelled("short lived", 0);
    hcq_signal failed = labelled_signal(T.dev, "broken"), gone = make_signal(dev2(), 2);
    hcq_signal s = labelled_signal(T.dev, "finished");
    hcq_point wait = hcq_at(gone, 3), heir = hcq_at(labelled_signal(dev2(), "heir"), 1);
    hcq_point theirs = make_gate(device), raise = hcq_at(s, 4), cancelled, closed, done;
    const hcq_signal none = {0}, made_up = {0xdeadbeefdeadbeefull};
    CHECK_OK(submit_lists(T.dev, &wait, &heir, HCQ_UNORDERED, &cancelled));
    CHECK_OK(submit_lists(device, NULL, NULL, 0, &closed));
    CHECK_OK(hcq_signal_fail(failed, HCQ_ERROR_NATIVE, NULL));
    CHECK_OK(hcq_signal_destroy(gone));
    CHECK_OK(hcq_close(device));
    WAIT_RESULT(cancelled, HCQ_ERROR_CANCELLED);
    CHECK_OK(submit_lists(T.dev, NULL, &raise, 0, &done));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    const char *native = hcq_result_text(HCQ_ERROR_NATIVE);
    const char *cancels = hcq_result_text(HCQ_ERROR_CANCELLED);
    const struct { hcq_point point; const char *end, *why, *name; } cases[] = {
        {raise, "reached", "", "finished"},
        {hcq_at(s, 1), "reached", "", "finished"},
        {done, "reached", "", ""},
        {timeline_now(T.dev), "reached", "", ""},
        {hcq_at(hcq_device_timeline(dev2()), 0), "reached", "", ""},
        {hcq_at(failed, 0), "reached", "", ""}, /* reached is reached */
        {hcq_at(failed, 1), "final", native, "broken"},
        {cancelled, "final", cancels, ""},
        {heir, "final", cancels, "heir"},
        {hcq_at(gone, 1), "final", "destroyed", ""},
        {theirs, "final", "closed", ""},
        {closed, "final", "closed", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SAYS(explain(cases[i].point), cases[i].end);
        SAYS(explained, cases[i].why);
        SAYS(explained, cases[i].name);
        SAYS_NOT(explained, i < 6 ? "final" : "reached");
        SAYS_NOT(explained, "held|cycle|host set|nobody submitted");
    }
    CHECK(strlen(explain(hcq_at(none, 1))) > 0);
    CHECK(strlen(explain(hcq_at(made_up, 1))) > 0);
}

/* The user's words go with a failure, on every device, until a reset. */
TEST(explain_in_the_users_words) {
    hcq_point gate = make_gate(T.dev), middle = make_gate(dev2()), end = make_gate(T.dev);
    hcq_point ends[5] = {gate, middle, end}; /* then a submission's, and what waits for that */
    hcq_queue *pair[2] = {make_queue(T.dev, HCQ_COMPUTE), make_queue(T.dev, HCQ_COPY)};
    char words[121], kept[97];
    memset(words, 'w', sizeof words);
    memset(kept, 'w', sizeof kept);
    words[120] = kept[96] = 0;
    CHECK_OK(submit_lists(dev2(), &gate, &middle, HCQ_UNORDERED, NULL));
    CHECK_OK(submit_lists(T.dev, &middle, &end, HCQ_UNORDERED, &ends[3]));
    hcq_submission both = {.queues = pair, .queue_count = 2, .waits = &ends[3], .wait_count = 1};
    CHECK_OK(hcq_submit(T.dev, &both, 1, &ends[4]));
    log_clear();
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST, "the disk is full"));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST, "too late"));
    WAIT_RESULT(ends[4], HCQ_ERROR_HOST);
    CHECK_U64(T.log.lines, 4);
    CHECK(log_has("submission #") && log_has("fails: the disk is full"));
    for (int i = 0; i < 5; i++) {
        SAYS(explain(ends[i]), "final|the disk is full");
    }
    CHECK_OK(hcq_signal_reset(gate.signal, 0));
    SAYS_NOT(explain(gate), "disk");
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST, words));
    CHECK(strstr(explain(gate), kept + 1) != NULL && strstr(explained, kept) == NULL);
    CHECK_OK(hcq_signal_destroy(gate.signal)); /* others keep what it said */
    SAYS(explain(end), "the disk is full");
    SAYS(explain(ends[4]), "the disk is full");
}

/* ---- what runs ---- */

/* Of two waits the one that is over is not named. */
TEST(explain_the_wait_that_is_left) {
    static uint32_t go;
    hcq_point waits[2] = {hcq_at(labelled_signal(T.dev, "early"), 1),
                          hcq_at(labelled_signal(T.dev, "late"), 1)};
    hcq_point after;
    hcq_queue *second = make_call(T.dev, HCQ_COMPUTE, host_until, &go);
    __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
    CHECK_INDEX(hcq_queue_signal(second, waits[1]), 1);
    (void)hold_device(T.dev, &waits[0]);
    CHECK_OK(hcq_queue_submit(second, T.dev, NULL));
    CHECK_OK(submit_waits(dev2(), waits, 2, NULL, 0, &after));
    hold_release();
    WAIT_OK(waits[0]);
    SAYS(explain(after), "late");
    SAYS_NOT(explained, "early");
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    WAIT_OK(after);
}

static hcq_result host_holds(void *user) {
    (void)user;
    __atomic_fetch_add(&SEEN->hold_began, 1, __ATOMIC_RELEASE);
    hold_wait();
    return HCQ_OK;
}

/* Work of one device runs, a program or a host command, and work of another waits
   for it: the chain goes on to the first cause, however it waits. */
TEST(explain_running) {
    for (int hosts = 0; hosts < 2; hosts++) {
        hcq_device *left = open_labelled("left", 0), *right = open_labelled("right", 0);
        hcq_point raise = hcq_at(labelled_signal(left, "result"), 5), last = make_gate(right);
        hcq_point called;
        hcq_queue *slow = hosts ? make_call(left, HCQ_COMPUTE, host_holds, NULL)
                                : make_holder(left);
        hcq_queue *due = make_call(left, HCQ_COMPUTE, host_nothing, NULL);
        CHECK_OK(hcq_queue_label(slow, "slow"));
        CHECK_INDEX(hcq_queue_signal(slow, raise), 1);
        hold_reset();
        hcq_point done = hold_start(slow, left);
        hcq_point after = submit_link(right, HCQ_COPY, "next", raise, last);
        const hcq_point from[] = {raise, done, timeline_now(left), after, last};
        for (int i = 0; i < 5; i++) {
            SAYS(explain(from[i]), i < 3 ? "'slow'" : "'slow'|'next'|right");
            SAYS(explain_line(explained, "'slow'"), "left");
            SAYS_NOT(explained, "cycle|final|reached|nobody submitted");
            CHECK(i > 2 || explain_has_number(explained, done.value));
            CHECK(strstr(explained, "running") || /* on a service thread that is its name */
                  strstr(explained, "host command"));
        }
        CHECK_OK(submit_queue(due, left, NULL, NULL, HCQ_UNORDERED, &called));
        SAYS(explain(called), !hosts || is_cpu() ? "" : "until its host command is called");
        hold_release();
        WAIT_OK(done);
        WAIT_OK(called);
        WAIT_OK(after);
        CHECK_OK(hcq_close(left));
        CHECK_OK(hcq_close(right));
    }
}

/* ---- the text itself ---- */

static size_t explained_or_dumped(hcq_device *dumped, const hcq_point *points, char *text,
                                  size_t size) {
    return dumped ? hcq_device_dump(dumped, text, size) : hcq_explain(points, 2, text, size);
}

/* Whole, by its length alone, and cut at each size; so is a device's dump. */
TEST(explain_truncates) {
    static char whole[16384], part[16384];
    hcq_device *device = open_labelled("the labelled one", 0);
    hcq_point gate = hcq_at(labelled_signal(device, "gate"), 1);
    hcq_point later = hcq_at(labelled_signal(dev2(), "later"), 1);
    submit_link(device, HCQ_COMPUTE, "some queue", gate, later);
    const hcq_point points[] = {later, gate};
    for (int dumps = 0; dumps < 2; dumps++) {
        hcq_device *dumped = dumps ? device : NULL;
        size_t length = explained_or_dumped(dumped, points, NULL, 0);
        CHECK(length > 32 && length < sizeof whole - 1);
        CHECK_U64(explained_or_dumped(dumped, points, whole, sizeof whole), length);
        CHECK_U64(strlen(whole), length);
        SAYS(whole, "the labelled one|some queue");
        for (size_t size = 0; size <= length + 1; size++) {
            size_t kept = size > length ? length : size - (size > 0);
            memset(part, '?', length + 3);
            CHECK_U64(explained_or_dumped(dumped, points, part, size), length);
            CHECK(part[size] == '?');  /* nothing beyond the size is touched */
            CHECK(size == 0 || (part[kept] == 0 && memcmp(part, whole, kept) == 0));
        }
    }
    CHECK_U64(hcq_explain(NULL, 0, part, sizeof part), 0);
    CHECK(part[0] == 0);
    CHECK_U64(hcq_explain(NULL, 0, NULL, 0), 0);
    hcq_explain(NULL, 2, part, sizeof part); /* no crash is all there is to ask */
    GATE_END(gate, later);
    CHECK_OK(hcq_close(device));
}

static void *explainer_run(void *user) {
    char text[2048];
    return hcq_explain((const hcq_point *)user, 1, text, sizeof text) ? user : NULL;
}

/* A chain of thousands is told on a small stack: of those that will raise a signal far
   enough the lowest is waited for. One where every link has two ways back does not
   double the work at each. */
TEST(explain_long_chains) {
    enum { LEVELS = 60 };
    const uint32_t count = T.quick || TEST_SANITIZED ? 1000 : 5000;
    hcq_signal t = make_signal(T.dev, 0), two[2] = {make_signal(T.dev, 0), make_signal(dev2(), 0)};
    hcq_point last = hcq_at(t, count + 1), link = last;
    char before[64] = "";
    for (uint32_t i = 1; i <= count; i++) {
        hcq_point wait = hcq_at(t, i), raise = hcq_at(t, i + 1);
        if (i == 5) {
            snprintf(before, sizeof before, "waits for #%llu ", (unsigned long long)link.value);
        }
        CHECK_OK(submit_lists(i % 3 ? T.dev : dev2(), &wait, &raise, HCQ_UNORDERED, &link));
        if (i == 5) {
            SAYS(explain(link), before);
            SAYS(explained, "nobody submitted raises it");
            SAYS_NOT(explained, "cycle");
        }
        if (i == 32) { SAYS_NOT(explain(link), "and so on"); } /* so many links are told */
        if (i == 33) { SAYS(explain(link), "and so on"); }
    }
    CHECK(on_a_small_stack(explainer_run, &last) == &last);
    for (uint32_t i = 1; i <= LEVELS; i++) {
        const hcq_point waits[2] = {hcq_at(two[0], i), hcq_at(two[1], i)};
        for (int k = 0; k < 2; k++) {
            hcq_point raise = hcq_at(two[k], i + 1);
            CHECK_OK(submit_waits(k ? T.dev : dev2(), waits, 2, &raise, HCQ_UNORDERED, NULL));
        }
    }
    CHECK(strlen(explain(hcq_at(two[0], LEVELS + 1))) > 0);
    CHECK_OK(hcq_signal_set(t, 1));
    CHECK_OK(hcq_signal_set(two[0], 1));
    CHECK_OK(hcq_signal_set(two[1], 1));
    WAIT_OK(last);
    WAIT_OK(hcq_at(two[0], LEVELS + 1));
    WAIT_OK(hcq_at(two[1], LEVELS + 1));
}

/* ---- the log tells of itself ---- */

static uint32_t log_count(const char *word) {
    uint32_t count = 0;
    pthread_mutex_lock(&T.log.lock);
    for (const char *at = T.log.text; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        count++;
    }
    pthread_mutex_unlock(&T.log.lock);
    return count;
}

/* On a device it synchronizes, or submits and waits if there are points. */
static void *long_call_run(void *user) {
    blocked_call *b = (blocked_call *)user;
    hcq_submission sub = {.waits = b->points, .wait_count = b->count};
    return blocked_end(b, !b->device ? hcq_wait(b->points, b->count, b->mode, b->timeout_ns)
                          : b->count ? hcq_submit_and_wait(b->device, &sub, 1, BOUND, NULL)
                                     : hcq_device_synchronize(b->device, BOUND));
}

/* A wait that lasts says why, once, whatever its end; others are silent. */
TEST(long_waits_explain_themselves) {
    static const char *const labels[] = {"gate-0", "gate-1", "gate-2", "gate-3", "gate-4",
                                         "gate-5"};
    hcq_device *device = open_labelled("slow", SECOND / 200);
    static blocked_call w;
    for (int way = 0; way < 6; way++) {
        hcq_point gate = hcq_at(labelled_signal(device, labels[way]), 1);
        hcq_point raise = make_gate(T.dev);
        hcq_point held = submit_link(device, HCQ_COMPUTE, "the held one", gate, raise);
        log_clear();
        w = (blocked_call){
            .points = {way == 1 || way == 4 ? gate : held, raise}, .count = way == 2 ? 2 : way < 5,
            .mode = way == 2 ? HCQ_ANY : HCQ_ALL, .device = way < 4 ? NULL : device,
            .timeout_ns = way == 3 ? HCQ_DEADLINE(hcq_now_ns() + BOUND) : HCQ_FOREVER};
        pthread_create(&w.thread, NULL, long_call_run, &w);
        int told = log_until(labels[way]);
        test_sleep_ms(50);             /* ten times as long: it is not told again */
        uint32_t times = log_count("lasts longer"), words = log_count("nobody submitted");
        int held_too = log_has("the held one");
        hcq_result set = hcq_signal_set(gate.signal, 1);
        pthread_join(w.thread, NULL);
        CHECK_OK(set);
        CHECK_OK(w.result);
        CHECK(told);
        CHECK_U64(times, 1);
        CHECK(way > 3 || words == (way == 2 ? 2 : 1)); /* both points have that cause */
        CHECK(way == 1 || way > 3 || held_too);
        CHECK(!log_has(": \n"));       /* an empty line */
        WAIT_OK(held);
    }
    CHECK_OK(hcq_close(device));
}

/* Polls, what is reached, and waits that are shorter than the time that they may
   last: 5 s, for ever, more than there is. */
TEST(short_waits_are_silent) {
    static const uint64_t lasts[] = {0, HCQ_NEVER, HCQ_NEVER - 1, HCQ_NEVER - SECOND,
                                     HCQ_NEVER / 2 + 1, 1};
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
        CHECK_U64(T.log.lines, 0);
        CHECK_OK(hcq_close(device));
    }
}

/* Released, but the only version of its queue runs with other values. */
TEST(explain_versions_in_use) {
    T.races_meant = 1;
    const hcq_value values[2] = {hcq_value_number(3), hcq_value_number(4)};
    hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev)}, done[2];
    hcq_device *device = OPEN_WITH(0, .versions = 1);
    hcq_buffer word = make_words(device, 1);
    hcq_queue *q = make_holder(device);
    CHECK_INDEX(record_word(q, word, 0, 4), 1);
    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_VALUE, 0, 0));
    CHECK_OK(hcq_queue_bind(q, device));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(SUBMIT(device, q, &done[i], .values = &values[i], .value_count = 1,
                        .waits = &gates[i], .wait_count = 1, .flags = HCQ_UNORDERED));
    }
    open_gate(gates[0]);
    CHECK(word_until(&SEEN->hold_began, 1));
    open_gate(gates[1]);
    SAYS(explain(done[1]), "until a version of its queue is free");
    hold_release();
    WAIT_OK(done[1]);
    CHECK_U64(READ32(word, 0), 4);
    CHECK_OK(hcq_close(device));
}
