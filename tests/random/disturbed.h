/* disturbed.h - signals that interrupt every system call. */
#include <sys/time.h>

/* ---- interrupted all the time ---- */

static struct {
    hcq_device *device;                /* of the copier alone */
    pthread_t host, copier, sender;
    uint32_t stop;                     /* atomic, like the rest */
    uint64_t interrupts;
} E;

static void interrupted(int number) {
    (void)number;
    __atomic_add_fetch(&E.interrupts, 1, __ATOMIC_RELAXED);
}

/* To those who call the library; the timer's go to whichever thread the kernel
   likes, also to the library's own. */
static void *sender_run(void *user) {
    (void)user;
    while (!__atomic_load_n(&E.stop, __ATOMIC_ACQUIRE)) {
        pthread_kill(E.host, SIGUSR1);
        pthread_kill(E.copier, SIGUSR1);
        mock_sleep(20000);
    }
    return NULL;
}

/* A wait that is interrupted does not end early. */
static void nap(hcq_signal never) {
    hcq_point point = hcq_at(never, 1);
    for (int deadline = 0; deadline < 2; deadline++) {
        uint64_t until = hcq_now_ns() + 2000000;
        hcq_result r = hcq_wait(&point, 1, HCQ_ALL, deadline ? HCQ_DEADLINE(until) : 2000000);
        WRONG_IF(r != HCQ_TIMEOUT || hcq_now_ns() < until, "a wait of 2 ms gives %s",
                 hcq_result_name(r));
    }
}

/* Eager copies of several batches. */
static void *copier_run(void *user) {
    enum { SIZE = 1 << 20 };
    static unsigned char from[SIZE], to[SIZE];
    hcq_buffer buffer;
    hcq_signal never;
    (void)user;
    MUST(hcq_alloc(E.device, SIZE, 0, &buffer));
    MUST(hcq_signal_create(E.device, 0, &never));
    for (uint32_t i = 0; !__atomic_load_n(&E.stop, __ATOMIC_ACQUIRE); i++) {
        memset(from, (int)(i & 255), SIZE);
        MUST(hcq_copyin(buffer, from, SIZE));
        MUST(hcq_copyout(to, buffer, SIZE));
        WRONG_IF(memcmp(from, to, SIZE), "copy %u comes back changed", i);
        MUST(hcq_device_synchronize(E.device, BOUND));
        nap(never);
    }
    return NULL;
}

/* Handlers without SA_RESTART: every sleep in the kernel ends with EINTR. */
static void interrupt_start(void) {
    struct itimerval timer = {{0, 300}, {0, 300}};
    struct sigaction how = {.sa_handler = interrupted};
    sigaction(SIGUSR1, &how, NULL);
    sigaction(SIGALRM, &how, NULL);
    E.stop = 0;
    E.device = test_open(2, NULL);
    E.host = pthread_self();
    pthread_create(&E.copier, NULL, copier_run, NULL);
    pthread_create(&E.sender, NULL, sender_run, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void interrupt_stop(void) {
    struct itimerval never = {{0, 0}, {0, 0}};
    __atomic_store_n(&E.stop, 1, __ATOMIC_RELEASE);
    pthread_join(E.sender, NULL);
    pthread_join(E.copier, NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    MUST(hcq_close(E.device));
}
