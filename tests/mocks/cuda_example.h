/* cuda_example.h - the mock of CUDA's driver runs the kernels that an example has for the
   CPU. Include behind the example; then MOCK_CUDA_TELL(name) for each. */
#ifndef HCQ_TEST_MOCK_CUDA_EXAMPLE_H
#define HCQ_TEST_MOCK_CUDA_EXAMPLE_H

#include "cuda.h"

MOCK_CUDA_UNUSED static void mock_cuda_tell(const char *entry, mock_cuda_fn fn) {
    mock_cuda_api api;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library && mock_cuda_load(library, &api)) {
        api.kernel(entry, fn);
    }
}

#define MOCK_CUDA_TELL(name)                                                       \
    MOCK_CUDA_KERNEL(mock_cuda_##name) {                                           \
        const hcq_block b = {hcq_dim(id[0], id[1], id[2]),                         \
                             hcq_dim(grid[0], grid[1], grid[2]),                   \
                             hcq_dim(block[0], block[1], block[2])};               \
        name(args, &b);                                                            \
    }                                                                              \
    __attribute__((constructor)) static void mock_cuda_tell_##name(void) {         \
        mock_cuda_tell(#name, mock_cuda_##name);                                   \
    }

#endif /* HCQ_TEST_MOCK_CUDA_EXAMPLE_H */
