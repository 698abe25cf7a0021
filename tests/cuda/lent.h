/* lent.h - contexts and streams of an application. Part of cuda.c. */
#pragma once

#include "raw.h"

static raw_context current_context(void) {
    raw_context context = NULL;
    RAW_OK(CUDA_CALL("cuCtxGetCurrent", (raw_context *), &context));
    return context;
}

/* A bit of everything of a device. */
static void use_device(hcq_device *device) {
    static unsigned char bytes[20000];
    hcq_buffer words = make_words(device, 5000);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    raw_event event;
    CHECK_INDEX(record_add(q, make_add(device), words, 1, 4), 0);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(words, 64, 64), 64, 1, 1), 1);
    CHECK_OK(hcq_queue_bind(q, device));
    hcq_point done = submit_of(q, device);
    CHECK_OK(hcq_cuda_event_acquire(device, done, &event));
    CHECK_OK(hcq_cuda_event_release(device, event));
    WAIT_OK(done);
    CHECK_U64(READ32(words, 1), 4);
    CHECK_OK(hcq_copyin(words, bytes, sizeof bytes));
    CHECK_OK(hcq_free(words));
    CHECK_OK(hcq_trim(device, 0));
    hcq_queue_destroy(q);
}

static hcq_device *open_lent(raw_context context, raw_stream *streams, uint32_t count,
                             uint32_t flags) {
    hcq_device_desc desc = test_desc();
    test_cuda_desc.flags &= ~(uint32_t)HCQ_CUDA_ONE_STREAM;
    test_cuda_desc.flags |= flags;
    test_cuda_desc.context = context;
    test_cuda_desc.streams = streams;
    test_cuda_desc.stream_count = count;
    return test_open(0, &desc);
}

/* Events, unless something else is asked for. */
static uint32_t lent_memops(void) {
    return test_cuda_desc.flags & HCQ_CUDA_MEMOPS ? info_of(T.dev).memops : 0;
}

/* hcq pushes its context for its calls, and leaves the application's as it was: none,
   or one of its own, which it may lend. */
TEST(contexts_are_left_as_they_were) {
    raw_context mine, popped;
    hcq_cuda_lane_info lane;
    raw_load(T.dev);
    CHECK(current_context() == NULL);
    use_device(T.dev);
    CHECK(current_context() == NULL);
    RAW_OK(CUDA_CALL("cuCtxCreate_v2", (raw_context *, unsigned, int), &mine, 0, 0));
    for (uint32_t current = 2; current-- > 0;) {
        use_device(T.dev);
        CHECK(current_context() == (current ? mine : NULL));
        hcq_device *device = open_lent(mine, NULL, 0, 0);
        CHECK(info_of(device).context == mine && info_of(T.dev).context != mine);
        CHECK_U64(info_of(device).memops, lent_memops());
        use_device(device);
        CHECK_OK(hcq_cuda_lane(device, HCQ_COMPUTE, 0, &lane));
        CHECK_U64(lane.lent, 0);
        CHECK_OK(hcq_close(device));
        CHECK(current_context() == (current ? mine : NULL));
        if (current) {
            RAW_OK(R.CtxPopCurrent(&popped));
        }
    }
    RAW_OK(R.CtxPushCurrent(mine)); /* it lives */
    raw_stream_end(raw_stream_new());
    RAW_OK(CUDA_CALL("cuCtxDestroy_v2", (raw_context), mine));
}

/* By turns on two lent streams: hcq's kernels, and now and then the application's. */
static void share_streams(hcq_device *device, raw_stream *streams, hcq_buffer words,
                          uint32_t *model) {
    hcq_program *mix = make_mix(device);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t lane = i & 1;
        mix_args args = {words.address + lane * 4, words.address + 32, 1, i};
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        CHECK_INDEX(hcq_queue_exec(q, mix, &args, sizeof args, dims_one, dims_one), 0);
        (void)submit_to(device, q, lane, NULL, NULL);
        hcq_queue_destroy(q);
        model[lane] = model[lane] * 31 + i;
        if (i % 10 > 7) {
            RAW_OK(R.MemsetD32Async(words.address + lane * 4, i, 1, streams[lane]));
            model[lane] = i;
        }
    }
    settle(device);
    for (uint32_t i = 0; i < 2; i++) {
        RAW_OK(R.StreamSynchronize(streams[i]));
        CHECK_U64(((const uint32_t *)words.host)[i], model[i]);
    }
}

/* Work of both on a lent stream is in the order in which it was given. */
TEST(lent_streams) {
    raw_stream streams[2];
    raw_side a;
    hcq_cuda_lane_info lane;
    uint32_t model[2] = {0, 0};
    NEEDS_WIDE_COUNTERS();
    raw_open(&a, T.dev);
    for (uint32_t i = 0; i < 2; i++) {
        streams[i] = raw_stream_new();
    }
    hcq_device *device = open_lent(a.context, streams, 2, 0);
    CHECK_U64(test_info(device).compute_lanes, 2);
    CHECK_U64(info_of(device).memops, lent_memops());
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(hcq_cuda_lane(device, HCQ_COMPUTE, i, &lane));
        CHECK(lane.stream == streams[i] && lane.lent == 1);
    }
    hcq_buffer words = make_buffer(device, 64, HCQ_HOST_VISIBLE | HCQ_ZEROED);
    share_streams(device, streams, words, model);
    CHECK_OK(hcq_close(device));
    raw_set(&a, 0, 5, streams[1]);     /* they are still there */
    for (uint32_t i = 0; i < 2; i++) {
        raw_stream_end(streams[i]);
    }
    CHECK_U64(raw_word(&a, 0), 5);
    raw_close(&a);
}

/* Closing waits for hcq's work on a lent stream, not for what comes behind it. */
TEST(lent_streams_are_left) {
    raw_side a;
    gates g;
    NEEDS_MOCK();
    SKIP_IF(T.variant->one_fifo || !info_of(T.dev).pools ||
                (T.variant->cuda->flags & MOCK_CUDA_SYNCS),
            "all is behind the long kernel, or freeing waits for it");
    gates_open(&g, T.dev);
    raw_open(&a, T.dev);
    raw_stream stream = raw_stream_new();
    hcq_device *device = open_lent(a.context, &stream, 1, 0);
    use_device(device);
    raw_spin(&g, 0, stream);
    gate_until_begun(&g, 0);
    CHECK_OK(hcq_close(device));       /* the spin would have ended after 10 seconds */
    CHECK_U64(R.StreamQuery(stream), RAW_NOT_READY);
    gate_let(&g, 0);
    raw_stream_end(stream);
    raw_close(&a);
}
