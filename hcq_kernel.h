/* hcq_kernel.h - a kernel written once, for the CPU, Vulkan and CUDA. Licence: as hcq.h.

   Recipe: keep it beside hcq.h, and write a kernel into a file of its own, saxpy.k say:

       #include "hcq_kernel.h"

       #define SAXPY(ARG) \
           ARG(INOUT, f32s, y) ARG(IN, f32s, x) ARG(VALUE, f32, a) ARG(VALUE, u32, n)

       HCQ_KERNEL(saxpy, SAXPY) {
           HCQ_FOR_X(i, n) { y.at[i] += a * x.at[i]; }
       }

   `sh hcq_kernel.sh saxpy.k` writes saxpy.k.h, what GPUs run of it. In the program,
   behind hcq.h, include "saxpy.k", the kernel for the CPU, and "saxpy.k.h". Then, for
   whichever device,

       hcq_program_desc desc = HCQ_PROGRAM(saxpy);
       hcq_program_create(dev, &desc, &prog);
       saxpy_args args = { y.address, x.address, 2.0f, n };
       hcq_queue_exec(q, prog, &args, sizeof args, hcq_dim((n + 63) / 64, 1, 1),
                      hcq_dim(64, 1, 1));

   ============================================================================
   Kernels. The file is C, GLSL and CUDA C++ at once: it says what all three take.
   HCQ_KERNEL(name, ARGS) makes of it the struct name_args, the function for the CPU
   name_cpu, an entry `name` in PTX, a SPIR-V module, and HCQ_PROGRAM(name), a whole
   hcq_program_desc; without the .k.h for the CPU alone.

   Arguments, at least one: ARG(IN, OUT or INOUT, type of buffer, name), ARG(VALUE,
   f32 f64 i32 u32 i64 or u64, name), ARG(STRUCT, one of yours, name), as they follow
   each other in the struct. A buffer has elements at[i]: it is one of i8s u8s i16s u16s
   f16s i32s u32s f32s i64s u64s f64s, or yours, with the alignment of its elements:

       HCQ_STRUCT(particle) { f32 x, y; u32 age; };
       HCQ_BUFFERS(particles, particle, 4);

   Neither has bool. A store to what is IN does not compile, nor on GPUs a load of what
   is OUT.

   Threads. HCQ_FOR_X(i, n), HCQ_FOR_XY(i, ni, j, nj) and HCQ_FOR_XYZ run their body for
   the threads of the grid below the bounds, in no order: on the CPU as loops over the
   threads of a block, on a GPU as a condition. A kernel has one. block.id and block.size
   have .x .y .z; the size of the grid is an argument if one is needed.

   Shared memory. HCQ_BLOCK_KERNEL(name, ARGS, SHARED, 16, 16, 1) has blocks of that
   size; exec says so, too, or {0,0,0}. SHARED lists what the threads of a block share
   (on the CPU's stack), if anything: #define SUM_SHARED(VAR) VAR(f32, part, [256]). The
   body is phases, HCQ_PHASE_X(t) { }, _XY, _XYZ, or HCQ_PHASE_BELOW(t, n), for the
   threads t of the block: what one stored in shared memory the next one sees. `for` and
   `if` may stand around them if they go the same way for all threads. Nothing else
   lives from one phase to the next: what is declared outside they only read. What stands
   outside of phases or HCQ_FOR runs once a block on the CPU, once a thread on GPUs: it
   has no shared memory and stores nothing. hcq_kernel.sh refuses what does otherwise, a
   phase in a phase, and return, break or continue out of one.

   Words. HCQ_CONST u32 tap[3] = { 1u, 2u, 1u }; is a table, HCQ_FN f32 twice(f32 x) { }
   a helper, whose parameters may be buffers: f32s, f32s_in, f32s_out. f32(x), u8(x)
   convert. 8 and 16 bits are for buffers: load u32(p.at[i]), store u8(sum). There are
   no pointers, casts in brackets, strings, enum, static, typedef, goto, sizeof, no
   recursion, no numbers of 64 bits but u64(1u) << 40u; a fraction ends in f, an integer
   from 2^31 on in u. u32 and i32 are converted by hand; kernels of a file name their
   shared memory differently. GLSL keeps words to itself (half, input, output, filter,
   active, buffer, in, out ...). A buffer has up to 2^31 elements, a bound is at most 2^32
   less a block, a grid has up to 2^31 blocks on CUDA.

   Numbers. Integers wrap, f32 + - * round to nearest and are never fused: the same on
   all devices that keep denormals (gcc and clang fuse on ARM, and on x86 with -march:
   give them -ffp-contract=off). So are these, with their error in units in the last
   place; hcq_min, hcq_max evaluate an argument twice, hcq_floor(-0.0f) may be 0.0f:

       hcq_min hcq_max hcq_clamp hcq_abs hcq_floor, hcq_u32_bits(f32) hcq_f32_bits(u32)
       hcq_f16_to_f32(u32) hcq_f32_to_f16(f32): exact   hcq_exp hcq_log: 1
       hcq_sin hcq_cos: 2, or 1.2e-7 where they are small, for |x| <= 8192
       hcq_pow(x, y), x > 0: as hcq_exp(y * hcq_log(x))

   A quotient and hcq_sqrt are exact on the CPU and CUDA, within 2.5 and 3 on Vulkan;
   with them hcq_rsqrt and hcq_tanh (2, on Vulkan 5). hcq_fma is fused, on Vulkan
   perhaps; it and hcq_sqrt want -lm. hcq_atomic_add, _min, _max, _exchange(place, value),
   _compare_exchange(place, old, value) give what was there, in no order, for i32, u32
   and, where the device can, u64; on the CPU with gcc and clang.

   It differs: division by 0; % of negative numbers; shifts by 32 or more; overflow of
   i32 (the CPU's compiler counts on none); a float that does not fit an integer; NaN
   in comparisons on Vulkan; shared memory that nobody wrote.

   Others. What Slang makes, SPIR-V with pointers (a push constant that points to the
   struct) or CUDA C++ (through nvcc), goes into .spirv and .ptx as it is. Untested.
*/
#ifndef HCQ_KERNEL_H
#define HCQ_KERNEL_H

/* ========================================================================== */
/* ---- the three languages: types, what stands before a body, threads, atomics ---- */

#if defined(HCQI_K_GLSL)
#define f32 float
#define f64 double
#define i32 int
#define u32 uint
#define i8 int8_t
#define u8 uint8_t
#define i16 int16_t
#define u16 uint16_t
#define i64 int64_t
#define u64 uint64_t

#define HCQ_CONST const
#define HCQ_FN
#define HCQ_STRUCT(name) struct name
#define HCQ_BUFFERS(name, type, align)                                             \
    HCQI_K_REFERENCE(align) buffer name { type at[]; };                            \
    HCQI_K_REFERENCE(align) readonly buffer name##_in { type at[]; };              \
    HCQI_K_REFERENCE(align) writeonly buffer name##_out { type at[]; }
#define HCQI_K_REFERENCE(align) layout(buffer_reference, std430, buffer_reference_align = align)

#define HCQI_K_MEMBER(kind, type, name) HCQI_K_##kind(type) name;
#define HCQI_K_PASS(kind, type, name) , hcqi_k_args.name
#define HCQI_K_SHARED(type, name, dims) shared type name dims;
#define HCQ_KERNEL(name, ARGS) HCQI_K_KERNEL(name, ARGS, gl_WorkGroupSize)
#define HCQ_BLOCK_KERNEL(name, ARGS, SHARED, x, y, z)                              \
    SHARED(HCQI_K_SHARED)                                                          \
    HCQI_K_KERNEL(name, ARGS, uvec3(x, y, z))
#define HCQI_K_KERNEL(name, ARGS, size)                                            \
    HCQI_K_REFERENCE(8) buffer name##_args { ARGS(HCQI_K_MEMBER) };                \
    void name##_body(const hcqi_k_place block ARGS(HCQI_K_PARAM));                 \
    void name##_main(name##_args hcqi_k_args, uvec3 base) {                        \
        name##_body(hcqi_k_place(base + gl_WorkGroupID, size) ARGS(HCQI_K_PASS));  \
    }                                                                              \
    void name##_body(const hcqi_k_place block ARGS(HCQI_K_PARAM))

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
struct hcqi_k_place { uvec3 id, size; };
bool hcqi_k_later = false;             /* the first phase waits for nobody */
bool hcqi_k_barrier() { if (hcqi_k_later) { barrier(); } return hcqi_k_later = true; }
#define HCQI_UNUSED
#define HCQI_K_ONCE [[unroll]]
#define HCQI_K_THREAD gl_LocalInvocationID

#define hcq_atomic_add(at, value) atomicAdd(at, value)
#define hcq_atomic_min(at, value) atomicMin(at, value)
#define hcq_atomic_max(at, value) atomicMax(at, value)
#define hcq_atomic_exchange(at, value) atomicExchange(at, value)
#define hcq_atomic_compare_exchange(at, old, value) atomicCompSwap(at, old, value)
#define hcq_u32_bits(x) floatBitsToUint(x)
#define hcq_f32_bits(x) uintBitsToFloat(x)
f32 hcq_sqrt(f32 x) { return sqrt(x); } /* functions: of f64 C and CUDA have none */
f32 hcq_fma(f32 a, f32 b, f32 c) { return fma(a, b, c); }

#elif defined(HCQI_K_CUDA)
typedef float f32; typedef double f64; typedef int i32; typedef unsigned int u32;
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef long long i64; typedef unsigned long long u64;

#define HCQ_CONST static __device__ const
#define HCQ_FN static __device__ inline __attribute__((always_inline, unused))
struct hcqi_k_dims { u32 x, y, z; };
struct hcqi_k_place { hcqi_k_dims id, size; };
#define HCQI_UNUSED
#define HCQI_K_ONCE
#define hcqi_k_barrier() (__syncthreads(), true)

#if defined(__clang__)                 /* without CUDA's headers */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
#define HCQI_K_DIMS(name) hcqi_k_dims{(u32)name##_x(), (u32)name##_y(), (u32)name##_z()}
#define HCQI_K_THREAD HCQI_K_DIMS(__nvvm_read_ptx_sreg_tid)
#define HCQI_K_BLOCK_ID HCQI_K_DIMS(__nvvm_read_ptx_sreg_ctaid)
#define HCQI_K_BLOCK_SIZE HCQI_K_DIMS(__nvvm_read_ptx_sreg_ntid)
#define hcq_atomic_min(at, value) __atomic_fetch_min(&(at), value, 0)
#define hcq_atomic_max(at, value) __atomic_fetch_max(&(at), value, 0)
#define sqrtf(x) __builtin_sqrtf(x)
#define fmaf(a, b, c) __builtin_fmaf(a, b, c)
#else
#define HCQI_K_DIMS(v) hcqi_k_dims{v.x, v.y, v.z}
#define HCQI_K_THREAD HCQI_K_DIMS(threadIdx)
#define HCQI_K_BLOCK_ID HCQI_K_DIMS(blockIdx)
#define HCQI_K_BLOCK_SIZE HCQI_K_DIMS(blockDim)
#define hcq_atomic_add(at, value) atomicAdd(&(at), value)
#define hcq_atomic_min(at, value) atomicMin(&(at), value)
#define hcq_atomic_max(at, value) atomicMax(&(at), value)
#define hcq_atomic_exchange(at, value) atomicExch(&(at), value)
#define hcq_atomic_compare_exchange(at, old, value) atomicCAS(&(at), old, value)
#endif

/* A row of all blocks of a `grid` with too many in y or z; of any other grid x is 0. */
HCQ_FN hcqi_k_dims hcqi_k_id(hcqi_k_dims grid, hcqi_k_dims id) {
    u32 x = grid.x, rest = x == 0u ? 0u : id.x / x;
    return x == 0u ? id : hcqi_k_dims{id.x % x, rest % grid.y, rest / grid.y};
}
#define HCQI_K_POINTER_IN(type) decltype(type##_in::at)
#define HCQI_K_POINTER_OUT(type) decltype(type::at)
#define HCQI_K_POINTER_INOUT(type) decltype(type::at)
#define HCQI_K_POINTER_VALUE(type) type
#define HCQI_K_POINTER_STRUCT(type) type
#define HCQI_K_ENTRY(kind, type, name) , HCQI_K_POINTER_##kind(type) name
#define HCQI_K_PASS(kind, type, name) , HCQI_K_##kind(type){name}
#define HCQI_K_REST_OF(skip, ...) __VA_ARGS__
#define HCQI_K_REST(...) HCQI_K_REST_OF(__VA_ARGS__)
#define HCQI_K_SHARED(type, name, dims) static __shared__ type name dims;
#define HCQ_KERNEL(name, ARGS) HCQI_K_KERNEL(name, ARGS, HCQI_K_NONE, , HCQI_K_BLOCK_SIZE)
#define HCQ_BLOCK_KERNEL(name, ARGS, SHARED, x, y, z)                              \
    HCQI_K_KERNEL(name, ARGS, SHARED, __launch_bounds__((x) * (y) * (z)),          \
                  (hcqi_k_dims{x, y, z}))
#define HCQI_K_KERNEL(name, ARGS, SHARED, bounds, size)                            \
    HCQ_FN void name##_body(const hcqi_k_place ARGS(HCQI_K_PARAM)                  \
                            SHARED(HCQI_K_SHARED_PARAM));                          \
    extern "C" __global__ void bounds name(HCQI_K_REST(ARGS(HCQI_K_ENTRY)), hcqi_k_dims hcqi_g) { \
        const hcqi_k_place hcqi_p = {hcqi_k_id(hcqi_g, HCQI_K_BLOCK_ID), size};    \
        SHARED(HCQI_K_SHARED)                                                      \
        name##_body(hcqi_p ARGS(HCQI_K_PASS) SHARED(HCQI_K_SHARED_PASS));          \
    }                                                                              \
    HCQ_FN void name##_body(const hcqi_k_place block ARGS(HCQI_K_PARAM)            \
                            SHARED(HCQI_K_SHARED_PARAM))

#else /* C and C++ */

#ifndef HCQ_H
#include "hcq.h"
#endif
#include <math.h>
#include <stdbool.h>
#include <string.h>

#ifdef __cplusplus
#define HCQI_K_ZERO {}
#define HCQI_K_AT(type, address) hcqi_k_at<type>(address)
template <typename T> static inline T hcqi_k_at(uint64_t address) {
    T made = {(decltype(T::at))(uintptr_t)address};
    return made;
}
#else
#define HCQI_K_ZERO {0}
#define HCQI_K_AT(type, address) ((type){HCQ_PTR(void, address)})
#define f32(x) ((f32)(x))              /* a conversion; without a bracket it is the type */
#define f64(x) ((f64)(x))
#define i8(x) ((i8)(x))
#define u8(x) ((u8)(x))
#define i16(x) ((i16)(x))
#define u16(x) ((u16)(x))
#define i32(x) ((i32)(x))
#define u32(x) ((u32)(x))
#define i64(x) ((i64)(x))
#define u64(x) ((u64)(x))
#endif
typedef float f32; typedef double f64; typedef int8_t i8; typedef uint8_t u8;
typedef int16_t i16; typedef uint16_t u16; typedef int32_t i32; typedef uint32_t u32;
typedef int64_t i64; typedef uint64_t u64;

#if defined(__clang__)                 /* threads have no order, their loops can be vectors */
#pragma clang diagnostic ignored "-Wpass-failed"
#define HCQI_K_THREADS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define HCQI_K_THREADS _Pragma("GCC ivdep")
#else
#define HCQI_K_THREADS
#define HCQ_FN HCQI_INLINE
#endif
#ifndef HCQ_FN
#define HCQ_FN static inline __attribute__((always_inline, unused))
#endif
#define HCQ_CONST static const HCQI_UNUSED
typedef struct hcqi_k_place { hcq_dims id, size; } hcqi_k_place;

/* What hcq_kernel.sh writes; HCQ_PROGRAM takes it if it is there. */
#define HCQ_KERNEL_SPIRV(name) static const uint32_t HCQI_UNUSED name##_spirv[]
#define HCQ_KERNEL_PTX(file) static const char HCQI_UNUSED file##_ptx[]
#define HCQ_KERNEL_GPU(name, spirv, size, ptx)                                     \
    static const hcq_code HCQI_UNUSED name##_gpu[] = {{spirv, size, NULL, 0}, {ptx, 0, #name, 1}}
#define HCQ_PROGRAM(name) name##_program(HCQI_K_SECOND((HCQ_KERNEL_HAS_##name, NULL, ~)))
#define HCQI_K_SECOND(list) HCQI_K_SECOND_ list
#define HCQI_K_SECOND_(a, b, ...) b

/* Of an argument: its type in the struct, what the body gets, hcq's kind. */
#define HCQI_K_C_IN(X, type, name) HCQI_K_BUFFER(X, type##_in, HCQ_ARG_IN, name)
#define HCQI_K_C_OUT(X, type, name) HCQI_K_BUFFER(X, type, HCQ_ARG_OUT, name)
#define HCQI_K_C_INOUT(X, type, name) HCQI_K_BUFFER(X, type, HCQ_ARG_INOUT, name)
#define HCQI_K_BUFFER(X, type, arg, name)                                          \
    X(uint64_t, HCQI_K_AT(type, hcqi_args->name), arg, name)
#define HCQI_K_C_VALUE(X, type, name) X(type, hcqi_args->name, HCQI_K_ARG_##type, name)
#define HCQI_K_C_STRUCT(X, type, name)                                             \
    X(type, hcqi_args->name, HCQ_ARG_STRUCT(sizeof(type), HCQI_K_ALIGNMENT(type)), name)
#define HCQI_K_ARG_i32 HCQ_ARG_I32
#define HCQI_K_ARG_u32 HCQ_ARG_U32
#define HCQI_K_ARG_f32 HCQ_ARG_F32
#define HCQI_K_ARG_i64 HCQ_ARG_I64
#define HCQI_K_ARG_u64 HCQ_ARG_U64
#define HCQI_K_ARG_f64 HCQ_ARG_F64
#define HCQI_K_MEMBER_OF(type, value, arg, name) type name;
#define HCQI_K_PASS_OF(type, value, arg, name) , value
#define HCQI_K_ARG_OF(type, value, arg, name) arg,
#define HCQI_K_MEMBER(kind, type, name) HCQI_K_C_##kind(HCQI_K_MEMBER_OF, type, name)
#define HCQI_K_PASS(kind, type, name) HCQI_K_C_##kind(HCQI_K_PASS_OF, type, name)
#define HCQI_K_ARG(kind, type, name) HCQI_K_C_##kind(HCQI_K_ARG_OF, type, name)
#define HCQI_K_SHARED(type, name, dims) type name dims;
#define HCQ_KERNEL(name, ARGS) HCQI_K_KERNEL(name, ARGS, HCQI_K_NONE, 0, 0, 0, hcqi_b->block)
#define HCQ_BLOCK_KERNEL(name, ARGS, SHARED, x, y, z)                              \
    HCQI_K_KERNEL(name, ARGS, SHARED, x, y, z, hcq_dim(x, y, z))
#define HCQI_K_KERNEL(name, ARGS, SHARED, x, y, z, block_size)                     \
    typedef struct name##_args { ARGS(HCQI_K_MEMBER) } name##_args;                \
    HCQ_FN void name##_body(const hcqi_k_place ARGS(HCQI_K_PARAM)                  \
                            SHARED(HCQI_K_SHARED_PARAM));                          \
    static HCQI_UNUSED void name##_cpu(const void *hcqi_a, const hcq_block *hcqi_b) { \
        const name##_args *hcqi_args = HCQ_ARGS(name##_args, hcqi_a);              \
        SHARED(HCQI_K_SHARED)                                                      \
        const hcqi_k_place hcqi_p = {hcqi_b->id, block_size};                      \
        name##_body(hcqi_p ARGS(HCQI_K_PASS) SHARED(HCQI_K_SHARED_PASS));          \
    }                                                                              \
    static HCQI_UNUSED hcq_program_desc name##_program(const hcq_code *gpu) {      \
        static const uint32_t args[HCQ_MAX_ARGS] = { ARGS(HCQI_K_ARG) };           \
        hcq_program_desc desc = HCQI_K_ZERO;                                       \
        desc.label = #name;                                                        \
        desc.cpu = name##_cpu;                                                     \
        memcpy(desc.args, args, sizeof args);                                      \
        desc.block = hcq_dim(x, y, z);                                             \
        if (gpu != NULL) { desc.spirv = gpu[0]; desc.ptx = gpu[1]; }               \
        return desc;                                                               \
    }                                                                              \
    HCQ_FN void name##_body(HCQI_UNUSED const hcqi_k_place block ARGS(HCQI_K_PARAM) \
                            SHARED(HCQI_K_SHARED_PARAM))

/* Where a block ends that begins at id * size, if there are n. */
HCQ_FN u32 hcqi_k_end(u32 id, u32 size, u32 n) {
    u32 first = id * size;
    return first >= n ? first : n - first < size ? n : first + size;
}
#define HCQI_K_EACH(i, part, n)                                                    \
    for (u32 i = block.id.part * block.size.part,                                  \
             hcqi_k_##i = hcqi_k_end(block.id.part, block.size.part, n); i < hcqi_k_##i; i++)
#define HCQI_K_LOCAL(t, part) for (u32 t = 0; t < block.size.part; t++)
#define HCQI_K_LOCAL_BELOW(t, n)                                                   \
    for (u32 t = 0, hcqi_k_##t = hcqi_k_end(0, block.size.x, n); t < hcqi_k_##t; t++)
#define HCQI_K_MEET

#define HCQI_K_ATOMIC(place, value, next)                                          \
    __extension__({                                                                \
        __typeof__(&(place)) hcqi_at = &(place);                                   \
        __typeof__(+*hcqi_at) hcqi_value = (value), hcqi_old = __atomic_load_n(hcqi_at, 0); \
        while (!__atomic_compare_exchange_n(hcqi_at, &hcqi_old, (next), 1, 0, 0)) {} \
        hcqi_old;                                                                  \
    })
#define hcq_atomic_min(at, value) HCQI_K_ATOMIC(at, value, hcq_min(hcqi_old, hcqi_value))
#define hcq_atomic_max(at, value) HCQI_K_ATOMIC(at, value, hcq_max(hcqi_old, hcqi_value))

#endif

/* ========================================================================== */
/* ---- in the common language (0: __ATOMIC_RELAXED) ------------------------ */

#ifndef hcq_atomic_add
#define hcq_atomic_add(at, value) __atomic_fetch_add(&(at), value, 0)
#define hcq_atomic_exchange(at, value) __atomic_exchange_n(&(at), value, 0)
#define hcq_atomic_compare_exchange(at, old, value) __sync_val_compare_and_swap(&(at), old, value)
#endif
#ifndef HCQI_K_GLSL
#define HCQ_STRUCT(name) typedef struct name name; struct name
#define HCQI_K_ALIGNMENT(type) __alignof(type)
#define HCQ_BUFFERS(name, type, align)                                             \
    typedef struct name { type *at; } name, name##_out;                            \
    typedef struct name##_in { const type *at; } name##_in;                        \
    typedef char hcqi_k_##name##_is[(align) == HCQI_K_ALIGNMENT(type) ? 1 : -1]
HCQ_FN u32 hcq_u32_bits(f32 x) {
    union { f32 number; u32 bits; } word = {x};
    return word.bits;
}
HCQ_FN f32 hcq_f32_bits(u32 bits) {
    union { u32 bits; f32 number; } word = {bits};
    return word.number;
}
#define hcq_sqrt(x) sqrtf(x)
#define hcq_fma(a, b, c) fmaf(a, b, c)
#endif
#define HCQI_K_IN(type) type##_in
#define HCQI_K_VALUE(type) type
#define HCQI_K_STRUCT(type) type
#define HCQI_K_NONE(VAR)
#ifdef HCQI_K_CHECK /* hcq_kernel.sh: a thread's code has const copies; around it are others */
template <typename T> struct hcqi_k_shared {
    T *all;
    hcqi_k_shared(T &from) : all(&from) {}
    auto operator[](u32 i) const -> decltype((*all)[i]) { return (*all)[i]; }
    void operator[](u32 i) = delete;   /* shared memory outside of a phase */
};
template <typename T, typename Read> struct hcqi_k_buffer {
    struct {
        decltype(T::at) all;
        decltype(*T::at) operator[](u32 i) const { return all[i]; }
        decltype(*Read::at) operator[](u32 i) { return all[i]; } /* stores are a thread's */
    } at;
    hcqi_k_buffer(T from) { at.all = from.at; }
    operator T() const { return {at.all}; }
    operator T() = delete;             /* what is called may store */
};
#define HCQI_K_OUT(type) hcqi_k_buffer<type, type##_in>
#define HCQI_K_INOUT(type) hcqi_k_buffer<type, type##_in>
#define HCQI_K_PARAM(kind, type, name) , HCQI_UNUSED HCQI_K_##kind(type) name
#define HCQI_K_SHARED_PARAM(type, name, dims) , HCQI_UNUSED hcqi_k_shared<type dims> name
#undef HCQI_K_ATOMIC                   /* its typeof would see what is around */
#define HCQI_K_ATOMIC(place, value, next) hcq_atomic_add(place, value)
#else
#define HCQI_K_OUT(type) type##_out
#define HCQI_K_INOUT(type) type
#define HCQI_K_PARAM(kind, type, name) , HCQI_UNUSED const HCQI_K_##kind(type) name
#define HCQI_K_SHARED_PARAM(type, name, dims) , HCQI_UNUSED type name dims
#endif
#define HCQI_K_SHARED_PASS(type, name, dims) , name

#if defined(HCQI_K_GLSL) || defined(HCQI_K_CUDA)
#define HCQI_K_THREADS
#define HCQI_K_EACH(i, part, n)                                                    \
    HCQI_K_ONCE for (u32 i = block.id.part * block.size.part + HCQI_K_THREAD.part, \
                         hcqi_k_##i = 0u; hcqi_k_##i < 1u; hcqi_k_##i++)           \
        if (i >= (n)) {} else
#define HCQI_K_LOCAL(t, part)                                                      \
    HCQI_K_ONCE for (u32 t = HCQI_K_THREAD.part, hcqi_k_##t = 0u; hcqi_k_##t < 1u; \
                     hcqi_k_##t++)
#define HCQI_K_LOCAL_BELOW(t, n) HCQI_K_LOCAL(t, x) if (t >= (n)) {} else
#define HCQI_K_MEET if (!hcqi_k_barrier()) {} else /* an else behind it is not of this if */
#endif
#ifdef HCQI_K_CHECK /* hcq_kernel.sh looks what a thread changes outside of its loop */
struct hcqi_k_none { hcqi_k_none() = delete; }; /* nothing that return could give */
#define HCQ_FOR_X(i, ni) (void)[=](u32 i) -> hcqi_k_none
#define HCQ_FOR_XY(i, ni, j, nj) (void)[=](u32 i, u32 j) -> hcqi_k_none
#define HCQ_FOR_XYZ(i, ni, j, nj, k, nk) (void)[=](u32 i, u32 j, u32 k) -> hcqi_k_none
#define HCQ_PHASE_BELOW(t, n) (void)(n), (void)[=](u32 t) -> hcqi_k_none
#define HCQ_PHASE_X(t) (void)[=](u32 t) -> hcqi_k_none
#define HCQ_PHASE_XY(t, u) (void)[=](u32 t, u32 u) -> hcqi_k_none
#define HCQ_PHASE_XYZ(t, u, v) (void)[=](u32 t, u32 u, u32 v) -> hcqi_k_none
#else
#define HCQ_FOR_X(i, ni) HCQI_K_THREADS HCQI_K_EACH(i, x, ni)
#define HCQ_FOR_XY(i, ni, j, nj) HCQI_K_EACH(j, y, nj) HCQ_FOR_X(i, ni)
#define HCQ_FOR_XYZ(i, ni, j, nj, k, nk) HCQI_K_EACH(k, z, nk) HCQ_FOR_XY(i, ni, j, nj)
#define HCQI_K_LOCAL_X(t) HCQI_K_THREADS HCQI_K_LOCAL(t, x)
#define HCQ_PHASE_BELOW(t, n) HCQI_K_MEET HCQI_K_THREADS HCQI_K_LOCAL_BELOW(t, n)
#define HCQ_PHASE_X(t) HCQI_K_MEET HCQI_K_LOCAL_X(t)
#define HCQ_PHASE_XY(t, u) HCQI_K_MEET HCQI_K_LOCAL(u, y) HCQI_K_LOCAL_X(t)
#define HCQ_PHASE_XYZ(t, u, v)                                                     \
    HCQI_K_MEET HCQI_K_LOCAL(v, z) HCQI_K_LOCAL(u, y) HCQI_K_LOCAL_X(t)
#endif

HCQ_BUFFERS(i8s, i8, 1); HCQ_BUFFERS(u8s, u8, 1); HCQ_BUFFERS(i16s, i16, 2);
HCQ_BUFFERS(u16s, u16, 2); HCQ_BUFFERS(f16s, u16, 2); HCQ_BUFFERS(i32s, i32, 4);
HCQ_BUFFERS(u32s, u32, 4); HCQ_BUFFERS(f32s, f32, 4); HCQ_BUFFERS(i64s, i64, 8);
HCQ_BUFFERS(u64s, u64, 8); HCQ_BUFFERS(f64s, f64, 8);

/* Of an argument twice: none may do something. */
#define hcq_min(a, b) ((a) < (b) ? (a) : (b))
#define hcq_max(a, b) ((a) > (b) ? (a) : (b))
#define hcq_clamp(x, low, high) hcq_min(hcq_max(x, low), high)
#define hcq_abs(x) ((x) < 0 ? -(x) : (x))
#define hcq_rsqrt(x) (1.0f / hcq_sqrt(x))

/* Polynomials as Cephes has them, in f32 alone. Adding 2^23 or 3 * 2^22 rounds to an
   integer, which is then in the low bits. */
HCQ_FN f32 hcq_floor(f32 x) {
    f32 size = hcq_abs(x), whole = size + 8388608.0f - 8388608.0f;
    f32 nearest = x < 0.0f ? -whole : whole;
    return size < 8388608.0f ? (nearest > x ? nearest - 1.0f : nearest) : x;
}

HCQ_FN f32 hcq_exp(f32 x) {
    f32 most = x > 128.0f ? 128.0f : x, t = most < -128.0f ? -128.0f : most;
    f32 sum = t * 1.44269504f + 12582912.0f, n = sum - 12582912.0f;
    f32 r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
    f32 p = ((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r;
    p = ((p + 4.1665795894e-2f) * r + 1.6666665459e-1f) * r + 5.0000001201e-1f;
    u32 e = hcq_u32_bits(sum) - 0x4b400000u + 256u, low = e / 2u; /* in two steps: denormals */
    return (p * (r * r) + r + 1.0f) * hcq_f32_bits((low - 1u) << 23) *
           hcq_f32_bits((e - low - 1u) << 23);
}

HCQ_FN f32 hcq_log(f32 x) {
    bool tiny = x < 1.17549435e-38f;
    u32 bits = hcq_u32_bits(tiny ? x * 8388608.0f : x);
    f32 e = f32(i32(bits >> 23)) - (tiny ? 149.0f : 126.0f);
    f32 m = hcq_f32_bits((bits & 0x7fffffu) | 0x3f000000u);
    bool low = m < 0.707106781f;
    e = low ? e - 1.0f : e;
    m = (low ? m + m : m) - 1.0f;
    f32 p = ((7.0376836292e-2f * m - 1.1514610310e-1f) * m + 1.1676998740e-1f) * m;
    p = (((p - 1.2420140846e-1f) * m + 1.4249322787e-1f) * m - 1.6668057665e-1f) * m;
    p = ((p + 2.0000714765e-1f) * m - 2.4999993993e-1f) * m + 3.3333331174e-1f;
    f32 z = m * m, y = m * z * p - e * 2.12194440e-4f - 0.5f * z;
    f32 at_zero = hcq_f32_bits(x < 0.0f ? 0x7fc00000u : 0xff800000u);
    return x > 0.0f && x < hcq_f32_bits(0x7f800000u) ? m + y + e * 0.693359375f :
           x <= 0.0f ? at_zero : x;
}

HCQ_FN f32 hcqi_k_wave(f32 x, u32 quarter) {
    f32 sum = x * 0.636619772f + 12582912.0f, n = sum - 12582912.0f;
    f32 r = ((x - n * 1.5703125f) - n * 4.837512969970703125e-4f) - n * 7.54978995489188216e-8f;
    f32 z = r * r;
    f32 s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    f32 c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) *
            z * z - 0.5f * z + 1.0f;
    u32 q = hcq_u32_bits(sum) + quarter;
    f32 y = (q & 1u) != 0u ? c : s;
    return (q & 2u) != 0u ? -y : y;
}
#define hcq_sin(x) hcqi_k_wave(x, 0u)
#define hcq_cos(x) hcqi_k_wave(x, 1u)
#define hcq_pow(x, y) hcq_exp((y) * hcq_log(x))

HCQ_FN f32 hcq_tanh(f32 x) {
    f32 z = x * x, size = hcq_abs(x);
    f32 p = ((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z;
    p = (p + 1.33314422036e-1f) * z - 3.33332819422e-1f;
    f32 y = 1.0f - 2.0f / (hcq_exp(size + size) + 1.0f);
    return size < 0.625f ? p * z * x + x : x < 0.0f ? -y : y;
}

HCQ_FN f32 hcq_f16_to_f32(u32 bits) {
    u32 e = bits >> 10 & 31u, m = bits & 0x3ffu, sign = (bits & 0x8000u) << 16;
    u32 normal = (e == 31u ? 0x7f800000u : (e + 112u) << 23) | m << 13;
    return hcq_f32_bits((e == 0u ? hcq_u32_bits(f32(m) * 5.9604644775390625e-8f) : normal) | sign);
}

HCQ_FN u32 hcq_f32_to_f16(f32 x) {
    u32 bits = hcq_u32_bits(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    u32 tiny = hcq_u32_bits(hcq_f32_bits(a) * 16777216.0f + 8388608.0f) - 0x4b000000u;
    u32 normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
    return sign | (a > 0x7f800000u ? 0x7e00u : a >= 0x477ff000u ? 0x7c00u :
                   a < 0x38800000u ? tiny : normal);
}

#endif
