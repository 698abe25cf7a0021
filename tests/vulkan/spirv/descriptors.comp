// Refused: an array of descriptors.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint v[]; } x[3];
void main() { x[0].v[0] = x[1].v[0]; }
