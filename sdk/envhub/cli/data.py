"""`hub data list|add|refresh|delete`: data sets (and models) that environments load in their boxes, kept by the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.asking import Yes, ask_to_delete
from envhub.cli.progress import transfer
from envhub.cli.session import JsonFlag, current
from envhub.errors import UsageError
from envhub.protocol.data import DataKind

Name = Annotated[str, typer.Argument(help="OWNER/NAME, as in load_dataset.")]
Kind = Annotated[DataKind, typer.Option(help="What it is.")]


def list_data(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List what the hub keeps."""
    session = current(ctx)
    found = list(session.hub.data.list())
    rows = [
        (v.kind, v.repository, v.revision[:10], v.files, v.size, "upstream" if v.upstream else "added") for v in found
    ]
    columns = ("kind", "name", "revision", "files", "bytes", "from")
    session.show(found, lambda: session.table(columns, rows, "nothing yet: `hub data add OWNER/NAME DIR`"))


def add(
    ctx: typer.Context,
    name: Name,
    directory: Annotated[Path, typer.Argument(help="As `hf download` leaves it.", exists=True, file_okay=False)],
    kind: Kind = "dataset",
    json: JsonFlag = False,
) -> None:
    """Upload a directory; from now on it is what `load_dataset(NAME)` gives inside boxes."""
    session = current(ctx)
    total = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    if total == 0:
        raise UsageError(f"{directory} has no files")
    with transfer(session, "uploading", total) as moved:
        view = session.hub.data.add(kind, name, directory, progress=moved)
    files = f"{view.files} file{'s'[: view.files != 1]}"
    session.show(view, lambda: session.out.print(f"{view.repository}: {files} at {view.revision[:10]}"))


def refresh(ctx: typer.Context, name: Name, kind: Kind = "dataset", json: JsonFlag = False) -> None:
    """Pin the newest revision of the operator's Hugging Face endpoint."""
    session = current(ctx)
    view = session.hub.data.refresh(kind, name)
    session.show(view, lambda: session.out.print(f"{view.repository} is at {view.revision[:10]}"))


def delete(ctx: typer.Context, name: Name, kind: Kind = "dataset", yes: Yes = False, json: JsonFlag = False) -> None:
    """Delete a data set or model from the hub's keeping."""
    session = current(ctx)
    ask_to_delete(f"{kind} {name}", yes=yes)
    session.hub.data.delete(kind, name)
    session.show({"deleted": name}, lambda: session.out.print(f"deleted {name}"))
