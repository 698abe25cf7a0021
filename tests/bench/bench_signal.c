/* bench_signal.c - signals and waits: what they cost where nobody waits, and
   what a wake-up costs where both threads share one processor. */

#define _GNU_SOURCE
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where there is nobody to wait for ----------------------------------- */
/* The least that a value shared between threads can cost: a lock that nobody
   else wants around one load or store. */

typedef struct guarded {
    pthread_mutex_t lock;
    _Atomic uint64_t value;
    uint64_t seen;
} guarded;

static void guarded_set(void *ctx, uint64_t n) {
    guarded *g = (guarded *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        pthread_mutex_lock(&g->lock);
        uint64_t value = atomic_load_explicit(&g->value, memory_order_relaxed);
        atomic_store_explicit(&g->value, value + 1, memory_order_release);
        pthread_mutex_unlock(&g->lock);
    }
}

static void guarded_read(void *ctx, uint64_t n) {
    guarded *g = (guarded *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        pthread_mutex_lock(&g->lock);
        g->seen += atomic_load_explicit(&g->value, memory_order_acquire);
        pthread_mutex_unlock(&g->lock);
    }
}

static void guarded_init(guarded *g) {
    memset(g, 0, sizeof *g);
    if (pthread_mutex_init(&g->lock, NULL) != 0) {
        bench_die("pthread_mutex_init");
    }
}

typedef struct lone {
    hcq_signal signal;
    uint64_t value;
} lone;

static void lone_set(void *ctx, uint64_t n) {
    lone *l = (lone *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_signal_set(l->signal, ++l->value), "hcq_signal_set");
    }
}

void bench_signal_set_no_waiter(bench_result *result) {
    bench_chain chain;
    bench_stats stats[2];
    guarded g;
    lone l = {{0}, 0};
    bench_chain_open(&chain, 1);
    guarded_init(&g);
    bench_check(hcq_signal_create(chain.device, 0, &l.signal), "hcq_signal_create");
    bench_side sides[2] = {{lone_set, NULL, NULL, &l, 0}, {guarded_set, NULL, NULL, &g, 0}};
    bench_throughput(sides, 2, stats);
    uint64_t value = 0;
    bench_check(hcq_signal_value(l.signal, &value), "hcq_signal_value");
    if (value != l.value) {
        bench_die("signal_set_no_waiter: the signal is not where it was set");
    }
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_note(result, "store under an uncontended pthread mutex");
    bench_check(hcq_signal_destroy(l.signal), "hcq_signal_destroy");
    bench_chain_close(&chain);
}

static void wait_reached(void *ctx, uint64_t n) {
    const hcq_point *point = (const hcq_point *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_wait(point, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
}

/* The point of a submission that is over; an extra key has that of a signal. */
void bench_wait_reached(bench_result *result) {
    bench_chain chain;
    bench_stats stats[3];
    guarded g;
    hcq_point done;
    hcq_signal signal;
    bench_chain_open(&chain, 1);
    guarded_init(&g);
    bench_check(hcq_signal_create(chain.device, 7, &signal), "hcq_signal_create");
    hcq_point set = hcq_at(signal, 7);
    bench_check(hcq_queue_submit(chain.queue, chain.device, &done), "hcq_queue_submit");
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    bench_side sides[3] = {{wait_reached, NULL, NULL, &done, 0},
                           {guarded_read, NULL, NULL, &g, 0},
                           {wait_reached, NULL, NULL, &set, 0}};
    bench_throughput(sides, 3, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_extra_add(result, "signal_ns", stats[2].median);
    bench_note(result, "load under an uncontended pthread mutex");
    bench_check(hcq_signal_destroy(signal), "hcq_signal_destroy");
    bench_chain_close(&chain);
}

/* ---- submit and wait in one call ----------------------------------------- */

static hcq_submission chain_submission(bench_chain *chain) {
    hcq_submission s;
    memset(&s, 0, sizeof s);
    s.queues = &chain->queue;
    s.queue_count = 1;
    return s;
}

static void one_call(void *ctx, uint64_t n) {
    bench_chain *chain = (bench_chain *)ctx;
    hcq_submission s = chain_submission(chain);
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_submit_and_wait(chain->device, &s, 1, HCQ_FOREVER, NULL),
                    "hcq_submit_and_wait");
    }
}

static void two_calls(void *ctx, uint64_t n) {
    bench_chain *chain = (bench_chain *)ctx;
    hcq_submission s = chain_submission(chain);
    hcq_point done;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_submit(chain->device, &s, 1, &done), "hcq_submit");
        bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
}

void bench_submit_and_wait(bench_result *result) {
    bench_chain chain;
    bench_stats stats[2];
    bench_chain_open(&chain, 1);
    bench_side sides[2] = {{one_call, NULL, NULL, &chain, 0}, {two_calls, NULL, NULL, &chain, 0}};
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_note(result, "hcq_submit, then hcq_wait");
    bench_chain_close(&chain);
}

/* ---- waking up on one processor ------------------------------------------ */
/* The device is opened with the default description while the process may use
   all processors, so the library thinks that spinning is worth it. Then all
   threads are put on one processor: who spins now keeps the awaited thread
   away, for a whole tick of the scheduler if he does not yield. */

/* A tick is 1 to 10 ms; no p99 may be as long as the shortest. */
static const double g_tick_ns = 1e6;

static cpu_set_t one_processor(void) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        bench_die("sched_getaffinity: %s", strerror(errno));
    }
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return one;
}

/* Puts every thread of this process, and those that they start, there. */
static void share_one_processor(void) {
    cpu_set_t one = one_processor();
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    if (tasks == NULL) {
        bench_die("/proc/self/task: %s", strerror(errno));
    }
    while ((task = readdir(tasks)) != NULL) {
        int id = atoi(task->d_name); /* 0: "." and ".." */
        if (id != 0 && sched_setaffinity(id, sizeof one, &one) != 0) {
            bench_die("sched_setaffinity: %s", strerror(errno));
        }
    }
    closedir(tasks);
}

/* Two host threads that answer each other by signals. */
typedef struct echo {
    hcq_device *device;
    hcq_signal ping, pong;
    uint64_t value, first;             /* of both between two round trips; the thread's first */
    _Atomic int stop;
    pthread_t thread;
} echo;

static void set_and_wait(hcq_signal to, hcq_signal from, uint64_t value) {
    hcq_point answer = hcq_at(from, value);
    bench_check(hcq_signal_set(to, value), "hcq_signal_set");
    bench_check(hcq_wait(&answer, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
}

static void *echo_thread(void *ctx) {
    echo *e = (echo *)ctx;
    int stop = 0;
    for (uint64_t value = e->first; !stop; value++) {
        hcq_point call = hcq_at(e->ping, value);
        bench_check(hcq_wait(&call, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
        stop = atomic_load(&e->stop); /* before the answer: after it it may be the next call's */
        bench_check(hcq_signal_set(e->pong, value), "hcq_signal_set");
    }
    return NULL;
}

static void echo_roundtrip(void *ctx, uint64_t n) {
    echo *e = (echo *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        set_and_wait(e->ping, e->pong, ++e->value);
    }
}

static void echo_begin(void *ctx) {
    echo *e = (echo *)ctx;
    atomic_store(&e->stop, 0);
    e->first = e->value + 1;
    if (pthread_create(&e->thread, NULL, echo_thread, e) != 0) {
        bench_die("pthread_create");
    }
}

static void echo_end(void *ctx) {
    echo *e = (echo *)ctx;
    atomic_store(&e->stop, 1);
    echo_roundtrip(e, 1);
    pthread_join(e->thread, NULL);
}

/* `ours` against futex ping-pong, all on one processor from now on. */
static void measure_wakes(bench_result *result, const bench_side *ours) {
    bench_stats stats[2];
    bench_pingpong *p = bench_pingpong_new();
    bench_side sides[2] = {*ours, {bench_pingpong_roundtrip, bench_pingpong_begin,
                                   bench_pingpong_end, p, 0}};
    share_one_processor();
    bench_latency(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    result->latency = 1;
    result->p99_goal = g_tick_ns;
    bench_note(result, hcq_sys_cpu_count() == 1 ? "futex ping-pong" : "pinning did not work");
    free(p);
}

void bench_wake_same_cpu(bench_result *result) {
    echo e;
    memset(&e, 0, sizeof e);
    bench_check(hcq_open("CPU", NULL, &e.device), "hcq_open");
    bench_check(hcq_signal_create(e.device, 0, &e.ping), "hcq_signal_create");
    bench_check(hcq_signal_create(e.device, 0, &e.pong), "hcq_signal_create");
    bench_side side = {echo_roundtrip, echo_begin, echo_end, &e, 0};
    measure_wakes(result, &side);
    bench_check(hcq_close(e.device), "hcq_close");
}

/* The other thread is the lane's own: submit, run, wait. */
void bench_wake_same_cpu_lane(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, 1);
    bench_side side = {bench_chain_replay, NULL, NULL, &chain, 0};
    measure_wakes(result, &side);
    bench_chain_close(&chain);
}
