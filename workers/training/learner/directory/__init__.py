"""What lies in a run's directory, as the learner and its keeper share it."""
