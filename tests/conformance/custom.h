/* custom.h - commands of a type of the user's own. Part of conformance.c. */
#include "shared.h"

static const hcq_custom_type custom_elsewhere = {
    "elsewhere", 4, {{"OTHER", custom_poke}}, {{0, 0}}, NULL};

static void custom_commands(TEST_ARGS) {
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        custom_payload p = {a.address, 11, 1234};
        hcq_command c;
        CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 0);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 4, 4), a, 4), 1);
        CHECK_OK(hcq_queue_command(q, 0, &c));
        CHECK(c.kind == HCQ_COMMAND_CUSTOM && c.type == &custom_type);
        CHECK(c.args_size == sizeof p && memcmp(c.args, &p, sizeof p) == 0);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        p.value = 0;                   /* was copied */
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_U64(READ32(a, 1), 11);
        for (uint32_t i = 0; i < 20; i++) {
            p.value = 20 + i;
            p.fixed = 99;              /* outside of the updatable range: refused */
            CHECK_RESULT(hcq_queue_update_custom(q, 0, &p), HCQ_ERROR_INVALID);
            p.fixed = 1234;
            CHECK_OK(hcq_queue_update_custom(q, 0, &p));
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            CHECK_U64(READ32(a, 1), 20 + i);
        }
        hcq_queue_destroy(q);
        q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_custom(q, &custom_elsewhere, &p), HCQ_ERROR_UNSUPPORTED);
    }
}

/* An error of the function fails its submission, and nothing else. */
static void custom_command_fails(TEST_ARGS) {
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        custom_payload p = {a.address, 666, 1234};
        hcq_point done;
        hcq_error_info error;
        (void)hcq_device_error(T.dev, &error);
        CHECK_OK(hcq_queue_label(q, "customs"));
        CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 0);
        CHECK_INDEX(hcq_queue_write(q, hcq_view(a, 4, 4), 1, 4), 1);
        CHECK_OK(bound ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_RESULT(done, HCQ_ERROR_HOST);
        CHECK_U64(READ32(a, 1), 0);
        CHECK_OK(hcq_device_error(T.dev, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_HOST);
        CHECK(strcmp(error.queue, "customs") == 0 && error.command == 0);
        p.value = 5;
        CHECK_OK(hcq_queue_update_custom(q, 0, &p));
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK_U64(READ32(a, 0), 5);
        CHECK_U64(READ32(a, 1), 1);
        hcq_queue_destroy(q);
    }
}

/* What an encode function calls of hcq, and what that answered. */
static struct {
    hcq_device *dev;
    hcq_queue *other;                  /* copy queue: adds nothing to the lane */
    hcq_buffer word;
    hcq_signal signal;
    uint32_t calls;
    hcq_result waited, polled, queried, set, submitted, copied;
} custom_calls;

static hcq_result custom_calls_hcq(void) {
    uint64_t value = 0;
    hcq_point far = hcq_at(custom_calls.signal, 1000000);
    custom_calls.calls++;
    custom_calls.waited = hcq_wait(&far, 1, HCQ_ALL, HCQ_FOREVER);
    custom_calls.polled = hcq_wait(&far, 1, HCQ_ALL, 0);
    custom_calls.queried = hcq_device_query(custom_calls.dev, HCQ_QUERY_PENDING, &value);
    custom_calls.set = hcq_signal_set(custom_calls.signal, custom_calls.calls);
    custom_calls.submitted = hcq_queue_submit(custom_calls.other, custom_calls.dev, NULL);
    custom_calls.copied = hcq_copyin(custom_calls.word, &value, 4);
    return HCQ_OK;
}

static hcq_result custom_calls_cpu(void *native, const void *payload, void *user) {
    (void)native;
    (void)payload;
    (void)user;
    return custom_calls_hcq();
}

static const hcq_custom_type custom_calls_type = {
    "calls", 4, {{"CPU", custom_calls_cpu}, {"MOCK", custom_calls_cpu},
                 {"TRACE", custom_calls_cpu}, TEST_GPU_ENCODE(custom_calls_cpu)},
    {{0, 0}}, NULL};

/* Without locks it may query, set and submit; what would block says so. */
static void custom_commands_call_hcq(TEST_ARGS) {
    enum { ROUNDS = 12 };
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer words = make_words(T.dev, 4);
    uint32_t payload = 0;
    memset(&custom_calls, 0, sizeof custom_calls);
    custom_calls.dev = T.dev;
    custom_calls.word = hcq_view(words, 12, 4);
    custom_calls.signal = make_signal(T.dev, 0);
    custom_calls.other = make_queue(T.dev, HCQ_COPY);
    alarm(60);                         /* a lock that is held hangs for good */
    CHECK_INDEX(hcq_queue_write(custom_calls.other, hcq_view(words, 4, 4), 77, 4), 0);
    CHECK_INDEX(hcq_queue_write(q, words, 1, 4), 0);
    CHECK_INDEX(hcq_queue_custom(q, &custom_calls_type, &payload), 1);
    CHECK_INDEX(hcq_queue_write(q, words, 2, 4), 2);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        hcq_point done;
        if (i == ROUNDS / 2) {
            CHECK_OK(hcq_queue_bind(q, T.dev));
        }
        uint32_t before = custom_calls.calls;
        payload = i;
        CHECK_OK(hcq_queue_update_custom(q, 1, &payload));
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        WAIT_OK(done);
        CHECK(custom_calls.calls > before); /* its payload changed */
        CHECK_RESULT(custom_calls.waited, HCQ_ERROR_WOULD_BLOCK);
        CHECK_RESULT(custom_calls.polled, HCQ_TIMEOUT);
        CHECK_OK(custom_calls.queried);
        CHECK_OK(custom_calls.set);
        CHECK_OK(custom_calls.submitted);
        CHECK_RESULT(custom_calls.copied, HCQ_ERROR_WOULD_BLOCK);
        WAIT_OK(hcq_at(custom_calls.signal, custom_calls.calls));
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(READ32(words, 0), 2);
    CHECK_U64(READ32(words, 1), 77);
    hcq_queue_destroy(q);
    hcq_queue_destroy(custom_calls.other);
}

/* ---- beside other threads ---- */

enum { CUSTOM_WRONG = 1000000 };

typedef struct custom_thread {
    pthread_t thread;
    hcq_device *dev;
    hcq_buffer words;
    uint32_t rounds, wrong;            /* wrong: the first round that was, 0 none */
} custom_thread;

/* Changes, submits and replaces a queue with two custom commands, and sees its own
   values only. */
static void *custom_thread_run(void *user) {
    custom_thread *t = (custom_thread *)user;
    hcq_queue *q = NULL;
    for (uint32_t i = 0; i < t->rounds && !t->wrong; i++) {
        custom_payload p = {t->words.address, 10 + i, 1234};
        uint32_t got[3] = {0, 0, 0};
        hcq_point done = {{0}, 0};
        hcq_buffer other;
        int right = hcq_alloc(t->dev, 4096 + i % 7 * 256, 0, &other) == HCQ_OK;
        if (!q) {
            right = right && hcq_queue_create(t->dev, HCQ_COMPUTE, &q) == HCQ_OK;
            right = right && hcq_queue_custom(q, &custom_type, &p) == 0;
            right = right && hcq_queue_copy(q, hcq_view(t->words, 4, 4), t->words, 4) == 1;
            right = right && hcq_queue_custom(q, &custom_type, &p) == 2;
            right = right && hcq_queue_copy(q, hcq_view(t->words, 8, 4), t->words, 4) == 3;
            right = right && (i % 2 || hcq_queue_bind(q, t->dev) == HCQ_OK);
        }
        right = right && hcq_queue_update_custom(q, 0, &p) == HCQ_OK;
        p.value += CUSTOM_WRONG;
        right = right && hcq_queue_update_custom(q, 2, &p) == HCQ_OK;
        right = right && hcq_queue_submit(q, t->dev, &done) == HCQ_OK;
        if (i % 5 == 4) {              /* it lives until that is done */
            hcq_queue_destroy(q);
            q = NULL;
        }
        right = right && hcq_free(other) == HCQ_OK;
        right = right && hcq_wait(&done, 1, HCQ_ALL, BOUND) == HCQ_OK;
        right = right && hcq_copyout(got, t->words, 12) == HCQ_OK;
        right = right && got[1] == 10 + i && got[2] == 10 + i + CUSTOM_WRONG;
        t->wrong = right ? 0 : i + 1;
    }
    hcq_queue_destroy(q);
    return NULL;
}

static void custom_commands_beside_others(TEST_ARGS) {
    enum { THREADS = 3 };
    custom_thread threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        custom_thread *t = &threads[i];
        memset(t, 0, sizeof *t);
        t->dev = i % 2 ? T.dev2 : T.dev;
        t->words = make_words(t->dev, 4);
        t->rounds = T.quick ? 60 : 400;
        CHECK(pthread_create(&t->thread, NULL, custom_thread_run, t) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i].thread, NULL) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_U64(threads[i].wrong, 0);
    }
}

#define CUSTOM_TESTS \
    TEST(custom_commands), TEST(custom_command_fails), TEST(custom_commands_call_hcq), \
    TEST(custom_commands_beside_others)
