/* schedules.c - the lock-free code of hcq.h and hcq_cpu.h in every order.

       schedules [--full] [NAME [DEPARTURES]]

   The headers are compiled as they are; scheduler.h says how and what it sees.
   The first programs are wrong on purpose: what must be seen if anything is to be.
   The next ones call a protocol's own functions, the last ones hcq's API; opening
   and closing a device is left out of the branching. */
#define _GNU_SOURCE
#include "scheduler.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Where nobody sees it. */
static void *(*const poke)(void *, const void *, size_t) = memcpy;

/* All threads are one to the system: what is each thread's own is exchanged (at one
   address, so that hcqi_sys_thread_id is the same for all). */
#define __thread __attribute__((section("hcq_thread")))
#define memcpy schedule_memcpy
#define memset schedule_memset
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "hcq.h"

#define CHECK(x) schedule_check(!!(x), #x)

static struct {                        /* zero at the beginning of each schedule */
    uint32_t flag_a, flag_b, word;     /* atomic */
    uint32_t saw_a, saw_b, data, input, output, ran, blocks[2][2];
    int first;                         /* thread */
    hcqi_cpu_counter counter;
    hcq_device around;                 /* of the backend: its memory */
    hcqi_lane lanes[2];
    uint32_t posted[2];
    hcq_job job;
    hcqi_cpu_code code;
    hcq_packet packet;
    hcq_recording recording;
} t;
static hcqi_cpu_device *cpu;

static void begin(void) {
    memset(&t, 0, sizeof t);
    memset(&hcqi_core, 0, sizeof hcqi_core);
    t.counter.wanted = UINT64_MAX;
}

/* Runs two or three threads in every order. */
static void together(void (*a)(void), void (*b)(void), void (*c)(void)) {
    int second, third;
    t.first = schedule_start(a, "first");
    second = schedule_start(b, "second");
    third = c ? schedule_start(c, "third") : second;
    schedule_branch(1);
    schedule_join(t.first);
    schedule_join(second);
    schedule_join(third);
    schedule_branch(0);
}

/* ---- what must be seen ----------------------------------------------------- */

/* Each says that it is there and looks at the other. */
static void store_a(void) {
    hcqi_atomic_store32(&t.flag_a, 1);
    t.saw_b = hcqi_atomic_load32(&t.flag_b);
}

static void store_b(void) {
    hcqi_atomic_store32(&t.flag_b, 1);
    t.saw_a = hcqi_atomic_load32(&t.flag_a);
}

static void dekker(void) {
    together(store_a, store_b, NULL);
    CHECK(t.saw_a || t.saw_b);
}

static void tell(void) {
    t.data = 7;
    __atomic_store_n(&t.flag_a, 1, __ATOMIC_RELAXED);
}

static void hear(void) {
    while (!hcqi_atomic_load32(&t.flag_a)) { }
    CHECK(t.data == 7);
}

static void message(void) { together(tell, hear, NULL); }

static void nap(void) {
    while (!hcqi_atomic_load32(&t.flag_a)) { hcq_sys_wait(&t.word, 0, HCQ_FOREVER); }
}

static void wake(void) { /* but the word stands still */
    hcqi_atomic_swap32(&t.flag_a, 1);
    hcq_sys_wake(&t.word, 1);
}

static void wake_lost(void) { together(nap, wake, NULL); }

/* ---- the core's lock and event --------------------------------------------- */

static void locked_add(void) {
    hcqi_word_lock(&hcqi_core.lock);
    t.data++;
    hcqi_word_unlock(&hcqi_core.lock);
}

static void mutex(void) {
    together(locked_add, locked_add, NULL);
    CHECK(t.data == 2 && hcqi_core.lock == 0);
}

static void mutex_three(void) {
    together(locked_add, locked_add, locked_add);
    CHECK(t.data == 3 && hcqi_core.lock == 0);
}

static void event_wait(void) {
    hcqi_enter();
    while (!t.data) { hcqi_event_wait(HCQ_FOREVER); }
    hcqi_leave();
}

static void event_tell(void) {
    hcqi_enter();
    t.data = 1;
    hcqi_core.changed = 1;
    hcqi_leave();
}

static void event(void) { together(event_wait, event_tell, NULL); }

/* ---- counters -------------------------------------------------------------- */

static void raise_twice(void) {
    hcqi_cpu_counter_raise(&t.counter, 1);
    t.data = 7;
    hcqi_cpu_counter_raise(&t.counter, 2);
}

static void raise_again(void) { /* only because somebody saw the first */
    hcqi_cpu_counter_raise(&t.counter, 1);
    schedule_join(t.first);
    t.data = 7;
    hcqi_cpu_counter_raise(&t.counter, 2);
}

static void sleep_for_1(void) {
    CHECK(hcqi_cpu_counter_sleep(&t.counter, 1, HCQ_FOREVER) == HCQ_OK);
}

static void sleep_for_2(void) {
    CHECK(hcqi_cpu_counter_sleep(&t.counter, 2, HCQ_FOREVER) == HCQ_OK);
    CHECK(t.data == 7);
}

static void sleep_a_while(void) {
    hcqi_cpu_counter_sleep(&t.counter, 1, hcq_now_ns() + 100000);
}

static void counter(void) { together(raise_twice, sleep_for_2, NULL); }

static void counter_left(void) { /* by somebody who slept for 1 until his time was over */
    t.counter.wanted = 1;
    together(raise_twice, sleep_for_2, NULL);
}

static void counter_two(void) { together(sleep_for_1, raise_again, sleep_for_2); }
static void counter_timed(void) { together(raise_twice, sleep_for_2, sleep_a_while); }

/* ---- an engine ------------------------------------------------------------- */
/* The backend's own functions, with just enough of a device around them. */

static void kernel(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
    t.output = t.input + 1;
    t.ran++;
}

static void cpu_open(uint32_t workers, uint64_t spin_ns, uint32_t lanes) {
    struct hcq_cpu_desc own = { .workers = workers };
    struct hcq_device_test forced = { 0 };
    hcq_device_desc desc = { .cpu = &own, .spin_ns = spin_ns, .compute_lanes = 2, .test = &forced };
    hcq_backend_caps caps;
    void *self;
    t.around.hooks.alloc_fn = schedule_alloc;
    t.around.hooks.free_fn = schedule_free;
    desc.memory = t.around.hooks;
    CHECK(hcqi_cpu_open(NULL, &t.around, 0, &desc, &caps, &self) == HCQ_OK);
    cpu = (hcqi_cpu_device *)self;
    t.code.fn = kernel;
    t.recording.packets = &t.packet;
    t.packet.kind = HCQ_COMMAND_EXEC;
    t.packet.u.exec.code = &t.code;
    for (int i = 0; i < 3; i++) {
        t.packet.u.exec.grid[i] = 1;
        t.packet.u.exec.block[i] = 1;
    }
    for (uint32_t i = 0; i < lanes; i++) {
        t.lanes[i].base.kind = HCQ_COMPUTE;
        t.lanes[i].base.index = i;
        CHECK(hcqi_cpu_lane_open(cpu, &t.lanes[i].base) == HCQ_OK);
        }
}

static void cpu_close(uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++) { hcqi_cpu_lane_close(cpu, &t.lanes[i].base); }
    schedule_branch(0);
}

/* As the core does: with its lock, and rings after it. */
static void submit_to(uint32_t lane, const hcq_lane_point *wait) {
    hcq_batch batch = { .recording = &t.recording, .count = 1, .job = &t.job, .waits = wait };
    hcq_result result;
    hcqi_enter();
    batch.wait_count = wait != NULL;
    batch.done.lane = &t.lanes[lane].base;
    batch.done.value = ++t.posted[lane];
    result = hcqi_cpu_submit(cpu, &t.lanes[lane].base, &batch);
    hcqi_unlock();
    CHECK(result == HCQ_OK || result == HCQ_NOT_READY);
    if (result == HCQ_NOT_READY) { hcqi_cpu_flush(cpu); }
}

static void submit_one(void) { submit_to(0, NULL); }

static void wait_for(uint32_t lane, uint64_t value) {
    CHECK(hcqi_cpu_wait(cpu, &t.lanes[lane].base, 0, value, HCQ_FOREVER, 0) == HCQ_OK);
}

/* From the start of the thread to its end. */
static void engine(void) {
    cpu_open(HCQ_CPU_NO_WORKERS, HCQ_NEVER, 1);
    schedule_branch(1);
    t.input = 41;
    submit_one();
    wait_for(0, 1);
    CHECK(t.output == 42);
    cpu_close(1);
}

/* Two submissions to an engine that sleeps; `other` thread makes the second one. */
static void engine_asleep(int other) {
    cpu_open(HCQ_CPU_NO_WORKERS, HCQ_NEVER, 1);
    schedule_settle();
    schedule_branch(1);
    if (other) { other = schedule_start(submit_one, "other"); }
    submit_one();
    if (!other) { submit_one(); }
    wait_for(0, 2);
    CHECK(t.ran == 2);
    if (other) { schedule_join(other); }
    schedule_branch(0);
    cpu_close(1);
}

static void engine_twice(void) { engine_asleep(0); }
static void engine_shared(void) { engine_asleep(1); }

/* The last entry of a chunk, and the first of the next, which is in use again. Who
   saw that the last one is done finds its chunk in the list. */
static void engine_chunk(void) {
    uint32_t last = HCQI_CPU_CHUNK - 1, was = 2 * HCQI_CPU_LAP, ready = was + 1;
    cpu_open(HCQ_CPU_NO_WORKERS, HCQ_NEVER, 1);
    hcqi_cpu_engine *e = &cpu->engines[0];
    poke(&e->head_at, &last, sizeof last);
    poke(&e->tail_at, &last, sizeof last);
    poke(&e->lap, &was, sizeof was);
    poke(&e->spare->lap, &was, sizeof was);
    for (uint32_t i = 0; i <= last; i++) {
        poke(&e->spare->entries[i].ready, &ready, sizeof ready);
    }
    schedule_settle();
    schedule_branch(1);
    submit_one();
    wait_for(0, 1);
    hcqi_cpu_reserve(e, HCQI_CPU_CHUNK);
    CHECK(e->spare && e->chunks == 2);
    submit_one();
    wait_for(0, 2);
    CHECK(t.ran == 2);
    schedule_branch(0);
    cpu_close(1);
}

/* One engine's work waits for another's. */
static void engines(void) {
    hcq_lane_point point = { .lane = &t.lanes[0].base, .value = 1 };
    cpu_open(HCQ_CPU_NO_WORKERS, HCQ_NEVER, 2);
    schedule_settle();
    schedule_branch(1);
    submit_to(0, NULL);
    submit_to(1, &point);
    wait_for(1, 1);
    CHECK(t.ran == 2);
    schedule_branch(0);
    cpu_close(2);
}

/* Two chunks on their way back, and a submit that takes all there are. */
static void chunks_back(void) {
    for (int i = 0; i < 2; i++) {
        cpu->engines[0].head_at = HCQI_CPU_CHUNK - 1;
        hcqi_cpu_engine_advance(&cpu->engines[0]);
    }
}

static void chunks(void) {
    hcqi_cpu_chunk *was[2];
    uint32_t back[2] = { 0, 0 };
    cpu_open(HCQ_CPU_NO_WORKERS, HCQ_NEVER, 0);
    hcqi_cpu_engine *e = &cpu->engines[0];
    e->device = cpu;
    for (int i = 0; i < 2; i++) {
        was[i] = (hcqi_cpu_chunk *)schedule_alloc(NULL, sizeof *was[i], HCQI_CPU_LINE);
        was[i]->next = i ? was[0] : NULL;
    }
    e->head = was[1];
    int other = schedule_start(chunks_back, "engine");
    schedule_branch(1);
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 2) { schedule_join(other); }
        hcqi_cpu_reserve(e, HCQI_CPU_CHUNK);
        for (; e->spare; e->spare = e->spare->next) {
            back[0] += e->spare == was[0];
            back[1] += e->spare == was[1];
        }
    }
    schedule_branch(0);
    CHECK(back[0] == 1 && back[1] == 1);
}

/* ---- the pool -------------------------------------------------------------- */

static void shared_kernel(const void *args, const hcq_block *block) {
    t.blocks[*(const uint32_t *)args][block->id.x] += t.input;
}

/* A grid of two blocks, if nobody else has the pool. */
static int share(uint32_t owner) {
    hcqi_cpu_grid grid = { .fn = shared_kernel, .args = &owner, .total = 2 };
    uint64_t ns;
    grid.block.grid = hcq_dim(2, 1, 1);
    grid.block.block = hcq_dim(1, 1, 1);
    if (!hcqi_cpu_pool_take(cpu, UINT64_MAX)) { return 0; }
    t.blocks[owner][0] = 0;
    t.blocks[owner][1] = 0;
    hcqi_cpu_enter(cpu);
    hcqi_cpu_pool_run(cpu, &grid, 0, &ns);
    hcqi_cpu_leave(cpu);
    CHECK(t.blocks[owner][0] == t.input && t.blocks[owner][1] == t.input);
    return 1;
}

static void share_end(void) {
    hcqi_cpu_pool_stop(&cpu->pool);
    schedule_branch(0);
    CHECK(cpu->active == 0 && cpu->pool.asleep == 0);
}

static void share_two(uint32_t workers, uint64_t spin_ns) {
    cpu_open(workers, spin_ns, 0);
    schedule_branch(1);
    for (t.input = 1; t.input <= 2; t.input++) { CHECK(share(0)); }
    share_end();
}

static void owner_0(void) { share(0); }
static void owner_1(void) { share(1); }

static void pool_owners(void) {
    cpu_open(1, HCQ_NEVER, 0);
    t.input = 1;
    together(owner_0, owner_1, NULL);
    schedule_branch(1);
    share_end();
}

static void pool(void) { share_two(1, HCQ_NEVER); }
static void pool_two(void) { share_two(2, HCQ_NEVER); }
static void pool_spins(void) { share_two(2, 50000); }

/* ---- the whole way --------------------------------------------------------- */

/* A submission, and a wait for one of `count` points, the others of which stay. */
static void wait_for_any(uint32_t count) {
    struct hcq_cpu_desc own = { .workers = HCQ_CPU_NO_WORKERS };
    hcq_device_test no_copies = { .no_copy_lane = 1 };
    hcq_device_desc desc = {
        .memory = { schedule_alloc, schedule_free, NULL }, .explain_ns = HCQ_NEVER,
        .spin_ns = HCQ_NEVER, .test = &no_copies, .cpu = &own
    };
    hcq_program_desc kernels = { .cpu = kernel };
    hcq_point points[HCQI_SLEEPER_POINTS + 1];
    hcq_device *device;
    hcq_queue *queue;
    hcq_program *program;
    hcq_signal never;
    CHECK(hcq_open("CPU", &desc, &device) == HCQ_OK);
    CHECK(hcq_program_create(device, &kernels, &program) == HCQ_OK);
    CHECK(hcq_queue_create(device, HCQ_COMPUTE, &queue) == HCQ_OK);
    CHECK(hcq_signal_create(device, 0, &never) == HCQ_OK);
    CHECK(hcq_queue_exec(queue, program, NULL, 0, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)) == 0);
    for (uint32_t i = 1; i < count; i++) { points[i] = hcq_at(never, 1); }
    schedule_settle();
    schedule_branch(1);
    t.input = 41;
    CHECK(hcq_queue_submit(queue, device, &points[0]) == HCQ_OK);
    CHECK(hcq_wait(points, count, HCQ_ANY, HCQ_FOREVER) == HCQ_OK);
    CHECK(t.output == 42);
    schedule_branch(0);
    hcq_signal_destroy(never);
    hcq_queue_destroy(queue);
    hcq_program_destroy(program);
    CHECK(hcq_close(device) == HCQ_OK);
}

/* The service thread's last turn, which is without the lock for a moment, beside a close. */
static hcq_device *served;

static void serve(void) { hcqi_service_run(served); }

static void end_service(void) {
    hcqi_enter();
    hcqi_service_kick(served);
    served->service_stop = 1;
    hcqi_leave();
}

static void service(void) {
    struct hcq_cpu_desc own = { .workers = HCQ_CPU_NO_WORKERS };
    hcq_device_test no_copies = { .no_copy_lane = 1 };
    hcq_device_desc desc = {
        .memory = { schedule_alloc, schedule_free, NULL }, .test = &no_copies, .cpu = &own
    };
    CHECK(hcq_open("CPU", &desc, &served) == HCQ_OK);
    served->service_begun = 1;         /* it runs: serve */
    served->posts_late = 1;            /* for which it lets go of the lock */
    together(serve, end_service, NULL);
    served->service_stop = 0;
    CHECK(hcq_close(served) == HCQ_OK);
}

static void submit(void) { wait_for_any(1); }
static void watch(void) { wait_for_any(2); }
static void watch_event(void) { wait_for_any(HCQI_SLEEPER_POINTS + 1); }

#define ALL { SCHEDULE_ALL, SCHEDULE_ALL }

static const schedule_test tests[] = {
    { "dekker", dekker, ALL, { 0, 0 }, "t.saw_a || t.saw_b" },
    { "message", message, ALL, { 0, 0 }, "race at" },
    { "wake-lost", wake_lost, ALL, { 0, 0 }, "all sleep" },
    { "mutex", mutex, ALL, { 0, 0 }, NULL },
    { "mutex-three", mutex_three, { 3, 4 }, { 1000, 100000 }, NULL },
    { "event", event, { 3, 4 }, { 1000, 100000 }, NULL },
    { "counter", counter, ALL, { 0, 0 }, NULL },
    { "counter-left", counter_left, ALL, { 0, 0 }, NULL },
    { "counter-two", counter_two, { 2, 3 }, { 1000, 100000 }, NULL },
    { "counter-timed", counter_timed, { 2, 3 }, { 1000, 100000 }, NULL },
    { "engine", engine, { 3, 3 }, { 300, 60000 }, NULL },
    { "engine-twice", engine_twice, { 2, 3 }, { 300, 30000 }, NULL },
    { "engine-shared", engine_shared, { 1, 2 }, { 1000, 30000 }, NULL },
    { "engine-chunk", engine_chunk, { 1, 2 }, { 300, 30000 }, NULL },
    { "engines", engines, { 1, 2 }, { 300, 30000 }, NULL },
    { "chunks", chunks, ALL, { 0, 0 }, NULL },
    { "pool", pool, { 2, 3 }, { 300, 30000 }, NULL },
    { "pool-two", pool_two, { 1, 2 }, { 1000, 30000 }, NULL },
    { "pool-owners", pool_owners, { 1, 2 }, { 300, 30000 }, NULL },
    { "pool-spins", pool_spins, { 0, 0 }, { 300, 30000 }, NULL },
    { "service", service, { 1, 2 }, { 300, 30000 }, NULL },
    { "submit", submit, { 1, 2 }, { 300, 30000 }, NULL },
    { "watch", watch, { 1, 2 }, { 300, 30000 }, NULL },
    { "watch-event", watch_event, { 1, 2 }, { 300, 30000 }, NULL }
};

int main(int argc, char **argv) {
    return schedule_main(tests, sizeof tests / sizeof tests[0], begin, argc, argv);
}
