/* native.h - handles and events that hcq gives, events of an application. Part of
   cuda.c. */
#pragma once

#include "raw.h"

/* ---- what a device is made of ---- */

TEST(handles_of_a_device) {
    hcq_cuda_info info = info_of(T.dev);
    hcq_cuda_lane_info lane, copy;
    hcq_device_info device = test_info(T.dev);
    hcq_buffer buffer;
    CHECK(info.context && info.library && info.driver_version >= 11040 && info.processors > 0);
    CHECK(info.capability >= 30 && info.memops <= 1 && info.value_waits <= 1);
    CHECK(info.graphs == !(test_cuda_desc.flags & HCQ_CUDA_NO_GRAPHS));
    CHECK(info.device_times == ((device.features & HCQ_FEATURE_PROFILING) != 0));
    CHECK(device.name[0] && strcmp(device.backend, "CUDA") == 0);
    CHECK(!mocked || info.processors == 16);
    CHECK_OK(hcq_cuda_lane(T.dev, HCQ_COMPUTE, 0, &lane));
    CHECK(lane.stream && lane.shared >= 1 && !lane.lent);
    if (device.copy_lanes) {
        CHECK_OK(hcq_cuda_lane(T.dev, HCQ_COPY, 0, &copy));
        CHECK(copy.stream && (copy.stream == lane.stream) == (lane.shared > 1));
        CHECK_U64(copy.shared, lane.shared);
    }
    hcq_device *one = device_with(HCQ_CUDA_ONE_STREAM | HCQ_CUDA_NO_IMPORT, 2, 1);
    CHECK_OK(hcq_cuda_lane(one, HCQ_COMPUTE, 0, &lane));
    CHECK_OK(hcq_cuda_lane(one, HCQ_COMPUTE, 1, &copy));
    CHECK(lane.stream == copy.stream && lane.shared >= 2 && lane.shared == copy.shared);
    CHECK(!has_feature(one, HCQ_FEATURE_IMPORT));
    CHECK_RESULT(hcq_import(one, &info, sizeof info, 0, &buffer), HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_close(one));
}

/* ---- events for an application ---- */

/* A stream of the application's waits for a submission, on its own and by a signal. */
TEST_OF_MEANS(events_for_others) {
    hcq_device *device = device_by(way, 2, 1);
    hcq_signal s = make_signal(device, 0);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    raw_event event[3];
    raw_side a;
    gates g;
    gates_open(&g, device);
    raw_open(&a, device);
    CHECK_INDEX(record_spin(q, &g, 0), 0);
    CHECK_INDEX(hcq_queue_signal(q, hcq_at(s, 7)), 1);
    settle(device);
    uint64_t used = COUNT(device, EVENTS);
    hcq_point done = submit_of(q, device), later = submit_spin(&g, 1, 0);
    CHECK_OK(hcq_cuda_event_acquire(device, done, &event[0]));
    CHECK_OK(hcq_cuda_event_acquire(device, hcq_at(s, 5), &event[1]));
    CHECK_OK(hcq_cuda_event_acquire(device, done, &event[2]));
    for (uint32_t i = 0; i < 3; i++) {
        RAW_OK(R.StreamWaitEvent(a.stream, event[i], 0));
    }
    raw_set(&a, 0, 3, a.stream);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(hcq_cuda_event_release(device, event[i]));
    }
    test_sleep_ms(5);
    CHECK_U64(raw_word(&a, 0), 0);
    gate_let(&g, 0);
    if (!is_one_stream(way)) {         /* behind the spin that comes later */
        RAW_OK(R.StreamSynchronize(a.stream));
        CHECK_U64(raw_word(&a, 0), 3);
        CHECK_RESULT(test_poll(later), HCQ_TIMEOUT);
    }
    GATE_END(&g, 1, later);
    settle(device);
    CHECK(COUNT(device, EVENTS) <= used + 4);
    raw_close(&a);
    CHECK_OK(hcq_close(device));
}

/* Held, reached, failed, of the CPU and of the other device. */
TEST(points_without_events) {
    hcq_device *cpu = open_cpu();
    hcq_signal gate = make_signal(T.dev, 0), raised = make_signal(T.dev, 0);
    hcq_point shut = hcq_at(gate, 1), up = hcq_at(raised, 5);
    hcq_queue *bad = make_queue(T.dev, HCQ_COMPUTE);
    raw_event event = NULL;
    hcq_cuda_program_info kernel;
    gates g;
    CHECK_RESULT(hcq_cuda_program(make_add(cpu), &kernel), HCQ_ERROR_UNSUPPORTED);
    hcq_point held = submit_to(T.dev, NULL, 0, &shut, &up);
    const hcq_point all[] = {shut, held, up};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_RESULT(hcq_cuda_event_acquire(T.dev, all[i], &event), HCQ_NOT_READY);
        CHECK(event == NULL);
    }
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(held);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(hcq_cuda_event_acquire(T.dev, all[i], &event));
        CHECK(event != NULL);
        for (uint64_t end = hcq_now_ns() + BOUND; !raw_event_done(T.dev, event);) {
            CHECK(hcq_now_ns() < end); /* nothing is before it */
        }
        CHECK_OK(hcq_cuda_event_release(T.dev, event));
    }
    gates_open(&g, dev2());
    hcq_point there = submit_spin(&g, 0, 0);
    CHECK_RESULT(hcq_cuda_event_acquire(T.dev, there, &event), HCQ_ERROR_UNSUPPORTED);
    CHECK_OK(hcq_cuda_event_acquire(dev2(), there, &event));
    CHECK_RESULT(hcq_cuda_event_release(T.dev, event), HCQ_ERROR_INVALID); /* not its own */
    CHECK_OK(hcq_cuda_event_release(dev2(), event));
    GATE_END(&g, 0, there);
    CHECK_INDEX(hcq_queue_host(bad, host_refuses, NULL), 0);
    held = submit_of(bad, T.dev);
    WAIT_RESULT(held, HCQ_ERROR_HOST);
    CHECK_RESULT(hcq_cuda_event_acquire(T.dev, held, &event), HCQ_ERROR_HOST);
    CHECK_OK(hcq_close(cpu));
}

/* An event that an application still has is recorded by nobody else meanwhile; given back
   once more than taken it is refused; closing takes the rest. */
TEST_OF_MEANS(acquired_events_stay) {
    hcq_device *device = device_by(way, 2, 1);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    raw_event events[2], kept;
    gates g;
    gates_open(&g, device);
    hcq_point first = submit_spin(&g, 0, 0);
    CHECK_OK(hcq_cuda_event_acquire(device, first, &events[0]));
    CHECK_OK(hcq_cuda_event_acquire(device, first, &events[1]));
    GATE_END(&g, 0, first);
    CHECK_INDEX(record_word(q, make_words(device, 4), 1, 4), 0);
    hcq_point done = first;
    for (uint32_t i = 0; i < 200; i++) {
        done = submit_to(device, q, i & 1, &done, NULL);
    }
    WAIT_OK(done);
    gate_shut(&g, 0);
    hcq_point spins = submit_spin(&g, 0, 0);
    (void)submit_to(device, q, 1, &spins, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(raw_event_done(device, events[i])); /* still those of the first */
        CHECK_OK(hcq_cuda_event_release(device, events[i]));
    }
    gate_let(&g, 0);
    settle(device);
    log_clear();
    CHECK_RESULT(hcq_cuda_event_release(device, events[0]), HCQ_ERROR_INVALID);
    CHECK(log_has("event"));
    CHECK_OK(hcq_cuda_event_acquire(device, first, &kept));
    CHECK_OK(hcq_close(device));
}

/* Where there is no memory for one more it is said so, and the work goes on. */
TEST(events_run_out) {
    NEEDS_STORES();
    NEEDS_WIDE_COUNTERS();
    hcq_device *device = device_with(0, 1, 1);
    raw_event event;
    gates g;
    gates_open(&g, device);
    hcq_point last = submit_spin(&g, 0, 0);
    hcq_result r = HCQ_OK;
    T.memory.fail_until = UINT64_MAX;
    __atomic_store_n(&T.memory.fail_at, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < 400 && r == HCQ_OK; i++) {
        last = submit_to(device, NULL, 0, NULL, NULL);
        r = hcq_cuda_event_acquire(device, last, &event);
    }
    __atomic_store_n(&T.memory.fail_at, 0, __ATOMIC_SEQ_CST);
    CHECK_RESULT(r, HCQ_ERROR_OUT_OF_MEMORY);
    GATE_END(&g, 0, last);
    CHECK_OK(hcq_close(device));
}

/* ---- events of an application ---- */

/* Each point keeps to its own event, which is recorded again, elsewhere, and destroyed as soon
   as it was given, while so many submissions are pending. */
static void import_on(uint32_t way, uint32_t events, uint32_t pending) {
    enum { EVENTS = 7, STREAMS = 3 };
    hcq_device *device = device_by(way, 2, 1);
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_queue *one = queue_of_adds(make_words(device, 4), 0, 1);
    raw_stream streams[STREAMS], other;
    hcq_point points[EVENTS], copied[STREAMS];
    raw_side a;
    gates g;
    gates_open(&g, device);
    raw_open(&a, device);
    other = raw_stream_new();
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(a.words, 64, 64), hcq_view(a.words, 0, 64),
                               4 * STREAMS), 0); /* no more: others are set meanwhile */
    hcq_point before = submit_spin(&g, STREAMS, 0);
    for (uint32_t i = 0; i < pending; i++) {
        before = submit_to(device, one, 0, NULL, NULL);
    }
    for (uint32_t i = 0; i < events; i++) {
        if (i < STREAMS) {
            streams[i] = raw_stream_new();
            raw_spin(&g, i, streams[i]);
        }
        raw_set(&a, i, i + 1, streams[i % STREAMS]);
        raw_event event = raw_record(streams[i % STREAMS]);
        CHECK_OK(hcq_cuda_event_import(device, event, &points[i]));
        RAW_OK(R.EventRecord(event, other));
        RAW_OK(R.EventDestroy(event));
    }
    gate_let(&g, STREAMS);
    CHECK_OK(is_one_stream(way) ? HCQ_OK : hcq_wait(&before, 1, HCQ_ALL, BOUND));
    for (uint32_t k = 0; k < STREAMS; k++) {
        copied[k] = submit_to(device, q, 0, &points[k], NULL);
        gate_until_begun(&g, k);
    }
    test_sleep_ms(3);
    for (uint32_t k = 0; k < STREAMS; k++) {
        for (uint32_t i = 0; i < events; i++) {
            CHECK(i % STREAMS < k || test_poll(points[i]) == HCQ_TIMEOUT);
        }
        CHECK_RESULT(test_poll(copied[k]), HCQ_TIMEOUT);
        GATE_END(&g, k, points[k]);
        WAIT_OK(copied[k]);
        CHECK_U64(raw_word(&a, 16 + k), k + 1);
    }
    for (uint32_t i = 0; i < events; i++) {
        WAIT_OK(points[i]);
        CHECK_U64(raw_word(&a, i), i + 1);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        raw_stream_end(streams[i]);
    }
    raw_stream_end(other);
    raw_close(&a);
    CHECK_OK(hcq_close(device));
}

TEST_OF_MEANS(events_of_others) {
    SKIP_IF(T.variant->cuda && T.variant->cuda->queues == 1, "its streams do not run side by side");
    import_on(way, 7, 0);              /* more than run beside each other ... */
    import_on(way, 7, T.variant->narrow ? 0 : 1200); /* ... and than is given at once */
}

/* A custom command's function has the lane's stream; an event that it brings would be behind
   what waits for it. */
static struct { raw_event event; hcq_result got; hcq_cuda_encoder seen; } brought;

static hcq_result custom_imports(void *user, void *native, const void *payload) {
    hcq_point point;
    (void)payload;
    (void)user;
    brought.seen = *(const hcq_cuda_encoder *)native;
    brought.got = hcq_cuda_event_import(T.dev, brought.event, &point);
    return HCQ_OK;
}

TEST(custom_commands_bring_no_event) {
    static const hcq_custom_type type = {"imports", 4, {{"CUDA", custom_imports}}, {{0, 0}}, NULL};
    const uint32_t payload = 0;
    const hcq_cuda_info info = info_of(T.dev);
    hcq_cuda_lane_info lane;
    raw_side a;
    raw_open(&a, T.dev);
    brought.event = raw_record(a.stream);
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    CHECK_INDEX(hcq_queue_custom(q, &type, &payload), 0);
    submit_and_wait(q, T.dev);
    CHECK_RESULT(brought.got, HCQ_ERROR_WOULD_BLOCK);
    CHECK_OK(hcq_cuda_lane(T.dev, HCQ_COMPUTE, 0, &lane));
    CHECK(brought.seen.stream == lane.stream && brought.seen.context == info.context);
    CHECK(brought.seen.device == info.device);
    RAW_OK(R.EventDestroy(brought.event));
    raw_close(&a);
}

static struct { raw_side side; gates gates; } timeline_side;

static hcq_point timeline_import(hcq_device *dev, uint32_t way) {
    hcq_point point;
    raw_spin(&timeline_side.gates, way, timeline_side.side.stream);
    raw_event event = raw_record(timeline_side.side.stream);
    CHECK_OK(hcq_cuda_event_import(dev, event, &point));
    RAW_OK(R.EventDestroy(event));
    return point;
}

static void timeline_goes(uint32_t way) {
    gate_until_begun(&timeline_side.gates, way);
    gate_let(&timeline_side.gates, way);
}

TEST(the_timeline_waits_for_events) {
    gates_open(&timeline_side.gates, T.dev);
    raw_open(&timeline_side.side, T.dev);
    timeline_waits_for_others(T.dev, timeline_import, timeline_goes);
    raw_close(&timeline_side.side);
}
