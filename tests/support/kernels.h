/* kernels.h - the kernels of the tests, in tests/support/kernels, as PTX.
   Made by tests/support/code.sh with nvcc 13.0.88. */
#ifndef HCQ_TEST_KERNELS_H
#define HCQ_TEST_KERNELS_H

static const struct { const char *name, *text; } test_ptx[] = {
{"add",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_add( .param .u64 p0,\n"
".param .u32 p1, .param .u32 p2 ) { .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<5>;\n"
"ld.param.u64 %rd1, [p0]; ld.param.u32 %r2, [p1]; ld.param.u32 %r3, [p2];\n"
"mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;\n"
"mad.lo.s32 %r1, %r4, %r5, %r6; mov.u32 %r7, %tid.z; mov.u32 %r8, %tid.y;\n"
"or.b32 %r9, %r8, %r7; setp.ne.s32 %p1, %r9, 0; setp.ge.u32 %p2, %r1, %r3;\n"
"or.pred %p3, %p1, %p2; @%p3 bra $L2; cvta.to.global.u64 %rd2, %rd1;\n"
"mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; ld.global.u32 %r10, [%rd4];\n"
"add.s32 %r11, %r10, %r2; st.global.u32 [%rd4], %r11; $L2: ret; }\n"},
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
{"grid",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_grid( .param .u64 p0,\n"
".param .u64 p1, .param .align 4 .b8 p2[12], .param .align 4 .b8 p3[12] ) { .reg .pred %p<21>;\n"
".reg .b32 %r<22>; .reg .b64 %rd<15>; ld.param.u64 %rd2, [p0]; ld.param.u64 %rd3, [p1];\n"
"ld.param.u32 %r12, [p3+8]; ld.param.u32 %r11, [p3+4]; ld.param.u32 %r10, [p3];\n"
"ld.param.u32 %r3, [p2+8]; ld.param.u32 %r2, [p2+4]; ld.param.u32 %r1, [p2];\n"
"mov.u32 %r13, %nctaid.x; setp.ne.s32 %p1, %r13, %r1; mov.u32 %r14, %nctaid.y;\n"
"setp.ne.s32 %p2, %r14, %r2; or.pred %p3, %p1, %p2; mov.u32 %r15, %nctaid.z;\n"
"setp.ne.s32 %p4, %r15, %r3; mov.u64 %rd14, 1000000; or.pred %p5, %p4, %p3; @%p5 bra $L5;\n"
"mov.u32 %r4, %ntid.x; setp.ne.s32 %p6, %r4, %r10; mov.u32 %r5, %ntid.y;\n"
"setp.ne.s32 %p7, %r5, %r11; or.pred %p8, %p6, %p7; mov.u32 %r6, %ntid.z;\n"
"setp.ne.s32 %p9, %r6, %r12; or.pred %p10, %p9, %p8; @%p10 bra $L5; mov.u32 %r7, %ctaid.x;\n"
"setp.ge.u32 %p11, %r7, %r1; mov.u32 %r8, %ctaid.y; setp.ge.u32 %p12, %r8, %r2;\n"
"or.pred %p13, %p11, %p12; mov.u32 %r9, %ctaid.z; setp.ge.u32 %p14, %r9, %r3;\n"
"or.pred %p15, %p14, %p13; @%p15 bra $L5; mov.u32 %r16, %tid.x; setp.ge.u32 %p16, %r16, %r4;\n"
"mov.u32 %r17, %tid.y; setp.ge.u32 %p17, %r17, %r5; or.pred %p18, %p16, %p17;\n"
"mov.u32 %r18, %tid.z; setp.ge.u32 %p19, %r18, %r6; or.pred %p20, %p19, %p18; @%p20 bra $L5;\n"
"mad.lo.s32 %r19, %r2, %r9, %r8; mad.lo.s32 %r20, %r19, %r1, %r7;\n"
"cvta.to.global.u64 %rd9, %rd3; mul.wide.u32 %rd10, %r20, 4; add.s64 %rd11, %rd9, %rd10;\n"
"atom.global.add.u32 %r21, [%rd11], 1; mov.u64 %rd14, 1; $L5: cvta.to.global.u64 %rd12, %rd2;\n"
"atom.global.add.u64 %rd13, [%rd12], %rd14; ret; }\n"},
{"hold",
".version 6.0 .target sm_60 .address_size 64 .visible .entry k_hold() { .reg .pred %p<4>;\n"
".reg .b32 %r<9>; .reg .b64 %rd<11>; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;\n"
"or.b32 %r3, %r1, %r2; mov.u32 %r4, %tid.z; or.b32 %r5, %r3, %r4; setp.ne.s32 %p1, %r5, 0;\n"
"@%p1 bra $L5; mov.u64 %rd3, 0x5eed5eed5eed5eed; add.s64 %rd6, %rd3, 4; membar.sys;\n"
"atom.sys.add.u32 %r6, [%rd6], 1; mov.u64 %rd4, 0x5eed5eed5eed5eed;\n"
"mov.u64 %rd5, %globaltimer; $L2: ld.volatile.u32 %r7, [%rd4]; setp.ne.s32 %p2, %r7, 0;\n"
"@%p2 bra $L4; mov.u64 %rd7, %globaltimer; sub.s64 %rd8, %rd7, %rd5;\n"
"setp.lt.u64 %p3, %rd8, 10000000000; @%p3 bra $L2; $L4: membar.sys;\n"
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
"setp.lt.u64 %p4, %rd9, 10000000000; @%p4 bra $L3; $L5: membar.sys; $L6:\n"
"cvta.to.global.u64 %rd12, %rd3; ld.global.u32 %r10, [%rd12]; mad.lo.s32 %r11, %r10, 31, %r1;\n"
"add.s32 %r12, %r11, 1; st.global.u32 [%rd12], %r12; mov.u64 %rd10, 0x5eed5eed5eed5eed;\n"
"mul.wide.u32 %rd13, %r1, 4; add.s64 %rd14, %rd10, %rd13; mov.u64 %rd11, 0x5eed5eed5eed5eed;\n"
"add.s64 %rd15, %rd11, 12; membar.sys; atom.sys.add.u32 %r13, [%rd15], 1;\n"
"add.s32 %r14, %r13, 1; membar.sys; st.volatile.u32 [%rd14+16], %r14; $L7: ret; }\n"},
{"mix",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_mix( .param .u64 p0,\n"
".param .u64 p1, .param .u32 p2, .param .u32 p3 ) { .reg .pred %p<4>; .reg .b32 %r<14>;\n"
".reg .b64 %rd<8>; ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r3, [p2];\n"
"ld.param.u32 %r2, [p3]; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;\n"
"mad.lo.s32 %r1, %r4, %r5, %r6; mov.u32 %r7, %tid.z; mov.u32 %r8, %tid.y;\n"
"or.b32 %r9, %r8, %r7; setp.ne.s32 %p1, %r9, 0; setp.ge.u32 %p2, %r1, %r3;\n"
"or.pred %p3, %p1, %p2; @%p3 bra $L2; cvta.to.global.u64 %rd3, %rd1;\n"
"mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4; ld.global.u32 %r10, [%rd5];\n"
"cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4; ld.global.u32 %r11, [%rd7];\n"
"add.s32 %r12, %r11, %r2; mad.lo.s32 %r13, %r10, 31, %r12; st.global.u32 [%rd5], %r13; $L2:\n"
"ret; }\n"},
{"mixing",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_mixing( .param .u64 p0,\n"
".param .u64 p1, .param .u64 p2, .param .u32 p3, .param .u32 p4, .param .u32 p5,\n"
".param .u32 p6, .param .u32 p7, .param .u32 p8 ) { .reg .pred %p<7>; .reg .b32 %r<30>;\n"
".reg .b64 %rd<18>; ld.param.u64 %rd4, [p0]; ld.param.u64 %rd5, [p1]; ld.param.u64 %rd6, [p2];\n"
"ld.param.u32 %r4, [p3]; ld.param.u32 %r5, [p4]; ld.param.u32 %r6, [p5];\n"
"ld.param.u32 %r7, [p6]; ld.param.u32 %r8, [p7]; ld.param.u32 %r9, [p8];\n"
"mov.u32 %r10, %ntid.x; mov.u32 %r11, %ctaid.x; mov.u32 %r12, %tid.x;\n"
"mad.lo.s32 %r1, %r11, %r10, %r12; setp.ne.s32 %p1, %r11, 0; @%p1 bra $L3;\n"
"mov.u64 %rd7, %globaltimer; mul.wide.u32 %rd2, %r9, 1000; $L2: mov.u64 %rd8, %globaltimer;\n"
"sub.s64 %rd9, %rd8, %rd7; setp.lt.u64 %p2, %rd9, %rd2; @%p2 bra $L2; $L3:\n"
"mov.u32 %r13, %tid.y; mov.u32 %r14, %tid.z; or.b32 %r15, %r13, %r14;\n"
"setp.ne.s32 %p3, %r15, 0; setp.ge.u32 %p4, %r1, %r4; or.pred %p5, %p3, %p4; @%p5 bra $L7;\n"
"setp.eq.s32 %p6, %r8, 0; cvta.to.global.u64 %rd10, %rd4; mul.wide.u32 %rd11, %r1, 4;\n"
"add.s64 %rd3, %rd10, %rd11; mov.u32 %r29, 1; @%p6 bra $L6; ld.global.u32 %r17, [%rd3];\n"
"mad.lo.s32 %r29, %r17, 31, 7; $L6: mad.lo.s32 %r18, %r1, 5, %r7; rem.u32 %r19, %r18, %r5;\n"
"cvta.to.global.u64 %rd12, %rd5; mul.wide.u32 %rd13, %r19, 4; add.s64 %rd14, %rd12, %rd13;\n"
"ld.global.u32 %r20, [%rd14]; add.s32 %r21, %r20, %r29; mad.lo.s32 %r22, %r7, 3, %r1;\n"
"rem.u32 %r23, %r22, %r6; cvta.to.global.u64 %rd15, %rd6; mul.wide.u32 %rd16, %r23, 4;\n"
"add.s64 %rd17, %rd15, %rd16; ld.global.u32 %r24, [%rd17]; mul.lo.s32 %r25, %r24, -2048144789;\n"
"xor.b32 %r26, %r25, %r21; mad.lo.s32 %r27, %r1, -1640531540, %r18; add.s32 %r28, %r27, %r26;\n"
"st.global.u32 [%rd3], %r28; $L7: ret; }\n"},
{"nothing",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_nothing() { ret; }\n"},
{"put",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_put( .param .u64 p0,\n"
".param .u32 p1, .param .u32 p2 ) { .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<5>;\n"
"ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [p1]; ld.param.u32 %r2, [p2]; mov.u32 %r3, %tid.x;\n"
"mov.u32 %r4, %tid.y; or.b32 %r5, %r3, %r4; mov.u32 %r6, %tid.z; or.b32 %r7, %r5, %r6;\n"
"setp.ne.s32 %p1, %r7, 0; @%p1 bra $L2; cvta.to.global.u64 %rd2, %rd1;\n"
"mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], %r2; $L2: ret; }\n"},
{"slow",
".version 6.0 .target sm_50 .address_size 64 .visible .entry k_slow() { .reg .pred %p<2>;\n"
".reg .b64 %rd<5>; mov.u64 %rd2, %globaltimer; $L1: mov.u64 %rd3, %globaltimer;\n"
"sub.s64 %rd4, %rd3, %rd2; setp.lt.u64 %p1, %rd4, 20000000; @%p1 bra $L1; ret; }\n"},
};

#endif /* HCQ_TEST_KERNELS_H */
