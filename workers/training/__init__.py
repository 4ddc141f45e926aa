"""Hosted training: a run's parts, each in a package of its own; `run.py` joins them. Called by workers.tasks."""
