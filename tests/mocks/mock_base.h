/* mock_base.h - the mock backend: options, objects, memory, programs. Part of mock.h. */
#pragma once

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
    uint64_t refuse_patches;           /* while it is not 0 */
    uint64_t submits;
    uint64_t encodes;
} mock_control;

typedef struct mock_desc {
    int map;                           /* buffers of other mock devices can be used */
    uint32_t room;                     /* of a lane; then submit asks for memory [all] */
    int no_encode;                     /* leave encode, patch and encode_free unused */
    mock_control *control;
} mock_desc;

enum { MOCK_QUERY_ENCODES = 1000 };    /* HCQ_QUERY_BACKEND */

enum { MOCK_ORDINALS = 4, MOCK_COUNTER_LIMIT = 200, MOCK_WAITS = 64 };
#define MOCK_WATCHDOG_NS 20000000000ull /* a blocked FIFO aborts after this */

#define MOCK_ALIAS (1ull << 60)        /* set in addresses of another device's memory */
#define MOCK_CLOCK_OFFSET 7777777777ull /* the device's clock is not the host's */
#define MOCK_NATIVE_ERROR (-1234)
#define MOCK_DRIVER_MAGIC 0x6d6f636bu

/* ---- objects ---- */

/* What a GPU's library would be: nothing but what has to be true of it. */
typedef struct mock_driver {
    uint32_t magic;
    uint32_t open;                     /* devices, atomic */
} mock_driver;

typedef struct mock_block {
    struct mock_block *next;
    const struct mock_device *device;
    uint64_t address, size;
    unsigned char *host;
} mock_block;

typedef struct mock_program {
    hcq_cpu_fn fn;
    void *user, *library;
    uint32_t args[HCQ_MAX_ARGS];
    hcq_program_info info;
    unsigned char *block;              /* of arguments, as the kernel sees them */
} mock_program;

typedef struct mock_list {             /* packets follow it */
    uint32_t count;
    uint32_t running;                  /* submitted batches that use it, under the FIFO's lock */
} mock_list;

typedef struct mock_lane {
    uint64_t counters[2];              /* atomic */
    uint64_t promised[2];              /* highest value submitted */
    uint32_t used[2];                  /* by batches submitted, under the FIFO's lock */
} mock_lane;

typedef struct mock_batch {
    struct mock_batch *next;
    hcq_batch of;                      /* `prepared`: it loses the device */
    hcq_lane_point waits[MOCK_WAITS];  /* those of `of` */
    mock_list *list;                   /* encoded, or NULL */
} mock_batch;

typedef struct mock_device {
    mock_driver *driver;
    hcq_device *device;
    mock_desc desc;
    mock_control own_control;
    mock_control *control;
    uint64_t instance;
    uint64_t next_address;             /* under mock_memory_lock */
    pthread_mutex_t lock;              /* the FIFO's */
    pthread_cond_t bell;
    mock_batch *head, *tail;           /* what the hardware sees */
    mock_batch *pool;                  /* its own memory, no business of the user's hooks */
    hcq_sys_thread thread;
    int stop;
    uint32_t lost;                     /* atomic */
    uint32_t kicked;                   /* atomic */
} mock_device;

static pthread_mutex_t mock_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static mock_block *mock_blocks;        /* of all devices, the newest first */
static uint64_t mock_instances;
static uint32_t mock_drivers;          /* living, atomic */

static uint64_t mock_load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void mock_sleep(long ns) {
    const struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

/* A broken promise of the core: nothing after it means anything. */
static void mock_abort(const char *what, uint64_t a, uint64_t b) {
    fprintf(stderr, "\nMOCK: %s (%#llx, %#llx)\n", what, (unsigned long long)a,
            (unsigned long long)b);
    fflush(stderr);
    abort();
}

static int mock_is_lost(const mock_device *d) {
    return __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE) != 0;
}

static void *mock_zeroed(mock_device *d, size_t size) {
    void *made = hcq_backend_alloc(d->device, size, 16);
    return made ? memset(made, 0, size) : NULL;
}

/* ---- memory: a fake address space with a lookup ---- */

/* Gives the host pointer behind `size` bytes at a device address. */
static unsigned char *mock_host(const mock_device *d, uint64_t address, uint64_t size) {
    const uint64_t at = address & ~MOCK_ALIAS;
    const int alias = at != address;
    unsigned char *host = NULL;
    pthread_mutex_lock(&mock_memory_lock);
    for (const mock_block *b = mock_blocks; b && !host; b = b->next) {
        if ((b->device == d ? !alias : alias && d->desc.map) && at >= b->address &&
            size <= b->size && at - b->address <= b->size - size) {
            host = b->host + (at - b->address);
        }
    }
    pthread_mutex_unlock(&mock_memory_lock);
    if (!host) {
        mock_abort("device address fault: address, size", address, size);
    }
    return host;
}

/* No more than this, so that large memory can be sparse. */
static void mock_soil(unsigned char *host, int value, uint64_t size) {
    memset(host, value, size < 65536 ? (size_t)size : 65536);
}

/* Addresses only rise and are never used twice: a stale one faults. */
static hcq_result mock_alloc(void *self, uint64_t size, uint32_t flags, hcq_memory *memory) {
    mock_device *d = (mock_device *)self;
    mock_block *b = size <= 1ull << 38 ? (mock_block *)mock_zeroed(d, sizeof *b) : NULL;
    unsigned char *host = b ? (unsigned char *)hcq_backend_alloc(d->device, (size_t)size, 64)
                            : NULL;
    if (!host) {
        hcq_backend_free(d->device, b, b ? sizeof *b : 0);
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    if (flags & HCQ_ZEROED) {
        memset(host, 0, (size_t)size);
    } else {
        mock_soil(host, 0xA5, size);
    }
    b->device = d;
    b->size = size;
    b->host = host;
    pthread_mutex_lock(&mock_memory_lock);
    b->address = d->next_address;
    d->next_address += (size + 8191) & ~4095ull;
    b->next = mock_blocks;
    mock_blocks = b;
    pthread_mutex_unlock(&mock_memory_lock);
    memory->address = b->address;
    memory->host = flags & HCQ_HOST_VISIBLE ? host : NULL;
    memory->size = size;
    memory->native = b;
    return HCQ_OK;
}

static void mock_dealloc(void *self, hcq_memory *memory) {
    mock_device *d = (mock_device *)self;
    mock_block *b = (mock_block *)memory->native, **link = &mock_blocks;
    pthread_mutex_lock(&mock_memory_lock);
    while (*link && *link != b) {
        link = &(*link)->next;
    }
    if (!*link || b->device != d || b->address != memory->address) {
        mock_abort("dealloc of unknown memory: address, size", memory->address, memory->size);
    }
    *link = b->next;
    pthread_mutex_unlock(&mock_memory_lock);
    mock_soil(b->host, 0xDD, b->size);
    hcq_backend_free(d->device, b->host, (size_t)b->size);
    hcq_backend_free(d->device, b, sizeof *b);
}

static hcq_result mock_map(void *self, const struct hcq_backend *owner_backend,
                           void *owner_self, const hcq_memory *memory, uint64_t *address) {
    (void)owner_self;
    if (!((mock_device *)self)->desc.map || strcmp(owner_backend->name, "MOCK") != 0) {
        return HCQ_ERROR_UNSUPPORTED;
    }
    if (memory) {
        *address = memory->address | MOCK_ALIAS;
    }
    return HCQ_OK;
}

/* ---- programs ---- */

static void mock_program_destroy(void *self, void *code) {
    mock_program *program = (mock_program *)code;
    if (program->library) {
        hcq_sys_library_close(program->library);
    }
    hcq_device *device = ((mock_device *)self)->device;
    hcq_backend_free(device, program->block, program->info.kernargs_size + 1);
    hcq_backend_free(device, program, sizeof *program);
}

static void mock_statistics(void *self, void *code, char *text, size_t size) {
    (void)self;
    snprintf(text, size, "registers %u", ((const mock_program *)code)->info.arg_count);
}

static hcq_result mock_program_create(void *self, const hcq_program_desc *desc,
                                      const hcq_program_info *info, void **code) {
    mock_device *d = (mock_device *)self;
    mock_program *program = (mock_program *)mock_zeroed(d, sizeof *program);
    if (!program) {
        return HCQ_ERROR_OUT_OF_MEMORY;
    }
    program->fn = desc->cpu;
    program->user = desc->user;
    program->info = *info;
    program->block = (unsigned char *)hcq_backend_alloc(d->device, info->kernargs_size + 1, 16);
    memcpy(program->args, desc->args, sizeof program->args);
    if (!program->fn && desc->library && desc->symbol) {
        program->library = hcq_sys_library_open(desc->library);
        void *symbol = program->library
                           ? hcq_sys_library_symbol(program->library, desc->symbol) : NULL;
        memcpy(&program->fn, &symbol, sizeof symbol);
    }
    if (!program->fn || !program->block) {
        if (desc->library && !program->fn) {
            hcq_backend_log(d->device, HCQ_ERROR_NO_KERNEL, "mock: library '%s', symbol '%s'",
                            desc->library, desc->symbol ? desc->symbol : "");
        }
        hcq_result result = program->block ? HCQ_ERROR_NO_KERNEL : HCQ_ERROR_OUT_OF_MEMORY;
        mock_program_destroy(d, program);
        return result;
    }
    *code = program;
    return HCQ_OK;
}
