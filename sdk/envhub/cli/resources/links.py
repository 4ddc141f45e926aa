"""`hub share create|list|revoke`: links with which people without an account read one result."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.ids import id_of, index
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.tables import Fit
from envhub.errors import UsageError
from envhub.protocol.accounts.links import ShareLinkRequest

LINK = id_of("a share link", "hub share list")
OBJECT = id_of("an evaluation or a training run", "hub eval list")
FIT = Fit(drop=("opened at", "by", "kind"), wrap=("shows", "note"))
Training = Annotated[bool, typer.Option("--training", help="The id is that of a training run.")]


def _ids(ctx: typer.Context, texts: list[str]) -> list[str]:
    return [OBJECT(ctx, text) for text in texts or ()]  # none while a shell completes


def create(
    ctx: typer.Context,
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="An evaluation; several: their comparison.",
            callback=_ids,
            autocompletion=completing.evaluations,
        ),
    ],
    training: Training = False,
    example: Annotated[
        int | None, typer.Option("--example", help="Only one rollout: its example.", parser=index)
    ] = None,
    rollout: Annotated[int | None, typer.Option("--rollout", help="Its number, from 0.", parser=index)] = None,
    days: Annotated[int | None, typer.Option("--days", min=1, help="How long it works (default: 7 days).")] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            "--until", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="Or the time when it expires, local time."
        ),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="A reminder for you and your team of whom it is for.")] = "",
    json: JsonFlag = False,
) -> None:
    """Create a link to a result that works without an account. Its address is shown only once."""
    session = current(ctx)
    if training and len(ids) > 1:
        raise UsageError("a link can show only one training run", hint="Create one link for each.")
    if example is not None and rollout is None:
        rollout = 0
    request = ShareLinkRequest(
        evaluations=() if training else tuple(ids),
        training=ids[0] if training else "",
        example=example,
        rollout=rollout,
        days=days,
        expires_at=until.astimezone() if until else None,
        note=note,
    )
    made = session.hub.links.create(request)
    session.note(f"{made.link.id} shows {made.link.subject}, until {made.link.expires_at.astimezone():%Y-%m-%d %H:%M}")
    session.show(made, lambda: session.out.print(made.url, markup=False, soft_wrap=True))


def list_links(
    ctx: typer.Context,
    of: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only those that show this evaluation (or training run).")
    ] = None,
    training: Training = False,
    owner: Annotated[str | None, owner_option("Whose links (default: yours).")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    json: JsonFlag = False,
) -> None:
    """List share links, newest first, with how often each was opened."""
    session = current(ctx)
    one = OBJECT(ctx, of) if of else None
    narrowed = {"training" if training else "evaluation": one}
    found = list(islice(session.hub.links.list(owner or session.owner, **narrowed), limit))
    rows = [(item.id, item.kind.value, item.subject, item.note, "revoked" if item.revoked_at else item.expires_at,
             item.opened, item.opened_at, item.created_by) for item in found]  # fmt: skip
    columns = ("id", "kind", "shows", "note", "ends", "opened", "opened at", "by")
    session.show(found, lambda: session.table(columns, rows, "no share links", FIT))


def revoke(
    ctx: typer.Context,
    link_id: Annotated[str, typer.Argument(help="As listed by `hub share list`.", callback=LINK)],
    json: JsonFlag = False,
) -> None:
    """End a link at once."""
    session = current(ctx)
    session.hub.links.revoke(link_id)
    session.show({"revoked": link_id}, lambda: session.out.print("revoked: the link shows nothing any more"))
