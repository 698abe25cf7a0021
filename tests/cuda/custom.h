/* custom.h - commands of an application's own between hcq's. Part of cuda.c. */

typedef struct set_payload {
    uint64_t dst;
    uint32_t value, count;
} set_payload;

static struct {
    uint32_t calls;                    /* atomic, of the encode functions below */
    uint32_t fail_at;                  /* this call reports an error */
    int wrong;                         /* a context or stream was not as promised */
    hcq_device *dev;                   /* for hcq calls from within */
    hcq_signal signal;
    hcq_result would_block, set, submitted, queried;
    hcq_queue *queue;
} C;

/* Fills words by a call of the application's own on hcq's stream. */
static hcq_result encode_set(void *native, const void *payload, void *user) {
    const hcq_cuda_encoder *e = (const hcq_cuda_encoder *)native;
    const set_payload *p = (const set_payload *)payload;
    raw_context current = NULL;
    (void)user;
    uint32_t call = __atomic_add_fetch(&C.calls, 1, __ATOMIC_SEQ_CST);
    if (R.cuCtxGetCurrent(&current) != 0 || current != e->context || e->stream == NULL) {
        C.wrong = 1;
    }
    if (call == C.fail_at) {
        return HCQ_ERROR_INVALID;
    }
    return R.cuMemsetD32Async(p->dst, p->value, p->count, e->stream) == 0 ? HCQ_OK
                                                                          : HCQ_ERROR_NATIVE;
}

static const hcq_custom_type set_type = {
    "set", sizeof(set_payload), {{"CUDA", encode_set}}, {{0, 0}}, NULL
};

static void custom_begin(hcq_device *device) {
    memset(&C, 0, sizeof C);
    raw_load(device);
}

/* add, set, add, fill, set, add: the sets take away what came before. */
enum { CUSTOM_WORDS = 8 };

static hcq_queue *custom_queue(hcq_device *device, hcq_buffer words, uint32_t first) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_program *add = make_add(device);
    set_payload set = {words.address, first, 4};
    CHECK_INDEX(record_add(q, add, words, 0, 100), 0);
    CHECK_INDEX(record_add(q, add, words, 5, 1), 1);
    CHECK_INDEX(hcq_queue_custom(q, &set_type, &set), 2);
    CHECK_INDEX(record_add(q, add, words, 0, 1), 3);
    CHECK_INDEX(record_add(q, add, words, 1, 2), 4);
    set.dst += 8;
    set.value = 50;
    set.count = 1;
    CHECK_INDEX(hcq_queue_custom(q, &set_type, &set), 5);
    CHECK_INDEX(record_add(q, add, words, 2, 3), 6);
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(words, 24, 8), words, 8), 7);
    return q;
}

static void check_custom(hcq_buffer words, uint32_t first, uint32_t times) {
    const uint32_t want[CUSTOM_WORDS] = {first + 1, first + 2, 53, first, 0, times,
                                         first + 1, first + 2};
    CHECK_BYTES(words, want, sizeof want);
}

static void customs_keep_their_place(void **state) {
    (void)state;
    custom_begin(T.dev);
    hcq_buffer words = make_words(T.dev, CUSTOM_WORDS);
    hcq_queue *q = custom_queue(T.dev, words, 7);
    hcq_point done = {{0}, 0};
    for (uint32_t bound = 0; bound < 2; bound++) {
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        for (uint32_t i = 0; i < 20; i++) {
            done = submit_of(q, T.dev);
        }
        WAIT_OK(done);
        check_custom(words, 7, 20 + bound * 20);
    }
    CHECK_U64(C.calls, 80);            /* each turn of each */
    CHECK(!C.wrong);
    hcq_queue_destroy(q);
}

/* A changed payload is of the next submission, and of no earlier one. */
static void custom_payloads_change(void **state) {
    (void)state;
    enum { TIMES = 24 };
    custom_begin(T.dev);
    hcq_buffer words = make_words(T.dev, CUSTOM_WORDS), seen = make_words(T.dev, TIMES);
    hcq_queue *q = custom_queue(T.dev, words, 1);
    uint32_t want[TIMES];
    hcq_point done = {{0}, 0};
    gates g;
    gates_open(&g, T.dev);
    CHECK_INDEX(hcq_queue_copy(q, seen, words, 4), 8);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    (void)submit_spin(&g, 0, 0);
    for (uint32_t i = 0; i < TIMES; i++) {
        set_payload set = {words.address, 1000 + i, 4};
        hcq_buffer to = hcq_view(seen, i * 4, 4);
        CHECK_OK(hcq_queue_update_custom(q, 2, &set));
        CHECK_OK(hcq_queue_update_copy(q, 8, &to, NULL, HCQ_KEEP));
        if (i == 1) {                  /* no more versions are there while it spins */
            gate_let(&g, 0);
        }
        done = submit_of(q, T.dev);
        want[i] = 1001 + i;
    }
    WAIT_OK(done);
    CHECK_BYTES(seen, want, sizeof want);
    CHECK(!C.wrong);
    hcq_queue_destroy(q);
}

/* What an encode function reports fails its submission from there on. */
static void customs_that_fail(void **state) {
    (void)state;
    for (uint32_t bound = 0; bound < 2; bound++) {
        custom_begin(T.dev);
        hcq_buffer words = make_words(T.dev, CUSTOM_WORDS);
        hcq_queue *q = custom_queue(T.dev, words, 7);
        hcq_signal s = make_signal(T.dev, 0);
        hcq_error_info error;
        CHECK_OK(hcq_queue_label(q, "customs"));
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 8);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        C.fail_at = 2;
        hcq_point done = submit_of(q, T.dev);
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        WAIT_RESULT(hcq_at(s, 1), HCQ_ERROR_HOST);
        CHECK_OK(hcq_device_error(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "customs") == 0 && error.command == 5);
        settle(T.dev);
        CHECK_U64(READ32(words, 2), 7); /* neither set nor added to */
        C.fail_at = 0;
        hcq_queue *next = custom_queue(T.dev, words, 9);
        submit_and_wait(next, T.dev);  /* the lane goes on */
        check_custom(words, 9, 2);
        hcq_queue_destroy(q);
        hcq_queue_destroy(next);
    }
}

/* Calls of hcq from within: what may block answers so, all else works. */
static hcq_result encode_calls(void *native, const void *payload, void *user) {
    uint64_t value;
    hcq_point done;
    (void)native;
    (void)payload;
    (void)user;
    C.calls++;
    hcq_point far = hcq_at(C.signal, 1000000);
    C.would_block = hcq_wait(&far, 1, HCQ_ALL, HCQ_FOREVER);
    C.set = hcq_signal_set(C.signal, C.calls);
    C.queried = hcq_device_query(C.dev, HCQ_QUERY_PENDING, &value);
    C.submitted = hcq_queue_submit(C.queue, C.dev, &done);
    return HCQ_OK;
}

static const hcq_custom_type call_type = {
    "calls", 0, {{"CUDA", encode_calls}}, {{0, 0}}, NULL
};

static void customs_call_hcq(void **state) {
    (void)state;
    custom_begin(T.dev);
    hcq_buffer words = make_words(T.dev, 4);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    C.dev = T.dev;
    C.signal = make_signal(T.dev, 0);
    C.queue = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_write(C.queue, hcq_view(words, 4, 4), 77, 4), 0);
    CHECK_INDEX(hcq_queue_write(q, words, 1, 4), 0);
    CHECK_INDEX(hcq_queue_custom(q, &call_type, NULL), 1);
    CHECK_INDEX(hcq_queue_write(q, words, 2, 4), 2);
    for (uint32_t i = 0; i < 10; i++) {
        if (i == 5) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        submit_and_wait(q, T.dev);
        CHECK_U64(C.calls, i + 1);
        CHECK_RESULT(C.would_block, HCQ_ERROR_WOULD_BLOCK);
        CHECK_OK(C.set);
        CHECK_OK(C.queried);
        CHECK_OK(C.submitted);
        WAIT_OK(hcq_at(C.signal, i + 1));
    }
    settle(T.dev);
    CHECK_U64(READ32(words, 0), 2);
    CHECK_U64(READ32(words, 1), 77);
    hcq_queue_destroy(q);
    hcq_queue_destroy(C.queue);
}

/* In a copy queue, too, and in a graph, with what it reads and writes. */
static void customs_elsewhere(void **state) {
    (void)state;
    custom_begin(T.dev);
    hcq_buffer words = make_words(T.dev, CUSTOM_WORDS), other = make_words(T.dev, CUSTOM_WORDS);
    set_payload set = {words.address, 6, 4};
    hcq_queue *copy = make_queue(T.dev, HCQ_COPY), *graph = make_queue(T.dev, HCQ_GRAPH);
    hcq_queue *const both[2] = {copy, graph};
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_INDEX(hcq_queue_fill(both[i], words, 32, 1, 4), 0);
        CHECK_INDEX(hcq_queue_custom(both[i], &set_type, &set), 1);
        CHECK_INDEX(hcq_queue_copy(both[i], other, words, 32), 2);
    }
    CHECK_OK(hcq_queue_access(graph, 1, hcq_view(words, 0, 16), HCQ_ARG_OUT));
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t want[CUSTOM_WORDS] = {6, 6, 6, 6, 1, 1, 1, 1};
        for (uint32_t k = 0; k < 3; k++) {
            CHECK_OK(hcq_copyin(other, set_type.label, 4));
            submit_and_wait(both[i], T.dev);
            CHECK_BYTES(other, want, sizeof want);
        }
    }
    CHECK_U64(C.calls, 6);
    CHECK(!C.wrong);
    hcq_queue_destroy(copy);
    hcq_queue_destroy(graph);
}

#define CUSTOM_TESTS                                                               \
    TEST(customs_keep_their_place), TEST(custom_payloads_change),                  \
    TEST(customs_that_fail), TEST(customs_call_hcq), TEST(customs_elsewhere),
