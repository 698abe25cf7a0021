// Foreign: adds to a counter, for both sides of tests/bench/bench_vulkan.c.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer word { uint v; };
layout(buffer_reference, std430) readonly buffer args { word counter; uint step; };
layout(push_constant) uniform block { args k; };
void main() {
    k.counter.v += k.step;
}
