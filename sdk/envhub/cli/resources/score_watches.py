"""`hub notifications watch`: of which scores on an environment you want to be told."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.references import model_reference, parse
from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import NotFound, UsageError
from envhub.protocol.accounts.notices import ScoreWatchRequest


def watch(
    ctx: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="owner/name, or name for your own.", autocompletion=completing.environments)
    ],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Only for this model.", autocompletion=completing.models)
    ] = None,
    below: Annotated[float | None, typer.Option(help="Notify me of a mean reward below this.")] = None,
    above: Annotated[float | None, typer.Option(help="Notify me of a mean reward above this.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop notifying me.")] = False,
    json: JsonFlag = False,
) -> None:
    """Get notified when a score on an environment is below or above a number; without numbers, list your watches."""
    session, hub = current(ctx), current(ctx).hub.notices
    name = str(parse(session, environment).environment)
    asked = model_reference(session, model) if model else ""
    if remove and (below is not None or above is not None):
        raise UsageError("--remove cannot be combined with --below or --above")
    if remove:
        found = next((one for one in hub.watches(name).items if one.model == asked), None)
        if found is None:
            raise NotFound(f"you do not watch the score of {asked or 'any model'} on {name}")
        hub.unwatch(name, found.id)
    elif below is not None or above is not None:
        hub.watch(name, ScoreWatchRequest(model=asked, below=below, above=above))
    now = hub.watches(name)
    rows = [(one.model or "any", one.below, one.above, one.created_at) for one in now.items]
    session.show(now, lambda: session.table(("model", "below", "above", "since"), rows, "you watch no score here"))
