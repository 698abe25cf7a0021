#version 460
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer word { uint v; };
layout(buffer_reference, std430) buffer step_args { word state; uint add; };
layout(push_constant) uniform block { step_args k; };

void main() {
    k.state.v = k.state.v * 5u + k.add;
}
