"""What keeps a training run going: its directory, its engine and learner processes, stalls, reports to the hub."""
