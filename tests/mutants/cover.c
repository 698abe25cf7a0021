/* cover.c - which functions of the library a test enters, and which tests a program
   has. Part of every program that mutants.py builds; only the unbroken library calls
   the first half (-finstrument-functions).

   MUTANTS_COVER=FILE   a byte of FILE becomes 1 for each function that is entered, at
                        its offset in the library; also by children and at a crash
   MUTANTS_LIST=1       prints the names of the tests instead of running them
   MUTANTS_TEST=NAME    runs only this one */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define QUIET __attribute__((no_instrument_function))
enum { MAP_BYTES = 1 << 24 };

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);
typedef int run_fn(const char *name, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown);
run_fn __real__cmocka_run_group_tests, __wrap__cmocka_run_group_tests;

static unsigned char *map;

QUIET static __attribute__((constructor)) void open_map(void) {
    const char *path = getenv("MUTANTS_COVER");
    int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, MAP_BYTES) != 0) { return; }
    void *at = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) { map = at; }
}

/* One place for a function: no two libraries of a program have instrumented ones. */
QUIET void __cyg_profile_func_enter(void *function, void *from) {
    static uintptr_t base;
    (void)from;
    if (map == NULL) { return; }
    if (base == 0) {
        Dl_info info;
        base = dladdr(function, &info) != 0 ? (uintptr_t)info.dli_fbase : UINTPTR_MAX;
    }
    uintptr_t at = (uintptr_t)function - base;
    if (at < MAP_BYTES && map[at] == 0) { map[at] = 1; }
}

QUIET void __cyg_profile_func_exit(void *function, void *from) {
    (void)function;
    (void)from;
}

QUIET int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests,
                                         size_t count, CMFixtureFunction setup,
                                         CMFixtureFunction teardown) {
    if (getenv("MUTANTS_LIST")) {
        for (size_t i = 0; i < count; i++) { printf("test: %s\n", tests[i].name); }
        return 0;
    }
    if (getenv("MUTANTS_TEST")) { cmocka_set_test_filter(getenv("MUTANTS_TEST")); }
    return __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
}
