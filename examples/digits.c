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
#include "digits.k"
#include "digits.k.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 1797, TRAIN = 1500, TEST = SAMPLES - TRAIN,
    STEPS = TRAIN / BATCH,             /* of an epoch */
    EPOCHS = 150, SHOWN = 10,          /* every so many epochs a line */
    TRACED = 4                         /* steps that are profiled */
};
enum { INPUT_BATCH, INPUT_SCORES, VAR_RATE, VALUES };
enum { RUN_HIDDEN, RUN_OUTPUT, RUN_BACK, RUN_UPDATE, PROGRAMS };
enum { PART_RATE = HCQ_PART_ARG + offsetof(update_args, rate) };

static const float first_rate = 0.1f, noise = 0.5f;
static const double enough = 93;       /* % of the test digits */

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

/* ---- the data ------------------------------------------------------------ */

/* "0,0,5,13, ... ,0": 64 pixels of 0 to 16 and the digit they show. */
static int read_sample(const char *text, digit *s) {
    for (uint32_t i = 0; i <= PIXELS; i++) {
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

static int read_lines(FILE *file, const char *path, digit *samples) {
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

static int read_samples(const char *path, digit *samples) {
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

static void shuffle(digit *samples, uint32_t count) {
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t other = random_number() % (i + 1);
        digit swap = samples[i];
        samples[i] = samples[other];
        samples[other] = swap;
    }
}

/* What is noisy in another way each time cannot be learnt by heart. */
static void add_noise(digit *to, const digit *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < PIXELS; p++) {
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
           make_buffer(n, TRAIN * sizeof(digit), &n->train) &&
           make_buffer(n, TRAIN * sizeof(score), &n->train_scores) &&
           make_buffer(n, TEST * sizeof(digit), &n->test) &&
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
    if (!ok(hcq_graph_create(n->dev, graph), "graph")) {
        return 0;
    }
    p->samples = hcq_graph_input(*graph, INPUT_BATCH, n->dev, count * sizeof(digit));
    p->scores = hcq_graph_input(*graph, INPUT_SCORES, n->dev, count * sizeof(score));
    hcq_graph_alloc(*graph, n->dev, count * HIDDEN * sizeof(float), 0, &p->hidden);
    hcq_graph_alloc(*graph, n->dev, count * DIGITS * sizeof(float), 0, &p->error);
    hidden_args to_hidden = { p->hidden.address, p->samples.address, n->hidden_units.address,
                              count };
    output_args to_output = { p->error.address, p->scores.address, p->hidden.address,
                              p->samples.address, n->output_units.address, count };
    hcq_queue_exec(*graph, n->program[RUN_HIDDEN], &to_hidden, sizeof to_hidden,
                   hcq_dim(1, count, 1), hcq_dim(HIDDEN, 1, 1));
    hcq_queue_exec(*graph, n->program[RUN_OUTPUT], &to_output, sizeof to_output,
                   hcq_dim(count, 1, 1), hcq_dim(1, 1, 1));
    return 1;
}

/* The kernel that changes a layer; the learning rate comes with each launch. */
static void record_update(network *n, hcq_queue *graph, const update_args *args,
                          const char *label) {
    int32_t index = hcq_queue_exec(graph, n->program[RUN_UPDATE], args, sizeof *args,
                                   hcq_dim(1, args->units, 1), hcq_dim(args->width + 1, 1, 1));
    hcq_queue_command_label(graph, index, label);
    hcq_queue_variable(graph, index, PART_RATE, VAR_RATE, 0);
}

static int record_step(network *n) {
    places p;
    hcq_buffer hidden_error;
    if (!record_forward(n, BATCH, &n->step, &p)) {
        return 0;
    }
    hcq_queue_label(n->step, "step");
    hcq_graph_alloc(n->step, n->dev, BATCH * HIDDEN * sizeof(float), 0, &hidden_error);
    back_args to_hidden = { hidden_error.address, p.error.address, p.hidden.address,
                            n->output_units.address, BATCH };
    hcq_queue_exec(n->step, n->program[RUN_BACK], &to_hidden, sizeof to_hidden,
                   hcq_dim(1, BATCH, 1), hcq_dim(HIDDEN, 1, 1));
    update_args to_output = { n->output_units.address, n->output_speed.address, p.error.address,
                              p.hidden.address, DIGITS, HIDDEN, HIDDEN, 0 };
    record_update(n, n->step, &to_output, "update output");
    update_args to_units = { n->hidden_units.address, n->hidden_speed.address,
                             hidden_error.address, p.samples.address, HIDDEN, PIXELS,
                             sizeof(digit) / sizeof(float), 0 };
    record_update(n, n->step, &to_units, "update hidden");
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

static int make_program(network *n, hcq_program_desc desc, int which) {
    return ok(hcq_program_create(n->dev, &desc, &n->program[which]), desc.label);
}

static int make_programs(network *n) {
    return make_program(n, HCQ_PROGRAM(hidden), RUN_HIDDEN) &&
           make_program(n, HCQ_PROGRAM(output), RUN_OUTPUT) &&
           make_program(n, HCQ_PROGRAM(back), RUN_BACK) &&
           make_program(n, HCQ_PROGRAM(update), RUN_UPDATE);
}

static int make_network(network *n, const digit *test) {
    return make_programs(n) && make_buffers(n) && start_layer(n->hidden_units, 0.2f) &&
           start_layer(n->output_units, 0.2f) &&
           ok(hcq_copyin(n->test, test, n->test.size), "test set") &&
           record_step(n) && record_look(n);
}

/* ---- training ------------------------------------------------------------ */

static int launch(network *n, hcq_queue *graph, hcq_buffer samples, hcq_buffer scores,
                  float rate) {
    hcq_value values[VALUES];
    values[INPUT_BATCH] = hcq_value_buffer(samples);
    values[INPUT_SCORES] = hcq_value_buffer(scores);
    values[VAR_RATE] = hcq_value_number(hcq_f32(rate));
    return ok(hcq_queue_submit_with(graph, n->dev, values, VALUES, 0, NULL), "launch");
}

/* One step with the batch that begins at sample `first`. */
static int step(network *n, uint32_t first, float rate) {
    hcq_buffer batch = hcq_view(n->train, first * sizeof(digit), BATCH * sizeof(digit));
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
static int run_epoch(network *n, uint32_t epoch, digit *samples) {
    static digit noisy[TRAIN];
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
static int run_epochs(network *n, uint32_t first, digit *samples, double *tested) {
    double trained, loss;
    uint64_t begin = hcq_now_ns(), end;
    for (uint32_t i = 0; i < SHOWN; i++) {
        if (!run_epoch(n, first + i, samples)) {
            return 0;
        }
    }
    if (!read_scores(n->train_scores, &trained, &loss)) {
        return 0;
    }
    end = hcq_now_ns();
    if (!look(n, tested)) {
        return 0;
    }
    printf("epoch %3u: loss %.3f, %6.2f %% right, %6.2f %% of the test, %6.0f steps per second\n",
           first + SHOWN, loss, trained, *tested, SHOWN * STEPS * 1e9 / (double)(end - begin));
    return 1;
}

static int train(network *n, digit *samples, double *tested) {
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
    static digit samples[SAMPLES];
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
