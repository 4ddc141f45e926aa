"""NothingToLearn: the run keeps making groups and none of them may train."""

from __future__ import annotations


class NothingToLearn(RuntimeError):
    """Too many groups in a row were refused; the message says why."""
