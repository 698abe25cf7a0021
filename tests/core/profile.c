/* profile.c - profiles a graph on two CPU devices, checks what was recorded and
   writes it down. tests/core/profile.sh opens the files.

   profile DIRECTORY      trace.json, page.html, summary.txt of a few launches,
                          and many.json, many.html, many.txt of many

   The last lines on stdout say what the files must show. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "../../hcq.h"

enum { WORDS = 16384, COMMANDS = 10, FEW = 3, MANY = 400, RING = 64, MOST = 65536 };
#define BOUND 10000000000ull

/* What the commands are, on which device and lane, and what they wait for on
   other lanes. The big copies have a lane of their own, as kernels that have
   nothing to do with them can run at the same time. */
typedef struct command_info {
    const char *name;                  /* in the profile: 31 bytes of the label */
    hcq_command_kind kind;
    uint32_t device;
    hcq_queue_kind lane;
    uint64_t bytes;
    int32_t waits;                     /* command on another lane, -1: none */
} command_info;

#define ODD "</script>\"\\<b>&'\t\x01"
#define CUT "thirty-one bytes end inside a \xe2\x98\x83"
#define SNOW "\xe2\x98\x83 \xf0\x9f\x98\x80"

static const command_info expected[COMMANDS] = {
    {"fill", HCQ_COMMAND_FILL, 0, HCQ_COMPUTE, WORDS * 4, -1},
    {"mix", HCQ_COMMAND_EXEC, 0, HCQ_COMPUTE, 0, -1},
    {"to the other one", HCQ_COMMAND_COPY, 1, HCQ_COPY, WORDS * 4, 1},
    {"add", HCQ_COMMAND_EXEC, 1, HCQ_COMPUTE, 0, -1},
    {ODD, HCQ_COMMAND_EXEC, 1, HCQ_COMPUTE, 0, 2},
    {"and back", HCQ_COMMAND_COPY, 0, HCQ_COPY, WORDS * 4, 4},
    {"add", HCQ_COMMAND_EXEC, 0, HCQ_COMPUTE, 0, -1},
    {SNOW, HCQ_COMMAND_EXEC, 0, HCQ_COMPUTE, 0, 5},
    {"write", HCQ_COMMAND_WRITE, 0, HCQ_COMPUTE, 8, -1},
    {CUT, HCQ_COMMAND_HOST, 0, HCQ_COMPUTE, 0, -1},
};

static hcq_device *devices[2];
static hcq_queue *graph;
static hcq_buffer result;
static uint32_t host_calls;
static uint64_t long_since;            /* 0, or how the next host command knows how long */
static uint64_t allocations;           /* through the hooks, atomic */
static hcq_profile_event events[MOST];

static void fail(int line, const char *what) {
    fprintf(stderr, "tests/core/profile.c:%d: not so: %s\n", line, what);
    for (int d = 0; d < 2; d++) {
        static char text[16384];
        if (devices[d] != NULL && hcq_device_dump(devices[d], text, sizeof text) != 0) {
            fputs(text, stderr);
        }
    }
    exit(1);
}

#define CHECK(x) do { if (!(x)) { fail(__LINE__, #x); } } while (0)
#define CHECK_OK(x) CHECK((x) == HCQ_OK)

/* ---- memory hooks that count, a logger that speaks ---- */

static void *hook_alloc(void *user, size_t size, size_t align) {
    void *p = NULL;
    (void)user;
    __atomic_fetch_add(&allocations, 1, __ATOMIC_SEQ_CST);
    return posix_memalign(&p, align < sizeof p ? sizeof p : align, size) == 0 ? p : NULL;
}

static void hook_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

static hcq_device *open_device(const char *name) {
    hcq_device_desc desc;
    hcq_device *device = NULL;
    memset(&desc, 0, sizeof desc);
    desc.label = name;
    desc.memory.alloc_fn = hook_alloc;
    desc.memory.free_fn = hook_free;
    desc.log_fn = hcq_log_stderr;
    CHECK_OK(hcq_open(name, &desc, &device));
    return device;
}

/* ---- the graph ---- */

typedef struct mix_args { uint64_t dst, src; } mix_args;
typedef struct add_args { uint64_t dst; uint32_t value; } add_args;

static void mix(const void *block_args, const hcq_block *block) {
    const mix_args *k = HCQ_ARGS(mix_args, block_args);
    uint32_t *dst = HCQ_PTR(uint32_t, k->dst), *src = HCQ_PTR(uint32_t, k->src);
    const uint32_t first = block->id.x * (WORDS / 4);
    for (uint32_t i = first; i < first + WORDS / 4; i++) { dst[i] = dst[i] * 31 + src[i]; }
}

static void add(const void *block_args, const hcq_block *block) {
    const add_args *k = HCQ_ARGS(add_args, block_args);
    uint32_t *dst = HCQ_PTR(uint32_t, k->dst);
    const uint32_t first = block->id.x * (WORDS / 4);
    for (uint32_t i = first; i < first + WORDS / 4; i++) { dst[i] += k->value; }
}

/* Takes three times as long as everything since `long_since`, so that there
   is a bar with room for its name, however slow the machine is. */
static hcq_result count_call(void *user) {
    const uint64_t begin = hcq_sys_now_ns();
    ++*(uint32_t *)user;
    while (long_since != 0 && hcq_sys_now_ns() - begin < 3 * (begin - long_since)) {}
    return HCQ_OK;
}

static hcq_buffer words_of(hcq_device *device) {
    hcq_buffer b;
    CHECK_OK(hcq_alloc(device, WORDS * 4, HCQ_ZEROED, &b));
    return b;
}

static int32_t record_mix(hcq_program *program, hcq_buffer dst, hcq_buffer src) {
    mix_args args;
    args.dst = dst.address;
    args.src = src.address;
    return hcq_queue_exec(graph, program, &args, sizeof args, hcq_dim(4, 1, 1), hcq_dim(1, 1, 1));
}

static int32_t record_add(hcq_program *program, hcq_buffer dst, uint32_t value) {
    add_args args;
    args.dst = dst.address;
    args.value = value;
    return hcq_queue_exec(graph, program, &args, sizeof args, hcq_dim(4, 1, 1), hcq_dim(1, 1, 1));
}

static void record_graph(void) {
    static const hcq_program_desc mix_desc = {"mix", mix, {HCQ_ARG_INOUT, HCQ_ARG_IN}, NULL, NULL,
                                              {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    static const hcq_program_desc add_desc = {"add", add, {HCQ_ARG_INOUT, HCQ_ARG_U32}, NULL, NULL,
                                              {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_program *mixes[2], *adds[2];
    hcq_buffer x[2], y[2], z;
    for (int d = 0; d < 2; d++) {
        CHECK_OK(hcq_program_create(devices[d], &mix_desc, &mixes[d]));
        CHECK_OK(hcq_program_create(devices[d], &add_desc, &adds[d]));
        x[d] = words_of(devices[d]);
        y[d] = words_of(devices[d]);
    }
    z = words_of(devices[0]);
    result = words_of(devices[0]);
    CHECK_OK(hcq_queue_create(devices[0], HCQ_GRAPH, &graph));
    CHECK_OK(hcq_queue_label(graph, "the \"graph\""));
    CHECK(hcq_queue_fill(graph, x[0], x[0].size, 3, 4) == 0);
    CHECK(record_mix(mixes[0], y[0], x[0]) == 1);
    CHECK(hcq_queue_copy(graph, x[1], y[0], x[1].size) == 2);
    CHECK(record_add(adds[1], y[1], 5) == 3);
    CHECK(record_mix(mixes[1], y[1], x[1]) == 4);
    CHECK(hcq_queue_copy(graph, z, y[1], z.size) == 5);
    CHECK(record_add(adds[0], result, 7) == 6);
    CHECK(record_mix(mixes[0], result, z) == 7);
    CHECK(hcq_queue_write(graph, hcq_view(result, 0, 8), 9, 8) == 8);
    CHECK(hcq_queue_host(graph, count_call, &host_calls) == 9);
    CHECK_OK(hcq_queue_access(graph, 9, result, HCQ_ARG_INOUT));
    CHECK_OK(hcq_queue_command_label(graph, 2, "to the other one"));
    CHECK_OK(hcq_queue_command_label(graph, 4, ODD));
    CHECK_OK(hcq_queue_command_label(graph, 5, "and back"));
    CHECK_OK(hcq_queue_command_label(graph, 7, SNOW));
    CHECK_OK(hcq_queue_command_label(graph, 9, CUT));
}

static void launch(uint32_t times, int one_by_one) {
    for (uint32_t i = 0; i < times; i++) {
        hcq_point done;
        CHECK_OK(hcq_queue_submit(graph, devices[0], &done));
        if (one_by_one || i + 1 == times) { CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND)); }
    }
}

/* ---- what was recorded ---- */

static void check_event(const hcq_profile_event *e, uint32_t d) {
    CHECK(e->device == devices[d]);
    CHECK(e->begin_ns <= e->end_ns);
    CHECK(e->kind != HCQ_COMMAND_EXEC || e->begin_ns < e->end_ns);
    CHECK(e->command < COMMANDS);
    const command_info *want = &expected[e->command];
    CHECK(want->device == d);
    CHECK(e->kind == want->kind);
    CHECK(e->lane_kind == want->lane && e->lane == 0);
    CHECK(e->bytes == want->bytes);
    CHECK(strlen(e->name) < sizeof e->name && strlen(e->queue) < sizeof e->queue);
    CHECK(strncmp(e->name, want->name, sizeof e->name - 1) == 0);
    CHECK(strcmp(e->queue, "the \"graph\"") == 0);
}

/* Neighbours on a lane: the later one begins when the earlier one has ended. */
static void check_lane(const hcq_profile_event *e, uint32_t count, hcq_queue_kind kind) {
    const hcq_profile_event *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (e[i].lane_kind != kind) { continue; }
        CHECK(before == NULL || before->end_ns <= e[i].begin_ns);
        CHECK(before == NULL || before->submission <= e[i].submission);
        before = &e[i];
    }
}

/* The events of both devices; each command as often as it was launched. What a
   command waited for on another lane has ended before it begins. */
static uint32_t check_events(uint32_t launches) {
    static uint64_t begins[COMMANDS][MANY], ends[COMMANDS][MANY];
    uint32_t seen[COMMANDS] = {0}, all = 0;
    uint64_t error = 0;
    for (uint32_t d = 0; d < 2; d++) {
        uint32_t count = 0;
        uint64_t lost = 1;
        CHECK_OK(hcq_profile_events(devices[d], events, MOST, &count, &lost));
        CHECK(lost == 0);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t c = events[i].command;
            check_event(&events[i], d);
            CHECK(seen[c] < launches);
            begins[c][seen[c]] = events[i].begin_ns;
            ends[c][seen[c]++] = events[i].end_ns;
            error = events[i].error_ns > error ? events[i].error_ns : error;
        }
        check_lane(events, count, HCQ_COMPUTE);
        check_lane(events, count, HCQ_COPY);
        all += count;
    }
    for (uint32_t c = 0; c < COMMANDS; c++) {
        CHECK(seen[c] == launches);
        const int32_t before = expected[c].waits;
        for (uint32_t i = 0; i < launches && before >= 0; i++) {
            CHECK(ends[before][i] <= begins[c][i] + 2 * error);
        }
    }
    return all;
}

static void start(uint32_t ring) {
    hcq_profile_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.events = ring;
    desc.names = 16;                   /* so few that hashes collide */
    for (int d = 0; d < 2; d++) { CHECK_OK(hcq_profile_start(devices[d], &desc)); }
}

static void stop(void) {
    for (int d = 0; d < 2; d++) { CHECK_OK(hcq_profile_stop(devices[d])); }
}

static uint32_t count_events(uint32_t d, uint64_t *lost) {
    uint32_t count = 12345;
    CHECK_OK(hcq_profile_events(devices[d], events, MOST, &count, lost));
    return count;
}

static void check_off(void) {
    uint64_t lost = 1;
    launch(5, 0);
    for (uint32_t d = 0; d < 2; d++) { CHECK(count_events(d, &lost) == 0 && lost == 0); }
}

/* Recording a bound graph takes no memory from the first launch on, not even where
   the ring is full. */
static void check_memory(void) {
    CHECK_OK(hcq_queue_bind(graph, devices[0]));
    launch(RING, 0);                   /* what the launches themselves need */
    for (int d = 0; d < 2; d++) { CHECK_OK(hcq_device_synchronize(devices[d], BOUND)); }
    start(RING);
    const uint64_t before = __atomic_load_n(&allocations, __ATOMIC_SEQ_CST);
    launch(MANY, 0);
    CHECK(__atomic_load_n(&allocations, __ATOMIC_SEQ_CST) == before);
    stop();
}

/* A new start forgets also what was submitted before it and still has to run. */
static void check_restart(void) {
    hcq_submission s;
    hcq_point gate, done;
    uint64_t lost = 1;
    memset(&s, 0, sizeof s);
    gate.value = 1;
    CHECK_OK(hcq_signal_create(devices[0], 0, &gate.signal));
    s.waits = &gate;
    s.wait_count = 1;
    s.queues = &graph;
    s.queue_count = 1;
    start(0);
    CHECK_OK(hcq_submit(devices[0], &s, 1, &done));
    start(0);
    CHECK_OK(hcq_signal_set(gate.signal, 1));
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
    for (uint32_t d = 0; d < 2; d++) { CHECK(count_events(d, &lost) == 0 && lost == 0); }
    stop();
    CHECK_OK(hcq_signal_destroy(gate.signal));
}

/* A ring that is too small keeps the latest and counts the others. */
static void check_lost(void) {
    uint64_t lost = 0, first = hcq_device_timeline_value(devices[0]);
    start(RING);
    launch(MANY, 0);
    stop();
    const uint32_t count = count_events(0, &lost);
    CHECK(count > 0 && count < MANY && lost > 0);
    CHECK(count + lost == MANY * 7);   /* of ten commands seven are the first one's */
    CHECK(events[count - 1].submission == first + MANY - 1);
    CHECK(events[0].submission > first);
}

/* ---- the files ---- */

static void save(const char *directory, const char *file, hcq_profile_format format) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    CHECK_OK(hcq_profile_save(devices, 2, format, path));
    CHECK(hcq_profile_print(devices, 2, format, path, sizeof path) > sizeof path ||
          format == HCQ_PROFILE_SUMMARY);
    CHECK(strlen(path) < sizeof path);
}

static void write_files(const char *directory, uint32_t launches, int one_by_one,
                        const char *const names[3]) {
    uint32_t arrows = 0;
    const uint64_t began = hcq_sys_now_ns();
    start(0);
    launch(launches - 1, one_by_one);
    for (int i = 0; i < 3; i++) { CHECK_OK(hcq_device_synchronize(devices[i / 2], BOUND)); }
    long_since = began;
    launch(1, 1);
    long_since = 0;
    stop();
    launch(2, 0);                      /* not in it any more */
    const uint32_t bars = check_events(launches);
    for (uint32_t c = 0; c < COMMANDS; c++) { arrows += expected[c].waits >= 0; }
    save(directory, names[0], HCQ_PROFILE_TRACE);
    save(directory, names[1], HCQ_PROFILE_HTML);
    save(directory, names[2], HCQ_PROFILE_SUMMARY);
    printf("%s lanes 4 bars %u arrows %u launches %u synchronizations 3\n", names[0], bars,
           arrows * launches, launches);
}

int main(int argc, char **argv) {
    static const char *const few[3] = {"trace.json", "page.html", "summary.txt"};
    static const char *const many[3] = {"many.json", "many.html", "many.txt"};
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    devices[0] = open_device("CPU:0");
    devices[1] = open_device("CPU:1");
    record_graph();
    check_off();
    check_memory();
    hcq_queue_destroy(graph);
    record_graph();                    /* one that is not bound */
    check_restart();
    check_lost();
    write_files(argv[1], MANY, 0, many);
    write_files(argv[1], FEW, 1, few);
    for (uint32_t c = 0; c < COMMANDS; c++) {
        if (expected[c].waits >= 0) { printf("wait %d %u\n", expected[c].waits, c); }
    }
    CHECK(host_calls != 0);
    hcq_queue_destroy(graph);
    CHECK_OK(hcq_close(devices[0]));
    CHECK_OK(hcq_close(devices[1]));
    return 0;
}
