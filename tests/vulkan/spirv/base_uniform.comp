// Foreign: by bindings; a value in a uniform block, the base of a part of a grid in push constants.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint v[]; } dst;
layout(std140, binding = 1) uniform block { uint n; };
layout(push_constant) uniform part { uvec3 base; };
void main() { dst.v[base.x + gl_WorkGroupID.x] = n; }
