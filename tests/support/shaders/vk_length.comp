// Foreign: what a binding shows, its length and the first word.
#version 460
layout(local_size_x = 1) in;

layout(set = 0, binding = 0, std430) writeonly buffer b0 { uint dst[]; };
layout(set = 0, binding = 1, std430) readonly buffer b1 { uint src[]; };

void main() {
    dst[0] = uint(src.length());
    dst[1] = src[0];
}
