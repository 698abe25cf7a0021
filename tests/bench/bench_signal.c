/* bench_signal.c - signals and waits: what they cost where nobody waits, and
   what a wake-up costs where both threads share one processor. */

#include "bench.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- where there is nobody to wait for ----------------------------------- */
/* The other side is a lock that nobody else wants around one load or store. */

typedef struct guarded {
    pthread_mutex_t lock;
    uint64_t value, seen;
} guarded;

BENCH_RUN(guarded_set, guarded, g) {
    pthread_mutex_lock(&g->lock);
    g->value++;
    pthread_mutex_unlock(&g->lock);
}

BENCH_RUN(guarded_read, guarded, g) {
    pthread_mutex_lock(&g->lock);
    g->seen += g->value;
    pthread_mutex_unlock(&g->lock);
}

typedef struct lone {
    hcq_signal signal;
    uint64_t value;
} lone;

BENCH_RUN(lone_set, lone, l) {
    CHECK(hcq_signal_set(l->signal, ++l->value));
}

static void signal_set_no_waiter(bench_result *result) {
    bench_chain chain;
    guarded g = {.lock = PTHREAD_MUTEX_INITIALIZER};
    lone l = {{0}, 0};
    uint64_t value = 0;
    bench_chain_open(&chain, 1);
    CHECK(hcq_signal_create(chain.device, 0, &l.signal));
    bench_side sides[2] = {{lone_set, &l}, {guarded_set, &g}};
    bench_compare(result, sides, 2, 1.0);
    CHECK(hcq_signal_value(l.signal, &value));
    bench_counter(value, l.value, "signal_set_no_waiter");
    bench_note(result, "store under an uncontended pthread mutex");
    bench_chain_close(&chain);
}

BENCH_RUN(wait_run, const hcq_point, point) {
    CHECK(hcq_wait(point, 1, HCQ_ALL, HCQ_FOREVER));
}

/* The point of a submission that is over. */
static void wait_reached(bench_result *result) {
    bench_chain chain;
    guarded g = {.lock = PTHREAD_MUTEX_INITIALIZER};
    hcq_point done;
    bench_chain_open(&chain, 1);
    CHECK(hcq_queue_submit(chain.queue, chain.device, &done));
    wait_run(&done, 1);
    bench_side sides[2] = {{wait_run, &done}, {guarded_read, &g}};
    bench_compare(result, sides, 2, 1.0);
    bench_note(result, "load under an uncontended pthread mutex");
    bench_chain_close(&chain);
}

/* ---- submit and wait in one call ----------------------------------------- */

BENCH_RUN(one_call, bench_chain, chain) {
    hcq_submission s = {.queues = &chain->queue, .queue_count = 1};
    CHECK(hcq_submit_and_wait(chain->device, &s, 1, HCQ_FOREVER, NULL));
}

BENCH_RUN(two_calls, bench_chain, chain) {
    hcq_submission s = {.queues = &chain->queue, .queue_count = 1};
    hcq_point done;
    CHECK(hcq_submit(chain->device, &s, 1, &done));
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
}

static void submit_and_wait(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, 1);
    bench_side sides[2] = {{one_call, &chain}, {two_calls, &chain}};
    bench_compare(result, sides, 2, 1.0);
    bench_note(result, "hcq_submit, then hcq_wait");
    bench_chain_close(&chain);
}

/* ---- waking up on one processor ------------------------------------------ */
/* The device is opened with the default description while the process may use
   all processors, so the library thinks that spinning is worth it. Then all
   threads are put on one processor: who spins now keeps the awaited thread
   away, for a whole tick of the scheduler if he does not yield. */

/* Two host threads that answer each other by signals. */
typedef struct echo {
    hcq_device *device;
    hcq_signal ping, pong;
    uint64_t value, first;                /* between two round trips; the thread's first */
    _Atomic int stop;
    pthread_t thread;
} echo;

static void *echo_thread(void *ctx) {
    echo *e = (echo *)ctx;
    int stop = 0;
    for (uint64_t value = e->first; !stop; value++) {
        hcq_point call = hcq_at(e->ping, value);
        CHECK(hcq_wait(&call, 1, HCQ_ALL, HCQ_FOREVER));
        stop = atomic_load(&e->stop); /* before the answer: after it it may be the next call's */
        CHECK(hcq_signal_set(e->pong, value));
    }
    return NULL;
}

BENCH_RUN(echo_roundtrip, echo, e) {
    hcq_point answer = hcq_at(e->pong, ++e->value);
    CHECK(hcq_signal_set(e->ping, e->value));
    CHECK(hcq_wait(&answer, 1, HCQ_ALL, HCQ_FOREVER));
}

static void echo_begin(void *ctx) {
    echo *e = (echo *)ctx;
    atomic_store(&e->stop, 0);
    e->first = e->value + 1;
    bench_thread(&e->thread, echo_thread, e);
}

static void echo_end(void *ctx) {
    echo *e = (echo *)ctx;
    atomic_store(&e->stop, 1);
    echo_roundtrip(e, 1);
    pthread_join(e->thread, NULL);
}

/* `ours` against futex ping-pong, all on one processor from now on. */
static void measure_wakes(bench_result *result, bench_side ours) {
    bench_side sides[2] = {ours, bench_pingpong()};
    bench_place_threads(BENCH_TOGETHER);
    bench_compare_latency(result, sides);
    result->p99_goal = 1e6; /* a tick is 1 to 10 ms; no p99 may be as long as the shortest */
    bench_note(result, hcq_sys_cpu_count() == 1 ? "futex ping-pong" : "pinning did not work");
    free(sides[1].ctx);
}

static void wake_same_cpu(bench_result *result) {
    echo e = {0};
    CHECK(hcq_open("CPU", NULL, &e.device));
    CHECK(hcq_signal_create(e.device, 0, &e.ping));
    CHECK(hcq_signal_create(e.device, 0, &e.pong));
    measure_wakes(result, (bench_side){echo_roundtrip, &e, echo_begin, echo_end});
    CHECK(hcq_close(e.device));
}

/* The other thread is the lane's own: submit, run, wait. */
static void wake_same_cpu_lane(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, 1);
    measure_wakes(result, (bench_side){bench_chain_replay, &chain});
    bench_chain_close(&chain);
}

const bench bench_signal_rows[] = {
    {"cpu.submit_and_wait", "ns", 1.02, submit_and_wait},
    {"cpu.signal_set_no_waiter", "ns", BENCH_NONE, signal_set_no_waiter},
    {"cpu.wait_reached", "ns", BENCH_NONE, wait_reached},
    {"cpu.wake_same_cpu", "ns", 1.3, wake_same_cpu},
    {"cpu.wake_same_cpu_lane", "ns", 1.3, wake_same_cpu_lane},
    {0}};
