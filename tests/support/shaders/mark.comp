// By hand: words that the host sees while it runs, at an address put into the code.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
#include "seen.glsl"

layout(buffer_reference, std430) buffer args { words dst; uint index, late; };
layout(push_constant) uniform block { args k; };

void main() {
    if (FIRST_OF_BLOCK) {
        seen_words s = seen();
        if (k.late != 0u) {
            atomicAdd(s.hold_began, 1u);
            until_hold_go();
        }
        k.dst.v[0] = k.dst.v[0] * 31u + k.index + 1u;
        memoryBarrierBuffer();
        atomicExchange(s.marks[k.index], atomicAdd(s.mark_clock, 1u) + 1u);
    }
}
