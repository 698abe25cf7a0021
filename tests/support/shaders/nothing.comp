// By hand: no arguments.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel.glsl"

void main() {}
