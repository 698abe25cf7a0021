/* cuda.c - what only the CUDA backend does: lanes over streams, events and stored
   words, native handles, memory, programs, replay as graphs, times, errors.

   cuda [VARIANT] [--quick] [--filter NAME], VARIANT cuda or cumock-*. Needs
   -DHCQ_TEST_CUDA; without a variant it is cumock. Most tests need the mock driver,
   with which they look at what hcq asks of CUDA; the others run on a GPU, too. */
static const char no_nvrtc[] = "libnvrtc-of-no-machine.so";
static const char *test_nvrtc = no_nvrtc; /* HCQ_CUDA_NVRTC */
#define HCQ_CUDA_NVRTC test_nvrtc
#include "support/util.h"

#include "calls.h"
#include "driver.h"
#include "lent.h"
#include "memory.h"
#include "mishaps.h"
#include "native.h"
#include "programs.h"
#include "replay.h"
#include "signals.h"

int main(int argc, char **argv) {
    int child = argc > 1 && strcmp(argv[1], "mishap") == 0;
    int result = child ? mishap_start(argc, argv) : test_start(argc, argv);
    if (result == 0 && !T.variant_given) {
        T.variant = test_find_variant("cumock");
        result = test_start_cuda();
    }
    if (result != 0) {
        return result;
    }
    if (!is_cuda()) {
        fprintf(stderr, "these tests are for variants of CUDA\n");
        return 77;
    }
    mocked = T.variant->cuda != NULL;
    if (mocked) {
        mock_again(0, 0);
    }
    for (size_t i = 0; mocked && i < sizeof own_kernels / sizeof own_kernels[0]; i++) {
        M.kernel(own_kernels[i].entry, own_kernels[i].fn);
    }
    return child ? mishap_main() : test_run();
}
