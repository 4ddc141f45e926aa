"""Follows a training run: on a terminal a live picture, elsewhere a line a step, under --json nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.console import Group
from rich.live import Live
from rich.text import Text

from envhub.cli.terminal.progress import state_line
from envhub.cli.terminal.session import Session, printable
from envhub.errors import ApiError, ConnectionFailed
from envhub.protocol.runs import RunView
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics
from envhub.protocol.training.runs import TrainingRunView

BARS = "▁▂▃▄▅▆▇█"
POLL_SECONDS = 1.0
Show = Callable[[RunView, Sequence[StepMetrics]], None]
Tell = Callable[[str], None]  # one line that stays, above the picture


def follow(session: Session, view: TrainingRunView) -> TrainingRunView:
    """Show the run until it has ended, from where it is; returns its final view. Ctrl-C leaves the run alone."""
    if view.run_id is None:
        return view
    steps: list[StepMetrics] = []
    told = {(point.label, point.step) for point in view.evaluations if point.step <= view.step}
    try:
        with _picture(session, view) as (show, tell):
            for run in session.hub.runs.watch(view.run_id, poll=POLL_SECONDS):
                new = _new_steps(session, view.id, steps)
                news: list[StepMetrics | EvaluationPoint] = [*new, *_new_points(session, view, new, told)]
                for item in sorted(news, key=lambda item: (item.step, isinstance(item, EvaluationPoint))):
                    if isinstance(item, EvaluationPoint):
                        tell(item.words())
                    else:
                        steps.append(item)
                        show(run, steps)
                show(run, steps)
    except KeyboardInterrupt:
        session.note(f"the run goes on; `hub train show {view.id}` looks at it, `hub train stop {view.id}` ends it")
        raise
    ended = session.hub.training.get(view.id)
    if ended.failure:
        session.note(f"{label(view)}: {ended.failure.message}")
        if ended.failure.hint:
            session.note(f"hint: {ended.failure.hint}")
    return ended


def _new_steps(session: Session, training_id: str, known: Sequence[StepMetrics]) -> list[StepMetrics]:
    """Steps after those that are known; none while the hub is away (the watcher counts how long)."""
    try:
        return list(session.hub.training.metrics(training_id, after_step=known[-1].step if known else None))
    except (ConnectionFailed, ApiError):
        return []


def _new_points(
    session: Session, view: TrainingRunView, new: Sequence[StepMetrics], told: set[tuple[str, int]]
) -> Iterator[EvaluationPoint]:
    """Evaluations that were not told yet: an evaluation ends after its step was reported."""
    points = [point for step in new for point in step.evaluations]
    if view.config.get("eval") or view.config.get("val"):
        with suppress(ConnectionFailed, ApiError):
            points += session.hub.training.get(view.id).evaluations
    for point in points:
        if (key := (point.label, point.step)) not in told:
            told.add(key)
            yield point


@contextmanager
def _picture(session: Session, view: TrainingRunView) -> Iterator[tuple[Show, Tell]]:
    if session.json:
        yield lambda run, steps: None, session.note
    elif sys.stderr.isatty():
        console = session.err
        with Live(console=console, transient=True, refresh_per_second=4) as live:
            yield (
                lambda run, steps: live.update(picture(view, run, steps)),
                lambda text: console.print(Text(printable(text))),
            )
    else:
        yield _Lines(session, view), session.note


class _Lines:
    """A line for each step after those of `view`, and one whenever the state changes."""

    def __init__(self, session: Session, view: TrainingRunView) -> None:
        self._session, self._view, self._state, self._step = session, view, "", view.step

    def __call__(self, run: RunView, steps: Sequence[StepMetrics]) -> None:
        if (state := _state(run, steps)) != self._state:
            self._session.note(f"{label(self._view)}: {state}")
            self._state = state
        for step in steps:
            if step.step > self._step:
                self._session.note(step_line(step, self._view.max_steps))
                self._step = step.step


def _state(run: RunView, steps: Sequence[StepMetrics]) -> str:
    """The state; what a running one works on only until its steps tell more."""
    return str(run.state) if steps and not run.waiting_for else state_line(run)


def picture(view: TrainingRunView, run: RunView, steps: Sequence[StepMetrics]) -> Group:
    """The live picture: state, the reward's course, the newest step."""
    lines = [Text(printable(f"{label(view)}: {_state(run, steps)}"), style="bold")]
    rewards = [step.reward_mean for step in steps if step.reward_mean is not None]
    if rewards:
        lines.append(Text(f"reward {sparkline(rewards)} {rewards[-1]:.4g} (first {rewards[0]:.4g})"))
    if steps:
        lines.append(Text(printable(step_line(steps[-1], view.max_steps))))
    return Group(*lines)


def label(view: TrainingRunView) -> str:
    """What the run is called in progress lines."""
    return view.name or f"{view.model} on {', '.join(view.environments)}"


def step_line(step: StepMetrics, max_steps: int) -> str:
    """One step in one line; what was not measured is left out."""
    parts = [f"step {step.step}/{max_steps}"]
    numbers = {"reward": step.reward_mean, "loss": step.losses.get("loss"), "kl": step.kl, "entropy": step.entropy}
    parts += [f"{name} {value:.3g}" for name, value in numbers.items() if value is not None]
    shares = {"truncated": step.truncated_share, "zero signal": step.zero_signal_share, "failed": step.failed_share}
    parts += [f"{name} {value:.0%}" if value >= 0.01 else f"{name} <1%" for name, value in shares.items() if value]
    if step.staleness_max:
        parts.append(f"staleness {step.staleness_mean:.1f}")
    if step.tokens_per_s:
        parts.append(f"{step.tokens_per_s:,.0f} tok/s")
    if "step" in step.seconds:
        parts.append(f"{step.seconds['step']:.1f} s")
    return "  ".join([*parts, *([f"skipped: {step.skipped}"] if step.skipped else [])])


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The course of a number in `width` characters: means of equal parts, between its lowest and highest."""
    if not values:
        return ""
    count = min(width, len(values))
    parts = [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    means = [sum(part) / len(part) for part in parts]
    low, span = min(means), max(means) - min(means)
    return "".join(BARS[int((mean - low) / span * (len(BARS) - 1) + 0.5) if span else 0] for mean in means)
