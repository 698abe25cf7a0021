/* libcuda.c - a CUDA driver library for tests; see cuda.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "cuda.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* The examples' kernels. */
#include "cuda_kernels.h"

#include "cuda_base.h"
#include "cuda_memory.h"
#include "cuda_modules.h"
#include "cuda_queues.h"
#include "cuda_device.h"
#include "cuda_streams.h"
#include "cuda_alloc.h"
#include "cuda_graphs.h"
#include "cuda_control.h"
