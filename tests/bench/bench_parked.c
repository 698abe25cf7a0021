/* bench_parked.c - does the cost of held submissions grow with their number?

   Ours is the cost of one submission with 10,000 held at a time, the other side
   that with 100 held at a time, over 10,000 submissions in both cases. The cost
   is everything: submit, release, run one tiny kernel, see the end. They are
   submitted in random order, the same in every run.
*/

#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { TOTAL = 10000, FEW = 100 };

typedef struct parked {
    bench_chain *chain;
    hcq_signal signal;
    uint64_t value;                    /* the signal's */
    uint32_t held;                     /* at a time */
    uint16_t order[TOTAL];             /* shuffled within each `held` */
    uint64_t release_ns, releases;     /* without the submits */
} parked;

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void shuffle(parked *p) {
    uint32_t state = 12345;
    for (uint32_t first = 0; first < TOTAL; first += p->held) {
        uint16_t *order = p->order + first;
        for (uint32_t i = 0; i < p->held; i++) {
            order[i] = (uint16_t)i;
        }
        for (uint32_t i = p->held - 1; i > 0; i--) {
            uint32_t j = next_random(&state) % (i + 1);
            uint16_t kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
    }
}

static void parked_open(parked *p, bench_chain *chain, uint32_t held) {
    memset(p, 0, sizeof *p);
    p->chain = chain;
    p->held = held;
    shuffle(p);
    bench_check(hcq_signal_create(chain->device, 0, &p->signal), "hcq_signal_create");
}

/* Submits one kernel that waits for `wait` and, if asked to, raises the value
   after it. */
static void submit_held(parked *p, uint64_t wait, int raises) {
    hcq_point before = hcq_at(p->signal, wait);
    hcq_point after = hcq_at(p->signal, wait + 1);
    hcq_submission s;
    memset(&s, 0, sizeof s);
    s.waits = &before;
    s.wait_count = 1;
    s.queues = &p->chain->queue;
    s.queue_count = 1;
    s.signals = &after;
    s.signal_count = raises ? 1 : 0;
    s.flags = HCQ_UNORDERED;
    bench_check(hcq_submit(p->chain->device, &s, 1, NULL), "hcq_submit");
}

/* Each waits for (t, i) and raises (t, i + 1); one set starts the cascade. */
static void one_set_group(parked *p, const uint16_t *order) {
    uint64_t first = p->value + 1;
    for (uint32_t i = 0; i < p->held; i++) {
        submit_held(p, first + order[i], 1);
    }
    uint64_t start = bench_now();
    hcq_point last = hcq_at(p->signal, first + p->held);
    bench_check(hcq_signal_set(p->signal, first), "hcq_signal_set");
    bench_check(hcq_wait(&last, 1, HCQ_ALL, HCQ_FOREVER), "hcq_wait");
    p->release_ns += bench_now() - start;
    p->releases += p->held;
    p->value = first + p->held;
}

/* Each waits for a value of its own, and as many sets release one each. */
static void many_sets_group(parked *p, const uint16_t *order) {
    uint64_t first = p->value + 1;
    for (uint32_t i = 0; i < p->held; i++) {
        submit_held(p, first + order[i], 0);
    }
    uint64_t start = bench_now();
    for (uint32_t i = 0; i < p->held; i++) {
        bench_check(hcq_signal_set(p->signal, first + i), "hcq_signal_set");
    }
    bench_check(hcq_device_synchronize(p->chain->device, HCQ_FOREVER), "hcq_device_synchronize");
    p->release_ns += bench_now() - start;
    p->releases += p->held;
    p->value = first + p->held - 1;
}

static void one_set_run(void *ctx, uint64_t n) {
    parked *p = (parked *)ctx;
    for (uint64_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < TOTAL; i += p->held) {
            one_set_group(p, p->order + i);
        }
    }
}

static void many_sets_run(void *ctx, uint64_t n) {
    parked *p = (parked *)ctx;
    for (uint64_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < TOTAL; i += p->held) {
            many_sets_group(p, p->order + i);
        }
    }
}

static void check_counter(const bench_chain *chain, uint64_t expected) {
    uint64_t value = 0;
    bench_check(hcq_copyout(&value, chain->counter, sizeof value), "hcq_copyout");
    if (value != expected) {
        bench_die("parked: %llu kernels ran, not %llu", (unsigned long long)value,
                  (unsigned long long)expected);
    }
}

static void measure(bench_result *result, void (*run)(void *, uint64_t)) {
    static parked many;
    static parked few;
    bench_chain chain;
    bench_stats stats[2];
    bench_chain_open(&chain, 1);
    parked_open(&many, &chain, TOTAL);
    parked_open(&few, &chain, FEW);
    run(&many, 1);
    run(&few, 1);
    check_counter(&chain, 2 * TOTAL);
    many.release_ns = many.releases = few.release_ns = few.releases = 0;
    bench_side sides[2] = {{run, NULL, NULL, &many, 0}, {run, NULL, NULL, &few, 0}};
    bench_throughput(sides, 2, stats);
    bench_report(result, &stats[0], &stats[1], 1.0 / TOTAL);
    bench_extra_add(result, "release_10000_ns", (double)many.release_ns / (double)many.releases);
    bench_extra_add(result, "release_100_ns", (double)few.release_ns / (double)few.releases);
    bench_note(result, "itself with 100 held instead of 10,000");
    bench_chain_close(&chain);
}

void bench_parked_one_set(bench_result *result) {
    measure(result, one_set_run);
}

void bench_parked_many_sets(bench_result *result) {
    measure(result, many_sets_run);
}
