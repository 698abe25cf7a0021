// By hand: the peer of blur in tests/kernels/plain.k.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 1) buffer bytes { uint8_t v[]; };
layout(buffer_reference, std430) readonly buffer args { bytes dst, src; uint width, rows; };
layout(push_constant) uniform block { args k; };

const uint weights[5] = {1u, 4u, 6u, 4u, 1u};

void main() {
    uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y, width = k.width;
    if (x < width && y < k.rows) {
        bytes src = k.src;
        uint sum = 8u;
        for (uint t = 0u; t < 5u; t++) {
            uint at = x + t < 2u ? 0u : min(x + t - 2u, width - 1u);
            sum += weights[t] * uint(src.v[y * width + at]);
        }
        k.dst.v[y * width + x] = uint8_t(sum / 16u);
    }
}
