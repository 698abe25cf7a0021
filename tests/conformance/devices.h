/* devices.h - results, clocks; many devices, one that is closed while others use
   it, one that is opened meanwhile. What waits across devices, and for one that goes, see
   random/answers.c. Part of conformance.c. */

TEST(results_have_names) {
    static const hcq_result all[] = {
#define RESULT_CODE(name, value, text) name,
        HCQ_RESULTS(RESULT_CODE)
#undef RESULT_CODE
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK(strncmp(hcq_result_name(all[i]), "HCQ_", 4) == 0);
        CHECK(strlen(hcq_result_text(all[i])) > 1);
    }
    CHECK(strcmp(hcq_result_name(HCQ_ERROR_LIMIT), "HCQ_ERROR_LIMIT") == 0);
    CHECK(strcmp(hcq_result_text(HCQ_ERROR_LIMIT), "a limit is reached") == 0);
    CHECK(hcq_result_name((hcq_result)-9999) != NULL);
    CHECK(hcq_result_text((hcq_result)-9999) != NULL);
    CHECK_U64(hcq_version(), HCQ_VERSION_MAJOR << 16 | HCQ_VERSION_MINOR << 8 | HCQ_VERSION_PATCH);
}

TEST(clock_converts) {
    hcq_clock first = CLOCK_OF(T.dev), second;
    CHECK_U64(hcq_clock_to_host(&first, first.device_ns), first.host_ns);
    CHECK_U64(hcq_clock_to_host(&first, first.device_ns + 1000), first.host_ns + 1000);
    CHECK_U64(hcq_clock_to_host(&first, first.device_ns - 1000), first.host_ns - 1000);
    second = CLOCK_OF(T.dev);
    CHECK(second.device_ns > first.device_ns);
    hcq_point never = hcq_at(make_signal(T.dev, 0), 1);
    CHECK_OK(submit_lists(T.dev, &never, NULL, 0, NULL));
    first = CLOCK_OF(T.dev);           /* also while its lanes are held */
    CHECK(first.device_ns > second.device_ns);
}

/* Devices up to the limit; past it a clear answer, and all of them close. */
TEST(many_devices) {
    enum { MORE = 70 };
    hcq_device *devices[MORE] = {NULL};
    hcq_device_desc desc = test_desc();
    hcq_result result = HCQ_OK;
    uint32_t count = 0;
    desc.held_pool = 16;
    desc.inflight = 16;
    while (count < MORE && result == HCQ_OK) {
        result = hcq_open(T.variant->backend, &desc, &devices[count]);
        count += result == HCQ_OK;
    }
    hcq_result closed = HCQ_OK;
    for (uint32_t i = 0; i < count; i++) {
        hcq_point done;
        if (hcq_queue_submit(make_queue(devices[i], HCQ_COMPUTE), devices[i], &done) != HCQ_OK ||
            hcq_wait(&done, 1, HCQ_ALL, BOUND) != HCQ_OK || hcq_close(devices[i]) != HCQ_OK) {
            closed = HCQ_ERROR_HOST;
        }
    }
    CHECK_OK(closed);
    SKIP_IF(T.hardware && result == HCQ_ERROR_NATIVE && count >= 8, "the driver has no more");
    CHECK_RESULT(result, HCQ_ERROR_LIMIT);
    CHECK(count == 63);                /* one is open already */
}

/* ---- one goes ---- */

typedef struct device_user {
    pthread_t thread;
    hcq_device *device;                /* which another thread closes */
    hcq_queue *queue;                  /* of a device that stays */
    hcq_buffer buffer;
    uint32_t kind;
    uint32_t turns;                    /* atomic */
    hcq_result result;                 /* the last one */
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
    switch (u->kind) {
    case 0:                            /* submits, waits for its points */
        TRY(hcq_queue_submit(u->queue, u->device, &done));
        return hcq_wait(&done, 1, HCQ_ALL, BOUND);
    case 1:                            /* waits for its timeline, asks about it */
        done = hcq_at(hcq_device_timeline(u->device), hcq_device_timeline_value(u->device));
        if (!done.signal.id || !done.value) { /* what a closed device answers */
            return HCQ_ERROR_CLOSED;
        }
        done.value--;
        TRY(hcq_wait(&done, 1, HCQ_ALL, BOUND));
        return hcq_device_synchronize(u->device, BOUND);
    case 2:                            /* names it in a recording */
        TRY(hcq_queue_reset(u->queue));
        TRY(record_result(hcq_queue_wait_device(u->queue, u->device)));
        TRY(hcq_queue_submit(u->queue, T.dev, &done));
        return hcq_wait(&done, 1, HCQ_ALL, BOUND);
    case 6:                            /* makes objects of it, but not queues: they go with it */
        TRY(hcq_signal_create(u->device, 0, &signal));
        TRY(hcq_signal_set(signal, 1));
        return hcq_signal_destroy(signal);
    case 7:                            /* memory as a step of its work */
        TRY(hcq_alloc_after(u->device, NULL, 0, 64, 0, &buffer, &done));
        TRY(hcq_free_after(buffer, &done, 1, &done));
        return hcq_wait(&done, 1, HCQ_ALL, BOUND);
    default:
        return transfer_word(u);
    }
}

static void *device_user_run(void *user) {
    device_user *u = (device_user *)user;
    do {
        u->result = use_device(u);
        if (__atomic_add_fetch(&u->turns, 1, __ATOMIC_RELEASE) > 64) {
            mock_sleep(100000);        /* others want to have their turns */
        }
    } while (u->result == HCQ_OK);
    return NULL;
}

/* Closed by one thread while others submit to it, record it, wait for it, copy: they
   get their work done or are told, and the handle stays good while they hold it. In
   half of the rounds its lane is held, and those that wait for that never have a turn. */
TEST(closed_under_use) {
    enum { USERS = 8 };
    for (uint32_t round = 0; round < (T.quick ? 6u : 20u); round++) {
        hcq_device *device = test_open(1, NULL);
        const hcq_point gate = make_gate(T.dev);
        const int held = round % 2;
        device_user users[USERS] = {0};
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
        open_gate(gate);
        for (uint32_t i = 0; i < USERS; i++) {
            CHECK(users[i].result == HCQ_ERROR_CLOSED || users[i].result == HCQ_ERROR_CANCELLED);
            CHECK_RESULT(hcq_queue_submit(users[0].queue, device, NULL), HCQ_ERROR_CLOSED);
            CHECK_OK(hcq_device_release(device));
        }
        CHECK_OK(hcq_device_synchronize(T.dev, BOUND));
    }
}

/* A device that is opened while another one gives back its memory: the hook leaves it
   a moment, as it may need the lock that we have. */
typedef struct late_opener {
    test_memory memory;                /* what the hook to allocate sees of it */
    pthread_t thread;
    hcq_device_desc desc;
    hcq_device *device;
    hcq_result result;
    uint32_t closing, opened;          /* atomic */
} late_opener;

static void *late_opener_run(void *user) {
    late_opener *o = (late_opener *)user;
    hcq_signal s;
    o->result = hcq_open(T.variant->backend, &o->desc, &o->device);
    for (int i = 0; i < 8 && o->result == HCQ_OK; i++) {
        o->result = hcq_signal_create(o->device, 7, &s);
    }
    __atomic_store_n(&o->opened, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void late_opener_free(void *user, void *ptr, size_t size) {
    late_opener *o = (late_opener *)user;
    if (__atomic_load_n(&o->closing, __ATOMIC_ACQUIRE) &&
        __atomic_fetch_add(&o->closing, 1, __ATOMIC_ACQ_REL) == 1) {
        pthread_create(&o->thread, NULL, late_opener_run, o);
    }
    for (int i = 0; i < 20 && __atomic_load_n(&o->closing, __ATOMIC_ACQUIRE) &&
                    !__atomic_load_n(&o->opened, __ATOMIC_ACQUIRE); i++) {
        test_sleep_ms(1);
    }
    test_hook_free(&o->memory, ptr, size);
}

TEST(opened_while_another_closes) {
    late_opener o = {.desc = test_desc()};
    if (test_validates()) { o.desc.vulkan = NULL; } /* as in registry_from_threads */
    hcq_device_desc desc = o.desc;
    desc.memory = (hcq_memory_hooks){test_hook_alloc, late_opener_free, &o};
    hcq_device *device = test_open(0, &desc);
    hcq_signal signal = make_signal(device, 3);
    uint64_t value = 0;
    __atomic_store_n(&o.closing, 1, __ATOMIC_RELEASE);
    CHECK_OK(hcq_close(device));
    pthread_join(o.thread, NULL);
    CHECK_OK(o.result);
    CHECK_RESULT(hcq_signal_value(signal, &value), HCQ_ERROR_CLOSED); /* not another's 7 */
    CHECK_OK(hcq_close(o.device));
    CHECK_U64(o.memory.blocks, 0);
}
