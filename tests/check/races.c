/* races.c - the checker of order (hcq_check.h): small programs of which something is
   missing that orders two commands, or is wrong, or late; each is told, with the pair and
   the call to add, and its mended twin is not.

   races [VARIANT] */
#ifndef HCQ_CHECK
#define HCQ_CHECK
#endif
#include "support/util.h"

enum { BYTES = 256, LANES = 3 };

/* What a program has: compute lanes, whose queues are called 'first' and 'second'. */
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
static void program_open_with(hcq_device_desc desc) {
    CHECK_OK(hcq_close(P.dev));
    memset(&P, 0, sizeof P);
    T.log.possible = 0;
    log_clear();
    desc.compute_lanes = LANES;
    P.dev = test_open_with(0, desc);
    P.first = labelled(HCQ_COMPUTE, "first");
    P.second = labelled(HCQ_COMPUTE, "second");
    P.x = words_of();
    P.y = words_of();
    P.z = words_of();
    P.signal = make_signal(P.dev, 0);
    CHECK_OK(hcq_signal_label(P.signal, "step"));
}

static void program_open(uint32_t flags) {
    program_open_with((hcq_device_desc){.flags = flags});
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

/* Thousands more on a lane: what only lies behind them is forgotten. */
static void many_others(uint64_t lane) {
    hcq_queue *others = labelled(HCQ_COMPUTE, "others");
    SET(others, P.z);
    for (int i = 0; i < 6000; i++) {
        (void)submit_on(lane, others, NULL);
    }
}

#include "programs.h"
#include "drawn.h"
#include "reads.h"
#include "limits.h"

/* What nobody has seen is over is not forgotten behind thousands of others; what the host has
   seen is no reason for anything. */
TEST(what_is_remembered) {
    for (int way = 0; way < 3; way++) {
        program_open(0);
        SET(P.first, P.x);
        MOVE(P.second, P.y, P.x);
        hcq_point one = submit_on(0, P.first, NULL);
        many_others(0);
        DONE_IF(way == 2, one);
        (void)submit_on(1, P.second, way == 1 ? &one : NULL);
        CHECK_U64(races_of(P.dev), way == 0);
    }
}

/* Memory that was given long ago, behind what the host never waited for, is everybody's. */
TEST(what_was_given_long_ago) {
    program_open(0);
    hcq_buffer later;
    hcq_point ready;
    SET(P.first, P.x);
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(hcq_alloc_after(P.dev, NULL, 0, BYTES, 0, &later, &ready));
    DONE(ready);
    many_others(1);
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
    CHECK_INDEX(hcq_queue_wait(held, hcq_at(P.signal, 1)), 0);
    SET(held, P.x);
    (void)submit_on(0, P.first, NULL);
    hcq_point last = submit_on(0, held, NULL);
    CHECK_RESULT(SUBMIT(P.dev, P.second, NULL, .affinity = 1), HCQ_ERROR_RACE);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE(last);
    CHECK_U64(races_of(P.dev), 1);     /* what did not run is no reason for another one */
    (void)hcq_device_dump(P.dev, text, sizeof text);
    CHECK(strstr(text, "races: 1") != NULL && strstr(text, "'second'") != NULL);
}

/* What is before its segment runs, what is in it does not. */
TEST(a_race_fails_from_its_segment_on) {
    program_open(HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_FAILS);
    hcq_signal end = make_signal(P.dev, 0);
    SET(P.first, P.x);
    SET(P.second, P.y);
    CHECK_INDEX(hcq_queue_wait(P.second, hcq_at(P.signal, 1)), 1); /* which ends a segment */
    SET(P.second, P.z);
    SET(P.second, P.x);
    CHECK_INDEX(hcq_queue_signal(P.second, hcq_at(end, 1)), 4);
    (void)submit_on(0, P.first, NULL);
    CHECK_OK(SUBMIT(P.dev, P.second, NULL, .affinity = 1)); /* held: nobody knows yet */
    CHECK_OK(hcq_signal_set(P.signal, 1));
    CHECK_OK(hcq_device_synchronize(P.dev, BOUND));
    CHECK_RESULT(test_poll(hcq_at(end, 1)), HCQ_ERROR_RACE);
    CHECK(*(uint32_t *)P.y.host == 7 && *(uint32_t *)P.z.host == 0);
}

/* Of an argument nobody stated what of it a kernel touches: a hint, which counts nowhere, of
   each of the parts that others cut it into; so a race is. */
TEST(a_race_in_two_parts) {
    program_open(0);
    CHECK(record_add(P.first, make_add(P.dev), P.x, 0, 5) == 0);
    CHECK(hcq_queue_fill(P.second, AT(P.x, 0, 64), 64, 7, 4) == 0);
    CHECK(hcq_queue_copy(P.second, AT(P.y, 0, 64), AT(P.x, 128, 64), 64) == 1);
    submit_both(0);
    CHECK_U64(races_of(P.dev), 0);
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

/* ---- waits that change nothing ---- */

/* Beside those that are drawn. */
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
    const hcq_point same[2] = {two, two}; /* one is enough */
    CHECK_OK(SUBMIT(P.dev, fourth, NULL, .waits = same, .wait_count = 2, .flags = HCQ_UNORDERED));
    hcq_queue *fifth = labelled(HCQ_COMPUTE, "fifth"), *eighth = labelled(HCQ_COMPUTE, "eighth");
    CHECK_INDEX(hcq_queue_wait(fifth, hcq_at(P.signal, 9)), 0); /* the host's is not on its lane */
    (void)submit_on(1, fifth, NULL);
    CHECK_OK(hcq_signal_set(P.signal, 8));
    CHECK_OK(hcq_signal_set(P.signal, 9));
    hcq_queue *pair[2] = {labelled(HCQ_COMPUTE, "sixth"), labelled(HCQ_COMPUTE, "seventh")};
    hcq_submission list = {.waits = &one, .wait_count = 1, .queues = pair, .queue_count = 2};
    CHECK_INDEX(hcq_queue_wait(eighth, hcq_at(P.signal, 9)), 0); /* though its lane knows of 8 */
    (void)submit_on(1, eighth, NULL);
    CHECK_OK(hcq_submit(P.dev, &list, 1, NULL)); /* each has the list */
    hcq_signal gate = make_signal(P.dev, 0), steps = make_signal(P.dev, 0);
    hcq_queue *raises = labelled(HCQ_COMPUTE, "raises"), *ninth = labelled(HCQ_COMPUTE, "ninth");
    CHECK_INDEX(hcq_queue_signal(raises, hcq_at(steps, 1)), 0);
    CHECK_INDEX(hcq_queue_wait(raises, hcq_at(gate, 1)), 1);
    CHECK_INDEX(hcq_queue_signal(raises, hcq_at(steps, 2)), 2); /* later, though nothing ran since */
    CHECK_INDEX(hcq_queue_wait(ninth, hcq_at(steps, 1)), 0);
    CHECK_INDEX(hcq_queue_wait(ninth, hcq_at(steps, 2)), 1);
    (void)submit_on(0, raises, NULL);
    (void)submit_on(1, ninth, NULL);
    CHECK_OK(hcq_signal_set(gate, 1));
    settle();
    CHECK(hinted("command", 0, "ninth") && !hinted("command", 1, "ninth"));
    CHECK(!hinted("wait", 0, "second") && hinted("command", 1, "third"));
    CHECK(!hinted("wait", 0, "fourth") && hinted("wait", 1, "fourth"));
    CHECK(!hinted("wait", 0, "sixth") && !hinted("wait", 0, "seventh"));
    CHECK(!hinted("command", 0, "fifth") && !hinted("command", 0, "eighth"));
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
        CHECK_OK(hcq_check_meet(right ? &done : NULL)); /* about nothing they do not meet */
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
    program_open_with((hcq_device_desc){.timeout_ns = 1000000});
    SET(P.first, P.x);
    CHECK(hcq_queue_wait(P.first, hcq_at(P.signal, 1)) >= 0);
    hcq_point done = submit_on(0, P.first, NULL);
    CHECK(hcq_copyout(out, P.x, BYTES) != HCQ_OK);
    CHECK_OK(hcq_signal_set(P.signal, 1));
    DONE(done);
    CHECK_U64(races_of(P.dev), 0);
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

int main(int argc, char **argv) { return test_main(argc, argv); }
