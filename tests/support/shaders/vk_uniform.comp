#version 460
// Arguments by bindings and a uniform block; any block is right.
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(set = 0, binding = 0, std430) buffer b0 { uint dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer b1 { uint src[]; };
layout(set = 0, binding = 2, std140) uniform block { uint n, factor, add; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) {
        dst[i] = dst[i] * factor + src[i] + add;
    }
}
