/* conformance.c - what every backend has to keep, by the public API only.

   conformance VARIANT [--seed N] [--quick] [--library PATH] [--filter NAME] */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "util.h"

#include "conformance_device.h"
#include "conformance_memory.h"
#include "conformance_signal.h"
#include "conformance_queue.h"
#include "conformance_order.h"
#include "conformance_update.h"
#include "conformance_custom.h"
#include "conformance_host.h"
#include "conformance_ends.h"
#include "conformance_after.h"
#include "conformance_values.h"
#include "conformance_eager.h"
#include "conformance_driver.h"
#include "conformance_notify.h"
#include "conformance_explain.h"
#include "conformance_heavy.h"
#include "conformance_edges.h"
#include "conformance_failure.h"
#include "conformance_turns.h"
#include "conformance_trace.h"
#include "conformance_devices.h"
#include "conformance_graph.h"
#include "conformance_profile.h"
#include "conformance_errors.h"
#include "conformance_fork.h"

static const struct CMUnitTest tests[] = {
    DEVICE_TESTS,
    MEMORY_TESTS,
    SIGNAL_TESTS,
    QUEUE_TESTS,
    ORDER_TESTS,
    UPDATE_TESTS,
    HOST_TESTS,
    ENDS_TESTS,
    AFTER_TESTS,
    DRIVER_TESTS,
    HEAVY_TESTS,
    TRACE_TESTS,
    NOTIFY_TESTS,
    EXPLAIN_TESTS,
    DEVICES_TESTS,
    EDGES_TESTS,
    GRAPH_TESTS,
    PROFILE_TESTS,
    VALUES_TESTS,
    ERROR_TESTS,
    FAILURE_TESTS,
    TURNS_TESTS,
    CUSTOM_TESTS,
    EAGER_TESTS,
    FORK_TESTS,
};

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    return cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}
