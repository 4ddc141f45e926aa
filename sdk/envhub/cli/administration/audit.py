"""`hub audit list|export`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.tables import Fit
from envhub.client.audit import AuditFilter

Actor = Annotated[str | None, typer.Option(help="Only what this user did.")]
Action = Annotated[str | None, typer.Option(help='Only this, in the words of the log: "set a secret".')]
Token = Annotated[str | None, typer.Option(help="Only by this token: its first characters, as in `hub token list`.")]
Since = Annotated[str | None, typer.Option(metavar="<time>", help="Only from then on: 2026-01-31 (UTC) or ISO 8601.")]
Until = Annotated[str | None, typer.Option(metavar="<time>", help="Only up to this day, or before this time.")]
OwnerOption = Annotated[str | None, owner_option("Whose (default: yours; for administrators everybody's).")]


def list_entries(
    ctx: typer.Context,
    owner: OwnerOption = None,
    actor: Actor = None,
    action: Action = None,
    token: Token = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    json: JsonFlag = False,
) -> None:
    """List who changed what, newest first."""
    session = current(ctx)
    only = AuditFilter(actor, action, token, since, until)
    found = list(islice(session.hub.audit.list(owner=owner, only=only), limit))
    rows = [(entry.at, entry.actor, entry.action, entry.subject, entry.owner, entry.address) for entry in found]
    columns = ("when", "who", "did", "what", "for", "from")
    session.show(found, lambda: session.table(columns, rows, "nothing yet", Fit(drop=("from", "for"))))


def export(
    ctx: typer.Context,
    target: Annotated[Path, typer.Argument(help="The file to write, one JSON object per line.")],
    owner: OwnerOption = None,
    actor: Actor = None,
    action: Action = None,
    token: Token = None,
    since: Since = None,
    until: Until = None,
    json: JsonFlag = False,
) -> None:
    """Write the log to a file, newest first."""
    session = current(ctx)
    written = session.hub.audit.export(target, owner=owner, only=AuditFilter(actor, action, token, since, until))
    session.show({"file": str(written)}, lambda: session.out.print(f"wrote {written}", markup=False))
