/* cuda_control.h - part of libcuda.c: what cuda.h declares, and the kernels
   that are always there. */
#ifndef HCQ_TEST_MOCK_CUDA_CONTROL_H
#define HCQ_TEST_MOCK_CUDA_CONTROL_H

#define MC_OWN(type, name, ...) \
    __attribute__((visibility("default"))) type name(__VA_ARGS__); \
    type name(__VA_ARGS__)

/* ---- kernels of hcq's own ---- */

static uint64_t mc_globaltimer(void) {
    uint64_t now = mc_clock(CLOCK_REALTIME);
    int64_t since = (int64_t)(mc_now() - M.began_ns);
    now += (uint64_t)(M.desc.timer_offset_ns + since / 1000000 * M.desc.timer_drift_ppm +
                      since % 1000000 * M.desc.timer_drift_ppm / 1000000);
    return now - now % M.desc.timer_step_ns;
}

static void mc_kernel_stamp(const void *args, const uint32_t id[3], const uint32_t grid[3],
                            const uint32_t block[3]) {
    mc_address dst;
    (void)id;
    (void)grid;
    (void)block;
    memcpy(&dst, args, sizeof dst);
    __atomic_store_n((uint64_t *)(uintptr_t)dst, mc_globaltimer(), __ATOMIC_RELEASE);
}

static void mc_kernel_fill(const void *args, const uint32_t id[3], const uint32_t grid[3],
                           const uint32_t block[3]) {
    uint64_t a[3]; /* dst, value, count */
    memcpy(a, args, sizeof a);
    for (uint64_t t = 0; t < block[0]; t++) {
        for (uint64_t i = id[0] * (uint64_t)block[0] + t; i < a[2];
             i += (uint64_t)grid[0] * block[0]) {
            ((uint64_t *)(uintptr_t)a[0])[i] = a[1];
        }
    }
}

static void mc_kernels_builtin(void) {
    static const struct { const char *entry; mock_cuda_fn fn; } list[] = {
#ifdef MOCK_CUDA_BUILTIN_KERNELS
        MOCK_CUDA_BUILTIN_KERNELS
#endif
        {"hcq_stamp", mc_kernel_stamp}, {"hcq_fill", mc_kernel_fill}
    };
    for (size_t i = 0; i < sizeof list / sizeof *list && M.kernel_count < sizeof list /
         sizeof *list; i++) {
        if (!mc_kernel_find(list[i].entry)) {
            mc_kernel_set(list[i].entry, list[i].fn);
        }
    }
}

/* ---- beginning anew ---- */

static void mc_configure(void) {
    memset(&M.desc, 0, sizeof M.desc);
    mc_env_desc(&M.desc);
    mc_desc_defaults(&M.desc);
    mc_kernels_builtin();
    M.began_ns = mc_now();
    M.configured = 1;
}

/* Ends all threads; with the lock, which it gives up. */
static void mc_queues_stop(void) {
    M.quit = 1;
    mc_queues_ring();
    for (mc_waiter *w = M.waiters; w; w = w->next) {
        pthread_cond_signal(&w->bell);
    }
    for (uint32_t i = 0; i < MC_DEVICES * MC_QUEUES; i++) {
        mc_queue *q = &M.devices[i / MC_QUEUES].queues[i % MC_QUEUES];
        if (q->started) {
            pthread_mutex_unlock(&M.lock);
            pthread_join(q->thread, NULL);
            pthread_mutex_lock(&M.lock);
            pthread_cond_destroy(&q->bell);
        }
    }
    M.quit = 0;
    memset(M.devices, 0, sizeof M.devices);
}

static void mc_objects_clear(void) {
    for (uint32_t i = 0; i < M.slot_count; i++) {
        mc_object *o = M.slots[i].object;
        if (o && o->kind == MC_GRAPH) {
            mc_graph_free((mc_graph *)(void *)o);
        } else if (o && o->kind == MC_POOL) {
            mc_object_forget(o);
            mc_pool_unref((mc_pool *)(void *)o);
        }
    }
    while (M.contexts) {
        mc_context *c = M.contexts;
        M.contexts = c->next;
        mc_object_unref(c);
    }
    while (mc_unused_ops) {
        mc_op *op = mc_unused_ops;
        mc_unused_ops = op->next;
        free(op);
    }
}

MC_OWN(void, mock_cuda_setup, const mock_cuda_desc *desc) {
    mc_tls.where = "mock_cuda_setup";
    pthread_mutex_lock(&M.lock);
    if (M.counts.contexts) {
        mc_misuse("%llu contexts are alive", mc_u(M.counts.contexts));
        pthread_mutex_unlock(&M.lock);
        return;
    }
    mc_queues_stop();
    mc_objects_clear();
    mc_configure();
    if (desc) {
        M.desc = *desc;
        mc_desc_defaults(&M.desc);
    }
    memset(&M.counts, 0, sizeof M.counts);
    memset(&M.fault, 0, sizeof M.fault);
    for (mc_call *c = M.calls; c; c = c->next) {
        c->count = 0;
    }
    M.failure_count = 0;
    M.misuses_told = 0;
    M.initialised = M.paused = 0;
    pthread_mutex_unlock(&M.lock);
}

/* ---- the rest ---- */

static void mc_own_begin(const char *name) {
    mc_tls.where = name;
    pthread_mutex_lock(&M.lock);
    if (!M.configured) {
        mc_configure();
    }
}

static void mc_own_end(void) { pthread_mutex_unlock(&M.lock); }

MC_OWN(void, mock_cuda_kernel, const char *entry, mock_cuda_fn fn) {
    mc_own_begin(__func__);
    mc_kernel_set(entry, fn);
    mc_own_end();
}

MC_OWN(void, mock_cuda_stats, mock_cuda_counts *out) {
    mc_own_begin(__func__);
    *out = M.counts;
    M.counts.max_events = M.counts.events;
    M.counts.max_streams = M.counts.streams;
    out->events_pending = 0;
    for (uint32_t i = 0; i < M.slot_count; i++) {
        const mc_object *o = M.slots[i].object;
        if (o && o->kind == MC_EVENT) {
            const mc_record *r = ((const mc_event *)(const void *)o)->record;
            out->events_pending += r && !r->done;
        }
    }
    mc_own_end();
}

MC_OWN(uint64_t, mock_cuda_calls, const char *pattern) {
    uint64_t calls = 0;
    mc_own_begin(__func__);
    for (const mc_call *c = M.calls; c; c = c->next) {
        calls += mc_matches(pattern, c->name) ? c->count : 0;
    }
    mc_own_end();
    return calls;
}

MC_OWN(void, mock_cuda_fail, const char *pattern, uint64_t skip, uint64_t count, int result) {
    mc_own_begin(__func__);
    uint32_t at = 0;
    while (at < M.failure_count && M.failures[at].count) {
        at++;
    }
    if (at == MC_FAILURES || strlen(pattern) >= sizeof M.failures[0].pattern) {
        mc_misuse("%d failures at most, of short names", (int)MC_FAILURES);
    } else {
        M.failure_count = at == M.failure_count ? at + 1 : M.failure_count;
        snprintf(M.failures[at].pattern, sizeof M.failures[at].pattern, "%s", pattern);
        M.failures[at].skip = skip;
        M.failures[at].count = count;
        M.failures[at].result = result;
    }
    mc_own_end();
}

MC_OWN(void, mock_cuda_fail_operation, const char *entry, uint64_t skip, int error) {
    mc_own_begin(__func__);
    snprintf(M.fault.entry, sizeof M.fault.entry, "%s", entry ? entry : "");
    M.fault.skip = skip;
    M.fault.error = error ? error : MC_ILLEGAL_ADDRESS;
    M.fault.on = 1;
    mc_own_end();
}

MC_OWN(void, mock_cuda_fail_nothing, void) {
    mc_own_begin(__func__);
    M.failure_count = 0;
    M.fault.on = 0;
    mc_own_end();
}

MC_OWN(void, mock_cuda_fault, int error) { mc_tls.fault = error; }

MC_OWN(void, mock_cuda_pause, int on) {
    mc_own_begin(__func__);
    M.paused = on;
    mc_queues_ring();
    mc_own_end();
}

MC_OWN(int, mock_cuda_idle, uint32_t ms) {
    uint64_t until = mc_now() + ms * 1000000ull;
    int idle;
    mc_own_begin(__func__);
    M.syncing++;
    mc_poke();
    while (M.counts.operations_pending && mc_now() < until) {
        struct timespec pause = {0, 50000};
        mc_own_end();
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&M.lock);
    }
    M.syncing--;
    idle = M.counts.operations_pending == 0;
    mc_own_end();
    return idle;
}

MC_OWN(uint64_t, mock_cuda_expect_misuse, int on, char *text, size_t size) {
    uint64_t count;
    mc_own_begin(__func__);
    count = M.counts.misuses - M.misuses_told;
    M.misuses_told = M.counts.misuses;
    M.expects = on;
    if (text && size) {
        snprintf(text, size, "%s", count ? M.misuse : "");
    }
    mc_own_end();
    return count;
}

#endif /* HCQ_TEST_MOCK_CUDA_CONTROL_H */
