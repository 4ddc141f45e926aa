"""What can go wrong with a journal. Each message names the file or the step and says what to do.

JournalError
|-- CorruptBatch      a file is not what the manifest says
|-- CorruptManifest   a line of the manifest cannot be read
|-- MissingBatch      the step was never committed, or was pruned, or its file is gone
|-- WrongStep         a batch was appended out of order
`-- JournalBusy       another process writes this journal
"""

from __future__ import annotations


class JournalError(Exception):
    """Base of all."""


class CorruptBatch(JournalError):
    """A batch's file is damaged, cut short, or another one."""


class CorruptManifest(JournalError):
    """The manifest is damaged before its last line."""


class MissingBatch(JournalError):
    """There is no batch of that step to read."""


class WrongStep(JournalError):
    """Steps are consecutive."""


class JournalBusy(JournalError):
    """One writer only."""
