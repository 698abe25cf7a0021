hcq_queue *graph;
hcq_queue_create(dev, HCQ_GRAPH, &graph);
hcq_buffer in = hcq_input(graph, 0, NULL, x.size), scratch;
hcq_queue_empty(graph, NULL, x.size, 0, &scratch);  /* memory that it keeps */
hcq_queue_copy(graph, scratch, in, x.size);
axpy_args add = { y.address, scratch.address, 2, 1000 };
hcq_queue_exec(graph, axpy, &add, hcq_dim(16, 1, 1), hcq_dim(64, 1, 1));
hcq_submission launch;
memset(&launch, 0, sizeof launch);
launch.queues = &graph;
launch.queue_count = 1;
launch.inputs = &x;                                 /* input 0 of this launch */
launch.input_count = 1;
r = hcq_submit(dev, &launch, 1, &done);
