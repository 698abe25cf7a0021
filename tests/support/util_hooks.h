/* util_hooks.h - memory hooks that count, fail when told to, and look whether a block was
   freed as it was made, and nothing written behind it. Part of util.h. */
#pragma once

#if TEST_SANITIZED
#include <sanitizer/asan_interface.h>
#define TEST_POISON(at, size) ASAN_POISON_MEMORY_REGION((at), (size))
#define TEST_UNPOISON(at, size) ASAN_UNPOISON_MEMORY_REGION((at), (size))
#else
#define TEST_POISON(at, size) ((void)0)
#define TEST_UNPOISON(at, size) ((void)0)
#endif

/* ---- memory hooks that count ---- */

typedef struct test_memory {
    uint64_t calls;                    /* allocations so far, atomic like the rest */
    uint64_t blocks, bytes;            /* living */
    uint64_t fail_at;                  /* this call and ... */
    uint64_t fail_until;               /* ... those up to here return NULL */
    uint64_t failed;
} test_memory;

#define TEST_MAGIC 0x7e57b10cu
static const unsigned char test_guard[16] = "behind a block";

typedef struct test_head {
    void *base;
    size_t size;
    uint32_t magic;
} test_head;

/* A sanitizer maps a large block, with its shadow, and unmaps it, which takes longer than what
   a test does with it. So these wait here for the next one of their size: what was freed first
   is given first. Nobody waits for the lock, which a fork may have left locked. */
enum { TEST_LARGE = 65536, TEST_WAITING = 256 };

static struct test_waiting {
    pthread_mutex_t lock;
    uint32_t count;
    struct { void *base; size_t size; } of[TEST_WAITING];
} test_waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *test_get(size_t size, size_t align) {
    struct test_waiting *w = &test_waiting;
    void *base = NULL;
    if (TEST_SANITIZED && size >= TEST_LARGE && pthread_mutex_trylock(&w->lock) == 0) {
        for (uint32_t i = 0; i < w->count && !base; i++) {
            if (w->of[i].size == size && ((uintptr_t)w->of[i].base & (align - 1)) == 0) {
                base = w->of[i].base;
                memmove(&w->of[i], &w->of[i + 1], (--w->count - i) * sizeof w->of[0]);
                TEST_UNPOISON(base, size);
            }
        }
        pthread_mutex_unlock(&w->lock);
    }
    return base || posix_memalign(&base, align, size) == 0 ? base : NULL;
}

static void test_put(void *base, size_t size) {
    struct test_waiting *w = &test_waiting;
    int waits = 0;
    if (TEST_SANITIZED && size >= TEST_LARGE && pthread_mutex_trylock(&w->lock) == 0) {
        waits = w->count < TEST_WAITING;
        if (waits) {
            TEST_POISON(base, size);
            w->of[w->count].base = base;
            w->of[w->count++].size = size;
        }
        pthread_mutex_unlock(&w->lock);
    }
    if (!waits) {
        free(base);
    }
}

static void *test_hook_alloc(void *user, size_t size, size_t align) {
    test_memory *m = (test_memory *)user;
    uint64_t call = __atomic_add_fetch(&m->calls, 1, __ATOMIC_SEQ_CST);
    uint64_t fail_at = __atomic_load_n(&m->fail_at, __ATOMIC_SEQ_CST);
    if (fail_at && call >= fail_at && call <= __atomic_load_n(&m->fail_until, __ATOMIC_SEQ_CST)) {
        __atomic_add_fetch(&m->failed, 1, __ATOMIC_SEQ_CST);
        return NULL;
    }
    if (size >> 40) {                  /* a sanitizer would end the program */
        return NULL;
    }
    if (align == 0 || (align & (align - 1)) || align > 65536 || size == 0) {
        fprintf(stderr, "hook: bad request, size %zu align %zu\n", size, align);
        abort();
    }
    size_t pad = align > 64 ? align : 64;
    void *base = test_get(pad + size + sizeof test_guard, pad);
    if (!base) {
        return NULL;
    }
    unsigned char *p = (unsigned char *)base + pad;
    test_head head = {base, size, TEST_MAGIC};
    memcpy(p - sizeof head, &head, sizeof head);
    memset(p, 0xCB, size < 4096 ? size : 4096); /* nobody may count on zeros, ... */
    memcpy(p + size, test_guard, sizeof test_guard); /* ... or on what follows, ... */
    TEST_POISON(base, pad);            /* ... nor read that */
    TEST_POISON(p + size, sizeof test_guard);
    __atomic_add_fetch(&m->blocks, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&m->bytes, size, __ATOMIC_SEQ_CST);
    return p;
}

static void test_hook_free(void *user, void *ptr, size_t size) {
    test_memory *m = (test_memory *)user;
    test_head head;
    if (!ptr) {
        return;
    }
    TEST_UNPOISON((unsigned char *)ptr - sizeof head, sizeof head);
    memcpy(&head, (unsigned char *)ptr - sizeof head, sizeof head);
    if (head.magic != TEST_MAGIC || head.size != size) {
        fprintf(stderr, "hook: freed with size %zu, was %zu\n", size, head.size);
        abort();
    }
    TEST_UNPOISON((unsigned char *)ptr + size, sizeof test_guard);
    if (memcmp((unsigned char *)ptr + size, test_guard, sizeof test_guard) != 0) {
        fprintf(stderr, "hook: written beyond its %zu bytes\n", size);
        abort();
    }
    head.magic = 0;
    memcpy((unsigned char *)ptr - sizeof head, &head, sizeof head);
    __atomic_sub_fetch(&m->blocks, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&m->bytes, size, __ATOMIC_SEQ_CST);
    size_t pad = (size_t)((unsigned char *)ptr - (unsigned char *)head.base);
    TEST_UNPOISON(head.base, pad);
    test_put(head.base, pad + size + sizeof test_guard);
}
