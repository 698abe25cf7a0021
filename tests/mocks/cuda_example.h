/* cuda_example.h - the mock of CUDA's driver runs the kernels that an example has for the
   CPU. Include behind the example; then MOCK_CUDA_TELL(name) for each. */
#pragma once

#include "cuda.h"

#define MOCK_CUDA_TELL(name)                                                       \
    __attribute__((constructor)) static void mock_cuda_tell_##name(void) {         \
        mock_cuda_tell("libcuda.so.1", #name, name##_cpu);                         \
    }
