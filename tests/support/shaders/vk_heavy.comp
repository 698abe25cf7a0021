#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

// Takes a while: 64 rounds over n words, then one word of the result.
layout(buffer_reference, std430) buffer args { words work, dst; uint n, index, value; };
layout(push_constant) uniform block { args k; };

void main() {
    uint i = gl_GlobalInvocationID.x, x = i;
    if (i >= k.n) {
        return;
    }
    for (uint r = 0u; r < 64u; r++) {
        x = x * 1664525u + k.work.v[(i + r) % k.n] + 1013904223u;
    }
    if (x == 0u) {
        k.work.v[i] = 0u;              // never, but who knows
    }
    if (i == 0u) {
        k.dst.v[k.index] = k.value;
    }
}
