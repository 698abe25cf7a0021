/* kernels.h - kernels by hand, which wait for the host, count their grid, or whose text is
   the subject: PTX for GPUs, C for the mock driver. Part of cuda.c. */
#pragma once

#include "shared.h"

#define PTX_HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"

#define OWN_KERNEL(name) \
    static void name(const void *args TEST_UNUSED, const hcq_block *b TEST_UNUSED)

/* ---- spin(go, began): tells that it began, runs until the host lets it go ---- */

static const char spin_ptx[] = PTX_HEAD
    ".visible .entry ct_spin(.param .u64 go, .param .u64 began) {\n"
    "    .reg .pred %p<3>;\n    .reg .b32 %r<3>;\n    .reg .b64 %d<6>;\n"
    "    ld.param.u64 %d1, [go];\n    ld.param.u64 %d2, [began];\n"
    "    mov.u32 %r1, 1;\n    st.volatile.u32 [%d2], %r1;\n    membar.sys;\n"
    "    mov.u64 %d3, %globaltimer;\n    add.u64 %d3, %d3, 1900000000;\n" /* watchdogs: 2 s */
    "again:\n"
    "    ld.volatile.u32 %r2, [%d1];\n    setp.ne.u32 %p1, %r2, 0;\n    @%p1 bra gone;\n"
    "    mov.u64 %d4, %globaltimer;\n    setp.lt.u64 %p2, %d4, %d3;\n    @%p2 bra again;\n"
    "gone:\n    membar.sys;\n    ret;\n}\n";

typedef struct spin_args { uint64_t go, began; } spin_args;

OWN_KERNEL(own_spin) {
    const spin_args *k = HCQ_ARGS(spin_args, args);
    uint64_t end = hcq_now_ns() + BOUND;
    __atomic_store_n(HCQ_PTR(uint32_t, k->began), 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(HCQ_PTR(uint32_t, k->go), __ATOMIC_SEQ_CST) && hcq_now_ns() < end) {
        mock_sleep(50000);
    }
}

/* ---- count(dst): dst[block] += threads of a block ---- */

static const char count_ptx[] = PTX_HEAD
    ".visible .entry ct_count(.param .u64 dst) {\n"
    "    .reg .pred %p<4>;\n    .reg .b32 %r<16>;\n    .reg .b64 %d<4>;\n"
    "    mov.u32 %r1, %tid.x;\n    mov.u32 %r2, %tid.y;\n    mov.u32 %r3, %tid.z;\n"
    "    or.b32 %r4, %r1, %r2;\n    or.b32 %r4, %r4, %r3;\n"
    "    setp.ne.u32 %p1, %r4, 0;\n    @%p1 bra out;\n"
    "    mov.u32 %r5, %ctaid.z;\n    mov.u32 %r6, %nctaid.y;\n    mov.u32 %r7, %ctaid.y;\n"
    "    mad.lo.u32 %r8, %r5, %r6, %r7;\n    mov.u32 %r9, %nctaid.x;\n"
    "    mov.u32 %r10, %ctaid.x;\n    mad.lo.u32 %r8, %r8, %r9, %r10;\n"
    "    mov.u32 %r11, %ntid.x;\n    mov.u32 %r12, %ntid.y;\n    mov.u32 %r13, %ntid.z;\n"
    "    mul.lo.u32 %r11, %r11, %r12;\n    mul.lo.u32 %r11, %r11, %r13;\n"
    "    ld.param.u64 %d1, [dst];\n    mul.wide.u32 %d2, %r8, 4;\n    add.u64 %d1, %d1, %d2;\n"
    "    ld.u32 %r14, [%d1];\n    add.u32 %r14, %r14, %r11;\n    st.u32 [%d1], %r14;\n"
    "out:\n    ret;\n}\n";

OWN_KERNEL(own_count) {
    uint32_t *dst = HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args));
    dst[(b->id.z * b->grid.y + b->id.y) * b->grid.x + b->id.x] +=
        b->block.x * b->block.y * b->block.z;
}

/* ---- bad(): an error ---- */

static const char bad_ptx[] = PTX_HEAD ".visible .entry ct_bad() {\n    trap;\n}\n";

OWN_KERNEL(own_bad) {
    M.fault(700);
}

/* ---- byte(x): takes it, as the host sees where the mock runs it ---- */

static const char byte_ptx[] = PTX_HEAD ".visible .entry ct_byte(.param .u8 x) {\n    ret;\n}\n";

static uint8_t byte_taken;             /* atomic */

OWN_KERNEL(own_byte) {
    __atomic_store_n(&byte_taken, *HCQ_ARGS(uint8_t, args), __ATOMIC_SEQ_CST);
}

/* ---- first(dst), second(dst): *dst = 1 or 2 ---- */

static const char two_ptx[] = PTX_HEAD
    "// the text names ct_first in a comment: .entry ct_third(\n"
    ".visible .entry ct_first(.param .u64 dst) {\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %d<2>;\n"
    "    ld.param.u64 %d1, [dst];\n    mov.u32 %r1, 1;\n    st.u32 [%d1], %r1;\n    ret;\n}\n"
    ".visible .entry ct_second(.param .u64 dst) {\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %d<2>;\n"
    "    ld.param.u64 %d1, [dst];\n    mov.u32 %r1, 2;\n    st.u32 [%d1], %r1;\n    ret;\n}\n";

OWN_KERNEL(own_first) {
    *HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args)) = 1;
}

OWN_KERNEL(own_second) {
    *HCQ_PTR(uint32_t, *HCQ_ARGS(uint64_t, args)) = 2;
}

/* Lists of arguments end with 0. */
typedef struct own_kernel {
    const char *entry, *ptx;
    mock_cuda_fn fn;
    uint32_t args[5];
} own_kernel;

static const own_kernel own_kernels[] = {
    {"ct_spin", spin_ptx, own_spin, {HCQ_ARG_IN, HCQ_ARG_OUT}},
    {"ct_count", count_ptx, own_count, {HCQ_ARG_INOUT}},
    {"ct_bad", bad_ptx, own_bad, {0}},
    {"ct_byte", byte_ptx, own_byte, {HCQ_ARG_STRUCT(1, 1)}},
    {"ct_first", two_ptx, own_first, {HCQ_ARG_OUT}},
    {"ct_second", two_ptx, own_second, {HCQ_ARG_OUT}},
};

/* Another text in place of the kernel's own, or NULL. */
static hcq_program_desc own_desc(const char *entry, const char *ptx) {
    hcq_program_desc desc = HCQ_CPU_PROGRAM(NULL, NULL);
    for (size_t i = 0; i < sizeof own_kernels / sizeof own_kernels[0]; i++) {
        const own_kernel *k = &own_kernels[i];
        if (strcmp(k->entry, entry) == 0) {
            desc.label = desc.ptx.entry = entry;
            desc.ptx.data = ptx ? ptx : k->ptx;
            desc.ptx.size = strlen(ptx ? ptx : k->ptx);
            memcpy(desc.args, k->args, sizeof k->args);
        }
    }
    CHECK(desc.label != NULL);
    return desc;
}

static hcq_program *make_own(hcq_device *device, const char *entry) {
    return make_kernel(device, own_desc(entry, NULL));
}

/* ---- gates: kernels that run until the host lets them go ---- */

enum { GATES = 8 };

typedef struct gates {
    hcq_device *dev;
    hcq_program *spin;
    hcq_buffer words;                  /* go and began of each */
} gates;

static void gates_open(gates *g, hcq_device *device) {
    g->dev = device;
    g->spin = make_own(device, "ct_spin");
    g->words = make_buffer(device, GATES * 128, HCQ_HOST_VISIBLE | HCQ_ZEROED);
}

static uint32_t *gate_word(const gates *g, uint32_t gate, uint32_t which) {
    return (uint32_t *)g->words.host + gate * 32 + which * 16;
}

static int32_t record_spin(hcq_queue *queue, const gates *g, uint32_t gate) {
    spin_args args = {g->words.address + gate * 128, g->words.address + gate * 128 + 64};
    return hcq_queue_exec(queue, g->spin, &args, sizeof args, dims_one, dims_one);
}

static void gate_let(const gates *g, uint32_t gate) {
    __atomic_store_n(gate_word(g, gate, 0), 1, __ATOMIC_SEQ_CST);
}
#define GATE_END(g, gate, done) do { gate_let(g, gate); WAIT_OK(done); } while (0)

static void gate_shut(const gates *g, uint32_t gate) {
    __atomic_store_n(gate_word(g, gate, 0), 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(gate_word(g, gate, 1), 0, __ATOMIC_SEQ_CST);
}

static void gate_until_begun(const gates *g, uint32_t gate) {
    const uint64_t end = hcq_now_ns() + BOUND;
    while (!__atomic_load_n(gate_word(g, gate, 1), __ATOMIC_SEQ_CST)) {
        CHECK(hcq_now_ns() < end);
        mock_sleep(20000);
    }
}

/* A submission to a lane of the kind that runs until it is let go. */
static hcq_point submit_spin(const gates *g, uint32_t gate, uint64_t lane) {
    hcq_queue *q = make_queue(g->dev, HCQ_COMPUTE);
    CHECK(record_spin(q, g, gate) >= 0);
    hcq_point done = submit_to(g->dev, q, lane, NULL, NULL);
    hcq_queue_destroy(q);
    return done;
}
