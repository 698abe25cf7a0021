hcq_buffer temporary;
hcq_point ready;
r = hcq_alloc_after(dev, NULL, 0, x.size, 0, &temporary, &ready);
hcq_queue_wait(q, ready);
hcq_queue_copy(q, temporary, x, x.size);
hcq_queue_copy(q, y, temporary, x.size);
hcq_queue_submit(q, dev, &done);
r = hcq_free_after(temporary, &done, 1, NULL);      /* used again once `done` is */
