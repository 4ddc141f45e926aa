"""`hub run list|show|logs|cancel|sandboxes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.ids import id_of
from envhub.cli.terminal.owners import OnlyOwner
from envhub.cli.terminal.progress import state_line
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.protocol.runs import RunKind, RunState, RunView
from envhub.protocol.sandboxes.live import LiveSandbox

LISTED = Fit(drop=("kind", "created"), wrap=("state",))
SANDBOXES = Fit(drop=("memory", "rollout", "last command"), cut=("last command",))


def _whole(session: Session, beginning: str) -> str:
    return session.hub.runs.get(beginning).id


RunId = Annotated[
    str,
    typer.Argument(
        help="The run's id (the first characters are enough) or address.",
        callback=id_of("a run", "hub run list", _whole),
        autocompletion=completing.runs,
    ),
]


def list_runs(
    ctx: typer.Context,
    kind: Annotated[RunKind | None, typer.Option(help="Only this kind.")] = None,
    state: Annotated[RunState | None, typer.Option(help="Only in this state.")] = None,
    owner: OnlyOwner = None,
    limit: Annotated[int, typer.Option(min=1)] = 30,
    json: JsonFlag = False,
) -> None:
    """List runs, newest first."""
    session = current(ctx)
    found = list(islice(session.hub.runs.list(kind=kind, state=state, owner=owner), limit))
    rows = [(run.id, run.kind, run.subject, state_line(run), run.created_at) for run in found]
    session.show(found, lambda: session.table(("id", "kind", "subject", "state", "created"), rows, "no runs", LISTED))


def show(ctx: typer.Context, run_id: RunId, json: JsonFlag = False) -> None:
    """Show one run: why it waits, its progress, why it failed."""
    session = current(ctx)
    run = session.hub.runs.get(run_id)
    session.show(run, lambda: print_run(session, run))


def print_run(session: Session, run: RunView) -> None:
    """Fields of a run for people."""
    progress = f"{run.progress.done}/{run.progress.total} {run.progress.unit}" if run.progress else ""
    failure = run.failure
    session.fields({"run": run.id, "kind": run.kind, "subject": run.subject, "state": state_line(run),
                    "attempt": run.attempt, "progress": progress, "created": run.created_at,
                    "started": run.started_at, "finished": run.finished_at,
                    "failure": f"{failure.message} ({failure.kind}, {failure.code})" if failure else "",
                    "hint": failure.hint if failure else "",
                    "trace": run.trace_url or run.trace_id})  # fmt: skip


def logs(
    ctx: typer.Context,
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the run ends.")] = False,
    json: JsonFlag = False,
) -> None:
    """Print a run's log."""
    print_log(current(ctx), run_id, follow=follow)


def print_log(
    session: Session, run_id: str, *, follow: bool, select: Callable[[Iterator[str]], Iterator[str]] = iter
) -> None:
    """The log's text (what `select` lets through) as it comes; under --json one JSON string of it all."""
    pieces = select(session.hub.runs.follow_log(run_id, follow=follow))
    if session.json:
        session.show({"run_id": run_id, "log": "".join(pieces)}, lambda: None)
        return
    for text in pieces:
        session.write(text)


def cancel(ctx: typer.Context, run_id: RunId, json: JsonFlag = False) -> None:
    """Cancel a run."""
    session = current(ctx)
    run = session.hub.runs.cancel(run_id)
    session.show(run, lambda: session.out.print(f"{run.id}: {'cancelled' if run.state.is_final else 'cancelling'}"))


def sandboxes(
    ctx: typer.Context,
    run_id: RunId,
    end: Annotated[list[str] | None, typer.Option(help="End this sandbox; the run may retry its rollout.")] = None,
    json: JsonFlag = False,
) -> None:
    """List a run's current sandboxes, newest first, with the last command of each."""
    session = current(ctx)
    for sandbox_id in end or ():
        session.hub.runs.end_sandbox(run_id, sandbox_id)
    found = session.hub.runs.sandboxes(run_id)
    states = {one.id: "ending" if one.id in found.ending else one.state for one in found.items}
    rows = [(one.id, states[one.id], one.rollout, one.image, _memory(one), _last(one)) for one in found.items]
    heads = ("id", "state", "rollout", "image", "memory", "last command")
    session.show(found, lambda: session.table(heads, rows, "no sandbox lives in this run now", SANDBOXES))


def _memory(sandbox: LiveSandbox) -> str:
    used = "–" if sandbox.memory_bytes is None else f"{sandbox.memory_bytes / 1024**2:.0f}"
    return f"{used} of {sandbox.memory_mb} MB"


def _last(sandbox: LiveSandbox) -> str:
    if sandbox.waits_for:
        return f"waits for {sandbox.waits_for}"
    return f"{sandbox.last[-1].line[:60]} (exit {sandbox.last[-1].exit_code})" if sandbox.last else ""
