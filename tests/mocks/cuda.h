/* cuda.h - a CUDA driver library without a GPU, on which the CUDA backend's
   mistakes of order show: what tests say to it.

       cc -shared -fPIC tests/mocks/libcuda.c -o DIR/libcuda.so.1 -pthread

   It is opened like the real one; mock_cuda_load finds what is below in it.
   A program that knows nothing of it (hello.c under LD_LIBRARY_PATH) gets the
   defaults and the kernels of hello.c.

   Each device has a few work queues with a thread each, streams are spread over
   them in the order of their creation, and a work queue does its operations one
   by one in the order in which they were enqueued, whichever stream they are of.
   What waits (for an event, for a word in memory, for the graph's last launch)
   blocks its work queue. What CUDA leaves undefined, or does wrong in silence,
   prints a line that begins with CUMOCK and aborts.

   Drivers of other versions have other functions: compile with
   -DMOCK_CUDA_VERSION=11040, 11070, 12000 or 13000 [13000]. With sanitizers: the
   library and the program are built with the same ones.

   Where a function is: cuda_device.h the driver, devices, contexts; cuda_alloc.h
   memory; cuda_modules.h modules, functions; cuda_streams.h streams, events and
   what is put into streams; cuda_graphs.h graphs, captures; cuda_nvrtc.h NVRTC. Its
   head says what has to be there (MC_ENTER), then come its rules, one a line (MC_RULE,
   MC_FIND, MC_OPEN). What an operation does when its turn comes: cuda_work.h;
   when that is: cuda_queues.h. */
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

/* mock_cuda_desc.flags */
enum {
    MOCK_CUDA_NO_MEMOPS = 1,           /* no stream memory operations (they return 801) */
    MOCK_CUDA_NO_POOLS = 2,            /* no memory pools (801) */
    MOCK_CUDA_NO_JIT = 4,              /* no compiler for PTX (221) */
    MOCK_CUDA_NO_PEERS = 8,            /* devices do not reach each other's memory */
    MOCK_CUDA_NO_REGISTER = 16,        /* cuMemHostRegister returns 801 */
    MOCK_CUDA_LATE = 32,               /* a work queue goes on when somebody waits for anything,
                                          asks 3 times, or 300 us later; as drivers that gather
                                          work [at once, after a delay, or after others: the
                                          seed says] */
    MOCK_CUDA_PAGEABLE_IS_MISUSE = 256,/* copies to memory that is not pinned; those from it
                                          always are */
    MOCK_CUDA_NO_WAIT_VALUES = 512,    /* a wait of a stream for a value is misuse */
    MOCK_CUDA_STRICT_MEMSETS = 2048,   /* a memset node takes no other size (1) */
    MOCK_CUDA_NO_EARLY_WAITS = 4096,   /* a stream waits for a value that nothing enqueued will
                                          store, or for an event that was never recorded: both
                                          are misuse [legal, as in CUDA] */
    MOCK_CUDA_SYNCS = 8192,            /* whatever may wait for the context's work in CUDA does:
                                          all that frees or unregisters pinned memory, loads or
                                          unloads modules, the first launch of a kernel without
                                          cuFuncLoad [only cuMemFree] */
    MOCK_CUDA_NO_RECOVERY = 16384      /* no new context after an error that, says CUDA, ends the
                                          process: all sticky ones but 710 [there is] */
};

typedef struct mock_cuda_desc {
    uint32_t devices;                  /* up to 72 [1] */
    uint32_t queues;                   /* work queues of each, up to 32 [4] */
    uint64_t seed;                     /* of what happens by chance */
    uint32_t flags;                    /* MOCK_CUDA_* */
    uint32_t linger;                   /* calls of 1000 that yield halfway, so that two threads
                                          meet in an object that should not [0] */
    uint32_t capability;               /* 10 * major + minor [90] */
    uint64_t memory_bytes;             /* of each device [4 GiB] */
    uint32_t timer_step_ns;            /* of %globaltimer, which is CLOCK_REALTIME [32] ... */
    int64_t timer_offset_ns;           /* ... and this ... */
    int32_t timer_drift_ppm;           /* ... and this much faster than it since the setup */
    uint32_t watchdog_ms;              /* a work queue or a call that waits longer than this
                                          aborts [30000] */
    uint32_t pending;                  /* operations that a work queue takes; the call with one more
                                          waits, and all others that enqueue [no limit; GPUs: about
                                          1022] */
} mock_cuda_desc;

/* A kernel, as for the CPU: called once for each block. `args` is the parameter block of
   the launch (a copy), laid out as in PTX: each parameter at its own alignment. A kernel
   may run for as long as it wants; other work queues go on. */
struct hcq_block;
typedef void (*mock_cuda_fn)(const void *args, const struct hcq_block *block);

typedef struct mock_cuda_counts {
    /* living objects */
    uint64_t contexts, events, others;
    uint64_t device_allocations, host_allocations, registered;
    uint64_t operations_pending;       /* enqueued and not done */
    /* since mock_cuda_setup */
    uint64_t failed;                   /* calls and operations that `fail` made fail */
    uint64_t operations;               /* done; a graph's nodes count, too */
    uint64_t line_numbers;             /* modules that were loaded with them */
    uint64_t left_behind;              /* objects that lived when their context ended, unless it
                                          had an error */
} mock_cuda_counts;

typedef struct mock_cuda_api {
    /* Begins anew, with other settings; NULL: the defaults. All counters are 0
       afterwards and nothing is to fail, kernels stay. No context may be alive. */
    void (*setup)(const mock_cuda_desc *desc);

    /* The function of a kernel, for modules loaded later and before. */
    void (*kernel)(const char *entry, mock_cuda_fn fn);

    void (*stats)(mock_cuda_counts *out);

    /* Calls so far of a function by its exported name, or of all whose name begins
       so: "cuStreamWait*". */
    uint64_t (*calls)(const char *pattern);

    /* The call of a function with such a name fails, after `skip` others, with `result`;
       a sticky one (226, 700, 702, 710, 714 to 719, 721, 911) ends the current context, too.
       With the pattern "-" an operation fails, and with it its context. One is kept; NULL:
       none. */
    void (*fail)(const char *pattern, uint64_t skip, int result);

    /* In a kernel: an error of this kernel, sticky; it takes effect when it returns. */
    void (*fault)(int error);

    /* What a call takes from now on that compiles PTX, pins 1 GB, instantiates a node; others
       that enqueue or do so wait meanwhile. */
    void (*slow)(uint64_t jit_ns, uint64_t pin_ns, uint64_t node_ns);
} mock_cuda_api;

/* Living objects, all together. */
__attribute__((unused))
static uint64_t mock_cuda_living(const mock_cuda_counts *c) {
    return c->contexts + c->events + c->others + c->device_allocations + c->host_allocations +
           c->registered;
}

/* Finds it in an open library; 0: that is not the mock. */
__attribute__((unused))
static int mock_cuda_load(void *library, mock_cuda_api *api) {
    const void *found = dlsym(library, "mock_cuda");
    if (found) {
        memcpy(api, found, sizeof *api);
    }
    return found != NULL;
}

/* Tells the library there of a kernel, if it is the mock. */
__attribute__((unused))
static void mock_cuda_tell(const char *path, const char *entry, mock_cuda_fn fn) {
    mock_cuda_api api;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library && mock_cuda_load(library, &api)) {
        api.kernel(entry, fn);
    }
}
