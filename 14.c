hcq_queue_wait(q, hcq_at(s, 1));
hcq_queue_signal(q, hcq_at(t, 1));
hcq_queue_submit(q, dev, NULL);
hcq_signal_fail(s, HCQ_ERROR_HOST);
hcq_point end = hcq_at(t, 1);
r = hcq_wait(&end, 1, HCQ_ALL, HCQ_FOREVER);
printf("%s\n", hcq_result_text(r));                 /* the text of HCQ_ERROR_HOST */
r = HCQ_OK;
