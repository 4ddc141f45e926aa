"""Environments, immutable versions, pushes, builds, the per-owner package index."""
