/* devices.h - edges between lanes of one device; memory that one device maps of
   another. Part of vulkan.c. */
#pragma once

#include "shared.h"

/* ---- a chain over the lanes ---- */

/* Link i waits for value i of the signal and raises it, on one lane and on the other by
   turns. All edges are the queues': the submits hand everything over, or the call that
   lets the first link go; no thread has to look on. */
static void chain(int held) {
    enum { CHAIN = 100 };
    hcq_buffer word = make_words(T.dev, 1);
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point gate = hcq_at(make_signal(T.dev, 0), 1), done = {{0}, 0}, first = hcq_at(s, 1);
    settle(T.dev);
    const uint64_t threads = test_own_threads();
    counts before = counts_now(T.dev);
    CHECK_OK(submit_lists(T.dev, held ? &gate : NULL, &first, HCQ_UNORDERED, NULL));
    for (uint32_t i = 1; i <= CHAIN; i++) {
        hcq_queue *q = make_queue(T.dev, i % 2 ? HCQ_COPY : HCQ_COMPUTE);
        hcq_point wait = hcq_at(s, i), raise = hcq_at(s, i + 1);
        CHECK_INDEX(hcq_queue_fill(q, word, 4, i, 4), 0);
        done = submit_to(T.dev, q, i, &wait, &raise);
        hcq_queue_destroy(q);
        CHECK(held || counts_since(T.dev, &before).batches >= i);
    }
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), held ? CHAIN + 1 : 0);
    if (held) {
        CHECK_U64(counts_since(T.dev, &before).batches, 0);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        CHECK_OK(hcq_signal_set(gate.signal, 1));
        CHECK(counts_since(T.dev, &before).batches >= CHAIN);
        CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
    }
    WAIT_OK(done);
    counts all = counts_since(T.dev, &before);
    /* One of them may be for the zeros of the new buffer, which another queue wrote. */
    CHECK(T.variant->one_fifo ? all.waits == 0 : all.waits <= CHAIN + 1);
    CHECK_U64(test_own_threads(), threads);
    CHECK_U64(READ32(word, 0), CHAIN);
}

TEST(edges_of_lanes_are_native) {
    NEEDS_WIDE_COUNTERS();
    chain(0);
    chain(1);
}

/* ---- mapped memory ---- */

enum { MAPPED_WORDS = 20000 };

static hcq_queue *mapped_copy(hcq_device *device, hcq_buffer dst, hcq_buffer src) {
    hcq_queue *q = make_queue(device, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(q, dst, src, MAPPED_WORDS * 4), 0);
    CHECK_OK(hcq_queue_bind(q, device));
    return q;
}

static void fill_words(hcq_buffer buffer, uint32_t value) {
    uint32_t *words = (uint32_t *)malloc(MAPPED_WORDS * 4);
    for (uint32_t i = 0; i < MAPPED_WORDS; i++) {
        words[i] = value + i;
    }
    CHECK_OK(hcq_copyin(buffer, words, MAPPED_WORDS * 4));
    free(words);
}

/* Which pairs can: the mapper sees all memory of the owner. */
static int can_map(hcq_device *owner, hcq_device *mapper) {
    hcq_buffer src = make_words(owner, 16), dst = make_words(mapper, 16);
    hcq_queue *q = make_queue(mapper, HCQ_COPY);
    int can = hcq_queue_copy(q, dst, src, 64) == 0 && hcq_queue_bind(q, mapper) == HCQ_OK;
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(src));
    CHECK_OK(hcq_free(dst));
    return can;
}

/* Copies from `owner` to `mapper` run on the mapper, which maps; all orders of
   freeing: mapped memory first or last, while the work runs or after. */
static void mapped_and_freed(hcq_device *owner, hcq_device *mapper) {
    for (uint32_t order = 0; order < 8; order++) {
        hcq_buffer src = make_words(owner, MAPPED_WORDS), dst = make_words(mapper, MAPPED_WORDS);
        hcq_buffer first = order & 4 ? dst : src, last = order & 4 ? src : dst;
        fill_words(src, order * 1000);
        hcq_queue *q = mapped_copy(mapper, dst, src);
        (void)submit_of(q, mapper);
        hcq_point done = submit_of(q, mapper);
        if (order & 1) {
            WAIT_OK(done);
            CHECK_U64(READ32(dst, MAPPED_WORDS - 1), order * 1000 + MAPPED_WORDS - 1);
        }
        if (order & 2) {
            hcq_queue_destroy(q);
        }
        CHECK_OK(hcq_free(first));
        CHECK_OK(hcq_trim(owner, 0));
        CHECK_OK(hcq_trim(mapper, 0));
        if (!(order & 2)) {
            CHECK_RESULT(hcq_queue_submit(q, mapper, NULL), HCQ_ERROR_CLOSED);
            hcq_queue_destroy(q);
        }
        WAIT_OK(done);
        CHECK_U64(READ32(last, 5), order * 1000 + 5);
        CHECK_OK(hcq_free(last));
    }
    CHECK_OK(hcq_trim(owner, 0));
    CHECK_OK(hcq_trim(mapper, 0));
}

/* One goes while the other lives on with the memory mapped. Closes both. */
static void mapped_and_closed(hcq_device *owner, hcq_device *mapper, int owner_first) {
    hcq_buffer src = make_words(owner, MAPPED_WORDS), dst = make_words(mapper, MAPPED_WORDS);
    hcq_queue *q = mapped_copy(mapper, dst, src);
    fill_words(src, 3);
    submit_and_wait(q, mapper);
    CHECK_OK(hcq_close(owner_first ? owner : mapper));
    CHECK(!owner_first || hcq_queue_submit(q, mapper, NULL) == HCQ_ERROR_CLOSED);
    CHECK_U64(READ32(owner_first ? dst : src, 9), 12);
    CHECK_OK(hcq_close(owner_first ? mapper : owner));
}

/* Of a device and of the CPU, and of two devices, each way. */
TEST(mapped_memory_ends_in_all_orders) {
    uint32_t done = 0;
    for (uint32_t i = 0; i < 8; i++) {
        hcq_device *vulkan = device_with(0, 0), *other = i & 1 ? device_with(0, 0) : open_cpu();
        hcq_device *owner = i & 2 ? vulkan : other, *mapper = i & 2 ? other : vulkan;
        uint64_t blocks = COUNT(vulkan, BLOCKS);
        if (!can_map(owner, mapper)) {
            CHECK_OK(hcq_close(owner));
            CHECK_OK(hcq_close(mapper));
            continue;
        }
        mapped_and_freed(owner, mapper);
        CHECK(COUNT(vulkan, BLOCKS) <= blocks + 2); /* no import is left */
        mapped_and_closed(owner, mapper, i & 4 ? 1 : 0);
        done++;
    }
    CHECK(has_feature(T.dev, HCQ_FEATURE_MAP) ? done == 8 : done <= 8);
}
