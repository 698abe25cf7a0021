/* profile.c - profiles a graph on two CPU devices and writes it down; what is
   recorded, and when, is the conformance suite's. tests/core/profile.sh opens the files.

   profile DIRECTORY      trace.json, page.html, summary.txt of a few launches,
                          and many.json, many.html, many.txt of many

   The last lines on stdout say what the files must show. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "../../hcq.h"

enum { WORDS = 16384, COMMANDS = 10, FEW = 3, MANY = 400 };
#define BOUND 10000000000ull

#define ODD "</script>\"\\<b>&'\t\x01"
#define CUT "thirty-one bytes end inside a \xe2\x98\x83"
#define SNOW "\xe2\x98\x83 \xf0\x9f\x98\x80"

/* What a command waits for on another lane, -1: none. The big copies have a lane of
   their own, as kernels that have nothing to do with them can run at the same time. */
static const int32_t waits[COMMANDS] = {-1, -1, 1, -1, 2, 4, -1, 5, -1, -1};

static hcq_device *devices[2];
static hcq_queue *graph;
static hcq_buffer result;
static uint32_t host_calls;
static uint64_t long_since;            /* 0, or how the next host command knows how long */

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

static hcq_device *open_device(const char *name) {
    hcq_device_desc desc;
    hcq_device *device = NULL;
    memset(&desc, 0, sizeof desc);
    desc.label = name;
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

static void start(void) {
    const hcq_profile_desc desc = {0, 16}; /* so few names that hashes collide */
    for (int d = 0; d < 2; d++) { CHECK_OK(hcq_profile_start(devices[d], &desc)); }
}

static void stop(void) {
    for (int d = 0; d < 2; d++) { CHECK_OK(hcq_profile_stop(devices[d])); }
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
    start();
    launch(launches - 1, one_by_one);
    for (int i = 0; i < 3; i++) { CHECK_OK(hcq_device_synchronize(devices[i / 2], BOUND)); }
    long_since = began;
    launch(1, 1);
    long_since = 0;
    stop();
    launch(2, 0);                      /* not in it any more */
    for (uint32_t c = 0; c < COMMANDS; c++) { arrows += waits[c] >= 0; }
    save(directory, names[0], HCQ_PROFILE_TRACE);
    save(directory, names[1], HCQ_PROFILE_HTML);
    save(directory, names[2], HCQ_PROFILE_SUMMARY);
    printf("%s lanes 4 bars %u arrows %u launches %u synchronizations 3\n", names[0],
           COMMANDS * launches, arrows * launches, launches);
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
    write_files(argv[1], MANY, 0, many);
    CHECK_OK(hcq_queue_bind(graph, devices[0]));
    write_files(argv[1], FEW, 1, few);
    for (uint32_t c = 0; c < COMMANDS; c++) {
        if (waits[c] >= 0) { printf("wait %d %u\n", waits[c], c); }
    }
    CHECK(host_calls != 0);
    hcq_queue_destroy(graph);
    CHECK_OK(hcq_close(devices[0]));
    CHECK_OK(hcq_close(devices[1]));
    return 0;
}
