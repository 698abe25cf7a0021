#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

// What a thread sees of its place, for grids beyond the device's limits.
layout(buffer_reference, std430) buffer args { words seen; uint mode, width, height, depth; };
layout(push_constant) uniform block { args k; uvec3 base; };

uint mix_in(uint x, uvec3 v) {
    return ((x * 31u + v.x) * 31u + v.y) * 31u + v.z;
}

void main() {
    uvec3 grid = uvec3(k.width, k.height, k.depth), size = grid * gl_WorkGroupSize;
    uvec3 id = base * gl_WorkGroupSize + gl_GlobalInvocationID;
    uint x = mix_in(k.mode, grid);
    x = mix_in(x, base + gl_WorkGroupID);
    x = mix_in(x, gl_LocalInvocationID);
    x = mix_in(x, id);
    atomicAdd(k.seen.v[(id.z * size.y + id.y) * size.x + id.x], x + gl_LocalInvocationIndex);
}
