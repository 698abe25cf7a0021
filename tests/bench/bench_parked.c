/* bench_parked.c - does the cost of held submissions grow with their number?

   Ours is the cost of one submission with 10,000 held at a time, the other side
   that with 100 held at a time, over 10,000 submissions in both cases. The cost
   is everything: submit, release, run one tiny kernel, see the end. They are
   submitted in random order, the same in every run.
*/

#include "bench.h"

#include <string.h>

enum { TOTAL = 10000, FEW = 100 };

typedef struct parked {
    bench_chain *chain;
    hcq_signal signal;
    uint64_t value;                       /* the signal's */
    uint32_t held;                        /* at a time */
    int many_sets;
    uint16_t order[TOTAL];                /* shuffled within each `held` */
} parked;

static void parked_open(parked *p, bench_chain *chain, uint32_t held, int many_sets) {
    uint32_t random = 12345;
    *p = (parked){.chain = chain, .held = held, .many_sets = many_sets};
    CHECK(hcq_signal_create(chain->device, 0, &p->signal));
    for (uint32_t first = 0; first < TOTAL; first += held) {
        uint16_t *order = p->order + first;
        for (uint32_t i = 0; i < held; i++) {
            order[i] = (uint16_t)i;
        }
        for (uint32_t i = held - 1; i > 0; i--) {
            random = random * 1664525u + 1013904223u;
            uint32_t j = (random >> 8) % (i + 1);
            uint16_t kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
    }
}

/* One set starts a cascade: each waits for (t, i) and raises (t, i + 1). Or each waits
   for a value of its own, and as many sets release one each. */
static void group(parked *p, const uint16_t *order) {
    uint64_t first = p->value + 1;
    for (uint32_t i = 0; i < p->held; i++) {
        hcq_point before = hcq_at(p->signal, first + order[i]);
        hcq_point after = hcq_at(p->signal, before.value + 1);
        hcq_submission s = {.waits = &before, .wait_count = 1, .queues = &p->chain->queue,
                            .queue_count = 1, .signals = &after,
                            .signal_count = p->many_sets ? 0 : 1, .flags = HCQ_UNORDERED};
        CHECK(hcq_submit(p->chain->device, &s, 1, NULL));
    }
    if (p->many_sets) {
        for (uint32_t i = 0; i < p->held; i++) {
            CHECK(hcq_signal_set(p->signal, first + i));
        }
        CHECK(hcq_device_synchronize(p->chain->device, HCQ_FOREVER));
    } else {
        hcq_point last = hcq_at(p->signal, first + p->held);
        CHECK(hcq_signal_set(p->signal, first));
        CHECK(hcq_wait(&last, 1, HCQ_ALL, HCQ_FOREVER));
    }
    p->value = first + p->held - (p->many_sets ? 1 : 0);
}

BENCH_RUN(parked_run, parked, p) {
    for (uint32_t i = 0; i < TOTAL; i += p->held) {
        group(p, p->order + i);
    }
}

static void parked_row(bench_result *result) {
    int many_sets = result->number != 0;
    static parked many, few;
    bench_chain chain;
    uint64_t value = 0;
    bench_chain_open(&chain, 1);
    parked_open(&many, &chain, TOTAL, many_sets);
    parked_open(&few, &chain, FEW, many_sets);
    parked_run(&many, 1);
    parked_run(&few, 1);
    CHECK(hcq_copyout(&value, chain.counter, sizeof value));
    bench_counter(value, 2 * TOTAL, "parked");
    bench_side sides[2] = {{parked_run, &many}, {parked_run, &few}};
    bench_compare(result, sides, 2, 1.0 / TOTAL);
    bench_note(result, "itself with 100 held instead of 10,000");
    bench_chain_close(&chain);
}

const bench bench_parked_rows[] = {
    {"cpu.parked_one_set", "ns/submission", 1.3, parked_row, 0},
    {"cpu.parked_many_sets", "ns/submission", 1.3, parked_row, 1},
    {0}};
