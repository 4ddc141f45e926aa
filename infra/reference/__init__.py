"""Pages of the documentation that are made from the code: `python -m infra.reference` writes them, a test compares."""
