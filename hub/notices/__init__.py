"""What people are told: a run has ended, somebody has written a note."""
