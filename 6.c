hcq_signal_label(s, "uploads");
hcq_queue_label(q, "draw");
hcq_queue_wait(q, hcq_at(s, 1));
hcq_queue_submit(q, dev, &done);
r = hcq_wait(&done, 1, HCQ_ALL, 1000000);           /* a millisecond */
if (r == HCQ_TIMEOUT) {
    static char text[4096];
    hcq_explain(&done, 1, text, sizeof text);
    puts(text);
}
r = hcq_signal_set(s, 1);
