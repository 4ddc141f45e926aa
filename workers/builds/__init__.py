"""Build runs: a version's package becomes a locked environment that was seen to load, describe itself and roll out."""
