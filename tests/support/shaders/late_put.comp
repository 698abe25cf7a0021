#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"
#include "seen.glsl"

layout(buffer_reference, std430) buffer args { words dst; uint index, value; };
layout(push_constant) uniform block { args k; };

void main() {
    until_hold_go();
    if (FIRST_OF_BLOCK) {
        k.dst.v[k.index] = k.value;
    }
}
