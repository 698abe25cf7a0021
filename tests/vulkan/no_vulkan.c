/* no_vulkan.c - a program with Vulkan compiled in, on a machine that has none.

   no_vulkan TEXT: TEXT has to be in what is logged. tests/run.sh takes Vulkan away. */
#define HCQ_IMPLEMENTATION
#define HCQ_CPU
#define HCQ_VULKAN
#include "../../hcq.h"
#include "support/no_driver.h"

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: no_vulkan TEXT\n");
        return 2;
    }
    return none("VULKAN", argv[1]) ? 0 : 1;
}
