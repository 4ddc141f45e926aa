"""Template tags and filters of all pages."""
