// Foreign: by bindings; nested types in a uniform block.
#version 450
layout(local_size_x = 64) in;
struct point { vec3 at; float w[3]; };
layout(std430, set = 0, binding = 0) buffer a { uint v[]; } dst;
layout(std140, set = 0, binding = 1) uniform block {
    uint n;
    point p[4];
    layout(row_major) mat4x3 m;
    float last[5];
};
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) {
        dst.v[i] = uint(p[3].w[2] + m[1][2] + last[4]);
    }
}
