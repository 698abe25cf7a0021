// Foreign: a storage buffer and the workgroup's size as SPIR-V 1.0 says them.
// target vulkan1.0
#version 450
layout(local_size_x = 7) in;
layout(std430, binding = 0) buffer a { uint v[]; } x;
void main() { x.v[0] = gl_WorkGroupSize.x; }
