// Foreign: by pointer, with the base of a part of a grid.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
layout(buffer_reference, std430) buffer args { words dst; uint n; };
layout(push_constant) uniform block { args k; uvec3 base; };
void main() { k.dst.v[base.x + gl_WorkGroupID.x] = k.n; }
