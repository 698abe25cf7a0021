/* heat.c - the heat equation on many machines: a device for each rank of MPI.

       mpicc -O2 examples/heat.c -o heat -pthread          (Debian: libopenmpi-dev)
       mpirun -np 2 ./heat [--stall|--kill RANK STEP] [DEVICE [STEPS [SECONDS]]]
       mpirun --oversubscribe -np 4 ./heat
       mpirun -np 1 ./heat CUDA:0 : -np 1 ./heat CUDA:1    (with -DHCQ_CUDA)

   A tube of sheet metal is cut into a strip for each rank. In each step of time a
   rank computes the rims of its strip, the first row and the last, and sends them to
   the ranks above and below; what comes from there is the halo of the next step.
   While the halos travel the device computes the inside, which needs none of them.

   What is hcq's is the order on a machine: which kernel, copy or call of MPI follows
   which. What is MPI's is the way between machines. They meet in two places: a host
   command starts MPI's transfers when the queue gets there, and a thread that sees
   MPI finish them raises a signal, for which a queue waits. Whatever has a call that
   starts and a way to learn of the end joins like that: NCCL (in a custom command,
   which gets CUDA's stream), sockets, the workers of a job system.

   Four recordings, once for even and once for odd steps, are submitted again and
   again. The host only keeps IN_FLIGHT steps ahead; no step waits for it. A rank that
   lacks a halo for SECONDS [10] gets HCQ_TIMEOUT, says by hcq_explain whose halo it is,
   and ends all: --stall stops a rank at a step. One that --kill kills mpirun tells.

   Rank 0 computes the whole in plain C: the strips must be that bit for bit. The overlap
   is from hcq's profile: of each step the time when the inside was computed while halos
   travelled (from the end of the command that sends to the begin of the one behind the
   wait), over the shorter of the two; means of all ranks. The times are for ranks with a
   core each. Where they share cores a halo travels as long as its sender waits for one,
   and that is what the inside hides; the result is right all the same. A rank alone
   sends to itself, which is there at once. -DHCQ_VULKAN adds the device VULKAN, -DHCQ_CUDA
   CUDA; with -DHCQ_CHECK hcq_check.h looks for missing waits. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "heat.k"
#include "heat.k.h"

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROWS = 2048,                       /* of a strip; a halo row above and one below */
    CELLS = ROWS * WIDTH,
    ROW_BYTES = WIDTH * 4,
    STEPS = 40, MAX_STEPS = 4000,
    IN_FLIGHT = 16                     /* steps that are submitted and not done */
};
enum { ABOVE, BELOW, PEERS };
enum { RIM, SEND, LAND, INSIDE, PARTS };
static const char *const part_names[PARTS] = { "rim", "send", "land", "inside" };

typedef struct strip {
    int rank, ranks, peer[PEERS];
    uint32_t steps;
    uint64_t timeout_ns;
    hcq_device *dev;
    hcq_program *warm;
    hcq_buffer field[2];               /* halo, ROWS rows, halo; steps take turns */
    hcq_buffer edge[PEERS], halo[PEERS]; /* a row to each peer, and one from it */
    hcq_queue *part[2][PARTS];         /* of even and of odd steps */
    hcq_signal rimmed, sent, arrived[PEERS], landed; /* each at the number of steps */
    MPI_Request request[PEERS][2];
    uint32_t sends;                    /* that began */
    int fault;                         /* to raise at fault_step */
    uint32_t fault_step;
} strip;

/* Whatever fails ends the job: MPI has no smaller answer. */
static void need(hcq_result result, const char *doing) {
    if (result == HCQ_OK) { return; }
    fprintf(stderr, "heat: %s: %s\n", doing, hcq_result_text(result));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- where hcq and MPI meet ---------------------------------------------- */

/* The host command of SEND. The tag says which way a row goes: 0 is up. */
static hcq_result send_rims(void *user) {
    strip *t = (strip *)user;
    if (++t->sends == t->fault_step) { raise(t->fault); }
    for (int i = 0; i < PEERS; i++) {
        MPI_Irecv(t->halo[i].host, WIDTH, MPI_FLOAT, t->peer[i], 1 - i, MPI_COMM_WORLD,
                  &t->request[i][0]);
        MPI_Isend(t->edge[i].host, WIDTH, MPI_FLOAT, t->peer[i], i, MPI_COMM_WORLD,
                  &t->request[i][1]);
    }
    return HCQ_OK;
}

/* The host command of LAND: in the profile, when the halos were there. */
static hcq_result have_arrived(void *user) {
    (void)user;
    return HCQ_OK;
}

/* Between two looks at MPI, whose own waits spin: the cores are for computing. */
static void nap(void) {
    const struct timespec time = { 0, 50000 };
    nanosleep(&time, NULL);
}

/* Have the rows to and from a peer arrived? Then whoever waits for it goes on. */
static int look(strip *t, int peer, uint32_t step) {
    int there = 0;
    MPI_Testall(2, t->request[peer], &there, MPI_STATUSES_IGNORE);
    if (!there) { return 0; }
#ifdef HCQ_CHECK
    need(hcq_check_host(t->halo[peer].host, ROW_BYTES, HCQ_ARG_OUT), "check");
#endif
    need(hcq_signal_set(t->arrived[peer], step), "arrival");
    return 1;
}

/* A thread that asks MPI, which calls nobody and moves much only while it is asked.
   It sleeps until something is on its way. Since another thread, one of hcq's, is in
   send_rims when it gets there, MPI is asked for MPI_THREAD_MULTIPLE: no lock, and no
   hand-over, between the command and the transfer. */
static void *watch(void *user) {
    strip *t = (strip *)user;
    for (uint32_t step = 1; step <= t->steps; step++) {
        hcq_point sent = hcq_at(t->sent, step);
        int there[PEERS] = { 0, 0 };
        need(hcq_wait(&sent, 1, HCQ_ALL, HCQ_FOREVER), "watch");
        while (!there[ABOVE] || !there[BELOW]) {
            nap();
            for (int i = 0; i < PEERS; i++) {
                if (!there[i]) { there[i] = look(t, i, step); }
            }
        }
    }
    return NULL;
}

/* ---- the strip and its recordings ---------------------------------------- */

/* Rows of the tube as they are at first, from any `row`; the last comes before the first. */
static void fill(float *to, int row, int rows, int of_rows) {
    for (int i = 0; i < rows * WIDTH; i++) {
        int y = (row + i / WIDTH + of_rows) % of_rows, x = i % WIDTH;
        to[i] = (float)((y * 7 + x * 13) % 101) + (x < WIDTH / 4 ? 200.0f : 0.0f);
    }
}

static hcq_buffer rows_of(hcq_buffer field, uint32_t first, uint32_t rows) {
    return hcq_view(field, (uint64_t)first * ROW_BYTES, (uint64_t)rows * ROW_BYTES);
}

/* Records the kernel for some rows; which bytes it touches is said for the checker. */
static void warm_rows(strip *t, hcq_queue *q, int odd, uint32_t first, uint32_t rows) {
    hcq_buffer from = t->field[odd], to = t->field[1 - odd];
    warm_args args = { to.address, from.address, first, rows };
    int32_t index = hcq_queue_exec(q, t->warm, &args, sizeof args,
                                   hcq_dim((WIDTH + 253) / 256, rows, 1), hcq_dim(256, 1, 1));
    hcq_queue_access(q, index, rows_of(to, first, rows), HCQ_ARG_OUT);
    hcq_queue_access(q, index, rows_of(from, first - 1, rows + 2), HCQ_ARG_IN);
}

static void record(strip *t, int odd) {
    hcq_queue **q = t->part[odd];
    hcq_buffer next = t->field[1 - odd];
    warm_rows(t, q[RIM], odd, 1, 1);
    warm_rows(t, q[RIM], odd, ROWS, 1);

    hcq_queue_copy(q[SEND], t->edge[ABOVE], rows_of(next, 1, 1), ROW_BYTES);
    hcq_queue_copy(q[SEND], t->edge[BELOW], rows_of(next, ROWS, 1), ROW_BYTES);
    int32_t send = hcq_queue_host(q[SEND], send_rims, t);
    hcq_queue_access(q[SEND], send, t->edge[ABOVE], HCQ_ARG_IN);
    hcq_queue_access(q[SEND], send, t->edge[BELOW], HCQ_ARG_IN);

    hcq_queue_host(q[LAND], have_arrived, t);
    hcq_queue_copy(q[LAND], rows_of(next, 0, 1), t->halo[ABOVE], ROW_BYTES);
    hcq_queue_copy(q[LAND], rows_of(next, ROWS + 1, 1), t->halo[BELOW], ROW_BYTES);

    warm_rows(t, q[INSIDE], odd, 2, ROWS - 2);
}

static void make_queues(strip *t, int odd) {
    hcq_queue **q = t->part[odd];
    for (int i = 0; i < PARTS; i++) {
        hcq_queue_kind kind = i == SEND || i == LAND ? HCQ_COPY : HCQ_COMPUTE;
        need(hcq_queue_create(t->dev, kind, &q[i]), "queue");
        need(hcq_queue_label(q[i], part_names[i]), "queue");
    }
    record(t, odd);
    for (int i = 0; i < PARTS; i++) { need(hcq_queue_bind(q[i], t->dev), part_names[i]); }
}

static void make_signal(strip *t, hcq_signal *signal, const char *label, int rank) {
    char text[32];
    snprintf(text, sizeof text, label, rank); /* `rank`, if it has a place for it */
    need(hcq_signal_create(t->dev, 0, signal), text);
    need(hcq_signal_label(*signal, text), text);
}

/* Both fields get the columns that never change, the first one its halos, too. */
static void make_memory(strip *t) {
    uint64_t size = (ROWS + 2) * (uint64_t)ROW_BYTES;
    float *first = (float *)malloc(size);
    need(first != NULL ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY, "memory");
    fill(first, t->rank * ROWS - 1, ROWS + 2, t->ranks * ROWS);
    for (int i = 0; i < 2; i++) {
        need(hcq_alloc(t->dev, size, 0, &t->field[i]), "memory");
        need(hcq_copyin(t->field[i], first, size), "memory");
        need(hcq_alloc(t->dev, ROW_BYTES, HCQ_HOST_VISIBLE, &t->edge[i]), "memory");
        need(hcq_alloc(t->dev, ROW_BYTES, HCQ_HOST_VISIBLE, &t->halo[i]), "memory");
    }
    free(first);
}

/* On the CPU a rank has a core: without helpers, and whoever waits sleeps. */
static void make_strip(strip *t, const char *device) {
    hcq_program_desc program = HCQ_PROGRAM(warm);
    hcq_device_desc desc;
    struct hcq_cpu_desc cpu;
    memset(&desc, 0, sizeof desc);
    memset(&cpu, 0, sizeof cpu);
    cpu.workers = HCQ_CPU_NO_WORKERS;
    desc.cpu = &cpu;
    desc.spin_ns = HCQ_NEVER;
    desc.timeout_ns = t->timeout_ns;
#ifdef HCQ_CHECK
    desc.flags = HCQ_DEVICE_CHECK;
#endif
    need(hcq_open(device, &desc, &t->dev), device);
    need(hcq_program_create(t->dev, &program, &t->warm), "program");
    make_memory(t);
    make_signal(t, &t->rimmed, "rims computed", 0);
    make_signal(t, &t->sent, "rims sent", 0);
    make_signal(t, &t->arrived[ABOVE], "halo of rank %d, above", t->peer[ABOVE]);
    make_signal(t, &t->arrived[BELOW], "halo of rank %d, below", t->peer[BELOW]);
    make_signal(t, &t->landed, "halos landed", 0);
    make_queues(t, 0);
    make_queues(t, 1);
}

/* ---- the steps ----------------------------------------------------------- */

static hcq_submission part(const hcq_point *waits, uint32_t count, hcq_queue *const *queue,
                           const hcq_point *raised) {
    hcq_submission work;
    memset(&work, 0, sizeof work);
    work.waits = waits;
    work.wait_count = count;
    work.queues = queue;
    work.queue_count = 1;
    work.signals = raised;
    work.signal_count = raised != NULL;
    return work;
}

/* RIM and INSIDE follow each other on the compute lane, SEND and LAND on the copy lane;
   all else is in this table: waits, a queue, what it raises. */
static hcq_point submit(strip *t, uint32_t step) {
    hcq_point halos = hcq_at(t->landed, step - 1), landed = hcq_at(t->landed, step);
    hcq_point rimmed = hcq_at(t->rimmed, step), sent = hcq_at(t->sent, step);
    hcq_point arrived[PEERS] = { hcq_at(t->arrived[ABOVE], step), hcq_at(t->arrived[BELOW], step) };
    hcq_queue **q = t->part[(step - 1) % 2];
    const hcq_submission work[PARTS] = {
        part(&halos, 1, &q[RIM], &rimmed), part(&rimmed, 1, &q[SEND], &sent),
        part(arrived, PEERS, &q[LAND], &landed), part(NULL, 0, &q[INSIDE], NULL),
    };
    need(hcq_submit(t->dev, work, PARTS, NULL), "submit");
    return hcq_at(hcq_device_timeline(t->dev), hcq_device_timeline_value(t->dev) - 1);
}

static void expect(const strip *t, const hcq_point *done) {
    static char why[4096];
    hcq_result r = hcq_wait(done, 1, HCQ_ALL, t->timeout_ns);
    if (r == HCQ_TIMEOUT) {
        hcq_explain(done, 1, why, sizeof why);
        fprintf(stderr, "heat: rank %d: no step in %g s:\n%s\n", t->rank,
                (double)t->timeout_ns / 1e9, why);
    }
    need(r, "a step");
}

static void run(strip *t) {
    hcq_point done[IN_FLIGHT];
    for (uint32_t step = 1; step <= t->steps; step++) {
        hcq_point *turn = &done[step % IN_FLIGHT];
        if (step > IN_FLIGHT) { expect(t, turn); }
        *turn = submit(t, step);
    }
    expect(t, &done[t->steps % IN_FLIGHT]);
}

/* ---- what ran when ------------------------------------------------------- */

typedef struct span { uint64_t begin, end; } span;
static double ms(span s) { return s.end > s.begin ? (double)(s.end - s.begin) / 1e6 : 0; }

/* Of each step INSIDE's kernel and the host commands of SEND and LAND. */
static void read_profile(strip *t, span ran[PARTS][MAX_STEPS]) {
    static hcq_profile_event events[8 * MAX_STEPS];
    uint32_t count, seen[PARTS] = { 0, 0, 0, 0 };
    need(hcq_profile_events(t->dev, events, 8 * MAX_STEPS, &count, NULL), "profile");
    for (uint32_t i = 0; i < count; i++) {
        const hcq_profile_event *e = &events[i];
        int part = INSIDE;
        while (part > RIM && strcmp(e->queue, part_names[part]) != 0) { part--; }
        if (part == INSIDE || e->kind == HCQ_COMMAND_HOST) {
            span now = { e->begin_ns, e->end_ns };
            ran[part][seen[part]++] = now;
        }
    }
}

/* Prints means of the ranks. */
static void measure(strip *t, span all) {
    static span ran[PARTS][MAX_STEPS];
    double mine[] = { ms(all), 0, 0, 0, 0 }, sum[5], n = (double)t->steps * t->ranks;
    read_profile(t, ran);
    for (uint32_t i = 0; i < t->steps; i++) {
        span in = ran[INSIDE][i], way = { ran[SEND][i].end, ran[LAND][i].begin }, both = in;
        if (way.begin > both.begin) { both.begin = way.begin; }
        if (way.end < both.end) { both.end = way.end; }
        mine[1] += ms(in);
        mine[2] += ms(way);
        mine[3] += ms(both);
        mine[4] += ms(in) < ms(way) ? ms(in) : ms(way);
    }
    MPI_Reduce(mine, sum, 5, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (t->rank == 0) {
        printf("%d ranks: %.3f ms a step: inside %.3f, travel %.3f, both at once %.3f: "
               "overlap %.2f\n", t->ranks, sum[0] / n, sum[1] / n, sum[2] / n, sum[3] / n,
               sum[3] / sum[4]);
    }
}

/* ---- the same in plain C ------------------------------------------------- */

static void plain(float *even, float *odd, int rows, uint32_t steps) {
    for (uint32_t step = 0; step < steps; step++) {
        const float *now = step % 2 ? odd : even;
        float *next = step % 2 ? even : odd;
        for (int y = 0; y < rows; y++) {
            const float *here = now + y * WIDTH, *above = now + (y + rows - 1) % rows * WIDTH;
            const float *below = now + (y + 1) % rows * WIDTH;
            for (int x = 1; x < WIDTH - 1; x++) {
                next[y * WIDTH + x] =
                    warmed(here[x], above[x], below[x], here[x - 1], here[x + 1]);
            }
        }
    }
}

/* Gathers the strips at rank 0, which compares and tells the others. */
static int compare(strip *t) {
    int rows = t->ranks * ROWS, root = t->rank == 0, good = 0, told = 0;
    MPI_Request verdict;
    size_t cells = root ? (size_t)rows * WIDTH : 0;
    float *mine = (float *)malloc((CELLS + 3 * cells) * sizeof(float));
    need(mine != NULL ? HCQ_OK : HCQ_ERROR_OUT_OF_MEMORY, "memory");
    float *whole = mine + CELLS, *even = whole + cells, *odd = even + cells;
    need(hcq_copyout(mine, rows_of(t->field[t->steps % 2], 1, ROWS), CELLS * 4), "result");
    MPI_Gather(mine, CELLS, MPI_FLOAT, whole, CELLS, MPI_FLOAT, 0, MPI_COMM_WORLD);
    if (root) {
        fill(even, 0, rows, rows);
        memcpy(odd, even, cells * sizeof(float));
        plain(even, odd, rows, t->steps);
        good = memcmp(whole, t->steps % 2 ? odd : even, cells * sizeof(float)) == 0;
        printf("%d x %d cells, %u steps, %s that of plain C\n", (int)WIDTH, rows,
               (unsigned)t->steps, good ? "bit for bit" : "WRONG: not");
    }
    free(mine);
    MPI_Ibcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD, &verdict);
    while (!told) {
        nap();
        MPI_Test(&verdict, &told, MPI_STATUS_IGNORE);
    }
    return good;
}

static int heat(strip *t, const char *device) {
    pthread_t watcher;
    make_strip(t, device);
    need(hcq_profile_start(t->dev, NULL), "profile");
    MPI_Barrier(MPI_COMM_WORLD);
    span all = { hcq_now_ns(), 0 };
    if (pthread_create(&watcher, NULL, watch, t) != 0) { need(HCQ_ERROR_LIMIT, "thread"); }
    run(t);
    all.end = hcq_now_ns();
    pthread_join(watcher, NULL);
    measure(t, all);
    int good = compare(t);
    need(hcq_close(t->dev), device);
    return good;
}

/* Returns the device's name. */
static const char *read_arguments(strip *t, int argc, char **argv) {
    int stall = argc > 3 && strcmp(argv[1], "--stall") == 0;
    if (stall || (argc > 3 && strcmp(argv[1], "--kill") == 0)) {
        t->fault = stall ? SIGSTOP : SIGKILL;
        t->fault_step = atoi(argv[2]) == t->rank ? (uint32_t)atoi(argv[3]) : 0;
        argv += 3;
        argc -= 3;
    }
    t->steps = argc > 2 ? (uint32_t)atoi(argv[2]) : (uint32_t)STEPS;
    int seconds = argc > 3 ? atoi(argv[3]) : 10;
    t->timeout_ns = (uint64_t)seconds * 1000000000u;
    need(argc <= 4 && t->steps >= 1 && t->steps <= MAX_STEPS && seconds > 0 ? HCQ_OK
                                                                            : HCQ_ERROR_INVALID,
         "usage: heat [--stall|--kill RANK STEP] [DEVICE [STEPS [SECONDS]]]");
    return argc > 1 ? argv[1] : "CPU";
}

int main(int argc, char **argv) {
    static strip t;
    int threads;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    need(threads == MPI_THREAD_MULTIPLE ? HCQ_OK : HCQ_ERROR_UNSUPPORTED, "MPI_THREAD_MULTIPLE");
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.ranks);
    t.peer[ABOVE] = (t.rank + t.ranks - 1) % t.ranks;
    t.peer[BELOW] = (t.rank + 1) % t.ranks;
    int good = heat(&t, read_arguments(&t, argc, argv));
    MPI_Finalize();
    return good ? 0 : 1;
}
