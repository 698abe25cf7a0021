/* libcuda.c - a CUDA driver library for tests; see cuda.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cuda_alloc.h"
#include "cuda_graphs.h"
#include "cuda_nvrtc.h"
#include "cuda_streams.h"
#include "cuda_control.h"
