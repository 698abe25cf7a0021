/* raw.h - the driver's functions as an application calls them that has streams,
   events and contexts of its own. Part of cuda.c. */
#pragma once

#include "kernels.h"
#include "shared.h"

typedef struct CUctx_st *raw_context;
typedef struct CUstream_st *raw_stream;
typedef struct CUevent_st *raw_event;

static hcqi_cuda_api R;                /* hcq's list of them; others: CUDA_CALL */

#define RAW_OK(call) CHECK_U64((call), 0)

enum { RAW_NOT_READY = 600, RAW_NON_BLOCKING = 1, RAW_NO_TIMES = 2 };

static void raw_load(hcq_device *device) {
    void *const library = info_of(device).library;
    for (size_t i = 0; i < sizeof hcqi_cuda_names / sizeof hcqi_cuda_names[0]; i++) {
        void *found = hcq_sys_library_symbol(library, hcqi_cuda_names[i].name);
        memcpy((char *)&R + i * sizeof found, &found, sizeof found);
    }
}

/* An application's part of a device's context, which is current from raw_open on. */
typedef struct raw_side {
    hcq_device *dev;
    raw_context context;
    raw_stream stream;
    hcq_buffer words;                  /* pinned */
} raw_side;

static raw_stream raw_stream_new(void) {
    raw_stream stream;
    RAW_OK(R.StreamCreateWithPriority(&stream, RAW_NON_BLOCKING, 0));
    return stream;
}

/* Ends it, after all that is on it. */
static void raw_stream_end(raw_stream stream) {
    RAW_OK(R.StreamSynchronize(stream));
    RAW_OK(R.StreamDestroy(stream));
}

static void raw_open(raw_side *a, hcq_device *device) {
    memset(a, 0, sizeof *a);
    raw_load(device);
    a->dev = device;
    a->context = info_of(device).context;
    RAW_OK(R.CtxPushCurrent(a->context));
    a->stream = raw_stream_new();
    a->words = make_buffer(device, 4096, HCQ_HOST_VISIBLE | HCQ_ZEROED);
}

static uint32_t raw_word(const raw_side *a, uint32_t index) {
    return __atomic_load_n((uint32_t *)a->words.host + index, __ATOMIC_SEQ_CST);
}

static void raw_close(raw_side *a) {
    raw_context context;
    raw_stream_end(a->stream);
    RAW_OK(R.CtxPopCurrent(&context));
    CHECK_OK(hcq_free(a->words));
}

/* Launches a spin of the gates' on a stream of the application's. */
static void raw_spin(const gates *g, uint32_t gate, raw_stream stream) {
    hcq_cuda_program_info info;
    uint64_t go = g->words.address + gate * 128, began = go + 64;
    void *parameters[] = {&go, &began};
    CHECK_OK(hcq_cuda_program(g->spin, &info));
    RAW_OK(R.LaunchKernel(info.function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* Word `index` is `value` once the stream comes to it. */
static void raw_set(const raw_side *a, uint32_t index, uint32_t value, raw_stream stream) {
    RAW_OK(R.MemsetD32Async(a->words.address + index * 4, value, 1, stream));
}

static raw_event raw_record(raw_stream stream) {
    raw_event event;
    RAW_OK(R.EventCreate(&event, RAW_NO_TIMES));
    RAW_OK(R.EventRecord(event, stream));
    return event;
}

/* Is it complete? */
static int raw_event_done(hcq_device *device, raw_event event) {
    raw_context context;
    raw_load(device);
    RAW_OK(R.CtxPushCurrent(info_of(device).context));
    int result = R.EventQuery(event);
    RAW_OK(R.CtxPopCurrent(&context));
    CHECK(result == 0 || result == RAW_NOT_READY);
    return result == 0;
}
