int32_t exec = hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_queue_variable(q, 0, HCQ_PART_ARG + 3, 0, 0);   /* variable 0: the argument n */
r = hcq_queue_bind(q, dev);
for (int32_t a = 1; a <= 3 && r == HCQ_OK && exec == 0; a++) {
    uint64_t n = 500;
    hcq_submission work = { NULL, 0, &q, 1, NULL, 0, 0, 0, NULL, 0, &n, 1 };
    hcq_queue_update_arg(q, 0, 2, &a, sizeof a);    /* argument 2 of command 0 */
    r = hcq_submit(dev, &work, 1, &done);
}
