// Words that the host and kernels of all devices see while they run: test_seen in
// util_vulkan.h. The host writes its address into the text, over this number.
struct seen_words {
    word hold_go, hold_began, hold_ended;
    word mark_clock, marks[16];
};

static const word64 BOUND = 1900000000; // of every wait: watchdogs of GPUs with a display take 2 s

static __device__ seen_words *seen() {
    seen_words *at;
    asm("mov.u64 %0, 0x5eed5eed5eed5eed;" : "=l"(at));
    return at;
}

static __device__ word load(const word *at) {
    return *(const volatile word *)at;
}

// What was written before is seen before.
static __device__ void store(word *at, word value) {
    __threadfence_system();
    *(volatile word *)at = value;
}

static __device__ word add(word *at, word value) {
    __threadfence_system();
    return atomicAdd_system(at, value) + value;
}

static __device__ void until(const word *at) {
    word64 start = now();
    while (load(at) == 0 && now() - start < BOUND) {}
    __threadfence_system();
}
