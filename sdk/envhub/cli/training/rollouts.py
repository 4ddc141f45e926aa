"""`hub train rollouts`: the rollouts of a step, or one of them with its conversation or its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import exp
from typing import Annotated

import typer
from pydantic import ValidationError

from envhub.cli.terminal import ids
from envhub.cli.terminal.conversation import print_rollout
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.cli.training.commands import TrainingId
from envhub.cli.training.views import Used
from envhub.errors import UsageError
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens


def rollouts(
    ctx: typer.Context,
    training_id: TrainingId,
    index: Annotated[
        int | None, typer.Argument(help="Print this rollout of the step in full.", parser=ids.index)
    ] = None,
    step: Annotated[int | None, typer.Option(help="Rollouts of this step (default: the newest).")] = None,
    environment: Annotated[str | None, typer.Option("--env", help="Only for this environment.")] = None,
    outcome: Annotated[str | None, typer.Option(help="ok, truncated or failed.")] = None,
    used: Used = None,
    label: Annotated[
        str | None,
        typer.Option(help="Only with this label (any: with at least one); from all steps unless --step is given."),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="With an index: print token by token.")] = False,
    limit: Annotated[int, typer.Option(min=1)] = 50,
    json: JsonFlag = False,
) -> None:
    """List the rollouts of a step, or print one."""
    session = current(ctx)
    if tokens and index is None:
        raise UsageError("--tokens shows one rollout", hint="hub train rollouts RUN INDEX --step N --tokens")
    if index is not None:
        _print_one(session, training_id, _step(session, training_id, step), index, tokens=tokens)
        return
    rows = session.hub.training.rollouts(
        training_id, step=step, environment=environment, outcome=outcome, used=used, label=label
    )
    found = list(islice(rows, limit))
    table = [(row.step, row.index, row.environment, row.example, row.outcome, row.reward, row.advantage, row.asked,
              row.answered, row.target, row.turns, row.completion_tokens, row.duration_s,
              row.dropped or ("" if row.admitted else "not used"), ", ".join(row.labels), row.failure_message[:60])
             for row in found]  # fmt: skip
    columns = ("step", "index", "environment", "example", "outcome", "reward", "advantage", "prompt", "answer",
               "target", "turns", "tokens", "seconds", "dropped", "labels", "failure")  # fmt: skip
    session.show(found, lambda: session.table(columns, table, "no rollouts", LISTED))


def _step(session: Session, training_id: str, step: int | None) -> int:
    found = step if step is not None else session.hub.training.get(training_id).step
    if not found:
        raise UsageError(f"training run {training_id} has finished no step yet")
    return found


def _print_one(session: Session, training_id: str, step: int, index: int, *, tokens: bool) -> None:
    record = session.hub.training.rollout(training_id, step, index)
    if not tokens:
        session.show(record, lambda: print_rollout(session, record))
        return
    rows = list(token_rows(record))
    columns = ("turn", "token", "text", "trained", "advantage", "sampler", "learner", "ratio", "version")
    value = [dict(zip(columns, row, strict=True)) for row in rows]
    session.show(value, lambda: session.table(columns, rows, "no tokens were recorded"))


LISTED = Fit(
    drop=(
        "seconds",
        "tokens",
        "turns",
        "target",
        "advantage",
        "example",
        "environment",
        "answer",
        "prompt",
        "labels",
        "dropped",
    ),
    wrap=("failure", "dropped"),
    cut=("prompt", "answer", "target"),
)


def token_rows(record: RolloutRecord) -> Iterator[tuple[object, ...]]:
    """(turn, token id, text, trained, advantage, sampler's and learner's log probability, ratio, weight version)."""
    try:
        training = RolloutTokens.model_validate(record.extras.get(TOKENS_KEY) or {})
    except ValidationError:
        training = RolloutTokens()
    for number, turn in enumerate(turn for turn in record.turns if turn.route == "policy"):
        if turn.tokens is None:  # its place among the notes is kept
            continue
        notes = training.turns[number].model_dump() if number < len(training.turns) else {}
        for place, token in enumerate(turn.tokens.completion_ids):
            sampler = _at(turn.tokens.logprobs, place)
            learner = _at(notes.get("logprobs", ()), place)
            ratio = exp(learner - sampler) if sampler is not None and learner is not None else None
            trained = "yes" if place < len(notes.get("trained", ())) and notes["trained"][place] else ""
            text = repr(turn.token_texts[place])[1:-1] if place < len(turn.token_texts) else ""
            version = _at(notes.get("versions", ()), place)
            yield (number, token, text, trained, _at(notes.get("advantages", ()), place), sampler, learner, ratio,
                   version)  # fmt: skip


def _at(values: tuple[float, ...], place: int) -> float | None:
    return values[place] if place < len(values) else None
