"""`hub eval replay`: a stored rollout again up to one of its model calls, and on from there with any model."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.evaluations.annotate import Example, Rollout
from envhub.cli.evaluations.commands import EvaluationId
from envhub.cli.evaluations.files import validated
from envhub.cli.evaluations.run import start_all
from envhub.cli.terminal import completing
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.references import model_reference
from envhub.cli.terminal.session import JsonFlag, current
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import Replay

Calls = Annotated[int, typer.Option("--calls", min=0, help="How many model calls get their stored answers.")]
GoingOn = Annotated[int, typer.Option("--rollouts", "-r", min=1, help="How many rollouts continue from there.")]
Temperature = Annotated[float | None, typer.Option("--temperature", "-T", help="Sampling temperature.")]
MostTokens = Annotated[int | None, typer.Option("--max-tokens", "-t", help="Maximum tokens in one answer.")]
EvaluationOwner = Annotated[str | None, owner_option("Whose evaluation (default: yours).")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")]


def replay(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    example: Example,
    rollout: Rollout,
    calls: Calls,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model that answers from there on (default: the same).",
            autocompletion=completing.models,
        ),
    ] = None,
    rollouts: GoingOn = 1,
    version: Annotated[str | None, typer.Option(help="Version of the environment (default: the evaluation's).")] = None,
    temperature: Temperature = None,
    max_tokens: MostTokens = None,
    owner: EvaluationOwner = None,
    wait: Wait = True,
    json: JsonFlag = False,
) -> None:
    """Replay a rollout up to a model call, then continue with a model.

    The environment, its tools and its sandboxes run again. If they send the model a different request than in the
    stored rollout, its page says so. All other settings are the evaluation's; `hub eval run --replay` can change them.
    """
    session = current(ctx)
    view = session.hub.evaluations.get(evaluation_id)
    sampling = sampled(view.config.get("sampling"), temperature=temperature, max_tokens=max_tokens)
    at = version or view.version
    config = validated(
        {
            **view.config,
            "environment": f"{view.environment}@{at}" if at else view.environment,
            "model": model_reference(session, model or view.model),
            "rollouts_per_example": rollouts,
            "sampling": sampling,
            "name": "",
            "visibility": None,
            "replay": Replay(evaluation=view.id, example=example, rollout=rollout, calls=calls),
        }
    )
    start_all(session, [config], owner=owner, wait=wait)


def sampled(before: JsonObject | None, **given: float | None) -> JsonObject:
    """Sampling as it was, but for what is given."""
    return {**(before or {}), **{name: value for name, value in given.items() if value is not None}}
