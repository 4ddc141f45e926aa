"""Dependencies locked by uv, within the bounds of a constraint set and of the package."""
