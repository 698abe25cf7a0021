/* explore.c - devices with a seed, and exploring (hcq_check.h): the same seed is the same
   run, deadlocks are proven, all schedules are all there are, those that only swap
   independent commands are one.

   explore [cpu] [--seed N]
   explore trace SEED          prints what a run with that seed did, as a number */
#ifndef HCQ_CHECK
#define HCQ_CHECK
#endif
#include "support/util.h"

enum { LANES = 6, MOST = 8 };

/* ---- what ran, in which order ---- */

static struct {
    uint32_t count;
    uint16_t ran[1024];
    uint64_t print;                    /* of all that was seen, times too */
} S;

static void seen(uint64_t what) {
    S.print = (S.print ^ what) * 1099511628211u;
}

typedef struct { uint64_t word; uint32_t id, value; } mark_args;

static void k_mark(const void *args, const hcq_block *b) {
    const mark_args *k = HCQ_ARGS(mark_args, args);
    uint32_t *word = HCQ_PTR(uint32_t, k->word);
    if (S.count < sizeof S.ran / sizeof S.ran[0]) {
        S.ran[S.count++] = (uint16_t)(k->id * 8 + b->id.x % 8);
    }
    seen(k->id * 8 + b->id.x);
    *word = *word * 31 + k->value;
}

static hcq_result open_seeded(const char *name, uint64_t seed, hcq_device **device) {
    const struct hcq_cpu_desc cpu = {.seed = seed};
    const hcq_device_desc desc = {.compute_lanes = LANES, .log_fn = test_log_line,
                                  .log_user = &T.log, .cpu = seed != 0 ? &cpu : NULL};
    return hcq_open(name, &desc, device);
}

static hcq_device *seeded(uint64_t seed) {
    hcq_device *device = NULL;
    CHECK_OK(open_seeded("CPU", seed, &device));
    return device;
}

static hcq_program *mark_of(hcq_device *device) {
    return make_kernel(device, HCQ_CPU_PROGRAM("mark", k_mark, HCQ_ARG_INOUT, HCQ_ARG_U32,
                                               HCQ_ARG_U32));
}

static void mark(hcq_queue *q, hcq_program *program, hcq_buffer word, uint32_t id) {
    mark_args args = {word.address, id, id + 1};
    CHECK(hcq_queue_exec(q, program, &args, sizeof args, dims_one, dims_one) >= 0);
}

static hcq_queue *queue_of(hcq_device *device, const char *label) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_OK(hcq_queue_label(q, label));
    return q;
}

static hcq_point put(hcq_queue *q, hcq_device *device, uint64_t lane, const hcq_point *wait,
                     const hcq_point *raise) {
    hcq_point done;
    CHECK_OK(SUBMIT(device, q, &done, .waits = wait, .wait_count = wait != NULL, .signals = raise,
                    .signal_count = raise != NULL, .affinity = lane));
    return done;
}

/* The end of a run that is explored. */
static hcq_result finished(hcq_device *device) {
    hcq_result r = hcq_device_synchronize(device, HCQ_FOREVER);
    CHECK_OK(hcq_close(device));
    return r;
}

/* ---- one seed, one run ---- */

typedef struct { hcq_queue *queue; hcq_device *device; } late_work;

static void told(void *user, hcq_result result) {
    late_work *late = (late_work *)user;
    seen(0x700 + (uint64_t)(uint32_t)result + hcq_now_ns());
    CHECK_OK(hcq_queue_submit(late->queue, late->device, NULL));
}

/* Two devices, lanes that wait for each other, grids, copies, a callback that submits. */
static uint64_t trace_of(uint64_t seed) {
    memset(&S, 0, sizeof S);
    hcq_device *device[2] = {seeded(seed), seeded(seed + 1)};
    hcq_buffer word[2] = {make_words(device[0], 64), make_words(device[1], 64)};
    late_work late = {NULL, device[0]};
    hcq_signal s = make_signal(device[0], 0);
    for (uint32_t i = 0; i < 24; i++) {
        hcq_device *dev = device[i % 2];
        hcq_queue *q = queue_of(dev, "work");
        mark_args args = {word[i % 2].address + i / 4 * 4, i, 1};
        const hcq_point wait = hcq_at(s, i / 2), raise = hcq_at(s, i);
        CHECK(hcq_queue_exec(q, mark_of(dev), &args, sizeof args, hcq_dim(1 + i % 3, 1, 1),
                             dims_one) >= 0);
        CHECK(hcq_queue_fill(q, hcq_view(word[i % 2], 128, 64), 64, i, 4) >= 0);
        (void)put(q, dev, i % LANES, i % 3 ? &wait : NULL, i % 4 == 0 && i ? &raise : NULL);
        if (i == 20) {
            late.queue = q;
            CHECK_OK(hcq_notify(hcq_at(hcq_device_timeline(dev), 3), told, &late, NULL));
        }
        if (i % 7 == 6) {
            hcq_point first = hcq_at(hcq_device_timeline(dev), 1);
            seen((uint64_t)(uint32_t)hcq_wait(&first, 1, HCQ_ALL, 50000));
            seen(hcq_now_ns());
        }
    }
    CHECK_OK(hcq_signal_set(s, 100));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(hcq_device_synchronize(device[i], HCQ_FOREVER));
        uint32_t got[64];
        CHECK_OK(hcq_copyout(got, word[i], sizeof got));
        for (int k = 0; k < 64; k++) {
            seen(got[k]);
        }
    }
    seen(hcq_now_ns());
    CHECK_OK(hcq_close(device[0]));
    CHECK_OK(hcq_close(device[1]));
    return S.print;
}

TEST_BARE(one_seed_is_one_run) {
    enum { SEEDS = 30 };
    uint64_t first[SEEDS], distinct = 0;
    for (uint64_t i = 0; i < SEEDS; i++) {
        first[i] = trace_of(T.seed * 1000 + i + 1);
        distinct += i == 0 || first[i] != first[i - 1];
    }
    for (uint64_t i = SEEDS; i-- != 0;) { /* whatever the heap looks like by now */
        CHECK_U64(trace_of(T.seed * 1000 + i + 1), first[i]);
    }
    CHECK(distinct >= SEEDS - 1);
}

/* ---- what nothing can end ---- */

TEST_BARE(deadlocks_are_proven) {
    hcq_device *device = seeded(3);
    hcq_buffer word = make_words(device, 1);
    hcq_program *program = mark_of(device);
    hcq_queue *left = queue_of(device, "left"), *right = queue_of(device, "right");
    hcq_signal s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_signal(device, 0);
        CHECK_OK(hcq_signal_label(s[i], i ? "of right" : "of left"));
    }
    hcq_point l = hcq_at(s[0], 1), r = hcq_at(s[1], 1);
    mark(left, program, word, 1);
    mark(right, program, word, 2);
    hcq_point one = put(left, device, 0, &r, &l), two = put(right, device, 1, &l, &r);
    log_clear();
    CHECK_RESULT(hcq_wait(&one, 1, HCQ_ALL, HCQ_FOREVER), HCQ_ERROR_DEADLOCK);
    CHECK(log_has("nothing can run") && log_has("'left'") && log_has("'right'"));
    CHECK(log_has("of left") && log_has("of right"));
    CHECK_RESULT(hcq_device_synchronize(device, HCQ_FOREVER), HCQ_ERROR_DEADLOCK);
    hcq_point both[2] = {one, two};
    CHECK_RESULT(hcq_wait(both, 2, HCQ_ANY, HCQ_FOREVER), HCQ_ERROR_DEADLOCK);
    uint64_t began = hcq_now_ns(), hour = (uint64_t)3600 * 1000000000;
    CHECK_RESULT(hcq_wait(&two, 1, HCQ_ALL, hour), HCQ_TIMEOUT); /* of its own clock */
    CHECK(hcq_now_ns() - began >= hour && hcq_now_ns() - began < hour + 1000000000);
    CHECK_OK(hcq_signal_set(s[1], 1));
    CHECK_OK(hcq_wait(&two, 1, HCQ_ALL, HCQ_FOREVER));
    CHECK_OK(hcq_close(device));
}

/* A wait explains itself after 5 seconds, a call without a time ends after 30. */
TEST_BARE(times_that_nobody_gave) {
    hcq_device *device = seeded(1);
    hcq_buffer word = make_words(device, 1);
    hcq_signal s = make_signal(device, 0);
    uint32_t got;
    const hcq_point never = hcq_at(s, 1);
    for (uint64_t tenths = 49; tenths <= 51; tenths += 2) {
        log_clear();
        CHECK_RESULT(hcq_wait(&never, 1, HCQ_ALL, tenths * 100000000), HCQ_TIMEOUT);
        CHECK(log_has("lasts longer than 5000 ms") == (tenths > 50));
    }
    hcq_point held = put(queue_of(device, "held"), device, 0, &never, NULL);
    const uint64_t began = hcq_now_ns();
    log_clear();
    CHECK_RESULT(hcq_copyout(&got, word, 4), HCQ_TIMEOUT);
    CHECK_U64(hcq_now_ns() - began, 30000000000);
    CHECK(log_has("copyout timed out") && log_has("'held'"));
    CHECK_OK(hcq_signal_set(s, 1));
    CHECK_OK(hcq_wait(&held, 1, HCQ_ALL, HCQ_FOREVER));
    CHECK_OK(hcq_close(device));
}

/* ---- whose they are ---- */

typedef struct {
    hcq_device *device;
    hcq_point point;
    hcq_queue *queue;
    hcq_buffer buffer;
    hcq_result got[8];
} stranger;

static void *stranger_run(void *user) {
    stranger *c = (stranger *)user;
    hcq_buffer b;
    hcq_device *device = NULL;
    c->got[0] = hcq_alloc(c->device, 16, 0, &b);
    c->got[1] = hcq_wait(&c->point, 1, HCQ_ALL, HCQ_FOREVER);
    c->got[2] = hcq_signal_set(c->point.signal, 1);
    c->got[3] = hcq_copyin(c->buffer, &b, 4);
    c->got[4] = hcq_queue_submit(c->queue, c->device, NULL);
    c->got[5] = hcq_close(c->device);
    c->got[6] = open_seeded("CPU", 1, &device);
    c->got[7] = hcq_cpu_step() ? HCQ_OK : HCQ_NOT_READY;
    return NULL;
}

static void steps(void *user, hcq_result result) {
    CHECK_OK(result);
    *(int *)user = hcq_cpu_step();
}

TEST_BARE(devices_belong_to_a_thread) {
    stranger c = {.device = seeded(1)};
    hcq_signal s = make_signal(c.device, 0);
    pthread_t thread;
    c.point = hcq_at(s, 1);
    c.queue = queue_of(c.device, "waits to run");
    c.buffer = make_words(c.device, 1);
    mark(c.queue, mark_of(c.device), c.buffer, 1);
    (void)put(c.queue, c.device, 0, NULL, NULL);
    log_clear();
    CHECK((pthread_create)(&thread, NULL, stranger_run, &c) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 6; i++) {
        CHECK_RESULT(c.got[i], HCQ_ERROR_INVALID);
    }
    CHECK_RESULT(c.got[6], HCQ_ERROR_UNSUPPORTED);
    CHECK_RESULT(c.got[7], HCQ_NOT_READY);
    CHECK(log_has("another thread has devices"));
    int got = 7;
    CHECK_OK(hcq_notify(hcq_at(s, 1), steps, &got, NULL));
    CHECK_OK(hcq_signal_set(s, 1));    /* calls it, which runs nothing */
    CHECK(got == 0);
    CHECK(hcq_cpu_step() == 1 && hcq_cpu_step() == 0);
    CHECK_OK(hcq_close(c.device));
}

TEST_BARE(seeds_and_threads_do_not_mix) {
    for (uint64_t first = 0; first < 2; first++) {
        hcq_device *one = NULL, *other = NULL;
        CHECK_OK(open_seeded("CPU", first, &one));
        log_clear();
        CHECK_RESULT(open_seeded("CPU:1", !first, &other), HCQ_ERROR_UNSUPPORTED);
        CHECK(log_has("cpu->seed: all open devices have one, or none has"));
        CHECK_OK(hcq_device_synchronize(one, HCQ_FOREVER));
        CHECK_OK(hcq_close(one));
    }
    CHECK(hcq_cpu_step() == 0);
}

/* ---- pieces ---- */

/* Each block of a grid once, each byte of what is copied and filled, in whatever parts. */
TEST_BARE(grids_and_copies_in_parts) {
    static const uint32_t blocks[] = {1, 2, 3, 4, 5, 9}, sizes[] = {8, 32, 36, 40, 64, 252};
    for (uint64_t seed = 1; seed < 12; seed++) {
        hcq_device *device = seeded(T.seed * 100 + seed);
        hcq_program *program = mark_of(device);
        hcq_buffer from = make_words(device, 64), to = make_words(device, 64);
        hcq_buffer filled = make_words(device, 64);
        uint32_t bytes[64], got[64];
        for (uint32_t i = 0; i < 64; i++) {
            bytes[i] = 0x01020304u * (i + 1);
        }
        CHECK_OK(hcq_copyin(from, bytes, sizeof bytes));
        for (uint32_t k = 0; k < 6; k++) {
            hcq_queue *q = queue_of(device, "parts");
            mark_args args = {to.address + 252, 1, 1};
            uint32_t ran[9] = {0};
            CHECK(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(blocks[k], 1, 1),
                                 dims_one) >= 0);
            CHECK(hcq_queue_fill(q, to, sizes[k], 0xabcd1234, 4) >= 0);
            CHECK(hcq_queue_fill(q, filled, sizes[k], 0xabcd1234, 4) >= 0);
            CHECK(hcq_queue_copy(q, hcq_view(to, 4, 248), hcq_view(from, 4, 248),
                                 sizes[k] - 4) >= 0);
            S.count = 0;
            (void)put(q, device, 0, NULL, NULL);
            CHECK_OK(hcq_device_synchronize(device, HCQ_FOREVER));
            CHECK_U64(S.count, blocks[k]);
            for (uint32_t i = 0; i < S.count; i++) {
                ran[S.ran[i] % 8]++;
            }
            for (uint32_t i = 0; i < blocks[k] && i < 8; i++) {
                CHECK(ran[i] == 1 || (i == 0 && blocks[k] == 9 && ran[0] == 2));
            }
            CHECK_OK(hcq_copyout(got, to, sizeof got));
            CHECK(got[0] == 0xabcd1234 && memcmp(got + 1, bytes + 1, sizes[k] - 4) == 0);
            CHECK_OK(hcq_copyout(got, filled, sizes[k]));
            for (uint32_t i = 0; i < sizes[k] / 4; i++) {
                CHECK_U64(got[i], 0xabcd1234);
            }
        }
        CHECK_OK(hcq_close(device));
    }
}

/* Commands that overlap change places, but with nothing before or behind them. */
static void overlaps(hcq_device *device, uint32_t lanes, uint32_t count, int drawn) {
    hcq_program *program = mark_of(device);
    uint32_t at[8] = {0}, distinct = 0, moved = 0;
    static uint8_t ran[8][80];
    memset(ran, 0, sizeof ran);
    S.count = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        hcq_queue *q = queue_of(device, "overlaps");
        for (uint32_t k = 0; k < count; k++) {
            mark_args args = {make_words(device, 1).address, i * 80 + k, 1};
            CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, dims_one, dims_one), k);
            if (k >= 2 && k + 1 != count) {
                CHECK_OK(hcq_queue_command_flags(q, (int32_t)k, HCQ_OVERLAP));
            }
        }
        (void)put(q, device, i, NULL, NULL);
    }
    CHECK_OK(hcq_device_synchronize(device, HCQ_FOREVER));
    CHECK_U64(S.count, lanes * count);
    for (uint32_t i = 0; i < S.count; i++) {
        uint32_t lane = S.ran[i] / 8 / 80, k = S.ran[i] / 8 % 80;
        distinct += ran[lane][k]++ == 0;
        moved += k != at[lane];
        CHECK((k != 0 || at[lane] == 0) && (k + 1 != count || at[lane] + 1 == count));
        at[lane]++;
    }
    CHECK_U64(distinct, lanes * count);
    CHECK(moved != 0 || !drawn);
}

TEST_BARE(as_many_overlap_as_change_places) {
    for (uint32_t count = 65; count <= 69; count++) { /* 64 of them between two others */
        hcq_device *device = seeded(T.seed + count);
        overlaps(device, 2, count, 1);
        CHECK_OK(hcq_close(device));
    }
}

/* More at once than are looked at: none is lost. */
TEST_BARE(pieces_beyond_those_looked_at) {
    for (uint32_t lanes = 4; lanes <= 6; lanes++) { /* of 64 */
        hcq_device *device = seeded(T.seed + 9);
        overlaps(device, lanes, 66, 1);
        CHECK_OK(hcq_close(device));
    }
}

/* ---- schedules: all, and those that are one ---- */

/* A program of lanes, whose commands have a word each: who shares one has an order. */
static struct {
    uint32_t lanes, length;
    uint8_t word[LANES][MOST];
    int signal_after;                  /* lane 0's raises what lane 1 waits for; -1: none */
    uint32_t runs;
    uint8_t orders[4096][LANES * MOST]; /* of the runs */
} L;

static hcq_result lanes_run(void *user) {
    (void)user;
    S.count = 0;
    hcq_device *device = seeded(1);
    hcq_program *program = mark_of(device);
    hcq_buffer words[8];
    hcq_signal s = make_signal(device, 0);
    for (uint32_t i = 0; i < 8; i++) {
        words[i] = make_words(device, 1);
    }
    for (uint32_t i = 0; i < L.lanes; i++) {
        hcq_queue *q = queue_of(device, "lane");
        if (L.signal_after >= 0 && i == 1) {
            CHECK(hcq_queue_wait(q, hcq_at(s, 1)) >= 0);
        }
        for (uint32_t k = 0; k < L.length; k++) {
            mark(q, program, words[L.word[i][k]], i * MOST + k);
            if (i == 0 && (int)k == L.signal_after) {
                CHECK(hcq_queue_signal(q, hcq_at(s, 1)) >= 0);
            }
        }
        (void)put(q, device, i, NULL, NULL);
    }
    hcq_result r = finished(device);
    if (L.runs < sizeof L.orders / sizeof L.orders[0]) {
        for (uint32_t i = 0; i < S.count; i++) {
            L.orders[L.runs][i] = (uint8_t)(S.ran[i] / 8);
        }
    }
    L.runs++;
    return r;
}

static hcq_explore_info explored(hcq_explore_desc desc, hcq_result want) {
    hcq_explore_info info;
    desc.seed = desc.seed ? desc.seed : T.seed * 7919;
    desc.log_fn = test_log_line;
    desc.log_user = &T.log;
    log_clear();
    CHECK_RESULT(hcq_explore(&desc, &info), want);
    CHECK_RESULT(info.result, want);
    return info;
}
#define EXPLORED(want, ...) explored((hcq_explore_desc){.run_fn = __VA_ARGS__}, (want))

static uint8_t word_at(uint8_t id) {
    return L.word[id / MOST][id % MOST];
}

/* The order's class: those of one lane or word stay, else the lower comes first. */
static void order_normal(uint8_t *order, uint32_t n) {
    for (uint32_t i = 0; i + 1 < n;) {
        uint8_t a = order[i], b = order[i + 1];
        if (a / MOST == b / MOST || word_at(a) == word_at(b) || a < b) {
            i++;
            continue;
        }
        order[i] = b;
        order[i + 1] = a;
        i = i > 0 ? i - 1 : 0;
    }
}

static int order_compare(const void *a, const void *b) {
    return memcmp(a, b, sizeof L.orders[0]);
}

/* How many of the runs' orders differ by more than what commutes. */
static uint64_t classes_of(uint32_t n) {
    uint64_t classes = 0;
    for (uint32_t i = 0; i < L.runs; i++) {
        order_normal(L.orders[i], n);
    }
    qsort(L.orders, L.runs, sizeof L.orders[0], order_compare);
    for (uint32_t i = 0; i < L.runs; i++) {
        classes += i == 0 || order_compare(L.orders[i], L.orders[i - 1]) != 0;
    }
    return classes;
}

static void lanes_of(uint32_t lanes, uint32_t length, uint32_t words, uint64_t seed) {
    memset(&L, 0, sizeof L);
    L.lanes = lanes;
    L.length = length;
    L.signal_after = -1;
    for (uint32_t i = 0; i < lanes * length; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        L.word[i / length][i % length] = (uint8_t)(words ? (seed >> 33) % words : 0);
    }
}

/* What is left is one schedule of each class, told by what ran in all of them. */
TEST_BARE(swaps_of_independent_commands_are_one) {
    static const uint32_t all[] = {[3] = 20, [4] = 70, [6] = 924}; /* schedules of two lanes */
    for (uint64_t round = 0; round < (T.quick ? 6 : 20); round++) {
        const uint32_t length = round == 0 ? 6 : 3 + (uint32_t)(round % 2);
        const uint32_t words = round == 0 ? 1 : 2 + (uint32_t)(round % 3); /* 1: none commutes */
        lanes_of(2, length, words, T.seed * 100 + round);
        hcq_explore_info every = EXPLORED(HCQ_OK, lanes_run, .flags = HCQ_EXPLORE_EVERY);
        CHECK_U64(every.runs, all[length]);
        CHECK(every.complete == 1 && every.cut == 0);
        uint64_t classes = classes_of(2 * length);
        CHECK(words != 1 || classes == all[length]);
        L.runs = 0;
        hcq_explore_info reduced = EXPLORED(HCQ_OK, lanes_run);
        CHECK(reduced.complete);
        CHECK_U64(reduced.runs, classes);
        CHECK_U64(L.runs, reduced.runs + reduced.cut);
    }
}

TEST_BARE(three_lanes_of_eight_and_a_signal) {
    lanes_of(3, 8, 0, 0);
    for (uint32_t i = 0; i < 24; i++) {
        L.word[i / 8][i % 8] = (uint8_t)(1 + i / 8); /* a word for each lane, ... */
    }
    L.word[0][5] = L.word[2][2] = L.word[2][6] = 0;  /* ... and one that two of them share */
    L.word[1][3] = 0;
    L.signal_after = 2;
    hcq_explore_info info = EXPLORED(HCQ_OK, lanes_run);
    /* Two of lane 2 among the one of lane 0 and the one of lane 1, in any order: 4! / 2. */
    CHECK(info.complete);
    CHECK_U64(info.runs, 12);
}

/* ---- two devices and a callback that submits ---- */

static struct { hcq_device *device; hcq_queue *late; hcq_point done; hcq_result result; } C;

static void submits(void *user, hcq_result result) {
    (void)user;
    C.result = result == HCQ_OK ? hcq_queue_submit(C.late, C.device, &C.done) : result;
}

static hcq_result callback_run(void *user) {
    (void)user;
    hcq_device *device[2] = {seeded(1), seeded(1)};
    hcq_queue *q[2] = {queue_of(device[0], "first"), queue_of(device[1], "second")};
    memset(&C, 0, sizeof C);
    S.count = 0;
    C.device = device[1];
    C.late = queue_of(device[1], "late");
    for (uint32_t i = 0; i < 3; i++) {
        mark(q[0], mark_of(device[0]), make_words(device[0], 1), i);
        mark(q[1], mark_of(device[1]), make_words(device[1], 1), 10 + i);
    }
    mark(C.late, mark_of(device[1]), make_words(device[1], 1), 20);
    hcq_point one = put(q[0], device[0], 0, NULL, NULL);
    CHECK_OK(hcq_notify(one, submits, NULL, NULL));
    (void)put(q[1], device[1], 0, NULL, NULL);
    CHECK_OK(hcq_device_synchronize(device[0], HCQ_FOREVER));
    CHECK_OK(C.result);
    CHECK_OK(hcq_wait(&C.done, 1, HCQ_ALL, HCQ_FOREVER));
    CHECK_U64(S.count, 7);
    CHECK_OK(hcq_close(device[0]));
    CHECK_OK(hcq_close(device[1]));
    return HCQ_OK;
}

TEST_BARE(callbacks_submit_in_every_schedule) {
    hcq_explore_info info = EXPLORED(HCQ_OK, callback_run);
    CHECK(info.complete);
    CHECK_U64(info.runs, 55);          /* who is told at an end commutes with nothing */
}

/* ---- a bug of three steps ---- */

/* Goes wrong only where three lanes run in one order of six, each in its first half. */
static hcq_result steps_run(void *user) {
    hcq_result r = lanes_run(user);
    int bad = r == HCQ_OK && S.ran[0] / 8 == 2 * MOST && S.ran[1] / 8 == MOST && S.ran[2] / 8 == 0;
    return bad ? HCQ_ERROR_HOST : r;
}

/* Of 20 seeds and of all schedules; what it says is that run again. */
TEST_BARE(seeds_find_a_bug_of_three_steps) {
    lanes_of(3, 2, 0, 0);
    for (uint64_t i = 0; i <= 20; i++) {
        hcq_explore_info info = EXPLORED(HCQ_ERROR_HOST, steps_run, .seeds = i < 20 ? 2000 : 0,
                                         .seed = 1 + i * 5000);
        (void)EXPLORED(HCQ_ERROR_HOST, steps_run, .choices = info.choices);
        CHECK(strcmp(info.choices, "2 1") == 0); /* as short as can be: the third, the second */
    }
}

/* Goes wrong where the second lane's kernel runs behind just so many of the first one's. */
static uint32_t late;

static hcq_result late_run(void *user) {
    (void)user;
    S.count = 0;
    hcq_device *device = seeded(1);
    hcq_program *program = mark_of(device);
    hcq_buffer word = make_words(device, 1);
    hcq_queue *q[2] = {queue_of(device, "long"), queue_of(device, "short")};
    for (uint32_t i = 0; i <= 600; i++) {
        mark(q[i == 600], program, word, i == 600);
    }
    (void)put(q[0], device, 0, NULL, NULL);
    (void)put(q[1], device, 1, NULL, NULL);
    hcq_result r = finished(device);
    return r == HCQ_OK && S.ran[late] / 8 == 1 ? HCQ_ERROR_HOST : r;
}

/* However many choices lead there, those that are told do it again. */
TEST_BARE(late_bugs_have_short_schedules) {
    for (late = 1; late < 600; late += 598) {
        hcq_explore_info info = EXPLORED(HCQ_ERROR_HOST, late_run);
        CHECK(strlen(info.choices) < 8);
        (void)EXPLORED(HCQ_ERROR_HOST, late_run, .choices = info.choices);
    }
}

#ifdef __GLIBC__
static uint32_t room_for;              /* calls of realloc; 0: any number */

void *__libc_realloc(void *old, size_t size);

void *realloc(void *old, size_t size) {
    return room_for != 0 && room_for-- == 1 ? NULL : __libc_realloc(old, size);
}

/* Of the memory for a schedule the n-th piece is not there. */
TEST_BARE(no_room_for_a_schedule) {
    late = 400;
    for (int way = 0; way < 3; way++) {
        hcq_explore_desc desc = {.run_fn = late_run, .runs = 2, .seeds = way == 1 ? 2 : 0,
                                 .choices = way == 2 ? "0*300 1" : NULL, .log_fn = test_log_line,
                                 .log_user = &T.log};
        for (uint32_t n = 1; n <= 3; n++) {
            log_clear();
            room_for = n;
            hcq_result r = hcq_explore(&desc, NULL);
            CHECK_RESULT(r, room_for == 0 ? HCQ_ERROR_OUT_OF_MEMORY : HCQ_OK);
            CHECK(r == HCQ_OK ? n > 1 : log_has("explore: out of memory"));
        }
        room_for = 0;
    }
}
#endif

/* ---- what ends it ---- */

static hcq_result race_run(void *user) {
    (void)user;
    hcq_device *device = seeded(1);
    hcq_buffer x = make_words(device, 16);
    hcq_queue *q[2] = {queue_of(device, "one"), queue_of(device, "two")};
    for (int i = 0; i < 2; i++) {
        CHECK(hcq_queue_fill(q[i], x, 64, 1, 4) >= 0);
        (void)put(q[i], device, (uint64_t)i, NULL, NULL);
    }
    return finished(device);
}

static hcq_result dead_run(void *user) {
    (void)user;
    hcq_device *device = seeded(1);
    hcq_point never = hcq_at(make_signal(device, 0), 1);
    (void)hcq_wait(&never, 1, HCQ_ALL, HCQ_FOREVER); /* whatever it makes of that */
    CHECK_OK(hcq_close(device));
    return HCQ_OK;
}

static hcq_device *left_open;

static hcq_result open_run(void *user) {
    (void)user;
    left_open = seeded(1);
    return HCQ_OK;
}

static hcq_result moody_run(void *user) {
    uint32_t *runs = (uint32_t *)user;
    lanes_of(2, 2, 0, 0);
    L.length = 2 + (*runs)++ % 2;
    return lanes_run(NULL);
}

/* As many pieces each time, but not the same ones. */
static hcq_result restless_run(void *user) {
    uint32_t *runs = (uint32_t *)user;
    hcq_device *device = seeded(1);
    hcq_program *program = mark_of(device);
    hcq_buffer word = make_words(device, 1);
    for (uint32_t i = 0; i < 2; i++) {
        hcq_queue *q = queue_of(device, "lane");
        mark(q, program, word, i);
        (void)put(q, device, i == 0 ? 0 : 1 + *runs % 2, NULL, NULL);
    }
    ++*runs;
    return finished(device);
}

static hcq_result nothing_run(void *user) {
    (void)user;
    return HCQ_OK;
}

TEST_BARE(findings_end_it) {
    hcq_explore_info info = EXPLORED(HCQ_ERROR_RACE, race_run);
    CHECK(log_has("race: command 0 (fill) of 'one'") && log_has("run 1 ends so; .choices = \"\""));
    CHECK_U64(info.runs, 1);
    info = EXPLORED(HCQ_ERROR_RACE, race_run, .seeds = 5);
    CHECK_U64(info.seed, T.seed * 7919);
    (void)EXPLORED(HCQ_ERROR_DEADLOCK, dead_run);
    CHECK(log_has("nothing can run"));
    (void)EXPLORED(HCQ_ERROR_BUSY, open_run);
    CHECK(log_has("left a device open"));
    (void)EXPLORED(HCQ_ERROR_BUSY, nothing_run);
    CHECK(log_has("devices are open"));
    CHECK_OK(hcq_close(left_open));
    info = EXPLORED(HCQ_OK, nothing_run);
    CHECK(info.complete && info.runs == 1);
    uint32_t runs = 0;
    for (int i = 0; i < 2; i++) {
        (void)EXPLORED(HCQ_ERROR_INVALID, i ? restless_run : moody_run, .user = &runs);
        CHECK(log_has("two runs with the same choices differ"));
    }
}

TEST_BARE(descriptions_are_refused) {
    hcq_explore_desc desc = {.log_fn = test_log_line, .log_user = &T.log};
    CHECK_RESULT(hcq_explore(NULL, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_explore(&desc, NULL), HCQ_ERROR_INVALID);
    desc.run_fn = nothing_run;
    desc.flags = HCQ_EXPLORE_EVERY << 1;
    CHECK_RESULT(hcq_explore(&desc, NULL), HCQ_ERROR_INVALID);
    desc.flags = HCQ_EXPLORE_EVERY;
    CHECK_OK(hcq_explore(&desc, NULL));
    for (int i = 0; i < 9; i++) {
        static const char *const bad[] = {"1 two", "1,2", " 1", "65536", "1*", "1*x", "*2", "1* 2",
                                          "1*100001"};
        desc.choices = bad[i];
        log_clear();
        CHECK_RESULT(hcq_explore(&desc, NULL), HCQ_ERROR_INVALID);
        CHECK(log_has("choices: no list of numbers"));
    }
    desc.choices = "65535 0*2";
    CHECK_OK(hcq_explore(&desc, NULL));
}

/* As many as are asked for, and it says that more are left. */
TEST_BARE(runs_are_bounded) {
    lanes_of(2, 4, 0, 0);
    for (uint64_t most = 69; most <= 71; most++) {
        hcq_explore_info info = EXPLORED(HCQ_OK, lanes_run, .runs = most);
        CHECK_U64(info.runs, most < 70 ? most : 70);
        CHECK_U64(info.complete, most >= 70);
    }
}

/* A kernel on each of two lanes, with so many words of its own, and one that both have: read,
   written, hidden in a number, or not at all. */
static struct { uint32_t own, shares[2]; } K;

typedef struct { uint64_t at[10]; } wide_args;

static void k_wide(const void *args, const hcq_block *b) {
    (void)b;
    *HCQ_PTR(uint32_t, HCQ_ARGS(wide_args, args)->at[0]) = 1;
}

static hcq_result kernels_run(void *user) {
    (void)user;
    hcq_device *device = seeded(1);
    hcq_buffer word = make_words(device, 1), own = make_words(device, 2 * K.own);
    for (uint32_t lane = 0; lane < 2; lane++) {
        hcq_program_desc desc = {.label = "wide", .cpu = k_wide};
        hcq_queue *q = queue_of(device, "wide");
        wide_args args;
        for (uint32_t i = 0; i < K.own; i++) {
            desc.args[i] = HCQ_ARG_INOUT;
            args.at[i] = own.address + 4 * (2 * i + lane);
        }
        desc.args[K.own] = K.shares[lane];
        args.at[K.own] = word.address;
        CHECK_INDEX(hcq_queue_exec(q, make_kernel(device, desc), &args,
                                   8 * (K.own + (K.shares[lane] != HCQ_ARG_NONE)), dims_one,
                                   dims_one), 0);
        for (uint32_t i = 0; i < K.own; i++) {
            CHECK_OK(hcq_queue_access(q, 0, hcq_view(own, 4 * (2 * i + lane), 4), HCQ_ARG_INOUT));
        }
        (void)put(q, device, lane, NULL, NULL);
    }
    return finished(device);
}

/* Who touches more than that is taken to touch everything. */
TEST_BARE(as_many_ranges_as_are_told_apart) {
    memset(&K, 0, sizeof K);
    for (K.own = 7; K.own <= 9; K.own++) {
        CHECK_U64(EXPLORED(HCQ_OK, kernels_run).runs, K.own <= 8 ? 1 : 2);
    }
}

TEST_BARE(what_commutes) {
    static const struct { uint32_t first, second, schedules; } all[] = {
        {HCQ_ARG_IN, HCQ_ARG_IN, 1}, {HCQ_ARG_IN, HCQ_ARG_INOUT, 2}, {HCQ_ARG_OUT, HCQ_ARG_IN, 2},
        {HCQ_ARG_INOUT, HCQ_ARG_INOUT, 2}, {HCQ_ARG_U64, HCQ_ARG_IN, 2},
    };
    K.own = 1;
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        K.shares[0] = all[i].first;
        K.shares[1] = all[i].second;
        CHECK_U64(EXPLORED(HCQ_OK, kernels_run).runs, all[i].schedules);
    }
}

static uint32_t many;

static hcq_result many_run(void *user) {
    (void)user;
    hcq_device *device = seeded(1);
    overlaps(device, 2, many + 2, 0);
    CHECK_OK(hcq_close(device));
    return HCQ_OK;
}

/* It goes through all schedules, or says that it cannot. */
TEST_BARE(as_many_pieces_as_are_told_apart) {
    for (many = 62; many <= 64; many++) { /* and one of the other lane */
        (void)EXPLORED(many <= 63 ? HCQ_OK : HCQ_ERROR_INVALID, many_run, .runs = 2);
        CHECK_U64(log_has("more than 64 pieces"), many > 63);
    }
}

/* Whoever polls for ever gets to an end: the host's turn first would never. */
static hcq_result polls_run(void *user) {
    (void)user;
    hcq_device *device = seeded(1);
    hcq_queue *q = queue_of(device, "polled");
    mark(q, mark_of(device), make_words(device, 1), 1);
    hcq_point done = put(q, device, 0, NULL, NULL);
    while (hcq_wait(&done, 1, HCQ_ALL, 0) == HCQ_TIMEOUT) { }
    CHECK_OK(hcq_close(device));
    return HCQ_OK;
}

TEST_BARE(polls_come_to_an_end) {
    hcq_explore_info info = EXPLORED(HCQ_OK, polls_run, .runs = 2);
    CHECK(info.cut >= 1 && !info.complete);
    CHECK(EXPLORED(HCQ_OK, polls_run, .seeds = 20).runs == 20);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "trace") == 0) {
        printf("%016llx\n", (unsigned long long)trace_of(strtoull(argv[2], NULL, 0)));
        return 0;
    }
    return test_main(argc, argv);
}
