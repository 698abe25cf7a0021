// Foreign: no arguments.
#version 450
layout(local_size_x = 32) in;
void main() { }
