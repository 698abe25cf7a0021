hcq_queue_wait(q, hcq_at(s, 1));
hcq_queue_submit(q, dev, &done);                    /* held: nobody raises s yet */
hcq_queue_signal(c, hcq_at(s, 1));
hcq_queue_submit(c, dev, NULL);                     /* releases it */
r = hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER);
