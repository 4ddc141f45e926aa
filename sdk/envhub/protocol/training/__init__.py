"""Training runs: what crosses a process, the hosted TOML and what this system adds to it, what a run will need."""
