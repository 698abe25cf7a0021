/* hcq_cpu.h - the CPU backend of hcq: engine threads and a pool that shares grids.

   Recipe: keep it beside hcq.h and never include it yourself. In the one file
   with the implementation:

       #define HCQ_IMPLEMENTATION
       #define HCQ_CPU
       #include "hcq.h"

   "CPU:0" to "CPU:63" are independent devices on the same processors. Settings
   of its own: fill a struct hcq_cpu_desc and point hcq_device_desc.cpu at it.
   Licence: as hcq.h.
*/
#ifndef HCQ_H
#error "hcq_cpu.h: define HCQ_CPU and include hcq.h, which includes this file"
#endif

#ifndef HCQ_CPU_H
#define HCQ_CPU_H

#define HCQ_CPU_NO_WORKERS UINT32_MAX  /* workers: none, engines run grids alone */

enum {
    HCQ_CPU_PIN = 1,                   /* each lane on one CPU, each worker too, in turn */
    HCQ_CPU_ONE_ENGINE = 2             /* all lanes share one thread and FIFO (tests) */
};

/* The CPU backend's part of hcq_device_desc; all zero gives the defaults. */
struct hcq_cpu_desc {
    uint32_t workers;                  /* threads that help a lane's own with grids
                                          [usable CPUs - 1] */
    uint32_t flags;                    /* HCQ_CPU_* */
    uint64_t seed;                     /* no threads, and the order drawn from it [threads] */
};

/* A device with a seed has no threads. Its work runs in pieces, some of a grid's blocks or
   of a copy's bytes, while the thread that opened it waits in a call of hcq's: each piece
   is drawn among all that may run, on any such device. The same seed and the same calls
   give the same run, to the byte: there is a clock for it, which only work and waits move,
   so times and timeouts are the same, too. A wait with HCQ_FOREVER that nothing can end
   returns HCQ_ERROR_DEADLOCK at once and logs who waits for whom. HCQ_NO_THREADS, defined
   with the implementation, leaves threads out of it: each device has a seed then [1].
   Only the thread that opened such devices may use them (HCQ_ERROR_INVALID else), and no
   devices with threads are open meanwhile (HCQ_ERROR_UNSUPPORTED, for whichever is second).
   A kernel or a host command that waits for the host never ends. */

/* Runs a piece of the work that devices with a seed have: 1; 0: none can run.
   Threads: the one that opened them. Not in a callback: 0. */
#ifdef __cplusplus
extern "C" {
#endif
HCQ_API int hcq_cpu_step(void);
#ifdef __cplusplus
}
#endif

#endif /* HCQ_CPU_H */

#if defined(HCQ_IMPLEMENTATION) && !defined(HCQI_CPU_IMPLEMENTED)
#define HCQI_CPU_IMPLEMENTED

/* ========================================================================== */
/* ---- structures ---------------------------------------------------------- */

#if defined(__GNUC__)
#define HCQI_CPU_LIKELY(x) __builtin_expect(!!(x), 1)
#define HCQI_CPU_PREFETCH(p) __builtin_prefetch(p)
#define HCQI_CPU_HOT __attribute__((noinline, aligned(64)))
#else
#define HCQI_CPU_LIKELY(x) (x)
#define HCQI_CPU_PREFETCH(p) ((void)(p))
#define HCQI_CPU_HOT
#endif

#define HCQI_CPU_FEATURES                                                          \
    ((uint32_t)HCQ_FEATURE_HOST_MEMORY | (uint32_t)HCQ_FEATURE_IMPORT |            \
     (uint32_t)HCQ_FEATURE_MAP | (uint32_t)HCQ_FEATURE_DEBUGGING)

enum {
    HCQI_CPU_LINE = 128,               /* two cache lines: prefetchers fetch pairs */
    HCQI_CPU_LANES = 8,                /* of each kind */
    HCQI_CPU_ORDINALS = 64,
    HCQI_CPU_CHUNK = 1024,             /* entries */
    HCQI_CPU_CHUNKS = 8,               /* at most this many are made beforehand */
    HCQI_CPU_WAITS = 2,                /* in one entry */
    HCQI_CPU_AHEAD = 512,              /* bytes of packets to fetch ahead */
    HCQI_CPU_LAP = 4,                  /* more than that */
    HCQI_CPU_TIGHT = 1024,             /* turns without a pause: longer than between far cores */
    HCQI_CPU_TOGETHER = 256,           /* waits until they yield first of all */
    HCQI_CPU_TURNS = 32,               /* of spinning between looks around */
    HCQI_CPU_ROOM = 128,               /* turns that a spinner gets to make room */
    HCQI_CPU_LOST_NS = 500000,         /* such a gap is a turn lost to others */
    HCQI_CPU_LOST_MAX_NS = 16000000,   /* what counts of a longer one */
    HCQI_CPU_TRIAL = 4,                /* so many gaps without spinning come after one, */
    HCQI_CPU_TRIALS = 64,              /* twice as many after each that soon follows, up to this */
    HCQI_CPU_INLINE_PS = 10000000,     /* cheaper grids are not shared */
    HCQI_CPU_WAKE_PS = 40000000,       /* nor those, if it takes waking somebody up */
    HCQI_CPU_TIMED_PS = 2000000,       /* from here on a look at the clock is cheap */
    HCQI_CPU_CHUNK_PS = 1000000        /* smallest share of a grid */
};

/* A counter and those who sleep for it. `wanted` is the lowest value anybody
   sleeps for; raising it wakes all, and those who want more ask again. */
typedef struct hcqi_cpu_counter {
    uint64_t value, wanted;
    uint32_t sequence;                 /* futex; changes with each wake */
    uint8_t pad[HCQI_CPU_LINE - 20];
} hcqi_cpu_counter;

typedef struct hcqi_cpu_lane {
    struct hcqi_cpu_engine *engine;
    uint32_t watch;
    uint8_t pad[HCQI_CPU_LINE - 4 - sizeof(void *)];
    hcqi_cpu_counter counters[2];
} hcqi_cpu_lane;

/* A batch in an engine's queue, or (job NULL) waits before the next entry. */
typedef struct hcqi_cpu_entry {
    uint32_t ready;                    /* the chunk's lap if it is, then + waits */
    uint32_t count;                    /* packets */
    const hcq_packet *packets;
    hcq_job *job;
    hcq_lane_point done;
    hcqi_cpu_lane *native;             /* done.lane's, without its core's cache line */
    hcq_lane_point waits[HCQI_CPU_WAITS]; /* from here on: the second cache line */
} hcqi_cpu_entry;

/* Each time a chunk is put into the queue it gets a new lap, so that entries
   of its last use are not ready and need not be touched. */
typedef struct hcqi_cpu_chunk {
    struct hcqi_cpu_chunk *next;       /* in the queue or in a list of spare ones */
    uint32_t lap;                      /* multiple of HCQI_CPU_LAP; 0 = never used */
    uint8_t pad[HCQI_CPU_LINE - 4 - sizeof(void *)];
    hcqi_cpu_entry entries[HCQI_CPU_CHUNK];
} hcqi_cpu_chunk;

/* Where an engine without a thread is, in the batch at its queue's head. */
typedef struct hcqi_cpu_walk {
    int begun;
    hcq_result result;                 /* of what it waited for, and of a packet */
    const hcq_packet *failed;
    const hcq_packet *packet;          /* of which parts have run; NULL: none has */
    uint32_t parts, undone;            /* of it; bits */
    uint32_t at, end;                  /* packets that overlap each other */
    uint64_t left;                     /* bits of them */
    uint64_t batches;                  /* before this one */
} hcqi_cpu_walk;

/* One thread with a queue from many producers (the core's lock) to it. */
typedef struct hcqi_cpu_engine {
    hcqi_cpu_chunk *tail;              /* where submit writes */
    uint32_t tail_at;
    uint32_t chunks;                   /* there are, atomic */
    uint32_t lap;                      /* the latest */
    uint32_t posted;                   /* atomic: published since the last ring */
    hcqi_cpu_chunk *spare;
    uint8_t pad0[HCQI_CPU_LINE];
    hcqi_cpu_chunk *head;              /* where the thread reads */
    uint32_t head_at;
    hcq_result failed;                 /* of the waits before the next batch */
    uint32_t refused;                  /* some batch failed, ever */
    uint8_t pad1[HCQI_CPU_LINE];
    uint64_t drained;                  /* list of chunks on their way back to submit */
    uint8_t pad2[HCQI_CPU_LINE];
    uint32_t sleeping;                 /* futex: 1 = asleep or about to */
    uint32_t stop;
    struct hcqi_cpu_device *device;
    hcq_sys_thread thread;
    uint32_t index;
    uint32_t lanes;                    /* open ones */
    hcqi_cpu_walk walk;
    uint8_t pad3[HCQI_CPU_LINE];
} hcqi_cpu_engine;

/* What a run of blocks needs; each thread has its own, for `block.id`. */
typedef struct hcqi_cpu_grid {
    hcq_cpu_fn fn;
    const void *args;
    hcq_block block;
    uint64_t total;
    uint8_t *shares;                   /* 16 of them, NULL: nobody asks */
} hcqi_cpu_grid;

typedef struct hcqi_cpu_code {
    hcq_cpu_fn fn;
    void *user;
    uint32_t estimate;                 /* picoseconds per block, 0 = unknown */
    uint32_t runs;
    void *library;
    struct hcqi_cpu_code *next;        /* in hcqi_cpu_device.unused */
} hcqi_cpu_code;

enum {                                 /* of hcqi_cpu_pool.gate */
    HCQI_CPU_INSIDE = 0xffff,          /* number of workers at the job */
    HCQI_CPU_GENERATION = 0x10000,     /* of the job, 14 bits */
    HCQI_CPU_GENERATIONS = 0x3fff0000,
    HCQI_CPU_OWNER = 0x40000000        /* the owner sleeps until the last one leaves */
};
#define HCQI_CPU_OPEN 0x80000000u      /* workers may come in */

/* A thread that shares grids and its part of one, taken from the front by itself
   and then by those who have nothing left. The same blocks fall to the same thread
   each time, so their memory stays in its caches. The first is the pool's owner,
   whichever engine that is. */
typedef struct hcqi_cpu_worker {
    struct hcqi_cpu_device *device;
    hcq_sys_thread thread;
    uint32_t index;
    uint64_t done;                     /* blocks of the last grid */
    uint8_t pad0[HCQI_CPU_LINE];
    uint64_t next, end;
    uint8_t pad1[HCQI_CPU_LINE];
} hcqi_cpu_worker;

/* The workers and the one grid they share. An engine owns it while it holds
   `lock`. A worker reads the job only between entering and leaving the gate,
   and the owner changes it only while the gate is closed and empty. */
typedef struct hcqi_cpu_pool {
    uint32_t lock;
    uint32_t wanted;                   /* workers to have besides the owner */
    uint32_t started;                  /* there are */
    uint32_t tried;                    /* starting them */
    uint64_t missed_ps;                /* work that sleeping workers might have shared */
    hcqi_cpu_worker *workers;          /* of the owner, then those wanted */
    uint8_t pad0[HCQI_CPU_LINE];
    uint32_t gate;
    uint32_t stop;
    uint8_t pad1[HCQI_CPU_LINE];
    uint32_t asleep;                   /* workers */
    uint32_t bell;                     /* futex; changes with each wake */
    uint8_t pad2[HCQI_CPU_LINE];
    hcqi_cpu_grid job;
    uint32_t rouse;                    /* worth waking workers up */
    uint64_t chunk;                    /* blocks to take at least */
    uint8_t pad3[HCQI_CPU_LINE];
} hcqi_cpu_pool;

typedef struct hcqi_cpu_device {
    hcq_device *device;
    struct hcqi_cpu_device *next;      /* of those with a seed, in the order of opening */
    uint64_t seed;
    uint64_t spin_ns;                  /* 0 = never */
    uint32_t cpus;
    uint32_t flags;                    /* HCQ_CPU_* */
    int watches;                       /* HCQ_DEVICE_CHECK_READS */
    uint32_t compute_lanes, copy_lanes, chunks;
    uint8_t pad0[HCQI_CPU_LINE];
    uint32_t active;                   /* threads that run or spin */
    uint8_t pad1[HCQI_CPU_LINE];
    uint64_t crowded_ns;               /* until then nobody spins */
    uint32_t trials;                   /* how long that is, in lost turns; 0 = there were none */
    uint32_t together;                 /* waits in a row that ended with their first yield */
    uint8_t pad2[HCQI_CPU_LINE];
    hcqi_cpu_lane lanes[2 * HCQI_CPU_LANES];
    hcqi_cpu_engine engines[2 * HCQI_CPU_LANES];
    hcqi_cpu_pool pool;
    uint64_t unused;                   /* code whose library is to be closed without the lock */
} hcqi_cpu_device;

/* ========================================================================== */
/* ---- spinning and sleeping ----------------------------------------------- */
/* Threads that run or spin are counted in `active`. One spins only while there
   is a CPU for every counted thread: else it stops being counted and sleeps.
   Whoever spins for longer than a moment yields now and then: the thread that
   would end the wait may be queued behind the spinner on this very CPU.

   Where other programs want the CPUs, who spins uses up the turn that he needs
   later, and a yield gives it away: the system lets all others run first, for
   milliseconds each. Who sleeps keeps it. So a spinner who finds that he lost
   his turn tells all threads to sleep at once, for a while if it was an accident,
   and where the next trial ends so again, for a time that makes trials cheap.

   A wait that ends with its first yield was one for a thread on the same CPU.
   After many of them in a row the next ones yield first of all, until that
   does not help; a few come about on two CPUs, too. */

typedef struct hcqi_cpu_spin {
    uint64_t end_ns;                   /* 0 = not looked yet */
    uint64_t look_ns;                  /* when he looked last */
    uint32_t turns;
    uint32_t together;                 /* yields first of all */
} hcqi_cpu_spin;

static void hcqi_cpu_enter(hcqi_cpu_device *d) { hcqi_atomic_add32(&d->active, 1); }
static void hcqi_cpu_leave(hcqi_cpu_device *d) { hcqi_atomic_add32(&d->active, UINT32_MAX); }

static void hcqi_cpu_spin_begin(hcqi_cpu_spin *spin) {
    memset(spin, 0, sizeof *spin);
}

static int hcqi_cpu_together(hcqi_cpu_device *d) {
    return hcqi_atomic_load32(&d->together) >= HCQI_CPU_TOGETHER;
}

/* Begins a wait for a lane's thread or its host, of which `turns` are over. */
static void hcqi_cpu_spin_pair(hcqi_cpu_device *d, hcqi_cpu_spin *spin, uint32_t turns) {
    hcqi_cpu_spin_begin(spin);
    spin->together = (uint32_t)hcqi_cpu_together(d);
    spin->turns = spin->together ? HCQI_CPU_TIGHT - 1u : turns;
}

/* It is over. */
static void hcqi_cpu_spin_met(hcqi_cpu_device *d, const hcqi_cpu_spin *spin) {
    if (spin->turns == HCQI_CPU_TIGHT) { hcqi_atomic_add32(&d->together, 1); }
}

/* Is it a time to sleep at once? A gap between two looks says that it is. */
static int hcqi_cpu_crowded(hcqi_cpu_device *d, hcqi_cpu_spin *spin, uint64_t now) {
    uint64_t gap = spin->look_ns != 0 ? now - spin->look_ns : 0;
    spin->look_ns = now;
    if (gap >= HCQI_CPU_LOST_NS) {
        uint64_t until = hcqi_atomic_load64(&d->crowded_ns);
        uint32_t trials = 2 * hcqi_atomic_load32(&d->trials);
        gap = gap < HCQI_CPU_LOST_MAX_NS ? gap : (uint64_t)HCQI_CPU_LOST_MAX_NS;
        if (trials == 0 || now >= until + gap * HCQI_CPU_TRIALS) { trials = HCQI_CPU_TRIAL; }
        if (trials > HCQI_CPU_TRIALS) { trials = HCQI_CPU_TRIALS; }
        hcqi_atomic_store32(&d->trials, trials);
        hcqi_atomic_store64(&d->crowded_ns, now + gap * trials);
        return 1;
    }
    return now < hcqi_atomic_load64(&d->crowded_ns);
}

/* May a counted thread go on? At 0 it is no longer counted. */
static int hcqi_cpu_spin_look(hcqi_cpu_device *d, hcqi_cpu_spin *spin) {
    uint32_t active = hcqi_atomic_load32(&d->active);
    if (active > d->cpus) {
        /* One leaves for each that is too much, not all who see it. */
        return !hcqi_atomic_cas32(&d->active, active, active - 1);
    }
    uint64_t now = hcq_now_ns();
    if (spin->end_ns == 0) { spin->end_ns = now + d->spin_ns; }
    if (hcqi_cpu_crowded(d, spin, now) || now >= spin->end_ns) {
        hcqi_cpu_leave(d);
        return 0;
    }
    hcq_sys_yield();
    return 1;
}

/* One turn of waiting for a counted thread; answers like hcqi_cpu_spin_look. */
static int hcqi_cpu_spin_turn(hcqi_cpu_device *d, hcqi_cpu_spin *spin) {
    if (d->spin_ns == 0) {
        hcqi_cpu_leave(d);
        return 0;
    }
    if (++spin->turns < HCQI_CPU_TIGHT) {
        return 1; /* a pause takes longer than what one waits for */
    }
    if (spin->turns == HCQI_CPU_TIGHT + 1 && hcqi_atomic_load32(&d->together)) {
        hcqi_atomic_store32(&d->together, 0); /* a yield was not enough */
    }
    if (spin->together) {
        spin->together = 0;
        return hcqi_cpu_spin_look(d, spin);
    }
    hcqi_atomic_pause();
    return spin->turns % HCQI_CPU_TURNS != 0 || hcqi_cpu_spin_look(d, spin);
}

/* ========================================================================== */
/* ---- counters ------------------------------------------------------------ */

static void hcqi_cpu_counter_wake(hcqi_cpu_counter *counter) {
    hcqi_atomic_swap64(&counter->wanted, UINT64_MAX);
    hcqi_atomic_add32(&counter->sequence, 1);
    hcq_sys_wake(&counter->sequence, 1);
}

static void hcqi_cpu_counter_raise(hcqi_cpu_counter *counter, uint64_t value) {
    hcqi_atomic_swap64(&counter->value, value);
    if (hcqi_atomic_load64(&counter->wanted) <= value) { hcqi_cpu_counter_wake(counter); }
}

/* Lowers `wanted` to `value` if it is above. A lower one is out of the word
   for a moment: who puts it back answers for what was raised meanwhile. */
static void hcqi_cpu_counter_want(hcqi_cpu_counter *counter, uint64_t value) {
    uint64_t lowest = value;
    for (;;) {
        uint64_t old = hcqi_atomic_swap64(&counter->wanted, lowest);
        if (old >= lowest) { break; }
        lowest = old;
    }
    if (lowest < value && hcqi_atomic_load64(&counter->value) >= lowest) {
        hcqi_cpu_counter_wake(counter);
    }
}

/* Sleeps until the value is reached or the clock shows `end_ns`. */
static hcq_result hcqi_cpu_counter_sleep(hcqi_cpu_counter *counter, uint64_t value,
                                         uint64_t end_ns) {
    for (;;) {
        uint32_t sequence = hcqi_atomic_load32(&counter->sequence);
        hcqi_cpu_counter_want(counter, value);
        uint64_t left_ns = hcqi_left(end_ns);
        if (hcqi_atomic_load64(&counter->value) >= value) { return HCQ_OK; }
        if (left_ns == 0) { return HCQ_TIMEOUT; }
        hcq_sys_wait(&counter->sequence, sequence, left_ns);
    }
}

/* For a counted thread, which is counted again afterwards. */
static hcq_result hcqi_cpu_counter_wait(hcqi_cpu_device *d, hcqi_cpu_counter *counter,
                                        uint64_t value, uint64_t end_ns, uint32_t turns) {
    hcqi_cpu_spin spin;
    hcqi_cpu_spin_pair(d, &spin, turns);
    while (hcqi_atomic_load64(&counter->value) < value) {
        if (hcqi_cpu_spin_turn(d, &spin)) {
            if (spin.end_ns > end_ns) { spin.end_ns = end_ns; }
            continue;
        }
        hcq_result r = hcqi_cpu_counter_sleep(counter, value, end_ns);
        hcqi_cpu_enter(d);
        return r;
    }
    hcqi_cpu_spin_met(d, &spin);
    return HCQ_OK;
}

/* ========================================================================== */
/* ---- grids --------------------------------------------------------------- */

/* Runs `count` blocks from index `first`. */
static void hcqi_cpu_blocks(hcqi_cpu_grid *grid, uint64_t first, uint64_t count) {
    hcq_cpu_fn fn = grid->fn;
    const void *args = grid->args;
    hcq_block *block = &grid->block;
    uint64_t width = block->grid.x, x = 0, y = 0, z = 0;
    if (first != 0) { /* divisions are slow */
        x = first % width;
        y = first / width % block->grid.y;
        z = first / width / block->grid.y;
    }
    for (;;) {
        uint64_t end = width - x < count ? width : x + count;
        count -= end - x;
        block->id.y = (uint32_t)y;
        block->id.z = (uint32_t)z;
        for (; x < end; x++) {
            block->id.x = (uint32_t)x;
            fn(args, block);
        }
        if (count == 0) { return; }
        x = 0;
        if (++y == block->grid.y) {
            y = 0;
            z++;
        }
    }
}

/* Takes shares of a thread's part until there are none; returns the blocks. */
static uint64_t hcqi_cpu_part_share(hcqi_cpu_grid *grid, hcqi_cpu_worker *part, uint64_t chunk) {
    uint64_t done = 0;
    for (;;) {
        uint64_t next = hcqi_atomic_load64(&part->next);
        if (next >= part->end) { return done; }
        uint64_t count = (part->end - next) / 4;
        count = count > chunk ? count : chunk;
        next = hcqi_atomic_add64(&part->next, count);
        if (next >= part->end) { return done; }
        count = count < part->end - next ? count : part->end - next;
        hcqi_cpu_blocks(grid, next, count);
        done += count;
    }
}

/* Works through thread `self`'s own part of the pool's job, then through what
   the others have left. */
static uint64_t hcqi_cpu_pool_share(hcqi_cpu_pool *pool, uint32_t self) {
    hcqi_cpu_grid grid = pool->job;
    uint64_t done = 0;
    uint32_t threads = pool->started + 1;
    for (uint32_t i = 0; i < threads; i++) {
        done += hcqi_cpu_part_share(&grid, &pool->workers[(self + i) % threads], pool->chunk);
    }
    return done;
}

static uint64_t hcqi_cpu_pool_left(const hcqi_cpu_pool *pool) {
    uint64_t left = 0;
    for (uint32_t i = 0; i <= pool->started; i++) {
        const hcqi_cpu_worker *part = &pool->workers[i];
        uint64_t next = hcqi_atomic_load64(&part->next);
        left += next < part->end ? part->end - next : 0;
    }
    return left;
}

/* Wakes up to `count` sleeping workers, if the job is worth it. */
static void hcqi_cpu_pool_rouse(hcqi_cpu_pool *pool, uint64_t count) {
    uint64_t left = pool->rouse ? hcqi_cpu_pool_left(pool) : 0;
    if (left < 2) { return; } /* the caller takes the last block itself */
    left--;
    for (count = count < left ? count : left; count != 0; count--) {
        if (!hcqi_atomic_load32(&pool->asleep)) { return; }
        hcqi_atomic_add32(&pool->bell, 1);
        hcq_sys_wake(&pool->bell, 0);
    }
}

static void hcqi_cpu_pool_leave(hcqi_cpu_pool *pool) {
    uint32_t gate = hcqi_atomic_add32(&pool->gate, UINT32_MAX) - 1;
    if ((gate & (HCQI_CPU_OPEN | HCQI_CPU_INSIDE | HCQI_CPU_OWNER)) == HCQI_CPU_OWNER) {
        hcq_sys_wake(&pool->gate, 1);
    }
}

/* Is there a job that the worker has not seen (or is it time to stop)? */
static int hcqi_cpu_worker_called(hcqi_cpu_pool *pool, uint32_t seen) {
    uint32_t gate = hcqi_atomic_load32(&pool->gate);
    return ((gate & HCQI_CPU_OPEN) && (gate & HCQI_CPU_GENERATIONS) != seen) ||
           hcqi_atomic_load32(&pool->stop);
}

static void hcqi_cpu_worker_sleep(hcqi_cpu_pool *pool, uint32_t seen) {
    hcqi_atomic_add32(&pool->asleep, 1);
    for (;;) {
        uint32_t bell = hcqi_atomic_load32(&pool->bell);
        if (hcqi_cpu_worker_called(pool, seen)) { break; }
        hcq_sys_wait(&pool->bell, bell, HCQ_FOREVER);
    }
    hcqi_atomic_add32(&pool->asleep, UINT32_MAX);
}

static void hcqi_cpu_worker_main(void *user) {
    hcqi_cpu_worker *worker = HCQI_CAST(hcqi_cpu_worker *, user);
    hcqi_cpu_device *d = worker->device;
    hcqi_cpu_pool *pool = &d->pool;
    hcqi_cpu_spin spin;
    uint32_t seen = 0;
    hcq_backend_callback(1);
    if (d->flags & HCQ_CPU_PIN) { hcq_sys_thread_pin(worker->index % d->cpus); }
    hcqi_cpu_enter(d);
    hcqi_cpu_spin_begin(&spin);
    while (!hcqi_atomic_load32(&pool->stop)) {
        uint32_t gate = hcqi_atomic_load32(&pool->gate);
        if (!(gate & HCQI_CPU_OPEN) || (gate & HCQI_CPU_GENERATIONS) == seen) {
            if (!hcqi_cpu_spin_turn(d, &spin)) {
                hcqi_cpu_worker_sleep(pool, seen);
                hcqi_cpu_enter(d);
                hcqi_cpu_spin_begin(&spin);
            }
            continue;
        }
        if (!hcqi_atomic_cas32(&pool->gate, gate, gate + 1)) { continue; }
        seen = gate & HCQI_CPU_GENERATIONS;
        hcqi_cpu_pool_rouse(pool, 2); /* waking is dear: everybody wakes two */
        worker->done = hcqi_cpu_pool_share(pool, worker->index);
        hcqi_cpu_pool_leave(pool);
        hcqi_cpu_spin_begin(&spin);
    }
    hcqi_cpu_leave(d);
}

/* Starts the workers; with fewer than wanted the rest does the work. */
static HCQI_COLD void hcqi_cpu_pool_start(hcqi_cpu_device *d) {
    hcqi_cpu_pool *pool = &d->pool;
    pool->tried = 1;
    for (uint32_t i = 1; i <= pool->wanted; i++) {
        hcqi_cpu_worker *worker = &pool->workers[i];
        worker->device = d;
        worker->index = i;
        worker->thread.run_fn = hcqi_cpu_worker_main;
        worker->thread.user = worker;
        snprintf(worker->thread.name, sizeof worker->thread.name, "hcq worker %u",
                 (i - 1) % 1000u);
        hcq_result r = hcq_sys_thread_start(&worker->thread);
        if (r != HCQ_OK) {
            hcq_backend_log(d->device, r, "CPU: only %u of %u workers could be started",
                            (unsigned)pool->started, (unsigned)pool->wanted);
            return;
        }
        pool->started = i;
    }
}

static void hcqi_cpu_pool_stop(hcqi_cpu_pool *pool) {
    hcqi_atomic_swap32(&pool->stop, 1);
    hcqi_atomic_add32(&pool->bell, 1);
    hcq_sys_wake(&pool->bell, 1);
    for (; pool->started != 0; pool->started--) {
        hcq_sys_thread_join(&pool->workers[pool->started].thread);
    }
}

/* Is a grid worth waking workers up? A small one alone is not, a stream of
   them is, if there are idle CPUs. */
static int hcqi_cpu_pool_worth(hcqi_cpu_device *d, uint64_t cost_ps) {
    hcqi_cpu_pool *pool = &d->pool;
    if (cost_ps >= HCQI_CPU_WAKE_PS) { return 1; }
    if (!hcqi_atomic_load32(&pool->asleep) || hcqi_atomic_load32(&d->active) >= d->cpus) {
        return 0;
    }
    pool->missed_ps += cost_ps;
    if (pool->missed_ps < 4u * (uint64_t)HCQI_CPU_WAKE_PS) { return 0; }
    pool->missed_ps = 0;
    return 1;
}

/* Takes the pool for a grid that costs about `cost_ps`. */
static int hcqi_cpu_pool_take(hcqi_cpu_device *d, uint64_t cost_ps) {
    hcqi_cpu_pool *pool = &d->pool;
    if (hcqi_atomic_load32(&pool->lock) || !hcqi_atomic_cas32(&pool->lock, 0, 1)) { return 0; }
    if (pool->tried == 0) { hcqi_cpu_pool_start(d); }
    pool->rouse = (uint32_t)hcqi_cpu_pool_worth(d, cost_ps);
    if (pool->started != 0 && (pool->rouse || hcqi_atomic_load32(&pool->asleep) < pool->started)) {
        return 1;
    }
    hcqi_atomic_store32(&pool->lock, 0);
    return 0;
}

/* Waits for the workers inside; the gate is closed. */
static void hcqi_cpu_pool_join(hcqi_cpu_device *d) {
    uint32_t *word = &d->pool.gate;
    hcqi_cpu_spin spin;
    hcqi_cpu_spin_begin(&spin);
    for (;;) {
        uint32_t gate = hcqi_atomic_load32(word);
        if (!(gate & HCQI_CPU_INSIDE)) { return; }
        if (hcqi_cpu_spin_turn(d, &spin)) { continue; }
        for (; gate & HCQI_CPU_INSIDE; gate = hcqi_atomic_load32(word)) {
            if (gate & HCQI_CPU_OWNER) {
                hcq_sys_wait(word, gate, HCQ_FOREVER);
            } else {
                hcqi_atomic_cas32(word, gate, gate | HCQI_CPU_OWNER);
            }
        }
        hcqi_cpu_enter(d);
        return;
    }
}

/* Wakes a worker, and before that lets go a thread that spins where it could
   run: the system might queue the worker behind the caller, for a whole tick. */
static void hcqi_cpu_pool_call(hcqi_cpu_device *d) {
    hcqi_atomic_add32(&d->active, 1);
    for (int i = 0; i < HCQI_CPU_ROOM && hcqi_atomic_load32(&d->active) > d->cpus; i++) {
        hcqi_atomic_pause();
    }
    hcqi_cpu_pool_rouse(&d->pool, 1);
    hcqi_atomic_add32(&d->active, UINT32_MAX);
}

/* Who ran how much of the grid that is over. Rounded so that the sum is 100. */
static void hcqi_cpu_pool_shares(const hcqi_cpu_pool *pool, const hcqi_cpu_grid *grid) {
    uint64_t done = 0;
    uint32_t told = 0;
    for (uint32_t i = 0; i <= pool->started; i++) {
        done += pool->workers[i].done;
        uint32_t percent = (uint32_t)(100 * done / grid->total);
        uint8_t *share = &grid->shares[i < 15 ? i : 15];
        *share = (uint8_t)(*share + percent - told);
        told = percent;
    }
}

/* Runs a grid with the pool, which the caller has taken. Returns the blocks
   that the caller ran itself and in `ns` the time they took. */
static uint64_t hcqi_cpu_pool_run(hcqi_cpu_device *d, hcqi_cpu_grid *grid,
                                  uint32_t estimate, uint64_t *ns) {
    hcqi_cpu_pool *pool = &d->pool;
    uint32_t generation = hcqi_atomic_load32(&pool->gate) & HCQI_CPU_GENERATIONS;
    generation = (generation + HCQI_CPU_GENERATION) & HCQI_CPU_GENERATIONS;
    pool->job = *grid;
    pool->chunk = estimate != 0 && estimate < HCQI_CPU_CHUNK_PS ? HCQI_CPU_CHUNK_PS / estimate : 1;
    uint64_t first = 0;
    for (uint32_t i = 0; i <= pool->started; i++) {
        uint32_t threads = pool->started + 1 - i;
        hcqi_atomic_store64(&pool->workers[i].next, first);
        first += (grid->total - first + threads - 1) / threads;
        pool->workers[i].end = first;
        if (grid->shares != NULL) { pool->workers[i].done = 0; } /* it may come too late */
    }
    hcqi_atomic_swap32(&pool->gate, HCQI_CPU_OPEN | generation);
    if (pool->rouse && hcqi_atomic_load32(&pool->asleep)) { hcqi_cpu_pool_call(d); }
    *ns = hcq_now_ns();
    uint64_t done = hcqi_cpu_pool_share(pool, 0);
    *ns = hcq_now_ns() - *ns;
    hcqi_atomic_add32(&pool->gate, 0u - HCQI_CPU_OPEN);
    hcqi_cpu_pool_join(d);
    pool->workers[0].done = done;
    if (grid->shares != NULL) { hcqi_cpu_pool_shares(pool, grid); }
    hcqi_atomic_store32(&pool->lock, 0);
    return done;
}

/* Moves the estimate towards a measurement; at once if it is far too low. */
static void hcqi_cpu_estimate(hcqi_cpu_code *code, uint64_t ns, uint64_t blocks) {
    if (blocks == 0) { return; }
    uint64_t old = hcqi_atomic_load32(&code->estimate), now = ns * 1000u / blocks;
    now = now > UINT32_MAX ? UINT32_MAX : now;
    now = old != 0 && now < 4 * old ? (3 * old + now) / 4 : now;
    hcqi_atomic_store32(&code->estimate, now != 0 ? (uint32_t)now : 1);
}

/* Runs a grid of at most 2^62 blocks, alone or with the pool. */
static void hcqi_cpu_grid_run(hcqi_cpu_device *d, hcqi_cpu_code *code, hcqi_cpu_grid *grid) {
    uint64_t estimate = hcqi_atomic_load32(&code->estimate), cost_ps = UINT64_MAX;
    uint64_t ns = 0, done = grid->total;
    if (d->pool.wanted == 0) {
        hcqi_cpu_blocks(grid, 0, grid->total);
        return;
    }
    if (estimate != 0 && (grid->total <= UINT32_MAX || grid->total < UINT64_MAX / estimate)) {
        cost_ps = estimate * grid->total;
    }
    if (cost_ps >= HCQI_CPU_INLINE_PS && grid->total > 1 && hcqi_cpu_pool_take(d, cost_ps)) {
        done = hcqi_cpu_pool_run(d, grid, (uint32_t)estimate, &ns);
    } else {
        uint32_t runs = hcqi_atomic_load32(&code->runs);
        int timed = cost_ps >= HCQI_CPU_TIMED_PS || runs % 16 == 0;
        hcqi_atomic_store32(&code->runs, runs + 1);
        if (timed) { ns = hcq_now_ns(); }
        hcqi_cpu_blocks(grid, 0, grid->total);
        if (!timed) { return; }
        ns = hcq_now_ns() - ns;
    }
    hcqi_cpu_estimate(code, ns, done);
}

/* ========================================================================== */
/* ---- packets ------------------------------------------------------------- */

/* HCQ_NOT_READY: it is empty; HCQ_ERROR_INVALID: above its maximum. */
static hcq_result hcqi_cpu_grid_of(const hcq_packet *p, hcqi_cpu_grid *out) {
    const hcqi_cpu_code *code = HCQI_CAST(const hcqi_cpu_code *, p->u.exec.code);
    hcqi_cpu_grid grid;
    uint32_t count[3];
    int direct = p->u.exec.grid_at == 0;
    grid.shares = NULL;
    if (p->flags & HCQ_PACKET_SHARES) { /* the only bytes of a packet that are written */
        grid.shares = HCQ_PTR(uint8_t, (uintptr_t)p[-1].u.stamp.shares);
        memset(grid.shares, 0, sizeof p->u.stamp.shares);
    }
    memcpy(count, direct ? p->u.exec.grid : HCQ_PTR(const void, p->u.exec.grid_at), sizeof count);
    if (!direct && !HCQ_GRID_WITHIN(count, p->u.exec.grid)) { return HCQ_ERROR_INVALID; }
    if (HCQ_GRID_IS_EMPTY(count)) { return HCQ_NOT_READY; }
    grid.fn = code->fn;
    grid.block.user = code->user;
    grid.args = HCQ_PTR(const void, p->u.exec.args);
    grid.block.grid = hcq_dim(count[0], count[1], count[2]);
    grid.block.block = hcq_dim(p->u.exec.block[0], p->u.exec.block[1], p->u.exec.block[2]);
    uint64_t area = (uint64_t)grid.block.grid.x * grid.block.grid.y, most = UINT64_MAX >> 2;
    grid.total = most; /* nobody lives to see its end */
    if (area <= most / grid.block.grid.z) { grid.total = area * grid.block.grid.z; }
    *out = grid;
    return HCQ_OK;
}

static hcq_result hcqi_cpu_exec(hcqi_cpu_device *d, const hcq_packet *p) {
    hcqi_cpu_grid grid;
    hcq_result r = hcqi_cpu_grid_of(p, &grid);
    if (r == HCQ_OK) { hcqi_cpu_grid_run(d, HCQI_CAST(hcqi_cpu_code *, p->u.exec.code), &grid); }
    return r < 0 ? r : HCQ_OK;
}

static void hcqi_cpu_fill(void *dst, uint64_t size, uint64_t value, uint32_t value_size) {
    uint64_t pattern[8];
    unsigned char *at = HCQI_CAST(unsigned char *, dst);
    if (value_size == 1) {
        memset(dst, (int)(value & 0xff), (size_t)size);
        return;
    }
    value = value << (64 - 8 * value_size) >> (64 - 8 * value_size);
    for (uint32_t bits = 8 * value_size; bits < 64; bits *= 2) { value |= value << bits; }
    for (int i = 0; i < 8; i++) { pattern[i] = value; }
    for (; size >= sizeof pattern; size -= sizeof pattern) {
        memcpy(at, pattern, sizeof pattern);
        at += sizeof pattern;
    }
    memcpy(at, pattern, (size_t)size);
}

static HCQI_THREAD_LOCAL hcq_result hcqi_cpu_said; /* by the last host command that failed */

/* A packet that the loop below leaves; HCQ_ERROR_HOST if it refused, _INVALID if a grid is
   above its maximum. Apart: a compiler that joins its switch with the test before
   it makes that slower. */
static HCQI_CALLED hcq_result hcqi_cpu_packet(hcqi_cpu_device *d, const hcq_packet *p) {
    hcq_result r = HCQ_OK;
    switch (p->kind) {
    case HCQ_COMMAND_EXEC:
        return hcqi_cpu_exec(d, p);
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
        memmove(HCQ_PTR(void, p->u.copy.dst), HCQ_PTR(const void, p->u.copy.src),
                (size_t)p->u.copy.size);
        break;
    case HCQ_COMMAND_FILL:
        hcqi_cpu_fill(HCQ_PTR(void, p->u.fill.dst), p->u.fill.size, p->u.fill.value,
                      p->value_size);
        break;
    case HCQ_COMMAND_HOST:
        r = p->u.host.fn(p->u.host.user);
        break;
    case HCQ_COMMAND_CUSTOM:
        r = p->u.custom.encode_fn(p->u.custom.type->user, NULL, p->u.custom.payload);
        break;
    default:
        break; /* barriers: one thread after another is ordered anyway */
    }
    if ((int)r < 0) { hcqi_cpu_said = r; }
    return (int)r < 0 ? HCQ_ERROR_HOST : HCQ_OK;
}

/* x and y in one test: in a stream of tiny kernels branches count. */
static int hcqi_cpu_one_block(const hcq_packet *p) {
    uint64_t xy;
    memcpy(&xy, p->u.exec.grid, sizeof xy);
    return p->kind == HCQ_COMMAND_EXEC && xy == ((uint64_t)1 << 32 | 1) && p->u.exec.grid[2] == 1;
}

/* Runs packets in order; returns the one that failed or NULL. A packet is a
   cache line of its own: a long recording is more than the nearest cache holds,
   and comes from the next one too late where nobody asks for it ahead. The
   function begins on one, too: where its loop lay by chance was worth a fifth. */
HCQI_CPU_HOT static const hcq_packet *hcqi_cpu_packets(hcqi_cpu_device *d, const hcq_packet *p,
                                                       uint32_t count) {
    if (count == 0) { return NULL; } /* and `p` may be NULL */
    const hcq_packet *end = p + count;
    hcq_block block;
    uint8_t *to = HCQI_CAST(uint8_t *, HCQI_CAST(void *, &block));
    block.id = hcq_dim(0, 0, 0);
    block.grid = hcq_dim(1, 1, 1);
    for (; p < end; p++) {
        if (HCQI_CPU_LIKELY(hcqi_cpu_one_block(p))) {
            const hcqi_cpu_code *code = HCQI_CAST(const hcqi_cpu_code *, p->u.exec.code);
            HCQI_CPU_PREFETCH((const void *)((uintptr_t)p + HCQI_CPU_AHEAD));
            const void *from = p;      /* 16 bytes: with what pads it that is one store */
            memcpy(to + offsetof(hcq_block, block),
                   HCQI_CAST(const uint8_t *, from) + offsetof(hcq_packet, u.exec.block), 16);
            block.user = code->user;
            code->fn(HCQ_PTR(const void, p->u.exec.args), &block);
        } else if (p->kind == HCQ_COMMAND_TIMESTAMP) { /* in turns with those, in a profile */
            hcqi_atomic_store64(HCQ_PTR(uint64_t, p->u.stamp.dst), hcq_now_ns());
        } else if (hcqi_cpu_packet(d, p) != HCQ_OK) {
            return p;
        }
    }
    return NULL;
}

/* ========================================================================== */
/* ---- engines ------------------------------------------------------------- */

/* Steps over the entry at the head; a chunk that is empty then goes back. The
   engine is the only one to add to the list, so it may take it off a while. */
static void hcqi_cpu_engine_advance(hcqi_cpu_engine *engine) {
    if (++engine->head_at < HCQI_CPU_CHUNK) { return; }
    hcqi_cpu_chunk *old = engine->head;
    engine->head = old->next; /* linked before the last entry was published */
    engine->head_at = 0;
    if (hcqi_atomic_load32(&engine->chunks) > engine->device->chunks) {
        hcqi_atomic_add32(&engine->chunks, UINT32_MAX); /* after a burst */
        hcq_backend_free(engine->device->device, old, sizeof *old);
        return;
    }
    old->next = HCQ_PTR(hcqi_cpu_chunk, hcqi_atomic_swap64(&engine->drained, 0));
    hcqi_atomic_swap64(&engine->drained, (uint64_t)(uintptr_t)old);
}

static hcqi_cpu_counter *hcqi_cpu_counter_of(const hcq_lane *lane, uint32_t counter) {
    return &HCQI_CAST(hcqi_cpu_lane *, lane->native)->counters[counter];
}

static void hcqi_cpu_engine_waits(hcqi_cpu_engine *engine, const hcqi_cpu_entry *entry) {
    uint32_t count = hcqi_atomic_load32(&entry->ready) % HCQI_CPU_LAP;
    for (uint32_t i = 0; i < count; i++) {
        const hcq_lane_point *wait = &entry->waits[i];
        hcqi_cpu_counter_wait(engine->device, hcqi_cpu_counter_of(wait->lane, wait->counter),
                              wait->value, HCQ_FOREVER, 0);
        hcq_result r = hcq_backend_wait_result(wait);
        if (r != HCQ_OK && engine->failed == HCQ_OK) { engine->failed = r; }
    }
}

/* What came before the batch: HCQ_OK, or why it does not run. */
static hcq_result hcqi_cpu_engine_begin(hcqi_cpu_engine *engine, const hcqi_cpu_entry *entry) {
    hcq_result r = engine->failed;
    engine->failed = HCQ_OK;
    if (r == HCQ_OK && engine->refused) {
        r = hcq_backend_job_result(entry->job); /* of an earlier batch of the job */
    }
    return r;
}

/* Ends the batch; `failed`: the packet that did. */
static void hcqi_cpu_engine_end(hcqi_cpu_engine *engine, const hcqi_cpu_entry *entry,
                                hcq_result r, const hcq_packet *failed) {
    hcq_lane_point done = entry->done;
    hcqi_cpu_lane *lane = entry->native;
    const char *above = failed != NULL && failed->kind == HCQ_COMMAND_EXEC ? HCQ_GRID_ABOVE : NULL;
    if (failed != NULL) { r = above != NULL ? HCQ_ERROR_INVALID : HCQ_ERROR_HOST; }
    if (r != HCQ_OK) {
        engine->refused = 1;
        hcq_backend_job_fail(entry->job, &done, r, failed, above,
                             failed != NULL && above == NULL ? hcqi_cpu_said : 0);
    }
    /* Back first: who sees the counter finds the chunk in the list. */
    hcqi_cpu_engine_advance(engine);
    hcqi_cpu_counter_raise(&lane->counters[done.counter], done.value);
    if (hcqi_atomic_load32(&lane->watch)) { hcq_backend_notify(done.lane); }
}

#ifdef HCQ_CHECK                       /* HCQ_DEVICE_CHECK_READS: one by one */
static const hcq_packet *hcqi_cpu_watched(hcqi_cpu_device *d, hcq_job *job, const hcq_packet *p,
                                          uint32_t count) {
    const hcq_packet *failed = NULL;
    if (!d->watches) { return hcqi_cpu_packets(d, p, count); }
    for (uint32_t i = 0; failed == NULL && i < count; i++) {
        void *watch = hcqi_order_watch(job, &p[i]);
        failed = hcqi_cpu_packets(d, &p[i], 1);
        hcqi_order_watched(job, &p[i], watch);
    }
    return failed;
}
#define HCQI_CPU_RUN(d, job, p, count) hcqi_cpu_watched(d, job, p, count)
#else
#define HCQI_CPU_RUN(d, job, p, count) hcqi_cpu_packets(d, p, count)
#endif

static void hcqi_cpu_engine_run(hcqi_cpu_engine *engine, const hcqi_cpu_entry *entry) {
    hcqi_cpu_engine_waits(engine, entry);
    if (entry->job == NULL) {
        hcqi_cpu_engine_advance(engine);
        return;
    }
    const hcq_packet *failed = NULL;
    hcq_result r = hcqi_cpu_engine_begin(engine, entry);
    if (r == HCQ_OK) {
        failed = HCQI_CPU_RUN(engine->device, entry->job, entry->packets, entry->count);
    }
    hcqi_cpu_engine_end(engine, entry, r, failed);
}

static int hcqi_cpu_engine_ready(const hcqi_cpu_engine *engine, const hcqi_cpu_entry *entry) {
    return hcqi_atomic_load32(&entry->ready) - engine->head->lap < HCQI_CPU_LAP;
}

/* Who submits has the core's lock: either he sees `sleeping`, or what he published is seen
   here. Nobody else's work is done on the way out. */
static void hcqi_cpu_engine_sleep(hcqi_cpu_engine *engine, hcqi_cpu_entry *entry) {
    hcqi_enter();
    hcqi_atomic_store32(&engine->sleeping, 1);
    hcqi_unlock();
    while (!hcqi_cpu_engine_ready(engine, entry) && !hcqi_atomic_load32(&engine->stop) &&
           hcqi_atomic_load32(&engine->sleeping)) {
        hcq_sys_wait(&engine->sleeping, 1, HCQ_FOREVER);
    }
    hcqi_atomic_store32(&engine->sleeping, 0);
}

/* The next entry, or NULL when the engine is to stop. */
static hcqi_cpu_entry *hcqi_cpu_engine_next(hcqi_cpu_engine *engine) {
    hcqi_cpu_entry *entry = &engine->head->entries[engine->head_at];
    hcqi_cpu_spin spin;
    hcqi_cpu_spin_pair(engine->device, &spin, 0);
    while (!hcqi_cpu_engine_ready(engine, entry)) {
        if (hcqi_atomic_load32(&engine->stop)) { return NULL; }
        if (!hcqi_cpu_spin_turn(engine->device, &spin)) {
            hcqi_cpu_engine_sleep(engine, entry);
            hcqi_cpu_enter(engine->device);
            hcqi_cpu_spin_begin(&spin);
        }
    }
    hcqi_cpu_spin_met(engine->device, &spin);
    return entry;
}

static void hcqi_cpu_engine_main(void *user) {
    hcqi_cpu_engine *engine = HCQI_CAST(hcqi_cpu_engine *, user);
    hcqi_cpu_device *d = engine->device;
    hcq_backend_callback(1);
    if (d->flags & HCQ_CPU_PIN) { hcq_sys_thread_pin(engine->index % d->cpus); }
    hcqi_cpu_enter(d);
    for (;;) {                         /* one call of it, which is then part of the loop */
        hcqi_cpu_entry *entry = hcqi_cpu_engine_next(engine);
        if (entry == NULL) { break; }
        hcqi_cpu_engine_run(engine, entry);
    }
    hcqi_cpu_leave(d);
}

static void hcqi_cpu_engine_wake(hcqi_cpu_engine *engine) {
    if (hcqi_atomic_swap32(&engine->sleeping, 0)) { hcq_sys_wake(&engine->sleeping, 0); }
}

/* Whoever clears `posted` sees what was published before it was set, and
   rings for it; a flush that finds it clear was overtaken by that ring. */
static void hcqi_cpu_engine_ring(hcqi_cpu_engine *engine) {
    if (hcqi_atomic_load32(&engine->posted) && hcqi_atomic_swap32(&engine->posted, 0) &&
        hcqi_atomic_load32(&engine->sleeping)) {
        hcqi_cpu_engine_wake(engine);
    }
}

static hcq_result hcqi_cpu_engine_grow(hcqi_cpu_engine *engine) {
    void *memory =
        hcq_backend_alloc(engine->device->device, sizeof(hcqi_cpu_chunk), HCQI_CPU_LINE);
    hcqi_cpu_chunk *chunk = HCQI_CAST(hcqi_cpu_chunk *, memory);
    if (chunk == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    chunk->lap = 0;
    chunk->next = engine->spare;
    engine->spare = chunk;
    hcqi_atomic_add32(&engine->chunks, 1);
    return HCQ_OK;
}

/* Puts the spare chunk behind the tail. */
static HCQI_COLD void hcqi_cpu_engine_extend(hcqi_cpu_engine *engine) {
    hcqi_cpu_chunk *chunk = engine->spare;
    engine->spare = chunk->next;
    engine->lap += HCQI_CPU_LAP;
    if (chunk->lap == 0) {
        for (uint32_t i = 0; i < HCQI_CPU_CHUNK; i++) {
            hcqi_atomic_store32(&chunk->entries[i].ready, engine->lap - HCQI_CPU_LAP);
        }
    }
    chunk->lap = engine->lap;
    chunk->next = NULL;
    if (engine->tail != NULL) { engine->tail->next = chunk; }
    engine->tail = chunk;
    engine->tail_at = 0;
}

static void hcqi_cpu_engine_free_chunks(hcqi_cpu_engine *engine, hcqi_cpu_chunk *chunk) {
    while (chunk != NULL) {
        hcqi_cpu_chunk *next = chunk->next;
        hcq_backend_free(engine->device->device, chunk, sizeof *chunk);
        chunk = next;
    }
}

/* Frees the queue; the thread does not run, or never did. */
static void hcqi_cpu_engine_empty(hcqi_cpu_engine *engine) {
    uint64_t drained = hcqi_atomic_load64(&engine->drained);
    hcqi_cpu_engine_free_chunks(engine, HCQ_PTR(hcqi_cpu_chunk, drained));
    hcqi_cpu_engine_free_chunks(engine, engine->spare);
    hcqi_cpu_engine_free_chunks(engine, engine->head);
}

/* Once for each, which is zero before; what it took until it failed goes with the device. */
static HCQI_COLD hcq_result hcqi_cpu_engine_start(hcqi_cpu_device *d, uint32_t index) {
    hcqi_cpu_engine *engine = &d->engines[index];
    engine->device = d;
    engine->index = index;
    for (uint32_t i = 0; i < d->chunks; i++) { HCQI_PASS(hcqi_cpu_engine_grow(engine)); }
    hcqi_cpu_engine_extend(engine);
    engine->head = engine->tail;
    if (d->seed != 0) { return HCQ_OK; }
    engine->thread.run_fn = hcqi_cpu_engine_main;
    engine->thread.user = engine;
    snprintf(engine->thread.name, sizeof engine->thread.name, "hcq lane %u", index % 1000u);
    return hcq_sys_thread_start(&engine->thread);
}

static void hcqi_cpu_engine_stop(hcqi_cpu_engine *engine) {
    hcqi_atomic_swap32(&engine->stop, 1);
    hcqi_cpu_engine_wake(engine);
    if (engine->device->seed == 0) { hcq_sys_thread_join(&engine->thread); }
}

/* ========================================================================== */
/* ---- without threads: what runs next is drawn ----------------------------- */
/* All that may run on devices with a seed, in the order of opening and of lanes: for each
   engine the packet in the middle of which it is, or those that overlap each other; the end
   of a batch without any; host commands that the core calls. */

#ifdef HCQ_NO_THREADS
#define HCQI_CPU_ALONE 1
#else
#define HCQI_CPU_ALONE 0
#endif

enum {
    HCQI_CPU_PIECES = 256,             /* are looked at */
    HCQI_CPU_OVERLAPS = 64,            /* packets that change places */
    HCQI_CPU_PARTS = 4                 /* of a packet */
};

typedef struct hcqi_cpu_piece {
    hcq_device *device;                /* NULL: the host goes on */
    hcqi_cpu_engine *engine;           /* NULL: a host command that the core calls */
    const hcq_packet *packet;          /* NULL: a batch's end */
    const hcqi_cpu_entry *entry;
} hcqi_cpu_piece;

static struct hcqi_cpu_world {
    hcqi_cpu_device *first;
    uint64_t random;
    int dead;                          /* a wait was one that nothing can end */
    /* Exploring: which of `pieces`; else the seed says. With `pieces` NULL: a number. */
    uint32_t (*choose_fn)(const hcqi_cpu_piece *pieces, uint32_t count);
    hcqi_cpu_piece pieces[HCQI_CPU_PIECES];
} hcqi_cpu_world;

/* Below `count`. (The generator is splitmix64.) */
static uint32_t hcqi_cpu_draw(const hcqi_cpu_piece *pieces, uint32_t count) {
    if (hcqi_cpu_world.choose_fn != NULL) { return hcqi_cpu_world.choose_fn(pieces, count); }
    if (count < 2) { return 0; }
    uint64_t x = hcqi_cpu_world.random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ x >> 31) % count);
}

/* Before the batch at the head: are its waits over? Those alone are stepped over. */
static const hcqi_cpu_entry *hcqi_cpu_walk_entry(hcqi_cpu_engine *engine) {
    for (;;) {
        const hcqi_cpu_entry *entry = &engine->head->entries[engine->head_at];
        if (engine->walk.begun) { return entry; }
        if (!hcqi_cpu_engine_ready(engine, entry)) { return NULL; }
        uint32_t count = hcqi_atomic_load32(&entry->ready) % HCQI_CPU_LAP;
        for (uint32_t i = 0; i < count; i++) {
            const hcq_lane_point *wait = &entry->waits[i];
            uint64_t *value = &hcqi_cpu_counter_of(wait->lane, wait->counter)->value;
            if (hcqi_atomic_load64(value) < wait->value) { return NULL; }
        }
        hcqi_cpu_engine_waits(engine, entry);
        if (entry->job != NULL) { return entry; }
        hcqi_cpu_engine_advance(engine);
    }
}

/* The next packets that overlap each other, if those before are over. */
static void hcqi_cpu_walk_group(hcqi_cpu_walk *w, const hcqi_cpu_entry *entry) {
    if (w->left != 0 || w->result != HCQ_OK || w->failed != NULL) { return; }
    w->at = w->end;
    if (w->at == entry->count) { return; }
    for (w->end++; w->end < entry->count && w->end - w->at < HCQI_CPU_OVERLAPS; w->end++) {
        if (!(entry->packets[w->end].flags & HCQ_OVERLAP)) { break; }
    }
    w->left = UINT64_MAX >> (64 - (w->end - w->at));
}

static uint32_t hcqi_cpu_walk_pieces(hcqi_cpu_engine *engine, uint32_t n) {
    hcqi_cpu_walk *w = &engine->walk;
    const hcqi_cpu_entry *entry = hcqi_cpu_walk_entry(engine);
    hcqi_cpu_piece piece = { engine->device->device, engine, w->packet, entry };
    if (entry == NULL) { return n; }
    if (!w->begun) {
        w->begun = 1;
        w->result = hcqi_cpu_engine_begin(engine, entry);
        w->failed = NULL;
        w->end = 0;
        w->left = 0;
        hcqi_cpu_walk_group(w, entry);
    }
    uint64_t left = w->packet == NULL && w->failed == NULL ? w->left : 0;
    if (left == 0) { hcqi_cpu_world.pieces[n++] = piece; }
    for (uint32_t i = 0; left != 0 && n < HCQI_CPU_PIECES; i++, left >>= 1) {
        piece.packet = &entry->packets[w->at + i];
        if (left & 1) { hcqi_cpu_world.pieces[n++] = piece; }
    }
    return n;
}

/* Those that may run, behind the first `n`; how many in all. */
static uint32_t hcqi_cpu_world_pieces(uint32_t n) {
    for (hcqi_cpu_device *d = hcqi_cpu_world.first; d != NULL; d = d->next) {
        uint32_t count = d->compute_lanes + d->copy_lanes;
        for (uint32_t i = 0; i < count && n < HCQI_CPU_PIECES; i++) {
            if (d->engines[i].lanes != 0) { n = hcqi_cpu_walk_pieces(&d->engines[i], n); }
        }
        if (n == HCQI_CPU_PIECES || !d->device->service_started) { continue; }
        hcqi_enter();
        hcqi_reap_device(d->device);
        hcqi_drain();
        const hcqi_cpu_piece piece = { d->device, NULL, NULL, NULL };
        if (hcqi_service_due(d->device, 0) != NULL) { hcqi_cpu_world.pieces[n++] = piece; }
        hcqi_leave();
    }
    return n;
}

static uint32_t hcqi_cpu_parts(const hcq_packet *p) {
    hcqi_cpu_grid grid;
    if (p->kind == HCQ_COMMAND_EXEC && hcqi_cpu_grid_of(p, &grid) == HCQ_OK) {
        return grid.total < HCQI_CPU_PARTS ? (uint32_t)grid.total : (uint32_t)HCQI_CPU_PARTS;
    }
    int bytes = p->kind == HCQ_COMMAND_COPY || p->kind == HCQ_COMMAND_FILL;
    return bytes && p->u.copy.size >= 8 * HCQI_CPU_PARTS ? HCQI_CPU_PARTS / 2 : 1;
}

/* One of several; whole packets go the usual way. */
static void hcqi_cpu_part_run(const hcq_packet *p, uint32_t part, uint32_t parts) {
    hcqi_cpu_grid grid;
    if (p->kind == HCQ_COMMAND_EXEC) {
        if (hcqi_cpu_grid_of(p, &grid) != HCQ_OK) { return; } /* who it is read from changed it */
        uint64_t share = grid.total / parts, first = share * part;
        hcqi_cpu_blocks(&grid, first, part + 1 == parts ? grid.total - first : share);
        return;
    }
    uint64_t share = p->u.copy.size / parts & ~UINT64_C(7), first = share * part;
    uint64_t size = part + 1 == parts ? p->u.copy.size - first : share;
    if (p->kind == HCQ_COMMAND_FILL) {
        hcqi_cpu_fill(HCQ_PTR(void, p->u.fill.dst + first), size, p->u.fill.value, p->value_size);
    } else {
        memmove(HCQ_PTR(void, p->u.copy.dst + first), HCQ_PTR(const void, p->u.copy.src + first),
                (size_t)size);
    }
}

/* Runs a part of the packet, drawn among those that have not. */
static void hcqi_cpu_walk_packet(hcqi_cpu_engine *engine, const hcqi_cpu_entry *entry,
                                 const hcq_packet *p) {
    hcqi_cpu_walk *w = &engine->walk;
    if (w->packet == NULL) {
        w->packet = p;
        int whole = hcqi_cpu_world.choose_fn != NULL || engine->device->watches;
        w->parts = whole ? 1 : hcqi_cpu_parts(p);
        w->undone = (1u << w->parts) - 1;
    }
    if (w->parts > 1) {
        uint32_t part = hcqi_cpu_draw(NULL, w->parts);
        while ((w->undone >> part & 1) == 0) { part = (part + 1) % w->parts; }
        hcqi_cpu_part_run(p, part, w->parts);
        w->undone &= ~(1u << part);
    } else {
        w->failed = HCQI_CPU_RUN(engine->device, entry->job, p, 1);
        w->undone = 0;
    }
    if (w->undone != 0) { return; }
    w->packet = NULL;
    w->left &= ~((uint64_t)1 << (p - entry->packets - w->at));
    hcqi_cpu_walk_group(w, entry);
}

/* Threads that open devices of the other kind may read the clock meanwhile. */
static void hcqi_cpu_pass(uint64_t ns) {
    hcqi_atomic_store64(&hcqi_core.clock_ns, hcqi_core.clock_ns + ns);
}

static void hcqi_cpu_piece_run(const hcqi_cpu_piece *piece) {
    hcqi_cpu_engine *engine = piece->engine;
    const hcqi_cpu_entry *entry = piece->entry;
    hcqi_cpu_pass(1000u + (hcqi_cpu_world.choose_fn != NULL ? 0 : hcqi_cpu_draw(NULL, 8000)));
    hcq_backend_callback(1);
    if (engine == NULL) {
        hcqi_enter();
        (void)hcqi_service_turn(piece->device, 0);
        hcqi_leave();
    } else {
        hcqi_cpu_walk *w = &engine->walk;
        if (piece->packet != NULL) { hcqi_cpu_walk_packet(engine, entry, piece->packet); }
        if (w->packet == NULL && (w->left == 0 || w->failed != NULL)) {
            w->begun = 0;
            w->batches++;
            hcqi_cpu_engine_end(engine, entry, w->result, w->failed);
        }
    }
    hcq_backend_callback(0);
}

/* Runs one of those that may; 0: there is none, or the host, which with `host` 1 is one of
   them, goes on. */
static int hcqi_cpu_world_step(uint32_t host) {
    const hcqi_cpu_piece goes_on = { NULL, NULL, NULL, NULL };
    hcqi_cpu_world.pieces[0] = goes_on;
    uint32_t count = hcqi_cpu_world_pieces(host);
    int stays = host && hcqi_cpu_world.choose_fn == NULL && hcqi_cpu_draw(NULL, 2) == 0;
    if (count == host || stays) { return 0; }
    const hcqi_cpu_piece piece =
        hcqi_cpu_world.pieces[hcqi_cpu_draw(hcqi_cpu_world.pieces, count)];
    if (piece.device == NULL) { return 0; }
    hcqi_cpu_piece_run(&piece);
    return 1;
}

HCQI_DEF int hcq_cpu_step(void) {
    if (hcqi_core.await_fn == NULL || hcqi_is_strange()) { return 0; } /* in a child of fork, too */
    if (hcqi_in_callback()) { return 0; } /* in a piece, too */
    return hcqi_cpu_world_step(0);
}

/* Runs pieces until the word has changed or the counter is there. What nothing can change
   any more takes all of its time at once. */
static hcq_result hcqi_cpu_world_until(const uint32_t *word, uint32_t seen,
                                       const uint64_t *counter, uint64_t value,
                                       uint64_t timeout_ns) {
    uint64_t end = hcqi_deadline(timeout_ns);
    while (word != NULL ? hcqi_atomic_load32(word) == seen
                        : hcqi_atomic_load64(counter) < value) {
        if (hcqi_core.clock_ns >= end) { return HCQ_TIMEOUT; }
        if (hcq_cpu_step()) { continue; }
        if (end == HCQ_FOREVER) {
            hcqi_cpu_world.dead = 1;
            return HCQ_ERROR_DEADLOCK;
        }
        hcqi_atomic_store64(&hcqi_core.clock_ns, end);
    }
    return HCQ_OK;
}

/* hcqi_core.await_fn. */
static hcq_result hcqi_cpu_world_await(const uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
    if (word != NULL) { return hcqi_cpu_world_until(word, seen, NULL, 0, timeout_ns); }
    while (hcqi_cpu_world_step(1)) { } /* before the host goes on */
    return HCQ_OK;
}

/* The first one brings the clock, and its thread. */
static hcq_result hcqi_cpu_world_join(hcqi_cpu_device *d) {
    hcqi_cpu_device **link = &hcqi_cpu_world.first;
    const char *bad = NULL;
    hcqi_enter();
    if (hcqi_mixes(1)) { bad = HCQI_MIXED; }
    if (hcqi_is_strange()) { bad = "cpu->seed: another thread has devices with one"; }
    if (bad != NULL) {
        d->seed = 0;
        return hcqi_leave_refusing(d->device, HCQ_ERROR_UNSUPPORTED, "%s", bad);
    }
    if (hcqi_core.await_fn == NULL) { /* also in a child of fork */
        hcqi_cpu_world.first = NULL;
        hcqi_cpu_world.random = 0;
        hcqi_atomic_store64(&hcqi_core.clock_ns, 1000000000);
        hcqi_core.stepper = hcqi_sys_thread_id();
        hcqi_core.await_fn = hcqi_cpu_world_await;
    }
    while (*link != NULL) { link = &(*link)->next; }
    *link = d;
    hcqi_cpu_world.random = hcqi_cpu_world.random * 31 + d->seed;
    d->device->stepped = 1;
    return hcqi_leave_with(HCQ_OK);
}

static void hcqi_cpu_world_leave(hcqi_cpu_device *d) {
    hcqi_cpu_device **link = &hcqi_cpu_world.first;
    if (d->seed == 0) { return; }
    hcqi_enter();
    while (*link != NULL && *link != d) { link = &(*link)->next; }
    if (*link != NULL) { *link = d->next; }
    if (hcqi_cpu_world.first == NULL) {
        hcqi_atomic_store64(&hcqi_core.clock_ns, 0);
        hcqi_core.stepper = 0;
        hcqi_core.await_fn = NULL;
    }
    hcqi_leave();
}

HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- device and lanes ---------------------------------------------------- */

static void hcqi_cpu_name(char *name, size_t size) {
    snprintf(name, size, "CPU");
#ifdef __linux__
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *text = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (text != NULL) {
            text += strspn(text, ": \t");
            snprintf(name, size, "%.*s", (int)strcspn(text, "\n"), text);
            break;
        }
    }
    if (file != NULL) { fclose(file); }
#endif
}

/* One machine, one device; further ordinals open further engines on it. */
static uint32_t hcqi_cpu_devices(void *driver, hcq_device_info *infos, uint32_t capacity) {
    (void)driver;
    if (capacity != 0) {
        hcqi_cpu_name(infos->name, sizeof infos->name);
        snprintf(infos->path, sizeof infos->path, "host");
        infos->id = 1;
        infos->compute_lanes = 1;
        infos->copy_lanes = 1;
        infos->features = HCQI_CPU_FEATURES;
    }
    return 1;
}

static uint32_t hcqi_cpu_lane_count(uint32_t wanted) {
    if (wanted > HCQI_CPU_LANES) { return HCQI_CPU_LANES; }
    return wanted != 0 ? wanted : 1;
}

static void hcqi_cpu_configure(hcqi_cpu_device *d, const hcq_device_desc *desc,
                               const struct hcq_cpu_desc *own) {
    d->cpus = hcq_sys_cpu_count();
    d->spin_ns = desc->spin_ns;
    if (d->spin_ns == HCQ_NEVER || d->cpus == 1) { d->spin_ns = 0; }
    d->compute_lanes = hcqi_cpu_lane_count(desc->compute_lanes);
    d->copy_lanes = hcqi_cpu_lane_count(desc->copy_lanes);
    if (desc->test->no_copy_lane) { d->copy_lanes = 0; }
    d->watches = (desc->flags & HCQ_DEVICE_CHECK) && (desc->flags & HCQ_DEVICE_CHECK_READS);
    d->chunks = desc->inflight / HCQI_CPU_CHUNK + 2;
    if (d->chunks > HCQI_CPU_CHUNKS) { d->chunks = HCQI_CPU_CHUNKS; }
    d->flags = own->flags;
    d->seed = own->seed;
    d->pool.wanted = own->workers != 0 ? own->workers : d->cpus - 1;
    if (d->seed == 0 && (HCQI_CPU_ALONE || hcqi_cpu_world.choose_fn != NULL)) { d->seed = 1; }
    if (d->pool.wanted == HCQ_CPU_NO_WORKERS || d->seed != 0) { d->pool.wanted = 0; }
    if (d->seed != 0) { d->chunks = 1; }
    if (d->pool.wanted > HCQI_CPU_INSIDE) { d->pool.wanted = HCQI_CPU_INSIDE; }
}

/* Without the core's lock, which a library's destructors may need. */
static void hcqi_cpu_unload(hcqi_cpu_device *d) {
    hcqi_cpu_code *next, *c = HCQ_PTR(hcqi_cpu_code, hcqi_atomic_swap64(&d->unused, 0));
    for (; c != NULL; c = next) {
        next = c->next;
        hcq_sys_library_close(c->library);
        hcq_backend_free(d->device, c, sizeof *c);
    }
}

static void hcqi_cpu_device_free(hcqi_cpu_device *d) {
    hcqi_cpu_world_leave(d);
    hcqi_cpu_unload(d);
    hcqi_cpu_pool_stop(&d->pool);
    for (uint32_t i = 0; i < 2 * HCQI_CPU_LANES; i++) { hcqi_cpu_engine_empty(&d->engines[i]); }
    hcq_backend_free(d->device, d->pool.workers,
                     (d->pool.wanted + (size_t)1) * sizeof *d->pool.workers);
    hcq_backend_free(d->device, d, sizeof *d);
}

static hcq_result hcqi_cpu_open(void *driver, hcq_device *device, uint32_t ordinal,
                                const hcq_device_desc *desc, hcq_backend_caps *caps,
                                void **self) {
    static struct hcq_cpu_desc none;
    const struct hcq_cpu_desc *own = desc->cpu != NULL ? desc->cpu : &none;
    (void)driver;
    if (ordinal >= HCQI_CPU_ORDINALS) { return HCQ_ERROR_NO_DEVICE; }
    HCQI_PASS(hcqi_flags_check(device, own->flags, HCQ_CPU_ONE_ENGINE));
    void *memory = hcq_backend_alloc(device, sizeof(hcqi_cpu_device), HCQI_CPU_LINE);
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, memory);
    if (d == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    memset(d, 0, sizeof *d);
    d->device = device;
    hcqi_cpu_configure(d, desc, own);
    hcq_result r = d->seed == 0 ? HCQ_OK : hcqi_cpu_world_join(d);
    if (r == HCQ_OK && d->pool.wanted != 0) {
        size_t size = (d->pool.wanted + (size_t)1) * sizeof *d->pool.workers;
        d->pool.workers = HCQI_CAST(hcqi_cpu_worker *, hcqi_new(&desc->memory, size));
        if (d->pool.workers == NULL) { r = HCQ_ERROR_OUT_OF_MEMORY; }
    }
    if (r != HCQ_OK) {
        hcqi_cpu_device_free(d);
        return r;
    }
    if (d->flags & HCQ_CPU_PIN && d->seed == 0) {
        hcqi_cpu_pool_start(d); /* later a pinned engine would hand on its one CPU */
    }
    hcqi_cpu_name(caps->name, sizeof caps->name);
    caps->compute_lanes = d->compute_lanes;
    caps->copy_lanes = d->copy_lanes;
    caps->features = HCQI_CPU_FEATURES;
    caps->runs_host = 1;
    caps->indirect = 1;
    caps->unlocked = 1; /* memory and libraries are the system's affair */
    *self = d;
    return HCQ_OK;
}

static void hcqi_cpu_close(void *self) { hcqi_cpu_device_free(HCQI_CAST(hcqi_cpu_device *, self)); }

static hcq_result hcqi_cpu_lane_open(void *self, hcq_lane *lane) {
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    uint32_t index = lane->kind == HCQ_COPY ? d->compute_lanes + lane->index : lane->index;
    hcqi_cpu_lane *native = &d->lanes[index];
    uint32_t engine = d->flags & HCQ_CPU_ONE_ENGINE ? 0 : index;
    if (d->engines[engine].lanes == 0) {
        HCQI_PASS(hcqi_cpu_engine_start(d, engine));
    }
    d->engines[engine].lanes++;
    native->engine = &d->engines[engine];
    native->counters[0].wanted = UINT64_MAX;
    native->counters[1].wanted = UINT64_MAX;
    lane->native = native;
    return HCQ_OK;
}

static void hcqi_cpu_lane_close(void *self, hcq_lane *lane) {
    hcqi_cpu_lane *native = HCQI_CAST(hcqi_cpu_lane *, lane->native);
    (void)self;
    if (--native->engine->lanes == 0) { hcqi_cpu_engine_stop(native->engine); }
}

static hcq_result hcqi_cpu_query(void *self, uint32_t key, uint64_t *value) {
    if (key == HCQ_QUERY_WORKERS) {
        *value = HCQI_CAST(hcqi_cpu_device *, self)->pool.wanted;
    } else if (key >= HCQ_QUERY_MAX_BLOCK && key <= HCQ_QUERY_MAX_GRID_Z) {
        *value = UINT32_MAX;
    } else if (key >= HCQ_QUERY_SUBGROUP && key <= HCQ_QUERY_UNIFIED) {
        *value = 1;
    } else {
        return HCQ_ERROR_UNSUPPORTED;
    }
    return HCQ_OK;
}

/* ========================================================================== */
/* ---- memory and programs ------------------------------------------------- */

static hcq_result hcqi_cpu_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    (void)flags; /* all memory is host visible */
    memory->host = size > SIZE_MAX / 2 ? NULL : hcq_backend_alloc(d->device, (size_t)size, 64);
    if (memory->host == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    memory->address = (uint64_t)(uintptr_t)memory->host;
    memory->size = size;
    memory->native = memory->host; /* ours, not imported */
    return HCQ_OK;
}

static void hcqi_cpu_dealloc(void *self, hcq_memory *memory) {
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    hcq_backend_free(d->device, memory->native, (size_t)memory->size); /* NULL: imported */
}

static hcq_result hcqi_cpu_import(void *self, void *ptr, uint64_t size, hcq_memory *memory) {
    (void)self;
    memory->address = (uint64_t)(uintptr_t)ptr;
    memory->host = ptr;
    memory->size = size;
    memory->native = NULL;
    return HCQ_OK;
}

static hcq_result hcqi_cpu_map(void *self, const struct hcq_backend *owner_backend,
                               void *owner_self, const hcq_memory *memory, uint64_t *address) {
    (void)self;
    (void)owner_self;
    if (memory == NULL) {
        return owner_backend == hcqi_cpu_backend() ? HCQ_OK : HCQ_ERROR_UNSUPPORTED;
    }
    if (memory->host == NULL) { return HCQ_ERROR_UNSUPPORTED; }
    *address = (uint64_t)(uintptr_t)memory->host;
    return HCQ_OK;
}

/* Finds the kernel in its library, which stays open in code->library. */
static hcq_result hcqi_cpu_load(hcqi_cpu_device *d, const hcq_program_desc *desc,
                                hcqi_cpu_code *code) {
    const char *label = desc->label != NULL ? desc->label : "";
    if (desc->library == NULL || desc->symbol == NULL) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_KERNEL,
                         "program '%s': no .cpu function and no .library with .symbol", label);
    }
    code->library = hcq_sys_library_open(desc->library);
    if (code->library == NULL) {
        return hcqi_deny(d->device, HCQ_ERROR_NO_KERNEL,
                         "program '%s': library '%s' cannot be opened", label, desc->library);
    }
    void *symbol = hcq_sys_library_symbol(code->library, desc->symbol);
    if (symbol == NULL) {
        hcq_sys_library_close(code->library);
        return hcqi_deny(d->device, HCQ_ERROR_NO_KERNEL,
                         "program '%s': no symbol '%s' in library '%s'", label, desc->symbol,
                         desc->library);
    }
    memcpy(&code->fn, &symbol, sizeof code->fn);
    return HCQ_OK;
}

static hcq_result hcqi_cpu_program_create(void *self, const hcq_program_desc *desc,
                                          const hcq_program_info *info, void **code) {
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    hcqi_cpu_code *c = HCQI_CAST(hcqi_cpu_code *, hcq_backend_alloc(d->device, sizeof *c, 64));
    (void)info;
    if (c == NULL) { return HCQ_ERROR_OUT_OF_MEMORY; }
    memset(c, 0, sizeof *c);
    c->fn = desc->cpu;
    c->user = desc->user;
    hcq_result r = c->fn != NULL ? HCQ_OK : hcqi_cpu_load(d, desc, c);
    if (r != HCQ_OK) {
        hcq_backend_free(d->device, c, sizeof *c);
        return r;
    }
    *code = c;
    return HCQ_OK;
}

static void hcqi_cpu_program_destroy(void *self, void *code) {
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    hcqi_cpu_code *c = HCQI_CAST(hcqi_cpu_code *, code);
    if (c->library == NULL) {
        hcq_backend_free(d->device, c, sizeof *c);
        return;
    }
    c->next = HCQ_PTR(hcqi_cpu_code, hcqi_atomic_swap64(&d->unused, 0));
    hcqi_atomic_swap64(&d->unused, (uint64_t)(uintptr_t)c);
    hcq_backend_flush_soon(d->device);
}

HCQI_COLD_END

/* ========================================================================== */
/* ---- work ---------------------------------------------------------------- */

/* Has a chunk in hand if `count` entries might not fit into the current one. */
static hcq_result hcqi_cpu_reserve(hcqi_cpu_engine *engine, uint32_t count) {
    if (engine->spare != NULL || HCQI_CPU_CHUNK - engine->tail_at > count) { return HCQ_OK; }
    uint64_t drained = hcqi_atomic_swap64(&engine->drained, 0);
    engine->spare = HCQ_PTR(hcqi_cpu_chunk, drained);
    return engine->spare != NULL ? HCQ_OK : hcqi_cpu_engine_grow(engine);
}

/* Makes the tail entry visible, after room for the one behind it. A plain store: whoever
   submits goes on while the line travels. */
static void hcqi_cpu_publish(hcqi_cpu_engine *engine, uint32_t wait_count) {
    hcqi_cpu_chunk *chunk = engine->tail;
    uint32_t at = engine->tail_at;
    if (++engine->tail_at == HCQI_CPU_CHUNK) { hcqi_cpu_engine_extend(engine); }
    hcqi_atomic_store32(&chunk->entries[at].ready, chunk->lap + wait_count);
}

static hcq_result hcqi_cpu_submit(void *self, hcq_lane *lane, hcq_batch *batch) {
    hcqi_cpu_engine *engine = HCQI_CAST(hcqi_cpu_lane *, lane->native)->engine;
    const hcq_lane_point *waits = batch->waits;
    uint32_t left = batch->wait_count;
    hcq_result r = hcqi_cpu_reserve(engine, left / HCQI_CPU_WAITS + 1);
    (void)self;
    if (r != HCQ_OK) { return r; }
    for (;;) {
        hcqi_cpu_entry *entry = &engine->tail->entries[engine->tail_at];
        uint32_t count = left < HCQI_CPU_WAITS ? left : (uint32_t)HCQI_CPU_WAITS;
        if (count != 0) {
            memcpy(entry->waits, waits, count * sizeof *waits);
            waits += count;
            left -= count;
        }
        if (left == 0) {
            entry->job = batch->job;
            entry->done.lane = lane; /* singly, as they were stored: loads of two would wait */
            entry->done.value = batch->done.value;
            entry->done.epoch = batch->done.epoch;
            entry->done.counter = batch->done.counter;
            entry->native = HCQI_CAST(hcqi_cpu_lane *, lane->native);
            entry->packets = batch->count != 0 ? batch->recording->packets + batch->first : NULL;
            entry->count = batch->recording != NULL ? batch->count : 0;
            hcqi_cpu_publish(engine, count);
            if (!hcqi_atomic_load32(&engine->sleeping)) {
                return HCQ_OK; /* it looks again before it sleeps */
            }
            hcqi_atomic_store32(&engine->posted, 1);
            return HCQ_NOT_READY;
        }
        entry->job = NULL;
        hcqi_cpu_publish(engine, count);
    }
}

static void hcqi_cpu_flush(void *self) {
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    uint32_t count = d->compute_lanes + d->copy_lanes;
    for (uint32_t i = 0; i < count; i++) { hcqi_cpu_engine_ring(&d->engines[i]); }
    if (hcqi_atomic_load64(&d->unused) != 0) { hcqi_cpu_unload(d); }
}

static uint64_t hcqi_cpu_completed(void *self, hcq_lane *lane, uint32_t counter) {
    (void)self;
    return hcqi_atomic_load64(&hcqi_cpu_counter_of(lane, counter)->value);
}

static hcq_result hcqi_cpu_wait(void *self, hcq_lane *lane, uint32_t counter, uint64_t value,
                                uint64_t timeout_ns, int serves) {
    (void)serves;                      /* the core has no service thread here */
    hcqi_cpu_device *d = HCQI_CAST(hcqi_cpu_device *, self);
    hcqi_cpu_counter *c = hcqi_cpu_counter_of(lane, counter);
    if (hcqi_atomic_load64(&c->value) >= value) { return HCQ_OK; }
    if (timeout_ns == 0) { return HCQ_TIMEOUT; }
    if (d->seed != 0) { return hcqi_cpu_world_until(NULL, 0, &c->value, value, timeout_ns); }
    if (d->spin_ns != 0) {
        hcqi_atomic_pause(); /* looking too soon only slows down who is about to write */
    }
    uint32_t turns = d->spin_ns != 0 && !hcqi_cpu_together(d) ? HCQI_CPU_TIGHT : 0;
    for (uint32_t i = 0; i < turns; i++) {
        if (hcqi_atomic_load64(&c->value) >= value) {
            return HCQ_OK; /* so soon that a clock or being counted would have been dearer */
        }
    }
    uint64_t end_ns = hcqi_deadline(timeout_ns);
    hcqi_cpu_enter(d);
    hcq_result r = hcqi_cpu_counter_wait(d, c, value, end_ns, HCQI_CPU_TIGHT / 8 * 7);
    hcqi_cpu_leave(d);
    return r;
}

static void hcqi_cpu_counter_reset(void *self, hcq_lane *lane, uint32_t counter) {
    hcqi_cpu_counter *c = hcqi_cpu_counter_of(lane, counter);
    (void)self;
    hcqi_atomic_swap64(&c->wanted, UINT64_MAX);
    hcqi_atomic_swap64(&c->value, 0);
}

static int hcqi_cpu_can_wait(void *self, const hcq_backend *owner_backend,
                             const hcq_lane *other) {
    (void)self;
    (void)other;
    return owner_backend == hcqi_cpu_backend();
}

static void hcqi_cpu_watch(void *self, hcq_lane *lane, int on) {
    (void)self;
    hcqi_atomic_swap32(&HCQI_CAST(hcqi_cpu_lane *, lane->native)->watch, on ? 1 : 0);
}

static hcq_result hcqi_cpu_clock(void *self, hcq_clock *clock) {
    if (HCQI_CAST(hcqi_cpu_device *, self)->seed != 0) { hcqi_cpu_pass(1); }
    clock->device_ns = hcq_now_ns();
    clock->host_ns = clock->device_ns;
    clock->error_ns = 0;
    return HCQ_OK;
}

static const hcq_backend *hcqi_cpu_backend(void) {
    static const hcq_backend backend = {
        HCQ_BACKEND_VERSION, "CPU", "processors of this machine",
        NULL, NULL, hcqi_cpu_devices, NULL,
        hcqi_cpu_open, hcqi_cpu_close, hcqi_cpu_lane_open, hcqi_cpu_lane_close, hcqi_cpu_query,
        hcqi_cpu_alloc, hcqi_cpu_dealloc, hcqi_cpu_import, hcqi_cpu_map, NULL,
        hcqi_cpu_program_create, hcqi_cpu_program_destroy, NULL, NULL,
        NULL, NULL, NULL, /* encode, patch, encode_free: packets are run as they are */
        hcqi_cpu_submit, hcqi_cpu_flush, NULL, hcqi_cpu_completed, hcqi_cpu_wait,
        NULL, hcqi_cpu_counter_reset, NULL, hcqi_cpu_can_wait, hcqi_cpu_watch, hcqi_cpu_clock,
        NULL
    };
    return &backend;
}

#endif /* HCQ_IMPLEMENTATION */
