/* digits.c - trains a small network to read handwritten digits.

       cc -O2 examples/digits.c -o digits -pthread
       ./digits [DIGITS.csv [TRACE.json TRACE.html [DEVICE]]]

   1,797 digits of 8 x 8 pixels, the first 1,500 to train and the others to
   test. The pixels feed a layer of hidden units (ReLU), those a layer of ten
   (softmax); the training is gradient descent with momentum, a batch at a time.

   A training step is one launch of a graph of five kernels. What follows what
   is not written down anywhere: the graph knows it from what the kernels read
   and write. It is recorded and bound once. A launch brings the batch and the
   place for its scores as inputs, which are views of larger buffers, and the
   learning rate as a variable. The test set goes through a graph of its own.

   A few steps of the last epoch are profiled and written as a trace and as a
   page with a timeline. Every run gives the same numbers, on another device maybe
   others, since it may round in another way; the result is wrong below 93 %.
   -DHCQ_VULKAN adds the device VULKAN, -DHCQ_CUDA the device CUDA. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/digits.h"            /* made of kernels/digits_*.cu */
#include "shaders/digits.h"            /* made of shaders/digits_*.comp */

enum {
    PIXELS = 64, HIDDEN = 64, DIGITS = 10,
    SAMPLES = 1797, TRAIN = 1500, TEST = SAMPLES - TRAIN,
    BATCH = 30, STEPS = TRAIN / BATCH, /* steps of an epoch */
    EPOCHS = 150, SHOWN = 10,          /* every so many epochs a line */
    TRACED = 4                         /* steps that are profiled */
};
enum { INPUT_BATCH, INPUT_SCORES, VAR_RATE, VALUES };

static const float first_rate = 0.1f, momentum = 0.9f, noise = 0.5f;
static const double enough = 93;       /* % of the test digits */

typedef struct sample {
    float pixel[PIXELS];               /* 0 to 1 */
    uint32_t label;
} sample;

typedef struct score {
    float loss;
    uint32_t right;                    /* 1: the largest output is the label's */
} score;

/* A unit's weights are one row, the bias behind them. */
typedef struct hidden_unit { float weight[PIXELS], bias; } hidden_unit;
typedef struct output_unit { float weight[HIDDEN], bias; } output_unit;

/* One line on stderr; returns 0, which is the "no" of all functions here. */
static int complain(const char *subject, const char *format, ...) {
    va_list list;
    fprintf(stderr, "digits: %s: ", subject);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return 0;
}

static int ok(hcq_result result, const char *doing) {
    return result == HCQ_OK || complain(doing, "%s", hcq_result_text(result));
}

/* ---- kernels ------------------------------------------------------------- */

/* Own ones, so that nobody has to link with -lm. */
static float exp_of(float x) {
    float y = x / 1024;
    y = 1 + y * (1 + y * (0.5f + y / 6));
    for (int i = 0; i < 10; i++) {
        y *= y;
    }
    return y;
}

/* Halley's method; good for 1 to 10, the sum of ten softmax terms. */
static float log_of(float x) {
    float y = 1;
    for (int i = 0; i < 4; i++) {
        float e = exp_of(y);
        y += 2 * (x - e) / (x + e);
    }
    return y;
}

typedef struct hidden_args {
    uint64_t hidden, samples, units;
} hidden_args;

/* A block is a sample, a thread a hidden unit. */
static void hidden(const void *args, const hcq_block *b) {
    const hidden_args *k = HCQ_ARGS(hidden_args, args);
    const sample *s = HCQ_PTR(const sample, k->samples) + b->id.x;
    float *value = HCQ_PTR(float, k->hidden) + b->id.x * HIDDEN;
    HCQ_FOR_THREADS(b, t) {
        const hidden_unit *unit = HCQ_PTR(const hidden_unit, k->units) + t.x;
        float sum = unit->bias;
        for (int i = 0; i < PIXELS; i++) {
            sum += unit->weight[i] * s->pixel[i];
        }
        value[t.x] = sum > 0 ? sum : 0;
    }
}

typedef struct output_args {
    uint64_t error, scores, hidden, samples, units;
} output_args;

/* A block is a sample. Its error is the loss's slope for each output. */
static void output(const void *args, const hcq_block *b) {
    const output_args *k = HCQ_ARGS(output_args, args);
    uint32_t label = HCQ_PTR(const sample, k->samples)[b->id.x].label;
    const float *value = HCQ_PTR(const float, k->hidden) + b->id.x * HIDDEN;
    float *error = HCQ_PTR(float, k->error) + b->id.x * DIGITS;
    score *result = HCQ_PTR(score, k->scores) + b->id.x;
    float out[DIGITS], all = 0;
    uint32_t best = 0;
    for (uint32_t d = 0; d < DIGITS; d++) {
        const output_unit *unit = HCQ_PTR(const output_unit, k->units) + d;
        out[d] = unit->bias;
        for (int i = 0; i < HIDDEN; i++) {
            out[d] += unit->weight[i] * value[i];
        }
        best = out[d] > out[best] ? d : best;
    }
    for (int d = 0; d < DIGITS; d++) {
        error[d] = exp_of(out[d] - out[best]);
        all += error[d];
    }
    for (uint32_t d = 0; d < DIGITS; d++) {
        error[d] = error[d] / all - (d == label ? 1.0f : 0.0f);
    }
    result->loss = log_of(all) + out[best] - out[label];
    result->right = best == label;
}

typedef struct back_args {
    uint64_t hidden_error, error, hidden, units;
} back_args;

/* A block is a sample, a thread a hidden unit: its share of the errors. */
static void back(const void *args, const hcq_block *b) {
    const back_args *k = HCQ_ARGS(back_args, args);
    const output_unit *units = HCQ_PTR(const output_unit, k->units);
    const float *error = HCQ_PTR(const float, k->error) + b->id.x * DIGITS;
    const float *value = HCQ_PTR(const float, k->hidden) + b->id.x * HIDDEN;
    float *hidden_error = HCQ_PTR(float, k->hidden_error) + b->id.x * HIDDEN;
    HCQ_FOR_THREADS(b, t) {
        float sum = 0;
        for (int d = 0; d < DIGITS; d++) {
            sum += units[d].weight[t.x] * error[d];
        }
        hidden_error[t.x] = value[t.x] > 0 ? sum : 0;
    }
}

/* Rows of `from` have `stride` numbers, `width` of which are inputs of a unit. */
typedef struct update_args {
    uint64_t units, speed, error, from;
    uint32_t width, stride;
    float rate;
} update_args;

/* A block is a unit of either layer, a thread one of its weights or the bias. */
static void update(const void *args, const hcq_block *b) {
    const update_args *k = HCQ_ARGS(update_args, args);
    const float *error = HCQ_PTR(const float, k->error) + b->id.x;
    float *weight = HCQ_PTR(float, k->units) + b->id.x * b->block.x;
    float *speed = HCQ_PTR(float, k->speed) + b->id.x * b->block.x;
    HCQ_FOR_THREADS(b, t) {
        const float *from = HCQ_PTR(const float, k->from) + t.x;
        float slope = 0;
        for (uint32_t i = 0; i < BATCH; i++) {
            slope += error[i * b->grid.x] * (t.x < k->width ? from[i * k->stride] : 1.0f);
        }
        speed[t.x] = momentum * speed[t.x] + slope / (float)BATCH;
        weight[t.x] -= k->rate * speed[t.x];
    }
}

enum { RUN_HIDDEN, RUN_OUTPUT, RUN_BACK, RUN_UPDATE, PROGRAMS };
enum { PART_RATE = HCQ_PART_ARG + offsetof(update_args, rate) };

/* ---- the data ------------------------------------------------------------ */

/* "0,0,5,13, ... ,0": 64 pixels of 0 to 16 and the digit they show. */
static int read_sample(const char *text, sample *s) {
    for (int i = 0; i <= PIXELS; i++) {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text || *end != (i < PIXELS ? ',' : '\n') || number < 0 ||
            number > (i < PIXELS ? 16 : 9)) {
            return 0;
        }
        if (i < PIXELS) {
            s->pixel[i] = (float)number / 16;
        }
        s->label = (uint32_t)number;
        text = end + 1;
    }
    return 1;
}

static int read_lines(FILE *file, const char *path, sample *samples) {
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (count == SAMPLES) {
            return complain(path, "more than %d lines", (int)SAMPLES);
        }
        if (!read_sample(line, &samples[count])) {
            return complain(path, "line %d is not 64 numbers of 0 to 16 and a digit", count + 1);
        }
        count++;
    }
    if (ferror(file)) {
        return complain(path, "%s", strerror(errno));
    }
    return count == SAMPLES || complain(path, "%d lines, not %d", count, (int)SAMPLES);
}

static int read_samples(const char *path, sample *samples) {
    int good;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return complain(path, "%s", strerror(errno));
    }
    good = read_lines(file, path, samples);
    fclose(file);
    return good;
}

static uint32_t random_state = 1;

static uint32_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Evenly spread over -limit to limit. */
static float random_float(float limit) {
    return limit * ((float)(random_number() >> 8) / (1 << 23) - 1);
}

static void shuffle(sample *samples, uint32_t count) {
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t other = random_number() % (i + 1);
        sample swap = samples[i];
        samples[i] = samples[other];
        samples[other] = swap;
    }
}

/* What is noisy in another way each time cannot be learnt by heart. */
static void add_noise(sample *to, const sample *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (int p = 0; p < PIXELS; p++) {
            to[i].pixel[p] = from[i].pixel[p] + random_float(noise);
        }
        to[i].label = from[i].label;
    }
}

/* ---- the network and its graphs ------------------------------------------ */

typedef struct network {
    hcq_device *dev;
    hcq_program *program[PROGRAMS];
    hcq_buffer hidden_units, hidden_speed, output_units, output_speed;
    hcq_buffer train, train_scores, test, test_scores;
    hcq_queue *step, *look;            /* the graphs */
} network;

static int make_buffer(network *n, uint64_t bytes, hcq_buffer *buffer) {
    return ok(hcq_alloc(n->dev, bytes, HCQ_ZEROED, buffer), "memory");
}

static int make_buffers(network *n) {
    return make_buffer(n, HIDDEN * sizeof(hidden_unit), &n->hidden_units) &&
           make_buffer(n, HIDDEN * sizeof(hidden_unit), &n->hidden_speed) &&
           make_buffer(n, DIGITS * sizeof(output_unit), &n->output_units) &&
           make_buffer(n, DIGITS * sizeof(output_unit), &n->output_speed) &&
           make_buffer(n, TRAIN * sizeof(sample), &n->train) &&
           make_buffer(n, TRAIN * sizeof(score), &n->train_scores) &&
           make_buffer(n, TEST * sizeof(sample), &n->test) &&
           make_buffer(n, TEST * sizeof(score), &n->test_scores);
}

/* Gives all weights of a layer a random value within +- `spread`. */
static int start_layer(hcq_buffer units, float spread) {
    static float weights[HIDDEN * (PIXELS + 1)];
    for (uint64_t i = 0; i < units.size / sizeof(float); i++) {
        weights[i] = random_float(spread);
    }
    return ok(hcq_copyin(units, weights, units.size), "weights");
}

/* What a graph keeps for itself, and its placeholders. */
typedef struct places {
    hcq_buffer samples, scores;        /* inputs */
    hcq_buffer hidden, error;          /* for as long as the graph lives */
} places;

/* From `count` samples to their scores: two kernels. */
static int record_forward(network *n, uint32_t count, hcq_queue **graph, places *p) {
    hidden_args to_hidden;
    output_args to_output;
    if (!ok(hcq_graph_create(n->dev, graph), "graph")) {
        return 0;
    }
    p->samples = hcq_input(*graph, INPUT_BATCH, n->dev, count * sizeof(sample));
    p->scores = hcq_input(*graph, INPUT_SCORES, n->dev, count * sizeof(score));
    hcq_queue_empty(*graph, n->dev, count * HIDDEN * sizeof(float), 0, &p->hidden);
    hcq_queue_empty(*graph, n->dev, count * DIGITS * sizeof(float), 0, &p->error);
    to_hidden.hidden = p->hidden.address;
    to_hidden.samples = p->samples.address;
    to_hidden.units = n->hidden_units.address;
    to_output.error = p->error.address;
    to_output.scores = p->scores.address;
    to_output.hidden = p->hidden.address;
    to_output.samples = p->samples.address;
    to_output.units = n->output_units.address;
    hcq_queue_exec(*graph, n->program[RUN_HIDDEN], &to_hidden, sizeof to_hidden,
                   hcq_dim(count, 1, 1), hcq_dim(HIDDEN, 1, 1));
    hcq_queue_exec(*graph, n->program[RUN_OUTPUT], &to_output, sizeof to_output,
                   hcq_dim(count, 1, 1), hcq_dim(1, 1, 1));
    return 1;
}

/* The kernel that changes a layer; the learning rate comes with each launch. */
static void record_update(network *n, hcq_queue *graph, const update_args *args, uint32_t units,
                          const char *label) {
    int32_t index = hcq_queue_exec(graph, n->program[RUN_UPDATE], args, sizeof *args,
                                   hcq_dim(units, 1, 1), hcq_dim(args->width + 1, 1, 1));
    hcq_queue_command_label(graph, index, label);
    hcq_queue_variable(graph, index, PART_RATE, VAR_RATE, 0);
}

static int record_step(network *n) {
    places p;
    hcq_buffer hidden_error;
    back_args to_hidden;
    update_args change;
    if (!record_forward(n, BATCH, &n->step, &p)) {
        return 0;
    }
    hcq_queue_label(n->step, "step");
    hcq_queue_empty(n->step, n->dev, BATCH * HIDDEN * sizeof(float), 0, &hidden_error);
    to_hidden.hidden_error = hidden_error.address;
    to_hidden.error = p.error.address;
    to_hidden.hidden = p.hidden.address;
    to_hidden.units = n->output_units.address;
    hcq_queue_exec(n->step, n->program[RUN_BACK], &to_hidden, sizeof to_hidden,
                   hcq_dim(BATCH, 1, 1), hcq_dim(HIDDEN, 1, 1));
    memset(&change, 0, sizeof change);
    change.units = n->output_units.address;
    change.speed = n->output_speed.address;
    change.error = p.error.address;
    change.from = p.hidden.address;
    change.width = HIDDEN;
    change.stride = HIDDEN;
    record_update(n, n->step, &change, DIGITS, "update output");
    change.units = n->hidden_units.address;
    change.speed = n->hidden_speed.address;
    change.error = hidden_error.address;
    change.from = p.samples.address;
    change.width = PIXELS;
    change.stride = sizeof(sample) / sizeof(float);
    record_update(n, n->step, &change, HIDDEN, "update hidden");
    return ok(hcq_queue_bind(n->step, n->dev), "graph of a step");
}

static int record_look(network *n) {
    places p;
    if (!record_forward(n, TEST, &n->look, &p)) {
        return 0;
    }
    hcq_queue_label(n->look, "look");
    return ok(hcq_queue_bind(n->look, n->dev), "graph of a look");
}

/* With what compilers for GPUs left of the kernel. */
static int make_program(network *n, hcq_program_desc desc, const void *spirv, size_t spirv_size,
                        const char *ptx, int which) {
    desc.spirv.data = spirv;
    desc.spirv.size = spirv_size;
    desc.ptx.data = ptx;
    return ok(hcq_program_create(n->dev, &desc, &n->program[which]), desc.label);
}

#define PROGRAM(which, kernel, ...)                                                \
    make_program(n, HCQ_CPU_PROGRAM(#kernel, kernel, __VA_ARGS__), spirv_##kernel, \
                 sizeof spirv_##kernel, ptx_##kernel, which)

static int make_programs(network *n) {
    return PROGRAM(RUN_HIDDEN, hidden, HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_IN) &&
           PROGRAM(RUN_OUTPUT, output, HCQ_ARG_OUT, HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_IN,
                   HCQ_ARG_IN) &&
           PROGRAM(RUN_BACK, back, HCQ_ARG_OUT, HCQ_ARG_IN, HCQ_ARG_IN, HCQ_ARG_IN) &&
           PROGRAM(RUN_UPDATE, update, HCQ_ARG_INOUT, HCQ_ARG_INOUT, HCQ_ARG_IN, HCQ_ARG_IN,
                   HCQ_ARG_U32, HCQ_ARG_U32, HCQ_ARG_F32);
}

static int make_network(network *n, const sample *test) {
    return make_programs(n) && make_buffers(n) && start_layer(n->hidden_units, 0.2f) &&
           start_layer(n->output_units, 0.2f) &&
           ok(hcq_copyin(n->test, test, n->test.size), "test set") &&
           record_step(n) && record_look(n);
}

/* ---- training ------------------------------------------------------------ */

static int launch(network *n, hcq_queue *graph, hcq_buffer samples, hcq_buffer scores,
                  float rate) {
    hcq_value values[VALUES];
    values[INPUT_BATCH] = hcq_value_of(samples);
    values[INPUT_SCORES] = hcq_value_of(scores);
    values[VAR_RATE] = hcq_number(hcq_f32(rate));
    return ok(hcq_queue_submit_with(graph, n->dev, values, VALUES, NULL), "launch");
}

/* One step with the batch that begins at sample `first`. */
static int step(network *n, uint32_t first, float rate) {
    hcq_buffer batch = hcq_view(n->train, first * sizeof(sample), BATCH * sizeof(sample));
    hcq_buffer scores = hcq_view(n->train_scores, first * sizeof(score), BATCH * sizeof(score));
    return launch(n, n->step, batch, scores, rate);
}

/* Waits for the scores: % that are right, and the mean loss. */
static int read_scores(hcq_buffer buffer, double *percent, double *loss) {
    static score scores[TRAIN];
    uint32_t count = (uint32_t)(buffer.size / sizeof(score)), right = 0;
    *loss = 0;
    if (!ok(hcq_copyout(scores, buffer, buffer.size), "scores")) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        right += scores[i].right;
        *loss += (double)scores[i].loss / count;
    }
    *percent = 100.0 * right / count;
    return 1;
}

static int look(network *n, double *percent) {
    double loss;
    return launch(n, n->look, n->test, n->test_scores, 0) &&
           read_scores(n->test_scores, percent, &loss);
}

/* The learning rate falls from step to step, in a straight line to 0. */
static float rate_of(uint32_t epoch, uint32_t step) {
    return first_rate * (1 - (float)(epoch * STEPS + step) / (EPOCHS * STEPS));
}

/* Starts and stops the profile around the first steps of the last epoch. */
static int trace(network *n, uint32_t epoch, uint32_t step) {
    if (epoch + 1 != EPOCHS) {
        return 1;
    }
    if (step == 0) {
        return ok(hcq_profile_start(n->dev, NULL), "profile");
    }
    return step != TRACED || ok(hcq_profile_stop(n->dev), "profile");
}

/* Once through the training set, in a new order. Launches are not waited for:
   they run one after another, and so does what is copied in and out. */
static int run_epoch(network *n, uint32_t epoch, sample *samples) {
    static sample noisy[TRAIN];
    shuffle(samples, TRAIN);
    add_noise(noisy, samples, TRAIN);
    if (!ok(hcq_copyin(n->train, noisy, sizeof noisy), "training set")) {
        return 0;
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        if (!trace(n, epoch, i) || !step(n, i * BATCH, rate_of(epoch, i))) {
            return 0;
        }
    }
    return 1;
}

/* SHOWN epochs and a line about the last of them. */
static int run_epochs(network *n, uint32_t first, sample *samples, double *tested) {
    double trained, loss;
    uint64_t begin = hcq_sys_now_ns(), end;
    for (uint32_t i = 0; i < SHOWN; i++) {
        if (!run_epoch(n, first + i, samples)) {
            return 0;
        }
    }
    if (!read_scores(n->train_scores, &trained, &loss)) {
        return 0;
    }
    end = hcq_sys_now_ns();
    if (!look(n, tested)) {
        return 0;
    }
    printf("epoch %3u: loss %.3f, %6.2f %% right, %6.2f %% of the test, %6.0f steps per second\n",
           first + SHOWN, loss, trained, *tested, SHOWN * STEPS * 1e9 / (double)(end - begin));
    return 1;
}

static int train(network *n, sample *samples, double *tested) {
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch += SHOWN) {
        if (!run_epochs(n, epoch, samples, tested)) {
            return 0;
        }
    }
    return 1;
}

static int save(network *n, const char *json, const char *html) {
    if (!ok(hcq_profile_save(&n->dev, 1, HCQ_PROFILE_TRACE, json), json) ||
        !ok(hcq_profile_save(&n->dev, 1, HCQ_PROFILE_HTML, html), html)) {
        return 0;
    }
    printf("%d steps of the last epoch: %s for ui.perfetto.dev, %s for any browser\n",
           (int)TRACED, json, html);
    return 1;
}

int main(int argc, char **argv) {
    static network n;
    static sample samples[SAMPLES];
    const char *path = argc > 1 ? argv[1] : "examples/data/digits.csv";
    const char *json = argc > 3 ? argv[2] : "digits.json";
    const char *html = argc > 3 ? argv[3] : "digits.html";
    const char *device = argc > 4 ? argv[4] : "CPU";
    double percent = 0;
    int good;
    if (argc == 3 || argc > 5) {
        fprintf(stderr, "usage: digits [DIGITS.csv [TRACE.json TRACE.html [DEVICE]]]\n");
        return 1;
    }
    good = read_samples(path, samples) && ok(hcq_open(device, NULL, &n.dev), device) &&
           make_network(&n, samples + TRAIN) && train(&n, samples, &percent) &&
           save(&n, json, html);
    good = ok(hcq_close(n.dev), device) && good;
    if (!good) {
        return 1;
    }
    printf("%.2f %% of %d test digits are right: %s\n", percent, (int)TEST,
           percent >= enough ? "enough" : "TOO FEW");
    return percent >= enough ? 0 : 1;
}
