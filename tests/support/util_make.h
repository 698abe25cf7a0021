/* util_make.h - what tests make and record: values, kernels, buffers, signals, queues,
   submissions of one queue. Part of util.h. */
#pragma once

/* ---- values ---- */

/* What a submission brings: numbers, which addresses are, too, and buffers behind them. */
static TEST_UNUSED const hcq_value *values_of(hcq_value *list, const uint64_t *numbers,
                                              uint32_t count, const hcq_buffer *buffers,
                                              uint32_t buffer_count) {
    for (uint32_t i = 0; i < count; i++) {
        list[i] = hcq_value_number(numbers[i]);
    }
    for (uint32_t i = 0; i < buffer_count; i++) {
        list[count + i] = hcq_value_buffer(buffers[i]);
    }
    return list;
}

static TEST_UNUSED const hcq_dims dims_one = {1, 1, 1};

static TEST_UNUSED hcq_program *make_kernel(hcq_device *device, hcq_program_desc desc) {
    hcq_program *program = NULL;
    CHECK_OK(hcq_program_create(device, &desc, &program));
    return program;
}

typedef struct meeting { uint32_t came, all; } meeting;

/* As many blocks as are to meet run at the same time, for so long that workers are woken. */
static TEST_UNUSED void k_meet(const void *args, const hcq_block *b) {
    meeting *m = (meeting *)b->user;
    const uint64_t begin = hcq_now_ns();
    __atomic_add_fetch(&m->came, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&m->came, __ATOMIC_SEQ_CST) < m->all ||
           hcq_now_ns() - begin < SECOND / 5000) { sched_yield(); }
    (void)args;
}

static TEST_UNUSED hcq_program *make_meet(hcq_device *device, meeting *m) {
    hcq_program_desc desc = HCQ_CPU_PROGRAM("meet", k_meet);
    desc.user = m;
    return make_kernel(device, desc);
}

static TEST_UNUSED hcq_program *make_add(hcq_device *device) {
    return make_kernel(device, HCQ_PROGRAM(add));
}

static TEST_UNUSED hcq_program *make_put(hcq_device *device) {
    return make_kernel(device, HCQ_PROGRAM(put));
}

static TEST_UNUSED hcq_program *make_mix(hcq_device *device) {
    return make_kernel(device, HCQ_PROGRAM(mix));
}

static TEST_UNUSED hcq_buffer make_buffer(hcq_device *device, uint64_t size, uint32_t flags) {
    hcq_buffer buffer;
    CHECK_OK(hcq_alloc(device, size, flags, &buffer));
    return buffer;
}

/* A zeroed buffer of `count` 32-bit words. */
static TEST_UNUSED hcq_buffer make_words(hcq_device *device, uint32_t count) {
    return make_buffer(device, (uint64_t)count * 4, HCQ_ZEROED);
}

static TEST_UNUSED hcq_signal make_signal(hcq_device *device, uint64_t value) {
    hcq_signal signal = {0};
    CHECK_OK(hcq_signal_create(device, value, &signal));
    return signal;
}

static TEST_UNUSED hcq_queue *make_queue(hcq_device *device, hcq_queue_kind kind) {
    hcq_queue *queue = NULL;
    CHECK_OK(kind == HCQ_GRAPH ? hcq_graph_create(device, &queue)
                               : hcq_queue_create(device, kind, &queue));
    return queue;
}

/* What does not go is its function's result. */
#define TRY(call) \
    do { \
        hcq_result tried = (call); \
        if (tried != HCQ_OK) { \
            return tried; \
        } \
    } while (0)

static TEST_UNUSED hcq_result record_result(int32_t index) {
    return index < 0 ? (hcq_result)index : HCQ_OK;
}

/* Records dst[index] += value. */
static TEST_UNUSED int32_t record_add(hcq_queue *queue, hcq_program *add, hcq_buffer dst,
                                      uint32_t index, uint32_t value) {
    add_args args = {dst.address + index * 4u, value, 1};
    return hcq_queue_exec(queue, add, &args, sizeof args, hcq_dim(1, 1, 1), hcq_dim(1, 1, 1));
}

/* Records the store of the low `size` bytes of a value. */
static TEST_UNUSED int32_t record_word(hcq_queue *queue, hcq_buffer dst, uint64_t value,
                                       uint64_t size) {
    return hcq_queue_write(queue, dst, &value, size);
}

/* Submits one queue, with what else there is: SUBMIT(device, q, &done, .affinity = 1). */
#define SUBMIT(device, queue, point, ...) \
    hcq_submit((device), &(hcq_submission){.queues = &(queue), .queue_count = 1, __VA_ARGS__}, 1, \
               (point))

/* Submits waits and signals without a queue. */
static TEST_UNUSED hcq_result submit_lists(hcq_device *device, const hcq_point *wait,
                                           const hcq_point *signal, uint32_t flags,
                                           hcq_point *point) {
    hcq_submission s = {.waits = wait, .wait_count = wait ? 1 : 0, .signals = signal,
                        .signal_count = signal ? 1 : 0, .flags = flags};
    return hcq_submit(device, &s, 1, point);
}

static TEST_UNUSED hcq_result host_nothing(void *user) {
    (void)user;
    return HCQ_OK;
}

static TEST_UNUSED void notify_nothing(void *user, hcq_result result) {
    (void)user;
    (void)result;
}
