/* planner.c - graphs whose plan forgets one edge, on purpose: the checker tells the race. And
   what of the checker only its internal names reach.

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

/* ---- the checker's own ---- */

/* Ends, and raises: what it counts where there are no commands. */
static uint64_t items_beside_those(void) {
    uint64_t there = 0;
    hcqi_enter();
    HCQI_DEVICES(dev) {
        there += dev->ends->count;
    }
    for (const hcqi_releases *r = hcqi_order.releases; r; r = r->next) {
        there += r->count;
    }
    there = hcqi_order.items - there;
    hcqi_leave();
    return there;
}

TEST_BARE(ends_that_come_out_of_order) {
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 2);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point gate = hcq_at(make_signal(device, 0), 1);
    CHECK_OK(SUBMIT(device, q, NULL, .waits = &gate, .wait_count = 1));
    CHECK_OK(SUBMIT(device, q, NULL, .affinity = 1));
    CHECK_OK(hcq_signal_set(gate.signal, 1));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_U64(items_beside_those(), 0);
    CHECK_OK(hcq_close(device));
}

/* Where a device does not read grids itself, the core copies them: that is no argument. */
TEST_BARE(a_grid_that_is_copied) {
    SKIP_IF(!is_cpu(), "a grid that the CPU reads otherwise");
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 2), *other = OPEN_WITH(1, .label = "other");
    hcq_buffer from = make_buffer(other, 4, HCQ_ZEROED), grid = make_words(device, 3);
    hcq_buffer to = make_words(device, 2);
    touch_args args = {from.address, to.address}; /* of no block */
    hcq_queue *q = make_queue(device, HCQ_COMPUTE), *second = make_queue(device, HCQ_COMPUTE);
    hcq_program *touch = make_kernel(device, HCQ_CPU_PROGRAM("touch", k_touch, HCQ_ARG_IN,
                                                             HCQ_ARG_INOUT));
    device->caps.indirect = 0;
    CHECK(hcq_queue_exec_indirect(q, touch, &args, sizeof args, grid, hcq_dim(4, 4, 4),
                                  dims_one) >= 0);
    CHECK(hcq_queue_copy(second, hcq_view(to, 4, 4), from, 4) >= 0);
    CHECK_OK(SUBMIT(device, q, NULL, .affinity = 0));
    CHECK_OK(SUBMIT(device, second, NULL, .affinity = 1));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_U64(test_query(device, HCQ_QUERY_RACES), 0);
    CHECK_OK(hcq_close(device));
    CHECK_OK(hcq_close(other));
}

/* Memory is out for a command: that is said, and there is no number of races any more. */
static uint32_t deeds_that_fail;

static void *poor_alloc(void *user, size_t size, size_t align) {
    const hcq_memory_hooks hooks = hcqi_hooks(NULL);
    int fails = size == sizeof(hcqi_deed) && deeds_that_fail != 0;
    deeds_that_fail -= (uint32_t)fails;
    return fails ? NULL : hooks.alloc_fn(user, size, align);
}

TEST_BARE(memory_that_is_out) {
    uint64_t value;
    hcq_device *device = OPEN_WITH(0, .compute_lanes = 2);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcqi_order.hooks.alloc_fn = poor_alloc;
    deeds_that_fail = 1;
    CHECK(hcq_queue_copy(q, make_words(device, 1), make_words(device, 1), 4) >= 0);
    for (int i = 0; i < 6000; i++) {
        CHECK_OK(hcq_queue_submit(q, device, NULL));
    }
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_RESULT(hcq_device_query(device, HCQ_QUERY_RACES, &value), HCQ_ERROR_OUT_OF_MEMORY);
    CHECK(log_has("check: out of memory"));
    CHECK_OK(hcq_close(device));
}

int main(int argc, char **argv) { return test_main(argc, argv); }
