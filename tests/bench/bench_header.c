/* bench_header.c - what including hcq.h without the implementation adds to a
   compilation: the time of such a file less the time of an empty one. */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        bench_die("cannot write %s", path);
    }
}

static double compile_ms(const char *command) {
    uint64_t start = bench_now();
    if (system(command) != 0) {
        bench_die("failed: %s", command);
    }
    return (double)(bench_now() - start) * 1e-6;
}

void bench_header_ms(bench_result *result) {
    enum { MAX_PAIRS = 41 };
    const char *cc = getenv("BENCH_CC");
    const char *root = getenv("BENCH_ROOT");
    const char *tmp = getenv("BENCH_TMP");
    if (cc == NULL || root == NULL || tmp == NULL) {
        bench_die("include.header_ms: start it by run.sh");
    }
    char path[600], empty[1400], header[1400];
    snprintf(path, sizeof path, "%s/empty.c", tmp);
    write_file(path, "int hcq_bench_empty;\n");
    snprintf(path, sizeof path, "%s/header.c", tmp);
    write_file(path, "#include \"hcq.h\"\nint hcq_bench_empty;\n");
    snprintf(empty, sizeof empty, "%s -O2 -c '%s/empty.c' -o '%s/empty.o'", cc, tmp, tmp);
    snprintf(header, sizeof header, "%s -O2 -I'%s' -c '%s/header.c' -o '%s/header.o'", cc, root,
             tmp, tmp);
    double differences[MAX_PAIRS], alone[MAX_PAIRS];
    uint32_t pairs = bench_quick() ? 11 : MAX_PAIRS;
    compile_ms(empty);
    compile_ms(header);
    for (uint32_t i = 0; i < pairs; i++) {
        alone[i] = compile_ms(empty);
        differences[i] = compile_ms(header) - alone[i];
    }
    result->ours = bench_median(differences, pairs);
    bench_extra_add(result, "empty_file_ms", bench_median(alone, pairs));
}
