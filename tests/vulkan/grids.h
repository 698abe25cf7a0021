/* grids.h - grids beyond maxComputeWorkGroupCount run in parts that nobody
   notices. Part of vulkan.c. */

static const uint32_t ids_list[] = {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_NONE};

typedef struct ids_args { uint64_t seen; uint32_t mode; } ids_args;

static uint32_t ids_mix(uint32_t x, hcq_dims v) {
    return ((x * 31u + v.x) * 31u + v.y) * 31u + v.z;
}

/* What vk_ids.comp adds for one thread. */
static uint32_t ids_of(hcq_dims grid, hcq_dims block, hcq_dims id, hcq_dims t, uint32_t mode) {
    hcq_dims at = {id.x * block.x + t.x, id.y * block.y + t.y, id.z * block.z + t.z};
    uint32_t x = ids_mix(ids_mix(mode, grid), id);
    return ids_mix(ids_mix(x, t), at) + (t.z * block.y + t.y) * block.x + t.x;
}

static void ids_check(const char *file, int line, hcq_buffer seen, hcq_dims grid, hcq_dims block,
                      uint32_t mode, uint32_t rest) {
    hcq_dims size = {grid.x * block.x, grid.y * block.y, grid.z * block.z};
    size_t words = (size_t)size.x * size.y * size.z, i = 0;
    uint32_t *got = (uint32_t *)malloc((words + rest) * 4);
    size.x = size.x ? size.x : 1;      /* of an empty grid nothing is asked below */
    test_result(file, line, "hcq_copyout", hcq_copyout(got, seen, (words + rest) * 4), HCQ_OK);
    for (; i < words + rest; i++) {
        hcq_dims at = {(uint32_t)(i % size.x), (uint32_t)(i / size.x % size.y),
                       (uint32_t)(i / size.x / size.y)};
        hcq_dims id = {at.x / block.x, at.y / block.y, at.z / block.z};
        hcq_dims t = {at.x % block.x, at.y % block.y, at.z % block.z};
        if (got[i] != (i < words ? ids_of(grid, block, id, t, mode) : 0)) {
            break;
        }
    }
    free(got);
    test_number(file, line, "first wrong thread of the grid", i, words + rest);
}
#define CHECK_IDS(seen, grid, block, mode, rest) \
    ids_check(__FILE__, __LINE__, (seen), (grid), (block), (mode), (rest))

static void grids_beyond_limits(void **state) {
    (void)state;
    static const hcq_dims cases[][2] = {
        {{65535, 1, 1}, {2, 1, 1}}, {{65536, 1, 1}, {1, 1, 1}}, {{70001, 2, 1}, {2, 2, 1}},
        {{1, 65541, 2}, {1, 1, 2}}, {{3, 70000, 1}, {1, 2, 1}}, {{2, 1, 131075}, {1, 1, 1}},
        {{131072, 1, 1}, {1, 1, 1}}, {{1, 2, 65537}, {3, 1, 2}},
    };
    hcq_program *ids = make_program(T.dev, "vk_ids", ids_list);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hcq_dims grid = cases[i][0], block = cases[i][1];
        uint32_t words = grid.x * grid.y * grid.z * block.x * block.y * block.z;
        hcq_buffer seen = make_words(T.dev, words + 64);
        ids_args args = {seen.address, i};
        hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q, ids, &args, sizeof args, grid, block), 0);
        submit_and_wait(q, T.dev);
        CHECK_IDS(seen, grid, block, i, 64);
        hcq_queue_destroy(q);
        CHECK_OK(hcq_free(seen));
    }
}

static const uint32_t grid_steps[] = {10, 65535, 65536, 5, 70001, 66000, 65535, 0, 70001, 1};

/* From below the limit to above and back, beside a neighbour that stays. */
static void grids_patched_across_limits(void **state) {
    (void)state;
    enum { MOST = 70001, WORDS = MOST + 64 };
    hcq_program *ids = make_program(T.dev, "vk_ids", ids_list);
    hcq_buffer seen = make_words(T.dev, WORDS), other = make_words(T.dev, 64);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    ids_args args = {seen.address, 3}, beside = {other.address, 4};
    CHECK_INDEX(hcq_queue_fill(q, seen, WORDS * 4, 0, 4), 0);
    CHECK_INDEX(hcq_queue_exec(q, ids, &args, sizeof args, hcq_dim(7, 1, 1), hcq_dim(1, 1, 1)), 1);
    CHECK_INDEX(hcq_queue_fill(q, other, 64 * 4, 0, 4), 2);
    CHECK_INDEX(hcq_queue_exec(q, ids, &beside, sizeof beside, hcq_dim(9, 1, 1),
                               hcq_dim(2, 1, 1)), 3);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t i = 0; i < sizeof grid_steps / sizeof grid_steps[0]; i++) {
        hcq_dims grid = hcq_dim(grid_steps[i], 1, 1);
        args.mode = 100 + i;
        CHECK_OK(hcq_queue_update_exec(q, 1, &grid, NULL));
        CHECK_OK(hcq_queue_update_arg(q, 1, 1, &args.mode, 4));
        submit_and_wait(q, T.dev);
        CHECK_IDS(seen, grid, hcq_dim(1, 1, 1), args.mode, WORDS - grid.x);
        CHECK_IDS(other, hcq_dim(9, 1, 1), hcq_dim(2, 1, 1), 4, 64 - 18);
    }
}

/* The same with a variable, whose grids are read from memory up to the limit. */
static void grids_variable_across_limits(void **state) {
    (void)state;
    enum { MOST = 70001, WORDS = MOST + 64 };
    hcq_program *ids = make_program(T.dev, "vk_ids", ids_list);
    hcq_buffer seen = make_words(T.dev, WORDS);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    ids_args args = {seen.address, 3};
    CHECK_INDEX(hcq_queue_fill(q, seen, WORDS * 4, 0, 4), 0);
    CHECK_INDEX(hcq_queue_exec(q, ids, &args, sizeof args, hcq_dim(MOST, 1, 1),
                               hcq_dim(1, 1, 1)), 1);
    CHECK_OK(hcq_queue_variable(q, 1, HCQ_PART_GRID_X, 0, MOST));
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t i = 0; i < sizeof grid_steps / sizeof grid_steps[0]; i++) {
        uint64_t value = grid_steps[i];
        hcq_point done;
        submit_values(q, T.dev, &value, 1, &done);
        CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, 6 * BOUND));
        CHECK_IDS(seen, hcq_dim(grid_steps[i], 1, 1), hcq_dim(1, 1, 1), 3, WORDS - grid_steps[i]);
    }
}

/* Other axes, and blocks of several threads, patched together. */
static void grids_patched_on_all_axes(void **state) {
    (void)state;
    static const hcq_dims steps[][2] = {
        {{4, 5, 6}, {2, 1, 3}}, {{1, 65540, 1}, {1, 2, 1}}, {{2, 1, 65540}, {1, 1, 1}},
        {{4, 5, 6}, {1, 1, 1}}, {{65536, 1, 2}, {1, 1, 1}}, {{1, 1, 1}, {2, 2, 2}},
    };
    enum { WORDS = 140000 };
    hcq_program *ids = make_program(T.dev, "vk_ids", ids_list);
    hcq_buffer seen = make_words(T.dev, WORDS);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    ids_args args = {seen.address, 8};
    CHECK_INDEX(hcq_queue_fill(q, seen, WORDS * 4, 0, 4), 0);
    CHECK_INDEX(hcq_queue_exec(q, ids, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1)), 1);
    CHECK_OK(hcq_queue_bind(q, T.dev));
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        hcq_dims g = steps[i][0], b = steps[i][1];
        CHECK_OK(hcq_queue_update_exec(q, 1, &g, &b));
        submit_and_wait(q, T.dev);
        CHECK_IDS(seen, g, b, 8, WORDS - g.x * g.y * g.z * b.x * b.y * b.z);
    }
}

#define GRID_TESTS                                                                 \
    TEST(grids_beyond_limits), TEST(grids_patched_across_limits),                  \
    TEST(grids_variable_across_limits), TEST(grids_patched_on_all_axes),
