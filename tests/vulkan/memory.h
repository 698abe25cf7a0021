/* memory.h - blocks and what lies in them. Part of vulkan.c. */
#pragma once

#include "shared.h"

/* Pieces that fill a block, freed from the first or from the last on, are one again. */
TEST(freed_neighbours_join) {
    enum { JOINED = 28, PIECE = 256 << 10 };
    for (uint32_t down = 0; down < 2; down++) {
        hcq_device *dev = device_with(0, 0);
        hcq_buffer pieces[JOINED], small = make_words(dev, 16), large;
        for (uint32_t i = 0; i < JOINED; i++) {
            CHECK_OK(hcq_alloc(dev, PIECE, HCQ_NO_CACHE, &pieces[i]));
        }
        uint64_t blocks = COUNT(dev, BLOCKS), bytes = COUNT(dev, BLOCK_BYTES);
        for (uint32_t i = 0; i < JOINED; i++) {
            CHECK_OK(hcq_free(pieces[down ? JOINED - 1 - i : i]));
        }
        CHECK_OK(hcq_alloc(dev, (JOINED - 3) * (uint64_t)PIECE, HCQ_NO_CACHE, &large));
        CHECK_U64(COUNT(dev, BLOCKS), blocks);
        CHECK_U64(COUNT(dev, BLOCK_BYTES), bytes);
        CHECK_OK(hcq_free(large));
        CHECK_OK(hcq_free(small));
        CHECK_OK(hcq_close(dev));
    }
}

TEST(large_allocations_have_their_own) {
    const uint64_t size = ((uint64_t)96 << 20) + 100;
    hcq_device *dev = device_with(0, 0);
    hcq_buffer small = make_words(dev, 16), large, other;
    uint64_t before = COUNT(dev, BLOCKS), bytes = COUNT(dev, BLOCK_BYTES);
    CHECK_OK(hcq_alloc(dev, size, HCQ_NO_CACHE, &large));
    CHECK_U64(COUNT(dev, BLOCKS), before + 1);
    CHECK(COUNT(dev, BLOCK_BYTES) - bytes >= size);
    CHECK(COUNT(dev, BLOCK_BYTES) - bytes < size + 65536);
    CHECK_OK(hcq_alloc(dev, 4096, HCQ_NO_CACHE, &other));
    CHECK(other.address + other.size <= large.address ||
          other.address >= large.address + large.size);
    CHECK_OK(hcq_free(large));
    CHECK_OK(hcq_trim(dev, 0));
    CHECK(COUNT(dev, BLOCK_BYTES) < bytes + ((uint64_t)64 << 20));
    CHECK_OK(hcq_free(other));
    CHECK_OK(hcq_free(small));
    CHECK_OK(hcq_close(dev));
}

/* ---- allocations at random, against a model ---- */

typedef struct piece {
    hcq_buffer buffer;
    uint32_t tag;                      /* its first word, the last one inverted; 0: free */
} piece;

enum { PIECES = 120 };

static void piece_new(hcq_device *dev, piece *pieces, piece *p, uint32_t tag, uint64_t *random) {
    uint64_t most = test_random(random) % 4 ? 4096 : test_random(random) % 4 ? 300000 : 3000000;
    uint64_t words = 2 + test_random(random) % (most / 4);
    uint32_t flags = HCQ_NO_CACHE | (test_random(random) % 3 ? 0 : (uint32_t)HCQ_HOST_VISIBLE);
    const uint32_t ends[2] = {tag, ~tag};
    CHECK_OK(hcq_alloc(dev, words * 4, flags, &p->buffer));
    CHECK(p->buffer.address % 64 == 0);
    for (uint32_t i = 0; i < PIECES; i++) {
        const hcq_buffer *o = &pieces[i].buffer;
        CHECK(pieces[i].tag == 0 || p->buffer.address + p->buffer.size <= o->address ||
              p->buffer.address >= o->address + o->size);
    }
    p->tag = tag;
    CHECK_OK(hcq_copyin(hcq_view(p->buffer, 0, 4), &ends[0], 4));
    CHECK_OK(hcq_copyin(hcq_view(p->buffer, p->buffer.size - 4, 4), &ends[1], 4));
}

static void piece_free(piece *p) {
    CHECK_U64(READ32(p->buffer, 0), p->tag);
    CHECK_U64(READ32(p->buffer, p->buffer.size / 4 - 1), ~p->tag);
    CHECK_OK(hcq_free(p->buffer));
    p->tag = 0;
}

TEST(allocations_at_random) {
    static piece pieces[PIECES];
    hcq_device *dev = device_with(0, 0);
    uint64_t random = T.seed, living = 0;
    memset(pieces, 0, sizeof pieces);
    for (uint32_t k = 1; k <= (T.quick ? 1000u : 4000u); k++) {
        piece *p = &pieces[test_random(&random) % PIECES];
        if (p->tag == 0) {
            piece_new(dev, pieces, p, k, &random);
            living += p->buffer.size;
            continue;
        }
        living -= p->buffer.size;
        piece_free(p);
        if (k % 100 == 0) {
            CHECK_OK(hcq_trim(dev, 0));
            CHECK(COUNT(dev, BLOCK_BYTES) <= 3 * living + ((uint64_t)160 << 20));
        }
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        if (pieces[i].tag) {
            piece_free(&pieces[i]);
        }
    }
    CHECK_OK(hcq_trim(dev, 0));
    CHECK(COUNT(dev, BLOCKS) <= 3);    /* one of each type, and the library's own */
    CHECK_OK(hcq_close(dev));
}
