/* unit.c - the core's small pieces one by one, by their internal names: heap,
   failed ranges, counter windows, object pools, signal handles, the memory
   cache, spinners. The suites of the public API cannot reach their corners on
   purpose. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "../../hcq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t limit) { /* splitmix64 */
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

/* ---- the waiters' heap ---------------------------------------------------- */

/* Bursts of inserts, whose values are near each other or far apart, with pops
   and removals from anywhere between them: each pop gives the smallest. */
static void heap_sorts_bursts(void **state) {
    enum { COUNT = 2000 };
    static hcqi_waiter waiters[COUNT];
    static int inside[COUNT];
    hcqi_waiter *heap = NULL;
    uint64_t last = 0, live = 0;
    (void)state;
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
            assert_true(top->value >= last && inside[top - waiters]);
            last = top->value;
            hcqi_heap_remove(&heap, top);
            inside[top - waiters] = 0;
            live--;
        }
        last = heap == NULL ? 0 : last;
        assert_true((heap == NULL) == (live == 0));
    }
}

/* ---- failed numbers ------------------------------------------------------- */

static hcq_device failures_device(uint32_t ranges) {
    hcq_device dev;
    memset(&dev, 0, sizeof dev);
    dev.hooks = hcqi_hooks(NULL);
    dev.desc.failure_ranges = ranges;
    return dev;
}

static void failures_join_neighbours(void **state) {
    hcq_device dev = failures_device(100);
    hcqi_failures f;
    (void)state;
    memset(&f, 0, sizeof f);
    for (uint64_t i = 0; i < 2000; i++) { /* down, up, and the one between them */
        hcqi_failures_add(&dev, &f, i < 1000 ? 3000 - i : 1000 + i % 1000, HCQ_ERROR_HOST);
    }
    assert_int_equal(f.count, 2);
    hcqi_failures_add(&dev, &f, 2000, HCQ_ERROR_HOST);
    assert_int_equal(f.count, 1);
    hcqi_failures_free(&dev, &f);
}

/* Against a table of all numbers, added roughly in order; what is forgotten was the
   oldest, and is told. */
static void failures_are_exact(void **state) {
    enum { COUNT = 4000 };
    static hcq_result failed[COUNT];
    (void)state;
    for (uint32_t ranges = 1; ranges <= 1000; ranges *= 10) {
        hcq_device dev = failures_device(ranges);
        hcqi_failures f;
        memset(&f, 0, sizeof f);
        memset(failed, 0, sizeof failed);
        for (uint32_t round = 1; round < 1200; round++) {
            uint32_t number = round * 3 + random_below(40);
            hcq_result result = random_below(4) ? HCQ_ERROR_HOST : HCQ_ERROR_LOST;
            if (failed[number]) {
                continue;
            }
            failed[number] = result;
            hcqi_failures_add(&dev, &f, number, result);
            assert_true(f.count <= ranges);
            for (uint32_t i = 1; i < COUNT && round % 7 == 0; i++) {
                hcq_result want = i <= f.forgotten ? HCQ_ERROR_LIMIT : failed[i];
                assert_int_equal(hcqi_failures_find(&f, i), want);
            }
        }
        assert_true(ranges < 1000 || f.forgotten == 0);
        hcqi_failures_free(&dev, &f);
    }
}

static void *no_memory(void *user, size_t size, size_t align) {
    (void)user;
    (void)size;
    (void)align;
    return NULL;
}

/* Without memory for a range nobody guesses. */
static void failures_without_memory(void **state) {
    hcq_device dev = failures_device(100);
    hcqi_failures f;
    (void)state;
    memset(&f, 0, sizeof f);
    for (uint64_t number = 10; number < 20; number += 2) {
        hcqi_failures_add(&dev, &f, number, HCQ_ERROR_HOST);
    }
    dev.hooks.alloc_fn = no_memory;
    for (uint64_t number = 20; number < 60; number += 2) {
        hcqi_failures_add(&dev, &f, number, HCQ_ERROR_HOST);
    }
    assert_int_equal(f.capacity, 16);
    for (uint64_t number = 1; number < 70; number++) {
        hcq_result real = number >= 10 && number < 60 && number % 2 == 0 ? HCQ_ERROR_HOST : HCQ_OK;
        assert_int_equal(hcqi_failures_find(&f, number), number <= 26 ? HCQ_ERROR_LIMIT : real);
    }
    hcqi_failures_free(&dev, &f);
    hcqi_failures_add(&dev, &f, 5, HCQ_ERROR_HOST); /* not even for the first */
    assert_int_equal(hcqi_failures_find(&f, 5), HCQ_ERROR_LIMIT);
    assert_int_equal(hcqi_failures_find(&f, 6), HCQ_OK);
}

/* ---- counter windows ------------------------------------------------------ */
/* A lane on a device whose "hardware" completes epochs when the test says so.
   It remembers for each epoch which counter gets which value. */

enum { EPOCHS = 20000 };

static struct {
    hcq_lane_point points[EPOCHS + 1];
    uint64_t counters[2];
    uint64_t handed, complete;
    uint32_t resets;
} machine;

static uint64_t machine_completed(void *self, hcq_lane *lane, uint32_t counter) {
    (void)self;
    (void)lane;
    return machine.counters[counter];
}

static void machine_reset(void *self, hcq_lane *lane, uint32_t counter) {
    (void)self;
    (void)lane;
    machine.counters[counter] = 0;
    machine.resets++;
}

static void machine_run(uint64_t epochs) {
    for (; epochs > 0 && machine.complete < machine.handed; epochs--) {
        const hcq_lane_point *point = &machine.points[++machine.complete];
        assert_true(point->value > machine.counters[point->counter]);
        machine.counters[point->counter] = point->value;
    }
}

static void machine_hand_over(hcqi_lane *lane) {
    hcq_lane_point point = hcqi_lane_point(lane, lane->epoch + 1);
    assert_true(point.epoch == lane->epoch + 1);
    assert_true(point.value >= 1 && point.value <= lane->limit);
    lane->epoch++;
    machine.points[++machine.handed] = point;
}

/* Every point that is not known to be reached means the same epoch as when it
   was handed over, however many swaps ago. */
static void machine_check(hcqi_lane *lane) {
    hcqi_reap(lane);
    assert_true(lane->done == machine.complete);
    for (uint64_t epoch = lane->done + 1; epoch <= lane->epoch; epoch++) {
        hcq_lane_point now = hcqi_lane_point(lane, epoch);
        assert_int_equal(now.counter, machine.points[epoch].counter);
        assert_true(now.value == machine.points[epoch].value);
        assert_true(machine.counters[now.counter] < now.value);
    }
}

static void counters_swap(uint64_t limit, uint32_t swaps_at_least) {
    static hcq_device dev;
    static hcq_backend backend;
    hcqi_lane *lane = &dev.lanes[0];
    uint32_t refused = 0;
    memset(&dev, 0, sizeof dev);
    memset(&machine, 0, sizeof machine);
    backend.completed = machine_completed;
    backend.counter_reset = machine_reset;
    dev.backend = &backend;
    dev.lane_count = 1;
    lane->dev = &dev;
    lane->limit = limit;
    hcqi_core.devices[0] = &dev;
    hcqi_core.device_top = 1;
    while (machine.handed < EPOCHS) {
        if (random_below(3) != 0 && hcqi_lane_reserve(lane)) {
            machine_hand_over(lane);
        } else {
            refused += lane->epoch != lane->done;
            machine_run(1 + random_below(4));
        }
        machine_check(lane);
    }
    machine_run(EPOCHS);
    machine_check(lane);
    assert_true(dev.swaps == machine.resets);
    assert_true(machine.resets >= swaps_at_least);
    assert_true(refused != 0);
    hcqi_core.devices[0] = NULL;
    hcqi_core.device_top = 0;
    hcqi_core.changed = 0;
}

static void counters_keep_their_meaning(void **state) {
    (void)state;
    counters_swap(1, EPOCHS - 1);
    counters_swap(2, EPOCHS / 2 - 1);
    counters_swap(7, EPOCHS / 7 - 1);
    counters_swap(1000, EPOCHS / 1000 - 1);
    counters_swap(HCQI_MAX_VALUE, 0);
}

/* ---- pools ---------------------------------------------------------------- */

typedef struct { uint64_t blocks, bytes, refuse; } hook_state;

static void *hook_alloc(void *user, size_t size, size_t align) {
    hook_state *h = (hook_state *)user;
    void *memory = NULL;
    if (h->refuse || posix_memalign(&memory, align < 16 ? 16 : align, size) != 0) {
        return NULL;
    }
    h->blocks++;
    h->bytes += size;
    return memory;
}

static void hook_free(void *user, void *ptr, size_t size) {
    hook_state *h = (hook_state *)user;
    h->blocks--;
    h->bytes -= size;
    free(ptr);
}

static void pools_give_back_what_a_burst_took(void **state) {
    enum { COUNT = 5000 };
    static hcq_device dev;
    static void *items[COUNT];
    static hook_state hooks;
    hcqi_pool pool;
    (void)state;
    memset(&pool, 0, sizeof pool);
    dev.hooks.alloc_fn = hook_alloc;
    dev.hooks.free_fn = hook_free;
    dev.hooks.user = &hooks;
    assert_true(hcqi_pool_init(&pool, &dev, 100, 50));
    uint64_t first = hooks.blocks;
    assert_true(first > 0);
    assert_true(hcqi_pool_reserve(&pool, COUNT));
    assert_true(hooks.blocks > first);
    hooks.refuse = 1; /* reserved is reserved */
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = hcqi_pool_get(&pool);
        assert_int_equal((uintptr_t)items[i] % 8, 0);
        memset(items[i], (int)(i & 0xff), 100);
    }
    assert_false(hcqi_pool_reserve(&pool, pool.available + 1));
    for (uint32_t i = 0; i < COUNT; i++) { /* nobody wrote into anybody else's */
        uint32_t at = i * 7 % COUNT;
        const unsigned char *bytes = (const unsigned char *)items[at];
        assert_int_equal(bytes[0], at & 0xff);
        assert_int_equal(bytes[99], at & 0xff);
        hcqi_pool_put(&pool, items[at]);
    }
    assert_true(hooks.blocks == first);
    for (uint32_t i = 0; i < 50; i++) {
        items[i] = hcqi_pool_get(&pool);
    }
    hcqi_pool_put(&pool, items[0]);
    hcqi_pool_destroy(&pool);
    assert_true(hooks.blocks == 0 && hooks.bytes == 0);
}

/* ---- signal handles ------------------------------------------------------- */

static hcq_device *open_cpu(uint64_t cache_bytes) {
    hcq_device_desc desc;
    hcq_device *dev = NULL;
    memset(&desc, 0, sizeof desc);
    desc.cache_bytes = cache_bytes;
    assert_int_equal(hcq_open("CPU", &desc, &dev), HCQ_OK);
    return dev;
}

/* A place whose serials are used up is left alone; so is a whole device slot. */
static void handles_never_come_again(void **state) {
    hcq_device *dev = open_cpu(0);
    hcq_signal last, next;
    (void)state;
    assert_int_equal(hcq_signal_create(dev, 0, &last), HCQ_OK);
    uint32_t index = hcqi_slot_index(last.id);
    assert_int_equal(hcq_signal_destroy(last), HCQ_OK);
    dev->signals.slots[index].serial = HCQI_SERIAL_MASK - 1;
    assert_int_equal(hcq_signal_create(dev, 0, &last), HCQ_OK);
    assert_true(hcqi_slot_index(last.id) == index);
    assert_int_equal(hcq_signal_destroy(last), HCQ_OK);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(hcq_signal_create(dev, 0, &next), HCQ_OK);
        assert_true(hcqi_slot_index(next.id) != index);
        assert_int_equal(hcq_signal_destroy(next), HCQ_OK);
    }
    uint32_t slot = dev->slot;
    assert_int_equal(hcq_close(dev), HCQ_OK);
    assert_true(hcqi_core.serials[slot] == HCQI_SERIAL_MASK);
    hcqi_core.serials[slot] = 1000000; /* of tests to come */
}

static void handles_from_nowhere_find_nothing(void **state) {
    hcq_device *dev = open_cpu(0);
    hcq_signal signal, other;
    (void)state;
    assert_int_equal(hcq_signal_create(dev, 0, &signal), HCQ_OK);
    for (uint32_t bit = 0; bit < 64; bit++) {
        other.id = signal.id ^ (uint64_t)1 << bit;
        assert_null(hcqi_signal_find(other));
    }
    for (uint32_t i = 0; i < 100000; i++) {
        other.id = (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
        assert_true(other.id == signal.id || hcqi_signal_find(other) == NULL);
    }
    assert_int_equal(hcq_close(dev), HCQ_OK);
}

/* ---- the memory cache ----------------------------------------------------- */

static uint64_t cached(hcq_device *dev) {
    uint64_t bytes = 0;
    assert_int_equal(hcq_device_query(dev, HCQ_QUERY_CACHED_BYTES, &bytes), HCQ_OK);
    return bytes;
}

static hcq_buffer block_of(hcq_device *dev, uint64_t size, uint32_t flags) {
    hcq_buffer buffer;
    assert_int_equal(hcq_alloc(dev, size, flags, &buffer), HCQ_OK);
    return buffer;
}

static void cache_gives_up_the_oldest_first(void **state) {
    enum { COUNT = 6, SIZE = 10000 };
    hcq_device *dev = open_cpu(3 * (SIZE + COUNT));
    hcq_buffer blocks[COUNT];
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) { /* sizes differ, so that each is known */
        blocks[i] = block_of(dev, SIZE + i, 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(hcq_free(blocks[i]), HCQ_OK);
    }
    assert_int_equal(hcq_trim(dev, 3 * (SIZE + COUNT)), HCQ_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        hcqi_allocation *a = hcqi_freed_find(dev, SIZE + i, 0);
        assert_true((a != NULL) == (i >= 3));
    }
    assert_true(cached(dev) == 3 * SIZE + 3 + 4 + 5);
    hcq_buffer again = block_of(dev, SIZE + 4, 0);
    assert_true(again.address == blocks[4].address && again.id != blocks[4].id);
    assert_true(cached(dev) == 2 * SIZE + 3 + 5);
    assert_int_equal(hcq_free(blocks[4]), HCQ_ERROR_CLOSED); /* the old name is stale */
    assert_int_equal(hcq_trim(dev, 0), HCQ_OK);
    assert_true(cached(dev) == 0 && dev->freed[0].head == NULL && dev->freed[1].head == NULL);
    assert_int_equal(hcq_close(dev), HCQ_OK);
}

/* ---- the CPU backend's spinners ------------------------------------------ */

static void spinner_who_lost_his_turn_sends_all_to_sleep(void **state) {
    const uint64_t lost = HCQI_CPU_LOST_NS, start = 1000000000;
    hcqi_cpu_device *d = (hcqi_cpu_device *)calloc(1, sizeof *d);
    hcqi_cpu_spin a, b;
    (void)state;
    assert_non_null(d);
    hcqi_cpu_spin_begin(&a);
    assert_false(hcqi_cpu_crowded(d, &a, start)); /* no gap before the first look */
    assert_false(hcqi_cpu_crowded(d, &a, start + lost - 1));
    uint64_t now = start + 2 * lost - 1, end = now + lost * HCQI_CPU_TRIALS;
    assert_true(hcqi_cpu_crowded(d, &a, now));
    hcqi_cpu_spin_begin(&b);
    assert_true(hcqi_cpu_crowded(d, &b, now + 1)); /* another thread's first look */
    hcqi_cpu_spin_begin(&b);
    assert_true(hcqi_cpu_crowded(d, &b, end - 1));
    hcqi_cpu_spin_begin(&b);
    assert_false(hcqi_cpu_crowded(d, &b, end));
    now = end + UINT64_C(3600) * 1000000000; /* an hour, stopped in a debugger say */
    assert_true(hcqi_cpu_crowded(d, &b, now));
    hcqi_cpu_spin_begin(&a);
    assert_false(hcqi_cpu_crowded(d, &a, now + UINT64_C(2000000000)));
    free(d);
}

static void waits_on_one_cpu_yield_first_of_all(void **state) {
    hcqi_cpu_device *d = (hcqi_cpu_device *)calloc(1, sizeof *d);
    hcqi_cpu_spin spin;
    (void)state;
    assert_non_null(d);
    d->cpus = 2;
    d->spin_ns = UINT64_C(3600) * 1000000000;
    for (uint32_t i = 0; i < HCQI_CPU_TOGETHER; i++) {
        hcqi_cpu_spin_pair(d, &spin, HCQI_CPU_TIGHT - 1);
        assert_int_equal(spin.together, 0);
        assert_true(hcqi_cpu_spin_turn(d, &spin)); /* its first yield */
        hcqi_cpu_spin_met(d, &spin);
    }
    hcqi_cpu_spin_pair(d, &spin, 0);
    assert_int_equal(spin.together, 1);
    assert_true(hcqi_cpu_spin_turn(d, &spin) && spin.end_ns != 0);
    assert_true(hcqi_cpu_spin_turn(d, &spin)); /* it did not help */
    hcqi_cpu_spin_met(d, &spin);
    hcqi_cpu_spin_pair(d, &spin, 0);
    assert_int_equal(spin.together, 0);
    assert_true(hcqi_cpu_spin_turn(d, &spin) && spin.end_ns == 0);
    free(d);
}

static void nothing(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
}

/* Of queues and of graphs: a packet is as long as a line. */
static void packets_lie_on_cache_lines(void **state) {
    hcq_device *device;
    hcq_program *program;
    hcq_program_desc desc;
    (void)state;
    memset(&desc, 0, sizeof desc);
    desc.cpu = nothing;
    assert_int_equal(hcq_open("CPU", NULL, &device), HCQ_OK);
    assert_int_equal(hcq_program_create(device, &desc, &program), HCQ_OK);
    for (int32_t count = 16; count <= 4096; count = count * 3 / 2) {
        hcq_queue_kind kind = count % 2 ? HCQ_GRAPH : HCQ_COMPUTE;
        hcq_queue *queue;
        assert_int_equal(hcq_queue_create(device, kind, &queue), HCQ_OK);
        for (int32_t i = 0; i < count; i++) {
            assert_int_equal(hcq_queue_exec(queue, program, NULL, 0, hcq_dim(1, 1, 1),
                                            hcq_dim(1, 1, 1)), i);
        }
        assert_int_equal(hcq_queue_bind(queue, device), HCQ_OK);
        assert_non_null(queue->versions);
        assert_int_equal((uintptr_t)queue->versions->packets % sizeof(hcq_packet), 0);
        hcq_queue_destroy(queue);
    }
    hcq_program_destroy(program);
    assert_int_equal(hcq_close(device), HCQ_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_sorts_bursts),
        cmocka_unit_test(failures_join_neighbours),
        cmocka_unit_test(failures_are_exact),
        cmocka_unit_test(failures_without_memory),
        cmocka_unit_test(counters_keep_their_meaning),
        cmocka_unit_test(pools_give_back_what_a_burst_took),
        cmocka_unit_test(handles_never_come_again),
        cmocka_unit_test(handles_from_nowhere_find_nothing),
        cmocka_unit_test(cache_gives_up_the_oldest_first),
        cmocka_unit_test(spinner_who_lost_his_turn_sends_all_to_sleep),
        cmocka_unit_test(waits_on_one_cpu_yield_first_of_all),
        cmocka_unit_test(packets_lie_on_cache_lines),
    };
    return cmocka_run_group_tests_name("unit", tests, NULL, NULL);
}
