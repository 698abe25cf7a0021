#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

// Three words each: a vec3 would be aligned to 16 bytes.
layout(buffer_reference, std430) buffer args { words sum, seen; uint grid[3], block[3]; };
layout(push_constant) uniform block_args { args k; };

void add(uint value) {
    if (atomicAdd(k.sum.v[0], value) + value < value) {
        atomicAdd(k.sum.v[1], 1u);
    }
}

void main() {
    uvec3 grid = uvec3(k.grid[0], k.grid[1], k.grid[2]);
    uvec3 block = uvec3(k.block[0], k.block[1], k.block[2]);
    uvec3 id = gl_WorkGroupID;
    bool good = gl_NumWorkGroups == grid && gl_WorkGroupSize == block &&
                all(lessThan(id, grid)) && all(lessThan(gl_LocalInvocationID, block));
    if (good) {
        atomicAdd(k.seen.v[(id.z * grid.y + id.y) * grid.x + id.x], 1u);
    }
    add(good ? 1u : 1000000u);
}
