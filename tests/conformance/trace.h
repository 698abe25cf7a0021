/* What examples/backend.c promises: it adds nothing, leaves nothing out, and
   writes down what it saw. Part of conformance.c. */

#define TRACE_ONLY() SKIP_IF(!T.variant->inner, "not through TRACE")

/* A function more in the table, and TRACE would pass it over. */
TEST(trace_has_what_its_inner_has) {
    TRACE_ONLY();
    CHECK_U64(sizeof(hcq_backend), offsetof(hcq_backend, driver_create) +
                                       TRACE_COUNT * sizeof(void (*)(void)));
#define TRACE_SAME(name) CHECK(!trace.table.name == !trace.inner->name);
    TRACE_FUNCTIONS(TRACE_SAME)
#undef TRACE_SAME
    hcq_device_desc desc = test_desc();
    hcq_device *worker = NULL;
    char name[32];
    snprintf(name, sizeof name, "%s:1", T.variant->inner);
    CHECK_OK(hcq_open(name, &desc, &worker));
    const hcq_device_info info = test_info(dev2()), worker_info = test_info(worker);
    CHECK(strcmp(info.backend, "TRACE") == 0);
    CHECK(strcmp(info.name, worker_info.name) == 0 && strcmp(info.path, worker_info.path) == 0);
    CHECK_U64(info.id, worker_info.id);
    CHECK_U64(info.features, worker_info.features);
    CHECK_U64(info.compute_lanes, worker_info.compute_lanes);
    CHECK_U64(info.copy_lanes, worker_info.copy_lanes);
    CHECK_OK(hcq_close(worker));
}

/* Is there a line with `text` among those from `first` on? */
static int trace_says(uint64_t first, const char *text) {
    trace_entry entry;
    int found = 0;
    for (uint64_t i = first; i < trace_line_count(); i++) {
        found |= trace_read(i, &entry) && strstr(entry.text, text);
    }
    return found;
}

/* The lane is let go only after those who wait are submitted: the core has to hand
   their waits over, where the backend can wait for another device, too. */
TEST(trace_writes_down) {
    TRACE_ONLY();
    uint64_t first = trace_line_count();
    uint64_t programs = trace_sum_of(TRACE_program_create).calls;
    uint64_t submits = trace_sum_of(TRACE_submit).calls;
    hcq_queue *q = make_holder(T.dev), *copy = make_queue(T.dev, HCQ_COPY);
    hcq_buffer a = make_words(T.dev, 12345);
    hcq_point added, copied, elsewhere;
    CHECK_OK(hcq_queue_label(q, "written"));
    CHECK_INDEX(record_add(q, make_add(T.dev), a, 3, 15), 1);
    CHECK_OK(hcq_queue_submit(q, T.dev, &added));
    CHECK_INDEX(hcq_queue_wait(copy, added), 0);
    CHECK_INDEX(hcq_queue_copy(copy, a, hcq_view(a, 12, 4), 4), 1);
    CHECK_OK(hcq_queue_submit(copy, T.dev, &copied));
    CHECK_OK(submit_lists(dev2(), &added, NULL, 0, &elsewhere));
    CHECK(trace_says(first, " of another device at ") == (trace.inner->can_wait != NULL));
    hold_release();
    WAIT_OK(copied);
    WAIT_OK(elsewhere);
    CHECK_U64(READ32(a, 0), 15);
    CHECK_U64(trace_sum_of(TRACE_program_create).calls, programs + 2);
    CHECK(trace_sum_of(TRACE_submit).calls >= submits + 2);
    CHECK(trace_says(first, "program_create 'add', 3 arguments, 16 bytes"));
    CHECK(trace_says(first, "alloc 49380 bytes"));
    CHECK(trace_says(first, "submit compute 0 'written': 2 packets"));
    CHECK(trace_says(first, ", after compute 0 at "));
}

TEST(trace_keeps_the_last_lines) {
    TRACE_ONLY();
    uint64_t first = trace_line_count();
    trace_entry entry;
    for (int i = 0; i < 3 * TRACE_LINES; i++) {
        trace_line(hcq_now_ns(), HCQ_OK, "number %d, too long to fit: %200d", i, i);
    }
    CHECK(!trace_read(first, &entry));
    CHECK(!trace_read(trace_line_count() - TRACE_LINES - 1, &entry));
    CHECK(trace_says(first, "number 767, "));
    CHECK(trace_read(first + 3 * TRACE_LINES - 1, &entry));
    CHECK(memchr(entry.text, 0, sizeof entry.text) != NULL);
}

/* An open device does not need its backend to be registered. */
TEST(trace_registers_once) {
    TRACE_ONLY();
    hcq_device_desc desc = test_desc();
    hcq_device *device = NULL;
    hcq_point done;
    CHECK_RESULT(trace_register(T.variant->inner), HCQ_ERROR_EXISTS);
    CHECK_RESULT(trace_register("TRACE"), HCQ_ERROR_EXISTS);
    CHECK_RESULT(trace_register("NOSUCH"), HCQ_ERROR_NO_DEVICE);
    CHECK_OK(trace_unregister());
    CHECK_RESULT(trace_unregister(), HCQ_ERROR_INVALID);
    CHECK_RESULT(hcq_open("TRACE", &desc, &device), HCQ_ERROR_NO_DEVICE);
    CHECK_OK(submit_lists(T.dev, NULL, NULL, 0, &done));
    WAIT_OK(done);
    CHECK_OK(hcq_registry_register(NULL, &trace.table));
}

/* Work of `b` waits for work of `a` that runs. */
static void trace_one_waits(hcq_device *a, hcq_device *b) {
    hcq_point raise = make_gate(b), done;
    (void)hold_device(a, &raise);
    CHECK_OK(submit_lists(b, &raise, NULL, 0, &done));
    test_sleep_ms(2);
    CHECK_RESULT(test_poll(done), HCQ_TIMEOUT);
    HOLD_END(done);
}

/* Another backend; and the inner one, still there under its own name. That must not take a
   device of TRACE for one of its own, nor TRACE one of the inner's. */
TEST(trace_beside_others) {
    TRACE_ONLY();
    hcq_device_desc desc = test_desc();
    hcq_device *devices[2] = {T.dev, NULL}, *other = open_other_backend();
    hcq_queue *q[2];
    hcq_buffer b[2];
    unsigned char text[1000];
    trace_one_waits(T.dev, other);
    trace_one_waits(other, T.dev);
    CHECK_OK(hcq_close(other));
    CHECK_OK(hcq_open(T.variant->inner, &desc, &devices[1]));
    for (int i = 0; i < 2; i++) {
        trace_one_waits(devices[i], devices[1 - i]);
        b[i] = make_buffer(devices[i], sizeof text, 0);
        q[i] = make_queue(devices[i], HCQ_COPY);
    }
    for (int i = 0; i < 2; i++) {
        memset(text, 0x5a + i, sizeof text);
        CHECK_OK(hcq_copyin(b[i], text, sizeof text));
        CHECK_OK(hcq_transfer(hcq_transfer_device(b[1 - i]), hcq_transfer_device(b[i]),
                              sizeof text, 0, BOUND));
        CHECK_BYTES(b[1 - i], text, sizeof text);
        CHECK_INDEX(hcq_queue_copy(q[i], b[i], b[1 - i], sizeof text), 0);
        RUN_OK(q[i], devices[i]);
    }
    CHECK_RESULT(hcq_queue_submit(q[1], T.dev, NULL), HCQ_ERROR_FOREIGN);
    CHECK_OK(hcq_close(devices[1]));
}
