/* graph.c - graphs against the same calls one after another.

   graph [VARIANT] [--seeds N] [--first S] [--quick]

   Random graphs on six devices are launched, changed and launched again; after
   each burst every byte is what a plain loop over the same calls leaves. Their
   plans are checked apart from any timing (plan.h). What needs one exact
   situation stands in cases.h, the schedule in schedule.h. Without
   a variant: CPU devices in mixed settings, the mock without and with mapped
   memory. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "support/util.h"

static struct {
    uint64_t seeds, first;             /* seeds 0 = the default */
} O = {0, 1};

#include "calls.h"
#include "plan.h"
#include "random.h"
#include "cases.h"
#include "schedule.h"

/* ---- random graphs ---- */

static void run_seeds(uint64_t seeds, const char *others) {
    uint64_t start = hcq_sys_now_ns();
    memset(&R, 0, sizeof R);
    world_open(others);
    for (uint64_t i = 0; i < seeds; i++) {
        run_seed(O.first + i);
    }
    fprintf(stderr, "%llu seeds in %.1f s: %llu plans, %llu waits, %llu overlaps, "
            "%llu calls on copy lanes; %llu launches, %llu while another one ran\n",
            (unsigned long long)seeds, (double)(hcq_sys_now_ns() - start) / 1e9,
            (unsigned long long)R.plans, (unsigned long long)R.waits,
            (unsigned long long)R.overlaps, (unsigned long long)R.copy_calls,
            (unsigned long long)R.launches, (unsigned long long)R.in_flight);
    CHECK(seeds < 50 || R.waits != 0);
    CHECK(seeds < 50 || (R.overlaps && R.crossed && R.in_flight));
    CHECK(seeds < 50 || R.copy_calls || T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE ||
          !has_copy_lane(W.devices[0]));
    world_close();
}

static uint64_t seed_count(void) {
    return O.seeds ? O.seeds : T.quick ? 250 : TEST_SANITIZED ? 100 : 1000;
}

static void random_graphs(void **state) {
    (void)state;
    run_seeds(seed_count(), NULL);
}

/* Only host commands carry bytes from one backend to the other. */
static void random_graphs_on_two_backends(void **state) {
    (void)state;
    if (is_cpu()) {
        SKIP("another backend's turn brings the CPU along");
    }
    run_seeds((seed_count() + 3) / 4, "cpu");
}

/* Takes the options that only this program has. */
static int own_options(int argc, char **argv) {
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--seeds") == 0) {
            O.seeds = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--first") == 0) {
            O.first = strtoull(value, NULL, 0);
            i++;
        } else {
            argv[kept++] = argv[i];
        }
    }
    return kept;
}

static int run_variant(void) {
    static const struct CMUnitTest tests[] = {
        TEST_BARE(random_graphs),
        TEST_BARE(random_graphs_on_two_backends),
        GRAPH_CASES,
        GRAPH_SCHEDULE_CASES,
    };
    return cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"cpu", "mock", "mock-map"};
    int result = test_start(own_options(argc, argv), argv);
    if (result != 0 || T.variant_given) {
        return result != 0 ? result : run_variant();
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        T.variant = test_find_variant(names[i]);
        result += run_variant();
    }
    return result;
}
