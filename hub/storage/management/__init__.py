"""Management commands of the storage app."""
