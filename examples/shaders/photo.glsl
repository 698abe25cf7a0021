// What the three kernels of photo.c share.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 1) buffer bytes { uint8_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer halves { uint16_t v[]; };

const uint RGB = 3u;
const uint tap[5] = uint[](1u, 4u, 6u, 4u, 1u);

// i + step - back, kept within 0 .. count - 1
uint near_index(uint i, uint step, uint back, uint count) {
    return min(i + step < back ? 0u : i + step - back, count - 1u);
}
