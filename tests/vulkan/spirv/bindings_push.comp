// Foreign: by bindings; values of several types in push constants.
#version 450
layout(local_size_x_id = 3, local_size_y = 2) in;
layout(std430, set = 0, binding = 0) buffer a { uint v[]; } dst;
layout(std430, set = 0, binding = 1) readonly buffer b { uint v[]; } src;
layout(push_constant) uniform block { uint n; float f; mat3 m; dvec2 d; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) {
        dst.v[i] = src.v[i] + uint(f + m[1][2] + float(d.x));
    }
}
