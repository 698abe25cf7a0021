// Foreign: push constants of 8 bytes that are no pointer.
#version 450
layout(local_size_x = 1) in;
layout(push_constant) uniform block { uint n, m; };
shared uint s;
void main() { s = n + m; }
