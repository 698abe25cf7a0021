/* implementation.c - the library as the tests want it: most programs of a configuration
   share one. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#ifdef HCQ_TEST_VULKAN
#define HCQ_VULKAN
#include "mocks/vulkan_loader.h"
#endif
#ifdef HCQ_TEST_CUDA
#define HCQ_CUDA
extern const char *test_cuda_library;
#define HCQ_CUDA_LIBRARY test_cuda_library
#endif
#include "../../hcq.h"
