"""How runs reach the code that executes them: the supervisor asks and listens, slots run one run at a time each."""
