/* scheduler.c - see scheduler.h. Itself compiled without -fsanitize. */
#undef _FORTIFY_SOURCE                 /* jumps go from one stack to another */
#define _GNU_SOURCE
#include "scheduler.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    FIBERS = 4, PLACES = 128, STORES = 16, BUFFER = 4, SEEN = 16, CALLS = 200, LOCALS = 64,
    STACK = 256 * 1024, ARENA = 64 << 20, CELLS = 1 << 16, CHOICES = 1 << 14, TRACE = 150,
    STEPS = 20000, AGAIN = 2000, MOST = 5000000, CPUS = 4, NOWHERE = -1, EVERYWHERE = -2
};

/* A moment is what happened before: of each thread so many steps, and of each place
   no store older than that. A store that releases carries its own. */
typedef struct moment {
    uint32_t clock[FIBERS];
    uint16_t view[PLACES];
} moment;

typedef struct store {
    int place, order;
    uint64_t value;
    moment at;
} store;

typedef struct place {                 /* that is accessed by atomics */
    void *address;
    uint32_t size;
    int rewritten;                     /* by a plain write: memory has what is there */
    uint16_t newest, floor, floor_sc;  /* stores are numbered from 1 */
    store stores[STORES];
} place;

typedef enum access_kind { READ, WRITE, ATOMIC_READ, ATOMIC_WRITE } access_kind;

typedef struct cell {                  /* four bytes of memory */
    uintptr_t word;
    uint32_t run;
    int place;                         /* that begins here, or NOWHERE */
    uint32_t clock[4][FIBERS];         /* of the last access of each kind */
    uint32_t where[4][FIBERS];         /* the program lies below 4 GiB */
} cell;

typedef enum op_kind {
    OP_START, OP_LOAD, OP_STORE, OP_SWAP, OP_ADD, OP_CAS, OP_WAIT, OP_WAKE, OP_CREATE, OP_JOIN,
    OP_END, OP_GO_ON, OP_DRAIN, OP_EARLY
} op_kind;

typedef struct op {                    /* a thread's next step */
    op_kind kind;
    int place;                         /* or NOWHERE, EVERYWHERE */
    int writes;
    int drained;                       /* only with an empty store buffer */
} op;

typedef struct fiber {
    const char *name;
    void (*fn)(void);
    void *(*thread_fn)(void *);        /* or this */
    void *user, *stack;
    jmp_buf context;
    enum { NEW, RUNS, SPINS, SLEEPS, DONE } state;
    op next;
    moment now;
    store buffer[BUFFER];              /* wait to be seen */
    int buffered;
    struct { int place; uint16_t store; } seen[SEEN]; /* by loads since anything else */
    int seen_count, patient;           /* patient: reads on though nothing changed */
    uint32_t again, old_loads, turns;
    int timed, timed_out, joins;
    void *calls[CALLS];
    int depth;
    char locals[LOCALS];               /* its variables of __thread */
} fiber;

static fiber fibers[FIBERS], nobody, *me = &nobody;
static int fiber_count;
static place places[PLACES];
static int place_count;
static cell cells[CELLS];
static uint32_t cell_count, run_number;

/* ---- what is said ---------------------------------------------------------- */

static struct event {
    const fiber *f;
    op_kind kind;
    int place;
    uint64_t before, after;
    const char *text;
    void *where;
} trace[TRACE];
static uint32_t events;
static jmp_buf over;                   /* with: */
enum { FAILED = 1, KNOWN, WELL };      /* KNOWN: other schedules were the same */
static char failure[600];

static void die(const char *why) {
    fprintf(stderr, "scheduler: %s\n", why);
    exit(2);
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(failure, sizeof failure, format, args);
    va_end(args);
    _longjmp(over, FAILED);
}

static void crash(int number) { fail("%s gets signal %d", me->name, number); }

/* The line of the source, where this machine has a tool for it; the last two stay. */
static const char *line_of(void *address) {
    static char text[2][120], command[400], program[200];
    static int turn;
    char *line = text[turn ^= 1];
    line[0] = 0;
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) { return line; }
    snprintf(command, sizeof command, "addr2line -fse '%s' %p 2>/dev/null | paste -sd ' '", program,
             (void *)((char *)address - 1));
    FILE *pipe = address ? popen(command, "r") : NULL;
    if (pipe && fgets(line, sizeof text[0], pipe)) { line[strcspn(line, "(\n")] = 0; }
    if (pipe) { pclose(pipe); }
    return line;
}

static void *where(const fiber *f) { return f->depth ? f->calls[f->depth - 1] : NULL; }
static void *here(void) { return where(me); }

static void note(const fiber *f, op_kind kind, int at, uint64_t before, uint64_t after,
                 const char *text) {
    struct event e = { f, kind, at, before, after, text, f == me ? here() : NULL };
    trace[events++ % TRACE] = e;
}

static void print_trace(void) {
    static const char *const kinds[] = { "start", "load", "store", "swap", "add", "cas", "wait",
                                         "wake", "create", "join", "end", "", "is seen", "early" };
    for (uint32_t i = events > TRACE ? events - TRACE : 0; i < events; i++) {
        const struct event *e = &trace[i % TRACE];
        char value[60] = "";
        if (e->place >= 0) {
            snprintf(value, sizeof value, e->before == e->after ? "%lld" : "%lld -> %lld",
                     (long long)e->before, (long long)e->after);
        }
        printf("    %-8s %-7s %-14p %-14s %-8s %s\n", e->f->name, kinds[e->kind],
               e->place < 0 ? NULL : places[e->place].address, value, e->text, line_of(e->where));
    }
}

/* ---- choices --------------------------------------------------------------- */

static struct { uint16_t pick, options; } path[CHOICES];
static uint32_t path_length, path_at;
static uint64_t seed, seed_often;      /* seed 0: the path; else one in seed_often departs */
static uint32_t budget;                /* departures left */
static int branching, early_left;
static uint64_t skipped;               /* actions that need not be taken: see apart() */
static int all_orders;

static uint64_t draw(uint64_t below) { /* splitmix64 */
    uint64_t x = seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

/* One of `options`; 0 is the usual one. */
static uint32_t choose(uint32_t options) {
    if (options == 1 || !branching) { return 0; }
    if (seed) { return draw(seed_often) ? 0 : (uint32_t)draw(options); }
    if (path_at == CHOICES) { die("too many choices in one schedule"); }
    if (path_at == path_length) {
        path[path_length].pick = 0;
        path[path_length++].options = (uint16_t)options;
    }
    if (path[path_at].options != options) { die("a schedule cannot be repeated"); }
    return path[path_at++].pick;
}

/* To the next path; 0 = there is none. */
static int advance(void) {
    for (; path_length; path_length--) {
        if (++path[path_length - 1].pick < path[path_length - 1].options) { return 1; }
    }
    return 0;
}

static void depart(void) { budget -= budget != SCHEDULE_ALL; }

/* ---- who goes on ----------------------------------------------------------- */

typedef struct action {
    op_kind kind;                      /* OP_GO_ON, OP_DRAIN, OP_EARLY */
    int fiber;
} action;

static void drain(fiber *f);
static void fiber_main(void);

static int can_go_on(const fiber *f) {
    if (f->state == RUNS && f->next.kind == OP_JOIN) { return fibers[f->joins].state == DONE; }
    for (int i = 0; i < f->seen_count && f->state == SPINS; i++) {
        if (places[f->seen[i].place].newest != f->seen[i].store) { return 1; }
    }
    return f->state == NEW || (f->state == RUNS && !(f->next.drained && f->buffered));
}

/* May two actions change places without any difference? Then of two orders one is
   enough: what could have been taken instead is skipped until something happens that
   it depends on (sleep sets). */
static int apart(action a, action b) {
    const op *x = &fibers[a.fiber].next, *y = &fibers[b.fiber].next;
    int at = a.kind == OP_DRAIN ? fibers[a.fiber].buffer[0].place : x->place;
    int other = b.kind == OP_DRAIN ? fibers[b.fiber].buffer[0].place : y->place;
    if (a.fiber == b.fiber || at == EVERYWHERE || other == EVERYWHERE) { return 0; }
    return at == NOWHERE || other == NOWHERE || at != other ||
           (a.kind == OP_GO_ON && b.kind == OP_GO_ON && !x->writes && !y->writes);
}

static int bit_of(action a) { return (int)(a.kind - OP_GO_ON) * FIBERS + a.fiber; }

static void skip(const action *list, uint32_t pick) {
    uint64_t kept = 0;
    for (uint32_t i = 0; i < pick; i++) { skipped |= (uint64_t)1 << bit_of(list[i]); }
    for (int bit = 0; bit < 3 * FIBERS; bit++) {
        action other = { (op_kind)(OP_GO_ON + bit / FIBERS), bit % FIBERS };
        if ((skipped >> bit & 1) && apart(list[pick], other)) { kept |= (uint64_t)1 << bit; }
    }
    skipped = kept;
}

static uint32_t offer(action *list, uint32_t count, op_kind kind, int at, uint32_t cost) {
    action a = { kind, at };
    if ((cost && cost > budget) || (skipped >> bit_of(a) & 1)) { return count; }
    list[count] = a;
    return count + 1;
}

/* What may happen now; first what would be usual. */
static uint32_t offers(action *list, uint32_t leaving) {
    int self = (int)(me - fibers), spinning = 0;
    uint32_t count = 0;
    if (can_go_on(me)) { count = offer(list, count, OP_GO_ON, self, 0); }
    if (me->buffered) { count = offer(list, count, OP_DRAIN, self, 0); }
    for (int f = 0; f < fiber_count; f++) {
        if (f != self && can_go_on(&fibers[f])) {
            count = offer(list, count, OP_GO_ON, f, leaving);
        }
        if (f != self && fibers[f].buffered) { count = offer(list, count, OP_DRAIN, f, 0); }
        spinning |= fibers[f].state == SPINS;
    }
    int alone = !count && !skipped && !spinning; /* who spins needs a moment, no more */
    for (int f = 0; f < fiber_count; f++) {
        if (fibers[f].state == SLEEPS && (alone ? fibers[f].timed
                                                : branching && count &&
                                                      (fibers[f].timed || early_left))) {
            count = offer(list, count, OP_EARLY, f, !alone);
        }
    }
    return count;
}

static void wake(fiber *f) {
    f->state = RUNS;
    f->next = (op){ OP_GO_ON, NOWHERE, 0, 0 };
}

static void wake_early(fiber *f) {
    early_left -= !f->timed;
    skipped &= ((uint64_t)1 << 2 * FIBERS) - 1; /* others may not be woken so any more */
    f->timed_out = f->timed;
    wake(f);
    note(f, OP_EARLY, NOWHERE, 0, 0, f->timed ? "in time" : "");
}

/* Nothing may happen. */
static void stuck(void) {
    char text[500] = "";
    int spinning = 0;
    if (skipped) { _longjmp(over, KNOWN); }
    for (int f = 0; f < fiber_count; f++) {
        if (fibers[f].state == SPINS && fibers[f].again <= AGAIN) { /* time passes */
            fibers[f].state = RUNS;
            fibers[f].patient = spinning = 1;
        }
    }
    if (spinning) { return; }
    for (int f = 0; f < fiber_count; f++) {
        size_t used = strlen(text);
        if (fibers[f].state != DONE) {
            snprintf(text + used, sizeof text - used, " %.30s in %s", fibers[f].name,
                     line_of(where(&fibers[f])));
        }
    }
    fail("all sleep:%s", text);
}

extern char __start_hcq_thread[], __stop_hcq_thread[];

static void switch_to(fiber *f) {
    size_t size = (size_t)(__stop_hcq_thread - __start_hcq_thread);
    ucontext_t fresh;
    if (size > LOCALS) { die("more variables of threads than expected"); }
    if (f == me || _setjmp(me->context)) { return; }
    memcpy(me->locals, __start_hcq_thread, size);
    memcpy(__start_hcq_thread, f->locals, size);
    me = f;
    if (f->state != NEW) { _longjmp(f->context, 1); }
    getcontext(&fresh);
    fresh.uc_stack.ss_sp = f->stack;
    fresh.uc_stack.ss_size = STACK;
    fresh.uc_link = NULL;
    makecontext(&fresh, fiber_main, 0);
    setcontext(&fresh);
}

/* Lets happen what comes before the caller's next step. */
static void pass(void) {
    fiber *self = me;
    action list[3 * FIBERS];
    if (++self->turns > STEPS) { fail("no end: %s goes on and on", self->name); }
    for (;;) {
        uint32_t leaving = can_go_on(self) || (self->state == RUNS && self->buffered);
        uint32_t count = offers(list, leaving);
        if (!count) {
            stuck();
            continue;
        }
        uint32_t pick = choose(count);
        fiber *f = &fibers[list[pick].fiber];
        if (all_orders && branching) { skip(list, pick); }
        if (list[pick].kind == OP_DRAIN) {
            drain(f);
        } else if (list[pick].kind == OP_EARLY) {
            if (count > 1) { depart(); }
            wake_early(f);
        } else {
            if (f != self && leaving) { depart(); }
            switch_to(f);
            me->state = RUNS; /* the one who comes back is the caller */
            return;
        }
    }
}

static void step(op_kind kind, int at, int writes, int drained) {
    me->next = (op){ kind, at, writes, drained };
    pass();
    if (kind == OP_LOAD) { return; }
    me->seen_count = 0;
    me->patient = 0;
    me->again = 0;
}

/* Functions that stand for others: */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "scheduler_memory.h"

/* ---- the system ------------------------------------------------------------ */

static uint64_t clock_ns;

static long futex_wait(void *word, uint32_t expected, int timed) {
    if (fiber_count < 2) { fail("the only thread goes to sleep"); }
    int at = place_of(word, 4);
    step(OP_WAIT, at, 0, 1);
    uint64_t value = newest_of(at)->value;
    note(me, OP_WAIT, at, value, value, value == expected ? "sleeps" : "not so");
    errno = EAGAIN;
    if (value != expected) { return -1; }
    me->state = SLEEPS;
    me->timed = timed;
    me->timed_out = 0;
    pass();
    errno = ETIMEDOUT;
    return me->timed_out ? -1 : 0;
}

static long futex_wake(void *word, uint32_t limit) {
    if (fiber_count < 2) { return 0; }
    int at = place_of(word, 4), sleepers[FIBERS];
    step(OP_WAKE, at, 1, 1);
    note(me, OP_WAKE, at, newest_of(at)->value, newest_of(at)->value, limit > 1 ? "all" : "one");
    for (; limit; limit--) {
        uint32_t count = 0;
        for (int f = 0; f < fiber_count; f++) {
            if (fibers[f].state == SLEEPS && fibers[f].next.place == at) { sleepers[count++] = f; }
        }
        if (!count) { break; }
        wake(&fibers[sleepers[choose(count)]]);
    }
    return 0;
}

long syscall(long number, ...) {
    va_list args;
    va_start(args, number);
    void *word = va_arg(args, void *);
    long operation = va_arg(args, long) & 127; /* all arguments are registers */
    uint64_t value = va_arg(args, uint64_t);
    void *timeout = va_arg(args, void *);
    va_end(args);
    if (number == SYS_sched_getaffinity) {
        memset((void *)(uintptr_t)value, (1 << CPUS) - 1, 1);
        return 8;
    }
    if (number != SYS_futex || operation > 1) { die("an unknown system call"); }
    return operation ? futex_wake(word, (uint32_t)value)
                     : futex_wait(word, (uint32_t)value, timeout != NULL);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    clock_ns += 10000;
    now->tv_sec = (time_t)(clock_ns / 1000000000);
    now->tv_nsec = (long)(clock_ns % 1000000000);
    return 0;
}

int sched_yield(void) { return 0; } /* the loads around it are enough */

FILE *fopen(const char *name, const char *mode) { return NULL; } /* no /proc/cpuinfo */

int prctl(int option, ...) { return 0; }

static void fiber_main(void) {
    me->state = RUNS;
    note(me, OP_START, NOWHERE, 0, 0, "");
    if (me->fn) {
        me->fn();
    } else {
        me->thread_fn(me->user);
    }
    step(OP_END, EVERYWHERE, 1, 1);
    note(me, OP_END, NOWHERE, 0, 0, "");
    me->state = DONE;
    if (me != &fibers[0]) { pass(); }
    for (int f = 1; f < fiber_count; f++) {
        if (fibers[f].state != DONE) { fail("%s is left behind", fibers[f].name); }
    }
    _longjmp(over, WELL);
}

int schedule_start(void (*fn)(void), const char *name) {
    if (fiber_count) { step(OP_CREATE, EVERYWHERE, 1, 1); }
    if (fiber_count == FIBERS) { die("too many threads"); }
    fiber *f = &fibers[fiber_count];
    void *stack = f->stack ? f->stack : malloc(STACK);
    *f = (fiber){.stack = stack, .name = name, .fn = fn, .next.place = NOWHERE, .old_loads = 2,
                 .now = me->now};
    f->now.clock[fiber_count++] = 1;
    if (me != &nobody) { me->now.clock[me - fibers]++; }
    note(f, OP_CREATE, NOWHERE, 0, 0, "");
    return (int)(f - fibers);
}

void schedule_join(int thread) {
    me->joins = thread;
    step(OP_JOIN, NOWHERE, 0, 0);
    join(&me->now, &fibers[thread].now);
    note(me, OP_JOIN, NOWHERE, 0, 0, "");
}

int pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*fn)(void *),
                   void *user) {
    static const char *const engines[FIBERS] = { "", "engine", "engine 2", "engine 3" };
    int thread = schedule_start(NULL, engines[fiber_count % FIBERS]);
    fibers[thread].thread_fn = fn;
    fibers[thread].user = user;
    *id = (pthread_t)thread;
    return 0;
}

int pthread_join(pthread_t id, void **result) {
    schedule_join((int)id);
    return 0;
}

/* ---- for the program ------------------------------------------------------- */

static char *arena;
static size_t arena_used;

void schedule_branch(int on) {
    branching = on;
    skipped = 0;
}

void schedule_settle(void) {
    me->state = SPINS;
    me->seen_count = 0;
    me->next.place = NOWHERE;
    pass();
}

void schedule_check(int ok, const char *text) {
    if (!ok) { fail("not so: %s", text); }
}

void *schedule_alloc(void *user, size_t size, size_t align) {
    arena_used = (arena_used + align - 1) / align * align;
    if (arena_used + size > ARENA) { die("out of memory"); }
    arena_used += size;
    return arena + arena_used - size;
}

void schedule_free(void *user, void *ptr, size_t size) { }

/* ---- all schedules --------------------------------------------------------- */

static void (*begin_fn)(void);
static const schedule_test *test;

static void begin_and_run(void) {
    begin_fn();
    test->run();
}

/* Runs the program once, from its beginning. */
static int run_once(void) {
    run_number++;
    fiber_count = 0;
    place_count = 0;
    cell_count = 0;
    arena_used = 0;
    clock_ns = 1000000000;
    events = 0;
    path_at = 0;
    branching = 0;
    early_left = 1;
    skipped = 0;
    memset(__start_hcq_thread, 0, (size_t)(__stop_hcq_thread - __start_hcq_thread));
    int how = _setjmp(over);
    if (!how) {
        me = &nobody;
        schedule_start(begin_and_run, "host");
        switch_to(&fibers[0]);
    }
    return how;
}

static int explore(uint32_t departures, uint32_t seeds) {
    unsigned long whole = 0;
    int how = WELL;
    path_length = 0;
    all_orders = departures == SCHEDULE_ALL;
    seed = 0;
    do {
        budget = departures;
        how = run_once();
        whole += how == WELL;
        if (whole == MOST) { die("more schedules than can be meant"); }
    } while (how != FAILED && advance());
    printf("%-16s %8lu schedules, ", test->name, whole);
    printf(all_orders ? "all" : "at most %u departures", departures);
    all_orders = 0;
    for (uint32_t i = 1; how != FAILED && i <= seeds; i++) {
        seed = (uint64_t)i << 32;
        seed_often = 1 + i % 8;
        budget = SCHEDULE_ALL;
        how = run_once();
        if (how == FAILED || i == seeds) { printf(", seeds 1 to %u", i); }
    }
    printf("\n");
    return how == FAILED;
}

static int run_test(int full, uint32_t departures) {
    int failed = explore(departures ? departures : test->departures[full], test->seeds[full]);
    int right = test->fails ? failed && strstr(failure, test->fails) : !failed;
    if (failed && !right) { print_trace(); }
    if (failed) { printf("    %s: %s\n", right ? "as it must" : "WRONG", failure); }
    if (!failed && !right) { printf("    WRONG: nothing was found, not %s\n", test->fails); }
    fflush(stdout);
    return right;
}

int schedule_main(const schedule_test *tests, size_t count, void (*begin)(void), int argc,
                  char **argv) {
    int full = 0, wrong = 0, ran = 0;
    uint32_t departures = 0;
    const char *only = NULL;
    arena = (char *)malloc(ARENA);
    begin_fn = begin;
    sigaction(SIGSEGV, &(struct sigaction){ .sa_handler = crash, .sa_flags = SA_NODEFER }, NULL);
    for (int i = 1; i < argc; i++) {
        full |= strcmp(argv[i], "--full") == 0;
        if (argv[i][0] == '-') { continue; }
        departures = only ? (uint32_t)strtoul(argv[i], NULL, 10) : 0;
        only = only ? only : argv[i];
    }
    for (size_t i = 0; i < count && !wrong; i++) {
        if (only && strcmp(only, tests[i].name) != 0) { continue; }
        ran++;
        test = &tests[i];
        wrong += !run_test(full, departures);
    }
    printf("%d programs, %d wrong\n", ran, wrong);
    return wrong || !ran;
}
