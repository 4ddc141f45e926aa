"""What verifiers saved on disk, to and from rollout records."""
