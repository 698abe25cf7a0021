/* vulkan_memory.h - part of vulkan.h: the device's structure, its objects,
   memory, buffers and their addresses. */
#ifndef HCQ_TEST_MOCK_VULKAN_MEMORY_H
#define HCQ_TEST_MOCK_VULKAN_MEMORY_H

/* ---- device ---- */

typedef struct mock_vk_queue mock_vk_queue;
typedef struct mock_vk_runner mock_vk_runner;
typedef struct mock_vk_buffer mock_vk_buffer;

/* Features that the application switched on. */
typedef struct mock_vk_enabled {
    uint32_t extensions;               /* bits 1 << MOCK_VK_SYNC2 ... */
    int timeline, addresses, sync2, host_reset, late_sets, late_unused, maintenance4;
} mock_vk_enabled;

typedef struct mock_vk_device {
    mock_vk_object o;
    mock_vk_physical *physical;
    const mock_vk_desc *desc;
    uint32_t version;                  /* of Vulkan, in use */
    mock_vk_enabled enabled;
    pthread_mutex_t lock;              /* of all below */
    pthread_cond_t bell;               /* work came or is done */
    mock_vk_object *objects;           /* dead ones, too */
    mock_vk_queue *queues;
    uint32_t queue_count;
    struct mock_vk_batch *spare;       /* that are over */
    mock_vk_runner *runners;
    uint32_t runner_count;
    mock_vk_buffer **buffers;          /* bound, by address */
    uint32_t buffer_count, buffer_capacity;
    uint64_t next_address;
    uint32_t memories;                 /* living VkDeviceMemory */
    uint64_t random;
    int stop;
    uint32_t lost;                     /* atomic */
} mock_vk_device;

static uint64_t mock_vk_devices_made;  /* atomic */

static mock_vk_device *mock_vk_device_of(VkDevice handle) {
    return MOCK_VK_OBJECT(mock_vk_device, handle, DEVICE, NULL);
}

static int mock_vk_is_lost(const mock_vk_device *d) {
    return __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE) != 0;
}

static void mock_vk_need(const mock_vk_device *d, uint32_t extension) {
    mock_vk_check(d->enabled.extensions >> extension & 1, "the extension is not enabled");
}

static void *mock_vk_new(mock_vk_device *d, mock_vk_kind kind, size_t size) {
    mock_vk_object *o = (mock_vk_object *)calloc(1, size);
    mock_vk_init(o, kind, d);
    pthread_mutex_lock(&d->lock);
    o->next = d->objects;
    d->objects = o;
    pthread_mutex_unlock(&d->lock);
    return o;
}

/* No batch may use an object that goes. After a loss the queues drop what they
   have, which may take a moment. Under the lock. */
static void mock_vk_unused(mock_vk_device *d, const mock_vk_object *o) {
    while (o->pending && mock_vk_is_lost(d)) {
        pthread_cond_wait(&d->bell, &d->lock);
    }
    mock_vk_check(o->pending == 0, "%s #%llu is destroyed or changed while %u pending batches "
                  "use it", mock_vk_kind_names[o->kind], mock_vk_u(o->number), o->pending);
}

static void mock_vk_destroy(mock_vk_device *d, mock_vk_object *o) {
    pthread_mutex_lock(&d->lock);
    mock_vk_unused(d, o);
    mock_vk_die(o);
    pthread_mutex_unlock(&d->lock);
}

/* ---- memory ---- */

typedef struct mock_vk_memory {
    mock_vk_object o;
    uint64_t size;
    uint64_t address;                  /* device address of its first byte */
    unsigned char *bytes;
    uint32_t type, heap;
    int imported, mapped, addressable;
} mock_vk_memory;

static uint64_t mock_vk_align(uint64_t value, uint64_t align) {
    return (value + align - 1) / align * align;
}

/* Types that memory of the host can be imported as. */
static uint32_t mock_vk_import_types(const mock_vk_physical *p) {
    return p->instance->desc.discrete ? 2u : 1u;
}

static void mock_vk_import_check(const mock_vk_device *d, const VkMemoryAllocateInfo *info,
                                 const VkImportMemoryHostPointerInfoEXT *import) {
    uint64_t align = d->desc->import_alignment;
    mock_vk_need(d, MOCK_VK_HOST_MEMORY);
    mock_vk_check(import->handleType == VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
                  "handleType %#x", (unsigned)import->handleType);
    mock_vk_check((uintptr_t)import->pHostPointer % align == 0 &&
                      info->allocationSize % align == 0,
                  "import of %llu bytes at %p: no multiples of %llu",
                  mock_vk_u(info->allocationSize), import->pHostPointer, mock_vk_u(align));
    mock_vk_check(mock_vk_import_types(d->physical) >> info->memoryTypeIndex & 1,
                  "import as memory type %u", info->memoryTypeIndex);
}

/* What the memory is counted against; 0 = there is no more. */
static int mock_vk_heap_take(mock_vk_device *d, uint32_t heap, uint64_t size) {
    uint64_t *used = &d->physical->heap_used[heap];
    uint64_t now = __atomic_add_fetch(used, size, __ATOMIC_RELAXED);
    if (now <= d->physical->memory.memoryHeaps[heap].size) {
        return 1;
    }
    __atomic_fetch_sub(used, size, __ATOMIC_RELAXED);
    return 0;
}

/* Large memory is sparse. */
static int mock_vk_is_large(uint64_t size) {
    return size >> 30 != 0;
}

static unsigned char *mock_vk_bytes(uint64_t size) {
    void *bytes = NULL;
    if (mock_vk_is_large(size)) {
        bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bytes == MAP_FAILED) {
            return NULL;
        }
    } else if (posix_memalign(&bytes, 64, (size_t)size) != 0) {
        return NULL;
    }
    memset(bytes, 0xA5, size < 262144 ? (size_t)size : 262144); /* never zeros by chance */
    return (unsigned char *)bytes;
}

static VkResult mock_vk_memory_open(mock_vk_device *d, const VkMemoryAllocateInfo *info,
                                    void *host, mock_vk_memory **out) {
    uint32_t heap = d->physical->memory.memoryTypes[info->memoryTypeIndex].heapIndex;
    unsigned char *bytes = (unsigned char *)host;
    if (!host && !mock_vk_heap_take(d, heap, info->allocationSize)) {
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    if (!host && !(bytes = mock_vk_bytes(info->allocationSize))) {
        __atomic_fetch_sub(&d->physical->heap_used[heap], info->allocationSize, __ATOMIC_RELAXED);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    mock_vk_memory *m = (mock_vk_memory *)mock_vk_new(d, MOCK_VK_KIND_MEMORY, sizeof *m);
    m->size = info->allocationSize;
    m->bytes = bytes;
    m->type = info->memoryTypeIndex;
    m->heap = heap;
    m->imported = host != NULL;
    mock_vk_count(host ? &mock_vk_counters.imported_bytes : &mock_vk_counters.memory_bytes,
                  m->size);
    pthread_mutex_lock(&d->lock);
    d->memories++;
    m->address = d->next_address;
    d->next_address += mock_vk_align(m->size, 65536) + 65536;
    pthread_mutex_unlock(&d->lock);
    *out = m;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkAllocateMemory(
    VkDevice handle, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
    VkDeviceMemory *out) {
    VkResult result = mock_vk_enter(MOCK_VK_AllocateMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_memory *m = NULL;
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    mock_vk_only(info->pNext, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                 VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
    const VkMemoryAllocateFlagsInfo *flags = (const VkMemoryAllocateFlagsInfo *)mock_vk_chained(
        info->pNext, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
    const VkImportMemoryHostPointerInfoEXT *import =
        (const VkImportMemoryHostPointerInfoEXT *)mock_vk_chained(
            info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
    mock_vk_check(info->allocationSize != 0 &&
                      info->memoryTypeIndex < d->physical->memory.memoryTypeCount,
                  "%llu bytes of type %u", mock_vk_u(info->allocationSize),
                  info->memoryTypeIndex);
    if (import) {
        mock_vk_import_check(d, info, import);
    }
    pthread_mutex_lock(&d->lock);
    int full = d->memories >= d->desc->max_allocations;
    pthread_mutex_unlock(&d->lock);
    if (result == VK_SUCCESS && full) {
        result = VK_ERROR_TOO_MANY_OBJECTS;
    }
    if (result == VK_SUCCESS && !import && info->allocationSize > d->desc->max_allocation) {
        result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    if (result == VK_SUCCESS) {
        result = mock_vk_memory_open(d, info, import ? import->pHostPointer : NULL, &m);
    }
    if (result != VK_SUCCESS) {
        return result;
    }
    m->addressable = flags && (flags->flags & VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT);
    mock_vk_check(!m->addressable || d->enabled.addresses, "bufferDeviceAddress is not enabled");
    *out = (VkDeviceMemory)(uintptr_t)m;
    return VK_SUCCESS;
}

static void mock_vk_memory_close(mock_vk_device *d, mock_vk_memory *m) {
    if (m->imported) {
        mock_vk_uncount(&mock_vk_counters.imported_bytes, m->size);
        return;
    }
    memset(m->bytes, 0xDD, m->size < 65536 ? (size_t)m->size : 65536);
    if (mock_vk_is_large(m->size)) {
        munmap(m->bytes, (size_t)m->size);
    } else {
        free(m->bytes);
    }
    m->bytes = NULL;
    __atomic_fetch_sub(&d->physical->heap_used[m->heap], m->size, __ATOMIC_RELAXED);
    mock_vk_uncount(&mock_vk_counters.memory_bytes, m->size);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkFreeMemory(VkDevice handle, VkDeviceMemory memory,
                                                    const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_FreeMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (!memory) {
        return;
    }
    mock_vk_memory *m = MOCK_VK_OBJECT(mock_vk_memory, memory, MEMORY, d);
    mock_vk_destroy(d, &m->o);
    pthread_mutex_lock(&d->lock);
    d->memories--;
    pthread_mutex_unlock(&d->lock);
    mock_vk_memory_close(d, m);
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkMapMemory(VkDevice handle, VkDeviceMemory memory,
                                                       VkDeviceSize offset, VkDeviceSize size,
                                                       VkMemoryMapFlags flags, void **out) {
    VkResult failure = mock_vk_enter(MOCK_VK_MapMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_memory *m = MOCK_VK_OBJECT(mock_vk_memory, memory, MEMORY, d);
    VkMemoryPropertyFlags type = d->physical->memory.memoryTypes[m->type].propertyFlags;
    *out = NULL;
    mock_vk_check(type & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, "memory type %u is not host visible",
                  m->type);
    mock_vk_check(type & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, "memory type %u is not coherent, "
                  "and nobody flushes", m->type);
    mock_vk_check(!m->mapped && flags == 0, "mapped twice, or flags");
    mock_vk_check(offset < m->size && (size == VK_WHOLE_SIZE || size <= m->size - offset),
                  "%llu bytes at %llu of %llu", mock_vk_u(size), mock_vk_u(offset),
                  mock_vk_u(m->size));
    if (failure != VK_SUCCESS) {
        return failure;
    }
    m->mapped = 1;
    *out = m->bytes + offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL mock_vkUnmapMemory(VkDevice handle, VkDeviceMemory memory) {
    (void)mock_vk_enter(MOCK_VK_UnmapMemory);
    mock_vk_memory *m = MOCK_VK_OBJECT(mock_vk_memory, memory, MEMORY, mock_vk_device_of(handle));
    mock_vk_check(m->mapped, "it is not mapped");
    m->mapped = 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkGetMemoryHostPointerPropertiesEXT(
    VkDevice handle, VkExternalMemoryHandleTypeFlagBits type, const void *pointer,
    VkMemoryHostPointerPropertiesEXT *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_GetMemoryHostPointerPropertiesEXT);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_need(d, MOCK_VK_HOST_MEMORY);
    mock_vk_type(out->sType, VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT);
    mock_vk_check(type == VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT &&
                      (uintptr_t)pointer % d->desc->import_alignment == 0,
                  "handle type %#x, pointer %p, alignment %u", (unsigned)type, pointer,
                  d->desc->import_alignment);
    out->memoryTypeBits = failure == VK_SUCCESS ? mock_vk_import_types(d->physical) : 0;
    return failure;
}

/* ---- buffers ---- */

struct mock_vk_buffer {
    mock_vk_object o;
    uint64_t size;
    VkBufferUsageFlags usage;
    uint32_t families;                 /* bits; 0: the first that uses it has it, ... */
    uint32_t owner;                    /* ... whose bits these are, atomic */
    int external;
    mock_vk_memory *memory;
    uint64_t offset;                   /* in it */
};

static uint64_t mock_vk_address(const mock_vk_buffer *b) { return b->memory->address + b->offset; }
static unsigned char *mock_vk_host(const mock_vk_buffer *b) { return b->memory->bytes + b->offset; }

static uint32_t mock_vk_sharing(const mock_vk_device *d, const VkBufferCreateInfo *info) {
    uint32_t families = 0;
    if (info->sharingMode == VK_SHARING_MODE_EXCLUSIVE) {
        return 0;
    }
    mock_vk_check(info->queueFamilyIndexCount > 1, "concurrent among %u families",
                  info->queueFamilyIndexCount);
    for (uint32_t i = 0; i < info->queueFamilyIndexCount; i++) {
        uint32_t bit = 1u << info->pQueueFamilyIndices[i];
        mock_vk_check(info->pQueueFamilyIndices[i] < d->physical->family_count &&
                          !(families & bit),
                      "family %u: none, or named twice", info->pQueueFamilyIndices[i]);
        families |= bit;
    }
    return families;
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkCreateBuffer(VkDevice handle,
                                                          const VkBufferCreateInfo *info,
                                                          const VkAllocationCallbacks *allocator,
                                                          VkBuffer *out) {
    VkResult failure = mock_vk_enter(MOCK_VK_CreateBuffer);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    *out = VK_NULL_HANDLE;
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    mock_vk_only(info->pNext, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, 0);
    mock_vk_check(info->size != 0 && info->usage != 0 && info->flags == 0,
                  "size, usage or flags");
    mock_vk_check(!(info->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) ||
                      d->enabled.addresses,
                  "bufferDeviceAddress is not enabled");
    uint32_t families = mock_vk_sharing(d, info);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    if (info->size > d->desc->max_buffer) {
        mock_vk_check(!d->enabled.maintenance4, "%llu bytes, maxBufferSize is %llu",
                      mock_vk_u(info->size), mock_vk_u(d->desc->max_buffer));
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    mock_vk_buffer *b = (mock_vk_buffer *)mock_vk_new(d, MOCK_VK_KIND_BUFFER, sizeof *b);
    b->size = info->size;
    b->usage = info->usage;
    b->families = families;
    b->external = info->pNext != NULL;
    *out = (VkBuffer)(uintptr_t)b;
    return VK_SUCCESS;
}

/* The first bound buffer above an address; under the lock. */
static uint32_t mock_vk_buffer_above(const mock_vk_device *d, uint64_t address) {
    uint32_t low = 0, high = d->buffer_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mock_vk_address(d->buffers[middle]) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void mock_vk_buffer_list(mock_vk_device *d, mock_vk_buffer *b) {
    uint32_t at = mock_vk_buffer_above(d, mock_vk_address(b));
    const mock_vk_buffer *before = at > 0 ? d->buffers[at - 1] : NULL;
    const mock_vk_buffer *after = at < d->buffer_count ? d->buffers[at] : NULL;
    mock_vk_check((!before || mock_vk_address(before) + before->size <= mock_vk_address(b)) &&
                      (!after || mock_vk_address(b) + b->size <= mock_vk_address(after)),
                  "buffer #%llu shares memory with another one", mock_vk_u(b->o.number));
    if (d->buffer_count == d->buffer_capacity) {
        d->buffer_capacity = d->buffer_capacity ? d->buffer_capacity * 2 : 64;
        d->buffers = (mock_vk_buffer **)realloc(d->buffers,
                                                d->buffer_capacity * sizeof *d->buffers);
    }
    memmove(&d->buffers[at + 1], &d->buffers[at], (d->buffer_count - at) * sizeof *d->buffers);
    d->buffers[at] = b;
    d->buffer_count++;
}

static void mock_vk_buffer_unlist(mock_vk_device *d, const mock_vk_buffer *b) {
    for (uint32_t i = 0; i < d->buffer_count; i++) {
        if (d->buffers[i] == b) {
            d->buffer_count--;
            memmove(&d->buffers[i], &d->buffers[i + 1],
                    (d->buffer_count - i) * sizeof *d->buffers);
            return;
        }
    }
}

static VKAPI_ATTR void VKAPI_CALL mock_vkDestroyBuffer(VkDevice handle, VkBuffer buffer,
                                                       const VkAllocationCallbacks *allocator) {
    (void)mock_vk_enter(MOCK_VK_DestroyBuffer);
    mock_vk_device *d = mock_vk_device_of(handle);
    (void)allocator;
    if (!buffer) {
        return;
    }
    mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, buffer, BUFFER, d);
    pthread_mutex_lock(&d->lock);
    mock_vk_unused(d, &b->o);
    mock_vk_buffer_unlist(d, b);
    mock_vk_die(&b->o);
    pthread_mutex_unlock(&d->lock);
}

static VKAPI_ATTR void VKAPI_CALL mock_vkGetBufferMemoryRequirements(
    VkDevice handle, VkBuffer buffer, VkMemoryRequirements *out) {
    (void)mock_vk_enter(MOCK_VK_GetBufferMemoryRequirements);
    mock_vk_device *d = mock_vk_device_of(handle);
    const mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, buffer, BUFFER, d);
    out->size = mock_vk_align(b->size, 256);
    out->alignment = 256;
    out->memoryTypeBits = (1u << d->physical->memory.memoryTypeCount) - 1;
    if (b->external) {
        out->memoryTypeBits = mock_vk_import_types(d->physical);
    }
}

static void mock_vk_bind_check(const mock_vk_buffer *b, const mock_vk_memory *m,
                               uint64_t offset) {
    uint64_t size = mock_vk_align(b->size, 256);
    mock_vk_check(!b->memory, "buffer #%llu is bound already", mock_vk_u(b->o.number));
    mock_vk_check(offset % 256 == 0 && offset <= m->size && size <= m->size - offset,
                  "%llu bytes at %llu of %llu", mock_vk_u(size), mock_vk_u(offset),
                  mock_vk_u(m->size));
    mock_vk_check(!(b->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) || m->addressable,
                  "the memory is without VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT");
    mock_vk_check(b->external == m->imported, "imported memory needs a buffer that says so, and "
                  "the other way round");
}

static VKAPI_ATTR VkResult VKAPI_CALL mock_vkBindBufferMemory(VkDevice handle, VkBuffer buffer,
                                                              VkDeviceMemory memory,
                                                              VkDeviceSize offset) {
    VkResult failure = mock_vk_enter(MOCK_VK_BindBufferMemory);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, buffer, BUFFER, d);
    mock_vk_memory *m = MOCK_VK_OBJECT(mock_vk_memory, memory, MEMORY, d);
    mock_vk_bind_check(b, m, offset);
    if (failure != VK_SUCCESS) {
        return failure;
    }
    pthread_mutex_lock(&d->lock);
    b->memory = m;
    b->offset = offset;
    mock_vk_buffer_list(d, b);
    pthread_mutex_unlock(&d->lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkDeviceAddress VKAPI_CALL mock_vkGetBufferDeviceAddress(
    VkDevice handle, const VkBufferDeviceAddressInfo *info) {
    (void)mock_vk_enter(MOCK_VK_GetBufferDeviceAddress);
    mock_vk_device *d = mock_vk_device_of(handle);
    mock_vk_type(info->sType, VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
    const mock_vk_buffer *b = MOCK_VK_OBJECT(mock_vk_buffer, info->buffer, BUFFER, d);
    mock_vk_check(b->memory && (b->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT),
                  "the buffer is not bound, or without VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT");
    return mock_vk_address(b);
}

/* A buffer that commands may use: bound, with this usage, its memory there. */
static void mock_vk_usable(const mock_vk_buffer *b, VkBufferUsageFlags usage) {
    mock_vk_check(b->memory && mock_vk_lives(&b->memory->o), "buffer #%llu has no memory",
                  mock_vk_u(b->o.number));
    mock_vk_check((b->usage & usage) == usage, "buffer #%llu has usage %#x, not %#x",
                  mock_vk_u(b->o.number), (unsigned)b->usage, (unsigned)usage);
}

static void mock_vk_within(const mock_vk_buffer *b, uint64_t offset, uint64_t size) {
    mock_vk_check(offset <= b->size && size <= b->size - offset,
                  "%llu bytes at %llu of buffer #%llu, which has %llu", mock_vk_u(size),
                  mock_vk_u(offset), mock_vk_u(b->o.number), mock_vk_u(b->size));
}

/* A queue of a family reads or writes the buffer. */
static void mock_vk_used_by(mock_vk_buffer *b, uint32_t family) {
    uint32_t bit = 1u << family;
    if (b->families) {
        mock_vk_check((b->families & bit) != 0, "buffer #%llu is not shared with family %u",
                      mock_vk_u(b->o.number), family);
        return;
    }
    uint32_t owner = __atomic_fetch_or(&b->owner, bit, __ATOMIC_RELAXED);
    mock_vk_check((owner & ~bit) == 0, "buffer #%llu, not shared, is used by family %u after "
                  "another one", mock_vk_u(b->o.number), family);
}

/* The buffer that bytes at a device address lie in; it is in use until
   mock_vk_release. */
static mock_vk_buffer *mock_vk_hold(mock_vk_device *d, uint64_t address, uint64_t size,
                                    uint32_t family) {
    mock_vk_buffer *b = NULL;
    pthread_mutex_lock(&d->lock);
    uint32_t at = mock_vk_buffer_above(d, address);
    if (at > 0) {
        b = d->buffers[at - 1];
    }
    int found = b && address - mock_vk_address(b) < b->size &&
                size <= b->size - (address - mock_vk_address(b));
    mock_vk_check(found, "device address fault: %llu bytes at %#llx, of no buffer",
                  mock_vk_u(size), mock_vk_u(address));
    mock_vk_usable(b, VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
    b->o.pending++;
    b->memory->o.pending++;
    pthread_mutex_unlock(&d->lock);
    mock_vk_used_by(b, family);
    return b;
}

static void mock_vk_release(mock_vk_device *d, mock_vk_buffer *b) {
    pthread_mutex_lock(&d->lock);
    b->o.pending--;
    b->memory->o.pending--;
    pthread_mutex_unlock(&d->lock);
}

#endif /* HCQ_TEST_MOCK_VULKAN_MEMORY_H */
