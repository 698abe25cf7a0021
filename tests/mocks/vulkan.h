/* vulkan.h - a Vulkan driver that has what lavapipe has not: three queue
   families with several queues, memory of its own, short timestamps, low limits,
   missing extensions, errors and loss on demand.

   It executes, like a strict GPU: each VkQueue is a FIFO with a thread, and a
   batch whose waits are not met blocks everything behind it. Device addresses
   are not host pointers. Commands between two barriers run in any order, and
   what is not recorded for one submit begins with a barrier after all that was
   before and ends with one to the host. Objects that the user must not use from
   two threads at once have a plain counter that every call changes:
   ThreadSanitizer sees a missing lock even if the two calls never met.

   What the specification forbids of timelines, queues, lifetimes, limits and
   threads aborts with a line that begins with VKMOCK. The rest is for the
   validation layer, which looks at the same code on another driver.

   Shaders are not executed: mock_vk_lend_module makes a module that stands for a
   CPU kernel. Any other does nothing.

   Set mock_vk_options before the instance is made; zero is the default, in
   brackets. Include after hcq.h, whose implementation was compiled after
   vulkan_loader.h. */
#ifndef HCQ_TEST_MOCK_VULKAN_H
#define HCQ_TEST_MOCK_VULKAN_H

#include "vulkan_device.h"
#include "vulkan_variants.h"

#endif /* HCQ_TEST_MOCK_VULKAN_H */
