/* bench_pocl.c - the chain of tiny kernels through OpenCL: an in-order queue,
   and a command buffer where the platform has cl_khr_command_buffer. */

#define CL_TARGET_OPENCL_VERSION 120
#include "bench.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *g_source = "__kernel void tiny(__global ulong *p) { p[0] += 1; }";

typedef struct pocl {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem memory;
    uint32_t count;
#ifdef cl_khr_command_buffer
    cl_command_buffer_khr buffer;
    clCreateCommandBufferKHR_fn create;
    clFinalizeCommandBufferKHR_fn finalize;
    clReleaseCommandBufferKHR_fn release;
    clEnqueueCommandBufferKHR_fn enqueue;
    clCommandNDRangeKernelKHR_fn command;
#endif
} pocl;

static const size_t g_one = 1;

static void check(cl_int result, const char *what) {
    if (result != CL_SUCCESS) {
        bench_die("%s: OpenCL error %d", what, (int)result);
    }
}

/* The first CPU device of a platform that calls itself Portable. */
static int find_device(cl_platform_id *platform, cl_device_id *device) {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < count && i < 8; i++) {
        char name[128] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (strstr(name, "Portable") != NULL &&
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, device, NULL) == CL_SUCCESS) {
            *platform = platforms[i];
            return 1;
        }
    }
    return 0;
}

static void make_kernel(pocl *p, cl_device_id device) {
    cl_int r;
    uint64_t zero = 0;
    p->context = clCreateContext(NULL, 1, &device, NULL, NULL, &r);
    check(r, "clCreateContext");
    p->queue = clCreateCommandQueue(p->context, device, 0, &r);
    check(r, "clCreateCommandQueue");
    p->program = clCreateProgramWithSource(p->context, 1, &g_source, NULL, &r);
    check(r, "clCreateProgramWithSource");
    check(clBuildProgram(p->program, 1, &device, "", NULL, NULL), "clBuildProgram");
    p->kernel = clCreateKernel(p->program, "tiny", &r);
    check(r, "clCreateKernel");
    p->memory = clCreateBuffer(p->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero,
                               &zero, &r);
    check(r, "clCreateBuffer");
    check(clSetKernelArg(p->kernel, 0, sizeof p->memory, &p->memory), "clSetKernelArg");
}

#ifdef cl_khr_command_buffer
/* Object pointer to function pointer, which ISO C has no cast for. */
static void load(cl_platform_id platform, const char *name, void *fn, size_t size) {
    void *address = clGetExtensionFunctionAddressForPlatform(platform, name);
    memcpy(fn, &address, size);
}

static void make_buffer(pocl *p, cl_platform_id platform) {
    cl_int r;
    load(platform, "clCreateCommandBufferKHR", &p->create, sizeof p->create);
    load(platform, "clFinalizeCommandBufferKHR", &p->finalize, sizeof p->finalize);
    load(platform, "clReleaseCommandBufferKHR", &p->release, sizeof p->release);
    load(platform, "clEnqueueCommandBufferKHR", &p->enqueue, sizeof p->enqueue);
    load(platform, "clCommandNDRangeKernelKHR", &p->command, sizeof p->command);
    if (!p->create || !p->finalize || !p->release || !p->enqueue || !p->command) {
        return;
    }
    p->buffer = p->create(1, &p->queue, NULL, &r);
    if (r != CL_SUCCESS) {
        p->buffer = NULL;
        return;
    }
    /* Each command names the one before it: the kernels are dependent. */
    cl_sync_point_khr last = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        cl_sync_point_khr point = 0;
        check(p->command(p->buffer, NULL, NULL, p->kernel, 1, NULL, &g_one, &g_one, i > 0,
                         i > 0 ? &last : NULL, &point, NULL), "clCommandNDRangeKernelKHR");
        last = point;
    }
    check(p->finalize(p->buffer), "clFinalizeCommandBufferKHR");
}
#endif

void *bench_pocl_open(uint32_t count, char *note, size_t note_size) {
    cl_platform_id platform;
    cl_device_id device;
    if (!find_device(&platform, &device)) {
        snprintf(note, note_size, "no PoCL platform");
        return NULL;
    }
    pocl *p = (pocl *)calloc(1, sizeof *p);
    if (p == NULL) {
        bench_die("out of memory");
    }
    p->count = count;
    make_kernel(p, device);
#ifdef cl_khr_command_buffer
    make_buffer(p, platform);
#endif
    return p;
}

int bench_pocl_has_buffer(void *ctx) {
#ifdef cl_khr_command_buffer
    return ((const pocl *)ctx)->buffer != NULL;
#else
    (void)ctx;
    return 0;
#endif
}

void bench_pocl_replay_buffer(void *ctx, uint64_t n) {
#ifdef cl_khr_command_buffer
    pocl *p = (pocl *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        check(p->enqueue(0, NULL, p->buffer, 0, NULL, NULL), "clEnqueueCommandBufferKHR");
        check(clFinish(p->queue), "clFinish");
    }
#else
    (void)ctx;
    (void)n;
#endif
}

void bench_pocl_replay_queue(void *ctx, uint64_t n) {
    pocl *p = (pocl *)ctx;
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < p->count; k++) {
            check(clEnqueueNDRangeKernel(p->queue, p->kernel, 1, NULL, &g_one, &g_one, 0, NULL,
                                         NULL), "clEnqueueNDRangeKernel");
        }
        check(clFinish(p->queue), "clFinish");
    }
}

uint64_t bench_pocl_counter(void *ctx) {
    pocl *p = (pocl *)ctx;
    uint64_t value = 0;
    check(clEnqueueReadBuffer(p->queue, p->memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL),
          "clEnqueueReadBuffer");
    return value;
}

void bench_pocl_close(void *ctx) {
    pocl *p = (pocl *)ctx;
#ifdef cl_khr_command_buffer
    if (p->buffer != NULL) {
        p->release(p->buffer);
    }
#endif
    clReleaseMemObject(p->memory);
    clReleaseKernel(p->kernel);
    clReleaseProgram(p->program);
    clReleaseCommandQueue(p->queue);
    clReleaseContext(p->context);
    free(p);
}
