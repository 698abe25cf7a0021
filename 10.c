int32_t a = 3;
uint32_t n = 1000;
hcq_buffer buffers[2] = { y, x };
uint64_t values[2] = { (uint64_t)a, n };
hcq_dims grid = hcq_dim(16, 1, 1), block = hcq_dim(64, 1, 1);
double seconds;
r = hcq_program_call(axpy, buffers, 2, values, 2, &grid, &block, &seconds);
