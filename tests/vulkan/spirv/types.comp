// Foreign: types that need features, of every width and place.
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer a { uint64_t v[]; } x;
layout(std430, binding = 1) buffer b { uint8_t v[]; } y;
layout(std430, binding = 2) buffer c { float16_t v[]; } z;
layout(push_constant) uniform block { uint16_t m; uint8_t n; };
void main() {
    atomicAdd(x.v[0], uint64_t(m));
    y.v[0] = uint8_t(n + uint8_t(subgroupAdd(1u)));
    z.v[0] = z.v[1] * float16_t(2);
    x.v[1] = uint64_t(double(z.v[0]) * 3.0lf);
}
