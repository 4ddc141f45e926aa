"""`hub env move`: another name or owner; `hub env forget`: free a former address; `hub env fork`: begin another."""

from __future__ import annotations

from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import UsageError
from envhub.protocol.registry.packages import ForkRequest, MoveRequest
from envhub.protocol.visibility import Visibility


def move(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="owner/name.", autocompletion=completing.environments)],
    to: Annotated[str, typer.Argument(help="The new name, or owner/name to give it to a team.")],
    json: JsonFlag = False,
) -> None:
    """Rename an environment or give it to another owner; its former address keeps working."""
    session = current(ctx)
    before, after = parse(session, name), parse(session, to)
    if before.version or after.version:
        raise UsageError("you can only move a whole environment, not a version", hint="Leave @VERSION out.")
    wanted = MoveRequest(owner=after.owner if "/" in to else None, name=after.name)
    view = session.hub.environments.move(before.environment, wanted)
    now = f"{view.owner}/{view.name}"
    session.show(view, lambda: session.out.print(f"{before.environment} is now {now}"))


def forget(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The former owner/name.")],
    json: JsonFlag = False,
) -> None:
    """Free a former address of an environment so that it can be reused."""
    session = current(ctx)
    former = parse(session, name).environment
    session.hub.environments.forget(former)
    session.show({"forgotten": former}, lambda: session.out.print(f"{former} leads nowhere any more"))


def fork(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="owner/name or owner/name@version (default: the latest).", autocompletion=completing.environments
        ),
    ],
    to: Annotated[str | None, typer.Argument(help="Its name, or owner/name (default: the same name, yours).")] = None,
    visibility: Annotated[Visibility | None, typer.Option(help="Who may see it (default: as the original).")] = None,
    json: JsonFlag = False,
) -> None:
    """Fork an environment: create another one from a version of it, under you or your team."""
    session = current(ctx)
    origin, target = parse(session, name), parse(session, to) if to else None
    if target is not None and target.version:
        raise UsageError("a fork keeps the version's number", hint="Leave @VERSION out of the second name.")
    wanted = ForkRequest(
        owner=target.owner if target else session.owner,
        name=target.name if target else None,
        version=origin.version_or_latest,
        visibility=visibility,
    )
    view = session.hub.environments.fork(origin.environment, wanted)
    made = f"{view.owner}/{view.name}"
    session.show(view, lambda: session.out.print(
        f"{made} is a fork of {view.forked_from} ({view.visibility}); it is being built: `hub env info {made}`",
        markup=False,
    ))  # fmt: skip
