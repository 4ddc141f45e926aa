"""Sandboxes of rollouts and of users, and their images."""
