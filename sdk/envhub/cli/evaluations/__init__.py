"""`hub eval`."""
