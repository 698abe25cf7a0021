/* cmocka.h - a stand-in for cmocka on machines that have none (tests/gpu.sh): what
   the programs that run there use of it, in one header for a program of one source
   file. Names and lines are those of cmocka 1.1: whoever reads them need not know
   which of the two wrote them.

   A failed check ends its test by a jump to the runner. A signal is not caught:
   it ends the program. Where the next run shall go on from there, two variables
   of the environment say how: MINI_CMOCKA_AFTER=NAME leaves out all tests up to
   NAME, MINI_CMOCKA_LIMIT=SECONDS ends the program if a test takes longer. */
#ifndef HCQ_TEST_MINI_CMOCKA_H
#define HCQ_TEST_MINI_CMOCKA_H

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

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    mini_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

enum { MINI_OK, MINI_FAILED, MINI_SKIPPED, MINI_LEFT_OUT };

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

/* A check that fails in here ends it, too; 0: it went well. */
MINI int mini_fixture(int (*fn)(void **state), void **state, const char *what, const char *name) {
    if (fn == NULL || (setjmp(mini.end) == 0 && fn(state) == 0)) {
        return 0;
    }
    fprintf(stderr, "Could not run test: Test %s failed\n[  ERROR   ] %s\n", what, name);
    return -1;
}

MINI int mini_body(void (*fn)(void **state), void **state) {
    int ended = setjmp(mini.end);
    if (ended == 0) {
        fn(state);
    }
    return ended;                      /* MINI_OK is 0 */
}

MINI int mini_test(const struct CMUnitTest *test) {
    static const char *const words[] = {"       OK ", "  FAILED  ", "  SKIPPED "};
    const char *limit = getenv("MINI_CMOCKA_LIMIT");
    void *state = test->initial_state;
    printf("[ RUN      ] %s\n", test->name);
    int result = MINI_FAILED;
    if (mini_fixture(test->setup_func, &state, "setup", test->name) == 0) {
        if (limit != NULL) {           /* in place of the one that a set-up chose */
            alarm((unsigned)atoi(limit));
        }
        result = mini_body(test->test_func, &state);
        if (mini_fixture(test->teardown_func, &state, "teardown", test->name) != 0) {
            result = MINI_FAILED;
        }
        printf("[%s] %s\n", words[result], test->name);
    }
    alarm(0);
    return result;
}

/* Marks the tests that do not run; returns how many do. */
MINI size_t mini_choose(const struct CMUnitTest *tests, int *results, size_t count) {
    const char *after = getenv("MINI_CMOCKA_AFTER");
    size_t chosen = 0, first = 0;
    for (size_t i = 0; after != NULL && i < count; i++) {
        first = strcmp(tests[i].name, after) == 0 ? i + 1 : first;
    }
    for (size_t i = 0; i < count; i++) {
        int left_out = i < first ||
                       (mini.filter != NULL && fnmatch(mini.filter, tests[i].name, 0) != 0);
        results[i] = left_out ? MINI_LEFT_OUT : MINI_OK;
        chosen += !left_out;
    }
    return chosen;
}

/* Returns how many there are, and unless they passed lists them. */
MINI int mini_list(const struct CMUnitTest *tests, const int *results, size_t count, int wanted,
                   const char *word) {
    int n = 0;
    for (size_t i = 0; i < count; i++) {
        n += results[i] == wanted;
    }
    if (wanted == MINI_OK || n != 0) {
        fprintf(stderr, "[  %-7s ] %d test(s)%s\n", word, n,
                wanted == MINI_OK ? "." : ", listed below:");
    }
    for (size_t i = 0; wanted != MINI_OK && i < count; i++) {
        if (results[i] == wanted) {
            fprintf(stderr, "[  %-7s ] %s\n", word, tests[i].name);
        }
    }
    return n;
}

/* Returns how many failed. */
MINI int mini_run(const char *name, const struct CMUnitTest *tests, size_t count,
                  int (*setup)(void **state), int (*teardown)(void **state)) {
    int *results = (int *)calloc(count + 1, sizeof *results);
    void *state = NULL;
    size_t chosen = mini_choose(tests, results, count);
    setvbuf(stdout, NULL, _IONBF, 0);  /* beside stderr's lines */
    if (mini_fixture(setup, &state, "group setup", name) != 0) {
        free(results);
        return (int)count;
    }
    printf("[==========] Running %zu test(s).\n", chosen);
    for (size_t i = 0; i < count; i++) {
        if (results[i] != MINI_LEFT_OUT) {
            results[i] = mini_test(&tests[i]);
        }
    }
    printf("[==========] %zu test(s) run.\n", chosen);
    (void)mini_fixture(teardown, &state, "group teardown", name);
    mini_list(tests, results, count, MINI_OK, "PASSED");
    mini_list(tests, results, count, MINI_SKIPPED, "SKIPPED");
    int failed = mini_list(tests, results, count, MINI_FAILED, "FAILED");
    free(results);
    return failed;
}

#endif /* HCQ_TEST_MINI_CMOCKA_H */
