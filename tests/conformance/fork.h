/* fork.h - a child of fork meets closed devices, whatever its parent's
   threads were doing, and opens its own. */
#include <sys/wait.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define FORK_THREADS 0                 /* TSan's children may have none */
#else
#define FORK_THREADS 1
#endif

/* What a parent has. */
typedef struct fork_things {
    hcq_driver *driver;
    hcq_queue *queue, *graph;
    hcq_program *program;
    hcq_buffer buffer;
    hcq_signal signal;
    notice notice;
} fork_things;

static fork_things fork_things_make(void) {
    static fork_things p;
    CHECK_OK(hcq_driver_create(NULL, T.variant->backend, &p.driver));
    p.queue = make_queue(T.dev, HCQ_COMPUTE);
    p.graph = make_graph();
    p.program = make_add(T.dev);
    p.buffer = make_words(T.dev, 64);
    p.signal = make_signal(T.dev, 0);
    CHECK_INDEX(record_add(p.queue, p.program, p.buffer, 0, 1), 0);
    CHECK_INDEX(hcq_queue_fill(p.graph, p.buffer, 4, 1, 4), 0);
    NOTIFY_AT(&p.notice, hcq_at(p.signal, 1));
    return p;
}

/* ---- in the child ---- */

static int fork_report;                /* the end of a pipe */

static void fork_wrong(const char *what) {
    (void)!write(fork_report, what, strlen(what));
    _exit(1);
}

#define HERE(condition) \
    do { \
        if (!(condition)) { fork_wrong(#condition); } \
    } while (0)
#define GONE(call) HERE((hcq_result)(call) == HCQ_ERROR_CLOSED)

/* What has a slot that tells: a closed one of it is refused everywhere by core/misuse.txt,
   so that a few calls of each kind are enough. */
static void fork_slots_gone(const fork_things *p) {
    static hcq_device_info infos[8];
    hcq_point point = hcq_at(p->signal, 1);
    hcq_buffer buffer;
    hcq_device *none = NULL;
    uint64_t value;
    uint32_t count, word;
    GONE(hcq_device_query(T.dev, HCQ_QUERY_PENDING, &value));
    GONE(hcq_device_synchronize(T.dev, HCQ_FOREVER));
    GONE(hcq_device_release(T.dev));
    GONE(hcq_driver_devices(p->driver, infos, 8, &count));
    GONE(hcq_driver_open(p->driver, "", NULL, &none));
    GONE(hcq_driver_open_id(p->driver, infos[0].id, NULL, &none));
    HERE(hcq_device_dump(T.dev, NULL, 0) == 0);
    HERE(hcq_device_timeline_value(T.dev) == 0);
    (void)hcq_explain(&point, 1, NULL, 0);
    hcq_driver_release(p->driver);
    GONE(hcq_alloc(T.dev, 64, 0, &buffer));
    GONE(hcq_copyout(&word, p->buffer, 4));
    GONE(hcq_free(p->buffer));
    GONE(hcq_signal_value(p->signal, &value));
    GONE(hcq_wait(&point, 1, HCQ_ALL, HCQ_FOREVER));
    GONE(hcq_notify(point, notice_run, NULL, NULL));
    GONE(hcq_notify_cancel(p->notice.id));
    GONE(hcq_submit_and_wait(T.dev, NULL, 0, HCQ_FOREVER, NULL));
}

/* Queues and programs have none, but every call that takes one looks whether it is NULL
   at the place where it looks for this: a call of each such place. */
static void fork_recording_gone(const fork_things *p) {
    hcq_buffer buffer = p->buffer;
    hcq_point point = hcq_at(p->signal, 1);
    hcq_program_info info;
    add_args args = {buffer.address, 1, 1};
    uint64_t values[2] = {1, 1}, block[8];
    GONE(hcq_program_info_get(p->program, &info));
    GONE(hcq_program_fill_kernargs(p->program, &buffer, 1, values, 2, block, sizeof block));
    GONE(hcq_program_call(p->program, &args, sizeof args, dims_one, dims_one, NULL));
    hcq_program_destroy(p->program);
    GONE(hcq_queue_wait(p->queue, point));
    GONE(record_one(p->queue, p->program, &args, sizeof args));
    GONE(hcq_queue_append(p->queue, p->graph));
    GONE(hcq_graph_alloc(p->graph, NULL, 64, 0, &buffer));
    GONE(hcq_queue_access(p->graph, 0, p->buffer, HCQ_ARG_IN));
    HERE(hcq_graph_input(p->graph, 0, NULL, 64).size == 0);
    HERE(hcq_graph_print(p->graph, 0, NULL, 0) == 0);
}

static void fork_queues_gone(const fork_things *p) {
    hcq_command command;
    hcq_point point;
    GONE(hcq_queue_command(p->queue, 0, &command));
    GONE(hcq_queue_update_wait(p->queue, 0, &p->signal, 1));
    GONE(hcq_queue_variable(p->queue, 0, 0, 0, UINT64_MAX));
    GONE(hcq_queue_label(p->queue, "q"));
    GONE(hcq_queue_command_label(p->queue, 0, "c"));
    GONE(hcq_queue_command_flags(p->queue, 0, 0));
    GONE(hcq_queue_bind(p->queue, T.dev));
    GONE(hcq_queue_submit(p->queue, T.dev, &point));
    GONE(hcq_queue_submit(p->graph, T.dev, &point));
    GONE(hcq_queue_reset(p->queue));
    hcq_queue_destroy(p->queue);
    hcq_queue_destroy(p->graph);
}

/* Its own device works, and takes nothing of the parent's. */
static void fork_opens(const fork_things *p) {
    hcq_device *own = NULL;
    hcq_queue *queue = NULL;
    hcq_program *program = NULL;
    hcq_program_desc desc = HCQ_PROGRAM(add);
    hcq_buffer buffer;
    hcq_point done;
    uint32_t word = 0;
    if (is_mock()) { /* what a backend that lives through a fork has to do */
        pthread_mutex_init(&mock_memory_lock, NULL);
        mock_blocks = NULL;
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
    GONE(hcq_signal_set(p->signal, 1));
    HERE(hcq_close(own) == HCQ_OK);
}

static void fork_child(const fork_things *p) {
    alarm(60);
    signal(SIGALRM, SIG_DFL);
    (void)!freopen("/dev/null", "w", stderr);
    HERE(hcq_cpu_step() == 0);
    fork_slots_gone(p);
    fork_recording_gone(p);
    if (FORK_THREADS) { fork_opens(p); }
    fork_queues_gone(p);
    GONE(hcq_close(T.dev));
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
    if (length > 0) { test_fail(__FILE__, __LINE__, "%s", wrong); }
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM); /* it hangs */
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the parent has submitted is not run by the child, too. */
TEST(fork_with_work_left) {
    const fork_things p = fork_things_make();
    hcq_point done;
    CHECK_OK(hcq_queue_submit(p.queue, T.dev, &done));
    fork_once(&p);
    CHECK_OK(hcq_wait(&done, 1, HCQ_ALL, BOUND));
    hcq_driver_release(p.driver);
}

/* A thread that stays inside of a call, with whatever that has locked. */
typedef struct fork_gate {
    test_memory memory;                /* what its hooks see of it */
    uint32_t armed, inside, open;      /* atomic */
} fork_gate;

static void *fork_gate_alloc(void *user, size_t size, size_t align) {
    fork_gate *gate = (fork_gate *)user;
    if (__atomic_exchange_n(&gate->armed, 0, __ATOMIC_SEQ_CST) != 0) {
        __atomic_store_n(&gate->inside, 1, __ATOMIC_SEQ_CST);
        word_until(&gate->open, 1);
    }
    return test_hook_alloc(&gate->memory, size, align);
}

static void *fork_records(void *user) {
    hcq_queue *queue = (hcq_queue *)user;
    for (int i = 0; i < 100; i++) {
        if (hcq_queue_memory_barrier(queue) != i) { return queue; }
    }
    return NULL;
}

TEST(fork_in_the_middle_of_a_call) {
    static fork_gate gate;
    const fork_things p = fork_things_make();
    pthread_t thread;
    void *failed;
    memset(&gate, 0, sizeof gate);
    hcq_device *device = OPEN_WITH(0, .memory = {fork_gate_alloc, test_hook_free, &gate});
    hcq_queue *queue = make_queue(device, HCQ_COMPUTE);
    __atomic_store_n(&gate.armed, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_create(&thread, NULL, fork_records, queue) == 0);
    CHECK(word_until(&gate.inside, 1));
    fork_once(&p);
    __atomic_store_n(&gate.open, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(thread, &failed) == 0);
    CHECK(failed == NULL);
    CHECK_OK(hcq_close(device));
    CHECK_U64(gate.memory.blocks, 0);
    hcq_driver_release(p.driver);
}

static struct {
    fork_things p;
    hcq_result results[3];             /* of who forks, who submits, who makes and frees */
    uint32_t over;                     /* atomic */
} fork_busy;

static hcq_result fork_busy_turn(int submits) {
    hcq_buffer buffer;
    hcq_signal signal;
    hcq_point done;
    if (submits) {
        TRY(hcq_queue_submit(fork_busy.p.queue, T.dev, &done));
        return hcq_wait(&done, 1, HCQ_ALL, BOUND);
    }
    TRY(hcq_alloc(T.dev, 64, HCQ_NO_CACHE, &buffer));
    TRY(hcq_signal_create(T.dev, 0, &signal));
    TRY(hcq_signal_destroy(signal));
    return hcq_free(buffer);
}

static void *fork_busy_run(void *user) {
    enum { SWIFT = 2000 };             /* a mock that takes no address twice runs out of them */
    hcq_result *result = (hcq_result *)user;
    if (result == fork_busy.results) {
        for (int i = 0; i < (T.quick ? 10 : 50); i++) { fork_once(&fork_busy.p); }
        __atomic_store_n(&fork_busy.over, 1, __ATOMIC_SEQ_CST);
    }
    for (int i = 0; *result == HCQ_OK && !__atomic_load_n(&fork_busy.over, __ATOMIC_SEQ_CST); i++) {
        *result = fork_busy_turn(result == &fork_busy.results[1]);
        if (i > SWIFT) { test_sleep_ms(1); }
    }
    return NULL;
}

/* All of them go on. */
TEST(fork_beside_busy_threads) {
    SKIP_IF(TEST_SANITIZED, "fork leaves the allocators of gcc's sanitizers locked, llvm #96600");
    memset(&fork_busy, 0, sizeof fork_busy);
    fork_busy.p = fork_things_make();
    run_threads(fork_busy_run, fork_busy.results, sizeof fork_busy.results[0], 3);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(fork_busy.results[i]);
    }
    hcq_driver_release(fork_busy.p.driver);
}
