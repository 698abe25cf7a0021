/* Recording, programs, grids, fills. Part of conformance.c. */

/* What is read back of a command. */
static void check_command(hcq_queue *q, int32_t index, const hcq_command *want) {
    hcq_command c;
    CHECK_OK(hcq_queue_command(q, index, &c));
    CHECK_U64(c.flags, want->flags);
    CHECK(c.kind == want->kind && c.device == want->device && c.program == want->program);
    CHECK(c.point.signal.id == want->point.signal.id && c.point.value == want->point.value);
    CHECK(memcmp(&c.grid, &want->grid, sizeof c.grid) == 0);
    CHECK(memcmp(&c.block, &want->block, sizeof c.block) == 0);
    CHECK(c.args_size == want->args_size && (!c.args_size ||
                                             memcmp(c.args, want->args, c.args_size) == 0));
    CHECK(c.dst.address == want->dst.address && c.src.address == want->src.address);
    CHECK(c.kind != HCQ_COMMAND_WRITE || memcmp(c.data, want->data, (size_t)c.size) == 0);
    CHECK(c.size == want->size && c.value == want->value && c.value_size == want->value_size);
    CHECK(c.host_fn == want->host_fn && c.user == want->user && c.type == want->type);
    CHECK(strcmp(c.label, want->label ? want->label : "") == 0);
}

/* Every command in one recording: indices, what they do, what is read back. The first
   error of a recording sticks. */
TEST(every_command) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *add = make_add(T.dev);
    hcq_signal s = make_signal(T.dev, 1), t = make_signal(T.dev, 0);
    hcq_buffer a = make_words(T.dev, 64), b = make_words(T.dev, 64), to = hcq_view(b, 8, 0);
    add_args args = {a.address, 4, 64}, kept = args;
    const hcq_dims grid = {4, 1, 1}, block = {16, 1, 1};
    const custom_payload p = {b.address + 4, 99, 1234};
    hcq_command c;
    const hcq_command wants[] = {
        {.kind = HCQ_COMMAND_WAIT, .point = hcq_at(s, 1)},
        {.kind = HCQ_COMMAND_WAIT_DEVICE, .device = dev2()},
        {.kind = HCQ_COMMAND_TIMESTAMP, .point = hcq_at(t, 0)},
        {.kind = HCQ_COMMAND_FILL, .dst = a, .size = 256, .value = 3, .value_size = 4},
        {.kind = HCQ_COMMAND_BARRIER},
        {.kind = HCQ_COMMAND_EXEC, .program = add, .grid = grid, .block = block,
         .args = &kept, .args_size = sizeof kept, .label = "a label of more than thirty-one"},
        {.kind = HCQ_COMMAND_COPY, .dst = to, .src = a, .size = 248},
        {.kind = HCQ_COMMAND_WRITE, .flags = HCQ_OVERLAP, .dst = b, .size = 8,
         .data = "\x88\x77\x66\x55\x44\x33\x22\x11"},
        {.kind = HCQ_COMMAND_HOST, .host_fn = host_nothing, .user = &args},
        {.kind = HCQ_COMMAND_SIGNAL, .point = hcq_at(t, 9)},
        {.kind = HCQ_COMMAND_CUSTOM, .type = &custom_type, .args = &p, .args_size = sizeof p},
    };
    CHECK_INDEX(hcq_queue_wait(q, hcq_at(s, 1)), 0);
    CHECK_INDEX(hcq_queue_wait_device(q, dev2()), 1);
    CHECK_INDEX(hcq_queue_timestamp(q, t), 2);
    CHECK_INDEX(hcq_queue_fill(q, a, 256, 3, 4), 3);
    CHECK_INDEX(hcq_queue_memory_barrier(q), 4);
    CHECK_INDEX(hcq_queue_exec(q, add, &args, sizeof args, grid, block), 5);
    CHECK_INDEX(hcq_queue_copy(q, to, a, 248), 6);
    CHECK_INDEX(record_word(q, b, 0x1122334455667788ull, 8), 7);
    CHECK_INDEX(hcq_queue_host(q, host_nothing, &args), 8);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(t, 9)), 9);
    CHECK_INDEX(hcq_queue_custom(q, &custom_type, &p), 10);
    CHECK_U64(hcq_queue_count(q), 11);
    memset(&args, 0, sizeof args);     /* was copied */
    CHECK_OK(hcq_queue_command_label(q, 5, "a label of more than thirty-one characters"));
    CHECK_OK(hcq_queue_command_flags(q, 7, HCQ_OVERLAP));
    CHECK_OK(hcq_queue_label(q, "the queue has one of more than that, too"));
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    WAIT_OK(hcq_at(t, 9));
    CHECK_U64(READ32(a, 63), 7);
    CHECK_U64(READ32(b, 0), 0x55667788);
    CHECK_U64(READ32(b, 1), 99);
    CHECK_U64(READ32(b, 63), 7);
    for (int32_t i = 0; i < 11; i++) {
        check_command(q, i, &wants[i]);
    }
    CHECK_RESULT(hcq_queue_command(q, 11, &c), HCQ_ERROR_INVALID);
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_fill(q, a, 64, 1, 4), 0);
    CHECK_SAYS(hcq_queue_fill(q, a, 260, 1, 4), HCQ_ERROR_INVALID, /* too long; the label stays */
               "queue 'the queue has one of more than ' command 1");
    CHECK_OK(hcq_signal_destroy(s));
    CHECK(hcq_queue_wait(q, hcq_at(s, 1)) < 0); /* a later error does not replace it */
    CHECK_RESULT(hcq_queue_submit(q, T.dev, NULL), HCQ_ERROR_INVALID);
    CHECK_U64(READ32(a, 0), 7);        /* nothing ran */
}

/* What was read back of a queue may be recorded into it again. */
TEST(record_what_was_read_back) {
    enum { TIMES = 200 };
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_buffer a = make_words(T.dev, 3);
    hcq_command c;
    CHECK_INDEX(record_add(q, make_add(T.dev), a, 0, 1), 0);
    CHECK_INDEX(record_word(q, hcq_view(a, 4, 8), 0x500000004ull, 8), 1);
    for (int32_t i = 2; i < TIMES; i += 2) {
        CHECK_OK(hcq_queue_command(q, i - 2, &c));
        CHECK_INDEX(hcq_queue_exec(q, c.program, c.args, c.args_size, c.grid, c.block), i);
        CHECK_OK(hcq_queue_command(q, i - 1, &c));
        CHECK_INDEX(hcq_queue_write(q, c.dst, c.data, (uint32_t)c.size), i + 1);
    }
    RUN_OK(q, T.dev);
    CHECK_U64(READ32(a, 0), TIMES / 2);
    CHECK(READ32(a, 1) == 4 && READ32(a, 2) == 5);
}

/* Of four that may overlap the barrier gathers what they wrote. */
TEST(a_barrier_gathers) {
    enum { N = 4096 };
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program *mix = make_mix(T.dev);
    hcq_buffer a = make_filled(T.dev, N, 1), b = make_filled(T.dev, N, 2);
    static uint32_t ma[N], mb[N];
    CHECK_OK(hcq_copyout(ma, a, sizeof ma));
    CHECK_OK(hcq_copyout(mb, b, sizeof mb));
    for (uint32_t i = 0; i < 4; i++) {
        const hcq_buffer dst = hcq_view(a, i * N, N), src = hcq_view(b, i * N, N);
        CHECK_INDEX(record_mix(q, mix, dst, src, N / 4, 99), i);
        CHECK_OK(hcq_queue_command_flags(q, (int32_t)i, i ? HCQ_OVERLAP : 0));
    }
    CHECK_INDEX(hcq_queue_memory_barrier(q), 4);
    CHECK_INDEX(hcq_queue_copy(q, b, a, N * 4), 5);
    for (uint32_t j = 0; j < N; j++) {
        ma[j] = ma[j] * 31u + mb[j] + 99;
    }
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    CHECK_BYTES(b, ma, sizeof ma);
}

/* ---- grids ---- */

/* Is a block told its grid? On Vulkan a dispatch may be a part of it, and tell its own. */
static int grid_is_told(hcq_dims told, hcq_dims grid) {
    int part = T.variant->driver && told.x <= grid.x && told.y <= grid.y && told.z <= grid.z;
    return part || (told.x == grid.x && told.y == grid.y && told.z == grid.z);
}

static void k_grid(const void *args, const hcq_block *b) {
    const grid_args *k = HCQ_ARGS(grid_args, args);
    if (!grid_is_told(b->grid, k->grid)) {
        HCQ_PTR(uint32_t, k->sum)[1] = 1;
    }
    grid_cpu(args, b);
}

static const struct { hcq_dims grid, block; } grid_cases[] = {
    {{1, 1, 1}, {1, 1, 1}}, {{1, 1, 1}, {0, 0, 0}}, /* a block's default */
    {{7, 1, 1}, {3, 1, 1}}, {{2, 3, 4}, {2, 2, 2}}, {{1, 1, 9}, {1, 5, 1}},
    {{16, 16, 16}, {1, 1, 3}}, {{4096, 1, 1}, {1, 1, 1}}, {{1, 2000, 2}, {2, 1, 1}},
};

static hcq_program *make_grid(hcq_device *device) {
    hcq_program_desc desc = HCQ_PROGRAM(grid);
    desc.cpu = k_grid;
    return make_kernel(device, desc);
}

TEST(grids) {
    enum { N = 4096 };
    static uint32_t seen[N];
    hcq_program *program = make_grid(T.dev);
    for (size_t i = 0; i < sizeof grid_cases / sizeof grid_cases[0]; i++) {
        const hcq_dims grid = grid_cases[i].grid, block = grid_cases[i].block;
        const hcq_dims ran = block.x ? block : hcq_dim(1, 1, 1);
        hcq_buffer sum = make_words(T.dev, 2), map = make_words(T.dev, N);
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        grid_args args = {sum.address, map.address, grid, ran};
        CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, grid, block), 0);
        CHECK_OK(hcq_queue_update_exec(q, 0, NULL, &block)); /* {0,0,0}: as recording */
        RUN_OK(q, T.dev);
        uint32_t threads = ran.x * ran.y * ran.z, blocks = grid.x * grid.y * grid.z;
        uint64_t total = 0;
        CHECK_OK(hcq_copyout(&total, sum, 8));
        CHECK_U64(total, (uint64_t)threads * blocks);
        CHECK_OK(hcq_copyout(seen, map, sizeof seen));
        for (uint32_t j = 0; j < N; j++) {
            CHECK_U64(seen[j], j < blocks ? threads : 0); /* each block once */
        }
    }
}

/* A 2x3x4 grid with 0 for each bit of `zeros`; or one beyond what a device takes on
   the other axes. */
enum { EMPTY_RECORDED, EMPTY_VARIABLE, EMPTY_UPDATED, EMPTY_WAYS, EMPTY_WIDE = 8 };

static hcq_dims empty_grid(uint32_t zeros) {
    return zeros == EMPTY_WIDE ? hcq_dim(UINT32_MAX, 0, UINT32_MAX)
                               : hcq_dim(zeros & 1 ? 0 : 2, zeros & 2 ? 0 : 3, zeros & 4 ? 0 : 4);
}

/* Wherever the 0 is and however it gets there nothing runs, and what follows does; a
   grid without one then runs again. Updates begin with either. */
TEST(empty_grids) {
    static const uint32_t steps[] = {0, 1, 2, 3, 0, 4, EMPTY_WIDE, 0, 5, 6, 7, 0, 1};
    enum { STEPS = sizeof steps / sizeof steps[0] };
    const hcq_dims whole = empty_grid(0), one = {1, 1, 1};
    hcq_buffer sum = make_words(T.dev, 2);
    hcq_program *program = make_grid(T.dev);
    const grid_args args = {sum.address, make_words(T.dev, 24).address, whole, one};
    for (uint32_t i = 0; i < 8 * EMPTY_WAYS; i++) {
        const int how = (int)(i / 8), varies = how == EMPTY_VARIABLE;
        hcq_queue *q = make_queue(T.dev, i & 1 ? HCQ_GRAPH : HCQ_COMPUTE);
        for (uint32_t k = 0; k < STEPS; k++) {
            const uint32_t zeros = steps[i & 4 ? STEPS - 1 - k : k];
            const hcq_dims grid = empty_grid(zeros);
            const uint64_t values[3] = {grid.x, grid.y, grid.z};
            uint64_t total = 99;
            if (zeros == EMPTY_WIDE && varies) { continue; } /* more than its maximum */
            if (k == 0 || how == EMPTY_RECORDED) {
                CHECK_OK(hcq_queue_reset(q));
                CHECK_INDEX(hcq_queue_fill(q, sum, 8, 0, 4), 0);
                CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, varies ? whole : grid,
                                           one), 1);
                for (uint32_t axis = 0; varies && axis < 3; axis++) {
                    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_GRID_X + axis, axis, 4));
                }
                CHECK_OK(i & 2 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
            }
            CHECK_OK(how == EMPTY_UPDATED ? hcq_queue_update_exec(q, 1, &grid, NULL) : HCQ_OK);
            CHECK_OK(submit_variables(q, values, varies ? 3 : 0, NULL));
            CHECK_OK(hcq_copyout(&total, sum, 8));
            CHECK_U64(total, zeros ? 0 : 24);
        }
    }
}

/* ---- programs ---- */

/* The layout is C's: the same as the struct's. */
TEST(program_info) {
    static const uint32_t offsets[] = {
        offsetof(all_args, out), offsetof(all_args, i32), offsetof(all_args, in),
        offsetof(all_args, u32), offsetof(all_args, f32), offsetof(all_args, odd),
        offsetof(all_args, i64), offsetof(all_args, wide), offsetof(all_args, odd2),
        offsetof(all_args, u64), offsetof(all_args, last32), offsetof(all_args, f64),
        offsetof(all_args, tail)};
    static const uint32_t sizes[] = {8, 4, 8, 4, 4, 3, 8, sizeof(wide_struct), 3, 8, 4, 8, 1};
    hcq_program *program = make_all(T.dev);
    hcq_program_info info;
    CHECK_OK(hcq_program_info_get(program, &info));
    CHECK_U64(info.arg_count, 13);
    CHECK_U64(info.kernargs_size, sizeof(all_args));
    CHECK_U64(info.kernargs_align, 8);
    CHECK_U64(strlen(info.label), 31);
    CHECK(strncmp(info.label, "a label of more", 15) == 0);
    for (uint32_t i = 0; i < 13; i++) {
        CHECK_U64(info.offsets[i], offsets[i]);
        CHECK_U64(info.sizes[i], sizes[i]);
    }
    hcq_program_destroy(program);
    hcq_program_destroy(NULL);
}

typedef struct wide_args { uint64_t out, none; uint32_t raw[4], last, nothing[3]; } wide_args;

static void k_wide(const void *block_args, const hcq_block *b) {
    const wide_args *k = HCQ_ARGS(wide_args, block_args);
    (void)b;
    *HCQ_PTR(uint32_t, k->out) += (uintptr_t)k % 16 == 0 && k->raw[3] + k->last == 12 ? 1 : 1000;
}

/* A raw argument aligned to 16 is so in every block of a recording, of whatever lies around. */
TEST(wide_arguments_are_aligned) {
    NEEDS_CPU_KERNELS("an address of the host's");
    hcq_program *program = make_kernel(T.dev, HCQ_CPU_PROGRAM(
        "wide", k_wide, HCQ_ARG_INOUT, HCQ_ARG_STRUCT(16, 16), HCQ_ARG_U32));
    hcq_buffer a = make_words(T.dev, 4);
    const wide_args args = {a.address, 0, {0, 0, 0, 7}, 5, {0, 0, 0}};
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_program_info info;
    CHECK_OK(hcq_program_info_get(program, &info));
    CHECK(info.kernargs_size == sizeof args && info.kernargs_align == 16);
    CHECK(info.offsets[1] == 16 && info.offsets[2] == 32);
    for (uint32_t i = 0; i < 20; i++) {
        CHECK(record_word(q, hcq_view(a, 4, 0), 0, 1 + i % 8) >= 0);
        CHECK(record_one(q, program, &args, sizeof args) >= 0);
    }
    RUN_OK(q, T.dev);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    RUN_OK(q, T.dev);
    CHECK_U64(READ32(a, 0), 40);
}

typedef struct all_values { double out[11]; } all_values;

static const all_values all_want = {{-5, 4000000000.0, 1.5, 321, -7000000000.0, 43.25, 6,
                                     1099511627776.0, 2.75, 9, 3.5}};

TEST(fill_kernargs_and_call) {
    const odd_struct odd = {{1, 2, 3}}, odd2 = {{4, 5, 6}};
    const wide_struct wide = {42.25, 1};
    const char tail = 9;
    const double three = 3.5;
    const uint64_t values[11] = {
        (uint64_t)(int64_t)-5, 4000000000u, hcq_f32(1.5f), (uint64_t)(uintptr_t)&odd,
        (uint64_t)-7000000000ll, (uint64_t)(uintptr_t)&wide, (uint64_t)(uintptr_t)&odd2,
        1099511627776ull, hcq_f32(0.25f), hcq_f64(2.5), (uint64_t)(uintptr_t)&tail};
    hcq_program *program = make_all(T.dev);
    hcq_buffer out = make_words(T.dev, 64), in = make_words(T.dev, 2);
    const hcq_buffer buffers[2] = {out, in};
    CHECK_OK(hcq_copyin(in, &three, 8));
    all_args block;
    memset(&block, 0, sizeof block);
    CHECK_OK(hcq_program_fill_kernargs(program, buffers, 2, values, 11, &block, sizeof block));
    CHECK(block.out == out.address && block.in == in.address && block.i32 == -5);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(record_one(q, program, &block, sizeof block), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
    CHECK_BYTES(out, &all_want, sizeof all_want);
    uint64_t ns = UINT64_MAX;
    out = make_words(T.dev, 64);
    block.out = out.address;
    CHECK_OK(hcq_program_call(program, &block, sizeof block, dims_one, dims_one, &ns));
    CHECK(ns < (uint64_t)(TEST_BOUND_S * 1e9));
    CHECK_BYTES(out, &all_want, sizeof all_want);
}

static void k_slow(const void *block_args, const hcq_block *b) {
    (void)block_args;
    (void)b;
    mock_sleep(20000000);
}
TEST_SHADER(k_slow, slow)

static void slow_wait(void) {
    mock_sleep(20000000);
}

/* program_call returns at once without `device_ns`, and measures with it. */
TEST(program_call_times) {
    hcq_program *slow = make_kernel(T.dev, HCQ_CPU_PROGRAM("slow", k_slow));
    hcq_program *add = make_add(T.dev);
    hcq_buffer a = make_words(T.dev, 4);
    const add_args args = {a.address, 3, 4};
    uint64_t ns = 0;
    test_gate(GATE_SLOW, slow_wait);
    CHECK_OK(hcq_program_call(slow, NULL, 0, dims_one, dims_one, &ns));
    CHECK(ns >= 19000000 && ns < (uint64_t)(TEST_BOUND_S * 1e9));
    for (int i = 0; i < 10; i++) {     /* in order behind each other */
        CHECK_OK(hcq_program_call(add, &args, sizeof args, hcq_dim(4, 1, 1), dims_one, NULL));
    }
    CHECK_U64(READ32(a, 3), 30);
    CHECK_OK(hcq_program_call(slow, NULL, 0, dims_one, dims_one, NULL));
    hcq_program_destroy(slow);         /* pending work keeps it */
}

static void k_user(const void *block_args, const hcq_block *b) {
    __atomic_add_fetch((uint32_t *)b->user, 1 + b->id.x, __ATOMIC_SEQ_CST);
    (void)block_args;
}

/* Each program's own pointer comes with every block, of a grid as of one block alone. */
TEST(kernels_get_their_user) {
    NEEDS_CPU_KERNELS("a pointer of the host's");
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    uint32_t words[3] = {10, 20, 30};
    for (uint32_t i = 0; i < 6; i++) { /* two share a word */
        hcq_program_desc desc = HCQ_CPU_PROGRAM("user", k_user);
        desc.user = &words[i % 3];
        CHECK_INDEX(hcq_queue_exec(q, make_kernel(T.dev, desc), NULL, 0,
                                   hcq_dim(i < 3 ? 1 : 3, 1, 1), dims_one), (int32_t)i);
    }
    RUN_OK(q, T.dev);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_U64(words[i], 10 * (i + 1) + 1 + 6);
    }
}

/* Without arguments and with as many as there can be; more are refused. */
TEST(programs_are_described) {
#define FOUR HCQ_ARG_U64, HCQ_ARG_F32, HCQ_ARG_STRUCT(24, 16), HCQ_ARG_I32
#define SIXTEEN FOUR, FOUR, FOUR, FOUR
#define MOST SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN
    static const uint32_t most[HCQ_MAX_ARGS] = {MOST}, zeros[HCQ_MAX_ARGS];
    hcq_program *program = NULL;
    hcq_program_desc d = HCQ_CPU_PROGRAM("none", k_user);
    CHECK(strcmp(d.label, "none") == 0 && d.cpu == k_user && d.user == NULL && d.library == NULL);
    CHECK(d.symbol == NULL && d.spirv.data == NULL && d.ptx.data == NULL && d.shared_bytes == 0);
    CHECK(memcmp(d.args, zeros, sizeof zeros) == 0);
    d = HCQ_CPU_PROGRAM("most", add_cpu, MOST);
    CHECK(memcmp(d.args, most, sizeof most) == 0 && most[HCQ_MAX_ARGS - 1] != HCQ_ARG_NONE);
    d = HCQ_CPU_PROGRAM("more", add_cpu, MOST, HCQ_ARG_I32);
    CHECK_SAYS(hcq_program_create(T.dev, &d, &program), HCQ_ERROR_INVALID,
               "args: number 63 is of no known kind");
#undef MOST
#undef SIXTEEN
#undef FOUR
}

TEST(kernels_from_a_library) {
    NEEDS_CPU_KERNELS("a library has kernels for the CPU only");
    SKIP_IF(!T.library, "no --library given");
    hcq_program_desc desc = HCQ_PROGRAM(add);
    desc.cpu = NULL;
    desc.library = T.library;
    desc.symbol = "library_add";
    hcq_program *program = make_kernel(T.dev, desc);
    hcq_buffer a = make_words(T.dev, 64);
    const add_args args = {a.address, 6, 64};
    CHECK_OK(hcq_program_call(program, &args, sizeof args, hcq_dim(4, 1, 1), hcq_dim(16, 1, 1),
                              NULL));
    hcq_program_destroy(program);      /* the code stays while it is pending */
    CHECK_U64(READ32(a, 63), 6);
    desc.symbol = "no_such_kernel";
    CHECK_RESULT(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_NO_KERNEL);
    desc.library = "./no-such-library.so";
    CHECK_RESULT(hcq_program_create(T.dev, &desc, &program), HCQ_ERROR_NO_KERNEL);
}

static hcq_device *library_device;
static int library_ended;

static void library_ends(void) {
    library_ended = hcq_device_synchronize(library_device, BOUND) == HCQ_OK;
}

/* A library may call hcq while it is unloaded. */
TEST(library_calls_while_it_is_unloaded) {
    SKIP_IF(!is_cpu() || !T.library, "no --library for the CPU given");
    hcq_program_desc desc = {.label = "add", .library = T.library, .symbol = "library_add"};
    library_device = T.dev;
    library_ended = 0;
    hcq_program *program = make_kernel(T.dev, desc);
    void *library = dlopen(T.library, RTLD_NOW), *ends = NULL;
    CHECK(library && (ends = dlsym(library, "library_ends")));
    void (*fn)(void) = library_ends;
    memcpy(ends, &fn, sizeof fn);
    CHECK(dlclose(library) == 0 && !library_ended);
    hcq_program_destroy(program);
    CHECK(library_ended);
}

/* CUDA's kernels take 4 KB of arguments. */
enum { LARGE_WORDS = 16000, LARGE_WORDS_CUDA = 1000 };

typedef struct large_args { uint64_t out; uint32_t words[LARGE_WORDS + 1]; } large_args;

/* A struct of so many words, and one more. */
static uint32_t large_words(void) {
    return is_cuda() ? LARGE_WORDS_CUDA : LARGE_WORDS;
}

static void k_large(const void *block_args, const hcq_block *b) {
    const large_args *k = HCQ_ARGS(large_args, block_args);
    uint32_t count = large_words(), sum = k->words[count];
    (void)b;
    for (uint32_t i = 0; i < count; i++) {
        sum = sum * 31u + k->words[i];
    }
    *HCQ_PTR(uint32_t, k->out) = sum;
}
TEST_SHADER(k_large, large)

TEST(large_arguments) {
    static large_args args;
    const uint32_t count = large_words();
    hcq_program *program = make_kernel(T.dev, HCQ_CPU_PROGRAM(
        "large", k_large, HCQ_ARG_OUT, HCQ_ARG_STRUCT(count * 4, 4), HCQ_ARG_U32));
    hcq_program_info info;
    hcq_buffer a = make_words(T.dev, 4);
    CHECK_OK(hcq_program_info_get(program, &info));
    CHECK_U64(info.kernargs_size, (8 + (count + 1) * 4 + 7) / 8 * 8);
    for (uint32_t round = 0; round < 4; round++) {
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        uint32_t want = 5;
        args.out = a.address;
        args.words[count] = want;
        for (uint32_t i = 0; i < count; i++) {
            args.words[i] = i * (round + 3);
            want = want * 31u + args.words[i];
        }
        CHECK_INDEX(record_one(q, program, &args, info.kernargs_size), 0);
        CHECK_OK(round % 2 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        memset(&args, 0, sizeof args);
        CHECK_OK(hcq_queue_submit(q, T.dev, NULL));
        CHECK_U64(READ32(a, 0), want);
    }
}
