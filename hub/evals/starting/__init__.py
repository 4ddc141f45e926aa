"""The form that starts an evaluation: its fields, the command line that does the same, what stands in the way."""
