/* cuda_wait.h - part of libcuda.c: how calls and work queues wait, and who wakes
   them. */
#pragma once

#include "cuda_base.h"

enum { MC_LATE_POLLS = 3, MC_LATE_US = 300 }; /* of MOCK_CUDA_LATE */

typedef struct mc_waiter {
    pthread_cond_t bell;
    int (*ready)(const struct mc_waiter *waiter);
    void *object;
    uint64_t value;
    struct mc_waiter *next;
} mc_waiter;

static void mc_cond_init(pthread_cond_t *bell) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(bell, &attr);
    pthread_condattr_destroy(&attr);
}

/* Waits until a moment of mc_now, with the lock. */
static void mc_sleep_until(pthread_cond_t *bell, uint64_t until) {
    const struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_cond_timedwait(bell, &M.lock, &t);
}

/* ---- waking ---- */

static void mc_queues_ring(void) {
    for (uint32_t i = 0; i < M.desc.devices * M.desc.queues; i++) {
        mc_queue *q = &M.devices[i / M.desc.queues].queues[i % M.desc.queues];
        if (q->asleep) {
            pthread_cond_signal(&q->bell);
        }
    }
}

static void mc_wake(void) {
    for (mc_waiter *w = M.waiters; w; w = w->next) {
        if (w->ready(w)) {
            pthread_cond_signal(&w->bell);
        }
    }
}

/* Has somebody asked often enough to let this queue's head go? */
static int mc_queue_asked(const mc_queue *q) {
    return M.syncing || M.pokes - q->pokes >= MC_LATE_POLLS;
}

/* Somebody asks how far things are. */
static void mc_poke(void) {
    M.pokes++;
    const uint32_t count = M.desc.flags & MOCK_CUDA_LATE ? M.desc.devices * M.desc.queues : 0;
    for (uint32_t i = 0; i < count; i++) {
        mc_queue *q = &M.devices[i / M.desc.queues].queues[i % M.desc.queues];
        if (q->held && mc_queue_asked(q)) {
            q->held = 0;
            pthread_cond_signal(&q->bell);
        }
    }
}

/* From now on everything in this context fails, and nothing of it runs. */
static void mc_poison(mc_context *c, int error) {
    if (!c->error) {
        c->error = error;
        M.broken = M.broken || error == 710 || !mc_sticky(error) ? M.broken : error;
        mc_queues_ring();
        mc_wake();
    }
}

/* ---- waiting ---- */

static void mc_watchdog(const char *what) {
    mc_misuse("%s did not come in %u ms: a deadlock", what, M.desc.watchdog_ms);
}

/* Waits with the lock until `ready`; 0: the watchdog barked. */
static int mc_wait(int (*ready)(const mc_waiter *), void *object, uint64_t value,
                   const char *what) {
    uint64_t until = mc_now() + M.desc.watchdog_ms * 1000000ull;
    mc_waiter w = {.ready = ready, .object = object, .value = value, .next = M.waiters};
    int came = ready(&w);
    if (came) {
        return 1;
    }
    mc_cond_init(&w.bell);
    M.waiters = &w;
    while (!(came = ready(&w)) && !M.quit && mc_now() < until) {
        mc_sleep_until(&w.bell, until);
    }
    mc_waiter **at = &M.waiters;
    while (*at != &w) {
        at = &(*at)->next;
    }
    *at = w.next;
    pthread_cond_destroy(&w.bell);
    if (!came && !M.quit) {
        mc_watchdog(what);
    }
    return came;
}

/* The same, by a call: work that is held back is let go. */
static int mc_wait_call(int (*ready)(const mc_waiter *), void *object, uint64_t value,
                        const char *what) {
    M.syncing++;
    mc_poke();
    int came = mc_wait(ready, object, value, what);
    M.syncing--;
    return came;
}

/* ---- the driver's lock: of calls that are slow, or wait for room ---- */

static int mc_driver_free(const mc_waiter *w) {
    (void)w;
    return !M.locked;
}

static void mc_driver_lock(void) {
    mc_wait(mc_driver_free, NULL, 0, "the driver's lock");
    M.locked = 1;
}

static void mc_driver_unlock(void) {
    M.locked = 0;
    mc_wake();
}

/* A call takes its time. */
static void mc_slow(uint64_t ns) {
    const struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    mc_driver_lock();
    if (ns) {
        pthread_mutex_unlock(&M.lock);
        nanosleep(&t, NULL);
        pthread_mutex_lock(&M.lock);
    }
    mc_driver_unlock();
}

/* ---- calls that may wait ---- */

static int mc_context_ready(const mc_waiter *w); /* done, as far as what `value` numbers */

/* A call that waits for the context's work in some drivers. */
static void mc_may_sync(const char *name) {
    if (M.desc.flags & MOCK_CUDA_SYNCS) {
        mc_wait_call(mc_context_ready, mc_tls.here, M.sequence, name);
    }
}
