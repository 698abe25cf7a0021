#include "digits.cuh"

static __device__ float exp_of(float x) {
    float y = x / 1024;
    y = 1 + y * (1 + y * (0.5f + y / 6));
    ONE_BY_ONE
    for (int i = 0; i < 10; i++) {
        y *= y;
    }
    return y;
}

static __device__ float log_of(float x) {
    float y = 1;
    ONE_BY_ONE
    for (int i = 0; i < 4; i++) {
        float e = exp_of(y);
        y += 2 * (x - e) / (x + e);
    }
    return y;
}

static __device__ float sum_of(const output_unit &unit, const float *values) {
    float sum = unit.bias;
    ONE_BY_ONE
    for (word i = 0; i < HIDDEN; i++) {
        sum += unit.weight[i] * values[i];
    }
    return sum;
}

// A block is a sample. Its error is the loss's slope for each output.
KERNEL(output)(float *errors, score *scores, const float *values, const sample *samples,
               const output_unit *units) {
    word s = blockIdx.x, label = samples[s].label, best = 0;
    float *error = errors + s * DIGITS;
    float most = 0, own = 0, all = 0;
    ONE_BY_ONE
    for (word d = 0; d < DIGITS; d++) {
        float sum = sum_of(units[d], values + s * HIDDEN);
        best = d == 0 || sum > most ? d : best;
        most = best == d ? sum : most;
        own = d == label ? sum : own;
        error[d] = sum;
    }
    ONE_BY_ONE
    for (word d = 0; d < DIGITS; d++) {
        error[d] = exp_of(error[d] - most);
        all += error[d];
    }
    ONE_BY_ONE
    for (word d = 0; d < DIGITS; d++) {
        error[d] = error[d] / all - (d == label ? 1.0f : 0.0f);
    }
    scores[s].loss = log_of(all) + most - own;
    scores[s].right = best == label;
}
