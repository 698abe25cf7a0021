/* errors.h - messages: loggers miss no line (what they may call, see host.h), the
   default one writes to stderr, and a line says what was wrong. What is refused at
   all stands in core/misuse.txt. Part of conformance.c. */

/* ---- none is lost ---- */

/* Lines that the log has or that a line of it says are lost. */
static uint64_t errors_told(void) {
    uint64_t told = T.log.lines;
    for (const char *at = T.log.text; (at = strstr(at, " more lines are lost")) != NULL; at++) {
        const char *number = at;
        while (number > T.log.text && number[-1] >= '0' && number[-1] <= '9') {
            number--;
        }
        told += strtoull(number, NULL, 10) - 1;
    }
    return told;
}

/* Many lines at once: raises that come too late. */
TEST(no_line_is_lost_silently) {
    enum { SIGNALS = 100 };
    hcq_device *device = test_open(0, NULL);
    hcq_point gate = make_gate(device), done, late[SIGNALS];
    for (uint32_t i = 0; i < SIGNALS; i++) {
        late[i] = make_gate(device);
    }
    hcq_submission s = {.waits = &gate, .wait_count = 1, .signals = late, .signal_count = SIGNALS};
    CHECK_OK(hcq_submit(device, &s, 1, &done));
    for (uint32_t i = 0; i < SIGNALS; i++) {
        CHECK_OK(hcq_signal_set(late[i].signal, 5));
    }
    log_clear();
    GATE_END(gate, done);
    CHECK_OK(hcq_close(device));       /* whoever collects it tells it first */
    CHECK_U64(errors_told(), SIGNALS);
    CHECK(T.log.lines > 8);
}

/* ---- none comes after the end ---- */

typedef struct errors_late {
    uint32_t entered, closed, late;    /* atomic */
} errors_late;

static void errors_linger(void *user, hcq_result result, const char *text) {
    errors_late *l = (errors_late *)user;
    (void)result;
    (void)text;
    __atomic_store_n(&l->entered, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 25 && !__atomic_load_n(&l->closed, __ATOMIC_SEQ_CST); i++) {
        test_sleep_ms(2);
    }
    l->late = __atomic_load_n(&l->closed, __ATOMIC_SEQ_CST);
}

BLOCKED(blocked_create, hcq_queue_create(b->device, (hcq_queue_kind)9, &b->queue))

TEST(loggers_end_before_close) {
    errors_late l = {0};
    blocked_call refused = {.device = OPEN_WITH(0, .log_fn = errors_linger, .log_user = &l)};
    CHECK(pthread_create(&refused.thread, NULL, blocked_create, &refused) == 0);
    CHECK(word_until(&l.entered, 1));
    hcq_result closed = hcq_close(refused.device);
    __atomic_store_n(&l.closed, 1, __ATOMIC_SEQ_CST);
    CHECK_RESULT(call_ends(&refused), HCQ_ERROR_INVALID);
    CHECK_OK(closed);
    CHECK_U64(l.late, 0);
}

/* ---- the default logger ---- */

static char errors_text[4096];         /* what came on stderr */
static FILE *errors_stderr;

static void errors_from_here(void) {
    memset(errors_text, 0, sizeof errors_text);
    errors_stderr = stderr;
    stderr = fmemopen(errors_text, sizeof errors_text - 1, "w");
}

static void errors_until_here(void) {
    fclose(stderr);
    stderr = errors_stderr;
}

#ifdef NDEBUG
#define ERRORS_SEEN 0
#else
#define ERRORS_SEEN 1
#endif

/* A call and the one line that comes on stderr meanwhile, none under NDEBUG. */
#define CHECK_STDERR(call, want, text) \
    do { \
        errors_from_here(); \
        hcq_result errors_result = (call); \
        errors_until_here(); \
        CHECK_RESULT(errors_result, want); \
        CHECK(ERRORS_SEEN ? strstr(errors_text, text) != NULL : errors_text[0] == 0); \
        CHECK(strchr(errors_text, '\n') == strrchr(errors_text, '\n')); \
    } while (0)

TEST(default_logger_is_stderr) {
    hcq_device *none;
    hcq_queue *queue;
    hcq_device_desc desc = test_desc();
    desc.log_fn = NULL;
    hcq_device *device = test_open(0, &desc);
    CHECK_STDERR(hcq_queue_create(device, (hcq_queue_kind)9, &queue), HCQ_ERROR_INVALID,
                 "kind: 9 [HCQ_ERROR_INVALID]");
    errors_from_here();
    hcq_backend_log(device, HCQ_OK, "all is well"); /* is hidden, but of a checked device: hints */
    hcq_result synchronized = hcq_device_synchronize(device, 0);
    errors_until_here();
    CHECK_OK(synchronized);
    CHECK((errors_text[0] != 0) == (ERRORS_SEEN && (desc.flags & HCQ_DEVICE_CHECK) != 0));
    CHECK_OK(hcq_close(device));
    CHECK_STDERR(hcq_open("NOSUCH", NULL, &none), HCQ_ERROR_NO_DEVICE, "hcq: name: 'NOSUCH'");
    desc.log_fn = hcq_log_none;
    device = test_open(0, &desc);
    errors_from_here();
    (void)hcq_queue_create(device, (hcq_queue_kind)9, &queue);
    (void)hcq_open("NOSUCH", &desc, &none);
    errors_until_here();
    CHECK(errors_text[0] == 0);
    CHECK_OK(hcq_close(device));
}

typedef struct errors_call {
    pthread_t thread;
    uint32_t lines, breaks;
} errors_call;

static void errors_note(void *user, hcq_result result, const char *text) {
    errors_call *c = (errors_call *)user;
    c->thread = pthread_self();
    c->lines += result != HCQ_OK;
    c->breaks += strchr(text, '\n') != NULL;
}

/* One line each, whatever a label or the user's words have in them, by the thread that
   called and before that returns. */
TEST(lines_come_with_their_call) {
    errors_call c = {0};
    hcq_device *device = OPEN_WITH(0, .label = "two\nlines", .log_fn = errors_note, .log_user = &c);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_point gate = make_gate(device), done;
    CHECK_OK(hcq_queue_label(q, "\nqueue\n"));
    CHECK_INDEX(hcq_queue_host(q, NULL, NULL), HCQ_ERROR_INVALID);
    CHECK(c.lines == 1 && pthread_equal(c.thread, pthread_self()));
    CHECK_OK(submit_lists(device, &gate, NULL, 0, &done));
    CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST, "no paper\nno ink"));
    WAIT_RESULT(done, HCQ_ERROR_HOST);
    CHECK(c.lines == 2 && c.breaks == 0);
    CHECK_OK(hcq_close(device));
}

/* The nearest name is driver.h's. */
TEST(unknown_names_say_who_there_is) {
    hcq_device *device = T.dev;
    hcq_driver *driver = (hcq_driver *)(void *)&device;
    hcq_device_desc desc = test_desc();
    char backend[64];
    snprintf(backend, sizeof backend, " %s", T.variant->backend);
    log_clear();
    CHECK_RESULT(hcq_open("NOSUCH:1", &desc, &device), HCQ_ERROR_NO_DEVICE);
    CHECK(device == NULL && log_has("there are ") && log_has(backend));
    CHECK_STDERR(hcq_driver_create(NULL, "cpu", &driver), HCQ_ERROR_NO_DEVICE, " CPU");
    CHECK(driver == NULL);
#ifndef HCQ_TEST_CUDA
    CHECK_RESULT(hcq_open("CUDA:0", &desc, &device), HCQ_ERROR_NO_DEVICE);
    CHECK(log_has("#define HCQ_CUDA"));
#endif
#ifndef HCQ_TEST_VULKAN
    CHECK_RESULT(hcq_open("VULKAN", &desc, &device), HCQ_ERROR_NO_DEVICE);
    CHECK(log_has("#define HCQ_VULKAN"));
#endif
    log_clear();
    const hcq_backend *cpu = hcq_registry_find(NULL, "CPU");
    CHECK_OK(hcq_registry_unregister(NULL, cpu));
    CHECK_RESULT(hcq_open("CPU", &desc, &device), HCQ_ERROR_NO_DEVICE);
    CHECK_OK(hcq_registry_register(NULL, cpu));
    CHECK(log_has("no backend has it") && !log_has("compiled in"));
}

/* No memory: nothing is made, and the poison does not stay either. */
TEST(not_made_out_of_memory) {
    hcq_program_desc desc = HCQ_PROGRAM(add);
    hcq_queue *queue = (hcq_queue *)(void *)&desc;
    hcq_program *program = (hcq_program *)(void *)&desc;
    hcq_buffer buffer;
    hcq_result results[3];
    memset(&buffer, 0x5A, sizeof buffer);
    log_clear();
    T.memory.fail_until = UINT64_MAX;
    T.memory.fail_at = 1;
    results[0] = hcq_graph_create(T.dev, &queue);
    results[1] = hcq_program_create(T.dev, &desc, &program);
    results[2] = hcq_alloc(T.dev, 64, 0, &buffer);
    T.memory.fail_at = T.memory.fail_until = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_RESULT(results[i], HCQ_ERROR_OUT_OF_MEMORY);
    }
    CHECK(queue == NULL && program == NULL);
    CHECK(buffer.address == 0 && buffer.size == 0 && buffer.host == NULL);
    CHECK(log_has("graph: out of memory") && log_has("program") && log_has("alloc"));
}

/* ---- time-outs ---- */

static uint32_t errors_gate;           /* host commands end once it is 1 */

/* One whose first lane is busy until errors_gate. */
static hcq_device *errors_busy_device(uint32_t inflight) {
    __atomic_store_n(&errors_gate, 0, __ATOMIC_SEQ_CST);
    hcq_device *device = OPEN_WITH(0, .timeout_ns = SECOND / 20, .explain_ns = HCQ_NEVER,
                                   .inflight = inflight);
    hcq_queue *queue = make_call(device, HCQ_COMPUTE, host_until, &errors_gate);
    CHECK_OK(hcq_queue_submit(queue, device, NULL));
    log_clear();
    return device;
}

/* What answers HCQ_TIMEOUT says so, with a dump. */
static uint32_t errors_timed_out(hcq_result result, const char *what) {
    CHECK(result == HCQ_OK || result == HCQ_TIMEOUT);
    CHECK(result == HCQ_OK || (log_has(what) && log_has("timed out") && log_has("memory: ")));
    return result == HCQ_TIMEOUT;
}

/* One that the caller chose is his own question, the device's own are told. */
TEST(no_timeout_is_silent) {
    uint32_t word = 0, versions = 0, lanes = 0;
    uint64_t ns;
    hcq_device *device = errors_busy_device(0);
    hcq_program *nothing = make_nothing(device);
    hcq_buffer memory = make_words(device, 64);
    hcq_transfer_end to = hcq_transfer_host(&word, 4), from = hcq_transfer_device(memory);
    hcq_queue *queue = make_call(device, HCQ_COMPUTE, host_until, &errors_gate);
    CHECK_RESULT(hcq_transfer(to, from, 4, 0, 0), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_transfer(to, from, 4, 0, SECOND / 50), HCQ_TIMEOUT);
    CHECK_RESULT(hcq_device_synchronize(device, SECOND / 50), HCQ_TIMEOUT);
    CHECK_U64(T.log.lines, 0);
    CHECK_RESULT(hcq_copyout(&word, memory, 4), HCQ_TIMEOUT);
    CHECK(errors_timed_out(HCQ_TIMEOUT, "copyout"));
    log_clear();
    CHECK_RESULT(hcq_program_call(nothing, NULL, 0, dims_one, dims_one, &ns), HCQ_TIMEOUT);
    CHECK(errors_timed_out(HCQ_TIMEOUT, "program_call"));
    CHECK_OK(hcq_program_call(nothing, NULL, 0, dims_one, dims_one, NULL)); /* does not wait */
    CHECK_INDEX(record_put(queue, make_put(device), memory, 0, 1), 1);
    CHECK_OK(hcq_queue_label(queue, "busy"));
    CHECK_OK(hcq_queue_bind(queue, device));
    for (uint32_t i = 1; i < 5; i++) {
        log_clear();
        CHECK_OK(hcq_queue_update_arg(queue, 1, 8, &i, 4));
        versions += errors_timed_out(hcq_queue_submit(queue, device, NULL), "queue 'busy'");
    }
    CHECK(versions > 0 || !is_cpu() || TEST_CHECKED); /* whose host commands are apart */
    __atomic_store_n(&errors_gate, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    CHECK_OK(hcq_close(device));
    device = errors_busy_device(2);
    hcq_queue *idle = make_queue(device, HCQ_COPY); /* its lane has room */
    CHECK_INDEX(hcq_queue_fill(idle, make_words(device, 1), 4, 1, 4), 0);
    CHECK_OK(hcq_queue_submit(idle, device, NULL));
    queue = make_call(device, HCQ_COMPUTE, host_until, &errors_gate);
    for (int i = 0; i < 4; i++) {      /* the same one is checked again */
        log_clear();
        lanes += errors_timed_out(hcq_queue_submit(queue, device, NULL), "room on a lane");
    }
    CHECK(lanes > 0 || !is_cpu() || TEST_CHECKED);
    log_clear();
    CHECK(errors_timed_out(hcq_close(device), "close"));
    CHECK_RESULT(hcq_queue_submit(idle, device, NULL), HCQ_ERROR_CLOSED);
    __atomic_store_n(&errors_gate, 1, __ATOMIC_SEQ_CST);
    hcq_result r = HCQ_TIMEOUT;
    for (int i = 0; i < 100 && r == HCQ_TIMEOUT; i++) {
        r = hcq_close(device);
    }
    CHECK_OK(r);
}

/* ---- what a line says ---- */

/* One line with both texts for a refused call. */
#define CHECK_LINE(call, want, first, second) \
    do { \
        CHECK_SAYS(call, want, first); \
        CHECK(log_has(second)); \
        CHECK_U64(T.log.lines, 1); \
    } while (0)

static int32_t errors_exec(hcq_queue *queue, hcq_program *program, uint64_t address) {
    put_args args = {address, 0, 1};
    return record_one(queue, program, &args, sizeof args);
}

/* An address that is in no buffer: which, where, and where it lies instead. */
TEST(lines_say_where_an_address_is) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *put = make_put(T.dev);
    hcq_buffer living = make_words(T.dev, 16), other = make_words(dev2(), 16);
    hcq_buffer freed = make_buffer(T.dev, 256, 0); /* what is cached is remembered */
    char at[32];
    uint64_t address = freed.address;
    CHECK_OK(hcq_queue_label(q, "draw"));
    CHECK_OK(hcq_free(freed));
    CHECK_INDEX(errors_exec(q, put, living.address), 0);
    snprintf(at, sizeof at, "0x%llx", (unsigned long long)address);
    CHECK_LINE(hcq_queue_update_arg(q, 0, 0, &address, 8), HCQ_ERROR_INVALID,
               "queue 'draw' command 0: value: argument 0", at);
    CHECK_LINE(hcq_queue_update_arg(q, 0, 4, &address, 4), HCQ_ERROR_INVALID,
               "queue 'draw' command 0: offset: no argument of 'put' begins at byte 4",
               "number 0 does at 0, number 1 at 8");
    CHECK_LINE(hcq_queue_variable(q, 0, HCQ_PART_ARG + 16, 0, 0), HCQ_ERROR_INVALID,
               "command 0: part: no argument of 'put' begins at byte 16: number 2 does at 12", "");
    CHECK_LINE(errors_exec(q, put, address), HCQ_ERROR_INVALID,
               "queue 'draw' command 1: args: argument 0 of 'put'", "that was freed");
    CHECK(log_has(at));
    CHECK_LINE(hcq_queue_command_label(q, HCQ_ERROR_LIMIT, "dot"), HCQ_ERROR_INVALID,
               "'draw': index: is -3, not a command: HCQ_ERROR_LIMIT", "a recording call");
    CHECK_LINE(hcq_queue_command_label(q, 1, "dot"), HCQ_ERROR_INVALID, "'draw'", "1 of 1 com");
    CHECK_LINE(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID,
               "queue 'draw': recording failed at command 1: args: argument 0", "was freed");
    CHECK_LINE(hcq_queue_bind(q, T.dev), HCQ_ERROR_INVALID, "'draw'", "failed at command 1");
    CHECK_OK(hcq_queue_reset(q));
    CHECK_LINE(errors_exec(q, put, living.address + living.size), HCQ_ERROR_INVALID,
               "'draw' command 0", "0 bytes past the end of a buffer of 64");
    CHECK_OK(hcq_queue_reset(q));
    log_clear();
    if (errors_exec(q, put, other.address) < 0) { /* devices that do not see each other */
        CHECK(log_has("in a buffer of '") && log_has("does not see"));
        CHECK_U64(T.log.lines, 1);
    }
}

/* A buffer that was never made, or a view of nothing. */
TEST(lines_say_what_a_buffer_is) {
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    hcq_buffer a = make_words(T.dev, 16), gone = make_words(T.dev, 64);
    hcq_buffer none = hcq_view(a, 64, 4), big = a;
    uint32_t word = 0;
    CHECK_OK(hcq_queue_label(q, "load"));
    CHECK_OK(hcq_free(gone));
    big.size += 4;
    CHECK_LINE(hcq_queue_copy(q, a, none, 4), HCQ_ERROR_INVALID, "'load' command 0: src: is zero",
               "view out of range");
    CHECK_OK(hcq_queue_reset(q));
    CHECK_LINE(hcq_queue_fill(q, gone, 4, 0, 4), HCQ_ERROR_CLOSED, "'load' command 0: dst",
               "was freed");
    CHECK_OK(hcq_queue_reset(q));
    CHECK_LINE(hcq_copyin(big, &word, 4), HCQ_ERROR_INVALID, "dst: ", "beyond its end");
    CHECK_LINE(hcq_free(gone), HCQ_ERROR_CLOSED, "buffer: ", "was freed");
    hcq_command list = {.kind = HCQ_COMMAND_FILL, .dst = gone, .size = 4,
                                 .value_size = 4};
    CHECK_LINE(hcq_transfer_submit(T.dev, NULL, 0, &list, 1, NULL), HCQ_ERROR_CLOSED,
               "queue 'transfers' command 0: dst", "was freed");
    CHECK_STDERR(hcq_copyin(none, &word, 4), HCQ_ERROR_INVALID, "dst: is zero");
}
