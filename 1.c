hcq_queue_fill(q, y, y.size, 7, 4);                 /* command 0: y = 7, 7, 7 ... */
hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));     /* 1 */
for (int i = 0; i < 3; i++) {
    r = hcq_queue_submit(q, dev, &done);
}
