/* mock_base.h - part of mock.h: its objects, memory, programs, encoded commands. */
#ifndef HCQ_TEST_MOCK_BASE_H
#define HCQ_TEST_MOCK_BASE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef TEST_UNUSED
#define TEST_UNUSED __attribute__((unused))
#endif

/* ---- options ---- */

/* Shared with a test that wants to steer or to count; used atomically. */
typedef struct mock_control {
    uint64_t refuse_at;                /* this submit call is refused, from 1 [none] */
    uint64_t lose_at;                  /* this batch loses the device, from 1 [none] */
    uint64_t submits;
    uint64_t encodes;
} mock_control;

typedef struct mock_desc {
    int map;                           /* buffers of other mock devices can be used */
    int pool;                          /* batches made at open [160] */
    int no_encode;                     /* leave encode, patch and encode_free unused */
    mock_control *control;
} mock_desc;

enum { MOCK_QUERY_ENCODES = 1000 };    /* HCQ_QUERY_BACKEND */

enum { MOCK_ORDINALS = 4, MOCK_DEVICES = 64, MOCK_COUNTER_LIMIT = 200 };
#define MOCK_WATCHDOG_NS 20000000000ull /* a blocked FIFO aborts after this */

#define MOCK_ID(ordinal) (0x4d0c4b00ull + (ordinal)) /* a device's own id */

#define MOCK_ALIAS (1ull << 60)        /* set in addresses of another device's memory */
#define MOCK_CLOCK_OFFSET 7777777777ull /* the device's clock is not the host's */
#define MOCK_NATIVE_ERROR (-1234)

/* ---- objects ---- */

typedef struct mock_block {
    uint64_t address, size;
    unsigned char *host;
} mock_block;

typedef struct mock_program {
    hcq_cpu_fn fn;
    void *library;
    uint32_t args[HCQ_MAX_ARGS];
    hcq_program_info info;
} mock_program;

typedef struct mock_command {
    uint32_t kind;                     /* hcq_command_kind, 0 = nothing */
    uint32_t value_size;
    uint64_t dst, src, size, value;
    const mock_program *program;
    const hcq_packet *custom;
    hcq_dims grid, block;
} mock_command;

typedef struct mock_list {
    mock_command *commands;
    uint32_t count;
    uint32_t running;                  /* batches that use it, under the FIFO's lock */
} mock_list;

typedef struct mock_lane {
    uint64_t counters[2];              /* atomic */
    uint64_t promised[2];              /* highest value in the FIFO or done */
    uint32_t queued;                   /* batches in the FIFO */
} mock_lane;

typedef struct mock_batch {
    struct mock_batch *next;
    mock_list *list;                   /* encoded, or NULL: `own` */
    uint32_t first, count;
    mock_list own;
    uint32_t own_capacity;
    hcq_lane_point *waits;
    uint32_t wait_count, wait_capacity;
    hcq_lane_point done;
    hcq_job *job;
    int lose;
} mock_batch;

/* What a GPU's library would be: nothing but what has to be true of it. */
typedef struct mock_driver {
    uint32_t magic;
    uint32_t open;                     /* devices, atomic */
} mock_driver;

typedef struct mock_device {
    mock_driver *driver;
    hcq_device *device;
    mock_desc desc;
    mock_control own_control;
    mock_control *control;
    uint64_t instance;
    uint64_t next_address;
    mock_block *blocks;                /* sorted by address, under mock_memory_lock */
    uint32_t block_count, block_capacity;
    pthread_mutex_t lock;              /* the FIFO's */
    pthread_cond_t bell;
    mock_batch *head, *tail;           /* what the hardware sees */
    mock_batch *pending, *pending_tail; /* submitted, not flushed */
    mock_batch *pool;
    hcq_sys_thread thread;
    int stop;
    uint32_t lost;                     /* atomic */
    uint32_t kicked;                   /* atomic */
} mock_device;

static pthread_mutex_t mock_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static mock_device *mock_devices[MOCK_DEVICES];
static uint64_t mock_instances;
static uint32_t mock_drivers;          /* living, atomic */

static uint64_t mock_load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void mock_sleep(long ns) {
    struct timespec pause;
    pause.tv_sec = 0;
    pause.tv_nsec = ns;
    nanosleep(&pause, NULL);
}

/* A broken promise of the core: nothing after it means anything. */
static void mock_abort(const char *what, uint64_t a, uint64_t b) {
    fprintf(stderr, "\nMOCK: %s (%#llx, %#llx)\n", what, (unsigned long long)a,
            (unsigned long long)b);
    fflush(stderr);
    abort();
}

/* ---- memory: a fake address space with a lookup ---- */

static unsigned char *mock_find(const mock_device *d, uint64_t address, uint64_t size) {
    uint32_t low = 0, high = d->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (d->blocks[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return NULL;
    }
    const mock_block *block = &d->blocks[low - 1];
    uint64_t offset = address - block->address;
    if (offset > block->size || size > block->size - offset) {
        return NULL;
    }
    return block->host + offset;
}

/* Gives the host pointer behind `size` bytes at a device address. */
static unsigned char *mock_host(mock_device *d, uint64_t address, uint64_t size) {
    unsigned char *host = NULL;
    pthread_mutex_lock(&mock_memory_lock);
    if (!(address & MOCK_ALIAS)) {
        host = mock_find(d, address, size);
    } else if (d->desc.map) {
        for (uint32_t i = 0; i < MOCK_DEVICES && !host; i++) {
            if (mock_devices[i] && mock_devices[i] != d) {
                host = mock_find(mock_devices[i], address & ~MOCK_ALIAS, size);
            }
        }
    }
    pthread_mutex_unlock(&mock_memory_lock);
    if (!host) {
        mock_abort("device address fault: address, size", address, size);
    }
    return host;
}

static hcq_result mock_blocks_grow(mock_device *d) {
    uint32_t capacity = d->block_capacity ? d->block_capacity * 2 : 64;
    mock_block *blocks = (mock_block *)hcq_backend_alloc(d->device, capacity * sizeof *blocks, 16);
    if (!blocks) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    if (d->blocks) {
        memcpy(blocks, d->blocks, d->block_count * sizeof *blocks);
        hcq_backend_free(d->device, d->blocks, d->block_capacity * sizeof *blocks);
    }
    d->blocks = blocks;
    d->block_capacity = capacity;
    return HCQ_OK;
}

/* No more than this, so that large memory can be sparse. */
static void mock_soil(unsigned char *host, int value, uint64_t size) {
    memset(host, value, size < 1 << 20 ? (size_t)size : 1 << 20);
}

static hcq_result mock_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    mock_device *d = (mock_device *)self;
    if (size > (1ull << 38)) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    unsigned char *host = (unsigned char *)hcq_backend_alloc(d->device, (size_t)size, 64);
    if (!host) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    if (flags & HCQ_ZEROED) {
        memset(host, 0, (size_t)size);
    } else {
        mock_soil(host, 0xA5, size);
    }
    pthread_mutex_lock(&mock_memory_lock);
    hcq_result result = HCQ_OK;
    if (d->block_count == d->block_capacity) {
        result = mock_blocks_grow(d);
    }
    if (result == HCQ_OK) {
        /* Addresses only rise and are never used twice: the table stays sorted
           and a stale address faults. */
        mock_block *block = &d->blocks[d->block_count++];
        block->address = d->next_address;
        block->size = size;
        block->host = host;
        d->next_address += (size + 8191) & ~4095ull;
        memory->address = block->address;
        memory->host = flags & HCQ_HOST_VISIBLE ? host : NULL;
        memory->size = size;
        memory->native = host;
    }
    pthread_mutex_unlock(&mock_memory_lock);
    if (result != HCQ_OK) {
        hcq_backend_free(d->device, host, (size_t)size);
    }
    return result;
}

static void mock_dealloc(void *self, hcq_memory *memory) {
    mock_device *d = (mock_device *)self;
    unsigned char *host = NULL;
    pthread_mutex_lock(&mock_memory_lock);
    for (uint32_t i = 0; i < d->block_count; i++) {
        if (d->blocks[i].address == memory->address) {
            host = d->blocks[i].host;
            memmove(&d->blocks[i], &d->blocks[i + 1],
                    (d->block_count - i - 1) * sizeof d->blocks[0]);
            d->block_count--;
            break;
        }
    }
    pthread_mutex_unlock(&mock_memory_lock);
    if (!host) {
        mock_abort("dealloc of unknown memory: address, size", memory->address, memory->size);
    }
    mock_soil(host, 0xDD, memory->size);
    hcq_backend_free(d->device, host, (size_t)memory->size);
}

static hcq_result mock_map(void *self, const struct hcq_backend *owner_backend,
                           void *owner_self, const hcq_memory *memory, uint64_t *address) {
    mock_device *d = (mock_device *)self;
    (void)owner_self;
    if (!d->desc.map || strcmp(owner_backend->name, "MOCK") != 0) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    if (!memory) {
        return HCQ_OK;
    }
    *address = memory->address | MOCK_ALIAS;
    return HCQ_OK;
}

/* ---- programs ---- */

static hcq_result mock_program_create(void *self, const hcq_program_desc *desc,
                                      const hcq_program_info *info, void **code) {
    mock_device *d = (mock_device *)self;
    mock_program *program = (mock_program *)hcq_backend_alloc(d->device, sizeof *program, 16);
    if (!program) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    memset(program, 0, sizeof *program);
    program->fn = desc->cpu;
    program->info = *info;
    memcpy(program->args, desc->args, sizeof program->args);
    if (!program->fn && desc->library && desc->symbol) {
        program->library = hcq_sys_library_open(desc->library);
        if (program->library) {
            void *symbol = hcq_sys_library_symbol(program->library, desc->symbol);
            memcpy(&program->fn, &symbol, sizeof symbol);
        }
    }
    if (!program->fn) {
        if (desc->library) {
            hcq_backend_log(d->device, HCQ_ERROR_NO_KERNEL, "mock: library '%s', symbol '%s'",
                            desc->library, desc->symbol ? desc->symbol : "");
        }
        if (program->library) {
            hcq_sys_library_close(program->library);
        }
        hcq_backend_free(d->device, program, sizeof *program);
        return HCQ_ERROR_NO_KERNEL;
    }
    *code = program;
    return HCQ_OK;
}

static void mock_program_destroy(void *self, void *code) {
    mock_device *d = (mock_device *)self;
    mock_program *program = (mock_program *)code;
    if (program->library) {
        hcq_sys_library_close(program->library);
    }
    hcq_backend_free(d->device, program, sizeof *program);
}

/* ---- encoding ---- */

/* What the encode function of a custom command, called when its turn comes, may do on
   this backend: `native` becomes one fill. */
static TEST_UNUSED void mock_custom_fill(void *native, uint64_t dst, uint64_t size,
                                         uint64_t value, uint32_t value_size) {
    mock_command *command = (mock_command *)native;
    command->kind = HCQ_COMMAND_FILL;
    command->dst = dst;
    command->size = size;
    command->value = value;
    command->value_size = value_size;
}

static hcq_dims mock_dims(const uint32_t size[3]) { return hcq_dim(size[0], size[1], size[2]); }

/* Turns a packet into a command of the mock's own. */
static void mock_translate(const hcq_packet *packet, mock_command *command) {
    memset(command, 0, sizeof *command);
    command->kind = packet->kind;
    command->value_size = packet->value_size;
    switch (packet->kind) {
    case HCQ_COMMAND_EXEC:
        command->program = (const mock_program *)packet->u.exec.code;
        command->src = packet->u.exec.args;
        command->grid = mock_dims(packet->u.exec.grid);
        command->block = mock_dims(packet->u.exec.block);
        break;
    case HCQ_COMMAND_COPY:
        command->dst = packet->u.copy.dst;
        command->src = packet->u.copy.src;
        command->size = packet->u.copy.size;
        break;
    case HCQ_COMMAND_FILL:
        command->dst = packet->u.fill.dst;
        command->value = packet->u.fill.value;
        command->size = packet->u.fill.size;
        break;
    case HCQ_COMMAND_TIMESTAMP:
        command->dst = packet->u.stamp.dst;
        break;
    case HCQ_COMMAND_WRITE:
        command->dst = packet->u.write.dst;
        command->value = packet->u.write.value;
        break;
    case HCQ_COMMAND_CUSTOM:
        command->custom = packet;
        break;
    default:                           /* cut points: refused if they are in a batch */
        break;
    }
}

static hcq_result mock_encode(void *self, hcq_recording *recording) {
    mock_device *d = (mock_device *)self;
    __atomic_fetch_add(&d->control->encodes, 1, __ATOMIC_RELAXED);
    if (d->desc.no_encode) {
        return HCQ_OK;
    }
    size_t bytes = sizeof(mock_list) + recording->count * sizeof(mock_command);
    mock_list *list = (mock_list *)hcq_backend_alloc(d->device, bytes, 16);
    if (!list) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    list->commands = (mock_command *)(list + 1);
    list->count = recording->count;
    list->running = 0;
    for (uint32_t i = 0; i < recording->count; i++) {
        mock_translate(&recording->packets[i], &list->commands[i]);
    }
    recording->encoded = list;
    return HCQ_OK;
}

/* Nobody may use what `count` counts; but lost batches may be on their way out. */
static void mock_check_idle(mock_device *d, const uint32_t *count, const char *what) {
    uint32_t left = 1;
    for (int i = 0; i < 50000 && left; i++) {
        pthread_mutex_lock(&d->lock);
        left = *count;
        pthread_mutex_unlock(&d->lock);
        if (!__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE)) {
            break;
        }
        if (left) {
            mock_sleep(100000);
        }
    }
    if (left) {
        mock_abort(what, left, d->instance);
    }
}

static hcq_result mock_patch(void *self, hcq_recording *recording, uint32_t index) {
    mock_device *d = (mock_device *)self;
    mock_list *list = (mock_list *)recording->encoded;
    if (!list) {
        return HCQ_OK;
    }
    if (index >= list->count) {
        mock_abort("patch of a command that is not there: index, count", index, list->count);
    }
    mock_check_idle(d, &list->running, "patch of a version that still runs: batches, instance");
    mock_translate(&recording->packets[index], &list->commands[index]);
    return HCQ_OK;
}

static void mock_encode_free(void *self, hcq_recording *recording) {
    mock_device *d = (mock_device *)self;
    mock_list *list = (mock_list *)recording->encoded;
    if (list) {
        mock_check_idle(d, &list->running, "a version is freed that still runs: batches, instance");
        hcq_backend_free(d->device, list, sizeof *list + list->count * sizeof(mock_command));
        recording->encoded = NULL;
    }
}

#endif /* HCQ_TEST_MOCK_BASE_H */
