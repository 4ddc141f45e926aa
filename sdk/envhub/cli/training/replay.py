"""`hub train replay`: an evaluation of one example that begins as a rollout of a training run did."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from envhub.cli.evaluations.files import validated
from envhub.cli.evaluations.replay import Calls, EvaluationOwner, GoingOn, MostTokens, Temperature, Wait, sampled
from envhub.cli.evaluations.run import start_all
from envhub.cli.terminal import completing
from envhub.cli.terminal.references import model_reference
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.training.annotate import Rollout, Step
from envhub.cli.training.commands import TrainingId
from envhub.errors import NotFound, UsageError
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import Replay
from envhub.protocol.training.command import evaluation_like
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import TrainingRunView


def replay(
    ctx: typer.Context,
    training_id: TrainingId,
    step: Step,
    rollout: Rollout,
    calls: Calls,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model that answers from there on (default: the run's newest adapter).",
            autocompletion=completing.models,
        ),
    ] = None,
    rollouts: GoingOn = 1,
    temperature: Temperature = None,
    max_tokens: MostTokens = None,
    owner: EvaluationOwner = None,
    wait: Wait = True,
    json: JsonFlag = False,
) -> None:
    """Replay a rollout of a training run up to a model call, then continue with a model.

    The environment runs again, with the run's arguments and its sampling at that step. If it sends the model a
    different request than it did then, the rollout's page says so.
    """
    session = current(ctx)
    view = session.hub.training.get(training_id)
    label = _label(session, view.id, step, rollout)
    fields = settings_of(view, label, step)
    told: JsonObject = {
        "model": model_reference(session, model or _answering(view)),
        "rollouts_per_example": rollouts,
        "sampling": sampled(fields["sampling"], temperature=temperature, max_tokens=max_tokens),
        "replay": Replay(training=view.id, step=step, rollout=rollout, calls=calls),
    }
    start_all(session, [validated({**fields, **told})], owner=owner, wait=wait)


def _label(session: Session, training_id: str, step: int, index: int) -> str:
    """The environment of a rollout, as the run calls it. Raises NotFound."""
    row = next(session.hub.training.rollouts(training_id, step=step, after=index - 1 if index else None), None)
    if row is None or row.index != index:
        raise NotFound(f"step {step} has no rollout {index}", hint=f"hub train rollouts {training_id} --step {step}")
    return row.environment


def settings_of(view: TrainingRunView, label: str, step: int) -> JsonObject:
    """Fields of an evaluation that is made as the run makes its rollouts in an environment. Raises UsageError."""
    try:
        config = TrainingConfig.model_validate(view.config)
    except ValidationError as error:
        hint = f"`hub eval run ENVIRONMENT --replay training:{view.id}/{step}/INDEX/CALLS` lets you pass them yourself"
        raise UsageError("this client cannot read the settings of that run", hint=hint) from error
    place = [table.label for table in config.env].index(label)
    return {**evaluation_like(config, place, step), "environment": _pinned(view, config.env[place].reference)}


def _pinned(view: TrainingRunView, reference: str) -> str:
    """The version that the run took for what its configuration names. Raises UsageError."""
    named = reference if "/" in reference.partition("@")[0] else f"{view.owner}/{reference}"
    found = [one for one in view.environments if one == named or one.startswith(f"{named}@")]
    if not found and len(view.environments) > 1:  # it has another name today
        hint = "replay the rollout from its page"
        raise UsageError(f"the run's environment {named} has been renamed", hint=hint)
    return (found or list(view.environments))[0]


def _answering(view: TrainingRunView) -> str:
    """What the run has learnt, as far as the catalog has it; else what it began with."""
    if view.adapters:
        return f"{view.adapters[0].owner}/{view.adapters[0].name}"
    return view.model if "/" in view.model else f"{view.owner}/{view.model}"
