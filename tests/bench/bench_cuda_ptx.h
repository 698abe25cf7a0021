/* bench_cuda_ptx.h - the kernels of bench_cuda.c, by hand, as CUDA without hcq runs it, too:
   PTX that every driver from 11.4 on compiles.

       bench_tiny(u32 *counter, u32 step)          *counter += step
       bench_hold(u32 *counter, u32 ns)            the same with 1, after so long
   One thread. */
#pragma once

static const char bench_cuda_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry bench_tiny(.param .u64 counter, .param .u32 step) {\n"
    "    .reg .b64 %a; .reg .b32 %v, %s;\n"
    "    ld.param.u64 %a, [counter]; cvta.to.global.u64 %a, %a;\n"
    "    ld.param.u32 %s, [step];\n"
    "    ld.global.u32 %v, [%a]; add.u32 %v, %v, %s; st.global.u32 [%a], %v;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry bench_hold(.param .u64 counter, .param .u32 ns) {\n"
    "    .reg .b64 %a, %begin, %now, %most; .reg .b32 %v; .reg .pred %less;\n"
    "    ld.param.u64 %a, [counter]; cvta.to.global.u64 %a, %a;\n"
    "    ld.param.u32 %v, [ns]; cvt.u64.u32 %most, %v;\n"
    "    mov.u64 %begin, %globaltimer;\n"
    "again:\n"
    "    mov.u64 %now, %globaltimer; sub.u64 %now, %now, %begin;\n"
    "    setp.lt.u64 %less, %now, %most;\n"
    "    @%less bra again;\n"
    "    ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v;\n"
    "    ret;\n"
    "}\n";
