/* words.c - a small transformer learns to spell from a text, and then writes some.

       cc -O3 examples/words.c -o words -pthread -lm
       ./words [--steps N] [--seed N] [--letters N] [TEXT [DEVICE [PAGE.html]]]

   Letters stand in a stream of rows. Each layer adds to a row what it hears of those
   before it in its sequence (attention), and what it makes of that (ReLU); of what comes
   out at the end the next letter is guessed. The text is README.md where none is given;
   a step of the training is a batch of sequences from anywhere in it, and Adam.

   A step is one launch of a graph: forward, backward, and a change of all weights. It is
   recorded and bound once. A launch brings where its sequences begin and the place for its
   losses, as views of larger buffers, and the learning rate; nothing is copied in, and the
   losses out every SHOWN steps. A second graph with the same weights writes: a launch
   reads a window of letters and puts the next one behind it. That is in the next launch's
   window, so the host waits for none of them.

   No sum is made in an order of chance: a seed gives the same text each time, on one device.
   The result is wrong if the loss falls too little. The last steps are profiled and
   written as a page. -DHCQ_VULKAN adds the device VULKAN, -DHCQ_CUDA the device CUDA;
   with -DHCQ_CHECK the order of all commands is checked. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "words.k"
#include "words.k.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = 2, BATCH = 8,             /* sequences of a step */
    ROWS = BATCH * CONTEXT, HIDDEN = 4 * WIDTH, WINDOW = CONTEXT + 1,
    STEPS = 1000, SHOWN = 50,          /* every so many steps a line */
    MOST = 100000,                     /* steps, and letters that are written */
    TRACED = 4,                        /* of the last steps, profiled */
    TEXT = 1 << 20                     /* letters that are read, at most */
};
enum { INPUT_STARTS, INPUT_LOSSES, VAR_RATE, STEP_VALUES };
enum { INPUT_WINDOW, VAR_DICE, WRITE_VALUES };
enum {                                 /* in the order of make_programs */
    RUN_MULTIPLY, RUN_MARK, RUN_NORM, RUN_NORM_BACK, RUN_ATTEND, RUN_QUERY_BACK, RUN_KEY_BACK,
    RUN_LOSS, RUN_PICK, RUN_ADAM, PROGRAMS
};
enum {
    PART_RATE = HCQ_PART_ARG + offsetof(adam_args, rate),
    PART_DICE = HCQ_PART_ARG + offsetof(pick_args, dice)
};

static const float top_rate = 8e-3f;
static const double enough = 0.6;      /* of the first loss */

static int complain(const char *subject, const char *format, ...) {
    va_list list;
    fprintf(stderr, "words: %s: ", subject);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return 0;
}

static int ok(hcq_result result, const char *doing) {
    return result == HCQ_OK || complain(doing, "%s", hcq_result_text(result));
}

/* ---- the text and chance ------------------------------------------------- */

/* A letter is a new line or what ASCII prints; anything else is one of those. */
static uint32_t letter_of(int c) {
    return c == '\n' ? 0 : c == '\t' ? ' ' - 31 : c > 31 && c < 127 ? (uint32_t)c - 31 : '?' - 31;
}

static char char_of(uint32_t letter) {
    return (char)(letter == 0 ? '\n' : letter + 31);
}

/* Bytes that go on with a letter of UTF-8 are not letters. */
static uint32_t read_letters(FILE *file, uint32_t *letters) {
    uint32_t count = 0;
    for (int c; count < TEXT && (c = getc(file)) != EOF;) {
        if (c != '\r' && (c & 0xc0) != 0x80) {
            letters[count++] = letter_of(c);
        }
    }
    return count;
}

static int read_text(const char *path, uint32_t *letters, uint32_t *count) {
    int good;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return complain(path, "%s", strerror(errno));
    }
    *count = read_letters(file, letters);
    good = !ferror(file) || complain(path, "%s", strerror(errno));
    fclose(file);
    return good && (*count > CONTEXT ||
                    complain(path, "%u letters, more than %u are needed", *count, CONTEXT));
}

static uint32_t random_state;

static uint32_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* From 0 to below 1. */
static float random_float(void) {
    return (float)(random_number() >> 8) / (1 << 24);
}

/* ---- matrices and the model ---------------------------------------------- */

typedef struct matrix {
    hcq_buffer at;
    uint32_t rows, columns, down, right; /* numbers to the next row, and column */
} matrix;

static uint32_t size_of(matrix m) {
    return m.rows * m.columns;
}

static matrix transposed(matrix m) {
    matrix t = { m.at, m.columns, m.rows, m.right, m.down };
    return t;
}

/* All that is learnt; and, once more, the loss's gradient for each number of it. */
typedef struct model {
    hcq_buffer all;
    matrix table, guess;               /* letters to numbers, numbers to guesses */
    struct { matrix ask, mix, up, down; } layer[LAYERS];
} model;

/* The next `rows` x `columns` numbers of a buffer that is cut up from its beginning. */
static matrix cut(hcq_buffer all, uint64_t *used, uint32_t rows, uint32_t columns) {
    uint64_t bytes = (uint64_t)rows * columns * sizeof(float);
    matrix m = { hcq_view(all, *used, bytes), rows, columns, columns, 1 };
    *used += bytes;
    return m;
}

/* Returns how many bytes the model takes, without a buffer, too. */
static uint64_t cut_model(model *m) {
    uint64_t used = 0;
    m->table = cut(m->all, &used, LETTERS, WIDTH);
    m->guess = cut(m->all, &used, WIDTH, LETTERS);
    for (int i = 0; i < LAYERS; i++) {
        m->layer[i].ask = cut(m->all, &used, WIDTH, TRIPLE);
        m->layer[i].mix = cut(m->all, &used, WIDTH, WIDTH);
        m->layer[i].up = cut(m->all, &used, WIDTH, HIDDEN);
        m->layer[i].down = cut(m->all, &used, HIDDEN, WIDTH);
    }
    return used;
}

typedef struct network {
    hcq_device *dev;
    hcq_program *program[PROGRAMS];
    model weights, slopes;
    hcq_buffer means, squares;         /* Adam's */
    hcq_buffer text, starts, losses;   /* to learn; where sequences begin; SHOWN steps' losses */
    hcq_buffer written, zero;          /* what is written; where its windows' sequences begin */
    hcq_queue *step, *write;           /* the graphs */
} network;

/* ---- a pass through the network ------------------------------------------ */

typedef struct normed { matrix y, scales; } normed;

/* A graph that is recorded, and what is computed in it that the way back needs. */
typedef struct pass {
    network *n;
    hcq_queue *graph;
    uint32_t rows;
    hcq_buffer text, starts;
    matrix marks, x, guesses;          /* x: the stream */
    struct { normed in, mid; matrix qkv, shares, heard, hidden; } layer[LAYERS];
    normed out;
} pass;

static int start_pass(network *n, uint32_t rows, const char *label, hcq_queue **graph, pass *p) {
    memset(p, 0, sizeof *p);
    p->n = n;
    p->rows = rows;
    if (!ok(hcq_graph_create(n->dev, graph), label)) {
        return 0;
    }
    p->graph = *graph;
    return ok(hcq_queue_label(p->graph, label), label);
}

/* Memory of the graph. */
static matrix fresh(pass *p, uint32_t columns) {
    matrix m = { { 0, 0, NULL, NULL, 0 }, p->rows, columns, columns, 1 };
    hcq_graph_alloc(p->graph, p->n->dev, size_of(m) * sizeof(float), 0, &m.at);
    return m;
}

/* Records a kernel for `x` * `y` threads. Nobody looks at errors: the first one stays with
   the graph, and binding it returns it. */
static int32_t run(pass *p, int which, const char *label, const void *args, size_t size,
                   uint32_t x, uint32_t y, uint32_t block) {
    int32_t index = hcq_queue_exec(p->graph, p->n->program[which], args, size,
                                   hcq_dim((x + block - 1) / block, y, 1), hcq_dim(block, 1, 1));
    hcq_queue_command_label(p->graph, index, label);
    return index;
}

/* c = a * b, or as `how` says. The graph is told where c ends: an argument reaches to the
   end of its buffer, and so all gradients of weights would be written one after another. */
static void multiply(pass *p, const char *label, matrix c, matrix a, matrix b, uint32_t how) {
    multiply_args args = { c.at.address, a.at.address, b.at.address, c.columns, a.columns,
                           a.down, a.right, b.down, b.right, how };
    int32_t index = hcq_queue_exec(p->graph, p->n->program[RUN_MULTIPLY], &args, sizeof args,
                                   hcq_dim(c.columns / TILE, c.rows / TILE, 1),
                                   hcq_dim(0, 0, 0));
    hcq_queue_command_label(p->graph, index, label);
    hcq_queue_access(p->graph, index, c.at,
                     how == ADD || how == GATE ? HCQ_ARG_INOUT : HCQ_ARG_OUT);
}

/* Of c = a * b: the gradients of b and of a from that of c. With GATE d_a takes a's place. */
static void multiply_back(pass *p, matrix d_a, matrix d_b, matrix d_c, matrix a, matrix b,
                          uint32_t how) {
    multiply(p, "back to weights", d_b, transposed(a), d_c, STORE);
    multiply(p, "back to rows", d_a, d_c, transposed(b), how);
}

static normed norm(pass *p, matrix x) {
    normed to = { fresh(p, WIDTH), fresh(p, 1) };
    norm_args args = { to.y.at.address, to.scales.at.address, x.at.address, p->rows };
    run(p, RUN_NORM, "norm", &args, sizeof args, p->rows, 1, 32);
    return to;
}

static void norm_back(pass *p, matrix d_x, matrix d_y, normed to, uint32_t how) {
    norm_back_args args = { d_x.at.address, d_y.at.address, to.y.at.address,
                            to.scales.at.address, p->rows, how };
    run(p, RUN_NORM_BACK, "norm back", &args, sizeof args, p->rows, 1, 32);
}

static void attend(pass *p, matrix heard, matrix shares, matrix qkv) {
    attend_args args = { heard.at.address, shares.at.address, qkv.at.address, p->rows };
    run(p, RUN_ATTEND, "attend", &args, sizeof args, p->rows, HEADS, 16);
}

static void attend_back(pass *p, matrix d_qkv, matrix d_heard, matrix shares, matrix qkv) {
    matrix d_match = fresh(p, HEADS * CONTEXT);
    query_back_args query = { d_qkv.at.address, d_match.at.address, d_heard.at.address,
                              shares.at.address, qkv.at.address, p->rows };
    key_back_args key = { d_qkv.at.address, d_match.at.address, d_heard.at.address,
                          shares.at.address, qkv.at.address, p->rows };
    run(p, RUN_QUERY_BACK, "query back", &query, sizeof query, p->rows, HEADS, 16);
    run(p, RUN_KEY_BACK, "key back", &key, sizeof key, p->rows, HEADS, 16);
}

/* A layer adds to the stream what each row hears of others, and what it makes of that. */
static void layer(pass *p, int i) {
    p->layer[i].in = norm(p, p->x);
    p->layer[i].qkv = fresh(p, TRIPLE);
    p->layer[i].shares = fresh(p, HEADS * CONTEXT);
    p->layer[i].heard = fresh(p, WIDTH);
    multiply(p, "ask", p->layer[i].qkv, p->layer[i].in.y, p->n->weights.layer[i].ask, STORE);
    attend(p, p->layer[i].heard, p->layer[i].shares, p->layer[i].qkv);
    multiply(p, "mix", p->x, p->layer[i].heard, p->n->weights.layer[i].mix, ADD);

    p->layer[i].mid = norm(p, p->x);
    p->layer[i].hidden = fresh(p, HIDDEN);
    multiply(p, "up", p->layer[i].hidden, p->layer[i].mid.y, p->n->weights.layer[i].up, RELU);
    multiply(p, "down", p->x, p->layer[i].hidden, p->n->weights.layer[i].down, ADD);
}

/* The same backwards: to d_x, the gradient of what the layer made of the stream, comes that
   of what it took from it. */
static void layer_back(pass *p, int i, matrix d_x) {
    matrix d_mid = fresh(p, WIDTH), d_heard = fresh(p, WIDTH), d_qkv = fresh(p, TRIPLE);
    matrix d_in = fresh(p, WIDTH), hidden = p->layer[i].hidden;
    model *w = &p->n->weights, *d = &p->n->slopes;
    multiply_back(p, hidden, d->layer[i].down, d_x, hidden, w->layer[i].down, GATE);
    multiply_back(p, d_mid, d->layer[i].up, hidden, p->layer[i].mid.y, w->layer[i].up, STORE);
    norm_back(p, d_x, d_mid, p->layer[i].mid, ADD);

    multiply_back(p, d_heard, d->layer[i].mix, d_x, p->layer[i].heard, w->layer[i].mix, STORE);
    attend_back(p, d_qkv, d_heard, p->layer[i].shares, p->layer[i].qkv);
    multiply_back(p, d_in, d->layer[i].ask, d_qkv, p->layer[i].in.y, w->layer[i].ask, STORE);
    norm_back(p, d_x, d_in, p->layer[i].in, ADD);
}

/* From letters to guesses. */
static void forward(pass *p) {
    p->marks = fresh(p, LETTERS);
    p->x = fresh(p, WIDTH);
    p->guesses = fresh(p, LETTERS);
    mark_args args = { p->marks.at.address, p->text.address, p->starts.address, p->rows };
    run(p, RUN_MARK, "mark", &args, sizeof args, LETTERS, p->rows, 32);
    multiply(p, "look up", p->x, p->marks, p->n->weights.table, STORE);
    for (int i = 0; i < LAYERS; i++) {
        layer(p, i);
    }
    p->out = norm(p, p->x);
    multiply(p, "guess", p->guesses, p->out.y, p->n->weights.guess, STORE);
}

/* From the guesses' gradients, which have taken their place, to those of all weights. */
static void backward(pass *p) {
    matrix d_x = fresh(p, WIDTH), d_out = fresh(p, WIDTH);
    multiply_back(p, d_out, p->n->slopes.guess, p->guesses, p->out.y, p->n->weights.guess,
                  STORE);
    norm_back(p, d_x, d_out, p->out, STORE);
    for (int i = LAYERS - 1; i >= 0; i--) {
        layer_back(p, i, d_x);
    }
    multiply(p, "back to weights", p->n->slopes.table, transposed(p->marks), d_x, STORE);
}

/* ---- the graphs ---------------------------------------------------------- */

/* Adam, as the last command. Its rate comes with each launch. */
static void record_learning(pass *p) {
    uint32_t count = (uint32_t)(p->n->means.size / sizeof(float));
    adam_args args = { p->n->weights.all.address, p->n->means.address, p->n->squares.address,
                       p->n->slopes.all.address, count, 0 };
    int32_t index = run(p, RUN_ADAM, "adam", &args, sizeof args, count, 1, 256);
    hcq_queue_variable(p->graph, index, PART_RATE, VAR_RATE, 0);
}

static int record_step(network *n) {
    pass p;
    if (!start_pass(n, ROWS, "step", &n->step, &p)) {
        return 0;
    }
    p.text = n->text;
    p.starts = hcq_graph_input(p.graph, INPUT_STARTS, n->dev, BATCH * sizeof(uint32_t));
    hcq_buffer losses = hcq_graph_input(p.graph, INPUT_LOSSES, n->dev, ROWS * sizeof(float));
    forward(&p);
    loss_args args = { losses.address, p.guesses.at.address, p.text.address, p.starts.address,
                       ROWS };
    run(&p, RUN_LOSS, "loss", &args, sizeof args, ROWS, 1, 32);
    backward(&p);
    record_learning(&p);
    return ok(hcq_queue_bind(p.graph, n->dev), "graph of a step");
}

static int record_write(network *n) {
    pass p;
    if (!start_pass(n, CONTEXT, "write", &n->write, &p)) {
        return 0;
    }
    p.text = hcq_graph_input(p.graph, INPUT_WINDOW, n->dev, WINDOW * sizeof(uint32_t));
    p.starts = n->zero;
    forward(&p);
    pick_args args = { p.text.address, p.starts.address, p.guesses.at.address, 0, 1 };
    int32_t index = run(&p, RUN_PICK, "pick", &args, sizeof args, 1, 1, 1);
    hcq_queue_variable(p.graph, index, PART_DICE, VAR_DICE, 0);
    return ok(hcq_queue_bind(p.graph, n->dev), "graph that writes");
}

/* ---- making it ----------------------------------------------------------- */

static int make_programs(network *n) {
    const hcq_program_desc list[PROGRAMS] = {
        HCQ_PROGRAM(multiply), HCQ_PROGRAM(mark), HCQ_PROGRAM(norm), HCQ_PROGRAM(norm_back),
        HCQ_PROGRAM(attend), HCQ_PROGRAM(query_back), HCQ_PROGRAM(key_back), HCQ_PROGRAM(loss),
        HCQ_PROGRAM(pick), HCQ_PROGRAM(adam)
    };
    int good = 1;
    for (int i = 0; good && i < PROGRAMS; i++) {
        good = ok(hcq_program_create(n->dev, &list[i], &n->program[i]), list[i].label);
    }
    return good;
}

static int make_buffer(network *n, uint64_t bytes, hcq_buffer *buffer) {
    return ok(hcq_alloc(n->dev, bytes, HCQ_ZEROED, buffer), "memory");
}

/* A buffer with these numbers in it. */
static int make_list(network *n, const uint32_t *numbers, uint32_t count, hcq_buffer *buffer) {
    return make_buffer(n, count * sizeof *numbers, buffer) &&
           ok(hcq_copyin(*buffer, numbers, count * sizeof *numbers), "numbers");
}

static int make_model(network *n, model *m) {
    return make_buffer(n, cut_model(m), &m->all) && cut_model(m) != 0;
}

static int make_buffers(network *n) {
    return make_model(n, &n->weights) && make_model(n, &n->slopes) &&
           make_buffer(n, n->weights.all.size, &n->means) &&
           make_buffer(n, n->weights.all.size, &n->squares) &&
           make_buffer(n, SHOWN * ROWS * sizeof(float), &n->losses) &&
           make_buffer(n, (CONTEXT + MOST) * sizeof(uint32_t), &n->written) &&
           make_buffer(n, sizeof(uint32_t), &n->zero);
}

/* Where the sequences of all steps begin. */
static int make_starts(network *n, uint32_t steps, uint32_t letters) {
    uint32_t count = steps * BATCH;
    uint32_t *starts = (uint32_t *)malloc(count * sizeof *starts);
    int good = starts != NULL || complain("starts", "out of memory");
    for (uint32_t i = 0; good && i < count; i++) {
        starts[i] = random_number() % (letters - CONTEXT);
    }
    good = good && make_list(n, starts, count, &n->starts);
    free(starts);
    return good;
}

/* Gives all weights of a matrix a random value of this size, on the whole. */
static int start_matrix(matrix m, float size) {
    static float weights[HIDDEN * WIDTH];
    for (uint32_t i = 0; i < size_of(m); i++) {
        weights[i] = size * sqrtf(3) * (2 * random_float() - 1);
    }
    return ok(hcq_copyin(m.at, weights, m.at.size), "weights");
}

/* Sums of many rows stay as large as one of them; what is added to the stream, and the
   first guesses, are small. */
static int start_weights(model *m) {
    float usual = 1 / sqrtf(WIDTH);
    int good = start_matrix(m->table, 0.5f) && start_matrix(m->guess, usual / 4);
    for (int i = 0; i < LAYERS; i++) {
        good = good && start_matrix(m->layer[i].ask, usual) &&
               start_matrix(m->layer[i].mix, usual / 2) &&
               start_matrix(m->layer[i].up, usual) &&
               start_matrix(m->layer[i].down, usual / 4);
    }
    return good;
}

static int make_network(network *n, const uint32_t *letters, uint32_t count, uint32_t steps) {
    return make_programs(n) && make_buffers(n) && start_weights(&n->weights) &&
           make_list(n, letters, count, &n->text) && make_starts(n, steps, count) &&
           record_step(n) && record_write(n);
}

/* ---- learning and writing ------------------------------------------------ */

/* The rate rises for 20 steps and then falls to 0; it makes up for Adam's means, which
   begin with zeros. */
static float rate_of(uint32_t step, uint32_t steps) {
    double turn = step + 1, warm = turn < 20 ? turn / 20 : 1;
    double starting = sqrt(1 - pow(keep_square, turn)) / (1 - pow(keep_mean, turn));
    return (float)(top_rate * starting * warm * (1 - (double)step / steps));
}

static int step(network *n, uint32_t i, uint32_t steps) {
    const uint64_t starts = BATCH * sizeof(uint32_t), losses = ROWS * sizeof(float);
    hcq_value values[STEP_VALUES];
    values[INPUT_STARTS] = hcq_value_buffer(hcq_view(n->starts, i * starts, starts));
    values[INPUT_LOSSES] = hcq_value_buffer(hcq_view(n->losses, i % SHOWN * losses, losses));
    values[VAR_RATE] = hcq_value_number(hcq_f32(rate_of(i, steps)));
    return ok(hcq_queue_submit_with(n->step, n->dev, values, STEP_VALUES, 0, NULL), "step");
}

/* Waits for the steps: the first one's mean loss, and that of `count`. */
static int read_losses(network *n, uint32_t count, double *first, double *mean) {
    static float losses[SHOWN * ROWS];
    double sum = 0;
    if (!ok(hcq_copyout(losses, n->losses, count * ROWS * sizeof(float)), "losses")) {
        return 0;
    }
    for (uint32_t i = 0; i < count * ROWS; i++) {
        sum += losses[i];
        if (i + 1 == ROWS) {
            *first = sum / ROWS;
        }
    }
    *mean = sum / (count * ROWS);
    return 1;
}

/* Steps `begin` to `end`, and a line about them. Launches are not waited for. */
static int run_steps(network *n, uint32_t begin, uint32_t end, uint32_t steps, double *first,
                     double *mean) {
    uint64_t time = hcq_now_ns();
    for (uint32_t i = begin; i < end; i++) {
        int traced = i == (steps > TRACED ? steps - TRACED : 0);
        if ((traced && !ok(hcq_profile_start(n->dev, NULL), "profile")) || !step(n, i, steps)) {
            return 0;
        }
    }
    if (!read_losses(n, end - begin, first, mean)) {
        return 0;
    }
    printf("step %4u: loss %.4f, %.0f steps per second\n", end, *mean,
           (end - begin) * 1e9 / (double)(hcq_now_ns() - time));
    fflush(stdout);
    return 1;
}

static int train(network *n, uint32_t steps, double *first, double *last) {
    double begin;
    for (uint32_t i = 0; i < steps; i += SHOWN) {
        uint32_t end = steps - i < SHOWN ? steps : i + SHOWN;
        if (!run_steps(n, i, end, steps, i == 0 ? first : &begin, last)) {
            return 0;
        }
    }
    return ok(hcq_profile_stop(n->dev), "profile");
}

/* The letter behind window `i` of what is written, which is the next window's last. */
static int write_letter(network *n, uint32_t i) {
    const uint64_t letter = sizeof(uint32_t);
    hcq_value values[WRITE_VALUES];
    values[INPUT_WINDOW] = hcq_value_buffer(hcq_view(n->written, i * letter, WINDOW * letter));
    values[VAR_DICE] = hcq_value_number(hcq_f32(random_float()));
    return ok(hcq_queue_submit_with(n->write, n->dev, values, WRITE_VALUES, 0, NULL), "letter");
}

/* Goes on from the text's beginning. */
static int write_words(network *n, const uint32_t *letters, uint32_t count) {
    static uint32_t written[CONTEXT + MOST];
    int good = ok(hcq_copyin(n->written, letters, CONTEXT * sizeof *letters), "beginning");
    for (uint32_t i = 0; good && i < count; i++) {
        good = write_letter(n, i);
    }
    if (!good || !ok(hcq_copyout(written, n->written, (CONTEXT + count) * sizeof *written),
                     "letters")) {
        return 0;
    }
    printf("\nThe text's first %u letters, and what it writes behind them:\n\n", CONTEXT);
    for (uint32_t i = 0; i < CONTEXT + count; i++) {
        putchar(char_of(written[i]));
    }
    printf("\n\n");
    return 1;
}

/* ---- the program --------------------------------------------------------- */

typedef struct options {
    uint32_t steps, seed, letters;
    const char *text, *device, *page;
} options;

static int open_device(network *n, const char *name) {
    hcq_device_desc desc;
    memset(&desc, 0, sizeof desc);
#ifdef HCQ_CHECK
    desc.flags = HCQ_DEVICE_CHECK;
#endif
    return ok(hcq_open(name, &desc, &n->dev), name);
}

static int read_number(const char *text, uint32_t *number) {
    char *end = NULL;
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    *number = (uint32_t)value;
    return value > 0 && value <= MOST && *end == '\0';
}

static uint32_t *option(options *o, const char *name) {
    return strcmp(name, "--steps") == 0 ? &o->steps : strcmp(name, "--seed") == 0 ? &o->seed :
           strcmp(name, "--letters") == 0 ? &o->letters : NULL;
}

static int read_options(char **list, options *o) {
    const char **place[] = { &o->text, &o->device, &o->page };
    size_t given = 0;
    int good = 1;
    for (list++; good && *list != NULL; list++) {
        uint32_t *number = option(o, *list);
        if (number != NULL) {
            good = read_number(*++list, number);
        } else if ((good = given < 3 && **list != '-') != 0) {
            *place[given++] = *list;
        }
    }
    return good || complain("usage", "words [--steps N] [--seed N] [--letters N] "
                                     "[TEXT [DEVICE [PAGE.html]]], numbers up to %d", (int)MOST);
}

/* Of a few steps it is enough if they lead downwards. */
static int judge(double first, double last, uint32_t steps) {
    int good = last < (steps < STEPS ? 1 : enough) * first;
    printf("loss %.4f at first, %.4f at last, %.0f %%: %s\n", first, last, 100 * last / first,
           good ? "enough" : "TOO MUCH");
    return good ? 0 : 1;
}

int main(int argc, char **argv) {
    static network n;
    static uint32_t letters[TEXT];
    options o = { STEPS, 1, 400, "README.md", "CPU", "words.html" };
    uint32_t count = 0;
    double first = 0, last = 0;
    (void)argc;
    if (!read_options(argv, &o) || !read_text(o.text, letters, &count) ||
        !open_device(&n, o.device)) {
        return 1;
    }
    random_state = o.seed;
    int good = make_network(&n, letters, count, o.steps) && train(&n, o.steps, &first, &last) &&
               write_words(&n, letters, o.letters) &&
               ok(hcq_profile_save(&n.dev, 1, HCQ_PROFILE_HTML, o.page), o.page);
    good = ok(hcq_close(n.dev), o.device) && good;
    if (!good) {
        return 1;
    }
    printf("the last steps are in %s, for any browser\n", o.page);
    return judge(first, last, o.steps);
}
