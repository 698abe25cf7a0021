/* mock.h - a backend that has the shape of a GPU, written as a user would.

   Device addresses are not host pointers. Memory is not host visible unless
   asked for. All lanes of a device share one FIFO and one thread: a batch
   whose waits are not met blocks everything behind it, so a core that hands a
   wait over too early hangs here, and the watchdog says so. Commands are
   encoded into a list of the mock's own and only that list is executed, so a
   core that forgets to patch is caught. Nobody tells the core when something
   is done: it has to ask. Nothing of hcq runs inside a batch.

   Include after hcq.h with its implementation. */
#ifndef HCQ_TEST_MOCK_H
#define HCQ_TEST_MOCK_H

#include "mock_base.h"

/* ---- executing: engine thread only ---- */

/* Copies the argument block and turns its device addresses into pointers. */
static void mock_fetch_args(mock_device *d, const mock_program *program, uint64_t address,
                            unsigned char *block) {
    memcpy(block, mock_host(d, address, program->info.kernargs_size),
           program->info.kernargs_size);
    for (uint32_t i = 0; i < program->info.arg_count; i++) {
        uint32_t kind = program->args[i];
        if (kind == HCQ_ARG_IN || kind == HCQ_ARG_OUT || kind == HCQ_ARG_INOUT) {
            uint64_t pointer;
            memcpy(&pointer, block + program->info.offsets[i], 8);
            pointer = (uint64_t)(uintptr_t)mock_host(d, pointer, 1);
            memcpy(block + program->info.offsets[i], &pointer, 8);
        }
    }
}

static void mock_exec(mock_device *d, const mock_command *command) {
    const mock_program *program = command->program;
    union { unsigned char bytes[1024]; long double align; } small;
    unsigned char *block = small.bytes;
    hcq_block place;
    if (command->grid.x == 0 || command->grid.y == 0 || command->grid.z == 0) {
        return;
    }
    if (program->info.kernargs_size > sizeof small) {
        block = (unsigned char *)malloc(program->info.kernargs_size);
    }
    if (program->info.kernargs_size) {
        mock_fetch_args(d, program, command->src, block);
    }
    place.grid = command->grid;
    place.block = command->block;
    for (place.id.z = 0; place.id.z < place.grid.z; place.id.z++) {
        for (place.id.y = 0; place.id.y < place.grid.y; place.id.y++) {
            for (place.id.x = 0; place.id.x < place.grid.x; place.id.x++) {
                program->fn(block, &place);
            }
        }
    }
    if (block != small.bytes) {
        free(block);
    }
}

static void mock_fill(mock_device *d, const mock_command *command) {
    unsigned char *dst = mock_host(d, command->dst, command->size);
    for (uint64_t i = 0; i < command->size; i += command->value_size) {
        memcpy(dst + i, &command->value, command->value_size); /* little endian */
    }
}

static void mock_execute(mock_device *d, const mock_command *command) {
    uint64_t now;
    switch (command->kind) {
    case 0:
    case HCQ_COMMAND_BARRIER:
        break;
    case HCQ_COMMAND_EXEC:
        mock_exec(d, command);
        break;
    case HCQ_COMMAND_COPY:
        if (command->size) {
            memcpy(mock_host(d, command->dst, command->size),
                   mock_host(d, command->src, command->size), (size_t)command->size);
        }
        break;
    case HCQ_COMMAND_FILL:
        mock_fill(d, command);
        break;
    case HCQ_COMMAND_WRITE:
        memcpy(mock_host(d, command->dst, command->value_size), &command->value,
               command->value_size);
        break;
    case HCQ_COMMAND_TIMESTAMP:
        now = hcq_sys_now_ns() + MOCK_CLOCK_OFFSET;
        memcpy(mock_host(d, command->dst, 8), &now, 8);
        break;
    default:
        mock_abort("a command reached a batch that must not: kind, size", command->kind,
                   command->size);
    }
}

/* The FIFO's head is blocked: says by what, then gives up. */
static void mock_blocked(mock_device *d, const hcq_lane_point *wait) {
    static char text[65536];
    hcq_device_dump(d->device, text, sizeof text);
    fprintf(stderr, "\nMOCK: the FIFO is blocked, device %llu:\n%s\n",
            (unsigned long long)d->instance, text);
    mock_abort("a batch waits for a counter of this lane: value, lane", wait->value,
               wait->lane->index);
}

static void mock_wait_one(mock_device *d, const hcq_lane_point *wait) {
    const mock_lane *lane = (const mock_lane *)wait->lane->native;
    uint64_t start = hcq_sys_now_ns();
    if (wait->lane->self != d) {
        mock_abort("a wait for another device was handed over: instance, lane", d->instance,
                   wait->lane->index);
    }
    while (mock_load(&lane->counters[wait->counter]) < wait->value) {
        if (hcq_sys_now_ns() - start > MOCK_WATCHDOG_NS) {
            mock_blocked(d, wait);
        }
        mock_sleep(50000);
    }
}

/* Calls the user's function, which may call hcq, and does what it wants. */
static hcq_result mock_custom(mock_device *d, const mock_command *command) {
    const hcq_packet *packet = command->custom;
    mock_command fill;
    memset(&fill, 0, sizeof fill);
    hcq_backend_callback(1);
    hcq_result result = packet->u.custom.encode_fn(&fill, packet->u.custom.payload,
                                                   packet->u.custom.type->user);
    hcq_backend_callback(0);
    if (result < 0) {
        return HCQ_ERROR_HOST;
    }
    mock_execute(d, &fill);
    return HCQ_OK;
}

/* Up to the command that fails, which goes to `failed`. */
static hcq_result mock_run_commands(mock_device *d, const mock_batch *batch,
                                    const hcq_packet **failed) {
    const mock_list *list = batch->list ? batch->list : &batch->own;
    hcq_result result = hcq_backend_job_result(batch->job);
    for (uint32_t i = 0; result == HCQ_OK && i < batch->wait_count; i++) {
        result = hcq_backend_wait_result(&batch->waits[i]);
    }
    for (uint32_t i = 0; result == HCQ_OK && i < batch->count; i++) {
        const mock_command *command = &list->commands[batch->first + i];
        if (command->kind != HCQ_COMMAND_CUSTOM) {
            mock_execute(d, command);
            continue;
        }
        result = mock_custom(d, command);
        *failed = result == HCQ_OK ? NULL : command->custom;
    }
    return result;
}

static void mock_run_batch(mock_device *d, mock_batch *batch) {
    const hcq_packet *failed = NULL;
    for (uint32_t i = 0; i < batch->wait_count; i++) {
        mock_wait_one(d, &batch->waits[i]);
    }
    hcq_result result = mock_run_commands(d, batch, &failed);
    if (result != HCQ_OK) {
        hcq_backend_job_fail(batch->job, &batch->done, result, failed);
    }
}

/* Takes the head off and, unless the device is gone, raises its counter. */
static void mock_retire(mock_device *d, mock_batch *batch, int raise_counter) {
    mock_lane *lane = (mock_lane *)batch->done.lane->native;
    d->head = batch->next;
    if (!d->head) {
        d->tail = NULL;
    }
    if (batch->list) {
        batch->list->running--;
    }
    lane->queued--;
    batch->next = d->pool;
    d->pool = batch;
    if (raise_counter) {
        __atomic_store_n(&lane->counters[batch->done.counter], batch->done.value,
                         __ATOMIC_RELEASE);
    }
}

static void mock_engine(void *user) {
    mock_device *d = (mock_device *)user;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!d->head && !d->stop) {
            pthread_cond_wait(&d->bell, &d->lock);
        }
        mock_batch *batch = d->head;
        if (!batch) {
            break;
        }
        int lost = (int)__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
        pthread_mutex_unlock(&d->lock);
        if (!lost && batch->lose) {
            __atomic_store_n(&d->lost, 1, __ATOMIC_RELEASE);
            hcq_backend_lost(d->device, HCQ_ERROR_LOST, "mockQueueSubmit", MOCK_NATIVE_ERROR);
            lost = 1;
        }
        if (!lost) {
            mock_run_batch(d, batch);
        }
        pthread_mutex_lock(&d->lock);
        mock_retire(d, batch, !lost);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- submitting ---- */

/* Makes `*list` hold `count` of `size` bytes; what it held is of no use any more. */
static hcq_result mock_reserve(mock_device *d, void **list, uint32_t *capacity, uint32_t count,
                               size_t size) {
    if (count <= *capacity) {
        return HCQ_OK;
    }
    void *larger = hcq_backend_alloc(d->device, count * size, 16);
    if (!larger) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    if (*list) {
        hcq_backend_free(d->device, *list, *capacity * size);
    }
    *list = larger;
    *capacity = count;
    return HCQ_OK;
}

static hcq_result mock_batch_reserve(mock_device *d, mock_batch *batch, uint32_t waits,
                                     uint32_t commands) {
    void *points = batch->waits, *own = batch->own.commands;
    hcq_result result = mock_reserve(d, &points, &batch->wait_capacity, waits,
                                     sizeof *batch->waits);
    batch->waits = (hcq_lane_point *)points;
    if (result == HCQ_OK) {
        result = mock_reserve(d, &own, &batch->own_capacity, commands,
                              sizeof *batch->own.commands);
        batch->own.commands = (mock_command *)own;
    }
    return result;
}

static void mock_batch_free(mock_device *d, mock_batch *batch) {
    if (batch->waits) {
        hcq_backend_free(d->device, batch->waits, batch->wait_capacity * sizeof *batch->waits);
    }
    if (batch->own.commands) {
        hcq_backend_free(d->device, batch->own.commands,
                         batch->own_capacity * sizeof *batch->own.commands);
    }
    hcq_backend_free(d->device, batch, sizeof *batch);
}

/* A batch from the pool; a fresh one with room for a few waits. */
static mock_batch *mock_batch_get(mock_device *d) {
    pthread_mutex_lock(&d->lock);
    mock_batch *batch = d->pool;
    if (batch) {
        d->pool = batch->next;
    }
    pthread_mutex_unlock(&d->lock);
    if (batch) {
        return batch;
    }
    batch = (mock_batch *)hcq_backend_alloc(d->device, sizeof *batch, 16);
    if (!batch) {
        return NULL;
    }
    memset(batch, 0, sizeof *batch);
    if (mock_batch_reserve(d, batch, 8, 0) != HCQ_OK) {
        hcq_backend_free(d->device, batch, sizeof *batch);
        return NULL;
    }
    return batch;
}

static hcq_result mock_batch_fill(mock_device *d, mock_batch *batch, const hcq_batch *source) {
    const hcq_recording *recording = source->recording;
    int encoded = recording && recording->encoded;
    uint32_t own = recording && !encoded ? source->count : 0;
    hcq_result result = mock_batch_reserve(d, batch, source->wait_count, own);
    if (result != HCQ_OK) {
        return result;
    }
    batch->next = NULL;
    batch->list = encoded ? (mock_list *)recording->encoded : NULL;
    batch->first = encoded ? source->first : 0;
    batch->count = recording ? source->count : 0;
    batch->wait_count = source->wait_count;
    batch->done = source->done;
    batch->job = source->job;
    batch->lose = 0;
    for (uint32_t i = 0; i < source->wait_count; i++) {
        batch->waits[i] = source->waits[i];
    }
    for (uint32_t i = 0; i < own; i++) {
        mock_translate(&recording->packets[source->first + i], &batch->own.commands[i]);
    }
    return HCQ_OK;
}

/* The core's promises about counters and ranges. */
static void mock_batch_check(const mock_lane *lane, const hcq_batch *batch) {
    if (batch->done.counter > 1 || batch->done.value > MOCK_COUNTER_LIMIT) {
        mock_abort("a counter beyond its limit: counter, value", batch->done.counter,
                   batch->done.value);
    }
    if (batch->done.value <= lane->promised[batch->done.counter]) {
        mock_abort("a counter does not rise: new, old", batch->done.value,
                   lane->promised[batch->done.counter]);
    }
    if (batch->recording && (uint64_t)batch->first + batch->count > batch->recording->count) {
        mock_abort("packets out of range: first, count", batch->first, batch->count);
    }
}

static hcq_result mock_submit(void *self, hcq_lane *lane, const hcq_batch *source) {
    mock_device *d = (mock_device *)self;
    mock_lane *native = (mock_lane *)lane->native;
    uint64_t call = __atomic_add_fetch(&d->control->submits, 1, __ATOMIC_ACQ_REL);
    if (__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE)) {
        return HCQ_ERROR_LOST;
    }
    if (mock_load(&d->control->refuse_at) == call) {
        return HCQ_ERROR_NATIVE;
    }
    mock_batch_check(native, source);
    mock_batch *batch = mock_batch_get(d);
    if (!batch) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    hcq_result result = mock_batch_fill(d, batch, source);
    batch->lose = mock_load(&d->control->lose_at) == call;
    pthread_mutex_lock(&d->lock);
    if (result != HCQ_OK) {
        batch->next = d->pool;
        d->pool = batch;
    } else {
        native->promised[source->done.counter] = source->done.value;
        native->queued++;
        if (batch->list) {
            batch->list->running++;
        }
        if (d->pending_tail) {
            d->pending_tail->next = batch;
        } else {
            d->pending = batch;
        }
        d->pending_tail = batch;
    }
    pthread_mutex_unlock(&d->lock);
    return result == HCQ_OK ? HCQ_NOT_READY : result; /* mock_flush is the doorbell */
}

/* The doorbell: the hardware does not see what was not flushed. */
static void mock_flush(void *self) {
    mock_device *d = (mock_device *)self;
    pthread_mutex_lock(&d->lock);
    if (d->pending) {
        if (d->tail) {
            d->tail->next = d->pending;
        } else {
            d->head = d->pending;
        }
        d->tail = d->pending_tail;
        d->pending = NULL;
        d->pending_tail = NULL;
        pthread_cond_signal(&d->bell);
    }
    pthread_mutex_unlock(&d->lock);
}

static uint64_t mock_completed(void *self, hcq_lane *lane, uint32_t counter) {
    (void)self;
    return mock_load(&((const mock_lane *)lane->native)->counters[counter]);
}

static hcq_result mock_wait(void *self, hcq_lane *lane, uint32_t counter, uint64_t value,
                            uint64_t timeout_ns, int serves) {
    mock_device *d = (mock_device *)self;
    const mock_lane *native = (const mock_lane *)lane->native;
    uint64_t start = hcq_sys_now_ns();
    while (mock_load(&native->counters[counter]) < value) {
        if (__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE)) {
            return HCQ_ERROR_LOST;
        }
        if (hcq_sys_now_ns() - start >= timeout_ns ||
            (serves && __atomic_exchange_n(&d->kicked, 0, __ATOMIC_ACQ_REL))) {
            return HCQ_TIMEOUT;
        }
        mock_sleep(30000);
    }
    return HCQ_OK;
}

static void mock_kick(void *self) {
    __atomic_store_n(&((mock_device *)self)->kicked, 1, __ATOMIC_RELEASE);
}

static int mock_uses(const mock_batch *batch, const hcq_lane *lane, uint32_t counter) {
    for (; batch; batch = batch->next) {
        if (batch->done.lane == lane && batch->done.counter == counter) {
            return 1;
        }
        for (uint32_t i = 0; i < batch->wait_count; i++) {
            if (batch->waits[i].lane == lane && batch->waits[i].counter == counter) {
                return 1;
            }
        }
    }
    return 0;
}

static void mock_counter_reset(void *self, hcq_lane *lane, uint32_t counter) {
    mock_device *d = (mock_device *)self;
    mock_lane *native = (mock_lane *)lane->native;
    pthread_mutex_lock(&d->lock);
    int used = mock_uses(d->head, lane, counter) || mock_uses(d->pending, lane, counter);
    native->promised[counter] = 0;
    __atomic_store_n(&native->counters[counter], 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    if (used) {
        mock_abort("a counter is reset that queued work uses: counter, lane", counter,
                   lane->index);
    }
}

static hcq_result mock_clock(void *self, hcq_clock *clock) {
    (void)self;
    clock->host_ns = hcq_sys_now_ns();
    clock->device_ns = clock->host_ns + MOCK_CLOCK_OFFSET;
    clock->error_ns = 0;
    return HCQ_OK;
}

/* ---- driver ---- */

#define MOCK_DRIVER_MAGIC 0x6d6f636bu

static hcq_result mock_driver_create(const hcq_memory_hooks *memory, void **driver) {
    mock_driver *made = (mock_driver *)memory->alloc_fn(memory->user, sizeof *made, 16);
    if (!made) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    made->magic = MOCK_DRIVER_MAGIC;
    made->open = 0;
    __atomic_add_fetch(&mock_drivers, 1, __ATOMIC_ACQ_REL);
    *driver = made;
    return HCQ_OK;
}

static mock_driver *mock_driver_check(void *driver) {
    mock_driver *d = (mock_driver *)driver;
    if (!d || d->magic != MOCK_DRIVER_MAGIC) {
        mock_abort("not a living driver", (uint64_t)(uintptr_t)driver, 0);
    }
    return d;
}

static void mock_driver_destroy(const hcq_memory_hooks *memory, void *driver) {
    mock_driver *d = mock_driver_check(driver);
    uint32_t open = __atomic_load_n(&d->open, __ATOMIC_ACQUIRE);
    if (open) {
        mock_abort("a driver is destroyed while devices are open: devices", open, 0);
    }
    d->magic = 0;
    memory->free_fn(memory->user, d, sizeof *d);
    __atomic_sub_fetch(&mock_drivers, 1, __ATOMIC_ACQ_REL);
}

static uint32_t mock_list_devices(void *driver, hcq_device_info *infos, uint32_t capacity) {
    mock_driver_check(driver);
    for (uint32_t i = 0; i < MOCK_ORDINALS && i < capacity; i++) {
        snprintf(infos[i].name, sizeof infos[i].name, "mock %u", i);
        snprintf(infos[i].path, sizeof infos[i].path, "mock/slot/%u", i);
        infos[i].id = MOCK_ID(i);
        infos[i].compute_lanes = 1;
        infos[i].copy_lanes = 1;
        infos[i].features = HCQ_FEATURE_COPY_LANE;
    }
    return MOCK_ORDINALS;
}

/* ---- device ---- */

static hcq_result mock_enlist(mock_device *d) {
    hcq_result result = HCQ_ERROR_LIMIT;
    pthread_mutex_lock(&mock_memory_lock);
    d->instance = ++mock_instances;
    for (uint32_t i = 0; i < MOCK_DEVICES; i++) {
        if (!mock_devices[i]) {
            mock_devices[i] = d;
            result = HCQ_OK;
            break;
        }
    }
    pthread_mutex_unlock(&mock_memory_lock);
    d->next_address = (d->instance << 40) + 0x10000;
    return result;
}

static void mock_delist(mock_device *d) {
    pthread_mutex_lock(&mock_memory_lock);
    for (uint32_t i = 0; i < MOCK_DEVICES; i++) {
        if (mock_devices[i] == d) {
            mock_devices[i] = NULL;
        }
    }
    pthread_mutex_unlock(&mock_memory_lock);
}

static void mock_report(const mock_device *d, uint32_t ordinal, const hcq_device_desc *desc,
                        hcq_backend_caps *caps) {
    memset(caps, 0, sizeof *caps);
    snprintf(caps->name, sizeof caps->name, "mock %u", ordinal);
    caps->compute_lanes = desc && desc->compute_lanes ? desc->compute_lanes : 1;
    caps->copy_lanes = desc && desc->copy_lanes ? desc->copy_lanes : 1;
    if (desc && desc->flags & HCQ_DEVICE_NO_COPY_LANE) {
        caps->copy_lanes = 0;
    }
    caps->counter_limit = MOCK_COUNTER_LIMIT;
    caps->features = d->desc.map ? HCQ_FEATURE_MAP : 0;
    caps->features |= caps->copy_lanes ? HCQ_FEATURE_COPY_LANE : 0;
    caps->runs_host = 0;
    caps->unlocked = 1; /* mock_memory_lock */
}

/* Enough batches for a burst, so that submitting seldom has to allocate. */
static hcq_result mock_pool_fill(mock_device *d) {
    mock_batch *list = NULL;
    hcq_result result = HCQ_OK;
    int count = d->desc.pool ? d->desc.pool : 160;
    for (int i = 0; i < count && result == HCQ_OK; i++) {
        mock_batch *batch = mock_batch_get(d);
        result = batch ? mock_batch_reserve(d, batch, 8, 8) : HCQ_ERROR_OUT_OF_MEMORY;
        if (batch) {
            batch->next = list;
            list = batch;
        }
    }
    d->pool = list;
    return result;
}

static void mock_pool_empty(mock_device *d) {
    while (d->pool) {
        mock_batch *next = d->pool->next;
        mock_batch_free(d, d->pool);
        d->pool = next;
    }
}

static hcq_result mock_open(void *driver, hcq_device *device, uint32_t ordinal,
                            const hcq_device_desc *desc, hcq_backend_caps *caps, void **self) {
    mock_driver *owner = mock_driver_check(driver);
    if (ordinal >= MOCK_ORDINALS) {
        return HCQ_ERROR_NO_DEVICE;
    }
    mock_device *d = (mock_device *)hcq_backend_alloc(device, sizeof *d, 16);
    if (!d) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    memset(d, 0, sizeof *d);
    d->driver = owner;
    d->device = device;
    if (desc && desc->backend_desc) {
        d->desc = *(const mock_desc *)desc->backend_desc;
    }
    d->control = d->desc.control ? d->desc.control : &d->own_control;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->bell, NULL);
    d->thread.run_fn = mock_engine;
    d->thread.user = d;
    snprintf(d->thread.name, sizeof d->thread.name, "mock");
    hcq_result result = mock_enlist(d);
    if (result == HCQ_OK) {
        result = mock_pool_fill(d);
    }
    if (result == HCQ_OK) {
        result = hcq_sys_thread_start(&d->thread);
    }
    if (result != HCQ_OK) {
        mock_delist(d);
        mock_pool_empty(d);
        hcq_backend_free(device, d, sizeof *d);
        return result;
    }
    mock_report(d, ordinal, desc, caps);
    __atomic_add_fetch(&owner->open, 1, __ATOMIC_ACQ_REL);
    *self = d;
    return HCQ_OK;
}

static void mock_close(void *self) {
    mock_device *d = (mock_device *)self;
    pthread_mutex_lock(&d->lock);
    d->stop = 1;
    pthread_cond_signal(&d->bell);
    pthread_mutex_unlock(&d->lock);
    hcq_sys_thread_join(&d->thread);
    mock_delist(d);
    if (d->block_count) {
        mock_abort("closed with memory not given back: blocks, instance", d->block_count,
                   d->instance);
    }
    mock_pool_empty(d);
    if (d->blocks) {
        hcq_backend_free(d->device, d->blocks, d->block_capacity * sizeof *d->blocks);
    }
    pthread_cond_destroy(&d->bell);
    pthread_mutex_destroy(&d->lock);
    mock_driver_check(d->driver);
    __atomic_sub_fetch(&d->driver->open, 1, __ATOMIC_ACQ_REL);
    hcq_backend_free(d->device, d, sizeof *d);
}

static hcq_result mock_lane_open(void *self, hcq_lane *lane) {
    mock_device *d = (mock_device *)self;
    lane->native = hcq_backend_alloc(d->device, sizeof(mock_lane), 16);
    if (!lane->native) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    memset(lane->native, 0, sizeof(mock_lane));
    return HCQ_OK;
}

static void mock_lane_close(void *self, hcq_lane *lane) {
    mock_device *d = (mock_device *)self;
    mock_lane *native = (mock_lane *)lane->native;
    mock_flush(d);
    mock_check_idle(d, &native->queued, "a lane is closed that has work: batches, instance");
    hcq_backend_free(d->device, native, sizeof *native);
    lane->native = NULL;
}

static hcq_result mock_query(void *self, hcq_query key, uint64_t *value) {
    const mock_device *d = (const mock_device *)self;
    if ((int)key != MOCK_QUERY_ENCODES) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    *value = mock_load(&d->control->encodes);
    return HCQ_OK;
}

static const hcq_backend mock_backend = {
    .version = HCQ_BACKEND_VERSION,
    .name = "MOCK",
    .full_name = "GPU-shaped mock",
    .driver_create = mock_driver_create,
    .driver_destroy = mock_driver_destroy,
    .devices = mock_list_devices,
    .open = mock_open,
    .close = mock_close,
    .lane_open = mock_lane_open,
    .lane_close = mock_lane_close,
    .query = mock_query,
    .alloc = mock_alloc,
    .dealloc = mock_dealloc,
    .map = mock_map,
    .program_create = mock_program_create,
    .program_destroy = mock_program_destroy,
    .encode = mock_encode,
    .patch = mock_patch,
    .encode_free = mock_encode_free,
    .submit = mock_submit,
    .flush = mock_flush,
    .completed = mock_completed,
    .wait = mock_wait,
    .kick = mock_kick,
    .counter_reset = mock_counter_reset,
    .clock = mock_clock,
};

/* Makes "MOCK" known to the default registry. */
static TEST_UNUSED hcq_result mock_register(void) {
    return hcq_registry_register(NULL, &mock_backend);
}

#endif /* HCQ_TEST_MOCK_H */
