/* kernels.c - kernels written once (hcq_kernel.h) do on every device what plain C does:
   numbers of integers the same, of floats within so many units in the last place.

   kernels [VARIANT]. On mocks of drivers the kernel's C form runs, on CUDA's with the
   arguments that its PTX declares. */
#include "support/util.h"

#include "block.k"
#include "plain.k"
#if __has_include("block.k.h")
#include "block.k.h"
#include "plain.k.h"
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
    hcq_buffer b;
    CHECK_OK(hcq_alloc(T.dev, size, 0, &b));
    CHECK_OK(hcq_copyin(b, data, size));
    return b;
}

#define RUN(name, args, grid, block) run(HCQ_PROGRAM(name), &(args), sizeof(args), grid, block)

static void run(hcq_program_desc desc, const void *args, size_t size, hcq_dims grid,
                hcq_dims block) {
    hcq_program *program;
#ifdef HCQ_TEST_CUDA
    if (T.variant->cuda) { test_cu.mock.kernel(desc.ptx.entry, desc.cpu); }
#endif
    CHECK_OK(hcq_program_create(T.dev, &desc, &program));
    CHECK_OK(hcq_program_call(program, args, size, grid, block, NULL));
    hcq_program_destroy(program);
}

static const hcq_dims own = {0, 0, 0}; /* the kernel's block */

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

static void test_saxpy(TEST_ARGS) {
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

static void test_blur(TEST_ARGS) {
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

/* ---- block.k ---- */

static void test_transpose(TEST_ARGS) {
    enum { W = 50, H = 37 };
    uint32_t src[W * H], dst[W * H];
    for (int i = 0; i < W * H; i++) {
        src[i] = draw();
        dst[i % W * H + i / W] = src[i];
    }
    hcq_buffer b = put(src, sizeof src);
    transpose_args args = {b.address, put(src, sizeof src).address, W, H};
    RUN(transpose, args, hcq_dim(4, 3, 1), own);
    CHECK_BYTES(b, dst, sizeof dst);
}

static void test_reduce(TEST_ARGS) {
    enum { N = 1000, BLOCKS = 4 };
    float x[BLOCKS * 256] = {0}, sums[BLOCKS];
    for (int i = 0; i < N; i++) { x[i] = draw_f32(0, 1); }
    hcq_buffer b = put(sums, sizeof sums);
    reduce_args args = {b.address, put(x, sizeof x).address, N};
    RUN(reduce, args, hcq_dim(BLOCKS, 1, 1), own);
    for (int i = 0; i < BLOCKS; i++) { /* in the same order */
        for (int half = 128; half > 0; half /= 2) {
            for (int t = 0; t < half; t++) { x[i * 256 + t] += x[i * 256 + t + half]; }
        }
        sums[i] = x[i * 256];
    }
    check_near(b, sums, BLOCKS, 0);
}

static void test_histogram(TEST_ARGS) {
    enum { N = 10000 };
    uint32_t counts[256] = {0};
    uint8_t bytes[N];
    hcq_buffer b = put(counts, sizeof counts);
    for (int i = 0; i < N; i++) {
        bytes[i] = (uint8_t)(draw() & draw());
        counts[bytes[i]]++;
    }
    histogram_args args = {b.address, put(bytes, sizeof bytes).address, N};
    RUN(histogram, args, parts(N, 1024), own);
    CHECK_BYTES(b, counts, sizeof counts);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(test_saxpy), TEST(test_blur), TEST(test_transpose), TEST(test_reduce),
        TEST(test_histogram),
    };
    int result = test_start(argc, argv);
#ifdef NO_GPU
    if (result == 0 && is_gpu()) {
        fprintf(stderr, "no compilers for kernels\n");
        return 77;
    }
#endif
    return result ? result : cmocka_run_group_tests_name(T.variant->name, tests, NULL, NULL);
}
