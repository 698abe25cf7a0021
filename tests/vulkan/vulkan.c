/* vulkan.c - what only the Vulkan backend does: replay, arguments by bindings, native edges,
   memory in blocks, the pipeline cache, handles for engines.

   vulkan [VARIANT] [--quick], VARIANT vulkan or vulkan-*. Needs -DHCQ_TEST_VULKAN. */
#include "support/util.h"

#include "replay.h"
#include "programs.h"
#include "devices.h"
#include "memory.h"
#include "engine.h"

int main(int argc, char **argv) {
    int result = test_start(argc, argv);
    if (result == 0 && !T.variant_given) {
        T.variant = test_find_variant("vulkan");
        result = test_start_vulkan();
    }
    if (result == 0 && (!is_vulkan() || T.variant->inner || T.variant->driver)) {
        fprintf(stderr, "these tests need the system's Vulkan\n");
        return 77;
    }
    return result ? result : test_run();
}
