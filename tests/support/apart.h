/* apart.h - before a program that is linked with implementation.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define HCQ_TEST_HEADER "declarations.h"
