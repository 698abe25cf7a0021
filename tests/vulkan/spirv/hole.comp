// Refused: nothing at binding 1.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint v[]; } x;
layout(std430, binding = 2) buffer b { uint v[]; } y;
void main() { x.v[0] = y.v[0]; }
