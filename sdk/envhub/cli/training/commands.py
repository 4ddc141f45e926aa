"""`hub train list|show|logs|metrics|checkpoints|stop|export|delete`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from envhub.cli.runs import print_log
from envhub.cli.terminal import completing
from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.export_format import format_of
from envhub.cli.terminal.owners import OnlyOwner
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.short_ids import id_in, is_whole
from envhub.cli.terminal.tables import Fit
from envhub.cli.training.check import amount
from envhub.cli.training.follow import sparkline
from envhub.cli.training.summary import print_training
from envhub.errors import UsageError
from envhub.protocol.training.log import ALL, lines_of, processes_of
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.visibility import Visibility

SHOWN = 5  # runs of one name in a message


def find_training(ctx: typer.Context, text: str) -> str:
    """The id in what was typed, or of the only run of that name: one's own, or OWNER/NAME. Raises UsageError."""
    if ctx.resilient_parsing:  # a shell completes what comes after it
        return text
    session, given = current(ctx), id_in(text)
    if is_whole(given) or ("/" in text and given):
        return given if is_whole(given) else session.hub.training.get(given).id
    owner, slash, name = text.rpartition("/")
    listed = session.hub.training.list(owner=owner if slash else session.owner, name=name) if name else ()
    named = [view for view in listed if view.name == name]
    if len(named) == 1:
        return named[0].id
    if not named and given:
        return session.hub.training.get(given).id
    if not named:
        raise UsageError(f"no training run has the id or name {text!r}", hint="`hub train list` shows them.")
    ids = ", ".join(f"{view.id} ({view.state}, {view.created_at:%Y-%m-%d %H:%M})" for view in named[:SHOWN])
    raise UsageError(f"{len(named)} training runs are called {text!r}", hint=f"Give an id; the newest: {ids}.")


TrainingId = Annotated[
    str,
    typer.Argument(
        help="The training run's id (the first characters are enough), address or name.",
        callback=find_training,
        autocompletion=completing.training_runs,
    ),
]
LISTED = Fit(drop=("created", "environments", "model", "reward"))
METRICS = Fit(drop=("staleness", "grad", "failed", "truncated", "zero signal", "entropy", "seconds", "KL"))
_FORMATS = {".jsonl": "jsonl", ".parquet": "parquet", ".tfevents": "tensorboard"}


def list_training(
    ctx: typer.Context,
    owner: OnlyOwner = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Only for this model.", autocompletion=completing.models)
    ] = None,
    limit: Annotated[int, typer.Option(min=1)] = 30,
    json: JsonFlag = False,
) -> None:
    """List training runs, newest first."""
    session = current(ctx)
    found = list(islice(session.hub.training.list(owner=owner, model=model), limit))
    rows = [(item.id, item.name, item.model, ", ".join(item.environments), item.state, f"{item.step}/{item.max_steps}",
             item.latest.reward_mean if item.latest else None, item.created_at) for item in found]  # fmt: skip
    columns = ("id", "name", "model", "environments", "state", "step", "reward", "created")
    session.show(found, lambda: session.table(columns, rows, "no training runs", LISTED))


def show(ctx: typer.Context, training_id: TrainingId, json: JsonFlag = False) -> None:
    """Show a run: progress, newest step, evaluations, health and results."""
    session = current(ctx)
    view = session.hub.training.get(training_id)
    session.show(view, lambda: print_training(session, view))


def logs(
    ctx: typer.Context,
    training_id: TrainingId,
    process: Annotated[
        str, typer.Option(help="Only lines of this process: run, learner, engine or an environment's name.")
    ] = ALL,
    follow_log: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the run ends.")] = False,
    json: JsonFlag = False,
) -> None:
    """Print the log of a training run."""
    session = current(ctx)
    view = session.hub.training.get(training_id)
    if view.run_id is None:
        raise UsageError(f"training run {training_id} has no log")
    if process not in (known := processes_of(view.labels)):
        raise UsageError(f"no process is called {process!r}", hint=f"Give one of {', '.join(known)}.")

    def select(pieces: Iterator[str]) -> Iterator[str]:
        if process == ALL:
            return pieces
        return (f"{line.text}\n" for line in lines_of(pieces, view.labels) if line.process == process)

    print_log(session, view.run_id, follow=follow_log, select=select)


def metrics(
    ctx: typer.Context,
    training_id: TrainingId,
    after_step: Annotated[int | None, typer.Option("--after", help="Only steps after this one.")] = None,
    last: Annotated[int, typer.Option(min=1, help="Only the newest ones, this many.")] = 50,
    json: JsonFlag = False,
) -> None:
    """Print the main metrics of each step; --json prints all metrics of every step."""
    session = current(ctx)
    steps = list(session.hub.training.metrics(training_id, after_step=after_step))
    session.show(steps, lambda: _print_metrics(session, steps, last))


def _print_metrics(session: Session, steps: list[StepMetrics], last: int) -> None:
    rewards = [step.reward_mean for step in steps if step.reward_mean is not None]
    if rewards:
        session.out.print(f"reward {sparkline(rewards)} {rewards[-1]:.4g} (first {rewards[0]:.4g})")
    rows = [(step.step, step.reward_mean, step.losses.get("loss"), step.kl, step.entropy, step.grad_norm,
             f"{step.truncated_share:.0%}", f"{step.zero_signal_share:.0%}", f"{step.failed_share:.0%}",
             step.staleness_mean, round(step.tokens_per_s), step.seconds.get("step"))
            for step in steps[-last:]]  # fmt: skip
    columns = ("step", "reward", "loss", "KL", "entropy", "grad", "truncated", "zero signal", "failed", "staleness",
               "tok/s", "seconds")  # fmt: skip
    session.table(columns, rows, "no step yet", METRICS)


def checkpoints(ctx: typer.Context, training_id: TrainingId, json: JsonFlag = False) -> None:
    """List the kept checkpoints. To start from one, set `checkpoint_id` in a TOML."""
    session = current(ctx)
    found = list(session.hub.training.checkpoints(training_id))
    rows = [(item.id, item.step, amount(item.size), "final" if item.final else "", item.created_at) for item in found]
    session.show(found, lambda: session.table(("id", "step", "size", "", "created"), rows, "no checkpoint yet"))


def stop(ctx: typer.Context, training_id: TrainingId, json: JsonFlag = False) -> None:
    """End a run after its current step; its results so far are kept."""
    session = current(ctx)
    view = session.hub.training.stop(training_id)
    session.show(view, lambda: session.out.print("stopped" if view.state.is_final else "stopping"))


def export(
    ctx: typer.Context,
    training_id: TrainingId,
    kind: Annotated[
        Literal["jsonl", "parquet", "tensorboard"] | None,
        typer.Option(
            "--format", "-f", help="Metrics (jsonl, tensorboard) or rollouts (parquet); default: by file name."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.", dir_okay=False)] = None,
    labels: Annotated[bool, typer.Option("--labels", help="For rollouts: add their labels as a column.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write metrics or rollouts to a file."""
    session = current(ctx)
    chosen = format_of(kind, output, _FORMATS)
    ending = next(ending for ending, format in _FORMATS.items() if format == chosen)
    target = output or Path(f"training-{training_id}{ending}")
    session.hub.training.export(training_id, target, format=chosen, labels=labels)
    session.show({"file": str(target)}, lambda: session.out.print(f"wrote {target}", markup=False))


def set_visibility(
    ctx: typer.Context,
    training_id: TrainingId,
    visibility: Annotated[Visibility, typer.Option(help="Who may see it.")],
    json: JsonFlag = False,
) -> None:
    """Change who may see a run and its adapters."""
    session = current(ctx)
    view = session.hub.training.share(training_id, visibility)
    session.show(view, lambda: session.out.print(f"{view.id}: {view.visibility}"))


def delete(
    ctx: typer.Context,
    training_id: TrainingId,
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """Delete a run with its metrics, rollouts and checkpoints; its models are kept."""
    session = current(ctx)
    ask_to_delete(session, f"training run {training_id}", yes=yes)
    session.hub.training.delete(training_id)
    session.show({"deleted": training_id}, lambda: session.out.print("deleted"))
