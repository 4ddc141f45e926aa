"""Which groups and rollouts may train: signal, difficulty, filters, staleness, errors. Pure; for the coordinator."""
