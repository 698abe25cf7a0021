/* cmocka.h - a stand-in for cmocka on machines that have none (tests/gpu.sh): what
   our tests use of it, in one header for a program of one source file. Names,
   arguments and closing lines are those of cmocka 1.1, so that whoever reads
   these lines need not know which of the two wrote them.

       cc -Itests/mini tests/conformance/conformance.c ...

   A failed check ends its test by a jump to the runner. A signal is not caught:
   it ends the program. Where the next run shall go on from there, two variables
   of the environment say how: MINI_CMOCKA_AFTER=NAME leaves out all tests up to
   NAME, MINI_CMOCKA_LIMIT=SECONDS ends the program if a test takes longer. */
#ifndef HCQ_TEST_MINI_CMOCKA_H
#define HCQ_TEST_MINI_CMOCKA_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CMOCKA_UNUSED __attribute__((unused))

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func;
    CMFixtureFunction teardown_func;
    void *initial_state;
};

#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}

enum { MINI_OK, MINI_FAILED, MINI_SKIPPED, MINI_LEFT_OUT };

static struct {
    jmp_buf end;                       /* of the part of a test that runs now */
    const char *filter;
    time_t limit;                      /* seconds for one test, 0: none */
    time_t began;                      /* the one that runs, atomic; 0: none does */
    const char *running;
} mini;

/* ---- checks ---- */

static CMOCKA_UNUSED __attribute__((format(printf, 1, 2))) void print_error(const char *format,
                                                                          ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fflush(stderr);
}

static CMOCKA_UNUSED __attribute__((format(printf, 1, 2))) void print_message(const char *format,
                                                                            ...) {
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    fflush(stdout);
}

static CMOCKA_UNUSED __attribute__((noreturn)) void _fail(const char *file, int line) {
    print_error("[   LINE   ] --- %s:%d: error: Failure!\n", file, line);
    longjmp(mini.end, MINI_FAILED);
}

static CMOCKA_UNUSED __attribute__((noreturn)) void _skip(const char *file, int line) {
    (void)file;
    (void)line;
    longjmp(mini.end, MINI_SKIPPED);
}

static CMOCKA_UNUSED void mini_true(int holds, const char *text, const char *file, int line) {
    if (!holds) {
        print_error("[  ERROR   ] --- %s\n", text);
        _fail(file, line);
    }
}

static CMOCKA_UNUSED void mini_equal(unsigned long long a, unsigned long long b, int same,
                                     const char *file, int line) {
    if ((a == b) != same) {
        print_error("[  ERROR   ] --- %#llx %s %#llx\n", a, same ? "!=" : "==", b);
        _fail(file, line);
    }
}

static CMOCKA_UNUSED void mini_strings(const char *a, const char *b, const char *file, int line) {
    if (strcmp(a, b) != 0) {
        print_error("[  ERROR   ] --- \"%s\" != \"%s\"\n", a, b);
        _fail(file, line);
    }
}

static CMOCKA_UNUSED void mini_bytes(const void *a, const void *b, size_t size, const char *file,
                                     int line) {
    if (memcmp(a, b, size) != 0) {
        print_error("[  ERROR   ] --- %zu bytes differ\n", size);
        _fail(file, line);
    }
}

#define MINI_HERE __FILE__, __LINE__
#define MINI_NUMBER(x) ((unsigned long long)(x))
#define MINI_POINTER(x) ((unsigned long long)(uintptr_t)(x))

#define fail() _fail(MINI_HERE)
#define skip() _skip(MINI_HERE)
#define fail_msg(...) \
    do { \
        print_error("ERROR: " __VA_ARGS__); \
        print_error("\n"); \
        fail(); \
    } while (0)
#define assert_true(c) mini_true(!!(c), #c, MINI_HERE)
#define assert_false(c) mini_true(!(c), "not (" #c ")", MINI_HERE)
#define assert_non_null(c) mini_true((c) != NULL, #c " is NULL", MINI_HERE)
#define assert_null(c) mini_true((c) == NULL, #c " is not NULL", MINI_HERE)
#define assert_int_equal(a, b) mini_equal(MINI_NUMBER(a), MINI_NUMBER(b), 1, MINI_HERE)
#define assert_int_not_equal(a, b) mini_equal(MINI_NUMBER(a), MINI_NUMBER(b), 0, MINI_HERE)
#define assert_ptr_equal(a, b) mini_equal(MINI_POINTER(a), MINI_POINTER(b), 1, MINI_HERE)
#define assert_ptr_not_equal(a, b) mini_equal(MINI_POINTER(a), MINI_POINTER(b), 0, MINI_HERE)
#define assert_string_equal(a, b) mini_strings((a), (b), MINI_HERE)
#define assert_memory_equal(a, b, size) mini_bytes((a), (b), (size), MINI_HERE)

/* ---- the runner ---- */

/* `*` is any text, `?` any character. */
static CMOCKA_UNUSED int mini_matches(const char *pattern, const char *name) {
    for (; *pattern != 0; pattern++, name++) {
        if (*pattern == '*') {
            while (*name != 0 && !mini_matches(pattern + 1, name)) {
                name++;
            }
            return mini_matches(pattern + 1, name);
        }
        if (*name == 0 || (*pattern != '?' && *pattern != *name)) {
            return 0;
        }
    }
    return *name == 0;
}

static CMOCKA_UNUSED void cmocka_set_test_filter(const char *pattern) {
    mini.filter = pattern;
}

/* A check that fails in here ends it, too; 0: it went well. */
static CMOCKA_UNUSED int mini_fixture(CMFixtureFunction fn, void **state) {
    if (fn == NULL) {
        return 0;
    }
    if (setjmp(mini.end) != 0) {
        return -1;
    }
    return fn(state);
}

static CMOCKA_UNUSED int mini_body(CMUnitTestFunction fn, void **state) {
    int ended = setjmp(mini.end);
    if (ended == 0) {
        fn(state);
    }
    return ended;                      /* MINI_OK is 0 */
}

static CMOCKA_UNUSED int mini_test(const struct CMUnitTest *test) {
    void *state = test->initial_state;
    int result;
    print_message("[ RUN      ] %s\n", test->name);
    if (mini_fixture(test->setup_func, &state) != 0) {
        print_error("Could not run test: Test setup failed\n[  ERROR   ] %s\n", test->name);
        return MINI_FAILED;
    }
    result = mini_body(test->test_func, &state);
    if (mini_fixture(test->teardown_func, &state) != 0 && result != MINI_FAILED) {
        print_error("Could not run test: Test teardown failed\n[  ERROR   ] %s\n", test->name);
        return MINI_FAILED;
    }
    print_message("[%s] %s\n",
                  result == MINI_OK ? "       OK " : result == MINI_SKIPPED ? "  SKIPPED " :
                  "  FAILED  ", test->name);
    return result;
}

static CMOCKA_UNUSED size_t mini_count(const int *results, size_t count, int wanted) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += results[i] == wanted;
    }
    return n;
}

static CMOCKA_UNUSED void mini_list(const struct CMUnitTest *tests, const int *results,
                                    size_t count, int wanted, const char *word) {
    size_t n = mini_count(results, count, wanted);
    if (n != 0) {
        print_error("[  %-7s ] %zu test(s), listed below:\n", word, n);
    }
    for (size_t i = 0; i < count; i++) {
        if (results[i] == wanted) {
            print_error("[  %-7s ] %s\n", word, tests[i].name);
        }
    }
    if (n != 0) {
        print_error("\n %zu %s TEST(S)\n", n, word);
    }
}

static CMOCKA_UNUSED void *mini_watch(void *unused) {
    struct timespec pause = {0, 100000000};
    for (;;) {
        time_t began = __atomic_load_n(&mini.began, __ATOMIC_SEQ_CST);
        if (began != 0 && time(NULL) - began > mini.limit) {
            print_error("the test hangs: %s\n", mini.running);
            abort();
        }
        nanosleep(&pause, NULL);
    }
    return unused;
}

static CMOCKA_UNUSED void mini_watch_start(void) {
    const char *limit = getenv("MINI_CMOCKA_LIMIT");
    pthread_t thread;
    mini.limit = limit != NULL ? (time_t)atoi(limit) : 0;
    if (mini.limit > 0 && pthread_create(&thread, NULL, mini_watch, NULL) == 0) {
        pthread_detach(thread);
    }
}

static CMOCKA_UNUSED int mini_test_watched(const struct CMUnitTest *test) {
    mini.running = test->name;
    __atomic_store_n(&mini.began, time(NULL), __ATOMIC_SEQ_CST);
    int result = mini_test(test);
    __atomic_store_n(&mini.began, (time_t)0, __ATOMIC_SEQ_CST);
    return result;
}

/* Marks the tests that do not run; returns how many do. */
static CMOCKA_UNUSED size_t mini_choose(const struct CMUnitTest *tests, int *results,
                                        size_t count) {
    const char *after = getenv("MINI_CMOCKA_AFTER");
    size_t chosen = 0, first = 0;
    for (size_t i = 0; after != NULL && i < count; i++) {
        first = strcmp(tests[i].name, after) == 0 ? i + 1 : first;
    }
    for (size_t i = 0; i < count; i++) {
        int left_out = i < first ||
                       (mini.filter != NULL && !mini_matches(mini.filter, tests[i].name));
        results[i] = left_out ? MINI_LEFT_OUT : MINI_OK;
        chosen += !left_out;
    }
    return chosen;
}

/* Returns how many failed. */
static CMOCKA_UNUSED int mini_run(const char *name, const struct CMUnitTest *tests, size_t count,
                                  CMFixtureFunction setup, CMFixtureFunction teardown) {
    int *results = (int *)calloc(count + 1, sizeof *results);
    void *state = NULL;
    if (results == NULL || mini_fixture(setup, &state) != 0) {
        print_error("[  FAILED  ] GROUP SETUP of %s\n", name);
        free(results);
        return (int)count;
    }
    size_t chosen = mini_choose(tests, results, count);
    mini_watch_start();
    print_message("[==========] Running %zu test(s).\n", chosen);
    for (size_t i = 0; i < count; i++) {
        if (results[i] != MINI_LEFT_OUT) {
            results[i] = mini_test_watched(&tests[i]);
        }
    }
    print_message("[==========] %zu test(s) run.\n", chosen);
    if (mini_fixture(teardown, &state) != 0) {
        print_error("[  FAILED  ] GROUP TEARDOWN of %s\n", name);
    }
    print_error("[  PASSED  ] %zu test(s).\n", mini_count(results, count, MINI_OK));
    mini_list(tests, results, count, MINI_SKIPPED, "SKIPPED");
    mini_list(tests, results, count, MINI_FAILED, "FAILED");
    size_t failed = mini_count(results, count, MINI_FAILED);
    free(results);
    return (int)failed;
}

#define MINI_TESTS(tests) (tests), sizeof(tests) / sizeof((tests)[0])
#define cmocka_run_group_tests(tests, setup, teardown) \
    mini_run(#tests, MINI_TESTS(tests), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    mini_run(name, MINI_TESTS(tests), setup, teardown)

#endif /* HCQ_TEST_MINI_CMOCKA_H */
