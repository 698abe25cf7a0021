/* kernels.h - the kernels of the tests, in tests/support/kernels, as PTX.
   Made by tests/support/code.sh with nvcc 13.0.88. */
#pragma once

static const struct { const char *name, *text; } test_ptx[] = {
{"all",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_all( .param .u64 p0,\n"
".param .u32 p1, .param .u64 p2, .param .u32 p3, .param .f32 p4, .param .align 1 .b8 p5[3],\n"
".param .u64 p6, .param .align 8 .b8 p7[16], .param .align 1 .b8 p8[3], .param .u64 p9,\n"
".param .f32 p10, .param .f64 p11, .param .u8 p12 ) { .reg .pred %p<2>; .reg .b16 %rs<29>;\n"
".reg .f32 %f<3>; .reg .b32 %r<8>; .reg .f64 %fd<22>; .reg .b64 %rd<7>;\n"
"ld.param.s8 %rs15, [p12]; ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [p1];\n"
"ld.param.u64 %rd2, [p2]; ld.param.u32 %r2, [p3]; ld.param.f32 %f1, [p4];\n"
"ld.param.u64 %rd3, [p6]; ld.param.v4.u8 {%rs16, %rs17, %rs18, %rs19}, [p7+8];\n"
"ld.param.u64 %rd4, [p9]; ld.param.f32 %f2, [p10]; ld.param.f64 %fd2, [p11];\n"
"ld.param.u8 %rs14, [p8+2]; ld.param.f64 %fd1, [p7]; ld.param.u8 %rs3, [p5+2];\n"
"ld.param.u8 %rs2, [p5+1]; ld.param.u8 %rs1, [p5]; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.x;\n"
"or.b32 %r5, %r4, %r3; mov.u32 %r6, %tid.z; or.b32 %r7, %r5, %r6; setp.ne.s32 %p1, %r7, 0;\n"
"@%p1 bra $L2; cvta.to.global.u64 %rd5, %rd1; cvt.s16.s8 %rs24, %rs3; cvt.s16.s8 %rs25, %rs2;\n"
"cvt.s16.s8 %rs26, %rs1; cvt.s16.s8 %rs27, %rs14; cvt.s16.s8 %rs28, %rs16;\n"
"cvt.rn.f64.s32 %fd3, %r1; st.global.f64 [%rd5], %fd3; cvt.rn.f64.u32 %fd4, %r2;\n"
"st.global.f64 [%rd5+8], %fd4; cvt.f64.f32 %fd5, %f1; st.global.f64 [%rd5+16], %fd5;\n"
"cvt.rn.f64.s16 %fd6, %rs26; cvt.rn.f64.s16 %fd7, %rs25;\n"
"mul.rn.f64 %fd8, %fd7, 0d4024000000000000; add.rn.f64 %fd9, %fd8, %fd6;\n"
"cvt.rn.f64.s16 %fd10, %rs24; mul.rn.f64 %fd11, %fd10, 0d4059000000000000;\n"
"add.rn.f64 %fd12, %fd11, %fd9; st.global.f64 [%rd5+24], %fd12; cvt.rn.f64.s64 %fd13, %rd3;\n"
"st.global.f64 [%rd5+32], %fd13; cvt.rn.f64.s16 %fd14, %rs28; add.rn.f64 %fd15, %fd1, %fd14;\n"
"st.global.f64 [%rd5+40], %fd15; cvt.rn.f64.s16 %fd16, %rs27; st.global.f64 [%rd5+48], %fd16;\n"
"cvt.rn.f64.u64 %fd17, %rd4; st.global.f64 [%rd5+56], %fd17; cvt.f64.f32 %fd18, %f2;\n"
"add.rn.f64 %fd19, %fd18, %fd2; st.global.f64 [%rd5+64], %fd19; cvt.rn.f64.s16 %fd20, %rs15;\n"
"st.global.f64 [%rd5+72], %fd20; cvta.to.global.u64 %rd6, %rd2; ld.global.f64 %fd21, [%rd6];\n"
"st.global.f64 [%rd5+80], %fd21; $L2: ret; }\n"},
{"hold",
".version 6.0 .target sm_60 .address_size 64 .visible .entry k_hold() { .reg .pred %p<4>;\n"
".reg .b32 %r<9>; .reg .b64 %rd<11>; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;\n"
"or.b32 %r3, %r1, %r2; mov.u32 %r4, %tid.z; or.b32 %r5, %r3, %r4; setp.ne.s32 %p1, %r5, 0;\n"
"@%p1 bra $L5; mov.u64 %rd3, 0x5eed5eed5eed5eed; add.s64 %rd6, %rd3, 4; membar.sys;\n"
"atom.sys.add.u32 %r6, [%rd6], 1; mov.u64 %rd4, 0x5eed5eed5eed5eed;\n"
"mov.u64 %rd5, %globaltimer; $L2: ld.volatile.u32 %r7, [%rd4]; setp.ne.s32 %p2, %r7, 0;\n"
"@%p2 bra $L4; mov.u64 %rd7, %globaltimer; sub.s64 %rd8, %rd7, %rd5;\n"
"setp.lt.u64 %p3, %rd8, 1900000000; @%p3 bra $L2; $L4: membar.sys;\n"
"mov.u64 %rd9, 0x5eed5eed5eed5eed; add.s64 %rd10, %rd9, 8; membar.sys;\n"
"atom.sys.add.u32 %r8, [%rd10], 1; $L5: ret; }\n"},
{"large",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_large( .param .u64 p0,\n"
".param .align 4 .b8 p1[4000], .param .u32 p2 ) { .reg .pred %p<3>; .reg .b32 %r<15>;\n"
".reg .b64 %rd<8>; ld.param.u64 %rd5, [p0]; mov.b64 %rd7, p1; ld.param.u32 %r14, [p2];\n"
"mov.u32 %r6, %tid.y; mov.u32 %r7, %tid.x; or.b32 %r8, %r7, %r6; mov.u32 %r9, %tid.z;\n"
"or.b32 %r10, %r8, %r9; setp.ne.s32 %p1, %r10, 0; @%p1 bra $L4; cvta.to.global.u64 %rd1, %rd5;\n"
"mov.u32 %r13, 0; $L2: .pragma \"nounroll\"; ld.param.u32 %r12, [%rd7];\n"
"mad.lo.s32 %r14, %r14, 31, %r12; add.s64 %rd7, %rd7, 4; add.s32 %r13, %r13, 1;\n"
"setp.ne.s32 %p2, %r13, 1000; @%p2 bra $L2; st.global.u32 [%rd1], %r14; $L4: ret; }\n"},
{"mark",
".version 6.0 .target sm_60 .address_size 64 .visible .entry k_mark( .param .u64 p0,\n"
".param .u32 p1, .param .u32 p2 ) { .reg .pred %p<5>; .reg .b32 %r<15>; .reg .b64 %rd<16>;\n"
"ld.param.u64 %rd3, [p0]; ld.param.u32 %r1, [p1]; ld.param.u32 %r2, [p2]; mov.u32 %r3, %tid.y;\n"
"mov.u32 %r4, %tid.x; or.b32 %r5, %r4, %r3; mov.u32 %r6, %tid.z; or.b32 %r7, %r5, %r6;\n"
"setp.ne.s32 %p1, %r7, 0; @%p1 bra $L7; setp.eq.s32 %p2, %r2, 0; @%p2 bra $L6;\n"
"mov.u64 %rd4, 0x5eed5eed5eed5eed; add.s64 %rd7, %rd4, 4; membar.sys;\n"
"atom.sys.add.u32 %r8, [%rd7], 1; mov.u64 %rd5, 0x5eed5eed5eed5eed;\n"
"mov.u64 %rd6, %globaltimer; $L3: ld.volatile.u32 %r9, [%rd5]; setp.ne.s32 %p3, %r9, 0;\n"
"@%p3 bra $L5; mov.u64 %rd8, %globaltimer; sub.s64 %rd9, %rd8, %rd6;\n"
"setp.lt.u64 %p4, %rd9, 1900000000; @%p4 bra $L3; $L5: membar.sys; $L6:\n"
"cvta.to.global.u64 %rd12, %rd3; ld.global.u32 %r10, [%rd12]; mad.lo.s32 %r11, %r10, 31, %r1;\n"
"add.s32 %r12, %r11, 1; st.global.u32 [%rd12], %r12; mov.u64 %rd10, 0x5eed5eed5eed5eed;\n"
"mul.wide.u32 %rd13, %r1, 4; add.s64 %rd14, %rd10, %rd13; mov.u64 %rd11, 0x5eed5eed5eed5eed;\n"
"add.s64 %rd15, %rd11, 12; membar.sys; atom.sys.add.u32 %r13, [%rd15], 1;\n"
"add.s32 %r14, %r13, 1; membar.sys; st.volatile.u32 [%rd14+16], %r14; $L7: ret; }\n"},
{"nothing",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_nothing() { ret; }\n"},
{"slow",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_slow() { .reg .pred %p<2>;\n"
".reg .b64 %rd<5>; mov.u64 %rd2, %globaltimer; $L1: mov.u64 %rd3, %globaltimer;\n"
"sub.s64 %rd4, %rd3, %rd2; setp.lt.u64 %p1, %rd4, 20000000; @%p1 bra $L1; ret; }\n"},
};
