"""A training run over several hosts, by Ray: imported by processes of their own alone (driver, learner, keepers)."""
