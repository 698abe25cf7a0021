/* bench_loops.c - what a programmer writes for the CPU alone, beside the same kernels
   through hcq_kernel.h. Compiled several times: BENCH_LOOPS names the table. */

#include "bench_kernel.h"

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void hand_saxpy(const void *args, const hcq_block *b) {
    const saxpy_args *k = HCQ_ARGS(saxpy_args, args);
    float *restrict to = HCQ_PTR(float, k->y);
    const float *restrict from = HCQ_PTR(const float, k->x);
    const float factor = k->a;
    uint32_t first = b->id.x * b->block.x, end = least(first + b->block.x, k->n);
    for (uint32_t i = first; i < end; i++) {
        to[i] += factor * from[i];
    }
}

static void hand_blur(const void *args, const hcq_block *b) {
    static const uint32_t weights[5] = {1, 4, 6, 4, 1};
    const blur_args *k = HCQ_ARGS(blur_args, args);
    uint8_t *restrict to = HCQ_PTR(uint8_t, k->dst);
    const uint8_t *restrict from = HCQ_PTR(const uint8_t, k->src);
    const uint32_t width = k->width;
    uint32_t x0 = b->id.x * b->block.x, x1 = least(x0 + b->block.x, width);
    uint32_t y0 = b->id.y * b->block.y, y1 = least(y0 + b->block.y, k->rows);
    for (uint32_t y = y0; y < y1; y++) {
        for (uint32_t x = x0; x < x1; x++) {
            uint32_t sum = 8;
            for (uint32_t t = 0; t < 5; t++) {
                uint32_t at = x + t < 2 ? 0 : least(x + t - 2, width - 1);
                sum += weights[t] * from[y * width + at];
            }
            to[y * width + x] = (uint8_t)(sum / 16);
        }
    }
}

static void hand_matmul(const void *args, const hcq_block *b) {
    const matmul_args *k = HCQ_ARGS(matmul_args, args);
    float *restrict c = HCQ_PTR(float, k->c);
    const float *restrict left = HCQ_PTR(const float, k->a);
    const float *restrict right = HCQ_PTR(const float, k->b);
    float tile_a[16][16], tile_b[16][16], tile_c[16][16];
    const uint32_t n = k->n, x0 = b->id.x * 16, y0 = b->id.y * 16;
    for (uint32_t j = 0; j < 16; j++) {
        for (uint32_t i = 0; i < 16; i++) {
            tile_c[j][i] = 0;
        }
    }
    for (uint32_t k0 = 0; k0 < n; k0 += 16) {
        for (uint32_t j = 0; j < 16; j++) {
            for (uint32_t i = 0; i < 16; i++) {
                tile_a[j][i] = y0 + j < n && k0 + i < n ? left[(y0 + j) * n + k0 + i] : 0;
                tile_b[j][i] = k0 + j < n && x0 + i < n ? right[(k0 + j) * n + x0 + i] : 0;
            }
        }
        for (uint32_t j = 0; j < 16; j++) {
            for (uint32_t i = 0; i < 16; i++) {
                float sum = tile_c[j][i];
                for (uint32_t t = 0; t < 16; t++) {
                    sum += tile_a[j][t] * tile_b[t][i];
                }
                tile_c[j][i] = sum;
            }
        }
    }
    for (uint32_t j = 0; j < 16; j++) {
        for (uint32_t i = 0; i < 16; i++) {
            if (x0 + i < n && y0 + j < n) {
                c[(y0 + j) * n + x0 + i] = tile_c[j][i];
            }
        }
    }
}

static void hand_reduce(const void *args, const hcq_block *b) {
    const reduce_args *k = HCQ_ARGS(reduce_args, args);
    const float *restrict from = HCQ_PTR(const float, k->x);
    float part[256];
    const uint32_t n = k->n, first = b->id.x * 256;
    for (uint32_t t = 0; t < 256; t++) {
        part[t] = first + t < n ? from[first + t] : 0;
    }
    for (uint32_t span = 128; span > 0; span /= 2) {
        for (uint32_t t = 0; t < span; t++) {
            part[t] += part[t + span];
        }
    }
    HCQ_PTR(float, k->sums)[b->id.x] = part[0];
}

const bench_kernel BENCH_LOOPS[KERNELS] = {
    {saxpy_cpu, hand_saxpy}, {blur_cpu, hand_blur}, {matmul_cpu, hand_matmul},
    {reduce_cpu, hand_reduce}};
