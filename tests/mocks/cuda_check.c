/* cuda_check.c - the mock CUDA driver, by raw calls: that it executes, in which
   order, and that it finds the mistakes; it has to be right before it judges the
   backend.

   cuda_check [--filter NAME] [--seed N] (the rest of the tests' arguments is
   accepted). The mock is a part of the program. */
#include "libcuda.c"

#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define OK(call) assert_int_equal(call, MC_OK)
#define IS(code, call) assert_int_equal(call, code)

/* ---- a device to play with ---- */

enum { WORDS = 512, STREAMS = 4 };

static struct {
    mc_handle context, module, s[STREAMS], add, hold, copy, none;
    uint64_t *words;                   /* pinned */
    mc_address memory;                 /* WORDS * 8 bytes of the device */
} R;

static uint64_t seed = 1;

static const char ptx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry t_add(.param .u64 word, .param .u32 n) { ret; }\n"
    ".visible .entry t_hold(.param .u64 word, .param .u64 least) { ret; }\n"
    ".visible .entry t_copy(.param .u64 dst, .param .u64 src)\n.maxntid 128, 1, 1\n{ ret; }\n"
    ".visible .entry t_none() { ret; }\n"
    ".visible .entry t_odd(.param .u8 a, .param .align 16 .b8 b[20], .param .u16 c) { ret; }\n"
    ".visible .entry t_missing() { ret; }\n";

#define UNUSED __attribute__((unused))
#define KERNEL(name) static void name(UNUSED const void *args, UNUSED const hcq_block *b)

KERNEL(k_add) {
    struct { uint64_t *word; uint32_t n; } a;
    memcpy(&a, args, 12);
    __atomic_fetch_add(a.word, (uint64_t)a.n * b->block.x, __ATOMIC_RELAXED);
}

KERNEL(k_hold) {
    struct { uint64_t *word, least; } a;
    memcpy(&a, args, sizeof a);
    while (__atomic_load_n(a.word, __ATOMIC_ACQUIRE) < a.least) {
        usleep(20);
    }
}

KERNEL(k_copy) {
    struct { uint64_t *dst, *src; } a;
    memcpy(&a, args, sizeof a);
    *a.dst = *a.src;
}

KERNEL(k_none) {}

static mc_address pinned(uint32_t word) { return (mc_address)(uintptr_t)&R.words[word]; }

static uint64_t word(uint32_t i) { return __atomic_load_n(&R.words[i], __ATOMIC_ACQUIRE); }

static void set_word(uint32_t i, uint64_t value) {
    __atomic_store_n(&R.words[i], value, __ATOMIC_RELEASE);
}

/* The primary context of device 0 with streams, memory and kernels. */
static void rig_begin(void) {
    void *memory;
    OK(cuDevicePrimaryCtxRetain(&R.context, 0));
    OK(cuCtxPushCurrent_v2(R.context));
    for (uint32_t i = 0; i < STREAMS; i++) {
        OK(cuStreamCreateWithPriority(&R.s[i], 1, 0));
    }
    OK(cuMemHostAlloc(&memory, WORDS * 8, 3));
    R.words = (uint64_t *)memory;
    memset(R.words, 0, WORDS * 8);
    OK(cuMemAlloc_v2(&R.memory, WORDS * 8));
    OK(cuModuleLoadDataEx(&R.module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&R.add, R.module, "t_add"));
    OK(cuModuleGetFunction(&R.hold, R.module, "t_hold"));
    OK(cuModuleGetFunction(&R.copy, R.module, "t_copy"));
    OK(cuModuleGetFunction(&R.none, R.module, "t_none"));
}

/* ... of a mock with these settings. */
static void rig_open(mock_cuda_desc desc) {
    desc.seed = seed;
    mock_cuda_setup(&desc);
    OK(cuInit(0));
    rig_begin();
}

static mock_cuda_counts counts(void) {
    mock_cuda_counts c;
    mock_cuda_stats(&c);
    return c;
}

/* Ends them; nothing else may be left. */
static void rig_close(void) {
    mc_handle popped;
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(R.module));
    for (uint32_t i = 0; i < STREAMS; i++) {
        OK(cuStreamDestroy_v2(R.s[i]));
    }
    OK(cuMemFree_v2(R.memory));
    OK(cuMemFreeHost(R.words));
    OK(cuCtxPopCurrent_v2(&popped));
    assert_ptr_equal(popped, R.context);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    IS(201, cuCtxSynchronize());
    mock_cuda_counts c = counts();
    assert_int_equal(mock_cuda_living(&c) + c.operations_pending + c.left_behind, 0);
}

/* Its context gets an error, and ends. */
static void rig_lose(int error) {
    mock_cuda_fail("cuFuncLoad", 0, error);
    IS(error, cuFuncLoad(R.none));
    IS(error, cuMemFreeAsync(R.memory, R.s[0]));
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(0));
}

#define RIG(...) rig_open((mock_cuda_desc){__VA_ARGS__})

static int rig_setup(void **state) {
    rig_open(*(const mock_cuda_desc *)*state);
    return 0;
}

static int rig_teardown(UNUSED void **state) {
    rig_close();
    return 0;
}

/* A test by being there; a CASE has a mock with these settings. */
static struct CMUnitTest tests[50];
static size_t test_count;

#define CASE_WITH(name, setup, teardown, desc)                                     \
    static void name(void **state);                                                \
    __attribute__((constructor)) static void name##_is_a_test(void) {              \
        tests[test_count++] = (struct CMUnitTest){#name, name, setup, teardown, desc}; \
    }                                                                              \
    static void name(UNUSED void **state)
#define BARE_CASE(name) CASE_WITH(name, NULL, NULL, NULL)
#define CASE(name, ...)                                                            \
    static mock_cuda_desc name##_desc = {__VA_ARGS__};                             \
    CASE_WITH(name, rig_setup, rig_teardown, &name##_desc)

static int launch(mc_handle function, uint32_t threads, const void *args, size_t size,
                  mc_handle stream) {
    void *extra[] = {(void *)1, (void *)(uintptr_t)args, (void *)2, &size, NULL};
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, NULL, extra);
}

/* Adds n to a pinned word. */
static int add(uint32_t at, uint32_t n, mc_handle stream) {
    struct { uint64_t word; uint32_t n; } args = {pinned(at), n};
    return launch(R.add, 1, &args, 12, stream);
}

/* Waits in a kernel until a pinned word is at least that. */
static int hold(uint32_t at, uint64_t least, mc_handle stream) {
    uint64_t args[2] = {pinned(at), least};
    return launch(R.hold, 1, args, sizeof args, stream);
}

/* One byte at an address. */
static int set(mc_address at, unsigned char value, mc_handle stream) {
    return cuMemsetD8Async(at, value, 1, stream);
}

/* Waits until nothing is enqueued any more; 0 after `ms`. */
static int idle(uint32_t ms) {
    while (counts().operations_pending && ms--) {
        usleep(1000);
    }
    return counts().operations_pending == 0;
}

/* For a while nothing of these words changes, and something is enqueued. */
static void still(uint64_t words) {
    assert_int_equal(word(1) + word(2) + word(3), words);
    assert_int_equal(idle(2), 0);
    assert_int_equal(word(1) + word(2) + word(3), words);
}

/* From now on misuse is counted instead of aborting (1), or aborts again (0). Returns how
   many there were since. */
static uint64_t expect_misuse(int on) {
    pthread_mutex_lock(&M.lock);
    uint64_t count = M.misuses;
    M.misuses = 0;
    M.expects = on;
    pthread_mutex_unlock(&M.lock);
    return count;
}

static void misused(const char *part) {
    if (expect_misuse(0) == 0 || !strstr(M.misuse, part)) {
        fail_msg("'%s' is not the misuse '%s'", M.misuse, part);
    }
}

/* The call is misuse, or what it enqueues is when its turn in the stream comes. */
#define MISUSE(stream, part, call) \
    do { \
        (void)expect_misuse(1); \
        (void)(call); \
        (void)cuStreamSynchronize(stream); \
        misused(part); \
    } while (0)

/* What another thread does in the context, beside captures in that mode. */
typedef struct side {
    pthread_t thread;
    int (*call)(mc_handle argument);
    mc_handle argument;
    int mode, result, done;
} side;

static void *side_main(void *user) {
    side *t = (side *)user;
    (void)cuThreadExchangeStreamCaptureMode(&t->mode);
    (void)cuCtxPushCurrent_v2(R.context);
    t->result = t->call(t->argument);
    (void)cuCtxPopCurrent_v2(NULL);
    __atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void side_begin(side *t) {
    assert_int_equal(pthread_create(&t->thread, NULL, side_main, t), 0);
}

static int side_end(side *t) {
    pthread_join(t->thread, NULL);
    return t->result;
}

static int elsewhere(int mode, int (*call)(mc_handle argument), mc_handle argument) {
    side t = {.call = call, .argument = argument, .mode = mode};
    side_begin(&t);
    return side_end(&t);
}

/* A call of this thread or another has the driver's lock. */
static int locked(void) {
    pthread_mutex_lock(&M.lock);
    int is = M.locked;
    pthread_mutex_unlock(&M.lock);
    return is;
}

static int adds(mc_handle stream) { return add(1, 1, stream); }

static int loads(UNUSED mc_handle none) {
    mc_handle module;
    int error = cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL);
    return error ? error : cuModuleUnload(module);
}

/* ---- the library ---- */

BARE_CASE(aborts) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        mock_cuda_setup(NULL);
        (void)cuInit(0);
        (void)cuDevicePrimaryCtxRetain(&R.context, 1000000);
        (void)cuDevicePrimaryCtxRelease_v2(0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

/* ---- order ---- */

/* Streams of different work queues run beside each other; those of one do not. */
CASE(work_queues, .queues = 2) {
    OK(hold(0, 1, R.s[0]));
    OK(add(1, 5, R.s[1]));
    OK(add(2, 7, R.s[2]));             /* the work queue of s[0] */
    OK(cuStreamSynchronize(R.s[1]));
    still(5);
    IS(600, cuStreamQuery(R.s[2]));
    IS(600, cuStreamQuery(R.s[0]));
    OK(cuStreamQuery(R.s[1]));
    set_word(0, 1);
    OK(cuStreamSynchronize(R.s[2]));
    assert_int_equal(word(2), 7);
}

/* Two streams without order between them: both orders are seen. */
CASE(by_chance, .queues = 2) {
    uint32_t seen[3] = {0, 0, 0};
    for (uint32_t i = 0; i < 4000 && !(seen[1] && seen[2]); i++) {
        OK(set(pinned(0), 1, R.s[i % 2]));
        OK(set(pinned(0), 2, R.s[1 - i % 2]));
        OK(cuCtxSynchronize());
        seen[word(0)] = 1;
    }
    assert_true(seen[1] && seen[2]);
}

/* Who enqueues more than a work queue takes waits, and with it whoever enqueues. */
CASE(full_work_queue, .queues = 2, .pending = 2) {
    side full = {.call = adds, .argument = R.s[0]}, other = {.call = adds, .argument = R.s[1]};
    OK(hold(0, 1, R.s[0]));
    OK(add(2, 1, R.s[2]));             /* the work queue of s[0] */
    side_begin(&full);
    while (!locked()) {
        usleep(100);
    }
    side_begin(&other);
    usleep(5000);
    still(0);
    IS(600, cuStreamQuery(R.s[0]));    /* nobody waits with this */
    OK(cuStreamQuery(R.s[1]));
    assert_int_equal(__atomic_load_n(&full.done, __ATOMIC_ACQUIRE) +
                     __atomic_load_n(&other.done, __ATOMIC_ACQUIRE), 0);
    set_word(0, 1);
    OK(side_end(&full));
    OK(side_end(&other));
    OK(cuCtxSynchronize());
    assert_int_equal(word(1), 2);
}

/* Work is gathered until somebody asks, or for some time. */
CASE(late, .flags = MOCK_CUDA_LATE) {
    for (uint32_t i = 0; i < 20; i++) { /* of which the first starts a thread */
        uint64_t from = mc_now();
        OK(add(0, 1, R.s[0]));
        while (word(0) == i) {         /* nobody asks */
        }
        assert_true(mc_now() - from >= MC_LATE_US * 1000);
    }
}

/* ---- memory operations ---- */

CASE(value_mistakes, .queues = 2, .watchdog_ms = 50, .flags = MOCK_CUDA_NO_WAIT_VALUES) {
    static uint64_t elsewhere;
    mc_handle s = R.s[0];
    set_word(0, 2);
    OK(cuStreamWriteValue64_v2(s, pinned(1), 5, 0));
    OK(cuStreamSynchronize(s));
    assert_int_equal(word(1), 5);
    MISUSE(s, "of that kind", cuStreamWriteValue64_v2(s, pinned(0), 0, 1));
    MISUSE(s, "8 bytes at", cuStreamWriteValue64_v2(s, pinned(0) + 4, 1, 0));
    MISUSE(s, "not the device's or pinned",
           cuStreamWriteValue64_v2(s, (mc_address)(uintptr_t)&elsewhere, 1, 0));
    MISUSE(s, "waits for a value", cuStreamWaitValue64_v2(s, pinned(0), 3, 0));
    IS(801, cuStreamWriteValue64(s, pinned(0), 1, 0)); /* the old one */
    rig_close();
    RIG(.flags = MOCK_CUDA_NO_MEMOPS);
    IS(801, cuStreamWriteValue64_v2(R.s[0], pinned(0), 1, 0));
    rig_close();
    RIG(.queues = 2, .watchdog_ms = 50);
    MISUSE(R.s[0], "of that kind", cuStreamWaitValue64_v2(R.s[0], pinned(0), 0, 1));
    set_word(0, 2);
    OK(cuStreamWaitValue64_v2(R.s[0], pinned(0), UINT64_MAX, 0)); /* cyclic */
    set_word(0, UINT64_MAX);
    (void)expect_misuse(1); /* a wait before its store in one work queue */
    OK(cuStreamWaitValue64_v2(R.s[0], pinned(0), 1, 0));
    OK(cuStreamWriteValue64_v2(R.s[2], pinned(0), 1, 0));
    assert_int_equal(idle(20000), 1);
    misused("deadlock");
}

/* Waits that CUDA takes and a backend must not enqueue. */
CASE(early_waits, .queues = 4, .flags = MOCK_CUDA_NO_EARLY_WAITS) {
    mc_handle event;
    OK(cuEventCreate(&event, 2));
    MISUSE(R.s[0], "never recorded", cuStreamWaitEvent(R.s[0], event, 0));
    OK(cuEventRecord(event, R.s[0]));
    OK(cuStreamWaitEvent(R.s[0], event, 0));
    MISUSE(R.s[0], "nothing enqueued stores", cuStreamWaitValue64_v2(R.s[0], pinned(0), 1, 0));
    OK(hold(1, 1, R.s[1]));
    OK(cuStreamWriteValue64_v2(R.s[1], pinned(0), 2, 0));
    OK(cuStreamWaitValue64_v2(R.s[0], pinned(0), 1, 0)); /* it comes */
    MISUSE(R.s[2], "nothing enqueued stores", cuStreamWaitValue64_v2(R.s[0], pinned(0), 3, 0));
    set_word(1, 1);
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue64_v2(R.s[0], pinned(0), 2, 0)); /* it is there */
    OK(cuEventDestroy_v2(event));
    MISUSE(R.s[0], "destroyed", cuEventQuery(event));
    MISUSE(R.s[0], "no event", cuEventQuery(R.s[0]));
}

/* ---- memory ---- */

static int lets_go(UNUSED mc_handle none) {
    usleep(3000);
    set_word(0, word(0) + 1);
    return MC_OK;
}

/* The call waits for what is enqueued, which goes on while it does. */
#define WAITS(call_) \
    do { \
        side other = {.call = lets_go}; \
        side_begin(&other); \
        OK(call_); \
        assert_int_equal(counts().operations_pending, 0); \
        OK(side_end(&other)); \
    } while (0)

/* Calls that may wait for the context's work. */
CASE(syncs, .flags = MOCK_CUDA_SYNCS) {
    void *memory;
    mc_handle module;
    OK(cuMemHostAlloc(&memory, 8, 3));
    OK(hold(0, 0, R.s[0]));            /* it is loaded from now on */
    for (uint32_t i = 0; i < 4; i++) {
        OK(hold(0, i + 1, R.s[0]));
        WAITS(i == 0 ? cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL) :
              i == 1 ? cuModuleUnload(module) : i == 2 ? cuMemFreeHost(memory) : cuFuncLoad(R.add));
    }
    OK(hold(0, 5, R.s[0]));
    OK(add(1, 1, R.s[1]));             /* waits for nobody */
    OK(cuStreamSynchronize(R.s[1]));
    still(1);
    set_word(0, 5);
}

static unsigned char own[16384];

/* How much there is, what may not be taken away, what may not be touched. */
CASE(memory, .memory_bytes = 1 << 20) {
    enum { ALL = (1 << 20) - WORDS * 8 };
    mc_address a, b, host = (mc_address)(uintptr_t)own;
    uint64_t args[2];
    void *memory;
    mc_handle s = R.s[0];
    IS(1, cuMemAlloc_v2(&a, 0));
    IS(2, cuMemAlloc_v2(&a, ALL + 1));
    OK(cuMemAlloc_v2(&a, ALL));
    IS(2, cuMemAlloc_v2(&b, 1));
    OK(cuMemHostAlloc(&memory, 64, 3));
    OK(hold(0, 1, s));
    OK(cuMemcpyAsync(R.memory, (mc_address)(uintptr_t)memory, 64, s));
    MISUSE(R.s[1], "names", cuMemFreeHost(memory));
    MISUSE(R.s[1], "t_hold", cuModuleUnload(R.module));
    WAITS(cuMemFree_v2(a));
    OK(cuMemFreeHost(memory));
    args[0] = a;
    args[1] = pinned(0);
    MISUSE(s, "was freed", cuMemFree_v2(a));
    MISUSE(s, "was freed", set(a, 1, s));
    MISUSE(s, "not of cuMemHostAlloc", cuMemFreeHost(own));
    MISUSE(s, "t_copy", launch(R.copy, 1, args, sizeof args, s));
    MISUSE(s, "pass the end", cuMemsetD8Async(R.memory + 8, 1, WORDS * 8, s));
    MISUSE(s, "overlap", cuMemcpyAsync(R.memory, R.memory + 8, 16, s));
    MISUSE(s, "not pinned", set(host, 1, s));
    MISUSE(s, "not pinned", cuMemcpyAsync(R.memory, host, 64, s));
    OK(cuMemcpyAsync(host, R.memory, 64, s));
    rig_close();
    RIG(.flags = MOCK_CUDA_PAGEABLE_IS_MISUSE);
    MISUSE(R.s[0], "not pinned", cuMemcpyAsync(host, R.memory, 64, R.s[0]));
}

/* Ranges may share a page, but no byte, and none with the driver's own. Pages that cannot be
   written are registered with flag 8 alone. */
CASE(registered_memory, .flags = MOCK_CUDA_NO_REGISTER) {
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                               -1, 0);
    void *none = page;
    IS(801, cuMemHostRegister_v2(page, 100, 3));
    rig_close();
    RIG(0);
    OK(cuMemHostRegister_v2(page + 4090, 100, 3));
    IS(712, cuMemHostRegister_v2(page + 4189, 1, 3));
    IS(712, cuMemHostRegister_v2(page, 4091, 3));
    OK(cuMemHostRegister_v2(page, 4090, 3));
    OK(cuMemHostUnregister(page));
    OK(cuMemHostUnregister(page + 4090));
    IS(713, cuMemHostUnregister(page + 4090));
    IS(1, cuMemHostRegister_v2((void *)(uintptr_t)4096, 100, 3)); /* nothing is there */
    IS(1, cuMemHostRegister_v2(R.words + 8, 8, 3));
    IS(1, cuMemHostUnregister(R.words));
    OK(cuMemHostAlloc(&none, 0, 3));
    assert_null(none);
    assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
    IS(1, cuMemHostRegister_v2(page, 5000, 3));
    OK(cuMemHostRegister_v2(page, 5000, 8 | 3));
    OK(cuMemHostUnregister(page));
    munmap(page, 8192);
}

/* Memory of a pool is there from its turn in the stream on, until its free's turn. */
CASE(pools, .queues = 4) {
    mc_address a;
    mc_handle pool;
    const mc_pool_props props = {.type = 1, .location = {1, 0}};
    OK(cuMemPoolCreate(&pool, &props));
    OK(hold(0, 1, R.s[0]));
    OK(cuMemAllocFromPoolAsync(&a, 4096, pool, R.s[0]));
    MISUSE(R.s[1], "nothing orders", set(a, 1, R.s[1]));
    set_word(0, 1);
    OK(set(a, 1, R.s[0]));
    OK(cuStreamSynchronize(R.s[0]));
    OK(set(a, 1, R.s[1]));
    OK(cuStreamSynchronize(R.s[1]));
    OK(hold(0, 2, R.s[0]));
    OK(cuMemFreeAsync(a, R.s[0]));
    MISUSE(R.s[1], "after its cuMemFreeAsync", set(a, 1, R.s[1])); /* it is there, by luck */
    MISUSE(R.s[1], "was freed", cuMemFreeAsync(a, R.s[1]));
    set_word(0, 2);
    OK(cuStreamSynchronize(R.s[0]));
    MISUSE(R.s[1], "was freed", set(a, 1, R.s[1]));
    OK(cuMemPoolDestroy(pool));
    rig_close();
    RIG(.flags = MOCK_CUDA_NO_POOLS);
    IS(801, cuMemPoolCreate(&pool, &props));
}

/* It outlives its context, takes the device's memory, and its pool waits for it. */
enum { MOST = 1 << 20 };

CASE(pools_outlive, .memory_bytes = MOST + WORDS * 8) {
    mc_address a, b;
    mc_handle pool;
    const mc_pool_props props = {.type = 1, .location = {1, 0}};
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&a, MOST - 1, pool, R.s[0]));
    OK(cuStreamSynchronize(R.s[0]));
    rig_lose(700);
    OK(cuMemPoolDestroy(pool));
    assert_int_equal(counts().device_allocations, 1);
    rig_begin();
    IS(2, cuMemAlloc_v2(&b, 2));
    OK(cuMemFreeAsync(a, R.s[0]));
    OK(cuStreamSynchronize(R.s[0]));
    OK(cuMemAlloc_v2(&b, MOST));
    OK(cuMemFree_v2(b));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&a, 8, pool, R.s[0]));
    rig_lose(700);
    RIG(0);                            /* a setup ends it */
    MISUSE(R.s[0], "not of a pool", cuMemFreeAsync(a, R.s[0]));
}

/* ---- modules ---- */

CASE(functions, .queues = 1) {
    mc_handle odd, missing, s = R.s[0];
    char block[64] = "";
    int value = 0;
    OK(cuFuncGetAttribute(&value, 0, R.copy));
    assert_int_equal(value, 128);
    IS(500, cuModuleGetFunction(&odd, R.module, "nobody"));
    OK(cuModuleGetFunction(&odd, R.module, "t_odd"));
    OK(cuModuleGetFunction(&missing, R.module, "t_missing"));
    IS(1, cuFuncSetAttribute(R.none, 8, 1 << 20));
    IS(701, launch(R.copy, 256, block, 16, s));
    IS(1, cuLaunchKernel(R.none, 1, 65536, 1, 1, 1, 1, 0, s, NULL, NULL));
    IS(1, cuLaunchKernel(R.none, 1, 1, 1, 1, 1, 1, 49153, s, NULL, NULL));
    IS(1, cuLaunchKernel(R.add, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    MISUSE(s, "12 bytes of parameters", launch(R.add, 1, block, 8, s));
    MISUSE(s, "38 bytes", launch(odd, 1, block, 37, s)); /* 1, 20 at 16, 2 at 36 */
    MISUSE(s, "has no function", launch(missing, 1, block, 0, s));
}

/* ---- contexts ---- */

BARE_CASE(contexts) {
    mc_handle other, stream, event;
    int n;
    mock_cuda_setup(NULL);
    IS(3, cuDeviceGetCount(&n));       /* without cuInit */
    RIG(.devices = 2);
    IS(101, cuDevicePrimaryCtxRetain(&other, 2));
    MISUSE(R.s[0], "no attribute", cuDeviceGetAttribute(&n, 0, 0));
    MISUSE(R.s[0], "not retained", cuDevicePrimaryCtxRelease_v2(1));
    MISUSE(R.s[0], "is released, not destroyed", cuCtxDestroy_v2(R.context));
    OK(cuCtxCreate_v2(&other, 0, 1));
    OK(cuStreamCreateWithPriority(&stream, 1, 0));
    OK(cuEventCreate(&event, 2));
    IS(400, cuEventRecord(event, R.s[0])); /* of another context */
    IS(400, launch(R.none, 1, NULL, 0, stream));
    OK(cuCtxDestroy_v2(other));
    assert_int_equal(counts().left_behind, 2);
    OK(cuCtxPopCurrent_v2(NULL));
    IS(201, cuStreamQuery(R.s[0]));    /* nothing is current */
    IS(201, cuCtxPopCurrent_v2(NULL));
    OK(cuCtxPushCurrent_v2(R.context));
    OK(cuDevicePrimaryCtxRelease_v2(0)); /* all is left */
    assert_int_equal(counts().left_behind, 2 + 1 + STREAMS + 2);
    IS(709, cuCtxSynchronize());
    OK(cuCtxPopCurrent_v2(NULL));
    MISUSE(R.s[0], "destroyed", cuCtxPushCurrent_v2(R.context));
}

/* After some errors, of old drivers, only another process has a context. */
BARE_CASE(lost_contexts) {
    static const int codes[] = {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 911};
    mc_handle context;
    for (uint32_t i = 0; i < 2 * sizeof codes / sizeof *codes; i++) {
        const int code = codes[i / 2], ends = i % 2 && code != 710;
        RIG(.flags = i % 2 ? MOCK_CUDA_NO_RECOVERY : 0);
        rig_lose(code);
        IS(ends ? code : 0, cuDevicePrimaryCtxRetain(&context, 0));
        OK(ends ? 0 : cuDevicePrimaryCtxRelease_v2(0));
    }
}

/* ---- captures ---- */

static int allocates(UNUSED mc_handle none) {
    mc_address a;
    int error = cuMemAlloc_v2(&a, 8);
    return error ? error : cuMemFree_v2(a);
}

static int ends(mc_handle stream) {
    mc_handle graph;
    return cuStreamEndCapture(stream, &graph);
}

/* Ends the capture of s[0], which is good or spoiled. */
static void capture_end(int good) {
    mc_handle graph = NULL;
    int status = 0;
    OK(cuStreamIsCapturing(R.s[0], &status));
    assert_int_equal(status, good ? 1 : 2);
    IS(good ? 0 : 901, add(1, 1, R.s[0]));
    IS(good ? 0 : 901, cuStreamEndCapture(R.s[0], &graph));
    OK(cuStreamIsCapturing(R.s[0], &status));
    assert_int_equal(status, 0);
    assert_int_equal(graph != NULL, good);
    OK(graph ? cuGraphDestroy(graph) : 0);
    OK(cuStreamSynchronize(R.s[0]));
    assert_int_equal(word(1), 0);      /* nothing ran */
}

/* Which threads may do what is unsafe, by their mode. */
CASE(capture_modes, .queues = 4) {
    for (int i = 0; i < 6; i++) {
        const int mode = i % 3, here = i < 3, good = here ? mode == 2 : mode != 0;
        int before = mode;
        OK(cuStreamBeginCapture_v2(R.s[0], 0));
        OK(here ? cuThreadExchangeStreamCaptureMode(&before) : 0);
        IS(good ? 0 : 900, here ? allocates(NULL) : elsewhere(mode, allocates, NULL));
        OK(here ? cuThreadExchangeStreamCaptureMode(&before) : 0);
        capture_end(good);
    }
}

/* What no mode allows. */
CASE(captures, .queues = 4) {
    mc_handle before, event;
    int mode = 2;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, 0);
    OK(cuEventCreate(&before, 2));
    OK(cuEventCreate(&event, 2));
    OK(cuEventRecord(before, R.s[0]));
    for (uint32_t i = 0; i < 4; i++) {
        OK(cuStreamBeginCapture_v2(R.s[0], 0));
        IS(1, cuStreamBeginCapture_v2(R.s[0], 0));
        OK(cuEventRecord(event, R.s[0]));
        OK(cuStreamWaitEvent(R.s[0], event, 0));
        IS(907, cuEventQuery(event));
        IS(907, cuEventSynchronize(event));
        IS(i == 2 ? 905 : i ? 900 : 0, i == 0 ? cuStreamSynchronize(R.s[1]) :
           i == 1 ? cuStreamQuery(R.s[0]) : i == 2 ? cuStreamWaitEvent(R.s[0], before, 0) :
           cuCtxSynchronize());
        capture_end(i == 0);
    }
    MISUSE(R.s[1], "have one stream", cuStreamWaitEvent(R.s[1], event, 0));
    OK(cuStreamBeginCapture_v2(R.s[0], 0));
    IS(908, elsewhere(0, ends, R.s[0]));
    capture_end(1);
    OK(cuStreamBeginCapture_v2(R.s[0], 0));
    OK(cuStreamDestroy_v2(R.s[0]));    /* ends it, too */
    OK(cuStreamCreateWithPriority(&R.s[0], 1, 0));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(allocates(NULL));
    OK(cuEventDestroy_v2(before));
    OK(cuEventDestroy_v2(event));
}

/* ---- graphs ---- */

/* A kernel that holds, then a copy; a store; two memsets of a word, then a copy of it. */
static struct {
    mc_handle graph, exec, held, copied, empty, sets[2], last;
    mc_address from;                   /* words that it sets and copies, to pinned ones */
} G;

static uint64_t *source(uint32_t i) { return (uint64_t *)mc_host(G.from) + i; }

static mc_copy_params copy_word(uint32_t dst, uint32_t src) {
    mc_copy_params p = {.width = 8, .height = 1, .depth = 1};
    p.src.type = p.dst.type = 4;
    p.src.device = G.from + src * 8;
    p.dst.device = pinned(dst);
    return p;
}

static mc_set_params set_byte(uint32_t value) {
    mc_set_params p = {.dst = G.from + 20 * 8, .value = value, .element = 1, .width = 1,
                       .height = 1};
    return p;
}

/* Adds a copy of a word behind other nodes. */
static mc_handle add_copy(uint32_t dst, uint32_t src, const mc_handle *before, size_t count) {
    mc_copy_params p = copy_word(dst, src);
    mc_handle node = NULL;
    OK(cuGraphAddMemcpyNode(&node, G.graph, before, count, &p, R.context));
    return node;
}

/* Its words are on the device; pinned, if there is a state. */
static int graph_setup(void **state) {
    RIG(.queues = 2, .flags = MOCK_CUDA_STRICT_MEMSETS);
    uint64_t word_0 = pinned(0), one = 1;
    mc_kernel_params holds = {R.hold, {1, 1, 1}, {1, 1, 1}, 0, (void *[]){&word_0, &one}, NULL};
    G.from = *state ? pinned(0) : R.memory;
    memset(source(0), 0, WORDS * 8);
    *source(10) = 100;
    OK(cuGraphCreate(&G.graph, 0));
    OK(cuGraphAddKernelNode(&G.held, G.graph, NULL, 0, &holds));
    G.copied = add_copy(1, 10, &G.held, 1);
    OK(cuGraphAddEmptyNode(&G.empty, G.graph, NULL, 0));
    for (uint32_t i = 0; i < 2; i++) {
        mc_set_params p = set_byte(i + 1);
        OK(cuGraphAddMemsetNode(&G.sets[i], G.graph, NULL, 0, &p, R.context));
    }
    G.last = add_copy(21, 20, G.sets, 2);
    OK(cuGraphInstantiateWithFlags(&G.exec, G.graph, 0));
    return 0;
}

static int graph_teardown(void **state) {
    OK(cuGraphExecDestroy(G.exec));
    OK(cuGraphDestroy(G.graph));
    return rig_teardown(state);
}

#define GRAPH_CASE(name, state) CASE_WITH(name, graph_setup, graph_teardown, state)

static void graph_run(void) {
    OK(cuGraphLaunch(G.exec, R.s[0]));
    OK(cuStreamSynchronize(R.s[0]));
}

/* What no edge orders comes in any order. */
GRAPH_CASE(graph_order, NULL) {
    uint32_t seen[3] = {0, 0, 0};
    mc_handle node;
    set_word(0, 1);
    IS(1, cuGraphAddEmptyNode(&node, G.graph, (mc_handle[]){G.last, G.last}, 2));
    for (uint32_t i = 0; i < 500 && !(seen[1] && seen[2]); i++) {
        graph_run();
        assert_in_range(word(21), 1, 2);
        seen[word(21)] = 1;
    }
    assert_true(seen[1] && seen[2]);
}

/* An update, or a node that is disabled, reaches later launches only; one instance of a
   graph runs at a time, whatever the streams. */
GRAPH_CASE(graph_updates, NULL) {
    OK(cuGraphLaunch(G.exec, R.s[0]));
    mc_copy_params copy = copy_word(3, 10);
    OK(cuGraphExecMemcpyNodeSetParams(G.exec, G.copied, &copy, R.context));
    OK(cuGraphNodeSetEnabled(G.exec, G.sets[0], 0));
    OK(cuGraphLaunch(G.exec, R.s[1])); /* could begin, but for the other one */
    still(0);
    MISUSE(R.s[3], "not done", cuGraphExecDestroy(G.exec));
    set_word(0, 1);
    OK(cuStreamSynchronize(R.s[0]));
    assert_int_equal(word(1), 100);
    OK(cuStreamSynchronize(R.s[1]));
    assert_int_equal(word(3), 100);
    assert_int_equal(*source(20), 2);
    OK(cuGraphNodeSetEnabled(G.exec, G.sets[1], 0));
    *source(20) = 7;
    graph_run();
    assert_int_equal(*source(20), 7);
}

/* A copy from pinned memory to such, by itself and in a graph, holds up its caller. */
GRAPH_CASE(copies_of_hosts, &G) {
    OK(hold(0, 1, R.s[0]));
    WAITS(cuMemcpyAsync(pinned(1), pinned(10), 8, R.s[0]));
    set_word(0, 0);                    /* for which the graph waits */
    WAITS(cuGraphLaunch(G.exec, R.s[0]));
}

/* ... and not everything of a node, and of no other graph's. */
GRAPH_CASE(graph_refusals, NULL) {
    mc_handle other, stranger;
    set_word(0, 1);
    mc_set_params byte = set_byte(3);
    mc_copy_params copy = copy_word(1, 10);
    copy.src.device = (mc_address)(uintptr_t)own;
    MISUSE(R.s[0], "not pinned",
           cuGraphExecMemcpyNodeSetParams(G.exec, G.copied, &copy, R.context));
    copy.src.device = pinned(10);      /* another kind of memory */
    IS(1, cuGraphExecMemcpyNodeSetParams(G.exec, G.copied, &copy, R.context));
    copy = copy_word(1, 11);
    copy.height = 0;
    IS(1, cuGraphExecMemcpyNodeSetParams(G.exec, G.copied, &copy, R.context));
    IS(1, cuGraphExecMemsetNodeSetParams(G.exec, G.copied, &byte, R.context)); /* a copy */
    byte.width = 2;
    IS(1, cuGraphExecMemsetNodeSetParams(G.exec, G.sets[0], &byte, R.context));
    IS(1, cuGraphNodeSetEnabled(G.exec, G.empty, 0)); /* not of this kind */
    OK(cuGraphCreate(&other, 0));
    OK(cuGraphAddEmptyNode(&stranger, other, NULL, 0));
    IS(1, cuGraphAddEmptyNode(&stranger, G.graph, &stranger, 1));
    MISUSE(R.s[0], "not of the graph",
           cuGraphExecMemsetNodeSetParams(G.exec, stranger, &byte, R.context));
    OK(cuGraphDestroy(G.graph));
    MISUSE(R.s[0], "destroyed", cuGraphNodeSetEnabled(G.exec, G.copied, 0));
    graph_run();                       /* the instance needs no graph */
    assert_int_equal(word(1), 100);
    G.graph = other;
}

/* ---- time ---- */

/* Calls take it, and those that enqueue wait for the slow ones. */
CASE(slow_calls, .queues = 4) {
    enum { MS = 1000000, NODES = 8 };
    static const uint64_t takes[] = {100, 9, 9, 16}; /* ms */
    static unsigned char much[3 * MS];
    mc_handle graph, node, exec;
    void *memory;
    mock_cuda_slow(100 * MS, 3000ull * MS, 2 * MS);
    OK(cuGraphCreate(&graph, 0));
    for (uint32_t i = 0; i < NODES; i++) {
        OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t from = mc_now();
        OK(i == 0 ? loads(NULL) : i == 1 ? cuMemHostAlloc(&memory, sizeof much, 3) :
           i == 2 ? cuMemHostRegister_v2(much, sizeof much, 3) :
           cuGraphInstantiateWithFlags(&exec, graph, 0));
        assert_in_range(mc_now() - from, takes[i] * MS, 10000ull * MS);
    }
    side slow = {.call = loads};
    side_begin(&slow);
    while (!locked()) {
        usleep(100);
    }
    OK(cuStreamQuery(R.s[0]));
    assert_int_equal(locked(), 1);
    OK(add(1, 1, R.s[0]));
    assert_int_equal(locked(), 0);
    OK(side_end(&slow));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemHostUnregister(much));
    OK(cuMemFreeHost(memory));
}

/* ---- threads ---- */

static void *adds_nodes(void *user) {
    mc_handle node;
    (void)cuCtxPushCurrent_v2(R.context);
    for (uint32_t i = 0; i < 200000 && !__atomic_load_n(&M.misuses, __ATOMIC_RELAXED); i++) {
        (void)cuGraphAddEmptyNode(&node, (mc_handle)user, NULL, 0);
    }
    return NULL;
}

/* Two threads in one graph; ThreadSanitizer would find it, too. */
CASE(graph_threads, .linger = 500) {
    mc_handle graph;
    pthread_t thread[2];
#if defined(__SANITIZE_THREAD__)
    skip();
#endif
    OK(cuGraphCreate(&graph, 0));
    (void)expect_misuse(1);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_create(&thread[i], NULL, adds_nodes, graph);
    }
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    misused("two threads");
    OK(cuGraphDestroy(graph));
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--filter") == 0) {
            cmocka_set_test_filter(argv[i + 1]);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
        }
    }
    mock_cuda_kernel("t_add", k_add);
    mock_cuda_kernel("t_hold", k_hold);
    mock_cuda_kernel("t_copy", k_copy);
    mock_cuda_kernel("t_none", k_none);
    alarm(600);
    return _cmocka_run_group_tests("mock_cuda", tests, test_count, NULL, NULL);
}
