/* Eager calls beside work that is held back: a copyin never blocks there, on
   whatever memory, as long as staging has room; calls of other threads do not
   stand in each other's way. Part of conformance.c. */
#include "shared.h"

/* Memory of each kind; HCQ_ERROR_UNSUPPORTED: there is none of that. */
enum { EAGER_PLAIN, EAGER_VISIBLE, EAGER_IMPORTED, EAGER_KINDS };

static hcq_result eager_memory(hcq_device *device, int kind, uint32_t size, hcq_buffer *buffer) {
    static unsigned char mine[65536];
    if (kind == EAGER_IMPORTED) {
        hcq_device_info info;
        CHECK_OK(hcq_device_info_get(device, &info));
        if (!(info.features & HCQ_FEATURE_IMPORT)) {
            return HCQ_ERROR_UNSUPPORTED;
        }
        return hcq_import(device, mine, size, buffer);
    }
    return hcq_alloc(device, size, kind == EAGER_VISIBLE ? HCQ_HOST_VISIBLE : 0, buffer);
}

static hcq_device *eager_device(uint32_t staging_bytes, uint32_t staging_count) {
    hcq_device_desc desc = test_desc();
    desc.staging_bytes = staging_bytes;
    desc.staging_count = staging_count;
    desc.timeout_ns = BOUND;           /* so that a call that waits fails */
    return test_open(0, &desc);
}

/* In order between what is held and what comes, and the source is free at once. */
static void copyin_beside_held_work(void **state) {
    (void)state;
    for (int kind = 0; kind < EAGER_KINDS; kind++) {
        hcq_device *device = eager_device(4096, 4);
        hcq_buffer buffer, seen;
        unsigned char in[5000], want[5000], old[5000];
        if (eager_memory(device, kind, sizeof in, &buffer) != HCQ_OK) {
            CHECK_OK(hcq_close(device));
            continue;
        }
        CHECK_OK(hcq_alloc(device, 2 * sizeof in, 0, &seen));
        hcq_point gate = make_gate(device), done;
        hcq_queue *before = make_queue(device, HCQ_COMPUTE), *after = make_queue(device, HCQ_COPY);
        CHECK_INDEX(hcq_queue_fill(before, buffer, sizeof in, 0x77, 1), 0);
        CHECK_INDEX(hcq_queue_copy(before, seen, buffer, sizeof in), 1);
        CHECK_INDEX(hcq_queue_copy(after, hcq_view(seen, sizeof in, 0), buffer, sizeof in), 0);
        CHECK_OK(submit_behind(before, device, &gate, NULL));
        fill_pattern(in, sizeof in, T.seed);
        memcpy(want, in, sizeof in);
        CHECK_OK(hcq_copyin(buffer, in, sizeof in));
        memset(in, 0, sizeof in);
        CHECK_OK(submit_behind(after, device, NULL, &done));
        CHECK(test_poll(done) == HCQ_TIMEOUT);
        open_gate(gate);
        WAIT_OK(done);
        memset(old, 0x77, sizeof old);
        CHECK_BYTES(hcq_view(seen, 0, sizeof in), old, sizeof in);
        CHECK_BYTES(hcq_view(seen, sizeof in, 0), want, sizeof in);
        CHECK_BYTES(buffer, want, sizeof in);
        CHECK_OK(hcq_free(buffer));
        CHECK_OK(hcq_close(device));
    }
}

/* All of a copyin or nothing: what does not fit is refused at once. */
static void copyin_beyond_staging(void **state) {
    (void)state;
    enum { BYTES = 4096, COUNT = 3 };
    for (int kind = 0; kind < EAGER_KINDS; kind++) {
        hcq_device *device = eager_device(BYTES, COUNT);
        hcq_buffer buffer;
        static unsigned char in[BYTES * COUNT + 1], zeros[BYTES * COUNT + 1];
        if (eager_memory(device, kind, sizeof in, &buffer) != HCQ_OK) {
            CHECK_OK(hcq_close(device));
            continue;
        }
        CHECK_OK(hcq_copyin(buffer, zeros, sizeof in));
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        fill_pattern(in, sizeof in, T.seed);
        for (int round = 0; round < 3; round++) {
            hcq_point gate = make_gate(device);
            CHECK_OK(submit_lists(device, &gate, NULL, 0, NULL));
            log_clear();
            CHECK_RESULT(hcq_copyin(buffer, in, sizeof in), HCQ_ERROR_LIMIT);
            CHECK(log_has("copyin of 12289 bytes"));
            CHECK_U64(test_query(device, HCQ_QUERY_HELD), 1);
            if (round == 2) {          /* the same in three parts */
                for (uint32_t i = 0; i < COUNT; i++) {
                    CHECK_OK(hcq_copyin(hcq_view(buffer, i * BYTES, BYTES), in + i * BYTES, BYTES));
                }
                CHECK_RESULT(hcq_copyin(buffer, in, 1), HCQ_ERROR_LIMIT);
            } else if (round == 1) {
                CHECK_OK(hcq_copyin(buffer, in, BYTES * COUNT));
                CHECK_RESULT(hcq_copyin(buffer, in, 1), HCQ_ERROR_LIMIT);
            }
            open_gate(gate);
            CHECK_OK(hcq_device_synchronize(device, BOUND));
            CHECK_BYTES(buffer, round ? in : zeros, BYTES * COUNT);
        }
        CHECK_OK(hcq_copyin(buffer, in, sizeof in)); /* waits for its own parts */
        CHECK_BYTES(buffer, in, sizeof in);
        CHECK_OK(hcq_free(buffer));
        CHECK_OK(hcq_close(device));
    }
}

/* Staging memory that a cycle holds for good is not waited for. */
static void copyin_behind_a_cycle(void **state) {
    (void)state;
    enum { BYTES = 4096, COUNT = 3 };
    static unsigned char in[BYTES * COUNT];
    hcq_device *device = eager_device(BYTES, COUNT);
    hcq_buffer buffer;
    if (eager_memory(device, EAGER_KINDS - 1, sizeof in, &buffer) == HCQ_OK) {
        hcq_signal s = make_signal(device, 0);
        hcq_point consumed = hcq_at(s, 1), raised = hcq_at(s, 2);
        CHECK_OK(submit_lists(device, &consumed, NULL, 0, NULL));
        CHECK_OK(submit_lists(device, NULL, &raised, 0, NULL));
        CHECK_OK(hcq_copyin(buffer, in, sizeof in));
        CHECK_RESULT(hcq_copyin(buffer, in, 1), HCQ_ERROR_LIMIT);
        CHECK_OK(hcq_signal_set(s, 1));
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(hcq_free(buffer));
    }
    CHECK_OK(hcq_close(device));
}

/* Small copies share a piece of the staging memory. */
static void small_copyins_share_staging(void **state) {
    (void)state;
    enum { N = 1000, BYTES = 65536 };
    for (int kind = 0; kind < EAGER_KINDS; kind++) {
        hcq_device *device = eager_device(BYTES, 32);
        hcq_buffer buffer;
        static uint32_t words[N];
        if (eager_memory(device, kind, sizeof words, &buffer) != HCQ_OK) {
            CHECK_OK(hcq_close(device));
            continue;
        }
        for (uint32_t round = 0; round < 2; round++) {
            hcq_point gate = make_gate(device);
            CHECK_OK(submit_lists(device, &gate, NULL, 0, NULL));
            uint64_t before = test_query(device, HCQ_QUERY_ALLOCATED_BYTES);
            for (uint32_t i = 0; i < N; i++) {
                words[i] = i * 3 + round;
                CHECK_OK(hcq_copyin(hcq_view(buffer, i * 4, 4), &words[i], 4));
            }
            CHECK(test_query(device, HCQ_QUERY_ALLOCATED_BYTES) - before <= BYTES);
            open_gate(gate);
            CHECK_BYTES(buffer, words, sizeof words);
        }
        CHECK_OK(hcq_free(buffer));
        CHECK_OK(hcq_close(device));
    }
}

typedef struct timed_call {
    pthread_t thread;
    hcq_program *program;
    hcq_buffer buffer;
    double seconds;
    hcq_result result;
    int over;
} timed_call;

static hcq_result call_add(hcq_program *add, hcq_buffer buffer, uint64_t value, double *seconds) {
    uint64_t values[2] = {value, 1};
    return hcq_program_call(add, &buffer, 1, values, 2, NULL, NULL, seconds);
}

static void *timed_call_run(void *user) {
    timed_call *c = (timed_call *)user;
    c->result = call_add(c->program, c->buffer, 1, &c->seconds);
    __atomic_store_n(&c->over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A call that waits for its end stands in nobody's way. */
static void calls_beside_a_waiting_thread(void **state) {
    (void)state;
    hcq_device_desc desc = test_desc();
    desc.timeout_ns = BOUND;           /* of the other thread: so that a failure is no hang */
    hcq_device *device = test_open(0, &desc);
    hcq_point gate = make_gate(device);
    hcq_buffer word = make_words(device, 4);
    timed_call c;
    hcq_clock clock;
    uint32_t four = 4;
    memset(&c, 0, sizeof c);
    c.program = make_add(device);
    c.buffer = word;
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(submit_lists(device, &gate, NULL, 0, NULL));
    pthread_create(&c.thread, NULL, timed_call_run, &c);
    while (test_query(device, HCQ_QUERY_HELD) < 2) {
        test_sleep_ms(1);
    }
    hcq_result called = call_add(c.program, word, 10, NULL);
    hcq_result read = hcq_device_clock(device, &clock);
    hcq_result copied = hcq_copyin(hcq_view(word, 4, 4), &four, 4);
    int over = __atomic_load_n(&c.over, __ATOMIC_SEQ_CST);
    open_gate(gate);
    pthread_join(c.thread, NULL);
    CHECK(!over);
    CHECK_OK(called);
    CHECK_OK(read);
    CHECK_OK(copied);
    CHECK_OK(c.result);
    CHECK_U64(READ32(word, 0), 11);
    CHECK_U64(READ32(word, 1), 4);
    CHECK_OK(hcq_close(device));
}

#define EAGER_TESTS \
    TEST(copyin_beside_held_work), TEST(copyin_beyond_staging), TEST(copyin_behind_a_cycle), \
    TEST(small_copyins_share_staging), TEST(calls_beside_a_waiting_thread)
