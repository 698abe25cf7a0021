/* mock.h - a backend that has the shape of a GPU, written as a user would.

   Device addresses are not host pointers. Memory is not host visible unless
   asked for. All lanes of a device share one FIFO and one thread: a batch
   whose waits are not met blocks everything behind it, so a core that hands a
   wait over too early hangs here, and the watchdog says so. Encoded packets
   are copies and only those are executed, so a core that forgets to patch is
   caught. Nobody tells the core when something is done: it has to ask. Nothing
   of hcq runs inside a batch.

   Include after hcq.h with its implementation. */
#pragma once

#include "mock_base.h"

/* ---- encoding ---- */

/* What the encode function of a custom command, called when its turn comes, may do on
   this backend: `native` becomes one fill. */
static TEST_UNUSED void mock_custom_fill(void *native, uint64_t dst, uint64_t size,
                                         uint64_t value, uint32_t value_size) {
    hcq_packet *packet = (hcq_packet *)native;
    packet->kind = HCQ_COMMAND_FILL;
    packet->value_size = (uint16_t)value_size;
    packet->u.fill.dst = dst;
    packet->u.fill.size = size;
    packet->u.fill.value = value;
}

static hcq_packet *mock_packets(mock_list *list) { return (hcq_packet *)(void *)(list + 1); }

static size_t mock_list_bytes(uint32_t count) {
    return sizeof(mock_list) + count * sizeof(hcq_packet);
}

static hcq_result mock_encode(void *self, hcq_recording *recording) {
    mock_device *d = (mock_device *)self;
    __atomic_fetch_add(&d->control->encodes, 1, __ATOMIC_RELAXED);
    if (d->desc.no_encode) {
        return HCQ_OK;
    }
    mock_list *list = (mock_list *)mock_zeroed(d, mock_list_bytes(recording->count));
    if (!list) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    list->count = recording->count;
    for (uint32_t i = 0; i < list->count; i++) {
        mock_packets(list)[i] = recording->packets[i];
    }
    recording->encoded = list;
    return HCQ_OK;
}

/* Nobody may use what `count` counts; but lost batches may be on their way out, or dropped
   before they were given. */
static void mock_check_idle(mock_device *d, const uint32_t *count, const char *what) {
    for (int i = 0;; i++) {
        pthread_mutex_lock(&d->lock);
        uint32_t left = mock_is_lost(d) && !d->head ? 0 : *count;
        pthread_mutex_unlock(&d->lock);
        if (left == 0) {
            return;
        }
        if (!mock_is_lost(d) || i == 50000) {
            mock_abort(what, left, d->instance);
        }
        mock_sleep(100000);
    }
}

static hcq_result mock_patch(void *self, hcq_recording *recording, uint32_t index) {
    mock_device *d = (mock_device *)self;
    mock_list *list = (mock_list *)recording->encoded;
    if (!list) {
        return HCQ_OK;
    }
    if (mock_load(&d->control->refuse_patches)) {
        return HCQ_ERROR_LIMIT;
    }
    if (index >= list->count) {
        mock_abort("patch of a command that is not there: index, count", index, list->count);
    }
    mock_check_idle(d, &list->running, "patch of a version that still runs: batches, instance");
    mock_packets(list)[index] = recording->packets[index];
    return HCQ_OK;
}

static void mock_encode_free(void *self, hcq_recording *recording) {
    mock_device *d = (mock_device *)self;
    mock_list *list = (mock_list *)recording->encoded;
    if (list) {
        mock_check_idle(d, &list->running, "a version is freed that still runs: batches, instance");
        hcq_backend_free(d->device, list, mock_list_bytes(list->count));
        recording->encoded = NULL;
    }
}

/* ---- executing: engine thread only ---- */

/* Copies the argument block and turns its device addresses into pointers. */
static void mock_fetch_args(const mock_device *d, const mock_program *program, uint64_t address) {
    memcpy(program->block, mock_host(d, address, program->info.kernargs_size),
           program->info.kernargs_size);
    for (uint32_t i = 0; i < program->info.arg_count; i++) {
        unsigned char *at = program->block + program->info.offsets[i];
        uint64_t pointer;
        if (program->args[i] == HCQ_ARG_IN || program->args[i] == HCQ_ARG_OUT ||
            program->args[i] == HCQ_ARG_INOUT) {
            memcpy(&pointer, at, 8);
            pointer = (uint64_t)(uintptr_t)mock_host(d, pointer, 1);
            memcpy(at, &pointer, 8);
        }
    }
}

static void mock_exec(const mock_device *d, const hcq_packet *packet) {
    const mock_program *program = (const mock_program *)packet->u.exec.code;
    const uint32_t *grid = packet->u.exec.grid, *block = packet->u.exec.block;
    hcq_block place = {.user = program->user};
    if (HCQ_GRID_IS_EMPTY(grid)) {
        return;
    }
    if (program->info.kernargs_size) {
        mock_fetch_args(d, program, packet->u.exec.args);
    }
    place.grid = hcq_dim(grid[0], grid[1], grid[2]);
    place.block = hcq_dim(block[0], block[1], block[2]);
    for (place.id.z = 0; place.id.z < place.grid.z; place.id.z++) {
        for (place.id.y = 0; place.id.y < place.grid.y; place.id.y++) {
            for (place.id.x = 0; place.id.x < place.grid.x; place.id.x++) {
                program->fn(program->block, &place);
            }
        }
    }
}

static void mock_fill(const mock_device *d, const hcq_packet *packet) {
    unsigned char *dst = mock_host(d, packet->u.fill.dst, packet->u.fill.size);
    for (uint64_t i = 0; i < packet->u.fill.size; i += packet->value_size) {
        memcpy(dst + i, &packet->u.fill.value, packet->value_size); /* little endian */
    }
}

static void mock_execute(const mock_device *d, const hcq_packet *packet) {
    const uint64_t size = packet->u.copy.size, now = hcq_now_ns() + MOCK_CLOCK_OFFSET;
    switch (packet->kind) {
    case 0: /* a custom command that does nothing */
    case HCQ_COMMAND_BARRIER:
        break;
    case HCQ_COMMAND_EXEC:
        mock_exec(d, packet);
        break;
    case HCQ_COMMAND_COPY:
    case HCQ_COMMAND_WRITE:
        if (size) {
            memcpy(mock_host(d, packet->u.copy.dst, size), mock_host(d, packet->u.copy.src, size),
                   (size_t)size);
        }
        break;
    case HCQ_COMMAND_FILL:
        mock_fill(d, packet);
        break;
    case HCQ_COMMAND_TIMESTAMP:
        __atomic_store_n((uint64_t *)mock_host(d, packet->u.stamp.dst, 8), now, __ATOMIC_RELEASE);
        break;
    default:
        mock_abort("a command reached a batch that must not: kind, index", packet->kind,
                   packet->index);
    }
}

static void mock_wait_one(const mock_device *d, const hcq_lane_point *wait) {
    const mock_lane *lane = (const mock_lane *)wait->lane->native;
    uint64_t start = hcq_now_ns();
    if (wait->lane->self != d) {
        mock_abort("a wait for another device was handed over: instance, lane", d->instance,
                   wait->lane->index);
    }
    while (mock_load(&lane->counters[wait->counter]) < wait->value) {
        if (hcq_now_ns() - start > MOCK_WATCHDOG_NS) {
            mock_abort("the FIFO waits for a counter of this lane: value, lane", wait->value,
                       wait->lane->index);
        }
        mock_sleep(50000);
    }
}

/* Calls the user's function, which may call hcq, and does what it wants. */
static hcq_result mock_custom(const mock_device *d, const hcq_packet *packet) {
    hcq_packet fill;
    memset(&fill, 0, sizeof fill);
    hcq_backend_callback(1);
    hcq_result result = packet->u.custom.encode_fn(packet->u.custom.type->user, &fill,
                                                   packet->u.custom.payload);
    hcq_backend_callback(0);
    if (result < 0) {
        return HCQ_ERROR_HOST;
    }
    mock_execute(d, &fill);
    return HCQ_OK;
}

/* Up to the command that fails. */
static void mock_run_batch(const mock_device *d, const mock_batch *batch) {
    const hcq_batch *of = &batch->of;
    const hcq_packet *packets = batch->list      ? mock_packets(batch->list)
                                : of->recording ? of->recording->packets : NULL;
    const hcq_packet *failed = NULL;
    for (uint32_t i = 0; i < of->wait_count; i++) {
        mock_wait_one(d, &batch->waits[i]);
    }
    if (of->result != HCQ_OK) {
        return;
    }
    hcq_result result = hcq_backend_job_result(of->job);
    for (uint32_t i = 0; result == HCQ_OK && i < of->wait_count; i++) {
        result = hcq_backend_wait_result(&batch->waits[i]);
    }
    for (uint32_t i = of->first; packets && result == HCQ_OK && i < of->first + of->count; i++) {
        if (packets[i].kind != HCQ_COMMAND_CUSTOM) {
            mock_execute(d, &packets[i]);
            continue;
        }
        result = mock_custom(d, &packets[i]);
        failed = result == HCQ_OK ? NULL : &of->recording->packets[i];
    }
    if (result != HCQ_OK) {
        hcq_backend_job_fail(of->job, &of->done, result, failed, NULL, 0);
    }
}

/* Counts a batch, before and behind it, where what it uses must stay. */
static void mock_use(const hcq_batch *batch, mock_list *list, uint32_t by) {
    ((mock_lane *)batch->done.lane->native)->used[batch->done.counter] += by;
    for (uint32_t i = 0; i < batch->wait_count; i++) {
        const hcq_lane_point *wait = &batch->waits[i];
        ((mock_lane *)wait->lane->native)->used[wait->counter] += by;
    }
    if (list) {
        list->running += by;
    }
}

/* Takes the head off and, unless the device is gone, raises its counter. */
static void mock_retire(mock_device *d, mock_batch *batch, int raise_counter) {
    const hcq_lane_point done = batch->of.done;
    mock_lane *lane = (mock_lane *)done.lane->native;
    mock_use(&batch->of, batch->list, (uint32_t)-1);
    d->head = batch->next;
    batch->next = d->pool;
    d->pool = batch;
    if (raise_counter) {
        __atomic_store_n(&lane->counters[done.counter], done.value, __ATOMIC_RELEASE);
    }
}

static void mock_engine(void *user) {
    mock_device *d = (mock_device *)user;
    pthread_mutex_lock(&d->lock);
    while (d->head || !d->stop) {
        mock_batch *batch = d->head;
        if (!batch) {
            pthread_cond_wait(&d->bell, &d->lock);
            continue;
        }
        pthread_mutex_unlock(&d->lock);
        if (batch->of.prepared && !mock_is_lost(d)) {
            __atomic_store_n(&d->lost, 1, __ATOMIC_RELEASE);
            hcq_backend_lost(d->device, HCQ_ERROR_LOST, "mockQueueSubmit", MOCK_NATIVE_ERROR);
        }
        int lost = mock_is_lost(d);
        if (!lost) {
            mock_run_batch(d, batch);
        }
        pthread_mutex_lock(&d->lock);
        mock_retire(d, batch, !lost);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- submitting ---- */

/* The core's promises about counters, waits and ranges. */
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
    if (batch->wait_count > MOCK_WAITS) {
        mock_abort("more waits than counters: waits, counters", batch->wait_count, MOCK_WAITS);
    }
}

static hcq_result mock_submit(void *self, hcq_lane *lane, hcq_batch *source) {
    mock_device *d = (mock_device *)self;
    mock_lane *native = (mock_lane *)lane->native;
    uint64_t call = __atomic_add_fetch(&d->control->submits, 1, __ATOMIC_ACQ_REL);
    if (mock_is_lost(d)) {
        return HCQ_ERROR_LOST;
    }
    if (mock_load(&d->control->refuse_at) == call) {
        return HCQ_ERROR_NATIVE;
    }
    mock_batch_check(native, source);
    pthread_mutex_lock(&d->lock);
    int full = d->desc.room && native->used[0] + native->used[1] >= d->desc.room;
    pthread_mutex_unlock(&d->lock);
    if (full) {
        void *taken = mock_zeroed(d, sizeof *source);
        if (!taken) {
            return HCQ_ERROR_OUT_OF_MEMORY;
        }
        hcq_backend_free(d->device, taken, sizeof *source);
        d->desc.room++;
    }
    source->prepared = mock_load(&d->control->lose_at) == call ? d : NULL;
    pthread_mutex_lock(&d->lock);
    native->promised[source->done.counter] = source->done.value;
    mock_use(source, source->recording ? (mock_list *)source->recording->encoded : NULL, 1);
    pthread_mutex_unlock(&d->lock);
    return HCQ_NOT_READY; /* mock_give is the doorbell */
}

/* Takes one batch, however many there are. */
static uint32_t mock_give(void *self, const hcq_batch *batches, uint32_t count) {
    mock_device *d = (mock_device *)self;
    (void)count;
    pthread_mutex_lock(&d->lock);
    mock_batch *batch = d->pool ? d->pool : (mock_batch *)calloc(1, sizeof *batch);
    d->pool = batch->next;
    batch->next = NULL;
    batch->of = *batches;
    batch->of.waits = batch->waits;
    for (uint32_t i = 0; i < batches->wait_count; i++) {
        batch->waits[i] = batches->waits[i];
    }
    batch->list = batches->recording ? (mock_list *)batches->recording->encoded : NULL;
    *(d->head ? &d->tail->next : &d->head) = batch;
    d->tail = batch;
    pthread_cond_signal(&d->bell);
    pthread_mutex_unlock(&d->lock);
    return 1;
}

static uint64_t mock_completed(void *self, hcq_lane *lane, uint32_t counter) {
    (void)self;
    return mock_load(&((const mock_lane *)lane->native)->counters[counter]);
}

static hcq_result mock_wait(void *self, hcq_lane *lane, uint32_t counter, uint64_t value,
                            uint64_t timeout_ns, int serves) {
    mock_device *d = (mock_device *)self;
    uint64_t start = hcq_now_ns();
    while (mock_completed(d, lane, counter) < value) {
        if (mock_is_lost(d)) {
            return HCQ_ERROR_LOST;
        }
        if (hcq_now_ns() - start >= timeout_ns ||
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

static void mock_counter_reset(void *self, hcq_lane *lane, uint32_t counter) {
    mock_device *d = (mock_device *)self;
    mock_lane *native = (mock_lane *)lane->native;
    mock_check_idle(d, &native->used[counter],
                    "a counter is reset that queued work uses: batches, instance");
    pthread_mutex_lock(&d->lock);
    native->promised[counter] = 0;
    __atomic_store_n(&native->counters[counter], 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
}

static hcq_result mock_clock(void *self, hcq_clock *clock) {
    (void)self;
    clock->host_ns = hcq_now_ns();
    clock->device_ns = clock->host_ns + MOCK_CLOCK_OFFSET;
    clock->error_ns = 0;
    return HCQ_OK;
}

/* ---- driver ---- */

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
        infos[i].id = 0x4d0c4b00ull + i;
        infos[i].compute_lanes = 1;
        infos[i].copy_lanes = 1;
        infos[i].features = HCQ_FEATURE_COPY_LANE;
    }
    return MOCK_ORDINALS;
}

/* ---- device ---- */

static void mock_report(const mock_device *d, uint32_t ordinal, const hcq_device_desc *desc,
                        hcq_backend_caps *caps) {
    memset(caps, 0, sizeof *caps);
    snprintf(caps->name, sizeof caps->name, "mock %u", ordinal);
    caps->compute_lanes = desc->compute_lanes ? desc->compute_lanes : 1;
    caps->copy_lanes = desc->copy_lanes ? desc->copy_lanes : 1;
    if (desc->test->no_copy_lane) {
        caps->copy_lanes = 0;
    }
    caps->counter_limit = MOCK_COUNTER_LIMIT;
    caps->features = d->desc.map ? HCQ_FEATURE_MAP : 0;
    caps->features |= caps->copy_lanes ? HCQ_FEATURE_COPY_LANE : 0;
    caps->unlocked = 1; /* mock_memory_lock */
}

static void mock_device_free(mock_device *d) {
    while (d->pool) {
        mock_batch *batch = d->pool;
        d->pool = batch->next;
        free(batch);
    }
    pthread_cond_destroy(&d->bell);
    pthread_mutex_destroy(&d->lock);
    hcq_backend_free(d->device, d, sizeof *d);
}

static void mock_device_init(mock_device *d) {
    d->control = d->desc.control ? d->desc.control : &d->own_control;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->bell, NULL);
    d->thread.run_fn = mock_engine;
    d->thread.user = d;
    snprintf(d->thread.name, sizeof d->thread.name, "mock");
    d->instance = __atomic_add_fetch(&mock_instances, 1, __ATOMIC_RELAXED);
    d->next_address = (d->instance << 40) + 0x10000;
    for (int i = 0; i < 160; i++) {    /* for a burst, so that giving seldom has to allocate */
        mock_batch *batch = (mock_batch *)calloc(1, sizeof *batch);
        batch->next = d->pool;
        d->pool = batch;
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
    *d = (mock_device){.driver = owner, .device = device};
    if (desc && desc->backend_desc) {
        d->desc = *(const mock_desc *)desc->backend_desc;
    }
    mock_device_init(d);
    hcq_result result = hcq_sys_thread_start(&d->thread);
    if (result != HCQ_OK) {
        mock_device_free(d);
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
    pthread_mutex_lock(&mock_memory_lock);
    for (const mock_block *b = mock_blocks; b; b = b->next) {
        if (b->device == d) {
            mock_abort("closed with memory not given back: address, size", b->address, b->size);
        }
    }
    pthread_mutex_unlock(&mock_memory_lock);
    __atomic_sub_fetch(&mock_driver_check(d->driver)->open, 1, __ATOMIC_ACQ_REL);
    mock_device_free(d);
}

static hcq_result mock_lane_open(void *self, hcq_lane *lane) {
    lane->native = mock_zeroed((mock_device *)self, sizeof(mock_lane));
    return lane->native ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY;
}

static void mock_lane_close(void *self, hcq_lane *lane) {
    mock_device *d = (mock_device *)self;
    mock_lane *native = (mock_lane *)lane->native;
    for (int i = 0; i < 2; i++) {
        mock_check_idle(d, &native->used[i], "a lane is closed that has work: batches, instance");
    }
    hcq_backend_free(d->device, native, sizeof *native);
    lane->native = NULL;
}

static hcq_result mock_query(void *self, uint32_t key, uint64_t *value) {
    *value = mock_load(&((const mock_device *)self)->control->encodes);
    return (int)key == MOCK_QUERY_ENCODES ? HCQ_OK : HCQ_ERROR_UNSUPPORTED;
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
    .statistics = mock_statistics,
    .encode = mock_encode,
    .patch = mock_patch,
    .encode_free = mock_encode_free,
    .submit = mock_submit,
    .give = mock_give,
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
