/* vulkan_memory.h - the mock of Vulkan: a device's structure, its objects, memory,
   buffers and their addresses. */
#pragma once

#include "vulkan_physical.h"

#include <sys/mman.h>

/* ---- devices and what is made of them ---- */

typedef struct mock_vk_device {
    mock_vk_object o;
    mock_vk_physical *physical;
    const mock_vk_desc *desc;
    uint32_t features;                 /* that the application switched on: MOCK_VK_NO_* */
    pthread_mutex_t lock;              /* of all below */
    pthread_cond_t bell;               /* work came or is done */
    mock_vk_object *objects;           /* dead ones, too */
    struct mock_vk_queue *queues;
    uint32_t queue_count;
    struct mock_vk_batch *spare;       /* that are over */
    uint32_t thread_count;
    struct mock_vk_buffer *bound;      /* buffers with memory */
    uint64_t next_address;
    uint64_t free_address, free_size;  /* of the memory freed last, or size 0 */
    uint32_t memories;                 /* living VkDeviceMemory */
    uint64_t random;
    int stop;
    uint32_t lost;                     /* atomic */
} mock_vk_device;

static mock_vk_device *mock_vk_device_of(VkDevice handle) {
    return MOCK_VK_OBJECT(mock_vk_device, handle, DEVICE, NULL);
}

static int mock_vk_is_lost(const mock_vk_device *d) {
    return __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE) != 0;
}

static void *mock_vk_new(mock_vk_device *d, mock_vk_object *pool, mock_vk_kind kind,
                         size_t size) {
    mock_vk_object *o = calloc(1, size);
    mock_vk_init(o, kind, d);
    o->pool = pool;
    pthread_mutex_lock(&d->lock);
    o->next = d->objects;
    d->objects = o;
    if (pool) {
        o->sibling = pool->members;
        pool->members = o;
    }
    pthread_mutex_unlock(&d->lock);
    return o;
}

/* No batch may use an object that goes. After a loss the queues drop what they
   have, which may take a moment. Under the lock. */
static void mock_vk_unused(const mock_vk_object *o) {
    while (o->pending && mock_vk_is_lost(o->device)) {
        pthread_cond_wait(&o->device->bell, &o->device->lock);
    }
    mock_vk_check(o->pending == 0, "%s #%u is destroyed or changed while %u pending batches "
                  "use it", mock_vk_kind_names[o->kind], o->number, o->pending);
}

/* With all of a pool; under the lock. */
static void mock_vk_destroy(mock_vk_object *o) {
    for (mock_vk_object *c = o->members; c; c = c->sibling) {
        if (mock_vk_lives(c)) {
            mock_vk_destroy(c);
        }
    }
    mock_vk_unused(o);
    if (o->close) {
        o->close(o);
    }
    mock_vk_die(o);
}

static void mock_vk_destroy_handle(mock_vk_entry entry, VkDevice device, uintptr_t handle,
                                   mock_vk_kind kind) {
    (void)mock_vk_enter(entry);
    mock_vk_device *d = mock_vk_device_of(device);
    if (!handle) {
        return;
    }
    mock_vk_object *o = mock_vk_object_of(handle, kind, d);
    mock_vk_inside(o, d->desc->linger);
    pthread_mutex_lock(&d->lock);
    mock_vk_destroy(o);
    pthread_mutex_unlock(&d->lock);
    mock_vk_outside(o);
}

#define MOCK_VK_DESTROY(name, handle_type, kind)                                   \
    static void mock_vk##name(VkDevice device, handle_type handle, MOCK_VK_HOOKS) { \
        mock_vk_destroy_handle(MOCK_VK_##name, device, (uintptr_t)handle, MOCK_VK_KIND_##kind); \
    }

/* vkCreate* and vkDestroy* of what `make` fills in from its description. */
#define MOCK_VK_CREATE(name, type, kind, make)                                     \
    static VkResult mock_vkCreate##name(VkDevice device, const Vk##name##CreateInfo *info, \
                                        MOCK_VK_HOOKS, Vk##name *out) {            \
        VkResult result = mock_vk_enter(MOCK_VK_Create##name);                     \
        mock_vk_device *d = mock_vk_device_of(device);                             \
        type *made = result == VK_SUCCESS                                          \
                         ? mock_vk_new(d, NULL, MOCK_VK_KIND_##kind, sizeof *made) : NULL; \
        if (made) {                                                                \
            make(made, info);                                                      \
        }                                                                          \
        *out = (Vk##name)(uintptr_t)made;                                          \
        return result;                                                             \
    }                                                                              \
    MOCK_VK_DESTROY(Destroy##name, Vk##name, kind)

/* ---- memory ---- */

typedef struct mock_vk_memory {
    mock_vk_object o;
    uint64_t size;
    uint64_t address;                  /* device address of its first byte */
    unsigned char *bytes;
    uint32_t type;
    int imported;
} mock_vk_memory;

/* Types that memory of the host can be imported as. */
static uint32_t mock_vk_import_types(const mock_vk_device *d) { return d->desc->discrete ? 8 : 1; }

static uint64_t *mock_vk_heap_of(const mock_vk_device *d, uint32_t type) {
    return &d->physical->heap_used[d->physical->memory.memoryTypes[type].heapIndex];
}

/* Large memory is sparse; memory is never zero by chance. */
static unsigned char *mock_vk_bytes(uint64_t size) {
    void *bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mock_vk_check(bytes != MAP_FAILED, "the host has no %llu bytes", mock_vk_u(size));
    return memset(bytes, 0xA5, size < 32768 ? (size_t)size : 32768);
}

static void mock_vk_memory_close(mock_vk_object *o) {
    mock_vk_memory *m = (mock_vk_memory *)(void *)o;
    o->device->memories--;
    o->device->free_address = m->address;
    o->device->free_size = m->size;
    if (!m->imported) {
        munmap(m->bytes, (size_t)m->size);
        __atomic_fetch_sub(mock_vk_heap_of(o->device, m->type), m->size, __ATOMIC_RELAXED);
    }
}

/* Is there so much? It is counted then. */
static VkResult mock_vk_memory_take(mock_vk_device *d, const VkMemoryAllocateInfo *info,
                                    int imported) {
    const VkPhysicalDeviceMemoryProperties *memory = &d->physical->memory;
    uint64_t size = info->allocationSize, *used = mock_vk_heap_of(d, info->memoryTypeIndex);
    uint32_t heap = memory->memoryTypes[info->memoryTypeIndex].heapIndex;
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&d->lock);
    if (d->memories >= d->desc->max_allocations) {
        result = VK_ERROR_TOO_MANY_OBJECTS;
    } else if (!imported && (size > d->desc->max_allocation ||
                             __atomic_load_n(used, __ATOMIC_RELAXED) + size >
                                 memory->memoryHeaps[heap].size)) {
        result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    } else {
        d->memories++;
        __atomic_fetch_add(used, imported ? 0 : size, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&d->lock);
    return result;
}

MOCK_VK_API(VkResult, AllocateMemory, VkDevice handle, const VkMemoryAllocateInfo *info,
            MOCK_VK_HOOKS, VkDeviceMemory *out) {
    VkResult result = mock_vk_enter(MOCK_VK_AllocateMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    const VkImportMemoryHostPointerInfoEXT *import = mock_vk_chained(
        info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
    uint64_t size = info->allocationSize, align = d->desc->import_alignment;
    mock_vk_check(info->memoryTypeIndex < d->physical->memory.memoryTypeCount,
                  "memory type %u", info->memoryTypeIndex);
    mock_vk_check(!import || ((uintptr_t)import->pHostPointer % align == 0 && size % align == 0 &&
                              (mock_vk_import_types(d) >> info->memoryTypeIndex & 1)),
                  "import of %llu bytes as type %u: no multiple of %llu, or not this type",
                  mock_vk_u(size), info->memoryTypeIndex, mock_vk_u(align));
    *out = VK_NULL_HANDLE;
    result = result == VK_SUCCESS ? mock_vk_memory_take(d, info, import != NULL) : result;
    MOCK_VK_TRY(result);
    mock_vk_memory *m = mock_vk_new(d, NULL, MOCK_VK_KIND_MEMORY, sizeof *m);
    m->o.close = mock_vk_memory_close;
    m->size = size;
    m->imported = import != NULL;
    m->bytes = import ? import->pHostPointer : mock_vk_bytes(size);
    m->type = info->memoryTypeIndex;
    pthread_mutex_lock(&d->lock);
    if ((d->desc->flags & MOCK_VK_ADDRESSES_AGAIN) && d->free_size == size) {
        m->address = d->free_address;
        d->free_size = 0;
    } else {
        m->address = d->next_address;
        d->next_address += (size | 65535) + 1 + 65536;
    }
    pthread_mutex_unlock(&d->lock);
    *out = (VkDeviceMemory)(uintptr_t)m;
    return VK_SUCCESS;
}

MOCK_VK_DESTROY(FreeMemory, VkDeviceMemory, MEMORY)

MOCK_VK_API(VkResult, MapMemory, VkDevice handle, VkDeviceMemory memory, VkDeviceSize offset,
            VkDeviceSize size, VkMemoryMapFlags flags, void **out) {
    VkResult failure = mock_vk_enter(MOCK_VK_MapMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_memory *m = MOCK_VK_OBJECT(mock_vk_memory, memory, MEMORY, d);
    VkMemoryPropertyFlags type = d->physical->memory.memoryTypes[m->type].propertyFlags;
    mock_vk_check(type & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, "memory type %u is not host visible",
                  m->type);
    mock_vk_check(type & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, "memory type %u is not coherent, "
                  "and nobody flushes", m->type);
    *out = failure == VK_SUCCESS ? m->bytes + offset : NULL;
    return failure;
}

MOCK_VK_API(VkResult, GetMemoryHostPointerPropertiesEXT, VkDevice handle,
            VkExternalMemoryHandleTypeFlagBits type, const void *pointer,
            VkMemoryHostPointerPropertiesEXT *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_GetMemoryHostPointerPropertiesEXT);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_check((uintptr_t)pointer % d->desc->import_alignment == 0,
                  "pointer %p, alignment %u", pointer, d->desc->import_alignment);
    out->memoryTypeBits = failure == VK_SUCCESS ? mock_vk_import_types(d) : 0;
    return failure;
}

/* ---- buffers ---- */

typedef struct mock_vk_buffer {
    mock_vk_object o;
    struct mock_vk_buffer *next_bound;
    uint64_t size;
    VkBufferUsageFlags usage;
    uint32_t families;                 /* bits; 0: the first that uses it has it, ... */
    uint32_t owner;                    /* ... whose bits these are, atomic */
    int external;
    mock_vk_memory *memory;
    uint64_t offset;                   /* in it */
} mock_vk_buffer;

static uint64_t mock_vk_address(const mock_vk_buffer *b) { return b->memory->address + b->offset; }
static unsigned char *mock_vk_host(const mock_vk_buffer *b) { return b->memory->bytes + b->offset; }

static void mock_vk_buffer_close(mock_vk_object *o) {
    struct mock_vk_buffer **link = &o->device->bound;
    while (*link && (void *)*link != (void *)o) {
        link = &(*link)->next_bound;
    }
    if (*link) {
        *link = (*link)->next_bound;
    }
}

static void mock_vk_buffer_make(mock_vk_buffer *b, const VkBufferCreateInfo *info) {
    b->o.close = mock_vk_buffer_close;
    b->size = info->size;
    b->usage = info->usage;
    for (uint32_t i = 0; i < info->queueFamilyIndexCount; i++) {
        b->families |= 1u << info->pQueueFamilyIndices[i];
    }
    b->external = info->pNext != NULL;
    mock_vk_check(b->size <= 2 * b->o.device->desc->max_allocation, "%llu bytes",
                  mock_vk_u(b->size));
}

MOCK_VK_CREATE(Buffer, mock_vk_buffer, BUFFER, mock_vk_buffer_make)

MOCK_VK_API(void, GetBufferMemoryRequirements, VkDevice handle, VkBuffer buffer,
            VkMemoryRequirements *out) {
    (void)mock_vk_enter(MOCK_VK_GetBufferMemoryRequirements);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, buffer, BUFFER, d);
    out->size = (b->size + 255) / 256 * 256;
    out->alignment = 256;
    out->memoryTypeBits = b->external ? mock_vk_import_types(d)
                                      : (1u << d->physical->memory.memoryTypeCount) - 1;
}

MOCK_VK_API(VkResult, BindBufferMemory, VkDevice handle, VkBuffer buffer, VkDeviceMemory memory,
            VkDeviceSize offset) {
    VkResult failure = mock_vk_enter(MOCK_VK_BindBufferMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, buffer, BUFFER, d);
    mock_vk_memory *m = MOCK_VK_OBJECT(mock_vk_memory, memory, MEMORY, d);
    mock_vk_check(offset % 256 == 0 && offset <= m->size && b->size <= m->size - offset,
                  "%llu bytes at %llu of %llu", mock_vk_u(b->size), mock_vk_u(offset),
                  mock_vk_u(m->size));
    MOCK_VK_TRY(failure);
    pthread_mutex_lock(&d->lock);
    b->memory = m;
    b->offset = offset;
    b->next_bound = d->bound;
    d->bound = b;
    pthread_mutex_unlock(&d->lock);
    return VK_SUCCESS;
}

MOCK_VK_API(VkDeviceAddress, GetBufferDeviceAddress, VkDevice handle,
            const VkBufferDeviceAddressInfo *info) {
    (void)mock_vk_enter(MOCK_VK_GetBufferDeviceAddress);
    return mock_vk_address(
        MOCK_VK_OBJECT(mock_vk_buffer, info->buffer, BUFFER, mock_vk_device_of(handle)));
}

static void mock_vk_within(const mock_vk_buffer *b, uint64_t offset, uint64_t size) {
    mock_vk_check(offset <= b->size && size <= b->size - offset,
                  "%llu bytes at %llu of buffer #%u, which has %llu", mock_vk_u(size),
                  mock_vk_u(offset), b->o.number, mock_vk_u(b->size));
}

/* A queue of a family reads or writes the buffer. */
static void mock_vk_used_by(mock_vk_buffer *b, uint32_t family) {
    uint32_t bit = 1u << family, others = b->families & bit ? 0 : b->families;
    if (!b->families) {
        others = __atomic_fetch_or(&b->owner, bit, __ATOMIC_RELAXED) & ~bit;
    }
    mock_vk_check(others == 0, "buffer #%u is not shared with family %u", b->o.number, family);
}

/* Marks a buffer and its memory as in use by one more, or one less; under the lock. */
static void mock_vk_pend_buffer(mock_vk_buffer *b, uint32_t by) {
    b->o.pending += by;
    b->memory->o.pending += by;
}

/* The host pointer behind a device address, of a kernel on a queue of the family. */
static unsigned char *mock_vk_reach(mock_vk_device *d, uint64_t address, uint64_t size,
                                    uint32_t family) {
    pthread_mutex_lock(&d->lock);
    mock_vk_buffer *b = d->bound;
    while (b && !(address >= mock_vk_address(b) && size <= b->size &&
                  address - mock_vk_address(b) <= b->size - size)) {
        b = b->next_bound;
    }
    mock_vk_check(b != NULL, "device address fault: %llu bytes at %#llx, of no buffer",
                  mock_vk_u(size), mock_vk_u(address));
    unsigned char *host = mock_vk_host(b) + (address - mock_vk_address(b));
    mock_vk_used_by(b, family);
    pthread_mutex_unlock(&d->lock);
    return host;
}
