/* shared.h - what several files of the suite use. Part of conformance.c. */
#pragma once

#include <sys/syscall.h>
#include "support/util.h"

#include <poll.h>

/* ---- memory ---- */

static void fill_pattern(unsigned char *bytes, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i++) {
        if (i % 8 == 0) {
            test_random(&seed);
        }
        bytes[i] = (unsigned char)(seed >> (i % 8 * 8));
    }
}

/* Those with a number from `first` to `last`, of all of the test; 0: none any more. */
static void allocations_fail(uint64_t first, uint64_t last) {
    __atomic_store_n(&T.memory.fail_until, last, __ATOMIC_SEQ_CST);
    __atomic_store_n(&T.memory.fail_at, first, __ATOMIC_SEQ_CST);
}

/* ---- signal ---- */

/* Every order of a list of points gives the same answer. */
static void check_wait_orders(const hcq_point *points, uint32_t count, hcq_result all,
                              hcq_result any) {
    hcq_point turned[8];
    for (uint32_t turn = 0; turn < count; turn++) {
        for (int mirrored = 0; mirrored < 2; mirrored++) {
            for (uint32_t i = 0; i < count; i++) {
                uint32_t at = (i + turn) % count;
                turned[i] = points[mirrored ? count - 1 - at : at];
            }
            CHECK_RESULT(hcq_wait(turned, count, HCQ_ALL, 0), all);
            CHECK_RESULT(hcq_wait(turned, count, HCQ_ANY, 0), any);
            CHECK_RESULT(hcq_wait(turned, count, HCQ_ALL, SECOND / 1000), all);
            CHECK_RESULT(hcq_wait(turned, count, HCQ_ANY, SECOND / 1000), any);
        }
    }
}

/* What it shows, and whether it has failed. */
static void value_is(const char *file, int line, hcq_signal signal, hcq_result result,
                     uint64_t want) {
    uint64_t value = ~want;
    test_result(file, line, "hcq_signal_value", hcq_signal_value(signal, &value), result);
    test_number(file, line, "the signal's value", value, want);
}
#define CHECK_VALUE(signal, result, want) \
    value_is(__FILE__, __LINE__, (signal), (result), (want))

/* A call that is refused, also while it records, and what the log says of it. */
#define CHECK_SAYS(call, want, text) \
    do { \
        log_clear(); \
        CHECK_RESULT((hcq_result)(call), want); \
        CHECK(log_has(text)); \
    } while (0)

/* ---- queue ---- */

/* One thread of a program. */
static int32_t record_one(hcq_queue *q, hcq_program *program, const void *args, uint64_t size) {
    return hcq_queue_exec(q, program, args, size, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
}

/* Records out[index] = value. */
static int32_t record_put(hcq_queue *q, hcq_program *put, hcq_buffer out, uint32_t index,
                          uint32_t value) {
    put_args args = {out.address, index, value};
    return record_one(q, put, &args, sizeof args);
}

static hcq_result host_counts(void *user) {
    __atomic_add_fetch((uint32_t *)user, 1, __ATOMIC_SEQ_CST);
    return HCQ_OK;
}

static hcq_result host_fails(void *user) {
    (void)user;
    return HCQ_ERROR_UNSUPPORTED;
}

typedef struct odd_struct { char a[3]; } odd_struct;

typedef struct wide_struct { double a; char b; } wide_struct;

typedef struct all_args {
    uint64_t out;
    int32_t i32;
    uint64_t in;
    uint32_t u32;
    float f32;
    odd_struct odd;
    int64_t i64;
    wide_struct wide;
    odd_struct odd2;
    uint64_t u64;
    float last32;
    double f64;
    char tail;
} all_args;

static void k_all(const void *block_args, const hcq_block *b) {
    const all_args *k = HCQ_ARGS(all_args, block_args);
    double *out = HCQ_PTR(double, k->out);
    (void)b;
    out[0] = (double)k->i32;
    out[1] = (double)k->u32;
    out[2] = (double)k->f32;
    out[3] = k->odd.a[0] + k->odd.a[1] * 10.0 + k->odd.a[2] * 100.0;
    out[4] = (double)k->i64;
    out[5] = k->wide.a + k->wide.b;
    out[6] = k->odd2.a[2];
    out[7] = (double)k->u64;
    out[8] = (double)k->last32 + k->f64;
    out[9] = k->tail;
    out[10] = *HCQ_PTR(const double, k->in);
}
TEST_SHADER(k_all, all)

static hcq_program *make_all(hcq_device *device) {
    return make_kernel(device, HCQ_CPU_PROGRAM(
        "a label of more than thirty-one characters", k_all,
        HCQ_ARG_OUT, HCQ_ARG_I32, HCQ_ARG_IN, HCQ_ARG_U32, HCQ_ARG_F32, HCQ_ARG_STRUCT(3, 1),
        HCQ_ARG_I64, HCQ_ARG_STRUCT(sizeof(wide_struct), 8), HCQ_ARG_STRUCT(3, 1),
        HCQ_ARG_U64, HCQ_ARG_F32, HCQ_ARG_F64, HCQ_ARG_STRUCT(1, 1)));
}

/* ---- order ---- */

static hcq_submission submission(hcq_queue *const *queues, uint32_t count) {
    return (hcq_submission){.queues = queues, .queue_count = count};
}

/* One queue or none that waits for all of a list and raises one point or none. */
static hcq_result submit_one(hcq_queue *queue, hcq_device *device, const hcq_point *waits,
                             uint32_t wait_count, const hcq_point *raise, uint32_t flags,
                             hcq_point *done) {
    const hcq_submission s = {.queues = &queue, .queue_count = queue != NULL, .waits = waits,
                              .wait_count = wait_count, .signals = raise,
                              .signal_count = raise != NULL, .flags = flags};
    return hcq_submit(device, &s, 1, done);
}

static hcq_result submit_waits(hcq_device *device, const hcq_point *waits, uint32_t count,
                               const hcq_point *raise, uint32_t flags, hcq_point *done) {
    return submit_one(NULL, device, waits, count, raise, flags, done);
}

/* ---- update ---- */

static hcq_result submit_variables(hcq_queue *q, const uint64_t *variables, uint32_t count,
                                   hcq_point *point) {
    hcq_value list[HCQ_MAX_VALUES];
    (void)values_of(list, variables, count, NULL, 0);
    return hcq_queue_submit_with(q, T.dev, list, count, 0, point);
}

/* ---- custom ---- */

typedef struct custom_payload { uint64_t address; uint32_t value; uint32_t fixed; } custom_payload;

static uint32_t custom_user;

static hcq_result custom_poke(void *user, void *native, const void *payload) {
    custom_payload p;
    memcpy(&p, payload, sizeof p);
    if (user != &custom_user || p.fixed != 1234 || p.value == 666 || (is_cpu() && native)) {
        return HCQ_ERROR_HOST;
    }
#ifdef TEST_GPU
    if (is_gpu()) {
        return test_gpu_fill(native, p.address, 4, p.value);
    }
#endif
    if (is_mock()) {
        mock_custom_fill(native, p.address, 4, p.value, 4);
    } else {
        *HCQ_PTR(uint32_t, p.address) = p.value;
    }
    return HCQ_OK;
}

static const hcq_custom_type custom_type = {
    "poke", sizeof(custom_payload), {{"CPU", custom_poke}, {"MOCK", custom_poke},
                                     {"TRACE", custom_poke}, TEST_GPU_ENCODE(custom_poke)},
    {{offsetof(custom_payload, value), 4}}, &custom_user};

/* ---- host ---- */

typedef struct host_log {
    uint32_t calls;
    hcq_result result;                 /* what the command returns */
} host_log;

static hcq_result host_record(void *user) {
    host_log *log = (host_log *)user;
    log->calls++;
    return log->result;
}

/* Sleeps for so many nanoseconds. */
static hcq_result host_sleeps(void *ns) {
    mock_sleep((long)(intptr_t)ns);
    return HCQ_OK;
}

static int32_t record_sleep(hcq_queue *q, intptr_t ns) {
    return hcq_queue_host(q, host_sleeps, (void *)ns);
}

/* ---- after ---- */

/* A fresh gate, shut: a point that only the host will raise. */
static hcq_point make_gate(hcq_device *device) {
    return hcq_at(make_signal(device, 0), 1);
}

static void open_gate(hcq_point gate) {
    CHECK_OK(hcq_signal_set(gate.signal, gate.value));
}

/* Opens it and waits for what was behind. */
#define GATE_END(gate, done) do { open_gate(gate); WAIT_OK(done); } while (0)

/* Submits one queue with one wait and one signal, each of which may be NULL. */
static hcq_result submit_queue(hcq_queue *queue, hcq_device *device, const hcq_point *wait,
                               const hcq_point *raise, uint32_t flags, hcq_point *done) {
    return submit_one(queue, device, wait, wait != NULL, raise, flags, done);
}

static hcq_result submit_behind(hcq_queue *queue, hcq_device *device, const hcq_point *wait,
                                hcq_point *done) {
    return submit_queue(queue, device, wait, NULL, 0, done);
}

/* A queue that fills a whole buffer with one byte. */
static hcq_queue *make_filler(hcq_device *device, hcq_buffer buffer, uint8_t byte) {
    hcq_queue *queue = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_fill(queue, buffer, buffer.size, byte, 1), 0);
    return queue;
}

/* A queue that calls a function of the host's; the test may record more behind it. */
static hcq_queue *make_call(hcq_device *device, hcq_queue_kind kind, hcq_host_fn fn, void *user) {
    hcq_queue *queue = make_queue(device, kind);
    CHECK_INDEX(hcq_queue_host(queue, fn, user), 0);
    return queue;
}

/* Submits it so often, and waits for the end. */
static hcq_point run_queue(const char *file, int line, hcq_queue *queue, hcq_device *device,
                           uint32_t times) {
    hcq_point done = {{0}, 0};
    for (uint32_t i = 0; i < times; i++) {
        test_result(file, line, "hcq_queue_submit", hcq_queue_submit(queue, device, &done), HCQ_OK);
    }
    test_reached(file, line, done, HCQ_OK);
    return done;
}
#define RUN_TIMES(queue, device, times) run_queue(__FILE__, __LINE__, (queue), (device), (times))
#define RUN_OK(queue, device) RUN_TIMES(queue, device, 1)

static void check_filled(const char *file, int line, hcq_buffer buffer, uint8_t byte) {
    unsigned char *want = (unsigned char *)malloc((size_t)buffer.size);
    memset(want, byte, (size_t)buffer.size);
    test_bytes(file, line, buffer, want, (size_t)buffer.size);
    free(want);
}
#define CHECK_FILLED(buffer, byte) check_filled(__FILE__, __LINE__, (buffer), (byte))

static hcq_command command_write(hcq_buffer dst, const void *data, uint64_t size) {
    const hcq_command command = {.kind = HCQ_COMMAND_WRITE, .dst = dst, .data = data, .size = size};
    return command;
}

/* ---- driver ---- */

static uint64_t runs_of(const hcq_program *program) {
    hcq_program_info info;
    memset(&info, 0xCB, sizeof info);
    CHECK_OK(hcq_program_info_get(program, &info));
    return info.runs;
}

static hcq_device *open_covered(void) {
    return OPEN_WITH(0, .flags = HCQ_DEVICE_COVERAGE);
}

static void k_nothing(const void *args, const hcq_block *block) {
    (void)args;
    (void)block;
}
TEST_SHADER(k_nothing, nothing)

/* A program without arguments, which runs wherever it is sent. */
static hcq_program *make_nothing(hcq_device *device) {
    return make_kernel(device, HCQ_CPU_PROGRAM("nothing", k_nothing));
}

/* ---- notify ---- */

typedef struct notice {
    uint32_t calls;                    /* atomic */
    uint32_t order;                    /* among all of the test, from 1 */
    hcq_result result;
    pthread_t thread;
    hcq_notification id;
} notice;

static uint32_t notice_order;

static void notice_run(void *user, hcq_result result) {
    notice *n = (notice *)user;
    n->result = result;
    n->thread = pthread_self();
    n->order = __atomic_add_fetch(&notice_order, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n->calls, 1, __ATOMIC_RELEASE);
}

/* Nobody calls it any more; soon, where its call is about to return. */
static int notice_is_over(hcq_notification id) {
    hcq_result r = hcq_notify_cancel(id);
    for (uint64_t end = hcq_now_ns() + BOUND; r == HCQ_ERROR_BUSY && hcq_now_ns() < end;) {
        hcq_sys_yield();
        r = hcq_notify_cancel(id);
    }
    return r == HCQ_ERROR_CLOSED;
}

static uint32_t notice_calls(const notice *n) {
    return __atomic_load_n(&n->calls, __ATOMIC_ACQUIRE);
}

/* Notices are static in every test: a check that fails leaves the test, and
   closing the devices still runs them. */
static void notice_at(const char *file, int line, notice *n, hcq_point point) {
    memset(n, 0, sizeof *n);
    test_result(file, line, "hcq_notify", hcq_notify(point, notice_run, n, &n->id), HCQ_OK);
    CHECK(n->id.id != 0);
}
#define NOTIFY_AT(n, point) notice_at(__FILE__, __LINE__, (n), (point))

static int word_until(const uint32_t *word, uint32_t least) {
    uint64_t start = hcq_now_ns();
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least) {
        if (hcq_now_ns() - start > BOUND) {
            return 0;
        }
        mock_sleep(100000);
    }
    return 1;
}

/* Waits for the call without any help by a call of hcq. */
static void notice_ran(const char *file, int line, const notice *n, hcq_result want) {
    word_until(&n->calls, 1);
    test_number(file, line, "calls", notice_calls(n), 1);
    test_result(file, line, "the notification's result", n->result, want);
}
#define NOTIFIED(n, want) notice_ran(__FILE__, __LINE__, (n), (want))
#define SILENT(n) CHECK_U64(notice_calls(n), 0)

static hcq_point timeline_now(hcq_device *device) { /* everything submitted so far */
    return hcq_at(hcq_device_timeline(device), hcq_device_timeline_value(device) - 1);
}

/* Holds a lane until a word is set: work that runs for as long as a test wants. */
static hcq_result host_until(void *user) {
    return word_until((const uint32_t *)user, 1) ? HCQ_OK : HCQ_ERROR_HOST;
}

static int readable(intptr_t handle, int timeout_ms) {
    struct pollfd fd = {(int)handle, POLLIN, 0};
    int n;
    do {
        n = poll(&fd, 1, timeout_ms);
    } while (n < 0);
    return n == 1 && (fd.revents & POLLIN);
}

/* A device of the program's other backend: the mock for all but the mock. */
static hcq_device *open_other_backend(void) {
    hcq_device_desc desc = test_desc();
    hcq_device *device = NULL;
    desc.flags = 0;
    desc.cpu = NULL;
    desc.backend_desc = NULL;
    CHECK_OK(hcq_open(is_mock() ? "CPU" : "MOCK", &desc, &device));
    return device;
}

/* Runs it with little stack, which nesting once for each link of a chain would use up. */
static void *on_a_small_stack(void *(*run)(void *), void *user) {
    pthread_attr_t attr;
    pthread_t thread;
    void *result = NULL;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, 256 * 1024) == 0);
    CHECK(pthread_create(&thread, &attr, run, user) == 0);
    pthread_join(thread, &result);
    pthread_attr_destroy(&attr);
    return result;
}

/* ---- explain ---- */

static char explained[65536];

static const char *explain_points(const hcq_point *points, uint32_t count) {
    memset(explained, 'x', sizeof explained);
    size_t length = hcq_explain(points, count, explained, sizeof explained);
    CHECK(length < sizeof explained);
    CHECK_U64(strlen(explained), length);
    return explained;
}

static const char *explain(hcq_point point) {
    return explain_points(&point, 1);
}

/* Of words with '|' between them each is in the text, or (want = 0) none is. */
static void explain_says(const char *file, int line, const char *text, const char *words,
                         int want) {
    for (size_t n = 0; *words; words += n + (words[n] == '|')) {
        char word[64];
        n = strcspn(words, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if ((strstr(text, word) != NULL) != want) {
            fprintf(stderr, "%s:%d: '%s' is %s in:\n%s\n", file, line, word,
                    want ? "not" : "wrongly", text);
            test_fail(file, line, "explained wrongly");
        }
    }
}
#define SAYS(text, words) explain_says(__FILE__, __LINE__, (text), (words), 1)
#define SAYS_NOT(text, words) explain_says(__FILE__, __LINE__, (text), (words), 0)

/* The line of the text that has `word`, which must be there. */
static const char *explain_line(const char *text, const char *word) {
    static char line[16384];
    const char *at = strstr(text, word), *begin = at;
    SAYS(text, word);
    while (begin > text && begin[-1] != '\n') {
        begin--;
    }
    size_t n = strcspn(begin, "\n");
    CHECK(n < sizeof line);
    memcpy(line, begin, n);
    line[n] = 0;
    return line;
}

static hcq_device *open_labelled(const char *label, uint64_t explain_ns) {
    return OPEN_WITH(0, .label = label, .explain_ns = explain_ns);
}

static hcq_signal labelled_signal(hcq_device *device, const char *label) {
    hcq_signal s = make_signal(device, 0);
    CHECK_OK(hcq_signal_label(s, label));
    return s;
}

static int log_until(const char *word) {
    uint64_t start = hcq_now_ns();
    while (!log_has(word)) {
        if (hcq_now_ns() - start > BOUND) {
            return 0;
        }
        mock_sleep(100000);
    }
    return 1;
}

/* ---- edges ---- */

static void k_hold(const void *block_args, const hcq_block *b) {
    (void)block_args;
    (void)b;
    __atomic_fetch_add(&SEEN->hold_began, 1, __ATOMIC_RELEASE);
    word_until(&SEEN->hold_go, 1);
    __atomic_fetch_add(&SEEN->hold_ended, 1, __ATOMIC_RELEASE);
}
TEST_SHADER(k_hold, hold)

static void hold_wait(void) {
    word_until(&SEEN->hold_go, 1);
}

static const char *hold_of;            /* the test */

static void hold_reset(void) {
    hold_of = T.running;
    test_gate(GATE_HOLD, hold_wait);
    __atomic_store_n(&SEEN->hold_go, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&SEEN->hold_began, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&SEEN->hold_ended, 0, __ATOMIC_RELEASE);
}

static void hold_release(void) {
    __atomic_store_n(&SEEN->hold_go, 1, __ATOMIC_RELEASE);
}

static int holds(void) {               /* none of the kernels has ended */
    return __atomic_load_n(&SEEN->hold_ended, __ATOMIC_ACQUIRE) == 0;
}

/* A compute queue that holds its lane, until the next hold_release; the test may record more
   behind it. */
static hcq_queue *make_holder(hcq_device *device) {
    test_needs_threads();
    if (hold_of != T.running || __atomic_load_n(&SEEN->hold_go, __ATOMIC_ACQUIRE)) {
        hold_reset();
    }
    hcq_program *hold = make_kernel(device, HCQ_CPU_PROGRAM("hold", k_hold));
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    CHECK_INDEX(record_one(q, hold, NULL, 0), 0);
    return q;
}

/* Submits it and returns when the kernel runs. */
static hcq_point hold_start(hcq_queue *q, hcq_device *device) {
    uint32_t began = __atomic_load_n(&SEEN->hold_began, __ATOMIC_ACQUIRE);
    hcq_point done = {{0}, 0};
    CHECK_OK(hcq_queue_submit(q, device, &done));
    CHECK(word_until(&SEEN->hold_began, began + 1));
    return done;
}

/* The device runs something until hold_release, then `raise` (NULL: nothing). */
static hcq_point hold_device(hcq_device *device, const hcq_point *raise) {
    hcq_queue *q = make_holder(device);
    CHECK(!raise || hcq_queue_signal(q, *raise) == 1);
    return hold_start(q, device);
}

/* Lets it go on after all that the test did meanwhile, and waits for `done`. */
static void hold_end(const char *file, int line, hcq_point done) {
    int held = holds();
    hold_release();
    if (!held) {
        test_fail(file, line, "the kernel has not waited");
    }
    test_reached(file, line, done, HCQ_OK);
}
#define HOLD_END(done) hold_end(__FILE__, __LINE__, (done))

typedef struct blocked_call {
    pthread_t thread;
    hcq_device *device;
    hcq_queue *queue;
    hcq_point points[18];
    uint32_t count;
    hcq_wait_mode mode;
    uint64_t timeout_ns;
    uint32_t tid;                      /* atomic, the system's */
    uint32_t over;                     /* atomic */
    hcq_result result;
} blocked_call;

static void blocked_begin(blocked_call *b) {
    __atomic_store_n(&b->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

static void *blocked_end(blocked_call *b, hcq_result result) {
    b->result = result;
    __atomic_store_n(&b->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* What a thread runs: one call, with what `b` has. */
#define BLOCKED(name, call) \
    static void *name(void *user) { \
        blocked_call *b = (blocked_call *)user; \
        blocked_begin(b); \
        return blocked_end(b, call); \
    }

BLOCKED(blocked_close, hcq_close(b->device))
BLOCKED(blocked_wait, hcq_wait(b->points, b->count, b->mode, b->timeout_ns))

static int is_over(const blocked_call *b) {
    return (int)__atomic_load_n(&b->over, __ATOMIC_ACQUIRE);
}

/* Returns when the thread sleeps in its call, as the system says, or has left
   it. Correct code passes whatever this finds; it is there for the other. */
static void blocked_until(blocked_call *b) {
    char path[64], text[256];
    CHECK(word_until(&b->tid, 1));
    snprintf(path, sizeof path, "/proc/self/task/%u/stat", (unsigned)b->tid);
    for (int sleeps = 0; sleeps < 5 && !is_over(b);) {
        FILE *file = fopen(path, "r");
        if (!file) {
            return;
        }
        size_t n = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[n] = 0;
        const char *at = strrchr(text, ')');
        sleeps = at && at[1] == ' ' && at[2] == 'S' ? sleeps + 1 : 0;
        mock_sleep(200000);
    }
}

/* Another thread closes it; returns when that sleeps in its call, or has left it. */
static void close_begins(blocked_call *b, hcq_device *device) {
    *b = (blocked_call){.device = device};
    CHECK(pthread_create(&b->thread, NULL, blocked_close, b) == 0);
    blocked_until(b);
}

static hcq_result call_ends(blocked_call *b) {
    pthread_join(b->thread, NULL);
    return b->result;
}

/* A device of the mock that is to be lost. It keeps no encoded recordings: what is
   lost may still be on its way out of the FIFO when its end is told. */
static hcq_device *open_to_lose(mock_control *control) {
    hcq_device_desc desc = test_desc();
    memset(control, 0, sizeof *control);
    test_mock_desc.control = control;
    test_mock_desc.no_encode = 1;
    return test_open(0, &desc);
}

static void lose_at_next_submit(mock_control *control) {
    __atomic_store_n(&control->lose_at, mock_load(&control->submits) + 1, __ATOMIC_SEQ_CST);
}

static int has_feature(uint32_t feature) {
    return (test_info(T.dev).features & feature) != 0;
}

static int devices_share_memory(void) {
    return has_feature(HCQ_FEATURE_MAP);
}

/* ---- graph ---- */

static int32_t record_mix(hcq_queue *q, hcq_program *mix, hcq_buffer dst, hcq_buffer src,
                          uint32_t count, uint32_t seed) {
    mix_args args = {dst.address, src.address, count, seed};
    return hcq_queue_exec(q, mix, &args, sizeof args, hcq_dim((count + 15) / 16, 1, 1),
                          hcq_dim(16, 1, 1));
}

static hcq_queue *make_graph(void) {
    return make_queue(T.dev, HCQ_GRAPH);
}

/* A buffer with words of its own. */
static hcq_buffer make_filled(hcq_device *device, uint32_t count, uint32_t seed) {
    hcq_buffer buffer = make_words(device, count);
    uint32_t *words = (uint32_t *)malloc((size_t)count * 4);
    for (uint32_t i = 0; i < count; i++) {
        words[i] = i * 2654435761u + seed;
    }
    hcq_result result = hcq_copyin(buffer, words, (uint64_t)count * 4);
    free(words);
    CHECK_OK(result);
    return buffer;
}

static void check_same(const char *file, int line, hcq_buffer got, hcq_buffer want) {
    unsigned char *bytes = (unsigned char *)malloc((size_t)want.size);
    test_result(file, line, "hcq_copyout", hcq_copyout(bytes, want, want.size), HCQ_OK);
    test_bytes(file, line, got, bytes, (size_t)want.size);
    free(bytes);
}
