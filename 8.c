hcq_buffer half = hcq_view(x, x.size / 2, 0);       /* from the middle to the end */
r = hcq_copyin(half, data, half.size);
