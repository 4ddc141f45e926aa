"""Evaluations: the plan, the rollouts, their records, the summary's raw material."""
