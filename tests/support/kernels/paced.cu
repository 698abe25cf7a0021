#include "kernel.cuh"
#include "seen.cuh"

struct pace {
    word runs[4];
    word armed, open, seen;
    word hold_call, hold_run, watch_call, watch_run;
    word let;
    word64 limit_ns;
};

static __device__ void hold(pace *p) {
    word64 start = now();
    while (load(&p->open) == 0) {
        if (load(&p->runs[p->watch_call]) >= p->watch_run) {
            store(&p->seen, 1);
            return;
        }
        if (load(&p->armed) == 0) {
            start = now();
        } else if (now() - start > p->limit_ns) {
            return;
        }
    }
}

KERNEL(paced)(word *dst, const word *src, pace *p, word id, word value) {
    if (first_of_block()) {
        word run = add(&p->runs[id], 1);
        if (load(&p->hold_call) == id && load(&p->hold_run) == run) {
            hold(p);
        }
        dst[0] = dst[0] * 31 + src[0] + value;
    }
}
