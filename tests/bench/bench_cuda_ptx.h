/* bench_cuda_ptx.h - the kernels of bench_cuda.c, as PTX that every driver from
   11.4 on compiles.

       bench_tiny(u32 *counter, u32 step)          *counter += step
       bench_hold(u64 *began, u64 *go, u64 *seen, u64 value, u64 limit_ns)
                                                   *began = value, waits until *go
                                                   >= value, *seen = value; gives up
                                                   after limit_ns of %globaltimer
       bench_clock(u64 *times, u64 count)          `count` different readings of
                                                   %globaltimer, one after another

   One thread each. */
#ifndef BENCH_CUDA_PTX_H
#define BENCH_CUDA_PTX_H

static const char bench_cuda_ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    "\n"
    ".visible .entry bench_tiny(.param .u64 counter, .param .u32 step)\n"
    "{\n"
    "    .reg .b64 %a;\n"
    "    .reg .b32 %v, %s;\n"
    "    ld.param.u64 %a, [counter];\n"
    "    ld.param.u32 %s, [step];\n"
    "    cvta.to.global.u64 %a, %a;\n"
    "    ld.global.u32 %v, [%a];\n"
    "    add.u32 %v, %v, %s;\n"
    "    st.global.u32 [%a], %v;\n"
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry bench_hold(.param .u64 began, .param .u64 go, .param .u64 seen,\n"
    "                           .param .u64 value, .param .u64 limit_ns)\n"
    "{\n"
    "    .reg .b64 %a, %v, %w, %t, %end;\n"
    "    .reg .pred %p;\n"
    "    mov.u64 %end, %globaltimer;\n"
    "    ld.param.u64 %t, [limit_ns];\n"
    "    add.u64 %end, %end, %t;\n"
    "    ld.param.u64 %v, [value];\n"
    "    ld.param.u64 %a, [began];\n"
    "    cvta.to.global.u64 %a, %a;\n"
    "    st.volatile.global.u64 [%a], %v;\n"
    "    membar.sys;\n"
    "    ld.param.u64 %a, [go];\n"
    "    cvta.to.global.u64 %a, %a;\n"
    "look:\n"
    "    ld.volatile.global.u64 %w, [%a];\n"
    "    setp.ge.u64 %p, %w, %v;\n"
    "    @%p bra done;\n"
    "    mov.u64 %t, %globaltimer;\n"
    "    setp.lt.u64 %p, %t, %end;\n"
    "    @%p bra look;\n"
    "done:\n"
    "    ld.param.u64 %a, [seen];\n"
    "    cvta.to.global.u64 %a, %a;\n"
    "    st.volatile.global.u64 [%a], %v;\n"
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry bench_clock(.param .u64 times, .param .u64 count)\n"
    "{\n"
    "    .reg .b64 %a, %n, %t, %last;\n"
    "    .reg .b32 %i;\n"
    "    .reg .pred %p;\n"
    "    ld.param.u64 %a, [times];\n"
    "    cvta.to.global.u64 %a, %a;\n"
    "    ld.param.u64 %n, [count];\n"
    "    mov.u64 %last, 0;\n"
    "    mov.u32 %i, 0;\n"
    "look:\n"
    "    add.u32 %i, %i, 1;\n"
    "    setp.gt.u32 %p, %i, 100000000;\n" /* a timer that stands still */
    "    @%p bra done;\n"
    "    mov.u64 %t, %globaltimer;\n"
    "    setp.eq.u64 %p, %t, %last;\n"
    "    @%p bra look;\n"
    "    mov.u64 %last, %t;\n"
    "    st.global.u64 [%a], %t;\n"
    "    add.u64 %a, %a, 8;\n"
    "    sub.u64 %n, %n, 1;\n"
    "    setp.ne.u64 %p, %n, 0;\n"
    "    @%p bra look;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

#endif /* BENCH_CUDA_PTX_H */
