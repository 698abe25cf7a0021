// Refused: the uniform block before the buffer.
#version 450
layout(local_size_x = 1) in;
layout(std140, binding = 0) uniform b { uint n; };
layout(std430, binding = 1) buffer a { uint v[]; } x;
void main() { x.v[0] = n; }
