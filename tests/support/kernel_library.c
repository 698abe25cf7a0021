/* Kernels for the tests of programs that come from a shared library:
   cc -fPIC -shared -I. tests/support/kernel_library.c -o kernels.so */
#include "hcq.h"

typedef struct {
    uint64_t data;
    uint32_t value, count;
} library_args;

void library_add(const void *args, const hcq_block *block);

/* data[i] += value for i < count */
void library_add(const void *args, const hcq_block *block) {
    const library_args *k = HCQ_ARGS(library_args, args);
    uint32_t *data = HCQ_PTR(uint32_t, k->data);
    HCQ_FOR_THREADS(block, t) {
        uint32_t i = block->id.x * block->block.x + t.x;
        if (i < k->count) {
            data[i] += k->value;
        }
    }
}
