/* children.h - what needs a process of its own: machines without Vulkan,
   and with little memory. Part of vulkan.c. */

/* In the child: prints what is wrong and ends. */
#define CHILD_CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "child: not so: %s (line %d)\nlog:\n%s\n", #condition, __LINE__, \
                    T.log.text); \
            exit(1); \
        } \
    } while (0)

static hcq_device_desc child_desc(void) {
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.log_fn = test_log_line;
    desc.log_user = &T.log;
    return desc;
}

/* The driver can be made and has no devices; opening one says why. */
static int child_none(void) {
    hcq_device_desc desc = child_desc();
    hcq_driver *driver = NULL;
    hcq_device *device = NULL;
    uint32_t count = 99;
    CHILD_CHECK(hcq_driver_create(NULL, "VULKAN", &driver) == HCQ_OK);
    CHILD_CHECK(hcq_driver_devices(driver, NULL, 0, &count) == HCQ_OK && count == 0);
    CHILD_CHECK(hcq_driver_open(driver, NULL, &desc, &device) == HCQ_ERROR_NO_DEVICE);
    CHILD_CHECK(log_has("finds no driver") || log_has("no device with Vulkan"));
    log_clear();
    CHILD_CHECK(hcq_driver_open(driver, "1", &desc, &device) == HCQ_ERROR_NO_DEVICE);
    CHILD_CHECK(hcq_driver_open(driver, "some card", &desc, &device) == HCQ_ERROR_NO_DEVICE);
    hcq_driver_release(driver);
    log_clear();
    CHILD_CHECK(hcq_open("VULKAN", &desc, &device) == HCQ_ERROR_NO_DEVICE);
    CHILD_CHECK(log_has("finds no driver") || log_has("no device with Vulkan"));
    CHILD_CHECK(hcq_open("CPU", &desc, &device) == HCQ_OK);
    CHILD_CHECK(hcq_close(device) == HCQ_OK);
    return 0;
}

/* The system has no more: the log has the heap with numbers, and what goes back can
   be had again. */
static int child_poor(void) {
    hcq_device_desc desc = child_desc();
    hcq_device *device = NULL;
    hcq_buffer small, large;
    struct rlimit limit;
    unsigned long pages = 0;
    CHILD_CHECK(hcq_open("VULKAN", &desc, &device) == HCQ_OK);
    CHILD_CHECK(hcq_alloc(device, 64, 0, &small) == HCQ_OK);
    FILE *file = fopen("/proc/self/statm", "r");
    CHILD_CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    CHILD_CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)512 << 20);
    CHILD_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    hcq_result r = hcq_alloc(device, (uint64_t)1 << 30, 0, &large);
    CHILD_CHECK(r == HCQ_ERROR_OUT_OF_MEMORY);
    CHILD_CHECK(log_has("vkAllocateMemory of 1073741824 bytes") && log_has("heap "));
    CHILD_CHECK(hcq_alloc(device, (uint64_t)64 << 20, HCQ_NO_CACHE, &large) == HCQ_OK);
    CHILD_CHECK(hcq_free(large) == HCQ_OK);
    CHILD_CHECK(hcq_alloc(device, 4096, 0, &large) == HCQ_OK);
    CHILD_CHECK(hcq_close(device) == HCQ_OK);
    return 0;
}

static int child_main(const char *what) {
    alarm(60);
    return strcmp(what, "none") == 0 ? child_none() : strcmp(what, "poor") == 0 ? child_poor() : 2;
}

/* This program once more. */
static void run_child(const char *what, const char *icd) {
    int status = -1;
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (icd) {
            setenv("VK_ICD_FILENAMES", icd, 1);
            setenv("VK_DRIVER_FILES", icd, 1);
        }
        execl("/proc/self/exe", "vulkan", what, (char *)NULL);
        _exit(127);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_U64(WEXITSTATUS(status), 0);
}

static void machines_without_vulkan(void **state) {
    (void)state;
    run_child("child-none", "/nonexistent");
}

static void memory_runs_out(void **state) {
    (void)state;
    if (TEST_SANITIZED) {
        SKIP("a sanitizer needs all addresses");
        return;
    }
    run_child("child-poor", NULL);
}

#define CHILD_TESTS TEST(machines_without_vulkan), TEST(memory_runs_out),
