/* bench_cuda_facts.h - what CUDA's driver does and what its calls cost, without
   hcq: for those who work on the backend. Part of bench_cuda.c.

   These benches have no sides and no goals, only numbers by name.
*/
#pragma once

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

/* ---- hops and round trips ------------------------------------------------ */
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
    for (int kind = 0; kind < FACT_KINDS; kind++) {
        int there = c.raw.memops || kind == HOP_EVENT || kind == TRIP_STREAM || kind == TRIP_EVENT;
        bench_extra_add(result, names[kind], there ? fact_ns(&c, (fact_kind)kind) : BENCH_NONE);
    }
    facts_close(&c);
}
