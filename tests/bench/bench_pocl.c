/* bench_pocl.c - the chain of tiny kernels as a command buffer of OpenCL's. */

#define CL_TARGET_OPENCL_VERSION 120
#include "bench.h"

#include <stdio.h>
#include <string.h>

#include <CL/cl.h>
#include <CL/cl_ext.h>

static const char *g_source = "__kernel void tiny(__global ulong *p) { p[0] += 1; }";
static const size_t g_one = 1;

typedef struct pocl {
    cl_platform_id platform;
    cl_device_id device;
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem memory;
    cl_command_buffer_khr buffer;
    clEnqueueCommandBufferKHR_fn enqueue;
} pocl;

static void check(cl_int result, const char *what) {
    if (result != CL_SUCCESS) {
        bench_die("%s: OpenCL error %d", what, (int)result);
    }
}

/* The first CPU device of a platform that calls itself Portable. */
static int find_device(pocl *p) {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < count && i < 8; i++) {
        char name[128] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        p->platform = platforms[i];
        if (strstr(name, "Portable") != NULL &&
            clGetDeviceIDs(p->platform, CL_DEVICE_TYPE_CPU, 1, &p->device, NULL) == CL_SUCCESS) {
            return 1;
        }
    }
    return 0;
}

static void make_kernel(pocl *p) {
    cl_int r;
    uint64_t zero = 0;
    cl_context context = clCreateContext(NULL, 1, &p->device, NULL, NULL, &r);
    check(r, "clCreateContext");
    p->queue = clCreateCommandQueue(context, p->device, 0, &r);
    check(r, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &g_source, NULL, &r);
    check(r, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &p->device, "", NULL, NULL), "clBuildProgram");
    p->kernel = clCreateKernel(program, "tiny", &r);
    check(r, "clCreateKernel");
    p->memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero,
                               &zero, &r);
    check(r, "clCreateBuffer");
    check(clSetKernelArg(p->kernel, 0, sizeof p->memory, &p->memory), "clSetKernelArg");
}

/* Object pointer to function pointer, which ISO C has no cast for. */
static void load(const pocl *p, const char *name, void *fn, size_t size) {
    void *address = clGetExtensionFunctionAddressForPlatform(p->platform, name);
    if (address == NULL) {
        bench_die("PoCL without %s", name);
    }
    memcpy(fn, &address, size);
}

/* Each command names the one before it: the kernels are dependent. */
static void make_buffer(pocl *p) {
    clCreateCommandBufferKHR_fn create;
    clFinalizeCommandBufferKHR_fn finalize;
    clCommandNDRangeKernelKHR_fn command;
    cl_sync_point_khr last = 0, point = 0;
    cl_int r;
    load(p, "clCreateCommandBufferKHR", &create, sizeof create);
    load(p, "clFinalizeCommandBufferKHR", &finalize, sizeof finalize);
    load(p, "clEnqueueCommandBufferKHR", &p->enqueue, sizeof p->enqueue);
    load(p, "clCommandNDRangeKernelKHR", &command, sizeof command);
    p->buffer = create(1, &p->queue, NULL, &r);
    check(r, "clCreateCommandBufferKHR");
    for (uint32_t i = 0; i < BENCH_CHAIN; i++) {
        check(command(p->buffer, NULL, NULL, p->kernel, 1, NULL, &g_one, &g_one, i > 0,
                      i > 0 ? &last : NULL, &point, NULL), "clCommandNDRangeKernelKHR");
        last = point;
    }
    check(finalize(p->buffer), "clFinalizeCommandBufferKHR");
}

BENCH_RUN(replay_buffer, pocl, p) {
    check(p->enqueue(0, NULL, p->buffer, 0, NULL, NULL), "clEnqueueCommandBufferKHR");
    check(clFinish(p->queue), "clFinish");
}

static void check_buffer(pocl *p) {
    uint64_t value = 0;
    replay_buffer(p, 1);
    check(clEnqueueReadBuffer(p->queue, p->memory, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL),
          "clEnqueueReadBuffer");
    bench_counter(value, BENCH_CHAIN, "PoCL");
}

static void replay_1000_pocl(bench_result *result) {
    bench_chain chain;
    pocl p;
    if (!find_device(&p)) {
        bench_note(result, "SKIP: no PoCL");
        return;
    }
    bench_chain_open(&chain, BENCH_CHAIN);
    make_kernel(&p);
    make_buffer(&p);
    check_buffer(&p);
    bench_side sides[2] = {{bench_chain_replay, &chain}, {replay_buffer, &p}};
    bench_compare(result, sides, 2, 1.0 / BENCH_CHAIN);
    bench_note(result, "PoCL command buffer");
    bench_chain_close(&chain);
}

const bench bench_pocl_rows[] = {{"cpu.replay_1000_pocl", "ns/kernel", 1.0, replay_1000_pocl}, {0}};
