"""Published packages against a hub: `python -m tests.corpus DIR ...` pushes and evaluates each."""
