"""Faster forms of what a model does, for GPU and CPU, that agree with its own."""
