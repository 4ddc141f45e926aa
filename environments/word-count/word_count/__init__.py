"""Count the words of a line: a taskset of verifiers' current generation."""

from word_count.taskset import WordCountTaskset

__all__ = ["WordCountTaskset"]
