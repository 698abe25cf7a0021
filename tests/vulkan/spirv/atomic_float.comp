// Refused: a capability that hcq does not enable.
#version 450
#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { float v; } x;
void main() { atomicAdd(x.v, 1.0); }
