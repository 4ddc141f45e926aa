"""Progress on standard error: bars on a terminal, a line a change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from envhub.cli.terminal.session import Session
from envhub.errors import ConnectionFailed, ServerError
from envhub.protocol.runs import RunView


@contextmanager
def transfer(session: Session, label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A byte counter; invisible off a terminal and under --json."""
    if session.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=session.err, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda moved: bar.advance(task, moved)


@contextmanager
def run_progress(session: Session, label: str) -> Iterator[Callable[[RunView], None]]:
    """Called with each state of a run."""
    if session.json:
        yield lambda _: None
    elif sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=session.err, transient=True) as bar:
            task = bar.add_task(label, total=None)
            yield lambda run: _move(bar, task, label, run)
    else:
        yield _Lines(session, label)


@contextmanager
def goes_on(session: Session, advice: str) -> Iterator[None]:
    """Ctrl-C ends the watching, not the work: say so. The same of a hub that was out of reach for too long."""
    try:
        yield
    except (KeyboardInterrupt, ConnectionFailed, ServerError):
        session.note(f"\nit goes on in the hub: {advice}")
        raise


class _Lines:
    """A line whenever the state, its note or a tenth of the work has changed."""

    def __init__(self, session: Session, label: str) -> None:
        self._session, self._label, self._last = session, label, ("", -1)

    def __call__(self, run: RunView) -> None:
        progress = run.progress
        tenth = 10 * progress.done // progress.total if progress and progress.total else 0
        shown = (state_line(run), tenth)
        if shown != self._last:
            self._last = shown
            counts = f" {progress.done}/{progress.total} {progress.unit}" if progress and progress.total else ""
            self._session.note(f"{self._label}: {shown[0]}{counts}")


def state_line(run: RunView) -> str:
    """The state with what it waits for or works on; a held run that was told to end is cancelling."""
    if run.cancel_requested and not run.state.is_final:
        return "cancelling"
    if run.waiting_for:
        return f"{run.state} ({run.waiting_for})"
    note = run.progress.note if run.progress else ""
    return f"{run.state}: {note}" if note and not run.state.is_final else str(run.state)


def _move(bar: Progress, task: TaskID, label: str, run: RunView) -> None:
    done, total = (run.progress.done, run.progress.total) if run.progress else (None, None)
    bar.update(task, description=f"{label}: {state_line(run)}", completed=done, total=total or None)
