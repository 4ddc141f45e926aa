"""Secret read-only links to results, for people without an account."""
