// Refused: a buffer in set 1.
#version 450
layout(local_size_x = 1) in;
layout(std430, set = 1, binding = 0) buffer a { uint v[]; } x;
void main() { x.v[0] = 1; }
