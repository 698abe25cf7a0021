// By hand: the peer of blur in tests/bench/kernels.k.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 1) buffer bytes { uint8_t v[]; };
layout(buffer_reference, std430) buffer args { bytes dst, src; uint width, rows; };
layout(push_constant) uniform block { args k; };

uint three(bytes src, uint at) {
    return uint(src.v[at]) + 2u * uint(src.v[at + 1u]) + uint(src.v[at + 2u]);
}

void main() {
    uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y, width = k.width;
    if (x < width - 2u && y < k.rows - 2u) {
        uint at = y * width + x, next = at + width;
        uint sum = three(k.src, at) + 2u * three(k.src, next) + three(k.src, next + width);
        k.dst.v[next + 1u] = uint8_t((sum + 8u) / 16u);
    }
}
