"""Models: registered endpoints, local model directories."""
