/* vulkan_run.h - the mock of Vulkan: the clock, and the threads that execute. */
#pragma once

#include "vulkan_queues.h"

/* ---- time ---- */

/* The device's clock at a moment of the host's. */
static uint64_t mock_vk_ticks(const mock_vk_device *d, uint64_t host_ns, uint32_t bits) {
    int64_t drift = (int64_t)(host_ns / 1000000) * d->desc->clock_drift_ppm;
    uint64_t ns = host_ns + (uint64_t)drift + (uint64_t)d->desc->clock_offset_ns;
    double period = (double)d->desc->timestamp_period;
    uint64_t ticks = period > 1.0 || period < 1.0 ? (uint64_t)((double)ns / period) : ns;
    return bits >= 64 ? ticks : ticks & (((uint64_t)1 << bits) - 1);
}

/* The clocks are read one after another, up to 100 ns apart. */
MOCK_VK_API(VkResult, GetCalibratedTimestampsEXT, VkDevice handle, uint32_t count,
            const VkCalibratedTimestampInfoEXT *infos, uint64_t *out, uint64_t *deviation) {
    VkResult failure = mock_vk_enter(MOCK_VK_GetCalibratedTimestampsEXT);
    mock_vk_device *d = mock_vk_device_of(handle);
    uint64_t now = mock_vk_now(), late = d->desc->flags & MOCK_VK_WRONG_CLOCK ? 1000000000 : 0;
    MOCK_VK_TRY(failure);
    pthread_mutex_lock(&d->lock);
    uint64_t off = test_random(&d->random) % 101;
    pthread_mutex_unlock(&d->lock);
    for (uint32_t i = 0; i < count; i++) {
        int device = infos[i].timeDomain == VK_TIME_DOMAIN_DEVICE_EXT;
        mock_vk_check(device || infos[i].timeDomain == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT,
                      "time domain %d", (int)infos[i].timeDomain);
        out[i] = device ? mock_vk_ticks(d, now + off, 64) : now - late;
    }
    *deviation = 100 + (uint64_t)d->desc->timestamp_period + 1;
    return VK_SUCCESS;
}

/* ---- copies ---- */

static void mock_vk_run_copy(const mock_vk_queue *q, const mock_vk_command *c) {
    const unsigned char *from = mock_vk_host(c->src) + c->src_offset;
    unsigned char *to = mock_vk_host(c->dst) + c->dst_offset;
    mock_vk_used_by(c->src, q->family);
    mock_vk_used_by(c->dst, q->family);
    mock_vk_check(from + c->size <= to || to + c->size <= from, "the copy overlaps");
    memcpy(to, from, (size_t)c->size);
}

static void mock_vk_run_fill(const mock_vk_queue *q, const mock_vk_command *c) {
    unsigned char *to = mock_vk_host(c->dst) + c->dst_offset;
    mock_vk_used_by(c->dst, q->family);
    for (uint64_t at = 0; at < c->size; at += 4) {
        memcpy(to + at, &c->value, 4);
    }
}

/* ---- kernels ---- */

/* The block that a pointer in the push constants leads to, with its buffers as host
   pointers, in q->block. */
static void mock_vk_block_read(mock_vk_queue *q, const mock_vk_kernel *k,
                               const unsigned char *push) {
    mock_vk_device *d = q->o.device;
    uint64_t address;
    memcpy(&address, push, sizeof address);
    while (q->block_capacity < k->block_bytes + 1) {
        mock_vk_grow(&q->block, &q->block_capacity, q->block_capacity, 1);
    }
    if (k->block_bytes == 0) {
        return;
    }
    mock_vk_check(address % 16 == 0, "the argument block is at %#llx, no multiple of 16",
                  mock_vk_u(address));
    memcpy(q->block, mock_vk_reach(d, address, k->block_bytes, q->family), k->block_bytes);
    for (uint32_t i = 0; i < k->pointer_count; i++) {
        uint64_t at;
        memcpy(&at, q->block + k->pointers[i], sizeof at);
        if (at != 0) {
            at = (uint64_t)(uintptr_t)mock_vk_reach(d, at, 1, q->family);
            memcpy(q->block + k->pointers[i], &at, sizeof at);
        }
    }
}

/* A dispatch is told which block of the grid is its first; the grid is its own. */
static void mock_vk_run_blocks(const mock_vk_queue *q, const mock_vk_command *c,
                               const uint32_t count[3]) {
    hcq_block b = {.user = NULL};
    const mock_vk_pipeline *p = c->pipeline;
    uint32_t base[3];
    memcpy(base, c->push + MOCK_VK_BASE, sizeof base);
    b.grid = hcq_dim(count[0], count[1], count[2]);
    b.block = hcq_dim(p->block[0], p->block[1], p->block[2]);
    for (uint32_t z = 0; z < count[2]; z++) {
        for (uint32_t y = 0; y < count[1]; y++) {
            for (uint32_t x = 0; x < count[0]; x++) {
                b.id = hcq_dim(base[0] + x, base[1] + y, base[2] + z);
                p->kernel->fn(q->block, &b);
            }
        }
    }
}

static void mock_vk_run_dispatch(mock_vk_queue *q, const mock_vk_command *c) {
    uint32_t count[3];
    memcpy(count, c->count, sizeof count);
    if (c->src) {
        mock_vk_used_by(c->src, q->family);
        memcpy(count, mock_vk_host(c->src) + c->src_offset, sizeof count);
        mock_vk_groups_check(q->o.device, count);
    }
    mock_vk_count(&mock_vk_counters.dispatches, 1);
    if (!c->pipeline->kernel || count[0] == 0 || count[1] == 0 || count[2] == 0) {
        return;
    }
    mock_vk_block_read(q, c->pipeline->kernel, c->push);
    mock_vk_run_blocks(q, c, count);
}

/* ---- queries ---- */

static void mock_vk_run_query(const mock_vk_queue *q, const mock_vk_command *c, uint32_t i) {
    mock_vk_device *d = q->o.device;
    mock_vk_query *query = &c->queries->queries[c->first + i];
    if (c->op == MOCK_VK_OP_RESET) {
        query->state = MOCK_VK_QUERY_RESET;
    } else if (c->op == MOCK_VK_OP_STAMP) {
        mock_vk_check(query->state == MOCK_VK_QUERY_RESET, "query %u is written without a reset "
                      "before", c->first);
        query->state = MOCK_VK_QUERY_WRITTEN;
        query->value = mock_vk_ticks(d, mock_vk_now(),
                                     d->physical->families[q->family].timestampValidBits);
    } else {
        mock_vk_used_by(c->dst, q->family);
        mock_vk_check(query->state == MOCK_VK_QUERY_WRITTEN,
                      "results of query %u are copied, which nothing wrote", c->first + i);
        void *to = mock_vk_host(c->dst) + c->dst_offset + i * c->size;
        __atomic_store_n((uint64_t *)to, query->value, __ATOMIC_RELAXED); /* whole */
    }
}

static void mock_vk_run_queries(const mock_vk_queue *q, const mock_vk_command *c) {
    pthread_mutex_lock(&q->o.device->lock);
    for (uint32_t i = 0; i < c->query_count; i++) {
        mock_vk_run_query(q, c, i);
    }
    pthread_cond_broadcast(&q->o.device->bell);
    pthread_mutex_unlock(&q->o.device->lock);
}

/* ---- order ---- */

static void mock_vk_run(mock_vk_queue *q, const mock_vk_command *command) {
    mock_vk_where = "execution";
    switch (command->op) {
    case MOCK_VK_OP_COPY: mock_vk_run_copy(q, command); break;
    case MOCK_VK_OP_FILL: mock_vk_run_fill(q, command); break;
    case MOCK_VK_OP_DISPATCH: mock_vk_run_dispatch(q, command); break;
    case MOCK_VK_OP_BARRIER: break;
    default: mock_vk_run_queries(q, command); break;
    }
}

/* Chooses an order: groups one after another, within one any. Under the lock. */
static void mock_vk_begin_commands(mock_vk_queue *q, const mock_vk_commands *c) {
    uint32_t first = 0;
    while (q->order_capacity < c->count) {
        mock_vk_grow(&q->order, &q->order_capacity, q->order_capacity, sizeof *q->order);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        first = i > 0 && c->list[i].group != c->list[i - 1].group ? i : first;
        uint32_t other = first + (uint32_t)(test_random(&q->o.device->random) % (i - first + 1));
        q->order[i] = q->order[other];
        q->order[other] = i;
    }
    q->lose_at = MOCK_VK_NONE;
    uint64_t left = mock_vk_peek(&mock_vk_buffers_left);
    if (left && __atomic_fetch_sub(&mock_vk_buffers_left, 1, __ATOMIC_RELAXED) == 1) {
        q->lose_at = c->count / 2;
    }
    mock_vk_count(&mock_vk_counters.buffers, 1);
}

/* ---- batches ---- */

/* A batch is over; under the lock. */
static void mock_vk_finish(mock_vk_queue *q, int done) {
    mock_vk_batch *b = q->head;
    for (uint32_t i = 0; i < b->wait_count; i++) {
        b->waits[i].semaphore->o.pending--;
    }
    if (b->commands) {
        mock_vk_pend_commands(b->commands, UINT32_MAX);
        if (!done || (b->commands->usage & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)) {
            b->commands->state = MOCK_VK_INVALID;
        }
    }
    b->signal.semaphore->o.pending--;
    if (done) {
        b->signal.semaphore->value = b->signal.value;
    }
    q->head = b->next;
    b->next = q->o.device->spare;
    q->o.device->spare = b;
    pthread_cond_broadcast(&q->o.device->bell);
}

/* Can the queue go on? Under the lock. */
static int mock_vk_ready(mock_vk_queue *q) {
    while (q->head && mock_vk_is_lost(q->o.device)) {
        mock_vk_finish(q, 0);
    }
    const mock_vk_batch *b = q->head;
    for (uint32_t i = 0; b && i < b->wait_count; i++) {
        if (b->waits[i].semaphore->value < b->waits[i].value) {
            return 0;
        }
    }
    return b != NULL;
}

/* One of the thread's queues that can go on, by chance; under the lock. */
static mock_vk_queue *mock_vk_pick(mock_vk_queue *first) {
    mock_vk_device *d = first->o.device;
    mock_vk_queue *found = NULL;
    uint32_t ready = 0, count = d->thread_count == 1 ? d->queue_count : 1;
    for (mock_vk_queue *q = first; q < first + count; q++) {
        if (mock_vk_ready(q) && test_random(&d->random) % ++ready == 0) {
            found = q;
        }
    }
    return found;
}

/* Runs commands of the batch at the head, `most` of them; under the lock, which
   is given up meanwhile. */
static void mock_vk_advance(mock_vk_queue *q, uint32_t most) {
    mock_vk_device *d = q->o.device;
    mock_vk_batch *b = q->head;
    mock_vk_commands *c = b->commands;
    if (!b->started && c) {
        mock_vk_begin_commands(q, c);
    }
    b->started = 1;
    for (; c && b->command < c->count && most > 0; most--) {
        if (b->command == q->lose_at) {
            mock_vk_lose_device(d);
        }
        if (mock_vk_is_lost(d)) {
            return;
        }
        uint32_t next = q->order[b->command++];
        pthread_mutex_unlock(&d->lock);
        mock_vk_run(q, &c->list[next]);
        pthread_mutex_lock(&d->lock);
    }
    if (!c || b->command == c->count) {
        mock_vk_finish(q, !mock_vk_is_lost(d));
    }
}

static void *mock_vk_queue_main(void *user) {
    mock_vk_device *d = ((mock_vk_queue *)user)->o.device;
    uint32_t most = d->desc->flags & MOCK_VK_SCHEDULER ? 1 : UINT32_MAX;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        mock_vk_queue *q = mock_vk_pick(user);
        if (q) {
            mock_vk_advance(q, most);
        } else if (d->stop) {
            break;
        } else {
            pthread_cond_wait(&d->bell, &d->lock);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}
