// Foreign: the size of the workgroup as Vulkan 1.3 says it.
// target vulkan1.3
#version 450
layout(local_size_x_id = 3, local_size_y = 2) in;
void main() { }
