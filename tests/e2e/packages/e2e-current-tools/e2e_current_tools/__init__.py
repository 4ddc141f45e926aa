"""A library with a catalogue (shared tool) and a basket for each visitor (a tool with state)."""

from e2e_current_tools.taskset import Library

__all__ = ["Library"]
