hcq_buffer staging;                                 /* memory that the host can see */
hcq_alloc(dev, x.size, HCQ_HOST_VISIBLE, &staging);
memcpy(staging.host, data, sizeof data);
hcq_queue_copy(c, x, staging, x.size);
hcq_queue_signal(c, hcq_at(s, 1));
hcq_queue_wait(q, hcq_at(s, 1));
hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_queue_submit(c, dev, NULL);
hcq_queue_submit(q, dev, &done);
hcq_free(staging);                                  /* legal: it lives until then */
r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER);
