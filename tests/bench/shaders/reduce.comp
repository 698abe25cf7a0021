// By hand: the peer of reduce in tests/bench/kernels.k.
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer floats { float v[]; };
layout(buffer_reference, std430) buffer args { floats sums, x; uint n; };
layout(push_constant) uniform block { args k; };

shared float part[256];

void main() {
    uint t = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * 4096u, n = k.n;
    floats x = k.x;
    float sum = 0.0;
    for (uint i = first + t; i < n && i < first + 4096u; i += 256u) {
        sum += x.v[i];
    }
    part[t] = sum;
    for (uint span = 128u; span > 0u; span /= 2u) {
        barrier();
        if (t < span) {
            part[t] += part[t + span];
        }
    }
    if (t == 0u) {
        k.sums.v[gl_WorkGroupID.x] = part[0];
    }
}
