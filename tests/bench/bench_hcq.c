/* bench_hcq.c - the library itself, compiled as a user would. */

#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#include "../../hcq.h"
