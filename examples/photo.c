/* photo.c - softens a photograph and inks its edges, band by band, while the
   next band is uploaded and the last one downloaded.

       cc -O2 examples/photo.c -o photo -pthread
       ./photo IN.ppm OUT.ppm [DEVICE]

   -DHCQ_VULKAN adds the device VULKAN, -DHCQ_CUDA the device CUDA.

   A band goes through three queues: an upload on the copy lane, three kernels
   on the compute lane, a download on the copy lane. Two slots of device memory
   take turns. The queues are recorded once per slot and bound; what differs
   from band to band comes with the submission (points and variables) or as an
   update of one command. Only signals order the lanes.

   The result is compared byte for byte with a plain C version of the filter
   that knows nothing of bands. */
#define HCQ_IMPLEMENTATION
#define HCQ_STATIC
#define HCQ_CPU
#include "../hcq.h"
#include "photo.k"
#include "photo.k.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIDE = 16384,                  /* pixels; a larger picture is refused */
    HALO = 3,                          /* rows around a band: 2 for blur, 1 for edges */
    MIN_BAND_ROWS = 16,
    MAX_BANDS = 32,
    SLOTS = 2,                         /* bands in flight */
    BLOCK = 128                        /* pixels of one block, where it can be so large */
};
enum { UPLOAD, COMPUTE, DOWNLOAD, PARTS };
enum { BEGIN, END };
enum { VAR_ROWS_IN, VAR_ROWS_OUT, VAR_SKIP, VARIABLES };

typedef struct picture {
    uint32_t width, height;
    uint8_t *pixels;
} picture;

/* One line on stderr; returns 0, which is the "no" of all functions here. */
static int complain(const char *subject, const char *format, ...) {
    va_list list;
    fprintf(stderr, "photo: %s: ", subject);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return 0;
}

static int ok(hcq_result result, const char *doing) {
    return result == HCQ_OK || complain(doing, "%s", hcq_result_text(result));
}

static size_t picture_bytes(const picture *pic) {
    return (size_t)pic->width * pic->height * RGB;
}

/* ---- reading and writing PPM --------------------------------------------- */

static int is_space(int c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The header's next character; a comment counts as its line end. */
static int next_char(FILE *file) {
    int c = fgetc(file);
    if (c != '#') {
        return c;
    }
    while (c != '\n' && c != '\r' && c != EOF) {
        c = fgetc(file);
    }
    return c;
}

/* Reads a number and the one space behind it; 0 if that is not what is there.
   Numbers above a million count as a million. */
static int read_number(FILE *file, uint32_t *number) {
    int digits = 0;
    int c = next_char(file);
    while (is_space(c)) {
        c = next_char(file);
    }
    *number = 0;
    for (; c >= '0' && c <= '9'; c = next_char(file)) {
        *number = *number * 10 + (uint32_t)(c - '0');
        *number = *number < 1000000 ? *number : 1000000;
        digits++;
    }
    return digits > 0 && is_space(c);
}

static int read_header(FILE *file, const char *path, picture *pic) {
    uint32_t maximum;
    int c = fgetc(file);
    if (c == EOF) {
        return complain(path, "%s", ferror(file) ? strerror(errno) : "the file is empty");
    }
    if (c != 'P' || fgetc(file) != '6') {
        return complain(path, "not a binary PPM file: it does not begin with P6");
    }
    if (!read_number(file, &pic->width) || !read_number(file, &pic->height) ||
        !read_number(file, &maximum)) {
        return complain(path, "bad header: width, height and maximum must be three numbers");
    }
    if (pic->width == 0 || pic->height == 0) {
        return complain(path, "bad header: %u x %u pixels", pic->width, pic->height);
    }
    if (pic->width > MAX_SIDE || pic->height > MAX_SIDE) {
        return complain(path, "too large: more than %d pixels wide or high", MAX_SIDE);
    }
    if (maximum != 255) {
        return complain(path, "the maximum of a colour must be 255, it is %u", maximum);
    }
    return 1;
}

static int read_pixels(FILE *file, const char *path, picture *pic) {
    size_t wanted = picture_bytes(pic), found;
    pic->pixels = (uint8_t *)malloc(wanted);
    if (pic->pixels == NULL) {
        return complain(path, "no memory for %u x %u pixels", pic->width, pic->height);
    }
    found = fread(pic->pixels, 1, wanted, file);
    if (found < wanted && ferror(file)) {
        return complain(path, "%s", strerror(errno));
    }
    if (found < wanted) {
        return complain(path, "truncated: %lu bytes of pixels expected, %lu found",
                        (unsigned long)wanted, (unsigned long)found);
    }
    if (fgetc(file) != EOF) {
        return complain(path, "data behind the last of %u x %u pixels", pic->width, pic->height);
    }
    return 1;
}

static int read_picture(const char *path, picture *pic) {
    int good;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return complain(path, "%s", strerror(errno));
    }
    good = read_header(file, path, pic) && read_pixels(file, path, pic);
    fclose(file);
    return good;
}

static int write_picture(const char *path, const picture *size, const uint8_t *pixels) {
    int good, error;
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return complain(path, "%s", strerror(errno));
    }
    good = fprintf(file, "P6\n%u %u\n255\n", size->width, size->height) > 0;
    good = fwrite(pixels, 1, picture_bytes(size), file) == picture_bytes(size) && good;
    error = errno;
    if (fclose(file) != 0 && good) {
        good = 0;
        error = errno;
    }
    return good || complain(path, "cannot write: %s", strerror(error));
}

/* ---- the same in plain C ------------------------------------------------- */

static int within(int i, uint32_t count) {
    int last = (int)count - 1;
    return i < 0 ? 0 : i > last ? last : i;
}

static const uint8_t *pixel_at(const picture *pic, int x, int y) {
    size_t row = (size_t)within(y, pic->height);
    return pic->pixels + (row * pic->width + (size_t)within(x, pic->width)) * RGB;
}

static void plain_blur(const picture *from, uint8_t *to) {
    static const int weight[5] = { 1, 4, 6, 4, 1 };
    for (int y = 0; y < (int)from->height; y++) {
        for (int x = 0; x < (int)from->width; x++) {
            int sum[RGB] = { 128, 128, 128 };
            for (int i = 0; i < 25; i++) {
                const uint8_t *rgb = pixel_at(from, x + i % 5 - 2, y + i / 5 - 2);
                for (uint32_t c = 0; c < RGB; c++) {
                    sum[c] += weight[i % 5] * weight[i / 5] * rgb[c];
                }
            }
            for (uint32_t c = 0; c < RGB; c++) {
                *to++ = (uint8_t)(sum[c] / 256);
            }
        }
    }
}

static int plain_edge(const picture *pic, int x, int y) {
    static const int sobel[9] = { -1, 0, 1, -2, 0, 2, -1, 0, 1 };
    int gx = 0, gy = 0, root = 0;
    for (int i = 0; i < 9; i++) {
        const uint8_t *rgb = pixel_at(pic, x + i % 3 - 1, y + i / 3 - 1);
        int light = (77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2]) / 256;
        gx += sobel[i] * light;
        gy += sobel[i % 3 * 3 + i / 3] * light;
    }
    while (root < 255 && (root + 1) * (root + 1) <= gx * gx + gy * gy) {
        root++;
    }
    return root;
}

static int same_as_plain(const picture *original, const uint8_t *result) {
    picture soft = *original;
    int wrong = 0;
    soft.pixels = (uint8_t *)malloc(picture_bytes(original));
    if (soft.pixels == NULL) {
        return complain("check", "no memory for a second picture");
    }
    plain_blur(original, soft.pixels);
    for (int y = 0; y < (int)soft.height && !wrong; y++) {
        for (int x = 0; x < (int)soft.width && !wrong; x++) {
            int light = 255 - plain_edge(&soft, x, y);
            for (uint32_t c = 0; c < RGB; c++) {
                wrong |= *result++ != pixel_at(&soft, x, y)[c] * light / 255;
            }
            if (wrong) {
                complain("check", "the pixel at %d, %d differs from plain C", x, y);
            }
        }
    }
    free(soft.pixels);
    return !wrong;
}

/* ---- the pipeline -------------------------------------------------------- */

/* Rows first .. first + rows - 1 of the picture; with their halo they are
   rows_in rows from `low` on. */
typedef struct band {
    uint32_t first, rows, low, rows_in;
} band;

typedef struct slot {
    hcq_buffer in, sums, soft, out;
    hcq_queue *queue[PARTS];
} slot;

typedef struct pipeline {
    hcq_device *dev;
    hcq_program *blur_x, *blur_y, *ink;
    hcq_buffer source, result;         /* whole pictures that the host can see */
    hcq_signal done[PARTS];            /* number of bands that passed the part */
    hcq_signal mark[MAX_BANDS][PARTS][2];
    slot slots[SLOTS];
    uint32_t width, height, band_rows, bands;
} pipeline;

static band band_of(const pipeline *p, uint32_t n) {
    band b;
    uint32_t end = (n + 1) * p->band_rows + HALO;
    b.first = n * p->band_rows;
    b.rows = p->height - b.first < p->band_rows ? p->height - b.first : p->band_rows;
    b.low = b.first < HALO ? 0 : b.first - HALO;
    b.rows_in = (end < p->height ? end : p->height) - b.low;
    return b;
}

static uint64_t rows_bytes(const pipeline *p, uint32_t rows) {
    return (uint64_t)rows * p->width * RGB;
}

static int make_program(pipeline *p, hcq_program_desc desc, hcq_program **program) {
    return ok(hcq_program_create(p->dev, &desc, program), desc.label);
}

static int make_programs(pipeline *p) {
    return make_program(p, HCQ_PROGRAM(blur_x), &p->blur_x) &&
           make_program(p, HCQ_PROGRAM(blur_y), &p->blur_y) &&
           make_program(p, HCQ_PROGRAM(ink), &p->ink);
}

static int make_buffers(pipeline *p) {
    uint32_t most = p->band_rows + 2 * HALO;
    uint64_t bytes = rows_bytes(p, most), all = rows_bytes(p, p->height);
    hcq_result r = hcq_alloc(p->dev, all, HCQ_HOST_VISIBLE, &p->source);
    if (r == HCQ_OK) { r = hcq_alloc(p->dev, all, HCQ_HOST_VISIBLE, &p->result); }
    for (int i = 0; i < SLOTS; i++) {
        slot *s = &p->slots[i];
        if (r == HCQ_OK) { r = hcq_alloc(p->dev, bytes, 0, &s->in); }
        if (r == HCQ_OK) { r = hcq_alloc(p->dev, bytes * sizeof(uint16_t), 0, &s->sums); }
        if (r == HCQ_OK) { r = hcq_alloc(p->dev, bytes, 0, &s->soft); }
        if (r == HCQ_OK) { r = hcq_alloc(p->dev, rows_bytes(p, p->band_rows), 0, &s->out); }
    }
    return ok(r, "device memory");
}

static int make_signals(pipeline *p) {
    hcq_result r = HCQ_OK;
    for (int part = 0; part < PARTS; part++) {
        if (r == HCQ_OK) { r = hcq_signal_create(p->dev, 0, &p->done[part]); }
        for (uint32_t n = 0; n < p->bands; n++) {
            hcq_signal *mark = p->mark[n][part];
            if (r == HCQ_OK) { r = hcq_signal_create(p->dev, 0, &mark[BEGIN]); }
            if (r == HCQ_OK) { r = hcq_signal_create(p->dev, 0, &mark[END]); }
        }
    }
    return ok(r, "signals");
}

/* Records command 1 of 3, between two timestamps. */
static int record_copy(pipeline *p, slot *s, int part, hcq_buffer dst, hcq_buffer src) {
    hcq_queue *q;
    hcq_result r = hcq_queue_create(p->dev, HCQ_COPY, &q);
    if (r != HCQ_OK) {
        return ok(r, "copy queue");
    }
    s->queue[part] = q;
    hcq_queue_label(q, part == UPLOAD ? "upload" : "download");
    hcq_queue_timestamp(q, p->mark[0][part][BEGIN]);
    hcq_queue_copy(q, dst, src, rows_bytes(p, 1));
    hcq_queue_timestamp(q, p->mark[0][part][END]);
    return ok(hcq_queue_bind(q, p->dev), "copy queue");
}

/* Commands 1 to 3 of 5 are the kernels. Grids are recorded at their largest;
   how many rows there are is a variable. */
static int record_kernels(pipeline *p, slot *s) {
    uint32_t most = p->band_rows + 2 * HALO;
    uint64_t largest = BLOCK;          /* stays where the device does not know */
    hcq_device_query(p->dev, HCQ_QUERY_MAX_BLOCK, &largest);
    hcq_dims block = hcq_dim(largest < BLOCK ? (uint32_t)largest : (uint32_t)BLOCK, 1, 1);
    hcq_dims all = hcq_dim((p->width + block.x - 1) / block.x, most, 1);
    hcq_dims out = hcq_dim(all.x, p->band_rows, 1);
    blur_x_args to_sums = { s->sums.address, s->in.address, p->width, most };
    blur_y_args to_soft = { s->soft.address, s->sums.address, p->width, most };
    ink_args to_out = { s->out.address, s->soft.address, p->width, out.y, 0, most };
    hcq_queue *q;
    hcq_result r = hcq_queue_create(p->dev, HCQ_COMPUTE, &q);
    if (r != HCQ_OK) {
        return ok(r, "compute queue");
    }
    s->queue[COMPUTE] = q;
    hcq_queue_label(q, "compute");
    hcq_queue_timestamp(q, p->mark[0][COMPUTE][BEGIN]);
    hcq_queue_exec(q, p->blur_x, &to_sums, sizeof to_sums, all, block);
    hcq_queue_exec(q, p->blur_y, &to_soft, sizeof to_soft, all, block);
    hcq_queue_exec(q, p->ink, &to_out, sizeof to_out, out, block);
    hcq_queue_timestamp(q, p->mark[0][COMPUTE][END]);
    hcq_queue_variable(q, 1, HCQ_PART_ARG + offsetof(blur_x_args, rows), VAR_ROWS_IN, 0);
    hcq_queue_variable(q, 2, HCQ_PART_ARG + offsetof(blur_y_args, rows), VAR_ROWS_IN, 0);
    hcq_queue_variable(q, 3, HCQ_PART_ARG + offsetof(ink_args, rows), VAR_ROWS_OUT, 0);
    hcq_queue_variable(q, 3, HCQ_PART_ARG + offsetof(ink_args, rows_in), VAR_ROWS_IN, 0);
    hcq_queue_variable(q, 3, HCQ_PART_ARG + offsetof(ink_args, skip), VAR_SKIP, 0);
    return ok(hcq_queue_bind(q, p->dev), "compute queue");
}

static int make_pipeline(pipeline *p, const picture *pic) {
    uint32_t few = pic->height < MIN_BAND_ROWS ? pic->height : (uint32_t)MIN_BAND_ROWS;
    p->width = pic->width;
    p->height = pic->height;
    p->band_rows = (pic->height + MAX_BANDS - 1) / MAX_BANDS;
    p->band_rows = p->band_rows > few ? p->band_rows : few;
    p->bands = (pic->height + p->band_rows - 1) / p->band_rows;
    if (!make_programs(p) || !make_buffers(p) || !make_signals(p)) {
        return 0;
    }
    for (int i = 0; i < SLOTS; i++) {
        slot *s = &p->slots[i];
        if (!record_copy(p, s, UPLOAD, s->in, p->source) || !record_kernels(p, s) ||
            !record_copy(p, s, DOWNLOAD, p->result, s->out)) {
            return 0;
        }
    }
    return 1;
}

/* Submits one part of band n; it raises done[part] to n + 1. */
static int submit_part(pipeline *p, int part, uint32_t n, const hcq_point *waits, uint32_t count) {
    band b = band_of(p, n);
    hcq_value variables[VARIABLES];
    hcq_queue *q = p->slots[n % SLOTS].queue[part];
    hcq_point signal = hcq_at(p->done[part], n + 1);
    hcq_submission work;
    variables[VAR_ROWS_IN] = hcq_value_number(b.rows_in);
    variables[VAR_ROWS_OUT] = hcq_value_number(b.rows);
    variables[VAR_SKIP] = hcq_value_number(b.first - b.low);
    memset(&work, 0, sizeof work);
    work.waits = waits;
    work.wait_count = count;
    work.queues = &q;
    work.queue_count = 1;
    work.signals = &signal;
    work.signal_count = 1;
    work.values = variables;
    work.value_count = VARIABLES;
    hcq_queue_update_signal(q, 0, &p->mark[n][part][BEGIN], HCQ_KEEP);
    hcq_queue_update_signal(q, hcq_queue_count(q) - 1, &p->mark[n][part][END], HCQ_KEEP);
    return ok(hcq_submit(p->dev, &work, 1, NULL), "submit");
}

/* Bands done before band n may use its slot again. */
static uint64_t before(uint32_t n) {
    return n < SLOTS ? 0 : n - SLOTS + 1;
}

static int upload(pipeline *p, uint32_t n) {
    band b = band_of(p, n);
    slot *s = &p->slots[n % SLOTS];
    hcq_point wait = hcq_at(p->done[COMPUTE], before(n)); /* `in` was read */
    uint64_t bytes = rows_bytes(p, b.rows_in);
    hcq_buffer rows = hcq_view(p->source, rows_bytes(p, b.low), bytes);
    return ok(hcq_queue_update_copy(s->queue[UPLOAD], 1, &s->in, &rows, bytes), "upload") &&
           submit_part(p, UPLOAD, n, &wait, 1);
}

static int compute(pipeline *p, uint32_t n) {
    hcq_point waits[2];
    waits[0] = hcq_at(p->done[UPLOAD], n + 1);
    waits[1] = hcq_at(p->done[DOWNLOAD], before(n)); /* `out` was read */
    return submit_part(p, COMPUTE, n, waits, 2);
}

static int download(pipeline *p, uint32_t n) {
    band b = band_of(p, n);
    slot *s = &p->slots[n % SLOTS];
    hcq_point wait = hcq_at(p->done[COMPUTE], n + 1);
    uint64_t bytes = rows_bytes(p, b.rows);
    hcq_buffer rows = hcq_view(p->result, rows_bytes(p, b.first), bytes);
    return ok(hcq_queue_update_copy(s->queue[DOWNLOAD], 1, &rows, &s->out, bytes), "download") &&
           submit_part(p, DOWNLOAD, n, &wait, 1);
}

/* Submissions of one lane run in order, and one copy lane serves both ways:
   the upload of band n goes in before the download of band n - 1, or it would
   stand in line behind it until the kernels of n - 1 are done. */
static int run(pipeline *p) {
    hcq_point last = hcq_at(p->done[DOWNLOAD], p->bands);
    for (uint32_t n = 0; n < p->bands; n++) {
        if (!upload(p, n) || !compute(p, n) || (n > 0 && !download(p, n - 1))) {
            return 0;
        }
    }
    return download(p, p->bands - 1) && ok(hcq_wait(&last, 1, HCQ_ALL, HCQ_FOREVER), "wait");
}

/* ---- when did what run --------------------------------------------------- */

typedef struct times {
    uint64_t at[MAX_BANDS][PARTS][2];  /* device nanoseconds */
} times;

static int read_times(const pipeline *p, times *t) {
    hcq_result r = HCQ_OK;
    for (uint32_t n = 0; n < p->bands; n++) {
        for (int part = 0; part < PARTS; part++) {
            const hcq_signal *mark = p->mark[n][part];
            uint64_t *at = t->at[n][part];
            if (r == HCQ_OK) { r = hcq_signal_timestamp(mark[BEGIN], &at[BEGIN]); }
            if (r == HCQ_OK) { r = hcq_signal_timestamp(mark[END], &at[END]); }
        }
    }
    return ok(r, "timestamps");
}

static uint64_t common_ns(const uint64_t *a, const uint64_t *b) {
    uint64_t begin = a[BEGIN] > b[BEGIN] ? a[BEGIN] : b[BEGIN];
    uint64_t end = a[END] < b[END] ? a[END] : b[END];
    return end > begin ? end - begin : 0;
}

/* How long a copy and a kernel ran at the same time. */
static uint64_t overlap_ns(const pipeline *p, const times *t) {
    uint64_t sum = 0;
    for (uint32_t n = 0; n < p->bands; n++) {
        for (uint32_t m = 0; m < p->bands; m++) {
            sum += common_ns(t->at[n][COMPUTE], t->at[m][UPLOAD]);
            sum += common_ns(t->at[n][COMPUTE], t->at[m][DOWNLOAD]);
        }
    }
    return sum;
}

static int report(const pipeline *p, const char *device) {
    static const char *const names[PARTS] = { "upload", "compute", "download" };
    static times t;
    uint64_t sum = 0;
    if (!read_times(p, &t)) {
        return 0;
    }
    printf("%u x %u pixels on %s, %u bands of %u rows\n", p->width, p->height, device, p->bands,
           p->band_rows);
    for (int part = 0; part < PARTS; part++) {
        uint64_t ns = 0;
        for (uint32_t n = 0; n < p->bands; n++) {
            ns += t.at[n][part][END] - t.at[n][part][BEGIN];
        }
        printf("%-9s %9.3f ms\n", names[part], (double)ns / 1e6);
        sum += ns;
    }
    printf("sum       %9.3f ms\n", (double)sum / 1e6);
    printf("wall      %9.3f ms, first upload to last download\n",
           (double)(t.at[p->bands - 1][DOWNLOAD][END] - t.at[0][UPLOAD][BEGIN]) / 1e6);
    printf("overlap   %9.3f ms with a copy and a kernel running at once\n",
           (double)overlap_ns(p, &t) / 1e6);
    return 1;
}

static int process(pipeline *p, const picture *pic, const char *device, const char *path) {
    if (!make_pipeline(p, pic)) {
        return 0;
    }
    memcpy(p->source.host, pic->pixels, picture_bytes(pic));
    if (!run(p) || !report(p, device) ||
        !same_as_plain(pic, (const uint8_t *)p->result.host) ||
        !write_picture(path, pic, (const uint8_t *)p->result.host)) {
        return 0;
    }
    printf("every byte is that of plain C; written to %s\n", path);
    return 1;
}

int main(int argc, char **argv) {
    static pipeline p;
    const char *device = argc == 4 ? argv[3] : "CPU";
    picture pic = { 0, 0, NULL };
    int good;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: photo IN.ppm OUT.ppm [DEVICE]\n");
        return 1;
    }
    good = read_picture(argv[1], &pic) && ok(hcq_open(device, NULL, &p.dev), device);
    good = good && process(&p, &pic, device, argv[2]);
    good = ok(hcq_close(p.dev), device) && good;
    free(pic.pixels);
    return good ? 0 : 1;
}
