/* A kernel for the tests of programs that come from a shared library:
   cc -fPIC -shared -I. tests/support/kernel_library.c -o kernels.so */
#include "hcq.h"
#include "shared.k"

void library_add(const void *args, const hcq_block *block);

void (*library_ends)(void);            /* called when it is unloaded, if somebody set it */
__attribute__((destructor)) static void library_end(void) {
    if (library_ends) { library_ends(); }
}

void library_add(const void *args, const hcq_block *block) {
    add_cpu(args, block);
}
