/* conformance.c - what every backend has to keep, by the public API only.

   conformance VARIANT [--seed N] [--quick] [--library PATH] [--filter NAME] */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                    /* sparse memory */
#endif
#include "shared.h"     /* what several of them use */

#include "devices.h"
#include "memory.h"
#include "signal.h"     /* values of a signal: what shows, who raises it, its end */
#include "queue.h"
#include "order.h"      /* lanes beside each other, what goes before it runs */
#include "update.h"
#include "indirect.h"   /* grids that are read */
#include "host.h"       /* host commands, custom ones, callbacks */
#include "after.h"      /* memory and eager calls in the order of work */
#include "transfer.h"
#include "values.h"
#include "driver.h"
#include "notify.h"     /* notifications, handles for event loops */
#include "waits.h"      /* calls that wait */
#include "explain.h"    /* why a wait does not end */
#include "closing.h"    /* a device is closed in the middle of anything */
#include "cost.h"       /* what is pending makes nothing dearer */
#include "failure.h"    /* failures, lost devices */
#include "trace.h"
#include "graph.h"
#include "graph_launch.h"
#include "graph_limits.h"
#include "far.h"        /* copies between devices that do not see each other */
#include "profile.h"
#include "errors.h"     /* messages, loggers */
#include "fork.h"       /* a child of fork */
#include "large.h"
#include "limits.h"
#include "numbers.h"
#include "seeded.h"     /* which of all these a device without threads cannot be asked for */

int main(int argc, char **argv) {
    test_seeded_fn = seeded_leave_out;
    return test_main(argc, argv);
}
