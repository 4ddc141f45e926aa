"""What operators keep: users, workers, tokens, bundles."""
