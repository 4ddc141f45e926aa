"""Secrets of owners, encrypted at rest, granted to runs by their starter."""
