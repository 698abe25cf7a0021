#include "digits.cuh"

// A block is a unit of either layer, a thread one of its weights or the bias.
KERNEL(update)(float *units, float *speed, const float *error, const float *from, word width,
               word stride, float rate) {
    word unit = blockIdx.x, t = threadIdx.x, at = unit * blockDim.x + t;
    float slope = 0;
    ONE_BY_ONE
    for (word i = 0; i < BATCH; i++) {
        slope += error[i * gridDim.x + unit] * (t < width ? from[i * stride + t] : 1.0f);
    }
    speed[at] = 0.9f * speed[at] + slope / (float)BATCH;
    units[at] -= rate * speed[at];
}
