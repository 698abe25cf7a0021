#include "kernel.cuh"

static const word TOLD = 80;

struct told { word count, ids[TOLD]; };

KERNEL(tell)(volatile told *list, word id) {
    if (first_of_block()) {
        word at = list->count;
        list->ids[at % TOLD] = id;
        list->count = at + 1;
    }
}
