/* transfer.h - transfers between devices. Part of conformance.c. */
#include <sys/mman.h>

/* ---- transfers ---- */

enum { ENDS = 5, END_BYTES = TEST_SANITIZED ? 20100 : 100100 };

/* One place that a transfer can read or write. */
typedef struct place {
    unsigned char *host;               /* NULL: `buffer` */
    hcq_buffer buffer;
} place;

static hcq_transfer_end place_end(const place *p, uint32_t offset, uint32_t size) {
    return p->host ? hcq_transfer_host(p->host + offset, size)
                   : hcq_transfer_device(hcq_view(p->buffer, offset, size));
}

static void place_write(const place *p, const unsigned char *bytes, int finish) {
    if (p->host) {
        memcpy(p->host, bytes, END_BYTES);
        return;
    }
    CHECK_OK(hcq_copyin(p->buffer, bytes, END_BYTES));
    CHECK_OK(finish ? hcq_device_synchronize(p->buffer.device, BOUND) : HCQ_OK);
}

static void place_check(const place *p, const unsigned char *want) {
    if (p->host) {
        CHECK(memcmp(p->host, want, END_BYTES) == 0);
    } else {
        CHECK_BYTES(p->buffer, want, END_BYTES);
    }
}

/* Both whole places are known before and after: nothing else is written. */
static void transfer_once(const place *to, const place *from, uint32_t size, uint32_t flags) {
    static unsigned char in[END_BYTES], out[END_BYTES];
    fill_pattern(in, END_BYTES, T.seed + size);
    memset(out, 0xC3, END_BYTES);
    place_write(from, in, flags != 0); /* an unordered transfer does not wait for it */
    place_write(to, out, flags != 0);
    CHECK_OK(hcq_transfer(place_end(to, 5, size), place_end(from, 3, size), size, flags, BOUND));
    memcpy(out + 5, in + 3, size);
    place_check(to, out);
    place_check(from, in);
}

/* Nothing is kept of a device that took part and is closed. */
TEST(transfer_every_way) {
    static const uint32_t sizes[] = {1, 4097, TEST_SANITIZED ? 20011 : 100003};
    static unsigned char host[2][END_BYTES];
    test_memory memory = {0};          /* small: the large ones need many batches */
    hcq_device *small = OPEN_WITH(0, .memory = {test_hook_alloc, test_hook_free, &memory},
                                  .staging_bytes = 4096, .staging_count = 3);
    hcq_device *other = open_other_backend();
    place places[2][ENDS];             /* one, and one in the same memory */
    for (int i = 0; i < 2; i++) {
        const place each[ENDS] = {{.host = host[i]},
                                  {.buffer = make_buffer(T.dev, END_BYTES, 0)},
                                  {.buffer = make_buffer(dev2(), END_BYTES, HCQ_HOST_VISIBLE)},
                                  {.buffer = make_buffer(small, END_BYTES, 0)},
                                  {.buffer = make_buffer(other, END_BYTES, 0)}};
        memcpy(places[i], each, sizeof each);
    }
    for (uint32_t i = 0; i < ENDS * ENDS * 6; i++) {
        transfer_once(&places[0][i % ENDS], &places[1][i / ENDS % ENDS],
                      sizes[i / ENDS / ENDS % 3],
                      i / ENDS / ENDS / 3 % 2 ? HCQ_UNORDERED : 0);
    }
    CHECK_OK(hcq_close(small));
    CHECK_U64(memory.blocks, 0);
    CHECK_OK(hcq_close(other));
}

/* Devices that do not see each other take memory for a few pieces, as large as staging of the
   one that is read, not for all of it. */
TEST(transfers_need_little_memory) {
    enum { SIZE = 400000, PIECE = 3 * 4096 };
    hcq_device *other = open_other_backend();
    hcq_device *small = OPEN_WITH(0, .staging_bytes = 4096, .staging_count = 3);
    hcq_buffer from = make_words(small, SIZE / 4), to = make_words(other, SIZE / 4);
    CHECK_OK(hcq_transfer(hcq_transfer_device(to), hcq_transfer_device(from), SIZE, 0, BOUND));
    CHECK(test_query(small, HCQ_QUERY_ALLOCATED_BYTES) +
          test_query(small, HCQ_QUERY_CACHED_BYTES) <= SIZE + 4 * PIECE);
    CHECK_OK(hcq_close(small));
    CHECK_OK(hcq_close(other));
}

/* From the host to one, on to the other, and back. */
static void transfers_pass(hcq_buffer one, hcq_buffer two) {
    unsigned char bytes[64], out[64] = {0};
    fill_pattern(bytes, 64, T.seed);
    const hcq_transfer_end ends[4] = {hcq_transfer_host(bytes, 64), hcq_transfer_device(one),
                                      hcq_transfer_device(two), hcq_transfer_host(out, 64)};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(hcq_transfer(ends[i + 1], ends[i], 64, HCQ_UNORDERED, BOUND));
    }
    CHECK(memcmp(bytes, out, sizeof out) == 0);
}

/* Behind held work it times out, and from then on host memory is nobody's: a
   page that is gone is not touched. What arrives later is what was there. What is
   unordered passes both, on whichever lanes of one device or two work is held. */
TEST(transfer_times_out) {
    static const uint64_t timeouts[] = {0, SECOND / 100, HCQ_DEADLINE(1)};
    enum { PAGE = 65536 };
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        hcq_point gate = make_gate(T.dev), held;
        hcq_buffer free_one = make_words(T.dev, 16), free_two = make_words(dev2(), 16);
        void *pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        memset(pages, 0x2b, PAGE);
        hcq_buffer a = make_buffer(T.dev, PAGE, HCQ_ZEROED);
        hcq_buffer b = make_buffer(dev2(), PAGE, HCQ_ZEROED);
        hcq_buffer old = make_buffer(T.dev, PAGE, HCQ_ZEROED);
        hcq_buffer c = make_buffer(T.dev, PAGE, HCQ_ZEROED);
        CHECK_OK(submit_behind(make_filler(T.dev, old, 0x19), T.dev, &gate, &held));
        for (int k = 0; k < 3 && i > 0; k++) {
            hcq_device *device = k ? dev2() : T.dev;
            hcq_queue *q = make_queue(device, k < 2 ? HCQ_COPY : HCQ_COMPUTE);
            CHECK_OK(submit_behind(q, device, &gate, NULL));
        }
        hcq_transfer_end host = hcq_transfer_host(pages, PAGE);
        CHECK_RESULT(hcq_transfer(hcq_transfer_device(a), host, PAGE, 0, timeouts[i]), HCQ_TIMEOUT);
        CHECK_RESULT(hcq_transfer(host, hcq_transfer_device(old), PAGE, 0, timeouts[i]),
                     HCQ_TIMEOUT);
        CHECK(((unsigned char *)pages)[0] == 0x2b && ((unsigned char *)pages)[PAGE - 1] == 0x2b);
        CHECK_OK(munmap(pages, PAGE) == 0 ? HCQ_OK : HCQ_ERROR_HOST);
        const hcq_buffer pairs[3][2] = {{b, old}, {old, b}, {c, old}};
        for (int k = 0; k < 3; k++) {
            CHECK_RESULT(hcq_transfer(hcq_transfer_device(pairs[k][0]),
                                      hcq_transfer_device(pairs[k][1]), PAGE, 0, timeouts[i]),
                         HCQ_TIMEOUT);
        }
        transfers_pass(free_one, free_two);
        GATE_END(gate, held);
        synchronize_both();
        uint32_t word = READ32(a, 0);
        CHECK(word == 0 || word == 0x2b2b2b2bu);
        word = READ32(c, 0);
        CHECK(word == 0 || word == 0x19191919u);
        CHECK_OK(hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a), PAGE, 0, BOUND));
        CHECK_U64(READ32(b, 0), READ32(a, 0));
    }
}

/* What both devices get after a transfer that timed out runs behind it, whichever of
   them does the copying. */
TEST(transfer_is_followed_by_both) {
    hcq_device *devices[2] = {T.dev, dev2()};
    for (uint32_t i = 0; i < 2 && devices_share_memory(); i++) {
        hcq_device *to = devices[i], *from = devices[1 - i];
        hcq_point gate = make_gate(from), later[2], beside;
        hcq_buffer a = make_buffer(from, 64, HCQ_ZEROED), b = make_buffer(to, 64, HCQ_ZEROED);
        for (uint32_t n = 0; n < 40 * (i + 1); n++) { /* their submissions count apart */
            CHECK_OK(submit_behind(make_filler(from, a, 0), from, NULL, NULL));
        }
        synchronize_both();
        CHECK_OK(submit_queue(make_filler(from, a, 1), from, &gate, NULL, HCQ_UNORDERED, NULL));
        CHECK_RESULT(hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a), 64, 0, 0),
                     HCQ_TIMEOUT);
        for (int k = 0; k < 2; k++) {  /* what is beside it ends after it on its lane */
            hcq_device *device = devices[k];
            CHECK_OK(submit_behind(make_filler(device, device == to ? b : a, 2), device, NULL,
                                   &later[k]));
            CHECK_OK(submit_queue(make_queue(device, HCQ_COMPUTE), device, NULL, NULL,
                                  HCQ_UNORDERED, &beside));
            WAIT_OK(beside);
            CHECK_RESULT(test_poll(later[k]), HCQ_TIMEOUT);
        }
        GATE_END(gate, later[0]);
        WAIT_OK(later[1]);
        CHECK_FILLED(a, 2);
        CHECK_FILLED(b, 2);
    }
}

/* Whatever ran before on either device is seen, whatever runs later sees it:
   also by work that only waits for the device's timeline. */
TEST(transfer_orders_both_timelines) {
    hcq_buffer a = make_words(T.dev, 64), b = make_words(dev2(), 64), c = make_words(dev2(), 64);
    hcq_queue *writer = make_queue(T.dev, HCQ_COMPUTE), *reader = make_queue(dev2(), HCQ_COPY);
    CHECK_INDEX(record_word(writer, hcq_view(a, 0, 4), 0, 4), 0);
    CHECK_OK(hcq_queue_variable(writer, 0, HCQ_PART_VALUE, 0, 0));
    CHECK_INDEX(record_word(reader, hcq_view(c, 0, 4), 0, 4), 0);
    CHECK_INDEX(hcq_queue_wait_device(reader, dev2()), 1); /* its own: not for itself */
    CHECK_INDEX(hcq_queue_copy(reader, c, b, 256), 2);
    for (uint64_t i = 1; i <= 50; i++) {
        CHECK_OK(submit_variables(writer, &i, 1, NULL));
        CHECK_OK(hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a), 256, 0, BOUND));
        CHECK_OK(submit_queue(reader, dev2(), NULL, NULL, HCQ_UNORDERED, NULL));
        CHECK_U64(READ32(c, 0), i);
    }
}

/* ---- many transfers in one submission ---- */

static hcq_command command_fill(hcq_buffer dst, uint64_t size, uint64_t value,
                                uint32_t value_size) {
    const hcq_command command = {.kind = HCQ_COMMAND_FILL, .dst = dst, .size = size,
                                 .value = value, .value_size = value_size};
    return command;
}

typedef struct transfer_model {
    hcq_buffer buffers[3];
    unsigned char bytes[3][4096];
    unsigned char data[4096];          /* of updates; overwritten after each submission */
    uint64_t random;
} transfer_model;

static hcq_command random_transfer(transfer_model *m) {
    uint64_t r = test_random(&m->random);
    uint32_t to = (uint32_t)(r % 3), from = (to + 1 + (uint32_t)(r / 3 % 2)) % 3;
    uint32_t at = (uint32_t)(r >> 8) % 4000, source = (uint32_t)(r >> 24) % 4000;
    uint32_t size = 1 + (uint32_t)(r >> 40) % 96;
    hcq_buffer dst = hcq_view(m->buffers[to], at, size);
    unsigned char *bytes = m->bytes[to] + at;
    if (r >> 62 == 0) {                /* of 1, 2, 4 or 8 bytes */
        const uint32_t unit = 1u << (r >> 20) % 4;
        at -= at % unit;
        size = unit * (1 + size % 8);
        for (uint32_t i = 0; i < size; i++) {
            m->bytes[to][at + i] = (unsigned char)(r >> i % unit * 8);
        }
        return command_fill(hcq_view(m->buffers[to], at, size), size, r, unit);
    }
    if (r >> 62 == 1) {
        memcpy(bytes, m->data + source, size);
        return command_write(dst, m->data + source, size);
    }
    memcpy(bytes, m->bytes[from] + source, size);
    const hcq_command copy = {.kind = HCQ_COMMAND_COPY, .dst = dst, .size = size,
                              .src = hcq_view(m->buffers[from], source, size)};
    return copy;
}

/* Forty submissions of fifty commands, against a model; half of them are held, by all
   points that they wait for. Lists and data are copied. A buffer may be another device's,
   where that is seen. */
TEST(transfer_lists_at_random) {
    enum { LISTS = 40, COMMANDS = 50 };
    static transfer_model m;
    hcq_command list[COMMANDS];
    const hcq_point gates[2] = {make_gate(T.dev), make_gate(dev2())};
    hcq_point held = {{0}, 0}, done = {{0}, 0};
    m = (transfer_model){.random = T.seed};
    for (int i = 0; i < 3; i++) {
        hcq_device *owner = i == 2 && has_feature(HCQ_FEATURE_MAP) ? dev2() : T.dev;
        m.buffers[i] = make_words(owner, 1024);
    }
    CHECK_OK(hcq_device_synchronize(dev2(), BOUND));
    for (int k = 0; k < LISTS; k++) {
        fill_pattern(m.data, sizeof m.data, T.seed + (uint64_t)k);
        for (int i = 0; i < COMMANDS; i++) {
            list[i] = random_transfer(&m);
        }
        CHECK_OK(hcq_transfer_submit(T.dev, gates, k < LISTS / 2 ? 2 : 0, list, COMMANDS,
                                     k == 0 ? &held : &done));
        memset(m.data, 0xEE, sizeof m.data);
        memset(list, 0xEE, sizeof list);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
        open_gate(gates[i]);
    }
    WAIT_OK(done);
    for (int i = 0; i < 3; i++) {
        CHECK_BYTES(m.buffers[i], m.bytes[i], 4096);
    }
}

/* Updates larger than any staging batch, while everything is held: copied sources and
   lists are given back when they are done. */
TEST(transfer_large_updates) {
    enum { BYTES = 300001, N = 6 };
    hcq_device *device = OPEN_WITH(0, .staging_bytes = 4096, .staging_count = 2);
    static unsigned char data[BYTES];
    uint64_t bytes[2] = {0, 0}, allocated[2] = {0, 0};
    hcq_buffer a[N];
    for (uint32_t i = 0; i < N; i++) {
        a[i] = make_buffer(device, BYTES, HCQ_ZEROED);
    }
    for (uint32_t round = 0; round < 2; round++) {
        hcq_point gate = make_gate(device), done;
        for (uint32_t i = 0; i < N; i++) {
            fill_pattern(data, BYTES, T.seed + i + round);
            const hcq_command update = command_write(a[i], data, BYTES);
            CHECK_OK(hcq_transfer_submit(device, &gate, 1, &update, 1, &done));
        }
        memset(data, 0, BYTES);
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        GATE_END(gate, done);
        for (uint32_t i = 0; i < N; i++) {
            fill_pattern(data, BYTES, T.seed + i + round);
            CHECK_BYTES(a[i], data, BYTES);
        }
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(hcq_trim(device, 0));
        allocated[round] = test_query(device, HCQ_QUERY_ALLOCATED_BYTES);
        bytes[round] = __atomic_load_n(&T.memory.bytes, __ATOMIC_SEQ_CST);
    }
    CHECK_U64(allocated[1], allocated[0]);
    CHECK(bytes[1] <= bytes[0] + 65536);
    CHECK_OK(hcq_close(device));
}

/* They have a lane of their own where the device has one for copies, and fail
   without a trace when their wait does. */
TEST(transfer_list_lane_and_failure) {
    hcq_point gate = make_gate(T.dev), wait = make_gate(T.dev), done, failed, last;
    hcq_buffer a = make_words(T.dev, 16);
    const hcq_command fill = command_fill(a, 64, 6, 4);
    const hcq_command late = command_fill(a, 64, 7, 4);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(submit_behind(make_queue(T.dev, HCQ_COMPUTE), T.dev, &gate, NULL));
    CHECK_OK(hcq_transfer_submit(T.dev, NULL, 0, &fill, 1, &done));
    if (test_info(T.dev).copy_lanes > 0) {
        WAIT_OK(done);
    } else {
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT); /* behind the lane's earlier work */
    }
    GATE_END(gate, done);
    CHECK_OK(hcq_transfer_submit(T.dev, &wait, 1, &late, 1, &failed));
    CHECK_OK(hcq_transfer_submit(T.dev, NULL, 0, &fill, 1, &last));
    CHECK_OK(hcq_signal_fail(wait.signal, HCQ_ERROR_HOST, NULL));
    WAIT_RESULT(failed, HCQ_ERROR_HOST);
    WAIT_OK(last);
    CHECK_U64(READ32(a, 15), 6);
}
