/* profile.c - profiles a graph on two CPU devices and writes it down; what is
   recorded, and when, is the conformance suite's. profile.sh opens the files.

   profile DIRECTORY [TEST]
       files_of_a_profile     few.json, few.html, few.txt of a few launches; of many,
                              many.json, many.html, many.txt
       files_of_races         race.json, ..., of two lanes that nothing orders; with HCQ_CHECK
       files_of_shares        shares.json, ..., of grids on CPU:1, a block for each thread or one
       files_of_very_many     big.html: 100,000 events */
#include "support/util.h"

enum { WORDS = 16384, FEW = 3, MANY = 400, VERY_MANY = 10000, RACES = 2 }; /* profile.py knows them */

#define ODD "</script>\"\\<b>&'\t\x01"
#define CUT "thirty-one bytes end before a-\xe2\x98\x83"
#define SNOW "\xe2\x98\x83 \xf0\x9f\x98\x80"

static const char *directory;
static hcq_queue *graph;
static uint64_t long_since;            /* 0, or how the next host command knows how long */

/* Takes three times as long as everything since `long_since`, so that there
   is a bar with room for its name, however slow the machine is. */
static hcq_result take_long(void *user) {
    const uint64_t begin = hcq_now_ns();
    (void)user;
    while (long_since != 0 && hcq_now_ns() - begin < 3 * (begin - long_since)) { }
    return HCQ_OK;
}

static int32_t mix_all(hcq_program *mix, hcq_buffer dst, hcq_buffer src) {
    const mix_args args = {dst.address, src.address, WORDS, 0};
    return hcq_queue_exec(graph, mix, &args, sizeof args, hcq_dim(4, 1, 1),
                          hcq_dim(WORDS / 4, 1, 1));
}

static int32_t add_all(hcq_program *add, hcq_buffer dst, uint32_t value) {
    const add_args args = {dst.address, value, WORDS};
    return hcq_queue_exec(graph, add, &args, sizeof args, hcq_dim(4, 1, 1),
                          hcq_dim(WORDS / 4, 1, 1));
}

/* The big copies have a lane of their own, as kernels that have nothing to do with
   them can run at the same time. */
static void record_graph(void) {
    hcq_device *const devices[2] = {T.dev, dev2()};
    hcq_program *mixes[2];
    hcq_buffer x[2], y[2], z = make_words(T.dev, WORDS), result = make_words(T.dev, WORDS);
    for (int d = 0; d < 2; d++) {
        mixes[d] = make_mix(devices[d]);
        x[d] = make_words(devices[d], WORDS);
        y[d] = make_words(devices[d], WORDS);
    }
    graph = make_queue(T.dev, HCQ_GRAPH);
    CHECK_OK(hcq_queue_label(graph, "the \"graph\""));
    CHECK_INDEX(hcq_queue_fill(graph, x[0], x[0].size, 3, 4), 0);
    CHECK_INDEX(mix_all(mixes[0], y[0], x[0]), 1);
    CHECK_INDEX(hcq_queue_copy(graph, x[1], y[0], x[1].size), 2);
    CHECK_INDEX(add_all(make_add(dev2()), y[1], 5), 3);
    CHECK_INDEX(mix_all(mixes[1], y[1], x[1]), 4);
    CHECK_INDEX(hcq_queue_copy(graph, z, y[1], z.size), 5);
    CHECK_INDEX(add_all(make_add(T.dev), result, 7), 6);
    CHECK_INDEX(mix_all(mixes[0], result, z), 7);
    CHECK_INDEX(record_word(graph, hcq_view(result, 0, 8), 9, 8), 8);
    CHECK_INDEX(hcq_queue_host(graph, take_long, NULL), 9);
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
        CHECK_OK(hcq_queue_submit(graph, T.dev, &done));
        if (one_by_one || i + 1 == times) {
            WAIT_OK(done);
        }
    }
}

/* ---- the files ---- */

static void save(const char *name, const char *ending, hcq_profile_format format) {
    hcq_device *const devices[2] = {T.dev, dev2()};
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s", directory, name, ending);
    CHECK_OK(hcq_profile_save(devices, 2, format, path));
    CHECK(hcq_profile_print(devices, 2, format, path, sizeof path) > sizeof path ||
          format == HCQ_PROFILE_SUMMARY);
    CHECK(strlen(path) < sizeof path);
}

static void save_all(const char *name) {
    save(name, "json", HCQ_PROFILE_TRACE);
    save(name, "html", HCQ_PROFILE_HTML);
    save(name, "txt", HCQ_PROFILE_SUMMARY);
}

static void write_files(const char *name, uint32_t launches, int one_by_one) {
    const hcq_profile_desc desc = {0, 16}; /* so few names that hashes collide */
    const uint64_t began = hcq_now_ns();
    CHECK_OK(hcq_profile_start(T.dev, &desc));
    CHECK_OK(hcq_profile_start(dev2(), &desc));
    launch(launches - 1, one_by_one);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(hcq_device_synchronize(i / 2 ? dev2() : T.dev, BOUND));
    }
    long_since = began;
    launch(1, 1);
    long_since = 0;
    CHECK_OK(hcq_profile_stop(T.dev));
    CHECK_OK(hcq_profile_stop(dev2()));
    launch(2, 0);                      /* not in it any more */
    save_all(name);
}

TEST(files_of_a_profile) {
    record_graph();
    write_files("many", MANY, 0);
    CHECK_OK(hcq_queue_bind(graph, T.dev));
    write_files("few", FEW, 1);
}

/* What writes the same bytes on another lane each time: in the second half of a plain queue,
   and in a graph. CPU:1 is profiled and does nothing. */
TEST(files_of_races) {
    static const uint32_t words[WORDS];
    hcq_buffer a = make_words(T.dev, WORDS), b = make_words(T.dev, WORDS);
    hcq_queue *left = make_queue(T.dev, HCQ_COMPUTE), *right = make_queue(T.dev, HCQ_COPY);
    hcq_signal reached = make_signal(T.dev, 1);
    graph = make_queue(T.dev, HCQ_GRAPH);
    T.races_meant = 1;
    CHECK_INDEX(hcq_queue_fill(left, a, a.size, 1, 4), 0);
    CHECK_INDEX(hcq_queue_wait(left, hcq_at(reached, 1)), 1);
    CHECK_INDEX(hcq_queue_fill(left, b, b.size, 2, 4), 2);
    CHECK_INDEX(hcq_queue_fill(left, a, a.size, 5, 4), 3);
    CHECK_INDEX(hcq_queue_fill(graph, a, a.size, 1, 4), 0);
    CHECK_INDEX(hcq_queue_fill(graph, b, b.size, 3, 4), 1);
    CHECK_INDEX(hcq_queue_fill(right, b, b.size, 4, 4), 0);
    CHECK_OK(hcq_queue_command_label(left, 2, "left"));
    CHECK_OK(hcq_queue_command_label(graph, 1, "left"));
    CHECK_OK(hcq_queue_command_label(right, 0, "right"));
    CHECK_OK(hcq_profile_start(T.dev, NULL));
    CHECK_OK(hcq_profile_start(dev2(), NULL));
    CHECK_OK(hcq_copyin(a, words, sizeof words));
    for (int i = 0; i < RACES; i++) {
        hcq_point done[2];
        CHECK_OK(hcq_queue_submit(i ? graph : left, T.dev, &done[0]));
        CHECK_OK(hcq_queue_submit(right, T.dev, &done[1]));
        WAIT_OK(done[0]);
        WAIT_OK(done[1]);
    }
    save_all("race");
}

TEST(files_of_shares) {
    static meeting meetings[8];
    hcq_device_desc desc = test_desc();
    hcq_point done;
    test_cpu_desc.workers = 2;
    T.dev2 = test_open(1, &desc);
    graph = make_queue(dev2(), HCQ_COMPUTE);
    for (int i = 0; i < 8; i++) {
        meetings[i].all = i % 2 ? 3 : 1;
        CHECK_INDEX(hcq_queue_exec(graph, make_meet(dev2(), &meetings[i]), NULL, 0,
                                   hcq_dim(meetings[i].all, 1, 1), dims_one), i);
    }
    CHECK_OK(hcq_profile_start(dev2(), NULL));
    CHECK_OK(hcq_queue_submit(graph, dev2(), &done));
    WAIT_OK(done);
    save_all("shares");
}

TEST(files_of_very_many) {
    const hcq_profile_desc desc = {1 << 17, 0};
    record_graph();
    CHECK_OK(hcq_profile_start(T.dev, &desc));
    CHECK_OK(hcq_profile_start(dev2(), &desc));
    for (int i = 0; i < VERY_MANY / 100; i++) { launch(100, 0); }
    save("big", "html", HCQ_PROFILE_HTML);
}

int main(int argc, char **argv) {
    directory = argc > 1 ? argv[1] : ".";
    cmocka_set_test_filter(argc > 2 ? argv[2] : "files_of_a_profile");
    return test_start(1, argv) || test_run();
}
