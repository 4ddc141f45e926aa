"""What every command shares: the session, its output, and the words people type."""
