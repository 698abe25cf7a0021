#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

layout(buffer_reference, std430) buffer args { words dst, a, b; uint n; };
layout(push_constant) uniform block { args k; };

void main() {
    if (FIRST_OF_BLOCK) {
        uint sum = 0u;
        for (uint i = 0u; i < k.n; i++) {
            sum += k.a.v[i] * k.b.v[i];
        }
        k.dst.v[0] = sum;
    }
}
