/* vulkan_commands.h - the mock of Vulkan: command pools, command buffers, queries,
   recording. */
#pragma once

#include "vulkan_pipelines.h"

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

static void mock_vk_query_pool_close(mock_vk_object *o) {
    free(((mock_vk_query_pool *)(void *)o)->queries);
}

static void mock_vk_query_pool_make(mock_vk_query_pool *pool, const VkQueryPoolCreateInfo *info) {
    pool->o.close = mock_vk_query_pool_close;
    pool->count = info->queryCount;
    pool->queries = calloc(pool->count, sizeof *pool->queries);
}

MOCK_VK_CREATE(QueryPool, mock_vk_query_pool, QUERY_POOL, mock_vk_query_pool_make)

static void mock_vk_queries_within(const mock_vk_query_pool *pool, uint32_t first,
                                   uint32_t count) {
    mock_vk_check(first < pool->count && count != 0 && count <= pool->count - first,
                  "queries %u to %u of %u", first, first + count, pool->count);
}

MOCK_VK_API(void, ResetQueryPool, VkDevice handle, VkQueryPool object, uint32_t first,
            uint32_t count) {
    (void)mock_vk_enter(MOCK_VK_ResetQueryPool);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_query_pool *pool = MOCK_VK_OBJECT(mock_vk_query_pool, object, QUERY_POOL, d);
    mock_vk_check((d->features & MOCK_VK_NO_HOST_RESET) != 0, "hostQueryReset is not enabled");
    mock_vk_queries_within(pool, first, count);
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = first; i < first + count; i++) {
        mock_vk_check(pool->queries[i].pending == 0 || mock_vk_is_lost(d),
                      "query %u is reset while pending batches use it", i);
        pool->queries[i].state = MOCK_VK_QUERY_RESET;
    }
    pthread_mutex_unlock(&d->lock);
}

/* Of one query, in 64 bits. */
MOCK_VK_API(VkResult, GetQueryPoolResults, VkDevice handle, VkQueryPool object, uint32_t first,
            uint32_t count, size_t size, void *out, VkDeviceSize stride, VkQueryResultFlags flags) {
    VkResult result = mock_vk_enter(MOCK_VK_GetQueryPoolResults);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_query_pool *pool = MOCK_VK_OBJECT(mock_vk_query_pool, object, QUERY_POOL, d);
    mock_vk_queries_within(pool, first, count);
    mock_vk_check(count == 1 && (flags & VK_QUERY_RESULT_64_BIT), "other results than hcq's");
    MOCK_VK_TRY(result);
    pthread_mutex_lock(&d->lock);
    const mock_vk_query *q = &pool->queries[first];
    mock_vk_check(q->state != MOCK_VK_QUERY_UNDEFINED, "query %u was never reset", first);
    while ((flags & VK_QUERY_RESULT_WAIT_BIT) && q->state != MOCK_VK_QUERY_WRITTEN &&
           !mock_vk_is_lost(d)) {
        mock_vk_check(q->pending != 0, "waits for a query that nothing pending writes");
        pthread_cond_wait(&d->bell, &d->lock);
    }
    if (q->state == MOCK_VK_QUERY_WRITTEN) {
        memcpy(out, &q->value, sizeof q->value);
    } else {
        result = mock_vk_is_lost(d) ? VK_ERROR_DEVICE_LOST : VK_NOT_READY;
    }
    pthread_mutex_unlock(&d->lock);
    return result;
}

/* ---- command buffers ---- */

typedef enum mock_vk_op {
    MOCK_VK_OP_COPY, MOCK_VK_OP_FILL, MOCK_VK_OP_DISPATCH, MOCK_VK_OP_BARRIER,
    MOCK_VK_OP_RESET, MOCK_VK_OP_STAMP, MOCK_VK_OP_RESULTS
} mock_vk_op;

enum { MOCK_VK_PUSH = 64 };            /* bytes of push constants that kernels read */

typedef struct mock_vk_command {
    mock_vk_op op;
    VkPipelineStageFlags stages;       /* in which it reads and writes memory; 0: none */
    uint32_t group;                    /* commands of one may run in any order */
    mock_vk_buffer *dst, *src;         /* a dispatch's groups are in src, if not in .count */
    uint64_t dst_offset, src_offset, size;
    uint32_t value;                    /* of a fill */
    mock_vk_pipeline *pipeline;
    uint32_t count[3];                 /* of groups */
    unsigned char push[MOCK_VK_PUSH];
    VkPipelineStageFlags src_stages, dst_stages; /* of a barrier */
    VkAccessFlags src_access, dst_access;
    mock_vk_query_pool *queries;
    uint32_t first, query_count;
} mock_vk_command;

typedef struct mock_vk_command_pool {
    mock_vk_object o;
    uint32_t family;
    VkQueueFlags can;                  /* transfer, too, where it is implied */
} mock_vk_command_pool;

typedef struct mock_vk_commands {
    mock_vk_object o;
    mock_vk_command_pool *pool;
    enum { MOCK_VK_INITIAL, MOCK_VK_RECORDING, MOCK_VK_EXECUTABLE, MOCK_VK_INVALID } state;
    VkCommandBufferUsageFlags usage;
    mock_vk_command *list;
    uint32_t count, capacity;
    mock_vk_object **refs;             /* what is used */
    uint32_t ref_count, ref_capacity;
    mock_vk_pipeline *pipeline;        /* what is bound now */
    unsigned char push[MOCK_VK_PUSH];
} mock_vk_commands;

/* Room for one more. */
static void mock_vk_grow(void *items, uint32_t *capacity, uint32_t count, size_t size) {
    void **all = items;
    if (count == *capacity) {
        *capacity = count ? count * 2 : 4;
        *all = realloc(*all, *capacity * size);
    }
}

static void mock_vk_commands_empty(mock_vk_commands *c) {
    c->state = MOCK_VK_INITIAL;
    c->count = c->ref_count = 0;
    c->pipeline = NULL;
    memset(c->push, 0xee, sizeof c->push); /* nobody has pushed them yet */
}

static void mock_vk_commands_close(mock_vk_object *o) {
    mock_vk_commands *c = (mock_vk_commands *)(void *)o;
    free(c->list);
    free(c->refs);
}

static void mock_vk_command_pool_make(mock_vk_command_pool *pool,
                                      const VkCommandPoolCreateInfo *info) {
    pool->family = info->queueFamilyIndex;
    pool->can = pool->o.device->physical->families[pool->family].queueFlags;
    if (pool->can & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT)) {
        pool->can |= VK_QUEUE_TRANSFER_BIT;
    }
}

MOCK_VK_CREATE(CommandPool, mock_vk_command_pool, COMMAND_POOL, mock_vk_command_pool_make)

/* One at a time, as hcq wants them, and so below. */
MOCK_VK_API(VkResult, AllocateCommandBuffers, VkDevice handle,
            const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_AllocateCommandBuffers);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_command_pool *pool =
        MOCK_VK_OBJECT(mock_vk_command_pool, info->commandPool, COMMAND_POOL, d);
    *out = VK_NULL_HANDLE;
    MOCK_VK_TRY(failure);
    mock_vk_inside(&pool->o, d->desc->linger);
    mock_vk_commands *c = mock_vk_new(d, &pool->o, MOCK_VK_KIND_COMMAND_BUFFER, sizeof *c);
    c->o.close = mock_vk_commands_close;
    c->pool = pool;
    mock_vk_outside(&pool->o);
    *out = (VkCommandBuffer)(uintptr_t)c;
    return VK_SUCCESS;
}

MOCK_VK_API(void, FreeCommandBuffers, VkDevice handle, VkCommandPool object, uint32_t count,
            const VkCommandBuffer *buffers) {
    (void)mock_vk_enter(MOCK_VK_FreeCommandBuffers);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_command_pool *pool = MOCK_VK_OBJECT(mock_vk_command_pool, object, COMMAND_POOL, d);
    mock_vk_commands *c = MOCK_VK_OBJECT(mock_vk_commands, buffers[0], COMMAND_BUFFER, d);
    mock_vk_inside(&pool->o, d->desc->linger);
    mock_vk_check(c->pool == pool, "the command buffer is of another pool");
    pthread_mutex_lock(&d->lock);
    mock_vk_destroy(&c->o);
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&pool->o);
}

/* ---- recording ---- */

static mock_vk_commands *mock_vk_commands_of(VkCommandBuffer handle) {
    return MOCK_VK_OBJECT(mock_vk_commands, handle, COMMAND_BUFFER, NULL);
}

MOCK_VK_API(VkResult, BeginCommandBuffer, VkCommandBuffer handle,
            const VkCommandBufferBeginInfo *info) {
    VkResult failure = mock_vk_enter(MOCK_VK_BeginCommandBuffer);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    mock_vk_device *d = c->o.device;
    mock_vk_inside(&c->pool->o, d->desc->linger);
    mock_vk_check(c->state != MOCK_VK_RECORDING, "it is being recorded");
    pthread_mutex_lock(&d->lock);
    mock_vk_unused(&c->o);
    mock_vk_commands_empty(c);
    if (failure == VK_SUCCESS) {
        c->state = MOCK_VK_RECORDING;
        c->usage = info->flags;
    }
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(&c->pool->o);
    return failure;
}

/* Every vkCmd begins with this. `can`: what one bit of its family must be able to. */
static mock_vk_commands *mock_vk_record(VkCommandBuffer handle, mock_vk_entry entry,
                                        VkQueueFlags can) {
    (void)mock_vk_enter(entry);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    mock_vk_inside(&c->pool->o, c->o.device->desc->linger);
    mock_vk_check(c->state == MOCK_VK_RECORDING, "the command buffer is not being recorded");
    mock_vk_check(can == 0 || (c->pool->can & can), "not on family %u", c->pool->family);
    mock_vk_outside(&c->pool->o);
    return c;
}

static mock_vk_command *mock_vk_add(mock_vk_commands *c, mock_vk_op op,
                                    VkPipelineStageFlags stages) {
    mock_vk_grow(&c->list, &c->capacity, c->count, sizeof *c->list);
    mock_vk_command *made = &c->list[c->count++];
    *made = (mock_vk_command){.op = op, .stages = stages};
    return made;
}

/* The commands use an object, unless one of the last did. */
static void mock_vk_ref(mock_vk_commands *c, mock_vk_object *o) {
    for (uint32_t i = c->ref_count > 8 ? c->ref_count - 8 : 0; i < c->ref_count; i++) {
        if (c->refs[i] == o) {
            return;
        }
    }
    mock_vk_grow(&c->refs, &c->ref_capacity, c->ref_count, sizeof *c->refs);
    c->refs[c->ref_count++] = o;
}

static mock_vk_buffer *mock_vk_take(mock_vk_commands *c, VkBuffer handle, uint64_t offset,
                                    uint64_t size) {
    mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, handle, BUFFER, c->o.device);
    mock_vk_check(b->memory && mock_vk_lives(&b->memory->o), "buffer #%u has no memory",
                  b->o.number);
    mock_vk_within(b, offset, size);
    mock_vk_ref(c, &b->o);
    return b;
}

MOCK_VK_API(void, CmdCopyBuffer, VkCommandBuffer handle, VkBuffer from, VkBuffer to, uint32_t count,
            const VkBufferCopy *regions) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdCopyBuffer, VK_QUEUE_TRANSFER_BIT);
    for (uint32_t i = 0; i < count; i++) {
        const VkBufferCopy *r = &regions[i];
        mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_COPY, VK_PIPELINE_STAGE_TRANSFER_BIT);
        made->src = mock_vk_take(c, from, r->srcOffset, r->size);
        made->dst = mock_vk_take(c, to, r->dstOffset, r->size);
        made->src_offset = r->srcOffset;
        made->dst_offset = r->dstOffset;
        made->size = r->size;
    }
}

MOCK_VK_API(void, CmdFillBuffer, VkCommandBuffer handle, VkBuffer buffer, VkDeviceSize offset,
            VkDeviceSize size, uint32_t value) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdFillBuffer, VK_QUEUE_TRANSFER_BIT);
    mock_vk_check(offset % 4 == 0 && size % 4 == 0, "%llu bytes at %llu", mock_vk_u(size),
                  mock_vk_u(offset));
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_FILL, VK_PIPELINE_STAGE_TRANSFER_BIT);
    made->dst = mock_vk_take(c, buffer, offset, size);
    made->dst_offset = offset;
    made->size = size;
    made->value = value;
}

/* ---- recording: barriers and groups ---- */

static void mock_vk_stages_check(const mock_vk_commands *c, VkPipelineStageFlags stages) {
    const VkPipelineStageFlags compute =
        VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    mock_vk_check((c->pool->can & VK_QUEUE_COMPUTE_BIT) || !(stages & compute),
                  "stages %#x on family %u", (unsigned)stages, c->pool->family);
}

MOCK_VK_API(void, CmdPipelineBarrier, VkCommandBuffer handle, VkPipelineStageFlags src,
            VkPipelineStageFlags dst, VkDependencyFlags flags, uint32_t memory_count,
            const VkMemoryBarrier *memory, uint32_t buffer_count,
            const VkBufferMemoryBarrier *buffers, uint32_t image_count,
            const VkImageMemoryBarrier *images) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdPipelineBarrier, 0);
    mock_vk_check(buffer_count == 0 && image_count == 0 && memory_count == 1,
                  "the mock knows global barriers only");
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_BARRIER, 0);
    made->src_stages = src;
    made->dst_stages = dst;
    made->src_access = memory->srcAccessMask;
    made->dst_access = memory->dstAccessMask;
    mock_vk_stages_check(c, src | dst);
}

static int mock_vk_covers(VkPipelineStageFlags mask, VkPipelineStageFlags stages) {
    return (mask & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) || (stages & ~mask) == 0;
}

/* Does a barrier order all memory accesses of `before` and `after`? */
static int mock_vk_orders(const mock_vk_command *b, VkPipelineStageFlags before,
                          VkPipelineStageFlags after) {
    const VkAccessFlags both = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    return mock_vk_covers(b->src_stages, before) && mock_vk_covers(b->dst_stages, after) &&
           (b->src_access & VK_ACCESS_MEMORY_WRITE_BIT) && (b->dst_access & both) == both;
}

/* Numbers the groups: between barriers that order what is before and after, and
   between commands that touch queries, which keep their place. */
static void mock_vk_find_groups(mock_vk_commands *c) {
    VkPipelineStageFlags before = 0;
    uint32_t group = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        mock_vk_command *command = &c->list[i];
        if (command->op == MOCK_VK_OP_BARRIER) {
            VkPipelineStageFlags after = 0;
            for (uint32_t k = i + 1; k < c->count && c->list[k].op != MOCK_VK_OP_BARRIER; k++) {
                after |= c->list[k].stages;
            }
            if (mock_vk_orders(command, before, after)) {
                group++;
                before = 0;
            }
        }
        group += command->queries != NULL;
        command->group = group;
        group += command->queries != NULL;
        before |= command->stages;
    }
}

/* What another submission may use begins after all that was before, and ends for
   the host. */
static void mock_vk_check_edges(const mock_vk_commands *c) {
    int first = 0, last = 1;
    for (uint32_t i = 0; i < c->count; i++) {
        const mock_vk_command *command = &c->list[i];
        if (command->stages) {
            mock_vk_check(first, "no barrier after earlier work before the first command");
            last = 0;
        }
        if (command->op == MOCK_VK_OP_BARRIER &&
            (command->src_access & VK_ACCESS_MEMORY_WRITE_BIT)) {
            first |= (command->src_stages & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) != 0;
            last |= (command->dst_stages & VK_PIPELINE_STAGE_HOST_BIT) &&
                    (command->dst_access & VK_ACCESS_HOST_READ_BIT);
        }
    }
    mock_vk_check(last, "no barrier to the host after the last command");
}

MOCK_VK_API(VkResult, EndCommandBuffer, VkCommandBuffer handle) {
    VkResult failure = mock_vk_enter(MOCK_VK_EndCommandBuffer);
    mock_vk_commands *c = mock_vk_commands_of(handle);
    mock_vk_inside(&c->pool->o, c->o.device->desc->linger);
    mock_vk_check(c->state == MOCK_VK_RECORDING, "it is not being recorded");
    mock_vk_find_groups(c);
    if (!(c->usage & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)) {
        mock_vk_check_edges(c);
    }
    c->state = failure == VK_SUCCESS ? MOCK_VK_EXECUTABLE : MOCK_VK_INVALID;
    mock_vk_outside(&c->pool->o);
    return failure;
}

/* ---- recording: dispatches ---- */

MOCK_VK_API(void, CmdBindPipeline, VkCommandBuffer handle, VkPipelineBindPoint point,
            VkPipeline pipeline) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdBindPipeline, VK_QUEUE_COMPUTE_BIT);
    c->pipeline = MOCK_VK_OBJECT(mock_vk_pipeline, pipeline, PIPELINE, c->o.device);
    mock_vk_ref(c, &c->pipeline->o);
}

MOCK_VK_API(void, CmdPushConstants, VkCommandBuffer handle, VkPipelineLayout layout,
            VkShaderStageFlags stages, uint32_t offset, uint32_t size, const void *values) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdPushConstants, VK_QUEUE_COMPUTE_BIT);
    const mock_vk_layout *l = MOCK_VK_OBJECT(mock_vk_layout, layout, PIPELINE_LAYOUT, c->o.device);
    mock_vk_check(offset + size <= l->push_bytes, "%u bytes at %u, the layout has %u", size,
                  offset, l->push_bytes);
    if (offset + size <= sizeof c->push) {
        memcpy(c->push + offset, values, size);
    }
}

MOCK_VK_API(void, CmdBindDescriptorSets, VkCommandBuffer handle, VkPipelineBindPoint point,
            VkPipelineLayout layout, uint32_t first, uint32_t count, const VkDescriptorSet *sets,
            uint32_t dynamic_count, const uint32_t *dynamic_offsets) {
    mock_vk_commands *c =
        mock_vk_record(handle, MOCK_VK_CmdBindDescriptorSets, VK_QUEUE_COMPUTE_BIT);
    mock_vk_ref(c, MOCK_VK_OBJECT(mock_vk_object, sets[0], DESCRIPTOR_SET, c->o.device));
}

static mock_vk_command *mock_vk_record_dispatch(mock_vk_commands *c) {
    mock_vk_check(c->pipeline != NULL, "no pipeline is bound");
    mock_vk_command *made = mock_vk_add(c, MOCK_VK_OP_DISPATCH,
                                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    made->pipeline = c->pipeline;
    memcpy(made->push, c->push, sizeof made->push);
    return made;
}

static void mock_vk_groups_check(const mock_vk_device *d, const uint32_t count[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        mock_vk_check(count[i] <= d->desc->max_groups[i],
                      "%u groups in dimension %u, the device has %u", count[i], i,
                      d->desc->max_groups[i]);
    }
}

MOCK_VK_API(void, CmdDispatch, VkCommandBuffer handle, uint32_t x, uint32_t y, uint32_t z) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdDispatch, VK_QUEUE_COMPUTE_BIT);
    const uint32_t count[3] = {x, y, z};
    mock_vk_groups_check(c->o.device, count);
    memcpy(mock_vk_record_dispatch(c)->count, count, sizeof count);
}

MOCK_VK_API(void, CmdDispatchIndirect, VkCommandBuffer handle, VkBuffer buffer,
            VkDeviceSize offset) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdDispatchIndirect, VK_QUEUE_COMPUTE_BIT);
    mock_vk_command *made = mock_vk_record_dispatch(c);
    mock_vk_check(offset % 4 == 0, "offset %llu", mock_vk_u(offset));
    made->src = mock_vk_take(c, buffer, offset, 12);
    made->stages |= VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT;
    made->src_offset = offset;
}

/* ---- recording: queries and labels ---- */

static mock_vk_command *mock_vk_record_query(mock_vk_commands *c, mock_vk_op op,
                                             VkQueryPool handle, uint32_t first,
                                             uint32_t count) {
    mock_vk_command *made = mock_vk_add(
        c, op, op == MOCK_VK_OP_RESULTS ? VK_PIPELINE_STAGE_TRANSFER_BIT : 0);
    made->queries = MOCK_VK_OBJECT(mock_vk_query_pool, handle, QUERY_POOL, c->o.device);
    made->first = first;
    made->query_count = count;
    mock_vk_queries_within(made->queries, first, count);
    mock_vk_ref(c, &made->queries->o);
    return made;
}

MOCK_VK_API(void, CmdWriteTimestamp, VkCommandBuffer handle, VkPipelineStageFlagBits stage,
            VkQueryPool pool, uint32_t query) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdWriteTimestamp, 0);
    const mock_vk_physical *p = c->o.device->physical;
    mock_vk_check(p->families[c->pool->family].timestampValidBits != 0,
                  "family %u has no timestamps", c->pool->family);
    mock_vk_stages_check(c, stage);
    (void)mock_vk_record_query(c, MOCK_VK_OP_STAMP, pool, query, 1);
}

MOCK_VK_API(void, CmdResetQueryPool, VkCommandBuffer handle, VkQueryPool pool, uint32_t first,
            uint32_t count) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdResetQueryPool,
                                         VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
    (void)mock_vk_record_query(c, MOCK_VK_OP_RESET, pool, first, count);
}

MOCK_VK_API(void, CmdCopyQueryPoolResults, VkCommandBuffer handle, VkQueryPool pool, uint32_t first,
            uint32_t count, VkBuffer buffer, VkDeviceSize offset, VkDeviceSize stride,
            VkQueryResultFlags flags) {
    mock_vk_commands *c = mock_vk_record(handle, MOCK_VK_CmdCopyQueryPoolResults,
                                         VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
    mock_vk_command *made = mock_vk_record_query(c, MOCK_VK_OP_RESULTS, pool, first, count);
    mock_vk_check(offset % 8 == 0 && stride % 8 == 0, "offset %llu, stride %llu",
                  mock_vk_u(offset), mock_vk_u(stride));
    made->dst = mock_vk_take(c, buffer, offset, stride * (count - 1) + 8);
    made->dst_offset = offset;
    made->size = stride;
    mock_vk_check(flags & VK_QUERY_RESULT_64_BIT, "other results than hcq's");
}

MOCK_VK_API(void, CmdBeginDebugUtilsLabelEXT, VkCommandBuffer handle,
            const VkDebugUtilsLabelEXT *info) {
    (void)mock_vk_record(handle, MOCK_VK_CmdBeginDebugUtilsLabelEXT, 0);
}

MOCK_VK_API(void, CmdEndDebugUtilsLabelEXT, VkCommandBuffer handle) {
    (void)mock_vk_record(handle, MOCK_VK_CmdEndDebugUtilsLabelEXT, 0);
}
