// Foreign: by pointer, which is an integer of 64 bits here.
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
layout(push_constant) uniform block { uint64_t k; };
void main() { words(k).v[0] = 1; }
