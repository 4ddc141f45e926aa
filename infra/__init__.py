"""What surrounds the processes: set-up scripts, containers, the demo."""
