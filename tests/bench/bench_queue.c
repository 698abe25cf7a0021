/* bench_queue.c - replay, submit, round trips, update. */

#define _GNU_SOURCE
#include "bench.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static const hcq_block g_block = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, NULL};

/* ---- what the benches share ---------------------------------------------- */

void bench_tiny(const void *args, const hcq_block *block) {
    const bench_tiny_args *a = HCQ_ARGS(bench_tiny_args, args);
    (void)block;
    *HCQ_PTR(uint64_t, a->counter) += 1;
}

hcq_program *bench_program(hcq_device *device, const char *label, hcq_cpu_fn fn,
                           uint32_t second) {
    hcq_program_desc desc = {.label = label, .cpu = fn, .args = {HCQ_ARG_INOUT, second}};
    hcq_program *program;
    CHECK(hcq_program_create(device, &desc, &program));
    return program;
}

static void chain_record(bench_chain *chain, uint32_t count) {
    bench_tiny_args args = {chain->counter.address};
    for (uint32_t i = 0; i < count; i++) {
        bench_exec(chain->queue, chain->program, &args, sizeof args);
    }
}

void bench_chain_open(bench_chain *chain, uint32_t count) {
    CHECK(hcq_open("CPU", NULL, &chain->device));
    chain->counter = bench_buffer(chain->device, sizeof(uint64_t));
    chain->program = bench_program(chain->device, "tiny", bench_tiny, HCQ_ARG_NONE);
    chain->queue = bench_queue(chain->device, HCQ_COMPUTE);
    chain_record(chain, count);
    CHECK(hcq_queue_bind(chain->queue, chain->device));
}

void bench_chain_close(bench_chain *chain) {
    hcq_queue_destroy(chain->queue);
    CHECK(hcq_close(chain->device));
}

void bench_chain_replay(void *ctx, uint64_t n) {
    const bench_chain *chain = (const bench_chain *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        bench_submit_and_wait(chain->queue, chain->device);
    }
}

/* A chain's figures are of a whole replay; per kernel is a thousandth. */
static const double g_per_kernel = 1.0 / BENCH_CHAIN;

/* ---- replay against a loop of indirect calls, and against oneTBB --------- */

bench_loop *bench_loop_new(void) {
    bench_loop *l = (bench_loop *)bench_alloc(sizeof *l, 0);
    for (uint32_t i = 0; i < BENCH_CHAIN; i++) {
        l->args[i].counter = (uint64_t)(uintptr_t)&l->counter;
        l->nodes[i].fn = bench_tiny;
        l->nodes[i].args = &l->args[i];
    }
    return l;
}

/* The nodes are reached by a pointer that the compiler cannot look behind, so
   every call stays an indirect one. */
void bench_loop_run(void *nodes, uint64_t n) {
    const bench_node *volatile hidden = (const bench_node *)nodes;
    const bench_node *node = hidden;
    for (uint64_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < BENCH_CHAIN; i++) {
            node[i].fn(node[i].args, &g_block);
        }
    }
}

static void replay_1000(bench_result *result) {
    bench_chain chain;
    uint64_t value;
    bench_loop *l = bench_loop_new();
    bench_chain_open(&chain, BENCH_CHAIN);
    bench_submit_and_wait(chain.queue, chain.device);
    CHECK(hcq_copyout(&value, chain.counter, sizeof value));
    bench_counter(value, BENCH_CHAIN, "replay_1000");
    bench_side sides[2] = {{bench_chain_replay, &chain}, {bench_loop_run, l->nodes}};
    bench_compare(result, sides, 2, g_per_kernel);
    bench_note(result, "loop of indirect calls");
    bench_chain_close(&chain);
    free(l);
}

#ifdef BENCH_TBB
void bench_compare_tbb(bench_result *result, bench_side ours, void (*open_ours)(void *ctx)) {
    uint64_t counter = 0;
    void *tbb = bench_tbb_open(BENCH_CHAIN, &counter);
    bench_side sides[2] = {ours, {bench_tbb_replay, tbb}};
    bench_tbb_replay(tbb, 1);
    bench_counter(counter, BENCH_CHAIN, "oneTBB");
    if (open_ours != NULL) {
        open_ours(ours.ctx);
    }
    bench_compare(result, sides, 2, g_per_kernel);
    bench_note(result, "oneTBB lightweight continue_node chain");
    bench_tbb_close(tbb);
}

static void replay_1000_tbb(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, BENCH_CHAIN);
    bench_compare_tbb(result, (bench_side){bench_chain_replay, &chain}, NULL);
    bench_chain_close(&chain);
}
#endif

/* ---- the hand-written ring ----------------------------------------------- */
/* One producer, one consumer, a power of two of slots. The consumer waits for `tail`, runs
   what it finds and raises `head`; the producer waits for that. If both spin this is the least
   that a submit, run, see round trip between two threads can cost; if both sleep, with two
   words and four calls of futex, the least that one can which sleeps. */

enum { RING_SLOTS = 256, BURST = 64 };

typedef struct ring {
    _Alignas(64) _Atomic uint32_t tail;
    _Alignas(64) _Atomic uint32_t head;
    _Alignas(64) bench_node slots[RING_SLOTS];
    int sleeps;
    _Atomic int stop;
    pthread_t thread;
    bench_tiny_args args;
    uint64_t counter;
} ring;

static inline void ring_wait(const ring *r, _Atomic uint32_t *word, uint32_t seen) {
    if (r->sleeps) {
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline void ring_raise(const ring *r, _Atomic uint32_t *word, uint32_t value) {
    atomic_store_explicit(word, value, memory_order_release);
    if (r->sleeps) {
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void ring_push(ring *r, hcq_cpu_fn fn, const void *args) {
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    bench_node *slot = &r->slots[tail % RING_SLOTS];
    slot->fn = fn;
    slot->args = args;
    ring_raise(r, &r->tail, tail + 1);
}

static void ring_drain(ring *r) {
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed), head;
    while ((head = atomic_load_explicit(&r->head, memory_order_acquire)) != tail) {
        ring_wait(r, &r->head, head);
    }
}

static void *ring_thread(void *ctx) {
    ring *r = (ring *)ctx;
    uint32_t head = 0;
    for (;;) {
        uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
        if (atomic_load_explicit(&r->stop, memory_order_relaxed)) {
            return NULL;
        }
        if (head == tail) {
            ring_wait(r, &r->tail, tail);
            continue;
        }
        const bench_node *slot = &r->slots[head % RING_SLOTS];
        slot->fn(slot->args, &g_block);
        ring_raise(r, &r->head, ++head);
    }
}

static void ring_begin(void *ctx) {
    ring *r = (ring *)ctx;
    *r = (ring){.sleeps = r->sleeps, .args = {(uint64_t)(uintptr_t)&r->counter}};
    bench_thread(&r->thread, ring_thread, r);
}

static void ring_end(void *ctx) {
    ring *r = (ring *)ctx;
    atomic_store(&r->stop, 1);
    ring_raise(r, &r->tail, atomic_load(&r->tail) + 1);
    pthread_join(r->thread, NULL);
}

BENCH_RUN(ring_roundtrip, ring, r) {
    ring_push(r, bench_tiny, &r->args);
    ring_drain(r);
}

static bench_side ring_side(int sleeps) {
    ring *r = (ring *)bench_alloc(sizeof *r, 64);
    r->sleeps = sleeps;
    return (bench_side){.run = ring_roundtrip, .ctx = r, .begin = ring_begin, .end = ring_end};
}

bench_side bench_pingpong(void) { return ring_side(1); }

/* ---- submit call --------------------------------------------------------- */
/* Bursts of 64 submits while the other thread is awake and works them off; only
   the calls are timed, the wait for the burst is not. */

static double hcq_burst(void *ctx) {
    const bench_chain *chain = (const bench_chain *)ctx;
    hcq_point done = {{0}, 0};
    bench_submit_and_wait(chain->queue, chain->device);
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < BURST; i++) {
        hcq_queue_submit(chain->queue, chain->device, &done);
    }
    uint64_t end = bench_now();
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
    return (double)(end - start) / BURST;
}

static double ring_burst(void *ctx) {
    ring *r = (ring *)ctx;
    ring_roundtrip(r, 1);
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < BURST; i++) {
        ring_push(r, bench_tiny, &r->args);
    }
    uint64_t end = bench_now();
    ring_drain(r);
    return (double)(end - start) / BURST;
}

static void submit_call(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, 1);
    bench_side sides[2] = {{.ctx = &chain, .sample = hcq_burst}, ring_side(0)};
    sides[1].sample = ring_burst;
    bench_compare(result, sides, 2, 1.0);
    bench_note(result, "push into a two-thread ring");
    bench_chain_close(&chain);
    free(sides[1].ctx);
}

/* ---- round trips --------------------------------------------------------- */

static void roundtrip(bench_result *result, bench_side peer, const char *note) {
    bench_chain chain;
    bench_chain_open(&chain, 1);
    bench_side sides[2] = {{bench_chain_replay, &chain}, peer};
    bench_compare_latency(result, sides);
    bench_note(result, note);
    bench_chain_close(&chain);
    free(peer.ctx);
}

static void roundtrip_spin(bench_result *result) {
    roundtrip(result, ring_side(0), "two-thread spinning ring");
}

/* Both sides on one processor, set before the device is opened: there nobody
   spins, and no side profits from where the scheduler happens to put it. */
static void roundtrip_sleep(bench_result *result) {
    bench_place_threads(BENCH_FIRST);
    roundtrip(result, bench_pingpong(), "futex ping-pong, both on one processor");
}

/* ---- update -------------------------------------------------------------- */
/* 100 updates of a bound queue of 1000 execs, then a submit. An update also
   makes the next submit dearer, by writing what changed into the version that
   it takes: that difference belongs to the cost of an update. */

enum { UPDATES = 100 };

static double plain_submit(void *ctx) {
    const bench_chain *chain = (const bench_chain *)ctx;
    hcq_point done;
    uint64_t start = bench_now();
    CHECK(hcq_queue_submit(chain->queue, chain->device, &done));
    uint64_t end = bench_now();
    CHECK(hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER));
    return (double)(end - start);
}

static double updates_and_submit(void *ctx) {
    static uint32_t turn;
    const bench_chain *chain = (const bench_chain *)ctx;
    hcq_dims grid = hcq_dim(1 + turn++ % 2, 1, 1); /* never what it was before */
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < UPDATES; i++) {
        hcq_queue_update_exec(chain->queue, i * (BENCH_CHAIN / UPDATES), &grid, NULL);
    }
    uint64_t end = bench_now();
    return (double)(end - start) + plain_submit(ctx);
}

static void update_exec(bench_result *result) {
    bench_stats stats[2];
    bench_chain chain;
    bench_chain_open(&chain, BENCH_CHAIN);
    bench_side sides[2] = {{.ctx = &chain, .sample = updates_and_submit},
                           {.ctx = &chain, .sample = plain_submit}};
    bench_throughput(sides, 2, stats);
    result->ours = (stats[0].median - stats[1].median) / UPDATES;
    bench_chain_close(&chain);
}

BENCH_RUN(record_run, bench_chain, chain) {
    CHECK(hcq_queue_reset(chain->queue));
    chain_record(chain, BENCH_CHAIN);
}

static void record_exec(bench_result *result) {
    bench_chain chain;
    bench_chain_open(&chain, 1);
    bench_side side = {record_run, &chain};
    bench_compare(result, &side, 1, g_per_kernel);
    bench_chain_close(&chain);
}

const bench bench_queue_rows[] = {
    {"cpu.replay_1000", "ns/kernel", 2.0, replay_1000},
#ifdef BENCH_TBB
    {"cpu.replay_1000_tbb", "ns/kernel", 0.25, replay_1000_tbb},
#endif
    {"cpu.submit_call", "ns", BENCH_NONE, submit_call},
    {"cpu.roundtrip_spin", "ns", 1.5, roundtrip_spin},
    {"cpu.roundtrip_sleep", "ns", 1.3, roundtrip_sleep},
    {"cpu.update_exec", "ns", BENCH_NONE, update_exec},
    {"cpu.record_exec", "ns", BENCH_NONE, record_exec},
    {0}};
