#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

layout(buffer_reference, std430) buffer args { words dst; uint value, n; };
layout(push_constant) uniform block { args k; };

void main() {
    uint i = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (gl_LocalInvocationID.yz == uvec2(0u) && i < k.n) {
        k.dst.v[i] += k.value;
    }
}
