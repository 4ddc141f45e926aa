"""Bundles: versions with all that they run with, signed, for hubs without a network."""
