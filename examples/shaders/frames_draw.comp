// The same image as frames.c's kernel, which draws a band of rows in every block,
// out of other work: a thread takes every so many dots. Where two meet in a pixel
// the order makes no difference.
#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0) in;

const int WIDTH = 640, HEIGHT = 360;

struct dot_of { int xy; uint light; }; // x in the low half
layout(buffer_reference, std430, buffer_reference_align = 4) buffer pixels { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer dots { dot_of v[]; };
layout(buffer_reference, std430) buffer draw_args { pixels image; dots from; uint count; };
layout(push_constant) uniform block { draw_args k; };

uint lightened(uint pixel, uint light) {
    const uvec3 shifts = uvec3(0u, 8u, 16u);
    uvec3 sum = ((uvec3(pixel) >> shifts) & 255u) + ((uvec3(light) >> shifts) & 255u);
    sum = min(sum, uvec3(255u)) << shifts;
    return sum.x | sum.y | sum.z;
}

void lighten(int x, int y, uint light) {
    if (x < 0 || x >= WIDTH || y < 0 || y >= HEIGHT) {
        return;
    }
    int at = y * WIDTH + x;
    uint old = k.image.v[at], seen;
    do {
        seen = old;
        old = atomicCompSwap(k.image.v[at], seen, lightened(seen, light));
    } while (old != seen);
}

void main() {
    uint threads = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < k.count; i += threads) {
        dot_of d = k.from.v[i];
        int x = bitfieldExtract(d.xy, 0, 16), y = bitfieldExtract(d.xy, 16, 16);
        lighten(x, y, d.light);
        lighten(x - 1, y, d.light);
        lighten(x + 1, y, d.light);
        lighten(x, y - 1, d.light);
        lighten(x, y + 1, d.light);
    }
}
