"""What is said of an environment by its evaluations: leaderboard, cards of lists, scores that moved, watches."""
