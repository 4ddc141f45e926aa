"""Environments and their versions: packages, builds, what they need, bundles."""
