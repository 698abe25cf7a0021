/* bench_queue.c - replay, submit, round trips, update, record. */

#define _GNU_SOURCE
#include "bench.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- what the benches share ---------------------------------------------- */

void bench_tiny(const void *args, const hcq_block *block) {
    const bench_tiny_args *a = HCQ_ARGS(bench_tiny_args, args);
    (void)block;
    *HCQ_PTR(uint64_t, a->counter) += 1;
}

static void chain_record(bench_chain *chain, uint32_t count) {
    bench_tiny_args args;
    args.counter = chain->counter.address;
    for (uint32_t i = 0; i < count; i++) {
        hcq_queue_exec(chain->queue, chain->program, &args, sizeof args, hcq_dim(1, 1, 1),
                       hcq_dim(1, 1, 1));
    }
}

void bench_chain_open(bench_chain *chain, uint32_t count) {
    hcq_program_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.label = "tiny";
    desc.cpu = bench_tiny;
    desc.args[0] = HCQ_ARG_INOUT;
    bench_check(hcq_open("CPU", NULL, &chain->device), "hcq_open");
    bench_check(hcq_alloc(chain->device, sizeof(uint64_t), HCQ_HOST_VISIBLE | HCQ_ZEROED,
                          &chain->counter), "hcq_alloc");
    bench_check(hcq_program_create(chain->device, &desc, &chain->program), "hcq_program_create");
    bench_check(hcq_queue_create(chain->device, HCQ_COMPUTE, &chain->queue), "hcq_queue_create");
    chain_record(chain, count);
    bench_check(hcq_queue_bind(chain->queue, chain->device), "hcq_queue_bind");
}

void bench_chain_close(bench_chain *chain) {
    hcq_queue_destroy(chain->queue);
    hcq_program_destroy(chain->program);
    bench_check(hcq_free(chain->counter), "hcq_free");
    bench_check(hcq_close(chain->device), "hcq_close");
}

static uint64_t chain_counter(const bench_chain *chain) {
    uint64_t value;
    bench_check(hcq_copyout(&value, chain->counter, sizeof value), "hcq_copyout");
    return value;
}

static void submit_and_wait(hcq_queue *queue, hcq_device *device) {
    hcq_point done;
    bench_check(hcq_queue_submit(queue, device, &done), "hcq_queue_submit");
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
}

void bench_chain_replay(void *ctx, uint64_t n) {
    bench_chain *chain = (bench_chain *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        submit_and_wait(chain->queue, chain->device);
    }
}

/* A chain's figures are of a whole replay; per kernel is a thousandth. */
static const double g_per_kernel = 1.0 / BENCH_CHAIN;

/* ---- replay against a loop of indirect calls ----------------------------- */

typedef struct node { hcq_cpu_fn fn; const void *args; } node;
typedef struct loop {
    node nodes[BENCH_CHAIN];
    bench_tiny_args args[BENCH_CHAIN];
    uint64_t counter;
} loop;

static void loop_run(void *ctx, uint64_t n) {
    const loop *l = (const loop *)ctx;
    hcq_block block = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
    for (uint64_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < BENCH_CHAIN; i++) {
            l->nodes[i].fn(l->nodes[i].args, &block);
        }
    }
}

static loop *loop_open(void) {
    loop *l = (loop *)calloc(1, sizeof *l);
    if (l == NULL) {
        bench_die("out of memory");
    }
    for (uint32_t i = 0; i < BENCH_CHAIN; i++) {
        l->args[i].counter = (uint64_t)(uintptr_t)&l->counter;
        l->nodes[i].fn = bench_tiny;
        l->nodes[i].args = &l->args[i];
    }
    return l;
}

void bench_replay_1000(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, BENCH_CHAIN);
    submit_and_wait(chain.queue, chain.device);
    if (chain_counter(&chain) != BENCH_CHAIN) {
        bench_die("replay_1000: not every kernel ran");
    }
    loop *l = loop_open();
    bench_side sides[2] = {{bench_chain_replay, NULL, NULL, &chain, 0},
                           {loop_run, NULL, NULL, l, 0}};
    bench_stats stats[2];
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], g_per_kernel);
    bench_note(result, "loop of indirect calls");
    bench_chain_close(&chain);
    free(l);
}

/* ---- replay against other runtimes --------------------------------------- */

#ifndef BENCH_TBB
void *bench_tbb_open(uint32_t count, uint64_t *counter) {
    (void)count;
    (void)counter;
    return NULL;
}
void bench_tbb_replay(void *tbb, uint64_t n) {
    (void)tbb;
    (void)n;
}
void bench_tbb_close(void *tbb) {
    (void)tbb;
}
#endif

#ifndef BENCH_POCL
void *bench_pocl_open(uint32_t count, char *note, size_t note_size) {
    (void)count;
    snprintf(note, note_size, "no OpenCL headers or loader");
    return NULL;
}
int bench_pocl_has_buffer(void *pocl) {
    (void)pocl;
    return 0;
}
void bench_pocl_replay_buffer(void *pocl, uint64_t n) {
    (void)pocl;
    (void)n;
}
void bench_pocl_replay_queue(void *pocl, uint64_t n) {
    (void)pocl;
    (void)n;
}
uint64_t bench_pocl_counter(void *pocl) {
    (void)pocl;
    return 0;
}
void bench_pocl_close(void *pocl) {
    (void)pocl;
}
#endif

void bench_replay_1000_tbb(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, BENCH_CHAIN);
    uint64_t counter = 0;
    void *tbb = bench_tbb_open(BENCH_CHAIN, &counter);
    bench_side sides[2] = {{bench_chain_replay, NULL, NULL, &chain, 0},
                           {bench_tbb_replay, NULL, NULL, tbb, 0}};
    bench_stats stats[2];
    if (tbb == NULL) {
        bench_note(result, "no oneTBB");
    } else {
        bench_tbb_replay(tbb, 1);
        if (counter != BENCH_CHAIN) {
            bench_die("replay_1000_tbb: not every node ran");
        }
        bench_note(result, "oneTBB lightweight continue_node chain");
    }
    bench_throughput(sides, tbb == NULL ? 1 : 2, stats);
    bench_report(result, &stats[0], tbb == NULL ? NULL : &stats[1], g_per_kernel);
    if (tbb != NULL) {
        bench_tbb_close(tbb);
    }
    bench_chain_close(&chain);
}

/* PoCL's command buffer is the peer, or its plain in-order queue where it has
   none; the plain queue's figure is an extra key, since it may be faster. */
void bench_replay_1000_pocl(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, BENCH_CHAIN);
    void *pocl = bench_pocl_open(BENCH_CHAIN, result->note, sizeof result->note);
    bench_side sides[3] = {{bench_chain_replay, NULL, NULL, &chain, 0},
                           {bench_pocl_replay_queue, NULL, NULL, pocl, 0},
                           {bench_pocl_replay_buffer, NULL, NULL, pocl, 0}};
    bench_stats stats[3];
    uint32_t count = 1;
    if (pocl != NULL) {
        count = bench_pocl_has_buffer(pocl) ? 3 : 2;
        bench_pocl_replay_queue(pocl, 1);
        if (bench_pocl_counter(pocl) != BENCH_CHAIN) {
            bench_die("replay_1000_pocl: not every kernel ran");
        }
    }
    bench_throughput(sides, count, stats);
    bench_report(result, &stats[0], count == 1 ? NULL : &stats[count - 1], g_per_kernel);
    if (pocl != NULL) {
        bench_extra_add(result, "pocl_plain_queue_ns", stats[1].median * g_per_kernel);
        bench_note(result, count == 3 ? "PoCL command buffer" : "PoCL queue, no command buffers");
        bench_pocl_close(pocl);
    }
    bench_chain_close(&chain);
}

/* ---- the hand-written ring ----------------------------------------------- */
/* One producer, one consumer, a power of two of slots. The consumer spins, runs
   what it finds and raises `head`; the producer spins on that. This is the
   least that a submit, run, see round trip between two threads can cost. */

enum { RING_SLOTS = 256, BURST = 64 };

typedef struct ring {
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) node slots[RING_SLOTS];
    _Atomic int stop;
    pthread_t thread;
    bench_tiny_args args;
    uint64_t counter;
} ring;

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void ring_push(ring *r, hcq_cpu_fn fn, const void *args) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    node *slot = &r->slots[tail % RING_SLOTS];
    slot->fn = fn;
    slot->args = args;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
}

static void ring_drain(ring *r) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    while (atomic_load_explicit(&r->head, memory_order_acquire) < tail) {
        pause_cpu();
    }
}

static void *ring_thread(void *ctx) {
    ring *r = (ring *)ctx;
    hcq_block block = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
    uint64_t head = 0;
    while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
        while (head < tail) {
            const node *slot = &r->slots[head % RING_SLOTS];
            slot->fn(slot->args, &block);
            head++;
            atomic_store_explicit(&r->head, head, memory_order_release);
        }
        pause_cpu();
    }
    return NULL;
}

static void ring_begin(void *ctx) {
    ring *r = (ring *)ctx;
    memset(r, 0, sizeof *r);
    r->args.counter = (uint64_t)(uintptr_t)&r->counter;
    if (pthread_create(&r->thread, NULL, ring_thread, r) != 0) {
        bench_die("pthread_create");
    }
}

static void ring_end(void *ctx) {
    ring *r = (ring *)ctx;
    atomic_store(&r->stop, 1);
    pthread_join(r->thread, NULL);
}

static void ring_roundtrip(void *ctx, uint64_t n) {
    ring *r = (ring *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        ring_push(r, bench_tiny, &r->args);
        ring_drain(r);
    }
}

static ring *ring_alloc(void) {
    ring *r = (ring *)aligned_alloc(64, sizeof(ring));
    if (r == NULL) {
        bench_die("out of memory");
    }
    return r;
}

/* ---- submit call --------------------------------------------------------- */
/* Bursts of 64 submits while the other thread is awake and works them off; only
   the calls are timed, the wait for the burst is not. */

static double hcq_bursts(bench_chain *chain, uint32_t bursts) {
    uint64_t sum = 0;
    for (uint32_t b = 0; b < bursts; b++) {
        hcq_point done = {{0}, 0};
        submit_and_wait(chain->queue, chain->device);
        uint64_t start = bench_now();
        for (uint32_t i = 0; i < BURST; i++) {
            hcq_queue_submit(chain->queue, chain->device, &done);
        }
        sum += bench_now() - start;
        bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    }
    return (double)sum / ((double)bursts * BURST);
}

static double ring_bursts(ring *r, uint32_t bursts) {
    uint64_t sum = 0;
    for (uint32_t b = 0; b < bursts; b++) {
        ring_roundtrip(r, 1);
        uint64_t start = bench_now();
        for (uint32_t i = 0; i < BURST; i++) {
            ring_push(r, bench_tiny, &r->args);
        }
        sum += bench_now() - start;
        ring_drain(r);
    }
    return (double)sum / ((double)bursts * BURST);
}

void bench_submit_call(bench_result *result) {
    bench_chain chain;
    bench_stats stats[2];
    double ours[BENCH_MAX_PASSES];
    double peer[BENCH_MAX_PASSES];
    uint32_t count = bench_quick() ? BENCH_MAX_PASSES / 2 : BENCH_MAX_PASSES;
    ring *r = ring_alloc();
    bench_chain_open(&chain, 1);
    for (uint32_t i = 0; i < count; i++) {
        bench_sleep_ms(2);
        hcq_bursts(&chain, 1000);
        ours[i] = hcq_bursts(&chain, 300);
        bench_sleep_ms(2);
        ring_begin(r);
        ring_bursts(r, 1000);
        peer[i] = ring_bursts(r, 300);
        ring_end(r);
    }
    bench_stats_make(&stats[0], ours, count);
    bench_stats_make(&stats[1], peer, count);
    bench_report(result, &stats[0], &stats[1], 1.0);
    bench_note(result, "push into a two-thread ring");
    bench_chain_close(&chain);
    free(r);
}

/* ---- round trips --------------------------------------------------------- */

void bench_roundtrip_spin(bench_result *result) {
    bench_chain chain;
    bench_stats stats[2];
    ring *r = ring_alloc();
    bench_chain_open(&chain, 1);
    bench_side sides[2] = {{bench_chain_replay, NULL, NULL, &chain, 0},
                           {ring_roundtrip, ring_begin, ring_end, r, 0}};
    bench_latency(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    result->latency = 1;
    bench_note(result, "two-thread spinning ring");
    bench_chain_close(&chain);
    free(r);
}

/* Two words and four system calls: the least a sleeping round trip can do. */
struct bench_pingpong {
    _Alignas(64) _Atomic uint32_t request;
    _Alignas(64) _Atomic uint32_t done;
    node job;
    _Atomic int stop;
    pthread_t thread;
    bench_tiny_args args;
    uint64_t counter;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *pingpong_thread(void *ctx) {
    bench_pingpong *p = (bench_pingpong *)ctx;
    hcq_block block = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
    uint32_t seen = 0;
    for (;;) {
        while (atomic_load_explicit(&p->request, memory_order_acquire) == seen) {
            futex_wait(&p->request, seen);
        }
        if (atomic_load_explicit(&p->stop, memory_order_relaxed)) {
            return NULL;
        }
        seen++;
        p->job.fn(p->job.args, &block);
        atomic_store_explicit(&p->done, seen, memory_order_release);
        futex_wake(&p->done);
    }
}

void bench_pingpong_roundtrip(void *ctx, uint64_t n) {
    bench_pingpong *p = (bench_pingpong *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t before = atomic_load_explicit(&p->done, memory_order_relaxed);
        p->job.fn = bench_tiny;
        p->job.args = &p->args;
        atomic_store_explicit(&p->request, before + 1, memory_order_release);
        futex_wake(&p->request);
        while (atomic_load_explicit(&p->done, memory_order_acquire) == before) {
            futex_wait(&p->done, before);
        }
    }
}

void bench_pingpong_begin(void *ctx) {
    bench_pingpong *p = (bench_pingpong *)ctx;
    memset(p, 0, sizeof *p);
    p->args.counter = (uint64_t)(uintptr_t)&p->counter;
    if (pthread_create(&p->thread, NULL, pingpong_thread, p) != 0) {
        bench_die("pthread_create");
    }
}

void bench_pingpong_end(void *ctx) {
    bench_pingpong *p = (bench_pingpong *)ctx;
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->request, 1);
    futex_wake(&p->request);
    pthread_join(p->thread, NULL);
}

bench_pingpong *bench_pingpong_new(void) {
    bench_pingpong *p = (bench_pingpong *)aligned_alloc(64, sizeof(bench_pingpong));
    if (p == NULL) {
        bench_die("out of memory");
    }
    return p;
}

/* Both sides on one processor, set before the device is opened: there nobody
   spins, and no side profits from where the scheduler happens to put it. */
void bench_roundtrip_sleep(bench_result *result) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        bench_die("sched_setaffinity");
    }
    bench_chain chain;
    bench_stats stats[2];
    bench_pingpong *p = bench_pingpong_new();
    bench_chain_open(&chain, 1);
    bench_side sides[2] = {{bench_chain_replay, NULL, NULL, &chain, 0},
                           {bench_pingpong_roundtrip, bench_pingpong_begin, bench_pingpong_end,
                            p, 0}};
    bench_latency(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1.0);
    result->latency = 1;
    bench_note(result, "futex ping-pong, both on one processor");
    bench_chain_close(&chain);
    free(p);
}

/* ---- update -------------------------------------------------------------- */
/* 100 updates of a bound queue of 1000 execs, then a submit. An update also
   makes the next submit dearer, by writing what changed into the version that
   it takes: that difference belongs to the cost of an update. */

enum { UPDATES = 100 };

typedef struct update_times { double call, submit; } update_times;

static update_times update_round(bench_chain *chain, uint32_t updates) {
    static uint32_t turn;
    update_times t;
    hcq_point done;
    hcq_dims grid = hcq_dim(1 + turn++ / 2 % 2, 1, 1); /* never what it was before */
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < updates; i++) {
        hcq_queue_update_exec(chain->queue, i * (BENCH_CHAIN / UPDATES), &grid, NULL);
    }
    uint64_t middle = bench_now();
    bench_check(hcq_queue_submit(chain->queue, chain->device, &done), "hcq_queue_submit");
    uint64_t end = bench_now();
    bench_check(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    t.call = (double)(middle - start);
    t.submit = (double)(end - middle);
    return t;
}

void bench_update_exec(bench_result *result) {
    enum { ROUNDS = 4000 };
    static double call[ROUNDS], submit[ROUNDS], plain[ROUNDS];
    bench_chain chain;
    bench_chain_open(&chain, BENCH_CHAIN);
    for (uint32_t i = 0; i < 2000; i++) {
        update_round(&chain, i % 2 == 0 ? UPDATES : 0);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        update_times with = update_round(&chain, UPDATES);
        update_times none = update_round(&chain, 0);
        call[i] = with.call - none.call;
        submit[i] = with.submit;
        plain[i] = none.submit;
    }
    double per_call = bench_median(call, ROUNDS) / UPDATES;
    double share = (bench_median(submit, ROUNDS) - bench_median(plain, ROUNDS)) / UPDATES;
    result->ours = per_call + share;
    bench_extra_add(result, "call_ns", per_call);
    bench_extra_add(result, "submit_share_ns", share);
    bench_chain_close(&chain);
}

/* ---- record -------------------------------------------------------------- */

static void record_run(void *ctx, uint64_t n) {
    bench_chain *chain = (bench_chain *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_check(hcq_queue_reset(chain->queue), "hcq_queue_reset");
        chain_record(chain, BENCH_CHAIN);
    }
}

void bench_record_exec(bench_result *result) {
    bench_chain chain;
    bench_stats stats;
    bench_chain_open(&chain, 1);
    bench_side side = {record_run, NULL, NULL, &chain, 0};
    bench_throughput(&side, 1, &stats);
    if (hcq_queue_count(chain.queue) != BENCH_CHAIN) {
        bench_die("record_exec: commands are missing");
    }
    bench_report(result, &stats, NULL, g_per_kernel);
    bench_chain_close(&chain);
}
