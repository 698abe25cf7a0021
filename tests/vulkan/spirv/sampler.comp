// Refused: a sampler.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { vec4 v[]; } x;
layout(binding = 1) uniform sampler2D y;
void main() { x.v[0] = textureLod(y, vec2(0), 0); }
