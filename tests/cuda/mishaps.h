/* mishaps.h - every call of the driver's fails in turn, and every operation, each in a
   process of its own; what the error of a lost context says. Part of cuda.c. */
#pragma once

#include "lent.h"
#include "mocks/stage.h"

enum { STAGE_MAY_LEAVE = 1 << 30 };    /* a call that gives something back is to fail */

/* An event of an application's, recorded on a lane's stream. */
static void stage_import_event(const stage *g, const hcq_cuda_info *info) {
    hcq_cuda_lane_info lane;
    hcq_point done;
    raw_context context;
    raw_event event;
    if (!TAKE(hcq_cuda_lane(g->device, HCQ_COMPUTE, 0, &lane)) ||
        R.CtxPushCurrent(info->context) != 0) {
        return;
    }
    if (R.EventCreate(&event, RAW_NO_TIMES) == 0) {
        if (R.EventRecord(event, lane.stream) == 0 &&
            TAKE(hcq_cuda_event_import(g->device, event, &done))) {
            TAKE(hcq_wait(&done, 1, HCQ_ALL, 5 * SECOND));
        }
        (void)R.EventDestroy(event);
    }
    (void)R.CtxPopCurrent(&context);
}

/* What only CUDA has: a kernel's description, events for an application, and of one. */
static void stage_native(const stage *g) {
    hcq_cuda_info info;
    hcq_cuda_program_info kernel;
    hcq_point done;
    raw_event event;
    TAKE(hcq_cuda_program(g->add, &kernel));
    if (TAKE(hcq_queue_submit(g->lone, g->device, &done)) &&
        TAKE(hcq_cuda_event_acquire(g->device, done, &event))) {
        TAKE(hcq_cuda_event_release(g->device, event));
    }
    if (TAKE(hcq_cuda_info_get(g->device, &info))) {
        raw_load(g->device);
        stage_import_event(g, &info);
    }
}

/* One way to fail: a result from the call behind `skip` others of a function; of the
   name "-", from the operation behind so many. */
typedef struct mishap {
    char name[64];
    unsigned long long skip, seed;
    int result;
    uint32_t flags;                    /* of the device, besides */
} mishap;

static mishap Z;                       /* of the child */

/* mishap VARIANT "NAME SKIP SEED RESULT FLAGS" */
static int mishap_start(int argc, char **argv) {
    char seed[24], *few[] = {argv[0], argv[2], seed};
    if (argc != 4 || sscanf(argv[3], "%63s %llu %llu %d %u", Z.name, &Z.skip, &Z.seed, &Z.result,
                            &Z.flags) != 5) {
        return 2;
    }
    snprintf(seed, sizeof seed, "%llu", Z.seed);
    return test_start(3, few);
}

/* A bit of everything; whatever fails, closing gives all back, and with a new context
   the device can be used again. */
static void mishap_play(uint32_t flags, int error) {
    stage g;
    hcq_error_info info = {0};
    hcq_device *again = NULL;
    hcq_device_desc desc = test_desc();
    test_cuda_desc.flags |= flags & ~(uint32_t)STAGE_MAY_LEAVE;
    stage_play(&g, "CUDA", &desc, stage_native);
    if (g.device && stage_is_lost) {
        stage_is_bad |= hcq_device_error_take(g.device, &info) != HCQ_OK;
        stage_is_bad |= info.result != HCQ_ERROR_LOST || strncmp(info.native, "cu", 2) != 0;
        stage_is_bad |= error >= 700 && info.native_code != error;
        stage_is_bad |= g.lone && hcq_queue_submit(g.lone, g.device, NULL) != HCQ_ERROR_LOST;
    }
    stage_is_bad |= g.device && hcq_close(g.device) != HCQ_OK;
    stage_is_bad |= (flags & STAGE_MAY_LEAVE ? T.memory.blocks : things_now()) != 0;
    if (!(flags & STAGE_MAY_LEAVE)) {
        (M.fail)(NULL, 0, 0);
        again = test_open(0, NULL);
        use_device(again);
        stage_is_bad |= hcq_close(again) != HCQ_OK || things_now() != 0;
    }
}

/* A kernel that traps: the device is lost, says so and closes. */
static hcq_error_info lose_and_close(hcq_device *device) {
    hcq_queue *q = make_queue(device, HCQ_COMPUTE);
    hcq_error_info info = {0};
    CHECK_INDEX(hcq_queue_exec(q, make_own(device, "ct_bad"), NULL, 0, dims_one, dims_one), 0);
    WAIT_RESULT(submit_of(q, device), HCQ_ERROR_LOST);
    CHECK_OK(hcq_device_error_take(device, &info));
    CHECK_RESULT(info.result, HCQ_ERROR_LOST);
    CHECK(info.native_code != 0);
    CHECK_OK(hcq_close(device));
    return info;
}

/* Whether the process gets a new context is told, since drivers differ. */
static int trap_main(void) {
    test_cuda_let_go();
    hcq_device *device = device_with(0, 1, 1), *again = NULL;
    (void)make_buffer(device, 32u << 20, 0);
    const hcq_error_info info = lose_and_close(device);
    const hcq_device_desc desc = test_desc();
    hcq_result r = hcq_open("CUDA", &desc, &again);
    fprintf(stderr, "fact: after %s (%lld) the process opens the device again: %s\n", info.native,
            (long long)info.native_code, hcq_result_text(r));
    if (r == HCQ_OK) {
        use_device(again);
        CHECK_OK(hcq_close(again));
    }
    return 0;
}

static int mishap_main(void) {
    if (strcmp(Z.name, "trap") == 0) {
        alarm(60);
        return trap_main();
    }
    mock_cuda_desc desc = mock_wanted();
    const int by_operation = strcmp(Z.name, "-") == 0;
    alarm(60);
    desc.watchdog_ms = 20000;
    M.setup(&desc);
    (M.fail)(Z.name, Z.skip, Z.result);
    mishap_play(Z.flags, Z.result);
    if (stage_is_bad) {
        fprintf(stderr, "log:\n%s", T.log.text);
        tell_things();
        return MISHAP_BAD;
    }
    return (by_operation ? stage_is_lost : stats_now().failed != 0) ? 0 : MISHAP_NONE;
}

/* 0: it came to nothing: there are fewer calls, or no call told of the loss. */
static int mishap_run(const char *name, uint64_t skip, int result, uint32_t flags) {
    char text[160];
    snprintf(text, sizeof text, "%s %llu %llu %d %u", name, (unsigned long long)skip,
             (unsigned long long)(T.seed + skip), result, (unsigned)flags);
    alarm(300);                        /* for each one, however many there are */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "cuda", "mishap", T.variant->name, text, (char *)NULL);
        _exit(127);
    }
    int ended = mishap_ended(child);
    if (ended < 0) {
        fail_msg("cuda mishap %s '%s'", T.variant->name, text);
    }
    return ended;
}

/* Does it come to something? */
static uint32_t mishaps(const char *name, int result, uint32_t flags) {
    uint64_t most = T.rounds ? T.rounds : T.quick ? 6 : 12, skip = 0;
    while (skip < most && mishap_run(name, skip, result, flags)) {
        skip += 1 + (T.quick ? skip * 3 : skip / 4);
    }
    return skip != 0;
}

/* Does the function give something back? What it refuses to take stays. */
static int gives_back(const char *name) {
    return strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Release") ||
           strstr(name, "Unregister") || strstr(name, "Unload");
}

/* In a process of its own, after which this one finds the GPU as it was. */
TEST(a_trap_loses_the_device) {
    CHECK(mishap_run("trap", 0, 0, 0) != 0);
    use_device(T.dev);
}

static void *loss_is_told(void *lost) {
    test_sleep_ms(20);
    hcqi_atomic_store32((uint32_t *)lost, 2);
    return NULL;
}

/* Who comes while another thread finds out about a loss goes on when hcq knows. */
TEST(a_loss_is_known_to_all) {
    hcqi_cuda_device *d = (hcqi_cuda_device *)T.dev->self;
    pthread_t thread;
    hcqi_atomic_store32(&d->lost, 3);
    CHECK(pthread_create(&thread, NULL, loss_is_told, &d->lost) == 0);
    CHECK(hcqi_cuda_lost(d));
    CHECK_U64(hcqi_atomic_load32(&d->lost), 2);
    pthread_join(thread, NULL);
    hcqi_atomic_store32(&d->lost, 0);
}

/* Memory is out, says each function in turn. */
TEST_ALONE(every_call_fails) {
    uint32_t failed = 0;
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof hcqi_cuda_names / sizeof hcqi_cuda_names[0]; i++) {
        const char *name = hcqi_cuda_names[i].name;
        if (strcmp(name, "cuGetErrorName") != 0) {
            failed += mishaps(name, 2, gives_back(name) ? STAGE_MAY_LEAVE : 0);
        }
    }
    CHECK(failed >= 30);
}

/* Any call may be the first to tell that the context is gone. */
TEST_ALONE(every_call_tells_a_loss) {
    static const char *const names[] = {
        "cuMemcpyAsync", "cuLaunchKernel", "cuGraphLaunch", "cuStreamWriteValue64_v2",
        "cuStreamWaitEvent", "cuEventRecord", "cuEventQuery", "cuStreamQuery",
        "cuMemsetD8Async", "cuMemsetD32Async", "cuMemAllocFromPoolAsync", "cuStreamSynchronize",
        "cuGraphExecKernel*", "cuMemHostAlloc", "cuCtxPushCurrent_v2"
    };
    NEEDS_MOCK();
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)mishaps(names[i], 719, 0); /* CUDA_ERROR_LAUNCH_FAILED */
        (void)mishaps(names[i], 719, HCQ_CUDA_TRAIL);
    }
}

/* By whatever error, however lanes count. */
TEST_ALONE(every_operation_loses_the_context) {
    static const int codes[] = {700, 702, 710, 714, 715, 716, 717, 718, 719};
    uint64_t lost = 0, most = T.rounds ? T.rounds : T.quick ? 18 : 90;
    NEEDS_MOCK();
    for (uint64_t k = 0; k < most; k++) {
        lost += (uint64_t)mishap_run("-", k, codes[k % 9], all_means[k % MEANS]);
    }
    CHECK(lost >= most / 2);
}

/* What ends a submission is tried again when it was refused, and that fails nobody else. */
TEST_OF_MEANS(a_refused_end_fails_alone) {
    NEEDS_MOCK();
    hcq_device *device = device_by(way, 1, 1);
    hcq_queue *q = queue_of_adds(make_words(device, 1), 0, 1);
    submit_and_wait(q, device);
    (M.fail)(info_of(device).value_waits ? "cuStreamWriteValue64*" : "cuEventRecord", 0, 2);
    hcq_point done = submit_of(q, device);
    WAIT_RESULT(done, HCQ_ERROR_OUT_OF_MEMORY);
    submit_and_wait(q, device);
    CHECK_OK(hcq_close(device));
}

/* ---- what a loss says ---- */

/* With marks the very command is named, and there are no graphs; without, its queue or
   what is near. */
TEST_ALONE(errors_name_the_command) {
    NEEDS_MOCK();
    for (uint32_t i = 0; i < 8; i++) {
        hcq_device *device = device_with(i & 1 ? HCQ_CUDA_TRAIL : 0, 1, 1);
        hcq_buffer words = make_words(device, 4);
        hcq_queue *good = queue_of_adds(words, 0, 5), *q = queue_of_adds(words, 0, 5);
        hcq_error_info error;
        gates g;
        gates_open(&g, device);
        CHECK_OK(hcq_queue_label(good, "harmless"));
        CHECK_OK(hcq_queue_label(q, "poisonous"));
        CHECK_INDEX(hcq_queue_exec(q, make_own(device, "ct_bad"), NULL, 0, dims_one, dims_one), 5);
        CHECK_INDEX(record_add(q, make_add(device), words, 0, 1), 6);
        CHECK_OK(i & 2 ? hcq_queue_bind(q, device) : HCQ_OK);
        CHECK((i & 1) == 0 || info_of(device).graphs == 0);
        log_clear();
        submit_and_wait(good, device);
        CHECK_U64(READ32(words, 0), 5);
        (void)submit_spin(&g, 0, 0);   /* nothing runs before all is handed over */
        hcq_point done = submit_of(q, device);
        (void)submit_of(good, device);
        gate_let(&g, 0);
        WAIT_RESULT(done, HCQ_ERROR_LOST);
        CHECK_OK(hcq_device_error_take(device, &error));
        CHECK_RESULT(error.result, HCQ_ERROR_LOST);
        CHECK_U64(error.native_code, 700);
        CHECK(strncmp(error.native, "cu", 2) == 0);
        if (i & 1) {
            CHECK_U64(error.command, 5);
            CHECK(strcmp(error.program, "ct_bad") == 0);
        }
        if (i & 1 || info_of(device).memops) { /* all events tell the error then */
            CHECK(strcmp(error.queue, "poisonous") == 0);
            CHECK(log_has("poisonous"));
        }
        CHECK_OK(hcq_close(device));
        CHECK_U64(things_now(), 0);
    }
}
