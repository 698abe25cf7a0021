#version 460
#extension GL_GOOGLE_include_directive : require
#include "digits.glsl"

layout(buffer_reference, std430) buffer args {
    floats hidden_error, error, values;
    output_units units;
};
layout(push_constant) uniform block { args k; };

// A block is a sample, a thread a hidden unit: its share of the errors.
void main() {
    uint s = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    precise float sum = 0.0;
    for (uint d = 0u; d < DIGITS; d++) {
        sum += k.units.v[d].weight[t] * k.error.v[s * DIGITS + d];
    }
    k.hidden_error.v[s * HIDDEN + t] = k.values.v[s * HIDDEN + t] > 0.0 ? sum : 0.0;
}
