/* misuse.c - everything that is wrong at a glance is refused: the right code,
   one log line that names the parameter, and the object stays usable.

   misuse [VARIANT] */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "support/util.h"

/* Is one of the words, separated by '|', in the log? */
static int log_has_any(const char *words) {
    char word[64];
    while (*words) {
        size_t n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (log_has(word)) {
            return 1;
        }
        words += n + (words[n] == '|');
    }
    return 0;
}

static void refused(const char *file, int line, const char *what, hcq_result got,
                    hcq_result want, const char *words) {
    test_result(file, line, what, got, want);
    if (words && !log_has_any(words)) {
        fprintf(stderr, "%s:%d: %s: no log line names %s\n", file, line, what, words);
        test_dump();
        _fail(file, line);
    }
}

/* `words` NULL: no logger can be reached from the arguments. */
#define REFUSE(call, want, words) \
    do { \
        log_clear(); \
        hcq_result refused_result = (hcq_result)(call); \
        refused(__FILE__, __LINE__, #call, refused_result, (want), (words)); \
    } while (0)

/* A recording call: the error sticks, is logged, and a reset clears it. */
#define REFUSE_RECORD(queue, call, want, words) \
    do { \
        REFUSE(call, want, words); \
        CHECK_RESULT(hcq_queue_submit((queue), T.dev, NULL), (want)); \
        CHECK_OK(hcq_queue_reset(queue)); \
    } while (0)

/* The queue and the device still work. */
static void check_usable(hcq_queue *queue) {
    hcq_buffer words = make_words(T.dev, 4);
    hcq_point done;
    CHECK_OK(hcq_queue_reset(queue));
    CHECK_INDEX(hcq_queue_fill(queue, words, 16, 77, 4), 0);
    CHECK_OK(hcq_queue_submit(queue, T.dev, &done));
    WAIT_OK(done);
    CHECK_U64(READ32(words, 3), 77);
    CHECK_OK(hcq_queue_reset(queue));
    CHECK_OK(hcq_free(words));
}

static void misuse_open(void **state) {
    (void)state;
    static const char *const bad[] = {"", ":", "CPU:", ":0", "CPU:x", "CPU:-1", "CPU:1x",
                                      "CPU:4294967296", "CPU:18446744073709551616", " CPU",
                                      "CPU 1", "NOSUCH", "NOSUCH:0", "CPUU"};
    char text[64];
    hcq_device *device = (hcq_device *)&text;
    hcq_device_desc desc = test_desc();
    hcq_device_desc empty;
    memset(&empty, 0, sizeof empty);
    REFUSE(hcq_open(NULL, &desc, &device), HCQ_ERROR_INVALID, "name");
    REFUSE(hcq_open("CPU", &desc, NULL), HCQ_ERROR_INVALID, "device");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        log_clear();
        device = NULL;
        hcq_result result = hcq_open(bad[i], &desc, &device);
        if (result != HCQ_ERROR_NO_DEVICE && result != HCQ_ERROR_INVALID) {
            fprintf(stderr, "the name \"%s\" gives %s\n", bad[i], hcq_result_name(result));
        }
        CHECK(result == HCQ_ERROR_NO_DEVICE || result == HCQ_ERROR_INVALID);
        CHECK(device == NULL);
        CHECK(log_has("name") && (bad[i][0] == 0 || log_has(bad[i])));
        CHECK(hcq_open(bad[i], &empty, &device) < 0); /* without a logger: no crash */
    }
    REFUSE(hcq_open("MOCK:4", &desc, &device), HCQ_ERROR_NO_DEVICE, "MOCK:4|device");
    desc = test_desc();
    desc.memory.free_fn = NULL;        /* half a pair of hooks */
    REFUSE(hcq_open(T.variant->backend, &desc, &device), HCQ_ERROR_INVALID, "memory");
    desc = test_desc();
    desc.flags = 0x40000000;
    REFUSE(hcq_open(T.variant->backend, &desc, &device), HCQ_ERROR_INVALID, "flags");
}

static void misuse_device(void **state) {
    (void)state;
    hcq_device_info info;
    hcq_clock clock;
    hcq_error_info error;
    uint64_t value = 5;
    char text[32] = "x";
    REFUSE(hcq_device_info_get(NULL, &info), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_device_info_get(T.dev, NULL), HCQ_ERROR_INVALID, "info");
    REFUSE(hcq_device_query(NULL, HCQ_QUERY_HELD, &value), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_device_query(T.dev, HCQ_QUERY_HELD, NULL), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_device_query(T.dev, (hcq_query)777, &value), HCQ_ERROR_UNSUPPORTED, "key");
    CHECK_U64(value, 5);
    CHECK_U64(hcq_device_timeline(NULL).id, 0);
    CHECK_U64(hcq_device_timeline_value(NULL), 0);
    REFUSE(hcq_device_synchronize(NULL, 0), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_device_clock(NULL, &clock), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_device_clock(T.dev, NULL), HCQ_ERROR_INVALID, "clock");
    REFUSE(hcq_device_error(NULL, &error), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_device_error(T.dev, NULL), HCQ_ERROR_INVALID, "info");
    CHECK(hcq_device_dump(NULL, text, sizeof text) < sizeof text);
    CHECK(memchr(text, 0, sizeof text) != NULL);
    CHECK(hcq_device_dump(T.dev, NULL, 100) > 0);
    (void)hcq_clock_to_host(NULL, 1);
    CHECK_OK(hcq_close(NULL));
    REFUSE(hcq_device_retain(NULL), HCQ_ERROR_INVALID, NULL);
    CHECK_OK(hcq_device_release(NULL)); /* as hcq_close */
}

static void misuse_memory(void **state) {
    (void)state;
    hcq_buffer buffer = make_words(T.dev, 16), other, none;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    unsigned char bytes[128];
    memset(&none, 0, sizeof none);
    REFUSE(hcq_alloc(NULL, 64, 0, &other), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_alloc(T.dev, 64, 0, NULL), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_alloc(T.dev, 0, 0, &other), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_alloc(T.dev, 64, 64, &other), HCQ_ERROR_INVALID, "flags");
    CHECK(hcq_alloc(T.dev, UINT64_MAX, 0, &other) < 0);
    CHECK(hcq_alloc(T.dev, UINT64_MAX / 2 + 1, 0, &other) < 0);
    REFUSE(hcq_import(NULL, bytes, 64, &other), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_import(T.dev, NULL, 64, &other), HCQ_ERROR_INVALID, "ptr");
    REFUSE(hcq_import(T.dev, bytes, 0, &other), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_import(T.dev, bytes, 64, NULL), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_free(none), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_free(hcq_view(buffer, 0, 32)), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_free(hcq_view(buffer, 32, 32)), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_trim(NULL, 0), HCQ_ERROR_INVALID, NULL);
    CHECK(hcq_view(none, 0, 0).device == NULL);
    CHECK(hcq_view(buffer, 64, 0).size == 0);
    CHECK(hcq_view(buffer, 60, 5).device == NULL);
    REFUSE(hcq_copyin(none, bytes, 4), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_copyin(buffer, NULL, 4), HCQ_ERROR_INVALID, "src");
    REFUSE(hcq_copyin(buffer, bytes, 0), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_copyin(buffer, bytes, 65), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_copyout(NULL, buffer, 4), HCQ_ERROR_INVALID, "dst");
    REFUSE(hcq_copyout(bytes, none, 4), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_copyout(bytes, buffer, 0), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_copyout(bytes, buffer, 65), HCQ_ERROR_INVALID, "size");
    other = make_words(T.dev2, 8);
    CHECK_OK(hcq_free(other));
    REFUSE(hcq_free(other), HCQ_ERROR_CLOSED, "buffer");
    REFUSE(hcq_copyin(other, bytes, 4), HCQ_ERROR_CLOSED, "dst");
    REFUSE(hcq_copyout(bytes, other, 4), HCQ_ERROR_CLOSED, "src");
    hcq_buffer forged = buffer;        /* a value somebody wrote into */
    forged.size = 4096;
    CHECK(hcq_copyin(forged, bytes, 65) < 0);
    forged = buffer;
    forged.id += 12345;
    CHECK(hcq_copyin(forged, bytes, 4) < 0);
    CHECK_OK(hcq_copyin(buffer, bytes, 64));
    CHECK_OK(hcq_copyout(bytes, buffer, 64));
    check_usable(q);
}

/* Between buffers; `flags` as they come. */
static hcq_result move(hcq_buffer dst, hcq_buffer src, uint64_t size, uint32_t flags) {
    return hcq_transfer(hcq_transfer_device(dst), hcq_transfer_device(src), size, flags, BOUND);
}

static void misuse_transfers(void **state) {
    (void)state;
    unsigned char bytes[128], more[128];
    hcq_buffer mine = make_words(T.dev, 16), theirs = make_words(T.dev2, 8), none, gone;
    hcq_transfer_end end = hcq_transfer_device(mine), host = hcq_transfer_host(bytes, 64);
    hcq_transfer_end other = hcq_transfer_host(more, 64);
    memset(&none, 0, sizeof none);
    memset(bytes, 1, sizeof bytes);
    gone = make_words(T.dev, 500);
    CHECK_OK(hcq_free(gone));
    uint64_t number = hcq_device_timeline_value(T.dev);
    REFUSE(move(none, mine, 4, 0), HCQ_ERROR_INVALID, "dst");
    REFUSE(move(mine, none, 4, 0), HCQ_ERROR_INVALID, "src");
    REFUSE(move(mine, theirs, 0, 0), HCQ_ERROR_INVALID, "size");
    REFUSE(move(mine, theirs, 33, 0), HCQ_ERROR_INVALID, "size");
    REFUSE(move(theirs, mine, 33, 0), HCQ_ERROR_INVALID, "size");
    REFUSE(move(mine, hcq_view(mine, 8, 32), 32, 0), HCQ_ERROR_INVALID, "overlap");
    REFUSE(move(mine, theirs, 4, HCQ_OVERLAP), HCQ_ERROR_INVALID, "flags");
    REFUSE(move(gone, mine, 4, 0), HCQ_ERROR_CLOSED, "dst");
    REFUSE(move(mine, gone, 4, 0), HCQ_ERROR_CLOSED, "src");
    REFUSE(hcq_transfer(end, hcq_transfer_host(NULL, 64), 4, 0, 0), HCQ_ERROR_INVALID, "src");
    REFUSE(hcq_transfer(hcq_transfer_host(NULL, 64), end, 4, 0, 0), HCQ_ERROR_INVALID, "dst");
    REFUSE(hcq_transfer(host, hcq_transfer_host(NULL, 64), 4, 0, 0), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_transfer(hcq_transfer_host(NULL, 64), host, 4, 0, 0), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_transfer(end, host, 0, 0, BOUND), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_transfer(end, host, 65, 0, BOUND), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_transfer(host, end, 65, 0, BOUND), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_transfer(end, hcq_transfer_host(bytes, 128), 65, 0, BOUND), HCQ_ERROR_INVALID,
           "size");
    REFUSE(hcq_transfer(end, hcq_transfer_host(bytes, 32), 33, 0, BOUND), HCQ_ERROR_INVALID,
           "size");
    REFUSE(hcq_transfer(host, other, 65, 0, BOUND), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_transfer(other, host, 0, 0, BOUND), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_transfer(end, host, 4, 0x80000000u, BOUND), HCQ_ERROR_INVALID, "flags");
    CHECK_U64(hcq_device_timeline_value(T.dev), number); /* nothing was submitted */
    CHECK_OK(hcq_transfer(end, host, 64, 0, BOUND));
    CHECK_U64(READ32(mine, 15), 0x01010101);
}

/* One transfer command of each kind, all in order. */
static hcq_transfer_command transfer_one(hcq_transfer_kind kind, hcq_buffer dst, hcq_buffer src,
                                         const void *data) {
    hcq_transfer_command command;
    memset(&command, 0, sizeof command);
    command.kind = kind;
    command.dst = dst;
    command.src = src;
    command.data = data;
    command.size = 16;
    command.value = 7;
    command.value_size = 4;
    return command;
}

/* The second of two commands is wrong: the first must not run either. */
static void refuse_second(const char *file, int line, hcq_buffer witness,
                          const hcq_transfer_command *bad, hcq_result want, const char *words) {
    hcq_transfer_command two[2];
    uint32_t zeros[4] = {0};
    hcq_point point;
    uint64_t number = hcq_device_timeline_value(T.dev);
    two[0] = transfer_one(HCQ_TRANSFER_FILL, witness, witness, NULL);
    two[1] = *bad;
    log_clear();
    refused(file, line, "hcq_transfer_submit",
            hcq_transfer_submit(T.dev, NULL, 0, two, 2, &point), want, words);
    test_number(file, line, "the next number", hcq_device_timeline_value(T.dev), number);
    test_bytes(file, line, witness, zeros, sizeof zeros);
}
#define REFUSE_SECOND(bad, want, words) \
    refuse_second(__FILE__, __LINE__, witness, &(bad), (want), (words))

static void misuse_transfer_commands(void **state) {
    (void)state;
    unsigned char bytes[64] = {0};
    hcq_buffer a = make_words(T.dev, 8), b = make_words(T.dev, 8), none, gone;
    hcq_buffer witness = make_words(T.dev, 4);
    const hcq_transfer_command fill = transfer_one(HCQ_TRANSFER_FILL, a, b, NULL);
    const hcq_transfer_command copy = transfer_one(HCQ_TRANSFER_COPY, a, b, NULL);
    const hcq_transfer_command update = transfer_one(HCQ_TRANSFER_UPDATE, a, b, bytes);
    hcq_transfer_command bad = fill;
    memset(&none, 0, sizeof none);
    gone = make_words(T.dev, 700);
    CHECK_OK(hcq_free(gone));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    bad.kind = (hcq_transfer_kind)3;
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "kind");
    for (int kind = HCQ_TRANSFER_COPY; kind <= HCQ_TRANSFER_UPDATE; kind++) {
        bad = transfer_one((hcq_transfer_kind)kind, none, b, bytes);
        REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "dst");
        bad.dst = gone;
        REFUSE_SECOND(bad, HCQ_ERROR_CLOSED, "dst");
        bad.dst = a;
        bad.size = 0;
        REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "size");
        bad.size = 36;
        REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "size");
        bad.size = UINT64_MAX;
        REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "size");
    }
    bad = copy;
    bad.src = none;
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "src");
    bad.src = gone;
    REFUSE_SECOND(bad, HCQ_ERROR_CLOSED, "src");
    bad.src = hcq_view(a, 4, 16);
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "overlap");
    bad = update;
    bad.data = NULL;
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "data");
    bad = fill;
    bad.value_size = 3;
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "value_size");
    bad.value_size = 0;
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "value_size");
    bad.value_size = 8;
    bad.size = 12;
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "size");
    bad = fill;
    bad.dst = hcq_view(a, 2, 16);
    REFUSE_SECOND(bad, HCQ_ERROR_INVALID, "dst|align");
    CHECK_OK(hcq_transfer_submit(T.dev, NULL, 0, &fill, 1, NULL));
    CHECK_U64(READ32(a, 3), 7);
}

static void misuse_transfer_submit(void **state) {
    (void)state;
    hcq_buffer a = make_words(T.dev, 4);
    const hcq_transfer_command fill = transfer_one(HCQ_TRANSFER_FILL, a, a, NULL);
    hcq_signal gone = make_signal(T.dev, 0), s = make_signal(T.dev, 0);
    hcq_point stale = hcq_at(gone, 1), high = hcq_at(s, UINT64_MAX), zero = {{0}, 1}, point;
    CHECK_OK(hcq_signal_destroy(gone));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    uint64_t number = hcq_device_timeline_value(T.dev);
    REFUSE(hcq_transfer_submit(NULL, NULL, 0, &fill, 1, &point), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_transfer_submit(T.dev, NULL, 0, NULL, 1, &point), HCQ_ERROR_INVALID, "commands");
    REFUSE(hcq_transfer_submit(T.dev, NULL, 1, &fill, 1, &point), HCQ_ERROR_INVALID, "waits");
    REFUSE(hcq_transfer_submit(T.dev, &stale, 1, &fill, 1, &point), HCQ_ERROR_CLOSED, "waits");
    REFUSE(hcq_transfer_submit(T.dev, &high, 1, &fill, 1, &point), HCQ_ERROR_INVALID, "waits");
    CHECK(hcq_transfer_submit(T.dev, &zero, 1, &fill, 1, &point) < 0);
    CHECK_U64(hcq_device_timeline_value(T.dev), number);
    CHECK_U64(READ32(a, 0), 0);
    CHECK_OK(hcq_transfer_submit(T.dev, NULL, 0, &fill, 1, &point));
    WAIT_OK(point);
    CHECK_U64(READ32(a, 0), 7);
}

static void misuse_alloc_after(void **state) {
    (void)state;
    hcq_signal gone = make_signal(T.dev, 0), s = make_signal(T.dev, 0);
    hcq_point stale = hcq_at(gone, 1), high = hcq_at(s, UINT64_MAX), zero = {{0}, 1}, point;
    hcq_buffer a;
    CHECK_OK(hcq_signal_destroy(gone));
    uint64_t number = hcq_device_timeline_value(T.dev);
    REFUSE(hcq_alloc_after(NULL, NULL, 0, 64, 0, &a, &point), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_alloc_after(T.dev, NULL, 0, 64, 0, NULL, &point), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_alloc_after(T.dev, NULL, 0, 64, 0, &a, NULL), HCQ_ERROR_INVALID, "point");
    REFUSE(hcq_alloc_after(T.dev, NULL, 0, 0, 0, &a, &point), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_alloc_after(T.dev, NULL, 0, 64, 64, &a, &point), HCQ_ERROR_INVALID, "flags");
    REFUSE(hcq_alloc_after(T.dev, NULL, 1, 64, 0, &a, &point), HCQ_ERROR_INVALID, "waits");
    REFUSE(hcq_alloc_after(T.dev, &stale, 1, 64, 0, &a, &point), HCQ_ERROR_CLOSED, "waits");
    REFUSE(hcq_alloc_after(T.dev, &high, 1, 64, 0, &a, &point), HCQ_ERROR_INVALID, "waits");
    CHECK(hcq_alloc_after(T.dev, &zero, 1, 64, 0, &a, &point) < 0);
    CHECK(hcq_alloc_after(T.dev, NULL, 0, UINT64_MAX, 0, &a, &point) < 0);
    CHECK(hcq_alloc_after(T.dev, NULL, 0, UINT64_MAX / 2 + 1, 0, &a, &point) < 0);
    CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0); /* nothing is left behind */
    CHECK_U64(hcq_device_timeline_value(T.dev), number);
    CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, 64, 0, &a, &point));
    WAIT_OK(point);
    CHECK_OK(hcq_free(a));
}

static void misuse_free_after(void **state) {
    (void)state;
    hcq_signal gone = make_signal(T.dev, 0), s = make_signal(T.dev, 0);
    hcq_point stale = hcq_at(gone, 1), high = hcq_at(s, UINT64_MAX), zero = {{0}, 1}, point;
    hcq_point wait = hcq_at(s, 1);
    hcq_buffer a = make_words(T.dev, 4), none, freed = make_words(T.dev, 300);
    memset(&none, 0, sizeof none);
    CHECK_OK(hcq_free(freed));
    CHECK_OK(hcq_signal_destroy(gone));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    uint64_t number = hcq_device_timeline_value(T.dev);
    REFUSE(hcq_free_after(none, NULL, 0, &point), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_free_after(hcq_view(a, 0, 8), &wait, 1, &point), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_free_after(hcq_view(a, 8, 8), &wait, 1, &point), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_free_after(freed, &wait, 1, &point), HCQ_ERROR_CLOSED, "buffer");
    REFUSE(hcq_free_after(a, NULL, 1, &point), HCQ_ERROR_INVALID, "waits");
    REFUSE(hcq_free_after(a, &stale, 1, &point), HCQ_ERROR_CLOSED, "waits");
    REFUSE(hcq_free_after(a, &high, 1, &point), HCQ_ERROR_INVALID, "waits");
    CHECK(hcq_free_after(a, &zero, 1, &point) < 0);
    CHECK_U64(hcq_device_timeline_value(T.dev), number);
    CHECK_U64(READ32(a, 0), 0);        /* still alive */
    CHECK_OK(hcq_free_after(a, &wait, 1, &point));
    REFUSE(hcq_free_after(a, &wait, 1, NULL), HCQ_ERROR_CLOSED, "buffer");
    REFUSE(hcq_free(a), HCQ_ERROR_CLOSED, "buffer");
    CHECK_OK(hcq_signal_set(s, 1));
    WAIT_OK(point);
    REFUSE(hcq_free(a), HCQ_ERROR_CLOSED, "buffer");
}

static void misuse_signals(void **state) {
    (void)state;
    hcq_signal s = make_signal(T.dev, 5), other;
    uint64_t value = 0;
    const hcq_point one = {{0}, 0};
    REFUSE(hcq_signal_create(NULL, 0, &other), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_signal_create(T.dev, 0, NULL), HCQ_ERROR_INVALID, "signal");
    REFUSE(hcq_signal_create(T.dev, UINT64_MAX, &other), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_signal_value(s, NULL), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_signal_set(s, 5), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_signal_set(s, UINT64_MAX), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_signal_reset(s, UINT64_MAX), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_signal_fail(s, HCQ_OK), HCQ_ERROR_INVALID, "result");
    REFUSE(hcq_signal_fail(s, HCQ_TIMEOUT), HCQ_ERROR_INVALID, "result");
    REFUSE(hcq_signal_timestamp(s, NULL), HCQ_ERROR_INVALID, "device_ns");
    REFUSE(hcq_wait(NULL, 1, HCQ_ALL, 0), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_wait(&one, 1, (hcq_wait_mode)7, 0), HCQ_ERROR_INVALID, NULL);
    CHECK(hcq_wait(&one, 1, HCQ_ALL, 0) < 0); /* zero is no signal */
    hcq_signal line = hcq_device_timeline(T.dev);
    REFUSE(hcq_signal_set(line, 100), HCQ_ERROR_INVALID, "signal|timeline");
    REFUSE(hcq_signal_destroy(line), HCQ_ERROR_INVALID, "signal|timeline");
    REFUSE(hcq_signal_fail(line, HCQ_ERROR_HOST), HCQ_ERROR_INVALID, "signal|timeline");
    REFUSE(hcq_signal_retain(line), HCQ_ERROR_INVALID, "signal|timeline");
    REFUSE(hcq_signal_release(line), HCQ_ERROR_INVALID, "signal|timeline");
    REFUSE(hcq_signal_label(s, NULL), HCQ_ERROR_INVALID, "label");
    CHECK(hcq_signal_retain(one.signal) < 0);
    CHECK(hcq_signal_release(one.signal) < 0);
    CHECK(hcq_signal_label(one.signal, "x") < 0);
    CHECK_OK(hcq_signal_create(T.dev, 0, &other));
    CHECK_OK(hcq_signal_destroy(other));
    CHECK_RESULT(hcq_signal_retain(other), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_release(other), HCQ_ERROR_CLOSED);
    CHECK_RESULT(hcq_signal_label(other, "x"), HCQ_ERROR_CLOSED);
    CHECK_OK(hcq_signal_value(s, &value));
    CHECK_U64(value, 5);
    CHECK_OK(hcq_signal_set(s, 6));
}

static void never_called(void *user, hcq_result result) {
    (void)result;
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

static void misuse_notifications(void **state) {
    (void)state;
    int calls = 0;
    intptr_t handle = 0;
    char text[64] = "x";
    hcq_signal s = make_signal(T.dev, 5), gone = make_signal(T.dev, 0);
    hcq_point point = hcq_at(s, 6), stale = hcq_at(gone, 1), high = hcq_at(s, UINT64_MAX);
    hcq_point zero = {{0}, 1};
    hcq_notification n = {0};
    CHECK_OK(hcq_signal_destroy(gone));
    REFUSE(hcq_notify(point, NULL, &calls, &n), HCQ_ERROR_INVALID, "fn");
    REFUSE(hcq_notify(high, never_called, &calls, &n), HCQ_ERROR_INVALID, "point|value");
    REFUSE(hcq_notify(stale, never_called, &calls, &n), HCQ_ERROR_CLOSED, NULL);
    CHECK(hcq_notify(zero, never_called, &calls, &n) < 0);
    REFUSE(hcq_notify_handle(point, NULL, &n), HCQ_ERROR_INVALID, "handle");
    REFUSE(hcq_notify_handle(high, &handle, &n), HCQ_ERROR_INVALID, "point|value");
    REFUSE(hcq_notify_handle(stale, &handle, &n), HCQ_ERROR_CLOSED, NULL);
    CHECK(hcq_notify_handle(zero, &handle, &n) < 0);
    n.id = 0;
    CHECK_RESULT(hcq_notify_cancel(n), HCQ_ERROR_CLOSED);
    n.id = UINT64_MAX;
    CHECK_RESULT(hcq_notify_cancel(n), HCQ_ERROR_CLOSED);
    (void)hcq_explain(NULL, 1, text, sizeof text);
    CHECK(memchr(text, 0, sizeof text) != NULL);
    memset(text, 'x', sizeof text);
    (void)hcq_explain(&zero, 1, text, sizeof text);
    CHECK(memchr(text, 0, sizeof text) != NULL);
    (void)hcq_explain(&point, 1, NULL, 100);
    CHECK_OK(hcq_signal_set(s, 6));
    CHECK_U64(calls, 0);
    CHECK_OK(hcq_notify(point, never_called, &calls, NULL)); /* reached: at once */
    CHECK_U64(calls, 1);
}

static void misuse_programs(void **state) {
    (void)state;
    hcq_program *add = make_add(T.dev), *program = NULL;
    hcq_program_info info;
    hcq_program_desc desc = {"named", k_add, {HCQ_ARG_INOUT, HCQ_ARG_U32}, NULL, NULL,
                             {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_buffer a = make_words(T.dev, 4);
    uint64_t values[2] = {1, 1};
    unsigned char block[64];
    REFUSE(hcq_program_create(NULL, &desc, &program), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_program_create(T.dev, NULL, &program), HCQ_ERROR_INVALID, "desc");
    REFUSE(hcq_program_create(T.dev, &desc, NULL), HCQ_ERROR_INVALID, "program");
    desc.args[1] = 200;
    REFUSE(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_INVALID, "args");
    desc.args[1] = HCQ_ARG_STRUCT(0, 4);
    REFUSE(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_INVALID, "args");
    desc.args[1] = HCQ_ARG_STRUCT(12, 3);
    REFUSE(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_INVALID, "args");
    desc.args[1] = HCQ_ARG_STRUCT(64, 32);
    REFUSE(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_INVALID, "args");
    desc.args[1] = HCQ_ARG_U32;
    desc.cpu = NULL;
    REFUSE(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_NO_KERNEL, "kernel|cpu|named");
    desc.library = "./no-such-library.so";
    desc.symbol = "k";
    REFUSE(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_NO_KERNEL,
           is_vulkan() ? "spirv" : is_cuda() ? "ptx" : "library|no-such-library");
    desc.symbol = NULL;
    CHECK(hcq_program_create(T.dev, &desc, &program) < 0);
    CHECK(program == NULL);
    REFUSE(hcq_program_info_get(NULL, &info), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_program_info_get(add, NULL), HCQ_ERROR_INVALID, "info");
    REFUSE(hcq_program_fill_kernargs(NULL, &a, 1, values, 2, block, 64), HCQ_ERROR_INVALID,
           NULL);
    REFUSE(hcq_program_fill_kernargs(add, NULL, 1, values, 2, block, 64), HCQ_ERROR_INVALID,
           "buffers");
    REFUSE(hcq_program_fill_kernargs(add, &a, 0, values, 2, block, 64), HCQ_ERROR_INVALID,
           "buffer_count");
    REFUSE(hcq_program_fill_kernargs(add, &a, 1, NULL, 2, block, 64), HCQ_ERROR_INVALID,
           "values");
    REFUSE(hcq_program_fill_kernargs(add, &a, 1, values, 1, block, 64), HCQ_ERROR_INVALID,
           "value_count");
    REFUSE(hcq_program_fill_kernargs(add, &a, 1, values, 2, NULL, 64), HCQ_ERROR_INVALID,
           "block");
    REFUSE(hcq_program_fill_kernargs(add, &a, 1, values, 2, block, 15), HCQ_ERROR_INVALID,
           "block_size");
    REFUSE(hcq_program_call(NULL, &a, 1, values, 2, NULL, NULL, NULL), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_program_call(add, &a, 2, values, 2, NULL, NULL, NULL), HCQ_ERROR_INVALID,
           "buffer_count");
    REFUSE(hcq_program_call(add, &a, 1, values, 0, NULL, NULL, NULL), HCQ_ERROR_INVALID,
           "value_count");
    CHECK_OK(hcq_program_call(add, &a, 1, values, 2, NULL, NULL, NULL));
    CHECK_U64(READ32(a, 0), 1);
}

static void misuse_queue_objects(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *none = NULL;
    hcq_command command;
    hcq_point point;
    REFUSE(hcq_queue_create(NULL, HCQ_COMPUTE, &none), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_create(T.dev, HCQ_COMPUTE, NULL), HCQ_ERROR_INVALID, "queue");
    REFUSE(hcq_queue_create(T.dev, (hcq_queue_kind)99, &none), HCQ_ERROR_INVALID, "kind");
    CHECK(none == NULL);
    hcq_queue_destroy(NULL);
    REFUSE(hcq_queue_reset(NULL), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_label(NULL, "x"), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_command_label(q, 0, "x"), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_command_flags(q, 0, 0), HCQ_ERROR_INVALID, "index");
    CHECK_INDEX(hcq_queue_memory_barrier(q), 0);
    REFUSE(hcq_queue_command_flags(q, 0, 2), HCQ_ERROR_INVALID, "flags");
    CHECK_OK(hcq_queue_command_label(q, 0, "fine"));
    REFUSE(hcq_queue_command(q, 1, &command), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_command(q, 0, NULL), HCQ_ERROR_INVALID, "command");
    REFUSE(hcq_queue_command(NULL, 0, &command), HCQ_ERROR_INVALID, NULL);
    CHECK_U64(hcq_queue_count(NULL), 0);
    REFUSE(hcq_queue_bind(NULL, T.dev), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_bind(q, NULL), HCQ_ERROR_INVALID, "device");
    REFUSE(hcq_queue_submit(NULL, T.dev, &point), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_submit(q, NULL, &point), HCQ_ERROR_INVALID, "device");
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    check_usable(q);
}

static void misuse_recording(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
    hcq_signal s = make_signal(T.dev, 0), zero = {0};
    hcq_signal line = hcq_device_timeline(T.dev);
    const hcq_custom_type huge = {"huge", 4097, {{"CPU", NULL}}, {{0, 0}}, NULL};
    REFUSE(hcq_queue_wait(NULL, hcq_at(s, 1)), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_signal(NULL, hcq_at(s, 1)), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_wait_device(NULL, T.dev), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_timestamp(NULL, s), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_memory_barrier(NULL), HCQ_ERROR_INVALID, NULL);
    REFUSE_RECORD(q, hcq_queue_wait_device(q, NULL), HCQ_ERROR_INVALID, "device");
    CHECK(hcq_queue_wait(q, hcq_at(zero, 1)) < 0);
    CHECK_OK(hcq_queue_reset(q));
    CHECK(hcq_queue_signal(q, hcq_at(zero, 1)) < 0);
    CHECK_OK(hcq_queue_reset(q));
    CHECK(hcq_queue_timestamp(q, zero) < 0);
    CHECK_OK(hcq_queue_reset(q));
    REFUSE_RECORD(q, hcq_queue_signal(q, hcq_at(line, 99)), HCQ_ERROR_INVALID,
                  "point|timeline");
    REFUSE_RECORD(q, hcq_queue_signal(q, hcq_at(s, UINT64_MAX)), HCQ_ERROR_INVALID,
                  "point|value");
    REFUSE_RECORD(q, hcq_queue_host(q, NULL, NULL), HCQ_ERROR_INVALID, "fn");
    REFUSE_RECORD(q, hcq_queue_custom(q, NULL, &s), HCQ_ERROR_INVALID, "type");
    REFUSE_RECORD(q, hcq_queue_custom(q, &huge, &s), HCQ_ERROR_INVALID, "type|payload_size");
    REFUSE_RECORD(copy, hcq_queue_memory_barrier(copy), HCQ_ERROR_INVALID, "queue|copy");
    REFUSE_RECORD(q, hcq_queue_append(q, NULL), HCQ_ERROR_INVALID, "other");
    REFUSE(hcq_queue_append(NULL, q), HCQ_ERROR_INVALID, NULL);
    hcq_queue *bad = make_queue(T.dev, HCQ_COMPUTE);
    CHECK(hcq_queue_host(bad, NULL, NULL) < 0);
    CHECK_INDEX(hcq_queue_append(q, bad), HCQ_ERROR_INVALID); /* its sticky error */
    CHECK_OK(hcq_queue_reset(q));
    check_usable(q);
    check_usable(copy);
}

static void misuse_exec(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *copy = make_queue(T.dev, HCQ_COPY);
    hcq_program *add = make_add(T.dev), *foreign = make_add(T.dev2);
    hcq_buffer a = make_words(T.dev, 4), freed = make_words(T.dev, 4000);
    const hcq_dims one = {1, 1, 1};
    add_args args = {a.address, 1, 4}, bad = {16, 1, 4};
    CHECK_OK(hcq_free(freed));
    REFUSE(hcq_queue_exec(NULL, add, &args, sizeof args, one, one), HCQ_ERROR_INVALID, NULL);
    REFUSE_RECORD(q, hcq_queue_exec(q, NULL, &args, sizeof args, one, one), HCQ_ERROR_INVALID,
                  "program");
    REFUSE_RECORD(q, hcq_queue_exec(q, add, NULL, 0, one, one), HCQ_ERROR_INVALID, "args");
    REFUSE_RECORD(q, hcq_queue_exec(q, foreign, &args, sizeof args, one, one), HCQ_ERROR_FOREIGN,
                  "program");
    for (size_t size = 0; size <= 2 * sizeof args; size += 4) {
        if (size == sizeof args) { continue; }
        REFUSE_RECORD(q, hcq_queue_exec(q, add, &args, size, one, one), HCQ_ERROR_INVALID,
                      "args_size");
    }
    REFUSE_RECORD(copy, hcq_queue_exec(copy, add, &args, sizeof args, one, one), HCQ_ERROR_INVALID,
                  "queue|copy");
    log_clear();
    CHECK(hcq_queue_exec(q, add, &bad, sizeof bad, one, one) < 0); /* an address in no buffer */
    CHECK(log_has_any("args|argument"));
    CHECK_OK(hcq_queue_reset(q));
    bad.dst = a.address + 16;          /* just behind the end */
    CHECK(hcq_queue_exec(q, add, &bad, sizeof bad, one, one) < 0);
    CHECK_OK(hcq_queue_reset(q));
    bad.dst = freed.address;
    CHECK(hcq_queue_exec(q, add, &bad, sizeof bad, one, one) < 0);
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, one, one), 0);
    uint64_t address = 1;
    CHECK(hcq_queue_update_arg(q, 0, 0, &address, 8) < 0);
    REFUSE(hcq_queue_update_arg(q, 0, 1, NULL, 4), HCQ_ERROR_INVALID, "value");
    REFUSE(hcq_queue_update_arg(q, 0, 1, &address, 8), HCQ_ERROR_INVALID, "size");
    REFUSE(hcq_queue_update_arg(q, 0, 9, &address, 8), HCQ_ERROR_INVALID, "arg");
    REFUSE(hcq_queue_update_arg(q, 9, 0, &address, 8), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_update_exec(q, 9, &one, &one), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_update_exec(NULL, 0, &one, &one), HCQ_ERROR_INVALID, NULL);
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    CHECK_U64(READ32(a, 0), 1);
    hcq_program_destroy(NULL);
    check_usable(q);
}

static void misuse_copies(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    hcq_buffer a = make_words(T.dev, 16), b = make_words(T.dev, 16), none, gone;
    memset(&none, 0, sizeof none);
    gone = make_words(T.dev, 3000);
    CHECK_OK(hcq_free(gone));
    REFUSE(hcq_queue_copy(NULL, a, b, 4), HCQ_ERROR_INVALID, NULL);
    REFUSE_RECORD(q, hcq_queue_copy(q, none, b, 4), HCQ_ERROR_INVALID, "dst");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, none, 4), HCQ_ERROR_INVALID, "src");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, b, 0), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, b, 65), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, hcq_view(b, 32, 0), 33), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, b, UINT64_MAX), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_copy(q, hcq_view(a, 8, 32), a, 32), HCQ_ERROR_INVALID,
                  "overlap");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, hcq_view(a, 31, 32), 32), HCQ_ERROR_INVALID,
                  "overlap");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, a, 64), HCQ_ERROR_INVALID, "overlap");
    REFUSE_RECORD(q, hcq_queue_copy(q, gone, a, 4), HCQ_ERROR_CLOSED, "dst");
    REFUSE_RECORD(q, hcq_queue_copy(q, a, gone, 4), HCQ_ERROR_CLOSED, "src");
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(a, 32, 32), a, 32), 0); /* touching is fine */
    REFUSE(hcq_queue_update_copy(NULL, 0, &a, &b, 4), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_update_copy(q, 1, &a, &b, 4), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_update_copy(q, 0, &none, &b, 4), HCQ_ERROR_INVALID, "dst");
    REFUSE(hcq_queue_update_copy(q, 0, &gone, &b, 4), HCQ_ERROR_CLOSED, "dst");
    REFUSE(hcq_queue_update_copy(q, 0, NULL, NULL, 33), HCQ_ERROR_INVALID, "size|overlap");
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    REFUSE(hcq_queue_fill(NULL, a, 4, 1, 4), HCQ_ERROR_INVALID, NULL);
    CHECK_OK(hcq_queue_reset(q));
    REFUSE_RECORD(q, hcq_queue_fill(q, none, 4, 1, 4), HCQ_ERROR_INVALID, "dst");
    REFUSE_RECORD(q, hcq_queue_fill(q, a, 0, 1, 4), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_fill(q, a, 68, 1, 4), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_fill(q, a, 12, 1, 3), HCQ_ERROR_INVALID, "value_size");
    REFUSE_RECORD(q, hcq_queue_fill(q, a, 16, 1, 16), HCQ_ERROR_INVALID, "value_size");
    REFUSE_RECORD(q, hcq_queue_fill(q, a, 16, 1, 0), HCQ_ERROR_INVALID, "value_size");
    REFUSE_RECORD(q, hcq_queue_fill(q, a, 6, 1, 4), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(q, hcq_queue_fill(q, hcq_view(a, 2, 8), 8, 1, 4), HCQ_ERROR_INVALID,
                  "dst|align");
    REFUSE_RECORD(q, hcq_queue_fill(q, gone, 8, 1, 4), HCQ_ERROR_CLOSED, "dst");
    REFUSE_RECORD(q, hcq_queue_write(q, none, 1, 4), HCQ_ERROR_INVALID, "dst");
    REFUSE_RECORD(q, hcq_queue_write(q, a, 1, 2), HCQ_ERROR_INVALID, "value_size");
    REFUSE_RECORD(q, hcq_queue_write(q, hcq_view(a, 2, 8), 1, 4), HCQ_ERROR_INVALID,
                  "dst|align");
    REFUSE_RECORD(q, hcq_queue_write(q, hcq_view(a, 4, 8), 1, 8), HCQ_ERROR_INVALID,
                  "dst|align");
    REFUSE_RECORD(q, hcq_queue_write(q, hcq_view(a, 60, 4), 1, 8), HCQ_ERROR_INVALID,
                  "dst|size");
    check_usable(q);
}

static void misuse_foreign(void **state) {
    (void)state;
    hcq_device_desc desc = test_desc();
    hcq_device *other = NULL;
    const char text[16] = "sixteen bytes..";
    desc.cpu = NULL;
    desc.backend_desc = NULL;
    CHECK_OK(hcq_open(is_mock() ? "CPU" : "MOCK", &desc, &other)); /* another backend */
    hcq_buffer theirs = make_words(other, 16), mine = make_words(T.dev, 16);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *theirs_q = make_queue(other, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    add_args args = {theirs.address, 1, 1};
    const hcq_dims one = {1, 1, 1};
    hcq_device_info info;
    CHECK_OK(hcq_device_info_get(T.dev, &info));
    hcq_transfer_command command = transfer_one(HCQ_TRANSFER_COPY, mine, theirs, NULL);
    REFUSE(hcq_transfer_submit(T.dev, NULL, 0, &command, 1, NULL), HCQ_ERROR_FOREIGN, "src");
    command = transfer_one(HCQ_TRANSFER_COPY, theirs, mine, NULL);
    REFUSE(hcq_transfer_submit(T.dev, NULL, 0, &command, 1, NULL), HCQ_ERROR_FOREIGN, "dst");
    command = transfer_one(HCQ_TRANSFER_FILL, theirs, mine, NULL);
    REFUSE(hcq_transfer_submit(T.dev, NULL, 0, &command, 1, NULL), HCQ_ERROR_FOREIGN, "dst");
    command = transfer_one(HCQ_TRANSFER_UPDATE, theirs, mine, text);
    REFUSE(hcq_transfer_submit(T.dev, NULL, 0, &command, 1, NULL), HCQ_ERROR_FOREIGN, "dst");
    REFUSE_RECORD(q, hcq_queue_copy(q, mine, theirs, 64), HCQ_ERROR_FOREIGN, "src");
    REFUSE_RECORD(q, hcq_queue_copy(q, theirs, mine, 64), HCQ_ERROR_FOREIGN, "dst");
    REFUSE_RECORD(q, hcq_queue_fill(q, theirs, 64, 1, 4), HCQ_ERROR_FOREIGN, "dst");
    REFUSE_RECORD(q, hcq_queue_write(q, theirs, 1, 4), HCQ_ERROR_FOREIGN, "dst");
    CHECK(hcq_queue_exec(q, add, &args, sizeof args, one, one) < 0);
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_fill(q, mine, 64, 1, 4), 0);
    REFUSE(hcq_queue_update_copy(q, 0, &theirs, NULL, HCQ_KEEP), HCQ_ERROR_INVALID,
           "index|kind");
    REFUSE(hcq_queue_submit(theirs_q, T.dev, NULL), HCQ_ERROR_FOREIGN, "queue|device");
    REFUSE(hcq_queue_submit(q, other, NULL), HCQ_ERROR_FOREIGN, "queue|device");
    REFUSE(hcq_queue_bind(q, other), HCQ_ERROR_FOREIGN, "queue|device");
    CHECK_INDEX(hcq_queue_append(q, theirs_q), HCQ_ERROR_FOREIGN);
    check_usable(q);
    CHECK_OK(hcq_close(other));
}

static void misuse_updates(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_signal s = make_signal(T.dev, 0), zero = {0};
    hcq_signal line = hcq_device_timeline(T.dev);
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 0)), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 1)), 1);
    CHECK_INDEX(hcq_queue_timestamp(q, s), 2);
    REFUSE(hcq_queue_update_wait(NULL, 0, &s, 1), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_update_wait(q, 3, &s, 1), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_update_wait(q, 1, &s, 1), HCQ_ERROR_INVALID, "index|kind");
    CHECK(hcq_queue_update_wait(q, 0, &zero, 1) < 0);
    REFUSE(hcq_queue_update_signal(NULL, 1, &s, 1), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_update_signal(q, 0, &s, 1), HCQ_ERROR_INVALID, "index|kind");
    REFUSE(hcq_queue_update_signal(q, 1, &line, 1), HCQ_ERROR_INVALID, "signal|timeline");
    REFUSE(hcq_queue_update_signal(q, 1, NULL, (uint64_t)INT64_MAX + 1), HCQ_ERROR_INVALID,
           "value");
    REFUSE(hcq_queue_update_custom(q, 0, &s), HCQ_ERROR_INVALID, "index|kind");
    REFUSE(hcq_queue_update_custom(NULL, 0, &s), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_variable(NULL, 0, HCQ_PART_SIZE, 0, 0), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_variable(q, 7, HCQ_PART_SIZE, 0, 0), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_variable(q, 0, HCQ_PART_SIZE, 0, 0), HCQ_ERROR_INVALID, "part|kind");
    REFUSE(hcq_queue_variable(q, 0, 77, 0, 0), HCQ_ERROR_INVALID, "part");
    hcq_buffer a = make_words(T.dev, 4);
    CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 3);
    REFUSE(hcq_queue_variable(q, 3, HCQ_PART_VALUE, 64, 0), HCQ_ERROR_INVALID, "variable");
    REFUSE(hcq_queue_variable(q, 3, HCQ_PART_ARG, 0, 0), HCQ_ERROR_INVALID, "part|kind");
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    WAIT_OK(hcq_at(s, 1));
    CHECK_U64(READ32(a, 0), 1);
    check_usable(q);
}

static void misuse_submissions(void **state) {
    (void)state;
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE), *none = NULL;
    hcq_signal s = make_signal(T.dev, 5), gone = make_signal(T.dev, 0);
    CHECK_OK(hcq_signal_destroy(gone));
    hcq_point wait = hcq_at(gone, 1), stale = hcq_at(s, 5), raise = hcq_at(s, 6);
    hcq_point line = hcq_at(hcq_device_timeline(T.dev), 1000), point;
    hcq_submission sub;
    memset(&sub, 0, sizeof sub);
    uint64_t number = hcq_device_timeline_value(T.dev);
    REFUSE(hcq_submit(NULL, &sub, 1, &point), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_submit(T.dev, NULL, 1, &point), HCQ_ERROR_INVALID, "submissions");
    REFUSE(hcq_submit_and_wait(NULL, &sub, 1, 0, &point), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_submit_and_wait(T.dev, NULL, 1, 0, &point), HCQ_ERROR_INVALID, "submissions");
    sub.queue_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "queues");
    sub.queues = &none;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "queues");
    sub.queues = &q;
    sub.wait_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "waits");
    sub.waits = &wait;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_CLOSED, "waits");
    sub.wait_count = 0;
    sub.signal_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "signals");
    sub.signals = &wait;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_CLOSED, "signals");
    sub.signals = &stale;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "signals|value|rise");
    sub.signals = &line;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "signals|timeline");
    sub.signals = &raise;
    sub.variable_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "variables");
    sub.variable_count = 0;
    static const uint32_t flags[] = {HCQ_OVERLAP, HCQ_STEP, HCQ_COPY_LISTS, 0x80000000u};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) { /* three are for graphs */
        sub.flags = flags[i];
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "flags");
        REFUSE(hcq_submit_and_wait(T.dev, &sub, 1, BOUND, &point), HCQ_ERROR_INVALID, "flags");
    }
    sub.flags = 0;
    hcq_buffer input = make_words(T.dev, 4);
    sub.inputs = &input;               /* and so are inputs */
    sub.input_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "inputs");
    sub.inputs = NULL;
    sub.input_count = 0;
    hcq_buffer a = make_words(T.dev, 4);
    CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 0);
    CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_VALUE, 2, 0));
    uint64_t values[3] = {7, 8, 9};
    sub.variables = values;
    sub.variable_count = 2;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "variable");
    CHECK_U64(hcq_device_timeline_value(T.dev), number); /* nothing was submitted */
    CHECK_RESULT(test_poll(raise), HCQ_TIMEOUT);
    sub.variable_count = 3;
    CHECK_OK(hcq_submit(T.dev, &sub, 1, &point));
    WAIT_OK(point);
    WAIT_OK(raise);
    CHECK_U64(READ32(a, 0), 9);
    check_usable(q);
}

static void misuse_registry(void **state) {
    (void)state;
    hcq_registry *registry = NULL;
    uint32_t count = 0;
    hcq_backend backend = mock_backend;
    hcq_memory_hooks half = {NULL, test_hook_free, NULL};
    CHECK_RESULT(hcq_registry_create(NULL, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_registry_create(&half, &registry), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_registry_register(NULL, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_registry_unregister(NULL, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_registry_unregister(NULL, &backend), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_registry_drivers(NULL, NULL, 0, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_registry_drivers(NULL, NULL, 4, &count), HCQ_ERROR_INVALID);
    CHECK(hcq_registry_find(NULL, NULL) == NULL);
    CHECK(hcq_registry_find(NULL, "NOSUCH") == NULL);
    CHECK_OK(hcq_registry_create(NULL, &registry));
    backend.version = HCQ_BACKEND_VERSION + 1;
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend = mock_backend;
    backend.name = NULL;
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend = mock_backend;
    backend.name = "A:B";              /* "A:B" is device B of A */
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend.name = "";
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend.name = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"; /* 32 characters */
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend = mock_backend;
    backend.driver_destroy = NULL;     /* create without destroy */
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend = mock_backend;
    backend.devices = NULL;
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend = mock_backend;
    backend.submit = NULL;             /* a function that is not optional */
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    backend = mock_backend;
    backend.patch = NULL;              /* encode without patch */
    CHECK_RESULT(hcq_registry_register(registry, &backend), HCQ_ERROR_INVALID);
    hcq_backend many[9];
    static const char *const names[9] = {"A", "B", "C", "D", "E", "F", "G", "H", "I"};
    for (int i = 0; i < 9; i++) {
        many[i] = mock_backend;
        many[i].name = names[i];
        CHECK_RESULT(hcq_registry_register(registry, &many[i]),
                     i < 8 ? HCQ_OK : HCQ_ERROR_LIMIT);
    }
    hcq_registry_destroy(registry);
}

static void misuse_drivers(void **state) {
    (void)state;
    static const char *const unknown[] = {"", "NOSUCH", "CPU:0", "cpu", "CPUU", "CP"};
    hcq_device_desc desc = test_desc();
    hcq_device *device = NULL;
    hcq_driver *driver = NULL;
    hcq_driver_info info;
    hcq_device_info infos[8];
    uint32_t count = 0;
    CHECK_RESULT(hcq_driver_create(NULL, NULL, &driver), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_driver_create(NULL, T.variant->backend, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_driver_create_id(NULL, 1, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_driver_create_id(NULL, 0, &driver), HCQ_ERROR_NO_DEVICE);
    CHECK_RESULT(hcq_driver_create_id(NULL, UINT64_MAX, &driver), HCQ_ERROR_NO_DEVICE);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        CHECK_RESULT(hcq_driver_create(NULL, unknown[i], &driver), HCQ_ERROR_NO_DEVICE);
        CHECK(driver == NULL);
    }
    hcq_driver_retain(NULL);
    hcq_driver_release(NULL);
    CHECK_RESULT(hcq_driver_info_get(NULL, &info), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_driver_devices(NULL, infos, 8, &count), HCQ_ERROR_INVALID);
    REFUSE(hcq_driver_open(NULL, "0", &desc, &device), HCQ_ERROR_INVALID, "driver");
    REFUSE(hcq_driver_open_id(NULL, 0, &desc, &device), HCQ_ERROR_INVALID, "driver");
    CHECK_OK(hcq_driver_create(NULL, T.variant->backend, &driver));
    CHECK_RESULT(hcq_driver_info_get(driver, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_driver_devices(driver, infos, 8, NULL), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_driver_devices(driver, NULL, 1, &count), HCQ_ERROR_INVALID);
    REFUSE(hcq_driver_open(driver, "0", &desc, NULL), HCQ_ERROR_INVALID, "device");
    REFUSE(hcq_driver_open_id(driver, 0, &desc, NULL), HCQ_ERROR_INVALID, "device");
    REFUSE(hcq_driver_open(driver, "no such", &desc, &device), HCQ_ERROR_NO_DEVICE, "no such");
    CHECK(device == NULL);
    REFUSE(hcq_driver_open_id(driver, 0xdead, &desc, &device), HCQ_ERROR_NO_DEVICE, "id");
    desc.flags = 0x40000000;
    REFUSE(hcq_driver_open(driver, NULL, &desc, &device), HCQ_ERROR_INVALID, "flags");
    desc = test_desc();
    desc.memory.alloc_fn = NULL;
    REFUSE(hcq_driver_open(driver, NULL, &desc, &device), HCQ_ERROR_INVALID, "memory");
    CHECK(device == NULL);
    hcq_driver_release(driver);
}

/* ---- graphs ---- */

/* A zero buffer, a sticky error, and after a reset the graph is as new. */
static void refuse_input(const char *file, int line, hcq_queue *g, hcq_buffer got,
                         hcq_result want, const char *words) {
    refused(file, line, "hcq_input", got.device == NULL && got.size == 0 ? want : HCQ_OK, want,
            words);
    test_result(file, line, "the sticky error", hcq_queue_submit(g, T.dev, NULL), want);
    test_result(file, line, "hcq_queue_reset", hcq_queue_reset(g), HCQ_OK);
}
#define REFUSE_INPUT(g, call, want, words) \
    do { \
        log_clear(); \
        hcq_buffer refused_buffer = (call); \
        refuse_input(__FILE__, __LINE__, (g), refused_buffer, (want), (words)); \
    } while (0)

static void misuse_inputs(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_device *gone = test_open(0, NULL);
    hcq_buffer in;
    CHECK_OK(hcq_device_retain(gone));
    CHECK_OK(hcq_close(gone));
    CHECK(hcq_input(NULL, 0, T.dev, 64).device == NULL);
    REFUSE_INPUT(q, hcq_input(q, 0, T.dev, 64), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE_INPUT(g, hcq_input(g, HCQ_MAX_INPUTS, T.dev, 64), HCQ_ERROR_INVALID, "number");
    REFUSE_INPUT(g, hcq_input(g, UINT32_MAX, T.dev, 64), HCQ_ERROR_INVALID, "number");
    REFUSE_INPUT(g, hcq_input(g, 0, T.dev, 0), HCQ_ERROR_INVALID, "size");
    REFUSE_INPUT(g, hcq_input(g, 0, T.dev, UINT64_MAX), HCQ_ERROR_INVALID, "size");
    REFUSE_INPUT(g, hcq_input(g, 0, gone, 64), HCQ_ERROR_CLOSED, "device");
    in = hcq_input(g, HCQ_MAX_INPUTS - 1, T.dev, 64);
    CHECK_U64(in.size, 64);
    REFUSE_INPUT(g, hcq_input(g, HCQ_MAX_INPUTS - 1, T.dev, 60), HCQ_ERROR_INVALID,
                 "number|size|declared");
    in = hcq_input(g, 5, NULL, 64);
    CHECK(in.device == T.dev);
    REFUSE_INPUT(g, hcq_input(g, 5, T.dev2, 64), HCQ_ERROR_INVALID, "number|device|declared");
    in = hcq_input(g, 5, NULL, 64);
    CHECK(hcq_view(in, 64, 0).device == NULL); /* a view is checked like any */
    CHECK(hcq_view(in, 60, 5).device == NULL);
    REFUSE_RECORD(g, hcq_queue_fill(g, in, 68, 1, 4), HCQ_ERROR_INVALID, "size|dst");
    in = hcq_input(g, 5, NULL, 64);
    REFUSE_RECORD(g, hcq_queue_copy(g, hcq_view(in, 8, 16), in, 16), HCQ_ERROR_INVALID,
                  "overlap");
    check_usable(g);
    CHECK_OK(hcq_device_release(gone));
}

/* A placeholder means something to its own graph, and to nobody else. */
static void misuse_placeholders(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *other = make_queue(T.dev, HCQ_GRAPH);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 16), in = hcq_input(g, 0, NULL, 64), e;
    unsigned char bytes[64] = {0};
    CHECK_INDEX(hcq_queue_empty(g, T.dev, 64, 0, &e), 0);
    const hcq_buffer holders[2] = {in, e};
    for (int i = 0; i < 2; i++) {
        const hcq_buffer b = holders[i];
        CHECK(hcq_free(b) < 0);
        CHECK(hcq_free_after(b, NULL, 0, NULL) < 0);
        CHECK(hcq_copyin(b, bytes, 4) < 0);
        CHECK(hcq_copyout(bytes, b, 4) < 0);
        CHECK(move(a, b, 4, 0) < 0);
        CHECK(hcq_queue_fill(q, b, 64, 1, 4) < 0);
        CHECK_OK(hcq_queue_reset(q));
        CHECK(hcq_queue_copy(q, a, b, 64) < 0);
        CHECK_OK(hcq_queue_reset(q));
        CHECK(record_add(q, make_add(T.dev), b, 0, 1) < 0);
        CHECK_OK(hcq_queue_reset(q));
        CHECK(hcq_queue_fill(other, b, 64, 1, 4) < 0); /* never declared there */
        CHECK_OK(hcq_queue_reset(other));
        CHECK(record_add(other, make_add(T.dev), b, 0, 1) < 0);
        CHECK_OK(hcq_queue_reset(other));
        CHECK(hcq_queue_append(q, g) < 0);
        CHECK_OK(hcq_queue_reset(q));
    }
    hcq_submission sub;                /* nor is it an input of a submission */
    memset(&sub, 0, sizeof sub);
    CHECK_INDEX(hcq_queue_fill(g, in, 64, 1, 4), 1);
    CHECK_INDEX(hcq_queue_copy(g, a, in, 64), 2);
    sub.queues = &g;
    sub.queue_count = 1;
    sub.inputs = &in;
    sub.input_count = 1;
    CHECK(hcq_submit(T.dev, &sub, 1, NULL) < 0);
    hcq_buffer good = make_words(T.dev, 16);
    sub.inputs = &good;
    CHECK_OK(hcq_submit(T.dev, &sub, 1, NULL));
    CHECK_U64(READ32(a, 15), 1);
    CHECK_OK(hcq_queue_reset(g));      /* from here on they are nobody's */
    CHECK(hcq_queue_fill(g, in, 64, 1, 4) < 0);
    check_usable(g);
    check_usable(q);
    check_usable(other);
}

static void misuse_empties(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_device *gone = test_open(0, NULL);
    hcq_buffer e;
    CHECK_OK(hcq_device_retain(gone));
    CHECK_OK(hcq_close(gone));
    REFUSE(hcq_queue_empty(NULL, T.dev, 64, 0, &e), HCQ_ERROR_INVALID, NULL);
    REFUSE_RECORD(q, hcq_queue_empty(q, T.dev, 64, 0, &e), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE_RECORD(g, hcq_queue_empty(g, T.dev, 0, 0, &e), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(g, hcq_queue_empty(g, T.dev, 64, 64, &e), HCQ_ERROR_INVALID, "flags");
    REFUSE_RECORD(g, hcq_queue_empty(g, T.dev, 64, 0, NULL), HCQ_ERROR_INVALID, "buffer");
    REFUSE_RECORD(g, hcq_queue_empty(g, gone, 64, 0, &e), HCQ_ERROR_CLOSED, "device");
    int32_t index = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        index = hcq_queue_empty(g, T.dev, 64, 0, &e);
        CHECK_INDEX(index, (int32_t)i);
    }
    REFUSE_RECORD(g, hcq_queue_empty(g, T.dev, 64, 0, &e), HCQ_ERROR_LIMIT, NULL);
    check_usable(g);
    CHECK_OK(hcq_device_release(gone));
}

/* Refused, but not sticky: like updates they change what is recorded. */
static void misuse_accesses(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4), gone = make_words(T.dev, 5000), none;
    memset(&none, 0, sizeof none);
    CHECK_OK(hcq_free(gone));
    CHECK_INDEX(hcq_queue_write(q, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_write(q, a, 2, 4), 1);
    CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
    CHECK_INDEX(hcq_queue_memory_barrier(g), 1);
    CHECK_INDEX(hcq_queue_write(g, hcq_view(a, 4, 4), 2, 4), 2);
    REFUSE(hcq_queue_access(NULL, 0, a, HCQ_ARG_IN), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_access(q, 0, a, HCQ_ARG_IN), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE(hcq_queue_access(g, 3, a, HCQ_ARG_IN), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_access(g, UINT32_MAX, a, HCQ_ARG_IN), HCQ_ERROR_INVALID, "index");
    REFUSE(hcq_queue_access(g, 1, a, HCQ_ARG_IN), HCQ_ERROR_INVALID, "index|barrier");
    REFUSE(hcq_queue_access(g, 0, a, HCQ_ARG_NONE), HCQ_ERROR_INVALID, "access");
    REFUSE(hcq_queue_access(g, 0, a, HCQ_ARG_U32), HCQ_ERROR_INVALID, "access");
    REFUSE(hcq_queue_access(g, 0, a, 0x103), HCQ_ERROR_INVALID, "access");
    REFUSE(hcq_queue_access(g, 0, none, HCQ_ARG_IN), HCQ_ERROR_INVALID, "buffer");
    REFUSE(hcq_queue_access(g, 0, gone, HCQ_ARG_IN), HCQ_ERROR_CLOSED, "buffer");
    REFUSE(hcq_queue_edge(NULL, 0, 1), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_queue_edge(q, 0, 1), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE(hcq_queue_edge(g, 0, 3), HCQ_ERROR_INVALID, "after|index");
    REFUSE(hcq_queue_edge(g, 2, 2), HCQ_ERROR_INVALID, "before|after");
    REFUSE(hcq_queue_edge(g, 2, 0), HCQ_ERROR_INVALID, "before|after");
    REFUSE(hcq_queue_edge(g, UINT32_MAX, 0), HCQ_ERROR_INVALID, "before|after|index");
    REFUSE(hcq_queue_command_flags(g, 0, HCQ_OVERLAP), HCQ_ERROR_INVALID, "queue|graph|flags");
    CHECK_OK(hcq_queue_submit(g, T.dev, NULL)); /* none of it sticks */
    CHECK_U64(READ32(a, 1), 2);
    check_usable(g);
}

static void misuse_graph_recording(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_queue *copy = make_queue(T.dev, HCQ_COPY), *bad = make_queue(T.dev, HCQ_GRAPH);
    hcq_signal s = make_signal(T.dev, 0);
    hcq_buffer a = make_words(T.dev, 16), gone = make_words(T.dev, 6000);
    add_args args = {gone.address, 1, 1};
    const hcq_dims one = {1, 1, 1};
    CHECK_OK(hcq_free(gone));
    REFUSE_RECORD(g, hcq_queue_wait(g, hcq_at(s, 1)), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE_RECORD(g, hcq_queue_signal(g, hcq_at(s, 1)), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE_RECORD(g, hcq_queue_timestamp(g, s), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE_RECORD(g, hcq_queue_wait_device(g, T.dev), HCQ_ERROR_INVALID, "queue|graph");
    REFUSE_RECORD(g, hcq_queue_exec(g, NULL, &args, sizeof args, one, one), HCQ_ERROR_INVALID,
                  "program");
    log_clear();
    CHECK(hcq_queue_exec(g, make_add(T.dev), &args, sizeof args, one, one) < 0);
    CHECK(log_has_any("args|argument"));
    CHECK_OK(hcq_queue_reset(g));
    REFUSE_RECORD(g, hcq_queue_copy(g, a, gone, 4), HCQ_ERROR_CLOSED, "src");
    REFUSE_RECORD(g, hcq_queue_copy(g, a, hcq_view(a, 4, 8), 8), HCQ_ERROR_INVALID, "overlap");
    REFUSE_RECORD(g, hcq_queue_fill(g, a, 6, 1, 4), HCQ_ERROR_INVALID, "size");
    REFUSE_RECORD(g, hcq_queue_host(g, NULL, NULL), HCQ_ERROR_INVALID, "fn");
    REFUSE_RECORD(g, hcq_queue_custom(g, NULL, &s), HCQ_ERROR_INVALID, "type");
    REFUSE_RECORD(g, hcq_queue_append(g, NULL), HCQ_ERROR_INVALID, "other");
    REFUSE_RECORD(g, hcq_queue_append(g, g), HCQ_ERROR_INVALID, "other");
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 0)), 0);
    REFUSE_RECORD(g, hcq_queue_append(g, q), HCQ_ERROR_INVALID, "other");
    CHECK_INDEX(hcq_queue_write(bad, a, 1, 4), 0);
    REFUSE_RECORD(copy, hcq_queue_append(copy, bad), HCQ_ERROR_INVALID, "other|graph");
    REFUSE_RECORD(q, hcq_queue_append(q, bad), HCQ_ERROR_INVALID, "other|graph");
    CHECK(hcq_queue_host(bad, NULL, NULL) < 0);
    CHECK_INDEX(hcq_queue_append(g, bad), HCQ_ERROR_INVALID); /* its sticky error */
    CHECK_OK(hcq_queue_reset(g));
    CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
    REFUSE(hcq_queue_variable(g, 0, HCQ_PART_VALUE, 64, 0), HCQ_ERROR_INVALID, "variable");
    REFUSE(hcq_queue_update_exec(g, 0, &one, NULL), HCQ_ERROR_INVALID, "index|kind");
    args.dst = a.address;
    CHECK_INDEX(hcq_queue_exec(g, make_add(T.dev), &args, sizeof args, one, one), 1);
    REFUSE(hcq_queue_variable(g, 1, HCQ_PART_ARG, 0, 0), HCQ_ERROR_INVALID, "part|input|arg");
    args.dst = gone.address;
    CHECK(hcq_queue_update_arg(g, 1, 0, &args.dst, 8) < 0);
    CHECK_OK(hcq_queue_submit(g, T.dev, NULL));
    CHECK_U64(READ32(a, 0), 2);
    check_usable(g);
    check_usable(q);
}

static void misuse_launches(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 4);
    hcq_queue *both[2] = {g, q};
    const uint64_t values[1] = {5};
    hcq_submission sub;
    hcq_point point;
    CHECK_INDEX(hcq_queue_write(g, a, 1, 4), 0);
    memset(&sub, 0, sizeof sub);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    uint64_t number = hcq_device_timeline_value(T.dev);
    REFUSE(hcq_queue_submit(g, T.dev2, &point), HCQ_ERROR_FOREIGN, "queue|device");
    REFUSE(hcq_queue_bind(g, T.dev2), HCQ_ERROR_FOREIGN, "queue|device");
    REFUSE(hcq_queue_bind(g, NULL), HCQ_ERROR_INVALID, "device");
    REFUSE(hcq_queue_submit(g, NULL, &point), HCQ_ERROR_INVALID, "device");
    sub.queues = both;
    sub.queue_count = 2;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "queues|graph");
    both[0] = q;
    both[1] = g;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "queues|graph");
    sub.queues = &g;
    sub.queue_count = 1;
    sub.flags = HCQ_UNORDERED;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "flags");
    sub.flags = 0x100;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "flags");
    sub.flags = 0;
    sub.input_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "inputs");
    sub.input_count = 0;
    sub.variable_count = 1;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "variables");
    sub.variables = values;
    CHECK_OK(hcq_queue_variable(g, 0, HCQ_PART_VALUE, 1, 0));
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "variable");
    REFUSE(hcq_queue_submit(g, T.dev, &point), HCQ_ERROR_INVALID, "variable");
    sub.flags = HCQ_STEP;
    REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "variable");
    sub.flags = 0;
    CHECK_U64(hcq_device_timeline_value(T.dev), number); /* nothing was submitted */
    CHECK_U64(READ32(a, 0), 0);
    check_usable(g);
    check_usable(q);
}

static void misuse_launch_inputs(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer inputs[3], gone = make_words(T.dev, 7000), none, in[3];
    hcq_submission sub;
    hcq_point point;
    memset(&none, 0, sizeof none);
    CHECK_OK(hcq_free(gone));
    for (uint32_t i = 0; i < 3; i++) {
        inputs[i] = make_words(T.dev, 16);
        in[i] = hcq_input(g, i, NULL, 64);
    }
    CHECK_INDEX(hcq_queue_copy(g, in[2], in[1], 64), 0); /* number 0 is declared only */
    CHECK_INDEX(hcq_queue_fill(g, in[0], 4, 7, 4), 1);
    const hcq_buffer good = inputs[1];
    memset(&sub, 0, sizeof sub);
    sub.queues = &g;
    sub.queue_count = 1;
    sub.inputs = inputs;
    for (uint32_t flags = 0; flags <= HCQ_STEP; flags += HCQ_STEP) {
        sub.flags = flags;
        sub.input_count = 2;
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "input");
        sub.input_count = 3;
        inputs[1] = none;
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "input");
        inputs[1] = gone;
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_CLOSED, "input");
        inputs[1] = hcq_view(good, 0, 60);
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_INVALID, "input");
        inputs[1] = make_words(T.dev2, 16);
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_FOREIGN, "input");
        inputs[1] = inputs[2];
        REFUSE(hcq_submit(T.dev, &sub, 1, &point), HCQ_ERROR_ALIAS, "input");
        inputs[1] = good;
        inputs[1].id += 12345;         /* a value somebody wrote into */
        CHECK(hcq_submit(T.dev, &sub, 1, &point) < 0);
        inputs[1] = good;
        inputs[1].size = 1 << 20;
        (void)hcq_submit(T.dev, &sub, 1, &point); /* it claims more than is asked for */
        inputs[1] = good;
        CHECK_OK(hcq_submit(T.dev, &sub, 1, &point));
        WAIT_OK(point);
    }
    CHECK_U64(READ32(inputs[0], 0), 7);
    check_usable(g);
}

static void misuse_graph_text(void **state) {
    (void)state;
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    char text[64];
    size_t (*const fns[2])(hcq_queue *, uint32_t, char *, size_t) = {hcq_queue_print,
                                                                     hcq_queue_dot};
    CHECK_INDEX(hcq_queue_write(g, make_words(T.dev, 1), 1, 4), 0);
    for (int i = 0; i < 2; i++) {
        memset(text, 'x', sizeof text);
        CHECK_U64(fns[i](NULL, 0, text, sizeof text), 0);
        CHECK(text[0] == 0);           /* ended also where it is refused */
        log_clear();
        memset(text, 'x', sizeof text);
        CHECK_U64(fns[i](q, 0, text, sizeof text), 0);
        CHECK(text[0] == 0 && log_has_any("queue|graph"));
        log_clear();
        CHECK_U64(fns[i](g, HCQ_STEP, text, sizeof text), 0);
        CHECK(log_has("flags"));
        CHECK_U64(fns[i](g, 0x100, text, sizeof text), 0);
        (void)fns[i](g, 0, NULL, 100); /* refused or not */
        CHECK(hcq_queue_host(g, NULL, NULL) < 0); /* a sticky error */
        CHECK_U64(fns[i](g, 0, text, sizeof text), 0);
        CHECK_OK(hcq_queue_reset(g));
        CHECK_INDEX(hcq_queue_write(g, make_words(T.dev, 1), 1, 4), 0);
    }
    check_usable(g);
}

static void misuse_profile(void **state) {
    (void)state;
    hcq_profile_event events[2];
    hcq_device *devices[2] = {T.dev, NULL}, *gone = test_open(0, NULL);
    uint32_t count = 7;
    char text[64];
    CHECK_OK(hcq_device_retain(gone));
    CHECK_OK(hcq_close(gone));
    REFUSE(hcq_profile_start(NULL, NULL), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_profile_start(gone, NULL), HCQ_ERROR_CLOSED, NULL);
    REFUSE(hcq_profile_stop(NULL), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_profile_stop(gone), HCQ_ERROR_CLOSED, NULL);
    REFUSE(hcq_profile_events(NULL, events, 2, &count, NULL), HCQ_ERROR_INVALID, NULL);
    REFUSE(hcq_profile_events(T.dev, NULL, 2, &count, NULL), HCQ_ERROR_INVALID, "events");
    REFUSE(hcq_profile_events(T.dev, events, 2, NULL, NULL), HCQ_ERROR_INVALID, "count");
    REFUSE(hcq_profile_events(gone, events, 2, &count, NULL), HCQ_ERROR_CLOSED, NULL);
    CHECK_OK(hcq_profile_events(T.dev, NULL, 0, &count, NULL));
    CHECK_U64(count, 0);
    for (int format = HCQ_PROFILE_TRACE; format <= HCQ_PROFILE_SUMMARY + 1; format++) {
        const hcq_profile_format f = (hcq_profile_format)format;
        hcq_device *const *bad[3] = {NULL, devices, &gone};
        for (uint32_t i = 0; i < 3; i++) {
            memset(text, 'x', sizeof text);
            CHECK_U64(hcq_profile_print(bad[i], 2 - i / 2, f, text, sizeof text), 0);
            CHECK(text[0] == 0);
            CHECK(hcq_profile_save(bad[i], 2 - i / 2, f, "./not-made") < 0);
        }
        if (format > HCQ_PROFILE_SUMMARY) {
            CHECK_U64(hcq_profile_print(devices, 1, f, text, sizeof text), 0);
            REFUSE(hcq_profile_save(devices, 1, f, "./not-made"), HCQ_ERROR_INVALID, "format");
        } else {
            (void)hcq_profile_print(devices, 1, f, NULL, 100); /* refused or not */
            REFUSE(hcq_profile_save(devices, 1, f, NULL), HCQ_ERROR_INVALID, "path");
        }
    }
    CHECK(access("./not-made", F_OK) != 0);
    CHECK_OK(hcq_device_release(gone));
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(misuse_open), TEST(misuse_device), TEST(misuse_memory), TEST(misuse_signals),
        TEST(misuse_programs), TEST(misuse_queue_objects), TEST(misuse_recording),
        TEST(misuse_exec), TEST(misuse_copies), TEST(misuse_foreign), TEST(misuse_updates),
        TEST(misuse_submissions), TEST(misuse_registry), TEST(misuse_drivers),
        TEST(misuse_transfers), TEST(misuse_transfer_commands), TEST(misuse_transfer_submit),
        TEST(misuse_alloc_after), TEST(misuse_free_after), TEST(misuse_notifications),
        TEST(misuse_inputs), TEST(misuse_placeholders), TEST(misuse_empties),
        TEST(misuse_accesses), TEST(misuse_graph_recording), TEST(misuse_launches),
        TEST(misuse_launch_inputs), TEST(misuse_graph_text), TEST(misuse_profile),
    };
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    if (T.variant_given) {
        return cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
    }
    T.variant = test_find_variant("cpu");
    result = cmocka_run_group_tests_name("misuse on cpu", tests, NULL, NULL);
    T.variant = test_find_variant("mock");
    return result + cmocka_run_group_tests_name("misuse on mock", tests, NULL, NULL);
}
