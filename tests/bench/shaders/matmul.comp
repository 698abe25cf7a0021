// By hand: the peer of matmul in tests/bench/kernels.k; a thread keeps its sum.
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 16, local_size_y = 16) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer floats { float v[]; };
layout(buffer_reference, std430) buffer args { floats c, a, b; uint n; };
layout(push_constant) uniform block { args k; };

shared float tile_a[16][64], tile_b[64][16];

void main() {
    uint i = gl_LocalInvocationID.x, j = gl_LocalInvocationID.y, n = k.n;
    uint x = gl_WorkGroupID.x * 16u + i, y = gl_WorkGroupID.y * 16u + j;
    floats a = k.a, b = k.b;
    float sum = 0.0;
    for (uint k0 = 0u; k0 < n; k0 += 64u) {
        for (uint t = 0u; t < 64u; t += 16u) {
            tile_a[j][t + i] = a.v[y * n + k0 + t + i];
            tile_b[t + j][i] = b.v[(k0 + t + j) * n + x];
        }
        barrier();
        for (uint t = 0u; t < 64u; t++) {
            sum += tile_a[j][t] * tile_b[t][i];
        }
        barrier();
    }
    k.c.v[y * n + x] = sum;
}
