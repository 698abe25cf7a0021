// Foreign: refused: two uniform blocks.
#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint v[]; } x;
layout(std140, binding = 1) uniform b { uint n; };
layout(std140, binding = 2) uniform c { uint m; };
void main() { x.v[0] = n + m; }
