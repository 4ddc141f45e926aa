"""Traces and logs of hub, workers and the command line."""
