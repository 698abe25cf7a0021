/* flat.c - a process that submits for ever needs no more memory than at first.

   flat [VARIANT] [SEED] [--submissions N] [--quick]

   Each pattern runs N submissions in ten parts. After the second part (caches,
   pools and rings are warm by then) neither the process nor what the library
   took through the user's memory hooks may grow, and nothing is left pending:
   work that nobody signals and nobody waits for is cleaned up, too. Patterns that
   allocate nothing at all are core/alloc.c's. */
#include "random.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum {
    PARTS = 10,
    WARM_PARTS = 2,
    GROWTH_BYTES = 2 << 20,            /* of what hooks gave: 60 of each submission */
    GROWTH_PAGES = 4 << 20,            /* of the process: a busy machine's backlog is seen late */
    GROWTH_BLOCKS = 512,               /* a backend's pool may meet a new peak */
    BURST = 500,                       /* submissions of a pattern's turn */
    INFLIGHT = 64                      /* of a lane: so much is needed at once, no more */
};

static uint64_t submissions_wanted;    /* of each pattern; 0 = the default */

static uint64_t submissions(void) {
    if (submissions_wanted) {
        return submissions_wanted;
    }
    return T.quick ? 40000 : TEST_SANITIZED ? 20000 : 100000;
}

/* Of the process, without what malloc only keeps. */
static uint64_t resident_bytes(void) {
    unsigned long long size = 0, resident = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK(fscanf(file, "%llu %llu", &size, &resident) == 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What a pattern works with. */
typedef struct bench {
    hcq_queue *queue, *bad;
    hcq_buffer word;
    hcq_signal gate, never;
    uint64_t opened;
    uint32_t called;                   /* atomic */
} bench;

static hcq_result step_fails(void *user) {
    (void)user;
    return HCQ_ERROR_HOST;
}

static void step_noted(void *user, hcq_result result) {
    bench *b = (bench *)user;
    (void)result;
    __atomic_add_fetch(&b->called, 1, __ATOMIC_RELAXED);
}

/* ---- patterns: one burst; everything it started is done or released ---- */

/* Every submission a recording of its own. */
static void recorded_anew(bench *b) {
    for (int i = 0; i < BURST; i++) {
        hcq_queue *q = make_queue(T.dev, i % 2 ? HCQ_COMPUTE : HCQ_COPY);
        CHECK_INDEX(record_word(q, b->word, (uint64_t)i, 4), 0);
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        hcq_queue_destroy(q);
    }
}

/* A fresh signal each time, destroyed while its raise is pending. */
static void with_fresh_signals(bench *b) {
    for (int i = 0; i < BURST; i++) {
        hcq_signal s = make_signal(T.dev, 0);
        hcq_point raise = hcq_at(s, 1);
        CHECK_OK(submit_lists(T.dev, NULL, &raise, 0, NULL));
        CHECK_OK(submit_lists(dev2(), &raise, NULL, 0, NULL));
        CHECK_OK(hcq_signal_destroy(s));
    }
    (void)b;
}

static void held_then_released(bench *b) {
    hcq_point open = hcq_at(b->gate, ++b->opened), last = {{0}, 0};
    for (int i = 0; i < BURST; i++) {
        CHECK_OK(submit_lists(i % 3 ? T.dev : dev2(), &open, NULL, i % 2 ? HCQ_UNORDERED : 0,
                              &last));
    }
    CHECK_RESULT(test_poll(last), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(b->gate, b->opened));
    synchronize_both(); /* so that no turn adds to another */
}

/* Host commands that fail, followers that fail with them, a failed signal. */
static void failing(bench *b) {
    hcq_error_info error;
    for (int i = 0; i < BURST / 2; i++) {
        hcq_point failed = {{0}, 0}, after = {{0}, 0};
        CHECK_OK(hcq_queue_submit(b->bad, T.dev, &failed));
        CHECK_OK(submit_lists(dev2(), &failed, NULL, 0, &after));
        if (i % 50 == 0) {
            WAIT_RESULT(after, HCQ_ERROR_HOST);
        }
    }
    CHECK_OK(hcq_device_error_take(T.dev, &error));
    CHECK_OK(hcq_device_error_take(dev2(), &error));
    log_clear();
}

/* Notifications that run, that are taken back, and event handles. */
static void notified(bench *b) {
    for (int i = 0; i < BURST; i++) {
        hcq_point done;
        hcq_notification n, never;
        CHECK_OK(hcq_queue_submit(b->queue, T.dev, &done));
        CHECK_OK(hcq_notify(done, step_noted, b, &n));
        CHECK_OK(hcq_notify(hcq_at(b->never, 1), step_noted, b, &never));
        CHECK_OK(hcq_notify_cancel(never));
        if (i % 100 == 0) {
            intptr_t handle = -1;
            CHECK_OK(hcq_notify_handle(done, &handle, NULL));
            CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
            close((int)handle);
        }
    }
}

/* Memory that comes and goes while work that names it is pending. */
static void allocated(bench *b) {
    for (int i = 0; i < BURST / 4; i++) {
        hcq_buffer memory, later;
        hcq_point ready, done;
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_OK(hcq_alloc(T.dev, 1024u << i % 4, 0, &memory));
        CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, 4096, 0, &later, &ready));
        CHECK_INDEX(hcq_queue_wait(q, ready), 0);
        CHECK_INDEX(hcq_queue_fill(q, memory, 64, 7, 4), 1);
        CHECK_INDEX(record_word(q, later, 1, 4), 2);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        CHECK_OK(hcq_free(memory));
        CHECK_OK(hcq_free_after(later, &done, 1, NULL));
        hcq_queue_destroy(q);
    }
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND)); /* blocks are bounded by what is pending */
    (void)b;
}

/* ---- what stays ---- */

static void bench_open(bench *b) {
    *b = (bench){.word = make_words(T.dev, 1), .queue = make_queue(T.dev, HCQ_COMPUTE),
                 .bad = make_queue(T.dev, HCQ_COMPUTE), .gate = make_signal(T.dev, 0),
                 .never = make_signal(dev2(), 0)};
    CHECK_INDEX(record_add(b->queue, make_add(T.dev), b->word, 0, 1), 0);
    CHECK_INDEX(hcq_queue_host(b->bad, step_fails, NULL), 0);
}

static uint64_t both(uint32_t query) {
    return test_query(T.dev, query) + test_query(dev2(), query);
}

typedef struct size {
    uint64_t resident, blocks, bytes;  /* of the process; of the hooks */
} size;

/* All submissions are done without anybody asking for one of them. */
static size size_now(void) {
    size now;
    synchronize_both();
    CHECK_U64(both(HCQ_QUERY_PENDING), 0);
    now.resident = resident_bytes();
    now.blocks = __atomic_load_n(&T.memory.blocks, __ATOMIC_SEQ_CST);
    now.bytes = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST);
    return now;
}

typedef struct pattern {
    const char *name;
    void (*burst_fn)(bench *b);
} pattern;

static const pattern patterns[] = {
    {"recorded_anew", recorded_anew}, {"with_fresh_signals", with_fresh_signals},
    {"failing", failing}, {"notified", notified}, {"allocated", allocated},
    {"held_then_released", held_then_released},
};

static void stays_flat(void **state) {
    const pattern *p = (const pattern *)*state;
    bench b;
    size warm = {0, 0, 0}, now = {0, 0, 0};
    bench_open(&b);
    for (int part = 0; part < PARTS; part++) {
        uint64_t end = both(HCQ_QUERY_SUBMISSIONS) + submissions() / PARTS;
        while (both(HCQ_QUERY_SUBMISSIONS) < end) {
            p->burst_fn(&b);
            test_alive();
        }
        now = size_now();
        warm = part <= WARM_PARTS ? now : warm;
    }
    fprintf(stderr, "%s: resident %llu KiB, was %llu; hooks %llu blocks, %llu; %llu bytes, %llu\n",
            p->name, (unsigned long long)now.resident / 1024,
            (unsigned long long)warm.resident / 1024, (unsigned long long)now.blocks,
            (unsigned long long)warm.blocks, (unsigned long long)now.bytes,
            (unsigned long long)warm.bytes);
    CHECK(TEST_SANITIZED || now.resident < warm.resident + GROWTH_PAGES); /* shadows grow */
    CHECK(now.blocks <= warm.blocks + GROWTH_BLOCKS);
    CHECK(now.bytes < warm.bytes + GROWTH_BYTES);
}

static int flat_setup(void **state) {
    void *name = (void *)(uintptr_t)((const pattern *)*state)->name;
    int result = test_setup(&name);
    for (uint32_t i = 0; i < 2; i++) {
        hcq_device **device = i ? &T.dev2 : &T.dev;
        CHECK(!*device || hcq_close(*device) == HCQ_OK);
        *device = OPEN_WITH(i, .inflight = INFLIGHT);
    }
    return result;
}

int main(int argc, char **argv) {
    submissions_wanted = own_option(&argc, argv, "--submissions");
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct CMUnitTest one = {patterns[i].name, stays_flat, flat_setup, test_teardown,
                                 (void *)(uintptr_t)&patterns[i]};
        test_list[test_count++] = one;
    }
    return test_main(argc, argv);
}
