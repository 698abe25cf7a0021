#version 460
#extension GL_GOOGLE_include_directive : require
#include "photo.glsl"

layout(buffer_reference, std430) buffer filter_args {
    bytes dst; halves src;
    uint width, rows, skip;
};
layout(push_constant) uniform block { filter_args k; };

void main() {
    uint x = gl_GlobalInvocationID.x, y = gl_WorkGroupID.y;
    for (uint c = 0u; c < RGB && x < k.width; c++) {
        uint sum = 128u;
        for (uint i = 0u; i < 5u; i++) {
            uint row = near_index(y, i, 2u, k.rows);
            sum += tap[i] * uint(k.src.v[(row * k.width + x) * RGB + c]);
        }
        k.dst.v[(y * k.width + x) * RGB + c] = uint8_t(sum / 256u);
    }
}
