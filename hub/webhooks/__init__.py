"""Webhooks: what happens to an owner is told to addresses that the owner names, signed, at least once."""
