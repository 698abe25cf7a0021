/* schedules.c - the lock-free code of hcq.h and hcq_cpu.h in every order.

       schedules [--full] [-v] [NAME]

   The headers are compiled as they are; scheduler.h says how and what it sees.
   Some programs call a protocol's own functions, the others hcq's API, with the
   opening and closing of the device left out of the branching. The first ones
   are wrong on purpose: what must be seen if anything is to be. */
#define _GNU_SOURCE
#include "scheduler.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* All threads are one to the system: what is each thread's own is exchanged. */
#define __thread __attribute__((section("hcq_thread")))
#define memcpy schedule_memcpy
#define memmove schedule_memmove
#define memset schedule_memset
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "hcq.h"

/* ---- what must be seen ----------------------------------------------------- */

static uint32_t flag_a, flag_b, word;
static uint32_t data;                  /* plain */
static int first;                      /* thread */

/* Runs two or three threads in every order. */
static void together(void (*a)(void), void (*b)(void), void (*c)(void)) {
    int second, third = 0;
    flag_a = 0;
    flag_b = 0;
    word = 0;
    data = 0;
    schedule_name(&flag_a, "flag_a");
    schedule_name(&flag_b, "flag_b");
    schedule_name(&word, "word");
    schedule_name(&data, "data");
    first = schedule_start(a, "first");
    second = schedule_start(b, "second");
    if (c) { third = schedule_start(c, "third"); }
    schedule_branch(1);
    schedule_join(first);
    schedule_join(second);
    if (c) { schedule_join(third); }
    schedule_branch(0);
}

/* Each says that it is there and looks at the other. */
static int swaps_a, swaps_b;
static uint32_t saw_a, saw_b;

static uint32_t say_and_look(uint32_t *mine, const uint32_t *theirs, int swaps) {
    if (swaps) {
        hcqi_atomic_swap32(mine, 1);
    } else {
        hcqi_atomic_store32(mine, 1);
    }
    return hcqi_atomic_load32(theirs);
}

static void dekker_a(void) {
    saw_b = say_and_look(&flag_a, &flag_b, swaps_a);
}

static void dekker_b(void) {
    saw_a = say_and_look(&flag_b, &flag_a, swaps_b);
}

static void dekker(int a, int b) {
    swaps_a = a;
    swaps_b = b;
    together(dekker_a, dekker_b, NULL);
    SCHEDULE_CHECK(saw_a || saw_b);
}

static void dekker_stores(void) { dekker(0, 0); }
static void dekker_half(void) { dekker(0, 1); }
static void dekker_swaps(void) { dekker(1, 1); }

static void tell(void) {
    data = 7;
    hcqi_atomic_store32(&flag_a, 1);
}

static void tell_relaxed(void) {
    data = 7;
    __atomic_store_n(&flag_a, 1, __ATOMIC_RELAXED);
}

static void hear(void) {
    while (!hcqi_atomic_load32(&flag_a)) { }
    SCHEDULE_CHECK(data == 7);
}

static void message(void) { together(tell, hear, NULL); }
static void message_relaxed(void) { together(tell_relaxed, hear, NULL); }

static void nap(void) {
    while (!hcqi_atomic_load32(&flag_a)) { hcq_sys_wait(&word, 0, HCQ_FOREVER); }
}

static void wake_only(void) {
    hcqi_atomic_swap32(&flag_a, 1);
    hcq_sys_wake(&word, 1);
}

static void wake_word(void) {
    hcqi_atomic_swap32(&flag_a, 1);
    hcqi_atomic_swap32(&word, 1);
    hcq_sys_wake(&word, 1);
}

static void wake_lost(void) { together(nap, wake_only, NULL); }
static void wake_kept(void) { together(nap, wake_word, NULL); }

/* ---- the core's lock and event --------------------------------------------- */

static hcqi_mutex lock;

static void locked_add(void) {
    hcqi_mutex_lock(&lock);
    data++;
    hcqi_mutex_unlock(&lock);
}

static void mutex(void) {
    lock.word = 0;
    schedule_name(&lock.word, "lock");
    together(locked_add, locked_add, NULL);
    SCHEDULE_CHECK(data == 2 && lock.word == 0);
}

static void mutex_three(void) {
    lock.word = 0;
    schedule_name(&lock.word, "lock");
    together(locked_add, locked_add, locked_add);
    SCHEDULE_CHECK(data == 3 && lock.word == 0);
}

static void event_wait(void) {
    hcqi_enter();
    while (!data) { hcqi_event_wait(HCQ_FOREVER); }
    hcqi_leave();
}

static void event_tell(void) {
    hcqi_enter();
    data = 1;
    hcqi_core.changed = 1;
    hcqi_leave();
}

static void core_begin(void) {
    memset(&hcqi_core, 0, sizeof hcqi_core);
    schedule_name(&hcqi_core.lock.word, "lock");
    schedule_name(&hcqi_core.owner, "owner");
    schedule_name(&hcqi_core.event, "event");
}

static void event(void) {
    core_begin();
    together(event_wait, event_tell, NULL);
}

/* ---- counters -------------------------------------------------------------- */

static hcqi_cpu_counter counter;

static void counter_begin(void) {
    memset(&counter, 0, sizeof counter);
    counter.wanted = UINT64_MAX;
    schedule_name(&counter.value, "value");
    schedule_name(&counter.wanted, "wanted");
    schedule_name(&counter.sequence, "sequence");
}

static void raise_twice(void) {
    hcqi_cpu_counter_raise(&counter, 1);
    data = 7;
    hcqi_cpu_counter_raise(&counter, 2);
}
static void sleep_for_1(void) {
    SCHEDULE_CHECK(hcqi_cpu_counter_sleep(&counter, 1, HCQ_FOREVER) == HCQ_OK);
}
static void sleep_for_2(void) {
    SCHEDULE_CHECK(hcqi_cpu_counter_sleep(&counter, 2, HCQ_FOREVER) == HCQ_OK);
    SCHEDULE_CHECK(data == 7);
}
static void sleep_for_a_while(void) {
    hcqi_cpu_counter_sleep(&counter, 1, hcq_sys_now_ns() + 100000);
}

static void counter_one(void) {
    counter_begin();
    together(raise_twice, sleep_for_2, NULL);
}
/* The second raise comes only because somebody saw the first. */
static void raise_after(void) {
    hcqi_cpu_counter_raise(&counter, 1);
    schedule_join(first);
    data = 7;
    hcqi_cpu_counter_raise(&counter, 2);
}
static void counter_two(void) {
    counter_begin();
    together(sleep_for_1, raise_after, sleep_for_2);
}
static void counter_timed(void) {
    counter_begin();
    together(raise_twice, sleep_for_2, sleep_for_a_while);
}

/* ---- an engine ------------------------------------------------------------- */
/* The backend's own functions, with just enough of a device around them. */

static hcq_device around;
static hcqi_cpu_device *cpu;
static hcqi_lane lanes[2];
static hcq_job job;
static hcqi_cpu_code code;
static hcq_packet packet;
static hcq_recording recording;
static uint32_t input, output, ran, posted[2];

static void kernel(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
    output = input + 1;
    ran++;
}

static void cpu_open(uint32_t workers, uint64_t spin_ns) {
    hcq_device_desc desc;
    struct hcq_cpu_desc own;
    hcq_backend_caps caps;
    void *self;
    core_begin();
    memset(&around, 0, sizeof around);
    memset(&own, 0, sizeof own);
    memset(&desc, 0, sizeof desc);
    memset(&caps, 0, sizeof caps);
    memset(lanes, 0, sizeof lanes);
    memset(&job, 0, sizeof job);
    input = 0;
    output = 0;
    ran = 0;
    memset(posted, 0, sizeof posted);
    code.fn = kernel;
    recording.packets = &packet;
    packet.kind = HCQ_COMMAND_EXEC;
    packet.u.exec.code = &code;
    for (int i = 0; i < 3; i++) {
        packet.u.exec.grid[i] = 1;
        packet.u.exec.block[i] = 1;
    }
    around.hooks.alloc_fn = schedule_alloc;
    around.hooks.free_fn = schedule_free;
    own.workers = workers ? workers : HCQ_CPU_NONE;
    desc.cpu = &own;
    desc.spin_ns = spin_ns ? spin_ns : HCQ_KEEP;
    desc.compute_lanes = 2;
    SCHEDULE_CHECK(hcqi_cpu_open(NULL, &around, 0, &desc, &caps, &self) == HCQ_OK);
    cpu = (hcqi_cpu_device *)self;
    schedule_name(&cpu->active, "active");
    schedule_name(&cpu->pool.gate, "gate");
    schedule_name(&cpu->pool.bell, "bell");
    schedule_name(&cpu->pool.asleep, "asleep");
    schedule_name(&cpu->pool.stop, "stop");
    schedule_name(&cpu->engines[0].sleeping, "sleeping");
    schedule_name(&cpu->engines[0].posted, "posted");
    schedule_name(&cpu->engines[0].stop, "stop");
    schedule_name(&cpu->engines[0].drained, "drained");
}

static void cpu_lane_open(uint32_t index) {
    hcqi_cpu_counter *c;
    lanes[index].base.kind = HCQ_COMPUTE;
    lanes[index].base.index = index;
    SCHEDULE_CHECK(hcqi_cpu_lane_open(cpu, &lanes[index].base) == HCQ_OK);
    c = hcqi_cpu_counter_of(&lanes[index].base, 0);
    schedule_name(&c->value, index ? "value 1" : "value 0");
    schedule_name(&c->wanted, index ? "wanted 1" : "wanted 0");
    schedule_name(&c->sequence, index ? "sequence 1" : "sequence 0");
    schedule_name(&cpu->engines[index].head->entries[0].ready, "ready");
}

/* As the core does: with its lock, and rings after it. */
static void cpu_submit(uint32_t index, const hcq_lane_point *wait) {
    hcq_batch batch;
    hcq_result result;
    hcqi_enter();
    memset(&batch, 0, sizeof batch);
    batch.recording = &recording;
    batch.count = 1;
    batch.job = &job;
    batch.waits = wait;
    batch.wait_count = wait ? 1 : 0;
    batch.done.lane = &lanes[index].base;
    batch.done.value = ++posted[index];
    result = hcqi_cpu_submit(cpu, &lanes[index].base, &batch);
    hcqi_unlock();
    SCHEDULE_CHECK(result == HCQ_OK || result == HCQ_NOT_READY);
    if (result == HCQ_NOT_READY) { hcqi_cpu_flush(cpu); }
}

static void cpu_wait(uint32_t index, uint64_t value) {
    SCHEDULE_CHECK(hcqi_cpu_wait(cpu, &lanes[index].base, 0, value, HCQ_FOREVER, 0) == HCQ_OK);
}

static void engine_once(void) {
    cpu_open(0, 0);
    cpu_lane_open(0);
    schedule_branch(1);
    input = 41;
    cpu_submit(0, NULL);
    cpu_wait(0, 1);
    SCHEDULE_CHECK(output == 42);
    hcqi_cpu_lane_close(cpu, &lanes[0].base);
    schedule_branch(0);
}

static void engine_twice(void) {
    cpu_open(0, 0);
    cpu_lane_open(0);
    schedule_settle();
    schedule_branch(1);
    cpu_submit(0, NULL);
    cpu_submit(0, NULL);
    cpu_wait(0, 2);
    SCHEDULE_CHECK(ran == 2);
    schedule_branch(0);
    hcqi_cpu_lane_close(cpu, &lanes[0].base);
}

static void submit_one(void) {
    cpu_submit(0, NULL);
}

static void engine_shared(void) {
    cpu_open(0, 0);
    cpu_lane_open(0);
    schedule_settle();
    schedule_branch(1);
    int other = schedule_start(submit_one, "other");
    submit_one();
    cpu_wait(0, 2);
    SCHEDULE_CHECK(ran == 2);
    schedule_join(other);
    schedule_branch(0);
    hcqi_cpu_lane_close(cpu, &lanes[0].base);
}

/* The last entry of a chunk, and the first of the next, which is in use again. */
static void engine_chunk(void) {
    uint32_t last = HCQI_CPU_CHUNK - 1, lap = 2 * HCQI_CPU_LAP;
    cpu_open(0, 0);
    cpu_lane_open(0);
    hcqi_cpu_engine *engine = &cpu->engines[0];
    hcqi_cpu_chunk *spare = engine->spare;
    schedule_poke(&engine->head_at, &last, sizeof last);
    schedule_poke(&engine->tail_at, &last, sizeof last);
    schedule_poke(&engine->lap, &lap, sizeof lap);
    lap -= HCQI_CPU_LAP;
    schedule_poke(&spare->lap, &lap, sizeof lap);
    lap++;
    for (uint32_t i = 0; i < HCQI_CPU_CHUNK; i++) {
        schedule_poke(&spare->entries[i].ready, &lap, sizeof lap);
    }
    schedule_settle();
    schedule_branch(1);
    cpu_submit(0, NULL);
    cpu_submit(0, NULL);
    cpu_wait(0, 2);
    SCHEDULE_CHECK(ran == 2);
    schedule_branch(0);
    hcqi_cpu_lane_close(cpu, &lanes[0].base);
}

/* Two chunks on their way back, and a submit that takes all there are. */
static void chunks_back(void) {
    for (int i = 0; i < 2; i++) {
        cpu->engines[0].head_at = HCQI_CPU_CHUNK - 1;
        hcqi_cpu_engine_advance(&cpu->engines[0]);
    }
}

static void chunks(void) {
    hcqi_cpu_engine *engine;
    hcqi_cpu_chunk *was[2];
    uint32_t back[2] = { 0, 0 };
    cpu_open(0, 0);
    engine = &cpu->engines[0];
    engine->device = cpu;
    for (int i = 0; i < 2; i++) {
        was[i] = (hcqi_cpu_chunk *)schedule_alloc(NULL, sizeof *was[i], HCQI_CPU_LINE);
        was[i]->next = i ? was[0] : NULL;
    }
    engine->head = was[1];
    int other = schedule_start(chunks_back, "engine");
    schedule_branch(1);
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 2) { schedule_join(other); }
        hcqi_cpu_reserve(engine, HCQI_CPU_CHUNK);
        for (; engine->spare; engine->spare = engine->spare->next) {
            back[0] += engine->spare == was[0];
            back[1] += engine->spare == was[1];
        }
    }
    schedule_branch(0);
    SCHEDULE_CHECK(back[0] == 1 && back[1] == 1);
}

/* One engine's work waits for another's. */
static void engines(void) {
    hcq_lane_point point;
    cpu_open(0, 0);
    cpu_lane_open(0);
    cpu_lane_open(1);
    schedule_settle();
    schedule_branch(1);
    memset(&point, 0, sizeof point);
    point.lane = &lanes[0].base;
    point.value = 1;
    cpu_submit(0, NULL);
    cpu_submit(1, &point);
    cpu_wait(1, 1);
    SCHEDULE_CHECK(ran == 2);
    schedule_branch(0);
    hcqi_cpu_lane_close(cpu, &lanes[0].base);
    hcqi_cpu_lane_close(cpu, &lanes[1].base);
}

/* ---- the pool -------------------------------------------------------------- */

static uint32_t blocks_run[2];

static void shared_kernel(const void *args, const hcq_block *block) {
    (void)args;
    SCHEDULE_CHECK(block->id.x < 2);
    blocks_run[block->id.x] += input;
}

/* Two grids of two blocks, then the end. */
static void share(uint32_t workers, uint64_t spin_ns) {
    hcqi_cpu_grid grid;
    uint64_t ns;
    cpu_open(workers, spin_ns);
    memset(&grid, 0, sizeof grid);
    grid.fn = shared_kernel;
    grid.block.grid = hcq_dim(2, 1, 1);
    grid.block.block = hcq_dim(1, 1, 1);
    grid.total = 2;
    schedule_branch(1);
    hcqi_cpu_enter(cpu);
    for (uint32_t i = 1; i <= 2; i++) {
        input = i;
        blocks_run[0] = 0;
        blocks_run[1] = 0;
        SCHEDULE_CHECK(hcqi_cpu_pool_take(cpu, UINT64_MAX));
        hcqi_cpu_pool_run(cpu, &grid, 0, &ns);
        SCHEDULE_CHECK(blocks_run[0] == i && blocks_run[1] == i);
    }
    hcqi_cpu_leave(cpu);
    hcqi_cpu_pool_stop(&cpu->pool);
    schedule_branch(0);
    SCHEDULE_CHECK(cpu->active == 0 && cpu->pool.asleep == 0);
}

static void pool_one(void) { share(1, 0); }
static void pool_two(void) { share(2, 0); }
static void pool_spins(void) { share(2, 50000); }

/* ---- the whole way --------------------------------------------------------- */

static void logger(void *user, hcq_result result, const char *text) {
    (void)user;
    (void)result;
    schedule_check(0, text);
}

/* A submission, and a wait for one of `count` points, the others of which stay. */
static void wait_for_any(uint32_t count) {
    hcq_device *device;
    hcq_queue *queue;
    hcq_program *program;
    hcq_signal never;
    hcq_point points[HCQI_SLEEPER_POINTS + 1];
    hcq_device_desc desc;
    struct hcq_cpu_desc own;
    hcq_program_desc kernels;
    core_begin();
    memset(&own, 0, sizeof own);
    memset(&desc, 0, sizeof desc);
    memset(&kernels, 0, sizeof kernels);
    own.workers = HCQ_CPU_NONE;
    desc.memory = around.hooks;
    desc.memory.alloc_fn = schedule_alloc;
    desc.memory.free_fn = schedule_free;
    desc.log_fn = logger;
    desc.explain_ns = HCQ_KEEP;
    desc.spin_ns = HCQ_KEEP;
    desc.flags = HCQ_DEVICE_NO_COPY_LANE;
    desc.cpu = &own;
    kernels.cpu = kernel;
    SCHEDULE_CHECK(hcq_open("CPU", &desc, &device) == HCQ_OK);
    SCHEDULE_CHECK(hcq_program_create(device, &kernels, &program) == HCQ_OK);
    SCHEDULE_CHECK(hcq_queue_create(device, HCQ_COMPUTE, &queue) == HCQ_OK);
    SCHEDULE_CHECK(hcq_signal_create(device, 0, &never) == HCQ_OK);
    hcq_queue_exec(queue, program, NULL, 0, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
    cpu = (hcqi_cpu_device *)device->self;
    schedule_name(&cpu->engines[0].sleeping, "sleeping");
    schedule_name(&cpu->engines[0].posted, "posted");
    schedule_name(&cpu->lanes[0].watch, "watch");
    schedule_name(&cpu->lanes[0].counters[0].value, "value");
    schedule_settle();
    schedule_branch(1);
    input = 41;
    for (uint32_t i = 1; i < count; i++) { points[i] = hcq_at(never, 1); }
    SCHEDULE_CHECK(hcq_queue_submit(queue, device, &points[0]) == HCQ_OK);
    SCHEDULE_CHECK(hcq_wait(points, count, HCQ_ANY, HCQ_FOREVER) == HCQ_OK);
    SCHEDULE_CHECK(output == 42);
    schedule_branch(0);
    hcq_signal_destroy(never);
    hcq_queue_destroy(queue);
    hcq_program_destroy(program);
    SCHEDULE_CHECK(hcq_close(device) == HCQ_OK);
}

static void submit(void) { wait_for_any(1); }
static void watch(void) { wait_for_any(2); }
static void watch_event(void) { wait_for_any(HCQI_SLEEPER_POINTS + 1); }

#define ALL { SCHEDULE_ALL, SCHEDULE_ALL }

static const schedule_test tests[] = {
    { "dekker-stores", dekker_stores, ALL, { 0, 0 }, "saw_a || saw_b" },
    { "dekker-half", dekker_half, ALL, { 0, 0 }, "saw_a || saw_b" },
    { "dekker-swaps", dekker_swaps, ALL, { 10, 10 }, NULL },
    { "message", message, ALL, { 0, 0 }, NULL },
    { "message-relaxed", message_relaxed, ALL, { 0, 0 }, "race at data" },
    { "wake-lost", wake_lost, ALL, { 0, 0 }, "lost wake-up" },
    { "wake-kept", wake_kept, ALL, { 0, 0 }, NULL },
    { "mutex", mutex, ALL, { 0, 0 }, NULL },
    { "mutex-three", mutex_three, { 3, SCHEDULE_ALL }, { 1000, 10000 }, NULL },
    { "event", event, { 3, SCHEDULE_ALL }, { 0, 0 }, NULL },
    { "counter", counter_one, ALL, { 0, 0 }, NULL },
    { "counter-two", counter_two, { 1, 2 }, { 1000, 10000 }, NULL },
    { "counter-timed", counter_timed, { 1, 2 }, { 1000, 10000 }, NULL },
    { "engine", engine_once, { 2, 3 }, { 1000, 10000 }, NULL },
    { "engine-twice", engine_twice, { 2, 3 }, { 1000, 10000 }, NULL },
    { "engine-shared", engine_shared, { 1, 2 }, { 1000, 10000 }, NULL },
    { "engine-chunk", engine_chunk, { 2, 3 }, { 1000, 10000 }, NULL },
    { "chunks", chunks, ALL, { 0, 0 }, NULL },
    { "engines", engines, { 1, 2 }, { 1000, 10000 }, NULL },
    { "pool", pool_one, { 2, 3 }, { 1000, 10000 }, NULL },
    { "pool-two", pool_two, { 1, 2 }, { 1000, 10000 }, NULL },
    { "pool-spins", pool_spins, { 0, 0 }, { 1000, 10000 }, NULL },
    { "submit", submit, { 1, 2 }, { 1000, 10000 }, NULL },
    { "watch", watch, { 1, 2 }, { 1000, 10000 }, NULL },
    { "watch-event", watch_event, { 1, 2 }, { 1000, 10000 }, NULL }
};

int main(int argc, char **argv) {
    return schedule_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
