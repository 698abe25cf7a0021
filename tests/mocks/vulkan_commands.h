/* vulkan_commands.h - part of vulkan.h: command pools, command buffers,
   queries, recording. */
#ifndef HCQ_TEST_MOCK_VULKAN_COMMANDS_H
#define HCQ_TEST_MOCK_VULKAN_COMMANDS_H

/* ---- queries ---- */

typedef struct mock_vk_query {
    enum { MOCK_VK_QUERY_UNDEFINED, MOCK_VK_QUERY_RESET, MOCK_VK_QUERY_WRITTEN } state;
    uint32_t pending;                  /* batches that use it */
    uint64_t value;
} mock_vk_query;

typedef struct mock_vk_query_pool {
    mock_vk_object o;
    uint32_t count;
    mock_vk_query *queries;            /* under the device's lock */
} mock_vk_query_pool;

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateQueryPool(
    VkDevice handle, const VkQueryPoolCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkQueryPool *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateQueryPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
    mock_vk_check(info->queryType == VK_QUERY_TYPE_TIMESTAMP && info->queryCount != 0,
                  "%u queries of type %d", info->queryCount, (int)info->queryType);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_query_pool *pool =
        (mock_vk_query_pool *)mock_vk_new(d, MOCK_VK_KIND_QUERY_POOL, sizeof *pool);
    pool->count = info->queryCount;
    pool->queries = (mock_vk_query *)calloc(pool->count, sizeof *pool->queries);
    *out = (VkQueryPool)(uintptr_t)pool;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyQueryPool(VkDevice handle, VkQueryPool object,
                                                          const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyQueryPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (!object) {
        return;
    }
    mock_vk_query_pool *pool = MOCK_VK_OBJECT(mock_vk_query_pool, object, QUERY_POOL, d);
    mock_vk_destroy(d, &pool->o);
    free(pool->queries);
    pool->queries = NULL;
}

static void mock_vk_queries_within(const mock_vk_query_pool *pool, uint32_t first,
                                   uint32_t count) {
    mock_vk_check(first < pool->count && count != 0 && count <= pool->count - first,
                  "queries %u to %u of %u", first, first + count, pool->count);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkResetQueryPool(VkDevice handle, VkQueryPool object,
                                                        uint32_t first, uint32_t count) {
    (void)mock_vk_enter(MOCK_VK_ResetQueryPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_query_pool *pool = MOCK_VK_OBJECT(mock_vk_query_pool, object, QUERY_POOL, d);
    mock_vk_check(d->enabled.host_reset, "hostQueryReset is not enabled");
    mock_vk_queries_within(pool, first, count);
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = first; i < first + count; i++) {
        mock_vk_check(pool->queries[i].pending == 0 || mock_vk_is_lost(d),
                      "query %u is reset while pending batches use it", i);
        pool->queries[i].state = MOCK_VK_QUERY_RESET;
    }
    pthread_mutex_unlock(&d->lock);
}

/* One result at `out`; under the lock. 0: it is not there. */
static int mock_vk_query_result(const mock_vk_query_pool *pool, uint32_t query,
                                VkQueryResultFlags flags, unsigned char *out) {
    const mock_vk_query *q = &pool->queries[query];
    int there = q->state == MOCK_VK_QUERY_WRITTEN;
    size_t size = flags & VK_QUERY_RESULT_64_BIT ? 8 : 4;
    uint64_t values[2] = {q->value, (uint64_t)there};
    mock_vk_check(q->state != MOCK_VK_QUERY_UNDEFINED, "query %u was never reset", query);
    if (there) {
        memcpy(out, &values[0], size);
    }
    if (flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT) {
        memcpy(out + size, &values[1], size);
    }
    return there;
}

/* Waits for a query that something pending will write; under the lock. */
static void mock_vk_query_wait(mock_vk_device *d, const mock_vk_query *q) {
    while (q->state != MOCK_VK_QUERY_WRITTEN && !mock_vk_is_lost(d)) {
        mock_vk_check(q->pending != 0, "waits for a query that nothing pending writes");
        pthread_cond_wait(&d->bell, &d->lock);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkGetQueryPoolResults(
    VkDevice handle, VkQueryPool object, uint32_t first, uint32_t count, size_t size, void *out,
    VkDeviceSize stride, VkQueryResultFlags flags) {
    VkResult result = mock_vk_enter(MOCK_VK_GetQueryPoolResults);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_query_pool *pool = MOCK_VK_OBJECT(mock_vk_query_pool, object, QUERY_POOL, d);
    size_t word = flags & VK_QUERY_RESULT_64_BIT ? 8 : 4;
    size_t each = flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT ? 2 * word : word;
    mock_vk_queries_within(pool, first, count);
    mock_vk_check((uintptr_t)out % word == 0 && stride % word == 0 &&
                      size >= (size_t)stride * (count - 1) + each,
                  "%zu bytes, stride %llu, for %u results", size, mock_vk_u(stride), count);
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
        if (flags & VK_QUERY_RESULT_WAIT_BIT) {
            mock_vk_query_wait(d, &pool->queries[first + i]);
        }
        if (!mock_vk_query_result(pool, first + i, flags, (unsigned char *)out + i * stride)) {
            result = mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : VK_NOT_READY;
        }
    }
    pthread_mutex_unlock(&d->lock);
    return result;
}

/* ---- command buffers ---- */

typedef enum mock_vk_op {
    MOCK_VK_OP_COPY, MOCK_VK_OP_FILL, MOCK_VK_OP_UPDATE, MOCK_VK_OP_DISPATCH,
    MOCK_VK_OP_BARRIER, MOCK_VK_OP_RESET, MOCK_VK_OP_STAMP, MOCK_VK_OP_RESULTS,
    MOCK_VK_OP_LABEL
} mock_vk_op;

typedef struct mock_vk_command {
    mock_vk_op op;
    uint32_t group;                    /* commands of one may run in any order */
    union {
        struct {                       /* copy; fill and update without source */
            mock_vk_buffer *dst, *src;
            uint64_t dst_offset, src_offset, size;
            uint32_t value;            /* fill */
            uint32_t bytes;            /* update: its place in .bytes */
        } copy;
        struct {
            mock_vk_pipeline *pipeline;
            uint32_t base[3], count[3];
            mock_vk_buffer *indirect;  /* or NULL */
            uint64_t offset;
            uint32_t push;             /* in .bytes, MOCK_VK_NONE: nothing was pushed */
            uint32_t bound;            /* in .bounds, or MOCK_VK_NONE */
        } dispatch;
        struct {
            VkPipelineStageFlags src_stages, dst_stages;
            VkAccessFlags src_access, dst_access;
        } barrier;
        struct {
            mock_vk_query_pool *pool;
            uint32_t first, count;
            mock_vk_buffer *dst;
            uint64_t offset, stride;
            VkQueryResultFlags flags;
        } query;
    } u;
} mock_vk_command;

/* Descriptors as a dispatch finds them. */
typedef struct mock_vk_bound {
    mock_vk_set *set;                  /* NULL: pushed */
    uint64_t version;
    uint32_t pushed;                   /* in .pushed */
} mock_vk_bound;

typedef struct mock_vk_command_pool {
    mock_vk_object o;
    uint32_t family;
    VkQueueFlags can;                  /* transfer, too, where it is implied */
    VkCommandPoolCreateFlags flags;
    struct mock_vk_commands *list;
} mock_vk_command_pool;

typedef struct mock_vk_commands {
    mock_vk_object o;
    mock_vk_command_pool *pool;
    struct mock_vk_commands *next_of_pool;
    enum { MOCK_VK_INITIAL, MOCK_VK_RECORDING, MOCK_VK_EXECUTABLE, MOCK_VK_INVALID } state;
    VkCommandBufferUsageFlags usage;
    mock_vk_command *list;
    uint32_t count, capacity;
    unsigned char *bytes;              /* push constants, data of updates */
    uint32_t byte_count, byte_capacity;
    mock_vk_object **refs;             /* what is used */
    uint32_t ref_count, ref_capacity;
    mock_vk_bound *bounds;
    uint32_t bound_count, bound_capacity;
    mock_vk_descriptor *pushed;        /* MOCK_VK_BINDINGS each time */
    uint32_t pushed_count, pushed_capacity;
    uint32_t queries;                  /* commands with some */
    /* While it is recorded: */
    mock_vk_pipeline *pipeline;
    const mock_vk_layout *push_layout;
    unsigned char push[256];
    uint64_t push_there;               /* words that were pushed, as bits */
    uint32_t push_at;                  /* the last snapshot, MOCK_VK_NONE: pushed anew */
    const mock_vk_set_layout *set_layout;
    uint32_t bound_at;
    mock_vk_descriptor push_set[MOCK_VK_BINDINGS];
    int labels;
} mock_vk_commands;

static void mock_vk_grow(void **items, uint32_t *capacity, uint32_t count, size_t size) {
    if (count <= *capacity) {
        return;
    }
    *capacity = count > *capacity * 2 ? count : *capacity * 2;
    *items = realloc(*items, *capacity * size);
}

static void mock_vk_commands_empty(mock_vk_commands *c) {
    c->state = MOCK_VK_INITIAL;
    c->count = c->byte_count = c->ref_count = c->bound_count = c->pushed_count = 0;
    c->queries = 0;
    c->pipeline = NULL;
    c->push_layout = NULL;
    c->push_there = 0;
    c->push_at = c->bound_at = MOCK_VK_NONE;
    c->set_layout = NULL;
    c->labels = 0;
    memset(c->push_set, 0, sizeof c->push_set);
}

static void mock_vk_commands_close(mock_vk_device *d, mock_vk_commands *c) {
    mock_vk_destroy(d, &c->o);
    free(c->list);
    free(c->bytes);
    free(c->refs);
    free(c->bounds);
    free(c->pushed);
    c->list = NULL;
    c->bytes = NULL;
    c->refs = NULL;
    c->bounds = NULL;
    c->pushed = NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateCommandPool(
    VkDevice handle, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkCommandPool *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateCommandPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    mock_vk_check(info->queueFamilyIndex < d->physical->family_count, "family %u",
                  info->queueFamilyIndex);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    mock_vk_command_pool *pool =
        (mock_vk_command_pool *)mock_vk_new(d, MOCK_VK_KIND_COMMAND_POOL, sizeof *pool);
    pool->family = info->queueFamilyIndex;
    pool->flags = info->flags;
    pool->can = d->physical->families[pool->family].queueFlags;
    if (pool->can & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT)) {
        pool->can |= VK_QUEUE_TRANSFER_BIT;
    }
    *out = (VkCommandPool)(uintptr_t)pool;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyCommandPool(
    VkDevice handle, VkCommandPool object, const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyCommandPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (!object) {
        return;
    }
    mock_vk_command_pool *pool = MOCK_VK_OBJECT(mock_vk_command_pool, object, COMMAND_POOL, d);
    mock_vk_inside(&pool->o, d->desc->linger);
    for (mock_vk_commands *c = pool->list; c; c = c->next_of_pool) {
        mock_vk_commands_close(d, c);
    }
    pool->list = NULL;
    mock_vk_destroy(d, &pool->o);
    mock_vk_outside(&pool->o);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkResetCommandPool(VkDevice handle,
                                                              VkCommandPool object,
                                                              VkCommandPoolResetFlags flags) {
    VkResult failure = mock_vk_enter(MOCK_VK_ResetCommandPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_command_pool *pool = MOCK_VK_OBJECT(mock_vk_command_pool, object, COMMAND_POOL, d);
    (void)flags;
    mock_vk_inside(&pool->o, d->desc->linger);
    pthread_mutex_lock(&d->lock);
    for (mock_vk_commands *c = pool->list; c && failure == VK_SUCCESS; c = c->next_of_pool) {
        mock_vk_unused(d, &c->o);
        mock_vk_commands_empty(c);
    }
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&pool->o);
    return failure;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkAllocateCommandBuffers(
    VkDevice handle, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_AllocateCommandBuffers);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    mock_vk_command_pool *pool =
        MOCK_VK_OBJECT(mock_vk_command_pool, info->commandPool, COMMAND_POOL, d);
    mock_vk_check(info->level == VK_COMMAND_BUFFER_LEVEL_PRIMARY && info->commandBufferCount,
                  "level %d, %u of them", (int)info->level, info->commandBufferCount);
    mock_vk_inside(&pool->o, d->desc->linger);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        out[i] = VK_NULL_HANDLE;
        if (failure != VK_SUCCESS) {
            continue;
        }
        mock_vk_commands *c =
            (mock_vk_commands *)mock_vk_new(d, MOCK_VK_KIND_COMMAND_BUFFER, sizeof *c);
        mock_vk_commands_empty(c);
        c->pool = pool;
        c->next_of_pool = pool->list;
        pool->list = c;
        out[i] = (VkCommandBuffer)(uintptr_t)c;
    }
    mock_vk_outside(&pool->o);
    return failure;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkFreeCommandBuffers(VkDevice handle, VkCommandPool object,
                                                            uint32_t count,
                                                            const VkCommandBuffer *buffers) {
    (void)mock_vk_enter(MOCK_VK_FreeCommandBuffers);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_command_pool *pool = MOCK_VK_OBJECT(mock_vk_command_pool, object, COMMAND_POOL, d);
    mock_vk_inside(&pool->o, d->desc->linger);
    for (uint32_t i = 0; i < count; i++) {
        if (!buffers[i]) {
            continue;
        }
        mock_vk_commands *c = MOCK_VK_OBJECT(mock_vk_commands, buffers[i], COMMAND_BUFFER, d);
        mock_vk_commands **link = &pool->list;
        while (*link && *link != c) {
            link = &(*link)->next_of_pool;
        }
        mock_vk_check(*link == c, "the command buffer is of another pool");
        *link = c->next_of_pool;
        mock_vk_commands_close(d, c);
    }
    mock_vk_outside(&pool->o);
}

/* ---- recording ---- */

static mock_vk_commands *mock_vk_commands_of(VkCommandBuffer handle) {
    return MOCK_VK_OBJECT(mock_vk_commands, handle, COMMAND_BUFFER, NULL);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkBeginCommandBuffer(
    VkCommandBuffer handle, const VkCommandBufferBeginInfo *info) {
    VkResult failure = mock_vk_enter(MOCK_VK_BeginCommandBuffer);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    mock_vk_device *d = c->o.device;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    mock_vk_inside(&c->pool->o, d->desc->linger);
    mock_vk_check(c->state != MOCK_VK_RECORDING, "it is being recorded");
    mock_vk_check(c->state == MOCK_VK_INITIAL ||
                      (c->pool->flags & VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT),
                  "its pool does not let it be reset");
    pthread_mutex_lock(&d->lock);
    mock_vk_unused(d, &c->o);
    mock_vk_commands_empty(c);
    if (failure == VK_SUCCESS) {
        c->state = MOCK_VK_RECORDING;
        c->usage = info->flags;
    }
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&c->pool->o);
    return failure;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkResetCommandBuffer(VkCommandBuffer handle,
                                                                VkCommandBufferResetFlags flags) {
    VkResult failure = mock_vk_enter(MOCK_VK_ResetCommandBuffer);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    mock_vk_device *d = c->o.device;
    (void)flags;
    mock_vk_inside(&c->pool->o, d->desc->linger);
    mock_vk_check(c->pool->flags & VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                  "its pool does not let it be reset");
    pthread_mutex_lock(&d->lock);
    mock_vk_unused(d, &c->o);
    if (failure == VK_SUCCESS) {
        mock_vk_commands_empty(c);
    }
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&c->pool->o);
    return failure;
}

/* Every vkCmd begins with this, and ends with mock_vk_recorded. `can`: what one
   bit of its family must be able to. */
static mock_vk_commands *mock_vk_record(VkCommandBuffer handle, mock_vk_entry entry,
                                        VkQueueFlags can) {
    (void)mock_vk_enter(entry);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    mock_vk_inside(&c->pool->o, c->o.device->desc->linger);
    mock_vk_check(c->state == MOCK_VK_RECORDING, "the command buffer is not being recorded");
    mock_vk_check(can == 0 || (c->pool->can & can), "not on family %u", c->pool->family);
    mock_vk_count(&mock_vk_counters.recorded, 1);
    return c;
}

static void mock_vk_recorded(mock_vk_commands *c) { mock_vk_outside(&c->pool->o); }

static mock_vk_command *mock_vk_add(mock_vk_commands *c, mock_vk_op op) {
    mock_vk_grow((void **)&c->list, &c->capacity, c->count + 1, sizeof *c->list);
    mock_vk_command *made = &c->list[c->count++];
    memset(made, 0, sizeof *made);
    made->op = op;
    return made;
}

static void mock_vk_ref(mock_vk_commands *c, mock_vk_object *o) {
    uint32_t first = c->ref_count > 8 ? c->ref_count - 8 : 0;
    for (uint32_t i = first; i < c->ref_count; i++) {
        if (c->refs[i] == o) {
            return;
        }
    }
    mock_vk_grow((void **)&c->refs, &c->ref_capacity, c->ref_count + 1, sizeof *c->refs);
    c->refs[c->ref_count++] = o;
}

/* A buffer that the commands use. */
static mock_vk_buffer *mock_vk_take(mock_vk_commands *c, VkBuffer handle,
                                    VkBufferUsageFlags usage) {
    mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, handle, BUFFER, c->o.device);
    mock_vk_usable(b, usage);
    mock_vk_ref(c, &b->o);
    return b;
}

static uint32_t mock_vk_keep(mock_vk_commands *c, const void *data, uint32_t size) {
    uint32_t at = c->byte_count;
    mock_vk_grow((void **)&c->bytes, &c->byte_capacity, at + size, 1);
    memcpy(c->bytes + at, data, size);
    c->byte_count += size;
    return at;
}

static void mock_vk_record_region(mock_vk_commands *c, mock_vk_buffer *src, mock_vk_buffer *dst,
                                  const VkBufferCopy *r) {
    mock_vk_check(r->size != 0, "a copy of no bytes");
    mock_vk_within(src, r->srcOffset, r->size);
    mock_vk_within(dst, r->dstOffset, r->size);
    mock_vk_check(src != dst || r->srcOffset + r->size <= r->dstOffset ||
                      r->dstOffset + r->size <= r->srcOffset,
                  "the copy of %llu bytes from %llu to %llu overlaps", mock_vk_u(r->size),
                  mock_vk_u(r->srcOffset), mock_vk_u(r->dstOffset));
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_COPY);
    made->u.copy.src = src;
    made->u.copy.dst = dst;
    made->u.copy.src_offset = r->srcOffset;
    made->u.copy.dst_offset = r->dstOffset;
    made->u.copy.size = r->size;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdCopyBuffer(VkCommandBuffer handle, VkBuffer from,
                                                       VkBuffer to, uint32_t count,
                                                       const VkBufferCopy *regions) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdCopyBuffer, VK_QUEUE_TRANSFER_BIT);
    mock_vk_buffer *src = mock_vk_take(c, from, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
    mock_vk_buffer *dst = mock_vk_take(c, to, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    mock_vk_check(count != 0, "no regions");
    for (uint32_t i = 0; i < count; i++) {
        mock_vk_record_region(c, src, dst, &regions[i]);
    }
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdFillBuffer(VkCommandBuffer handle, VkBuffer buffer,
                                                       VkDeviceSize offset, VkDeviceSize size,
                                                       uint32_t value) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdFillBuffer, VK_QUEUE_TRANSFER_BIT);
    mock_vk_buffer *dst = mock_vk_take(c, buffer, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    mock_vk_check(offset % 4 == 0 && size != 0 && offset < dst->size, "offset %llu",
                  mock_vk_u(offset));
    if (size == VK_WHOLE_SIZE) {
        size = (dst->size - offset) / 4 * 4;
    }
    mock_vk_check(size % 4 == 0, "size %llu", mock_vk_u(size));
    mock_vk_within(dst, offset, size);
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_FILL);
    made->u.copy.dst = dst;
    made->u.copy.dst_offset = offset;
    made->u.copy.size = size;
    made->u.copy.value = value;
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdUpdateBuffer(VkCommandBuffer handle, VkBuffer buffer,
                                                         VkDeviceSize offset, VkDeviceSize size,
                                                         const void *data) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdUpdateBuffer, VK_QUEUE_TRANSFER_BIT);
    mock_vk_buffer *dst = mock_vk_take(c, buffer, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    mock_vk_check(offset % 4 == 0 && size % 4 == 0 && size != 0 && size <= 65536,
                  "%llu bytes at %llu", mock_vk_u(size), mock_vk_u(offset));
    mock_vk_within(dst, offset, size);
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_UPDATE);
    made->u.copy.dst = dst;
    made->u.copy.dst_offset = offset;
    made->u.copy.size = size;
    made->u.copy.bytes = mock_vk_keep(c, data, (uint32_t)size);
    mock_vk_recorded(c);
}

/* ---- recording: barriers ---- */

static void mock_vk_stages_check(const mock_vk_commands *c, VkPipelineStageFlags stages,
                                 VkAccessFlags access) {
    const VkPipelineStageFlags any =
        VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT |
        VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT |
        VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkPipelineStageFlags compute =
        VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    VkPipelineStageFlags known = any | (c->pool->can & VK_QUEUE_COMPUTE_BIT ? compute : 0);
    VkAccessFlags covered = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    mock_vk_check(stages != 0, "no stages");
    mock_vk_check((c->pool->can & VK_QUEUE_GRAPHICS_BIT) || (stages & ~known) == 0,
                  "stages %#x on family %u", (unsigned)stages, c->pool->family);
    int all = (stages & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) != 0;
    if (all || (stages & VK_PIPELINE_STAGE_TRANSFER_BIT)) {
        covered |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    }
    if (all || (stages & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT)) {
        covered |= VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                   VK_ACCESS_UNIFORM_READ_BIT;
    }
    if (all || (stages & VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT)) {
        covered |= VK_ACCESS_INDIRECT_COMMAND_READ_BIT;
    }
    if (stages & VK_PIPELINE_STAGE_HOST_BIT) {
        covered |= VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
    }
    mock_vk_check((access & ~covered) == 0, "access %#x is not of stages %#x", (unsigned)access,
                  (unsigned)stages);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdPipelineBarrier(
    VkCommandBuffer handle, VkPipelineStageFlags src, VkPipelineStageFlags dst,
    VkDependencyFlags flags, uint32_t memory_count, const VkMemoryBarrier *memory,
    uint32_t buffer_count, const VkBufferMemoryBarrier *buffers, uint32_t image_count,
    const VkImageMemoryBarrier *images) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdPipelineBarrier, 0);
    (void)flags;
    (void)buffers;
    (void)images;
    mock_vk_check(buffer_count == 0 && image_count == 0, "the mock knows global barriers only");
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_BARRIER);
    made->u.barrier.src_stages = src;
    made->u.barrier.dst_stages = dst;
    for (uint32_t i = 0; i < memory_count; i++) {
        mock_vk_type(memory[i].sType, VK_STRUCTURE_TYPE_MEMORY_BARRIER);
        made->u.barrier.src_access |= memory[i].srcAccessMask;
        made->u.barrier.dst_access |= memory[i].dstAccessMask;
    }
    mock_vk_stages_check(c, src, made->u.barrier.src_access);
    mock_vk_stages_check(c, dst, made->u.barrier.dst_access);
    mock_vk_recorded(c);
}

/* The stages in which a command reads and writes memory; 0: none. */
static VkPipelineStageFlags mock_vk_stages_of(const mock_vk_command *command) {
    switch (command->op) {
    case MOCK_VK_OP_COPY:
    case MOCK_VK_OP_FILL:
    case MOCK_VK_OP_UPDATE:
    case MOCK_VK_OP_RESULTS:
        return VK_PIPELINE_STAGE_TRANSFER_BIT;
    case MOCK_VK_OP_DISPATCH:
        return VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
               (command->u.dispatch.indirect ? VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT : 0u);
    default:
        return 0;
    }
}

static int mock_vk_covers(VkPipelineStageFlags mask, VkPipelineStageFlags stages) {
    return (mask & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) || (stages & ~mask) == 0;
}

/* Does a barrier order all memory accesses of `before` and `after`? */
static int mock_vk_orders(const mock_vk_command *b, VkPipelineStageFlags before,
                          VkPipelineStageFlags after) {
    VkAccessFlags src = b->u.barrier.src_access, dst = b->u.barrier.dst_access;
    int reads = (dst & VK_ACCESS_MEMORY_READ_BIT) != 0;
    int both = reads && (dst & VK_ACCESS_MEMORY_WRITE_BIT);
    if (!mock_vk_covers(b->u.barrier.src_stages, before) ||
        !mock_vk_covers(b->u.barrier.dst_stages, after)) {
        return 0;
    }
    int shader = (before & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) != 0;
    int transfer = (before & VK_PIPELINE_STAGE_TRANSFER_BIT) != 0;
    int all = (src & VK_ACCESS_MEMORY_WRITE_BIT) != 0;
    if ((shader && !all && !(src & VK_ACCESS_SHADER_WRITE_BIT)) ||
        (transfer && !all && !(src & VK_ACCESS_TRANSFER_WRITE_BIT))) {
        return 0;
    }
    const VkAccessFlags shading = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    const VkAccessFlags copying = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    if ((after & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) && !both && (dst & shading) != shading) {
        return 0;
    }
    if ((after & VK_PIPELINE_STAGE_TRANSFER_BIT) && !both && (dst & copying) != copying) {
        return 0;
    }
    return !(after & VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT) || reads ||
           (dst & VK_ACCESS_INDIRECT_COMMAND_READ_BIT) != 0;
}

/* Numbers the groups between barriers that order what is before and after. */
static void mock_vk_find_groups(mock_vk_commands *c) {
    VkPipelineStageFlags before = 0;
    uint32_t group = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        mock_vk_command *command = &c->list[i];
        if (command->op == MOCK_VK_OP_BARRIER) {
            VkPipelineStageFlags after = 0;
            for (uint32_t k = i + 1; k < c->count && c->list[k].op != MOCK_VK_OP_BARRIER; k++) {
                after |= mock_vk_stages_of(&c->list[k]);
            }
            if (mock_vk_orders(command, before, after)) {
                group++;
                before = 0;
            }
        }
        command->group = group;
        before |= mock_vk_stages_of(command);
    }
}

static void mock_vk_check_edges(const mock_vk_commands *c) {
    int first = 0, last = 1;
    for (uint32_t i = 0; i < c->count; i++) {
        const mock_vk_command *command = &c->list[i];
        if (mock_vk_stages_of(command)) {
            mock_vk_check(first, "no barrier after earlier work before the first command");
            last = 0;
        }
        if (command->op == MOCK_VK_OP_BARRIER) {
            VkPipelineStageFlags src = command->u.barrier.src_stages;
            first |= (src & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) &&
                     (command->u.barrier.src_access & VK_ACCESS_MEMORY_WRITE_BIT);
            last |= (command->u.barrier.dst_stages & VK_PIPELINE_STAGE_HOST_BIT) &&
                    (command->u.barrier.dst_access & VK_ACCESS_HOST_READ_BIT) &&
                    (command->u.barrier.src_access & VK_ACCESS_MEMORY_WRITE_BIT);
        }
    }
    mock_vk_check(last, "no barrier to the host after the last command");
}

static int mock_vk_overlap(const mock_vk_buffer *a, uint64_t a_offset, uint64_t a_size,
                           const mock_vk_buffer *b, uint64_t b_offset, uint64_t b_size) {
    return a && b && a == b && a_offset < b_offset + b_size && b_offset < a_offset + a_size;
}

/* Copies and fills of one group that touch the same bytes. */
static void mock_vk_check_hazards(const mock_vk_commands *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        const mock_vk_command *a = &c->list[i];
        for (uint32_t k = i + 1; k < c->count && c->list[k].group == a->group; k++) {
            const mock_vk_command *b = &c->list[k];
            if (a->op > MOCK_VK_OP_UPDATE || b->op > MOCK_VK_OP_UPDATE) {
                continue;
            }
            uint64_t n = a->u.copy.size, m = b->u.copy.size;
            int bad = mock_vk_overlap(a->u.copy.dst, a->u.copy.dst_offset, n, b->u.copy.dst,
                                      b->u.copy.dst_offset, m) ||
                      mock_vk_overlap(a->u.copy.dst, a->u.copy.dst_offset, n, b->u.copy.src,
                                      b->u.copy.src_offset, m) ||
                      mock_vk_overlap(a->u.copy.src, a->u.copy.src_offset, n, b->u.copy.dst,
                                      b->u.copy.dst_offset, m);
            mock_vk_check(!bad, "commands %u and %u touch the same bytes without a barrier "
                          "between", i, k);
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkEndCommandBuffer(VkCommandBuffer handle) {
    VkResult failure = mock_vk_enter(MOCK_VK_EndCommandBuffer);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    uint32_t flags = c->o.device->desc->flags;
    mock_vk_inside(&c->pool->o, c->o.device->desc->linger);
    mock_vk_check(c->state == MOCK_VK_RECORDING, "it is not being recorded");
    mock_vk_check(c->labels == 0, "%d labels are not ended", c->labels);
    mock_vk_find_groups(c);
    if ((flags & MOCK_VK_CHECK_EDGES) &&
        !(c->usage & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)) {
        mock_vk_check_edges(c);
    }
    if (flags & MOCK_VK_CHECK_HAZARDS) {
        mock_vk_check_hazards(c);
    }
    c->state = failure == VK_SUCCESS ? MOCK_VK_EXECUTABLE : MOCK_VK_INVALID;
    mock_vk_outside(&c->pool->o);
    return failure;
}

/* ---- recording: dispatches ---- */

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdBindPipeline(VkCommandBuffer handle,
                                                         VkPipelineBindPoint point,
                                                         VkPipeline pipeline) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdBindPipeline, VK_QUEUE_COMPUTE_BIT);
    mock_vk_check(point == VK_PIPELINE_BIND_POINT_COMPUTE, "bind point %d", (int)point);
    c->pipeline = MOCK_VK_OBJECT(mock_vk_pipeline, pipeline, PIPELINE, c->o.device);
    mock_vk_ref(c, &c->pipeline->o);
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdPushConstants(VkCommandBuffer handle,
                                                          VkPipelineLayout layout,
                                                          VkShaderStageFlags stages,
                                                          uint32_t offset, uint32_t size,
                                                          const void *values) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdPushConstants, VK_QUEUE_COMPUTE_BIT);
    const mock_vk_layout *l =
        MOCK_VK_OBJECT(mock_vk_layout, layout, PIPELINE_LAYOUT, c->o.device);
    mock_vk_check(stages == VK_SHADER_STAGE_COMPUTE_BIT && offset % 4 == 0 && size % 4 == 0 &&
                      size != 0 && offset >= l->push_offset &&
                      offset + size <= l->push_offset + l->push_size &&
                      offset + size <= sizeof c->push,
                  "%u bytes at %u, the layout has %u at %u", size, offset, l->push_size,
                  l->push_offset);
    if (!c->push_layout || !mock_vk_same_push(c->push_layout, l)) {
        c->push_there = 0;
        c->push_layout = l;
    }
    memcpy(c->push + offset, values, size);
    for (uint32_t word = offset / 4; word < (offset + size) / 4; word++) {
        c->push_there |= (uint64_t)1 << word;
    }
    c->push_at = MOCK_VK_NONE;
    mock_vk_recorded(c);
}

static mock_vk_bound *mock_vk_bound_new(mock_vk_commands *c, const mock_vk_set_layout *layout) {
    mock_vk_grow((void **)&c->bounds, &c->bound_capacity, c->bound_count + 1, sizeof *c->bounds);
    mock_vk_bound *bound = &c->bounds[c->bound_count];
    memset(bound, 0, sizeof *bound);
    c->bound_at = c->bound_count++;
    c->set_layout = layout;
    return bound;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdBindDescriptorSets(
    VkCommandBuffer handle, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t first,
    uint32_t count, const VkDescriptorSet *sets, uint32_t dynamic_count,
    const uint32_t *dynamic_offsets) {
    mock_vk_commands *c =
        mock_vk_record(handle, MOCK_VK_CmdBindDescriptorSets, VK_QUEUE_COMPUTE_BIT);
    mock_vk_device *d = c->o.device;
    const mock_vk_layout *l = MOCK_VK_OBJECT(mock_vk_layout, layout, PIPELINE_LAYOUT, d);
    (void)dynamic_offsets;
    mock_vk_check(point == VK_PIPELINE_BIND_POINT_COMPUTE && first == 0 && count == 1 &&
                      dynamic_count == 0,
                  "sets %u to %u: the mock knows set 0", first, first + count);
    mock_vk_set *set = MOCK_VK_OBJECT(mock_vk_set, sets[0], DESCRIPTOR_SET, d);
    mock_vk_check(mock_vk_same_sets(l->set, set->layout), "the set is of another layout");
    mock_vk_bound *bound = mock_vk_bound_new(c, set->layout);
    bound->set = set;
    bound->version = set->version;
    mock_vk_ref(c, &set->o);
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdPushDescriptorSetKHR(
    VkCommandBuffer handle, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t set,
    uint32_t count, const VkWriteDescriptorSet *writes) {
    mock_vk_commands *c =
        mock_vk_record(handle, MOCK_VK_CmdPushDescriptorSetKHR, VK_QUEUE_COMPUTE_BIT);
    mock_vk_device *d = c->o.device;
    const mock_vk_layout *l = MOCK_VK_OBJECT(mock_vk_layout, layout, PIPELINE_LAYOUT, d);
    mock_vk_check(point == VK_PIPELINE_BIND_POINT_COMPUTE && set == 0 && l->set && l->set->push,
                  "set %u, or a layout that is not for it", set);
    if (!mock_vk_same_sets(c->set_layout, l->set)) {
        memset(c->push_set, 0, sizeof c->push_set);
    }
    for (uint32_t i = 0; i < count; i++) {
        mock_vk_descriptor made = mock_vk_describe(d, l->set, &writes[i]);
        c->push_set[writes[i].dstBinding] = made;
        mock_vk_ref(c, &made.buffer->o);
    }
    mock_vk_grow((void **)&c->pushed, &c->pushed_capacity, c->pushed_count + MOCK_VK_BINDINGS,
                 sizeof *c->pushed);
    memcpy(&c->pushed[c->pushed_count], c->push_set, sizeof c->push_set);
    mock_vk_bound_new(c, l->set)->pushed = c->pushed_count;
    c->pushed_count += MOCK_VK_BINDINGS;
    mock_vk_recorded(c);
}

/* Was everything bound and pushed that the pipeline reads? */
static void mock_vk_dispatch_check(const mock_vk_commands *c) {
    const mock_vk_pipeline *p = c->pipeline;
    mock_vk_check(p != NULL, "no pipeline is bound");
    const mock_vk_kernel_info *k = &p->kernel;
    uint32_t bytes = k->shader.by_pointer ? 8 : k->shader.uniform ? 0 : k->value_bytes;
    uint64_t part = 0;
    if (k->shader.part != MOCK_VK_NONE) { /* 3 x 3 words, 16 bytes apart */
        part = (uint64_t)0x777 << k->shader.part / 4;
    }
    mock_vk_check(!p->layout->set || (c->bound_at != MOCK_VK_NONE &&
                                      mock_vk_same_sets(c->set_layout, p->layout->set)),
                  "no descriptors of the pipeline's layout are bound");
    if (!k->fn || (bytes == 0 && part == 0)) {
        return;
    }
    uint32_t words = (bytes + 3) / 4;
    uint64_t wanted = (words < 64 ? ((uint64_t)1 << words) - 1 : UINT64_MAX) | part;
    mock_vk_check(c->push_layout && mock_vk_same_push(c->push_layout, p->layout) &&
                      (c->push_there & wanted) == wanted,
                  "%u bytes of push constants are read, not all were pushed", bytes);
}

static mock_vk_command *mock_vk_record_dispatch(mock_vk_commands *c) {
    mock_vk_dispatch_check(c);
    if (c->push_there && c->push_at == MOCK_VK_NONE) {
        c->push_at = mock_vk_keep(c, c->push, sizeof c->push);
    }
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_DISPATCH);
    made->u.dispatch.pipeline = c->pipeline;
    made->u.dispatch.push = c->push_there ? c->push_at : MOCK_VK_NONE;
    made->u.dispatch.bound = c->pipeline->layout->set ? c->bound_at : MOCK_VK_NONE;
    return made;
}

/* The part of a grid that starts at `base` keeps the limits. */
static void mock_vk_groups_check(const mock_vk_device *d, const uint32_t base[3],
                                 const uint32_t count[3]) {
    const uint32_t *most = d->desc->max_groups;
    int beyond = (d->desc->flags & MOCK_VK_BASE_BEYOND) != 0;
    for (uint32_t i = 0; i < 3; i++) {
        mock_vk_check(count[i] <= most[i] && (beyond || base[i] < most[i]) &&
                          (beyond || count[i] <= most[i] - base[i]),
                      "%u groups from %u on in dimension %u, the device has %u", count[i],
                      base[i], i, most[i]);
    }
}

static void mock_vk_dispatch_groups(mock_vk_commands *c, const uint32_t base[3],
                                    const uint32_t count[3]) {
    mock_vk_groups_check(c->o.device, base, count);
    mock_vk_command *made = mock_vk_record_dispatch(c);
    memcpy(made->u.dispatch.base, base, sizeof made->u.dispatch.base);
    memcpy(made->u.dispatch.count, count, sizeof made->u.dispatch.count);
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdDispatch(VkCommandBuffer handle, uint32_t x,
                                                     uint32_t y, uint32_t z) {
    const uint32_t base[3] = {0, 0, 0}, count[3] = {x, y, z};
    mock_vk_dispatch_groups(mock_vk_record(handle, MOCK_VK_CmdDispatch, VK_QUEUE_COMPUTE_BIT),
                            base, count);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdDispatchBase(VkCommandBuffer handle, uint32_t base_x,
                                                         uint32_t base_y, uint32_t base_z,
                                                         uint32_t x, uint32_t y, uint32_t z) {
    const uint32_t base[3] = {base_x, base_y, base_z}, count[3] = {x, y, z};
    mock_vk_commands *c =
        mock_vk_record(handle, MOCK_VK_CmdDispatchBase, VK_QUEUE_COMPUTE_BIT);
    mock_vk_check(!(base_x | base_y | base_z) || (c->pipeline && c->pipeline->based),
                  "the pipeline is not made for it");
    mock_vk_dispatch_groups(c, base, count);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdDispatchIndirect(VkCommandBuffer handle,
                                                             VkBuffer buffer,
                                                             VkDeviceSize offset) {
    mock_vk_commands *c =
        mock_vk_record(handle, MOCK_VK_CmdDispatchIndirect, VK_QUEUE_COMPUTE_BIT);
    mock_vk_buffer *b = mock_vk_take(c, buffer, VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT);
    mock_vk_check(offset % 4 == 0, "offset %llu", mock_vk_u(offset));
    mock_vk_within(b, offset, 12);
    mock_vk_command *made = mock_vk_record_dispatch(c);
    made->u.dispatch.indirect = b;
    made->u.dispatch.offset = offset;
    mock_vk_recorded(c);
}

/* ---- recording: queries and labels ---- */

static mock_vk_command *mock_vk_record_query(mock_vk_commands *c, mock_vk_op op,
                                             VkQueryPool handle, uint32_t first,
                                             uint32_t count) {
    mock_vk_query_pool *pool =
        MOCK_VK_OBJECT(mock_vk_query_pool, handle, QUERY_POOL, c->o.device);
    mock_vk_queries_within(pool, first, count);
    mock_vk_ref(c, &pool->o);
    mock_vk_command *made = mock_vk_add(c, op);
    made->u.query.pool = pool;
    made->u.query.first = first;
    made->u.query.count = count;
    c->queries++;
    return made;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdWriteTimestamp(VkCommandBuffer handle,
                                                           VkPipelineStageFlagBits stage,
                                                           VkQueryPool pool, uint32_t query) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdWriteTimestamp, 0);
    const mock_vk_physical *p = c->o.device->physical;
    mock_vk_check(p->families[c->pool->family].timestampValidBits != 0,
                  "family %u has no timestamps", c->pool->family);
    mock_vk_stages_check(c, stage, 0);
    mock_vk_check(!(stage & VK_PIPELINE_STAGE_HOST_BIT), "stage HOST");
    (void)mock_vk_record_query(c, MOCK_VK_OP_STAMP, pool, query, 1);
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdResetQueryPool(VkCommandBuffer handle,
                                                           VkQueryPool pool, uint32_t first,
                                                           uint32_t count) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdResetQueryPool,
                                         VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
    (void)mock_vk_record_query(c, MOCK_VK_OP_RESET, pool, first, count);
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdCopyQueryPoolResults(
    VkCommandBuffer handle, VkQueryPool pool, uint32_t first, uint32_t count, VkBuffer buffer,
    VkDeviceSize offset, VkDeviceSize stride, VkQueryResultFlags flags) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdCopyQueryPoolResults,
                                         VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
    uint64_t word = flags & VK_QUERY_RESULT_64_BIT ? 8 : 4;
    uint64_t each = flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT ? 2 * word : word;
    mock_vk_buffer *dst = mock_vk_take(c, buffer, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    mock_vk_command *made = mock_vk_record_query(c, MOCK_VK_OP_RESULTS, pool, first, count);
    mock_vk_check(offset % word == 0 && stride % word == 0 && (count == 1 || stride >= each),
                  "offset %llu, stride %llu", mock_vk_u(offset), mock_vk_u(stride));
    mock_vk_within(dst, offset, stride * (count - 1) + each);
    made->u.query.dst = dst;
    made->u.query.offset = offset;
    made->u.query.stride = stride;
    made->u.query.flags = flags;
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdBeginDebugUtilsLabelEXT(
    VkCommandBuffer handle, const VkDebugUtilsLabelEXT *info) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdBeginDebugUtilsLabelEXT, 0);
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT);
    mock_vk_check(info->pLabelName != NULL, "no name");
    (void)mock_vk_add(c, MOCK_VK_OP_LABEL);
    c->labels++;
    mock_vk_recorded(c);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkCmdEndDebugUtilsLabelEXT(VkCommandBuffer handle) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdEndDebugUtilsLabelEXT, 0);
    mock_vk_check(c->labels > 0, "no label was begun");
    (void)mock_vk_add(c, MOCK_VK_OP_LABEL);
    c->labels--;
    mock_vk_recorded(c);
}

#endif /* HCQ_TEST_MOCK_VULKAN_COMMANDS_H */
