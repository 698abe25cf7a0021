/* misuse.c - what is wrong at a glance is refused: the right code, one log line
   that names the parameter at its place, nothing made, nothing changed, and the
   call done right still works.

   The cases are made by misuse.py from hcq.h's prototypes and misuse.txt; what
   needs a sequence of calls stands at the end.

   misuse [VARIANT] */
#include "support/util.h"

/* ---- what the cases name ---- */

#define NUMBERS(a, b, c) \
    ((hcq_value[3]){hcq_value_number(a), hcq_value_number(b), hcq_value_number(c)})
#define BUFFER(b) ((hcq_value[1]){hcq_value_buffer(b)})

static struct {
    hcq_device *closed, *other, *devices[2], *half[3], *closes[3];
    hcq_queue *q, *w, *c, *g, *v;      /* every command; a fill; copies; a graph; variables */
    hcq_queue *failed, *bad_graph, *theirs, *no_queue[1], *both[3], *crowd[17], *late[7];
    hcq_program *add, *add2;
    hcq_driver *driver;
    hcq_registry *registry, *full;
    hcq_signal s, zero, gone, orphaned, raised;
    hcq_point reached, stale, high, nil, line, taken, done;
    hcq_buffer a, b, b_part, x, odd, far, foreign, none, freed, leaving, orphan;
    hcq_buffer input, input_end, strange, old[2];
    add_args args, bad_args, past_args, freed_args, input_args;
    hcq_dims one, flat_block;
    hcq_device_desc desc;
    hcq_program_desc program_desc, no_kernel;
    hcq_submission sub, launch, steps, varied;
    hcq_command copy, fill, update;
    hcq_custom_type type;
    hcq_profile_desc profile;
    hcq_profile_event events[1];
    hcq_memory_hooks hooks;
    hcq_backend backend, first, many[9];
    hcq_driver_info driver_info;
    hcq_device_info device_info;
    uint64_t value, values[2];
    hcq_value given, variables[3];
    unsigned char *page, bytes[128], ones[16];
} F;

static hcq_result custom_fn(void *user, void *native, const void *payload) {
    (void)native;
    (void)payload;
    (void)user;
    return HCQ_OK;
}

static hcq_notification notified(void) {
    hcq_notification n = {0};
    CHECK_OK(hcq_notify(hcq_at(F.s, 1000000), notify_nothing, NULL, &n));
    return n;
}

static hcq_device *retained(hcq_device *device) {
    CHECK_OK(hcq_device_retain(device));
    return device;
}

#ifdef HCQ_TEST_CUDA
static struct CUevent_st *event_lent(void) {
    struct CUevent_st *event = NULL;
    CHECK_OK(hcq_cuda_event_acquire(T.dev, F.done, &event));
    return event;
}
#endif

/* The queue as new: F.q has every kind of command, at indices that misuse.txt knows. */
static void again(hcq_queue *q) {
    CHECK_OK(hcq_queue_reset(q));
    if (q == F.q) {
        CHECK_INDEX(hcq_queue_wait(q, F.reached), 0);
        CHECK_INDEX(hcq_queue_signal(q, hcq_at(F.raised, 1)), 1);
        CHECK_INDEX(hcq_queue_timestamp(q, F.s), 2);
        CHECK_INDEX(hcq_queue_memory_barrier(q), 3);
        CHECK_INDEX(hcq_queue_exec(q, F.add, &F.args, sizeof F.args, F.one, F.one), 4);
        CHECK_INDEX(hcq_queue_copy(q, F.a, F.b, 16), 5);
        CHECK_INDEX(hcq_queue_fill(q, F.a, 16, 7, 4), 6);
        CHECK_INDEX(record_word(q, F.a, 1, 4), 7);
        CHECK_INDEX(hcq_queue_host(q, host_nothing, NULL), 8);
        CHECK_INDEX(hcq_queue_custom(q, &F.type, F.bytes), 9);
        CHECK_INDEX(hcq_queue_wait_device(q, T.dev), 10);
    } else if (q == F.g) {
        F.input = hcq_graph_input(q, 0, NULL, 64);
        F.input_end = hcq_view(F.input, 32, 0);
        CHECK_INDEX(hcq_queue_fill(q, F.input, 64, 1, 4), 0);
        CHECK_INDEX(hcq_queue_exec(q, F.add, &F.args, sizeof F.args, F.one, F.one), 1);
        CHECK_INDEX(hcq_queue_memory_barrier(q), 2);
        CHECK_INDEX(hcq_queue_copy(q, F.a, F.input, 16), 3);
        CHECK_INDEX(hcq_queue_exec_indirect(q, F.add, &F.args, sizeof F.args, F.input, F.one,
                                            F.one), 4);
    } else if (q == F.v) {
        CHECK_INDEX(hcq_queue_fill(q, F.b, 16, 1, 4), 0);
        CHECK_INDEX(hcq_queue_exec(q, F.add, &F.args, sizeof F.args, F.one, F.one), 1);
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_SIZE, 0, 0));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_ARG, 1, 0));
        CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_GRID_Y, 2, 3));
    } else if (q == F.c) {
        CHECK_INDEX(hcq_queue_copy(q, F.a, F.b, 16), 0);
    } else if (q == F.failed || q == F.bad_graph) {
        CHECK_INDEX(hcq_queue_host(q, NULL, NULL), HCQ_ERROR_INVALID);
    } else {
        CHECK_INDEX(hcq_queue_fill(q, F.b, 16, 3, 4), 0);
    }
}

static void fixture_objects(void) {
    F.closed = test_open(0, NULL);
    CHECK_OK(hcq_device_retain(F.closed));
    F.orphan = make_words(F.closed, 16);
    F.orphaned = make_signal(F.closed, 0);
    CHECK_OK(hcq_close(F.closed));
    hcq_device_desc desc = test_desc();
    desc.cpu = NULL;
    desc.backend_desc = NULL;
    CHECK_OK(hcq_open(is_mock() ? "CPU" : "MOCK", &desc, &F.other));
    F.s = make_signal(T.dev, 5);
    F.gone = make_signal(T.dev, 0);
    F.raised = make_signal(T.dev, 0);
    CHECK_OK(hcq_signal_destroy(F.gone));
    F.a = make_words(T.dev, 16);
    F.b = make_words(T.dev, 16);
    F.x = make_words(T.dev, 16);
    F.odd = make_words(T.dev, 3);
    F.far = make_words(dev2(), 16);
    F.foreign = make_words(F.other, 16);
    F.freed = make_words(T.dev, 4000);
    CHECK_OK(hcq_free(F.freed));
    F.add = make_add(T.dev);
    F.add2 = make_add(dev2());
    CHECK_OK(hcq_driver_create(NULL, T.variant->backend, &F.driver));
    uint32_t count = 0;
    CHECK_OK(hcq_driver_devices(F.driver, &F.device_info, 1, &count));
    CHECK_OK(hcq_driver_info_get(F.driver, &F.driver_info));
    CHECK_OK(hcq_registry_create(NULL, &F.registry));
    CHECK_OK(hcq_registry_create(NULL, &F.full));
    for (int i = 0; i < 9; i++) {
        F.many[i] = mock_backend;
        CHECK_OK(i == 0 ? HCQ_OK : hcq_registry_register(F.full, &F.many[i]));
    }
    F.first = F.backend = mock_backend;
    CHECK_OK(hcq_registry_register(F.registry, &F.first));
    CHECK(posix_memalign((void **)&F.page, 4096, 4096) == 0);
}

static void fixture_values(void) {
    F.reached = hcq_at(F.s, 5);
    F.stale = hcq_at(F.gone, 1);
    F.high = hcq_at(F.s, UINT64_MAX);
    F.nil = hcq_at(F.zero, 1);
    F.taken = hcq_at(make_signal(T.dev, 0), 9);
    F.line = hcq_at(hcq_device_timeline(T.dev), 1000);
    F.b_part = hcq_view(F.b, 0, 8);
    F.args = F.bad_args = F.past_args = F.freed_args = F.input_args = (add_args){F.a.address, 1, 4};
    F.bad_args.dst = 16;
    F.past_args.dst = F.odd.address + 12; /* allocations are aligned to 64 */
    F.freed_args.dst = F.freed.address;
    F.one = hcq_dim(1, 1, 1);
    F.flat_block = hcq_dim(1, 0, 1);
    F.desc = test_desc();
    F.hooks = F.desc.memory;
    F.program_desc = HCQ_PROGRAM(add);
    F.no_kernel = F.program_desc;
    F.no_kernel.cpu = NULL;
    F.no_kernel.spirv = (hcq_code){0};
    F.no_kernel.ptx = (hcq_code){0};
    F.copy = (hcq_command){.kind = HCQ_COMMAND_COPY, .dst = F.a, .src = F.b, .size = 16};
    F.fill = (hcq_command){.kind = HCQ_COMMAND_FILL, .dst = F.a, .size = 16, .value = 9,
                           .value_size = 4};
    F.update = (hcq_command){.kind = HCQ_COMMAND_WRITE, .dst = F.a, .data = F.bytes, .size = 16};
    F.type = (hcq_custom_type){"custom", 16, {{T.variant->backend, custom_fn}}, {{0, 8}}, NULL};
    F.profile.events = 1024;
    F.value = 5;
    memset(F.ones, 1, sizeof F.ones);
    F.devices[0] = F.half[0] = F.half[2] = F.closes[0] = F.closes[2] = T.dev;
    F.devices[1] = dev2();
    F.closes[1] = F.closed;
}

static void fixture_queues(void) {
    hcq_queue **const queues[] = {&F.q, &F.w, &F.c, &F.g, &F.v, &F.failed, &F.bad_graph};
    static const hcq_queue_kind kinds[] = {HCQ_COMPUTE, HCQ_COMPUTE, HCQ_COPY, HCQ_GRAPH,
                                           HCQ_COMPUTE, HCQ_COMPUTE, HCQ_GRAPH};
    hcq_queue *strange = make_queue(T.dev, HCQ_GRAPH);
    F.strange = hcq_graph_input(strange, 7, NULL, 64); /* of another graph than F.g */
    for (int i = 0; i < 7; i++) {
        *queues[i] = make_queue(T.dev, kinds[i]);
        again(*queues[i]);
        CHECK_OK(hcq_queue_label(*queues[i], "q"));
    }
    F.old[0] = hcq_graph_input(F.g, 2, NULL, 64); /* of F.g as it was before a reset */
    CHECK(hcq_graph_alloc(F.g, T.dev, 64, 0, &F.old[1]) >= 0);
    again(F.g);
    F.input_args.dst = F.input.address;
    F.theirs = make_queue(F.other, HCQ_COMPUTE);
    F.both[0] = F.both[2] = F.g;
    F.both[1] = F.w;
    for (int i = 0; i < 17; i++) { F.crowd[i] = F.w; }
    F.sub = (hcq_submission){.queues = &F.w, .queue_count = 1};
    F.given = hcq_value_buffer(F.x);
    F.launch = (hcq_submission){.queues = &F.g, .queue_count = 1, .values = &F.given,
                                .value_count = 1};
    F.steps = F.launch;
    F.steps.flags = HCQ_STEP;
    F.varied = F.sub;
    F.varied.queues = &F.v;
    F.varied.values = F.variables;
    F.varied.value_count = 3;
    F.variables[0] = hcq_value_number(8);
    F.variables[1] = hcq_value_buffer(F.b);
    F.variables[2] = hcq_value_number(2);
}

/* Queues that only their submission refuses: without an argument's buffer; with a freed
   one; with a signal that is gone; that does not rise; that rises to one value twice;
   that rises to one that held work of another device rises to. */
static void fixture_late(void) {
    add_args none = {0, 1, 4};
    hcq_buffer freed = make_words(T.dev, 4);
    hcq_signal gone = make_signal(T.dev, 0);
    for (int i = 0; i < 7; i++) { F.late[i] = make_queue(T.dev, HCQ_COMPUTE); }
    CHECK_INDEX(hcq_queue_exec(F.late[0], F.add, &none, sizeof none, F.one, F.one), 0);
    CHECK_INDEX(record_word(F.late[1], freed, 1, 4), 0);
    CHECK_INDEX(hcq_queue_wait(F.late[2], hcq_at(gone, 1)), 0);
    CHECK_INDEX(hcq_queue_signal(F.late[3], F.reached), 0);
    CHECK_INDEX(hcq_queue_signal(F.late[4], hcq_at(F.raised, 9)), 0);
    CHECK_INDEX(hcq_queue_signal(F.late[4], hcq_at(F.raised, 9)), 1);
    CHECK_INDEX(hcq_queue_signal(F.late[5], F.taken), 0);
    CHECK_INDEX(hcq_queue_fill(F.late[6], (hcq_buffer){.size = 64}, 64, 1, 4), 0); /* no value */
    CHECK_OK(hcq_free(freed));
    CHECK_OK(hcq_signal_destroy(gone));
    hcq_point never = hcq_at(make_signal(dev2(), 0), 1);
    CHECK_OK(submit_lists(dev2(), &never, &F.taken, 0, NULL));
    F.leaving = make_words(dev2(), 16);
    CHECK_OK(hcq_free_after(F.leaving, &never, 1, NULL));
    CHECK_OK(hcq_queue_submit(F.w, T.dev, &F.done));
    WAIT_OK(F.done);
}

static int fixture_open(void **state) {
    static const char name[] = "the generated cases";
    *state = (void *)(uintptr_t)name;
    if (test_setup(state) != 0) { return -1; }
    memset(&F, 0, sizeof F);
    fixture_objects();
    fixture_values();
    fixture_queues();
    fixture_late();
    return 0;
}

static int fixture_close(void **state) {
    free(F.page);
    hcq_registry_destroy(F.registry);
    hcq_registry_destroy(F.full);
    hcq_driver_release(F.driver);
    hcq_result first = hcq_close(F.other), second = hcq_device_release(F.closed);
    return first == HCQ_OK && second == HCQ_OK ? test_teardown(state) : -1;
}

/* ---- one case ---- */

typedef struct case_state {            /* what no refused call changes */
    uint64_t numbers[2], bytes[2], value;
    hcq_command commands[2][16];
    int32_t counts[6];
    unsigned char contents[2][64];
} case_state;

static struct {
    const char *scene, *what;
    void *outs;
    size_t outs_size;
    case_state before;
    FILE *user, *lines;                /* stderr, and what stands in for it */
    char text[4096];
    uint32_t failures;
    int logs;                          /* a device's logger is known */
    int64_t got;
} C;

static void complain(const char *format, ...) {
    va_list args;
    fprintf(stderr, "%s: %s: ", C.scene, C.what);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n%s%s", C.text, T.log.used ? T.log.text : "");
    C.failures++;
}

static void case_look(case_state *s) {
    hcq_device *const devices[2] = {T.dev, dev2()};
    hcq_queue *const queues[6] = {F.q, F.g, F.v, F.w, F.c, F.theirs};
    for (int i = 0; i < 2; i++) {
        s->numbers[i] = hcq_device_timeline_value(devices[i]);
        s->bytes[i] = test_query(devices[i], HCQ_QUERY_ALLOCATED_BYTES);
        for (int32_t k = 0; k < hcq_queue_count(queues[i]); k++) {
            CHECK_OK(hcq_queue_command(queues[i], k, &s->commands[i][k]));
            s->commands[i][k].args = s->commands[i][k].data = NULL; /* until one is recorded */
        }
    }
    for (int i = 0; i < 6; i++) { s->counts[i] = hcq_queue_count(queues[i]); }
    CHECK_OK(hcq_signal_value(F.s, &s->value));
}

static void case_contents(case_state *s) {
    CHECK_OK(hcq_copyout(s->contents[0], F.a, 64));
    CHECK_OK(hcq_copyout(s->contents[1], F.b, 64));
}

static void case_begin(const char *what) {
    C.what = what;
    memset(&C.before, 0, sizeof C.before);
    case_contents(&C.before);          /* which submits: the numbers come after it, later before */
    case_look(&C.before);
    memset(C.outs, 0xA5, C.outs_size);
    log_clear();
    memset(C.text, 0, sizeof C.text);
    C.lines = fmemopen(C.text, sizeof C.text - 1, "w");
    C.user = stderr;
    stderr = C.lines;                  /* where lines go that no device's logger gets */
}

static void case_end(int64_t got) {
    stderr = C.user;
    fclose(C.lines);
    C.got = got;
}

/* The only line, or NULL; with the result that it has. */
static const char *case_line(const char **result) {
    static char line[sizeof T.log.text + sizeof C.text], name[64];
    uint32_t count = T.log.lines;
    for (const char *p = C.text; (p = strchr(p, '\n')) != NULL; p++) { count++; }
    if (count != 1) {
        complain("%u lines", count);
        return NULL;
    }
    if (C.logs && C.text[0]) { complain("goes to stderr, not to the device's logger"); }
    int own = T.log.lines == 1;        /* "RESULT: line", else "line [RESULT]" */
    snprintf(line, sizeof line, "%s", own ? T.log.text : C.text);
    line[strlen(line) - 1] = 0;
    char *at = own ? strstr(line, ": ") : strrchr(line, ' ');
    snprintf(name, sizeof name, "%.*s", own ? (int)(at - line) : (int)strlen(at) - 3,
             own ? line : at + 2);
    *result = name;
    if (!own) { *at = 0; }
    return own ? at + 2 : line;
}

/* "hcq[ DEVICE]: [queue 'Q'[ command N]: ][PARAMETER: number N: ]WORD[ 'TEXT']: reason" */
static int case_names(const char *line, const char *word) {
    size_t param = strcspn(C.what, ". ");
    const char *at = strncmp(line, "hcq", 3) == 0 ? strstr(line, ": ") : NULL;
    at = at ? at + 2 : "";
    int queue = strncmp(at, "queue '", 7) == 0;
    if (queue) {
        at = strchr(at + 7, '\'');
        at = at && strstr(at, ": ") ? strstr(at, ": ") + 2 : "";
    }
    if (strncmp(at, C.what, param) == 0 && strncmp(at + param, ": number ", 9) == 0) {
        const char *field = strstr(at + param + 2, ": ");
        at = field && strlen(word) != param ? field + 2 : at;
    }
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
    if (at[n] != ':' && strspn(at + n, " '\"") != 2) {
        return queue && strcmp(word, "queue") == 0; /* it is the queue's own line */
    }
    return n == strlen(word) && strncmp(at, word, n) == 0 && strlen(at) > n + 2;
}

static void case_judge(hcq_result want, int64_t returns, const char *word) {
    const char *result = NULL;
    case_state *after = (case_state *)calloc(1, sizeof *after);
    if (C.got != returns) {
        complain("gives %s, not %s", hcq_result_name((hcq_result)C.got),
                 hcq_result_name((hcq_result)returns));
    }
    const char *line = strcmp(word, "-") == 0 && !T.log.lines && !C.text[0] ? NULL
                                                                          : case_line(&result);
    if (line && strcmp(result, hcq_result_name(want)) != 0) { complain("its line has %s", result); }
    if (line && !case_names(line, word)) { complain("the line does not name '%s'", word); }
    case_look(after);
    case_contents(after);
    for (size_t i = 0; i < sizeof *after; i++) {
        if (((const char *)after)[i] != ((const char *)&C.before)[i]) {
            complain("byte %zu of what must not change has changed", i);
            break;
        }
    }
    free(after);
}

#define BAD(what, want, returns, word, call) \
    do { \
        case_begin(what); \
        int64_t bad_got = (call); \
        case_end(bad_got); \
        case_judge((want), (returns), (word)); \
    } while (0)

static TEST_UNUSED int has_bytes(const void *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < size; i++) {
        if (p[i]) { return 1; }
    }
    return 0;
}

/* An output of a refused call: zeroed, ended, minus one, as it was, or whatever. */
static void left(const void *out, size_t size, int how) {
    const unsigned char *p = (const unsigned char *)out;
    unsigned char want = how == 's' ? 0xA5 : how == 'm' ? 0xFF : 0;
    for (size_t i = 0; i < (how == 't' ? 1 : how == 'a' ? 0 : size); i++) {
        if (p[i] != want) {
            complain("byte %zu of an output is %#x", i, p[i]);
            return;
        }
    }
}

/* A refused recording call: the error is the submission's, too, until a reset. */
static void sticky(hcq_queue *q, hcq_result want) {
    if (!q) { return; }
    const char *what = C.what;
    C.logs = 1;
    case_begin("its queue's submission");
    case_end(hcq_queue_submit(q, T.dev, NULL));
    case_judge(want, want, "queue");
    C.what = what;
    again(q);
}

/* The call done right; is there something to undo? 'r': gives a result, 'i': an
   index, 'n': anything but zero, 'v': nothing. */
static int fine(int64_t got, int kind, hcq_result also) {
    int good = kind == 'r' ? got == HCQ_OK : kind == 'i' ? got >= 0 : kind == 'v' || got != 0;
    if (!good && (also == HCQ_OK || got != also)) {
        complain("and then, done right, it gives %s", hcq_result_name((hcq_result)got));
    }
    return good;
}

static void start(const char *scene, void *outs, size_t size) {
    C.scene = scene;
    C.what = "at first";
    C.logs = 0;
    C.outs = outs;
    C.outs_size = size;
    C.failures = 0;
    C.text[0] = 0;
    log_clear();
}

static void finish(void) {
    if (C.failures) {
        fprintf(stderr, "%s on %s: %u complaints\n", C.scene, T.variant->name, C.failures);
        _fail(__FILE__, __LINE__);
    }
}

#ifdef hcq_program_create              /* util.h's, which asks the device what it is */
#undef hcq_program_create
#define hcq_program_create(device, desc, program) \
    ((device) == T.dev ? test_program_create : hcq_program_create)(device, desc, program)
#endif
#include "misuse_cases.h"

/* ---- what takes several calls ---- */

/* The only line names `word`, as in a generated case. */
#define REFUSE(call, want, word) \
    do { \
        start(__func__, C.text, 0); \
        BAD(#call, (want), (want), (word), (call)); \
        finish(); \
    } while (0)

/* The second of two commands is wrong: the first does not run either, case_judge sees. */
TEST_BARE(misuse_second_command) {
    hcq_command two[2] = {F.fill, F.copy};
    hcq_point point;
    two[1].src = F.freed;
    two[0].value = 12345;
    REFUSE(hcq_transfer_submit(T.dev, NULL, 0, two, 2, &point), HCQ_ERROR_CLOSED, "src");
}

#ifndef HCQ_CHECK
/* A library without the checker says what it lacks. */
TEST_BARE(misuse_checks_without_the_checker) {
    const uint32_t flags[] = {HCQ_DEVICE_CHECK, HCQ_DEVICE_CHECK_READS, HCQ_DEVICE_CHECK_WAITS | 1};
    hcq_device_desc desc = F.desc;
    for (int i = 0; i < 3; i++) {
        hcq_device *device = T.dev;
        desc.flags = flags[i];
        REFUSE(hcq_open(T.variant->backend, &desc, &device), HCQ_ERROR_INVALID, "flags");
        CHECK(device == NULL && (log_has("HCQ_CHECK was not") || strstr(C.text, "HCQ_CHECK was not")));
    }
    desc.flags = HCQ_DEVICE_CHECK | 0x80000000;
    REFUSE(hcq_open(T.variant->backend, &desc, &(hcq_device *){NULL}), HCQ_ERROR_INVALID, "flags");
}
#endif

/* At the end: a group's teardown that fails is no failure for cmocka. */
TEST_BARE(misuse_leaves_nothing) {
    CHECK(fixture_close(state) == 0);
}

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
    if (result != 0) {
        return result;
    }
    return _cmocka_run_group_tests(T.variant->name, test_list, test_count, fixture_open, NULL);
}
