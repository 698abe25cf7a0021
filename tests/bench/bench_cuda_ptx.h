/* bench_cuda_ptx.h - the kernels of bench_cuda.c, as PTX that every driver from
   11.4 on compiles.

       bench_tiny(u32 *counter, u32 step)          *counter += step
       bench_hold(u64 *began, u64 *go, u64 limit_ns)
                                                   *began = 1, waits until *go is not
                                                   0 or limit_ns of %globaltimer are over

   One thread each. */
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
    ".visible .entry bench_hold(.param .u64 began, .param .u64 go,\n"
    "                           .param .u64 limit_ns) {\n"
    "    .reg .b64 %a, %w, %t, %end; .reg .pred %p;\n"
    "    mov.u64 %end, %globaltimer; ld.param.u64 %t, [limit_ns]; add.u64 %end, %end, %t;\n"
    "    ld.param.u64 %a, [began]; cvta.to.global.u64 %a, %a;\n"
    "    st.volatile.global.u64 [%a], 1; membar.sys;\n"
    "    ld.param.u64 %a, [go]; cvta.to.global.u64 %a, %a;\n"
    "look:\n"
    "    ld.volatile.global.u64 %w, [%a]; setp.ne.u64 %p, %w, 0;\n"
    "    @%p bra done;\n"
    "    mov.u64 %t, %globaltimer; setp.lt.u64 %p, %t, %end;\n"
    "    @%p bra look;\n"
    "done:\n"
    "    ret;\n"
    "}\n";
