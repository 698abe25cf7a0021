/* fork.h - a child of fork meets closed devices, whatever its parent's
   threads were doing, and opens its own. */
#include "shared.h"

#include <sys/wait.h>

#if defined(__SANITIZE_THREAD__)
#define FORK_THREADS 0                 /* TSan's children may have none */
#else
#define FORK_THREADS 1
#endif

/* What a parent has. */
typedef struct fork_things {
    hcq_driver *driver;
    hcq_device *device;
    hcq_queue *queue, *graph;
    hcq_program *program;
    hcq_buffer buffer;
    hcq_signal signal;
    hcq_point point;
    hcq_notification notification;
} fork_things;

static hcq_result fork_host(void *user) {
    (void)user;
    return HCQ_OK;
}

static void fork_notified(void *user, hcq_result result) {
    (void)user;
    (void)result;
}

static void fork_things_make(fork_things *p) {
    memset(p, 0, sizeof *p);
    CHECK_OK(hcq_driver_create(NULL, T.variant->backend, &p->driver));
    p->device = T.dev;
    p->queue = make_queue(T.dev, HCQ_COMPUTE);
    p->graph = make_queue(T.dev, HCQ_GRAPH);
    p->program = make_add(T.dev);
    p->buffer = make_words(T.dev, 64);
    p->signal = make_signal(T.dev, 0);
    p->point = hcq_at(p->signal, 1);
    CHECK_INDEX(record_add(p->queue, p->program, p->buffer, 0, 1), 0);
    CHECK_INDEX(hcq_queue_fill(p->graph, p->buffer, 4, 1, 4), 0);
    CHECK_OK(hcq_notify(p->point, fork_notified, NULL, &p->notification));
}

/* ---- in the child ---- */

static int fork_report;                /* the end of a pipe */

static void fork_wrong(const char *what) {
    (void)!write(fork_report, what, strlen(what));
    _exit(1);
}

#define GONE(call) \
    do { \
        if ((hcq_result)(call) != HCQ_ERROR_CLOSED) { fork_wrong(#call); } \
    } while (0)
#define HERE(condition) \
    do { \
        if (!(condition)) { fork_wrong(#condition); } \
    } while (0)

static void fork_devices_gone(const fork_things *p) {
    static hcq_device_info infos[8];
    static hcq_error_info error;
    hcq_device *none = NULL;
    hcq_clock clock;
    uint64_t value = 0;
    uint32_t count = 0;
    GONE(hcq_device_info_get(p->device, &infos[0]));
    GONE(hcq_device_query(p->device, HCQ_QUERY_PENDING, &value));
    GONE(hcq_device_error(p->device, &error));
    GONE(hcq_device_clock(p->device, &clock));
    GONE(hcq_device_synchronize(p->device, HCQ_FOREVER));
    GONE(hcq_device_retain(p->device));
    GONE(hcq_device_release(p->device));
    GONE(hcq_profile_start(p->device, NULL));
    GONE(hcq_profile_stop(p->device));
    GONE(hcq_profile_events(p->device, NULL, 0, &count, &value));
    GONE(hcq_driver_devices(p->driver, infos, 8, &count));
    GONE(hcq_driver_open(p->driver, "", NULL, &none));
    GONE(hcq_driver_open_id(p->driver, infos[0].id, NULL, &none));
    HERE(hcq_device_dump(p->device, NULL, 0) == 0);
    HERE(hcq_device_timeline_value(p->device) == 0);
    HERE(hcq_device_timeline(p->device).id == 0);
    (void)hcq_explain(&p->point, 1, NULL, 0);
    hcq_driver_release(p->driver);
}

static void fork_memory_gone(const fork_things *p) {
    static uint32_t words[64];
    hcq_buffer buffer;
    hcq_point point;
    GONE(hcq_alloc(p->device, 64, 0, &buffer));
    GONE(hcq_alloc_after(p->device, NULL, 0, 64, 0, &buffer, &point));
    GONE(hcq_import(p->device, words, sizeof words, &buffer));
    GONE(hcq_trim(p->device, 0));
    GONE(hcq_copyin(p->buffer, words, 4));
    GONE(hcq_copyout(words, p->buffer, 4));
    GONE(hcq_transfer(hcq_transfer_host(words, 4), hcq_transfer_device(p->buffer), 4, 0,
                      HCQ_FOREVER));
    GONE(hcq_transfer_submit(p->device, NULL, 0, NULL, 0, &point));
    GONE(hcq_free_after(p->buffer, NULL, 0, &point));
    GONE(hcq_free(p->buffer));
}

static void fork_signals_gone(const fork_things *p) {
    hcq_signal fresh;
    intptr_t handle;
    uint64_t value;
    GONE(hcq_signal_create(p->device, 0, &fresh));
    GONE(hcq_signal_value(p->signal, &value));
    GONE(hcq_signal_timestamp(p->signal, &value));
    GONE(hcq_signal_label(p->signal, "s"));
    GONE(hcq_signal_set(p->signal, 1));
    GONE(hcq_signal_reset(p->signal, 1));
    GONE(hcq_signal_fail(p->signal, HCQ_ERROR_HOST));
    GONE(hcq_wait(&p->point, 1, HCQ_ALL, HCQ_FOREVER));
    GONE(hcq_wait(&p->point, 1, HCQ_ANY, 0));
    GONE(hcq_notify(p->point, fork_notified, NULL, NULL));
    GONE(hcq_notify_handle(p->point, &handle, NULL));
    GONE(hcq_notify_cancel(p->notification));
    GONE(hcq_signal_retain(p->signal));
    GONE(hcq_signal_release(p->signal));
    GONE(hcq_signal_destroy(p->signal));
}

static void fork_programs_gone(const fork_things *p) {
    hcq_program_desc desc;
    hcq_program *program;
    hcq_program_info info;
    uint64_t values[2] = {1, 1}, block[8];
    memset(&desc, 0, sizeof desc);
    GONE(hcq_program_create(p->device, &desc, &program));
    GONE(hcq_program_info_get(p->program, &info));
    GONE(hcq_program_fill_kernargs(p->program, &p->buffer, 1, values, 2, block, sizeof block));
    GONE(hcq_program_call(p->program, &p->buffer, 1, values, 2, NULL, NULL, NULL));
    hcq_program_destroy(p->program);
}

static void fork_recording_gone(const fork_things *p) {
    add_args args = {p->buffer.address, 1, 1};
    hcq_custom_type type;
    hcq_queue *queue = p->queue;
    hcq_buffer buffer = p->buffer;
    hcq_dims one = hcq_dim(1, 1, 1);
    memset(&type, 0, sizeof type);
    GONE(hcq_queue_wait(queue, p->point));
    GONE(hcq_queue_signal(queue, p->point));
    GONE(hcq_queue_timestamp(queue, p->signal));
    GONE(hcq_queue_wait_device(queue, p->device));
    GONE(hcq_queue_memory_barrier(queue));
    GONE(hcq_queue_exec(queue, p->program, &args, sizeof args, one, one));
    GONE(hcq_queue_copy(queue, hcq_view(buffer, 0, 4), hcq_view(buffer, 8, 4), 4));
    GONE(hcq_queue_fill(queue, buffer, 4, 1, 4));
    GONE(hcq_queue_write(queue, buffer, 1, 4));
    GONE(hcq_queue_host(queue, fork_host, NULL));
    GONE(hcq_queue_custom(queue, &type, NULL));
    GONE(hcq_queue_append(queue, p->graph));
    GONE(hcq_queue_empty(p->graph, NULL, 64, 0, &buffer));
    GONE(hcq_queue_access(p->graph, 0, p->buffer, HCQ_ARG_IN));
    GONE(hcq_queue_edge(p->graph, 0, 0));
    HERE(hcq_input(p->graph, 0, NULL, 64).size == 0);
    HERE(hcq_queue_print(p->graph, 0, NULL, 0) == 0);
}

static void fork_queues_gone(const fork_things *p) {
    static hcq_command command;
    hcq_queue *queue = p->queue, *fresh;
    hcq_submission sub;
    hcq_point point;
    hcq_dims one = hcq_dim(1, 1, 1);
    memset(&sub, 0, sizeof sub);
    GONE(hcq_queue_create(p->device, HCQ_COMPUTE, &fresh));
    GONE(hcq_queue_command(queue, 0, &command));
    GONE(hcq_queue_update_wait(queue, 0, &p->signal, 1));
    GONE(hcq_queue_update_signal(queue, 0, &p->signal, 1));
    GONE(hcq_queue_update_exec(queue, 0, &one, &one));
    GONE(hcq_queue_update_copy(queue, 0, &p->buffer, NULL, HCQ_KEEP));
    GONE(hcq_queue_update_arg(queue, 0, 1, &one.x, 4));
    GONE(hcq_queue_update_custom(queue, 0, NULL));
    GONE(hcq_queue_variable(queue, 0, 0, 0, HCQ_KEEP));
    GONE(hcq_queue_label(queue, "q"));
    GONE(hcq_queue_command_label(queue, 0, "c"));
    GONE(hcq_queue_command_flags(queue, 0, 0));
    GONE(hcq_queue_bind(queue, p->device));
    GONE(hcq_queue_submit(queue, p->device, &point));
    GONE(hcq_queue_submit(p->graph, p->device, &point));
    GONE(hcq_submit(p->device, &sub, 1, &point));
    GONE(hcq_submit_and_wait(p->device, NULL, 0, HCQ_FOREVER, NULL));
    GONE(hcq_queue_reset(queue));
    hcq_queue_destroy(queue);
    hcq_queue_destroy(p->graph);
}

/* Its own device works, and takes nothing of the parent's. */
static void fork_opens(const fork_things *p) {
    hcq_device *own = NULL;
    hcq_queue *queue = NULL;
    hcq_program *program = NULL;
    hcq_program_desc desc = {"add", k_add, {HCQ_ARG_INOUT, HCQ_ARG_U32, HCQ_ARG_U32}, NULL, NULL,
                             {NULL, 0, NULL}, {NULL, 0, NULL}, 0};
    hcq_buffer buffer;
    hcq_point done;
    uint32_t word = 0;
    if (is_mock()) { /* what a backend that lives through a fork has to do */
        pthread_mutex_init(&mock_memory_lock, NULL);
        memset(mock_devices, 0, sizeof mock_devices);
    }
    HERE(hcq_open(is_mock() ? "MOCK" : "CPU", NULL, &own) == HCQ_OK);
    HERE(hcq_alloc(own, 64, HCQ_ZEROED, &buffer) == HCQ_OK);
    HERE(hcq_program_create(own, &desc, &program) == HCQ_OK);
    HERE(hcq_queue_create(own, HCQ_COMPUTE, &queue) == HCQ_OK);
    HERE(record_add(queue, program, buffer, 0, 7) == 0);
    HERE(hcq_queue_submit(queue, own, &done) == HCQ_OK);
    HERE(hcq_wait(&done, 1, HCQ_ALL, BOUND) == HCQ_OK);
    HERE(hcq_copyout(&word, buffer, 4) == HCQ_OK);
    HERE(word == 7);
    GONE(hcq_queue_append(queue, p->queue));
    HERE(hcq_queue_reset(queue) == HCQ_OK);
    GONE(record_one(queue, p->program, &word, sizeof word));
    GONE(hcq_queue_submit(p->queue, own, &done));
    GONE(hcq_queue_submit(p->graph, own, &done));
    for (int i = 0; i < 50; i++) { /* none of which has a handle of the parent's */
        hcq_signal signal;
        HERE(hcq_signal_create(own, 0, &signal) == HCQ_OK);
    }
    fork_signals_gone(p);
    HERE(hcq_close(own) == HCQ_OK);
}

static void fork_child(const fork_things *p) {
    alarm(60);
    signal(SIGALRM, SIG_DFL);
    (void)!freopen("/dev/null", "w", stderr);
    fork_devices_gone(p);
    fork_memory_gone(p);
    fork_signals_gone(p);
    fork_programs_gone(p);
    fork_recording_gone(p);
    if (FORK_THREADS) { fork_opens(p); }
    fork_queues_gone(p);
    GONE(hcq_close(p->device));
    execlp("true", "true", (char *)NULL); /* no leak checker looks: all of it is a leak */
    fork_wrong("true");
}

/* ---- in the parent ---- */

static void fork_once(const fork_things *p) {
    char wrong[256];
    int ends[2], status = 0;
    CHECK(pipe(ends) == 0);
    fork_report = ends[1];
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) { fork_child(p); }
    close(ends[1]);
    ssize_t length = read(ends[0], wrong, sizeof wrong - 1);
    close(ends[0]);
    wrong[length < 0 ? 0 : length] = 0;
    CHECK(waitpid(child, &status, 0) == child);
    if (length > 0) { test_fail(__FILE__, __LINE__, wrong); }
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM); /* it hangs */
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void fork_child_is_closed(TEST_ARGS) {
    fork_things p;
    fork_things_make(&p);
    fork_once(&p);
    CHECK_OK(hcq_queue_submit(p.queue, T.dev, &p.point)); /* the parent's go on */
    WAIT_OK(p.point);
    CHECK_U64(READ32(p.buffer, 0), 1);
    hcq_driver_release(p.driver);
}

/* A thread that stays inside of a call, with whatever that has locked. */
typedef struct fork_gate { uint32_t armed, inside, open; } fork_gate; /* atomic */

static void *fork_gate_alloc(void *user, size_t size, size_t align) {
    fork_gate *gate = (fork_gate *)user;
    if (__atomic_exchange_n(&gate->armed, 0, __ATOMIC_SEQ_CST) != 0) {
        __atomic_store_n(&gate->inside, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&gate->open, __ATOMIC_SEQ_CST) == 0) { test_sleep_ms(1); }
    }
    return test_hook_alloc(&T.memory, size, align);
}

static void fork_gate_free(void *user, void *ptr, size_t size) {
    (void)user;
    test_hook_free(&T.memory, ptr, size);
}

static void *fork_records(void *user) {
    hcq_queue *queue = (hcq_queue *)user;
    for (int i = 0; i < 100; i++) {
        if (hcq_queue_memory_barrier(queue) != i) { return queue; }
    }
    return NULL;
}

static void fork_in_the_middle_of_a_call(TEST_ARGS) {
    fork_gate gate = {0, 0, 0};
    hcq_device_desc desc = test_desc();
    fork_things p;
    pthread_t thread;
    void *failed;
    fork_things_make(&p);
    desc.memory.alloc_fn = fork_gate_alloc;
    desc.memory.free_fn = fork_gate_free;
    desc.memory.user = &gate;
    hcq_device *device = test_open(0, &desc);
    hcq_queue *queue = make_queue(device, HCQ_COMPUTE);
    __atomic_store_n(&gate.armed, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_create(&thread, NULL, fork_records, queue) == 0);
    for (int i = 0; i < 10000 && __atomic_load_n(&gate.inside, __ATOMIC_SEQ_CST) == 0; i++) {
        test_sleep_ms(1);
    }
    CHECK(__atomic_load_n(&gate.inside, __ATOMIC_SEQ_CST) == 1);
    fork_once(&p);
    __atomic_store_n(&gate.open, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(thread, &failed) == 0);
    CHECK(failed == NULL);
    CHECK_OK(hcq_close(device));
    hcq_driver_release(p.driver);
}

/* One thread waits in an eager call, one submits, one makes and frees. */
typedef struct fork_busy {
    fork_things *p;
    hcq_buffer read;                   /* apart from what the submissions write */
    uint32_t stop, which, wrong;
} fork_busy;

static hcq_result fork_busy_turn(const fork_busy *b) {
    hcq_buffer buffer;
    hcq_signal signal;
    hcq_point done;
    uint32_t word;
    if (b->which == 0) { return hcq_copyout(&word, b->read, 4); }
    if (b->which == 1) {
        hcq_result r = hcq_queue_submit(b->p->queue, T.dev, &done);
        return r == HCQ_OK ? hcq_wait(&done, 1, HCQ_ALL, BOUND) : r;
    }
    hcq_result r = hcq_alloc(T.dev, 64, HCQ_NO_CACHE, &buffer);
    if (r == HCQ_OK) { r = hcq_signal_create(T.dev, 0, &signal); }
    if (r == HCQ_OK) { r = hcq_signal_set(signal, 1); }
    if (r == HCQ_OK) { r = hcq_signal_destroy(signal); }
    return r == HCQ_OK ? hcq_free(buffer) : r;
}

static void *fork_busy_run(void *user) {
    enum { SWIFT = 2000 };             /* a mock that takes no address twice runs out of them */
    fork_busy *b = (fork_busy *)user;
    for (int i = 0; __atomic_load_n(&b->stop, __ATOMIC_SEQ_CST) == 0; i++) {
        if (fork_busy_turn(b) != HCQ_OK) { b->wrong++; }
        if (i > SWIFT) { test_sleep_ms(1); }
    }
    return NULL;
}

static void fork_beside_busy_threads(TEST_ARGS) {
    enum { N = 3 };
    fork_things p;
    fork_busy busy[N];
    pthread_t threads[N];
    uint32_t forks = T.quick || TEST_SANITIZED ? 10 : 50;
    fork_things_make(&p);
    hcq_buffer read = make_words(T.dev, 1);
    for (uint32_t i = 0; i < N; i++) {
        busy[i] = (fork_busy){&p, read, 0, i, 0};
        CHECK(pthread_create(&threads[i], NULL, fork_busy_run, &busy[i]) == 0);
    }
    for (uint32_t i = 0; i < forks; i++) { fork_once(&p); }
    for (uint32_t i = 0; i < N; i++) {
        __atomic_store_n(&busy[i].stop, 1, __ATOMIC_SEQ_CST);
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK_U64(busy[i].wrong, 0);
    }
    hcq_driver_release(p.driver);
}

#define FORK_TESTS \
    TEST(fork_child_is_closed), TEST(fork_in_the_middle_of_a_call), TEST(fork_beside_busy_threads)
