// Foreign: by pointer: two buffers, an unsigned and a float.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
layout(buffer_reference, std430) buffer args { words dst; words src; uint n; float f; };
layout(push_constant) uniform block { args k; };
void main() { k.dst.v[k.n] = k.src.v[0] + uint(k.f); }
