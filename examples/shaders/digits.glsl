// What the kernels of digits.c share. `precise`: no two operations are made one, so
// that a device that divides exactly comes to the numbers of the CPU.
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0) in;

const uint PIXELS = 64u, HIDDEN = 64u, DIGITS = 10u, BATCH = 30u;

struct sample_of { float pixel[PIXELS]; uint label; };
struct score_of { float loss; uint right; };
struct hidden_unit { float weight[PIXELS]; float bias; };
struct output_unit { float weight[HIDDEN]; float bias; };

layout(buffer_reference, std430, buffer_reference_align = 4) buffer floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer samples { sample_of v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer scores { score_of v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer hidden_units {
    hidden_unit v[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer output_units {
    output_unit v[];
};
