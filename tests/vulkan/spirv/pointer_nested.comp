// Foreign: by pointer: an array in a struct in the block.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 8, local_size_y = 4) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
struct inner { words dst; };
layout(push_constant) uniform block { inner k[1]; };
void main() { k[0].dst.v[0] = 1; }
