/* One less, as many, one more than each number at which the library does something
   else: core/limits.py lists these, and the test for each. Part of conformance.c. */
#include <sched.h>

static const uint32_t limits_counts[] = {
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129,
    255, 256, 257, 511, 512, 513, 1023, 1024, 1025
};

/* The counts up to `most`; where a submission takes long, up to 129. */
static uint32_t limits_until(uint32_t most) {
    uint32_t n = sizeof limits_counts / sizeof limits_counts[0];
    most = most > 129 && (T.quick || TEST_SANITIZED || is_gpu()) ? 129 : most;
    while (limits_counts[n - 1] > most) {
        n--;
    }
    return n;
}

/* ---- how many at once ---- */

/* What would wrap is refused, and a grid from nowhere. */
TEST(sizes_that_wrap) {
    static uint32_t words[64];
    const hcq_buffer hole = {.size = sizeof(hcq_dims)};
    const add_args args = {0};
    hcq_program_desc desc = {.label = "wraps", .cpu = add_cpu, .args = {HCQ_ARG_STRUCT(65537, 1)}};
    hcq_program *program;
    hcq_buffer b;
    uint64_t ns = 7;
    CHECK_RESULT(hcq_program_call(make_add(T.dev), &args, 1, dims_one, dims_one, &ns),
                 HCQ_ERROR_INVALID);
    CHECK_U64(ns, 0);                  /* no time, if it did not run */
    CHECK_RESULT(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_import(T.dev, words, UINT64_MAX, 0, &b), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_queue_exec_indirect(make_queue(T.dev, HCQ_COMPUTE), make_add(T.dev), &args,
                                         sizeof args, hole, dims_one, dims_one), HCQ_ERROR_INVALID);
}

TEST(any_number_in_flight) {
    hcq_buffer word = make_words(T.dev, 1);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    uint32_t total = 0;
    CHECK_INDEX(record_add(q, make_add(T.dev), word, 0, 1), 0);
    for (uint32_t way = 0; way < 2; way++) { /* held, handed over */
        for (uint32_t k = 0; k < limits_until(1025); k++) {
            hcq_signal s = make_signal(T.dev, 0);
            hcq_point gate = make_gate(T.dev), done = {{0}, 0}, raise;
            hcq_point first = way ? hold_device(T.dev, NULL) : gate;
            for (uint32_t i = 0; i < limits_counts[k]; i++) {
                raise = hcq_at(s, i + 1);
                CHECK_OK(submit_queue(q, T.dev, i == 0 ? &first : NULL, &raise, 0, &done));
            }
            CHECK_RESULT(test_poll(hcq_at(s, 1)), HCQ_TIMEOUT);
            hold_release();
            GATE_END(gate, hcq_at(s, limits_counts[k]));
            WAIT_OK(done);
            total += limits_counts[k];
            CHECK_U64(READ32(word, 0), total);
        }
    }
}

/* Each wait counts: also the one whose point is reached last. */
TEST(any_number_of_waits) {
    enum { MOST = 129 };
    static hcq_point waits[MOST];
    for (uint32_t way = 0; way < 2; way++) { /* of the submission, of the recording */
        for (uint32_t k = 0; k < limits_until(MOST); k++) {
            const uint32_t n = limits_counts[k], last = (uint32_t)(k * 7 % n);
            hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
            hcq_point done;
            for (uint32_t i = 0; i < n; i++) {
                waits[i] = make_gate(i % 2 ? T.dev : dev2());
                CHECK(!way || hcq_queue_wait(q, waits[i]) >= 0);
            }
            CHECK_OK(SUBMIT(T.dev, q, &done, .waits = waits, .wait_count = way ? 0 : n));
            for (uint32_t i = 1; i < n; i++) {
                open_gate(waits[(last + i) % n]);
            }
            CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
            GATE_END(waits[last], done);
        }
    }
}

/* The same where the points are those of lanes that run. */
TEST(any_number_of_running_lanes) {
    enum { DEVICES = 3, LANES = 8, ALL = DEVICES * LANES };
    static uint32_t go[ALL];
    static const uint32_t counts[] = {1, 2, 3, 8, 15, 16, 17, ALL};
    hcq_device *devices[DEVICES];
    SKIP_IF(!is_cpu() || T.variant->one_fifo, "the lanes do not run beside each other");
    SKIP_IF(TEST_CHECKED, "one thread calls the host's functions");
    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i] = OPEN_WITH(i, .compute_lanes = LANES);
    }
    for (uint32_t k = 0; k < 2 * sizeof counts / sizeof counts[0]; k++) {
        const uint32_t n = counts[k / 2], last = k % 2 ? n - 1 : k % n;
        hcq_point points[ALL], done;
        memset(go, 0, sizeof go);
        for (uint32_t i = 0; i < n; i++) {
            hcq_queue *q = make_queue(devices[i / LANES], HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_host(q, host_until, &go[i]), 0);
            CHECK_OK(SUBMIT(devices[i / LANES], q, &points[i], .affinity = i % LANES));
        }
        CHECK_OK(submit_waits(T.dev, points, n, NULL, 0, &done));
        for (uint32_t i = 1; i < n; i++) {
            __atomic_store_n(&go[(last + i) % n], 1, __ATOMIC_RELEASE);
            WAIT_OK(points[(last + i) % n]);
        }
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        __atomic_store_n(&go[last], 1, __ATOMIC_RELEASE);
        WAIT_OK(done);
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        CHECK_OK(hcq_close(devices[i]));
    }
}

TEST(any_number_of_commands) {
    hcq_buffer word = make_words(T.dev, 1);
    hcq_program *add = make_add(T.dev);
    uint32_t total = 0;
    for (uint32_t way = 0; way < 2; way++) { /* as it is, bound */
        for (uint32_t k = 0; k <= limits_until(1025); k++) {
            const uint32_t n = k < limits_until(1025) ? limits_counts[k] : 5000;
            hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
            for (uint32_t i = 0; i < n; i++) {
                CHECK_INDEX(record_add(q, add, word, 0, 1), i);
            }
            CHECK_OK(way ? hcq_queue_bind(q, T.dev) : HCQ_OK);
            CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
            total += n;
            CHECK_U64(READ32(word, 0), total);
        }
    }
}

/* Of a bound queue between two submissions, of different commands and of one. */
TEST(any_number_of_updates) {
    enum { COMMANDS = 131 };
    uint32_t model[COMMANDS] = {0}, value = 0;
    hcq_buffer words = make_words(T.dev, COMMANDS);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *put = make_put(T.dev);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        CHECK_INDEX(record_put(q, put, words, i, 0), i);
    }
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t k = 0; k < 2 * limits_until(129); k++) {
        const uint32_t n = limits_counts[k / 2];
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = k % 2 && i > 1 ? value % COMMANDS : (i * 37 + value) % COMMANDS;
            model[at] = 1000 * k + i + 1;
            CHECK_OK(hcq_queue_update_arg(q, (int32_t)at, 12, &model[at], 4));
        }
        value += n;
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_BYTES(words, model, sizeof model);
    }
}

/* Launches that pass other work, but not each other. */
TEST(any_number_of_earlier_launches) {
    hcq_buffer word = make_words(T.dev, 1);
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH);
    uint32_t total = 0;
    CHECK_INDEX(record_add(g, make_add(T.dev), word, 0, 1), 0);
    CHECK_OK(hcq_queue_bind(g, T.dev));
    for (uint32_t k = 0; k < limits_until(33); k++) {
        hcq_point gate = make_gate(T.dev), done = {{0}, 0};
        for (uint32_t i = 0; i < limits_counts[k]; i++) {
            CHECK_OK(submit_queue(g, T.dev, &gate, NULL, HCQ_OVERLAP, &done));
        }
        GATE_END(gate, done);
        total += limits_counts[k];
        CHECK_U64(READ32(word, 0), total);
    }
}

/* ---- how large ---- */

/* Bytes to and from a device, at any place, staged in pieces of 4 KiB or as is the
   default; what lies around them stays. */
TEST(copies_around_every_size) {
    static const uint32_t sizes[] = {2, 8, 16, 4096, 8192, 16384, 65536, 63 * 4096, 64 * 4096,
                                     65 * 4096, 128 * 4096};
    static const uint32_t offsets[] = {4, 5, 7, 4095};
    enum { MOST = 128 * 4096 + 1, ALL = MOST + 4200 };
    static unsigned char in[MOST + 64], out[ALL];
    fill_pattern(in, sizeof in, T.seed);
    for (uint32_t way = 0; way < 2; way++) {
        hcq_device *device = OPEN_WITH(0, .staging_bytes = way ? 4096 : 0,
                                       .staging_count = way ? 130 : 0);
        hcq_buffer buffer = make_buffer(device, ALL, 0);
        for (uint32_t k = 0; k < 3 * sizeof sizes / sizeof sizes[0]; k++) {
            const uint32_t size = sizes[k / 3] - 1 + k % 3, at = offsets[k % 4];
            const unsigned char around[8] = {1, 2, 3, 4, 5, 6, 7, 8};
            hcq_buffer view = hcq_view(buffer, at, size);
            CHECK_OK(hcq_copyin(hcq_view(buffer, at - 4, 4), around, 4));
            CHECK_OK(hcq_copyin(hcq_view(buffer, at + size, 4), around + 4, 4));
            CHECK_OK(hcq_copyin(view, in + k, size));
            CHECK_BYTES(hcq_view(buffer, at - 4, 4), around, 4);
            CHECK_BYTES(hcq_view(buffer, at + size, 4), around + 4, 4);
            out[0] = out[size + 1] = 0;
            CHECK_OK(hcq_copyout(out + 1, view, size));
            CHECK(out[0] == 0 && out[size + 1] == 0 && memcmp(out + 1, in + k, size) == 0);
        }
        CHECK_OK(hcq_close(device));
    }
}

/* ---- what is refused ---- */

/* Values whose promises lie in one place do not meet; the same one does. */
TEST(promises_in_one_place) {
    enum { PLACES = 16384 };
    static const uint64_t values[] = {5, 4 + PLACES, 5 + PLACES, 6 + PLACES, 5 + 2 * PLACES};
    hcq_signal s = make_signal(T.dev, 0);
    hcq_point gate = make_gate(T.dev), done = {{0}, 0};
    for (uint32_t i = 0; i < 5; i++) {
        hcq_point raise = hcq_at(s, values[i]);
        CHECK_OK(submit_lists(T.dev, &gate, &raise, 0, &done));
        for (uint32_t k = 0; k <= i; k++) {
            raise = hcq_at(s, values[k]);
            CHECK_RESULT(submit_lists(dev2(), &gate, &raise, 0, NULL), HCQ_ERROR_INVALID);
        }
    }
    GATE_END(gate, done);
    WAIT_OK(hcq_at(s, values[4]));
}

/* As many values as a submission may have, all of one kind and half of each. */
TEST(numbers_of_values) {
    enum { MOST = 256 };
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer words = make_words(T.dev, MOST);
    hcq_value inputs[MOST], numbers[MOST];
    uint32_t want[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        const hcq_buffer word = hcq_view(words, 4 * i, 4);
        inputs[i] = hcq_value_buffer(word);
        numbers[i] = i % 2 ? hcq_value_number(i + 7) : hcq_value_number(word.address);
        want[i] = i + 1;
        CHECK_INDEX(record_word(g, hcq_graph_input(g, i, NULL, 4), i + 1, 4), i);
        CHECK_INDEX(record_word(q, word, i, 4), i);
        CHECK_OK(hcq_queue_variable(q, (int32_t)i, i % 2 ? HCQ_PART_VALUE : HCQ_PART_DST, i, 0));
    }
    CHECK_U64(hcq_graph_input(make_graph(), MOST, NULL, 4).size, 0);
    for (uint32_t way = 0; way < 4; way++) { /* bound, too */
        CHECK_OK(way == 2 ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        CHECK_OK(way == 2 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_RESULT(hcq_queue_submit_with(g, T.dev, inputs, MOST - 1, 0, NULL), HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_submit_with(g, T.dev, inputs, MOST, 0, NULL));
        CHECK_BYTES(words, want, sizeof want);
        CHECK_RESULT(hcq_queue_submit_with(q, T.dev, numbers, MOST - 1, 0, NULL),
                     HCQ_ERROR_INVALID);
        CHECK_OK(hcq_queue_submit_with(q, T.dev, numbers, MOST, 0, NULL));
        CHECK(READ32(words, 0) == 0 && READ32(words, MOST - 2) == MOST - 2);
        CHECK(READ32(words, 1) == 8 && READ32(words, MOST - 1) == MOST + 6);
    }
}

/* Bytes of every size at every address, changed behind the recording: what was recorded is
   written, and nothing beside it. */
TEST(writes_of_every_size) {
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 13, 4095, 65535, 65536};
    enum { ROOM = 65536 + 16 };
    static unsigned char bytes[ROOM], model[ROOM];
    hcq_buffer to = make_buffer(T.dev, ROOM, HCQ_ZEROED);
    for (uint32_t kind = 0; kind < 3; kind++) {
        hcq_queue *q = make_queue(T.dev, (hcq_queue_kind)kind);
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const uint32_t at = (i + kind) % 16;
            for (uint32_t k = 0; k < ROOM; k++) { bytes[k] = (unsigned char)(k * 7 + i + kind); }
            memcpy(model + at, bytes + i, sizes[i]);
            CHECK_INDEX(hcq_queue_write(q, hcq_view(to, at, sizes[i]), bytes + i, sizes[i]), i);
        }
        CHECK_OK(kind == 1 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_BYTES(to, model, ROOM);
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) { /* a number's, or not */
            const int number = sizes[i] <= 2 || sizes[i] == 8;
            CHECK_RESULT(hcq_queue_variable(q, (int32_t)i, HCQ_PART_VALUE, i, 0),
                         number ? HCQ_OK : HCQ_ERROR_INVALID);
        }
        CHECK_RESULT((hcq_result)hcq_queue_write(q, to, bytes, 65537), HCQ_ERROR_INVALID);
    }
}

TEST(as_many_empties_as_fit) {
    enum { MOST = 4000 };
    hcq_queue *g = make_queue(T.dev, HCQ_GRAPH), *one = make_queue(T.dev, HCQ_GRAPH);
    hcq_buffer last;
    CHECK_INDEX(hcq_graph_alloc(one, NULL, 64, 0, &last), 0);
    for (uint32_t i = 0; i < MOST - 1; i++) {
        CHECK_INDEX(hcq_graph_alloc(g, NULL, 64, 0, &last), i);
    }
    CHECK_INDEX(hcq_queue_append(g, one), MOST - 1);
    CHECK_INDEX(hcq_queue_fill(g, last, 64, 1, 4), MOST);
    CHECK_RESULT((hcq_result)hcq_queue_append(g, one), HCQ_ERROR_LIMIT);
    CHECK_OK(hcq_queue_reset(g));
    for (uint32_t i = 0; i < MOST; i++) {
        CHECK_INDEX(hcq_graph_alloc(g, NULL, 64, 0, &last), i);
    }
    CHECK_RESULT((hcq_result)hcq_graph_alloc(g, NULL, 64, 0, &last), HCQ_ERROR_LIMIT);
    CHECK_U64(last.size, 0);
}

/* A graph whose calls are on `n` lanes: of each device one that computes, one that
   copies `bytes`. */
static hcq_result graph_on_lanes(hcq_device *const *devices, uint32_t n, uint64_t bytes) {
    hcq_queue *g = make_queue(devices[0], HCQ_GRAPH);
    for (uint32_t i = 0; i < n; i++) {
        hcq_device *device = devices[i / 2];
        hcq_buffer a = make_buffer(device, bytes, 0), b = make_buffer(device, bytes, 0);
        CHECK_INDEX(i % 2 ? hcq_queue_copy(g, a, b, bytes)
                          : record_add(g, make_add(device), a, 0, 1), i);
    }
    hcq_result result = hcq_queue_bind(g, devices[0]);
    if (result == HCQ_OK) {
        RUN_OK(g, devices[0]);
    }
    return result;
}

TEST(graphs_on_as_many_lanes_as_fit) {
    enum { MOST = 64, BYTES = 16384 };
    hcq_device *devices[MOST / 2 + 1];
    hcq_device_desc desc = test_desc();
    SKIP_IF(!is_cpu() || T.variant->one_fifo, "its devices have no copy lane, or are few");
    for (uint32_t i = 0; i < MOST / 2 + 1; i++) {
        devices[i] = test_open(i, &desc);
    }
    CHECK_OK(graph_on_lanes(devices, MOST - 1, BYTES));
    CHECK_OK(graph_on_lanes(devices, MOST, BYTES + 1));
    CHECK_OK(graph_on_lanes(devices, MOST + 2, BYTES - 1)); /* no copy lane's business */
    CHECK_SAYS(graph_on_lanes(devices, MOST + 1, BYTES), HCQ_ERROR_LIMIT, "lanes");
    for (uint32_t i = 0; i < MOST / 2 + 1; i++) {
        CHECK_OK(hcq_close(devices[i]));
    }
}

/* Of each kind 8 where the backend says so; of both 16 in any case. */
TEST(as_many_lanes_as_fit) {
    static const uint32_t wanted[][2] = {{7, 8}, {8, 8}, {8, 9}, {9, 8}, {1000, 1000}};
    for (uint32_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        hcq_device_desc desc = test_desc();
        hcq_device *device = NULL;
        desc.compute_lanes = wanted[k][0];
        desc.copy_lanes = wanted[k][1];
        hcq_result result = hcq_open(T.variant->backend, &desc, &device);
        uint32_t both = wanted[k][0] + (test_forced.no_copy_lane ? 0 : wanted[k][1]);
        if (is_mock() && both > 16) {  /* it has as many as are wanted */
            CHECK_RESULT(result, HCQ_ERROR_LIMIT);
            continue;
        }
        CHECK_OK(result);
        const uint64_t lanes = test_info(device).compute_lanes;
        CHECK(lanes >= 1 && lanes <= wanted[k][0] && lanes <= 16);
        CHECK(!is_cpu() || lanes == (wanted[k][0] < 8 ? wanted[k][0] : 8));
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_buffer word = make_words(device, 1);
        hcq_point done = {{0}, 0};
        CHECK_INDEX(record_add(q, make_add(device), word, 0, 1), 0);
        for (uint32_t i = 0; i <= lanes; i++) {
            CHECK_OK(SUBMIT(device, q, &done, .affinity = i, .waits = &done, .wait_count = i != 0));
        }
        WAIT_OK(done);
        CHECK_U64(READ32(word, 0), lanes + 1);
        CHECK_OK(hcq_close(device));
    }
}

TEST(ordinals_of_the_cpu) {
    hcq_device *device = NULL;
    SKIP_IF(strcmp(T.variant->backend, "CPU") != 0, "as many as there are");
    for (uint32_t i = 62; i < 66; i++) {
        char name[16];
        snprintf(name, sizeof name, "CPU:%u", i);
        CHECK_RESULT(hcq_open(name, NULL, &device), i < 64 ? HCQ_OK : HCQ_ERROR_NO_DEVICE);
        CHECK_OK(hcq_close(device));
    }
}

typedef struct threads { uint32_t count[2]; cpu_set_t on[2]; } threads;

/* Lanes' and workers' that have one CPU, by the names that hcq gives them; and which CPUs. */
static threads threads_now(void) {
    threads t = {0};
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        cpu_set_t set;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *comm = fopen(path, "r");
        const int named = comm && fgets(name, sizeof name, comm);
        const int works = strncmp(name, "hcq worker ", 11) == 0;
        if (named && (works || strncmp(name, "hcq lane ", 9) == 0) &&
            sched_getaffinity(atoi(entry->d_name), sizeof set, &set) == 0 && CPU_COUNT(&set) == 1) {
            CPU_OR(&t.on[works], &t.on[works], &set);
            t.count[works]++;
        }
        if (comm) {
            fclose(comm);
        }
    }
    closedir(tasks);
    return t;
}

/* So many workers; each thread has one CPU, lanes and workers go through the CPUs in turn. */
TEST(threads_of_the_cpu) {
    static const uint32_t wanted[] = {HCQ_CPU_NO_WORKERS, 1, 3, 0};
    const uint32_t cpus = hcq_sys_cpu_count();
    SKIP_IF(strcmp(T.variant->backend, "CPU") != 0 || cpus == 1, "the CPU's threads, on several");
    for (uint32_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const uint32_t workers = i == 0 ? 0 : wanted[i] ? wanted[i] : cpus - 1;
        const uint64_t end = hcq_now_ns() + BOUND;
        hcq_device_desc desc = test_desc();
        test_cpu_desc.workers = wanted[i];
        test_cpu_desc.flags = HCQ_CPU_PIN;
        hcq_device *device = test_open(0, &desc);
        CHECK_U64(test_query(device, HCQ_QUERY_WORKERS), workers);
        const uint32_t lanes = test_info(device).compute_lanes + test_info(device).copy_lanes;
        threads now = threads_now();
        while (now.count[0] != lanes || now.count[1] != workers) {
            CHECK(hcq_now_ns() < end); /* they say it themselves, once they run */
            now = threads_now();
        }
        CHECK_U64(CPU_COUNT(&now.on[0]), lanes < cpus ? lanes : cpus);
        CHECK_U64(CPU_COUNT(&now.on[1]), workers < cpus ? workers : cpus);
        CHECK_OK(hcq_close(device));
    }
}

/* As many arguments as a program may have, and one less: their places, and none lost. */
TEST(as_many_arguments_as_fit) {
    NEEDS_CPU_KERNELS("a kernel with so many arguments");
    for (uint32_t n = HCQ_MAX_ARGS - 1; n <= HCQ_MAX_ARGS; n++) {
        hcq_program_desc desc = HCQ_CPU_PROGRAM(NULL, put_cpu);
        hcq_program_info info;
        uint64_t values[HCQ_MAX_ARGS], block[HCQ_MAX_ARGS];
        for (uint32_t i = 0; i < n; i++) {
            desc.args[i] = HCQ_ARG_U64;
            values[i] = 1000 + i;
        }
        hcq_program *program = make_kernel(T.dev, desc);
        CHECK_OK(hcq_program_info_get(program, &info));
        CHECK_U64(info.arg_count, n);
        CHECK_U64(info.kernargs_size, n * 8);
        CHECK_OK(hcq_program_fill_kernargs(program, NULL, 0, values, n, block, sizeof block));
        CHECK(memcmp(block, values, n * 8) == 0);
        CHECK_RESULT(hcq_program_fill_kernargs(program, NULL, 0, values, n - 1, block,
                                               sizeof block), HCQ_ERROR_INVALID);
    }
}
