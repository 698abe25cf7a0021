intptr_t fd;                                        /* poll it, then close it */
hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_queue_signal(q, hcq_at(t, 1));
r = hcq_notify_handle(hcq_at(t, 1), &fd, NULL);
hcq_submission work;
memset(&work, 0, sizeof work);
work.queues = &q;
work.queue_count = 1;
uint64_t deadline = HCQ_DEADLINE(hcq_sys_now_ns() + 1000000000);
if (r == HCQ_OK) { r = hcq_submit_and_wait(dev, &work, 1, deadline, &done); }
