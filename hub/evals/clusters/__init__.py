"""Groups of rollouts that failed or answered alike."""
