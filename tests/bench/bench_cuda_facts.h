/* bench_cuda_facts.h - what the driver does and what its calls cost, without hcq: no sides, no
   goals, only numbers by name, each with the question that it answers, for those who work on
   the backend. Part of bench_cuda.c. */
#pragma once

#include <pthread.h>

/* Without hcq, but with a word of pinned memory. The context stays current. */
static int facts_open(cuda *c, bench_result *result) {
    memset(c, 0, sizeof *c);
    if (!open_raw(&c->raw, result)) {
        return 0;
    }
    c->pinned_word = raw_pinned_make(&c->raw, 64);
    c->raw_counter = raw_memory(&c->raw, 64);
    c->spin = raw_event_make(&c->raw, RAW_SPIN_EVENT);
    make_streams(c);
    return 1;
}

static void facts_close(cuda *c) {
    RAW(&c->raw, CtxSynchronize());
    RAW(&c->raw, MemFree(c->raw_counter));
    RAW(&c->raw, MemFreeHost(c->pinned_word.host));
    raw_close(&c->raw);
}

/* A hop: a wait for the other stream, a kernel, its end. A trip: a kernel, until the
   host knows that it is done. */

typedef enum fact_kind {
    HOP_EVENT, HOP_WRITE_EVENT, HOP_EVENT_WRITE, HOP_VALUE, TRIP_STREAM, TRIP_EVENT, TRIP_WORD,
    FACT_KINDS
} fact_kind;

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

static void one_hop(cuda *c, fact_kind kind, uint32_t i) {
    raw_stream stream = c->streams[i % 2];
    if (kind == HOP_VALUE) {
        RAW(&c->raw, StreamWaitValue64(stream, c->pinned_word.address, c->word, 0));
    } else if (i != 0) {
        RAW(&c->raw, StreamWaitEvent(stream, c->events[i - 1], 0));
    }
    raw_launch_tiny(&c->raw, stream, c->raw_counter);
    if (kind == HOP_WRITE_EVENT || kind == HOP_VALUE) {
        write_word(c, stream);
    }
    if (kind != HOP_VALUE) {
        RAW(&c->raw, EventRecord(c->events[i], stream));
    }
    if (kind == HOP_EVENT_WRITE) {
        write_word(c, stream);
    }
}

/* What is to be waited for and, in a trip by event or word, the wait. */
static void one_trip(cuda *c, fact_kind kind) {
    raw_launch_tiny(&c->raw, c->streams[0], c->raw_counter);
    if (kind == TRIP_EVENT) {
        RAW(&c->raw, EventRecord(c->spin, c->streams[0]));
        RAW(&c->raw, EventSynchronize(c->spin));
    } else if (kind == TRIP_WORD) {
        write_word(c, c->streams[0]);
        spin_until_written(c);
    }
}

static double fact_ns(cuda *c, fact_kind kind) {
    enum { MOST = 2000 };
    static double times[MOST];
    const uint32_t trip = kind >= TRIP_STREAM, count = trip ? 1 : hops();
    const uint32_t rounds = trip ? bench_of(3, MOST, MOST) : bench_of(2, 50, 50);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        for (uint32_t k = 0; k < count; k++) {
            if (trip) {
                one_trip(c, kind);
            } else {
                one_hop(c, kind, k);
            }
        }
        if (!trip || kind == TRIP_STREAM) {
            raw_finish(&c->raw, c->streams[(count - 1) % 2]);
        }
        times[i] = (double)(bench_now() - start) / count;
        raw_finish(&c->raw, c->streams[0]);
        raw_finish(&c->raw, c->streams[1]);
    }
    return bench_median(times, rounds);
}

static void fact_hops(bench_result *result) {
    static const char *const names[FACT_KINDS] = {
        "hop_event_ns", "hop_write_then_event_ns", "hop_event_then_write_ns", "hop_value_ns",
        "trip_stream_sync_ns", "trip_event_sync_ns", "trip_word_ns"};
    static cuda c;
    if (!facts_open(&c, result)) {
        return;
    }
    bench_note(result, "which end of a batch is heard first, by a stream and by the host, and what "
                       "does an event beside a store cost? (a store now and then, HCQ_CUDA_EVENTS)");
    for (int kind = 0; kind < FACT_KINDS; kind++) {
        int there = c.raw.memops || kind == HOP_EVENT || kind == TRIP_STREAM || kind == TRIP_EVENT;
        bench_extra_add(result, names[kind], there ? fact_ns(&c, (fact_kind)kind) : BENCH_NONE);
    }
    facts_close(&c);
}

/* ---- how many operations are taken ---- */

typedef struct fact_watch { cuda *c; uint64_t given; } fact_watch;

/* Lets the stream go when the other thread gets no further. */
static void *fact_let_go(void *user) {
    fact_watch *w = (fact_watch *)user;
    struct timespec nap = {0, 100000000};
    uint64_t before;
    do {
        before = __atomic_load_n(&w->given, __ATOMIC_ACQUIRE);
        nanosleep(&nap, NULL);
    } while (__atomic_load_n(&w->given, __ATOMIC_ACQUIRE) != before);
    __atomic_store_n(w->c->pinned_word.host, w->c->word, __ATOMIC_RELEASE);
    return NULL;
}

static void fact_pending(bench_result *result) {
    const uint32_t most = bench_of(200, 5000, 5000);
    static cuda c;
    fact_watch w = {&c, 0};
    uint64_t longest = 0;
    pthread_t thread;
    if (!facts_open(&c, result)) {
        return;
    }
    bench_note(result, "how many operations does a stream take before a call blocks, and how long "
                       "does that last? (HCQI_CUDA_PENDING is 900)");
    if (c.raw.memops) {
        RAW(&c.raw, StreamWaitValue64(c.streams[0], c.pinned_word.address, ++c.word, 0));
        if (pthread_create(&thread, NULL, fact_let_go, &w) != 0) {
            bench_die("no thread");
        }
        for (uint64_t i = 0; i < most && longest < 50000000; i++) {
            uint64_t start = bench_now();
            raw_launch_tiny(&c.raw, c.streams[0], c.raw_counter);
            longest = bench_now() - start > longest ? bench_now() - start : longest;
            __atomic_store_n(&w.given, i + 1, __ATOMIC_RELEASE);
        }
        pthread_join(thread, NULL);
        bench_extra_add(result, "launches_taken", (double)w.given);
        bench_extra_add(result, "longest_call_us", (double)longest / 1e3);
    }
    facts_close(&c);
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

static void fact_pinning(bench_result *result) {
    static const struct { size_t size; const char *made, *freed; } sizes[] = {
        {65536, "alloc_64k_us", "free_64k_us"}, {(size_t)64 << 20, "alloc_64m_us", "free_64m_us"}};
    static cuda c;
    if (!facts_open(&c, result)) {
        return;
    }
    bench_note(result, "what does memory that is pinned cost, small and large? (slabs, staging)");
    for (int i = 0; i < 2; i++) {
        double freed, made = fact_pin_us(&c, sizes[i].size, &freed);
        made = fact_pin_us(&c, sizes[i].size, &freed); /* the first one makes other things, too */
        bench_extra_add(result, sizes[i].made, made);
        bench_extra_add(result, sizes[i].freed, freed);
    }
    facts_close(&c);
}

/* ---- ranges that meet ---- */

static void fact_ranges(bench_result *result) {
    enum { HALF = 8192, SOME = 100 };
    static unsigned char bytes[2 * HALF] __attribute__((aligned(4096)));
    static cuda c;
    void *pinned;
    if (!facts_open(&c, result)) {
        return;
    }
    bench_note(result, "what does the driver answer (CUresult) to a second range on one page, to one "
                       "in memory of its own, to a copy over a seam? (0, 1 or 712, 1)");
    raw *r = &c.raw;
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
    facts_close(&c);
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

/* ---- what calls cost ---- */

/* Nanoseconds of one call among some that CUDA has room for; nothing runs before them. */
typedef enum call_kind {
    CALL_CONTEXT, CALL_LAUNCH, CALL_STORE, CALL_RECORD, CALL_WAIT, CALL_QUERY, CALL_STREAM_QUERY,
    CALL_GRAPH, CALL_GRAPH_SET, CALL_LAUNCH_STORE, CALL_LAUNCH_RECORD, CALL_LAUNCH_RECORD_STORE,
    CALL_KINDS
} call_kind;

static void one_call(cuda *c, call_kind kind) {
    raw_context context;
    if (kind == CALL_CONTEXT) {
        RAW(&c->raw, CtxPushCurrent(c->raw.context));
        RAW(&c->raw, CtxPopCurrent(&context));
    }
    if (kind == CALL_LAUNCH || kind >= CALL_LAUNCH_STORE) {
        raw_launch_tiny(&c->raw, c->streams[0], c->raw_counter);
    }
    if (kind == CALL_RECORD || kind >= CALL_LAUNCH_RECORD) {
        RAW(&c->raw, EventRecord(c->spin, c->streams[0]));
    }
    if (kind == CALL_STORE || kind == CALL_LAUNCH_STORE || kind == CALL_LAUNCH_RECORD_STORE) {
        write_word(c, c->streams[0]);
    }
    if (kind == CALL_GRAPH_SET) {
        raw_set_tiny(&c->raw, c->exec, c->node, c->raw_counter);
    }
    if (kind == CALL_GRAPH || kind == CALL_GRAPH_SET) {
        RAW(&c->raw, GraphLaunch(c->exec, c->streams[0]));
    } else if (kind == CALL_WAIT) {
        RAW(&c->raw, StreamWaitEvent(c->streams[1], c->spin, 0));
    } else if (kind == CALL_QUERY) {
        (void)c->raw.EventQuery(c->spin);
    } else if (kind == CALL_STREAM_QUERY) {
        (void)c->raw.StreamQuery(c->streams[0]);
    }
}

static void fact_calls(bench_result *result) {
    static const char *const names[CALL_KINDS] = {
        "push_pop_ns", "launch_ns", "store_ns", "record_ns", "wait_event_ns", "event_query_ns",
        "stream_query_ns", "graph_launch_ns", "graph_set_launch_ns", "launch_store_ns",
        "launch_record_ns", "launch_record_store_ns"};
    enum { ROUNDS = 30 };
    const uint32_t calls = bench_of(4, 200, 200);
    static cuda c;
    double times[ROUNDS];
    if (!facts_open(&c, result)) {
        return;
    }
    bench_note(result, "what does a call cost its thread? (what a submission is made of)");
    RAW(&c.raw, EventRecord(c.spin, c.streams[0]));
    RAW(&c.raw, GraphCreate(&c.graph, 0));
    c.node = raw_add_tiny(&c.raw, c.graph, NULL, c.raw_counter);
    c.exec = raw_instantiate(&c.raw, c.graph);
    for (int kind = 0; kind < CALL_KINDS && c.raw.memops; kind++) {
        for (uint32_t k = 0; k < ROUNDS; k++) {
            uint64_t start = bench_now();
            for (uint32_t i = 0; i < calls; i++) {
                one_call(&c, (call_kind)kind);
            }
            times[k] = (double)(bench_now() - start) / calls;
            raw_finish(&c.raw, c.streams[0]);
            raw_finish(&c.raw, c.streams[1]);
        }
        bench_extra_add(result, names[kind], bench_median(times, ROUNDS));
    }
    raw_graph_free(&c.raw, c.exec, c.graph);
    facts_close(&c);
}

/* ---- which calls wait for what runs ---- */

/* What a kernel of another stream holds up: microseconds of the call while one runs for
   60,000, each for the first time in this process, and in the order in which objects live. */
typedef enum block_kind {
    BLOCK_LAUNCH, BLOCK_STREAM, BLOCK_EVENT, BLOCK_EVENT_GONE, BLOCK_LOAD, BLOCK_FUNCTION,
    BLOCK_FUNCTION_LOAD, BLOCK_LOADED_LAUNCH, BLOCK_FIRST_LAUNCH, BLOCK_ALLOC, BLOCK_MEMSET, BLOCK_MEMSET_HOST,
    BLOCK_COPYIN, BLOCK_COPYOUT, BLOCK_FREE, BLOCK_PIN, BLOCK_PIN_LARGE, BLOCK_UNPIN,
    BLOCK_UNPIN_LARGE, BLOCK_REGISTER, BLOCK_UNREGISTER, BLOCK_INSTANTIATE, BLOCK_UPLOAD,
    BLOCK_GRAPH_LAUNCH, BLOCK_GRAPH_GONE, BLOCK_UNLOAD, BLOCK_STREAM_GONE, BLOCK_KINDS
} block_kind;

static struct {
    cuda c;
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

static void one_block(block_kind kind) {
    enum { SIZE = 1 << 16, LARGE = 1 << 26 };
    cuda *c = &blocks.c;
    raw *r = &c->raw;
    raw_stream stream = c->streams[1];
    switch (kind) {
    case BLOCK_LAUNCH: raw_launch_tiny(r, stream, c->raw_counter); break;
    case BLOCK_STREAM: blocks.stream = raw_stream_make(r); break;
    case BLOCK_EVENT: blocks.event = raw_event_make(r, RAW_SPIN_EVENT); break;
    case BLOCK_EVENT_GONE:
        RAW(r, EventRecord(blocks.event, stream));
        RAW(r, EventDestroy(blocks.event));
        break;
    case BLOCK_LOAD: RAW(r, ModuleLoadDataEx(&blocks.module, bench_cuda_ptx, 0, NULL, NULL)); break;
    case BLOCK_FUNCTION:
        RAW(r, ModuleGetFunction(&blocks.function, blocks.module, "bench_tiny"));
        RAW(r, ModuleGetFunction(&blocks.other, blocks.module, "bench_hold"));
        break;
    case BLOCK_FUNCTION_LOAD:
        if (blocks.load != NULL) {
            raw_check(blocks.load(blocks.function), "FuncLoad");
        }
        break;
    case BLOCK_LOADED_LAUNCH: raw_launch(r, blocks.function, stream, c->raw_counter, 1); break;
    case BLOCK_FIRST_LAUNCH: raw_launch(r, blocks.other, stream, c->raw_counter, 1); break;
    case BLOCK_ALLOC: RAW(r, MemAlloc(&blocks.memory, SIZE)); break;
    case BLOCK_MEMSET: RAW(r, MemsetD8Async(blocks.memory, 1, SIZE, stream)); break;
    case BLOCK_MEMSET_HOST: RAW(r, MemsetD8Async(c->pinned_word.address, 0, 4, stream)); break;
    case BLOCK_COPYIN:
        if (r->mock) {                    /* hcq's own copies are of pinned memory */
            return;
        }
        RAW(r, MemcpyAsync(blocks.memory, (raw_pointer)(uintptr_t)blocks.pages, SIZE, stream));
        break;
    case BLOCK_COPYOUT:
        if (r->mock) {                    /* hcq's own copies are of pinned memory */
            return;
        }
        RAW(r, MemcpyAsync((raw_pointer)(uintptr_t)blocks.pages, blocks.memory, SIZE, stream));
        break;
    case BLOCK_FREE: RAW(r, MemFree(blocks.memory)); break;
    case BLOCK_PIN: RAW(r, MemHostAlloc(&blocks.pinned, SIZE, 3)); break;
    case BLOCK_PIN_LARGE: RAW(r, MemHostAlloc(&blocks.large, LARGE, 3)); break;
    case BLOCK_UNPIN: RAW(r, MemFreeHost(blocks.pinned)); break;
    case BLOCK_UNPIN_LARGE: RAW(r, MemFreeHost(blocks.large)); break;
    case BLOCK_REGISTER: RAW(r, MemHostRegister(blocks.pages, SIZE, 3)); break;
    case BLOCK_UNREGISTER: RAW(r, MemHostUnregister(blocks.pages)); break;
    case BLOCK_INSTANTIATE: RAW(r, GraphInstantiate(&blocks.exec, blocks.graph, 0)); break;
    case BLOCK_UPLOAD: RAW(r, GraphUpload(blocks.exec, stream)); break;
    case BLOCK_GRAPH_LAUNCH: RAW(r, GraphLaunch(blocks.exec, stream)); break;
    case BLOCK_GRAPH_GONE: raw_graph_free(r, blocks.exec, blocks.graph); break;
    case BLOCK_UNLOAD: RAW(r, ModuleUnload(blocks.module)); break;
    default: RAW(r, StreamDestroy(blocks.stream)); break;
    }
}

static void fact_blocking(bench_result *result) {
    static const char *const names[BLOCK_KINDS] = {
        "launch_us", "stream_create_us", "event_create_us", "event_record_destroy_us",
        "module_load_us", "get_function_us", "func_load_us", "launch_after_load_us",
        "first_launch_us", "alloc_us",
        "memset_us", "memset_of_host_us", "copyin_pageable_us", "copyout_pageable_us", "free_us",
        "host_alloc_64k_us", "host_alloc_64m_us", "host_free_64k_us", "host_free_64m_us",
        "register_us", "unregister_us", "instantiate_us", "upload_us", "graph_launch_us",
        "graph_destroy_us", "module_unload_us", "stream_destroy_us"};
    const uint32_t held_ns = bench_of(100000, 60000000, 60000000);
    static unsigned char pages[1 << 17];
    memset(&blocks, 0, sizeof blocks);
    cuda *c = &blocks.c;
    if (!facts_open(c, result)) {
        return;
    }
    bench_note(result, "which calls wait for a kernel of another stream, which runs 60,000 us? "
                       "(programs are loaded, buffers freed, versions built beside what runs)");
    blocks.pages = pages + (4096 - (uintptr_t)pages % 4096) % 4096;
    (void)raw_find(c->raw.library, "cuFuncLoad", &blocks.load);
    blocks.graph = line_graph(c, 3);
    raw_launch(&c->raw, c->raw.hold, c->streams[0], c->raw_counter, 1000); /* it is loaded */
    raw_finish(&c->raw, c->streams[0]);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        struct timespec nap = {0, 2000000};
        raw_launch(&c->raw, c->raw.hold, c->streams[0], c->raw_counter, held_ns);
        nanosleep(&nap, NULL);
        uint64_t start = bench_now();
        one_block((block_kind)kind);
        bench_extra_add(result, names[kind], (double)(bench_now() - start) / 1e3);
        raw_finish(&c->raw, c->streams[0]);
        raw_finish(&c->raw, c->streams[1]);
    }
    facts_close(c);
}
