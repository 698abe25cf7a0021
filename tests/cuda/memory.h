/* memory.h - fills and copies of all kinds, pools, imports, memory that runs out,
   freeing beside running work. Part of cuda.c. */

/* ---- fills and copies ---- */

enum { STRIP = 384, FILL_MOST = 300 };

/* All sizes with this offset: each into its own strip of a buffer. */
static void fills_with(hcq_device *device, uint32_t value_size, uint32_t offset, uint64_t value,
                       int bound) {
    static unsigned char model[STRIP * FILL_MOST];
    hcq_buffer dst;
    hcq_queue *q = make_queue(device, offset / value_size % 2 ? HCQ_COPY : HCQ_COMPUTE);
    memset(model, 0x5a, sizeof model);
    CHECK_OK(hcq_alloc(device, sizeof model, 0, &dst));
    CHECK_OK(hcq_copyin(dst, model, sizeof model));
    for (uint32_t size = value_size; size <= FILL_MOST; size += value_size) {
        uint32_t at = (size - 1) * STRIP + offset;
        CHECK(hcq_queue_fill(q, hcq_view(dst, at, size), size, value, value_size) >= 0);
        for (uint32_t i = 0; i < size; i++) {
            model[at + i] = (unsigned char)(value >> 8 * (i % value_size));
        }
    }
    CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
    submit_and_wait(q, device);
    CHECK_BYTES(dst, model, sizeof model);
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(dst));
}

static void fills_of_all_kinds(void **state) {
    (void)state;
    hcq_device *plain = device_with(HCQ_CUDA_NO_JIT, 1, 1);
    uint64_t random = T.seed;
    for (uint32_t value_size = 1; value_size <= 8; value_size *= 2) {
        for (uint32_t offset = 0; offset < 16; offset += value_size) {
            fills_with(T.dev, value_size, offset, test_random(&random), (int)(offset & 8));
        }
        fills_with(plain, value_size, value_size, test_random(&random), 0);
        fills_with(plain, value_size, 0, test_random(&random), 1);
    }
    fills_with(T.dev, 8, 0, 0x1122334411223344ull, 0); /* halves alike */
    fills_with(T.dev, 8, 8, 0, 1);
    CHECK_OK(hcq_close(plain));
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
    for (uint32_t offsets = 0; offsets < (T.quick ? 64u : 256u); offsets++) {
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
        CHECK_OK(offsets & 1 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        submit_and_wait(q, T.dev);
        CHECK_BYTES(dst, model, sizeof model);
        hcq_queue_destroy(q);
    }
}

/* Beyond 4 GiB: sizes and places that 32 bits do not hold. */
static void large_copies_and_fills(void **state) {
    (void)state;
    const uint64_t size = ((uint64_t)4 << 30) + 8192;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    hcq_buffer buffer, other;
    if (T.quick || TEST_SANITIZED || (mocked && !getenv("HCQ_TEST_LARGE")) ||
        (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page < ((uint64_t)20 << 30)) {
        SKIP("needs 20 GiB of memory and time; HCQ_TEST_LARGE=1 on the mock");
        return;
    }
    if (mocked) {
        mock_cuda_desc desc = mock_wanted();
        desc.memory_bytes = (uint64_t)16 << 30;
        M.setup(&desc);
    }
    hcq_device *device = test_open(0, NULL);
    CHECK_OK(hcq_alloc(device, size, HCQ_NO_CACHE, &buffer));
    CHECK_OK(hcq_alloc(device, size, HCQ_NO_CACHE, &other));
    hcq_queue *q = make_queue(device, HCQ_COPY);
    CHECK_INDEX(hcq_queue_fill(q, buffer, size, 0x77, 1), 0);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(buffer, 0, 4096), 4096, 0x88, 1), 1);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(buffer, size - 64, 64), 64, 0x99, 1), 2);
    CHECK_INDEX(hcq_queue_copy(q, other, buffer, size), 3);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(other, size - 2048, 1024), buffer, 1024), 4);
    for (uint32_t bound = 0; bound < 2; bound++) {
        CHECK_OK(bound ? hcq_queue_bind(q, device) : HCQ_OK);
        CHECK_OK(hcq_copyin(hcq_view(other, size - 4, 4), &page, 4));
        hcq_point done = submit_of(q, device);
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, (uint64_t)200 * 1000000000));
        CHECK_U64(READ32(other, size / 4 - 1), 0x99999999u);
        CHECK_U64(READ32(other, size / 4 - 512), 0x88888888u);
        CHECK_U64(READ32(other, size / 4 - 513), 0x77777777u);
        CHECK_U64(READ32(other, 0), 0x88888888u);
        CHECK_U64(READ32(other, 1024), 0x77777777u);
    }
    CHECK_OK(hcq_close(device));
}

/* ---- what the host sees ---- */

static void host_visible_memory(void **state) {
    (void)state;
    hcq_buffer visible, device_only;
    CHECK_OK(hcq_alloc(T.dev, 4096, HCQ_HOST_VISIBLE | HCQ_ZEROED, &visible));
    CHECK_OK(hcq_alloc(T.dev, 4096, 0, &device_only));
    CHECK(visible.host != NULL && device_only.host == NULL);
    CHECK(visible.address % 64 == 0 && device_only.address % 64 == 0);
    uint32_t *words = (uint32_t *)visible.host;
    CHECK_U64(words[1023], 0);
    words[5] = 50;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(record_add(q, make_add(T.dev), visible, 5, 7), 0);
    CHECK_INDEX(hcq_queue_copy(q, device_only, visible, 4096), 1);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(visible, 2048, 64), device_only, 64), 2);
    submit_and_wait(q, T.dev);
    CHECK(words[5] == 57 && words[512 + 5] == 57);
    hcq_queue_destroy(q);
}

/* Copies from and to pinned memory are one call, however small a batch of staging. */
static void pinned_copies_are_not_staged(void **state) {
    (void)state;
    enum { BYTES = 6 << 20 };
    NEEDS_MOCK();
    hcq_device_desc desc = test_desc();
    desc.staging_bytes = 65536;
    desc.staging_count = 4;
    hcq_device *device = test_open(0, &desc);
    hcq_buffer pinned, buffer, imported;
    unsigned char *pages = NULL;
    CHECK(posix_memalign((void **)(void *)&pages, 65536, BYTES) == 0);
    CHECK_OK(hcq_alloc(device, BYTES, HCQ_HOST_VISIBLE, &pinned));
    CHECK_OK(hcq_alloc(device, BYTES, 0, &buffer));
    memset(pinned.host, 0x3d, BYTES);
    memset(pages, 0x4e, BYTES);
    settle(device);
    uint64_t before = calls_of("cuMemcpy*");
    CHECK_OK(hcq_copyin(buffer, pinned.host, BYTES));
    CHECK_U64(calls_of("cuMemcpy*"), before + 1);
    CHECK_OK(hcq_copyout(pinned.host, buffer, BYTES));
    CHECK_U64(calls_of("cuMemcpy*"), before + 2);
    CHECK_OK(hcq_copyin(buffer, pages, BYTES)); /* staged */
    CHECK(calls_of("cuMemcpy*") >= before + 2 + BYTES / 65536);
    CHECK_U64(READ32(buffer, BYTES / 4 - 1), 0x4e4e4e4e);
    if (has_feature(device, HCQ_FEATURE_IMPORT)) {
        CHECK_OK(hcq_import(device, pages, BYTES, &imported));
        before = calls_of("cuMemcpy*");
        CHECK_OK(hcq_copyout(pages, buffer, BYTES));
        CHECK_OK(hcq_copyin(buffer, pages + 100, BYTES - 200));
        CHECK_U64(calls_of("cuMemcpy*"), before + 2);
        CHECK_OK(hcq_free(imported));
    }
    CHECK_U64(stats_now().pageable_copies, 0);
    CHECK_OK(hcq_close(device));
    free(pages);
}

/* ---- zeroed memory ---- */

/* Whichever lane looks first sees zeros, also where the memory was in use before. */
static void zeroed_memory_is_zero(void **state) {
    (void)state;
    enum { BYTES = 40000 };
    static unsigned char zeros[BYTES];
    for (uint32_t way = 0; way < 4; way++) {
        hcq_device *device = way < 3 ? device_by(way, 2, 1) : device_with(HCQ_CUDA_NO_POOLS, 2, 1);
        hcq_buffer to;
        CHECK_OK(hcq_alloc(device, BYTES, 0, &to));
        for (uint32_t i = 0; i < 24; i++) {
            hcq_queue *q = make_queue(device, i % 3 ? HCQ_COMPUTE : HCQ_COPY);
            hcq_buffer fresh, dirty;
            CHECK_OK(hcq_alloc(device, BYTES, i & 1 ? HCQ_NO_CACHE : 0, &dirty));
            CHECK_INDEX(hcq_queue_fill(q, dirty, BYTES, 0xee, 1), 0);
            (void)submit_to(device, q, 0, NULL, NULL);
            CHECK_OK(hcq_free(dirty));
            CHECK_OK(i & 2 ? hcq_device_synchronize(device, BOUND) : HCQ_OK);
            CHECK_OK(hcq_alloc(device, BYTES, HCQ_ZEROED | (i & 1 ? HCQ_NO_CACHE : 0), &fresh));
            CHECK_OK(hcq_queue_reset(q));
            CHECK_INDEX(hcq_queue_copy(q, to, fresh, BYTES), 0);
            WAIT_OK(submit_to(device, q, 1, NULL, NULL));
            CHECK_BYTES(to, zeros, BYTES);
            CHECK_OK(hcq_free(fresh));
            hcq_queue_destroy(q);
        }
        CHECK_OK(hcq_close(device));
    }
}

/* ---- freeing beside running work ---- */

typedef struct timed { uint64_t began, worst; } timed;

static void timed_begin(timed *t) {
    t->began = hcq_sys_now_ns();
}

static void timed_end(timed *t) {
    uint64_t took = hcq_sys_now_ns() - t->began;
    t->worst = took > t->worst ? took : t->worst;
}

/* A kernel spins, on the device or on another one of this GPU: allocating, importing,
   freeing, destroying programs and queues and trimming go on. */
static void frees_beside(hcq_device *device, const gates *g) {
    static unsigned char pages[200000];
    hcq_buffer buffers[12];
    timed t = {0, 0};
    hcq_program *spare = make_own(device, "ct_step", step_list);
    hcq_queue *bound = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_write(bound, make_words(device, 4), 1, 8), 0);
    CHECK_INDEX(hcq_queue_write(bound, make_words(device, 4), 1, 8), 1);
    CHECK_OK(hcq_queue_bind(bound, device));
    submit_and_wait(bound, device);
    settle(device);
    gate_shut(g, 0);
    hcq_point done = submit_spin(g, 0, 0);
    gate_until_begun(g, 0);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 12; i++) {
            uint32_t flags = (i & 1 ? (uint32_t)HCQ_HOST_VISIBLE : 0) |
                             (i & 2 ? (uint32_t)HCQ_NO_CACHE : 0) | (i & 4 ? 0u : HCQ_ZEROED);
            timed_begin(&t);
            CHECK_OK(hcq_alloc(device, 5000u << i, flags, &buffers[i]));
            timed_end(&t);
        }
        for (uint32_t i = 0; i < 12; i++) {
            timed_begin(&t);
            CHECK_OK(hcq_free(buffers[i]));
            timed_end(&t);
        }
        timed_begin(&t);
        CHECK_OK(hcq_trim(device, 0));
        timed_end(&t);
    }
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    timed_begin(&t);
    hcq_program_destroy(spare);
    hcq_queue_destroy(bound);
    CHECK_OK(hcq_trim(device, 0));
    timed_end(&t);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    int imports = has_feature(device, HCQ_FEATURE_IMPORT);
    CHECK_OK(imports ? hcq_import(device, pages, sizeof pages, &buffers[0]) : HCQ_OK);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    gate_let(g, 0);
    WAIT_OK(done);
    CHECK_OK(imports ? hcq_free(buffers[0]) : HCQ_OK); /* this one may wait: it is yours now */
    CHECK(t.worst < 3 * SECOND);       /* the spin would have lasted 10 */
}

static void freeing_never_waits(void **state) {
    (void)state;
    if (T.variant->one_fifo) {
        SKIP("all streams are behind the long kernel");
        return;
    }
    gates other;
    gates_open(&other, T.dev);
    for (uint32_t i = 0; i < 4; i++) {
        hcq_device *device = device_with(i & 1 ? HCQ_CUDA_NO_POOLS : 0, 1, 1);
        gates own;
        gates_open(&own, device);
        frees_beside(device, i < 2 ? &own : &other);
        CHECK_OK(hcq_close(device));
    }
}

/* Memory that a running kernel uses is nobody else's until it is done. */
static void freed_memory_is_not_reused_early(void **state) {
    (void)state;
    enum { BYTES = 1 << 16 };
    for (uint32_t i = 0; i < 8; i++) {
        hcq_device *device = device_with(i & 1 ? HCQ_CUDA_NO_POOLS : 0, 2, 1);
        uint32_t flags = i & 2 ? HCQ_NO_CACHE : 0;
        hcq_buffer first, second, out = make_words(device, 4);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE), *other = make_queue(device, HCQ_COPY);
        gates g;
        gates_open(&g, device);
        CHECK_OK(hcq_alloc(device, BYTES, flags, &first));
        CHECK_INDEX(hcq_queue_fill(q, first, BYTES, 1, 4), 0);
        CHECK_INDEX(record_spin(q, &g, 0), 1);
        CHECK_INDEX(hcq_queue_copy(q, out, hcq_view(first, BYTES - 16, 16), 16), 2);
        hcq_point done = submit_of(q, device);
        gate_until_begun(&g, 0);
        CHECK_OK(hcq_free(first));
        if (i & 4) {
            CHECK_OK(hcq_trim(device, 0));
        }
        CHECK_OK(hcq_alloc(device, BYTES, flags | HCQ_ZEROED, &second));
        CHECK_INDEX(hcq_queue_fill(other, second, BYTES, 2, 4), 0);
        hcq_point filled = submit_of(other, device);
        if (!T.variant->one_fifo) {
            WAIT_OK(filled);
        }
        gate_let(&g, 0);
        WAIT_OK(done);
        CHECK_U64(READ32(out, 3), 1);
        hcq_queue_destroy(q);
        hcq_queue_destroy(other);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- memory runs out ---- */

static void memory_runs_out(void **state) {
    (void)state;
    enum { PIECE = 4 << 20, MOST = 40 };
    NEEDS_MOCK();
    for (uint32_t pools = 0; pools < 2; pools++) {
        mock_cuda_desc desc = mock_wanted();
        hcq_buffer pieces[MOST], large;
        uint32_t got = 0;
        desc.memory_bytes = 64u << 20;
        M.setup(&desc);
        hcq_device *device = device_with(pools ? 0 : HCQ_CUDA_NO_POOLS, 1, 1);
        hcq_result r = HCQ_OK;
        while (r == HCQ_OK && got < MOST) {
            r = hcq_alloc(device, PIECE, 0, &pieces[got]);
            got += r == HCQ_OK;
        }
        CHECK_RESULT(r, HCQ_ERROR_OUT_OF_MEMORY);
        CHECK(got >= 12 && got <= 16 && log_has("4194304"));
        for (uint32_t i = 0; i < got; i++) {
            CHECK_OK(hcq_free(pieces[i])); /* into the cache */
        }
        CHECK_OK(hcq_alloc(device, 40u << 20, 0, &large)); /* which is emptied for this */
        CHECK_RESULT(hcq_alloc(device, 40u << 20, 0, &pieces[0]), HCQ_ERROR_OUT_OF_MEMORY);
        CHECK_OK(hcq_free(large));
        CHECK_OK(hcq_alloc(device, 48u << 20, HCQ_ZEROED, &large));
        CHECK_U64(READ32(large, (12u << 20) - 1), 0);
        use_device(device);
        CHECK_OK(hcq_close(device));
        CHECK_U64(things_now(), 0);
    }
}

/* Pools are used where they are there, and nothing of them where they are not. */
static void pools_and_no_pools(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 3; i++) {
        mock_cuda_desc desc = mock_wanted();
        desc.flags |= i == 1 ? MOCK_CUDA_NO_POOLS : 0;
        M.setup(&desc);
        hcq_device *device = device_with(i == 2 ? HCQ_CUDA_NO_POOLS : 0, 1, 1);
        uint32_t pools = info_of(device).pools;
        use_device(device);
        CHECK(i == 0 || pools == 0);
        CHECK(pools ? calls_of("cuMemAllocFromPoolAsync") > 0 && calls_of("cuMemAlloc_v2") == 0
                    : calls_of("cuMemAllocFromPoolAsync") == 0 && calls_of("cuMemAlloc_v2") > 0);
        CHECK_OK(hcq_close(device));
        CHECK_U64(things_now(), 0);
    }
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
        free(memory - 24);
        return;
    }
    for (uint32_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        import_range(memory, ALL, ranges[i][0], ranges[i][1]);
    }
    CHECK_OK(hcq_trim(T.dev, 0));
    settle(T.dev);
    CHECK_U64(stats_now().registered, 0);
    free(memory - 24);
}

/* Ranges with pages in common, and the same one on both devices; freed in any order.
   Bytes that are a buffer's already are refused. */
static void imports_that_overlap(void **state) {
    (void)state;
    if (!has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        SKIP("memory cannot be imported");
        return;
    }
    for (uint32_t order = 0; order < 4; order++) {
        uint32_t *memory = (uint32_t *)calloc(4096, 4);
        hcq_buffer low, high, again, there;
        CHECK_OK(hcq_import(T.dev, memory, 1001 * 4, &low));
        CHECK_OK(hcq_import(T.dev, memory + 1001, 3000 * 4, &high));
        CHECK_RESULT(hcq_import(T.dev, memory + 500, 1500 * 4, &again), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_import(T.dev, memory + 4050, 40 * 4, &again));
        CHECK_OK(hcq_import(T.dev2, memory, 4096 * 4, &there));
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *q2 = make_queue(T.dev2, HCQ_COMPUTE);
        hcq_program *add = make_add(T.dev);
        CHECK_INDEX(record_add(q, add, low, 1000, 5), 0);
        CHECK_INDEX(record_add(q, add, high, 0, 6), 1);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(high, 4, 8), hcq_view(low, 999 * 4, 8), 8), 2);
        CHECK_INDEX(record_add(q, add, high, 2999, 7), 3);
        CHECK_INDEX(record_add(q, add, again, 30, 1), 4);
        CHECK_INDEX(record_add(q2, make_add(T.dev2), there, 1000, 2), 0);
        submit_and_wait(q, T.dev);
        submit_and_wait(q2, T.dev2);
        CHECK(memory[1000] == 7 && memory[1001] == 6 && memory[1002] == 0 && memory[1003] == 5);
        CHECK(memory[4000] == 7 && memory[4001] == 0 && memory[4080] == 1);
        hcq_buffer all[4] = {low, high, again, there};
        for (uint32_t i = 0; i < 4; i++) {
            CHECK_OK(hcq_free(all[(i * 3 + order) % 4]));
        }
        hcq_queue_destroy(q);
        hcq_queue_destroy(q2);
        CHECK_OK(hcq_trim(T.dev, 0));
        CHECK_OK(hcq_trim(T.dev2, 0));
        settle(T.dev);
        settle(T.dev2);
        CHECK_U64(stats_now().registered, 0);
        free(memory);
    }
}

/* One of two that share a page goes while work on the other runs; which is given back
   when both are gone. */
static void imports_that_share_a_page(void **state) {
    (void)state;
    if (!has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        SKIP("memory cannot be imported");
        return;
    }
    for (uint32_t way = 0; way < 4; way++) { /* which goes first; on which devices they are */
        uint32_t *memory = (uint32_t *)calloc(4096, 4);
        hcq_device *devices[2] = {T.dev, way & 2 ? T.dev2 : T.dev};
        const uint32_t stays = way & 1, goes = !stays;
        hcq_buffer ends[2], words = make_words(devices[stays], 1000);
        gates g;
        gates_open(&g, devices[stays]);
        CHECK_OK(hcq_import(devices[0], memory, 1001 * 4, &ends[0]));
        CHECK_OK(hcq_import(devices[1], memory + 1001, 3000 * 4, &ends[1]));
        hcq_queue *q = make_queue(devices[stays], HCQ_COMPUTE);
        CHECK_INDEX(record_spin(q, &g, 0), 0);
        hcq_buffer part = hcq_view(ends[stays], stays ? 4096 : 0, 4000); /* registered at once */
        CHECK_INDEX(hcq_queue_fill(q, part, 4000, 0x01020304, 4), 1);
        CHECK_INDEX(hcq_queue_copy(q, words, part, 4000), 2);
        CHECK_INDEX(record_add(q, make_add(devices[stays]), ends[stays], 9, 1), 3);
        hcq_point done = submit_of(q, devices[stays]);
        gate_until_begun(&g, 0);
        CHECK_OK(hcq_free(ends[goes]));
        CHECK_OK(hcq_trim(devices[goes], 0));
        CHECK_U64(mocked ? stats_now().registered != 0 : 1, 1);
        gate_let(&g, 0);
        WAIT_OK(done);
        CHECK_U64(memory[(stays ? 1001 : 0) + 9], stays ? 1 : 0x01020305);
        CHECK_U64(READ32(words, 999), 0x01020304);
        CHECK_OK(hcq_free(ends[stays]));
        CHECK_OK(hcq_trim(devices[stays], 0));
        settle(T.dev);
        settle(T.dev2);
        CHECK_U64(stats_now().registered, 0);
        hcq_queue_destroy(q);
        free(memory);
    }
}

/* Where the driver cannot register memory, or shall not. */
static void imports_are_refused(void **state) {
    (void)state;
    static unsigned char bytes[4096];
    hcq_device *device = device_with(HCQ_CUDA_NO_IMPORT, 1, 1);
    hcq_buffer buffer;
    CHECK(!has_feature(device, HCQ_FEATURE_IMPORT));
    CHECK_RESULT(hcq_import(device, bytes, sizeof bytes, &buffer), HCQ_ERROR_UNSUPPORTED);
    use_device(device);
    CHECK_OK(hcq_close(device));
}

#define MEMORY_TESTS                                                               \
    TEST(fills_of_all_kinds), TEST(copies_of_all_alignments),                      \
    TEST_ALONE(large_copies_and_fills), TEST(host_visible_memory),                 \
    TEST(pinned_copies_are_not_staged), TEST(zeroed_memory_is_zero),               \
    TEST(freeing_never_waits), TEST(freed_memory_is_not_reused_early),             \
    TEST_ALONE(memory_runs_out), TEST_ALONE(pools_and_no_pools),                   \
    TEST(imports_of_any_range), TEST(imports_that_overlap), TEST(imports_that_share_a_page), \
    TEST(imports_are_refused),
