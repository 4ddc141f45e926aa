"""`hub sandbox`."""
