/* cuda_example.h - the mock of CUDA's driver runs the kernels that an example has for the
   CPU. Include behind the example; then MOCK_CUDA_TELL(name) for each. */
#pragma once

#include "cuda.h"

__attribute__((unused)) static void mock_cuda_tell(const char *entry, mock_cuda_fn fn) {
    mock_cuda_api api;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library && mock_cuda_load(library, &api)) {
        api.kernel(entry, fn);
    }
}

#define MOCK_CUDA_TELL(name)                                                       \
    __attribute__((constructor)) static void mock_cuda_tell_##name(void) {         \
        mock_cuda_tell(#name, name##_cpu);                                         \
    }
