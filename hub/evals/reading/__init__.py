"""What is read of an evaluation: the transcript of a rollout, labels and notes, groups, clusters and oddities."""
