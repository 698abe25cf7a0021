/* cuda_kernels.h - part of libcuda.c: what the kernels of the examples do,
   by their names in examples/kernels. Threads run one after another. */
#ifndef HCQ_TEST_MOCK_CUDA_KERNELS_H
#define HCQ_TEST_MOCK_CUDA_KERNELS_H

#include "cuda.h"

/* ---- hello.c and replay.c ---- */

MOCK_CUDA_KERNEL(mock_cuda_axpy) {
    const struct { int32_t *y; const int32_t *x; int32_t a; uint32_t n; } *k = args;
    for (uint32_t t = 0; t < block[0]; t++) {
        uint32_t i = id[0] * block[0] + t;
        if (i < k->n) {
            k->y[i] += k->a * k->x[i];
        }
    }
}

MOCK_CUDA_KERNEL(mock_cuda_step) {
    const struct { uint32_t *state; uint32_t add; } *k = args;
    *k->state = *k->state * 5 + k->add;
}

/* ---- photo.c ---- */

enum { MOCK_CUDA_RGB = 3 };

typedef struct mock_cuda_filter {
    void *dst;
    const void *src;
    uint32_t width, rows, skip;
} mock_cuda_filter;

/* i + step - back, kept within 0 .. count - 1. */
static uint32_t mock_cuda_near(uint32_t i, uint32_t step, uint32_t back, uint32_t count) {
    uint32_t at = i + step < back ? 0 : i + step - back;
    return at < count ? at : count - 1;
}

static const uint32_t mock_cuda_tap[5] = {1, 4, 6, 4, 1};

/* The colours of the pixels of a block's row: where they are in the picture. */
static uint32_t mock_cuda_first(const mock_cuda_filter *k, uint32_t id, uint32_t block) {
    uint32_t x = id * block;
    return (x < k->width ? x : k->width) * MOCK_CUDA_RGB;
}

MOCK_CUDA_KERNEL(mock_cuda_blur_x) {
    const mock_cuda_filter *k = args;
    size_t row = (size_t)id[1] * k->width * MOCK_CUDA_RGB;
    const uint8_t *src = (const uint8_t *)k->src + row;
    uint16_t *dst = (uint16_t *)k->dst + row;
    uint32_t end = mock_cuda_first(k, id[0] + 1, block[0]);
    for (uint32_t at = mock_cuda_first(k, id[0], block[0]); at < end; at++) {
        uint32_t x = at / MOCK_CUDA_RGB, colour = at % MOCK_CUDA_RGB, sum = 0;
        for (uint32_t i = 0; i < 5; i++) {
            sum += mock_cuda_tap[i] *
                   src[mock_cuda_near(x, i, 2, k->width) * MOCK_CUDA_RGB + colour];
        }
        dst[at] = (uint16_t)sum;
    }
}

MOCK_CUDA_KERNEL(mock_cuda_blur_y) {
    const mock_cuda_filter *k = args;
    size_t row = (size_t)k->width * MOCK_CUDA_RGB;
    const uint16_t *src = (const uint16_t *)k->src;
    uint8_t *dst = (uint8_t *)k->dst + id[1] * row;
    uint32_t end = mock_cuda_first(k, id[0] + 1, block[0]);
    for (uint32_t at = mock_cuda_first(k, id[0], block[0]); at < end; at++) {
        uint32_t sum = 128;
        for (uint32_t i = 0; i < 5; i++) {
            sum += mock_cuda_tap[i] * src[mock_cuda_near(id[1], i, 2, k->rows) * row + at];
        }
        dst[at] = (uint8_t)(sum / 256);
    }
}

/* Brightness of the one at place `i` of the nine around (x, y). */
static int32_t mock_cuda_grey(const mock_cuda_filter *k, uint32_t x, uint32_t y, uint32_t i) {
    size_t row = mock_cuda_near(y, i / 3, 1, k->rows);
    size_t pixel = row * k->width + mock_cuda_near(x, i % 3, 1, k->width);
    const uint8_t *rgb = (const uint8_t *)k->src + pixel * MOCK_CUDA_RGB;
    return (77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2]) / 256;
}

/* Sobel's magnitude, at most 255. */
static uint32_t mock_cuda_edge(const mock_cuda_filter *k, uint32_t x, uint32_t y) {
    static const int32_t across[9] = {-1, 0, 1, -2, 0, 2, -1, 0, 1};
    int32_t gx = 0, gy = 0, root = 0;
    for (uint32_t i = 0; i < 9; i++) {
        int32_t light = mock_cuda_grey(k, x, y, i);
        gx += across[i] * light;
        gy += across[i % 3 * 3 + i / 3] * light;
    }
    while (root < 255 && (root + 1) * (root + 1) <= gx * gx + gy * gy) {
        root++;
    }
    return (uint32_t)root;
}

MOCK_CUDA_KERNEL(mock_cuda_ink) {
    const mock_cuda_filter *k = args;
    uint32_t y = id[1] + k->skip;
    size_t row = (size_t)k->width * MOCK_CUDA_RGB;
    const uint8_t *src = (const uint8_t *)k->src + y * row;
    uint8_t *dst = (uint8_t *)k->dst + id[1] * row;
    uint32_t end = mock_cuda_first(k, id[0] + 1, block[0]);
    for (uint32_t at = mock_cuda_first(k, id[0], block[0]); at < end; at += MOCK_CUDA_RGB) {
        uint32_t light = 255 - mock_cuda_edge(k, at / MOCK_CUDA_RGB, y);
        for (uint32_t c = 0; c < MOCK_CUDA_RGB; c++) {
            dst[at + c] = (uint8_t)(src[at + c] * light / 255);
        }
    }
}

/* ---- frames.c ---- */

typedef struct mock_cuda_dot {
    int16_t x, y;
    uint32_t light;
} mock_cuda_dot;

static void mock_cuda_lighten(uint32_t *image, int x, int y, uint32_t light) {
    enum { WIDTH = 640, HEIGHT = 360 };
    uint32_t sum = 0;
    if (x < 0 || x >= WIDTH || y < 0 || y >= HEIGHT) {
        return;
    }
    uint32_t *pixel = &image[y * WIDTH + x];
    for (int shift = 0; shift < 24; shift += 8) {
        uint32_t colour = (*pixel >> shift & 255) + (light >> shift & 255);
        sum |= (colour < 255 ? colour : 255) << shift;
    }
    *pixel = sum;
}

MOCK_CUDA_KERNEL(mock_cuda_draw) {
    static const int around[5][2] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    const struct { uint32_t *image; const mock_cuda_dot *dots; uint32_t count; } *k = args;
    for (uint32_t t = 0; t < block[0]; t++) {
        for (uint32_t i = id[0] * block[0] + t; i < k->count; i += grid[0] * block[0]) {
            const mock_cuda_dot *d = &k->dots[i];
            for (int j = 0; j < 5; j++) {
                mock_cuda_lighten(k->image, d->x + around[j][0], d->y + around[j][1], d->light);
            }
        }
    }
}

/* ---- digits.c ---- */

enum { MOCK_CUDA_UNITS = 64, MOCK_CUDA_DIGITS = 10, MOCK_CUDA_BATCH = 30 };

typedef struct mock_cuda_sample {
    float pixel[MOCK_CUDA_UNITS];
    uint32_t label;
} mock_cuda_sample;

typedef struct mock_cuda_score {
    float loss;
    uint32_t right;
} mock_cuda_score;

typedef struct mock_cuda_unit {
    float weight[MOCK_CUDA_UNITS], bias;
} mock_cuda_unit;

static float mock_cuda_exp(float x) {
    float y = x / 1024;
    y = 1 + y * (1 + y * (0.5f + y / 6));
    for (int i = 0; i < 10; i++) {
        y *= y;
    }
    return y;
}

static float mock_cuda_log(float x) {
    float y = 1;
    for (int i = 0; i < 4; i++) {
        float e = mock_cuda_exp(y);
        y += 2 * (x - e) / (x + e);
    }
    return y;
}

static float mock_cuda_sum(const mock_cuda_unit *unit, const float *values) {
    float sum = unit->bias;
    for (int i = 0; i < MOCK_CUDA_UNITS; i++) {
        sum += unit->weight[i] * values[i];
    }
    return sum;
}

MOCK_CUDA_KERNEL(mock_cuda_hidden) {
    const struct {
        float *values;
        const mock_cuda_sample *samples;
        const mock_cuda_unit *units;
    } *k = args;
    for (uint32_t t = 0; t < block[0]; t++) {
        float sum = mock_cuda_sum(&k->units[t], k->samples[id[0]].pixel);
        k->values[id[0] * MOCK_CUDA_UNITS + t] = sum > 0 ? sum : 0;
    }
}

MOCK_CUDA_KERNEL(mock_cuda_output) {
    const struct {
        float *error;
        mock_cuda_score *scores;
        const float *values;
        const mock_cuda_sample *samples;
        const mock_cuda_unit *units;
    } *k = args;
    uint32_t label = k->samples[id[0]].label, best = 0;
    float *error = &k->error[id[0] * MOCK_CUDA_DIGITS];
    float sums[MOCK_CUDA_DIGITS], all = 0;
    for (uint32_t d = 0; d < MOCK_CUDA_DIGITS; d++) {
        sums[d] = mock_cuda_sum(&k->units[d], &k->values[id[0] * MOCK_CUDA_UNITS]);
        best = sums[d] > sums[best] ? d : best;
    }
    for (int d = 0; d < MOCK_CUDA_DIGITS; d++) {
        error[d] = mock_cuda_exp(sums[d] - sums[best]);
        all += error[d];
    }
    for (uint32_t d = 0; d < MOCK_CUDA_DIGITS; d++) {
        error[d] = error[d] / all - (d == label ? 1.0f : 0.0f);
    }
    k->scores[id[0]].loss = mock_cuda_log(all) + sums[best] - sums[label];
    k->scores[id[0]].right = best == label;
}

MOCK_CUDA_KERNEL(mock_cuda_back) {
    const struct {
        float *hidden_error;
        const float *error, *values;
        const mock_cuda_unit *units;
    } *k = args;
    for (uint32_t t = 0; t < block[0]; t++) {
        uint32_t at = id[0] * MOCK_CUDA_UNITS + t;
        float sum = 0;
        for (uint32_t d = 0; d < MOCK_CUDA_DIGITS; d++) {
            sum += k->units[d].weight[t] * k->error[id[0] * MOCK_CUDA_DIGITS + d];
        }
        k->hidden_error[at] = k->values[at] > 0 ? sum : 0;
    }
}

MOCK_CUDA_KERNEL(mock_cuda_update) {
    const struct {
        float *units, *speed;
        const float *error, *from;
        uint32_t width, stride;
        float rate;
    } *k = args;
    for (uint32_t t = 0; t < block[0]; t++) {
        uint32_t at = id[0] * block[0] + t;
        float slope = 0;
        for (uint32_t i = 0; i < MOCK_CUDA_BATCH; i++) {
            float value = t < k->width ? k->from[i * k->stride + t] : 1.0f;
            slope += k->error[i * grid[0] + id[0]] * value;
        }
        k->speed[at] = 0.9f * k->speed[at] + slope / (float)MOCK_CUDA_BATCH;
        k->units[at] -= k->rate * k->speed[at];
    }
}

#define MOCK_CUDA_EXAMPLES \
    {"axpy", mock_cuda_axpy}, {"step", mock_cuda_step}, {"blur_x", mock_cuda_blur_x}, \
    {"blur_y", mock_cuda_blur_y}, {"ink", mock_cuda_ink}, {"draw", mock_cuda_draw}, \
    {"hidden", mock_cuda_hidden}, {"output", mock_cuda_output}, {"back", mock_cuda_back}, \
    {"update", mock_cuda_update},

#endif /* HCQ_TEST_MOCK_CUDA_KERNELS_H */
