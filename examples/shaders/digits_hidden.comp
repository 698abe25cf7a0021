#version 460
#extension GL_GOOGLE_include_directive : require
#include "digits.glsl"

layout(buffer_reference, std430) buffer args { floats values; samples from; hidden_units units; };
layout(push_constant) uniform block { args k; };

// A block is a sample, a thread a hidden unit.
void main() {
    uint s = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    precise float sum = k.units.v[t].bias;
    for (uint i = 0u; i < PIXELS; i++) {
        sum += k.units.v[t].weight[i] * k.from.v[s].pixel[i];
    }
    k.values.v[s * HIDDEN + t] = sum > 0.0 ? sum : 0.0;
}
