// Foreign: by pointer: addresses as a number and as two words, a vector, a matrix, a member in
// the padding, and an array without an end.
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
layout(buffer_reference, std430) buffer args {
    uint64_t dst;
    uvec2 src;
    vec4 v;
    uint n;
    uint unused;
    mat2 m;
    uint rest[];
};
layout(push_constant) uniform block { args k; };
void main() {
    words(k.dst).v[k.n] = words(k.src).v[0] + uint(k.v.x + k.m[1][1]) + k.rest[0] + k.unused;
}
