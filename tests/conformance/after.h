/* after.h - memory as a step in the order of work: allocated and freed behind
   points, kept while somebody uses it; eager calls beside work that is held, which
   neither block nor overtake. Part of conformance.c. */

/* ---- alloc_after ---- */

/* Reads or writes a few bytes without waiting for what is held. */
static hcq_result put_now(hcq_buffer dst, const void *bytes, uint64_t size) {
    return hcq_transfer(hcq_transfer_device(dst), hcq_transfer_host(bytes, size), size,
                        HCQ_UNORDERED, BOUND);
}

static hcq_result get_now(void *bytes, hcq_buffer src, uint64_t size) {
    return hcq_transfer(hcq_transfer_host(bytes, size), hcq_transfer_device(src), size,
                        HCQ_UNORDERED, BOUND);
}

/* Memory that waits is released by submitted work, of this device and of another one, and at
   once where there is nothing to wait for. What is allocated is recorded and used by
   submissions before, which are held with it, and nobody else is. What is freed is usable
   until then, refused from then on, and handed out again. */
TEST(memory_released_by_submitted_work) {
    for (int i = 0; i < 2; i++) {
        hcq_device *from = i ? dev2() : T.dev;
        hcq_point waits[2] = {hcq_at(make_signal(from, 0), 7), make_gate(T.dev)};
        hcq_point ready, freed, done;
        hcq_buffer a, old = make_buffer(T.dev, 64, 0), copy = make_words(T.dev, 16);
        hcq_queue *reads = make_queue(T.dev, HCQ_COMPUTE);
        const unsigned char byte = 0x21;
        uint32_t word = 0;
        CHECK_INDEX(hcq_queue_copy(reads, copy, old, 64), 0);
        CHECK_OK(hcq_free_after(old, waits, 2, &freed));
        CHECK_OK(hcq_alloc_after(T.dev, waits, 2, 128, 0, &a, &ready));
        CHECK(a.size == 128 && a.address != 0 && a.address % 64 == 0 && a.device == T.dev);
        open_gate(waits[1]);
        CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT); /* one of two */
        CHECK_RESULT(test_poll(freed), HCQ_TIMEOUT);
        RUN_OK(make_filler(T.dev, old, 0x66), T.dev); /* they are UNORDERED: its lanes go on */
        CHECK_OK(put_now(old, &byte, 1));
        RUN_OK(reads, T.dev);
        CHECK_OK(get_now(&word, copy, 4));
        CHECK_U64(word, 0x66666621);
        CHECK_OK(submit_behind(make_filler(T.dev, a, 9), T.dev, &ready, &done));
        CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
        CHECK(test_query(T.dev, HCQ_QUERY_HELD) >= 2);
        uint64_t bytes = test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES);
        CHECK_OK(submit_lists(from, NULL, &waits[0], HCQ_UNORDERED, NULL)); /* passes `done` */
        WAIT_OK(freed);
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), bytes - 64);
        WAIT_OK(done);
        CHECK_OK(test_poll(ready));
        CHECK_FILLED(a, 9);
        CHECK_RESULT(hcq_copyin(old, &byte, 1), HCQ_ERROR_CLOSED);
        CHECK_RESULT(hcq_queue_submit(reads, T.dev, NULL), HCQ_ERROR_CLOSED);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        CHECK_U64(make_buffer(T.dev, 64, 0).address, old.address);
        bytes = test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES);
        CHECK_OK(hcq_free_after(a, waits, i ? 2 : 0, &freed)); /* reached ones, none */
        WAIT_OK(freed);
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), bytes - 128);
    }
}

/* A freed block whose last user, work of `user`, is still on its way, handed over or held:
   nobody gets it before that is done, or is behind it. By hcq_free_after the work may also
   come between the call and the end of what it waits for. */
static void reuse_block(hcq_device *user, uint32_t flags, int handed, int after) {
    static uint32_t go;
    hcq_point gate = make_gate(T.dev), early = make_gate(T.dev), old_done, ready, done;
    hcq_buffer a = make_buffer(T.dev, 4096, flags), b;
    hcq_queue *old = make_call(user, HCQ_COMPUTE, host_until, &go);
    hcq_queue *q = make_queue(T.dev, HCQ_COPY);
    __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
    CHECK_INDEX(hcq_queue_fill(old, a, 4096, 0x5a, 1), 1);
    CHECK_OK(after ? hcq_free_after(a, &early, 1, NULL) : HCQ_OK);
    CHECK_OK(submit_behind(old, user, handed ? NULL : &gate, &old_done));
    open_gate(early);
    CHECK_OK(after ? HCQ_OK : hcq_free(a));
    hcq_buffer other = make_buffer(T.dev, 4096, flags);
    CHECK(other.address != a.address);
    CHECK_OK(hcq_alloc_after(T.dev, NULL, 0, 4096, flags, &b, &ready));
    CHECK(!(flags & HCQ_HOST_VISIBLE) || b.host != NULL);
    CHECK(b.address != a.address || test_poll(ready) == HCQ_TIMEOUT);
    CHECK_INDEX(hcq_queue_fill(q, hcq_view(b, 0, 2048), 2048, 0x11, 1), 0);
    CHECK_OK(submit_behind(q, T.dev, &ready, &done));
    open_gate(gate);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    WAIT_OK(old_done);
    WAIT_OK(done);
    CHECK_FILLED(hcq_view(b, 0, 2048), 0x11);
    if (flags & HCQ_ZEROED) {
        CHECK_FILLED(hcq_view(b, 2048, 2048), 0);
    }
    CHECK_OK(hcq_free(b));
    CHECK_OK(hcq_free(other));
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_OK(hcq_trim(T.dev, 0));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_CACHED_BYTES), 0); /* nobody keeps it any longer */
}

/* Work of the same device, and of another one that sees its memory. */
TEST(alloc_after_waits_for_last_users) {
    for (uint32_t i = 0; i < 64; i++) {
        hcq_device *user = i & 16 && has_feature(HCQ_FEATURE_MAP) ? dev2() : T.dev;
        reuse_block(user, i & 7, (i & 8) != 0, (i & 32) != 0);
    }
}

/* Freed again before it was ever ready, by either way. */
TEST(alloc_after_freed_early) {
    hcq_point gate = make_gate(T.dev), last = make_gate(T.dev), ready, freed;
    hcq_buffer a, b;
    CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 640, 0, &a, &ready));
    CHECK_OK(hcq_free(a));
    CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    CHECK_OK(hcq_alloc_after(T.dev, &gate, 1, 640, 0, &b, &ready));
    CHECK_OK(hcq_free_after(b, &ready, 1, &freed));
    CHECK_OK(hcq_alloc_after(T.dev, &last, 1, 640, 0, &b, &ready));
    CHECK_OK(hcq_free_after(b, &gate, 1, NULL)); /* before it is ready */
    GATE_END(gate, freed);
    CHECK_RESULT(test_poll(ready), HCQ_TIMEOUT);
    GATE_END(last, ready);
    CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0);
}

/* alloc_after takes over a block that another device still writes, fails, and is
   freed: the block is not free before that device is done. Neither does it leave the
   cache, as a younger one does that nobody uses. */
TEST(failed_alloc_keeps_the_users) {
    SKIP_IF(!devices_share_memory(), "devices do not see each other's memory");
    static unsigned char bytes[4096];
    hcq_point wait = make_gate(T.dev), ready;
    hcq_buffer x = make_buffer(T.dev, sizeof bytes, 0), y;
    memset(bytes, 0x11, sizeof bytes);
    CHECK_OK(hcq_signal_fail(wait.signal, HCQ_ERROR_HOST, NULL));
    for (int named = 0; named < 2; named++) { /* a queue still names the block, or none */
        hcq_queue *q = make_holder(dev2());
        CHECK_INDEX(hcq_queue_fill(q, x, sizeof bytes, 0xab, 1), 1);
        hcq_point done = hold_start(q, dev2());
        if (!named) {
            hcq_queue_destroy(q);
        }
        hcq_buffer idle = make_buffer(T.dev, 1u << 20, 0);
        CHECK_OK(hcq_free(x));
        CHECK_OK(hcq_free(idle));
        CHECK_OK(hcq_trim(T.dev, 0));
        uint64_t cached = test_query(T.dev, HCQ_QUERY_CACHED_BYTES);
        CHECK_OK(hcq_alloc_after(T.dev, &wait, 1, sizeof bytes, 0, &y, &ready));
        WAIT_RESULT(ready, HCQ_ERROR_HOST);
        CHECK_OK(hcq_free(y));
        hcq_buffer z = make_buffer(T.dev, sizeof bytes, 0);
        CHECK_OK(hcq_copyin(z, bytes, sizeof bytes));
        HOLD_END(done);
        CHECK(cached >= sizeof bytes && cached < 1u << 20);
        CHECK_BYTES(z, bytes, sizeof bytes);
        x = z;
    }
}

/* ---- failed waits ---- */

/* A wait fails, before or after the call, or its signal goes. What is allocated fails
   with it, and is still to be freed, once. What is freed is freed all the same, as there
   waits only order, but not before the others are over, too. */
TEST(memory_after_failed_waits) {
    for (int i = 0; i < 3; i++) {
        hcq_point gates[2] = {make_gate(T.dev), make_gate(T.dev)}, freed, ready, after, done;
        hcq_buffer a, b = make_words(T.dev, 64);
        hcq_result want = i < 2 ? HCQ_ERROR_HOST : HCQ_ERROR_CANCELLED;
        CHECK_OK(i == 0 ? hcq_signal_fail(gates[0].signal, HCQ_ERROR_HOST, NULL) : HCQ_OK);
        CHECK_OK(hcq_free_after(b, gates, 2, &freed));
        CHECK_OK(hcq_alloc_after(T.dev, gates, 1, 1000, 0, &a, &ready));
        CHECK_OK(submit_lists(T.dev, &ready, NULL, HCQ_UNORDERED, &after));
        CHECK_OK(i == 1 ? hcq_signal_fail(gates[0].signal, HCQ_ERROR_HOST, NULL) : HCQ_OK);
        CHECK_OK(i == 2 ? hcq_signal_destroy(gates[0].signal) : HCQ_OK);
        WAIT_RESULT(ready, want);
        WAIT_RESULT(after, want);      /* who waits for the buffer learns of it */
        CHECK_OK(submit_behind(make_filler(T.dev, b, 1), T.dev, NULL, &done)); /* one is to come */
        WAIT_OK(done);
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 256 + 1000);
        GATE_END(gates[1], freed);
        CHECK_OK(hcq_free(a));
        CHECK_U64(test_query(T.dev, HCQ_QUERY_ALLOCATED_BYTES), 0);
        CHECK_RESULT(hcq_free(a), HCQ_ERROR_CLOSED);
    }
}

/* ---- temporaries ---- */

/* One temporary: allocated behind the work so far, used on a lane of two, freed by
   one way or the other. */
static void use_temporary(hcq_device *device, hcq_queue *q, hcq_program *mix, hcq_buffer sum,
                          uint32_t round) {
    hcq_buffer a;
    hcq_point ready, done;
    CHECK_OK(hcq_alloc_after(device, NULL, 0, sum.size, 0, &a, &ready));
    CHECK_OK(hcq_queue_reset(q));
    CHECK_INDEX(hcq_queue_fill(q, a, sum.size, round, 4), 0);
    CHECK_INDEX(record_mix(q, mix, sum, a, (uint32_t)sum.size / 4, round), 1);
    CHECK_OK(SUBMIT(device, q, &done, .waits = &ready, .wait_count = 1, .affinity = round % 2));
    CHECK_OK(round / 100 % 2 ? hcq_free_after(a, &done, 1, NULL) : hcq_free(a));
}

/* A thousand temporaries that the host never waits for take the room of a few. Each
   adds to the sum of its lane, so that none may be handed out too early. */
TEST(temporaries_stay_bounded) {
    enum { ROUNDS = TEST_SANITIZED ? 300 : 1000, WORDS = 1024, ROOM = 8 * WORDS * 4 };
    for (uint32_t inflight = 0; inflight <= 3; inflight += 3) { /* 3: lanes are always full */
        static uint32_t model[2][WORDS];
        hcq_device *device = OPEN_WITH(0, .compute_lanes = 2, .inflight = inflight);
        hcq_program *mix = make_mix(device);
        hcq_queue *q = make_queue(device, HCQ_COMPUTE);
        hcq_buffer sums[2] = {make_words(device, WORDS), make_words(device, WORDS)};
        uint64_t base = test_query(device, HCQ_QUERY_ALLOCATED_BYTES), most = 0;
        memset(model, 0, sizeof model);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            use_temporary(device, q, mix, sums[round % 2], round);
            uint64_t bytes = test_query(device, HCQ_QUERY_ALLOCATED_BYTES) +
                             test_query(device, HCQ_QUERY_CACHED_BYTES) - base;
            most = bytes > most ? bytes : most;
            for (uint32_t i = 0; i < WORDS; i++) {
                uint32_t *word = &model[round % 2][i];
                *word = *word * 31u + round + round;
            }
        }
        CHECK_BYTES(sums[0], model[0], sizeof model[0]);
        CHECK_BYTES(sums[1], model[1], sizeof model[1]);
        CHECK(most <= ROOM || T.variant->narrow); /* there work queues for a counter, too */
        CHECK_OK(hcq_close(device));
    }
}

/* ---- eager calls ---- */

static hcq_device *eager_device(uint32_t staging_bytes, uint32_t staging_count) {
    return OPEN_WITH(0, .staging_bytes = staging_bytes, .staging_count = staging_count,
                     .timeout_ns = BOUND); /* so that a call that waits fails */
}

/* Memory of each kind, plain, visible, imported, on a device of its own. */
static void each_eager_memory(uint32_t size, uint32_t staging_bytes, uint32_t staging_count,
                              void (*test)(hcq_device *device, hcq_buffer buffer)) {
    static unsigned char mine[65536];
    for (int kind = 0; kind < 2 + has_feature(HCQ_FEATURE_IMPORT); kind++) {
        hcq_device *device = eager_device(staging_bytes, staging_count);
        hcq_buffer buffer;
        CHECK_OK(kind == 2 ? hcq_import(device, mine, size, 0, &buffer)
                           : hcq_alloc(device, size, kind ? HCQ_HOST_VISIBLE : 0, &buffer));
        test(device, buffer);
        CHECK_OK(hcq_free(buffer));
        CHECK_OK(hcq_close(device));
    }
}

/* In order between what is held and what comes, and the source is free at once. */
static void copyin_in_order(hcq_device *device, hcq_buffer buffer) {
    unsigned char in[5000], want[5000], old[5000];
    hcq_buffer seen = make_buffer(device, 2 * sizeof in, 0);
    hcq_point gate = make_gate(device), done;
    hcq_queue *before = make_queue(device, HCQ_COMPUTE), *after = make_queue(device, HCQ_COPY);
    CHECK_INDEX(hcq_queue_fill(before, buffer, sizeof in, 0x77, 1), 0);
    CHECK_INDEX(hcq_queue_copy(before, seen, buffer, sizeof in), 1);
    CHECK_INDEX(hcq_queue_copy(after, hcq_view(seen, sizeof in, 0), buffer, sizeof in), 0);
    CHECK_OK(submit_behind(before, device, &gate, NULL));
    fill_pattern(in, sizeof in, T.seed);
    memcpy(want, in, sizeof in);
    CHECK_OK(hcq_copyin(buffer, in, sizeof in));
    memset(in, 0, sizeof in);
    CHECK_OK(submit_behind(after, device, NULL, &done));
    CHECK(test_poll(done) == HCQ_TIMEOUT);
    GATE_END(gate, done);
    memset(old, 0x77, sizeof old);
    CHECK_BYTES(hcq_view(seen, 0, sizeof in), old, sizeof in);
    CHECK_BYTES(hcq_view(seen, sizeof in, 0), want, sizeof in);
    CHECK_BYTES(buffer, want, sizeof in);
}

TEST(copyin_beside_held_work) {
    each_eager_memory(5000, 4096, 4, copyin_in_order);
}

enum { STAGED = 4096, STAGES = 3 };

/* All of a copyin or nothing: what does not fit is refused at once. Small ones share a piece. */
static void copyin_whole(hcq_device *device, hcq_buffer buffer) {
    static unsigned char in[STAGED * STAGES + 1], zeros[STAGED * STAGES + 1];
    CHECK_OK(hcq_copyin(buffer, zeros, sizeof in));
    CHECK_OK(hcq_device_synchronize(device, BOUND));
    fill_pattern(in, sizeof in, T.seed);
    for (int round = 0; round < 3; round++) {
        hcq_point gate = make_gate(device);
        CHECK_OK(submit_lists(device, &gate, NULL, 0, NULL));
        CHECK_SAYS(hcq_copyin(buffer, in, sizeof in), HCQ_ERROR_LIMIT, "copyin of 12289 bytes");
        CHECK_U64(test_query(device, HCQ_QUERY_HELD), 1);
        if (round == 2) {              /* the same in parts, of which 256 fill a piece */
            for (uint32_t at = 0, size = 16; at < STAGED * STAGES; at += size) {
                size = at < STAGED ? 16 : STAGED;
                CHECK_OK(hcq_copyin(hcq_view(buffer, at, size), in + at, size));
            }
            CHECK_RESULT(hcq_copyin(buffer, in, 1), HCQ_ERROR_LIMIT);
        } else if (round == 1) {
            CHECK_OK(hcq_copyin(buffer, in, STAGED * STAGES));
            CHECK_RESULT(hcq_copyin(buffer, in, 1), HCQ_ERROR_LIMIT);
        }
        open_gate(gate);
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_BYTES(buffer, round ? in : zeros, STAGED * STAGES);
    }
    CHECK_OK(hcq_copyin(buffer, in, sizeof in)); /* waits for its own parts */
    CHECK_BYTES(buffer, in, sizeof in);
}

TEST(copyin_beyond_staging) {
    each_eager_memory(STAGED * STAGES + 1, STAGED, STAGES, copyin_whole);
}

static hcq_result call_add(hcq_program *add, hcq_buffer buffer, uint64_t value, uint64_t *ns) {
    const add_args args = {buffer.address, (uint32_t)value, 1};
    return hcq_program_call(add, &args, sizeof args, dims_one, dims_one, ns);
}

typedef struct waiting_call {
    blocked_call call;
    hcq_program *program;              /* called with a time; NULL: copyout */
    hcq_buffer buffer;
} waiting_call;

static void *waiting_call_run(void *user) {
    waiting_call *c = (waiting_call *)user;
    uint64_t ns;
    uint32_t word;
    blocked_begin(&c->call);
    return blocked_end(&c->call, c->program ? call_add(c->program, c->buffer, 1, &ns)
                                            : hcq_copyout(&word, c->buffer, 4));
}

/* A thread that waits in a call for its end stands in nobody's way. */
TEST(calls_beside_a_waiting_thread) {
    for (int reads = 0; reads < 2; reads++) {
        hcq_device *device = eager_device(0, 0);
        hcq_point gate = make_gate(device);
        hcq_buffer word = make_words(device, 4);
        hcq_program *add = make_add(device);
        /* what nobody writes meanwhile */
        waiting_call c = {{0}, reads ? NULL : add, reads ? hcq_view(word, 12, 4) : word};
        hcq_clock clock;
        uint32_t four = 4, polled = 0, seen = 0;
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(submit_lists(device, &gate, NULL, 0, NULL));
        pthread_create(&c.call.thread, NULL, waiting_call_run, &c);
        while ((!reads || !word.host) && test_query(device, HCQ_QUERY_HELD) < 2) {
            test_sleep_ms(1);          /* it waits by then */
        }
        hcq_result poll = hcq_transfer(hcq_transfer_host(&polled, 4), hcq_transfer_device(word),
                                       4, 0, 0);
        hcq_result calls[5];
        calls[0] = put_now(hcq_view(word, 8, 4), &four, 4);
        calls[1] = get_now(&seen, hcq_view(word, 8, 4), 4);
        calls[2] = call_add(add, word, 10, NULL);
        calls[3] = hcq_device_clock(device, &clock);
        calls[4] = hcq_copyin(hcq_view(word, 4, 4), &four, 4);
        int over = is_over(&c.call);
        open_gate(gate);
        CHECK_OK(call_ends(&c.call));
        CHECK(!over);
        CHECK_RESULT(poll, HCQ_TIMEOUT);
        for (int i = 0; i < 5; i++) {
            CHECK_OK(calls[i]);
        }
        CHECK_U64(seen, 4);
        CHECK_U64(READ32(word, 0), reads ? 10 : 11);
        CHECK_U64(READ32(word, 1), 4);
        CHECK_OK(hcq_close(device));
    }
}

/* A lane that is full: eager calls give up in their own time, not the device's. */
TEST(transfers_give_up_in_a_full_lane) {
    static unsigned char bytes[4096];
    for (uint32_t flags = 0; flags <= HCQ_UNORDERED; flags += HCQ_UNORDERED) {
        hcq_device *device = OPEN_WITH(0, .inflight = 1);
        hcq_buffer a = make_buffer(device, sizeof bytes, 0);
        hcq_buffer b = make_buffer(device, sizeof bytes, 0);
        hcq_point done = hold_device(device, NULL), last = done;
        if (test_info(device).copy_lanes != 0) { /* fills the copy lane, too */
            hcq_queue *q = make_queue(device, HCQ_COPY);
            CHECK_INDEX(hcq_queue_wait(q, done), 0);
            CHECK_INDEX(hcq_queue_fill(q, a, sizeof bytes, 3, 1), 1);
            CHECK_OK(hcq_queue_submit(q, device, &last));
        }
        hcq_result copied = hcq_transfer(hcq_transfer_device(b), hcq_transfer_device(a),
                                         sizeof bytes, flags, SECOND / 50);
        int in_time = holds();
        hcq_result in = hcq_transfer(hcq_transfer_device(b), hcq_transfer_host(bytes, 4096),
                                     sizeof bytes, flags, SECOND / 50);
        in_time = in_time && holds();
        hold_release();
        CHECK_RESULT(copied, HCQ_TIMEOUT);
        CHECK(in == HCQ_TIMEOUT || (flags && in == HCQ_OK)); /* the host writes it itself */
        CHECK(in_time);
        WAIT_OK(last);
        CHECK_OK(hcq_close(device));
    }
}
