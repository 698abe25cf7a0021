/* after.h - memory as a step in the order of work, transfers, and
   many transfers in one submission. Part of conformance.c. */
#include "shared.h"


/* A host command that runs until the test lets it end. */
typedef struct host_brake { int open; } host_brake;

static hcq_result host_brake_run(void *user) {
    host_brake *brake = (host_brake *)user;
    uint64_t limit = hcq_sys_now_ns() + BOUND;
    while (!__atomic_load_n(&brake->open, __ATOMIC_SEQ_CST)) {
        if (hcq_sys_now_ns() > limit) {
            return HCQ_ERROR_HOST;
        }
        mock_sleep(200000);
    }
    return HCQ_OK;
}

/* A queue that fills a whole buffer with one byte. */
static hcq_queue *make_filler(hcq_device *device, hcq_buffer buffer, uint8_t byte) {
    hcq_queue *queue = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_fill(queue, buffer, buffer.size, byte, 1), 0);
    return queue;
}

/* ---- alloc_after ---- */

/* Held by a point that only the host raises; the buffer is recorded and used by
   submissions at once, which are held with it, and nobody else is. */
static void alloc_after_is_held(void **state) {
    (void)state;
    hcq_point gate = make_gate(T.dev2), ready, done, other;
    hcq_buffer a, b = make_words(T.dev, 16);
    CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 300, 0, &a, &ready));
    CHECK_U64(a.size, 300);
    CHECK_U64(a.address % 64, 0);
    CHECK(a.address != 0 && a.device == T.dev);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_wait(q, ready), 0);
    CHECK_INDEX(hcq_queue_fill(q, a, 300, 0x31, 1), 1);
    CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    CHECK_OK(submit_behind(make_filler(T.dev, b, 0x44), T.dev, NULL, &other));
    WAIT_OK(other);                    /* UNORDERED: its lanes go on */
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    CHECK(test_query(T.dev, HCQ_QUERY_HELD) >= 2);
    open_gate(gate);
    WAIT_OK(ready);
    WAIT_OK(done);
    CHECK_FILLED(a, 0x31);
    CHECK_OK(hcq_free(a));
}

/* Released by submitted work, of this device and of another one. */
static void alloc_after_submitted_work(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        hcq_device *from = i ? T.dev2 : T.dev;
        hcq_point waits[2] = {hcq_at(make_signal(from, 0), 7), make_gate(T.dev)}, ready, done;
        hcq_buffer a;
        CHECK_OK(hcq_alloc_after(T.dev, waits, 2, 64, 0, &a, &ready));
        CHECK_OK(submit_behind(make_filler(T.dev, a, 9), T.dev, &ready, &done));
        open_gate(waits[1]);
        CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT); /* one of two */
        CHECK_OK(submit_lists(from, NULL, &waits[0], HCQ_UNORDERED, NULL)); /* passes `done` */
        WAIT_OK(done);
        CHECK_OK(test_poll(ready));
        CHECK_FILLED(a, 9);
        CHECK_OK(hcq_alloc_after(T.dev, waits, 2, 64, 0, &a, &ready)); /* reached ones */
        WAIT_OK(ready);
        CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, 64, 0, &a, &ready)); /* none */
        WAIT_OK(ready);
    }
}

static void alloc_after_flags(void **state) {
    (void)state;
    hcq_point gate = make_gate(T.dev), ready[8];
    hcq_buffer a[8];
    for (uint32_t flags = 0; flags < 8; flags++) {
        CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 500 + flags, flags, &a[flags], &ready[flags]));
        CHECK(!(flags & HCQ_HOST_VISIBLE) || a[flags].host != NULL);
    }
    open_gate(gate);
    for (uint32_t flags = 0; flags < 8; flags++) {
        WAIT_OK(ready[flags]);
        if (flags & HCQ_ZEROED) {
            CHECK_FILLED(a[flags], 0);
        }
        CHECK_OK(hcq_free(a[flags]));
    }
}

/* A freed block whose last user, work of `user`, is still on its way, handed
   over or held: whoever gets the block is behind that. */
static void reuse_block(hcq_device *user, uint32_t flags, int handed) {
    host_brake brake = {0};
    hcq_point gate = make_gate(T.dev), old_done, ready, done;
    hcq_buffer a, b;
    CHECK_OK(hcq_alloc(T.dev, 4096, flags, &a));
    hcq_queue *old = make_queue(user, HCQ_COMPUTE), *q = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_host(old, host_brake_run, &brake), 0);
    CHECK_INDEX(hcq_queue_fill(old, a, 4096, 0x5a, 1), 1);
    CHECK_OK(submit_behind(old, user, handed ? NULL : &gate, &old_done));
    CHECK_OK(hcq_free(a));
    CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, 4096, flags, &b, &ready));
    if (b.address == a.address) {
        CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    }
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(b, 0, 2048), 2048, 0x11, 1), 0);
    CHECK_OK(submit_behind(q, T.dev, &ready, &done));
    open_gate(gate);
    __atomic_store_n(&brake.open, 1, __ATOMIC_SEQ_CST);
    WAIT_OK(old_done);
    WAIT_OK(done);
    CHECK_FILLED(hcq_view(b, 0, 2048), 0x11);
    if (flags & HCQ_ZEROED) {
        CHECK_FILLED(hcq_view(b, 2048, 2048), 0);
    }
    CHECK_OK(hcq_free(b));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_trim(T.dev, 0));
}

/* Work of the same device, and of another one that sees its memory. */
static void alloc_after_waits_for_last_users(void **state) {
    (void)state;
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev2, &info));
    for (uint32_t i = 0; i < 32; i++) {
        hcq_device *user = i & 16 && info.features & HCQ_FEATURE_MAP ? T.dev2 : T.dev;
        reuse_block(user, i & 7, (i & 8) != 0);
    }
}

/* The wait fails, so does the point; the buffer is still to be freed, once. */
static void alloc_after_failed_wait(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        hcq_point gate = make_gate(T.dev), ready, done;
        hcq_buffer a;
        hcq_result want = i < 2 ? HCQ_ERROR_HOST : HCQ_ERROR_CANCELLED;
        if (i == 1) {                  /* failed before */
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST));
        }
        CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 1000, 0, &a, &ready));
        CHECK_OK(submit_lists(T.dev, &ready, NULL, 0, &done));
        if (i == 0) {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST));
        } else if (i == 2) {
            CHECK_OK(hcq_signal_destroy(gate.signal));
        }
        WAIT_RESULT(ready, want);
        WAIT_RESULT(done, want);       /* who waits for the buffer learns of it */
        CHECK(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES) >= 1000);
        CHECK_OK(hcq_free(a));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0);
        CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    }
}

/* Freed again before it was ever ready, by either way. */
static void alloc_after_freed_early(void **state) {
    (void)state;
    hcq_point gate = make_gate(T.dev), last = make_gate(T.dev), ready, freed;
    hcq_buffer a, b;
    CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 640, 0, &a, &ready));
    CHECK_OK(hcq_free(a));
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 640, 0, &b, &ready));
    CHECK_OK(hcq_free_after(b, &ready, 1, &freed));
    CHECK_OK(hcq_alloc_after(T.dev, &last, 1, 640, 0, &b, &ready));
    CHECK_OK(hcq_free_after(b, &gate, 1, NULL)); /* before it is ready */
    open_gate(gate);
    WAIT_OK(freed);
    CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    open_gate(last);
    WAIT_OK(ready);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0);
}

/* ---- free_after ---- */

/* Reads or writes a few bytes without waiting for what is held. */
static hcq_result put_now(hcq_buffer dst, const void *bytes, uint64_t size) {
    return hcq_transfer(hcq_transfer_device(dst), hcq_transfer_host(bytes, size), size,
                        HCQ_UNORDERED, BOUND);
}

static hcq_result get_now(void *bytes, hcq_buffer src, uint64_t size) {
    return hcq_transfer(hcq_transfer_host(bytes, size), hcq_transfer_device(src), size,
                        HCQ_UNORDERED, BOUND);
}

/* Usable until the points are reached, refused from then on, and handed out
   again. */
static void free_after_is_held(void **state) {
    (void)state;
    hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev2)}, freed, done;
    hcq_buffer a, b, copy = make_words(T.dev, 16);
    unsigned char byte = 0x21;
    uint32_t word = 0;
    CHECK_OK(hcq_alloc(T.dev, 64, 0, &a));
    uint64_t bytes = test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES);
    hcq_queue *before = make_queue(T.dev, HCQ_COMPUTE), *q = make_queue(T.dev, HCQ_COPY);
    CHECK_INDEX(hcq_queue_copy(before, copy, a, 64), 0);
    CHECK_OK(hcq_free_after(a, gates, 2, &freed));
    CHECK_OK(submit_behind(make_filler(T.dev, a, 0x66), T.dev, NULL, &done));
    WAIT_OK(done);
    CHECK_OK(put_now(a, &byte, 1));
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(a, 1, 1), 1, 0x43, 1), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    CHECK_OK(submit_behind(before, T.dev, &done, &done));
    WAIT_OK(done);
    CHECK_OK(get_now(&word, copy, 4));
    CHECK_U64(word, 0x66664321);
    CHECK_RESULT(test_poll(freed), HCQ_TIMEOUT);
    CHECK(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES) >= bytes);
    bytes = test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES);
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free_after(a, gates, 1, NULL), HCQ_ERROR_CLOSED);
    open_gate(gates[0]);
    CHECK_RESULT(test_poll(freed), HCQ_TIMEOUT); /* one of two */
    CHECK_OK(submit_behind(make_filler(T.dev, a, 1), T.dev, NULL, &done));
    WAIT_OK(done);
    open_gate(gates[1]);
    WAIT_OK(freed);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), bytes - 64);
    CHECK_RESULT(hcq_copyin(a, &byte, 1), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_queue_submit(before, T.dev, NULL), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_fill(q, a, 64, 1, 1), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free_after(a, NULL, 0, NULL), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_alloc(T.dev, 64, 0, &b));
    CHECK_U64(b.address, a.address);
}

/* Work that names the buffer and was submitted before the points are reached is
   safe: the block is nobody else's before that is done. */
static void free_after_with_late_users(void **state) {
    (void)state;
    hcq_point gate = make_gate(T.dev), late = make_gate(T.dev), freed, done, ready;
    hcq_buffer a, b, c, copy;
    CHECK_OK(hcq_alloc(T.dev, 8192, 0, &a));
    CHECK_OK(hcq_alloc(T.dev, 8192, HCQ_NO_CACHE, &copy));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_fill(q, a, 8192, 0x77, 1), 0);
    CHECK_INDEX(hcq_queue_copy(q, copy, a, 8192), 1);
    CHECK_OK(hcq_free_after(a, &gate, 1, &freed));
    CHECK_OK(submit_behind(q, T.dev, &late, &done));
    open_gate(gate);
    CHECK_OK(hcq_alloc(T.dev, 8192, 0, &b));
    CHECK(b.address != a.address);
    CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, 8192, 0, &c, &ready));
    CHECK(c.address != a.address || test_poll(ready) == HCQ_TIMEOUT);
    open_gate(late);
    WAIT_OK(done);
    WAIT_OK(freed);
    WAIT_OK(ready);
    CHECK_FILLED(copy, 0x77);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_alloc(T.dev, 8192, 0, &b));
    CHECK(b.address == a.address || c.address == a.address);
}

/* Waits only order: one that fails is over, and the memory is freed all the same,
   but not before the others are over, too. */
static void free_after_failed_wait(void **state) {
    (void)state;
    unsigned char byte = 1;
    for (int i = 0; i < 2; i++) {
        hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev)}, freed, done;
        hcq_buffer a = make_words(T.dev, 64);
        CHECK_OK(hcq_free_after(a, gates, 2, &freed));
        if (i == 0) {
            CHECK_OK(hcq_signal_fail(gates[0].signal, HCQ_ERROR_HOST));
        } else {
            CHECK_OK(hcq_signal_destroy(gates[0].signal));
        }
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_fill(q, a, 256, 1, 1), 0); /* the other one is to come */
        CHECK_OK(submit_behind(q, T.dev, NULL, &done));
        WAIT_OK(done);
        open_gate(gates[1]);
        WAIT_OK(freed);
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0);
        CHECK_RESULT(hcq_copyin(a, &byte, 1), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    }
}

/* Released by submitted work, of another device, too; and without any wait. */
static void free_after_submitted_work(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        hcq_device *from = i ? T.dev2 : T.dev;
        hcq_point wait = hcq_at(make_signal(from, 0), 3), freed;
        CHECK_OK(hcq_free_after(make_words(T.dev, 64), &wait, 1, &freed));
        CHECK_RESULT(test_poll(freed), HCQ_TIMEOUT);
        CHECK_OK(submit_lists(from, NULL, &wait, 0, NULL));
        WAIT_OK(freed);
        CHECK_OK(hcq_free_after(make_words(T.dev, 64), &wait, 1, NULL)); /* reached */
        CHECK_OK(hcq_free_after(make_words(T.dev, 64), NULL, 0, &freed));
        WAIT_OK(freed);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0);
    }
}

static void free_after_of_imported(void **state) {
    (void)state;
    static uint32_t mine[16];
    hcq_device_info info;
    hcq_point gate = make_gate(T.dev), freed, done;
    hcq_buffer a;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    if (!(info.features & HCQ_FEATURE_IMPORT)) {
        SKIP("no import");
    }
    CHECK_OK(hcq_import(T.dev, mine, sizeof mine, &a));
    CHECK_OK(hcq_free_after(a, &gate, 1, &freed));
    CHECK_OK(submit_behind(make_filler(T.dev, a, 2), T.dev, NULL, &done));
    WAIT_OK(done);
    CHECK_U64(mine[15], 0x02020202);
    open_gate(gate);
    WAIT_OK(freed);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 0);
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
}

/* ---- both ---- */

/* Closing ends what is held, of this device and of those who wait for it, and
   gives everything back (the teardown counts). */
static void close_with_held_memory(void **state) {
    (void)state;
    hcq_device *device = test_open(0, NULL);
    hcq_point gate = make_gate(T.dev), ready, freed, follower[2];
    hcq_buffer a, b = make_words(device, 64);
    const uint32_t data[4] = {1, 2, 3, 4};
    hcq_transfer_command command;
    CHECK_OK(hcq_alloc_after(device, &gate, 1, 640, 0, &a, &ready));
    CHECK_OK(hcq_free_after(a, &ready, 1, NULL));
    CHECK_OK(hcq_free_after(b, &gate, 1, &freed));
    memset(&command, 0, sizeof command);
    command.kind = HCQ_TRANSFER_UPDATE;
    command.dst = a;
    command.data = data;
    command.size = sizeof data;
    CHECK_OK(hcq_transfer_submit(device, &ready, 1, &command, 1, NULL));
    CHECK_OK(submit_lists(T.dev, &ready, NULL, 0, &follower[0]));
    CHECK_OK(submit_lists(T.dev2, &freed, NULL, 0, &follower[1]));
    CHECK_OK(hcq_close(device));
    WAIT_RESULT(follower[0], HCQ_ERROR_CANCELLED);
    WAIT_RESULT(follower[1], HCQ_ERROR_CANCELLED);
    CHECK_RESULT(test_poll(ready), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_free_after(b, &gate, 1, NULL), HCQ_ERROR_CLOSED);
    open_gate(gate);
}

/* One temporary: allocated behind the work so far, used, freed behind its use. */
static void use_temporary(hcq_program *mix, hcq_buffer sum, uint32_t round, int after) {
    hcq_buffer a;
    hcq_point ready, done;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    uint32_t words = (uint32_t)sum.size / 4;
    CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, sum.size, 0, &a, &ready));
    mix_args args = {sum.address, a.address, words, round};
    CHECK_INDEX(hcq_queue_wait(q, ready), 0);
    CHECK_INDEX(hcq_queue_fill(q, a, sum.size, round, 4), 1);
    CHECK_INDEX(hcq_queue_exec(q, mix, &args, sizeof args, hcq_dim(words / 64, 1, 1),
                               hcq_dim(64, 1, 1)), 2);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    if (after) {
        CHECK_OK(hcq_free_after(a, &done, 1, NULL));
    } else {
        CHECK_OK(hcq_free(a));
    }
    hcq_queue_destroy(q);
}

/* A thousand temporaries that the host never waits for take the room of a few.
   Each adds to one sum, so that none may be handed out too early. */
static void temporaries_stay_bounded(void **state) {
    (void)state;
    enum { ROUNDS = 1000, WORDS = 1024, ROOM = 8 * WORDS * 4 };
    static uint32_t model[WORDS];
    hcq_program *mix = make_mix(T.dev);
    for (int after = 0; after < 2; after++) {
        hcq_buffer sum = make_words(T.dev, WORDS);
        uint64_t base = test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), most = 0;
        memset(model, 0, sizeof model);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            use_temporary(mix, sum, round, after);
            uint64_t bytes = test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES) +
                             test_query(T.dev, HCQ_QUERY_CACHED_BYTES) - base;
            most = bytes > most ? bytes : most;
            for (uint32_t i = 0; i < WORDS; i++) {
                model[i] = model[i] * 31u + round + round;
            }
        }
        CHECK_BYTES(sum, model, sizeof model);
        if (most > ROOM && !T.variant->narrow) {
            fprintf(stderr, "%llu bytes for temporaries of %zu, freed %s\n",
                    (unsigned long long)most, sizeof model, after ? "after" : "at once");
        }
        CHECK(most <= ROOM || T.variant->narrow); /* there work queues for a counter, too */
        CHECK_OK(hcq_free(sum));
    }
}

typedef struct after_worker {
    pthread_t thread;
    hcq_device *device;
    hcq_queue *queue;
    hcq_buffer results;                /* a word of each round */
    uint64_t seed;
    uint32_t base;                     /* of what this thread writes */
    hcq_result result;
} after_worker;

enum { AFTER_ROUNDS = 200 };

/* Allocates behind the last free, fills, copies one word out, frees behind that:
   by one way or the other. */
static hcq_result after_round(after_worker *w, hcq_point *last, uint32_t round) {
    hcq_buffer a;
    hcq_point ready, done;
    uint64_t r = test_random(&w->seed);
    uint32_t flags = (r & 3) == 0 ? (uint32_t)(r >> 8) & (HCQ_HOST_VISIBLE | HCQ_ZEROED) : 0;
    uint32_t value = w->base + round;
    hcq_result result = hcq_alloc_after(w->device, last, last->signal.id != 0, 512, flags, &a,
                                        &ready);
    if (result == HCQ_OK) {
        result = hcq_queue_reset(w->queue);
    }
    if (result != HCQ_OK) {
        return result;
    }
    hcq_queue_fill(w->queue, a, 512, value, 4);
    hcq_queue_copy(w->queue, hcq_view(w->results, round * 4, 4), hcq_view(a, 508, 4), 4);
    result = submit_behind(w->queue, w->device, &ready, &done);
    if (result == HCQ_OK && (r & 4)) {
        *last = done;
        return hcq_free(a);
    }
    return result == HCQ_OK ? hcq_free_after(a, &done, 1, last) : result;
}

static void *after_worker_run(void *user) {
    after_worker *w = (after_worker *)user;
    hcq_point last = {{0}, 0};
    for (uint32_t i = 0; i < AFTER_ROUNDS && w->result == HCQ_OK; i++) {
        w->result = after_round(w, &last, i);
        if (w->result == HCQ_OK && i % 16 == w->base % 16) {
            w->result = hcq_trim(w->device, (uint64_t)(i % 3) * 512);
        }
    }
    if (w->result == HCQ_OK) {
        w->result = hcq_wait(&last, 1, HCQ_ALL, BOUND);
    }
    return NULL;
}

/* All take and give blocks of one size, on lanes that are nearly always full. */
static void temporaries_from_threads(void **state) {
    (void)state;
    after_worker w[4];
    hcq_device_desc desc = test_desc();
    desc.inflight = 3;
    hcq_device *device = test_open(0, &desc);
    for (uint32_t i = 0; i < 4; i++) {
        memset(&w[i], 0, sizeof w[i]);
        w[i].device = device;
        w[i].results = make_words(device, AFTER_ROUNDS);
        w[i].queue = make_queue(device, i < 2 ? HCQ_COMPUTE : HCQ_COPY);
        w[i].seed = T.seed * 100 + i;
        w[i].base = (i + 1) * 0x10000;
    }
    uint64_t bytes = test_query(device, HCQ_QUERY_ALLOCATED_BYTES);
    for (uint32_t i = 0; i < 4; i++) {
        pthread_create(&w[i].thread, NULL, after_worker_run, &w[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(w[i].thread, NULL);
    }
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_U64(test_query(device, HCQ_QUERY_ALLOCATED_BYTES), bytes);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t got[AFTER_ROUNDS];
        CHECK_OK(w[i].result);
        CHECK_OK(hcq_copyout(got, w[i].results, sizeof got));
        for (uint32_t k = 0; k < AFTER_ROUNDS; k++) {
            CHECK_U64(got[k], w[i].base + k);
        }
    }
    CHECK_OK(hcq_close(device));
}

#define AFTER_TESTS \
    TEST(alloc_after_is_held), TEST(alloc_after_submitted_work), TEST(alloc_after_flags), \
    TEST(alloc_after_waits_for_last_users), TEST(alloc_after_failed_wait), \
    TEST(alloc_after_freed_early), TEST(free_after_is_held), TEST(free_after_with_late_users), \
    TEST(free_after_failed_wait), TEST(free_after_submitted_work), \
    TEST(free_after_of_imported), TEST(close_with_held_memory), \
    TEST(temporaries_stay_bounded), TEST(temporaries_from_threads)
