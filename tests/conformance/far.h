/* far.h - copies recorded between devices, whoever sees whose memory, and the time of a
   graph's run. Part of conformance.c. */

/* `near` is changed on its device, goes to `far` on another, and comes back as `again`,
   which is changed, too. What was copied in on either device is there. */
typedef struct far_trip {
    hcq_device *device;
    hcq_buffer near, far, again;
    uint32_t words;
    hcq_queue *q;
} far_trip;

static far_trip make_trip(hcq_device *device, hcq_device *other, hcq_queue_kind kind,
                          uint32_t words) {
    far_trip t = {device, make_filled(device, words, 1), make_filled(other, words, 2),
                  make_filled(device, words, 3), words, make_queue(device, kind)};
    int32_t next = 0;
    CHECK_OK(hcq_queue_label(t.q, "trip"));
    if (kind != HCQ_COPY) {
        CHECK_INDEX(record_add(t.q, make_add(device), t.near, 0, 1), next++);
    }
    CHECK_INDEX(hcq_queue_copy(t.q, t.far, t.near, words * 4), next++);
    CHECK_INDEX(hcq_queue_copy(t.q, t.again, t.far, words * 4), next++);
    if (kind != HCQ_COPY) {
        CHECK_INDEX(record_add(t.q, make_add(device), t.again, 1, 5), next++);
    }
    return t;
}

/* What is there after so many runs: near as it was, but for its first word. */
static void check_trip(const far_trip *t, uint32_t runs, int changes) {
    uint32_t *words = (uint32_t *)malloc(t->words * 4);
    hcq_buffer was = make_filled(t->device, t->words, 1);
    CHECK_OK(hcq_copyout(words, was, t->words * 4));
    words[0] += changes ? runs : 0;
    CHECK_BYTES(t->near, words, t->words * 4);
    CHECK_BYTES(t->far, words, t->words * 4);
    words[1] += changes ? 5 : 0;
    CHECK_BYTES(t->again, words, t->words * 4);
    CHECK_OK(hcq_free(was));
    free(words);
}

static void drop_trip(far_trip *t) {
    hcq_queue_destroy(t->q);
    CHECK_OK(hcq_free(t->near));
    CHECK_OK(hcq_free(t->far));
    CHECK_OK(hcq_free(t->again));
}

/* Each kind of queue, bound or not, with small and large copies, submitted several times
   without waiting; a copy queue is appended, a graph overlaps itself and is stepped. */
static void trips_of(hcq_device *device, hcq_device *other) {
    for (uint32_t way = 0; way < 12; way++) {
        const hcq_queue_kind kind = (hcq_queue_kind)(way % 3);
        far_trip t = make_trip(device, other, kind, way / 6 ? 10000 : 16);
        hcq_point done[5];
        if (way % 6 == 1) {            /* appended: what carries copies comes along */
            hcq_queue *q = make_queue(device, kind);
            CHECK_INDEX(hcq_queue_append(q, t.q), 0);
            hcq_queue_destroy(t.q);
            t.q = q;
        }
        CHECK_OK(way / 3 % 2 ? hcq_queue_bind(t.q, device) : HCQ_OK);
        for (uint32_t i = 0; i < 5; i++) {
            uint32_t flags = kind != HCQ_GRAPH ? 0 : i == 4 ? HCQ_STEP : i % 2 ? HCQ_OVERLAP : 0;
            CHECK_OK(submit_queue(t.q, device, NULL, NULL, flags, &done[i]));
        }
        CHECK_OK(hcq_wait(done, 5, HCQ_ALL, BOUND));
        check_trip(&t, 5, kind != HCQ_COPY);
        drop_trip(&t);
    }
}

TEST(copies_between_any_devices) {
    hcq_device *other = open_other_backend(), *cpu = NULL;
    CHECK_OK(hcq_open("CPU", NULL, &cpu));
    trips_of(T.dev, dev2());
    trips_of(T.dev, other);
    trips_of(other, T.dev);
    trips_of(T.dev, cpu);
    CHECK_OK(hcq_close(other));
    CHECK_OK(hcq_close(cpu));
}

/* What the library cannot see: two devices name the same bytes. The CPU moves them. */
TEST(copy_within_one_memory_of_two_devices) {
    static unsigned char memory[96];
    unsigned char want[64];
    SKIP_IF(!is_cpu(), "of the CPU");
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    hcq_buffer x, y;
    hcq_point done;
    fill_pattern(memory, sizeof memory, T.seed);
    memcpy(want, memory, sizeof want);
    CHECK_OK(hcq_import(T.dev, memory, 64 + 9, 0, &x));
    CHECK_OK(hcq_import(dev2(), memory, 64, 0, &y));
    CHECK_INDEX(hcq_queue_copy(q, hcq_view(x, 9, 64), y, 64), 0);
    CHECK_OK(hcq_queue_submit(q, T.dev, &done));
    WAIT_OK(done);
    CHECK(T.variant->seeded || memcmp(memory + 9, want, sizeof want) == 0); /* in parts there */
    CHECK_OK(hcq_free(x));
    CHECK_OK(hcq_free(y));
}

/* Updates and sizes that a submission brings, from what the device sees to what it does
   not and back. */
TEST(far_copies_change) {
    hcq_device *other = open_other_backend();
    for (int way = 0; way < 4; way++) {
        hcq_queue *q = make_queue(T.dev, way / 2 ? HCQ_GRAPH : HCQ_COPY);
        hcq_buffer ends[3] = {make_filled(T.dev, 64, 1), make_filled(dev2(), 64, 2),
                              make_filled(other, 64, 3)};
        hcq_buffer out = make_words(T.dev, 64);
        uint32_t want[64] = {0}, words[64];
        CHECK_INDEX(hcq_queue_copy(q, out, ends[0], 64), 0); /* later it is larger */
        CHECK_OK(hcq_queue_variable(q, 0, HCQ_PART_SIZE, 0, 0));
        CHECK_OK(way % 2 ? hcq_queue_bind(q, T.dev) : HCQ_OK);
        for (uint32_t i = 0; i < 9; i++) {
            const uint64_t most = i < 2 ? 64 : 256, size = most - 4 * i;
            const hcq_value value = hcq_value_number(size);
            hcq_point done;
            CHECK_OK(hcq_queue_update_copy(q, 0, NULL, &ends[i * i % 3], most));
            CHECK_OK(hcq_queue_submit_with(q, T.dev, &value, 1, 0, &done));
            WAIT_OK(done);
            CHECK_OK(hcq_copyout(words, ends[i * i % 3], 256));
            memcpy(want, words, (size_t)size);
            CHECK_BYTES(out, want, 256);
        }
        hcq_queue_destroy(q);
    }
    CHECK_OK(hcq_close(other));
}

/* The second half is held up, and the graph is reset: its memory is nobody else's yet. Or the
   source's device closes, with its end of the bridge. */
TEST(bridge_stays_until_it_is_crossed) {
    for (int closes = 0; closes < 2; closes++) {
        static blocked_call call;
        hcq_device *source = closes ? test_open(0, NULL) : dev2();
        hcq_queue *g = make_graph(), *hold = make_holder(T.dev);
        hcq_buffer src = make_filled(source, 64, 5), out = make_words(T.dev, 64);
        uint32_t words[64];
        hcq_point done;
        CHECK_OK(closes ? HCQ_OK : hcq_copyout(words, src, 256));
        CHECK_INDEX(hcq_queue_append(g, hold), 0);
        CHECK_OK(hcq_queue_access(g, 0, out, HCQ_ARG_OUT));
        CHECK_INDEX(hcq_queue_copy(g, out, src, 256), 1);
        CHECK_OK(hcq_queue_submit(g, T.dev, &done));
        CHECK(word_until(&SEEN->hold_began, 1));
        test_sleep_ms(2);              /* for the first half, which nothing holds up */
        if (closes) {
            close_begins(&call, source);
            hold_release();
            CHECK_OK(call_ends(&call));
            hcq_result result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
            CHECK(result == HCQ_OK || result == HCQ_ERROR_CANCELLED ||
                  result == HCQ_ERROR_CLOSED);
        } else {
            CHECK_OK(hcq_queue_reset(g));
            memset(make_buffer(source, 256, HCQ_HOST_VISIBLE).host, 0x5b, 256);
            HOLD_END(done);
            CHECK_BYTES(out, words, 256);
        }
    }
}

/* The submission that copies by others is over, as the source's device closes; what these still
   write to was freed, and is nobody's until they are done. */
TEST(freed_target_of_a_far_copy_stays) {
    SKIP_IF(!is_mock() || devices_share_memory(), "nobody copies for others");
    static blocked_call call;
    hcq_device *source = test_open(0, NULL);
    hcq_queue *q = make_queue(dev2(), HCQ_COPY);
    hcq_point gate = make_gate(T.dev), done;
    hcq_buffer dst = make_buffer(T.dev, 4096, 0);
    CHECK_INDEX(hcq_queue_wait(q, gate), 0);
    CHECK_INDEX(hcq_queue_copy(q, dst, make_words(source, 1024), 4096), 1);
    CHECK_OK(hcq_queue_submit(q, dev2(), &done));
    CHECK_OK(hcq_free(dst));
    hcq_point held = hold_start(make_holder(T.dev), T.dev);
    uint64_t number = hcq_device_timeline_value(T.dev), start = hcq_now_ns();
    open_gate(gate);
    while (hcq_device_timeline_value(T.dev) == number && hcq_now_ns() - start < BOUND) {
        mock_sleep(100000);
    }
    close_begins(&call, source);
    WAIT_RESULT(done, HCQ_ERROR_CANCELLED);
    hcq_buffer next = make_buffer(T.dev, 4096, 0);
    CHECK(next.address != dst.address);
    hold_release();
    CHECK_OK(call_ends(&call));
    WAIT_OK(held);
    CHECK_OK(hcq_free(next));
}

/* Held, and then: freed, which keeps the memory until it is copied; or its device is closed,
   or what it waits for fails, and nothing is copied. */
TEST(far_copies_that_wait) {
    for (int way = 0; way < 3; way++) {
        hcq_device *other = open_other_backend();
        hcq_queue *q = make_queue(T.dev, HCQ_COPY);
        hcq_buffer src = make_filled(other, 64, 9), out = make_words(T.dev, 64), next;
        hcq_point gate = make_gate(T.dev), raise = hcq_at(make_signal(T.dev, 0), 1), done;
        uint32_t words[64] = {0};
        CHECK_OK(way == 0 ? hcq_copyout(words, src, 256) : HCQ_OK);
        CHECK_INDEX(hcq_queue_wait(q, gate), 0);
        CHECK_INDEX(hcq_queue_copy(q, out, src, 256), 1);
        CHECK_INDEX(hcq_queue_signal(q, raise), 2);
        CHECK_OK(hcq_queue_submit(q, T.dev, &done));
        if (way == 0) {
            CHECK_OK(hcq_free(src));
            next = make_filled(other, 64, 7);
            GATE_END(gate, done);
            CHECK_OK(hcq_free(next));
        } else if (way == 1) {
            CHECK_OK(hcq_close(other));
            open_gate(gate);
            WAIT_RESULT(done, HCQ_ERROR_CANCELLED);
            WAIT_RESULT(raise, HCQ_ERROR_CANCELLED);
        } else {
            CHECK_OK(hcq_signal_fail(gate.signal, HCQ_ERROR_HOST, NULL));
            WAIT_RESULT(done, HCQ_ERROR_HOST);
        }
        CHECK_BYTES(out, words, 256);
        hcq_queue_destroy(q);
        CHECK_OK(way == 1 ? HCQ_OK : hcq_close(other));
    }
}

/* Where a lane is full the copy waits until it has room, and says nothing. */
TEST(far_copies_wait_for_room) {
    hcq_device_desc desc = test_desc();
    desc.inflight = 1;
    test_forced.no_copy_lane = 1;
    hcq_device *full = test_open(1, &desc), *other = open_other_backend();
    hcq_queue *q = make_queue(other, HCQ_COPY);
    hcq_buffer src = make_filled(full, 64, 9), out = make_words(other, 64);
    hcq_point hold, done;
    CHECK_INDEX(hcq_queue_copy(q, out, src, 256), 0);
    CHECK_OK(hcq_device_synchronize(full, BOUND));
    hold = hold_device(full, NULL);
    log_clear();
    CHECK_OK(hcq_queue_submit(q, other, &done));
    CHECK_RESULT(hcq_wait(&done, 1, HCQ_ALL, SECOND / 50), HCQ_TIMEOUT);
    CHECK_U64(T.log.lines, 0);
    HOLD_END(hold);
    WAIT_OK(done);
    check_same(__FILE__, __LINE__, out, src);
    CHECK_OK(hcq_close(full));
    CHECK_OK(hcq_close(other));
}

/* Both halves are in the schedule and in the profile, in this order. */
TEST(far_copies_are_seen) {
    char text[1000], *out, *in;
    hcq_profile_event events[2][16];
    uint32_t counts[2], copies[2] = {0, 0};
    hcq_device *devices[2] = {T.dev, dev2()};
    far_trip t = make_trip(T.dev, dev2(), HCQ_GRAPH, 64);
    CHECK(hcq_graph_print(t.q, 0, text, sizeof text) != 0);
    out = strstr(text, "copy to staging  [1]");
    in = strstr(text, "copy from staging  [1]");
    CHECK((out != NULL) == (in != NULL));
    CHECK(out != NULL || devices_share_memory() || has_feature(HCQ_FEATURE_MAP));
    SKIP_IF(!has_feature(HCQ_FEATURE_PROFILING), "no clock");
    for (int k = 0; k < 2; k++) {
        CHECK_OK(hcq_profile_start(devices[k], NULL));
    }
    LAUNCH(t.q);
    CHECK(hcq_profile_print(devices, 2, HCQ_PROFILE_SUMMARY, text, sizeof text) != 0);
    CHECK(strstr(text, " 2 dependencies") != NULL); /* there and back */
    for (int k = 0; k < 2; k++) {
        CHECK_OK(hcq_profile_events(devices[k], events[k], 16, &counts[k], NULL));
        for (uint32_t i = 0; i < counts[k]; i++) {
            CHECK(events[k][i].kind != HCQ_COMMAND_HOST); /* what goes over is the core's own */
            copies[k] += events[k][i].kind == HCQ_COMMAND_COPY && events[k][i].command == 1 &&
                         events[k][i].bytes == 256;
        }
        CHECK_OK(hcq_profile_stop(devices[k]));
    }
    CHECK(out != NULL ? copies[0] == 1 && copies[1] == 1 : copies[0] + copies[1] == 1);
}

/* A first and a last command take the time of a run, whichever devices took part. One of
   an appended queue takes that of its device. */
TEST(graph_takes_its_time) {
    hcq_queue *g = make_graph(), *part = make_queue(dev2(), HCQ_COMPUTE);
    hcq_signal first = make_signal(T.dev, 0), last = make_signal(T.dev, 0);
    hcq_signal other = make_signal(dev2(), 0), gone = make_signal(T.dev, 0);
    uint64_t from, to;
    CHECK_INDEX(hcq_queue_timestamp(part, gone), 0);
    CHECK_INDEX(hcq_queue_append(g, part), 0);
    CHECK_OK(hcq_queue_update_signal(g, 0, &other, HCQ_KEEP));
    CHECK_OK(hcq_signal_destroy(gone));
    CHECK_INDEX(hcq_queue_timestamp(g, first), 1);
    CHECK_INDEX(record_add(g, make_add(T.dev), make_words(T.dev, 1), 0, 1), 2);
    CHECK_INDEX(record_sleep(g, 2000000), 3);
    CHECK_OK(hcq_queue_access(g, 3, make_words(dev2(), 1), HCQ_ARG_OUT));
    CHECK_OK(hcq_graph_edge(g, 1, 3)); /* else it may begin before that */
    CHECK_INDEX(hcq_queue_timestamp(g, last), 4);
    for (int way = 0; way < 3; way++) {
        hcq_point done;
        CHECK_OK(way == 1 ? hcq_queue_bind(g, T.dev) : HCQ_OK);
        CHECK_OK(launch_flags(g, way == 2 ? HCQ_STEP : 0, &done));
        WAIT_OK(done);
        CHECK_OK(hcq_signal_timestamp(other, &from));
        CHECK(from != 0);
        CHECK_OK(hcq_signal_timestamp(first, &from));
        CHECK_OK(hcq_signal_timestamp(last, &to));
        CHECK(from != 0 && to >= from); /* and by that clock at least half of what it slept: */
        CHECK(to - from >= 1000000 || !has_feature(HCQ_FEATURE_PROFILING));
    }
    CHECK_OK(hcq_signal_destroy(last));
    CHECK_RESULT(hcq_queue_submit(g, T.dev, NULL), HCQ_ERROR_CLOSED);
}
