/* kernels.c - kernels written once (hcq_kernel.h) do on every device what plain C does:
   numbers of integers the same, of floats within so many units in the last place.

   kernels [VARIANT]. On mocks of drivers the kernel's C form runs, on CUDA's with the
   arguments that its PTX declares. */
#include "support/util.h"

#include "block.k"
#include "plain.k"
#include "types.k"
#if __has_include("block.k.h")
#include "block.k.h"
#include "plain.k.h"
#include "types.k.h"
#else
#define NO_GPU
#endif

#include <math.h>

static uint64_t drawn;

static uint32_t draw(void) { /* the same in every run */
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33);
}

static float draw_f32(float low, float high) {
    return low + (high - low) * ((float)(draw() & 0xffffff) / 16777216.0f);
}

static hcq_buffer put(const void *data, size_t size) {
    hcq_buffer b = make_buffer(T.dev, size, 0);
    CHECK_OK(hcq_copyin(b, data, size));
    return b;
}

static hcq_program *load(hcq_program_desc desc) {
    hcq_program *program;
#ifdef HCQ_TEST_CUDA
    if (T.variant->cuda) { test_cu.mock.kernel(desc.ptx.entry, desc.cpu); }
#endif
    hcq_result r = hcq_program_create(T.dev, &desc, &program);
    SKIP_IF(r == HCQ_ERROR_UNSUPPORTED, "the device has not what the kernel needs");
    CHECK_OK(r);
    return program;
}

#define RUN(name, args, grid, block) run(HCQ_PROGRAM(name), &(args), sizeof(args), grid, block)

static void run(hcq_program_desc desc, const void *args, size_t size, hcq_dims grid,
                hcq_dims block) {
    hcq_program *program = load(desc);
    CHECK_OK(hcq_program_call(program, args, size, grid, block, NULL));
    hcq_program_destroy(program);
}

static const hcq_dims any = {0, 0, 0}; /* block: the kernel's */

static hcq_dims parts(uint32_t n, uint32_t block) { return hcq_dim((n + block - 1) / block, 1, 1); }

/* Floats in the order of their values, so that a difference counts steps. */
static int64_t rank_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

static void check_near(hcq_buffer b, const float *want, uint32_t count, int64_t ulps) {
    float *got = (float *)malloc(count * sizeof *got);
    CHECK_OK(hcq_copyout(got, b, count * sizeof *got));
    for (uint32_t i = 0; i < count; i++) {
        int64_t off = rank_of(got[i]) - rank_of(want[i]);
        if (off > ulps || off < -ulps) {
            test_fail(__FILE__, __LINE__, "number %u is %.9g, not %.9g", i, (double)got[i],
                      (double)want[i]);
        }
    }
    free(got);
}

/* ---- plain.k ---- */

TEST(test_saxpy) {
    enum { N = 1000 };
    float x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = draw_f32(-9, 9);
        y[i] = draw_f32(-9, 9);
    }
    hcq_buffer b = put(y, sizeof y);
    saxpy_args args = {b.address, put(x, sizeof x).address, 2.3f, N};
    RUN(saxpy, args, parts(N, 64), hcq_dim(64, 1, 1));
    for (int i = 0; i < N; i++) { y[i] += 2.3f * x[i]; }
    check_near(b, y, N, 0);
}

TEST(test_blur) {
    enum { W = 77, H = 19 };
    static const uint32_t weights[5] = {1, 4, 6, 4, 1};
    uint8_t src[W * H], dst[W * H];
    for (int i = 0; i < W * H; i++) { src[i] = (uint8_t)draw(); }
    hcq_buffer b = put(dst, sizeof dst);
    blur_args args = {b.address, put(src, sizeof src).address, W, H};
    RUN(blur, args, hcq_dim(5, 5, 1), hcq_dim(16, 4, 1));
    for (int i = 0; i < W * H; i++) {
        uint32_t sum = 8;
        for (int k = 0; k < 5; k++) {
            int x = i % W + k - 2;
            sum += weights[k] * src[i / W * W + (x < 0 ? 0 : x >= W ? W - 1 : x)];
        }
        dst[i] = (uint8_t)(sum / 16);
    }
    CHECK_BYTES(b, dst, sizeof dst);
}

TEST(test_sobel) {
    enum { W = 45, H = 23 };
    uint8_t src[W * H], dst[W * H] = {0};
    for (int i = 0; i < W * H; i++) { src[i] = (uint8_t)(draw() & 63); }
    hcq_buffer b = put(dst, sizeof dst);
    sobel_args args = {b.address, put(src, sizeof src).address, W, H};
    RUN(sobel, args, hcq_dim(6, 3, 1), hcq_dim(8, 8, 1));
    for (int y = 1; y < H - 1; y++) {
        for (int x = 1; x < W - 1; x++) {
            const uint8_t *p = src + y * W + x;
            int gx = p[1 - W] + 2 * p[1] + p[1 + W] - p[-1 - W] - 2 * p[-1] - p[W - 1];
            int gy = p[W - 1] + 2 * p[W] + p[W + 1] - p[-W - 1] - 2 * p[-W] - p[1 - W];
            int size = abs(gx) + abs(gy);
            dst[y * W + x] = (uint8_t)(size > 255 ? 255 : size);
        }
    }
    CHECK_BYTES(b, dst, sizeof dst);
}

TEST(test_mandelbrot) {
    enum { W = 80, H = 32 };
    uint32_t turns[W * H] = {0};
    hcq_buffer b = put(turns, sizeof turns);
    mandelbrot_args args = {b.address, W, H};
    RUN(mandelbrot, args, hcq_dim(10, 4, 1), hcq_dim(8, 8, 1));
    for (int i = 0; i < W * H; i++) {
        float cx = (float)(i % W) * 0.03125f - 2, cy = (float)(i / W) * 0.0625f - 1, x = 0, y = 0;
        for (; turns[i] < 100 && x * x + y * y <= 4; turns[i]++) {
            float next = x * x - y * y + cx;
            y = 2 * x * y + cy;
            x = next;
        }
    }
    CHECK_BYTES(b, turns, sizeof turns);
}

enum { ROW = 33, ROW_COUNT = 21 };

/* Gives a buffer for the results, and the arguments; x are the numbers. */
static hcq_buffer make_rows(softmax_args *args, float x[ROW * ROW_COUNT]) {
    for (int i = 0; i < ROW * ROW_COUNT; i++) { x[i] = (float)(draw() % 640) / 64 - 5; }
    hcq_buffer b = put(x, ROW * ROW_COUNT * sizeof *x);
    args->y = b.address;
    args->x = put(x, ROW * ROW_COUNT * sizeof *x).address;
    args->width = ROW;
    args->rows = ROW_COUNT;
    return b;
}

TEST(test_softmax) {
    float x[ROW * ROW_COUNT];
    softmax_args args;
    hcq_buffer b = make_rows(&args, x);
    RUN(softmax, args, parts(ROW_COUNT, 8), hcq_dim(8, 1, 1));
    for (float *row = x; row < x + ROW * ROW_COUNT; row += ROW) {
        double sum = 0;
        for (int i = 0; i < ROW; i++) { sum += exp((double)row[i]); }
        for (int i = 0; i < ROW; i++) { row[i] = (float)(exp((double)row[i]) / sum); }
    }
    check_near(b, x, ROW * ROW_COUNT, 8);
}

TEST(test_rmsnorm) {
    float x[ROW * ROW_COUNT];
    softmax_args rows;
    hcq_buffer b = make_rows(&rows, x);
    rmsnorm_args args = {rows.y, rows.x, rows.width, rows.rows};
    RUN(rmsnorm, args, parts(ROW_COUNT, 8), hcq_dim(8, 1, 1));
    for (float *row = x; row < x + ROW * ROW_COUNT; row += ROW) {
        double sum = 0;
        for (int i = 0; i < ROW; i++) { sum += (double)row[i] * (double)row[i]; }
        for (int i = 0; i < ROW; i++) { row[i] = (float)((double)row[i] / sqrt(sum / ROW + 1e-5)); }
    }
    check_near(b, x, ROW * ROW_COUNT, 8);
}

TEST(test_hash) {
    enum { N = 777 };
    uint32_t x[N];
    for (uint32_t i = 0; i < N; i++) { x[i] = i * 0x01000193u; }
    hcq_buffer b = put(x, sizeof x);
    hash_args args = {b.address, N};
    RUN(hash, args, parts(N, 32), hcq_dim(32, 1, 1));
    for (uint32_t i = 0; i < N; i++) {
        x[i] = (x[i] ^ x[i] >> 16) * 0x7feb352du;
        x[i] = (x[i] ^ x[i] >> 15) * 0x846ca68bu;
        x[i] ^= x[i] >> 16;
    }
    CHECK_BYTES(b, x, sizeof x);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

TEST(test_sort_step) {
    enum { N = 512 };
    uint32_t x[N];
    for (int i = 0; i < N; i++) { x[i] = draw(); }
    hcq_buffer b = put(x, sizeof x);
    for (uint32_t up = 2; up <= N; up *= 2) {
        for (uint32_t apart = up / 2; apart > 0; apart /= 2) {
            sort_step_args args = {b.address, apart, up, N / 2};
            RUN(sort_step, args, hcq_dim(4, 1, 1), hcq_dim(64, 1, 1));
        }
    }
    qsort(x, N, sizeof *x, by_size);
    CHECK_BYTES(b, x, sizeof x);
}

static void check_cells(hcq_buffer b, const uint8_t *now, int w, int h, int d) {
    static const int steps[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    uint8_t *next = (uint8_t *)malloc((size_t)(w * h * d));
    for (int i = 0; i < w * h * d; i++) {
        int count = 0;
        for (int k = 0; k < 6; k++) {
            int x = i % w + steps[k][0], y = i / w % h + steps[k][1], z = i / w / h + steps[k][2];
            count += x >= 0 && x < w && y >= 0 && y < h && z >= 0 && z < d && now[(z * h + y) * w + x];
        }
        next[i] = count == 2 || count == 3;
    }
    CHECK_BYTES(b, next, (size_t)(w * h * d));
    free(next);
}

TEST(test_cells) {
    enum { W = 13, H = 9, D = 7 };
    uint8_t now[D * H * W];
    for (int i = 0; i < W * H * D; i++) { now[i] = draw() & 1; }
    hcq_buffer b = put(now, sizeof now);
    cells_args args = {b.address, put(now, sizeof now).address, W, H, D};
    RUN(cells, args, hcq_dim(4, 3, 4), hcq_dim(4, 4, 2));
    check_cells(b, now, W, H, D);
}

/* More blocks than most devices of Vulkan have, and in y and z than CUDA has; of a queue that
   is changed between such grids and others, before it is bound and after. */
TEST(grids_beyond_65535) {
    static const uint32_t shapes[][3] = {{2, 3, 2}, {2, 70000, 2}, {2, 2, 70000}, {2, 3, 2},
                                         {1, 65537, 3}, {1, 1, 65536}, {131070, 1, 2},
                                         {131072, 2, 1}, {3, 2, 1}};
    enum { SHAPES = sizeof shapes / sizeof shapes[0] };
    static uint8_t now[2 * 70000 * 2], nines[sizeof now];
    memset(nines, 9, sizeof nines);
    for (size_t i = 0; i < sizeof now; i++) { now[i] = draw() & 1; }
    hcq_buffer b = put(now, sizeof now);
    cells_args args = {b.address, put(now, sizeof now).address, 1, 1, 1};
    hcq_program *program = load(HCQ_PROGRAM(cells));
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_exec(q, program, &args, sizeof args, hcq_dim(1, 1, 1),
                               hcq_dim(2, 1, 1)), 0);
    for (uint32_t i = 0; i < 2 * SHAPES; i++) {
        const uint32_t *shape = shapes[i % SHAPES];
        const hcq_dims grid = hcq_dim((shape[0] + 1) / 2, shape[1], shape[2]);
        CHECK_OK(i == SHAPES ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        CHECK_OK(hcq_queue_update_exec(q, 0, &grid, NULL));
        for (uint32_t k = 0; k < 3; k++) {
            CHECK_OK(hcq_queue_update_arg(q, 0, (uint32_t)offsetof(cells_args, w) + 4 * k,
                                          &shape[k], 4));
        }
        CHECK_OK(hcq_copyin(b, nines, sizeof nines));
        hcq_submission submission = {.queues = &q, .queue_count = 1};
        CHECK_OK(hcq_submit_and_wait(T.dev, &submission, 1, 6 * BOUND, NULL));
        check_cells(b, now, (int)shape[0], (int)shape[1], (int)shape[2]);
    }
}

/* ---- types.k ---- */

TEST(test_move) {
    enum { N = 100 };
    particle p[N];
    const field f = {9.81f, 0.875f, 1};
    for (uint32_t i = 0; i < N; i++) {
        particle q = {draw_f32(0, 9), draw_f32(0, 1), draw_f32(-9, 9), draw_f32(-9, 9), i};
        p[i] = q;
    }
    hcq_buffer b = put(p, sizeof p);
    move_args args = {b.address, f, 0.125f, N};
    RUN(move, args, parts(N, 16), hcq_dim(16, 1, 1));
    for (particle *q = p; q < p + N; q++) {
        q->vy = (q->vy - f.gravity * 0.125f) * f.drag;
        q->x += q->vx * 0.125f;
        q->y += q->vy * 0.125f;
        q->vy = q->y < 0 ? -q->vy : q->vy;
        q->y = q->y < 0 ? -q->y : q->y;
        q->age++;
    }
    CHECK_BYTES(b, p, sizeof p);
}

TEST(test_nbody) {
    enum { N = 65 };
    body all[N];
    float pull[N];
    for (int i = 0; i < N; i++) {
        body one = {draw_f32(-1, 1), draw_f32(-1, 1), draw_f32(-1, 1), draw_f32(0, 1)};
        all[i] = one;
    }
    hcq_buffer b = put(pull, sizeof pull);
    nbody_args args = {b.address, put(all, sizeof all).address, N};
    RUN(nbody, args, parts(N, 32), hcq_dim(32, 1, 1));
    for (int i = 0; i < N; i++) {
        pull[i] = 0;
        for (int j = 0; j < N; j++) {
            float dx = all[j].x - all[i].x, dy = all[j].y - all[i].y, dz = all[j].z - all[i].z;
            float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
            pull[i] += all[j].mass / (r2 * sqrtf(r2)) * dx;
        }
    }
    check_near(b, pull, N, is_vulkan() ? 512 : 0); /* terms cancel */
}

TEST(test_mix16) {
    enum { N = 501 };
    uint16_t src[N], dst[N];
    for (int i = 0; i < N; i++) { src[i] = (uint16_t)draw(); }
    hcq_buffer b = put(src, sizeof src);
    mix16_args args = {b.address, put(src, sizeof src).address, N};
    RUN(mix16, args, parts(N, 64), hcq_dim(64, 1, 1));
    for (int i = 0; i < N; i++) { dst[i] = (uint16_t)((3 * src[i] + src[i + (i < N - 1)]) / 4); }
    CHECK_BYTES(b, dst, sizeof dst);
}

TEST(test_clip) {
    enum { N = 300 };
    int8_t x[N];
    int16_t y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (int8_t)draw();
        y[i] = (int16_t)draw();
    }
    hcq_buffer b = put(y, sizeof y);
    clip_args args = {b.address, put(x, sizeof x).address, -200, N};
    RUN(clip, args, parts(N, 64), hcq_dim(64, 1, 1));
    for (int i = 0; i < N; i++) {
        int sum = y[i] - 200 * x[i];
        y[i] = (int16_t)(sum < -32768 ? -32768 : sum > 32767 ? 32767 : sum);
    }
    CHECK_BYTES(b, y, sizeof y);
}

/* All numbers of 16 bits; a NaN stays one. */
TEST(test_halves) {
    static uint16_t x[65536], got[65536];
    for (uint32_t i = 0; i < 65536; i++) { x[i] = (uint16_t)i; }
    hcq_buffer b = put(x, sizeof x);
    halves_args args = {b.address, 0.5f, 65536};
    RUN(halves, args, hcq_dim(256, 1, 1), hcq_dim(256, 1, 1));
    CHECK_OK(hcq_copyout(got, b, sizeof got));
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t size = i & 0x7fff, want = size - 0x400; /* one less in the exponent */
        if (size < 0x800) { want = size / 2 + (size & size / 2 & 1); } /* to even */
        if (size == 0x7c00) { want = size; }
        if (size > 0x7c00 ? (got[i] & 0x7fff) <= 0x7c00 : got[i] != (want | (i & 0x8000))) {
            test_fail(__FILE__, __LINE__, "half of %#x is %#x", i, (unsigned)got[i]);
        }
    }
}

TEST(test_wide) {
    enum { N = 99 };
    uint64_t x[N];
    double y[N];
    int64_t z[N];
    for (int i = 0; i < N; i++) {
        x[i] = (uint64_t)draw() << 32 | draw();
        y[i] = (double)draw();
        z[i] = (int64_t)draw() - (1 << 30);
    }
    hcq_buffer bx = put(x, sizeof x), by = put(y, sizeof y), bz = put(z, sizeof z);
    wide_args args = {bx.address, by.address, bz.address, 0x9e3779b97f4a7c15u, 1.0 / 3, -5000000000, N};
    RUN(wide, args, parts(N, 32), hcq_dim(32, 1, 1));
    for (int i = 0; i < N; i++) {
        x[i] = (x[i] ^ x[i] >> 31) * 0x9e3779b97f4a7c15u + ((uint64_t)1 << 40);
        y[i] = 1.0 / 3 * y[i] + 0.5;
        z[i] += 5000000000;
    }
    CHECK_BYTES(bx, x, sizeof x);
    CHECK_BYTES(by, y, sizeof y);
    CHECK_BYTES(bz, z, sizeof z);
}

/* Results of function k against the true ones, for numbers up to `reach`: within `off` ulp
   of these, or within `unit` where that is more. Vulkan may take a denormal for 0. */
static void check_function(hcq_buffer b, uint32_t k, const float *x, uint32_t n,
                           double (*fn)(double), double reach, double off, double unit) {
    float *y = (float *)malloc(n * sizeof *y);
    CHECK_OK(hcq_copyout(y, hcq_view(b, (uint64_t)k * n * 4, n * 4), n * sizeof *y));
    for (uint32_t i = 0; i < n; i++) {
        double want = fn((double)x[i]), most = fabs(want) > 0 ? off * ldexp(1, ilogb(want) - 23) : 0;
        int same = (float)want <= y[i] && (float)want >= y[i]; /* infinities, too */
        double zero = fn(0);
        same |= is_vulkan() && fabs((double)x[i]) < 0x1p-126 && (double)y[i] <= zero &&
                (double)y[i] >= zero;
        if (fabs((double)x[i]) <= reach && !same &&
            !(fabs((double)y[i] - want) <= (most > unit ? most : unit))) {
            test_fail(__FILE__, __LINE__, "function %u of %.9g is %.9g, not %.9g", k, (double)x[i],
                      (double)y[i], want);
        }
    }
    free(y);
}

static double log_of_size(double x) { return log(fabs(x)); }
static double pow_of_size(double x) { return pow(fabs(x), (double)0.3f); }
static double sqrt_of_size(double x) { return sqrt(fabs(x)); }
static double rsqrt_of_size(double x) { return 1 / sqrt(fabs(x)); }
static double a_quarter_at_least(double x) { return x > 0.25 ? x : 0.25; }

TEST(test_maths) {
    enum { N = 20000 };
    static float x[N], y[10 * N];
    static const float edges[] = {0, -0.0f, 1, -1, 88.7f, -87.3f, 8388607.5f, -4194304.5f, 3e38f,
                                  1e-38f};
    const double tiny = 1.2e-38, extra = is_vulkan() ? 3 : 0; /* of a division, a root */
    for (int i = 0; i < N; i++) {
        x[i] = i < 10 ? edges[i] : i & 1 ? draw_f32(-85, 85) : draw_f32(-1, 1);
    }
    hcq_buffer b = put(y, sizeof y);
    maths_args args = {b.address, put(x, sizeof x).address, N};
    RUN(maths, args, parts(N, 64), hcq_dim(64, 1, 1));
    check_function(b, 0, x, N, exp, 1e39, 1, tiny);
    check_function(b, 1, x, N, log_of_size, 1e39, 1, 0);
    check_function(b, 2, x, N, sin, 8192, 2, 1.2e-7);
    check_function(b, 3, x, N, cos, 8192, 2, 1.2e-7);
    check_function(b, 4, x, N, floor, 1e39, 0, 0);
    check_function(b, 5, x, N, tanh, 1e39, 2 + extra, 0);
    check_function(b, 6, x, N, pow_of_size, 1, 16, 0);
    check_function(b, 7, x, N, sqrt_of_size, 1e39, extra, 0);
    check_function(b, 8, x, N, rsqrt_of_size, 1e39, 2 + extra, 0);
    check_function(b, 9, x, N, a_quarter_at_least, 1e39, 0, 0);
}

/* ---- block.k ---- */

TEST(test_transpose) {
    enum { W = 50, H = 37 };
    uint32_t src[W * H], dst[W * H];
    for (int i = 0; i < W * H; i++) {
        src[i] = draw();
        dst[i % W * H + i / W] = src[i];
    }
    hcq_buffer b = put(src, sizeof src);
    transpose_args args = {b.address, put(src, sizeof src).address, W, H};
    RUN(transpose, args, hcq_dim(4, 3, 1), any);
    CHECK_BYTES(b, dst, sizeof dst);
}

TEST(test_reduce) {
    enum { N = 1000, BLOCKS = 4 };
    float x[BLOCKS * 256] = {0}, sums[BLOCKS];
    for (int i = 0; i < N; i++) { x[i] = draw_f32(0, 1); }
    hcq_buffer b = put(sums, sizeof sums);
    reduce_args args = {b.address, put(x, sizeof x).address, N};
    RUN(reduce, args, hcq_dim(BLOCKS, 1, 1), any);
    for (int i = 0; i < BLOCKS; i++) { /* in the same order */
        for (int half = 128; half > 0; half /= 2) {
            for (int t = 0; t < half; t++) { x[i * 256 + t] += x[i * 256 + t + half]; }
        }
        sums[i] = x[i * 256];
    }
    check_near(b, sums, BLOCKS, 0);
}

TEST(test_histogram) {
    enum { N = 10000 };
    uint32_t counts[256] = {0};
    uint8_t bytes[N];
    hcq_buffer b = put(counts, sizeof counts);
    for (int i = 0; i < N; i++) {
        bytes[i] = (uint8_t)(draw() & draw());
        counts[bytes[i]]++;
    }
    histogram_args args = {b.address, put(bytes, sizeof bytes).address, N};
    RUN(histogram, args, parts(N, 1024), any);
    CHECK_BYTES(b, counts, sizeof counts);
}

TEST(test_scan) {
    enum { N = 1000, BLOCKS = 4 };
    uint32_t x[N], sums[BLOCKS] = {0};
    for (int i = 0; i < N; i++) { x[i] = draw(); }
    hcq_buffer b = put(x, sizeof x), c = put(sums, sizeof sums);
    scan_args args = {b.address, c.address, put(x, sizeof x).address, N};
    RUN(scan, args, hcq_dim(BLOCKS, 1, 1), any);
    for (int i = 0; i < N; i++) { x[i] = sums[i / 256] += x[i]; }
    CHECK_BYTES(b, x, sizeof x);
    CHECK_BYTES(c, sums, sizeof sums);
}

TEST(test_matmul) {
    enum { N = 45 };
    float a[N * N], b[N * N], c[N * N];
    for (int i = 0; i < N * N; i++) {
        a[i] = draw_f32(-1, 1);
        b[i] = draw_f32(-1, 1);
    }
    hcq_buffer out = put(c, sizeof c);
    matmul_args args = {out.address, put(a, sizeof a).address, put(b, sizeof b).address, N};
    RUN(matmul, args, hcq_dim(3, 3, 1), hcq_dim(16, 16, 1));
    for (int i = 0; i < N * N; i++) {
        c[i] = 0;
        for (int k = 0; k < N; k++) { c[i] += a[i / N * N + k] * b[k * N + i % N]; }
    }
    check_near(out, c, N * N, 0);
}

TEST(test_choose) {
    for (uint32_t which = 0; which < 3; which++) {
        static const uint32_t ends[] = {5, 64, 8};
        uint32_t y[64] = {0};
        hcq_buffer b = put(y, sizeof y);
        choose_args args = {b.address, which, 5};
        RUN(choose, args, hcq_dim(1, 1, 1), any);
        for (uint32_t i = 0; i < ends[which]; i++) { y[i] = which + 1; }
        CHECK_BYTES(b, y, sizeof y);
    }
}

TEST(test_atoms) {
    enum { N = 600 };
    int32_t x[N], at[4] = {0, 5, -5, 0};
    uint32_t words[4 + N] = {UINT32_MAX}, *places = words + 4;
    hcq_buffer a = put(at, sizeof at), b = put(words, sizeof words);
    for (int i = 0; i < N; i++) {
        x[i] = (int32_t)draw() - (1 << 30);
        at[0] = (int32_t)((uint32_t)at[0] + (uint32_t)x[i]);
        at[1] = x[i] < at[1] ? x[i] : at[1];
        at[2] = x[i] > at[2] ? x[i] : at[2];
        words[0] = (uint32_t)x[i] < words[0] ? (uint32_t)x[i] : words[0];
        words[1] = (uint32_t)x[i] > words[1] ? (uint32_t)x[i] : words[1];
        places[i] = (uint32_t)i;
    }
    at[3] = 7;
    words[2] = N;
    atoms_args args = {a.address, b.address, put(x, sizeof x).address, N};
    RUN(atoms, args, parts(N, 8), hcq_dim(8, 1, 1));
    CHECK_BYTES(a, at, sizeof at);
    uint32_t got[4 + N];
    CHECK_OK(hcq_copyout(got, b, sizeof got));
    qsort(got + 4, N, sizeof *got, by_size); /* threads took their places in any order */
    CHECK(memcmp(got, words, sizeof got) == 0);
}

TEST(test_atoms64) {
    enum { N = 600 };
    uint32_t x[N];
    uint64_t sums[2] = {0, 0};
    hcq_buffer b = put(sums, sizeof sums);
    for (int i = 0; i < N; i++) {
        x[i] = draw();
        sums[0] += x[i];
        sums[1] = (uint64_t)x[i] << 20 > sums[1] ? (uint64_t)x[i] << 20 : sums[1];
    }
    atoms64_args args = {b.address, put(x, sizeof x).address, N};
    RUN(atoms64, args, parts(N, 8), hcq_dim(8, 1, 1));
    CHECK_BYTES(b, sums, sizeof sums);
}

/* A product and a sum are rounded one by one: each says so in SPIR-V, none is fma in PTX.
   Pointers are loaded with their own alignment. */
TEST(test_modules) {
    const hcq_program_desc all[] = {HCQ_PROGRAM(nbody), HCQ_PROGRAM(maths), HCQ_PROGRAM(matmul)};
    uint32_t sums = 0, said = 0;
    for (size_t k = 0; k < 3 && all[k].spirv.data != NULL; k++) {
        const uint32_t *words = (const uint32_t *)all[k].spirv.data;
        uint8_t *pointer = (uint8_t *)calloc(words[3], 1);
        for (size_t at = 5; at < all[k].spirv.size / 4; at += words[at] >> 16) {
            uint32_t op = words[at] & 0xffff;
            sums += op == 127 || op == 129 || op == 131 || op == 133 || op == 136; /* OpFAdd ... */
            said += op == 71 && words[at + 2] == 42; /* OpDecorate, NoContraction */
            pointer[words[at + 1] % words[3]] |= op == 32; /* OpTypePointer */
            if (op == 61 && words[at] >> 16 == 6 && pointer[words[at + 1]]) { /* OpLoad, Aligned */
                CHECK_U64(words[at + 5], 8);
            }
        }
        free(pointer);
        const char *ptx = (const char *)all[k].ptx.data;
        CHECK(ptx == NULL || strstr(ptx, "fma.") == NULL);
    }
    CHECK_U64(said, sums);
}

/* Another block than the kernel's is refused, by name. */
TEST(test_blocks) {
    hcq_program_desc desc = HCQ_PROGRAM(scan);
    hcq_program *program;
    scan_args args = {0, 0, 0, 0};
    CHECK_OK(hcq_program_create(T.dev, &desc, &program));
    CHECK_RESULT(hcq_program_call(program, &args, sizeof args, hcq_dim(1, 1, 1),
                                  hcq_dim(128, 2, 1), NULL), HCQ_ERROR_INVALID);
    CHECK(log_has("block: 128x2x1 does not fit 'scan'"));
}

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
#ifdef NO_GPU
    if (result == 0 && is_gpu()) {
        fprintf(stderr, "no compilers for kernels\n");
        return 77;
    }
#endif
    return result != 0 ? result : test_run();
}
