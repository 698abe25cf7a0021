/* devices.h - edges between lanes of one device, work of several devices,
   memory that one of them maps. Part of vulkan.c. */

/* Threads of this process that the core started to wait in its place. */
static uint32_t service_threads(void) {
    uint32_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *e = readdir(tasks); e; e = readdir(tasks)) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            count += fgets(name, sizeof name, file) && strncmp(name, "hcq-service", 11) == 0;
            fclose(file);
        }
    }
    closedir(tasks);
    return count;
}

/* ---- a chain over the lanes ---- */

enum { CHAIN = 100, CHAIN_WORDS = 64 };

typedef struct chain {
    hcq_buffer a, b;
    hcq_queue *compute, *copy;
    hcq_signal s;
    uint32_t model[CHAIN_WORDS];
} chain;

/* Compute adds to a and copies to b, copy brings b back to a and fills a word. */
static void chain_make(chain *c) {
    memset(c->model, 0, sizeof c->model);
    c->a = make_words(T.dev, CHAIN_WORDS);
    c->b = make_words(T.dev, CHAIN_WORDS);
    c->s = make_signal(T.dev, 0);
    c->compute = make_queue(T.dev, HCQ_COMPUTE);
    c->copy = make_queue(T.dev, HCQ_COPY);
    add_args args = {c->a.address, 3, CHAIN_WORDS};
    CHECK_INDEX(hcq_queue_exec(c->compute, make_add(T.dev), &args, sizeof args,
                               hcq_dim(CHAIN_WORDS, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_INDEX(hcq_queue_copy(c->compute, c->b, c->a, CHAIN_WORDS * 4), 1);
    CHECK_INDEX(hcq_queue_fill(c->copy, c->a, CHAIN_WORDS * 4, 0xdead, 4), 0);
    CHECK_INDEX(hcq_queue_fill(c->copy, hcq_view(c->b, 0, 4), 4, 9, 4), 1);
    CHECK_INDEX(hcq_queue_copy(c->copy, c->a, c->b, CHAIN_WORDS * 4), 2);
    CHECK_OK(hcq_queue_bind(c->compute, T.dev));
    CHECK_OK(hcq_queue_bind(c->copy, T.dev));
}

/* Submission i waits for value i of the signal and raises it to i + 1. */
static void chain_submit(chain *c, uint32_t i, hcq_point *done) {
    hcq_point wait = hcq_at(c->s, i), signal = hcq_at(c->s, i + 1);
    hcq_submission s;
    memset(&s, 0, sizeof s);
    s.waits = &wait;
    s.wait_count = i > 0;
    s.queues = i % 2 ? &c->copy : &c->compute;
    s.queue_count = 1;
    s.signals = &signal;
    s.signal_count = 1;
    CHECK_OK(hcq_submit(T.dev, &s, 1, done));
    for (uint32_t k = 0; i % 2 == 0 && k < CHAIN_WORDS; k++) {
        c->model[k] += 3;
    }
    if (i % 2) {
        c->model[0] = 9;
    }
}

/* All edges are the queues': the submits hand everything over, and no thread has
   to look on. */
static void edges_of_lanes_are_native(void **state) {
    (void)state;
    chain c;
    hcq_point done = {{0}, 0};
    if (T.variant->narrow) {
        SKIP("counters that are swapped hold work back");
        return;
    }
    chain_make(&c);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    uint32_t threads = service_threads();
    counts before = counts_now(T.dev);
    for (uint32_t i = 0; i < CHAIN; i++) {
        chain_submit(&c, i, &done);
        CHECK_U64(counts_since(T.dev, &before).batches, i + 1);
    }
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
    WAIT_OK(done);
    counts all = counts_since(T.dev, &before);
    CHECK_U64(all.batches, CHAIN);
    CHECK_U64(all.recorded, 0);
    CHECK(T.variant->one_fifo ? all.waits == 0 : all.waits <= CHAIN - 1);
    CHECK_U64(service_threads(), threads);
    CHECK_BYTES(c.a, c.model, sizeof c.model);
}

/* Held by the host at its beginning: the call that lets go hands all over. */
static void edges_are_native_when_released(void **state) {
    (void)state;
    chain c;
    hcq_point done = {{0}, 0};
    if (T.variant->narrow) {
        SKIP("counters that are swapped hold work back");
        return;
    }
    chain_make(&c);
    hcq_signal gate = make_signal(T.dev, 0);
    hcq_point shut = hcq_at(gate, 1), first = hcq_at(c.s, 1);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    uint32_t threads = service_threads();
    counts before = counts_now(T.dev);
    CHECK_OK(submit_lists(T.dev, &shut, &first, HCQ_UNORDERED, NULL));
    for (uint32_t i = 1; i <= CHAIN; i++) {
        hcq_submission s;
        hcq_point wait = hcq_at(c.s, i), signal = hcq_at(c.s, i + 1);
        memset(&s, 0, sizeof s);
        s.waits = &wait;
        s.wait_count = 1;
        s.signals = &signal;
        s.signal_count = 1;
        s.affinity = i;
        hcq_queue *q = make_queue(T.dev, i % 2 ? HCQ_COPY : HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_copy(q, i % 2 ? c.b : c.a, i % 2 ? c.a : c.b, CHAIN_WORDS * 4), 0);
        CHECK_INDEX(hcq_queue_fill(q, hcq_view(i % 2 ? c.b : c.a, 0, 4), 4, i, 4), 1);
        s.queues = &q;
        s.queue_count = 1;
        CHECK_OK(hcq_submit(T.dev, &s, 1, &done));
        hcq_queue_destroy(q);
    }
    CHECK_U64(counts_since(T.dev, &before).batches, 0);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), CHAIN + 1);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(gate, 1));
    CHECK(counts_since(T.dev, &before).batches >= CHAIN);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_HELD), 0);
    WAIT_OK(done);
    CHECK_U64(service_threads(), threads);
    CHECK_U64(READ32(c.a, 0), CHAIN);
}

/* ---- with the CPU, and with another device of Vulkan ---- */

static void vulkan_and_cpu_take_turns(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu();
    play(T.dev, cpu);
    if (has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        play(cpu, T.dev);
    }
    CHECK_OK(hcq_close(cpu));
}

static void two_devices_take_turns(void **state) {
    (void)state;
    if (!has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        SKIP("memory cannot be imported");
        return;
    }
    hcq_device *three = device_with(HCQ_VULKAN_NO_SYNC2, 0);
    play(T.dev, T.dev2);
    play(T.dev2, T.dev);
    play(three, T.dev);
    CHECK_OK(hcq_close(three));
}

/* A kernel on the CPU, a copy, a kernel on Vulkan, and back, in one graph. */
static void graph_over(hcq_device *first, hcq_device *second) {
    enum { N = 8192, TIMES = 5 };
    static uint32_t model[N];
    hcq_buffer a = make_words(first, N), b = make_words(second, N), c = make_words(first, N);
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH);
    hcq_program *add1 = make_add(first), *add2 = make_add(second);
    add_args one = {a.address, 5, N}, two = {b.address, 7, N}, three = {c.address, 1, N};
    hcq_point done;
    hcq_dims grid = hcq_dim(N / 64, 1, 1), block = hcq_dim(64, 1, 1);
    memset(model, 0, sizeof model);
    CHECK_INDEX(hcq_queue_exec(g, add1, &one, sizeof one, grid, block), 0);
    CHECK_INDEX(hcq_queue_copy(g, b, a, N * 4), 1);
    CHECK_INDEX(hcq_queue_exec(g, add2, &two, sizeof two, grid, block), 2);
    CHECK_INDEX(hcq_queue_copy(g, c, b, N * 4), 3);
    CHECK_INDEX(hcq_queue_exec(g, add1, &three, sizeof three, grid, block), 4);
    CHECK_INDEX(hcq_queue_copy(g, a, c, N * 4), 5);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    for (uint32_t k = 0; k < TIMES; k++) {
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        for (uint32_t i = 0; i < N; i++) {
            model[i] += 5 + 7 + 1;
        }
    }
    WAIT_OK(done);
    CHECK_BYTES(a, model, sizeof model);
    CHECK_BYTES(c, model, sizeof model);
    hcq_queue_destroy(g);
}

static void graphs_with_the_cpu(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu();
    graph_over(cpu, T.dev);
    graph_over(T.dev, cpu);
    CHECK_OK(hcq_close(cpu));
}

/* hcq_transfer between all sorts of ends, against host arrays. */
static void transfers_with_the_cpu(void **state) {
    (void)state;
    enum { BYTES = 300000, ENDS = 4 };
    hcq_device *cpu = open_cpu();
    hcq_device *devices[ENDS] = {cpu, T.dev, T.dev2, cpu};
    hcq_buffer buffers[ENDS];
    uint64_t random = T.seed;
    unsigned char *model[ENDS];
    for (uint32_t i = 0; i < ENDS; i++) {
        CHECK_OK(hcq_alloc(devices[i], BYTES, HCQ_ZEROED, &buffers[i]));
        model[i] = (unsigned char *)calloc(1, BYTES);
        for (uint32_t k = 0; k < BYTES; k++) {
            model[i][k] = (unsigned char)test_random(&random);
        }
        CHECK_OK(hcq_copyin(buffers[i], model[i], BYTES));
    }
    for (uint32_t k = 0; k < 80; k++) {
        uint64_t dst = test_random(&random) % ENDS, src = (dst + 1 + k % (ENDS - 1)) % ENDS;
        uint64_t size = 1 + test_random(&random) % (k % 4 ? 1000 : BYTES / 2);
        uint64_t to = test_random(&random) % (BYTES - size);
        uint64_t from = test_random(&random) % (BYTES - size);
        hcq_buffer there = hcq_view(buffers[dst], to, size);
        hcq_buffer here = hcq_view(buffers[src], from, size);
        CHECK_OK(hcq_transfer(hcq_transfer_device(there), hcq_transfer_device(here), size, 0,
                              BOUND));
        memcpy(model[dst] + to, model[src] + from, size);
    }
    for (uint32_t i = 0; i < ENDS; i++) {
        CHECK_BYTES(buffers[i], model[i], BYTES);
        free(model[i]);
    }
    CHECK_OK(hcq_close(cpu));
}

/* ---- mapped memory ---- */

enum { MAPPED_WORDS = 20000 };

/* `device` adds 1 to memory of another device, n words; the model is the caller's. */
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

/* Copies from `owner` to `mapper` run on the mapper, which maps; all orders of
   freeing: mapped memory first or last, while the work runs or after. */
static void mapped_and_freed(hcq_device *owner, hcq_device *mapper) {
    for (uint32_t order = 0; order < 8; order++) {
        hcq_buffer src = make_words(owner, MAPPED_WORDS), dst = make_words(mapper, MAPPED_WORDS);
        fill_words(src, order * 1000);
        hcq_queue *q = mapped_copy(mapper, dst, src);
        hcq_point done;
        CHECK_OK(hcq_queue_submit(q, mapper, &done));
        CHECK_OK(hcq_queue_submit(q, mapper, &done));
        if (order & 1) {
            WAIT_OK(done);
            CHECK_U64(READ32(dst, MAPPED_WORDS - 1), order * 1000 + MAPPED_WORDS - 1);
        }
        if (order & 2) {
            hcq_queue_destroy(q);
        }
        CHECK_OK(hcq_free(order & 4 ? dst : src));
        CHECK_OK(hcq_trim(owner, 0));
        CHECK_OK(hcq_trim(mapper, 0));
        if (!(order & 2)) {
            CHECK_RESULT(hcq_queue_submit(q, mapper, NULL), HCQ_ERROR_CLOSED);
            hcq_queue_destroy(q);
        }
        WAIT_OK(done);
        if (!(order & 4)) {
            CHECK_U64(READ32(dst, 5), order * 1000 + 5);
        }
        CHECK_OK(hcq_free(order & 4 ? src : dst));
    }
    CHECK_OK(hcq_trim(owner, 0));
    CHECK_OK(hcq_trim(mapper, 0));
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

static void mapped_memory_is_freed_in_all_orders(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu();
    hcq_device *pairs[4][2] = {{cpu, T.dev}, {T.dev, cpu}, {T.dev, T.dev2}, {T.dev2, T.dev}};
    uint32_t done = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t blocks = COUNT(T.dev, BLOCKS);
        if (can_map(pairs[i][0], pairs[i][1])) {
            mapped_and_freed(pairs[i][0], pairs[i][1]);
            CHECK(COUNT(T.dev, BLOCKS) <= blocks + 2); /* no import is left */
            done++;
        }
    }
    CHECK(has_feature(T.dev, HCQ_FEATURE_MAP) ? done == 4 : done <= 4);
    CHECK_OK(hcq_close(cpu));
}

/* The owner goes, or the mapper, while the other lives on with the memory mapped. */
static void close_while_mapped(int cpu_owns, int owner_first) {
    hcq_device *cpu = open_cpu(), *vulkan = device_with(0, 0);
    hcq_device *owner = cpu_owns ? cpu : vulkan, *mapper = cpu_owns ? vulkan : cpu;
    if (!can_map(owner, mapper)) {
        CHECK_OK(hcq_close(cpu));
        CHECK_OK(hcq_close(vulkan));
        return;
    }
    hcq_buffer src = make_words(owner, MAPPED_WORDS), dst = make_words(mapper, MAPPED_WORDS);
    fill_words(src, 3);
    hcq_queue *q = mapped_copy(mapper, dst, src);
    hcq_point done;
    CHECK_OK(hcq_queue_submit(q, mapper, &done));
    WAIT_OK(done);
    if (owner_first) {
        CHECK_OK(hcq_close(owner));
        CHECK_RESULT(hcq_queue_submit(q, mapper, NULL), HCQ_ERROR_CLOSED);
        CHECK_U64(READ32(dst, 9), 12);
        CHECK_OK(hcq_close(mapper));
        return;
    }
    CHECK_OK(hcq_close(mapper));
    CHECK_U64(READ32(src, 9), 12);
    CHECK_OK(hcq_free(src));
    CHECK_OK(hcq_close(owner));
}

static void devices_close_while_mapped(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        close_while_mapped(i & 1, i >> 1);
    }
    if (!has_feature(T.dev, HCQ_FEATURE_MAP)) {
        return;
    }
    hcq_device *other = device_with(0, 0);
    hcq_buffer mine = make_words(T.dev, MAPPED_WORDS), its = make_words(other, MAPPED_WORDS);
    hcq_queue *there = mapped_copy(T.dev, mine, its), *back = mapped_copy(other, its, mine);
    hcq_point done;
    fill_words(its, 40);
    submit_and_wait(there, T.dev);
    CHECK_OK(hcq_queue_submit(back, other, &done));
    CHECK_OK(hcq_close(other));        /* both map memory of each other */
    CHECK_RESULT(hcq_queue_submit(there, T.dev, NULL), HCQ_ERROR_CLOSED);
    CHECK_U64(READ32(mine, 2), 42);
}

#define DEVICE_TESTS                                                               \
    TEST(edges_of_lanes_are_native), TEST(edges_are_native_when_released),         \
    TEST(vulkan_and_cpu_take_turns), TEST(two_devices_take_turns),                 \
    TEST(graphs_with_the_cpu), TEST(transfers_with_the_cpu),                       \
    TEST(mapped_memory_is_freed_in_all_orders), TEST(devices_close_while_mapped),
