hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_queue_submit(q, dev, &done);
hcq_point all = hcq_at(hcq_device_timeline(dev), hcq_device_timeline_value(dev) - 1);
r = hcq_wait(&all, 1, HCQ_ALL, 1000000000);         /* up to a second; 0 polls */
