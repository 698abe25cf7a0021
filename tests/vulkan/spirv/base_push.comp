// Foreign: by bindings; values and the base of a part of a grid in push constants.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint v[]; } dst;
layout(push_constant) uniform block { uint n; float f; uvec3 base; };
void main() { dst.v[base.x + gl_WorkGroupID.x] = n + uint(f); }
