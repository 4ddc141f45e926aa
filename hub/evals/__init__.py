"""Evaluations: rollouts, segments, statistics, exports."""
