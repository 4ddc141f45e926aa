"""`hub eval list|show|rollouts|logs|cancel|resume|delete`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

import typer

from envhub.cli.evaluations.follow import exit_unless_scored, follow
from envhub.cli.evaluations.summary import coverage, origin, print_summary, print_with_failure, score
from envhub.cli.runs import print_log
from envhub.cli.terminal import completing
from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.conversation import print_rollout
from envhub.cli.terminal.ids import id_of, index
from envhub.cli.terminal.owners import OnlyOwner
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.errors import UsageError
from envhub.protocol.visibility import Visibility


def _whole(session: Session, beginning: str) -> str:
    return session.hub.evaluations.get(beginning).id


LISTED = Fit(drop=("source", "coverage", "created", "state", "model"))
ROLLOUTS = Fit(
    drop=("seconds", "tokens", "turns", "prompt", "target"), wrap=("failure",), cut=("prompt", "answer", "target")
)

EVALUATION = id_of("an evaluation", "hub eval list", _whole)  # reads one, whole or not
EvaluationId = Annotated[
    str,
    typer.Argument(
        help="The evaluation's id (the first characters are enough) or address.",
        callback=EVALUATION,
        autocompletion=completing.evaluations,
    ),
]


def list_evaluations(
    ctx: typer.Context,
    environment: Annotated[
        str | None,
        typer.Argument(
            help="Only for owner/name[@version], or name for your own.", autocompletion=completing.environments
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Only for this model.", autocompletion=completing.models)
    ] = None,
    owner: OnlyOwner = None,
    limit: Annotated[int, typer.Option(min=1)] = 30,
    json: JsonFlag = False,
) -> None:
    """List evaluations, newest first."""
    session = current(ctx)
    wanted = str(parse(session, environment)) if environment else None
    found = list(islice(session.hub.evaluations.list(environment=wanted, model=model, owner=owner), limit))
    rows = [(item.id, item.environment, item.model, item.state, score(item.summary), coverage(item.summary),
             origin(item), item.created_at) for item in found]  # fmt: skip
    columns = ("id", "environment", "model", "state", "reward", "coverage", "source", "created")
    session.show(found, lambda: session.table(columns, rows, "no evaluations", LISTED))


def show(ctx: typer.Context, evaluation_id: EvaluationId, json: JsonFlag = False) -> None:
    """Show an evaluation's summary."""
    session = current(ctx)
    view = session.hub.evaluations.get(evaluation_id)
    session.show(view, lambda: print_with_failure(session, view))


def rollouts(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    example: Annotated[int | None, typer.Argument(help="Only this example.", parser=index)] = None,
    rollout: Annotated[int | None, typer.Argument(help="Print this rollout in full.", parser=index)] = None,
    outcome: Annotated[str | None, typer.Option(help="ok, truncated or failed.")] = None,
    min_reward: Annotated[float | None, typer.Option()] = None,
    max_reward: Annotated[float | None, typer.Option()] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label; any: with at least one.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Only of this cluster; `hub eval clusters` names them.")] = None,
    among: Annotated[str | None, typer.Option(help="Only these examples and rollouts, as in 3,10-14,20.1.")] = None,
    sort: Annotated[
        Literal["example", "newest", "reward", "-reward"], typer.Option(help="-reward: highest first.")
    ] = "example",
    limit: Annotated[int, typer.Option(min=1)] = 50,
    json: JsonFlag = False,
) -> None:
    """List rollouts, or print one with its conversation."""
    session = current(ctx)
    if example is not None and rollout is not None:
        record = session.hub.evaluations.rollout(evaluation_id, example, rollout)
        session.show(record, lambda: print_rollout(session, record))
        return
    found = list(islice(session.hub.evaluations.rollouts(
        evaluation_id, outcome=outcome, min_reward=min_reward, max_reward=max_reward, example=example, label=label,
        cluster=cluster, among=among, sort=sort,
    ), limit))  # fmt: skip
    rows = [(row.example, row.rollout, row.outcome, row.reward, row.asked, row.answered, row.target, row.turns,
             row.usage.completion_tokens, row.duration_s, row.failure_message, ", ".join(row.labels))
            for row in found]  # fmt: skip
    columns = ("example", "rollout", "outcome", "reward", "prompt", "answer", "target", "turns", "tokens", "seconds",
               "failure", "labels")  # fmt: skip
    session.show(found, lambda: session.table(columns, rows, "no rollouts", ROLLOUTS))


def clusters(ctx: typer.Context, evaluation_id: EvaluationId, json: JsonFlag = False) -> None:
    """List rollouts that failed with the same message or gave the same wrong answer."""
    session = current(ctx)
    found = session.hub.evaluations.clusters(evaluation_id)
    rows = [(one.name, one.count, one.examples, f"{one.example}/{one.rollout}", one.message, one.target)
            for one in found.clusters]  # fmt: skip
    columns = ("cluster", "rollouts", "examples", "such as", "message", "target")
    session.show(found, lambda: session.table(columns, rows, "no rollouts that failed or answered alike"))


def logs(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    follow_log: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the run ends.")] = False,
    json: JsonFlag = False,
) -> None:
    """Print the log of an evaluation's run."""
    session = current(ctx)
    print_log(session, _run_of(session, evaluation_id), follow=follow_log)


def cancel(ctx: typer.Context, evaluation_id: EvaluationId, json: JsonFlag = False) -> None:
    """Cancel an evaluation; stored rollouts are kept."""
    session = current(ctx)
    run = session.hub.runs.cancel(_run_of(session, evaluation_id))
    session.show(run, lambda: session.out.print("cancelled" if run.state.is_final else "cancelling"))


def _run_of(session: Session, evaluation_id: str) -> str:
    run_id = session.hub.evaluations.get(evaluation_id).run_id
    if run_id is None:
        raise UsageError(f"evaluation {evaluation_id} was uploaded, it has no run")
    return run_id


def resume(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")] = True,
    json: JsonFlag = False,
) -> None:
    """Run the missing rollouts of an evaluation that was cancelled or failed."""
    session = current(ctx)
    view = session.hub.evaluations.resume(evaluation_id)
    ended = follow(session, view) if wait else view
    session.show(ended, lambda: print_summary(session, ended))
    if wait:
        exit_unless_scored([ended])


def set_visibility(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    visibility: Annotated[Visibility, typer.Option(help="Who may see it.")],
    json: JsonFlag = False,
) -> None:
    """Change who may see an evaluation."""
    session = current(ctx)
    view = session.hub.evaluations.share(evaluation_id, visibility)
    session.show(view, lambda: session.out.print(f"{view.id}: {view.visibility}"))


def delete(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """Delete an evaluation and its rollouts."""
    session = current(ctx)
    ask_to_delete(session, f"evaluation {evaluation_id}", yes=yes)
    session.hub.evaluations.delete(evaluation_id)
    session.show({"deleted": evaluation_id}, lambda: session.out.print("deleted"))
