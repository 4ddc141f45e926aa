"""A run's life as the worker sees it: claim, lease, log, artifacts, last word. Every kind of work builds on it."""
