"""Step batches on disk, so that the learner is a function of (checkpoint, journal). numpy and safetensors only."""
