#include "digits.cuh"

// A block is a sample, a thread a hidden unit.
KERNEL(hidden)(float *values, const sample *samples, const hidden_unit *units) {
    word s = blockIdx.x, t = threadIdx.x;
    float sum = units[t].bias;
    ONE_BY_ONE
    for (word i = 0; i < PIXELS; i++) {
        sum += units[t].weight[i] * samples[s].pixel[i];
    }
    values[s * HIDDEN + t] = sum > 0 ? sum : 0;
}
