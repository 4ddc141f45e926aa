"""`hub data list|add|refresh|delete`: what environments load in their boxes, kept by the hub: data sets, models, single
files by their URL, NLTK's packages, tiktoken's encodings, spaCy's models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.progress import transfer
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.client.directories import files_below, size_of
from envhub.errors import UsageError
from envhub.protocol.data import DataKind
from envhub.protocol.registry.files import FileKind

Name = Annotated[str, typer.Argument(help="OWNER/NAME, as in load_dataset.")]
AnyName = Annotated[
    str,
    typer.Argument(
        help="OWNER/NAME, as in load_dataset; the URL of a file; for nltk, tiktoken and spacy the requested name."
    ),
]
Kind = Annotated[DataKind, typer.Option(help="What it is.")]
FILES_HINT = "of a single file say what it is: --kind file, nltk, tiktoken or spacy"
LISTED = Fit(drop=("from", "files", "revision", "bytes"))
AnyKind = Annotated[Literal[DataKind, FileKind], typer.Option(help="What it is.")]


def list_data(ctx: typer.Context, json: JsonFlag = False) -> None:
    """List stored data."""
    session = current(ctx)
    found, files = list(session.hub.data.list()), list(session.hub.data.files())
    rows: list[tuple[object, ...]] = [
        (v.kind, v.repository, v.revision[:10], v.files, v.size, "upstream" if v.upstream else "added") for v in found
    ]
    rows += [(f.kind, f.name, f.sha256[:10], 1, f.size, "upstream" if f.upstream else "added") for f in files]
    columns = ("kind", "name", "revision", "files", "bytes", "from")
    empty = "nothing yet: `hub data add OWNER/NAME DIR`"
    session.show([*found, *files], lambda: session.table(columns, rows, empty, LISTED))


def add(
    ctx: typer.Context,
    name: AnyName,
    path: Annotated[Path, typer.Argument(help="A directory as written by `hf download`, or the file.", exists=True)],
    kind: AnyKind = "dataset",
    revision: Annotated[str, typer.Option(help="Commit or tag that packages pin: load_dataset(..., revision=).")] = "",
    json: JsonFlag = False,
) -> None:
    """Upload a data set's or model's directory, or one file, that code in boxes asks for by this name."""
    session = current(ctx)
    if not (kind == "dataset" or kind == "model"):
        add_file(session, kind, name, path)
        return
    found = files_below(path)
    if not found:
        raise UsageError(f"{path} has no files" if path.is_dir() else f"{path} is no directory", hint=FILES_HINT)
    with transfer(session, "uploading", size_of(found)) as moved:
        view = session.hub.data.add(kind, name, path, revision=revision, progress=moved)
    files = f"{view.files} file{'s'[: view.files != 1]}"
    session.show(view, lambda: session.out.print(f"{view.repository}: {files} at {view.revision[:10]}"))


def add_file(session: Session, kind: FileKind, name: str, path: Path) -> None:
    """One file. Where NLTK keeps a package is told by the folder that it lies in, as in anybody's nltk_data."""
    if not path.is_file():
        raise UsageError(f"{path} is no file", hint=f"of kind {kind} there is one file at a time")
    if kind == "nltk" and "/" not in name and path.resolve().parent.parent.name == "nltk_data":
        folder = path.resolve().parent.name
        name = f"{folder}/{name}" if folder.isidentifier() else name
    with transfer(session, "uploading", path.stat().st_size) as moved:
        view = session.hub.data.add_file(kind, name, path, progress=moved)
    session.show(view, lambda: session.out.print(f"{view.name}: {view.size} bytes, at {view.url}"))


def refresh(ctx: typer.Context, name: Name, kind: Kind = "dataset", json: JsonFlag = False) -> None:
    """Pin the newest revision of the operator's Hugging Face endpoint."""
    session = current(ctx)
    view = session.hub.data.refresh(kind, name)
    session.show(view, lambda: session.out.print(f"{view.repository} is at {view.revision[:10]}"))


def delete(
    ctx: typer.Context, name: AnyName, kind: AnyKind = "dataset", yes: Yes = False, json: JsonFlag = False
) -> None:
    """Delete stored data."""
    session = current(ctx)
    ask_to_delete(session, f"{kind} {name}", yes=yes)
    if kind == "dataset" or kind == "model":
        session.hub.data.delete(kind, name)
    else:
        session.hub.data.delete_file(kind, name)
    session.show({"deleted": name}, lambda: session.out.print(f"deleted {name}"))
