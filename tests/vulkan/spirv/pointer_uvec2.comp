// By pointer, which is two words here.
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
layout(push_constant) uniform block { uvec2 k; };
void main() { words(k).v[0] = 1; }
