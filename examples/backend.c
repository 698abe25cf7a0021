/* backend.c - a backend of your own: TRACE passes every call on to another
   backend, times it and keeps the last calls as lines of text.

       cc examples/backend.c -o backend -pthread && ./backend [BACKEND]

   A backend is a table of functions, hcq_backend, described at >>backend in
   hcq.h. The core never looks behind it, so one that does no work itself but
   has another table do it can be put between the two: hcq_registry_find gives
   that table, hcq_registry_register makes the new one known. Programs then
   open "TRACE" instead of "CPU" and run as they did.

   Read it in this order: the notebook (plain C, nothing of hcq), the functions
   in the order of the table, the table itself, and at the end a program that
   runs through it and checks the result. In a program with a main of its own:

       #include "hcq.h"                        (with its implementation, or not)
       #define HCQ_EXAMPLE_NO_MAIN
       #include "backend.c"

   and trace_register("CPU") before the first hcq_open. */
#ifndef HCQ_EXAMPLE_NO_MAIN
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "../hcq.h"
#endif

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- the notebook ---------------------------------------------------------- */

/* Every function of the table, in its order. */
#define TRACE_FUNCTIONS(X)                                                         \
    X(driver_create) X(driver_destroy) X(devices) X(why_none)                      \
    X(open) X(close) X(lane_open) X(lane_close) X(query)                           \
    X(alloc) X(dealloc) X(import) X(map) X(unmap)                                  \
    X(program_create) X(program_destroy) X(exec_check) X(statistics)               \
    X(encode) X(patch) X(encode_free)                                              \
    X(submit) X(flush) X(give) X(completed) X(wait) X(kick) X(counter_reset)        \
    X(lose) X(can_wait) X(watch) X(clock) X(stamp_ns)

typedef enum trace_function {
#define TRACE_NUMBER(name) TRACE_##name,
    TRACE_FUNCTIONS(TRACE_NUMBER)
#undef TRACE_NUMBER
    TRACE_COUNT
} trace_function;

enum { TRACE_LINES = 256 };            /* kept; older ones are overwritten */

typedef struct trace_sum {
    uint64_t calls, failed, ns;
} trace_sum;

typedef struct trace_entry {
    uint64_t began, ns;                /* when, and how long it took */
    hcq_result result;
    char text[120];
} trace_entry;

/* One per program, as the table's functions are not told which table they were
   called through: it is their first argument alone that tells things apart. */
static struct {
    const hcq_backend *inner;          /* who does the work */
    hcq_backend table;                 /* what is registered */
    char full_name[96];
    uint64_t began;
    uint32_t lock;                     /* of what follows */
    uint32_t devices;                  /* opened so far */
    uint64_t lines;                    /* written so far */
    trace_sum sums[TRACE_COUNT];
    trace_entry ring[TRACE_LINES];
} trace;

/* The core's lock does not help here: the functions that hcq.h marks UNLOCKED
   are called by many threads at a time. Held for a few instructions only. */
static void trace_lock(void) {
    while (__atomic_exchange_n(&trace.lock, 1u, __ATOMIC_ACQUIRE)) {
        hcq_sys_yield();
    }
}

static void trace_unlock(void) {
    __atomic_store_n(&trace.lock, 0u, __ATOMIC_RELEASE);
}

/* Adds a call that began at `began` and has just returned `result`. */
static void trace_sum_up(trace_function function, uint64_t began, hcq_result result) {
    uint64_t now = hcq_now_ns();
    trace_lock();
    trace.sums[function].calls++;
    trace.sums[function].failed += (int)result < 0;
    trace.sums[function].ns += now - began;
    trace_unlock();
}

/* Adds a line. Text is made before the lock is taken. */
static void trace_line(uint64_t began, hcq_result result,
                                         const char *format, ...) {
    trace_entry entry;
    va_list args;
    entry.began = began;
    entry.ns = hcq_now_ns() - began;
    entry.result = result;
    va_start(args, format);
    vsnprintf(entry.text, sizeof entry.text, format, args);
    va_end(args);
    trace_lock();
    trace.ring[trace.lines++ % TRACE_LINES] = entry;
    trace_unlock();
}

/* ---- drivers and devices --------------------------------------------------- */
/* A driver needs nothing of its own here: the inner one's pointer is passed
   through as it is. A device does, and so `self` has to be translated in every
   function below. */

typedef struct trace_device {
    hcq_device *device;                /* for hcq_backend_alloc and the like */
    void *self;                        /* the inner backend's device */
    uint32_t number;
} trace_device;

static hcq_result trace_driver_create(const hcq_memory_hooks *memory, void **driver) {
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->driver_create(memory, driver);
    trace_sum_up(TRACE_driver_create, began, result);
    trace_line(began, result, "driver_create");
    return result;
}

static void trace_driver_destroy(const hcq_memory_hooks *memory, void *driver) {
    uint64_t began = hcq_now_ns();
    trace.inner->driver_destroy(memory, driver);
    trace_sum_up(TRACE_driver_destroy, began, HCQ_OK);
    trace_line(began, HCQ_OK, "driver_destroy");
}

static uint32_t trace_devices(void *driver, hcq_device_info *infos, uint32_t capacity) {
    uint64_t began = hcq_now_ns();
    uint32_t count = trace.inner->devices(driver, infos, capacity);
    trace_sum_up(TRACE_devices, began, HCQ_OK);
    return count;
}

static const char *trace_why_none(void *driver) {
    uint64_t began = hcq_now_ns();
    const char *why = trace.inner->why_none(driver);
    trace_sum_up(TRACE_why_none, began, HCQ_OK);
    return why;
}

static uint32_t trace_next_number(void) {
    trace_lock();
    uint32_t number = ++trace.devices;
    trace_unlock();
    return number;
}

/* Memory comes from the user's hooks, never from malloc. The inner backend gets
   the same `device`: whatever it reports, it reports to the core directly. */
static hcq_result trace_open(void *driver, hcq_device *device, uint32_t ordinal,
                             const hcq_device_desc *desc, hcq_backend_caps *caps, void **self) {
    uint64_t began = hcq_now_ns();
    trace_device *d = (trace_device *)hcq_backend_alloc(device, sizeof *d, 16);
    if (!d) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    d->device = device;
    d->self = NULL;
    d->number = trace_next_number();
    hcq_result result = trace.inner->open(driver, device, ordinal, desc, caps, &d->self);
    trace_sum_up(TRACE_open, began, result);
    trace_line(began, result, "dev%u open ordinal %u: %s, %u compute and %u copy lanes", d->number,
               ordinal, caps->name, caps->compute_lanes, caps->copy_lanes);
    if (result != HCQ_OK) {
        hcq_backend_free(device, d, sizeof *d);
        return result;
    }
    *self = d;
    return HCQ_OK;
}

static void trace_close(void *self) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->close(d->self);
    trace_sum_up(TRACE_close, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u close", d->number);
    hcq_backend_free(d->device, d, sizeof *d);
}

static const char *trace_kind(const hcq_lane *lane) {
    return lane->kind == HCQ_COPY ? "copy" : "compute";
}

/* Lanes are the core's, and it knows them by their address: they are passed on,
   not copied. The inner backend may look for its own device in lane->self, be
   it in a wait for a lane of another device, so that is what has to be there. */
static hcq_result trace_lane_open(void *self, hcq_lane *lane) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    lane->self = d->self;
    hcq_result result = trace.inner->lane_open(d->self, lane);
    trace_sum_up(TRACE_lane_open, began, result);
    trace_line(began, result, "dev%u lane_open %s %u", d->number, trace_kind(lane), lane->index);
    return result;
}

static void trace_lane_close(void *self, hcq_lane *lane) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->lane_close(d->self, lane);
    trace_sum_up(TRACE_lane_close, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u lane_close %s %u", d->number, trace_kind(lane), lane->index);
}

static hcq_result trace_query(void *self, uint32_t key, uint64_t *value) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->query(d->self, key, value);
    trace_sum_up(TRACE_query, began, result);
    return result;
}

/* ---- memory ---------------------------------------------------------------- */

static hcq_result trace_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->alloc(d->self, size, flags, memory);
    trace_sum_up(TRACE_alloc, began, result);
    trace_line(began, result, "dev%u alloc %llu bytes, flags %#x", d->number,
               (unsigned long long)size, flags);
    return result;
}

static void trace_dealloc(void *self, hcq_memory *memory) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    unsigned long long size = memory->size;
    trace.inner->dealloc(d->self, memory);
    trace_sum_up(TRACE_dealloc, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u dealloc %llu bytes", d->number, size);
}

static hcq_result trace_import(void *self, void *ptr, uint64_t size, hcq_memory *memory) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->import(d->self, ptr, size, memory);
    trace_sum_up(TRACE_import, began, result);
    trace_line(began, result, "dev%u import %llu bytes", d->number, (unsigned long long)size);
    return result;
}

/* The owner may be a device of any backend. If it is one of this table, the
   inner backend must be told about its own device instead: `owner_self` is
   not to be touched before that is known. */
static hcq_result trace_map(void *self, const struct hcq_backend *owner_backend,
                            void *owner_self, const hcq_memory *memory, uint64_t *address) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    if (owner_backend == &trace.table) {
        owner_backend = trace.inner;
        owner_self = ((trace_device *)owner_self)->self;
    }
    hcq_result result = trace.inner->map(d->self, owner_backend, owner_self, memory, address);
    trace_sum_up(TRACE_map, began, result);
    trace_line(began, result, "dev%u map %llu bytes of %s", d->number,
               (unsigned long long)(memory ? memory->size : 0), owner_backend->name);
    return result;
}

static void trace_unmap(void *self, const struct hcq_backend *owner_backend, void *owner_self,
                        const hcq_memory *memory) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    if (owner_backend == &trace.table) {
        owner_backend = trace.inner;
        owner_self = ((trace_device *)owner_self)->self;
    }
    trace.inner->unmap(d->self, owner_backend, owner_self, memory);
    trace_sum_up(TRACE_unmap, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u unmap %llu bytes of %s", d->number,
               (unsigned long long)memory->size, owner_backend->name);
}

/* ---- programs and versions ------------------------------------------------- */

/* `code` goes into packets, which the inner backend reads: it stays its own. */
static hcq_result trace_program_create(void *self, const hcq_program_desc *desc,
                                       const hcq_program_info *info, void **code) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->program_create(d->self, desc, info, code);
    trace_sum_up(TRACE_program_create, began, result);
    trace_line(began, result, "dev%u program_create '%s', %u arguments, %u bytes", d->number,
               info->label, info->arg_count, info->kernargs_size);
    return result;
}

static void trace_program_destroy(void *self, void *code) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->program_destroy(d->self, code);
    trace_sum_up(TRACE_program_destroy, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u program_destroy", d->number);
}

static hcq_result trace_exec_check(void *self, void *code, const uint32_t block[3]) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->exec_check(d->self, code, block);
    trace_sum_up(TRACE_exec_check, began, result);
    return result;
}

static void trace_statistics(void *self, void *code, char *text, size_t size) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->statistics(d->self, code, text, size);
    trace_sum_up(TRACE_statistics, began, HCQ_OK);
}

static hcq_result trace_encode(void *self, hcq_recording *recording) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->encode(d->self, recording);
    trace_sum_up(TRACE_encode, began, result);
    trace_line(began, result, "dev%u encode '%s', %u packets", d->number, recording->label,
               recording->count);
    return result;
}

static hcq_result trace_patch(void *self, hcq_recording *recording, uint32_t index) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->patch(d->self, recording, index);
    trace_sum_up(TRACE_patch, began, result);
    return result;
}

static void trace_encode_free(void *self, hcq_recording *recording) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->encode_free(d->self, recording);
    trace_sum_up(TRACE_encode_free, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u encode_free", d->number);
}

/* ---- work ------------------------------------------------------------------ */

/* ", after copy 0 at 7 and 2 more", for what a batch waits for. */
static void trace_waits(char *text, size_t size, const hcq_lane *lane, const hcq_batch *batch) {
    const hcq_lane_point *first = batch->waits;
    char more[32] = "";
    text[0] = 0;
    if (!batch->wait_count) {
        return;
    }
    if (batch->wait_count > 1) {
        snprintf(more, sizeof more, " and %u more", batch->wait_count - 1);
    }
    snprintf(text, size, ", after %s %u%s at %llu%s", trace_kind(first->lane), first->lane->index,
             first->lane->device == lane->device ? "" : " of another device",
             (unsigned long long)first->value, more);
}

/* The line is made before the call: a batch may be done when it returns, and
   with that what it names may be gone. HCQ_NOT_READY is no error, it asks for a
   flush or to be given, and the core's answer must reach the inner backend. */
static hcq_result trace_submit(void *self, hcq_lane *lane, hcq_batch *batch) {
    trace_device *d = (trace_device *)self;
    char waits[80], label[32];
    snprintf(label, sizeof label, "%s", batch->recording ? batch->recording->label : "");
    trace_waits(waits, sizeof waits, lane, batch);
    unsigned long long value = batch->done.value;
    uint32_t counter = batch->done.counter, count = batch->recording ? batch->count : 0;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->submit(d->self, lane, batch);
    trace_sum_up(TRACE_submit, began, result);
    trace_line(began, result, "dev%u submit %s %u '%s': %u packets, counter %u to %llu%s",
               d->number, trace_kind(lane), lane->index, label, count, counter, value, waits);
    return result;
}

static void trace_flush(void *self) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->flush(d->self);
    trace_sum_up(TRACE_flush, began, HCQ_OK);
}

static uint32_t trace_give(void *self, const hcq_batch *batches, uint32_t count) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    uint32_t given = trace.inner->give(d->self, batches, count);
    trace_sum_up(TRACE_give, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u give %u of %u batches", d->number, given, count);
    return given;
}

static void trace_lose(void *self) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->lose(d->self);
    trace_sum_up(TRACE_lose, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u lose", d->number);
}

static uint64_t trace_completed(void *self, hcq_lane *lane, uint32_t counter) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    uint64_t value = trace.inner->completed(d->self, lane, counter);
    trace_sum_up(TRACE_completed, began, HCQ_OK);
    return value;
}

/* A wait that timed out gets no line: the core also waits in small slices, and
   those would soon fill the ring. */
static hcq_result trace_wait(void *self, hcq_lane *lane, uint32_t counter, uint64_t value,
                             uint64_t timeout_ns, int serves) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->wait(d->self, lane, counter, value, timeout_ns, serves);
    trace_sum_up(TRACE_wait, began, result);
    if (result != HCQ_TIMEOUT) {
        trace_line(began, result, "dev%u wait %s %u: counter %u at %llu", d->number,
                   trace_kind(lane), lane->index, counter, (unsigned long long)value);
    }
    return result;
}

static void trace_kick(void *self) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->kick(d->self);
    trace_sum_up(TRACE_kick, began, HCQ_OK);
}

static void trace_counter_reset(void *self, hcq_lane *lane, uint32_t counter) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->counter_reset(d->self, lane, counter);
    trace_sum_up(TRACE_counter_reset, began, HCQ_OK);
    trace_line(began, HCQ_OK, "dev%u counter_reset %s %u: counter %u", d->number,
               trace_kind(lane), lane->index, counter);
}

/* `other` may belong to any backend, as in map. */
static int trace_can_wait(void *self, const struct hcq_backend *owner_backend,
                          const hcq_lane *other) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    if (owner_backend == &trace.table) {
        owner_backend = trace.inner;
    }
    int can = trace.inner->can_wait(d->self, owner_backend, other);
    trace_sum_up(TRACE_can_wait, began, HCQ_OK);
    return can;
}

/* The inner backend itself calls hcq_backend_notify, with the core's lane. */
static void trace_watch(void *self, hcq_lane *lane, int on) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    trace.inner->watch(d->self, lane, on);
    trace_sum_up(TRACE_watch, began, HCQ_OK);
}

static hcq_result trace_clock(void *self, hcq_clock *clock) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    hcq_result result = trace.inner->clock(d->self, clock);
    trace_sum_up(TRACE_clock, began, result);
    return result;
}

static uint64_t trace_stamp_ns(void *self, const hcq_lane *lane, uint64_t stored) {
    trace_device *d = (trace_device *)self;
    uint64_t began = hcq_now_ns();
    uint64_t ns = trace.inner->stamp_ns(d->self, lane, stored);
    trace_sum_up(TRACE_stamp_ns, began, HCQ_OK);
    return ns;
}

/* ---- the table ------------------------------------------------------------- */
/* From zero, function by function, and not a copy of the inner table: a function
   passed on unwrapped would get a `self` that it does not know. What the inner
   backend leaves out is left out here, since the core draws conclusions from
   that: without `clock` it measures, without `watch` it starts a thread. */

static void trace_table_work(hcq_backend *table, const hcq_backend *inner) {
    table->submit = trace_submit;
    table->completed = trace_completed;
    table->wait = trace_wait;
    table->kick = inner->kick ? trace_kick : NULL;
    table->counter_reset = trace_counter_reset;
    table->flush = inner->flush ? trace_flush : NULL;
    table->give = inner->give ? trace_give : NULL;
    table->lose = inner->lose ? trace_lose : NULL;
    table->can_wait = inner->can_wait ? trace_can_wait : NULL;
    table->watch = inner->watch ? trace_watch : NULL;
    table->clock = inner->clock ? trace_clock : NULL;
    table->stamp_ns = inner->stamp_ns ? trace_stamp_ns : NULL;
}

static void trace_table_objects(hcq_backend *table, const hcq_backend *inner) {
    table->alloc = trace_alloc;
    table->dealloc = trace_dealloc;
    table->import = inner->import ? trace_import : NULL;
    table->map = inner->map ? trace_map : NULL;
    table->unmap = inner->unmap ? trace_unmap : NULL;
    table->program_create = trace_program_create;
    table->program_destroy = trace_program_destroy;
    table->exec_check = inner->exec_check ? trace_exec_check : NULL;
    table->statistics = inner->statistics ? trace_statistics : NULL;
    if (inner->encode) {               /* the three come together */
        table->encode = trace_encode;
        table->patch = trace_patch;
        table->encode_free = trace_encode_free;
    }
}

static void trace_table(hcq_backend *table, const hcq_backend *inner) {
    memset(table, 0, sizeof *table);
    table->version = 8;                /* as of hcq 1.0; another one is refused */
    table->name = "TRACE";
    table->full_name = trace.full_name;
    if (inner->driver_create) {
        table->driver_create = trace_driver_create;
        table->driver_destroy = trace_driver_destroy;
    }
    table->devices = trace_devices;
    table->why_none = inner->why_none ? trace_why_none : NULL;
    table->open = trace_open;
    table->close = trace_close;
    table->lane_open = trace_lane_open;
    table->lane_close = trace_lane_close;
    table->query = inner->query ? trace_query : NULL;
    trace_table_objects(table, inner);
    trace_table_work(table, inner);
}

/* Makes "TRACE" known to the default registry, around the backend of that name.
   The table then has to stay as it is until trace_unregister, and that until
   its devices are closed. */
static hcq_result trace_register(const char *name) {
    const hcq_backend *inner = hcq_registry_find(NULL, name);
    if (!inner) {
        return HCQ_ERROR_NO_DEVICE;
    }
    if (hcq_registry_find(NULL, "TRACE") == &trace.table) {
        return HCQ_ERROR_EXISTS;       /* there is one notebook, and it is in use */
    }
    memset(&trace, 0, sizeof trace);
    trace.inner = inner;
    trace.began = hcq_now_ns();
    snprintf(trace.full_name, sizeof trace.full_name, "trace of %.31s: %.40s", inner->name,
             inner->full_name);
    trace_table(&trace.table, inner);
    return hcq_registry_register(NULL, &trace.table);
}

static hcq_result trace_unregister(void) {
    return hcq_registry_unregister(NULL, &trace.table);
}

/* ---- reading the notebook -------------------------------------------------- */

static const char *trace_name(int function) {
    static const char *const names[] = {
#define TRACE_TEXT(name) #name,
        TRACE_FUNCTIONS(TRACE_TEXT)
#undef TRACE_TEXT
    };
    return names[function];
}

/* Copies line `index`, counted from the first ever; 0 = not there any more. */
static int trace_read(uint64_t index, trace_entry *entry) {
    trace_lock();
    int there = index < trace.lines && trace.lines - index <= TRACE_LINES;
    if (there) {
        *entry = trace.ring[index % TRACE_LINES];
    }
    trace_unlock();
    return there;
}

static trace_sum trace_sum_of(int function) {
    trace_lock();
    trace_sum sum = trace.sums[function];
    trace_unlock();
    return sum;
}

static uint64_t trace_line_count(void) {
    trace_lock();
    uint64_t lines = trace.lines;
    trace_unlock();
    return lines;
}

/* Prints the last `count` lines. */
static void trace_print(FILE *file, uint64_t count) {
    uint64_t lines = trace_line_count();
    trace_entry entry;
    uint64_t first = lines > count ? lines - count : 0;
    fprintf(file, "      at us    took us  the last of %llu lines\n", (unsigned long long)lines);
    for (uint64_t i = first; i < lines; i++) {
        if (trace_read(i, &entry)) {
            fprintf(file, "%11.3f %10.3f  %s%s%s\n", (double)(entry.began - trace.began) / 1000,
                    (double)entry.ns / 1000, entry.text,
                    (int)entry.result < 0 ? " -> " : "",
                    (int)entry.result < 0 ? hcq_result_name(entry.result) : "");
        }
    }
}

/* Prints what was called how often, and how long it took. */
static void trace_print_sums(FILE *file) {
    fprintf(file, "%-16s %9s %7s %12s %10s\n", "function", "calls", "failed", "ns", "ns a call");
    for (int i = 0; i < TRACE_COUNT; i++) {
        trace_sum sum = trace_sum_of(i);
        if (sum.calls) {
            fprintf(file, "%-16s %9llu %7llu %12llu %10llu\n", trace_name(i),
                    (unsigned long long)sum.calls, (unsigned long long)sum.failed,
                    (unsigned long long)sum.ns, (unsigned long long)(sum.ns / sum.calls));
        }
    }
}

/* Counts what was made and not unmade: 0 once all devices are closed. Versions
   are left out, one that encode left without `encoded` is not freed. */
static uint64_t trace_left(void) {
    static const int made[] = {TRACE_driver_create, TRACE_open, TRACE_lane_open, TRACE_alloc,
                               TRACE_import, TRACE_program_create};
    static const int unmade[] = {TRACE_driver_destroy, TRACE_close, TRACE_lane_close,
                                 TRACE_dealloc, TRACE_program_destroy};
    uint64_t left = 0;
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        trace_sum sum = trace_sum_of(made[i]);
        left += sum.calls - sum.failed;
    }
    for (size_t i = 0; i < sizeof unmade / sizeof unmade[0]; i++) {
        left -= trace_sum_of(unmade[i]).calls;
    }
    return left;
}

#ifndef HCQ_EXAMPLE_NO_MAIN
/* ---- a program that runs through it ---------------------------------------- */

enum { N = 1000, BLOCK = 64, LINES = 24 };

typedef struct saxpy_args { uint64_t y, x; float a; uint32_t n; } saxpy_args;

static void saxpy(const void *args, const hcq_block *b) {
    const saxpy_args *k = HCQ_ARGS(saxpy_args, args);
    float *y = HCQ_PTR(float, k->y);
    const float *x = HCQ_PTR(const float, k->x);
    for (uint32_t t = 0; t < b->block.x; t++) {
        uint32_t i = b->id.x * b->block.x + t;
        if (i < k->n) { y[i] += k->a * x[i]; }
    }
}

static hcq_result make_program(hcq_device *dev, hcq_program **program) {
    hcq_program_desc desc = HCQ_CPU_PROGRAM("saxpy", saxpy, HCQ_ARG_INOUT, HCQ_ARG_IN,
                                            HCQ_ARG_F32, HCQ_ARG_U32);
    return hcq_program_create(dev, &desc, program);
}

/* A buffer with `size` bytes of `data`. */
static hcq_result upload(hcq_device *dev, const void *data, uint64_t size, hcq_buffer *buffer) {
    hcq_result r = hcq_alloc(dev, size, 0, buffer);
    return r == HCQ_OK ? hcq_copyin(*buffer, data, size) : r;
}

/* Submits y = y + 2 x on a compute lane. */
static hcq_result submit_saxpy(hcq_device *dev, hcq_buffer x, hcq_buffer y, hcq_point *done) {
    saxpy_args args = {y.address, x.address, 2.0f, N};
    hcq_program *program = NULL;
    hcq_queue *queue = NULL;
    hcq_result r = make_program(dev, &program);
    if (r == HCQ_OK) { r = hcq_queue_create(dev, HCQ_COMPUTE, &queue); }
    if (r == HCQ_OK) { r = hcq_queue_label(queue, "saxpy"); }
    if (r != HCQ_OK) { return r; }
    hcq_queue_exec(queue, program, &args, sizeof args, hcq_dim((N + BLOCK - 1) / BLOCK, 1, 1),
                   hcq_dim(BLOCK, 1, 1));
    return hcq_queue_submit(queue, dev, done); /* or the recording's first error */
}

/* Submits z = y on a copy lane, after `point`. */
static hcq_result submit_copy(hcq_device *dev, hcq_buffer z, hcq_buffer y, hcq_point point,
                              hcq_point *done) {
    hcq_queue *queue = NULL;
    hcq_result r = hcq_queue_create(dev, HCQ_COPY, &queue);
    if (r == HCQ_OK) { r = hcq_queue_label(queue, "copy"); }
    if (r != HCQ_OK) { return r; }
    hcq_queue_wait(queue, point);
    hcq_queue_copy(queue, z, y, N * sizeof(float));
    return hcq_queue_submit(queue, dev, done);
}

/* z = y + 2 x, computed on `dev`. */
static hcq_result run(hcq_device *dev, const float *x, const float *y, float *z) {
    const uint64_t size = N * sizeof(float);
    hcq_buffer bx, by, bz;
    hcq_point computed, copied;
    hcq_result r = upload(dev, x, size, &bx);
    if (r == HCQ_OK) { r = upload(dev, y, size, &by); }
    if (r == HCQ_OK) { r = hcq_alloc(dev, size, 0, &bz); }
    if (r == HCQ_OK) { r = submit_saxpy(dev, bx, by, &computed); }
    if (r == HCQ_OK) { r = submit_copy(dev, bz, by, computed, &copied); }
    if (r == HCQ_OK) { r = hcq_wait(&copied, 1, HCQ_ALL, HCQ_FOREVER); }
    return r == HCQ_OK ? hcq_copyout(z, bz, size) : r;
}

/* Runs it, prints the trace and counts the values that plain C confirms. */
static hcq_result run_traced(uint32_t *right) {
    float x[N], y[N], z[N];
    hcq_device *dev = NULL;
    for (uint32_t i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1.0f;
        z[i] = 0.0f;
    }
    hcq_result r = hcq_open("TRACE", NULL, &dev);
    if (r == HCQ_OK) { r = run(dev, x, y, z); }
    trace_print(stdout, LINES);
    hcq_result closed = hcq_close(dev);
    for (uint32_t i = 0; i < N; i++) {
        *right += z[i] == y[i] + 2.0f * x[i];
    }
    return r == HCQ_OK ? closed : r;
}

int main(int argc, char **argv) {
    const char *inner = argc > 1 ? argv[1] : "CPU";
    uint32_t right = 0;
    hcq_result r = trace_register(inner);
    if (r != HCQ_OK || argc > 2) {
        fprintf(stderr, "usage: backend [BACKEND to trace]\n%s: %s\n", inner, hcq_result_text(r));
        return 1;
    }
    r = run_traced(&right);
    printf("\n");
    trace_print_sums(stdout);
    int balanced = trace_left() == 0 && trace_unregister() == HCQ_OK;
    uint64_t submits = trace_sum_of(TRACE_submit).calls;
    printf("\n%s: TRACE of %s, %u of %d right, %llu submits, %s\n", hcq_result_text(r), inner,
           right, (int)N, (unsigned long long)submits,
           balanced ? "all given back" : "NOT ALL GIVEN BACK");
    return r != HCQ_OK || right != N || submits < 2 || !balanced;
}
#endif /* HCQ_EXAMPLE_NO_MAIN */
