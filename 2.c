hcq_queue_wait(q, hcq_at(s, 1));                    /* not before s is 1 ... */
hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_queue_signal(q, hcq_at(t, 7));                  /* ... and then t is 7 */
hcq_queue_submit(q, dev, NULL);
hcq_signal_set(s, 1);
hcq_point both[2] = { hcq_at(s, 1), hcq_at(t, 7) };
r = hcq_wait(both, 2, HCQ_ALL, HCQ_FOREVER);
