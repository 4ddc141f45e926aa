"""Which waiting run goes where and when: fairness, GPUs, clusters of hosts; and why one waits, in words."""
