#version 460
#extension GL_GOOGLE_include_directive : require
#include "digits.glsl"

layout(buffer_reference, std430) buffer args {
    floats error;
    scores results;
    floats values;
    samples from;
    output_units units;
};
layout(push_constant) uniform block { args k; };

float exp_of(float x) {
    precise float y = x / 1024.0;
    y = 1.0 + y * (1.0 + y * (0.5 + y / 6.0));
    for (int i = 0; i < 10; i++) {
        y *= y;
    }
    return y;
}

float log_of(float x) {
    precise float y = 1.0;
    for (int i = 0; i < 4; i++) {
        precise float e = exp_of(y);
        y += 2.0 * (x - e) / (x + e);
    }
    return y;
}

// A block is a sample. Its error is the loss's slope for each output.
void main() {
    uint s = gl_WorkGroupID.x, label = k.from.v[s].label, best = 0u;
    precise float sums[DIGITS], errors[DIGITS], all = 0.0;
    for (uint d = 0u; d < DIGITS; d++) {
        sums[d] = k.units.v[d].bias;
        for (uint i = 0u; i < HIDDEN; i++) {
            sums[d] += k.units.v[d].weight[i] * k.values.v[s * HIDDEN + i];
        }
        best = sums[d] > sums[best] ? d : best;
    }
    for (uint d = 0u; d < DIGITS; d++) {
        errors[d] = exp_of(sums[d] - sums[best]);
        all += errors[d];
    }
    for (uint d = 0u; d < DIGITS; d++) {
        precise float error = errors[d] / all - (d == label ? 1.0 : 0.0);
        k.error.v[s * DIGITS + d] = error;
    }
    precise float loss = log_of(all) + sums[best] - sums[label];
    k.results.v[s].loss = loss;
    k.results.v[s].right = best == label ? 1u : 0u;
}
