#include "digits.cuh"

// A block is a sample, a thread a hidden unit: its share of the errors.
KERNEL(back)(float *hidden_error, const float *error, const float *values,
             const output_unit *units) {
    word s = blockIdx.x, t = threadIdx.x;
    float sum = 0;
    ONE_BY_ONE
    for (word d = 0; d < DIGITS; d++) {
        sum += units[d].weight[t] * error[s * DIGITS + d];
    }
    hidden_error[s * HIDDEN + t] = values[s * HIDDEN + t] > 0 ? sum : 0;
}
