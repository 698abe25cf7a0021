r = hcq_profile_start(dev, NULL);
hcq_queue_exec(q, axpy, &args, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_queue_submit(q, dev, &done);
hcq_wait(&done, 1, HCQ_ALL, HCQ_FOREVER);
hcq_profile_stop(dev);
static char table[4096];
hcq_profile_print(&dev, 1, HCQ_PROFILE_SUMMARY, table, sizeof table);
puts(table);
