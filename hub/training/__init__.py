"""Training runs: their steps, rollouts, evaluations, checkpoints and the adapters that they put into the catalog."""
