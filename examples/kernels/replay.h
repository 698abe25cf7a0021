/* replay.h - the kernels of examples/replay.c, as PTX.
   Made by tests/support/code.sh with nvcc 13.0.88. */
#pragma once

static const char ptx_step[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry step(\n"
    ".param .u64 p0,\n"
    ".param .u32 p1\n"
    ")\n"
    "{\n"
    ".reg .b32 %r<4>;\n"
    ".reg .b64 %rd<3>;\n"
    "ld.param.u64 %rd1, [p0];\n"
    "ld.param.u32 %r1, [p1];\n"
    "cvta.to.global.u64 %rd2, %rd1;\n"
    "ld.global.u32 %r2, [%rd2];\n"
    "mad.lo.s32 %r3, %r2, 5, %r1;\n"
    "st.global.u32 [%rd2], %r3;\n"
    "ret;\n"
    "}\n";
