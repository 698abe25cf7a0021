// By hand: values of one byte and structs of three are not in the common language.
#include "kernel.cuh"

struct odd_struct { char a[3]; };
struct wide_struct { double a; char b; };

KERNEL(all)(double *dst, int i32, const double *src, word u32, float f32, odd_struct odd,
            long long i64, wide_struct wide, odd_struct odd2, word64 u64, float last32, double f64,
            char tail) {
    if (first_of_block()) {
        dst[0] = i32;
        dst[1] = u32;
        dst[2] = f32;
        dst[3] = odd.a[0] + odd.a[1] * 10.0 + odd.a[2] * 100.0;
        dst[4] = (double)i64;
        dst[5] = wide.a + wide.b;
        dst[6] = odd2.a[2];
        dst[7] = (double)u64;
        dst[8] = last32 + f64;
        dst[9] = tail;
        dst[10] = src[0];
    }
}
