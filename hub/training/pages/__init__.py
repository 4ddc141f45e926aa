"""Pages of training runs, a module for each."""
