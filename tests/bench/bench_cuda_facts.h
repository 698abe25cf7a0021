/* bench_cuda_facts.h - what CUDA's driver does and what its calls cost, without
   hcq: for those who work on the backend. Part of bench_cuda.c.

   These benches have no sides and no goals, only numbers by name.
*/
#ifndef BENCH_CUDA_FACTS_H
#define BENCH_CUDA_FACTS_H

/* ---- calls --------------------------------------------------------------- */

/* Without hcq, but with words of pinned memory. The context stays current. */
static int facts_open(cuda *c, bench_result *result) {
    memset(c, 0, sizeof *c);
    if (!open_raw(&c->raw, result)) {
        return 0;
    }
    raw_pinned p = raw_pinned_make(&c->raw, STREAMS * WORDS * 8);
    c->words.host = (uint64_t *)p.host;
    c->words.address = p.address;
    c->raw_counter = raw_memory(&c->raw, 64);
    c->streams[0] = raw_stream_make(&c->raw);
    c->streams[1] = raw_stream_make(&c->raw);
    c->spin = raw_event_make(&c->raw, RAW_SPIN_EVENT);
    c->blocking = raw_event_make(&c->raw, RAW_BLOCKING_EVENT);
    return 1;
}

static void facts_close(cuda *c) {
    raw_check(c->raw.CtxSynchronize(), "cuCtxSynchronize");
    raw_check(c->raw.EventDestroy(c->spin), "cuEventDestroy");
    raw_check(c->raw.EventDestroy(c->blocking), "cuEventDestroy");
    raw_check(c->raw.StreamDestroy(c->streams[0]), "cuStreamDestroy");
    raw_check(c->raw.StreamDestroy(c->streams[1]), "cuStreamDestroy");
    raw_check(c->raw.MemFree(c->raw_counter), "cuMemFree");
    raw_check(c->raw.MemFreeHost(c->words.host), "cuMemFreeHost");
    raw_close(&c->raw);
}

static void call_launch(cuda *c) { raw_launch_tiny(&c->raw, c->streams[0], c->raw_counter); }
static void call_record(cuda *c) { raw_record(&c->raw, c->spin, c->streams[0]); }
static void call_wait(cuda *c) { raw_wait_event(&c->raw, c->streams[0], c->blocking); }
static void call_stream_query(cuda *c) { c->raw.StreamQuery(c->streams[1]); }
static void call_event_query(cuda *c) { c->raw.EventQuery(c->blocking); }

static void call_write(cuda *c) {
    raw_check(c->raw.StreamWriteValue64(c->streams[0], c->words.address + WORD_OUT * 8, 1, 0),
              "cuStreamWriteValue64");
}

static void call_wait_value(cuda *c) {
    raw_check(c->raw.StreamWaitValue64(c->streams[0], c->words.address + WORD_SEEN * 8, 0, 0),
              "cuStreamWaitValue64");
}

static void call_push_pop(cuda *c) {
    raw_enter(&c->raw);
    raw_leave(&c->raw);
}

static void call_memset(cuda *c) {
    raw_check(c->raw.MemsetD8Async(c->raw_counter, 0, 64, c->streams[0]), "cuMemsetD8Async");
}

static void call_copy(cuda *c) {
    raw_check(c->raw.MemcpyAsync(c->raw_counter, c->words.address + WORD_OUT * 8, 8,
                                 c->streams[0]), "cuMemcpyAsync");
}

static void call_event(cuda *c) {
    raw_check(c->raw.EventDestroy(raw_event_make(&c->raw, RAW_SPIN_EVENT)), "cuEventDestroy");
}

/* The median of bursts, each of which is waited for. */
static double call_ns(cuda *c, void (*call)(cuda *c)) {
    enum { ROUNDS = 60 };
    double times[ROUNDS];
    uint32_t rounds = at_most(ROUNDS, 3), calls = at_most(200, 8);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        for (uint32_t k = 0; k < calls; k++) {
            call(c);
        }
        times[i] = (double)(bench_now() - start) / calls;
        raw_finish(&c->raw, c->streams[0]);
    }
    return bench_median(times, rounds);
}

typedef struct call_fact {
    const char *key;
    void (*call)(cuda *c);
    int memop;
} call_fact;

/* The same calls while stream 1, and with it the event, is busy. The bursts of
   one fact are short enough for the kernel that keeps it busy. */
static double busy_call_ns(cuda *c, void (*call)(cuda *c)) {
    enum { ROUNDS = 20 };
    double times[ROUNDS];
    uint32_t rounds = at_most(ROUNDS, 2), calls = at_most(100, 8);
    for (uint32_t i = 0; i < rounds; i++) {
        raw_hold_on(c, c->streams[1]);
        raw_record(&c->raw, c->blocking, c->streams[1]);
        spin_until(c->words.host + WORD_BEGAN, c->hold_value, 10000000000u);
        uint64_t start = bench_now();
        for (uint32_t k = 0; k < calls; k++) {
            call(c);
        }
        times[i] = (double)(bench_now() - start) / calls;
        __atomic_store_n(c->words.host + WORD_GO, c->hold_value, __ATOMIC_SEQ_CST);
        raw_finish(&c->raw, c->streams[1]);
        raw_finish(&c->raw, c->streams[0]);
    }
    return bench_median(times, rounds);
}

void bench_cuda_fact_calls(bench_result *result) {
    static cuda c;
    static const call_fact idle[] = {
        {"launch_kernel_ns", call_launch, 0},      {"event_record_ns", call_record, 0},
        {"write_value64_ns", call_write, 1},       {"wait_value64_reached_ns", call_wait_value, 1},
        {"stream_wait_event_done_ns", call_wait, 0}, {"event_query_done_ns", call_event_query, 0},
        {"stream_query_idle_ns", call_stream_query, 0}, {"push_pop_ns", call_push_pop, 0},
        {"memset_64_bytes_ns", call_memset, 0},    {"copy_8_bytes_ns", call_copy, 0},
        {"event_create_destroy_ns", call_event, 0}};
    static const call_fact busy[] = {{"stream_wait_event_pending_ns", call_wait, 0},
                                     {"event_query_pending_ns", call_event_query, 0},
                                     {"stream_query_busy_ns", call_stream_query, 0}};
    if (!facts_open(&c, result)) {
        return;
    }
    raw_record(&c.raw, c.blocking, c.streams[1]);
    raw_finish(&c.raw, c.streams[1]);
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        int there = c.raw.memops || !idle[i].memop;
        bench_extra_add(result, idle[i].key, there ? call_ns(&c, idle[i].call) : BENCH_NONE);
    }
    for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++) {
        bench_extra_add(result, busy[i].key, busy_call_ns(&c, busy[i].call));
    }
    facts_close(&c);
}

/* ---- hops and round trips ------------------------------------------------ */
/* What ends a batch, and what another stream waits for. */

typedef enum hop_kind {
    HOP_EVENT, HOP_WRITE_EVENT, HOP_EVENT_WRITE, HOP_VALUE, HOP_KINDS
} hop_kind;

static void hop_write(cuda *c, raw_stream stream, uint64_t value) {
    raw_check(c->raw.StreamWriteValue64(stream, c->words.address + WORD_OUT * 8, value, 0),
              "cuStreamWriteValue64");
}

static void one_hop(cuda *c, hop_kind kind, uint32_t i) {
    raw_stream stream = c->streams[i % 2];
    if (kind == HOP_VALUE) {
        raw_check(c->raw.StreamWaitValue64(stream, c->words.address + WORD_OUT * 8,
                                           c->hold_value, 0), "cuStreamWaitValue64");
    } else if (i != 0) {
        raw_wait_event(&c->raw, stream, c->events[i - 1]);
    }
    raw_launch_tiny(&c->raw, stream, c->raw_counter);
    if (kind == HOP_WRITE_EVENT || kind == HOP_VALUE) {
        hop_write(c, stream, ++c->hold_value);
    }
    if (kind != HOP_VALUE) {
        raw_record(&c->raw, c->events[i], stream);
    }
    if (kind == HOP_EVENT_WRITE) {
        hop_write(c, stream, ++c->hold_value);
    }
}

static double hops_ns(cuda *c, hop_kind kind) {
    enum { ROUNDS = 50 };
    double times[ROUNDS];
    uint32_t rounds = at_most(ROUNDS, 2);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        for (uint32_t k = 0; k < hops(); k++) {
            one_hop(c, kind, k);
        }
        raw_finish(&c->raw, c->streams[(hops() - 1) % 2]);
        times[i] = (double)(bench_now() - start) / hops();
        raw_finish(&c->raw, c->streams[hops() % 2]);
    }
    return bench_median(times, rounds);
}

static void trip_stream(cuda *c) {
    call_launch(c);
    raw_finish(&c->raw, c->streams[0]);
}

static void trip_event(cuda *c) {
    call_launch(c);
    call_record(c);
    raw_check(c->raw.EventSynchronize(c->spin), "cuEventSynchronize");
}

static void trip_word(cuda *c) {
    call_launch(c);
    hop_write(c, c->streams[0], ++c->hold_value);
    spin_until(c->words.host + WORD_OUT, c->hold_value, 10000000000u);
}

static double trip_ns(cuda *c, void (*trip)(cuda *c)) {
    enum { ROUNDS = 2000 };
    static double times[ROUNDS];
    uint32_t rounds = at_most(ROUNDS, 3);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        trip(c);
        times[i] = (double)(bench_now() - start);
    }
    raw_finish(&c->raw, c->streams[0]);
    return bench_median(times, rounds);
}

/* A hop: a wait for the other stream, a kernel, its end. A trip: a kernel, until the
   host knows that it is done. */
void bench_cuda_fact_hops(bench_result *result) {
    static const char *const names[HOP_KINDS] = {"hop_event_ns", "hop_write_then_event_ns",
                                                 "hop_event_then_write_ns", "hop_value_ns"};
    static cuda c;
    if (!facts_open(&c, result)) {
        return;
    }
    for (uint32_t i = 0; i < HOPS; i++) {
        c.events[i] = raw_event_make(&c.raw, RAW_SPIN_EVENT);
    }
    for (int kind = 0; kind < HOP_KINDS; kind++) {
        int there = c.raw.memops || kind == HOP_EVENT;
        bench_extra_add(result, names[kind], there ? hops_ns(&c, (hop_kind)kind) : BENCH_NONE);
    }
    bench_extra_add(result, "trip_stream_sync_ns", trip_ns(&c, trip_stream));
    bench_extra_add(result, "trip_event_sync_ns", trip_ns(&c, trip_event));
    bench_extra_add(result, "trip_word_ns", c.raw.memops ? trip_ns(&c, trip_word) : BENCH_NONE);
    facts_close(&c);
}

/* ---- graphs -------------------------------------------------------------- */

typedef enum extra_node { NODE_NONE, NODE_WRITE, NODE_RECORD } extra_node;

typedef struct graph_times { double call, total; } graph_times; /* ns */

/* A straight line of kernels, with `extra` other nodes spread evenly over it, the
   last one at its end. */
static raw_graph line_graph(cuda *c, uint32_t kernels, extra_node kind, uint32_t extra) {
    raw_graph graph;
    raw_node last = NULL;
    raw_check(c->raw.GraphCreate(&graph, 0), "cuGraphCreate");
    for (uint32_t i = 0; i < kernels; i++) {
        c->nodes[i] = last = raw_add_tiny(&c->raw, graph, last, c->raw_counter);
        if (extra != 0 && (i + 1) % (kernels / extra) == 0) {
            last = kind == NODE_WRITE
                       ? raw_add_write(&c->raw, graph, last, c->words.address + WORD_OUT * 8)
                       : raw_add_record(&c->raw, graph, last, c->spin);
        }
    }
    return graph;
}

static graph_times launch_times(cuda *c, raw_exec exec) {
    enum { ROUNDS = 100 };
    double call[ROUNDS], total[ROUNDS];
    uint32_t rounds = at_most(ROUNDS, 3);
    graph_times t;
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        raw_check(c->raw.GraphLaunch(exec, c->raw.stream), "cuGraphLaunch");
        call[i] = (double)(bench_now() - start);
        raw_finish(&c->raw, c->raw.stream);
        total[i] = (double)(bench_now() - start);
    }
    t.call = bench_median(call, rounds);
    t.total = bench_median(total, rounds);
    return t;
}

static graph_times graph_cost(cuda *c, uint32_t kernels, extra_node kind, uint32_t extra) {
    graph_times t = {BENCH_NONE, BENCH_NONE};
    if ((kind == NODE_WRITE && (!c->raw.memops || c->raw.GraphAddBatchMemOpNode == NULL)) ||
        (kind == NODE_RECORD && c->raw.GraphAddEventRecordNode == NULL)) {
        return t;
    }
    raw_graph graph = line_graph(c, kernels, kind, extra);
    raw_exec exec = raw_instantiate(&c->raw, graph);
    launch_times(c, exec);                /* warm up */
    t = launch_times(c, exec);
    raw_check(c->raw.GraphExecDestroy(exec), "cuGraphExecDestroy");
    raw_check(c->raw.GraphDestroy(graph), "cuGraphDestroy");
    return t;
}

/* Setting all nodes, and the launch after that; making the graph. */
static void set_costs(cuda *c, bench_result *result) {
    enum { ROUNDS = 20 };
    double set[ROUNDS], after[ROUNDS];
    uint32_t rounds = at_most(ROUNDS, 2), count = chain_length();
    uint64_t start = bench_now();
    raw_graph graph = line_graph(c, count, NODE_NONE, 0);
    uint64_t built = bench_now();
    raw_exec exec = raw_instantiate(&c->raw, graph);
    bench_extra_add(result, "add_node_ns", (double)(built - start) / count);
    bench_extra_add(result, "instantiate_node_ns", (double)(bench_now() - built) / count);
    for (uint32_t i = 0; i < rounds; i++) {
        start = bench_now();
        for (uint32_t k = 0; k < count; k++) {
            raw_set_tiny(&c->raw, exec, c->nodes[k], c->raw_counter, i + 2);
        }
        uint64_t end = bench_now();
        raw_check(c->raw.GraphLaunch(exec, c->raw.stream), "cuGraphLaunch");
        after[i] = (double)(bench_now() - end);
        set[i] = (double)(end - start) / count;
        raw_finish(&c->raw, c->raw.stream);
    }
    bench_extra_add(result, "set_params_node_ns", bench_median(set, rounds));
    bench_extra_add(result, "launch_call_all_set_ns", bench_median(after, rounds));
    raw_check(c->raw.GraphExecDestroy(exec), "cuGraphExecDestroy");
    raw_check(c->raw.GraphDestroy(graph), "cuGraphDestroy");
}

static void add_times(bench_result *result, const char *name, graph_times t) {
    char key[40];
    snprintf(key, sizeof key, "%s_call_ns", name);
    bench_extra_add(result, key, t.call);
    snprintf(key, sizeof key, "%s_total_ns", name);
    bench_extra_add(result, key, t.total);
}

static graph_times per(graph_times with, graph_times without, uint32_t count) {
    graph_times t;
    t.call = (with.call - without.call) / count;
    t.total = (with.total - without.total) / count;
    return t;
}

/* "call": cuGraphLaunch alone; "total": until its stream is done. */
void bench_cuda_fact_graphs(bench_result *result) {
    static cuda c;
    uint32_t count = chain_length();
    if (!facts_open(&c, result)) {
        return;
    }
    uint32_t extra = count / 10;
    graph_times one = graph_cost(&c, 1, NODE_NONE, 0);
    graph_times many = graph_cost(&c, count, NODE_NONE, 0);
    add_times(result, "launch_1_kernel", one);
    add_times(result, "launch_1000_kernels", many);
    add_times(result, "per_kernel_node", per(many, one, count - 1));
    add_times(result, "1000_and_1_write", graph_cost(&c, count, NODE_WRITE, 1));
    add_times(result, "1000_and_1_record", graph_cost(&c, count, NODE_RECORD, 1));
    add_times(result, "per_write_node",
              per(graph_cost(&c, count, NODE_WRITE, extra), many, extra));
    add_times(result, "per_record_node",
              per(graph_cost(&c, count, NODE_RECORD, extra), many, extra));
    set_costs(&c, result);
    facts_close(&c);
}

/* ---- streams ------------------------------------------------------------- */

/* Blocks stream after stream, each with its own words, and looks whether the next
   one still gets to run. */
static int block_spinning(cuda *c, raw_stream stream, uint32_t i) {
    uint64_t at = c->words.address + i * WORDS * 8;
    raw_hold_args a = {at, c->words.address + WORD_GO * 8, at + WORD_SEEN * 8, 1,
                       hold_limit_ns()};
    void *params[5] = {&a.began, &a.go, &a.seen, &a.value, &a.limit_ns};
    return c->raw.LaunchKernel(c->raw.hold, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static int block_waiting(cuda *c, raw_stream stream, uint32_t i) {
    uint64_t at = c->words.address + i * WORDS * 8;
    int result = c->raw.StreamWriteValue64(stream, at, 1, 0);
    if (result == 0) {
        result = c->raw.StreamWaitValue64(stream, c->words.address + WORD_GO * 8, 1, 0);
    }
    return result;
}

/* Is the first word of `i` written within 20 ms? */
static int begins(const cuda *c, uint32_t i) {
    const uint64_t *word = c->words.host + i * WORDS;
    uint64_t end = bench_now() + 20000000u;
    while (bench_now() < end) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 0) {
            return 1;
        }
        sched_yield();
    }
    return 0;
}

/* Streams that were blocked beside each other. All are let go in any case. */
static uint32_t streams_beside(cuda *c, int (*block)(cuda *, raw_stream, uint32_t)) {
    raw_stream streams[STREAMS];
    uint32_t made = 0, running = 0, limit = at_most(STREAMS, 8);
    int going = 1;
    memset(c->words.host, 0, STREAMS * WORDS * 8);
    for (uint32_t i = 0; i < limit; i++) {
        streams[i] = raw_stream_make(&c->raw);
    }
    while (going && made < limit) {
        int result = block(c, streams[made], made);
        c->raw.StreamQuery(streams[made]);
        going = result == 0 && begins(c, made);
        running += going ? 1u : 0u;
        made++;
    }
    __atomic_store_n(c->words.host + WORD_GO, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < limit; i++) {
        raw_finish(&c->raw, streams[i]);
        raw_check(c->raw.StreamDestroy(streams[i]), "cuStreamDestroy");
    }
    return running;
}

/* A kernel stays until it is let go or its limit ends it; a stream's wait stays until
   then: nothing of this hangs. */
void bench_cuda_fact_streams(bench_result *result) {
    static cuda c;
    if (!facts_open(&c, result)) {
        return;
    }
    bench_extra_add(result, "tried", at_most(STREAMS, 8));
    bench_extra_add(result, "spinning_kernels_beside", streams_beside(&c, block_spinning));
    bench_extra_add(result, "value_waits_beside",
                    c.raw.memops ? streams_beside(&c, block_waiting) : BENCH_NONE);
    facts_close(&c);
}

/* ---- the timer, and who wakes how fast ----------------------------------- */

void bench_cuda_fact_timer(bench_result *result) {
    enum { COUNT = 2000 };
    static double steps[COUNT];
    static cuda c;
    uint32_t count = at_most(COUNT, 20);
    if (!facts_open(&c, result)) {
        return;
    }
    raw_pinned times = raw_pinned_make(&c.raw, COUNT * 8);
    uint64_t number = count;
    void *params[2] = {&times.address, &number};
    raw_check(c.raw.LaunchKernel(c.raw.clock, 1, 1, 1, 1, 1, 1, 0, c.raw.stream, params, NULL),
              "cuLaunchKernel");
    raw_finish(&c.raw, c.raw.stream);
    const uint64_t *at = (const uint64_t *)times.host;
    for (uint32_t i = 1; i < count; i++) {
        steps[i - 1] = (double)(at[i] - at[i - 1]);
    }
    bench_extra_add(result, "median_step_ns", bench_median(steps, count - 1));
    bench_extra_add(result, "smallest_step_ns", steps[0]);
    bench_extra_add(result, "largest_step_ns", steps[count - 2]);
    raw_check(c.raw.MemFreeHost(times.host), "cuMemFreeHost");
    facts_close(&c);
}

static void add_wake(cuda *c, bench_result *result, const char *name, double (*sample)(cuda *)) {
    static const uint64_t delays[2] = {20000, 500000};
    static const char *const when[2] = {"after_20_us", "after_500_us"};
    double times[2 * SAMPLES];
    uint32_t count = at_most(2 * SAMPLES, 3);
    for (int d = 0; d < 2; d++) {
        char key[60];
        c->delay_ns = delays[d];
        for (uint32_t i = 0; i < count; i++) {
            times[i] = sample(c);
        }
        snprintf(key, sizeof key, "%s_%s_ns", name, when[d]);
        bench_extra_add(result, key, bench_median(times, count));
    }
}

/* From the store that lets a kernel go until the host goes on. */
void bench_cuda_fact_wake(bench_result *result) {
    static cuda c;
    if (!facts_open(&c, result)) {
        return;
    }
    releaser_start(&c);
    add_wake(&c, result, "kernel_word", bare_sample);
    if (c.raw.memops) {
        add_wake(&c, result, "write_value64", word_sample);
    }
    add_wake(&c, result, "spinning_event", spin_sample);
    add_wake(&c, result, "blocking_event", blocking_sample);
    add_wake(&c, result, "event_query", query_sample);
    add_wake(&c, result, "stream_sync", stream_sample);
    releaser_end(&c);
    facts_close(&c);
}

#endif /* BENCH_CUDA_FACTS_H */
