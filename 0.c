VkBuffer handle;                                    /* our memory in your commands */
VkDeviceSize offset;
r = hcq_vulkan_buffer(x, &handle, &offset);
VkSemaphore semaphore;                              /* your queue waits for our work */
uint64_t value;
r = hcq_queue_submit(q, dev, &done);
if (r == HCQ_OK) { r = hcq_vulkan_point(dev, done, &semaphore, &value); }
hcq_point frame;                                    /* our work waits for yours: */
if (r == HCQ_OK) { r = hcq_vulkan_import_point(dev, engine_semaphore, engine_value, &frame); }
