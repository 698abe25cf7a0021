/* unit.c - the core's small pieces one by one, by their internal names: heap,
   failed ranges, lock, object pools, signal handles, the memory cache, spinners. The suites
   of the public API cannot reach their corners on purpose. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>

static int thread_error;               /* what the next start of a thread meets */

static int thread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
                         void *user) {
    return thread_error != 0 ? thread_error : pthread_create(id, attr, run, user);
}

#define pthread_create thread_create
#include "support/util.h"

static uint32_t random_below(uint32_t limit) {
    return (uint32_t)(test_random(&T.seed) % limit);
}

/* ---- the waiters' heap ---------------------------------------------------- */

/* Bursts of inserts, whose values are near each other or far apart, with pops
   and removals from anywhere between them: each pop gives the smallest. */
TEST_BARE(heap_sorts_bursts) {
    enum { COUNT = 2000 };
    static hcqi_waiter waiters[COUNT];
    static int inside[COUNT];
    hcqi_waiter *heap = NULL;
    uint64_t last = 0, live = 0;
    for (int round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < COUNT / 2; i++) {
            uint32_t at = random_below(COUNT);
            if (inside[at]) { continue; }
            waiters[at].value = last + ((uint64_t)random_below(UINT32_MAX) << 30 >> round % 60);
            hcqi_heap_insert(&heap, &waiters[at]);
            inside[at] = 1;
            live++;
        }
        for (uint32_t i = 0; i < COUNT / 4; i++) {
            uint32_t at = random_below(COUNT);
            if (!inside[at]) { continue; }
            hcqi_heap_remove(&heap, &waiters[at]);
            inside[at] = 0;
            live--;
        }
        for (uint32_t left = random_below(COUNT); heap != NULL && left != 0; left--) {
            hcqi_waiter *top = heap;
            CHECK(top->value >= last && inside[top - waiters]);
            last = top->value;
            hcqi_heap_remove(&heap, top);
            inside[top - waiters] = 0;
            live--;
        }
        last = heap == NULL ? 0 : last;
        CHECK((heap == NULL) == (live == 0));
    }
}

/* ---- failed numbers ------------------------------------------------------- */

static hcq_device failures_device(uint32_t ranges) {
    hcq_device dev = {.hooks = hcqi_hooks(NULL), .desc.failure_ranges = ranges};
    return dev;
}

/* Against a table of all numbers, added roughly in order; what is forgotten was the
   oldest, and is told. */
TEST_BARE(failures_are_exact) {
    enum { COUNT = 4000 };
    static hcq_result failed[COUNT];
    static int said[COUNT];
    hcqi_reason reason = {.refs = 1};
    for (uint32_t ranges = 1; ranges <= 1000; ranges *= 10) {
        hcq_device dev = failures_device(ranges);
        hcqi_failures f = {0};
        memset(failed, 0, sizeof failed);
        for (uint32_t round = 1; round < 1200; round++) {
            uint32_t number = round * 3 + random_below(40);
            hcq_result result = random_below(4) ? HCQ_ERROR_HOST : HCQ_ERROR_LOST;
            if (failed[number]) {
                continue;
            }
            failed[number] = result;
            said[number] = (int)random_below(2);
            hcqi_failures_add(&dev, &f, number, result, said[number] ? &reason : NULL);
            CHECK(f.count <= ranges);
            for (uint32_t i = 1; i < COUNT && round % 7 == 0; i++) {
                hcq_result want = i <= f.forgotten ? HCQ_ERROR_LIMIT : failed[i];
                const hcqi_failure *at = hcqi_failures_at(&f, i);
                CHECK_RESULT(hcqi_failures_find(&f, i), want);
                CHECK(at == NULL || (at->reason != NULL) == said[i]);
            }
        }
        uint32_t runs = 0;             /* neighbours are one range */
        for (uint32_t i = 1; i < COUNT; i++) {
            runs += failed[i] && (failed[i] != failed[i - 1] || said[i] != said[i - 1]);
        }
        CHECK(ranges < 1000 || (f.forgotten == 0 && f.count == runs));
        hcqi_failures_free(&dev, &f);
        CHECK_U64(reason.refs, 1);
    }
}

/* Without memory for a range nobody guesses. */
TEST_BARE(failures_without_memory) {
    hcq_device dev = failures_device(100);
    hcqi_failures f = {0};
    memset(&T.memory, 0, sizeof T.memory);
    dev.hooks = test_desc().memory;
    for (uint64_t number = 10; number < 20; number += 2) {
        hcqi_failures_add(&dev, &f, number, HCQ_ERROR_HOST, NULL);
    }
    T.memory.fail_at = 1;
    T.memory.fail_until = UINT64_MAX;
    for (uint64_t number = 20; number < 60; number += 2) {
        hcqi_failures_add(&dev, &f, number, HCQ_ERROR_HOST, NULL);
    }
    CHECK_U64(f.capacity, 16);
    for (uint64_t number = 1; number < 70; number++) {
        hcq_result real = number >= 10 && number < 60 && number % 2 == 0 ? HCQ_ERROR_HOST : HCQ_OK;
        CHECK_RESULT(hcqi_failures_find(&f, number), number <= 26 ? HCQ_ERROR_LIMIT : real);
    }
    hcqi_failures_free(&dev, &f);
    hcqi_failures_add(&dev, &f, 5, HCQ_ERROR_HOST, NULL); /* not even for the first */
    CHECK_RESULT(hcqi_failures_find(&f, 5), HCQ_ERROR_LIMIT);
    CHECK_OK(hcqi_failures_find(&f, 6));
}

/* ---- the lock, arrays, pools ---------------------------------------------- */

/* Its innermost call changes nothing, and none leaves it to who waits too early; a backend
   may take it where it is held, and gives back what it took. */
TEST_BARE(lock_goes_with_the_outermost) {
    for (int held = 0; held < 2; held++) {
        if (held) { hcqi_enter(); }
        for (int depth = 0; depth < 3; depth++) { hcq_backend_lock(1); }
        for (int depth = 0; depth < 3 + held; depth++) {
            CHECK(hcqi_core.owner == hcqi_sys_thread_id());
            hcq_backend_lock(0);
        }
        CHECK(hcqi_core.owner == 0);
    }
}

static void *resetter_run(void *user) {
    (void)hcq_queue_reset((hcq_queue *)user);
    return NULL;
}

/* Whoever gets the lock while a queue forgets its commands sees that they are not its own.
   Until somebody did, or for so many rounds. */
TEST(nobody_takes_half_a_queue) {
    enum { COUNT = 20000 };
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer word = make_words(T.dev, 1);
    uint32_t seen = 0, halves = 0;
    for (int round = 0; seen == 0 && round < 100; round++) {
        uint32_t left = COUNT;
        pthread_t thread;
        for (int32_t i = 0; i < COUNT; i++) { CHECK_INDEX(hcq_queue_fill(q, word, 4, 0, 4), i); }
        CHECK_OK(hcq_queue_bind(q, T.dev));
        uint64_t generation = q->generation;
        CHECK(pthread_create(&thread, NULL, resetter_run, q) == 0);
        while (left != 0) {
            hcqi_enter();
            left = q->count;
            seen += left != COUNT && left != 0;
            halves += left != COUNT && (q->generation == generation || q->bound != NULL);
            hcqi_unlock();
        }
        pthread_join(thread, NULL);
    }
    CHECK_U64(halves, 0);
}

TEST_BARE(pools_give_back_what_a_burst_took) {
    enum { COUNT = 5000 };
    static hcq_device dev;
    static void *items[COUNT];
    hcqi_pool pool = {0};
    memset(&T.memory, 0, sizeof T.memory);
    dev.hooks = test_desc().memory;
    CHECK(hcqi_pool_init(&pool, &dev, 100, 50));
    uint64_t first = T.memory.blocks;
    CHECK(first > 0);
    CHECK(hcqi_pool_reserve(&pool, COUNT));
    CHECK(T.memory.blocks > first);
    T.memory.fail_at = 1;              /* reserved is reserved */
    T.memory.fail_until = UINT64_MAX;
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = hcqi_pool_get(&pool);
        CHECK((uintptr_t)items[i] % 8 == 0);
        memset(items[i], (int)(i & 0xff), 100);
    }
    CHECK(!hcqi_pool_reserve(&pool, pool.available + 1));
    for (uint32_t i = 0; i < COUNT; i++) { /* nobody wrote into anybody else's */
        uint32_t at = i * 7 % COUNT;
        const unsigned char *bytes = (const unsigned char *)items[at];
        CHECK(bytes[0] == (at & 0xff) && bytes[99] == (at & 0xff));
        hcqi_pool_put(&pool, items[at]);
    }
    CHECK_U64(T.memory.blocks, first);
    hcqi_pool_put(&pool, hcqi_pool_get(&pool));
    (void)hcqi_pool_get(&pool);
    hcqi_pool_destroy(&pool);
    CHECK(T.memory.blocks == 0 && T.memory.bytes == 0);
    T.memory.fail_until = 0;
    void *array = NULL;                /* of more bytes than there are addresses */
    uint32_t capacity = 0;
    CHECK(!hcqi_grow(&dev.hooks, &array, &capacity, 8, SIZE_MAX / 8 + 2) && array == NULL);
}

/* What the host waits for on a lane is one native wait, for the last. */
TEST(host_waits_once_for_a_lane) {
    hcqi_points points;
    hcqi_points_begin(&points, NULL);
    for (uint64_t k = 0; k < 5; k++) { hcqi_points_put(&points, &T.dev->lanes[0], 1 + k * 3 % 5); }
    CHECK(points.count == 1 && points.epoch[0] == 5);
}

/* ---- signal handles ------------------------------------------------------- */

/* A place whose serials are used up is left alone; so is a whole device slot. */
TEST(handles_never_come_again) {
    hcq_device *dev = test_open(2, NULL);
    hcq_signal last = make_signal(dev, 0), next;
    uint32_t index = hcqi_slot_index(last.id), slot = dev->slot;
    CHECK_OK(hcq_signal_destroy(last));
    dev->signals.slots[index].serial = HCQI_SERIAL_MASK - 1;
    last = make_signal(dev, 0);
    CHECK(hcqi_slot_index(last.id) == index);
    CHECK_OK(hcq_signal_destroy(last));
    for (uint32_t i = 0; i < 10; i++) {
        next = make_signal(dev, 0);
        CHECK(hcqi_slot_index(next.id) != index);
        CHECK_OK(hcq_signal_destroy(next));
    }
    const hcqi_slots signals = dev->signals, notices = dev->notices;
    dev->signals.free_head = dev->notices.free_head = 0;
    dev->signals.used = dev->notices.used = 1u << HCQI_SLOT_BITS; /* as many as there can be */
    CHECK_RESULT(hcq_signal_create(dev, 0, &next), HCQ_ERROR_LIMIT);
    CHECK_RESULT(hcq_notify(hcq_at(hcq_device_timeline(dev), 1), notify_nothing, NULL, NULL),
                 HCQ_ERROR_LIMIT);
    dev->signals = signals;
    dev->notices = notices;
    CHECK_OK(hcq_close(dev));
    CHECK(hcqi_core.serials[slot] == HCQI_SERIAL_MASK);
    hcqi_core.serials[slot] = 1000000; /* of tests to come */
}

TEST(handles_from_nowhere_find_nothing) {
    hcq_signal signal = make_signal(T.dev, 0), other;
    for (uint32_t bit = 0; bit < 64; bit++) {
        other.id = signal.id ^ (uint64_t)1 << bit;
        CHECK(!hcqi_signal_find(other));
    }
    for (uint32_t i = 0; i < 100000; i++) {
        other.id = test_random(&T.seed);
        CHECK(other.id == signal.id || !hcqi_signal_find(other));
    }
}

/* ---- the memory cache ----------------------------------------------------- */

TEST(cache_gives_up_the_oldest_first) {
    enum { COUNT = 6, SIZE = 10000 };
    hcq_buffer blocks[COUNT], again;
    hcq_device *dev = OPEN_WITH(2, .cache_bytes = 3 * (SIZE + COUNT));
    for (uint32_t i = 0; i < COUNT; i++) { /* sizes differ, so that each is known */
        CHECK_OK(hcq_alloc(dev, SIZE + i, 0, &blocks[i]));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_OK(hcq_free(blocks[i]));
    }
    CHECK_OK(hcq_trim(dev, 3 * (SIZE + COUNT)));
    for (uint32_t i = 0; i < COUNT; i++) {
        hcqi_allocation *a = hcqi_freed_find(dev, SIZE + i, 0, 0);
        CHECK((a != NULL) == (i >= 3));
    }
    CHECK(test_query(dev, HCQ_QUERY_CACHED_BYTES) == 3 * SIZE + 3 + 4 + 5);
    CHECK_OK(hcq_alloc(dev, SIZE + 4, 0, &again));
    CHECK(again.address == blocks[4].address && again.id != blocks[4].id);
    CHECK(test_query(dev, HCQ_QUERY_CACHED_BYTES) == 2 * SIZE + 3 + 5);
    CHECK_RESULT(hcq_free(blocks[4]), HCQ_ERROR_CLOSED); /* the old name is stale */
    CHECK_OK(hcq_trim(dev, 0));
    CHECK(test_query(dev, HCQ_QUERY_CACHED_BYTES) == 0 && dev->freed_head[1] == NULL);
    CHECK_OK(hcq_close(dev));
}

/* ---- the CPU backend's spinners ------------------------------------------ */

TEST_BARE(spinner_who_lost_his_turn_sends_all_to_sleep) {
    const uint64_t lost = HCQI_CPU_LOST_NS, start = 1000000; /* just booted */
    hcqi_cpu_device *d = (hcqi_cpu_device *)calloc(1, sizeof *d);
    hcqi_cpu_spin a, b;
    CHECK(d != NULL);
    hcqi_cpu_spin_begin(&a);
    CHECK(!hcqi_cpu_crowded(d, &a, start)); /* no gap before the first look */
    CHECK(!hcqi_cpu_crowded(d, &a, start + lost - 1));
    uint64_t now = start + 2 * lost - 1, end = now + lost * HCQI_CPU_TRIAL;
    CHECK(hcqi_cpu_crowded(d, &a, now));
    hcqi_cpu_spin_begin(&b);
    CHECK(hcqi_cpu_crowded(d, &b, now + 1)); /* another thread's first look */
    hcqi_cpu_spin_begin(&b);
    CHECK(hcqi_cpu_crowded(d, &b, end - 1));
    hcqi_cpu_spin_begin(&b);
    CHECK(!hcqi_cpu_crowded(d, &b, end));
    for (uint32_t trials = 2 * HCQI_CPU_TRIAL; trials <= 4 * HCQI_CPU_TRIALS; trials *= 2) {
        now = end + lost;              /* the next trial ends like this one */
        end = now + lost * (trials < HCQI_CPU_TRIALS ? trials : HCQI_CPU_TRIALS);
        CHECK(hcqi_cpu_crowded(d, &b, now));
        hcqi_cpu_spin_begin(&b);
        CHECK(hcqi_cpu_crowded(d, &b, end - 1));
        hcqi_cpu_spin_begin(&b);
        CHECK(!hcqi_cpu_crowded(d, &b, end));
    }
    now = end + UINT64_C(3600) * 1000000000; /* an hour, stopped in a debugger say */
    CHECK(hcqi_cpu_crowded(d, &b, now));
    end = now + (uint64_t)HCQI_CPU_LOST_MAX_NS * HCQI_CPU_TRIAL; /* long ago: once more few */
    hcqi_cpu_spin_begin(&a);
    CHECK(hcqi_cpu_crowded(d, &a, end - 1));
    hcqi_cpu_spin_begin(&a);
    CHECK(!hcqi_cpu_crowded(d, &a, end));
    free(d);
}

static void block_alone(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
}

/* What a block is thought to cost is no more than the whole call took. */
TEST_BARE(blocks_are_timed) {
    hcqi_cpu_device *d = (hcqi_cpu_device *)calloc(1, sizeof *d);
    hcqi_cpu_code code = {.fn = block_alone};
    hcqi_cpu_grid grid = {.fn = block_alone, .total = 1};
    CHECK(d != NULL);
    d->pool.wanted = 1;
    grid.block.grid = grid.block.block = hcq_dim(1, 1, 1);
    const uint64_t before = hcq_now_ns();
    hcqi_cpu_grid_run(d, &code, &grid);
    CHECK(code.estimate != 0 && code.estimate <= (hcq_now_ns() - before) * 1000 + 1000);
    free(d);
}

TEST_BARE(waits_on_one_cpu_yield_first_of_all) {
    hcqi_cpu_device *d = (hcqi_cpu_device *)calloc(1, sizeof *d);
    hcqi_cpu_spin spin;
    CHECK(d != NULL);
    d->cpus = 2;
    d->spin_ns = UINT64_C(3600) * 1000000000;
    for (uint32_t i = 0; i < HCQI_CPU_TOGETHER; i++) {
        hcqi_cpu_spin_pair(d, &spin, HCQI_CPU_TIGHT - 1);
        CHECK_U64(spin.together, 0);
        CHECK(hcqi_cpu_spin_turn(d, &spin)); /* its first yield */
        hcqi_cpu_spin_met(d, &spin);
    }
    hcqi_cpu_spin_pair(d, &spin, 0);
    CHECK_U64(spin.together, 1);
    CHECK(hcqi_cpu_spin_turn(d, &spin) && spin.end_ns != 0);
    CHECK(hcqi_cpu_spin_turn(d, &spin)); /* it did not help */
    hcqi_cpu_spin_met(d, &spin);
    hcqi_cpu_spin_pair(d, &spin, 0);
    CHECK_U64(spin.together, 0);
    CHECK(hcqi_cpu_spin_turn(d, &spin) && spin.end_ns == 0);
    free(d);
}

/* Of queues and of graphs: a packet is as long as a line; an engine's entry as two. */
TEST(packets_lie_on_cache_lines) {
    CHECK(sizeof(hcqi_cpu_entry) % 64 == 0 && offsetof(hcqi_cpu_entry, waits) % 64 == 0);
    CHECK(offsetof(hcqi_cpu_chunk, entries) % HCQI_CPU_LINE == 0);
    CHECK(offsetof(hcqi_cpu_lane, counters) % HCQI_CPU_LINE == 0);
    hcq_program *add = make_add(T.dev);
    hcq_buffer word = make_words(T.dev, 1);
    for (int32_t count = 16; count <= 4096; count = count * 3 / 2) {
        hcq_queue *queue = make_queue(T.dev, count % 2 ? HCQ_GRAPH : HCQ_COMPUTE);
        for (int32_t i = 0; i < count; i++) {
            CHECK_INDEX(record_add(queue, add, word, 0, 1), i);
        }
        CHECK_OK(hcq_queue_bind(queue, T.dev));
        CHECK(queue->versions && (uintptr_t)queue->versions->packets % sizeof(hcq_packet) == 0);
        hcq_queue_destroy(queue);
    }
}

/* Bytes with one hash are kept apart, equal ones together. */
TEST(equal_bytes_are_kept_once) {
    uint64_t one[2] = {1, 2}, other[2] = {3, hcqi_hash(16, 1) ^ 2 ^ hcqi_hash(16, 3)};
    const void *kept[4] = {hcqi_blob_share(T.dev, one, 16), hcqi_blob_share(T.dev, one, 16),
                           hcqi_blob_share(T.dev, other, 16), hcqi_blob_share(T.dev, one, 15)};
    CHECK(kept[0] == kept[1] && kept[2] != kept[0] && kept[3] != kept[0]);
    CHECK(((const hcqi_blob *)kept[2])[-1].hash == ((const hcqi_blob *)kept[0])[-1].hash);
    CHECK(memcmp(kept[0], one, 16) == 0 && memcmp(kept[2], other, 16) == 0);
    hcqi_enter();
    for (int i = 0; i < 4; i++) { hcqi_blob_drop(T.dev, kept[i]); }
    hcqi_leave();
}

TEST_BARE(threads_that_do_not_start) {
    hcq_sys_thread thread = {0};
    thread_error = ENOMEM;
    CHECK_RESULT(hcq_sys_thread_start(&thread), HCQ_ERROR_OUT_OF_MEMORY);
    thread_error = EAGAIN;
    CHECK_RESULT(hcq_sys_thread_start(&thread), HCQ_ERROR_NATIVE);
    CHECK(thread.handle == NULL);
    thread_error = 0;
}

static void notify_count(void *user, hcq_result result) {
    __atomic_add_fetch((uint32_t *)user, result == HCQ_OK, __ATOMIC_SEQ_CST);
}

/* A service thread is tried again by whoever waits, however often it could not start; one that
   never does hinders no close. */
TEST(service_thread_starts_later) {
    for (int later = 0; later < 2; later++) {
        hcq_device *dev = OPEN_WITH(2, .timeout_ns = later ? BOUND : SECOND / 10);
        hcq_signal s = make_signal(dev, 0);
        uint32_t calls = 0;
        thread_error = EAGAIN;         /* from here on */
        CHECK_OK(hcq_notify(hcq_at(s, 1), notify_count, &calls, NULL));
        hcqi_enter();
        hcqi_service_kick(dev);
        hcqi_leave();
        const hcq_point one = hcq_at(s, 1);
        CHECK_RESULT(hcq_wait(&one, 1, HCQ_ALL, SECOND / 20), HCQ_TIMEOUT);
        CHECK(log_has("the service thread cannot start"));
        thread_error = later ? 0 : EAGAIN;
        if (later) {
            CHECK_RESULT(hcq_wait(&one, 1, HCQ_ALL, SECOND / 20), HCQ_TIMEOUT);
            CHECK_U64(hcqi_atomic_load32(&dev->service_begun), 1);
        }
        CHECK_OK(hcq_signal_set(s, 1));
        CHECK_OK(hcq_close(dev));
        CHECK_U64(__atomic_load_n(&calls, __ATOMIC_SEQ_CST), 1);
        CHECK_U64(hcqi_core.threadless, 0);
        thread_error = 0;
    }
}

/* A thread tells its own lines, in their order, and leaves those of others. */
static uint32_t lines_told;

static void line_told(void *user, hcq_result result, const char *text) {
    (void)result;
    CHECK_U64(strtoul(text, NULL, 10), *(const uint32_t *)user + lines_told++);
}

TEST_BARE(lines_of_other_threads_stay) {
    enum { LINES = sizeof hcqi_core.messages / sizeof hcqi_core.messages[0] };
    const uint64_t me = hcqi_sys_thread_id();
    uint32_t first = LINES - 1;
    lines_told = 0;
    hcqi_enter();
    for (uint32_t i = 0; i < LINES; i++) {
        hcqi_message m = {.fn = line_told, .user = &first, .thread = i < first ? me + 1 : me};
        snprintf(m.text, sizeof m.text, "%u", i);
        hcqi_core.messages[i] = m;
    }
    hcqi_core.message_count = LINES;
    hcqi_leave();
    CHECK_U64(lines_told, 1);
    first = lines_told = 0;
    hcqi_enter();
    CHECK_U64(hcqi_core.message_count, LINES - 1);
    for (uint32_t i = 0; i < LINES - 1; i++) { hcqi_core.messages[i].thread = me; }
    hcqi_leave();
    CHECK_U64(lines_told, LINES - 1);
    CHECK_U64(hcqi_core.message_count, 0);
}

static hcq_result mix_result;          /* of opening a device with threads meanwhile */

static void *mix_open(void *user) {
    const hcq_device_desc desc = {.log_fn = hcq_log_none};
    hcq_device *dev = NULL;
    (void)user;
    mix_result = hcq_open("CPU:1", &desc, &dev);
    CHECK_OK(hcq_close(dev));
    return NULL;
}

static void *mix_alloc(void *user, size_t size, size_t align) {
    if (hcqi_core.await_fn && mix_result == HCQ_NOT_READY) {
        pthread_t thread;
        CHECK((pthread_create)(&thread, NULL, mix_open, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return test_hook_alloc(user, size, align);
}

/* While a device with a seed is being opened none with threads can be. */
TEST_BARE(seeds_and_threads_opened_together) {
    struct hcq_cpu_desc cpu = {.seed = 1};
    hcq_device_desc desc = {.memory = {mix_alloc, test_hook_free, &T.memory}, .cpu = &cpu};
    hcq_device *dev;
    mix_result = HCQ_NOT_READY;
    CHECK_OK(hcq_open("CPU", &desc, &dev));
    CHECK_RESULT(mix_result, HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_close(dev));
}

static uint32_t big_locked;            /* atomic: calls for long arrays, with the lock held */

static void big_note(size_t size, size_t align) {
    int held = hcqi_atomic_load64(&hcqi_core.owner) == hcqi_sys_thread_id();
    hcqi_atomic_add32(&big_locked, held && size >= 65536 && align != HCQI_CHUNK);
}

static void *big_alloc(void *user, size_t size, size_t align) {
    big_note(size, align);
    return hcqi_malloc(user, size, align);
}

static void big_free(void *user, void *ptr, size_t size) {
    big_note(size, size == HCQI_CHUNK ? HCQI_CHUNK : 1);
    hcqi_mfree(user, ptr, size);
}

/* What is as long as a recording is made, copied and freed while others get the lock. */
TEST(long_arrays_are_nobodys_wait) {
    enum { COUNT = 5000 };
    hcq_device *dev = OPEN_WITH(2, .memory = {big_alloc, big_free, &T.memory});
    hcq_program *add = make_add(dev);
    hcq_buffer word = make_words(dev, 1);
    hcq_queue *q = make_queue(dev, HCQ_COMPUTE), *graph = make_queue(dev, HCQ_GRAPH);
    hcq_queue *copy = make_queue(dev, HCQ_COMPUTE);
    for (int32_t i = 0; i < COUNT; i++) {
        CHECK_INDEX(record_add(q, add, word, 0, 1), i);
        CHECK_OK(hcq_queue_variable(q, i, HCQ_PART_GRID_X, 1, 0));
        CHECK_OK(hcq_queue_access(q, i, word, HCQ_ARG_IN));
        CHECK_INDEX(record_add(graph, add, word, 0, 1), i);
        CHECK_OK(i == 0 ? HCQ_OK : hcq_graph_edge(graph, i - 1, i));
    }
    CHECK_INDEX(hcq_queue_append(copy, q), 0);
    CHECK_OK(hcq_queue_bind(copy, dev));
    hcq_queue_destroy(q);
    hcq_queue_destroy(copy);
    CHECK_U64(hcqi_atomic_load32(&big_locked), 0);
    CHECK_OK(hcq_close(dev));
}

/* Each CPU that the process may use is picked once, in their order, and no other. */
TEST_BARE(cpus_are_picked_in_order) {
    uintptr_t all[HCQI_SYS_CPU_WORDS] = {0}, one[HCQI_SYS_CPU_WORDS], mask[HCQI_SYS_CPU_WORDS];
    const size_t word = 8 * sizeof all[0], size = HCQI_SYS_CPU_WORDS * word;
    uint32_t number = 0, count;
    CHECK(sched_getaffinity(0, sizeof all, (cpu_set_t *)all) == 0);
    count = (uint32_t)CPU_COUNT_S(sizeof all, (cpu_set_t *)all);
    for (size_t i = 0; i <= size; i++) { /* at its end: one more than there are */
        uintptr_t bit = i < size ? all[i / word] & (uintptr_t)1 << i % word : 0;
        if (i < size && bit == 0) { continue; }
        memset(one, 0, sizeof one);
        one[i < size ? i / word : 0] = bit;
        CHECK_U64(hcqi_sys_cpu_pick(mask, number++), count);
        CHECK(memcmp(mask, one, sizeof mask) == 0);
    }
}

static uint32_t spins, spin_ends;

static void spin(const void *args, const hcq_block *block) {
    (void)args, (void)block;
    hcqi_atomic_store32(&spins, 1);
    while (!hcqi_atomic_load32(&spin_ends)) { sched_yield(); }
}

/* What has no commands, behind another device's work, is no use of the first device. */
TEST_BARE(empty_work_holds_up_no_close) {
    hcq_device *first = OPEN_WITH(0, .timeout_ns = 5 * SECOND), *second = test_open(1, NULL);
    hcq_program *program;
    hcq_program_desc desc = HCQ_CPU_PROGRAM("spin", spin);
    hcq_queue *slow = make_queue(second, HCQ_COMPUTE);
    CHECK_U64(first->slot, 0);
    CHECK_OK(hcq_program_create(second, &desc, &program));
    CHECK_INDEX(hcq_queue_exec(slow, program, NULL, 0, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 0);
    CHECK_OK(hcq_queue_submit(slow, second, NULL));
    CHECK_OK(submit_lists(second, NULL, NULL, 0, NULL));
    while (!hcqi_atomic_load32(&spins)) { sched_yield(); }
    CHECK_OK(hcq_close(first));
    hcqi_atomic_store32(&spin_ends, 1);
    CHECK_OK(hcq_close(second));
}

/* What is submitted counts, what is held, and what this submission has put there. */
TEST_BARE(load_of_a_lane) {
    static hcqi_submit s;
    hcqi_lane lane = {.running = 3, .held = 2};
    s.count = 2;
    s.lanes[1] = &lane;
    CHECK_U64(hcqi_lane_load(&lane, &s), 6);
}

/* A backend that posts to a lane that it did not ask for is told. */
TEST(posts_to_lanes_that_are_not_there) {
    hcq_point point;
    hcqi_enter();
    hcq_result result = hcq_backend_post(T.dev, T.dev->caps.imported_lanes, 1, &point);
    hcqi_leave();
    CHECK_RESULT(result, HCQ_ERROR_INVALID);
}

/* A registry of a program's own, that has nothing. */
TEST_BARE(nobody_has_the_name) {
    static const hcq_registry none;
    char text[100];
    hcqi_text t;
    hcqi_text_begin(&t, text, sizeof text);
    hcqi_enter();
    hcqi_name_unknown(&t, &none, "CPU");
    hcqi_leave();
    CHECK(strcmp(text, "no backend has it; there is none") == 0);
}

int main(int argc, char **argv) {
    (void)argc;
    return test_main(1, argv);
}
