#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

layout(buffer_reference, std430) volatile buffer args {
    words dst, a, b;
    uint n, a_n, b_n, seed, reads, pause_us;
};
layout(push_constant) uniform block { args k; };

void main() {
    uint i = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (gl_WorkGroupID.x == 0u) {      // a load takes about as long as a microsecond
        for (uint turn = 0u; turn < k.pause_us; turn++) {}
    }
    if (gl_LocalInvocationID.yz == uvec2(0u) && i < k.n) {
        uint x = k.reads != 0u ? k.dst.v[i] * 31u + 7u : 1u;
        x += k.a.v[(i * 5u + k.seed) % k.a_n];
        x ^= k.b.v[(i + k.seed * 3u) % k.b_n] * 0x85ebca6bu;
        k.dst.v[i] = x + i * 0x9e3779b1u + k.seed;
    }
}
