"""Token budgets that memory allowed or enforced. Written before a step is tried: a replay packs as the run did."""

from __future__ import annotations

from pathlib import Path

from workers.training.learner.directory.reports import Report, append_line, read_lines


class Budget(Report):
    """From `step` on, micro-batches hold `tokens` tokens."""

    step: int
    tokens: int


class Budgets:
    """The configured budget and what became of it."""

    def __init__(self, path: Path, configured: int) -> None:
        self._path, self._lines = path, [Budget(step=0, tokens=configured), *read_lines(path, Budget)]

    def at(self, step: int) -> int:
        """The budget that `step` is (or was) trained with."""
        return [line.tokens for line in self._lines if line.step <= step][-1]

    def begin(self, tokens: int) -> None:
        """What the run's first life found room for; later lives go on with that."""
        if len(self._lines) == 1 and tokens != self._lines[0].tokens:
            self._append(Budget(step=0, tokens=tokens))

    def note(self, step: int, tokens: int) -> None:
        """What another process had to take from `step` on."""
        if tokens < self.at(step):
            self._append(Budget(step=step, tokens=tokens))

    def halve(self, step: int) -> int:
        """Half of it from `step` on. Several processes may do so at once: each appends the same line."""
        line = Budget(step=step, tokens=self.at(step) // 2)
        self._append(line)
        return line.tokens

    def _append(self, line: Budget) -> None:
        append_line(self._path, line)
        self._lines.append(line)
