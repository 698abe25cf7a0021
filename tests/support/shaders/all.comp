// By hand: values of one byte and structs of three are not in the common language.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "kernel.glsl"

layout(buffer_reference, std430) buffer doubles { double v[]; };
layout(buffer_reference, std430) buffer args {
    doubles dst;
    int i32;
    doubles src;
    uint u32;
    float f32;
    uint odd; // char[3]
    int64_t i64;
    double wide_a;
    uint wide_b, wide_rest; // a char
    uint odd2; // char[3]
    uint64_t u64;
    float last32;
    double f64;
    uint tail; // a char
};
layout(push_constant) uniform block { args k; };

int char_of(uint word, int i) {
    return bitfieldExtract(int(word), i * 8, 8);
}

void main() {
    if (FIRST_OF_BLOCK) {
        doubles dst = k.dst;
        uint odd = k.odd;
        dst.v[0] = double(k.i32);
        dst.v[1] = double(k.u32);
        dst.v[2] = double(k.f32);
        dst.v[3] = double(char_of(odd, 0) + char_of(odd, 1) * 10 + char_of(odd, 2) * 100);
        dst.v[4] = double(k.i64);
        dst.v[5] = k.wide_a + double(char_of(k.wide_b, 0));
        dst.v[6] = double(char_of(k.odd2, 2));
        dst.v[7] = double(k.u64);
        dst.v[8] = double(k.last32) + k.f64;
        dst.v[9] = double(char_of(k.tail, 0));
        dst.v[10] = k.src.v[0];
    }
}
