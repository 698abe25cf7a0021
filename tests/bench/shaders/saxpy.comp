// By hand: the peer of saxpy in tests/bench/kernels.k.
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer floats { float v[]; };
layout(buffer_reference, std430) buffer args { floats y, x; float a; uint n; };
layout(push_constant) uniform block { args k; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < k.n) {
        k.y.v[i] += k.a * k.x.v[i];
    }
}
