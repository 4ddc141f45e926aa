"""Running an environment's rollouts: its runner in a box, the interceptor for its model calls, the records of both."""
