/* hello.h - the kernels of examples/hello.c, as PTX.
   Made by tests/support/code.sh with nvcc 13.0.88. */
#ifndef HCQ_EXAMPLE_HELLO_KERNELS_H
#define HCQ_EXAMPLE_HELLO_KERNELS_H

static const char ptx_axpy[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry axpy(\n"
    ".param .u64 p0,\n"
    ".param .u64 p1,\n"
    ".param .u32 p2,\n"
    ".param .u32 p3\n"
    ")\n"
    "{\n"
    ".reg .pred %p<2>;\n"
    ".reg .b32 %r<10>;\n"
    ".reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd1, [p0];\n"
    "ld.param.u64 %rd2, [p1];\n"
    "ld.param.u32 %r2, [p2];\n"
    "ld.param.u32 %r3, [p3];\n"
    "mov.u32 %r4, %ctaid.x;\n"
    "mov.u32 %r5, %ntid.x;\n"
    "mov.u32 %r6, %tid.x;\n"
    "mad.lo.s32 %r1, %r4, %r5, %r6;\n"
    "setp.ge.u32 %p1, %r1, %r3;\n"
    "@%p1 bra $L2;\n"
    "cvta.to.global.u64 %rd3, %rd2;\n"
    "mul.wide.u32 %rd4, %r1, 4;\n"
    "add.s64 %rd5, %rd3, %rd4;\n"
    "ld.global.u32 %r7, [%rd5];\n"
    "cvta.to.global.u64 %rd6, %rd1;\n"
    "add.s64 %rd7, %rd6, %rd4;\n"
    "ld.global.u32 %r8, [%rd7];\n"
    "mad.lo.s32 %r9, %r7, %r2, %r8;\n"
    "st.global.u32 [%rd7], %r9;\n"
    "$L2:\n"
    "ret;\n"
    "}\n";

#endif /* HCQ_EXAMPLE_HELLO_KERNELS_H */
