/* bench_cuda_facts.h - what the driver does and what its calls cost, without hcq: no sides, no
   goals, only numbers by name, each with the question that it answers, for those who work on
   the backend. Part of bench_cuda.c. */
#pragma once

/* Without hcq, but with a word of pinned memory. The context stays current. */
static int facts_open(cuda *c, bench_result *result) {
    memset(c, 0, sizeof *c);
    if (!open_raw(&c->raw, result)) {
        return 0;
    }
    c->pinned_word = raw_pinned_make(&c->raw, 64);
    c->raw_counter = raw_memory(&c->raw, 64);
    make_streams(c);
    return 1;
}

static void facts_close(cuda *c) {
    RAW(&c->raw, CtxSynchronize());
    RAW(&c->raw, MemFree(c->raw_counter));
    RAW(&c->raw, MemFreeHost(c->pinned_word.host));
    raw_close(&c->raw);
}

static void finish_both(cuda *c) {
    raw_finish(&c->raw, c->streams[0]);
    raw_finish(&c->raw, c->streams[1]);
}

static void write_word(cuda *c, raw_stream stream) {
    RAW(&c->raw, StreamWriteValue64(stream, c->pinned_word.address, ++c->word, 0));
}

static void spin_until_written(const cuda *c) {
    uint64_t end = bench_now() + 10000000000u;
    while (__atomic_load_n(c->pinned_word.host, __ATOMIC_ACQUIRE) < c->word) {
        if (bench_now() > end) {
            bench_die("a word of pinned memory stays below %llu", (unsigned long long)c->word);
        }
        if (bench_smoke()) {
            sched_yield();                /* the mock's device needs the processor, too */
        }
    }
}

/* ---- what some calls take ---- */

/* In this order; of i-th calls the stream is by turns one of two. */
enum {
    CONTEXT = 1, WAIT_VALUE = 2, WAIT_BEFORE = 4, LAUNCH = 8, STORE_FIRST = 16, RECORD = 32,
    STORE = 64, SET = 128, GRAPH = 256, WAIT_OTHER = 512, QUERY = 1024, STREAM_QUERY = 2048,
    SYNC_EVENT = 4096, SPIN = 8192, SYNC_STREAM = 16384
};

static void do_calls(cuda *c, uint32_t what, uint32_t i) {
    raw_stream stream = c->streams[i % 2];
    raw_context context;
    raw *r = &c->raw;
    if (what & CONTEXT) {
        RAW(r, CtxPushCurrent(r->context));
        RAW(r, CtxPopCurrent(&context));
    }
    if (what & WAIT_VALUE) {
        RAW(r, StreamWaitValue64(stream, c->pinned_word.address, c->word, 0));
    } else if ((what & WAIT_BEFORE) && i != 0) {
        RAW(r, StreamWaitEvent(stream, c->events[i - 1], 0));
    }
    if (what & LAUNCH) {
        raw_launch_tiny(r, stream, c->raw_counter);
    }
    if (what & STORE_FIRST) {
        write_word(c, stream);
    }
    if (what & RECORD) {
        RAW(r, EventRecord(c->events[i], stream));
    }
    if (what & STORE) {
        write_word(c, stream);
    }
    if (what & SET) {
        raw_set_tiny(r, c->exec, c->node, c->raw_counter);
    }
    if (what & GRAPH) {
        RAW(r, GraphLaunch(c->exec, stream));
    }
    if (what & WAIT_OTHER) {
        RAW(r, StreamWaitEvent(c->streams[1], c->events[0], 0));
    }
    if (what & (QUERY | STREAM_QUERY)) {
        (void)(what & QUERY ? r->EventQuery(c->events[0]) : r->StreamQuery(stream));
    }
    if (what & SYNC_EVENT) {
        RAW(r, EventSynchronize(c->events[0]));
    }
    if (what & SPIN) {
        spin_until_written(c);
    }
}

/* A hop: a wait for the other stream, a kernel, its end. A trip: a kernel, until the
   host knows that it is done. A call: one among some that CUDA has room for; nothing runs
   before them. */
typedef enum fact_kind { HOP, TRIP, CALL } fact_kind;

static const struct { const char *name; fact_kind kind; uint32_t what; } g_facts[] = {
    {"hop_event_ns", HOP, WAIT_BEFORE | LAUNCH | RECORD},
    {"hop_write_then_event_ns", HOP, WAIT_BEFORE | LAUNCH | STORE_FIRST | RECORD},
    {"hop_event_then_write_ns", HOP, WAIT_BEFORE | LAUNCH | RECORD | STORE},
    {"hop_value_ns", HOP, WAIT_VALUE | LAUNCH | STORE},
    {"trip_stream_sync_ns", TRIP, LAUNCH | SYNC_STREAM},
    {"trip_event_sync_ns", TRIP, LAUNCH | RECORD | SYNC_EVENT},
    {"trip_word_ns", TRIP, LAUNCH | STORE | SPIN},
    {"push_pop_ns", CALL, CONTEXT},
    {"launch_ns", CALL, LAUNCH},
    {"store_ns", CALL, STORE},
    {"record_ns", CALL, RECORD},
    {"wait_event_ns", CALL, WAIT_OTHER},
    {"event_query_ns", CALL, QUERY},
    {"stream_query_ns", CALL, STREAM_QUERY},
    {"graph_launch_ns", CALL, GRAPH},
    {"graph_set_launch_ns", CALL, SET | GRAPH},
    {"launch_store_ns", CALL, LAUNCH | STORE},
    {"launch_record_ns", CALL, LAUNCH | RECORD},
    {"launch_record_store_ns", CALL, LAUNCH | RECORD | STORE}};

static double fact_ns(cuda *c, fact_kind kind, uint32_t what) {
    enum { MOST = 2000 };
    static double times[MOST];
    const uint32_t count = kind == HOP ? hops() : kind == TRIP ? 1 : bench_of(4, 200, 200);
    const uint32_t rounds = kind == HOP ? bench_of(2, 50, 50) :
                            kind == TRIP ? bench_of(3, MOST, MOST) : 30;
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        for (uint32_t k = 0; k < count; k++) {
            do_calls(c, what, kind == HOP ? k : 0);
        }
        if (kind == HOP || (what & SYNC_STREAM)) {
            raw_finish(&c->raw, c->streams[(count - 1) % 2]);
        }
        times[i] = (double)(bench_now() - start) / count;
        finish_both(c);
    }
    return bench_median(times, rounds);
}

static void facts_of(cuda *c, bench_result *result, fact_kind first, fact_kind last) {
    for (size_t i = 0; i < sizeof g_facts / sizeof g_facts[0]; i++) {
        fact_kind kind = g_facts[i].kind;
        int there = c->raw.memops || !(g_facts[i].what & (WAIT_VALUE | STORE_FIRST | STORE));
        if (kind >= first && kind <= last) {
            bench_extra_add(result, g_facts[i].name,
                            there ? fact_ns(c, kind, g_facts[i].what) : BENCH_NONE);
        }
    }
}

static void fact_hops(cuda *c, bench_result *result) { facts_of(c, result, HOP, TRIP); }

static void fact_calls(cuda *c, bench_result *result) {
    RAW(&c->raw, EventRecord(c->events[0], c->streams[0]));
    RAW(&c->raw, GraphCreate(&c->graph, 0));
    c->node = raw_add_tiny(&c->raw, c->graph, NULL, c->raw_counter);
    c->exec = raw_instantiate(&c->raw, c->graph);
    facts_of(c, result, CALL, CALL);
    raw_graph_free(&c->raw, c->exec, c->graph);
}

/* ---- how many operations are taken ---- */

typedef struct fact_watch { cuda *c; uint64_t given; } fact_watch;

/* Lets the stream go when the other thread gets no further. */
static void *fact_let_go(void *user) {
    fact_watch *w = (fact_watch *)user;
    uint64_t before;
    do {
        before = __atomic_load_n(&w->given, __ATOMIC_ACQUIRE);
        bench_sleep_ms(100);
    } while (__atomic_load_n(&w->given, __ATOMIC_ACQUIRE) != before);
    __atomic_store_n(w->c->pinned_word.host, w->c->word, __ATOMIC_RELEASE);
    return NULL;
}

static void fact_pending(cuda *c, bench_result *result) {
    const uint32_t most = bench_of(200, 5000, 5000);
    fact_watch w = {c, 0};
    uint64_t longest = 0;
    pthread_t thread;
    if (!c->raw.memops) {
        return;
    }
    RAW(&c->raw, StreamWaitValue64(c->streams[0], c->pinned_word.address, ++c->word, 0));
    bench_thread(&thread, fact_let_go, &w);
    for (uint64_t i = 0; i < most && longest < 50000000; i++) {
        uint64_t start = bench_now();
        raw_launch_tiny(&c->raw, c->streams[0], c->raw_counter);
        longest = bench_now() - start > longest ? bench_now() - start : longest;
        __atomic_store_n(&w.given, i + 1, __ATOMIC_RELEASE);
    }
    pthread_join(thread, NULL);
    bench_extra_add(result, "launches_taken", (double)w.given);
    bench_extra_add(result, "longest_call_us", (double)longest / 1e3);
}

/* ---- what pages cost ---- */

static double fact_pin_us(cuda *c, size_t size, double *free_us) {
    void *host;
    uint64_t start = bench_now();
    RAW(&c->raw, MemHostAlloc(&host, size, 3));
    uint64_t made = bench_now();
    RAW(&c->raw, MemFreeHost(host));
    *free_us = (double)(bench_now() - made) / 1e3;
    return (double)(made - start) / 1e3;
}

static void fact_pinning(cuda *c, bench_result *result) {
    static const struct { size_t size; const char *made, *freed; } sizes[] = {
        {65536, "alloc_64k_us", "free_64k_us"}, {(size_t)64 << 20, "alloc_64m_us", "free_64m_us"}};
    for (int i = 0; i < 2; i++) {
        double freed, made = fact_pin_us(c, sizes[i].size, &freed);
        made = fact_pin_us(c, sizes[i].size, &freed); /* the first one makes other things, too */
        bench_extra_add(result, sizes[i].made, made);
        bench_extra_add(result, sizes[i].freed, freed);
    }
}

/* ---- ranges that meet ---- */

static void fact_ranges(cuda *c, bench_result *result) {
    enum { HALF = 8192, SOME = 100 };
    static unsigned char bytes[2 * HALF] __attribute__((aligned(4096)));
    void *pinned;
    raw *r = &c->raw;
    RAW(r, MemHostRegister(bytes, SOME, 3));
    bench_extra_add(result, "two_on_a_page", r->MemHostRegister(bytes + SOME, SOME, 3));
    (void)r->MemHostUnregister(bytes + SOME);
    RAW(r, MemHostUnregister(bytes));
    RAW(r, MemHostAlloc(&pinned, HALF, 3));
    bench_extra_add(result, "in_pinned_memory", r->MemHostRegister(pinned, SOME, 3));
    RAW(r, MemFreeHost(pinned));
    RAW(r, MemHostRegister(bytes, HALF, 3));
    RAW(r, MemHostRegister(bytes + HALF, HALF, 3));
    raw_pointer to = raw_memory(r, SOME);
    if (!r->mock) {                       /* which ends there */
        raw_pointer from = (raw_pointer)(uintptr_t)(bytes + HALF - SOME / 2);
        bench_extra_add(result, "copy_over_a_seam", r->MemcpyAsync(to, from, SOME, r->stream));
        raw_finish(r, r->stream);
    }
    RAW(r, MemFree(to));
    RAW(r, MemHostUnregister(bytes + HALF));
    RAW(r, MemHostUnregister(bytes));
}

/* ---- naps ---- */

static void fact_naps(bench_result *result) {
    enum { NAPS = 200, ASKED = 50000 };
    double late[NAPS];
    uint32_t never = 0;
    bench_note(result, "how much later than asked for does a sleep of 50 us end here? (waits on CUDA "
                       "measure it, and begin with 60 us)");
    for (int i = 0; i < NAPS; i++) {
        uint64_t start = bench_now();
        (void)hcq_sys_wait(&never, 0, ASKED);
        late[i] = (double)(bench_now() - start) - ASKED;
    }
    bench_extra_add(result, "late_ns", bench_median(late, NAPS));
}

/* ---- which calls wait for what runs ---- */

/* What a kernel of another stream holds up: microseconds of the call while one runs for
   60,000, each for the first time in this process, and in the order in which objects live. */
#define BLOCKS(X)                                                                          \
    X(launch_us, raw_launch_tiny(r, stream, c->raw_counter))                               \
    X(stream_create_us, blocks.stream = raw_stream_make(r))                                \
    X(event_create_us, blocks.event = raw_event_make(r, RAW_SPIN_EVENT))                   \
    X(event_record_destroy_us, RAW(r, EventRecord(blocks.event, stream));                  \
                               RAW(r, EventDestroy(blocks.event)))                         \
    X(module_load_us, RAW(r, ModuleLoadDataEx(&blocks.module, bench_cuda_ptx, 0, NULL, NULL))) \
    X(get_function_us,                                                                     \
      RAW(r, ModuleGetFunction(&blocks.function, blocks.module, "bench_tiny"));            \
      RAW(r, ModuleGetFunction(&blocks.other, blocks.module, "bench_hold")))               \
    X(func_load_us, raw_check(blocks.load ? blocks.load(blocks.function) : 0, "FuncLoad")) \
    X(launch_after_load_us, raw_launch(r, blocks.function, stream, c->raw_counter, 1))     \
    X(first_launch_us, raw_launch(r, blocks.other, stream, c->raw_counter, 1))             \
    X(alloc_us, RAW(r, MemAlloc(&blocks.memory, BLOCK_SIZE)))                              \
    X(memset_us, RAW(r, MemsetD8Async(blocks.memory, 1, BLOCK_SIZE, stream)))              \
    X(memset_of_host_us, RAW(r, MemsetD8Async(c->pinned_word.address, 0, 4, stream)))      \
    X(copyin_pageable_us, copy_pageable(blocks.memory, (uintptr_t)blocks.pages))           \
    X(copyout_pageable_us, copy_pageable((uintptr_t)blocks.pages, blocks.memory))          \
    X(free_us, RAW(r, MemFree(blocks.memory)))                                             \
    X(host_alloc_64k_us, RAW(r, MemHostAlloc(&blocks.pinned, BLOCK_SIZE, 3)))              \
    X(host_alloc_64m_us, RAW(r, MemHostAlloc(&blocks.large, 1024 * BLOCK_SIZE, 3)))        \
    X(host_free_64k_us, RAW(r, MemFreeHost(blocks.pinned)))                                \
    X(host_free_64m_us, RAW(r, MemFreeHost(blocks.large)))                                 \
    X(register_us, RAW(r, MemHostRegister(blocks.pages, BLOCK_SIZE, 3)))                   \
    X(unregister_us, RAW(r, MemHostUnregister(blocks.pages)))                              \
    X(instantiate_us, RAW(r, GraphInstantiate(&blocks.exec, blocks.graph, 0)))             \
    X(upload_us, RAW(r, GraphUpload(blocks.exec, stream)))                                 \
    X(graph_launch_us, RAW(r, GraphLaunch(blocks.exec, stream)))                           \
    X(graph_destroy_us, raw_graph_free(r, blocks.exec, blocks.graph))                      \
    X(module_unload_us, RAW(r, ModuleUnload(blocks.module)))                               \
    X(stream_destroy_us, RAW(r, StreamDestroy(blocks.stream)))

enum { BLOCK_SIZE = 1 << 16 };

static struct {
    cuda *c;
    raw_stream stream;
    raw_event event;
    raw_module module;
    raw_function function, other;
    raw_pointer memory;
    void *pinned, *large;
    raw_graph graph;
    raw_exec exec;
    unsigned char *pages;
    int (*load)(raw_function function);
} blocks;

static void copy_pageable(raw_pointer dst, raw_pointer src) {
    if (!blocks.c->raw.mock) {            /* hcq's own copies are of pinned memory */
        RAW(&blocks.c->raw, MemcpyAsync(dst, src, BLOCK_SIZE, blocks.c->streams[1]));
    }
}

#define BLOCK_UNUSED __attribute__((unused))
#define BLOCK_CALL(name, ...)                                                              \
    static void block_##name(cuda *c) {                                                    \
        BLOCK_UNUSED raw *r = &c->raw;                                                     \
        BLOCK_UNUSED raw_stream stream = c->streams[1];                                    \
        __VA_ARGS__;                                                                       \
    }
BLOCKS(BLOCK_CALL)

static void fact_blocking(cuda *c, bench_result *result) {
#define BLOCK_ROW(name, ...) {#name, block_##name},
    static const struct { const char *name; void (*call)(cuda *c); } calls[] = {BLOCKS(BLOCK_ROW)};
    const uint32_t held_ns = bench_of(100000, 60000000, 60000000);
    static unsigned char pages[1 << 17];
    blocks.c = c;
    blocks.pages = pages + (4096 - (uintptr_t)pages % 4096) % 4096;
    (void)raw_find(c->raw.library, "cuFuncLoad", &blocks.load);
    blocks.graph = line_graph(c, 3);
    raw_launch(&c->raw, c->raw.hold, c->streams[0], c->raw_counter, 1000); /* it is loaded */
    raw_finish(&c->raw, c->streams[0]);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        raw_launch(&c->raw, c->raw.hold, c->streams[0], c->raw_counter, held_ns);
        bench_sleep_ms(2);
        uint64_t start = bench_now();
        calls[i].call(c);
        bench_extra_add(result, calls[i].name, (double)(bench_now() - start) / 1e3);
        finish_both(c);
    }
}

/* ---- the rows ---- */

/* By number: the question that each answers, and for what. */
static const struct {
    void (*run)(cuda *c, bench_result *result);
    const char *note;
} g_questions[] = {
    {fact_hops, "which end of a batch is heard first, by a stream and by the host, and what "
                "does an event beside a store cost? (a store now and then, HCQ_CUDA_EVENTS)"},
    {fact_pending, "how many operations does a stream take before a call blocks, and how long "
                   "does that last? (HCQI_CUDA_PENDING is 900)"},
    {fact_pinning, "what does memory that is pinned cost, small and large? (slabs, staging)"},
    {fact_ranges, "what does the driver answer (CUresult) to a second range on one page, to one "
                  "in memory of its own, to a copy over a seam? (0, 1 or 712, 1)"},
    {fact_calls, "what does a call cost its thread? (what a submission is made of)"},
    {fact_blocking, "which calls wait for a kernel of another stream, which runs 60,000 us? "
                    "(programs are loaded, buffers freed, versions built beside what runs)"}};

static void fact_row(bench_result *result) {
    static cuda c;
    if (facts_open(&c, result)) {
        bench_note(result, g_questions[result->number].note);
        g_questions[result->number].run(&c, result);
        facts_close(&c);
    }
}
