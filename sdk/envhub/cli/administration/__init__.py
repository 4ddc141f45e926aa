"""What operators keep: users, workers, tokens, images, bundles."""
