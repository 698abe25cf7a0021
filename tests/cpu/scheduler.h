/* scheduler.h - a program's threads, one at a time, in every order.

   The program is compiled with -fsanitize=thread and linked with scheduler.c in
   the place of ThreadSanitizer's library. So every access to memory comes here,
   atomic ones with the order that the code asks for, and nothing in the code
   under test has to know. Threads, futexes and the clock are scheduler.c's, too.

   What a schedule may do, all of it drawn from C11 and x86:
   - each atomic access, futex call, start and end of a thread may be where
     another thread goes on;
   - a store that is not sequentially consistent may wait in its thread's store
     buffer, which is emptied in order: at any time, and at the latest before a
     read-modify-write or a system call of that thread;
   - a load may return an older value of its place than the newest, unless that
     was overwritten before the load in happens-before, the thread has seen a
     newer one, or both the load and what overwrote it are sequentially consistent;
   - a futex wait may return early, or because its time is over;
   - who reads the same again and again waits until one of the places it read
     changes, or time passes and it has read often enough.
   Without end would be more than two old values for a thread and one futex wait
   that returns early for nothing; a load never gives what is only stored later.

   What is wrong in any of them: a failed schedule_check, two accesses that no
   order keeps apart and of which one is a plain write or a plain access to what
   is written (whether or not they met), all threads asleep (a deadlock, or a wake-up
   is lost), no end. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SCHEDULE_ALL = 1000 };          /* departures */

/* One program, which is run from its beginning for each schedule. */
typedef struct schedule_test {
    const char *name;
    void (*run)(void);
    uint32_t departures[2];            /* quick, full: at most so many times does a schedule
                                          leave the usual way (go on; see the newest value; be
                                          seen at once); SCHEDULE_ALL: as often as it likes */
    uint32_t seeds[2];                 /* more schedules, drawn */
    const char *fails;                 /* what it must say; NULL: nothing */
} schedule_test;

/* `begin` comes before each run. */
int schedule_main(const schedule_test *tests, size_t count, void (*begin)(void), int argc,
                  char **argv);

/* For the program. Its first thread begins with no branching: each thread goes
   on until it cannot. */
void schedule_branch(int on);
void schedule_settle(void);            /* all others go on until they cannot */
int schedule_start(void (*fn)(void), const char *name);
void schedule_join(int thread);
void schedule_check(int ok, const char *text);
void *schedule_alloc(void *user, size_t size, size_t align); /* until the schedule's end */
void schedule_free(void *user, void *ptr, size_t size);

/* Plain accesses by the C library, for the code under test. */
void *schedule_memcpy(void *to, const void *from, size_t size);
void *schedule_memset(void *to, int value, size_t size);
