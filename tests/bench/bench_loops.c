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

static uint32_t hand_three(const uint8_t *from, uint32_t at) {
    return from[at] + 2u * from[at + 1] + from[at + 2];
}

static void hand_blur(const void *args, const hcq_block *b) {
    const blur_args *k = HCQ_ARGS(blur_args, args);
    uint8_t *restrict to = HCQ_PTR(uint8_t, k->dst);
    const uint8_t *restrict from = HCQ_PTR(const uint8_t, k->src);
    const uint32_t width = k->width;
    uint32_t x0 = b->id.x * b->block.x, x1 = least(x0 + b->block.x, width - 2);
    uint32_t y0 = b->id.y * b->block.y, y1 = least(y0 + b->block.y, k->rows - 2);
    for (uint32_t y = y0; y < y1; y++) {
        for (uint32_t x = x0; x < x1; x++) {
            uint32_t above = y * width + x, at = above + width, below = at + width;
            uint32_t sum = hand_three(from, above) + 2 * hand_three(from, at) +
                           hand_three(from, below);
            to[at + 1] = (uint8_t)((sum + 8) / 16);
        }
    }
}

static void hand_matmul(const void *args, const hcq_block *b) {
    const matmul_args *k = HCQ_ARGS(matmul_args, args);
    float *restrict c = HCQ_PTR(float, k->c);
    const float *restrict left = HCQ_PTR(const float, k->a);
    const float *restrict right = HCQ_PTR(const float, k->b);
    float tile_a[16][64], tile_b[64][16];
    const uint32_t n = k->n, x0 = b->id.x * 16, y0 = b->id.y * 16;
    for (uint32_t k0 = 0; k0 < n; k0 += 64) {
        for (uint32_t j = 0; j < 16; j++) {
            for (uint32_t i = 0; i < 16; i++) {
                for (uint32_t t = 0; t < 64; t += 16) {
                    tile_a[j][t + i] = left[(y0 + j) * n + k0 + t + i];
                    tile_b[t + j][i] = right[(k0 + t + j) * n + x0 + i];
                }
            }
        }
        for (uint32_t j = 0; j < 16; j++) {
            for (uint32_t i = 0; i < 16; i++) {
                uint32_t at = (y0 + j) * n + x0 + i;
                float sum = k0 == 0 ? 0 : c[at];
                for (uint32_t t = 0; t < 64; t++) {
                    sum += tile_a[j][t] * tile_b[t][i];
                }
                c[at] = sum;
            }
        }
    }
}

static void hand_reduce(const void *args, const hcq_block *b) {
    const reduce_args *k = HCQ_ARGS(reduce_args, args);
    const float *restrict from = HCQ_PTR(const float, k->x);
    float part[256];
    const uint32_t n = k->n, first = b->id.x * 4096;
    for (uint32_t t = 0; t < 256; t++) {
        float sum = 0;
        for (uint32_t i = first + t; i < n && i < first + 4096; i += 256) {
            sum += from[i];
        }
        part[t] = sum;
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
