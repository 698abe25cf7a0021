/* Sizes and places that 32 bits do not hold, in memory that is mostly the same pages
   again and again. Part of conformance.c. */
#include <sys/mman.h>

#define LARGE_LINE ((uint64_t)4 << 30)
enum { LARGE_PIECE = 16384, LARGE_PLACES = 6 };

static const uint64_t large_size = LARGE_LINE + (3 << 20);

/* Both ends, the lines of 31 and 32 bits with something before, across and behind. */
static uint64_t large_place(uint32_t i) {
    const uint64_t places[LARGE_PLACES] = {
        0, LARGE_LINE / 2 - 4100, LARGE_LINE - 3 * LARGE_PIECE, LARGE_LINE - 4100,
        LARGE_LINE + 2 * LARGE_PIECE, large_size - LARGE_PIECE
    };
    return places[i % LARGE_PLACES];
}

/* `size` bytes whose first, last and middle MiBs are theirs alone; the others are the
   same 16 MiB again and again, so that all can be written. NULL: not to be had. */
static unsigned char *large_folded(void) {
    enum { UNIT = 16 << 20, MIB = 1 << 20 };
    int file = (int)syscall(SYS_memfd_create, "folded", 0);
    unsigned char *all = (unsigned char *)mmap(NULL, large_size, PROT_NONE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || all == MAP_FAILED || ftruncate(file, UNIT) != 0) {
        return NULL;
    }
    for (uint64_t at = 0; at < large_size; at += UNIT) {
        size_t size = large_size - at < UNIT ? (size_t)(large_size - at) : UNIT;
        CHECK(mmap(all + at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
              MAP_FAILED);
    }
    const uint64_t own[4] = {0, LARGE_LINE - MIB, LARGE_LINE, large_size - MIB};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(mmap(all + own[i], MIB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    }
    close(file);
    return all;
}

static unsigned char *large_newest;

/* Large blocks of the library's memory hooks. */
static void *large_alloc(void *user, size_t size, size_t align) {
    if (size < LARGE_LINE) {
        return test_hook_alloc(user, size, align);
    }
    unsigned char *p = large_newest = large_folded();
    __atomic_add_fetch(&((test_memory *)user)->blocks, p != NULL, __ATOMIC_SEQ_CST);
    return p;
}

static void large_free(void *user, void *ptr, size_t size) {
    if (size < LARGE_LINE) {
        test_hook_free(user, ptr, size);
        return;
    }
    munmap(ptr, size);
    __atomic_sub_fetch(&((test_memory *)user)->blocks, 1, __ATOMIC_SEQ_CST);
}

/* NULL: no buffer may be as large here. */
static hcq_device *large_open(uint32_t ordinal, hcq_buffer *buffer) {
    hcq_device *device = OPEN_WITH(ordinal, .memory = {large_alloc, large_free, &T.memory},
                                   .timeout_ns = 60 * BOUND); /* of a slow machine */
    if (hcq_alloc(device, large_size, HCQ_NO_CACHE, buffer) == HCQ_OK) {
        return device;
    }
    CHECK_OK(hcq_close(device));
    return NULL;
}

typedef struct large_model { unsigned char piece[LARGE_PLACES][LARGE_PIECE]; } large_model;

/* What stands at the places is what the model has, also where nobody wrote. */
static void large_is(hcq_buffer buffer, const large_model *m) {
    for (uint32_t i = 0; i < LARGE_PLACES; i++) {
        CHECK_BYTES(hcq_view(buffer, large_place(i), LARGE_PIECE), m->piece[i], LARGE_PIECE);
    }
}

/* Writes the places from the host. */
static void large_write(hcq_buffer buffer, large_model *m, uint64_t seed) {
    for (uint32_t i = 0; i < LARGE_PLACES; i++) {
        fill_pattern(m->piece[i], LARGE_PIECE, seed + i);
        CHECK_OK(hcq_copyin(hcq_view(buffer, large_place(i), LARGE_PIECE), m->piece[i],
                            LARGE_PIECE));
    }
}

/* At each place a copy from the other buffer's next one, a fill, a write, a kernel;
   there are others' bytes around, but at the ends. */
static void large_record(hcq_queue *q, hcq_program *put, hcq_buffer dst, large_model *d,
                         hcq_buffer src, const large_model *s) {
    for (uint32_t i = 0; i < LARGE_PLACES; i++) {
        const uint32_t next = (i + 1) % LARGE_PLACES, value = 0x01020304u * (i + 1);
        const uint32_t at = i == 0 ? 0 : i == LARGE_PLACES - 1 ? LARGE_PIECE - 8192 : 4096;
        const uint32_t own = ~value;
        unsigned char *bytes = d->piece[i] + at;
        hcq_buffer to = hcq_view(dst, large_place(i) + at, 8192);
        hcq_buffer from = hcq_view(src, large_place(next) + 4096, 0);
        put_args args = {to.address + 8000, 47, value + 9}; /* the last word */
        CHECK(hcq_queue_copy(q, to, from, 5000) >= 0);
        CHECK(hcq_queue_fill(q, hcq_view(to, 4000, 200), 200, value, 4) >= 0);
        CHECK(record_word(q, hcq_view(to, 4088, 4), own, 4) >= 0);
        CHECK(record_one(q, put, &args, sizeof args) >= 0);
        memcpy(bytes, s->piece[next] + 4096, 5000);
        for (uint32_t k = 0; k < 200; k += 4) {
            memcpy(bytes + 4000 + k, &value, 4);
        }
        memcpy(bytes + 4088, &own, 4);
        memcpy(bytes + 8188, &args.value, 4);
    }
}

/* Copies of the eager calls that are of several places at once. */
static void large_transfers(hcq_buffer dst, large_model *d, hcq_buffer src,
                            const large_model *s) {
    hcq_command commands[LARGE_PLACES] = {0};
    for (uint32_t i = 0; i < LARGE_PLACES; i++) {
        const uint32_t next = (i + 2) % LARGE_PLACES;
        hcq_transfer_end to = hcq_transfer_device(hcq_view(dst, large_place(i), 3000));
        hcq_transfer_end from = hcq_transfer_device(hcq_view(src, large_place(next), 3000));
        CHECK_OK(hcq_transfer(to, from, 3000, 0, BOUND));
        memcpy(d->piece[i], s->piece[next], 3000);
        commands[i].kind = HCQ_COMMAND_WRITE;
        commands[i].dst = hcq_view(dst, large_place(i) + 7000, 100);
        commands[i].data = s->piece[i];
        commands[i].size = 100;
        memcpy(d->piece[i] + 7000, s->piece[i], 100);
    }
    hcq_point done;
    CHECK_OK(hcq_transfer_submit(dst.device, NULL, 0, commands, LARGE_PLACES, &done));
    WAIT_OK(done);
}

TEST(places_beyond_4_gib) {
    static large_model one, two;
    hcq_buffer a, b;
    hcq_device *dev = large_open(0, &a);
    hcq_device *dev2 = dev ? large_open(1, &b) : NULL;
    if (!dev2) {
        CHECK_OK(hcq_close(dev));
        SKIP("no buffer may be as large");
        return;
    }
    hcq_buffer c = make_buffer(dev, large_size, HCQ_NO_CACHE);
    CHECK_U64(hcq_view(a, 0, 0).size, large_size);
    CHECK_U64(hcq_view(a, 8, LARGE_LINE + 8).size, LARGE_LINE + 8);
    hcq_program *put = make_put(dev);
    for (int graph = 0; graph < 2; graph++) {
        large_write(a, &one, 1);
        large_write(c, &two, 2);
        hcq_queue *q = make_queue(dev, graph ? HCQ_GRAPH : HCQ_COMPUTE);
        large_record(q, put, a, &one, c, &two);
        CHECK_OK(graph ? hcq_queue_bind(q, dev) : HCQ_OK);
        RUN_OK(q, dev);
        large_is(a, &one);
        large_is(c, &two);
    }
    large_write(b, &two, 3);
    large_transfers(a, &one, b, &two); /* between devices */
    large_is(a, &one);
    large_transfers(b, &two, a, &one);
    large_is(b, &two);
    CHECK_OK(hcq_close(dev));
    CHECK_OK(hcq_close(dev2));
}

/* Every byte of more than 4 GiB, by each means. */
static const uint64_t large_marks[] = {
    0, LARGE_LINE - 1, LARGE_LINE, LARGE_LINE + (3 << 20) - 1
};

static void large_mark(hcq_buffer buffer, unsigned char *host, unsigned char value) {
    for (uint32_t i = 0; i < 4; i++, value++) {
        if (host) {
            host[large_marks[i]] = value;
        } else {
            CHECK_OK(hcq_copyin(hcq_view(buffer, large_marks[i], 1), &value, 1));
        }
    }
}

static void large_marked(hcq_buffer buffer, unsigned char value, unsigned char step) {
    for (uint32_t i = 0; i < 4; i++, value = (unsigned char)(value + step)) {
        CHECK_BYTES(hcq_view(buffer, large_marks[i], 1), &value, 1);
    }
}

static void large_run(hcq_device *device, hcq_queue *q) {
    hcq_point done;
    CHECK_OK(hcq_queue_submit(q, device, &done));
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, 2 * BOUND));
}

TEST(copies_of_more_than_4_gib) {
    T.races_meant = 1;                 /* of most bytes nobody wrote any */
    const char *name = T.variant->name;
    SKIP_IF(T.quick || TEST_SANITIZED || (strcmp(name, "cpu") != 0 && strcmp(name, "mock") != 0),
            "takes seconds: on cpu and mock");
    hcq_buffer d, s;
    hcq_device *device = large_open(0, &d);
    unsigned char *of_d = large_newest;
    if (!device || hcq_alloc(device, large_size, HCQ_NO_CACHE, &s) != HCQ_OK) {
        CHECK_OK(hcq_close(device));
        SKIP("no address space for it");
        return;
    }
    unsigned char *of_s = large_newest; /* is the host's memory, too: pages are dear */
    hcq_queue *fill = make_queue(device, HCQ_COPY), *copy = make_queue(device, HCQ_COMPUTE);
    if (is_cpu()) {                    /* the others take longer, where it is staged, too */
        CHECK_INDEX(hcq_queue_fill(fill, d, large_size, 0x77, 1), 0);
        CHECK_INDEX(hcq_queue_copy(copy, d, s, large_size), 0);
        large_run(device, fill);
        large_marked(d, 0x77, 0);
        large_mark(s, NULL, 0x10);
        large_run(device, copy);
        large_marked(d, 0x10, 1);
    }
    large_mark(d, of_s, 0x20);
    CHECK_OK(hcq_copyin(d, of_s, large_size));
    large_marked(d, 0x20, 1);
    large_mark(s, NULL, 0x30);
    CHECK_OK(hcq_copyout(of_d, s, large_size));
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_U64(of_d[large_marks[i]], 0x30 + i);
    }
    CHECK_OK(hcq_close(device));
}
