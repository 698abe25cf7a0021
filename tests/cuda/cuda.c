/* cuda.c - what only the CUDA backend does: lanes over streams, events and stored
   words, native handles, memory, programs, replay as graphs, times, errors.

   cuda [VARIANT] [--quick] [--filter NAME], VARIANT cuda or cumock-*. Needs
   -DHCQ_TEST_CUDA; without a variant it is cumock. Most tests need the mock driver,
   with which they look at what hcq asks of CUDA; the others run on a GPU, too. */
static const char *test_nvrtc = "libnvrtc-of-no-machine.so"; /* HCQ_CUDA_NVRTC */
#define HCQ_CUDA_NVRTC test_nvrtc
#include "support/util.h"

#include <sys/wait.h>

/* ---- what the parts share ---- */

#define M test_cu.mock                 /* the mock driver's functions */
static int mocked;

#define NEEDS_MOCK() \
    do { \
        if (!mocked) { \
            SKIP("only the mock driver shows that"); \
            return; \
        } \
    } while (0)

#define COUNT(device, name) test_query((device), HCQ_CUDA_QUERY_##name)

static mock_cuda_counts stats_now(void) {
    mock_cuda_counts counts;
    memset(&counts, 0, sizeof counts);
    if (mocked) {
        M.stats(&counts);
    }
    return counts;
}

static uint64_t calls_of(const char *pattern) {
    return mocked ? M.calls(pattern) : 0;
}

/* How the variant has its mock, with enough work queues that streams share none. */
static mock_cuda_desc mock_wanted(void) {
    mock_cuda_desc desc = *T.variant->cuda;
    desc.seed = T.seed;
    desc.queues = desc.queues == 1 ? 1 : 32;
    desc.flags |= MOCK_CUDA_NO_EARLY_WAITS;
    return desc;
}

/* How often the nodes of executable graphs were given other values. */
static uint64_t set_calls(void) {
    return calls_of("cuGraphExec*") - calls_of("cuGraphExecDestroy");
}

static uint64_t allocations(void) {
    return __atomic_load_n(&T.memory.calls, __ATOMIC_SEQ_CST);
}

/* One more device of the variant, with more HCQ_CUDA_* flags and so many lanes. */
static hcq_device *device_with(uint32_t flags, uint32_t compute_lanes, uint32_t copy_lanes) {
    hcq_device_desc desc = test_desc();
    test_cuda_desc.flags |= flags;
    desc.compute_lanes = compute_lanes;
    desc.copy_lanes = copy_lanes;
    return test_open(0, &desc);
}

/* The ways in which lanes count and wait. */
typedef struct means {
    const char *name;
    uint32_t flags;
} means;

static const means all_means[] = {
    {"stored words", HCQ_CUDA_MEMOPS},
    {"events", HCQ_CUDA_EVENTS},
    {"stored words, no waits for them", HCQ_CUDA_MEMOPS | HCQ_CUDA_NO_VALUE_WAITS},
    {"stored words, one stream", HCQ_CUDA_MEMOPS | HCQ_CUDA_ONE_STREAM},
    {"events, one stream", HCQ_CUDA_EVENTS | HCQ_CUDA_ONE_STREAM},
};

enum { MEANS = sizeof all_means / sizeof all_means[0] };

/* A device that counts in one of these ways, whatever the variant says. */
static hcq_device *device_number_by(uint32_t number, uint32_t way, uint32_t compute_lanes,
                                    uint32_t copy_lanes) {
    const uint32_t ways = HCQ_CUDA_EVENTS | HCQ_CUDA_MEMOPS | HCQ_CUDA_NO_VALUE_WAITS;
    hcq_device_desc desc = test_desc();
    test_cuda_desc.flags = (test_cuda_desc.flags & ~ways) | all_means[way].flags;
    desc.compute_lanes = compute_lanes;
    desc.copy_lanes = copy_lanes;
    if (T.variant->cuda && (T.variant->cuda->flags & MOCK_CUDA_NO_WAIT_VALUES)) {
        test_cuda_desc.flags |= HCQ_CUDA_NO_VALUE_WAITS;
    }
    desc.inflight = 16384;
    return test_open(number, &desc);
}

static hcq_device *device_by(uint32_t way, uint32_t compute_lanes, uint32_t copy_lanes) {
    return device_number_by(0, way, compute_lanes, copy_lanes);
}

static int is_one_stream(uint32_t way) {
    return T.variant->one_fifo || (all_means[way].flags & HCQ_CUDA_ONE_STREAM) != 0;
}

static hcq_device *open_cpu(void) {
    hcq_device_desc desc = test_desc();
    hcq_device *cpu = NULL;
    desc.cuda = NULL;
    desc.counter_limit = 0;
    CHECK_OK(hcq_open("CPU", &desc, &cpu));
    return cpu;
}

static int has_feature(hcq_device *device, uint32_t feature) {
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(device, &info));
    return (info.features & feature) != 0;
}

static hcq_cuda_info info_of(hcq_device *device) {
    hcq_cuda_info info;
    memset(&info, 0, sizeof info);
    CHECK_OK(hcq_cuda_info_get(device, &info));
    return info;
}

/* Submits to one lane, behind a point and raising another, if they are given. */
static hcq_point submit_to(hcq_device *device, hcq_queue *queue, uint64_t lane,
                           const hcq_point *wait, const hcq_point *signal) {
    hcq_submission s;
    hcq_point done = {{0}, 0};
    memset(&s, 0, sizeof s);
    s.waits = wait;
    s.wait_count = wait ? 1 : 0;
    s.queues = &queue;
    s.queue_count = queue ? 1 : 0;
    s.signals = signal;
    s.signal_count = signal ? 1 : 0;
    s.affinity = lane;
    CHECK_OK(hcq_submit(device, &s, 1, &done));
    return done;
}

static hcq_point submit_of(hcq_queue *queue, hcq_device *device) {
    hcq_point done = {{0}, 0};
    CHECK_OK(hcq_queue_submit(queue, device, &done));
    return done;
}

static void submit_and_wait(hcq_queue *queue, hcq_device *device) {
    hcq_point done = submit_of(queue, device);
    WAIT_OK(done);
}

/* Submits with values for variables, and an input of a graph's, or NULL. */
static hcq_point submit_values(hcq_queue *queue, hcq_device *device, const uint64_t *values,
                               uint32_t count, const hcq_buffer *input) {
    hcq_submission s;
    hcq_point done = {{0}, 0};
    memset(&s, 0, sizeof s);
    s.queues = &queue;
    s.queue_count = 1;
    s.variables = values;
    s.variable_count = count;
    s.inputs = input;
    s.input_count = input ? 1 : 0;
    CHECK_OK(hcq_submit(device, &s, 1, &done));
    return done;
}

static hcq_result host_ok(void *user) {
    (void)user;
    return HCQ_OK;
}

/* A device at rest, with everything collected. */
static void settle(hcq_device *device) {
    CHECK_OK(hcq_device_synchronize(device, BOUND));
}

#include "kernels.h"
#include "raw.h"

/* ---- tests that set the mock up themselves ---- */

static uint64_t things_now(void) {     /* what hcq has, its own and of CUDA's */
    mock_cuda_counts c = stats_now();
    return __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST) + c.contexts + c.streams +
           c.events + c.modules + c.graphs + c.graph_execs + c.pools + c.device_allocations +
           c.host_allocations + c.registered;
}

static void tell_things(void) {
    const mock_cuda_counts c = stats_now();
    const struct { const char *name; uint64_t count; } things[] = {
        {"blocks of memory", T.memory.blocks}, {"contexts", c.contexts}, {"streams", c.streams},
        {"events", c.events}, {"modules", c.modules}, {"graphs", c.graphs},
        {"executable graphs", c.graph_execs}, {"pools", c.pools},
        {"device allocations", c.device_allocations}, {"host allocations", c.host_allocations},
        {"registered ranges", c.registered},
    };
    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
        if (things[i].count) {
            fprintf(stderr, "left: %llu %s\n", (unsigned long long)things[i].count,
                    things[i].name);
        }
    }
}

/* No device is open; the mock is as the variant has it. */
static int alone_setup(void **state) {
    T.running = (const char *)*state;
    memset(&T.memory, 0, sizeof T.memory);
    log_clear();
    signal(SIGALRM, test_alarm);
    alarm(T.quick ? 120 : 600);
    return 0;
}

static int alone_teardown(void **state) {
    (void)state;
    alarm(0);
    uint64_t things = things_now(), host_functions = calls_of("cuLaunchHostFunc");
    uint64_t behind = stats_now().left_behind;
    if (things || host_functions || behind) {
        fprintf(stderr, "teardown: %llu things are left, %llu in contexts; %llu host functions\n",
                (unsigned long long)things, (unsigned long long)behind,
                (unsigned long long)host_functions);
        tell_things();
        test_dump();
        return -1;
    }
    if (mocked) {
        mock_cuda_desc desc = mock_wanted();
        test_cu.devices = desc.devices;
        M.setup(&desc);
    }
    return 0;
}

#define TEST_ALONE(name) \
    {#name, name, alone_setup, alone_teardown, (void *)(uintptr_t)#name}

#include "support/gpu_devices.h"
#include "signals.h"
#include "native.h"
#include "custom.h"
#include "devices.h"
#include "memory.h"
#include "programs.h"
#include "replay.h"
#include "times.h"
#include "errors.h"
#include "random.h"

static void kernels_of_the_tests(void) {
    for (size_t i = 0; i < sizeof own_kernels / sizeof own_kernels[0]; i++) {
        M.kernel(own_kernels[i].entry, own_kernels[i].fn);
    }
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        SIGNAL_TESTS NATIVE_TESTS CUSTOM_TESTS DEVICE_TESTS MEMORY_TESTS PROGRAM_TESTS
        REPLAY_TESTS TIME_TESTS ERROR_TESTS RANDOM_TESTS
    };
    int child = argc > 1 && strcmp(argv[1], "mishap") == 0;
    int result = child ? mishap_start(argc, argv) : test_start(argc, argv);
    if (result == 0 && !T.variant_given) {
        T.variant = test_find_variant("cumock");
        result = test_start_cuda();
    }
    if (result != 0) {
        return result;
    }
    if (!is_cuda()) {
        fprintf(stderr, "these tests are for variants of CUDA\n");
        return 77;
    }
    mocked = T.variant->cuda != NULL;
    if (mocked) {
        mock_cuda_desc desc = mock_wanted();
        M.setup(&desc);
        kernels_of_the_tests();
    }
    return child ? mishap_main() : cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}
