/* devices.h - several devices: waits between them, each other's memory, opened
   and closed from many threads. Part of cuda.c. */

static void cuda_and_cpu_take_turns(void **state) {
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
    for (uint32_t way = 0; way < 3; way++) {
        hcq_device *third = device_by(way, 1, 1);
        play(T.dev, T.dev2);
        play(T.dev2, third);
        play(third, T.dev);
        CHECK_OK(hcq_close(third));
    }
}

/* Work that waits for another device is held until that is done; no other work is. */
static void waits_between_devices_hold(void **state) {
    (void)state;
    hcq_buffer words = make_words(T.dev2, 4);
    hcq_queue *q = make_queue(T.dev2, HCQ_COMPUTE), *free_one = make_queue(T.dev2, HCQ_COPY);
    gates g;
    gates_open(&g, T.dev);
    CHECK_INDEX(hcq_queue_write(q, words, 3, 4), 0);
    CHECK_INDEX(hcq_queue_write(free_one, hcq_view(words, 8, 4), 4, 4), 0);
    settle(T.dev2);
    hcq_point first = submit_spin(&g, 0, 0);
    hcq_point done = submit_to(T.dev2, q, 0, &first, NULL);
    hcq_point other = submit_to(T.dev2, free_one, 0, NULL, NULL);
    if (test_query(T.dev2, HCQ_QUERY_COPY_LANES) > 0) {
        WAIT_OK(other);
    }
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    gate_let(&g, 0);
    WAIT_OK(done);
    WAIT_OK(other);
    CHECK_U64(READ32(words, 0), 3);
    CHECK_U64(READ32(words, 2), 4);
    hcq_queue_destroy(q);
    hcq_queue_destroy(free_one);
}

/* Exact between devices, too. */
static void waits_between_devices_are_exact(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev2, HCQ_COPY);
    gates g;
    gates_open(&g, T.dev);
    CHECK_INDEX(hcq_queue_write(q, make_words(T.dev2, 4), 3, 4), 0);
    hcq_point first = submit_spin(&g, 0, 0), second = submit_spin(&g, 1, 0);
    hcq_point done = submit_to(T.dev2, q, 0, &first, NULL);
    test_sleep_ms(2);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    gate_let(&g, 0);
    WAIT_OK(done);
    CHECK_RESULT(test_poll(second), HCQ_TIMEOUT);
    gate_let(&g, 1);
    WAIT_OK(second);
    hcq_queue_destroy(q);
}

/* ---- each other's memory ---- */

enum { PEER_WORDS = 5000 };

/* Copies between the devices, by transfers, which always work, and by a queue of one
   of them if it sees the other's memory; a kernel on it then, too. */
static void use_each_other(hcq_device *one, hcq_device *two, int sees) {
    static uint32_t model[PEER_WORDS], got[PEER_WORDS];
    hcq_buffer here = make_words(one, PEER_WORDS), there = make_words(two, PEER_WORDS);
    for (uint32_t i = 0; i < PEER_WORDS; i++) {
        model[i] = i * 2654435761u;
    }
    CHECK_OK(hcq_copyin(here, model, sizeof model));
    CHECK_OK(hcq_transfer(hcq_transfer_device(there), hcq_transfer_device(here), sizeof model, 0,
                          BOUND));
    CHECK_BYTES(there, model, sizeof model);
    hcq_queue *q = make_queue(one, HCQ_COMPUTE);
    add_args args = {there.address, 5, PEER_WORDS};
    CHECK(hcq_queue_exec(q, make_add(one), &args, sizeof args, hcq_dim(PEER_WORDS / 50, 1, 1),
                         hcq_dim(50, 1, 1)) >= 0 || !sees);
    CHECK(hcq_queue_copy(q, here, there, sizeof model) >= 0 || !sees);
    hcq_point done = {{0}, 0};
    hcq_result r = hcq_queue_submit(q, one, &done);
    CHECK(sees ? r == HCQ_OK : r < 0);
    if (sees) {
        WAIT_OK(done);
        CHECK_OK(hcq_copyout(got, here, sizeof got));
        for (uint32_t i = 0; i < PEER_WORDS; i++) {
            CHECK_U64(got[i], model[i] + 5);
        }
    }
    hcq_queue_destroy(q);
    CHECK_OK(hcq_free(there));
    CHECK_OK(hcq_free(here));
}

static hcq_device *open_number(uint32_t number) {
    hcq_device_desc desc = test_desc();
    return test_open(number, &desc);
}

static void memory_of_another_device(void **state) {
    (void)state;
    NEEDS_MOCK();
    for (uint32_t peers = 0; peers < 2; peers++) {
        mock_cuda_desc desc = mock_wanted();
        desc.devices = test_cu.devices = 3;
        desc.flags |= MOCK_CUDA_NO_PEERS;
        desc.flags ^= peers ? MOCK_CUDA_NO_PEERS : 0;
        M.setup(&desc);
        hcq_device *one = open_number(0), *two = open_number(1), *three = open_number(2);
        use_each_other(one, two, (int)peers);
        use_each_other(two, one, (int)peers);
        use_each_other(three, one, (int)peers);
        CHECK_OK(hcq_close(two));
        use_each_other(one, three, (int)peers);
        two = open_number(1);          /* in a context of its own, again */
        use_each_other(two, one, (int)peers);
        use_each_other(one, two, (int)peers);
        CHECK_OK(hcq_close(two));
        CHECK_OK(hcq_close(three));
        CHECK_OK(hcq_close(one));
        CHECK_U64(things_now(), 0);
    }
}

/* Two devices on one GPU share a context: they see each other's memory always. */
static void memory_of_the_same_device(void **state) {
    (void)state;
    hcq_device *other = device_with(0, 1, 1);
    use_each_other(T.dev, other, 1);
    use_each_other(other, T.dev, 1);
    CHECK_OK(hcq_close(other));
}

/* Peer memory is freed, and its device closed, while the work that uses it runs. */
static void freed_while_used_by_another(void **state) {
    (void)state;
    hcq_device *other = device_with(0, 1, 1);
    hcq_buffer dst = make_words(T.dev, 64);
    gates g;
    gates_open(&g, T.dev);
    for (uint32_t i = 0; i < 4; i++) {
        hcq_buffer src = make_words(other, 64);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        uint32_t word = 40 + i;
        gate_shut(&g, 0);
        CHECK_OK(hcq_copyin(hcq_view(src, 252, 4), &word, 4));
        settle(other);
        CHECK_INDEX(record_spin(q, &g, 0), 0);
        CHECK_INDEX(hcq_queue_copy(q, dst, src, 256), 1);
        hcq_point done = submit_of(q, T.dev);
        CHECK_OK(hcq_free(src));
        hcq_buffer again = make_words(other, 64); /* not the same memory yet */
        CHECK_OK(hcq_copyin(again, &word, 4));
        gate_let(&g, 0);
        WAIT_OK(done);
        CHECK_U64(READ32(dst, 63), word);
        CHECK_OK(hcq_free(again));
        hcq_queue_destroy(q);
    }
    CHECK_OK(hcq_close(other));
}

/* Adds to a word of the CPU's memory, by a copy from it and back. */
static void use_cpu_memory(hcq_device *device, hcq_buffer word, uint32_t value) {
    hcq_buffer own = make_words(device, 16);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_copy(q, own, word, 64), 0);
    CHECK_INDEX(record_add(q, make_add(device), own, 3, value), 1);
    CHECK_INDEX(hcq_queue_copy(q, word, own, 64), 2);
    submit_and_wait(q, device);
    hcq_queue_destroy(q);
}

/* Host memory that several devices see, as an import or the CPU's: each comes and goes
   as it likes. */
static void host_memory_of_all(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu(), *one = open_number(0), *two = open_number(1);
    uint32_t *pages = (uint32_t *)calloc(1024, 4);
    hcq_buffer shared, first, second;
    if (!has_feature(one, HCQ_FEATURE_IMPORT)) {
        CHECK_OK(hcq_close(one));
        CHECK_OK(hcq_close(two));
        CHECK_OK(hcq_close(cpu));
        free(pages);
        SKIP("memory cannot be imported");
        return;
    }
    CHECK_OK(hcq_alloc(cpu, 64, HCQ_ZEROED, &shared));
    CHECK_OK(hcq_import(one, pages, 4096, &first));
    CHECK_OK(hcq_import(two, pages, 4096, &second));
    use_cpu_memory(one, shared, 1);
    use_cpu_memory(two, shared, 2);
    use_cpu_memory(one, first, 3);
    CHECK_OK(hcq_close(one));
    use_cpu_memory(two, shared, 4);
    use_cpu_memory(two, second, 5);
    CHECK_OK(hcq_close(two));
    CHECK_U64(stats_now().contexts, 0);
    one = open_number(0);
    two = open_number(1);
    CHECK_OK(hcq_import(two, pages, 4096, &second));
    use_cpu_memory(one, shared, 6);
    use_cpu_memory(two, shared, 7);
    use_cpu_memory(two, second, 8);
    CHECK_U64(((const uint32_t *)shared.host)[3], 1 + 2 + 4 + 6 + 7);
    CHECK_U64(pages[3], 3 + 5 + 8);
    CHECK_OK(hcq_close(cpu));
    CHECK_OK(hcq_close(one));
    CHECK_OK(hcq_close(two));
    free(pages);
}

/* ---- opening and closing ---- */

static uint32_t busy_rounds(hcq_device *device, hcq_queue *q, uint32_t rounds) {
    uint32_t failed = 0;
    hcq_point done = {{0}, 0};
    for (uint32_t i = 0; i < rounds; i++) {
        failed += hcq_queue_submit(q, device, &done) != HCQ_OK;
        failed += hcq_wait(&done, 1, HCQ_ALL, BOUND) != HCQ_OK;
    }
    return failed;
}

static hcq_device_desc thread_desc;    /* made before the threads start */

/* In a thread of its own: opens, works, closes, a few times. */
static void *open_and_close(void *user) {
    uint32_t *failed = (uint32_t *)user;
    static const uint32_t word = 9;
    for (uint32_t i = 0; i < 3; i++) {
        hcq_device *device = NULL;
        hcq_buffer words;
        hcq_queue *q = NULL;
        uint32_t got = 0;
        if (hcq_open(i & 1 ? "CUDA:1" : "CUDA", &thread_desc, &device) != HCQ_OK ||
            hcq_alloc(device, 256, 0, &words) != HCQ_OK ||
            hcq_copyin(words, &word, 4) != HCQ_OK ||
            hcq_queue_create(device, HCQ_COMPUTE, &q) != HCQ_OK ||
            hcq_queue_copy(q, hcq_view(words, 64, 4), words, 4) < 0) {
            ++*failed;
            return NULL;
        }
        *failed += busy_rounds(device, q, 10);
        *failed += hcq_copyout(&got, hcq_view(words, 64, 4), 4) != HCQ_OK || got != word;
        *failed += hcq_close(device) != HCQ_OK;
    }
    return NULL;
}

static void devices_from_many_threads(void **state) {
    (void)state;
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    uint32_t failed[THREADS] = {0};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer words = make_words(T.dev, 4);
    CHECK_INDEX(record_add(q, make_add(T.dev), words, 0, 1), 0);
    thread_desc = test_desc();
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, open_and_close, &failed[i]) == 0);
    }
    CHECK_U64(busy_rounds(T.dev, q, 100), 0); /* while others open and close */
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_U64(failed[i], 0);
    }
    CHECK_U64(READ32(words, 0), 100);
    hcq_queue_destroy(q);
}

/* One is closed while another one's kernel runs: it does not wait for that. */
static void closed_beside_a_busy_one(void **state) {
    (void)state;
    const int apart = !T.variant->one_fifo && info_of(T.dev).pools; /* on the same GPU, too */
    for (uint32_t i = 0; i < 4; i++) {
        hcq_device *other = i & 1 && apart ? device_with(0, 1, 1) : open_number(1);
        gates g;
        gates_open(&g, T.dev);
        use_device(other);
        hcq_point done = submit_spin(&g, 0, 0);
        gate_until_begun(&g, 0);
        uint64_t before = hcq_sys_now_ns();
        CHECK_OK(hcq_close(other));
        CHECK(hcq_sys_now_ns() - before < 3 * SECOND);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        gate_let(&g, 0);
        WAIT_OK(done);
    }
}

/* A graph over both and the CPU. */
static void graph_over(hcq_device *home, hcq_device *const *devices, uint32_t count) {
    enum { N = 4096, TIMES = 4, MOST = 4 };
    static uint32_t model[N];
    hcq_buffer buffers[MOST];
    hcq_queue *g = make_queue(home, HCQ_GRAPH);
    hcq_point done = {{0}, 0};
    memset(model, 0, sizeof model);
    for (uint32_t i = 0; i < count; i++) {
        buffers[i] = make_words(devices[i], N);
    }
    for (uint32_t i = 0; i < count; i++) {
        add_args args = {buffers[i].address, 5 + i, N};
        CHECK_INDEX(hcq_queue_exec(g, make_add(devices[i]), &args, sizeof args,
                                   hcq_dim(N / 64, 1, 1), hcq_dim(64, 1, 1)), i * 2);
        CHECK_INDEX(hcq_queue_copy(g, buffers[(i + 1) % count], buffers[i], N * 4), i * 2 + 1);
    }
    CHECK_OK(hcq_queue_bind(g, home));
    for (uint32_t k = 0; k < TIMES; k++) {
        done = submit_of(g, home);
        for (uint32_t i = 0; i < N * count; i++) {
            model[i % N] += 5 + i / N;
        }
    }
    WAIT_OK(done);
    CHECK_BYTES(buffers[0], model, sizeof model);
    hcq_queue_destroy(g);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_OK(hcq_free(buffers[i]));
    }
}

static void graphs_over_devices(void **state) {
    (void)state;
    hcq_device *cpu = open_cpu();
    hcq_device *const with_cpu[2] = {T.dev, cpu}, *const both[2] = {T.dev, T.dev2};
    if (has_feature(T.dev, HCQ_FEATURE_IMPORT)) {
        graph_over(T.dev, with_cpu, 2);
        graph_over(cpu, with_cpu, 2);
    }
    if (has_feature(T.dev, HCQ_FEATURE_MAP)) {
        hcq_device *const three[3] = {T.dev2, cpu, T.dev};
        graph_over(T.dev, both, 2);
        graph_over(T.dev2, three, 3);
    }
    CHECK_OK(hcq_close(cpu));
}

#define DEVICE_TESTS                                                               \
    TEST(cuda_and_cpu_take_turns), TEST(two_devices_take_turns),                   \
    TEST(waits_between_devices_hold), TEST(waits_between_devices_are_exact),       \
    TEST_ALONE(memory_of_another_device), TEST(memory_of_the_same_device),         \
    TEST(freed_while_used_by_another), TEST_ALONE(host_memory_of_all),             \
    TEST(devices_from_many_threads),            \
    TEST(closed_beside_a_busy_one), TEST(graphs_over_devices),
