"""The worker: a client of the hub that runs builds, evaluations and training in sandboxes. No database, no Django."""
