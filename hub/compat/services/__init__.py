"""Writes for Prime's clients: pushes and results as they send them."""
