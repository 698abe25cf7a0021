/* vulkan_loader.h - makes hcq_vulkan.h ask the mock for Vulkan's functions.
   Include before hcq.h with its implementation; vulkan.h comes after it. */
#pragma once

#if !defined(_GNU_SOURCE) && !defined(_WIN32)
#define _GNU_SOURCE /* as hcq.h does; before any system header */
#endif
#include <vulkan/vulkan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The mock's functions while mock_vk_options.on, else those of the system's
   loader; NULL where there is none. */
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL mock_vk_loader(VkInstance instance, const char *name);

#ifdef __cplusplus
}
#endif

#define HCQ_VULKAN_LOADER mock_vk_loader
