/* hcq_check.h - the order of commands, checked, and explored. Licence: as hcq.h.

   Recipe: keep it beside hcq.h, and define HCQ_CHECK where you define HCQ_IMPLEMENTATION and
   where you call what is below. Open a device with hcq_device_desc.flags = HCQ_DEVICE_CHECK.

   What it does. Every command of such a device reads and writes bytes. Where two commands
   touch the same bytes, one of them writes, and nothing orders the two, the result is
   chance, here or elsewhere. hcq_check.h finds them when they are handed over, by what
   orders them and not by when they ran: on the first run, also where they never met. It
   tells the logger, once for each pair of commands: both, the bytes, the order that is
   there, and the calls that are missing. HCQ_QUERY_RACES counts them, hcq_device_dump
   repeats them, also lines too long for a log, and with HCQ_DEVICE_CHECK_FAILS the submission
   whose command comes second fails with HCQ_ERROR_RACE, from its segment on. Another one
   with the first, or with what its lane did before, may not be told then: mend, and look again.

   What orders. Commands of a queue, but for HCQ_OVERLAP; submissions of a lane, but for
   HCQ_UNORDERED; a wait behind what raises its signal to that value or, where several
   may, what is over before each of them; a submission behind all that the host has seen
   before it: waits that returned, values that it read, copyin, copyout, notifications,
   host commands. A host command goes by what hcq_queue_access says of it. All threads of
   the host are one: what a call of any of them has seen orders every later call. With
   HCQ_DEVICE_CHECK_THREADS each has its own order, and hcq_check_meet tells how two of
   them meet, by a mutex say; what one that ended has not seen over is kept.

   Which bytes. Copies, fills, writes and grids have their own, arguments of kernels those
   that hcq_queue_access states. Of another argument nobody knows which bytes the kernel
   touches between its address and the end of the buffer: that gives a `possible` race,
   logged with HCQ_OK (the default logger shows that, too), which fails and counts nothing.
   What the host reads and writes through hcq_buffer.host, or the memory it imported, it
   declares by hcq_check_host. Memory of a buffer that is imported as well counts as two.

   Also: memory used that hcq_alloc_after has not given yet, bytes copied that nobody ever
   wrote (of memory that the host does not see), imported memory used by the host again
   while commands still have it; a value that brings a buffer with fewer bytes than were
   stated (`possible`, where another value of the command is a number). And, if asked for:
   HCQ_DEVICE_CHECK_READS, on the CPU only: a kernel that changed bytes of an argument that
   it has as HCQ_ARG_IN, or as stated. Told when it has run, fails nothing; `possible` where
   bytes that were not stated are memory for the host, or others may be at it.
   HCQ_DEVICE_CHECK_WAITS: a wait for what is over before anyhow, by its lane or by another
   wait; a hint, logged with HCQ_OK once for each wait of a queue, 64 times for a device.

   Exploring. hcq_explore runs a function of yours again and again, each time with
   another order of the pieces that its devices' work consists of (they have a seed then,
   see hcq_cpu.h: no threads, one piece at a time): some drawn orders, or all there are,
   of which those that only swap independent commands count once. It stops at the first
   that returns an error, waits for what nothing can end, or has a race, and gives a short
   list of choices that makes that run again, under a debugger say. The function opens its
   devices as always, by hcq_open("CPU"), and must do the same in each run: nothing kept
   from the one before, no clock but hcq_now_ns, no threads. Commands run whole when all
   orders are gone through or drawn; in parts, blocks of one grid too, on a device that is
   opened with a seed.

   What it costs. Time: more than a small kernel does, however many commands are pending.
   Memory: 100 bytes for each range of bytes that was treated differently, and 300 for each
   of the last commands there, until the host has seen them over, by malloc; if that fails it
   says so and finds no more, and the query gives HCQ_ERROR_OUT_OF_MEMORY. Host commands run on
   the service thread, also on the CPU. What devices without the flag do counts, too, but is
   not told to them; on the CPU what their host commands call follows nothing. After 2,048
   pairs, 1,024 with possible ones, it tells of no more. */
#ifndef HCQ_CHECK_H
#define HCQ_CHECK_H
#ifdef __cplusplus
extern "C" {
#endif

/* Says that the calling thread now reads or writes (HCQ_ARG_IN, _OUT, _INOUT) `size` bytes of
   host memory that buffers have, through hcq_buffer.host or as imported. Call it where that
   begins. Nothing, if no device is checked.
   Threads: any.
   Errors:  HCQ_ERROR_INVALID (no living buffer has any of it; NULL, no access, no bytes or
            more than there are). */
HCQ_API hcq_result hcq_check_host(const void *ptr, uint64_t size, uint32_t access);
/* With HCQ_DEVICE_CHECK_THREADS: orders what this thread does next behind what others did
   before they called this with the same `object`, whatever that is. Always HCQ_OK.
   Threads: any. */
HCQ_API hcq_result hcq_check_meet(const void *object);

enum { HCQ_EXPLORE_EVERY = 1 };        /* also orders that only swap independent commands */

/* What to explore. All zero, but for the function, explores all schedules. */
typedef struct hcq_explore_desc {
    hcq_result (*run_fn)(void *user);  /* opens devices "CPU", works, and closes them */
    void *user;
    uint64_t seeds;                    /* schedules drawn at random; 0: all there are */
    uint64_t seed;                     /* the first one's [1] */
    uint64_t runs;                     /* of all there are at most so many [100,000] */
    uint32_t flags;                    /* HCQ_EXPLORE_* */
    const char *choices;               /* only this schedule: what an earlier call found */
    hcq_log_fn log_fn;                 /* [errors to stderr] */
    void *log_user;
} hcq_explore_desc;

/* What came of it. */
typedef struct hcq_explore_info {
    hcq_result result;                 /* of the run that ended it; HCQ_OK: none did */
    uint32_t complete;                 /* no schedule is left */
    uint64_t runs;                     /* schedules that ran to their end, that one too */
    uint64_t cut;                      /* others: in the middle they repeat an earlier one */
    uint64_t seed;                     /* of the run that ended it */
    char choices[1000];                /* its schedule, made short: for the desc's field;
                                          where that is longer, what it refuses */
} hcq_explore_info;

/* Runs a function with one schedule of its devices' work after another (see hcq_cpu.h, "A
   device with a seed") until it returns anything but HCQ_OK, a wait is a deadlock, or the
   checker, which is on, tells a race. Says which choices, among the pieces that might have
   run next, lead there; the run that these give is made with its devices' logs on, the ones
   before it without. `info` may be NULL. The function's runs may differ by nothing else.
   Returns:  HCQ_OK (nothing found), or that run's result.
   Threads:  one at a time, with no other device open. Blocks.
   Errors:   HCQ_ERROR_INVALID (no function, unknown flags, bad choices, runs that differ),
             HCQ_ERROR_BUSY (devices are open, or stayed so), HCQ_ERROR_OUT_OF_MEMORY,
             HCQ_ERROR_UNSUPPORTED (no HCQ_CPU). */
HCQ_API hcq_result hcq_explore(const hcq_explore_desc *desc, hcq_explore_info *info);

#ifdef __cplusplus
}
#endif
#endif /* HCQ_CHECK_H */

#if defined(HCQ_IMPLEMENTATION) && !defined(HCQI_CHECK_IMPLEMENTED)
#define HCQI_CHECK_IMPLEMENTED
HCQI_COLD_BEGIN

/* ========================================================================== */
/* ---- what is over ---------------------------------------------- >>past - */
/* Commands follow each other in chains: a lane, the host, a submission that is unordered. A place
   in one is a tick, which rises; commands that overlap have the same. A past says of each chain
   up to which tick it is over. Pasts are vector clocks; they are shared, and copied by whoever
   changes one that others have, too. With the core's lock. */

#define HCQI_LONG(x) ((unsigned long long)(x))
#define HCQI_RACES 32                  /* texts kept of each device */
#define HCQI_RACE_LINE 448
#define HCQI_RACE_TEXT 1792
#define HCQI_PAIRS 4096                /* that were told */
#define HCQI_CANDIDATES 16             /* raises that a wait looks at */
#define HCQI_READERS 32                /* that another one of the same bytes looks at */
#define HCQI_TICKS 24                  /* bits of a lane's tick within a submission */
#define HCQI_NEEDLESS 64               /* hints that were told */
#define HCQI_WAITS 16                  /* of a segment that are held against each other */
#define HCQI_WATCHES 64                /* ranges that one run of a kernel is watched at */

typedef struct hcqi_tick { uint64_t chain, tick; } hcqi_tick;

struct hcqi_past {
    uint32_t refs, count, room;
    hcqi_tick ticks[1];                /* by chain; `room` of them */
};

/* The end of something, and what was over before it. chain 0: nothing. */
typedef struct hcqi_moment { hcqi_past *past; hcqi_tick at; } hcqi_moment;

struct hcqi_chain {
    hcqi_tick at;                      /* its number, the last tick */
    hcqi_past *past;                   /* of what comes next */
    hcqi_past *began;                  /* the submitter's, joined last */
    int lane, busy;                    /* of a lane; of a job that is not over */
    char where[64];                    /* for reports */
};

/* A command that was handed over, or a call of the host's, as long as ranges name it. */
typedef struct hcqi_deed {
    uint32_t refs;
    uint32_t index;                    /* of a command; HCQI_NONE: the host's */
    hcqi_tick at;
    hcq_device *dev;                   /* maybe closed: see `place` */
    uint64_t place;                    /* its lane's */
    uint64_t number, job;              /* submission; its part on this lane */
    uint64_t made;                     /* a number, which rises */
    uint64_t key;                      /* the same for each run of the command */
    hcqi_site site;
    char what[48], queue[32], where[64];
} hcqi_deed;

/* One who read, in a list of a range. */
typedef struct hcqi_read { struct hcqi_read *next; hcqi_deed *deed; int exact; } hcqi_read;

/* Bytes that were treated alike, in a treap by `first`. A `maybe` is of a kernel that
   may have written some of them. */
typedef struct hcqi_cell {
    struct hcqi_cell *left, *right;
    uint32_t rank;
    int written;                       /* by anybody, ever */
    uint64_t first, end;
    hcqi_deed *wrote, *maybe;
    hcqi_read *reads;                  /* since `wrote` */
} hcqi_cell;

/* What is known of a buffer's bytes. */
struct hcqi_shadow {
    hcqi_cell *cells;
    uint64_t alloc;                    /* the submission that gives the memory; 0: it is given */
    int blank;                         /* what no command wrote is undefined */
};

typedef struct hcqi_release { uint64_t value; hcqi_moment moment; } hcqi_release;

/* A signal's raises, by value. Those up to `base` order nothing any more. */
struct hcqi_releases {
    struct hcqi_releases *next, **link; /* in hcqi_order.releases */
    hcqi_signal *signal;
    hcqi_release *list;
    uint32_t count, capacity;
    uint64_t base;
};

/* A device's ends of submissions, by number, and what is over with all up to one. */
struct hcqi_ends {
    hcqi_moment *list;
    uint64_t first;                    /* number of list[0] */
    uint32_t count, capacity;
    hcqi_past *prefix;
    uint64_t prefix_to;
    uint64_t races;
    char (*texts)[HCQI_RACE_TEXT];     /* of the latest */
    uint64_t needless[HCQI_NEEDLESS];  /* hints that were told */
    uint32_t needless_count;
};

/* A thread of the host, or all of them, or where they meet. */
typedef struct hcqi_party {
    struct hcqi_party *next;
    uint64_t key;                      /* thread, object */
    hcqi_tick at;
    hcqi_past *past;                   /* with itself */
} hcqi_party;

static struct hcqi_order {
    hcq_memory_hooks hooks;
    uint32_t devices;                  /* open ones with the flag */
    int threads;                       /* each is a party */
    int blind;                         /* memory was out: says nothing any more */
    uint64_t serial;                   /* of chains */
    hcqi_chain **chains;               /* by number */
    uint32_t chain_count, chain_capacity;
    hcqi_party all, *parties, *meetings;
    hcqi_releases *releases;
    hcqi_shadow imported;              /* all memory of the host's, by whomever imported */
    int opaque;                        /* something ran of which nobody knows what it wrote */
    int guessed;                       /* something counts as over that may not be: no hints */
    uint32_t watching;                 /* kernels: nothing is forgotten meanwhile */
    uint64_t deeds;                    /* ever */
    uint64_t items, limit;             /* deeds, ends, raises; to look what is over */
    uint64_t chance;
    uint64_t pairs[HCQI_PAIRS];        /* told: a table by hash */
    uint32_t pair_count;
} hcqi_order;

/* Memory is out, which is said once. */
static void hcqi_order_blinded(void) {
    HCQI_DEVICES(dev) {
        if (hcqi_order.blind || (dev->desc.flags & HCQ_DEVICE_CHECK) == 0) { continue; }
        hcqi_refuse(dev, HCQ_ERROR_OUT_OF_MEMORY, "check: out of memory, finds no more races");
    }
    hcqi_order.blind = hcqi_order.guessed = 1;
}

static void *hcqi_order_new(size_t size) {
    void *made = hcqi_new(&hcqi_order.hooks, size);
    if (made == NULL) { hcqi_order_blinded(); }
    return made;
}

static size_t hcqi_past_bytes(uint32_t room) {
    return offsetof(hcqi_past, ticks) + room * sizeof(hcqi_tick);
}

static hcqi_past *hcqi_past_ref(hcqi_past *past) {
    if (past != NULL) { past->refs++; }
    return past;
}

static void hcqi_past_unref(hcqi_past *past) {
    if (past == NULL || --past->refs != 0) { return; }
    hcqi_delete(&hcqi_order.hooks, past, hcqi_past_bytes(past->room));
}

static void hcqi_past_replace(hcqi_past **past, hcqi_past *by) {
    hcqi_past *old = *past;
    *past = hcqi_past_ref(by);
    hcqi_past_unref(old);
}

/* The place of a chain in it, or of the first one behind. */
static uint32_t hcqi_past_place(const hcqi_past *past, uint64_t chain) {
    uint32_t low = 0, high = past == NULL ? 0 : past->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (past->ticks[middle].chain < chain) { low = middle + 1; } else { high = middle; }
    }
    return low;
}

/* How far the chain is over; 0: nothing of it. */
static uint64_t hcqi_past_of(const hcqi_past *past, uint64_t chain) {
    uint32_t at = hcqi_past_place(past, chain);
    int has = past != NULL && at < past->count && past->ticks[at].chain == chain;
    return has ? past->ticks[at].tick : 0;
}

static int hcqi_past_has(const hcqi_past *past, hcqi_tick at) {
    return hcqi_past_of(past, at.chain) >= at.tick;
}

/* Nobody else's, with room for so many more; NULL = out of memory. */
static hcqi_past *hcqi_past_own(hcqi_past **past, uint32_t more) {
    const hcqi_past *old = *past;
    uint32_t count = old == NULL ? 0 : old->count;
    if (old != NULL && old->refs == 1 && old->room >= count + more) { return *past; }
    uint32_t room = count + more + 4 + count / 2;
    hcqi_past *own = HCQI_CAST(hcqi_past *, hcqi_order_new(hcqi_past_bytes(room)));
    if (own == NULL) { return NULL; }
    if (count != 0) { memcpy(own->ticks, old->ticks, count * sizeof *own->ticks); }
    own->refs = 1;
    own->count = count;
    own->room = room;
    hcqi_past_unref(*past);
    *past = own;
    return own;
}

static void hcqi_past_put(hcqi_past **past, hcqi_tick at) {
    if (at.chain == 0 || hcqi_past_has(*past, at)) { return; }
    uint32_t place = hcqi_past_place(*past, at.chain);
    int there = *past != NULL && place < (*past)->count && (*past)->ticks[place].chain == at.chain;
    hcqi_past *own = hcqi_past_own(past, there ? 0 : 1);
    if (own == NULL) { return; }
    if (!there) {
        memmove(&own->ticks[place + 1], &own->ticks[place],
                (own->count - place) * sizeof *own->ticks);
        own->count++;
    }
    own->ticks[place] = at;
}

/* Chains of `from` that `to` lacks; *later: has others, but less of them. */
static uint32_t hcqi_past_lacks(const hcqi_past *to, const hcqi_past *from, int *later) {
    uint32_t lacks = 0, count = to == NULL ? 0 : to->count;
    *later = 0;
    for (uint32_t i = 0, k = 0; k < from->count; k++) {
        while (i < count && to->ticks[i].chain < from->ticks[k].chain) { i++; }
        if (i == count || to->ticks[i].chain != from->ticks[k].chain) {
            lacks++;
        } else if (to->ticks[i].tick < from->ticks[k].tick) {
            *later = 1;
        }
    }
    return lacks;
}

/* What is over in either of them. */
static void hcqi_past_join(hcqi_past **to, hcqi_past *from) {
    int later;
    if (from == NULL || from == *to) { return; }
    if (*to == NULL) {
        *to = hcqi_past_ref(from);
        return;
    }
    uint32_t lacks = hcqi_past_lacks(*to, from, &later), i = (*to)->count, k = from->count;
    if (lacks == 0 && !later) { return; }
    hcqi_past *own = hcqi_past_own(to, lacks);
    if (own == NULL) { return; }
    for (uint32_t at = i + lacks; k > 0;) { /* from the end, so that nothing is in the way */
        const hcqi_tick *theirs = &from->ticks[k - 1];
        if (i > 0 && own->ticks[i - 1].chain > theirs->chain) {
            own->ticks[--at] = own->ticks[--i];
        } else if (i > 0 && own->ticks[i - 1].chain == theirs->chain) {
            hcqi_tick mine = own->ticks[--i];
            own->ticks[--at] = mine.tick > theirs->tick ? mine : *theirs;
            k--;
        } else {
            own->ticks[--at] = *theirs;
            k--;
        }
    }
    own->count += lacks;
}

/* What is over in both of them. */
static void hcqi_past_meet(hcqi_past **to, const hcqi_past *from) {
    uint32_t count = 0;
    hcqi_past *own = *to == NULL ? NULL : hcqi_past_own(to, 0);
    for (uint32_t i = 0; own != NULL && i < own->count; i++) {
        hcqi_tick at = own->ticks[i];
        uint64_t other = hcqi_past_of(from, at.chain);
        if (other < at.tick) { at.tick = other; }
        if (at.tick != 0) { own->ticks[count++] = at; }
    }
    if (own != NULL) { own->count = count; }
}

static void hcqi_moment_join(hcqi_past **to, const hcqi_moment *m) {
    hcqi_past_join(to, m->past);
    hcqi_past_put(to, m->at);
}

static hcqi_moment hcqi_moment_of(const hcqi_chain *c) {
    hcqi_moment m = { hcqi_past_ref(c->past), c->at };
    hcqi_order.items++;
    return m;
}

static void hcqi_moment_drop(hcqi_moment *m) {
    hcqi_past_unref(m->past);
    m->past = NULL;
    m->at.chain = 0;
}

/* ---- chains ---- */

static void hcqi_lane_text(const hcqi_lane *lane, char *text, size_t size) {
    snprintf(text, size, "%s lane %u of '%s'", lane->base.kind == HCQ_COPY ? "copy" : "compute",
             lane->base.index, lane->dev->label);
}

static hcqi_chain *hcqi_chain_new(const hcqi_lane *lane, int is_lane) {
    hcqi_chain **place = HCQI_PUSH(&hcqi_order.hooks, hcqi_order.chains, hcqi_order.chain_count,
                                   hcqi_order.chain_capacity);
    hcqi_chain *c = HCQI_CAST(hcqi_chain *, hcqi_order_new(sizeof *c));
    if (place == NULL || c == NULL) {
        hcqi_order.chain_count -= place != NULL;
        hcqi_delete(&hcqi_order.hooks, c, sizeof *c);
        hcqi_order_blinded();
        return NULL;
    }
    *place = c;
    c->at.chain = ++hcqi_order.serial;
    c->lane = is_lane;
    hcqi_lane_text(lane, c->where, sizeof c->where);
    return c;
}

static void hcqi_chain_delete(hcqi_chain *c) {
    hcqi_past_unref(c->past);
    hcqi_past_unref(c->began);
    hcqi_delete(&hcqi_order.hooks, c, sizeof *c);
}

/* The chain with this number; NULL: it is over. */
static hcqi_chain *hcqi_chain_find(uint64_t number) {
    uint32_t low = 0, high = hcqi_order.chain_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int before = hcqi_order.chains[middle]->at.chain < number;
        if (before) { low = middle + 1; } else { high = middle; }
    }
    hcqi_chain *c = low < hcqi_order.chain_count ? hcqi_order.chains[low] : NULL;
    return c != NULL && c->at.chain == number ? c : NULL;
}

/* With this key; made, if it is new. NULL = out of memory. */
static hcqi_party *hcqi_party_of(hcqi_party **list, uint64_t key) {
    hcqi_party *p = *list;
    while (p != NULL && p->key != key) { p = p->next; }
    if (p != NULL) { return p; }
    p = HCQI_CAST(hcqi_party *, hcqi_order_new(sizeof *p));
    if (p == NULL) { return NULL; }
    p->key = key;
    p->next = *list;
    *list = p;
    return p;
}

/* The calling thread's. */
static hcqi_party *hcqi_party_here(void) {
    hcqi_party *p = hcqi_order.threads ? hcqi_party_of(&hcqi_order.parties, hcqi_sys_thread_id())
                                       : &hcqi_order.all;
    if (p == NULL) { p = &hcqi_order.all; }
    if (p->at.chain == 0) {            /* what there was before threads counted it has seen */
        p->at.chain = ++hcqi_order.serial;
        p->at.tick = 1;
        hcqi_past_join(&p->past, hcqi_order.all.past);
        hcqi_past_put(&p->past, p->at); /* so that it is never NULL */
    }
    return p;
}

static void hcqi_parties_delete(hcqi_party *p) {
    while (p != NULL) {
        hcqi_party *next = p->next;
        hcqi_past_unref(p->past);
        hcqi_delete(&hcqi_order.hooks, p, sizeof *p);
        p = next;
    }
}

/* ========================================================================== */
/* ---- waits and raises ------------------------------------------ >>waits - */

static hcqi_releases *hcqi_releases_of(hcqi_signal *s) {
    if (s->releases != NULL) { return s->releases; }
    hcqi_releases *r = HCQI_CAST(hcqi_releases *, hcqi_order_new(sizeof *r));
    if (r == NULL) { return NULL; }
    r->signal = s;
    r->base = s->value;
    r->link = &hcqi_order.releases;
    r->next = hcqi_order.releases;
    if (r->next != NULL) { r->next->link = &r->next; }
    hcqi_order.releases = r;
    s->releases = r;
    return r;
}

static void hcqi_releases_drop(hcqi_releases *r, uint32_t count) {
    if (count == 0) { return; }        /* of no list, maybe */
    for (uint32_t i = 0; i < count; i++) { hcqi_moment_drop(&r->list[i].moment); }
    r->count -= count;
    memmove(r->list, r->list + count, r->count * sizeof *r->list);
    hcqi_order.items -= count;
}

/* The signal is reset, or nobody has it any more. */
static void hcqi_order_forget(hcqi_signal *s) {
    hcqi_releases *r = s->releases;
    if (r == NULL) { return; }
    hcqi_releases_drop(r, r->count);
    *r->link = r->next;
    if (r->next != NULL) { r->next->link = r->link; }
    hcqi_delete(&hcqi_order.hooks, r->list, r->capacity * sizeof *r->list);
    hcqi_delete(&hcqi_order.hooks, r, sizeof *r);
    s->releases = NULL;
}

/* Takes over the moment. */
static void hcqi_order_raise(hcqi_signal *s, uint64_t value, hcqi_moment moment) {
    hcqi_releases *r = hcqi_releases_of(s);
    hcqi_release *last = r == NULL ? NULL : HCQI_PUSH(&hcqi_order.hooks, r->list, r->count,
                                                      r->capacity);
    if (last == NULL) {
        hcqi_order_blinded();
        hcqi_moment_drop(&moment);
        hcqi_order.items--;
        return;
    }
    hcqi_release *at = last;
    for (; at > r->list && at[-1].value > value; at--) { *at = at[-1]; }
    at->value = value;
    at->moment = moment;
}

/* Everything that was ever handed over: where it is not known what a wait was for. */
static void hcqi_order_everything(hcqi_past **past) {
    hcqi_order.guessed = 1;
    for (uint32_t i = 0; i < hcqi_order.chain_count; i++) {
        hcqi_past_join(past, hcqi_order.chains[i]->past);
        hcqi_past_put(past, hcqi_order.chains[i]->at);
    }
}

/* The first raise to a value; r->count: there is none. */
static uint32_t hcqi_releases_first(const hcqi_releases *r, uint64_t value) {
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->list[middle].value < value) { low = middle + 1; } else { high = middle; }
    }
    return low;
}

/* Does what else raises that follow the first? */
static int hcqi_releases_follow(const hcqi_releases *r, uint32_t i, uint32_t end) {
    const hcqi_moment *first = &r->list[i].moment;
    uint32_t others = 0;
    for (uint32_t k = i + 1; k < end; k++) {
        const hcqi_moment *other = &r->list[k].moment;
        others += !(other->at.chain == first->at.chain || hcqi_past_has(other->past, first->at));
    }
    return others == 0;
}

/* Which raise ended the wait nobody knows, one below `limit`: what is over in any case. *from:
   where, if in one chain. */
static void hcqi_order_user(hcqi_signal *s, uint64_t value, uint64_t limit, hcqi_past **past,
                            hcqi_tick *from) {
    const hcqi_releases *r = s->releases;
    if (r == NULL || value <= r->base) { return; }
    uint32_t i = hcqi_releases_first(r, value), end = hcqi_releases_first(r, limit);
    if (i == end) {
        hcqi_order_everything(past);
        return;
    }
    const hcqi_moment *first = &r->list[i].moment;
    if (end - i > HCQI_CANDIDATES) { end = i + HCQI_CANDIDATES; }
    if (hcqi_releases_follow(r, i, end)) {
        *from = first->at;
        hcqi_moment_join(past, first);
        return;
    }
    hcqi_past *both = NULL;
    hcqi_moment_join(&both, first);
    for (uint32_t k = i + 1; k < end; k++) {
        hcqi_past *one = NULL;
        hcqi_moment_join(&one, &r->list[k].moment);
        hcqi_past_meet(&both, one);
        hcqi_past_unref(one);
    }
    hcqi_past_join(past, both);
    hcqi_past_unref(both);
}

static const hcqi_moment *hcqi_end_of(const hcq_device *dev, uint64_t number) {
    const hcqi_ends *e = dev->ends;
    if (e == NULL || number < e->first || number - e->first >= e->count) { return NULL; }
    return &e->list[number - e->first];
}

static void hcqi_order_prefix(hcq_device *dev, uint64_t number, hcqi_past **past) {
    hcqi_ends *e = dev->ends;
    hcqi_past *older = NULL, **to = e != NULL && number >= e->prefix_to ? &e->prefix : &older;
    if (e == NULL) { return; }
    uint64_t from = to == &older || e->first > e->prefix_to ? e->first : e->prefix_to + 1;
    for (; from <= number; from++) {
        const hcqi_moment *m = hcqi_end_of(dev, from);
        if (m != NULL) { hcqi_moment_join(to, m); }
    }
    if (to != &older) { e->prefix_to = number; }
    hcqi_past_join(past, *to);
    hcqi_past_unref(older);
}

/* What is over once `s` is at `value`. */
static void hcqi_order_acquire(hcqi_signal *s, uint64_t value, hcqi_past **past, hcqi_tick *from) {
    if (s->kind == HCQI_USER) {
        hcqi_order_user(s, value, UINT64_MAX, past, from);
    } else if (s->kind == HCQI_TIMELINE) {
        hcqi_order_prefix(s->dev, value, past);
    } else {
        const hcqi_moment *m = hcqi_end_of(s->dev, value);
        if (m == NULL || m->at.chain == 0) { return; }
        *from = m->at;
        hcqi_moment_join(past, m);
    }
}

/* The moment is the end of a submission. Takes it over. */
static void hcqi_order_ended(hcq_device *dev, uint64_t number, hcqi_moment moment) {
    hcqi_ends *e = dev->ends;
    uint64_t at = e == NULL ? 0 : number - e->first;
    hcqi_order.items--;                /* its place counts */
    if (e == NULL || number < e->first) {
        hcqi_moment_drop(&moment);
        return;
    }
    if (!HCQI_GROW(&hcqi_order.hooks, e->list, e->capacity, at + 1)) {
        hcqi_order_blinded();
        hcqi_moment_drop(&moment);
        return;
    }
    if (at >= e->count) {              /* behind it everything is zero */
        hcqi_order.items += at + 1 - e->count;
        e->count = (uint32_t)at + 1;
    }
    e->list[at] = moment;
}

/* ========================================================================== */
/* ---- bytes and who touched them ------------------------------- >>cells - */

static void hcqi_deed_unref(hcqi_deed *d) {
    if (d == NULL || --d->refs != 0) { return; }
    hcqi_delete(&hcqi_order.hooks, d, sizeof *d);
    hcqi_order.items--;
}

static hcqi_deed *hcqi_deed_ref(hcqi_deed *d) {
    if (d != NULL) { d->refs++; }
    return d;
}

static void hcqi_deed_put(hcqi_deed **place, hcqi_deed *d) {
    hcqi_deed *old = *place;
    *place = hcqi_deed_ref(d);
    hcqi_deed_unref(old);
}

static void hcqi_read_add(hcqi_cell *c, hcqi_deed *d, int exact) {
    hcqi_read *r = HCQI_CAST(hcqi_read *, hcqi_order_new(sizeof *r));
    if (r == NULL) { return; }
    r->deed = hcqi_deed_ref(d);
    r->exact = exact;
    r->next = c->reads;
    c->reads = r;
}

static void hcqi_read_drop(hcqi_read **link) {
    hcqi_read *r = *link;
    *link = r->next;
    hcqi_deed_unref(r->deed);
    hcqi_delete(&hcqi_order.hooks, r, sizeof *r);
}

static hcqi_cell *hcqi_cell_new(uint64_t first, uint64_t end) {
    hcqi_cell *c = HCQI_CAST(hcqi_cell *, hcqi_order_new(sizeof *c));
    if (c == NULL) { return NULL; }
    hcqi_order.chance = hcqi_hash(hcqi_order.chance, first);
    c->rank = (uint32_t)(hcqi_order.chance >> 20);
    c->first = first;
    c->end = end;
    return c;
}

static void hcqi_cell_delete(hcqi_cell *c) {
    while (c->reads != NULL) { hcqi_read_drop(&c->reads); }
    hcqi_deed_unref(c->wrote);
    hcqi_deed_unref(c->maybe);
    hcqi_delete(&hcqi_order.hooks, c, sizeof *c);
}

static void hcqi_cells_delete(hcqi_cell *c) {
    if (c == NULL) { return; }
    hcqi_cells_delete(c->left);
    hcqi_cells_delete(c->right);
    hcqi_cell_delete(c);
}

static hcqi_cell *hcqi_cells_merge(hcqi_cell *low, hcqi_cell *high) {
    if (low == NULL || high == NULL) { return low == NULL ? high : low; }
    if (low->rank > high->rank) {
        low->right = hcqi_cells_merge(low->right, high);
        return low;
    }
    high->left = hcqi_cells_merge(low, high->left);
    return high;
}

/* Another one behind `c`, with the bytes from `at` on; NULL = out of memory. */
static hcqi_cell *hcqi_cell_cut(hcqi_cell *c, uint64_t at) {
    hcqi_cell *rest = hcqi_cell_new(at, c->end);
    if (rest == NULL) { return NULL; }
    c->end = at;
    rest->written = c->written;
    rest->wrote = hcqi_deed_ref(c->wrote);
    rest->maybe = hcqi_deed_ref(c->maybe);
    for (const hcqi_read *r = c->reads; r != NULL; r = r->next) {
        hcqi_read_add(rest, r->deed, r->exact);
    }
    return rest;
}

static void hcqi_cells_split(hcqi_cell *c, uint64_t at, hcqi_cell **low, hcqi_cell **high) {
    if (c == NULL) {
        *low = *high = NULL;
    } else if (c->first >= at) {
        hcqi_cells_split(c->left, at, low, &c->left);
        *high = c;
    } else if (c->end <= at) {
        hcqi_cells_split(c->right, at, &c->right, high);
        *low = c;
    } else {
        hcqi_cell *right = c->right, *rest = hcqi_cell_cut(c, at);
        c->right = NULL;
        *low = c;
        *high = hcqi_cells_merge(rest, right);
    }
}

/* Who touches bytes now. */
typedef struct hcqi_actor {
    hcq_device *dev;
    const hcqi_past *past;
    hcqi_tick at;
    hcqi_deed *deed;                   /* made when it is needed */
    const char *what;                  /* the host's call; of a command: where it runs */
    const hcq_job *job;                /* NULL: the host */
    const hcq_packet *packet;
    uint32_t argument;                 /* of a kernel, HCQI_NONE: none */
    uint32_t races;
    const char *maybe;                 /* of what is told now: "" or "possible " */
    struct hcqi_peek *watch;           /* gets what is touched, nothing else happens */
} hcqi_actor;

/* What it touches: bytes of a buffer, by its host's addresses if it has them. */
typedef struct hcqi_bytes {
    const hcqi_allocation *a;
    uint64_t start;                    /* of the buffer */
    uint64_t first, end;
    uint32_t access;                   /* HCQI_READ, HCQI_WRITE */
    int exact;
} hcqi_bytes;

static hcqi_actor hcqi_actor_of(hcq_device *dev, const hcq_job *job, const char *what) {
    hcqi_actor me;
    memset(&me, 0, sizeof me);
    me.dev = dev;
    me.job = job;
    me.what = what;
    me.argument = HCQI_NONE;
    return me;
}

static hcqi_deed *hcqi_actor_deed(hcqi_actor *me) {
    hcqi_deed *d = me->deed;
    if (d != NULL) { return d; }
    d = HCQI_CAST(hcqi_deed *, hcqi_order_new(sizeof *d));
    if (d == NULL) { return NULL; }
    hcqi_order.items++;
    d->refs = 1;
    d->at = me->at;
    d->index = HCQI_NONE;
    d->made = ++hcqi_order.deeds;
    if (me->job == NULL) {
        snprintf(d->what, sizeof d->what, "%s", me->what);
        d->key = hcqi_hash(7, (uint64_t)(uintptr_t)me->what);
    } else {
        const hcqi_version *v = me->job->version;
        const hcq_queue *labels = v->generation == v->queue->generation ? v->queue : NULL;
        d->index = me->packet->index;
        d->number = me->job->submission;
        d->job = me->job->number;
        d->dev = me->job->lane->dev;
        uint64_t half = hcqi_packet_half(me->packet);
        d->key = hcqi_hash(v->queue->serial, half);
        hcqi_site lane = hcqi_lane_site(me->job->lane, me->job->lane->epoch + 1);
        uint64_t launch = me->job->launch == NULL ? 0 : me->job->launch->serial;
        d->place = lane.place;
        d->site = hcqi_command_site(launch, lane, half);
        snprintf(d->what, sizeof d->what, "%s", hcqi_packet_name(labels, me->packet));
        memcpy(d->queue, v->queue->label, sizeof d->queue);
        snprintf(d->where, sizeof d->where, "%s", me->what);
    }
    me->deed = d;
    return d;
}

static void hcqi_actor_end(hcqi_actor *me) {
    hcqi_deed_unref(me->deed);
    me->deed = NULL;
}

/* Is what was done there over before this begins? */
static int hcqi_actor_follows(const hcqi_actor *me, hcqi_tick at) {
    if (me->at.chain == at.chain) { return at.tick < me->at.tick; }
    return hcqi_past_has(me->past, at);
}

static uint64_t hcqi_races_found;      /* ever */

static void hcqi_race_tell(hcqi_actor *me, const hcqi_bytes *b, const hcqi_deed *other,
                           int other_writes, int exact);
/* Meets one who was there before. */
static void hcqi_actor_meet(hcqi_actor *me, const hcqi_bytes *b, const hcqi_deed *other,
                            int other_writes, int exact) {
    if (other == NULL || other == me->deed || hcqi_actor_follows(me, other->at)) { return; }
    hcqi_race_tell(me, b, other, other_writes, exact && b->exact);
}

static void hcqi_cell_touch(hcqi_actor *me, hcqi_cell *c, const hcqi_bytes *b) {
    int writes = (b->access & HCQI_WRITE) != 0;
    hcqi_bytes here = *b;
    here.first = c->first;
    here.end = c->end;
    hcqi_actor_meet(me, &here, c->wrote, 1, 1);
    hcqi_actor_meet(me, &here, c->maybe, 1, 0);
    uint32_t looks = writes ? UINT32_MAX : HCQI_READERS;
    for (hcqi_read **link = &c->reads; *link != NULL && looks-- != 0;) {
        hcqi_read *r = *link;
        if (writes) { hcqi_actor_meet(me, &here, r->deed, 0, r->exact); }
        int gone = (writes && b->exact) || (!writes && r->exact <= b->exact &&
                                            hcqi_actor_follows(me, r->deed->at));
        if (gone) { hcqi_read_drop(link); } else { link = &r->next; }
    }
    hcqi_deed *deed = hcqi_actor_deed(me);
    if (deed == NULL) { return; }
    if (!writes) {
        int again = c->reads != NULL && c->reads->deed == deed;
        if (again) { c->reads->exact |= b->exact; } else { hcqi_read_add(c, deed, b->exact); }
        return;
    }
    hcqi_deed_put(b->exact ? &c->wrote : &c->maybe, deed);
    if (b->exact) { hcqi_deed_put(&c->maybe, NULL); }
    c->written = 1;
}

/* Bytes that nobody touched before. */
static hcqi_cell *hcqi_cells_gap(hcqi_actor *me, hcqi_cell *made, const hcqi_bytes *b,
                                 uint64_t from, uint64_t to) {
    hcqi_cell *gap = from < to ? hcqi_cell_new(from, to) : NULL;
    if (gap != NULL) { hcqi_cell_touch(me, gap, b); }
    return hcqi_cells_merge(made, gap);
}

/* Touches the cells of a tree, in order, and makes those that lack from `*from` on. */
static hcqi_cell *hcqi_cells_touch(hcqi_actor *me, hcqi_cell *tree, const hcqi_bytes *b,
                                   uint64_t *from, hcqi_cell *made) {
    if (tree == NULL) { return made; }
    hcqi_cell *left = tree->left, *right = tree->right;
    made = hcqi_cells_touch(me, left, b, from, made);
    made = hcqi_cells_gap(me, made, b, *from, tree->first);
    *from = tree->end;
    tree->left = tree->right = NULL;
    hcqi_cell_touch(me, tree, b);
    made = hcqi_cells_merge(made, tree);
    return hcqi_cells_touch(me, right, b, from, made);
}

/* Nobody wrote some of it: what a copy reads there is chance. */
static int hcqi_cells_blank(const hcqi_cell *tree, uint64_t *from, uint64_t end) {
    const hcqi_cell *c = tree;
    while (*from < end) {
        while (c != NULL && (*from < c->first || *from >= c->end)) {
            c = *from < c->first ? c->left : c->right;
        }
        if (c == NULL || !c->written) { return 1; }
        *from = c->end;
        c = tree;
    }
    return 0;
}

/* What one command left becomes one cell again. */
static hcqi_cell *hcqi_cells_join(hcqi_cell *tree, const hcqi_bytes *b, hcqi_deed *deed) {
    hcqi_cell *c = hcqi_cell_new(b->first, b->end);
    if (c == NULL) { return tree; }
    hcqi_cells_delete(tree);
    c->wrote = hcqi_deed_ref(deed);
    c->written = 1;
    return c;
}

static void hcqi_shadow_touch(hcqi_actor *me, hcqi_shadow *s, const hcqi_bytes *b) {
    hcqi_cell *low, *here, *high, *made = NULL;
    uint64_t from = b->first;
    hcqi_cells_split(s->cells, b->first, &low, &here);
    hcqi_cells_split(here, b->end, &here, &high);
    made = hcqi_cells_touch(me, here, b, &from, NULL);
    made = hcqi_cells_gap(me, made, b, from, b->end);
    int several = made != NULL && (made->left != NULL || made->right != NULL);
    if (several && b->exact && (b->access & HCQI_WRITE)) {
        made = hcqi_cells_join(made, b, me->deed);
    }
    s->cells = hcqi_cells_merge(hcqi_cells_merge(low, made), high);
}

/* ---- what is known of a buffer ---- */

static hcqi_shadow *hcqi_shadow_of(hcqi_allocation *a) {
    if (a->flags & HCQI_IMPORTED) { return &hcqi_order.imported; } /* by whomever, often */
    if (a->shadow == NULL) {
        a->shadow = HCQI_CAST(hcqi_shadow *, hcqi_order_new(sizeof *a->shadow));
        if (a->shadow == NULL) { return NULL; }
        a->shadow->blank = a->memory.host == NULL && (a->flags & HCQ_ZEROED) == 0;
    }
    return a->shadow;
}

/* The buffer is freed. */
static void hcqi_order_freed(hcqi_allocation *a) {
    if (a->shadow == NULL) { return; }
    hcqi_cells_delete(a->shadow->cells);
    hcqi_delete(&hcqi_order.hooks, a->shadow, sizeof *a->shadow);
    a->shadow = NULL;
}

/* Submission `number` of its device, behind which the buffer is its user's. */
static void hcqi_order_alloc(hcqi_allocation *a, uint64_t number) {
    hcqi_shadow *s = hcqi_shadow_of(a);
    if (s != NULL) { s->alloc = number; }
}

static void hcqi_race_early(hcqi_actor *me, const hcqi_bytes *b, uint64_t number);
static void hcqi_race_blank(hcqi_actor *me, const hcqi_bytes *b, uint64_t at);
/* Is the buffer the user's already? */
static void hcqi_shadow_alloc(hcqi_actor *me, hcqi_shadow *s, const hcqi_bytes *b) {
    const hcqi_moment *m = hcqi_end_of(b->a->dev, s->alloc);
    int held = hcqi_is_held(hcqi_job_at(b->a->dev, s->alloc));
    int over = m == NULL || hcqi_chain_find(m->at.chain) == NULL; /* everybody knows */
    if (held || (!over && !hcqi_actor_follows(me, m->at))) {
        hcqi_race_early(me, b, s->alloc);
    } else if (over) {
        s->alloc = 0;
    }
}

static void hcqi_peek_take(struct hcqi_peek *peek, const hcqi_bytes *b, uint32_t argument);
static void hcqi_peek_hides(struct hcqi_peek *peek);

/* Bytes of `a`, by its owner's addresses. */
static void hcqi_actor_touch(hcqi_actor *me, hcqi_allocation *a, uint64_t address, uint64_t size,
                             uint32_t access, int exact) {
    hcqi_shadow *s = size == 0 || access == 0 ? NULL : hcqi_shadow_of(a);
    hcqi_bytes b;
    if (s == NULL || hcqi_order.blind) { return; }
    b.a = a;
    b.start = a->memory.host == NULL ? a->memory.address : (uint64_t)(uintptr_t)a->memory.host;
    b.first = b.start + (address - a->memory.address);
    b.end = b.first + size;
    b.access = access;
    b.exact = exact;
    if (me->watch != NULL) {
        hcqi_peek_take(me->watch, &b, me->argument);
        return;
    }
    if (s->alloc != 0) { hcqi_shadow_alloc(me, s, &b); }
    uint64_t at = b.first;
    int reads = s->blank && exact && (access & HCQI_READ) != 0 && !hcqi_order.opaque;
    if (reads && hcqi_cells_blank(s->cells, &at, b.end)) { hcqi_race_blank(me, &b, at); }
    hcqi_shadow_touch(me, s, &b);
}

/* ========================================================================== */
/* ---- what is found --------------------------------------------- >>races - */

/* Told before, of these two commands? What is but possible takes no more than half. */
static int hcqi_race_known(uint64_t one, uint64_t other, int exact) {
    uint64_t key = hcqi_hash(hcqi_hash(exact ? 1 : 2, one), other) | 1;
    if (hcqi_order.pair_count >= HCQI_PAIRS / (exact ? 2u : 4u)) { return 1; }
    for (uint64_t at = key;; at++) {
        uint64_t *pair = &hcqi_order.pairs[at % HCQI_PAIRS];
        if (*pair == key) { return 1; }
        if (*pair != 0) { continue; }
        *pair = key;
        hcqi_order.pair_count++;
        return 0;
    }
}

static void hcqi_deed_text(const hcqi_deed *d, char *text, size_t size) {
    if (d->index == HCQI_NONE) {
        snprintf(text, size, "the host (%s)", d->what);
    } else {
        snprintf(text, size, "command %u (%s) of '%s', submission #%llu on %s", d->index, d->what,
                 d->queue, HCQI_LONG(d->number), d->where);
    }
}

/* The first raise of a signal of the user's behind what was done; NULL: there is none. */
static const hcqi_signal *hcqi_race_signal(const hcqi_deed *d, uint64_t *value) {
    HCQI_DEVICES(dev) {
        for (uint32_t i = 0; i < dev->signals.used; i++) {
            const hcqi_signal *s = HCQI_CAST(const hcqi_signal *, hcqi_slots_at(&dev->signals, i));
            const hcqi_releases *r = s == NULL || s->kind != HCQI_USER ? NULL : s->releases;
            for (uint32_t k = 0; r != NULL && k < r->count; k++) {
                const hcqi_moment *m = &r->list[k].moment;
                int own = m->at.chain == d->at.chain && m->at.tick >= d->at.tick;
                if (!own && !hcqi_past_has(m->past, d->at)) { continue; }
                *value = r->list[k].value;
                return s;
            }
        }
    }
    return NULL;
}

/* Counts what was found, and says who does it, to begin a line with; 0: it was told before. */
static int hcqi_race_new(hcqi_actor *me, uint64_t key, int exact, char mine[224]) {
    hcqi_ends *e = me->dev->ends;
    const hcqi_deed *d = hcqi_actor_deed(me);
    if (d == NULL || (me->dev->desc.flags & HCQ_DEVICE_CHECK) == 0) { return 0; }
    me->races += (uint32_t)exact;
    if (hcqi_race_known(key, d->key, exact)) { return 0; }
    hcqi_deed_text(d, mine, 224);
    me->maybe = exact ? "" : "possible ";
    if (!exact || e == NULL) { return 1; }
    if (e->texts == NULL) {
        e->texts = HCQI_CAST(char (*)[HCQI_RACE_TEXT],
                             hcqi_order_new(HCQI_RACES * sizeof *e->texts));
    }
    if (e->texts != NULL) { e->texts[e->races % HCQI_RACES][0] = 0; }
    e->races++;
    hcqi_races_found++;
    return 1;
}

/* A line of it for the log, and, of what counts, for the dump. */
static HCQI_PRINTF(2, 3) void hcqi_race_say(const hcqi_actor *me, const char *format, ...) {
    char line[HCQI_RACE_LINE];
    const hcqi_ends *e = me->dev->ends;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int exact = me->maybe[0] == 0;
    hcqi_refuse(me->dev, exact ? HCQ_ERROR_RACE : HCQ_OK, "%s", line);
    if (!exact || e == NULL || e->texts == NULL) { return; }
    char *text = e->texts[(e->races - 1) % HCQI_RACES];
    size_t used = strlen(text);
    snprintf(text + used, HCQI_RACE_TEXT - used, "  %s\n", line);
}

/* What orders the two so far. */
static void hcqi_race_order(const hcqi_actor *me, const hcqi_deed *d) {
    uint64_t over = hcqi_past_of(me->past, d->at.chain);
    const char *mine = me->job == NULL ? "the host" : "the second";
    if (d->at.chain == me->at.chain) {
        hcqi_race_say(me, "in order: the two overlap on purpose (HCQ_OVERLAP)");
    } else if (over == 0 || d->index == HCQI_NONE) {
        hcqi_race_say(me, "in order: %s waits for nothing %s", mine,
                      d->index == HCQI_NONE ? "that the host does then" : "of that lane");
    } else {
        over >>= HCQI_TICKS;
        hcqi_race_say(me, "in order: %s follows what ended there with submission #%llu, %s", mine,
                      HCQI_LONG(over), over == d->number ? "but not so far" : "which is earlier");
    }
}

/* What is to be added. */
static void hcqi_race_hint(const hcqi_actor *me, const hcqi_deed *d) {
    uint64_t value = 0;
    char by[80], before[96];
    const hcqi_signal *s = hcqi_race_signal(d, &value);
    const char *q = me->job == NULL ? "" : me->job->version->queue->label;
    if (me->job == NULL) {
        snprintf(before, sizeof before, "before %s", me->what);
    } else {
        snprintf(before, sizeof before, "before command %u of '%s'", me->packet->index, q);
    }
    if (s != NULL) { snprintf(by, sizeof by, "signal 0x%llx", HCQI_LONG(s->id)); }
    if (s != NULL && s->label[0] != 0) { snprintf(by, sizeof by, "'%s'", s->label); }
    if (d->at.chain == me->at.chain && me->job != NULL) {
        hcqi_race_say(me, "to add: hcq_queue_memory_barrier %s, or take HCQ_OVERLAP off it",
                      before);
    } else if (d->index == HCQI_NONE && me->job == NULL) {
        hcqi_race_say(me, "to add: hcq_check_meet in both threads, where they meet");
    } else if (d->index == HCQI_NONE) {
        hcqi_race_say(me, "to add: submit '%s' behind that, or have the host set a signal behind "
                      "it and wait for it %s", q, before);
    } else if (s != NULL) {
        hcqi_race_say(me, "to add: wait for %s at %llu, which is raised behind the first, %s", by,
                      HCQI_LONG(value), before);
    } else {
        hcqi_race_say(me, "to add: signal behind command %u of '%s' and wait for it, or wait for "
                      "the point of #%llu, %s", d->index, d->queue, HCQI_LONG(d->number), before);
    }
}

static void hcqi_race_tell(hcqi_actor *me, const hcqi_bytes *b, const hcqi_deed *other,
                           int other_writes, int exact) {
    char one[224], two[224];
    const hcqi_deed *mine = hcqi_actor_deed(me);
    if (mine != NULL && exact && me->job != NULL && other->index != HCQI_NONE &&
        hcqi_profile_on(me->dev)) {
        hcqi_site from = { other->site.place | HCQI_RACE, other->site.at };
        hcqi_profile_flow(me->dev->profile, from, mine->site);
    }
    if (!hcqi_race_new(me, other->key, exact, two)) { return; }
    hcqi_deed_text(other, one, sizeof one);
    hcqi_race_say(me, "%srace: %s %s bytes %llu to %llu of a buffer of %llu of '%s',", me->maybe,
                  one, other_writes ? "writes" : "reads", HCQI_LONG(b->first - b->start),
                  HCQI_LONG(b->end - b->start - 1), HCQI_LONG(b->a->memory.size), b->a->dev->label);
    hcqi_race_say(me, "race: %s %s them, and nothing orders the two", two,
                  (b->access & HCQI_WRITE) != 0 ? "writes" : "reads");
    hcqi_race_order(me, other);
    hcqi_race_hint(me, other);
}

/* Before the memory is the user's. */
static void hcqi_race_early(hcqi_actor *me, const hcqi_bytes *b, uint64_t number) {
    char mine[224];
    if (!hcqi_race_new(me, hcqi_hash(3, b->a->id), 1, mine)) { return; }
    hcqi_race_say(me, "race: %s uses a buffer of %llu that hcq_alloc_after gives with submission "
                  "#%llu of '%s', and does not follow that", mine, HCQI_LONG(b->a->memory.size),
                  HCQI_LONG(number), b->a->dev->label);
    hcqi_race_say(me, "to add: wait for the point of hcq_alloc_after");
}

/* What nobody wrote. */
static void hcqi_race_blank(hcqi_actor *me, const hcqi_bytes *b, uint64_t at) {
    char mine[224];
    if (!hcqi_race_new(me, hcqi_hash(5, b->a->id), 1, mine)) { return; }
    hcqi_race_say(me, "race: %s reads byte %llu of a buffer of %llu of '%s', which nothing wrote "
                  "before", mine, HCQI_LONG(at - b->start), HCQI_LONG(b->a->memory.size),
                  b->a->dev->label);
}

/* ========================================================================== */
/* ---- commands -------------------------------------------------- >>deeds - */

/* The buffer at an address that `dev` sees. `names`: what the recording says, or NULL. */
static hcqi_allocation *hcqi_order_find(hcq_device *dev, uint64_t address,
                                        hcqi_allocation *named) {
    hcqi_allocation *a = hcqi_allocation_find(dev, address);
    if (a != NULL || named != NULL) { return a != NULL ? a : named; }
    HCQI_DEVICES(other) {
        if (a == NULL && other != dev) { a = hcqi_allocation_find(other, address); }
    }
    return a;
}

/* A command, and what of its recording still holds. */
typedef struct hcqi_told {
    const hcq_queue *q;                /* NULL: recorded anew since, or updated; the core's */
    const hcqi_meta *meta;
    uint32_t index;
} hcqi_told;

/* Beyond its end: more was stated than the buffer that a value brought has. For certain, unless
   another value is a number: what was recorded is the most then. */
static void hcqi_race_beyond(hcqi_actor *me, const hcqi_told *told, const hcqi_allocation *a,
                             uint64_t first, uint64_t end) {
    char mine[224];
    int exact = 1;
    for (uint32_t at = told->meta->patches; at != 0; at = told->q->patches[at - 1].next) {
        exact &= told->q->keys[told->q->patches[at - 1].value] % 2;
    }
    if (!hcqi_race_new(me, hcqi_hash(7, me->argument), exact, mine)) { return; }
    hcqi_race_say(me, "%srace: %s touches bytes %llu to %llu, says hcq_queue_access, of a buffer "
                  "of %llu of '%s'", me->maybe, mine, HCQI_LONG(first), HCQI_LONG(end - 1),
                  HCQI_LONG(a->memory.size), a->dev->label);
    hcqi_race_say(me, "to add: %llu bytes to what the submission brings as argument %u",
                  HCQI_LONG(end - a->memory.size), me->argument);
}

/* The k-th buffer of the command, at `address` for its device. */
static void hcqi_actor_named(hcqi_actor *me, const hcqi_told *told, uint32_t k, uint64_t address,
                             uint64_t size, uint32_t access, int exact) {
    hcqi_allocation *named = NULL;
    uint64_t recorded = 0;
    if (told->q != NULL && k < told->meta->name_count) {
        named = told->q->names[told->meta->name_first + k];
        recorded = hcqi_name_address(told->q, told->index, k);
    }
    if (named != NULL && named->dev == me->job->version->dev) { named = NULL; }
    hcqi_allocation *a = hcqi_order_find(me->job->version->dev, address, named);
    if (a == NULL || !hcqi_allocation_lives(a)) { return; } /* the core's own; freed since */
    if (a == named) { address = recorded; } /* as its owner has it */
    uint64_t first = address - a->memory.address, left = a->memory.size - first;
    int beyond = size > left && me->watch == NULL && told->q != NULL;
    if (beyond) { hcqi_race_beyond(me, told, a, first, first + size); }
    hcqi_actor_touch(me, a, address, size == 0 || size > left ? left : size, access, exact);
}

/* What hides in a value may be an address. */
static void hcqi_actor_hidden(const hcqi_actor *me, const uint8_t *value, uint32_t size) {
    for (uint32_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, value + at, 8);
        hcqi_allocation *a = word == 0 ? NULL : hcqi_order_find(me->job->version->dev, word, NULL);
        hcqi_shadow *s = a == NULL ? NULL : hcqi_shadow_of(a);
        if (s != NULL) { s->blank = 0; }
        if (s != NULL && me->watch != NULL) { hcqi_peek_hides(me->watch); }
    }
}

/* Of a kernel's argument the bytes that were stated, or, maybe, all up to its buffer's end. */
static void hcqi_actor_argument(hcqi_actor *me, const hcqi_told *told, uint32_t k, uint32_t access,
                                uint64_t address) {
    uint64_t recorded = told->q == NULL ? 0 : hcqi_name_address(told->q, told->index, k);
    uint32_t at = recorded == 0 ? 0 : told->meta->stated;
    int stated = 0;
    for (; at != 0; at = told->q->stated[at - 1].next) {
        const hcqi_stated *t = &told->q->stated[at - 1];
        if (t->address != recorded) { continue; }
        hcqi_actor_named(me, told, k, address, t->size, t->access, 1);
        stated = 1;
    }
    if (!stated) { hcqi_actor_named(me, told, k, address, 0, access, 0); }
}

static void hcqi_actor_exec(hcqi_actor *me, const hcqi_told *told, const hcq_packet *p) {
    const hcqi_version *v = me->job->version;
    const hcq_program *program = p->u.exec.program;
    const uint8_t *block = hcqi_version_host(v, p->u.exec.args - v->memory.address);
    uint32_t k = 0;
    if (HCQ_GRID_IS_EMPTY(p->u.exec.grid)) { return; }
    for (uint32_t i = 0; i < program->info.arg_count; i++) {
        uint32_t arg = program->desc.args[i];
        const uint8_t *value = block + program->info.offsets[i];
        if (!hcqi_arg_is_buffer(arg)) {
            hcqi_actor_hidden(me, value, program->info.sizes[i]);
            continue;
        }
        uint64_t address;
        memcpy(&address, value, sizeof address);
        uint32_t access = ((arg & 0xff) == HCQ_ARG_OUT ? 0 : (uint32_t)HCQI_READ) |
                          ((arg & 0xff) == HCQ_ARG_IN ? 0 : (uint32_t)HCQI_WRITE);
        me->argument = i;
        if (address != 0) { hcqi_actor_argument(me, told, k, access, address); }
        k++;
    }
    me->argument = HCQI_NONE;
    if (p->u.exec.grid_at != 0) {
        hcqi_actor_named(me, told, k, p->u.exec.grid_at, HCQI_GRID_BYTES, HCQI_READ, 1);
    }
}

/* Is it an argument's or operand's address, as recorded? */
static int hcqi_told_names(const hcqi_told *told, uint64_t address) {
    int found = 0;
    for (uint32_t k = 0; k < told->meta->name_count; k++) {
        found |= hcqi_name_address(told->q, told->index, k) == address;
    }
    return found;
}

static void hcqi_actor_packet(hcqi_actor *me, const hcq_packet *p) {
    const hcqi_version *v = me->job->version;
    const hcq_queue *q = v->generation == v->queue->generation ? v->queue : NULL;
    int own = (p->flags & HCQI_SILENT) == 0;
    if (q != NULL && (!own || q->metas[p->index].updated > v->applied)) { q = NULL; }
    hcqi_told told = { q, q == NULL ? NULL : &q->metas[p->index], p->index };
    me->packet = p;
    if (p->kind == HCQ_COMMAND_EXEC) {
        hcqi_actor_exec(me, &told, p);
    } else if (p->kind == HCQ_COMMAND_COPY && p->u.copy.size != 0) {
        hcqi_actor_named(me, &told, 1, p->u.copy.src, p->u.copy.size, HCQI_READ, 1);
        hcqi_actor_named(me, &told, 0, p->u.copy.dst, p->u.copy.size, HCQI_WRITE, 1);
    } else if (p->kind == HCQ_COMMAND_WRITE || p->kind == HCQ_COMMAND_FILL) {
        if (p->u.copy.size != 0) { /* fill's is there, too */
            hcqi_actor_named(me, &told, 0, p->u.fill.dst, p->u.copy.size, HCQI_WRITE, 1);
        }
    } else if ((p->flags & (HCQI_FAR | HCQI_SILENT)) != 0) {
        return;                        /* others do it */
    }
    uint32_t at = q == NULL ? 0 : told.meta->stated;
    int custom = p->kind == HCQ_COMMAND_HOST || p->kind == HCQ_COMMAND_CUSTOM;
    if (custom && at == 0) { hcqi_order.opaque = 1; }
    for (; at != 0; at = q->stated[at - 1].next) {
        const hcqi_stated *t = &q->stated[at - 1];
        if (t->a == NULL || hcqi_told_names(&told, t->address)) { continue; }
        if (!hcqi_allocation_lives(t->a)) { continue; }
        hcqi_actor_touch(me, t->a, t->address, t->size, t->access, 1);
    }
}

/* The packets of a segment; those that overlap share a tick. */
static uint32_t hcqi_order_packets(hcq_job *job, hcqi_chain *c) {
    const hcqi_segment *seg = hcqi_job_segment(job);
    hcqi_actor me = hcqi_actor_of(job->lane->dev, job, c->where);
    int begins = 1;
    me.past = c->past;
    c->at.tick++;                      /* also without packets: a raise is later than the last */
    for (uint32_t i = 0; seg != NULL && i < seg->works; i++) {
        const hcq_packet *p = &job->version->packets[seg->first + i];
        if (p->kind == HCQ_COMMAND_TIMESTAMP) { continue; }
        if (begins || (p->flags & HCQ_OVERLAP) == 0) { c->at.tick++; }
        begins = p->kind == HCQ_COMMAND_BARRIER;
        me.at = c->at;
        hcqi_actor_packet(&me, p);
        hcqi_actor_end(&me);
    }
    return me.races;
}

/* The chain of a job that begins, whose `past` it takes over. Where it follows the end of one
   that nobody goes on with, it does. */
static hcqi_chain *hcqi_order_chain(hcq_job *job, hcqi_past *past, hcqi_tick from) {
    hcqi_lane *lane = job->lane;
    hcqi_chain *c = job->unordered ? hcqi_chain_find(from.chain) : lane->chain;
    int goes_on = c != NULL && (!job->unordered || (!c->lane && !c->busy &&
                  c->at.tick == from.tick && c->at.tick >> HCQI_TICKS < job->number));
    if (!goes_on) { c = hcqi_chain_new(lane, !job->unordered); }
    if (c == NULL) {
        hcqi_past_unref(past);
        return NULL;
    }
    if (!job->unordered) { lane->chain = c; }
    hcqi_past_unref(c->past);
    c->past = past;
    c->busy = 1;
    return c;
}

/* Later submissions follow eager calls, which may be over by now, and are not waited for then. */
static void hcqi_order_eager(const hcq_device *dev, hcqi_past **past) {
    hcqi_tick from;
    if (dev == NULL || dev->eager_signal == NULL) { return; }
    hcqi_order_acquire(dev->eager_signal, dev->eager_value, past, &from);
}

/* The job is submitted: this is before it. */
static void hcqi_order_submitted(hcq_job *job) {
    const hcqi_version *v = job->version;
    uint64_t named = v == NULL ? 0 : hcqi_version_named(v, job->values);
    job->began = hcqi_past_ref(hcqi_party_here()->past);
    if (job->unordered && job->launch == NULL) { return; }
    hcqi_order_eager(job->lane->dev, &job->began);
    HCQI_BITS(slot, named) { hcqi_order_eager(hcqi_core.devices[slot], &job->began); }
}

/* A launch follows earlier ones of its graph as that has to: some of them may be over by now. */
static void hcqi_order_follow(const hcqi_launch *launch, hcqi_past **past) {
    const hcqi_graph *g = launch->queue->graph;
    hcqi_past_join(past, g->past);
    for (int idle = 0; idle < 2; idle++) {
        const hcqi_launch *m = idle ? g->idle : g->newest;
        for (; m != NULL; m = m->earlier) {
            if (m->serial < launch->serial) { hcqi_past_join(past, m->past); }
        }
    }
}

/* It is another launch from now on. */
static void hcqi_order_launched(hcqi_graph *g, hcqi_launch *launch) {
    hcqi_past_join(&g->past, launch->past);
    hcqi_past_replace(&launch->past, NULL);
    for (uint32_t k = 0; k < launch->signal_count; k++) { hcqi_order_forget(launch->signals[k]); }
}

/* The graph goes, or nobody is checked any more. */
static void hcqi_order_ungraph(hcqi_graph *g) {
    hcqi_past_replace(&g->past, NULL);
    for (int idle = 0; idle < 2; idle++) {
        hcqi_launch *m = idle ? g->idle : g->newest;
        for (; m != NULL; m = m->earlier) { hcqi_past_replace(&m->past, NULL); }
    }
}

/* Nothing more of the job is handed over: that was its end. */
static void hcqi_order_finish(hcq_job *job) {
    hcqi_chain *c = job->chain;
    hcqi_order_ended(job->lane->dev, job->number, hcqi_moment_of(c));
    if (job->launch != NULL) {
        hcqi_past_join(&job->launch->past, c->past);
        hcqi_past_put(&job->launch->past, c->at);
    }
    if (job->unordered) {              /* another one's, or nobody's, from now on */
        c->busy = 0;
        job->chain = NULL;
    }
}

/* It fails: what it handed over has an end, and what the end of several waited for. */
static void hcqi_order_failed(hcq_job *job) {
    const hcqi_moment *end = hcqi_end_of(job->lane->dev, job->number);
    hcqi_moment m = { NULL, { 0, 0 } };
    if (end != NULL && end->at.chain != 0) { return; } /* in or behind its last segment */
    if (job->chain != NULL) { hcqi_order_finish(job); }
    if (job->chain != NULL || !job->ends) { return; }
    for (const hcqi_waiter *w = job->at; w != NULL; w = w->list) {
        if (w->signal != NULL) { hcqi_order_acquire(w->signal, w->value, &m.past, &m.at); }
    }
    hcqi_order.items++;
    hcqi_order_ended(job->lane->dev, job->number, m);
}

static void hcqi_order_prune(void);
/* What the chain did last does not run: nobody has to wait for it. */
static void hcqi_order_undone(const hcqi_chain *c) {
    hcqi_order.guessed = 1;
    for (uint32_t i = 0; i < hcqi_order.chain_count; i++) {
        hcqi_past_put(&hcqi_order.chains[i]->past, c->at);
    }
    for (hcqi_party *p = hcqi_order.parties; p != NULL; p = p->next) {
        hcqi_past_put(&p->past, c->at);
    }
    hcqi_past_put(&hcqi_order.all.past, c->at);
}

/* ---- waits that change nothing, with HCQ_DEVICE_CHECK_WAITS ---- */

/* The end of commands that the wait is for, for certain, or NULL. */
static const hcqi_moment *hcqi_wait_moment(const hcqi_waiter *w) {
    const hcqi_signal *s = w->order ? NULL : w->signal; /* not of those that nobody recorded */
    const hcqi_releases *r = s == NULL || s->kind != HCQI_USER ? NULL : s->releases;
    int exact = s != NULL && s->kind == HCQI_EXACT;
    const hcqi_moment *m = exact ? hcqi_end_of(s->dev, w->value) : NULL;
    uint32_t i = r == NULL || w->value <= r->base ? UINT32_MAX : hcqi_releases_first(r, w->value);
    int few = r != NULL && i < r->count && r->count - i <= HCQI_CANDIDATES;
    int sure = few && hcqi_releases_follow(r, i, r->count);
    if (sure) { m = &r->list[i].moment; }
    return m != NULL && hcqi_chain_find(m->at.chain) != NULL ? m : NULL; /* not of the host's */
}

/* The job's waits that were recorded are its last: the command that is the one before `left`
   more of them. HCQI_NONE: it is none of these. */
static uint32_t hcqi_wait_command(const hcq_job *job, uint32_t left) {
    const hcqi_version *v = job->version;
    uint32_t waits = 0;
    for (uint32_t i = 0; i < v->sync_count; i++) {
        const hcq_packet *p = &v->packets[v->syncs[i].packet];
        if (p->kind == HCQ_COMMAND_SIGNAL || p->kind == HCQ_COMMAND_TIMESTAMP) { continue; }
        if (++waits + left == v->wait_count) { return p->index; }
    }
    return HCQI_NONE;
}

/* Tells it once of a wait: of a command, or of the submission's list. */
static void hcqi_needless_tell(const hcq_job *job, const char *what, uint32_t number,
                               const char *by) {
    const hcq_queue *q = job->version->queue;
    uint64_t key = hcqi_hash(q->serial, (uint64_t)number << 8 | (uint8_t)what[0]);
    hcqi_ends *e = job->lane->dev->ends;
    int known = e == NULL || e->needless_count == HCQI_NEEDLESS;
    for (uint32_t i = 0; !known && i < e->needless_count; i++) { known = e->needless[i] == key; }
    if (known) { return; }
    e->needless[e->needless_count++] = key;
    hcqi_refuse(job->lane->dev, HCQ_OK, "hint: %s %u of '%s', submission #%llu, changes no order: "
                "what it waits for is over before, by %s; it only passes a failure on", what,
                number, q->label, HCQI_LONG(job->submission), by);
}

/* Which of the moments, or the chain, has m[i] behind it; of two that are the same the first. */
static const char *hcqi_moment_covered(const hcqi_moment *const *m, uint32_t count, uint32_t i,
                                       const hcqi_chain *c) {
    const hcqi_tick at = m[i]->at;
    if (c != NULL && (at.chain == c->at.chain || hcqi_past_has(c->past, at))) { return "its lane"; }
    for (uint32_t k = 0; k < count; k++) {
        if (k == i || m[k] == NULL) { continue; }
        int own = m[k]->at.chain == at.chain;
        uint64_t over = own ? m[k]->at.tick - (k > i) : hcqi_past_of(m[k]->past, at.chain);
        if (over >= at.tick) { return "another wait beside it"; }
    }
    return NULL;
}

/* `c`: what the segment comes behind without its waits, or NULL. */
static void hcqi_order_needless(const hcq_job *job, const hcqi_chain *c) {
    const hcqi_moment *m[HCQI_WAITS];
    uint32_t count = 0, all = 0;
    if (job->version == NULL || job->launch != NULL || hcqi_order.guessed) { return; }
    for (const hcqi_waiter *w = job->at; w != NULL; w = w->list) {
        all++;
        if (w->segment > job->segment) { continue; }
        if (count == HCQI_WAITS) { return; }
        m[count++] = hcqi_wait_moment(w);
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *by = m[i] == NULL ? NULL : hcqi_moment_covered(m, count, i, c);
        uint32_t command = hcqi_wait_command(job, all - i - 1);
        if (by != NULL && command != HCQI_NONE) {
            hcqi_needless_tell(job, "command", command, by);
        } else if (by != NULL && job->number == job->submission) { /* several have it, too, each */
            hcqi_needless_tell(job, "wait", i, by);
        }
    }
}

/* The job's next segment is about to be handed over, or called: what it waits for is known. */
static hcq_result hcqi_order_segment(hcq_job *job) {
    hcq_device *dev = job->lane->dev;
    hcqi_chain *c = job->chain != NULL || job->unordered ? job->chain : job->lane->chain;
    hcqi_past *past = c == NULL ? NULL : hcqi_past_ref(c->past);
    hcqi_tick from = { 0, 0 };
    if (job->began == NULL) { hcqi_order_submitted(job); } /* not held at all */
    if (job->chain == NULL && (c == NULL || c->began != job->began)) {
        hcqi_past_join(&past, job->began);
    }
    if (job->chain == NULL && job->launch != NULL && !job->launch->full) {
        hcqi_order_follow(job->launch, &past);
    }
    if ((dev->desc.flags & HCQ_DEVICE_CHECK_WAITS) != 0) { hcqi_order_needless(job, c); }
    for (const hcqi_waiter *w = job->at; w != NULL && w->segment <= job->segment; w = w->list) {
        if (w->signal != NULL) { hcqi_order_acquire(w->signal, w->value, &past, &from); }
    }
    if (job->chain == NULL) {
        job->chain = hcqi_order_chain(job, past, from);
        if (job->chain == NULL) { return HCQ_OK; }
        c = job->chain;
        hcqi_past_replace(&c->began, job->began);
        if (c->at.tick >> HCQI_TICKS < job->number) { c->at.tick = job->number << HCQI_TICKS; }
    } else {
        hcqi_past_unref(c->past);
        c->past = past;
    }
    uint32_t races = hcqi_order_packets(job, c);
    for (hcqi_producer *p = job->producers; p != NULL && p->segment <= job->segment; p = p->list) {
        if (p->slot == NULL) { hcqi_order_raise(p->signal, p->value, hcqi_moment_of(c)); }
    }
    if (job->segment + 1 == hcqi_job_segments(job)) { hcqi_order_finish(job); }
    int races_fail = races != 0 && (dev->desc.flags & HCQ_DEVICE_CHECK_FAILS) != 0;
    if (races_fail) { hcqi_order_undone(c); }
    if (hcqi_order.items > hcqi_order.limit && hcqi_order.watching == 0) { hcqi_order_prune(); }
    return races_fail ? HCQ_ERROR_RACE : HCQ_OK;
}

static void hcqi_order_over(hcq_job *job) {
    hcqi_past_unref(job->began);
    if (job->chain != NULL && job->unordered) { job->chain->busy = 0; }
}

/* ========================================================================== */
/* ---- what kernels may only read --------------------------------- >>reads - */
/* With HCQ_DEVICE_CHECK_READS, on the CPU's engines: the bytes before and after. That it was
   the kernel who changed them is certain where nothing else may write there. */

/* Bytes that the command touches. */
typedef struct hcqi_sight {
    hcqi_bytes b;
    uint64_t id;                       /* the buffer's */
    uint32_t argument;
    int sure;                          /* as hcqi_deed_beside */
} hcqi_sight;

typedef struct hcqi_peek {
    hcqi_sight list[HCQI_WATCHES], kept[HCQI_WATCHES]; /* what it touches; may only read */
    uint32_t count;
    int hides;                         /* a value of the kernel's is an address */
    uint64_t made;                     /* deeds so far */
    uint8_t *bytes;                    /* of those that are kept */
    size_t size;
} hcqi_peek;

static void hcqi_peek_take(hcqi_peek *peek, const hcqi_bytes *b, uint32_t argument) {
    const hcqi_sight s = { *b, b->a->id, argument, 0 };
    if (peek->count < HCQI_WATCHES) { peek->list[peek->count] = s; }
    peek->count++;                     /* of more than there is room for nothing is watched */
}

static void hcqi_peek_hides(hcqi_peek *peek) { peek->hides = 1; }

/* Without what another one may write. */
static void hcqi_sight_cut(hcqi_bytes *b, const hcqi_bytes *by) {
    if ((by->access & HCQI_WRITE) == 0 || by->first >= b->end || by->end <= b->first) { return; }
    uint64_t *side = by->first > b->first ? &b->end : &b->first;
    *side = by->first > b->first ? by->first : by->end < b->end ? by->end : b->end;
}

/* Who wrote there last, as to a command that runs: 2: was over before, 1: is later on its lane,
   and who was before him may not be over, 0: may be at it now. */
static int hcqi_deed_beside(const hcqi_deed *d, const hcq_job *job, uint32_t index, uint64_t made) {
    if (d == NULL) { return 2; }
    if (d->index == HCQI_NONE) { return hcqi_past_has(job->began, d->at) ? 2 : 0; }
    int lives = hcqi_device_is(d->dev, d->place / HCQI_MAX_LANES) &&
                hcqi_job_at(d->dev, d->job) != NULL;
    if (d->made <= made && !lives) { return 2; }
    if (d->place != hcqi_lane_site(job->lane, 0).place) { return 0; }
    int same = d->job == job->number && job->launch == NULL && d->index < index;
    return d->job < job->number || same ? 2 : 1;
}

/* The worst of all who wrote in these bytes; `made`: later ones are not over. */
static int hcqi_cells_beside(const hcqi_cell *c, const hcqi_bytes *b, const hcq_job *job,
                             uint32_t index, uint64_t made) {
    int all[4] = { 2, 2, 2, 2 };
    if (c == NULL) { return 2; }
    if (b->first < c->first) { all[0] = hcqi_cells_beside(c->left, b, job, index, made); }
    if (b->end > c->end) { all[1] = hcqi_cells_beside(c->right, b, job, index, made); }
    if (b->first < c->end && b->end > c->first) {
        all[2] = hcqi_deed_beside(c->wrote, job, index, made);
        all[3] = hcqi_deed_beside(c->maybe, job, index, made);
    }
    for (int i = 1; i < 4; i++) { all[0] = all[i] < all[0] ? all[i] : all[0]; }
    return all[0];
}

static int hcqi_sight_sure(const hcqi_sight *s, const hcq_job *job, uint32_t index, uint64_t made) {
    hcqi_allocation *a = hcqi_order_find(job->version->dev, s->b.a->memory.address, NULL);
    if (a != s->b.a || a->id != s->id || a->memory.host == NULL) { return 0; }
    return hcqi_cells_beside(hcqi_shadow_of(a)->cells, &s->b, job, index, made);
}

/* Ranges that are only read and where nobody else writes stay. */
static void hcqi_peek_sift(hcqi_peek *peek, const hcq_job *job, uint32_t index) {
    uint32_t count = 0, all = peek->count > HCQI_WATCHES ? 0 : peek->count;
    for (uint32_t i = 0; i < all; i++) {
        hcqi_sight s = peek->list[i];
        for (uint32_t k = 0; k < all; k++) { hcqi_sight_cut(&s.b, &peek->list[k].b); }
        int reads = s.b.access == HCQI_READ && s.argument != HCQI_NONE && s.b.first < s.b.end;
        s.sure = reads ? hcqi_sight_sure(&s, job, index, peek->made) : 0;
        if (s.sure == 0) { continue; }
        peek->kept[count++] = s;
        peek->size += (size_t)(s.b.end - s.b.first);
    }
    peek->count = count;
}

static void hcqi_peek_delete(hcqi_peek *peek) {
    hcqi_delete(&hcqi_order.hooks, peek->bytes, peek->size);
    hcqi_delete(&hcqi_order.hooks, peek, sizeof *peek);
}

/* What the command may only read, with room for it; NULL: nothing. */
static hcqi_peek *hcqi_peek_new(hcq_job *job, const hcq_packet *p) {
    hcqi_peek *peek = HCQI_CAST(hcqi_peek *, hcqi_order_new(sizeof *peek));
    hcqi_actor me = hcqi_actor_of(job->lane->dev, job, NULL);
    if (peek == NULL) { return NULL; }
    me.watch = peek;
    hcqi_actor_packet(&me, p);
    peek->made = hcqi_order.deeds;
    hcqi_peek_sift(peek, job, p->index);
    if (peek->size != 0) {
        peek->bytes = HCQI_CAST(uint8_t *, hcqi_new(&hcqi_order.hooks, peek->size));
    }
    if (peek->bytes != NULL) { return peek; }
    hcqi_peek_delete(peek);
    return NULL;
}

/* A command is about to run, on this thread; what it gets, hcqi_order_watched takes. */
static HCQI_UNUSED void *hcqi_order_watch(hcq_job *job, const hcq_packet *p) {
    if (p->kind != HCQ_COMMAND_EXEC) { return NULL; }
    hcqi_enter();
    hcqi_peek *peek = hcqi_order.blind ? NULL : hcqi_peek_new(job, p);
    hcqi_order.watching += peek != NULL;
    hcqi_leave();
    size_t at = 0;
    for (uint32_t i = 0; peek != NULL && i < peek->count; i++) {
        const hcqi_bytes *b = &peek->kept[i].b;
        memcpy(peek->bytes + at, HCQ_PTR(const void, b->first), (size_t)(b->end - b->first));
        at += (size_t)(b->end - b->first);
    }
    return peek;
}

static void hcqi_sight_tell(hcq_job *job, const hcq_packet *p, const hcqi_sight *s, uint8_t was,
                            uint64_t at, int exact) {
    char mine[224], where[64] = "";
    hcqi_actor me = hcqi_actor_of(job->lane->dev, job, where);
    me.packet = p;
    hcqi_lane_text(job->lane, where, sizeof where);
    if (hcqi_race_new(&me, hcqi_hash(11, s->argument), exact, mine)) {
        hcqi_race_say(&me, "%srace: %s writes byte %llu of a buffer of %llu of '%s', 0x%02x before "
                      "it ran and 0x%02x now", me.maybe, mine, HCQI_LONG(at - s->b.start),
                      HCQI_LONG(s->b.a->memory.size), s->b.a->dev->label, was,
                      *HCQ_PTR(const uint8_t, at));
        hcqi_race_say(&me, "to add: HCQ_ARG_INOUT for argument %u of the program, which is to be "
                      "read only, or hcq_queue_access with what it writes", s->argument);
    }
    hcqi_actor_end(&me);
}

/* The first byte that is another one now. */
static void hcqi_sight_compare(hcq_job *job, const hcq_packet *p, uint64_t made,
                               const hcqi_sight *s, const uint8_t *was) {
    const uint8_t *is = HCQ_PTR(const uint8_t, s->b.first);
    uint64_t size = s->b.end - s->b.first, at = 0;
    if (memcmp(is, was, (size_t)size) == 0) { return; }
    while (at + 1 < size && is[at] == was[at]) { at++; }
    hcqi_enter();
    int now = hcqi_sight_sure(s, job, p->index, made), sure = now < s->sure ? now : s->sure;
    int own = (s->b.a->flags & (HCQI_IMPORTED | HCQ_HOST_VISIBLE | HCQ_HOST_WRITES)) == 0;
    int exact = !hcqi_order.opaque && (s->b.exact || (sure == 2 && own));
    if (sure != 0) { hcqi_sight_tell(job, p, s, was[at], s->b.first + at, exact); }
    hcqi_leave();
}

/* It has run. */
static HCQI_UNUSED void hcqi_order_watched(hcq_job *job, const hcq_packet *p, void *watch) {
    hcqi_peek *peek = HCQI_CAST(hcqi_peek *, watch);
    if (peek == NULL) { return; }
    const uint8_t *was = peek->bytes;
    for (uint32_t i = 0; i < peek->count; was += peek->kept[i].b.end - peek->kept[i].b.first, i++) {
        hcqi_sight_compare(job, p, peek->made, &peek->kept[i], was);
    }
    hcqi_enter();
    hcqi_order.watching--;
    hcqi_peek_delete(peek);
    hcqi_leave();
}

/* ========================================================================== */
/* ---- the host --------------------------------------------------- >>host - */

/* Is a point no reason for the end of a wait with this result? A submission that failed is over,
   too. */
static int hcqi_order_misses(hcqi_signal *s, uint64_t value, hcq_result result) {
    hcq_result why;
    hcqi_state state = hcqi_state_now(s, value, &why);
    if (result == HCQ_OK) { return state == HCQI_FAILED; }
    return state != HCQI_REACHED && (state != HCQI_FAILED || s->kind != HCQI_EXACT);
}

/* A point was reached, or failed. */
static void hcqi_order_seen(hcqi_signal *s, uint64_t value, hcq_result result) {
    hcqi_tick from = { 0, 0 };
    if (hcqi_order_misses(s, value, result)) { return; }
    hcqi_order_acquire(s, value, &hcqi_party_here()->past, &from);
}

/* This is its value, or its device's. */
static void hcqi_order_read(hcqi_signal *s, uint64_t value) {
    hcqi_past **past = &hcqi_party_here()->past;
    hcqi_tick from = { 0, 0 };
    if (s->kind == HCQI_USER) {
        hcqi_order_user(s, value, value + 1, past, &from);
    } else {
        hcqi_order_prefix(s->dev, value, past);
    }
}

/* A wait is over. */
static void hcqi_order_waited(const hcq_point *points, uint32_t count, hcq_wait_mode mode,
                              hcq_result result) {
    hcqi_party *here = hcqi_party_here();
    hcqi_past *any = NULL;
    hcqi_tick from = { 0, 0 };
    int first = 1, none = result == HCQ_ERROR_WOULD_BLOCK || result == HCQ_ERROR_DEADLOCK ||
                          result == HCQ_ERROR_CLOSED;
    if (result > 0 || none) { return; }
    for (uint32_t i = 0; i < count; i++) {
        hcqi_signal *s = hcqi_signal_find(points[i].signal);
        hcqi_past *one = NULL, **to = mode == HCQ_ANY && count > 1 ? &one : &here->past;
        if (s == NULL || hcqi_order_misses(s, points[i].value, result)) { continue; }
        hcqi_order_acquire(s, points[i].value, to, &from);
        if (to != &one) { continue; }
        if (first) { hcqi_past_join(&any, one); } else { hcqi_past_meet(&any, one); }
        first = 0;
        hcqi_past_unref(one);
    }
    hcqi_past_join(&here->past, any);
    hcqi_past_unref(any);
}

/* The host raises a signal: what it has seen is over then. */
static void hcqi_order_set(hcqi_signal *s, uint64_t value) {
    hcqi_party *here = hcqi_party_here();
    here->at.tick++;                   /* of its own: what is seen of it is this, too */
    hcqi_moment m = { hcqi_past_ref(here->past), here->at };
    hcqi_order.items++;
    hcqi_order_raise(s, value, m);
    hcqi_past_put(&here->past, here->at);
}

/* A host command begins, and ends, on the calling thread. */
static void hcqi_order_called(hcq_job *job, int begins) {
    hcqi_party *here = hcqi_party_here();
    hcqi_chain *c = job->chain;
    if (c == NULL) { return; }
    if (begins) {
        hcqi_past_join(&here->past, c->past);
        hcqi_past_put(&here->past, c->at);
    } else {
        hcqi_past_join(&c->past, here->past);
    }
}

/* The calling thread touches bytes, in a call of this name. 1: that is a race. */
static uint32_t hcqi_order_touch(hcqi_allocation *a, uint64_t address, uint64_t size,
                                 uint32_t access, const char *what) {
    hcqi_party *here = hcqi_party_here();
    hcqi_actor me = hcqi_actor_of(a->dev, NULL, what);
    here->at.tick++;
    me.past = here->past;
    me.at = here->at;
    hcqi_actor_touch(&me, a, address, size, access, 1);
    hcqi_actor_end(&me);
    hcqi_past_put(&here->past, here->at);
    return me.races;
}

/* An eager copy by the host. */
static void hcqi_order_copied(const hcq_buffer *b, uint64_t size, int writes, const char *what) {
    hcq_result why;
    hcqi_allocation *a = hcqi_buffer_find(b, &why);
    if (a == NULL) { return; }
    (void)hcqi_order_touch(a, b->address, size, writes ? HCQI_WRITE : HCQI_READ, what);
}

HCQI_DEF hcq_result hcq_check_host(const void *ptr, uint64_t size, uint32_t access) {
    uint64_t first = (uint64_t)(uintptr_t)ptr, end = first + size;
    uint32_t does = access == HCQ_ARG_IN ? HCQI_READ : access == HCQ_ARG_OUT ? HCQI_WRITE
                    : access == HCQ_ARG_INOUT ? HCQI_READ | HCQI_WRITE : 0;
    int found = 0;
    hcqi_enter();
    HCQI_LEAVE_UNLESS(NULL, ptr != NULL && end > first, HCQ_ERROR_INVALID,
                      "ptr: is NULL, or its bytes are none or too many");
    HCQI_LEAVE_UNLESS(NULL, does != 0, HCQ_ERROR_INVALID,
                      "access: is not HCQ_ARG_IN, _OUT or _INOUT");
    HCQI_DEVICES(dev) {
        for (uint32_t k = 0; hcqi_core.checked != 0 && k < dev->table_count; k++) {
            hcqi_allocation *a = dev->table[k];
            uint64_t host = (uint64_t)(uintptr_t)a->memory.host, last = host + a->memory.size;
            if (host == 0 || host >= end || last <= first) { continue; }
            uint64_t from = host > first ? host : first, to = last < end ? last : end;
            (void)hcqi_order_touch(a, a->memory.address + (from - host), to - from, does,
                                   "hcq_check_host");
            found = 1;
        }
    }
    HCQI_LEAVE_UNLESS(NULL, found || hcqi_core.checked == 0, HCQ_ERROR_INVALID,
                      "ptr: no buffer has it, or it was freed");
    return hcqi_leave_with(HCQ_OK);
}

HCQI_DEF hcq_result hcq_check_meet(const void *object) {
    hcqi_enter();
    uint64_t key = (uint64_t)(uintptr_t)object;
    hcqi_party *here = hcqi_core.checked == 0 ? NULL : hcqi_party_here();
    hcqi_party *m = here == NULL ? NULL : hcqi_party_of(&hcqi_order.meetings, key);
    if (m != NULL) {
        hcqi_past_join(&here->past, m->past);
        hcqi_past_join(&m->past, here->past);
    }
    return hcqi_leave_with(HCQ_OK);
}

/* ========================================================================== */
/* ---- what nobody needs any more --------------------------------- >>prune - */

static void hcqi_floor_meet(hcqi_past **floor, const hcqi_line *jobs) {
    for (const hcq_job *job = jobs->head; job != NULL; job = job->next) {
        hcqi_past_meet(floor, job->began);
        if (!job->unordered) { return; } /* later ones saw more */
    }
}

/* What everybody has seen who may still do anything. */
static hcqi_past *hcqi_order_floor(void) {
    hcqi_past *floor = NULL;
    hcqi_past_join(&floor, hcqi_order.threads ? hcqi_order.parties == NULL ? NULL
                           : hcqi_order.parties->past : hcqi_order.all.past);
    for (const hcqi_party *p = hcqi_order.parties; p != NULL; p = p->next) {
        hcqi_past_meet(&floor, p->past);
    }
    HCQI_LANES(lane) {
        for (int i = 0; i < 2; i++) { hcqi_floor_meet(&floor, &lane->lists[i]); }
    }
    return floor;
}

static hcqi_cell *hcqi_cells_prune(hcqi_cell *c, const hcqi_past *floor, int blank) {
    if (c == NULL) { return NULL; }
    c->left = hcqi_cells_prune(c->left, floor, blank);
    c->right = hcqi_cells_prune(c->right, floor, blank);
    if (c->wrote != NULL && hcqi_past_has(floor, c->wrote->at)) { hcqi_deed_put(&c->wrote, NULL); }
    if (c->maybe != NULL && hcqi_past_has(floor, c->maybe->at)) { hcqi_deed_put(&c->maybe, NULL); }
    for (hcqi_read **link = &c->reads; *link != NULL;) {
        if (hcqi_past_has(floor, (*link)->deed->at)) {
            hcqi_read_drop(link);
        } else {
            link = &(*link)->next;
        }
    }
    if (c->wrote != NULL || c->maybe != NULL || c->reads != NULL || (blank && c->written)) {
        return c;
    }
    hcqi_cell *rest = hcqi_cells_merge(c->left, c->right);
    hcqi_cell_delete(c);
    return rest;
}

static void hcqi_past_purge(hcqi_past **past) {
    uint32_t count = 0, k = 0;
    hcqi_past *own = *past == NULL ? NULL : hcqi_past_own(past, 0);
    for (uint32_t i = 0; own != NULL && i < own->count; i++) {
        uint64_t chain = own->ticks[i].chain;
        while (k < hcqi_order.chain_count && hcqi_order.chains[k]->at.chain < chain) { k++; }
        int lives = k < hcqi_order.chain_count && hcqi_order.chains[k]->at.chain == chain;
        for (const hcqi_party *p = hcqi_order.parties; p != NULL; p = p->next) {
            lives |= p->at.chain == chain;
        }
        if (lives || chain == hcqi_order.all.at.chain) { own->ticks[count++] = own->ticks[i]; }
    }
    if (own != NULL) { own->count = count; }
}

/* Chains that are over for everybody. */
static void hcqi_chains_prune(const hcqi_past *floor) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < hcqi_order.chain_count; i++) {
        hcqi_chain *c = hcqi_order.chains[i];
        if (!c->lane && !c->busy && hcqi_past_has(floor, c->at)) {
            hcqi_chain_delete(c);
        } else {
            hcqi_order.chains[count++] = c;
        }
    }
    if (count == hcqi_order.chain_count) { return; }
    hcqi_order.chain_count = count;
    hcqi_past_purge(&hcqi_order.all.past);
    for (hcqi_party *p = hcqi_order.parties; p != NULL; p = p->next) { hcqi_past_purge(&p->past); }
    for (uint32_t i = 0; i < count; i++) { hcqi_past_purge(&hcqi_order.chains[i]->past); }
    HCQI_DEVICES(dev) {
        for (const hcq_queue *q = dev->queues; q != NULL; q = q->next) {
            if (q->graph != NULL) { hcqi_past_purge(&q->graph->past); }
        }
    }
}

/* Those that failed before they were handed over have no end. */
static void hcqi_ends_prune(const hcq_device *dev, const hcqi_past *floor) {
    hcqi_ends *e = dev->ends;
    uint32_t over = 0;
    for (; over < e->count; over++) {
        hcqi_moment *m = &e->list[over];
        int none = m->at.chain == 0 && e->first + over <= dev->done_prefix;
        if (!none && (m->at.chain == 0 || !hcqi_past_has(floor, m->at))) { break; }
        hcqi_moment_drop(m);
    }
    e->first += over;
    e->count -= over;
    hcqi_order.items -= over;
    if (over != 0) {
        memmove(e->list, e->list + over, e->count * sizeof *e->list);
        memset(e->list + e->count, 0, over * sizeof *e->list);
    }
    hcqi_past_purge(&e->prefix);
}

static void hcqi_releases_prune(hcqi_releases *r, const hcqi_past *floor) {
    uint32_t over = 0;
    while (over < r->count && hcqi_past_has(floor, r->list[over].moment.at)) {
        r->base = r->list[over++].value;
    }
    hcqi_releases_drop(r, over);
}

static void hcqi_order_prune(void) {
    hcqi_past *floor = hcqi_order_floor();
    HCQI_DEVICES(dev) {
        for (uint32_t i = 0; i < dev->table_count; i++) {
            hcqi_shadow *s = dev->table[i]->shadow;
            if (s != NULL) { s->cells = hcqi_cells_prune(s->cells, floor, s->blank); }
        }
        if (dev->ends != NULL) { hcqi_ends_prune(dev, floor); }
    }
    for (hcqi_releases *r = hcqi_order.releases; r != NULL; r = r->next) {
        hcqi_releases_prune(r, floor);
    }
    hcqi_order.imported.cells = hcqi_cells_prune(hcqi_order.imported.cells, floor, 0);
    hcqi_chains_prune(floor);
    hcqi_past_unref(floor);
    hcqi_order.limit = 2 * hcqi_order.items + 4096;
}

/* ========================================================================== */
/* ---- begin and end ------------------------------------------- >>checking - */

/* A device was opened: it has the flag, or another one did. */
static void hcqi_order_opened(hcq_device *dev) {
    const uint32_t flag = HCQ_DEVICE_CHECK;
    int checks = (dev->desc.flags & flag) != 0;
    if (checks && hcqi_core.checked++ == 0) {
        memset(&hcqi_order, 0, sizeof hcqi_order);
        hcqi_order.hooks = hcqi_hooks(NULL); /* the device may close before others */
        hcqi_order.limit = 4096;
    }
    if (checks && (dev->desc.flags & HCQ_DEVICE_CHECK_THREADS) != 0) { hcqi_order.threads = 1; }
    HCQI_DEVICES(other) {
        if (hcqi_core.checked == 0 || other->ends != NULL) { continue; }
        other->ends = HCQI_CAST(hcqi_ends *, hcqi_order_new(sizeof *other->ends));
        if (other->ends != NULL) { other->ends->first = other->next_number; }
    }
}

static void hcqi_order_leave(hcq_device *dev) {
    hcqi_ends *e = dev->ends;
    for (uint32_t k = 0; k < dev->lane_count; k++) {
        hcqi_chain *c = dev->lanes[k].chain;
        if (c != NULL) { c->lane = c->busy = 0; } /* what it did goes with the rest */
        dev->lanes[k].chain = NULL;
    }
    if (e == NULL) { return; }
    for (uint32_t i = 0; i < e->count; i++) { hcqi_moment_drop(&e->list[i]); }
    hcqi_order.items -= e->count;
    hcqi_past_unref(e->prefix);
    hcqi_delete(&hcqi_order.hooks, e->list, e->capacity * sizeof *e->list);
    hcqi_delete(&hcqi_order.hooks, e->texts, HCQI_RACES * sizeof *e->texts);
    hcqi_delete(&hcqi_order.hooks, e, sizeof *e);
    dev->ends = NULL;
}

/* Nobody is checked any more. */
static void hcqi_order_end(void) {
    HCQI_DEVICES(dev) {
        hcqi_order_leave(dev);
        for (const hcq_queue *q = dev->queues; q != NULL; q = q->next) {
            if (q->graph != NULL) { hcqi_order_ungraph(q->graph); }
        }
        for (uint32_t i = 0; i < dev->table_count; i++) { hcqi_order_freed(dev->table[i]); }
        for (uint64_t n = dev->done_prefix + 1; n < dev->next_number; n++) {
            hcq_job *job = hcqi_job_at(dev, n);
            if (job == NULL) { continue; }
            hcqi_past_replace(&job->began, NULL);
            job->chain = NULL;
        }
    }
    while (hcqi_order.releases != NULL) { hcqi_order_forget(hcqi_order.releases->signal); }
    hcqi_cells_delete(hcqi_order.imported.cells);
    for (uint32_t i = 0; i < hcqi_order.chain_count; i++) {
        hcqi_chain_delete(hcqi_order.chains[i]);
    }
    hcqi_delete(&hcqi_order.hooks, hcqi_order.chains,
                hcqi_order.chain_capacity * sizeof *hcqi_order.chains);
    hcqi_past_unref(hcqi_order.all.past);
    hcqi_parties_delete(hcqi_order.parties);
    hcqi_parties_delete(hcqi_order.meetings);
    memset(&hcqi_order, 0, sizeof hcqi_order);
}

/* With all that was made from it; its work was waited for. */
static void hcqi_order_closed(hcq_device *dev) {
    hcqi_order_prefix(dev, dev->next_number - 1, &hcqi_party_here()->past);
    if (dev->desc.flags & HCQ_DEVICE_CHECK) { hcqi_core.checked--; }
    if (hcqi_core.checked == 0) { hcqi_order_end(); } else { hcqi_order_leave(dev); }
}

static hcq_result hcqi_order_query(const hcq_device *dev, uint64_t *value) {
    if (dev->ends == NULL || hcqi_order.blind) { return HCQ_ERROR_OUT_OF_MEMORY; }
    *value = dev->ends->races;
    return HCQ_OK;
}

static void hcqi_order_dump(hcqi_text *t, const hcq_device *dev) {
    const hcqi_ends *e = dev->ends;
    if (e == NULL || e->races == 0) { return; }
    uint64_t first = e->races < HCQI_RACES ? 0 : e->races - HCQI_RACES;
    hcqi_print(t, "races: %llu\n", HCQI_LONG(e->races));
    for (uint64_t i = first; e->texts != NULL && i < e->races; i++) {
        hcqi_print(t, "%s", e->texts[i % HCQI_RACES]);
    }
}

/* ========================================================================== */
/* ---- schedules ---------------------------------------------- >>exploring - */
/* All schedules are those of a tree, gone through depth first: each run begins with the picks
   of the one before it, up to the last that has another choice. A piece that was tried at a
   pick sleeps in the others' subtrees until something runs that it does not commute with:
   what begins with it there only repeats (Godefroid's sleep sets). */

#ifdef HCQ_CPU

enum {
    HCQI_TRAIL = 8,                    /* ranges; more are everything */
    HCQI_PICKS = 64,                   /* pieces that are told apart */
    HCQI_RUN = 100000,                 /* choices; then work comes before the host */
    HCQI_SHORTER = 200                 /* runs to make a schedule shorter */
};

/* A piece, and the bytes that it touches. */
typedef struct hcqi_trail {
    uint64_t id;
    uint32_t count;
    int all;                           /* it commutes with nothing */
    struct { uint64_t first, end; int writes; } bytes[HCQI_TRAIL];
} hcqi_trail;

/* A choice. */
typedef struct hcqi_pick {
    uint32_t count, chosen;
    uint64_t ids;                      /* of the pieces */
    uint64_t done, asleep;             /* bits of them */
} hcqi_pick;

static struct hcqi_explorer {
    const hcq_explore_desc *desc;
    int everything;                    /* depth first, else by seed or list */
    int quiet;                         /* devices' logs */
    uint64_t random;
    uint32_t drawn;                    /* choices among several, in this run */
    uint16_t *list;                    /* those to take, `given`; then those taken */
    uint32_t given, list_room;
    int recording;                     /* into the list */
    hcqi_pick *picks;                  /* `count`; this run is at number `at` */
    uint32_t count, room, at;
    int cut;                           /* what is left of this run repeats another */
    const char *bad;                   /* ends exploring */
    uint32_t sleep_count;
    hcqi_trail sleep[HCQI_PICKS], trails[HCQI_PICKS];
    hcqi_peek peek;                    /* at one of them */
} hcqi_explorer;

static const char hcqi_explorer_poor[] = "out of memory";

static int hcqi_trails_commute(const hcqi_trail *a, const hcqi_trail *b) {
    int meet = a->all || b->all;
    for (uint32_t i = 0; !meet && i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            meet |= (a->bytes[i].writes || b->bytes[k].writes) &&
                    a->bytes[i].first < b->bytes[k].end && b->bytes[k].first < a->bytes[i].end;
        }
    }
    return !meet;
}

/* The same in each run: where it stands, not where it lies. */
static uint64_t hcqi_piece_id(const hcqi_cpu_piece *p) {
    if (p->device == NULL) { return 1; }
    uint64_t id = hcqi_hash(p->device->slot, 3);
    if (p->engine == NULL) { return id; }
    id = hcqi_hash(id, p->engine->index + (p->engine->walk.batches << 8));
    return hcqi_hash(id, p->packet == NULL ? 1 : 2 + (uint64_t)(p->packet - p->entry->packets));
}

/* What the host does next, a host command, and who is watched for the host: anything. */
static void hcqi_trail_of(hcqi_trail *t, const hcqi_cpu_piece *p) {
    hcqi_peek *peek = &hcqi_explorer.peek;
    hcqi_actor me;
    t->id = hcqi_piece_id(p);
    t->count = 0;
    t->all = p->engine == NULL || hcqi_atomic_load32(&p->entry->native->watch) != 0;
    if (t->all || p->packet == NULL) { return; }
    t->all = p->packet->kind == HCQ_COMMAND_HOST || p->packet->kind == HCQ_COMMAND_CUSTOM;
    memset(&me, 0, sizeof me);
    me.dev = p->device;
    me.job = p->entry->job;
    me.watch = peek;
    peek->count = 0;
    peek->hides = 0;
    hcqi_enter();
    if (p->packet->kind != HCQ_COMMAND_TIMESTAMP) { hcqi_actor_packet(&me, p->packet); }
    hcqi_leave();
    t->all |= peek->hides || peek->count > HCQI_TRAIL;
    for (; t->count < peek->count && t->count < HCQI_TRAIL; t->count++) {
        const hcqi_bytes *b = &peek->list[t->count].b;
        t->bytes[t->count].first = b->first;
        t->bytes[t->count].end = b->end;
        t->bytes[t->count].writes = (b->access & HCQI_WRITE) != 0;
    }
}

static int hcqi_explorer_sleeps(uint64_t id) {
    for (uint32_t i = 0; i < hcqi_explorer.sleep_count; i++) {
        if (hcqi_explorer.sleep[i].id == id) { return 1; }
    }
    return 0;
}

/* A pick that no run before this one came to. 0: there is nothing new behind it. */
static int hcqi_pick_new(hcqi_pick *pick, uint32_t count) {
    memset(pick, 0, sizeof *pick);
    pick->count = count;
    for (uint32_t i = 0; i < count; i++) {
        pick->ids = hcqi_hash(pick->ids, hcqi_explorer.trails[i].id);
        if (hcqi_explorer_sleeps(hcqi_explorer.trails[i].id)) { pick->asleep |= UINT64_C(1) << i; }
    }
    while (pick->chosen < count && (pick->asleep >> pick->chosen & 1) != 0) { pick->chosen++; }
    return pick->chosen < count;
}

/* Who sleeps behind the pick: what slept or was tried, and commutes with what is chosen. */
static void hcqi_pick_passed(const hcqi_pick *pick) {
    struct hcqi_explorer *e = &hcqi_explorer;
    uint64_t asleep = (e->desc->flags & HCQ_EXPLORE_EVERY) != 0 ? 0 : pick->asleep | pick->done;
    e->sleep_count = 0;
    for (uint32_t i = 0; i < pick->count; i++) {
        if ((asleep >> i & 1) != 0 && i != pick->chosen &&
            hcqi_trails_commute(&e->trails[i], &e->trails[pick->chosen])) {
            e->sleep[e->sleep_count++] = e->trails[i];
        }
    }
}

static uint32_t hcqi_explorer_next(const hcqi_cpu_piece *pieces, uint32_t count) {
    struct hcqi_explorer *e = &hcqi_explorer;
    hcqi_pick fresh;
    if (count > HCQI_PICKS) { e->bad = "more than 64 pieces may run at once"; }
    if (e->cut || e->bad != NULL) { return 0; }
    for (uint32_t i = 0; i < count; i++) { hcqi_trail_of(&e->trails[i], &pieces[i]); }
    int more = hcqi_pick_new(&fresh, count);
    if (e->at == e->count) {
        hcqi_pick *picks = e->picks;
        if (e->count == e->room) {
            uint32_t room = e->room == 0 ? 256 : 2 * e->room;
            picks = HCQI_CAST(hcqi_pick *, realloc(e->picks, room * sizeof *picks));
            if (picks == NULL) { e->bad = hcqi_explorer_poor; }
            if (picks != NULL) { e->picks = picks, e->room = room; }
        }
        e->cut = !more || picks == NULL;
        if (e->cut) { return 0; }
        e->picks[e->count++] = fresh;
    }
    hcqi_pick *pick = &e->picks[e->at++];
    if (pick->count != count || pick->ids != fresh.ids) {
        e->bad = "two runs with the same choices differ";
        e->cut = 1;
        return 0;
    }
    hcqi_pick_passed(pick);
    return pick->chosen;
}

static void hcqi_explorer_record(uint32_t choice) {
    struct hcqi_explorer *e = &hcqi_explorer;
    if (e->recording && e->drawn == e->list_room) {
        uint32_t room = e->list_room == 0 ? 256 : 2 * e->list_room;
        uint16_t *list = HCQI_CAST(uint16_t *, realloc(e->list, room * sizeof *list));
        if (list == NULL) {
            e->bad = hcqi_explorer_poor;
            e->recording = 0;
            return;
        }
        e->list = list;
        e->list_room = room;
    }
    if (e->recording) { e->list[e->drawn] = (uint16_t)choice; }
}

/* hcqi_cpu_world.choose_fn. A long run hurries to its end, so that whoever polls gets there. */
static uint32_t hcqi_explorer_choose(const hcqi_cpu_piece *pieces, uint32_t count) {
    struct hcqi_explorer *e = &hcqi_explorer;
    uint32_t choice = 0;
    if (e->everything) { choice = hcqi_explorer_next(pieces, count); }
    if (count < 2) { return 0; }
    if (e->drawn >= HCQI_RUN) {
        e->cut = 1;
        return count - 1;
    }
    if (!e->everything && e->drawn < e->given) {
        choice = e->list[e->drawn];
        if (choice >= count) { choice = count - 1; }
    } else if (!e->everything && e->random != 0) {
        e->random = hcqi_hash(e->random, UINT64_C(0x9e3779b97f4a7c15)) | 1;
        choice = (uint32_t)(e->random >> 20) % count;
    }
    hcqi_explorer_record(choice);
    e->drawn++;
    return choice;
}

/* A device that is about to be opened is explored. */
static void hcqi_order_opening(hcq_device *dev) {
    if (hcqi_explorer.desc == NULL) { return; }
    dev->desc.flags |= HCQ_DEVICE_CHECK;
    if (hcqi_explorer.quiet) { dev->desc.log_fn = NULL; }
}

/* A run: HCQ_OK, or what was found. */
static hcq_result hcqi_explorer_run(void) {
    struct hcqi_explorer *e = &hcqi_explorer;
    uint64_t races = hcqi_races_found;
    e->drawn = e->at = e->sleep_count = 0;
    e->cut = 0;
    hcqi_cpu_world.choose_fn = hcqi_explorer_choose;
    hcqi_cpu_world.dead = 0;
    hcq_result r = e->desc->run_fn(e->desc->user);
    hcqi_cpu_world.choose_fn = NULL;
    if (hcqi_cpu_world.dead) { r = HCQ_ERROR_DEADLOCK; }
    if (hcqi_races_found != races) { r = HCQ_ERROR_RACE; }
    if (hcqi_cpu_world.first != NULL) {
        e->bad = "the function left a device open";
        return HCQ_ERROR_BUSY;
    }
    return r;
}

/* To the next schedule of all: 0 = there is none. */
static int hcqi_explorer_advance(void) {
    struct hcqi_explorer *e = &hcqi_explorer;
    for (; e->count != 0; e->count--) {
        hcqi_pick *pick = &e->picks[e->count - 1];
        pick->done |= UINT64_C(1) << pick->chosen;
        uint64_t over = pick->done | pick->asleep;
        pick->chosen = 0;
        while (pick->chosen < pick->count && (over >> pick->chosen & 1) != 0) { pick->chosen++; }
        if (pick->chosen < pick->count) { return 1; }
    }
    return 0;
}

/* All of them, until one ends it. */
static hcq_result hcqi_explorer_all(hcq_explore_info *info) {
    struct hcqi_explorer *e = &hcqi_explorer;
    uint64_t most = e->desc->runs != 0 ? e->desc->runs : 100000;
    e->everything = 1;
    while (info->runs + info->cut < most) {
        hcq_result r = hcqi_explorer_run();
        if (e->bad != NULL) { return r; }
        if (e->cut && r == HCQ_OK) { info->cut++; } else { info->runs++; }
        if (r != HCQ_OK) { return r; }
        if (!hcqi_explorer_advance()) {
            info->complete = 1;
            return HCQ_OK;
        }
    }
    return HCQ_OK;
}

static hcq_result hcqi_explorer_seeds(hcq_explore_info *info) {
    uint64_t first = hcqi_explorer.desc->seed != 0 ? hcqi_explorer.desc->seed : 1;
    for (uint64_t i = 0; i < hcqi_explorer.desc->seeds; i++) {
        info->seed = first + i;
        hcqi_explorer.random = hcqi_hash(info->seed, 11) | 1;
        hcq_result r = hcqi_explorer_run();
        info->runs++;
        if (hcqi_explorer.bad != NULL || r != HCQ_OK) { return r; }
    }
    return HCQ_OK;
}

/* The list's first `given` choices, then always the first piece: does that end the same? */
static int hcqi_explorer_again(uint32_t given, hcq_result want) {
    hcqi_explorer.given = given;
    return hcqi_explorer_run() == want && hcqi_explorer.bad == NULL;
}

/* Fewer choices, and more that are 0, as long as the run ends the same. */
static void hcqi_explorer_shorten(hcq_result want) {
    struct hcqi_explorer *e = &hcqi_explorer;
    uint32_t given = e->drawn, tries = 0;
    e->everything = e->recording = 0;
    e->random = 0;
    for (uint32_t less = given / 2; less != 0 && tries < HCQI_SHORTER; tries++) {
        if (less <= given && hcqi_explorer_again(given - less, want)) { given -= less; }
        else { less /= 2; }
    }
    for (uint32_t i = given; i-- != 0 && tries < HCQI_SHORTER;) {
        uint16_t was = e->list[i];
        if (was == 0) { continue; }
        e->list[i] = 0;
        tries++;
        if (!hcqi_explorer_again(given, want)) { e->list[i] = was; }
    }
    while (given != 0 && e->list[given - 1] == 0) { given--; }
    e->given = given;
}

/* "2 0*3 1", as in hcq_explore_info; what is no list where that has no room. */
static void hcqi_explorer_write(char *text, size_t size) {
    const struct hcqi_explorer *e = &hcqi_explorer;
    size_t used = 0;
    for (uint32_t i = 0, times; i < e->given && used < size; i += times) {
        for (times = 1; i + times < e->given && e->list[i + times] == e->list[i];) { times++; }
        used += (size_t)snprintf(text + used, size - used, times == 1 ? "%s%u" : "%s%u*%u",
                                 i == 0 ? "" : " ", (unsigned)e->list[i], (unsigned)times);
    }
    if (used >= size) { snprintf(text, size, "too many"); }
}

static hcq_result hcqi_explorer_read(const char *text) {
    struct hcqi_explorer *e = &hcqi_explorer;
    e->recording = 1;
    while (*text != 0 && e->bad == NULL) {
        char *end;
        unsigned long choice = strtoul(text, &end, 10), times = 1;
        int good = *text >= '0' && *text <= '9' && choice <= UINT16_MAX;
        if (good && *end == '*') {
            text = end + 1;
            times = strtoul(text, &end, 10);
            good = *text >= '0' && *text <= '9' && times <= HCQI_RUN;
        }
        if (!good || (*end != 0 && *end != ' ')) { e->bad = "choices: no list of numbers"; }
        for (; e->bad == NULL && times != 0; times--) {
            hcqi_explorer_record((uint32_t)choice);
            if (e->bad == NULL) { e->drawn++; }
        }
        text = *end == 0 ? end : end + 1;
    }
    e->given = e->drawn;
    e->recording = 0;
    return e->bad == NULL ? HCQ_OK : HCQ_ERROR_INVALID;
}

static hcq_result hcqi_explorer_find(hcq_explore_info *info) {
    const hcq_explore_desc *desc = hcqi_explorer.desc;
    if (desc->choices != NULL) {
        hcq_result read = hcqi_explorer_read(desc->choices);
        if (read == HCQ_OK) { info->runs = 1; }
        return read == HCQ_OK ? hcqi_explorer_run() : read;
    }
    hcqi_explorer.quiet = hcqi_explorer.recording = 1;
    hcq_result r = desc->seeds != 0 ? hcqi_explorer_seeds(info) : hcqi_explorer_all(info);
    if (r == HCQ_OK || hcqi_explorer.bad != NULL) { return r; }
    hcqi_explorer_shorten(r);
    hcqi_explorer.quiet = 0;
    if (!hcqi_explorer_again(hcqi_explorer.given, r) && hcqi_explorer.bad == NULL) {
        hcqi_explorer.bad = "two runs with the same choices differ";
    }
    return r;
}

static HCQI_PRINTF(3, 4) void hcqi_explorer_log(const hcq_explore_desc *desc, hcq_result result,
                                                const char *format, ...) {
    va_list args;
    va_start(args, format);
    hcqi_enter();
    hcqi_log_to(desc->log_fn, desc->log_user, NULL, result, format, args);
    hcqi_leave();
    va_end(args);
}

HCQI_DEF hcq_result hcq_explore(const hcq_explore_desc *desc, hcq_explore_info *info) {
    hcq_explore_info own;
    if (desc == NULL || desc->run_fn == NULL) {
        return hcqi_null(desc == NULL ? "desc" : "run_fn");
    }
    if (desc->flags & ~(uint32_t)HCQ_EXPLORE_EVERY) {
        hcqi_explorer_log(desc, HCQ_ERROR_INVALID, "flags: unknown bits");
        return HCQ_ERROR_INVALID;
    }
    hcqi_enter();
    int open = hcqi_explorer.desc != NULL || hcqi_device_next(NULL) != NULL;
    if (!open) {
        memset(&hcqi_explorer, 0, sizeof hcqi_explorer);
        hcqi_explorer.desc = desc;
    }
    hcqi_leave();
    if (open) {
        hcqi_explorer_log(desc, HCQ_ERROR_BUSY, "explore: devices are open");
        return HCQ_ERROR_BUSY;
    }
    memset(&own, 0, sizeof own);
    own.result = hcqi_explorer_find(&own);
    hcqi_explorer_write(own.choices, sizeof own.choices);
    if (hcqi_explorer.bad != NULL) {
        if (own.result != HCQ_ERROR_BUSY) { own.result = HCQ_ERROR_INVALID; }
        if (hcqi_explorer.bad == hcqi_explorer_poor) { own.result = HCQ_ERROR_OUT_OF_MEMORY; }
        hcqi_explorer_log(desc, own.result, "explore: %s, after %llu runs", hcqi_explorer.bad,
                          (unsigned long long)(own.runs + own.cut));
    } else if (own.result != HCQ_OK) {
        hcqi_explorer_log(desc, own.result, "explore: run %llu ends so; .choices = \"%s\" is "
                          "that run", (unsigned long long)(own.runs + own.cut), own.choices);
    }
    free(hcqi_explorer.picks);
    free(hcqi_explorer.list);
    memset(&hcqi_explorer, 0, sizeof hcqi_explorer);
    if (info != NULL) { *info = own; }
    return own.result;
}

#else

static void hcqi_order_opening(hcq_device *dev) { (void)dev; }

HCQI_DEF hcq_result hcq_explore(const hcq_explore_desc *desc, hcq_explore_info *info) {
    (void)desc, (void)info;
    return hcqi_refuse_alone(NULL, HCQ_ERROR_UNSUPPORTED, "explore: needs HCQ_CPU");
}

#endif

HCQI_COLD_END
#endif /* HCQ_IMPLEMENTATION */
