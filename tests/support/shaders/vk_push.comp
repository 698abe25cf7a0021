// Foreign: arguments by bindings and push constants; any block and any grid is right.
#version 460
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(set = 0, binding = 0, std430) buffer b0 { uint dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer b1 { uint src[]; };
layout(push_constant) uniform block { uint n, factor, add; uvec3 base; };

void main() {
    uint i = base.x * gl_WorkGroupSize.x + gl_GlobalInvocationID.x;
    if (i < n) {
        dst[i] = dst[i] * factor + src[i] + add;
    }
}
