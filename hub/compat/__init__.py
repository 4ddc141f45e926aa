"""What Prime's own clients speak (`prime`, `prime-evals`, `prime-runs`), over the services of this hub, below /prime.

The calls and fields are those that the clients send and read; what they never look at is left out. An environment's
id is its name here, so that nothing is stored for what has no version yet.
"""
