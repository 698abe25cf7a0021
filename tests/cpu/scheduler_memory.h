/* scheduler_memory.h - part of scheduler.c: what a load may give, what is a race. */

static int acquires(int order) { return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE; }
static int releases(int order) { return order >= __ATOMIC_RELEASE; }

/* ---- places ---------------------------------------------------------------- */

static const moment never;

static cell *cell_of(const void *address) {
    uintptr_t word = (uintptr_t)address & ~(uintptr_t)3;
    for (uint64_t at = ((uint64_t)word >> 2) * 0x9e3779b97f4a7c15u >> 40;; at++) {
        cell *c = &cells[at % CELLS];
        if (c->run == run_number && c->word == word) { return c; }
        if (c->run == run_number) { continue; }
        *c = (cell){.run = run_number, .word = word, .place = NOWHERE};
        if (++cell_count > CELLS / 4 * 3) { die("too much memory is accessed"); }
        return c;
    }
}

static uint64_t memory_at(const void *address, uint32_t size) { /* little-endian */
    uint64_t value = 0;
    memcpy(&value, address, size);
    return value;
}

static store *newest_of(int at) { return &places[at].stores[places[at].newest % STORES]; }

static void append(int at, uint64_t value, const moment *from) {
    places[at].newest++;
    newest_of(at)->value = value;
    newest_of(at)->at = *from;
    memcpy(places[at].address, &value, places[at].size); /* what plain reads see */
}

/* The place of an address; what it holds now is its first store. */
static int place_of(const void *address, uint32_t size) {
    cell *c = cell_of(address);
    if (c->place == NOWHERE) {
        if (place_count == PLACES) { die("too many places"); }
        c->place = place_count++;
        memset(&places[c->place], 0, offsetof(place, stores));
        places[c->place].address = (void *)(uintptr_t)address;
        places[c->place].size = size;
        places[c->place].rewritten = 1;
    }
    place *p = &places[c->place];
    if (p->size != size) { die("a place is accessed in two sizes"); }
    if (p->rewritten) { /* in plain sight: an order keeps all others away */
        p->rewritten = 0;
        append(c->place, memory_at(address, size), &never);
        p->floor = p->newest;
    }
    return c->place;
}

static void join(moment *to, const moment *from) {
    for (int i = 0; i < FIBERS; i++) {
        to->clock[i] = from->clock[i] > to->clock[i] ? from->clock[i] : to->clock[i];
    }
    for (int i = 0; i < place_count; i++) {
        to->view[i] = from->view[i] > to->view[i] ? from->view[i] : to->view[i];
    }
}

/* The oldest store of a buffer is seen by all. */
static void drain(fiber *f) {
    store oldest = f->buffer[0];
    int at = oldest.place;
    f->buffered--;
    memmove(&f->buffer[0], &f->buffer[1], (size_t)f->buffered * sizeof f->buffer[0]);
    note(f, OP_DRAIN, at, newest_of(at)->value, oldest.value, "");
    append(at, oldest.value, &oldest.at);
    f->now.view[at] = places[at].newest;
    for (int i = 0; i < f->buffered; i++) { /* they come after it */
        if (releases(f->buffer[i].order)) { f->buffer[i].at.view[at] = places[at].newest; }
    }
}

/* ---- races ----------------------------------------------------------------- */

static void touch(cell *c, access_kind kind, void *here) {
    static const char *const did[] = { "reads", "writes", "reads (atomic)", "writes (atomic)" };
    static const uint8_t against[] = { /* the kinds that it must not meet */
        1 << WRITE | 1 << ATOMIC_WRITE, 15, 1 << WRITE, 1 << READ | 1 << WRITE
    };
    for (int other = 0; other < 4 * fiber_count; other++) {
        int k = other % 4, f = other / 4;
        if ((against[kind] >> k & 1) && c->clock[k][f] > me->now.clock[f]) {
            fail("race at %p: %s %s in %s and %s %s in %s, and nothing orders the two",
                 (void *)c->word, fibers[f].name, did[k],
                 line_of((void *)(uintptr_t)c->where[k][f]), me->name, did[kind], line_of(here));
        }
    }
    c->clock[kind][me - fibers] = me->now.clock[me - fibers];
    c->where[kind][me - fibers] = (uint32_t)(uintptr_t)here;
}

static void plain(const void *address, size_t size, int writes, void *here) {
    const char *word = (const char *)((uintptr_t)address & ~(uintptr_t)3);
    const char *end = (const char *)address + size;
    if (!branching && size > 256) { return; } /* memory that is new */
    if (address == &errno || (word >= __start_hcq_thread && word < __stop_hcq_thread)) { return; }
    for (; fiber_count > 1 && word < end; word += 4) {
        cell *c = cell_of(word);
        for (int i = 0; c->place >= 0 && i < me->buffered; i++) {
            if (me->buffer[i].place == c->place) {
                drain(me); /* it sees its own store */
                i = -1;
            }
        }
        if (c->place >= 0 && writes) { places[c->place].rewritten = 1; }
        touch(c, writes ? WRITE : READ, here);
    }
}

/* ---- atomic accesses ------------------------------------------------------- */

/* Has the thread read the same since it did anything else? */
static int reads_again(int at) {
    for (int i = 0; i < me->seen_count; i++) {
        if (me->seen[i].place == at) { return me->seen[i].store == places[at].newest; }
    }
    return 0;
}

static void remember(int at) {
    int i = 0;
    while (i < me->seen_count && me->seen[i].place != at) { i++; }
    if (i == SEEN) { die("a loop reads too many places"); }
    if (i < me->seen_count) { me->again = 0; }
    me->seen_count += i == me->seen_count;
    me->seen[i].place = at;
    me->seen[i].store = me->now.view[at];
}

/* How many stores back is the oldest value that a load may give? */
static uint32_t older(int at, int order) {
    const place *p = &places[at];
    uint32_t first = me->now.view[at] > p->floor ? me->now.view[at] : p->floor;
    if (order == __ATOMIC_SEQ_CST && p->floor_sc > first) { first = p->floor_sc; }
    if (first + STORES <= p->newest) { first = p->newest - STORES + 1u; }
    return budget && branching && me->old_loads ? p->newest - first : 0;
}

static uint64_t load(const void *address, uint32_t size, int order) {
    if (fiber_count < 2) { return memory_at(address, size); }
    int at = place_of(address, size);
    if (reads_again(at) && me->again == 0) { /* goes on for a while, or waits */
        me->patient = !choose(2);
        me->state = me->patient ? RUNS : SPINS;
    }
    if (reads_again(at) && me->patient && me->again == AGAIN) { me->state = SPINS; }
    if (reads_again(at)) { me->again++; }
    if (me->state == SPINS || !me->patient || !reads_again(at)) { step(OP_LOAD, at, 0, 0); }
    if (reads_again(at)) { return newest_of(at)->value; }
    touch(cell_of(address), ATOMIC_READ, here());
    for (int i = me->buffered - 1; i >= 0; i--) {
        if (me->buffer[i].place == at) { return me->buffer[i].value; }
    }
    uint16_t back = (uint16_t)choose(older(at, order) + 1);
    const store *s = &places[at].stores[(places[at].newest - back) % STORES];
    if (back) {
        me->old_loads--;
        depart();
    }
    if (acquires(order)) { join(&me->now, &s->at); }
    if (me->now.view[at] + back < places[at].newest) {
        me->now.view[at] = (uint16_t)(places[at].newest - back);
    }
    remember(at);
    note(me, OP_LOAD, at, s->value, s->value, back ? "(old)" : "");
    return s->value;
}

static void put(void *address, uint32_t size, uint64_t value, int order) {
    if (fiber_count < 2) {
        memcpy(address, &value, size);
        return;
    }
    if (!branching && cell_of(address)->place < 0) { /* preparations: nobody waits for it */
        touch(cell_of(address), ATOMIC_WRITE, here());
        memcpy(address, &value, size);
        return;
    }
    int at = place_of(address, size), whole = order == __ATOMIC_SEQ_CST;
    step(OP_STORE, at, 1, whole || me->buffered == BUFFER);
    touch(cell_of(address), ATOMIC_WRITE, here());
    me->buffer[me->buffered++] = (store){ at, order, value, releases(order) ? me->now : never };
    me->now.clock[me - fibers]++;
    note(me, OP_STORE, at, value, value, "");
    if (!whole && budget && choose(2)) {
        depart();
    } else if (me->buffered == 1) {
        drain(me);
    }
    if (whole) { places[at].floor_sc = places[at].newest; }
}

/* Swap, add, or compare with `expected` and swap; returns the old value. */
static uint64_t change(op_kind kind, void *address, uint32_t size, uint64_t operand,
                       uint64_t expected, int order) {
    uint64_t old = memory_at(address, size), value;
    int at = NOWHERE;
    if (fiber_count > 1) {
        at = place_of(address, size);
        step(kind, at, 1, 1);
        old = newest_of(at)->value;
    }
    value = kind == OP_ADD ? old + operand : operand;
    value = size == 4 ? (uint32_t)value : value;
    value = kind == OP_CAS && old != expected ? old : value;
    if (at < 0) {
        memcpy(address, &value, size);
        return old;
    }
    moment both = newest_of(at)->at; /* who sees this sees what it replaces, too */
    if (acquires(order)) { join(&me->now, &both); }
    if (kind == OP_CAS && old != expected) {
        touch(cell_of(address), ATOMIC_READ, here());
        me->now.view[at] = places[at].newest;
        note(me, kind, at, old, old, "fails");
        return old;
    }
    touch(cell_of(address), ATOMIC_WRITE, here());
    if (releases(order)) { join(&both, &me->now); }
    me->now.clock[me - fibers]++;
    append(at, value, &both);
    me->now.view[at] = places[at].newest;
    if (order == __ATOMIC_SEQ_CST) { places[at].floor_sc = places[at].newest; }
    note(me, kind, at, old, value, "");
    return old;
}

/* ---- what the compiler calls ----------------------------------------------- */


#define CALLER __builtin_return_address(0)

#define TSAN_PLAIN(n)                                                     \
    void __tsan_read##n(void *p) { plain(p, n, 0, CALLER); }              \
    void __tsan_write##n(void *p) { plain(p, n, 1, CALLER); }
TSAN_PLAIN(1)
TSAN_PLAIN(2)
TSAN_PLAIN(4)
TSAN_PLAIN(8)
TSAN_PLAIN(16)

void __tsan_read_range(void *p, size_t size) { plain(p, size, 0, CALLER); }
void __tsan_write_range(void *p, size_t size) { plain(p, size, 1, CALLER); }
void __tsan_init(void) { }

void __tsan_func_entry(void *caller) {
    if (me->depth == CALLS) { die("calls are too deep"); }
    me->calls[me->depth++] = caller;
}

void __tsan_func_exit(void) { me->depth--; }

#define TSAN_ATOMIC(n, type)                                                              \
    type __tsan_atomic##n##_load(const type *p, int order) {                              \
        return (type)load(p, sizeof *p, order);                                           \
    }                                                                                     \
    void __tsan_atomic##n##_store(type *p, type v, int order) {                           \
        put(p, sizeof *p, v, order);                                                      \
    }                                                                                     \
    type __tsan_atomic##n##_exchange(type *p, type v, int order) {                        \
        return (type)change(OP_SWAP, p, sizeof *p, v, 0, order);                          \
    }                                                                                     \
    type __tsan_atomic##n##_fetch_add(type *p, type v, int order) {                       \
        return (type)change(OP_ADD, p, sizeof *p, v, 0, order);                           \
    }                                                                                     \
    int __tsan_atomic##n##_compare_exchange_strong(type *p, type *expected, type v,       \
                                                   int order, int failed) {               \
        type wanted = *expected;                                                          \
        *expected = (type)change(OP_CAS, p, sizeof *p, v, wanted, order);                 \
        return *expected == wanted;                                                       \
    }
TSAN_ATOMIC(32, uint32_t)
TSAN_ATOMIC(64, uint64_t)

void *schedule_memcpy(void *to, const void *from, size_t size) {
    plain(from, size, 0, CALLER);
    plain(to, size, 1, CALLER);
    return memcpy(to, from, size);
}

void *schedule_memset(void *to, int value, size_t size) {
    plain(to, size, 1, CALLER);
    return memset(to, value, size);
}
