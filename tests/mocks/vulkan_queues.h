/* vulkan_queues.h - part of vulkan.h: semaphores, submission, the threads
   that execute. */
#ifndef HCQ_TEST_MOCK_VULKAN_QUEUES_H
#define HCQ_TEST_MOCK_VULKAN_QUEUES_H

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

typedef struct mock_vk_batch {
    struct mock_vk_batch *next;
    mock_vk_value *waits, *signals;
    mock_vk_commands **buffers;
    uint32_t wait_count, signal_count, buffer_count;
    uint32_t values, handles;          /* there is room for */
    int started;
    uint32_t buffer, command;          /* the next one */
} mock_vk_batch;

struct mock_vk_queue {
    mock_vk_object o;
    uint32_t family, index;
    int fetched;                       /* vkGetDeviceQueue gave it out */
    mock_vk_batch *head, *tail;        /* under the device's lock */
    uint64_t blocked_since;            /* the head waits, 0: it does not */
    uint64_t *order;                   /* of the commands of the buffer that runs */
    uint32_t order_count, order_capacity;
    uint32_t lose_at;                  /* command at which the device is lost */
    unsigned char *block;              /* arguments of a kernel */
    size_t block_capacity;
};

struct mock_vk_runner {
    mock_vk_device *d;
    uint32_t first, count;             /* queues that it runs */
    pthread_t thread;
};

static mock_vk_queue *mock_vk_queue_of(VkQueue handle) {
    return MOCK_VK_OBJECT(mock_vk_queue, handle, QUEUE, NULL);
}

/* ---- loss ---- */

/* Under the lock. */
static void mock_vk_lost(mock_vk_device *d) {
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
        mock_vk_lost(d);
        pthread_mutex_unlock(&d->lock);
    }
    return result;
}

/* ---- semaphores ---- */

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateSemaphore(
    VkDevice handle, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkSemaphore *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateSemaphore);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
    mock_vk_only(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, 0);
    const VkSemaphoreTypeCreateInfo *type = (const VkSemaphoreTypeCreateInfo *)info->pNext;
    mock_vk_check(type && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE,
                  "the mock knows timeline semaphores only");
    mock_vk_check(d->enabled.timeline, "timelineSemaphore is not enabled");
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_semaphore *s =
        (mock_vk_semaphore *)mock_vk_new(d, MOCK_VK_KIND_SEMAPHORE, sizeof *s);
    s->value = s->highest = type->initialValue;
    *out = (VkSemaphore)(uintptr_t)s;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroySemaphore(VkDevice handle, VkSemaphore semaphore,
                                                          const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroySemaphore);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (semaphore) {
        mock_vk_destroy(d, &MOCK_VK_OBJECT(mock_vk_semaphore, semaphore, SEMAPHORE, d)->o);
    }
}

/* What reading a counter of a lost device gives. */
static VkResult mock_vk_counter_result(const mock_vk_device *d) {
    int jump = (d->desc->flags & MOCK_VK_LOST_JUMP) != 0;
    return mock_vk_is_lost(d) && !jump ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkGetSemaphoreCounterValue(VkDevice handle,
                                                                      VkSemaphore semaphore,
                                                                      uint64_t *out) {
    VkResult result = mock_vk_enter(MOCK_VK_GetSemaphoreCounterValue);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_semaphore *s = MOCK_VK_OBJECT(mock_vk_semaphore, semaphore, SEMAPHORE, d);
    pthread_mutex_lock(&d->lock);
    *out = s->value;
    pthread_mutex_unlock(&d->lock);
    return mock_vk_told(d, result == VK_SUCCESS ? mock_vk_counter_result(d) : result);
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

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkWaitSemaphores(VkDevice handle,
                                                            const VkSemaphoreWaitInfo *info,
                                                            uint64_t timeout) {
    VkResult result = mock_vk_enter(MOCK_VK_WaitSemaphores);
    mock_vk_device *d = mock_vk_device_of(handle);
    uint64_t now = mock_vk_now(), until = timeout > UINT64_MAX / 2 ? UINT64_MAX : now + timeout;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    mock_vk_check(info->semaphoreCount != 0, "no semaphores");
    if (result != VK_SUCCESS) {
        return mock_vk_told(d, result);
    }
    pthread_mutex_lock(&d->lock);
    int reached = mock_vk_reached(d, info);
    while (!reached && !mock_vk_is_lost(d) && timeout != 0 && mock_vk_now() < until) {
        (void)mock_vk_sleep_until(&d->bell, &d->lock, until);
        reached = mock_vk_reached(d, info);
    }
    pthread_mutex_unlock(&d->lock);
    if (reached) {
        return VK_SUCCESS;
    }
    return mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : VK_TIMEOUT;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkSignalSemaphore(VkDevice handle,
                                                             const VkSemaphoreSignalInfo *info) {
    VkResult failure = mock_vk_enter(MOCK_VK_SignalSemaphore);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO);
    mock_vk_semaphore *s = MOCK_VK_OBJECT(mock_vk_semaphore, info->semaphore, SEMAPHORE, d);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    pthread_mutex_lock(&d->lock);
    mock_vk_check(!s->producer, "the host signals semaphore #%llu, and so does a queue",
                  mock_vk_u(s->o.number));
    mock_vk_check(info->value > s->value || mock_vk_is_lost(d),
                  "semaphore #%llu does not rise: %llu to %llu", mock_vk_u(s->o.number),
                  mock_vk_u(s->value), mock_vk_u(info->value));
    s->by_host = 1;
    s->value = s->highest = mock_vk_is_lost(d) ? s->value : info->value;
    pthread_cond_broadcast(&d->bell);
    pthread_mutex_unlock(&d->lock);
    return VK_SUCCESS;
}

/* ---- submission ---- */

/* A batch uses an object, or no longer does; under the lock. */
static void mock_vk_pend(mock_vk_object *o, uint32_t by) {
    o->pending += by;
    if (o->kind == MOCK_VK_KIND_BUFFER) {
        ((mock_vk_buffer *)(void *)o)->memory->o.pending += by;
    }
    if (o->kind == MOCK_VK_KIND_DESCRIPTOR_SET) {
        mock_vk_set *set = (mock_vk_set *)(void *)o;
        for (uint32_t i = 0; i < MOCK_VK_BINDINGS; i++) {
            if (set->layout->bindings[i].used && set->descriptors[i].buffer) {
                mock_vk_pend(&set->descriptors[i].buffer->o, by);
            }
        }
    }
}

static void mock_vk_pend_commands(mock_vk_commands *c, uint32_t by) {
    c->o.pending += by;
    for (uint32_t i = 0; i < c->ref_count; i++) {
        mock_vk_pend(c->refs[i], by);
    }
    for (uint32_t i = 0; c->queries && i < c->count; i++) {
        const mock_vk_command *command = &c->list[i];
        if (command->op != MOCK_VK_OP_RESET && command->op != MOCK_VK_OP_STAMP &&
            command->op != MOCK_VK_OP_RESULTS) {
            continue;
        }
        for (uint32_t q = 0; q < command->u.query.count; q++) {
            command->u.query.pool->queries[command->u.query.first + q].pending += by;
        }
    }
}

static mock_vk_batch *mock_vk_batch_make(uint32_t values, uint32_t handles) {
    mock_vk_batch *b = (mock_vk_batch *)calloc(1, sizeof *b + values * sizeof(mock_vk_value) +
                                                      handles * sizeof(mock_vk_commands *));
    b->values = values;
    b->handles = handles;
    b->waits = (mock_vk_value *)(void *)(b + 1);
    b->buffers = (mock_vk_commands **)(void *)(b->waits + values);
    return b;
}

/* So many that submitting does not allocate, unless it runs far ahead. */
static void mock_vk_batches_make(mock_vk_device *d) {
    for (uint32_t i = 0; i < 512; i++) {
        mock_vk_batch *b = mock_vk_batch_make(8, 4);
        b->next = d->spare;
        d->spare = b;
    }
}

/* A batch with room; those that are over are used again. Under the lock. */
static mock_vk_batch *mock_vk_batch_new(mock_vk_device *d, uint32_t waits, uint32_t buffers,
                                        uint32_t signals) {
    mock_vk_batch **link = &d->spare, *b;
    while (*link && ((*link)->values < waits + signals || (*link)->handles < buffers)) {
        link = &(*link)->next;
    }
    b = *link;
    if (b) {
        *link = b->next;
    } else {
        b = mock_vk_batch_make(waits + signals > 8 ? waits + signals : 8,
                               buffers > 4 ? buffers : 4);
    }
    b->next = NULL;
    b->signals = b->waits + waits;
    b->wait_count = waits;
    b->buffer_count = buffers;
    b->signal_count = signals;
    b->started = 0;
    b->buffer = b->command = 0;
    return b;
}

static mock_vk_value mock_vk_value_of(const mock_vk_device *d, VkSemaphore semaphore,
                                      uint64_t value) {
    mock_vk_value made = {MOCK_VK_OBJECT(mock_vk_semaphore, semaphore, SEMAPHORE, d), value};
    return made;
}

static void mock_vk_admit_wait(mock_vk_device *d, const mock_vk_value *wait) {
    mock_vk_semaphore *s = wait->semaphore;
    mock_vk_check(!(d->desc->flags & MOCK_VK_CHECK_WAITS) || wait->value <= s->highest,
                  "a wait for semaphore #%llu at %llu before the batch that signals it: %llu is "
                  "the highest", mock_vk_u(s->o.number), mock_vk_u(wait->value),
                  mock_vk_u(s->highest));
    mock_vk_check(wait->value <= s->value ||
                      wait->value - s->value <= d->desc->max_counter_difference,
                  "a wait for %llu, the counter is at %llu: too far", mock_vk_u(wait->value),
                  mock_vk_u(s->value));
    s->o.pending++;
}

static void mock_vk_admit_signal(mock_vk_device *d, const mock_vk_queue *q,
                                 const mock_vk_value *signal) {
    mock_vk_semaphore *s = signal->semaphore;
    mock_vk_check(!s->producer || s->producer == q, "two queues signal semaphore #%llu",
                  mock_vk_u(s->o.number));
    mock_vk_check(!s->by_host, "a queue signals semaphore #%llu, and so does the host",
                  mock_vk_u(s->o.number));
    mock_vk_check(signal->value > s->highest, "semaphore #%llu does not rise: %llu to %llu",
                  mock_vk_u(s->o.number), mock_vk_u(s->highest), mock_vk_u(signal->value));
    mock_vk_check(signal->value - s->value <= d->desc->max_counter_difference,
                  "a signal of %llu, the counter is at %llu: too far", mock_vk_u(signal->value),
                  mock_vk_u(s->value));
    s->producer = q;
    s->highest = signal->value;
    s->o.pending++;
}

static void mock_vk_admit_commands(const mock_vk_queue *q, mock_vk_commands *c) {
    mock_vk_check(c->pool->family == q->family, "a command buffer of family %u on a queue of %u",
                  c->pool->family, q->family);
    mock_vk_check(c->state == MOCK_VK_EXECUTABLE, "command buffer #%llu is in state %d",
                  mock_vk_u(c->o.number), (int)c->state);
    mock_vk_check(c->o.pending == 0 ||
                      (c->usage & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT),
                  "command buffer #%llu is pending", mock_vk_u(c->o.number));
    for (uint32_t i = 0; i < c->ref_count; i++) {
        mock_vk_check(mock_vk_lives(c->refs[i]), "command buffer #%llu uses %s #%llu, which was "
                      "destroyed", mock_vk_u(c->o.number),
                      mock_vk_kind_names[c->refs[i]->kind], mock_vk_u(c->refs[i]->number));
    }
    for (uint32_t i = 0; i < c->bound_count; i++) {
        const mock_vk_set *set = c->bounds[i].set;
        mock_vk_check(!set || set->version == c->bounds[i].version, "command buffer #%llu is "
                      "invalid: descriptor set #%llu was updated after it was bound",
                      mock_vk_u(c->o.number), mock_vk_u(set ? set->o.number : 0));
        for (uint32_t k = 0; set && k < MOCK_VK_BINDINGS; k++) {
            const mock_vk_buffer *b = set->descriptors[k].buffer;
            mock_vk_check(!b || mock_vk_lives(&b->o), "descriptor set #%llu, binding %u: the "
                          "buffer was destroyed", mock_vk_u(set->o.number), k);
        }
    }
    mock_vk_pend_commands(c, 1);
}

/* Checks a batch and puts it behind the others; under the lock. */
static void mock_vk_admit(mock_vk_queue *q, mock_vk_batch *b) {
    mock_vk_device *d = q->o.device;
    for (uint32_t i = 0; i < b->wait_count; i++) {
        mock_vk_admit_wait(d, &b->waits[i]);
    }
    for (uint32_t i = 0; i < b->buffer_count; i++) {
        mock_vk_admit_commands(q, b->buffers[i]);
    }
    for (uint32_t i = 0; i < b->signal_count; i++) {
        mock_vk_admit_signal(d, q, &b->signals[i]);
    }
    if (q->tail) {
        q->tail->next = b;
    } else {
        q->head = b;
    }
    q->tail = b;
    mock_vk_count(&mock_vk_counters.batches, 1);
    mock_vk_count(&mock_vk_counters.waits, b->wait_count);
    mock_vk_count(&mock_vk_counters.signals, b->signal_count);
}

static void mock_vk_all_commands(const mock_vk_device *d, uint64_t stages) {
    mock_vk_check((stages & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) ||
                      (d->desc->flags & MOCK_VK_NARROW_STAGES),
                  "a semaphore with stages %#llx, which leave commands out", mock_vk_u(stages));
}

static mock_vk_batch *mock_vk_batch_read(mock_vk_device *d, const VkSubmitInfo *info) {
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SUBMIT_INFO);
    mock_vk_only(info->pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, 0);
    const VkTimelineSemaphoreSubmitInfo *values =
        (const VkTimelineSemaphoreSubmitInfo *)info->pNext;
    uint32_t waits = info->waitSemaphoreCount, signals = info->signalSemaphoreCount;
    mock_vk_check((waits | signals) == 0 ||
                      (values && values->waitSemaphoreValueCount == waits &&
                       values->signalSemaphoreValueCount == signals),
                  "%u waits and %u signals, without as many values", waits, signals);
    mock_vk_batch *b = mock_vk_batch_new(d, waits, info->commandBufferCount, signals);
    for (uint32_t i = 0; i < waits; i++) {
        b->waits[i] = mock_vk_value_of(d, info->pWaitSemaphores[i],
                                       values->pWaitSemaphoreValues[i]);
        mock_vk_all_commands(d, info->pWaitDstStageMask[i]);
    }
    for (uint32_t i = 0; i < signals; i++) {
        b->signals[i] = mock_vk_value_of(d, info->pSignalSemaphores[i],
                                         values->pSignalSemaphoreValues[i]);
    }
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        b->buffers[i] =
            MOCK_VK_OBJECT(mock_vk_commands, info->pCommandBuffers[i], COMMAND_BUFFER, d);
    }
    return b;
}

static mock_vk_value mock_vk_value_read(const mock_vk_device *d,
                                        const VkSemaphoreSubmitInfo *info) {
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO);
    mock_vk_all_commands(d, info->stageMask == VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT
                                ? VK_PIPELINE_STAGE_ALL_COMMANDS_BIT : 0);
    mock_vk_check(info->deviceIndex == 0, "device %u", info->deviceIndex);
    return mock_vk_value_of(d, info->semaphore, info->value);
}

static mock_vk_batch *mock_vk_batch_read2(mock_vk_device *d, const VkSubmitInfo2 *info) {
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_SUBMIT_INFO_2);
    mock_vk_only(info->pNext, 0, 0);
    mock_vk_batch *b = mock_vk_batch_new(d, info->waitSemaphoreInfoCount,
                                         info->commandBufferInfoCount,
                                         info->signalSemaphoreInfoCount);
    for (uint32_t i = 0; i < b->wait_count; i++) {
        b->waits[i] = mock_vk_value_read(d, &info->pWaitSemaphoreInfos[i]);
    }
    for (uint32_t i = 0; i < b->signal_count; i++) {
        b->signals[i] = mock_vk_value_read(d, &info->pSignalSemaphoreInfos[i]);
    }
    for (uint32_t i = 0; i < b->buffer_count; i++) {
        const VkCommandBufferSubmitInfo *c = &info->pCommandBufferInfos[i];
        mock_vk_type(c->sType, VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO);
        mock_vk_check(c->deviceMask <= 1, "device mask %#x", c->deviceMask);
        b->buffers[i] = MOCK_VK_OBJECT(mock_vk_commands, c->commandBuffer, COMMAND_BUFFER, d);
    }
    return b;
}

/* The common part: one of the arrays is NULL. */
static VkResult mock_vk_submit(mock_vk_entry entry, VkQueue handle, uint32_t count,
                               const VkSubmitInfo *infos, const VkSubmitInfo2 *infos2,
                               VkFence fence) {
    VkResult result = mock_vk_enter(entry);
    mock_vk_queue *q = mock_vk_queue_of(handle);
    mock_vk_device *d = q->o.device;
    mock_vk_check(!fence, "the mock has no fences");
    mock_vk_inside(&q->o, d->desc->linger);
    pthread_mutex_lock(&d->lock);
    if (result == VK_ERROR_DEVICE_LOST) {
        mock_vk_lost(d);
    }
    if (mock_vk_is_lost(d)) {
        result = VK_ERROR_DEVICE_LOST;
    }
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
        mock_vk_admit(q, infos ? mock_vk_batch_read(d, &infos[i])
                               : mock_vk_batch_read2(d, &infos2[i]));
    }
    if (result == VK_SUCCESS) {
        mock_vk_count(&mock_vk_counters.submits, 1);
        pthread_cond_broadcast(&d->bell);
    }
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&q->o);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkQueueSubmit(VkQueue queue, uint32_t count,
                                                         const VkSubmitInfo *infos,
                                                         VkFence fence) {
    return mock_vk_submit(MOCK_VK_QueueSubmit, queue, count, infos, NULL, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkQueueSubmit2(VkQueue queue, uint32_t count,
                                                          const VkSubmitInfo2 *infos,
                                                          VkFence fence) {
    mock_vk_where = "vkQueueSubmit2";
    mock_vk_check(mock_vk_queue_of(queue)->o.device->enabled.sync2,
                  "synchronization2 is not enabled");
    return mock_vk_submit(MOCK_VK_QueueSubmit2, queue, count, NULL, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkQueueSubmit2KHR(VkQueue queue, uint32_t count,
                                                             const VkSubmitInfo2 *infos,
                                                             VkFence fence) {
    mock_vk_where = "vkQueueSubmit2KHR";
    mock_vk_check(mock_vk_queue_of(queue)->o.device->enabled.sync2,
                  "synchronization2 is not enabled");
    return mock_vk_submit(MOCK_VK_QueueSubmit2KHR, queue, count, NULL, infos, fence);
}

/* ---- time ---- */

/* The device's clock at a moment of the host's. */
static uint64_t mock_vk_ticks(const mock_vk_device *d, uint64_t host_ns, uint32_t bits) {
    int64_t drift = (int64_t)(host_ns / 1000000) * d->desc->clock_drift_ppm;
    uint64_t ns = host_ns + (uint64_t)drift + (uint64_t)d->desc->clock_offset_ns;
    double period = (double)d->desc->timestamp_period;
    uint64_t ticks = period > 1.0 || period < 1.0 ? (uint64_t)((double)ns / period) : ns;
    return bits >= 64 ? ticks : ticks & (((uint64_t)1 << bits) - 1);
}

static uint32_t mock_vk_most_bits(const mock_vk_device *d) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < d->physical->family_count; i++) {
        uint32_t some = d->physical->families[i].timestampValidBits;
        bits = some > bits ? some : bits;
    }
    return bits;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkGetCalibratedTimestampsEXT(
    VkDevice handle, uint32_t count, const VkCalibratedTimestampInfoEXT *infos, uint64_t *out,
    uint64_t *deviation) {
    VkResult failure = mock_vk_enter(MOCK_VK_GetCalibratedTimestampsEXT);
    mock_vk_device *d = mock_vk_device_of(handle);
    uint64_t most = d->desc->clock_deviation_ns, now = mock_vk_now();
    mock_vk_need(d, MOCK_VK_CALIBRATION);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    pthread_mutex_lock(&d->lock);
    uint64_t off = mock_vk_random(&d->random) % (most + 1); /* the clocks are read one by one */
    pthread_mutex_unlock(&d->lock);
    for (uint32_t i = 0; i < count; i++) {
        mock_vk_type(infos[i].sType, VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT);
        switch ((int)infos[i].timeDomain) {
        case VK_TIME_DOMAIN_DEVICE_EXT:
            out[i] = mock_vk_ticks(d, now + off, mock_vk_most_bits(d));
            break;
        case VK_TIME_DOMAIN_CLOCK_MONOTONIC_RAW_EXT:
            out[i] = mock_vk_clock(CLOCK_MONOTONIC_RAW);
            break;
        default:
            mock_vk_check(infos[i].timeDomain == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT,
                          "time domain %d", (int)infos[i].timeDomain);
            out[i] = now;
            break;
        }
    }
    *deviation = most + (uint64_t)d->desc->timestamp_period + 1;
    return VK_SUCCESS;
}

/* ---- execution: copies ---- */

static void mock_vk_run_copy(const mock_vk_queue *q, const mock_vk_command *command) {
    const unsigned char *from =
        mock_vk_host(command->u.copy.src) + command->u.copy.src_offset;
    unsigned char *to = mock_vk_host(command->u.copy.dst) + command->u.copy.dst_offset;
    size_t size = (size_t)command->u.copy.size;
    mock_vk_used_by(command->u.copy.src, q->family);
    mock_vk_used_by(command->u.copy.dst, q->family);
    mock_vk_check(from + size <= to || to + size <= from, "the copy overlaps in memory");
    memcpy(to, from, size);
    mock_vk_count(&mock_vk_counters.copies, 1);
}

static void mock_vk_run_fill(const mock_vk_queue *q, const mock_vk_command *command) {
    unsigned char *to = mock_vk_host(command->u.copy.dst) + command->u.copy.dst_offset;
    mock_vk_used_by(command->u.copy.dst, q->family);
    for (uint64_t at = 0; at < command->u.copy.size; at += 4) {
        memcpy(to + at, &command->u.copy.value, 4);
    }
    mock_vk_count(&mock_vk_counters.fills, 1);
}

static void mock_vk_run_update(const mock_vk_queue *q, const mock_vk_commands *c,
                               const mock_vk_command *command) {
    mock_vk_used_by(command->u.copy.dst, q->family);
    memcpy(mock_vk_host(command->u.copy.dst) + command->u.copy.dst_offset,
           c->bytes + command->u.copy.bytes, (size_t)command->u.copy.size);
}

/* ---- execution: kernels ---- */

/* What a kernel's blocks may use while they run. */
typedef struct mock_vk_held {
    mock_vk_buffer *buffers[HCQ_MAX_ARGS + 1];
    uint32_t count;
} mock_vk_held;

/* The host pointer behind a device address. */
static unsigned char *mock_vk_reach(const mock_vk_queue *q, mock_vk_held *held,
                                    uint64_t address, uint64_t size) {
    mock_vk_buffer *b = mock_vk_hold(q->o.device, address, size, q->family);
    held->buffers[held->count++] = b;
    return mock_vk_host(b) + (address - mock_vk_address(b));
}

/* The block that a pointer in the push constants leads to, its buffers as host
   pointers. */
static void mock_vk_block_by_pointer(mock_vk_queue *q, const mock_vk_kernel_info *k,
                                     const unsigned char *push, mock_vk_held *held) {
    uint64_t address;
    memcpy(&address, push, sizeof address);
    if (k->block_bytes == 0) {
        return;
    }
    mock_vk_check(address % 16 == 0, "the argument block is at %#llx, no multiple of 16",
                  mock_vk_u(address));
    memcpy(q->block, mock_vk_reach(q, held, address, k->block_bytes), k->block_bytes);
    for (uint32_t i = 0; i < k->arg_count; i++) {
        uint64_t at;
        if (!k->args[i].buffer) {
            continue;
        }
        memcpy(&at, q->block + k->args[i].offset, sizeof at);
        if (at != 0) {
            at = (uint64_t)(uintptr_t)mock_vk_reach(q, held, at, 1);
            memcpy(q->block + k->args[i].offset, &at, sizeof at);
        }
    }
}

/* The block put together from descriptors and values. */
static void mock_vk_block_by_bindings(mock_vk_queue *q, const mock_vk_kernel_info *k,
                                      const unsigned char *push,
                                      const mock_vk_descriptor *descriptors) {
    uint32_t binding = 0, at = 0;
    const unsigned char *values = push;
    if (k->shader.uniform && k->value_bytes) {
        const mock_vk_descriptor *u = &descriptors[k->buffer_count];
        mock_vk_check(u->buffer && u->range >= k->value_bytes, "the uniform block is too small");
        mock_vk_used_by(u->buffer, q->family);
        values = mock_vk_host(u->buffer) + u->offset;
    }
    for (uint32_t i = 0; i < k->arg_count; i++) {
        const mock_vk_arg *arg = &k->args[i];
        if (!arg->buffer) {
            at = mock_vk_round(at, arg->align);
            memcpy(q->block + arg->offset, values + at, arg->size);
            at += arg->size;
            continue;
        }
        const mock_vk_descriptor *d = &descriptors[binding];
        mock_vk_check(d->buffer != NULL, "binding %u was never written", binding);
        mock_vk_used_by(d->buffer, q->family);
        uint64_t pointer = (uint64_t)(uintptr_t)(mock_vk_host(d->buffer) + d->offset);
        memcpy(q->block + arg->offset, &pointer, sizeof pointer);
        binding++;
    }
}

static void mock_vk_block_room(mock_vk_queue *q, size_t size) {
    if (size <= q->block_capacity) {
        return;
    }
    void *block = NULL;
    free(q->block);
    if (posix_memalign(&block, 64, size) != 0) {
        abort();
    }
    q->block = (unsigned char *)block;
    q->block_capacity = size;
}

static void mock_vk_run_blocks(const mock_vk_queue *q, const mock_vk_pipeline *p,
                               const unsigned char *push, uint32_t base[3],
                               const uint32_t count[3]) {
    hcq_block b;
    uint32_t grid[3] = {count[0], count[1], count[2]};
    if (p->kernel.shader.part != MOCK_VK_NONE) {
        memcpy(base, push + p->kernel.shader.part, 3 * sizeof *base);
        memcpy(grid, push + p->kernel.shader.part + 32, sizeof grid);
    }
    b.grid = hcq_dim(grid[0], grid[1], grid[2]);
    b.block = hcq_dim(p->block[0], p->block[1], p->block[2]);
    for (uint32_t z = 0; z < count[2]; z++) {
        for (uint32_t y = 0; y < count[1]; y++) {
            for (uint32_t x = 0; x < count[0]; x++) {
                b.id = hcq_dim(base[0] + x, base[1] + y, base[2] + z);
                p->kernel.fn(q->block, &b);
            }
        }
    }
    mock_vk_count(&mock_vk_counters.blocks, (uint64_t)count[0] * count[1] * count[2]);
}

static void mock_vk_run_dispatch(mock_vk_queue *q, const mock_vk_commands *c,
                                 const mock_vk_command *command) {
    const mock_vk_pipeline *p = command->u.dispatch.pipeline;
    const mock_vk_kernel_info *k = &p->kernel;
    const mock_vk_bound *bound = NULL;
    const unsigned char *push = NULL;
    uint32_t count[3], base[3];
    mock_vk_held held;
    memcpy(count, command->u.dispatch.count, sizeof count);
    if (command->u.dispatch.indirect) {
        mock_vk_used_by(command->u.dispatch.indirect, q->family);
        memcpy(count, mock_vk_host(command->u.dispatch.indirect) + command->u.dispatch.offset,
               sizeof count);
        mock_vk_groups_check(q->o.device, command->u.dispatch.base, count);
    }
    mock_vk_count(&mock_vk_counters.dispatches, 1);
    if (!k->fn || count[0] == 0 || count[1] == 0 || count[2] == 0) {
        return;
    }
    held.count = 0;
    mock_vk_block_room(q, k->block_bytes + 1);
    memset(q->block, 0, k->block_bytes);
    push = command->u.dispatch.push == MOCK_VK_NONE ? NULL : c->bytes + command->u.dispatch.push;
    bound = command->u.dispatch.bound == MOCK_VK_NONE ? NULL
                                                      : &c->bounds[command->u.dispatch.bound];
    if (k->shader.by_pointer) {
        mock_vk_block_by_pointer(q, k, push, &held);
    } else {
        mock_vk_block_by_bindings(q, k, push, !bound ? NULL
                                              : bound->set ? bound->set->descriptors
                                                           : &c->pushed[bound->pushed]);
    }
    memcpy(base, command->u.dispatch.base, sizeof base);
    mock_vk_run_blocks(q, p, push, base, count);
    for (uint32_t i = 0; i < held.count; i++) {
        mock_vk_release(q->o.device, held.buffers[i]);
    }
}

/* ---- execution: queries ---- */

static void mock_vk_run_stamp(const mock_vk_queue *q, const mock_vk_command *command) {
    mock_vk_device *d = q->o.device;
    mock_vk_query *query = &command->u.query.pool->queries[command->u.query.first];
    uint32_t bits = d->physical->families[q->family].timestampValidBits;
    pthread_mutex_lock(&d->lock);
    mock_vk_check(query->state == MOCK_VK_QUERY_RESET, "query %u is written without a reset "
                  "before", command->u.query.first);
    query->state = MOCK_VK_QUERY_WRITTEN;
    query->value = mock_vk_ticks(d, mock_vk_now(), bits);
    pthread_cond_broadcast(&d->bell);
    pthread_mutex_unlock(&d->lock);
    mock_vk_count(&mock_vk_counters.stamps, 1);
}

static void mock_vk_run_query(const mock_vk_queue *q, const mock_vk_command *command) {
    mock_vk_device *d = q->o.device;
    mock_vk_query_pool *pool = command->u.query.pool;
    uint32_t first = command->u.query.first;
    if (command->op == MOCK_VK_OP_STAMP) {
        mock_vk_run_stamp(q, command);
        return;
    }
    if (command->op == MOCK_VK_OP_RESULTS) {
        mock_vk_used_by(command->u.query.dst, q->family);
    }
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < command->u.query.count; i++) {
        if (command->op == MOCK_VK_OP_RESET) {
            pool->queries[first + i].state = MOCK_VK_QUERY_RESET;
            continue;
        }
        unsigned char *to = mock_vk_host(command->u.query.dst) + command->u.query.offset;
        int there = mock_vk_query_result(pool, first + i, command->u.query.flags,
                                         to + i * command->u.query.stride);
        mock_vk_check(there || !(command->u.query.flags & VK_QUERY_RESULT_WAIT_BIT),
                      "results of query %u are waited for, which nothing writes", first + i);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- execution: order ---- */

static void mock_vk_run(mock_vk_queue *q, const mock_vk_commands *c,
                        const mock_vk_command *command) {
    mock_vk_where = "execution";
    switch (command->op) {
    case MOCK_VK_OP_COPY: mock_vk_run_copy(q, command); break;
    case MOCK_VK_OP_FILL: mock_vk_run_fill(q, command); break;
    case MOCK_VK_OP_UPDATE: mock_vk_run_update(q, c, command); break;
    case MOCK_VK_OP_DISPATCH: mock_vk_run_dispatch(q, c, command); break;
    case MOCK_VK_OP_BARRIER: mock_vk_count(&mock_vk_counters.barriers, 1); break;
    case MOCK_VK_OP_LABEL: break;
    default: mock_vk_run_query(q, command); break;
    }
    mock_vk_count(&mock_vk_counters.executed, 1);
}

static int mock_vk_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The order in which a buffer's commands run, as 64-bit numbers: group, chance,
   index. Within a group timestamps keep their place, and so do the commands that
   touch queries. */
static void mock_vk_shuffle(mock_vk_queue *q, const mock_vk_commands *c, uint64_t *random) {
    uint64_t floor = 0, most = 0;
    uint32_t group = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const mock_vk_command *command = &c->list[i];
        if (command->group != group) {
            group = command->group;
            floor = most = 0;
        }
        uint64_t chance = floor + mock_vk_random(random) % (0xfffff - floor);
        if (command->op == MOCK_VK_OP_RESET || command->op == MOCK_VK_OP_STAMP ||
            command->op == MOCK_VK_OP_RESULTS) {
            chance = floor = most;
        }
        most = chance > most ? chance : most;
        q->order[i] = (uint64_t)group << 44 | chance << 24 | i;
    }
    qsort(q->order, c->count, sizeof *q->order, mock_vk_compare);
}

/* Under the lock. */
static void mock_vk_begin_commands(mock_vk_queue *q, const mock_vk_commands *c) {
    mock_vk_device *d = q->o.device;
    mock_vk_grow((void **)&q->order, &q->order_capacity, c->count + 1, sizeof *q->order);
    q->order_count = c->count;
    q->lose_at = MOCK_VK_NONE;
    for (uint32_t i = 0; i < c->count; i++) {
        q->order[i] = i;
    }
    if ((d->desc->flags & MOCK_VK_SHUFFLE) && c->count < 1u << 20) {
        mock_vk_shuffle(q, c, &d->random);
    }
    uint64_t left = __atomic_load_n(&mock_vk_buffers_left, __ATOMIC_RELAXED);
    if (left && __atomic_fetch_sub(&mock_vk_buffers_left, 1, __ATOMIC_RELAXED) == 1) {
        q->lose_at = c->count / 2;
    }
    mock_vk_count(&mock_vk_counters.buffers, 1);
}

/* ---- execution: batches ---- */

/* A batch is over; under the lock. */
static void mock_vk_finish(mock_vk_queue *q, int done) {
    mock_vk_batch *b = q->head;
    for (uint32_t i = 0; i < b->wait_count; i++) {
        b->waits[i].semaphore->o.pending--;
    }
    for (uint32_t i = 0; i < b->buffer_count; i++) {
        mock_vk_commands *c = b->buffers[i];
        mock_vk_pend_commands(c, (uint32_t)-1);
        if (!done || (c->usage & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)) {
            c->state = MOCK_VK_INVALID;
        }
    }
    for (uint32_t i = 0; i < b->signal_count; i++) {
        mock_vk_semaphore *s = b->signals[i].semaphore;
        s->o.pending--;
        if (done) {
            s->value = b->signals[i].value;
        }
    }
    q->head = b->next;
    q->tail = q->head ? q->tail : NULL;
    b->next = q->o.device->spare;
    q->o.device->spare = b;
    pthread_cond_broadcast(&q->o.device->bell);
}

/* The first wait that is not met, or NULL. */
static const mock_vk_value *mock_vk_unmet(const mock_vk_batch *b) {
    for (uint32_t i = 0; i < b->wait_count; i++) {
        if (b->waits[i].semaphore->value < b->waits[i].value) {
            return &b->waits[i];
        }
    }
    return NULL;
}

/* Can the queue go on? Under the lock. */
static int mock_vk_ready(mock_vk_queue *q) {
    mock_vk_device *d = q->o.device;
    while (q->head && mock_vk_is_lost(d)) {
        mock_vk_finish(q, 0);
    }
    if (!q->head || q->head->started) {
        return q->head != NULL;
    }
    const mock_vk_value *unmet = mock_vk_unmet(q->head);
    if (!unmet) {
        q->blocked_since = 0;
        return 1;
    }
    uint64_t now = mock_vk_now();
    q->blocked_since = q->blocked_since ? q->blocked_since : now;
    mock_vk_where = "watchdog";
    mock_vk_check(now - q->blocked_since < d->desc->watchdog_ns,
                  "queue %u of family %u waits for semaphore #%llu at %llu, which is at %llu",
                  q->index, q->family, mock_vk_u(unmet->semaphore->o.number),
                  mock_vk_u(unmet->value), mock_vk_u(unmet->semaphore->value));
    return 0;
}

/* One of the queues that can go on, by chance; under the lock. */
static mock_vk_queue *mock_vk_pick(const mock_vk_runner *r) {
    mock_vk_queue *found = NULL;
    uint32_t ready = 0;
    for (uint32_t i = r->first; i < r->first + r->count; i++) {
        mock_vk_queue *q = &r->d->queues[i];
        if (mock_vk_ready(q) && mock_vk_random(&r->d->random) % ++ready == 0) {
            found = q;
        }
    }
    return found;
}

static void mock_vk_begin_batch(mock_vk_queue *q) {
    mock_vk_device *d = q->o.device;
    q->head->started = 1;
    if (d->desc->batch_delay_ns) {
        uint64_t delay = mock_vk_random(&d->random) % d->desc->batch_delay_ns;
        pthread_mutex_unlock(&d->lock);
        mock_vk_sleep(delay);
        pthread_mutex_lock(&d->lock);
    }
}

/* Runs commands of the batch at the head, `most` of them; under the lock, which
   is given up meanwhile. */
static void mock_vk_advance(mock_vk_queue *q, uint32_t most) {
    mock_vk_device *d = q->o.device;
    mock_vk_batch *b = q->head;
    while (most-- > 0 && b->buffer < b->buffer_count && !mock_vk_is_lost(d)) {
        const mock_vk_commands *c = b->buffers[b->buffer];
        if (b->command == 0) {
            mock_vk_begin_commands(q, c);
        }
        if (b->command == q->lose_at) {
            mock_vk_lost(d);
            return;
        }
        if (b->command == c->count) {
            b->command = 0;
            b->buffer++;
            continue;
        }
        uint64_t next = q->order[b->command++];
        next &= d->desc->flags & MOCK_VK_SHUFFLE ? 0xffffff : UINT32_MAX;
        pthread_mutex_unlock(&d->lock);
        mock_vk_run(q, c, &c->list[next]);
        pthread_mutex_lock(&d->lock);
    }
    if (b->buffer == b->buffer_count && !mock_vk_is_lost(d)) {
        mock_vk_finish(q, 1);
    }
}

/* Until when the runner may sleep: the watchdog's next look. */
static uint64_t mock_vk_sleep_limit(const mock_vk_runner *r) {
    uint64_t until = UINT64_MAX;
    for (uint32_t i = r->first; i < r->first + r->count; i++) {
        uint64_t since = r->d->queues[i].blocked_since;
        if (r->d->queues[i].head && since && since + r->d->desc->watchdog_ns < until) {
            until = since + r->d->desc->watchdog_ns;
        }
    }
    return until;
}

static void *mock_vk_runner_main(void *user) {
    mock_vk_runner *r = (mock_vk_runner *)user;
    mock_vk_device *d = r->d;
    uint32_t most = d->desc->flags & MOCK_VK_SCHEDULER ? 1 : UINT32_MAX;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        mock_vk_queue *q = mock_vk_pick(r);
        if (q) {
            if (!q->head->started) {
                mock_vk_begin_batch(q);
            }
            mock_vk_advance(q, most);
        } else if (d->stop) {
            break;
        } else {
            (void)mock_vk_sleep_until(&d->bell, &d->lock, mock_vk_sleep_limit(r));
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- waiting for all ---- */

static VkResult mock_vk_drain(mock_vk_device *d, uint32_t first, uint32_t count) {
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = first; i < first + count; i++) {
        while (d->queues[i].head) {
            pthread_cond_wait(&d->bell, &d->lock);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkDeviceWaitIdle(VkDevice handle) {
    VkResult result = mock_vk_enter(MOCK_VK_DeviceWaitIdle);
    mock_vk_device *d = mock_vk_device_of(handle);
    for (uint32_t i = 0; i < d->queue_count; i++) {
        mock_vk_inside(&d->queues[i].o, 0);
    }
    if (result == VK_SUCCESS) {
        result = mock_vk_drain(d, 0, d->queue_count);
    }
    for (uint32_t i = 0; i < d->queue_count; i++) {
        mock_vk_outside(&d->queues[i].o);
    }
    return mock_vk_told(d, result);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkQueueWaitIdle(VkQueue handle) {
    VkResult result = mock_vk_enter(MOCK_VK_QueueWaitIdle);
    mock_vk_queue *q = mock_vk_queue_of(handle);
    mock_vk_inside(&q->o, q->o.device->desc->linger);
    if (result == VK_SUCCESS) {
        result = mock_vk_drain(q->o.device, (uint32_t)(q - q->o.device->queues), 1);
    }
    mock_vk_outside(&q->o);
    return mock_vk_told(q->o.device, result);
}

#endif /* HCQ_TEST_MOCK_VULKAN_QUEUES_H */
