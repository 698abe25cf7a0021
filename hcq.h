/* hcq.h - hardware-style command queues for CPU, Vulkan and CUDA, in plain C.

   Recipe: put hcq.h and hcq_cpu.h into your project (for GPUs hcq_vulkan.h
   with HCQ_VULKAN, hcq_cuda.h with HCQ_CUDA). In ONE C or C++ file:

       #define HCQ_IMPLEMENTATION
       #define HCQ_CPU
       #include "hcq.h"

   In every other file include it without HCQ_IMPLEMENTATION; a program of one
   file defines HCQ_STATIC as well, and is without what it does not call. Then:

       cc main.c -pthread && ./a.out           (glibc before 2.34: and -ldl)

   ============================================================================
   QUICK START

   #define HCQ_IMPLEMENTATION
   #define HCQ_STATIC
   #define HCQ_CPU
   #include "hcq.h"
   #include <stdio.h>

   typedef struct { uint64_t y, x; float a; uint32_t n; } saxpy_args;

   static void saxpy(const void *block_args, const hcq_block *b) {
       const saxpy_args *k = HCQ_ARGS(saxpy_args, block_args);
       float *y = HCQ_PTR(float, k->y), *x = HCQ_PTR(float, k->x);
       for (uint32_t t = 0; t < b->block.x; t++) {
           uint32_t i = b->id.x * b->block.x + t;
           if (i < k->n) { y[i] += k->a * x[i]; }
       }
   }

   int main(void) {
       enum { N = 1024 };
       float x[N], y[N];
       for (int i = 0; i < N; i++) { x[i] = (float)i; y[i] = 1.0f; }
       hcq_device *dev;
       hcq_result r = hcq_open("CPU", NULL, &dev);
       if (r != HCQ_OK) { printf("%s\n", hcq_result_text(r)); return 1; }
       hcq_buffer bx, by;
       hcq_alloc(dev, sizeof x, 0, &bx);  hcq_copyin(bx, x, sizeof x);
       hcq_alloc(dev, sizeof y, 0, &by);  hcq_copyin(by, y, sizeof y);
       hcq_program_desc desc = HCQ_CPU_PROGRAM("saxpy", saxpy, HCQ_ARG_INOUT, HCQ_ARG_IN,
                                               HCQ_ARG_F32, HCQ_ARG_U32);
       hcq_program *prog;  hcq_program_create(dev, &desc, &prog);
       hcq_queue *q;       hcq_queue_create(dev, HCQ_COMPUTE, &q);
       saxpy_args args = { by.address, bx.address, 2.0f, N };
       hcq_queue_exec(q, prog, &args, sizeof args, hcq_dim(N / 256, 1, 1), hcq_dim(256, 1, 1));
       hcq_point done;
       r = hcq_queue_submit(q, dev, &done);
       if (r == HCQ_OK) { r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER); }
       if (r == HCQ_OK) { r = hcq_copyout(y, by, sizeof y); }
       printf("%s: y[10] = %g\n", hcq_result_text(r), y[10]);
       return hcq_close(dev) != HCQ_OK;
   }

   ============================================================================
   CONTENTS              search for the tag with its two angle brackets

       >>options   to #define            >>programs  kernels, arguments
       >>chapters  the ideas, in turn    >>queues    record, bind, submit
       >>glossary  others' words         >>graphs    inputs, accesses, schedule
       >>limits    what hcq does not     >>profile   what ran when
       >>results   codes                 >>registry  backends known by name
       >>types     buffers, points       >>backend   the table one fills in
       >>device    open, close, ask      >>implementation
       >>memory    allocate, copy        >>licence   MIT or public domain
       >>signals   set, wait, explain

   ============================================================================
   OPTIONS                                                        >>options

       HCQ_IMPLEMENTATION   compile the implementation here
       HCQ_CPU              compile the CPU backend in (hcq_cpu.h)
       HCQ_VULKAN           compile the Vulkan backend in (hcq_vulkan.h)
       HCQ_VULKAN_LOADER    its vkGetInstanceProcAddr [opens libvulkan]
       HCQ_CUDA             compile the CUDA backend in (hcq_cuda.h)
       HCQ_CUDA_LIBRARY     the driver's library [libcuda.so.1, nvcuda.dll]
       HCQ_CUDA_NVRTC       the compiler's library [libnvrtc.so ...]
       HCQ_STATIC           every function static, for one-file programs
       HCQ_API              how public functions are declared     [extern]
       HCQ_ASSERT(x)        own assertion                         [assert]
       HCQ_VALIDATE         1 or 0: deep checks, errors to stderr [!NDEBUG]
       HCQ_CHECK            compile the checker of order in (hcq_check.h)
       HCQ_NO_FUTEX         sleep on condition variables on Linux, too
       HCQ_NO_THREADS       no threads: devices run in waits (hcq_cpu.h)

   ============================================================================
   CHAPTERS                                                       >>chapters

   Queues. A queue is a recorded list of commands. Recording runs nothing: every
   hcq_queue_* recording call appends one command and returns its index (0, 1, 2
   ...) or a negative result. The first error sticks to the queue and submit
   returns it, so a chain of calls needs one check. Commands of one recording
   run in order and each sees the writes of those before it. A queue may be
   submitted any number of times, also while earlier submissions still run, and
   changed between them with hcq_queue_update_*: from the next submit on.
   hcq_queue_bind encodes it once: then a submit copies and allocates nothing.

   Devices and lanes. hcq_open("CPU") opens a driver's default device; to let a
   user choose, list hcq_registry_drivers, make those that can be made, list
   their devices. A device has compute and copy lanes, one of each by default.
   Submissions of one lane run in order, lanes and devices by signals only.

   Signals and points. A signal is a 64-bit value that only rises. A point is
   {signal, value}; waiting for it passes once the signal's value is at least
   the point's. A wait may be submitted before anybody signals. Such a
   submission is held back, and with it the later ones of its lane, until the
   call that makes it safe: the submit that carries the signal, the host's
   hcq_signal_set, or a failure. Held work never blocks another lane.

   Failure. A signal can fail with a result, and a submission that waits for it
   fails, too: it does not run from there on, and every signal it would have
   raised fails with the same result. So nobody waits for what can no longer
   happen; other work goes on. A signal fails from a value on: above the value
   it has and those that work handed over before is still going to raise below
   the broken one (hcq_signal_fail: above the value it has). Lower values may
   still be reached, higher ones answer the failure at once; the first result
   stays. Destroying a signal that no submission raises, and closing a device,
   end waits with HCQ_ERROR_CANCELLED. A submission's point answers how that one
   ended while the device is open, for 65536 runs of failures (failure_ranges):
   older ones answer HCQ_ERROR_LIMIT, successes among them, too: no guess.

   Hangs. A wait longer than explain_ns says why in the log, as hcq_explain does.

   Timelines. Every submission gets the device's next number, one of several
   queues (or of a graph, on several lanes) one for each and the last for
   itself. hcq_device_timeline(dev) is the finished prefix: it reaches v once
   every submission up to v, on any lane, is done.

   Memory. A buffer is a small value: device address, size, host pointer or
   NULL; a view is one, too. hcq_free never blocks and is legal while work that
   names the buffer is pending: the memory is handed out again when that is
   done; so it is with queues, programs and signals that are destroyed.
   hcq_alloc_after and hcq_free_after are steps in the order of work,
   HCQ_UNORDERED submissions without commands. Eager calls (copyin, copyout,
   transfer, program_call) run after everything submitted earlier on the device,
   held work too, and later submissions see what they wrote, also those of other
   devices that name the memory; overlap is asked for with queues. So to wait in
   one for what this thread has yet to release is a deadlock, which ends with
   HCQ_TIMEOUT; copyin and a program_call without `device_ns` do not wait for it.

   Copies between devices. A queue or graph copies between buffers of any two
   devices. Where one of the two sees the other's memory it does the copy. Else
   that goes through staging memory of its size, which both see, or each has its
   own and the host copies between: in a graph two commands of its schedule and
   of the profile; a plain queue goes on when both are done, as after a host
   command. Buffers that submissions bring must be seen by the device.

   Programs. A program is a kernel with the list of its arguments, which travel
   as one block: pointers (8 bytes) and values by C's natural alignment in the
   order of the list, the same bytes on every backend: a plain struct with
   uint64_t for buffers. A grid is a number of blocks, a block a number of
   threads; a grid with a 0 in it, recorded, brought along or read, runs
   nothing. On the CPU a kernel is called once per block; Vulkan takes SPIR-V,
   CUDA PTX or a binary, and hcq_kernel.h makes all of one source. hcq_vulkan.h
   and hcq_cuda.h explain their arguments. A grid above HCQ_QUERY_MAX_GRID_X ...
   is HCQ_ERROR_LIMIT, or runs in parts on Vulkan. Equal code is made once.

   Updates and values. hcq_queue_update_* edits the recording itself.
   hcq_queue_variable instead marks a part of a command, a buffer or a number,
   that every submission brings along (hcq_submission.values), without touching
   the recording; a graph's inputs are in the same list. A held submission keeps
   its values only, and what was recorded then. When it is released it takes a
   version of its queue (hcq_device_desc.versions of a bound one), or follows those
   that run if none is free; it fails with HCQ_ERROR_LIMIT if all wait in the
   middle of their recording and the queue was changed since. An update between
   held submissions costs a version, and so do a held graph's other inputs.

   Graphs. Take a graph when a step that repeats uses several devices or mixes
   copies with kernels. It (hcq_graph_create) takes commands over buffers of any
   devices, in an order in which they would be right one after another. It finds
   out which bytes each reads and writes (arguments, copies, hcq_queue_access)
   and lets the rest overlap: every device has one compute lane, copies from 16
   KiB on that can run beside it use a copy lane, and one lane waits for another
   only where nothing else has ordered the two already.

   A graph is planned at bind or at the first submit, and anew after an update
   of a buffer. It is submitted alone, to the device it was made for. A launch
   brings buffers for the placeholders (hcq_graph_input) and numbers; it follows
   everything submitted earlier on the devices whose lanes or memory it uses,
   and has one point. The declared bytes of an input must not overlap another
   input or buffer of the graph if one of the two is written: HCQ_ERROR_ALIAS,
   and nothing runs. A host or custom command that fails ends its lane's part of
   the launch and what depends on that; the next launch is not affected.

   HCQ_OVERLAP lets a launch start while earlier work still runs. Between
   launches of this graph the order that shared memory needs is kept; against
   all else there is none: add waits to the submission. The first launch with
   the flag follows earlier ones without it. HCQ_STEP runs the graph from the
   host, command by command in the order that hcq_graph_print shows, and returns
   when all is done, or the first failure; other work may come in between.

   Profile. hcq_profile_start makes a device record begin and end of every
   command, of what the host copies for an eager call, of hcq_device_synchronize;
   also who ran how much of a CPU's grid. One command's end is the next one's
   begin if nothing lies between. Failed submissions leave none. Off: no cost.

   Threads. One thread at a time records, updates, binds or submits a given
   queue; all else may be called from any thread. Callbacks (host commands,
   custom commands, notifications, loggers) run without library locks; they may
   set signals, query and submit, and never block: a call that would have to
   wait returns HCQ_ERROR_WOULD_BLOCK there. A logger is called by the thread
   whose call wrote the line, before that returns, maybe by several at a time,
   never after hcq_close; what its own calls write follows once it returned,
   what is written about that is dropped.

   Forks. In a child of fork everything that the parent made answers
   HCQ_ERROR_CLOSED, at once, and nothing of it is freed. The child may open
   devices of its own if their driver takes that (CUDA: fork before, or exec).

   Errors. Every function that can fail returns an hcq_result; a negative one is
   an error. HCQ_ERROR_INVALID is for a parameter that is wrong, _CLOSED for
   what is gone, _LOST where a device is, _OUT_OF_MEMORY may come of whatever
   makes or records something, _WOULD_BLOCK in a callback of what says Blocks:
   the comments below name what else there is. What could not be made is NULL or
   zero. Misuse is refused with a log line that names the parameter and leaves
   the object as it was. The device keeps its first run-time error
   (hcq_device_error_take). Calls without a timeout use its own (30 s), then log why.

   ============================================================================
   GLOSSARY                                                       >>glossary

       hcq              CUDA             Vulkan            tinygrad
       grid             grid             group count       global_size
       block            block            local size        local_size
       block id         blockIdx         WorkgroupID       gid
       lane             stream           VkQueue           hw queue
       queue            graph            command buffer    HWQueue
       signal           (event)          timeline sem.     HCQSignal
       argument block   kernel params    push constants    kernargs
       exec             launch           dispatch          exec
       program          function         pipeline          HCQProgram

   ============================================================================
   hcq DOES NOT                                                   >>limits

   compile kernels, choose a device for you, fall back silently, read
   environment variables, print with NDEBUG unless a logger does, order lanes
   behind your back, or protect one queue from two recording threads.
*/
/* Where the implementation could not be right only the declarations stay. */
#if defined(HCQ_IMPLEMENTATION) && !defined(HCQI_IMPLEMENTED)
#if defined(__i386__) || defined(_M_IX86)
#error "hcq: not for 32-bit x86: a struct's uint64_t is aligned to 4 bytes there, kernels need 8"
#elif !defined(_MSC_VER) && !(defined(__GNUC__) && defined(__ATOMIC_SEQ_CST))
#error "hcq: the implementation needs atomics: compile it with gcc (4.7 or later), clang or MSVC"
#elif !defined(_MSC_VER) && !(defined(__cplusplus) && __cplusplus >= 201103L) && \
    !(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#error "hcq: the implementation needs C99 or C++11: compile it with -std=c99, c++11 or later"
#else
#define HCQI_COMPILES
#endif
#ifndef HCQI_COMPILES
#undef HCQ_IMPLEMENTATION
#undef HCQ_STATIC
#endif
#endif

#ifndef HCQ_H
#define HCQ_H
#if defined(HCQ_IMPLEMENTATION) && !defined(_WIN32) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* clocks and threads under -std=c99; before any system header */
#endif
#include <stddef.h>
#include <stdint.h>

#define HCQ_VERSION_MAJOR 1
#define HCQ_VERSION_MINOR 0
#define HCQ_VERSION_PATCH 1

#if defined(__GNUC__) || defined(__clang__)
#define HCQI_UNUSED __attribute__((unused))
#define HCQI_PRINTF(fmt_, first_) __attribute__((format(printf, fmt_, first_)))
#else
#define HCQI_UNUSED
#define HCQI_PRINTF(fmt_, first_)
#endif
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define HCQI_INLINE static inline
#else
#define HCQI_INLINE static __inline    /* C90: the header part alone */
#endif
#ifndef HCQ_API
#ifdef HCQ_STATIC
#define HCQ_API static HCQI_UNUSED
#else
#define HCQ_API extern
#endif
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ========================================================================== */
/* ---- results ------------------------------------------------- >>results - */
/* name, value, text. Zero is success, positive is no error. */
#define HCQ_RESULTS(X)                                                             \
    X(HCQ_OK, 0, "ok")                                                             \
    X(HCQ_TIMEOUT, 1, "timed out")                                                 \
    X(HCQ_NOT_READY, 2, "not ready")                                               \
    X(HCQ_ERROR_INVALID, -1, "invalid parameter")                                  \
    X(HCQ_ERROR_OUT_OF_MEMORY, -2, "out of memory")                                \
    X(HCQ_ERROR_LIMIT, -3, "a limit is reached")                                   \
    X(HCQ_ERROR_CLOSED, -4, "the object or its device was destroyed")              \
    X(HCQ_ERROR_CANCELLED, -5, "cancelled: nobody will signal this any more")      \
    X(HCQ_ERROR_NO_DEVICE, -6, "no such device")                                   \
    X(HCQ_ERROR_UNSUPPORTED, -7, "not supported by this backend")                  \
    X(HCQ_ERROR_FOREIGN, -8, "the object belongs to another device")               \
    X(HCQ_ERROR_NO_KERNEL, -9, "the program has no kernel for this backend")       \
    X(HCQ_ERROR_WOULD_BLOCK, -10, "the call would block inside a callback")        \
    X(HCQ_ERROR_BUSY, -11, "work that uses the object is pending")                 \
    X(HCQ_ERROR_LOST, -12, "the device is lost")                                   \
    X(HCQ_ERROR_NATIVE, -13, "the native API refused a call")                      \
    X(HCQ_ERROR_HOST, -14, "a host or custom command reported an error")           \
    X(HCQ_ERROR_EXISTS, -15, "already registered")                                 \
    X(HCQ_ERROR_ALIAS, -16, "a graph's input overlaps other memory of it")         \
    X(HCQ_ERROR_RACE, -17, "two commands touch the same bytes in no order")        \
    X(HCQ_ERROR_DEADLOCK, -18, "nothing is left that could end the wait")

typedef enum hcq_result {
#define HCQI_ENUM(name, value, text) name = value,
    HCQ_RESULTS(HCQI_ENUM)
#undef HCQI_ENUM
    HCQI_RESULT_MAX = 0x7fffffff
} hcq_result;

/* A result's text and its identifier, "HCQ_ERROR_LIMIT" say; never NULL. */
HCQ_API const char *hcq_result_text(hcq_result result);
HCQ_API const char *hcq_result_name(hcq_result result);
/* The implementation's HCQ_VERSION_*: major << 16 | minor << 8 | patch. */
HCQ_API uint32_t hcq_version(void);

/* ========================================================================== */
/* ---- types ----------------------------------------------------- >>types - */
#define HCQ_KEEP UINT64_MAX            /* "leave as it was" in hcq_queue_update_* */
#define HCQ_FOREVER UINT64_MAX         /* a timeout that never ends */
#define HCQ_NEVER UINT64_MAX           /* "never" or "none" in descriptions */
#define HCQ_ANY_LANE UINT64_MAX        /* affinity: that with fewest unfinished submissions */
#define HCQ_MAX_ARGS 64                /* arguments of one program */
#define HCQ_MAX_VALUES 256             /* numbers of what submissions bring */
/* An absolute deadline where a timeout is asked for, on hcq_now_ns' clock; one in
   the past polls. */
#define HCQ_DEADLINE(host_ns) ((uint64_t)(host_ns) | (uint64_t)1 << 63)
/* The host's clock: CLOCK_MONOTONIC or the system's like, nanoseconds. */
HCQ_API uint64_t hcq_now_ns(void);

typedef struct hcq_device hcq_device;
typedef struct hcq_queue hcq_queue;
typedef struct hcq_program hcq_program;
typedef struct hcq_driver hcq_driver;
typedef struct hcq_registry hcq_registry;
struct hcq_cpu_desc; struct hcq_vulkan_desc; struct hcq_cuda_desc; struct hcq_device_test;
struct hcq_command;

/* Numbers of blocks (a grid) or of threads (a block). */
typedef struct hcq_dims { uint32_t x, y, z; } hcq_dims;

/* Handles of a signal and of a pending hcq_notify. Plain data: a stale one
   answers HCQ_ERROR_CLOSED and never crashes; zero is none. */
typedef struct hcq_signal { uint64_t id; } hcq_signal;
typedef struct hcq_notification { uint64_t id; } hcq_notification;
/* What one waits for: `signal` at `value` or above; may outlive the signal. */
typedef struct hcq_point { hcq_signal signal; uint64_t value; } hcq_point;

/* A range of device memory. Plain data; views are made by hcq_view. */
typedef struct hcq_buffer {
    uint64_t address;                  /* device address of the first byte */
    uint64_t size;                     /* bytes */
    void *host;                        /* the same byte for the host, or NULL */
    hcq_device *device;                /* owner */
    uint64_t id;                       /* the allocation, for stale checks */
} hcq_buffer;

/* What a CPU kernel is told about its place; called once per block. */
typedef struct hcq_block {
    hcq_dims id;                       /* this block, each part below `grid` */
    hcq_dims grid, block;              /* blocks; threads in one block */
    void *user;                        /* hcq_program_desc.user */
} hcq_block;

/* In a CPU kernel: its arguments as a struct, an address in it as a pointer. */
#define HCQ_ARGS(type, args) ((const type *)(args))
#define HCQ_PTR(type, address) ((type *)(uintptr_t)(address))

/* Loops over the threads of a block, x innermost: the body sees hcq_dims t. */
#define HCQ_FOR_THREADS(b, t)                                                      \
    for (hcq_dims t = {0, 0, 0}; t.z < (b)->block.z; t.z++)                        \
        for (t.y = 0; t.y < (b)->block.y; t.y++)                                   \
            for (t.x = 0; t.x < (b)->block.x; t.x++)

typedef void (*hcq_cpu_fn)(const void *args, const hcq_block *block);
typedef hcq_result (*hcq_host_fn)(void *user);
typedef void (*hcq_notify_fn)(void *user, hcq_result result);
typedef void (*hcq_log_fn)(void *user, hcq_result result, const char *text);
typedef void *(*hcq_alloc_fn)(void *user, size_t size, size_t align);
typedef void (*hcq_free_fn)(void *user, void *ptr, size_t size);

HCQI_INLINE hcq_dims hcq_dim(uint32_t x, uint32_t y, uint32_t z) {
    hcq_dims dims; dims.x = x; dims.y = y; dims.z = z; return dims;
}
HCQI_INLINE hcq_point hcq_at(hcq_signal signal, uint64_t value) {
    hcq_point point; point.signal = signal; point.value = value; return point;
}

/* ========================================================================== */
/* ---- device --------------------------------------------------- >>device - */
/* Where the library's own memory comes from; `align` is a power of two, up to
   64 KiB. Called by any thread, several at once, maybe with the library's lock
   held: never call hcq. Valid after hcq_close, too, while recordings of other
   devices name something of this one, or failures there have text from here. */
typedef struct hcq_memory_hooks {
    hcq_alloc_fn alloc_fn;             /* NULL result = out of memory [malloc] */
    hcq_free_fn free_fn;               /* gets the size that was asked for [free] */
    void *user;
} hcq_memory_hooks;

enum {
    HCQ_DEVICE_COVERAGE = 1,           /* count each program's runs, not what of it ran */
    HCQ_DEVICE_CHECK = 2, HCQ_DEVICE_CHECK_FAILS = 4, HCQ_DEVICE_CHECK_THREADS = 8,
    HCQ_DEVICE_CHECK_READS = 16, HCQ_DEVICE_CHECK_WAITS = 32 /* with HCQ_CHECK: see hcq_check.h */
};

/* How to open a device. All zero gives the defaults, in brackets. */
typedef struct hcq_device_desc {
    const char *label;                 /* for logs and dumps, copied ["CPU", "CPU:1"] */
    hcq_memory_hooks memory;           /* [malloc, free] */
    hcq_log_fn log_fn;                 /* a line per call, no newline [errors to stderr] */
    void *log_user;
    uint64_t timeout_ns;               /* of calls that name none [30 s] */
    uint64_t explain_ns;               /* a longer wait logs why, once [5 s]; HCQ_NEVER: not */
    uint64_t spin_ns;                  /* spin before sleeping [50 us]; HCQ_NEVER: not */
    uint32_t compute_lanes, copy_lanes; /* wanted [backend: 1] */
    uint32_t versions;                 /* versions of a bound queue [2] */
    uint32_t inflight;                 /* handed over per lane; then submit waits [4096] */
    uint32_t held_pool;                /* pool for held submissions [4096] */
    uint32_t held_limit;               /* with so many none is taken: _LIMIT [4194304] */
    uint32_t failure_ranges;           /* runs of failed submissions kept apart [65536] */
    uint64_t cache_bytes;              /* freed, kept for reuse [256 MiB]; HCQ_NEVER: none */
    uint64_t staging_bytes;            /* of one piece; small copies share it [2 MiB] */
    uint32_t staging_count;            /* pieces, allocated when needed [32] */
    uint32_t flags;                    /* HCQ_DEVICE_* */
    hcq_registry *registry;            /* where names are looked up [default] */
    const struct hcq_cpu_desc *cpu;    /* the CPU backend's own part, hcq_cpu.h */
    const struct hcq_vulkan_desc *vulkan; /* Vulkan's, hcq_vulkan.h */
    const struct hcq_cuda_desc *cuda;  /* CUDA's, hcq_cuda.h */
    const void *backend_desc;          /* of a backend of your own */
    const struct hcq_device_test *test; /* what backends' tests force, >>backend */
} hcq_device_desc;

enum {
    HCQ_FEATURE_HOST_MEMORY = 1,       /* all device memory is host visible */
    HCQ_FEATURE_IMPORT = 2,            /* hcq_import works */
    HCQ_FEATURE_COPY_LANE = 4,         /* copies have a lane of their own */
    HCQ_FEATURE_MAP = 8,               /* buffers of other devices can be used */
    HCQ_FEATURE_DEBUGGING = 16,        /* a debugger can step through kernels */
    HCQ_FEATURE_COVERAGE = 32,         /* HCQ_DEVICE_COVERAGE works */
    HCQ_FEATURE_PROFILING = 64         /* timestamps are the device's own */
};

typedef struct hcq_device_info {
    const char *backend;               /* "CPU" */
    char name[96];                     /* the device's own name */
    char path[64];                     /* where it sits, a PCI address say, or "" */
    uint64_t id;                       /* the driver's own, opaque */
    uint32_t ordinal;                  /* as in "CPU:1" */
    uint32_t compute_lanes, copy_lanes;
    uint64_t memory_bytes;             /* 0 = unknown */
    uint32_t features;                 /* HCQ_FEATURE_* */
} hcq_device_info;

/* What hcq_device_query answers: what changes, and what few programs ask for. */
typedef enum hcq_query {
    HCQ_QUERY_NONE,
    HCQ_QUERY_ALLOCATED_BYTES,         /* by living buffers */
    HCQ_QUERY_CACHED_BYTES,            /* freed, kept for reuse or not yet reached */
    HCQ_QUERY_SUBMISSIONS,             /* numbers given out */
    HCQ_QUERY_HELD,                    /* submissions held back now; n queues: n + 1 */
    HCQ_QUERY_PENDING,                 /* not done now, held ones too, as HELD */
    HCQ_QUERY_COUNTER_SWAPS,           /* of all lanes */
    HCQ_QUERY_PACKETS_COPIED,          /* by encoding queues */
    HCQ_QUERY_PACKETS_PATCHED,         /* by updates and variables */
    HCQ_QUERY_WORKERS,                 /* threads that share a grid, CPU */
    HCQ_QUERY_MAX_BLOCK,               /* threads of one block; a program may take fewer */
    HCQ_QUERY_MAX_BLOCK_X, HCQ_QUERY_MAX_BLOCK_Y, HCQ_QUERY_MAX_BLOCK_Z, /* threads */
    HCQ_QUERY_MAX_GRID_X, HCQ_QUERY_MAX_GRID_Y, HCQ_QUERY_MAX_GRID_Z, /* blocks */
    HCQ_QUERY_SHARED_BYTES,            /* of shared memory for one block */
    HCQ_QUERY_SUBGROUP,                /* threads that go in step: a warp; 1 on the CPU */
    HCQ_QUERY_ADDRESS_ALIGN,           /* of a view that any kernel may get, bytes */
    HCQ_QUERY_UNIFIED,                 /* 1: device and host have the same memory, else 0 */
    HCQ_QUERY_RACES,                   /* that HCQ_DEVICE_CHECK found */
    HCQ_QUERY_BACKEND = 1000           /* a backend's own keys start here */
} hcq_query;

/* The first error of a device since the last one was taken. */
typedef struct hcq_error_info {
    hcq_result result;                 /* HCQ_OK: none */
    char queue[32];                    /* label of the queue or "" */
    int32_t command;                   /* index in the recording, -1 = none */
    char program[32];                  /* label of the program or "" */
    char native[48];                   /* native call or "" */
    int64_t native_code;               /* its, or what a host command returned */
} hcq_error_info;

/* A reading of both clocks, nanoseconds. */
typedef struct hcq_clock {
    uint64_t device_ns;                /* as in hcq_signal_timestamp */
    uint64_t host_ns;                  /* CLOCK_MONOTONIC or the system's like */
    uint64_t error_ns;                 /* host_ns is right within +- this */
} hcq_clock;

/* Makes a driver and opens a device of it: "CPU", "CPU:1", "BACKEND:which", as
   hcq_driver_open has it. Of what `desc` points to the backend's part is read
   during the call, the log user stays yours.
   Errors: HCQ_ERROR_NO_DEVICE, _LIMIT (64 open devices), _NATIVE. */
HCQ_API hcq_result hcq_open(const char *name, const hcq_device_desc *desc, hcq_device **device);

/* Closes a device (NULL: nothing): finishes what was handed over, cancels what
   is held, frees every object made from it and the caller's reference.
   Blocks: up to the device's timeout. Errors: HCQ_ERROR_BUSY (another thread
     closes it), HCQ_TIMEOUT: it stays open and takes no more work. */
HCQ_API hcq_result hcq_close(hcq_device *device);
/* Adds a reference (one is there), gives one back: the last closes the device, and is
   kept if that fails. Until then the handle is good, if only for HCQ_ERROR_CLOSED. */
HCQ_API hcq_result hcq_device_retain(hcq_device *device);
HCQ_API hcq_result hcq_device_release(hcq_device *device);

/* Describes a device; reads a number (HCQ_ERROR_UNSUPPORTED: none, `value` stays). */
HCQ_API hcq_result hcq_device_info_get(hcq_device *device, hcq_device_info *info);
HCQ_API hcq_result hcq_device_query(hcq_device *device, uint32_t key, uint64_t *value);

/* The device's timeline, and the number that its next submission will get: one
   less is everything submitted so far. Zero, and 0: the device is closed. */
HCQ_API hcq_signal hcq_device_timeline(hcq_device *device);
HCQ_API uint64_t hcq_device_timeline_value(hcq_device *device);

/* Waits until everything submitted before the call is done, failed or not.
   Blocks: up to `timeout_ns`, 0 polls. Errors: HCQ_TIMEOUT, HCQ_ERROR_LOST. */
HCQ_API hcq_result hcq_device_synchronize(hcq_device *device, uint64_t timeout_ns);
/* Reads both clocks: of a few tries the pair that is tightest together.
   Blocks: for a few short submissions at most. Errors: HCQ_TIMEOUT. */
HCQ_API hcq_result hcq_device_clock(hcq_device *device, hcq_clock *clock);
/* Device time as host time, by a reading; its error bound holds for that. */
HCQI_INLINE uint64_t hcq_clock_to_host(const hcq_clock *clock, uint64_t device_ns) {
    return clock->host_ns + (device_ns - clock->device_ns);
}

/* Takes the device's first error: copies it and makes room for the next. */
HCQ_API hcq_result hcq_device_error_take(hcq_device *device, hcq_error_info *info);
/* Writes what the device is doing as text: lanes, what is held and what it
   waits for, memory. Like all calls that write text it returns the whole text's
   length, so that (NULL, 0) asks for it, and ends with a zero if size > 0. */
HCQ_API size_t hcq_device_dump(hcq_device *device, char *text, size_t size);

/* Loggers to give as log_fn: a line on stderr, and nothing. The default, also
   of calls that name no open device, is the first for what is not HCQ_OK, of a
   device with HCQ_DEVICE_CHECK for all; with NDEBUG (HCQ_VALIDATE 0) the second. */
HCQ_API void hcq_log_stderr(void *user, hcq_result result, const char *text);
HCQ_API void hcq_log_none(void *user, hcq_result result, const char *text);

/* ========================================================================== */
/* ---- memory --------------------------------------------------- >>memory - */
enum {
    HCQ_HOST_VISIBLE = 1,              /* buffer.host is not NULL */
    HCQ_NO_CACHE = 2,                  /* go back to the system when freed */
    HCQ_ZEROED = 4,                    /* every byte 0 before any later work sees it */
    HCQ_HOST_WRITES = 8                /* HCQ_HOST_VISIBLE, on the device if it can: write only */
};

/* Allocates device memory, at least 64-byte aligned; contents are undefined
   unless HCQ_ZEROED. From the cache where a freed block of this size and these
   flags is done; when memory runs out the cache is emptied and tried again. */
HCQ_API hcq_result hcq_alloc(hcq_device *device, uint64_t size, uint32_t flags, hcq_buffer *buffer);
/* Makes a buffer of host memory that stays yours; keep `ptr` until work that names it is
   done. What the host may only read is for reading. `flags`: 0. Errors: _UNSUPPORTED. */
HCQ_API hcq_result hcq_import(hcq_device *device, void *ptr, uint64_t size, uint32_t flags,
                              hcq_buffer *buffer);
/* The buffer of `device` that an address lies in, from there to its end. */
HCQ_API hcq_result hcq_buffer_at(hcq_device *device, uint64_t address, hcq_buffer *buffer);

/* Gives the whole of an allocation back, not a view, without waiting; pending
   work that names it is safe. Errors: HCQ_ERROR_CLOSED (freed before). */
HCQ_API hcq_result hcq_free(hcq_buffer buffer);
/* Gives cached memory whose work is done back until `keep_bytes` are left. */
HCQ_API hcq_result hcq_trim(hcq_device *device, uint64_t keep_bytes);

/* Allocates as a step in the order of work: `point` is reached once all waits
   are and the memory is nobody else's any more; work that uses the buffer waits
   for it. The buffer may be recorded at once. It may be a block whose last work
   still runs. If a wait fails so does `point`, and the buffer is still to be
   freed. Errors: as hcq_alloc and hcq_submit. */
HCQ_API hcq_result hcq_alloc_after(hcq_device *device, const hcq_point *waits,
                                   uint32_t wait_count, uint64_t size, uint32_t flags,
                                   hcq_buffer *buffer, hcq_point *point);
/* Frees a buffer once all waits are reached, or cannot be any more, as `point`
   (NULL allowed) is. New work may name it until only running work is left
   before them. hcq_alloc_after may take it over earlier, ordered behind.
   Errors: as hcq_free and hcq_submit. */
HCQ_API hcq_result hcq_free_after(hcq_buffer buffer, const hcq_point *waits,
                                  uint32_t wait_count, hcq_point *point);

/* A view: `size` bytes of `buffer` from `offset`; size 0 = the rest. Outside of
   the buffer: a zero buffer, which every call refuses. */
HCQI_INLINE hcq_buffer hcq_view(hcq_buffer buffer, uint64_t offset, uint64_t size) {
    hcq_buffer none = { 0, 0, NULL, NULL, 0 };
    uint64_t left = offset < buffer.size ? buffer.size - offset : 0;
    if (left == 0 || size > left) { return none; }
    buffer.address += offset;
    buffer.size = size != 0 ? size : left;
    if (buffer.host != NULL) { buffer.host = (char *)buffer.host + offset; }
    return buffer;
}

/* Copies host memory into a buffer, and a buffer into host memory. copyin
   returns when `src` may be reused. Beside held work that is at once: the bytes
   are kept in staging memory (.staging_bytes * .staging_count), whatever memory
   `dst` is. Later submissions see them (HCQ_UNORDERED ones after waiting for
   the timeline). copyout returns when `dst` is complete.
   Blocks: up to the device's timeout; copyin for work already handed over only.
   Errors: HCQ_TIMEOUT, HCQ_ERROR_LIMIT (copyin beside held work: no room). */
HCQ_API hcq_result hcq_copyin(hcq_buffer dst, const void *src, uint64_t size);
HCQ_API hcq_result hcq_copyout(void *dst, hcq_buffer src, uint64_t size);

/* One end of a transfer: host memory, or a buffer of whatever memory. */
typedef struct hcq_transfer_end {
    void *host;                        /* NULL: it is `buffer` */
    hcq_buffer buffer;
    uint64_t size;                     /* bytes */
} hcq_transfer_end;

/* Make ends: of hcq_view for a part of a buffer. A source is only read from. */
HCQI_INLINE hcq_transfer_end hcq_transfer_device(hcq_buffer buffer) {
    hcq_transfer_end end; end.host = NULL; end.buffer = buffer; end.size = buffer.size; return end;
}
HCQI_INLINE hcq_transfer_end hcq_transfer_host(const void *ptr, uint64_t size) {
    hcq_transfer_end end = { NULL, { 0, 0, NULL, NULL, 0 }, 0 };
    end.host = (void *)(uintptr_t)ptr; end.size = size; return end;
}

/* Copies `size` bytes between host and buffers of any devices, after everything
   submitted earlier on them (HCQ_UNORDERED: not), and returns when it is done.
   After HCQ_TIMEOUT dst may be written in part, and still, but for host memory
   of no buffer. Blocks: up to `timeout_ns`. Errors: as hcq_copyin. */
HCQ_API hcq_result hcq_transfer(hcq_transfer_end dst, hcq_transfer_end src, uint64_t size,
                                uint32_t flags, uint64_t timeout_ns);

/* Submits copies, fills and writes (`kind`, and what these have in hcq_command;
   writes of any size) to a copy lane of `device`, to run in order after all
   waits and before `point`. As hcq_submit; _FOREIGN: a fill of what it cannot see. */
HCQ_API hcq_result hcq_transfer_submit(hcq_device *device, const hcq_point *waits,
                                       uint32_t wait_count, const struct hcq_command *commands,
                                       uint32_t count, hcq_point *point);

/* ========================================================================== */
/* ---- signals ------------------------------------------------- >>signals - */
typedef enum hcq_wait_mode { HCQ_ALL, HCQ_ANY } hcq_wait_mode;

/* Makes a signal with a first value, at most INT64_MAX, that ends with
   `device`; any may wait for it and raise it. Errors: HCQ_ERROR_LIMIT. */
HCQ_API hcq_result hcq_signal_create(hcq_device *device, uint64_t value, hcq_signal *signal);
/* Destroys a signal (no timeline), whatever references there are. Pending
   submissions that raise it still count; waits that nobody will raise any more
   end with HCQ_ERROR_CANCELLED, and so does every host wait in progress. */
HCQ_API hcq_result hcq_signal_destroy(hcq_signal signal);
/* Adds a reference (one is there), gives one back: the last destroys it. */
HCQ_API hcq_result hcq_signal_retain(hcq_signal signal);
HCQ_API hcq_result hcq_signal_release(hcq_signal signal);

/* Names the signal in logs, dumps and explanations; 31 characters are kept. */
HCQ_API hcq_result hcq_signal_label(hcq_signal signal, const char *label);
/* Reads the value, never less than before, and answers the failure, if any. */
HCQ_API hcq_result hcq_signal_value(hcq_signal signal, uint64_t *value);
/* Raises the value from the host, not a timeline's; answers as signal_value. */
HCQ_API hcq_result hcq_signal_set(hcq_signal signal, uint64_t value);

/* Fails a signal: waits for values that it has not reached end with `result`,
   also where submitted work would have raised them. `text` (NULL allowed; 95
   characters are kept, if there is memory for them) says why: to hcq_explain,
   and in the log for each submission that fails by it. */
HCQ_API hcq_result hcq_signal_fail(hcq_signal signal, hcq_result result, const char *text);
/* Sets any value, forgets failure and timestamp; while pending: _BUSY. */
HCQ_API hcq_result hcq_signal_reset(hcq_signal signal, uint64_t value);
/* Reads the last finished hcq_queue_timestamp of this signal; 0: none yet. */
HCQ_API hcq_result hcq_signal_timestamp(hcq_signal signal, uint64_t *device_ns);

/* Waits on the host for all or any of `count` points, of whatever devices;
   count 0 is HCQ_OK. Reached counts more than failed; with several failures the
   answer is the lowest code, so the order of the list never matters. A timeout
   changes nothing. Blocks: up to `timeout_ns` or HCQ_DEADLINE(t); 0 polls.
   Errors: HCQ_TIMEOUT, the failure of a signal or submission; _DEADLOCK (seeds). */
HCQ_API hcq_result hcq_wait(const hcq_point *points, uint32_t count, hcq_wait_mode mode,
                            uint64_t timeout_ns);

/* Says as text why points are not reached: who was going to raise each, on
   which lane, behind what, and so on to the first cause; a cycle is named, so
   is a wait that no submitted work will satisfy (a host set may still come),
   and what is final: failed, cancelled, closed. */
HCQ_API size_t hcq_explain(const hcq_point *points, uint32_t count, char *text, size_t size);

/* Calls `fn` once when `point` is reached (HCQ_OK) or can no longer be (its
   failure), at once if that is so now: a callback, on the thread that found
   out, the caller, say, or who sets a signal. hcq_close waits for none that
   runs. `notification` may be NULL. Errors: HCQ_ERROR_LIMIT (1 million). */
HCQ_API hcq_result hcq_notify(hcq_point point, hcq_notify_fn fn, void *user,
                              hcq_notification *notification);
/* The same for event loops: an eventfd on Linux, a pipe's end elsewhere, an
   event HANDLE on Windows, that turns readable (signalled) and stays so. Yours
   to close, whenever; after a cancel it means nothing; -1: HCQ_ERROR_NATIVE. */
HCQ_API hcq_result hcq_notify_handle(hcq_point point, intptr_t *handle,
                                     hcq_notification *notification);
/* Takes a notification back. HCQ_OK: it will never run. HCQ_ERROR_BUSY: it runs
   at this moment. HCQ_ERROR_CLOSED: it ran, nobody touches its `user` any more. */
HCQ_API hcq_result hcq_notify_cancel(hcq_notification notification);

/* ========================================================================== */
/* ---- programs ----------------------------------------------- >>programs - */
/* Kinds of argument. Buffers take 8 bytes (a device address). */
enum {
    HCQ_ARG_NONE,                      /* ends the list */
    HCQ_ARG_IN, HCQ_ARG_OUT, HCQ_ARG_INOUT, /* buffer: read, written, both */
    HCQ_ARG_I32, HCQ_ARG_U32, HCQ_ARG_F32, HCQ_ARG_I64, HCQ_ARG_U64, HCQ_ARG_F64,
    HCQI_ARG_STRUCT
};

/* A raw struct argument: 1 to 65535 bytes, alignment 1, 2, 4, 8 or 16. Nobody
   looks for addresses in it: keep what they name, tell by hcq_queue_access. */
#define HCQ_ARG_STRUCT(size, align)                                                \
    ((uint32_t)HCQI_ARG_STRUCT | (uint32_t)((size) > 65535 ? 0 : (size)) << 8 |    \
     (uint32_t)(align) << 24)

/* Code for a device other than the CPU, read during hcq_program_create. */
typedef struct hcq_code {
    const void *data;
    size_t size;                       /* bytes; PTX that ends with a zero needs none */
    const char *entry;                 /* the kernel's name in it ["main"; PTX: the first] */
    int takes_grid;                    /* PTX: three more parameters, see hcq_cuda.h */
} hcq_code;

enum {
    HCQ_PROGRAM_LINES = 1,             /* CUDA: line numbers, for tools, in what is made of PTX */
    HCQ_PROGRAM_STATISTICS = 2         /* ask the driver for hcq_program_info.statistics */
};

/* One program for every backend; leave out what you do not have. */
typedef struct hcq_program_desc {
    const char *label;                 /* copied, 31 characters are kept */
    hcq_cpu_fn cpu;                    /* kernel for the CPU */
    uint32_t args[HCQ_MAX_ARGS];       /* HCQ_ARG_*, in order, HCQ_ARG_NONE ends */
    void *user;                        /* hcq_block.user, for the CPU's kernel */
    const char *library, *symbol;      /* or: a shared library, the kernel's name in it */
    hcq_code spirv;                    /* for Vulkan; see hcq_vulkan.h */
    hcq_code ptx;                      /* for CUDA, PTX, cubin or fatbin; see hcq_cuda.h */
    uint32_t shared_bytes;             /* CUDA: dynamic shared memory of one block [0] */
    hcq_dims block;                    /* that the kernel was made for [any] */
    uint32_t flags;                    /* HCQ_PROGRAM_* */
} hcq_program_desc;

/* Layout of a program's argument block, and what became of the program. */
typedef struct hcq_program_info {
    char label[32];
    uint32_t arg_count;
    uint32_t kernargs_size, kernargs_align; /* bytes, as of the matching struct */
    uint32_t offsets[HCQ_MAX_ARGS], sizes[HCQ_MAX_ARGS]; /* of each argument in the block */
    uint64_t runs;                     /* finished execs, counted by HCQ_DEVICE_COVERAGE */
    char statistics[256];              /* of the block made last, in the driver's words, or "" */
} hcq_program_info;

/* Describes a program by its kernel for the CPU and its arguments, in the order
   of their struct: HCQ_CPU_PROGRAM("scale", scale, HCQ_ARG_INOUT, HCQ_ARG_F32).
   Add what else there is: .spirv, .ptx, .user. hcq_program_create refuses too
   many arguments. The function itself wants HCQ_ARG_NONE at the end. */
#define HCQ_CPU_PROGRAM(...) hcq_program_describe(__VA_ARGS__, HCQ_ARG_NONE)
HCQ_API hcq_program_desc hcq_program_describe(const char *label, hcq_cpu_fn cpu, ...);

/* Makes a program. Errors: HCQ_ERROR_NO_KERNEL (none for this backend), _LIMIT, _NATIVE. */
HCQ_API hcq_result hcq_program_create(hcq_device *device, const hcq_program_desc *desc,
                                      hcq_program **program);
/* Destroys a program; NULL: nothing. What names it keeps what it needs. */
HCQ_API void hcq_program_destroy(hcq_program *program);
/* Describes a program. */
HCQ_API hcq_result hcq_program_info_get(const hcq_program *program, hcq_program_info *info);

/* Writes an argument block, of at least kernargs_size bytes, from buffers and
   values, each in the order of the argument list. Of the 8 bytes of a value the
   low 4 are read for 32-bit types; a raw struct's is a pointer to it. */
HCQ_API hcq_result hcq_program_fill_kernargs(const hcq_program *program, const hcq_buffer *buffers,
                                             uint32_t buffer_count, const uint64_t *values,
                                             uint32_t value_count, void *block, size_t block_size);

/* Runs a program once, after everything submitted earlier on its device; unless
   `device_ns` is NULL waits, for held work, too, up to the device's timeout, and
   stores the time the kernel took. Errors: as hcq_queue_exec and hcq_wait. */
HCQ_API hcq_result hcq_program_call(hcq_program *program, const void *args, size_t args_size,
                                    hcq_dims grid, hcq_dims block, uint64_t *device_ns);

/* The bits of a float or double as a value for hcq_program_fill_kernargs. */
HCQI_INLINE uint64_t hcq_f32(float value) {
    union { float value; uint32_t bits; } both; both.value = value; return both.bits;
}
HCQI_INLINE uint64_t hcq_f64(double value) {
    union { double value; uint64_t bits; } both; both.value = value; return both.bits;
}

/* ========================================================================== */
/* ---- queues --------------------------------------------------- >>queues - */
typedef enum hcq_queue_kind {
    HCQ_COMPUTE,                       /* every command */
    HCQ_COPY,                          /* no exec, no barrier */
    HCQ_GRAPH                          /* hcq_graph_create's: no waits, no signals */
} hcq_queue_kind;

typedef enum hcq_command_kind {
    HCQ_COMMAND_WAIT = 1, HCQ_COMMAND_WAIT_DEVICE, HCQ_COMMAND_SIGNAL, HCQ_COMMAND_TIMESTAMP,
    HCQ_COMMAND_BARRIER, HCQ_COMMAND_EXEC, HCQ_COMMAND_COPY, HCQ_COMMAND_FILL,
    HCQ_COMMAND_WRITE, HCQ_COMMAND_HOST, HCQ_COMMAND_CUSTOM,
    HCQ_COMMAND_ALLOC,                 /* graph: allocates, does nothing */
    HCQ_COMMAND_SYNC                   /* in profiles: hcq_device_synchronize */
} hcq_command_kind;

enum {
    HCQ_OVERLAP = 1,                   /* command: no edge to the previous; launch: see Graphs */
    HCQ_UNORDERED = 2,                 /* submission: no order within its lane */
    HCQ_STEP = 4,                      /* graph launch: on the host, item by item */
    HCQ_COPY_LISTS = 8                 /* HCQ_STEP, print, dot: copies in lists of their own */
};

/* Encodes a custom command, by whoever hands its submission over; an error
   fails that with HCQ_ERROR_HOST. `native` is what the backend says, on Vulkan
   an hcq_vulkan_encoder, on the CPU NULL: the engine calls it at run time. */
typedef hcq_result (*hcq_custom_fn)(void *user, void *native, const void *payload);

/* A type of command of your own. The struct must outlive its recordings. */
typedef struct hcq_custom_type {
    const char *label;
    uint32_t payload_size;             /* bytes, copied when recorded; up to 4096 */
    struct { const char *backend; hcq_custom_fn encode_fn; } encode[8]; /* by name */
    struct { uint32_t offset, size; } updatable[4]; /* what update_custom may change [all] */
    void *user;
} hcq_custom_type;

/* A recorded command, read back. Fields that do not apply are zero; what points
   into the queue is good until that is changed. */
typedef struct hcq_command {
    hcq_command_kind kind;
    uint32_t flags;                    /* HCQ_OVERLAP */
    const char *label;                 /* "" if none; valid until the next recording call */
    hcq_point point;                   /* wait, signal; timestamp: the signal */
    hcq_device *device;                /* wait_device */
    hcq_program *program;              /* exec */
    hcq_dims grid, block;              /* exec; of an indirect one the maximum */
    hcq_buffer grid_buffer;            /* indirect exec: its 12 bytes */
    const void *args;                  /* exec: the recorded block; custom: payload */
    uint32_t args_size;
    hcq_buffer dst, src;               /* copy, fill, write */
    uint64_t size;                     /* copy, fill, write: bytes */
    uint64_t value;                    /* fill */
    uint32_t value_size;               /* fill: 1, 2, 4, 8 */
    const void *data;                  /* write: the recorded bytes */
    hcq_host_fn host_fn;               /* host */
    void *user;
    const hcq_custom_type *type;       /* custom */
} hcq_command;

/* What hcq_queue_variable can make variable. */
enum {
    HCQ_PART_GRID_X = 1, HCQ_PART_GRID_Y, HCQ_PART_GRID_Z, /* exec; up to the maximum */
    HCQ_PART_VALUE,                    /* fill: the value; write of 1, 2, 4 or 8 bytes */
    HCQ_PART_SIZE,                     /* copy and fill: bytes, up to those recorded */
    HCQ_PART_DST, HCQ_PART_SRC,        /* copy, fill and write: the buffer */
    HCQ_PART_ARG = 256                 /* exec: + offsetof the argument in its struct */
};

/* What a submission brings under one number: a number, or a buffer or view
   where a buffer is variable and for inputs (`number` 0 then). With a zero
   `buffer` there, `number` is an address in a living one. */
typedef struct hcq_value { uint64_t number; hcq_buffer buffer; } hcq_value;

/* Make values; hcq_f32 and hcq_f64 give numbers. */
HCQI_INLINE hcq_value hcq_value_number(uint64_t number) {
    hcq_value value = { 0, { 0, 0, NULL, NULL, 0 } }; value.number = number; return value;
}
HCQI_INLINE hcq_value hcq_value_buffer(hcq_buffer buffer) {
    hcq_value value = { 0, { 0, 0, NULL, NULL, 0 } }; value.buffer = buffer; return value;
}

typedef struct hcq_submission {
    const hcq_point *waits;            /* before the first command */
    uint32_t wait_count;
    hcq_queue *const *queues;          /* start in this order, each on its lane; up to 16 */
    uint32_t queue_count;              /* 0 is legal: only waits and signals */
    const hcq_point *signals;          /* after the last command of all queues */
    uint32_t signal_count;
    uint64_t affinity;                 /* lane: modulo those of the kind, < 2^63; HCQ_ANY_LANE */
    uint32_t flags;                    /* HCQ_UNORDERED; graphs: HCQ_OVERLAP, HCQ_STEP ... */
    const hcq_value *values;           /* by number of hcq_queue_variable and hcq_graph_input */
    uint32_t value_count;
} hcq_submission;

/* Makes an empty queue. */
HCQ_API hcq_result hcq_queue_create(hcq_device *device, hcq_queue_kind kind, hcq_queue **queue);
/* Destroys a queue; NULL: nothing. What is pending finishes as if it lived. */
HCQ_API void hcq_queue_destroy(hcq_queue *queue);
/* Forgets commands, sticky error and binding; the label and the memory stay. */
HCQ_API hcq_result hcq_queue_reset(hcq_queue *queue);

/* Names queue or command in logs, dumps and errors: 31 characters are kept. */
HCQ_API hcq_result hcq_queue_label(hcq_queue *queue, const char *label);
HCQ_API hcq_result hcq_queue_command_label(hcq_queue *queue, int32_t index, const char *label);
/* Sets a command's flags: HCQ_OVERLAP or 0; not in a graph: its plan knows. */
HCQ_API hcq_result hcq_queue_command_flags(hcq_queue *queue, int32_t index, uint32_t flags);

/* Records a wait: later commands run once the point is reached, or for a
   device: all that was submitted there before this wait's submission is done.
   What raises the value may be submitted later, but not to the same lane, which
   has one order: that is a cycle. HCQ_UNORDERED on the one that waits, or
   another lane, solves it. Waits in a row have no order: any may fail it. */
HCQ_API int32_t hcq_queue_wait(hcq_queue *queue, hcq_point point);
HCQ_API int32_t hcq_queue_wait_device(hcq_queue *queue, hcq_device *device);

/* Records a signal: the value rises once all earlier commands are done. Submit
   refuses a value that is not above the signal's or above an earlier one of the
   same recording, and one that another submission, held or running, is going to
   raise: a recording with a fixed value is submitted once, whatever the timing
   (hcq_queue_update_signal gives it the next). Never a timeline. */
HCQ_API int32_t hcq_queue_signal(hcq_queue *queue, hcq_point point);
/* Records the device's time into a signal, beside its value, after all earlier
   commands; in a graph what comes later need not wait for it. As a graph's
   first and last command they tell how long it took. */
HCQ_API int32_t hcq_queue_timestamp(hcq_queue *queue, hcq_signal signal);
/* Records a barrier: ends overlap, makes writes of host and peers visible. */
HCQ_API int32_t hcq_queue_memory_barrier(hcq_queue *queue);

/* Records a kernel: `grid` blocks of `block` threads; {0,0,0} is the program's
   block or {1,1,1}, another 0 in it is refused. `args` is copied now: the
   struct of the program's arguments, `args_size` its sizeof (no other); NULL
   and 0 for no arguments. Every buffer address in it must lie in a living
   buffer, or be 0 where a variable will bring one (not in a graph). In a graph
   it runs on the program's device, a copy, fill or write on dst's, and
   placeholders are buffer arguments, refused in a struct or a 64-bit value.
   Errors: HCQ_ERROR_FOREIGN (a program of another device; not in a graph). */
HCQ_API int32_t hcq_queue_exec(hcq_queue *queue, hcq_program *program, const void *args,
                               size_t args_size, hcq_dims grid, hcq_dims block);

/* Records a kernel whose grid is read when it runs, after all commands before
   it: three uint32_t, x, y, z, at `grid`, a multiple of 4. None of `maximum` is
   0, z below 2^31. A grid above it runs nothing, and the submission fails with
   HCQ_ERROR_INVALID; on Vulkan nobody sees that, and what happens is undefined.
   There `maximum` must be within the device's limits, else submit answers
   HCQ_ERROR_LIMIT: no such grid runs in parts. CUDA cuts recordings here. */
HCQ_API int32_t hcq_queue_exec_indirect(hcq_queue *queue, hcq_program *program,
                                        const void *args, size_t args_size, hcq_buffer grid,
                                        hcq_dims maximum, hcq_dims block);

/* Record a copy between buffers of any devices, whose ranges must not overlap;
   a fill with the low `value_size` (1, 2, 4, 8) bytes of `value`, address and
   size multiples of value_size; and the store, at any address, of 1 to 65536
   bytes at `data`, which are copied now. Where submissions will bring a buffer
   (hcq_queue_variable), one with nothing but a size does; not in a graph.
   Errors: HCQ_ERROR_FOREIGN (fill, write: of what the device cannot see). */
HCQ_API int32_t hcq_queue_copy(hcq_queue *queue, hcq_buffer dst, hcq_buffer src, uint64_t size);
HCQ_API int32_t hcq_queue_fill(hcq_queue *queue, hcq_buffer dst, uint64_t size,
                               uint64_t value, uint32_t value_size);
HCQ_API int32_t hcq_queue_write(hcq_queue *queue, hcq_buffer dst, const void *data, uint64_t size);

/* Records a call of `fn`, on the CPU by the lane's thread, else by a service
   thread. If it is negative the submission fails there, with HCQ_ERROR_HOST. */
HCQ_API int32_t hcq_queue_host(hcq_queue *queue, hcq_host_fn fn, void *user);
/* Records a command of a type of your own; the payload is copied now.
   Errors: HCQ_ERROR_UNSUPPORTED (no encode function for this backend). */
HCQ_API int32_t hcq_queue_custom(hcq_queue *queue, const hcq_custom_type *type,
                                 const void *payload);
/* Appends all commands of `other`, labels and variables too; returns the index
   of the first one, or the next index. A graph takes queues and graphs of any
   device, without waits and signals.
   Errors: HCQ_ERROR_FOREIGN, _LIMIT (its memory), the sticky error of `other`. */
HCQ_API int32_t hcq_queue_append(hcq_queue *queue, const hcq_queue *other);
/* Counts the recorded commands, negative: why it cannot, and reads one back. */
HCQ_API int32_t hcq_queue_count(const hcq_queue *queue);
HCQ_API hcq_result hcq_queue_command(const hcq_queue *queue, int32_t index, hcq_command *command);

/* Updates, O(1): NULL or HCQ_KEEP keeps the old part; a wrong index or kind
   changes nothing. That of a signal is for a timestamp's, too. */
HCQ_API hcq_result hcq_queue_update_wait(hcq_queue *queue, int32_t index,
                                         const hcq_signal *signal, uint64_t value);
HCQ_API hcq_result hcq_queue_update_signal(hcq_queue *queue, int32_t index,
                                           const hcq_signal *signal, uint64_t value);
/* Of an indirect exec only the block. */
HCQ_API hcq_result hcq_queue_update_exec(hcq_queue *queue, int32_t index,
                                         const hcq_dims *grid, const hcq_dims *block);
/* Any size up to what both buffers have, those given now or before. */
HCQ_API hcq_result hcq_queue_update_copy(hcq_queue *queue, int32_t index, const hcq_buffer *dst,
                                         const hcq_buffer *src, uint64_t size);
/* The argument of an exec that begins at byte `offset` of its struct: `size`
   bytes at `value`, a uint64_t address for a buffer. What hcq_queue_access said
   of the old bytes holds for as many new ones. */
HCQ_API hcq_result hcq_queue_update_arg(hcq_queue *queue, int32_t index, uint32_t offset,
                                        const void *value, size_t size);
/* Within the payload's updatable ranges. */
HCQ_API hcq_result hcq_queue_update_custom(hcq_queue *queue, int32_t index, const void *payload);

/* Makes a part of command `index` variable: each submission brings it as
   values[number], `number` below HCQ_MAX_VALUES, in a queue always a buffer or
   always a number. `part` is HCQ_PART_*; `maximum` bounds grids (else 0; 0 = the
   recorded one). A buffer that replaces an end of copy, fill or write has as
   many bytes (graphs: use hcq_graph_input). What was recorded there need not live. */
HCQ_API hcq_result hcq_queue_variable(hcq_queue *queue, int32_t index, uint32_t part,
                                      uint32_t number, uint64_t maximum);

/* Encodes the queue for `device` now, a graph for all of its devices. Recording
   commands, variables, flags undoes it. Errors: as hcq_queue_submit_with. */
HCQ_API hcq_result hcq_queue_bind(hcq_queue *queue, hcq_device *device);
/* Submits one queue like hcq_submit, to any device of its backend that sees the
   buffers that it names (but in copies), a graph to its own: else _FOREIGN. */
HCQ_API hcq_result hcq_queue_submit_with(hcq_queue *queue, hcq_device *device,
                                         const hcq_value *values, uint32_t count, uint32_t flags,
                                         hcq_point *point);
HCQI_INLINE hcq_result hcq_queue_submit(hcq_queue *queue, hcq_device *device, hcq_point *point) {
    return hcq_queue_submit_with(queue, device, NULL, 0, 0, point);
}

/* Submits `count` submissions in order; `point` (NULL allowed) gets the last
   one's point. At the first error the rest is not submitted, and it is the
   point of the last that was; zero if none was. The lists are copied. Those of
   one call that go to lanes of different kinds are ordered by points only.
   Blocks: only for handed-over work: a full lane, a version slot, a counter.
   Errors: HCQ_TIMEOUT, the queue's sticky error, HCQ_ERROR_INVALID (a signal
     that does not rise, a missing value), _CLOSED (a buffer, signal or device
     is gone), _FOREIGN, _ALIAS (graphs), _UNSUPPORTED (custom), _LIMIT
     (held_limit, over 16 queues), _NATIVE (a failed submission), _LOST. */
HCQ_API hcq_result hcq_submit(hcq_device *device, const hcq_submission *submissions,
                              uint32_t count, hcq_point *point);
/* hcq_submit and hcq_wait; the point is given after a timeout, too. */
HCQ_API hcq_result hcq_submit_and_wait(hcq_device *device, const hcq_submission *submissions,
                                       uint32_t count, uint64_t timeout_ns, hcq_point *point);

/* ========================================================================== */
/* ---- graphs --------------------------------------------------- >>graphs - */
/* Makes an empty graph: a queue of kind HCQ_GRAPH, where calls take a queue. */
HCQ_API hcq_result hcq_graph_create(hcq_device *device, hcq_queue **graph);

/* A placeholder, until the graph is reset, for a buffer of `device` (NULL: the
   graph's) of at least `size` bytes: each submission brings one as
   values[number], number below HCQ_MAX_VALUES. Recorded like a buffer, its
   address and views, too; the host cannot look into it. Zero after an error,
   which sticks: not as declared before, say, or a number elsewhere. */
HCQ_API hcq_buffer hcq_graph_input(hcq_queue *graph, uint32_t number, hcq_device *device,
                                   uint64_t size);
/* Records memory of `device` (NULL: the graph's) that belongs to the graph:
   allocated when that is planned, kept until it is reset or destroyed,
   undefined at first unless HCQ_ZEROED. `buffer` is for recording only: the
   host never learns the address. Errors: HCQ_ERROR_LIMIT (4000). */
HCQ_API int32_t hcq_graph_alloc(hcq_queue *graph, hcq_device *device, uint64_t size,
                                uint32_t flags, hcq_buffer *buffer);

/* Says what command `index` of any queue does with `buffer`: `access` is
   HCQ_ARG_IN, _OUT or _INOUT. Graphs go by it, those that the queue is appended
   to, too. A kernel's argument with the buffer's address is narrowed to these
   bytes (else: from its address to the end of the allocation) and this access;
   otherwise the bytes count in addition, though not those of a placeholder that
   the kernel does not get as an argument. A host or custom command that says
   nothing is ordered like a memory barrier, after everything before it and
   before everything after it. Where it says something it runs on the device of
   the first bytes it writes, or reads. */
HCQ_API hcq_result hcq_queue_access(hcq_queue *queue, int32_t index, hcq_buffer buffer,
                                    uint32_t access);
/* Orders command `after` behind `before`, which was recorded earlier. */
HCQ_API hcq_result hcq_graph_edge(hcq_queue *graph, int32_t before, int32_t after);

/* Writes the schedule as text, or in DOT: a list per device of commands, SYNC
   and WAIT, each cell with its place in HCQ_STEP's order (in brackets: its
   index). Coarser than what a launch does: a SYNC is for all of its list so
   far, a copy always waits for one of its source's device. 0: refused (a kernel
   over several devices, a copy with a second output, while it is appended to or
   reset). */
HCQ_API size_t hcq_graph_print(hcq_queue *graph, uint32_t flags, char *text, size_t size);
HCQ_API size_t hcq_graph_dot(hcq_queue *graph, uint32_t flags, char *text, size_t size);

/* ========================================================================== */
/* ---- profile ------------------------------------------------- >>profile - */
typedef struct hcq_profile_desc {
    uint32_t events;                   /* kept, the latest; 128 bytes each [65536] */
    uint32_t names;                    /* of what ran, then "(others)"; 48 bytes each [1024] */
} hcq_profile_desc;

typedef enum hcq_profile_format {
    HCQ_PROFILE_TRACE,                 /* JSON for chrome://tracing and ui.perfetto.dev */
    HCQ_PROFILE_HTML,                  /* a page: a timeline and a table; HCQ_CHECK: its races */
    HCQ_PROFILE_SUMMARY                /* the page's table as text: a line per name and grid */
} hcq_profile_format;

/* Starts to record what is submitted to `device` from now on, forgetting what
   was before. NULL: defaults. Takes memory now; encodes bound queues anew, with
   timestamps, not shared by submissions that run. Blocks: as hcq_device_clock.
   Errors: HCQ_ERROR_UNSUPPORTED (no clock), HCQ_TIMEOUT. */
HCQ_API hcq_result hcq_profile_start(hcq_device *device, const hcq_profile_desc *desc);
/* Stops recording; what was recorded stays until the next start or hcq_close.
   Submissions made before still add to it when they are done: wait for them. */
HCQ_API hcq_result hcq_profile_stop(hcq_device *device);

/* A command that ran, in hcq_now_ns' time, or, on the host's lane, a copy of an eager
   call or a call of hcq_device_synchronize (HCQ_STEP's, too), behind `submission`. */
typedef struct hcq_profile_event {
    uint64_t begin_ns, end_ns, error_ns; /* right within +- error_ns */
    uint64_t submission;               /* its number on the device's timeline */
    uint64_t bytes;                    /* copy, fill, write; 0 else */
    hcq_device *device;
    hcq_queue_kind lane_kind;
    uint32_t lane;                     /* UINT32_MAX: the host's */
    hcq_command_kind kind;
    int32_t command;                   /* index in the recording */
    hcq_dims grid;                     /* exec, indirect: the largest; 0 else */
    char name[32], queue[32];          /* its label, or the program's, or kind; the queue's */
    uint8_t shares[16];                /* CPU: % of a grid by lane, workers, [15]: rest; alone: 0 */
} hcq_profile_event;

/* Copies up to `capacity` events of a device, oldest first; `count`: how many
   there are, `lost` (NULL allowed): that found no room any more. */
HCQ_API hcq_result hcq_profile_events(hcq_device *device, hcq_profile_event *events,
                                      uint32_t capacity, uint32_t *count, uint64_t *lost);

/* Writes what was recorded on `count` devices, on one time axis, as text (0: an
   error) or into a file (HCQ_ERROR_NATIVE). Blocks: as hcq_device_clock. */
HCQ_API size_t hcq_profile_print(hcq_device *const *devices, uint32_t count,
                                 hcq_profile_format format, char *text, size_t size);
HCQ_API hcq_result hcq_profile_save(hcq_device *const *devices, uint32_t count,
                                    hcq_profile_format format, const char *path);

/* ========================================================================== */
/* ---- registry ----------------------------------------------- >>registry - */
/* A registry that is NULL is the default one: of the backends compiled in. */
struct hcq_backend;

/* A driver that might be made: its library may turn out to be missing. */
typedef struct hcq_driver_info {
    uint64_t id;                       /* given at registration, unique in the process */
    char name[32], full_name[96];      /* "CPU" */
} hcq_driver_info;

/* Makes a private registry, of no backends, for hcq_device_desc.registry;
   destroys one that nobody uses (NULL: nothing). Its devices do not need it. */
HCQ_API hcq_result hcq_registry_create(const hcq_memory_hooks *memory, hcq_registry **registry);
HCQ_API void hcq_registry_destroy(hcq_registry *registry);
/* Adds a backend, and removes it. Of two with one name the newest wins. Drivers
   and devices go on: `backend` must live, unchanged, until they are gone, too.
   Errors: HCQ_ERROR_EXISTS, HCQ_ERROR_LIMIT (8), HCQ_ERROR_INVALID (its version). */
HCQ_API hcq_result hcq_registry_register(hcq_registry *registry, const struct hcq_backend *backend);
HCQ_API hcq_result hcq_registry_unregister(hcq_registry *registry,
                                           const struct hcq_backend *backend);

/* Lists the drivers that might be made, newest first: copies up to `capacity`
   and gives the number there are in `count`. Opens no library. */
HCQ_API hcq_result hcq_registry_drivers(hcq_registry *registry, hcq_driver_info *infos,
                                        uint32_t capacity, uint32_t *count);

/* Makes a driver by name ("#12": the one with that id) or by id: opens its
   library and looks around, which may take long. Its devices hold a reference.
   Errors: HCQ_ERROR_NO_DEVICE (unknown, or not on this machine), _NATIVE. */
HCQ_API hcq_result hcq_driver_create(hcq_registry *registry, const char *name, hcq_driver **driver);
HCQ_API hcq_result hcq_driver_create_id(hcq_registry *registry, uint64_t id, hcq_driver **driver);
/* Adds a reference, gives one back (NULL: nothing): the last destroys it. */
HCQ_API void hcq_driver_retain(hcq_driver *driver);
HCQ_API void hcq_driver_release(hcq_driver *driver);
/* Describes a driver; lists its devices, as hcq_registry_drivers does. */
HCQ_API hcq_result hcq_driver_info_get(const hcq_driver *driver, hcq_driver_info *info);
HCQ_API hcq_result hcq_driver_devices(hcq_driver *driver, hcq_device_info *infos,
                                      uint32_t capacity, uint32_t *count);

/* Opens a device of a driver by the id that hcq_driver_devices lists, or
   `which`: NULL or "" = the default one, digits = an ordinal (CPU: up to 63),
   else a name, a path or "#" and the id. */
HCQ_API hcq_result hcq_driver_open(hcq_driver *driver, const char *which,
                                   const hcq_device_desc *desc, hcq_device **device);
HCQ_API hcq_result hcq_driver_open_id(hcq_driver *driver, uint64_t id,
                                      const hcq_device_desc *desc, hcq_device **device);

/* ========================================================================== */
/* ---- backend ------------------------------------------------- >>backend - */
/* For those who write a backend; users of hcq can stop reading here. All of it goes by
   HCQ_BACKEND_VERSION, which any version may raise, and not by HCQ_VERSION_*.

   A backend brings memory, programs, and lanes: in-order places to run batches,
   each with two counters that only rise (the active one and its shadow). A
   batch is a run of packets with waits before and one counter raised after it.
   No wait is handed over before the batch that raises it, so native queues
   cannot deadlock even if all lanes share one. All else the core does.

   Recipe: a table with what is not optional runs everything, if slowly; each
   later step makes something faster. The suite of tests/conformance passes
   after each: tests/mocks/mock.h is a whole backend for it to run on.
   1. devices, open (what the device is goes to `caps`), lane_open, close.
   2. alloc, dealloc; program_create, program_destroy.
   3. submit reads the packets and hands them over; completed, wait and
      counter_reset look after the counters. Host commands and waits for other
      devices are the core's then, on a thread of its own (kick wakes that).
   4. What failed: hcq_backend_job_fail before the counter is raised; what is
      lost: hcq_backend_lost. What a log should say: hcq_backend_log.
   5. give, if handing over is a call that may take long; caps.unlocked, if
      those of 1 and 2 may, and encode.
   6. encode, patch, encode_free: what is submitted again is there already.
   7. can_wait, import, map, clock, watch, query, as far as the hardware has it.
   8. hcq_registry_register makes it known, "NAME" in hcq_open opens it.

   Locks: the core's lock is held, one call at a time in the whole process, but
   for functions marked UNLOCKED. None may call a public hcq_ function; helpers
   marked UNLOCKED must not be called from inside a locked function. */

typedef struct hcq_job hcq_job;        /* a submission on a lane, opaque */

#define HCQ_BACKEND_VERSION 8
#define HCQ_GRID_IS_EMPTY(grid) ((grid)[0] == 0 || (grid)[1] == 0 || (grid)[2] == 0)
#define HCQ_GRID_INDIRECT 0x80000000u  /* in z of a maximum */
#define HCQ_GRID_WITHIN(grid, most)                                                \
    ((grid)[0] <= (most)[0] && (grid)[1] <= (most)[1] &&                           \
     (grid)[2] <= ((most)[2] & ~HCQ_GRID_INDIRECT))
#define HCQ_GRID_ABOVE "its grid: above the maximum" /* `native` of that error */
#define HCQ_PACKET_CHANGES 64          /* flag: a variable or an update patches it */
#define HCQ_PACKET_SHARES 2            /* flag, exec: p[-1].u.stamp.shares may be written */

/* A command after recording, but for waits and signals: batches are cut there.
   A dst or src that a submission will bring has a top byte of no address yet. */
typedef struct hcq_packet {
    uint8_t kind;                      /* hcq_command_kind */
    uint8_t flags;                     /* HCQ_OVERLAP, HCQ_PACKET_* */
    uint16_t value_size;               /* fill */
    uint32_t index;                    /* of the command in the recording */
    union {
        struct {
            void *code;                /* hcq_backend.program_create */
            uint64_t args;             /* the argument block's device address; CPU: host pointer */
            uint32_t grid[3], block[3]; /* indirect: the maximum, with HCQ_GRID_INDIRECT */
            hcq_program *program;
            uint64_t grid_at;          /* indirect: where it is; see caps.indirect */
        } exec;
        struct { uint64_t dst, src, size; } copy; /* write, too: src is where its bytes are */
        struct { uint64_t dst, src, size; void *to, *from; } carry; /* core */
        struct { uint64_t dst, value, size; } fill;
        struct { void *signal; uint64_t dst; uint8_t shares[16]; } stamp; /* dst: see stamp_ns */
        struct { hcq_host_fn fn; void *user; void *marks; uint32_t most[3]; } host; /* core, too */
        struct { const hcq_custom_type *type; hcq_custom_fn encode_fn; /* of this backend */
                 const void *payload; } custom;
        struct { void *signal; uint64_t value; void *device; void *slot; } sync; /* core */
        struct { void *none; uint32_t slice, place; uint64_t from; } relative;   /* core */
        uint64_t words[7];
    } u;
} hcq_packet;

/* One version of a recording for one device. */
typedef struct hcq_recording {
    const hcq_packet *packets;
    uint32_t count;
    hcq_queue_kind lanes;              /* it runs on: HCQ_COMPUTE or HCQ_COPY */
    const char *label;                 /* of the queue, "" if none */
    void *encoded;                     /* hcq_backend.encode's result or NULL */
    int bound;                         /* it will run again and again: worth encoding */
    const uint32_t *edge_first;        /* during encode, of a graph, with caps.edges: packet i */
    const uint32_t *edges;             /* follows packets edges[edge_first[i]] up to, not with, */
} hcq_recording;                       /* [edge_first[i + 1]]; NULL: each the one before */

/* A lane, made by the core. */
typedef struct hcq_lane {
    hcq_device *device;
    hcq_queue_kind kind;               /* HCQ_COMPUTE or HCQ_COPY */
    uint32_t index;                    /* among its kind, or among the imported ones */
    int imported;                      /* follows work that others do, see hcq_backend_post */
    int hurried;                       /* completed may answer what it knows without asking */
    void *self;                        /* the backend's device; who wraps another stores that's */
    void *native;                      /* the backend's own, set by lane_open */
} hcq_lane;

/* `lane`'s counter number `counter` (0 or 1) at `value` or above. */
typedef struct hcq_lane_point {
    hcq_lane *lane;
    uint64_t value;
    uint64_t epoch;                    /* the same moment in the core's unlimited count */
    uint32_t counter;
    uint32_t order_only;               /* of a wait: a failure does not matter */
} hcq_lane_point;

typedef struct hcq_batch {
    const hcq_recording *recording;    /* NULL: no packets; valid until done */
    uint32_t first, count;             /* packets of the recording */
    const hcq_lane_point *waits;       /* before the first packet; copy what you keep */
    uint32_t wait_count;
    hcq_lane_point done;               /* raise when all packets are done */
    hcq_job *job;                      /* for hcq_backend_job_*, valid until done */
    uint64_t posted;                   /* of an imported lane, see hcq_backend_post */
    void *prepared;                    /* for give, by submit */
    hcq_result result;                 /* for give: if not HCQ_OK, only raise `done` */
} hcq_batch;

typedef struct hcq_memory {
    uint64_t address;                  /* device address */
    void *host;                        /* host pointer or NULL */
    uint64_t size;                     /* as asked for; the core's */
    void *native;                      /* the backend's own */
    uint32_t read_only;                /* imported: the device may only read it */
} hcq_memory;

/* What `open` reports. */
typedef struct hcq_backend_caps {
    char name[96];                     /* of the device */
    uint32_t compute_lanes, copy_lanes; /* what the core shall make; copy may be 0 */
    uint32_t imported_lanes;           /* for hcq_backend_post */
    int host_times;                    /* timestamps: when the host noticed, no PROFILING */
    int copy_shared;                   /* copies have no hardware: graphs' go to compute lanes */
    int edges;                         /* encode takes graphs'; those of one run use one lane */
    uint64_t memory_bytes;             /* 0 = unknown */
    uint64_t counter_limit;            /* highest counter value, 0 = 2^63-1 */
    uint32_t features;                 /* HCQ_FEATURE_* */
    int runs_host;                     /* batches have HOST packets, too; else: service thread */
    int indirect;                      /* exec packets have `grid_at`, too; else: patch */
    int unlocked;                      /* alloc, dealloc, import, program_create, exec_check,
                                          encode, encode_free: UNLOCKED, several at once */
} hcq_backend_caps;

/* What tests of backends force; in open's description there is always one. */
typedef struct hcq_device_test {
    int no_copy_lane;                  /* copy queues run on compute lanes */
    int no_native_wait;                /* work that waits for other devices is held instead */
    uint64_t counter_limit;            /* a smaller one than caps.counter_limit */
} hcq_device_test;

typedef struct hcq_backend {
    /* Factory: what a registry shows, constant. */
    uint32_t version;                  /* the HCQ_BACKEND_VERSION it is written for: a number */
    const char *name;                  /* "CPU": upper case, no colon, up to 31 characters */
    const char *full_name;

    /* Driver: the library and what it found; create and destroy are optional
       (`driver` is NULL). devices writes up to `capacity` infos, all zero
       before, and returns how many there are. why_none, optional: if there are
       none, a constant. UNLOCKED. */
    hcq_result (*driver_create)(const hcq_memory_hooks *memory, void **driver);
    void (*driver_destroy)(const hcq_memory_hooks *memory, void *driver);
    uint32_t (*devices)(void *driver, hcq_device_info *infos, uint32_t capacity);
    const char *(*why_none)(void *driver);

    /* Device. `device` is for the helpers, which work at once; `desc` has every
       default but what a backend chooses. close comes after all lane_close,
       that after its batches. UNLOCKED; but query, which is optional. */
    hcq_result (*open)(void *driver, hcq_device *device, uint32_t ordinal,
                       const hcq_device_desc *desc, hcq_backend_caps *caps, void **self);
    void (*close)(void *self);
    hcq_result (*lane_open)(void *self, hcq_lane *lane);
    void (*lane_close)(void *self, hcq_lane *lane);
    hcq_result (*query)(void *self, uint32_t key, uint64_t *value);

    /* Memory, 64-byte aligned; `flags`: HCQ_HOST_VISIBLE, maybe with
       _HOST_WRITES (never where all memory is the host's), or HCQ_ZEROED where
       memory.host will be NULL. The rest is optional. map: where this device
       sees another one's memory, once, or an error, maybe again; `memory` NULL:
       can all be mapped? unmap, once for each that was: it is about to go.
       Several memories may be the same bytes of the host's. */
    hcq_result (*alloc)(void *self, uint64_t size, uint32_t flags, hcq_memory *memory);
    void (*dealloc)(void *self, hcq_memory *memory);
    hcq_result (*import)(void *self, void *ptr, uint64_t size, hcq_memory *memory);
    hcq_result (*map)(void *self, const struct hcq_backend *owner_backend, void *owner_self,
                      const hcq_memory *memory, uint64_t *address);
    void (*unmap)(void *self, const struct hcq_backend *owner_backend, void *owner_self,
                  const hcq_memory *memory);

    /* Programs. `code` goes into exec packets. Equal code lies at one address
       while there are programs of it. exec_check, optional: can it run with
       blocks of this size? Logs why not. statistics is optional. */
    hcq_result (*program_create)(void *self, const hcq_program_desc *desc,
                                 const hcq_program_info *info, void **code);
    void (*program_destroy)(void *self, void *code);
    hcq_result (*exec_check)(void *self, void *code, const uint32_t block[3]);
    void (*statistics)(void *self, void *code, char *text, size_t size);

    /* Versions, optional together: encode once; patch packet `index` after the
       core changed it, never while the version runs; encode_free once for each
       encode that left `encoded` not NULL. */
    hcq_result (*encode)(void *self, hcq_recording *recording);
    hcq_result (*patch)(void *self, hcq_recording *recording, uint32_t index);
    void (*encode_free)(void *self, hcq_recording *recording);

    /* Work. submit: enqueue behind the lane's earlier batches, which this one
       sees complete; do not block. HCQ_NOT_READY = accepted, and call flush
       (UNLOCKED, any thread) once after this group of submits; or, with `give`:
       keep the batch. The core gives it in the order of the submits, UNLOCKED,
       one thread at a time for a device, so a native wait always finds its
       raise given. give takes the first of `count`, returns how many (0: no more
       now, try soon), stops behind one that it failed, whose end it raises, too. */
    hcq_result (*submit)(void *self, hcq_lane *lane, hcq_batch *batch);
    void (*flush)(void *self);         /* one of these two, or none */
    uint32_t (*give)(void *self, const hcq_batch *batches, uint32_t count);

    /* completed: the counter's value now. wait (UNLOCKED): HCQ_OK, HCQ_TIMEOUT
       or an error; `serves`: by the service thread, whose wait, or next one,
       kick (optional, UNLOCKED, any thread) ends early. counter_reset: back to
       0; nothing uses it. lose (optional, UNLOCKED, nothing is being given),
       after hcq_backend_lost: nothing may run any more when it returns. */
    uint64_t (*completed)(void *self, hcq_lane *lane, uint32_t counter);
    hcq_result (*wait)(void *self, hcq_lane *lane, uint32_t counter, uint64_t value,
                       uint64_t timeout_ns, int serves);
    void (*kick)(void *self);
    void (*counter_reset)(void *self, hcq_lane *lane, uint32_t counter);
    void (*lose)(void *self);

    /* Optional. can_wait: can batches of this device wait for the counters of a
       lane of another one, maybe of another backend? watch, with threads of
       one's own: hcq_backend_notify(lane) soon after each batch of `lane`,
       while `on`; else the service thread looks. clock (UNLOCKED): both now,
       the device's as in timestamps; an error: there is none. stamp_ns: what a
       TIMESTAMP stored, 8 bytes at once, as nanoseconds, else it is that. */
    int (*can_wait)(void *self, const struct hcq_backend *owner_backend, const hcq_lane *other);
    void (*watch)(void *self, hcq_lane *lane, int on);
    hcq_result (*clock)(void *self, hcq_clock *clock);
    uint64_t (*stamp_ns)(void *self, const hcq_lane *lane, uint64_t stored);
} hcq_backend;

/* The backend that a registry has under a name, for one that wraps it, as
   examples/backend.c does; NULL = none. UNLOCKED. */
HCQ_API const hcq_backend *hcq_registry_find(hcq_registry *registry, const char *name);

/* Memory by the user's hooks, NULL = out of memory; a line for the user's
   logger, `device` NULL: none is known. Any lock state. */
HCQ_API void *hcq_backend_alloc(hcq_device *device, size_t size, size_t align);
HCQ_API void hcq_backend_free(hcq_device *device, void *ptr, size_t size);
HCQ_API void hcq_backend_log(hcq_device *device, hcq_result result, const char *format, ...)
    HCQI_PRINTF(3, 4);

/* From `begins` 1 to 0, around a function of the user's that the backend calls,
   what would block answers HCQ_ERROR_WOULD_BLOCK; for good on a thread of the
   backend's that runs kernels or host commands. May be nested. Lock-free. */
HCQ_API void hcq_backend_callback(int begins);
/* After `watch`: something completed on the lane. UNLOCKED, any thread. */
HCQ_API void hcq_backend_notify(hcq_lane *lane);

/* HCQ_OK, or why the job failed: its packets must then not run, and every batch
   of it still to complete is reported with hcq_backend_job_fail. Stays HCQ_OK
   until a batch of the same lane was reported so. Lock-free. */
HCQ_API hcq_result hcq_backend_job_result(const hcq_job *job);
/* Fails the batch that ends at `done`, and what follows in its job, before the
   counter is raised. The command or the native call that did it, if there is
   one, is kept as the device's first error, and logged; that is all with `done`
   NULL, for who lost the device. Any lock state; with it no job ends. */
HCQ_API void hcq_backend_job_fail(hcq_job *job, const hcq_lane_point *done, hcq_result result,
                                  const hcq_packet *packet, const char *native,
                                  int64_t native_code);
/* The device is lost: nothing more is given, everything pending ends with
   `result`, and versions, memory and programs may be freed, once this call into
   hcq ends (UNLOCKED: at once). The first counts, `native` stays. Any lock state. */
HCQ_API void hcq_backend_lost(hcq_device *device, hcq_result result, const char *native,
                              int64_t native_code);
/* The result of a reached wait: HCQ_OK, or the failure of the batch that raised
   it. Lock-free while nothing ever failed on that lane. UNLOCKED. */
HCQ_API hcq_result hcq_backend_wait_result(const hcq_lane_point *wait);
/* The lane's epochs up to this one are over, as the core saw. Lock-free. */
HCQ_API uint64_t hcq_backend_done(const hcq_lane *lane);
/* A program's device, NULL if it is none, and its code there. UNLOCKED. */
HCQ_API void *hcq_backend_code(const hcq_program *program, hcq_device **device);

/* Takes (1) or gives back (0) the core's lock, in any state, for a few stores
   of what an UNLOCKED function changes and others look at. */
HCQ_API void hcq_backend_lock(int locked);
/* Takes the core's lock for a function that a backend adds, and gives its
   device; NULL, and why: closed, or of another backend (HCQ_ERROR_UNSUPPORTED).
   leave gives the lock back, and `result`. UNLOCKED. */
HCQ_API void *hcq_backend_enter(hcq_device *device, const hcq_backend *backend, hcq_result *why);
HCQI_INLINE hcq_result hcq_backend_leave(hcq_result result) {
    hcq_backend_lock(0); return result;
}
/* With the lock. Where a point will be reached; `lane` NULL: it is. NOT_READY:
   not handed over, HCQ_ERROR_UNSUPPORTED: not on one lane of `device`. */
HCQ_API hcq_result hcq_backend_point(hcq_device *device, hcq_point point, hcq_lane_point *found);
/* With the lock. HCQ_OK, or why `buffer` is not a living one of its device. */
HCQ_API hcq_result hcq_backend_buffer(const hcq_buffer *buffer);
/* With the lock. Gives work of others, handed over elsewhere, a point: an empty
   batch of an imported lane with hcq_batch.posted = `value`, complete when the
   backend says that its counter is there. */
HCQ_API hcq_result hcq_backend_post(hcq_device *device, uint32_t lane, uint64_t value,
                                    hcq_point *point);
/* In locked functions only: a flush at the end of this call into hcq. */
HCQ_API void hcq_backend_flush_soon(hcq_device *device);

/* The system. hcq_sys_wait sleeps while *word == expected, may return early;
   HCQ_TIMEOUT after timeout_ns. */
HCQ_API hcq_result hcq_sys_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns);
HCQ_API void hcq_sys_wake(uint32_t *word, int all);
HCQ_API void hcq_sys_yield(void);         /* lets another thread have this CPU */
HCQ_API uint32_t hcq_sys_cpu_count(void); /* that this process may use */
typedef struct hcq_sys_thread { void *handle; void (*run_fn)(void *); void *user; char name[16]; }
    hcq_sys_thread;
HCQ_API hcq_result hcq_sys_thread_start(hcq_sys_thread *thread); /* fill run_fn, user, name */
HCQ_API void hcq_sys_thread_join(hcq_sys_thread *thread);
HCQ_API int hcq_sys_thread_pin(uint32_t cpu); /* the caller, to the cpu-th usable one; 1 = done */
HCQ_API void *hcq_sys_library_open(const char *path);
HCQ_API void *hcq_sys_library_symbol(void *library, const char *name);
HCQ_API void hcq_sys_library_close(void *library);

#ifdef __cplusplus
}
#endif
#endif /* HCQ_H */

/* ========================================================================== */
/* ---- implementation ----------------------------------- >>implementation - */
/* The life of a submission. Commands are packets in a queue (>>recording). For a device a queue
   has versions, copies that its backend may encode (>>versions): submitting chooses, builds or
   patches one that has the submission's values, and makes a job of it, with the next number of
   the device's timeline, on a lane, and with a promise for each raise (>>submit); of several
   queues, or slices of a graph's plan (>>planning, >>launching), a job each and one more that
   follows them. A queue as before that neither waits nor raises, behind nothing held, goes at
   once, unchecked.

   A job is HELD until its last segment is handed over. The first of its lane, and any that is
   unordered, looks at the waits of its next segment (>>jobs). Those in its way hang in the heaps
   of their signals, by value, or at the job that they follow. Whatever changes a signal or a job
   wakes those it concerns: they join the ready list, and look again in hcqi_leave at the latest.
   Not in its way is what is reached, or will be by work that was handed over and that the
   backend can wait for. It may still lack a version or room in a counter (hcqi_line_kind).

   Then the segment is a batch, with the next epoch of the lane: the backend takes it (submit),
   to run it at once, or when it is flushed or given (>>posting) once the lock is free (>>service).
   What the batch raises is pending for that epoch. With its last segment the job is HANDED over;
   a host command for the service thread makes it DUE, then that thread CALLS it (>>serving).

   Reaping a lane (hcqi_reap) asks how far it is. What is pending up to there lands: signals rise
   (>>raising) and wake who waits. Jobs up to there are over. A wait that failed, but for order
   alone, a refusal or a cancel ends a job before: what it has left to raise breaks, as does what
   is pending from the first of its batches on that failed while it ran (hcq_backend_job_fail). */

#if defined(HCQ_IMPLEMENTATION) && !defined(HCQI_IMPLEMENTED)
#define HCQI_IMPLEMENTED

/* ---- atomics ------------------------------------------------- >>atomics - */
/* Stores release, the rest is sequentially consistent. "Store, then look at the other side"
   (Dekker) is swap, then load: no fences, which ThreadSanitizer does not know. */

#if defined(__GNUC__) || defined(__clang__)

#define HCQI_ATOMICS(word, bits)                                                   \
    static HCQI_UNUSED word hcqi_atomic_load##bits(const word *p) {                \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                               \
    }                                                                              \
    static HCQI_UNUSED void hcqi_atomic_store##bits(word *p, word v) {             \
        __atomic_store_n(p, v, __ATOMIC_RELEASE);                                  \
    }                                                                              \
    static HCQI_UNUSED word hcqi_atomic_swap##bits(word *p, word v) {              \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                        \
    }                                                                              \
    static HCQI_UNUSED word hcqi_atomic_add##bits(word *p, word v) {               \
        return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); /* the old value */     \
    }
HCQI_ATOMICS(uint32_t, 32)
HCQI_ATOMICS(uint64_t, 64)

static HCQI_UNUSED int hcqi_atomic_cas32(uint32_t *p, uint32_t expected, uint32_t v) {
    return __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static HCQI_UNUSED void hcqi_atomic_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ __volatile__("pause" ::: "memory");
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#else /* MSVC */
#include <intrin.h>

/* Aligned words are read and written in one piece; x64 keeps the order of loads, and of stores. */
#ifdef _M_ARM64
#define HCQI_ATOMIC_FENCE() __dmb(_ARM64_BARRIER_ISH)
#define HCQI_ATOMIC_YIELD() __yield()
#else
#define HCQI_ATOMIC_FENCE() _ReadWriteBarrier()
#define HCQI_ATOMIC_YIELD() _mm_pause()
#endif
#define HCQI_ATOMICS(word, bits, theirs, suffix)                                   \
    static word hcqi_atomic_load##bits(const word *p) {                            \
        word v = *(const volatile word *)p;                                        \
        HCQI_ATOMIC_FENCE();                                                       \
        return v;                                                                  \
    }                                                                              \
    static void hcqi_atomic_store##bits(word *p, word v) {                         \
        HCQI_ATOMIC_FENCE();                                                       \
        *(volatile word *)p = v;                                                   \
    }                                                                              \
    static word hcqi_atomic_swap##bits(word *p, word v) {                          \
        return (word)_InterlockedExchange##suffix((volatile theirs *)p, (theirs)v);\
    }                                                                              \
    static word hcqi_atomic_add##bits(word *p, word v) {                           \
        return (word)_InterlockedExchangeAdd##suffix((volatile theirs *)p, (theirs)v);\
    }
HCQI_ATOMICS(uint32_t, 32, long, )
HCQI_ATOMICS(uint64_t, 64, __int64, 64)

static int hcqi_atomic_cas32(uint32_t *p, uint32_t expected, uint32_t v) {
    return (uint32_t)_InterlockedCompareExchange((volatile long *)p, (long)v, (long)expected) ==
           expected;
}
static void hcqi_atomic_pause(void) { HCQI_ATOMIC_YIELD(); }

#endif

/* ========================================================================== */
/* ---- options and system headers ------------------------------ >>headers - */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HCQ_ASSERT
#include <assert.h>
#define HCQ_ASSERT(x) assert(x)
#endif

#ifndef HCQ_VALIDATE
#ifdef NDEBUG
#define HCQ_VALIDATE 0
#else
#define HCQ_VALIDATE 1
#endif
#endif

#ifdef __cplusplus
#define HCQI_CAST(type, x) static_cast<type>(x)
#else
#define HCQI_CAST(type, x) ((type)(x))
#endif

/* Ends the calling function with what `call` refused. */
#define HCQI_PASS(call)                                                            \
    do {                                                                           \
        hcq_result hcqi_passed = (call);                                           \
        if (hcqi_passed != HCQ_OK) { return hcqi_passed; }                         \
    } while (0)

/* On the way of every submission, and called from two places. */
#if defined(__GNUC__) || defined(__clang__)
#define HCQI_HOT inline __attribute__((always_inline))
#define HCQI_CALLED HCQI_UNUSED __attribute__((noinline))
#else
#define HCQI_HOT
#define HCQI_CALLED
#endif

/* Off a submission's way, a function or the rooms between these two: compiled faster and
   smaller, without what takes long and is for speed. */
#if defined(__GNUC__) && __GNUC__ >= 7 && !defined(__clang__) && defined(__OPTIMIZE__) && \
    !defined(__OPTIMIZE_SIZE__)
#define HCQI_COLDLY                                                                \
    "Os", "no-inline-functions", "no-expensive-optimizations", "no-gcse", "no-tree-vrp", \
    "no-tree-pre", "no-code-hoisting", "no-tree-tail-merge", "no-thread-jumps",    \
    "no-cse-follow-jumps", "no-rerun-cse-after-loop", "no-schedule-insns2"
#define HCQI_COLD __attribute__((optimize(HCQI_COLDLY)))
#define HCQI_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define HCQI_PRAGMA_OF(...) HCQI_PRAGMA(__VA_ARGS__) /* as these are replaced */
#define HCQI_COLD_BEGIN                                                            \
    HCQI_PRAGMA(GCC push_options) HCQI_PRAGMA_OF(GCC optimize(HCQI_COLDLY))
#define HCQI_COLD_END HCQI_PRAGMA(GCC pop_options)
#else
#define HCQI_COLD
#define HCQI_COLD_BEGIN
#define HCQI_COLD_END
#endif

#if defined(HCQ_NO_THREADS) && (defined(HCQ_VULKAN) || defined(HCQ_CUDA))
#error "hcq: with HCQ_NO_THREADS the CPU is the only backend"
#endif
#if defined(HCQ_NO_THREADS) && !defined(_WIN32)
#define HCQI_THREAD_LOCAL
#elif defined(_MSC_VER)
#define HCQI_THREAD_LOCAL __declspec(thread)
#else
#define HCQI_THREAD_LOCAL __thread
#endif

#define HCQI_MAX_DEVICES 64
#define HCQI_MAX_BACKENDS 8
#define HCQI_SLICE_NS 500000           /* a first native wait that others may end, too */
#define HCQI_SLICE_MAX_NS 16000000
#define HCQI_FAILURES 64               /* of a lane: then it looks what may be forgotten */
#define HCQI_PROMISES 16384            /* buckets; neighbouring values have neighbouring ones */
#define HCQI_LOOK_EACH 8               /* submissions: asking a counter costs, too */
#define HCQI_LOOKS 100000              /* at held submissions, to explain: it has the lock */
#define HCQI_MAX_LANES 16              /* of one device */
#define HCQI_REPORT_STEP 256           /* events copied before the lock is let go */
#define HCQI_VALUE_WORDS (1 + HCQ_MAX_VALUES) /* of a list */
#define HCQI_VALUE_POOLS 9
#define HCQI_BATCH_WAITS 16            /* native waits of one batch */
#define HCQI_MAX_VALUE ((uint64_t)INT64_MAX)

/* ========================================================================== */
/* ---- the core's own types --------------------------------------- >>core - */
/* One lock guards everything below, for short, bounded work, never while user code or a native
   wait runs. Words that engines read without it are marked "atomic". */

typedef struct hcqi_signal hcqi_signal;
typedef struct hcqi_waiter hcqi_waiter;
typedef struct hcqi_producer hcqi_producer;
typedef struct hcqi_notice hcqi_notice;
typedef struct hcqi_version hcqi_version;
typedef struct hcqi_lane hcqi_lane;
typedef struct hcqi_allocation hcqi_allocation;
typedef struct hcqi_launch hcqi_launch;
typedef struct hcqi_graph hcqi_graph;
typedef struct hcqi_profile hcqi_profile;
typedef struct hcqi_past hcqi_past;    /* hcq_check.h's: */
typedef struct hcqi_chain hcqi_chain;
typedef struct hcqi_releases hcqi_releases;
typedef struct hcqi_shadow hcqi_shadow;
typedef struct hcqi_ends hcqi_ends;
struct hcqi_submit;
struct hcqi_resolve;

typedef struct hcqi_pool {
    hcq_device *dev;
    struct hcqi_chunk *open, *full;    /* chunks with room, without */
    uint32_t item, per_chunk;
    uint32_t chunks, keep;
    uint64_t available;                /* free objects in all chunks */
} hcqi_pool;

typedef enum hcqi_home {
    HCQI_HOME_NONE,
    HCQI_HOME_SIGNAL,                  /* hcqi_signal.reach if `watch`, else .held */
    HCQI_HOME_FOLLOW                   /* hcq_job.followers of the awaited job */
} hcqi_home;

/* A job's wait, a notification's, or a host thread's, in the signal's pairing heap by value. */
struct hcqi_waiter {
    hcqi_waiter *child, *next, *prev;
    hcqi_signal *signal;
    uint64_t value;
    hcq_job *job;                      /* NULL: an hcqi_notice's or hcqi_sleeper's */
    hcqi_waiter *list;                 /* next of the same job; of a sleeper: its first */
    uint32_t segment;                  /* of the job, which it holds there */
    uint8_t home;
    uint8_t watch;                     /* until it is reached: counted in hcqi_core.watchers */
    uint8_t order;                     /* a failure does not matter */
};

/* A notification: waits like a job, then runs a function instead of a batch. */
struct hcqi_notice {
    hcqi_waiter wait;                  /* first */
    uint64_t id;
    hcqi_notice *next;                 /* in hcqi_core.noticed, .due or .called: has no home */
    hcq_notify_fn fn;                  /* NULL: was cancelled */
    void *user;
    hcq_result result;
};

/* What handles name: device slot + 1 (8 bits), index (20), serial (36). A place counts
   its serials on, also from one device of a slot to the next, and is not used any more
   after the last: a stale handle finds nothing. */
typedef struct hcqi_slots {
    struct hcqi_slot *slots;
    uint32_t capacity, used, free_head; /* index + 1, 0 = none */
    uint64_t first;                    /* the serial at which places begin */
} hcqi_slots;

/* A handed-over signal or timestamp: `signal` gets `value` at lane's epoch. */
struct hcqi_producer {
    hcqi_producer *next, *prev;        /* hcqi_signal.pending, by value */
    hcqi_producer *list;               /* of the job while reserved, then of the lane */
    hcqi_signal *signal;
    uint64_t value;
    uint64_t epoch;
    hcqi_producer *bucket;             /* next in its one of hcqi_core.promises */
    hcq_job *job;                      /* outlives its landing */
    const uint64_t *slot;              /* timestamp: where the device stores it */
    uint32_t segment;                  /* of the job, with which it is handed over */
    uint8_t early;                     /* the signal has it ahead of its lane's turn: not pending */
    uint8_t promised;                  /* is in hcqi_core.promises */
};

/* Where a command is: its number in a launch, or its epoch in a lane. */
typedef struct hcqi_site { uint64_t place, at; } hcqi_site;
#define HCQI_IN_LAUNCH ((uint64_t)1 << 63) /* set in the place: `at` is a command of a launch, */
#define HCQI_IN_EPOCH ((uint64_t)1 << 62)  /* ... this, too: of what a lane was handed; */
#define HCQI_RACE ((uint64_t)1 << 61)      /* in that of a flow: of hcq_check.h's */

typedef enum hcqi_signal_kind { HCQI_USER, HCQI_TIMELINE, HCQI_EXACT } hcqi_signal_kind;

struct hcqi_signal {
    uint64_t id;
    hcq_device *dev;                   /* kept alive by one of its refs */
    hcqi_signal_kind kind;
    uint64_t value;
    uint64_t timestamp;
    hcq_result failure;
    uint64_t failed_from;              /* with `failure`: values from here on failed */
    struct hcqi_reason *reason;        /* for `failure`, or NULL */
    uint32_t refs;                     /* the handle, recordings, waiters, producers */
    uint32_t handles;                  /* the users' references; 0: it is destroyed */
    char label[32];
    uint32_t waits;                    /* of pending submissions */
    uint32_t promised;                 /* raises and timestamps by pending submissions ... */
    uint64_t promised_top;             /* ... and the highest of them, or above it */
    hcqi_producer *pending_head, *pending_tail; /* handed over, by value */
    uint32_t stamps;                   /* handed-over timestamps */
    hcqi_site source;                  /* who raised it last, for the profile; at 0: the host */
    hcqi_waiter *held, *reach;         /* heaps: until handed over, until reached */
    uint64_t check_mark, check_value;  /* scratch of hcqi_raise_check */
    hcqi_releases *releases;           /* hcq_check.h: who raised which value */
};

/* Where a job waits in line by `ready_next`, the first come first: one at a time. */
typedef enum hcqi_line_kind {
    HCQI_LINE_NONE,
    HCQI_LINE_READY,                   /* hcqi_core.ready */
    HCQI_LINE_STALLED,                 /* hcqi_lane.stall */
    HCQI_LINE_STARVED,                 /* hcq_queue.starved */
    HCQI_LINE_UNBUILT                  /* hcqi_core.unbuilt */
} hcqi_line_kind;

typedef struct hcqi_line { hcq_job *head, *tail; } hcqi_line;

/* Failed numbers or epochs, exact: what is in no range and above `forgotten` succeeded. */
typedef struct hcqi_failures {
    struct hcqi_failure *ranges;       /* by number, from `first` on */
    uint32_t capacity, first, count;
    int whole;                         /* a lane's: .failure_ranges is not for them */
    uint64_t forgotten;                /* up to here nobody knows any more */
} hcqi_failures;

struct hcqi_lane {
    hcq_lane base;                     /* first: what backends see */
    hcq_device *dev;
    uint32_t any_failed;               /* atomic: failures is not empty */
    uint8_t pad[128];                  /* what engines read stays out of the way */
    hcqi_line lists[2];                /* not wholly handed over; [1]: HCQ_UNORDERED */
    hcq_job *run_head, *run_tail;      /* handed over, by epoch */
    hcqi_producer *land_head, *land_tail; /* handed over, by epoch */
    uint64_t epoch;                    /* last handed over */
    uint64_t done;                     /* atomic: last known to be complete */
    uint64_t noticed, noticed_ns;      /* atomic: epoch that a wait found over, and when */
    uint64_t timed;                    /* profile: end of its last event */
    uint64_t base_epoch[2];            /* of each counter: epoch = base + value */
    uint64_t limit;                    /* of a counter's value */
    uint64_t grace;                    /* grace period that must end before a swap */
    uint64_t grace_target;             /* epoch awaited by the running period */
    uint64_t posted;                   /* imported: of the batch being submitted */
    uint64_t foreign[HCQI_MAX_DEVICES]; /* last epoch that needs the device, by slot */
    uint32_t active;                   /* counter */
    uint32_t shadow_used;
    uint32_t host_users[2];            /* host threads waiting on a counter */
    uint32_t running, held;            /* jobs */
    hcqi_line stall;                   /* jobs that wait for a counter swap */
    hcqi_failures failures;            /* of epochs */
    uint64_t forget_to, forget_grace;  /* those up to there, once that period is over */
    hcqi_chain *chain;                 /* hcq_check.h: its order */
};

typedef enum hcqi_job_state {
    HCQI_JOB_NEW,                      /* in no list of its lane */
    HCQI_JOB_HELD,                     /* not wholly handed over */
    HCQI_JOB_DUE,                      /* likewise: its host command may begin ... */
    HCQI_JOB_CALLING,                  /* ... or runs */
    HCQI_JOB_HANDED                    /* wholly, or failed */
} hcqi_job_state;

/* A submission on its lane. Of several queues each is a job with a number, and so is its end. */
struct hcq_job {
    hcqi_lane *lane;
    uint64_t number;                   /* on the device's timeline */
    uint64_t submission;               /* number of its end, which the user knows */
    hcqi_version *version;             /* NULL: nothing but waits and signals */
    hcq_job *next, *prev;
    hcq_job *ready_next;
    hcqi_allocation *frees;            /* when it is handed over: hcq_free_after */
    hcqi_waiter *followers;            /* a heap, too: jobs that wait for exactly this one */
    hcqi_producer *producers;          /* reserved, in the order of the packets */
    uint64_t epoch;                    /* last handed over, 0 = none */
    uint64_t failed_epoch;             /* atomic: first that failed at run time, 0 = none */
    uint32_t segment;                  /* next to hand over */
    hcq_result result;                 /* decided by the core */
    uint32_t run_result;               /* atomic, hcq_result: met by an engine */
    uint8_t state, line;               /* hcqi_job_state, hcqi_line_kind */
    uint8_t unordered;
    uint8_t stuck;                     /* handed over in part, waits for others */
    uint8_t allocs;                    /* of hcq_alloc_after */
    uint8_t ends;                      /* several: after all of them, those that failed, too */
    hcqi_launch *launch;               /* of a graph */
    uint64_t *values;                  /* its own list, not the version's, or NULL */
    uint64_t due;                      /* of a host command: the epoch that it follows */
    uint64_t walked;                   /* by the hcqi_core.walks-th hcqi_job_walk */
    hcqi_past *began;                  /* hcq_check.h: what the host had seen at its submit, ... */
    hcqi_chain *chain;                 /* ... where it runs; NULL: not yet */
    hcqi_waiter *at;                   /* first of those for the next segment, or later */
    hcqi_waiter wait;                  /* the first: the submission's, then its segments' */
};

/* A run of packets that a backend gets as one batch: waits, work from `first` on, signals. */
typedef struct hcqi_segment {
    uint32_t first, works, signals;
    int host;                          /* one HOST packet, run by the service thread */
    uint64_t epoch;                    /* handed over last; for the profile */
} hcqi_segment;

/* What a version waits for or raises. */
typedef struct hcqi_sync_at { uint32_t packet, segment; } hcqi_sync_at;

/* A part of a command that gets its value from the submission. A submission's values are
   kept as a list of words: devices whose memory they name, by slot, then numbers and addresses
   in the order of hcq_queue.keys. */
typedef struct hcqi_patch {
    uint32_t command, next;            /* next: of the same command, + 1 */
    uint32_t at;                       /* first byte of it; of the block: HCQI_IN_BLOCK */
    uint16_t value;                    /* where in the list */
    uint8_t number, size;              /* size: bytes */
    uint64_t extra;                    /* a grid's maximum; added to a buffer's address */
} hcqi_patch;

#define HCQI_IN_BLOCK ((uint32_t)sizeof(hcq_packet))
#define HCQI_GRID_BYTES 12             /* of a grid in a buffer; the last of an argument block's */

/* One encoded copy of a recording for one device. */
struct hcqi_version {
    hcq_recording recording;           /* first: what backends see */
    hcqi_version *next, *prev;         /* hcq_queue.versions or .aside */
    hcq_queue *queue;
    hcq_device *dev;
    uint64_t generation;               /* of the recording it was made from */
    uint64_t applied;                  /* updates up to this one */
    uint64_t named_frees;              /* hcqi_core.named_frees when all it names lived */
    uint32_t uses, held;               /* pending submissions; not wholly handed over */
    uint32_t stuck;                    /* of those: hcq_job.stuck */
    uint32_t shapes;                   /* held ones with values of their own */
    int is_aside;                      /* in hcq_queue.aside */
    uint64_t foreign;                  /* devices whose memory it names, by slot, beside values */
    hcq_packet *packets;
    uint32_t count, capacity;
    hcqi_segment *segments;
    uint32_t segment_count, segment_capacity;
    hcqi_sync_at *syncs;               /* in the order of packets, waiters, producers */
    uint32_t sync_count, sync_capacity;
    uint32_t stamp_count;              /* timestamps */
    uint32_t wait_count;               /* with those for copies that others do */
    hcq_memory memory;                 /* arguments, payloads, timestamp slots */
    uint64_t slot_offset;
    uint64_t mark_offset;              /* timestamps of the profile */
    uint32_t marks;
    hcqi_patch *patches;               /* what was variable when recorded; graph: a slice's */
    uint32_t patch_count, patch_capacity;
    uint64_t *values;                  /* the list that is in the packets, if `has_values` */
    uint32_t value_count, value_capacity; /* without the word of the devices */
    int has_values;
    uint32_t slice;                    /* of the graph's plan; 0: there is none */
    uint32_t *places;                  /* packet of each command; HCQI_NONE: another slice's */
    uint32_t place_capacity;
    int profiled;                      /* timestamps lie between the commands */
    int labelled;                      /* profiled, and of the commands has ... */
    char (*labels)[32];                /* ... what they had: the recording may go on */
    uint32_t label_capacity;
    int single;                        /* these, or grids that are read, are of one run */
    int plain;                         /* takes no values, neither waits nor raises */
};

typedef struct hcqi_meta {             /* what a packet does not need to run. Zero at first: */
    uint64_t updated;                  /* by which update last, 0 = none */
    uint32_t newer, older;             /* + 1: updated next, and before it */
    uint64_t dev_serial;
    uint32_t stated, orders;           /* last hcq_queue.stated, hcqi_graph.orders of it + 1 */
    hcq_device *from;                  /* of a copy that no device can do alone: src's */
    uint32_t patches;                  /* last hcq_queue.patches of it + 1 */
    hcq_device *dev;                   /* where it runs; graph: NULL = see its accesses */
    uint32_t arena, arena_size;        /* argument block or payload */
    uint32_t name_first, name_count;   /* allocations */
    uint64_t reach[2];                 /* copy: bytes of the buffers given as dst and src */
    char label[32];
} hcqi_meta;

/* ---- graphs ---- */

#define HCQI_NONE UINT32_MAX
#define HCQI_RELATIVE 0x80             /* packet flag: the signal is the launch's own */
#define HCQI_SECOND 0x20               /* packet flag: of the second half, or its wait */
#define HCQI_FAR 0x10                  /* packet flag: a copy that others do, see >>carrying */
#define HCQI_SILENT 0x08               /* packet flag: the core's own, not in profiles */
#define HCQI_TAG 0xfa                  /* top byte of a placeholder's address */
#define HCQI_TAG_SHIFT 43              /* of its number; inputs, then empties */
#define HCQI_MAX_EMPTIES 4000
#define HCQI_MAX_SLICES 64
#define HCQI_WRITE_BYTES 65536         /* of one hcq_queue_write */
#define HCQI_COPY_BYTES 16384          /* smaller copies are not worth another lane */
#define HCQI_DIRECT_BYTES 65536        /* smaller eager copies are staged in any case */

/* hcq_queue_access. */
typedef struct hcqi_stated {
    uint32_t command, next;            /* next: of the same command, + 1 */
    uint32_t access;                   /* HCQI_READ, HCQI_WRITE */
    hcqi_allocation *a;                /* NULL: a placeholder */
    hcq_device *dev;
    uint64_t address, size;
} hcqi_stated;

enum { HCQI_READ = 1, HCQI_WRITE = 2 };

/* In a list of commands or calls: what one follows, or who read a range. */
typedef struct hcqi_link { uint32_t of, next; } hcqi_link;

/* What a placeholder stands for: an input (size 0: it was not declared), or an empty. */
typedef struct hcqi_input {
    hcq_device *dev;
    uint64_t serial, size;
    uint32_t value;                    /* of an input: its place in lists of values */
    uint32_t flags;                    /* of an empty ... */
    hcqi_allocation *a;                /* ... and NULL: it is not allocated yet */
} hcqi_input;

/* Of numbers of values, all below `end`. */
typedef struct hcqi_set { uint64_t words[HCQ_MAX_VALUES / 64]; uint32_t end; } hcqi_set;

/* Memory for what is made anew as a whole, from pieces, which stay for the next time. */
typedef struct hcqi_arena {
    hcq_memory_hooks hooks;
    const hcq_memory_hooks *from;      /* where pieces come from */
    struct hcqi_piece *pieces;
} hcqi_arena;

/* The last submission of a device before a block was freed, or that runs a launch's slice. */
typedef struct hcqi_last {
    hcq_device *dev;
    uint64_t serial;                   /* there may be another one in its place */
    uint64_t number;
    uint64_t base;                     /* where it sees the block, if it was mapped */
    int mapped;
} hcqi_last;

/* A copy over a bridge is two calls, named by the operand that the bridge takes. */
enum { HCQI_WHOLE, HCQI_OUT, HCQI_IN };

/* A command of a graph, or half of one, and where it runs. */
typedef struct hcqi_call {
    hcq_device *dev;
    uint32_t command;
    uint32_t half, bridge;             /* HCQI_WHOLE ...; in hcqi_graph.bridges */
    uint32_t lane;                     /* in dev->lanes */
    uint32_t slice;                    /* HCQI_NONE: it runs nowhere */
    uint32_t place;                    /* 1 + its position in the slice */
    uint32_t touch_first, touch_count;
    uint32_t edge_first, edge_count;   /* calls it follows, not reduced */
    uint32_t wait_first, wait_count;
    uint32_t signals, overlap;
    uint32_t patches;                  /* last hcqi_plan.patches of it + 1 */
    uint32_t mark;                     /* scratch: 1 + the last that follows it; its item */
} hcqi_call;

/* What one lane runs of a graph. */
typedef struct hcqi_slice {
    hcq_device *dev;
    uint32_t lane;                     /* in dev->lanes */
    uint32_t *calls;
    uint32_t count, syncs;             /* what lies between them, at most */
    uint32_t patch_first, patch_count; /* hcqi_plan.patches */
    hcqi_set inputs;
} hcqi_slice;

typedef struct hcqi_plan {
    uint64_t generation;               /* of the recording, as in versions; 0 = to be made anew */
    uint64_t serial;                   /* changes with each planning; for launches, schedules */
    uint64_t shape;                    /* hash: while it stays, so may versions */
    hcqi_arena arena;                  /* where all arrays are */
    hcqi_call *calls;                  /* those of a command, side by side, ... */
    uint32_t *firsts;                  /* ... begin here, with one more for the end */
    uint32_t call_count;
    uint32_t bridge_count;
    struct hcqi_base *bases;
    struct hcqi_touch *touches;
    uint32_t touch_count, touch_capacity;
    hcqi_link *readers;
    uint32_t reader_count, reader_capacity;
    uint32_t *edges;
    uint32_t edge_count, edge_capacity;
    uint32_t *clocks;                  /* scratch by call and slice */
    uint32_t *waits;                   /* calls */
    uint32_t wait_count;
    hcqi_patch *patches;
    uint32_t patch_count;
    hcqi_slice slices[HCQI_MAX_SLICES];
    uint32_t slice_count;
    hcqi_set *cross;                   /* [later * slice_count + earlier]: conflicts where these
                                          inputs are as before; `end` HCQI_NONE: always */
    struct {
        hcq_device *dev;
        uint64_t serial;
        uint64_t users;                /* slices elsewhere that touch its memory; home: all */
    } devices[HCQI_MAX_DEVICES];
    uint32_t device_count, home;       /* home: where the graph is submitted to */
    hcqi_set inputs, written, stored;  /* stored: by copies, fills and writes */
    uint8_t aligns[HCQ_MAX_VALUES];    /* of inputs: what fills and grids need */
} hcqi_plan;

/* Only hcq_graph_create names these rooms: a program that makes no graphs is without them. */
typedef struct hcqi_graph_calls {
    hcq_result (*run)(struct hcqi_submit *s); /* hcqi_submit_run for a graph */
    hcq_result (*bind)(hcq_queue *q, hcq_device *dev);
    void (*clear)(hcq_queue *q);
    void (*destroy)(hcq_queue *q);
    int (*waits)(const struct hcqi_submit *s, hcq_job *job, hcqi_waiter **tail);
    void (*release)(hcqi_launch *launch);
    uint32_t *(*edges)(const hcqi_version *v, size_t *bytes);
} hcqi_graph_calls;

struct hcqi_graph {
    const hcqi_graph_calls *calls;
    hcqi_link *orders;                 /* hcq_graph_edge; next: of the same command, + 1 */
    uint32_t order_count, order_capacity;
    hcqi_input inputs[HCQ_MAX_VALUES];
    uint32_t input_end;                /* those declared are below */
    hcqi_input *empties;
    uint32_t empty_count, empty_capacity;
    struct hcqi_bridge *bridges;
    uint32_t bridge_capacity;          /* zero behind those of the plan */
    uint64_t named_frees;              /* when last checked */
    hcqi_plan plan;
    hcqi_launch *newest, *idle;        /* launches in flight, and over, by `earlier` */
    uint32_t launch_count, flying;     /* in both; in flight */
    hcqi_past *past;                   /* of launches whose place another one took */
    struct hcqi_making *making;        /* made by the first launch */
};

/* One submission of a graph. Its signals are its own: launches in flight do not meet. */
struct hcqi_launch {
    hcqi_launch *earlier, *later;      /* submitted before and after it, in flight, too */
    hcq_queue *queue;
    uint32_t jobs;                     /* 0 = idle */
    uint32_t waits;                    /* that each of them needs at most */
    int full;                          /* follows everything before it on its devices */
    int cuts;                          /* follows all launches before it */
    int whole;                         /* scratch: the next launch follows all of it, ... */
    hcqi_set same;                     /* ... or has these inputs at the same place */
    uint64_t serial;
    uint64_t plan;                     /* its serial */
    hcqi_signal *signals[HCQI_MAX_SLICES]; /* place: the call is done */
    hcqi_last slices[HCQI_MAX_SLICES]; /* their jobs */
    uint32_t signal_count, slice_count;
    hcqi_past *past;                   /* what is over with it */
    struct hcqi_touch *inputs;         /* where they are */
    uint32_t input_capacity;
};

/* A command that ran, on the device's clock; one of the host's: on its own. */
typedef struct hcqi_event {
    uint64_t begin, end;
    uint64_t submission;
    uint64_t launch;                   /* 0 = of no graph */
    uint64_t bytes, epoch;
    uint64_t half;                     /* hcqi_half_number */
    uint16_t lane;                     /* in hcq_device.lanes, or behind them: the host */
    uint16_t kind;
    uint32_t name, queue;              /* hcqi_profile.names */
    uint32_t grid[3];
    uint8_t shares[16];
} hcqi_event;

typedef struct hcqi_flow { hcqi_site from, to; } hcqi_flow; /* a wait */

struct hcqi_profile {
    void (*collect)(const hcq_job *job); /* when it is over; by hcq_profile_start, as this: */
    void (*waits)(const struct hcqi_resolve *r); /* when its work was handed over */
    void (*host)(const hcq_device *dev, const hcqi_event *e, const char *name); /* which ends now */
    size_t size;                       /* with what the pointers point to */
    int on;
    hcqi_event *events;                /* rings */
    hcqi_flow *flows;
    uint32_t capacity;                 /* of each */
    uint64_t added, flowed;            /* ever */
    uint64_t first;                    /* submission that counts */
    char (*names)[32];                 /* a table by hash, then "" and "(others)" */
    uint32_t slots, names_left;        /* of the table; that find room */
    hcq_clock clock;                   /* the last reading */
    uint64_t clocked;                  /* when so many + 1 were added */
};

#define HCQI_MAGIC_QUEUE 0x48435131u
#define HCQI_MAGIC_PROGRAM 0x48435132u

struct hcq_queue {
    uint32_t magic;
    hcq_queue_kind kind;
    hcq_device *dev;
    hcq_queue *next, *prev;            /* of the device */
    uint64_t serial;                   /* no other one has it, ever */
    char label[32];
    hcq_result sticky;
    char error[128];                   /* what made it stick */
    hcq_packet *packets;
    hcqi_meta *metas;
    uint32_t count, packet_capacity, meta_capacity;
    uint8_t *arena;
    uint32_t arena_size, arena_capacity;
    void *outgrown;                    /* the one before, until the next command begins */
    uint32_t outgrown_size;
    hcqi_allocation **names;
    uint32_t name_count, name_capacity;
    hcqi_stated *stated;
    uint32_t stated_count, stated_capacity;
    hcqi_patch *patches;               /* variables */
    uint32_t patch_count, patch_capacity;
    hcq_result (*take)(const hcq_queue *q, hcq_device *dev, const hcq_submission *sub,
                       uint64_t *values); /* hcqi_values_take; NULL: no variables, ever */
    uint32_t value_count;
    uint16_t keys[HCQI_VALUE_WORDS];   /* of each value from 1 on: number * 2 + is it a buffer? */
    uint32_t stamps, reads, labels;    /* timestamps, grids from buffers; labels, ever */
    uint64_t generation;               /* of the list of commands */
    uint64_t updates;                  /* count */
    uint32_t newest;                   /* updated last, + 1; the others by hcqi_meta.older */
    hcqi_version *versions;            /* to choose from */
    hcqi_version *aside;               /* needed as they are by what is held */
    uint32_t version_count;            /* in both */
    hcqi_line starved;                 /* released, without a version */
    hcq_device *bound;
    hcqi_graph *graph;                 /* NULL: a plain queue */
    uint32_t pending;                  /* submissions */
    int destroyed;
    int changing;                      /* half appended or reset: not to be planned */
    int carries;                       /* for a job: that keeps what it names */
    hcq_result (*carry)(hcq_job *job, const hcq_packet *p); /* hcqi_carry; NULL: no copies */
};

typedef struct hcqi_code {
    hcq_device *dev;
    void *code;
    uint32_t fits[3];                  /* the last block that exec_check let pass */
} hcqi_code;

#define HCQI_BLOBS 64
enum { HCQI_PARTS = 6 };               /* of a program: codes, entries, library, symbol */

struct hcq_program {
    uint32_t magic;
    uint32_t refs;                     /* the user's, recordings', versions' */
    int destroyed;
    hcq_device *dev;
    hcq_program *next, *prev;
    hcq_program_desc desc;
    hcq_program_info info;
    hcqi_code codes[HCQI_MAX_DEVICES]; /* by slot, of devices that it ran on */
    const void *parts[HCQI_PARTS];     /* of blobs, what `desc` points at */
};

/* Doomed: it lives, and hcq_free_after was called. */
typedef enum hcqi_block_state { HCQI_LIVE, HCQI_DOOMED, HCQI_FREED, HCQI_TOMB } hcqi_block_state;

struct hcqi_allocation {
    hcq_memory memory;
    hcq_device *dev;
    uint64_t id;
    uint32_t flags;                    /* of hcq_alloc, or HCQI_IMPORTED */
    hcqi_block_state state;
    hcqi_allocation *twin;             /* of a bridge */
    uint32_t names;                    /* by recordings and pending frees */
    uint64_t number;                   /* as of the users, of its own device */
    hcqi_last *users;                  /* devices it is mapped to */
    uint32_t user_count, user_capacity;
    hcqi_allocation *next, *prev;      /* in a list of hcq_device.freed_head */
    hcqi_allocation *same_next, *same_prev; /* ring of freed blocks of this size and kind */
    hcqi_allocation *shelf_next;       /* of the first of a ring: another ring */
    hcqi_shadow *shadow;               /* hcq_check.h: who touched its bytes */
};

#define HCQI_IMPORTED 0x80000000u      /* no flag of hcq_alloc */
#define HCQI_SHELVES 64
#define HCQI_BREATH 128                /* steps before others get the lock */
#define HCQI_PASSED 16                 /* freed blocks that an alloc looks at */
#define HCQI_ZERO_BYTES 16384          /* more are cleared without the lock */

struct hcq_device {
    uint32_t refs;                     /* open, plus one for each signal, program, allocation */
    uint32_t pins, unpins;             /* uses without the lock: begun; atomic: ended */
    uint32_t encodes;                  /* of those that may use its memory, whoever frees it */
    uint32_t looks;                    /* at what is complete: not for each submission */
    uint32_t any_failed;               /* atomic: some submission failed, ever */
    uint32_t slot;                     /* in hcqi_core.devices */
    uint64_t serial;
    uint32_t forks;                    /* hcqi_core.forks when it was opened */
    uint32_t handles;                  /* the users' references */
    hcq_device *closed_next;           /* in hcqi_core.closed */
    hcq_driver *driver;
    const hcq_backend *backend;
    void *self;
    hcq_device_info info;
    hcq_device_desc desc;              /* defaults filled in */
    hcq_device_test test;
    hcq_memory_hooks hooks;
    hcq_backend_caps caps;
    char label[32];
    int closing;                       /* takes no more work */
    int close_runs;                    /* in some thread */
    uint64_t refused;                  /* the last submission the native API refused */
    hcq_result lost;
    hcqi_lane lanes[HCQI_MAX_LANES];   /* compute lanes first */
    uint32_t lane_count;
    hcqi_signal *timeline, *exact;
    hcqi_slots signals, notices;
    hcq_job **window;                  /* by number: the final job, NULL = done */
    uint64_t window_mask;
    uint64_t next_number, done_prefix, handed_prefix;
    uint32_t held, pending;
    hcqi_failures failures;            /* by number */
    hcqi_signal *eager_signal;         /* last eager call: later work waits for it */
    uint64_t eager_value;
    hcqi_pool jobs, waiters, producers, notice_pool;
    hcqi_pool values[HCQI_VALUE_POOLS]; /* of 2, 4, 8 ... words */
    hcq_queue *queues;
    hcq_program *programs;
    struct hcqi_blob *blobs[HCQI_BLOBS]; /* of programs */
    hcqi_allocation **table;           /* living, by address */
    uint32_t table_count, table_capacity;
    hcqi_allocation *freed_head[2], *freed_tail[2]; /* never used again; cached; oldest first */
    hcqi_allocation *shelves[HCQI_SHELVES]; /* rings of those that are cached */
    uint64_t allocated_bytes, freed_bytes;
    struct hcqi_stage *stages;         /* a ring of .staging_count */
    uint32_t stage_at;                 /* the one being filled */
    hcq_buffer pair[2];                /* what an eager call leaves for the next one: */
    hcq_queue *eager_queues[2];        /* by kind; zero: nothing yet, or a thread has it */
    hcq_error_info error;
    uint32_t lines_lost;               /* of the log, since that was last said */
    hcqi_profile *profile;             /* NULL: never started */
    hcqi_ends *ends;                   /* hcq_check.h: of submissions; NULL: none is checked */
    uint64_t swaps, packets_copied, packets_patched;
    hcq_sys_thread service;
    int service_started, service_stop; /* started: | 2 = it could not once, which was told */
    int stepped;                       /* no threads: hcqi_core.await_fn runs it */
    uint32_t service_begun;            /* atomic: somebody started it */
    uint32_t service_word;             /* atomic: bumped to wake it */
    uint32_t service_waits;            /* atomic: it is in the backend's wait */
    struct hcqi_posts *posts;          /* where submitting adds; NULL: no `give` */
    uint8_t pad[128];                  /* what the other side writes stays apart */
    struct hcqi_posts *posts_out;      /* where giving takes, */
    uint32_t posts_given;              /* behind so many */
    uint32_t posts_late;               /* the hardware took no more: the service thread tries */
    uint32_t giver;                    /* atomic: 1 = somebody gives, 2 = and looks again */
    uint64_t posts_spare;              /* atomic: hcqi_posts for later, one at most */
    uint32_t loss;                     /* atomic: 1 = found, 2 = told, with these: */
    hcq_result loss_result;
    const char *loss_native;
    int64_t loss_code;
};

/* A backend in a registry, oldest first. */
typedef struct hcqi_factory { const hcq_backend *backend; hcq_driver_info info; } hcqi_factory;

struct hcq_registry {
    hcq_memory_hooks hooks;
    hcqi_factory factories[HCQI_MAX_BACKENDS];
    uint32_t count;
};

/* A line for a logger, on its way; its device is pinned until it is told. */
typedef struct hcqi_message {
    hcq_device *dev;                   /* NULL: none that is open */
    hcq_log_fn fn;
    void *user;
    uint64_t thread;                   /* that tells it, when it lets go of the lock */
    int nested;                        /* a logger's own call wrote it */
    hcq_result result;
    char text[240];
} hcqi_message;

/* The default registry, and with it the one lock of all devices: signals pass
   between devices, so a lock per device would have to be taken in groups. */
static struct hcqi_core {
    hcq_registry registry;             /* what a child of fork keeps: this, ... */
    uint64_t serials[HCQI_MAX_DEVICES]; /* of handles: the highest in a device's slot */
    uint64_t serial;                   /* of devices, signals, allocations */
    uint32_t forks;                    /* ... up to here: between the first process and this */
    uint32_t lock;                     /* hcqi_word_lock */
    uint64_t owner;                    /* atomic: thread that holds it */
    hcq_device *devices[HCQI_MAX_DEVICES];
    uint32_t device_top;               /* slots in use are below this */
    hcq_device *closed;                /* that somebody still holds a reference to */
    hcqi_line ready;                   /* to look at what they wait for */
    hcqi_line unbuilt;                 /* released, need a version to be built */
    hcqi_notice *noticed_head, *noticed_tail; /* to look at their points again */
    hcqi_notice *due_head, *due_tail;  /* to be run without the lock */
    hcqi_notice *called;               /* copies, on their threads' stacks: they run now */
    uint64_t dirty;                    /* devices to flush, by slot */
    uint64_t kicks;                    /* devices whose service thread has to look */
    uint64_t threadless;               /* ... and could not start */
    hcqi_producer *promises[HCQI_PROMISES]; /* raises by pending submissions */
    struct hcqi_sleeper *awake;        /* to be woken when the lock is free */
    uint32_t changed;                  /* something that event_waiters may wait for */
    uint32_t event;                    /* atomic: bumped when changed */
    uint32_t event_waiters;
    uint32_t watchers;                 /* who needs completions to be noticed */
    uint32_t recheck;                  /* a watch began: look once at all lanes */
    uint64_t grace_started, grace_ended;
    uint64_t frees, named_frees;       /* of buffers; of those that recordings name */
    uint64_t check_mark;
    uint32_t looks;                    /* that explaining may still take */
    uint32_t checked;                  /* atomic: devices with HCQ_DEVICE_CHECK */
    uint64_t clock_ns;                 /* of devices without threads; 0: the system's */
    uint64_t stepper;                  /* the one thread that may use those; 0: there are none */
    hcq_result (*await_fn)(const uint32_t *word, uint32_t seen, uint64_t timeout_ns); /* and runs */
    uint64_t walks;
    uint32_t instances;                /* of Vulkan: whoever makes one has this lock */
    hcqi_message messages[32];
    uint32_t message_count;
} hcqi_core;

#ifdef HCQ_CPU
static const hcq_backend *hcqi_cpu_backend(void);
#else
#define hcqi_cpu_backend NULL
#endif
#ifdef HCQ_VULKAN
static const hcq_backend *hcqi_vk_backend(void);
#else
#define hcqi_vk_backend NULL
#endif
#ifdef HCQ_CUDA
static const hcq_backend *hcqi_cuda_backend(void);
static void hcqi_cuda_fork_child(void);
#else
#define hcqi_cuda_backend NULL
#endif

/* What hcq_check.h wants to know while a device is checked; _APART: without the lock. */
#ifdef HCQ_CHECK
struct hcqi_text;
static void hcqi_order_opening(hcq_device *dev);
static void hcqi_order_opened(hcq_device *dev);
static void hcqi_order_closed(hcq_device *dev);
static void hcqi_order_submitted(hcq_job *job);
static hcq_result hcqi_order_segment(hcq_job *job);
static void hcqi_order_called(hcq_job *job, int begins);
static void hcqi_order_failed(hcq_job *job);
static void hcqi_order_over(hcq_job *job);
static void hcqi_order_set(hcqi_signal *s, uint64_t value);
static void hcqi_order_forget(hcqi_signal *s);
static void hcqi_order_seen(hcqi_signal *s, uint64_t value, hcq_result result);
static void hcqi_order_read(hcqi_signal *s, uint64_t value);
static void hcqi_order_waited(const hcq_point *points, uint32_t count, hcq_wait_mode mode,
                              hcq_result result);
static void hcqi_order_copied(const hcq_buffer *b, uint64_t size, int writes, const char *what);
static void hcqi_order_alloc(hcqi_allocation *a, uint64_t number);
static void hcqi_order_freed(hcqi_allocation *a);
static void hcqi_order_launched(hcqi_graph *g, hcqi_launch *launch);
static void hcqi_order_ungraph(hcqi_graph *g);
static hcq_result hcqi_order_query(const hcq_device *dev, uint64_t *value);
static void hcqi_order_dump(struct hcqi_text *t, const hcq_device *dev);
static void *hcqi_order_watch(hcq_job *job, const hcq_packet *p);
static void hcqi_order_watched(hcq_job *job, const hcq_packet *p, void *watch);
#define HCQI_CHECKED (hcqi_core.checked != 0)
#define HCQI_ORDER(call) do { if (HCQI_CHECKED) { call; } } while (0)
#define HCQI_ORDER_APART(call)                                                     \
    do {                                                                           \
        if (hcqi_atomic_load32(&hcqi_core.checked) != 0) {                         \
            hcqi_enter();                                                          \
            HCQI_ORDER(call);                                                      \
            hcqi_leave();                                                          \
        }                                                                          \
    } while (0)
#define HCQI_CHECK_KNOWN HCQI_CHECK_FLAGS
#else
#define HCQI_CHECKED 0
#define HCQI_ORDER(call) ((void)0)
#define HCQI_ORDER_APART(call) ((void)0)
#define HCQI_CHECK_KNOWN 0
#endif
#define HCQI_CHECK_FLAGS                                                           \
    (HCQ_DEVICE_CHECK | HCQ_DEVICE_CHECK_FAILS | HCQ_DEVICE_CHECK_THREADS |        \
     HCQ_DEVICE_CHECK_READS | HCQ_DEVICE_CHECK_WAITS)

#ifdef HCQ_STATIC
#define HCQI_DEF static
#else
#define HCQI_DEF
#endif

/* A child has a copy of the memory in the middle of any change: all that is there is closed by
   letting go of it. Registries stay, serials go on, nothing native is called. */
static void hcqi_fork_child(void) {
    size_t kept = offsetof(struct hcqi_core, lock);
    memset((uint8_t *)&hcqi_core + kept, 0, sizeof hcqi_core - kept);
    hcqi_core.forks++;
#ifdef HCQ_CUDA
    hcqi_cuda_fork_child();
#endif
}

/* ========================================================================== */
/* ---- system --------------------------------------------------- >>system - */
/* Time, sleeping, threads and libraries: the same functions for each system, and
   what they share at the end. */

#if defined(_WIN32)

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <share.h>
#include <windows.h>

static uint64_t hcqi_sys_clock_ns(void) {
    LARGE_INTEGER frequency, now;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&now);
    uint64_t f = (uint64_t)frequency.QuadPart;
    uint64_t n = (uint64_t)now.QuadPart;
    return n / f * 1000000000u + n % f * 1000000000u / f;
}

HCQI_DEF void *hcq_sys_library_open(const char *path) { return (void *)LoadLibraryA(path); }

/* Function pointers are copied, not cast: no compiler warns about that. */
HCQI_DEF void *hcq_sys_library_symbol(void *library, const char *name) {
    FARPROC proc = library != NULL ? GetProcAddress((HMODULE)library, name) : NULL;
    void *symbol;
    memcpy(&symbol, &proc, sizeof symbol);
    return symbol;
}

HCQI_DEF void hcq_sys_library_close(void *library) { FreeLibrary((HMODULE)library); }

HCQI_DEF void hcq_sys_yield(void) { SwitchToThread(); }

#define HCQI_SYS_BUCKETS 64
typedef struct hcqi_sys_bucket { SRWLOCK lock; CONDITION_VARIABLE cond; } hcqi_sys_bucket;
static hcqi_sys_bucket hcqi_sys_buckets[HCQI_SYS_BUCKETS]; /* zero is ready */

static void hcqi_sys_begin(void) { }
static void hcqi_sys_lock(hcqi_sys_bucket *bucket) { AcquireSRWLockExclusive(&bucket->lock); }
static void hcqi_sys_unlock(hcqi_sys_bucket *bucket) { ReleaseSRWLockExclusive(&bucket->lock); }
static void hcqi_sys_wake_all(hcqi_sys_bucket *bucket) { WakeAllConditionVariable(&bucket->cond); }

/* A tick is up to 16 ms: what is much shorter has a timer of its own, and is not woken up. */
static int hcqi_sys_times_out(hcqi_sys_bucket *bucket, uint64_t timeout_ns) {
    const DWORD precise = 2;           /* CREATE_WAITABLE_TIMER_HIGH_RESOLUTION: Windows 10 */
    DWORD ms = INFINITE;
    HANDLE timer = timeout_ns > 500000 ? NULL
                                       : CreateWaitableTimerExW(NULL, NULL, precise, SYNCHRONIZE |
                                                                TIMER_MODIFY_STATE);
    if (timer != NULL) {
        LARGE_INTEGER due;
        due.QuadPart = -1 - (LONGLONG)(timeout_ns / 100);
        hcqi_sys_unlock(bucket);
        int late = SetWaitableTimer(timer, &due, 0, NULL, NULL, 0) &&
                   WaitForSingleObject(timer, INFINITE) == WAIT_OBJECT_0;
        CloseHandle(timer);
        hcqi_sys_lock(bucket);
        return late;
    }
    if (timeout_ns / 1000000u < 0x7fffffffu) {
        ms = (DWORD)(timeout_ns / 1000000u + (timeout_ns % 1000000u != 0));
    }
    return !SleepConditionVariableSRW(&bucket->cond, &bucket->lock, ms, 0) &&
           GetLastError() == ERROR_TIMEOUT;
}

enum { HCQI_SYS_CPU_WORDS = 1 };

static void hcqi_sys_cpus(uintptr_t *mask) {
    DWORD_PTR process = 0, system = 0;
    GetProcessAffinityMask(GetCurrentProcess(), &process, &system);
    mask[0] = process;
}

static int hcqi_sys_pin(const uintptr_t *mask) {
    return SetThreadAffinityMask(GetCurrentThread(), mask[0]) != 0;
}

static DWORD WINAPI hcqi_sys_thread_main(LPVOID user) {
    hcq_sys_thread *thread = (hcq_sys_thread *)user;
    WCHAR name[sizeof thread->name];
    for (size_t i = 0; i < sizeof thread->name; i++) {
        name[i] = (WCHAR)(unsigned char)thread->name[i];
    }
    name[sizeof thread->name - 1] = 0;
    HRESULT(WINAPI *name_fn)(HANDLE, PCWSTR); /* since Windows 10 */
    void *symbol = hcq_sys_library_symbol(GetModuleHandleA("kernel32.dll"), "SetThreadDescription");
    memcpy(&name_fn, &symbol, sizeof symbol);
    if (name_fn != NULL) { name_fn(GetCurrentThread(), name); }
    thread->run_fn(thread->user);
    return 0;
}

HCQI_DEF hcq_result hcq_sys_thread_start(hcq_sys_thread *thread) {
    thread->handle = CreateThread(NULL, 0, hcqi_sys_thread_main, thread, 0, NULL);
    return thread->handle ? HCQ_OK : HCQ_ERROR_NATIVE;
}

HCQI_DEF void hcq_sys_thread_join(hcq_sys_thread *thread) {
    WaitForSingleObject(thread->handle, INFINITE);
    CloseHandle(thread->handle);
    thread->handle = NULL;
}

static uint64_t hcqi_sys_thread_id(void) { return GetCurrentThreadId(); }

/* An event for the user's loop and our own handle of it. */
static int hcqi_sys_event_create(intptr_t *theirs, intptr_t *ours) {
    HANDLE self = GetCurrentProcess(), made = CreateEventW(NULL, TRUE, FALSE, NULL), copy = NULL;
    if (!made) { return 0; }
    if (!DuplicateHandle(self, made, self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        CloseHandle(made);
        return 0;
    }
    *theirs = (intptr_t)made;
    *ours = (intptr_t)copy;
    return 1;
}

static void hcqi_sys_event_close(intptr_t handle, int set) {
    if (set) { SetEvent((HANDLE)handle); }
    CloseHandle((HANDLE)handle);
}

/* As fopen, of which MSVC says that it is deprecated. */
static FILE *hcqi_sys_file_create(const char *path) { return _fsopen(path, "wb", _SH_DENYNO); }

static void hcqi_sys_fork_watch(void) { (void)hcqi_fork_child; } /* there is no fork */

#else /* POSIX: Linux, macOS, BSD */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#ifndef HCQ_NO_THREADS
#include <pthread.h>
#endif
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#ifndef CLOCK_MONOTONIC
#error "hcq: include hcq.h before every system header in this file, or compile with -std=gnu99"
#endif

HCQI_DEF void hcq_sys_yield(void) { sched_yield(); }

static uint64_t hcqi_sys_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Longer waits (34 years) count as forever: no time type overflows. */
#define HCQI_SYS_FOREVER ((uint64_t)1000000000u << 30)

enum { HCQI_SYS_CPU_WORDS = 8192 / (8 * sizeof(uintptr_t)) };

#ifdef __linux__

#if !defined(__cplusplus) && !defined(__USE_MISC)
long syscall(long number, ...); /* <unistd.h> hides it from strict POSIX */
#endif

/* Raw calls: sched_getaffinity is declared with _GNU_SOURCE only. */
static void hcqi_sys_cpus(uintptr_t *mask) {
    syscall(SYS_sched_getaffinity, 0L, HCQI_SYS_CPU_WORDS * sizeof *mask, mask);
}

static int hcqi_sys_pin(const uintptr_t *mask) {
    return syscall(SYS_sched_setaffinity, 0L, HCQI_SYS_CPU_WORDS * sizeof *mask, mask) == 0;
}

static void hcqi_sys_thread_name(const char *name) { prctl(PR_SET_NAME, name, 0L, 0L, 0L); }

/* The user may close his end at any time; ours is never a descriptor that he reused. */
static int hcqi_sys_event_create(intptr_t *theirs, intptr_t *ours) {
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    *theirs = fd;
    *ours = copy;
    if (fd >= 0 && copy < 0) { close(fd); }
    return copy >= 0;
}

static void hcqi_sys_event_close(intptr_t handle, int set) {
    const uint64_t one = 1;
    int saved = errno;
    while (set && write((int)handle, &one, sizeof one) < 0 && errno == EINTR) { }
    close((int)handle);
    errno = saved;
}

#else

static void hcqi_sys_cpus(uintptr_t *mask) { /* known is only how many */
    long count = sysconf(_SC_NPROCESSORS_ONLN), bits = 8 * (long)sizeof *mask;
    for (long i = 0; i < count && i < HCQI_SYS_CPU_WORDS * bits; i++) {
        mask[i / bits] |= (uintptr_t)1 << i % bits;
    }
}

static int hcqi_sys_pin(const uintptr_t *mask) {
    (void)mask;
    return 0;
}

static void hcqi_sys_thread_name(const char *name) {
#ifdef __APPLE__
    pthread_setname_np(name);
#else
    (void)name;
#endif
}

static int hcqi_sys_event_create(intptr_t *theirs, intptr_t *ours) {
    int fd[2];
    if (pipe(fd) != 0) { return 0; }
    fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    *theirs = fd[0];
    *ours = fd[1];
    return 1;
}

/* Closing our end is what the other end sees. */
static void hcqi_sys_event_close(intptr_t handle, int set) {
    (void)set;
    close((int)handle);
}

#endif

#ifdef HCQ_NO_THREADS
#elif defined(__linux__) && !defined(HCQ_NO_FUTEX)

/* What the kernel reads, whatever the C library's time_t is. */
#if !defined(SYS_futex) || (defined(__x86_64__) && defined(__ILP32__))
typedef struct hcqi_sys_time { int64_t seconds, ns; } hcqi_sys_time;
#else
typedef struct hcqi_sys_time { long seconds, ns; } hcqi_sys_time;
#endif
#ifdef SYS_futex
#define HCQI_SYS_FUTEX SYS_futex
#else
#define HCQI_SYS_FUTEX SYS_futex_time64
#endif

/* HCQ_TIMEOUT, or HCQ_OK whatever else: a word unmapped meanwhile is no error of ours. */
static hcq_result hcqi_sys_futex(uint32_t *word, int op, uint32_t value, hcqi_sys_time *timeout) {
    int saved = errno;
    long r = syscall(HCQI_SYS_FUTEX, word, op | 128, value, timeout, NULL, 0); /* 128: private */
    hcq_result result = r < 0 && errno == ETIMEDOUT ? HCQ_TIMEOUT : HCQ_OK;
    errno = saved;
    return result;
}

HCQI_DEF hcq_result hcq_sys_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    hcqi_sys_time time;
    time.seconds = (long)(timeout_ns / 1000000000u);
    time.ns = (long)(timeout_ns % 1000000000u);
    return hcqi_sys_futex(word, 0, expected, timeout_ns < HCQI_SYS_FOREVER ? &time : NULL);
}

HCQI_DEF void hcq_sys_wake(uint32_t *word, int all) {
    hcqi_sys_futex(word, 1, all ? 0x7fffffff : 1, NULL);
}

#else

#define HCQI_SYS_BUCKETS 64
typedef struct hcqi_sys_bucket { pthread_mutex_t lock; pthread_cond_t cond; } hcqi_sys_bucket;
static hcqi_sys_bucket hcqi_sys_buckets[HCQI_SYS_BUCKETS];
static pthread_once_t hcqi_sys_once = PTHREAD_ONCE_INIT;

#if defined(_POSIX_CLOCK_SELECTION) && _POSIX_CLOCK_SELECTION > 0
#define HCQI_SYS_COND_CLOCK CLOCK_MONOTONIC
#else
#define HCQI_SYS_COND_CLOCK CLOCK_REALTIME
#endif

/* Also in a child of fork, where who held a lock, or slept, is not there any more. */
static void hcqi_sys_renew(void) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
#if defined(_POSIX_CLOCK_SELECTION) && _POSIX_CLOCK_SELECTION > 0
    pthread_condattr_setclock(&attr, HCQI_SYS_COND_CLOCK);
#endif
    for (int i = 0; i < HCQI_SYS_BUCKETS; i++) {
        pthread_mutex_init(&hcqi_sys_buckets[i].lock, NULL);
        pthread_cond_init(&hcqi_sys_buckets[i].cond, &attr);
    }
    pthread_condattr_destroy(&attr);
}

static void hcqi_sys_first(void) {
    hcqi_sys_renew();
    pthread_atfork(NULL, NULL, hcqi_sys_renew);
}

static void hcqi_sys_begin(void) { pthread_once(&hcqi_sys_once, hcqi_sys_first); }
static void hcqi_sys_lock(hcqi_sys_bucket *bucket) { pthread_mutex_lock(&bucket->lock); }
static void hcqi_sys_unlock(hcqi_sys_bucket *bucket) { pthread_mutex_unlock(&bucket->lock); }
static void hcqi_sys_wake_all(hcqi_sys_bucket *bucket) { pthread_cond_broadcast(&bucket->cond); }

static int hcqi_sys_times_out(hcqi_sys_bucket *bucket, uint64_t timeout_ns) {
    struct timespec time;
    if (timeout_ns >= HCQI_SYS_FOREVER) {
        pthread_cond_wait(&bucket->cond, &bucket->lock);
        return 0;
    }
#ifdef __APPLE__
    time.tv_sec = (time_t)(timeout_ns / 1000000000u);
    time.tv_nsec = (long)(timeout_ns % 1000000000u);
    return pthread_cond_timedwait_relative_np(&bucket->cond, &bucket->lock, &time) == ETIMEDOUT;
#else
    clock_gettime(HCQI_SYS_COND_CLOCK, &time);
    uint64_t ns = (uint64_t)time.tv_nsec + timeout_ns % 1000000000u;
    time.tv_sec += (time_t)(timeout_ns / 1000000000u + ns / 1000000000u);
    time.tv_nsec = (long)(ns % 1000000000u);
    return pthread_cond_timedwait(&bucket->cond, &bucket->lock, &time) == ETIMEDOUT;
#endif
}

#endif

#ifndef HCQ_NO_THREADS

typedef char hcqi_sys_pthread_fits[sizeof(pthread_t) <= sizeof(void *) ? 1 : -1];

static void *hcqi_sys_thread_main(void *user) {
    hcq_sys_thread *thread = (hcq_sys_thread *)user;
    hcqi_sys_thread_name(thread->name);
    thread->run_fn(thread->user);
    return NULL;
}

/* Signals are for the program's threads; only faults, what profilers send and what a sandbox
   answers system calls with reaches ours. */
HCQI_DEF hcq_result hcq_sys_thread_start(hcq_sys_thread *thread) {
    static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF,
                                SIGSYS };
    pthread_t id;
    sigset_t set, old_set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) { sigdelset(&set, open[i]); }
    pthread_sigmask(SIG_SETMASK, &set, &old_set);
    int error = pthread_create(&id, NULL, hcqi_sys_thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &old_set, NULL);
    thread->handle = error ? NULL : (void *)(uintptr_t)id;
    return error == 0 ? HCQ_OK : error == ENOMEM ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_ERROR_NATIVE;
}

HCQI_DEF void hcq_sys_thread_join(hcq_sys_thread *thread) {
    pthread_join((pthread_t)(uintptr_t)thread->handle, NULL);
    thread->handle = NULL;
}

static uint64_t hcqi_sys_thread_id(void) {
    static HCQI_THREAD_LOCAL char mark; /* its address differs between living threads */
    return (uint64_t)(uintptr_t)&mark;
}

static void hcqi_sys_fork_watch(void) { pthread_atfork(NULL, NULL, hcqi_fork_child); }

#else

HCQI_DEF hcq_result hcq_sys_thread_start(hcq_sys_thread *thread) {
    thread->handle = NULL;
    return HCQ_ERROR_UNSUPPORTED;
}

HCQI_DEF void hcq_sys_thread_join(hcq_sys_thread *thread) { (void)thread; }
static uint64_t hcqi_sys_thread_id(void) { return 1; }

HCQI_DEF hcq_result hcq_sys_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    (void)word, (void)expected, (void)timeout_ns; /* nobody would change it meanwhile */
    return HCQ_TIMEOUT;
}

HCQI_DEF void hcq_sys_wake(uint32_t *word, int all) { (void)word, (void)all; }

static void hcqi_sys_fork_watch(void) { (void)hcqi_fork_child, (void)hcqi_sys_thread_name; }

#endif

HCQI_DEF void *hcq_sys_library_open(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

HCQI_DEF void *hcq_sys_library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

HCQI_DEF void hcq_sys_library_close(void *library) { dlclose(library); }

static FILE *hcqi_sys_file_create(const char *path) { return fopen(path, "wb"); }

#endif /* POSIX */

#ifdef HCQI_SYS_BUCKETS

/* Sleepers by address: a wake never touches the word, which may vanish before it. */
static hcqi_sys_bucket *hcqi_sys_bucket_of(const uint32_t *word) {
    uintptr_t a = (uintptr_t)word;
    hcqi_sys_begin();
    return &hcqi_sys_buckets[(a >> 2 ^ a >> 8 ^ a >> 14) % HCQI_SYS_BUCKETS];
}

HCQI_DEF hcq_result hcq_sys_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    hcqi_sys_bucket *bucket = hcqi_sys_bucket_of(word);
    hcqi_sys_lock(bucket);
    int late = hcqi_atomic_load32(word) == expected && hcqi_sys_times_out(bucket, timeout_ns);
    hcqi_sys_unlock(bucket);
    return late ? HCQ_TIMEOUT : HCQ_OK;
}

HCQI_DEF void hcq_sys_wake(uint32_t *word, int all) {
    hcqi_sys_bucket *bucket = hcqi_sys_bucket_of(word);
    (void)all; /* others share the bucket */
    hcqi_sys_lock(bucket);
    hcqi_sys_wake_all(bucket);
    hcqi_sys_unlock(bucket);
}

#endif

/* How many CPUs the process may use; of them the cpu-th alone is in the mask. */
static uint32_t hcqi_sys_cpu_pick(uintptr_t *mask, uint32_t cpu) {
    uint32_t count = 0;
    memset(mask, 0, HCQI_SYS_CPU_WORDS * sizeof *mask);
    hcqi_sys_cpus(mask);
    for (uint32_t i = 0; i < HCQI_SYS_CPU_WORDS; i++) {
        uintptr_t left = mask[i];
        for (mask[i] = 0; left != 0; left &= left - 1) {
            if (count++ == cpu) { mask[i] = left & (~left + 1); }
        }
    }
    return count;
}

HCQI_DEF uint32_t hcq_sys_cpu_count(void) {
    uintptr_t mask[HCQI_SYS_CPU_WORDS];
    uint32_t count = hcqi_sys_cpu_pick(mask, 0);
    return count ? count : 1;
}

HCQI_DEF int hcq_sys_thread_pin(uint32_t cpu) {
    uintptr_t mask[HCQI_SYS_CPU_WORDS];
    return cpu < hcqi_sys_cpu_pick(mask, cpu) && hcqi_sys_pin(mask);
}

/* ---- lock, log, events ------------------------------------------ >>lock - */

HCQI_DEF uint64_t hcq_now_ns(void) {
    uint64_t now = hcqi_atomic_load64(&hcqi_core.clock_ns);
    return now != 0 ? now : hcqi_sys_clock_ns();
}

/* hcq_sys_wait for what work changes: where devices have no threads, that runs meanwhile. */
static hcq_result hcqi_await(uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
    if (hcqi_core.await_fn == NULL) { return hcq_sys_wait(word, seen, timeout_ns); }
    return hcqi_core.await_fn(word, seen, timeout_ns);
}

/* Has another thread devices without threads? */
static int hcqi_is_strange(void) {
    return hcqi_core.stepper != 0 && hcqi_core.stepper != hcqi_sys_thread_id();
}

/* The next open device behind one, or behind none the first; NULL: no more. */
static hcq_device *hcqi_device_next(const hcq_device *dev) {
    uint32_t slot = dev == NULL ? 0 : dev->slot + 1;
    while (slot < hcqi_core.device_top && hcqi_core.devices[slot] == NULL) { slot++; }
    return slot < hcqi_core.device_top ? hcqi_core.devices[slot] : NULL;
}

#define HCQI_DEVICES(dev) \
    for (hcq_device *dev = hcqi_device_next(NULL); dev != NULL; dev = hcqi_device_next(dev))

/* Are devices of the other kind open, or being opened? */
static int hcqi_mixes(int stepped) {
    if (!stepped && hcqi_core.await_fn != NULL) { return 1; }
    HCQI_DEVICES(other) {
        if (other->stepped != stepped) { return 1; }
    }
    return 0;
}

#define HCQI_MIXED "cpu->seed: all open devices have one, or none has"
#define HCQI_STRANGE "belongs to the thread that opened it: it has a seed"

/* A timeout or HCQ_DEADLINE as a point in time; 0 polls. */
static uint64_t hcqi_deadline(uint64_t timeout_ns) {
    if (timeout_ns == 0 || timeout_ns == HCQ_FOREVER) { return timeout_ns; }
    if (timeout_ns >> 63 != 0) { return timeout_ns & (UINT64_MAX >> 1); }
    return hcq_now_ns() + timeout_ns; /* two of 63 bits */
}

static uint64_t hcqi_left(uint64_t deadline) {
    if (deadline == HCQ_FOREVER) { return HCQ_FOREVER; }
    if (deadline == 0) { return 0; }
    uint64_t now = hcq_now_ns();
    return now >= deadline ? 0 : deadline - now;
}

/* A word as a lock, the core's or a companion's: 0 free, 1 held, 2 contended. Who has slept
   looks for as long as a step of a long cascade may take: that then lets it in. */
static HCQI_CALLED void hcqi_word_sleep(uint32_t *word) {
    int mine = 0, slept = 0;
    for (int i = 0; !mine && i < 40; i++) {
        hcqi_atomic_pause();
        mine = hcqi_atomic_load32(word) == 0 && hcqi_atomic_cas32(word, 0, 1);
    }
    for (; !mine && hcqi_atomic_swap32(word, 2) != 0; slept = 1) {
        for (int i = 0; slept && !mine && i < 400; i++) {
            hcqi_atomic_pause();
            mine = hcqi_atomic_load32(word) == 0 && hcqi_atomic_cas32(word, 0, 2);
        }
        if (!mine) { hcq_sys_wait(word, 2, HCQ_FOREVER); }
    }
}

static HCQI_HOT void hcqi_word_lock(uint32_t *word) {
    if (!hcqi_atomic_cas32(word, 0, 1)) { hcqi_word_sleep(word); }
}

/* 1: others wait for it. */
static HCQI_HOT int hcqi_word_unlock(uint32_t *word) {
    int contended = hcqi_atomic_swap32(word, 0) == 2;
    if (contended) { hcq_sys_wake(word, 0); }
    return contended;
}

static void hcqi_enter(void) {
    hcqi_word_lock(&hcqi_core.lock);
    hcqi_atomic_store64(&hcqi_core.owner, hcqi_sys_thread_id());
}

static int hcqi_unlock(void) {
    hcqi_atomic_store64(&hcqi_core.owner, 0);
    return hcqi_word_unlock(&hcqi_core.lock);
}

static HCQI_THREAD_LOCAL int hcqi_notifying;     /* runs a notification */
static HCQI_THREAD_LOCAL int hcqi_calling;       /* an engine, a service thread, in a callback */
static HCQI_THREAD_LOCAL int hcqi_giving;        /* gives batches to the hardware */
static HCQI_THREAD_LOCAL int hcqi_logging; /* a logger: 1; 2: with a line of its own */
static HCQI_THREAD_LOCAL uint32_t hcqi_lines; /* of this thread's calls so far */

static void hcqi_log_default(void *user, hcq_result result, const char *text) {
    if (result != HCQ_OK) { hcq_log_stderr(user, result, text); }
}

static hcq_log_fn hcqi_logger(hcq_log_fn given) {
    if (given == NULL && HCQ_VALIDATE) { return hcqi_log_default; }
    return given == hcq_log_none ? NULL : given;
}

/* Who has the lock counts in `pins`; where that ends, the lock may be free. */
static void hcqi_unpin(hcq_device *dev) { hcqi_atomic_add32(&dev->unpins, 1); }

static int hcqi_device_open(const hcq_device *dev) {
    for (uint32_t i = 0; i < hcqi_core.device_top; i++) {
        if (dev != NULL && hcqi_core.devices[i] == dev) { return 1; }
    }
    return 0;
}

/* Is it open, and no other one in its place? */
static int hcqi_device_is(const hcq_device *dev, uint64_t serial) {
    return hcqi_device_open(dev) && dev->serial == serial;
}

/* With the lock held: the line waits until that is free, as a logger may call hcq.
   What its calls write is told once it returned, what those write is not; nor is
   what nothing would keep the logger for, a device that is not open yet, say: then
   `dev` is NULL, and the logger what the user gave, or NULL. */
static HCQI_COLD HCQI_PRINTF(5, 0) void hcqi_log_to(hcq_log_fn fn, void *user, hcq_device *dev,
                                                    hcq_result result, const char *format,
                                                    va_list args) {
    int pinned = hcqi_device_open(dev);
    fn = dev != NULL ? dev->desc.log_fn : hcqi_logger(fn);
    hcqi_lines++;
    if (fn == NULL || hcqi_logging > pinned) { return; }
    if (hcqi_core.message_count == sizeof hcqi_core.messages / sizeof hcqi_core.messages[0]) {
        if (pinned) { dev->lines_lost++; }
        return;
    }
    hcqi_message *m = &hcqi_core.messages[hcqi_core.message_count++];
    m->dev = pinned ? dev : NULL;
    m->fn = fn;
    m->user = dev != NULL ? dev->desc.log_user : user;
    m->thread = hcqi_sys_thread_id();
    m->nested = hcqi_logging;
    m->result = result;
    if (pinned) { dev->pins++; }
    int n = snprintf(m->text, sizeof m->text, dev == NULL ? "hcq: " : "hcq %s: ",
                     dev == NULL ? "" : dev->label);
    vsnprintf(m->text + n, sizeof m->text - (size_t)n, format, args);
    for (char *c = m->text; *c != 0; c++) { /* of a label, say */
        if (*c == '\n') { *c = ' '; }
    }
}

/* With the lock held. Returns `result`. `dev` NULL: the call names no open device. */
static HCQI_PRINTF(3, 4) hcq_result hcqi_refuse(hcq_device *dev, hcq_result result,
                                                const char *format, ...) {
    va_list args;
    va_start(args, format);
    hcqi_log_to(NULL, NULL, dev, result, format, args);
    va_end(args);
    return result;
}

/* Ends the calling function with that, unless `ok`. */
#define HCQI_REFUSE_UNLESS(dev, ok, ...)                                           \
    do {                                                                           \
        if (!(ok)) { return hcqi_refuse((dev), __VA_ARGS__); }                     \
    } while (0)

static hcq_result hcqi_oom(hcq_device *dev, const char *what) {
    return hcqi_refuse(dev, HCQ_ERROR_OUT_OF_MEMORY, "%s: out of memory", what);
}

/* There is room for a line: how many found none. */
static HCQI_COLD void hcqi_lost_tell(void) {
    HCQI_DEVICES(dev) {
        if (dev->lines_lost == 0) { continue; }
        uint32_t lost = dev->lines_lost;
        dev->lines_lost = 0;
        hcqi_refuse(dev, HCQ_ERROR_LIMIT, "%u more lines are lost", lost);
        return;
    }
}

/* This thread's lines, the oldest first. Without the lock, and not from within a logger. */
static HCQI_COLD void hcqi_emit_messages(void) {
    uint64_t me = hcqi_sys_thread_id();
    hcqi_message m;
    while (hcqi_logging == 0) {
        uint32_t i = 0;
        hcqi_enter();
        while (i < hcqi_core.message_count && hcqi_core.messages[i].thread != me) { i++; }
        int found = i < hcqi_core.message_count;
        if (found) {
            m = hcqi_core.messages[i];
            hcqi_core.message_count--;
            memmove(&hcqi_core.messages[i], &hcqi_core.messages[i + 1],
                    (hcqi_core.message_count - i) * sizeof m);
            hcqi_lost_tell();
        }
        hcqi_unlock();
        if (!found) { return; }
        hcqi_logging = 1 + m.nested;
        m.fn(m.user, m.result, m.text);
        hcqi_logging = 0;
        if (m.dev != NULL) { hcqi_unpin(m.dev); }
    }
}

/* ========================================================================== */
/* ---- memory of the library ------------------------------------- >>pools - */

static void *hcqi_malloc(void *user, size_t size, size_t align) {
    (void)user;
    void *ptr = NULL;
#if defined(_WIN32)
    ptr = _aligned_malloc(size, align);
#else
    if (posix_memalign(&ptr, align < sizeof(void *) ? sizeof(void *) : align, size) != 0) {
        ptr = NULL;
    }
#endif
    return ptr;
}

static void hcqi_mfree(void *user, void *ptr, size_t size) {
    (void)user;
    (void)size;
#if defined(_WIN32)
    _aligned_free(ptr);
#else
    free(ptr);
#endif
}

/* Long arrays begin with a cache line: packets in two of them each make a replay slower. */
static void *hcqi_new(const hcq_memory_hooks *hooks, size_t size) {
    void *ptr = hooks->alloc_fn(hooks->user, size, size < 1024 ? 16 : 64);
    if (ptr != NULL) { memset(ptr, 0, size); }
    return ptr;
}

static void hcqi_delete(const hcq_memory_hooks *hooks, void *ptr, size_t size) {
    if (ptr != NULL) { hooks->free_fn(hooks->user, ptr, size); }
}

/* Any number of bytes, as the C library copies them: code that is to be small has an instruction
   of its own for that, which takes longer. */
static HCQI_CALLED void hcqi_copy_bytes(void *to, const void *from, uint64_t size) {
    memcpy(to, from, (size_t)size);
}

/* Contents stay, the rest is zero. `field`: the address of the pointer to an array of any type. */
static int hcqi_grow(const hcq_memory_hooks *hooks, void *field, uint32_t *capacity,
                     uint64_t need, size_t item) {
    if (need <= *capacity) { return 1; }
    uint64_t cap = *capacity < 8 ? 8 : *capacity;
    while (cap < need) { cap *= 2; }
    if (cap > UINT32_MAX / 2 || cap > SIZE_MAX / item) { return 0; }
    void *grown = hcqi_new(hooks, (size_t)cap * item);
    if (grown == NULL) { return 0; }
    void *items;
    memcpy(&items, field, sizeof items);
    if (items != NULL) {
        memcpy(grown, items, *capacity * item);
        hcqi_delete(hooks, items, *capacity * item);
    }
    memcpy(field, &grown, sizeof grown);
    *capacity = (uint32_t)cap;
    return 1;
}

/* For an array `ptr` whose capacity is `cap`; 0 = out of memory. */
#define HCQI_GROW(hooks, ptr, cap, need)                                           \
    hcqi_grow((hooks), (void *)&(ptr), &(cap), (need), sizeof *(ptr))

/* Counts one more item at the array's end; NULL = out of memory. */
#define HCQI_PUSH(hooks, ptr, count, cap)                                          \
    (HCQI_GROW((hooks), ptr, cap, (uint64_t)(count) + 1) ? &(ptr)[(count)++] : NULL)

/* Objects of one size in aligned chunks; above `keep` those go back when they are empty. */
typedef struct hcqi_chunk {
    struct hcqi_chunk *next, *prev;    /* in hcqi_pool.open or .full */
    void *free_list;
    uint32_t used, fresh;              /* live objects; objects ever carved out */
} hcqi_chunk;

#define HCQI_CHUNK ((size_t)65536)     /* a pool's unit, aligned to its size */
#define HCQI_CHUNK_HEAD ((size_t)64)   /* so that objects of 64 bytes fill one cache line */

/* Out of one list of the pool, unless that is NULL, and likewise into another one. */
static void hcqi_chunk_move(hcqi_chunk *c, hcqi_chunk **from, hcqi_chunk **to) {
    if (from != NULL) { *(c->prev != NULL ? &c->prev->next : from) = c->next; }
    if (from != NULL && c->next != NULL) { c->next->prev = c->prev; }
    if (to == NULL) { return; }
    c->prev = NULL;
    c->next = *to;
    if (c->next != NULL) { c->next->prev = c; }
    *to = c;
}

static HCQI_COLD int hcqi_pool_extend(hcqi_pool *pool, uint64_t count) {
    const hcq_memory_hooks *hooks = &pool->dev->hooks;
    while (pool->available < count) {
        void *memory = hooks->alloc_fn(hooks->user, HCQI_CHUNK, HCQI_CHUNK);
        if (memory == NULL) { return 0; }
        hcqi_chunk *c = HCQI_CAST(hcqi_chunk *, memory);
        memset(c, 0, sizeof *c);
        hcqi_chunk_move(c, NULL, &pool->open);
        pool->chunks++;
        pool->available += pool->per_chunk;
    }
    return 1;
}

/* Afterwards hcqi_pool_get gives `count` objects without fail. */
static HCQI_HOT int hcqi_pool_reserve(hcqi_pool *pool, uint64_t count) {
    return count <= pool->available || hcqi_pool_extend(pool, count);
}

static int hcqi_pool_init(hcqi_pool *pool, hcq_device *dev, size_t item, uint32_t count) {
    pool->dev = dev;
    pool->item = (uint32_t)((item + 7) & ~(size_t)7);
    pool->per_chunk = (uint32_t)((HCQI_CHUNK - HCQI_CHUNK_HEAD) / pool->item);
    pool->keep = count / pool->per_chunk + 1;
    return hcqi_pool_reserve(pool, count);
}

/* Cleared; there must be one. */
static void *hcqi_pool_get(hcqi_pool *pool) {
    hcqi_chunk *c = pool->open;
    HCQ_ASSERT(c != NULL);
    void *item = c->free_list;
    if (item != NULL) {
        memcpy(&c->free_list, item, sizeof(void *));
    } else {
        item = (uint8_t *)c + HCQI_CHUNK_HEAD + (size_t)c->fresh++ * pool->item;
    }
    pool->available--;
    if (++c->used == pool->per_chunk) { hcqi_chunk_move(c, &pool->open, &pool->full); }
    return memset(item, 0, pool->item);
}

static void hcqi_pool_put(hcqi_pool *pool, void *item) {
    hcqi_chunk *c = (hcqi_chunk *)((uintptr_t)item & ~(uintptr_t)(HCQI_CHUNK - 1));
    memcpy(item, &c->free_list, sizeof(void *));
    c->free_list = item;
    pool->available++;
    if (c->used-- == pool->per_chunk) { hcqi_chunk_move(c, &pool->full, &pool->open); }
    if (c->used == 0 && pool->chunks > pool->keep) {
        hcqi_chunk_move(c, &pool->open, NULL);
        pool->chunks--;
        pool->available -= pool->per_chunk;
        hcqi_delete(&pool->dev->hooks, c, HCQI_CHUNK);
    }
}

static void hcqi_pool_destroy(hcqi_pool *pool) {
    for (int full = 0; full < 2; full++) {
        for (hcqi_chunk *c = full ? pool->full : pool->open, *next; c != NULL; c = next) {
            next = c->next;
            hcqi_delete(&pool->dev->hooks, c, HCQI_CHUNK);
        }
    }
}

/* ========================================================================== */
/* ---- results, version, small helpers ------------------------- >>helpers - */

HCQI_DEF HCQI_COLD const char *hcq_result_text(hcq_result result) {
    switch ((int)result) {
#define HCQI_CASE(name, value, text)                                               \
    case value: return text;
        HCQ_RESULTS(HCQI_CASE)
#undef HCQI_CASE
    default: return "unknown result";
    }
}

HCQI_DEF HCQI_COLD const char *hcq_result_name(hcq_result result) {
    switch ((int)result) {
#define HCQI_CASE(name, value, text)                                               \
    case value: return #name;
        HCQ_RESULTS(HCQI_CASE)
#undef HCQI_CASE
    default: return "HCQ_UNKNOWN";
    }
}

HCQI_DEF uint32_t hcq_version(void) {
    return (uint32_t)HCQ_VERSION_MAJOR << 16 | (uint32_t)HCQ_VERSION_MINOR << 8 |
           (uint32_t)HCQ_VERSION_PATCH;
}

HCQI_DEF void hcq_log_stderr(void *user, hcq_result result, const char *text) {
    (void)user;
    fprintf(stderr, "%s [%s]\n", text, hcq_result_name(result));
}

HCQI_DEF void hcq_log_none(void *user, hcq_result result, const char *text) {
    (void)user;
    (void)result;
    (void)text;
}

static void hcqi_copy_label(char *to, const char *from) {
    size_t n = 0;
    for (; from != NULL && n < 31 && from[n] != 0; n++) { to[n] = from[n]; }
    while (n != 0 && ((uint8_t)from[n] & 0xc0) == 0x80) { n--; } /* no half of a character */
    to[n] = 0;
}

/* Of a block {0,0,0} is the kernel's own or {1,1,1}; another 0 stays, to be refused. */
static hcq_dims hcqi_block_dims(const hcq_program_desc *desc, hcq_dims given) {
    if ((given.x | given.y | given.z) == 0) { given = desc->block; }
    return (given.x | given.y | given.z) == 0 ? hcq_dim(1, 1, 1) : given;
}

/* What the user said when it failed a signal; shared by what failed by it. */
typedef struct hcqi_reason { hcq_memory_hooks hooks; uint32_t refs; char text[96]; } hcqi_reason;

/* `reason` or NULL: in words, the same for all of them. */
typedef struct hcqi_failure {
    uint64_t first, last;
    hcq_result result;
    hcqi_reason *reason;
} hcqi_failure;

/* The first range that begins behind `number`. */
static hcqi_failure *hcqi_failures_behind(const hcqi_failures *f, uint64_t number) {
    hcqi_failure *low = f->ranges + f->first, *high = low + f->count;
    while (low < high) {
        hcqi_failure *middle = low + (high - low) / 2;
        if (middle->first > number) { high = middle; } else { low = middle + 1; }
    }
    return low;
}

/* The range that has the number; NULL: none. */
static const hcqi_failure *hcqi_failures_at(const hcqi_failures *f, uint64_t number) {
    const hcqi_failure *range = hcqi_failures_behind(f, number);
    return range == f->ranges + f->first || number > range[-1].last ? NULL : range - 1;
}

static hcq_result hcqi_failures_find(const hcqi_failures *f, uint64_t number) {
    if (number <= f->forgotten && f->forgotten != 0) { return HCQ_ERROR_LIMIT; }
    const hcqi_failure *range = hcqi_failures_at(f, number);
    return range == NULL ? HCQ_OK : range->result;
}

static void hcqi_reason_unref(hcqi_reason *reason) {
    if (reason == NULL || --reason->refs != 0) { return; }
    hcq_memory_hooks hooks = reason->hooks;
    hcqi_delete(&hooks, reason, sizeof *reason);
}

static void hcqi_failures_drop(hcqi_failures *f, uint64_t number) {
    for (; f->count > 0 && f->ranges[f->first].last <= number; f->count--) {
        hcqi_reason_unref(f->ranges[f->first++].reason);
    }
}

static int hcqi_failures_grow(hcq_device *dev, hcqi_failures *f) {
    return HCQI_GROW(&dev->hooks, f->ranges, f->capacity, f->capacity == 0 ? 16 : f->capacity + 1);
}

/* A range and the one behind it, if there are both, become one where they touch. */
static HCQI_COLD void hcqi_failures_join(hcqi_failures *f, hcqi_failure *a) {
    hcqi_failure *first = f->ranges + f->first, *b = a + 1, *end = first + f->count;
    if (a < first || b >= end || a->result != b->result || a->reason != b->reason ||
        a->last + 1 != b->first) {
        return;
    }
    a->last = b->last;
    hcqi_reason_unref(b->reason);
    memmove(b, b + 1, (size_t)(end - b - 1) * sizeof *b);
    f->count--;
}

/* Usually at the end; each number once. What finds no room is forgotten, oldest first. */
static HCQI_COLD void hcqi_failures_add(hcq_device *dev, hcqi_failures *f, uint64_t number,
                                        hcq_result result, hcqi_reason *reason) {
    if (number <= f->forgotten) { return; }
    int full = f->first + f->count == f->capacity;
    if (full && (f->first > f->capacity / 2 || !hcqi_failures_grow(dev, f))) {
        if (f->first == 0) {
            f->forgotten = f->count == 0 ? number : f->ranges->last;
            hcqi_failures_drop(f, f->forgotten);
        }
        if (number <= f->forgotten) { return; }
        memmove(f->ranges, f->ranges + f->first, f->count * sizeof *f->ranges);
        f->first = 0;
    }
    hcqi_failure *range = hcqi_failures_behind(f, number);
    memmove(range + 1, range, (size_t)(f->ranges + f->first + f->count - range) * sizeof *range);
    f->count++;
    range->first = range->last = number;
    range->result = result;
    range->reason = reason;
    if (reason != NULL) { reason->refs++; }
    hcqi_failures_join(f, range);
    hcqi_failures_join(f, range - 1);
    if (!f->whole && f->count > dev->desc.failure_ranges) {
        f->forgotten = f->ranges[f->first].last;
        hcqi_failures_drop(f, f->forgotten);
    }
}

static void hcqi_failures_free(hcq_device *dev, hcqi_failures *f) {
    hcqi_failures_drop(f, UINT64_MAX);
    hcqi_delete(&dev->hooks, f->ranges, f->capacity * sizeof *f->ranges);
    memset(f, 0, sizeof *f);
}

/* The next bit of a mask that is set, from `n` on; 64 = none. */
static uint32_t hcqi_bit(uint64_t mask, uint32_t n) {
    while (n < 64 && (mask >> n & 1) == 0) { n = mask >> n == 0 ? 64 : n + 1; }
    return n;
}

#define HCQI_BITS(n, mask) \
    for (uint32_t n = hcqi_bit(mask, 0); n < 64; n = hcqi_bit(mask, n + 1))

static const char *hcqi_kind_text(uint32_t kind) {
    static const char text[][12] = {
        "unknown", "wait", "wait_device", "signal", "timestamp", "barrier", "exec", "copy",
        "fill", "write", "host", "custom", "alloc", "synchronize"
    };
    return text[kind < sizeof text / sizeof text[0] ? kind : 0];
}

static uint64_t hcqi_hash(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static int hcqi_profile_on(const hcq_device *dev) {
    return dev->profile != NULL && dev->profile->on;
}

/* ========================================================================== */
/* ---- the waiters' heap ------------------------------------------ >>heap - */
/* A pairing heap by value: insert O(1), pop O(log n) amortised, no memory of
   its own, no recursion. `prev` is the parent for a first child; nobody reads a root's.

   A burst of inserts leaves a root with many children that have none. Merged in
   pairs they would be visited again and again, in an order that is none in
   memory. So they are sorted into a chain of only children, which is a heap,
   too, and gives up its root without a look at any other node. */

enum { HCQI_SORT_FROM = 64, HCQI_SORT_DIGITS = 256 };

static hcqi_waiter *hcqi_heap_merge(hcqi_waiter *a, hcqi_waiter *b) {
    if (a == NULL || b == NULL) { return a != NULL ? a : b; }
    hcqi_waiter *root = b->value < a->value ? b : a, *under = root == a ? b : a;
    under->prev = root;
    under->next = root->child;
    if (under->next != NULL) { under->next->prev = under; }
    root->child = under;
    return root;
}

/* Merges a list of siblings into one heap: pairs first, then all pairs. */
static hcqi_waiter *hcqi_heap_pairs(hcqi_waiter *list) {
    hcqi_waiter *pairs = NULL, *root = NULL;
    while (list != NULL) {
        hcqi_waiter *a = list, *b = a->next;
        list = b == NULL ? NULL : b->next;
        a = hcqi_heap_merge(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        hcqi_waiter *next = pairs->next;
        root = hcqi_heap_merge(root, pairs);
        pairs = next;
    }
    return root;
}

/* Makes a heap of a list of nodes without children: a radix sort by what their values
   are above `base`, then each below the one before it. `bits`: the "or" of that. */
static HCQI_COLD hcqi_waiter *hcqi_heap_chain(hcqi_waiter *list, uint64_t base, uint64_t bits) {
    hcqi_waiter *first[HCQI_SORT_DIGITS], **end[HCQI_SORT_DIGITS], *before = NULL;
    for (uint32_t shift = 0; shift < 64 && bits >> shift != 0; shift += 8) {
        for (uint32_t d = 0; d < HCQI_SORT_DIGITS; d++) { end[d] = &first[d]; }
        for (hcqi_waiter *w = list; w != NULL; w = w->next) {
            uint32_t d = (uint32_t)((w->value - base) >> shift) % HCQI_SORT_DIGITS;
            *end[d] = w;
            end[d] = &w->next;
        }
        hcqi_waiter **link = &list;
        for (uint32_t d = 0; d < HCQI_SORT_DIGITS; d++) {
            if (end[d] == &first[d]) { continue; }
            *link = first[d];
            link = end[d];
        }
        *link = NULL;
    }
    for (hcqi_waiter *w = list; w != NULL; w = w->child) {
        w->prev = before;
        w->child = w->next;
        w->next = NULL;
        before = w;
    }
    return list;
}

/* Of all below `w`: those without children are sorted if they are many, others merged in pairs. */
static hcqi_waiter *hcqi_heap_below(const hcqi_waiter *w) {
    hcqi_waiter *leaves = NULL, *others = NULL;
    uint32_t count = 0;
    uint64_t bits = 0;
    for (const hcqi_waiter *c = w->child; c != NULL && count < HCQI_SORT_FROM; c = c->next) {
        count += c->child == NULL;
    }
    if (count < HCQI_SORT_FROM) { return hcqi_heap_pairs(w->child); }
    for (hcqi_waiter *c = w->child, *next; c != NULL; c = next) {
        hcqi_waiter **to = c->child == NULL ? &leaves : &others;
        next = c->next;
        c->next = *to;
        *to = c;
        if (c->child == NULL) { bits |= c->value - w->value; }
    }
    return hcqi_heap_merge(hcqi_heap_chain(leaves, w->value, bits), hcqi_heap_pairs(others));
}

static void hcqi_heap_insert(hcqi_waiter **heap, hcqi_waiter *w) {
    w->child = NULL;
    *heap = hcqi_heap_merge(*heap, w);
}

static void hcqi_heap_remove(hcqi_waiter **heap, hcqi_waiter *w) {
    if (*heap == w) {
        *heap = hcqi_heap_below(w);
        return;
    }
    if (w->prev->child == w) { w->prev->child = w->next; } else { w->prev->next = w->next; }
    if (w->next != NULL) { w->next->prev = w->prev; }
    *heap = hcqi_heap_merge(*heap, hcqi_heap_below(w));
}

/* ========================================================================== */
/* ---- handles ------------------------------------------------- >>handles - */
#define HCQI_SLOT_BITS 20
#define HCQI_SERIAL_MASK (((uint64_t)1 << 36) - 1)

/* next_free: index + 1 */
typedef struct hcqi_slot { void *item; uint64_t serial; uint32_t next_free; } hcqi_slot;

static uint32_t hcqi_slot_index(uint64_t id) {
    return (uint32_t)(id >> 36) & ((1u << HCQI_SLOT_BITS) - 1);
}

/* The device in whose slots `id` is, or was; NULL = closed, or no id at all. */
static hcq_device *hcqi_slot_device(uint64_t id) {
    uint32_t slot = (uint32_t)(id >> 56);
    return slot == 0 || slot > HCQI_MAX_DEVICES ? NULL : hcqi_core.devices[slot - 1];
}

/* The same if it is the one that made `id`, not the next one in its place. */
static hcq_device *hcqi_slot_maker(uint64_t id) {
    hcq_device *dev = hcqi_slot_device(id);
    uint64_t serial = (id ^ hcqi_hash(0, hcqi_slot_index(id))) & HCQI_SERIAL_MASK;
    return dev != NULL && serial > dev->signals.first ? dev : NULL;
}

/* Puts `item` into a free slot; 0 = none, with *why set. */
static HCQI_COLD uint64_t hcqi_slots_put(hcq_device *dev, hcqi_slots *slots, void *item,
                                         hcq_result *why) {
    uint32_t index = slots->free_head == 0 ? slots->used : slots->free_head - 1;
    int none = index >> HCQI_SLOT_BITS != 0 || slots->first == HCQI_SERIAL_MASK;
    *why = none ? HCQ_ERROR_LIMIT : HCQ_ERROR_OUT_OF_MEMORY;
    if (*why == HCQ_ERROR_LIMIT ||
        !HCQI_GROW(&dev->hooks, slots->slots, slots->capacity, (uint64_t)index + 1)) {
        return 0;
    }
    hcqi_slot *slot = &slots->slots[index];
    uint64_t *highest = &hcqi_core.serials[dev->slot]; /* whoever opens next begins there */
    if (slots->free_head == 0) {
        slots->used++;
        slot->serial = slots->first;
    } else {
        slots->free_head = slot->next_free;
    }
    slot->item = item;
    if (++slot->serial > *highest) { *highest = slot->serial; }
    *why = HCQ_OK;
    uint64_t place = (uint64_t)(dev->slot + 1) << 56 | (uint64_t)index << 36;
    uint64_t serial = slot->serial ^ hcqi_hash(0, index); /* unlike its neighbours' */
    return place | (serial & HCQI_SERIAL_MASK);
}

static void *hcqi_slots_at(const hcqi_slots *slots, uint32_t index) {
    return index < slots->used ? slots->slots[index].item : NULL;
}

static void hcqi_slots_remove(hcqi_slots *slots, uint64_t id) {
    uint32_t index = hcqi_slot_index(id);
    slots->slots[index].item = NULL;
    if (slots->slots[index].serial == HCQI_SERIAL_MASK) { return; }
    slots->slots[index].next_free = slots->free_head;
    slots->free_head = index + 1;
}

/* ========================================================================== */
/* ---- signals: watched, raised, promised, failed ------------- >>raising - */

/* The thread looks for work once the caller has let go of the lock. */
static void hcqi_service_kick(hcq_device *dev) {
    if (dev->service_stop) { return; } /* it is closing */
    dev->service_started |= 1;
    hcqi_core.kicks |= (uint64_t)1 << dev->slot;
}

static void hcqi_lane_watch(hcqi_lane *lane) {
    int on = hcqi_core.watchers != 0;
    if (lane->dev->backend->watch != NULL) {
        lane->dev->backend->watch(lane->dev->self, &lane->base, on);
    } else if (on) {
        hcqi_service_kick(lane->dev);
    }
}

/* All lanes of all devices; `break` goes on with the next device. */
#define HCQI_LANES(lane)                                                           \
    HCQI_DEVICES(dev_)                                                             \
        for (hcqi_lane *lane = dev_->lanes; lane != dev_->lanes + dev_->lane_count; lane++)

/* While anybody needs them every lane reports completions: rare, and one switch is easy. */
static void hcqi_watch(int delta) {
    hcqi_core.watchers += (uint32_t)delta;
    if (delta > 0) { hcqi_core.recheck = 1; }
    if (hcqi_core.watchers > 1 || (hcqi_core.watchers == 1 && delta < 0)) { return; }
    HCQI_LANES(lane) { hcqi_lane_watch(lane); }
}

static hcqi_signal *hcqi_signal_find(hcq_signal handle) {
    hcq_device *dev = hcqi_slot_device(handle.id);
    if (dev == NULL) { return NULL; }
    void *item = hcqi_slots_at(&dev->signals, hcqi_slot_index(handle.id));
    hcqi_signal *s = HCQI_CAST(hcqi_signal *, item);
    return s != NULL && s->id == handle.id ? s : NULL;
}

static hcq_signal hcqi_signal_handle(const hcqi_signal *s) {
    hcq_signal handle;
    handle.id = s == NULL ? 0 : s->id;
    return handle;
}

/* With the lock held. */
static void hcqi_device_unref(hcq_device *dev) {
    if (--dev->refs != 0) { return; }
    hcq_memory_hooks hooks = dev->hooks;
    hcqi_failures_free(dev, &dev->failures); /* asked for as long as anybody waits */
    hcqi_delete(&hooks, dev, sizeof *dev);
}

/* Why waits for the value fail, in words; NULL: nobody said. */
static hcqi_reason *hcqi_signal_reason(const hcqi_signal *s, uint64_t value) {
    if (s->kind != HCQI_EXACT) { return s->reason; }
    const hcqi_failure *failure = hcqi_failures_at(&s->dev->failures, value);
    return failure == NULL ? NULL : failure->reason;
}

static void hcqi_signal_forgive(hcqi_signal *s) {
    hcqi_reason_unref(s->reason);
    s->reason = NULL;
    s->failure = HCQ_OK;
}

static void hcqi_signal_unref(hcqi_signal *s) {
    if (--s->refs != 0) { return; }
    hcq_device *dev = s->dev;
    HCQI_ORDER(hcqi_order_forget(s));
    hcqi_reason_unref(s->reason);
    hcqi_delete(&dev->hooks, s, sizeof *s);
    hcqi_device_unref(dev);
}

static HCQI_COLD hcq_result hcqi_signal_new(hcq_device *dev, hcqi_signal_kind kind, uint64_t value,
                                            hcqi_signal **out) {
    hcq_result why;
    hcqi_signal *s = HCQI_CAST(hcqi_signal *, hcqi_new(&dev->hooks, sizeof *s));
    if (s == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    s->id = hcqi_slots_put(dev, &dev->signals, s, &why);
    if (s->id == 0) {
        hcqi_delete(&dev->hooks, s, sizeof *s);
        return why;
    }
    s->dev = dev;
    s->kind = kind;
    s->value = value;
    s->refs = 1;
    s->handles = 1;
    dev->refs++;
    *out = s;
    return HCQ_OK;
}

static void hcqi_notice_append(hcqi_notice **head, hcqi_notice **tail, hcqi_notice *n) {
    n->next = NULL;
    if (*tail != NULL) { (*tail)->next = n; } else { *head = n; }
    *tail = n;
}

static hcqi_notice *hcqi_notice_take(hcqi_notice **head, hcqi_notice **tail) {
    hcqi_notice *n = *head;
    if (n != NULL) { *head = n->next; }
    if (*head == NULL) { *tail = NULL; }
    return n;
}

static hcq_job *hcqi_job_at(const hcq_device *dev, uint64_t number) {
    if (number <= dev->done_prefix || number >= dev->next_number) { return NULL; }
    return dev->window[number & dev->window_mask];
}

/* The heap that it hangs in, having a home. */
static hcqi_waiter **hcqi_waiter_heap(const hcqi_waiter *w) {
    hcqi_signal *s = w->signal;
    if (w->home == HCQI_HOME_FOLLOW) { return &hcqi_job_at(s->dev, w->value)->followers; }
    return w->watch ? &s->reach : &s->held;
}

static void hcqi_waiter_unlink(hcqi_waiter *w) {
    if (w->home == HCQI_HOME_NONE) { return; }
    hcqi_heap_remove(hcqi_waiter_heap(w), w);
    w->home = HCQI_HOME_NONE;
    if (w->watch) {
        w->watch = 0;
        hcqi_watch(-1);
    }
}

#define HCQI_SLEEPER_POINTS 16

/* A host thread that waits for a few points, on its stack: whatever changes one of
   them wakes it, and nothing else. Those with more sleep on hcqi_core.event. */
typedef struct hcqi_sleeper {
    hcqi_waiter waits[HCQI_SLEEPER_POINTS]; /* first */
    uint32_t count;
    uint32_t awake;                    /* atomic: the word it sleeps on */
    struct hcqi_sleeper *next;         /* in hcqi_core.awake */
} hcqi_sleeper;

static void hcqi_sleeper_wake(hcqi_sleeper *sleeper) {
    if (hcqi_atomic_load32(&sleeper->awake)) { return; }
    sleeper->next = hcqi_core.awake;
    hcqi_core.awake = sleeper;
    hcqi_atomic_store32(&sleeper->awake, 1);
}

static void hcqi_line_add(hcqi_line *line, hcqi_line_kind kind, hcq_job *job) {
    job->line = (uint8_t)kind;
    job->ready_next = NULL;
    *(line->tail != NULL ? &line->tail->ready_next : &line->head) = job;
    line->tail = job;
}

/* The first, or NULL. */
static hcq_job *hcqi_line_take(hcqi_line *line) {
    hcq_job *job = line->head;
    if (job == NULL) { return NULL; }
    line->head = job->ready_next;
    if (line->head == NULL) { line->tail = NULL; }
    job->line = HCQI_LINE_NONE;
    return job;
}

static void hcqi_job_ready(hcq_job *job) {
    hcqi_line_add(&hcqi_core.ready, HCQI_LINE_READY, job);
}

static void hcqi_lane_unstall(hcqi_lane *lane) {
    hcq_job *job;
    if (lane->stall.head == NULL) { return; }
    hcqi_watch(-1);
    while ((job = hcqi_line_take(&lane->stall)) != NULL) { hcqi_job_ready(job); }
}

/* The one that waits longest looks again. Called whenever a user of the queue's
   versions is over or stuck, so somebody always will be who calls it once more. */
static void hcqi_queue_feed(hcq_queue *q) {
    hcq_job *job = hcqi_line_take(&q->starved);
    if (job == NULL) { return; }
    hcqi_watch(-1);
    hcqi_job_ready(job);
}

/* Those before it in another line look again, too. */
static void hcqi_ready_push(hcq_job *job) {
    if (job->line == HCQI_LINE_STALLED) { hcqi_lane_unstall(job->lane); }
    while (job->line == HCQI_LINE_STARVED) { hcqi_queue_feed(job->version->queue); }
    if (job->line == HCQI_LINE_NONE) { hcqi_job_ready(job); }
}

static void hcqi_waiter_wake(hcqi_waiter *w) {
    hcqi_waiter_unlink(w);
    if (w->job != NULL) {
        hcqi_ready_push(w->job);
    } else if (w->list != NULL) {
        hcqi_sleeper_wake((hcqi_sleeper *)(void *)w->list);
    } else {
        hcqi_notice_append(&hcqi_core.noticed_head, &hcqi_core.noticed_tail,
                           (hcqi_notice *)(void *)w);
    }
}

static void hcqi_signal_wake(hcqi_signal *s, uint64_t held_to, uint64_t reach_to) {
    while (s->held != NULL && s->held->value <= held_to) { hcqi_waiter_wake(s->held); }
    while (s->reach != NULL && s->reach->value <= reach_to) { hcqi_waiter_wake(s->reach); }
    hcqi_core.changed = 1;
}

/* The first failure stays; a later one may bring it further down. */
static HCQI_COLD void hcqi_signal_fail_from(hcqi_signal *s, uint64_t value, hcq_result result,
                                            hcqi_reason *reason) {
    if (s->failure == HCQ_OK) {
        s->failure = result;
        s->reason = reason;
        if (reason != NULL) { reason->refs++; }
    } else if (value >= s->failed_from) {
        return;
    }
    s->failed_from = value;
    hcqi_signal_wake(s, UINT64_MAX, UINT64_MAX);
}

static void hcqi_signal_raise(hcqi_signal *s, uint64_t value) {
    if (s->failure != HCQ_OK && (value >= s->failed_from || value <= s->value)) { return; }
    if (value <= s->value) {
        hcq_device *dev = hcqi_device_open(s->dev) ? s->dev : NULL; /* else it logs no more */
        hcqi_refuse(dev, HCQ_OK, "a late signal to %llu is ignored: the value is %llu",
                    (unsigned long long)value, (unsigned long long)s->value);
        return;
    }
    s->value = value;
    hcqi_signal_wake(s, value, value);
}

static hcqi_site hcqi_lane_site(const hcqi_lane *lane, uint64_t epoch) {
    uint64_t index = (uint64_t)(lane - lane->dev->lanes);
    hcqi_site site = { lane->dev->serial * HCQI_MAX_LANES + index, epoch };
    return site;
}

/* What a TIMESTAMP of the lane stored, in nanoseconds; or when the host noticed its end. */
static uint64_t hcqi_lane_stamp(const hcqi_lane *lane, uint64_t epoch, const uint64_t *slot) {
    const hcq_backend *backend = lane->dev->backend;
    if (lane->dev->caps.host_times) {
        int before = epoch <= hcqi_atomic_load64(&lane->noticed); /* in a wait */
        return before ? hcqi_atomic_load64(&lane->noticed_ns) : hcq_now_ns();
    }
    uint64_t stored = hcqi_atomic_load64(slot);
    if (backend->stamp_ns == NULL) { return stored; }
    return backend->stamp_ns(lane->dev->self, &lane->base, stored);
}

static uint64_t hcqi_lane_completed(hcqi_lane *lane) {
    if (lane->done == lane->epoch) { return lane->done; }
    const hcq_backend *backend = lane->dev->backend;
    uint64_t value = backend->completed(lane->dev->self, &lane->base, lane->active);
    uint64_t done = lane->base_epoch[lane->active] + value;
    if (value == 0 && lane->shadow_used && lane->done < lane->base_epoch[lane->active]) {
        uint32_t shadow = 1 - lane->active;
        done = lane->base_epoch[shadow] + backend->completed(lane->dev->self, &lane->base, shadow);
    }
    return done > lane->epoch ? lane->epoch : done;
}

static hcq_result hcqi_job_failure(const hcq_job *job) {
    if (job->result != HCQ_OK) { return job->result; }
    return (hcq_result)(int32_t)hcqi_atomic_load32(&job->run_result);
}

/* Why the producer's job failed before it got so far, or HCQ_OK. */
static hcq_result hcqi_producer_result(const hcqi_producer *p) {
    uint64_t failed = hcqi_atomic_load64(&p->job->failed_epoch);
    if (p->job->lane->dev->lost != HCQ_OK) { return p->job->lane->dev->lost; }
    return failed != 0 && p->epoch >= failed ? hcqi_job_failure(p->job) : HCQ_OK;
}

static void hcqi_producer_detach(hcqi_producer *p) {
    hcqi_signal *s = p->signal;
    if (p->slot != NULL) {
        s->stamps--;
        return;
    }
    if (p->prev != NULL) { p->prev->next = p->next; } else { s->pending_head = p->next; }
    if (p->next != NULL) { p->next->prev = p->prev; } else { s->pending_tail = p->prev; }
}

/* Lanes are collected one after the other, so a failure or a higher raise, `above`, may be met
   before a raise that came first: what has been raised by now counts as reached. */
static void hcqi_signal_collect(hcqi_signal *s, const hcqi_producer *above) {
    uint64_t end = above == NULL ? UINT64_MAX : above->value;
    uint32_t left = 0;
    hcqi_producer *p = s->pending_head;
    while (p != NULL && p->value < end && (above == NULL || left < 8)) {
        hcqi_producer *next = p->next;
        int other = above == NULL || p->job->lane != above->job->lane;
        if (other && hcqi_lane_completed(p->job->lane) >= p->epoch &&
            hcqi_producer_result(p) == HCQ_OK) {
            hcqi_producer_detach(p);
            p->early = 1;
            if (p->value > s->value) { hcqi_signal_raise(s, p->value); }
        } else {
            left++;
        }
        p = next;
    }
}

/* `value` will not be raised. Lower values that were handed over may still be, so
   the failure begins above the highest of them; should that one break as well, it
   comes down, and no wait below it is left without an end. */
static HCQI_COLD void hcqi_signal_break(hcqi_signal *s, uint64_t value, hcq_result result,
                                        hcqi_reason *reason) {
    if (s->failure != HCQ_OK && value >= s->failed_from) { return; }
    if (s->pending_head != NULL) { hcqi_signal_collect(s, NULL); }
    const hcqi_producer *below = s->pending_tail;
    while (below != NULL && below->value >= value) { below = below->prev; }
    uint64_t last = below == NULL || below->value < s->value ? s->value : below->value;
    hcqi_signal_fail_from(s, last + 1, result, reason);
}

/* Where a promise to raise `s` to `value` is, were there one. */
static hcqi_producer **hcqi_promise_bucket(const hcqi_signal *s, uint64_t value) {
    return &hcqi_core.promises[(hcqi_hash(s->id, 1) + value) & (HCQI_PROMISES - 1)];
}

/* Who is going to raise `s` to exactly `value`, or NULL. */
static const hcqi_producer *hcqi_promise_find(const hcqi_signal *s, uint64_t value) {
    const hcqi_producer *p = s->promised == 0 ? NULL : *hcqi_promise_bucket(s, value);
    while (p != NULL && (p->signal != s || p->value != value)) { p = p->bucket; }
    return p;
}

static void hcqi_promise_note(hcqi_producer *p) {
    hcqi_producer **bucket = hcqi_promise_bucket(p->signal, p->value);
    p->promised = 1;
    p->bucket = *bucket;
    *bucket = p;
}

/* The promise was given up or carried out. */
static void hcqi_producer_free(hcq_device *dev, hcqi_producer *p) {
    hcqi_signal *s = p->signal;
    if (p->promised) {
        hcqi_producer **link = hcqi_promise_bucket(s, p->value);
        while (*link != p) { link = &(*link)->bucket; }
        *link = p->bucket;
    }
    hcqi_pool_put(&dev->producers, p);
    s->promised--;
    hcqi_signal_unref(s);
}

static void hcqi_producer_insert(hcqi_producer *p) {
    hcqi_signal *s = p->signal;
    hcqi_producer *after = s->pending_tail;
    while (after != NULL && after->value > p->value) { after = after->prev; }
    p->prev = after;
    p->next = after == NULL ? s->pending_head : after->next;
    if (p->next != NULL) { p->next->prev = p; } else { s->pending_tail = p; }
    if (after != NULL) { after->next = p; } else { s->pending_head = p; }
}

/* The smallest handed-over value that satisfies `value`. */
static hcqi_producer *hcqi_producer_find(const hcqi_signal *s, uint64_t value) {
    hcqi_producer *p = s->pending_tail;
    if (p == NULL || p->value < value) { return NULL; }
    if (s->pending_head->value >= value) { return s->pending_head; }
    while (p->prev != NULL && p->prev->value >= value) { p = p->prev; }
    return p;
}

/* ========================================================================== */
/* ---- allocations ----------------------------------------- >>allocations - */

static uint32_t hcqi_table_at(const hcq_device *dev, uint64_t address) {
    uint32_t low = 0, high = dev->table_count; /* first allocation above `address` */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (dev->table[mid]->memory.address <= address) { low = mid + 1; } else { high = mid; }
    }
    return low;
}

static hcqi_allocation *hcqi_allocation_find(const hcq_device *dev, uint64_t address) {
    uint32_t at = hcqi_table_at(dev, address);
    if (at == 0) { return NULL; }
    hcqi_allocation *a = dev->table[at - 1];
    return address - a->memory.address < a->memory.size ? a : NULL;
}

static hcq_buffer hcqi_buffer_of(const hcqi_allocation *a, uint64_t address) {
    hcq_buffer b;
    uint64_t offset = address - a->memory.address;
    b.address = address;
    b.size = a->memory.size - offset;
    b.host = a->memory.host == NULL ? NULL : HCQI_CAST(uint8_t *, a->memory.host) + offset;
    b.device = a->dev;
    b.id = a->id;
    return b;
}

/* The living allocation that `buffer` views, or NULL with *why set. */
static hcqi_allocation *hcqi_buffer_find(const hcq_buffer *buffer, hcq_result *why) {
    *why = HCQ_ERROR_INVALID;
    if (buffer->device == NULL || buffer->size == 0 || buffer->id == 0) { return NULL; }
    *why = HCQ_ERROR_CLOSED;
    if (!hcqi_device_open(buffer->device)) { return NULL; }
    hcqi_allocation *a = hcqi_allocation_find(buffer->device, buffer->address);
    if (a == NULL || a->id != buffer->id) { return NULL; }
    *why = HCQ_ERROR_INVALID;
    if (buffer->size > a->memory.size - (buffer->address - a->memory.address)) { return NULL; }
    return a;
}

/* What is wrong with a buffer that hcqi_buffer_find did not find, for a log. */
static const char *hcqi_buffer_bad(const hcq_buffer *buffer, hcq_result why) {
    if (why != HCQ_ERROR_CLOSED) {
        if (buffer->device == NULL && buffer->size == 0) {
            return "is zero: was not made, or is a view out of range";
        }
        return buffer->address >> 56 == HCQI_TAG ? "is a placeholder of a graph"
                                                 : "is not a buffer, or beyond its end";
    }
    return hcqi_device_open(buffer->device) ? "was freed" : "its device was closed";
}

static int hcqi_allocation_lives(const hcqi_allocation *a) {
    return a == NULL || a->state <= HCQI_DOOMED;
}

/* Where an address lies that is in no buffer that `dev` sees, for a log. */
static HCQI_COLD const char *hcqi_address_bad(const hcq_device *dev, uint64_t address, char *text,
                                              size_t size) {
    unsigned long long at = (unsigned long long)address;
    HCQI_DEVICES(other) {
        if (other == dev || hcqi_allocation_find(other, address) == NULL) { continue; }
        snprintf(text, size, "is 0x%llx, in a buffer of '%s', which '%s' does not see", at,
                 other->label, dev->label);
        return text;
    }
    int freed = 0;
    for (int cached = 0; cached < 2; cached++) {
        const hcqi_allocation *a = dev->freed_tail[cached];
        for (int i = 0; a != NULL && i < HCQI_BREATH; i++, a = a->prev) {
            freed |= address - a->memory.address < a->memory.size;
        }
    }
    uint32_t next = hcqi_table_at(dev, address);
    const hcq_memory *m = next == 0 ? NULL : &dev->table[next - 1]->memory;
    if (address >> 56 == HCQI_TAG) {
        snprintf(text, size, "is 0x%llx, a placeholder, but not one of this graph", at);
    } else if (freed) {
        snprintf(text, size, "is 0x%llx, in a buffer that was freed", at);
    } else if (m != NULL && address - m->address - m->size < 65536) {
        snprintf(text, size, "is 0x%llx, %llu bytes past the end of a buffer of %llu", at,
                 (unsigned long long)(address - m->address - m->size),
                 (unsigned long long)m->size);
    } else {
        snprintf(text, size, "is 0x%llx, not inside a buffer", at);
    }
    return text;
}

/* Is it that device still, and not done? */
static int hcqi_last_unmet(const hcqi_last *s) {
    return hcqi_device_is(s->dev, s->serial) && s->dev->done_prefix < s->number;
}

/* Once the block is freed `dev` is to be asked, too. */
static HCQI_COLD hcq_result hcqi_allocation_user(hcqi_allocation *a, hcq_device *dev) {
    uint32_t i = 0;
    while (i < a->user_count && a->users[i].dev != dev) { i++; }
    hcqi_last *s = i < a->user_count ? &a->users[i]
                  : HCQI_PUSH(&a->dev->hooks, a->users, a->user_count, a->user_capacity);
    if (s == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    if (s->dev != dev || s->serial != dev->serial) { s->mapped = 0; }
    s->dev = dev;
    s->serial = dev->serial;
    return HCQ_OK;
}

/* The address at which `dev` sees `address` inside `a`; maps it, once, when it is
   another device's. 0 = it cannot, with *why set. */
static uint64_t hcqi_allocation_map(hcq_device *dev, hcqi_allocation *a, uint64_t address,
                                    hcq_result *why) {
    uint64_t base = 0;
    uint32_t i = 0;
    *why = HCQ_OK;
    if (a->dev == dev) { return address; }
    while (i < a->user_count && a->users[i].dev != dev) { i++; }
    if (i < a->user_count && a->users[i].serial == dev->serial && a->users[i].mapped) {
        return a->users[i].base + (address - a->memory.address);
    }
    if (!HCQI_GROW(&a->dev->hooks, a->users, a->user_capacity, (uint64_t)a->user_count + 1)) {
        *why = HCQ_ERROR_OUT_OF_MEMORY;
        return 0;
    }
    if (dev->backend->map == NULL ||
        dev->backend->map(dev->self, a->dev->backend, a->dev->self, &a->memory, &base) != HCQ_OK) {
        *why = HCQ_ERROR_FOREIGN;
        return 0;
    }
    (void)hcqi_allocation_user(a, dev); /* for which there is room */
    a->users[i].base = base;
    a->users[i].mapped = 1;
    return base + (address - a->memory.address);
}

static void hcqi_allocation_delete(hcqi_allocation *a) {
    hcq_device *dev = a->dev;
    hcqi_delete(&dev->hooks, a->users, a->user_capacity * sizeof *a->users);
    hcqi_delete(&dev->hooks, a, sizeof *a);
    hcqi_device_unref(dev);
}

static void hcqi_allocation_unname(hcqi_allocation *a) {
    a->names--;
    if (a->names == 0 && a->state == HCQI_TOMB) { hcqi_allocation_delete(a); }
}

/* This device's, or another's that this one can see. Recordings keep the owner's addresses;
   versions are made with those that their device sees. */
static hcqi_allocation *hcqi_address_find(hcq_device *dev, uint64_t address, hcq_result *why) {
    hcqi_allocation *a = hcqi_allocation_find(dev, address);
    if (a != NULL) { return a; }
    *why = HCQ_ERROR_INVALID;
    HCQI_DEVICES(other) {
        a = other == dev ? NULL : hcqi_allocation_find(other, address);
        if (a == NULL) { continue; }
        if (hcqi_allocation_map(dev, a, address, why) != 0) { return a; }
        if (*why == HCQ_ERROR_OUT_OF_MEMORY) { return NULL; }
    }
    return NULL;
}

/* A freed block that may be used again is in its device's list of those, in the order of
   the frees, and in a ring of the blocks of its size and kind, in the same order: what the
   device had to do before it is done in that order, too. So an alloc looks at the newest
   of a ring, which is done where all are, else at the oldest, and a trim at the list's
   first. Only blocks that wait for other devices are in the way of those: some are passed
   over. Blocks that nobody will be given again have a list of their own. */

static hcqi_allocation **hcqi_shelf(hcq_device *dev, uint64_t size, uint32_t flags) {
    uint64_t h = (size + flags) * 0x9E3779B97F4A7C15u;
    hcqi_allocation **link = &dev->shelves[(h >> 58) % HCQI_SHELVES];
    while (*link != NULL && ((*link)->memory.size != size || (*link)->flags != flags)) {
        link = &(*link)->shelf_next;
    }
    return link;
}

/* The list that it is in while it is freed. */
static int hcqi_freed_list(const hcqi_allocation *a) {
    return (a->flags & (HCQI_IMPORTED | HCQ_NO_CACHE)) == 0 &&
           ((a->flags & HCQ_ZEROED) == 0 || a->memory.host != NULL);
}

static void hcqi_freed_put(hcqi_allocation *a) {
    int cached = hcqi_freed_list(a);
    a->state = HCQI_FREED;
    a->prev = a->dev->freed_tail[cached];
    a->next = NULL;
    *(a->prev != NULL ? &a->prev->next : &a->dev->freed_head[cached]) = a;
    a->dev->freed_tail[cached] = a;
    a->dev->freed_bytes += a->memory.size;
    if (!cached) { return; }
    hcqi_allocation **link = hcqi_shelf(a->dev, a->memory.size, a->flags), *first = *link;
    a->same_next = first != NULL ? first : a;
    a->same_prev = first != NULL ? first->same_prev : a;
    a->same_prev->same_next = a;
    a->same_next->same_prev = a;
    if (first != NULL) { return; }
    a->shelf_next = NULL;
    *link = a;
}

static void hcqi_freed_take(hcqi_allocation *a) {
    int cached = hcqi_freed_list(a);
    *(a->prev != NULL ? &a->prev->next : &a->dev->freed_head[cached]) = a->next;
    *(a->next != NULL ? &a->next->prev : &a->dev->freed_tail[cached]) = a->prev;
    a->dev->freed_bytes -= a->memory.size;
    if (!cached) { return; }
    hcqi_allocation **link = hcqi_shelf(a->dev, a->memory.size, a->flags), *next = a->same_next;
    if (*link == a) {
        if (next != a) { next->shelf_next = a->shelf_next; }
        *link = next != a ? next : a->shelf_next;
    }
    a->same_prev->same_next = next;
    next->same_prev = a->same_prev;
}

/* Nobody gets the freed block before what its users have to do by now is done. */
static void hcqi_freed_mark(hcqi_allocation *a) {
    a->number = a->dev->next_number - 1;
    for (uint32_t i = 0; i < a->user_count; i++) {
        hcq_device *other = a->users[i].dev;
        if (hcqi_device_open(other)) { a->users[i].number = other->next_number - 1; }
    }
}

static void hcqi_allocation_retire(hcqi_allocation *a) {
    hcq_device *dev = a->dev;
    uint32_t at = hcqi_table_at(dev, a->memory.address) - 1;
    dev->table_count--;
    memmove(&dev->table[at], &dev->table[at + 1], (dev->table_count - at) * sizeof *dev->table);
    dev->allocated_bytes -= a->memory.size;
    hcqi_core.frees++;
    if (a->names != 0) { hcqi_core.named_frees++; }
    HCQI_ORDER(hcqi_order_freed(a));
    hcqi_freed_mark(a);
    hcqi_freed_put(a);
}

/* Of what the caller named, or NULL: of hcq_free_after, where only running work is left
   before its points, so that its users are known and it is free for whoever comes after
   that, or of the core's own. What leaves the cache does so at the next alloc or free. */
static void hcqi_allocation_free_late(hcqi_allocation *a) {
    if (a == NULL) { return; }
    if (hcqi_allocation_lives(a) && !a->dev->closing) { hcqi_allocation_retire(a); }
    hcqi_allocation_unname(a);
}

/* ========================================================================== */
/* ---- posts: batches on their way to the hardware ------------- >>posting - */
/* The core's lock orders those who add, the device's `giver` those who take: the two only meet
   at `count` and `next` of a piece of the list. */

#define HCQI_POSTS 64
#define HCQI_POST_WAITS 128
typedef struct hcqi_posts {
    uint64_t next;                     /* atomic: hcqi_posts, set when no more come here */
    uint32_t count;                    /* atomic: batches that are complete */
    uint32_t wait_count;
    hcq_batch batches[HCQI_POSTS];
    hcq_lane_point waits[HCQI_POST_WAITS];
} hcqi_posts;

/* Where the waits of one more batch go, up to `count` of them; NULL: out of memory. */
static hcq_lane_point *hcqi_posts_room(hcq_device *dev, uint32_t count) {
    hcqi_posts *last = dev->posts;
    if (last->count == HCQI_POSTS || last->wait_count + count > HCQI_POST_WAITS) {
        uint64_t spare = hcqi_atomic_swap64(&dev->posts_spare, 0);
        hcqi_posts *next = HCQI_CAST(hcqi_posts *, (void *)(uintptr_t)spare);
        if (next == NULL) {
            void *made = dev->hooks.alloc_fn(dev->hooks.user, sizeof *next, 64);
            if (made == NULL) { return NULL; }
            next = HCQI_CAST(hcqi_posts *, made);
        }
        next->next = 0;
        next->count = 0;
        next->wait_count = 0;
        hcqi_atomic_store64(&last->next, (uint64_t)(uintptr_t)next);
        dev->posts = last = next;
    }
    return &last->waits[last->wait_count];
}

/* The batch's waits are where there was room for them. */
static void hcqi_posts_add(hcq_device *dev, const hcq_batch *batch) {
    hcqi_posts *last = dev->posts;
    last->batches[last->count] = *batch;
    last->wait_count += batch->wait_count;
    hcqi_atomic_store32(&last->count, last->count + 1);
}

/* The batches to be given next, as many as lie side by side, or NULL. */
static hcq_batch *hcqi_posts_next(hcq_device *dev, uint32_t *count) {
    for (;;) {
        hcqi_posts *first = dev->posts_out;
        uint64_t next = hcqi_atomic_load64(&first->next); /* before `count`, which then is final */
        *count = hcqi_atomic_load32(&first->count) - dev->posts_given;
        if (*count != 0) { return &first->batches[dev->posts_given]; }
        if (next == 0) { return NULL; }
        dev->posts_out = HCQI_CAST(hcqi_posts *, (void *)(uintptr_t)next);
        dev->posts_given = 0;
        uint64_t old = hcqi_atomic_swap64(&dev->posts_spare, (uint64_t)(uintptr_t)first);
        hcqi_delete(&dev->hooks, (void *)(uintptr_t)old, sizeof *first);
    }
}

/* All were given. */
static void hcqi_posts_delete(hcq_device *dev) {
    uint32_t none;
    if (dev->posts != NULL) { (void)hcqi_posts_next(dev, &none); }
    hcqi_delete(&dev->hooks, (void *)(uintptr_t)dev->posts_spare, sizeof *dev->posts);
    hcqi_delete(&dev->hooks, dev->posts, sizeof *dev->posts);
}

/* ========================================================================== */
/* ---- jobs: held, handed over, over ---------------------------- >>jobs - */

static hcq_lane_point hcqi_lane_point(hcqi_lane *lane, uint64_t epoch) {
    hcq_lane_point point;
    uint32_t counter = lane->active;
    if (epoch <= lane->base_epoch[counter]) { counter = 1 - counter; }
    point.lane = &lane->base;
    point.epoch = epoch;
    point.counter = counter;
    point.order_only = 0;
    point.value = epoch - lane->base_epoch[counter];
    return point;
}

static hcqi_lane *hcqi_lane_of(hcq_lane *lane) { return (hcqi_lane *)(void *)lane; }

/* Grace periods: one that begins now has ended when every batch handed over so
   far is complete, on every lane. After that no native wait can still look at
   a counter value that was reached before it began. */
static void hcqi_grace_begin(void) {
    hcqi_core.grace_started++;
    HCQI_LANES(lane) { lane->grace_target = lane->epoch; }
}

static int hcqi_grace_over(void) {
    HCQI_LANES(lane) {
        if (lane->done < lane->grace_target) { return 0; }
    }
    return 1;
}

static HCQI_COLD void hcqi_grace_check(void) {
    while (hcqi_core.grace_started != hcqi_core.grace_ended && hcqi_grace_over()) {
        int wanted = 0;
        hcqi_core.grace_ended = hcqi_core.grace_started;
        hcqi_core.changed = 1;
        HCQI_LANES(lane) {
            wanted |= lane->grace > hcqi_core.grace_ended;
            wanted |= lane->forget_grace > hcqi_core.grace_ended;
            hcqi_lane_unstall(lane);
        }
        if (wanted) { hcqi_grace_begin(); }
    }
}

/* Asks for a grace period that begins after now; returns its number. */
static uint64_t hcqi_grace_request(void) {
    uint64_t number = hcqi_core.grace_started + 1;
    if (hcqi_core.grace_started == hcqi_core.grace_ended) { hcqi_grace_begin(); }
    return number;
}

/* Its old values need one grace period before the counter can start anew. Begun early, so that the
   swap seldom has to wait. */
static void hcqi_lane_retire_shadow(hcqi_lane *lane) {
    if (lane->shadow_used && lane->grace == 0 && lane->done >= lane->base_epoch[lane->active]) {
        lane->grace = hcqi_grace_request();
        hcqi_grace_check();
    }
}

/* Batches ask for the failures of those that they wait for. Nobody is told to wait
   for what is complete, so after a grace period nobody asks for its failures. */
static HCQI_COLD void hcqi_lane_failed(hcqi_lane *lane, uint64_t epoch, hcq_result result) {
    hcqi_failures *f = &lane->failures;
    if (lane->forget_grace != 0 && hcqi_core.grace_ended >= lane->forget_grace) {
        hcqi_failures_drop(f, lane->forget_to);
        lane->forget_grace = 0;
    }
    if (f->count >= HCQI_FAILURES && lane->forget_grace == 0) {
        lane->forget_to = lane->done;
        lane->forget_grace = hcqi_grace_request();
    }
    hcqi_failures_add(lane->dev, f, epoch, result, NULL);
}

/* Makes sure the next epoch fits the active counter; 0 = not yet. */
static int hcqi_lane_reserve(hcqi_lane *lane) {
    if (lane->epoch + 1 - lane->base_epoch[lane->active] <= lane->limit) { return 1; }
    uint32_t shadow = 1 - lane->active;
    if (lane->shadow_used) {
        hcqi_lane_retire_shadow(lane);
        if (lane->grace == 0 || hcqi_core.grace_ended < lane->grace ||
            lane->host_users[shadow] != 0) {
            return 0;
        }
    }
    lane->dev->backend->counter_reset(lane->dev->self, &lane->base, shadow);
    lane->base_epoch[shadow] = lane->epoch;
    lane->active = shadow;
    lane->shadow_used = 1;
    lane->grace = 0;
    lane->dev->swaps++;
    return 1;
}

/* ---- what a wait needs ---- */

typedef enum hcqi_state { HCQI_REACHED, HCQI_FAILED, HCQI_HANDED, HCQI_UNMET } hcqi_state;

/* Points that only order are merged by lane; the others stay apart, as each may have failed. */
typedef struct hcqi_points {
    hcqi_lane *lane[HCQI_BATCH_WAITS];
    uint64_t epoch[HCQI_BATCH_WAITS];
    uint8_t order[HCQI_BATCH_WAITS];   /* a failure does not matter */
    uint32_t count;
    const hcqi_lane *by;               /* whose batch waits; NULL: the host */
    uint8_t orders;                    /* what is put now: as in `order`; */
    uint8_t open;                      /* some of it is not complete; */
    uint8_t unfit;                     /* something can only be waited for until it is over */
} hcqi_points;

static void hcqi_points_begin(hcqi_points *points, const hcqi_lane *by) {
    points->count = 0;
    points->by = by;
    points->orders = 1;
    points->open = points->unfit = 0;
}

/* Can a batch on `lane` be told to wait for `other` natively? */
static int hcqi_lane_sees(const hcqi_lane *lane, const hcqi_lane *other) {
    hcq_device *dev = lane->dev;
    if (other->dev == dev) { return 1; }
    return !dev->test.no_native_wait && dev->backend->can_wait != NULL &&
           dev->backend->can_wait(dev->self, other->dev->backend, &other->base);
}

static void hcqi_points_put(hcqi_points *points, hcqi_lane *lane, uint64_t epoch) {
    uint8_t order = points->orders;
    if (epoch <= lane->done) { return; }
    points->open = 1;
    for (uint32_t i = 0; i < points->count; i++) {
        if (points->lane[i] != lane) { continue; }
        if (points->epoch[i] == epoch || (order && points->epoch[i] > epoch)) {
            points->order[i] &= order;
            return;
        }
        if (points->order[i] && points->epoch[i] < epoch) {
            points->epoch[i] = epoch;
            points->order[i] = order;
            return;
        }
    }
    if (points->count == HCQI_BATCH_WAITS ||
        (points->by != NULL && !hcqi_lane_sees(points->by, lane))) {
        points->unfit = 1;
        return;
    }
    points->lane[points->count] = lane;
    points->epoch[points->count] = epoch;
    points->order[points->count++] = order;
}

static hcqi_state hcqi_state_exact(hcqi_signal *s, uint64_t number, hcq_result *why,
                                   hcqi_points *points) {
    hcq_device *dev = s->dev;
    if (number >= dev->next_number) {
        *why = dev->closing ? HCQ_ERROR_CANCELLED : dev->lost;
        return *why != HCQ_OK ? HCQI_FAILED : HCQI_UNMET;
    }
    hcq_job *job = hcqi_job_at(dev, number);
    if (job == NULL) {
        *why = hcqi_failures_find(&dev->failures, number);
        return *why != HCQ_OK ? HCQI_FAILED : HCQI_REACHED;
    }
    if (job->state != HCQI_JOB_HANDED) { return HCQI_UNMET; }
    if (job->result != HCQ_OK) {
        points->unfit = 1; /* failed: no epoch says so, only its end does */
        return HCQI_HANDED;
    }
    hcqi_points_put(points, job->lane, job->epoch);
    return HCQI_HANDED;
}

/* The prefix up to `number`: the last job of it on every lane. */
static hcqi_state hcqi_state_timeline(hcqi_signal *s, uint64_t number, hcq_result *why,
                                      hcqi_points *points) {
    hcq_device *dev = s->dev;
    if (number <= dev->done_prefix) { return HCQI_REACHED; }
    if (dev->lost != HCQ_OK || (dev->closing && number >= dev->next_number)) {
        *why = dev->lost != HCQ_OK ? dev->lost : HCQ_ERROR_CANCELLED;
        return HCQI_FAILED;
    }
    if (number > dev->handed_prefix) { return HCQI_UNMET; }
    for (uint32_t k = 0; k < dev->lane_count; k++) {
        hcq_job *job = dev->lanes[k].run_tail;
        while (job != NULL && job->number > number) { job = job->prev; }
        if (job != NULL) { hcqi_points_put(points, job->lane, job->epoch); }
    }
    return HCQI_HANDED;
}

static hcqi_state hcqi_state_of(hcqi_signal *s, uint64_t value, hcq_result *why,
                                hcqi_points *points) {
    *why = HCQ_OK;
    if (s->kind == HCQI_EXACT) { return hcqi_state_exact(s, value, why, points); }
    if (s->kind == HCQI_TIMELINE) { return hcqi_state_timeline(s, value, why, points); }
    if (s->value >= value) { return HCQI_REACHED; }
    if (s->failure != HCQ_OK && value >= s->failed_from) {
        *why = s->failure;
        return HCQI_FAILED;
    }
    if (s->handles == 0 && (s->promised == 0 || value > s->promised_top)) {
        *why = HCQ_ERROR_CANCELLED;
        return HCQI_FAILED;
    }
    hcqi_producer *p = hcqi_producer_find(s, value);
    if (p == NULL) { return HCQI_UNMET; }
    hcqi_points_put(points, p->job->lane, p->epoch);
    return HCQI_HANDED;
}

static hcqi_state hcqi_state_now(hcqi_signal *s, uint64_t value, hcq_result *why) {
    hcqi_points points;
    hcqi_points_begin(&points, NULL);
    return hcqi_state_of(s, value, why, &points);
}

/* ---- held ---- */

static int hcqi_is_held(const hcq_job *job) {
    return job != NULL && job->state != HCQI_JOB_HANDED;
}

/* The first held job of a device from a number on; NULL: no more. */
static hcq_job *hcqi_held_from(const hcq_device *dev, uint64_t number) {
    if (dev->held == 0) { return NULL; }
    if (number <= dev->handed_prefix) { number = dev->handed_prefix + 1; }
    while (number < dev->next_number && !hcqi_is_held(hcqi_job_at(dev, number))) { number++; }
    return hcqi_job_at(dev, number);
}

/* Is it the service thread's turn? `due`: to begin, as all before it is complete. */
static int hcqi_job_hosts(const hcq_job *job, int due) {
    if (job->state == HCQI_JOB_CALLING) { return !due; }
    return job->state == HCQI_JOB_DUE && (!due || job->lane->done >= job->due);
}

/* Seldom: a job ended while it was about to be looked at. */
static void hcqi_ready_remove(hcq_job *job) {
    hcq_job **link = &hcqi_core.ready.head;
    hcq_job *before = NULL;
    while (*link != job) {
        before = *link;
        link = &before->ready_next;
    }
    *link = job->ready_next;
    if (hcqi_core.ready.tail == job) { hcqi_core.ready.tail = before; }
}

static void hcqi_lane_wake(hcqi_lane *lane) {
    if (lane->lists[0].head != NULL) { hcqi_ready_push(lane->lists[0].head); }
    for (hcq_job *job = lane->lists[1].head; job != NULL; job = job->next) { hcqi_ready_push(job); }
}

static void hcqi_waiter_link(hcqi_waiter *w, int reach) {
    const hcqi_signal *s = w->signal;
    int follows = s->kind == HCQI_EXACT && hcqi_job_at(s->dev, w->value) != NULL;
    w->home = follows ? HCQI_HOME_FOLLOW : HCQI_HOME_SIGNAL;
    w->watch = (uint8_t)reach;
    hcqi_heap_insert(hcqi_waiter_heap(w), w);
    if (reach) { hcqi_watch(1); }
}

static void hcqi_job_unlink_waits(hcq_job *job) {
    for (hcqi_waiter *w = job->at; w != NULL && w->segment <= job->segment; w = w->list) {
        hcqi_waiter_unlink(w);
    }
}

typedef struct hcqi_resolve {
    hcq_job *job;
    hcqi_points points;
    int need_reach;                    /* a host command: native waits do not help */
    int settle;                        /* one failed: others that order are to be over */
    int blocked;
    hcq_result failure;
    hcqi_reason *reason;               /* of the wait that `failure` is of */
    hcqi_site past[4];                 /* who raised what was reached; for the profile */
    uint32_t past_count;
} hcqi_resolve;

/* Looks at one wait; links it if it is not safe yet. */
static void hcqi_resolve_one(hcqi_resolve *r, hcqi_waiter *w) {
    hcqi_points *points = &r->points;
    hcqi_signal *s = w->signal;
    hcq_result why;
    if (r->settle && !(w->order || w->job->ends)) { return; }
    points->orders = s->kind == HCQI_TIMELINE || w->order;
    points->open = points->unfit = 0;
    hcqi_state state = hcqi_state_of(s, w->value, &why, points);
    if (state == HCQI_REACHED && s->source.at != 0 && r->past_count < 4) {
        r->past[r->past_count++] = s->source;
    }
    if (state == HCQI_REACHED || (r->failure != HCQ_OK && !r->settle)) { return; }
    if (state == HCQI_FAILED) {
        if (w->order || r->failure != HCQ_OK) { return; }
        r->failure = why;
        r->reason = hcqi_signal_reason(s, w->value);
        return;
    }
    int native = !points->unfit && !(points->open && r->need_reach); /* or complete by now */
    if (state == HCQI_HANDED && native) { return; }
    r->blocked = 1;
    hcqi_waiter_link(w, state == HCQI_HANDED);
}

/* Devices whose memory it names, by slot; `kept`: with these values, NULL: with its own. */
static uint64_t hcqi_version_named(const hcqi_version *v, const uint64_t *kept) {
    if (kept == NULL && v->has_values) { kept = v->values; }
    return v->foreign | (kept == NULL ? 0 : *kept);
}

static const hcqi_segment *hcqi_job_segment(const hcq_job *job) {
    return job->version == NULL ? NULL : &job->version->segments[job->segment];
}

static uint32_t hcqi_job_segments(const hcq_job *job) {
    return job->version == NULL ? 1 : job->version->segment_count;
}

/* An overlapping launch's end is held until its waits are reached, not to be in others' way. */
static int hcqi_job_concludes(const hcq_job *job) {
    return job->version == NULL && job->launch != NULL && !job->launch->full;
}

/* ---- collected ---- */

/* Both lists are in the order of submission. */
static void hcqi_job_list(hcq_job *job) {
    hcqi_lane *lane = job->lane;
    hcqi_line *list = &lane->lists[job->unordered];
    job->state = HCQI_JOB_HELD;
    job->next = NULL;
    job->prev = list->tail;
    *(list->tail != NULL ? &list->tail->next : &list->head) = job;
    list->tail = job;
    lane->held++;
    lane->dev->held++;
    HCQI_ORDER(hcqi_order_submitted(job));
}

static void hcqi_job_unlist(hcq_job *job) {
    hcqi_lane *lane = job->lane;
    hcqi_line *list = &lane->lists[job->unordered];
    *(job->next != NULL ? &job->next->prev : &list->tail) = job->prev;
    *(job->prev != NULL ? &job->prev->next : &list->head) = job->next;
    if (!job->unordered && job->prev == NULL && job->next != NULL) { hcqi_ready_push(job->next); }
    lane->held--;
    lane->dev->held--;
}

static void hcqi_prefix_advance(hcq_device *dev) {
    uint64_t done = dev->done_prefix;
    while (done + 1 < dev->next_number && dev->window[(done + 1) & dev->window_mask] == NULL) {
        done++;
    }
    const hcq_job *held = hcqi_held_from(dev, done + 1);
    uint64_t handed = (held != NULL ? held->number : dev->next_number) - 1;
    if (done == dev->done_prefix && handed == dev->handed_prefix) { return; }
    dev->done_prefix = done;
    dev->handed_prefix = handed;
    dev->timeline->value = done;
    hcqi_signal_wake(dev->timeline, handed, done);
}

static void hcqi_job_free(hcq_job *job) {
    hcq_device *dev = job->lane->dev;
    HCQI_ORDER(hcqi_order_over(job));
    for (hcqi_waiter *w = &job->wait, *next; w != NULL; w = next) {
        next = w->list;
        if (w->signal != NULL) {
            w->signal->waits--;
            hcqi_signal_unref(w->signal);
        }
        if (w != &job->wait) { hcqi_pool_put(&dev->waiters, w); }
    }
    if (job->line == HCQI_LINE_READY) { hcqi_ready_remove(job); }
    hcqi_launch *launch = job->launch;
    hcqi_pool_put(&dev->jobs, job);
    if (launch != NULL) { launch->queue->graph->calls->release(launch); }
}

/* It has happened on the device, or the job failed there before it got so far. */
static void hcqi_producer_land(hcqi_lane *lane, hcqi_producer *p) {
    hcq_result result = hcqi_producer_result(p);
    if (!p->early) { hcqi_producer_detach(p); }
    lane->land_head = p->list;
    if (p->list == NULL) { lane->land_tail = NULL; }
    if (result != HCQ_OK) {
        if (p->slot == NULL) { hcqi_signal_break(p->signal, p->value, result, NULL); }
    } else if (p->slot != NULL) {
        p->signal->timestamp = hcqi_lane_stamp(lane, p->epoch, p->slot);
    } else if (!p->early) {
        p->signal->source = hcqi_lane_site(lane, p->epoch);
        if (p->signal->pending_head != NULL) { hcqi_signal_collect(p->signal, p); }
        hcqi_signal_raise(p->signal, p->value);
    }
    hcqi_producer_free(lane->dev, p);
}

/* Room for so many numbers, a power of two; 0 = out of memory. */
static HCQI_COLD int hcqi_window_resize(hcq_device *dev, uint64_t numbers) {
    size_t bytes = (size_t)numbers * sizeof(hcq_job *);
    hcq_job **window = HCQI_CAST(hcq_job **, hcqi_new(&dev->hooks, bytes));
    if (window == NULL) { return 0; }
    for (uint64_t n = dev->done_prefix + 1; n < dev->next_number; n++) {
        window[n & (numbers - 1)] = dev->window[n & dev->window_mask];
    }
    hcqi_delete(&dev->hooks, dev->window, (size_t)(dev->window_mask + 1) * sizeof *window);
    dev->window = window;
    dev->window_mask = numbers - 1;
    return 1;
}

static uint64_t hcqi_power_of_two(uint64_t least) {
    uint64_t power = 2;
    while (power < least) { power *= 2; }
    return power;
}

/* Some jobs are over. After a burst of held work the window goes back to its first size. */
static void hcqi_jobs_retired(hcq_device *dev) {
    hcqi_prefix_advance(dev);
    if (dev->pending != 0 || dev->next_number - dev->done_prefix != 1) { return; }
    if (dev->window_mask < 2 * (uint64_t)dev->desc.held_pool) { return; }
    uint64_t base = hcqi_power_of_two(dev->desc.held_pool);
    if (dev->window_mask >= base * 2) { (void)hcqi_window_resize(dev, base); }
}

static void hcqi_job_cover(const hcq_job *job) {
    for (uint32_t i = 0; i < job->version->count; i++) {
        const hcq_packet *p = &job->version->packets[i];
        if (p->kind == HCQ_COMMAND_EXEC && !HCQ_GRID_IS_EMPTY(p->u.exec.grid)) {
            p->u.exec.program->info.runs++;
        }
    }
}

static void hcqi_job_unstick(hcq_job *job) {
    if (!job->stuck) { return; }
    job->stuck = 0;
    job->version->stuck--;
}

static void hcqi_version_release(hcqi_version *v, uint64_t *kept);

/* The job is over: its number is done, it goes away. hcqi_jobs_retired follows. */
static void hcqi_job_retire(hcq_job *job) {
    hcq_device *dev = job->lane->dev;
    hcq_result result = hcqi_job_failure(job);
    if (result == HCQ_OK) { result = dev->lost; }
    if (job->version != NULL) {
        if (result == HCQ_OK && (dev->desc.flags & HCQ_DEVICE_COVERAGE)) { hcqi_job_cover(job); }
        if (result == HCQ_OK && job->version->profiled && dev->profile != NULL) {
            dev->profile->collect(job);
        }
        hcqi_job_unstick(job);
        hcqi_version_release(job->version, job->values);
    }
    if (result != HCQ_OK && hcqi_failures_find(&dev->failures, job->number) == HCQ_OK) {
        hcqi_failures_add(dev, &dev->failures, job->number, result, NULL);
    }
    while (job->followers != NULL) { hcqi_waiter_wake(job->followers); }
    dev->window[job->number & dev->window_mask] = NULL;
    dev->pending--;
    hcqi_job_free(job);
}

/* Collects what is complete on a lane; 1 = there was something. */
static int hcqi_reap(hcqi_lane *lane) {
    if (lane->done == lane->epoch) { return 0; }
    uint64_t done = lane->dev->lost != HCQ_OK ? lane->epoch : hcqi_lane_completed(lane);
    if (done == lane->done) { return 0; }
    hcqi_atomic_store64(&lane->done, done);
    while (lane->land_head != NULL && lane->land_head->epoch <= done) {
        hcqi_producer_land(lane, lane->land_head);
    }
    while (lane->run_head != NULL && lane->run_head->epoch <= done) {
        hcq_job *job = lane->run_head;
        lane->run_head = job->next;
        if (job->next != NULL) { job->next->prev = NULL; } else { lane->run_tail = NULL; }
        lane->running--;
        hcqi_job_retire(job);
    }
    hcqi_jobs_retired(lane->dev);
    if (lane->limit != HCQI_MAX_VALUE) { hcqi_lane_retire_shadow(lane); }
    if (hcqi_core.grace_started != hcqi_core.grace_ended) { hcqi_grace_check(); }
    hcqi_core.changed = 1;
    return 1;
}

static void hcqi_reap_device(hcq_device *dev) {
    for (uint32_t k = 0; k < dev->lane_count; k++) { hcqi_reap(&dev->lanes[k]); }
}

/* What costs nothing to know: whoever submits is not waiting for it. */
static void hcqi_reap_hurried(hcq_device *dev) {
    for (uint32_t k = 0; k < dev->lane_count; k++) {
        dev->lanes[k].base.hurried = 1;
        hcqi_reap(&dev->lanes[k]);
        dev->lanes[k].base.hurried = 0;
    }
}

static void hcqi_reap_all(void) {
    HCQI_LANES(lane) { hcqi_reap(lane); }
}

static void hcqi_signal_refresh(hcqi_signal *s) {
    if (s->kind != HCQI_USER) { hcqi_reap_device(s->dev); }
    if (s->pending_head != NULL || s->stamps != 0) { hcqi_reap_all(); }
}

/* ---- handed over, or failed ---- */

static HCQI_COLD void hcqi_error_note(hcq_device *dev, hcq_result result, const hcqi_version *v,
                                      const hcq_packet *packet, const char *native, int64_t code) {
    hcq_error_info *e = &dev->error;
    if (e->result != HCQ_OK) { return; }
    memset(e, 0, sizeof *e);
    e->result = result;
    e->command = packet == NULL ? -1 : (int32_t)packet->index;
    e->native_code = code;
    if (v != NULL) { hcqi_copy_label(e->queue, v->recording.label); }
    if (packet != NULL && packet->kind == HCQ_COMMAND_EXEC) {
        hcqi_copy_label(e->program, packet->u.exec.program->info.label);
    }
    hcqi_copy_label(e->native, native);
    char command[24] = "";
    if (packet != NULL) { snprintf(command, sizeof command, " command %d", e->command); }
    hcqi_refuse(dev, result, "queue '%s'%s: %s%s%s", e->queue, command, hcq_result_text(result),
                native == NULL ? "" : " in ", native == NULL ? "" : native);
}

/* Breaks what the packets that will not run would have raised. */
static void hcqi_job_break_promises(hcq_job *job, hcq_result result, hcqi_reason *reason) {
    while (job->producers != NULL) {
        hcqi_producer *p = job->producers;
        job->producers = p->list;
        if (p->slot == NULL) { hcqi_signal_break(p->signal, p->value, result, reason); }
        hcqi_producer_free(job->lane->dev, p);
    }
}

static const char *hcqi_job_label(const hcq_job *job) {
    if (job->version != NULL) { return job->version->recording.label; }
    if (job->allocs) { return "alloc"; }
    return job->frees != NULL ? "free" : "";
}

/* All of the job that will be handed over has been: it runs, or is over. */
static void hcqi_job_finish(hcq_job *job) {
    hcqi_lane *lane = job->lane;
    hcq_device *dev = lane->dev;
    if (job->state != HCQI_JOB_NEW) { hcqi_job_unlist(job); }
    if (job->version != NULL && job->values == NULL) { job->version->held--; }
    job->state = HCQI_JOB_HANDED;
    if (job->frees != NULL) {
        hcqi_allocation_free_late(job->frees);
        job->frees = NULL;
    }
    while (job->followers != NULL) { hcqi_waiter_wake(job->followers); }
    if (dev->handed_prefix + 1 == job->number) {
        if (job->number + 1 != dev->next_number || dev->timeline->held != NULL) {
            hcqi_prefix_advance(dev);
        } else { /* the usual: the latest, and nobody waits for that */
            dev->handed_prefix = job->number;
        }
    }
    hcqi_core.changed = 1;
    if (job->epoch <= lane->done) {
        hcqi_job_retire(job);
        hcqi_jobs_retired(dev);
        return;
    }
    hcq_job *after = lane->run_tail; /* by epoch: that of one that failed half-way may be old */
    while (after != NULL && after->epoch > job->epoch) { after = after->prev; }
    job->prev = after;
    job->next = after == NULL ? lane->run_head : after->next;
    if (job->next != NULL) { job->next->prev = job; } else { lane->run_tail = job; }
    if (after != NULL) { after->next = job; } else { lane->run_head = job; }
    lane->running++;
}

/* `reason`: of the wait by which it fails; the end of a submission has that of its queues. */
static HCQI_COLD void hcqi_job_fail(hcq_job *job, hcq_result result, hcqi_reason *reason) {
    hcq_device *dev = job->lane->dev;
    if (reason != NULL && !job->ends) {
        hcqi_refuse(dev, result, "submission #%llu '%s' fails: %s",
                    (unsigned long long)job->submission, hcqi_job_label(job), reason->text);
    }
    if (hcqi_job_failure(job) == HCQ_OK) { job->result = result; }
    hcqi_failures_add(dev, &dev->failures, job->number, hcqi_job_failure(job), reason);
    hcqi_atomic_store32(&dev->any_failed, 1);
    hcqi_job_unlink_waits(job);
    hcqi_job_unstick(job);             /* what it has left to do runs */
    hcqi_job_break_promises(job, result, reason);
    HCQI_ORDER(hcqi_order_failed(job));
    hcqi_job_finish(job);
}

/* A slice that fails before it was handed over is not over before those of its graph's earlier
   launches on its lane: a later launch may follow it in place of them. */
static HCQI_COLD void hcqi_job_trail(hcq_job *job) {
    const hcqi_launch *launch = job->version == NULL ? NULL : job->launch;
    const hcq_job *before = launch == NULL ? NULL : job->lane->run_tail;
    while (before != NULL && (before->launch == NULL || before->launch->queue != launch->queue)) {
        before = before->prev;
    }
    if (before != NULL && before->epoch > job->epoch) { job->epoch = before->epoch; }
}

/* The backend does not take it. */
static void hcqi_job_refused(hcq_job *job, hcq_result result, const char *native) {
    hcq_device *dev = job->lane->dev;
    if (hcqi_atomic_load32(&dev->loss) == 0) { /* else that says more */
        hcqi_error_note(dev, result, job->version, NULL, native, result);
    }
    dev->refused = job->number;
    hcqi_job_trail(job);
    hcqi_job_fail(job, result, NULL);
}

/* What the segment raises, with the last one the submission, now belongs to the job's epoch. */
static void hcqi_job_attach(hcq_job *job) {
    hcqi_lane *lane = job->lane;
    while (job->producers != NULL && job->producers->segment <= job->segment) {
        hcqi_producer *p = job->producers;
        job->producers = p->list;
        p->epoch = job->epoch;
        p->list = NULL;
        *(lane->land_tail != NULL ? &lane->land_tail->list : &lane->land_head) = p;
        lane->land_tail = p;
        if (p->slot != NULL) {
            p->signal->stamps++;
        } else {
            hcqi_producer_insert(p);
            hcqi_signal_wake(p->signal, p->value, 0);
        }
    }
}

static hcq_result hcqi_job_hand(hcq_job *job, const hcqi_points *points) {
    hcqi_lane *lane = job->lane;
    hcq_device *dev = lane->dev;
    const hcqi_segment *seg = hcqi_job_segment(job);
    hcq_lane_point few[HCQI_BATCH_WAITS], *waits = few;
    hcq_batch batch;
    uint32_t count = 0;
    if (dev->posts != NULL && (waits = hcqi_posts_room(dev, points->count)) == NULL) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < points->count; i++) {
        /* A lane is in order; there one only asks for a failure. */
        if (points->lane[i] == lane && points->order[i]) { continue; }
        waits[count] = hcqi_lane_point(points->lane[i], points->epoch[i]);
        waits[count++].order_only = points->order[i];
    }
    batch.recording = seg == NULL ? NULL : &job->version->recording;
    batch.first = seg == NULL ? 0 : seg->first;
    batch.count = seg == NULL ? 0 : seg->works;
    batch.waits = waits;
    batch.wait_count = count;
    batch.done = hcqi_lane_point(lane, lane->epoch + 1);
    batch.job = job;
    batch.posted = lane->posted;
    batch.prepared = NULL;
    batch.result = HCQ_OK;
    hcq_result r = dev->backend->submit(dev->self, &lane->base, &batch);
    if (r < 0) { return r; }
    if (r == HCQ_NOT_READY && dev->posts != NULL) { hcqi_posts_add(dev, &batch); }
    lane->epoch++;
    job->epoch = lane->epoch;
    if (seg != NULL) { job->version->segments[job->segment].epoch = lane->epoch; }
    uint64_t uses = seg == NULL ? 0 : hcqi_version_named(job->version, NULL);
    for (uint32_t i = 0; i < points->count; i++) {
        const hcq_device *other = points->lane[i]->dev;
        if (other != dev) { uses |= (uint64_t)1 << other->slot; }
    }
    HCQI_BITS(slot, uses) { lane->foreign[slot] = lane->epoch; }
    int idle = lane->done + 1 == lane->epoch; /* else the service thread looks after it */
    if (hcqi_core.watchers != 0 && idle && dev->backend->watch == NULL) { hcqi_service_kick(dev); }
    if (r == HCQ_NOT_READY) { hcqi_core.dirty |= (uint64_t)1 << dev->slot; }
    if (job->producers != NULL) { hcqi_job_attach(job); }
    return HCQ_OK;
}

/* 1 = there is more of it. */
static HCQI_HOT int hcqi_job_next(hcq_job *job) {
    if (++job->segment < hcqi_job_segments(job)) { return 1; }
    hcqi_job_finish(job);
    return 0;
}

/* What the end of an overlapping launch waits for is over: it needs no place in its lane. */
static HCQI_COLD void hcqi_job_conclude(hcq_job *job) {
    HCQI_ORDER((void)hcqi_order_segment(job));
    while (job->producers != NULL) {
        hcqi_producer *p = job->producers;
        job->producers = p->list;
        if (p->signal->pending_head != NULL) { hcqi_signal_collect(p->signal, p); }
        hcqi_signal_raise(p->signal, p->value);
        hcqi_producer_free(job->lane->dev, p);
    }
    (void)hcqi_job_next(job);
}

static int hcqi_job_take(hcq_job *job);

/* Looks at what a job waits for: HCQ_OK, why it fails, or HCQ_NOT_READY: it waits on. */
static hcq_result hcqi_job_look(hcqi_resolve *r) {
    hcq_job *job = r->job;
    const hcqi_segment *seg = hcqi_job_segment(job);
    hcq_result failure = HCQ_OK;
    hcqi_job_unstick(job);
    for (r->settle = 0;; r->settle = 1) {
        hcqi_job_unlink_waits(job);
        hcqi_points_begin(&r->points, job->lane);
        r->need_reach = r->settle || (seg != NULL && seg->host) || hcqi_job_concludes(job);
        r->blocked = 0;
        r->failure = HCQ_OK;
        for (hcqi_waiter *w = job->at; w != NULL && w->segment <= job->segment; w = w->list) {
            hcqi_resolve_one(r, w);
        }
        if (r->failure != HCQ_OK) { failure = r->failure; }
        int settles = (job->launch != NULL || job->ends) && !r->settle;
        if (failure == HCQ_OK || !settles) { break; }
    }
    if (failure != HCQ_OK && !(r->settle && r->blocked)) { return failure; }
    if (!r->blocked) { return HCQ_OK; }
    if (job->version != NULL && job->values == NULL) { /* in the middle of its version, on which */
        job->stuck = 1;                                /* nobody else may count */
        job->version->stuck++;
        hcqi_queue_feed(job->version->queue);
    }
    return HCQ_NOT_READY;
}

/* The lane's counter has room; 1 = there is more to look at. */
static HCQI_HOT int hcqi_job_pass(const hcqi_resolve *r) {
    hcq_job *job = r->job;
    hcq_device *dev = job->lane->dev;
    hcq_result result = HCQ_OK;
    HCQI_ORDER(result = hcqi_order_segment(job));
    if (result == HCQ_OK) { result = hcqi_job_hand(job, &r->points); }
    if (result != HCQ_OK) {
        hcqi_job_refused(job, result, "submit");
        return 0;
    }
    if (job->launch == NULL && hcqi_profile_on(dev)) { dev->profile->waits(r); }
    return hcqi_job_next(job);
}

/* Hands over the next segment if that may go; 1 = did, and there is more to look at. */
static int hcqi_job_step(hcq_job *job) {
    hcqi_resolve r;
    hcq_result result = hcqi_job_failure(job); /* cancelled */
    if (result == HCQ_OK) { result = job->lane->dev->lost; }
    r.job = job;
    r.points.count = 0;
    r.past_count = 0;
    r.reason = NULL;
    while (job->at != NULL && job->at->segment < job->segment) { job->at = job->at->list; }
    int waits = job->at != NULL && job->at->segment == job->segment;
    if (result == HCQ_OK && waits) { result = hcqi_job_look(&r); }
    if (result == HCQ_NOT_READY) { return 0; }
    if (result != HCQ_OK) {
        hcqi_job_trail(job);
        hcqi_job_fail(job, result, r.reason);
        return 0;
    }
    if (job->values != NULL && !hcqi_job_take(job)) { return 0; }
    const hcqi_segment *seg = hcqi_job_segment(job);
    if (seg != NULL && seg->host) { /* the service thread's, once all before it is complete */
        HCQI_ORDER((void)hcqi_order_segment(job));
        job->state = HCQI_JOB_DUE;
        job->due = job->unordered ? job->epoch : job->lane->epoch;
        hcqi_service_kick(job->lane->dev);
        return 0;
    }
    if (hcqi_job_concludes(job)) {
        hcqi_job_conclude(job);
        return 0;
    }
    if (!hcqi_lane_reserve(job->lane)) {
        if (job->lane->stall.head == NULL) { hcqi_watch(1); }
        hcqi_line_add(&job->lane->stall, HCQI_LINE_STALLED, job);
        return 0;
    }
    return hcqi_job_pass(&r);
}

static void hcqi_job_advance(hcq_job *job) {
    if (job->state == HCQI_JOB_HANDED || job->state == HCQI_JOB_CALLING) { return; }
    int ends = hcqi_job_failure(job) != HCQ_OK || job->lane->dev->lost != HCQ_OK;
    if (job->state == HCQI_JOB_DUE && !ends) { return; }
    if (!job->unordered && job->lane->lists[0].head != job) { return; }
    while (hcqi_job_step(job)) { }
}

/* ---- notifications ---- */

static void hcqi_notice_free(hcqi_notice *n) {
    hcqi_signal *s = n->wait.signal;
    hcqi_slots_remove(&s->dev->notices, n->id);
    hcqi_pool_put(&s->dev->notice_pool, n);
    hcqi_signal_unref(s);
}

/* The first of the list looks at its point: it is due, or waits on. */
static HCQI_COLD void hcqi_notice_look(void) {
    hcqi_notice *n = hcqi_notice_take(&hcqi_core.noticed_head, &hcqi_core.noticed_tail);
    hcqi_state state = hcqi_state_now(n->wait.signal, n->wait.value, &n->result);
    if (n->fn != NULL && (state == HCQI_HANDED || state == HCQI_UNMET)) {
        hcqi_waiter_link(&n->wait, state == HCQI_HANDED);
        return;
    }
    hcqi_notice_append(&hcqi_core.due_head, &hcqi_core.due_tail, n);
}

/* Iterative, too: what a notification releases is run by the outermost call. */
static HCQI_COLD void hcqi_run_due(void) {
    hcqi_notice *n, now;
    if (hcqi_notifying) { return; }
    hcqi_notifying = 1;
    hcqi_enter();
    while ((n = hcqi_notice_take(&hcqi_core.due_head, &hcqi_core.due_tail)) != NULL) {
        now = *n;
        now.next = hcqi_core.called;
        hcqi_core.called = &now;
        HCQI_ORDER(hcqi_order_seen(n->wait.signal, n->wait.value, n->result));
        hcqi_notice_free(n);
        hcqi_unlock();
        if (now.fn != NULL) { now.fn(now.user, now.result); }
        hcqi_enter();
        hcqi_notice **link = &hcqi_core.called;
        while (*link != NULL && *link != &now) { link = &(*link)->next; }
        if (*link != NULL) { *link = now.next; } /* else it forked: the child's list is empty */
    }
    hcqi_notifying = 0;
    hcqi_unlock();
}

/* Iterative: whatever a step releases joins the lists. 0 = there is more. */
static int hcqi_drain_some(uint32_t limit) {
    for (; limit > 0; limit--) {
        hcq_job *job = hcqi_line_take(&hcqi_core.ready);
        if (job != NULL) {
            hcqi_job_advance(job);
        } else if (hcqi_core.noticed_head != NULL) {
            hcqi_notice_look();
        } else {
            return 1;
        }
    }
    return 0;
}

static void hcqi_drain(void) {
    while (!hcqi_drain_some(UINT32_MAX)) { }
}

/* For which the calling thread's outermost call builds a version, letting go of the lock. */
static HCQI_THREAD_LOCAL const hcq_job *hcqi_builder;

/* The first that waits for a version looks again, as one that may build it. 0 = there is none. */
static int hcqi_unbuilt_next(void) {
    hcq_job *job = hcqi_builder != NULL ? NULL : hcqi_line_take(&hcqi_core.unbuilt);
    if (job == NULL) { return 0; }
    hcqi_builder = job;
    hcqi_job_advance(job);
    hcqi_builder = NULL;
    return 1;
}

/* ========================================================================== */
/* ---- service: what happens when the lock is free ------------ >>service - */

/* ---- batches are given to the hardware ---- */

HCQI_DEF hcq_result hcq_backend_job_result(const hcq_job *job) {
    return (hcq_result)(int32_t)hcqi_atomic_load32(&job->run_result);
}

static void hcqi_leave(void);

HCQI_DEF HCQI_COLD void hcq_backend_job_fail(hcq_job *job, const hcq_lane_point *done,
                                             hcq_result result, const hcq_packet *packet,
                                             const char *native, int64_t native_code) {
    hcqi_lane *lane = job->lane;
    hcq_backend_lock(1);
    if (packet != NULL || native != NULL) {
        hcqi_error_note(lane->dev, result, job->version, packet, native, native_code);
    }
    if (done != NULL && hcqi_atomic_load32(&job->run_result) == 0) {
        hcqi_atomic_store32(&job->run_result, (uint32_t)result);
        hcqi_atomic_store64(&job->failed_epoch, done->epoch);
    }
    if (done != NULL) {
        hcqi_lane_failed(lane, done->epoch, result);
        hcqi_atomic_store32(&lane->any_failed, 1);
        hcqi_atomic_store32(&lane->dev->any_failed, 1);
    }
    hcq_backend_lock(0);
}

HCQI_DEF hcq_result hcq_backend_wait_result(const hcq_lane_point *wait) {
    hcqi_lane *lane = hcqi_lane_of(wait->lane);
    if (wait->order_only || hcqi_atomic_load32(&lane->any_failed) == 0) { return HCQ_OK; }
    hcqi_enter();
    hcq_result r = hcqi_failures_find(&lane->failures, wait->epoch);
    hcqi_leave();
    return r;
}

/* Does the batch belong to what failed before, or wait for it? */
static void hcqi_post_check(hcq_batch *batch) {
    hcq_result r = hcq_backend_job_result(batch->job);
    for (uint32_t i = 0; r == HCQ_OK && i < batch->wait_count; i++) {
        r = hcq_backend_wait_result(&batch->waits[i]);
    }
    if (r == HCQ_OK || batch->result != HCQ_OK) { return; }
    batch->result = r;
    hcq_backend_job_fail(batch->job, &batch->done, r, NULL, NULL, 0);
}

/* Everything pending ends; whoever gives does it, so that no batch is in use. */
static void hcqi_device_lose(hcq_device *dev) {
    hcq_batch *left;
    uint32_t count;
    if (!hcqi_atomic_cas32(&dev->loss, 1, 2)) { return; }
    if (dev->backend->lose != NULL) { dev->backend->lose(dev->self); }
    hcqi_enter();
    while (dev->posts != NULL && (left = hcqi_posts_next(dev, &count)) != NULL) {
        dev->posts_given += count;
    }
    dev->lost = dev->loss_result;
    hcqi_error_note(dev, dev->lost, NULL, NULL, dev->loss_native, dev->loss_code);
    dev->timeline->failure = dev->lost;
    hcqi_signal_wake(dev->timeline, UINT64_MAX, UINT64_MAX);
    hcqi_signal_wake(dev->exact, UINT64_MAX, UINT64_MAX);
    hcqi_reap_device(dev);
    for (uint32_t k = 0; k < dev->lane_count; k++) { hcqi_lane_wake(&dev->lanes[k]); }
    hcqi_leave();
}

static void hcqi_posts_give(hcq_device *dev) {
    hcq_batch *batches;
    uint32_t count;
    while (hcqi_atomic_load32(&dev->loss) == 0 &&
           (batches = hcqi_posts_next(dev, &count)) != NULL) {
        for (uint32_t i = 0; i < count; i++) { hcqi_post_check(&batches[i]); }
        uint32_t given = dev->backend->give(dev->self, batches, count);
        dev->posts_given += given;
        if (given == 0 && hcqi_atomic_load32(&dev->loss) == 0) {
            hcqi_enter();
            dev->posts_late = 1;
            hcqi_service_kick(dev);
            hcqi_leave();
            return;
        }
    }
}

/* One thread at a time gives: others wait for it, and find their own work gone, unless they are in
   the middle of giving themselves, on whatever device; then the one here looks once more. */
static void hcqi_device_ring(hcq_device *dev) {
    if (dev->backend->give == NULL) {
        if (dev->backend->flush != NULL) { dev->backend->flush(dev->self); }
        hcqi_device_lose(dev);
        return;
    }
    for (uint32_t turn = 0; !hcqi_atomic_cas32(&dev->giver, 0, 1); turn++) {
        if (hcqi_giving != 0) {
            if (hcqi_atomic_cas32(&dev->giver, 1, 2)) { return; }
            if (hcqi_atomic_load32(&dev->giver) == 2) { return; }
        } else if (turn < 64) {
            hcqi_atomic_pause();
        } else {
            (void)hcq_sys_wait(&dev->giver, 1, 50000);
        }
    }
    hcqi_giving++;
    for (;;) {
        hcqi_posts_give(dev);
        hcqi_device_lose(dev);
        if (hcqi_atomic_cas32(&dev->giver, 1, 0)) { break; }
        (void)hcqi_atomic_swap32(&dev->giver, 1); /* whoever still meets a 2 is looked after now */
    }
    hcqi_giving--;
}

/* Without the lock; the device stays meanwhile. */
static HCQI_COLD void hcqi_service_ring(hcq_device *dev) {
    if (dev->stepped) { return; }
    if (hcqi_atomic_cas32(&dev->service_begun, 0, 1)) {
        if (hcq_sys_thread_start(&dev->service) != HCQ_OK) {
            hcqi_enter();
            hcqi_atomic_store32(&dev->service_begun, 0);
            hcqi_core.threadless |= (uint64_t)1 << dev->slot;
            if (dev->service_started == 1) {
                hcqi_refuse(dev, HCQ_ERROR_OUT_OF_MEMORY, "the service thread cannot start");
            }
            dev->service_started = 3;
            hcqi_leave();
        }
    }
    hcqi_atomic_add32(&dev->service_word, 1);
    hcq_sys_wake(&dev->service_word, 1);
    if (hcqi_atomic_load32(&dev->service_waits) && dev->backend->kick != NULL) {
        dev->backend->kick(dev->self);
    }
}

/* ---- what is done once the lock is free ---- */

/* To be done once the lock is free. Devices stay until it is, see hcqi_device_quiet. */
typedef struct hcqi_bells {
    uint64_t dirty, kicks;             /* devices, by slot */
    uint32_t *asleep[16];              /* words of host threads */
    uint32_t asleep_count;
} hcqi_bells;

static void hcqi_bells_take(hcqi_bells *bells) {
    bells->dirty = hcqi_core.dirty;
    bells->kicks = hcqi_core.kicks;
    bells->asleep_count = 0;
    uint64_t devices = bells->dirty | bells->kicks;
    for (uint32_t slot = 0; devices != 0; slot++, devices >>= 1) { /* usually one: no HCQI_BITS */
        if (devices & 1) { hcqi_core.devices[slot]->pins++; }
    }
    hcqi_core.dirty = 0;
    hcqi_core.kicks = 0;
    while (hcqi_core.awake != NULL && bells->asleep_count < 16) {
        bells->asleep[bells->asleep_count++] = &hcqi_core.awake->awake;
        hcqi_core.awake = hcqi_core.awake->next;
    }
}

/* The threads may be awake already, and their words gone: only the address counts. */
static void hcqi_bells_ring(const hcqi_bells *bells) {
    uint64_t devices = bells->dirty | bells->kicks;
    for (uint32_t slot = 0; devices != 0; slot++, devices >>= 1) {
        if ((devices & 1) == 0) { continue; }
        hcq_device *dev = hcqi_core.devices[slot]; /* stays, see hcqi_device_quiet */
        if (bells->dirty >> slot & 1) { hcqi_device_ring(dev); }
        if (bells->kicks >> slot & 1) { hcqi_service_ring(dev); }
        hcqi_unpin(dev);
    }
    for (uint32_t i = 0; i < bells->asleep_count; i++) { hcq_sys_wake(bells->asleep[i], 1); }
}

/* In a long cascade: what was handed over begins to run, others get the lock for a moment, and
   what is complete is collected while it is still in the caches. */
static void hcqi_leave_briefly(void) {
    hcqi_bells bells;
    hcqi_bells_take(&bells);
    int wanted = hcqi_unlock();
    hcqi_bells_ring(&bells);
    for (int i = 0; wanted && i < 100 && hcqi_atomic_load32(&hcqi_core.lock) == 0; i++) {
        hcqi_atomic_pause();
    }
    hcqi_enter();
    hcqi_reap_all();
}

/* Step `i` of a loop that may be long: others get the lock now and then. */
static void hcqi_breathe(uint32_t i) {
    if (i % HCQI_BREATH == HCQI_BREATH - 1) { hcqi_leave_briefly(); }
}

/* Ends every locked section: doorbells, wakes, lines and notifications come after the lock. */
static void hcqi_leave(void) {
    hcqi_bells bells;
    int rings = 0;
    if (hcqi_core.ready.head == NULL && hcqi_core.noticed_head == NULL &&
        hcqi_core.unbuilt.head == NULL && hcqi_core.awake == NULL && hcqi_core.due_head == NULL &&
        (hcqi_core.dirty | hcqi_core.kicks | hcqi_core.recheck | hcqi_core.event_waiters |
         hcqi_core.message_count) == 0) {
        hcqi_core.changed = 0;
        hcqi_unlock();
        return;
    }
    for (uint32_t again = 1; again;) { /* what a look at all lanes releases, too */
        while (!hcqi_drain_some(256) || hcqi_unbuilt_next()) { hcqi_leave_briefly(); }
        again = hcqi_core.recheck;
        hcqi_core.recheck = 0;
        if (again) { hcqi_reap_all(); }
    }
    for (; (hcqi_core.dirty | hcqi_core.kicks) != 0 || hcqi_core.awake != NULL; rings = 1) {
        if (rings) {                   /* seldom: more than one takes along */
            hcqi_unlock();
            hcqi_bells_ring(&bells);
            hcqi_enter();
        }
        hcqi_bells_take(&bells);
    }
    uint32_t wake = hcqi_core.changed != 0 && hcqi_core.event_waiters != 0;
    uint32_t messages = hcqi_core.message_count;
    int due = hcqi_core.due_head != NULL;
    hcqi_core.changed = 0;
    if (wake) { hcqi_atomic_add32(&hcqi_core.event, 1); }
    hcqi_unlock();
    if (rings) { hcqi_bells_ring(&bells); }
    if (wake) { hcq_sys_wake(&hcqi_core.event, 1); }
    if (messages != 0) { hcqi_emit_messages(); }
    if (due) { hcqi_run_due(); }
}

static hcq_result hcqi_leave_with(hcq_result result) {
    hcqi_leave();
    return result;
}

/* What may take long and concerns one device, which stays open: others get the lock meanwhile. */
static void hcqi_apart_begin(hcq_device *dev) {
    dev->pins++;
    hcqi_leave();
}

static void hcqi_apart_end(hcq_device *dev) {
    hcqi_enter();
    hcqi_unpin(dev);
}

/* The same around a call of a backend, if that may be. */
static void hcqi_native_begin(hcq_device *dev) {
    if (dev->caps.unlocked) { hcqi_apart_begin(dev); }
}

static void hcqi_native_end(hcq_device *dev) {
    if (dev->caps.unlocked) { hcqi_apart_end(dev); }
}

/* hcqi_refuse that lets go of the lock, and the same without the lock held. */
#define hcqi_leave_refusing(...) hcqi_leave_with(hcqi_refuse(__VA_ARGS__))
#define hcqi_refuse_alone(...) (hcqi_enter(), hcqi_leave_refusing(__VA_ARGS__))

#define HCQI_LEAVE_UNLESS(dev, ok, ...)                                            \
    do {                                                                           \
        if (!(ok)) { return hcqi_leave_refusing((dev), __VA_ARGS__); }             \
    } while (0)

static hcq_result hcqi_null(const char *parameter) {
    return hcqi_refuse_alone(NULL, HCQ_ERROR_INVALID, "%s: is NULL", parameter);
}

/* Of what has no slot that tells: is it the parent's? */
static int hcqi_is_parents(const hcq_device *dev) { return dev->forks != hcqi_core.forks; }

/* HCQ_OK, or refused; without the lock. */
static hcq_result hcqi_own_check(const hcq_device *dev, const char *what) {
    if (!hcqi_is_parents(dev)) { return HCQ_OK; }
    return hcqi_refuse_alone(NULL, HCQ_ERROR_CLOSED, "%s: is of the parent process", what);
}

/* Takes the lock for a call on `dev`; anything but HCQ_OK: not taken. `log`: another
   device that the call names, or NULL. */
static hcq_result hcqi_device_enter_by(const hcq_device *dev, hcq_device *log) {
    hcqi_enter();
    if (hcqi_is_strange()) {
        return hcqi_leave_refusing(log, HCQ_ERROR_INVALID, "device: " HCQI_STRANGE);
    }
    if (hcqi_device_open(dev)) { return HCQ_OK; }
    hcq_result r = dev == NULL ? HCQ_ERROR_INVALID : HCQ_ERROR_CLOSED;
    return hcqi_leave_refusing(log, r, "device: %s", dev == NULL ? "is NULL" : "was closed");
}

static hcq_result hcqi_device_enter(const hcq_device *dev) {
    return hcqi_device_enter_by(dev, NULL);
}

/* The same for a call that fills `out`, its parameter `what`. */
static hcq_result hcqi_device_ask(hcq_device *device, const void *out, const char *what) {
    HCQI_PASS(hcqi_device_enter(device));
    if (out != NULL) { return HCQ_OK; }
    return hcqi_leave_refusing(device, HCQ_ERROR_INVALID, "%s: is NULL", what);
}

HCQI_DEF void hcq_backend_callback(int begins) { hcqi_calling += begins ? 1 : -1; }

static int hcqi_in_callback(void) {
    return (hcqi_notifying | hcqi_calling | hcqi_logging) != 0;
}

/* Sleeps, with the lock released, until a word changes. Service threads that could not start
   are tried again first, and then every 10 ms: HCQ_OK, as if it had changed. */
static hcq_result hcqi_word_wait(uint32_t *word, uint32_t seen, uint64_t left_ns) {
    uint64_t most = hcqi_core.threadless != 0 && left_ns > 10000000 ? 10000000 : left_ns;
    hcqi_core.kicks |= hcqi_core.threadless;
    hcqi_core.threadless = 0;
    hcqi_leave();
    hcq_result r = hcqi_await(word, seen, most);
    hcqi_enter();
    return r == HCQ_TIMEOUT && most != left_ns ? HCQ_OK : r;
}

/* ... until something changes. */
static hcq_result hcqi_event_wait(uint64_t left_ns) {
    hcqi_core.event_waiters++;
    hcq_result r = hcqi_word_wait(&hcqi_core.event, hcqi_atomic_load32(&hcqi_core.event), left_ns);
    hcqi_core.event_waiters--;
    return r;
}

/* ========================================================================== */
/* ---- programs: their code on devices -------------------------- >>loading - */

/* Bytes of a description, which follow it: code, or a text. Programs with the same have
   one, so that a backend knows by the address that it is the same. */
typedef struct hcqi_blob {
    struct hcqi_blob *next;            /* of hcq_device.blobs' bucket */
    uint64_t hash;
    size_t size;
    size_t refs;                       /* programs */
} hcqi_blob;

static void hcqi_program_unlist(hcq_program *p) {
    if (p->prev != NULL) {
        p->prev->next = p->next;
    } else if (p->dev->programs == p) {
        p->dev->programs = p->next;
    }
    if (p->next != NULL) { p->next->prev = p->prev; }
    p->next = NULL;
    p->prev = NULL;
}

/* Its code on a device that closes, or where that is NULL on all of them. */
static void hcqi_program_unload(hcq_program *p, const hcq_device *dev) {
    for (uint32_t i = 0; i < HCQI_MAX_DEVICES; i++) {
        hcqi_code *c = &p->codes[i];
        if (c->dev == NULL || (dev != NULL && c->dev != dev)) { continue; }
        c->dev->backend->program_destroy(c->dev->self, c->code);
        c->dev = NULL;
    }
}

/* `data`: of a blob, or NULL. */
static void hcqi_blob_drop(hcq_device *dev, const void *data) {
    const hcqi_blob *b = HCQI_CAST(const hcqi_blob *, data);
    if (b == NULL) { return; }
    hcqi_blob **link = &dev->blobs[(--b)->hash % HCQI_BLOBS];
    while (*link != b) { link = &(*link)->next; }
    if (--(*link)->refs != 0) { return; }
    hcqi_blob *gone = *link;
    *link = gone->next;
    hcqi_delete(&dev->hooks, gone, sizeof *gone + gone->size);
}

static void hcqi_program_unref(hcq_program *p) {
    if (--p->refs != 0) { return; }
    hcq_device *dev = p->dev;
    hcqi_program_unload(p, NULL);
    hcqi_program_unlist(p);
    for (int i = 0; i < HCQI_PARTS; i++) { hcqi_blob_drop(dev, p->parts[i]); }
    p->magic = 0;
    hcqi_delete(&dev->hooks, p, sizeof *p);
    hcqi_device_unref(dev);
}

/* Makes the program's code on a device, where it has none yet. */
static hcq_result hcqi_program_code(hcq_program *program, hcq_device *dev) {
    hcqi_code *c = &program->codes[dev->slot], made = { dev, NULL, { 0, 0, 0 } };
    hcq_program_info info = program->info; /* that one counts */
    program->refs++;
    hcqi_native_begin(dev);
    hcq_result r = dev->backend->program_create(dev->self, &program->desc, &info, &made.code);
    hcqi_native_end(dev);
    if (r == HCQ_OK && c->dev == dev) { /* another thread was first */
        dev->backend->program_destroy(dev->self, made.code);
    } else if (r == HCQ_OK) {
        *c = made;
    }
    hcqi_program_unref(program);
    return r;
}

/* ========================================================================== */
/* ---- queues: recording ------------------------------------- >>recording - */
/* A command is a packet, a meta, the allocations that it names and an argument block or
   payload, each in an array of the queue. A recording call begins one behind the last,
   fills it in, and ends it, which counts it. */

/* Without the lock. */
static hcq_result hcqi_queue_check(const hcq_queue *q) {
    if (q == NULL) {
        (void)hcqi_refuse_alone(NULL, HCQ_ERROR_INVALID, "queue: is NULL");
        return HCQ_ERROR_INVALID;      /* which compilers see */
    }
#if HCQ_VALIDATE
    HCQ_ASSERT(q->magic == HCQI_MAGIC_QUEUE && "hcq: not a living queue");
#endif
    return hcqi_own_check(q->dev, "queue");
}

/* Takes the lock for a call on `q`; anything but HCQ_OK: not taken. */
static hcq_result hcqi_queue_enter(const hcq_queue *q) {
    hcq_result r = hcqi_queue_check(q);
    if (r == HCQ_OK) { hcqi_enter(); }
    return r;
}

/* The check for a submission to `dev`; with the lock held. */
static HCQI_COLD hcq_result hcqi_queue_ready(const hcq_queue *q, hcq_device *dev) {
#if HCQ_VALIDATE
    HCQ_ASSERT(q->magic == HCQI_MAGIC_QUEUE && "hcq: not a living queue");
#endif
    HCQI_REFUSE_UNLESS(dev, !hcqi_is_parents(q->dev), HCQ_ERROR_CLOSED,
                       "queue '%s': is of the parent process", q->label);
    HCQI_REFUSE_UNLESS(dev, q->sticky == HCQ_OK, q->sticky, "queue '%s': recording failed at %s",
                       q->label, q->error);
    return HCQ_OK;
}

/* Ends a refused call, which has the lock: a line about command `index`, or about the
   queue if that is HCQI_NONE. Where the next command was to be, the first error sticks. */
static HCQI_COLD HCQI_PRINTF(4, 5) hcq_result hcqi_queue_refuse(hcq_queue *q, uint32_t index,
                                                                hcq_result result,
                                                                const char *format, ...) {
    char text[192], command[24] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (index != HCQI_NONE) { snprintf(command, sizeof command, " command %u", index); }
    hcqi_refuse(q->dev, result, "queue '%s'%s: %s", q->label, command, text);
    if (index == q->count && q->sticky == HCQ_OK) {
        snprintf(q->error, sizeof q->error, "command %u: %.100s", index, text);
        q->sticky = result;
    }
    return hcqi_leave_with(result);
}

/* Ends the calling function, which has the lock, with such a refusal unless `ok`. */
#define HCQI_CHECK(q, index, ok, result, ...)                                      \
    do {                                                                           \
        if (!(ok)) { return hcqi_queue_refuse((q), (index), (result), __VA_ARGS__); } \
    } while (0)

static hcq_result hcqi_record_oom(hcq_queue *q) {
    return hcqi_queue_refuse(q, q->count, HCQ_ERROR_OUT_OF_MEMORY,
                             "queue: out of memory while recording");
}

/* Others look at the array with the lock, but need not wait until it is copied. */
static int hcqi_record_room(hcq_queue *q, void *field, uint32_t *capacity, uint64_t need,
                            size_t item) {
    const hcq_memory_hooks *hooks = &q->dev->hooks;
    uint32_t old = *capacity, now = old;
    void *items, *grown = NULL;
    if (!hcqi_grow(hooks, &grown, &now, need, item)) { return 0; }
    memcpy(&items, field, sizeof items);
    if (items != NULL) { memcpy(grown, items, old * item); }
    hcqi_enter();
    memcpy(field, &grown, sizeof grown);
    *capacity = now;
    hcqi_leave();
    if (field == (void *)&q->arena) {  /* what is copied into it may be of it */
        q->outgrown = items;
        q->outgrown_size = old;
    } else {
        hcqi_delete(hooks, items, old * item);
    }
    return 1;
}

#define HCQI_ROOM(q, ptr, cap, need)                                               \
    ((need) <= (cap) || hcqi_record_room((q), (void *)&(ptr), &(cap), (need), sizeof *(ptr)))

/* Does a backend get it in a batch? */
static HCQI_UNUSED int hcqi_packet_is_work(const hcq_packet *p) {
    return p->kind != HCQ_COMMAND_WAIT && p->kind != HCQ_COMMAND_WAIT_DEVICE &&
           p->kind != HCQ_COMMAND_SIGNAL && p->kind != HCQ_COMMAND_HOST;
}

static int hcqi_packet_is_sync(const hcq_packet *p) {
    return p->kind >= HCQ_COMMAND_WAIT && p->kind <= HCQ_COMMAND_TIMESTAMP;
}

static int hcqi_packet_waits(const hcq_packet *p) {
    return p->kind == HCQ_COMMAND_WAIT || p->kind == HCQ_COMMAND_WAIT_DEVICE;
}

/* Does a profile show it? */
static int hcqi_packet_is_timed(const hcq_packet *p) {
    return !hcqi_packet_is_sync(p) && p->kind != HCQ_COMMAND_BARRIER &&
           p->kind != HCQ_COMMAND_ALLOC &&
           (p->flags & (HCQI_FAR | HCQI_SILENT)) == 0;
}

/* Does the service thread of the device read grids for the queue's versions? */
static int hcqi_queue_is_read(const hcq_queue *q, const hcq_device *dev) {
    return q->reads != 0 && !dev->caps.indirect;
}

static int hcqi_packet_is_read(const hcq_packet *p, const hcq_device *dev) {
    return p->kind == HCQ_COMMAND_EXEC && p->u.exec.grid_at != 0 && !dev->caps.indirect;
}

/* Takes the lock to record a command with `names` allocations and `bytes` of argument
   block or payload, for which there is room then: packet and meta at hcq_queue.count are to
   be filled. Anything but HCQ_OK: was refused. */
static hcq_result hcqi_record_begin(hcq_queue *q, hcq_command_kind kind, uint32_t names,
                                    uint32_t bytes) {
    HCQI_PASS(hcqi_queue_check(q));
    HCQI_PASS(q->sticky);
    hcqi_delete(&q->dev->hooks, q->outgrown, q->outgrown_size);
    q->outgrown = NULL;
    uint32_t index = q->count, arena = (q->arena_size + 15) & ~(uint32_t)15;
    int room = HCQI_ROOM(q, q->packets, q->packet_capacity, (uint64_t)index + 1) &&
               HCQI_ROOM(q, q->metas, q->meta_capacity, (uint64_t)index + 1) &&
               HCQI_ROOM(q, q->names, q->name_capacity, (uint64_t)q->name_count + names) &&
               HCQI_ROOM(q, q->arena, q->arena_capacity, (uint64_t)arena + bytes);
    hcqi_enter();
    if (!room) { return hcqi_record_oom(q); }
    hcq_packet *p = &q->packets[index];
    hcqi_meta *m = &q->metas[index];
    memset(p, 0, sizeof *p);
    memset(m, 0, offsetof(hcqi_meta, dev)); /* few enough bytes to be cleared at once */
    m->label[0] = 0;
    p->kind = (uint8_t)kind;
    p->index = index;
    int home = kind == HCQ_COMMAND_BARRIER || kind == HCQ_COMMAND_TIMESTAMP;
    m->dev = q->graph == NULL || home ? q->dev : NULL;
    m->arena = arena;
    m->arena_size = bytes;
    m->name_first = q->name_count;
    m->name_count = names;
    HCQI_CHECK(q, index, q->graph == NULL || home || !hcqi_packet_is_sync(p), HCQ_ERROR_INVALID,
               "queue: a graph takes no waits and signals, its submission does");
    HCQI_CHECK(q, index, q->kind != HCQ_COPY || kind != HCQ_COMMAND_BARRIER, HCQ_ERROR_INVALID,
               "queue: a copy queue takes no memory barrier");
    HCQI_CHECK(q, index, q->kind != HCQ_COPY || kind != HCQ_COMMAND_EXEC, HCQ_ERROR_INVALID,
               "queue: a copy queue takes no exec");
    return HCQ_OK;
}

static void hcqi_packet_ref(const hcq_packet *p) {
    if (hcqi_packet_is_sync(p) && p->u.sync.signal != NULL) {
        HCQI_CAST(hcqi_signal *, p->u.sync.signal)->refs++;
    }
    if (p->kind == HCQ_COMMAND_EXEC) { p->u.exec.program->refs++; }
}

static void hcqi_packet_unref(const hcq_packet *p) {
    if (hcqi_packet_is_sync(p) && p->u.sync.signal != NULL) {
        hcqi_signal_unref(HCQI_CAST(hcqi_signal *, p->u.sync.signal));
    }
    if (p->kind == HCQ_COMMAND_EXEC) { hcqi_program_unref(p->u.exec.program); }
}

/* Ends a call that changed the list of commands: versions and plans are not of it any more. */
static hcq_result hcqi_queue_changed(hcq_queue *q) {
    q->generation++;
    q->bound = NULL;
    return hcqi_leave_with(HCQ_OK);
}

/* From here on the command counts, and what it names stays. */
static int32_t hcqi_record_end(hcq_queue *q) {
    hcqi_meta *m = &q->metas[q->count];
    hcqi_packet_ref(&q->packets[q->count]);
    for (uint32_t i = 0; i < m->name_count; i++) {
        hcqi_allocation *a = q->names[m->name_first + i];
        if (a != NULL) { a->names++; }
    }
    if (m->dev != NULL && m->dev_serial == 0) { m->dev_serial = m->dev->serial; }
    q->name_count += m->name_count;
    q->arena_size = m->arena + m->arena_size;
    int32_t index = (int32_t)q->count++;
    hcqi_queue_changed(q);
    return index;
}

/* Replaces a name of a command that counts, or of what was stated for it. */
static void hcqi_name_set(hcqi_allocation **name, hcqi_allocation *a) {
    if (a != NULL) { a->names++; }
    if (*name != NULL) { hcqi_allocation_unname(*name); }
    *name = a;
}

/* Fills in a wait, signal or timestamp; anything but HCQ_OK: was refused. */
static hcq_result hcqi_sync_set(hcq_queue *q, hcq_packet *p, hcqi_signal *s, uint64_t value) {
    int raises = p->kind != HCQ_COMMAND_WAIT;
    HCQI_CHECK(q, p->index, !raises || s->kind == HCQI_USER, HCQ_ERROR_INVALID,
               "signal: a timeline cannot be raised");
    HCQI_CHECK(q, p->index, value <= HCQI_MAX_VALUE, HCQ_ERROR_INVALID,
               "value: above INT64_MAX");
    p->u.sync.signal = s;
    if (p->kind != HCQ_COMMAND_TIMESTAMP) { p->u.sync.value = value; }
    return HCQ_OK;
}

static int32_t hcqi_record_sync(hcq_queue *q, hcq_command_kind kind, hcq_point point) {
    HCQI_PASS(hcqi_record_begin(q, kind, 0, 0));
    uint32_t index = q->count;
    hcq_packet *p = &q->packets[index];
    hcqi_signal *s = hcqi_signal_find(point.signal);
    HCQI_CHECK(q, index, point.signal.id != 0, HCQ_ERROR_INVALID, "signal: is zero");
    HCQI_CHECK(q, index, s != NULL, HCQ_ERROR_CLOSED, "signal: was destroyed");
    HCQI_PASS(hcqi_sync_set(q, p, s, point.value));
    q->stamps += kind == HCQ_COMMAND_TIMESTAMP;
    return hcqi_record_end(q);
}

HCQI_DEF int32_t hcq_queue_wait(hcq_queue *queue, hcq_point point) {
    return hcqi_record_sync(queue, HCQ_COMMAND_WAIT, point);
}

HCQI_DEF int32_t hcq_queue_signal(hcq_queue *queue, hcq_point point) {
    return hcqi_record_sync(queue, HCQ_COMMAND_SIGNAL, point);
}

HCQI_DEF int32_t hcq_queue_timestamp(hcq_queue *queue, hcq_signal signal) {
    return hcqi_record_sync(queue, HCQ_COMMAND_TIMESTAMP, hcq_at(signal, 0));
}

HCQI_DEF int32_t hcq_queue_wait_device(hcq_queue *queue, hcq_device *device) {
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_WAIT_DEVICE, 0, 0));
    HCQI_CHECK(queue, queue->count, hcqi_device_open(device),
               device == NULL ? HCQ_ERROR_INVALID : HCQ_ERROR_CLOSED,
               "device: is NULL or closed");
    hcq_packet *p = &queue->packets[queue->count];
    p->u.sync.device = device;
    p->u.sync.signal = device->timeline; /* which keeps the device's memory, too */
    return hcqi_record_end(queue);
}

HCQI_DEF int32_t hcq_queue_memory_barrier(hcq_queue *queue) {
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_BARRIER, 0, 0));
    return hcqi_record_end(queue);
}

static int hcqi_arg_is_buffer(uint32_t arg) {
    uint32_t kind = arg & 0xff;
    return kind == HCQ_ARG_IN || kind == HCQ_ARG_OUT || kind == HCQ_ARG_INOUT;
}

/* Addresses of a graph's inputs and empties: tag, number, offset. */
static int hcqi_is_placeholder(uint64_t address) { return address >> 56 == HCQI_TAG; }

static uint32_t hcqi_placeholder_number(uint64_t address) {
    return (uint32_t)(address >> HCQI_TAG_SHIFT) & 0x1fff;
}

static uint64_t hcqi_placeholder_offset(uint64_t address) {
    return address & (((uint64_t)1 << HCQI_TAG_SHIFT) - 1);
}

static hcq_buffer hcqi_placeholder_make(uint32_t number, hcq_device *dev, uint64_t size) {
    hcq_buffer b;
    memset(&b, 0, sizeof b);
    b.address = (uint64_t)HCQI_TAG << 56 | (uint64_t)number << HCQI_TAG_SHIFT;
    b.size = size;
    b.device = dev;
    return b;
}

/* The placeholder that the address lies in; NULL = the queue has none there. */
static const hcqi_input *hcqi_placeholder_find(const hcq_queue *q, uint64_t address) {
    uint32_t n = hcqi_placeholder_number(address);
    const hcqi_graph *g = q->graph;
    const hcqi_input *in = NULL;
    if (g == NULL || !hcqi_is_placeholder(address)) { return NULL; }
    if (n < HCQ_MAX_VALUES) {
        in = &g->inputs[n];
    } else if (n - HCQ_MAX_VALUES < g->empty_count) {
        in = &g->empties[n - HCQ_MAX_VALUES];
    }
    return in != NULL && hcqi_placeholder_offset(address) < in->size ? in : NULL;
}

static const char hcqi_hides_text[] = "holds a placeholder of the graph, which only a buffer "
                                      "argument may be";

/* Finds the allocation that an argument of command `index` lies in: NULL for a placeholder of the
   graph, and in a new command for 0, which variables replace. Nobody would replace a placeholder
   among the bytes of what is no buffer. Anything but HCQ_OK: was refused. */
static hcq_result hcqi_arg_check(hcq_queue *q, uint32_t index, const hcq_program *program,
                                 uint32_t arg, const uint8_t *value, hcqi_allocation **a) {
    hcq_result why = HCQ_OK;
    uint32_t kind = program->desc.args[arg] & 0xff, size = program->info.sizes[arg];
    const char *bad = NULL;
    char text[128];
    uint64_t address;
    *a = NULL;
    if (hcqi_arg_is_buffer(kind) && !hcqi_device_open(program->dev)) { /* a graph's, updated */
        bad = "is of a program whose device was closed";
        why = HCQ_ERROR_CLOSED;
    } else if (hcqi_arg_is_buffer(kind)) {
        memcpy(&address, value, sizeof address);
        if (address == 0 && q->graph == NULL && index == q->count) { return HCQ_OK; }
        const hcqi_input *in = hcqi_placeholder_find(q, address);
        if (in == NULL) {
            *a = hcqi_address_find(q->graph != NULL ? program->dev : q->dev, address, &why);
        } else if (!hcqi_device_is(in->dev, in->serial)) {
            why = HCQ_ERROR_CLOSED;
        }
        if (why != HCQ_OK) { bad = hcqi_address_bad(program->dev, address, text, sizeof text); }
    } else if (q->graph != NULL && kind != HCQ_ARG_F64) {
        for (uint32_t at = 0; at + 8 <= size; at += 4) {
            memcpy(&address, value + at, sizeof address);
            if (hcqi_placeholder_find(q, address) != NULL) { bad = hcqi_hides_text; }
        }
        why = HCQ_ERROR_INVALID;
    }
    if (bad == NULL) { return HCQ_OK; }
    HCQI_CHECK(q, index, index == q->count, why, "value: argument %u %s", arg, bad);
    return hcqi_queue_refuse(q, index, why, "args: argument %u of '%s' %s", arg,
                             program->info.label, bad);
}

/* Lets go of the lock to ask; who records `q` keeps it and the program. */
static int hcqi_block_fits(hcq_queue *q, hcq_program *program, hcq_dims block) {
    hcq_device *dev = program->dev;
    hcqi_code *c = &program->codes[dev->slot];
    uint32_t size[3] = { block.x, block.y, block.z };
    const hcq_dims *own = &program->desc.block;
    if (own->x != 0 && memcmp(own, &block, sizeof block) != 0) { return 0; }
    if (block.x == 0 || block.y == 0 || block.z == 0) { return 0; }
    if (c->dev != dev || dev->backend->exec_check == NULL) { return 1; }
    if (memcmp(c->fits, size, sizeof size) == 0) { return 1; }
    q->pending++;
    hcqi_native_begin(dev);
    int fits = dev->backend->exec_check(dev->self, c->code, size) == HCQ_OK;
    hcqi_native_end(dev);
    q->pending--;
    if (fits) { memcpy(c->fits, size, sizeof size); }
    return fits;
}

/* How many of the arguments before number `end` are buffers? */
static uint32_t hcqi_program_buffers(const hcq_program *program, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++) {
        count += (uint32_t)hcqi_arg_is_buffer(program->desc.args[i]);
    }
    return count;
}

/* The argument that begins at byte `offset`, or HCQI_NONE. */
static uint32_t hcqi_arg_at(const hcq_program_info *info, uint32_t offset) {
    for (uint32_t i = 0; i < info->arg_count; i++) {
        if (info->offsets[i] == offset) { return i; }
    }
    return HCQI_NONE;
}

static HCQI_COLD hcq_result hcqi_arg_refuse(hcq_queue *q, uint32_t index, const char *name,
                                            uint32_t offset) {
    const hcq_program_info *info = &q->packets[index].u.exec.program->info;
    char beside[80] = "";
    uint32_t next = 0;
    while (next < info->arg_count && info->offsets[next] <= offset) { next++; }
    int used = next == 0 ? 0 : snprintf(beside, sizeof beside, ": number %u does at %u", next - 1,
                                        info->offsets[next - 1]);
    if (next != 0 && next < info->arg_count) {
        snprintf(beside + used, sizeof beside - (size_t)used, ", number %u at %u", next,
                 info->offsets[next]);
    }
    return hcqi_queue_refuse(q, index, HCQ_ERROR_INVALID,
                             "%s: no argument of '%s' begins at byte %u%s", name, info->label,
                             offset, beside);
}

typedef struct hcqi_operand {
    hcqi_allocation *a;                /* NULL: a placeholder, or brought by submissions */
    hcq_device *dev;                   /* owner; NULL: brought */
    uint64_t address;
    uint64_t reach;                    /* bytes of the buffer that was given */
} hcqi_operand;

#define HCQI_READ_ONLY "is imported memory that its device may only read"

/* `name` is the parameter, `buffer` NULL: what was recorded. Anything but HCQ_OK: was refused. */
static hcq_result hcqi_operand_take(hcq_queue *q, uint32_t index, const char *name,
                                    const hcq_buffer *buffer, uint64_t size, hcqi_operand *op) {
    hcq_result why = HCQ_ERROR_INVALID;
    const char *bad = NULL;
    if (buffer != NULL) {
        op->address = buffer->address;
        op->reach = buffer->size;
        op->a = NULL;
        op->dev = NULL;
    }
    int hole = buffer != NULL && buffer->device == NULL && buffer->address == 0 &&
               buffer->size != 0 && q->graph == NULL && index == q->count;
    if (hole) { buffer = NULL; }       /* a value will bring it */
    const hcqi_input *in = op->a != NULL ? NULL : hcqi_placeholder_find(q, op->address);
    if (in != NULL) {
        op->dev = in->dev;
        if (op->reach > in->size - hcqi_placeholder_offset(op->address)) {
            bad = "is not a buffer";
        } else if (!hcqi_device_is(in->dev, in->serial)) {
            why = HCQ_ERROR_CLOSED;
            bad = "its device was closed";
        }
    } else if (hcqi_is_placeholder(op->address)) {
        bad = "is no input of this queue";
    } else if (buffer != NULL) {
        op->a = hcqi_buffer_find(buffer, &why);
        if (op->a == NULL) { bad = hcqi_buffer_bad(buffer, why); }
    }
    if (op->a != NULL) { op->dev = op->a->dev; }
    if (op->a != NULL && op->a->memory.read_only && name[0] == 'd') { bad = HCQI_READ_ONLY; }
    HCQI_CHECK(q, index, bad == NULL, why, "%s: %s", name, bad);
    HCQI_CHECK(q, index, size != 0 && size <= op->reach, HCQ_ERROR_INVALID,
               "size: %llu, %s has %llu bytes", (unsigned long long)size, name,
               (unsigned long long)op->reach);
    return HCQ_OK;
}

/* Can commands of `dev` name the operand? HCQ_ERROR_FOREIGN: no. */
static hcq_result hcqi_operand_see(hcq_device *dev, const hcqi_operand *op) {
    hcq_result why = HCQ_OK;
    if (op->dev == dev || op->dev == NULL) { return HCQ_OK; }
    if (op->a != NULL) {
        (void)hcqi_allocation_map(dev, op->a, op->address, &why);
        return why;
    }
    int all = dev->backend->map != NULL &&
              dev->backend->map(dev->self, op->dev->backend, op->dev->self, NULL, NULL) == HCQ_OK;
    return all ? HCQ_OK : HCQ_ERROR_FOREIGN;
}

/* The one that should, or one whose end it is, if it sees both; HCQ_ERROR_FOREIGN: none does. */
static hcq_result hcqi_copy_place(hcq_device *first, const hcqi_operand *to,
                                  const hcqi_operand *from, hcq_device **dev) {
    hcq_device *tries[] = { first, to->dev, from->dev };
    hcq_result r = HCQ_ERROR_FOREIGN;
    for (uint32_t i = 0; i < 3 && r == HCQ_ERROR_FOREIGN; i++) {
        *dev = tries[i];
        r = hcqi_operand_see(*dev, to);
        if (r == HCQ_OK) { r = hcqi_operand_see(*dev, from); }
    }
    return r;
}

/* The arguments of the new exec, which are as large as its program's. */
static hcq_result hcqi_exec_args(hcq_queue *q, const hcq_program *program, const void *args) {
    hcqi_meta *m = &q->metas[q->count];
    hcqi_allocation *a;
    m->name_count = 0;                 /* there is room for one of each argument */
    for (uint32_t i = 0; i < program->info.arg_count; i++) {
        const uint8_t *value = HCQI_CAST(const uint8_t *, args) + program->info.offsets[i];
        int buffer = hcqi_arg_is_buffer(program->desc.args[i]);
        if (!buffer && q->graph == NULL) { continue; } /* any value will do */
        HCQI_PASS(hcqi_arg_check(q, q->count, program, i, value, &a));
        if (buffer) { q->names[m->name_first + m->name_count++] = a; }
    }
    uint32_t size = program->info.kernargs_size;
    if (size != 0) { memcpy(q->arena + m->arena, args, size); }
    return HCQ_OK;
}

/* The new exec's grid is at `at`: its last name. */
static HCQI_COLD hcq_result hcqi_exec_grid(hcq_queue *q, const hcq_program *program,
                                           const hcq_buffer *at) {
    hcqi_operand op;
    uint32_t index = q->count, *most = q->packets[index].u.exec.grid;
    hcqi_meta *m = &q->metas[index];
    HCQI_PASS(hcqi_operand_take(q, index, "grid", at, HCQI_GRID_BYTES, &op));
    HCQI_CHECK(q, index, op.dev != NULL, HCQ_ERROR_INVALID, "grid: is not a buffer");
    HCQI_CHECK(q, index, op.address % 4 == 0, HCQ_ERROR_INVALID, "grid: not a multiple of 4");
    hcq_result why = hcqi_operand_see(program->dev, &op);
    HCQI_CHECK(q, index, why == HCQ_OK, why, "grid: '%s' cannot see it", program->dev->label);
    int bounds = !HCQ_GRID_IS_EMPTY(most) && most[2] < HCQ_GRID_INDIRECT;
    HCQI_CHECK(q, index, bounds, HCQ_ERROR_INVALID, "maximum: %ux%ux%u has a 0, or z is above "
               "2^31", most[0], most[1], most[2]);
    q->names[m->name_first + m->name_count++] = op.a;
    q->packets[index].u.exec.grid_at = op.address;
    q->reads++;
    most[2] |= HCQ_GRID_INDIRECT;
    return HCQ_OK;
}

/* `at`: where the grid is, which is at most `grid` then; or NULL. */
static int32_t hcqi_record_exec(hcq_queue *q, hcq_program *program, const void *args,
                                size_t args_size, const hcq_buffer *at, hcq_dims grid,
                                hcq_dims block) {
    uint32_t size = program == NULL ? 0 : program->info.kernargs_size;
    uint32_t args_count = program == NULL ? 0 : program->info.arg_count;
    uint32_t room = at == NULL ? size : ((size + 3) & ~(uint32_t)3) + HCQI_GRID_BYTES;
    HCQI_PASS(hcqi_record_begin(q, HCQ_COMMAND_EXEC, args_count + (at != NULL), room));
    uint32_t index = q->count;
    HCQI_CHECK(q, index, program != NULL, HCQ_ERROR_INVALID, "program: is NULL");
    HCQI_CHECK(q, index, hcqi_device_open(program->dev), HCQ_ERROR_CLOSED,
               "program: its device was closed");
    HCQI_CHECK(q, index, program->dev == q->dev || q->graph != NULL, HCQ_ERROR_FOREIGN,
               "program: '%s' is of another device", program->info.label);
    HCQI_CHECK(q, index, args != NULL || args_count == 0, HCQ_ERROR_INVALID,
               "args: '%s' needs %u arguments", program->info.label, args_count);
    HCQI_CHECK(q, index, args_size == size, HCQ_ERROR_INVALID,
               "args_size: %llu, '%s' takes %u bytes", (unsigned long long)args_size,
               program->info.label, size);
    block = hcqi_block_dims(&program->desc, block);
    HCQI_CHECK(q, index, hcqi_block_fits(q, program, block), HCQ_ERROR_INVALID,
               "block: %ux%ux%u does not fit '%s'", block.x, block.y, block.z,
               program->info.label);
    hcq_packet *p = &q->packets[index];
    p->u.exec.program = program;
    memcpy(p->u.exec.grid, &grid, sizeof grid);
    memcpy(p->u.exec.block, &block, sizeof block);
    q->metas[index].dev = program->dev;
    HCQI_PASS(hcqi_exec_args(q, program, args));
    if (at != NULL) { HCQI_PASS(hcqi_exec_grid(q, program, at)); }
    return hcqi_record_end(q);
}

HCQI_DEF int32_t hcq_queue_exec(hcq_queue *queue, hcq_program *program, const void *args,
                                size_t args_size, hcq_dims grid, hcq_dims block) {
    return hcqi_record_exec(queue, program, args, args_size, NULL, grid, block);
}

HCQI_DEF int32_t hcq_queue_exec_indirect(hcq_queue *queue, hcq_program *program, const void *args,
                                         size_t args_size, hcq_buffer grid, hcq_dims maximum,
                                         hcq_dims block) {
    return hcqi_record_exec(queue, program, args, args_size, &grid, maximum, block);
}

static int hcqi_ranges_overlap(uint64_t a, uint64_t b, uint64_t size) {
    return a < b ? b - a < size : a - b < size;
}

/* NULL: the end that it has. Anything but HCQ_OK: was refused. */
static hcq_result hcqi_copy_set(hcq_queue *q, uint32_t index, const hcq_buffer *dst,
                                const hcq_buffer *src, uint64_t size, hcqi_operand *to,
                                hcqi_operand *from) {
    hcq_packet *p = &q->packets[index];
    hcqi_meta *m = &q->metas[index];
    HCQI_PASS(hcqi_operand_take(q, index, "dst", dst, size, to));
    HCQI_PASS(hcqi_operand_take(q, index, "src", src, size, from));
    int both = to->dev != NULL && from->dev != NULL && /* not brought by submissions */
               hcqi_allocation_lives(to->a) && hcqi_allocation_lives(from->a);
    int overlap = both && to->dev == from->dev &&
                  hcqi_ranges_overlap(to->address, from->address, size);
    HCQI_CHECK(q, index, !overlap, HCQ_ERROR_INVALID, "dst: overlaps src");
    hcq_device *dev = q->graph == NULL ? q->dev : to->dev;
    if (both) {                        /* else it fails */
        hcq_result place = hcqi_copy_place(dev, to, from, &dev);
        HCQI_CHECK(q, index, place == HCQ_OK || place == HCQ_ERROR_FOREIGN, place,
                   "queue: out of memory");
        m->from = place == HCQ_OK ? NULL : from->dev;
        m->dev = place == HCQ_OK ? dev : to->dev;
        m->dev_serial = m->dev->serial;
    }
    m->reach[0] = to->reach;
    m->reach[1] = from->reach;
    p->u.copy.dst = to->address;
    p->u.copy.src = from->address;
    p->u.copy.size = size;
    return HCQ_OK;
}

/* A copy by a device that sees both ends. */
static int32_t hcqi_record_copy(hcq_queue *queue, hcq_buffer dst, hcq_buffer src, uint64_t size) {
    hcqi_operand to, from;
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_COPY, 2, 0));
    HCQI_PASS(hcqi_copy_set(queue, queue->count, &dst, &src, size, &to, &from));
    queue->names[queue->name_count] = to.a;
    queue->names[queue->name_count + 1] = from.a;
    return hcqi_record_end(queue);
}

static int hcqi_is_word(uint64_t size) { return size - 1 < 8 && (size & (size - 1)) == 0; }

/* Of `size` bytes at `dst`; anything but HCQ_OK: was refused. */
static hcq_result hcqi_store_set(hcq_queue *q, const hcq_buffer *dst, uint64_t size) {
    hcqi_operand d;
    hcq_packet *p = &q->packets[q->count];
    HCQI_PASS(hcqi_operand_take(q, q->count, "dst", dst, size, &d));
    hcq_result sees = q->graph == NULL ? hcqi_operand_see(q->dev, &d) : HCQ_OK;
    HCQI_CHECK(q, q->count, sees == HCQ_OK, sees, "dst: this device cannot see it");
    q->names[q->name_count] = d.a;
    if (q->graph != NULL) { q->metas[q->count].dev = d.dev; }
    p->u.copy.dst = d.address;         /* the same places as fill's */
    p->u.copy.size = size;
    return HCQ_OK;
}

HCQI_DEF int32_t hcq_queue_fill(hcq_queue *queue, hcq_buffer dst, uint64_t size, uint64_t value,
                                uint32_t value_size) {
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_FILL, 1, 0));
    uint32_t index = queue->count;
    HCQI_CHECK(queue, index, hcqi_is_word(value_size), HCQ_ERROR_INVALID, "value_size: %u",
               value_size);
    HCQI_PASS(hcqi_store_set(queue, &dst, size));
    HCQI_CHECK(queue, index, dst.address % value_size == 0, HCQ_ERROR_INVALID,
               "dst: not a multiple of value_size");
    HCQI_CHECK(queue, index, size % value_size == 0, HCQ_ERROR_INVALID,
               "size: not a multiple of value_size");
    queue->packets[index].value_size = (uint16_t)value_size;
    queue->packets[index].u.fill.value = value & UINT64_MAX >> (64 - 8 * value_size);
    return hcqi_record_end(queue);
}

HCQI_DEF int32_t hcq_queue_write(hcq_queue *queue, hcq_buffer dst, const void *data,
                                 uint64_t size) {
    uint32_t bytes = size > HCQI_WRITE_BYTES ? 0 : (uint32_t)size;
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_WRITE, 1, bytes));
    uint32_t index = queue->count;
    HCQI_CHECK(queue, index, data != NULL, HCQ_ERROR_INVALID, "data: is NULL");
    HCQI_CHECK(queue, index, bytes != 0, HCQ_ERROR_INVALID, "size: %llu, from 1 to %d",
               (unsigned long long)size, HCQI_WRITE_BYTES);
    HCQI_PASS(hcqi_store_set(queue, &dst, size));
    memcpy(queue->arena + queue->metas[index].arena, data, bytes);
    return hcqi_record_end(queue);
}

HCQI_DEF int32_t hcq_queue_host(hcq_queue *queue, hcq_host_fn fn, void *user) {
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_HOST, 0, 0));
    HCQI_CHECK(queue, queue->count, fn != NULL, HCQ_ERROR_INVALID, "fn: is NULL");
    hcq_packet *p = &queue->packets[queue->count];
    p->u.host.fn = fn;
    p->u.host.user = user;
    return hcqi_record_end(queue);
}

static hcq_custom_fn hcqi_custom_find(const hcq_custom_type *type, const hcq_backend *backend) {
    for (uint32_t i = 0; i < sizeof type->encode / sizeof *type->encode; i++) {
        const char *name = type->encode[i].backend;
        if (name != NULL && strcmp(name, backend->name) == 0) { return type->encode[i].encode_fn; }
    }
    return NULL;
}

HCQI_DEF int32_t hcq_queue_custom(hcq_queue *queue, const hcq_custom_type *type,
                                  const void *payload) {
    uint32_t size = type == NULL || type->payload_size > 4096 ? 0 : type->payload_size;
    HCQI_PASS(hcqi_record_begin(queue, HCQ_COMMAND_CUSTOM, 0, size));
    uint32_t index = queue->count;
    HCQI_CHECK(queue, index, type != NULL, HCQ_ERROR_INVALID, "type: is NULL");
    HCQI_CHECK(queue, index, size == type->payload_size, HCQ_ERROR_INVALID,
               "type: its payload is above 4096 bytes");
    HCQI_CHECK(queue, index, payload != NULL || size == 0, HCQ_ERROR_INVALID, "payload: is NULL");
    const hcq_backend *backend = queue->dev->backend;
    hcq_custom_fn fn = hcqi_custom_find(type, backend); /* a graph may run it elsewhere */
    HCQI_CHECK(queue, index, fn != NULL || queue->graph != NULL, HCQ_ERROR_UNSUPPORTED,
               "type: no encode function for backend %s", backend->name);
    hcq_packet *p = &queue->packets[index];
    if (size != 0) { memcpy(queue->arena + queue->metas[index].arena, payload, size); }
    p->u.custom.type = type;
    p->u.custom.encode_fn = fn;
    return hcqi_record_end(queue);
}

/* The argument that is the program's k-th buffer; arg_count: it has no such one. */
static uint32_t hcqi_name_arg(const hcq_program *program, uint32_t k) {
    uint32_t arg = 0, count = program->info.arg_count;
    while (arg < count && (!hcqi_arg_is_buffer(program->desc.args[arg]) || k-- != 0)) { arg++; }
    return arg;
}

/* Where the k-th buffer of command `i` is named, as in a patch. An exec's last may be a grid. */
static uint32_t hcqi_name_at(const hcq_queue *q, uint32_t i, uint32_t k) {
    const hcq_packet *p = &q->packets[i];
    if (p->kind != HCQ_COMMAND_EXEC) { return (uint32_t)offsetof(hcq_packet, u.copy.dst) + 8 * k; }
    const hcq_program *program = p->u.exec.program;
    uint32_t arg = hcqi_name_arg(program, k);
    return arg == program->info.arg_count ? (uint32_t)offsetof(hcq_packet, u.exec.grid_at)
                                          : HCQI_IN_BLOCK + program->info.offsets[arg];
}

static uint8_t *hcqi_name_bytes(const hcq_queue *q, uint32_t i, uint32_t k) {
    uint32_t at = hcqi_name_at(q, i, k);
    return at < HCQI_IN_BLOCK ? (uint8_t *)&q->packets[i] + at
                              : q->arena + q->metas[i].arena + (at - HCQI_IN_BLOCK);
}

static uint64_t hcqi_name_address(const hcq_queue *q, uint32_t i, uint32_t k) {
    uint64_t address;
    memcpy(&address, hcqi_name_bytes(q, i, k), sizeof address);
    return address;
}

/* Where values of this key are in a submission's list; 0: nowhere. */
static uint32_t hcqi_value_known(const hcq_queue *q, uint32_t key) {
    uint32_t at = q->value_count;
    while (at != 0 && q->keys[at] != key) { at--; }
    return at;
}

/* The same, and they are known from now on; those of the other kind may not be. */
static uint32_t hcqi_value_place(hcq_queue *q, uint32_t key) {
    uint32_t at = hcqi_value_known(q, key);
    if (at == 0) {
        at = ++q->value_count;
        q->keys[at] = (uint16_t)key;
    }
    return at;
}

/* What brings the part of command `i` that lies there; NULL: nothing. */
static const hcqi_patch *hcqi_patch_find(const hcq_queue *q, uint32_t i, uint32_t at) {
    uint32_t k = q->metas[i].patches;
    while (k != 0 && q->patches[k - 1].at != at) { k = q->patches[k - 1].next; }
    return k == 0 ? NULL : &q->patches[k - 1];
}

/* Is the k-th buffer of command `i` brought? */
static int hcqi_name_brought(const hcq_queue *q, uint32_t i, uint32_t k) {
    return q->metas[i].patches != 0 && hcqi_patch_find(q, i, hcqi_name_at(q, i, k)) != NULL;
}

/* Anything but HCQ_OK: was refused. */
static hcq_result hcqi_value_find(const hcq_queue *q, hcq_device *dev, const hcq_submission *sub,
                                  uint32_t number, hcqi_operand *op) {
    hcq_result why = HCQ_ERROR_INVALID;
    const char *bad = "is missing";
    char text[128];
    if (number < sub->value_count && sub->values[number].buffer.device != NULL) {
        const hcq_buffer *b = &sub->values[number].buffer;
        int both = sub->values[number].number != 0;
        op->a = hcqi_buffer_find(b, &why);
        op->address = b->address;
        op->reach = b->size;
        if (op->a != NULL && !both) { return HCQ_OK; }
        bad = op->a != NULL ? "has a number beside its buffer" : hcqi_buffer_bad(b, why);
    } else if (number < sub->value_count) {
        op->address = sub->values[number].number;
        op->a = hcqi_address_find(dev, op->address, &why);
        if (op->a != NULL) {
            op->reach = op->a->memory.size - (op->address - op->a->memory.address);
            return HCQ_OK;
        }
        bad = hcqi_address_bad(dev, op->address, text, sizeof text);
    }
    return hcqi_refuse(q->dev, why, "values: number %u, of queue '%s', %s", number, q->label, bad);
}

/* The same, into the place of a list as `dev` sees it. */
static hcq_result hcqi_value_see(const hcq_queue *q, hcq_device *owner, hcq_device *dev,
                                 const hcq_submission *sub, uint32_t place, uint64_t *values,
                                 hcqi_operand *op) {
    hcq_result why;
    HCQI_PASS(hcqi_value_find(q, owner, sub, q->keys[place] / 2, op));
    values[place] = op->address;
    if (op->a->dev == dev) { return HCQ_OK; }
    values[0] |= (uint64_t)1 << op->a->dev->slot;
    values[place] = hcqi_allocation_map(dev, op->a, op->address, &why);
    return why == HCQ_OK ? why : hcqi_refuse(q->dev, why, "values: number %u: device '%s' cannot "
                                             "see it", q->keys[place] / 2u, dev->label);
}

/* If both ends are brought the later of the two says so. */
static int hcqi_copy_meets(const hcq_queue *q, const hcqi_patch *patch, hcq_device *dev,
                           const hcq_submission *sub, const hcqi_operand *op) {
    uint32_t i = patch->command, name = patch->at == hcqi_name_at(q, i, 0); /* the other one's */
    const hcqi_patch *brings = hcqi_patch_find(q, i, hcqi_name_at(q, i, name));
    hcqi_operand other = { q->names[q->metas[i].name_first + name], NULL,
                           hcqi_name_address(q, i, name), 0 };
    if (brings > patch) { return 0; }
    if (brings != NULL) { (void)hcqi_value_find(q, dev, sub, brings->number, &other); }
    return op->a == other.a && hcqi_ranges_overlap(op->address, other.address,
                                                   q->packets[i].u.copy.size);
}

/* A buffer for a part of a command: what is wrong with it, or NULL; or *r is not HCQ_OK. */
static const char *hcqi_buffer_take(const hcq_queue *q, const hcqi_patch *patch, hcq_device *dev,
                                    const hcq_submission *sub, uint64_t *values, hcq_result *r) {
    hcqi_operand op;
    const hcq_packet *p = &q->packets[patch->command];
    int copy = p->kind == HCQ_COMMAND_COPY, fill = p->kind == HCQ_COMMAND_FILL;
    *r = hcqi_value_see(q, dev, dev, sub, patch->value, values, &op);
    if (*r != HCQ_OK || p->kind == HCQ_COMMAND_EXEC) { return NULL; }
    if (op.reach < p->u.copy.size) { return "has fewer bytes than were recorded"; }
    int stores = patch->at == hcqi_name_at(q, patch->command, 0);
    if (stores && op.a->memory.read_only) { return HCQI_READ_ONLY; }
    if (fill && op.address % p->value_size != 0) { return "is not a multiple of value_size"; }
    return copy && hcqi_copy_meets(q, patch, dev, sub, &op) ? "overlaps the copy's other end"
                                                            : NULL;
}

/* A number for a part of a command: what is wrong with it, or NULL. */
static const char *hcqi_number_take(const hcq_queue *q, const hcqi_patch *patch,
                                    const hcq_submission *sub, uint64_t *values) {
    const hcq_packet *p = &q->packets[patch->command];
    if (patch->number >= sub->value_count) { return "is missing"; }
    const hcq_value *v = &sub->values[patch->number];
    if (v->buffer.device != NULL) { return "is a buffer where a number goes"; }
    values[patch->value] = v->number;
    if (p->kind == HCQ_COMMAND_EXEC && patch->at < HCQI_IN_BLOCK) {
        return v->number <= patch->extra ? NULL : "is a grid beyond its maximum";
    } else if (p->kind == HCQ_COMMAND_EXEC) {
        return hcqi_placeholder_find(q, v->number) == NULL ? NULL : hcqi_hides_text;
    } else if (patch->at != offsetof(hcq_packet, u.copy.size)) { /* fill's is there, too */
        return NULL;
    }
    uint64_t step = p->kind == HCQ_COMMAND_FILL ? p->value_size : 1;
    int fits = v->number != 0 && v->number <= p->u.copy.size && v->number % step == 0;
    return fits ? NULL : "is a size of 0, beyond the recorded one or no multiple of value_size";
}

/* If that is within what was promised when the commands were recorded. */
static hcq_result hcqi_values_take(const hcq_queue *q, hcq_device *dev, const hcq_submission *sub,
                                   uint64_t *values) {
    for (uint32_t k = 0; k <= q->value_count; k++) { values[k] = 0; }
    for (uint32_t i = 0; i < q->patch_count; i++) {
        const hcqi_patch *patch = &q->patches[i];
        const char *bad = NULL;
        hcq_result r = HCQ_OK;
        if (q->keys[patch->value] % 2 == 0) {
            bad = hcqi_number_take(q, patch, sub, values);
        } else if (values[patch->value] == 0 || patch->at < HCQI_IN_BLOCK) { /* else it is known */
            bad = hcqi_buffer_take(q, patch, dev, sub, values, &r);
        }
        if (bad != NULL) {
            r = hcqi_refuse(q->dev, HCQ_ERROR_INVALID,
                            "values: number %u, %llu, of queue '%s' command %u, %s", patch->number,
                            (unsigned long long)values[patch->value], q->label, patch->command,
                            bad);
        }
        if (r != HCQ_OK) { return r; }
    }
    return HCQ_OK;
}

/* A part of a command is variable from now on. There is room. */
static void hcqi_patch_add(hcq_queue *q, hcqi_patch patch, uint32_t key) {
    hcqi_meta *m = &q->metas[patch.command];
    patch.next = m->patches;
    patch.value = (uint16_t)hcqi_value_place(q, key);
    q->patches[q->patch_count++] = patch;
    q->take = hcqi_values_take;
    m->patches = q->patch_count;
}

/* Does the command have address 0 for a buffer that no value brings? */
static int hcqi_command_lacks(const hcq_queue *q, uint32_t i) {
    int lacks = 0;
    for (uint32_t k = 0; k < q->metas[i].name_count; k++) {
        lacks |= hcqi_name_address(q, i, k) == 0 && !hcqi_name_brought(q, i, k);
    }
    return lacks;
}

/* What keeps `other` from being appended, or NULL. */
static const char *hcqi_append_check(const hcq_queue *q, const hcq_queue *other,
                                     hcq_result *why) {
    const hcqi_graph *g = other->graph;
    *why = HCQ_ERROR_INVALID;
    if (q->graph == NULL && g != NULL) { return "is a graph"; }
    if (q->kind == HCQ_COPY && other->kind != HCQ_COPY) { return "is no copy queue"; }
    for (uint32_t i = 0; q->graph != NULL && i < other->count; i++) {
        const hcq_packet *p = &other->packets[i];
        if (hcqi_packet_is_sync(p) && p->kind != HCQ_COMMAND_TIMESTAMP) {
            return "waits or signals";
        }
        if (hcqi_command_lacks(other, i)) { return "lacks a buffer"; }
        hcqi_breathe(i);
    }
    for (uint32_t k = 1; k <= other->value_count; k++) {
        uint32_t key = other->keys[k];
        if (q->graph != NULL && g == NULL && key % 2 != 0) { return "has a buffer as a variable"; }
        int same = hcqi_value_known(q, key ^ 1) == 0;
        if (g != NULL && key % 2 != 0 && hcqi_value_known(q, key) != 0) {
            const hcqi_input *a = &q->graph->inputs[key / 2], *b = &g->inputs[key / 2];
            same = a->dev == b->dev && a->size == b->size;
        }
        if (!same) { return "declares a value otherwise"; }
    }
    *why = HCQ_ERROR_LIMIT;
    if (g != NULL && q->graph->empty_count + g->empty_count > HCQI_MAX_EMPTIES) {
        return "has too many allocations";
    }
    *why = HCQ_ERROR_FOREIGN;
    return other->dev != q->dev && q->graph == NULL ? "is of another device" : NULL;
}

/* The address of an empty of an appended graph, which has a number `by` higher here. */
static uint64_t hcqi_empty_shift(uint64_t address, uint32_t by) {
    int empty = hcqi_is_placeholder(address) && hcqi_placeholder_number(address) >= HCQ_MAX_VALUES;
    return empty ? address + ((uint64_t)by << HCQI_TAG_SHIFT) : address;
}

/* As it is: what it names may be gone, for an update or a variable to replace it. A graph's links
   and empties move behind those that are there. */
static HCQI_COLD int32_t hcqi_record_copied(hcq_queue *q, const hcq_queue *other, uint32_t i) {
    const hcqi_meta *old = &other->metas[i];
    const hcqi_graph *g = other->graph == NULL ? NULL : q->graph;
    hcq_command_kind kind = (hcq_command_kind)other->packets[i].kind;
    uint32_t empties = g == NULL ? 0 : g->empty_count;
    HCQI_PASS(hcqi_record_begin(q, kind, old->name_count, old->arena_size));
    hcq_packet *p = &q->packets[q->count];
    hcqi_meta *m = &q->metas[q->count];
    *p = other->packets[i];
    p->index = q->count;
    q->stamps += kind == HCQ_COMMAND_TIMESTAMP;
    q->reads += kind == HCQ_COMMAND_EXEC && p->u.exec.grid_at != 0;
    if (other->carry != NULL) { q->carry = other->carry; }
    if (q->graph != NULL) { p->flags = 0; } /* its plan says what overlaps */
    if (m->arena_size != 0) {
        memcpy(q->arena + m->arena, other->arena + old->arena, m->arena_size);
    }
    for (uint32_t k = 0; k < m->name_count; k++) {
        uint64_t address = hcqi_empty_shift(hcqi_name_address(q, q->count, k), empties);
        memcpy(hcqi_name_bytes(q, q->count, k), &address, sizeof address);
        q->names[m->name_first + k] = other->names[old->name_first + k];
    }
    if (kind == HCQ_COMMAND_ALLOC) { p->u.fill.dst = hcqi_empty_shift(p->u.fill.dst, empties); }
    m->orders = g == NULL || old->orders == 0 ? 0 : old->orders + g->order_count;
    m->dev = old->dev;
    m->from = old->from;
    m->dev_serial = old->dev_serial;
    memcpy(m->reach, old->reach, sizeof m->reach);
    memcpy(m->label, old->label, sizeof m->label);
    q->labels += m->label[0] != 0;
    return hcqi_record_end(q);
}

/* What is said of the memory that a command gets at. There is room. */
static void hcqi_stated_add(hcq_queue *q, hcqi_stated stated) {
    hcqi_meta *m = &q->metas[stated.command];
    stated.next = m->stated;
    if (stated.a != NULL) { stated.a->names++; }
    q->stated[q->stated_count++] = stated;
    m->stated = q->stated_count;
}

/* A graph's input is known from now on. */
static void hcqi_input_set(hcq_queue *q, uint32_t number, hcqi_input input) {
    hcqi_graph *g = q->graph;
    input.value = hcqi_value_place(q, number * 2 + 1);
    g->inputs[number] = input;
    if (number >= g->input_end) { g->input_end = number + 1; }
}

/* What a graph has beside its commands, which are appended. There is room. */
static HCQI_COLD void hcqi_append_graph(hcq_queue *q, const hcqi_graph *from, uint32_t first) {
    hcqi_graph *g = q->graph;
    uint32_t orders = g->order_count;
    for (uint32_t i = 0; i < from->order_count; i++) {
        hcqi_link *o = &g->orders[g->order_count++];
        *o = from->orders[i];
        if (o->next != 0) { o->next += orders; }
        o->of += first;
        hcqi_breathe(i);
    }
    for (uint32_t n = 0; n < from->input_end; n++) {
        if (from->inputs[n].size != 0) { hcqi_input_set(q, n, from->inputs[n]); }
    }
    for (uint32_t i = 0; i < from->empty_count; i++) {
        g->empties[g->empty_count] = from->empties[i];
        g->empties[g->empty_count++].a = NULL;
    }
}

/* Takes the lock; the commands are appended. 0 = out of memory. */
static HCQI_COLD int hcqi_append_rest(hcq_queue *q, const hcq_queue *other, uint32_t first) {
    const hcqi_graph *from = other->graph;
    hcqi_graph *g = from == NULL ? NULL : q->graph;
    int room =
        HCQI_ROOM(q, q->patches, q->patch_capacity, q->patch_count + other->patch_count) &&
        HCQI_ROOM(q, q->stated, q->stated_capacity, q->stated_count + other->stated_count) &&
        (g == NULL ||
         (HCQI_ROOM(q, g->orders, g->order_capacity, g->order_count + from->order_count) &&
          HCQI_ROOM(q, g->empties, g->empty_capacity, g->empty_count + from->empty_count)));
    hcqi_enter();
    for (uint32_t i = 0; room && i < other->stated_count; i++) {
        hcqi_stated stated = other->stated[i];
        stated.command += first;
        stated.address = hcqi_empty_shift(stated.address, g == NULL ? 0 : g->empty_count);
        hcqi_stated_add(q, stated);
        hcqi_breathe(i);
    }
    for (uint32_t i = 0; room && i < other->patch_count; i++) {
        hcqi_patch patch = other->patches[i];
        patch.command += first;
        hcqi_patch_add(q, patch, other->keys[patch.value]);
        hcqi_breathe(i);
    }
    if (room && g != NULL) { hcqi_append_graph(q, from, first); }
    return room;
}

HCQI_DEF HCQI_COLD int32_t hcq_queue_append(hcq_queue *queue, const hcq_queue *other) {
    hcq_result why;
    HCQI_PASS(hcqi_queue_check(queue));
    HCQI_PASS(queue->sticky);
    hcqi_enter();
    uint32_t first = queue->count;
    HCQI_CHECK(queue, first, other != NULL && other != queue, HCQ_ERROR_INVALID,
               "other: is NULL or the queue itself");
    HCQI_CHECK(queue, first, !hcqi_is_parents(other->dev), HCQ_ERROR_CLOSED,
               "other: is of the parent process");
    HCQI_CHECK(queue, first, other->sticky == HCQ_OK, other->sticky,
               "other: recording failed at %s", other->error);
    const char *bad = hcqi_append_check(queue, other, &why);
    HCQI_CHECK(queue, first, bad == NULL, why, "other: %s", bad);
    queue->changing = 1;               /* after an error until a reset */
    hcqi_leave();                      /* each command takes it for itself */
    for (uint32_t i = 0; i < other->count; i++) {
        int32_t out = hcqi_record_copied(queue, other, i);
        if (out < 0) { return out; }
    }
    if (!hcqi_append_rest(queue, other, first)) { return hcqi_record_oom(queue); }
    queue->changing = 0;
    hcqi_queue_changed(queue);
    return (int32_t)first;
}

/* ========================================================================== */
/* ---- queues: reading back ------------------------------------ >>reading - */

HCQI_DEF int32_t hcq_queue_count(const hcq_queue *queue) {
    HCQI_PASS(hcqi_queue_check(queue));
    return (int32_t)queue->count;
}

/* Ends a call, which has the lock, whose parameter `name` is no command. */
static HCQI_COLD hcq_result hcqi_command_refuse(const hcq_queue *q, const char *name,
                                                int32_t index) {
    if (index >= 0) {
        return hcqi_leave_refusing(q->dev, HCQ_ERROR_INVALID, "queue '%s': %s: %d of %u commands",
                                   q->label, name, (int)index, q->count);
    }
    return hcqi_leave_refusing(q->dev, HCQ_ERROR_INVALID, "queue '%s': %s: is %d, not a command: "
                               "%s, what a recording call answered", q->label, name, (int)index,
                               hcq_result_name((hcq_result)index));
}

/* Takes the lock for a call about command `index`; anything but HCQ_OK: not taken. */
static hcq_result hcqi_command_enter(const hcq_queue *q, int32_t index, hcq_packet **p) {
    HCQI_PASS(hcqi_queue_enter(q));
    if ((uint32_t)index >= q->count) { return hcqi_command_refuse(q, "index", index); }
    *p = &q->packets[index];
    return HCQ_OK;
}

/* The buffer that is name `k` of a command, or the placeholder. */
static HCQI_COLD hcq_buffer hcqi_named_buffer(const hcq_queue *q, const hcqi_meta *m, uint32_t k,
                                              uint64_t address, uint64_t size) {
    hcq_buffer b;
    const hcqi_allocation *a = k < m->name_count ? q->names[m->name_first + k] : NULL;
    memset(&b, 0, sizeof b);
    const hcqi_input *in = a != NULL ? NULL : hcqi_placeholder_find(q, address);
    if (a == NULL && in == NULL) { return b; }
    if (a != NULL) { b = hcqi_buffer_of(a, address); } else { b.device = in->dev; }
    b.address = address;
    b.size = size;
    return b;
}

static HCQI_COLD void hcqi_command_work(const hcq_queue *q, const hcq_packet *p, hcq_command *c) {
    const hcqi_meta *m = &q->metas[p->index];
    switch (c->kind) {
    case HCQ_COMMAND_EXEC:
        c->program = p->u.exec.program;
        c->args_size = c->program->info.kernargs_size;
        memcpy(&c->grid, p->u.exec.grid, sizeof c->grid);
        memcpy(&c->block, p->u.exec.block, sizeof c->block);
        if (p->u.exec.grid_at == 0) { break; }
        if (c->args_size == 0) { c->args = NULL; }
        c->grid.z &= ~HCQ_GRID_INDIRECT;
        c->grid_buffer = hcqi_named_buffer(q, m, m->name_count - 1, p->u.exec.grid_at,
                                           HCQI_GRID_BYTES);
        break;
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
    case HCQ_COMMAND_FILL:
    case HCQ_COMMAND_ALLOC:            /* all have these at the same places: */
        c->size = p->u.copy.size;
        c->dst = hcqi_named_buffer(q, m, 0, p->u.copy.dst, c->size);
        if (c->kind == HCQ_COMMAND_COPY) {
            c->src = hcqi_named_buffer(q, m, 1, p->u.copy.src, c->size);
        } else if (c->kind == HCQ_COMMAND_WRITE) {
            c->data = c->args;
            c->args = NULL;
            c->args_size = 0;
        } else {
            c->value = p->u.fill.value;
            c->value_size = p->value_size;
        }
        break;
    case HCQ_COMMAND_HOST:
        c->host_fn = p->u.host.fn;
        c->user = p->u.host.user;
        break;
    case HCQ_COMMAND_CUSTOM: c->type = p->u.custom.type; break;
    case HCQ_COMMAND_BARRIER: break;
    default:
        c->device = HCQI_CAST(hcq_device *, p->u.sync.device);
        if (c->device != NULL) { break; }
        c->point = hcq_at(hcqi_signal_handle(HCQI_CAST(hcqi_signal *, p->u.sync.signal)),
                          p->u.sync.value);
    }
}

HCQI_DEF HCQI_COLD hcq_result hcq_queue_command(const hcq_queue *queue, int32_t index,
                                                hcq_command *command) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_command_enter(queue, index, &p));
    HCQI_LEAVE_UNLESS(queue->dev, command != NULL, HCQ_ERROR_INVALID, "command: is NULL");
    const hcqi_meta *m = &queue->metas[index];
    memset(command, 0, sizeof *command);
    command->kind = (hcq_command_kind)p->kind;
    command->flags = p->flags;
    command->label = m->label;
    command->args = m->arena_size == 0 ? NULL : queue->arena + m->arena;
    command->args_size = m->arena_size;
    hcqi_command_work(queue, p, command);
    return hcqi_leave_with(HCQ_OK);
}

/* The label of a command, of its program, or its kind; `q` NULL: without it. */
static const char *hcqi_packet_name(const hcq_queue *q, const hcq_packet *p) {
    const char *own = q == NULL || q->labels == 0 ? "" : q->metas[p->index].label;
    if (own[0] != 0) { return own; }
    if (p->kind == HCQ_COMMAND_EXEC && p->u.exec.program->info.label[0] != 0) {
        return p->u.exec.program->info.label;
    }
    if (p->kind == HCQ_COMMAND_CUSTOM && p->u.custom.type->label != NULL) {
        return p->u.custom.type->label;
    }
    return hcqi_kind_text(p->kind);
}

/* ========================================================================== */
/* ---- queues: updates ----------------------------------------- >>updates - */

static hcq_result hcqi_update_begin(hcq_queue *q, int32_t index, hcq_command_kind kind,
                                    hcq_packet **p) {
    HCQI_PASS(hcqi_command_enter(q, index, p));
    uint32_t is = (*p)->kind;
    int stamp = kind == HCQ_COMMAND_SIGNAL && is == HCQ_COMMAND_TIMESTAMP;
    HCQI_CHECK(q, HCQI_NONE, is == (uint32_t)kind || stamp, HCQ_ERROR_INVALID,
               "index: command %d is of another kind", (int)index);
    return HCQ_OK;
}

/* Versions find out what they lack from the list of what was updated, the latest first.
   `buffers`: of a graph's command, what orders it may have changed, too. */
static hcq_result hcqi_update_end(hcq_queue *q, const hcq_packet *p, int buffers) {
    uint32_t index = p->index;
    hcqi_meta *m = &q->metas[index];
    if (buffers && q->graph != NULL) { q->graph->plan.generation = 0; }
    if (q->newest != index + 1) {
        if (m->older != 0) { q->metas[m->older - 1].newer = m->newer; }
        if (m->newer != 0) { q->metas[m->newer - 1].older = m->older; }
        if (q->newest != 0) { q->metas[q->newest - 1].newer = index + 1; }
        m->older = q->newest;
        m->newer = 0;
        q->newest = index + 1;
    }
    m->updated = ++q->updates;
    return hcqi_leave_with(HCQ_OK);
}

static hcq_result hcqi_update_sync(hcq_queue *q, int32_t index, hcq_command_kind kind,
                                   const hcq_signal *signal, uint64_t value) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_update_begin(q, index, kind, &p));
    hcqi_signal *old = HCQI_CAST(hcqi_signal *, p->u.sync.signal);
    hcqi_signal *s = signal == NULL ? old : hcqi_signal_find(*signal);
    HCQI_CHECK(q, p->index, s != NULL, HCQ_ERROR_CLOSED, "signal: is zero or was destroyed");
    HCQI_PASS(hcqi_sync_set(q, p, s, value == HCQ_KEEP ? p->u.sync.value : value));
    s->refs++;
    hcqi_signal_unref(old);
    return hcqi_update_end(q, p, 0);
}

HCQI_DEF hcq_result hcq_queue_update_wait(hcq_queue *queue, int32_t index,
                                          const hcq_signal *signal, uint64_t value) {
    return hcqi_update_sync(queue, index, HCQ_COMMAND_WAIT, signal, value);
}

HCQI_DEF hcq_result hcq_queue_update_signal(hcq_queue *queue, int32_t index,
                                            const hcq_signal *signal, uint64_t value) {
    return hcqi_update_sync(queue, index, HCQ_COMMAND_SIGNAL, signal, value);
}

HCQI_DEF hcq_result hcq_queue_update_exec(hcq_queue *queue, int32_t index, const hcq_dims *grid,
                                          const hcq_dims *block) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_update_begin(queue, index, HCQ_COMMAND_EXEC, &p));
    hcq_program *program = p->u.exec.program;
    HCQI_CHECK(queue, p->index, grid == NULL || p->u.exec.grid_at == 0, HCQ_ERROR_INVALID,
               "grid: is read from a buffer");
    if (block != NULL) {
        hcq_dims b = hcqi_block_dims(&program->desc, *block);
        HCQI_CHECK(queue, p->index, hcqi_block_fits(queue, program, b), HCQ_ERROR_INVALID,
                   "block: %ux%ux%u does not fit '%s'", b.x, b.y, b.z, program->info.label);
        memcpy(p->u.exec.block, &b, sizeof b);
    }
    if (grid != NULL) { memcpy(p->u.exec.grid, grid, sizeof *grid); }
    return hcqi_update_end(queue, p, 0);
}

HCQI_DEF hcq_result hcq_queue_update_copy(hcq_queue *queue, int32_t index, const hcq_buffer *dst,
                                          const hcq_buffer *src, uint64_t size) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_update_begin(queue, index, HCQ_COMMAND_COPY, &p));
    const hcqi_meta *m = &queue->metas[index];
    hcqi_allocation **names = &queue->names[m->name_first];
    hcqi_operand to = { names[0], NULL, p->u.copy.dst, m->reach[0] };
    hcqi_operand from = { names[1], NULL, p->u.copy.src, m->reach[1] };
    if (size == HCQ_KEEP) { size = p->u.copy.size; }
    HCQI_CHECK(queue, p->index, size != 0, HCQ_ERROR_INVALID, "size: is 0");
    HCQI_PASS(hcqi_copy_set(queue, p->index, dst, src, size, &to, &from));
    hcqi_name_set(&names[0], hcqi_name_brought(queue, p->index, 0) ? NULL : to.a);
    hcqi_name_set(&names[1], hcqi_name_brought(queue, p->index, 1) ? NULL : from.a);
    return hcqi_update_end(queue, p, 1);
}

/* What was said of the bytes of argument `name`, those of its buffer up to another argument's, is
   so of the new ones; 0 = there are not so many. */
static HCQI_COLD int hcqi_update_stated(hcq_queue *q, uint32_t index, uint32_t name,
                                        uint64_t address, hcqi_allocation *a) {
    const hcqi_meta *m = &q->metas[index];
    const hcqi_allocation *was = q->names[m->name_first + name];
    const hcqi_input *in = a == NULL ? hcqi_placeholder_find(q, address) : NULL;
    uint64_t left = a == NULL ? in->size - hcqi_placeholder_offset(address)
                              : a->memory.size - (address - a->memory.address);
    uint64_t old = hcqi_name_address(q, index, name);
    uint64_t end = was != NULL ? was->memory.address + was->memory.size
                               : ((old >> HCQI_TAG_SHIFT) + 1) << HCQI_TAG_SHIFT;
    for (uint32_t k = 0; k < m->name_count; k++) {
        uint64_t other = hcqi_name_address(q, index, k);
        if (other > old && other < end) { end = other; }
    }
    for (int moves = 0; moves < 2; moves++) {
        for (uint32_t at = m->stated; at != 0; at = q->stated[at - 1].next) {
            hcqi_stated *t = &q->stated[at - 1];
            if (t->a != was || t->address < old || t->address >= end) { continue; }
            uint64_t offset = t->address - old;
            if (!moves && (offset > left || t->size > left - offset)) { return 0; }
            if (!moves) { continue; }
            hcqi_name_set(&t->a, a);
            t->dev = a == NULL ? in->dev : a->dev;
            t->address = address + offset;
        }
    }
    return 1;
}

HCQI_DEF hcq_result hcq_queue_update_arg(hcq_queue *queue, int32_t index, uint32_t offset,
                                         const void *value, size_t size) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_update_begin(queue, index, HCQ_COMMAND_EXEC, &p));
    const hcq_program *program = p->u.exec.program;
    uint32_t arg = hcqi_arg_at(&program->info, offset);
    if (arg == HCQI_NONE) { return hcqi_arg_refuse(queue, p->index, "offset", offset); }
    const hcqi_meta *m = &queue->metas[index];
    HCQI_CHECK(queue, p->index, value != NULL, HCQ_ERROR_INVALID, "value: argument %u has %u bytes",
               arg, program->info.sizes[arg]);
    HCQI_CHECK(queue, p->index, size == program->info.sizes[arg], HCQ_ERROR_INVALID,
               "size: argument %u has %u bytes", arg, program->info.sizes[arg]);
    int buffer = hcqi_arg_is_buffer(program->desc.args[arg]);
    uint32_t name = buffer ? hcqi_program_buffers(program, arg) : 0;
    int brought = buffer && hcqi_name_brought(queue, p->index, name);
    hcqi_allocation *a = NULL;
    if (!brought && (buffer || queue->graph != NULL)) {
        const uint8_t *bytes = HCQI_CAST(const uint8_t *, value);
        HCQI_PASS(hcqi_arg_check(queue, p->index, program, arg, bytes, &a));
    }
    if (buffer && !brought) {
        uint64_t address;
        memcpy(&address, value, sizeof address);
        int fits = m->stated == 0 || hcqi_update_stated(queue, p->index, name, address, a);
        HCQI_CHECK(queue, p->index, fits, HCQ_ERROR_INVALID,
                   "value: fewer bytes than hcq_queue_access said");
        hcqi_name_set(&queue->names[m->name_first + name], a);
    }
    memcpy(queue->arena + m->arena + offset, value, size);
    return hcqi_update_end(queue, p, buffer && !brought);
}

static int hcqi_custom_may_change(const hcq_custom_type *type, uint32_t at) {
    int any = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t from = type->updatable[i].offset, size = type->updatable[i].size;
        any |= size != 0;
        if (at >= from && at - from < size) { return 1; }
    }
    return !any;
}

HCQI_DEF hcq_result hcq_queue_update_custom(hcq_queue *queue, int32_t index,
                                            const void *payload) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_update_begin(queue, index, HCQ_COMMAND_CUSTOM, &p));
    const hcq_custom_type *type = p->u.custom.type;
    uint8_t *old = queue->arena + queue->metas[index].arena;
    const uint8_t *now = HCQI_CAST(const uint8_t *, payload);
    HCQI_CHECK(queue, p->index, payload != NULL, HCQ_ERROR_INVALID, "payload: is NULL");
    for (uint32_t i = 0; i < type->payload_size; i++) {
        HCQI_CHECK(queue, p->index, old[i] == now[i] || hcqi_custom_may_change(type, i),
                   HCQ_ERROR_INVALID, "payload: byte %u is not updatable", i);
    }
    if (type->payload_size != 0) { memcpy(old, payload, type->payload_size); }
    return hcqi_update_end(queue, p, 0);
}

/* Where a part of a command is, its bytes and which of the buffers that are named it is
   (HCQI_NONE: a number). Anything but HCQ_OK: it cannot vary, and was refused. */
static HCQI_COLD hcq_result hcqi_part_find(hcq_queue *q, uint32_t index, uint32_t part,
                                           hcqi_patch *patch, uint32_t *name) {
    const hcq_packet *p = &q->packets[index];
    int exec = p->kind == HCQ_COMMAND_EXEC, fill = p->kind == HCQ_COMMAND_FILL;
    int copy = p->kind == HCQ_COMMAND_COPY, store = fill || p->kind == HCQ_COMMAND_WRITE;
    uint32_t size = 0, axis = part - HCQ_PART_GRID_X;
    size_t at = offsetof(hcq_packet, u.exec.grid) + axis * sizeof axis;
    *name = HCQI_NONE;
    if (part >= HCQ_PART_ARG && exec) {
        const hcq_program *program = p->u.exec.program;
        uint32_t arg = hcqi_arg_at(&program->info, part - HCQ_PART_ARG);
        if (arg == HCQI_NONE) {
            return hcqi_arg_refuse(q, index, "part", part - HCQ_PART_ARG);
        }
        at = HCQI_IN_BLOCK + (part - HCQ_PART_ARG);
        size = program->info.sizes[arg];
        if (hcqi_arg_is_buffer(program->desc.args[arg])) {
            *name = hcqi_program_buffers(program, arg);
        }
    } else if (part == HCQ_PART_DST || part == HCQ_PART_SRC) {
        *name = part - HCQ_PART_DST;
        at = hcqi_name_at(q, index, *name);
        size = copy || (store && *name == 0) ? 8 : 0;
    } else if (part == HCQ_PART_VALUE && store) {
        at = fill ? offsetof(hcq_packet, u.fill.value) : HCQI_IN_BLOCK;
        size = fill ? p->value_size : (uint32_t)p->u.copy.size;
    } else if (part == HCQ_PART_SIZE && (copy || fill)) {
        at = offsetof(hcq_packet, u.fill.size);
        size = 8;
    } else if (exec && axis < 3 && p->u.exec.grid_at == 0) {
        size = 4;
    }
    HCQI_CHECK(q, index, hcqi_is_word(size), HCQ_ERROR_INVALID,
               "part: %u does not fit this command", part);
    HCQI_CHECK(q, index, *name == HCQI_NONE || q->graph == NULL, HCQ_ERROR_INVALID,
               "part: %u is a buffer, for which graphs have hcq_graph_input", part);
    patch->at = (uint32_t)at;
    patch->size = (uint8_t)size;
    return HCQ_OK;
}

HCQI_DEF HCQI_COLD hcq_result hcq_queue_variable(hcq_queue *queue, int32_t index, uint32_t part,
                                                 uint32_t number, uint64_t maximum) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_queue_check(queue));
    int room = HCQI_ROOM(queue, queue->patches, queue->patch_capacity, queue->patch_count + 1);
    HCQI_PASS(hcqi_command_enter(queue, index, &p));
    hcqi_patch patch = { p->index, 0, 0, 0, (uint8_t)number, 0, 0 };
    uint32_t name;
    HCQI_CHECK(queue, p->index, number < HCQ_MAX_VALUES, HCQ_ERROR_INVALID,
               "number: %u, at most %d", number, HCQ_MAX_VALUES - 1);
    HCQI_PASS(hcqi_part_find(queue, p->index, part, &patch, &name));
    uint32_t key = number * 2 + (name != HCQI_NONE);
    HCQI_CHECK(queue, p->index, hcqi_patch_find(queue, p->index, patch.at) == NULL,
               HCQ_ERROR_INVALID, "part: is variable already");
    HCQI_CHECK(queue, p->index, hcqi_value_known(queue, key ^ 1) == 0, HCQ_ERROR_INVALID,
               "number: %u is that of a %s elsewhere", number, key % 2 ? "number" : "buffer");
    HCQI_CHECK(queue, p->index, maximum == 0 || part <= HCQ_PART_GRID_Z, HCQ_ERROR_INVALID,
               "maximum: %llu, of what is no grid", (unsigned long long)maximum);
    HCQI_CHECK(queue, p->index, room, HCQ_ERROR_OUT_OF_MEMORY, "queue: out of memory");
    if (part <= HCQ_PART_GRID_Z) {
        uint32_t recorded = p->u.exec.grid[part - HCQ_PART_GRID_X];
        patch.extra = maximum == 0 ? recorded : maximum < UINT32_MAX ? maximum : UINT32_MAX;
    }
    hcqi_patch_add(queue, patch, key);
    if (name != HCQI_NONE) { /* what was recorded need not live */
        hcqi_name_set(&queue->names[queue->metas[p->index].name_first + name], NULL);
    }
    return hcqi_queue_changed(queue);
}

/* ========================================================================== */
/* ---- versions ----------------------------------------------- >>versions - */

/* `apart`, as below: lets go of the lock, of what nobody else can find. */
static void hcqi_version_drop_packets(hcqi_version *v, int apart) {
    if (v->recording.encoded != NULL) {
        if (apart) { hcqi_native_begin(v->dev); }
        v->dev->backend->encode_free(v->dev->self, &v->recording);
        if (apart) { hcqi_native_end(v->dev); }
        v->recording.encoded = NULL;
    }
    for (uint32_t i = 0; i < v->count; i++) {
        if (apart) { hcqi_breathe(i); }
        hcqi_packet_unref(&v->packets[i]);
    }
    v->count = 0;
}

static void hcqi_version_link(hcqi_version *v, int aside) {
    hcqi_version **list = aside ? &v->queue->aside : &v->queue->versions;
    v->is_aside = aside;
    v->prev = NULL;
    v->next = *list;
    if (v->next != NULL) { v->next->prev = v; }
    *list = v;
}

static void hcqi_version_unlink(hcqi_version *v) {
    hcqi_version **list = v->is_aside ? &v->queue->aside : &v->queue->versions;
    if (v->prev != NULL) { v->prev->next = v->next; } else { *list = v->next; }
    if (v->next != NULL) { v->next->prev = v->prev; }
}

static void hcqi_version_delete(hcqi_version *v, int apart) {
    hcq_memory_hooks *hooks = &v->queue->dev->hooks;
    hcq_device *dev = v->dev;
    hcqi_version_unlink(v);
    v->queue->version_count--;
    dev->pins++;
    hcqi_version_drop_packets(v, apart);
    if (apart) { hcqi_native_begin(dev); }
    if (v->memory.size != 0) { dev->backend->dealloc(dev->self, &v->memory); }
    hcqi_delete(hooks, v->packets, v->capacity * sizeof *v->packets);
    hcqi_delete(hooks, v->segments, v->segment_capacity * sizeof *v->segments);
    hcqi_delete(hooks, v->syncs, v->sync_capacity * sizeof *v->syncs);
    hcqi_delete(hooks, v->places, v->place_capacity * sizeof *v->places);
    hcqi_delete(hooks, v->patches, v->patch_capacity * sizeof *v->patches);
    hcqi_delete(hooks, v->values, v->value_capacity * sizeof *v->values);
    hcqi_delete(hooks, v->labels, v->label_capacity * sizeof *v->labels);
    hcqi_delete(hooks, v, sizeof *v);
    if (apart) { hcqi_native_end(dev); }
    hcqi_unpin(dev);
}

/* Lets go of what the last commands name, some of them; 1 = there is nothing more. */
static int hcqi_queue_forget_some(hcq_queue *q) {
    for (uint32_t i = 0; i < HCQI_BREATH && q->count != 0; i++) {
        hcqi_packet_unref(&q->packets[--q->count]);
    }
    for (uint32_t i = 0; i < HCQI_BREATH && q->name_count != 0; i++) {
        hcqi_name_set(&q->names[--q->name_count], NULL);
    }
    for (uint32_t i = 0; i < HCQI_BREATH && q->stated_count != 0; i++) {
        hcqi_name_set(&q->stated[--q->stated_count].a, NULL);
    }
    return q->count + q->name_count + q->stated_count == 0;
}

static void hcqi_queue_free(hcq_queue *q, int apart) {
    const hcq_memory_hooks *hooks = &q->dev->hooks;
    hcq_device *dev = q->dev;
    while (q->versions != NULL) { hcqi_version_delete(q->versions, apart); }
    while (q->aside != NULL) { hcqi_version_delete(q->aside, apart); }
    while (!hcqi_queue_forget_some(q)) { }
    if (q->graph != NULL) { q->graph->calls->destroy(q); }
    if (q->prev != NULL) { q->prev->next = q->next; } else { q->dev->queues = q->next; }
    if (q->next != NULL) { q->next->prev = q->prev; }
    q->magic = 0;
    if (apart) { hcqi_apart_begin(dev); }
    hcqi_delete(hooks, q->packets, q->packet_capacity * sizeof *q->packets);
    hcqi_delete(hooks, q->metas, q->meta_capacity * sizeof *q->metas);
    hcqi_delete(hooks, q->arena, q->arena_capacity);
    hcqi_delete(hooks, q->outgrown, q->outgrown_size);
    hcqi_delete(hooks, q->names, q->name_capacity * sizeof *q->names);
    hcqi_delete(hooks, q->stated, q->stated_capacity * sizeof *q->stated);
    hcqi_delete(hooks, q->patches, q->patch_capacity * sizeof *q->patches);
    hcqi_delete(hooks, q, sizeof *q);
    if (apart) { hcqi_apart_end(dev); }
}

/* One user less. */
static void hcqi_queue_done(hcq_queue *q) {
    if (--q->pending == 0 && q->destroyed) { hcqi_queue_free(q, 0); }
}

static int hcqi_version_idle(const hcqi_version *v) { return v->uses == 0 && v->shapes == 0; }

/* One user less: it may be of use for others, or one too many. */
static void hcqi_version_let_go(hcqi_version *v) {
    hcq_queue *q = v->queue;
    if (!hcqi_version_idle(v) || q->graph != NULL) { return; }
    if (q->version_count > 8 * v->dev->desc.versions) {
        hcqi_version_delete(v, 0);
    } else if (v->is_aside) {
        hcqi_version_unlink(v);
        hcqi_version_link(v, 0);
    }
}

/* For lists of values that held submissions with the version's shape keep. */
static hcqi_pool *hcqi_version_pool(const hcqi_version *v) {
    uint32_t k = 0;
    while ((uint32_t)2 << k <= v->value_count) { k++; }
    return &v->dev->values[k];
}

/* A copy of the list, for a job that has but the version's shape; NULL = out of memory. */
static uint64_t *hcqi_values_keep(const hcqi_version *v, const uint64_t *values) {
    if (!hcqi_pool_reserve(hcqi_version_pool(v), 1)) { return NULL; }
    uint64_t *kept = HCQI_CAST(uint64_t *, hcqi_pool_get(hcqi_version_pool(v)));
    for (uint32_t k = 0; k <= v->value_count; k++) { kept[k] = values[k]; }
    return kept;
}

/* `kept`: of a submission with values of its own; NULL: they are in the version. */
static void hcqi_version_release(hcqi_version *v, uint64_t *kept) {
    hcq_queue *q = v->queue;
    if (kept != NULL) { hcqi_pool_put(hcqi_version_pool(v), kept); }
    if (kept != NULL) { v->shapes--; } else { v->uses--; }
    hcqi_version_let_go(v);
    hcqi_queue_feed(q);
    hcqi_queue_done(q);
}

static hcqi_segment *hcqi_segment_add(hcqi_version *v, uint32_t first) {
    hcqi_segment *seg = HCQI_PUSH(&v->queue->dev->hooks, v->segments, v->segment_count,
                                  v->segment_capacity);
    if (seg == NULL) { return NULL; }
    memset(seg, 0, sizeof *seg);
    seg->first = first;
    return seg;
}

/* A segment is waits, then work, then signals; what breaks that order, or is
   the service thread's, begins the next one. */
static int hcqi_segment_is_full(const hcqi_segment *seg, const hcq_packet *p, int host) {
    if (seg->host) { return 1; }
    if (host || hcqi_packet_waits(p)) { return seg->works + seg->signals != 0; }
    return p->kind != HCQ_COMMAND_SIGNAL && seg->signals != 0;
}

static uint8_t *hcqi_version_host(const hcqi_version *v, uint64_t offset) {
    return HCQI_CAST(uint8_t *, v->memory.host) + offset;
}

/* Notes a packet that waits or raises; a timestamp gets a slot of the version to store into,
   while its `sync` stays for the core. 0 = out of memory. */
static HCQI_COLD int hcqi_version_sync(hcqi_version *v, uint32_t at) {
    hcq_packet *p = &v->packets[at];
    int stamps = p->kind == HCQ_COMMAND_TIMESTAMP, raises = stamps || p->kind == HCQ_COMMAND_SIGNAL;
    if (!HCQI_GROW(&v->queue->dev->hooks, v->syncs, v->sync_capacity,
                   (uint64_t)v->sync_count + 1)) {
        return 0;
    }
    hcqi_sync_at *sync = &v->syncs[v->sync_count++];
    sync->packet = at;
    sync->segment = v->segment_count - 1 + ((p->flags & HCQI_FAR) != 0); /* behind the copy */
    v->wait_count += (uint32_t)!raises;
    if (stamps) {
        uint64_t offset = v->slot_offset + 8 * (uint64_t)v->stamp_count++;
        p->u.sync.slot = hcqi_version_host(v, offset);
        p->u.sync.value = v->memory.address + offset;
    }
    return 1;
}

static HCQI_COLD int hcqi_version_cut(hcqi_version *v) {
    int runs_host = v->dev->caps.runs_host;
    v->segment_count = 0;
    v->wait_count = 0;
    v->sync_count = 0;
    v->stamp_count = 0;
    hcqi_segment *seg = hcqi_segment_add(v, 0);
    for (uint32_t i = 0; seg != NULL && i < v->count; i++) {
        const hcq_packet *p = &v->packets[i];
        int carries = (p->flags & HCQI_FAR) != 0;
        int host = p->kind == HCQ_COMMAND_HOST && (carries || p->u.host.fn == NULL || !runs_host);
        int marks = p->kind == HCQ_COMMAND_TIMESTAMP && p->u.stamp.signal == NULL;
        if (hcqi_segment_is_full(seg, p, host)) { seg = hcqi_segment_add(v, i); }
        if (seg == NULL) { return 0; }
        if (hcqi_packet_waits(p)) {
            seg->first = i + 1;
        } else if (p->kind == HCQ_COMMAND_SIGNAL) {
            seg->signals++;
        } else {
            seg->works++;
            seg->host = host;
        }
        int syncs = carries || (hcqi_packet_is_sync(p) && !marks);
        if (syncs && !hcqi_version_sync(v, i)) { return 0; }
    }
    if (seg != NULL && seg->host) { seg = hcqi_segment_add(v, v->count); }
    return seg != NULL;
}

/* Writes `size` bytes at a place as in a patch; gives the packet that has it: a grid may be
   read by what hcqi_version_reader put before its exec. */
static uint32_t hcqi_version_write(hcqi_version *v, uint32_t packet, uint32_t at, uint32_t size,
                                   uint64_t value) {
    hcq_packet *p = &v->packets[packet];
    int exec = p->kind == HCQ_COMMAND_EXEC;
    if (exec && at == offsetof(hcq_packet, u.exec.grid_at) && p->u.exec.grid_at == 0) {
        packet -= 2 + (uint32_t)v->profiled;
        v->packets[packet].u.copy.src = value;
        return packet;
    }
    uint64_t block = exec ? p->u.exec.args : p->u.copy.src; /* write's */
    uint8_t *to = at < HCQI_IN_BLOCK
                      ? (uint8_t *)p + at
                      : hcqi_version_host(v, block - v->memory.address + (at - HCQI_IN_BLOCK));
    if (size == 8) { memcpy(to, &value, 8); } else { memcpy(to, &value, size); } /* little endian */
    return packet;
}

/* Host memory that a copy goes through: at the target's device [0], at the source's [1]; only at
   one of them if the other one sees it, else the host copies from hcqi_allocation.twin. */
typedef struct hcqi_bridge {
    hcqi_allocation *a[2];
    uint64_t serials[2];               /* of the two devices */
} hcqi_bridge;

/* The end of a bridge that the source's device uses, or the target's. */
static hcqi_allocation *hcqi_bridge_end(const hcqi_bridge *b, int source) {
    return b->a[source] != NULL ? b->a[source] : b->a[!source];
}

static hcq_result hcqi_bridge_cross(void *user) {
    const hcqi_allocation *a = HCQI_CAST(const hcqi_allocation *, user);
    hcqi_copy_bytes(a->memory.host, a->twin->memory.host, a->memory.size);
    return HCQ_OK;
}

/* Whose memory a host command reads that is to cross a bridge; NULL: it is another one. */
static hcq_device *hcqi_packet_crosses(const hcq_packet *p) {
    int crosses = p->kind == HCQ_COMMAND_HOST && p->u.host.fn == hcqi_bridge_cross;
    return crosses ? HCQI_CAST(const hcqi_allocation *, p->u.host.user)->twin->dev : NULL;
}

/* The bridge's end that a half copy takes in place of a buffer; NULL: it is whole. */
static hcqi_allocation *hcqi_call_bridge(const hcq_queue *q, const hcqi_call *c) {
    if (c == NULL || c->half == HCQI_WHOLE) { return NULL; }
    return hcqi_bridge_end(&q->graph->bridges[c->bridge], c->half == HCQI_OUT);
}

/* The k-th buffer of command `i`, or the bridge in its place, which is not the version's
   device's: it may see it elsewhere. A plain queue's copy of what it does not see is for
   others. */
static HCQI_COLD hcq_result hcqi_version_name(hcqi_version *v, uint32_t at, uint32_t i, uint32_t k,
                                              hcqi_allocation *bridge) {
    const hcq_queue *q = v->queue;
    const hcqi_meta *m = &q->metas[i];
    hcqi_allocation *a = q->names[m->name_first + k];
    hcq_result why = HCQ_ERROR_CLOSED;
    uint64_t address = hcqi_name_address(q, i, k);
    uint32_t where = hcqi_name_at(q, i, k);
    int brought = a == NULL && hcqi_name_brought(q, i, k);
    HCQI_REFUSE_UNLESS(v->dev, address != 0 || brought, HCQ_ERROR_INVALID,
                       "queue '%s' command %u: has no buffer %u, and no value brings one",
                       q->label, i, k);
    if (bridge != NULL) {
        a = bridge;
        address = bridge->memory.address;
    } else if (hcqi_is_placeholder(address) && q->graph != NULL) {
        uint32_t n = hcqi_placeholder_number(address);
        if (n < HCQ_MAX_VALUES) { return HCQ_OK; } /* launches bring it */
        a = q->graph->empties[n - HCQ_MAX_VALUES].a;
        address = a->memory.address + hcqi_placeholder_offset(address);
    }
    if (brought && where < HCQI_IN_BLOCK) { address = (uint64_t)HCQI_TAG << 56; }
    if (a != NULL && a->dev != v->dev) {
        address = hcqi_allocation_map(v->dev, a, address, &why);
        v->foreign |= (uint64_t)1 << a->dev->slot;
        int carried = why == HCQ_ERROR_FOREIGN && q->graph == NULL;
        if (carried && v->packets[at].kind == HCQ_COMMAND_COPY) {
            v->packets[at].flags |= HCQI_FAR;
            return hcqi_allocation_user(a, v->dev);
        }
        if (address == 0) { return why; }
    }
    hcqi_version_write(v, at, where, 8, address);
    return HCQ_OK;
}

/* NULL: the queue is no graph. */
static const hcqi_call *hcqi_version_call(const hcqi_version *v, uint32_t call) {
    return v->queue->graph == NULL ? NULL : &v->queue->graph->plan.calls[call];
}

/* Argument block, bytes or payload of a packet, and what the device has for it. */
static hcq_result hcqi_version_fill(hcqi_version *v, hcq_packet *p, const hcqi_meta *m) {
    uint8_t *block = m->arena_size == 0 ? NULL : hcqi_version_host(v, m->arena);
    uint64_t address = block == NULL ? 0 : v->memory.address + m->arena;
    if (block != NULL) { memcpy(block, v->queue->arena + m->arena, m->arena_size); }
    if (p->kind == HCQ_COMMAND_EXEC) {
        if (v->profiled) { p->flags |= HCQ_PACKET_SHARES; }
        if (hcqi_packet_is_read(p, v->dev)) {
            p->u.exec.grid[0] = p->u.exec.grid[1] = p->u.exec.grid[2] = 1; /* until it is */
            p->u.exec.grid_at = 0;
            p->flags |= HCQ_PACKET_CHANGES;
        }
        p->u.exec.args = address;
        p->u.exec.code = p->u.exec.program->codes[v->dev->slot].code;
    } else if (p->kind == HCQ_COMMAND_WRITE) {
        p->u.copy.src = address;
    } else if (p->kind == HCQ_COMMAND_CUSTOM) {
        p->u.custom.payload = block;
        p->u.custom.encode_fn = hcqi_custom_find(p->u.custom.type, v->dev->backend);
        if (p->u.custom.encode_fn == NULL) { return HCQ_ERROR_UNSUPPORTED; }
    }
    return HCQ_OK;
}

/* Packet `at` becomes what the recording says of a call of a graph's plan, or a command. What was
   updated before, or a submission brings parts of, may change again. */
static hcq_result hcqi_version_packet(hcqi_version *v, uint32_t at, uint32_t call) {
    const hcq_queue *q = v->queue;
    const hcqi_call *c = hcqi_version_call(v, call);
    uint32_t i = c == NULL ? call : c->command;
    const hcqi_meta *m = &q->metas[i];
    hcq_packet *p = &v->packets[at];
    *p = q->packets[i];
    int copies = p->kind == HCQ_COMMAND_COPY && (hcqi_is_placeholder(p->u.copy.dst) ||
                                                 hcqi_is_placeholder(p->u.copy.src));
    if (c != NULL) { p->flags = (uint8_t)(c->overlap ? HCQ_OVERLAP : 0); }
    if (c != NULL && c->half == HCQI_IN) { p->flags |= HCQI_SECOND; }
    if (m->updated != 0 || m->patches != 0 || copies) { p->flags |= HCQ_PACKET_CHANGES; }
    HCQI_PASS(hcqi_version_fill(v, p, m));
    for (uint32_t k = 0; k < m->name_count; k++) {
        const hcqi_allocation *a = q->names[m->name_first + k];
        hcqi_allocation *bridge = c != NULL && c->half == k + 1 ? hcqi_call_bridge(q, c) : NULL;
        if (a == NULL || a->dev != v->dev || bridge != NULL) {
            HCQI_PASS(hcqi_version_name(v, at, i, k, bridge));
        }
    }
    if (p->flags & HCQI_FAR) {         /* backends skip it; by their owners' addresses */
        int brought = hcqi_name_brought(q, i, 0) || hcqi_name_brought(q, i, 1);
        HCQI_REFUSE_UNLESS(v->dev, !brought, HCQ_ERROR_FOREIGN,
                           "queue '%s' command %u: an end is brought, the other one is memory "
                           "that '%s' cannot see", q->label, i, v->dev->label);
        p->kind = HCQ_COMMAND_HOST;
        p->u.carry.dst = q->packets[i].u.copy.dst;
        p->u.carry.src = q->packets[i].u.copy.src;
        p->u.carry.to = q->names[m->name_first];
        p->u.carry.from = q->names[m->name_first + 1];
    }
    return HCQ_OK;
}

static uint32_t hcqi_queue_calls(const hcq_queue *q) {
    return q->graph == NULL ? q->count : q->graph->plan.call_count;
}

/* NULL: the queue is no graph. */
static const hcqi_slice *hcqi_version_slice(const hcqi_version *v) {
    return v->queue->graph == NULL ? NULL : &v->queue->graph->plan.slices[v->slice];
}

static HCQI_COLD hcq_result hcqi_version_storage(hcqi_version *v) {
    const hcq_queue *q = v->queue;
    const hcq_memory_hooks *hooks = &q->dev->hooks;
    const hcqi_slice *slice = hcqi_version_slice(v);
    uint64_t count = slice == NULL ? q->count : (uint64_t)slice->count + slice->syncs;
    if (hcqi_queue_is_read(q, v->dev)) { count += 2 * (uint64_t)q->reads; }
    v->slot_offset = ((uint64_t)q->arena_size + 63) & ~(uint64_t)63;
    v->mark_offset = v->slot_offset + 8 * (uint64_t)q->stamps;
    uint64_t bytes = v->mark_offset + (v->profiled ? 16 * count : 0), places = hcqi_queue_calls(q);
    uint64_t patches = slice == NULL ? q->patch_count : 0, values = q->value_count + (uint64_t)1;
    count = v->profiled ? 3 * count : count;
    if (count <= v->capacity && places <= v->place_capacity && patches <= v->patch_capacity &&
        values <= v->value_capacity && bytes <= v->memory.size) {
        return HCQ_OK;
    }
    hcqi_native_begin(v->dev);
    int room = HCQI_GROW(hooks, v->packets, v->capacity, count) &&
               HCQI_GROW(hooks, v->places, v->place_capacity, places) &&
               HCQI_GROW(hooks, v->patches, v->patch_capacity, patches) &&
               HCQI_GROW(hooks, v->values, v->value_capacity, values);
    hcq_result r = room ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY;
    if (room && bytes > v->memory.size) {
        if (v->memory.size != 0) { v->dev->backend->dealloc(v->dev->self, &v->memory); }
        r = v->dev->backend->alloc(v->dev->self, bytes, HCQ_HOST_VISIBLE, &v->memory);
        v->memory.size = r == HCQ_OK ? bytes : 0;
        if (r == HCQ_OK) { memset(v->memory.host, 0, (size_t)bytes); } /* makes its pages */
    }
    hcqi_native_end(v->dev);
    return r;
}

/* One packet more: what the core itself puts between commands. */
static hcq_packet *hcqi_version_extra(hcqi_version *v, hcq_command_kind kind, uint32_t command) {
    hcq_packet *p = &v->packets[v->count++];
    memset(p, 0, sizeof *p);
    p->kind = (uint8_t)kind;
    p->index = command;
    return p;
}

/* A timestamp for the profile; commands next to each other share one. */
static HCQI_COLD void hcqi_version_mark(hcqi_version *v, uint32_t command) {
    if (!v->profiled) { return; }
    const hcq_packet *before = v->count == 0 ? NULL : &v->packets[v->count - 1];
    int marked = before != NULL && before->kind == HCQ_COMMAND_TIMESTAMP &&
                 before->u.stamp.signal == NULL;
    if (marked) { return; }
    hcq_packet *p = hcqi_version_extra(v, HCQ_COMMAND_TIMESTAMP, command);
    p->u.stamp.dst = v->memory.address + v->mark_offset + 8 * (uint64_t)v->marks++;
}

/* Where the profile knows a command that is recorded as `index`, or its second half. */
static uint64_t hcqi_half_number(uint32_t index, int second) {
    return 2 * (uint64_t)index + (uint64_t)(second != 0);
}

/* What only a graph's slices wait for and raise: that call `at` is done. */
static void hcqi_version_relative(hcqi_version *v, hcq_command_kind kind, const hcqi_call *c,
                                  const hcqi_call *at) {
    hcq_packet *p = hcqi_version_extra(v, kind, c->command);
    p->flags = (uint8_t)(HCQI_RELATIVE | (c->half == HCQI_IN ? HCQI_SECOND : 0));
    p->u.relative.slice = at->slice;
    p->u.relative.place = at->place;
    p->u.relative.from = hcqi_half_number(at->command, at->half == HCQI_IN);
}

/* What reads the grid of exec `i`: a copy to where the host can look, and a step of the
   service thread. */
static HCQI_COLD void hcqi_version_reader(hcqi_version *v, uint32_t i) {
    const hcqi_meta *m = &v->queue->metas[i];
    const hcq_packet *p = &v->queue->packets[i];
    uint64_t offset = (uint64_t)m->arena + m->arena_size - HCQI_GRID_BYTES;
    hcq_packet *copy = hcqi_version_extra(v, HCQ_COMMAND_COPY, i);
    copy->flags = HCQI_SILENT | HCQ_PACKET_CHANGES;
    copy->u.copy.dst = v->memory.address + offset;
    copy->u.copy.src = p->u.exec.grid_at;
    copy->u.copy.size = HCQI_GRID_BYTES;
    hcq_packet *step = hcqi_version_extra(v, HCQ_COMMAND_HOST, i);
    step->flags = HCQI_SILENT;
    step->u.host.user = hcqi_version_host(v, offset);
    memcpy(step->u.host.most, p->u.exec.grid, sizeof step->u.host.most);
}

/* Do the buffers that the command names? */
static int hcqi_command_lives(const hcq_queue *q, uint32_t i) {
    const hcqi_meta *m = &q->metas[i];
    int lives = 1;
    for (uint32_t k = 0; k < m->name_count; k++) {
        lives &= hcqi_allocation_lives(q->names[m->name_first + k]);
    }
    for (uint32_t at = m->stated; at != 0; at = q->stated[at - 1].next) {
        lives &= hcqi_allocation_lives(q->stated[at - 1].a);
    }
    return lives;
}

/* A call, and what lies around it: waits for other slices of the launch, what the host does
   for a bridge, the profile's timestamps, the signal for other slices. */
static hcq_result hcqi_version_emit(hcqi_version *v, uint32_t call) {
    const hcqi_call *c = hcqi_version_call(v, call);
    uint32_t i = c == NULL ? call : c->command;
    const hcq_packet *p = &v->queue->packets[i];
    const hcqi_plan *plan = c == NULL ? NULL : &v->queue->graph->plan;
    hcqi_allocation *bridge = hcqi_call_bridge(v->queue, c);
    if (v->named_frees != 0 && !hcqi_command_lives(v->queue, i)) { v->named_frees = 0; }
    for (uint32_t k = 0; c != NULL && k < c->wait_count; k++) {
        const hcqi_call *from = &plan->calls[plan->waits[c->wait_first + k]];
        hcqi_version_relative(v, HCQ_COMMAND_WAIT, c, from);
    }
    if (bridge != NULL && bridge->twin != NULL) {
        hcq_packet *host = hcqi_version_extra(v, HCQ_COMMAND_HOST, i);
        host->flags = HCQI_SILENT;
        host->u.host.fn = hcqi_bridge_cross;
        host->u.host.user = bridge;
        v->foreign |= (uint64_t)1 << bridge->twin->dev->slot;
    }
    const hcq_device *other = hcqi_packet_crosses(p); /* recorded by who carries a copy */
    if (other != NULL) { v->foreign |= (uint64_t)1 << other->slot; }
    if (hcqi_packet_is_read(p, v->dev)) { hcqi_version_reader(v, i); }
    int timed = hcqi_packet_is_timed(p);
    int served = p->kind == HCQ_COMMAND_HOST && !v->dev->caps.runs_host;
    if (timed && !served) { hcqi_version_mark(v, i); }
    HCQI_PASS(hcqi_version_packet(v, v->count, call));
    v->places[call] = v->count;
    hcq_packet *made = &v->packets[v->count++];
    hcqi_packet_ref(made);
    if (served && v->profiled) { /* the service thread takes the times */
        made->u.host.marks = hcqi_version_host(v, v->mark_offset + 8 * (uint64_t)v->marks);
        v->marks += 2;
    } else if (timed && !(made->flags & HCQI_FAR)) {
        hcqi_version_mark(v, i);
    }
    if (c != NULL && c->signals) { hcqi_version_relative(v, HCQ_COMMAND_SIGNAL, c, c); }
    return HCQ_OK;
}

/* It rises with every change of what versions are made from. */
static uint64_t hcqi_queue_state(const hcq_queue *q) {
    return q->generation + q->updates + (q->graph == NULL ? 0 : q->graph->plan.serial);
}

/* Others get the lock now and then: HCQ_NOT_READY, the queue was changed meanwhile. */
static hcq_result hcqi_version_copy(hcqi_version *v, uint64_t state) {
    const hcq_queue *q = v->queue;
    const hcqi_slice *slice = hcqi_version_slice(v);
    uint32_t count = slice == NULL ? q->count : slice->count;
    if (slice != NULL) { memset(v->places, 0xff, hcqi_queue_calls(q) * sizeof *v->places); }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t call = slice == NULL ? k : slice->calls[k];
        const hcqi_call *c = hcqi_version_call(v, call);
        const hcq_packet *p = &q->packets[c == NULL ? call : c->command];
        if (p->kind == HCQ_COMMAND_EXEC && p->u.exec.program->codes[v->dev->slot].dev != v->dev) {
            HCQI_PASS(hcqi_program_code(p->u.exec.program, v->dev));
        }
        hcqi_breathe(k);
        if (hcqi_queue_state(q) != state) { return HCQ_NOT_READY; }
        HCQI_PASS(hcqi_version_emit(v, call));
    }
    return HCQ_OK;
}

/* Without the lock, if that may be. Timestamps want a graph's commands one after the other. */
static HCQI_COLD hcq_result hcqi_version_encode(hcqi_version *v) {
    const hcq_backend *backend = v->dev->backend;
    size_t bytes = 0;
    uint32_t *first = NULL;
    if (!hcqi_version_cut(v)) { return HCQ_ERROR_OUT_OF_MEMORY; }
    if (backend->encode == NULL) { return HCQ_OK; }
    if (v->recording.bound && v->queue->graph != NULL && v->dev->caps.edges && !v->profiled) {
        first = v->queue->graph->calls->edges(v, &bytes);
        if (first == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
        v->recording.edge_first = first;
        v->recording.edges = first + v->count + 1;
    }
    hcq_result r = backend->encode(v->dev->self, &v->recording);
    v->recording.edge_first = NULL;
    v->recording.edges = NULL;
    if (first != NULL) { hcqi_delete(&v->queue->dev->hooks, first, bytes); }
    return r;
}

/* Into packet `at`, of the patch's command; gives the packet that has it. */
static uint32_t hcqi_version_patch(hcqi_version *v, uint32_t at, const hcqi_patch *patch,
                                   uint64_t value) {
    if (patch->size == 8) { value += patch->extra; }
    return hcqi_version_write(v, at, patch->at, patch->size, value);
}

static int hcqi_version_has(const hcqi_version *v, const uint64_t *values) {
    uint32_t k = v->value_count == 0 ? 0 : v->value_count + 1; /* of the same devices, too */
    while (k != 0 && v->has_values && v->values[k - 1] == values[k - 1]) { k--; }
    return k == 0;
}

/* The backend may have encoded what the packet was. */
static hcq_result hcqi_version_patched(hcqi_version *v, uint32_t at) {
    if (v->generation == 0) { return HCQ_OK; } /* or will, with what it is now */
    v->dev->packets_patched++;
    if (v->dev->backend->patch == NULL || (v->packets[at].flags & HCQI_FAR)) { return HCQ_OK; }
    return v->dev->backend->patch(v->dev->self, &v->recording, at);
}

/* Writes the values that the version has not. */
static hcq_result hcqi_version_fill_in(hcqi_version *v, const uint64_t *values) {
    if (hcqi_version_has(v, values)) { return HCQ_OK; }
    const hcqi_slice *slice = hcqi_version_slice(v);
    const hcqi_patch *patch = slice == NULL ? v->patches
                                            : v->queue->graph->plan.patches + slice->patch_first;
    const hcqi_patch *end = patch + (slice == NULL ? v->patch_count : slice->patch_count);
    int had = v->has_values;
    v->has_values = 0; /* until all are written */
    for (; patch != end; patch++) {
        uint64_t value = values[patch->value];
        if (had && v->values[patch->value] == value) { continue; }
        uint32_t at = hcqi_version_patch(v, v->places[patch->command], patch, value);
        HCQI_PASS(hcqi_version_patched(v, at));
    }
    for (uint32_t k = 0; k <= v->value_count; k++) { v->values[k] = values[k]; }
    v->has_values = 1;
    return HCQ_OK;
}

/* Counts an encoding more, or less, on the devices, those of them that there are. */
static uint64_t hcqi_devices_encode(uint64_t slots, uint32_t by) {
    uint64_t found = 0;
    HCQI_BITS(slot, slots) {
        hcq_device *dev = hcqi_core.devices[slot];
        if (dev == NULL) { continue; }
        dev->encodes += by;
        found |= (uint64_t)1 << slot;
    }
    return found;
}

/* Memory for what the queue has now, the commands in it with their values, and encoded. */
static hcq_result hcqi_version_make(hcqi_version *v, const uint64_t *values, uint64_t state) {
    const hcq_queue *q = v->queue;
    char label[sizeof q->label];
    HCQI_PASS(hcqi_version_storage(v));
    if (hcqi_queue_state(q) != state) { return HCQ_NOT_READY; }
    const hcqi_slice *slice = hcqi_version_slice(v);
    int copies = slice != NULL ? slice->lane >= v->dev->caps.compute_lanes
                               : q->kind == HCQ_COPY && v->dev->caps.copy_lanes != 0;
    v->value_count = q->value_count;
    v->patch_count = slice == NULL ? q->patch_count : 0;
    for (uint32_t k = 0; k < v->patch_count; k++) {
        hcqi_breathe(k);
        if (hcqi_queue_state(q) != state) { return HCQ_NOT_READY; }
        v->patches[k] = q->patches[k];
    }
    HCQI_PASS(hcqi_version_copy(v, state));
    if (values != NULL) { HCQI_PASS(hcqi_version_fill_in(v, values)); }
    hcqi_copy_label(label, q->label);
    v->recording.packets = v->packets;
    v->recording.count = v->count;
    v->recording.lanes = copies ? HCQ_COPY : HCQ_COMPUTE;
    v->recording.label = label;        /* the queue may get another one meanwhile */
    int apart = v->dev->backend->encode != NULL || v->count > HCQI_BREATH;
    uint64_t named = hcqi_version_named(v, NULL);
    uint64_t devices = hcqi_devices_encode(named | (uint64_t)1 << v->dev->slot, 1);
    if (apart) { hcqi_native_begin(v->dev); }
    hcq_result r = hcqi_version_encode(v);
    if (apart) { hcqi_native_end(v->dev); }
    (void)hcqi_devices_encode(devices, UINT32_MAX);
    v->recording.label = q->label;
    return r;
}

static hcq_result hcqi_version_label(hcqi_version *v) {
    const hcq_queue *q = v->queue;
    v->labelled = v->profiled && q->labels != 0;
    if (!v->labelled) { return HCQ_OK; }
    if (!HCQI_GROW(&q->dev->hooks, v->labels, v->label_capacity, v->count)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < v->count; i++) {
        int timed = hcqi_packet_is_timed(&v->packets[i]);
        hcqi_copy_label(v->labels[i], timed ? q->metas[v->packets[i].index].label : NULL);
    }
    return HCQ_OK;
}

/* With these values; NULL: they come later. Lets go of the lock: as a version in use, of an
   unknown state, it is nobody else's meanwhile, and it stays. HCQ_NOT_READY: the queue was
   changed, which only who does not record it can see. */
static hcq_result hcqi_version_build(hcqi_version *v, const uint64_t *values) {
    hcq_queue *q = v->queue;
    uint64_t generation = q->generation, updates = q->updates, state = hcqi_queue_state(q);
    v->uses++;
    q->pending++;
    v->dev->pins++;
    v->generation = 0;
    hcqi_version_drop_packets(v, 1);
    v->foreign = 0;
    v->has_values = 0;
    v->named_frees = hcqi_core.named_frees;
    v->marks = 0;
    v->plain = 0;
    v->profiled = hcqi_profile_on(v->dev);
    v->single = v->profiled || hcqi_queue_is_read(q, v->dev);
    hcq_result r = hcqi_version_make(v, values, state);
    if (r == HCQ_OK) { r = hcqi_version_label(v); }
    v->uses--;
    hcqi_unpin(v->dev);
    hcqi_core.changed = 1;             /* who waits for a version looks again */
    hcqi_queue_feed(q);
    if (r == HCQ_OK) {
        v->generation = generation;
        v->applied = updates;
        v->plain = q->graph == NULL && v->value_count == 0 && !v->single &&
                   v->segment_count == 1 && v->sync_count == 0;
        v->dev->packets_copied += v->count;
    }
    hcqi_queue_done(q);
    return r;
}

static int hcqi_version_is_built(const hcqi_version *v) {
    return v->generation == v->queue->generation && v->profiled == hcqi_profile_on(v->dev);
}

static hcq_result hcqi_version_prepare(hcqi_version *v, const uint64_t *values) {
    const hcq_queue *q = v->queue;
    v->recording.bound = q->graph != NULL ? q->bound != NULL || v->dev->caps.edges
                                          : q->bound == v->dev;
    return hcqi_version_is_built(v) ? HCQ_OK : hcqi_version_build(v, values);
}

/* Makes the packet of a call, if the version has one, what the recording says now, and
   writes its values over it. HCQ_NOT_READY: it has to be built anew. */
static hcq_result hcqi_version_update(hcqi_version *v, uint32_t call, const uint64_t *values) {
    const hcqi_call *c = hcqi_version_call(v, call);
    uint32_t at = v->places[call], k;
    if (at == HCQI_NONE) { return HCQ_OK; }
    hcq_packet *p = &v->packets[at], old = *p;
    hcq_result r = hcqi_version_packet(v, at, call);
    hcqi_packet_ref(p);
    hcqi_packet_unref(&old);
    if (r == HCQ_OK && ((old.flags ^ p->flags) & HCQI_FAR) != 0) { return HCQ_NOT_READY; }
    if (r != HCQ_OK || p->kind == HCQ_COMMAND_WAIT || p->kind == HCQ_COMMAND_SIGNAL) { return r; }
    if (p->kind == HCQ_COMMAND_TIMESTAMP) {
        p->u.sync.slot = old.u.sync.slot;
        p->u.sync.value = old.u.sync.value;
    }
    const hcqi_patch *list = c == NULL ? v->patches : v->queue->graph->plan.patches;
    k = c == NULL ? v->queue->metas[call].patches : c->patches;
    for (; values != NULL && k != 0; k = list[k - 1].next) {
        hcqi_version_patch(v, at, &list[k - 1], values[list[k - 1].value]);
    }
    return hcqi_version_patched(v, at);
}

/* Writes the values, NULL: they come later, and what was updated since the version was
   last current. HCQ_NOT_READY: it has to be built anew. Values that are refused leave it as it
   is, but without values: what is held may have its shape. */
static hcq_result hcqi_version_catch_up(hcqi_version *v, const uint64_t *values) {
    const hcq_queue *q = v->queue;
    const hcqi_meta *m = q->metas;
    hcq_result r = HCQ_OK;
    if (values != NULL) { HCQI_PASS(hcqi_version_fill_in(v, values)); }
    if (values == NULL && v->applied < q->updates) { v->has_values = 0; }
    const uint32_t *firsts = q->graph == NULL ? NULL : q->graph->plan.firsts;
    for (uint32_t i = q->newest; r == HCQ_OK && i != 0; i = m[i - 1].older) {
        if (m[i - 1].updated <= v->applied) { break; }
        uint32_t call = firsts == NULL ? i - 1 : firsts[i - 1];
        uint32_t end = firsts == NULL ? i : firsts[i];
        for (; r == HCQ_OK && call < end; call++) { r = hcqi_version_update(v, call, values); }
    }
    v->applied = q->updates;
    if (r != HCQ_OK) { v->generation = 0; }
    return r;
}

/* ---- choosing one ---- */

/* Does it say what the recording says now? An update, or a profile that begins or ends,
   makes the next state of it, and only of that one versions can be made. */
static HCQI_HOT int hcqi_version_is_now(const hcqi_version *v) {
    return hcqi_version_is_built(v) && v->applied == v->queue->updates;
}

static hcqi_version *hcqi_version_new(hcq_queue *q, hcq_device *dev, uint32_t slice) {
    hcqi_version *v = HCQI_CAST(hcqi_version *, hcqi_new(&q->dev->hooks, sizeof *v));
    if (v == NULL) { return NULL; }
    v->queue = q;
    v->dev = dev;
    v->slice = slice;
    q->version_count++;
    hcqi_version_link(v, 0);
    return v;
}

typedef struct hcqi_choice {
    hcqi_version *version;             /* use this one, or ... */
    int current;                       /* it needs no work */
    hcqi_version *busy;                /* ... wait until this one is done */
    hcqi_version *shape;               /* of the state asked for, in use or not */
    int moves;                         /* some user of one that would do gets on */
    int full;                          /* none to use, and as many as the device should have */
} hcqi_choice;

/* Does the version take one of a bound queue's slots? Those of an earlier
   recording do not while they are still needed. */
static uint32_t hcqi_version_counts(const hcqi_version *v) {
    return hcqi_version_idle(v) || v->generation == v->queue->generation || v->generation == 0;
}

/* Current, else idle, else running; not shared: timestamps and grids that are read are of one run.
   `shape`: of its state of the recording; NULL: as that is now. */
static void hcqi_version_choose(hcq_queue *q, hcq_device *dev, uint32_t slice,
                                const hcqi_version *shape, const uint64_t *values,
                                hcqi_choice *c) {
    int best = 0, now = shape == NULL || hcqi_version_is_now(shape);
    uint64_t generation = now ? q->generation : shape->generation;
    uint64_t applied = now ? q->updates : shape->applied;
    int profiled = now ? hcqi_profile_on(dev) : shape->profiled;
    uint32_t count = 0;
    memset(c, 0, sizeof *c);
    for (hcqi_version *v = q->versions, *next; v != NULL; v = next) {
        next = v->next;
        if (v->dev != dev || v->slice != slice) { continue; }
        int same = v->generation == generation && v->applied == applied &&
                   v->profiled == profiled;
        if (same) { c->shape = v; }
        if (same && (!v->single || v->uses == 0) && hcqi_version_has(v, values)) {
            c->version = v;
            c->current = 1;
            return;
        }
        if (now && !same && q->graph == NULL && v->held + v->shapes != 0) {
            hcqi_version_unlink(v); /* of no use for anybody else: looked at once */
            hcqi_version_link(v, 1);
            continue;
        }
        count += hcqi_version_counts(v);
        if (v->uses == 0 && (same || (now && v->shapes == 0))) {
            int rank = same ? 3 : v->generation == generation ? 2 : 1;
            if (rank > best) { c->version = v; }
            if (rank > best) { best = rank; }
        } else if (v->uses != 0 && (same || now)) {
            if (v->held == 0) { c->busy = v; }
            c->moves |= v->uses > v->stuck;
        }
    }
    if (c->version != NULL) { return; }
    int bound = q->graph != NULL ? q->bound != NULL : q->bound == dev;
    c->full = count >= (bound ? 1u : 8u) * dev->desc.versions;
}

/* ---- a version for what was held ---- */

/* For values that were kept: chosen, or made if their shape is `now`; else only versions of that
   state know what was recorded. HCQ_NOT_READY: one that is in use will do. */
static HCQI_COLD hcq_result hcqi_version_find(hcqi_version *shape, const uint64_t *values, int now,
                                              hcqi_choice *c) {
    hcq_queue *q = shape->queue;
    hcq_device *dev = shape->dev;
    hcqi_version_choose(q, dev, shape->slice, shape, values, c);
    c->moves |= shape->uses > shape->stuck;
    if (!c->current && shape->uses == 0) { c->version = shape; }
    if (c->version != NULL) { return HCQ_OK; }
    if (c->moves && (!now || c->full)) { return HCQ_NOT_READY; }
    HCQI_REFUSE_UNLESS(dev, now, HCQ_ERROR_LIMIT, "queue '%s': every version that could run a "
                       "submission which was held waits for others", q->label);
    c->version = hcqi_version_new(q, dev, shape->slice);
    return c->version == NULL ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_OK;
}

/* The timestamps that the job promised are stored by another version. */
static HCQI_COLD void hcqi_job_stamps(hcq_job *job, const hcqi_version *v) {
    hcqi_producer *p = job->producers;
    for (uint32_t i = 0; v->stamp_count != 0 && i < v->sync_count; i++) {
        const hcq_packet *packet = &v->packets[v->syncs[i].packet];
        int stamps = packet->kind == HCQ_COMMAND_TIMESTAMP;
        if (stamps) { p->slot = HCQI_CAST(const uint64_t *, packet->u.sync.slot); }
        if (stamps || packet->kind == HCQ_COMMAND_SIGNAL) { p = p->list; }
    }
}

/* Does a job of the other one find its waits and raises there? Not where one of the two has a copy
   for others, since a device saw memory then or does now. */
static int hcqi_version_is_like(const hcqi_version *v, const hcqi_version *shape) {
    return v->segment_count == shape->segment_count && v->wait_count == shape->wait_count;
}

/* A held job's values go into a version. If that is to be built, in the outermost call, which may
   let go of the lock, and it looks again. 0 = it waits for one, or failed. */
static HCQI_COLD int hcqi_job_take(hcq_job *job) {
    hcqi_version *shape = job->version, *v;
    hcqi_choice c;
    int now = hcqi_version_is_now(shape);
    hcq_result r = hcqi_version_find(shape, job->values, now, &c);
    int built = r != HCQ_OK || !now || hcqi_version_is_built(c.version);
    if (r == HCQ_OK && built) {
        r = now ? hcqi_version_catch_up(c.version, job->values)
                : hcqi_version_fill_in(c.version, job->values);
        built = r != HCQ_NOT_READY;
    }
    if (r == HCQ_OK && built && !hcqi_version_is_like(c.version, shape)) { r = HCQ_ERROR_FOREIGN; }
    if (!built && hcqi_builder != job) {
        hcqi_line_add(&hcqi_core.unbuilt, HCQI_LINE_UNBUILT, job);
        return 0;
    }
    if (!built) {
        job->line = HCQI_LINE_UNBUILT; /* nobody else looks at it meanwhile */
        r = hcqi_version_prepare(c.version, job->values);
        job->line = HCQI_LINE_NONE;
        c.moves = shape->uses > shape->stuck;
        if (r >= 0) { hcqi_ready_push(job); }
        if (r >= 0) { return 0; }
    }
    if (r == HCQ_NOT_READY || (r == HCQ_ERROR_OUT_OF_MEMORY && c.moves)) {
        hcqi_line_add(&shape->queue->starved, HCQI_LINE_STARVED, job); /* for others to finish */
        hcqi_watch(1);
        return 0;
    }
    if (r != HCQ_OK) {
        hcqi_job_refused(job, r, "encode");
        return 0;
    }
    v = c.version;
    hcqi_pool_put(hcqi_version_pool(shape), job->values);
    job->values = NULL;
    job->version = v;
    v->uses++;
    v->held++;
    shape->shapes--;
    if (v == shape) { return 1; }
    hcqi_job_stamps(job, v);
    hcqi_version_let_go(shape);
    return 1;
}

/* ========================================================================== */
/* ---- the service thread --------------------------------------- >>serving - */
/* Only for devices whose backend has no threads of its own: runs host commands
   and notices completions while somebody watches. Started when first needed. */

/* The oldest such job of the lane, or NULL. */
static hcq_job *hcqi_lane_hosted(const hcqi_lane *lane, int due) {
    hcq_job *held = lane->lists[0].head, *job = lane->lists[1].head;
    while (job != NULL && !hcqi_job_hosts(job, due)) { job = job->next; }
    if (held == NULL || !hcqi_job_hosts(held, due)) { return job; }
    return job == NULL || held->number < job->number ? held : job;
}

/* Lanes take turns, and the oldest of a lane is first. */
static hcq_job *hcqi_service_due(const hcq_device *dev, uint32_t turn) {
    hcq_job *job = NULL;
    uint32_t lanes = dev->lost == HCQ_OK ? dev->lane_count : 0; /* else they fail instead */
    for (uint32_t k = 0; job == NULL && k < lanes; k++) {
        job = hcqi_lane_hosted(&dev->lanes[(turn + k) % dev->lane_count], 1);
    }
    return job;
}

static uint64_t hcqi_clock_now(hcq_device *dev) {
    hcq_clock clock = { 0, 0, 0 };
    dev->backend->clock(dev->self, &clock);
    return clock.device_ns;
}

/* The grid that packet `p` reads becomes that of the exec behind it. */
static HCQI_COLD hcq_result hcqi_service_grid(hcqi_version *v, const hcq_packet *p) {
    uint32_t exec = (uint32_t)(p - v->packets) + 1 + (uint32_t)v->profiled, grid[3];
    memcpy(grid, p->u.host.user, sizeof grid);
    int within = HCQ_GRID_WITHIN(grid, p->u.host.most);
    if (within) { memcpy(v->packets[exec].u.exec.grid, grid, sizeof grid); }
    hcq_result r = within ? hcqi_version_patched(v, exec) : HCQ_ERROR_INVALID;
    if (r == HCQ_OK) { return HCQ_OK; }
    hcqi_error_note(v->dev, r, v, &v->packets[exec], within ? NULL : HCQ_GRID_ABOVE, 0);
    return r;
}

static HCQI_COLD hcq_result hcqi_service_host(hcq_device *dev, const hcq_packet *p) {
    uint64_t *marks = HCQI_CAST(uint64_t *, p->u.host.marks);
    hcq_device *other = hcqi_packet_crosses(p); /* stays, as else the job would have ended */
    if (other != NULL) { other->pins++; }
    hcqi_leave();
    if (marks != NULL) { marks[0] = hcqi_clock_now(dev); }
    hcq_result r = p->u.host.fn(p->u.host.user);
    if (marks != NULL) { marks[1] = hcqi_clock_now(dev); }
    hcqi_enter();
    if (other != NULL) { hcqi_unpin(other); }
    return r;
}

static HCQI_COLD void hcqi_service_call(hcq_job *job) {
    const hcqi_segment *seg = hcqi_job_segment(job);
    const hcq_packet *p = &job->version->packets[seg->first];
    job->state = HCQI_JOB_CALLING;
    hcq_device *dev = job->lane->dev;
    int carries = (p->flags & HCQI_FAR) != 0, reads = p->u.host.fn == NULL;
    HCQI_ORDER(hcqi_order_called(job, 1));
    hcq_result r = carries ? job->version->queue->carry(job, p)
                 : reads ? hcqi_service_grid(job->version, p) : hcqi_service_host(dev, p);
    HCQI_ORDER(hcqi_order_called(job, 0));
    job->state = HCQI_JOB_HELD;
    if (r == HCQ_ERROR_WOULD_BLOCK && carries) { /* a lane is full: again, soon */
        job->state = HCQI_JOB_DUE;
        hcqi_ready_push(job);          /* to end, if that has become its turn */
        hcqi_reap_all();
        hcqi_event_wait(1000000);
    } else if (r < 0) {
        hcq_result result = carries || reads ? r : HCQ_ERROR_HOST;
        hcqi_error_note(dev, result, job->version, p, NULL, r);
        hcqi_job_fail(job, result, NULL);
    } else if (hcqi_job_next(job)) {
        hcqi_ready_push(job);
    }
}

/* A lane with work to wait for, or NULL; `busy` counts them. */
static HCQI_COLD hcqi_lane *hcqi_service_lane(hcq_device *dev, uint32_t turn, uint32_t *busy) {
    hcqi_lane *found = NULL;
    *busy = 0;
    for (uint32_t k = 0; k < dev->lane_count; k++) {
        hcqi_lane *lane = &dev->lanes[(turn + k) % dev->lane_count];
        int needed = hcqi_core.watchers != 0 || dev->posts_late != 0 ||
                     hcqi_lane_hosted(lane, 0) != NULL;
        if (needed && lane->done < lane->epoch) {
            if (found == NULL) { found = lane; }
            (*busy)++;
        }
    }
    return found;
}

static HCQI_COLD void hcqi_service_sleep(hcq_device *dev, uint32_t turn) {
    uint32_t busy, seen = hcqi_atomic_load32(&dev->service_word);
    if (dev->service_stop) { return; } /* said while the turn was without the lock */
    hcqi_lane *lane = hcqi_service_lane(dev, turn, &busy);
    if (lane == NULL) {
        hcqi_leave();
        hcq_sys_wait(&dev->service_word, seen, HCQ_FOREVER);
        hcqi_enter();
        return;
    }
    hcq_lane_point p = hcqi_lane_point(lane, lane->done + 1);
    uint64_t slice = dev->posts_late != 0 ? 50000
                   : busy > 1 ? 200000 : dev->backend->kick != NULL ? 1000000000 : 1000000;
    lane->host_users[p.counter]++;
    hcqi_atomic_store32(&dev->service_waits, 1);
    hcqi_leave();
    dev->backend->wait(dev->self, &lane->base, p.counter, p.value, slice, 1);
    hcqi_enter();
    hcqi_atomic_store32(&dev->service_waits, 0);
    lane->host_users[p.counter]--;
    if (lane->host_users[p.counter] == 0) { hcqi_lane_unstall(lane); }
}

/* What is due runs: 1 = a host command did. With the lock, which it lets go of. */
static HCQI_COLD int hcqi_service_turn(hcq_device *dev, uint32_t turn) {
    hcqi_reap_device(dev);
    hcqi_drain();
    if (dev->posts_late != 0) {
        dev->posts_late = 0;
        hcq_backend_flush_soon(dev);
        hcqi_leave();
        hcqi_enter();
    }
    hcq_job *job = hcqi_service_due(dev, turn);
    if (job != NULL) { hcqi_service_call(job); }
    return job != NULL;
}

static HCQI_COLD void hcqi_service_run(void *user) {
    hcq_device *dev = HCQI_CAST(hcq_device *, user);
    hcqi_enter();
    hcqi_calling = 1;
    for (uint32_t turn = 0; !dev->service_stop; turn++) {
        if (!hcqi_service_turn(dev, turn)) { hcqi_service_sleep(dev, turn); }
    }
    hcqi_leave();
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- who waits for whom ----------------------------------- >>explaining - */

/* Where text goes: a file, or as much of it as fits if there is none. */
typedef struct hcqi_text { char *at; size_t size, length; FILE *file; } hcqi_text;

static HCQI_PRINTF(2, 3) void hcqi_print(hcqi_text *t, const char *format, ...) {
    size_t room = t->length < t->size ? t->size - t->length : 0;
    va_list args;
    va_start(args, format);
    int n = t->file != NULL ? vfprintf(t->file, format, args) /* ferror() remembers */
                            : vsnprintf(room != 0 ? t->at + t->length : NULL, room, format, args);
    va_end(args);
    if (n > 0) { t->length += (size_t)n; }
}

static void hcqi_text_begin(hcqi_text *t, char *text, size_t size) {
    memset(t, 0, sizeof *t);
    t->at = text;
    t->size = text == NULL ? 0 : size;
    if (t->size != 0) { text[0] = 0; }
}

/* One of those that all of an explanation may take: 0 = there are none left. */
static int hcqi_look(void) {
    hcqi_core.looks -= hcqi_core.looks != 0;
    return hcqi_core.looks != 0;
}

/* The least that the job raises `s` to from `value` on, UINT64_MAX = it does not: what
   waits for that much itself comes too late. */
static uint64_t hcqi_job_raises(const hcq_job *job, const hcqi_signal *s, uint64_t value) {
    uint64_t least = UINT64_MAX;
    for (const hcqi_producer *p = job->producers; p != NULL; p = p->list) {
        int enough = p->signal == s && p->slot == NULL && p->value >= value;
        if (enough && p->value < least) { least = p->value; }
    }
    for (const hcqi_waiter *w = job->at; w != NULL && w->segment <= job->segment; w = w->list) {
        if (w->signal == s && w->value >= value) { least = UINT64_MAX; }
    }
    return least;
}

/* Is it `first`, or behind that on its lane? */
static int hcqi_job_follows(const hcq_job *job, const hcq_job *first) {
    int ordered = first != NULL && !first->unordered && !job->unordered;
    return job == first ||
           (ordered && job->lane == first->lane && job->number > first->number);
}

/* The one that raises `s` least, but enough, and need not follow `but`, or the first that a
   timeline's prefix lacks; NULL: the host's turn. *runs: what is needed of it was handed over. */
static hcq_job *hcqi_raiser(const hcqi_signal *s, uint64_t value, const hcq_job *but, int *runs) {
    uint64_t least = UINT64_MAX, number = value;
    hcq_job *best = NULL;
    if (s->kind != HCQI_USER) {
        uint64_t held = s->dev->handed_prefix + 1;
        if (s->kind == HCQI_TIMELINE) { number = held <= value ? held : s->dev->done_prefix + 1; }
        best = hcqi_job_at(s->dev, number);
        *runs = best != NULL && !hcqi_is_held(best);
        return best;
    }
    const hcqi_producer *p = hcqi_producer_find(s, value);
    *runs = p != NULL;
    if (p != NULL || s->promised == 0) { return p == NULL ? NULL : p->job; }
    HCQI_DEVICES(dev) {
        hcq_job *job = hcqi_held_from(dev, 0);
        for (; job != NULL && least != value && hcqi_look();
             job = hcqi_held_from(dev, job->number + 1)) {
            uint64_t raised = hcqi_job_follows(job, but) ? UINT64_MAX
                                                         : hcqi_job_raises(job, s, value);
            if (raised < least) { best = job; }
            if (raised < least) { least = raised; }
        }
    }
    return best;
}

/* What a job waits for, one thing after the other: the job ahead of it on its lane and
   nothing else, or waits: those that hold it, or that it was handed over with. */
typedef struct hcqi_causes {
    hcq_job *job;
    hcq_job *ahead;                    /* what is next */
    const hcqi_waiter *wait;
    hcqi_signal *signal;               /* found, if it is a wait */
    uint64_t value;
    hcq_job *to;                       /* that ends it; NULL: it is the host's turn */
    int runs;                          /* what is needed of `to` was handed over */
} hcqi_causes;

static void hcqi_causes_begin(hcqi_causes *c, hcq_job *job) {
    const hcqi_lane *lane = job->lane;
    int held = hcqi_is_held(job), ordered = !job->unordered;
    memset(c, 0, sizeof *c);
    c->job = job;
    if (held && ordered && lane->lists[0].head != job) { c->ahead = lane->lists[0].head; }
    if (!held && lane->run_head != NULL && lane->run_head->epoch < job->epoch) {
        c->ahead = lane->run_head;
    }
    if (c->ahead != NULL) { return; }
    c->wait = held ? job->at : &job->wait;
}

/* To the next that is not over. */
static int hcqi_causes_next(hcqi_causes *c) {
    int held = hcqi_is_held(c->job), open = 0;
    hcq_result why;
    c->to = c->ahead;
    c->ahead = NULL;
    c->runs = c->to != NULL && !hcqi_is_held(c->to);
    if (c->to != NULL) { return 1; }
    while (!open) {
        const hcqi_waiter *w = c->wait;
        if (w == NULL || (!held && !hcqi_look())) { return 0; }
        c->wait = w->list;
        c->signal = w->signal;
        c->value = w->value;
        open = held ? w->home != HCQI_HOME_NONE
                    : w->signal != NULL && hcqi_state_now(c->signal, c->value, &why) >= HCQI_HANDED;
    }
    c->to = hcqi_raiser(c->signal, c->value, NULL, &c->runs);
    return 1;
}

#define HCQI_PATH 64                   /* longer ones are cut short */

/* From one held job to the next that it waits for. */
typedef struct hcqi_path {
    hcqi_causes step[HCQI_PATH];
    uint32_t count;
    uint32_t first;                    /* of a cycle, which the rest of the path is */
} hcqi_path;

typedef enum hcqi_course {
    HCQI_MOVES,                        /* by what is submitted already */
    HCQI_STAYS,                        /* it is the host's turn, or it takes too long to see */
    HCQI_CYCLE                         /* the path leads into it */
} hcqi_course;

/* Might one of these, from `i` on, get on by another one's raise than the one it was followed to? */
static int hcqi_path_forks(const hcqi_path *path, uint32_t i) {
    for (int runs; i < path->count; i++) {
        const hcqi_causes *c = &path->step[i];
        if (c->signal == NULL || c->signal->kind != HCQI_USER || c->to == NULL) { continue; }
        if (hcqi_raiser(c->signal, c->value, c->to, &runs) != NULL) { return 1; }
    }
    return 0;
}

/* Depth first: will the job get on? The host's turn ends the walk, unless it is `for_cycles`. */
static hcqi_course hcqi_job_walk(hcqi_path *path, hcq_job *job, int for_cycles) {
    hcqi_course course = HCQI_MOVES;
    uint64_t walk = ++hcqi_core.walks;
    path->count = 0;
    if (hcqi_is_held(job)) { hcqi_causes_begin(&path->step[path->count++], job); }
    while (path->count > 0 && (course == HCQI_MOVES || for_cycles)) {
        hcqi_causes *top = &path->step[path->count - 1];
        top->job->walked = walk;
        if (!hcqi_look()) { return HCQI_STAYS; }
        if (!hcqi_causes_next(top)) {
            path->count--;
            continue;
        }
        if (top->runs) { continue; }
        if (top->to == NULL || path->count == HCQI_PATH) {
            course = HCQI_STAYS;
        } else if (top->to->walked != walk) {
            hcqi_causes_begin(&path->step[path->count++], top->to);
            continue;
        }
        for (path->first = 0; path->first < path->count; path->first++) {
            if (path->step[path->first].job == top->to) {
                return hcqi_path_forks(path, path->first) ? HCQI_MOVES : HCQI_CYCLE;
            }
        }
    }
    return course == HCQI_STAYS && !for_cycles && hcqi_path_forks(path, 0) ? HCQI_MOVES : course;
}

static int hcqi_job_advances(hcq_job *job) {
    hcqi_path path;
    return hcqi_job_walk(&path, job, 0) == HCQI_MOVES;
}

/* Will a version become free, being held only by what the library itself waits for, a counter
   swap, say, or a host command? Not if that takes too long to find out. */
static int hcqi_versions_move(const hcq_queue *q, const hcq_device *dev) {
    hcqi_core.looks = HCQI_LOOKS / 16;
    hcq_job *job = hcqi_held_from(dev, 0);
    for (; job != NULL && hcqi_look(); job = hcqi_held_from(dev, job->number + 1)) {
        int ours = job->version != NULL && job->version->queue == q;
        if (ours && hcqi_job_advances(job)) { return 1; }
    }
    return 0;
}

/* "signal 12 'uploads' of CPU at 7 (now 5)" and what is to be known of it. */
static void hcqi_print_wait(hcqi_text *t, const hcqi_signal *s, uint64_t value,
                            const hcq_job *raiser) {
    unsigned long long at = (unsigned long long)value, now = (unsigned long long)s->value;
    if (s->kind == HCQI_EXACT) {
        hcqi_print(t, "submission #%llu of %s", at, s->dev->label);
    } else if (s->kind == HCQI_TIMELINE) {
        hcqi_print(t, "timeline of %s at %llu (now %llu)", s->dev->label, at, now);
    } else {
        hcqi_print(t, "signal %llu%s%s%s of %s at %llu (now %llu)",
                   (unsigned long long)hcqi_slot_index(s->id), s->label[0] ? " '" : "",
                   s->label, s->label[0] ? "'" : "", s->dev->label, at, now);
    }
    if (s->kind != HCQI_USER) {
        if (value >= s->dev->next_number) { hcqi_print(t, ", which is not submitted yet"); }
        return;
    }
    if (s->failure != HCQ_OK || s->value >= value) { return; }
    if (s->handles == 0) { hcqi_print(t, ", destroyed (final)"); }
    if (raiser == NULL && hcqi_core.looks != 0) {
        hcqi_print(t, ", nobody submitted raises it%s",
                   s->handles == 0 ? "" : ": only a host set or a later submission will");
    }
}

/* A line: "#12 'draw' on compute lane 0 of CPU: held by ..." */
static void hcqi_print_job(hcqi_text *t, const char *before, hcq_job *job) {
    const hcqi_lane *lane = job->lane;
    int held = hcqi_is_held(job), waits = 0;
    hcqi_causes c;
    hcqi_print(t, "%s#%llu '%s' on %s lane %u of %s: %s", before,
               (unsigned long long)job->submission, hcqi_job_label(job),
               lane->base.kind == HCQ_COPY ? "copy" : "compute", lane->base.index,
               lane->dev->label, held ? "held" : "");
    hcqi_causes_begin(&c, job);
    if (c.ahead != NULL) {
        hcqi_print(t, "%s behind #%llu of its lane\n", held ? "" : "handed over,",
                   (unsigned long long)c.ahead->submission);
        return;
    }
    for (; waits <= 8 && hcqi_causes_next(&c); waits++) {
        hcqi_print(t, waits == 8 ? " and more" : waits != 0 ? " and "
                      : held ? " by " : "handed over, waits for ");
        if (waits < 8) { hcqi_print_wait(t, c.signal, c.value, c.to); }
    }
    if (!held && waits == 0) {
        hcqi_print(t, "running, epoch %llu, the lane has done %llu of %llu",
                   (unsigned long long)job->epoch, (unsigned long long)lane->done,
                   (unsigned long long)lane->epoch);
    }
    if (job->state == HCQI_JOB_CALLING) {
        hcqi_print(t, " in a host command");
    } else if (job->state == HCQI_JOB_DUE) {
        hcqi_print(t, " until its host command is called");
    }
    if (job->line == HCQI_LINE_STALLED) { hcqi_print(t, " by a counter swap"); }
    if (job->line == HCQI_LINE_STARVED) { hcqi_print(t, " until a version of its queue is free"); }
    hcqi_print(t, "\n");
}

static void hcqi_print_cycle(hcqi_text *t, const char *before, const hcqi_path *path) {
    hcqi_print(t, "%scycle, which no submitted work can end:", before);
    for (uint32_t i = path->first; i <= path->count; i++) {
        const hcq_job *job = path->step[i < path->count ? i : path->first].job;
        hcqi_print(t, "%s #%llu '%s' of %s", i == path->first ? "" : " waits for",
                   (unsigned long long)job->submission, hcqi_job_label(job), job->lane->dev->label);
    }
    hcqi_print(t, "\n");
}

/* Of what the job waits for the one that explains most: held, else running. */
static hcq_job *hcqi_next_link(hcq_job *job) {
    hcq_job *running = NULL;
    hcqi_causes c;
    hcqi_causes_begin(&c, job);
    while (hcqi_look() && hcqi_causes_next(&c)) {
        int held = hcqi_is_held(c.to);
        if (!hcqi_is_held(job) || (held && !c.runs)) { return c.to; }
        if (c.to != NULL && !held) { running = c.to; }
    }
    return running;
}

/* One line for each submission between a point and what holds it up. */
static void hcqi_print_chain(hcqi_text *t, hcq_job *job) {
    hcqi_path path;
    if (hcqi_job_walk(&path, job, 1) == HCQI_CYCLE) {
        for (uint32_t i = 0; i < path.count; i++) {
            hcqi_print_job(t, "  waits for ", path.step[i].job);
        }
        hcqi_print_cycle(t, "  ", &path);
        return;
    }
    uint64_t walk = ++hcqi_core.walks;
    for (int depth = 0; job != NULL && depth < 32 && job->walked != walk; depth++) {
        job->walked = walk;
        hcqi_print_job(t, "  waits for ", job);
        job = hcqi_next_link(job);
    }
    if (job != NULL) { hcqi_print(t, "  ... and so on\n"); }
}

static void hcqi_explain_point(hcqi_text *t, hcq_point point) {
    hcq_job *raiser = NULL;
    hcq_result why = HCQ_OK;
    int runs;
    hcqi_signal *s = hcqi_signal_find(point.signal);
    if (point.signal.id == 0 || point.value > HCQI_MAX_VALUE) {
        hcqi_print(t, "%s\n", point.signal.id == 0 ? "no signal" : "above INT64_MAX: never");
        return;
    }
    if (s == NULL) {
        hcqi_print(t, "signal %llu at %llu: final: destroyed, or its device was closed\n",
                   (unsigned long long)hcqi_slot_index(point.signal.id),
                   (unsigned long long)point.value);
        return;
    }
    hcqi_signal_refresh(s);
    hcqi_state state = hcqi_state_now(s, point.value, &why);
    if (state >= HCQI_HANDED) { raiser = hcqi_raiser(s, point.value, NULL, &runs); }
    hcqi_print_wait(t, s, point.value, raiser);
    if (state == HCQI_REACHED) { hcqi_print(t, ": reached"); }
    if (state == HCQI_FAILED) { hcqi_print(t, ": final: %s", hcq_result_text(why)); }
    const hcqi_reason *reason = state == HCQI_FAILED ? hcqi_signal_reason(s, point.value) : NULL;
    if (reason != NULL) { hcqi_print(t, ": %s", reason->text); }
    hcqi_print(t, "\n");
    hcqi_print_chain(t, raiser);
}

HCQI_DEF size_t hcq_explain(const hcq_point *points, uint32_t count, char *text, size_t size) {
    hcqi_text t;
    uint32_t looks = HCQI_LOOKS;
    hcqi_text_begin(&t, text, size);
    hcqi_enter();
    hcqi_reap_all();
    hcqi_drain();
    for (uint32_t i = 0; points != NULL && i < count && looks != 0; i++) {
        if (i != 0) { hcqi_leave_briefly(); } /* each point has an answer of its own */
        hcqi_core.looks = looks;
        hcqi_explain_point(&t, points[i]);
        looks = hcqi_core.looks;
    }
    if (looks == 0) { hcqi_print(&t, "  (more is held than was looked at)\n"); }
    hcqi_leave();
    return t.length;
}

static void hcqi_dump_lane(hcqi_text *t, const hcqi_lane *lane) {
    const char *kind = lane->base.kind == HCQ_COPY ? "copy" : "compute";
    hcq_job *lists[] = { lane->run_head, lane->lists[0].head, lane->lists[1].head };
    hcqi_path path;
    hcqi_print(t, "  %s lane %u: %u running, epoch %llu of %llu done\n",
               lane->base.imported ? "imported" : kind, lane->base.index, lane->running,
               (unsigned long long)lane->done, (unsigned long long)lane->epoch);
    for (int i = 0; i < 3; i++) {
        hcq_job *job = lists[i];
        for (int n = 0; job != NULL && n < 4; job = job->next, n++) {
            hcqi_print_job(t, "    ", job);
            if (hcqi_job_walk(&path, job, 1) == HCQI_CYCLE && path.first == 0) {
                hcqi_print_cycle(t, "    ", &path);
            }
        }
    }
}

HCQI_DEF size_t hcq_device_dump(hcq_device *device, char *text, size_t size) {
    hcqi_text t;
    hcqi_text_begin(&t, text, size);
    if (hcqi_device_enter(device) != HCQ_OK) { return 0; }
    hcqi_reap_device(device);
    hcqi_core.looks = HCQI_LOOKS;
    hcqi_print(&t, "%s (%s): %llu submitted, %llu done, %u pending, %u held%s%s\n", device->label,
               device->info.name, (unsigned long long)device->next_number - 1,
               (unsigned long long)device->done_prefix, device->pending, device->held,
               device->lost == HCQ_OK ? "" : ", ", device->lost == HCQ_OK ? "" : "LOST");
    for (uint32_t k = 0; k < device->lane_count; k++) { hcqi_dump_lane(&t, &device->lanes[k]); }
    hcqi_print(&t, "  memory: %llu bytes in %u buffers, %llu bytes cached\n",
               (unsigned long long)device->allocated_bytes, device->table_count,
               (unsigned long long)device->freed_bytes);
    HCQI_ORDER(hcqi_order_dump(&t, device));
    hcqi_leave();
    return t.length;
}

/* Logs a heading and, line by line, what the points wait for, or where there are none the
   device's dump. Without the lock; `dev` stays. */
static void hcqi_tell(hcq_device *dev, hcq_result result, const char *heading,
                      const hcq_point *points, uint32_t count) {
    char text[2048];
    if (count != 0) { hcq_explain(points, count, text, sizeof text); }
    if (count == 0) { hcq_device_dump(dev, text, sizeof text); }
    hcqi_refuse_alone(dev, result, "%s", heading);
    for (char *line = text, *end; line != NULL && *line != 0; line = end) {
        end = strchr(line, '\n');
        if (end != NULL) { *end++ = 0; }
        hcqi_refuse_alone(dev, result, "%s", line);
    }
}

/* A time-out that the caller did not choose; lets go of the lock meanwhile. */
static void hcqi_timeout_tell(hcq_device *dev, const char *what, const char *label) {
    char text[128];
    snprintf(text, sizeof text, "%s '%.31s' timed out; the device says:", what, label);
    hcqi_apart_begin(dev);
    hcqi_tell(dev, HCQ_TIMEOUT, text, NULL, 0);
    hcqi_apart_end(dev);
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- submit --------------------------------------------------- >>submit - */

/* Lets go of the lock for good. The pin keeps the device; where counters are never swapped nobody
   else needs to know who waits on one. */
static hcq_result hcqi_block(hcqi_lane *lane, uint64_t epoch, uint64_t timeout_ns) {
    hcq_device *dev = lane->dev;
    hcq_lane_point p = hcqi_lane_point(lane, epoch);
    dev->looks = HCQI_LOOK_EACH - 1;   /* the next submission will find something */
    hcqi_apart_begin(dev);
    hcq_result r = dev->backend->wait(dev->self, &lane->base, p.counter, p.value, timeout_ns, 0);
    if (r == HCQ_OK && dev->caps.host_times && epoch > hcqi_atomic_load64(&lane->noticed)) {
        hcqi_atomic_store64(&lane->noticed_ns, hcq_now_ns());
        hcqi_atomic_store64(&lane->noticed, epoch);
    }
    return r;
}

/* Waits, without the lock, for a lane to reach an epoch that was handed over. */
static HCQI_COLD hcq_result hcqi_block_on(hcqi_lane *lane, uint64_t epoch, uint64_t timeout_ns) {
    if (timeout_ns != 0 && hcqi_in_callback()) { return HCQ_ERROR_WOULD_BLOCK; }
    uint32_t counter = hcqi_lane_point(lane, epoch).counter;
    lane->host_users[counter]++;
    hcq_result r = hcqi_block(lane, epoch, timeout_ns);
    hcqi_apart_end(lane->dev);
    lane->host_users[counter]--;
    if (lane->host_users[counter] == 0) { hcqi_lane_unstall(lane); }
    hcqi_reap(lane);
    return r;
}

/* Will a held job get on without anybody else's help? */
static int hcqi_job_moves(const hcq_job *job) {
    int watched = 0;
    for (const hcqi_waiter *w = &job->wait; w != NULL; w = w->list) { watched |= w->watch; }
    return watched || hcqi_job_hosts(job, 0) || job->line == HCQI_LINE_UNBUILT;
}

/* The oldest running job of a version; NULL: there is none, it is being built. */
static const hcq_job *hcqi_version_user(const hcq_device *dev, const hcqi_version *v) {
    for (uint32_t k = 0; k < dev->lane_count; k++) {
        const hcq_job *job = dev->lanes[k].run_head;
        while (job != NULL && job->version != v) { job = job->next; }
        if (job != NULL) { return job; }
    }
    return NULL;
}

typedef struct hcqi_submit {           /* zero at first: */
    uint32_t count;                    /* versions acquired */
    uint8_t allocs;                    /* hcq_alloc_after */
    hcqi_lane *final_lane;             /* of a submission without queues [chosen] */
    hcqi_allocation *frees;            /* hcq_free_after */
    uint64_t deadline;                 /* for room; 0 = the device's, from when it waits */
    uint64_t first, number;            /* of its jobs: the first, and the last: its own */
    hcqi_launch *launch;               /* of a graph: one of its devices' submissions */
    uint64_t gathers;                  /* slices of other devices that its end waits for */
    hcq_device *eager[2];              /* follows all that they have, and is followed; NULL */
    hcq_device *dev;                   /* not zero, or not up to `count`: */
    const hcq_submission *sub;
    hcqi_version *versions[HCQI_BATCH_WAITS];
    hcqi_lane *lanes[HCQI_BATCH_WAITS];
    uint64_t *kept[HCQI_BATCH_WAITS];  /* values, of a version only for its shape; NULL */
} hcqi_submit;

/* For a wait inside a submission: what is left of its time, or of the device's from when it
   begins to wait: the clock is only for those. 0: that was told. */
static uint64_t hcqi_submit_left(const hcqi_submit *s, uint64_t *deadline, const char *what,
                                 const char *label) {
    if (*deadline == 0) { *deadline = s->deadline; }
    if (*deadline == 0) { *deadline = hcqi_deadline(s->dev->desc.timeout_ns); }
    uint64_t left = hcqi_left(*deadline);
    if (left == 0 && s->deadline == 0) { hcqi_timeout_tell(s->dev, what, label); }
    return left;
}

/* Back-pressure: only for work that was handed over, so it will end. */
static HCQI_COLD hcq_result hcqi_lane_room(const hcqi_submit *s, hcqi_lane *lane) {
    uint64_t deadline = 0;
    while (lane->running >= s->dev->desc.inflight) {
        uint64_t left = hcqi_submit_left(s, &deadline, "submit, for room on a lane:",
                                         lane->base.kind == HCQ_COPY ? "copy" : "compute");
        if (left == 0) { return HCQ_TIMEOUT; }
        hcq_result r = hcqi_block_on(lane, lane->run_head->epoch, left);
        if (r < 0) { return r; }
    }
    return HCQ_OK;
}

/* Waits until a version that is in use gets free, or for something that leads there. */
static HCQI_COLD hcq_result hcqi_version_wait(hcq_device *dev, const hcqi_version *busy,
                                              uint64_t left) {
    if (hcqi_core.ready.head != NULL) { /* what a counter swap released, say */
        hcqi_drain();
        return HCQ_OK;
    }
    const hcq_job *job = busy == NULL ? NULL : hcqi_version_user(dev, busy);
    if (job != NULL) { return hcqi_block_on(job->lane, job->epoch, left); }
    if (hcqi_in_callback()) { return HCQ_ERROR_WOULD_BLOCK; }
    dev->pins++;
    hcqi_watch(1);
    hcq_result r = hcqi_event_wait(left);
    hcqi_watch(-1);
    hcqi_unpin(dev);
    return r < 0 ? r : HCQ_OK;
}

/* Waits where enough versions run that one will be free. Unbound queues rather wait than copy
   more; no queue waits for what is held. */
static HCQI_COLD hcq_result hcqi_version_room(const hcqi_submit *s, hcq_queue *q, uint32_t slice,
                                              const uint64_t *values, hcqi_choice *c) {
    hcq_device *dev = s->dev;
    int graph = q->graph != NULL && q->bound != NULL;
    uint64_t deadline = 0;
    while (c->version == NULL && c->full) {
        if (c->busy == NULL && !(graph && hcqi_versions_move(q, dev))) { return HCQ_OK; }
        const char *what = "submit, for a free version of queue";
        uint64_t left = hcqi_submit_left(s, &deadline, what, q->label);
        hcq_result r = left == 0 ? HCQ_TIMEOUT : hcqi_version_wait(dev, c->busy, left);
        if (r < 0 || left == 0) { return r; }
        hcqi_version_choose(q, dev, slice, NULL, values, c);
    }
    return HCQ_OK;
}

static int hcqi_eager_pends(const hcq_device *dev) {
    return dev->eager_signal != NULL &&
           (dev->eager_signal->dev != dev || dev->eager_value > dev->done_prefix);
}

static int hcqi_eager_applies(const hcqi_submit *s) {
    return (s->sub->flags & HCQ_UNORDERED) == 0 && hcqi_eager_pends(s->dev);
}

/* Room on the lane and a current version, found or made. One that varies and may be held only
   looks like it until it is released, and keeps its values. May let go of the lock. */
static hcq_result hcqi_submit_acquire(hcqi_submit *s, hcq_queue *q, uint32_t slice,
                                      hcqi_lane *lane, const uint64_t *values) {
    hcq_device *dev = s->dev;
    int plain = q->graph == NULL;      /* inputs belong to the plan, which may be made anew */
    int varies = plain && (q->value_count != 0 || hcqi_profile_on(dev) ||
                           hcqi_queue_is_read(q, dev)); /* else all share a version anyway */
    hcqi_choice c;
    if (lane->running >= dev->desc.inflight) { HCQI_PASS(hcqi_lane_room(s, lane)); }
    hcqi_version_choose(q, dev, slice, NULL, values, &c);
    if (!c.current && (c.busy != NULL || c.version == NULL)) { /* that may be done by now */
        hcqi_reap_device(dev);
        hcqi_version_choose(q, dev, slice, NULL, values, &c);
    }
    if (c.version == NULL) { HCQI_PASS(hcqi_version_room(s, q, slice, values, &c)); }
    hcqi_version *v = c.version;
    if (v == NULL && varies && c.full) { v = c.shape; }
    if (v == NULL) { v = hcqi_version_new(q, dev, slice); }
    if (v == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    int taken = v->uses != 0 && !c.current, anew = v->uses == 0 && !c.current;
    if (anew) { HCQI_PASS(hcqi_version_prepare(v, values)); }
    int behind = (s->sub->flags & HCQ_UNORDERED) == 0 && lane->lists[0].head != NULL;
    int keeps = varies && (taken || behind || v->wait_count != 0 || s->sub->wait_count != 0 ||
                           s->sub->queue_count > 1 || hcqi_eager_applies(s));
    hcq_result r = anew ? hcqi_version_catch_up(v, keeps ? NULL : values) : HCQ_OK;
    if (r == HCQ_NOT_READY) { r = hcqi_version_prepare(v, values); }
    HCQI_PASS(r);
    uint64_t *kept = keeps ? hcqi_values_keep(v, values) : NULL;
    if (keeps && kept == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    v->shapes += (uint32_t)keeps;
    v->uses += (uint32_t)!keeps;
    v->held += (uint32_t)!keeps;
    q->pending++;
    s->versions[s->count] = v;
    s->kept[s->count] = kept;
    s->lanes[s->count++] = lane;
    return HCQ_OK;
}

/* Every buffer that the recording names must still live; *checked: when all did. */
static HCQI_COLD hcq_result hcqi_queue_check_names(const hcq_queue *q, hcq_device *dev,
                                                   uint64_t *checked) {
    if (*checked == hcqi_core.named_frees || q->carries) { return HCQ_OK; }
    for (uint32_t i = 0; i < q->count; i++) {
        HCQI_REFUSE_UNLESS(dev, hcqi_command_lives(q, i), HCQ_ERROR_CLOSED,
                           "queue '%s': command %u names a freed buffer", q->label, i);
    }
    *checked = hcqi_core.named_frees;
    return HCQ_OK;
}

/* To `value`: above what `s` is and what those say that were checked before it, and nothing that
   another submission raises it to. In command `index` of `queue`, NULL: in the own list. */
static HCQI_COLD hcq_result hcqi_raise_check(hcq_device *dev, const char *queue, uint32_t index,
                                             hcqi_signal *s, uint64_t value) {
    char what[80];
    hcqi_signal_refresh(s);
    int repeated = s->check_mark == hcqi_core.check_mark && value <= s->check_value;
    int low = repeated || value <= s->value;
    const hcqi_producer *other = low ? NULL : hcqi_promise_find(s, value);
    s->check_mark = hcqi_core.check_mark;
    s->check_value = value;
    if (!low && other == NULL) { return HCQ_OK; }
    if (queue == NULL) { snprintf(what, sizeof what, "signals: number %u", index); }
    if (queue != NULL) { snprintf(what, sizeof what, "queue '%s': command %u", queue, index); }
    HCQI_REFUSE_UNLESS(dev, !low, HCQ_ERROR_INVALID, "%s signals %llu, which is not above %s", what,
                       (unsigned long long)value, repeated ? "an earlier one" : "the value");
    return hcqi_refuse(dev, HCQ_ERROR_INVALID, "%s signals %llu, as submission #%llu of %s does",
                       what, (unsigned long long)value, (unsigned long long)other->job->submission,
                       other->job->lane->dev->label);
}

static hcq_result hcqi_version_check_signals(const hcqi_version *v) {
    hcqi_core.check_mark++;
    for (uint32_t i = 0; i < v->sync_count; i++) {
        const hcq_packet *p = &v->packets[v->syncs[i].packet];
        hcqi_signal *s = HCQI_CAST(hcqi_signal *, p->u.sync.signal);
        if (p->flags & (HCQI_RELATIVE | HCQI_FAR)) { continue; }
        HCQI_REFUSE_UNLESS(v->dev, s->handles != 0, HCQ_ERROR_CLOSED,
                           "queue '%s': the signal of command %u was destroyed",
                           v->recording.label, p->index);
        if (p->kind != HCQ_COMMAND_SIGNAL) { continue; }
        HCQI_PASS(hcqi_raise_check(v->dev, v->recording.label, p->index, s, p->u.sync.value));
    }
    return HCQ_OK;
}

/* Unfinished submissions, with those queues of `s` that go there. */
static uint32_t hcqi_lane_load(const hcqi_lane *lane, const hcqi_submit *s) {
    uint32_t load = lane->running + lane->held;
    for (uint32_t i = 0; i < s->count; i++) { load += s->lanes[i] == lane; }
    return load;
}

static hcqi_lane *hcqi_lane_choose(const hcqi_submit *s, hcq_queue_kind kind, uint64_t affinity) {
    hcq_device *dev = s->dev;
    int copy = kind == HCQ_COPY && dev->caps.copy_lanes != 0;
    uint32_t first = copy ? dev->caps.compute_lanes : 0;
    uint32_t count = copy ? dev->caps.copy_lanes : dev->caps.compute_lanes;
    hcqi_lane *best = &dev->lanes[first];
    if (affinity != HCQ_ANY_LANE) { return &dev->lanes[first + (uint32_t)(affinity % count)]; }
    for (uint32_t i = 1; i < count; i++) {
        hcqi_lane *lane = &dev->lanes[first + i];
        if (hcqi_lane_load(lane, s) < hcqi_lane_load(best, s)) { best = lane; }
    }
    return best;
}

static hcq_result hcqi_submit_queue(hcqi_submit *s, hcq_queue *q) {
    HCQI_REFUSE_UNLESS(s->dev, q != NULL && q->graph == NULL, HCQ_ERROR_INVALID,
                       "queues: number %u is %s", s->count,
                       q == NULL ? "NULL" : "a graph, which is submitted alone");
    HCQI_PASS(hcqi_queue_ready(q, s->dev));
    HCQI_REFUSE_UNLESS(s->dev, q->dev->backend == s->dev->backend, HCQ_ERROR_FOREIGN,
                       "queue '%s': is of another backend", q->label);
    uint64_t values[HCQI_VALUE_WORDS];
    values[0] = 0;
    if (q->take != NULL) { HCQI_PASS(q->take(q, s->dev, s->sub, values)); }
    hcqi_lane *lane = hcqi_lane_choose(s, q->kind, s->sub->affinity);
    hcq_device *owner = q->dev; /* stays, should one of these wait without the lock */
    if (owner != s->dev) { owner->pins++; }
    hcq_result r = hcqi_submit_acquire(s, q, 0, lane, values);
    if (owner != s->dev) { hcqi_unpin(owner); }
    return r;
}

static hcq_result hcqi_submit_points(hcqi_submit *s) {
    const hcq_submission *sub = s->sub;
    for (uint32_t i = 0; i < sub->wait_count; i++) {
        HCQI_REFUSE_UNLESS(s->dev, sub->waits[i].value <= HCQI_MAX_VALUE, HCQ_ERROR_INVALID,
                           "waits: number %u is above INT64_MAX", i);
        HCQI_REFUSE_UNLESS(s->dev, hcqi_signal_find(sub->waits[i].signal) != NULL,
                           HCQ_ERROR_CLOSED, "waits: signal %u is gone", i);
    }
    hcqi_core.check_mark += s->count != 1; /* else they follow what that one raises */
    for (uint32_t i = 0; i < sub->signal_count; i++) {
        hcqi_signal *t = hcqi_signal_find(sub->signals[i].signal);
        uint64_t value = sub->signals[i].value;
        HCQI_REFUSE_UNLESS(s->dev, t != NULL, HCQ_ERROR_CLOSED, "signals: signal %u is gone", i);
        HCQI_REFUSE_UNLESS(s->dev, t->kind == HCQI_USER && value <= HCQI_MAX_VALUE,
                           HCQ_ERROR_INVALID, "signals: number %u is %s", i,
                           t->kind != HCQI_USER ? "a timeline's" : "above INT64_MAX");
        HCQI_PASS(hcqi_raise_check(s->dev, NULL, i, t, value));
    }
    return HCQ_OK;
}

/* One queue's job is the submission's, too, unless that also waits for other devices. */
static uint32_t hcqi_submit_jobs(const hcqi_submit *s) {
    return s->count == 0 || (s->count == 1 && !s->gathers) ? 1 : s->count + 1;
}

/* Everything that can fail, before anything is changed. */
static HCQI_HOT hcq_result hcqi_submit_reserve(hcqi_submit *s) {
    hcq_device *dev = s->dev;
    uint32_t jobs = hcqi_submit_jobs(s);
    uint64_t waiters = (uint64_t)s->sub->wait_count + (s->launch == NULL ? 0 : s->launch->waits);
    waiters += (uint64_t)hcqi_eager_applies(s) + (s->eager[0] != NULL) + (s->eager[1] != NULL);
    waiters = waiters * jobs + jobs; /* for each, beside what its version waits for */
    uint64_t producers = s->sub->signal_count;
    uint64_t numbers = dev->next_number - dev->done_prefix + jobs;
    for (uint32_t i = 0; i < s->count; i++) {
        const hcqi_version *v = s->versions[i];
        waiters += v->wait_count;
        waiters += hcqi_version_named(v, s->kept[i]) != 0 ? hcqi_core.device_top : 0;
        producers += v->sync_count - v->wait_count;
    }
    HCQI_REFUSE_UNLESS(dev, dev->held + jobs <= dev->desc.held_limit, HCQ_ERROR_LIMIT,
                       "held_limit: %u submissions are held back", dev->held);
    if (!hcqi_pool_reserve(&dev->jobs, jobs) || !hcqi_pool_reserve(&dev->waiters, waiters) ||
        !hcqi_pool_reserve(&dev->producers, producers) ||
        (numbers > dev->window_mask + 1 &&
         !hcqi_window_resize(dev, hcqi_power_of_two(numbers)))) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    return HCQ_OK;
}

/* The job's next waiter: the one inside first. */
static hcqi_waiter *hcqi_job_waiter(hcq_job *job, hcqi_waiter **tail) {
    hcqi_waiter *w = &job->wait;
    if (*tail != NULL) { w = HCQI_CAST(hcqi_waiter *, hcqi_pool_get(&job->lane->dev->waiters)); }
    w->job = job;
    *(*tail != NULL ? &(*tail)->list : &job->at) = w;
    *tail = w;
    return w;
}

static void hcqi_waiter_set(hcqi_waiter *w, hcqi_signal *s, uint64_t value) {
    w->signal = s;
    w->value = value;
    s->waits++;
    s->refs++;
}

static void hcqi_job_wait_for(hcq_job *job, hcqi_waiter **tail, hcqi_signal *s, uint64_t value) {
    hcqi_waiter_set(hcqi_job_waiter(job, tail), s, value);
}

/* Eager calls of devices whose memory it names came before it, too. */
static void hcqi_job_eager_waits(hcq_job *job, hcqi_waiter **tail) {
    HCQI_BITS(slot, hcqi_version_named(job->version, job->values)) {
        const hcq_device *other = hcqi_core.devices[slot];
        if (other == NULL || other->eager_signal == NULL) { continue; }
        hcqi_job_wait_for(job, tail, other->eager_signal, other->eager_value);
        (*tail)->order = 1;
    }
}

/* What it waits for before it begins; the last of these, NULL: there is none. */
static hcqi_waiter *hcqi_job_make_waits(hcqi_submit *s, hcq_job *job) {
    hcqi_waiter *tail = NULL;
    uint32_t before = job->version != NULL ? 0 : s->count; /* an end follows its queues */
    for (uint32_t i = 0; i < before; i++) {
        hcqi_job_wait_for(job, &tail, s->dev->exact, s->first + i);
        job->ends = 1;
    }
    /* Other slices, and ends, come after those that wait for what is outside. */
    int begins = s->launch == NULL || s->launch->queue->graph->calls->waits(s, job, &tail);
    for (uint32_t i = 0; !job->ends && begins && i < s->sub->wait_count; i++) {
        hcqi_job_wait_for(job, &tail, hcqi_signal_find(s->sub->waits[i].signal),
                          s->sub->waits[i].value);
        tail->order = s->frees != NULL; /* memory is freed also after a failure */
    }
    if (before == 0 && hcqi_eager_applies(s)) {
        hcqi_job_wait_for(job, &tail, s->dev->eager_signal, s->dev->eager_value);
        tail->order = 1;
    }
    for (int i = 0; i < 2 && s->eager[i] != NULL; i++) {
        uint64_t last = s->eager[i]->next_number - (i == 0 ? 2 : 1); /* without this one */
        hcqi_job_wait_for(job, &tail, s->eager[i]->timeline, last);
    }
    int foreign = s->launch == NULL && (s->sub->flags & HCQ_UNORDERED) == 0;
    if (foreign && job->version != NULL) { hcqi_job_eager_waits(job, &tail); }
    return tail;
}

/* The job's next raise, with this segment; *link is where it goes. */
static hcqi_producer *hcqi_job_promise(hcq_job *job, hcqi_producer ***link, uint32_t segment,
                                       hcqi_signal *s, uint64_t value) {
    hcqi_producer *p = HCQI_CAST(hcqi_producer *, hcqi_pool_get(&job->lane->dev->producers));
    p->signal = s;
    p->value = value;
    p->segment = segment;
    p->job = job;
    if (s->promised++ == 0 || value > s->promised_top) { s->promised_top = value; }
    s->refs++;
    **link = p;
    *link = &p->list;
    return p;
}

/* What the recording waits for, behind `tail`, and raises. */
static hcqi_producer **hcqi_job_make_syncs(const hcqi_submit *s, hcq_job *job, hcqi_waiter *tail) {
    const hcqi_version *v = job->version;
    hcqi_producer **link = &job->producers;
    for (uint32_t i = 0; v != NULL && i < v->sync_count; i++) {
        const hcq_packet *p = &v->packets[v->syncs[i].packet];
        const hcq_device *other = HCQI_CAST(const hcq_device *, p->u.sync.device);
        uint32_t segment = v->syncs[i].segment;
        hcqi_signal *t = HCQI_CAST(hcqi_signal *, p->u.sync.signal);
        uint64_t value = p->u.sync.value;
        if (p->flags & HCQI_RELATIVE) {
            t = job->launch->signals[p->u.relative.slice];
            value = p->u.relative.place;
        }
        if (p->kind == HCQ_COMMAND_TIMESTAMP) {
            hcqi_producer *stamp = hcqi_job_promise(job, &link, segment, t, 0);
            stamp->slot = HCQI_CAST(const uint64_t *, p->u.sync.slot);
            continue;
        } else if (p->kind == HCQ_COMMAND_SIGNAL) {
            hcqi_producer *raise = hcqi_job_promise(job, &link, segment, t, value);
            if ((p->flags & HCQI_RELATIVE) == 0) { hcqi_promise_note(raise); }
            continue;
        }
        hcqi_waiter *w = hcqi_job_waiter(job, &tail); /* of a copy that others do: set by them */
        w->segment = segment;
        if (p->kind == HCQ_COMMAND_WAIT_DEVICE) { /* before the submission, not this job of it */
            value = (other == s->dev ? s->first : other->next_number) - 1;
        }
        if (hcqi_packet_waits(p)) { hcqi_waiter_set(w, t, value); }
    }
    return link;
}

static HCQI_HOT hcq_job *hcqi_job_new(hcqi_lane *lane, hcqi_version *v, uint64_t number) {
    hcq_device *dev = lane->dev;
    hcq_job *job = HCQI_CAST(hcq_job *, hcqi_pool_get(&dev->jobs));
    job->lane = lane;
    job->number = job->submission = number;
    job->version = v;
    dev->window[number & dev->window_mask] = job;
    dev->pending++;
    return job;
}

/* The submission's job `at`: of its queue there, behind them its end. */
static hcq_job *hcqi_job_make(hcqi_submit *s, hcqi_lane *lane, uint32_t at) {
    hcqi_version *v = at < s->count ? s->versions[at] : NULL;
    hcq_job *job = hcqi_job_new(lane, v, s->first + at);
    int last = s->first + at == s->number;
    job->submission = s->number;
    if (s->sub->flags & HCQ_UNORDERED) { job->unordered = 1; }
    job->values = v == NULL ? NULL : s->kept[at];
    if (s->launch != NULL) {
        job->launch = s->launch;
        job->unordered = !s->launch->full;
        s->launch->jobs++;
        s->launch->queue->pending++;
    }
    hcqi_producer **link = hcqi_job_make_syncs(s, job, hcqi_job_make_waits(s, job));
    for (uint32_t i = 0; last && i < s->sub->signal_count; i++) {
        const hcq_point *to = &s->sub->signals[i];
        hcqi_promise_note(hcqi_job_promise(job, &link, hcqi_job_segments(job) - 1,
                                           hcqi_signal_find(to->signal), to->value));
    }
    job->frees = s->frees;             /* of a submission that is one job */
    job->allocs = s->allocs;
    return job;
}

static void hcqi_submit_number(hcqi_submit *s) {
    s->first = s->dev->next_number;
    s->dev->next_number += hcqi_submit_jobs(s);
    s->number = s->dev->next_number - 1;
}

/* Cannot fail: everything is reserved, the numbers are taken. */
static HCQI_HOT void hcqi_submit_enlist(hcqi_submit *s) {
    hcq_device *dev = s->dev;
    for (uint32_t i = 0; s->first + i <= s->number; i++) {
        hcqi_lane *lane = s->count == 0 ? s->final_lane : s->lanes[i < s->count ? i : s->count - 1];
        if (lane == NULL) { lane = hcqi_lane_choose(s, HCQ_COMPUTE, s->sub->affinity); }
        hcq_job *job = hcqi_job_make(s, lane, i);
        hcqi_job_list(job);
        if (job->unordered || lane->lists[0].head == job) { hcqi_ready_push(job); }
    }
    if (dev->exact->held != NULL) { hcqi_signal_wake(dev->exact, s->number, 0); }
}

static void hcqi_submit_commit(hcqi_submit *s) {
    hcqi_submit_number(s);
    hcqi_submit_enlist(s);
    for (int i = 0; i < 2 && s->eager[i] != NULL; i++) { /* what comes is behind it */
        s->dev->exact->refs++;
        if (s->eager[i]->eager_signal != NULL) { hcqi_signal_unref(s->eager[i]->eager_signal); }
        s->eager[i]->eager_signal = s->dev->exact;
        s->eager[i]->eager_value = s->number;
    }
}

static void hcqi_submit_undo(hcqi_submit *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->kept[i] == NULL) { s->versions[i]->held--; }
        hcqi_version_release(s->versions[i], s->kept[i]);
    }
}

static HCQI_COLD hcq_result hcqi_submit_check(hcq_device *dev, const hcq_submission *sub,
                                              int graph) {
    uint32_t steps = HCQ_STEP | HCQ_COPY_LISTS;
    uint32_t known = graph ? HCQ_OVERLAP | steps : (uint32_t)HCQ_UNORDERED;
    const char *bad = NULL;
    HCQI_REFUSE_UNLESS(dev, !dev->closing && dev->lost == HCQ_OK,
                       dev->closing ? HCQ_ERROR_CLOSED : dev->lost, "device: takes no work");
    if ((sub->flags & steps) == HCQ_COPY_LISTS) { bad = "flags: HCQ_COPY_LISTS is for HCQ_STEP"; }
    if (sub->flags & ~known) {
        bad = graph ? "flags: not for a graph" : "flags: only where queues is one graph";
    }
    if (sub->affinity >> 63 != 0 && sub->affinity != HCQ_ANY_LANE) { bad = "affinity: is no lane"; }
    if (sub->wait_count != 0 && sub->waits == NULL) { bad = "waits: is NULL"; }
    if (sub->signal_count != 0 && sub->signals == NULL) { bad = "signals: is NULL"; }
    if (sub->value_count != 0 && sub->values == NULL) { bad = "values: is NULL"; }
    if (sub->queue_count != 0 && sub->queues == NULL) { bad = "queues: is NULL"; }
    HCQI_REFUSE_UNLESS(dev, bad == NULL, HCQ_ERROR_INVALID, "%s", bad);
    HCQI_REFUSE_UNLESS(dev, sub->queue_count <= HCQI_BATCH_WAITS, HCQ_ERROR_LIMIT,
                       "queue_count: %u, at most %d", sub->queue_count, HCQI_BATCH_WAITS);
    return HCQ_OK;
}

/* In the middle of a call on `dev`; others get the lock now and then. */
static void hcqi_drain_fairly(hcq_device *dev) {
    if (hcqi_drain_some(HCQI_BREATH)) { return; }
    dev->pins++;
    do { hcqi_leave_briefly(); } while (!hcqi_drain_some(HCQI_BREATH));
    hcqi_unpin(dev);
}

/* Why it failed already, if the backend did not take it. */
static hcq_result hcqi_submit_refused(const hcq_device *dev, uint64_t first, uint64_t last) {
    int ours = dev->refused >= first && dev->refused <= last;
    return ours ? hcqi_failures_find(&dev->failures, last) : HCQ_OK;
}

/* A plain version's job goes at once where nothing is held and there is room: its number, or 0.
   `takes`: the version is not the submission's before. */
static HCQI_HOT uint64_t hcqi_version_go(hcqi_version *v, hcqi_lane *lane, uint32_t takes) {
    hcq_device *dev = lane->dev;
    uint64_t number = dev->next_number;
    hcqi_resolve r;
    if (!v->plain || v->foreign != 0 || hcqi_eager_pends(dev) || lane->lists[0].head != NULL ||
        dev->held >= dev->desc.held_limit || number - dev->done_prefix > dev->window_mask ||
        !hcqi_pool_reserve(&dev->jobs, 1) || !hcqi_lane_reserve(lane)) {
        return 0;
    }
    v->uses += takes;
    v->held += takes;
    v->queue->pending += takes;
    r.job = hcqi_job_new(lane, v, number);
    r.points.count = 0;
    r.past_count = 0;
    dev->next_number++;
    (void)hcqi_job_pass(&r);
    if (dev->exact->held != NULL) { hcqi_signal_wake(dev->exact, number, 0); }
    return number;
}

/* A queue with nothing else, whose version is current and may go: what there is to check was
   checked when that was made. Its number; 0: it is not so, or there is something to say. */
static uint64_t hcqi_submit_plain(hcq_queue *q, hcq_device *dev) {
    hcqi_version *v = q == NULL ? NULL : q->versions;
    if (v == NULL || !v->plain || v->dev != dev || !hcqi_version_is_now(v)) { return 0; }
    hcqi_lane *lane = &dev->lanes[v->recording.lanes == HCQ_COPY ? dev->caps.compute_lanes : 0];
    if (hcqi_is_parents(q->dev) || q->sticky != HCQ_OK || dev->closing || dev->lost != HCQ_OK ||
        v->named_frees != hcqi_core.named_frees || lane->running >= dev->desc.inflight) {
        return 0;
    }
    uint64_t number = hcqi_version_go(v, lane, 1);
    if (number != 0 && ++dev->looks % HCQI_LOOK_EACH == 0) { hcqi_reap_hurried(dev); }
    return number;
}

/* Some buffer was freed while others had the lock: does what the submission brings live? */
static HCQI_COLD hcq_result hcqi_submit_living(const hcqi_submit *s, const hcq_queue *q) {
    uint64_t values[HCQI_VALUE_WORDS];
    return q->take == NULL ? HCQ_OK : q->take(q, s->dev, s->sub, values);
}

/* Versions for its queues, and everything that may be wrong with it. */
static hcq_result hcqi_submit_prepare(hcqi_submit *s) {
    uint64_t frees = hcqi_core.frees;
    if (s->sub->affinity == HCQ_ANY_LANE) { hcqi_reap_device(s->dev); } /* over is no load */
    for (uint32_t i = 0; i < s->sub->queue_count; i++) {
        HCQI_PASS(hcqi_submit_queue(s, s->sub->queues[i]));
    }
    if (s->dev->closing) { return HCQ_ERROR_CLOSED; }
    for (uint32_t i = 0; i < s->count; i++) {
        hcqi_version *v = s->versions[i];
        HCQI_PASS(hcqi_queue_check_names(v->queue, s->dev, &v->named_frees));
        if (hcqi_core.frees != frees) { HCQI_PASS(hcqi_submit_living(s, v->queue)); }
        HCQI_PASS(hcqi_version_check_signals(v));
    }
    if (s->sub->wait_count + s->sub->signal_count != 0) { HCQI_PASS(hcqi_submit_points(s)); }
    return hcqi_submit_reserve(s);
}

/* One submission, with the lock held; may let go of it to wait for room. */
static hcq_result hcqi_submit_run(hcqi_submit *s) {
    hcq_device *dev = s->dev;
    const hcq_submission *sub = s->sub;
    int one = sub->queue_count == 1 && sub->queues != NULL && sub->queues[0] != NULL;
    int graph = one && sub->queues[0]->graph != NULL;
    HCQI_PASS(hcqi_submit_check(dev, sub, graph));
    if (graph) { return sub->queues[0]->graph->calls->run(s); }
    hcq_result r = hcqi_submit_prepare(s);
    if (r != HCQ_OK) {
        hcqi_submit_undo(s);
        return r;
    }
    int plain = s->count == 1 && (sub->wait_count | sub->signal_count | sub->flags) == 0 &&
                s->eager[0] == NULL;
    s->first = s->number = plain ? hcqi_version_go(s->versions[0], s->lanes[0], 0) : 0;
    if (s->number == 0) {
        hcqi_submit_commit(s);
        hcqi_drain_fairly(dev);
    }
    r = hcqi_submit_refused(dev, s->first, s->number);
    if (++dev->looks % HCQI_LOOK_EACH == 0) { hcqi_reap_hurried(dev); } /* an engine is at it */
    return r;
}

static void hcqi_submit_init(hcqi_submit *s, hcq_device *dev, const hcq_submission *sub) {
    memset(s, 0, offsetof(hcqi_submit, dev)); /* few enough bytes to be cleared at once */
    s->dev = dev;
    s->sub = sub;
}

static hcq_result hcqi_submit_all(hcq_device *dev, const hcq_submission *submissions,
                                  uint32_t count, hcq_point *point) {
    hcq_result r = HCQ_OK;
    uint64_t number = 0;
    for (uint32_t i = 0; r == HCQ_OK && i < count; i++) {
        const hcq_submission *sub = &submissions[i];
        uint32_t more = sub->wait_count | sub->signal_count | sub->value_count | sub->flags;
        int one = more == 0 && sub->affinity == 0 && sub->queue_count == 1 && sub->queues != NULL;
        uint64_t done = one ? hcqi_submit_plain(sub->queues[0], dev) : 0;
        if (done != 0) {
            r = hcqi_submit_refused(dev, done, done);
        } else {
            hcqi_submit s;
            hcqi_submit_init(&s, dev, sub);
            r = hcqi_submit_run(&s);
            done = s.number;
        }
        if (done != 0) { number = done; }
    }
    if (r == HCQ_ERROR_OUT_OF_MEMORY) { hcqi_oom(dev, "submit"); }
    if (r == HCQ_ERROR_WOULD_BLOCK) { hcqi_refuse(dev, r, "submit: in a callback, without room"); }
    if (number != 0) { *point = hcq_at(hcqi_signal_handle(dev->exact), number); }
    return r;
}

HCQI_DEF hcq_result hcq_submit(hcq_device *device, const hcq_submission *submissions,
                               uint32_t count, hcq_point *point) {
    hcq_point done = { { 0 }, 0 };     /* `point` may be one of the waits */
    hcq_result r = hcqi_device_enter(device);
    if (r == HCQ_OK && submissions == NULL && count != 0) {
        r = hcqi_leave_refusing(device, HCQ_ERROR_INVALID, "submissions: is NULL");
    } else if (r == HCQ_OK) {
        r = hcqi_leave_with(hcqi_submit_all(device, submissions, count, &done));
    }
    if (point != NULL) { *point = done; }
    return r;
}

HCQI_DEF hcq_result hcq_queue_submit_with(hcq_queue *queue, hcq_device *device,
                                          const hcq_value *values, uint32_t count,
                                          uint32_t flags, hcq_point *point) {
    hcq_point done = { { 0 }, 0 };
    hcq_result r = hcqi_queue_check(queue);
    if (r == HCQ_OK) { r = hcqi_device_enter_by(device, queue->dev); }
    uint64_t plain = r == HCQ_OK && (count | flags) == 0 ? hcqi_submit_plain(queue, device) : 0;
    if (plain != 0) {                  /* needs no submission */
        done = hcq_at(hcqi_signal_handle(device->exact), plain);
        r = hcqi_leave_with(hcqi_submit_refused(device, plain, plain));
    } else if (r == HCQ_OK) {
        const hcq_submission sub = { NULL, 0, &queue, 1, NULL, 0, 0, flags, values, count };
        r = hcqi_leave_with(hcqi_submit_all(device, &sub, 1, &done));
    }
    if (point != NULL) { *point = done; }
    return r;
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- queues: life -------------------------------------------- >>binding - */

static hcq_result hcqi_queue_new(hcq_device *dev, hcq_queue_kind kind, hcq_queue **out) {
    hcq_queue *q = HCQI_CAST(hcq_queue *, hcqi_new(&dev->hooks, sizeof *q));
    if (q == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    q->magic = HCQI_MAGIC_QUEUE;
    q->serial = ++hcqi_core.serial;
    q->kind = kind;
    q->dev = dev;
    q->generation = 1;
    q->next = dev->queues;
    if (q->next != NULL) { q->next->prev = q; }
    dev->queues = q;
    *out = q;
    return HCQ_OK;
}

HCQI_DEF hcq_result hcq_queue_create(hcq_device *device, hcq_queue_kind kind, hcq_queue **queue) {
    if (queue != NULL) { *queue = NULL; }
    HCQI_PASS(hcqi_device_enter(device));
    HCQI_LEAVE_UNLESS(device, queue != NULL, HCQ_ERROR_INVALID, "queue: is NULL");
    HCQI_LEAVE_UNLESS(device, kind == HCQ_COMPUTE || kind == HCQ_COPY, HCQ_ERROR_INVALID,
                      "kind: %d%s", (int)kind,
                      kind == HCQ_GRAPH ? ", which hcq_graph_create makes" : "");
    hcq_result r = hcqi_queue_new(device, kind, queue);
    return hcqi_leave_with(r == HCQ_OK ? r : hcqi_oom(device, "queue"));
}

/* Lets go of what the commands name, and of the lock now and then. */
static void hcqi_queue_forget(hcq_queue *q) {
    if (hcqi_queue_forget_some(q)) { return; }
    q->dev->pins++;
    do { hcqi_leave_briefly(); } while (!hcqi_queue_forget_some(q));
    hcqi_unpin(q->dev);
}

HCQI_DEF void hcq_queue_destroy(hcq_queue *queue) {
    if (queue == NULL || hcqi_is_parents(queue->dev)) { return; }
    hcqi_enter();
    hcqi_reap_all();
    queue->destroyed = 1;
    if (queue->pending == 0) {
        queue->pending++;              /* it stays while others get the lock */
        hcqi_queue_forget(queue);
        hcqi_queue_free(queue, 1);
    }
    hcqi_leave();
}

static void hcqi_queue_clear(hcq_queue *q) {
    q->bound = NULL;                   /* first: others must not make versions of what is left */
    q->generation++;
    q->changing = 1;
    hcqi_queue_forget(q);
    q->arena_size = 0;
    q->patch_count = 0;
    q->stamps = 0;
    q->reads = q->labels = 0;
    q->newest = 0;
    q->value_count = 0;
    if (q->graph != NULL) { q->graph->calls->clear(q); }
    q->changing = 0;
    q->sticky = HCQ_OK;
}

HCQI_DEF hcq_result hcq_queue_reset(hcq_queue *queue) {
    HCQI_PASS(hcqi_queue_enter(queue));
    hcqi_queue_clear(queue);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_queue_label(hcq_queue *queue, const char *label) {
    HCQI_PASS(hcqi_queue_enter(queue));
    HCQI_CHECK(queue, HCQI_NONE, label != NULL, HCQ_ERROR_INVALID, "label: is NULL");
    hcqi_copy_label(queue->label, label);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_queue_command_label(hcq_queue *queue, int32_t index, const char *label) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_command_enter(queue, index, &p));
    HCQI_CHECK(queue, HCQI_NONE, label != NULL, HCQ_ERROR_INVALID, "label: is NULL");
    hcqi_copy_label(queue->metas[p->index].label, label);
    queue->labels++;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_queue_command_flags(hcq_queue *queue, int32_t index, uint32_t flags) {
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_command_enter(queue, index, &p));
    HCQI_CHECK(queue, HCQI_NONE, queue->graph == NULL, HCQ_ERROR_INVALID,
               "queue: a graph's order comes from reads and writes");
    HCQI_CHECK(queue, HCQI_NONE, (flags & ~(uint32_t)HCQ_OVERLAP) == 0, HCQ_ERROR_INVALID,
               "flags: not a valid one");
    p->flags = (uint8_t)flags;
    return hcqi_queue_changed(queue);
}

static hcq_result hcqi_queue_bind(hcq_queue *q, hcq_device *dev, uint32_t slice) {
    uint32_t count = 0;
    hcq_result r = HCQ_OK;
    for (hcqi_version *v = q->versions; v != NULL; v = v->next) {
        if (v->dev == dev && v->slice == slice) { count += hcqi_version_counts(v); }
    }
    for (; r == HCQ_OK && count < dev->desc.versions; count++) {
        if (hcqi_version_new(q, dev, slice) == NULL) { r = HCQ_ERROR_OUT_OF_MEMORY; }
    }
    for (hcqi_version *v = q->versions, *next; r == HCQ_OK && v != NULL; v = next) {
        next = v->next;
        if (v->dev != dev || v->slice != slice || !hcqi_version_idle(v)) { continue; }
        int plain = !v->recording.bound && dev->backend->encode != NULL &&
                    v->recording.encoded == NULL; /* it ran before */
        v->recording.bound = 1;
        if (v->generation != q->generation || plain) {
            r = hcqi_version_build(v, NULL);
            next = q->versions;        /* others had the lock */
            continue;
        }
        int varies = q->graph == NULL && (q->value_count != 0 || v->single);
        if (varies && !hcqi_pool_reserve(hcqi_version_pool(v), 1)) { r = HCQ_ERROR_OUT_OF_MEMORY; }
    }
    return r;
}

HCQI_DEF hcq_result hcq_queue_bind(hcq_queue *queue, hcq_device *device) {
    HCQI_PASS(hcqi_queue_check(queue));
    HCQI_PASS(hcqi_device_enter_by(device, queue->dev));
    hcqi_reap_device(device);
    hcq_result r = hcqi_queue_ready(queue, device);
    if (r != HCQ_OK) {
        return hcqi_leave_with(r);
    } else if (queue->graph != NULL) {
        r = queue->graph->calls->bind(queue, device);
    } else if (queue->dev->backend != device->backend) {
        r = hcqi_refuse(device, HCQ_ERROR_FOREIGN, "device: is of another backend");
    } else {
        r = hcqi_queue_bind(queue, device, 0);
    }
    if (r == HCQ_ERROR_OUT_OF_MEMORY) { hcqi_oom(device, "bind"); }
    if (r == HCQ_OK) { queue->bound = device; }
    return hcqi_leave_with(r);
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- signals: public ----------------------------------------- >>setting - */

HCQI_DEF HCQI_COLD hcq_result hcq_signal_create(hcq_device *device, uint64_t value,
                                                hcq_signal *signal) {
    hcqi_signal *s;
    const char *bad = value > HCQI_MAX_VALUE ? "value: above INT64_MAX" : NULL;
    if (signal == NULL) { bad = "signal: is NULL"; } else { signal->id = 0; }
    HCQI_PASS(hcqi_device_enter(device));
    if (bad != NULL) { return hcqi_leave_refusing(device, HCQ_ERROR_INVALID, "%s", bad); }
    hcq_result r = hcqi_signal_new(device, HCQI_USER, value, &s);
    if (r != HCQ_OK) { return hcqi_leave_refusing(device, r, "signal: %s", hcq_result_text(r)); }
    *signal = hcqi_signal_handle(s);
    return hcqi_leave_with(HCQ_OK);
}

/* Takes the handle away; what pending work needs of the signal stays. */
static void hcqi_signal_close(hcqi_signal *s) {
    hcq_device *dev = s->dev;
    hcqi_slots_remove(&dev->signals, s->id);
    s->handles = 0;
    hcqi_signal_wake(s, UINT64_MAX, UINT64_MAX); /* nobody raises it above what is promised */
    hcqi_signal_unref(s);
}

/* Takes the lock for a call on a signal; anything but HCQ_OK: not taken. `own`: only the
   user's own signals can do that. `bad`: what else is wrong with the call, or NULL. */
static hcq_result hcqi_signal_enter(hcq_signal signal, int own, const char *bad,
                                    hcqi_signal **out) {
    hcqi_enter();
    hcqi_signal *s = *out = hcqi_signal_find(signal);
    if (hcqi_is_strange()) {
        return hcqi_leave_refusing(NULL, HCQ_ERROR_INVALID, "signal: " HCQI_STRANGE);
    }
    if (s == NULL) {
        hcq_device *maker = hcqi_slot_maker(signal.id);
        const char *gone = maker != NULL ? "was destroyed" : "its device was closed";
        return hcqi_leave_refusing(maker, HCQ_ERROR_CLOSED, "signal: %s",
                                   signal.id == 0 ? "is zero" : gone);
    }
    if (own && s->kind != HCQI_USER) { bad = "signal: is a timeline"; }
    return bad == NULL ? HCQ_OK : hcqi_leave_refusing(s->dev, HCQ_ERROR_INVALID, "%s", bad);
}

/* Gives up `handles` references, all of them for a plain destroy. */
static hcq_result hcqi_signal_release(hcq_signal signal, uint32_t handles) {
    hcqi_signal *s;
    HCQI_PASS(hcqi_signal_enter(signal, 1, NULL, &s));
    if (s->handles > handles) {
        s->handles -= handles;
        return hcqi_leave_with(HCQ_OK);
    }
    hcqi_signal_refresh(s);
    hcqi_signal_close(s);
    hcqi_core.changed = 1;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_signal_destroy(hcq_signal signal) {
    return hcqi_signal_release(signal, UINT32_MAX);
}

HCQI_DEF hcq_result hcq_signal_release(hcq_signal signal) {
    return hcqi_signal_release(signal, 1);
}

HCQI_DEF hcq_result hcq_signal_retain(hcq_signal signal) {
    hcqi_signal *s;
    HCQI_PASS(hcqi_signal_enter(signal, 1, NULL, &s));
    s->handles++;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_signal_label(hcq_signal signal, const char *label) {
    hcqi_signal *s;
    HCQI_PASS(hcqi_signal_enter(signal, 0, label == NULL ? "label: is NULL" : NULL, &s));
    hcqi_copy_label(s->label, label);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_signal_value(hcq_signal signal, uint64_t *value) {
    hcqi_signal *s;
    HCQI_PASS(hcqi_signal_enter(signal, 0, value == NULL ? "value: is NULL" : NULL, &s));
    hcqi_signal_refresh(s);
    *value = s->kind == HCQI_EXACT ? s->dev->done_prefix : s->value;
    HCQI_ORDER(hcqi_order_read(s, *value));
    return hcqi_leave_with(s->failure);
}

HCQI_DEF hcq_result hcq_signal_timestamp(hcq_signal signal, uint64_t *device_ns) {
    hcqi_signal *s;
    HCQI_PASS(hcqi_signal_enter(signal, 0, device_ns == NULL ? "device_ns: is NULL" : NULL, &s));
    hcqi_signal_refresh(s);
    *device_ns = s->timestamp;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_signal_set(hcq_signal signal, uint64_t value) {
    hcqi_signal *s;
    HCQI_PASS(hcqi_signal_enter(signal, 1, NULL, &s));
    hcqi_signal_refresh(s);
    if (s->failure != HCQ_OK) { return hcqi_leave_with(s->failure); }
    HCQI_LEAVE_UNLESS(s->dev, value > s->value && value <= HCQI_MAX_VALUE, HCQ_ERROR_INVALID,
                      "value: %llu, the signal is at %llu", (unsigned long long)value,
                      (unsigned long long)s->value);
    s->source.at = 0;
    HCQI_ORDER(hcqi_order_set(s, value));
    hcqi_signal_raise(s, value);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF HCQI_COLD hcq_result hcq_signal_fail(hcq_signal signal, hcq_result result,
                                              const char *text) {
    hcqi_signal *s;
    hcqi_reason *reason = NULL;
    const char *bad = (int)result >= 0 ? "result: is not an error" : NULL;
    HCQI_PASS(hcqi_signal_enter(signal, 1, bad, &s));
    hcqi_signal_refresh(s);
    int low = s->failure != HCQ_OK && s->failed_from <= s->value + 1; /* else it comes down */
    if (low) { return hcqi_leave_with(HCQ_OK); }
    if (text != NULL && text[0] != 0) {
        reason = HCQI_CAST(hcqi_reason *, hcqi_new(&s->dev->hooks, sizeof *reason));
    }
    if (reason != NULL) {
        reason->hooks = s->dev->hooks;
        reason->refs = 1;
        snprintf(reason->text, sizeof reason->text, "%s", text);
    }
    hcqi_signal_fail_from(s, s->value + 1, result, reason);
    hcqi_reason_unref(reason);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF HCQI_COLD hcq_result hcq_signal_reset(hcq_signal signal, uint64_t value) {
    hcqi_signal *s;
    const char *bad = value > HCQI_MAX_VALUE ? "value: above INT64_MAX" : NULL;
    HCQI_PASS(hcqi_signal_enter(signal, 1, bad, &s));
    hcqi_reap_all();
    int busy = s->waits + s->promised != 0;
    if (!busy) { /* threads look again, and so do notifications, which then wait on */
        hcqi_signal_wake(s, UINT64_MAX, UINT64_MAX);
        hcqi_drain();
        busy = s->held != NULL || s->reach != NULL;
    }
    HCQI_LEAVE_UNLESS(s->dev, !busy, HCQ_ERROR_BUSY, "signal: pending work names it");
    HCQI_ORDER(hcqi_order_forget(s));
    s->value = value;
    hcqi_signal_forgive(s);
    s->timestamp = 0;
    hcqi_core.changed = 1;
    return hcqi_leave_with(HCQ_OK);
}

/* ========================================================================== */
/* ---- waiting on the host ------------------------------------- >>waiting - */

/* What a look at all points found. */
typedef struct hcqi_poll {
    uint32_t reached, handed;
    hcqi_points points;                /* of those that are handed over */
    int others;                        /* the host may raise or fail a signal meanwhile */
} hcqi_poll;

/* 1 = the wait is over with *out. `again`: all signals were there before. */
static int hcqi_poll_all(hcqi_poll *poll, const hcq_point *points, uint32_t count,
                         hcq_wait_mode mode, int again, hcq_result *out) {
    hcq_result failure = HCQ_OK;       /* the lowest code */
    poll->reached = 0;
    poll->handed = 0;
    hcqi_points_begin(&poll->points, NULL);
    poll->others = count > 1;
    for (uint32_t i = 0; i < count; i++) {
        hcqi_signal *s = hcqi_signal_find(points[i].signal);
        hcq_result why = again ? HCQ_ERROR_CANCELLED : HCQ_ERROR_CLOSED;
        hcqi_state state = HCQI_FAILED;
        if (s != NULL) {
            state = hcqi_state_of(s, points[i].value, &why, &poll->points);
            poll->others |= s->kind == HCQI_USER;
        }
        poll->reached += state == HCQI_REACHED;
        poll->handed += state == HCQI_HANDED;
        if (state == HCQI_FAILED && (failure == HCQ_OK || why < failure)) { failure = why; }
    }
    *out = HCQ_OK;
    if (mode == HCQ_ANY ? poll->reached != 0 : poll->reached == count) { return 1; }
    *out = failure;
    return failure != HCQ_OK;
}

/* With the lock released, until one of the points changes, or, where they are many, anything. */
static hcq_result hcqi_sleep(const hcq_point *points, uint32_t count, uint64_t left_ns) {
    hcqi_sleeper sleeper;
    hcq_result r;
    int many = count > HCQI_SLEEPER_POINTS;
    sleeper.count = 0;
    sleeper.awake = 0;
    for (uint32_t i = 0; !many && i < count; i++) {
        hcqi_signal *s = hcqi_signal_find(points[i].signal);
        hcqi_state state = s == NULL ? HCQI_FAILED : hcqi_state_now(s, points[i].value, &r);
        if (state == HCQI_REACHED || state == HCQI_FAILED) { continue; }
        hcqi_waiter *w = &sleeper.waits[sleeper.count++];
        memset(w, 0, sizeof *w);
        w->signal = s;
        w->value = points[i].value;
        w->list = &sleeper.waits[0];
        s->refs++;
        hcqi_waiter_link(w, state == HCQI_HANDED);
    }
    hcqi_watch(1);                     /* so that leaving looks at all lanes */
    if (many) {
        r = hcqi_event_wait(left_ns);
    } else {
        r = hcqi_word_wait(&sleeper.awake, 0, left_ns);
    }
    hcqi_watch(-1);
    hcqi_sleeper **link = &hcqi_core.awake;
    while (*link != NULL && *link != &sleeper) { link = &(*link)->next; }
    if (*link != NULL) { *link = sleeper.next; }
    for (uint32_t i = 0; i < sleeper.count; i++) {
        hcqi_waiter *w = &sleeper.waits[i];
        hcqi_waiter_unlink(w);
        hcqi_signal_unref(w->signal);
    }
    return r;
}

/* Waits natively for the first lane. One point that it alone will reach, of a device
   where nothing ever failed: that is the answer, and what is complete is collected by
   the next call that has to. 1 = over, the lock is free; 0 = look again, or *out. */
static int hcqi_wait_lane(const hcqi_poll *poll, uint64_t left_ns, hcq_result *out) {
    hcqi_lane *lane = poll->points.lane[0];
    hcq_device *dev = lane->dev;
    if (poll->others || poll->points.count != 1 || lane->limit != HCQI_MAX_VALUE ||
        dev->lost != HCQ_OK || hcqi_atomic_load32(&dev->any_failed) != 0) {
        *out = hcqi_block_on(lane, poll->points.epoch[0], left_ns);
        return 0;
    }
    hcq_result r = hcqi_block(lane, poll->points.epoch[0], left_ns);
    if (r == HCQ_OK && hcqi_atomic_load32(&dev->any_failed) == 0) {
        hcqi_unpin(dev);
        return 1;
    }
    hcqi_apart_end(dev);
    hcqi_reap(lane);
    if (r == HCQ_TIMEOUT) { *out = r; } /* why it failed the signal knows */
    return 0;
}

/* With the lock held, which it lets go of. `why`: HCQ_NOT_READY, or that it never ends. */
static void hcqi_explain_wait(hcq_device *dev, hcq_result why, const hcq_point *points,
                              uint32_t count) {
    char text[64];
    snprintf(text, sizeof text, why < 0 ? "a wait for ever, and nothing can run:"
                                        : "a wait lasts longer than %llu ms:",
             (unsigned long long)(dev->desc.explain_ns / 1000000));
    hcqi_apart_begin(dev);
    hcqi_tell(dev, why, text, points, count);
    hcqi_apart_end(dev);
}

/* With the lock held at the beginning, and free at the end. Where all that is missing was
   handed over, the backend waits for a lane. It is deaf then to what else can end the wait
   for as long as that has lasted: seldom looking costs nothing, a late look is not noticed. */
static hcq_result hcqi_wait_through(const hcq_point *points, uint32_t count, hcq_wait_mode mode,
                                    uint64_t timeout_ns) {
    hcqi_poll poll;
    hcq_result r;
    int over = hcqi_poll_all(&poll, points, count, mode, 0, &r);
    if (r < 0 && mode == HCQ_ANY && poll.handed != 0) { /* reached counts more than failed */
        hcqi_reap_all();
        over = hcqi_poll_all(&poll, points, count, mode, 0, &r);
    }
    if (over) { return hcqi_leave_with(r); }
    if (poll.points.count != 0 && hcqi_reap(poll.points.lane[0]) &&
        hcqi_poll_all(&poll, points, count, mode, 1, &r)) {
        return hcqi_leave_with(r);
    }
    /* the clock is not for a first wait, which its own limit ends when it is to be explained */
    hcq_device *dev = hcqi_slot_device(points[0].signal.id);
    int tells = timeout_ns != 0 && dev != NULL && dev->desc.log_fn != NULL;
    uint64_t after = tells && dev->desc.explain_ns >> 63 == 0 ? dev->desc.explain_ns : HCQ_FOREVER;
    if (tells && dev->stepped && timeout_ns == HCQ_FOREVER) { after = HCQ_FOREVER; } /* at once */
    uint64_t deadline = hcqi_deadline(timeout_ns), explain = HCQ_FOREVER, slice = HCQI_SLICE_NS;
    uint64_t left = timeout_ns >> 63 != 0 ? hcqi_left(deadline) : timeout_ns;
    if (after < left) { left = after; }
    for (;; left = hcqi_left(explain < deadline ? explain : deadline)) {
        if (left == 0 && explain < deadline) {
            explain = HCQ_FOREVER;
            hcqi_explain_wait(dev, HCQ_NOT_READY, points, count);
        } else if (left == 0) { /* the last look is at the hardware */
            hcqi_reap_all();
            if (!hcqi_poll_all(&poll, points, count, mode, 1, &r)) { r = HCQ_TIMEOUT; }
            break;
        } else if (hcqi_in_callback()) {
            r = hcqi_refuse(dev, HCQ_ERROR_WOULD_BLOCK, "wait: in a callback");
            break;
        } else if (poll.handed + poll.reached != count || poll.points.count == 0 ||
                   (mode == HCQ_ANY && count != 1)) {
            r = hcqi_sleep(points, count, left);
        } else {
            if (poll.others && slice < left) { left = slice; }
            if (slice < HCQI_SLICE_MAX_NS) { slice *= 2; }
            if (hcqi_wait_lane(&poll, left, &r)) { return HCQ_OK; }
            if (r < 0) { break; }
        }
        int late = r == HCQ_TIMEOUT && left == after, dead = r == HCQ_ERROR_DEADLOCK;
        if (hcqi_poll_all(&poll, points, count, mode, 1, &r)) { break; }
        if (dead) {
            r = HCQ_ERROR_DEADLOCK;
            if (dev != NULL) { hcqi_explain_wait(dev, r, points, count); }
            break;
        }
        if (after != HCQ_FOREVER) { explain = late ? 0 : hcqi_deadline(after); }
        after = HCQ_FOREVER;
    }
    return hcqi_leave_with(r);
}

/* Where devices have no threads, what runs before the host looks, or goes on, is drawn, too. */
static void hcqi_linger(void) {
    if (hcqi_core.await_fn != NULL && !hcqi_in_callback()) { hcqi_core.await_fn(NULL, 0, 0); }
}

static hcq_result hcqi_wait_entered(const hcq_point *points, uint32_t count, hcq_wait_mode mode,
                                    uint64_t timeout_ns) {
    hcq_result r = hcqi_wait_through(points, count, mode, timeout_ns);
    if (timeout_ns != 0) { hcqi_linger(); }
    HCQI_ORDER_APART(hcqi_order_waited(points, count, mode, r));
    return r;
}

static const char *hcqi_point_bad(hcq_point point) {
    if (point.signal.id == 0) { return "has no signal"; }
    return point.value > HCQI_MAX_VALUE ? "is above INT64_MAX" : NULL;
}

HCQI_DEF hcq_result hcq_wait(const hcq_point *points, uint32_t count, hcq_wait_mode mode,
                             uint64_t timeout_ns) {
    if (count == 0) { return HCQ_OK; }
    if (points == NULL) { return hcqi_null("points"); }
    if (hcqi_is_strange()) {
        return hcqi_refuse_alone(NULL, HCQ_ERROR_INVALID, "points: device " HCQI_STRANGE);
    }
    if (timeout_ns == 0) { hcqi_linger(); }
    hcqi_enter();
    for (uint32_t i = 0; i < count; i++) {
        const char *bad = hcqi_point_bad(points[i]);
        HCQI_LEAVE_UNLESS(hcqi_slot_device(points[i].signal.id), bad == NULL, HCQ_ERROR_INVALID,
                          "points: number %u %s", i, bad);
    }
    HCQI_LEAVE_UNLESS(NULL, mode == HCQ_ALL || mode == HCQ_ANY, HCQ_ERROR_INVALID, "mode: %d",
                      (int)mode);
    return hcqi_wait_entered(points, count, mode, timeout_ns);
}

HCQI_DEF hcq_result hcq_submit_and_wait(hcq_device *device, const hcq_submission *submissions,
                                        uint32_t count, uint64_t timeout_ns, hcq_point *point) {
    hcq_point done = { { 0 }, 0 };     /* `point` may be one of the waits */
    hcq_result r = hcqi_device_enter(device);
    if (r == HCQ_OK && submissions == NULL && count != 0) {
        r = hcqi_leave_refusing(device, HCQ_ERROR_INVALID, "submissions: is NULL");
    } else if (r == HCQ_OK && timeout_ns != 0 && hcqi_in_callback()) {
        r = hcqi_leave_refusing(device, HCQ_ERROR_WOULD_BLOCK, "submit_and_wait: in a callback");
    } else if (r == HCQ_OK) {
        r = hcqi_submit_all(device, submissions, count, &done);
        int waits = r == HCQ_OK && done.value != 0;
        r = waits ? hcqi_wait_entered(&done, 1, HCQ_ALL, timeout_ns) : hcqi_leave_with(r);
    }
    if (point != NULL) { *point = done; }
    return r;
}

/* What the host did since, which the profile is told now. */
static void hcqi_profile_host(const hcq_device *dev, uint64_t serial, hcq_command_kind kind,
                              const char *name, uint64_t begin_ns, uint64_t number,
                              uint64_t bytes) {
    hcqi_event e;
    memset(&e, 0, sizeof e);
    e.begin = begin_ns;
    e.submission = number;
    e.bytes = bytes;
    e.kind = (uint16_t)kind;
    hcqi_enter();
    if (hcqi_device_is(dev, serial)) { dev->profile->host(dev, &e, name); }
    hcqi_leave();
}

/* `told`: to a profile. */
static hcq_result hcqi_synchronize(hcq_device *device, uint64_t timeout_ns, int told) {
    HCQI_PASS(hcqi_device_enter(device));
    hcq_point point = hcq_at(hcqi_signal_handle(device->timeline), device->next_number - 1);
    uint64_t begin = told && hcqi_profile_on(device) ? hcq_now_ns() : 0, serial = device->serial;
    hcq_result r = device->lost;
    r = r == HCQ_OK ? hcqi_wait_entered(&point, 1, HCQ_ALL, timeout_ns) : hcqi_leave_with(r);
    if (begin != 0) {
        hcqi_profile_host(device, serial, HCQ_COMMAND_SYNC, hcqi_kind_text(HCQ_COMMAND_SYNC),
                          begin, point.value, 0);
    }
    return r;
}

HCQI_DEF hcq_result hcq_device_synchronize(hcq_device *device, uint64_t timeout_ns) {
    return hcqi_synchronize(device, timeout_ns, 1);
}

/* `bad`: what is wrong with the call, or NULL. */
static hcq_result hcqi_notify(hcq_point point, hcq_notify_fn fn, void *user,
                              hcq_notification *notification, const char *bad) {
    hcqi_signal *s;
    hcq_result why = HCQ_ERROR_OUT_OF_MEMORY;
    if (notification != NULL) { notification->id = 0; }
    if (bad == NULL && hcqi_point_bad(point)) { bad = "point: no signal, or above INT64_MAX"; }
    if (bad != NULL) {
        hcqi_enter();
        return hcqi_leave_refusing(hcqi_slot_device(point.signal.id), HCQ_ERROR_INVALID, "%s", bad);
    }
    HCQI_PASS(hcqi_signal_enter(point.signal, 0, NULL, &s));
    hcq_device *dev = s->dev;
    int room = hcqi_pool_reserve(&dev->notice_pool, 1);
    void *item = room ? hcqi_pool_get(&dev->notice_pool) : NULL;
    uint64_t id = room ? hcqi_slots_put(dev, &dev->notices, item, &why) : 0;
    if (id == 0) {
        if (room) { hcqi_pool_put(&dev->notice_pool, item); }
        return hcqi_leave_refusing(dev, why, "notification: %s", hcq_result_text(why));
    }
    hcqi_notice *n = HCQI_CAST(hcqi_notice *, item);
    n->id = id;
    n->wait.signal = s;
    n->wait.value = point.value;
    n->fn = fn;
    n->user = user;
    s->refs++;
    hcqi_signal_refresh(s);
    if (notification != NULL) { notification->id = id; }
    hcqi_notice_append(&hcqi_core.noticed_head, &hcqi_core.noticed_tail, n);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_notify(hcq_point point, hcq_notify_fn fn, void *user,
                               hcq_notification *notification) {
    return hcqi_notify(point, fn, user, notification, fn == NULL ? "fn: is NULL" : NULL);
}

static void hcqi_notify_event(void *user, hcq_result result) {
    (void)result;
    hcqi_sys_event_close((intptr_t)user, 1);
}

HCQI_DEF HCQI_COLD hcq_result hcq_notify_handle(hcq_point point, intptr_t *handle,
                                                hcq_notification *notification) {
    intptr_t theirs = -1, ours = -1;
    const char *bad = handle == NULL ? "handle: is NULL" : NULL;
    if (handle != NULL) { *handle = -1; }
    if (notification != NULL) { notification->id = 0; }
    if (bad == NULL && !hcqi_sys_event_create(&theirs, &ours)) {
        return hcqi_refuse_alone(NULL, HCQ_ERROR_NATIVE, "handle: the system gives none");
    }
    hcq_result r = hcqi_notify(point, hcqi_notify_event, (void *)ours, notification, bad);
    if (r == HCQ_OK) {
        *handle = theirs;
    } else if (theirs != -1) {
        hcqi_sys_event_close(theirs, 0);
        hcqi_sys_event_close(ours, 0);
    }
    return r;
}

HCQI_DEF hcq_result hcq_notify_cancel(hcq_notification notification) {
    hcqi_enter();
    hcq_device *dev = hcqi_slot_device(notification.id);
    uint32_t index = hcqi_slot_index(notification.id);
    void *item = dev == NULL ? NULL : hcqi_slots_at(&dev->notices, index);
    hcqi_notice *n = HCQI_CAST(hcqi_notice *, item);
    if (n == NULL || n->id != notification.id || n->fn == NULL) {
        const hcqi_notice *runs = hcqi_core.called;
        while (runs != NULL && runs->id != notification.id) { runs = runs->next; }
        return hcqi_leave_with(runs != NULL ? HCQ_ERROR_BUSY : HCQ_ERROR_CLOSED);
    }
    if (n->fn == hcqi_notify_event) { hcqi_sys_event_close((intptr_t)n->user, 0); }
    if (n->wait.home == HCQI_HOME_NONE) {
        n->fn = NULL; /* whoever takes it off its list forgets it */
    } else {
        hcqi_waiter_unlink(&n->wait);
        hcqi_notice_free(n);
    }
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_signal hcq_device_timeline(hcq_device *device) {
    if (hcqi_device_enter(device) != HCQ_OK) { return hcqi_signal_handle(NULL); }
    hcq_signal timeline = hcqi_signal_handle(device->timeline);
    hcqi_leave();
    return timeline;
}

HCQI_DEF uint64_t hcq_device_timeline_value(hcq_device *device) {
    if (hcqi_device_enter(device) != HCQ_OK) { return 0; }
    uint64_t value = device->next_number;
    hcqi_leave();
    return value;
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- memory: public ------------------------------------------ >>caching - */

/* Is everything done that was to be before the block is used again? `soon`: or handed
   over, so that it will be. */
static int hcqi_freed_done(const hcqi_allocation *a, int soon) {
    if (a->number > (soon ? a->dev->handed_prefix : a->dev->done_prefix)) { return 0; }
    for (uint32_t i = 0; i < a->user_count; i++) {
        const hcqi_last *s = &a->users[i];
        if (hcqi_last_unmet(s) && (!soon || s->number > s->dev->handed_prefix)) { return 0; }
    }
    return 1;
}

/* A freed block that is done, or `soon` will be; NULL: none. */
static hcqi_allocation *hcqi_freed_find(hcq_device *dev, uint64_t size, uint32_t flags,
                                        int soon) {
    hcqi_allocation *first = *hcqi_shelf(dev, size, flags), *a = first;
    if (first == NULL) { return NULL; }
    if (!hcqi_freed_done(first->same_prev, 0)) { hcqi_reap_all(); } /* it may be by now */
    if (hcqi_freed_done(first->same_prev, 0)) { return first->same_prev; }
    uint64_t up_to = soon ? dev->handed_prefix : dev->done_prefix;
    for (int i = 0; i < HCQI_PASSED && a->number <= up_to; i++) {
        if (hcqi_freed_done(a, soon)) { return a; }
        a = a->same_next;
        if (a == first) { break; }
    }
    return NULL;
}

/* Back to the backend with a list of blocks, which no device sees any more, if possible
   without the lock; their records stay while they are named. */
static void hcqi_list_release(hcq_device *dev, hcqi_allocation *list, int apart) {
    for (hcqi_allocation *a = list; a != NULL; a = a->next) {
        for (uint32_t i = 0; i < a->user_count; i++) {
            const hcq_device *other = a->users[i].dev;
            if (a->users[i].mapped && hcqi_device_is(other, a->users[i].serial) &&
                other->backend->unmap != NULL) {
                other->backend->unmap(other->self, dev->backend, dev->self, &a->memory);
            }
        }
    }
    if (apart) { hcqi_native_begin(dev); }
    for (hcqi_allocation *a = list; a != NULL; a = a->next) {
        dev->backend->dealloc(dev->self, &a->memory);
    }
    if (apart) { hcqi_native_end(dev); }
    while (list != NULL) {
        hcqi_allocation *a = list;
        list = a->next;
        a->state = HCQI_TOMB;
        if (a->names == 0) { hcqi_allocation_delete(a); }
    }
}

/* Gives idle blocks back, oldest first, until at most `keep` bytes are left; those that
   nobody will be given again in any case. `apart`: may let go of the lock. */
static void hcqi_freed_trim(hcq_device *dev, uint64_t keep, int apart) {
    if (dev->freed_head[0] == NULL && dev->freed_bytes <= keep) { return; }
    hcqi_reap_all();
    while (dev->encodes == 0) {        /* else of a queue that names it, say: another time */
        hcqi_allocation *list = NULL;
        for (int cached = 0; cached < 2; cached++) {
            hcqi_allocation *a = dev->freed_head[cached], *next;
            for (int i = 0; i < HCQI_BREATH && a != NULL; i++, a = next) {
                next = a->next;
                if (a->number > dev->done_prefix) { break; }
                if (cached && dev->freed_bytes <= keep) { break; }
                if (!hcqi_freed_done(a, 0)) { continue; }
                hcqi_freed_take(a);
                a->next = list;
                list = a;
            }
        }
        if (list == NULL) { return; }
        hcqi_list_release(dev, list, apart);
    }
}

static hcqi_allocation *hcqi_allocation_new(hcq_device *dev) {
    hcqi_allocation *a = HCQI_CAST(hcqi_allocation *, hcqi_new(&dev->hooks, sizeof *a));
    if (a == NULL) { return NULL; }
    a->dev = dev;
    dev->refs++;
    return a;
}

static hcq_result hcqi_table_room(hcq_device *dev, const char *what) {
    int room = HCQI_GROW(&dev->hooks, dev->table, dev->table_capacity,
                         (uint64_t)dev->table_count + 1);
    return room ? HCQ_OK : hcqi_oom(dev, what);
}

/* Enters a block into the table of living ones; there is room. */
static void hcqi_allocation_live(hcqi_allocation *a) {
    hcq_device *dev = a->dev;
    uint32_t at = hcqi_table_at(dev, a->memory.address);
    memmove(&dev->table[at + 1], &dev->table[at], (dev->table_count - at) * sizeof *dev->table);
    dev->table[at] = a;
    dev->table_count++;
    dev->allocated_bytes += a->memory.size;
    a->state = HCQI_LIVE;
    a->twin = NULL;
    a->id = ++hcqi_core.serial;
}

/* A cached block, under a new record should recordings still name the old. */
static hcq_result hcqi_freed_reuse(hcqi_allocation **block) {
    hcqi_allocation *a = *block, *now = a->names == 0 ? a : hcqi_allocation_new(a->dev);
    if (now == NULL) { return hcqi_oom(a->dev, "alloc"); }
    hcqi_freed_take(a);
    *block = now;
    if (now == a) { return HCQ_OK; }
    *now = *a;
    now->names = 0;
    a->state = HCQI_TOMB;
    a->users = NULL;                   /* they are the new one's */
    a->user_count = a->user_capacity = 0;
    return HCQ_OK;
}

/* `ptr`: the host's memory, or NULL. If need be in place of all that is cached. */
static hcq_result hcqi_allocation_make(hcq_device *dev, void *ptr, uint64_t size, uint32_t flags,
                                       int apart, hcqi_allocation **out) {
    uint32_t wanted = flags & (uint32_t)(HCQ_HOST_VISIBLE | HCQ_HOST_WRITES | HCQ_ZEROED);
    hcqi_allocation *a = hcqi_allocation_new(dev);
    hcq_result r = HCQ_ERROR_OUT_OF_MEMORY;
    if (a == NULL) { return hcqi_oom(dev, "alloc"); }
    for (int again = 0; r == HCQ_ERROR_OUT_OF_MEMORY && again < 2; again++) {
        if (again) { hcqi_freed_trim(dev, 0, apart); }
        memset(&a->memory, 0, sizeof a->memory);
        if (apart) { hcqi_native_begin(dev); }
        r = ptr != NULL ? dev->backend->import(dev->self, ptr, size, &a->memory)
                        : dev->backend->alloc(dev->self, size, wanted, &a->memory);
        if (apart) { hcqi_native_end(dev); }
    }
    a->memory.size = size;
    a->flags = flags;
    *out = a;
    if (r == HCQ_OK) { return r; }
    hcqi_allocation_delete(a);
    return hcqi_refuse(dev, r, "%s of %llu bytes: %s; %llu in use, %llu cached",
                       ptr != NULL ? "import" : "alloc", (unsigned long long)size,
                       hcq_result_text(r), (unsigned long long)dev->allocated_bytes,
                       (unsigned long long)dev->freed_bytes);
}

/* A cached block or a new one, into the table. `apart`: may let go of the lock. `soon`:
   one that is not idle will do, its users say what still runs. */
static hcq_result hcqi_alloc(hcq_device *dev, uint64_t size, uint32_t flags, int apart,
                             int soon, hcqi_allocation **out) {
    if (flags & HCQ_HOST_WRITES) { flags |= HCQ_HOST_VISIBLE; }
    if (dev->caps.features & HCQ_FEATURE_HOST_MEMORY) { flags &= ~(uint32_t)HCQ_HOST_WRITES; }
    hcqi_freed_trim(dev, dev->desc.cache_bytes, apart);
    hcqi_allocation *a = hcqi_freed_find(dev, size, flags, soon);
    hcq_result r = a != NULL ? hcqi_freed_reuse(&a)
                             : hcqi_allocation_make(dev, NULL, size, flags, apart, &a);
    if (r != HCQ_OK) { return r; }
    if ((flags & HCQ_ZEROED) && a->memory.host != NULL) {
        apart = apart && size > HCQI_ZERO_BYTES;
        if (apart) { hcqi_apart_begin(dev); }
        memset(a->memory.host, 0, (size_t)size);
        if (apart) { hcqi_apart_end(dev); }
    }
    r = hcqi_table_room(dev, "alloc");
    if (r == HCQ_OK) { hcqi_allocation_live(a); } else { hcqi_freed_put(a); }
    *out = r == HCQ_OK ? a : NULL;
    return r;
}

/* `bad`: what is wrong with the call, or NULL. */
static hcq_result hcqi_device_check(hcq_device *dev, const char *bad) {
    if (dev->closing) { return hcqi_refuse(dev, HCQ_ERROR_CLOSED, "device: is closing"); }
    return bad == NULL ? HCQ_OK : hcqi_refuse(dev, HCQ_ERROR_INVALID, "%s", bad);
}

static hcq_result hcqi_alloc_check(hcq_device *dev, uint64_t size, uint32_t flags,
                                   const hcq_buffer *buffer) {
    uint32_t known = HCQ_HOST_VISIBLE | HCQ_NO_CACHE | HCQ_ZEROED | HCQ_HOST_WRITES;
    const char *bad = buffer == NULL ? "buffer: is NULL"
                    : size == 0 || size > SIZE_MAX / 2 ? "size: is 0 or too large"
                    : flags & ~known ? "flags: unknown bits" : NULL;
    return hcqi_device_check(dev, bad);
}

HCQI_DEF hcq_result hcq_alloc(hcq_device *device, uint64_t size, uint32_t flags,
                              hcq_buffer *buffer) {
    hcqi_allocation *a = NULL;
    if (buffer != NULL) { memset(buffer, 0, sizeof *buffer); }
    HCQI_PASS(hcqi_device_enter(device));
    hcq_result r = hcqi_alloc_check(device, size, flags, buffer);
    if (r == HCQ_OK) { r = hcqi_alloc(device, size, flags, 1, 0, &a); }
    if (r == HCQ_OK) { *buffer = hcqi_buffer_of(a, a->memory.address); }
    return hcqi_leave_with(r);
}

/* Room in the table for memory of the host's, if no living buffer has it. */
static hcq_result hcqi_import_room(hcq_device *dev, uint64_t first, uint64_t size) {
    HCQI_PASS(hcqi_table_room(dev, "import"));
    uint32_t at = hcqi_table_at(dev, first + size - 1);
    const hcq_memory *below = at == 0 ? NULL : &dev->table[at - 1]->memory;
    uint64_t host = below == NULL ? 0 : (uint64_t)(uintptr_t)below->host;
    int meets = host != 0 && host + below->size > first && host < first + size;
    return hcqi_device_check(dev, meets ? "ptr: overlaps a living buffer" : NULL);
}

HCQI_DEF hcq_result hcq_import(hcq_device *device, void *ptr, uint64_t size, uint32_t flags,
                               hcq_buffer *buffer) {
    const char *bad = buffer == NULL ? "buffer: is NULL" : ptr == NULL ? "ptr: is NULL"
                    : size == 0 ? "size: is 0" : size > SIZE_MAX / 2 ? "size: is too large"
                    : flags != 0 ? "flags: unknown bits" : NULL;
    uint64_t first = (uint64_t)(uintptr_t)ptr;
    if (buffer != NULL) { memset(buffer, 0, sizeof *buffer); }
    HCQI_PASS(hcqi_device_enter(device));
    hcq_result r = hcqi_device_check(device, bad);
    if (r == HCQ_OK && device->backend->import == NULL) {
        r = hcqi_refuse(device, HCQ_ERROR_UNSUPPORTED, "import: not on this backend");
    }
    hcqi_allocation *a = NULL;
    if (r == HCQ_OK) { r = hcqi_import_room(device, first, size); }
    if (r == HCQ_OK) { r = hcqi_allocation_make(device, ptr, size, HCQI_IMPORTED, 1, &a); }
    if (r != HCQ_OK) { return hcqi_leave_with(r); }
    r = hcqi_import_room(device, first, size); /* others may have imported it, too */
    if (r == HCQ_OK) { hcqi_allocation_live(a); } else { hcqi_list_release(device, a, 1); }
    if (r == HCQ_OK) { *buffer = hcqi_buffer_of(a, a->memory.address); }
    return hcqi_leave_with(r);
}

/* The whole, living allocation that a free means, or NULL with *why set. */
static hcqi_allocation *hcqi_free_find(const hcq_buffer *buffer, hcq_result *why) {
    hcqi_allocation *a = hcqi_buffer_find(buffer, why);
    const char *bad = NULL;
    if (a == NULL) {
        bad = hcqi_buffer_bad(buffer, *why);
    } else if (buffer->address != a->memory.address || buffer->size != a->memory.size) {
        *why = HCQ_ERROR_INVALID;
        bad = "is a view";
    } else if (a->state == HCQI_DOOMED) {
        *why = HCQ_ERROR_CLOSED;
        bad = "is being freed";
    }
    if (bad == NULL) { return a; }
    hcqi_refuse(hcqi_device_open(buffer->device) ? buffer->device : NULL, *why, "buffer: %s", bad);
    return NULL;
}

HCQI_DEF hcq_result hcq_free(hcq_buffer buffer) {
    hcq_result why;
    hcqi_enter();
    hcqi_allocation *a = hcqi_free_find(&buffer, &why);
    if (a == NULL) { return hcqi_leave_with(why); }
    hcqi_allocation_retire(a);
    hcqi_freed_trim(buffer.device, buffer.device->desc.cache_bytes, 1);
    return hcqi_leave_with(HCQ_OK);
}

/* ---- ordered ---- */
/* Submissions without commands, held back, numbered and explained like any other. */

static hcq_result hcqi_submit_action(hcq_device *dev, const hcq_point *waits, uint32_t wait_count,
                                     hcqi_allocation *frees, hcq_point *point) {
    hcq_submission sub = { waits, wait_count, NULL, 0, NULL, 0, 0, HCQ_UNORDERED, NULL, 0 };
    hcqi_submit s;
    hcqi_submit_init(&s, dev, &sub);
    s.frees = frees;
    s.allocs = frees == NULL;
    hcq_result r = hcqi_submit_run(&s);
    if (s.number != 0) { *point = hcq_at(hcqi_signal_handle(dev->exact), s.number); }
    return r;
}

HCQI_DEF hcq_result hcq_free_after(hcq_buffer buffer, const hcq_point *waits, uint32_t wait_count,
                                   hcq_point *point) {
    hcq_point done = { { 0 }, 0 };     /* `point` may be one of the waits */
    hcq_result r;
    hcqi_enter();
    hcqi_allocation *a = hcqi_free_find(&buffer, &r);
    if (a != NULL) {
        a->names++;                    /* the record stays until the submission is over ... */
        a->state = HCQI_DOOMED;
        r = hcqi_submit_action(a->dev, waits, wait_count, a, &done);
        if (done.value == 0) {         /* ... if there is one */
            a->names--;
            a->state = HCQI_LIVE;
        }
    }
    if (point != NULL) { *point = done; }
    return hcqi_leave_with(r);
}

/* The block may be one that handed-over work still uses, unless the host clears it: it is
   the caller's after `waits` and that. */
static hcq_result hcqi_alloc_after(hcq_device *dev, const hcq_point *waits, uint32_t wait_count,
                                   uint64_t size, uint32_t flags, hcq_buffer *buffer,
                                   hcq_point *point) {
    const char *bad = waits == NULL && wait_count != 0 ? "waits: is NULL" : NULL;
    hcq_point *all = NULL;
    uint32_t capacity = 0, count = wait_count;
    hcqi_allocation *a = NULL;
    HCQI_PASS(hcqi_alloc_check(dev, size, flags, buffer));
    HCQI_PASS(hcqi_device_check(dev, bad));
    HCQI_PASS(hcqi_alloc(dev, size, flags, 1, (flags & HCQ_ZEROED) == 0, &a));
    hcq_result r = HCQ_ERROR_OUT_OF_MEMORY;
    if (HCQI_GROW(&dev->hooks, all, capacity, (uint64_t)wait_count + a->user_count + 1)) {
        if (wait_count != 0) { memcpy(all, waits, wait_count * sizeof *all); }
        if (a->number > dev->done_prefix) {
            all[count++] = hcq_at(hcqi_signal_handle(dev->timeline), a->number);
        }
        for (uint32_t i = 0; i < a->user_count; i++) {
            const hcqi_last *s = &a->users[i];
            if (!hcqi_last_unmet(s)) { continue; }
            all[count++] = hcq_at(hcqi_signal_handle(s->dev->timeline), s->number);
        }
        r = hcqi_submit_action(dev, all, count, NULL, point);
        hcqi_delete(&dev->hooks, all, capacity * sizeof *all);
    } else {
        hcqi_oom(dev, "alloc_after");
    }
    if (r == HCQ_OK) { *buffer = hcqi_buffer_of(a, a->memory.address); }
    if (r == HCQ_OK) { HCQI_ORDER(hcqi_order_alloc(a, point->value)); }
    if (r != HCQ_OK) { hcqi_allocation_retire(a); }
    return r;
}

HCQI_DEF hcq_result hcq_alloc_after(hcq_device *device, const hcq_point *waits,
                                    uint32_t wait_count, uint64_t size, uint32_t flags,
                                    hcq_buffer *buffer, hcq_point *point) {
    hcq_point done = { { 0 }, 0 };     /* `point` may be one of the waits */
    if (buffer != NULL) { memset(buffer, 0, sizeof *buffer); }
    hcq_result r = hcqi_device_ask(device, point, "point");
    if (r == HCQ_OK) {
        r = hcqi_alloc_after(device, waits, wait_count, size, flags, buffer, &done);
        hcqi_leave();
    }
    if (point != NULL) { *point = done; }
    return r;
}

HCQI_DEF hcq_result hcq_trim(hcq_device *device, uint64_t keep_bytes) {
    HCQI_PASS(hcqi_device_enter(device));
    hcqi_freed_trim(device, keep_bytes, 1);
    return hcqi_leave_with(HCQ_OK);
}

/* ========================================================================== */
/* ---- eager copies ---------------------------------------------- >>eager - */

typedef int32_t (*hcqi_copy_fn)(hcq_queue *q, hcq_buffer dst, hcq_buffer src, uint64_t size);

/* How one eager call waits, and copies. */
typedef struct hcqi_eager {
    const char *what;
    uint64_t deadline;
    int unordered;                     /* not behind everything submitted earlier */
    int silent;                        /* the caller chose the time-out: waits for what is held */
    hcqi_copy_fn copy;
} hcqi_eager;

/* Waits for a point; a time-out of the library's own explains itself. */
static hcq_result hcqi_sync(hcq_device *dev, hcq_point point, hcqi_eager *e) {
    hcq_result r = hcq_wait(&point, 1, HCQ_ALL, hcqi_left(e->deadline));
    if (r != HCQ_TIMEOUT || e->silent) { return r; }
    char text[64];
    snprintf(text, sizeof text, "%s timed out; the device says:", e->what);
    hcqi_tell(dev, r, text, NULL, 0);
    hcqi_tell(dev, r, "what it waits for:", &point, 1);
    return r;
}

/* The same for what another call did: its end is what counts. */
static hcq_result hcqi_sync_end(hcq_device *dev, hcq_point point, hcqi_eager *e) {
    hcq_result r = hcqi_sync(dev, point, e);
    return r == HCQ_TIMEOUT || r == HCQ_ERROR_WOULD_BLOCK ? r : HCQ_OK;
}

/* Waits for everything submitted on `dev`, and what that has to follow. */
static hcq_result hcqi_sync_all(hcq_device *dev, hcqi_eager *e) {
    if (e->unordered) { return HCQ_OK; }
    hcqi_enter();
    uint64_t last = dev->next_number - 1;
    int foreign = dev->eager_signal != NULL && dev->eager_signal->dev != dev;
    int done = last == dev->done_prefix;
    if (done) { HCQI_ORDER(hcqi_order_read(dev->timeline, last)); }
    hcq_point all = hcq_at(hcqi_signal_handle(dev->timeline), last);
    hcq_point eager = hcq_at(hcqi_signal_handle(dev->eager_signal), dev->eager_value);
    hcq_result r = hcqi_leave_with(dev->lost);
    if (r == HCQ_OK && !done) { r = hcqi_sync(dev, all, e); }
    return r == HCQ_OK && foreign ? hcqi_sync_end(dev, eager, e) : r;
}

/* Is work held back up to submission `number`, until somebody else helps? */
static int hcqi_is_stuck(hcq_device *dev, uint64_t number) {
    hcq_job *first = hcqi_job_at(dev, dev->handed_prefix + 1);
    hcqi_core.looks = HCQI_LOOKS / 16;
    return number > dev->handed_prefix && first != NULL && !hcqi_job_advances(first);
}

static hcq_result hcqi_pin(hcq_device *dev) {
    hcq_result r = hcqi_device_enter(dev);
    if (r == HCQ_OK) { hcqi_apart_begin(dev); }
    return r;
}

/* The device keeps a queue of each kind for the next call: puts `q` in its place. */
static hcq_queue *hcqi_eager_queue_swap(hcq_device *dev, hcq_queue_kind kind, hcq_queue *q) {
    hcqi_enter();
    hcq_queue *before = dev->eager_queues[kind];
    dev->eager_queues[kind] = q;
    hcqi_leave();
    return before;
}

static hcq_result hcqi_eager_queue_take(hcq_device *dev, hcq_queue_kind kind, int kept,
                                        hcq_queue **q) {
    *q = kept ? hcqi_eager_queue_swap(dev, kind, NULL) : NULL;
    if (*q != NULL) { return HCQ_OK; }
    hcq_result r = hcq_queue_create(dev, kind, q);
    return r == HCQ_OK ? hcq_queue_label(*q, kind == HCQ_COPY ? "transfer" : "call") : r;
}

static void hcqi_eager_queue_give(hcq_queue *q, int kept) {
    hcq_queue_destroy(kept ? hcqi_eager_queue_swap(q->dev, q->kind, q) : q);
}

/* Submits `q` behind everything of `dev` and `other` (NULL: `dev` alone), before
   everything that comes. */
static hcq_result hcqi_eager_submit(hcq_device *dev, hcq_device *other, hcq_queue *q,
                                    const hcqi_eager *e, hcq_point *done) {
    hcqi_submit s;
    uint32_t flags = e->unordered ? (uint32_t)HCQ_UNORDERED : 0;
    hcq_submission sub = { NULL, 0, &q, 1, NULL, 0, 0, flags, NULL, 0 };
    HCQI_PASS(hcqi_device_enter(dev));
    hcqi_submit_init(&s, dev, &sub);
    s.deadline = e->deadline == 0 ? 1 : e->deadline; /* long over: polls */
    if (!e->unordered) {
        s.eager[0] = dev;
        s.eager[1] = other != dev ? other : NULL;
    }
    hcq_result r = hcqi_submit_run(&s);
    if (s.number != 0) { *done = hcq_at(hcqi_signal_handle(dev->exact), s.number); }
    if (r == HCQ_TIMEOUT && !e->silent) { hcqi_timeout_tell(dev, e->what, q->label); }
    return hcqi_leave_with(r);
}

/* One copy command on `dev`, behind everything of both devices. The queue that is kept for
   that names only memory of `dev`; unordered calls have their own, as the versions of that
   may be those of work they are not behind. */
static hcq_result hcqi_copy_submit(hcq_device *dev, hcq_buffer dst, hcq_buffer src, uint64_t size,
                                   const hcqi_eager *e, hcq_point *done) {
    hcq_queue *q;
    int kept = dst.device == src.device && !e->unordered;
    HCQI_PASS(hcqi_eager_queue_take(dev, HCQ_COPY, kept, &q));
    int32_t index = q->count != 0 ? (int32_t)hcq_queue_update_copy(q, 0, &dst, &src, size)
                                  : e->copy(q, dst, src, size);
    hcq_device *other = dev == dst.device ? src.device : dst.device;
    hcq_result r = index < 0 ? (hcq_result)index : hcqi_eager_submit(dev, other, q, e, done);
    hcqi_eager_queue_give(q, kept && r == HCQ_OK);
    return r;
}

/* ---- transfers ---- */
/* From an end to an end, which are host memory or a buffer, by the first way that there is:
   memcpy, where the host reaches a buffer and the other end is its own; copy commands, between
   buffers and from or to host memory that a device knows; else pieces through memory that a
   device and the host reach. A call that waits for its end has two places for them, which the
   device keeps for the next one that is in order; a copyin, which does not, leaves its pieces
   in the device's ring of stages. */

/* Host memory that eager copies go through; small ones share it. */
typedef struct hcqi_stage {
    hcq_buffer buffer;
    uint64_t used;                     /* bytes given out since it was idle */
    uint64_t number;                   /* the last submission that has to do with it */
    uint32_t users;                    /* calls that write or read it, or will submit */
} hcqi_stage;

#define HCQI_STAGE_ALIGN 16

typedef struct hcqi_transfer {
    hcqi_eager e;
    hcq_transfer_end end[2];           /* dst, src; as a buffer, too, if devices reach it */
    uint64_t size;
    uint64_t behind;                   /* to a profile: 1 + the last submission; 0 = none */
    hcq_buffer pair[2];                /* places for pieces, by turns ... */
    hcq_point done[2];                 /* ... and the last copy from or to there; 0 = none */
} hcqi_transfer;

static void hcqi_pair_swap(hcq_device *dev, hcq_buffer *pair) {
    hcq_buffer mine[2];
    memcpy(mine, pair, sizeof mine);
    hcqi_enter();
    memcpy(pair, dev->pair, sizeof mine);
    memcpy(dev->pair, mine, sizeof mine);
    hcqi_leave();
}

/* Piece `i`, of which end `k` is a buffer, between that and its place, or, as soon as no copy
   has to do with the place, between that and the host's end. */
static hcq_result hcqi_piece_move(hcqi_transfer *t, int k, uint64_t i, int by_device) {
    const hcq_buffer *buffer = &t->end[k].buffer;
    hcq_device *dev = buffer->device;
    uint64_t at = i * dev->desc.staging_bytes, size = t->size - at;
    hcq_point *done = &t->done[i & 1];
    if (size > dev->desc.staging_bytes) { size = dev->desc.staging_bytes; }
    if (t->pair[i & 1].device == NULL) {
        HCQI_PASS(hcq_alloc(dev, dev->desc.staging_bytes, HCQ_HOST_VISIBLE, &t->pair[i & 1]));
    }
    hcq_buffer there = hcq_view(*buffer, at, size), here = hcq_view(t->pair[i & 1], 0, size);
    if (by_device) {
        return hcqi_copy_submit(dev, k == 0 ? there : here, k == 0 ? here : there, size, &t->e,
                                done);
    }
    uint8_t *host = HCQI_CAST(uint8_t *, t->end[!k].host) + at;
    hcq_result r = done->value != 0 ? hcqi_sync(dev, *done, &t->e) : HCQ_OK;
    void *mine = here.host;
    if (r == HCQ_OK) { hcqi_copy_bytes(k == 0 ? mine : host, k == 0 ? host : mine, size); }
    return r;
}

/* While the host copies a piece the device copies the next one from src, or the last to dst.
   After a failure copies may still run from or to the places: they are not for the next call. */
static hcq_result hcqi_transfer_by_pieces(hcqi_transfer *t, int k) {
    hcq_device *dev = t->end[k].buffer.device;
    uint64_t count = (t->size - 1) / dev->desc.staging_bytes + 1;
    hcq_result r = HCQ_OK;
    memset(t->pair, 0, sizeof t->pair);
    memset(t->done, 0, sizeof t->done);
    if (!t->e.unordered) { hcqi_pair_swap(dev, t->pair); }
    for (uint64_t i = 0; r == HCQ_OK && i <= count; i++) {
        uint64_t copied = k == 0 ? i - 1 : i, moved = k == 0 ? i : i - 1;
        if (copied < count) { r = hcqi_piece_move(t, k, copied, 1); }
        if (r == HCQ_OK && moved < count) { r = hcqi_piece_move(t, k, moved, 0); }
    }
    for (int i = 0; i < 2; i++) {
        if (r == HCQ_OK && t->done[i].value != 0) { r = hcqi_sync(dev, t->done[i], &t->e); }
    }
    if (r == HCQ_OK && !t->e.unordered) { hcqi_pair_swap(dev, t->pair); }
    for (int i = 0; i < 2; i++) {
        if (t->pair[i].device != NULL) { hcq_free(t->pair[i]); }
    }
    return r;
}

/* A stage is idle when nobody uses it and its last submission is done. */
static int hcqi_stage_idle(const hcq_device *dev, const hcqi_stage *s) {
    return s->users == 0 && hcqi_job_at(dev, s->number) == NULL;
}

/* Until the stage is idle, or one of those who write to it is done. With the lock, which
   it lets go of. */
static hcq_result hcqi_stage_wait(hcq_device *dev, const hcqi_stage *s, hcqi_eager *e) {
    uint64_t left = hcqi_left(e->deadline);
    hcq_point point = hcq_at(hcqi_signal_handle(dev->exact), s->number);
    HCQI_LEAVE_UNLESS(dev, s->users != 0 || !hcqi_is_stuck(dev, s->number), HCQ_ERROR_LIMIT,
                      "%s: the staging memory belongs to held work", e->what);
    if (s->users == 0) {
        hcqi_leave();
        return hcqi_sync_end(dev, point, e);
    }
    hcq_result r = left == 0 ? HCQ_TIMEOUT : hcqi_event_wait(left);
    if (left == 0) { hcqi_timeout_tell(dev, e->what, "staging"); }
    return hcqi_leave_with(left == 0 || r < 0 ? r : HCQ_OK);
}

/* Up to `size` bytes of the stage that is being filled or, where that is full, of the next,
   which is the oldest. It counts this user until the copy from there is submitted. */
static hcq_result hcqi_stage_get(hcq_device *dev, hcqi_eager *e, uint64_t size,
                                 hcqi_stage **stage, hcq_buffer *part) {
    uint64_t bytes = dev->desc.staging_bytes;
    hcq_result r = HCQ_OK;
    while (r == HCQ_OK) {
        hcqi_enter();
        uint32_t at = dev->stage_at;
        if (dev->stages[at].used == bytes) { at = (at + 1) % dev->desc.staging_count; }
        hcqi_stage *s = &dev->stages[at];
        if (s->used == bytes) { hcqi_reap_device(dev); }
        if (hcqi_stage_idle(dev, s)) {
            s->used = 0;
            dev->stage_at = at;
        }
        if (s->used == bytes) {
            r = hcqi_stage_wait(dev, s, e);
        } else if (s->buffer.device == NULL) {
            hcqi_allocation *a = NULL; /* lets go of the lock: another thread may be faster */
            r = hcqi_alloc(dev, bytes, HCQ_HOST_VISIBLE, 1, 0, &a);
            int first = s->buffer.device == NULL;
            if (r == HCQ_OK && first) { s->buffer = hcqi_buffer_of(a, a->memory.address); }
            if (r == HCQ_OK && !first) { hcqi_allocation_retire(a); }
            hcqi_leave();
        } else {
            uint64_t n = size < bytes - s->used ? size : bytes - s->used;
            *stage = s;
            *part = hcq_view(s->buffer, s->used, n);
            s->used += n + (HCQI_STAGE_ALIGN - n % HCQI_STAGE_ALIGN) % HCQI_STAGE_ALIGN;
            if (s->used > bytes) { s->used = bytes; }
            s->users++;
            return hcqi_leave_with(HCQ_OK);
        }
    }
    return r;
}

/* From host memory that may be reused when it returns. */
static hcq_result hcqi_transfer_by_ring(hcqi_transfer *t) {
    const hcq_buffer *dst = &t->end[0].buffer;
    const uint8_t *src = HCQI_CAST(const uint8_t *, t->end[1].host);
    hcq_device *dev = dst->device;
    hcq_result r = HCQ_OK;
    hcq_buffer part;
    for (uint64_t at = 0; r == HCQ_OK && at < t->size; at += part.size) {
        hcq_point done = { { 0 }, 0 };
        hcqi_stage *s = NULL;          /* which gcc asks for: nobody looks */
        r = hcqi_stage_get(dev, &t->e, t->size - at, &s, &part);
        if (r != HCQ_OK) { break; }
        hcqi_copy_bytes(part.host, src + at, part.size);
        r = hcqi_copy_submit(dev, hcq_view(*dst, at, part.size), part, part.size, &t->e, &done);
        hcqi_enter();
        s->users--;
        if (done.value > s->number) { s->number = done.value; }
        if (s->users == 0) { hcqi_core.changed = 1; }
        hcqi_leave();
    }
    return r;
}

/* HCQ_NOT_READY: something that a copyin would follow is held back. If for good, as far as
   it is known, the copyin fits into the ring as a whole, or not at all. */
static hcq_result hcqi_copyin_check(hcq_device *dev, uint64_t size) {
    uint64_t bytes = dev->desc.staging_bytes, room = 0;
    int held = 1, stuck = 0;
    hcqi_enter();
    for (int looked = 0; held && looked < 2; looked++) {
        hcq_device *other = dev->eager_signal == NULL ? dev : dev->eager_signal->dev;
        uint64_t last = dev->next_number - 1, eager = dev->eager_value;
        if (looked) {
            hcqi_reap_all();
            hcqi_drain();
            stuck = hcqi_is_stuck(dev, last) || hcqi_is_stuck(other, eager);
        }
        held = last > dev->handed_prefix || eager > other->handed_prefix;
    }
    for (uint32_t i = 0; held && i < dev->desc.staging_count; i++) { /* as they will be filled */
        const hcqi_stage *s = &dev->stages[(dev->stage_at + i) % dev->desc.staging_count];
        int idle = hcqi_stage_idle(dev, s);
        if (i != 0 && !idle) { break; }
        room += idle ? bytes : bytes - s->used;
    }
    HCQI_LEAVE_UNLESS(dev, !held || !stuck || size <= room, HCQ_ERROR_LIMIT,
                      "copyin of %llu bytes behind held work: staging has %llu left",
                      (unsigned long long)size, (unsigned long long)room);
    return hcqi_leave_with(held ? HCQ_NOT_READY : HCQ_OK);
}

/* Can a copy command of `dev` name all of the end? Host memory if the device has it
   at the same address; where little is copied it is not worth a look. */
static int hcqi_device_reaches(hcq_device *dev, hcq_transfer_end *end, uint64_t size) {
    uint64_t address = HCQI_CAST(uint64_t, (uintptr_t)end->host);
    hcqi_allocation *a;
    hcq_result why;
    int reaches = 0;
    hcqi_enter();
    if (end->host == NULL) {
        a = hcqi_buffer_find(&end->buffer, &why);
        reaches = a != NULL && hcqi_allocation_map(dev, a, end->buffer.address, &why) != 0;
    } else if (size >= HCQI_DIRECT_BYTES) {
        a = hcqi_allocation_find(dev, address);
        reaches = a != NULL && a->memory.address == (uint64_t)(uintptr_t)a->memory.host &&
                  size <= a->memory.size - (address - a->memory.address);
        if (reaches) { end->buffer = hcqi_buffer_of(a, address); }
    }
    hcqi_leave();
    return reaches;
}

/* With the devices of both ends pinned. A copyin returns as soon as src may be reused:
   beside work that is held back through the ring, whatever memory dst is. Copies between
   devices that do not see each other take memory of their size: not of all at once. */
static hcq_result hcqi_transfer_route(hcqi_transfer *t) {
    hcq_transfer_end *dst = &t->end[0], *src = &t->end[1];
    int k = dst->host != NULL, with_host = k || src->host != NULL;
    int copyin = src->host != NULL && !t->e.silent;
    hcq_device *dev = t->end[k].buffer.device;
    void *seen = with_host ? t->end[k].buffer.host : NULL, *mine = t->end[!k].host;
    uint64_t piece = t->size;
    hcq_result r = copyin ? hcqi_copyin_check(dev, t->size) : HCQ_OK;
    if (r != HCQ_OK) { return r == HCQ_NOT_READY ? hcqi_transfer_by_ring(t) : r; }
    if (seen != NULL) {
        r = hcqi_sync_all(dev, &t->e);
        if (r == HCQ_OK) {
            HCQI_ORDER_APART(hcqi_order_copied(&t->end[k].buffer, t->size, k == 0, t->e.what));
        }
        uint64_t begin = r == HCQ_OK && t->behind != 0 ? hcq_now_ns() : 0;
        if (r == HCQ_OK) { hcqi_copy_bytes(k == 0 ? seen : mine, k == 0 ? mine : seen, t->size); }
        if (begin != 0) {
            hcqi_profile_host(dev, dev->serial, HCQ_COMMAND_COPY, t->e.what, begin, t->behind - 1,
                              t->size);
        }
        return r;
    }
    if (!hcqi_device_reaches(dev, &t->end[!k], t->size)) {
        if (with_host) { return copyin ? hcqi_transfer_by_ring(t) : hcqi_transfer_by_pieces(t, k); }
        dev = src->buffer.device;
        int reaches = hcqi_device_reaches(dev, dst, t->size);
        if (!reaches) { piece = (uint64_t)dev->desc.staging_bytes * dev->desc.staging_count; }
    }
    for (uint64_t at = 0; r == HCQ_OK && at < t->size; at += piece) {
        uint64_t size = t->size - at < piece ? t->size - at : piece;
        hcq_point done;
        r = hcqi_copy_submit(dev, hcq_view(dst->buffer, at, size), hcq_view(src->buffer, at, size),
                             size, &t->e, &done);
        if (r == HCQ_OK) { r = hcqi_sync(dev, done, &t->e); }
    }
    return r;
}

/* Afterwards the devices of buffers are open, and pinned, and this thread may block.
   Buffers come first, so that the line is in their device's log. */
static hcq_result hcqi_transfer_check(hcqi_transfer *t, uint32_t flags) {
    const hcq_buffer *dst = &t->end[0].buffer, *src = &t->end[1].buffer;
    hcqi_enter();
    hcq_device *to = hcqi_device_open(dst->device) ? dst->device : NULL;
    hcq_device *from = hcqi_device_open(src->device) ? src->device : NULL;
    for (int i = 0; i < 2; i++) {
        int k = i ^ (t->end[0].host != NULL);
        hcq_transfer_end *end = &t->end[k];
        const char *name = k == 0 ? "dst" : "src";
        hcq_device *log = (k == 0 && to != NULL) || from == NULL ? to : from;
        hcq_result why = HCQ_OK;
        const hcqi_allocation *a = end->host != NULL ? NULL : hcqi_buffer_find(&end->buffer, &why);
        uint64_t size = end->host != NULL ? end->size : end->buffer.size;
        int unread = k == 1 && a != NULL && (a->flags & HCQ_HOST_WRITES) != 0;
        if (unread) { end->buffer.host = NULL; } /* what the host only writes */
        HCQI_LEAVE_UNLESS(log, end->host != NULL || a != NULL, why, "%s: %s", name,
                          end->buffer.size != end->size ? "is NULL"
                                                        : hcqi_buffer_bad(&end->buffer, why));
        HCQI_LEAVE_UNLESS(log, k == 1 || a == NULL || !a->memory.read_only, HCQ_ERROR_INVALID,
                          "dst: %s", HCQI_READ_ONLY);
        HCQI_LEAVE_UNLESS(log, t->size != 0 && t->size <= size, HCQ_ERROR_INVALID,
                          "size: %llu, %s has %llu bytes", (unsigned long long)t->size, name,
                          (unsigned long long)size);
    }
    hcq_device *dev = to != NULL ? to : from;
    int meet = to != NULL && to == from &&
               hcqi_ranges_overlap(dst->address, src->address, t->size);
    HCQI_LEAVE_UNLESS(dev, (flags & ~(uint32_t)HCQ_UNORDERED) == 0, HCQ_ERROR_INVALID,
                      "flags: unknown bits");
    HCQI_LEAVE_UNLESS(dev, !meet, HCQ_ERROR_INVALID, "dst: overlaps src");
    HCQI_LEAVE_UNLESS(dev, dev == NULL || !hcqi_in_callback(), HCQ_ERROR_WOULD_BLOCK,
                      "transfer: in a callback");
    if (to != NULL) { to->pins++; }
    if (from != NULL) { from->pins++; }
    t->behind = dev != NULL && hcqi_profile_on(dev) ? dev->next_number : 0;
    return hcqi_leave_with(HCQ_OK);
}

/* `timeout_ns` NULL: the device's. */
static hcq_result hcqi_transfer_run(const char *what, hcq_transfer_end dst, hcq_transfer_end src,
                                    uint64_t size, uint32_t flags, const uint64_t *timeout_ns,
                                    hcqi_copy_fn copy) {
    hcqi_transfer t;
    t.end[0] = dst;
    t.end[1] = src;
    for (int k = 0; k < 2; k++) { /* what lies in both fields is the host's */
        if (t.end[k].host != NULL) { memset(&t.end[k].buffer, 0, sizeof dst.buffer); }
    }
    hcq_device *to = t.end[0].buffer.device, *from = t.end[1].buffer.device;
    t.size = size;
    HCQI_PASS(hcqi_transfer_check(&t, flags));
    if (to == NULL && from == NULL) {
        memmove(dst.host, src.host, (size_t)size);
        return HCQ_OK;
    }
    uint64_t own = (to != NULL ? to : from)->desc.timeout_ns;
    uint64_t deadline = hcqi_deadline(timeout_ns != NULL ? *timeout_ns : own);
    hcqi_eager e = { what, deadline, flags != 0, timeout_ns != NULL, copy };
    t.e = e;
    hcq_result r = hcqi_transfer_route(&t);
    if (to != NULL) { hcqi_unpin(to); }
    if (from != NULL) { hcqi_unpin(from); }
    return r;
}

HCQI_DEF hcq_result hcq_copyin(hcq_buffer dst, const void *src, uint64_t size) {
    return hcqi_transfer_run("copyin", hcq_transfer_device(dst), hcq_transfer_host(src, size), size,
                             0, NULL, hcqi_record_copy);
}

HCQI_DEF hcq_result hcq_copyout(void *dst, hcq_buffer src, uint64_t size) {
    return hcqi_transfer_run("copyout", hcq_transfer_host(dst, size), hcq_transfer_device(src),
                             size, 0, NULL, hcqi_record_copy);
}

HCQI_DEF hcq_result hcq_transfer(hcq_transfer_end dst, hcq_transfer_end src, uint64_t size,
                                 uint32_t flags, uint64_t timeout_ns) {
    return hcqi_transfer_run("transfer", dst, src, size, flags, &timeout_ns, hcq_queue_copy);
}

/* ---- many at once ---- */

static uint64_t hcqi_transfer_room(uint64_t size) { return (size + 63) & ~(uint64_t)63; }

/* What recording does not see; *sum: the bytes that writes need. */
static hcq_result hcqi_transfers_check(hcq_device *dev, const hcq_command *commands,
                                       uint32_t count, uint64_t *sum) {
    if (commands == NULL) { return hcqi_refuse_alone(dev, HCQ_ERROR_INVALID, "commands: is NULL"); }
    for (uint32_t i = 0; i < count; i++) {
        const hcq_command *c = &commands[i];
        int writes = c->kind == HCQ_COMMAND_WRITE;
        int sized = c->size != 0 && c->size <= SIZE_MAX / 4;
        *sum += sized && writes ? hcqi_transfer_room(c->size) : 0;
        const char *bad = c->kind < HCQ_COMMAND_COPY || c->kind > HCQ_COMMAND_WRITE
                        ? "kind: is no copy, fill or write"
                        : !sized || *sum > SIZE_MAX / 2 ? "size: is 0 or too large"
                        : !writes ? NULL
                        : c->dst.size == 0 ? "dst: is zero"
                        : c->size > c->dst.size ? "size: is above that of dst"
                        : c->data == NULL ? "data: is NULL" : NULL;
        if (bad == NULL) { continue; }
        return hcqi_refuse_alone(dev, HCQ_ERROR_INVALID, "commands: number %u: %s", i, bad);
    }
    return HCQ_OK;
}

static hcq_result hcqi_transfer_record(hcq_queue *q, const hcq_command *commands,
                                       uint32_t count, hcq_buffer written) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const hcq_command *c = &commands[i];
        int32_t r;
        if (c->kind == HCQ_COMMAND_COPY) {
            r = hcq_queue_copy(q, c->dst, c->src, c->size);
        } else if (c->kind == HCQ_COMMAND_FILL) {
            r = hcq_queue_fill(q, c->dst, c->size, c->value, c->value_size);
        } else {
            hcq_buffer part = hcq_view(written, used, c->size);
            hcqi_copy_bytes(part.host, c->data, c->size);
            used += hcqi_transfer_room(c->size);
            r = hcq_queue_copy(q, c->dst, part, c->size);
        }
        if (r < 0) { return (hcq_result)r; } /* command i of the queue, says the log */
    }
    return HCQ_OK;
}

/* A queue of its own for each call: no lock, and it and the memory of writes live as
   long as needed. */
HCQI_DEF hcq_result hcq_transfer_submit(hcq_device *device, const hcq_point *waits,
                                        uint32_t wait_count, const hcq_command *commands,
                                        uint32_t count, hcq_point *point) {
    hcq_point done = { { 0 }, 0 };     /* `point` may be one of the waits */
    hcq_buffer written;
    hcq_queue *q = NULL;
    uint64_t sum = 0;
    memset(&written, 0, sizeof written);
    hcq_result pinned = hcqi_pin(device);
    hcq_result r = pinned != HCQ_OK ? pinned : hcqi_transfers_check(device, commands, count, &sum);
    if (r == HCQ_OK && sum != 0) { r = hcq_alloc(device, sum, HCQ_HOST_VISIBLE, &written); }
    if (r == HCQ_OK) { r = hcq_queue_create(device, HCQ_COPY, &q); }
    if (r == HCQ_OK) {
        hcq_queue_label(q, "transfers");
        r = hcqi_transfer_record(q, commands, count, written);
    }
    hcq_submission sub = { waits, wait_count, &q, 1, NULL, 0, HCQ_ANY_LANE, 0, NULL, 0 };
    if (r == HCQ_OK) { r = hcq_submit(device, &sub, 1, &done); }
    hcq_queue_destroy(q);
    if (written.device != NULL) { hcq_free(written); }
    if (pinned == HCQ_OK) { hcqi_unpin(device); }
    if (point != NULL) { *point = done; }
    return r;
}

/* ========================================================================== */
/* ---- copies between devices that do not see each other ------ >>carrying - */
/* Such a copy goes over a bridge, memory that the host sees, in two halves: out of its source's
   device, in to its target's. A graph has a call for each and keeps the bridge. A plain queue
   is cut there as at a host command; its device's service thread submits the halves, and the
   queue goes on behind them. That is also how a queue copies what only another device sees. */

static void hcqi_bridge_drop(hcqi_bridge *b) {
    for (int k = 0; k < 2; k++) { hcqi_allocation_free_late(b->a[k]); }
    memset(b, 0, sizeof *b);
}

/* One end of it, and whether the other device sees that: HCQ_ERROR_FOREIGN. Only those of
   a backend and a CPU try: copies do not go over what drivers import side by side. */
static hcq_result hcqi_bridge_begin(hcqi_bridge *b, int k, hcq_device *dev, hcq_device *other,
                                    uint64_t size) {
    hcqi_allocation *a = NULL;
    HCQI_PASS(hcqi_alloc(dev, size, HCQ_HOST_VISIBLE, 0, 0, &a));
    b->a[k] = a;
    a->names++;
    hcq_result r = hcqi_allocation_user(a, other); /* it uses the bridge in any case */
    int tries = dev->backend == other->backend || (other->info.features & HCQ_FEATURE_HOST_MEMORY);
    if (r != HCQ_OK || !tries) { return r == HCQ_OK ? HCQ_ERROR_FOREIGN : r; }
    (void)hcqi_allocation_map(other, a, a->memory.address, &r);
    return r;
}

static hcq_result hcqi_bridge_make(hcqi_bridge *b, hcq_device *to, hcq_device *from,
                                   uint64_t size) {
    hcq_device *devices[] = { to, from };
    hcq_result r = HCQ_ERROR_FOREIGN;
    int kept = b->serials[0] == to->serial && b->serials[1] == from->serial &&
               hcqi_allocation_lives(b->a[0]) && hcqi_allocation_lives(b->a[1]);
    if (kept && hcqi_bridge_end(b, 0)->memory.size >= size) { return HCQ_OK; }
    hcqi_bridge_drop(b);
    for (int k = 0; k < 2 && r == HCQ_ERROR_FOREIGN; k++) {
        r = hcqi_bridge_begin(b, k, devices[k], devices[!k], size);
    }
    if (r == HCQ_OK && b->a[1] != NULL) { /* which both see */
        hcqi_allocation_free_late(b->a[0]);
        b->a[0] = NULL;
    }
    if (r == HCQ_ERROR_FOREIGN) { b->a[0]->twin = b->a[1]; }
    b->serials[0] = to->serial;
    b->serials[1] = from->serial;
    if (r == HCQ_OK || r == HCQ_ERROR_FOREIGN) { return HCQ_OK; }
    hcqi_bridge_drop(b);
    return r;
}

/* `dev` copies behind `point`, if that is one, which gets its own; from the twin's copy on
   if src is a bridge that has one. Operands may be freed: the carrying job keeps them. */
static hcq_result hcqi_carry_submit(hcq_device *dev, const char *label, const hcqi_operand *dst,
                                    const hcqi_operand *src, uint64_t size, hcq_point *point) {
    hcq_queue *q;
    HCQI_PASS(hcq_queue_create(dev, HCQ_COPY, &q));
    q->carries = 1;
    hcqi_copy_label(q->label, label);
    int32_t r = src->a->twin == NULL ? 0 : hcq_queue_host(q, hcqi_bridge_cross, src->a);
    if (r >= 0) { r = (int32_t)hcqi_record_begin(q, HCQ_COMMAND_COPY, 2, 0); }
    if (r >= 0) {
        hcq_packet *p = &q->packets[q->count];
        p->u.copy.dst = dst->address;
        p->u.copy.src = src->address;
        p->u.copy.size = size;
        q->names[q->name_count] = dst->a;
        q->names[q->name_count + 1] = src->a;
        r = hcqi_record_end(q);
    }
    uint32_t waits = point->signal.id != 0;
    hcq_submission sub = { point, waits, &q, 1, NULL, 0, 0, HCQ_UNORDERED, NULL, 0 };
    if (r >= 0) { r = (int32_t)hcq_submit(dev, &sub, 1, point); }
    hcq_queue_destroy(q);
    return r == HCQ_TIMEOUT ? HCQ_ERROR_WOULD_BLOCK : r < 0 ? (hcq_result)r : HCQ_OK;
}

static hcqi_operand hcqi_carry_operand(void *allocation, uint64_t address) {
    hcqi_allocation *a = HCQI_CAST(hcqi_allocation *, allocation);
    hcqi_operand op = { a, a->dev, address == 0 ? a->memory.address : address, 0 };
    return op;
}

static int hcqi_carry_fits(const hcq_device *dev) {
    uint32_t first = dev->caps.copy_lanes != 0 ? dev->caps.compute_lanes : 0;
    return dev->lanes[first].running < dev->desc.inflight;
}

/* Submits the copy for a job that came there, and has it wait. Lets go of the lock. */
static hcq_result hcqi_carry(hcq_job *job, const hcq_packet *p) {
    hcqi_operand to = hcqi_carry_operand(p->u.carry.to, p->u.carry.dst), out = to;
    hcqi_operand from = hcqi_carry_operand(p->u.carry.from, p->u.carry.src), in = from;
    const char *label = job->version->recording.label;
    hcq_point point = { { 0 }, 0 };
    hcqi_bridge bridge = { { NULL, NULL }, { 0, 0 } };
    hcqi_waiter *w = job->at;
    hcq_device *dev;
    if (!hcqi_carry_fits(to.dev) || !hcqi_carry_fits(from.dev)) { return HCQ_ERROR_WOULD_BLOCK; }
    hcq_result r = hcqi_copy_place(to.dev, &to, &from, &dev);
    int whole = r == HCQ_OK;
    if (r == HCQ_ERROR_FOREIGN) {
        r = hcqi_bridge_make(&bridge, to.dev, from.dev, p->u.carry.size);
    }
    if (!whole && r == HCQ_OK) {
        out = hcqi_carry_operand(hcqi_bridge_end(&bridge, 1), 0);
        in = hcqi_carry_operand(hcqi_bridge_end(&bridge, 0), 0);
        dev = to.dev;
    }
    to.dev->pins++;
    hcqi_apart_begin(from.dev);
    for (int i = whole; i < 2 && r == HCQ_OK; i++) {
        r = hcqi_carry_submit(i == 0 ? from.dev : dev, label, i == 0 ? &out : &to,
                              i == 0 ? &from : &in, p->u.carry.size, &point);
    }
    hcqi_apart_end(from.dev);
    hcqi_unpin(to.dev);
    hcqi_bridge_drop(&bridge);         /* it goes when these are over, ... */
    if (to.a->state == HCQI_FREED) { hcqi_freed_mark(to.a); } /* ... as do freed operands */
    if (from.a->state == HCQI_FREED) { hcqi_freed_mark(from.a); }
    if (r != HCQ_OK) { return r; }
    while (w->segment <= job->segment) { w = w->list; } /* the first behind the copy is its */
    hcqi_waiter_set(w, hcqi_signal_find(point.signal), point.value);
    return HCQ_OK;
}

/* Only who records such copies has in the program what carries them. */
HCQI_DEF int32_t hcq_queue_copy(hcq_queue *queue, hcq_buffer dst, hcq_buffer src, uint64_t size) {
    int32_t index = hcqi_record_copy(queue, dst, src, size);
    if (index >= 0) { queue->carry = hcqi_carry; }
    return index;
}

/* ========================================================================== */
/* ---- programs: public --------------------------------------- >>kernargs - */

static const uint8_t hcqi_arg_sizes[] = { 0, 8, 8, 8, 4, 4, 4, 8, 8, 8 };

/* Lays the arguments out as C lays out the matching struct; 0 = a bad kind. */
static int hcqi_program_layout(const hcq_program_desc *desc, hcq_program_info *info) {
    uint32_t at = 0, most = 1;
    for (uint32_t i = 0; i < HCQ_MAX_ARGS && desc->args[i] != HCQ_ARG_NONE; i++) {
        uint32_t kind = desc->args[i] & 0xff;
        uint32_t size = kind < HCQI_ARG_STRUCT ? hcqi_arg_sizes[kind] : desc->args[i] >> 8 & 0xffff;
        uint32_t align = kind < HCQI_ARG_STRUCT ? size : desc->args[i] >> 24;
        if (kind > HCQI_ARG_STRUCT || size == 0 || align == 0 || align > 16 ||
            (align & (align - 1)) != 0) {
            return 0;
        }
        at = (at + align - 1) & ~(align - 1);
        info->offsets[i] = at;
        info->sizes[i] = size;
        info->arg_count = i + 1;
        at += size;
        if (align > most) { most = align; }
    }
    info->kernargs_align = most;
    info->kernargs_size = (at + most - 1) & ~(most - 1);
    return 1;
}

/* Finds the same bytes, or copies them; NULL = out of memory. No lock: they may be many. */
static const void *hcqi_blob_share(hcq_device *dev, const void *data, size_t size) {
    const uint8_t *from = HCQI_CAST(const uint8_t *, data);
    uint64_t hash = size;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, from + i, size - i < 8 ? size - i : 8);
        hash = hcqi_hash(hash, word);
    }
    hcqi_blob **head = &dev->blobs[hash % HCQI_BLOBS];
    hcqi_enter();
    hcqi_blob *b = *head;
    while (b != NULL && (b->hash != hash || b->size != size)) { b = b->next; }
    if (b != NULL) { b->refs++; }
    hcqi_leave();
    if (b != NULL && memcmp(b + 1, data, size) == 0) { return b + 1; }
    const hcqi_blob begin = { NULL, hash, size, 1 };
    hcqi_blob *made = HCQI_CAST(hcqi_blob *, hcqi_new(&dev->hooks, sizeof *b + size));
    if (made != NULL) {
        *made = begin;
        memcpy(made + 1, data, size);
    }
    hcqi_enter();
    if (b != NULL) { hcqi_blob_drop(dev, b + 1); } /* other bytes with the same hash */
    if (made != NULL) {
        made->next = *head;
        *head = made;
    }
    hcqi_leave();
    return made == NULL ? NULL : made + 1;
}

/* Other devices need the description later, with what it points at. 0 = out of memory. */
static int hcqi_program_keep(hcq_program *p, const hcq_program_desc *desc) {
    const void *parts[HCQI_PARTS] = { desc->spirv.data, desc->ptx.data, desc->spirv.entry,
                                      desc->ptx.entry, desc->library, desc->symbol };
    size_t sizes[HCQI_PARTS] = { desc->spirv.size, desc->ptx.size, 0, 0, 0, 0 };
    for (int i = 0; i < HCQI_PARTS; i++) {
        if (i != 0 && sizes[i] == 0 && parts[i] != NULL) {
            sizes[i] = strlen(HCQI_CAST(const char *, parts[i])) + 1;
        }
        if (parts[i] == NULL || sizes[i] == 0) { continue; }
        p->parts[i] = hcqi_blob_share(p->dev, parts[i], sizes[i]);
        if (p->parts[i] == NULL) { return 0; }
    }
    p->desc = *desc;
    p->desc.label = p->info.label;
    p->desc.spirv.data = p->parts[0];
    p->desc.ptx.data = p->parts[1];
    p->desc.ptx.size = sizes[1];
    p->desc.spirv.entry = HCQI_CAST(const char *, p->parts[2]);
    p->desc.ptx.entry = HCQI_CAST(const char *, p->parts[3]);
    p->desc.library = HCQI_CAST(const char *, p->parts[4]);
    p->desc.symbol = HCQI_CAST(const char *, p->parts[5]);
    return 1;
}

/* With the device pinned. */
static hcq_result hcqi_program_new(hcq_device *dev, const hcq_program_desc *desc,
                                   hcq_program **out) {
    uint32_t lines = hcqi_lines;
    hcq_program *p = HCQI_CAST(hcq_program *, hcqi_new(&dev->hooks, sizeof *p));
    if (p == NULL) { return hcqi_oom(dev, "program"); }
    p->dev = dev;
    p->refs = 1;
    hcqi_copy_label(p->info.label, desc->label);
    hcq_result r = HCQ_ERROR_OUT_OF_MEMORY;
    int laid = hcqi_program_layout(desc, &p->info), kept = laid && hcqi_program_keep(p, desc);
    hcqi_enter();
    dev->refs++;
    if (!laid) {
        r = hcqi_refuse(dev, HCQ_ERROR_INVALID, "args: number %u is of no known kind",
                        p->info.arg_count);
    } else if (kept) {
        r = hcqi_program_code(p, dev);
    }
    if (r != HCQ_OK) {
        if (hcqi_lines == lines) { /* the backend did not say why */
            hcqi_refuse(dev, r, "program '%s': %s", p->info.label, hcq_result_text(r));
        }
        hcqi_program_unref(p);
        return hcqi_leave_with(r);
    }
    p->magic = HCQI_MAGIC_PROGRAM;
    p->next = dev->programs;
    if (p->next != NULL) { p->next->prev = p; }
    dev->programs = p;
    *out = p;
    return hcqi_leave_with(HCQ_OK);
}

static int hcqi_block_lacks(const hcq_program_desc *desc) {
    hcq_dims b = desc->block;
    return (b.x | b.y | b.z) != 0 && (b.x == 0 || b.y == 0 || b.z == 0);
}

HCQI_DEF hcq_result hcq_program_create(hcq_device *device, const hcq_program_desc *desc,
                                       hcq_program **program) {
    if (program != NULL) { *program = NULL; }
    const uint32_t known = HCQ_PROGRAM_LINES | HCQ_PROGRAM_STATISTICS;
    HCQI_PASS(hcqi_device_enter(device));
    hcq_result r = hcqi_device_check(device, desc == NULL             ? "desc: is NULL"
                                             : program == NULL        ? "program: is NULL"
                                             : (desc->flags & ~known) ? "flags: unknown ones"
                                             : hcqi_block_lacks(desc) ? "block: a part is 0"
                                                                      : NULL);
    if (r != HCQ_OK) { return hcqi_leave_with(r); }
    hcqi_apart_begin(device);
    r = hcqi_program_new(device, desc, program);
    hcqi_unpin(device);
    return r;
}

HCQI_DEF hcq_program_desc hcq_program_describe(const char *label, hcq_cpu_fn cpu, ...) {
    hcq_program_desc desc;
    uint32_t count = 0, arg;
    va_list args;
    memset(&desc, 0, sizeof desc);
    desc.label = label;
    desc.cpu = cpu;
    va_start(args, cpu);
    while ((arg = va_arg(args, uint32_t)) != HCQ_ARG_NONE && count < HCQ_MAX_ARGS) {
        desc.args[count++] = arg;
    }
    va_end(args);
    if (arg != HCQ_ARG_NONE) { desc.args[HCQ_MAX_ARGS - 1] = UINT32_MAX; } /* no kind */
    return desc;
}

HCQI_DEF void hcq_program_destroy(hcq_program *program) {
    if (program == NULL || hcqi_is_parents(program->dev)) { return; }
    hcqi_enter();
#if HCQ_VALIDATE
    HCQ_ASSERT(program->magic == HCQI_MAGIC_PROGRAM && !program->destroyed);
#endif
    program->destroyed = 1;
    hcqi_program_unref(program);
    hcqi_leave();
}

HCQI_DEF hcq_result hcq_program_info_get(const hcq_program *program, hcq_program_info *info) {
    if (program == NULL) { return hcqi_null("program"); }
    if (info == NULL) {
        return hcqi_refuse_alone(program->dev, HCQ_ERROR_INVALID, "info: is NULL");
    }
    HCQI_PASS(hcqi_own_check(program->dev, "program"));
    hcqi_enter();
    hcqi_reap_all(); /* `runs` */
    *info = program->info;
    const hcqi_code *c = &program->codes[program->dev->slot];
    const hcq_backend *backend = program->dev->backend;
    if ((program->desc.flags & HCQ_PROGRAM_STATISTICS) && c->dev == program->dev &&
        backend->statistics != NULL) {
        backend->statistics(c->dev->self, c->code, info->statistics, sizeof info->statistics);
    }
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_program_fill_kernargs(const hcq_program *program,
                                              const hcq_buffer *buffers, uint32_t buffer_count,
                                              const uint64_t *values, uint32_t value_count,
                                              void *block, size_t block_size) {
    if (program == NULL) { return hcqi_null("program"); }
    HCQI_PASS(hcqi_own_check(program->dev, "program"));
    uint32_t bytes = program->info.kernargs_size;
    uint32_t wanted = hcqi_program_buffers(program, program->info.arg_count);
    const char *bad = buffer_count != wanted ? "buffer_count"
                    : value_count != program->info.arg_count - wanted ? "value_count"
                    : buffer_count != 0 && buffers == NULL ? "buffers"
                    : value_count != 0 && values == NULL ? "values"
                    : block == NULL && bytes != 0 ? "block"
                    : block_size < bytes ? "block_size" : NULL;
    if (bad != NULL) {
        return hcqi_refuse_alone(program->dev, HCQ_ERROR_INVALID, "%s: does not fit '%s'", bad,
                                 program->info.label);
    }
    uint8_t *out = HCQI_CAST(uint8_t *, block);
    if (bytes != 0) { memset(out, 0, bytes); }
    for (uint32_t i = 0, b = 0, v = 0; i < program->info.arg_count; i++) {
        uint8_t *at = out + program->info.offsets[i];
        uint32_t size = program->info.sizes[i];
        if (hcqi_arg_is_buffer(program->desc.args[i])) {
            memcpy(at, &buffers[b++].address, 8);
        } else if ((program->desc.args[i] & 0xff) == HCQI_ARG_STRUCT) {
            memcpy(at, (const void *)(uintptr_t)values[v++], size);
        } else {
            memcpy(at, &values[v++], size); /* little endian */
        }
    }
    return HCQ_OK;
}

/* Between two timestamps where a time is asked for; that waits for the end. */
static hcq_result hcqi_program_run(hcq_program *program, const void *args, size_t args_size,
                                   hcq_dims grid, hcq_dims block, uint64_t *device_ns) {
    hcq_device *dev = program->dev;
    hcqi_eager e = { "program_call", hcqi_deadline(dev->desc.timeout_ns), 0, 0, NULL };
    hcq_signal times[2] = { { 0 }, { 0 } };
    hcq_queue *q = NULL;
    hcq_point done;
    uint64_t start = 0, end = 0, began = hcq_now_ns();
    hcq_result r = HCQ_OK;
    if (device_ns != NULL) { *device_ns = 0; }
    for (int i = 0; i < 2 && r == HCQ_OK && device_ns != NULL; i++) {
        r = hcq_signal_create(dev, 0, &times[i]);
    }
    if (r == HCQ_OK) { r = hcqi_eager_queue_take(dev, HCQ_COMPUTE, 1, &q); }
    if (r == HCQ_OK) { r = hcq_queue_reset(q); }
    if (r == HCQ_OK) {
        if (device_ns != NULL) { hcq_queue_timestamp(q, times[0]); }
        int32_t index = hcq_queue_exec(q, program, args, args_size, grid, block);
        if (device_ns != NULL) { hcq_queue_timestamp(q, times[1]); }
        r = index < 0 ? (hcq_result)index : hcqi_eager_submit(dev, NULL, q, &e, &done);
    }
    hcqi_eager_queue_give(q, r == HCQ_OK);
    if (r == HCQ_OK && device_ns != NULL) {
        r = hcqi_sync(dev, done, &e);
        hcq_signal_timestamp(times[0], &start);
        hcq_signal_timestamp(times[1], &end);
        if (dev->caps.host_times) { start = began; } /* both were noticed at the end */
        if (r == HCQ_OK) { *device_ns = end - start; }
    }
    for (int i = 0; i < 2; i++) {
        if (times[i].id != 0) { hcq_signal_destroy(times[i]); }
    }
    return r;
}

HCQI_DEF hcq_result hcq_program_call(hcq_program *program, const void *args, size_t args_size,
                                     hcq_dims grid, hcq_dims block, uint64_t *device_ns) {
    if (program == NULL) { return hcqi_null("program"); }
    hcq_device *dev = program->dev;
    HCQI_PASS(hcqi_pin(dev));
    hcq_result r = HCQ_ERROR_WOULD_BLOCK;
    if (hcqi_in_callback()) {
        r = hcqi_refuse_alone(dev, r, "program_call: in a callback");
    } else {
        r = hcqi_program_run(program, args, args_size, grid, block, device_ns);
    }
    hcqi_unpin(dev);
    return r;
}

/* ========================================================================== */
/* ---- helpers for backends ------------------------------------ >>helping - */

HCQI_DEF void hcq_backend_lock(int locked) {
    static HCQI_THREAD_LOCAL uint32_t inside; /* calls that found it held by this thread */
    if (hcqi_atomic_load64(&hcqi_core.owner) != hcqi_sys_thread_id()) {
        hcqi_enter();
    } else if (locked) {
        inside++;
    } else if (inside != 0) {
        inside--;
    } else {
        hcqi_leave();
    }
}

HCQI_DEF void *hcq_backend_enter(hcq_device *device, const hcq_backend *backend,
                                 hcq_result *why) {
    *why = hcqi_device_enter(device);
    if (*why != HCQ_OK) { return NULL; }
    if (device->backend == backend) { return device->self; }
    *why = hcqi_leave_refusing(device, HCQ_ERROR_UNSUPPORTED, "device: is not of %s",
                               backend->name);
    return NULL;
}

HCQI_DEF hcq_result hcq_backend_point(hcq_device *device, hcq_point point, hcq_lane_point *found) {
    hcqi_signal *s = hcqi_signal_find(point.signal);
    hcqi_points points;
    hcq_result why = HCQ_OK;
    memset(found, 0, sizeof *found);
    if (s == NULL) { return point.signal.id == 0 ? HCQ_ERROR_INVALID : HCQ_ERROR_CLOSED; }
    hcqi_reap_all();
    hcqi_points_begin(&points, NULL);
    hcqi_state state = hcqi_state_of(s, point.value, &why, &points);
    if (state == HCQI_FAILED) { return why; }
    if (state == HCQI_UNMET) { return HCQ_NOT_READY; }
    if (state == HCQI_REACHED || (points.count == 0 && !points.unfit)) { return HCQ_OK; }
    if (points.unfit || points.count != 1 || points.lane[0]->dev != device) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    *found = hcqi_lane_point(points.lane[0], points.epoch[0]);
    return HCQ_OK;
}

HCQI_DEF hcq_result hcq_backend_buffer(const hcq_buffer *buffer) {
    hcq_result why;
    return hcqi_buffer_find(buffer, &why) != NULL ? HCQ_OK : why;
}

HCQI_DEF hcq_result hcq_backend_post(hcq_device *device, uint32_t lane, uint64_t value,
                                     hcq_point *point) {
    hcqi_submit s;
    hcq_submission sub = { NULL, 0, NULL, 0, NULL, 0, 0, HCQ_UNORDERED, NULL, 0 };
    if (lane >= device->caps.imported_lanes) { return HCQ_ERROR_INVALID; }
    hcqi_submit_init(&s, device, &sub);
    s.final_lane = &device->lanes[device->caps.compute_lanes + device->caps.copy_lanes + lane];
    s.final_lane->posted = value;
    hcq_result r = hcqi_submit_run(&s);
    if (r == HCQ_OK) { *point = hcq_at(hcqi_signal_handle(device->exact), s.number); }
    return r;
}

HCQI_DEF void hcq_backend_flush_soon(hcq_device *device) {
    if (hcqi_device_open(device)) { hcqi_core.dirty |= (uint64_t)1 << device->slot; }
}

HCQI_DEF void *hcq_backend_alloc(hcq_device *device, size_t size, size_t align) {
    return device->hooks.alloc_fn(device->hooks.user, size, align);
}

HCQI_DEF void hcq_backend_free(hcq_device *device, void *ptr, size_t size) {
    hcqi_delete(&device->hooks, ptr, size);
}

HCQI_DEF void hcq_backend_log(hcq_device *device, hcq_result result, const char *format, ...) {
    va_list args;
    hcq_backend_lock(1);
    va_start(args, format);
    hcqi_log_to(NULL, NULL, device, result, format, args);
    va_end(args);
    hcq_backend_lock(0);
}

/* Logs why, and is `result`. */
#define hcqi_deny(device, result, ...)                                             \
    (hcq_backend_log((device), (result), __VA_ARGS__), (result))

/* Of a backend's own description: bits up to `last` are known. */
static HCQI_UNUSED HCQI_COLD hcq_result hcqi_flags_check(hcq_device *device, uint32_t flags,
                                                         uint32_t last) {
    if (flags < 2 * last) { return HCQ_OK; }
    return hcqi_deny(device, HCQ_ERROR_INVALID, "flags: unknown bits in %#x", flags);
}

HCQI_DEF void hcq_backend_notify(hcq_lane *lane) {
    hcqi_enter();
    hcqi_reap(hcqi_lane_of(lane));
    hcqi_leave();
}

HCQI_DEF void *hcq_backend_code(const hcq_program *program, hcq_device **device) {
    *device = program != NULL && program->magic == HCQI_MAGIC_PROGRAM ? program->dev : NULL;
    if (*device == NULL) { return NULL; }
    hcqi_enter();
    const hcqi_code *c = &program->codes[program->dev->slot];
    void *code = c->dev == program->dev ? c->code : NULL;
    hcqi_leave();
    return code;
}

HCQI_DEF uint64_t hcq_backend_done(const hcq_lane *lane) {
    return hcqi_atomic_load64(&((const hcqi_lane *)(const void *)lane)->done);
}

HCQI_DEF void hcq_backend_lost(hcq_device *device, hcq_result result, const char *native,
                               int64_t native_code) {
    hcq_backend_lock(1);
    if (hcqi_atomic_load32(&device->loss) == 0) {
        device->loss_result = result;
        device->loss_native = native;
        device->loss_code = native_code;
        hcqi_atomic_store32(&device->loss, 1);
    }
    hcq_backend_flush_soon(device);
    hcq_backend_lock(0);
}

/* ========================================================================== */
/* ---- asking the device --------------------------------------- >>dumping - */

/* Without a clock of the backend: timestamp submissions between two looks at the host's. */
static hcq_result hcqi_clock_sample(hcq_device *dev, hcq_clock *clock) {
    hcqi_eager e = { "clock", hcqi_deadline(dev->desc.timeout_ns), 0, 0, NULL };
    hcq_signal stamp = { 0 };
    hcq_queue *q = NULL;
    uint64_t best = UINT64_MAX;
    e.unordered = 1;
    hcq_result r = hcq_signal_create(dev, 0, &stamp);
    if (r == HCQ_OK) { r = hcq_queue_create(dev, HCQ_COMPUTE, &q); }
    if (r == HCQ_OK && hcq_queue_timestamp(q, stamp) < 0) { r = HCQ_ERROR_OUT_OF_MEMORY; }
    for (int i = 0; r == HCQ_OK && i < 8; i++) {
        hcq_point done;
        uint64_t ns = 0, before = hcq_now_ns();
        r = hcqi_eager_submit(dev, NULL, q, &e, &done);
        if (r == HCQ_OK) { r = hcqi_sync(dev, done, &e); }
        if (r == HCQ_OK) { r = hcq_signal_timestamp(stamp, &ns); }
        uint64_t after = hcq_now_ns();
        if (r != HCQ_OK || after - before >= best) { continue; }
        best = after - before;
        clock->device_ns = ns;
        clock->host_ns = before + best / 2;
        clock->error_ns = best / 2 + 1;
    }
    hcq_queue_destroy(q);
    if (stamp.id != 0) { hcq_signal_destroy(stamp); }
    return r;
}

HCQI_DEF hcq_result hcq_device_clock(hcq_device *device, hcq_clock *clock) {
    hcq_result r = HCQ_OK;
    HCQI_PASS(hcqi_device_ask(device, clock, "clock"));
    hcqi_apart_begin(device);
    int read = device->backend->clock != NULL &&
               device->backend->clock(device->self, clock) == HCQ_OK;
    if (!read && hcqi_in_callback()) {
        r = hcqi_refuse_alone(device, HCQ_ERROR_WOULD_BLOCK, "clock: waits, not in a callback");
    } else if (!read) {
        r = hcqi_clock_sample(device, clock);
    }
    hcqi_unpin(device);
    return r;
}

HCQI_DEF hcq_result hcq_device_info_get(hcq_device *device, hcq_device_info *info) {
    HCQI_PASS(hcqi_device_ask(device, info, "info"));
    *info = device->info;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_device_error_take(hcq_device *device, hcq_error_info *info) {
    HCQI_PASS(hcqi_device_ask(device, info, "info"));
    hcqi_reap_device(device);
    if (hcqi_atomic_load32(&device->loss) != 0 && device->lost == HCQ_OK) {
        hcqi_apart_begin(device);      /* whoever gives finds out just now who did it */
        hcqi_device_ring(device);
        hcqi_apart_end(device);
    }
    *info = device->error;
    memset(&device->error, 0, sizeof device->error);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_device_query(hcq_device *device, uint32_t key, uint64_t *value) {
    HCQI_PASS(hcqi_device_ask(device, value, "value"));
    hcq_result r = HCQ_OK;
    uint64_t answer = *value;
    hcqi_reap_device(device);
    switch (key) {
    case HCQ_QUERY_ALLOCATED_BYTES: answer = device->allocated_bytes; break;
    case HCQ_QUERY_CACHED_BYTES:
        hcqi_freed_trim(device, device->desc.cache_bytes, 1);
        answer = device->freed_bytes;
        break;
    case HCQ_QUERY_SUBMISSIONS: answer = device->next_number - 1; break;
    case HCQ_QUERY_HELD: answer = device->held; break;
    case HCQ_QUERY_PENDING: answer = device->pending; break;
    case HCQ_QUERY_COUNTER_SWAPS: answer = device->swaps; break;
    case HCQ_QUERY_PACKETS_COPIED: answer = device->packets_copied; break;
    case HCQ_QUERY_PACKETS_PATCHED: answer = device->packets_patched; break;
    case HCQ_QUERY_RACES:
        r = device->ends == NULL ? HCQ_ERROR_UNSUPPORTED : HCQ_OK;
        HCQI_ORDER(r = hcqi_order_query(device, &answer));
        if (r == HCQ_ERROR_OUT_OF_MEMORY) { return hcqi_leave_with(r); } /* it was said */
        break;
    default:
        r = device->backend->query == NULL ? HCQ_ERROR_UNSUPPORTED
                                        : device->backend->query(device->self, key, &answer);
    }
    if (r != HCQ_OK) { return hcqi_leave_refusing(device, r, "key: %u is not known", key); }
    *value = answer;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_buffer_at(hcq_device *device, uint64_t address, hcq_buffer *buffer) {
    char text[128];
    if (buffer != NULL) { memset(buffer, 0, sizeof *buffer); }
    HCQI_PASS(hcqi_device_ask(device, buffer, "buffer"));
    const hcqi_allocation *a = hcqi_allocation_find(device, address);
    HCQI_LEAVE_UNLESS(device, a != NULL, HCQ_ERROR_INVALID, "address: %s",
                      hcqi_address_bad(device, address, text, sizeof text));
    *buffer = hcqi_buffer_of(a, address);
    return hcqi_leave_with(HCQ_OK);
}

/* ========================================================================== */
/* ---- registry -------------------------------------------- >>registering - */

/* The backends that may be compiled in, and who gives them; NULL: they are not. */
static const struct {
    const char *name;
    const hcq_backend *(*backend)(void);
} hcqi_companions[] = {
    { "CPU", hcqi_cpu_backend }, { "VULKAN", hcqi_vk_backend }, { "CUDA", hcqi_cuda_backend }
};

/* A line for a logger that has no device yet; returns `result`. */
static HCQI_PRINTF(3, 4) hcq_result hcqi_open_log(const hcq_device_desc *desc, hcq_result result,
                                                  const char *format, ...) {
    va_list args;
    hcqi_enter();
    va_start(args, format);
    hcqi_log_to(desc == NULL ? NULL : desc->log_fn, desc == NULL ? NULL : desc->log_user, NULL,
                result, format, args);
    va_end(args);
    return hcqi_leave_with(result);
}

/* Ends a call on no device unless `ok`; the line goes to `desc`'s logger. */
#define HCQI_OPEN_UNLESS(desc, ok, ...)                                            \
    do {                                                                           \
        if (!(ok)) { return hcqi_open_log((desc), __VA_ARGS__); }                  \
    } while (0)
#define HCQI_NEED(desc, parameter)                                                 \
    HCQI_OPEN_UNLESS(desc, (parameter) != NULL, HCQ_ERROR_INVALID, #parameter ": is NULL")

static hcq_memory_hooks hcqi_hooks(const hcq_memory_hooks *given) {
    hcq_memory_hooks hooks = { hcqi_malloc, hcqi_mfree, NULL };
    return given != NULL && given->alloc_fn != NULL && given->free_fn != NULL ? *given : hooks;
}

static void hcqi_registry_add(hcq_registry *registry, const hcq_backend *backend) {
    hcqi_factory *factory = &registry->factories[registry->count++];
    hcq_driver_info *info = &factory->info;
    const char *full = backend->full_name;
    memset(factory, 0, sizeof *factory);
    factory->backend = backend;
    info->id = ++hcqi_core.serial;
    hcqi_copy_label(info->name, backend->name);
    snprintf(info->full_name, sizeof info->full_name, "%s", full == NULL ? "" : full);
}

/* With the lock held; NULL is the default one, which the first call of all fills. */
static hcq_registry *hcqi_registry_of(hcq_registry *registry) {
    hcq_registry *all = &hcqi_core.registry;
    if (all->hooks.alloc_fn == NULL) {
        all->hooks = hcqi_hooks(NULL);
        for (int i = 0; i < 3; i++) {
            if (hcqi_companions[i].backend == NULL) { continue; }
            hcqi_registry_add(all, hcqi_companions[i].backend());
        }
        hcqi_sys_fork_watch();
    }
    return registry != NULL ? registry : all;
}

/* "#12": what an id is where a name may stand. */
static const char *hcqi_id_name(char name[24], uint64_t id) {
    snprintf(name, 24, "#%llu", (unsigned long long)id);
    return name;
}

/* With the lock held: the newest that fits, by backend or by name; NULL = none. */
static hcqi_factory *hcqi_registry_get(hcq_registry *registry, const hcq_backend *backend,
                                       const char *name) {
    char id[24];
    for (uint32_t i = registry->count; i-- > 0;) {
        hcqi_factory *f = &registry->factories[i];
        if (backend != NULL && f->backend == backend) { return f; }
        if (name == NULL) { continue; }
        if (strcmp(f->info.name, name) == 0) { return f; }
        if (strcmp(hcqi_id_name(id, f->info.id), name) == 0) { return f; }
    }
    return NULL;
}

HCQI_DEF hcq_result hcq_registry_create(const hcq_memory_hooks *memory, hcq_registry **registry) {
    HCQI_NEED(NULL, registry);
    *registry = NULL;
    int whole = memory == NULL || (memory->alloc_fn == NULL) == (memory->free_fn == NULL);
    HCQI_OPEN_UNLESS(NULL, whole, HCQ_ERROR_INVALID, "memory: needs both functions");
    hcq_memory_hooks hooks = hcqi_hooks(memory);
    *registry = HCQI_CAST(hcq_registry *, hcqi_new(&hooks, sizeof **registry));
    HCQI_OPEN_UNLESS(NULL, *registry != NULL, HCQ_ERROR_OUT_OF_MEMORY, "registry: out of memory");
    (*registry)->hooks = hooks;
    return HCQ_OK;
}

HCQI_DEF void hcq_registry_destroy(hcq_registry *registry) {
    if (registry == NULL) { return; }
    hcq_memory_hooks hooks = registry->hooks;
    hcqi_delete(&hooks, registry, sizeof *registry);
}

static int hcqi_backend_valid(const hcq_backend *b) {
    return b != NULL && b->version == HCQ_BACKEND_VERSION && b->name != NULL &&
           b->name[0] != 0 && strlen(b->name) < 32 && strchr(b->name, ':') == NULL &&
           (b->driver_create == NULL) == (b->driver_destroy == NULL) && b->devices != NULL &&
           b->open != NULL && b->close != NULL && b->lane_open != NULL &&
           b->lane_close != NULL && b->alloc != NULL && b->dealloc != NULL &&
           b->program_create != NULL && b->program_destroy != NULL && b->submit != NULL &&
           b->completed != NULL && b->wait != NULL && b->counter_reset != NULL &&
           (b->encode == NULL) == (b->encode_free == NULL) &&
           (b->encode == NULL) == (b->patch == NULL);
}

HCQI_DEF hcq_result hcq_registry_register(hcq_registry *registry, const hcq_backend *backend) {
    HCQI_OPEN_UNLESS(NULL, hcqi_backend_valid(backend), HCQ_ERROR_INVALID,
                     "backend: its version is not %d, or a part is missing", HCQ_BACKEND_VERSION);
    hcqi_enter();
    registry = hcqi_registry_of(registry);
    int known = hcqi_registry_get(registry, backend, NULL) != NULL;
    HCQI_LEAVE_UNLESS(NULL, !known && registry->count != HCQI_MAX_BACKENDS,
                      known ? HCQ_ERROR_EXISTS : HCQ_ERROR_LIMIT, "backend: '%s', one of %u",
                      backend->name, registry->count);
    hcqi_registry_add(registry, backend);
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_registry_unregister(hcq_registry *registry, const hcq_backend *backend) {
    hcqi_enter();
    registry = hcqi_registry_of(registry);
    hcqi_factory *gone = hcqi_registry_get(registry, backend, NULL);
    HCQI_LEAVE_UNLESS(NULL, gone != NULL, HCQ_ERROR_INVALID, "backend: is not registered");
    for (registry->count--; gone < &registry->factories[registry->count]; gone++) {
        *gone = gone[1];
    }
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_registry_drivers(hcq_registry *registry, hcq_driver_info *infos,
                                         uint32_t capacity, uint32_t *count) {
    HCQI_NEED(NULL, count);
    if (capacity != 0) { HCQI_NEED(NULL, infos); }
    hcqi_enter();
    registry = hcqi_registry_of(registry);
    *count = registry->count;
    for (uint32_t i = 0; i < registry->count && i < capacity; i++) {
        infos[i] = registry->factories[registry->count - 1 - i].info;
    }
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF const hcq_backend *hcq_registry_find(hcq_registry *registry, const char *name) {
    hcqi_enter();
    const hcqi_factory *found = hcqi_registry_get(hcqi_registry_of(registry), NULL, name);
    const hcq_backend *backend = found == NULL ? NULL : found->backend;
    hcqi_leave();
    return backend;
}

/* ========================================================================== */
/* ---- drivers ----------------------------------------------- >>selecting - */

struct hcq_driver {
    hcq_memory_hooks hooks;
    hcqi_factory factory;
    void *self;                        /* the backend's own */
    uint32_t refs;                     /* atomic */
    uint32_t forks;                    /* hcqi_core.forks when it was made */
};

/* Nobody has the name: what is missing, and who there is. With the lock held. */
static void hcqi_name_unknown(hcqi_text *t, const hcq_registry *registry, const char *name) {
    hcqi_print(t, "no backend has it");
    for (int i = 0; i < 3 && registry == &hcqi_core.registry; i++) {
        int absent = hcqi_companions[i].backend == NULL;
        if (!absent || strcmp(name, hcqi_companions[i].name) != 0) { continue; }
        hcqi_print(t, "; %s is not compiled in: #define HCQ_%s before the implementation", name,
                   name);
    }
    hcqi_print(t, registry->count == 0 ? "; there is none" : "; there are");
    for (uint32_t i = 0; i < registry->count; i++) {
        hcqi_print(t, " %s", registry->factories[i].info.name);
    }
}

/* Makes the driver that has a name; `given`: what the caller got, for the log. Its memory
   is that of `desc`, else the registry's. What takes long is done without the lock. */
static hcq_result hcqi_driver_make(hcq_registry *registry, const hcq_device_desc *desc,
                                   const char *given, const char *name, hcq_driver **out) {
    char why[200];
    hcqi_text t;
    hcq_driver made, *driver = NULL;
    hcq_result r = HCQ_ERROR_NO_DEVICE;
    memset(&made, 0, sizeof made);
    hcqi_text_begin(&t, why, sizeof why);
    hcqi_enter();
    registry = hcqi_registry_of(registry);
    const hcqi_factory *factory = hcqi_registry_get(registry, NULL, name);
    if (factory != NULL) { made.factory = *factory; }
    if (factory == NULL) { hcqi_name_unknown(&t, registry, name); }
    made.hooks = hcqi_hooks(desc != NULL ? &desc->memory : &registry->hooks);
    made.forks = hcqi_core.forks;
    made.refs = 1;
    hcqi_leave();
    const hcq_backend *backend = made.factory.backend;
    if (backend != NULL) {
        driver = HCQI_CAST(hcq_driver *, hcqi_new(&made.hooks, sizeof made));
        r = driver == NULL ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_OK;
    }
    if (driver != NULL) { *driver = made; }
    if (driver != NULL && backend->driver_create != NULL) {
        r = backend->driver_create(&driver->hooks, &driver->self);
    }
    *out = r == HCQ_OK ? driver : NULL;
    if (r == HCQ_OK) { return r; }
    hcqi_delete(&made.hooks, driver, sizeof made);
    return hcqi_open_log(desc, r, "%s: '%.60s': %s", given[0] == '#' ? "id" : "name", given,
                         backend == NULL ? why : hcq_result_text(r));
}

HCQI_DEF hcq_result hcq_driver_create(hcq_registry *registry, const char *name,
                                      hcq_driver **driver) {
    HCQI_NEED(NULL, driver);
    *driver = NULL;
    HCQI_NEED(NULL, name);
    return hcqi_driver_make(registry, NULL, name, name, driver);
}

HCQI_DEF hcq_result hcq_driver_create_id(hcq_registry *registry, uint64_t id,
                                         hcq_driver **driver) {
    char name[24];
    return hcq_driver_create(registry, hcqi_id_name(name, id), driver);
}

HCQI_DEF void hcq_driver_retain(hcq_driver *driver) {
    if (driver != NULL) { hcqi_atomic_add32(&driver->refs, 1); }
}

HCQI_DEF void hcq_driver_release(hcq_driver *driver) {
    if (driver == NULL || driver->forks != hcqi_core.forks) { return; }
    if (hcqi_atomic_add32(&driver->refs, UINT32_MAX) != 1) { return; }
    hcq_memory_hooks hooks = driver->hooks;
    if (driver->factory.backend->driver_destroy != NULL) {
        driver->factory.backend->driver_destroy(&driver->hooks, driver->self);
    }
    hcqi_delete(&hooks, driver, sizeof *driver);
}

HCQI_DEF hcq_result hcq_driver_info_get(const hcq_driver *driver, hcq_driver_info *info) {
    HCQI_NEED(NULL, driver);
    HCQI_NEED(NULL, info);
    *info = driver->factory.info;
    return HCQ_OK;
}

/* What the core knows of a device whose lanes and features its backend said. */
static void hcqi_info_complete(hcq_device_info *info, const hcq_backend *backend,
                               uint32_t ordinal) {
    info->backend = backend->name;
    info->ordinal = ordinal;
    info->features |= HCQ_FEATURE_COVERAGE;
    if (backend->clock != NULL) { info->features |= HCQ_FEATURE_PROFILING; }
    if (info->copy_lanes != 0) { info->features |= HCQ_FEATURE_COPY_LANE; }
}

HCQI_DEF hcq_result hcq_driver_devices(hcq_driver *driver, hcq_device_info *infos,
                                       uint32_t capacity, uint32_t *count) {
    HCQI_NEED(NULL, driver);
    HCQI_NEED(NULL, count);
    if (capacity != 0) { HCQI_NEED(NULL, infos); }
    HCQI_OPEN_UNLESS(NULL, driver->forks == hcqi_core.forks, HCQ_ERROR_CLOSED,
                     "driver: is of the parent process");
    const hcq_backend *backend = driver->factory.backend;
    if (capacity != 0) { memset(infos, 0, capacity * sizeof *infos); }
    *count = backend->devices(driver->self, capacity == 0 ? NULL : infos, capacity);
    for (uint32_t i = 0; i < *count && i < capacity; i++) {
        hcqi_info_complete(&infos[i], backend, i);
    }
    return HCQ_OK;
}

/* Digits are an ordinal, which may be beyond the list: opening it will tell. */
static hcq_result hcqi_driver_select(hcq_driver *driver, const char *which,
                                     hcq_device_info *found) {
    char id[24];
    uint32_t room = 0, count = 0;
    int digits = which[strspn(which, "0123456789")] == 0;
    unsigned long ordinal = digits ? strtoul(which, NULL, 10) : 0;
    hcq_result r = digits && ordinal < UINT32_MAX ? HCQ_OK : HCQ_ERROR_NO_DEVICE;
    hcq_driver_devices(driver, NULL, 0, &room);
    if (room == 0) { return HCQ_ERROR_NO_DEVICE; }
    size_t bytes = room * sizeof *found;
    hcq_device_info *infos = HCQI_CAST(hcq_device_info *, hcqi_new(&driver->hooks, bytes));
    if (infos == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    hcq_driver_devices(driver, infos, room, &count);
    found->ordinal = (uint32_t)ordinal;
    for (uint32_t i = room < count ? room : count; i > 0; i--) {
        const hcq_device_info *info = &infos[i - 1];
        int fits = digits ? info->ordinal == ordinal
                   : strcmp(info->name, which) == 0 || strcmp(info->path, which) == 0 ||
                     strcmp(hcqi_id_name(id, info->id), which) == 0;
        if (!fits) { continue; }
        *found = *info;
        r = HCQ_OK;
    }
    hcqi_delete(&driver->hooks, infos, bytes);
    return r;
}

/* ========================================================================== */
/* ---- open and close ------------------------------------------ >>opening - */

static void hcqi_desc_defaults(hcq_device_desc *d) {
    int all = d->log_fn == NULL && HCQ_VALIDATE && (d->flags & HCQ_DEVICE_CHECK) != 0;
    d->log_fn = all ? hcq_log_stderr : hcqi_logger(d->log_fn);
    if (d->timeout_ns == 0) { d->timeout_ns = (uint64_t)30 * 1000000000; }
    if (d->explain_ns == 0) { d->explain_ns = (uint64_t)5 * 1000000000; }
    if (d->spin_ns == 0) { d->spin_ns = 50000; }
    if (d->versions == 0) { d->versions = 2; }
    if (d->inflight == 0) { d->inflight = 4096; }
    if (d->held_pool == 0) { d->held_pool = 4096; }
    if (d->failure_ranges == 0) { d->failure_ranges = 65536; }
    if (d->held_limit == 0) { d->held_limit = 4194304; }
    if (d->cache_bytes == 0) { d->cache_bytes = (uint64_t)256 << 20; }
    if (d->cache_bytes == HCQ_NEVER) { d->cache_bytes = 0; }
    if (d->staging_bytes == 0) { d->staging_bytes = (uint64_t)2 << 20; }
    if (d->staging_count == 0) { d->staging_count = 32; }
}

static hcq_result hcqi_lanes_open(hcq_device *dev) {
    const hcq_backend_caps *caps = &dev->caps;
    uint32_t own = caps->compute_lanes + caps->copy_lanes, total = own + caps->imported_lanes;
    uint64_t limit = caps->counter_limit == 0 ? HCQI_MAX_VALUE : caps->counter_limit;
    uint64_t wanted = dev->test.counter_limit;
    if (caps->compute_lanes == 0 || total > HCQI_MAX_LANES) { return HCQ_ERROR_LIMIT; }
    if (wanted != 0 && wanted < limit) { limit = wanted; }
    for (uint32_t i = 0; i < total; i++) {
        hcqi_lane *lane = &dev->lanes[i];
        uint32_t first = i < caps->compute_lanes ? 0 : i < own ? caps->compute_lanes : own;
        lane->dev = dev;
        lane->limit = i < own ? limit : HCQI_MAX_VALUE;
        lane->failures.whole = 1;      /* of what is handed over, which asks for it later */
        lane->base.device = dev;
        lane->base.self = dev->self;
        lane->base.kind = i < own && first != 0 ? HCQ_COPY : HCQ_COMPUTE;
        lane->base.index = i - first;
        lane->base.imported = i >= own;
        HCQI_PASS(dev->backend->lane_open(dev->self, &lane->base));
        dev->lane_count = i + 1;
        if (!hcqi_failures_grow(dev, &lane->failures)) { return HCQ_ERROR_OUT_OF_MEMORY; }
    }
    return HCQ_OK;
}

static hcq_result hcqi_device_memory(hcq_device *dev) {
    uint32_t parked = dev->desc.held_pool;
    void *stages = hcqi_new(&dev->hooks, dev->desc.staging_count * sizeof *dev->stages);
    dev->stages = HCQI_CAST(hcqi_stage *, stages);
    for (uint32_t k = 0; k < HCQI_VALUE_POOLS; k++) {
        (void)hcqi_pool_init(&dev->values[k], dev, sizeof(uint64_t) << (k + 1), 0);
    }
    (void)hcqi_pool_init(&dev->notice_pool, dev, sizeof(hcqi_notice), 0);
    int all = stages != NULL && hcqi_window_resize(dev, hcqi_power_of_two(parked)) &&
              hcqi_pool_init(&dev->jobs, dev, sizeof(hcq_job), parked) &&
              hcqi_pool_init(&dev->waiters, dev, sizeof(hcqi_waiter), parked) &&
              hcqi_pool_init(&dev->producers, dev, sizeof(hcqi_producer), parked) &&
              hcqi_failures_grow(dev, &dev->failures); /* for the one of missing memory, say */
    if (!all) { return HCQ_ERROR_OUT_OF_MEMORY; }
    if (dev->backend->give == NULL) { return HCQ_OK; }
    void *posts = hcqi_new(&dev->hooks, sizeof *dev->posts);
    dev->posts = dev->posts_out = HCQI_CAST(hcqi_posts *, posts);
    void *spare = posts != NULL ? hcqi_new(&dev->hooks, sizeof *dev->posts) : NULL;
    dev->posts_spare = (uint64_t)(uintptr_t)spare;
    return spare == NULL ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_OK;
}

/* What hcq_device_info_get answers: what the driver listed, and what opening found. */
static void hcqi_device_describe(hcq_device *dev) {
    hcq_device_info *info = &dev->info;
    snprintf(info->name, sizeof info->name, "%.95s", dev->caps.name);
    info->compute_lanes = dev->caps.compute_lanes;
    info->copy_lanes = dev->caps.copy_lanes;
    info->memory_bytes = dev->caps.memory_bytes;
    info->features = dev->caps.features;
    hcqi_info_complete(info, dev->backend, info->ordinal);
    if (dev->caps.host_times) { info->features &= ~(uint32_t)HCQ_FEATURE_PROFILING; }
}

/* Takes a slot, so that handles can name the device: from here on others see it. */
static hcq_result hcqi_device_enlist(hcq_device *dev) {
    uint32_t slot = 0;
    while (slot < HCQI_MAX_DEVICES && hcqi_core.devices[slot] != NULL) { slot++; }
    if (slot == HCQI_MAX_DEVICES) { return HCQ_ERROR_LIMIT; }
    HCQI_REFUSE_UNLESS(dev, !hcqi_mixes(dev->stepped), HCQ_ERROR_UNSUPPORTED, HCQI_MIXED);
    dev->slot = slot;
    dev->serial = ++hcqi_core.serial;
    dev->signals.first = dev->notices.first = hcqi_core.serials[slot];
    dev->next_number = 1;
    HCQI_PASS(hcqi_signal_new(dev, HCQI_TIMELINE, 0, &dev->timeline));
    hcq_result r = hcqi_signal_new(dev, HCQI_EXACT, 0, &dev->exact);
    if (r != HCQ_OK) {
        hcqi_signal_close(dev->timeline);
        return r;
    }
    hcqi_core.devices[slot] = dev;
    if (slot >= hcqi_core.device_top) { hcqi_core.device_top = slot + 1; }
#ifdef HCQ_CHECK
    hcqi_order_opened(dev);
#endif
    for (uint32_t k = 0; hcqi_core.watchers != 0 && k < dev->lane_count; k++) {
        hcqi_lane_watch(&dev->lanes[k]);
    }
    return HCQ_OK;
}

/* Takes back the steps of opening but for the slot, without the lock: nobody uses the
   device any more, though an engine may still be in a notify. */
static void hcqi_device_undo(hcq_device *dev) {
    const hcq_memory_hooks *hooks = &dev->hooks;
    int opened = dev->self != NULL || dev->lane_count != 0;
    while (dev->lane_count > 0) {
        hcqi_lane *lane = &dev->lanes[--dev->lane_count];
        dev->backend->lane_close(dev->self, &lane->base);
        hcqi_failures_free(dev, &lane->failures);
    }
    if (opened) { dev->backend->close(dev->self); }
    hcq_driver_release(dev->driver);
    hcqi_pool_destroy(&dev->jobs);
    hcqi_pool_destroy(&dev->waiters);
    hcqi_pool_destroy(&dev->producers);
    hcqi_pool_destroy(&dev->notice_pool);
    for (uint32_t k = 0; k < HCQI_VALUE_POOLS; k++) { hcqi_pool_destroy(&dev->values[k]); }
    hcqi_delete(hooks, dev->window, (size_t)(dev->window_mask + 1) * sizeof *dev->window);
    hcqi_delete(hooks, dev->stages, dev->desc.staging_count * sizeof *dev->stages);
    hcqi_delete(hooks, dev->table, dev->table_capacity * sizeof *dev->table);
    hcqi_delete(hooks, dev->signals.slots, dev->signals.capacity * sizeof *dev->signals.slots);
    hcqi_delete(hooks, dev->notices.slots, dev->notices.capacity * sizeof *dev->notices.slots);
    if (dev->profile != NULL) { hcqi_delete(hooks, dev->profile, dev->profile->size); }
    hcqi_posts_delete(dev);
}

static hcq_result hcqi_device_make(hcq_driver *driver, const hcq_device_info *info,
                                   const hcq_device_desc *desc, hcq_device **out) {
    hcq_memory_hooks hooks = hcqi_hooks(desc == NULL ? NULL : &desc->memory);
    hcq_device *dev = HCQI_CAST(hcq_device *, hcqi_new(&hooks, sizeof *dev));
    if (dev == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    if (desc != NULL) { dev->desc = *desc; }
    if (dev->desc.test != NULL) { dev->test = *dev->desc.test; }
    dev->desc.test = &dev->test;
    hcqi_desc_defaults(&dev->desc);
#ifdef HCQ_CHECK
    hcqi_order_opening(dev);
#endif
    dev->hooks = dev->desc.memory = hooks;
    dev->info = *info;
    dev->driver = driver;
    dev->backend = driver->factory.backend;
    dev->forks = hcqi_core.forks;
    dev->service.run_fn = hcqi_service_run;
    dev->service.user = dev;
    memcpy(dev->service.name, "hcq-service", 12);
    dev->handles = 1;
    dev->refs = 1;                     /* for all handles */
    hcq_driver_retain(driver);
    snprintf(dev->label, sizeof dev->label, info->ordinal == 0 ? "%.20s" : "%.20s:%u",
             dev->backend->name, info->ordinal);
    if (dev->desc.label != NULL) { hcqi_copy_label(dev->label, dev->desc.label); }
    hcq_result r = dev->backend->open(driver->self, dev, info->ordinal, &dev->desc, &dev->caps,
                                      &dev->self);
    if (dev->desc.flags & HCQ_DEVICE_CHECK) { dev->caps.runs_host = 0; } /* where calls are seen */
    if (r == HCQ_OK) { r = hcqi_lanes_open(dev); }
    if (r == HCQ_OK) { r = hcqi_device_memory(dev); }
    if (r == HCQ_OK) { hcqi_device_describe(dev); }
    hcqi_enter();
    if (r == HCQ_OK) { r = hcqi_device_enlist(dev); }
    hcqi_leave();
    *out = r == HCQ_OK ? dev : NULL;
    if (r == HCQ_OK) { return r; }
    hcqi_device_undo(dev);
    hcqi_enter();
    hcqi_device_unref(dev);
    return hcqi_leave_with(r);
}

/* Opens the device that `which` names. `given`: as in hcqi_driver_make. */
static hcq_result hcqi_driver_open(hcq_driver *driver, const char *given, const char *which,
                                   const hcq_device_desc *desc, hcq_device **device) {
    hcq_device_info info;
    if (device != NULL) { *device = NULL; }
    HCQI_NEED(desc, driver);
    HCQI_NEED(desc, device);
    HCQI_OPEN_UNLESS(desc, driver->forks == hcqi_core.forks, HCQ_ERROR_CLOSED,
                     "driver: is of the parent process");
    if (desc != NULL) {
        HCQI_OPEN_UNLESS(desc, (desc->memory.alloc_fn == NULL) == (desc->memory.free_fn == NULL),
                         HCQ_ERROR_INVALID, "memory: needs both functions");
        const uint32_t known = HCQ_DEVICE_COVERAGE | HCQI_CHECK_KNOWN;
        HCQI_OPEN_UNLESS(desc, (desc->flags & ~known) == 0, HCQ_ERROR_INVALID, "flags: %s",
                         (desc->flags & ~known & HCQI_CHECK_FLAGS) == 0 ? "unknown bits" :
                         "HCQ_CHECK was not defined where HCQ_IMPLEMENTATION is");
    }
    memset(&info, 0, sizeof info);
    const hcq_backend *backend = driver->factory.backend;
    hcq_result r = hcqi_driver_select(driver, which, &info);
    const char *why = r != HCQ_OK && backend->why_none != NULL ? backend->why_none(driver->self)
                                                               : NULL;
    if (r == HCQ_OK) { r = hcqi_device_make(driver, &info, desc, device); }
    if (r == HCQ_OK) { return r; }
    return hcqi_open_log(desc, r, "%s: '%.60s': %s", given[0] == '#' ? "id" : given == which ?
                         "which" : "name", given, why != NULL ? why : hcq_result_text(r));
}

HCQI_DEF hcq_result hcq_driver_open(hcq_driver *driver, const char *which,
                                    const hcq_device_desc *desc, hcq_device **device) {
    if (which == NULL) { which = ""; }
    return hcqi_driver_open(driver, which, which, desc, device);
}

HCQI_DEF hcq_result hcq_driver_open_id(hcq_driver *driver, uint64_t id,
                                       const hcq_device_desc *desc, hcq_device **device) {
    char name[24];
    return hcq_driver_open(driver, hcqi_id_name(name, id), desc, device);
}

HCQI_DEF hcq_result hcq_open(const char *name, const hcq_device_desc *desc, hcq_device **device) {
    char backend[33];                  /* longer than any: no cut one is taken for another */
    hcq_driver *driver;
    HCQI_NEED(desc, device);
    *device = NULL;
    HCQI_NEED(desc, name);
    size_t n = strcspn(name, ":");
    HCQI_OPEN_UNLESS(desc, n != 0 && (name[n] == 0 || name[n + 1] != 0), HCQ_ERROR_INVALID,
                     "name: '%.40s': is not BACKEND or BACKEND:which", name);
    snprintf(backend, sizeof backend, "%.*s", n < 32 ? (int)n : 32, name);
    hcq_registry *registry = desc == NULL ? NULL : desc->registry;
    HCQI_PASS(hcqi_driver_make(registry, desc, name, backend, &driver));
    const char *which = name + n + (name[n] != 0);
    hcq_result r = hcqi_driver_open(driver, name, which, desc, device);
    hcq_driver_release(driver);
    return r;
}

/* Gives back a reference to a closed device; 0 = it is none. */
static int hcqi_closed_release(hcq_device *dev) {
    hcq_device **link = &hcqi_core.closed;
    while (*link != NULL && *link != dev) { link = &(*link)->closed_next; }
    if (*link == NULL) { return 0; }
    if (--dev->handles == 0) {
        *link = dev->closed_next;
        hcqi_device_unref(dev);
    }
    return 1;
}

HCQI_DEF hcq_result hcq_device_release(hcq_device *device) {
    if (device == NULL) { return HCQ_OK; }
    hcqi_enter();
    int open = hcqi_device_open(device);
    if (open && device->handles == 1) {
        hcqi_leave();
        return hcq_close(device);
    }
    if (open) { device->handles--; }
    if (open || hcqi_closed_release(device)) { return hcqi_leave_with(HCQ_OK); }
    return hcqi_leave_refusing(NULL, HCQ_ERROR_CLOSED, "device: was closed");
}

HCQI_DEF hcq_result hcq_device_retain(hcq_device *device) {
    HCQI_PASS(hcqi_device_enter(device));
    device->handles++;
    return hcqi_leave_with(HCQ_OK);
}

static int hcqi_device_moves(const hcq_device *dev) {
    for (uint32_t k = 0; k < dev->lane_count; k++) {
        const hcqi_lane *lane = &dev->lanes[k];
        if (lane->run_head != NULL || lane->stall.head != NULL) { return 1; }
    }
    const hcq_job *job = hcqi_held_from(dev, 0);
    while (job != NULL && !hcqi_job_moves(job)) { job = hcqi_held_from(dev, job->number + 1); }
    return job != NULL;
}

/* Ends the held jobs of `on` that need the device: its own, and others whose recordings
   belong to it or name its memory. */
static void hcqi_cancel_held(const hcq_device *on, const hcq_device *dev) {
    uint64_t number = 0;
    for (hcq_job *job; (job = hcqi_held_from(on, number)) != NULL;) {
        const hcqi_version *v = job->version;
        uint64_t named = v == NULL ? 0 : hcqi_version_named(v, job->values);
        int needs = on == dev || (job->launch != NULL && job->launch->queue->dev == dev);
        needs |= v != NULL && (v->queue->dev == dev || (named >> dev->slot & 1) != 0);
        int behind = !job->unordered && job->lane->lists[0].head != job;
        number = job->number + 1;
        if (needs && behind) {
            hcqi_job_fail(job, HCQ_ERROR_CANCELLED, NULL); /* at once: those before it may stay */
        } else if (needs) {
            if (hcqi_job_failure(job) == HCQ_OK) { job->result = HCQ_ERROR_CANCELLED; }
            hcqi_ready_push(job);
        }
    }
}

/* Nothing of the device is in use any more: not by its own work, by threads in a wait,
   or by work elsewhere that looks at its counters or uses its memory. */
static int hcqi_device_quiet(const hcq_device *dev) {
    uint64_t uses = (uint64_t)dev->pending + dev->encodes;
    uses += hcqi_atomic_load32(&dev->unpins) != dev->pins;
    for (const hcq_queue *q = dev->queues; q != NULL; q = q->next) { uses += q->pending; }
    HCQI_LANES(lane) { uses += lane->done < lane->foreign[dev->slot]; }
    return uses == 0;
}

/* Waits until nothing uses the device. What cannot get on is cancelled; last ends the
   service thread, during which others may have begun a call: those end, too. */
static hcq_result hcqi_close_wait(hcq_device *dev) {
    uint64_t deadline = hcqi_deadline(dev->desc.timeout_ns), left = UINT64_MAX;
    hcqi_watch(1);
    while (left != 0) {
        hcqi_reap_all();
        hcqi_drain();
        int stays = dev->lost != HCQ_OK || !hcqi_device_moves(dev);
        HCQI_DEVICES(on) {
            if (stays) { hcqi_cancel_held(on, dev); }
        }
        hcqi_drain();
        if (!hcqi_device_quiet(dev)) {
            left = hcqi_left(deadline);
            if (left != 0) { hcqi_event_wait(left < 1000000 ? left : 1000000); }
        } else if (dev->service_started) {
            hcqi_service_kick(dev);
            dev->service_stop = 1;
            hcqi_leave();
            if (dev->service.handle != NULL) { hcq_sys_thread_join(&dev->service); }
            hcqi_enter();
            dev->service_started = 0;
            hcqi_atomic_store32(&dev->service_begun, 0);
        } else {
            break;
        }
    }
    hcqi_watch(-1);
    if (left == 0) { dev->service_stop = 0; }
    return left == 0 ? HCQ_TIMEOUT : HCQ_OK;
}

/* Takes from a device, which may be the same, what it has of one that closes. */
static void hcqi_device_forget(hcq_device *other, hcq_device *dev) {
    hcqi_signal *eager = other->eager_signal;
    for (hcq_queue *q = other->queues; q != NULL; q = q->next) {
        for (int aside = 0; aside < 2; aside++) {
            for (hcqi_version *next, *v = aside ? q->aside : q->versions; v != NULL; v = next) {
                next = v->next;
                v->foreign &= ~((uint64_t)1 << dev->slot);
                if (v->has_values) { v->values[0] &= ~((uint64_t)1 << dev->slot); }
                if (v->dev == dev) { hcqi_version_delete(v, 0); }
            }
        }
    }
    for (hcq_program *p = other->programs; p != NULL; p = p->next) {
        hcqi_program_unload(p, other == dev ? NULL : dev);
    }
    if (eager != NULL && (other == dev || eager->dev == dev)) {
        hcqi_signal_unref(eager);
        other->eager_signal = NULL;
        other->eager_value = 0;
    }
}

static void hcqi_close_objects(hcq_device *dev) {
    while (dev->queues != NULL) { hcqi_queue_free(dev->queues, 0); }
    HCQI_DEVICES(other) { hcqi_device_forget(other, dev); }
    while (dev->programs != NULL) {
        hcq_program *p = dev->programs;
        int ours = !p->destroyed;      /* recordings may still name it */
        hcqi_program_unlist(p);
        p->destroyed = 1;
        if (ours) { hcqi_program_unref(p); }
    }
    while (dev->table_count != 0) { hcqi_allocation_retire(dev->table[dev->table_count - 1]); }
    for (uint32_t i = 0; i < dev->signals.used; i++) {
        void *item = hcqi_slots_at(&dev->signals, i);
        if (item != NULL) { hcqi_signal_close(HCQI_CAST(hcqi_signal *, item)); }
    }
    hcqi_drain();
    for (uint32_t i = 0; i < dev->notices.used; i++) { /* of what is still raised elsewhere */
        hcqi_notice *n = HCQI_CAST(hcqi_notice *, hcqi_slots_at(&dev->notices, i));
        if (n == NULL || n->wait.home == HCQI_HOME_NONE) { continue; }
        hcqi_waiter_unlink(&n->wait);
        n->result = HCQ_ERROR_CANCELLED;
        hcqi_notice_append(&hcqi_core.due_head, &hcqi_core.due_tail, n);
    }
}

/* What is native is closed last, without the lock. Who holds a reference finds a closed device. */
HCQI_DEF hcq_result hcq_close(hcq_device *device) {
    if (device == NULL) { return HCQ_OK; }
    HCQI_PASS(hcqi_device_enter(device));
    HCQI_LEAVE_UNLESS(device, !hcqi_in_callback(), HCQ_ERROR_WOULD_BLOCK, "close: in a callback");
    HCQI_LEAVE_UNLESS(device, !device->close_runs, HCQ_ERROR_BUSY, "close: runs already");
    device->close_runs = 1;
    device->closing = 1;
    hcqi_signal_wake(device->exact, UINT64_MAX, UINT64_MAX); /* whoever waits for later ones */
    hcqi_signal_wake(device->timeline, UINT64_MAX, UINT64_MAX);
    hcq_result r = hcqi_close_wait(device);
    if (r != HCQ_OK) {
        hcqi_timeout_tell(device, "close of", device->label);
        device->close_runs = 0;
        return hcqi_leave_with(r);
    }
    hcqi_close_objects(device);
    HCQI_ORDER(hcqi_order_closed(device));
    const uint64_t others = ~((uint64_t)1 << device->slot);
    hcqi_core.devices[device->slot] = NULL;
    hcqi_core.dirty &= others;
    hcqi_core.kicks &= others;
    hcqi_core.threadless &= others;
    device->closed_next = hcqi_core.closed;
    hcqi_core.closed = device;
    for (int i = 0; i < 2; i++) { hcqi_list_release(device, device->freed_head[i], 1); }
    hcqi_leave();
    hcqi_device_undo(device);
    hcqi_enter();
    hcqi_closed_release(device);
    return hcqi_leave_with(HCQ_OK);
}

/* ========================================================================== */
/* ---- graphs: recording ----------------------------------------- >>inputs - */

/* Takes the lock for a call about a graph; anything but HCQ_OK: not taken. */
static hcq_result hcqi_graph_enter(hcq_queue *q) {
    HCQI_PASS(hcqi_queue_enter(q));
    HCQI_CHECK(q, HCQI_NONE, q->graph != NULL, HCQ_ERROR_INVALID, "queue: is no graph");
    return HCQ_OK;
}

static const char *hcqi_input_check(const hcq_queue *q, uint32_t number, const hcq_device *dev,
                                    uint64_t size, hcq_result *why) {
    *why = HCQ_ERROR_INVALID;
    if (q->graph == NULL) { return "queue: is no graph"; }
    if (number >= HCQ_MAX_VALUES) { return "number: is above 255"; }
    if (size == 0 || size >> HCQI_TAG_SHIFT != 0) { return "size: is 0 or too large"; }
    if (hcqi_value_known(q, number * 2) != 0) { return "number: is that of a number elsewhere"; }
    const hcqi_input *old = &q->graph->inputs[number];
    if (old->size != 0 && (old->dev != dev || old->size != size)) {
        return "number: was declared with another device or size";
    }
    *why = HCQ_ERROR_CLOSED;
    return hcqi_device_open(dev) ? NULL : "device: is closed";
}

HCQI_DEF hcq_buffer hcq_graph_input(hcq_queue *graph, uint32_t number, hcq_device *device,
                                    uint64_t size) {
    hcq_buffer b;
    hcq_result why;
    memset(&b, 0, sizeof b);
    if (hcqi_queue_check(graph) != HCQ_OK || graph->sticky != HCQ_OK) { return b; }
    hcqi_enter();
    if (device == NULL) { device = graph->dev; }
    const char *bad = hcqi_input_check(graph, number, device, size, &why);
    if (bad != NULL) {
        hcqi_queue_refuse(graph, graph->count, why, "%s", bad);
        return b;
    }
    hcqi_input input = { device, device->serial, size, 0, 0, NULL };
    if (hcqi_value_known(graph, number * 2 + 1) == 0) { graph->generation++; }
    hcqi_input_set(graph, number, input);
    hcqi_leave();
    return hcqi_placeholder_make(number, device, size);
}

HCQI_DEF int32_t hcq_graph_alloc(hcq_queue *graph, hcq_device *device, uint64_t size,
                                 uint32_t flags, hcq_buffer *buffer) {
    const uint32_t known = HCQ_HOST_VISIBLE | HCQ_NO_CACHE | HCQ_ZEROED;
    if (buffer != NULL) { memset(buffer, 0, sizeof *buffer); } /* recording may go on */
    HCQI_PASS(hcqi_record_begin(graph, HCQ_COMMAND_ALLOC, 0, 0));
    uint32_t index = graph->count;
    hcqi_graph *g = graph->graph;
    if (device == NULL) { device = graph->dev; }
    HCQI_CHECK(graph, index, g != NULL, HCQ_ERROR_INVALID, "queue: is no graph");
    HCQI_CHECK(graph, index, (flags & ~known) == 0, HCQ_ERROR_INVALID, "flags: unknown bits");
    HCQI_CHECK(graph, index, size != 0 && size >> HCQI_TAG_SHIFT == 0, HCQ_ERROR_INVALID,
               "size: is 0 or too large");
    HCQI_CHECK(graph, index, buffer != NULL, HCQ_ERROR_INVALID, "buffer: is NULL");
    HCQI_CHECK(graph, index, hcqi_device_open(device), HCQ_ERROR_CLOSED, "device: is closed");
    HCQI_CHECK(graph, index, g->empty_count < HCQI_MAX_EMPTIES, HCQ_ERROR_LIMIT,
               "graph: too many allocations");
    hcqi_input *e = HCQI_PUSH(&graph->dev->hooks, g->empties, g->empty_count, g->empty_capacity);
    if (e == NULL) { return hcqi_record_oom(graph); }
    const hcqi_input empty = { device, device->serial, size, 0, flags, NULL };
    *e = empty;
    *buffer = hcqi_placeholder_make(HCQ_MAX_VALUES - 1 + g->empty_count, device, size);
    graph->metas[index].dev = device;
    graph->packets[index].u.fill.dst = buffer->address;
    graph->packets[index].u.fill.size = size;
    return hcqi_record_end(graph);
}

HCQI_DEF hcq_result hcq_queue_access(hcq_queue *queue, int32_t index, hcq_buffer buffer,
                                     uint32_t access) {
    hcqi_operand op;
    hcq_packet *p = NULL;
    HCQI_PASS(hcqi_queue_check(queue));
    int room = HCQI_ROOM(queue, queue->stated, queue->stated_capacity, queue->stated_count + 1);
    HCQI_PASS(hcqi_command_enter(queue, index, &p));
    HCQI_CHECK(queue, HCQI_NONE, hcqi_packet_is_timed(p), HCQ_ERROR_INVALID,
               "index: command %u (%s) names no memory", p->index, hcqi_kind_text(p->kind));
    HCQI_CHECK(queue, HCQI_NONE, hcqi_arg_is_buffer(access) && access <= HCQ_ARG_INOUT,
               HCQ_ERROR_INVALID, "access: %u is none of HCQ_ARG_IN, _OUT, _INOUT", access);
    HCQI_PASS(hcqi_operand_take(queue, HCQI_NONE, "buffer", &buffer, buffer.size, &op));
    int takes = p->kind != HCQ_COMMAND_EXEC || op.a != NULL;
    for (uint32_t k = 0; !takes && k < queue->metas[index].name_count; k++) {
        uint64_t at = hcqi_name_address(queue, p->index, k);
        takes = at >> HCQI_TAG_SHIFT == op.address >> HCQI_TAG_SHIFT; /* both are placeholders */
    }
    HCQI_CHECK(queue, HCQI_NONE, takes, HCQ_ERROR_INVALID,
               "buffer: a placeholder that is no argument of command %u, which so cannot get "
               "at it", p->index);
    HCQI_CHECK(queue, HCQI_NONE, room, HCQ_ERROR_OUT_OF_MEMORY, "queue: out of memory");
    access = (access != HCQ_ARG_OUT ? (uint32_t)HCQI_READ : 0) |
             (access != HCQ_ARG_IN ? (uint32_t)HCQI_WRITE : 0);
    hcqi_stated stated = { p->index, 0, access, op.a, op.dev, op.address, buffer.size };
    hcqi_stated_add(queue, stated);
    return hcqi_queue_changed(queue);
}

HCQI_DEF hcq_result hcq_graph_edge(hcq_queue *graph, int32_t before, int32_t after) {
    uint32_t first = (uint32_t)before;
    HCQI_PASS(hcqi_queue_check(graph));
    hcqi_graph *g = graph->graph;
    int room = g == NULL || HCQI_ROOM(graph, g->orders, g->order_capacity, g->order_count + 1);
    HCQI_PASS(hcqi_graph_enter(graph));
    if (first >= graph->count) { return hcqi_command_refuse(graph, "before", before); }
    if ((uint32_t)after >= graph->count) { return hcqi_command_refuse(graph, "after", after); }
    HCQI_CHECK(graph, HCQI_NONE, before < after, HCQ_ERROR_INVALID,
               "before: is not recorded before after");
    HCQI_CHECK(graph, HCQI_NONE, room, HCQ_ERROR_OUT_OF_MEMORY, "queue: out of memory");
    hcqi_link *o = &g->orders[g->order_count++];
    o->of = first;
    o->next = graph->metas[after].orders;
    graph->metas[after].orders = g->order_count;
    return hcqi_queue_changed(graph);
}

/* ========================================================================== */
/* ---- graphs: what calls touch --------------------------------- >>touching - */

/* Bytes that one call reads or writes, of memory of `dev`. `base` is whose addresses
   they are: an input, an empty, host memory, a device's memory. */
typedef struct hcqi_touch {
    hcq_device *dev;
    uint32_t base, access;
    uint64_t first, end;
} hcqi_touch;

/* Bytes that all touches so far treated alike. Readers since the last writer
   are a list that split ranges share. */
typedef struct hcqi_range {
    uint64_t first, end;
    uint32_t writer, readers;          /* call, hcqi_plan.readers; HCQI_NONE */
    uint64_t slices, writers;          /* that touch it, that write it */
} hcqi_range;

typedef struct hcqi_base { hcqi_range *ranges; uint32_t count, capacity; } hcqi_base;

static hcqi_plan *hcqi_plan_of(const hcq_queue *q) { return &q->graph->plan; }

static void hcqi_set_add(hcqi_set *set, uint32_t n) {
    set->words[n / 64] |= (uint64_t)1 << n % 64;
    if (n >= set->end) { set->end = n + 1; }
}

static int hcqi_set_has(const hcqi_set *set, uint32_t n) {
    return (set->words[n / 64] >> n % 64 & 1) != 0;
}

/* The next number in it, from `n` on; set->end = none. */
static uint32_t hcqi_set_next(const hcqi_set *set, uint32_t n) {
    while (n < set->end && !hcqi_set_has(set, n)) { n++; }
    return n;
}

#define HCQI_NUMBERS(n, set) \
    for (uint32_t n = hcqi_set_next(set, 0); n < (set)->end; n = hcqi_set_next(set, n + 1))

/* `size` 0: up to the end. Host memory is one base whoever allocated it, so that imports meet. */
static void hcqi_touch_set(const hcq_queue *q, hcqi_touch *t, const hcqi_allocation *a,
                           uint64_t address, uint64_t size) {
    if (a == NULL) {
        const hcqi_input *in = hcqi_placeholder_find(q, address);
        t->dev = in->dev;
        t->base = hcqi_placeholder_number(address);
        t->first = hcqi_placeholder_offset(address);
        t->end = size == 0 ? in->size : t->first + size;
        return;
    }
    t->dev = a->dev;
    uint64_t offset = address - a->memory.address;
    uint64_t start = a->memory.host != NULL ? (uint64_t)(uintptr_t)a->memory.host
                                            : a->memory.address;
    t->base = HCQ_MAX_VALUES + q->graph->empty_count +
              (a->memory.host != NULL ? 0 : a->dev->slot + 1);
    t->first = start + offset;
    t->end = size == 0 ? start + a->memory.size : t->first + size;
}

static int hcqi_touch_add(hcq_queue *q, const hcqi_allocation *a, uint64_t address, uint64_t size,
                          uint32_t access) {
    hcqi_plan *plan = hcqi_plan_of(q);
    hcqi_touch *t = HCQI_PUSH(&plan->arena.hooks, plan->touches, plan->touch_count,
                              plan->touch_capacity);
    if (t == NULL) { return 0; }
    hcqi_touch_set(q, t, a, address, size);
    t->access = access;
    if (t->base >= HCQ_MAX_VALUES) { return 1; }
    hcqi_set_add(&plan->inputs, t->base);
    if (access & HCQI_WRITE) { hcqi_set_add(&plan->written, t->base); }
    return 1;
}

/* Does what was stated at `address` say all of an argument of command `i` there? What several
   arguments are that have it, that has to be stated. */
static int hcqi_touch_stated(const hcq_queue *q, uint32_t i, uint64_t address, uint32_t access) {
    uint32_t stated = 0, same = 0;
    for (uint32_t at = q->metas[i].stated; at != 0; at = q->stated[at - 1].next) {
        if (q->stated[at - 1].address == address) { stated |= q->stated[at - 1].access; }
    }
    for (uint32_t k = 0; stated != 0 && k < q->metas[i].name_count; k++) {
        same += hcqi_name_address(q, i, k) == address;
    }
    return stated != 0 && (same == 1 || (access & ~stated) == 0);
}

/* Lists what a call reads and writes, a copy's target first; 0 = out of memory. */
static int hcqi_touch_call(hcq_queue *q, const hcqi_call *c) {
    uint32_t i = c->command;
    const hcq_packet *p = &q->packets[i];
    const hcqi_meta *m = &q->metas[i];
    int ok = p->kind != HCQ_COMMAND_ALLOC || hcqi_touch_add(q, NULL, p->u.fill.dst, 0, HCQI_WRITE);
    for (uint32_t k = 0; ok && k < m->name_count; k++) {
        uint64_t address = hcqi_name_address(q, i, k);
        uint64_t size = p->u.copy.size; /* fill's and write's is there, too */
        uint32_t access = k != 0 ? HCQI_READ : HCQI_WRITE;
        if (c->half == k + 1) { /* where it begins: that is one memory for both halves */
            const hcqi_allocation *a = hcqi_bridge_end(&q->graph->bridges[c->bridge], 1);
            ok = hcqi_touch_add(q, a, a->memory.address, size, access);
            if (ok) { hcqi_plan_of(q)->touches[hcqi_plan_of(q)->touch_count - 1].dev = c->dev; }
            continue;
        }
        if (p->kind == HCQ_COMMAND_EXEC) {
            const hcq_program *program = p->u.exec.program;
            uint32_t number = hcqi_name_arg(program, k);
            int grid = number == program->info.arg_count;
            uint32_t arg = grid ? (uint32_t)HCQ_ARG_IN : program->desc.args[number] & 0xff;
            access = (arg == HCQ_ARG_OUT ? 0 : (uint32_t)HCQI_READ) |
                     (arg == HCQ_ARG_IN ? 0 : (uint32_t)HCQI_WRITE);
            size = grid ? HCQI_GRID_BYTES : 0;
            if (!grid && hcqi_touch_stated(q, i, address, access)) { continue; }
        }
        ok = hcqi_touch_add(q, q->names[m->name_first + k], address, size, access);
        uint32_t input = hcqi_placeholder_number(address);
        if (!hcqi_is_placeholder(address) || input >= HCQ_MAX_VALUES) { continue; }
        uint8_t *align = &hcqi_plan_of(q)->aligns[input];
        uint32_t own = 1;
        if (p->kind == HCQ_COMMAND_FILL) { own = p->value_size; }
        if (p->kind == HCQ_COMMAND_EXEC && size == HCQI_GRID_BYTES) { own = 4; }
        if (*align < own) { *align = (uint8_t)own; }
        int stores = k == 0 && p->kind != HCQ_COMMAND_EXEC;
        if (stores) { hcqi_set_add(&hcqi_plan_of(q)->stored, input); }
    }
    for (uint32_t at = m->stated; ok && at != 0; at = q->stated[at - 1].next) {
        const hcqi_stated *t = &q->stated[at - 1];
        ok = hcqi_touch_add(q, t->a, t->address, t->size, t->access);
    }
    return ok;
}

/* A call follows `from`, too. */
static int hcqi_plan_edge(hcq_queue *q, uint32_t from, uint32_t to) {
    hcqi_plan *plan = hcqi_plan_of(q);
    if (from == HCQI_NONE || from == to || plan->calls[from].mark == to + 1) { return 1; }
    uint32_t *edge = HCQI_PUSH(&plan->arena.hooks, plan->edges, plan->edge_count,
                               plan->edge_capacity);
    if (edge == NULL) { return 0; }
    plan->calls[from].mark = to + 1;
    *edge = from;
    return 1;
}

/* The first range of a base that ends above `address`. */
static uint32_t hcqi_range_at(const hcqi_base *base, uint64_t address) {
    uint32_t low = 0, high = base->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (base->ranges[mid].end <= address) { low = mid + 1; } else { high = mid; }
    }
    return low;
}

static void hcqi_range_insert(hcqi_base *base, uint32_t at, hcqi_range r) {
    memmove(&base->ranges[at + 1], &base->ranges[at], (base->count - at) * sizeof r);
    base->ranges[at] = r;
    base->count++;
}

static void hcqi_range_split(hcqi_base *base, uint32_t at, uint64_t address) {
    hcqi_range_insert(base, at, base->ranges[at]);
    base->ranges[at].end = address;
    base->ranges[at + 1].first = address;
}

/* Makes the ranges of [first, end) exactly that, splitting at both ends and
   filling gaps; returns the first one's place, HCQI_NONE = out of memory. */
static uint32_t hcqi_range_cut(const hcq_memory_hooks *hooks, hcqi_base *base, uint64_t first,
                               uint64_t end) {
    uint32_t at = hcqi_range_at(base, first), begin = HCQI_NONE;
    while (begin == HCQI_NONE || first < end) {
        if (!HCQI_GROW(hooks, base->ranges, base->capacity, (uint64_t)base->count + 2)) {
            return HCQI_NONE;
        }
        uint64_t next = at < base->count ? base->ranges[at].first : UINT64_MAX;
        if (next < first) { hcqi_range_split(base, at++, first); }
        if (begin == HCQI_NONE) { begin = at; }
        if (next > first) {
            hcqi_range gap = { first, next < end ? next : end, HCQI_NONE, HCQI_NONE, 0, 0 };
            hcqi_range_insert(base, at, gap);
        } else if (base->ranges[at].end > end) {
            hcqi_range_split(base, at, end);
        }
        first = base->ranges[at++].end;
    }
    return begin;
}

/* Call `c` follows those that it meets at these bytes: readers the writer, a writer both. */
static int hcqi_touch_order(hcq_queue *q, const hcqi_touch *t, int writes, uint32_t c) {
    hcqi_plan *plan = hcqi_plan_of(q);
    const hcq_memory_hooks *hooks = &plan->arena.hooks;
    hcqi_base *base = &plan->bases[t->base];
    uint32_t at = hcqi_range_cut(hooks, base, t->first, t->end);
    if (at == HCQI_NONE) { return 0; }
    for (; at < base->count && base->ranges[at].first < t->end; at++) {
        hcqi_range *r = &base->ranges[at];
        if (!hcqi_plan_edge(q, r->writer, c)) { return 0; }
        if (!writes) {
            if (r->readers != HCQI_NONE && plan->readers[r->readers].of == c) { continue; }
            hcqi_link *reader = HCQI_PUSH(hooks, plan->readers, plan->reader_count,
                                          plan->reader_capacity);
            if (reader == NULL) { return 0; }
            reader->of = c;
            reader->next = r->readers;
            r->readers = plan->reader_count - 1;
            continue;
        }
        for (uint32_t k = r->readers; k != HCQI_NONE; k = plan->readers[k].next) {
            if (!hcqi_plan_edge(q, plan->readers[k].of, c)) { return 0; }
        }
        r->writer = c;
        r->readers = HCQI_NONE;
    }
    return 1;
}

static int hcqi_command_is_fence(const hcq_queue *q, uint32_t i) {
    uint32_t kind = q->packets[i].kind;
    return kind == HCQ_COMMAND_BARRIER ||
           ((kind == HCQ_COMMAND_HOST || kind == HCQ_COMMAND_CUSTOM) && q->metas[i].stated == 0);
}

/* Finds every edge of the graph: the earlier calls that each call follows. */
static int hcqi_plan_edges(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    const hcqi_link *orders = q->graph->orders;
    uint32_t fence = HCQI_NONE;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        hcqi_call *c = &plan->calls[i];
        int fences = hcqi_command_is_fence(q, c->command);
        c->touch_first = plan->touch_count;
        c->edge_first = plan->edge_count;
        int ok = hcqi_touch_call(q, c) && hcqi_plan_edge(q, fence, i);
        c->touch_count = plan->touch_count - c->touch_first;
        if (fences || q->packets[c->command].kind == HCQ_COMMAND_TIMESTAMP) {
            for (uint32_t k = fence + 1; ok && k < i; k++) { ok = hcqi_plan_edge(q, k, i); }
        }
        if (fences) { fence = i; }
        for (int writes = 0; writes < 2; writes++) { /* reads first: what was there before */
            for (uint32_t k = 0; ok && k < c->touch_count; k++) {
                const hcqi_touch *t = &plan->touches[c->touch_first + k];
                if ((t->access & (uint32_t)(writes ? HCQI_WRITE : HCQI_READ)) == 0) { continue; }
                ok = hcqi_touch_order(q, t, writes, i);
            }
        }
        uint32_t ordered = c->half == HCQI_IN ? 0 : q->metas[c->command].orders;
        for (uint32_t k = ordered; ok && k != 0; k = orders[k - 1].next) {
            ok = hcqi_plan_edge(q, plan->firsts[orders[k - 1].of + 1] - 1, i);
        }
        if (!ok) { return 0; }
        c->edge_count = plan->edge_count - c->edge_first;
    }
    return 1;
}

/* ========================================================================== */
/* ---- graphs: the plan ---------------------------------------- >>planning - */
/* From edges (>>touching) to what each lane runs: a device and a lane for every
   call, the waits between lanes, and what two launches in a row must know. */

typedef struct hcqi_piece { struct hcqi_piece *next; size_t size, used; } hcqi_piece;

#define HCQI_PIECE_HEAD ((size_t)64)   /* what is taken begins with a cache line, too */

/* hcq_memory_hooks of an arena: takes from its pieces, gives nothing back. */
static void *hcqi_arena_take(void *user, size_t size, size_t align) {
    hcqi_arena *arena = HCQI_CAST(hcqi_arena *, user);
    hcqi_piece **at = &arena->pieces;
    size_t whole = 4096;               /* each piece is as large as all before it */
    (void)align;
    size = (size + HCQI_PIECE_HEAD - 1) & ~(HCQI_PIECE_HEAD - 1);
    while (*at != NULL && (*at)->size - (*at)->used < size) {
        whole += (*at)->size;
        at = &(*at)->next;
    }
    if (*at == NULL) {
        if (whole < size + HCQI_PIECE_HEAD) { whole = size + HCQI_PIECE_HEAD; }
        *at = HCQI_CAST(hcqi_piece *, hcqi_new(arena->from, whole));
        if (*at == NULL) { return NULL; }
        (*at)->size = whole;
        (*at)->used = HCQI_PIECE_HEAD;
    }
    (*at)->used += size;
    return (uint8_t *)*at + (*at)->used - size;
}

static void hcqi_arena_keep(void *user, void *ptr, size_t size) {
    (void)user;
    (void)ptr;
    (void)size;
}

/* Forgets what was taken; the pieces stay for what is made now. */
static void hcqi_arena_begin(hcqi_arena *arena, const hcq_memory_hooks *from) {
    arena->hooks.alloc_fn = hcqi_arena_take;
    arena->hooks.free_fn = hcqi_arena_keep;
    arena->hooks.user = arena;
    arena->from = from;
    for (hcqi_piece *p = arena->pieces; p != NULL; p = p->next) { p->used = HCQI_PIECE_HEAD; }
}

static void hcqi_arena_delete(hcqi_arena *arena) {
    while (arena->pieces != NULL) {
        hcqi_piece *piece = arena->pieces;
        arena->pieces = piece->next;
        hcqi_delete(arena->from, piece, piece->size);
    }
}

/* An array of zeros, NULL = out of memory. */
#define HCQI_TAKE(arena, type, count)                                              \
    HCQI_CAST(type *, hcqi_new(&(arena)->hooks, (size_t)(count) * sizeof(type)))

/* ---- devices and lanes ---- */

/* The device's place in the plan, HCQI_NONE = it was closed. `serial`: another one may
   be where that was. */
static uint32_t hcqi_plan_device(hcq_queue *q, hcq_device *dev, uint64_t serial) {
    hcqi_plan *plan = hcqi_plan_of(q);
    uint32_t i = 0;
    while (i < plan->device_count && plan->devices[i].serial != serial) { i++; }
    if (i < plan->device_count) { return i; }
    if (!hcqi_device_is(dev, serial)) {
        hcqi_refuse(q->dev, HCQ_ERROR_CLOSED, "queue '%s': names a device that was closed",
                    q->label);
        return HCQI_NONE;
    }
    plan->devices[i].dev = dev;
    plan->devices[i].serial = serial;
    return plan->device_count++;
}

/* A host or custom command runs where it writes first, else where it reads first. */
static hcq_device *hcqi_command_device(const hcq_queue *q, uint32_t i) {
    hcq_device *reads = q->dev, *writes = NULL;
    if (q->metas[i].dev != NULL) { return q->metas[i].dev; }
    for (uint32_t at = q->metas[i].stated; at != 0; at = q->stated[at - 1].next) {
        const hcqi_stated *t = &q->stated[at - 1]; /* the first stated is the last here */
        if (t->access & HCQI_WRITE) { writes = t->dev; }
        reads = t->dev;
    }
    return writes != NULL ? writes : reads;
}

static hcq_result hcqi_plan_devices(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    uint32_t bridges = 0;
    for (uint32_t n = 0; n < q->graph->input_end; n++) {
        const hcqi_input *input = &q->graph->inputs[n];
        if (input->size != 0 && hcqi_plan_device(q, input->dev, input->serial) == HCQI_NONE) {
            return HCQ_ERROR_CLOSED;
        }
    }
    for (uint32_t i = 0; i < q->count; i++) {
        const hcqi_meta *m = &q->metas[i];
        const hcq_packet *p = &q->packets[i];
        hcq_device *dev = hcqi_command_device(q, i);
        if (hcqi_plan_device(q, dev, dev == m->dev ? m->dev_serial : dev->serial) == HCQI_NONE) {
            return HCQ_ERROR_CLOSED;
        }
        int encodes = p->kind != HCQ_COMMAND_CUSTOM ||
                      hcqi_custom_find(p->u.custom.type, dev->backend) != NULL;
        HCQI_REFUSE_UNLESS(q->dev, encodes, HCQ_ERROR_UNSUPPORTED,
                           "queue '%s': command %u has no encode function for backend %s",
                           q->label, i, dev->backend->name);
        plan->firsts[i] = plan->call_count;
        uint32_t two = m->from != NULL;
        if (two && hcqi_plan_device(q, m->from, m->from->serial) == HCQI_NONE) {
            return HCQ_ERROR_CLOSED;
        }
        for (uint32_t half = two; half <= 2 * two; half++) {
            hcqi_call *c = &plan->calls[plan->call_count++];
            c->dev = half == HCQI_OUT ? m->from : dev;
            c->command = i;
            c->half = half;
            c->bridge = bridges;
        }
        bridges += two;
    }
    plan->firsts[q->count] = plan->call_count;
    plan->home = hcqi_plan_device(q, q->dev, q->dev->serial);
    return plan->home == HCQI_NONE ? HCQ_ERROR_CLOSED : HCQ_OK;
}

/* Memory for empties and bridges; what they had before stays if it will do. */
static hcq_result hcqi_plan_memory(hcq_queue *q) {
    hcqi_graph *g = q->graph;
    if (!HCQI_GROW(&q->dev->hooks, g->bridges, g->bridge_capacity, g->plan.bridge_count)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < g->empty_count; i++) {
        hcqi_input *e = &g->empties[i];
        if (e->a != NULL) { continue; }
        HCQI_PASS(hcqi_alloc(e->dev, e->size, e->flags, 0, 0, &e->a));
        e->a->names++;
    }
    for (uint32_t i = 1; g->plan.bridge_count != 0 && i < g->plan.call_count; i++) {
        const hcqi_call *c = &g->plan.calls[i];
        if (c->half != HCQI_IN) { continue; }
        HCQI_PASS(hcqi_bridge_make(&g->bridges[c->bridge], c->dev, c[-1].dev,
                                   q->packets[c->command].u.copy.size));
    }
    return HCQ_OK;
}

static int hcqi_packet_may_copy(const hcq_packet *p) {
    return p->kind == HCQ_COMMAND_COPY && p->u.copy.size >= HCQI_COPY_BYTES;
}

/* Copies of the device that have a lane of their own, by where the data is from: those
   with a command of the compute lane between the last one before them and the first one
   behind. `before` and `after` are scratch: which command that is of each call. */
static void hcqi_plan_copies(hcq_queue *q, const hcq_device *dev, uint32_t *before,
                             uint32_t *after) {
    hcqi_plan *plan = hcqi_plan_of(q);
    uint32_t total = 0;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const hcqi_call *c = &plan->calls[i];
        const hcq_packet *p = &q->packets[c->command];
        int stays = c->dev == dev && !hcqi_packet_may_copy(p) && p->kind != HCQ_COMMAND_ALLOC;
        before[i] = 0;
        for (uint32_t k = 0; k < c->edge_count; k++) {
            uint32_t seen = before[plan->edges[c->edge_first + k]];
            if (seen > before[i]) { before[i] = seen; }
        }
        if (stays) { before[i] = ++total; }
        after[i] = stays ? total : HCQI_NONE;
    }
    for (uint32_t i = plan->call_count; i-- > 0;) {
        hcqi_call *c = &plan->calls[i];
        int copies = c->dev == dev && hcqi_packet_may_copy(&q->packets[c->command]);
        for (uint32_t k = 0; k < c->edge_count; k++) {
            uint32_t *from = &after[plan->edges[c->edge_first + k]];
            if (after[i] < *from) { *from = after[i]; }
        }
        uint32_t end = after[i] == HCQI_NONE ? total + 1 : after[i];
        if (copies && end - before[i] > 1) {
            const hcq_device *from = plan->touches[c->touch_first + 1].dev;
            c->lane = dev->caps.compute_lanes + from->slot % dev->caps.copy_lanes;
        }
    }
}

/* Calls are on lane 0, but copies where that helps: not if all is one run of commands of
   a backend that takes edges, which let copies run beside kernels on one lane. */
static hcq_result hcqi_plan_lanes(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    const hcq_device *first = NULL;
    uint32_t *scratch = HCQI_TAKE(&plan->arena, uint32_t, 2 * (uint64_t)plan->call_count);
    int whole = 1, copies = 0;
    if (scratch == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const hcq_packet *p = &q->packets[plan->calls[i].command];
        const hcq_device *dev = plan->calls[i].dev;
        uint8_t kind = p->kind;
        if (kind == HCQ_COMMAND_ALLOC) { continue; }
        if (first == NULL) { first = dev; }
        copies |= hcqi_packet_may_copy(p);
        whole &= dev == first && dev->caps.edges && kind != HCQ_COMMAND_HOST &&
                 kind != HCQ_COMMAND_CUSTOM;
    }
    for (uint32_t d = 0; copies && !whole && d < plan->device_count; d++) {
        const hcq_device *dev = plan->devices[d].dev;
        if (dev->caps.copy_lanes == 0 || dev->caps.copy_shared) { continue; }
        hcqi_plan_copies(q, dev, scratch, scratch + plan->call_count);
    }
    return HCQ_OK;
}

/* Deals the calls to slices, and makes room for what is known of those. */
static hcq_result hcqi_plan_slices(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    for (uint32_t i = 0; i < plan->call_count; i++) {
        hcqi_call *c = &plan->calls[i];
        uint32_t k = 0;
        c->slice = HCQI_NONE;
        if (q->packets[c->command].kind == HCQ_COMMAND_ALLOC) { continue; }
        while (k < plan->slice_count &&
               (plan->slices[k].dev != c->dev || plan->slices[k].lane != c->lane)) {
            k++;
        }
        HCQI_REFUSE_UNLESS(q->dev, k < HCQI_MAX_SLICES, HCQ_ERROR_LIMIT,
                           "queue '%s': uses over %d lanes", q->label, HCQI_MAX_SLICES);
        hcqi_slice *slice = &plan->slices[k];
        if (k == plan->slice_count) {
            slice->dev = c->dev;
            slice->lane = c->lane;
            slice->calls = HCQI_TAKE(&plan->arena, uint32_t, plan->call_count - i);
            if (slice->calls == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
            plan->slice_count++;
        }
        slice->calls[slice->count++] = i;
        c->slice = k;
        c->place = slice->count;
    }
    uint64_t n = plan->slice_count;
    plan->clocks = HCQI_TAKE(&plan->arena, uint32_t, plan->call_count * n);
    plan->waits = HCQI_TAKE(&plan->arena, uint32_t, plan->edge_count);
    plan->patches = HCQI_TAKE(&plan->arena, hcqi_patch,
                              q->name_count + 2 * (uint64_t)q->patch_count); /* of both halves */
    plan->cross = HCQI_TAKE(&plan->arena, hcqi_set, n * n);
    return plan->clocks == NULL || plan->waits == NULL || plan->patches == NULL ||
                   plan->cross == NULL ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_OK;
}

/* ---- waits ---- */

#ifndef HCQI_PLAN_FORGETS               /* a test's: this edge, on purpose */
#define HCQI_PLAN_FORGETS 0
#endif

/* The waits between slices, and which commands of a slice may overlap: those
   that need nothing since the last one of it that does not. A call's clock is what is
   known to be done when it is: of each slice, up to which place. */
static void hcqi_plan_waits(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    uint32_t group[HCQI_MAX_SLICES];
    size_t n = plan->slice_count;
    memset(group, 0, sizeof group);
    for (uint32_t i = 0; i < plan->call_count; i++) {
        hcqi_call *c = &plan->calls[i];
        uint32_t *clock = &plan->clocks[i * n];
        if (c->slice == HCQI_NONE) { continue; }
        if (c->place > 1) {
            size_t last = plan->slices[c->slice].calls[c->place - 2];
            memcpy(clock, &plan->clocks[last * n], n * sizeof *clock);
        }
        c->overlap = c->place > 1;
        c->wait_first = plan->wait_count;
        for (;;) {                     /* the latest first: it may bring the others */
            hcqi_call *late = NULL;
            for (uint32_t k = 0; k < c->edge_count; k++) {
                hcqi_call *from = &plan->calls[plan->edges[c->edge_first + k]];
                if (from->slice == HCQI_NONE) { continue; }
                int newer = from->place > clock[from->slice];
                if (newer && (late == NULL || from > late)) { late = from; }
                c->overlap &= from->slice != c->slice || from->place < group[c->slice];
            }
            if (late == NULL) { break; }
            clock[late->slice] = late->place;
            if (HCQI_PLAN_FORGETS) { continue; }
            const uint32_t *known = &plan->clocks[(size_t)(late - plan->calls) * n];
            for (uint32_t m = 0; m < n; m++) {
                if (known[m] > clock[m]) { clock[m] = known[m]; }
            }
            plan->waits[plan->wait_count++] = (uint32_t)(late - plan->calls);
            plan->slices[late->slice].syncs += late->signals == 0;
            late->signals = 1;
            c->overlap = 0;
        }
        c->wait_count = plan->wait_count - c->wait_first;
        plan->slices[c->slice].syncs += c->wait_count + (c->half == HCQI_IN);
        if (!c->overlap) { group[c->slice] = c->place; }
        clock[c->slice] = c->place;
    }
}

static void hcqi_plan_patch(hcqi_plan *plan, hcqi_patch patch) {
    hcqi_call *c = &plan->calls[patch.command];
    patch.next = c->patches;
    plan->patches[plan->patch_count++] = patch;
    c->patches = plan->patch_count;
}

/* What launches bring for each slice: addresses of inputs, variables. */
static void hcqi_plan_patches(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    for (uint32_t s = 0; s < plan->slice_count; s++) {
        hcqi_slice *slice = &plan->slices[s];
        slice->patch_first = plan->patch_count;
        for (uint32_t k = 0; q->graph->input_end != 0 && k < slice->count; k++) {
            const hcqi_call *c = &plan->calls[slice->calls[k]];
            for (uint32_t name = 0; name < q->metas[c->command].name_count; name++) {
                uint64_t address = hcqi_name_address(q, c->command, name);
                uint32_t n = hcqi_placeholder_number(address);
                if (!hcqi_is_placeholder(address) || n >= HCQ_MAX_VALUES) { continue; }
                if (c->half == name + 1) { continue; } /* the bridge is there instead */
                hcqi_patch patch = { slice->calls[k], 0, hcqi_name_at(q, c->command, name),
                                     (uint16_t)q->graph->inputs[n].value, (uint8_t)n, 8,
                                     hcqi_placeholder_offset(address) };
                hcqi_plan_patch(plan, patch);
                hcqi_set_add(&slice->inputs, n);
            }
        }
        for (uint32_t k = 0; k < q->patch_count; k++) {
            hcqi_patch patch = q->patches[k];
            uint32_t end = plan->firsts[patch.command + 1];
            patch.command = plan->firsts[patch.command];
            for (; patch.command < end; patch.command++) {
                if (plan->calls[patch.command].slice == s) { hcqi_plan_patch(plan, patch); }
            }
        }
        slice->patch_count = plan->patch_count - slice->patch_first;
    }
}

/* ---- the next launch ---- */

/* Slice `a` and `others` of the launch before, or the other way round, meet in a base;
   HCQI_NONE: whatever the inputs are. */
static void hcqi_plan_cross(hcqi_plan *plan, uint32_t a, uint64_t others, uint32_t base) {
    uint32_t n = plan->slice_count;
    HCQI_BITS(b, others) {
        hcqi_set *both[] = { &plan->cross[a * n + b], &plan->cross[b * n + a] };
        for (uint32_t k = 0; k < 2; k++) {
            if (base < HCQ_MAX_VALUES) { hcqi_set_add(both[k], base); }
            if (base >= HCQ_MAX_VALUES) { both[k]->end = HCQI_NONE; }
        }
    }
}

/* Which slices must wait for which of the launch before, should the two overlap; fences and stated
   edges count like shared memory. And whose memory slices touch: that device's work before the
   launch comes first, its later work waits for them. */
static hcq_result hcqi_plan_crossings(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    uint64_t all = plan->slice_count == 0 ? 0 : UINT64_MAX >> (64 - plan->slice_count);
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const hcqi_call *c = &plan->calls[i];
        uint64_t bit = c->slice == HCQI_NONE ? 0 : (uint64_t)1 << c->slice;
        for (uint32_t k = 0; k < c->touch_count; k++) {
            const hcqi_touch *t = &plan->touches[c->touch_first + k];
            const hcqi_base *base = &plan->bases[t->base];
            if (t->dev != c->dev) {
                uint32_t d = hcqi_plan_device(q, t->dev, t->dev->serial);
                if (d == HCQI_NONE) { return HCQ_ERROR_CLOSED; }
                plan->devices[d].users |= bit;
            }
            uint32_t at = bit == 0 || bit == all ? base->count : hcqi_range_at(base, t->first);
            for (; at < base->count && base->ranges[at].first < t->end; at++) {
                hcqi_range *r = &base->ranges[at];
                uint64_t writes = t->access & HCQI_WRITE ? bit : 0;
                if ((r->slices & bit) != 0 && (r->writers & writes) == writes) { continue; }
                r->slices |= bit;
                r->writers |= writes;
                hcqi_plan_cross(plan, c->slice, writes != 0 ? r->slices : r->writers, t->base);
            }
        }
        HCQI_BITS(a, hcqi_command_is_fence(q, c->command) ? all : 0) {
            hcqi_plan_cross(plan, a, all, HCQI_NONE);
        }
        for (uint32_t k = q->metas[c->command].orders; k != 0; k = q->graph->orders[k - 1].next) {
            uint32_t before = q->graph->orders[k - 1].of;
            for (uint32_t n = plan->firsts[before]; n < plan->firsts[before + 1]; n++) {
                uint32_t slice = plan->calls[n].slice;
                if (slice != HCQI_NONE) { hcqi_plan_cross(plan, slice, bit, HCQI_NONE); }
            }
        }
    }
    for (uint32_t k = 0; k < plan->slice_count; k++) {
        uint64_t away = plan->slices[k].dev != q->dev;
        plan->devices[plan->home].users |= away << k;
    }
    return HCQ_OK;
}

/* ---- all of it ---- */

/* Forgets the plan: from here on, should making one fail, too, it has another number, for who
   makes a version of it at this moment. */
static hcq_result hcqi_plan_begin(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    hcqi_arena arena = plan->arena;
    uint64_t serial = plan->serial;
    memset(plan, 0, sizeof *plan);
    plan->serial = serial + 1;
    plan->arena = arena;
    hcqi_arena_begin(&plan->arena, &q->dev->hooks);
    for (uint32_t i = 0; i < q->count; i++) { plan->bridge_count += q->metas[i].from != NULL; }
    plan->bases = HCQI_TAKE(&plan->arena, hcqi_base,
                            HCQ_MAX_VALUES + q->graph->empty_count + 1 + HCQI_MAX_DEVICES);
    plan->calls = HCQI_TAKE(&plan->arena, hcqi_call, (uint64_t)q->count + plan->bridge_count);
    plan->firsts = HCQI_TAKE(&plan->arena, uint32_t, (uint64_t)q->count + 1);
    const hcq_memory_hooks *hooks = &plan->arena.hooks; /* seldom more than two a call: */
    int room = HCQI_GROW(hooks, plan->touches, plan->touch_capacity, 2 * (uint64_t)q->count) &&
               HCQI_GROW(hooks, plan->readers, plan->reader_capacity, 2 * (uint64_t)q->count) &&
               HCQI_GROW(hooks, plan->edges, plan->edge_capacity, 2 * (uint64_t)q->count);
    room = room && plan->bases != NULL && plan->calls != NULL && plan->firsts != NULL;
    return room ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY;
}

/* What versions are made from: if it stays, so may they. */
static uint64_t hcqi_plan_shape(const hcq_queue *q) {
    const hcqi_plan *plan = &q->graph->plan;
    uint64_t hash = plan->slice_count;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const hcqi_call *c = &plan->calls[i];
        hash = hcqi_hash(hash, c->dev->serial << 8 | c->lane);
        const hcqi_allocation *bridge = hcqi_call_bridge(q, c); /* other memory has another id */
        hash = hcqi_hash(hash, bridge == NULL ? 0 : bridge->id << 2 | c->half);
        hash = hcqi_hash(hash, (uint64_t)c->slice << 32 | c->place);
        hash = hcqi_hash(hash, (uint64_t)c->wait_count << 2 | c->signals << 1 | c->overlap);
        for (uint32_t k = 0; c->dev->caps.edges && k < c->edge_count; k++) {
            hash = hcqi_hash(hash, plan->edges[c->edge_first + k]);
        }
    }
    for (uint32_t k = 0; k < plan->wait_count; k++) { hash = hcqi_hash(hash, plan->waits[k]); }
    return hash;
}

static hcq_result hcqi_graph_living(hcq_queue *q) {
    const hcqi_plan *plan = &q->graph->plan;
    HCQI_PASS(hcqi_queue_check_names(q, q->dev, &q->graph->named_frees));
    for (uint32_t d = 0; d < plan->device_count; d++) {
        hcq_device *dev = plan->devices[d].dev;
        int open = hcqi_device_is(dev, plan->devices[d].serial) && !dev->closing;
        HCQI_REFUSE_UNLESS(q->dev, open, HCQ_ERROR_CLOSED,
                           "queue '%s': names a device that was closed", q->label);
        HCQI_REFUSE_UNLESS(q->dev, dev->lost == HCQ_OK, dev->lost, "device: takes no work");
    }
    return HCQ_OK;
}

static hcq_result hcqi_plan_make(hcq_queue *q) {
    hcqi_plan *plan = hcqi_plan_of(q);
    uint64_t shape = plan->shape;
    if (plan->generation == q->generation) { return hcqi_graph_living(q); }
    HCQI_PASS(hcqi_queue_check_names(q, q->dev, &q->graph->named_frees));
    HCQI_PASS(hcqi_plan_begin(q));
    HCQI_PASS(hcqi_plan_devices(q));
    HCQI_PASS(hcqi_plan_memory(q));
    if (!hcqi_plan_edges(q)) { return HCQ_ERROR_OUT_OF_MEMORY; }
    HCQI_PASS(hcqi_plan_lanes(q));
    HCQI_PASS(hcqi_plan_slices(q));
    HCQI_PASS(hcqi_plan_crossings(q));
    hcqi_plan_waits(q);
    hcqi_plan_patches(q);
    plan->shape = hcqi_plan_shape(q);
    if (plan->shape != shape) { q->generation++; }
    plan->generation = q->generation;
    return hcqi_graph_living(q);
}

static void hcqi_graph_pin(const hcqi_plan *plan) {
    for (uint32_t d = 0; d < plan->device_count; d++) { plan->devices[d].dev->pins++; }
}

static void hcqi_graph_unpin(const hcqi_plan *plan) {
    for (uint32_t d = 0; d < plan->device_count; d++) { hcqi_unpin(plan->devices[d].dev); }
}

/* ========================================================================== */
/* ---- graphs: the schedule ---------------------------------- >>scheduling - */
/* The plan as a list per device, with SYNC (all of this list so far is done) and
   WAIT (for another list's SYNC) between the commands. */

typedef enum hcqi_item_kind { HCQI_ITEM_CALL, HCQI_ITEM_SYNC, HCQI_ITEM_WAIT } hcqi_item_kind;

typedef struct hcqi_item {
    hcqi_item_kind kind;
    uint32_t list;
    uint32_t call;
    uint32_t sync;                     /* WAIT: its item */
    uint32_t waiters;                  /* SYNC */
    uint32_t order;                    /* in which HCQ_STEP does it */
    uint32_t next;                     /* of the list */
} hcqi_item;

typedef struct hcqi_list {
    hcq_device *dev;
    int copies;
    uint32_t first, last;              /* items, HCQI_NONE: it is empty */
    uint32_t *done;                    /* of each other list: items that its WAITs bring */
    uint32_t at;                       /* next in the order, HCQI_NONE: it is over */
    uint32_t parked;                   /* HCQI_NONE or the SYNC it waits for */
} hcqi_list;

typedef struct hcqi_schedule {
    hcq_queue *queue;
    uint32_t flags;                    /* of HCQ_STEP, print or dot */
    hcqi_arena arena;
    hcqi_item *items;
    uint32_t item_count;
    uint32_t *run;                     /* items by their order */
    hcqi_list *lists;
    uint32_t list_count;
} hcqi_schedule;

/* The list of a device, or of copies to it. */
static uint32_t hcqi_schedule_list(hcqi_schedule *sched, hcq_device *dev, int copies) {
    for (uint32_t k = 0; k < sched->list_count; k++) {
        if (sched->lists[k].dev == dev && sched->lists[k].copies == copies) { return k; }
    }
    hcqi_list *l = &sched->lists[sched->list_count]; /* two a device: there is room */
    l->dev = dev;
    l->copies = copies;
    l->first = l->last = HCQI_NONE;
    return sched->list_count++;
}

static uint32_t hcqi_schedule_add(hcqi_schedule *sched, uint32_t list, hcqi_item_kind kind) {
    hcqi_list *l = &sched->lists[list];
    uint32_t n = sched->item_count++;
    sched->items[n].kind = kind;
    sched->items[n].list = list;
    sched->items[n].next = HCQI_NONE;
    *(l->first == HCQI_NONE ? &l->first : &sched->items[l->last].next) = n;
    l->last = n;
    return n;
}

/* What comes next in a list is to follow `item` of list `from`, HCQI_NONE: all that is
   in it. Items are numbered as they are made, so a WAIT brings all below its SYNC. */
static void hcqi_schedule_wait(hcqi_schedule *sched, uint32_t list, uint32_t from,
                               uint32_t item) {
    uint32_t *done = &sched->lists[list].done[from]; /* those below this number are */
    uint32_t sync = sched->lists[from].last;
    if (from == list || item < *done) { return; }
    if (sync == HCQI_NONE || sched->items[sync].kind != HCQI_ITEM_SYNC) {
        sync = hcqi_schedule_add(sched, from, HCQI_ITEM_SYNC);
    }
    if (sync < *done) { return; }
    *done = sync + 1;
    uint32_t wait = hcqi_schedule_add(sched, list, HCQI_ITEM_WAIT);
    sched->items[wait].sync = sync;
    sched->items[sync].waiters++;
}

/* Adds a call, if it is one that schedules have. */
static hcq_result hcqi_schedule_call(hcqi_schedule *sched, uint32_t call) {
    const hcq_queue *q = sched->queue;
    const hcqi_plan *plan = &q->graph->plan;
    hcqi_call *c = &plan->calls[call];
    uint32_t i = c->command;
    const hcqi_touch *touches = &plan->touches[c->touch_first]; /* a copy's: target, source */
    uint32_t outputs = 0, away = 0;
    int copy = q->packets[i].kind == HCQ_COMMAND_COPY;
    for (uint32_t k = 0; k < c->touch_count; k++) {
        outputs += (touches[k].access & HCQI_WRITE) != 0;
        away += touches[k].dev != c->dev;
    }
    HCQI_REFUSE_UNLESS(q->dev, q->packets[i].kind != HCQ_COMMAND_EXEC || away == 0,
                       HCQ_ERROR_INVALID, "queue '%s': command %u is a kernel over several "
                       "devices, which HCQ_STEP and print do not do", q->label, i);
    HCQI_REFUSE_UNLESS(q->dev, !copy || outputs == 1, HCQ_ERROR_INVALID,
                       "queue '%s': command %u is a copy with %u outputs", q->label, i, outputs);
    uint32_t list = hcqi_schedule_list(sched, copy ? touches[0].dev : c->dev,
                                       copy && (sched->flags & HCQ_COPY_LISTS) != 0);
    if (copy) {
        uint32_t from = hcqi_schedule_list(sched, touches[1].dev, 0);
        hcqi_schedule_wait(sched, list, from, HCQI_NONE);
    }
    for (uint32_t k = 0; k < c->edge_count; k++) {
        uint32_t before = plan->calls[plan->edges[c->edge_first + k]].mark;
        hcqi_schedule_wait(sched, list, sched->items[before].list, before);
    }
    c->mark = hcqi_schedule_add(sched, list, HCQI_ITEM_CALL);
    sched->items[c->mark].call = call;
    return HCQ_OK;
}

/* Numbers the items in the order in which HCQ_STEP does them. The lists stand in a row,
   at first as in `start` (NULL: as they are); the first one's next item is done and it
   goes to the end. A SYNC lets the others pass as long as one has something else to do;
   a list with a WAIT for a SYNC to come leaves the row until then. */
static void hcqi_schedule_order(hcqi_schedule *sched, const uint32_t *start) {
    uint32_t row[HCQI_MAX_DEVICES * 2], count = sched->list_count, order = 0;
    for (uint32_t n = 0; n < sched->item_count; n++) { sched->items[n].order = HCQI_NONE; }
    for (uint32_t k = 0; k < count; k++) {
        row[k] = start == NULL ? k : start[k];
        sched->lists[k].at = sched->lists[k].first;
        sched->lists[k].parked = HCQI_NONE;
    }
    while (count != 0) {
        uint32_t list = row[0], n = sched->lists[list].at;
        memmove(row, row + 1, --count * sizeof row[0]);
        if (n == HCQI_NONE) { continue; }
        hcqi_item *item = &sched->items[n];
        if (item->kind == HCQI_ITEM_WAIT && sched->items[item->sync].order == HCQI_NONE) {
            sched->lists[list].parked = item->sync;
            continue;
        }
        int turn = 1;                  /* nobody else has something else to do */
        for (uint32_t k = 0; k < count && item->kind == HCQI_ITEM_SYNC; k++) {
            uint32_t at = sched->lists[row[k]].at;
            turn &= at == HCQI_NONE || sched->items[at].kind == HCQI_ITEM_SYNC;
        }
        if (turn) {
            item->order = order;
            sched->run[order++] = n;
            sched->lists[list].at = item->next;
            for (uint32_t k = 0; k < sched->list_count; k++) {
                if (sched->lists[k].parked == n) { row[count++] = k; }
            }
        }
        row[count++] = list;
    }
}

/* Makes the lists what the plan says; the arena is to be deleted in any case. */
static hcq_result hcqi_schedule_build(hcqi_schedule *sched, hcq_queue *q, uint32_t flags) {
    const hcqi_plan *plan = &q->graph->plan;
    memset(sched, 0, sizeof *sched);
    sched->queue = q;
    sched->flags = flags;
    HCQI_PASS(hcqi_plan_make(q));
    uint32_t lists = 2 * plan->device_count;
    /* A wait for each edge and each copy at most, each with a SYNC: */
    uint64_t items = 3 * (uint64_t)plan->call_count + 2 * (uint64_t)plan->edge_count;
    hcqi_arena_begin(&sched->arena, &q->dev->hooks);
    sched->lists = HCQI_TAKE(&sched->arena, hcqi_list, lists);
    sched->items = HCQI_TAKE(&sched->arena, hcqi_item, items);
    sched->run = HCQI_TAKE(&sched->arena, uint32_t, items);
    uint32_t *done = HCQI_TAKE(&sched->arena, uint32_t, lists * lists);
    int room = sched->lists != NULL && sched->items != NULL && sched->run != NULL && done != NULL;
    if (!room) { return HCQ_ERROR_OUT_OF_MEMORY; }
    for (uint32_t k = 0; k < lists; k++) { sched->lists[k].done = done + k * lists; }
    for (uint32_t i = 0; i < plan->call_count; i++) { HCQI_PASS(hcqi_schedule_call(sched, i)); }
    hcqi_schedule_order(sched, NULL);
    return HCQ_OK;
}

/* ---- as text ---- */

typedef enum hcqi_quotes { HCQI_PLAIN, HCQI_DOT, HCQI_JSON } hcqi_quotes;

#define HCQI_NAME_BYTES 192            /* a label's 31, each "\\u1234", in quotes */

/* The bytes of the UTF-8 character at `text`; 0: it is none, cut off by a label's length, say. */
static uint32_t hcqi_utf8(const char *text) {
    const unsigned char *c = HCQI_CAST(const unsigned char *, (const void *)text);
    uint32_t n = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (n == 1) { return 1; }
    if (c[0] < 0xc2 || c[0] > 0xf4) { return 0; }
    for (uint32_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) { return 0; } /* the text's end, too */
    }
    int wrong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f);
    return wrong ? 0 : n;
}

/* What is too long is cut off. A JSON string may stand in a page. */
static const char *hcqi_name_text(char out[HCQI_NAME_BYTES], const char *name, hcqi_quotes quotes) {
    const char *marked = quotes == HCQI_JSON ? "\"\\<>&'" : quotes == HCQI_DOT ? "\"\\" : "";
    char *to = out;
    if (quotes == HCQI_JSON) { *to++ = '"'; }
    for (uint32_t n; *name != 0 && to < out + HCQI_NAME_BYTES - 8; name += n == 0 ? 1 : n) {
        n = hcqi_utf8(name);
        int odd = n == 0 || (n == 1 && (*name < ' ' || *name == 127));
        int mark = n == 1 && strchr(marked, *name) != NULL;
        if (quotes == HCQI_JSON && (odd || mark)) {
            to += snprintf(to, 7, "\\u%04x", n == 0 ? 0xfffdu : (unsigned)*name);
        } else if (odd) {
            *to++ = '?';
        } else {
            if (mark) { *to++ = '\\'; }
            memcpy(to, name, n);
            to += n;
        }
    }
    if (quotes == HCQI_JSON) { *to++ = '"'; }
    *to = 0;
    return out;
}

static void hcqi_print_item(hcqi_text *t, const hcqi_schedule *sched, uint32_t n,
                            hcqi_quotes quotes) {
    char name[HCQI_NAME_BYTES];
    int dot = quotes == HCQI_DOT;
    const hcq_queue *q = sched->queue;
    const hcqi_item *item = &sched->items[n];
    if (dot) { hcqi_print(t, "    n%u [label=\"", n); }
    hcqi_print(t, dot ? "%u: " : "  %3u  ", item->order);
    if (item->kind == HCQI_ITEM_SYNC) {
        hcqi_print(t, "SYNC (%u waiting)", item->waiters);
    } else if (item->kind == HCQI_ITEM_WAIT) {
        const hcqi_item *sync = &sched->items[item->sync];
        const hcqi_list *l = &sched->lists[sync->list];
        hcqi_print(t, "WAIT %s%s %u", hcqi_name_text(name, l->dev->label, quotes),
                   l->copies ? "-copy" : "", sync->order);
    } else {
        static const char *const halves[] = { "", " to staging", " from staging" };
        const hcqi_call *c = &q->graph->plan.calls[item->call];
        const hcq_packet *p = &q->packets[c->command];
        const char *kind = hcqi_kind_text(p->kind), *label = hcqi_packet_name(q, p);
        int same = strcmp(kind, label) == 0;
        hcqi_print(t, "%s%s%s%s", kind, same ? "" : " ",
                   hcqi_name_text(name, same ? "" : label, quotes), halves[c->half]);
        if (!dot) { hcqi_print(t, "  [%u]", c->command); }
    }
    if (dot) { hcqi_print(t, item->kind == HCQI_ITEM_CALL ? "\"];" : "\", shape=ellipse];"); }
    hcqi_print(t, "\n");
}

static void hcqi_print_schedule(hcqi_text *t, const hcqi_schedule *sched, hcqi_quotes quotes) {
    char name[HCQI_NAME_BYTES];
    int dot = quotes == HCQI_DOT;
    const hcqi_item *items = sched->items;
    hcqi_name_text(name, sched->queue->label, quotes);
    if (dot) { hcqi_print(t, "digraph \"%s\" {\n  node [shape=box];\n", name); }
    for (uint32_t k = 0; k < sched->list_count; k++) {
        const hcqi_list *l = &sched->lists[k];
        if (dot) { hcqi_print(t, "  subgraph cluster_%u {\n    label=\"", k); }
        hcqi_print(t, dot ? "%s%s\";\n" : "%s%s\n", hcqi_name_text(name, l->dev->label, quotes),
                   l->copies ? "-copy" : "");
        for (uint32_t n = l->first; n != HCQI_NONE; n = items[n].next) {
            hcqi_print_item(t, sched, n, quotes);
            if (dot && n != l->last) { hcqi_print(t, "    n%u -> n%u;\n", n, items[n].next); }
        }
        if (dot) { hcqi_print(t, "  }\n"); }
    }
    for (uint32_t n = 0; dot && n < sched->item_count; n++) {
        if (items[n].kind != HCQI_ITEM_WAIT) { continue; }
        hcqi_print(t, "  n%u -> n%u [style=dashed, constraint=false];\n", items[n].sync, n);
    }
    if (dot) { hcqi_print(t, "}\n"); }
}

static size_t hcqi_schedule_text(hcq_queue *q, uint32_t flags, char *text, size_t size,
                                 hcqi_quotes quotes) {
    hcqi_text t;
    hcqi_schedule sched;
    hcqi_text_begin(&t, text, size);
    if (hcqi_graph_enter(q) != HCQ_OK) { return 0; }
    const char *bad = flags & ~(uint32_t)HCQ_COPY_LISTS ? "flags: unknown bits" : NULL;
    if (text == NULL && size != 0) { bad = "text: is NULL"; }
    hcq_result why = HCQ_ERROR_INVALID;
    if (q->changing) {
        bad = "queue: another thread appends to it or resets it";
        why = HCQ_ERROR_BUSY;
    }
    if (q->sticky != HCQ_OK) {
        bad = "queue: recording failed";
        why = q->sticky;
    }
    hcq_result r = bad != NULL ? hcqi_refuse(q->dev, why, "%s", bad)
                               : hcqi_schedule_build(&sched, q, flags);
    if (r == HCQ_OK) { hcqi_print_schedule(&t, &sched, quotes); }
    if (r == HCQ_ERROR_OUT_OF_MEMORY && bad == NULL) { (void)hcqi_oom(q->dev, "schedule"); }
    if (bad == NULL) { hcqi_arena_delete(&sched.arena); }
    hcqi_leave();
    return t.length;
}

HCQI_DEF size_t hcq_graph_print(hcq_queue *graph, uint32_t flags, char *text, size_t size) {
    return hcqi_schedule_text(graph, flags, text, size, HCQI_PLAIN);
}

HCQI_DEF size_t hcq_graph_dot(hcq_queue *graph, uint32_t flags, char *text, size_t size) {
    return hcqi_schedule_text(graph, flags, text, size, HCQI_DOT);
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- graphs: launching -------------------------------------- >>launching - */

/* What a launch works with while it is made; too large for the stack. */
typedef struct hcqi_making {
    hcqi_submit submits[HCQI_MAX_DEVICES]; /* as the plan's devices */
    hcq_submission other;              /* what devices but the home's get of it */
    hcqi_touch inputs[HCQ_MAX_VALUES];
    uint64_t values[HCQI_VALUE_WORDS]; /* for the slice that gets its version now */
} hcqi_making;

/* Whether the inputs are what was declared, and where they are. */
static hcq_result hcqi_graph_inputs(hcq_queue *q, const hcq_submission *sub, hcqi_touch *inputs) {
    HCQI_NUMBERS(n, &q->graph->plan.inputs) {
        hcqi_operand op = { NULL, NULL, 0, 0 };
        const hcqi_input *input = &q->graph->inputs[n];
        HCQI_PASS(hcqi_value_find(q, input->dev, sub, n, &op));
        HCQI_REFUSE_UNLESS(q->dev, op.a->dev == input->dev, HCQ_ERROR_FOREIGN,
                           "values: number %u, an input, is of another device", n);
        HCQI_REFUSE_UNLESS(q->dev, op.reach >= input->size, HCQ_ERROR_INVALID,
                           "values: number %u, an input, has %llu of %llu bytes", n,
                           (unsigned long long)op.reach, (unsigned long long)input->size);
        int stored = hcqi_set_has(&q->graph->plan.stored, n);
        HCQI_REFUSE_UNLESS(q->dev, !stored || !op.a->memory.read_only, HCQ_ERROR_INVALID,
                           "values: number %u, an input, " HCQI_READ_ONLY, n);
        uint32_t align = q->graph->plan.aligns[n];
        HCQI_REFUSE_UNLESS(q->dev, op.address % (align | !align) == 0, HCQ_ERROR_INVALID,
                           "values: number %u, an input, is not a multiple of %u", n, align);
        hcqi_touch_set(q, &inputs[n], op.a, op.address, input->size);
    }
    return HCQ_OK;
}

/* Inputs that two launches have at the same place; are they all? */
static int hcqi_inputs_same(const hcqi_plan *plan, const hcqi_touch *a, const hcqi_touch *b,
                            hcqi_set *same) {
    int all = 1;
    memset(same, 0, sizeof *same);
    HCQI_NUMBERS(n, &plan->inputs) {
        int here = a[n].base == b[n].base && a[n].first == b[n].first;
        if (here) { hcqi_set_add(same, n); }
        all &= here;
    }
    return all;
}

/* Two inputs, of a launch and of an earlier one or the same, that share memory, one of
   them written: other than the same input at the same place. HCQI_NONE: there are none. */
static uint32_t hcqi_inputs_clash(const hcqi_plan *plan, const hcqi_touch *now,
                                  const hcqi_touch *then, uint32_t *other) {
    HCQI_NUMBERS(n, &plan->inputs) {
        HCQI_NUMBERS(k, hcqi_set_has(&plan->written, n) ? &plan->inputs : &plan->written) {
            const hcqi_touch *a = &now[n], *b = &then[k];
            int same = n == k && a->first == b->first;
            *other = k;
            if (!same && a->base == b->base && a->first < b->end && b->first < a->end) { return n; }
        }
    }
    return HCQI_NONE;
}

static hcq_result hcqi_graph_alias(hcq_queue *q, const hcqi_touch *inputs) {
    const hcqi_graph *g = q->graph;
    const hcqi_plan *plan = &g->plan;
    const hcqi_launch *last = g->newest != NULL ? g->newest : g->idle;
    hcqi_set same;
    uint32_t other;
    if (last != NULL && last->plan == plan->serial && /* as they were then */
        hcqi_inputs_same(plan, inputs, last->inputs, &same)) {
        return HCQ_OK;
    }
    uint32_t one = hcqi_inputs_clash(plan, inputs, inputs, &other);
    HCQI_REFUSE_UNLESS(q->dev, one == HCQI_NONE, HCQ_ERROR_ALIAS,
                       "values: numbers %u and %u overlap and one is written", one, other);
    HCQI_NUMBERS(n, &plan->inputs) {
        const hcqi_base *b = &plan->bases[inputs[n].base];
        uint32_t at = hcqi_range_at(b, inputs[n].first);
        for (; at < b->count && b->ranges[at].first < inputs[n].end; at++) {
            int reads = !hcqi_set_has(&plan->written, n) && b->ranges[at].writer == HCQI_NONE;
            HCQI_REFUSE_UNLESS(q->dev, reads, HCQ_ERROR_ALIAS,
                               "values: number %u overlaps another buffer of the graph", n);
        }
    }
    return HCQ_OK;
}

/* ---- launches ---- */

static void hcqi_launch_release(hcqi_launch *launch) {
    hcq_queue *q = launch->queue;
    hcqi_graph *g = q->graph;
    if (--launch->jobs == 0) {
        g->flying--;
        *(launch->later != NULL ? &launch->later->earlier : &g->newest) = launch->earlier;
        if (launch->earlier != NULL) { launch->earlier->later = launch->later; }
        launch->earlier = g->idle;
        g->idle = launch;
    }
    hcqi_queue_done(q);
}

static HCQI_COLD hcq_result hcqi_launch_new(hcq_queue *q) {
    hcqi_graph *g = q->graph;
    hcqi_launch *launch = HCQI_CAST(hcqi_launch *, hcqi_new(&q->dev->hooks, sizeof *launch));
    if (launch == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    launch->queue = q;
    launch->earlier = g->idle;
    g->idle = launch;
    g->launch_count++;
    return HCQ_OK;
}

/* A signal for each slice, if there are others to wait for it; room for the inputs. */
static hcq_result hcqi_launch_room(hcqi_launch *launch) {
    hcq_queue *q = launch->queue;
    uint32_t slices = q->graph->plan.slice_count;
    if (!HCQI_GROW(&q->dev->hooks, launch->inputs, launch->input_capacity, q->graph->input_end)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    while (slices > 1 && launch->signal_count < slices) {
        hcqi_signal **signal = &launch->signals[launch->signal_count];
        HCQI_PASS(hcqi_signal_new(q->dev, HCQI_USER, 0, signal));
        hcqi_copy_label((*signal)->label, q->label);
        launch->signal_count++;
    }
    return HCQ_OK;
}

#define HCQI_MAX_EARLIER 8             /* launches that one looks at singly */

/* Does whoever follows `m` follow everything before it? Not if one of its
   devices may have been closed in the middle. */
static int hcqi_launch_ends_chain(const hcqi_plan *plan, const hcqi_launch *m) {
    return (m->full || m->cuts) && m->plan == plan->serial;
}

/* How an idle launch that is to overlap meets those in flight, up to one that follows all
   before it: which it does itself where there are too many. */
static void hcqi_launch_meet(hcqi_graph *g, hcqi_launch *launch, const hcqi_touch *inputs) {
    const hcqi_plan *plan = &g->plan;
    uint32_t other;
    launch->cuts = g->flying > HCQI_MAX_EARLIER;
    launch->waits = plan->device_count + plan->slice_count;
    for (hcqi_launch *m = launch->full ? NULL : g->newest; m != NULL; m = m->earlier) {
        m->whole = launch->cuts || m->plan != plan->serial ||
                   hcqi_inputs_clash(plan, inputs, m->inputs, &other) != HCQI_NONE;
        if (!m->whole) { hcqi_inputs_same(plan, inputs, m->inputs, &m->same); }
        launch->waits += m->slice_count;
        if (hcqi_launch_ends_chain(plan, m)) { break; }
    }
}

/* A slice follows what it must of an earlier launch: itself there, and those slices that
   it shares memory with. */
static void hcqi_job_follow(hcq_job *job, const hcqi_launch *m, hcqi_waiter **tail) {
    const hcqi_plan *plan = &m->queue->graph->plan;
    uint32_t slice = job->version->slice;
    for (uint32_t k = 0; k < m->slice_count; k++) {
        const hcqi_last *s = &m->slices[k];
        int meets = m->whole || k == slice;
        if (!meets) {
            const hcqi_set *x = &plan->cross[slice * plan->slice_count + k];
            meets = x->end == HCQI_NONE;
            for (uint32_t w = 0; w < HCQ_MAX_VALUES / 64; w++) {
                meets |= (x->words[w] & m->same.words[w]) != 0;
            }
        }
        if (!meets || !hcqi_last_unmet(s)) { continue; }
        hcqi_job_wait_for(job, tail, s->dev->exact, s->number);
        (*tail)->order = 1;
    }
}

/* What a job of a launch waits for beside its packets: its slice for earlier work. The end
   of a device's part for slices of other devices that touch its memory; the home's, which is
   the launch's, for all, and it fails with them. Does the job begin with a call that waits for
   no slice of its launch? */
static int hcqi_launch_waits(const hcqi_submit *s, hcq_job *job, hcqi_waiter **tail) {
    const hcqi_launch *launch = s->launch;
    const hcqi_graph *g = launch->queue->graph;
    HCQI_BITS(k, job->version == NULL ? s->gathers : 0) {
        hcqi_job_wait_for(job, tail, launch->slices[k].dev->exact, launch->slices[k].number);
        (*tail)->order = s->dev != launch->queue->dev;
        if (!(*tail)->order) { job->ends = 1; }
    }
    if (job->version == NULL) { return 1; }
    uint32_t first = g->plan.slices[job->version->slice].calls[0];
    int begins = g->plan.calls[first].wait_count == 0;
    uint32_t devices = launch->full && begins ? g->plan.device_count : 0;
    for (uint32_t d = 0; d < devices; d++) {
        const hcqi_submit *there = &g->making->submits[d];
        uint64_t before = there->first - 1;
        if (before <= there->dev->done_prefix && !HCQI_CHECKED) { continue; }
        hcqi_job_wait_for(job, tail, there->dev->timeline, before);
        (*tail)->order = 1;
    }
    for (const hcqi_launch *m = launch->full ? NULL : launch->earlier; m != NULL; m = m->earlier) {
        hcqi_job_follow(job, m, tail);
        if (hcqi_launch_ends_chain(&g->plan, m)) { break; }
    }
    return begins;
}

/* ---- one launch ---- */

/* The launch's list of values for a slice: inputs at the addresses that its device sees. */
static hcq_result hcqi_graph_values(hcq_queue *q, const hcq_submission *sub,
                                    const hcqi_slice *slice, uint64_t *values) {
    values[0] = 0;
    for (uint32_t k = 1; k <= q->value_count; k++) {
        hcqi_operand op;
        uint32_t n = q->keys[k] / 2;
        int input = q->keys[k] % 2;
        values[k] = input ? 0 : sub->values[n].number;
        if (!input || !hcqi_set_has(&slice->inputs, n)) { continue; }
        HCQI_PASS(hcqi_value_see(q, q->graph->inputs[n].dev, slice->dev, sub, k, values, &op));
    }
    return HCQ_OK;
}

/* Room and a version for each slice; may give up the lock. */
static hcq_result hcqi_graph_acquire(hcq_queue *q, const hcq_submission *sub, hcqi_making *w) {
    const hcqi_plan *plan = hcqi_plan_of(q);
    for (uint32_t k = 0; k < plan->slice_count; k++) {
        const hcqi_slice *slice = &plan->slices[k];
        uint32_t d = 0;
        while (plan->devices[d].dev != slice->dev) { d++; }
        hcqi_submit *s = &w->submits[d];
        HCQI_PASS(hcqi_graph_values(q, sub, slice, w->values));
        HCQI_PASS(hcqi_submit_acquire(s, q, k, &slice->dev->lanes[slice->lane], w->values));
        hcqi_version *v = s->versions[s->count - 1];
        v->named_frees = hcqi_core.named_frees;
        if (v->stamp_count != 0) { HCQI_PASS(hcqi_version_check_signals(v)); }
    }
    return HCQ_OK;
}

static hcq_result hcqi_graph_reserve(hcq_queue *q, hcqi_making *w, int full) {
    hcqi_graph *g = q->graph;
    if (g->idle == NULL) { HCQI_PASS(hcqi_launch_new(q)); }
    HCQI_PASS(hcqi_launch_room(g->idle));
    g->idle->full = full;
    hcqi_launch_meet(g, g->idle, w->inputs);
    for (uint32_t d = 0; d < g->plan.device_count; d++) {
        w->submits[d].launch = g->idle;
        HCQI_PASS(hcqi_submit_reserve(&w->submits[d]));
    }
    return HCQ_OK;
}

/* All or nothing: every device's submission gets its number under this lock. */
static void hcqi_graph_commit(hcqi_graph *g, hcqi_making *w) {
    const hcqi_plan *plan = &g->plan;
    hcqi_launch *launch = g->idle;
    g->idle = launch->earlier;
    launch->earlier = g->newest;
    launch->later = NULL;
    if (g->newest != NULL) { g->newest->later = launch; }
    g->newest = launch;
    g->flying++;
    launch->plan = plan->serial;
    launch->serial = ++hcqi_core.serial;
    launch->slice_count = plan->slice_count;
    HCQI_ORDER(hcqi_order_launched(g, launch));
    for (uint32_t k = 0; k < launch->signal_count; k++) {
        launch->signals[k]->value = 0;
        hcqi_signal_forgive(launch->signals[k]);
    }
    HCQI_NUMBERS(n, &plan->inputs) { launch->inputs[n] = w->inputs[n]; }
    for (uint32_t d = 0; d < plan->device_count; d++) {
        hcqi_submit *s = &w->submits[d];
        hcqi_submit_number(s);
        for (uint32_t i = 0; i < s->count; i++) {
            hcqi_last job = { s->dev, s->dev->serial, s->first + i, 0, 0 };
            launch->slices[s->versions[i]->slice] = job;
        }
    }
    for (uint32_t d = 0; d < plan->device_count; d++) { hcqi_submit_enlist(&w->submits[d]); }
}

static hcq_result hcqi_graph_launch(hcq_queue *q, hcqi_submit *home, hcqi_making *w) {
    const hcqi_plan *plan = &q->graph->plan;
    const hcq_submission *sub = home->sub;
    w->other = *sub;
    w->other.signal_count = 0;
    for (uint32_t d = 0; d < plan->device_count; d++) {
        hcq_device *dev = plan->devices[d].dev;
        hcqi_reap_device(dev);
        hcqi_submit_init(&w->submits[d], dev, d == plan->home ? sub : &w->other);
        w->submits[d].gathers = plan->devices[d].users;
        w->submits[d].deadline = home->deadline;
    }
    hcqi_graph_pin(plan);
    hcq_result r = hcqi_graph_acquire(q, sub, w);
    hcqi_graph_unpin(plan);
    if (r == HCQ_OK) { r = hcqi_graph_living(q); } /* the lock was given up, perhaps */
    if (r == HCQ_OK) { r = hcqi_graph_inputs(q, sub, w->inputs); }
    if (r == HCQ_OK && sub->wait_count + sub->signal_count != 0) { r = hcqi_submit_points(home); }
    if (r == HCQ_OK) { r = hcqi_graph_reserve(q, w, (sub->flags & HCQ_OVERLAP) == 0); }
    if (r != HCQ_OK) {
        for (uint32_t d = 0; d < plan->device_count; d++) { hcqi_submit_undo(&w->submits[d]); }
        return r;
    }
    hcqi_graph_commit(q->graph, w);
    home->first = w->submits[plan->home].first;
    home->number = w->submits[plan->home].number;
    hcqi_drain();
    return hcqi_submit_refused(home->dev, home->first, home->number);
}

/* ---- stepping ---- */
/* HCQ_STEP: a launch for each call, of the plan cut down to it, a native wait for each SYNC.
   Slow, for looking at what a schedule does. */

/* Runs a call, and waits until it is over: what it had to follow is. No lock. */
static hcq_result hcqi_step_call(hcq_queue *q, uint32_t call, const hcq_submission *launch) {
    hcqi_plan *plan = hcqi_plan_of(q);
    hcqi_call *c = &plan->calls[call];
    hcqi_slice *slice = &plan->slices[0];
    hcq_submission sub = *launch;
    hcqi_submit s;
    sub.wait_count = sub.signal_count = sub.flags = 0;
    hcqi_enter();
    hcqi_submit_init(&s, q->dev, &sub);
    memset(&slice->inputs, 0, sizeof slice->inputs);
    slice->dev = c->dev;
    slice->lane = c->lane;
    slice->calls[0] = call;
    slice->count = 1;
    slice->syncs = c->half == HCQI_IN;
    c->slice = 0;
    c->place = 1;
    c->wait_count = c->signals = c->overlap = c->patches = 0;
    plan->slice_count = 1;
    plan->patch_count = 0;
    hcqi_plan_patches(q);
    for (uint32_t d = 0; d < plan->device_count; d++) {
        plan->devices[d].users = plan->devices[d].dev != c->dev;
    }
    plan->generation = ++q->generation; /* no version is of this plan yet */
    hcq_result r = hcqi_graph_launch(q, &s, q->graph->making);
    hcq_point done = hcq_at(hcqi_signal_handle(q->dev->exact), s.number);
    c->slice = HCQI_NONE;
    hcqi_leave();
    if (r == HCQ_OK) { r = hcq_wait(&done, 1, HCQ_ALL, q->dev->desc.timeout_ns); }
    if (r != HCQ_OK) {
        hcqi_refuse_alone(q->dev, r, "queue '%s': the step of command %u failed", q->label,
                          c->command);
    }
    return r;
}

/* All items in their order, without the lock; the submission behind them raises the
   signals and is the launch's point. */
static hcq_result hcqi_step_walk(hcqi_submit *s, const hcqi_schedule *sched) {
    hcq_queue *q = sched->queue;
    const hcqi_plan *plan = &q->graph->plan;
    hcq_submission end = *s->sub;
    hcq_point done = { { 0 }, 0 };
    hcq_result r = HCQ_OK;
    for (uint32_t d = 0; r == HCQ_OK && d < plan->device_count; d++) {
        r = hcqi_synchronize(plan->devices[d].dev, plan->devices[d].dev->desc.timeout_ns, 0);
    }
    for (uint32_t i = 0; i < plan->call_count; i++) { plan->calls[i].slice = HCQI_NONE; }
    for (uint32_t n = 0; r == HCQ_OK && n < sched->item_count; n++) {
        const hcqi_item *item = &sched->items[sched->run[n]];
        hcq_device *dev = sched->lists[item->list].dev;
        if (item->kind == HCQI_ITEM_SYNC) {
            r = hcq_device_synchronize(dev, dev->desc.timeout_ns);
        } else if (item->kind == HCQI_ITEM_CALL &&
                   q->packets[plan->calls[item->call].command].kind != HCQ_COMMAND_ALLOC) {
            r = hcqi_step_call(q, item->call, s->sub);
        }
    }
    end.queue_count = end.wait_count = end.flags = 0;
    if (r == HCQ_OK) { r = hcq_submit(s->dev, &end, 1, &done); }
    s->number = done.value;
    return r == HCQ_OK ? hcq_wait(&done, 1, HCQ_ALL, s->dev->desc.timeout_ns) : r;
}

/* A launch with HCQ_STEP; gives up the lock meanwhile. */
static hcq_result hcqi_step_run(hcq_queue *q, hcqi_submit *s) {
    const hcq_submission *sub = s->sub;
    const hcqi_plan *plan = hcqi_plan_of(q);
    hcqi_schedule sched;
    if (hcqi_in_callback()) { return HCQ_ERROR_WOULD_BLOCK; }
    hcq_result r = hcqi_schedule_build(&sched, q, sub->flags);
    if (r == HCQ_OK && sub->wait_count + sub->signal_count != 0) { r = hcqi_submit_points(s); }
    int began = r == HCQ_OK;
    if (began) {
        hcqi_graph_pin(plan);
        hcqi_leave();
        r = hcq_wait(sub->waits, sub->wait_count, HCQ_ALL, q->dev->desc.timeout_ns);
        began = r != HCQ_TIMEOUT;      /* the signals are to be raised, or to fail */
        if (r == HCQ_OK) { r = hcqi_step_walk(s, &sched); }
        hcqi_enter();
        if (r == HCQ_TIMEOUT) { hcqi_timeout_tell(s->dev, "HCQ_STEP of queue", q->label); }
        hcqi_graph_unpin(plan);
        q->generation++;               /* the plan is not whole, and versions are not of it */
    }
    hcqi_arena_delete(&sched.arena);
    for (uint32_t i = 0; r != HCQ_OK && began && i < sub->signal_count; i++) {
        hcqi_signal *t = hcqi_signal_find(sub->signals[i].signal);
        hcq_result why = r < 0 ? r : HCQ_ERROR_CANCELLED;
        if (t != NULL) { hcqi_signal_break(t, sub->signals[i].value, why, NULL); }
    }
    return r;
}

static hcq_result hcqi_graph_run(hcqi_submit *s) {
    hcq_queue *q = s->sub->queues[0];
    hcqi_graph *g = q->graph;
    HCQI_PASS(hcqi_queue_ready(q, s->dev));
    HCQI_REFUSE_UNLESS(s->dev, q->dev == s->dev, HCQ_ERROR_FOREIGN,
                       "queue '%s': is a graph of another device", q->label);
    if (g->making == NULL) {
        g->making = HCQI_CAST(hcqi_making *, hcqi_new(&q->dev->hooks, sizeof(hcqi_making)));
    }
    if (g->making == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    HCQI_PASS(hcqi_plan_make(q));      /* what may be wrong and costs nothing to undo */
    HCQI_PASS(hcqi_graph_inputs(q, s->sub, g->making->inputs));
    HCQI_PASS(hcqi_graph_alias(q, g->making->inputs));
    HCQI_PASS(hcqi_values_take(q, q->dev, s->sub, g->making->values));
    return s->sub->flags & HCQ_STEP ? hcqi_step_run(q, s) : hcqi_graph_launch(q, s, g->making);
}

/* ---- binding ---- */

static HCQI_COLD hcq_result hcqi_graph_bind(hcq_queue *q, hcq_device *dev) {
    hcqi_graph *g = q->graph; /* so many launches that more are seldom in flight at once: */
    uint32_t count = 4 * q->dev->desc.versions < 16 ? 16 : 4 * q->dev->desc.versions;
    HCQI_REFUSE_UNLESS(dev, q->dev == dev, HCQ_ERROR_FOREIGN,
                       "queue '%s': is a graph of another device", q->label);
    HCQI_PASS(hcqi_plan_make(q));
    while (g->launch_count < count) { HCQI_PASS(hcqi_launch_new(q)); }
    for (hcqi_launch *m = g->idle; m != NULL; m = m->earlier) { HCQI_PASS(hcqi_launch_room(m)); }
    hcq_result r = HCQ_OK;
    hcqi_graph_pin(&g->plan);
    for (uint32_t k = 0; r == HCQ_OK && k < g->plan.slice_count; k++) {
        r = hcqi_queue_bind(q, g->plan.slices[k].dev, k);
    }
    hcqi_graph_unpin(&g->plan);
    return r;
}

static HCQI_COLD void hcqi_graph_clear(hcq_queue *q) {
    hcqi_graph *g = q->graph;
    for (uint32_t i = 0; i < g->empty_count; i++) { hcqi_allocation_free_late(g->empties[i].a); }
    for (uint32_t i = 0; i < g->bridge_capacity; i++) { hcqi_bridge_drop(&g->bridges[i]); }
    g->order_count = 0;
    g->empty_count = 0;
    memset(g->inputs, 0, g->input_end * sizeof *g->inputs);
    g->input_end = 0;
    g->named_frees = 0;
    g->plan.generation = 0;
}

static HCQI_COLD void hcqi_graph_delete(hcq_queue *q) {
    const hcq_memory_hooks *hooks = &q->dev->hooks;
    hcqi_graph *g = q->graph;
    hcqi_graph_clear(q);
    HCQI_ORDER(hcqi_order_ungraph(g));
    while (g->idle != NULL) {          /* nothing is in flight */
        hcqi_launch *launch = g->idle;
        g->idle = launch->earlier;
        for (uint32_t k = 0; k < launch->signal_count; k++) {
            hcqi_signal_close(launch->signals[k]);
        }
        hcqi_delete(hooks, launch->inputs, launch->input_capacity * sizeof *launch->inputs);
        hcqi_delete(hooks, launch, sizeof *launch);
    }
    hcqi_arena_delete(&g->plan.arena);
    hcqi_delete(hooks, g->orders, g->order_capacity * sizeof *g->orders);
    hcqi_delete(hooks, g->empties, g->empty_capacity * sizeof *g->empties);
    hcqi_delete(hooks, g->bridges, g->bridge_capacity * sizeof *g->bridges);
    hcqi_delete(hooks, g->making, sizeof *g->making);
    hcqi_delete(hooks, g, sizeof *g);
    q->graph = NULL;
}

/* The edges of a slice between its packets, in one block with where they begin. */
static HCQI_COLD uint32_t *hcqi_graph_edges(const hcqi_version *v, size_t *bytes) {
    const hcqi_plan *plan = &v->queue->graph->plan;
    const hcqi_slice *slice = &plan->slices[v->slice];
    uint32_t total = 0, at = 0, next = 0;
    for (uint32_t k = 0; k < slice->count; k++) {
        total += plan->calls[slice->calls[k]].edge_count;
    }
    *bytes = ((size_t)v->count + 1 + total) * sizeof(uint32_t);
    uint32_t *first = HCQI_CAST(uint32_t *, hcqi_new(&v->queue->dev->hooks, *bytes));
    if (first == NULL) { return NULL; }
    uint32_t *edges = first + v->count + 1;
    for (uint32_t k = 0; k < slice->count; k++) { /* packets have the order of the calls */
        const hcqi_call *c = &plan->calls[slice->calls[k]];
        uint32_t place = v->places[slice->calls[k]];
        const hcq_packet *last = place == 0 ? NULL : &v->packets[place - 1];
        if (last != NULL && last->kind == HCQ_COMMAND_HOST && last->u.host.fn == NULL) {
            place -= 2;                /* what reads its grid: that is where it begins */
        }
        while (next <= place) { first[next++] = at; }
        for (uint32_t e = 0; e < c->edge_count; e++) {
            uint32_t before = plan->edges[c->edge_first + e];
            if (plan->calls[before].slice == v->slice) { edges[at++] = v->places[before]; }
        }
    }
    while (next <= v->count) { first[next++] = at; }
    return first;
}

/* ---- making ---- */

static const hcqi_graph_calls hcqi_graph_core = { hcqi_graph_run, hcqi_graph_bind,
                                                  hcqi_graph_clear, hcqi_graph_delete,
                                                  hcqi_launch_waits, hcqi_launch_release,
                                                  hcqi_graph_edges };

HCQI_DEF HCQI_COLD hcq_result hcq_graph_create(hcq_device *device, hcq_queue **graph) {
    if (graph != NULL) { *graph = NULL; }
    HCQI_PASS(hcqi_device_enter(device));
    HCQI_LEAVE_UNLESS(device, graph != NULL, HCQ_ERROR_INVALID, "graph: is NULL");
    hcqi_graph *g = HCQI_CAST(hcqi_graph *, hcqi_new(&device->hooks, sizeof *g));
    if (g == NULL || hcqi_queue_new(device, HCQ_GRAPH, graph) != HCQ_OK) {
        hcqi_delete(&device->hooks, g, sizeof *g);
        return hcqi_leave_with(hcqi_oom(device, "graph"));
    }
    g->calls = &hcqi_graph_core;
    (*graph)->graph = g;
    return hcqi_leave_with(HCQ_OK);
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- a profile as text -------------------------------------- >>reporting - */
/* What devices recorded, copied by >>profiling, is written as a trace, as a page,
   which is that trace and a script that draws it, or as a table, into a text or
   a file. All numbers are made from integers: what "%f" prints depends on the
   program's locale. */

typedef struct hcqi_span {             /* a command that ran */
    hcq_profile_event event;
    hcqi_site exact, lane;             /* where flows find it */
    uint32_t track;
} hcqi_span;

typedef struct hcqi_row {              /* of the summary: all spans of one name and grid */
    const hcqi_span *first;            /* the shortest of them, which lie in order */
    uint64_t total_ns, bytes;
    uint32_t calls;
} hcqi_row;

typedef struct hcqi_track {            /* of a lane, or behind a device's lanes its host's */
    hcq_device *dev;
    uint32_t lane, spans;
} hcqi_track;

typedef struct hcqi_report {
    hcqi_arena arena;                  /* where all arrays are */
    hcq_profile_format format;
    hcq_device *const *devices;
    uint32_t device_count;             /* they stay open meanwhile */
    hcqi_span *spans;
    hcqi_flow *flows;                  /* arrows: `at` is a span's index, `place` 0 or HCQI_RACE */
    hcqi_track *tracks;
    hcqi_row *rows;                    /* for a summary, which sorts the spans */
    uint32_t span_count, span_room, flow_count, flow_room, track_count, track_room, row_count;
    uint32_t race_count;               /* of the flows */
    uint64_t begin_ns, end_ns;         /* of the first span, of the last */
    uint64_t lost;                     /* events that found no room */
    uint64_t error_ns;                 /* times are right within +- this */
} hcqi_report;

static const char *hcqi_parts(char out[32], uint64_t value, uint64_t unit) {
    snprintf(out, 32, "%llu.%03u", (unsigned long long)(value / unit),
             (unsigned)(value % unit * 1000 / unit));
    return out;
}

static int hcqi_track_is_host(const hcqi_track *t) { return t->lane == t->dev->lane_count; }

/* ---- trace ---- */

/* Its type, its lane. The number of a device is that of its first lane. */
static void hcqi_trace_begin(hcqi_text *t, const hcqi_report *r, const char *before,
                             const char *type, uint32_t track) {
    hcqi_print(t, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,", before, type,
               track - r->tracks[track].lane + 1, track + 1);
}

static void hcqi_trace_track(hcqi_text *t, const hcqi_report *r, uint32_t i) {
    const hcq_device *dev = r->tracks[i].dev;
    int host = hcqi_track_is_host(&r->tracks[i]);
    const hcq_lane *lane = &dev->lanes[host ? 0 : r->tracks[i].lane].base;
    char device[HCQI_NAME_BYTES];
    if (r->tracks[i].spans == 0) { return; }
    hcqi_trace_begin(t, r, "", "M", i);
    hcqi_print(t, "\"name\":\"process_name\",\"args\":{\"name\":%s}}",
               hcqi_name_text(device, dev->label, HCQI_JSON));
    hcqi_trace_begin(t, r, ",", "M", i);
    hcqi_print(t, "\"name\":\"thread_name\",\"args\":{\"name\":\"%s %u\"}}",
               host ? "host" : lane->kind == HCQ_COPY ? "copy" : "compute", host ? 0 : lane->index);
    hcqi_trace_begin(t, r, ",", "M", i);
    hcqi_print(t, "\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}},", i);
}

/* There is one for each track that is told, so the first comma is that of those. */
static void hcqi_trace_span(hcqi_text *t, const hcqi_report *r, uint32_t i) {
    const hcq_profile_event *e = &r->spans[i].event;
    char name[HCQI_NAME_BYTES], queue[HCQI_NAME_BYTES], begin[32], time[32], rate[32];
    const char *kind = hcqi_kind_text((uint32_t)e->kind);
    uint64_t ns = e->end_ns - e->begin_ns;
    int threads = sizeof e->shares;
    hcqi_trace_begin(t, r, i == 0 ? "" : ",", "X", r->spans[i].track);
    hcqi_print(t, "\"ts\":%s,\"dur\":%s,\"cat\":\"%s\",\"name\":%s,\"args\":{\"queue\":%s,",
               hcqi_parts(begin, e->begin_ns - r->begin_ns, 1000), hcqi_parts(time, ns, 1000), kind,
               hcqi_name_text(name, e->name, HCQI_JSON),
               hcqi_name_text(queue, e->queue, HCQI_JSON));
    hcqi_print(t, "\"submission\":%llu,\"command\":%d", (unsigned long long)e->submission,
               e->command);
    if (e->grid.x != 0) {
        hcqi_print(t, ",\"grid\":\"%ux%ux%u\"", e->grid.x, e->grid.y, e->grid.z);
    }
    while (threads != 0 && e->shares[threads - 1] == 0) { threads--; }
    for (int k = 0; k < threads; k++) {
        hcqi_print(t, "%s%u%s", k == 0 ? ",\"shares\":[" : ",", e->shares[k],
                   k + 1 == threads ? "]" : "");
    }
    if (e->bytes != 0) { hcqi_print(t, ",\"bytes\":%llu", (unsigned long long)e->bytes); }
    if (e->bytes != 0 && ns != 0) { hcqi_print(t, ",\"GB/s\":%s", hcqi_parts(rate, e->bytes, ns)); }
    hcqi_print(t, "}}");
}

/* An end of an arrow belongs to the bar that is there at its time, so it leaves a nanosecond
   before its bar's end. It never points back in time, as clocks might. The page is told the bars
   themselves. */
static void hcqi_trace_arrow(hcqi_text *t, const hcqi_report *r, uint32_t i) {
    uint32_t one = (uint32_t)r->flows[i].from.at, other = (uint32_t)r->flows[i].to.at;
    const hcqi_span *from = &r->spans[one], *to = &r->spans[other];
    const char *name = r->flows[i].from.place != 0 ? "race" : "wait";
    char time[32];
    uint64_t leave = from->event.end_ns - (from->event.end_ns > from->event.begin_ns);
    if (leave > to->event.begin_ns) { leave = to->event.begin_ns; }
    if (leave < from->event.begin_ns) { leave = from->event.begin_ns; }
    hcqi_trace_begin(t, r, ",", "s", from->track);
    hcqi_print(t, "\"ts\":%s,\"cat\":\"%s\",\"name\":\"%s\",\"id\":%u,"
               "\"args\":{\"from\":%u,\"to\":%u}}",
               hcqi_parts(time, leave - r->begin_ns, 1000), name, name, i + 1, one, other);
    hcqi_trace_begin(t, r, ",", "f", to->track);
    hcqi_print(t, "\"ts\":%s,\"bp\":\"e\",\"cat\":\"%s\",\"name\":\"%s\",\"id\":%u}",
               hcqi_parts(time, to->event.begin_ns - r->begin_ns, 1000), name, name, i + 1);
}

/* ---- summary ---- */

static uint64_t hcqi_span_ns(const hcqi_span *s) { return s->event.end_ns - s->event.begin_ns; }

/* 0: of one row. */
static int hcqi_span_order(const hcqi_span *a, const hcqi_span *b) {
    int order = strcmp(a->event.name, b->event.name);
    return order != 0 ? order : memcmp(&a->event.grid, &b->event.grid, sizeof a->event.grid);
}

static int hcqi_span_compare(const void *one, const void *other) {
    const hcqi_span *a = HCQI_CAST(const hcqi_span *, one);
    const hcqi_span *b = HCQI_CAST(const hcqi_span *, other);
    uint64_t x = hcqi_span_ns(a), y = hcqi_span_ns(b);
    int order = hcqi_span_order(a, b);
    return order != 0 ? order : (x > y) - (x < y);
}

static int hcqi_row_compare(const void *one, const void *other) {
    const hcqi_row *a = HCQI_CAST(const hcqi_row *, one), *b = HCQI_CAST(const hcqi_row *, other);
    if (a->total_ns != b->total_ns) { return a->total_ns > b->total_ns ? -1 : 1; }
    return hcqi_span_order(a->first, b->first);
}

/* The spans by name and grid, a row for each; 0 = out of memory. */
static int hcqi_report_rows(hcqi_report *r) {
    hcqi_row *row = NULL;
    if (r->span_count == 0) { return 1; }
    r->rows = HCQI_TAKE(&r->arena, hcqi_row, r->span_count);
    if (r->rows == NULL) { return 0; }
    qsort(r->spans, r->span_count, sizeof *r->spans, hcqi_span_compare);
    for (uint32_t i = 0; i < r->span_count; i++) {
        const hcqi_span *s = &r->spans[i];
        if (row == NULL || hcqi_span_order(row->first, s) != 0) {
            row = &r->rows[r->row_count++];
            row->first = s;
        }
        row->calls++;
        row->total_ns += hcqi_span_ns(s);
        row->bytes += s->event.bytes;
    }
    qsort(r->rows, r->row_count, sizeof *r->rows, hcqi_row_compare);
    return 1;
}

static void hcqi_row_print(hcqi_text *t, const hcqi_row *row) {
    char number[32], name[HCQI_NAME_BYTES];
    const uint32_t at[3] = { (row->calls - 1) / 2, 0, row->calls - 1 };
    const hcq_dims *grid = &row->first->event.grid;
    int blank = 32, moves = row->bytes != 0 && row->total_ns != 0;
    for (const char *c = hcqi_name_text(name, row->first->event.name, HCQI_PLAIN); *c != 0; c++) {
        blank -= (*c & 0xc0) != 0x80;
    }
    hcqi_print(t, "%s%*s%8u%12s", name, blank, "", row->calls,
               hcqi_parts(number, row->total_ns, 1000000));
    for (int i = 0; i < 3; i++) {
        hcqi_print(t, "%12s", hcqi_parts(number, hcqi_span_ns(row->first + at[i]), 1000));
    }
    if (moves) { hcqi_print(t, "%10s", hcqi_parts(number, row->bytes, row->total_ns)); }
    if (grid->x != 0) { hcqi_print(t, "%12s%ux%ux%u", "", grid->x, grid->y, grid->z); }
    hcqi_print(t, "\n");
}

static void hcqi_report_summary(hcqi_text *t, const hcqi_report *r) {
    char number[32];
    uint64_t all_ns = r->span_count == 0 ? 0 : r->end_ns - r->begin_ns;
    uint32_t lanes = 0;
    hcqi_print(t, "%-32s%8s%12s%12s%12s%12s%10s  grid\n", "name", "count", "total ms", "median us",
               "min us", "max us", "GB/s");
    for (uint32_t i = 0; i < r->row_count; i++) { hcqi_row_print(t, &r->rows[i]); }
    for (uint32_t i = 0; i < r->track_count; i++) { lanes += r->tracks[i].spans != 0; }
    hcqi_print(t, "%u events on %u lanes in %s ms, %u dependencies, ", r->span_count, lanes,
               hcqi_parts(number, all_ns, 1000000), r->flow_count - r->race_count);
    if (r->race_count != 0) { hcqi_print(t, "%u races, ", r->race_count); }
    hcqi_print(t, "events lost: %llu, clocks: +-%llu ns\n", (unsigned long long)r->lost,
               (unsigned long long)r->error_ns);
}

/* ---- page ---- */
/* A file of its own: a head, the trace, and a script that draws what is in view.
   In pieces, as C99 promises no longer literals than 4095 characters. */

static const char *const hcqi_page[] = {
    "<!doctype html>\n"
    "<html lang='en'><head><meta charset='utf-8'><title>hcq profile</title>\n"
    "<link rel='icon' href='data:,'>\n"
    "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; img-src data:;\n"
    " script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --line: color-mix(in srgb, CanvasText 15%, Canvas);\n"
    "  --soft: color-mix(in srgb, CanvasText 65%, Canvas) }\n"
    "body { margin: 0; font: 13px/1.45 system-ui, sans-serif }\n"
    "header, footer, #info { padding: 12px 20px }\n"
    "h1 { display: inline; font-size: 18px; margin-right: 12px }\n"
    "#facts, label, footer, #info i, .sub, .tick { color: var(--soft); fill: var(--soft) }\n"
    "label, #find { float: right; margin-left: 16px }\n"
    "body > svg { display: block; width: 100% }\n"
    "#axis { position: sticky; top: 0; background: Canvas; border-bottom: 1px solid var(--line) }\n"
    "#chart { cursor: grab; touch-action: pan-y; user-select: none; fill: CanvasText }\n"
    "text { font-size: 12.5px }\n"
    ".tick, .sub text { font-size: 11px; font-variant-numeric: tabular-nums }\n"
    ".device { font-weight: 600 }\n"
    ".back { fill: color-mix(in srgb, CanvasText 4%, Canvas) }\n"
    ".bar:hover, .chosen { stroke: CanvasText; stroke-width: 1.5 }\n"
    ".dim { opacity: .15 }\n"
    ".label { fill: #fff; font-size: 12px }\n"
    ".time { font-size: 10.5px; fill-opacity: .82 }\n"
    ".grid { stroke: var(--line) }\n"
    ".arrow, .label { pointer-events: none }\n"
    ".arrow, .sub path { fill: none; stroke: var(--soft); stroke-width: 1.3 }\n"
    ".arrow.hot { stroke: LinkText; stroke-width: 2 }\n"
    ".arrow.race, b { color: #e8262d; stroke: currentColor; stroke-width: 2 }\n"
    "#info { position: sticky; bottom: 0; min-height: 38px; background: Canvas;\n"
    "  border-block: 1px solid var(--line); overflow-wrap: anywhere }\n"
    "#info span { display: inline-block; margin-right: 18px }\n"
    "table { margin: 12px 20px; border-collapse: collapse; font-variant-numeric: tabular-nums }\n"
    "th, td { padding: 3px 12px; text-align: right; border-bottom: 1px solid var(--line) }\n"
    "tr > :first-child { text-align: left }\n"
    "tr { cursor: pointer }\n"
    "i { font-style: normal }\n"
    "u { display: inline-block; width: 6px; margin-left: 2px; background: var(--soft) }\n"
    "td i { display: inline-block; padding: 5px; border-radius: 3px; margin-right: 8px }\n"
    "</style></head><body>\n"
    "<header><label><input type='checkbox' id='show' checked>arrows</label>\n"
    "<input type='search' id='find' placeholder='a name, #submission'>\n"
    "<h1>hcq profile</h1><span id='facts'></span></header>\n"
    "<svg id='axis' height='26'></svg><svg id='chart'></svg>\n"
    "<div id='info'></div><table id='table'></table>\n"
    "<footer>Wheel, + and -: zoom. Drag, arrows: move. Double click, Home: all. Click: details\n"
    " stay, Esc: no more. Arrow: a command that waited for another; red: a race.\n"
    " <b id='note'></b></footer>\n"
    "<noscript>The timeline is drawn by a script.</noscript>\n"
    "<script type='application/json' id='data'>\n",
    "</script><script>\n"
    "'use strict';\n"
    "const DOT = ' \\u00b7 ';\n"
    "const HEAD = 28, TOP = 20, BAR = 36, PAD = 8, STEP = BAR + PAD, MOST_ARROWS = 1000;\n"
    "const id = name => document.getElementById(name);\n"
    "const D = JSON.parse(id('data').textContent), F = D.otherData;\n"
    "const chart = id('chart'), axis = id('axis'), find = id('find'), info = id('info');\n"
    "\n"
    "function add(tag, parent, attributes, text) {\n"
    "  const e = document.createElementNS(parent.namespaceURI, tag);\n"
    "  for (const key in attributes) { e.setAttribute(key, attributes[key]); }\n"
    "  if (text) { e.textContent = text; }\n"
    "  return parent.appendChild(e);\n"
    "}\n"
    "\n"
    "// ---- what there is: spans, lanes of rows without overlap, names with their grids\n"
    "\n"
    "const of = (type, name) =>\n"
    "  D.traceEvents.filter(e => e.ph === type && (!name || e.name === name));\n"
    "const ns = us => Math.round(us * 1e3);\n"
    "const S = of('X').map((e, id) => ({ id, tid: e.tid, name: e.name || '-', kind: e.cat,\n"
    "  args: e.args, grid: e.args.grid || '', submission: e.args.submission, begin: ns(e.ts),\n"
    "  time: ns(e.dur), end: ns(e.ts) + ns(e.dur), y: 0, dim: false }));\n"
    "const A = of('s').map(e => ({ from: S[e.args.from], to: S[e.args.to], kind: e.cat }));\n"
    "const races = A.filter(a => a.kind === 'race');\n"
    "const total = S.reduce((most, s) => Math.max(most, s.end), 1);\n"
    "const whole = { from: -total * .01, to: total * 1.01 };\n"
    "const devices = of('M', 'process_name'), names = new Map();\n"
    "const lanes = of('M', 'thread_name').map((e, i) => ({ name: e.args.name, tid: e.tid,\n"
    "  index: e.pid, device: devices[i].args.name, rows: [], subs: [], time: 0 }));\n"
    "for (const s of [...S].sort((a, b) => a.begin - b.begin || a.end - b.end)) {\n"
    "  const key = s.name + DOT + s.grid, lane = lanes.find(l => l.tid === s.tid);\n"
    "  const n = names.get(key) || { name: s.name, grid: s.grid, times: [], time: 0, bytes: 0 };\n"
    "  const late = s.begin + Math.min(F.clock_error_ns, s.time / 2), sub = lane.subs.at(-1);\n"
    "  let row = lane.rows.findIndex(r => r.at(-1).end <= late);\n"
    "  if (row < 0) { row = lane.rows.push([]) - 1; }\n"
    "  lane.rows[row].push(s);\n"
    "  lane.time += s.time;\n"
    "  if (sub && sub.submission === s.submission) { sub.end = Math.max(sub.end, s.end); }\n"
    "  else if (lane.name !== 'host 0') { lane.subs.push({ ...s }); }\n"
    "  n.times.push(s.time);\n"
    "  n.time += s.time;\n"
    "  n.bytes += s.args.bytes || 0;\n"
    "  names.set(key, s.of = n);\n"
    "}\n"
    "const ranked = [...names.values()].sort((a, b) => b.time - a.time);\n"
    "ranked.forEach((n, i) => {\n"
    "  n.colour = `hsl(${(220 + i * 137.5) % 360} 60% 42%)`;\n"
    "  n.times.sort((a, b) => a - b);\n"
    "});\n"
    "\n"
    "// ---- words\n"
    "\n"
    "const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, '\\u00b5s'], [1, 'ns']];\n"
    "const unitOf = ns => UNITS.find(u => ns >= u[0]) || UNITS[3];\n"
    "const duration = ns => +(ns / unitOf(ns)[0]).toPrecision(3) + ' ' + unitOf(ns)[1];\n"
    "const group = n => n.toLocaleString('en');\n"
    "const count = (n, one, many) => group(n) + ' ' + (n === 1 ? one : many || one + 's');\n"
    "id('facts').textContent = [count(new Set(lanes.map(l => l.index)).size, 'device'),\n"
    "  count(lanes.length, 'lane'), count(S.length, 'event'),\n"
    "  count(A.length - races.length, 'dependency', 'dependencies'), duration(total),\n"
    "  'clocks \\u00b1 ' + duration(F.clock_error_ns)].join(DOT);\n"
    "add('b', id('facts'), {}, (races.length ? DOT + count(races.length, 'race') : '') +\n"
    "  (F.lost_events ? DOT + count(F.lost_events, 'event') + ' lost' : ''));\n"
    "\n"
    "// ---- the table\n"
    "\n"
    "const COLUMNS = [['name', n => n.name], ['count', n => n.times.length, group],\n"
    "  ['total', n => n.time, duration], ['median', n => n.times[n.times.length - 1 >> 1],\n"
    "  duration], ['min', n => n.times[0], duration], ['max', n => n.times.at(-1), duration],\n"
    "  ['GB/s', n => n.time && n.bytes / n.time, x => x ? x.toPrecision(3) : ''],\n"
    "  ['grid', n => n.grid.split('x').reduce((all, k) => all * k, 1), (x, n) => n.grid]];\n"
    "let by = 2, down = true;\n",
    "\n"
    "function table() {\n"
    "  const value = COLUMNS[by][1], sign = down ? -1 : 1;\n"
    "  id('table').replaceChildren();\n"
    "  const head = add('tr', id('table'), {});\n"
    "  COLUMNS.forEach(([title], i) => {\n"
    "    const mark = i !== by ? '' : down ? ' \\u25be' : ' \\u25b4';\n"
    "    add('th', head, { tabindex: 0 }, title + mark).onclick = () => {\n"
    "      [by, down] = [i, i === by ? !down : i > 0];\n"
    "      table();\n"
    "    };\n"
    "  });\n"
    "  ranked.sort((a, b) => sign * (value(a) < value(b) ? -1 : +(value(a) > value(b))));\n"
    "  for (const n of ranked) {\n"
    "    const row = add('tr', id('table'), {}), name = add('td', row, {});\n"
    "    add('i', name, {}).style.background = n.colour;\n"
    "    name.append(n.name);\n"
    "    COLUMNS.slice(1).forEach(([, get, show]) => add('td', row, {}, show(get(n), n)));\n"
    "    row.onclick = () => search(find.value === n.name ? '' : n.name);\n"
    "  }\n"
    "}\n"
    "\n"
    "// ---- what stays: lanes\n"
    "\n"
    "let view = whole, left = 0, right = 0, chosen = null, hover = null, grid, arrowsAt, hotAt;\n"
    "\n"
    "function layout() {\n"
    "  const wide = document.documentElement.clientWidth, back = add('g', chart, {});\n"
    "  let y = 2, device = -1;\n"
    "  chart.replaceChildren(back);\n"
    "  [left, right] = [wide < 700 ? 100 : 140, wide - 26];\n"
    "  grid = add('g', chart, {});\n"
    "  for (const lane of lanes) {\n"
    "    if (lane.index !== device) {\n"
    "      add('text', back, { 'class': 'device', x: 20, y: y + 20 }, lane.device);\n"
    "      y += HEAD;\n"
    "      device = lane.index;\n"
    "    }\n"
    "    const height = lane.rows.length * STEP + TOP, [kind, number] = lane.name.split(' ');\n"
    "    const g = add('g', chart, { 'class': 'lane', 'data-device': lane.device,\n"
    "      'data-kind': kind, 'data-lane': number });\n"
    "    add('rect', back, { 'class': 'back', x: left, y, width: right - left, height });\n"
    "    add('text', g, { x: 32, y: y + 33 }, lane.name);\n"
    "    add('text', g, { 'class': 'tick', x: 32, y: y + 48 },\n"
    "      Math.round(100 * lane.time / total) + ' % busy');\n"
    "    lane.rows.forEach((row, i) => row.forEach(s => { s.y = y + TOP + i * STEP; }));\n"
    "    [lane.y, lane.bars] = [y, add('g', g, {})];\n"
    "    y += height + 6;\n"
    "  }\n"
    "  const box = { x: left, y: 0, width: right - left, height: y }; // cuts off what leaves it\n"
    "  box.viewBox = Object.values(box).join(' ');\n"
    "  [arrowsAt, hotAt] = [add('svg', chart, box), add('svg', chart, box)];\n"
    "  chart.setAttribute('height', y);\n"
    "  draw();\n"
    "}\n"
    "\n"
    "// ---- what moves: ticks, submissions, bars, arrows\n"
    "\n"
    "const X = ns => left + (ns - view.from) * (right - left) / (view.to - view.from);\n"
    "\n"
    "function ticks() {\n"
    "  const rough = Math.max(1, (view.to - view.from) * 110 / (right - left));\n"
    "  const ten = Math.pow(10, Math.floor(Math.log10(rough)));\n"
    "  const step = ten * [1, 2, 5, 10].find(k => k * ten >= rough);\n"
    "  const [unit, word] = unitOf(Math.max(-view.from, view.to));\n"
    "  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));\n"
    "  const high = chart.getAttribute('height');\n"
    "  axis.replaceChildren();\n"
    "  grid.replaceChildren();\n"
    "  for (let i = Math.ceil(view.from / step); i * step <= view.to; i++) {\n"
    "    const x = X(i * step).toFixed(1);\n"
    "    add('line', axis, { 'class': 'grid', x1: x, x2: x, y1: 21, y2: 26 });\n"
    "    add('line', grid, { 'class': 'grid', x1: x, x2: x, y1: 0, y2: high });\n"
    "    add('text', axis, { 'class': 'tick', x, y: 16, 'text-anchor': 'middle' },\n"
    "      (i * step / unit).toFixed(digits) + ' ' + word);\n"
    "  }\n"
    "}\n",
    "\n"
    "// What is in view of a list in order. Those too narrow to see are one, a few pixels wide.\n"
    "function runs(list, narrow) {\n"
    "  const all = [];\n"
    "  let run = null, i = list.findIndex(s => s.end >= view.from);\n"
    "  for (; i >= 0 && i < list.length && list[i].begin <= view.to; i++) {\n"
    "    const s = list[i], x0 = X(s.begin), x1 = X(s.end), small = x1 - x0 < narrow;\n"
    "    if (!run || !small || !run.small || s.dim !== run.dim || x0 - run.x1 > narrow / 2 ||\n"
    "        x1 - run.x0 > 2 * narrow) {\n"
    "      all.push(run = { x0, dim: s.dim, small, first: s, span: s, count: 0, time: 0 });\n"
    "    }\n"
    "    [run.x1, run.last] = [x1, s];\n"
    "    run.count++;\n"
    "    run.time += s.time;\n"
    "    run.chosen ||= s === chosen;\n"
    "    if (s.time > run.span.time) { run.span = s; } // whose colour it has\n"
    "  }\n"
    "  return all;\n"
    "}\n"
    "function bar(lane, run) {\n"
    "  const s = run.span, y = s.y, on = run.chosen ? ' chosen' : '';\n"
    "  const x = Math.max(run.x0, left), room = Math.min(run.x1, right) - x;\n"
    "  const width = Math.max(room > 5 ? room - 1 : room, 1);\n"
    "  add('rect', lane.bars, { 'class': 'bar' + (run.dim ? ' dim' : '') + on, fill: s.of.colour,\n"
    "    x: x.toFixed(2), y, width: width.toFixed(2), height: BAR, rx: Math.min(4, width / 3),\n"
    "    'data-span': s.id, 'data-count': run.count }).run = run;\n"
    "  if (room < 24 || run.dim) { return; }\n"
    "  const box = add('svg', lane.bars, { x: x + 5, y, width: room - 8, height: BAR });\n"
    "  add('text', box, { 'class': 'label', y: 16 }, s.name); // cut off where the bar ends\n"
    "  if (room > 62) { add('text', box, { 'class': 'label time', y: 29 }, duration(s.time)); }\n"
    "}\n"
    "\n"
    "function submission(lane, run) { // a bracket over its bars\n"
    "  const x0 = Math.max(run.x0, left), x1 = Math.max(Math.min(run.x1, right) - 1, x0);\n"
    "  const first = run.first.submission, last = run.last.submission;\n"
    "  const text = '#' + first + (first === last ? '' : '\\u2013' + last);\n"
    "  const g = add('g', lane.bars, { 'class': 'sub', 'data-first': first, 'data-last': last });\n"
    "  add('path', g, { d: `M${x0.toFixed(1)} ${lane.y + 18}v-3H${x1.toFixed(1)}v3` });\n"
    "  if (text.length * 7 < x1 - x0) { add('text', g, { x: x0 + 2, y: lane.y + 12 }, text); }\n"
    "}\n"
    "\n"
    "function arrow(parent, name, { from, to }, number) {\n"
    "  const down = Math.sign(to.y - from.y), end = X(from.end), begin = X(to.begin);\n"
    "  const x1 = (end - Math.min(5, (end - X(from.begin)) / 2)).toFixed(1);\n"
    "  const x2 = (begin + Math.min(5, (X(to.end) - begin) / 2)).toFixed(1);\n"
    "  const y1 = from.y + (down > 0 ? BAR : 0), y2 = to.y + (down < 0 ? BAR : 0);\n"
    "  const middle = down ? (y1 + y2) / 2 : y1 - 20; // in one row: a bow above it\n"
    "  const head = down < 0 ? -6 : 6;\n"
    "  add('path', parent, { 'class': 'arrow ' + name, 'data-from': from.id, 'data-to': to.id,\n"
    "    'data-count': number, d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}` +\n"
    "      `m-3 ${-head}l3 ${head}l3 ${-head}` });\n"
    "}\n"
    "\n"
    "function arrows() { // those that lie upon each other as one\n"
    "  const seen = new Map();\n"
    "  for (const a of id('show').checked ? A : races) {\n"
    "    const { from, to } = a, x1 = X(from.end), x2 = X(to.begin), hidden = from.dim && to.dim;\n"
    "    if (Math.max(x1, x2) < left || Math.min(x1, x2) > right || hidden) { continue; }\n"
    "    const key = [x1 >> 1, x2 >> 1, from.y, to.y, a.kind].join(), old = seen.get(key);\n"
    "    if (old) { old.number++; } else { seen.set(key, { ...a, number: 1 }); }\n"
    "  }\n"
    "  const many = seen.size > MOST_ARROWS;\n"
    "  id('note').textContent = many ? `Zoom in to see ${group(seen.size)} arrows.` : '';\n"
    "  arrowsAt.replaceChildren();\n"
    "  arrowsAt.setAttribute('opacity', Math.max(.4, 1 - seen.size / MOST_ARROWS));\n"
    "  for (const a of seen.values()) {\n"
    "    if (!many || a.kind === 'race') { arrow(arrowsAt, a.kind, a, a.number); }\n"
    "  }\n"
    "}\n"
    "\n"
    "function draw() {\n"
    "  ticks();\n"
    "  for (const lane of lanes) {\n"
    "    lane.bars.replaceChildren();\n"
    "    runs(lane.subs, 46).forEach(run => submission(lane, run));\n"
    "    for (const row of lane.rows) { runs(row, 2).forEach(run => bar(lane, run)); }\n"
    "  }\n"
    "  arrows();\n"
    "  tell(null);\n"
    "}\n"
    "\n"
    "// ---- details: of what is under the mouse, or else was chosen\n",
    "\n"
    "function part(title, text) {\n"
    "  const span = add('span', info, {});\n"
    "  add('i', span, {}, title && title + ' ');\n"
    "  span.append(text);\n"
    "  return span;\n"
    "}\n"
    "function links(run, title, kind, here, there) { // and arrows\n"
    "  const ends = run.count > 1 ? [] : A.filter(a => a.kind === kind && a[here] === run.span);\n"
    "  const span = ends.length && part(title, '');\n"
    "  ends.slice(0, 5).forEach((a, i) => {\n"
    "    const other = a[there];\n"
    "    add('a', span, { href: '#' + other.id }, `${other.name} of #${other.submission}`);\n"
    "    span.append(i + 1 < ends.length ? ', ' : '');\n"
    "    arrow(hotAt, kind === 'race' ? 'race' : 'hot', a, 1);\n"
    "  });\n"
    "}\n"
    "function tell(under) {\n"
    "  const run = under || chosen && { span: chosen, count: 1 }, s = run && run.span;\n"
    "  const at = ns => (ns / 1e3).toFixed(3) + ' ' + UNITS[2][1];\n"
    "  hover = under;\n"
    "  info.replaceChildren();\n"
    "  hotAt.replaceChildren();\n"
    "  if (!run) { return part('', 'Point at a command.'); }\n"
    "  if (run.count > 1) { part('', count(run.count, 'command') + ', the longest:'); }\n"
    "  part('', s.name);\n"
    "  part('time', duration(s.time));\n"
    "  part('from, to', at(s.begin) + ', ' + at(s.end));\n"
    "  part('submission', `#${s.submission}, command ${s.args.command}, ${s.kind}`);\n"
    "  for (const key of ['queue', 'grid', 'bytes', 'GB/s']) {\n"
    "    if (s.args[key]) { part(key, s.args[key]); }\n"
    "  }\n"
    "  const shares = s.args.shares || [], most = Math.max(...shares);\n"
    "  const threads = shares.length && part('threads', shares.join(', ') + ' %');\n"
    "  for (const n of shares) { add('u', threads, {}).style.height = 12 * n / most + 'px'; }\n"
    "  links(run, 'waited for', 'wait', 'to', 'from');\n"
    "  links(run, 'waited for it', 'wait', 'from', 'to');\n"
    "  links(run, 'races with', 'race', 'to', 'from');\n"
    "  links(run, 'races with', 'race', 'from', 'to');\n"
    "}\n"
    "\n"
    "// ---- what mouse and keyboard do\n"
    "\n"
    "let waiting = false, drag = null;\n"
    "\n"
    "function look(from, to) { // at a range, which stays within what there is\n"
    "  const range = Math.min(Math.max(to - from, 20), whole.to - whole.from);\n"
    "  const first = Math.min(Math.max((from + to - range) / 2, whole.from), whole.to - range);\n"
    "  view = { from: first, to: first + range };\n"
    "  if (!waiting) { requestAnimationFrame(() => { waiting = false; draw(); }); }\n"
    "  waiting = true;\n"
    "}\n"
    "function choose() { // what the address names, so that links and the way back do it, too\n"
    "  const s = chosen = S[location.hash.slice(1)] || null, half = (view.to - view.from) / 2;\n"
    "  const middle = s && (s.begin > view.to || s.end < view.from) ? s.begin : view.from + half;\n"
    "  look(middle - half, middle + half);\n"
    "}\n"
    "function search(value) {\n"
    "  const text = value.toLowerCase();\n"
    "  find.value = value;\n"
    "  for (const s of S) {\n"
    "    s.dim = text !== '#' + s.submission && !s.name.toLowerCase().includes(text);\n"
    "  }\n"
    "  draw();\n"
    "}\n",
    "\n"
    "chart.onwheel = axis.onwheel = event => {\n"
    "  if (event.clientX < left) { return; } // there the page scrolls\n"
    "  event.preventDefault();\n"
    "  const scale = (view.to - view.from) / (right - left);\n"
    "  const aside = event.deltaX || (event.shiftKey ? event.deltaY : 0);\n"
    "  const k = aside ? 1 : Math.exp(Math.min(Math.max(event.deltaY, -200), 200) * .002);\n"
    "  const t = view.from + (event.clientX - left) * scale; // stays where it is\n"
    "  look(t - (t - view.from) * k + aside * scale, t + (view.to - t) * k + aside * scale);\n"
    "};\n"
    "chart.onpointermove = event => {\n"
    "  const run = event.target.run || null;\n"
    "  if (!drag && run !== hover) { tell(run); }\n"
    "  if (!drag || Math.abs(drag.x - event.clientX) < 4) { return; }\n"
    "  const by = (drag.x - event.clientX) * (drag.to - drag.from) / (right - left);\n"
    "  drag.run = null;\n"
    "  look(drag.from + by, drag.to + by);\n"
    "};\n"
    "chart.onpointerdown = event => {\n"
    "  drag = { x: event.clientX, run: event.target.run, ...view };\n"
    "  chart.setPointerCapture(event.pointerId);\n"
    "};\n"
    "chart.onpointerup = chart.onpointercancel = () => {\n"
    "  if (drag.run) { location.hash = drag.run.span.id; }\n"
    "  drag = null;\n"
    "};\n"
    "chart.onpointerleave = () => tell(null);\n"
    "chart.ondblclick = () => look(whole.from, whole.to);\n"
    "onkeydown = event => {\n"
    "  const wide = view.to - view.from, to = { '+': [.25, -.25], '-': [-.5, .5],\n"
    "    ArrowLeft: [-.2, -.2], ArrowRight: [.2, .2], Home: [-1e9, 1e9] }[event.key];\n"
    "  if (event.target === find || event.ctrlKey || event.altKey || event.metaKey) { return; }\n"
    "  if (event.key === 'Enter') { event.target.click(); }\n"
    "  if (event.key === 'Escape') { location.hash = ''; }\n"
    "  if (!to) { return; }\n"
    "  event.preventDefault();\n"
    "  look(view.from + to[0] * wide, view.to + to[1] * wide);\n"
    "};\n"
    "find.oninput = () => search(find.value);\n"
    "id('show').onchange = draw;\n"
    "onresize = layout;\n"
    "onhashchange = choose;\n"
    "table();\n"
    "layout();\n"
    "choose();\n"
    "</script></body></html>\n",
    NULL
};

static void hcqi_report_write(hcqi_text *t, const hcqi_report *r) {
    int page = r->format == HCQ_PROFILE_HTML;
    if (r->format == HCQ_PROFILE_SUMMARY) {
        hcqi_report_summary(t, r);
        return;
    }
    if (page) { hcqi_print(t, "%s", hcqi_page[0]); }
    hcqi_print(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (uint32_t i = 0; i < r->track_count; i++) { hcqi_trace_track(t, r, i); }
    for (uint32_t i = 0; i < r->span_count; i++) { hcqi_trace_span(t, r, i); }
    for (uint32_t i = 0; i < r->flow_count; i++) { hcqi_trace_arrow(t, r, i); }
    hcqi_print(t, "\n],\"otherData\":{\"clock_error_ns\":%llu,\"lost_events\":%llu}}\n",
               (unsigned long long)r->error_ns, (unsigned long long)r->lost);
    for (int i = 1; page && hcqi_page[i] != NULL; i++) { hcqi_print(t, "%s", hcqi_page[i]); }
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- profile --------------------------------------------- >>profiling - */
/* A version that is encoded while the device is profiled has timestamps between
   its commands. They are read when its job is over, before anybody else gets the
   version, and become events in a ring. A command is at two sites: its number in
   a launch or an epoch, and its epoch in a lane. A wait is a flow from site to site,
   in a ring, too. A report copies both rings and finds the flows' ends. */

/* One block: the profile, its names, its rings. */
static HCQI_COLD hcqi_profile *hcqi_profile_new(const hcq_memory_hooks *hooks, uint32_t events,
                                                uint32_t names) {
    hcqi_profile *p;
    uint32_t slots = names + names / 2 + 1; /* so that there is always an empty one */
    uint64_t head = sizeof(hcqi_profile) + ((uint64_t)slots + 2) * sizeof *p->names;
    uint64_t size = head + (uint64_t)events * (sizeof(hcqi_event) + sizeof(hcqi_flow));
    if (size > SIZE_MAX / 2) { return NULL; } /* 32 bits */
    p = HCQI_CAST(hcqi_profile *, hooks->alloc_fn(hooks->user, (size_t)size, 64));
    if (p == NULL) { return NULL; }
    memset(p, 0, (size_t)(events <= 1 << 17 ? size : head)); /* not while commands are timed */
    p->size = (size_t)size;
    p->capacity = events;
    p->slots = slots;
    p->names_left = names - 1;
    p->names = HCQI_CAST(char (*)[32], (void *)(p + 1));
    p->events = HCQI_CAST(hcqi_event *, (void *)(p->names + slots + 2));
    p->flows = HCQI_CAST(hcqi_flow *, (void *)(p->events + events));
    hcqi_copy_label(p->names[slots + 1], "(others)");
    return p;
}

/* The index of a name in a table by hash; those that find no room are one. */
static uint32_t hcqi_profile_name(hcqi_profile *p, const char *text) {
    const size_t most = sizeof *p->names - 1;
    uint64_t hash = 0;
    if (text[0] == 0) { return p->slots; }
    for (size_t i = 0; i < most && text[i] != 0; i++) {
        hash = hcqi_hash(hash, (unsigned char)text[i]);
    }
    for (uint32_t slot = (uint32_t)(hash % p->slots);; slot = (slot + 1) % p->slots) {
        char *name = p->names[slot];
        if (strncmp(name, text, most) == 0) { return slot; }
        if (name[0] != 0) { continue; }
        if (p->names_left == 0) { return p->slots + 1; }
        p->names_left--;
        hcqi_copy_label(name, text);
        return slot;
    }
}

static uint64_t hcqi_packet_bytes(const hcq_packet *p) {
    int copies = p->kind == HCQ_COMMAND_COPY || p->kind == HCQ_COMMAND_WRITE;
    return copies || p->kind == HCQ_COMMAND_FILL ? p->u.copy.size : 0; /* fill's is there, too */
}

static hcqi_site hcqi_command_site(uint64_t launch, hcqi_site lane, uint64_t half) {
    hcqi_site site = { HCQI_IN_LAUNCH | launch, half };
    if (launch != 0) { return site; }
    site.place |= HCQI_IN_EPOCH | lane.place;
    site.at |= lane.at << 32;
    return site;
}

static uint64_t hcqi_packet_half(const hcq_packet *p) {
    return hcqi_half_number(p->index, p->flags & HCQI_SECOND);
}

static uint64_t hcqi_later(uint64_t one, uint64_t other) { return one > other ? one : other; }

static void hcqi_profile_flow(hcqi_profile *p, hcqi_site from, hcqi_site to) {
    hcqi_flow *f = &p->flows[p->flowed++ % p->capacity];
    f->from = from;
    f->to = to;
}

/* Notes what the work just handed over waits for, or waited for. Launches of
   graphs know it from their plan. */
static void hcqi_profile_waits(const hcqi_resolve *r) {
    const hcqi_lane *lane = r->job->lane;
    hcqi_profile *p = lane->dev->profile;
    hcqi_site here = hcqi_lane_site(lane, lane->epoch);
    if (r->job->number < p->first) { return; }
    for (uint32_t i = 0; i < r->points.count; i++) {
        hcqi_site from = hcqi_lane_site(r->points.lane[i], r->points.epoch[i]);
        if (from.place != here.place) { hcqi_profile_flow(p, from, here); }
    }
    for (uint32_t i = 0; i < r->past_count; i++) { hcqi_profile_flow(p, r->past[i], here); }
}

/* What a job that is over, and went well, leaves behind in its version. */
static void hcqi_profile_collect(const hcq_job *job) {
    const hcqi_version *v = job->version;
    hcqi_profile *p = v->dev->profile;
    if (job->number < p->first) { return; }
    const hcq_queue *labels = v->generation == v->queue->generation ? v->queue : NULL;
    const void *marks = hcqi_version_host(v, v->mark_offset);
    const uint64_t *mark = HCQI_CAST(const uint64_t *, marks);
    const char *named = NULL;          /* the next one often has the same name */
    uint64_t last = job->lane->timed;  /* the host's times before it may be late */
    hcqi_event *open = NULL, event;    /* what all of them share */
    memset(&event, 0, sizeof event);
    event.submission = job->submission;
    event.launch = job->launch == NULL ? 0 : job->launch->serial;
    event.lane = (uint16_t)(job->lane - v->dev->lanes);
    event.queue = hcqi_profile_name(p, v->queue->label);
    for (uint32_t i = 0, seg = 0; i < v->count; i++) {
        const hcq_packet *packet = &v->packets[i];
        if (seg + 1 < v->segment_count && i >= v->segments[seg + 1].first) { seg++; }
        if (packet->kind == HCQ_COMMAND_WAIT && (packet->flags & HCQI_RELATIVE)) {
            hcqi_site from = { HCQI_IN_LAUNCH | event.launch, packet->u.relative.from }, to = from;
            to.at = hcqi_packet_half(packet);
            hcqi_profile_flow(p, from, to);
        } else if (packet->kind == HCQ_COMMAND_TIMESTAMP && packet->u.stamp.signal == NULL) {
            last = hcqi_later(last, hcqi_lane_stamp(job->lane, job->epoch, mark++));
            if (open != NULL) { open->end = last; }
            open = NULL;
        } else if (hcqi_packet_is_timed(packet)) {
            const char *name = labels == NULL && v->labelled ? v->labels[i] : "";
            if (name[0] == 0) { name = hcqi_packet_name(labels, packet); }
            if (name != named) { event.name = hcqi_profile_name(p, name); }
            named = name;
            open = &p->events[p->added++ % p->capacity];
            *open = event;
            open->bytes = hcqi_packet_bytes(packet);
            open->kind = packet->kind;
            if (packet->kind == HCQ_COMMAND_EXEC) {
                const uint32_t *grid = packet->u.exec.grid;
                memcpy(open->grid, grid, sizeof open->grid);
                if ((grid[0] | grid[1] | grid[2]) > 1) { /* one block: those of a run before */
                    memcpy(open->shares, packet[-1].u.stamp.shares, sizeof open->shares);
                }
            }
            open->half = hcqi_packet_half(packet);
            int host = v->segments[seg].host; /* the service thread took both times */
            uint32_t given = seg;      /* a host command is of what is given behind it */
            while (v->segments[given].host) { given++; }
            open->epoch = v->segments[given].epoch;
            open->begin = last = host ? hcqi_later(last, *mark++) : last;
            open->end = last = host ? hcqi_later(last, *mark++) : last;
            if (host) { open = NULL; }
        }
    }
    job->lane->timed = last;
}

static void hcqi_profile_add(const hcq_device *dev, const hcqi_event *e, const char *name) {
    hcqi_profile *p = dev->profile;
    hcqi_event *made = &p->events[p->added++ % p->capacity];
    *made = *e;
    made->end = hcq_now_ns();
    made->lane = (uint16_t)dev->lane_count;
    made->name = hcqi_profile_name(p, name);
    made->queue = p->slots;
}

/* A version that the profile is to have timestamps in; NULL: there are none. */
static hcqi_version *hcqi_profile_next(const hcq_device *dev) {
    HCQI_DEVICES(home) {
        for (hcq_queue *q = hcqi_profile_on(dev) ? home->queues : NULL; q != NULL; q = q->next) {
            hcqi_version *v = q->bound == NULL || q->destroyed ? NULL : q->versions;
            for (; v != NULL; v = v->next) {
                int current = v->generation == q->generation && v->dev == dev;
                if (current && !v->profiled && hcqi_version_idle(v)) { return v; }
            }
        }
    }
    return NULL;
}

HCQI_DEF HCQI_COLD hcq_result hcq_profile_start(hcq_device *device, const hcq_profile_desc *desc) {
    uint32_t events = desc == NULL || desc->events == 0 ? 65536 : desc->events;
    uint32_t names = desc == NULL || desc->names == 0 ? 1024 : desc->names;
    hcqi_profile *p = NULL;
    hcq_clock clock;
    HCQI_PASS(hcqi_device_enter(device));
    HCQI_LEAVE_UNLESS(device, device->backend->clock != NULL && !device->caps.host_times,
                      HCQ_ERROR_UNSUPPORTED, "profile: there is no clock");
    HCQI_LEAVE_UNLESS(device, events <= (uint32_t)1 << 28 && names <= (uint32_t)1 << 24,
                      HCQ_ERROR_INVALID, "desc: events or names: too many");
    hcqi_apart_begin(device);
    hcq_result r = hcq_device_clock(device, &clock);
    if (r == HCQ_OK) { p = hcqi_profile_new(&device->hooks, events, names); }
    hcqi_enter();
    hcqi_profile *old = p == NULL ? NULL : device->profile;
    if (p != NULL) {
        p->clock = clock;
        p->collect = hcqi_profile_collect;
        p->waits = hcqi_profile_waits;
        p->host = hcqi_profile_add;
        p->first = device->next_number;
        p->on = 1;
        device->profile = p;
        hcqi_reap_device(device);      /* what is over lets go of its version */
        hcqi_version *v;               /* else at submit, which is to take no memory: */
        while ((v = hcqi_profile_next(device)) != NULL && hcqi_version_build(v, NULL) >= 0) { }
    } else if (r == HCQ_OK) {
        r = hcqi_oom(device, "profile");
    }
    hcqi_leave();
    if (old != NULL) { hcqi_delete(&device->hooks, old, old->size); }
    hcqi_unpin(device);
    return r;
}

HCQI_DEF hcq_result hcq_profile_stop(hcq_device *device) {
    HCQI_PASS(hcqi_device_enter(device));
    if (device->profile != NULL) { device->profile->on = 0; }
    return hcqi_leave_with(HCQ_OK);
}

/* The oldest that a ring still has, of all that were ever put in. */
static uint64_t hcqi_profile_oldest(const hcqi_profile *p, uint64_t ever) {
    return ever < p->capacity ? 0 : ever - p->capacity;
}

static HCQI_COLD hcq_profile_event hcqi_profile_public(hcq_device *dev, const hcq_clock *clock,
                                                       const hcqi_event *e) {
    hcq_profile_event out;
    memset(&out, 0, sizeof out);
    out.begin_ns = e->begin;
    out.end_ns = e->end;
    out.submission = e->submission;
    out.bytes = e->bytes;
    out.device = dev;
    out.lane = UINT32_MAX;
    out.kind = (hcq_command_kind)e->kind;
    out.command = (int32_t)(e->half / 2);
    memcpy(&out.grid, e->grid, sizeof out.grid);
    memcpy(out.queue, dev->profile->names[e->queue], sizeof out.queue);
    memcpy(out.name, dev->profile->names[e->name], sizeof out.name);
    memcpy(out.shares, e->shares, sizeof out.shares);
    if (e->lane == dev->lane_count) { return out; }
    out.begin_ns = hcq_clock_to_host(clock, e->begin);
    out.end_ns = hcq_clock_to_host(clock, e->end);
    out.error_ns = clock->error_ns;
    out.lane_kind = dev->lanes[e->lane].base.kind;
    out.lane = dev->lanes[e->lane].base.index;
    return out;
}

HCQI_DEF HCQI_COLD hcq_result hcq_profile_events(hcq_device *device, hcq_profile_event *events,
                                                 uint32_t capacity, uint32_t *count,
                                                 uint64_t *lost) {
    HCQI_PASS(hcqi_device_ask(device, count, "count"));
    HCQI_LEAVE_UNLESS(device, events != NULL || capacity == 0, HCQ_ERROR_INVALID,
                      "events: is NULL");
    hcqi_reap_device(device);
    const hcqi_profile *p = device->profile;
    uint64_t first = p == NULL ? 0 : hcqi_profile_oldest(p, p->added);
    *count = p == NULL ? 0 : (uint32_t)(p->added - first);
    if (lost != NULL) { *lost = first; }
    for (uint32_t i = 0; i < *count && i < capacity; i++) {
        const hcqi_event *e = &p->events[(first + i) % p->capacity];
        events[i] = hcqi_profile_public(device, &p->clock, e);
    }
    return hcqi_leave_with(HCQ_OK);
}

/* ---- as a report ---- */

/* With the lock: the next events and flows of those that there `were`, less what was overwritten
   since. 0 = no more, or forgotten by a new start. */
static HCQI_COLD int hcqi_report_piece(hcqi_report *r, hcq_device *dev, const hcqi_profile *were,
                                       uint32_t track, uint64_t *event, uint64_t *flow) {
    const hcqi_profile *p = dev->profile;
    if (p->first != were->first || p->added < were->added) { return 0; }
    *event = hcqi_later(*event, hcqi_profile_oldest(p, p->added));
    *flow = hcqi_later(*flow, hcqi_profile_oldest(p, p->flowed));
    for (int i = 0; i < HCQI_REPORT_STEP && *event < were->added; i++) {
        const hcqi_event *e = &p->events[(*event)++ % p->capacity];
        hcqi_site nowhere = { 0, 0 };
        hcqi_span *s = &r->spans[r->span_count++];
        s->event = hcqi_profile_public(dev, &were->clock, e);
        s->lane = e->lane == dev->lane_count ? nowhere
                                             : hcqi_lane_site(&dev->lanes[e->lane], e->epoch);
        s->exact = hcqi_command_site(e->launch, s->lane, e->half);
        s->track = track + e->lane;
        r->tracks[s->track].spans++;
        if (s->event.begin_ns < r->begin_ns) { r->begin_ns = s->event.begin_ns; }
        r->end_ns = hcqi_later(r->end_ns, s->event.end_ns);
    }
    for (int i = 0; i < HCQI_REPORT_STEP && *flow < were->flowed; i++) {
        r->flows[r->flow_count++] = p->flows[(*flow)++ % p->capacity];
    }
    return *event < were->added || *flow < were->flowed;
}

/* A piece each time that it has the lock, without which memory is taken. 0 = out of memory. */
static HCQI_COLD int hcqi_report_device(hcqi_report *r, hcq_device *dev) {
    uint32_t spans = r->span_count, track = r->track_count;
    hcqi_enter();
    if (dev->profile == NULL) {
        hcqi_leave();
        return 1;
    }
    const hcqi_profile were = *dev->profile;
    hcqi_leave();
    uint64_t event = hcqi_profile_oldest(&were, were.added);
    uint64_t flow = hcqi_profile_oldest(&were, were.flowed);
    uint32_t tracks = dev->lane_count + 1;
    const hcq_memory_hooks *hooks = &r->arena.hooks;
    if (!HCQI_GROW(hooks, r->tracks, r->track_room, (uint64_t)track + tracks) ||
        !HCQI_GROW(hooks, r->spans, r->span_room, spans + were.added - event) ||
        !HCQI_GROW(hooks, r->flows, r->flow_room, r->flow_count + were.flowed - flow)) {
        return 0;
    }
    for (uint32_t k = 0; k < tracks; k++) {
        hcqi_track one = { dev, k, 0 };
        r->tracks[r->track_count++] = one;
    }
    for (int more = 1; more; hcqi_leave()) {
        hcqi_enter();
        more = hcqi_report_piece(r, dev, &were, track, &event, &flow);
    }
    r->lost += were.added - (r->span_count - spans);
    r->error_ns = hcqi_later(r->error_ns, were.clock.error_ns);
    return 1;
}

/* Where a span is. Sorted, so that flows find it. */
typedef struct hcqi_key { hcqi_site site; uint64_t span; } hcqi_key;

static int hcqi_key_compare(const void *one, const void *other) {
    const hcqi_key *a = HCQI_CAST(const hcqi_key *, one), *b = HCQI_CAST(const hcqi_key *, other);
    if (a->site.place != b->site.place) { return a->site.place < b->site.place ? -1 : 1; }
    if (a->site.at != b->site.at) { return a->site.at < b->site.at ? -1 : 1; }
    return a->span < b->span ? -1 : a->span > b->span;
}

/* The last span of a lane up to an epoch (`past` 1), or the first from it on (0); with
   HCQI_IN_LAUNCH the command itself. NULL: none. */
static const hcqi_key *hcqi_key_find(const hcqi_key *keys, uint64_t count, hcqi_site site,
                                     uint64_t past) {
    uint64_t low = 0, high = count;
    hcqi_key wanted = { site, past ? UINT64_MAX : 0 };
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (hcqi_key_compare(&keys[mid], &wanted) < 0) { low = mid + 1; } else { high = mid; }
    }
    if (low < past || low - past >= count) { return NULL; }
    const hcqi_key *key = &keys[low - past];
    int exact = key->site.at == site.at || (site.place & HCQI_IN_LAUNCH) == 0;
    return key->site.place == site.place && exact ? key : NULL;
}

/* Makes arrows of the flows both of whose ends are there; 0 = out of memory. */
static HCQI_COLD int hcqi_report_arrows(hcqi_report *r) {
    uint32_t flows = r->flow_count;
    uint64_t count = 0;
    r->flow_count = 0;
    if (r->span_count == 0 || flows == 0) { return 1; }
    hcqi_key *keys = HCQI_TAKE(&r->arena, hcqi_key, 2 * (uint64_t)r->span_count);
    if (keys == NULL) { return 0; }
    for (uint32_t i = 0; i < r->span_count; i++) {
        keys[count].site = r->spans[i].exact;
        keys[count++].span = i;
        keys[count].site = r->spans[i].lane;
        keys[count++].span = i;
    }
    qsort(keys, (size_t)count, sizeof *keys, hcqi_key_compare);
    for (uint32_t i = 0; i < flows; i++) {
        hcqi_flow *f = &r->flows[i], *made = &r->flows[r->flow_count];
        uint64_t race = f->from.place & HCQI_RACE;
        f->from.place ^= race;
        const hcqi_key *from = hcqi_key_find(keys, count, f->from, 1);
        const hcqi_key *to = hcqi_key_find(keys, count, f->to, 0);
        if (from == NULL || to == NULL || from->span == to->span) { continue; }
        made->from.place = race;
        made->from.at = from->span;
        made->to.at = to->span;
        r->flow_count++;
        r->race_count += race != 0;
    }
    return 1;
}

static void hcqi_report_free(hcqi_report *r) {
    hcqi_arena_delete(&r->arena);
    for (uint32_t i = 0; i < r->device_count; i++) { hcqi_unpin(r->devices[i]); }
}

/* Keeps device number `i` open, with a reading of the clocks after its last event. */
static HCQI_COLD hcq_result hcqi_report_pin(hcq_device *const *devices, uint32_t i) {
    hcq_device *dev = devices[i], *log = i == 0 ? NULL : devices[0];
    hcq_result why = dev == NULL ? HCQ_ERROR_INVALID : HCQ_ERROR_CLOSED;
    hcq_clock clock;
    hcqi_enter();
    HCQI_LEAVE_UNLESS(log, hcqi_device_open(dev), why, "devices: number %u %s", i,
                      dev == NULL ? "is NULL" : "was closed");
    hcqi_reap_device(dev);             /* events of what is over */
    uint64_t now = dev->profile == NULL ? 0 : dev->profile->added + 1;
    int old = dev->profile != NULL && dev->profile->clocked != now; /* else two texts differ */
    hcqi_apart_begin(dev);
    hcq_result r = old ? hcq_device_clock(dev, &clock) : HCQ_OK;
    hcqi_enter();
    if (r == HCQ_OK && old) {
        dev->profile->clock = clock;
        dev->profile->clocked = now;
    }
    if (r != HCQ_OK) { hcqi_unpin(dev); }
    HCQI_LEAVE_UNLESS(dev, r == HCQ_OK, r, "devices: number %u: %s", i, hcq_result_text(r));
    return hcqi_leave_with(HCQ_OK);
}

/* Checks, brings the clocks up to date, copies. What it made must be freed. */
static HCQI_COLD hcq_result hcqi_report_make(hcqi_report *report, hcq_device *const *devices,
                                             uint32_t count, hcq_profile_format format) {
    memset(report, 0, sizeof *report);
    if (devices == NULL || count == 0 || devices[0] == NULL) {
        return hcqi_refuse_alone(NULL, HCQ_ERROR_INVALID, "devices: is NULL or empty");
    }
    report->devices = devices;
    for (uint32_t i = 0; i < count; i++, report->device_count++) {
        HCQI_PASS(hcqi_report_pin(devices, i));
    }
    if ((int)format < 0 || format > HCQ_PROFILE_SUMMARY) {
        return hcqi_refuse_alone(devices[0], HCQ_ERROR_INVALID, "format: %d is no HCQ_PROFILE_*",
                                 (int)format);
    }
    hcqi_arena_begin(&report->arena, &devices[0]->hooks);
    report->format = format;
    report->begin_ns = UINT64_MAX;
    int room = 1;
    for (uint32_t i = 0; i < count && room; i++) { room = hcqi_report_device(report, devices[i]); }
    room = room && hcqi_report_arrows(report) &&
           (format != HCQ_PROFILE_SUMMARY || hcqi_report_rows(report));
    return room ? HCQ_OK : hcqi_refuse_alone(devices[0], HCQ_ERROR_OUT_OF_MEMORY,
                                             "profile: out of memory");
}

HCQI_DEF HCQI_COLD size_t hcq_profile_print(hcq_device *const *devices, uint32_t count,
                                            hcq_profile_format format, char *text, size_t size) {
    hcqi_report report;
    hcqi_text t;
    hcqi_text_begin(&t, text, size);
    if (hcqi_report_make(&report, devices, count, format) == HCQ_OK) {
        hcqi_report_write(&t, &report);
    }
    hcqi_report_free(&report);
    return t.length;
}

HCQI_DEF HCQI_COLD hcq_result hcq_profile_save(hcq_device *const *devices, uint32_t count,
                                               hcq_profile_format format, const char *path) {
    hcqi_report report;
    hcqi_text t;
    hcqi_text_begin(&t, NULL, 0);
    hcq_result r = hcqi_report_make(&report, devices, count, format);
    if (r == HCQ_OK && path == NULL) {
        r = hcqi_refuse_alone(devices[0], HCQ_ERROR_INVALID, "path: is NULL");
    } else if (r == HCQ_OK) {
        t.file = hcqi_sys_file_create(path);
        if (t.file != NULL) { hcqi_report_write(&t, &report); }
        int bad = t.file == NULL || ferror(t.file);
        if (t.file != NULL && fclose(t.file) != 0) { bad = 1; }
        if (bad) {
            r = hcqi_refuse_alone(devices[0], HCQ_ERROR_NATIVE, "path: cannot write '%.80s'", path);
        }
    }
    hcqi_report_free(&report);
    return r;
}

#endif /* HCQ_IMPLEMENTATION */

#ifdef HCQ_CPU
#include "hcq_cpu.h"
#endif
#ifdef HCQ_VULKAN
#include "hcq_vulkan.h"
#endif
#ifdef HCQ_CUDA
#include "hcq_cuda.h"
#endif
#ifdef HCQ_CHECK
#include "hcq_check.h"
#endif

/* ========================================================================== */
/* ---- licence ------------------------------------------------- >>licence - */
/*
hcq is available under either of two licences. Choose whichever you prefer.

------------------------------------------------------------------------------
ALTERNATIVE A - MIT License

Copyright (c) 2026 the hcq authors

Permission is hereby granted, free of charge, to any person obtaining a copy of
this software and associated documentation files (the "Software"), to deal in
the Software without restriction, including without limitation the rights to
use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies
of the Software, and to permit persons to whom the Software is furnished to do
so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.

------------------------------------------------------------------------------
ALTERNATIVE B - Public Domain (www.unlicense.org)

This is free and unencumbered software released into the public domain.

Anyone is free to copy, modify, publish, use, compile, sell, or distribute this
software, either in source code form or as a compiled binary, for any purpose,
commercial or non-commercial, and by any means.

In jurisdictions that recognize copyright laws, the author or authors of this
software dedicate any and all copyright interest in the software to the public
domain. We make this dedication for the benefit of the public at large and to
the detriment of our heirs and successors. We intend this dedication to be an
overt act of relinquishment in perpetuity of all present and future rights to
this software under copyright law.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------
*/
