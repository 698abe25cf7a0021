// Foreign: by pointer: five buffers and five values, the last in a struct.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer words { uint v[]; };
struct tail { uint c; uint d; uint e; };
layout(buffer_reference, std430) buffer args {
    words p[5];
    uint a, b;
    tail t;
};
layout(push_constant) uniform block { args k; };
void main() { k.p[0].v[k.a] = k.p[4].v[k.b] + k.t.c + k.t.d + k.t.e; }
