"""What decides which worker has a run: GPUs, clusters, abilities, releases."""
