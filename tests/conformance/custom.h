/* custom.h - commands of a type of the user's own: what they do. How they fail and what
   they may call is in host.h. Part of conformance.c. */
#include "shared.h"

static const hcq_custom_type custom_elsewhere = {
    "elsewhere", 4, {{"OTHER", custom_poke}}, {{0, 0}}, NULL};

static void custom_commands(TEST_ARGS) {
    for (int bound = 0; bound < 2; bound++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        hcq_buffer a = make_words(T.dev, 8);
        custom_payload p = {a.address, 11, 1234};
        CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 0);
        CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 4, 4), a, 4), 1);
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

/* ---- beside other threads ---- */

typedef struct custom_thread {
    pthread_t thread;
    hcq_device *dev;
    hcq_buffer words;
    uint32_t rounds, wrong;            /* wrong: the first round that was, 0 none */
} custom_thread;

/* Records, submits and changes queues with two custom commands, which live until that
   is done, and sees its own values only. */
static void *custom_thread_run(void *user) {
    custom_thread *t = (custom_thread *)user;
    for (uint32_t i = 0; i < t->rounds && !t->wrong; i++) {
        custom_payload p = {t->words.address, 10 + i, 1234}, later = p;
        uint32_t got[3] = {0, 0, 0};
        hcq_queue *q = NULL;
        hcq_point done = {{0}, 0};
        hcq_buffer other;
        later.value += 1000000;
        int right = hcq_alloc(t->dev, 4096 + i % 7 * 256, 0, &other) == HCQ_OK &&
                    hcq_queue_create(t->dev, HCQ_COMPUTE, &q) == HCQ_OK &&
                    hcq_queue_custom(q, &custom_type, &p) == 0 &&
                    hcq_queue_copy(q, hcq_view(t->words, 4, 4), t->words, 4) == 1 &&
                    hcq_queue_custom(q, &custom_type, &p) == 2 &&
                    hcq_queue_copy(q, hcq_view(t->words, 8, 4), t->words, 4) == 3 &&
                    (i % 2 || hcq_queue_bind(q, t->dev) == HCQ_OK) &&
                    hcq_queue_submit(q, t->dev, NULL) == HCQ_OK &&
                    hcq_queue_update_custom(q, 2, &later) == HCQ_OK &&
                    hcq_queue_submit(q, t->dev, &done) == HCQ_OK;
        hcq_queue_destroy(q);
        right = right && hcq_free(other) == HCQ_OK &&
                hcq_wait(&done, 1, HCQ_ALL, BOUND) == HCQ_OK &&
                hcq_copyout(got, t->words, 12) == HCQ_OK && got[1] == p.value &&
                got[2] == later.value;
        t->wrong = right ? 0 : i + 1;
    }
    return NULL;
}

static void custom_commands_beside_others(TEST_ARGS) {
    enum { THREADS = 3 };
    custom_thread threads[THREADS];
    memset(threads, 0, sizeof threads);
    for (uint32_t i = 0; i < THREADS; i++) {
        custom_thread *t = &threads[i];
        t->dev = i % 2 ? T.dev2 : T.dev;
        t->words = make_words(t->dev, 4);
        t->rounds = T.quick ? 60 : 400;
        CHECK(pthread_create(&t->thread, NULL, custom_thread_run, t) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i].thread, NULL) == 0);
        CHECK_U64(threads[i].wrong, 0);
    }
}

#define CUSTOM_TESTS TEST(custom_commands), TEST(custom_commands_beside_others)
