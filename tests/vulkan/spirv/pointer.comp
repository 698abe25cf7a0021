// Foreign: by pointer, every dimension of the workgroup specialized.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
layout(buffer_reference, std430) buffer args { words dst; uint n; };
layout(push_constant) uniform block { args k; };
void main() {
    if (gl_GlobalInvocationID.x < k.n) {
        k.dst.v[gl_GlobalInvocationID.x] = 1;
    }
}
