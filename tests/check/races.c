/* races.c - the checker of order (hcq_check.h): small programs of which something is
   missing that orders two commands, or is wrong, or late; each is told, with the pair and
   the call to add, and its mended twin is not.

   races [VARIANT] */
#ifndef HCQ_CHECK
#define HCQ_CHECK
#endif
#include "support/util.h"

enum { BYTES = 256 };

/* What a program has: two compute lanes, whose queues are called 'first' and 'second'. */
static struct {
    hcq_device *dev;
    hcq_queue *first, *second;
    hcq_buffer x, y, z;                /* words of zero */
    hcq_signal signal;                 /* 'step' */
    uint64_t others;                   /* races that another device told */
    int cannot;                        /* the backend lacks what the program needs */
} P;

static hcq_queue *labelled(hcq_queue_kind kind, const char *label) {
    hcq_queue *q = make_queue(P.dev, kind);
    CHECK_OK(hcq_queue_label(q, label));
    return q;
}

static hcq_buffer words_of(void) {
    return make_buffer(P.dev, BYTES, HCQ_ZEROED | HCQ_HOST_VISIBLE);
}

/* The one before is closed. */
static void program_open(uint32_t flags) {
    CHECK_OK(hcq_close(P.dev));
    memset(&P, 0, sizeof P);
    T.log.possible = 0;
    log_clear();
    P.dev = OPEN_WITH(0, .compute_lanes = 2, .flags = flags);
    P.first = labelled(HCQ_COMPUTE, "first");
    P.second = labelled(HCQ_COMPUTE, "second");
    P.x = words_of();
    P.y = words_of();
    P.z = words_of();
    P.signal = make_signal(P.dev, 0);
    CHECK_OK(hcq_signal_label(P.signal, "step"));
}

static hcq_point submit_on(uint64_t lane, hcq_queue *q, const hcq_point *wait) {
    hcq_point done;
    CHECK_OK(SUBMIT(P.dev, q, &done, .waits = wait, .wait_count = wait != NULL, .affinity = lane));
    return done;
}

/* 'first' on one lane, 'second' on the other, which may wait for it. */
static void submit_both(int waits) {
    hcq_point one = submit_on(0, P.first, NULL);
    (void)submit_on(1, P.second, waits ? &one : NULL);
}

static hcq_point submit_unordered(hcq_queue *q) {
    hcq_point done;
    CHECK_OK(SUBMIT(P.dev, q, &done, .flags = HCQ_UNORDERED));
    return done;
}

/* So many are told by now. */
static uint64_t races_of(hcq_device *device) {
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    return test_query(device, HCQ_QUERY_RACES);
}

/* ---- tests, which mean their races, and whose program is closed ---- */

static int races_setup(void **state) {
    memset(&P, 0, sizeof P);
    T.races_meant = 1;
    return test_setup(state);
}

static int races_teardown(void **state) {
    hcq_result closed = hcq_close(P.dev);
    return test_teardown(state) == 0 && closed == HCQ_OK ? 0 : -1;
}

#undef TEST
#define TEST(name) TEST_WITH(name, races_setup, races_teardown)

#define SET(q, buffer) CHECK(hcq_queue_fill(q, buffer, (buffer).size, 7, 4) >= 0)
#define MOVE(q, dst, src) CHECK(hcq_queue_copy(q, dst, src, BYTES) >= 0)
#define AT(buffer, offset, size) hcq_view(buffer, offset, size)
#define DONE(point) CHECK_OK(hcq_wait(&(point), 1, HCQ_ALL, BOUND))
#define DONE_IF(condition, point) \
    CHECK_OK((condition) ? hcq_wait(&(point), 1, HCQ_ALL, BOUND) : HCQ_OK)

/* ---- the programs: `right` is the mended twin ---- */

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

PROGRAM(two_writers, "'first'", "'second'", "to add") {
    SET(P.first, P.x);
    SET(P.second, P.x);
    submit_both(right);
}

PROGRAM(a_reader_and_a_later_writer, "reads", "'second'", "to add") {
    MOVE(P.first, P.y, P.x);
    SET(P.second, P.x);
    submit_both(right);
}

/* The value that is waited for is raised too early. */
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

/* The signal comes before the command. */
PROGRAM(a_signal_too_early, "'first'", "'second'", "to add") {
    CHECK(right || hcq_queue_signal(P.first, hcq_at(P.signal, 1)) >= 0);
    SET(P.first, P.x);
    CHECK(!right || hcq_queue_signal(P.first, hcq_at(P.signal, 1)) >= 0);
    CHECK(hcq_queue_wait(P.second, hcq_at(P.signal, 1)) >= 0);
    MOVE(P.second, P.y, P.x);
    submit_both(0);
}

PROGRAM(a_wait_for_another_submission, "'first'", "'second'", "wait for the point") {
    SET(P.first, P.x);
    MOVE(P.second, P.y, P.x);
    hcq_queue *other = labelled(HCQ_COMPUTE, "other");
    SET(other, P.z);
    hcq_point before = submit_on(0, other, NULL), up = submit_on(0, P.first, NULL);
    (void)submit_on(1, P.second, right ? &up : &before);
}

PROGRAM(unordered_on_one_lane, "'first'", "'second'", "to add") {
    SET(P.first, P.x);
    SET(P.second, P.x);
    hcq_point one = submit_unordered(P.first);
    DONE_IF(right, one);
    (void)submit_unordered(P.second);
}

PROGRAM(commands_that_overlap, "command 0", "command 1", "HCQ_OVERLAP") {
    SET(P.first, P.x);
    CHECK(hcq_queue_fill(P.first, P.x, BYTES, 9, 4) == 1);
    CHECK_OK(hcq_queue_command_flags(P.first, 1, right ? 0 : HCQ_OVERLAP));
    (void)submit_on(0, P.first, NULL);
}

/* The barrier between two groups that overlap is missing. */
PROGRAM(groups_without_a_barrier, "command 0", "command 2", "memory_barrier") {
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(!(right && i == 2) || hcq_queue_memory_barrier(P.first) >= 0);
        int32_t at = hcq_queue_fill(P.first, AT(P.x, (i % 2) * 64, 64), 64, 7, 4);
        CHECK(at >= 0);
        CHECK_OK(hcq_queue_command_flags(P.first, at, HCQ_OVERLAP));
    }
    (void)submit_on(0, P.first, NULL);
}

/* By one byte. */
PROGRAM(ranges_that_meet, "bytes 100 to 100", "'second'", "to add") {
    CHECK(hcq_queue_fill(P.first, AT(P.x, 0, 101), right ? 100 : 101, 7, 1) >= 0);
    CHECK(hcq_queue_fill(P.second, AT(P.x, 100, 100), 100, 7, 1) >= 0);
    submit_both(0);
}

PROGRAM(a_host_that_reads_early, "'first'", "the host", "to add") {
    SET(P.first, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    DONE_IF(right, done);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

PROGRAM(a_host_that_writes_early, "reads", "the host", "to add") {
    MOVE(P.first, P.y, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    DONE_IF(right, done);
    CHECK_OK(hcq_check_host(P.x.host, 4, HCQ_ARG_OUT));
}

/* Three frames in flight, each with a slot of the ring: the one that is used again was
   waited for, or the one before. */
PROGRAM(a_ring_of_frames, "'first'", "the host", "to add") {
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

/* The middle of a chain of three lets go of what it should hand on. */
PROGRAM(a_chain_with_a_gap, "'first'", "'last'", "to add") {
    hcq_queue *last = labelled(HCQ_COPY, "last");
    SET(P.first, P.x);
    SET(P.second, P.z);
    CHECK(hcq_queue_copy(last, P.y, P.x, BYTES) >= 0);
    hcq_point one = submit_on(0, P.first, NULL), two = submit_on(1, P.second, right ? &one : NULL);
    (void)submit_on(0, last, &two);
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

/* One of two is not both. */
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

/* A kernel of which it is stated what it writes. */
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

/* A host command says what it reads. */
PROGRAM(a_host_command, "'first'", "'second'", "to add") {
    SET(P.first, P.x);
    CHECK_INDEX(hcq_queue_host(P.second, host_nothing, NULL), 0);
    CHECK_OK(hcq_queue_access(P.second, 0, P.x, HCQ_ARG_IN));
    submit_both(right);
}

/* A launch of a graph, and what another lane does with its memory. */
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

/* An update of a wait goes back to an older value. */
PROGRAM(an_update_of_a_wait, "'first'", "'second'", "'step' at 2") {
    CHECK_OK(hcq_signal_set(P.signal, 1));
    SET(P.first, P.x);
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 2)) >= 0);
    CHECK_INDEX(hcq_queue_wait(P.second, hcq_at(P.signal, 3)), 0);
    MOVE(P.second, P.y, P.x);
    CHECK_OK(hcq_queue_update_wait(P.second, 0, NULL, right ? 2 : 1));
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

/* A writer waits for one of two who read. */
PROGRAM(two_readers_and_a_wait_for_one, "'second'", "'writer'", "to add") {
    hcq_queue *writer = labelled(HCQ_COPY, "writer");
    MOVE(P.first, P.y, P.x);
    MOVE(P.second, P.z, P.x);
    SET(writer, P.x);
    hcq_point both[2] = {submit_on(0, P.first, NULL), submit_on(1, P.second, NULL)};
    CHECK_OK(SUBMIT(P.dev, writer, NULL, .waits = both, .wait_count = right ? 2 : 1));
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

/* The barrier is before both. */
PROGRAM(a_barrier_too_early, "command 1", "command 2", "memory_barrier") {
    int32_t at[2];
    CHECK(hcq_queue_memory_barrier(P.first) >= 0);
    for (int i = 0; i < 2; i++) {
        CHECK(!(right && i) || hcq_queue_memory_barrier(P.first) >= 0);
        at[i] = hcq_queue_fill(P.first, P.x, BYTES, (uint64_t)i, 4);
        CHECK_OK(hcq_queue_command_flags(P.first, at[i], HCQ_OVERLAP));
    }
    (void)submit_on(0, P.first, NULL);
}

/* Two buffers that change places: the wait is for the frame before the one that is meant. */
PROGRAM(buffers_that_change_places, "'first'", "writes", "to add") {
    hcq_point done[6];
    for (uint32_t f = 0; f < 6; f++) {
        hcq_buffer from = f % 2 ? P.x : P.y, to = f % 2 ? P.y : P.x;
        CHECK_OK(hcq_queue_reset(P.first));
        MOVE(P.first, to, from);
        const hcq_point *wait = f == 0 ? NULL : right ? &done[f - 1] : f > 1 ? &done[f - 2] : NULL;
        done[f] = submit_on(f % 2, P.first, wait);
    }
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

/* Everything of a device is waited for, but before the submission that matters. */
PROGRAM(everything_so_far, "'early'", "'first'", "to add") {
    hcq_queue *early = labelled(HCQ_COMPUTE, "early");
    SET(P.first, P.x);
    CHECK(hcq_queue_wait_device(early, P.dev) >= 0);
    MOVE(early, P.y, P.x);
    if (right) {
        (void)submit_on(0, P.first, NULL);
        (void)submit_on(1, early, NULL);
    } else {
        (void)submit_on(1, early, NULL);
        (void)submit_on(0, P.first, NULL);
    }
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
    (void)user;
    __atomic_store_n(&called, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(result);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
}

PROGRAM(a_callback_for_another_point, "the host", "", "to add") {
    hcq_notification id;
    hcq_queue *other = labelled(HCQ_COMPUTE, "other");
    SET(other, P.z);
    SET(P.first, P.x);
    CHECK(hcq_queue_wait(P.first, hcq_at(P.signal, 1)) >= 0); /* it is not over by chance */
    hcq_point there = submit_on(1, other, NULL), done = submit_on(0, P.first, NULL);
    called = 0;
    CHECK_OK(hcq_notify(right ? done : there, callback, NULL, &id));
    while (!right && !__atomic_load_n(&called, __ATOMIC_SEQ_CST)) {
        test_sleep(1000000);
    }
    test_sleep_ms(right ? 0 : 20);     /* and it is told */
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE(done);
}

/* Memory of the host that two devices have imported. */
PROGRAM(memory_of_two_devices, "'first'", "'second'", "to add") {
    static uint32_t shared[1024] __attribute__((aligned(4096)));
    hcq_device *other = OPEN_WITH(1, .label = "other");
    hcq_buffer here, there;
    if (hcq_import(P.dev, shared, sizeof shared, 0, &here) != HCQ_OK ||
        hcq_import(other, shared, sizeof shared, 0, &there) != HCQ_OK) {
        P.cannot = 1;
        CHECK_OK(hcq_close(other));
        return;
    }
    hcq_queue *q = make_queue(other, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_label(q, "second"));
    SET(P.first, here);
    CHECK(hcq_queue_fill(q, AT(there, 0, 64), 64, 9, 4) >= 0);
    hcq_point one = submit_on(0, P.first, NULL), two;
    CHECK_OK(SUBMIT(other, q, &two, .waits = &one, .wait_count = right ? 1 : 0));
    DONE(two);
    P.others = test_query(other, HCQ_QUERY_RACES);
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
static void failed_callback(void *user, hcq_result result) {
    (void)user;
    CHECK_RESULT(result, HCQ_ERROR_HOST);
    CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
    __atomic_store_n(&called, 1, __ATOMIC_SEQ_CST);
}

PROGRAM(a_callback_for_what_failed, "'first'", "the host", "to add") {
    hcq_notification id;
    SET(P.first, P.x);
    hcq_point done = submit_on(0, P.first, NULL);
    DONE_IF(right, done);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    CHECK_OK(hcq_signal_fail(P.signal, HCQ_ERROR_HOST, NULL));
    called = 0;
    CHECK_OK(hcq_notify(hcq_at(P.signal, 2), failed_callback, NULL, &id));
    while (!__atomic_load_n(&called, __ATOMIC_SEQ_CST)) {
        test_sleep(1000000);
    }
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

/* ---- random programs, and one ordering less ---- */

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
        s->lane = (uint32_t)(test_random(random) % 2);
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

/* Was it said of a queue's command, or a wait of its submission? */
static int hinted(const char *what, uint32_t number, const char *queue) {
    char text[96];
    snprintf(text, sizeof text, "hint: %s %u of '%s'", what, number, queue);
    return log_has(text);
}

/* Lines that another thread writes are there, too. */
static void settle(void) {
    CHECK_OK(hcq_device_synchronize(P.dev, BOUND));
    test_sleep_ms(20);
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

/* What nobody has seen is over is not forgotten behind thousands of others; what the host has
   seen is no reason for anything. */
TEST(what_is_remembered) {
    for (int way = 0; way < 3; way++) {
        program_open(0);
        hcq_queue *others = labelled(HCQ_COMPUTE, "others");
        SET(others, P.z);
        SET(P.first, P.x);
        MOVE(P.second, P.y, P.x);
        hcq_point one = submit_on(0, P.first, NULL);
        for (int i = 0; i < 6000; i++) {
            (void)submit_on(0, others, NULL);
        }
        DONE_IF(way == 2, one);
        (void)submit_on(1, P.second, way == 1 ? &one : NULL);
        CHECK_U64(races_of(P.dev), way == 0);
    }
}

/* Memory that was given long ago, behind what the host never waited for, is everybody's. */
TEST(what_was_given_long_ago) {
    program_open(0);
    hcq_queue *others = labelled(HCQ_COMPUTE, "others");
    hcq_buffer later;
    hcq_point ready;
    SET(others, P.z);
    SET(P.first, P.x);
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(hcq_alloc_after(P.dev, NULL, 0, BYTES, 0, &later, &ready));
    DONE(ready);
    for (int i = 0; i < 6000; i++) {
        (void)submit_on(1, others, NULL);
    }
    SET(P.second, later);
    (void)submit_on(1, P.second, NULL);
    CHECK_U64(races_of(P.dev), 0);
}

/* Memory that no kernel wrote, of which the host sees nothing. */
TEST(what_nobody_wrote) {
    for (int right = 0; right < 2; right++) {
        program_open(0);
        hcq_buffer from = make_buffer(P.dev, BYTES, right ? HCQ_ZEROED : 0);
        MOVE(P.first, make_buffer(P.dev, BYTES, 0), from);
        (void)submit_on(0, P.first, NULL);
        CHECK_U64(races_of(P.dev), !right && from.host == NULL);
    }
}

/* Told once for a pair, however often it runs, and in the dump; the submission fails if
   that is asked for, and nothing of it runs. */
TEST(a_race_fails_its_submission) {
    char text[8192];
    program_open(HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_FAILS);
    SET(P.first, P.x);
    CHECK(hcq_queue_fill(P.second, P.x, BYTES, 9, 4) >= 0);
    for (int i = 0; i < 3; i++) {
        hcq_point good = submit_on(0, P.first, NULL);
        CHECK_RESULT(SUBMIT(P.dev, P.second, NULL, .affinity = 1), HCQ_ERROR_RACE);
        DONE(good);
        CHECK_U64(*(uint32_t *)P.x.host, 7);
    }
    hcq_queue *held = labelled(HCQ_COMPUTE, "held"); /* since before that one failed again */
    hcq_signal gate = make_signal(P.dev, 0);
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(gate, 1)), 0);
    SET(held, P.x);
    (void)submit_on(0, P.first, NULL);
    hcq_point last = submit_on(0, held, NULL);
    CHECK_RESULT(SUBMIT(P.dev, P.second, NULL, .affinity = 1), HCQ_ERROR_RACE);
    CHECK_OK(hcq_signal_set(gate, 1));
    DONE(last);
    CHECK_U64(races_of(P.dev), 1);     /* what did not run is no reason for another one */
    (void)hcq_device_dump(P.dev, text, sizeof text);
    CHECK(strstr(text, "races: 1") != NULL && strstr(text, "'second'") != NULL);
}

/* What is before its segment runs, what is in it does not. */
TEST(a_race_fails_from_its_segment_on) {
    program_open(HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_FAILS);
    hcq_signal gate = make_signal(P.dev, 0), end = make_signal(P.dev, 0);
    SET(P.first, P.x);
    SET(P.second, P.y);
    CHECK_INDEX(hcq_queue_wait(P.second, hcq_at(gate, 1)), 1); /* which ends a segment */
    SET(P.second, P.z);
    SET(P.second, P.x);
    CHECK_INDEX(hcq_queue_signal(P.second, hcq_at(end, 1)), 4);
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(SUBMIT(P.dev, P.second, NULL, .affinity = 1)); /* held: nobody knows yet */
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK_OK(hcq_device_synchronize(P.dev, BOUND));
    CHECK_RESULT(test_poll(hcq_at(end, 1)), HCQ_ERROR_RACE);
    CHECK(*(uint32_t *)P.y.host == 7 && *(uint32_t *)P.z.host == 0);
}

/* Of an argument nobody stated what of it a kernel touches: a hint, which counts nowhere. */
TEST(a_possible_race_is_a_hint) {
    program_open(0);
    CHECK(record_add(P.first, make_add(P.dev), P.x, 1, 5) == 0);
    MOVE(P.second, P.y, P.x);
    submit_both(0);
    CHECK_U64(races_of(P.dev), 0);
    settle();
    CHECK(T.log.possible != 0);
}

/* So it is of the parts that others cut it into, and a race is. */
TEST(a_race_in_two_parts) {
    program_open(0);
    CHECK(record_add(P.first, make_add(P.dev), P.x, 0, 5) == 0);
    CHECK(hcq_queue_fill(P.second, AT(P.x, 0, 64), 64, 7, 4) == 0);
    CHECK(hcq_queue_copy(P.second, AT(P.y, 0, 64), AT(P.x, 128, 64), 64) == 1);
    submit_both(0);
    settle();
    CHECK_U64(T.log.possible, 2);
    program_open(0);
    MOVE(P.first, P.y, P.x);
    CHECK(hcq_queue_fill(P.second, AT(P.x, 0, 64), 64, 7, 4) == 0);
    CHECK(hcq_queue_fill(P.second, AT(P.x, 128, 64), 64, 7, 4) == 1);
    submit_both(0);
    CHECK_U64(races_of(P.dev), 2);
}

/* The number that a submission brings may make it less than was stated. */
TEST(less_may_be_enough_for_less) {
    program_open(0);
    hcq_value values[2] = {hcq_value_buffer(make_words(P.dev, 16)), hcq_value_number(1)};
    CHECK_INDEX(record_add(P.first, make_add(P.dev), P.x, 0, 5), 0);
    CHECK_OK(hcq_queue_access(P.first, 0, P.x, HCQ_ARG_INOUT));
    CHECK_OK(hcq_queue_variable(P.first, 0, HCQ_PART_ARG, 0, 0));
    CHECK_OK(hcq_queue_variable(P.first, 0, HCQ_PART_GRID_X, 1, 0));
    CHECK_OK(hcq_queue_submit_with(P.first, P.dev, values, 2, 0, NULL));
    CHECK_U64(races_of(P.dev), 0);
    settle();
    CHECK(T.log.possible != 0);
}

/* ---- kernels that write what they have to read ---- */

typedef struct scribble_args { uint64_t from, to; uint32_t at, value; } scribble_args;

static void scribble(const void *args, const hcq_block *block) {
    const scribble_args *a = HCQ_ARGS(scribble_args, args);
    (void)block;
    HCQ_PTR(uint8_t, a->from)[a->at] = (uint8_t)a->value;
}

static hcq_program *make_scribble(uint32_t second) {
    return make_kernel(P.dev, HCQ_CPU_PROGRAM("scribble", scribble, HCQ_ARG_IN, second, HCQ_ARG_U32,
                                              HCQ_ARG_U32));
}

/* What is told of a kernel that writes byte 9 of its argument `from`: 1: a race, 2: a possible
   one. */
typedef struct scribbled {
    const char *what;
    uint32_t flags, value;             /* of the device, of the buffers */
    int stated, same, told;            /* bytes 8 to 15 of 64; `to` is the same buffer */
} scribbled;

static int scribble_run(const scribbled *s, uint32_t memory) {
    program_open(HCQ_DEVICE_CHECK | s->flags);
    hcq_buffer from = make_buffer(P.dev, 64, HCQ_ZEROED | memory);
    hcq_buffer to = make_buffer(P.dev, 64, HCQ_ZEROED | memory), view = AT(from, 8, 8);
    scribble_args args = {view.address, s->same ? from.address : to.address, 1, s->value};
    hcq_program *program = make_scribble(HCQ_ARG_OUT);
    SET(P.first, from);                /* bytes of 7 and 0 */
    CHECK_INDEX(hcq_queue_exec(P.first, program, &args, sizeof args, dims_one, dims_one), 1);
    if (s->stated) {
        CHECK_OK(hcq_queue_access(P.first, 1, view, s->stated == 2 ? HCQ_ARG_INOUT : HCQ_ARG_IN));
    }
    if (s->stated == 3) {
        hcq_queue *host = make_queue(P.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_host(host, host_nothing, NULL), 0);
        (void)submit_on(0, host, NULL);
    }
    for (int i = 0; i < 2; i++) {      /* told once */
        CHECK_OK(hcq_queue_submit(P.first, P.dev, NULL));
        CHECK_OK(hcq_device_synchronize(P.dev, BOUND));
    }
    const uint64_t races = test_query(P.dev, HCQ_QUERY_RACES);
    int told = races == 1 && log_has("command 1 (scribble)") && log_has("byte 9 of a buffer of 64") &&
               log_has("0x00 before it ran and 0x05 now") && log_has("argument 0") ? 1
               : races != 0 ? 3 : T.log.possible != 0 ? 2 : 0;
    return told;
}

TEST(kernels_that_write_what_they_read) {
    const uint32_t reads = HCQ_DEVICE_CHECK_READS;
    const scribbled all[] = {
        {"stated", reads, 5, 1, 0, 1},
        {"nothing stated", reads, 5, 0, 0, 1},
        {"what was there", reads, 0, 0, 0, 0},
        {"stated to be written", reads, 5, 2, 0, 0},
        {"the same buffer is its output", reads, 5, 0, 1, 0},
        {"not asked", 0, 5, 1, 0, 0},
        {"nobody knows what the host does", reads, 5, 3, 0, 2},
    };
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int hidden = scribble_run(&all[i], 0), shown = scribble_run(&all[i], HCQ_HOST_VISIBLE);
        int wanted = all[i].told && !all[i].stated ? 2 : all[i].told; /* the host may, too */
        if (hidden != all[i].told || shown != wanted) {
            fprintf(stderr, "%s: told %d, for the host, too: %d\n", all[i].what, hidden, shown);
        }
        CHECK(hidden == all[i].told && shown == wanted);
    }
}

/* What was stated of one argument counts also where another one of the command may read there. */
TEST(an_argument_beside_another) {
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    program_open(0);
    scribble_args args = {P.x.address, P.x.address + 64, 0, 0};
    CHECK_INDEX(hcq_queue_exec(P.first, make_scribble(HCQ_ARG_IN), &args, sizeof args, dims_one,
                               dims_one), 0);
    CHECK_OK(hcq_queue_access(P.first, 0, AT(P.x, 64, 64), HCQ_ARG_IN));
    CHECK(hcq_queue_fill(P.second, AT(P.x, 64, 64), 64, 7, 4) >= 0);
    submit_both(0);
    CHECK_U64(races_of(P.dev), 1);
}

/* While a kernel runs another lane writes what it does not touch. */
static uint32_t beside_state;

static void beside_while(uint32_t state) {
    while (__atomic_load_n(&beside_state, __ATOMIC_SEQ_CST) == state) {
        test_sleep_ms(1);
    }
}

static void beside_kernel(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
    __atomic_store_n(&beside_state, 1, __ATOMIC_SEQ_CST);
    beside_while(1);
}

static hcq_program *make_beside(void) {
    return make_kernel(P.dev, HCQ_CPU_PROGRAM("beside", beside_kernel, HCQ_ARG_IN));
}

TEST(others_beside_a_kernel) {
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    SKIP_IF(T.variant->seeded, "a kernel that waits for the host");
    /* 1: a later one of its lane was there last; 2: it is given late; 3: it is the host */
    for (int later = 0; later < 4; later++) {
        program_open(HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_READS);
        hcq_buffer x = make_buffer(P.dev, BYTES, HCQ_ZEROED);
        hcq_queue *last = labelled(HCQ_COMPUTE, "last");
        hcq_signal go = make_signal(P.dev, 0);
        beside_state = 0;
        CHECK_INDEX(hcq_queue_exec(P.first, make_beside(), &x.address, 8, dims_one, dims_one), 0);
        CHECK(hcq_queue_fill(P.second, AT(x, 128, 64), 64, 7, 1) >= 0);
        SET(last, x);
        hcq_point one, two;
        if (later >= 2) {
            one = two = submit_on(0, P.first, NULL);
            beside_while(0);
            if (later == 2) {
                two = submit_on(1, P.second, NULL);
            } else {
                CHECK_OK(hcq_check_host((uint8_t *)x.host + 128, 1, HCQ_ARG_OUT));
                *((uint8_t *)x.host + 128) = 7;
            }
        } else {
            hcq_queue *gate = labelled(HCQ_COMPUTE, "gate");
            CHECK(hcq_queue_wait(gate, hcq_at(go, 1)) >= 0);
            (void)submit_on(0, gate, NULL);
            (void)submit_on(1, gate, NULL);
            one = submit_on(0, P.first, NULL);
            two = submit_on(1, P.second, NULL);
            if (later == 1) {
                (void)submit_on(0, last, &two);
            }
            CHECK_OK(hcq_signal_set(go, 1));
        }
        DONE_IF(later < 3, two);
        beside_while(0);
        __atomic_store_n(&beside_state, 2, __ATOMIC_SEQ_CST);
        DONE(one);
        settle();
        CHECK_U64(races_of(P.dev), 0);
        /* The two meet, maybe; and one may be at it, if it did not run before the kernel did. */
        CHECK(T.log.possible == 1 || (later == 1 && T.log.possible == 2));
    }
}

/* What the host had seen when it set a signal is not forgotten: who is held since before that
   knows it from there, and only from there. */
TEST(what_a_set_says_is_remembered) {
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    SKIP_IF(T.variant->seeded, "a kernel that waits for the host");
    CHECK_OK(hcq_close(T.dev));        /* what the host has seen is forgotten, too */
    T.dev = NULL;
    for (uint32_t sets = 0; sets < 2; sets++) {
        program_open(0);
        hcq_queue *runs = labelled(HCQ_COMPUTE, "runs"), *others = labelled(HCQ_COMPUTE, "others");
        hcq_point both[2] = {{{0}, 0}, hcq_at(P.signal, 1)};
        beside_state = 0;
        CHECK_INDEX(hcq_queue_exec(runs, make_beside(), &P.y.address, 8, dims_one, dims_one), 0);
        SET(others, P.z);
        SET(P.first, P.x);
        CHECK_INDEX(hcq_queue_host(P.second, host_nothing, NULL), 0); /* held till that has run */
        CHECK_OK(hcq_queue_access(P.second, 0, P.x, HCQ_ARG_IN));
        both[0] = submit_on(0, runs, NULL);
        CHECK_OK(SUBMIT(P.dev, P.second, NULL, .flags = HCQ_UNORDERED, .waits = both,
                        .wait_count = 1 + sets));
        beside_while(0);
        hcq_point one = submit_on(1, P.first, NULL);
        DONE(one);
        CHECK_OK(hcq_signal_set(P.signal, 1));
        for (int i = 0; i < 6000; i++) {
            (void)submit_on(1, others, NULL);
        }
        __atomic_store_n(&beside_state, 2, __ATOMIC_SEQ_CST);
        CHECK_U64(races_of(P.dev), 1 - sets);
    }
}

/* A value that was read says which raise it is; a wait for it only that it, or a later one, is. */
TEST(a_value_that_is_read) {
    SKIP_IF(!is_cpu(), "the CPU's kernels");
    SKIP_IF(T.variant->seeded, "a kernel that waits for the host");
    for (int reads = 0; reads < 2; reads++) {
        uint64_t value = 0;
        hcq_point at = {{0}, 5};
        program_open(0);
        at.signal = P.signal;
        beside_state = 0;
        CHECK_INDEX(hcq_queue_exec(P.first, make_beside(), &P.y.address, 8, dims_one, dims_one),
                    0);
        CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 7)) >= 0);
        SET(P.second, P.x);
        CHECK(hcq_queue_signal(P.second, hcq_at(P.signal, 5)) >= 0);
        hcq_point one = submit_on(0, P.first, NULL);
        beside_while(0);
        (void)submit_on(1, P.second, NULL);
        while (reads && value < 5) {
            CHECK_OK(hcq_signal_value(P.signal, &value));
        }
        DONE_IF(!reads, at);
        CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
        CHECK_U64(test_query(P.dev, HCQ_QUERY_RACES), !reads);
        __atomic_store_n(&beside_state, 2, __ATOMIC_SEQ_CST);
        DONE(one);
    }
}

/* ---- waits that change nothing ---- */

TEST(waits_that_change_nothing) {
    program_open(HCQ_DEVICE_CHECK_WAITS);
    SET(P.first, P.x);
    CHECK(hcq_queue_signal(P.first, hcq_at(P.signal, 1)) >= 0);
    SET(P.second, P.x);
    hcq_point one = submit_on(0, P.first, NULL), two = submit_on(1, P.second, &one);
    hcq_queue *third = labelled(HCQ_COMPUTE, "third"), *fourth = labelled(HCQ_COMPUTE, "fourth");
    CHECK_INDEX(hcq_queue_memory_barrier(third), 0);
    CHECK_INDEX(hcq_queue_wait(third, hcq_at(P.signal, 1)), 1); /* behind #2 on its lane */
    (void)submit_on(1, third, NULL);
    hcq_point both[2] = {one, two};
    hcq_submission s = {.waits = both, .wait_count = 2, .queues = &fourth, .queue_count = 1,
                        .flags = HCQ_UNORDERED};
    SET(fourth, P.x);
    CHECK_OK(hcq_submit(P.dev, &s, 1, NULL)); /* which follows #1 by #2 */
    hcq_queue *fifth = labelled(HCQ_COMPUTE, "fifth"), *sixth = labelled(HCQ_COMPUTE, "sixth");
    both[0] = two;                     /* of two that are the same one is enough */
    s.queues = &fifth;
    CHECK_OK(hcq_submit(P.dev, &s, 1, NULL));
    CHECK_INDEX(hcq_queue_wait(sixth, hcq_at(P.signal, 9)), 0); /* the host's is not on its lane */
    (void)submit_on(1, sixth, NULL);
    CHECK_OK(hcq_signal_set(P.signal, 8));
    CHECK_OK(hcq_signal_set(P.signal, 9));
    hcq_queue *pair[2] = {labelled(HCQ_COMPUTE, "seventh"), labelled(HCQ_COMPUTE, "eighth")};
    hcq_submission list = {.waits = &one, .wait_count = 1, .queues = pair, .queue_count = 2};
    hcq_queue *ninth = labelled(HCQ_COMPUTE, "ninth");
    CHECK_INDEX(hcq_queue_wait(ninth, hcq_at(P.signal, 9)), 0); /* though its lane knows of 8 */
    (void)submit_on(1, ninth, NULL);
    CHECK_OK(hcq_submit(P.dev, &list, 1, NULL)); /* each has the list */
    hcq_signal gate = make_signal(P.dev, 0), steps = make_signal(P.dev, 0);
    hcq_queue *raises = labelled(HCQ_COMPUTE, "raises"), *tenth = labelled(HCQ_COMPUTE, "tenth");
    CHECK_INDEX(hcq_queue_signal(raises, hcq_at(steps, 1)), 0);
    CHECK_INDEX(hcq_queue_wait(raises, hcq_at(gate, 1)), 1);
    CHECK_INDEX(hcq_queue_signal(raises, hcq_at(steps, 2)), 2); /* later, though nothing ran since */
    CHECK_INDEX(hcq_queue_wait(tenth, hcq_at(steps, 1)), 0);
    CHECK_INDEX(hcq_queue_wait(tenth, hcq_at(steps, 2)), 1);
    (void)submit_on(0, raises, NULL);
    (void)submit_on(1, tenth, NULL);
    CHECK_OK(hcq_signal_set(gate, 1));
    settle();
    CHECK(hinted("command", 0, "tenth") && !hinted("command", 1, "tenth"));
    CHECK(!hinted("wait", 0, "second") && hinted("command", 1, "third"));
    CHECK(hinted("wait", 0, "fourth") && !hinted("wait", 1, "fourth"));
    CHECK(!hinted("wait", 0, "fifth") && hinted("wait", 1, "fifth"));
    CHECK(!hinted("wait", 0, "seventh") && !hinted("wait", 0, "eighth"));
    CHECK(!hinted("command", 0, "sixth") && !hinted("command", 0, "ninth"));
    CHECK_OK(hcq_device_synchronize(P.dev, BOUND));
}

/* Two threads are two orders, if asked for, until they meet. */
static void *meets(void *user) {
    const hcq_point *done = (const hcq_point *)user;
    CHECK_OK(hcq_wait(done, 1, HCQ_ALL, BOUND));
    CHECK_OK(hcq_check_meet(done));
    return NULL;
}

TEST(threads_have_orders_of_their_own) {
    SKIP_IF(T.variant->seeded, "needs threads of its own");
    for (int right = 0; right < 2; right++) {
        program_open(HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_THREADS);
        SET(P.first, P.x);
        hcq_point done = submit_on(0, P.first, NULL);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, meets, &done) == 0);
        CHECK(pthread_join(thread, NULL) == 0); /* which hcq does not see */
        CHECK_OK(right ? hcq_check_meet(&done) : HCQ_OK);
        CHECK_OK(hcq_check_host(P.x.host, BYTES, HCQ_ARG_IN));
        CHECK_U64(test_query(P.dev, HCQ_QUERY_RACES), !right);
    }
}

/* What was seen before the first device asked for that, all threads have seen. */
TEST(threads_that_come_later) {
    const uint32_t word = 1;
    program_open(0);
    CHECK_OK(hcq_copyin(P.x, &word, sizeof word));
    hcq_device *other = OPEN_WITH(1, .flags = HCQ_DEVICE_CHECK_THREADS);
    SET(P.first, P.x);
    (void)submit_on(0, P.first, NULL);
    CHECK_U64(races_of(P.dev), 0);
    CHECK_OK(hcq_close(other));
}

/* A copy that could not wait has touched nothing. */
TEST(a_copy_that_times_out) {
    static char out[BYTES];
    program_open(0);
    CHECK_OK(hcq_close(P.dev));
    P.dev = OPEN_WITH(0, .compute_lanes = 2, .timeout_ns = 1000000);
    hcq_queue *q = labelled(HCQ_COMPUTE, "held");
    hcq_buffer x = words_of();
    hcq_signal gate = make_signal(P.dev, 0);
    SET(q, x);
    CHECK(hcq_queue_wait(q, hcq_at(gate, 1)) >= 0);
    hcq_point done = submit_on(0, q, NULL);
    CHECK(hcq_copyout(out, x, BYTES) != HCQ_OK);
    CHECK_OK(hcq_signal_set(gate, 1));
    DONE(done);
    CHECK_U64(races_of(P.dev), 0);
}

/* Of memory that no buffer has nothing can be declared. */
TEST(declarations_are_refused) {
    static char own[16];
    program_open(0);
    CHECK_RESULT(hcq_check_host(NULL, 4, HCQ_ARG_IN), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_check_host(P.x.host, 0, HCQ_ARG_IN), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_check_host(P.x.host, 4, HCQ_ARG_U32), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_check_host(own, 4, HCQ_ARG_IN), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_check_host((char *)P.x.host + 64, UINT64_MAX, HCQ_ARG_IN), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_check_host(P.x.host, 4, HCQ_ARG_INOUT));
    CHECK_OK(hcq_check_meet(NULL));
}

/* A device without the flag is told nothing, nor counts. */
TEST(a_device_that_is_not_checked) {
    hcq_device_desc desc = test_desc_of((hcq_device_desc){.compute_lanes = 2});
    T.races_meant = 0;
    desc.flags = 0;
    CHECK_OK(hcq_open(T.variant->backend, &desc, &P.dev));
    P.first = labelled(HCQ_COMPUTE, "first");
    P.second = labelled(HCQ_COMPUTE, "second");
    P.x = words_of();
    SET(P.first, P.x);
    SET(P.second, P.x);
    submit_both(0);
    CHECK_U64(races_of(P.dev), 0);
}

#include "limits.h"

int main(int argc, char **argv) { return test_main(argc, argv); }
