#version 460
#extension GL_GOOGLE_include_directive : require
#include "digits.glsl"

layout(buffer_reference, std430) buffer args {
    floats units, speed, error, from;
    uint width, stride;
    float rate;
};
layout(push_constant) uniform block { args k; };

const float momentum = 0.9;

// A block is a unit of either layer, a thread one of its weights or the bias.
void main() {
    uint unit = gl_WorkGroupID.x, t = gl_LocalInvocationID.x, at = gl_GlobalInvocationID.x;
    precise float slope = 0.0;
    for (uint i = 0u; i < BATCH; i++) {
        float value = t < k.width ? k.from.v[i * k.stride + t] : 1.0;
        slope += k.error.v[i * gl_NumWorkGroups.x + unit] * value;
    }
    precise float speed = momentum * k.speed.v[at] + slope / float(BATCH);
    precise float weight = k.units.v[at] - k.rate * speed;
    k.speed.v[at] = speed;
    k.units.v[at] = weight;
}
