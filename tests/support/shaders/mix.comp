#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

layout(buffer_reference, std430) buffer args { words dst, src; uint n, seed; };
layout(push_constant) uniform block { args k; };

void main() {
    uint i = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (gl_LocalInvocationID.yz == uvec2(0u) && i < k.n) {
        k.dst.v[i] = k.dst.v[i] * 31u + k.src.v[i] + k.seed;
    }
}
