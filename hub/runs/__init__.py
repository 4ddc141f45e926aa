"""Queued pieces of work: states, leases, heartbeats, sweeper, logs, workers. Knows no kind of run."""
