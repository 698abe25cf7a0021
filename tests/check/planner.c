/* planner.c - graphs whose plan forgets one edge, on purpose: the checker tells the race.

   planner [VARIANT] [--quick] */
static unsigned planned, forgotten;    /* edges so far; the one to forget */
#define HCQI_PLAN_FORGETS (planned++ == forgotten)
#ifndef HCQ_CHECK
#define HCQ_CHECK
#endif
#include "support/util.h"

enum { CALLS = 16, WORDS = 64, DEVICES = 2 };

typedef struct { uint64_t to, from; } touch_args;

static void k_touch(const void *args, const hcq_block *b) {
    const touch_args *k = HCQ_ARGS(touch_args, args);
    (void)b;
    *HCQ_PTR(uint32_t, k->to) += *HCQ_PTR(const uint32_t, k->from);
}

/* A kernel of one of the devices, and the words that it writes and reads. */
typedef struct call { uint32_t device, to, from, count; } call;

static uint64_t races_of(hcq_device *const devices[DEVICES]) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        all += test_query(devices[i], HCQ_QUERY_RACES);
    }
    return all;
}

/* Plans and launches the calls without edge `forget`; how many races are told. */
static uint64_t launched(const call *calls, uint32_t forget) {
    hcq_device *devices[DEVICES];
    hcq_program *touch[DEVICES];
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i] = OPEN_WITH(i, .compute_lanes = 2);
        touch[i] = make_kernel(devices[i], HCQ_CPU_PROGRAM("touch", k_touch, HCQ_ARG_INOUT,
                                                           HCQ_ARG_IN));
    }
    hcq_buffer words = make_buffer(devices[0], WORDS * 4, HCQ_ZEROED | HCQ_HOST_VISIBLE);
    hcq_queue *g = make_queue(devices[0], HCQ_GRAPH);
    for (uint32_t i = 0; i < CALLS; i++) {
        const call *c = &calls[i];
        hcq_buffer to = hcq_view(words, c->to * 4, c->count * 4);
        hcq_buffer from = hcq_view(words, (WORDS / 2 + c->from) * 4, c->count * 4);
        if (i % 3 == 2) {              /* now and then the halves change places */
            hcq_buffer other = to;
            to = from;
            from = other;
        }
        touch_args args = {to.address, from.address};
        CHECK_INDEX(hcq_queue_exec(g, touch[c->device], &args, sizeof args, dims_one, dims_one),
                    i);
        CHECK_OK(hcq_queue_access(g, (int32_t)i, to, HCQ_ARG_INOUT));
        CHECK_OK(hcq_queue_access(g, (int32_t)i, from, HCQ_ARG_IN));
    }
    planned = 0;
    forgotten = forget;
    CHECK_OK(hcq_queue_submit(g, devices[0], NULL));
    CHECK_OK(hcq_device_synchronize(devices[0], BOUND));
    uint64_t races = races_of(devices);
    for (uint32_t i = 0; i < DEVICES; i++) {
        CHECK_OK(hcq_close(devices[i]));
    }
    return races;
}

TEST_BARE(a_forgotten_edge_is_told) {
    const uint32_t graphs = T.quick ? 20 : 100;
    uint64_t random = T.seed, broken = 0, seen = 0;
    T.races_meant = 1;
    for (uint32_t n = 0; n < graphs; n++) {
        call calls[CALLS];
        for (uint32_t i = 0; i < CALLS; i++) {
            calls[i].device = (uint32_t)(test_random(&random) % DEVICES);
            calls[i].count = 1 + (uint32_t)(test_random(&random) % 4);
            calls[i].to = (uint32_t)(test_random(&random) % 24);
            calls[i].from = (uint32_t)(test_random(&random) % 24);
        }
        CHECK_U64(launched(calls, UINT32_MAX), 0);
        for (uint32_t k = 0, edges = planned; k < edges && k < 6; k++) {
            seen += launched(calls, k * 7 % edges) != 0;
            broken++;
        }
    }
    fprintf(stderr, "%llu plans forgot an edge: %llu were told\n", (unsigned long long)broken,
            (unsigned long long)seen);
    CHECK(broken > graphs);
    CHECK_U64(seen, broken);
}

int main(int argc, char **argv) { return test_main(argc, argv); }
