"""Backups: a snapshot of the database and the blobs that it refers to, encrypted, where the operator says."""
