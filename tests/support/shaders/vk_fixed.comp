// Foreign: blocks of a fixed size that the module says.
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 8, local_size_y = 4, local_size_z = 2) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer words { uint v[]; };
layout(buffer_reference, std430) buffer args { words dst; uint value; };
layout(push_constant) uniform block { args k; };

void main() {
    atomicAdd(k.dst.v[0], k.value);
}
