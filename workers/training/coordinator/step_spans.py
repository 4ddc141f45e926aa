"""The spans of a training run's steps: rollouts of its batch, the learner's update, the weights' way to the engine.

With `max_off_policy` steps overlap: a group is shown below the step whose batch was being filled when it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from envhub.client.telemetry.tracing import NO_SPAN, Span, begin_span, inside, is_tracing


@dataclass
class StepSpan:
    """One step: the whole of it, and the part that it is in."""

    whole: Span
    part: Span

    def go_on(self, name: str) -> None:
        """The part is over, the next one begins."""
        self.part.end()
        self.part = begin_span(name, parent=self.whole)

    def end(self) -> None:
        """The step is over."""
        self.part.end()
        self.whole.end()


@dataclass
class StepSpans:
    """Those that are open, by the number of the step. Of steps that an earlier attempt has cut there are none."""

    _open: dict[int, StepSpan] = field(default_factory=dict)

    def rollouts(self, step: int) -> Span:
        """Above the groups that begin while the batch of `step` is being filled."""
        if not is_tracing():
            return NO_SPAN
        if step not in self._open:
            whole = begin_span(f"step {step}", {"envhub.step": step})
            self._open[step] = StepSpan(whole, begin_span("rollouts", parent=whole))
        return self._open[step].part

    def cut(self, step: int, rollouts: int) -> None:
        """Its batch is the learner's now."""
        if (found := self._open.get(step)) is not None:
            found.whole.set({"envhub.rollouts": rollouts})
            found.go_on("learner update")

    @contextmanager
    def published(self, step: int) -> Iterator[None]:
        """Its weights are there: what the block does for them belongs to the step, and ends it."""
        found = self._open.pop(step, None)
        if found is None:
            yield
            return
        found.part.end()
        try:
            with inside(found.whole):
                yield
        finally:
            found.end()

    def close(self) -> None:
        """What is still open ends with the run."""
        for step in self._open.values():
            step.end()
        self._open.clear()
