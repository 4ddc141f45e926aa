"""`hub train`."""
