// Foreign: as many storage buffers as a program can have.
#version 460
#define B(n) layout(set = 0, binding = n, std430) buffer b##n { uint v##n; };
#define EIGHT(a, b, c, d, e, f, g, h) B(a) B(b) B(c) B(d) B(e) B(f) B(g) B(h)
layout(local_size_x = 1) in;

EIGHT(0, 1, 2, 3, 4, 5, 6, 7)
EIGHT(8, 9, 10, 11, 12, 13, 14, 15)
EIGHT(16, 17, 18, 19, 20, 21, 22, 23)
EIGHT(24, 25, 26, 27, 28, 29, 30, 31)
EIGHT(32, 33, 34, 35, 36, 37, 38, 39)
EIGHT(40, 41, 42, 43, 44, 45, 46, 47)
EIGHT(48, 49, 50, 51, 52, 53, 54, 55)
EIGHT(56, 57, 58, 59, 60, 61, 62, 63)

void main() { v63 = v0 + 1u; }
