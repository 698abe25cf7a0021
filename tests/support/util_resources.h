/* util_resources.h - what a process has: open files, threads, mapped files, heap.
   Part of util.h, whose set-up and tear-down count around every test.

   After a test there is no more than before it. Threads that are ending have
   seconds for it. Anonymous mappings are the C library's (stacks, arenas) and count
   as heap. The first test comes after one opening and closing, so that what stays
   loaded for good is there before.

   Heap is counted where nothing else changes it: glibc must keep no caches of its
   own (TEST_TUNABLES, which run.sh sets), a system's driver does, a sanitizer has its
   own count at the end of the process, and cmocka keeps a note of a test that skips.
   A GPU's driver maps what it keeps, too, once it is first used. */
#pragma once

#include <dirent.h>
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#include <malloc.h>
#define TEST_HAS_MALLINFO (!TEST_SANITIZED)
#else
#define TEST_HAS_MALLINFO 0
#endif
#define TEST_TUNABLES "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:" \
                      "glibc.pthread.stack_cache_size=0"

typedef struct test_resources { uint64_t files, threads, mappings, heap; } test_resources;

typedef struct test_rules {
    int heap;                          /* counts */
    int driver_threads;                /* stay: those that are not hcq's do not count */
    int mappings;                      /* of files count */
} test_rules;

/* Is it a thread of hcq, which names them? */
static int test_is_own_thread(const char *number) {
    char path[300], name[4] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", number);
    FILE *comm = fopen(path, "r");
    int own = comm && fgets(name, sizeof name, comm) && strcmp(name, "hcq") == 0;
    if (comm) {
        fclose(comm);
    }
    return own;
}

/* Entries of a folder, or threads that are hcq's; 0: there is no such folder. */
static uint64_t test_entries(const char *path, int own_threads) {
    DIR *folder = opendir(path);
    const struct dirent *entry;
    uint64_t count = 0;
    while (folder && (entry = readdir(folder)) != NULL) {
        count += entry->d_name[0] != '.' && (!own_threads || test_is_own_thread(entry->d_name));
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* Mapped files: an inode that is not 0, the word before the path. */
static uint64_t test_mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    uint64_t count = 0;
    unsigned long inode;
    while (maps && fgets(line, sizeof line, maps)) {
        count += sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && inode;
    }
    if (maps) {
        fclose(maps);
    }
    return count;
}

static int test_heap_is_bare(void) {
    const char *tunables = getenv("GLIBC_TUNABLES");
    return TEST_HAS_MALLINFO && tunables && strstr(tunables, TEST_TUNABLES);
}

static uint64_t test_heap(void) {
#if TEST_HAS_MALLINFO
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

static TEST_UNUSED uint64_t test_own_threads(void) {
    return test_entries("/proc/self/task", 1);
}

static test_resources test_resources_now(test_rules rules) {
    test_resources r = {test_entries("/proc/self/fd", 0),
                        test_entries("/proc/self/task", rules.driver_threads),
                        rules.mappings ? test_mappings() : 0, rules.heap ? test_heap() : 0};
    return r;
}

/* 0 = nothing is left of the test; threads that were joined may still be ending. */
static int test_resources_left(const test_resources *before, test_rules rules) {
    test_resources now = test_resources_now(rules);
    for (uint32_t ms = 0; ms < 10000 && now.threads > before->threads; ms++) {
        mock_sleep(1000000);
        now = test_resources_now(rules);
    }
    if (now.files <= before->files && now.threads <= before->threads &&
        now.mappings <= before->mappings && now.heap <= before->heap) {
        return 0;
    }
    fprintf(stderr, "teardown: before the test and now: %llu %llu files, %llu %llu threads, "
            "%llu %llu mappings of files, %llu %llu bytes of heap\n",
            (unsigned long long)before->files, (unsigned long long)now.files,
            (unsigned long long)before->threads, (unsigned long long)now.threads,
            (unsigned long long)before->mappings, (unsigned long long)now.mappings,
            (unsigned long long)before->heap, (unsigned long long)now.heap);
    return 1;
}
