"""A frozen environment is tried in a box without network."""
