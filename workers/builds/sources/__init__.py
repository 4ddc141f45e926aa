"""Sources, git repositories and files become wheels, once for everyone."""
