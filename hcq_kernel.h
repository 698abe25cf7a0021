/* hcq_kernel.h - a kernel written once, for the CPU, Vulkan and CUDA.

   Recipe: put hcq_kernel.h beside hcq.h, and kernels into files of their own:

       #include "hcq_kernel.h"

       #define SAXPY(ARG) \
           ARG(INOUT, f32s, y) ARG(IN, f32s, x) ARG(VALUE, f32, a) ARG(VALUE, u32, n)

       HCQ_KERNEL(saxpy, SAXPY) {
           HCQ_FOR_X(i, n) { y.at[i] += a * x.at[i]; }
       }

   saxpy.k is C, and goes to your program by #include "saxpy.k". For GPUs

       sh hcq_kernel.sh saxpy.k

   writes saxpy.k.h: SPIR-V by glslangValidator or glslc, PTX by clang (no CUDA needed)
   or nvcc. Include it behind saxpy.k. Then, on whichever device,

       hcq_program_desc desc = HCQ_PROGRAM(saxpy);
       hcq_program_create(dev, &desc, &prog);
       saxpy_args args = { y.address, x.address, 2.0f, n };
       hcq_queue_exec(q, prog, &args, sizeof args, hcq_dim((n + 63) / 64, 1, 1),
                      hcq_dim(64, 1, 1));

   Licence: as hcq.h.
*/
#ifndef HCQ_KERNEL_H
#define HCQ_KERNEL_H

/* ========================================================================== */
/* ---- the three languages -------------------------------------------------
   Each says: types; HCQ_CONST, HCQ_FN; HCQ_STRUCT, HCQ_BUFFERS; kernels; loops;
   atomics; the few functions of numbers that the rest below is written with. */

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
    HCQI_K_BUFFERS(align) buffer name { type at[]; };                                \
    HCQI_K_BUFFERS(align) readonly buffer name##_in { type at[]; };                  \
    HCQI_K_BUFFERS(align) writeonly buffer name##_out { type at[]; }
#define HCQI_K_BUFFERS(align) layout(buffer_reference, std430, buffer_reference_align = align)

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

struct hcqi_k_place { uvec3 id, size; };

#define HCQI_K_MEMBER(kind, type, name) HCQI_K_MEMBER_##kind(type, name)
#define HCQI_K_MEMBER_IN(type, name) type##_in name;
#define HCQI_K_MEMBER_OUT(type, name) type##_out name;
#define HCQI_K_MEMBER_INOUT(type, name) type name;
#define HCQI_K_MEMBER_VALUE(type, name) type name;
#define HCQI_K_MEMBER_STRUCT(type, name) type name;
#define HCQI_K_PARAM(kind, type, name) HCQI_K_PARAM_##kind(type, name)
#define HCQI_K_PARAM_IN(type, name) , type##_in name
#define HCQI_K_PARAM_OUT(type, name) , type##_out name
#define HCQI_K_PARAM_INOUT(type, name) , type name
#define HCQI_K_PARAM_VALUE(type, name) , const type name
#define HCQI_K_PARAM_STRUCT(type, name) , const type name
#define HCQI_K_PASS(kind, type, name) , hcqi_args.name
#define HCQI_K_SHARED(type, name, dims) shared type name dims;

#define HCQ_KERNEL(name, ARGS) HCQI_K_KERNEL(name, ARGS, gl_WorkGroupSize)
#define HCQ_BLOCK_KERNEL(name, ARGS, SHARED, x, y, z)                              \
    SHARED(HCQI_K_SHARED)                                                            \
    HCQI_K_KERNEL(name, ARGS, uvec3(x, y, z))
#define HCQI_K_KERNEL(name, ARGS, size)                                              \
    layout(buffer_reference, std430) buffer name##_args { ARGS(HCQI_K_MEMBER) };     \
    void name##_body(const hcqi_k_place block ARGS(HCQI_K_PARAM));                     \
    void name##_main(name##_args hcqi_args, uvec3 base) {                             \
        hcqi_k_place block = hcqi_k_place(base + gl_WorkGroupID, size);                \
        name##_body(block ARGS(HCQI_K_PASS));                                        \
    }                                                                              \
    void name##_body(const hcqi_k_place block ARGS(HCQI_K_PARAM))

#define HCQI_K_ONCE [[unroll]]
#define HCQI_K_THREAD gl_LocalInvocationID
bool hcqi_k_barrier() {
    memoryBarrierShared();
    barrier();
    return true;
}

#define hcq_atomic_add(at, value) atomicAdd(at, value)
#define hcq_atomic_min(at, value) atomicMin(at, value)
#define hcq_atomic_max(at, value) atomicMax(at, value)
#define hcq_atomic_exchange(at, value) atomicExchange(at, value)
#define hcq_atomic_compare_exchange(at, old, value) atomicCompSwap(at, old, value)

#define hcq_u32_bits(x) floatBitsToUint(x)
#define hcq_f32_bits(x) uintBitsToFloat(x)
#define hcq_sqrt(x) sqrt(x)
#define hcq_fma(a, b, c) fma(a, b, c)
#define hcqi_k_trunc(x) trunc(x)

#elif defined(HCQI_K_CUDA)

typedef float f32;
typedef double f64;
typedef int i32;
typedef unsigned int u32;
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef long long i64;
typedef unsigned long long u64;

struct hcqi_k_uvec3 { u32 x, y, z; };
struct hcqi_k_place { hcqi_k_uvec3 id, size; };

#if defined(__clang__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
#define HCQI_K_SREG(name)                                                            \
    hcqi_k_uvec3{(u32)__nvvm_read_ptx_sreg_##name##_x(),                             \
               (u32)__nvvm_read_ptx_sreg_##name##_y(),                             \
               (u32)__nvvm_read_ptx_sreg_##name##_z()}
#define HCQI_K_THREAD HCQI_K_SREG(tid)
#define HCQI_K_BLOCK_ID HCQI_K_SREG(ctaid)
#define HCQI_K_BLOCK_SIZE HCQI_K_SREG(ntid)
#define hcq_atomic_add(at, value) __atomic_fetch_add(&(at), value, __ATOMIC_RELAXED)
#define hcq_atomic_min(at, value) __atomic_fetch_min(&(at), value, __ATOMIC_RELAXED)
#define hcq_atomic_max(at, value) __atomic_fetch_max(&(at), value, __ATOMIC_RELAXED)
#define hcq_atomic_exchange(at, value) __atomic_exchange_n(&(at), value, __ATOMIC_RELAXED)
template <typename T>
static __device__ inline T hcqi_k_compare_exchange(T *at, T old, T value) {
    __atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
#define hcq_atomic_compare_exchange(at, old, value)                                \
    hcqi_k_compare_exchange(&(at), (decltype(+(at)))(old), (decltype(+(at)))(value))
#define hcq_u32_bits(x) ((u32)__nvvm_bitcast_f2i(x))
#define hcq_f32_bits(x) __nvvm_bitcast_i2f((i32)(x))
#define hcq_sqrt(x) __nvvm_sqrt_rn_f(x)
#define hcq_fma(a, b, c) __nvvm_fma_rn_f(a, b, c)
#define hcqi_k_trunc(x) __nvvm_trunc_f(x)
#else
#define HCQI_K_VEC(v) hcqi_k_uvec3{v.x, v.y, v.z}
#define HCQI_K_THREAD HCQI_K_VEC(threadIdx)
#define HCQI_K_BLOCK_ID HCQI_K_VEC(blockIdx)
#define HCQI_K_BLOCK_SIZE HCQI_K_VEC(blockDim)
#define hcq_atomic_add(at, value) atomicAdd(&(at), value)
#define hcq_atomic_min(at, value) atomicMin(&(at), value)
#define hcq_atomic_max(at, value) atomicMax(&(at), value)
#define hcq_atomic_exchange(at, value) atomicExch(&(at), value)
#define hcq_atomic_compare_exchange(at, old, value) atomicCAS(&(at), old, value)
#define hcq_u32_bits(x) __float_as_uint(x)
#define hcq_f32_bits(x) __uint_as_float(x)
#define hcq_sqrt(x) __fsqrt_rn(x)
#define hcq_fma(a, b, c) __fmaf_rn(a, b, c)
#define hcqi_k_trunc(x) truncf(x)
#endif

#define HCQ_CONST static __device__ const
#define HCQ_FN static __device__ inline __attribute__((always_inline))
#define HCQ_STRUCT(name) struct name
#define HCQ_BUFFERS(name, type, align)                                             \
    struct name { type *at; };                                                     \
    struct name##_in { const type *at; };                                          \
    typedef name name##_out

#define HCQI_K_PARAM(kind, type, name) HCQI_K_PARAM_##kind(type, name)
#define HCQI_K_PARAM_IN(type, name) , const type##_in name
#define HCQI_K_PARAM_OUT(type, name) , const type name
#define HCQI_K_PARAM_INOUT(type, name) , const type name
#define HCQI_K_PARAM_VALUE(type, name) , const type name
#define HCQI_K_PARAM_STRUCT(type, name) , const type name
#define HCQI_K_ENTRY(kind, type, name) HCQI_K_ENTRY_##kind(type, name)
#define HCQI_K_ENTRY_IN(type, name) , decltype(type##_in::at) name
#define HCQI_K_ENTRY_OUT(type, name) , decltype(type::at) name
#define HCQI_K_ENTRY_INOUT(type, name) , decltype(type::at) name
#define HCQI_K_ENTRY_VALUE(type, name) , type name
#define HCQI_K_ENTRY_STRUCT(type, name) , type name
#define HCQI_K_PASS(kind, type, name) HCQI_K_PASS_##kind(name)
#define HCQI_K_PASS_IN(name) , {name}
#define HCQI_K_PASS_OUT(name) , {name}
#define HCQI_K_PASS_INOUT(name) , {name}
#define HCQI_K_PASS_VALUE(name) , name
#define HCQI_K_PASS_STRUCT(name) , name
#define HCQI_K_REST_OF(skip, ...) __VA_ARGS__
#define HCQI_K_REST(...) HCQI_K_REST_OF(__VA_ARGS__)
#define HCQI_K_NO_SHARED(VAR)
#define HCQI_K_SHARED(type, name, dims) static __shared__ type name dims;
#define HCQI_K_SHARED_PARAM(type, name, dims) , type name dims
#define HCQI_K_SHARED_PASS(type, name, dims) , name

#define HCQ_KERNEL(name, ARGS) HCQI_K_KERNEL(name, ARGS, HCQI_K_NO_SHARED, , HCQI_K_BLOCK_SIZE)
#define HCQ_BLOCK_KERNEL(name, ARGS, SHARED, x, y, z)                              \
    HCQI_K_KERNEL(name, ARGS, SHARED, __launch_bounds__((x) * (y) * (z)),            \
                (hcqi_k_uvec3{x, y, z}))
#define HCQI_K_KERNEL(name, ARGS, SHARED, bounds, size)                              \
    HCQ_FN void name##_body(const hcqi_k_place ARGS(HCQI_K_PARAM) SHARED(HCQI_K_SHARED_PARAM)); \
    extern "C" __global__ void bounds name(HCQI_K_REST(ARGS(HCQI_K_ENTRY))) {          \
        const hcqi_k_place hcqi_k_p = {HCQI_K_BLOCK_ID, size};                           \
        SHARED(HCQI_K_SHARED)                                                        \
        name##_body(hcqi_k_p ARGS(HCQI_K_PASS) SHARED(HCQI_K_SHARED_PASS));              \
    }                                                                              \
    HCQ_FN void name##_body(const hcqi_k_place block ARGS(HCQI_K_PARAM) SHARED(HCQI_K_SHARED_PARAM))

#define HCQI_K_ONCE
#define hcqi_k_barrier() (__syncthreads(), true)

#else /* C and C++ */

#ifndef HCQ_H
#include "hcq.h"
#endif

#include <math.h>
#include <stdbool.h>
#include <string.h>

#ifdef __cplusplus
#define HCQI_K_NOTHING {}
#else
#define HCQI_K_NOTHING {0}
/* f32(x) is a conversion, as in C++ and GLSL; without a bracket it is the type. */
#define f32(x) ((f32)(x))
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

typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef uint8_t u8;
typedef int16_t i16;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;

/* Threads of a block have no order: nothing that one does keeps another's from being
   done at the same time, by vectors say. gcc wants to be told. */
#if defined(__GNUC__) && !defined(__clang__)
#define HCQI_K_THREADS _Pragma("GCC ivdep")
#else
#define HCQI_K_THREADS
#endif

#if defined(__GNUC__) || defined(__clang__)
#define HCQ_FN static inline __attribute__((always_inline, unused))
#else
#define HCQ_FN HCQI_INLINE
#endif
#define HCQ_CONST static const HCQI_UNUSED
#define HCQ_STRUCT(name) typedef struct name name; struct name
#define HCQ_BUFFERS(name, type, align)                                             \
    typedef struct name { type *at; } name;                                        \
    typedef struct name##_in { const type *at; } name##_in;                        \
    HCQ_FN name hcqi_k_##name(uint64_t address) {                                    \
        name made = {HCQ_PTR(type, address)};                                      \
        return made;                                                               \
    }                                                                              \
    HCQ_FN name##_in hcqi_k_##name##_in(uint64_t address) {                          \
        name##_in made = {HCQ_PTR(const type, address)};                           \
        return made;                                                               \
    }                                                                              \
    typedef char hcqi_k_##name##_align[(align) == HCQI_K_ALIGNOF(type) ? 1 : -1]
#if defined(__GNUC__) || defined(__clang__)
#define HCQI_K_ALIGNOF(type) __alignof__(type)
#else
#define HCQI_K_ALIGNOF(type) __alignof(type)
#endif

typedef struct hcqi_k_place { hcq_dims id, size; } hcqi_k_place;
typedef struct hcqi_k_gpu { const uint32_t *spirv; size_t size; const char *ptx; } hcqi_k_gpu;

/* What hcq_kernel.sh writes; HCQ_PROGRAM takes it if it is there. */
#define HCQ_KERNEL_SPIRV(name) static const uint32_t HCQI_UNUSED name##_spirv[]
#define HCQ_KERNEL_PTX(file) static const char HCQI_UNUSED file##_ptx[]
#define HCQ_KERNEL_GPU(name, spirv, size, ptx)                                     \
    static const hcqi_k_gpu HCQI_UNUSED name##_gpu = {spirv, size, ptx}

#define HCQI_K_MEMBER(kind, type, name) HCQI_K_MEMBER_##kind(type, name)
#define HCQI_K_MEMBER_IN(type, name) uint64_t name;
#define HCQI_K_MEMBER_OUT(type, name) uint64_t name;
#define HCQI_K_MEMBER_INOUT(type, name) uint64_t name;
#define HCQI_K_MEMBER_VALUE(type, name) type name;
#define HCQI_K_MEMBER_STRUCT(type, name) type name;
#define HCQI_K_PARAM(kind, type, name) HCQI_K_PARAM_##kind(type, name)
#define HCQI_K_PARAM_IN(type, name) , HCQI_UNUSED const type##_in name
#define HCQI_K_PARAM_OUT(type, name) , HCQI_UNUSED const type name
#define HCQI_K_PARAM_INOUT(type, name) , HCQI_UNUSED const type name
#define HCQI_K_PARAM_VALUE(type, name) , HCQI_UNUSED const type name
#define HCQI_K_PARAM_STRUCT(type, name) , HCQI_UNUSED const type name
#define HCQI_K_PASS(kind, type, name) HCQI_K_PASS_##kind(type, name)
#define HCQI_K_PASS_IN(type, name) , hcqi_k_##type##_in(hcqi_args->name)
#define HCQI_K_PASS_OUT(type, name) , hcqi_k_##type(hcqi_args->name)
#define HCQI_K_PASS_INOUT(type, name) , hcqi_k_##type(hcqi_args->name)
#define HCQI_K_PASS_VALUE(type, name) , hcqi_args->name
#define HCQI_K_PASS_STRUCT(type, name) , hcqi_args->name
#define HCQI_K_KIND(kind, type, name) HCQI_K_KIND_##kind(type)
#define HCQI_K_KIND_IN(type) HCQ_ARG_IN,
#define HCQI_K_KIND_OUT(type) HCQ_ARG_OUT,
#define HCQI_K_KIND_INOUT(type) HCQ_ARG_INOUT,
#define HCQI_K_KIND_VALUE(type) HCQI_K_KIND_##type,
#define HCQI_K_KIND_STRUCT(type) HCQ_ARG_STRUCT(sizeof(type), HCQI_K_ALIGNOF(type)),
#define HCQI_K_KIND_i32 HCQ_ARG_I32
#define HCQI_K_KIND_u32 HCQ_ARG_U32
#define HCQI_K_KIND_f32 HCQ_ARG_F32
#define HCQI_K_KIND_i64 HCQ_ARG_I64
#define HCQI_K_KIND_u64 HCQ_ARG_U64
#define HCQI_K_KIND_f64 HCQ_ARG_F64
#define HCQI_K_NO_SHARED(VAR) VAR(char, hcqi_k_none, [1])
#define HCQI_K_SHARED(type, name, dims) type name dims;
#define HCQI_K_SHARED_PARAM(type, name, dims) , HCQI_UNUSED type name dims
#define HCQI_K_SHARED_PASS(type, name, dims) , hcqi_k_s.name

#define HCQ_KERNEL(name, ARGS) HCQI_K_KERNEL(name, ARGS, HCQI_K_NO_SHARED, 0, 0, 0, hcqi_k_b->block)
#define HCQ_BLOCK_KERNEL(name, ARGS, SHARED, x, y, z)                              \
    HCQI_K_KERNEL(name, ARGS, SHARED, x, y, z, hcq_dim(x, y, z))
#define HCQI_K_KERNEL(name, ARGS, SHARED, x, y, z, block_size)                       \
    typedef struct name##_args { ARGS(HCQI_K_MEMBER) } name##_args;                  \
    HCQ_FN void name##_body(const hcqi_k_place ARGS(HCQI_K_PARAM) SHARED(HCQI_K_SHARED_PARAM)); \
    static HCQI_UNUSED void name##_cpu(const void *hcqi_k_a, const hcq_block *hcqi_k_b) { \
        const name##_args *hcqi_args = HCQ_ARGS(name##_args, hcqi_k_a);                 \
        struct { SHARED(HCQI_K_SHARED) } hcqi_k_s;                                     \
        hcqi_k_place hcqi_k_p;                                                         \
        hcqi_k_p.id = hcqi_k_b->id;                                                    \
        hcqi_k_p.size = block_size;                                                  \
        name##_body(hcqi_k_p ARGS(HCQI_K_PASS) SHARED(HCQI_K_SHARED_PASS));              \
    }                                                                              \
    static HCQI_UNUSED hcq_program_desc name##_program(const hcqi_k_gpu *gpu) {      \
        static const uint32_t kinds[] = { ARGS(HCQI_K_KIND) HCQ_ARG_NONE };          \
        hcq_program_desc desc = HCQI_K_NOTHING;                                      \
        desc.label = desc.ptx.entry = #name;                                       \
        desc.cpu = name##_cpu;                                                     \
        memcpy(desc.args, kinds, sizeof kinds);                                    \
        desc.block = hcq_dim(x, y, z);                                             \
        if (gpu != NULL) {                                                         \
            desc.spirv.data = gpu->spirv;                                          \
            desc.spirv.size = gpu->size;                                           \
            desc.ptx.data = gpu->ptx;                                              \
        }                                                                          \
        return desc;                                                               \
    }                                                                              \
    HCQ_FN void name##_body(HCQI_UNUSED const hcqi_k_place block ARGS(HCQI_K_PARAM)    \
                            SHARED(HCQI_K_SHARED_PARAM))

/* A kernel's hcq_program_desc. */
#define HCQ_PROGRAM(name) name##_program(HCQI_K_SECOND(HCQI_K_GPU_##name, NULL, ~))
#define HCQI_K_SECOND(...) HCQI_K_SECOND_(__VA_ARGS__)
#define HCQI_K_SECOND_(a, b, ...) b

/* Where a block ends that begins at id * size, if there are n. */
HCQ_FN u32 hcqi_k_end(u32 id, u32 size, u32 n) {
    u32 first = id * size;
    return first >= n ? first : n - first < size ? n : first + size;
}
#define HCQI_K_EACH(i, part, n)                                                      \
    for (u32 i = block.id.part * block.size.part,                                  \
             hcqi_k_##i = hcqi_k_end(block.id.part, block.size.part, n); i < hcqi_k_##i; i++)
#define hcq_atomic_add(at, value) __atomic_fetch_add(&(at), value, __ATOMIC_RELAXED)
#define hcq_atomic_exchange(at, value) __atomic_exchange_n(&(at), value, __ATOMIC_RELAXED)
#define HCQ_FOR_X(i, n) HCQI_K_THREADS HCQI_K_EACH(i, x, n)
#define HCQ_FOR_XY(i, ni, j, nj) HCQI_K_EACH(j, y, nj) HCQ_FOR_X(i, ni)
#define HCQ_FOR_XYZ(i, ni, j, nj, k, nk) HCQI_K_EACH(k, z, nk) HCQ_FOR_XY(i, ni, j, nj)
#define HCQ_PHASE_X(t) HCQI_K_THREADS for (u32 t = 0; t < block.size.x; t++)
#define HCQ_PHASE_XY(t, u) for (u32 u = 0; u < block.size.y; u++) HCQ_PHASE_X(t)
#define HCQ_PHASE_XYZ(t, u, v) for (u32 v = 0; v < block.size.z; v++) HCQ_PHASE_XY(t, u)

HCQ_FN u32 hcq_u32_bits(f32 x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
HCQ_FN f32 hcq_f32_bits(u32 bits) {
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#define hcq_sqrt(x) sqrtf(x)
#define hcq_fma(a, b, c) fmaf(a, b, c)

#endif

/* ========================================================================== */
/* ---- in the common language ---------------------------------------------- */

#if defined(HCQI_K_GLSL) || defined(HCQI_K_CUDA)
#define HCQI_K_EACH(i, part, n)                                                      \
    HCQI_K_ONCE for (u32 i = block.id.part * block.size.part + HCQI_K_THREAD.part,     \
                       hcqi_k_##i = 0u; hcqi_k_##i < 1u; hcqi_k_##i++)                   \
        if (i < (n))
#define HCQI_K_LOCAL(t, part)                                                        \
    HCQI_K_ONCE for (u32 t = HCQI_K_THREAD.part, hcqi_k_##t = 0u; hcqi_k_##t < 1u; hcqi_k_##t++)
#define HCQ_FOR_X(i, n) HCQI_K_EACH(i, x, n)
#define HCQ_FOR_XY(i, ni, j, nj) HCQI_K_EACH(j, y, nj) HCQI_K_EACH(i, x, ni)
#define HCQ_FOR_XYZ(i, ni, j, nj, k, nk) HCQI_K_EACH(k, z, nk) HCQ_FOR_XY(i, ni, j, nj)
#define HCQ_PHASE_X(t) if (hcqi_k_barrier()) HCQI_K_LOCAL(t, x)
#define HCQ_PHASE_XY(t, u) if (hcqi_k_barrier()) HCQI_K_LOCAL(u, y) HCQI_K_LOCAL(t, x)
#define HCQ_PHASE_XYZ(t, u, v) if (hcqi_k_barrier()) HCQI_K_LOCAL(v, z) HCQI_K_LOCAL(u, y) HCQI_K_LOCAL(t, x)
#endif

/* Of an argument twice: none may do something. With a NaN, b. */
#define hcq_min(a, b) ((a) < (b) ? (a) : (b))
#define hcq_max(a, b) ((a) > (b) ? (a) : (b))
#define hcq_clamp(x, low, high) hcq_min(hcq_max(x, low), high)
#define hcq_abs(x) ((x) < 0 ? -(x) : (x))

HCQ_BUFFERS(f32s, f32, 4);
HCQ_BUFFERS(f64s, f64, 8);
HCQ_BUFFERS(i8s, i8, 1);
HCQ_BUFFERS(u8s, u8, 1);
HCQ_BUFFERS(i16s, i16, 2);
HCQ_BUFFERS(u16s, u16, 2);
HCQ_BUFFERS(i32s, i32, 4);
HCQ_BUFFERS(u32s, u32, 4);
HCQ_BUFFERS(i64s, i64, 8);
HCQ_BUFFERS(u64s, u64, 8);

#endif
