#version 460
#extension GL_GOOGLE_include_directive : require
#include "photo.glsl"

layout(buffer_reference, std430) buffer filter_args {
    halves dst; bytes src;
    uint width, rows, skip;
};
layout(push_constant) uniform block { filter_args k; };

void main() {
    uint x = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y * k.width;
    for (uint c = 0u; c < RGB && x < k.width; c++) {
        uint sum = 0u;
        for (uint i = 0u; i < 5u; i++) {
            sum += tap[i] * uint(k.src.v[(row + near_index(x, i, 2u, k.width)) * RGB + c]);
        }
        k.dst.v[(row + x) * RGB + c] = uint16_t(sum);
    }
}
