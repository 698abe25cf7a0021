/* bench_cuda_facts.h - which end of a batch is heard first, by a stream and by the host, and what
   does an event beside a store cost? Without sides and goals, only numbers by name, for those
   who work on the backend (a store now and then, HCQ_CUDA_EVENTS). Part of bench_cuda.c. */
#pragma once

#include <sched.h>

/* What is around a kernel, in this order; the stream is by turns one of two. */
enum {
    WAIT_VALUE = 1, WAIT_BEFORE = 2, STORE_FIRST = 4, RECORD = 8, STORE = 16, SYNC_EVENT = 32,
    SPIN = 64, SYNC_STREAM = 128, TRIP = SYNC_EVENT | SPIN | SYNC_STREAM
};

/* A hop: a wait for the other stream, a kernel, its end. A trip: a kernel, until the
   host knows that it is done. */
static const struct { const char *name; uint32_t what; } g_facts[] = {
    {"hop_event_ns", WAIT_BEFORE | RECORD},
    {"hop_write_then_event_ns", WAIT_BEFORE | STORE_FIRST | RECORD},
    {"hop_event_then_write_ns", WAIT_BEFORE | RECORD | STORE},
    {"hop_value_ns", WAIT_VALUE | STORE},
    {"trip_stream_sync_ns", SYNC_STREAM},
    {"trip_event_sync_ns", RECORD | SYNC_EVENT},
    {"trip_word_ns", STORE | SPIN}};

/* Its value is that of the last write. */
typedef struct fact_word { hcq_buffer at; uint64_t value; } fact_word;

static void write_word(cuda *c, raw_stream stream, fact_word *word) {
    RAW(&c->raw, StreamWriteValue64(stream, word->at.address, ++word->value, 0));
}

static void spin_until_written(const fact_word *word) {
    uint64_t end = bench_now() + 10000000000u;
    while (__atomic_load_n((const uint64_t *)word->at.host, __ATOMIC_ACQUIRE) < word->value) {
        if (bench_now() > end) {
            bench_die("a word of pinned memory stays below %llu", (unsigned long long)word->value);
        }
        if (bench_smoke()) {
            sched_yield();                /* the mock's device needs the processor, too */
        }
    }
}

static void do_calls(cuda *c, uint32_t what, uint32_t i, fact_word *word) {
    raw_stream stream = c->streams[i % 2];
    raw *r = &c->raw;
    if (what & WAIT_VALUE) {
        RAW(r, StreamWaitValue64(stream, word->at.address, word->value, 0));
    } else if ((what & WAIT_BEFORE) && i != 0) {
        RAW(r, StreamWaitEvent(stream, c->events[i - 1], 0));
    }
    raw_launch_tiny(r, stream, c->raw_counter);
    c->expected[THEIRS]++;
    if (what & STORE_FIRST) {
        write_word(c, stream, word);
    }
    if (what & RECORD) {
        RAW(r, EventRecord(c->events[i], stream));
    }
    if (what & STORE) {
        write_word(c, stream, word);
    }
    if (what & SYNC_EVENT) {
        RAW(r, EventSynchronize(c->events[i]));
    }
    if (what & SPIN) {
        spin_until_written(word);
    }
    if (what & SYNC_STREAM) {
        raw_finish(r, stream);
    }
}

static double fact_ns(cuda *c, uint32_t what, fact_word *word) {
    enum { MOST = 2000 };
    static double times[MOST];
    const uint32_t count = what & TRIP ? 1 : hops();
    const uint32_t rounds = what & TRIP ? bench_of(3, MOST, MOST) : bench_of(2, 50, 50);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = bench_now();
        for (uint32_t k = 0; k < count; k++) {
            do_calls(c, what, k, word);
        }
        if (!(what & TRIP)) {
            raw_finish(&c->raw, c->streams[(count - 1) % 2]);
        }
        times[i] = (double)(bench_now() - start) / count;
        RAW(&c->raw, CtxSynchronize());
    }
    return bench_median(times, rounds);
}

static void fact_hops(cuda *c, bench_result *result) {
    fact_word word = {.at = bench_buffer(c->device, 64)};
    raw_enter(&c->raw);
    make_streams(c);
    for (size_t i = 0; i < sizeof g_facts / sizeof g_facts[0]; i++) {
        int there = c->memops || !(g_facts[i].what & (WAIT_VALUE | STORE_FIRST | STORE));
        bench_extra_add(result, g_facts[i].name,
                        there ? fact_ns(c, g_facts[i].what, &word) : BENCH_NONE);
    }
    raw_leave(&c->raw);
}
