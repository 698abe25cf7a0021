// Foreign: arguments by bindings and a uniform block; any block and any grid is right.
#version 460
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(set = 0, binding = 0, std430) buffer b0 { uint dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer b1 { uint src[]; };
layout(set = 0, binding = 2, std140) uniform block { uint n, factor, add; };
layout(push_constant) uniform part { uvec3 base; };

void main() {
    uint i = base.x * gl_WorkGroupSize.x + gl_GlobalInvocationID.x;
    if (i < n) {
        dst[i] = dst[i] * factor + src[i] + add;
    }
}
