#version 460
#extension GL_GOOGLE_include_directive : require
#include "photo.glsl"

layout(buffer_reference, std430) buffer filter_args { bytes dst, src; uint width, rows, skip; };
layout(push_constant) uniform block { filter_args k; };

// Brightness next to (x, y): dx and dy are 0, 1 or 2 for before, at, after.
int grey(uint x, uint dx, uint y, uint dy) {
    uint at = near_index(y, dy, 1u, k.rows) * k.width + near_index(x, dx, 1u, k.width);
    bytes src = k.src;
    at *= RGB;
    return (77 * int(src.v[at]) + 150 * int(src.v[at + 1u]) + 29 * int(src.v[at + 2u])) / 256;
}

uint square_root(uint n) {
    uint root = 0u;
    for (uint bit = 1u << 15; bit > 0u; bit >>= 1) {
        uint next = root | bit;
        root = next * next <= n ? next : root;
    }
    return root;
}

// Sobel's magnitude, at most 255.
uint edge_at(uint x, uint y) {
    int gx = grey(x, 2u, y, 0u) + 2 * grey(x, 2u, y, 1u) + grey(x, 2u, y, 2u) -
             grey(x, 0u, y, 0u) - 2 * grey(x, 0u, y, 1u) - grey(x, 0u, y, 2u);
    int gy = grey(x, 0u, y, 2u) + 2 * grey(x, 1u, y, 2u) + grey(x, 2u, y, 2u) -
             grey(x, 0u, y, 0u) - 2 * grey(x, 1u, y, 0u) - grey(x, 2u, y, 0u);
    return min(square_root(uint(gx * gx + gy * gy)), 255u);
}

void main() {
    uint x = gl_GlobalInvocationID.x, y = gl_WorkGroupID.y;
    if (x < k.width) {
        uint from = ((y + k.skip) * k.width + x) * RGB, to = (y * k.width + x) * RGB;
        uint light = 255u - edge_at(x, y + k.skip);
        for (uint c = 0u; c < RGB; c++) {
            k.dst.v[to + c] = uint8_t(uint(k.src.v[from + c]) * light / 255u);
        }
    }
}
