#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

layout(buffer_reference, std430) volatile coherent buffer flag_word { uint v; };
layout(buffer_reference, std430) buffer args { flag_word flag; words dst; };
layout(push_constant) uniform block { args k; };

void main() {
    if (FIRST_OF_BLOCK) {
        uint seen = 0u;
        for (uint i = 0u; i < 100000000u && seen == 0u; i++) {
            seen = k.flag.v;
        }
        k.dst.v[0] = seen;
    }
}
