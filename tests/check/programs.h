/* programs.h - programs that lack one ordering, or have it too late or for another thing; with
   `right` each is its mended twin. Part of races.c. */

static struct {
    const char *name;
    void (*run)(int right);
    const char *first, *second, *hint; /* in the lines about it: the pair, what is to be added */
} programs[64];
static uint32_t program_count;

#define PROGRAM(program, one, two, add) \
    static void program(int right); \
    __attribute__((constructor)) static void program##_is_there(void) { \
        programs[program_count].name = #program; \
        programs[program_count].run = program; \
        programs[program_count].first = one; \
        programs[program_count].second = two; \
        programs[program_count++].hint = add; \
    } \
    static void program(int right)

PROGRAM(an_upload_and_its_reader, "'first'", "'second'", "wait for the point") {
    SET(P.first, P.x);
    MOVE(P.second, P.y, P.x);
    submit_both(right);
}

PROGRAM(a_value_too_low, "'first'", "'second'", "'step' at 2") {
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 1)) >= 0);
    SET(P.first, P.x);
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 2)) >= 0);
    CHECK(hcq_queue_wait(P.second, hcq_at(P.signal, right ? 2 : 1)) >= 0);
    MOVE(P.second, P.y, P.x);
    submit_both(0);
}

/* The value that is waited for was there at first. */
PROGRAM(a_value_from_before, "'first'", "'second'", "at 4") {
    hcq_signal signal = make_signal(P.dev, 3);
    SET(P.first, P.x);
    CHECK(hcq_queue_signal(P.first, hcq_at(signal, 4)) >= 0);
    CHECK(hcq_queue_wait(P.second, hcq_at(signal, right ? 4 : 3)) >= 0);
    MOVE(P.second, P.y, P.x);
    submit_both(0);
}

/* The wait is there, behind what it should be before. */
PROGRAM(a_wait_too_late, "'first'", "'second'", "'step' at 1") {
    SET(P.first, P.x);
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 1)) >= 0);
    CHECK(!right || hcq_queue_wait(P.second, hcq_at(P.signal, 1)) >= 0);
    MOVE(P.second, P.y, P.x);
    CHECK(right || hcq_queue_wait(P.second, hcq_at(P.signal, 1)) >= 0);
    submit_both(0);
}

PROGRAM(unordered_on_one_lane, "'first'", "'second'", "to add") {
    SET(P.first, P.x);
    SET(P.second, P.x);
    hcq_point one = submit_unordered(P.first);
    DONE_IF(right, one);
    (void)submit_unordered(P.second);
}

PROGRAM(ranges_that_meet, "bytes 100 to 100", "'second'", "to add") {
    CHECK(hcq_queue_fill(P.first, AT(P.x, 0, 101), right ? 100 : 101, 7, 1) >= 0);
    CHECK(hcq_queue_fill(P.second, AT(P.x, 100, 100), 100, 7, 1) >= 0);
    submit_both(0);
}

/* Three frames in flight, each with a slot of the ring: the one that is used again was
   waited for, or the one before. */
PROGRAM(a_ring_of_frames, "reads", "the host", "to add") {
    enum { RING = 3, FRAMES = 8 };
    hcq_point done[FRAMES];
    for (uint32_t f = 0; f < FRAMES; f++) {
        hcq_buffer slot = AT(P.x, f % RING * 64, 64);
        DONE_IF(f >= RING && (right || f != 5), done[f - RING]);
        CHECK_OK(hcq_check_host(slot.host, 64, HCQ_ARG_OUT));
        CHECK_OK(hcq_queue_reset(P.first));
        CHECK(hcq_queue_copy(P.first, AT(P.y, f % RING * 64, 64), slot, 64) >= 0);
        done[f] = submit_on(f % 2, P.first, NULL);
    }
}

/* The host sets the signal before it has seen the end of what it stands for. */
PROGRAM(a_set_too_early, "'first'", "'second'", "to add") {
    SET(P.first, P.x);
    CHECK(hcq_queue_wait(P.second, hcq_at(P.signal, 1)) >= 0);
    MOVE(P.second, P.y, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    (void)submit_on(1, P.second, NULL);
    DONE_IF(right, done);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE(done);
}

PROGRAM(any_in_place_of_all, "writes", "'reader'", "to add") {
    hcq_queue *reader = labelled(HCQ_COMPUTE, "reader");
    SET(P.first, P.x);
    SET(P.second, P.y);
    hcq_point both[2] = {submit_on(0, P.first, NULL), submit_on(1, P.second, NULL)};
    CHECK_OK(hcq_wait(both, 2, right ? HCQ_ALL : HCQ_ANY, BOUND));
    CHECK(hcq_queue_copy(reader, P.z, P.y, BYTES) >= 0);
    CHECK(hcq_queue_copy(reader, P.z, P.x, BYTES) >= 0);
    (void)submit_unordered(reader);
}

/* Any of two is enough for what both follow. */
PROGRAM(any_of_two_behind_one, "'first'", "the host", "to add") {
    hcq_queue *others[2] = {labelled(HCQ_COMPUTE, "other"), P.second};
    hcq_point one, both[2];
    SET(P.first, P.x);
    SET(others[0], P.y);
    SET(others[1], P.z);
    one = submit_on(0, P.first, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(SUBMIT(P.dev, others[i], &both[i], .waits = &one, .wait_count = i == 0 || right,
                        .flags = HCQ_UNORDERED));
    }
    CHECK_OK(hcq_wait(both, 2, HCQ_ANY, BOUND));
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

PROGRAM(an_old_timeline_value, "'first'", "'second'", "wait for the point") {
    SET(P.first, P.x);
    MOVE(P.second, P.y, P.x);
    uint64_t next = hcq_device_timeline_value(P.dev);
    (void)submit_on(0, P.first, NULL);
    hcq_point all = hcq_at(hcq_device_timeline(P.dev), right ? next : next - 1);
    (void)submit_on(1, P.second, &all);
}

PROGRAM(memory_before_it_is_given, "hcq_alloc_after", "'first'",
        "wait for the point of hcq_alloc_after") {
    hcq_point gate = hcq_at(P.signal, 1), ready;
    hcq_buffer later;
    CHECK_OK(hcq_alloc_after(P.dev, &gate, 1, BYTES, 0, &later, &ready));
    SET(P.first, later);
    (void)submit_on(1, P.first, right ? &ready : NULL);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE(ready);
}

/* Values move a copy to where another lane is. */
PROGRAM(values_that_meet, "'first'", "'second'", "to add") {
    hcq_value value = hcq_value_number(right ? 64 : 128);
    CHECK(hcq_queue_fill(P.first, AT(P.x, 0, 128), 128, 7, 1) >= 0);
    CHECK_OK(hcq_queue_variable(P.first, 0, HCQ_PART_SIZE, 0, 0));
    CHECK(hcq_queue_fill(P.second, AT(P.x, 64, 64), 64, 7, 1) >= 0);
    CHECK_OK(hcq_queue_submit_with(P.first, P.dev, &value, 1, 0, NULL));
    (void)submit_on(1, P.second, NULL);
}

PROGRAM(a_kernel_and_a_copy, "'first'", "'second'", "to add") {
    CHECK_INDEX(record_add(P.first, make_add(P.dev), P.x, 1, 5), 0);
    CHECK_OK(hcq_queue_access(P.first, 0, AT(P.x, 4, 4), HCQ_ARG_INOUT));
    CHECK(hcq_queue_copy(P.second, AT(P.y, 0, 4), AT(P.x, right ? 8 : 4, 4), 4) >= 0);
    submit_both(0);
}

/* A value brings less than the kernel touches, as was stated. */
PROGRAM(a_value_with_less_behind_it, "bytes 0 to 255", "a buffer of 64 ", "to add: 192 bytes") {
    hcq_queue *q = P.first;
    hcq_value value = hcq_value_buffer(right ? P.y : make_words(P.dev, 16));
    CHECK_INDEX(record_add(q, make_add(P.dev), P.x, 0, 5), 0);
    CHECK_OK(hcq_queue_access(q, 0, P.x, HCQ_ARG_INOUT));
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_ARG, 0, 0));
    CHECK_OK(hcq_queue_submit_with(q, P.dev, &value, 1, 0, NULL));
}

PROGRAM(a_grid_that_is_written, "'first'", "'second'", "to add") {
    hcq_buffer grid = AT(P.z, 0, 12);
    add_args args = {P.x.address, 1, 1};
    CHECK(hcq_queue_fill(P.first, grid, 12, 1, 4) >= 0);
    CHECK_INDEX(hcq_queue_exec_indirect(P.second, make_add(P.dev), &args, sizeof args, grid,
                                        hcq_dim(4, 4, 4), dims_one), 0);
    CHECK_OK(hcq_queue_access(P.second, 0, AT(P.x, 0, 4), HCQ_ARG_INOUT));
    submit_both(right);
}

PROGRAM(a_launch_and_a_copy, "'first'", "'second'", "to add") {
    hcq_queue *graph = labelled(HCQ_GRAPH, "first");
    SET(graph, P.x);
    CHECK(hcq_queue_copy(graph, P.y, P.x, BYTES) >= 0);
    CHECK_OK(hcq_queue_bind(graph, P.dev));
    MOVE(P.second, P.z, P.y);
    hcq_point launched;
    CHECK_OK(hcq_queue_submit(graph, P.dev, &launched));
    (void)submit_on(1, P.second, right ? &launched : NULL);
}

/* A point is waited for that failed work will never reach in order, and another one. */
PROGRAM(a_signal_of_two_raisers, "'first'", "'reader'", "to add") {
    hcq_queue *reader = labelled(HCQ_COPY, "reader");
    SET(P.first, P.x);
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 1)) >= 0);
    CHECK(hcq_queue_signal(P.second, hcq_at(P.signal, 2)) >= 0);
    CHECK(hcq_queue_copy(reader, P.y, P.x, BYTES) >= 0);
    hcq_point one = submit_on(0, P.first, NULL), at = hcq_at(P.signal, 1);
    (void)submit_on(1, P.second, right ? &one : NULL);
    (void)submit_on(0, reader, &at);
}

/* A bound queue that meets itself on the other lane. */
PROGRAM(a_queue_on_two_lanes, "'first'", "writes them", "to add") {
    SET(P.first, P.x);
    CHECK_OK(hcq_queue_bind(P.first, P.dev));
    hcq_point one = submit_on(0, P.first, NULL);
    (void)submit_on(1, P.first, right ? &one : NULL);
}

/* An update moves a copy to where another lane is. */
PROGRAM(an_update_that_meets, "'first'", "'second'", "to add") {
    hcq_buffer to = AT(P.x, right ? 64 : 0, 64);
    CHECK(hcq_queue_fill(P.first, AT(P.x, 0, 64), 64, 7, 4) >= 0);
    CHECK_INDEX(hcq_queue_copy(P.second, AT(P.x, 128, 64), AT(P.y, 0, 64), 64), 0);
    CHECK_OK(hcq_queue_bind(P.second, P.dev));
    CHECK_OK(hcq_queue_update_copy(P.second, 0, &to, NULL, HCQ_KEEP));
    submit_both(0);
}

/* The buffer that a submission brings is the one that another lane writes. */
PROGRAM(a_value_that_is_a_view, "'first'", "'second'", "to add") {
    hcq_value value = hcq_value_buffer(right ? P.z : P.x);
    SET(P.first, P.x);
    MOVE(P.second, P.y, P.z);
    CHECK_OK(hcq_queue_variable(P.second, 0, HCQ_PART_SRC, 0, 0));
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(SUBMIT(P.dev, P.second, NULL, .affinity = 1, .values = &value, .value_count = 1));
}

/* Both who read before are told. */
PROGRAM(two_readers_and_a_writer, "'first'", "'second'", "to add") {
    hcq_queue *writer = labelled(HCQ_COPY, "writer");
    MOVE(P.first, P.y, P.x);
    MOVE(P.second, P.z, P.x);
    SET(writer, P.x);
    hcq_point both[2] = {submit_on(0, P.first, NULL), submit_on(1, P.second, NULL)};
    CHECK_OK(SUBMIT(P.dev, writer, NULL, .waits = both, .wait_count = right ? 2 : 0));
}

/* Who lets a submission go has not seen it end. */
PROGRAM(a_set_is_no_wait, "'first'", "the host", "to add") {
    CHECK(hcq_queue_wait(P.first, hcq_at(P.signal, 1)) >= 0);
    SET(P.first, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE_IF(right, done);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

PROGRAM(a_recorded_write, "'first'", "'second'", "to add") {
    const uint32_t word = 5;
    CHECK(hcq_queue_write(P.first, AT(P.x, 8, 4), &word, 4) >= 0);
    CHECK(hcq_queue_copy(P.second, AT(P.y, 0, 4), AT(P.x, right ? 12 : 8, 4), 4) >= 0);
    submit_both(0);
}

/* One copies to where the other, which overlaps it, copies from. */
PROGRAM(copies_inside_a_buffer, "command 0", "command 1", "HCQ_OVERLAP") {
    CHECK_INDEX(hcq_queue_copy(P.first, AT(P.x, 64, 64), AT(P.x, 0, 64), 64), 0);
    CHECK_INDEX(hcq_queue_copy(P.first, AT(P.x, 192, 64), AT(P.x, right ? 128 : 96, 64), 64), 1);
    CHECK_OK(hcq_queue_command_flags(P.first, 1, HCQ_OVERLAP));
    (void)submit_on(0, P.first, NULL);
}

/* The barrier is before two groups that overlap, not between them. */
PROGRAM(a_barrier_too_early, "command 1", "command 3", "memory_barrier") {
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(i != (right ? 2 : 0) || hcq_queue_memory_barrier(P.first) >= 0);
        int32_t at = hcq_queue_fill(P.first, AT(P.x, (i % 2) * 64, 64), 64, 7, 4);
        CHECK_OK(hcq_queue_command_flags(P.first, at, HCQ_OVERLAP));
    }
    (void)submit_on(0, P.first, NULL);
}

/* A signal in the list of a submission is raised at its end, a recorded one where it is. */
PROGRAM(a_signal_in_the_middle, "'first'", "'second'", "to add") {
    const hcq_point one = hcq_at(P.signal, 1);
    CHECK(right || hcq_queue_signal(P.first, one) >= 0);
    SET(P.first, P.x);
    MOVE(P.second, P.y, P.x);
    CHECK_OK(SUBMIT(P.dev, P.first, NULL, .signals = &one, .signal_count = right ? 1 : 0));
    (void)submit_on(1, P.second, &one);
}

/* A launch is an earlier one's, but for another queue. */
PROGRAM(a_launch_that_nothing_follows, "'first'", "'second'", "to add") {
    hcq_queue *graph = labelled(HCQ_GRAPH, "second");
    SET(P.first, P.x);
    CHECK(hcq_queue_copy(graph, P.y, P.x, BYTES) >= 0);
    CHECK_OK(hcq_queue_bind(graph, P.dev));
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(SUBMIT(P.dev, graph, NULL, .flags = right ? 0 : HCQ_OVERLAP));
}

/* A callback may rely on what it was called for, and on nothing else. */
static uint32_t called;

static void callback(void *user, hcq_result result) {
    CHECK_RESULT(result, *(const hcq_result *)user);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
    __atomic_store_n(&called, 1, __ATOMIC_SEQ_CST);
}

static void call_at(hcq_point point, hcq_result result, int at_once) {
    static hcq_result wanted;
    hcq_notification id;
    wanted = result;
    called = 0;
    CHECK_OK(hcq_notify(point, callback, &wanted, &id));
    while (at_once && !__atomic_load_n(&called, __ATOMIC_SEQ_CST)) {
        test_sleep(1000000);
    }
}

PROGRAM(a_callback_for_another_point, "the host", "", "to add") {
    hcq_queue *other = labelled(HCQ_COMPUTE, "other");
    SET(other, P.z);
    SET(P.first, P.x);
    CHECK(hcq_queue_wait(P.first, hcq_at(P.signal, 1)) >= 0); /* it is not over by chance */
    hcq_point there = submit_on(1, other, NULL), done = submit_on(0, P.first, NULL);
    call_at(right ? done : there, HCQ_OK, !right);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE(done);
}

PROGRAM(memory_of_two_devices, "'first'", "'second'", "to add") {
    static uint32_t shared[1024] __attribute__((aligned(4096)));
    hcq_device *other = OPEN_WITH(1, .label = "other");
    hcq_queue *q = make_queue(other, HCQ_COMPUTE);
    hcq_buffer here, there;
    CHECK_OK(hcq_queue_label(q, "second"));
    P.cannot = hcq_import(P.dev, shared, sizeof shared, 0, &here) != HCQ_OK ||
               hcq_import(other, shared, sizeof shared, 0, &there) != HCQ_OK;
    if (!P.cannot) {
        SET(P.first, here);
        CHECK(hcq_queue_fill(q, AT(there, 0, 64), 64, 9, 4) >= 0);
        hcq_point one = submit_on(0, P.first, NULL), two;
        CHECK_OK(SUBMIT(other, q, &two, .waits = &one, .wait_count = right ? 1 : 0));
        DONE(two);
        P.others = test_query(other, HCQ_QUERY_RACES);
    }
    CHECK_OK(hcq_close(other));
}

/* A submission that fails half-way is over when what it handed over is. */
PROGRAM(a_submission_that_fails_half_way, "'first'", "the host", "to add") {
    SET(P.first, P.x);
    CHECK(hcq_queue_wait(P.first, hcq_at(P.signal, 1)) >= 0);
    SET(P.first, P.x);
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(hcq_signal_fail(P.signal, HCQ_ERROR_HOST, NULL));
    CHECK_OK(right ? hcq_device_synchronize(P.dev, BOUND) : HCQ_OK);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

/* Of several queues one fails before it begins: the end of all is that of the others. */
PROGRAM(a_submission_of_which_a_part_fails, "'first'", "the host", "to add") {
    hcq_queue *pair[2] = {P.first, P.second};
    hcq_submission s = {.queues = pair, .queue_count = 2, .flags = HCQ_UNORDERED};
    hcq_point done;
    SET(P.first, P.x);
    CHECK(hcq_queue_wait(P.second, hcq_at(P.signal, 1)) >= 0);
    CHECK_OK(hcq_submit(P.dev, &s, 1, &done));
    CHECK_OK(hcq_signal_fail(P.signal, HCQ_ERROR_HOST, NULL));
    CHECK_RESULT(right ? hcq_wait(&done, 1, HCQ_ALL, BOUND) : HCQ_ERROR_HOST, HCQ_ERROR_HOST);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

/* A wait that fails has seen nothing but its own points. */
PROGRAM(waits_that_fail, "'first'", "the host", "to add") {
    hcq_signal gone = make_signal(P.dev, 0);
    hcq_point none[2] = {hcq_at(P.signal, 1), hcq_at(gone, 1)};
    CHECK_OK(hcq_signal_fail(P.signal, HCQ_ERROR_HOST, NULL));
    CHECK_OK(hcq_signal_destroy(gone));
    SET(P.first, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    CHECK_RESULT(hcq_wait(&none[0], 1, HCQ_ALL, BOUND), HCQ_ERROR_HOST);
    CHECK_RESULT(hcq_wait(&none[1], 1, HCQ_ALL, BOUND), HCQ_ERROR_CLOSED);
    DONE_IF(right, done);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

/* Nor has a callback for what failed. */
PROGRAM(a_callback_for_what_failed, "'first'", "the host", "to add") {
    SET(P.first, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    DONE_IF(right, done);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    CHECK_OK(hcq_signal_fail(P.signal, HCQ_ERROR_HOST, NULL));
    call_at(hcq_at(P.signal, 2), HCQ_ERROR_HOST, 1);
}

/* What can not have ended a wait for any is no reason against the one that did. */
PROGRAM(any_of_one_and_what_is_gone, "'first'", "the host", "to add") {
    hcq_signal gone = make_signal(P.dev, 0);
    hcq_point any[2] = {{{0}, 0}, hcq_at(gone, 1)};
    CHECK_OK(hcq_signal_destroy(gone));
    SET(P.first, P.x);
    any[0] = submit_on(0, P.first, NULL);
    while (test_query(P.dev, HCQ_QUERY_PENDING) != 0) {
        test_sleep(1000000);
    }
    CHECK_OK(right ? hcq_wait(any, 2, HCQ_ANY, 0) : HCQ_OK);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

/* A device that closes has waited for its work. Another one's memory is what they share. */
PROGRAM(a_host_that_does_not_wait_for_a_close, "'other'", "the host", "to add") {
    hcq_device *other = OPEN_WITH(1, .label = "other");
    hcq_queue *q = make_queue(other, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_label(q, "other"));
    P.cannot = hcq_queue_fill(q, P.x, BYTES, 7, 4) < 0;
    if (!P.cannot) {
        CHECK_OK(hcq_queue_submit(q, other, NULL));
        CHECK_OK(right ? HCQ_OK : hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
    }
    CHECK_OK(hcq_close(other));
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

/* What is held names another device's memory, and is updated meanwhile. */
PROGRAM(an_update_behind_what_is_held, "'first'", "'second'", "to add") {
    hcq_device *other = OPEN_WITH(1, .label = "other");
    hcq_buffer old = make_buffer(other, BYTES, HCQ_ZEROED), to = make_buffer(other, BYTES, 0);
    P.cannot = hcq_queue_copy(P.first, old, P.x, BYTES) < 0 ||
               hcq_queue_fill(P.second, old, BYTES, 7, 4) < 0;
    if (!P.cannot) {
        hcq_point gate = hcq_at(P.signal, 1), one = submit_on(0, P.first, &gate);
        CHECK_OK(hcq_queue_update_copy(P.first, 0, &to, NULL, HCQ_KEEP));
        CHECK_OK(hcq_signal_set(P.signal, 1));
        hcq_point two = submit_on(1, P.second, right ? &one : NULL);
        DONE(one);
        DONE(two);
    }
    CHECK_OK(hcq_close(other));
}

/* Is the program told so, or, mended, not at all? */
static int program_run(uint32_t i, int right) {
    program_open(0);
    programs[i].run(right);
    const uint64_t races = races_of(P.dev) + P.others;
    if (P.cannot) {
        fprintf(stderr, "%s: not with this backend\n", programs[i].name);
        return 1;
    }
    int good = right ? races == 0
                     : races != 0 && log_has(programs[i].first) && log_has(programs[i].second) &&
                       log_has(programs[i].hint);
    if (!good) {
        fprintf(stderr, "%s, %s: %llu races\n", programs[i].name, right ? "mended" : "broken",
                (unsigned long long)races);
        test_dump();
    }
    return good;
}

TEST(programs_and_their_twins) {
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < program_count; i++) {
        wrong += (program_run(i, 1) ? 0u : 1u) + (program_run(i, 0) ? 0u : 1u);
    }
    CHECK_U64(wrong, 0);
}
