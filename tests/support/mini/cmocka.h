/* cmocka.h - a stand-in for cmocka on machines that have none (tests/gpu.sh): what
   the programs that run there use of it, in one header for a program of one source
   file. Names and lines are those of cmocka 1.1: whoever reads them need not know
   which of the two wrote them.

   A failed check ends its test by a jump to the runner. A signal is not caught:
   it ends the program. Where the next run shall go on from there, two variables
   of the environment say how: MINI_CMOCKA_AFTER=NAME leaves out all tests up to
   NAME, MINI_CMOCKA_LIMIT=SECONDS ends the program if a test takes longer. */
#pragma once

#include <fnmatch.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MINI __attribute__((unused)) static

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state;
};

enum { MINI_OK, MINI_FAILED, MINI_SKIPPED };

static struct {
    jmp_buf end;                       /* of the part of a test that runs now */
    const char *filter;
} mini;

/* ---- what tests call ---- */

MINI __attribute__((noreturn)) void _fail(const char *file, int line) {
    fprintf(stderr, "[   LINE   ] --- %s:%d: error: Failure!\n", file, line);
    longjmp(mini.end, MINI_FAILED);
}
#define fail() _fail(__FILE__, __LINE__)
#define skip() longjmp(mini.end, MINI_SKIPPED)
#define fail_msg(...) (fprintf(stderr, "ERROR: " __VA_ARGS__), fprintf(stderr, "\n"), fail())

MINI void cmocka_set_test_filter(const char *pattern) {
    mini.filter = pattern;
}

/* ---- the runner ---- */

/* Runs a test or a fixture; a check that fails ends it. */
MINI int mini_part(void (*test)(void **state), int (*fixture)(void **state), void **state) {
    int ended = setjmp(mini.end);
    if (ended != 0) {
        return ended;
    }
    if (test != NULL) {
        test(state);
    }
    return fixture != NULL && fixture(state) != 0 ? MINI_FAILED : MINI_OK;
}

MINI int mini_test(const struct CMUnitTest *test) {
    static const char *const words[] = {"       OK ", "  FAILED  ", "  SKIPPED "};
    const char *limit = getenv("MINI_CMOCKA_LIMIT");
    void *state = test->initial_state;
    printf("[ RUN      ] %s\n", test->name);
    int result = mini_part(NULL, test->setup_func, &state);
    if (result == MINI_OK) {
        if (limit != NULL) {           /* in place of the one that a set-up chose */
            alarm((unsigned)atoi(limit));
        }
        result = mini_part(test->test_func, NULL, &state);
        if (mini_part(NULL, test->teardown_func, &state) != MINI_OK) {
            result = MINI_FAILED;
        }
    }
    alarm(0);
    printf("[%s] %s\n", words[result], test->name);
    return result;
}

MINI int mini_is_chosen(const struct CMUnitTest *test, const char **after) {
    if (*after != NULL && **after != 0) {
        *after = strcmp(test->name, *after) == 0 ? NULL : *after;
        return 0;
    }
    return mini.filter == NULL || fnmatch(mini.filter, test->name, 0) == 0;
}

/* Returns how many failed. */
MINI int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                 int (*setup)(void **state), int (*teardown)(void **state)) {
    const char *after = getenv("MINI_CMOCKA_AFTER");
    int counts[3] = {0, 0, 0};
    void *state = NULL;
    setvbuf(stdout, NULL, _IONBF, 0);  /* beside stderr's lines */
    if (mini_part(NULL, setup, &state) != MINI_OK) {
        printf("[  ERROR   ] %s: group setup\n", name);
        return (int)count;
    }
    for (size_t i = 0; i < count; i++) {
        if (mini_is_chosen(&tests[i], &after)) {
            counts[mini_test(&tests[i])]++;
        }
    }
    (void)mini_part(NULL, teardown, &state);
    printf("[==========] %d test(s) run.\n", counts[0] + counts[1] + counts[2]);
    printf("[  PASSED  ] %d test(s).\n", counts[MINI_OK]);
    printf("[  SKIPPED ] %d test(s), named above\n", counts[MINI_SKIPPED]);
    printf("[  FAILED  ] %d test(s), named above\n", counts[MINI_FAILED]);
    return counts[MINI_FAILED];
}
