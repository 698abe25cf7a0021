#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

const uint TOLD = 80u;

layout(buffer_reference, std430) buffer told { uint count, ids[]; };
layout(buffer_reference, std430) buffer args { told list; uint id; };
layout(push_constant) uniform block { args k; };

void main() {
    if (FIRST_OF_BLOCK) {
        uint at = k.list.count;
        k.list.ids[at % TOLD] = k.id;
        k.list.count = at + 1u;
    }
}
