/* bench_header.c - what including hcq.h without the implementation adds to a
   compilation: the time of such a file less the time of an empty one. */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

static double compile_ms(const char *lines) {
    char command[1400];
    snprintf(command, sizeof command, "printf '%sint hcq_bench_empty;\\n' | %s -O2 -I'%s' -x c"
             " -c - -o '%s/header.o'", lines, getenv("BENCH_CC"), getenv("BENCH_ROOT"),
             getenv("BENCH_TMP"));
    uint64_t start = bench_now();
    if (system(command) != 0) {
        bench_die("failed: %s", command);
    }
    return (double)(bench_now() - start) * 1e-6;
}

static void header_ms(bench_result *result) {
    enum { MAX_PAIRS = 41 };
    double differences[MAX_PAIRS], alone[MAX_PAIRS];
    uint32_t pairs = bench_of(1, 11, MAX_PAIRS);
    if (!getenv("BENCH_CC") || !getenv("BENCH_ROOT") || !getenv("BENCH_TMP")) {
        bench_die("include.header_ms: start it by run.sh");
    }
    compile_ms("#include \"hcq.h\"\\n");
    for (uint32_t i = 0; i < pairs; i++) {
        alone[i] = compile_ms("");
        differences[i] = compile_ms("#include \"hcq.h\"\\n") - alone[i];
    }
    result->ours = bench_median(differences, pairs);
    bench_extra_add(result, "empty_file_ms", bench_median(alone, pairs));
}

const bench bench_header_rows[] = {{"include.header_ms", "ms", 20.0, header_ms}, {0}};
