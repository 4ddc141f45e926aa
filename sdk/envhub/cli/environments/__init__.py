"""`hub env` and its short forms: init, push, pull, install."""
