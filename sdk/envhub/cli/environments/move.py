"""`hub env move`: another name or owner; `hub env forget`: free a former address."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import UsageError
from envhub.protocol.packages import MoveRequest


def move(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="owner/name.")],
    to: Annotated[str, typer.Argument(help="The new name, or owner/name to give it to a team.")],
    json: JsonFlag = False,
) -> None:
    """Rename an environment or give it to another owner; its former address goes on leading to it."""
    session = current(ctx)
    before, after = parse(session, name), parse(session, to)
    if before.version or after.version:
        raise UsageError("a whole environment is moved, not a version", hint="Leave @VERSION out.")
    wanted = MoveRequest(owner=after.owner if "/" in to else None, name=after.name)
    view = session.hub.environments.move(before.environment, wanted)
    now = f"{view.owner}/{view.name}"
    session.show(view, lambda: session.out.print(f"{before.environment} is now {now}"))


def forget(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The former owner/name.")],
    json: JsonFlag = False,
) -> None:
    """Forget a former address of an environment, so that it can be used again."""
    session = current(ctx)
    former = parse(session, name).environment
    session.hub.environments.forget(former)
    session.show({"forgotten": former}, lambda: session.out.print(f"{former} leads nowhere any more"))
