// What the kernels written by hand share: any block of exec is right, arguments
// come by pointer as the same struct that the CPU's kernel reads.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer words { uint v[]; };

// A kernel of the CPU is called once for a block.
#define FIRST_OF_BLOCK (gl_LocalInvocationIndex == 0u)
