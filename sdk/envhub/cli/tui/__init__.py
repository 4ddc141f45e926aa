"""`hub tui`: results of the hub and of this machine in a full-screen terminal. Textual is imported here alone."""
