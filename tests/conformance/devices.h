/* devices.h - several devices: waits across them, transfers, one
   that is closed or lost while others wait for it, counters that are swapped
   while others hold old points. Part of conformance.c. */
#include "shared.h"

/* Four lanes of two devices, each waits for the one before it in the middle of
   its recording, round after round; one submission carries both lanes of a
   device. Whoever is submitted first waits for what is not there yet. */
static void lanes_of_devices_in_a_ring(TEST_ARGS) {
    enum { ROUNDS = 40, LANES = 4 };
    SKIP_IF(T.variant->device_flags & HCQ_DEVICE_NO_COPY_LANE, "one lane");
    for (uint32_t way = 0; way < 4; way++) {
        hcq_device *devices[2] = {T.dev, T.dev2};
        hcq_queue *q[LANES];
        hcq_buffer words[2] = {make_words(T.dev, 2 * ROUNDS), make_words(T.dev2, 2 * ROUNDS)};
        hcq_signal s[LANES];
        hcq_point done[2];
        for (uint32_t i = 0; i < LANES; i++) { /* lane i: device i % 2 */
            q[i] = make_queue(devices[i % 2], i / 2 ? HCQ_COPY : HCQ_COMPUTE);
            s[i] = make_signal(devices[(i + way) % 2], 0);
        }
        for (uint32_t r = 0; r < ROUNDS; r++) {
            for (uint32_t i = 0; i < LANES; i++) {
                hcq_buffer word = hcq_view(words[i % 2], (i / 2 * ROUNDS + r) * 4, 4);
                if (i > 0 || r > 0) {
                    CHECK(hcq_queue_wait(q[i], hcq_at(s[(i + 3) % LANES], i ? r + 1 : r)) >= 0);
                }
                CHECK(hcq_queue_write(q[i], word, r + 1 + i, 4) >= 0);
                CHECK(hcq_queue_signal(q[i], hcq_at(s[i], r + 1)) >= 0);
            }
        }
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t d = (k + way) % 2;
            hcq_queue *pair[2] = {q[way / 2 ? d + 2 : d], q[way / 2 ? d : d + 2]};
            hcq_submission sub = submission(pair, 2);
            CHECK_OK(hcq_submit(devices[d], &sub, 1, &done[d]));
            CHECK(k == 1 || test_poll(done[d]) == HCQ_TIMEOUT);
        }
        CHECK_OK(hcq_wait(done, 2, HCQ_ALL, BOUND));
        for (uint32_t i = 0; i < LANES * ROUNDS; i++) {
            uint32_t lane = i / ROUNDS, r = i % ROUNDS;
            CHECK_U64(READ32(words[lane % 2], lane / 2 * ROUNDS + r), r + 1 + lane);
        }
    }
}

/* What happened on the first device comes back to it by way of the second. */
typedef enum how_it_fails { HOST_COMMAND, SIGNAL_FAIL, SIGNAL_DESTROY, HOWS } how_it_fails;

static void failure_comes_back(TEST_ARGS) {
    static const hcq_result results[HOWS] = {HCQ_ERROR_HOST, HCQ_ERROR_NATIVE,
                                             HCQ_ERROR_CANCELLED};
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (uint32_t i = 0; i < HOWS * 6; i++) {
        how_it_fails how = (how_it_fails)(i / 6);
        hcq_device *devices[3] = {T.dev, T.dev2, T.dev};
        hcq_signal gate = make_signal(T.dev2, 0), s[3];
        hcq_buffer words[3];
        hcq_queue *q[3];
        hcq_point done[3], next;
        for (uint32_t k = 0; k < 3; k++) { /* A, then B, then A's other lane */
            s[k] = make_signal(devices[(k + 1) % 3], 0);
            words[k] = make_words(devices[k], 2);
            q[k] = make_queue(devices[k], k == 2 ? HCQ_COPY : HCQ_COMPUTE);
            CHECK_INDEX(hcq_queue_write(q[k], words[k], 1, 4), 0);
            CHECK_INDEX(hcq_queue_signal(q[k], hcq_at(s[k], 1)), 1);
            CHECK_INDEX(hcq_queue_wait(q[k], k ? hcq_at(s[k - 1], 2) : hcq_at(gate, 1)), 2);
            CHECK(k || how != HOST_COMMAND || hcq_queue_host(q[k], host_fails, NULL) == 3);
            CHECK(hcq_queue_write(q[k], hcq_view(words[k], 4, 4), 2, 4) >= 3);
            CHECK(hcq_queue_signal(q[k], hcq_at(s[k], 2)) >= 4);
        }
        for (uint32_t k = 0; k < 3; k++) {
            hcq_submission sub = submission(&q[orders[i % 6][k]], 1);
            sub.flags = HCQ_UNORDERED; /* also where there is one lane */
            CHECK_OK(hcq_submit(devices[orders[i % 6][k]], &sub, 1, &done[orders[i % 6][k]]));
        }
        for (uint32_t k = 0; k < 3; k++) {
            WAIT_OK(hcq_at(s[k], 1));
            CHECK_RESULT(test_poll(done[k]), HCQ_TIMEOUT);
        }
        if (how == HOST_COMMAND) {
            CHECK_OK(hcq_signal_set(gate, 1));
        } else if (how == SIGNAL_FAIL) {
            CHECK_OK(hcq_signal_fail(gate, HCQ_ERROR_NATIVE));
        } else {
            CHECK_OK(hcq_signal_destroy(gate));
        }
        for (uint32_t k = 0; k < 3; k++) {
            WAIT_RESULT(done[k], results[how]);
            WAIT_RESULT(hcq_at(s[k], 2), results[how]);
            CHECK_OK(test_poll(hcq_at(s[k], 1)));
            CHECK_OK(submit_lists(devices[k], NULL, NULL, 0, &next));
            WAIT_OK(next);
            CHECK_U64(READ32(words[k], 0), 1);
            CHECK_U64(READ32(words[k], 1), 0);
        }
    }
}

/* ---- a device goes ---- */

/* A submission of T.dev that writes 1, waits for `point` and writes 2. */
static hcq_point wait_on_first(hcq_buffer word, hcq_point point, int in_list) {
    hcq_queue *q = make_queue(T.dev, HCQ_COMPUTE);
    hcq_point done = {{0}, 0};
    if (!in_list) {
        CHECK(hcq_queue_write(q, word, 1, 4) >= 0);
        CHECK(hcq_queue_wait(q, point) >= 0);
    }
    CHECK(hcq_queue_write(q, hcq_view(word, 4, 4), 2, 4) >= 0);
    CHECK_OK(submit_queue(q, T.dev, in_list ? &point : NULL, NULL, HCQ_UNORDERED, &done));
    hcq_queue_destroy(q);
    return done;
}

/* Each waits for the other, also by a transfer; one is closed. Its held work is
   cancelled, whoever waits for its points is told, and the other one goes on. */
static void closed_while_waited_for(TEST_ARGS) {
    enum { POINTS = 4 };
    for (int in_list = 0; in_list < 2; in_list++) {
        hcq_device *device = test_open(0, NULL);
        hcq_signal here = make_signal(T.dev, 0), there = make_signal(device, 0);
        hcq_signal raised = make_signal(T.dev2, 0);
        hcq_point open = hcq_at(here, 1), raise = hcq_at(raised, 1), held, next;
        hcq_buffer ends[2] = {make_words(T.dev, 1), make_words(device, 1)};
        CHECK_OK(hcq_transfer(hcq_transfer_device(ends[in_list]),
                              hcq_transfer_device(ends[!in_list]), 4, 0, BOUND));
        CHECK_OK(submit_lists(device, &open, &raise, 0, &held));
        uint64_t number = hcq_device_timeline_value(device); /* which nobody will have */
        hcq_point waited[POINTS] = {held, raise, hcq_at(there, 1),
                                    hcq_at(hcq_device_timeline(device), number)};
        hcq_buffer words[POINTS];
        hcq_point done[POINTS];
        for (uint32_t i = 0; i < POINTS; i++) {
            words[i] = make_words(T.dev, 2);
            done[i] = wait_on_first(words[i], waited[i], in_list);
            CHECK_RESULT(test_poll(done[i]), HCQ_TIMEOUT);
        }
        CHECK_OK(hcq_close(device));
        for (uint32_t i = 0; i < POINTS; i++) {
            hcq_result result = hcq_wait(&done[i], 1, HCQ_ALL, BOUND);
            CHECK(result == HCQ_ERROR_CANCELLED || result == HCQ_ERROR_CLOSED);
            CHECK_RESULT(result, i < 2 ? HCQ_ERROR_CANCELLED : result);
        }
        CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &next));
        WAIT_OK(next);
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
        for (uint32_t i = 0; i < POINTS; i++) {
            CHECK_U64(READ32(words[i], 0), in_list ? 0 : 1);
            CHECK_U64(READ32(words[i], 1), 0);
        }
        CHECK_OK(hcq_signal_set(here, 1)); /* nobody of the closed one is left to see it */
        CHECK_RESULT(test_poll(raise), HCQ_ERROR_CANCELLED);
    }
}

typedef struct device_user {
    pthread_t thread;
    hcq_device *device;                /* which another thread closes */
    hcq_queue *queue;                  /* of a device that stays */
    hcq_buffer buffer;
    uint32_t kind;
    uint32_t turns;                    /* atomic */
    hcq_result result;                 /* the last one */
    hcq_result bad;                    /* neither OK nor what closing may give */
} device_user;

static hcq_result transfer_word(device_user *u) {
    uint32_t word = 1;
    hcq_transfer_end end = hcq_transfer_device(u->buffer), host = hcq_transfer_host(&word, 4);
    return hcq_transfer(u->kind == 5 ? host : end, u->kind == 5 ? end : host, 4,
                        u->kind == 3 ? 0 : HCQ_UNORDERED, BOUND);
}

static hcq_result use_device(device_user *u) {
    hcq_point done = {{0}, 0};
    hcq_signal signal;
    hcq_buffer buffer;
    hcq_result result;
    int32_t index;
    switch (u->kind) {
    case 0:                            /* submits, waits for its points */
        result = hcq_queue_submit(u->queue, u->device, &done);
        return result == HCQ_OK ? hcq_wait(&done, 1, HCQ_ALL, BOUND) : result;
    case 1:                            /* waits for its timeline, asks about it */
        done = hcq_at(hcq_device_timeline(u->device), hcq_device_timeline_value(u->device));
        if (!done.signal.id || !done.value) { /* what a closed device answers */
            return HCQ_ERROR_CLOSED;
        }
        done.value--;
        result = hcq_wait(&done, 1, HCQ_ALL, BOUND);
        return result == HCQ_OK ? hcq_device_synchronize(u->device, BOUND) : result;
    case 2:                            /* names it in a recording */
        result = hcq_queue_reset(u->queue);
        index = result == HCQ_OK ? hcq_queue_wait_device(u->queue, u->device) : 0;
        result = index < 0 ? (hcq_result)index : result;
        return result == HCQ_OK ? hcq_queue_submit(u->queue, T.dev, NULL) : result;
    case 6:                            /* makes objects of it, but not queues: they go with it */
        result = hcq_signal_create(u->device, 0, &signal);
        result = result == HCQ_OK ? hcq_signal_set(signal, 1) : result;
        return result == HCQ_OK ? hcq_signal_destroy(signal) : result;
    case 7:                            /* memory as a step of its work */
        result = hcq_alloc_after(u->device, NULL, 0, 64, 0, &buffer, &done);
        return result == HCQ_OK ? hcq_free_after(buffer, &done, 1, NULL) : result;
    default:
        return transfer_word(u);
    }
}

/* Those that do not wait for their work stay near: closing waits for what is before it. */
static hcq_result device_user_stays_near(const device_user *u) {
    hcq_device *device = u->kind == 2 ? T.dev : u->device; /* where it submits */
    hcq_point old = hcq_at(hcq_device_timeline(device), hcq_device_timeline_value(device));
    if ((u->kind != 2 && u->kind != 7) || old.value <= 256 || !old.signal.id) {
        return HCQ_OK;
    }
    old.value -= 256;
    return hcq_wait(&old, 1, HCQ_ALL, BOUND);
}

static void *device_user_run(void *user) {
    device_user *u = (device_user *)user;
    do {
        u->result = use_device(u);
        if (__atomic_add_fetch(&u->turns, 1, __ATOMIC_RELEASE) > 64) {
            mock_sleep(100000);        /* others want to have their turns */
        }
        if (u->result == HCQ_OK) {
            u->result = device_user_stays_near(u);
        }
        int gone = u->result == HCQ_ERROR_CLOSED || u->result == HCQ_ERROR_CANCELLED;
        if (u->result != HCQ_OK && !gone) {
            u->bad = u->result;
        }
    } while (u->result == HCQ_OK);
    return NULL;
}

/* Closed by one thread while others submit to it, record it, wait for it, copy: they
   get their work done or are told, and the handle stays good while they hold it. In
   half of the rounds its lane is held, and those that wait for that never have a turn. */
static void closed_under_use(TEST_ARGS) {
    enum { USERS = 8 };
    for (uint32_t round = 0; round < (T.quick ? 6u : 20u); round++) {
        hcq_device *device = test_open(1, NULL);
        const hcq_point gate = make_gate(T.dev);
        const int held = round % 2;
        device_user users[USERS];
        memset(users, 0, sizeof users);
        for (uint32_t i = 0; i < USERS; i++) {
            users[i].device = device;
            users[i].kind = i;
            users[i].queue = make_queue(T.dev, HCQ_COMPUTE);
            users[i].buffer = make_words(device, 1);
            CHECK_OK(hcq_device_retain(device));
        }
        CHECK_OK(hcq_device_synchronize(device, BOUND));
        CHECK_OK(held ? submit_lists(device, &gate, NULL, 0, NULL) : HCQ_OK);
        for (uint32_t i = 0; i < USERS; i++) {
            pthread_create(&users[i].thread, NULL, device_user_run, &users[i]);
        }
        for (uint32_t i = held ? 4 : 0; i < USERS; i++) { /* all are at it */
            while (__atomic_load_n(&users[i].turns, __ATOMIC_ACQUIRE) < 1 + round * 3) {
                hcq_sys_yield();
            }
        }
        hcq_result closed = hcq_close(device);
        for (uint32_t i = 0; i < USERS; i++) {
            pthread_join(users[i].thread, NULL);
        }
        CHECK_OK(closed);
        for (uint32_t i = 0; i < USERS; i++) {
            CHECK_OK(users[i].bad);
            CHECK_RESULT(hcq_queue_submit(users[0].queue, device, NULL), HCQ_ERROR_CLOSED);
            CHECK_OK(hcq_device_release(device));
        }
        open_gate(gate);
        for (uint32_t i = 0; i < USERS; i++) {
            hcq_queue_destroy(users[i].queue);
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    }
}

/* ---- counters that are swapped under old points ---- */

/* Two devices with counters of 16 values. A lot is submitted to the first; in
   between, after more than two swaps each time, the same bound recording, and
   the second one waits for a point of it from long ago. */
static void swap_many(uint32_t flags) {
    enum { KEPT = 64, RARE = 100 };    /* 100 submissions are at least 6 swaps */
    const uint32_t count = 5000;
    hcq_device_desc desc = test_desc();
    desc.counter_limit = 16;
    desc.flags |= flags;
    hcq_device *devices[2] = {test_open(0, &desc), test_open(1, &desc)};
    hcq_buffer word[2] = {make_words(devices[0], 2), make_words(devices[1], 1)};
    hcq_program *add[2] = {make_add(devices[0]), make_add(devices[1])};
    hcq_queue *rare = make_queue(devices[0], HCQ_COMPUTE);
    hcq_queue *often = make_queue(devices[0], HCQ_COMPUTE);
    hcq_queue *other = make_queue(devices[1], HCQ_COMPUTE);
    hcq_signal s = make_signal(devices[1], 0), gate = make_signal(devices[0], 0);
    hcq_point kept[KEPT], held, open[2];
    uint32_t rares = 0;
    CHECK_INDEX(record_add(rare, add[0], word[0], 0, 1), 0);
    CHECK_INDEX(hcq_queue_signal(rare, hcq_at(s, 1)), 1);
    CHECK_INDEX(record_add(often, add[0], word[0], 1, 1), 0);
    CHECK_INDEX(hcq_queue_wait(other, hcq_at(s, 1)), 0);
    CHECK_INDEX(record_add(other, add[1], word[1], 0, 1), 1);
    CHECK_OK(hcq_queue_bind(rare, devices[0]));
    CHECK_OK(hcq_queue_bind(often, devices[0]));
    CHECK_OK(hcq_queue_bind(other, devices[1]));
    for (uint32_t i = 0; i < count; i++) {
        if (i % RARE == 0) {
            CHECK_OK(hcq_queue_update_signal(rare, 1, NULL, rares + 1));
            CHECK_OK(hcq_queue_submit(rare, devices[0], &kept[rares % KEPT]));
            if (rares == 0) {          /* held until the end, for the oldest point */
                open[0] = kept[0];
                open[1] = hcq_at(gate, 1);
                CHECK_OK(submit_waits(devices[1], open, 2, NULL, HCQ_UNORDERED, &held));
            }
            rares++;
        }
        if (i % RARE == RARE / 2 && rares > 1) { /* a point from 150 submissions ago */
            CHECK_OK(hcq_queue_update_wait(other, 0, NULL, rares - 1));
            CHECK_OK(hcq_queue_submit(other, devices[1], NULL));
        }
        CHECK_OK(hcq_queue_submit(often, devices[0], NULL));
    }
    CHECK_OK(hcq_wait(kept, rares < KEPT ? rares : KEPT, HCQ_ALL, BOUND));
    CHECK_RESULT(test_poll(held), HCQ_TIMEOUT);
    CHECK_OK(hcq_signal_set(gate, 1));
    WAIT_OK(held);
    WAIT_OK(hcq_at(s, rares));
    CHECK_U64(READ32(word[0], 0), rares);
    CHECK_U64(READ32(word[0], 1), count);
    CHECK_U64(READ32(word[1], 0), rares - 1);
    CHECK(test_query(devices[0], HCQ_QUERY_COUNTER_SWAPS) >= count / 16);
    CHECK_OK(hcq_close(devices[0]));
    CHECK_OK(hcq_close(devices[1]));
}

static void swaps_under_old_points(TEST_ARGS) {
    swap_many(0);
    swap_many(HCQ_DEVICE_NO_NATIVE_WAIT);
}

/* A device that is opened while another one gives back its memory. */
typedef struct late_opener {
    pthread_t thread;
    hcq_device_desc desc;
    char name[32];
    hcq_device *device;
    hcq_signal signals[8];
    hcq_result result;
    uint32_t closing, opened;          /* atomic */
} late_opener;

static void *late_opener_run(void *user) {
    late_opener *o = (late_opener *)user;
    while (!__atomic_load_n(&o->closing, __ATOMIC_ACQUIRE)) { test_sleep_ms(1); }
    o->result = hcq_open(o->name, &o->desc, &o->device);
    for (int i = 0; i < 8 && o->result == HCQ_OK; i++) {
        o->result = hcq_signal_create(o->device, 7, &o->signals[i]);
    }
    __atomic_store_n(&o->opened, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *late_opener_alloc(void *user, size_t size, size_t align) {
    (void)user;
    return test_hook_alloc(&T.memory, size, align);
}

/* Leaves a moment for the other thread, which may need the lock that we have. */
static void late_opener_free(void *user, void *ptr, size_t size) {
    late_opener *o = (late_opener *)user;
    for (int i = 0; i < 20 && __atomic_load_n(&o->closing, __ATOMIC_ACQUIRE) &&
                    !__atomic_load_n(&o->opened, __ATOMIC_ACQUIRE); i++) {
        test_sleep_ms(1);
    }
    test_hook_free(&T.memory, ptr, size);
}

static void opened_while_another_closes(TEST_ARGS) {
    late_opener o;
    memset(&o, 0, sizeof o);
    o.desc = test_desc();
    snprintf(o.name, sizeof o.name, "%s", T.variant->backend);
    hcq_device_desc desc = o.desc;
    desc.memory.alloc_fn = late_opener_alloc;
    desc.memory.free_fn = late_opener_free;
    desc.memory.user = &o;
    hcq_device *device = test_open(0, &desc);
    hcq_signal signal = make_signal(device, 3);
    uint64_t value = 0;
    pthread_create(&o.thread, NULL, late_opener_run, &o);
    __atomic_store_n(&o.closing, 1, __ATOMIC_RELEASE);
    CHECK_OK(hcq_close(device));
    pthread_join(o.thread, NULL);
    CHECK_OK(o.result);
    CHECK_RESULT(hcq_signal_value(signal, &value), HCQ_ERROR_CLOSED); /* not another's 7 */
    CHECK_OK(hcq_close(o.device));
}

#define DEVICES_TESTS \
    TEST(lanes_of_devices_in_a_ring), TEST(failure_comes_back), TEST(closed_while_waited_for), \
    TEST(closed_under_use), TEST(swaps_under_old_points), TEST(opened_while_another_closes)
