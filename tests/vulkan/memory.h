/* memory.h - blocks and what lies in them, imports, fills and copies of all
   alignments. Part of vulkan.c. */

/* ---- fills and copies ---- */

enum { STRIP = 384, FILL_MOST = 300 };

/* All sizes with this offset: each into its own strip of a buffer. */
static void fills_with(uint32_t value_size, uint32_t offset, uint64_t value) {
    static unsigned char model[STRIP * FILL_MOST];
    hcq_buffer dst;
    hcq_queue *q = make_queue(T.dev, offset / value_size % 2 ? HCQ_COPY : HCQ_COMPUTE);
    memset(model, 0x5a, sizeof model);
    CHECK_OK(hcq_alloc(T.dev, sizeof model, 0, &dst));
    CHECK_OK(hcq_copyin(dst, model, sizeof model));
    for (uint32_t size = value_size; size <= FILL_MOST; size += value_size) {
        uint32_t at = (size - 1) * STRIP + offset;
        CHECK(hcq_queue_fill(q, hcq_view(dst, at, size), size, value, value_size) >= 0);
        for (uint32_t i = 0; i < size; i++) {
            model[at + i] = (unsigned char)(value >> 8 * (i % value_size));
        }
    }
    submit_and_wait(q, T.dev);
    CHECK_BYTES(dst, model, sizeof model);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(dst));
}

static void fills_of_all_kinds(void **state) {
    (void)state;
    uint64_t random = T.seed;
    for (uint32_t value_size = 1; value_size <= 8; value_size *= 2) {
        for (uint32_t offset = 0; offset < 16; offset += value_size) {
            fills_with(value_size, offset, test_random(&random));
        }
    }
    fills_with(8, 0, 0x1122334411223344ull); /* halves alike */
    fills_with(8, 8, 0);
}

static void copies_of_all_alignments(void **state) {
    (void)state;
    enum { SIZES = 48, BYTES = STRIP * SIZES };
    static unsigned char model[BYTES], source[BYTES];
    uint64_t random = T.seed;
    hcq_buffer dst, src;
    CHECK_OK(hcq_alloc(T.dev, BYTES, 0, &dst));
    CHECK_OK(hcq_alloc(T.dev, BYTES, 0, &src));
    for (uint32_t i = 0; i < BYTES; i++) {
        source[i] = (unsigned char)test_random(&random);
    }
    CHECK_OK(hcq_copyin(src, source, BYTES));
    for (uint32_t offsets = 0; offsets < 256; offsets++) {
        uint32_t to = offsets % 16, from = offsets / 16;
        hcq_queue *q = make_queue(T.dev, HCQ_COPY);
        memset(model, 0xa5, sizeof model);
        CHECK_INDEX(hcq_queue_fill(q, dst, BYTES, 0xa5, 1), 0);
        for (uint32_t i = 0; i < SIZES; i++) {
            uint32_t size = i < 40 ? i + 1 : 1 + (uint32_t)(test_random(&random) % 300);
            CHECK(hcq_queue_copy(q, hcq_view(dst, i * STRIP + to, size),
                                 hcq_view(src, i * STRIP + from, size), size) > 0);
            memcpy(model + i * STRIP + to, source + i * STRIP + from, size);
        }
        submit_and_wait(q, T.dev);
        CHECK_BYTES(dst, model, sizeof model);
        hcq_queue_destroy(q);
    }
}

/* Beyond 4 GiB, or as far as one buffer may go; only where it is cheap. */
static void large_copies_and_fills(void **state) {
    (void)state;
    const uint64_t size = ((uint64_t)2 << 30) + 4096;
    hcq_buffer buffer;
    if (hcq_alloc(T.dev, size, HCQ_NO_CACHE, &buffer) != HCQ_OK) {
        SKIP("the device allows no buffer beyond 2 GiB");
        return;
    }
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_fill(q, buffer, size, 0x77, 1), 0);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(buffer, 0, 4096), 4096, 0x88, 1), 1);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(buffer, size - 2048, 2048), buffer, 2048), 2);
    submit_and_wait(q, T.dev);
    CHECK_U64(READ32(buffer, size / 4 - 1), 0x88888888u);
    CHECK_U64(READ32(buffer, size / 4 - 513), 0x77777777u);
    CHECK_OK(hcq_free(buffer));
}

/* ---- blocks ---- */

static void small_allocations_share_blocks(void **state) {
    (void)state;
    enum { COUNT_OF = 1000 };
    hcq_device *dev = device_with(0, 0);
    static hcq_buffer buffers[COUNT_OF];
    uint64_t before = COUNT(dev, BLOCKS), bytes = COUNT(dev, BLOCK_BYTES);
    for (uint32_t i = 0; i < COUNT_OF; i++) {
        CHECK_OK(hcq_alloc(dev, 1 + i * 7 % 4096, HCQ_NO_CACHE, &buffers[i]));
    }
    CHECK(COUNT(dev, BLOCKS) - before <= 1);
    CHECK(COUNT(dev, BLOCK_BYTES) - bytes <= (uint64_t)16 << 20);
    for (uint32_t i = 0; i < COUNT_OF; i++) {
        CHECK_OK(hcq_free(buffers[(i * 37) % COUNT_OF]));
    }
    CHECK_OK(hcq_trim(dev, 0));
    CHECK(COUNT(dev, BLOCKS) <= before + 1); /* one may be kept */
    CHECK_OK(hcq_close(dev));
}

/* Pieces that fill a block, freed from the first or from the last on, are one again. */
static void freed_neighbours_join(void **state) {
    (void)state;
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

static void large_allocations_have_their_own(void **state) {
    (void)state;
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

/* More than the device gives at once. */
static void too_much_is_refused(void **state) {
    (void)state;
    hcq_buffer buffer;
    log_clear();
    CHECK_RESULT(hcq_alloc(T.dev, (uint64_t)1 << 44, 0, &buffer), HCQ_ERROR_OUT_OF_MEMORY);
    CHECK(log_has("17592186044416 bytes") && log_has("the device allows"));
    CHECK_RESULT(hcq_alloc(T.dev, (uint64_t)1 << 61, HCQ_ZEROED, &buffer),
                 HCQ_ERROR_OUT_OF_MEMORY);
    CHECK_OK(hcq_alloc(T.dev, 64, 0, &buffer));
}

/* ---- allocations at random, against a model ---- */

typedef struct piece {
    hcq_buffer buffer;
    uint32_t tag;                      /* 0: free */
} piece;

enum { PIECES = 120 };

/* First and last words tell whose it is. */
static void piece_mark(const piece *p) {
    uint32_t words[2] = {p->tag, ~p->tag};
    CHECK_OK(hcq_copyin(hcq_view(p->buffer, 0, 4), &words[0], 4));
    CHECK_OK(hcq_copyin(hcq_view(p->buffer, p->buffer.size - 4, 4), &words[1], 4));
}

static void piece_check(const piece *p) {
    CHECK_U64(READ32(p->buffer, 0), p->tag);
    CHECK_U64(READ32(p->buffer, p->buffer.size / 4 - 1), ~p->tag);
}

static void piece_new(hcq_device *dev, piece *pieces, piece *p, uint32_t tag, uint64_t *random) {
    uint64_t most = test_random(random) % 4 ? 4096 : test_random(random) % 4 ? 300000 : 3000000;
    uint64_t words = 2 + test_random(random) % (most / 4);
    uint32_t flags = HCQ_NO_CACHE | (test_random(random) % 3 ? 0 : (uint32_t)HCQ_HOST_VISIBLE);
    CHECK_OK(hcq_alloc(dev, words * 4, flags, &p->buffer));
    CHECK(p->buffer.address % 64 == 0);
    for (uint32_t i = 0; i < PIECES; i++) {
        const hcq_buffer *o = &pieces[i].buffer;
        CHECK(pieces[i].tag == 0 || p->buffer.address + p->buffer.size <= o->address ||
              p->buffer.address >= o->address + o->size);
    }
    p->tag = tag;
    piece_mark(p);
}

static void allocations_at_random(void **state) {
    (void)state;
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
        piece_check(p);
        CHECK_OK(hcq_free(p->buffer));
        living -= p->buffer.size;
        p->tag = 0;
        if (k % 100 == 0) {
            CHECK_OK(hcq_trim(dev, 0));
            CHECK(COUNT(dev, BLOCK_BYTES) <= 3 * living + ((uint64_t)160 << 20));
        }
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        if (pieces[i].tag) {
            piece_check(&pieces[i]);
            CHECK_OK(hcq_free(pieces[i].buffer));
        }
    }
    CHECK_OK(hcq_trim(dev, 0));
    CHECK(COUNT(dev, BLOCKS) <= 3);    /* one of each type, and the library's own */
    CHECK_OK(hcq_close(dev));
}

/* ---- imports ---- */

/* A range anywhere in a page: what lies beside it stays as it is. */

static void imports_of_any_range(void **state) {
    (void)state;
    enum { ALL = 65536 };
    static const uint64_t ranges[][2] = {
        {0, ALL}, {1, 1}, {4095, 2}, {4096, 4096}, {5, 4096}, {4000, 200}, {4097, 30000},
        {ALL - 1, 1}, {3, ALL - 3}, {8191, 8193},
    };
    unsigned char *memory = (unsigned char *)malloc(ALL + 64) + 24; /* no page of its own */
    if (!has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        hcq_buffer buffer;
        CHECK_RESULT(hcq_import(T.dev, memory, 64, &buffer), HCQ_ERROR_UNSUPPORTED);
        CHECK(log_has("VK_EXT_external_memory_host"));
        free(memory - 24);
        return;
    }
    uint64_t blocks = COUNT(T.dev, BLOCKS);
    for (uint32_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        import_range(memory, ALL, ranges[i][0], ranges[i][1]);
    }
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK(COUNT(T.dev, BLOCKS) <= blocks + 2);
    free(memory - 24);
}

/* Two ranges with a page in common; kernels see each where it lies. */
static void imports_of_one_page(void **state) {
    (void)state;
    if (!has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        SKIP("memory cannot be imported");
        return;
    }
    uint32_t *memory = (uint32_t *)calloc(4096, 4);
    hcq_program *add = make_add(T.dev);
    hcq_buffer low, high;
    CHECK_OK(hcq_import(T.dev, memory, 1001 * 4, &low));
    CHECK_OK(hcq_import(T.dev, memory + 1001, 3000 * 4, &high));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, add, low, 1000, 5), 0);
    CHECK_INDEX(record_add(q, add, high, 0, 6), 1);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(high, 4, 8), hcq_view(low, 999 * 4, 8), 8), 2);
    CHECK_INDEX(record_add(q, add, high, 2999, 7), 3);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    submit_and_wait(q, T.dev);
    CHECK(memory[1000] == 5 && memory[1001] == 6 && memory[1002] == 0 && memory[1003] == 5);
    CHECK(memory[4000] == 7 && memory[4001] == 0);
    CHECK_OK(hcq_free(low));
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_CLOSED);
    hcq_queue_destroy(q);
    q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, add, high, 0, 6), 0);
    submit_and_wait(q, T.dev);
    CHECK(memory[1001] == 12);
    CHECK_OK(hcq_free(high));
    free(memory);
}

#define MEMORY_TESTS                                                               \
    TEST(fills_of_all_kinds), TEST(copies_of_all_alignments),                      \
    TEST(large_copies_and_fills), TEST(small_allocations_share_blocks),            \
    TEST(freed_neighbours_join), TEST(large_allocations_have_their_own),           \
    TEST(too_much_is_refused),                                                     \
    TEST(allocations_at_random), TEST(imports_of_any_range), TEST(imports_of_one_page),
