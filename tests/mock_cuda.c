/* mock_cuda.c - a CUDA driver library for tests; see mock_cuda.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "mock_cuda.h"

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
#ifdef __has_include
#if __has_include("mock_cuda_kernels.h")
#include "mock_cuda_kernels.h"
#endif
#endif

#include "mock_cuda_base.h"
#include "mock_cuda_memory.h"
#include "mock_cuda_modules.h"
#include "mock_cuda_queues.h"
#include "mock_cuda_device.h"
#include "mock_cuda_streams.h"
#include "mock_cuda_alloc.h"
#include "mock_cuda_graphs.h"
#include "mock_cuda_control.h"
