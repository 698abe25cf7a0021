/* graph.c - graphs against the same calls one after another.

   graph [VARIANT] [--seeds N] [--first S] [--quick]

   Random graphs on six devices are launched, changed and launched again; after
   each burst every byte is what a plain loop over the same calls leaves. Their
   plans are checked apart from any timing (plan.h). What needs one exact
   situation stands in cases.h, the schedule in schedule.h. Without
   a variant: CPU devices in mixed settings, the mock without and with mapped
   memory. */
#include "random/random.h"

#include "cases.h"
#include "calls.h"
#include "draw.h"
#include "plan.h"
#include "schedule.h"
#include "random.h"

static struct {
    uint64_t seeds, first;             /* 0 = the default */
} O;

/* ---- devices ---- */

/* What differs between the devices of the world, beside the variant. */
static const test_variant settings[DEVICES] = {
    {.spin_ns = 0},
    {.test.counter_limit = 16},
    {.cpu_flags = HCQ_CPU_ONE_ENGINE, .spin_ns = HCQ_NEVER},
    {.test.no_copy_lane = 1, .spin_ns = HCQ_NEVER},
    {.test.no_native_wait = 1, .spin_ns = HCQ_NEVER},
    {.test.counter_limit = 5, .spin_ns = HCQ_NEVER},
};

static hcq_device *open_setting(uint32_t index) {
    hcq_device_desc desc = test_desc();
    const test_variant *s = &settings[index];
    test_forced.no_copy_lane |= s->test.no_copy_lane;
    test_forced.no_native_wait |= s->test.no_native_wait;
    if (s->test.counter_limit) { test_forced.counter_limit = s->test.counter_limit; }
    desc.compute_lanes = desc.copy_lanes = index + 1 == DEVICES ? 2 : 0;
    desc.spin_ns = s->spin_ns;
    desc.versions = index % 3 ? 4 : 0;
    test_cpu_desc.flags |= s->cpu_flags;
    return test_open(index % MOCK_ORDINALS, &desc);
}

static hcq_program *make_mixing(hcq_device *device, uint32_t shape) {
    static const uint32_t first[SHAPES] = {HCQ_ARG_INOUT, HCQ_ARG_OUT, HCQ_ARG_INOUT};
    static const uint32_t second[SHAPES] = {HCQ_ARG_IN, HCQ_ARG_IN, HCQ_ARG_INOUT};
    hcq_program_desc desc = HCQ_PROGRAM(mixing);
    desc.args[0] = first[shape];
    desc.args[1] = second[shape];
    return make_kernel(device, desc);
}

static void open_memory(uint32_t device) {
    for (uint32_t k = 0; k < PER_DEVICE; k++) {
        uint32_t m = device * PER_DEVICE + k;
        uint32_t size = k < OWN ? 32768u << k : (uint32_t)SPARE_BYTES;
        CHECK_OK(hcq_alloc(W.devices[device], size, HCQ_HOST_VISIBLE, &W.memory[m]));
        W.model[m] = (unsigned char *)malloc(size);
        for (uint32_t i = 0; i < size; i++) {
            W.model[m][i] = (unsigned char)(i * 7u + i / 256u + m);
        }
        memcpy(W.memory[m].host, W.model[m], size);
    }
    CHECK_OK(hcq_alloc(W.devices[device], 12 * GRIDS, HCQ_HOST_VISIBLE, &W.grids[device]));
    for (uint32_t i = 0; i < GRIDS; i++) {
        memcpy((hcq_dims *)W.grids[device].host + i, &(hcq_dims){i, 1, 1}, sizeof(hcq_dims));
    }
}

/* Memory is shared within a backend, if it can do that at all. */
static void find_sight(void) {
    for (uint32_t d = 0; d < DEVICES; d++) {
        for (uint32_t e = 0; e < DEVICES; e++) {
            hcq_device_info a = test_info(W.devices[d]), b = test_info(W.devices[e]);
            W.sees[d][e] = d == e || ((a.features & HCQ_FEATURE_MAP) != 0 &&
                                      strcmp(a.backend, b.backend) == 0);
        }
    }
}

/* Every other device is one of `others`, if that is a variant. */
static void world_open(const char *others) {
    const test_variant *variant = T.variant;
    memset(&W, 0, sizeof W);
    memset(&T.memory, 0, sizeof T.memory);
    log_clear();
    signal(SIGALRM, test_alarm);
    alarm(T.quick ? 300 : 900);
    T.running = "random graphs";
    wrong_shows = show_graph;
    for (uint32_t d = 0; d < DEVICES; d++) {
        T.variant = others && d % 2 ? test_find_variant(others) : variant;
        W.devices[d] = open_setting(d);
        for (uint32_t s = 0; s < SHAPES; s++) {
            W.programs[d][s] = make_mixing(W.devices[d], s);
        }
        open_memory(d);
    }
    T.variant = variant;
    for (uint32_t e = 0; e < EMPTIES; e++) {
        W.empties[e] = (unsigned char *)calloc(1, SPARE_BYTES);
    }
    CHECK_OK(hcq_signal_create(W.devices[0], 0, &W.gate.signal));
    CHECK_OK(hcq_signal_create(W.devices[0], 0, &W.stamp));
    find_sight();
}

static void world_close(void) {
    for (uint32_t d = 0; d < DEVICES; d++) {
        CHECK_OK(hcq_close(W.devices[d]));
    }
    for (uint32_t m = 0; m < MEMORIES; m++) {
        free(W.model[m]);
    }
    for (uint32_t e = 0; e < EMPTIES; e++) {
        free(W.empties[e]);
    }
    CHECK_U64(T.memory.blocks, 0);
    alarm(0);
}

/* ---- random graphs ---- */

static void run_seeds(uint64_t seeds, const char *others) {
    memset(&R, 0, sizeof R);
    world_open(others);
    for (uint64_t i = 0; i < seeds; i++) {
        run_seed((O.first ? O.first : 1) + i);
    }
    fprintf(stderr, "%llu seeds: %llu waits, %llu overlaps, %llu calls on copy lanes, %llu "
            "launches while another ran\n", (unsigned long long)seeds, (unsigned long long)R.waits,
            (unsigned long long)R.overlaps, (unsigned long long)R.copy_calls,
            (unsigned long long)R.in_flight);
    CHECK(seeds < 50 || (R.waits && R.overlaps && R.crossed && R.in_flight));
    CHECK(seeds < 50 || R.copy_calls || T.variant->test.no_copy_lane ||
          !has_copy_lane(W.devices[0]));
    world_close();
}

static uint64_t seed_count(void) {
    return O.seeds ? O.seeds : T.quick ? 250 : TEST_SANITIZED ? 100 : 1000;
}

TEST_BARE(random_graphs) {
    run_seeds(seed_count(), NULL);
}

TEST_BARE(random_graphs_on_two_backends) {
    SKIP_IF(is_cpu(), "another backend's turn brings the CPU along");
    run_seeds((seed_count() + 3) / 4, "cpu");
}

int main(int argc, char **argv) {
    static const char *const names[] = {"cpu", "mock", "mock-map"};
    O.seeds = own_option(&argc, argv, "--seeds");
    O.first = own_option(&argc, argv, "--first");
    int result = test_start(argc, argv);
    if (result != 0 || T.variant_given) {
        return result != 0 ? result : test_run();
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        T.variant = test_find_variant(names[i]);
        result += test_run();
    }
    return result;
}
