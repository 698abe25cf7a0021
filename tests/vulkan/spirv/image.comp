// Refused: an image.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint v[]; } x;
layout(binding = 1, r32ui) uniform uimage2D y;
void main() { x.v[0] = imageLoad(y, ivec2(0)).x; }
