/* random.h - what the programs at random share: options of their own, dice. The first
   difference in any thread ends the program. */
#pragma once

#include "support/util.h"

static TEST_UNUSED uint64_t round_number;
static TEST_UNUSED void (*wrong_shows)(void); /* the program's own state; NULL: nothing */

/* Takes `name N` out of the arguments; 0: it is not among them. */
static TEST_UNUSED uint64_t own_option(int *argc, char **argv, const char *name) {
    uint64_t value = 0;
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], name) == 0 && i + 1 < *argc) {
            value = strtoull(argv[++i], NULL, 0);
        } else {
            argv[kept++] = argv[i];
        }
    }
    *argc = kept;
    return value;
}

static TEST_UNUSED uint32_t pick_from(uint64_t *random, uint32_t below) {
    return (uint32_t)(test_random(random) >> 33) % below;
}

/* From any thread; nothing after it would mean anything. */
static TEST_UNUSED void wrong(const char *format, ...) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    va_list list;
    pthread_mutex_lock(&once);
    fprintf(stderr, "\nvariant %s, seed %llu, round %llu: ", T.variant->name,
            (unsigned long long)T.seed, (unsigned long long)round_number);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    if (wrong_shows) {
        wrong_shows();
    }
    test_dump();
    fflush(stderr);
    abort();
}

#define WRONG_IF(condition, ...) \
    do { \
        if (condition) { wrong(__VA_ARGS__); } \
    } while (0)

static TEST_UNUSED void must(const char *what, hcq_result result) {
    WRONG_IF(result != HCQ_OK, "%s gives %s", what, hcq_result_name(result));
}
#define MUST(call) must(#call, (call))
