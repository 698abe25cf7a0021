/* vulkan_queues.h - the mock of Vulkan: semaphores, submission, waiting. */
#pragma once

#include "vulkan_commands.h"

typedef struct mock_vk_queue mock_vk_queue;

typedef struct mock_vk_semaphore {
    mock_vk_object o;
    uint64_t value;
    uint64_t highest;                  /* that something submitted brings it to */
    const mock_vk_queue *producer;     /* the one that signals it, or NULL */
    int by_host;                       /* the host signals it */
} mock_vk_semaphore;

typedef struct mock_vk_value {
    mock_vk_semaphore *semaphore;
    uint64_t value;
} mock_vk_value;

enum { MOCK_VK_BATCH_WAITS = 64, MOCK_VK_QUEUES = 32 };

typedef struct mock_vk_batch {
    struct mock_vk_batch *next;
    mock_vk_value waits[MOCK_VK_BATCH_WAITS], signal;
    uint32_t wait_count;
    mock_vk_commands *commands;        /* or NULL */
    int started;
    uint32_t command;                  /* the next one */
} mock_vk_batch;

struct mock_vk_queue {
    mock_vk_object o;
    uint32_t family, index;
    pthread_t thread;
    mock_vk_batch *head, *tail;        /* under the device's lock */
    uint32_t *order;                   /* of the commands that run */
    uint32_t order_capacity;
    uint32_t lose_at;                  /* command at which the device is lost */
    unsigned char *block;              /* arguments of a kernel */
    uint32_t block_capacity;
};

/* ---- loss ---- */

/* Under the lock. */
static void mock_vk_lose_device(mock_vk_device *d) {
    __atomic_store_n(&d->lost, 1, __ATOMIC_RELEASE);
    for (mock_vk_object *o = d->objects; o; o = o->next) {
        if (o->kind == MOCK_VK_KIND_SEMAPHORE && (d->desc->flags & MOCK_VK_LOST_JUMP)) {
            ((mock_vk_semaphore *)(void *)o)->value = UINT64_MAX;
        }
    }
    pthread_cond_broadcast(&d->bell);
}

/* A call that told that the device is lost was right. */
static VkResult mock_vk_told(mock_vk_device *d, VkResult result) {
    if (result == VK_ERROR_DEVICE_LOST && !mock_vk_is_lost(d)) {
        pthread_mutex_lock(&d->lock);
        mock_vk_lose_device(d);
        pthread_mutex_unlock(&d->lock);
    }
    return result;
}

/* ---- semaphores ---- */

static void mock_vk_semaphore_make(mock_vk_semaphore *s, const VkSemaphoreCreateInfo *info) {
    const VkSemaphoreTypeCreateInfo *type = info->pNext;
    mock_vk_check(type && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE &&
                      (s->o.device->features & MOCK_VK_NO_TIMELINE),
                  "the mock knows timeline semaphores only, and they are to be enabled");
    s->value = s->highest = type->initialValue;
}

MOCK_VK_CREATE(Semaphore, mock_vk_semaphore, SEMAPHORE, mock_vk_semaphore_make)

MOCK_VK_API(VkResult, GetSemaphoreCounterValue, VkDevice handle, VkSemaphore semaphore,
            uint64_t *out) {
    VkResult result = mock_vk_enter(MOCK_VK_GetSemaphoreCounterValue);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_semaphore *s = MOCK_VK_OBJECT(mock_vk_semaphore, semaphore, SEMAPHORE, d);
    pthread_mutex_lock(&d->lock);
    *out = s->value;
    pthread_mutex_unlock(&d->lock);
    if (result == VK_SUCCESS && mock_vk_is_lost(d) && !(d->desc->flags & MOCK_VK_LOST_JUMP)) {
        result = VK_ERROR_DEVICE_LOST;
    }
    return mock_vk_told(d, result);
}

static int mock_vk_reached(const mock_vk_device *d, const VkSemaphoreWaitInfo *info) {
    uint32_t reached = 0;
    for (uint32_t i = 0; i < info->semaphoreCount; i++) {
        const mock_vk_semaphore *s =
            MOCK_VK_OBJECT(mock_vk_semaphore, info->pSemaphores[i], SEMAPHORE, d);
        reached += s->value >= info->pValues[i];
    }
    return info->flags & VK_SEMAPHORE_WAIT_ANY_BIT ? reached != 0
                                                   : reached == info->semaphoreCount;
}

MOCK_VK_API(VkResult, WaitSemaphores, VkDevice handle, const VkSemaphoreWaitInfo *info,
            uint64_t timeout) {
    VkResult result = mock_vk_enter(MOCK_VK_WaitSemaphores);
    mock_vk_device *d = mock_vk_device_of(handle);
    uint64_t until = mock_vk_now() + (timeout < UINT64_MAX / 2 ? timeout : UINT64_MAX / 2);
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    if (result != VK_SUCCESS) {
        return mock_vk_told(d, result);
    }
    pthread_mutex_lock(&d->lock);
    int reached = mock_vk_reached(d, info);
    while (!reached && !mock_vk_is_lost(d) && mock_vk_now() < until) {
        pthread_cond_timedwait(&d->bell, &d->lock, &t);
        reached = mock_vk_reached(d, info);
    }
    pthread_mutex_unlock(&d->lock);
    if (reached) {
        return VK_SUCCESS;
    }
    return mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : VK_TIMEOUT;
}

MOCK_VK_API(VkResult, SignalSemaphore, VkDevice handle, const VkSemaphoreSignalInfo *info) {
    VkResult failure = mock_vk_enter(MOCK_VK_SignalSemaphore);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_semaphore *s = MOCK_VK_OBJECT(mock_vk_semaphore, info->semaphore, SEMAPHORE, d);
    MOCK_VK_TRY(failure);
    pthread_mutex_lock(&d->lock);
    mock_vk_check(!s->producer, "the host signals semaphore #%u, and so does a queue", s->o.number);
    mock_vk_check(info->value > s->value || mock_vk_is_lost(d),
                  "semaphore #%u does not rise: %llu to %llu", s->o.number,
                  mock_vk_u(s->value), mock_vk_u(info->value));
    s->by_host = 1;
    s->value = s->highest = mock_vk_is_lost(d) ? s->value : info->value;
    pthread_cond_broadcast(&d->bell);
    pthread_mutex_unlock(&d->lock);
    return VK_SUCCESS;
}

/* ---- submission ---- */

/* A batch uses commands, or no longer does, and all that they use; under the lock. */
static void mock_vk_pend_commands(mock_vk_commands *c, uint32_t by) {
    c->o.pending += by;
    for (uint32_t i = 0; i < c->ref_count; i++) {
        if (c->refs[i]->kind == MOCK_VK_KIND_BUFFER) {
            mock_vk_pend_buffer((mock_vk_buffer *)(void *)c->refs[i], by);
        } else {
            c->refs[i]->pending += by;
        }
    }
    for (uint32_t i = 0; i < c->count; i++) {
        for (uint32_t q = 0; q < c->list[i].query_count; q++) {
            c->list[i].queries->queries[c->list[i].first + q].pending += by;
        }
    }
}

/* So many that submitting does not allocate, unless it runs far ahead. */
static void mock_vk_batches_make(mock_vk_device *d) {
    for (uint32_t i = 0; i < 512; i++) {
        mock_vk_batch *b = malloc(sizeof *b);
        b->next = d->spare;
        d->spare = b;
    }
}

/* Under the lock; those that are over are used again. */
static mock_vk_batch *mock_vk_batch_new(mock_vk_device *d, uint32_t waits, uint32_t buffers,
                                        uint32_t signals) {
    mock_vk_batch *b = d->spare;
    if (b) {
        d->spare = b->next;
    } else {
        b = malloc(sizeof *b);
    }
    mock_vk_check(waits <= MOCK_VK_BATCH_WAITS && buffers <= 1 && signals == 1,
                  "%u waits, %u command buffers, %u signals of a batch: more than the mock knows",
                  waits, buffers, signals);
    b->next = NULL;
    b->commands = NULL;
    b->wait_count = waits;
    b->started = 0;
    b->command = 0;
    return b;
}

/* A semaphore's value; all commands are to be behind, or before it. */
static mock_vk_value mock_vk_value_of(const mock_vk_device *d, VkSemaphore semaphore,
                                      uint64_t value, uint64_t stages) {
    mock_vk_value made = {MOCK_VK_OBJECT(mock_vk_semaphore, semaphore, SEMAPHORE, d), value};
    mock_vk_check(stages == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                  "a semaphore with stages %#llx, which leave commands out", mock_vk_u(stages));
    return made;
}

static void mock_vk_admit_wait(mock_vk_device *d, const mock_vk_value *wait) {
    mock_vk_semaphore *s = wait->semaphore;
    mock_vk_check((d->desc->flags & MOCK_VK_LATE_SIGNALS) || wait->value <= s->highest,
                  "a wait for semaphore #%u at %llu before the batch that signals it: %llu is "
                  "the highest", s->o.number, mock_vk_u(wait->value),
                  mock_vk_u(s->highest));
    s->o.pending++;
}

static void mock_vk_admit_signal(const mock_vk_queue *q, const mock_vk_value *signal) {
    mock_vk_semaphore *s = signal->semaphore;
    mock_vk_check(!s->producer || s->producer == q, "two queues signal semaphore #%u", s->o.number);
    mock_vk_check(!s->by_host, "a queue signals semaphore #%u, and so does the host", s->o.number);
    mock_vk_check(signal->value > s->highest, "semaphore #%u does not rise: %llu to %llu",
                  s->o.number, mock_vk_u(s->highest), mock_vk_u(signal->value));
    mock_vk_check(signal->value - s->value <= INT32_MAX,
                  "a signal of %llu, the counter is at %llu: too far", mock_vk_u(signal->value),
                  mock_vk_u(s->value));
    s->producer = q;
    s->highest = signal->value;
    s->o.pending++;
}

static void mock_vk_admit_commands(const mock_vk_queue *q, mock_vk_commands *c) {
    const unsigned number = c->o.number;
    mock_vk_check(c->pool->family == q->family, "a command buffer of family %u on a queue of %u",
                  c->pool->family, q->family);
    mock_vk_check(c->state == MOCK_VK_EXECUTABLE, "command buffer #%u is in state %d", number,
                  (int)c->state);
    mock_vk_check(c->o.pending == 0 || (c->usage & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT),
                  "command buffer #%u is pending", number);
    for (uint32_t i = 0; i < c->ref_count; i++) {
        mock_vk_check(mock_vk_lives(c->refs[i]), "command buffer #%u uses %s #%u, which was "
                      "destroyed", number, mock_vk_kind_names[c->refs[i]->kind],
                      c->refs[i]->number);
    }
    mock_vk_pend_commands(c, 1);
}

/* Checks a batch and puts it behind the others; under the lock. */
static void mock_vk_admit(mock_vk_queue *q, mock_vk_batch *b) {
    for (uint32_t i = 0; i < b->wait_count; i++) {
        mock_vk_admit_wait(q->o.device, &b->waits[i]);
    }
    if (b->commands) {
        mock_vk_admit_commands(q, b->commands);
    }
    mock_vk_admit_signal(q, &b->signal);
    *(q->head ? &q->tail->next : &q->head) = b;
    q->tail = b;
}

/* One or the other structure is given. */
static mock_vk_batch *mock_vk_batch_read(mock_vk_device *d, const VkSubmitInfo *old,
                                         const VkSubmitInfo2 *info) {
    const VkTimelineSemaphoreSubmitInfo *values = old ? old->pNext : NULL;
    mock_vk_check(!old || (values && values->waitSemaphoreValueCount == old->waitSemaphoreCount &&
                           values->signalSemaphoreValueCount == old->signalSemaphoreCount),
                  "not as many values as semaphores");
    mock_vk_batch *b = mock_vk_batch_new(
        d, old ? old->waitSemaphoreCount : info->waitSemaphoreInfoCount,
        old ? old->commandBufferCount : info->commandBufferInfoCount,
        old ? old->signalSemaphoreCount : info->signalSemaphoreInfoCount);
    for (uint32_t i = 0; i < b->wait_count; i++) {
        const VkSemaphoreSubmitInfo *wait = old ? NULL : &info->pWaitSemaphoreInfos[i];
        b->waits[i] = old ? mock_vk_value_of(d, old->pWaitSemaphores[i],
                                             values->pWaitSemaphoreValues[i],
                                             old->pWaitDstStageMask[i])
                          : mock_vk_value_of(d, wait->semaphore, wait->value, wait->stageMask);
    }
    const VkSemaphoreSubmitInfo *signal = old ? NULL : info->pSignalSemaphoreInfos;
    b->signal = old ? mock_vk_value_of(d, old->pSignalSemaphores[0],
                                       values->pSignalSemaphoreValues[0],
                                       VK_PIPELINE_STAGE_ALL_COMMANDS_BIT)
                    : mock_vk_value_of(d, signal->semaphore, signal->value, signal->stageMask);
    if (old ? old->commandBufferCount : info->commandBufferInfoCount) {
        b->commands = MOCK_VK_OBJECT(mock_vk_commands,
                                     old ? old->pCommandBuffers[0]
                                         : info->pCommandBufferInfos[0].commandBuffer,
                                     COMMAND_BUFFER, d);
    }
    return b;
}

/* The common part: one of the arrays is NULL. */
static VkResult mock_vk_submit(mock_vk_entry entry, VkQueue handle, uint32_t count,
                               const VkSubmitInfo *infos, const VkSubmitInfo2 *infos2) {
    VkResult result = mock_vk_enter(entry);
    mock_vk_queue *q = MOCK_VK_OBJECT(mock_vk_queue, handle, QUEUE, NULL);
    mock_vk_device *d = q->o.device;
    mock_vk_check(infos || (d->features & MOCK_VK_NO_SYNC2), "synchronization2 is not enabled");
    mock_vk_inside(&q->o, d->desc->linger);
    mock_vk_say(d->physical, "something was submitted");
    result = mock_vk_told(d, result);
    pthread_mutex_lock(&d->lock);      /* a loss ends what is pending: its commands are invalid */
    result = mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : result;
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
        mock_vk_admit(q, mock_vk_batch_read(d, infos ? &infos[i] : NULL,
                                            infos ? NULL : &infos2[i]));
    }
    pthread_cond_broadcast(&d->bell);
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&q->o);
    return result;
}

MOCK_VK_API(VkResult, QueueSubmit, VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
            VkFence fence) {
    return mock_vk_submit(MOCK_VK_QueueSubmit, queue, count, infos, NULL);
}

MOCK_VK_API(VkResult, QueueSubmit2, VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
            VkFence fence) {
    return mock_vk_submit(MOCK_VK_QueueSubmit2, queue, count, NULL, infos);
}

/* ---- waiting for all ---- */

MOCK_VK_API(VkResult, DeviceWaitIdle, VkDevice handle) {
    VkResult result = mock_vk_enter(MOCK_VK_DeviceWaitIdle);
    mock_vk_device *d = mock_vk_device_of(handle);
    for (uint32_t i = 0; i < d->queue_count; i++) {
        mock_vk_inside(&d->queues[i].o, 0);
    }
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < d->queue_count; i++) {
        while (result == VK_SUCCESS && d->queues[i].head) {
            pthread_cond_wait(&d->bell, &d->lock);
        }
        mock_vk_outside(&d->queues[i].o);
    }
    pthread_mutex_unlock(&d->lock);
    result = result == VK_SUCCESS && mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : result;
    return mock_vk_told(d, result);
}
