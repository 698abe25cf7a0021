/* Explores every interleaving of a few tiny threads on a machine with store
   buffers, and every mutant of them.

       check [-v] FILE.model ...

   The library's lock-free protocols are written down as *.model files. The
   machine is x86's: each thread has a FIFO of stores that memory has not seen
   yet; a thread reads its own stores from there; swap, add, cas and wake wait
   until it is empty. That is also how C orders the library's atomics: loads
   and read-modify-writes are sequentially consistent, plain stores release.

   A model is right if no check fails, and if from every state that can be
   reached all threads can still end, with the final values. So a lost wake-up
   is a state from which nobody can wake the sleeper, also where others spin.
   Each mutant, one line of the model made wrong, must be found to fail:
   otherwise the model could not see what it is there for.

   File format, one item a line, # starts a comment:

       var NAME VALUE              shared memory, 0..255
       thread NAME                 its instructions follow, `label:` on lines of
                                   their own
       again NAME                  one more thread like that one
       final NAME VALUE            memory when all threads have ended
       mutant TITLE                followed by lines THREAD: OLD => NEW

       load R VAR                  R is r0 to r3; V is a number or a register
       store VAR V                 into the buffer
       swap R VAR V                R = the old value
       add R VAR V                 R = the old value
       cas R VAR OLD NEW           R = 1 if it was OLD and is NEW now, else 0
       sleep VAR V                 futex wait: sleeps if memory holds V; may
                                   return early
       wake VAR, wakeall VAR       one sleeper or all
       set R V, plus R V, and R V  a register
       if R == V LABEL             also != and <
       goto LABEL
       maybe LABEL                 goes there or on: a clock, a spin budget
       note VAR V                  ghost: adds to memory at once, no buffer
       expect VAR V                ghost: memory holds V at once, or it is wrong
       check R == V                or it is wrong; also != and <
       nop
       end
*/
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VARS = 16, MAX_THREADS = 5, MAX_LINES = 96, MAX_BUFFER = 3, MAX_REGS = 4 };
enum { MAX_TEXT = 80, MAX_EDITS = 4, MAX_MUTANTS = 24, MAX_LABELS = 24, NOBODY = 255 };

/* ---- the model as text ---------------------------------------------------- */

typedef struct {
    char name[24];
    char lines[MAX_LINES][MAX_TEXT];
    int count;
} thread_text;

typedef struct {
    char thread[24], old_line[MAX_TEXT], new_line[MAX_TEXT];
} edit;

typedef struct {
    char title[120];
    edit edits[MAX_EDITS];
    int count;
} mutant;

typedef struct {
    char vars[MAX_VARS][24];
    uint8_t initial[MAX_VARS];
    int final[MAX_VARS];               /* -1: any */
    int var_count;
    thread_text threads[MAX_THREADS];
    int thread_count;
    mutant mutants[MAX_MUTANTS];
    int mutant_count;
} model;

static const char *file_name;
static int line_number;

static void die(const char *what, const char *which) {
    fprintf(stderr, "%s:%d: %s: %s\n", file_name, line_number, what, which);
    exit(2);
}

static void put_text(char *out, size_t size, const char *text) {
    if (strlen(text) >= size) {
        die("too long", text);
    }
    strcpy(out, text);
}

/* Words with one space between them, without comment. */
static void tidy(char *out, size_t size, const char *line) {
    size_t n = 0;
    int gap = 0;
    for (; *line != 0 && *line != '#' && *line != '\n'; line++) {
        if (*line == ' ' || *line == '\t') {
            gap = n > 0;
            continue;
        }
        if (n + 2 >= size) {
            die("line too long", out);
        }
        if (gap) {
            out[n++] = ' ';
        }
        gap = 0;
        out[n++] = *line;
    }
    out[n] = 0;
}

static int find_var(const model *m, const char *name) {
    for (int i = 0; i < m->var_count; i++) {
        if (strcmp(m->vars[i], name) == 0) {
            return i;
        }
    }
    die("no such variable", name);
    return 0;
}

static void read_var(model *m, const char *name, int value, int is_final) {
    if (value < 0 || value > 255) {
        die("not a value", name);
    }
    if (is_final) {
        m->final[find_var(m, name)] = value;
        return;
    }
    if (m->var_count == MAX_VARS) {
        die("too many variables", name);
    }
    put_text(m->vars[m->var_count], sizeof m->vars[0], name);
    m->final[m->var_count] = -1;
    m->initial[m->var_count++] = (uint8_t)value;
}

static void read_thread(model *m, const char *name, int again) {
    thread_text *t = &m->threads[m->thread_count];
    if (m->thread_count == MAX_THREADS) {
        die("too many threads", name);
    }
    m->thread_count++;
    if (!again) {
        put_text(t->name, sizeof t->name, name);
        return;
    }
    for (int i = 0; i < m->thread_count - 1; i++) {
        if (strcmp(m->threads[i].name, name) == 0) {
            *t = m->threads[i];
            return;
        }
    }
    die("no such thread", name);
}

static void read_edit(model *m, const char *line) {
    mutant *change = &m->mutants[m->mutant_count - 1];
    const char *colon = strstr(line, ": ");
    const char *arrow = strstr(line, " => ");
    edit *e;
    if (colon == NULL || arrow == NULL || colon > arrow || change->count == MAX_EDITS) {
        die("not an edit THREAD: OLD => NEW", line);
        return;
    }
    e = &change->edits[change->count++];
    snprintf(e->thread, sizeof e->thread, "%.*s", (int)(colon - line), line);
    snprintf(e->old_line, sizeof e->old_line, "%.*s", (int)(arrow - colon - 2), colon + 2);
    put_text(e->new_line, sizeof e->new_line, arrow + 4);
}

/* Reads one tidy line; `section` is what the line belongs to: 't'hread or
   'm'utant. Gives the section of the next line. */
static int read_line(model *m, const char *line, int section) {
    char name[MAX_TEXT];
    int value;
    if (sscanf(line, "var %79s %d", name, &value) == 2) {
        read_var(m, name, value, 0);
        return 0;
    }
    if (sscanf(line, "final %79s %d", name, &value) == 2) {
        read_var(m, name, value, 1);
        return 0;
    }
    if (sscanf(line, "thread %79s", name) == 1) {
        read_thread(m, name, 0);
        return 't';
    }
    if (strncmp(line, "again ", 6) == 0 && sscanf(line, "again %79s", name) == 1) {
        read_thread(m, name, 1);
        return 0;
    }
    if (strncmp(line, "mutant ", 7) == 0) {
        if (m->mutant_count == MAX_MUTANTS) {
            die("too many mutants", line);
        }
        put_text(m->mutants[m->mutant_count++].title, sizeof m->mutants[0].title, line + 7);
        return 'm';
    }
    if (section == 'm') {
        read_edit(m, line);
    } else if (section == 't') {
        thread_text *t = &m->threads[m->thread_count - 1];
        if (t->count == MAX_LINES) {
            die("too many lines", line);
        }
        put_text(t->lines[t->count++], MAX_TEXT, line);
    } else {
        die("not understood", line);
    }
    return section;
}

static void read_model(model *m, const char *path) {
    char raw[256], line[200];
    int section = 0;
    FILE *file = fopen(path, "r");
    memset(m, 0, sizeof *m);
    file_name = path;
    line_number = 0;
    if (file == NULL) {
        die("cannot open", path);
        return;
    }
    while (fgets(raw, sizeof raw, file) != NULL) {
        line_number++;
        tidy(line, sizeof line, raw);
        if (line[0] != 0) {
            section = read_line(m, line, section);
        }
    }
    fclose(file);
}

/* Both of two edits that swap two lines see the lines as they were. */
static void apply(model *m, const model *original, const mutant *change) {
    for (int i = 0; i < change->count; i++) {
        const edit *e = &change->edits[i];
        int found = 0;
        for (int t = 0; t < m->thread_count; t++) {
            if (strcmp(m->threads[t].name, e->thread) != 0) {
                continue;
            }
            for (int l = 0; l < m->threads[t].count; l++) {
                if (strcmp(original->threads[t].lines[l], e->old_line) == 0) {
                    put_text(m->threads[t].lines[l], MAX_TEXT, e->new_line);
                    found++;
                }
            }
        }
        if (found == 0) {
            die("a mutant changes a line that is not there", e->old_line);
        }
    }
}

/* ---- the model as instructions -------------------------------------------- */

typedef enum {
    OP_LOAD, OP_STORE, OP_SWAP, OP_ADD, OP_CAS, OP_SLEEP, OP_WAKE, OP_WAKEALL,
    OP_SET, OP_PLUS, OP_AND, OP_IF, OP_GOTO, OP_MAYBE, OP_NOTE, OP_EXPECT, OP_CHECK, OP_NOP, OP_END
} opcode;

/* Operands in order: r register, v variable, n number or register, c compare,
   l label. */
static const struct { const char *name, *operands; } ops[] = {
    { "load", "rv" }, { "store", "vn" }, { "swap", "rvn" }, { "add", "rvn" },
    { "cas", "rvnn" }, { "sleep", "vn" }, { "wake", "v" }, { "wakeall", "v" },
    { "set", "rn" }, { "plus", "rn" }, { "and", "rn" }, { "if", "rcnl" }, { "goto", "l" },
    { "maybe", "l" }, { "note", "vn" }, { "expect", "vn" }, { "check", "rcn" }, { "nop", "" },
    { "end", "" }
};

typedef struct {
    opcode op;
    uint8_t reg, var, compare, label;
    int a, b;                          /* numbers; below 0: register -1-x */
    int line;                          /* of the thread's text */
} instruction;

typedef struct {
    instruction code[MAX_LINES + 1];
    uint8_t live[MAX_LINES + 1];       /* registers that are still read from here on */
    int count;
} program;

static int number_or_register(const char *word) {
    char *end;
    long value;
    if (word[0] == 'r' && word[1] >= '0' && word[1] < '0' + MAX_REGS && word[2] == 0) {
        return -1 - (word[1] - '0');
    }
    value = strtol(word, &end, 10);
    if (*end != 0 || end == word || value < 0 || value > 255) {
        die("neither number nor register", word);
    }
    return (int)value;
}

static uint8_t find_label(const thread_text *text, const char *name) {
    uint8_t at = 0;
    for (int i = 0; i < text->count; i++) {
        size_t n = strlen(text->lines[i]);
        if (text->lines[i][n - 1] != ':') {
            at++;
        } else if (strlen(name) == n - 1 && strncmp(text->lines[i], name, n - 1) == 0) {
            return at;
        }
    }
    die("no such label", name);
    return 0;
}

static uint8_t compare_of(const char *word) {
    if (strcmp(word, "==") != 0 && strcmp(word, "!=") != 0 && strcmp(word, "<") != 0) {
        die("not a comparison", word);
    }
    return (uint8_t)word[0];
}

static void operand(const model *m, const thread_text *text, instruction *in, char kind,
                    const char *word, int *numbers) {
    int value;
    switch (kind) {
    case 'r':
        value = number_or_register(word);
        if (value >= 0) {
            die("not a register", word);
        }
        in->reg = (uint8_t)(-1 - value);
        return;
    case 'v': in->var = (uint8_t)find_var(m, word); return;
    case 'c': in->compare = compare_of(word); return;
    case 'l': in->label = find_label(text, word); return;
    default: break;
    }
    value = number_or_register(word);
    if ((*numbers)++ == 0) {
        in->a = value;
    } else {
        in->b = value;
    }
}

static void assemble_line(const model *m, const thread_text *text, int line, instruction *in) {
    char words[6][MAX_TEXT];
    int numbers = 0;
    int count = sscanf(text->lines[line], "%79s %79s %79s %79s %79s %79s", words[0], words[1],
                       words[2], words[3], words[4], words[5]);
    memset(in, 0, sizeof *in);
    in->line = line;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(ops[i].name, words[0]) != 0) {
            continue;
        }
        if ((size_t)count - 1 != strlen(ops[i].operands)) {
            die("wrong number of operands", text->lines[line]);
        }
        in->op = (opcode)i;
        for (int w = 1; w < count; w++) {
            operand(m, text, in, ops[i].operands[w - 1], words[w], &numbers);
        }
        return;
    }
    die("no such instruction", text->lines[line]);
}

static uint8_t register_bit(int number) {
    return number < 0 ? (uint8_t)(1 << (-1 - number)) : 0;
}

static uint8_t live_before(const instruction *in, uint8_t after) {
    uint8_t own = (uint8_t)(1 << in->reg);
    switch (in->op) {
    case OP_LOAD: case OP_SWAP: case OP_ADD: case OP_CAS: case OP_SET:
        after = (uint8_t)(after & ~own);
        break;
    case OP_PLUS: case OP_AND: case OP_IF: case OP_CHECK:
        after = (uint8_t)(after | own);
        break;
    default:
        break;
    }
    return (uint8_t)(after | register_bit(in->a) | register_bit(in->b));
}

/* States that differ in dead registers only are one state. */
static void find_live(program *p) {
    int changed = 1;
    memset(p->live, 0, sizeof p->live);
    while (changed) {
        changed = 0;
        for (int i = p->count - 1; i >= 0; i--) {
            const instruction *in = &p->code[i];
            uint8_t after = 0, now;
            if (in->op == OP_IF || in->op == OP_GOTO || in->op == OP_MAYBE) {
                after = p->live[in->label];
            }
            if (in->op != OP_GOTO && in->op != OP_END) {
                after = (uint8_t)(after | p->live[i + 1]);
            }
            now = live_before(in, after);
            changed |= now != p->live[i];
            p->live[i] = now;
        }
    }
}

static void assemble(const model *m, const thread_text *text, program *p) {
    p->count = 0;
    for (int line = 0; line < text->count; line++) {
        if (text->lines[line][strlen(text->lines[line]) - 1] != ':') {
            assemble_line(m, text, line, &p->code[p->count++]);
        }
    }
    memset(&p->code[p->count], 0, sizeof p->code[0]);
    p->code[p->count].op = OP_END;
    p->code[p->count++].line = -1;
    find_live(p);
}

/* ---- states and steps ----------------------------------------------------- */

typedef struct {
    uint8_t pc, asleep, used;          /* asleep: the variable or NOBODY */
    uint8_t reg[MAX_REGS];
    struct { uint8_t var, value; } buffer[MAX_BUFFER];
} thread_state;

typedef struct {
    uint8_t memory[MAX_VARS];
    thread_state threads[MAX_THREADS];
} state;

typedef struct {
    uint32_t parent;
    uint8_t thread, pc, kind;          /* what led here: 'd'rain, 'e'arly, or 0 */
} origin;

typedef struct {
    const model *m;
    program programs[MAX_THREADS];
    state *states;
    origin *origins;
    uint32_t count, capacity;
    uint32_t *table, table_size;       /* hash table of index + 1 */
    uint32_t (*edges)[2];
    size_t edge_count, edge_capacity;
    uint32_t bad;                      /* a state that is wrong, or 0 */
    const char *why;
} search;

static void *grow(void *old, size_t bytes) {
    void *block = realloc(old, bytes);
    if (block == NULL) {
        fprintf(stderr, "out of memory: the model is too large\n");
        exit(2);
    }
    return block;
}

static void *zeroed(size_t bytes) {
    return memset(grow(NULL, bytes), 0, bytes);
}

static uint32_t hash_of(const state *s) {
    const uint8_t *bytes = (const uint8_t *)s;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *s; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return hash ^ hash >> 15;
}

static void rehash(search *s) {
    s->table_size = s->table_size == 0 ? 4096 : s->table_size * 2;
    free(s->table);
    s->table = (uint32_t *)zeroed(s->table_size * sizeof *s->table);
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t at = hash_of(&s->states[i]) & (s->table_size - 1);
        while (s->table[at] != 0) {
            at = (at + 1) & (s->table_size - 1);
        }
        s->table[at] = i + 1;
    }
}

/* The index of a state, new or known. */
static uint32_t intern(search *s, const state *found, origin from) {
    uint32_t at;
    if (s->count * 2 >= s->table_size) {
        rehash(s);
    }
    at = hash_of(found) & (s->table_size - 1);
    while (s->table[at] != 0) {
        uint32_t index = s->table[at] - 1;
        if (memcmp(&s->states[index], found, sizeof *found) == 0) {
            return index;
        }
        at = (at + 1) & (s->table_size - 1);
    }
    if (s->count == s->capacity) {
        s->capacity = s->capacity == 0 ? 4096 : s->capacity * 2;
        s->states = (state *)grow(s->states, s->capacity * sizeof *s->states);
        s->origins = (origin *)grow(s->origins, s->capacity * sizeof *s->origins);
    }
    s->table[at] = s->count + 1;
    s->states[s->count] = *found;
    s->origins[s->count] = from;
    return s->count++;
}

static uint8_t value_of(const thread_state *t, int number) {
    return number < 0 ? t->reg[-1 - number] : (uint8_t)number;
}

static int compares(const thread_state *t, const instruction *in) {
    uint8_t left = t->reg[in->reg], right = value_of(t, in->a);
    switch (in->compare) {
    case '=': return left == right;
    case '!': return left != right;
    default: return left < right;
    }
}

static int is_local(opcode op) {
    return op == OP_SET || op == OP_PLUS || op == OP_AND || op == OP_IF || op == OP_GOTO ||
           op == OP_CHECK || op == OP_NOP || op == OP_NOTE || op == OP_EXPECT;
}

/* Runs what nobody else can see or disturb at once; gives an error or NULL.
   Ghosts are part of the step before them. */
static const char *run_local(const search *s, state *now, int who) {
    thread_state *t = &now->threads[who];
    if (t->asleep != NOBODY) {
        return NULL;
    }
    for (int steps = 0; steps < 200; steps++) {
        const instruction *in = &s->programs[who].code[t->pc];
        if (!is_local(in->op)) {
            return NULL;
        }
        t->pc++;
        switch (in->op) {
        case OP_SET: t->reg[in->reg] = value_of(t, in->a); break;
        case OP_PLUS: t->reg[in->reg] = (uint8_t)(t->reg[in->reg] + value_of(t, in->a)); break;
        case OP_AND: t->reg[in->reg] &= value_of(t, in->a); break;
        case OP_IF: t->pc = compares(t, in) ? in->label : t->pc; break;
        case OP_GOTO: t->pc = in->label; break;
        case OP_NOTE:
            now->memory[in->var] = (uint8_t)(now->memory[in->var] + value_of(t, in->a));
            break;
        case OP_EXPECT:
            if (now->memory[in->var] != value_of(t, in->a)) {
                return "an expect does not hold";
            }
            break;
        case OP_CHECK:
            if (!compares(t, in)) {
                return "a check does not hold";
            }
            break;
        default: break;
        }
    }
    return "a thread loops without touching memory";
}

static void reach(search *s, uint32_t from, state *next, int who, uint8_t pc, uint8_t kind) {
    origin how;
    const char *why = run_local(s, next, who);
    thread_state *t = &next->threads[who];
    uint32_t to;
    for (int r = 0; r < MAX_REGS; r++) {
        if ((s->programs[who].live[t->pc] >> r & 1) == 0) {
            t->reg[r] = 0;
        }
    }
    how.parent = from;
    how.thread = (uint8_t)who;
    how.pc = pc;
    how.kind = kind;
    to = intern(s, next, how);
    if (why != NULL && s->bad == 0) {
        s->bad = to;
        s->why = why;
    }
    if (s->edge_count == s->edge_capacity) {
        s->edge_capacity = s->edge_capacity == 0 ? 4096 : s->edge_capacity * 2;
        s->edges = (uint32_t (*)[2])grow(s->edges, s->edge_capacity * sizeof *s->edges);
    }
    s->edges[s->edge_count][0] = from;
    s->edges[s->edge_count++][1] = to;
}

static uint8_t load(const state *now, int who, uint8_t var) {
    const thread_state *t = &now->threads[who];
    for (int i = t->used - 1; i >= 0; i--) {
        if (t->buffer[i].var == var) {
            return t->buffer[i].value;
        }
    }
    return now->memory[var];
}

static void drain(search *s, uint32_t from, int who) {
    state next = s->states[from];
    thread_state *t = &next.threads[who];
    next.memory[t->buffer[0].var] = t->buffer[0].value;
    t->used--;
    memmove(&t->buffer[0], &t->buffer[1], sizeof t->buffer[0] * t->used);
    memset(&t->buffer[t->used], 0, sizeof t->buffer[0]);
    reach(s, from, &next, who, t->pc, 'd');
}

static void step_wake(search *s, uint32_t from, int who, const instruction *in) {
    state now = s->states[from];
    uint8_t pc = now.threads[who].pc++;
    int sleepers = 0;
    for (int t = 0; t < s->m->thread_count; t++) {
        state next = now;
        if (now.threads[t].asleep != in->var) {
            continue;
        }
        sleepers++;
        next.threads[t].asleep = NOBODY;
        if (in->op == OP_WAKEALL) {
            now = next;
        } else {
            reach(s, from, &next, who, pc, 0);
        }
    }
    if (sleepers == 0 || in->op == OP_WAKEALL) {
        reach(s, from, &now, who, pc, 0);
    }
}

static void step_sleep(search *s, uint32_t from, int who, const instruction *in) {
    state next = s->states[from];
    uint8_t pc = next.threads[who].pc++;
    int equal = next.memory[in->var] == value_of(&next.threads[who], in->a);
    reach(s, from, &next, who, pc, equal ? 'e' : 0);
    if (equal) {
        next = s->states[from];
        next.threads[who].asleep = in->var;
        reach(s, from, &next, who, pc, 0);
    }
}

static void read_modify_write(state *next, int who, const instruction *in) {
    thread_state *t = &next->threads[who];
    uint8_t old = next->memory[in->var];
    switch (in->op) {
    case OP_SWAP:
        next->memory[in->var] = value_of(t, in->a);
        t->reg[in->reg] = old;
        break;
    case OP_ADD:
        next->memory[in->var] = (uint8_t)(old + value_of(t, in->a));
        t->reg[in->reg] = old;
        break;
    default:
        if (old == value_of(t, in->a)) {
            next->memory[in->var] = value_of(t, in->b);
        }
        t->reg[in->reg] = old == value_of(t, in->a);
        break;
    }
}

static void step(search *s, uint32_t from, int who) {
    state next = s->states[from];
    thread_state *t = &next.threads[who];
    uint8_t pc = t->pc;
    const instruction *in = &s->programs[who].code[pc];
    if (is_local(in->op)) { /* the first after a wake */
        reach(s, from, &next, who, pc, 0);
        return;
    }
    switch (in->op) {
    case OP_LOAD: t->reg[in->reg] = load(&next, who, in->var); break;
    case OP_STORE:
        if (t->used == MAX_BUFFER) {
            return; /* once it has drained */
        }
        t->buffer[t->used].var = in->var;
        t->buffer[t->used++].value = value_of(t, in->a);
        break;
    case OP_SLEEP: step_sleep(s, from, who, in); return;
    case OP_MAYBE:
        t->pc++;
        reach(s, from, &next, who, pc, 0);
        next = s->states[from];
        t->pc = in->label;
        reach(s, from, &next, who, pc, 0);
        return;
    case OP_END: return;
    default:
        if (t->used != 0) {
            return;
        }
        if (in->op == OP_WAKE || in->op == OP_WAKEALL) {
            step_wake(s, from, who, in);
            return;
        }
        read_modify_write(&next, who, in);
        break;
    }
    t->pc++;
    reach(s, from, &next, who, pc, 0);
}

/* ---- verdicts ------------------------------------------------------------- */

static int all_ended(const search *s, const state *now) {
    for (int t = 0; t < s->m->thread_count; t++) {
        if (s->programs[t].code[now->threads[t].pc].op != OP_END || now->threads[t].used != 0) {
            return 0;
        }
    }
    return 1;
}

static int final_values(const search *s, const state *now) {
    for (int v = 0; v < s->m->var_count; v++) {
        if (s->m->final[v] >= 0 && now->memory[v] != s->m->final[v]) {
            return 0;
        }
    }
    return 1;
}

/* Walks the edges backwards from the ends: marks all states that can end. */
static void mark_live(const search *s, uint8_t *live) {
    uint32_t *first = (uint32_t *)zeroed(((size_t)s->count + 1) * sizeof *first);
    uint32_t *from = (uint32_t *)grow(NULL, (s->edge_count + 1) * sizeof *from);
    uint32_t *todo = (uint32_t *)grow(NULL, ((size_t)s->count + 1) * sizeof *todo);
    uint32_t count = 0;
    for (size_t e = 0; e < s->edge_count; e++) {
        first[s->edges[e][1]]++;
    }
    for (uint32_t i = 0, sum = 0; i <= s->count; i++) {
        sum += i < s->count ? first[i] : 0;
        first[i] = sum;
    }
    for (size_t e = 0; e < s->edge_count; e++) {
        from[--first[s->edges[e][1]]] = s->edges[e][0];
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (all_ended(s, &s->states[i])) {
            live[i] = 1;
            todo[count++] = i;
        }
    }
    while (count > 0) {
        uint32_t at = todo[--count];
        for (uint32_t e = first[at]; e < first[at + 1]; e++) {
            if (!live[from[e]]) {
                live[from[e]] = 1;
                todo[count++] = from[e];
            }
        }
    }
    free(first);
    free(from);
    free(todo);
}

static void judge(search *s) {
    uint8_t *live;
    if (s->bad != 0) {
        return;
    }
    live = (uint8_t *)zeroed(s->count);
    mark_live(s, live);
    for (uint32_t i = 0; i < s->count && s->bad == 0; i++) {
        if (!live[i]) {
            s->bad = i;
            s->why = "from here the threads cannot all end";
        } else if (all_ended(s, &s->states[i]) && !final_values(s, &s->states[i])) {
            s->bad = i;
            s->why = "the final values are wrong";
        }
    }
    free(live);
}

static void explore(search *s, const model *m) {
    state first;
    origin nowhere = { 0, 0, 0, 0 };
    memset(s, 0, sizeof *s);
    memset(&first, 0, sizeof first);
    s->m = m;
    memcpy(first.memory, m->initial, sizeof first.memory);
    for (int t = 0; t < m->thread_count; t++) {
        assemble(m, &m->threads[t], &s->programs[t]);
        first.threads[t].asleep = NOBODY;
    }
    for (int t = 0; t < m->thread_count; t++) {
        if (run_local(s, &first, t) != NULL) {
            die("wrong before it began", m->threads[t].name);
        }
    }
    intern(s, &first, nowhere);
    for (uint32_t i = 0; i < s->count && s->bad == 0; i++) {
        for (int t = 0; t < m->thread_count; t++) {
            if (s->states[i].threads[t].used > 0) {
                drain(s, i, t);
            }
            if (s->states[i].threads[t].asleep == NOBODY) {
                step(s, i, t);
            }
        }
    }
    judge(s);
}

static void discard(search *s) {
    free(s->states);
    free(s->origins);
    free(s->table);
    free(s->edges);
}

/* The shortest way to the bad state. */
static void print_trace(const search *s) {
    uint32_t path[512];
    int count = 0;
    for (uint32_t at = s->bad; at != 0 && count < 512; at = s->origins[at].parent) {
        path[count++] = at;
    }
    while (count-- > 0) {
        const origin *how = &s->origins[path[count]];
        const state *now = &s->states[path[count]];
        const thread_text *text = &s->m->threads[how->thread];
        int line = s->programs[how->thread].code[how->pc].line;
        const char *what = how->kind == 'd' ? "(a store reaches memory)" :
                           line < 0 ? "end" : text->lines[line];
        printf("    %-12s %-28s", text->name, what);
        for (int v = 0; v < s->m->var_count; v++) {
            printf(" %s=%d", s->m->vars[v], now->memory[v]);
        }
        printf("%s%s\n", how->kind == 'e' ? " (early)" : "",
               now->threads[how->thread].asleep != NOBODY ? " (asleep)" : "");
    }
    printf("    %s\n", s->why);
}

/* Checks one model and all its mutants; gives the number of failures. */
static int check_model(const char *path, int verbose) {
    static model m, changed;
    static search s;
    int failures = 0;
    read_model(&m, path);
    explore(&s, &m);
    printf("%s: %lu states: %s\n", path, (unsigned long)s.count, s.bad == 0 ? "right" : "WRONG");
    if (s.bad != 0) {
        print_trace(&s);
        failures++;
    }
    discard(&s);
    if (m.mutant_count == 0) {
        printf("  no mutants: nothing shows that it could fail\n");
        failures++;
    }
    for (int i = 0; i < m.mutant_count; i++) {
        changed = m;
        apply(&changed, &m, &m.mutants[i]);
        explore(&s, &changed);
        printf("  %s %s (%s)\n", s.bad != 0 ? "caught:" : "NOT CAUGHT:", m.mutants[i].title,
               s.bad != 0 ? s.why : "passes like the original");
        if (s.bad != 0 && verbose) {
            print_trace(&s);
        }
        failures += s.bad == 0;
        discard(&s);
    }
    return failures;
}

int main(int argc, char **argv) {
    int failures = 0, verbose = 0, count = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            verbose = 1;
            continue;
        }
        count++;
        failures += check_model(argv[i], verbose);
    }
    if (count == 0) {
        fprintf(stderr, "usage: check [-v] FILE.model ...\n");
        return 2;
    }
    printf("%d models, %d failures\n", count, failures);
    return failures != 0;
}
