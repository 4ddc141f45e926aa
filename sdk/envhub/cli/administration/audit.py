"""`hub audit list|export`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.tables import Fit

OwnerOption = Annotated[str | None, owner_option("Whose (default: yours; for administrators everybody's).")]


def list_entries(
    ctx: typer.Context,
    owner: OwnerOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    json: JsonFlag = False,
) -> None:
    """List who changed what, newest first."""
    session = current(ctx)
    found = list(islice(session.hub.audit.list(owner=owner), limit))
    rows = [(entry.at, entry.actor, entry.action, entry.subject, entry.owner, entry.address) for entry in found]
    columns = ("when", "who", "did", "what", "for", "from")
    session.show(found, lambda: session.table(columns, rows, "nothing yet", Fit(drop=("from", "for"))))


def export(
    ctx: typer.Context,
    target: Annotated[Path, typer.Argument(help="The file to write, one JSON object per line.")],
    owner: OwnerOption = None,
    json: JsonFlag = False,
) -> None:
    """Write the whole log to a file, newest first."""
    session = current(ctx)
    written = session.hub.audit.export(target, owner=owner)
    session.show({"file": str(written)}, lambda: session.out.print(f"wrote {written}", markup=False))
